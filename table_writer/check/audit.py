"""What a check may look at."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from table_writer.check.partition_text import typed_text
from table_writer.check.target import Place, Target
from table_writer.config import MOST_EXAMPLES
from table_writer.model.column_statistics import ColumnStatistics
from table_writer.model.table import Column, PartitionValues
from table_writer.model.write import StagedPartition

__all__ = ["Audit", "Facts"]


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
