"""A write builds on the metastore's answers, and refuses those that the log shows to be old or incomplete.

Nothing says that reads of AWS Glue follow its writes, and each role is shown what it may see. An append that takes an
old answer for today's copies the rows of then, or points readers back at them, and what was published since is gone.
The answer itself says how old it is: each publish leaves its version in the parameters. So the log is asked only about
what came after that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from table_writer.errors import ConflictError, PartitionExistsError, counted
from table_writer.metastore.settings import GLUE_SCHEME
from table_writer.model.entry import EntryPartition, LogEntry, Outcome
from table_writer.model.location import Location
from table_writer.model.table import VERSION_PARAMETER, Partition, PartitionsNow, PartitionValues, Table, shown_name
from table_writer.model.write import new_write_id
from table_writer.protocol.log.known_log import (
    UnknownPublish,
    is_newer,
    overwritten_versions,
    published_version,
    refuse_unknown_publishes,
    unknown_publishes,
)
from table_writer.protocol.log.listing import Listing
from table_writer.protocol.log.marks import LATE_CALL_SECONDS
from table_writer.protocol.log.records import LogEnd, SlotRecord
from table_writer.protocol.log.state import CurrentPartition
from table_writer.protocol.operations.parameters import NO_FILES
from table_writer.protocol.table.open_table import OpenTable
from table_writer.storage.object_store import many
from table_writer.storage.table_files import files_at, without_marker

logger = logging.getLogger(__name__)
WAIT_SECONDS: Final = (0.1, 0.4, 1.5)  # before an answer that may be old is asked for again
MOST_ENTRIES: Final = 16  # that are read singly, several at a time; for more, the fold is read
NEWEST: Final = "newest version of this process"  # in what the process remembers of a table
MOST_PASSED_OVER: Final = 64  # entries that have put nothing anywhere, newer than the newest that has: mostly vacuums


def confirmed_partitions(opened: OpenTable, table: Table, now: PartitionsNow, newest: int) -> PartitionsNow:
    """Return where partitions are, asked again for as long as the log says that one was moved away from there since.

    Costs nothing for a partition that the newest version has put where it is. ``ConflictError``: it stays there, so
    either all answers are old, or somebody has put it back by hand; nothing was published.
    """
    log = _RecentEntries(opened, newest)
    moved_away = log.moved_away(now)
    for wait in WAIT_SECONDS if log.may_be_old else (0.0,):
        if not moved_away:
            return now
        logger.warning(
            "partitions of %s are shown where the log has left them, asking again: %s", table.name, moved_away
        )
        opened.sleep(wait)
        now = opened.metastore.get_partitions(table, sorted(now))
        moved_away = log.moved_away(now)
    if not moved_away:
        return now
    values = min(moved_away)
    raise ConflictError(
        f"the metastore at {opened.metastore.uri} shows {counted(len(moved_away), 'partition')} of {table.name} where"
        f" version {moved_away[values]} of the log has left them, such as {shown_name(table, values)} at"
        f" {now[values].location}: its answer is old, or another tool has put them back. On that nothing is built:"
        " rows that were published since"
        f" would be lost. Nothing was published. Run it again later; if it stays, `table-writer recover {table.name}`"
        f" points readers at the newest rows, `table-writer rollback` at older ones, and {table.overwrite_call}"
        " replaces them.",
        table=str(table.name),
    )


def has_grown(opened: OpenTable, table: Table, now: PartitionsNow, end: LogEnd, *, compares: bool) -> bool:
    """Return whether others have published since the log was read, as partitions show.

    Refuses what another log has published, or no version of this one. Who builds on rows ``compares`` the writes as
    well: a log that was set back gives its lost numbers again, and a repeated append may be one that it has lost.
    """
    if not _unknown_publishes(opened, now, end.newest, compares=compares):
        return False
    newest = opened.log.lister.read(listed_after=min({end.newest, *(version - 1 for version in end.in_doubt)})).newest
    unknown = _unknown_publishes(opened, now, newest, compares=compares)
    refuse_unknown_publishes(opened.store, opened.layout, table, unknown, newest)
    return newest > end.newest


def _unknown_publishes(
    opened: OpenTable, now: PartitionsNow, newest: int, *, compares: bool
) -> tuple[UnknownPublish, ...]:
    slots, own_version = opened.log.slots, opened.memory.get((NEWEST, opened.layout.own.place))
    unknown = unknown_publishes(now, opened.layout, slots.log_id, newest)
    if unknown or not compares:
        return unknown
    others = {key: shown for key, shown in now.items() if published_version(shown, slots.log_id) != own_version}
    return overwritten_versions(others, opened.layout, slots.log_id, slots.find_entry)


def are_as_published(
    opened: OpenTable, table: Table, values: Collection[PartitionValues], now: PartitionsNow, listing: Listing
) -> bool:
    """Return whether the log is as it was listed; refuse a metastore that was set back.

    A metastore that was restored from a backup has partitions at older rows, and lacks those that came since. Where one
    of the newest versions has published all that is to be changed, :func:`confirmed_partitions` holds it against the
    entries since. For all else one partition of the newest published entry is looked at: only if it is not as that has
    published it, the state of the whole log is read. ``ConflictError``: nothing was published.
    """
    newest, log_id = listing.newest, opened.log.slots.log_id
    shown = {key: published_version(partition, log_id) for key, partition in now.items()}
    is_told = all(shown.get(key) and newest - shown[key] <= MOST_ENTRIES for key in values)
    if not newest or is_told or not table.partition_columns or opened.metastore.uri.startswith(GLUE_SCHEME):
        return True
    if _shows_the_newest(opened, table, now, listing):
        return True
    history = opened.log.read_recent()
    if history.newest > newest:  # a newer entry may have moved it
        return False
    current = history.state.current_partitions
    here = opened.metastore.get_partitions(table, sorted(current))
    older = [key for key in here if _is_older(opened, here[key], current[key])]
    if older:
        key = min({*older}.intersection(values) or older)
        raise ConflictError(
            f"the metastore at {opened.metastore.uri} shows {counted(len(older), 'partition')} of {table.name} as an"
            f" older version has published it, such as {shown_name(table, key)} at {here[key].location}, which version"
            f" {current[key].version} has published since: it was set back to an earlier state, as by a backup, or"
            " another tool has put partitions back. On that nothing is built: rows that were published since would be"
            f" lost. Nothing was published. `table-writer recover {table.name}` points readers at the newest rows of"
            f" what is there, and `table-writer restore {table.name}` also adds what was published since the backup."
            " Then run this again. Or `table-writer rollback`, if the older rows are meant.",
            table=str(table.name),
        )
    return True


def _shows_the_newest(opened: OpenTable, table: Table, now: PartitionsNow, listing: Listing) -> bool:
    """Return whether the metastore shows what the newest published entry has put somewhere; also if none has.

    One read of the log, unless vacuums or entries that have changed nothing came after it, and one of the metastore. An
    entry of which readers see a partition needs no outcome for that.
    """
    log, later = opened.log, set[PartitionValues]()
    not_listed = range(min(listing.versions, default=listing.newest + 1) - 1, 0, -1)
    for version in islice(chain(sorted(listing.versions, reverse=True), not_listed), MOST_PASSED_OVER):
        entry = log.slots.find_entry(version)
        placed = [] if entry is None else [named for named in entry.partitions if named.values not in later]
        probe = min(
            (named for named in placed if named.new_location is not None),
            key=lambda named: named.old_location is None,  # best one that there was before: others are dropped sooner
            default=None,
        )
        if entry is not None and probe is not None:
            seen = now if probe.values in now else opened.metastore.get_partitions(table, [probe.values])
            shown = seen.get(probe.values)
            if shown is not None and _is_as_published(opened, shown, probe, entry):
                return True
            record = log.slots.find(version)
            if record is not None and record.has_changed and probe.values not in record.superseded:
                return False
            if record is not None and record.outcome is Outcome.ABANDONED:
                continue
        later |= {named.values for named in placed}
    return listing.newest <= MOST_PASSED_OVER


def _is_as_published(opened: OpenTable, shown: Partition, named: EntryPartition, entry: LogEntry) -> bool:
    """Return whether a partition is as an entry has published it, or a newer one, of whose outcome nothing is known.

    A recovery that has found an entry done leaves its parameters as they are, or those of another one since: all that
    came after the entry which it recovers has met its rows.
    """
    version = published_version(shown, opened.log.slots.log_id)
    if version > entry.version:
        return True
    location, first = Location.parse_any(shown.location), entry.version
    is_there = location is not None and location.same_place(Location.parse(str(named.new_location)))
    link: LogEntry | None = entry
    while is_there and link is not None and link.recovers is not None:
        first, link = link.recovers, opened.log.slots.find_entry(link.recovers)
    return is_there and max(version, published_version(shown, entry.log_id)) >= first


def _is_older(opened: OpenTable, shown: Partition, current: CurrentPartition) -> bool:
    """Return whether a partition is as an older version has published it: no other tool writes its parameters so.

    One that another tool points at older rows keeps the parameters that it has, or gets none.
    """
    location = Location.parse_any(shown.location)
    is_ours = location is not None and opened.layout.all_data.contains(location)
    if not is_ours or VERSION_PARAMETER not in shown.parameters:
        return False
    entry = opened.log.slots.find_entry(current.version)
    placed = current.partition if current.partition.new_location is not None else None
    if entry is None or (placed and _is_as_published(opened, shown, placed, entry)):
        return False
    return is_newer(entry, shown, opened.layout, opened.log.slots.log_id)


def unlisted_partitions(
    opened: OpenTable, newest: int, listed: Collection[PartitionValues]
) -> frozenset[PartitionValues]:
    """Return the partitions that the log has somewhere, and that the metastore leaves out of its list.

    Of a long log that is asked only where the metastore is known to hide what a role may not see.
    """
    if newest > MOST_ENTRIES:
        in_log = opened.log.read_recent().state.current_partitions if opened.why_partial() else {}
        known = {values for values, current in in_log.items() if current.partition.new_location is not None}
        return frozenset(known.difference(listed))
    log = _RecentEntries(opened, newest)
    entries = log.entries(1)
    named = {partition.values for entry in entries for partition in entry.partitions}
    found = {values: log.newest_mention(values, 0, entries) for values in named.difference(listed)}
    left_out = frozenset(values for values, moved in found.items() if moved and moved[1].new_location is not None)
    return left_out if left_out and opened.why_partial() else frozenset()  # else another tool has dropped them


def add_unseen(opened: OpenTable, table: Table, values: Collection[PartitionValues]) -> None:
    """Add partitions that the log has, and that the metastore does not show, without rows: who can, has proven it.

    What is hidden from a role, or missing from an old answer, is there nevertheless, and cannot be added. The caller
    drops them once its claim stands: a drop that comes late would take what others have published since.
    """
    write_id = new_write_id()  # nobody's: the log would give the files there to the placeholder's write
    for partition_values in sorted(values):
        placeholder = str(opened.layout.placeholder(write_id, partition_values))
        empty = Partition(values=partition_values, location=placeholder, parameters=NO_FILES)
        try:
            opened.metastore.add_partitions(table, [empty])
        except PartitionExistsError as error:
            raise hidden_error(opened, table, partition_values) from error


def require_superseded(
    opened: OpenTable, table: Table, record: SlotRecord, now: PartitionsNow, superseded: Collection[PartitionValues]
) -> PartitionsNow:
    """Return where partitions are that another tool seems to have moved since an entry was claimed.

    A recovery leaves them alone, and says that the entry has not done them: on an old answer it would say so of rows
    that readers see. ``ConflictError``: that may be; nothing changed.
    """
    shown = {values: now[values] for values in superseded if values in now}
    log = _RecentEntries(opened, record.entry.version - 1)
    if log.may_be_old and record.age_seconds < LATE_CALL_SECONDS:
        shown = dict(confirmed_partitions(opened, table, shown, log.newest))
    return {**now, **shown}


def prove_dropped(
    opened: OpenTable, table: Table, claimed: LogEntry, values: Collection[PartitionValues], in_time: Callable[[], None]
) -> None:
    """Prove, within a claim, that another tool has dropped partitions: each is added without rows, and dropped again.

    ``ConflictError``: one is there, hidden from this role or missing from an old answer; nothing changed.
    """
    for partition_values in sorted(values):
        placeholder = str(opened.layout.placeholder(claimed.write_id, partition_values))
        empty = Partition(values=partition_values, location=placeholder, parameters=NO_FILES)
        try:
            opened.metastore.add_partitions(table, [empty], before_send=in_time)
        except PartitionExistsError as error:
            raise hidden_error(opened, table, partition_values) from error
        opened.metastore.drop_partition(table, partition_values, before_send=in_time)


def hidden_error(opened: OpenTable, table: Table, values: PartitionValues) -> ConflictError:
    """Return the error for a partition that is there, and that the metastore does not show."""
    reason = opened.why_partial() or "its answers depend on who asks, or are old"
    return ConflictError(
        f"the metastore at {opened.metastore.uri} does not show {shown_name(table, values)} of {table.name}, which by"
        f" the log is there: {reason}. Nothing was published. Use a role that sees all partitions, and say so"
        " (TableWriterConfig(sees_everything=True), or --sees-everything), or run it again later.",
        table=str(table.name),
    )


@dataclass(frozen=True)
class _RecentEntries:
    """The log's entries about partitions, read as far as they are asked for."""

    opened: OpenTable
    newest: int

    @property
    def may_be_old(self) -> bool:
        """Return whether an answer may be older than a change that was answered; Hive's are as new as its database."""
        return self.opened.metastore.uri.startswith(GLUE_SCHEME)

    def moved_away(self, now: PartitionsNow) -> dict[PartitionValues, int]:
        """Return the partitions that are shown where they were before, each with the version that has moved it."""
        log_id = self.opened.log.slots.log_id
        versions = {values: published_version(partition, log_id) for values, partition in now.items()}
        older = {
            values: version
            for values, version in versions.items()
            if version < self.newest and (self.may_be_old or self.newest - version <= MOST_ENTRIES)
        }
        first = min(older.values(), default=self.newest) + 1
        entries = self.entries(first) if self.newest - first < MOST_ENTRIES else self._entries_by_fold(older)
        found = {values: self._moving_version(now[values], version, entries) for values, version in older.items()}
        return {values: version for values, version in found.items() if version is not None}

    def entries(self, first: int) -> list[LogEntry]:
        """Read all entries from a version on, the newest first."""
        found = many(self.opened.log.slots.find_entry, range(self.newest, first - 1, -1))
        return [entry for entry in found if entry is not None]

    def newest_mention(
        self, values: PartitionValues, after: int, entries: Collection[LogEntry]
    ) -> tuple[SlotRecord, EntryPartition] | None:
        """Return the newest published entry that names a partition after a version, with what it says of it."""
        for entry in entries:
            for partition in entry.partitions:
                if partition.values == values and entry.version > after:
                    record = self.opened.log.slots.find(entry.version)
                    is_published = record is not None and record.outcome is Outcome.PUBLISHED
                    if record is not None and is_published and values not in record.superseded:
                        return record, partition
        return None

    def _entries_by_fold(self, wanted: Collection[PartitionValues]) -> list[LogEntry]:
        """Return the newest entries of partitions, by what a vacuum has folded."""
        history = self.opened.log.read_recent()
        versions = {
            history.state.current_partitions[values].version
            for values in wanted
            if values in history.state.current_partitions
        }
        found = many(self.opened.log.slots.find_entry, sorted(versions, reverse=True))
        return [entry for entry in found if entry is not None]

    def _moving_version(self, shown: Partition, seen: int, entries: Collection[LogEntry]) -> int | None:
        """Return the version that has moved a partition away from where it is shown, ``None`` if none has.

        Where nobody but this library puts partitions, any but the newest place was left; elsewhere the log names it, or
        the partition's own parameters do. There, files that came since tell that another tool has returned.
        """
        layout, log_id = self.opened.layout, self.opened.log.slots.log_id
        newer = [entry for entry in entries if is_newer(entry, shown, layout, log_id)]
        location, moved = Location.parse_any(shown.location), self.newest_mention(shown.values, seen, newer)
        if location is None or moved is None:
            return None
        record, named = moved
        if named.new_location is not None and location.same_place(Location.parse(named.new_location)):
            return None
        if self.opened.layout.is_placeholder(location) and not self._is_of_published(location, shown.values, entries):
            return None  # a publish that was refused has added it, where another tool had dropped the partition
        if self.opened.layout.own.contains(location):
            return None if named.new_location is None and self._is_written(location) else record.entry.version
        is_without_version = not shown.values and VERSION_PARAMETER not in shown.parameters
        if not self.may_be_old and not is_without_version:
            return None  # another tool has put it back: a table that it moves keeps the parameters of ours
        published = [entry for entry in entries if self.newest_mention(shown.values, entry.version - 1, [entry])]
        mentions = (partition for entry in published for partition in entry.partitions)
        old_locations = {partition.old_location for partition in mentions if partition.values == shown.values} - {None}
        former = {Location.parse(str(location)).place for location in old_locations}
        is_former = location.place in former or seen > 0  # what a refused publish found there, it has not left
        return record.entry.version if is_former and not self._is_written_since(location, published) else None

    def _is_of_published(self, location: Location, values: PartitionValues, entries: Collection[LogEntry]) -> bool:
        """Return whether a publish has added a partition at this placeholder, and then moved it to its rows."""
        own = [
            entry for entry in entries if location.same_place(self.opened.layout.placeholder(entry.write_id, values))
        ]
        return any(self.newest_mention(values, entry.version - 1, [entry]) for entry in own)

    def _is_written(self, location: Location) -> bool:
        return any(files_at(self.opened.store, self.opened.layout, location))

    def _is_written_since(self, location: Location, entries: Collection[LogEntry]) -> bool:
        """Return whether files lie at a place of other tools that the log did not list when readers left it."""
        replaced = (old for entry in entries for old in entry.replaced)
        here = (old.objects for old in replaced if Location.parse(old.location).same_place(location))
        listed = {(found.key, found.size_bytes, found.etag) for objects in here for found in objects}
        files = without_marker(files_at(self.opened.store, self.opened.layout, location), location)
        return any((found.key, found.size_bytes, found.etag) not in listed for found in files)
