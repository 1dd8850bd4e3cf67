"""A check in SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    NumericType,
    StructType,
)

from table_writer.check.check import SPARK, Check, CountIf, Facts, Question
from table_writer.check.columns import Place, Target, is_text, row_count_text, shortened, shown
from table_writer.check.rows import RowQuestion
from table_writer.errors import InvalidInputError, printable
from table_writer.model.check_result import CheckResult
from table_writer.model.table import TableName
from table_writer.spark.sql import in_partitions, quoted, spark_reason

__all__ = ["Analyzed", "Expression", "References", "analyze"]


LONGEST_SQL: Final = 80  # characters of it in a message

MAX_DIGITS: Final = 38  # of Spark's decimals

DIGITS: Final = {"byte": 3, "short": 5, "integer": 10, "long": 19}


@dataclass(frozen=True, kw_only=True)
class Analyzed:
    """What Spark's analyzer says of an expression.

    Parameters
    ----------
    places
        The columns it names.
    is_aggregate
        It is about all rows at once.
    is_repeatable
        A row's values alone give the same answer each time: no other row (a window) and no other table is asked.
    """

    places: tuple[Place, ...]
    is_aggregate: bool
    is_repeatable: bool


def analyze(sql: str, target: Target, check: Check) -> Analyzed:
    """Let Spark analyze an expression over the table's columns.

    Raises
    ------
    InvalidInputError
        It is no condition over them.
    """
    try:
        frame = target.empty.select(F.expr(sql))
        kinds = [field.dataType for field in frame.schema]
        plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001  # PySpark has no public way to the plan
        nodes = list(_nodes(plan))
        names = {name for node in nodes for name in _names(node)}
        steps = set(map(_kind, nodes))
        is_aggregate, makes_rows = "Aggregate" in steps, "Generate" in steps
        is_repeatable = bool(plan.deterministic()) and plan.subqueriesAll().size() == 0 and "Window" not in steps
    except (PySparkException, Py4JError) as error:
        raise check.wrong(
            f"{shown(sql)} is no condition over the columns of {target.table}: {spark_reason(error)}"
        ) from error
    if kinds != [BooleanType()] or makes_rows:
        found = ", ".join(kind.simpleString() for kind in kinds[:3])
        raise check.wrong(f"{shown(sql)} is no condition: it is {found}{', of several rows' * makes_rows}, not boolean")
    places = tuple(target.place(quoted(name)) for name in target.schema.names if name in names)
    return Analyzed(places=places, is_aggregate=is_aggregate, is_repeatable=is_repeatable)


def _nodes(plan: Any) -> Iterator[Any]:
    """Yield a plan's nodes but its leaves."""
    children = plan.children()
    if children.size():
        yield plan
    for position in range(children.size()):
        yield from _nodes(children.apply(position))


def _kind(node: Any) -> str:
    return str(node.nodeName())


def _names(node: Any) -> Iterator[str]:
    found = node.references().toSeq()
    yield from (str(found.apply(position).name()) for position in range(found.size()))


@dataclass(frozen=True, kw_only=True)
class Expression(Check):
    """A condition is true for every row, or, with an aggregate function in it, for all of them together."""

    sql: str

    def bind(self, target: Target) -> Question:
        """Let Spark analyze it."""
        found = analyze(self.sql, target, self)
        text = printable(shortened(self.sql, LONGEST_SQL))
        if found.is_aggregate:
            return _OfAllRows(check=self, places=found.places, sql=self.sql, text=text)
        return _OfEachRow(
            check=self, places=found.places, sql=self.sql, repeatable=found.is_repeatable, verdict=f"break {text}"
        )


@dataclass(frozen=True, kw_only=True)
class _OfEachRow(RowQuestion):
    sql: str
    repeatable: bool

    @property
    def is_repeatable(self) -> bool:
        return self.repeatable

    def failing(self, label: str) -> Column | None:  # noqa: ARG002
        return ~F.expr(self.sql)


@dataclass(frozen=True, kw_only=True)
class _OfAllRows(Question):
    sql: str
    text: str

    def known(self, facts: Facts) -> CheckResult | None:  # noqa: ARG002
        """Ask Spark also where there are no rows: ``count(*) > 0`` is false there."""
        return None

    @property
    def is_local(self) -> bool:
        """A partition's values stand for many rows."""
        return False

    def measures(self, flag: Column, count_if: CountIf) -> Sequence[Column]:  # noqa: ARG002
        return [F.expr(self.sql)]

    def judged(self, measured: Sequence[Any], facts: Facts) -> CheckResult:
        over = f"over {row_count_text(facts.rows)}"
        if measured[0] is False:
            return self.failed(f"{self.text} is false {over}", by=SPARK)
        return self.passed(f"{self.text} is {'true' if measured[0] else 'null'} {over}", SPARK)


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
