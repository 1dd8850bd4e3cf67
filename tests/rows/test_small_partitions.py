"""Small partitions are rewritten whole, and their rows counted on the way; small files are fetched by tasks of ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer import ConflictError, RowsResult, TableWriter
from table_writer.jobs.rows.snapshot import FILE, Snapshot
from table_writer.spark import open_gateway
from tests.upload.rows_of_all_types import COLUMNS, LOCAL_TIMESTAMPS, TIMESTAMPS, table

Rows = Callable[..., Any]
Listed = Callable[..., list[tuple[Any, ...]]]
PLAIN: Final = {name: column for name, column in COLUMNS.items() if "<" not in column[0]}
OURS: Final = "MapInArrow"


def snapshot_of(writer: TableWriter, spark: SparkSession, name: str) -> Snapshot:
    return Snapshot(spark, writer._services.open_to_write(name))


def is_ours(rows: DataFrame) -> bool:
    return OURS in rows._jdf.queryExecution().analyzed().toString()


def both_reads(snapshot: Snapshot) -> tuple[DataFrame, DataFrame]:
    """Return all rows of a table as they are read usually, and by Spark."""
    files = snapshot.files_of(snapshot.selected)
    return snapshot.rows(files), snapshot.rows(files, with_file=True).drop(FILE)


def content(rows: DataFrame) -> Counter[str]:
    """Return rows as Spark spells their values: no value is beyond Python's, and NaN is NaN."""
    texts = [F.hex(name) if kind == "binary" else F.col(name).cast("string") for name, kind in rows.dtypes]
    return Counter(map(repr, rows.select(*texts).collect()))


@pytest.mark.parametrize("stored_as", ["INT96", "TIMESTAMP_MICROS"])
def test_small_files_are_read_as_spark_reads_them(
    stored_as: str, writer: TableWriter, spark: SparkSession, make_table: Callable[..., str]
) -> None:
    columns = {**PLAIN, "timestamp": TIMESTAMPS["timestamp"], "local": LOCAL_TIMESTAMPS["local"]}
    texts = F.array(*map(F.lit, ["a/b=%", "", "ü"]))
    given = table(spark, columns).withColumn("p", F.element_at(texts, F.col("row") % 3 + 1))
    given = given.withColumn("q", F.when(F.col("row") % 2 == 0, F.to_date(F.lit("1969-07-20"))))
    name = make_table(
        f"CREATE TABLE {{name}} ({', '.join(f'`{column}` {kind}' for column, kind in given.dtypes)}) USING parquet"
        f" PARTITIONED BY (p, q) TBLPROPERTIES ('parquet.compression'='zstd')"
    )
    spark.conf.set("spark.sql.parquet.outputTimestampType", stored_as)
    try:
        writer.append(given, name)
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
    ours, sparks = both_reads(snapshot_of(writer, spark, name))
    assert (is_ours(ours), is_ours(sparks)) == (True, False)
    assert ours.schema.simpleString() == sparks.schema.simpleString()
    assert content(ours) == content(sparks)
    assert content(ours).total() == given.count()


@pytest.mark.parametrize(
    ("columns", "change"),
    [
        ("id BIGINT, c CHAR(3)", ""),
        ("id BIGINT, a ARRAY<INT>", ""),
        ("id BIGINT, n INT", "ALTER TABLE {name} ADD COLUMNS (later STRING)"),
    ],
)
def test_what_needs_a_conversion_is_left_to_spark(
    columns: str, change: str, writer: TableWriter, spark: SparkSession, make_table: Callable[..., str]
) -> None:
    name = make_table(f"CREATE TABLE {{name}} ({columns}) USING parquet")
    writer.append(spark.table(name).limit(0).unionByName(spark.sql(f"SELECT {nulls(columns)}")), name)
    assert is_ours(both_reads(snapshot_of(writer, spark, name))[0]) == (columns == "id BIGINT, n INT")
    if change:
        spark.sql(change.format(name=name))
    ours, sparks = both_reads(snapshot_of(writer, spark, name))
    assert not is_ours(ours)
    assert content(ours) == content(sparks) == content(spark.table(name))


