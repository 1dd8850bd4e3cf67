"""Whatever the word TIMESTAMP means in a session, rows are written as the moments that they are.

``spark.sql.timestampType=TIMESTAMP_NTZ`` lets Spark's parser read ``TIMESTAMP`` as a local time. A column that was made
by such a word shows 12:00 in UTC where 07:00 in New York was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer import NewTable, PartitionExistsError, SchemaMismatchError, TableWriter
from table_writer.check import expected_partitions, fresh, in_range, only_partitions, row_count_change
from tests.cells import first_fast

SETTINGS: Final = {"spark.sql.session.timeZone": "America/New_York", "spark.sql.timestampType": "TIMESTAMP_NTZ"}
NOON: Final = "TIMESTAMP_LTZ '2024-01-01 12:00:00 UTC'"
MICROS: Final = 1_704_110_400_000_000  # of the same moment
FORMATS: Final = ("USING parquet", "STORED AS PARQUET", "STORED AS ORC", "USING orc")


@pytest.fixture
def local_times(spark: SparkSession) -> Iterator[Callable[[], None]]:
    """Return what turns the session into one where TIMESTAMP is a local time; tables are made before."""
    before = {name: spark.conf.get(name) for name in SETTINGS}
    yield lambda: [spark.conf.set(name, value) for name, value in SETTINGS.items()] and None
    for name, value in before.items():
        spark.conf.set(name, str(value))


def moments(spark: SparkSession, table: str, column: str = "seen_at") -> list[tuple[Any, ...]]:
    """Return what sessions of the usual kind see: ids, and moments in microseconds."""
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_LTZ")
    spark.catalog.refreshTable(table)
    return sorted(map(tuple, spark.table(table).select("id", F.unix_micros(column)).collect()))


def noon(spark: SparkSession, number: int) -> DataFrame:
    return spark.sql(f"SELECT {number} AS id, {NOON} AS seen_at, 'b' AS dt")


@pytest.mark.parametrize("columns", ["", ", local TIMESTAMP_NTZ"])
def test_a_column_that_is_added_has_the_type_of_the_dataframe(
    columns: str,
    spark: SparkSession,
    writer: TableWriter,
    make_table: Callable[..., str],
    local_times: Callable[[], None],
) -> None:
    table = make_table(f"CREATE TABLE {{name}} (id INT{columns}, dt STRING) USING parquet PARTITIONED BY (dt)")
    local_times()
    inside = F.struct(F.array("seen_at").alias("all")).alias("inside")
    rows = noon(spark, 1).select("*", inside)
    writer.append(rows, table, schema="evolve")
    assert moments(spark, table) == [(1, MICROS)]
    assert spark.table(table).schema["inside"].dataType.simpleString() == "struct<all:array<timestamp>>"


@pytest.mark.parametrize("stored", first_fast(FORMATS, 2))
def test_a_column_that_is_there_is_an_instant_in_every_session(
    stored: str,
    spark: SparkSession,
    writer: TableWriter,
    make_table: Callable[..., str],
    local_times: Callable[[], None],
) -> None:
    if stored.startswith("USING"):
        table = make_table(f"CREATE TABLE {{name}} (id INT, seen_at TIMESTAMP, dt STRING) {stored} PARTITIONED BY (dt)")
    else:
        table = make_table(f"CREATE TABLE {{name}} (id INT, seen_at TIMESTAMP) PARTITIONED BY (dt STRING) {stored}")
    local_times()
    writer.append(noon(spark, 1), table)
    local = noon(spark, 2).withColumn("seen_at", F.expr("CAST(seen_at AS TIMESTAMP_NTZ)"))
    with pytest.raises(SchemaMismatchError, match=r"seen_at is timestamp_ntz in the DataFrame and timestamp in the"):
        writer.append(local, table)
    merged: Any = writer.merge(noon(spark, 1), table, on=["id", "seen_at"])
    assert (merged.inserted, merged.updated) == (0, 1)
    writer.sql(f"INSERT INTO {table} VALUES (2, TIMESTAMP '2024-01-01 07:00:00', 'b')")
    assert writer.update_where(table, {"id": "id + 10"}, where=f"seen_at = {NOON}").updated == 2
    with writer.stage(noon(spark, 3), table, "append") as staged:
        assert fetched_micros(staged.dataframe()) == [MICROS]
        staged.publish()
    writer.compact(table, min_files=2)
    assert moments(spark, table) == [(3, MICROS), (11, MICROS), (12, MICROS)]


def fetched_micros(rows: DataFrame) -> list[int]:
    return [row[0] for row in rows.select(F.unix_micros("seen_at")).collect()]


@pytest.mark.parametrize("stored", FORMATS[:2])
def test_a_partition_is_found_by_its_moment_in_every_session(
    stored: str,
    spark: SparkSession,
    writer: TableWriter,
    make_table: Callable[..., str],
    local_times: Callable[[], None],
) -> None:
    if stored.startswith("USING"):
        table = make_table(f"CREATE TABLE {{name}} (id INT, seen_at TIMESTAMP) {stored} PARTITIONED BY (seen_at)")
    else:
        table = make_table(f"CREATE TABLE {{name}} (id INT) PARTITIONED BY (seen_at TIMESTAMP) {stored}")
    local_times()
    rows = noon(spark, 1).drop("dt")
    writer.append(rows, table)
    with pytest.raises(PartitionExistsError):
        writer.create_partitions(rows, table)
    with pytest.raises(PartitionExistsError):
        writer.create_partitions(rows, table, engine="spark")
    checks = [
        row_count_change(min_ratio=0.5, max_ratio=2),
        expected_partitions([{"seen_at": "2024-01-01 07:00:00"}]),
        only_partitions(where=f"seen_at = {NOON}"),
        in_range("seen_at", min="2024-01-01 06:59:59", max="2024-01-01 07:00:01"),
    ]
    again = writer.overwrite_partitions(rows, table, where=f"seen_at >= {NOON}", checks=checks)
    assert [result.passed for result in again.checks] == [True] * len(checks)
    merged: Any = writer.merge(rows, table, on=["seen_at", "id"])
    assert (merged.inserted, merged.updated) == (0, 1)
    writer.sql(f"INSERT OVERWRITE {table} PARTITION (seen_at = '2024-01-01 07:00:00') SELECT 5")
    assert writer.update_where(table, {"id": "id + 1"}, where=f"seen_at = {NOON}").updated == 1
    assert moments(spark, table) == [(6, MICROS)]


def test_a_partition_of_dates_is_selected_in_every_session(
    spark: SparkSession, writer: TableWriter, make_table: Callable[..., str], local_times: Callable[[], None]
) -> None:
    ddl = "CREATE TABLE {name} (id INT, day DATE, raw BINARY, at TIMESTAMP_NTZ) USING parquet PARTITIONED BY (day, at)"
    table = make_table(ddl)
    local_times()
    rows = spark.sql(
        "SELECT 1 AS id, DATE '2024-01-01' AS day, X'00' AS raw, TIMESTAMP_NTZ '2024-01-01 01:00:00' AS at"
    )
    where = "day = DATE '2024-01-01' AND at < TIMESTAMP_NTZ '2024-01-02 00:00:00'"
    assert writer.overwrite_partitions(rows, table, where=where).rows == 1
    assert writer.merge(rows, table, on=["id", "day", "at"]).updated == 1
    assert writer.delete_where(table, where).deleted == 1


@pytest.mark.parametrize("hours", [1, 3])
def test_an_age_is_that_of_the_moment_in_every_session(
    hours: int,
    spark: SparkSession,
    writer: TableWriter,
    make_table: Callable[..., str],
    local_times: Callable[[], None],
) -> None:
    table = make_table("CREATE TABLE {name} (id INT, seen_at TIMESTAMP, dt STRING) USING parquet PARTITIONED BY (dt)")
    local_times()
    rows = spark.sql("SELECT 1 AS id, timestamp_micros(unix_micros(now()) - 7200000000) AS seen_at, 'b' AS dt")
    check = fresh("seen_at", within=timedelta(hours=hours), severity="warn")
    assert [result.passed for result in writer.append(rows, table, checks=[check]).checks] == [hours > 2]


def test_a_table_that_is_made_has_the_types_of_the_dataframe(
    spark: SparkSession, writer: TableWriter, make_table: Callable[..., str], local_times: Callable[[], None]
) -> None:
    columns = "s STRUCT<at: TIMESTAMP, code: CHAR(3)>, seen_at TIMESTAMP, id INT"
    source = make_table(f"CREATE TABLE {{name}} ({columns}) USING parquet", "source")
    spark.sql(f"INSERT INTO {source} VALUES (struct(TIMESTAMP '2024-01-01 12:00:00', 'a'), {NOON}, 1)")
    local_times()
    made = source.replace("source", "made")
    writer.append(spark.table(source), made, if_missing=NewTable())
    assert moments(spark, made) == [(1, MICROS)]
    assert fetched_micros(spark.table(made).select(F.col("s.at").alias("seen_at"))) == fetched_micros(
        spark.table(source).select(F.col("s.at").alias("seen_at"))
    )
