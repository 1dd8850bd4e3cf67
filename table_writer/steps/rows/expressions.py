"""The expressions of a call, in SQL or as Columns: what Spark understands, and what has one answer for each row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import BooleanType, StructType

from table_writer.errors import InvalidInputError
from table_writer.spark import open_gateway
from table_writer.spark.conditions import require_expression
from table_writer.spark.gateway import Analysis
from table_writer.spark.sql import SPARK_ERRORS, quoted, spark_reason

VALUE: Final = "__table_writer_value"
Expression = str | Column


def blank(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return a frame without rows, over which an expression is analyzed by itself."""
    return spark.createDataFrame([], schema)


def value_of(frame: DataFrame, expression: Expression, parameter: str) -> Column:
    """Return an expression over a frame's columns; refuse what Spark does not understand, or what asks other rows."""
    _analysis(frame, expression, parameter)
    return _column(expression)


def is_true(frame: DataFrame, predicate: Expression, parameter: str) -> tuple[Column, bool]:
    """Return whether a predicate holds, null counting as no, and whether it has a subquery.

    Raises ``InvalidInputError`` if it is no predicate, or if its answer could differ from one time to the next.
    """
    found = _analysis(frame, predicate, parameter)
    if found.kinds != (BooleanType(),):
        raise InvalidInputError(f"{parameter}={shown(predicate)} is {found.kinds[0].simpleString()}, not boolean")
    if not found.is_deterministic:
        raise InvalidInputError(
            f"{parameter}={shown(predicate)} is about other rows each time it is asked: write the value out"
        )
    return F.coalesce(_column(predicate), F.lit(False)), found.has_subquery


def shown(expression: Expression) -> str:
    """Return an expression for a message."""
    return repr(expression) if isinstance(expression, str) else str(expression)


def _column(expression: Expression) -> Column:
    return F.expr(f"({expression})") if isinstance(expression, str) else expression


def _analysis(frame: DataFrame, expression: Expression, parameter: str) -> Analysis:
    try:
        if isinstance(expression, str):
            require_expression(frame, expression)
        named = frame.select("*", _column(expression).alias(VALUE))
        found = open_gateway(frame.sparkSession).analysis(named, quoted(VALUE))
    except InvalidInputError as error:
        raise InvalidInputError(f"{parameter}={shown(expression)}: {error.message}") from error
    except SPARK_ERRORS as error:
        raise InvalidInputError(f"{parameter}={shown(expression)}: {spark_reason(error)}") from error
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
