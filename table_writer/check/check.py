"""What a check is, and what becomes of it once it is bound to a table's columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from table_writer.check.columns import Place, Target, shown, typed_text
from table_writer.config import MOST_EXAMPLES
from table_writer.errors import InvalidInputError
from table_writer.model.check_result import ERROR, LONGEST_LINE, SEVERITIES, CheckResult, stored_line
from table_writer.model.column_statistics import ColumnStatistics
from table_writer.model.table import Column, PartitionValues
from table_writer.model.write import StagedPartition

__all__ = ["FUNCTION", "METADATA", "SPARK", "Audit", "Check", "CountIf", "Facts", "Question", "Severity"]


METADATA: Final = "metadata"

SPARK: Final = "spark"

FUNCTION: Final = "function"

Severity = Literal["error", "warn"]

CountIf = Callable[[SparkColumn], SparkColumn]
"""Makes the aggregate that counts the rows for which a condition is true."""


@dataclass(frozen=True, kw_only=True)
class Check(ABC):
    """Something that must be true of the rows of a write. Made by the functions of :mod:`table_writer.check`.

    Parameters
    ----------
    name
        Unique among the checks of a write.
    severity
        ``"error"``: nothing is published if it fails. ``"warn"``: the write is published, and the result tells.
    """

    name: str
    severity: str = ERROR

    def __post_init__(self) -> None:
        """Refuse what is no name and no severity."""
        if not isinstance(self.name, str) or not self.name.strip():
            raise InvalidInputError(f"the name of a check is a text, not {shown(self.name)}")
        if stored_line(self.name) != self.name:  # another result would not take its place
            raise InvalidInputError(
                f"the name of a check is one line of up to {LONGEST_LINE} characters, without blanks around it, not"
                f" {shown(self.name)}"
            )
        if self.severity not in SEVERITIES:
            raise InvalidInputError(
                f"check {self.name}: severity is one of {', '.join(SEVERITIES)}, not {shown(self.severity)}"
            )

    @abstractmethod
    def bind(self, target: Target) -> Question:
        """Find the columns.

        Raises
        ------
        InvalidInputError
            The check does not fit the table.
        """

    def wrong(self, message: str) -> InvalidInputError:
        """Return the error of a call that makes no sense."""
        return InvalidInputError(f"check {self.name}: {message}")


@dataclass(frozen=True, kw_only=True)
class Question:
    """A check that is bound to columns: what is known without a read, what to ask Spark, how to judge the answer.

    Each kind of check overrides what applies to it.

    Parameters
    ----------
    check
        Whose question it is.
    places
        The columns it is about; examples show them first.
    """

    check: Check
    places: tuple[Place, ...] = ()

    def known(self, facts: Facts) -> CheckResult | None:
        """Judge by what is known without a read; ``None`` where that does not settle it.

        A check of rows that failed by it may leave examples out: they are looked up.
        """
        return self.passed("there are no rows", METADATA) if facts.rows == 0 else None

    def joined(self, frame: DataFrame, facts: Facts, label: str) -> DataFrame:  # noqa: ARG002  # for those that need it
        """Add columns from elsewhere, their names beginning with the label; neither add nor drop a row."""
        return frame

    def failing(self, label: str) -> SparkColumn | None:  # noqa: ARG002  # as above
        """Return whether a row is wrong, null where that is not known; ``None`` if rows are not judged one by one."""
        return None

    def measures(self, flag: SparkColumn, count_if: CountIf) -> Sequence[SparkColumn]:
        """Return the aggregates to be computed over all rows.

        Parameters
        ----------
        flag
            What :meth:`failing` returned.
        count_if
            Counts rows.
        """
        return [count_if(flag)]

    def judged(self, measured: Sequence[Any], facts: Facts) -> CheckResult:
        """Judge by the values of the aggregates."""
        raise NotImplementedError

    @property
    def is_local(self) -> bool:
        """Whether the partitions' values are all it takes to judge a row."""
        return bool(self.places) and all(place.is_partition for place in self.places)

    @property
    def is_repeatable(self) -> bool:
        """Whether a row is judged alike each time, whatever other rows there are."""
        return True

    @property
    def keys(self) -> tuple[SparkColumn, ...]:
        """What no two rows may have in common; none for all checks but one kind."""
        return ()

    def passed(self, message: str, by: str = SPARK) -> CheckResult:
        """Return the result of a check that is as it should be."""
        check = self.check
        return CheckResult(name=check.name, severity=check.severity, passed=True, message=message, answered_by=by)

    def failed(
        self,
        message: str,
        failed_rows: int | None = None,
        *,
        by: str = SPARK,
        examples: Sequence[Mapping[str, str]] = (),
    ) -> CheckResult:
        """Return the result of a check that is not."""
        return CheckResult(
            name=self.check.name,
            severity=self.check.severity,
            passed=False,
            message=message,
            failed_rows=failed_rows,
            examples=tuple(examples),
            answered_by=by,
        )


