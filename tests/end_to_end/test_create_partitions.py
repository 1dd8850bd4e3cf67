"""The mode that fails on what exists: early where it can know, and again at the last moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from table_writer import ConflictError, PartitionExistsError, TableWriter
from table_writer.jobs.upload.job import refuse_existing
from table_writer.model.table import Partition
from table_writer.spark.classic import spark_errors_translated
from table_writer.testing import Lakehouse

from .watched import BEFORE_CLAIM, STAGED, Moment, Seen, requests_to

Rows = Callable[..., Any]
Content = Callable[[str], set[tuple[Any, ...]]]
Look = Callable[[str], Seen]
Stopped = Callable[..., TableWriter]


@pytest.mark.connect
def test_new_partitions_are_added_and_the_same_call_again_fails(
    writer: TableWriter, orders: str, rows: Rows, content: Content, look: Look
) -> None:
    result = writer.create_partitions(rows((1, "a", "d1"), (2, "b", "d2")), orders)
    assert [one.name for one in result.added] == ["dt=d1", "dt=d2"]
    before = look(orders)
    with pytest.raises(PartitionExistsError, match="exist") as raised:
        writer.create_partitions(rows((3, "c", "d1"), (4, "d", "d3")), orders)
    assert "dt=d1" in str(raised.value)
    assert "append or overwrite_partitions" in str(raised.value)
    assert look(orders) == before
    assert content(orders) == {(1, "a", "d1"), (2, "b", "d2")}


@pytest.mark.connect
def test_the_first_row_of_a_partition_that_exists_ends_the_call_before_any_file_is_completed(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, lakehouse: Lakehouse
) -> None:
    writer.create_partitions(rows((1, "a", "d1")), orders)
    many = spark.range(0, 100, 1, 4).select(
        "id", F.lit("x").alias("note"), F.concat(F.lit("d"), F.col("id") % 3).alias("dt")
    )
    with requests_to(lakehouse) as sent, pytest.raises(PartitionExistsError, match="dt=d1"):
        writer.create_partitions(many, orders)
    assert [path for method, path in sent if method == "POST" and "uploadId=" in path] == [], "nothing was completed"


@pytest.mark.parametrize("moment", [STAGED, BEFORE_CLAIM], ids=["staged", "before the claim"])
def test_a_partition_that_another_tool_adds_meanwhile_is_left_alone_and_nothing_is_added(
    moment: Moment, spark: SparkSession, orders: str, rows: Rows, content: Content, stopped: Stopped, look: Look
) -> None:
    late = stopped(moment, lambda: rows((9, "spark", "d2")).write.insertInto(orders))
    with pytest.raises(PartitionExistsError, match="d2"):
        late.create_partitions(rows((1, "a", "d1"), (2, "b", "d2")), orders)
    spark.catalog.refreshTable(orders)
    assert content(orders) == {(9, "spark", "d2")}
    assert set(look(orders).locations) == {"dt=d2"}
    assert look(orders).uploads == frozenset()


def test_a_write_of_ours_that_was_faster_is_a_conflict(
    writer: TableWriter, orders: str, rows: Rows, content: Content, stopped: Stopped
) -> None:
    late = stopped(STAGED, lambda: writer.create_partitions(rows((9, "first", "d2")), orders))
    with pytest.raises(ConflictError, match="dt=d2"):
        late.create_partitions(rows((1, "a", "d1"), (2, "b", "d2")), orders)
    assert content(orders) == {(9, "first", "d2")}


def test_a_write_of_other_partitions_is_no_conflict(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, content: Content, stopped: Stopped
) -> None:
    late = stopped(STAGED, lambda: writer.create_partitions(rows((9, "first", "d9")), orders))
    assert late.create_partitions(rows((1, "a", "d1")), orders).version == 2
    spark.catalog.refreshTable(orders)
    assert content(orders) == {(9, "first", "d9"), (1, "a", "d1")}


def test_a_partition_without_rows_exists_too(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, look: Look
) -> None:
    spark.sql(f"ALTER TABLE {orders} ADD PARTITION (dt='d1')")
    with pytest.raises(PartitionExistsError, match="dt=d1"):
        writer.create_partitions(rows((1, "a", "d1")), orders)
    assert look(orders).data == {}


def test_null_and_a_number_spelled_with_zeros_are_found_to_exist(
    spark: SparkSession, writer: TableWriter, make_table: Callable[..., str]
) -> None:
    table = make_table("CREATE TABLE {name} (id INT) PARTITIONED BY (month INT) STORED AS PARQUET")
    services = writer._services.open_to_write(table)
    zeros = Partition(values=("01",), location=f"{services.table.location}month=01/")
    services.metastore.add_partitions(services.table, [zeros])
    writer.create_partitions(spark.sql("SELECT 1 AS id, CAST(NULL AS INT) AS month"), table)
    for month in ("1", "CAST(NULL AS INT)"):
        with pytest.raises(PartitionExistsError):
            writer.create_partitions(spark.sql(f"SELECT 2 AS id, {month} AS month"), table)
    assert spark.table(table).count() == 1


@pytest.mark.parametrize("kind", ["csv", "orc"])
def test_spark_s_own_writer_ends_at_the_first_row_of_a_partition_that_exists_too(
    kind: str,
    spark: SparkSession,
    writer: TableWriter,
    make_table: Callable[..., str],
    rows: Rows,
    look: Look,
    lakehouse: Lakehouse,
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, note STRING, dt STRING) USING " + kind + " PARTITIONED BY (dt)")
    writer.create_partitions(rows((1, "a", "d1")), table)
    before = look(table)
    with requests_to(lakehouse) as sent, pytest.raises(PartitionExistsError, match="dt=d1 exists"):
        writer.create_partitions(rows((2, "b", "d1"), (3, "c", "d2")).coalesce(1), table)
    assert look(table) == before
    assert [path for method, path in sent if method in {"PUT", "POST"} and "part-" in path] == [], "no file was begun"


@pytest.mark.parametrize(
    ("kind", "spelled", "value"),
    [
        ("INT", "01", "1"),
        ("INT", "1", "1"),
        ("STRING", "a b/c", "'a b/c'"),
        ("INT", "__HIVE_DEFAULT_PARTITION__", "NULL"),
        ("STRING", "__HIVE_DEFAULT_PARTITION__", "''"),
        ("DECIMAL(10,2)", "1", "1.00"),
        ("DATE", "2024-1-2", "DATE'2024-01-02'"),
        ("TIMESTAMP", "2024-01-02 03:04:05.0", "TIMESTAMP'2024-01-02 03:04:05'"),
    ],
)
def test_spark_s_own_writer_meets_a_partition_in_every_spelling_of_its_value(
    kind: str, spelled: str, value: str, spark: SparkSession
) -> None:
    columns = StructType.fromDDL(f"key {kind}")
    rows = spark.sql(f"SELECT 1 AS id, CAST(CAST({value} AS {kind}) AS STRING) AS `k.ey`")
    with pytest.raises(PartitionExistsError, match=f"key={spelled} exists"), spark_errors_translated("w1"):
        refuse_existing(rows, [("7",), (spelled,)], columns).collect()
    assert refuse_existing(rows, [("7",)], columns).collect() == rows.collect()
