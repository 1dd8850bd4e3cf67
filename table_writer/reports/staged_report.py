"""The reports on staged writes: all of a table, and one in detail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from table_writer.errors import counted
from table_writer.model.check_result import CheckResult
from table_writer.model.column_statistics import ColumnStatistics
from table_writer.model.partition_facts import PartitionFacts
from table_writer.model.staged_write import FoundStaged, StagedRecord
from table_writer.model.table import name_in
from table_writer.model.words import NO_WORDS, Words
from table_writer.reports.checks import CheckResults, check_grids, checks_in_short
from table_writer.reports.layout import (
    FILES,
    NAME,
    ROWS,
    SIZE,
    Column,
    Columns,
    Figure,
    Grid,
    State,
    details_line,
    request_line,
    size,
    tags_line,
    writer_name,
)
from table_writer.reports.report import NOTES, Report

STATISTICS: Final[Columns] = (
    Column("column", spell=lambda pair: pair[0]),
    Figure("nulls", spell=lambda pair: pair[1].null_count),
    Column("smallest", spell=lambda pair: None if pair[1].low is None else str(pair[1].low)),
    Column("largest", spell=lambda pair: None if pair[1].high is None else str(pair[1].high)),
)


@dataclass(frozen=True, kw_only=True)
class StagedSummary:
    """A staged write in one line.

    Parameters
    ----------
    write_id, mode, where
        Which write, and what publishing it would do: its mode or the call that changes rows, and its condition.
    inserted, updated, deleted
        How many rows that changes; ``None`` where nobody has counted.
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
    words: Words = NO_WORDS
    idempotency_key: str = ""

    where = property(lambda self: self.words.where)
    inserted = property(lambda self: self.words.inserted)
    updated = property(lambda self: self.words.updated)
    deleted = property(lambda self: self.words.deleted)
    tags = property(lambda self: self.words.tags)

    JSON_KEYS = (
        "write_id mode where inserted updated deleted created_at expires_at is_expired user host rows partitions_count"
        " files bytes checks tags idempotency_key"
    )

    @property
    def state(self) -> str:
        """Return ``"staged"`` or ``"expired"``."""
        return "expired" if self.is_expired else "staged"


STAGED_COLUMNS: Final[Columns] = (
    Column("write_id", "write_id"),
    State("state", "state"),
    Column("what", spell=request_line),
    Column("staged at", "created_at"),
    Column("expires (UTC)", "expires_at"),
    Column("who", spell=writer_name),
    Column("partitions", "partitions_count"),
    ROWS,
    SIZE,
    Column("checks", "checks", checks_in_short),
)


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
class StagedDetail(
    Report,
    rows="partitions",
    columns=(NAME, ROWS, FILES, SIZE),
    lines=NOTES,
    keys={"partitions": "name values rows files bytes"},
):
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
    partitions: tuple[PartitionFacts, ...] = ()
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
        return (*check_grids(self.checks), Grid(STATISTICS, list(self.statistics.items()), "columns"))

    def _lines(self) -> Iterator[str]:
        write = self.summary
        yield from details_line(write)
        yield f"write_id {write.write_id}, staged {write.created_at:%Y-%m-%d %H:%M:%S} UTC by {writer_name(write)}"
        yield f"{'expired' if write.is_expired else 'expires'} {write.expires_at:%Y-%m-%d %H:%M:%S} UTC"
        if write.tags:
            yield tags_line(write.tags)
        if write.idempotency_key:
            yield f"idempotency key {write.idempotency_key}"


def staged_summary(staged: FoundStaged) -> StagedSummary:
    """Describe a staged write in one line."""
    files, plan, writer = staged.record.files, staged.record.plan, staged.record.writer
    return StagedSummary(
        write_id=plan.write_id,
        mode=staged.record.called,
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
        words=staged.record.words,
        idempotency_key=plan.key.text,
    )


def staged_partitions(record: StagedRecord) -> tuple[PartitionFacts, ...]:
    """Describe the partitions of a staged write, in the order of their values."""
    plan = record.plan
    return tuple(
        PartitionFacts(
            name=name_in(plan.table, plan.spelled(partition.values)),
            values=partition.values,
            action="staged",
            rows=partition.rows,
            files=len(partition.keys),
            bytes=partition.bytes,
        )
        for partition in record.files.partitions
    )


def event_facts_of_staged(record: StagedRecord) -> dict[str, Any]:
    """Return the facts of a staged write for the event of its stage, by the names of the event's fields."""
    checks = tuple(result.without_examples() for result in record.files.checks)
    return {
        "outcome": "staged",
        "write_id": record.plan.write_id,
        "partitions": staged_partitions(record),
        "checks": checks,
    }


def staged_detail(staged: FoundStaged, *, notes: Sequence[str] = ()) -> StagedDetail:
    """Describe a staged write with its partitions, checks and columns."""
    return StagedDetail(
        table=str(staged.record.plan.table.name),
        summary=staged_summary(staged),
        partitions=staged_partitions(staged.record),
        statistics=staged.record.files.statistics,
        notes=(*staged.record.plan.notes, *notes),
    )
