"""Correct late calls: point partitions back to where the log says that they belong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from table_writer.errors import ConflictError, MetastoreError, StorageError, counted
from table_writer.model.contents import Contents
from table_writer.model.entry import EntryPartition, Outcome
from table_writer.model.location import Location, same_place
from table_writer.model.table import Partition, PartitionsNow, PartitionValues, Table, locations
from table_writer.protocol.log.history import History
from table_writer.protocol.log.listing import Listing
from table_writer.protocol.log.placements import Placement
from table_writer.protocol.log.rules import PartitionState
from table_writer.protocol.loop import AGAIN, Again, Prepare
from table_writer.protocol.operations.entry import columns_of, there_under_other_names
from table_writer.protocol.operations.evidence import Evidence
from table_writer.protocol.operations.parameters import COUNT_PARAMETERS
from table_writer.protocol.operations.recovery import RecoveredEntry, Recovery
from table_writer.protocol.table.open_table import OpenTable
from table_writer.storage.table_files import files_read_at, written_placeholders

MOST_ROUNDS = 20  # corrections of one partition that moves again meanwhile


@dataclass(frozen=True, kw_only=True, slots=True)
class RecoveryResult:
    """The entries that were resolved and corrected, and the placement of each partition of the log now."""

    resolved: tuple[RecoveredEntry, ...]
    corrected: tuple[RecoveredEntry, ...]
    placements: Mapping[PartitionValues, Placement]
    taken: frozenset[PartitionValues]  # a late call took them to a placeholder, where another tool has written since


@dataclass(frozen=True, slots=True)
class _Comparison:
    """The partitions of the log as the metastore has them."""

    placements: Mapping[PartitionValues, Placement]
    taken: frozenset[PartitionValues]  # at a placeholder to which another tool has written: left alone
    was_right: bool = True  # nothing was behind
    corrected: RecoveredEntry | None = None  # what was done again; not all that was behind, or others were faster


class Correction:
    """Undoes late calls, each by a recover entry over what it has moved."""

    def __init__(self, opened: OpenTable, recovery: Recovery | None = None) -> None:
        self._opened, self._recovery = opened, recovery or Recovery(opened)
        self._log, self._layout, self._metastore = opened.log, opened.layout, opened.metastore
        self._evidence = Evidence(opened)
        self._verified_at: tuple[int, frozenset[int]] | None = None
        """The newest version, and the recoveries, when all partitions were compared: their marks may have to stay."""

    def resolve_all(self, table: Table) -> RecoveryResult:
        """Resolve what is in doubt, and correct what the metastore has applied late, until nothing is left."""
        done: list[RecoveredEntry] = []
        corrected: list[RecoveredEntry] = []
        rounds: Counter[PartitionValues] = Counter()  # a metastore that was set back has many versions to correct
        while max(rounds.values(), default=0) < MOST_ROUNDS:
            history, recovered = self._recovery.resolve_in_doubt(table)
            done += recovered
            seen = self._verify(table, history)
            if seen.was_right:
                return RecoveryResult(
                    resolved=tuple(done), corrected=tuple(corrected), placements=seen.placements, taken=seen.taken
                )
            corrected += [seen.corrected] if seen.corrected else []
            again = seen.corrected.partitions if seen.corrected else ()
            rounds.update(again or list(seen.placements))  # a mapping would add its values
        raise MetastoreError(
            f"partitions of {table.name} were corrected {MOST_ROUNDS} times, and are elsewhere again: another tool"
            " moves them. Stop it, and call again.",
            table=str(table.name),
        )

    def needed(
        self, table: Table, values: Collection[PartitionValues], now: PartitionsNow, listing: Listing
    ) -> Prepare | Again | None:
        """Return what is to be done about late calls before anybody builds on partitions; ``None``: nothing.

        It only reads, and nothing without a recovery: no call of this library was left unanswered then. After one,
        these partitions are compared with the newest published entries; and all of the log's once, by whoever comes
        first when no call can come late any more. An unpartitioned table is always compared with the newest entry: any
        ALTER TABLE that was read before a publish and written after it takes the old location back.
        """
        moved = () in now and not self._is_where_published(now[()], listing.newest)
        if not moved and not listing.unverified:
            return None
        here = locations(now)
        history = self._log.explained_history(self._log.read_recent(), here)
        if history.newest > listing.newest:  # a newer entry may have moved them, and be in doubt: compare it first
            return AGAIN
        is_alone = not history.records.publishes_in_doubt  # otherwise two claims would be at one partition
        verifiable = self._verifiable(history) if is_alone else frozenset()
        if verifiable and self._verified_at != (history.newest, verifiable):
            self._verified_at = (history.newest, verifiable)
            return Prepare(partial(self._verify, table, history))
        placements, taken = self._placements(history, values, now)
        if taken:
            raise ConflictError(
                f"another tool has written to {counted(len(taken), 'partition')} of {table.name} at"
                f" {here[min(taken)]}, to which a call that came late had taken them: readers see its rows, and not"
                " those that were published. Nothing was published. Keep its files elsewhere, point the partitions"
                f" back with ALTER TABLE {table.name.sql}{' PARTITION (…)' if table.partition_columns else ''} SET"
                f" LOCATION …, and write its rows as well; or replace them with {table.overwrite_call}.",
                table=str(table.name),
            )
        if Placement.BEHIND not in placements.values():
            return None
        return Prepare(partial(self._correct, table, history, placements, now))

    def _placements(
        self, history: History, wanted: Collection[PartitionValues], now: PartitionsNow
    ) -> tuple[dict[PartitionValues, Placement], frozenset[PartitionValues]]:
        """Compare partitions with the log; also return those at a placeholder to which another tool has written.

        These are left alone: the tool's rows are nowhere else.
        """
        here = locations(now)
        placements = history.placements.of_all(here, wanted)
        gone = [values for values, where in placements.items() if where is Placement.BEHIND and values not in now]
        placements |= dict.fromkeys(there_under_other_names(self._metastore, self._opened.table, gone), Placement.MOVED)
        behind = {
            values: now[values] for values, where in placements.items() if where is Placement.BEHIND and values in now
        }
        written = written_placeholders(self._log.store, self._layout, behind)
        for values in (values for values, where in placements.items() if where is Placement.IN_PLACE and values in now):
            parameters = now[values].parameters
            if not COUNT_PARAMETERS.isdisjoint(parameters) and history.placements.has_late_parameters(
                values, parameters
            ):
                placements[values] = Placement.BEHIND  # its rows are there, their figures are those of an older version
        for values in written:
            current = history.state.current_partitions.get(values)
            is_gone = current is not None and current.partition.new_location is None
            placements[values] = Placement.IN_PLACE if is_gone else Placement.MOVED
        return placements, frozenset(values for values in written if placements[values] is Placement.MOVED)

    def _verify(self, table: Table, history: History) -> _Comparison:
        """Compare all partitions of the log with the metastore, and correct some that are behind.

        If nothing was, nobody has to look again after recoveries of before which no call could come any more.
        """
        verifiable = self._verifiable(history)  # asked first: a call may come between a look and the question
        known = history.placements.known_values
        now = self._metastore.get_partitions(table, sorted(known))
        if history.needs_entries(locations(now)):
            return self._verify(table, self._recovery.resolved_history(table)[0])
        placements, taken = self._placements(history, known, now)
        if Placement.BEHIND in placements.values():
            corrected = self._correct(table, history, placements, now)
            return _Comparison(placements, taken, was_right=False, corrected=corrected)
        are_right = not history.unverified or self._opened.correct_statistics(history, placements)
        if not taken and are_right:
            self._log.marks.forget_recoveries(verifiable)
        return _Comparison(placements, taken)

    def _verifiable(self, history: History) -> frozenset[int]:
        """Return the recoveries of before which calls may have come late, and none can any more."""
        return self._log.marks.past_calls(history.unverified or ())

    def _is_where_published(self, whole_table: Partition, newest: int) -> bool:
        """Return whether an unpartitioned table is where the newest published entry, if any, has put it."""
        for version in range(newest, 0, -1):
            record = self._log.slots.find(version)
            is_published = record is not None and record.outcome is Outcome.PUBLISHED
            partitions = record.entry.partitions if record is not None and is_published else ()
            if partitions and partitions[0].new_location is not None:
                return Location.parse(whole_table.location).same_place(Location.parse(partitions[0].new_location))
        return True

    def _correct(
        self, table: Table, history: History, placements: Mapping[PartitionValues, Placement], now: PartitionsNow
    ) -> RecoveredEntry | None:
        """Undo a call that the metastore applied late: point partitions to where they belong.

        One entry at a time is done again; the caller reads the log and calls again until nothing is behind.
        """
        here = locations(now)
        entries = history if history.fold is None else self._log.read_history()  # a newer one has taken the slot by now
        behind: dict[int, list[EntryPartition]] = {}
        for values in (values for values, where in placements.items() if where is Placement.BEHIND):
            version, target = self._target_of(entries, values, here.get(values))
            location = target.new_location
            content = entries.past.content_at(values, Location.parse(location)) if location else None
            moved = replace(content or target, old_location=here.get(values), new_location=location)
            moved = self._with_listed_figures(replace(moved, source=None, added=()))
            behind.setdefault(version, []).append(moved)
        oldest = min(behind)
        lost = self._evidence.lost_files(behind[oldest], dict.fromkeys(placements, PartitionState.BEFORE))
        if lost:
            raise StorageError(
                f"where version {oldest} has published rows of {table.name}, {counted(len(lost), 'partition')} cannot"
                f" be put back: {min(lost.values())}. Nothing was changed. Bring the files back from older versions of"
                f" the bucket's objects; or replace the partitions with {table.overwrite_call}.",
                table=str(table.name),
            )
        record = self._log.slots.read(oldest)
        record = replace(record, entry=replace(record.entry, **columns_of(entries, oldest, now)))
        return self._recovery.recover(record, table, end=history.end, behind=behind[oldest])

    def _target_of(self, history: History, values: PartitionValues, here: str | None) -> tuple[int, EntryPartition]:
        """Return what a partition is to be put back to, and the version whose late call, or whose rows, that is about.

        A late call may have taken it from where a recovery had found it: another tool's place, or none.
        """
        belongs, newest = history.placements.correction_of(values, here), history.state.current_partitions.get(values)
        if newest is not None and (belongs is None or same_place(belongs.location, newest.partition.new_location)):
            return newest.version, newest.partition
        version, location = (belongs.version, belongs.location) if belongs else (0, here)
        return version, EntryPartition.without_rows(values, location)

    def _with_listed_figures(self, partition: EntryPartition) -> EntryPartition:
        """Return a partition that only gets its figures again, or has none, with those of all that is there."""
        location = Location.parse_any(partition.new_location or "")
        if location is None or (partition.files and not same_place(partition.old_location, partition.new_location)):
            return partition
        listed = Contents.of(files_read_at(self._opened.store, self._layout, location))
        if listed == partition.contents:
            return partition
        return replace(partition, **listed._asdict(), rows=None, raw_bytes=None, figures="")
