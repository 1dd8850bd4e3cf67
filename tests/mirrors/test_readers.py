"""Readers that nobody here wrote find in the mirror what Spark finds in the table."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from table_writer import Maintenance, TableWriter
from table_writer.errors import InvalidInputError
from tests.cells import first_fast
from tests.end_to_end.test_partition_values import VALUES
from tests.readers.tables import KINDS, Tables, modern

from .comparing import differing
from .readers import DeltaReader

MirrorOf = Callable[[str], DeltaReader]
COLUMNS: Final = ("id", "note", "dt")
DAYS: Final = tuple(f"d{number}" for number in range(4))
ENCODED: Final = {"strings", "timestamps", "padded"}  # partitions whose paths have other characters than letters
NOT_BY_PYARROW: Final = {"decimals"}  # delta-rs gives pyarrow a negative decimal of a partition as 0.0-1


@pytest.mark.parametrize("kind", first_fast(KINDS))
def test_values_of_every_type_are_those_of_the_table(
    kind: str, spark: SparkSession, tables: Tables, keeper: Maintenance, mirror_of: MirrorOf
) -> None:
    tables._types("types", KINDS[kind], modern())
    tables._types_without_spark("arrow_types", KINDS[kind], "types")
    for table in tables.made.values():
        keeper.mirror(table, as_="delta")
        names, mirror = spark.table(table).columns, mirror_of(table)
        assert differing(spark, tables.made["types"], mirror.rows(names)) == []
        assert differing(spark, table, mirror.rows_by_pyarrow(names)) == []
        assert differing(spark, table, mirror.rows_by_polars(names)) == []


@pytest.mark.parametrize("case", first_fast([case for case, (kind, _) in VALUES.items() if kind != "TIMESTAMP_NTZ"], 3))
def test_partition_values_are_those_of_the_table(
    case: str, spark: SparkSession, tables: Tables, keeper: Maintenance, mirror_of: MirrorOf
) -> None:
    kind, values = VALUES[case]
    tables._values("t", kind, values, 0)
    table = tables.made["t"]
    keeper.mirror(table, as_="delta")
    mirror = mirror_of(table)
    assert differing(spark, table, mirror.rows(["id", "p"])) == []
    if case not in NOT_BY_PYARROW:
        assert differing(spark, table, mirror.rows_by_pyarrow(["id", "p"])) == []
    if case in ENCODED:
        with pytest.raises(FileNotFoundError):  # Polars asks S3 for the path as it is encoded
            mirror.rows_by_polars(["id", "p"])
    else:
        assert differing(spark, table, mirror.rows_by_polars(["id", "p"])) == []


def test_each_call_is_a_version_with_its_rows_and_counts(
    spark: SparkSession,
    writer: TableWriter,
    keeper: Maintenance,
    make_table: Callable[..., str],
    rows: Callable[..., Any],
    content: Callable[[str], set[tuple[Any, ...]]],
    mirror_of: MirrorOf,
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, note STRING, dt STRING) USING parquet PARTITIONED BY (dt)")
    four = rows((1, "a", "d1"), (2, "b", "d2"), (3, None, "d3"), (4, "d", None))
    updates = rows((2, "merged", "d2"), (99, "new", "d9"))
    calls: Mapping[str, Callable[[], Any]] = {
        "first": lambda: writer.overwrite_partitions(four, table),
        "overwrite": lambda: writer.overwrite_partitions(rows((20, "B", "d2"), (50, "E", "d5")), table),
        "append": lambda: writer.append(rows((10, "appended", "d1")), table),
        "in place": lambda: writer.append(
            rows((60, "in place", "d2"), (61, "in place", "d6")), table, carry="in_place"
        ),
        "compact": lambda: writer.compact(table, min_files=2),
        "merge": lambda: writer.merge(updates, table, on=["dt", "id"]),
        "delete": lambda: writer.delete_where(table, "id = 1"),
        "drop": lambda: writer.overwrite_partitions(four.limit(0), table, where="dt = 'd3'", if_empty="replace"),
        "staged": lambda: writer.stage(rows((70, "staged", "d7")), table, "append").publish(),
        "rollback": lambda: keeper.rollback(table, version=2),
        "whole": lambda: writer.overwrite_table(four, table),
        "evolve": lambda: writer.append(four.withColumn("more", F.lit(1.5)), table, schema="evolve"),
    }
    seen: list[set[tuple[Any, ...]]] = []
    for name, call in calls.items():
        result = call()
        assert not [note for note in getattr(result, "notes", ()) if "mirror" in note], name
        mirror, names = mirror_of(table), spark.table(table).columns
        seen.append(content(table))
        assert set(mirror.rows(names)) == seen[-1], name
        assert set(mirror.rows_by_polars(names)) == seen[-1], name
        [(count, least, greatest)] = mirror.query("SELECT count(*), min(id), max(id) FROM mirrored")
        ids = [row[0] for row in seen[-1]]
        assert (count, least, greatest) == (len(ids), min(ids), max(ids)), name
    versions = [info["tableWriter"]["version"] for info in mirror_of(table).table().history()]
    assert versions == list(range(len(calls), 0, -1))
    for number in (0, 3, 9):
        assert set(mirror_of(table).rows(COLUMNS, number)) == seen[number]


def test_an_unpartitioned_table_with_other_columns_is_read_as_it_is(
    spark: SparkSession,
    writer: TableWriter,
    keeper: Maintenance,
    make_table: Callable[..., str],
    rows: Callable[..., Any],
    content: Callable[[str], set[tuple[Any, ...]]],
    mirror_of: MirrorOf,
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, note STRING, dt STRING) USING parquet")
    writer.overwrite_table(rows((1, "a", "x")), table)
    writer.overwrite_table(spark.sql("SELECT 7L AS Key, 'k' AS name"), table, schema="replace")
    assert set(mirror_of(table).rows(["Key", "name"])) == content(table) == {(7, "k")}
    assert mirror_of(table).rows(COLUMNS, 0) == [(1, "a", "x")]
    keeper.rollback(table, version=1)
    spark.catalog.refreshTable(table)
    assert set(mirror_of(table).rows(COLUMNS)) == content(table) == {(1, "a", "x")}


def test_a_table_that_was_handed_over_is_written_by_delta_rs_and_hive_readers_stay_where_they_were(
    writer: TableWriter,
    keeper: Maintenance,
    make_table: Callable[..., str],
    rows: Callable[..., Any],
    content: Callable[[str], set[tuple[Any, ...]]],
    mirror_of: MirrorOf,
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, note STRING, dt STRING) USING parquet PARTITIONED BY (dt)")
    writer.overwrite_partitions(rows((1, "a", "d1"), (2, "b", "d2")), table)
    before = content(table)
    keeper.handover(table, to="delta")
    keeper.handover(table, undo=True)
    with pytest.raises(Exception, match="table_writer"):  # of delta-rs: a feature of writers that it does not know
        mirror_of(table).append((9, "z", "d9"))
    writer.append(rows((3, "c", "d2")), table)
    before |= {(3, "c", "d2")}
    keeper.handover(table, to="delta")
    mirror = mirror_of(table)
    mirror.append((4, "d", "d2"), (5, "e", "d5"))
    mirror.table().delete("id = 1")
    mirror.table().optimize.compact()
    assert set(mirror.rows(COLUMNS)) == (before - {(1, "a", "d1")}) | {(4, "d", "d2"), (5, "e", "d5")}
    mirror.table().vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert content(table) == before
    with pytest.raises(InvalidInputError, match=r"written since.*another tool has made commit"):
        keeper.handover(table, undo=True)


def test_readers_of_the_mirror_see_all_partitions_of_one_generation_and_never_miss_a_file(
    spark: SparkSession, writer: TableWriter, keeper: Maintenance, make_table: Callable[..., str], mirror_of: MirrorOf
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, gen INT, dt STRING) USING parquet PARTITIONED BY (dt)")

    def generation(gen: int) -> Any:
        named = F.element_at(F.array(*map(F.lit, DAYS)), (F.col("id") % len(DAYS) + 1).cast("int"))
        return spark.range(0, 40, 1, 2).select("id", F.lit(gen).alias("gen"), named.alias("dt"))

    writer.overwrite_partitions(generation(0), table)
    mirror, ended = mirror_of(table), Event()
    seen: Counter[tuple[tuple[Any, ...], ...]] = Counter()

    def look() -> None:
        while not ended.is_set():
            seen[tuple(mirror.query("SELECT gen, count(*) FROM mirrored GROUP BY gen ORDER BY gen"))] += 1

    with ThreadPoolExecutor(1) as reader:
        looking = reader.submit(look)
        try:
            for gen in range(1, 8):
                (writer.overwrite_partitions if gen % 2 else writer.overwrite_table)(generation(gen), table)
            writer.append(generation(8), table, carry="in_place")
            writer.compact(table, min_files=2)
            keeper.rollback(table, version=3)
            keeper.vacuum(table, older_than=timedelta(seconds=20), force=True)
            time.sleep(0.2)
        finally:
            ended.set()
        looking.result()
    whole = {((gen, 40),) for gen in range(8)} | {((7, 40), (8, 40))}
    assert set(seen) <= whole
    assert sum(seen.values()) >= 10
    assert len(seen) >= 3


def test_hive_readers_and_the_doctor_are_not_disturbed(
    spark: SparkSession,
    writer: TableWriter,
    keeper: Maintenance,
    make_table: Callable[..., str],
    rows: Callable[..., Any],
    content: Callable[[str], set[tuple[Any, ...]]],
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, note STRING, dt STRING) USING parquet PARTITIONED BY (dt)")
    for number in range(2):
        writer.overwrite_partitions(rows((number, "a", "d1"), (number, "b", "d2")), table)
    spark.sql(f"MSCK REPAIR TABLE {table}")
    assert content(table) == {(1, "a", "d1"), (1, "b", "d2")}
    assert keeper.vacuum(table, older_than=timedelta(0), force=True).failures == ()
    findings = {finding.check: finding for finding in keeper.doctor(table).findings}
    assert not [finding for finding in findings.values() if "_delta_log" in str(finding)]
    assert keeper.mirror(table, as_="delta", check=True).state == "in step"
