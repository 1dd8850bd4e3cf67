"""Small partitions that are rewritten whole become what a search makes of them, whatever the tables are like."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer import TableWriter
from table_writer.model.location import Location
from tests.rows.test_small_partitions import both_reads, content, is_ours, snapshot_of

Rows = Callable[..., Any]
Listed = Callable[..., list[tuple[Any, ...]]]
LIMITS: Final = (0, 1 << 20)
WRITTEN_BY: Final = b"org.apache.spark.version"


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name)


def test_a_table_may_have_columns_of_any_name(
    writer: TableWriter, spark: SparkSession, make_table: Callable[..., str], listed: Listed
) -> None:
    names = [f"{start}{number}" for start in ("partition_", "c", "p") for number in (1, 0)]
    schema = ", ".join(f"{name} STRING" for name in names)
    name = make_table(f"CREATE TABLE {{name}} ({schema}, p STRING) USING parquet PARTITIONED BY (p)")
    row = (*names, "p")
    writer.append(spark.createDataFrame([row], f"{schema}, p STRING"), name)
    ours, _ = both_reads(snapshot_of(writer, spark, name))
    assert is_ours(ours)
    assert list(map(tuple, ours.collect())) == [row]
    assert writer.update_where(name, {"c1": "upper(c1)"}, where="c0 = 'c0'").updated == 1
    assert listed(name) == [tuple("C1" if value == "c1" else value for value in row)]


def test_partitions_by_time_are_read_alike_whatever_a_timestamp_is_called(
    writer: TableWriter, spark: SparkSession, make_table: Callable[..., str]
) -> None:
    name = make_table("CREATE TABLE {name} (id BIGINT, at TIMESTAMP) USING parquet PARTITIONED BY (at)")
    writer.append(spark.sql("SELECT 1L AS id, TIMESTAMP'2024-03-10 12:00:00' AS at"), name)
    with setting(spark, "spark.sql.timestampType", "TIMESTAMP_NTZ"):
        ours, sparks = both_reads(snapshot_of(writer, spark, name))
        assert ours.schema == sparks.schema
        assert content(ours) == content(sparks)
        assert writer.merge(ours.withColumn("id", F.lit(2)), name, on=["id", "at"]).inserted == 1
    assert spark.table(name).count() == 2


@pytest.mark.parametrize(
    "notes",
    [{WRITTEN_BY: b"3.5.0", b"org.apache.spark.legacyDateTime": b""}, {WRITTEN_BY: b"2.4.8"}],
    ids=["legacy", "2.4"],
)
def test_copies_of_files_with_old_dates_are_read_by_spark(
    notes: dict[bytes, bytes], writer: TableWriter, spark: SparkSession, make_table: Callable[..., str]
) -> None:
    name = make_table("CREATE TABLE {name} (d DATE) USING parquet")
    put(writer, spark, name, pa.table({"d": pa.array([date(1500, 1, 1)])}).replace_schema_metadata(notes))
    ours, sparks = both_reads(snapshot_of(writer, spark, name))
    assert content(ours) == content(sparks) == content(spark.table(name))


def test_a_file_with_a_column_in_two_spellings_is_left_to_spark(
    writer: TableWriter, spark: SparkSession, make_table: Callable[..., str]
) -> None:
    name = make_table("CREATE TABLE {name} (n INT) USING parquet")
    columns = {"n": pa.array([1], pa.int32()), "N": pa.array([2], pa.int32())}
    put(writer, spark, name, pa.table(columns).replace_schema_metadata({WRITTEN_BY: b"4.0.0"}))
    assert not is_ours(both_reads(snapshot_of(writer, spark, name))[0])


def put(writer: TableWriter, spark: SparkSession, name: str, rows: pa.Table) -> None:
    """Put a file of another tool to where a table's rows are."""
    body = io.BytesIO()
    pq.write_table(rows, body)
    opened = snapshot_of(writer, spark, name).opened
    opened.store.put(f"{Location.parse(opened.table.location).key}other.parquet", body.getvalue())


@pytest.mark.parametrize("names", [("x", "x"), ("x", "X")], ids=repr)
@pytest.mark.parametrize("limit", LIMITS)
def test_set_takes_updates_with_two_columns_of_one_name_that_it_does_not_name(
    limit: int, names: Sequence[str], writer: TableWriter, orders: str, rows: Rows, listed: Listed
) -> None:
    writer.append(rows((1, "a", "d1")), orders)
    updates = rows((1, "A", "d1"), (2, "B", "d1")).select("*", F.lit(1), F.lit(2)).toDF("id", "note", "dt", *names)
    result = writer.merge(updates, orders, on=["id", "dt"], set={"note": "updates.note"}, search_above_bytes=limit)
    assert (result.inserted, result.updated) == (1, 1)
    assert listed(orders) == [(1, "A", "d1"), (2, "B", "d1")]


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("matched", ["update", "delete"])
def test_a_merge_leaves_a_partition_without_rows(
    limit: int, matched: Any, writer: TableWriter, spark: SparkSession, orders: str, rows: Rows
) -> None:
    writer.append(rows((1, "a", "d1"), (2, "b", "d1")), orders)
    spark.sql(f"ALTER TABLE {orders} ADD PARTITION (dt='empty')")
    updates = rows((1, "A", "d1"), (1, "A", "empty"))
    writer.merge(updates, orders, on=["id", "dt"], matched=matched, missing="ignore", search_above_bytes=limit)
    assert [row[0] for row in spark.sql(f"SHOW PARTITIONS {orders}").collect()] == ["dt=d1", "dt=empty"]


@pytest.mark.parametrize("limit", LIMITS)
def test_functions_of_set_are_asked_of_rows_of_the_table_alone(
    limit: int, writer: TableWriter, orders: str, rows: Rows, listed: Listed
) -> None:
    writer.append(rows((1, "a", "d1"), (3, "c", "d1")), orders)
    joined = F.udf(lambda present, given: present + (given or ""), "string")  # has no answer for present=None
    result = writer.merge(
        rows((1, "A", "d1"), (2, "B", "d1")),
        orders,
        on=["id", "dt"],
        set={"note": joined(F.col("target.note"), F.col("updates.note"))},
        search_above_bytes=limit,
    )
    assert (result.inserted, result.updated) == (1, 1)
    assert listed(orders) == [(1, "aA", "d1"), (2, "B", "d1"), (3, "c", "d1")]


def test_functions_and_expressions_may_ask_for_the_file_of_a_row(
    writer: TableWriter, orders: str, rows: Rows, listed: Listed
) -> None:
    def asked() -> str:
        (((_, note, _),),) = (listed(orders),)
        return str(note).rpartition("/")[2].partition("-")[0]

    writer.append(rows((1, "a", "d1")), orders)
    writer.update_where(orders, {"note": "input_file_name()"}, where="id = 1")
    assert asked() == "part"
    for column in (F.input_file_name(), F.col("_metadata.file_name")):
        writer.update_where(orders, {"note": "''"}, where="id = 1")
        writer.rewrite(orders, lambda found, asks=column: found.withColumn("note", asks))
        assert asked() == "part"


def test_the_row_of_the_last_file_is_kept(
    writer: TableWriter, spark: SparkSession, orders: str, rows: Rows, listed: Listed
) -> None:
    for note in "abc":
        writer.append(rows((1, note, "d1")), orders)
    spark.catalog.refreshTable(orders)
    last = spark.table(orders).orderBy(F.input_file_name().desc()).first()
    assert last is not None
    assert writer.deduplicate(orders, on=["id"], keep=["input_file_name() DESC"]).deleted == 2
    assert listed(orders) == [(1, last.note, "d1")]
