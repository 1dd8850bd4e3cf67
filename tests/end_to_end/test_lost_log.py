"""Spark's own static INSERT OVERWRITE, TRUNCATE and a deletion below the root, of a table that this library writes."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from table_writer import InvalidInputError, NewTable, TableWriter, TableWriterConfig
from table_writer.testing import Lakehouse

GONE = r"is not the one that the metastore knows.*table-writer adopt {} --accept-loss"


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1, "2024-01-01"), (2, "2024-01-02")], "id INT, dt STRING")


def seen(spark: SparkSession, table: str) -> list[int]:
    spark.catalog.refreshTable(table)
    return sorted(row.id for row in spark.table(table).select("id").collect())


def test_a_static_insert_overwrite_deletes_the_log_and_no_call_goes_on_as_if_there_was_none(
    writer: TableWriter, spark: SparkSession, rows: DataFrame
) -> None:
    table, name = "overwritten_by_spark", "default.overwritten_by_spark"
    writer.append(rows, table, if_missing=NewTable(partition_by=["dt"]), idempotency_key="load 1")
    rows.createOrReplaceTempView("rows_of_spark")
    spark.sql(f"INSERT OVERWRITE {table} SELECT * FROM rows_of_spark")
    assert seen(spark, table) == [1, 2]
    for call in (
        lambda: writer.append(rows, table, idempotency_key="load 1"),
        lambda: writer.append(rows, table),
        lambda: writer.overwrite_partitions(rows, table),
        lambda: writer.merge(rows, table, on=["id", "dt"]),
        lambda: writer.maintenance.history(name),
        lambda: writer.maintenance.vacuum(name),
    ):
        with pytest.raises(InvalidInputError, match=GONE.format(name)):
            call()
    assert seen(spark, table) == [1, 2]
    assert "log of the metastore" in [found.check for found in writer.doctor(table).findings if found.status == "error"]
    writer.adopt(table, accept_loss=True)
    assert writer.append(rows, table, idempotency_key="load 1").version == 1
    assert seen(spark, table) == [1, 1, 2, 2]
    assert writer.append(rows, table, idempotency_key="load 1").repeated


@pytest.mark.parametrize("partitioned", [True, False])
def test_a_deletion_below_the_root_is_noticed(
    partitioned: bool, writer: TableWriter, spark: SparkSession, rows: DataFrame, lakehouse: Lakehouse
) -> None:
    table = f"deleted_by_hand_{partitioned}".lower()
    writer.append(rows, table, if_missing=NewTable(partition_by=["dt"] if partitioned else []))
    root = spark.sql(f"DESCRIBE FORMATTED {table}").where("col_name = 'Location'").collect()[0][1]
    if not partitioned:
        root = root.partition("/_table_writer/")[0]
    prefix = root.partition("://")[2].partition("/")[2]
    pages = lakehouse.s3.get_paginator("list_objects_v2").paginate(Bucket=lakehouse.bucket, Prefix=f"{prefix}/")
    for key in [found["Key"] for page in pages for found in page.get("Contents", ())]:
        lakehouse.s3.delete_object(Bucket=lakehouse.bucket, Key=key)
    with pytest.raises(InvalidInputError, match=GONE.format(f"default.{table}")):
        writer.append(rows, table)
    assert any(found.check == "log of the metastore" for found in writer.doctor(table).findings)


def test_truncate_leaves_the_log_and_a_rollback_says_that_the_files_are_gone(
    writer: TableWriter, spark: SparkSession, rows: DataFrame
) -> None:
    table = "truncated_by_spark"
    writer.append(rows, table, if_missing=NewTable(partition_by=["dt"]))
    spark.sql(f"TRUNCATE TABLE {table}")
    assert seen(spark, table) == []
    with pytest.raises(InvalidInputError, match="are gone"):
        writer.maintenance.rollback(f"default.{table}", version=1)


def test_two_directory_names_are_no_two_logs(writer: TableWriter, spark: SparkSession, rows: DataFrame) -> None:
    table = "written_by_two"
    writer.append(rows, table, if_missing=NewTable(partition_by=["dt"]))
    other = TableWriter(spark, config=TableWriterConfig(directory_name=".writes"))
    staged = writer.stage(rows.where("id = 1").withColumn("id", F.lit(100)), table)
    with pytest.raises(InvalidInputError, match=r"has two.*directory_name"):
        other.overwrite_partitions(rows.where("id = 1").withColumn("id", F.lit(200)), table)
    staged.publish()
    assert seen(spark, table) == [2, 100]


def test_a_table_made_like_another_with_its_properties_is_written_as_any(
    writer: TableWriter, spark: SparkSession, rows: DataFrame
) -> None:
    writer.append(rows, "made_first", if_missing=NewTable(partition_by=["dt"]))
    spark.sql("CREATE TABLE made_like LIKE made_first")
    writer.append(rows, "made_like")
    writer.append(rows, "made_like")
    assert seen(spark, "made_like") == [1, 1, 2, 2]


def test_a_static_insert_overwrite_that_leaves_no_partition_of_ours_is_noticed_by_the_table(
    writer: TableWriter, spark: SparkSession, rows: DataFrame
) -> None:
    table, name = "overwritten_with_others", "default.overwritten_with_others"
    writer.append(rows, table, if_missing=NewTable(partition_by=["dt"]), idempotency_key="load 1")
    spark.sql(f"INSERT OVERWRITE {table} SELECT 9 AS id, '2030-01-01' AS dt")
    assert seen(spark, table) == [9]
    with pytest.raises(InvalidInputError, match=GONE.format(name)):
        writer.append(rows, table, idempotency_key="load 1")
    writer.adopt(table, accept_loss=True)
    writer.append(rows, table, idempotency_key="load 1")
    assert seen(spark, table) == [1, 2, 9]
