"""The nouns of a check, the columns that it is bound to, and the texts of columns and values in its messages."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any, Final, Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import CharType, DataType, StringType, StructField, StructType, VarcharType

from table_writer.checked import nearest
from table_writer.config import MOST_EXAMPLES
from table_writer.errors import InvalidInputError, printable
from table_writer.model.check_result import ERROR, LONGEST_LINE, CheckResult, stored_line
from table_writer.model.column_statistics import ColumnStatistics
from table_writer.model.table import NULL_PARTITION, PartitionValues
from table_writer.model.table import Column as TableColumn
from table_writer.model.write import WrittenPartition
from table_writer.spark.sql import quoted
from table_writer.spark.types import exact_type, shown_type

METADATA: Final = "metadata"
SPARK: Final = "spark"
FUNCTION: Final = "function"
Severity = Literal["error", "warn"]
CountIf = Callable[[Column], Column]  # makes the aggregate that counts the rows for which a condition is true

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
    def display_name(self) -> str:
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

    @cached_property
    def empty(self) -> DataFrame:
        """A frame with these columns and no row, for Spark's analyzer."""
        return self.spark.createDataFrame([], self.schema)

    @cached_property
    def name_key(self) -> Callable[[str], str]:
        """Return a function that makes equal texts of names that Spark takes for one column's."""
        return str if str(self.spark.conf.get("spark.sql.caseSensitive")).lower() == "true" else str.lower

    @cached_property
    def _columns(self) -> dict[str, StructField]:
        return {self.name_key(field.name): field for field in reversed(self.schema.fields)}

    def is_same_name(self, name: str, other: str) -> bool:
        """Return whether Spark takes two names for one column's."""
        return self.name_key(name) == self.name_key(other)

    def column(self, name: str) -> ColumnPath:
        """Find a column by its name, or a field by its path as in SQL; a column of just that name goes first."""
        fields = self._walk([name]) or self._walk(_parts(name))
        if not fields:
            known = enumeration((repr(name) for name in self.schema.names), KNOWN)
            meant = nearest(name, self.schema.names) or "."
            raise InvalidInputError(
                f"{self.table} has no column {value_text(name)}{meant} It has {known}", table=self.table
            )
        partitions = {name.lower() for name in self.partition_columns or ()}  # the metastore has lower case only
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
            is_table = inside is self.schema  # which may have thousands of columns, and each be asked for
            same = (field for field in here if self.is_same_name(field.name, part))
            found = self._columns.get(self.name_key(part)) if is_table else next(same, None)
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
    return shown_type(exact_type(field))


def is_text(kind: DataType) -> bool:
    return isinstance(kind, (StringType, CharType, VarcharType))


def shortened_text(text: str, longest: int = LONGEST_VALUE) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def value_text(value: object) -> str:
    """Spell one value, cut and printable, text in quotes."""
    return printable(shortened_text(repr(value) if isinstance(value, (str, bytes)) else str(value)))


def enumeration(values: Iterable[str], most: int = LISTED) -> str:
    """Enumerate the first of some texts."""
    texts = list(values)
    hidden = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {hidden:,} more" if hidden > 0 else "")


def check_name(function: str, *arguments: object, **keywords: object) -> str:
    """Return how a check calls itself if nobody names it: as it was called; the same in every process."""
    given = [*map(str, arguments), *(f"{key}={value}" for key, value in keywords.items() if value is not None)]
    name = printable(f"{function}({', '.join(given)})")
    if len(name) <= LONGEST_NAME:
        return name
    mark = f"…{zlib.crc32(name.encode()):08x})"  # long names that begin alike stay two names
    return name[: LONGEST_NAME - len(mark)] + mark


