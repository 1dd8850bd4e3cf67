"""What entries change of a table: of one partition, of its rows, and between two versions.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from table_writer.errors import InvalidInputError
from table_writer.model.entry import EntryPartition, LogEntry
from table_writer.model.location import Location, Place, same_place
from table_writer.model.partition_facts import PartitionFacts
from table_writer.model.table import PartitionValues, Table, shown_name
from table_writer.model.write import TableLayout
from table_writer.protocol.log.history import History
from table_writer.protocol.log.records import SlotRecord
from table_writer.protocol.log.versions import require_known_version


def changes_between(history: History, first: int, last: int, table: Table) -> Iterator[PartitionFacts]:
    """Yield the partitions whose rows differ after two versions, by the log alone: a compaction changes none."""
    if first > last:
        raise InvalidInputError(f"version {first} is newer than version {last}: name the older one first")
    for version in (first, last):
        require_known_version(history, version, table)
    before, after = history.past.at(first), history.past.at(last)
    between = [record for record in history.records.published if first < record.entry.version <= last]
    is_whole = history.records.has_all(first + 1, last)  # else an entry that is gone may have changed any
    for values in sorted(set().union(*(_switched_values(record) for record in between)) if is_whole else after):
        if not (before[values].known and after[values].known):
            raise InvalidInputError(
                f"{shown_name(table, values)} of {table.name}: a vacuum has trimmed the entries that say where it was"
                f" after version {last if before[values].known else first}",
                table=str(table.name),
            )
        old, new = (_but_no_placeholder(history, states[values].location) for states in (before, after))
        if _content(history, values, first) != _content(history, values, last):
            appended = is_whole and all(
                record.entry.keeps_rows or record.entry.is_compaction
                for record in between
                if values in _switched_values(record)
            )
            change = "added" if old is None else "dropped" if new is None else "appended" if appended else "replaced"
            was, is_now = _at(history, values, old, first), _at(history, values, new, last)
            yield PartitionFacts(
                name=shown_name(table, values),
                values=values,
                action=change,
                rows=is_now.rows if is_now else 0,
                rows_before=was.rows if was else 0,
            )


def writes_behind(
    history: History, values: PartitionValues, version: int
) -> Iterator[tuple[SlotRecord, EntryPartition]]:
    """Yield the entries that wrote the rows of a partition after a version: appends in place, then what they add to.

    A rollback has the rows of the version that it goes back to, a compaction those from before it, and so have a
    restore and a recovery where an older entry has put the partition to the same place. Nothing more is yielded
    where rows of other tools, or of entries that are gone, are behind it.
    """
    put_back: tuple[SlotRecord, EntryPartition] | None = None  # the entry before it says what is there, if any does
    for record, partition in history.records.published_of(values):
        entry = record.entry
        if entry.version > version:
            continue
        if put_back is not None and not same_place(partition.new_location, put_back[1].new_location):
            break
        put_back = None
        if entry.rollback_to is not None:
            version = entry.rollback_to
        elif not partition.holds_all:
            yield record, partition
            version = entry.version - 1
        elif entry.is_compaction:
            version = entry.version - 1
        elif entry.meaning.returns_partitions:
            put_back, version = (record, partition), entry.version - 1
        else:
            yield record, partition
            return
    if put_back is not None:
        yield put_back


def _content(history: History, values: PartitionValues, version: int) -> tuple[Place | None, frozenset[str]]:
    """Return the identity of a partition's rows after a version: a location, and the files that were added to it."""
    added: set[str] = set()
    for _, partition in writes_behind(history, values, version):
        if partition.holds_all:
            return _place(history, partition.new_location), frozenset(added)
        added.update(partition.targets())
    oldest = [partition for _, partition in history.records.published_of(values)][-1:]
    return _place(history, oldest[0].old_location if oldest else None), frozenset(added)


def _place(history: History, location: str | None) -> Place | None:
    shown = _but_no_placeholder(history, location)
    return None if shown is None else Location.parse(shown).place


def change_of(partition: EntryPartition, layout: TableLayout, entry: LogEntry | None) -> str:
    """Return what an entry does to one of its partitions, in a word; without an entry, what one would do."""
    if partition.new_location is None:
        return "dropped"
    if partition.old_location is None or layout.is_placeholder(Location.parse(partition.old_location)):
        return "added"  # at a placeholder there was a name, without rows
    if entry is not None and entry.is_compaction:
        return "compacted"
    return "appended" if entry is not None and entry.keeps_rows else "replaced"


def _switched_values(record: SlotRecord) -> frozenset[PartitionValues]:
    return record.entry.partition_values - record.superseded


def _at(history: History, values: PartitionValues, location: str | None, version: int) -> EntryPartition | None:
    if location is None:
        return None
    known = history.past.content_at(values, Location.parse(location), version=version)
    unknown = EntryPartition(
        values=values, old_location=None, new_location=location, rows=None, bytes=0, raw_bytes=None, files=0
    )
    return known or unknown


def _but_no_placeholder(history: History, location: str | None) -> str | None:
    is_name_alone = location is not None and history.layout.is_placeholder(Location.parse(location))
    return None if is_name_alone else location