def test_files_of_other_writers_are_read_by_spark(
    writer: TableWriter, spark: SparkSession, orders: str, rows: Rows, listed: Listed
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1")), orders)
    spark.sql(f"INSERT INTO {orders} VALUES (2, 'b', 'd2')")
    snapshot = snapshot_of(writer, spark, orders)
    assert [is_ours(snapshot.rows(snapshot.files_of([(day,)]))) for day in ("d1", "d2")] == [True, False]
    assert writer.merge(rows((2, "B", "d2"), (1, "A", "d1")), orders, on=["id", "dt"]).updated == 2
    assert listed(orders) == [(1, "A", "d1"), (2, "B", "d2")]


def nulls(columns: str) -> str:
    pairs = [column.split(" ", 1) for column in columns.split(", ")]
    return ", ".join(f"CAST(NULL AS {kind.replace('CHAR(3)', 'STRING')}) AS {name}" for name, kind in pairs)


def test_a_file_that_changes_under_the_job_is_a_conflict(
    writer: TableWriter, spark: SparkSession, orders: str, rows: Rows
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1")), orders)
    snapshot = snapshot_of(writer, spark, orders)
    read, _ = both_reads(snapshot)
    ((file,),) = (files.values() for files in snapshot.files_of(snapshot.selected).values())
    snapshot.opened.store.put(file.key, b"x" * file.size_bytes)
    with pytest.raises(ConflictError, match="Its rows were to be changed"):
        open_gateway(spark).run("test", read.collect)


CHANGES: Final[list[dict[str, Any]]] = [
    {},
    {"missing": "ignore"},
    {"matched": "delete"},
    {"matched": "delete", "missing": "ignore"},
    {"set": {"note": "concat(target.note, updates.note, updates.extra)"}},
    {"set": {"note": "updates.extra"}, "missing": "ignore"},
    {"newest_by": "seq"},
    {"delete": "updates.note = 'B'"},
    {"delete": "id IN (1, 6)", "missing": "ignore"},
    {"delete": "id = 2", "matched": "ignore"},
    {"delete": "extra = '!' AND id = 1", "set": {"note": "updates.extra"}},
    {"newest_by": "seq", "set": {"seq": "updates.seq", "id": "-target.id"}},
]


@pytest.mark.parametrize("change", CHANGES, ids=repr)
def test_small_partitions_get_the_rows_and_counts_that_a_search_gives(
    change: dict[str, Any], writer: TableWriter, spark: SparkSession, make_table: Callable[..., str], listed: Listed
) -> None:
    schema = "seq INT, id BIGINT, note STRING, dt STRING"
    first = spark.createDataFrame(
        [(1, 1, "a", "d1"), (2, 1, "double", "d1"), (None, 2, None, "d1"), (5, None, "x", "d1"), (1, 3, "c", None)],
        schema,
    )
    second = spark.createDataFrame([(9, 4, "late", "d1"), (1, 5, "other", "d5")], schema)
    given = [(3, 1, "A", "d1"), (3, 2, "B", "d1"), (3, 4, "old", "d1"), (3, 6, "new", "d1"), (3, 7, "new", "d9")]
    updates = spark.createDataFrame(given, schema)
    updates = updates.withColumn("extra", F.lit("!")) if "set" in change else updates
    found: list[tuple[Any, ...]] = []
    for limit in (0, 1 << 20):
        name = make_table(f"CREATE TABLE {{name}} ({schema}) USING parquet PARTITIONED BY (dt)", f"t{limit}")
        writer.append(first.coalesce(1), name)
        writer.append(second.coalesce(1), name)
        result: RowsResult = writer.merge(updates, name, on=["id", "dt"], search_above_bytes=limit, **change)
        found.append((listed(name), result.inserted, result.updated, result.deleted))
    assert found[0] == found[1]
    assert result.replaced_files == 2
    assert sum(filter(None, found[0][1:])) > 0


def test_a_merge_that_finds_nothing_to_change_leaves_no_file(
    writer: TableWriter, spark: SparkSession, make_table: Callable[..., str], keys_below: Callable[..., Any]
) -> None:
    name = make_table("CREATE TABLE {name} (id BIGINT, seq INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    rows = spark.createDataFrame([(1, 5, "d1"), (2, 5, "d2")], "id BIGINT, seq INT, dt STRING")
    before = writer.append(rows, name)
    result = writer.merge(rows.withColumn("seq", F.lit(3)), name, on=["id", "dt"], newest_by="seq")
    assert (result.version, result.inserted, result.updated, result.deleted) == (None, 0, 0, 0)
    assert {key.split("/")[-3] for key in keys_below(name) if key.endswith(".parquet")} == {before.write_id}
