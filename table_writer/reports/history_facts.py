"""The facts that reports show of entries and partitions of a log. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from table_writer.errors import counted, few
from table_writer.model.entry import EntryPartition, LogEntry, Outcome
from table_writer.model.location import Location
from table_writer.model.partition_facts import CHANGES, PartitionFacts
from table_writer.model.table import PartitionValues, Table, are_small_files, shown_name, small_files_in_all
from table_writer.model.write import TableLayout
from table_writer.protocol.log.changes import change_of
from table_writer.protocol.log.history import History
from table_writer.protocol.log.records import SlotRecord
from table_writer.reports.history_reports import TAKEN_BACK, VersionSummary
from table_writer.reports.layout import size

SHOWN_PARTITIONS: Final = 5


def summaries(history: History, *, is_whole: bool) -> tuple[VersionSummary, ...]:
    """Return the versions of a log, newest first; only a whole log tells the size of the table."""
    rolled_back_counts, sizes = _rolled_back_counts(history), _table_sizes(history) if is_whole else {}
    records = {record.entry.version: record for record in reversed(history.records)}
    return tuple(
        version_summary(record, history.layout, rolled_back_counts.get(version, 0), sizes.get(version))
        for version, record in records.items()
    )


def version_summary(
    record: SlotRecord, layout: TableLayout, rolled_back_count: int | None = None, table_bytes: int | None = None
) -> VersionSummary:
    """Return one version in one line."""
    entry, partitions = record.entry, record.switched_partitions
    rows = [partition.rows for partition in partitions]
    changes = [change_of(partition, layout, entry) for partition in partitions]
    taken_back = {} if rolled_back_count is None else {TAKEN_BACK: rolled_back_count}
    return VersionSummary(
        version=entry.version,
        operation=entry.operation.value,
        mode=entry.called,
        state=record.outcome.value if record.outcome else "due" if entry.meaning.erases else "in doubt",
        created_at=entry.created_at,
        write_id=entry.write_id,
        writer=entry.writer,
        settles=entry.recovers,
        changes={change: changes.count(change) for change in CHANGES} | taken_back,
        rows=None if None in rows else sum(row for row in rows if row is not None),
        files=sum(partition.files for partition in partitions),
        bytes=sum(partition.bytes for partition in partitions),
        table_bytes=table_bytes,
        words=entry.words,
        idempotency_key=entry.idempotency_key,
        checks=entry.checks,
    )


def _rolled_back_counts(history: History) -> Counter[int]:
    """Count the partitions of each version that a rollback has taken back.

    A rollback of that rollback can return them.
    """
    abandoned = {
        record.entry.version: record.entry for record in history.records if record.outcome is Outcome.ABANDONED
    }
    # version, and the versions that were taken back by then
    changes_by_values: dict[PartitionValues, list[tuple[int, frozenset[int]]]] = {}
    for record in history.records.published:
        version = record.entry.version
        carried_out = abandoned.get(record.entry.recovers or 0, record.entry)  # a recovery may do a rollback again
        to_version = carried_out.rollback_to
        for values in record.entry.partition_values - record.superseded:
            changes = changes_by_values.setdefault(values, [])
            versions_taken_back = changes[-1][1] if changes else frozenset()
            if to_version is not None:
                taken_back_then = next(
                    (taken_back for number, taken_back in reversed(changes) if number <= to_version), frozenset[int]()
                )
                versions_taken_back = taken_back_then | {number for number, _ in changes if number > to_version}
            changes.append((version, versions_taken_back))
    return Counter(version for changes in changes_by_values.values() for version in changes[-1][1])


def _table_sizes(history: History) -> dict[int, int | None]:
    """Return the size of the table after each version; ``None`` where the log does not know all partitions."""
    objects = {replaced.location: replaced.objects for record in history.records for replaced in record.entry.replaced}
    own_keys = {
        key
        for record in history.records.published
        for partition in record.entry.partitions
        for key in partition.targets()
    }
    # at first the bytes that other tools, or trimmed entries, have left
    bytes_by_values: dict[PartitionValues, int | None] = {}
    for record in history.records.published:
        for partition in (
            partition for partition in record.entry.partitions if partition.values not in bytes_by_values
        ):
            replaced = objects.get(partition.old_location or "", ())
            listed = sum(sizes.size_bytes for sizes in replaced if sizes.key not in own_keys)
            had_files = partition.old_location and not history.layout.is_placeholder(
                Location.parse(partition.old_location)
            )
            bytes_by_values[partition.values] = (listed or None) if had_files else 0
    total, unknown_count = (
        sum(bytes_now or 0 for bytes_now in bytes_by_values.values()),
        sum(bytes_now is None for bytes_now in bytes_by_values.values()),
    )
    sizes: dict[int, int | None] = {}
    counted_keys: set[str] = set()
    for record in history.records:
        is_live = record.outcome is Outcome.PUBLISHED
        for partition in record.entry.partitions if is_live else ():
            if partition.values not in record.superseded:
                bytes_before = bytes_by_values.get(partition.values, 0)
                if not partition.holds_all:  # its rows come beside the existing ones; a recovery may repeat them
                    new_bytes = partition.bytes * (not counted_keys.issuperset(partition.targets()))
                    counted_keys.update(partition.targets())
                    bytes_by_values[partition.values] = None if bytes_before is None else bytes_before + new_bytes
                    total += new_bytes * (bytes_before is not None)
                    continue
                total += partition.bytes - (bytes_before or 0)
                unknown_count -= bytes_before is None
                bytes_by_values[partition.values] = partition.bytes
        sizes[record.entry.version] = None if unknown_count else total
    return sizes


def small_files_notes(history: History, table: Table) -> tuple[str, ...]:
    """Return a note that names the partitions with many small files, by the log; none without such partitions."""
    contents = sorted(history.state.current_contents().items())
    return small_files(table, {values: (held_rows.files, held_rows.bytes) for values, held_rows in contents})


def small_files(table: Table, figures: Mapping[PartitionValues, tuple[int, int]]) -> tuple[str, ...]:
    """Return the same of partitions by their numbers of files and bytes; few in each are noted if they add up."""
    partitions = [values for values, (count, size_bytes) in figures.items() if are_small_files(count, size_bytes)]
    if partitions:
        names = few([shown_name(table, values) for values in partitions], most=SHOWN_PARTITIONS)
        crowded = f"{counted(len(partitions), 'partition')} ({names})"
        return (f'many small files in {crowded}: TableWriter(spark).compact("{table.name}") writes fewer',)
    count, size_bytes, partition_count = small_files_in_all(figures.values())
    if not count:
        return ()
    crowded, average = counted(partition_count, "partition"), size(size_bytes / count)
    joined = f'TableWriter(spark).compact("{table.name}", min_files=2) joins those of one partition'
    coarser = "partition by a coarser column, such as a month instead of a day"
    advice = joined if count >= 2 * partition_count else coarser
    return (f"{count:,} small files in {crowded}, of {average} each, and a query opens every one: {advice}",)


def partition_facts(
    table: Table, layout: TableLayout, partitions: Sequence[EntryPartition], entry: LogEntry | None = None
) -> tuple[PartitionFacts, ...]:
    """Return the facts of the partitions of an entry, or of an entry that was not claimed."""
    return tuple(
        PartitionFacts.of_entry(shown_name(table, partition.values), change_of(partition, layout, entry), partition)
        for partition in partitions
    )
