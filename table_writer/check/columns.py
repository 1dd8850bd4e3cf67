"""What a check is bound to: the columns of a table as Spark would find them."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import (
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from table_writer.errors import InvalidInputError, printable
from table_writer.model.column_statistics import CHAR_VARCHAR
from table_writer.model.partition_value import canonical
from table_writer.model.table import NULL_PARTITION, unescape
from table_writer.spark.sql import quoted

__all__ = [
    "PartitionKey",
    "Place",
    "Target",
    "check_name",
    "comparable",
    "counted",
    "declared_type",
    "is_text",
    "listed",
    "partition_key",
    "printable",
    "row_count_text",
    "shortened",
    "shown",
    "typed_text",
]


PART: Final = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")

KNOWN: Final = 10  # columns that a message lists

PLAIN_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?", re.ASCII)

PLAIN_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)

TRUTH: Final = {"true": True, "false": False}

PartitionKey = Mapping[str, str]
"""Values of some partition columns, by name in lower case."""


LONGEST_NAME: Final = 120

LONGEST_VALUE: Final = 40

LISTED: Final = 5


@dataclass(frozen=True, kw_only=True)
class Place:
    """A column, or a field in structs of one.

    Parameters
    ----------
    path
        Names as the table spells them, from the column inwards.
    kind
        Spark's type.
    is_partition
        Whether it is a partition column.
    is_char
        Whether it is ``char(n)``: trailing blanks do not count, as in a comparison of SQL.
    """

    path: tuple[str, ...]
    kind: DataType
    is_partition: bool = False
    is_char: bool = False

    @property
    def shown(self) -> str:
        """The name for people."""
        return printable(".".join(self.path))

    @property
    def top(self) -> str:
        """The column."""
        return self.path[0]

    @property
    def is_nested(self) -> bool:
        """Whether it is inside a struct."""
        return len(self.path) > 1

    @property
    def column(self) -> Column:
        """The value in a row."""
        value = reduce(Column.getField, self.path[1:], F.col(quoted(self.top)))
        return F.rtrim(value) if self.is_char else value


@dataclass(frozen=True, kw_only=True)
class Target:
    """The table that checks are bound to.

    Parameters
    ----------
    spark
        The session, whose settings say how names are matched and what a time without a zone means.
    table
        For messages.
    schema
        Data columns, then partition columns.
    partition_columns
        Their names; ``None`` where they are not known yet.
    """

    spark: SparkSession
    table: str
    schema: StructType
    partition_columns: tuple[str, ...] | None

    @property
    def is_case_sensitive(self) -> bool:
        """Whether Spark tells ``id`` and ``ID`` apart."""
        return str(self.spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"

    @property
    def time_zone(self) -> str:
        """The zone of times that are given without one."""
        return str(self.spark.conf.get("spark.sql.session.timeZone", "UTC"))

    @property
    def empty(self) -> DataFrame:
        """A frame with these columns and no row, for Spark's analyzer."""
        return self.spark.createDataFrame([], self.schema)

    def same(self, one: str, other: str) -> bool:
        """Whether Spark takes two names for one column's."""
        return one == other or (not self.is_case_sensitive and one.lower() == other.lower())

    def place(self, name: str) -> Place:
        """Find a column by its name, or a field by its path; a column of just that name goes first.

        Raises
        ------
        InvalidInputError
            There is none.
        """
        if not isinstance(name, str):
            raise InvalidInputError(f"{shown(name)} is no name of a column: give a text", table=self.table)
        found = next(self._inside(name, self.schema), None) or next(self._quoted(name), None)
        if found is None:
            known = listed((repr(one) for one in self.schema.names), KNOWN)
            raise InvalidInputError(f"{self.table} has no column {shown(name)}; it has {known}", table=self.table)
        first, last = found[0], found[-1]
        return Place(
            path=tuple(field.name for field in found),
            kind=last.dataType,
            is_partition=self.is_partition(first.name),
            is_char=len(found) == 1 and declared_type(last).startswith("char("),
        )

    def is_partition(self, name: str) -> bool:
        """Whether a column is known to be a partition column; the metastore knows them in lower case only."""
        return name.lower() in {one.lower() for one in self.partition_columns or ()}

    def _inside(self, name: str, struct: DataType) -> Iterator[tuple[StructField, ...]]:
        """Yield where a name leads in a struct, names with dots in them first."""
        fields = list(struct) if isinstance(struct, StructType) else []
        yield from ((field,) for field in fields if self.same(field.name, name))
        for field in sorted(fields, key=lambda field: -len(field.name)):
            begin, dot, rest = name[: len(field.name)], name[len(field.name) :][:1], name[len(field.name) + 1 :]
            if dot == "." and self.same(field.name, begin):
                yield from ((field, *more) for more in self._inside(rest, field.dataType))

    def _quoted(self, name: str) -> Iterator[tuple[StructField, ...]]:
        """Yield where a name leads that is written as in SQL, with backquotes."""
        parts = [(match[1] or match[2]).replace("``", "`") for match in PART.finditer(name)]
        yield from self._walked(parts, self.schema)

    def _walked(self, parts: Sequence[str], struct: DataType) -> Iterator[tuple[StructField, ...]]:
        fields = list(struct) if isinstance(struct, StructType) and parts else []
        for field in (field for field in fields if self.same(field.name, parts[0])):
            if len(parts) == 1:
                yield (field,)
            else:
                yield from ((field, *more) for more in self._walked(parts[1:], field.dataType))


