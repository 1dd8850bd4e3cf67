"""Several merges at once, of one partition: with retries none of them loses what another has done."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import SparkSession

from table_writer import TableWriter

Rows = Callable[..., Any]


@pytest.mark.slow
def test_the_sum_of_increments_is_exact(
    writer: TableWriter, spark: SparkSession, make_table: Callable[..., str]
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, n INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    rounds, keys = 50, 2
    updates = spark.range(keys).selectExpr("id", "1 AS n", "'d1' AS dt")

    def increments(number: int) -> int:
        own = TableWriter(spark)
        for round_number in range(rounds):
            own.merge(
                updates,
                table,
                on=["dt", "id"] if round_number % 2 else ["id"],
                set={"n": "target.n + updates.n"},
                retries=20,
                tags={"by": str(number)},
            )
        return rounds

    with ThreadPoolExecutor(2) as threads:
        total = sum(threads.map(increments, range(2)))
    spark.catalog.refreshTable(table)
    assert {row.id: row.n for row in spark.table(table).collect()} == dict.fromkeys(range(keys), total)
    assert spark.table(table).count() == keys
    assert len(writer.maintenance.history(table).versions) == total


@pytest.mark.slow
def test_a_new_key_is_inserted_once_though_others_put_it_elsewhere(
    writer: TableWriter, spark: SparkSession, make_table: Callable[..., str]
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, n INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    rounds, keys = 3, 4

    def inserts(number: int) -> int:
        own = TableWriter(spark)
        results = [
            own.merge(
                spark.range(first, first + keys).selectExpr("id", "1 AS n", f"'of {number}' AS dt"),
                table,
                on=["id"],
                set={"n": "target.n + updates.n"},
                retries=20,
            )
            for first in range(rounds)
        ]
        return sum(result.inserted or 0 for result in results)

    with ThreadPoolExecutor(2) as threads:
        inserted = sum(threads.map(inserts, range(2)))
    spark.catalog.refreshTable(table)
    rows = spark.table(table).collect()
    assert inserted == len(rows) == len({row.id for row in rows}) == keys + rounds - 1
    assert sum(row.n for row in rows) == 2 * rounds * keys


@pytest.mark.slow
def test_no_row_is_lost_that_is_appended_meanwhile(
    writer: TableWriter, spark: SparkSession, make_table: Callable[..., str]
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, n INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    writer.append(spark.range(2).selectExpr("id", "0 AS n", "'d1' AS dt"), table)
    updates = spark.range(2).selectExpr("id", "1 AS n", "'d1' AS dt")
    rounds = 3

    def merge_rounds() -> None:
        for _ in range(rounds):
            writer.merge(updates, table, on=["dt", "id"], set={"n": "target.n + updates.n"}, retries=30)

    def append_rounds() -> None:
        appender = TableWriter(spark)
        for number in range(10, 10 + 2 * rounds):
            rows = spark.range(number, number + 1).selectExpr("id", "0 AS n", "'d1' AS dt")
            appender.append(rows, table, carry="in_place" if number % 2 else "copy")

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(merge_rounds), threads.submit(append_rounds)]:
            done.result()
    spark.catalog.refreshTable(table)
    expected = {0: rounds, 1: rounds, **dict.fromkeys(range(10, 10 + 2 * rounds), 0)}
    found = spark.table(table).collect()
    assert {row.id: row.n for row in found} == expected
    assert len(found) == len(expected)
