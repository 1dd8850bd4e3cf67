"""A column that is added later with a default is not null in the files that were there before.

Spark reads the default that the column had when it was added (``EXISTS_DEFAULT``), and ``INSERT … BY NAME`` writes the
one that it has now (``CURRENT_DEFAULT``, SPARK-38334). Readers that look at files alone see null
(apache/gluten#11494).
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

from table_writer import InvalidInputError, SchemaMismatchError, TableWriter
from table_writer.read.dataset import open_dataset
from table_writer.read.types import Default

DEFAULTS: Final = {
    "status STRING": "'open'",
    "n BIGINT": "5",
    "tiny TINYINT": "3",
    "d DATE": "DATE'2024-01-01'",
    "price DECIMAL(10,2)": "1.5",
    "code CHAR(5)": "'ab'",
    "short VARCHAR(5)": "'ab'",
    "good BOOLEAN": "true",
    "share FLOAT": "1.5",
    "far DOUBLE": "-2.5E10",
    "told STRING": "concat('it''s ', '\"b\"\\\\')",
    "day DATE": "current_date()",
    "nothing INT": "NULL",
}
NESTED: Final = {
    "parts ARRAY<INT>": "array(1, 2)",
    "pair STRUCT<a: INT, b: STRING>": "named_struct('a', 1, 'b', 'x')",
    "at TIMESTAMP": "TIMESTAMP'2024-01-01 10:00:00'",
}
Rows = list[tuple[Any, ...]]


@pytest.fixture
def orders(spark: SparkSession, lakehouse_database: str) -> str:
    """A table with rows of before its columns were added; two of these have another default since."""
    table, writer = f"{lakehouse_database}.orders", TableWriter(spark)
    spark.sql(f"CREATE TABLE {table} (id INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    for number in (1, 2):
        writer.append(frame(spark, number), table, carry="in_place")
    columns = (f"{column} DEFAULT {default}" for column, default in (DEFAULTS | NESTED).items())
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS ({', '.join(columns)})")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN status SET DEFAULT 'closed'")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN n SET DEFAULT 7")
    return table


def frame(spark: SparkSession, number: int, dt: str = "d1") -> DataFrame:
    return spark.createDataFrame([(number, dt)], "id INT, dt STRING")


def rows(df: DataFrame) -> Rows:
    return sorted((tuple(row) for row in df.collect()), key=str)


def queried(spark: SparkSession, table: str) -> Rows:
    spark.catalog.refreshTable(table)
    return rows(spark.table(table))


@pytest.mark.slow
@pytest.mark.connect
def test_a_column_that_a_write_lacks_gets_what_insert_by_name_gives_it(spark: SparkSession, orders: str) -> None:
    writer = TableWriter(spark)
    before = queried(spark, orders)
    writer.overwrite_partitions(frame(spark, 9, "overwritten"), orders, schema="allow_missing")
    writer.append(frame(spark, 9, "appended"), orders, schema="allow_missing")
    writer.append(frame(spark, 8), orders, schema="allow_missing")  # beside files that lack the columns
    spark.sql(f"INSERT INTO {orders} BY NAME SELECT 9 AS id, 'inserted' AS dt")
    after = queried(spark, orders)
    overwritten, appended, inserted = (
        [row[1:-1] for row in after if row[-1] == dt] for dt in ("overwritten", "appended", "inserted")
    )
    assert overwritten == appended == inserted == [row[1:-1] for row in after if row[0] == 8]
    assert inserted[0][:2] == ("closed", 7)
    assert [row for row in after if row[0] in {1, 2}] == before
    assert before[0][1:3] == ("open", 5)


@pytest.mark.slow
@pytest.mark.connect
def test_older_files_are_read_and_compacted_with_the_default_of_then(spark: SparkSession, orders: str) -> None:
    writer = TableWriter(spark)
    before = queried(spark, orders)
    assert rows(writer.read(orders, version=2)) == before
    assert writer.compact(orders, min_files=2).partitions
    assert queried(spark, orders) == before, "what was read is in the files now"


@pytest.mark.slow
def test_a_file_that_lacks_the_column_is_read_without_spark_as_spark_reads_it(spark: SparkSession, orders: str) -> None:
    writer = TableWriter(spark)
    name = writer._services.table_name(orders)
    with pytest.raises(InvalidInputError, match=r"before column (parts|pair|at) was added.*Read the table with Spark"):
        open_dataset(writer._services, name)
    simple = f"{orders}_simple"
    spark.sql(f"CREATE TABLE {simple} (id INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    writer.append(frame(spark, 1), simple)
    columns = ", ".join(f"{column} DEFAULT {default}" for column, default in DEFAULTS.items())
    spark.sql(f"ALTER TABLE {simple} ADD COLUMNS ({columns})")
    writer.append(frame(spark, 2), simple, schema="allow_missing", carry="in_place")
    dataset = open_dataset(writer._services, writer._services.table_name(simple))
    found = sorted((tuple(row.values()) for row in dataset.to_table().to_pylist()), key=str)
    assert found == queried(spark, simple)
    assert dataset.filter(pc.field("status") == "open").count_rows() == 2


@pytest.mark.parametrize(
    ("sql", "kind", "value"),
    [
        ("'open'", pa.string(), "open"),
        (r"'it\'s \\ \"b\"'", pa.string(), 'it\'s \\ "b"'),
        ("5L", pa.int64(), 5),
        ("-3Y", pa.int8(), -3),
        ("1.50BD", pa.decimal128(10, 2), Decimal("1.50")),
        ("1.5D", pa.float64(), 1.5),
        ("CAST('1.5' AS FLOAT)", pa.float32(), 1.5),
        ("1.0E10D", pa.float64(), 1e10),
        ("true", pa.bool_(), True),
        ("DATE '2024-01-01'", pa.date32(), date(2024, 1, 1)),
        ("TIMESTAMP_NTZ '2024-01-01 10:00:00'", pa.timestamp("us"), datetime.fromisoformat("2024-01-01 10:00:00")),
        ("X'0102'", pa.binary(), b"\1\2"),
        ("CAST(NULL AS DECIMAL(10,2))", pa.decimal128(10, 2), None),
        ("NULL", pa.int32(), None),
    ],
)
def test_literals_of_spark_are_read_as_values(sql: str, kind: Any, value: Any) -> None:
    assert Default(sql).value(kind) == (None if value is None else pa.scalar(value, kind))


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("ARRAY(1, 2)", pa.list_(pa.int32())),
        ("TIMESTAMP '2024-01-01 10:00:00'", pa.timestamp("us", tz="UTC")),
        ("CAST('NaN' AS DOUBLE)", pa.float64()),
        ("current_date()", pa.date32()),
    ],
)
def test_what_means_another_value_elsewhere_is_spark_s_to_read(sql: str, kind: Any) -> None:
    with pytest.raises(ValueError, match="only Spark can tell"):
        Default(sql).value(kind)


def test_not_null_needs_a_value_or_a_default_and_a_partition_is_never_guessed(
    spark: SparkSession, lakehouse_database: str
) -> None:
    writer, table = TableWriter(spark), f"{lakehouse_database}.strict"
    ddl = "(id INT, status STRING NOT NULL DEFAULT 'open', dt STRING DEFAULT 'd0') USING parquet PARTITIONED BY (dt)"
    spark.sql(f"CREATE TABLE {table} {ddl}")
    with pytest.raises(SchemaMismatchError, match="missing in the DataFrame: 'status'"):
        writer.append(frame(spark, 1), table)
    writer.append(frame(spark, 1), table, schema="allow_missing")
    assert queried(spark, table) == [(1, "open", "d1")]
    with pytest.raises(SchemaMismatchError, match=r"partition or NOT NULL columns.*'dt'"):
        writer.append(frame(spark, 1).drop("dt"), table, schema="allow_missing")
    assert writer.plan(frame(spark, 2), table, schema="allow_missing").schema.default_columns == ("status: 'open'",)
