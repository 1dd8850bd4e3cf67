"""Overwrites of a few thousand rows, ours and Spark's in turns, and where the time of ours goes, call by call.

Both sides overwrite tables of their own in one warm session, on one S3 server and one metastore. With ``--calls`` one
more write of ours is listed: each call of Java, request to S3 and call of the metastore by this process, each job of
Spark, with when it began and how long it took.

Run: ``make bench-small``, or ``python -m benchmarks.small [--rows 4000] [--tasks 8] [--runs 15] [--calls]``.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

import pyspark
from botocore.client import BaseClient
from py4j.clientserver import ClientServerConnection
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark documents it

from benchmarks.cases import CASES, Size
from benchmarks.servers import best_server
from table_writer import TableWriter
from table_writer.metastore.connection import Connection
from table_writer.testing import lakehouse

WARM_UP: Final = 10  # rounds that are not counted: Java compiles what it runs often
SETTINGS: Final = {
    "spark.driver.memory": "2g",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
}
KINDS: Final = ("Java", "S3", "metastore", "Spark job")
LONGEST_NAME: Final = 90


@dataclass(frozen=True)
class Traced:
    """One call of another process, in seconds since the trace began."""

    kind: str
    name: str
    begun: float
    seconds: float
    thread: str


@dataclass
class Trace:
    """Everything that this process asks of others within a block."""

    calls: list[Traced] = field(default_factory=list)
    zero: float = 0.0  # of the clock that does not jump
    epoch: float = 0.0  # the same moment by the clock that Spark uses

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Take part in each call by standing in for the methods that make them."""
        stand_ins: tuple[tuple[Any, str, str, Callable[..., str]], ...] = (
            (ClientServerConnection, "send_command", "Java", lambda command: " ".join(command.split("\n")[:-2])),
            (BaseClient, "_make_api_call", "S3", lambda name, given: f"{name} {given.get('Key', '')}"),
            (Connection, "_call", "metastore", lambda line, method, *_: method),
        )
        before = [(owner, name, getattr(owner, name)) for owner, name, _, _ in stand_ins]
        for owner, name, kind, described in stand_ins:
            setattr(owner, name, self._recorded(getattr(owner, name), kind, described))
        self.zero, self.epoch = time.monotonic(), time.time()
        try:
            yield
        finally:
            for owner, name, method in before:
                setattr(owner, name, method)

    def add_jobs(self, spark: SparkSession) -> None:
        """Add the jobs that Spark has run since the trace began."""
        context: Any = spark.sparkContext
        jobs = context._jsc.sc().statusStore().jobsList(None)
        for position in range(jobs.size()):
            job = jobs.apply(position)
            begun = job.submissionTime().get().getTime() / 1000 - self.epoch
            if begun >= 0:
                seconds = job.completionTime().get().getTime() / 1000 - self.epoch - begun
                name = f"{job.numTasks()} tasks, {job.stageIds().size()} stages"
                self.calls.append(Traced("Spark job", name, begun, seconds, "Spark"))

    def _recorded(self, method: Callable[..., Any], kind: str, described: Callable[..., str]) -> Callable[..., Any]:
        def recorded(owner: object, *arguments: Any) -> Any:
            begun = time.monotonic()
            try:
                return method(owner, *arguments)
            finally:
                took = time.monotonic() - begun
                name = described(*arguments)[:LONGEST_NAME]
                self.calls.append(Traced(kind, name, begun - self.zero, took, threading.current_thread().name))

        return recorded


@dataclass
class Side:
    """Who overwrites, and how long each of its writes took."""

    name: str
    write: Callable[[DataFrame, str], Any]
    table: str = ""
    seconds: list[float] = field(default_factory=list)
    steps: list[dict[str, float]] = field(default_factory=list)

    def run(self, rows: DataFrame) -> None:
        """Write once."""
        begun = time.monotonic()
        result = self.write(rows, self.table)
        self.seconds.append(time.monotonic() - begun)
        self.steps.append(dict(getattr(result, "seconds", {})))