def declared_type(field: StructField) -> str:
    """Return a column's type as the table declares it: ``char(n)`` is a string to Spark, its limit metadata."""
    return str(field.metadata.get(CHAR_VARCHAR) or field.dataType.simpleString())


def is_text(kind: DataType) -> bool:
    """Whether values of a type are text."""
    return isinstance(kind, (StringType, CharType, VarcharType))


def typed_text(text: str, place: Place) -> object:
    """Read a partition's value as its column's type; ``NotImplemented`` where that is best left to Spark."""
    kind = place.kind
    if text == NULL_PARTITION:
        return None
    if is_text(kind):
        return text if kind == StringType() and not place.is_char else NotImplemented
    if isinstance(kind, BooleanType):
        return TRUTH.get(text.lower(), NotImplemented)
    if isinstance(kind, DateType):
        return _date(text)
    if isinstance(kind, (IntegralType, DecimalType)) and PLAIN_NUMBER.fullmatch(text):
        return Decimal(text) if isinstance(kind, DecimalType) or "." in text else int(text)
    return NotImplemented


def _date(text: str) -> object:
    try:
        return date.fromisoformat(text) if PLAIN_DATE.fullmatch(text) else NotImplemented
    except ValueError:  # 2024-02-30
        return NotImplemented


def partition_key(given: object, target: Target, columns: Mapping[str, str]) -> PartitionKey:
    """Read what a user names partitions by: ``dt=2024-01-01/country=de`` or ``{"dt": "2024-01-01"}``.

    Columns that are left out may have any value.

    Raises
    ------
    InvalidInputError
        It names no partition of the table.
    """
    if isinstance(given, str):
        pairs = [part.partition("=") for part in given.strip("/").split("/")]
        named: list[tuple[object, object]] = [(unescape(name), unescape(value)) for name, _, value in pairs]
        is_whole = all(separator for _, separator, _ in pairs)
    else:
        is_whole = isinstance(given, Mapping)
        named = list(given.items()) if isinstance(given, Mapping) else []
    names = [str(name).lower() for name, _ in named]
    if not is_whole or not names or len(set(names)) < len(names) or not set(names) <= set(columns):
        raise InvalidInputError(
            f"{shown(given)} names no partition of {target.table}, which is partitioned by {', '.join(columns) or '—'}:"
            ' write "column=value/column=value" or {"column": value}',
            table=target.table,
        )
    return {
        name: comparable(_text(value, columns[name]), columns[name], target.time_zone)
        for name, (_, value) in zip(names, named, strict=True)
    }


def comparable(text: str, kind: str, time_zone: str) -> str:
    """Return what two spellings of one value have in common; what is no value of its type is only itself."""
    (found,) = canonical((text,), (kind,), time_zone)
    return text if found == NULL_PARTITION else found


def _text(value: object, kind: str) -> str:
    if value is None or value == "":
        return NULL_PARTITION
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime) and kind == "date":  # as pandas has dates; another time of a day is no date
        return value.date().isoformat() if value.time() == time() else repr(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    return str(value)


def shortened(text: str, longest: int = LONGEST_VALUE) -> str:
    """Cut a text.

    Examples
    --------
    >>> shortened("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= longest else text[: longest - 1] + "…"


def shown(value: object) -> str:
    """Spell one value.

    Examples
    --------
    >>> print(shown("it's"), shown("de"), shown(3))
    "it's" 'de' 3
    """
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


def counted(count: int, noun: str) -> str:
    """Spell a number of things.

    Examples
    --------
    >>> counted(1, "column"), counted(1200, "column")
    ('1 column', '1,200 columns')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def row_count_text(count: int) -> str:
    """Spell a number of rows.

    Examples
    --------
    >>> row_count_text(1), row_count_text(1200)
    ('1 row', '1,200 rows')
    """
    return counted(count, "row")


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
