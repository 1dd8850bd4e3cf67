"""Entries, partitions and uploads of a log as the reports show them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from table_writer.display.reports import (
    AbortedUpload,
    ChangedPartition,
    DeletedPath,
    KeptPath,
    PartitionDetail,
    PartitionState,
    UploadDetail,
    VacuumReport,
    VersionSummary,
)
from table_writer.log.history import History, SlotRecord
from table_writer.log.past import PartitionDifference, change_of
from table_writer.log.present import PresentRows
from table_writer.model.entry import EntryPartition, LogEntry, Outcome
from table_writer.model.location import Location
from table_writer.model.table import PartitionValues, Table, are_small_files, shown_name
from table_writer.model.write import TableLayout
from table_writer.storage.object_store import UploadInfo
from table_writer.vacuum.due import Traces
from table_writer.vacuum.sweep import VacuumResult

SHOWN_PARTITIONS: Final = 5


def summaries(history: History, *, is_whole: bool) -> tuple[VersionSummary, ...]:
    """Return the versions of a log, or its newest ones, newest first; the size of the table takes all of them."""
    back, sizes = _rolled_back(history), _sizes(history) if is_whole else {}
    numbered = {record.entry.version: record for record in reversed(history.records)}
    return tuple(
        summarised(record, history.layout, back.get(one, 0), sizes.get(one)) for one, record in numbered.items()
    )


def summarised(
    record: SlotRecord, layout: TableLayout, rolled_back_count: int | None = None, table_bytes: int | None = None
) -> VersionSummary:
    entry, partitions = record.entry, record.switched_partitions
    rows = [partition.rows for partition in partitions]
    changes = [change_of(partition, layout, entry) for partition in partitions]
    return VersionSummary(
        version=entry.version,
        operation=entry.operation.value,
        mode=entry.mode,
        state=record.outcome.value if record.outcome else "in doubt",
        created_at=entry.created_at,
        write_id=entry.write_id,
        user=entry.writer.get("user", "?"),
        host=entry.writer.get("host", "?"),
        application_id=entry.writer.get("application_id", ""),
        settles=entry.recovers,
        added_count=changes.count("added"),
        replaced_count=changes.count("replaced"),
        appended_count=changes.count("appended"),
        compacted_count=changes.count("compacted"),
        dropped_count=changes.count("dropped"),
        rolled_back_count=rolled_back_count,
        rows=None if None in rows else sum(row for row in rows if row is not None),
        files=sum(partition.files for partition in partitions),
        bytes=sum(partition.bytes for partition in partitions),
        table_bytes=table_bytes,
        tags=dict(entry.tags),
        idempotency_key=entry.idempotency_key,
        checks=entry.checks,
    )


def _rolled_back(history: History) -> Counter[int]:
    """Count, by version, the partitions that a rollback has taken back; one of the rollback itself can return them."""
    abandoned = {one.entry.version: one.entry for one in history.records if one.outcome is Outcome.ABANDONED}
    seen: dict[PartitionValues, list[tuple[int, frozenset[int]]]] = {}  # who named it, and what was gone after that
    for record in history.published_records:
        version = record.entry.version
        carried_out = abandoned.get(record.entry.recovers or 0, record.entry)  # a recovery may do a rollback again
        to = carried_out.rollback_to
        for values in record.entry.partition_values - record.superseded:
            named = seen.setdefault(values, [])
            gone = named[-1][1] if named else frozenset()
            if to is not None:
                then = next((one for number, one in reversed(named) if number <= to), frozenset[int]())
                gone = then | {number for number, _ in named if number > to}
            named.append((version, gone))
    return Counter(version for named in seen.values() for version in named[-1][1])


def _sizes(history: History) -> dict[int, int | None]:
    """Return the size of the table after each version, as far as the log knows all of its partitions."""
    objects = {one.location: one.objects for record in history.records for one in record.entry.replaced}
    ours = {key for record in history.published_records for one in record.entry.partitions for key in one.targets()}
    now: dict[PartitionValues, int | None] = {}  # at first what other tools, or entries that are gone, had left there
    for record in history.published_records:
        for one in (one for one in record.entry.partitions if one.values not in now):
            replaced = objects.get(one.old_location or "", ())
            listed = sum(found.size_bytes for found in replaced if found.key not in ours)
            is_there = one.old_location and not history.layout.is_placeholder(Location.parse(one.old_location))
            now[one.values] = (listed or None) if is_there else 0
    total, unknown = sum(one or 0 for one in now.values()), sum(one is None for one in now.values())
    found: dict[int, int | None] = {}
    counted: set[str] = set()
    for record in history.records:
        is_live = record.outcome is Outcome.PUBLISHED
        for one in record.entry.partitions if is_live else ():
            if one.values not in record.superseded:
                before = now.get(one.values, 0)
                if one.added:  # beside what is there; a recovery does it again
                    new = one.bytes * (not counted.issuperset(one.targets()))
                    counted.update(one.targets())
                    now[one.values] = None if before is None else before + new
                    total += new * (before is not None)
                    continue
                total += one.bytes - (before or 0)
                unknown -= before is None
                now[one.values] = one.bytes
        found[record.entry.version] = None if unknown else total
    return found


def small_files_notes(history: History, table: Table) -> tuple[str, ...]:
    """Name the partitions that hold many small files, as far as the log tells."""
    held = sorted(history.current_contents().items())
    small = [values for values, one in held if are_small_files(one.files, one.bytes)]
    shown = ", ".join(shown_name(table, values) for values in small[:SHOWN_PARTITIONS])
    more = f" and {len(small) - SHOWN_PARTITIONS} more" if len(small) > SHOWN_PARTITIONS else ""
    hint = f'many small files in {shown}{more}: TableWriter(spark).compact("{table.name}") writes fewer'
    return (hint,) if small else ()


def partition_details(
    table: Table, layout: TableLayout, partitions: Sequence[EntryPartition], entry: LogEntry | None = None
) -> tuple[PartitionDetail, ...]:
    """Return the partitions of an entry, or those of which no entry was claimed."""
    return tuple(
        PartitionDetail(
            name=shown_name(table, partition.values),
            change=change_of(partition, layout, entry),
            rows=partition.rows,
            files=partition.files,
            bytes=partition.bytes,
            old_location=partition.old_location,
            new_location=partition.new_location,
        )
        for partition in partitions
    )


def upload_details(
    uploads: Sequence[UploadInfo], traces: Traces, history: History, older_than_seconds: float
) -> tuple[UploadDetail, ...]:
    """Return which write, if any, each pending upload belongs to."""
    return tuple(
        UploadDetail(
            key=upload.key,
            upload_id=upload.upload_id,
            write_id=traces.write_id_of(upload, history),
            owner=_owner(upload, traces, history, older_than_seconds),
            age_seconds=traces.age_seconds(upload),
        )
        for upload in uploads
    )


def vacuum_report(table: Table, layout: TableLayout, found: VacuumResult, *, dry_run: bool) -> VacuumReport:
    replaced = (
        DeletedPath.of(one.left.location, f"replaced by version {one.left.left_by}", one.objects)
        for one in found.locations
    )
    dead = (
        DeletedPath.of(layout.data(write.write_id), f"dead write: {write.reason}", write.objects)
        for write in found.dead_writes
    )
    uploads = (*(upload for write in found.dead_writes for upload in write.uploads), *found.leftover_uploads)
    return VacuumReport(
        table=str(table.name),
        version=found.version,
        deleted=(*replaced, *dead),
        aborted=tuple(AbortedUpload(key=upload.key, upload_id=upload.upload_id) for upload in uploads),
        removed_registrations=(
            *(key for write in found.dead_writes for key in write.registered),
            *found.stale_registrations,
        ),
        trimmed_versions=found.trimmed,
        kept=tuple(KeptPath(location=str(one.location), reason=one.reason) for one in found.kept),
        in_doubt=found.in_doubt,
        failures=found.failures,
        dry_run=dry_run,
    )


def _owner(upload: UploadInfo, traces: Traces, history: History, older_than_seconds: float) -> str:
    write_id = traces.write_id_of(upload, history)
    if write_id is None:
        return "another tool"
    if write_id in history.ids_in_doubt:
        return "in doubt"
    registered = traces.registered.get(write_id)
    if registered is not None:
        return "dead" if registered.is_dead(older_than_seconds) else "running"
    if write_id in history.claimed_ids:
        return "settled"
    return "dead" if traces.age_seconds(upload) >= older_than_seconds else "young"


def changed_partitions(table: Table, changed: Iterable[PartitionDifference]) -> tuple[ChangedPartition, ...]:
    return tuple(
        ChangedPartition(
            name=shown_name(table, one.values),
            change=one.change,
            rows_before=0 if one.before is None else one.before.rows,
            rows_after=0 if one.after is None else one.after.rows,
        )
        for one in changed
    )


def partition_states(table: Table, found: Iterable[PresentRows]) -> tuple[PartitionState, ...]:
    return tuple(
        PartitionState(
            name=shown_name(table, one.values),
            state=one.state,
            version=one.wrote.version if one.wrote else None,
            write_id=one.write_id,
            published_at=one.wrote.created_at if one.wrote else None,
            rows=one.rows,
            note=one.note,
        )
        for one in found
    )
