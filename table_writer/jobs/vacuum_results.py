"""What a vacuum, or the discard of a staged write, has found and deleted, as the reports on it."""

from __future__ import annotations

from collections.abc import Sequence

from table_writer.protocol.log.history import History
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.vacuum.due import Traces
from table_writer.protocol.vacuum.remover import VacuumResult
from table_writer.reports.vacuum_reports import (
    AbortedUpload,
    DeletedPath,
    DiscardReport,
    KeptPath,
    UploadDetail,
    VacuumReport,
)
from table_writer.storage.object_store import UploadInfo


def vacuum_report(opened: OpenTable, vacuumed: VacuumResult, *, dry_run: bool) -> VacuumReport:
    """Describe what a vacuum has deleted, or would delete."""
    replaced_paths = (
        DeletedPath.of(location.left.location, f"replaced by version {location.left.left_by}", location.objects)
        for location in vacuumed.locations
    )
    dead_writes = (
        DeletedPath.of(opened.layout.data(write.write_id), f"dead write: {write.reason}", write.objects)
        for write in vacuumed.dead_writes
    )
    uploads = (*(upload for write in vacuumed.dead_writes for upload in write.uploads), *vacuumed.leftover_uploads)
    return VacuumReport(
        table=str(opened.table.name),
        version=vacuumed.version,
        deleted=(*replaced_paths, *dead_writes),
        aborted=tuple(AbortedUpload(key=upload.key, upload_id=upload.upload_id) for upload in uploads),
        removed_registrations=(
            *(key for write in vacuumed.dead_writes for key in write.registered),
            *vacuumed.stale_registrations,
        ),
        trimmed_versions=vacuumed.trimmed,
        kept=tuple(KeptPath(location=str(path.location), reason=path.reason) for path in vacuumed.kept),
        in_doubt=vacuumed.in_doubt,
        failures=vacuumed.failures,
        dry_run=dry_run,
    )


def discard_report(opened: OpenTable, write_id: str, vacuumed: VacuumResult, *, dry_run: bool) -> DiscardReport:
    """Describe what a discard has deleted, or would delete."""
    return DiscardReport(
        table=str(opened.table.name),
        write_id=write_id,
        version=vacuumed.version,
        aborted=sum(len(write.uploads) for write in vacuumed.dead_writes),
        deleted=tuple(
            DeletedPath.of(opened.layout.data(write.write_id), write.reason, write.objects)
            for write in vacuumed.dead_writes
        ),
        failures=(
            *vacuumed.failures,
            *(f"{path.location} stays for its retention: {path.reason}" for path in vacuumed.kept),
        ),
        dry_run=dry_run,
    )


def upload_details(
    uploads: Sequence[UploadInfo], traces: Traces, history: History, older_than_seconds: float
) -> tuple[UploadDetail, ...]:
    """Return each pending upload with the write, if any, that it belongs to."""
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


def _owner(upload: UploadInfo, traces: Traces, history: History, older_than_seconds: float) -> str:
    write_id = traces.write_id_of(upload, history)
    if write_id is None:
        return "another tool"
    if write_id in history.records.ids_in_doubt:
        return "in doubt"
    registration = traces.registered.get(write_id)
    if registration is not None:
        return "dead" if registration.is_dead(older_than_seconds) else "running"
    if write_id in history.claimed_ids:
        return "settled"
    return "dead" if traces.age_seconds(upload) >= older_than_seconds else "young"
