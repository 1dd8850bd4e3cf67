"""Where the time of an overwrite goes: each step alone, in seconds and in core-seconds of each process.

Where all processes share a few cores, core-seconds are what a step costs, and seconds are what is left of them.

The limit of a write is what its rows cost up to zstd, and to send the bytes alone: no writer in Python takes less.

With ``--comet`` the rows come from files of Parquet, once in a session as it is and once in one with Comet.

Run: ``python -m benchmarks.budget [--case orders] [--rows 4000000] [--runs 3] [--comet] [--json FILE]``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyspark
from pyspark import TaskContext
from pyspark.sql import DataFrame

from benchmarks.cases import CASES, Case, Size
from benchmarks.memory import ForgetfulStore
from benchmarks.peaks import core_seconds_by_kind
from benchmarks.servers import best_server
from table_writer import TableWriter, TableWriterConfig
from table_writer.jobs.plan.distribution import BATCH_BYTES, UNSEEN_ROWS
from table_writer.jobs.upload.task import upload_rows
from table_writer.model.upload_spec import ParquetOptions, UploadSpec
from table_writer.spark import open_gateway
from table_writer.spark.widths import refusing_wide
from table_writer.storage.object_store import ObjectStore, open_store
from table_writer.testing import Lakehouse, lakehouse
from tests.comet.settings import comet_settings

KINDS: Final = {
    "org.apache.hadoop.hive.metastore.HiveMetaStore": "metastore",
    "org.apache.spark.deploy.SparkSubmit": "Java",
    "pyspark.daemon": "workers",
    "versitygw": "S3",
    "moto": "S3",
}
COLUMNS: Final = ("Java", "workers", "driver", "S3", "metastore")
LIMIT: Final = ("+ zstd", "sending its bytes alone")  # what comes before the first is in it
OURS: Final = "the write"
FILES, COMET = "files", "comet"  # where rows come from, if not from Spark itself


@dataclass(frozen=True)
class Cost:
    """What one run took."""

    seconds: float
    cores: dict[str, float]

    @property
    def core_seconds(self) -> float:
        return sum(self.cores.values())


def cpu_seconds() -> Counter[str]:
    """Return what each kind of process below this one has used so far, this one included."""
    return Counter(driver=sum(os.times()[:2])) + core_seconds_by_kind(KINDS, "others")


def cost(work: Callable[[], object]) -> Cost:
    """Run something once."""
    before, started = cpu_seconds(), time.monotonic()
    work()
    seconds = time.monotonic() - started
    after = cpu_seconds()
    return Cost(seconds, {kind: max(0.0, after[kind] - before[kind]) for kind in after})


def count_rows(batches: Iterator[Any]) -> Iterator[Any]:
    """Take what Spark sends, and do nothing with it."""
    yield pa.RecordBatch.from_pydict({"rows": [sum(batch.num_rows for batch in batches)]})


def encode_rows(batches: Iterator[Any], *, spec: UploadSpec) -> Iterator[Any]:
    """Do all that a task does, but for sending."""
    context = TaskContext.get()
    pa.set_cpu_count(1)
    upload_rows(batches, spec, ForgetfulStore(0), task_index=context.partitionId(), attempt_id=context.taskAttemptId())
    yield pa.RecordBatch.from_pydict({"rows": [1]})


def transfer(rows: DataFrame, function: Callable[..., Any], batch_rows: int) -> None:
    with open_gateway(rows.sparkSession).batches_of(batch_rows):
        rows.mapInArrow(function, "rows long").collect()


def send(store: ObjectStore, sizes: list[int]) -> None:
    """Upload files of such sizes, one after the other, as requests of one part each."""
    body = os.urandom(max(sizes))
    for number, size in enumerate(sizes):
        key = f"alone/{time.monotonic_ns()}/{number}"
        upload_id = store.create_upload(key)
        store.complete_upload(key, upload_id, (store.upload_part(key, upload_id, 1, body[:size]),))


def stages(lake: Lakehouse, case: Case, rows: DataFrame) -> dict[str, Callable[[], object]]:
    """Name what is measured; each does more than the one before, but for the last three."""
    writer = TableWriter(lake.spark)
    without = TableWriter(lake.spark, config=TableWriterConfig(column_statistics="off"))
    mode = "overwrite_partitions" if case.partition_by else "overwrite_table"
    for table in ("ours", "plain", "sparks"):
        location = f"{lake.warehouse}/budget_{table}"
        lake.spark.sql(
            f"CREATE TABLE {table} ({case.columns}) USING parquet {case.partition_clause} LOCATION '{location}'"
        )
    spec = UploadSpec(
        write_id="w1",
        key_prefix="budget/_table_writer/data/w1/",
        store=None,
        data_columns=tuple(name for name in rows.columns if name not in case.partition_by),
        partition_columns=case.partition_by,
        file_options=ParquetOptions(compression="zstd"),
    )
    first = getattr(writer, mode)(rows, "ours")
    store = open_store(writer._services.open_to_write("ours").store_settings)
    sizes = [first.bytes // first.files] * first.files
    plain = replace(spec, file_options=ParquetOptions(compression="uncompressed"))
    return {
        "making the rows": lambda: rows.write.format("noop").mode("overwrite").save(),
        "+ Arrow to Python, weighed": lambda: transfer(rows, count_rows, 0),
        "+ Arrow, each row looked at": lambda: transfer(
            refusing_wide(rows, BATCH_BYTES // UNSEEN_ROWS), count_rows, UNSEEN_ROWS
        ),
        "+ Arrow to Python": lambda: transfer(rows, count_rows, 10_000),
        "+ splitting, encoding": lambda: transfer(rows, partial(encode_rows, spec=plain), 10_000),
        "+ zstd": lambda: transfer(rows, partial(encode_rows, spec=spec), 10_000),
        OURS: lambda: getattr(writer, mode)(rows, "ours"),
        "no column statistics": lambda: getattr(without, mode)(rows, "plain"),
        "sending its bytes alone": lambda: send(store, sizes),
        "Spark's write": lambda: rows.write.insertInto("sparks", overwrite=True),
    }


def measured(chosen: argparse.Namespace) -> dict[str, list[Cost]]:
    """Run each stage in turns, in one application."""
    settings = {
        "spark.driver.memory": "4g",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
        **(comet_settings() if chosen.source == COMET else {}),
    }
    with lakehouse(s3_server=best_server(), spark_conf=settings) as lake, tempfile.TemporaryDirectory() as directory:
        case = CASES[chosen.case]
        rows = case.rows(lake.spark, Size(rows=chosen.rows, scale=0, tpch=Path()), 0)
        if chosen.source:
            rows.write.parquet(f"file://{directory}/rows")
            rows = lake.spark.read.parquet(f"file://{directory}/rows")
        work = stages(lake, case, rows)
        runs: dict[str, list[Cost]] = {name: [] for name in work}
        for number in range(chosen.runs + 1):
            for name, one in work.items():
                taken = cost(one)
                if number:  # the first round warms up
                    runs[name].append(taken)
    return runs


def show(title: str, runs: dict[str, list[Cost]]) -> None:
    """Print a table of the cheapest runs."""
    print(f"{title}; Spark {pyspark.__version__}; the cheapest of {len(runs[OURS])}")
    print(f"{'':28}{'seconds':>9}{'cores':>8}" + "".join(f"{kind:>11}" for kind in COLUMNS))
    best = {name: cheapest(costs) for name, costs in runs.items()}
    for name, one in best.items():
        least = min(taken.seconds for taken in runs[name])
        print(
            f"{name:28}{least:9.2f}{one.core_seconds:8.2f}"
            + "".join(f"{one.cores.get(kind, 0):11.2f}" for kind in COLUMNS)
        )
    limit = sum(best[name].core_seconds for name in LIMIT)
    print(f"The limit, {' and '.join(LIMIT)}: {limit:.2f} core-seconds")
    for name in (OURS, "no column statistics"):
        print(f"{name}: {best[name].core_seconds / limit:.2f} times the limit")


def cheapest(costs: list[Cost]) -> Cost:
    return min(costs, key=lambda one: one.core_seconds)


def of_an_application(arguments: list[str], source: str) -> dict[str, list[Cost]]:
    """Let an application of its own measure, since plugins are chosen when Spark starts."""
    with tempfile.NamedTemporaryFile("r", suffix=".json") as found:
        command = [sys.executable, "-m", "benchmarks.budget", *arguments, "--source", source, "--json", found.name]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return {name: [Cost(**one) for one in costs] for name, costs in json.load(found).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=[name for name in CASES if name != "lineitem"], default="orders")
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--comet", action="store_true", help="rows of files, without Comet and with it")
    parser.add_argument("--source", choices=["", FILES, COMET], default="", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    title = CASES[chosen.case].title
    if chosen.comet:
        given = ["--case", chosen.case, "--rows", str(chosen.rows), "--runs", str(chosen.runs)]
        plain, native = of_an_application(given, FILES), of_an_application(given, COMET)
        show(f"{title}, from files", plain)
        show(f"{title}, from files, under Comet", native)
        ours, sparks = cheapest(native[OURS]).core_seconds, cheapest(plain["Spark's write"]).core_seconds
        print(f"Under Comet {OURS} takes {ours / cheapest(plain[OURS]).core_seconds:.2f} of its core-seconds without,")
        print(f"and {ours / sparks:.2f} of those of Spark's own overwrite without")
        return
    runs = measured(chosen)
    show(title, runs)
    if chosen.json:
        chosen.json.write_text(json.dumps({name: [vars(one) for one in costs] for name, costs in runs.items()}))


if __name__ == "__main__":
    main()
