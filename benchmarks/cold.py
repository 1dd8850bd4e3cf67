"""The only write of a job: applications that start, write once and end, ours and Spark's in turns.

The floor is an application that reads the same rows and drops them. What a side takes above it is what its write adds.
*Python* hands the rows to Python workers, which count them: nothing that is written in Python takes less.
Core-seconds are those of the driver, its Java and its Python workers, from the session's start until the write has
returned. Python's files are compiled before, as pip does with those that it installs.

Run: ``make bench-cold``, or ``python -m benchmarks.cold [--shapes small] [--runs 3] [--latency-ms 20]
[--python .venv-spark35/bin/python]``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from compileall import compile_dir
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark documents it

from benchmarks.cases import CASES, Case, Size
from benchmarks.cold_job import SIDES
from benchmarks.remote import ROOT
from benchmarks.servers import COUNTED_BUCKET, CountingProxy, best_server
from table_writer import TableWriter
from table_writer.testing import Lakehouse, lakehouse
from table_writer.testing.connect import write_spark_conf
from table_writer.testing.embedded import _spark_settings
from table_writer.testing.processes import LOCALHOST, ScratchDirectory

WRITERS: Final = ("Spark", "ours")
SETTINGS: Final = {
    "spark.driver.memory": "2g",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
}


@dataclass(frozen=True)
class Shape:
    """What is written once."""

    name: str
    title: str
    case: Case
    row_count: int  # of the case's sizes
    one_partition: bool = False

    @property
    def mode(self) -> str:
        return "overwrite_partitions" if self.case.partition_by else "overwrite_table"

    def rows(self, spark: SparkSession) -> DataFrame:
        rows = self.case.rows(spark, Size(rows=self.row_count, scale=0, tpch=Path()), 0)
        return rows.withColumn("dt", F.lit("2024-01-01").cast("date")) if self.one_partition else rows


SHAPES: Final = {
    shape.name: shape
    for shape in (
        Shape("small", "2,000 rows of one partition", CASES["orders"], 2_000, one_partition=True),
        Shape("fifty", "50,000 rows of one partition", CASES["orders"], 50_000, one_partition=True),
        Shape("one", "1,000,000 rows of one partition", CASES["orders"], 1_000_000, one_partition=True),
        Shape("thirty", "3,000,000 rows of 30 partitions", CASES["orders"], 3_000_000),
        Shape("unpartitioned", "1,000,000 rows, unpartitioned", CASES["unpartitioned"], 1_000_000),
        Shape("columns300", "25,000 rows of 300 columns, 10 partitions", CASES["columns300"], 1_000_000),
    )
}


@dataclass
class Side:
    """What the applications of one side took."""

    seconds: list[float] = field(default_factory=list)
    cores: list[dict[str, float]] = field(default_factory=list)

    @property
    def core_seconds(self) -> float:
        return median(sum(cores.values()) for cores in self.cores)


def jars_of(python: str) -> list[Path]:
    """Return the jars with which the Spark of an environment reaches S3."""
    code = "from table_writer.testing.jars import s3a_jars; print(*s3a_jars(), sep=chr(10))"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    found = subprocess.run([python, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return [Path(line) for line in found.stdout.splitlines()]


class Jobs:
    """Starts applications on the lakehouse's servers."""

    def __init__(self, lake: Lakehouse, directory: Path, hadoop: Mapping[str, str], python: str) -> None:
        settings = _spark_settings("local[2]", lake.warehouse, jars_of(python), hadoop, directory)
        write_spark_conf(directory, settings | SETTINGS | {"spark.hadoop.hive.metastore.uris": lake.metastore.uri})
        self._python = python
        self._environment = os.environ | {
            "SPARK_CONF_DIR": str(directory),
            "SPARK_LOCAL_IP": LOCALHOST,
            "PYSPARK_PYTHON": python,
            "PYSPARK_SUBMIT_ARGS": "pyspark-shell",
            "PYTHONPATH": str(ROOT),
        }

    def run(self, *arguments: str) -> dict[str, Any]:
        """Return what one application took."""
        command = [self._python, "-m", "benchmarks.cold_job", *arguments]
        done = subprocess.run(command, check=False, cwd=ROOT, env=self._environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stderr[-4000:]}")
        took: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return took


