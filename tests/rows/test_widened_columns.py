"""Hive's ``ALTER TABLE … CHANGE`` without ``CASCADE`` leaves partitions that exist with the columns that they had.

A table whose ``id`` was an INT and is a BIGINT has both kinds of partitions then, and a merge was refused with advice
on how long replaced files are kept. What files say themselves is read as the wider type; all else is refused with
advice that helps.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from table_writer import InvalidInputError, TableWriter
from table_writer.metastore.connection import Connection
from table_writer.metastore.settings import MetastoreSettings
from table_writer.model.table import TableName
from table_writer.testing import Lakehouse

Alter = Callable[[str, str, str], None]
BEYOND_INT = 3_000_000_000


@pytest.fixture
def without_cascade(lakehouse: Lakehouse, spark: SparkSession, writer: TableWriter) -> Alter:
    """Give a column of a table another type, in the table's own description alone."""

    def alter(name: str, column: str, kind: str) -> None:
        table = writer._services.metastore.get_table(writer._services.table_name(name))
        assert table is not None
        described: Any = copy.deepcopy(table.native)
        for field in described.sd.cols:
            field.type = kind if field.name == column else field.type
        backdoor = Connection(MetastoreSettings(uris=(lakehouse.metastore_uri,)))
        backdoor.change("alter_table", table.name.database, table.name.name, described, table=name)
        spark.catalog.refreshTable(name)

    return alter


@pytest.fixture
def widened(spark: SparkSession, writer: TableWriter, make_table: Callable[..., str], without_cascade: Alter) -> Any:
    """Make a table whose columns were narrower when its two partitions were written."""

    def make(kind: str) -> str:
        table = make_table(
            "CREATE TABLE {name} (id INT, amount DECIMAL(10,2), ratio FLOAT) PARTITIONED BY (dt STRING) STORED AS "
            + kind
        )
        writer.append(spark.sql("SELECT 1 AS id, 1.25BD AS amount, 0.5f AS ratio, 'd1' AS dt"), table)
        writer.append(spark.sql("SELECT 2 AS id, 2.25BD AS amount, 0.1f AS ratio, 'd2' AS dt"), table)
        without_cascade(table, "id", "bigint")
        return table

    return make


def ids(spark: SparkSession, table: str) -> list[tuple[int, str]]:
    spark.catalog.refreshTable(table)
    return sorted((row.id, row.dt) for row in spark.table(table).collect())


@pytest.mark.parametrize("kind", ["PARQUET", "ORC"])
def test_partitions_of_a_narrower_type_are_merged_changed_appended_to_and_read(
    kind: str, spark: SparkSession, writer: TableWriter, widened: Any, without_cascade: Alter
) -> None:
    table = widened(kind)
    without_cascade(table, "amount", "decimal(18,2)")
    without_cascade(table, "ratio", "double")
    columns = "CAST(1.5 AS DECIMAL(18,2)) AS amount, 0.25d AS ratio"
    updates = spark.sql(f"SELECT {BEYOND_INT} AS id, {columns}, 'd1' AS dt UNION SELECT 1, {columns}, 'd1'")
    merged = writer.merge(updates, table, on=["dt", "id"])
    assert (merged.inserted, merged.updated) == (1, 1)
    assert ids(spark, table) == [(1, "d1"), (2, "d2"), (BEYOND_INT, "d1")]
    assert writer.update_where(table, {"id": "id + 3000000000L"}, "id = 2").updated == 1
    writer.append(spark.sql(f"SELECT 7L AS id, {columns}, 'd2' AS dt"), table)
    assert writer.delete_where(table, "id = 1").deleted == 1
    assert ids(spark, table) == [(7, "d2"), (BEYOND_INT, "d1"), (BEYOND_INT + 2, "d2")]
    older = sorted((row.id, str(row.amount), row.ratio) for row in writer.read(table, version=2).collect())
    assert older == [(1, "1.25", 0.5), (2, "2.25", 0.10000000149011612)]


def test_an_append_beside_files_of_a_narrower_type_gives_the_partition_the_tables(
    spark: SparkSession, writer: TableWriter, widened: Any
) -> None:
    table = widened("PARQUET")
    rows = spark.sql(f"SELECT {BEYOND_INT} AS id, 1.25BD AS amount, 0.5f AS ratio, 'd1' AS dt")
    with pytest.raises(InvalidInputError, match=r"has column id as int, the table as bigint.*append with carry='copy'"):
        writer.append(rows, table, carry="in_place")  # whose readers by the partition's type would fail meanwhile
    writer.append(rows, table)
    assert ids(spark, table) == [(1, "d1"), (2, "d2"), (BEYOND_INT, "d1")]
    found = writer._services.metastore.get_all_partitions(writer._services.open_to_write(table).table)
    assert {values[0]: one.narrower != "" for values, one in found.items()} == {"d1": False, "d2": True}
    assert writer.compact(table, min_files=2).partitions
    assert ids(spark, table) == [(1, "d1"), (2, "d2"), (BEYOND_INT, "d1")]


def test_the_advice_for_what_would_be_read_otherwise_can_be_followed(
    spark: SparkSession, writer: TableWriter, widened: Any
) -> None:
    table = widened("TEXTFILE")
    updates = spark.sql("SELECT 1L AS id, 9.25BD AS amount, 0.5f AS ratio, 'd1' AS dt")
    with pytest.raises(InvalidInputError, match="has column id as int, the table as bigint") as refused:
        writer.merge(updates, table, on=["dt", "id"])
    assert "retention" not in refused.value.message
    assert f"spark.table('{table}')" in refused.value.message
    assert f"ALTER TABLE {TableName.parse(table).hive_sql} PARTITION (`dt`) CHANGE COLUMN" in refused.value.message
    writer.overwrite_partitions(spark.table(table), table)
    assert writer.merge(updates, table, on=["dt", "id"]).updated == 1
    assert ids(spark, table) == [(1, "d1"), (2, "d2")]
