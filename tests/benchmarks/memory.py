"""Peak memory of one Python worker, measured, against the formula in ``UploadSpec``'s notes.

Each case runs in a process of its own that writes rows as an executor's worker does (no Spark: batches are made on the
fly, 10,000 rows each, and the store forgets what it is sent after a pause per part, as a network would).

Run: ``python tests/benchmarks/memory.py [--gigabytes 2]``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import boto3
import pyarrow as pa

from table_writer.model.message import CommitMessage, UploadedPart
from table_writer.model.upload_spec import ParquetOptions, UploadSpec
from table_writer.upload.task import upload_rows

MIB = 1024 * 1024
ROW_BYTES = 8 + 4 + 200 + 8 + 8
BATCH_ROWS = 10_000
CASES = {"one partition": 1, "20 partitions": 20, "2,000 partitions": 2_000}
SECONDS_PER_PART = 0.05


class ForgetfulStore:
    """Takes parts as slowly as a network and keeps nothing."""

    def request_counts(self) -> dict[str, int]:
        return {}

    def create_upload(self, key: str) -> str:
        return f"upload of {key}"

    def upload_part(self, key: str, upload_id: str, number: int, body: bytes) -> UploadedPart:
        time.sleep(SECONDS_PER_PART)
        return UploadedPart(number=number, etag="etag", size_bytes=len(body))

    def abort_upload(self, key: str, upload_id: str) -> None:
        """Nothing was kept."""


def batches(row_count: int, partition_count: int) -> Iterator[Any]:
    noise = os.urandom(BATCH_ROWS * 200 + BATCH_ROWS)
    offsets = pa.py_buffer(b"".join((200 * row).to_bytes(4, "little") for row in range(BATCH_ROWS + 1)))
    for start in range(0, row_count, BATCH_ROWS):
        rows = range(start, start + BATCH_ROWS)
        shifted = pa.py_buffer(noise[start // BATCH_ROWS % BATCH_ROWS :][: BATCH_ROWS * 200])
        yield pa.record_batch(
            {
                "id": pa.array(rows),
                "payload": pa.BinaryArray.from_buffers(pa.binary(), BATCH_ROWS, [None, offsets, shifted]),
                "dt": [f"d{row * 7919 % partition_count}" for row in rows],
            }
        )


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run_case(partition_count: int, total_bytes: int) -> None:
    pa.set_cpu_count(1)
    boto3.client("s3", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    spec = UploadSpec(
        write_id="w1",
        key_prefix="table/_table_writer/data/w1/",
        store=None,
        data_columns=("id", "payload"),
        partition_columns=("dt",),
        file_options=ParquetOptions(compression="zstd"),
    )
    row_count = total_bytes // ROW_BYTES // BATCH_ROWS * BATCH_ROWS
    upload_rows(batches(BATCH_ROWS, 1), spec, ForgetfulStore(), task_index=0, attempt_id=0)  # loads what is lazy
    base_bytes = peak_bytes()
    started = time.monotonic()
    message = CommitMessage.from_bytes(
        upload_rows(batches(row_count, partition_count), spec, ForgetfulStore(), task_index=0, attempt_id=0)
    )
    answer = {
        "base_bytes": base_bytes,
        "peak_bytes": peak_bytes(),
        "formula_bytes": spec.memory_bytes(),
        "files": len(message.uploads),
        "rows_are_all_there": message.row_count == row_count,
        "stored_bytes": sum(upload.size_bytes for upload in message.uploads),
        "seconds": time.monotonic() - started,
    }
    print(json.dumps(answer))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=2)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    total_bytes = int(chosen.gigabytes * 1024 * MIB)
    if chosen.case:
        run_case(CASES[chosen.case], total_bytes)
        return
    columns = ("base", "formula", "bound", "measured", "stored")
    print(f"{chosen.gigabytes:g} GiB of rows in one task; MiB")
    print(f"{'case':18}" + "".join(f"{name:>10}" for name in columns) + f"{'files':>7}{'seconds':>9}")
    for case in CASES:
        command = [sys.executable, __file__, "--gigabytes", str(chosen.gigabytes), "--case", case]
        answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        bound = answer["base_bytes"] + answer["formula_bytes"]
        sizes = [answer["base_bytes"], answer["formula_bytes"], bound, answer["peak_bytes"], answer["stored_bytes"]]
        print(
            f"{case:18}"
            + "".join(f"{size / MIB:10.0f}" for size in sizes)
            + f"{answer['files']:7}{answer['seconds']:9.1f}"
        )
        assert answer["rows_are_all_there"]
        assert answer["peak_bytes"] <= bound, f"{case}: the formula in UploadSpec is wrong"


if __name__ == "__main__":
    main()
