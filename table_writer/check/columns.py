"""The columns that checks are bound to, and how columns, values and numbers are spelled in messages."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import CharType, DataType, StringType, StructField, StructType, VarcharType

from table_writer.errors import InvalidInputError, printable
from table_writer.model.column_statistics import CHAR_VARCHAR
from table_writer.spark.sql import quoted

PART: Final = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")  # of a path, as in SQL
KNOWN: Final = 10  # columns that a message lists
LISTED: Final = 5
LONGEST_NAME: Final = 120
LONGEST_VALUE: Final = 40


@dataclass(frozen=True, kw_only=True)
class ColumnPath:
    """A column, or a field in structs of one."""

    path: tuple[str, ...]  # names as the table spells them, from the column inwards
    kind: DataType
    is_partition: bool = False
    is_char: bool = False  # ``char(n)``: trailing blanks do not count, as in a comparison of SQL

    @property
    def shown(self) -> str:
        return printable(".".join(self.path))

    @property
    def top(self) -> str:
        return self.path[0]

    @property
    def value(self) -> Column:
        value = reduce(Column.getField, self.path[1:], F.col(quoted(self.top)))
        return F.rtrim(value) if self.is_char else value


@dataclass(frozen=True, kw_only=True)
class Target:
    """The table that checks are bound to."""

    spark: SparkSession  # its settings say how names are matched and what a time without a zone means
    table: str
    schema: StructType  # data columns, then partition columns
    partition_columns: tuple[str, ...] | None = None  # None: not known yet

    @property
    def time_zone(self) -> str:
        """The zone of times that are given without one."""
        return str(self.spark.conf.get("spark.sql.session.timeZone"))

    @property
    def empty(self) -> DataFrame:
        """A frame with these columns and no row, for Spark's analyzer."""
        return self.spark.createDataFrame([], self.schema)

    def same(self, one: str, other: str) -> bool:
        """Whether Spark takes two names for one column's."""
        is_case_sensitive = str(self.spark.conf.get("spark.sql.caseSensitive")).lower() == "true"
        return one == other or (not is_case_sensitive and one.lower() == other.lower())

    def column(self, name: str) -> ColumnPath:
        """Find a column by its name, or a field by its path as in SQL; a column of just that name goes first."""
        fields = self._walk([name]) or self._walk(_parts(name))
        if not fields:
            known = listed((repr(one) for one in self.schema.names), KNOWN)
            raise InvalidInputError(f"{self.table} has no column {shown(name)}; it has {known}", table=self.table)
        partitions = {one.lower() for one in self.partition_columns or ()}  # the metastore has lower case only
        return ColumnPath(
            path=tuple(field.name for field in fields),
            kind=fields[-1].dataType,
            is_partition=len(fields) == 1 and fields[0].name.lower() in partitions,
            is_char=len(fields) == 1 and declared_type(fields[0]).startswith("char("),
        )

    def columns(self, names: Iterable[str]) -> tuple[ColumnPath, ...]:
        return tuple(map(self.column, names))

    def _walk(self, parts: Iterable[str]) -> list[StructField]:
        """Return the fields on the way from the table inwards; none if there is no such way."""
        fields: list[StructField] = []
        inside: DataType = self.schema
        for part in parts:
            here = inside if isinstance(inside, StructType) else ()
            found = next((field for field in here if self.same(field.name, part)), None)
            if found is None:
                return []
            fields.append(found)
            inside = found.dataType
        return fields


def _parts(path: str) -> list[str]:
    """Split a path at its dots, but for those between backquotes; no part if it is none."""
    found = list(PART.finditer(path))
    is_path = ".".join(part[0] for part in found) == path
    return [(part[1] or part[2]).replace("``", "`") for part in found] if is_path else []


def declared_type(field: StructField) -> str:
    """Return a column's type as the table declares it: ``char(n)`` is a string to Spark, its limit metadata."""
    return str(field.metadata.get(CHAR_VARCHAR) or field.dataType.simpleString())


def is_text(kind: DataType) -> bool:
    return isinstance(kind, (StringType, CharType, VarcharType))


def shortened(text: str, longest: int = LONGEST_VALUE) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def shown(value: object) -> str:
    """Spell one value, cut and printable, text in quotes."""
    return printable(shortened(repr(value) if isinstance(value, (str, bytes)) else str(value)))


def listed(values: Iterable[str], most: int = LISTED) -> str:
    """Enumerate the first of some texts.

    Examples
    --------
    >>> listed("abcdefg")
    'a, b, c, d, e and 2 more'
    """
    texts = list(values)
    hidden = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {hidden:,} more" if hidden > 0 else "")


def check_name(function: str, *arguments: object, **keywords: object) -> str:
    """Return how a check calls itself if nobody names it: as it was called; the same in every process.

    Examples
    --------
    >>> check_name("in_range", "amount", min=0, max=None)
    'in_range(amount, min=0)'
    """
    given = [*map(str, arguments), *(f"{key}={value}" for key, value in keywords.items() if value is not None)]
    name = printable(f"{function}({', '.join(given)})")
    if len(name) <= LONGEST_NAME:
        return name
    mark = f"…{zlib.crc32(name.encode()):08x})"  # long names that begin alike stay two names
    return name[: LONGEST_NAME - len(mark)] + mark
