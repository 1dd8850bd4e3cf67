"""Every value is there in another table: a foreign key."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    NumericType,
    StructType,
)

from table_writer.check.audit import Facts
from table_writer.check.check import Check, Question
from table_writer.check.row_checks import RowQuestion
from table_writer.check.target import Place, Target, is_text
from table_writer.check.wording import printable, shown
from table_writer.errors import InvalidInputError
from table_writer.model.table import TableName
from table_writer.partition_filter import in_partitions
from table_writer.sql_text import spark_reason

__all__ = ["References"]

MAX_DIGITS: Final = 38  # of Spark's decimals
DIGITS: Final = {"byte": 3, "short": 5, "integer": 10, "long": 19}


@dataclass(frozen=True, kw_only=True)
class References(Check):
    """Every key that has no null in it is there in another table, as SQL's foreign keys (MATCH SIMPLE) have it."""

    columns: tuple[str, ...]
    table: str
    other_columns: tuple[str, ...]

    def bind(self, target: Target) -> Question:
        """Find the columns here and there."""
        places = tuple(target.place(column) for column in self.columns)
        try:
            schema = target.spark.table(self.table).schema
            is_same = _is_same(self.table, target)
        except (PySparkException, Py4JError) as error:
            raise self.wrong(f"table {shown(self.table)} cannot be read: {spark_reason(error)}") from error
        there = Target(spark=target.spark, table=self.table, schema=schema, partition_columns=None)
        others = tuple((target if is_same else there).place(column) for column in self.other_columns)
        for place, other in zip(places, others, strict=True):
            if not _comparable(place.kind, other.kind):
                raise self.wrong(
                    f"{place.shown} is {place.kind.simpleString()} and {other.shown} of {self.table} is"
                    f" {other.kind.simpleString()}, which cannot be compared"
                )
        has_all = all(other.top in schema.names for other in others)
        key, there_key = (", ".join(one.shown for one in some) for some in (places, others))
        verdict = f"have {key} that is no {there_key} of {printable(self.table)}"
        return _Reference(
            check=self, places=places, verdict=verdict, table=self.table if has_all else "", others=others, same=is_same
        )


@dataclass(frozen=True, kw_only=True)
class _Reference(RowQuestion):
    """Joins the other table's keys.

    Parameters
    ----------
    table
        The other table; empty where it is this one, which is yet to get the columns.
    others
        Its columns.
    same
        It is the table that is written: the staged rows count too, and those that they replace do not.
    """

    table: str
    others: tuple[Place, ...]
    same: bool

    @property
    def is_local(self) -> bool:
        return False

    def joined(self, frame: DataFrame, facts: Facts, label: str) -> DataFrame:
        names = [f"{label}_{position}" for position in range(len(self.others))]
        keys = [other.column.alias(name) for other, name in zip(self.others, names, strict=True)]
        there = [self._there(facts).select(*keys)] if self.table else []
        if self.same:
            there.append(facts.frame.select(*keys))
        has_key = reduce(and_, (F.col(name).isNotNull() for name in names))
        found = reduce(DataFrame.union, there).where(has_key).distinct().withColumn(f"{label}_found", F.lit(True))
        here = {f"{name}_here": place.column for name, place in zip(names, self.places, strict=True)}
        is_equal = [F.col(f"{name}_here") == F.col(name) for name in names]
        return frame.withColumns(here).join(found, reduce(and_, is_equal), "left")

    def _there(self, facts: Facts) -> DataFrame:
        """Return the rows that the other table will have, those of this write left out."""
        frame = facts.audit.spark.table(self.table)
        replaced = facts.audit.replaced
        if not self.same or replaced is None:
            return frame
        gone = replaced()
        kinds = {field.name.lower(): field for field in facts.audit.schema}
        fields = [kinds[column.name.lower()] for column in facts.audit.partition_columns]
        return frame.where(~in_partitions(fields, gone)) if gone else frame

    def failing(self, label: str) -> Column | None:
        has_key = reduce(and_, (place.column.isNotNull() for place in self.places))
        return has_key & F.col(f"{label}_found").isNull()


def _is_same(table: str, target: Target) -> bool:
    """Whether a name means the table that is written, and no view of this session."""
    spark: Any = target.spark
    try:
        named = str(TableName.parse(table, default_database=spark.catalog.currentDatabase()))
    except InvalidInputError:  # of another catalog
        return False
    return named == target.table and ("." in table or not spark.catalog.getTable(table).isTemporary)


def _comparable(one: DataType, other: DataType) -> bool:
    """Whether values of two types are equal where they look equal."""
    if is_text(one) or is_text(other):
        return is_text(one) and is_text(other)
    if isinstance(one, NumericType) and isinstance(other, NumericType):
        floats = [isinstance(kind, (FloatType, DoubleType)) for kind in (one, other)]
        return all(floats) or (not any(floats) and _digits(one, other) <= MAX_DIGITS)
    if isinstance(one, (StructType, ArrayType, MapType)):
        return one.simpleString() == other.simpleString()
    return type(one) is type(other)


def _digits(*kinds: NumericType) -> int:
    """Return how many digits the values of some types of exact numbers have, before and after the point."""
    sizes = [
        (kind.precision - kind.scale, kind.scale) if isinstance(kind, DecimalType) else (DIGITS[kind.typeName()], 0)
        for kind in kinds
    ]
    return max(before for before, _ in sizes) + max(after for _, after in sizes)
