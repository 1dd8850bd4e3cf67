"""Peak memory of one Python worker, measured, against the formula in ``UploadSpec``'s notes.

Each case runs in a process of its own that writes rows as an executor's worker does (no Spark: batches are made on the
fly, as large as Spark makes them, and the store forgets what it is sent after a pause per part, as a network would).

Run: ``python benchmarks/memory.py [--gigabytes 2] [--case "1,000 columns"]``.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import boto3
import numpy as np
import pyarrow as pa

from table_writer.jobs.upload.task import upload_rows
from table_writer.model.message import CommitMessage, UploadedPart
from table_writer.model.upload_spec import ParquetOptions, UploadSpec

MIB = 1024 * 1024
SPARK_BATCH_ROWS = 10_000  # spark.sql.execution.arrow.maxRecordsPerBatch
SPARK_BATCH_BYTES = 64 * MIB  # spark.sql.execution.arrow.maxBytesPerBatch: the batch ends with the row that reaches it
SECONDS_PER_PART = 0.05
WORDS = 4096
WORD_BYTES = 50


@dataclass(frozen=True, kw_only=True)
class Case:
    """Rows of one task: what is in a batch, given the number of its first row, and how many partitions there are."""

    batch: Callable[[int], dict[str, Any]]
    batch_rows: int = SPARK_BATCH_ROWS
    partitions: int = 1


def noise(start: int, rows: int, width: int) -> Any:
    """Binary values that do not compress, all of one width."""
    values = np.random.default_rng(start).integers(0, 256, rows * width, dtype=np.uint8)
    offsets = np.arange(0, rows * width + 1, width, dtype=np.int32)
    return pa.BinaryArray.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(values)])


def narrow(start: int) -> dict[str, Any]:
    return {"id": np.arange(start, start + SPARK_BATCH_ROWS), "payload": noise(start, SPARK_BATCH_ROWS, 200)}


def wide(start: int) -> dict[str, Any]:
    """A thousand columns: numbers of which some repeat, and words."""
    random = np.random.default_rng(start)
    numbers = {f"n{n}": random.integers(0, 1 << (8 + n % 40), SPARK_BATCH_ROWS) for n in range(900)}
    words = pa.array([f"{word:0{WORD_BYTES}d}" for word in range(WORDS)])
    strings = {f"s{n}": words.take(pa.array(random.integers(0, WORDS, SPARK_BATCH_ROWS))) for n in range(100)}
    return numbers | strings


def huge_strings(start: int) -> dict[str, Any]:
    """Strings of 10 MB, as many to a batch as Spark sends."""
    rows = CASES["strings of 10 MB"].batch_rows
    return {"id": np.arange(start, start + rows), "page": noise(start, rows, 10_000_000)}


CASES = {
    "one partition": Case(batch=narrow),
    "20 partitions": Case(batch=narrow, partitions=20),
    "5,000 partitions": Case(batch=narrow, partitions=5_000),
    "1,000 columns": Case(batch=wide, batch_rows=SPARK_BATCH_ROWS),
    "1,000 columns, 20 partitions": Case(batch=wide, partitions=20),
    "strings of 10 MB": Case(batch=huge_strings, batch_rows=SPARK_BATCH_BYTES // 10_000_000 + 1),
    "strings of 10 MB, 20 partitions": Case(
        batch=huge_strings, batch_rows=SPARK_BATCH_BYTES // 10_000_000 + 1, partitions=20
    ),
}


class ForgetfulStore:
    """Takes parts as slowly as a network and keeps nothing."""

    def __init__(self, seconds_per_part: float = SECONDS_PER_PART) -> None:
        self._seconds_per_part = seconds_per_part

    def request_counts(self) -> dict[str, int]:
        return {}

    def create_upload(self, key: str) -> str:
        return f"upload of {key}"

    def upload_part(self, key: str, upload_id: str, number: int, body: bytes) -> UploadedPart:
        time.sleep(self._seconds_per_part)
        return UploadedPart(number=number, etag="etag", size_bytes=len(body))

    def abort_upload(self, key: str, upload_id: str) -> None:
        """Nothing was kept."""


def batches(case: Case, total_bytes: int) -> Iterator[Any]:
    """Make batches until there are enough bytes; partitions come in no order."""
    made_bytes = 0
    for start in count(0, case.batch_rows):
        rows = np.arange(start, start + case.batch_rows)
        dt = pa.array([f"d{row * 7919 % case.partitions}" for row in rows.tolist()])
        batch = pa.record_batch({**case.batch(start), "dt": dt})
        made_bytes += batch.nbytes
        yield batch
        if made_bytes >= total_bytes:
            return


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def spec_of(rows: Any) -> UploadSpec:
    return UploadSpec(
        write_id="w1",
        key_prefix="table/_table_writer/data/w1/",
        store=None,
        data_columns=tuple(rows.schema.names[:-1]),
        partition_columns=("dt",),
        file_options=ParquetOptions(compression="zstd"),
    )


def run_case(case: Case, total_bytes: int) -> None:
    pa.set_cpu_count(1)
    boto3.client("s3", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    little = Case(batch=lambda start: {"id": [start], "payload": [b"x"]}, batch_rows=1)
    upload_rows(batches(little, 1), spec_of(next(batches(little, 1))), ForgetfulStore(), task_index=0, attempt_id=0)
    base_bytes = peak_bytes()  # with what is loaded lazily
    first = next(batches(case, 1))
    spec = spec_of(first)
    batch_bytes = first.nbytes
    del first
    started = time.monotonic()
    message = CommitMessage.from_bytes(
        upload_rows(batches(case, total_bytes), spec, ForgetfulStore(), task_index=0, attempt_id=0)
    )
    answer = {
        "base_bytes": base_bytes,
        "batch_bytes": batch_bytes,
        "peak_bytes": peak_bytes(),
        "formula_bytes": spec.memory_bytes(batch_bytes=batch_bytes),
        "files": len(message.uploads),
        "rows": message.row_count,
        "stored_bytes": sum(upload.size_bytes for upload in message.uploads),
        "seconds": time.monotonic() - started,
    }
    print(json.dumps(answer))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=2)
    parser.add_argument("--case", action="append", choices=list(CASES), default=[])
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    total_bytes = int(chosen.gigabytes * 1024 * MIB)
    if chosen.here:
        run_case(CASES[chosen.case[0]], total_bytes)
        return
    columns = ("batch", "base", "formula", "bound", "measured", "stored")
    print(f"{chosen.gigabytes:g} GiB of rows in one task; MiB")
    print(f"{'case':32}" + "".join(f"{name:>10}" for name in columns) + f"{'files':>7}{'rows':>12}{'seconds':>9}")
    wrong = []
    for case in chosen.case or CASES:
        command = [sys.executable, __file__, "--gigabytes", str(chosen.gigabytes), "--here", "--case", case]
        answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        bound = answer["base_bytes"] + answer["formula_bytes"]
        sizes = [answer["batch_bytes"], answer["base_bytes"], answer["formula_bytes"], bound]
        sizes += [answer["peak_bytes"], answer["stored_bytes"]]
        print(
            f"{case:32}"
            + "".join(f"{size / MIB:10.0f}" for size in sizes)
            + f"{answer['files']:7}{answer['rows']:12,}{answer['seconds']:9.1f}",
            flush=True,
        )
        if answer["peak_bytes"] > bound:
            wrong.append(case)
    if wrong:
        raise SystemExit(f"more memory than the formula in UploadSpec allows: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
