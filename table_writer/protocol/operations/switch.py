"""The switch: the one metastore call after which readers see the rows of a publish.

Elsewhere, ``adopt.py`` points an unpartitioned table back at its rows, and
``in_place.py`` copies the files of an append in place to where readers look. In AWS Glue
a partitioned table has no such call: there each partition switches whole, and partitions one after another.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial

from table_writer.errors import (
    ConflictError,
    InvalidInputError,
    LostResponseError,
    MetastoreError,
    OutcomeUnknownError,
    PartitionMissingError,
    StorageError,
    TableWriterError,
    counted,
)
from table_writer.metastore.hive_objects import TableChangedError
from table_writer.metastore.protocol import Metastore
from table_writer.model.entry import EntryPartition, LogEntry, Outcome
from table_writer.model.location import Location
from table_writer.model.table import (
    VERSION_PARAMETER,
    WRITE_ID_PARAMETER,
    Partition,
    PartitionChange,
    PartitionsNow,
    PartitionValues,
    Table,
    locations,
)
from table_writer.model.write import TableLayout
from table_writer.protocol.log.deadline import Deadline
from table_writer.protocol.log.rules import Effect, PartitionState, effect, partition_state
from table_writer.protocol.log.slots import StoredOutcome
from table_writer.protocol.loop import outcome_unknown, with_note
from table_writer.protocol.operations.in_place import add_files
from table_writer.protocol.operations.parameters import (
    NO_FILES,
    added_parameters,
    new_parameters,
    stale_parameters,
    with_columns_of,
)
from table_writer.protocol.operations.statistics import Statistics, StatisticsResult
from table_writer.protocol.operations.success import mark_partitions
from table_writer.protocol.table.open_table import OpenTable, partly_published_error
from table_writer.storage.object_store import ObjectInfo, ObjectStore
from table_writer.storage.table_files import written_placeholders

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Switch:
    """Carries out a claimed entry in the metastore, which must not retry calls that change something.

    No call is sent that could end, after ``call_timeout_seconds``, after the claim's own timeout.
    """

    metastore: Metastore
    store: ObjectStore
    layout: TableLayout
    call_timeout_seconds: float
    counts: Callable[[LogEntry, Mapping[str, str]], bool]
    """Tells of a partition's parameters whether they count the files that an entry adds."""

    def apply(self, table: Table, entry: LogEntry, now: PartitionsNow, deadline: Deadline) -> tuple[str, ...]:
        """Point every partition of the entry at its new location, in one metastore transaction where there are such.

        Nothing replaced: one add. Otherwise one alter; partitions that do not exist are first added, each at a location
        of its own without files, so that no row appears before the alter. Those that shall not exist are emptied in the
        same alter and dropped afterwards. Returns what is left to do: partitions without rows that could not be dropped
        yet. Then the entry must stay in doubt.

        Raises ``OutcomeUnknownError`` if the metastore's answer was lost, and the change cannot be seen: it may yet be
        applied. ``MetastoreError``: the metastore refused; nothing changed.
        """
        in_time = partial(self.require_time, entry, deadline)
        try:
            if now:
                self._alter(table, entry, now, in_time)
            else:
                added = [
                    Partition(
                        values=partition.values,
                        location=partition.new_location,
                        parameters=new_parameters(entry, partition, self.layout),
                    )
                    for partition in entry.partitions
                    if partition.new_location is not None
                ]
                self.metastore.add_partitions(table, added, before_send=in_time)
        except MetastoreError as error:
            self._read_back(table, entry, now, error)
        return self._drop(table, entry, in_time)

    def require_time(self, entry: LogEntry, deadline: Deadline) -> None:
        """Raise ``MetastoreError`` if a call could end after the claim's time."""
        if not deadline.allows(self.call_timeout_seconds):
            raise MetastoreError(
                f"{entry.publish_timeout_seconds:g} s were not enough to publish; nothing was sent after them."
                " Look at the metastore's load, or raise publish_timeout_seconds, and retry.",
                **entry.named,
            )

    def _alter(self, table: Table, entry: LogEntry, now: PartitionsNow, in_time: Callable[[], None]) -> None:
        present = dict(now)
        for _ in range(3):  # another tool may drop a partition between our look and the alter
            missing = [p for p in entry.partitions if p.values not in present and p.new_location is not None]
            if missing:
                placeholders = [
                    Partition(values=partition.values, location=self._empty(entry, partition), parameters=NO_FILES)
                    for partition in missing
                ]
                self.metastore.add_partitions(table, placeholders, before_send=in_time)
                present |= {partition.values: partition for partition in placeholders}
            try:
                named = (partition for partition in entry.partitions if partition.values in present)
                changes = [self._partition_change(entry, partition, present[partition.values]) for partition in named]
                return self.metastore.alter_partitions(table, changes, before_send=in_time)
            except PartitionMissingError:
                logger.warning("write_id=%s a partition vanished before the switch; adding it again", entry.write_id)
                present = dict(self.metastore.get_partitions(table, [p.values for p in entry.partitions]))
        raise PartitionMissingError(
            f"partitions of {table.name} vanish as fast as they are added: another tool is dropping them",
            table=str(table.name),
            write_id=entry.write_id,
        )

    def _empty(self, entry: LogEntry, partition: EntryPartition) -> str:
        return str(self.layout.placeholder(entry.write_id, partition.values))

    def _drop(self, table: Table, entry: LogEntry, in_time: Callable[[], None]) -> tuple[str, ...]:
        """Drop what was emptied, if it is still empty. Readers see no rows there already, so a failure is a note.

        A partition to which another tool has written since has that tool's rows, and stays.
        """
        emptied = [partition.values for partition in entry.partitions if partition.new_location is None]
        try:
            now = self.metastore.get_partitions(table, emptied) if emptied else {}
            written = written_placeholders(self.store, self.layout, now)
            for values, present in now.items():
                location = Location.parse_any(present.location)
                if location is not None and values not in written and self.layout.is_placeholder(location):
                    self.metastore.drop_partition(table, values, before_send=in_time)
        except (MetastoreError, StorageError) as error:
            logger.warning("write_id=%s emptied partitions were not dropped yet: %s", entry.write_id, error)
            todo = f"{counted(len(emptied), 'partition')} without rows still to be dropped ({error.message});"
            return (f"{todo} `table-writer recover` does it.",)
        return ()

    def _partition_change(self, entry: LogEntry, partition: EntryPartition, current: Partition) -> PartitionChange:
        """Move a partition; one to be dropped stays at its placeholder: others may have written there."""
        is_empty = self.layout.is_placeholder(Location.parse(current.location))
        empty = current.location if is_empty else self._empty(entry, partition)
        new = new_parameters(entry, partition, self.layout)
        if not partition.holds_all:
            location = Location.parse(current.location)
            stays = location.same_place(Location.parse(str(partition.new_location)))  # not where a late call put it
            known = current.parameters if stays and self.layout.write_id_of(location) is not None else {}
            new = added_parameters(new, known, is_counted=self.counts(entry, known))
        change = PartitionChange(
            partition=current,
            location=partition.new_location or empty,
            set_parameters=new,
            removed_parameters=stale_parameters(current.parameters, new),
        )
        return with_columns_of(change, entry.schema, entry.columns_by)

    def _read_back(self, table: Table, entry: LogEntry, before: PartitionsNow, error: MetastoreError) -> None:
        """Look whether a call that failed took effect after all; ``before`` is what was there at the look.

        A refusal is not believed where an older call of ours has been since: it may have come after the switch. Of
        calls that change some partitions each, one without an answer is left in doubt: an earlier one may have done
        what is seen, and it may yet come.
        """
        if isinstance(error, LostResponseError) and not self.metastore.switches_at_once(table):
            raise outcome_unknown(entry, error) from error
        try:
            now = self.metastore.get_partitions(table, [partition.values for partition in entry.partitions])
        except MetastoreError as failure:
            logger.warning("write_id=%s reading back failed as well: %s", entry.write_id, failure)
            raise outcome_unknown(entry, error) from error
        writers = {values: partition.parameters.get(WRITE_ID_PARAMETER) for values, partition in now.items()}
        sent_values = frozenset(values for values, write_id in writers.items() if write_id == entry.write_id)
        found = states(entry, now, self.layout, sent_values)
        seen = effect(found.values())
        if seen is Effect.ALL:
            logger.warning("write_id=%s the metastore's answer was lost, the switch took effect", entry.write_id)
            return
        changed = any(self._has_come(partition, now.get(values), error) for values, partition in before.items())
        if seen is Effect.SOME or isinstance(error, LostResponseError) or changed:
            raise outcome_unknown(entry, error) from error
        raise error

    def _has_come(self, before: Partition, now: Partition | None, error: MetastoreError) -> bool:
        """Return whether another call of ours may have changed a partition; a ``TableChangedError`` denies it."""
        if isinstance(error, TableChangedError):
            return False
        if now is None:
            return not isinstance(error, PartitionMissingError)
        if now.parameters.get(WRITE_ID_PARAMETER) != before.parameters.get(WRITE_ID_PARAMETER):
            return True
        location, earlier = Location.parse_any(now.location), Location.parse_any(before.location)
        if location is None or self.layout.write_id_of(location) is None:
            return False
        return earlier is None or not location.same_place(earlier)


