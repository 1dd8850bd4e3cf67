"""Rows of some partitions, of tables of every shape."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField

from table_writer.jobs.plan.types import CHAR_VARCHAR
from table_writer.model.table import NULL_PARTITION
from table_writer.spark.sql import in_partitions
from table_writer.testing import Lakehouse


@pytest.fixture(scope="module")
def table(lakehouse: Lakehouse, spark: SparkSession) -> Iterator[str]:
    name = "filtered_partitions"
    spark.sql(f"CREATE DATABASE {name} LOCATION '{lakehouse.warehouse}/{name}.db'")
    spark.sql(f"CREATE TABLE {name}.visits (id INT, dt DATE, `a b` INT) USING parquet PARTITIONED BY (dt, `a b`)")
    spark.sql(
        f"INSERT INTO {name}.visits VALUES (1, DATE'2024-01-01', 1), (2, DATE'2024-01-01', 2), (3, NULL, 1),"
        " (4, DATE'2024-01-01', NULL), (5, NULL, NULL)"
    )
    yield f"{name}.visits"
    spark.sql(f"DROP DATABASE {name} CASCADE")


@pytest.mark.parametrize(
    ("partitions", "ids"),
    [
        ([("2024-01-01", "1")], [1]),
        ([("2024-01-01", "01"), ("2024-01-01", "2")], [1, 2]),
        ([(NULL_PARTITION, "1")], [3]),
        ([("2024-01-01", NULL_PARTITION), (NULL_PARTITION, NULL_PARTITION)], [4, 5]),
        ([("2030-01-01", "1")], []),
    ],
    ids=str,
)
def test_exactly_the_rows_of_these_partitions(
    spark: SparkSession, table: str, partitions: list[tuple[str, ...]], ids: list[int]
) -> None:
    frame = spark.table(table)
    inside = in_partitions(frame.select("dt", "`a b`").schema.fields, partitions)
    assert sorted(row.id for row in frame.where(inside).collect()) == ids
    assert sorted(row.id for row in frame.where(~inside).collect()) == sorted({1, 2, 3, 4, 5} - set(ids))


def test_directories_of_other_partitions_are_not_listed(spark: SparkSession, table: str) -> None:
    frame = spark.table(table)
    inside = in_partitions(frame.select("dt", "`a b`").schema.fields, [("2024-01-01", "1"), (NULL_PARTITION, "1")])
    plan = frame.where(inside)._jdf.queryExecution().executedPlan().toString()
    assert "InMemoryFileIndex(2 paths)" in plan


def test_thousands_of_partitions_fit_in_one_filter(spark: SparkSession) -> None:
    frame = spark.range(2_000).selectExpr("CAST(id AS STRING) AS hour")
    inside = in_partitions(frame.schema.fields, [(str(number),) for number in range(1_500)])
    assert frame.where(inside).count() == 1_500


def test_an_unpartitioned_table_is_one_partition(spark: SparkSession) -> None:
    assert spark.range(2).where(in_partitions([], [()])).count() == 2


def test_a_char_that_another_tool_did_not_fill_up_is_found(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("ab   ",), (" ab  ",), ("x    ",), (None,)], "c string")
    fields = [StructField("c", StringType(), metadata={CHAR_VARCHAR: "char(5)"})]
    assert [row.c for row in frame.where(in_partitions(fields, [("ab",)])).collect()] == ["ab   "]
