"""A change of rows: which files of a snapshot it replaces, and which rows take their place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from pyspark.sql import DataFrame

from table_writer.model.table_read import TableRead
from table_writer.model.write import Scope, no_partition
from table_writer.steps.rows.hits import FileNames
from table_writer.steps.rows.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedRows:
    """What a change makes of a snapshot."""

    rows: DataFrame  # that take the place of those of the replaced files, and rows that are new
    replaced: FileNames  # the files whose rows are written anew, or are gone; a partition's other files stay
    updated: int = 0  # rows of the replaced files that have other values
    deleted: int = 0  # rows of the replaced files that are gone
    inserted: int | None = 0  # rows that are new; None: nobody counts
    inside: Scope | None = None  # the partitions that the rows must be of, where not all are allowed
    is_by_key: bool = False  # each task may have rows of every partition: as they are, they would make many files
    reads: tuple[TableRead, ...] = ()  # what was read of this table for rows that are computed already
    watched: Scope = no_partition  # partitions that were read, and whose rows decide which are new or gone

    @property
    def may_write(self) -> bool:
        """Return whether anything may change."""
        return bool(self.replaced) or self.inserted != 0


class RowChange(Protocol):
    """One call that changes rows; a retry asks it again."""

    @property
    def name(self) -> str:
        """Return the name of the method that was called."""

    @property
    def selects_by(self) -> str:
        """Return what of the call leaves partitions out: ``where``, or the predicate."""

    def of(self, snapshot: Snapshot) -> ChangedRows:
        """Say what the change makes of a snapshot; runs the jobs that find the files."""


@dataclass(frozen=True, slots=True)
class RewrittenRows:
    """All rows of the selected partitions are given to a function, which returns what they shall hold."""

    function: Callable[[DataFrame], DataFrame]
    name: ClassVar[str] = "rewrite"
    selects_by: ClassVar[str] = "where"

    def of(self, snapshot: Snapshot) -> ChangedRows:
        """Take all files of the selected partitions."""
        files = snapshot.files_of(snapshot.selected)
        return ChangedRows(rows=self.function(snapshot.rows(files)), replaced=files, inserted=None)