def states(
    entry: LogEntry, now: PartitionsNow, layout: TableLayout, copied: Collection[PartitionValues] = ()
) -> dict[PartitionValues, PartitionState]:
    """Return where each partition of an entry stands; ``copied`` are those whose appends in place are done."""
    found = locations(now)
    return {
        partition.values: partition_state(
            partition, found.get(partition.values), layout, copied=partition.values in copied
        )
        for partition in entry.partitions
    }


class ClaimedEntries:
    """Carries claimed entries out, and records how they ended."""

    def __init__(self, opened: OpenTable) -> None:
        self._opened = opened
        self._log = opened.log
        self._store = opened.store
        self.statistics = Statistics(opened)
        timeout = opened.config.metastore_timeout_seconds
        self._switch = Switch(
            opened.metastore, opened.store, opened.layout, call_timeout_seconds=timeout, counts=self._counts
        )

    def in_time(self, entry: LogEntry, deadline: Deadline) -> None:
        """Raise ``MetastoreError`` if no call of this entry may be sent any more."""
        self._switch.require_time(entry, deadline)

    def carry_out(
        self,
        table: Table,
        entry: LogEntry,
        now: PartitionsNow,
        deadline: Deadline,
        files: Mapping[str, ObjectInfo] | None = None,
    ) -> tuple[str, ...]:
        """Make readers see what the entry says, and record that.

        ``files`` are those that an append in place adds, as they were just listed; ``None``: they are listed here.
        Returns what a person should know of steps that failed after readers had switched: none of that is a failure of
        the write. Raises ``OutcomeUnknownError`` if the switch may or may not have taken effect; the entry stays in
        doubt. ``MetastoreError`` or ``InvalidInputError``: the metastore refused; nothing changed, and the entry is on
        record as abandoned. So it is after a ``ConflictError``: a recovery had given it up before its call came.
        """
        try:
            forgotten = self.statistics.forget(table, entry, now, deadline)
        except KeyboardInterrupt as stopped:
            raise with_note(stopped, entry) from None
        left_to_do = self.switch(table, entry, now, deadline, files)
        if left_to_do:
            return left_to_do
        statistics_result = StatisticsResult()
        try:
            if left_to_do is not None:  # None: others have carried the entry out, and may have moved on
                forgotten = self.statistics.forget(table, entry, now, deadline) if forgotten.notes else forgotten
                statistics_result = self.statistics.tell(table, entry, deadline)
        except KeyboardInterrupt as stopped:
            raise with_note(stopped, entry) from None
        notes = forgotten.notes + statistics_result.notes
        if statistics_result.is_open:
            return notes
        try:
            if forgotten.is_late or statistics_result.is_late:
                self._log.marks.remember_recovery(entry.version)  # whoever comes next compares
            stored_outcome = self._log.slots.record_outcome(
                entry.version, Outcome.PUBLISHED, write_id=entry.write_id, of=entry.write_id
            )
        except TableWriterError as error:
            logger.warning("write_id=%s published, but its outcome was not recorded: %s", entry.write_id, error)
            others = self._recorded_outcome(entry)
            if others is None:
                note = f"published, but the log could not record it ({error.message}); the next write resolves it."
                return (*notes, note)
            stored_outcome = others
        require_all_published(entry, stored_outcome, table)
        try:
            return notes + mark_partitions(self._opened, table, entry)
        except KeyboardInterrupt as stopped:
            stopped.add_note(f"version {entry.version} is published; _SUCCESS of its partitions may be missing or left")
            raise

    def switch(
        self,
        table: Table,
        entry: LogEntry,
        now: PartitionsNow,
        deadline: Deadline,
        files: Mapping[str, ObjectInfo] | None = None,
    ) -> tuple[str, ...] | None:
        """Do only the switch; the caller records the outcome, unless something is left to do.

        ``None``: others have ended the entry, one way or the other.
        Files are added in place last: what the metastore refuses, nobody has seen any of.
        """
        try:
            notes = self._switch.apply(table, entry, now, deadline)
            self._add_files(entry, files, deadline)
        except (MetastoreError, InvalidInputError, OutcomeUnknownError) as failure:
            if self._recorded_outcome(entry) is not None:  # others have seen it, or carried it out, and moved on since
                return None
            if not isinstance(failure, OutcomeUnknownError):
                self.abandon(entry, failure)
            raise
        except KeyboardInterrupt as stopped:
            raise with_note(stopped, entry) from None
        return notes

    def _counts(self, entry: LogEntry, parameters: Mapping[str, str]) -> bool:
        """Return whether the entry with these parameters has counted the files of this one, or of one that it recovers.

        Every entry of this log has that came after the first one that adds them: nobody claims over an entry in doubt
        but to do the same. Two recoveries may be at it at once, the older one's call after the newer one's.
        """
        version, first = parameters.get(VERSION_PARAMETER, ""), entry
        while first.recovers is not None and (earlier := self._log.slots.find(first.recovers)) is not None:
            first = earlier.entry
        newest = self._log.slots.find(int(version)) if version.isdecimal() and int(version) >= first.version else None
        return newest is not None and newest.entry.write_id == parameters.get(WRITE_ID_PARAMETER)

    def _add_files(self, entry: LogEntry, files: Mapping[str, ObjectInfo] | None, deadline: Deadline) -> None:
        """Copy the files of an append in place; from the first copy on the entry can only be rolled forward."""

        def in_time() -> None:
            if deadline.is_over():
                raise StorageError(
                    f"{entry.publish_timeout_seconds:g} s were not enough to add"
                    f" {counted(sum(len(partition.targets()) for partition in entry.partitions), 'file')}, not all are"
                    " there. Raise"
                    " publish_timeout_seconds.",
                    **entry.named,
                )

        try:
            add_files(self._store, entry.partitions, files, before_send=in_time)
        except StorageError as error:
            raise outcome_unknown(entry, error) from error

    def _recorded_outcome(self, entry: LogEntry) -> StoredOutcome | None:
        """Return what others have recorded of how an entry has ended; ``None`` if nothing, or nobody can read it."""
        try:
            return self._log.slots.stored_outcome(entry.version)
        except TableWriterError as error:
            logger.warning("write_id=%s its outcome cannot be read: %s", entry.write_id, error)
            return None

    def abandon(self, entry: LogEntry, refusal: TableWriterError) -> None:
        """After a refusal, record that nothing was published, unless somebody may be rolling the entry forward.

        Whoever does that has taken the last word. Partitions that were added empty stay: a drop that arrives late would
        remove a partition that others have published since. A recovery that is refused says nothing of what it
        recovers: it only lets the next one go on.
        """
        try:
            if entry.meaning.repeats:
                self._log.marks.release_recovery(entry.version)
                return
            word = self._log.marks.take_last_word(entry.version, entry.write_id)
            is_ours = word == entry.write_id
            stored_outcome = (
                self._log.slots.record_outcome(entry.version, Outcome.ABANDONED, write_id=word, of=word)
                if is_ours
                else None
            )
        except TableWriterError as failure:
            logger.warning("write_id=%s giving up failed: %s", entry.write_id, failure)
            raise outcome_unknown(entry, refusal) from refusal
        if stored_outcome is None or stored_outcome.outcome is not Outcome.ABANDONED:
            raise outcome_unknown(entry, refusal) from refusal


def require_all_published(entry: LogEntry, stored_outcome: StoredOutcome, table: Table) -> None:
    """Refuse to call an entry published of which the log says otherwise: another tool was there before a recovery."""
    if stored_outcome.outcome is not Outcome.PUBLISHED:
        raise ConflictError(
            f"write {entry.write_id} of {entry.table} (version {entry.version}) is on record as abandoned: its process"
            " was paused past its claim, and a recovery has found that another tool had changed its partitions."
            f" Run `table-writer recover {entry.table}`, which undoes a call of it that came late, and run it again.",
            **entry.named,
        )
    if stored_outcome.superseded:
        raise partly_published_error(entry, stored_outcome.superseded, table)
