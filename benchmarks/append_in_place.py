"""Appends in place against Spark's INSERT, and against what is there already, side by side on one S3 server.

=========== ======================================================================================================
case        what is measured
=========== ======================================================================================================
partitions  rows over many partitions that hold many files each: Spark's INSERT INTO, and ours
slow        the same, where each request to the store takes 20 ms more
empty       ours into one partition that holds many files, and into one that does not exist
row         ours, a hundred times into one partition: the first ten and the last ten
=========== ======================================================================================================

Run: ``python -m benchmarks.append_in_place [--cases partitions empty] [--partitions 30] [--files 1000] [--runs 3]``.
"""

from __future__ import annotations

import argparse
import http.client
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import mean
from typing import Any, Final
from urllib.parse import quote

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark documents it

from benchmarks.append import NEW_TASKS, STATEMENT, ServerLog, Side, SparkBytes, in_place, insert, measure, orders
from benchmarks.servers import COUNTED_BUCKET, CountingProxy, best_server
from table_writer import TableWriter
from table_writer.model.location import Location
from table_writer.testing import Lakehouse, lakehouse
from table_writer.testing.processes import ScratchDirectory

CASES: Final = ("partitions", "slow", "empty", "row")
SETTINGS: Final = {"spark.driver.memory": "2g", "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2"}
OLD_ROWS: Final = 100  # of each file that is there: nobody reads them
PUT_THREADS: Final = 8


@dataclass
class Bench:
    """The lakehouse with a second bucket, which clients reach through the proxy, and what counts."""

    lake: Lakehouse
    proxy: CountingProxy
    chosen: argparse.Namespace
    log: ServerLog = field(init=False)
    counted: SparkBytes = field(init=False)

    def __post_init__(self) -> None:
        self.log, self.counted = ServerLog(self.lake), SparkBytes(self.lake.spark)
        self.lake.s3.create_bucket(Bucket=COUNTED_BUCKET)
        java: Any = self.lake.spark.sparkContext._jsc
        java.hadoopConfiguration().set(f"fs.s3a.bucket.{COUNTED_BUCKET}.endpoint", self.proxy.endpoint_url)

    def table(self, name: str, partitions: list[str], *, through_proxy: bool = False) -> str:
        """Make a table whose partitions have many files: Spark writes one each, and the others are put beside it."""
        bucket = COUNTED_BUCKET if through_proxy else self.lake.bucket
        spark, location = self.lake.spark, f"s3a://{bucket}/warehouse/{name}"
        spark.sql(STATEMENT.format(table=name, location=location))
        if not partitions:
            return name
        old = (
            orders(spark, OLD_ROWS, 1)
            .drop("dt")
            .crossJoin(spark.createDataFrame([(one,) for one in partitions], "dt string"))
        )
        old.coalesce(1).write.insertInto(name)
        pages = self.lake.s3.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix=Location.parse(location).key
        )
        keys = [item["Key"] for page in pages for item in page.get("Contents", []) if item["Key"].endswith(".parquet")]
        bodies = {key: self.lake.s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}
        numbers = range(1, self.chosen.files)
        more = [(key, f"{key.removesuffix('.parquet')}-{number}.parquet") for number in numbers for key in keys]
        with self.unsigned_puts(bucket) as put, ThreadPoolExecutor(PUT_THREADS) as pool:
            list(pool.map(lambda one: put(one[1], bodies[one[0]]), more))
        return name

    @contextmanager
    def unsigned_puts(self, bucket: str) -> Iterator[Callable[[str, bytes], None]]:
        """Let anybody put objects into a bucket of this server of ours: four times as many a second as by boto3."""
        resource = f"arn:aws:s3:::{bucket}/*"
        allowed = [{"Effect": "Allow", "Principal": "*", "Action": "s3:PutObject", "Resource": resource}]
        policy = json.dumps({"Version": "2012-10-17", "Statement": allowed})
        self.lake.s3.put_bucket_policy(Bucket=bucket, Policy=policy)
        host, of_thread = self.lake.s3_server.endpoint_url.removeprefix("http://"), threading.local()

        def put(key: str, body: bytes) -> None:
            if not hasattr(of_thread, "connection"):
                of_thread.connection = http.client.HTTPConnection(host)
            of_thread.connection.request("PUT", f"/{bucket}/{quote(key)}", body)
            with of_thread.connection.getresponse() as answer:
                answer.read()
                assert answer.status == 200, f"{key} was not put: {answer.status}"

        yield put
        self.lake.s3.delete_bucket_policy(Bucket=bucket)

    def measure(self, side: Side, rows: DataFrame) -> int:
        """Run one append; returns how many requests the server has had."""
        measure(self.lake, side, rows, self.log, self.counted)
        return sum(side.requests.values())

    def warm(self, side: Side) -> None:
        """Run the way of a side once, with another partition."""
        side.append(orders(self.lake.spark, 100, NEW_TASKS).withColumn("dt", F.lit("warm")), side.table)


def show(sides: list[Side], requests: dict[str, list[int]], what: str) -> None:
    """Print the best run of each side, and all of them."""
    print(f"\n{what}")
    print(f"{'':26}{'seconds':>9}{'ratio':>7}{'requests':>10}   all runs")
    ours = min(sides[-1].seconds)
    for side in sides:
        best, runs = min(side.seconds), " ".join(f"{value:.2f}" for value in side.seconds)
        print(f"{side.name:26}{best:9.2f}{best / ours:7.2f}{requests[side.name][-1]:10,}   {runs}")
    for side in sides:
        kinds: Counter[str] = side.requests
        print(f"{side.name:26}{', '.join(f'{kind} {count:,}' for kind, count in sorted(kinds.items()) if count)}")
    steps = ", ".join(f"{step} {took:.2f} s" for step, took in sides[-1].steps.items())
    print(f"{'steps of the last run':26}{steps}", flush=True)


