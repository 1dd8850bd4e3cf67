"""Overwrite 100 ORC files through Spark's own writer: with and without the jar of the magic committer, and by INSERT.

Each side has a table of its own with the same rows in the same tasks, in one session and on one S3 server behind the
counting proxy. The session commits as Spark does by default; a side that says *magic* has that committer for itself.

Run: ``python -m benchmarks.formats [--rows 2000000] [--runs 3]``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark documents it

from benchmarks.servers import COUNTED_BUCKET, CountingProxy, best_server
from table_writer import TableWriter, TableWriterConfig
from table_writer.spark.files import MAGIC, for_magic
from table_writer.testing import Lakehouse, lakehouse
from table_writer.testing.processes import ScratchDirectory

TASKS: Final = 10
PARTITIONS: Final = 10
KINDS: Final = ("PutObject", "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "CopyObject")
Overwrite = Callable[[DataFrame, str], object]


@dataclass
class Side:
    """One way to overwrite, and what the runs took."""

    name: str
    overwrite: Overwrite
    seconds: list[float] = field(default_factory=list)
    traffic: dict[str, Any] = field(default_factory=dict)  # of the last run


def orders(spark: SparkSession, row_count: int) -> DataFrame:
    """Rows that depend on their number only; every task has rows of every partition."""
    number = F.xxhash64("id")
    return spark.range(0, row_count, 1, TASKS).select(
        "id",
        (F.pmod(number, F.lit(1 << 30)) / 7.0).alias("amount"),
        F.concat(F.lit("order "), F.hex(number)).alias("comment"),
        F.concat(F.lit("d"), F.pmod("id", F.lit(PARTITIONS))).alias("dt"),
    )


def insert_with(settings: dict[str, str], row_count: int, *, magic: bool = False) -> Overwrite:
    """Return Spark's INSERT OVERWRITE, in a session of its own with these settings."""

    def insert(rows: DataFrame, table: str) -> None:
        spark = for_magic(rows.sparkSession) if magic else rows.sparkSession.newSession()
        for name, value in settings.items():
            spark.conf.set(name, value)
        orders(spark, row_count).write.insertInto(table, overwrite=True)

    return insert


def sides_of(spark: SparkSession, row_count: int) -> list[Side]:
    """Return all ways to overwrite the table."""
    without = TableWriterConfig(hadoop={"fs.s3a.committer.magic.enabled": "false"})
    dynamic = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
    algorithm = {"mapreduce.fileoutputcommitter.algorithm.version": "2"}
    return [
        Side("table_writer, magic committer", TableWriter(spark).overwrite_partitions),
        Side("table_writer, without the jar", TableWriter(spark, config=without).overwrite_partitions),
        Side("INSERT OVERWRITE, dynamic", insert_with(dynamic, row_count)),
        Side("INSERT OVERWRITE, static", insert_with({}, row_count)),
        Side("INSERT OVERWRITE, static, algorithm 2", insert_with(algorithm, row_count)),
        Side("INSERT OVERWRITE, static, magic committer", insert_with(dict(MAGIC), row_count, magic=True)),
    ]


def measure(lake: Lakehouse, proxy: CountingProxy, sides: list[Side], row_count: int, runs: int) -> None:
    """Fill each table once, then overwrite it, and count what that took."""
    rows = orders(lake.spark, row_count)
    for number, side in enumerate(sides):
        columns = "id BIGINT, amount DOUBLE, comment STRING, dt STRING"
        location = f"s3a://{COUNTED_BUCKET}/warehouse/side{number}"
        lake.spark.sql(f"CREATE TABLE side{number} ({columns}) USING orc PARTITIONED BY (dt) LOCATION '{location}'")
        side.overwrite(rows, f"side{number}")
    for _ in range(runs):
        for number, side in enumerate(sides):
            proxy.reset()
            started = time.monotonic()
            side.overwrite(rows, f"side{number}")
            side.seconds.append(time.monotonic() - started)
            side.traffic = proxy.traffic()
    for number, side in enumerate(sides):
        lake.spark.catalog.refreshTable(f"side{number}")
        found = lake.spark.table(f"side{number}")
        assert (found.count(), len(found.inputFiles())) == (row_count, TASKS * PARTITIONS), side.name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=3)
    chosen = parser.parse_args()
    scratch = ScratchDirectory("formats")
    with lakehouse(s3_server=best_server()) as lake:
        proxy = CountingProxy(lake.s3_server.endpoint_url.removeprefix("http://"), scratch.path)
        try:
            lake.s3.create_bucket(Bucket=COUNTED_BUCKET)
            context: Any = lake.spark.sparkContext
            context._jsc.hadoopConfiguration().set(f"fs.s3a.bucket.{COUNTED_BUCKET}.endpoint", proxy.endpoint_url)
            sides = sides_of(lake.spark, chosen.rows)
            measure(lake, proxy, sides, chosen.rows, chosen.runs)
        finally:
            proxy.stop()
            scratch.remove()
    print(f"{chosen.rows:,} rows in {TASKS * PARTITIONS} ORC files, {best_server()}; best of {chosen.runs} runs\n")
    print(f"| | seconds | requests | {' | '.join(KINDS)} | others | MB sent | MB copied |")
    print(f"|---|{'--:|' * (len(KINDS) + 5)}")
    for side in sides:
        requests = side.traffic["requests"]
        total, shown = sum(requests.values()), [requests.get(kind, 0) for kind in KINDS]
        figures = [f"{min(side.seconds):.1f}", total, *shown, total - sum(shown)]
        sizes = [f"{side.traffic[name] / 1e6:.1f}" for name in ("sent_bytes", "copied_bytes")]
        print(f"| {side.name} | {' | '.join(map(str, [*figures, *sizes]))} |")


if __name__ == "__main__":
    main()
