"""The same writes over a classic session and over Spark Connect, side by side, each kind in processes of its own.

Run: ``python -m benchmarks.connect [--rows 4000000] [--runs 3] [--rounds 2]``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from benchmarks.cases import CASES, Size
from benchmarks.servers import best_server
from table_writer import TableWriter
from table_writer.testing import lakehouse

KINDS: Final = ("classic", "connect")
FEW_ROWS: Final = 1_000


def measure(kind: str, rows: int, runs: int) -> dict[str, list[float]]:
    """Return the seconds of each run, after one that warms up, of a large write and of a small one."""
    case = CASES["orders"]
    conf = {"spark.api.mode": kind, "spark.driver.memory": "4g", "spark.sql.parquet.compression.codec": "zstd"}
    seconds: dict[str, list[float]] = {}
    with lakehouse(s3_server=best_server(), spark_conf=conf) as lake:
        writer = TableWriter(lake.spark)
        for name, count in (("large", rows), ("small", FEW_ROWS)):
            location = f"{lake.warehouse}/{name}"
            ddl = f"({case.columns}) USING parquet {case.partition_clause} LOCATION '{location}'"
            lake.spark.sql(f"CREATE TABLE {name} {ddl}")
            df = case.rows(lake.spark, Size(rows=count, scale=0, tpch=Path()), 0)
            for _ in range(runs + 1):
                started = time.monotonic()
                writer.overwrite_partitions(df, name)
                seconds.setdefault(name, []).append(time.monotonic() - started)
    return {name: taken[1:] for name, taken in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--kind", choices=KINDS, help="measure one kind in this process, and print JSON")
    chosen = parser.parse_args()
    if chosen.kind:
        print(json.dumps(measure(chosen.kind, chosen.rows, chosen.runs)))
        return
    taken: dict[tuple[str, str], list[float]] = {}
    for _ in range(chosen.rounds):
        for kind in KINDS:
            command = ["-m", "benchmarks.connect", "--kind", kind, "--rows", chosen.rows, "--runs", chosen.runs]
            done = subprocess.run([sys.executable, *map(str, command)], check=True, capture_output=True, text=True)
            for name, seconds in json.loads(done.stdout.splitlines()[-1]).items():
                taken.setdefault((name, kind), []).extend(seconds)
    for (name, kind), seconds in sorted(taken.items()):
        shown = ", ".join(f"{one:.2f}" for one in seconds)
        print(f"{name} {kind:8} best {min(seconds):.2f} s of {shown}")


if __name__ == "__main__":
    main()
