"""Sessions in each time zone that Java knows.

A Spark job runs with ``spark.sql.session.timeZone=GMT+8``, or ``CST``, ``Z``, ``UTC+08:00``. Arrow and Python look zones up in
a database that has none of these names, and a write of timestamps failed in its tasks (apache/spark#28856,
apache/arrow#35600, SPARK-40770). No file names the zone: moments are UTC before Arrow computes with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer import TableWriter, TableWriterConfig, read_arrow
from table_writer.check import in_range
from table_writer.model.partition_value import java_zone
from table_writer.testing import Lakehouse

pytestmark = pytest.mark.connect
SETTING = "spark.sql.session.timeZone"
KIND = "spark.sql.parquet.outputTimestampType"
ODD = ("GMT+8", "UTC+08:00", "UT+1", "CST", "PST", "EST", "Z", "+8", "+08:00:30", "-03:30", "Etc/GMT-14", "JST", "GMT0")
DAYS = (-40_000, -15_000, -3_650, -1, 0, 6_000, 11_000, 15_000, 20_000, 20_180)  # from 1970 on
NOW = datetime(2024, 5, 6, 7, 8, 9, 123_000, tzinfo=UTC)
MICROS = 1_714_979_289_123_000  # of the same moment, since 1970


@pytest.fixture
def spark(lakehouse: Lakehouse) -> Iterator[SparkSession]:
    """A session whose zone a test may change."""
    before = {name: lakehouse.spark.conf.get(name) for name in (SETTING, KIND)}
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
    names = java_names(spark)
    spark.conf.set(SETTING, "UTC")
    zones = spark.createDataFrame([(name,) for name in names], "zone string")
    days = spark.createDataFrame([(day,) for day in DAYS], "day int")
    moment = F.timestamp_seconds(F.col("day").cast("long") * 86_400 + 3_600)
    ahead = F.unix_seconds(F.from_utc_timestamp(moment, F.col("zone"))) - F.unix_seconds(moment)
    other = {}
    for row in zones.crossJoin(days).select("zone", "day", ahead.alias("ahead")).collect():
        zone = java_zone(row["zone"])
        at = datetime(1970, 1, 1, 1, tzinfo=UTC) + timedelta(days=row["day"])
        here = None if zone is None else int(at.astimezone(zone).utcoffset().total_seconds())  # type: ignore[union-attr]
        if here != row["ahead"]:
            other[row["zone"], row["day"]] = (here, row["ahead"])
    assert other == {}


@pytest.mark.parametrize("kind", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
def test_moments_are_what_they_were_in_every_zone(
    lakehouse: Lakehouse, spark: SparkSession, lakehouse_database: str, kind: str
) -> None:
    table = f"{lakehouse_database}.moments"
    columns = "moment TIMESTAMP, inside STRUCT<all: ARRAY<TIMESTAMP>>, zone STRING, day TIMESTAMP"
    spark.sql(f"CREATE TABLE {table} ({columns}) USING parquet PARTITIONED BY (zone, day)")
    spark.conf.set(KIND, kind)
    writer = TableWriter(spark)
    zones = ODD if kind == "TIMESTAMP_MILLIS" else ODD[:2]
    for zone in zones:
        spark.conf.set(SETTING, zone)
        moment = F.timestamp_micros(F.lit(MICROS))
        day = F.lit("2024-05-06 00:00:00").cast("timestamp")
        rows = spark.range(1).select(
            *(moment.alias("moment"), F.struct(F.array(moment).alias("all")).alias("inside")),
            *(F.lit(zone).alias("zone"), day.alias("day")),
        )
        checks = [in_range("moment", low=NOW - timedelta(hours=1), high=NOW + timedelta(hours=1))]
        assert writer.append(rows, table, checks=checks).rows == 1
        assert spark.table(table).where(F.col("zone") == zone).select("day").distinct().collect() == [
            tuple(rows.select("day").collect()[0])
        ]
    spark.conf.set(SETTING, "UTC")
    read = spark.table(table).select(F.unix_micros("moment"), F.unix_micros(F.col("inside.all")[0]))
    assert [tuple(row) for row in read.collect()] == [(MICROS, MICROS)] * len(zones)
    config = TableWriterConfig(hadoop=lakehouse.s3_server.hadoop_settings())
    dataset = read_arrow(table, metastore_uri=lakehouse.metastore_uri, config=config)
    assert dataset.to_table()["moment"].unique().to_pylist() == [NOW]
