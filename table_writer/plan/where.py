"""The predicate of ``overwrite_partitions``: which partitions it selects, decided by Spark itself."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import LongType, StringType, StructField, StructType

from table_writer.errors import InvalidInputError
from table_writer.model.partition_name import NULL_PARTITION, partition_name
from table_writer.model.table import PartitionValues
from table_writer.model.write import StagedFiles

__all__ = ["Where", "require_inside"]

NUMBER: Final = "__table_writer_number"


class Where:
    """Selects partitions by a SQL predicate over the partition columns; is a ``Scope``.

    Values are compared as the types of the partition columns, as in a query of the table. One that is no value of its
    type is null there, and null is not selected.

    Parameters
    ----------
    spark
        Evaluates the predicate.
    predicate
        For example ``dt >= '2024-01-01' AND country = 'de'``.
    partition_schema
        The table's partition columns with Spark's types.
    table
        For messages.

    Raises
    ------
    InvalidInputError
        Spark cannot evaluate it over the partition columns, or its answer would differ from one call to the next.
    """

    def __init__(self, spark: SparkSession, predicate: str, partition_schema: StructType, table: str) -> None:
        self._spark = spark
        self._predicate = predicate
        self._schema = partition_schema
        self._known: dict[PartitionValues, bool] = {}
        columns = ", ".join(partition_schema.names)
        if not columns:
            raise InvalidInputError(f"{table} is not partitioned: where={predicate!r} selects nothing", table=table)
        try:
            frame = self._frame([]).drop(NUMBER).where(predicate)
            repeatable = frame._jdf.queryExecution().analyzed().deterministic()  # noqa: SLF001
        except (AnalysisException, PySparkException) as error:
            reason = str(error).splitlines()[0]
            raise InvalidInputError(
                f"where={predicate!r} is no predicate over the partition columns ({columns}) of {table}: {reason}",
                table=table,
            ) from error
        if not repeatable:
            raise InvalidInputError(
                f"where={predicate!r} selects other partitions each time it is asked: write the value out", table=table
            )

    def __call__(self, existing: Collection[PartitionValues]) -> frozenset[PartitionValues]:
        """Return those of the partitions that the predicate selects."""
        unknown = sorted(set(existing) - self._known.keys())
        if unknown:
            chosen = {row[NUMBER] for row in self._frame(unknown).where(self._predicate).select(NUMBER).collect()}
            self._known.update((values, number in chosen) for number, values in enumerate(unknown))
        return frozenset(values for values in existing if self._known[values])

    def _frame(self, partitions: Sequence[PartitionValues]) -> DataFrame:
        names = self._schema.names
        rows = [
            (number, *(None if value == NULL_PARTITION else value for value in values))
            for number, values in enumerate(partitions)
        ]
        texts = StructType([StructField(NUMBER, LongType()), *(StructField(name, StringType()) for name in names)])
        typed = [
            F.expr(f"try_cast({_quoted(field.name)} AS {field.dataType.simpleString()})").alias(field.name)
            for field in self._schema
        ]
        return self._spark.createDataFrame(rows, texts).select(NUMBER, *typed)


def require_inside(staged: StagedFiles) -> None:
    """Refuse rows of partitions that the predicate of a write does not select.

    Raises
    ------
    InvalidInputError
        Names such partitions, with their rows.
    """
    plan = staged.plan
    if not plan.where:
        return
    inside = plan.scope([partition.values for partition in staged.partitions])
    outside = [partition for partition in staged.partitions if partition.values not in inside]
    if outside:
        columns = [column.name for column in plan.table.partition_columns]
        shown = ", ".join(f"{partition_name(columns, one.values)} ({one.rows:,} rows)" for one in outside[:3])
        raise InvalidInputError(
            f"the DataFrame has rows in {len(outside)} partition(s) of {plan.table.name} that where={plan.where!r} does"
            f" not select: {shown}{', …' if len(outside) > 3 else ''}. Nothing was published. Filter them out, or widen"
            " the predicate.",
            table=str(plan.table.name),
            write_id=plan.write_id,
        )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
