"""Where it begins to pay to search for the files that hold a merge's keys, before they are rewritten.

A partition of 8 files is merged with 1,000 updates, whose keys are in one of its files or in all of them; once searched
for, and once rewritten whole, in turns, by the size of the partition.

Run: ``python -m benchmarks.merge_search [--mib 16 64 256] [--rounds 3]``.
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark documents it

from benchmarks.rows import session
from benchmarks.servers import Servers, best_server
from table_writer import TableWriter

FILES: Final = 8
UPDATES: Final = 1_000
ROW_BYTES: Final = 52  # of a row in a file, compressed: measured
MIB: Final = 1 << 20
EVERYTHING: Final = 1 << 60


def rows_of(spark: SparkSession, row_count: int) -> DataFrame:
    """Return rows that hardly compress, each task with its range of keys."""
    texts = (F.hex(F.xxhash64("id", F.lit(salt))) for salt in range(3))
    return spark.range(0, row_count, 1, FILES).select("id", F.concat(*texts).alias("text"), F.lit("d").alias("dt"))


def updates_of(spark: SparkSession, row_count: int, *, spread: bool) -> DataFrame:
    """Return updates whose keys are in all files, or in the first alone."""
    step = row_count // UPDATES if spread else 1
    return spark.range(0, UPDATES * step, step, 2).select("id", F.lit("changed").alias("text"), F.lit("d").alias("dt"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, nargs="+", default=[4, 16, 64, 256])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency-ms", type=float, default=0)
    chosen = parser.parse_args()
    with Servers(best_server()) as servers:
        spark = session(servers, "3g")
        writer = TableWriter(spark)
        print(f"{'MiB':>6}{'MiB stored':>12}{'keys in':>10}{'searched, s':>13}{'whole, s':>10}", flush=True)
        for mib in chosen.mib:
            table, row_count = f"default.of_{mib}_mib", mib * MIB // ROW_BYTES
            spark.sql(
                f"CREATE TABLE {table} (id BIGINT, text STRING, dt STRING) USING parquet PARTITIONED BY (dt)"
                f" LOCATION '{servers.location(table, counted=True)}'"
            )
            stored = writer.append(rows_of(spark, row_count), table, distribution="none").bytes / MIB
            for spread in (False, True):
                seconds: dict[int, list[float]] = {0: [], EVERYTHING: []}
                for _ in range(chosen.rounds + 1):
                    for limit, took in seconds.items():
                        servers.proxy.reset(chosen.latency_ms)
                        begun = time.monotonic()
                        updates = updates_of(spark, row_count, spread=spread)
                        writer.merge(updates, table, on=["dt", "id"], search_above_bytes=limit)
                        took.append(time.monotonic() - begun)
                        servers.proxy.reset()
                        spark.catalog.refreshTable(table)
                        writer.maintenance.rollback(table, version=1)  # as many files for the next
                searched, whole = (median(took[1:]) for took in seconds.values())  # the first warms up
                where = "all files" if spread else "one file"
                print(f"{mib:6}{stored:12.1f}{where:>10}{searched:13.2f}{whole:10.2f}", flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