def sides(spark: SparkSession, *, partitioned: bool) -> tuple[Side, Side]:
    """Return Spark's own way and ours."""
    writer = TableWriter(spark)
    ours = writer.overwrite_partitions if partitioned else writer.overwrite_table
    return (
        Side("Spark's INSERT OVERWRITE", lambda rows, table: rows.write.insertInto(table, overwrite=True)),
        Side("table_writer", ours),
    )


def small_rows(spark: SparkSession, row_count: int, tasks: int, *, partitioned: bool) -> DataFrame:
    """Return the rows of the benchmark's orders, in so many tasks; all of one day where there are partitions."""
    rows = CASES["orders"].rows(spark, Size(rows=row_count, scale=0, tpch=Path()), 0).coalesce(tasks)
    return rows.withColumn("dt", F.lit("2024-01-01").cast("date")) if partitioned else rows


def measure(spark: SparkSession, warehouse: str, chosen: argparse.Namespace, *, partitioned: bool) -> dict[str, Any]:
    """Overwrite in turns; print medians, and what a write of ours consists of."""
    case = CASES["orders" if partitioned else "unpartitioned"]
    both = sides(spark, partitioned=partitioned)
    for number, side in enumerate(both):
        side.table = f"small_{case.name}_{number}"
        place = f"{case.partition_clause} LOCATION '{warehouse}/{side.table}'"
        spark.sql(f"CREATE TABLE {side.table} ({case.columns}) USING parquet {place}")

    def rows() -> DataFrame:
        return small_rows(spark, chosen.rows, chosen.tasks, partitioned=partitioned)

    for number in range(WARM_UP + chosen.runs):
        for side in both:
            side.run(rows())
            if number < WARM_UP:
                side.seconds.clear()
                side.steps.clear()
    spark_took, ours_took = (median(side.seconds) for side in both)
    for side in both:
        assert spark.table(side.table).count() == chosen.rows, f"{side.name} has not written all rows"
    what = "a table of one partition" if partitioned else "an unpartitioned table"
    print(f"\n{chosen.rows:,} rows in {chosen.tasks} tasks to {what}; median of {chosen.runs}, all runs")
    for side in both:
        runs = " ".join(f"{one:.2f}" for one in side.seconds)
        print(f"{side.name:26}{median(side.seconds):7.3f} s   {runs}")
    print(f"{'ours / Spark':26}{ours_took / spark_took:7.2f}")
    steps = {name: median(one.get(name, 0.0) for one in both[1].steps) for name in both[1].steps[0]}
    steps["after"] = ours_took - sum(steps.values())
    print("steps of ours: " + ", ".join(f"{name} {took * 1000:.0f} ms" for name, took in steps.items()), flush=True)
    if chosen.calls:
        list_calls(spark, both[1], rows())
    return {
        "case": what,
        "rows": chosen.rows,
        "tasks": chosen.tasks,
        "seconds": {side.name: side.seconds for side in both},
        "steps": both[1].steps,
    }


def list_calls(spark: SparkSession, side: Side, rows: DataFrame) -> None:
    """Write once more, and print each call in the order in which they began."""
    trace = Trace()
    with trace.recording():
        side.run(rows)
    trace.add_jobs(spark)
    for kind in KINDS:
        found = [one for one in trace.calls if one.kind == kind]
        print(f"{kind:10}{len(found):5} calls{sum(one.seconds for one in found) * 1000:9.1f} ms")
    print(f"the write took {side.seconds[-1] * 1000:.0f} ms; steps end at", end=" ")
    print(", ".join(f"{name} {took * 1000:.0f}" for name, took in side.steps[-1].items()))
    for one in sorted(trace.calls, key=lambda one: one.begun):
        print(f"{one.begun * 1000:9.1f}{one.seconds * 1000:8.1f} ms  {one.kind:10}{one.thread[:20]:22}{one.name}")


def main() -> None:
    """Measure both kinds of table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000)
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--calls", action="store_true", help="list every call of one more write of ours")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    with lakehouse(s3_server=best_server(), spark_conf=SETTINGS) as lake:
        print(f"Spark {pyspark.__version__}, {best_server()}")
        found = [measure(lake.spark, lake.warehouse, chosen, partitioned=one) for one in (False, True)]
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
