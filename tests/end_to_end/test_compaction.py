"""Compactions on real parts: fewer files with the same rows, of every type and format, beside readers and appends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from table_writer import CheckFailedError, InvalidInputError, TableWriter
from table_writer.jobs.compaction import Compaction, SmallFiles, spread
from table_writer.model.table import Partition
from table_writer.storage.object_store import ObjectInfo

MIB = 1024 * 1024

Rows = Callable[..., Any]
Content = Callable[[str], set[tuple[Any, ...]]]


def slow(name: str) -> Any:
    return pytest.param(name, marks=pytest.mark.slow)


def listed(spark: SparkSession, table: str) -> list[tuple[Any, ...]]:
    spark.catalog.refreshTable(table)
    return sorted(tuple(map(spelled, row)) for row in spark.table(table).collect())


def spelled(value: object) -> str:
    return str(sorted(map(str, value.items())) if isinstance(value, dict) else value)


def scatter(spark: SparkSession, table: str, count: int = 6) -> None:
    """Write so many small files to each of two partitions, as another tool does."""
    rows = spark.range(0, 10 * count, 1, count).selectExpr("id", "concat('n', id) AS note", "concat('d', id % 2) AS dt")
    rows.write.insertInto(table)


@pytest.mark.connect
def test_small_files_become_one_and_all_rows_stay(spark: SparkSession, writer: TableWriter, orders: str) -> None:
    scatter(spark, orders)
    before = listed(spark, orders)
    report = writer.compact(orders, min_files=2)
    assert listed(spark, orders) == before
    assert [(one.name, one.rows, one.files_before, one.files_after) for one in report.partitions] == [
        ("dt=d0", 30, 6, 1),
        ("dt=d1", 30, 6, 1),
    ]
    assert report.version == 1
    assert int(report.checksum) != 0
    assert writer.compact(orders, min_files=2).to_text() == f"{orders}: nothing to compact"
    (version,) = writer.maintenance.history(orders).versions
    assert (version.operation, version.compacted_count) == ("compact", 2)


def test_a_dry_run_says_the_same_and_writes_nothing(spark: SparkSession, writer: TableWriter, orders: str) -> None:
    scatter(spark, orders)
    report = writer.compact(orders, min_files=2, where="dt = 'd1'", dry_run=True)
    assert report.to_text().splitlines()[0] == f"{orders}: would have 1 partition in 1 file instead of 6"
    assert writer.maintenance.history(orders).versions == ()


@pytest.mark.slow
@pytest.mark.connect
def test_large_files_stay_and_a_partition_may_become_several(
    spark: SparkSession, writer: TableWriter, orders: str
) -> None:
    wide = spark.range(0, 400_000, 1, 4).selectExpr("id", "sha2(CAST(id AS STRING), 512) AS note", "'d0' AS dt")
    writer.append(wide, orders)
    scatter(spark, orders)
    before = spark.table(orders).selectExpr("count(1)", "sum(hash(id, note, dt))").head()
    report = writer.compact(orders, min_files=2, target_file_bytes=8 * 1024 * 1024)
    spark.catalog.refreshTable(orders)
    assert spark.table(orders).selectExpr("count(1)", "sum(hash(id, note, dt))").head() == before
    assert [(one.name, one.files_before, one.files_after) for one in report.partitions] == [
        ("dt=d0", 10, 5),
        ("dt=d1", 6, 1),
    ]


def test_thousands_of_partitions_may_each_become_several(spark: SparkSession, writer: TableWriter, orders: str) -> None:
    opened = writer._services.open_to_write(orders)
    file = ObjectInfo(key="a", size_bytes=3 * MIB, etag="", modified_at=datetime(2026, 1, 1, tzinfo=UTC))
    chosen = [
        SmallFiles(
            partition=Partition(values=(f"d'{number}",), location="s3a://lake/a/", parameters={}),
            files=(file, file),
            file_count=2,
            target_file_bytes=MIB,
        )
        for number in range(3_000)
    ]
    rows = spark.sql("""SELECT 1L AS id, 'x' AS note, "d'7" AS dt UNION ALL SELECT 2L, 'y', NULL""")
    spread_out, distribution = spread(opened, rows, chosen)
    assert distribution == "none"
    assert sorted(row["id"] for row in spread_out.collect()) == [1, 2]


def by_tasks(options: str) -> Any:
    """Return the engine whose tasks write a file each."""
    return "arrow" if "parquet" in options.lower() else "spark"


@pytest.mark.parametrize("options", [*map(slow, ["USING orc"]), "STORED AS TEXTFILE", "USING parquet"])
def test_every_format_and_type(
    spark: SparkSession, writer: TableWriter, make_table: Callable[..., str], options: str
) -> None:
    columns = (
        "id BIGINT, amount DECIMAL(12,3), at TIMESTAMP, tags MAP<STRING,INT>, raw MAP<BINARY,ARRAY<INT>>,"
        " `inner` STRUCT<a:INT,b:ARRAY<DOUBLE>>,"
        " word VARCHAR(9), day DATE"
    )
    is_hive = options.startswith("STORED")
    ddl = (
        f"({columns}) PARTITIONED BY (part INT) {options}"
        if is_hive
        else f"({columns}, part INT) {options} PARTITIONED BY (part)"
    )
    table = make_table(f"CREATE TABLE {{name}} {ddl}")
    rows = spark.range(0, 40, 1, 5).selectExpr(
        "id",
        "CAST(id / 7 AS DECIMAL(12,3)) AS amount",
        "timestamp_seconds(id * 1e6 + 0.123456) AS at",
        "map(concat('k', id), CAST(id AS INT)) AS tags",
        "map(unhex('0A'), array(1, NULL), unhex('0B'), array()) AS raw",
        "named_struct('a', CAST(id AS INT), 'b', array(CAST(id AS DOUBLE), double('NaN'), -0.0D)) AS `inner`",
        "if(id % 3 = 0, NULL, concat('w', id)) AS word",
        "date_add(DATE '1969-12-30', CAST(id AS INT)) AS day",
        "CAST(id % 2 AS INT) AS part" if is_hive else "CAST(if(id % 2 = 0, NULL, id % 4) AS INT) AS part",
    )
    writer.overwrite_table(rows, table, engine=by_tasks(options))
    before = listed(spark, table)
    report = writer.compact(table, min_files=2)
    assert listed(spark, table) == before
    assert {one.files_after for one in report.partitions} == {1}


@pytest.mark.parametrize("kind", ["DOUBLE", *map(slow, ["DECIMAL(8,2)", "TIMESTAMP", "BOOLEAN"]), "STRING"])
def test_every_type_of_partition(
    spark: SparkSession, writer: TableWriter, make_table: Callable[..., str], kind: str
) -> None:
    stored = "STORED AS TEXTFILE" if kind == "STRING" else "STORED AS PARQUET"
    table = make_table(f"CREATE TABLE {{name}} (id BIGINT) PARTITIONED BY (part {kind}) {stored}")
    value = "CAST(timestamp_seconds(id % 2) AS TIMESTAMP)" if kind == "TIMESTAMP" else f"CAST(id % 2 AS {kind})"
    rows = spark.range(0, 40, 1, 4).selectExpr("id", f"if(id = 7 AND '{kind}' = 'STRING', NULL, {value}) AS part")
    writer.overwrite_table(rows, table, engine=by_tasks(stored))
    before = listed(spark, table)
    assert {one.files_after for one in writer.compact(table, min_files=2).partitions} == {1}
    assert listed(spark, table) == before


def test_an_unpartitioned_table(spark: SparkSession, writer: TableWriter, make_table: Callable[..., str]) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, note STRING) USING parquet")
    for number in range(3):
        writer.append(spark.createDataFrame([(number, "x")], "id BIGINT, note STRING"), table, carry="in_place")
    report = writer.compact(table, min_files=2)
    assert [(one.name, one.files_before, one.files_after) for one in report.partitions] == [("", 3, 1)]
    assert len(listed(spark, table)) == 3


@pytest.mark.slow
@pytest.mark.connect
def test_a_reader_sees_all_rows_all_the_time_and_an_append_comes_along(
    spark: SparkSession,
    another_session: SparkSession,
    writer: TableWriter,
    orders: str,
    rows: Rows,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scatter(spark, orders)
    counts: list[int] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            another_session.catalog.refreshTable(orders)
            counts.append(another_session.table(orders).where("note != 'late'").count())

    checked = Compaction.require_same

    def append_then_check(self: Compaction, *arguments: Any) -> None:
        writer.append(rows((1000, "late", "d0")), orders, carry="in_place")
        checked(self, *arguments)

    monkeypatch.setattr(Compaction, "require_same", append_then_check)
    reader = threading.Thread(target=read)
    reader.start()
    report = writer.compact(orders, min_files=2)
    done.set()
    reader.join()
    assert set(counts) == {60}
    assert {one.name: one.files_after for one in report.partitions} == {"dt=d0": 2, "dt=d1": 1}
    assert len(listed(spark, orders)) == 61


def test_rows_that_differ_are_not_published(
    spark: SparkSession, writer: TableWriter, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scatter(spark, orders)
    before = listed(spark, orders)
    with_fingerprint = Compaction.with_fingerprint
    monkeypatch.setattr(
        Compaction, "with_fingerprint", lambda self, found: with_fingerprint(self, found).where("id != 7")
    )
    with pytest.raises(CheckFailedError, match="60 rows"):
        writer.compact(orders, min_files=2)
    assert listed(spark, orders) == before
    assert writer.maintenance.history(orders).versions == ()


def test_a_bad_predicate_and_bad_numbers_are_refused(writer: TableWriter, orders: str) -> None:
    with pytest.raises(InvalidInputError, match="no predicate over the partition columns"):
        writer.compact(orders, where="id > 3")
    with pytest.raises(InvalidInputError, match="min_files"):
        writer.compact(orders, min_files=1)
