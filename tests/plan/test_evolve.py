"""Columns added to real tables: every reader still works, and partitions keep theirs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DateType, IntegerType, LongType, StructField, VariantType

from table_writer.errors import InvalidInputError, MetastoreError, SchemaMismatchError
from table_writer.jobs.plan.fit import add_columns, fit
from table_writer.jobs.plan.types import table_schema
from table_writer.metastore.hive import HiveMetastore
from table_writer.metastore.protocol import Metastore
from table_writer.metastore.settings import MetastoreSettings
from table_writer.model.new_table import SchemaMode
from table_writer.model.table import Table, TableName
from table_writer.spark.types import exact_type
from table_writer.testing import Lakehouse

KINDS = {
    "datasource": "CREATE TABLE {} (id BIGINT COMMENT 'key', dt STRING) USING parquet PARTITIONED BY (dt)",
    "hive": "CREATE TABLE {} (id BIGINT COMMENT 'key') PARTITIONED BY (dt STRING) STORED AS PARQUET",
}
COMMENT = """it's \\ "quoted", ${user.home}, and
goes on"""
# A decimal of 20 digits: Hive's reader does not know how Spark writes those of 18 or less.
NEW = (
    "SELECT 2L AS id, 'new' AS dt, 1 AS Plain, CAST(1.5 AS DECIMAL(20,2)) AS `Preis€`, DATE '2024-01-01' AS at,"
    " named_struct('X', array(map('k', 1Y)), 'y', 'z') AS inner, 'ab' AS code, X'00' AS raw"
)


@pytest.fixture(scope="module")
def metastore(lakehouse: Lakehouse) -> Iterator[HiveMetastore]:
    with HiveMetastore(MetastoreSettings(uris=(lakehouse.metastore_uri,))) as metastore:
        yield metastore


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, spark: SparkSession, metastore: Metastore, lakehouse_database: str) -> Table:
    """Return a table with one row in one partition."""
    name = f"{lakehouse_database}.{request.param}"
    spark.sql(KINDS[request.param].format(name))
    spark.sql(f"INSERT INTO {name} PARTITION (dt = 'old') SELECT 1L")
    found = metastore.get_table(TableName.parse(name))
    assert found is not None
    return found


def new_rows(spark: SparkSession) -> DataFrame:
    limited = {"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}
    return spark.sql(NEW).withMetadata("Plain", {"comment": COMMENT}).withMetadata("code", limited)


def test_added_columns_are_read_by_every_reader_and_null_in_old_partitions(
    spark: SparkSession, metastore: Metastore, table: Table
) -> None:
    df = new_rows(spark)
    fitted = fit(df, table_schema(table), str(table.name), ["dt"], SchemaMode.EVOLVE)
    now = add_columns(spark, metastore, table, fitted.added)
    assert [exact_type(field) for field in table_schema(now)] == [exact_type(field) for field in fitted.schema]
    assert table_schema(now).names == ["id", "Plain", "Preis€", "at", "inner", "code", "raw", "dt"]
    assert [field.metadata.get("comment") for field in table_schema(now)][:2] == ["key", COMMENT]
    assert {column.name.lower() for column in now.columns} == {name.lower() for name in df.columns} - {"dt"}
    spark.conf.set("hive.exec.dynamic.partition.mode", "nonstrict")
    fitted.rows.write.insertInto(str(table.name))
    spark.conf.unset("hive.exec.dynamic.partition.mode")
    nothing = (None,) * 6
    for converted in ("true", "false"):
        spark.conf.set("spark.sql.hive.convertMetastoreParquet", converted)
        try:
            rows = {tuple(row[:7]) for row in spark.table(str(table.name)).where("dt = 'old'").collect()}
            assert rows == {(1, *nothing)}
            (new,) = spark.table(str(table.name)).where("dt = 'new'").collect()
            assert (new.id, new.Plain, str(new["Preis€"]), str(new["at"]), new.code) == (
                2,
                1,
                "1.50",
                "2024-01-01",
                "ab",
            )
            assert new.inner.y == "z"
        finally:
            spark.conf.unset("spark.sql.hive.convertMetastoreParquet")


def test_a_column_that_is_there_already_with_its_type_is_no_change(
    spark: SparkSession, metastore: Metastore, table: Table
) -> None:
    now = add_columns(spark, metastore, table, [StructField("ID", LongType())])
    assert now.columns == table.columns


class Racing:
    """A session in which another writer alters the table just before we do."""

    def __init__(self, spark: SparkSession, *first: str) -> None:
        self._spark = spark
        self._first = list(first)

    def sql(self, text: str) -> DataFrame:
        if self._first:
            self._spark.sql(self._first.pop(0))
        return self._spark.sql(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)


def racing(spark: SparkSession, metastore: Metastore, table: Table, others: str, added: Sequence[StructField]) -> Table:
    session: Any = Racing(spark, f"ALTER TABLE {table.name} ADD COLUMNS ({others})")
    return add_columns(session, metastore, table, added)


def test_what_another_writer_adds_meanwhile_with_the_same_type_is_as_good(
    spark: SparkSession, metastore: Metastore, table: Table
) -> None:
    added = [StructField("a", IntegerType()), StructField("b", DateType())]
    now = racing(spark, metastore, table, "A INT COMMENT 'theirs'", added)
    assert table_schema(now).names == ["id", "A", "b", "dt"]


def test_what_another_writer_adds_meanwhile_with_another_type_is_an_error_with_both(
    spark: SparkSession, metastore: Metastore, table: Table
) -> None:
    with pytest.raises(SchemaMismatchError, match="as string, and the DataFrame has int"):
        racing(spark, metastore, table, "a STRING", [StructField("a", IntegerType())])


def test_a_column_that_spark_cannot_add_is_an_error_with_the_statement(
    spark: SparkSession, metastore: Metastore, table: Table
) -> None:
    with pytest.raises(MetastoreError, match=r"could not add columns \(`v` variant\) to table"):
        add_columns(spark, metastore, table, [StructField("v", VariantType())])


def test_a_setting_under_which_a_comment_would_change_is_named_and_nothing_is_added(
    spark: SparkSession, metastore: Metastore, table: Table
) -> None:
    added = [StructField("plain", LongType(), metadata={"comment": "it's"})]
    spark.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    try:
        with pytest.raises(InvalidInputError, match=r"set spark.sql.parser.escapedStringLiterals=false") as raised:
            add_columns(spark, metastore, table, added)
    finally:
        spark.conf.unset("spark.sql.parser.escapedStringLiterals")
    assert raised.value.table == str(table.name)
    assert metastore.get_table(table.name) == table


@pytest.mark.parametrize("moment", ["before the look", "after the look"])
def test_a_table_that_is_dropped_meanwhile_is_said_to_be(
    moment: str, spark: SparkSession, metastore: Metastore, table: Table
) -> None:
    drop = f"DROP TABLE {table.name}"
    session: Any = spark if moment == "before the look" else Racing(spark, drop)
    if session is spark:
        spark.sql(drop)
    with pytest.raises(SchemaMismatchError, match="was dropped meanwhile"):
        add_columns(session, metastore, table, [StructField("a", IntegerType())])
