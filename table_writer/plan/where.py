"""The predicate of ``overwrite_partitions``: which partitions it selects, decided by Spark itself."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import CharType, LongType, StringType, StructField, StructType

from table_writer.errors import InvalidInputError, counted
from table_writer.model.table import NULL_PARTITION, PartitionValues, partition_name
from table_writer.model.write import WrittenFiles
from table_writer.plan.types import exact_type
from table_writer.spark import open_gateway
from table_writer.spark.sql import SPARK_ERRORS, quoted, spark_reason

NUMBER: Final = "__table_writer_number"


class Where:
    """Selects partitions by a SQL predicate over the partition columns; is a ``Scope``.

    Values are compared as the types of the partition columns, as in a query of the table. One that is no value of its
    type is null there, and null is not selected. Raises ``InvalidInputError`` if Spark cannot evaluate it over the
    partition columns, or if its answer, or a subquery's, could differ from one call to the next.
    """

    def __init__(self, spark: SparkSession, predicate: str, partition_schema: StructType, table: str) -> None:
        self._spark = spark
        self._predicate = predicate
        self._schema = partition_schema
        self._table = table
        self._known: dict[PartitionValues, bool] = {}
        columns = ", ".join(partition_schema.names)
        if not columns:
            raise InvalidInputError(f"{table} is not partitioned: where={predicate!r} selects nothing", table=table)
        try:
            selected = self._frame([]).drop(NUMBER).where(predicate)
        except SPARK_ERRORS as error:
            raise InvalidInputError(
                f"where={predicate!r} is no predicate over the partition columns ({columns}) of {table}:"
                f" {spark_reason(error)}",
                table=table,
            ) from error
        asked = open_gateway(spark)
        if asked.has_subquery(selected):
            raise InvalidInputError(
                f"where={predicate!r} has a subquery, whose rows may change while {table} is being written: run it"
                " first, and write its values out",
                table=table,
            )
        if not asked.is_deterministic(selected):
            raise InvalidInputError(
                f"where={predicate!r} selects other partitions each time it is asked: write the value out", table=table
            )

    def __call__(self, existing: Collection[PartitionValues]) -> frozenset[PartitionValues]:
        """Return those of the partitions that the predicate selects.

        Raises ``InvalidInputError`` if it cannot be evaluated for one: ``dt > 20240101`` where a ``dt`` is
        ``backfill``.
        """
        unknown = sorted(set(existing) - self._known.keys())
        if unknown:
            chosen = self._selected(unknown)
            self._known.update((values, number in chosen) for number, values in enumerate(unknown))
        return frozenset(values for values in existing if self._known[values])

    def _selected(self, partitions: Sequence[PartitionValues]) -> frozenset[int]:
        """Return the positions of the partitions that the predicate selects."""
        try:
            rows = self._frame(partitions).where(self._predicate).select(NUMBER).collect()
        except SPARK_ERRORS as error:
            raise InvalidInputError(
                f"where={self._predicate!r} cannot be evaluated for the partitions of {self._table}:"
                f" {spark_reason(error)} Nothing was published. Compare the columns with values of their own types, or"
                " use try_cast.",
                table=self._table,
            ) from error
        return frozenset(row[NUMBER] for row in rows)

    def _frame(self, partitions: Sequence[PartitionValues]) -> DataFrame:
        names = self._schema.names
        rows = [
            (number, *(None if value == NULL_PARTITION else value for value in values))
            for number, values in enumerate(partitions)
        ]
        texts = StructType([StructField(NUMBER, LongType()), *(StructField(name, StringType()) for name in names)])
        return self._spark.createDataFrame(rows, texts).select(NUMBER, *map(self._typed, self._schema))

    def _typed(self, field: StructField) -> Column:
        """Return a value as queries of the table have it; by the metadata Spark knows ``char(n)`` in comparisons."""
        is_ansi = str(self._spark.conf.get("spark.sql.ansi.enabled")).lower() == "true"
        cast = "try_cast" if is_ansi else "cast"  # which takes 1.0 for an INT, and fails on nothing
        value = F.expr(f"{cast}({quoted(field.name)} AS {field.dataType.simpleString()})")
        kind = exact_type(field)
        if isinstance(kind, CharType) and _pads(self._spark):
            value = F.rpad(value, F.greatest(F.lit(kind.length), F.char_length(value)), F.lit(" "))
        return value.alias(field.name, metadata=field.metadata)


def require_inside(staged: WrittenFiles) -> None:
    """Refuse rows of partitions that the predicate of a write does not select."""
    plan = staged.plan
    if not plan.where:
        return
    inside = plan.scope([partition.values for partition in staged.partitions])
    outside = [partition for partition in staged.partitions if partition.values not in inside]
    if outside:
        columns = [column.name for column in plan.table.partition_columns]
        shown = ", ".join(f"{partition_name(columns, one.values)} ({one.rows:,} rows)" for one in outside[:3])
        raise InvalidInputError(
            f"the DataFrame has rows in {counted(len(outside), 'partition')} of {plan.table.name} that"
            f" where={plan.where!r} does not select: {shown}{', …' if len(outside) > 3 else ''}. Nothing was"
            " published. Filter them out, or widen the predicate.",
            table=str(plan.table.name),
            write_id=plan.write_id,
        )


def _pads(spark: SparkSession) -> bool:
    """Whether queries of this session see ``char(n)`` with the blanks that it is filled up with."""
    as_char = str(spark.conf.get("spark.sql.legacy.charVarcharAsString")).lower() == "false"
    return as_char and str(spark.conf.get("spark.sql.readSideCharPadding")).lower() == "true"
