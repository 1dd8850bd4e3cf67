"""Staged writes as the reports show them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from table_writer.display.report_parts import DeletedPath
from table_writer.display.staged_report import DiscardReport, StagedDetail, StagedPartitionDetail, StagedSummary
from table_writer.model.partition_name import shown_name
from table_writer.model.staged_write import FoundStaged
from table_writer.model.table import Table
from table_writer.model.write import TableLayout
from table_writer.vacuum.sweep import Vacuumed

__all__ = ["discard_report", "staged_detail", "staged_partitions", "staged_summary"]


def staged_summary(found: FoundStaged) -> StagedSummary:
    """Describe a staged write in one line."""
    files, plan, writer = found.record.files, found.record.plan, found.record.writer
    return StagedSummary(
        write_id=plan.write_id,
        mode=f"{plan.mode.value} where {plan.where}" if plan.where else plan.mode.value,
        created_at=plan.created_at,
        expires_at=found.expires_at,
        is_expired=found.is_expired,
        user=writer.get("user", "?"),
        host=writer.get("host", "?"),
        rows=files.row_count,
        partitions_count=len(files.partitions),
        files=sum(len(one.keys) for one in files.partitions),
        bytes=sum(one.bytes for one in files.partitions),
        checks=files.checks,
        tags=dict(plan.tags),
        idempotency_key=plan.idempotency_key,
    )


def staged_partitions(found: FoundStaged) -> tuple[StagedPartitionDetail, ...]:
    """Describe its partitions, in the order of their values."""
    table = found.record.plan.table
    return tuple(
        StagedPartitionDetail(
            name=shown_name(table, one.values) if table.partition_columns else "",
            values=one.values,
            rows=one.rows,
            files=len(one.keys),
            bytes=one.bytes,
        )
        for one in found.record.files.partitions
    )


def staged_detail(found: FoundStaged, *, notes: Sequence[str] = ()) -> StagedDetail:
    """Describe a staged write with its partitions, checks and columns."""
    return StagedDetail(
        table=str(found.record.plan.table.name),
        summary=staged_summary(found),
        partitions=staged_partitions(found),
        statistics=found.record.files.statistics,
        notes=(*found.record.plan.notes, *notes),
    )


def discard_report(table: Table, layout: TableLayout, write_id: str, done: Vacuumed, *, dry_run: bool) -> DiscardReport:
    """Describe what a discard has deleted, or would delete."""
    return DiscardReport(
        table=str(table.name),
        write_id=write_id,
        version=done.version,
        aborted=sum(len(one.uploads) for one in done.dead_writes),
        deleted=tuple(
            DeletedPath(
                location=str(layout.data(one.write_id)),
                reason=one.reason,
                bytes=sum(found.size_bytes for found in one.objects),
                keys=tuple(found.key for found in one.objects),
            )
            for one in done.dead_writes
        ),
        failures=(*done.failures, *(f"{one.location} stays for its retention: {one.reason}" for one in done.kept)),
        dry_run=dry_run,
    )
