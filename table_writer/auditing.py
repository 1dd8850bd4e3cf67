"""What step 4 looks at: the staged files as a DataFrame, and how many rows they would replace."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from functools import partial, reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import StructField, StructType

from table_writer.check.audit import Audit
from table_writer.model.location import Location
from table_writer.model.partition_name import NULL_PARTITION
from table_writer.model.table import Partition, PartitionValues
from table_writer.model.write import StagedFiles, WriteMode
from table_writer.plan.table_schema import table_schema
from table_writer.services import TableServices
from table_writer.sql_text import quoted
from table_writer.upload.spark_files import SparkFiles

__all__ = ["audit_of", "staged_frame"]


def audit_of(spark: SparkSession, services: TableServices, staged: StagedFiles) -> Audit:
    """Return what checks may look at; nothing is read before one asks."""
    return Audit(
        spark=spark,
        table=str(services.table.name),
        write_id=staged.plan.write_id,
        schema=_schema(services, staged),
        partition_columns=services.table.partition_columns,
        partitions=staged.partitions,
        statistics=staged.statistics,
        dataframe=partial(staged_frame, spark, services, staged),
        replaced_rows=partial(_replaced_rows, spark, services, staged),
        replaced=partial(_replaced, services, staged),
    )


def staged_frame(spark: SparkSession, services: TableServices, staged: StagedFiles) -> DataFrame:
    """Read exactly the staged files, with the columns and types that the table's readers will see."""
    schema = _schema(services, staged)
    if not staged.partitions:
        return spark.createDataFrame([], schema)
    plan = replace(staged.plan, table=services.table)  # format and SerDe are not recorded with a staged write
    files = SparkFiles(spark, plan, schema).read([one.values for one in staged.partitions])
    return files.select(*(_typed(stored, field) for stored, field in zip(files.columns, schema, strict=True)))


def _schema(services: TableServices, staged: StagedFiles) -> StructType:
    """Return the columns the files have, those that the table is yet to get too, and the partition columns."""
    data = StructType.fromJson(json.loads(staged.plan.schema))
    partition_count = len(services.table.partition_columns)
    everything = table_schema(services.table)
    return StructType([*data, *everything.fields[len(everything) - partition_count :]])


def _typed(stored: str, field: StructField) -> Column:
    """Return a column under the table's name and type: partition values are text in the names of directories."""
    return F.col(quoted(stored)).cast(field.dataType).alias(field.name, metadata=field.metadata)


def _replaced_rows(spark: SparkSession, services: TableServices, staged: StagedFiles) -> int:
    """Count what readers would see no more.

    The metastore knows it of partitions that this library wrote; only the others are read.
    """
    now = services.metastore.get_partitions(services.table, _replaced(services, staged)).values()
    counts = {one.values: _known_rows(services, one) for one in now}
    unknown = [values for values, count in counts.items() if count is None]
    read = spark.table(quoted_name(services)).where(_any_of(services, unknown)).count() if unknown else 0
    return read + sum(count for count in counts.values() if count is not None)


def _replaced(services: TableServices, staged: StagedFiles) -> list[PartitionValues]:
    """Return the partitions whose present rows readers would see no more: of an append none."""
    plan = staged.plan
    if plan.mode is WriteMode.APPEND:
        return []
    named = {plan.spellings.get(one.values, one.values) for one in staged.partitions}
    existing = services.metastore.get_partition_names(services.table.name)
    return sorted((named & set(existing)) | plan.scope(existing))


def quoted_name(services: TableServices) -> str:
    """Return the table's name for Spark."""
    return f"{quoted(services.table.name.database)}.{quoted(services.table.name.name)}"


def _known_rows(services: TableServices, partition: Partition) -> int | None:
    location = Location.parse_any(partition.location)
    if location is None or services.layout.write_id_of(location) is None:
        return None
    if services.layout.is_placeholder(location):
        return 0
    text = partition.parameters.get("numRows", "")
    return int(text) if text.isdecimal() else None


def _any_of(services: TableServices, partitions: Collection[PartitionValues]) -> Column:
    schema = table_schema(services.table)
    fields = schema.fields[len(schema) - len(services.table.partition_columns) :]

    def one(field: StructField, value: str) -> Column:
        column = F.col(quoted(field.name))
        return column.isNull() if value == NULL_PARTITION else column == F.lit(value).cast(field.dataType)

    each = (
        reduce(and_, (one(field, value) for field, value in zip(fields, values, strict=True)), F.lit(True))
        for values in partitions
    )
    return reduce(or_, each)
