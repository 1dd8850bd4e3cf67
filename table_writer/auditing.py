"""What step 4 looks at: the staged files as a DataFrame, and how many rows they would replace."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import StructField, StructType

from table_writer.check.audit import Audit
from table_writer.log.files import written_placeholders
from table_writer.model.location import Location
from table_writer.model.table import Partition, PartitionValues
from table_writer.model.write import StagedFiles, WriteMode
from table_writer.partition_filter import in_partitions
from table_writer.plan.table_schema import partition_schema
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
        examples=services.config.check_examples,
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
    return StructType([*data, *partition_schema(services.table)])


def _typed(stored: str, field: StructField) -> Column:
    """Return a column under the table's name and type: partition values are text in the names of directories."""
    return F.col(quoted(stored)).cast(field.dataType).alias(field.name, metadata=field.metadata)


def _replaced_rows(spark: SparkSession, services: TableServices, staged: StagedFiles) -> int:
    """Count what readers would see no more.

    The metastore knows it of partitions that this library wrote; only the others are read.
    """
    now = services.metastore.get_partitions(services.table, _replaced(services, staged)).values()
    counts = {one.values: _known_rows(services, one) for one in now}
    known = sum(count for count in counts.values() if count is not None)
    unknown = [values for values, count in counts.items() if count is None]
    if not unknown:
        return known
    name = f"{quoted(services.table.name.database)}.{quoted(services.table.name.name)}"
    return known + spark.table(name).where(in_partitions(partition_schema(services.table).fields, unknown)).count()


def _replaced(services: TableServices, staged: StagedFiles) -> list[PartitionValues]:
    """Return the partitions whose present rows readers would see no more: of an append none."""
    plan = staged.plan
    if plan.mode is WriteMode.APPEND:
        return []
    named = {plan.spellings.get(one.values, one.values) for one in staged.partitions}
    existing = services.metastore.get_partition_names(services.table.name)
    return sorted((named & set(existing)) | plan.scope(existing))


def _known_rows(services: TableServices, partition: Partition) -> int | None:
    location = Location.parse_any(partition.location)
    if location is None or services.layout.write_id_of(location) is None:
        return None
    if services.layout.is_placeholder(location):
        written = written_placeholders(services.store, services.layout, {partition.values: partition})
        return None if written else 0
    text = partition.parameters.get("numRows", "")
    return int(text) if text.isdecimal() else None
