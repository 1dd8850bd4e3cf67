"""Readers of Iceberg that nobody here wrote find in the mirror what Spark finds in the table."""

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

from table_writer import Maintenance, TableWriter, TableWriterConfig
from table_writer.errors import InvalidInputError
from table_writer.testing import Lakehouse
from tests.cells import first_fast
from tests.end_to_end.test_partition_values import VALUES
from tests.readers.tables import KINDS, Tables, modern

from .comparing import differing
from .iceberg_readers import IcebergReader
from .test_readers import DAYS

COLUMNS: Final = ("id", "note", "dt")
MirrorOf = Callable[[str], IcebergReader]


@pytest.fixture(autouse=True)
def _planned_by_pyiceberg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")  # else Polars warns that it has no other


@pytest.fixture
def iceberg_writer(spark: SparkSession) -> TableWriter:
    return TableWriter(spark, config=TableWriterConfig(mirrors=["iceberg"]))


@pytest.fixture
def mirror_of(lakehouse: Lakehouse) -> MirrorOf:
    return lambda table: IcebergReader(lakehouse, table)


@pytest.mark.parametrize("kind", first_fast(KINDS))
def test_values_of_every_type_are_those_of_the_table(
    kind: str, spark: SparkSession, tables: Tables, keeper: Maintenance, mirror_of: MirrorOf
) -> None:
    tables._types("types", KINDS[kind], modern())
    table = tables.made["types"]
    keeper.mirror(table, as_="iceberg")
    names, mirror = spark.table(table).columns, mirror_of(table)
    assert differing(spark, table, mirror.rows_by_polars(names)) == []
    different = {column for column in names if differing(spark, table, mirror.rows([column]), [column])}
    assert different == {"array_of_structs"}, "pyiceberg reads a null array of structs as an empty one"


@pytest.mark.parametrize(
    "case", first_fast([case for case, (kind, _) in VALUES.items() if kind not in {"TIMESTAMP_NTZ", "DOUBLE"}], 3)
)
def test_partition_values_are_those_of_the_table(
    case: str, spark: SparkSession, tables: Tables, keeper: Maintenance, mirror_of: MirrorOf
) -> None:
    kind, values = VALUES[case]
    tables._values("t", kind, values, 0)
    table = tables.made["t"]
    keeper.mirror(table, as_="iceberg")
    mirror = mirror_of(table)
    assert differing(spark, table, mirror.rows(["id", "p"])) == []
    assert differing(spark, table, mirror.rows_by_polars(["id", "p"])) == []


def test_a_table_that_is_partitioned_by_doubles_is_refused_in_words(tables: Tables, keeper: Maintenance) -> None:
    tables._values("t", "DOUBLE", ["1.1"], 0)
    with pytest.raises(InvalidInputError, match="partitioned by p, a double"):
        keeper.mirror(tables.made["t"], as_="iceberg")


def test_each_call_is_a_snapshot_with_its_rows_and_statistics(
    spark: SparkSession,
    iceberg_writer: TableWriter,
    keeper: Maintenance,
    make_table: Callable[..., str],
    rows: Callable[..., Any],
    content: Callable[[str], set[tuple[Any, ...]]],
    mirror_of: MirrorOf,
) -> None:
    writer = iceberg_writer
    keeper = Maintenance(services=writer._services)
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
        expected = {row for row in seen[-1] if row[0] >= 50}
        assert set(mirror.rows(names, where="id >= 50")) == expected, name
        assert mirror.table().scan().count() == len(seen[-1]), name
    snapshots = mirror_of(table).table().snapshots()
    versions = [int(found.summary["table_writer.version"]) for found in snapshots if found.summary]
    assert versions == list(range(1, len(calls) + 1))
    for number in (0, 3, 9):
        assert set(mirror_of(table).rows(COLUMNS, snapshots[number].snapshot_id)) == seen[number]


def test_an_unpartitioned_table_with_other_columns_is_read_as_it_is(
    spark: SparkSession,
    iceberg_writer: TableWriter,
    make_table: Callable[..., str],
    rows: Callable[..., Any],
    content: Callable[[str], set[tuple[Any, ...]]],
    mirror_of: MirrorOf,
) -> None:
    keeper = Maintenance(services=iceberg_writer._services)
    table = make_table("CREATE TABLE {name} (id BIGINT, note STRING, dt STRING) USING parquet")
    iceberg_writer.overwrite_table(rows((1, "a", "x")), table)
    iceberg_writer.overwrite_table(spark.sql("SELECT 7L AS Key, 'k' AS name"), table, schema="replace")
    mirror = mirror_of(table)
    assert set(mirror.rows(["Key", "name"])) == content(table) == {(7, "k")}
    assert mirror.rows(COLUMNS, mirror.table().snapshots()[0].snapshot_id) == [(1, "a", "x")]
    keeper.rollback(table, version=1)
    spark.catalog.refreshTable(table)
    assert set(mirror.rows(COLUMNS)) == content(table) == {(1, "a", "x")}


def test_readers_of_the_mirror_see_all_partitions_of_one_generation_and_never_miss_a_file(
    spark: SparkSession, iceberg_writer: TableWriter, make_table: Callable[..., str], mirror_of: MirrorOf
) -> None:
    writer, keeper = iceberg_writer, Maintenance(services=iceberg_writer._services)
    table = make_table("CREATE TABLE {name} (id BIGINT, gen INT, dt STRING) USING parquet PARTITIONED BY (dt)")

    def generation(gen: int) -> Any:
        named = F.element_at(F.array(*map(F.lit, DAYS)), (F.col("id") % len(DAYS) + 1).cast("int"))
        return spark.range(0, 40, 1, 2).select("id", F.lit(gen).alias("gen"), named.alias("dt"))

    writer.overwrite_partitions(generation(0), table)
    mirror, ended = mirror_of(table), Event()
    seen: Counter[tuple[tuple[int, int], ...]] = Counter()

    def look() -> None:
        while not ended.is_set():
            counts = Counter(gen for (gen,) in mirror.rows(["gen"]))
            seen[tuple(sorted(counts.items()))] += 1

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
    iceberg_writer: TableWriter,
    make_table: Callable[..., str],
    rows: Callable[..., Any],
    content: Callable[[str], set[tuple[Any, ...]]],
) -> None:
    keeper = Maintenance(services=iceberg_writer._services)
    table = make_table("CREATE TABLE {name} (id BIGINT, note STRING, dt STRING) USING parquet PARTITIONED BY (dt)")
    for number in range(2):
        iceberg_writer.overwrite_partitions(rows((number, "a", "d1"), (number, "b", "d2")), table)
    spark.sql(f"MSCK REPAIR TABLE {table}")
    assert content(table) == {(1, "a", "d1"), (1, "b", "d2")}
    assert keeper.vacuum(table, older_than=timedelta(0), force=True).failures == ()
    assert not [finding for finding in keeper.doctor(table).findings if "_iceberg" in str(finding)]
    assert keeper.mirror(table, as_="iceberg", check=True).state == "in step"
    assert keeper.mirror(table, as_="iceberg", drop=True).state == "dropped"
    assert keeper.mirror(table, as_="iceberg", check=True).state == "absent"
    assert not spark.catalog.tableExists(f"{table}_iceberg")
