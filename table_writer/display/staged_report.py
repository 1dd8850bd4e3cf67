"""What is shown of staged writes: all of a table, one in detail, one that was discarded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from table_writer.display.report import Columns, Grid, Report, columns_of_partitions, size, size_of, tags_line, who
from table_writer.display.reports import DELETED, DeletedPath
from table_writer.display.write_result import CheckResults, check_grids, checks_in_short
from table_writer.errors import counted
from table_writer.model.check_result import CheckResult
from table_writer.model.column_statistics import ColumnStatistics
from table_writer.model.staged_write import FoundStaged
from table_writer.model.table import PartitionValues, Table, shown_name
from table_writer.model.write import TableLayout
from table_writer.vacuum.sweep import VacuumResult

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
        """``"staged"`` or ``"expired"``."""
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
    "who": who,
    "partitions": "partitions_count",
    "rows": "rows",
    "size": size_of,
    "checks": lambda one: checks_in_short(one.checks),
}


@dataclass(frozen=True, kw_only=True, repr=False)
class StagedReport(Report, rows="staged", columns=STAGED_COLUMNS):
    """The staged writes of a table, newest first; ``unreadable`` says why the others cannot be shown or published.

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
        yield from (f"CANNOT BE READ {write_id}: {why}" for write_id, why in self.unreadable.items())
        yield from (f"{one.write_id}: {tags_line(one.tags)}" for one in self.staged if one.tags)


@dataclass(frozen=True, kw_only=True, repr=False)
class StagedDetail(Report, rows="partitions", columns=columns_of_partitions()):
    """One staged write: its partitions, its checks, and what the footers of its files say of the columns.

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
        """Newest result of each check."""
        return CheckResults(self.summary.checks)

    def _headline(self) -> str:
        one = self.summary
        return (
            f": {one.mode} {one.state}, {counted(one.rows, 'row')} in {counted(one.files, 'file')}, {size(one.bytes)},"
            f" {counted(one.partitions_count, 'partition')}"
        )

    def _grids(self) -> tuple[Grid, ...]:
        return (*check_grids(self.checks), Grid.of(STATISTICS, self.statistics.items(), title="columns"))

    def _lines(self) -> Iterator[str]:
        one = self.summary
        yield f"write_id {one.write_id}, staged {one.created_at:%Y-%m-%d %H:%M:%S} UTC by {who(one)}"
        yield f"{'expired' if one.is_expired else 'expires'} {one.expires_at:%Y-%m-%d %H:%M:%S} UTC"
        if one.tags:
            yield tags_line(one.tags)
        if one.idempotency_key:
            yield f"idempotency key {one.idempotency_key}"
        yield from (f"note: {note}" for note in self.notes)


@dataclass(frozen=True, kw_only=True, repr=False)
class DiscardReport(Report, rows="deleted", columns=DELETED):
    """What discarding a staged write has removed, or would remove.

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
        idempotency_key=plan.key.text,
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


def discard_report(
    table: Table, layout: TableLayout, write_id: str, done: VacuumResult, *, dry_run: bool
) -> DiscardReport:
    """Describe what a discard has deleted, or would delete."""
    return DiscardReport(
        table=str(table.name),
        write_id=write_id,
        version=done.version,
        aborted=sum(len(one.uploads) for one in done.dead_writes),
        deleted=tuple(DeletedPath.of(layout.data(one.write_id), one.reason, one.objects) for one in done.dead_writes),
        failures=(*done.failures, *(f"{one.location} stays for its retention: {one.reason}" for one in done.kept)),
        dry_run=dry_run,
    )
