"""Rows that a predicate is true of are deleted, or get other values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer.errors import InvalidInputError
from table_writer.spark.sql import quoted
from table_writer.steps.plan.types import table_schema
from table_writer.steps.rows.change import ChangedRows
from table_writer.steps.rows.expressions import Expression, Predicate, blank, predicate_of, values_of
from table_writer.steps.rows.hits import Hits, find_hits, held_to, with_file
from table_writer.steps.rows.snapshot import FILE, Snapshot

HIT = "__table_writer_hit"


@dataclass(frozen=True, slots=True)
class DeletedWhere:
    """Rows that a predicate is true of go."""

    predicate: Expression
    name: ClassVar[str] = "delete_where"
    selects_by: ClassVar[str] = "the predicate, in a classic session"

    def of(self, snapshot: Snapshot) -> ChangedRows:
        """Find the files that hold such rows; they are written anew without them."""
        predicate = predicate_of(_blank(snapshot), self.predicate, "predicate")
        hits = _hits(snapshot, predicate, is_removed=True)
        rows = _marked(snapshot, hits, predicate).where(~F.col(HIT)).drop(HIT, FILE)
        return ChangedRows(rows=rows, replaced=hits.files, deleted=hits.rows)


@dataclass(frozen=True, slots=True)
class UpdatedWhere:
    """Rows that a predicate is true of get other values."""

    set: Mapping[str, Expression]
    where: Expression
    name: ClassVar[str] = "update_where"
    selects_by: ClassVar[str] = "where, in a classic session"

    def __post_init__(self) -> None:
        if not self.set:
            raise InvalidInputError("set={}: expected the columns to change, with their values")

    def of(self, snapshot: Snapshot) -> ChangedRows:
        """Find the files that hold such rows; they are written anew."""
        frame = _blank(snapshot)
        predicate = predicate_of(frame, self.where, "where")
        values = values_of(frame, self.set, snapshot.table)
        hits = _hits(snapshot, predicate, is_removed=False)

        def value(name: str) -> Column:
            present = F.col(quoted(name))
            return (F.when(F.col(HIT), values[name]).otherwise(present) if name in values else present).alias(name)

        marked = _marked(snapshot, hits, predicate)
        if not predicate.is_pure:
            marked = _named(snapshot, held_to(hits, marked, HIT))
        rows = marked.select(*map(value, table_schema(snapshot.table).names))
        return ChangedRows(rows=rows, replaced=hits.files, updated=hits.rows)


def _blank(snapshot: Snapshot) -> DataFrame:
    return _named(snapshot, blank(snapshot.spark, table_schema(snapshot.table)))


def _named(snapshot: Snapshot, rows: DataFrame) -> DataFrame:
    """Let a subquery name the table's columns by its name, as in ``gone.id = orders.id``."""
    return rows.alias(snapshot.table.name.name)


def _marked(snapshot: Snapshot, hits: Hits, predicate: Predicate) -> DataFrame:
    """Return the rows of the files with hits, of which a column says whether they are one."""
    rows = with_file(snapshot.rows(hits.files, with_file=True))
    return _named(snapshot, rows).withColumn(HIT, predicate.or_false)


def _hits(snapshot: Snapshot, predicate: Predicate, *, is_removed: bool) -> Hits:
    """Find the rows that a predicate is true of; Spark reads no partition that the filter leaves out.

    Where the task is asked for its file, nothing but the scan may come before that, unless it is done row by row.
    """
    rows = _named(snapshot, snapshot.scan(snapshot.selected))
    condition = predicate.column
    found = with_file(rows.where(condition)) if predicate.is_pure else with_file(rows).where(condition)
    return find_hits(snapshot, found, is_removed=F.lit(is_removed))
