"""A text that is to be a condition: one rule for every keyword that takes one, over both kinds of session.

Spark's parser takes more for an expression than its author has meant: a word that is left over becomes a name
(``dt >= 'd1' AND``), and what follows two dashes is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    StringType,
    StructField,
    TimestampNTZType,
    TimestampType,
)

from table_writer.errors import InvalidInputError
from table_writer.spark import open_gateway
from table_writer.spark.gateway import Analysis
from table_writer.spark.sql import SPARK_ERRORS, analyzed_now, fetched, quoted, spark_reason
from table_writer.spark.types import cast_sql, shown_type

TEXTS: Final = re.compile(
    r"""[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|\$(\w*)\$.*?\$\1\$""", re.DOTALL
)
"""Quoted texts and names, in which nothing is a comment."""

UNREAD: Final = {"--": "a comment (--)", "/*": "a comment or a hint (/*)", ";": "a semicolon"}
BY_WAY_OF: Final[Mapping[type[DataType], DataType]] = {
    DateType: TimestampType(),
    TimestampNTZType: TimestampType(),
    BinaryType: StringType(),
}
"""The types of which a number is no value, and those that a number becomes first."""
PLAN: Final = re.compile("== Optimized Logical Plan ==(.*)== Physical Plan ==", re.DOTALL)


def require_expression(frame: DataFrame, sql: str) -> None:
    """Refuse a text that Spark reads otherwise than as one expression: with ``InvalidInputError`` that says how."""
    code = TEXTS.sub("''", sql)
    unread = next((what for mark, what in UNREAD.items() if mark in code), "")
    if unread:
        raise InvalidInputError(f"it has {unread}, and what follows could be passed over: leave it out")
    try:
        named = analyzed_now(frame.select(F.expr(sql))).columns
    except SPARK_ERRORS as error:
        raise InvalidInputError(spark_reason(error)) from error
    try:
        analyzed_now(frame.select(F.expr(f"({sql})")))  # in which nothing can have a name
    except SPARK_ERRORS as error:
        name = ", ".join(named[:3])
        raise InvalidInputError(
            f"Spark reads its last word as the name of what stands before it, {name!r}: finish it, or take the word out"
        ) from error


def condition(frame: DataFrame, sql: str) -> Analysis:
    """Let Spark analyze a condition over a frame's columns; no job is run.

    Raises ``InvalidInputError``, which says why, for a text that is no single expression, is not of true and false by
    itself, or makes several rows of one.
    """
    require_expression(frame, sql)
    try:
        found = open_gateway(frame.sparkSession).analysis(frame, sql)
    except SPARK_ERRORS as error:
        raise InvalidInputError(spark_reason(error)) from error
    if found.kinds != (BooleanType(),) or found.makes_rows:
        kinds = ", ".join(shown_type(kind) for kind in found.kinds[:3])
        several = ", of several rows" if found.makes_rows else ""
        raise InvalidInputError(f"it is {kinds}{several}, not boolean")
    return found


def is_settled(frame: DataFrame, sql: str) -> bool:
    """Return whether a condition answers alike for all values of its columns: Spark's optimizer makes a constant of it.

    So are ``dt = dt``, ``dt = 'd1' OR true`` and ``dt = NULL``. Columns count as never null where the text does not
    speak of null.
    """
    if "${" in sql:  # which a statement would read as a variable
        return False
    is_about_null = "null" in sql.lower()
    source = ", ".join(_value(field, may_be_null=is_about_null) for field in frame.schema)
    query = f"EXPLAIN EXTENDED SELECT 1 FROM (SELECT {source} FROM range(1)) AS source WHERE ({sql})"  # noqa: S608  # it is one expression
    [row] = fetched(frame.sparkSession.sql(query))
    found = PLAN.search(str(row[0]))  # none where the session cuts plans short
    return found is not None and "Filter " not in found[1]


def _value(field: StructField, *, may_be_null: bool) -> str:
    way = BY_WAY_OF.get(type(field.dataType))
    value, other = (
        cast_sql(number if way is None else cast_sql(number, way), field.dataType) for number in ("id", "0")
    )
    return f"{'nullif' if may_be_null else 'coalesce'}({value}, {other}) AS {quoted(field.name)}"
