"""The reports on staged writes: all of a table, one in detail, one that was discarded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from table_writer.errors import counted
from table_writer.model.check_result import CheckResult
from table_writer.model.column_statistics import ColumnStatistics
from table_writer.model.staged_write import FoundStaged
from table_writer.model.table import PartitionValues, Table, shown_name
from table_writer.model.write import TableLayout
from table_writer.reports.report import (
    Columns,
    Grid,
    Report,
    columns_of_partitions,
    size,
    size_of,
    tags_line,
    writer_name,
)
from table_writer.reports.reports import DELETED, DeletedPath
from table_writer.reports.write_result import CheckResults, check_grids, checks_in_short

if TYPE_CHECKING:
    from table_writer.steps.vacuum.sweep import VacuumResult

STATISTICS: Final[Columns] = {
    "column": lambda pair: pair[0],
    "nulls": lambda pair: pair[1].null_count,
    "smallest": lambda pair: None if pair[1].low is None else str(pair[1].low),
    "largest": lambda pair: None if pair[1].high is None else str(pair[1].high),
}


@dataclass(frozen=True, kw_only=True)
class StagedSummary:
    """A staged write in one line.

    Parameters
    ----------
    write_id, mode
        Which write, and what publishing it would do.
    created_at, expires_at
        From when on vacuum may take it for forgotten; ``is_expired`` says whether that was so when it was looked at.
    user, host
        Who staged it.
    rows, partitions_count, files, bytes
        What readers would get.
    checks
        Newest result of each check, without example rows.
    tags, idempotency_key
        As the call gave them.
    """

    write_id: str
    mode: str
    created_at: datetime
    expires_at: datetime
    is_expired: bool
    user: str
    host: str
    rows: int
    partitions_count: int
    files: int
    bytes: int
    checks: tuple[CheckResult, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    idempotency_key: str = ""

    @property
    def state(self) -> str:
        """Return ``"staged"`` or ``"expired"``."""
        return "expired" if self.is_expired else "staged"


@dataclass(frozen=True, kw_only=True)
class StagedPartitionDetail:
    """One partition of a staged write; ``name`` and ``values`` are empty for an unpartitioned table."""

    name: str
    values: PartitionValues
    rows: int
    files: int
    bytes: int


STAGED_COLUMNS: Final[Columns] = {
    "write_id": "write_id",
    "state": "state",
    "what": "mode",
    "staged at": "created_at",
    "expires (UTC)": "expires_at",
    "who": writer_name,
    "partitions": "partitions_count",
    "rows": "rows",
    "size": size_of,
    "checks": lambda staged: checks_in_short(staged.checks),
}


@dataclass(frozen=True, kw_only=True, repr=False)
class StagedReport(Report, rows="staged", columns=STAGED_COLUMNS):
    """The staged writes of a table, newest first; ``unreadable`` gives the reasons for those that cannot be read.

    Examples
    --------
    >>> StagedReport(table="mart.orders")
    mart.orders: nothing is staged
    """

    staged: tuple[StagedSummary, ...] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)

    def _headline(self) -> str:
        return f": {counted(len(self.staged), 'staged write') if self.staged else 'nothing is staged'}"

    def _lines(self) -> Iterator[str]:
        yield from (f"CANNOT BE READ {write_id}: {reason}" for write_id, reason in self.unreadable.items())
        yield from (f"{staged.write_id}: {tags_line(staged.tags)}" for staged in self.staged if staged.tags)


@dataclass(frozen=True, kw_only=True, repr=False)
class StagedDetail(Report, rows="partitions", columns=columns_of_partitions()):
    """One staged write: its partitions, its checks, and the column statistics from the footers of its files.

    Parameters
    ----------
    summary
        The write in one line.
    partitions
        In the order of the values.
    statistics
        By column; one that is missing is not known.
    notes
        What a person should know.
    """

    summary: StagedSummary
    partitions: tuple[StagedPartitionDetail, ...] = ()
    statistics: Mapping[str, ColumnStatistics] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def checks(self) -> CheckResults:
        """Return the newest result of each check."""
        return CheckResults(self.summary.checks)

    def _headline(self) -> str:
        write = self.summary
        volume = f"{counted(write.rows, 'row')} in {counted(write.files, 'file')}, {size(write.bytes)}"
        return f": {write.mode} {write.state}, {volume}, {counted(write.partitions_count, 'partition')}"

    def _grids(self) -> tuple[Grid, ...]:
        return (*check_grids(self.checks), Grid.of(STATISTICS, self.statistics.items(), title="columns"))

    def _lines(self) -> Iterator[str]:
        write = self.summary
        yield f"write_id {write.write_id}, staged {write.created_at:%Y-%m-%d %H:%M:%S} UTC by {writer_name(write)}"
        yield f"{'expired' if write.is_expired else 'expires'} {write.expires_at:%Y-%m-%d %H:%M:%S} UTC"
        if write.tags:
            yield tags_line(write.tags)
        if write.idempotency_key:
            yield f"idempotency key {write.idempotency_key}"
        yield from (f"note: {note}" for note in self.notes)


@dataclass(frozen=True, kw_only=True, repr=False)
class DiscardReport(Report, rows="deleted", columns=DELETED):
    """The report on what a discard has deleted, or would delete.

    Parameters
    ----------
    write_id
        Which write.
    version
        Of the entry by which it was given up; ``None`` in a dry run.
    aborted
        How many of its uploads were still pending.
    deleted
        Its files.
    failures
        What could not be deleted; vacuum takes it over.
    """

    write_id: str
    version: int | None = None
    aborted: int = 0
    deleted: tuple[DeletedPath, ...] = ()
    failures: tuple[str, ...] = ()
    dry_run: bool = False

    def _headline(self) -> str:
        files = sum(len(path.keys) for path in self.deleted)
        freed = size(sum(path.bytes for path in self.deleted))
        verb = "would be discarded" if self.dry_run else "discarded"
        uploads = counted(self.aborted, "pending upload")
        return f": write {self.write_id} {verb}: {counted(files, 'file')} ({freed}), {uploads}"

    def _lines(self) -> Iterator[str]:
        yield from (f"FAILED: {failure}" for failure in self.failures)
        if self.version is not None:
            yield f"given up by version {self.version} of the log"


def staged_summary(staged: FoundStaged) -> StagedSummary:
    """Describe a staged write in one line."""
    files, plan, writer = staged.record.files, staged.record.plan, staged.record.writer
    return StagedSummary(
        write_id=plan.write_id,
        mode=f"{plan.mode.value} where {plan.where}" if plan.where else plan.mode.value,
        created_at=plan.created_at,
        expires_at=staged.expires_at,
        is_expired=staged.is_expired,
        user=writer.get("user", "?"),
        host=writer.get("host", "?"),
        rows=files.row_count,
        partitions_count=len(files.partitions),
        files=sum(len(partition.keys) for partition in files.partitions),
        bytes=sum(partition.bytes for partition in files.partitions),
        checks=files.checks,
        tags=dict(plan.tags),
        idempotency_key=plan.key.text,
    )


def staged_partitions(staged: FoundStaged) -> tuple[StagedPartitionDetail, ...]:
    """Describe the partitions of a staged write, in the order of their values."""
    table = staged.record.plan.table
    return tuple(
        StagedPartitionDetail(
            name=shown_name(table, partition.values) if table.partition_columns else "",
            values=partition.values,
            rows=partition.rows,
            files=len(partition.keys),
            bytes=partition.bytes,
        )
        for partition in staged.record.files.partitions
    )


def staged_detail(staged: FoundStaged, *, notes: Sequence[str] = ()) -> StagedDetail:
    """Describe a staged write with its partitions, checks and columns."""
    return StagedDetail(
        table=str(staged.record.plan.table.name),
        summary=staged_summary(staged),
        partitions=staged_partitions(staged),
        statistics=staged.record.files.statistics,
        notes=(*staged.record.plan.notes, *notes),
    )


def discard_report(
    table: Table, layout: TableLayout, write_id: str, vacuumed: VacuumResult, *, dry_run: bool
) -> DiscardReport:
    """Describe what a discard has deleted, or would delete."""
    return DiscardReport(
        table=str(table.name),
        write_id=write_id,
        version=vacuumed.version,
        aborted=sum(len(write.uploads) for write in vacuumed.dead_writes),
        deleted=tuple(
            DeletedPath.of(layout.data(write.write_id), write.reason, write.objects) for write in vacuumed.dead_writes
        ),
        failures=(
            *vacuumed.failures,
            *(f"{path.location} stays for its retention: {path.reason}" for path in vacuumed.kept),
        ),
        dry_run=dry_run,
    )
