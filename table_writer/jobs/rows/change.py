"""A change of rows: which files of a snapshot it replaces, and which rows take their place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import ClassVar, Protocol

from pyspark.sql import DataFrame

from table_writer.check import Check
from table_writer.check.run import as_checks
from table_writer.config import MergeSchema, RowOptions
from table_writer.jobs.rows.expressions import Expression, sql_of
from table_writer.jobs.rows.hits import FileNames
from table_writer.jobs.rows.snapshot import Snapshot
from table_writer.model.entry import Key
from table_writer.model.table_read import TableRead
from table_writer.model.words import in_short
from table_writer.model.write import Scope, no_partition
from table_writer.reports.rows_result import RowsResult
from table_writer.reports.write_result import WriteResult


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedRows:
    """What a change makes of a snapshot."""

    rows: DataFrame  # that take the place of those of the replaced files, and rows that are new
    replaced: FileNames  # the files whose rows are written anew, or are gone; a partition's other files stay
    updated: int = 0  # rows of the replaced files that have other values
    deleted: int = 0  # rows of the replaced files that are gone
    inserted: int | None = 0  # rows that are new; None: nobody counts
    mark: str = ""  # the column of each row's mark, of which the three numbers are counted while rows are written
    inside: Scope | None = None  # the partitions that the rows must be of, where not all are allowed
    is_by_key: bool = False  # each task may have rows of every partition: as they are, they would make many files
    reads: tuple[TableRead, ...] = ()  # what was read of this table for rows that are computed already
    schema: MergeSchema = "strict"  # whether the table gets the columns of the rows that it lacks
    watched: Scope = no_partition  # partitions that were read, and whose rows decide which are new or gone

    @property
    def may_write(self) -> bool:
        """Return whether anything may change."""
        return bool(self.replaced) or self.inserted != 0 or bool(self.mark)


class RowChange(Protocol):
    """One call that changes rows; a retry asks it again."""

    @property
    def name(self) -> str:
        """Return the name of the method that was called."""

    @property
    def selects_by(self) -> str:
        """Return what of the call leaves partitions out: ``where``, or the predicate."""

    @property
    def condition(self) -> Expression:
        """Return the predicate over rows; empty where the call takes none."""

    def of(self, snapshot: Snapshot) -> ChangedRows:
        """Say what the change makes of a snapshot; runs the jobs that find the files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowCall:
    """The request of a caller: a change of rows and its options."""

    change: RowChange
    options: RowOptions
    stream: str = ""  # the name of the stream that the updates are a batch of
    # the streaming queries that the batch may belong to; empty if they are not known
    query_ids: frozenset[str] = frozenset()
    is_purge: bool = False  # its predicate may name a person, and is stored nowhere
    checks: tuple[Check, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "checks", as_checks(self.options.checks))

    @property
    def key(self) -> Key:
        """Return the key under which the call is done once."""
        return Key(self.options.idempotency_key, self.stream)

    @property
    def condition(self) -> str:
        """Return which rows the call is about, in the words of its caller, as the log says it."""
        return "" if self.is_purge else in_short(sql_of(self.change.condition) or self.options.where)

    def result_of(self, written: WriteResult) -> RowsResult:
        """Return the result of a write under the name of this call; of rows nothing is known."""
        facts = {item.name: getattr(written, item.name) for item in fields(WriteResult)}
        return RowsResult(**facts | {"mode": self.change.name})


@dataclass(frozen=True, slots=True)
class RewrittenRows:
    """All rows of the selected partitions are given to a function, which returns what they shall hold."""

    change: Callable[[DataFrame], DataFrame]
    name: ClassVar[str] = "rewrite"
    selects_by: ClassVar[str] = "where"
    condition: ClassVar[str] = ""

    def of(self, snapshot: Snapshot) -> ChangedRows:
        """Take all files of the selected partitions."""
        files = snapshot.files_of(snapshot.selected)
        return ChangedRows(rows=self.change(snapshot.rows(files, by_spark=True)), replaced=files, inserted=None)
