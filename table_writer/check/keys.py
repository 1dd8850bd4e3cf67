"""Checks of keys: no two rows have the same one, or another table has each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import and_
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import DataType, DecimalType, DoubleType, FloatType, NumericType

from table_writer.check.check import METADATA, Check, ColumnPath, CountIf, Facts, Question, Target, is_text, value_text
from table_writer.check.rows import RowQuestion
from table_writer.errors import InvalidInputError, counted, printable
from table_writer.model.check_result import CheckResult
from table_writer.model.table import SPARK_CATALOG, TableName, name_parts
from table_writer.spark.sql import SPARK_ERRORS, analyzed_now, balanced_tree, grouped, in_partitions, spark_reason
from table_writer.spark.types import shown_type

MAX_DIGITS: Final = 38  # of Spark's decimals
DIGITS: Final = {"byte": 3, "short": 5, "integer": 10, "long": 19}


def unique(check: Check, target: Target, *, names: Sequence[str]) -> Question:
    columns = target.columns(names)
    try:
        analyzed_now(target.empty.where(balanced_tree(and_, (column.value == column.value for column in columns))))
    except SPARK_ERRORS as error:  # a map, for one
        raise check.misfit(f"rows cannot be told apart by these columns: {spark_reason(error)}") from error
    return KeyQuestion(check=check, columns=columns)


class KeyQuestion(Question):
    """Asks how many keys there are; rows with a null in theirs do not count, as in SQL's UNIQUE."""

    @property
    def keys(self) -> tuple[Column, ...]:
        return tuple(column.value for column in self.columns)

    @property
    def has_key(self) -> Column:
        return _all_there(self.keys)

    @property
    def display_name(self) -> str:
        return _columns_text(self.columns)

    def repeated_keys(self, frame: DataFrame, rows: str) -> DataFrame:
        """Return the keys that more than one row has, as columns ``_0``, ``_1``, …, with the number of their rows."""
        keys = {f"_{at}": key for at, key in enumerate(self.keys)}
        found = grouped(frame.where(self.has_key), keys, F.count(F.lit(1)).alias(rows))
        return found.where(F.col(rows) > 1)

    def with_flagged_keys(self, frame: DataFrame, facts: Facts, label: str) -> DataFrame:
        """Flag the rows of the first few such keys: enough for examples, and small enough to be sent to every task."""
        names = [f"_{at}" for at in range(len(self.keys))]
        here = {f"{label}{name}": key for name, key in zip(names, self.keys, strict=True)}
        repeated = self.repeated_keys(facts.frame, "rows").orderBy(*names).limit(facts.audit.examples)
        few = F.broadcast(
            repeated.select(*(F.col(name).alias(f"{label}{name}_") for name in names), F.lit(True).alias(label))
        )
        is_equal = (F.col(name) == F.col(f"{name}_") for name in here)
        return frame.withColumns(here).join(few, balanced_tree(and_, is_equal), "left")

    def result_without_read(self, facts: Facts) -> CheckResult | None:
        return self.of_counts(0, 0, facts, METADATA) if facts.rows < 2 else None

    def measures(self, flag: Column, count_if: CountIf) -> Sequence[Column]:  # noqa: ARG002
        return [count_if(self.has_key), F.count_distinct(*self.keys)]

    def result_of(self, measured: Sequence[Any], facts: Facts) -> CheckResult:
        """Judge before it is known which keys are there twice."""
        repeating = int(measured[0]) - int(measured[1])
        if repeating == 0:
            return self.of_counts(0, 0, facts)
        text = f"{repeating:,} of {counted(facts.rows, 'row')} repeat the {self.display_name} of another"
        return self.check.failure(text, repeating)

    def of_counts(self, rows: int, keys: int, facts: Facts, by: str = "spark") -> CheckResult:
        """Judge by how many keys there are more than once, in how many rows."""
        if rows == 0:
            return self.check.success(f"no {self.display_name} is there twice in {counted(facts.rows, 'row')}", by)
        share = f"{rows:,} of {counted(facts.rows, 'row')} share their {self.display_name} with another"
        return self.check.failure(f"{share} ({counted(keys, 'different key')})", rows, by=by)


