"""The expressions of a call, in SQL or as Columns: what Spark understands, and what has one answer for each row."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import BooleanType, StructField, StructType

from table_writer.checked import nearest
from table_writer.errors import InvalidInputError
from table_writer.jobs.plan.fit import fit
from table_writer.jobs.plan.types import table_schema
from table_writer.model.table import Table
from table_writer.spark import open_gateway
from table_writer.spark.conditions import require_expression
from table_writer.spark.gateway import Analysis
from table_writer.spark.sql import SPARK_ERRORS, analyzed_now, spark_reason
from table_writer.spark.types import shown_type

VALUE: Final = "__table_writer_value"
NO_COLUMN: Final = re.compile(r"^\[(UNRESOLVED_COLUMN|FIELD_NOT_FOUND|INVALID_EXTRACT)")
Expression = str | Column
SHOWN_COLUMN: Final = re.compile(r"\AColumn<'(.*)'>\Z", re.DOTALL)


class UnknownColumnError(InvalidInputError):
    """An expression names a column that its table does not have."""


def blank(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return a frame without rows, over which an expression is analyzed by itself."""
    return spark.createDataFrame([], schema)


def named(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return rows whose columns expressions may qualify by the last of some names, or by several of them."""
    return rows.alias(names[0]) if len(names) == 1 else open_gateway(rows.sparkSession).statements().named(rows, names)


def table_column(table: Table, name: str, parameter: str) -> StructField:
    """Return the table's column of a name, in any case; ``InvalidInputError`` names those that there are."""
    fields = {field.name.lower(): field for field in table_schema(table)}
    if name.lower() not in fields:
        raise InvalidInputError(
            f"{parameter}: {table.name} has no column {name!r}{nearest(name.lower(), fields)}; it has"
            f" {', '.join(fields)}",
            table=str(table.name),
        )
    return fields[name.lower()]


def values_of(frame: DataFrame, values: Mapping[str, Expression], table: Table) -> dict[str, Column]:
    """Return new values over a frame's columns by the table's columns, in their types.

    Raises ``InvalidInputError`` for a column or an expression that there is not, and ``SchemaMismatchError`` for a
    value that its column does not take without loss.
    """
    fields = {field.name: field for field in (table_column(table, name, "set") for name in values)}
    columns = [value_of(frame, value, f"set[{name!r}]") for name, value in values.items()]
    named = dict(zip(fields, columns, strict=True))
    partition_columns = [column.name for column in table.partition_columns if column.name in fields]
    in_order = StructType(sorted(fields.values(), key=lambda field: field.name in partition_columns))
    fit(
        frame.select(*(column.alias(name) for name, column in named.items())),
        in_order,
        str(table.name),
        partition_columns,
    )
    return {name: column.cast(fields[name].dataType) for name, column in named.items()}


def value_of(frame: DataFrame, expression: Expression, parameter: str) -> Column:
    """Return an expression over a frame's columns; refuse what Spark does not understand, or what asks other rows."""
    _analysis(frame, expression, parameter)
    return _column(expression)


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition over a row, which has one answer each time."""

    column: Column
    is_pure: bool  # of the row's values and Spark's own functions: nobody can make it answer otherwise
    has_subquery: bool  # it asks a table
    names: frozenset[str] = frozenset()  # of the frame's columns that it asks about

    @property
    def or_false(self) -> Column:
        """Return the same with false for null."""
        return F.coalesce(self.column, F.lit(False))


def predicate_of(frame: DataFrame, predicate: Expression, parameter: str) -> Predicate:
    """Return a predicate over a frame's columns; refuse what is none, or could answer otherwise the next time."""
    found = _analysis(frame, predicate, parameter)
    if found.kinds != (BooleanType(),):
        raise InvalidInputError(f"{parameter}={shown(predicate)} is {shown_type(found.kinds[0])}, not boolean")
    if not found.is_deterministic or found.asks_clock:
        raise InvalidInputError(
            f"{parameter}={shown(predicate)} is about other rows each time it is asked: write the value out"
        )
    is_pure = not (found.has_subquery or found.has_foreign_code)
    return Predicate(_column(predicate), is_pure=is_pure, has_subquery=found.has_subquery, names=found.names)


def sql_of(expression: Expression) -> str:
    """Return the text of an expression: of a Column, what Spark shows as ``Column<'(id = 1)'>``."""
    return expression if isinstance(expression, str) else SHOWN_COLUMN.sub(r"\1", str(expression))


def shown(expression: Expression) -> str:
    """Return an expression for a message."""
    return repr(expression) if isinstance(expression, str) else str(expression)


def _column(expression: Expression) -> Column:
    return F.expr(f"({expression})") if isinstance(expression, str) else expression


def _analysis(frame: DataFrame, expression: Expression, parameter: str) -> Analysis:
    try:
        if isinstance(expression, str):
            require_expression(frame, expression)
        column = _column(expression)
        analyzed_now(frame.select("*", column.alias(VALUE)))  # beside a row an aggregate has no place
        found = open_gateway(frame.sparkSession).analysis(frame, column)
    except InvalidInputError as error:
        raise _refusal(parameter, expression, error.message) from error
    except SPARK_ERRORS as error:
        raise _refusal(parameter, expression, spark_reason(error)) from error
    faults: Mapping[str, bool] = {
        "makes several rows of one": found.makes_rows,
        "asks other rows (OVER)": found.has_window,
    }
    for fault, is_so in faults.items():
        if is_so:
            raise InvalidInputError(
                f"{parameter}={shown(expression)} {fault}: expected an expression over one row's columns"
            )
    return found


def _refusal(parameter: str, expression: Expression, reason: str) -> InvalidInputError:
    kind = UnknownColumnError if NO_COLUMN.match(reason) else InvalidInputError
    return kind(f"{parameter}={shown(expression)}: {reason}")
