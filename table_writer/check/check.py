"""What a check is, and what becomes of it once it is bound to a table's columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from table_writer.check.columns import ColumnPath, Target, shown
from table_writer.config import MOST_EXAMPLES
from table_writer.errors import InvalidInputError
from table_writer.model.check_result import ERROR, LONGEST_LINE, CheckResult, stored_line
from table_writer.model.column_statistics import ColumnStatistics
from table_writer.model.table import NULL_PARTITION, Column, PartitionValues
from table_writer.model.write import WrittenPartition

METADATA: Final = "metadata"
SPARK: Final = "spark"
FUNCTION: Final = "function"
Severity = Literal["error", "warn"]
CountIf = Callable[[SparkColumn], SparkColumn]  # makes the aggregate that counts the rows for which a condition is true


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
                f" {shown(self.name)}"
            )

    def bind(self, target: Target) -> Question:
        """Find the columns, without a Spark job; if the check does not fit the table, the error names the check."""
        try:
            return self.rule(self, target)
        except InvalidInputError as error:
            raise self.refused(error.message, target.table) from error

    def refused(self, message: str, table: str = "") -> InvalidInputError:
        """Return the error of a check that does not fit the table."""
        return InvalidInputError(message if self.name in message else f"check {self.name}: {message}", table=table)

    def passed(self, message: str, by: str = SPARK) -> CheckResult:
        return CheckResult(name=self.name, severity=self.severity, passed=True, message=message, answered_by=by)

    def failed(
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

    def known(self, facts: Facts) -> CheckResult | None:
        """Judge by what is known without a read; ``None`` where that does not decide it.

        A check of rows that failed by it may leave examples out: they are looked up.
        """
        return self.check.passed("there are no rows", METADATA) if facts.rows == 0 else None

    def joined(self, frame: DataFrame, facts: Facts, label: str) -> DataFrame:  # noqa: ARG002  # for those that need it
        """Add columns from elsewhere, their names beginning with the label; neither add nor drop a row."""
        return frame

    def wrong(self, label: str) -> SparkColumn | None:  # noqa: ARG002  # as above
        """Return whether a row is wrong, null where that is not known; ``None`` if rows are not judged one by one."""
        return None

    def measures(self, flag: SparkColumn, count_if: CountIf) -> Sequence[SparkColumn]:
        """Return the aggregates to be computed over all rows; the flag is what :meth:`wrong` returned."""
        return [count_if(flag)]

    def judged(self, measured: Sequence[Any], facts: Facts) -> CheckResult:
        raise NotImplementedError

    @property
    def is_local(self) -> bool:
        """Whether the partitions' values, each with its number of rows, are all it takes to judge."""
        return self.is_repeatable and bool(self.columns) and all(column.is_partition for column in self.columns)


@dataclass(frozen=True, kw_only=True, eq=False)
class QuestionOfWrite(Question):
    """Is answered by what is known of the write, also where there are no rows."""

    judge: Callable[[Facts], CheckResult]

    def known(self, facts: Facts) -> CheckResult:
        return self.judge(facts)


@dataclass(frozen=True, kw_only=True, eq=False)
class QuestionOfAggregates(Question):
    """Is answered by aggregates over all rows, also where there are none: ``count(*) > 0`` is false there."""

    aggregates: tuple[SparkColumn, ...]
    judge: Callable[[Sequence[Any], Facts], CheckResult]
    of_partitions: bool = False  # computed over partitions, not over rows

    def known(self, facts: Facts) -> CheckResult | None:  # noqa: ARG002
        return None

    @property
    def is_local(self) -> bool:
        """A partition's values stand for many rows."""
        return self.of_partitions

    def measures(self, flag: SparkColumn, count_if: CountIf) -> Sequence[SparkColumn]:  # noqa: ARG002
        return self.aggregates

    def judged(self, measured: Sequence[Any], facts: Facts) -> CheckResult:
        return self.judge(measured, facts)


@dataclass(frozen=True, kw_only=True)
class Audit:
    """A staged write as checks see it."""

    spark: SparkSession
    table: str
    write_id: str
    schema: StructType  # data columns, then partition columns, as the rows have them
    partition_columns: tuple[Column, ...]
    partitions: tuple[WrittenPartition, ...]  # what is staged; an unpartitioned table is its own one partition
    statistics: Mapping[str, ColumnStatistics]  # by column; one that is missing is not known
    dataframe: Callable[[], DataFrame]  # opens the staged files
    replaced_rows: Callable[[], int]  # counts what readers would see no more; asked once, if a check wants it
    replaced: Callable[[], Collection[PartitionValues]] | None = None
    examples: int = MOST_EXAMPLES  # rows that the result of a check may show; 0 keeps all data out of it


class Facts:
    """What is known of a staged write without reading it; each thing that costs a call is looked up once."""

    def __init__(self, audit: Audit) -> None:
        self.audit = audit
        self.names = tuple(column.name for column in audit.partition_columns)
        self.target = Target(spark=audit.spark, table=audit.table, schema=audit.schema, partition_columns=self.names)
        self._statistics = {name.lower(): one for name, one in audit.statistics.items()}

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
        """Return what footers and the names of partitions say of a column."""
        if column.is_partition:
            position = [name.lower() for name in self.names].index(column.top.lower())
            nulls = (one.rows for one in self.audit.partitions if one.values[position] == NULL_PARTITION)
            return ColumnStatistics(null_count=sum(nulls))
        known = None if len(column.path) > 1 or column.is_char else self._statistics.get(column.top.lower())
        return known or ColumnStatistics()
