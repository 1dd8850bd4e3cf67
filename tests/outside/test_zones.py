"""Sessions in each time zone that Java knows.

A Spark job runs with ``spark.sql.session.timeZone=GMT+8``, or ``CST``, ``Z``, ``UTC+08:00``. Arrow and Python look
zones up in a database that has none of these names (apache/spark#58765 names ``UTC+01:00``), and a write of timestamps
failed in its tasks. No file names the zone: moments are UTC before Arrow computes with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer import TableWriter, TableWriterConfig, read_arrow
from table_writer.check import in_range
from table_writer.jobs.upload.parquet import file_schema, with_schema
from table_writer.model.partition_value import java_zone
from table_writer.model.upload_spec import TIMESTAMP_TYPES, ParquetOptions
from table_writer.testing import Lakehouse
from tests.cells import first_fast

pytestmark = pytest.mark.connect
SETTING = "spark.sql.session.timeZone"
KIND = "spark.sql.parquet.outputTimestampType"
ODD = ("GMT+8", "UTC+08:00", "UT+1", "CST", "PST", "EST", "Z", "+8", "+08:00:30", "-03:30", "Etc/GMT-14", "JST", "GMT0")
DAYS = (6_000, 11_000, 15_000, 20_000, 20_180)  # since 1970; of the time before, Java and Python have different books
NOW = datetime(2024, 5, 6, 7, 8, 9, 123_000, tzinfo=UTC)
MICROS = 1_714_979_289_123_000  # of the same moment, since 1970


@pytest.fixture
def spark(lakehouse: Lakehouse) -> Iterator[SparkSession]:
    """A session whose zone a test may change."""
    before = {name: str(lakehouse.spark.conf.get(name)) for name in (SETTING, KIND)}
    yield lakehouse.spark
    for name, value in before.items():
        lakehouse.spark.conf.set(name, value)


def java_names(spark: Any) -> list[str]:
    """Return what ``java.time`` calls zones, short ids too, where the session shows its Java."""
    if not hasattr(spark, "_jsparkSession"):
        return list(ODD)
    zones = spark.sparkContext._jvm.java.time.ZoneId
    return sorted({*map(str, zones.getAvailableZoneIds()), *map(str, zones.SHORT_IDS), *ODD})


def test_python_is_as_far_ahead_of_utc_as_java_in_every_zone_that_java_knows(spark: SparkSession) -> None:
    spark.conf.set(SETTING, "UTC")
    zones = spark.createDataFrame([(name,) for name in java_names(spark)], "zone string").coalesce(1)
    moments = F.explode(F.array(*(F.lit(day * 86_400).cast("long") for day in DAYS)))
    seconds = F.col("seconds")
    ahead = F.unix_seconds(F.from_utc_timestamp(F.timestamp_seconds(seconds), F.col("zone"))) - seconds
    unknown, other = set(), []
    for name, since_1970, java in zones.select("zone", moments.alias("seconds")).select("*", ahead).collect():
        zone = java_zone(name)
        if zone is None:
            unknown.add(name.partition("/")[0])
        elif datetime.fromtimestamp(since_1970, tz=zone).utcoffset() != timedelta(seconds=java):
            other.append((name, since_1970, java))
    assert other == []
    assert unknown <= {"SystemV"}  # Java's own, with rules of 1976; a partition value that needs one is refused by name


@pytest.mark.parametrize("zone", ODD)
@pytest.mark.parametrize("kind", TIMESTAMP_TYPES)
def test_arrow_computes_in_utc_whatever_the_zone(zone: str, kind: str) -> None:
    moment = pa.array([MICROS + 456], pa.timestamp("us", tz=zone))
    rows = pa.table({"moment": moment, "inside": pa.array([[MICROS + 456]], pa.list_(moment.type))})
    written = with_schema(rows, file_schema(rows.schema, ParquetOptions(timestamp_type=kind)))
    assert {str(column.type.value_type if column.type.num_fields else column.type) for column in written.columns} <= {
        *("timestamp[us, tz=UTC]", "timestamp[ms, tz=UTC]")
    }
    micros = written["moment"].cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
    assert micros == [MICROS if kind == "TIMESTAMP_MILLIS" else MICROS + 456]


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind_and_zone", first_fast([("TIMESTAMP_MILLIS", "GMT+8"), ("INT96", "CST"), ("TIMESTAMP_MICROS", "+08:00:30")])
)
def test_moments_are_what_they_were_in_every_zone(
    lakehouse: Lakehouse, spark: SparkSession, lakehouse_database: str, kind_and_zone: tuple[str, str]
) -> None:
    kind, zone = kind_and_zone
    table = f"{lakehouse_database}.moments"
    columns = "moment TIMESTAMP, inside STRUCT<all: ARRAY<TIMESTAMP>>, day TIMESTAMP"
    spark.sql(f"CREATE TABLE {table} ({columns}) USING parquet PARTITIONED BY (day)")
    spark.conf.set(KIND, kind)
    spark.conf.set(SETTING, zone)
    moment = F.timestamp_micros(F.lit(MICROS))
    day = F.lit("2024-05-06 00:00:00").cast("timestamp")
    inside = F.struct(F.array(moment).alias("all"))
    rows = spark.range(1).select(moment.alias("moment"), inside.alias("inside"), day.alias("day"))
    checks = [in_range("moment", min=NOW - timedelta(hours=1), max=NOW + timedelta(hours=1))]
    result = TableWriter(spark).append(rows, table, checks=checks)
    assert [partition.name for partition in result.partitions] == ["day=2024-05-06 00%3A00%3A00"]
    assert spark.table(table).select(F.unix_micros("day")).collect() == rows.select(F.unix_micros("day")).collect()
    read = spark.table(table).select(F.unix_micros("moment"), F.unix_micros(F.col("inside.all")[0]))
    assert [tuple(row) for row in read.collect()] == [(MICROS, MICROS)]
    config = TableWriterConfig(hadoop=lakehouse.s3_server.hadoop_settings())
    dataset = read_arrow(table, metastore_uri=lakehouse.metastore_uri, config=config)
    assert dataset.to_table()["moment"].to_pylist() == [NOW]