def prepare(lake: Lakehouse, shape: Shape, root: str) -> tuple[str, dict[str, str]]:
    """Store the rows as Parquet, make a table for each side, and fill it, so that a job replaces something."""
    source = f"{root}/source_{shape.name}"
    shape.rows(lake.spark).write.parquet(source)
    tables = {side: f"cold_{shape.name}_{side}" for side in WRITERS}
    for side, table in tables.items():
        place = f"{shape.case.partition_clause} LOCATION '{root}/{table}'"
        lake.spark.sql(f"CREATE TABLE {table} ({shape.case.columns}) USING parquet {place}")
        rows = lake.spark.read.parquet(source)
        if side == "ours":
            getattr(TableWriter(lake.spark), shape.mode)(rows, table)
        else:
            rows.write.insertInto(table, overwrite=True)
    return source, tables


def measure(lake: Lakehouse, jobs: Jobs, shape: Shape, root: str, runs: int) -> dict[str, Side]:
    """Run all sides in turns; each table must hold the rows afterwards."""
    source, tables = prepare(lake, shape, root)
    sides = {name: Side() for name in SIDES}
    for _ in range(runs):
        for name, side in sides.items():
            took = jobs.run(name, source, tables.get(name, "none"), shape.mode)
            side.seconds.append(took["seconds"])
            side.cores.append(took["cores"])
    row_count = lake.spark.read.parquet(source).count()
    for table in tables.values():
        lake.spark.catalog.refreshTable(table)
        assert lake.spark.table(table).count() == row_count, table
    return sides


def as_text(shape: Shape, sides: Mapping[str, Side]) -> str:
    """Return the medians of a shape, and what ours adds to the floor as a part of what Spark's adds."""
    lines = [
        f"{shape.title}",
        f"  {'':8}{'seconds':>9}{'cores':>8}{'driver':>8}{'Java':>8}{'workers':>9}   all seconds",
    ]
    for name, side in sides.items():
        kinds = "".join(
            f"{median(cores[kind] for cores in side.cores):{width}.2f}"
            for kind, width in (("driver", 8), ("Java", 8), ("workers", 9))
        )
        each = " ".join(f"{seconds:.2f}" for seconds in side.seconds)
        lines.append(f"  {name:8}{median(side.seconds):9.2f}{side.core_seconds:8.2f}{kinds}   {each}")
    floor, spark, ours = (sides[name] for name in ("floor", "Spark", "ours"))
    seconds = [median(side.seconds) - median(floor.seconds) for side in (ours, spark)]
    cores = [side.core_seconds - floor.core_seconds for side in (ours, spark)]
    for unit, (added, by_spark) in (("seconds", seconds), ("core-seconds", cores)):
        lines.append(f"  ours adds {added:.2f} {unit} to the floor, Spark {by_spark:.2f}: {added / by_spark:.2f} of it")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    """Measure the shapes, and print each as soon as it is done."""
    parser = argparse.ArgumentParser(prog="make bench-cold", description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default=",".join(SHAPES), help="by default all of them: %(default)s")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--latency-ms", type=float, default=0, help="added to each request to S3")
    parser.add_argument("--python", default=sys.executable, help="of an environment with another Spark")
    chosen = parser.parse_args(arguments)
    compile_dir(ROOT / "table_writer", quiet=1)
    with ExitStack() as undo:
        scratch = ScratchDirectory("cold")
        undo.callback(scratch.remove)
        lake = undo.enter_context(lakehouse(s3_server=best_server(), spark_conf=SETTINGS))
        lake.s3.create_bucket(Bucket=COUNTED_BUCKET)
        hadoop = lake.s3_server.hadoop_settings()
        if chosen.latency_ms:
            proxy = CountingProxy(lake.s3_server.endpoint_url.removeprefix("http://"), scratch.path)
            undo.callback(proxy.stop)
            proxy.reset(chosen.latency_ms)
            hadoop = hadoop | {f"fs.s3a.bucket.{COUNTED_BUCKET}.endpoint": proxy.endpoint_url}
        jobs = Jobs(lake, scratch.path, hadoop, chosen.python)
        for name in chosen.shapes.split(","):
            sides = measure(lake, jobs, SHAPES[name], f"s3a://{COUNTED_BUCKET}", chosen.runs)
            print(as_text(SHAPES[name], sides), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
