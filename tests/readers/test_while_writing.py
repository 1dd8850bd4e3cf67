"""Trino reads a table all the time while every kind of call changes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Final

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from table_writer import Maintenance, StorageError, TableWriter, TableWriterConfig, read_arrow
from table_writer.testing import Lakehouse

from .tables import KINDS
from .trino import CACHE_SECONDS, CATALOGS, TrinoServer
from .watching import Content, Watched

DAYS = tuple(f"d{number}" for number in range(6))
ROWS = 40


def rows(spark: SparkSession, gen: int, days: tuple[str, ...] = DAYS) -> DataFrame:
    """Rows of one generation, in two files of each partition: tasks write what is sorted, however few it is."""
    named = F.element_at(F.array(*map(F.lit, days)), (F.col("id") % len(days) + 1).cast("int"))
    of_two_tasks = spark.range(0, ROWS * len(days), 1, 2).sortWithinPartitions("id")
    return of_two_tasks.select(F.col("id"), F.lit(gen).alias("gen"), named.alias("dt"))


def content(*gens: int, days: tuple[str, ...] = DAYS) -> Content:
    return {dt: dict.fromkeys(gens, ROWS) for dt in days}


def remembered_table(spark: SparkSession, name: str) -> str:
    spark.sql(f"CREATE TABLE {name} (id BIGINT, gen INT) PARTITIONED BY (dt STRING) STORED AS PARQUET")
    return name


def seen(trino: TrinoServer, table: str, catalog: str) -> Content:
    found: dict[str, dict[int, int]] = {}
    for dt, gen, count in trino.rows(f"SELECT dt, gen, count(*) FROM {table} GROUP BY dt, gen", catalog):
        found.setdefault(dt, {})[gen] = count
    return found


CHANGES: Final[Mapping[str, tuple[Callable[..., object], Content, str]]] = {
    "overwritten": (TableWriter.overwrite_partitions, content(2), "remembers_partitions"),
    "grown": (partial(TableWriter.append, carry="in_place"), content(1, 2), "remembers_files"),
}
"""How a table changes, what it holds then, and who sees the rows from before."""


@pytest.mark.parametrize("kind", KINDS)
def test_trino_sees_each_partition_whole_and_no_old_rows_after_a_call_has_ended(
    kind: str, spark: SparkSession, trino: TrinoServer, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = f"{database}.watched_{kind}"
    columns = "id BIGINT, gen INT, dt STRING"
    inner, by = (columns, "PARTITIONED BY (dt)") if kind == "using" else (columns[:-11], "PARTITIONED BY (dt STRING)")
    spark.sql(f"CREATE TABLE {table} ({inner}) {KINDS[kind].format(by=by)}")
    writer = TableWriter(spark)
    keeper = Maintenance(services=writer._services)
    watched = Watched(table, (*DAYS, "d9"))
    less = {dt: gens for dt, gens in content(7, 8, 9).items() if dt != "d5"}
    watched.changes("first", lambda: writer.overwrite_partitions(rows(spark, 1), table), content(1))
    with watched.read_by(trino):
        for gen in (2, 3):
            new = rows(spark, gen)
            watched.changes("overwrite", lambda new=new: writer.overwrite_partitions(new, table), content(gen))
        watched.changes("overwrite_table", lambda: writer.overwrite_table(rows(spark, 4), table), content(4))
        watched.changes("append", lambda: writer.append(rows(spark, 5), table), content(4, 5))
        watched.changes("rollback", lambda: keeper.rollback(table, version=2), content(2))
        staged = writer.stage(rows(spark, 7), table)
        watched.changes("publish", staged.publish, content(7))
        in_place = [writer.stage(rows(spark, gen), table, "append", carry="in_place") for gen in (8, 9)]
        watched.changes("in place", in_place[0].publish, content(7, 8), file_by_file=True)
        watched.changes("in place", in_place[1].publish, content(7, 8, 9), file_by_file=True)
        watched.changes("compact", lambda: writer.compact(table, min_files=2), content(7, 8, 9))
        nothing = rows(spark, 0).limit(0)
        emptied = {"where": "dt = 'd5'", "if_empty": "replace"}
        watched.changes("drop", lambda: writer.overwrite_partitions(nothing, table, **emptied), less, drops=True)
        more = {**less, "d9": {10: ROWS}}
        watched.changes("create", lambda: writer.create_partitions(rows(spark, 10, ("d9",)), table), more)
        aged = timedelta(seconds=10)
        watched.changes("vacuum", lambda: keeper.vacuum(table, older_than=aged, force=True), more)
    counts = watched.counts()
    with capsys.disabled():
        print(f"\n{kind}: {len(watched.answers)} queries of Trino during {len(watched.states)} calls: {dict(counts)}")
    assert watched.unexplained() == []
    assert counts["half"] == counts["stale"] == 0
    assert counts["whole"] >= 5, "a reader that has seen nothing proves nothing; mixed ones nobody has promised away"


@pytest.mark.parametrize("change", CHANGES)
def test_who_remembers_what_a_change_leaves_behind_sees_old_rows_whole_and_nobody_else_does(
    change: str, spark: SparkSession, trino: TrinoServer, database: str
) -> None:
    call, new, late = CHANGES[change]
    table = remembered_table(spark, f"{database}.{change}")
    writer = TableWriter(spark)
    writer.overwrite_partitions(rows(spark, 1), table)
    assert all(seen(trino, table, catalog) == content(1) for catalog in CATALOGS)
    call(writer, rows(spark, 2), table)
    changed = time.monotonic()
    expected = {catalog: content(1) if catalog == late else new for catalog in CATALOGS}
    assert {catalog: seen(trino, table, catalog) for catalog in CATALOGS} == expected
    while seen(trino, table, late) != new:
        assert time.monotonic() - changed < CACHE_SECONDS + 10
        time.sleep(0.5)
    assert time.monotonic() - changed > CACHE_SECONDS / 2


def test_partitions_that_trino_remembers_are_empty_without_an_error_once_a_vacuum_has_their_files(
    spark: SparkSession, trino: TrinoServer, database: str
) -> None:
    table = remembered_table(spark, f"{database}.vacuumed")
    writer = TableWriter(spark)
    writer.overwrite_partitions(rows(spark, 1), table)
    assert seen(trino, table, "remembers_partitions") == content(1)
    writer.overwrite_partitions(rows(spark, 2, DAYS[:1]), table)
    Maintenance(services=writer._services).vacuum(table, older_than=timedelta(0), force=True)
    assert seen(trino, table, "hive") == content(1) | content(2, days=DAYS[:1])
    assert seen(trino, table, "remembers_partitions") == content(1, days=DAYS[1:])


def test_flushing_what_trino_remembers_shows_the_new_rows(
    spark: SparkSession, trino: TrinoServer, database: str
) -> None:
    table = remembered_table(spark, f"{database}.flushed")
    writer = TableWriter(spark)
    for gen in (1, 2):
        writer.overwrite_partitions(rows(spark, gen), table)
        trino.rows("CALL system.flush_metadata_cache()", "remembers_partitions")
        assert seen(trino, table, "remembers_partitions") == content(gen)


def test_a_dataset_keeps_its_rows_until_a_vacuum_takes_the_files(
    spark: SparkSession, database: str, lakehouse: Lakehouse
) -> None:
    table = f"{database}.kept"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, gen INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    writer = TableWriter(spark)
    writer.overwrite_partitions(rows(spark, 1), table)
    config = TableWriterConfig(hadoop=lakehouse.s3_server.hadoop_settings())
    dataset = read_arrow(table, metastore_uri=lakehouse.metastore_uri, config=config)
    writer.overwrite_partitions(rows(spark, 2), table)
    assert dataset.to_table()["gen"].unique().to_pylist() == [1]
    Maintenance(services=writer._services).vacuum(table, older_than=timedelta(0), force=True)
    with pytest.raises(StorageError, match="a vacuum has deleted it"):
        dataset.to_table()
