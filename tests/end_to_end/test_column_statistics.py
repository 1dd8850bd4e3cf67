"""What Spark's optimizer and other readers of the metastore are told of columns after a write."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

from pyspark.sql import SparkSession

from table_writer import TableWriter
from table_writer.model.column_figures import ColumnFigures, members_of
from table_writer.model.table import TableName
from tests.end_to_end.test_overwrite_table import Rows

MOMENT = datetime(2024, 1, 2, 3, 4, 5, 500_000, tzinfo=UTC)
DDL = "CREATE TABLE {name} (id INT, Name STRING, at TIMESTAMP, price DECIMAL(20,2), ok BOOLEAN) USING parquet"


def described(spark: SparkSession, table: str, column: str) -> dict[str, str]:
    return {row[0]: row[1] for row in spark.sql(f"DESCRIBE EXTENDED {table} {column}").collect()}


def test_spark_s_optimizer_knows_the_columns_of_an_unpartitioned_table(
    spark: SparkSession, writer: TableWriter, make_table: Callable[..., str]
) -> None:
    table = make_table(DDL, "whole")
    schema = spark.table(table).schema
    first = spark.createDataFrame([(1, None, MOMENT, Decimal("-1.50"), True), (2, "ab", None, None, None)], schema)
    writer.overwrite_table(first, table)
    writer.append(spark.createDataFrame([(9, "abcd", MOMENT, Decimal(7), False)], schema), table)
    known = {column: described(spark, table, column) for column in schema.names}
    assert [known["id"][name] for name in ("min", "max", "num_nulls", "distinct_count")] == ["1", "9", "0", "3"]
    assert [known["Name"][name] for name in ("num_nulls", "avg_col_len", "max_col_len")] == ["1", "3", "4"]
    assert [known["price"][name] for name in ("min", "max")] == ["-1.50", "7.00"]
    assert known["at"]["min"] == known["at"]["max"] == "2024-01-02 03:04:05.500000 +0000"
    spark.conf.set("spark.sql.cbo.enabled", "true")
    try:
        plan = spark.sql(f"EXPLAIN COST SELECT * FROM {table} WHERE id > 100").collect()[0][0]
    finally:
        spark.conf.unset("spark.sql.cbo.enabled")
    assert "rowCount=0" in plan


def test_the_metastore_knows_each_partition_and_takes_nothing_for_accurate(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows
) -> None:
    writer.append(rows((1, "a", "d/1"), (2, None, "d/1"), (5, "b", None)), orders)
    writer.append(rows((3, "c", "d/1")), orders)
    metastore = writer._services.metastore
    table = metastore.get_table(TableName.parse(orders))
    assert table is not None
    whole = {
        "id": ColumnFigures("integer", 0, 3, 1, 3, distinct=3),
        "note": ColumnFigures("text", 1, 2, total_bytes=2, longest_bytes=1, distinct=2, members=members_of([b"a"])),
    }
    values = [("d/1",), ("__HIVE_DEFAULT_PARTITION__",)]
    assert sorted(metastore.differing_statistics(table, {one: {} for one in values})) == sorted(values)
    assert metastore.differing_statistics(table, {values[0]: whole}) == []
    parameters = [one.parameters for one in metastore.get_all_partitions(table).values()]
    assert len(parameters) == 2
    assert not any("COLUMN_STATS_ACCURATE" in one for one in parameters)
