"""Where the time of an overwrite goes: each step alone, in seconds and in core-seconds of each process.

Where all processes share a few cores, core-seconds are what a step costs, and seconds are what is left of them.

The limit of a write is what its rows cost up to zstd, and to send the bytes alone: no writer in Python takes less.

Run: ``python -m benchmarks.budget [--case orders] [--rows 4000000] [--runs 3] [--json FILE]``.
"""

from __future__ import annotations

import argparse
import json
import os
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
from table_writer import TableWriter
from table_writer.model.upload_spec import ParquetOptions, UploadSpec
from table_writer.spark import open_gateway
from table_writer.spark.widths import refusing_wide
from table_writer.steps.plan.distribution import BATCH_BYTES, UNSEEN_ROWS
from table_writer.steps.upload.task import upload_rows
from table_writer.storage import open_store
from table_writer.storage.object_store import ObjectStore
from table_writer.testing import Lakehouse, lakehouse

KINDS: Final = {
    "org.apache.hadoop.hive.metastore.HiveMetaStore": "metastore",
    "org.apache.spark.deploy.SparkSubmit": "Java",
    "pyspark.daemon": "workers",
    "versitygw": "S3",
    "moto": "S3",
}
COLUMNS: Final = ("Java", "workers", "driver", "S3", "metastore")
LIMIT: Final = ("+ zstd", "sending its bytes alone")  # what comes before the first is in it
MIB: Final = 1024 * 1024


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
        "the write": lambda: getattr(writer, mode)(rows, "ours"),
        "no column statistics": lambda: getattr(writer, mode)(rows, "plain", column_statistics="off"),
        "sending its bytes alone": lambda: send(store, sizes),
        "Spark's write": lambda: rows.write.insertInto("sparks", overwrite=True),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=[name for name in CASES if name != "lineitem"], default="orders")
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    settings = {
        "spark.driver.memory": "4g",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    }
    with lakehouse(s3_server=best_server(), spark_conf=settings) as lake:
        case = CASES[chosen.case]
        rows = case.rows(lake.spark, Size(rows=chosen.rows, scale=0, tpch=Path()), 0)
        work = stages(lake, case, rows)
        runs: dict[str, list[Cost]] = {name: [] for name in work}
        for number in range(chosen.runs + 1):
            for name, one in work.items():
                taken = cost(one)
                if number:  # the first round warms up
                    runs[name].append(taken)
    print(f"{case.title}; Spark {pyspark.__version__}; the cheapest of {chosen.runs}")
    print(f"{'':28}{'seconds':>9}{'cores':>8}" + "".join(f"{kind:>11}" for kind in COLUMNS))
    best = {name: min(costs, key=lambda one: one.core_seconds) for name, costs in runs.items()}
    for name, one in best.items():
        least = min(taken.seconds for taken in runs[name])
        print(
            f"{name:28}{least:9.2f}{one.core_seconds:8.2f}"
            + "".join(f"{one.cores.get(kind, 0):11.2f}" for kind in COLUMNS)
        )
    limit = sum(best[name].core_seconds for name in LIMIT)
    print(f"The limit, {' and '.join(LIMIT)}: {limit:.2f} core-seconds")
    for name in ("the write", "no column statistics"):
        print(f"{name}: {best[name].core_seconds / limit:.2f} times the limit")
    if chosen.json:
        chosen.json.write_text(json.dumps({name: [vars(one) for one in costs] for name, costs in runs.items()}))


if __name__ == "__main__":
    main()
