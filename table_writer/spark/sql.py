"""How names and texts are put into a SQL statement, and what to quote of Spark's answer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import StructField

from table_writer.model.column_statistics import CHAR_VARCHAR
from table_writer.model.table import NULL_PARTITION, PartitionValues

__all__ = ["garbled", "in_partitions", "literal", "quoted", "spark_reason"]


TRAPS: Final = (
    ("spark.sql.variable.substitute", "${", "would take '${' in a name or a default for a variable"),
    ("spark.sql.parser.escapedStringLiterals", "\\", "would not undo the escaping of quotes, backslashes and '${'"),
)
"""Session settings under which Spark reads a text in a statement differently from how it is meant."""


@functools.cache
def quoted(name: str) -> str:
    """Return a name as Spark SQL takes it, whatever is in it.

    Examples
    --------
    >>> print(quoted("a `b`"))
    `a ``b```
    """
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    r"""Quote a text; ``${`` is escaped too, since Spark puts variables into a statement before it reads it.

    Examples
    --------
    >>> print(literal("it's ${env:HOME}\\"))
    'it\'s \u0024{env:HOME}\\'
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
    return f"'{escaped}'"


def garbled(statement: str, setting: Callable[[str], str | None]) -> str:
    r"""Say why a session would read a statement differently from how it is meant; empty if it would not.

    Parameters
    ----------
    statement
        With :func:`quoted` names and :func:`literal` texts.
    setting
        Looks up a setting of the session.

    Examples
    --------
    >>> session = {"spark.sql.parser.escapedStringLiterals": "true"}
    >>> garbled("COMMENT 'plain'", session.get)
    ''
    >>> garbled("COMMENT " + literal("it's"), session.get).partition(":")[2]
    ' set spark.sql.parser.escapedStringLiterals=false in this session, or choose other texts'
    """
    for name, text, effect in TRAPS:
        if text in statement and str(setting(name)).lower() == "true":
            return f"Spark {effect}: set {name}=false in this session, or choose other texts"
    return ""


def spark_reason(said: object) -> str:
    r"""Return the first line that says something, of an error of Spark or of its text; a stack follows it.

    Examples
    --------
    >>> spark_reason("An error occurred while calling o1.collect.\n: java.lang.Error: no room\n\tat x")
    'java.lang.Error: no room'
    """
    lines = (line.strip(": ") for line in str(said).splitlines())
    return next((line for line in lines if line and not line.startswith("An error occurred while calling")), str(said))


def in_partitions(fields: Sequence[StructField], partitions: Collection[PartitionValues]) -> Column:
    """Return whether a row is of one of some partitions; Spark lists no directory of the others.

    One set to look up: a chain of ORs overflows Spark's stack at some thousand partitions.

    Parameters
    ----------
    fields
        The partition columns; none of an unpartitioned table.
    partitions
        One or more.
    """
    if not fields:
        return F.lit(True)

    def comparable(column: Column, field: StructField) -> Column:  # char(n) is read with blanks, and may lie without
        return F.rtrim(column) if str(field.metadata.get(CHAR_VARCHAR)).startswith("char(") else column

    def value(text: str, field: StructField) -> Column:
        return comparable(F.lit(None if text == NULL_PARTITION else text).cast(field.dataType), field)

    def struct(values: Sequence[Column]) -> Column:  # nulls inside of structs are equal
        return F.struct(*(one.alias(f"_{position}") for position, one in enumerate(values)))

    rows = [struct([value(text, field) for text, field in zip(values, fields, strict=True)]) for values in partitions]
    return struct([comparable(F.col(quoted(field.name)), field) for field in fields]).isin(rows)