@dataclass(frozen=True, kw_only=True)
class Check:
    """Something that must be true of the rows of a write. Made by the functions of :mod:`table_writer.check`.

    Parameters
    ----------
    name
        Unique among the checks of a write.
    severity
        ``"error"``: nothing is published if it fails. ``"warn"``: the write is published, and the result tells.
    rule
        Binds the check to the columns of a table.
    """

    name: str
    severity: str = ERROR
    rule: Rule = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse a name that is stored in another way: its result would not take the place of an earlier one."""
        if not self.name or stored_line(self.name) != self.name:
            raise InvalidInputError(
                f"the name of a check is one line of up to {LONGEST_LINE} characters, without blanks around it, not"
                f" {value_text(self.name)}"
            )

    def bind(self, target: Target) -> Question:
        """Find the columns, without a Spark job; if the check does not fit the table, the error names the check."""
        try:
            return self.rule(self, target)
        except InvalidInputError as error:
            raise self.misfit(error.message, target.table) from error

    def misfit(self, message: str, table: str = "") -> InvalidInputError:
        """Return the error of a check that does not fit the table."""
        return InvalidInputError(message if self.name in message else f"check {self.name}: {message}", table=table)

    def success(self, message: str, by: str = SPARK) -> CheckResult:
        return CheckResult(name=self.name, severity=self.severity, passed=True, message=message, answered_by=by)

    def failure(
        self,
        message: str,
        failed_rows: int | None = None,
        *,
        by: str = SPARK,
        examples: Sequence[Mapping[str, str]] = (),
    ) -> CheckResult:
        return CheckResult(
            name=self.name,
            severity=self.severity,
            passed=False,
            message=message,
            failed_rows=failed_rows,
            examples=tuple(examples),
            answered_by=by,
        )


Rule = Callable[[Check, Target], "Question"]  # what a check wants to be true, before the table's columns are known


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """A check that is bound to columns: what is known without a read, what to ask Spark, how to judge the answer."""

    check: Check
    columns: tuple[ColumnPath, ...] = ()  # what it is about; examples show these first
    is_repeatable: bool = True  # a row is judged alike each time, whatever other rows there are

    def result_without_read(self, facts: Facts) -> CheckResult | None:
        """Judge by what is known without a read; ``None`` where that does not decide it.

        A check of rows that failed by it may leave examples out: they are looked up.
        """
        return self.check.success("there are no rows", METADATA) if facts.rows == 0 else None

    def with_other_columns(self, frame: DataFrame, facts: Facts, label: str) -> DataFrame:  # noqa: ARG002  # for those that need it
        """Add columns from elsewhere, their names beginning with the label; neither add nor drop a row."""
        return frame

    def wrong(self, label: str) -> Column | None:  # noqa: ARG002  # as above
        """Return whether a row is wrong, null where that is not known; ``None`` if rows are not judged one by one."""
        return None

    def measures(self, flag: Column, count_if: CountIf) -> Sequence[Column]:
        """Return the aggregates to be computed over all rows; the flag is what :meth:`wrong` returned."""
        return [count_if(flag)]

    def result_of(self, measured: Sequence[Any], facts: Facts) -> CheckResult:
        raise NotImplementedError

    @property
    def is_local(self) -> bool:
        """Return whether the partitions' values, each with its number of rows, are all it takes to judge."""
        return self.is_repeatable and bool(self.columns) and all(column.is_partition for column in self.columns)


@dataclass(frozen=True, kw_only=True, eq=False)
class QuestionOfWrite(Question):
    """Is answered by what is known of the write, also where there are no rows."""

    judge: Callable[[Facts], CheckResult]

    def result_without_read(self, facts: Facts) -> CheckResult:
        return self.judge(facts)


@dataclass(frozen=True, kw_only=True, eq=False)
class QuestionOfAggregates(Question):
    """Is answered by aggregates over all rows, also where there are none: ``count(*) > 0`` is false there."""

    aggregates: tuple[Column, ...]
    judge: Callable[[Sequence[Any], Facts], CheckResult]
    of_partitions: bool = False  # computed over partitions, not over rows

    def result_without_read(self, facts: Facts) -> CheckResult | None:  # noqa: ARG002
        return None

    @property
    def is_local(self) -> bool:
        """A partition's values stand for many rows."""
        return self.of_partitions

    def measures(self, flag: Column, count_if: CountIf) -> Sequence[Column]:  # noqa: ARG002
        return self.aggregates

    def result_of(self, measured: Sequence[Any], facts: Facts) -> CheckResult:
        return self.judge(measured, facts)


@dataclass(frozen=True, kw_only=True)
class Audit:
    """A staged write as checks see it."""

    spark: SparkSession
    table: str
    write_id: str
    schema: StructType  # data columns, then partition columns, as the rows have them
    partition_columns: tuple[TableColumn, ...]
    partitions: tuple[WrittenPartition, ...]  # what is staged; an unpartitioned table is its own one partition
    statistics: Mapping[str, ColumnStatistics]  # by column; one that is missing is not known
    dataframe: Callable[[], DataFrame]  # opens the staged files
    replaced_rows: Callable[[], int]  # counts what readers would see no more; asked once, if a check wants it
    replaced_partitions: Callable[[], Collection[PartitionValues]] | None = None
    examples: int = MOST_EXAMPLES  # rows that the result of a check may show; 0 keeps all data out of it


class Facts:
    """Facts of a staged write that need no read of it; a fact that costs a call is looked up once."""

    def __init__(self, audit: Audit) -> None:
        self.audit = audit
        self.names = tuple(column.name for column in audit.partition_columns)
        self.target = Target(spark=audit.spark, table=audit.table, schema=audit.schema, partition_columns=self.names)
        self._statistics = {name.lower(): column_statistics for name, column_statistics in audit.statistics.items()}

    @cached_property
    def rows(self) -> int:
        return sum(partition.rows for partition in self.audit.partitions)

    @cached_property
    def replaced_rows(self) -> int:
        """Rows that readers would see no more."""
        return self.audit.replaced_rows()

    @cached_property
    def frame(self) -> DataFrame:
        return self.audit.dataframe()

    def statistics(self, column: ColumnPath) -> ColumnStatistics:
        """Return a column's statistics, from footers and the names of partitions."""
        if column.is_partition:
            position = [name.lower() for name in self.names].index(column.top.lower())
            nulls = (
                partition.rows for partition in self.audit.partitions if partition.values[position] == NULL_PARTITION
            )
            return ColumnStatistics(null_count=sum(nulls))
        known = None if len(column.path) > 1 or column.is_char else self._statistics.get(column.top.lower())
        return known or ColumnStatistics()
