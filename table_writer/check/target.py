"""What a check is bound to: the columns of a table as Spark would find them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import CharType, DataType, StringType, StructField, StructType, VarcharType

from table_writer.check.wording import listed, printable, shown
from table_writer.errors import InvalidInputError
from table_writer.model.column_statistics import CHAR_VARCHAR
from table_writer.sql_text import quoted

__all__ = ["Place", "Target", "declared_type", "is_text"]

PART: Final = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
KNOWN: Final = 10  # columns that a message lists


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
