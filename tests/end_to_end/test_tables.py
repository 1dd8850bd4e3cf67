"""Every kind of table, and partitions that other tools put where they liked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from table_writer import TableWriter
from table_writer.testing import Lakehouse
from tests.cells import first_fast

Make = Callable[..., str]
Content = Callable[[str], set[tuple[Any, ...]]]
Keys = Callable[[str], set[str]]

KINDS = {
    "datasource, managed": "CREATE TABLE {name} (id INT, Note STRING, dt DATE) USING parquet PARTITIONED BY (dt)",
    "datasource, external": (
        "CREATE TABLE {name} (id INT, Note STRING, dt DATE) USING parquet PARTITIONED BY (dt) LOCATION '{location}'"
    ),
    "Hive, managed": "CREATE TABLE {name} (id INT, Note STRING) PARTITIONED BY (dt DATE) STORED AS PARQUET",
    "Hive, external": (
        "CREATE EXTERNAL TABLE {name} (id INT, Note STRING) PARTITIONED BY (dt DATE) STORED AS PARQUET"
        " LOCATION '{location}'"
    ),
}


@pytest.mark.parametrize("where", first_fast(["s3", "file"]))
@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_any_kind_is_written_and_read(
    kind: str,
    where: str,
    spark: SparkSession,
    writer: TableWriter,
    make_table: Make,
    lakehouse: Lakehouse,
    lakehouse_database: str,
    tmp_path: Path,
    content: Content,
) -> None:
    location = f"{lakehouse.warehouse}/{lakehouse_database}/ext" if where == "s3" else f"file://{tmp_path}/ext"
    ddl = KINDS[kind]
    if where == "file" and "managed" in kind:
        spark.sql(f"CREATE DATABASE {lakehouse_database}_f LOCATION 'file://{tmp_path}/db'")
        table = f"{lakehouse_database}_f.orders"
        spark.sql(ddl.format(name=table))
    else:
        table = make_table(ddl, location=location)
    df = spark.sql("SELECT DATE'2024-01-01' AS dt, 'x' AS note, 1 AS ID UNION ALL SELECT DATE'2024-01-02', 'y', 2")
    try:
        writer.overwrite_partitions(df, table)
        result = writer.overwrite_partitions(df.where("id = 2").withColumn("id", F.lit(3)), table)
        assert [partition.name for partition in result.replaced] == ["dt=2024-01-02"]
        assert {(row.id, row.Note, str(row.dt)) for row in spark.table(table).collect()} == {
            (1, "x", "2024-01-01"),
            (3, "y", "2024-01-02"),
        }
        assert spark.table(table).columns == ["id", "Note", "dt"]
    finally:
        spark.sql(f"DROP DATABASE IF EXISTS {lakehouse_database}_f CASCADE")


def test_several_partition_columns_in_the_tables_order(
    spark: SparkSession, writer: TableWriter, make_table: Make, content: Content
) -> None:
    table = make_table(
        "CREATE TABLE {name} (id INT, country STRING, hour INT, dt DATE) USING parquet"
        " PARTITIONED BY (dt, country, hour)"
    )
    df = spark.sql("SELECT 5 AS hour, 'de' AS country, 1 AS id, DATE'2024-01-01' AS dt")
    result = writer.overwrite_partitions(df, table)
    assert [partition.name for partition in result.added] == ["dt=2024-01-01/country=de/hour=5"]
    assert spark.table(table).where("country = 'de' AND hour = 5").count() == 1


def test_partitions_that_spark_wrote_are_replaced_and_their_files_scheduled(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Any, content: Content, keys_below: Keys
) -> None:
    rows((1, "a", "d1"), (2, "b", "d2")).write.insertInto(orders)
    sparks_files = {key for key in keys_below(orders) if key.startswith("dt=d1/")}
    assert sparks_files
    result = writer.overwrite_partitions(rows((10, "A", "d1")), orders)
    assert result.notes == ()
    assert content(orders) == {(10, "A", "d1"), (2, "b", "d2")}
    assert sparks_files <= keys_below(orders), "running queries still read them"
    entry = writer._services.open_to_write(orders).log.slots.read(1).entry
    assert {o.key.split("/orders/")[1] for o in entry.replaced[0].objects} == sparks_files


@pytest.mark.slow
def test_spark_can_go_on_writing_a_partition_of_ours(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Any, content: Content
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1"), (2, "b", "d2")), orders)
    rows((3, "c", "d1")).write.insertInto(orders)
    assert content(orders) == {(1, "a", "d1"), (3, "c", "d1"), (2, "b", "d2")}
    writer.overwrite_partitions(rows((4, "d", "d1")), orders)
    assert content(orders) == {(4, "d", "d1"), (2, "b", "d2")}


@pytest.mark.slow
def test_a_partition_in_another_bucket_is_replaced_and_left_alone(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Any, content: Content, lakehouse: Lakehouse
) -> None:
    lakehouse.s3.create_bucket(Bucket="elsewhere")
    rows((1, "a", "d1")).select("id", "note").write.parquet("s3a://elsewhere/d1")
    spark.sql(f"ALTER TABLE {orders} ADD PARTITION (dt='d1') LOCATION 's3a://elsewhere/d1'")
    assert content(orders) == {(1, "a", "d1")}
    result = writer.overwrite_partitions(rows((2, "b", "d1")), orders)
    assert "s3a://elsewhere/d1/ was replaced but is not scheduled" in result.notes[0]
    assert content(orders) == {(2, "b", "d1")}
    assert lakehouse.s3.list_objects_v2(Bucket="elsewhere")["KeyCount"] > 0


def test_files_that_lie_in_the_table_root_stay_and_are_reported(
    writer: TableWriter,
    orders: str,
    rows: Any,
    content: Content,
    keys_below: Keys,
    lakehouse: Lakehouse,
    spark: SparkSession,
) -> None:
    described = spark.sql(f"DESCRIBE FORMATTED {orders}").where("col_name = 'Location'").first()
    assert described is not None
    root = described[1].split("/", 3)[3]
    lakehouse.s3.put_object(Bucket=lakehouse.bucket, Key=f"{root}/stray.parquet", Body=b"x")
    result = writer.overwrite_partitions(rows((1, "a", "d1")), orders)
    assert any("stray.parquet" in note for note in result.notes)
    assert "stray.parquet" in keys_below(orders)
    assert content(orders) == {(1, "a", "d1")}


def test_a_number_that_another_tool_spelled_with_zeros_is_the_same_partition(
    spark: SparkSession, writer: TableWriter, make_table: Make
) -> None:
    table = make_table("CREATE TABLE {name} (id INT) PARTITIONED BY (month INT) STORED AS PARQUET")
    catalog = writer._services
    services = catalog.open_to_write(table)
    from table_writer.model.table import Partition

    services.metastore.add_partitions(
        services.table, [Partition(values=("01",), location=f"{services.table.location}month=01/")]
    )
    writer.overwrite_partitions(spark.sql("SELECT 5 AS id, 1 AS month UNION ALL SELECT 6, 2"), table)
    assert {tuple(row) for row in spark.table(table).collect()} == {(5, 1), (6, 2)}
    assert set(services.metastore.get_partition_names(services.table.name)) == {("01",), ("2",)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["USING parquet PARTITIONED BY (Dt, Hour)", "PARTITIONED BY (Dt, Hour) STORED AS PARQUET"]
)
def test_partition_columns_in_mixed_case_are_read_back(
    kind: str, spark: SparkSession, writer: TableWriter, make_table: Make
) -> None:
    columns = "id INT, Dt STRING, Hour INT"
    table = make_table(f"CREATE TABLE {{name}} ({columns}) {kind}")
    df = spark.createDataFrame([(1, "x", 1), (2, "y", 2)], columns)
    writer.overwrite_partitions(df, table)
    writer.overwrite_partitions(df.where("id = 2").withColumn("id", F.lit(3)), table)
    assert {tuple(row) for row in spark.table(table).select("id", "dt", "hour").collect()} == {(1, "x", 1), (3, "y", 2)}


def test_an_external_table_with_a_type_that_hive_does_not_know_is_written_at_its_own_location(
    spark: SparkSession, writer: TableWriter, make_table: Make, lakehouse: Lakehouse, lakehouse_database: str
) -> None:
    location = f"{lakehouse.warehouse}/{lakehouse_database}/ntz"
    table = make_table(
        "CREATE TABLE {name} (id INT, at TIMESTAMP_NTZ, dt STRING) USING parquet PARTITIONED BY (dt)"
        " LOCATION '{location}'",
        location=location,
    )
    df = spark.sql("SELECT 1 AS id, TIMESTAMP_NTZ'2024-01-01 00:00:00' AS at, 'd' AS dt")
    result = writer.overwrite_partitions(df, table)
    assert result.partitions[0].location.startswith(f"{location}/_table_writer/data/")
    assert spark.table(table).count() == 1
