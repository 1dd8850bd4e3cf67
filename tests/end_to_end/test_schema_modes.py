"""Columns that only the table has or only the DataFrame, and values that the table's types do not take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from table_writer import ConflictError, SchemaMismatchError, TableWriter
from tests.cells import first_fast

from .watched import STAGED, Seen

Rows = Callable[..., Any]
Look = Callable[[str], Seen]
Stopped = Callable[..., TableWriter]
KINDS = {
    "datasource": "CREATE TABLE {name} (id BIGINT, Note STRING, dt STRING) USING parquet PARTITIONED BY (dt)",
    "Hive": "CREATE TABLE {name} (id BIGINT, Note STRING) PARTITIONED BY (dt STRING) STORED AS PARQUET",
    "ORC": "CREATE TABLE {name} (id BIGINT, Note STRING, dt STRING) USING orc PARTITIONED BY (dt)",
}


def rows_of(spark: SparkSession, table: str) -> list[tuple[Any, ...]]:
    spark.catalog.refreshTable(table)
    return sorted(tuple(row) for row in spark.table(table).collect())


@pytest.mark.connect
@pytest.mark.parametrize("kind", first_fast(KINDS))
def test_a_new_column_is_added_old_partitions_read_null_and_an_append_keeps_their_files(
    kind: str, spark: SparkSession, writer: TableWriter, make_table: Callable[..., str], rows: Rows
) -> None:
    table = make_table(KINDS[kind])
    writer.append(rows((1, "a", "d1"), (2, "b", "d2")), table)
    wider = spark.sql("SELECT 3L AS id, 'c' AS note, 1.5D AS extra, 'd1' AS dt")
    with pytest.raises(SchemaMismatchError, match="schema='evolve' adds them"):
        writer.append(wider, table)
    writer.append(wider, table, schema="evolve")
    expected = [(1, "a", None, "d1"), (2, "b", None, "d2"), (3, "c", 1.5, "d1")]
    assert spark.table(table).columns == ["id", "Note", "extra", "dt"]
    assert rows_of(spark, table) == expected
    writer.append(rows((4, "d", "d2")), table, schema="allow_missing")
    assert rows_of(spark, table) == [*expected, (4, "d", None, "d2")]
    spark.conf.set("spark.sql.hive.convertMetastoreParquet", "false")  # then Hive's own SerDe reads Hive's tables
    try:
        assert rows_of(spark, table) == [*expected, (4, "d", None, "d2")]
    finally:
        spark.conf.unset("spark.sql.hive.convertMetastoreParquet")


def test_a_write_that_fails_adds_no_column(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, stopped: Stopped, look: Look
) -> None:
    writer.append(rows((1, "a", "d1")), orders)
    before = look(orders)
    failing = spark.sql("SELECT 2L AS id, raise_error('broken row') AS note, 1 AS extra, 'd1' AS dt")
    with pytest.raises(Exception, match="broken row"):
        writer.append(failing.selectExpr("id", "string(note) note", "extra", "dt"), orders, schema="evolve")
    assert spark.table(orders).columns == ["id", "note", "dt"]
    assert look(orders) == before


def test_two_writes_that_add_the_same_column_at_once_both_succeed(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, stopped: Stopped
) -> None:
    writer.append(rows((1, "a", "d1")), orders)

    def wider(number: int, partition: str) -> Any:
        return spark.sql(f"SELECT {number}L AS id, 'x' AS note, {number} AS extra, '{partition}' AS dt")

    late = stopped(STAGED, lambda: writer.append(wider(2, "d2"), orders, schema="evolve"))
    late.append(wider(3, "d3"), orders, schema="evolve")
    assert rows_of(spark, orders) == [(1, "a", None, "d1"), (2, "x", 2, "d2"), (3, "x", 3, "d3")]


def test_a_table_that_was_made_again_with_other_types_meanwhile_is_a_conflict(
    spark: SparkSession, make_table: Callable[..., str], stopped: Stopped
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, dt STRING) USING parquet PARTITIONED BY (dt)")

    def make_again() -> None:
        spark.sql(f"DROP TABLE {table}")
        spark.sql(f"CREATE TABLE {table} (id STRING, dt STRING) USING parquet PARTITIONED BY (dt)")

    wider = spark.sql("SELECT 1L AS id, 2 AS extra, 'd1' AS dt")
    with pytest.raises(ConflictError, match="made again"):
        stopped(STAGED, make_again).append(wider, table, schema="evolve")
    assert rows_of(spark, table) == []


@pytest.mark.connect
def test_missing_nullable_columns_become_null_only_when_that_is_asked(
    spark: SparkSession, writer: TableWriter, orders: str
) -> None:
    df = spark.sql("SELECT 'd1' AS DT, 1 AS ID")
    with pytest.raises(SchemaMismatchError, match="schema='allow_missing' gives them their defaults"):
        writer.append(df, orders)
    writer.append(df, orders, schema="allow_missing")
    assert rows_of(spark, orders) == [(1, None, "d1")]
    with pytest.raises(SchemaMismatchError, match="'dt'"):
        writer.append(df.drop("DT"), orders, schema="allow_missing")


LIMITED = (  # Hive's: of a table made with USING parquet Spark forgets NOT NULL itself
    "CREATE TABLE {name} (id BIGINT NOT NULL, code VARCHAR(3), price DECIMAL(4,2)) PARTITIONED BY (dt STRING)"
    " STORED AS PARQUET"
)
BAD_ROWS = {
    "code": (
        "if(id > 2, 'longer', 'ok') AS code",
        "column code is varchar(3), and 2 of 5 rows are longer, for example 'longer'",
    ),
    "price": (
        "cast(if(id = 4, 123.4, 1.5) AS decimal(6,2)) AS price",
        "column price is decimal(4,2), and 1 of 5 rows have more than 2 digits before the point, for example '123.40'",
    ),
    "id": ("nullif(id, 3) AS id", "column id is NOT NULL, and 1 of 5 rows are null, for example 'code=ok"),
}


@pytest.mark.connect
@pytest.mark.parametrize("column", first_fast(BAD_ROWS))
def test_values_that_do_not_fit_are_counted_shown_and_leave_nothing_behind(
    column: str, spark: SparkSession, writer: TableWriter, make_table: Callable[..., str], look: Look
) -> None:
    table = make_table(LIMITED)
    good = {"id": "id", "code": "'ok' AS code", "price": "1.5BD AS price", "dt": "concat('d', id % 2) AS dt"}
    numbers = spark.range(0, 5, 1, 2)
    writer.append(numbers.selectExpr(*good.values()), table)
    before = look(table)
    bad, said = BAD_ROWS[column]
    with pytest.raises(SchemaMismatchError) as raised:
        writer.append(numbers.selectExpr(*(good | {column: bad}).values()), table)
    assert said in str(raised.value)
    assert "nothing was published" in str(raised.value)
    assert look(table) == before
    assert spark.table(table).count() == 5
