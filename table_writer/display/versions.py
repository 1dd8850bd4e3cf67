"""Entries, partitions and uploads of a log as the reports show them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from table_writer.display.reports import (
    AbortedUpload,
    DeletedPath,
    KeptPath,
    PartitionDetail,
    UploadDetail,
    VacuumReport,
    VersionSummary,
)
from table_writer.log.history import History, SlotRecord
from table_writer.model.entry import EntryPartition
from table_writer.model.table import Table, shown_name
from table_writer.model.write import TableLayout
from table_writer.storage.object_store import UploadInfo
from table_writer.vacuum.due import Traces
from table_writer.vacuum.sweep import Vacuumed


def summarised(record: SlotRecord) -> VersionSummary:
    entry = record.entry
    rows = [partition.rows for partition in entry.partitions]
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
        added_count=sum(_change(partition) == "added" for partition in entry.partitions),
        replaced_count=sum(_change(partition) == "replaced" for partition in entry.partitions),
        dropped_count=sum(_change(partition) == "dropped" for partition in entry.partitions),
        rows=None if None in rows else sum(row for row in rows if row is not None),
        files=sum(partition.files for partition in entry.partitions),
        bytes=sum(partition.bytes for partition in entry.partitions),
        tags=dict(entry.tags),
        idempotency_key=entry.idempotency_key,
        checks=entry.checks,
    )


def partition_details(table: Table, partitions: Sequence[EntryPartition]) -> tuple[PartitionDetail, ...]:
    return tuple(
        PartitionDetail(
            name=shown_name(table, partition.values),
            change=_change(partition),
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
            write_id=traces.write_id_of(upload),
            owner=_owner(upload, traces, history, older_than_seconds),
            age_seconds=traces.age_seconds(upload),
        )
        for upload in uploads
    )


def vacuum_report(table: Table, layout: TableLayout, found: Vacuumed, *, dry_run: bool) -> VacuumReport:
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
    write_id = traces.write_id_of(upload)
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


def _change(partition: EntryPartition) -> str:
    if partition.new_location is None:
        return "dropped"
    return "added" if partition.old_location is None else "replaced"
