"""Tables that Hive's own reader reads: Hive itself, and Spark with ``spark.sql.hive.convertMetastoreParquet=false``.

It takes decimals from fixed-length bytes alone, and failed on the integers that Spark writes from 1.5 on
(apache/gluten#12213, apache/iceberg#7706). A table that was made with ``STORED AS PARQUET`` gets bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from table_writer import TableWriter

CONVERTS = "spark.sql.hive.convertMetastoreParquet"
LEGACY = "spark.sql.parquet.writeLegacyFormat"
COLUMNS = (
    "small DECIMAL(7,2), price DECIMAL(10,2), longest DECIMAL(18,0), large DECIMAL(38,10), at TIMESTAMP, day DATE,"
    " prices ARRAY<DECIMAL(10,2)>, by_name MAP<STRING, DECIMAL(10,2)>,"
    " inside STRUCT<price: DECIMAL(9,2), at: TIMESTAMP>"
)
VALUES = (
    "-12345.67BD small, 12345678.90BD price, -999999999999999999BD longest, 1.5BD large,"
    " TIMESTAMP '2024-05-06 07:08:09' at, DATE '2024-05-06' day, array(1.5BD, null) prices, map('a', -2.25BD) by_name,"
    " named_struct('price', 3.75BD, 'at', TIMESTAMP '2001-02-03 04:05:06') inside"
)


@pytest.fixture
def unconverted(spark: SparkSession) -> Iterator[SparkSession]:
    """A session that reads Hive's Parquet tables by Hive's own reader."""
    yield spark
    spark.conf.unset(CONVERTS)
    spark.conf.unset(LEGACY)


@pytest.mark.slow
@pytest.mark.parametrize("asks", ["a table of Hive's", "a session that asks for it"])
def test_hives_own_reader_finds_what_sparks_finds(
    unconverted: SparkSession, lakehouse_database: str, asks: str
) -> None:
    spark, table = unconverted, f"{lakehouse_database}.prices"
    of_hive = asks == "a table of Hive's"
    spark.sql(f"CREATE TABLE {table} ({COLUMNS}) {'STORED AS PARQUET' if of_hive else 'USING parquet'}")
    if not of_hive:
        spark.conf.set(LEGACY, "true")
    rows = spark.sql(f"SELECT {VALUES} UNION ALL SELECT {', '.join(['null'] * 9)}")
    assert TableWriter(spark).append(rows, table).notes == ()
    texts = [f"CAST({name} AS STRING)" for name in rows.columns]
    expected = sorted(map(str, spark.table(table).selectExpr(*texts).collect()))
    assert "12345678.90" in str(expected)
    if not of_hive:
        location = next(row[1] for row in spark.sql(f"DESCRIBE FORMATTED {table}").collect() if row[0] == "Location")
        table = f"{lakehouse_database}.same_files"
        spark.sql(f"CREATE EXTERNAL TABLE {table} ({COLUMNS}) STORED AS PARQUET LOCATION '{location}'")
    spark.conf.set(CONVERTS, "false")
    assert sorted(map(str, spark.table(table).selectExpr(*texts).collect())) == expected