def compare(bench: Bench, latency_ms: float) -> None:
    """Rows over many partitions, by Spark's INSERT and by ours, in turns."""
    chosen, slow = bench.chosen, "slow_" * bool(latency_ms)
    names = [f"day-{number:03}" for number in range(chosen.partitions)]
    sides = [
        Side("Spark's INSERT INTO", f"{slow}by_insert", insert),
        Side("append in place", f"{slow}in_place", in_place(TableWriter(bench.lake.spark))),
    ]
    for side in sides:
        bench.table(side.table, names, through_proxy=latency_ms > 0)
        bench.warm(side)
    requests: dict[str, list[int]] = {side.name: [] for side in sides}
    bench.proxy.reset(latency_ms)
    number = F.format_string("day-%03d", F.pmod("id", F.lit(chosen.partitions)))
    for run in range(chosen.runs):
        rows = orders(bench.lake.spark, chosen.rows, NEW_TASKS, run * chosen.rows).withColumn("dt", number)
        for side in sides:
            requests[side.name].append(bench.measure(side, rows))
    seen, sent = sum(bench.proxy.traffic()["requests"].values()), sum(map(sum, requests.values()))
    assert seen >= 0.9 * sent * (latency_ms > 0), f"{seen} of {sent} requests went through the proxy"
    bench.proxy.reset()
    wanted = chosen.files * OLD_ROWS + len(range(0, chosen.runs * chosen.rows, chosen.partitions))
    for side in sides:  # of one partition: to read all of them takes minutes
        bench.lake.spark.catalog.refreshTable(side.table)
        count = bench.lake.spark.table(side.table).where(F.col("dt") == names[0]).count()
        assert count == wanted, f"{side.name}: {count} rows of {names[0]} instead of {wanted}"
    what = f"{chosen.rows:,} rows over {chosen.partitions} partitions of {chosen.files:,} files each"
    show(sides, requests, f"{what}{f', {latency_ms:g} ms a request' * bool(latency_ms)}")


def to_empty(bench: Bench) -> None:
    """The same rows into a partition that holds many files, and into one that does not exist."""
    append = in_place(TableWriter(bench.lake.spark))
    sides = [Side("into nothing", "to_nothing", append), Side("into many files", "to_many", append)]
    bench.table("to_nothing", [])
    bench.table("to_many", ["day"])
    requests: dict[str, list[int]] = {side.name: [] for side in sides}
    for side in sides:
        bench.warm(side)
    for run in range(bench.chosen.runs):
        rows = orders(bench.lake.spark, bench.chosen.few_rows, NEW_TASKS, run * bench.chosen.few_rows)
        for side, day in zip(sides, (f"day-{run}", "day"), strict=True):
            requests[side.name].append(bench.measure(side, rows.withColumn("dt", F.lit(day))))
    show(sides, requests, f"{bench.chosen.few_rows:,} rows into one partition, append in place")


def in_a_row(bench: Bench) -> None:
    """Many appends to one partition, one after the other."""
    side = Side("append in place", "in_a_row", in_place(TableWriter(bench.lake.spark)))
    bench.table(side.table, ["day"])
    bench.warm(side)
    few, ten = bench.chosen.few_rows, min(10, bench.chosen.in_a_row // 2)
    frames = (
        orders(bench.lake.spark, few, NEW_TASKS, n * few).withColumn("dt", F.lit("day"))
        for n in range(bench.chosen.in_a_row)
    )
    requests = [bench.measure(side, rows) for rows in frames]
    print(f"\n{len(requests)} appends in place of {few:,} rows in a row to a partition of {bench.chosen.files:,} files")
    for name, part in (("the first", slice(ten)), ("the last", slice(-ten, None))):
        seconds = side.seconds[part]
        took = f"{mean(seconds):.2f} s each ({min(seconds):.2f} to {max(seconds):.2f})"
        print(f"{name} {ten}: {took}, {mean(requests[part]):.1f} requests each", flush=True)


def main() -> None:
    """Run the chosen cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--partitions", type=int, default=30)
    parser.add_argument("--files", type=int, default=1000, help="that each partition holds")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the cases partitions and slow")
    parser.add_argument("--few-rows", type=int, default=20_000, help="of the others")
    parser.add_argument("--in-a-row", type=int, default=100)
    parser.add_argument("--latency-ms", type=float, default=20)
    parser.add_argument("--runs", type=int, default=3)
    chosen = parser.parse_args()
    with ExitStack() as undo:
        lake = undo.enter_context(lakehouse(s3_server=best_server(), spark_conf=SETTINGS))
        scratch = ScratchDirectory("bench")
        undo.callback(scratch.remove)
        proxy = CountingProxy(lake.s3_server.endpoint_url.removeprefix("http://"), scratch.path)
        undo.callback(proxy.stop)
        bench = Bench(lake, proxy, chosen)
        cases = {
            "partitions": lambda: compare(bench, 0),
            "slow": lambda: compare(bench, chosen.latency_ms),
            "empty": lambda: to_empty(bench),
            "row": lambda: in_a_row(bench),
        }
        print(f"{best_server()}, best of {chosen.runs} runs")
        for case in chosen.cases:
            cases[case]()


if __name__ == "__main__":
    main()
