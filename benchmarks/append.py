"""Append to ONE partition of many files: our two ways, Spark's INSERT, and the detour that gives atomicity without us.

Each side has a table of its own with the same files, and gets the same rows, in turns, in one session and on one S3
server. The detour reads the partition back, adds the new rows and overwrites the partition with both.

Run: ``python -m benchmarks.append [--files 1000] [--old-rows 4000000] [--new-rows 20000] [--runs 3]``.
"""

from __future__ import annotations

import argparse
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark documents it

from table_writer import Maintenance, TableWriter, TableWriterConfig
from table_writer.model.location import Location
from table_writer.testing import Lakehouse, lakehouse

PARTITION = "2024-01-01"
STATEMENT = """
CREATE TABLE {table} (id BIGINT, amount DOUBLE, comment STRING, dt STRING) USING parquet PARTITIONED BY (dt)
  LOCATION '{location}'
"""
REQUEST = re.compile(r" s3_(\w+) |(GET|HEAD|PUT|POST|DELETE) /\S* HTTP/")  # versitygw's log, or moto's
NEW_TASKS = 2


def orders(spark: SparkSession, row_count: int, tasks: int, first: int = 0) -> DataFrame:
    """Rows that depend on their number only, all of one partition."""
    number = F.xxhash64("id")
    return spark.range(first, first + row_count, 1, tasks).select(
        "id",
        (F.pmod(number, F.lit(1 << 30)) / 7.0).alias("amount"),
        F.concat(F.lit("order "), F.hex(number)).alias("comment"),
        F.lit(PARTITION).alias("dt"),
    )


@dataclass
class Side:
    """One way to append, with a table of its own and what it has taken."""

    name: str
    table: str
    append: Callable[[DataFrame, str], object]
    seconds: list[float] = field(default_factory=list)
    requests: Counter[str] = field(default_factory=Counter)
    written_bytes: int = 0
    steps: Mapping[str, float] = field(default_factory=dict)


class ServerLog:
    """What the S3 server was asked for since the last look, by kind."""

    def __init__(self, lake: Lakehouse) -> None:
        process = lake.s3_server._process
        assert process is not None
        self._directory = process.log_path.parent
        self._seen: dict[Path, int] = {}
        self.news()

    def news(self) -> Counter[str]:
        """Return the requests that came since the last call."""
        found: Counter[str] = Counter()
        for path in self._directory.glob("*.log"):
            with path.open("rb") as file:
                file.seek(self._seen.get(path, 0))
                new = file.read().decode(errors="replace")
                self._seen[path] = file.tell()
            found.update(operation or method for operation, method in REQUEST.findall(new))
        return found


class SparkBytes:
    """Bytes that Spark's own S3 client has sent from this process; what it reads, Hadoop does not count."""

    def __init__(self, spark: SparkSession) -> None:
        self._java = spark.sparkContext._jvm

    def sent(self) -> int:
        """Return them since the start."""
        assert self._java is not None
        statistics = self._java.org.apache.hadoop.fs.FileSystem.getAllStatistics()
        return sum(one.getBytesWritten() for one in statistics if one.getScheme() == "s3a")


def insert(rows: DataFrame, table: str) -> None:
    """Spark's own way: files come one by one, and readers see them one by one."""
    rows.write.insertInto(table)


def in_place(writer: TableWriter) -> Callable[[DataFrame, str], object]:
    """Our way that copies nothing of what is there."""
    return lambda rows, table: writer.append(rows, table, carry="in_place")


def make_sides(lake: Lakehouse) -> list[Side]:
    """Return the four ways, ours last."""
    writer = TableWriter(lake.spark)

    def rewrite(rows: DataFrame, table: str) -> object:
        old = lake.spark.table(table).where(F.col("dt") == PARTITION)
        return writer.overwrite_partitions(old.unionByName(rows), table)

    sides = [
        Side("Spark's INSERT INTO", "by_insert", insert),
        Side("read back and overwrite", "by_rewrite", rewrite),
        Side("append", "by_append", lambda rows, table: writer.append(rows, table, max_copied_bytes=None)),
        Side("append in place", "in_place", in_place(writer)),
    ]
    for side in sides:
        lake.spark.sql(STATEMENT.format(table=side.table, location=f"{lake.warehouse}/{side.table}"))
    return sides


