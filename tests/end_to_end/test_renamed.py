"""``ALTER TABLE`` by Spark itself: what it moves, and that no row is lost by adopting and writing on."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession

from table_writer import InvalidInputError, Maintenance, TableWriter
from table_writer.testing import Lakehouse

Make = Callable[..., str]


def ids(spark: SparkSession, table: str) -> list[int]:
    spark.catalog.refreshTable(table)
    return sorted(row.id for row in spark.table(table).collect())


def row(spark: SparkSession, number: int, partition: str = "") -> DataFrame:
    return spark.sql(f"SELECT {number} AS id" + (f", '{partition}' AS dt" if partition else ""))


@pytest.mark.parametrize("rolled_back", [False, True], ids=["published", "rolled back to Spark's rows"])
def test_a_renamed_managed_table_keeps_all_rows_through_adopt_append_and_vacuum(
    rolled_back: bool, spark: SparkSession, writer: TableWriter, keeper: Maintenance, make_table: Make
) -> None:
    codes = make_table("CREATE TABLE {name} (id INT) USING parquet", "codes")
    spark.sql(f"INSERT INTO {codes} VALUES (1)")
    writer.overwrite_table(row(spark, 2), codes)
    if rolled_back:
        keeper.rollback(codes, version=0)
    renamed = f"{codes}_renamed"
    spark.sql(f"ALTER TABLE {codes} RENAME TO {renamed}")
    with pytest.raises(InvalidInputError, match="adopt"):
        writer.append(row(spark, 3), renamed)
    writer.adopt(renamed)
    writer.append(row(spark, 3), renamed)
    keeper.vacuum(renamed, older_than=timedelta(0), force=True)
    assert ids(spark, renamed) == [1 if rolled_back else 2, 3]


def test_a_renamed_partitioned_table_still_rolls_back_to_sparks_files(
    spark: SparkSession, writer: TableWriter, keeper: Maintenance, make_table: Make
) -> None:
    orders = make_table("CREATE TABLE {name} (id INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    spark.sql(f"INSERT INTO {orders} VALUES (1, 'd1')")
    writer.overwrite_partitions(row(spark, 2, "d1"), orders)
    renamed = f"{orders}_renamed"
    spark.sql(f"ALTER TABLE {orders} RENAME TO {renamed}")
    writer.adopt(renamed)
    assert ids(spark, renamed) == [2]
    keeper.rollback(renamed, version=0)
    assert ids(spark, renamed) == [1]
    writer.append(row(spark, 3, "d1"), renamed)
    keeper.vacuum(renamed, older_than=timedelta(0), force=True)
    assert ids(spark, renamed) == [1, 3]


def test_a_table_set_to_another_location_is_refused_until_it_is_where_its_log_is(
    spark: SparkSession, writer: TableWriter, make_table: Make, lakehouse: Lakehouse
) -> None:
    codes = make_table("CREATE TABLE {name} (id INT) USING parquet", "codes")
    orders = make_table("CREATE TABLE {name} (id INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    writer.overwrite_table(row(spark, 2), codes)
    writer.overwrite_partitions(row(spark, 2, "d1"), orders)
    for table, partition in ((codes, ""), (orders, "d1")):
        spark.sql(f"ALTER TABLE {table} SET LOCATION '{lakehouse.warehouse}/elsewhere/{table}'")
        with pytest.raises(InvalidInputError, match="SET LOCATION") as refused:
            writer.append(row(spark, 3, partition), table)
    way_out = re.search(r"ALTER TABLE \S+ SET LOCATION '\S+'", str(refused.value))
    assert way_out
    spark.sql(way_out[0])
    writer.adopt(codes)
    for table, partition in ((codes, ""), (orders, "d1")):
        writer.append(row(spark, 3, partition), table)
        assert ids(spark, table) == [2, 3]
