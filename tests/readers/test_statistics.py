"""Trino's ``SHOW STATS`` shows of each way to write what is in the rows, or nothing.

Trino remembers statistics for five minutes: each state is a table of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from table_writer import Maintenance, TableWriter
from table_writer.testing import Lakehouse

pytestmark = pytest.mark.slow

COLUMNS: Final = (
    "id INT, big BIGINT, amount DOUBLE, name STRING, ok BOOLEAN, day DATE, at TIMESTAMP, price DECIMAL(30,5),"
    " raw BINARY, nothing INT, odd DOUBLE, many ARRAY<INT>"
)
HOSTILE: Final = "a/b c=é%2F"
Stats = dict[str | None, tuple[Any, ...]]


def rows(spark: SparkSession, first: int, last: int, dt: str | None = HOSTILE) -> DataFrame:
    def row(i: int) -> tuple[Any, ...]:
        name = None if i % 3 == 0 else f"name{i % 4}"
        moment = datetime(2024, 1, 1, i % 24, tzinfo=UTC)
        odd = math.nan if i == first else 1.0
        figures = (i, i * 10**12, i * 1.5, name, i % 2 == 0, date(2024, 1, 1 + i % 28), moment, Decimal(i) / 4)
        return (*figures, bytes([i]), None, odd, [1], dt)

    return spark.createDataFrame([row(i) for i in range(first, last)], f"{COLUMNS}, dt STRING")


def overwrite(writer: TableWriter, table: str, spark: SparkSession, _: Maintenance) -> None:
    writer.overwrite_partitions(rows(spark, 100, 120), table)
    writer.overwrite_partitions(rows(spark, 1, 11), table)


def append(writer: TableWriter, table: str, spark: SparkSession, _: Maintenance) -> None:
    writer.append(rows(spark, 1, 6), table)
    writer.append(rows(spark, 6, 11), table)


def compact(writer: TableWriter, table: str, spark: SparkSession, keeper: Maintenance) -> None:
    append(writer, table, spark, keeper)
    assert writer.compact(table, min_files=2).partitions


def roll_back(writer: TableWriter, table: str, spark: SparkSession, keeper: Maintenance) -> None:
    append(writer, table, spark, keeper)
    writer.overwrite_partitions(rows(spark, 50, 60), table)
    keeper.rollback(table, version=2)


def publish_staged(writer: TableWriter, table: str, spark: SparkSession, _: Maintenance) -> None:
    with writer.stage(rows(spark, 1, 11), table, mode="overwrite_table") as staged:
        staged.publish()


def restore(writer: TableWriter, table: str, spark: SparkSession, keeper: Maintenance) -> None:
    append(writer, table, spark, keeper)
    spark.sql(f"ALTER TABLE {table} DROP PARTITION (dt='{HOSTILE}')")
    assert keeper.restore(table).partitions


WAYS: Final = (overwrite, append, compact, roll_back, publish_staged, restore)
EXPECTED: Final[Stats] = {
    "id": (None, 10.0, 0.0, "1", "10"),
    "big": (None, 10.0, 0.0, "1000000000000", "10000000000000"),
    "amount": (None, 10.0, 0.0, "1.5", "15.0"),
    "name": (35.0, 4.0, 0.3, None, None),
    "ok": (None, 2.0, 0.0, None, None),
    "day": (None, 10.0, 0.0, "2024-01-02", "2024-01-11"),
    "at": (None, 10.0, 0.0, None, None),  # Trino takes no bounds of timestamps from Hive
    "price": (None, 10.0, 0.0, "0.25", "2.5"),
    "raw": (10.0, None, 0.0, None, None),
    "nothing": (0.0, 0.0, 1.0, None, None),
    "odd": (None, None, None, None, None),  # NaN has no place in an order
    "many": (None, None, None, None, None),
}


@pytest.fixture
def shown(trino: Any) -> Callable[[str], Stats]:
    """Return what Trino says of each column of a table, and of the number of rows under ``None``."""

    def show(table: str) -> Stats:
        found = trino.rows(f"SHOW STATS FOR hive.{table}")
        return {name: (size, ndv, nulls, low, high) for name, size, ndv, nulls, _, low, high in found if name} | {
            None: (next(row[4] for row in found if row[0] is None),)
        }

    return show


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_show_stats_after_each_way_to_write(
    way: Any, spark: SparkSession, lakehouse: Lakehouse, database: str, shown: Callable[[str], Stats]
) -> None:
    table = f"{database}.stats_{way.__name__}"
    external = f"LOCATION '{lakehouse.warehouse}/stats_{way.__name__}'"  # a partition that is dropped leaves its files
    spark.sql(f"CREATE TABLE {table} ({COLUMNS}, dt STRING) USING parquet PARTITIONED BY (dt) {external}")
    writer = TableWriter(spark)
    way(writer, table, spark, Maintenance(services=writer._services))
    found = shown(table)
    assert found[None] == (10.0,)
    assert {name: found[name] for name in EXPECTED} == EXPECTED


def test_show_stats_of_an_append_in_place_has_rows_and_no_columns(
    spark: SparkSession, database: str, shown: Callable[[str], Stats]
) -> None:
    table = f"{database}.stats_in_place"
    spark.sql(f"CREATE TABLE {table} ({COLUMNS}, dt STRING) USING parquet PARTITIONED BY (dt)")
    writer = TableWriter(spark)
    writer.append(rows(spark, 1, 6), table)
    writer.append(rows(spark, 6, 11), table, carry="in_place")
    found = shown(table)
    assert (found[None], found["id"]) == ((10.0,), (None,) * 5)


def test_show_stats_of_an_unpartitioned_table(
    spark: SparkSession, database: str, shown: Callable[[str], Stats]
) -> None:
    table = f"{database}.stats_whole"
    spark.sql(f"CREATE TABLE {table} ({COLUMNS}) USING parquet")
    writer = TableWriter(spark)
    writer.overwrite_table(rows(spark, 1, 6).drop("dt"), table)
    writer.append(rows(spark, 6, 11).drop("dt"), table)
    found = shown(table)
    assert {name: found[name] for name in EXPECTED} == EXPECTED