@dataclass(frozen=True, kw_only=True)
class Audit:
    """A staged write as checks see it.

    Parameters
    ----------
    spark, table, write_id
        The session that reads, ``database.table``, and the write.
    schema
        Data columns, then partition columns, as :attr:`dataframe` has them.
    partition_columns
        As the metastore describes them.
    partitions
        What is staged. An unpartitioned table is its own one partition.
    statistics
        By column; one that is missing is not known.
    dataframe
        Opens the staged files.
    replaced_rows
        Counts the rows that readers would see no more; asked at most once, and only if a check wants it.
    replaced
        The partitions whose present rows readers would see no more; asked only by a reference of the table to itself.
        ``None``: all rows that the table has stay.
    examples
        Rows that the result of a check may show; 0 keeps all data out of it.
    """

    spark: SparkSession
    table: str
    write_id: str
    schema: StructType
    partition_columns: tuple[Column, ...]
    partitions: tuple[StagedPartition, ...]
    statistics: Mapping[str, ColumnStatistics]
    dataframe: Callable[[], DataFrame]
    replaced_rows: Callable[[], int]
    replaced: Callable[[], Collection[PartitionValues]] | None = None
    examples: int = MOST_EXAMPLES

    @property
    def target(self) -> Target:
        """What checks are bound to."""
        names = tuple(column.name for column in self.partition_columns)
        return Target(spark=self.spark, table=self.table, schema=self.schema, partition_columns=names)


class Facts:
    """What is known of a staged write without reading it; each thing that costs a call is looked up once.

    Parameters
    ----------
    audit
        The write.
    """

    def __init__(self, audit: Audit) -> None:
        self.audit = audit
        self.target = audit.target
        self._statistics = {name.lower(): one for name, one in audit.statistics.items()}

    @cached_property
    def rows(self) -> int:
        """Rows in all files."""
        return sum(partition.rows for partition in self.audit.partitions)

    @cached_property
    def replaced_rows(self) -> int:
        """Rows that readers would see no more."""
        return self.audit.replaced_rows()

    @cached_property
    def frame(self) -> DataFrame:
        """The staged rows."""
        return self.audit.dataframe()

    def statistics(self, place: Place) -> ColumnStatistics:
        """Return what footers say of a column."""
        known = None if place.is_nested or place.is_char else self._statistics.get(place.top.lower())
        return known or ColumnStatistics()

    def texts(self, place: Place) -> list[tuple[str, int]]:
        """Return a partition column's values as the metastore spells them, with the rows of each partition."""
        names = [column.name.lower() for column in self.audit.partition_columns]
        position = names.index(place.top.lower())
        return [(partition.values[position], partition.rows) for partition in self.audit.partitions]

    def values(self, place: Place) -> list[tuple[object, int]] | None:
        """Return a partition column's values, null as ``None``; ``None`` where only Spark can tell what they are."""
        typed = [(typed_text(text, place), rows) for text, rows in self.texts(place)]
        return None if any(value is NotImplemented for value, _ in typed) else typed
