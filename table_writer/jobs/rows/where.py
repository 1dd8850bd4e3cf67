"""Rows that a predicate is true of are deleted, or get other values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer.errors import InvalidInputError
from table_writer.jobs.plan.types import table_schema
from table_writer.jobs.rows.change import ChangedRows
from table_writer.jobs.rows.expressions import Expression, Predicate, blank, named, predicate_of, values_of
from table_writer.jobs.rows.hits import Hits, find_hits, held_to, with_file
from table_writer.jobs.rows.snapshot import FILE, Snapshot
from table_writer.model.table import Table
from table_writer.spark import open_gateway
from table_writer.spark.sql import quoted

HIT = "__table_writer_hit"


@dataclass(frozen=True, slots=True)
class DeletedWhere:
    """Rows that a predicate is true of go."""

    predicate: Expression
    names: Sequence[str] = ()  # of the table in expressions; else its own, without its database
    name: ClassVar[str] = "delete_where"
    selects_by: ClassVar[str] = "the predicate, in a classic session"

    @property
    def condition(self) -> Expression:
        """The predicate."""
        return self.predicate

    def of(self, snapshot: Snapshot) -> ChangedRows:
        """Find the files that hold such rows; they are written anew without them."""
        table = NamedTable(snapshot.spark, snapshot.table, self.names)
        predicate = predicate_of(table.blank, self.predicate, "predicate")
        hits = table.hits(snapshot, predicate, is_removed=True)
        rows = table.marked(snapshot, hits, predicate).where(~F.col(HIT)).drop(HIT, FILE)
        return ChangedRows(rows=rows, replaced=hits.files, deleted=hits.rows)


@dataclass(frozen=True, slots=True)
class UpdatedWhere:
    """Rows that a predicate is true of get other values."""

    set: Mapping[str, Expression]
    where: Expression
    names: Sequence[str] = ()  # as in DeletedWhere
    name: ClassVar[str] = "update_where"
    selects_by: ClassVar[str] = "where, in a classic session"

    @property
    def condition(self) -> Expression:
        """The predicate."""
        return self.where

    def __post_init__(self) -> None:
        if not self.set:
            raise InvalidInputError("set={}: expected the columns to change, with their values")

    def of(self, snapshot: Snapshot) -> ChangedRows:
        """Find the files that hold such rows; they are written anew."""
        table = NamedTable(snapshot.spark, snapshot.table, self.names)
        frame = table.blank
        predicate = predicate_of(frame, self.where, "where")
        values = values_of(frame, self.set, snapshot.table)
        hits = table.hits(snapshot, predicate, is_removed=False)

        def value(name: str) -> Column:
            present = F.col(quoted(name))
            return (F.when(F.col(HIT), values[name]).otherwise(present) if name in values else present).alias(name)

        analysis = partial(open_gateway(snapshot.spark).analysis, frame)
        may_ask_file = not all(analysis(column).is_deterministic for column in values.values())
        marked = table.marked(snapshot, hits, predicate, by_spark=may_ask_file)
        if not predicate.is_pure:
            marked = table.named(held_to(hits, marked, HIT))
        rows = marked.select(*map(value, table_schema(snapshot.table).names))
        return ChangedRows(rows=rows, replaced=hits.files, updated=hits.rows)


class NamedTable:
    """The rows of a table; expressions and their subqueries name its columns, as in ``gone.id = orders.id``."""

    def __init__(self, spark: SparkSession, table: Table, names: Sequence[str]) -> None:
        self._spark = spark
        self._table = table
        self.named = partial(named, names=names or (table.name.name,))

    @property
    def blank(self) -> DataFrame:
        """The table without rows."""
        return self.named(blank(self._spark, table_schema(self._table)))

    def marked(self, snapshot: Snapshot, hits: Hits, predicate: Predicate, *, by_spark: bool = False) -> DataFrame:
        """Return the rows of the files with hits, of which a column says whether they are one."""
        is_pure = predicate.is_pure
        rows = snapshot.rows(hits.files, with_file=not is_pure, by_spark=by_spark)
        rows = rows if is_pure else with_file(rows)
        return self.named(rows).withColumn(HIT, predicate.or_false)

    def hits(self, snapshot: Snapshot, predicate: Predicate, *, is_removed: bool) -> Hits:
        """Find the rows that a predicate is true of; Spark reads no partition that the filter leaves out."""
        rows = self.hit_rows(snapshot.scan(snapshot.selected), predicate)
        return find_hits(snapshot, rows, is_removed=F.lit(is_removed))

    def hit_rows(self, rows: DataFrame, predicate: Predicate) -> DataFrame:
        """Return those of the table's rows that a predicate is true of, with their files.

        Where the task is asked for its file, nothing but the scan may come before that, unless it is done row by row.
        """
        rows, condition = self.named(rows), predicate.column
        return with_file(rows.where(condition)) if predicate.is_pure else with_file(rows).where(condition)
