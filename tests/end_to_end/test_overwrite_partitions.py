"""The main job on real parts: Spark, a Hive metastore, S3 over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession

from table_writer import TableWriter, WriteResult


@pytest.fixture(scope="module")
def spark(lakehouse: Any) -> SparkSession:
    return lakehouse.spark


@pytest.fixture
def orders(spark: SparkSession, lakehouse_database: str) -> str:
    name = f"{lakehouse_database}.orders"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, note STRING, dt STRING) USING parquet PARTITIONED BY (dt)")
    return name


@pytest.fixture
def writer(spark: SparkSession) -> TableWriter:
    return TableWriter(spark)


def rows(spark: SparkSession, *values: tuple[int, str, str]) -> DataFrame:
    return spark.createDataFrame(list(values), "id BIGINT, note STRING, dt STRING")


def content(spark: SparkSession, table: str) -> set[tuple[Any, ...]]:
    return {tuple(row) for row in spark.table(table).collect()}


def test_first_write_adds_and_second_replaces_only_its_partitions(
    spark: SparkSession, writer: TableWriter, orders: str
) -> None:
    first = writer.overwrite_partitions(rows(spark, (1, "a", "d1"), (2, "b", "d2"), (3, "c", "d3")), orders)
    assert [partition.name for partition in first.added] == ["dt=d1", "dt=d2", "dt=d3"]
    assert first.replaced == ()
    second = writer.overwrite_partitions(rows(spark, (20, "B", "d2"), (40, "D", "d4")), orders)
    assert [partition.name for partition in second.replaced] == ["dt=d2"]
    assert [partition.name for partition in second.added] == ["dt=d4"]
    assert content(spark, orders) == {(1, "a", "d1"), (20, "B", "d2"), (3, "c", "d3"), (40, "D", "d4")}
    assert (first.version, second.version) == (1, 2)


def test_a_dataframe_may_read_the_table_it_overwrites(spark: SparkSession, writer: TableWriter, orders: str) -> None:
    writer.overwrite_partitions(rows(spark, (1, "a", "d1"), (2, "b", "d2")), orders)
    table = spark.table(orders)
    writer.overwrite_partitions(table.withColumn("id", table.id + 100), orders)
    assert content(spark, orders) == {(101, "a", "d1"), (102, "b", "d2")}


def test_result_counts_every_request_and_call(spark: SparkSession, writer: TableWriter, orders: str) -> None:
    writer.overwrite_partitions(rows(spark, (1, "a", "d1"), (2, "b", "d2")).coalesce(1), orders)
    result = writer.overwrite_partitions(rows(spark, (1, "a", "d1"), (2, "b", "d2")).coalesce(1), orders)
    assert result.files == 2
    assert result.metastore_calls == {
        "get_table_req": 2,
        "get_partitions_by_names": 1,
        "alter_partitions_with_environment_context": 1,
    }
    assert sum(result.storage_requests.values()) <= 3 * result.files + 30


def test_statistics_of_partitions_are_exact(
    spark: SparkSession, writer: TableWriter, orders: str, lakehouse: Any
) -> None:
    result = writer.overwrite_partitions(rows(spark, (1, "a", "d1"), (2, "b", "d1")), orders)
    described = {row[0]: row[1] for row in spark.sql(f"DESCRIBE EXTENDED {orders} PARTITION (dt='d1')").collect()}
    parameters = described["Partition Parameters"]
    assert "numRows=2" in parameters
    assert f"totalSize={result.bytes}" in parameters
    assert f"table_writer.write_id={result.write_id}" in parameters
    assert described["Partition Statistics"] == f"{result.bytes} bytes, 2 rows"


def test_success_file_is_hadoops_json(spark: SparkSession, writer: TableWriter, orders: str, lakehouse: Any) -> None:
    result = writer.overwrite_partitions(rows(spark, (1, "a", "d1")), orders)
    location = spark.sql(f"DESCRIBE FORMATTED {orders}").where("col_name = 'Location'").first()[1]
    key = location.split("/", 3)[3] + "/_SUCCESS"
    body = json.loads(lakehouse.s3.get_object(Bucket=lakehouse.bucket, Key=key)["Body"].read())
    assert body["name"] == "org.apache.hadoop.fs.s3a.commit.files.SuccessData/1"
    assert body["committer"] == "table_writer"
    assert body["jobId"] == result.write_id
    assert len(body["filenames"]) == result.files


def test_nothing_of_a_failed_write_is_left(
    spark: SparkSession, writer: TableWriter, orders: str, lakehouse: Any
) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    writer.overwrite_partitions(rows(spark, (1, "a", "d1")), orders)
    before = keys_below(lakehouse, spark, orders)
    failing = rows(spark, *[(n, "x", f"d{n % 3}") for n in range(1000)]).withColumn(
        "note", F.when(F.col("id") == 999, F.raise_error("broken row")).otherwise("x")
    )
    with pytest.raises(Exception, match="broken row"):
        writer.overwrite_partitions(failing, orders)
    assert keys_below(lakehouse, spark, orders) == before
    assert "Uploads" not in lakehouse.s3.list_multipart_uploads(Bucket=lakehouse.bucket)
    assert content(spark, orders) == {(1, "a", "d1")}


def keys_below(lakehouse: Any, spark: SparkSession, table: str) -> set[str]:
    location = spark.sql(f"DESCRIBE FORMATTED {table}").where("col_name = 'Location'").first()[1]
    prefix = location.split("/", 3)[3] + "/"
    found: Iterator[dict[str, Any]] = lakehouse.s3.get_paginator("list_objects_v2").paginate(
        Bucket=lakehouse.bucket, Prefix=prefix
    )
    return {entry["Key"] for page in found for entry in page.get("Contents", []) if not entry["Key"].endswith("/")}


def test_result_reads_well(spark: SparkSession, writer: TableWriter, orders: str) -> None:
    result: WriteResult = writer.overwrite_partitions(rows(spark, (1, "a", "d<1>")), orders)
    assert "1 partition(s) added, 0 replaced, 1 rows in 1 files" in repr(result)
    assert "dt=d&lt;1&gt;" in result._repr_html_()
    assert_df_equality(spark.table(orders), rows(spark, (1, "a", "d<1>")), ignore_nullable=True)