def references(
    check: Check, target: Target, *, names: Sequence[str], table: str, other_names: Sequence[str]
) -> Question:
    """Every key that has no null in it is there in another table, as SQL's foreign keys (MATCH SIMPLE) have it."""
    columns = target.columns(names)
    try:
        schema = target.spark.table(table).schema
        is_same = _is_same(table, target)
    except SPARK_ERRORS as error:
        raise check.misfit(f"table {value_text(table)} cannot be read: {spark_reason(error)}") from error
    others = (target if is_same else Target(spark=target.spark, table=table, schema=schema)).columns(other_names)
    for column, other in zip(columns, others, strict=True):
        if not _comparable(column.kind, other.kind):
            raise check.misfit(
                f"{column.display_name} is {shown_type(column.kind)} and {other.display_name} of {table} is"
                f" {shown_type(other.kind)}, which cannot be compared"
            )
    has_all = all(other.top in schema.names for other in others)  # else the table is yet to get them
    return _Reference(
        check=check,
        columns=columns,
        verdict=f"have {_columns_text(columns)} that is no {_columns_text(others)} of {printable(table)}",
        condition=lambda: _all_there([column.value for column in columns]),
        table=table if has_all else "",
        others=others,
        is_same=is_same,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Reference(RowQuestion):
    """Joins the other table's keys; a row that has a key and found none is wrong."""

    table: str  # empty where it is this one, which is yet to get the columns
    others: tuple[ColumnPath, ...]
    is_same: bool  # it is the table that is written: staged rows count too, and those that they replace do not

    @property
    def is_local(self) -> bool:
        return False

    def with_other_columns(self, frame: DataFrame, facts: Facts, label: str) -> DataFrame:
        names = [f"{label}_{position}" for position in range(len(self.others))]
        keys = [other.value.alias(name) for other, name in zip(self.others, names, strict=True)]
        there = [self._there(facts).select(*keys)] if self.table else []
        if self.is_same:
            there.append(facts.frame.select(*keys))
        has_key = _all_there([F.col(name) for name in names])
        found = (
            balanced_tree(DataFrame.union, there).where(has_key).distinct().withColumn(f"{label}_found", F.lit(True))
        )
        here = {f"{name}_here": column.value for name, column in zip(names, self.columns, strict=True)}
        is_equal = [F.col(f"{name}_here") == F.col(name) for name in names]
        return frame.withColumns(here).join(found, balanced_tree(and_, is_equal), "left")

    def _there(self, facts: Facts) -> DataFrame:
        """Return the rows that the other table will have, those of this write left out."""
        frame = facts.audit.spark.table(self.table)
        replaced = facts.audit.replaced_partitions
        if not self.is_same or replaced is None:
            return frame
        gone = replaced()
        kinds = {field.name.lower(): field for field in facts.audit.schema}
        fields = [kinds[name.lower()] for name in facts.names]
        return frame.where(~in_partitions(fields, gone)) if gone else frame

    def wrong(self, label: str) -> Column | None:
        return self.condition() & F.col(f"{label}_found").isNull()


def _is_same(table: str, target: Target) -> bool:
    """Return whether a name means the table that is written: no view of this session, no table of another catalog."""
    catalog = target.spark.catalog
    if catalog.currentCatalog() != SPARK_CATALOG and len(name_parts(table)) < 3:
        return False
    try:
        named = str(TableName.parse(table, default_database=catalog.currentDatabase()))
    except InvalidInputError:  # of another catalog
        return False
    return named == target.table and ("." in table or not catalog.getTable(table).isTemporary)


def _all_there(values: Sequence[Column]) -> Column:
    return balanced_tree(and_, (value.isNotNull() for value in values))


def _columns_text(columns: Sequence[ColumnPath]) -> str:
    return ", ".join(column.display_name for column in columns)


def _comparable(kind: DataType, other: DataType) -> bool:
    """Return whether values of two types are equal where they look equal."""
    if isinstance(kind, NumericType) and isinstance(other, NumericType):
        floats = [isinstance(number, (FloatType, DoubleType)) for number in (kind, other)]
        return all(floats) or (not any(floats) and _digits(kind, other) <= MAX_DIGITS)
    return (is_text(kind) and is_text(other)) or shown_type(kind) == shown_type(other)


def _digits(*kinds: NumericType) -> int:
    """Return how many digits the values of some types of exact numbers have, before and after the point."""
    sizes = [
        (kind.precision - kind.scale, kind.scale) if isinstance(kind, DecimalType) else (DIGITS[kind.typeName()], 0)
        for kind in kinds
    ]
    return max(before for before, _ in sizes) + max(after for _, after in sizes)
