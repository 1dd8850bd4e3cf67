"""A merge of 1 % of a table's rows, whose keys are in 3 of its 30 partitions: ours, and MERGE of Delta and of Iceberg.

Each has a table of its own with the same rows in as many files, and gets the same updates, in turns, in one session;
all through the counting proxy, without and with a delay of each request. Each round is about partitions that none has
touched. Delta and Iceberg copy on write, and are told the partitions in the condition of their MERGE, as their manuals
advise; ours finds them.

Run: ``python -m benchmarks.rows [--rows 2400000] [--rounds 3] [--latency-ms 20]``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark documents it

from benchmarks.contenders import CONTENDERS, check_spark
from benchmarks.remote import MASTER
from benchmarks.servers import Servers, best_server
from table_writer import TableWriter
from table_writer.testing.embedded import _spark_settings
from table_writer.testing.jars import s3a_jars
from table_writer.testing.processes import LOCALHOST

PARTITIONS, FILES, TOUCHED = 30, 40, 3  # files of each partition, and partitions of a merge
EXTENSIONS: Final = "spark.sql.extensions"
PROPERTIES: Final[Mapping[str, Mapping[str, str]]] = {
    "parquet": {},
    "delta": {"delta.enableDeletionVectors": "false"},
    "iceberg": {"write.distribution-mode": "none", "write.spark.fanout.enabled": "true"},  # of the first rows
}


class Round(NamedTuple):
    """What one merge took."""

    seconds: float
    requests: int
    written_bytes: int
    steps: Mapping[str, float]


@dataclass
class Side:
    """Who merges, into which table, and what it took by the milliseconds that are added to each request."""

    name: str
    table: str
    using: str
    fill: Callable[[DataFrame, str], object]
    merge: Callable[[DataFrame, str, list[str]], object]
    rounds: dict[float, list[Round]] = field(default_factory=dict)


def rows_of(spark: SparkSession, row_count: int) -> DataFrame:
    """Return rows that depend on their number only; each task has some of every partition."""
    number = F.xxhash64("id")
    return spark.range(0, row_count, 1, FILES).select(
        "id",
        (F.pmod(number, F.lit(1 << 30)) / 7.0).alias("amount"),
        F.concat(F.lit("order "), F.hex(number)).alias("comment"),
        F.format_string("d%02d", F.pmod(F.col("id"), F.lit(PARTITIONS))).alias("dt"),
    )


def updates_of(rows: DataFrame, row_count: int, days: list[str]) -> DataFrame:
    """Return as many rows of some partitions as are 1 % of the table; one in a hundred of them is new."""
    one_in = TOUCHED * 100 // PARTITIONS
    chosen = rows.where(F.col("dt").isin(days) & (F.pmod(F.xxhash64("id", F.lit(1)), F.lit(one_in)) == 0))
    is_new = F.pmod(F.xxhash64("id", F.lit(2)), F.lit(100)) == 0
    key = F.col("id") + F.when(is_new, row_count).otherwise(0)
    return chosen.select(key.alias("id"), (-F.col("amount")).alias("amount"), "comment", "dt").coalesce(2)


def merge_in_sql(updates: DataFrame, table: str, days: list[str]) -> None:
    """MERGE, as Delta and Iceberg document it."""
    updates.createOrReplaceTempView("updates")
    named = ", ".join(f"'{day}'" for day in days)
    updates.sparkSession.sql(
        f"MERGE INTO {table} AS target USING updates"
        f" ON target.dt = updates.dt AND target.id = updates.id AND target.dt IN ({named})"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    ).collect()


def session(servers: Servers, driver_memory: str) -> SparkSession:
    """Start the session of all three."""
    delta, iceberg = CONTENDERS["delta"], CONTENDERS["iceberg"]
    jars = (*s3a_jars(), *delta.jars(), *iceberg.jars())
    hadoop = servers.hadoop_settings(counted=True)
    settings = _spark_settings(MASTER, servers.warehouse, jars, hadoop, servers.directory)
    settings |= {**delta.settings, **iceberg.settings}
    settings |= {
        EXTENSIONS: f"{delta.settings[EXTENSIONS]},{iceberg.settings[EXTENSIONS]}",
        "spark.driver.memory": driver_memory,
        "spark.hadoop.hive.metastore.uris": servers.metastore.uri,
        "spark.sql.shuffle.partitions": "8",
    }
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": LOCALHOST}
    builder: Any = SparkSession.builder
    return builder.config(map=settings).getOrCreate()


def make_sides(spark: SparkSession, servers: Servers, rows: DataFrame) -> list[Side]:
    """Return all three, each with its table of as many files."""
    writer = TableWriter(spark)
    sides = [
        Side(
            "table_writer",
            "default.by_us",
            "parquet",
            lambda rows, table: writer.append(rows, table, distribution="none"),
            lambda updates, table, _: writer.merge(updates, table, on=["dt", "id"]),
        ),
        Side("Delta", "default.by_delta", "delta", lambda rows, table: rows.write.insertInto(table), merge_in_sql),
        Side(
            "Iceberg",
            "iceberg.default.by_iceberg",
            "iceberg",
            lambda rows, table: rows.writeTo(table).append(),
            merge_in_sql,
        ),
    ]
    for side in sides:
        properties = {**PROPERTIES[side.using], "comment": "benchmark"}
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        spark.sql(
            f"CREATE TABLE {side.table} (id BIGINT, amount DOUBLE, comment STRING, dt STRING) USING {side.using}"
            f" PARTITIONED BY (dt) LOCATION '{servers.location(side.table, counted=True)}' TBLPROPERTIES ({listed})"
        )
        side.fill(rows, side.table)
        found = spark.table(side.table).select(F.input_file_name()).distinct().count()
        assert found == PARTITIONS * FILES, f"{side.name} has {found} files"
    return sides


def measure(servers: Servers, side: Side, updates: DataFrame, days: list[str], latency_ms: float) -> Round:
    """Merge once."""
    servers.proxy.reset(latency_ms)
    begun = time.monotonic()
    result = side.merge(updates, side.table, days)
    seconds = time.monotonic() - begun
    traffic = servers.proxy.traffic()
    servers.proxy.reset()
    written = traffic["sent_bytes"] + traffic["copied_bytes"]
    return Round(seconds, sum(traffic["requests"].values()), written, getattr(result, "seconds", {}))


def print_medians(sides: list[Side], latency_ms: float) -> None:
    """Say what each took."""
    print(f"\n{f'{latency_ms:g} ms a request':22}{'seconds':>9}{'requests':>10}{'MB written':>12}   all rounds")
    for side in sides:
        rounds = side.rounds[latency_ms]
        seconds, requests, written = (median(values) for values in list(zip(*rounds, strict=True))[:3])
        every = " ".join(f"{one.seconds:.2f}" for one in rounds)
        steps = ", ".join(f"{name} {took:.2f}" for name, took in rounds[-1].steps.items())
        print(f"{side.name:22}{seconds:9.2f}{requests:10.0f}{written / 1e6:12.1f}   {every}   {steps}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_400_000)
    parser.add_argument("--rounds", type=int, default=3, choices=range(1, 5))
    parser.add_argument("--latency-ms", type=float, default=20)
    parser.add_argument("--driver-memory", default="3g")
    chosen = parser.parse_args()
    check_spark()
    with Servers(best_server()) as servers:
        spark = session(servers, chosen.driver_memory)
        rows = rows_of(spark, chosen.rows)
        sides = make_sides(spark, servers, rows)
        plan = [None, *[0.0] * chosen.rounds, *[chosen.latency_ms] * chosen.rounds]  # the first warms up
        for number, latency_ms in enumerate(plan):
            days = [f"d{number * TOUCHED + day:02d}" for day in range(TOUCHED)]
            updates, turn = updates_of(rows, chosen.rows, days), number % len(sides)
            for side in [*sides[turn:], *sides[:turn]]:
                found = measure(servers, side, updates, days, latency_ms or 0)
                if latency_ms is not None:
                    side.rounds.setdefault(latency_ms, []).append(found)
        for latency_ms in sides[0].rounds:
            print_medians(sides, latency_ms)
        content = [F.count("*"), F.sum(F.xxhash64("id", "amount", "comment", "dt").cast("decimal(38)"))]
        held = {side.name: tuple(spark.table(side.table).select(*content).collect()[0]) for side in sides}
        assert len(set(held.values())) == 1, f"other rows: {held}"
        spark.stop()


if __name__ == "__main__":
    main()
