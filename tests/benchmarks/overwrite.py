"""Overwrite 30 partitions: Spark's dynamic overwrite and ours, in one session, on one S3 server, in turns.

Run: ``python tests/benchmarks/overwrite.py [--rows 4000000] [--runs 3] [--server versitygw|moto]``.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark documents it

from table_writer import TableWriter, WriteResult
from table_writer.testing import Lakehouse, lakehouse

PARTITIONS = 30
TASKS = 8
STATES = ["new", "paid", "packed", "sent", "returned"]
STATEMENT = """
CREATE TABLE {table} (id BIGINT, customer_id INT, amount DECIMAL(10,2), price DOUBLE, status STRING, comment STRING,
  created_at TIMESTAMP, quantity INT, dt DATE) USING parquet PARTITIONED BY (dt) LOCATION '{location}'
"""


def orders(spark: SparkSession, row_count: int) -> DataFrame:
    """Rows that depend on their number only: random partitions, some columns that repeat and some that do not."""
    number = F.xxhash64("id")

    def below(limit: int, salt: int) -> F.Column:
        return F.pmod(F.shiftright(number, salt), F.lit(limit))

    return spark.range(0, row_count, 1, TASKS).select(
        "id",
        below(1_000_000, 3).cast("int").alias("customer_id"),
        (below(10_000_000, 5) / 100).cast("decimal(10,2)").alias("amount"),
        (below(1 << 30, 7) / 7.0).alias("price"),
        F.element_at(F.array(*map(F.lit, STATES)), (below(5, 11) + 1).cast("int")).alias("status"),
        F.concat(F.lit("order "), F.hex(below(1 << 24, 13))).alias("comment"),
        F.timestamp_seconds(F.lit(1_700_000_000) + below(86_400 * 365, 17)).alias("created_at"),
        below(100, 19).cast("int").alias("quantity"),
        F.date_add(F.to_date(F.lit("2024-01-01")), below(PARTITIONS, 23).cast("int")).alias("dt"),
    )


class OverwriteWithSpark:
    """``INSERT OVERWRITE`` in dynamic mode, with the faster of Hadoop's two file committers."""

    name = "Spark, dynamic overwrite"

    def __init__(self, lake: Lakehouse) -> None:
        self._lake = lake
        self.location = f"{lake.warehouse}/by_spark"
        lake.spark.sql(STATEMENT.format(table="by_spark", location=self.location))

    def __call__(self, rows: DataFrame) -> None:
        rows.write.insertInto("by_spark", overwrite=True)


class OverwriteWithTableWriter:
    """All of a write, metastore and log included."""

    name = "table_writer"

    def __init__(self, lake: Lakehouse) -> None:
        self._root = f"{lake.warehouse}/by_table_writer"
        lake.spark.sql(STATEMENT.format(table="by_table_writer", location=self._root))
        self._writer = TableWriter(lake.spark)
        self.result: WriteResult | None = None

    @property
    def location(self) -> str:
        assert self.result is not None
        return f"{self._root}/_table_writer/data/{self.result.write_id}"

    def __call__(self, rows: DataFrame) -> None:
        self.result = self._writer.overwrite_partitions(rows, "by_table_writer")


def seconds(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def stored(lake: Lakehouse, location: str) -> tuple[int, int]:
    """Bytes and files below a location."""
    prefix = location.split("/", 3)[3] + "/"
    pages = lake.s3.get_paginator("list_objects_v2").paginate(Bucket=lake.bucket, Prefix=prefix)
    sizes = [entry["Size"] for page in pages for entry in page.get("Contents", []) if entry["Key"].endswith(".parquet")]
    return sum(sizes), len(sizes)


def main() -> None:
    versitygw = shutil.which("versitygw") or shutil.which("versitygw", path=Path("~/go/bin").expanduser())
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--server", choices=["versitygw", "moto"], default="versitygw" if versitygw else "moto")
    parser.add_argument("--conf", action="append", default=[], help="a Spark setting, name=value")
    chosen = parser.parse_args()
    settings = {
        "spark.driver.memory": "4g",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
        **dict(entry.split("=", 1) for entry in chosen.conf),
    }
    with lakehouse(s3_server=chosen.server, spark_conf=settings) as lake:
        rows = orders(lake.spark, chosen.rows)
        ours = OverwriteWithTableWriter(lake)
        sides = [OverwriteWithSpark(lake), ours]
        for side in sides:  # the first write makes the partitions and warms both up; not counted
            side(rows)
        times: dict[str, list[float]] = {side.name: [] for side in sides}
        scans = []
        for _ in range(chosen.runs):
            scans.append(seconds(lambda: rows.write.format("noop").mode("overwrite").save()))
            for side in sides:
                times[side.name].append(seconds(lambda side=side: side(rows)))
        best = {name: min(values) for name, values in times.items()}
        shape = f"{chosen.rows:,} rows, {len(rows.columns)} columns, {PARTITIONS} partitions, {TASKS} tasks"
        print(f"{shape}, {chosen.server}")
        print(f"{'overwrite':28}{'seconds':>9}{'times':>7}{'MB':>8}{'files':>7}   all runs")
        print(f"{'(making the rows)':28}{min(scans):9.2f}")
        for side in sides:
            size_bytes, file_count = stored(lake, side.location)
            runs = " ".join(f"{value:.2f}" for value in times[side.name])
            ratio = best[sides[0].name] / best[side.name]
            print(f"{side.name:28}{best[side.name]:9.2f}{ratio:7.2f}{size_bytes / 1e6:8.1f}{file_count:7}   {runs}")
        assert ours.result is not None
        requests, calls = ours.result.storage_requests, ours.result.metastore_calls
        print(f"table_writer, a run: {sum(requests.values())} storage requests {dict(requests)}")
        print(f"                     {sum(calls.values())} metastore calls {dict(calls)}")
        print(f"                     {', '.join(f'{step} {took:.2f} s' for step, took in ours.result.seconds.items())}")


if __name__ == "__main__":
    main()
