"""Partition values are spelled exactly as Spark's own writer spells them, whatever they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from table_writer import TableWriter

ODD = [
    "a b",
    "a/b",
    "a=b",
    "50%",
    "%41",
    "x:y",
    "ü–日本",
    "'quoted\"",
    "a\\b",
    "{[^]}",
    "tab\there",
    "#?*",
    " x ",
    "ÅÄÖ",
    "A",
    "a",
]
VALUES: dict[str, tuple[str, list[str]]] = {
    "strings": ("STRING", ODD),
    "dates": ("DATE", ["2024-01-01", "0001-01-01", "1582-10-04", "9999-12-31"]),
    "timestamps": ("TIMESTAMP", ["2024-01-01 00:00:00", "2024-06-30 23:59:59.5", "1883-01-01 12:00:00.000001"]),
    "local timestamps": ("TIMESTAMP_NTZ", ["2024-01-01 00:00:00", "2024-06-30 23:59:59.123456"]),
    "integers": ("INT", ["0", "-7", "2147483647", "-2147483648"]),
    "bytes": ("TINYINT", ["-128", "127"]),
    "longs": ("BIGINT", ["-9223372036854775808", "42"]),
    "decimals": ("DECIMAL(12,3)", ["1.500", "-0.001", "0"]),
    "doubles": ("DOUBLE", ["1.5", "-0.0", "1e20", "NaN"]),
    "booleans": ("BOOLEAN", ["true", "false"]),
    "padded": ("CHAR(4)", ["ab", "abcd"]),
    "limited": ("VARCHAR(4)", ["ab", "abcd"]),
    "zero-padded strings": ("STRING", ["007", "07", "7", "-07"]),
}
FAST = {"strings", "dates"}


@pytest.mark.connect
@pytest.mark.parametrize(
    ("case", "zone"),
    [
        *(pytest.param(case, "UTC", marks=[] if case in FAST else [pytest.mark.slow]) for case in VALUES),
        ("timestamps", "America/New_York"),
    ],
)
def test_partitions_have_the_names_and_rows_that_sparks_own_writer_gives_them(
    case: str, zone: str, spark: SparkSession, writer: TableWriter, make_table: Callable[..., str]
) -> None:
    kind, values = VALUES[case]
    spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        source = "STRING" if kind.startswith(("CHAR", "VARCHAR")) else kind
        texts = spark.createDataFrame([(n, value) for n, value in enumerate([*values, None])], "id INT, text STRING")
        df = texts.select("id", F.col("text").cast(source).alias("p"))
        ddl = f"CREATE TABLE {{name}} (id INT, p {kind}) USING parquet PARTITIONED BY (p)"
        theirs, ours = make_table(ddl, "theirs"), make_table(ddl, "ours")
        df.write.insertInto(theirs, overwrite=True)
        writer.overwrite_partitions(df, ours)
        assert partitions(spark, ours) == partitions(spark, theirs)
        assert rows(spark, ours) == rows(spark, theirs)
        writer.overwrite_partitions(df.withColumn("id", F.col("id") + 100), ours)
        assert partitions(spark, ours) == partitions(spark, theirs), "replaced, none added"
        assert {number - 100 for number, _ in rows(spark, ours)} == {number for number, _ in rows(spark, theirs)}
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")


def partitions(spark: SparkSession, table: str) -> list[str]:
    return sorted(row[0] for row in spark.sql(f"SHOW PARTITIONS {table}").collect())


def rows(spark: SparkSession, table: str) -> set[tuple[Any, ...]]:
    return {(row.id, str(row.p)) for row in spark.table(table).collect()}


@pytest.mark.connect
def test_an_empty_string_is_the_null_partition_as_in_spark(
    spark: SparkSession, writer: TableWriter, make_table: Callable[..., str]
) -> None:
    table = make_table("CREATE TABLE {name} (id INT, p STRING) USING parquet PARTITIONED BY (p)")
    result = writer.overwrite_partitions(spark.createDataFrame([(1, ""), (2, None)], "id INT, p STRING"), table)
    assert [partition.name for partition in result.partitions] == ["p=__HIVE_DEFAULT_PARTITION__"]
    assert rows(spark, table) == {(1, "None"), (2, "None")}