def fill(lake: Lakehouse, sides: list[Side], files: int, row_count: int) -> tuple[int, int]:
    """Give each table the same files in one partition: written once, copied inside the store."""
    first, *others = sides
    orders(lake.spark, row_count, files).write.insertInto(first.table)
    prefix = Location.parse(f"{lake.warehouse}/{first.table}/dt={PARTITION}").key
    pages = lake.s3.get_paginator("list_objects_v2").paginate(Bucket=lake.bucket, Prefix=prefix)
    found = [item for page in pages for item in page.get("Contents", []) if item["Key"].endswith(".parquet")]
    for side in others:
        for item in found:
            key = item["Key"].replace(f"/{first.table}/", f"/{side.table}/")
            lake.s3.copy_object(Bucket=lake.bucket, Key=key, CopySource={"Bucket": lake.bucket, "Key": item["Key"]})
        lake.spark.sql(f"ALTER TABLE {side.table} ADD PARTITION (dt='{PARTITION}')")
    return len(found), sum(item["Size"] for item in found)


def measure(lake: Lakehouse, side: Side, rows: DataFrame, log: ServerLog, counted: SparkBytes) -> None:
    """Run one append, and count what it took."""
    log.news()
    sent = counted.sent()
    started = time.monotonic()
    result = side.append(rows, side.table)
    side.seconds.append(time.monotonic() - started)
    side.requests = log.news()
    side.written_bytes = counted.sent() - sent + getattr(result, "bytes", 0)
    side.steps = getattr(result, "seconds", {})


def main() -> None:
    versitygw = shutil.which("versitygw") or shutil.which("versitygw", path=Path("~/go/bin").expanduser())
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--old-rows", type=int, default=4_000_000)
    parser.add_argument("--new-rows", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--server", choices=["versitygw", "moto"], default="versitygw" if versitygw else "moto")
    chosen = parser.parse_args()
    settings = {"spark.driver.memory": "2g", "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2"}
    with lakehouse(s3_server=chosen.server, spark_conf=settings) as lake:
        sides = make_sides(lake)
        files, size_bytes = fill(lake, sides, chosen.files, chosen.old_rows)
        keeper = Maintenance(lake.metastore_uri, config=TableWriterConfig(hadoop=lake.s3_server.hadoop_settings()))
        log, counted = ServerLog(lake), SparkBytes(lake.spark)
        warm = orders(lake.spark, 100, NEW_TASKS).withColumn("dt", F.lit("warm"))
        for side in sides:
            side.append(warm, side.table)  # another partition: warms both up, not counted
        for run in range(chosen.runs):
            rows = orders(lake.spark, chosen.new_rows, NEW_TASKS, chosen.old_rows + run * chosen.new_rows)
            for side in sides:
                measure(lake, side, rows, log, counted)
            for side in sides[1:]:
                keeper.vacuum(side.table, older_than=timedelta(0), force=True)  # or the disk would fill
        wanted = chosen.old_rows + chosen.runs * chosen.new_rows
        for side in sides:
            count = lake.spark.table(side.table).where(F.col("dt") == PARTITION).count()
            assert count == wanted, f"{side.name}: {count} rows instead of {wanted}"
        print(
            f"{chosen.new_rows:,} rows ({NEW_TASKS} files) appended to one partition of {files:,} files,"
            f" {size_bytes / 1e6:,.0f} MB, {chosen.server}; the best of {chosen.runs} runs, requests of the last"
        )
        print(f"{'':26}{'seconds':>9}{'ratio':>7}{'MB sent':>9}   all runs")
        ours = min(sides[-1].seconds)
        for side in sides:
            runs = " ".join(f"{value:.2f}" for value in side.seconds)
            print(
                f"{side.name:26}{min(side.seconds):9.2f}{min(side.seconds) / ours:7.2f}"
                f"{side.written_bytes / 1e6:9.1f}   {runs}"
            )
        for side in sides:
            kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(side.requests.items()) if count)
            steps = ", ".join(f"{step} {took:.2f} s" for step, took in side.steps.items())
            print(f"{side.name:26}{sum(side.requests.values()):,} requests: {kinds}{'; ' * bool(steps)}{steps}")


if __name__ == "__main__":
    main()
