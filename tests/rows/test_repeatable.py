"""What a change has found is what it writes, whoever computes it, how often, and whatever the time is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer import ConflictError, InvalidInputError, Maintenance, TableWriter
from table_writer.jobs.rows import merge
from table_writer.jobs.rows.expressions import blank, predicate_of

Rows = Callable[..., Any]
Listed = Callable[[str], list[tuple[Any, ...]]]
TEXT = "CREATE TABLE {name} (id BIGINT, note STRING) PARTITIONED BY (dt STRING) STORED AS TEXTFILE"


def live(spark: SparkSession, counter: Path, first: list[Any], later: list[Any], reads: int) -> DataFrame:
    """Return a source that is read anew by each job, as JDBC is: it has other rows after so many reads."""
    path = str(counter)

    def read(_: int) -> list[Any]:
        with open(path, "a+") as file:  # noqa: PTH123  # on an executor
            file.write("x")
            return first if file.tell() <= reads else later

    source = spark.sparkContext.parallelize([0], 1).flatMap(read)
    return spark.createDataFrame(source, "id BIGINT, note STRING, dt STRING")


def flaky(counter: Path, reads: int) -> Callable[[Column], Column]:
    """Return a condition in Python that finds row 0 so often, and then row 1."""
    path = str(counter)

    def is_hit(number: int) -> bool:
        with open(path, "a+") as file:  # noqa: PTH123  # on an executor
            file.write("x")
            return number in ([0] if file.tell() <= reads else [0, 1])

    return F.udf(is_hit, "boolean", useArrow=False)


@pytest.mark.parametrize("reads", [1, 2, 3])
def test_updates_are_computed_once(
    reads: int, writer: TableWriter, spark: SparkSession, orders: str, rows: Rows, listed: Listed, tmp_path: Path
) -> None:
    writer.append(rows((1, "a", "d1"), (2, "a", "d1")), orders)
    first, later = [(1, "U", "d1"), (9, "new", "d1")], [(1, "U", "d1"), (2, "U", "d1")]
    result = writer.merge(live(spark, tmp_path / "reads", first, later, reads), orders, on=["dt", "id"])
    assert (result.inserted, result.updated) == (1, 1)
    assert listed(orders) == [(1, "U", "d1"), (2, "a", "d1"), (9, "new", "d1")]


def test_rows_that_come_without_having_been_counted_publish_nothing(
    writer: TableWriter,
    spark: SparkSession,
    orders: str,
    rows: Rows,
    listed: Listed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(merge, "_computed_once", lambda _, updates: (updates, ()))
    writer.append(rows((1, "a", "d1")), orders)
    first = [(1, "U", "d1"), (9, "new", "d1")]
    words = "1 to insert, and then 3 rows came: what it was given differs"
    with pytest.raises(InvalidInputError, match=words):
        updates = live(spark, tmp_path / "reads", first, [*first, (2, "U", "d1")], 2)
        writer.merge(updates, orders, on=["dt", "id"], search_above_bytes=0)
    assert listed(orders) == [(1, "a", "d1")]


def test_updates_at_random_are_merged(writer: TableWriter, orders: str, rows: Rows, listed: Listed) -> None:
    writer.append(rows((1, "a", "d1")), orders)
    updates = rows((1, "A", "d1"), (2, "B", "d1")).withColumn("id", F.when(F.rand() < 0.5, F.col("id")).otherwise(7))
    at_random = updates.dropDuplicates(["id"])
    result = writer.merge(at_random, orders, on=["id"])
    found = [row[0] for row in listed(orders)]
    assert len(found) == len(set(found)) == 1 + (result.inserted or 0)


def test_old_rows_of_the_table_that_a_session_keeps_are_no_updates(
    writer: TableWriter, spark: SparkSession, orders: str, rows: Rows, listed: Listed
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1")), orders)
    spark.catalog.refreshTable(orders)
    updates = spark.table(orders).withColumn("note", F.upper("note")).cache()
    assert updates.count() == 1
    staged = writer.stage(rows((1, "newer", "d1")), orders, mode="overwrite_partitions")
    Maintenance(services=writer._services).publish(orders, staged.write_id)  # as a process without Spark does
    with pytest.raises(ConflictError, match="not from what its readers see now: 1 partition"):
        writer.merge(updates, orders, on=["dt", "id"])
    updates.unpersist()
    assert listed(orders) == [(1, "newer", "d1")]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE {name} (id BIGINT, note STRING, dt STRING) USING parquet PARTITIONED BY (dt)",
        pytest.param(TEXT, marks=pytest.mark.slow),
    ],
)
def test_a_predicate_in_python_finds_the_file_of_its_row(
    statement: str, writer: TableWriter, make_table: Callable[..., str], rows: Rows, listed: Listed
) -> None:
    table = make_table(statement)
    for number in range(5):
        writer.append(rows((number, "a", "d1")), table)
    is_equal = F.udf(lambda given, wanted: given == wanted, "boolean")
    result = writer.update_where(table, {"note": "'X'"}, where=is_equal(F.col("id"), F.lit(0)))
    assert (result.updated, result.replaced_files) == (1, 1)
    result = writer.delete_where(table, is_equal(F.col("id"), F.lit(1)))
    assert (result.deleted, result.replaced_files) == (1, 1)
    assert listed(table) == [(0, "X", "d1"), (2, "a", "d1"), (3, "a", "d1"), (4, "a", "d1")]


def test_an_update_of_other_rows_than_were_found_publishes_nothing(
    writer: TableWriter, orders: str, rows: Rows, listed: Listed, tmp_path: Path
) -> None:
    writer.append(rows((0, "a", "d1"), (1, "a", "d1")).coalesce(1), orders)
    where = flaky(tmp_path / "asked", 2)(F.col("id"))
    with pytest.raises(InvalidInputError, match="differs each time it is computed"):
        writer.update_where(orders, {"note": "'X'"}, where=where)
    assert listed(orders) == [(0, "a", "d1"), (1, "a", "d1")]


def test_an_update_by_a_subquery_moves_rows(
    writer: TableWriter, spark: SparkSession, orders: str, rows: Rows, listed: Listed
) -> None:
    writer.append(rows((0, "a", "d1"), (1, "b", "d2")), orders)
    writer.append(rows((2, "a", "d1")), orders)
    spark.range(2).createOrReplaceTempView("wanted")
    where = "EXISTS (SELECT 1 FROM wanted WHERE wanted.id = orders.id)"
    assert writer.update_where(orders, {"note": "orders.note || id", "dt": "'d9'"}, where=where).updated == 2
    assert listed(orders) == [(0, "a0", "d9"), (1, "b1", "d9"), (2, "a", "d1")]


@pytest.mark.connect
@pytest.mark.parametrize(
    "predicate",
    [
        "at < current_timestamp()",
        "at < now()",
        "at < localtimestamp()",
        "CAST(at AS DATE) = current_date",
        "unix_timestamp() > 7",
        "at < TIMESTAMP 'now'",
        "CAST(at AS DATE) = date'today'",
        "at < 'now'",
        "CAST(at AS DATE) < CAST(' Tomorrow' AS DATE)",
        "at < (SELECT max(now()) FROM range(2))",
        "F.current_timestamp() > F.col('at')",
        "F.expr('at') < F.expr(\"timestamp'now'\")",
    ],
)
def test_a_predicate_does_not_ask_the_clock(spark: SparkSession, predicate: str) -> None:
    frame = blank(spark, spark.range(1).selectExpr("id", "current_timestamp() AS at").schema)
    given = eval(predicate) if predicate.startswith("F.") else predicate  # noqa: S307
    with pytest.raises(InvalidInputError, match="each time it is asked: write the value out"):
        predicate_of(frame, given, "where")


@pytest.mark.connect
@pytest.mark.parametrize(
    ("predicate", "is_pure"),
    [
        ("at < TIMESTAMP '2024-01-01' AND id = 1", True),
        ("now IN ('today', 'tomorrow') OR id = 1", True),
        ("id IN (SELECT id FROM range(2) AS other WHERE other.id = named.id)", False),
        ("F.udf(lambda number: number > 1, 'boolean')(F.col('id'))", False),
    ],
)
def test_what_a_predicate_asks_is_known(spark: SparkSession, predicate: str, is_pure: bool) -> None:
    schema = spark.range(1).selectExpr("id", "current_timestamp() AS at", "'' AS now").schema
    frame = blank(spark, schema).alias("named")
    given = eval(predicate) if predicate.startswith("F.") else predicate  # noqa: S307
    assert predicate_of(frame, given, "where").is_pure is is_pure


def test_values_that_are_set_are_of_one_moment(
    writer: TableWriter, spark: SparkSession, make_table: Callable[..., str], listed: Listed
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, at TIMESTAMP) USING parquet")
    writer.append(spark.range(0, 100, 1, 4).selectExpr("id", "TIMESTAMP '2024-01-01' AS at"), table)
    assert writer.update_where(table, {"at": "current_timestamp()"}, where="id < 90").updated == 90
    assert len({row[1] for row in listed(table)}) == 2


@pytest.mark.slow
def test_a_partition_into_which_another_tool_has_written_is_named_with_what_to_do(
    writer: TableWriter, orders: str, rows: Rows, listed: Listed
) -> None:
    writer.append(rows((1, "a", "d1"), (4, "d", None)), orders)
    rows((2, "b", "d1")).write.insertInto(orders)
    writer.append(rows((3, "c", "d2")), orders)
    words = (
        r"dt=d1 of \S+orders does not hold the files of version 2: another tool has added or deleted some: .* Replace"
        r" all of its rows with overwrite_partitions, or leave it out: add NOT \(`dt` <=> 'd1'\) to {}\.$"
    )
    change = {"note": "upper(note)"}
    is_even = F.udf(lambda number: number % 2 == 0, "boolean")(F.col("id"))
    with pytest.raises(InvalidInputError, match=words.format("the predicate, in a classic session")):
        writer.delete_where(orders, "id = 1")
    with pytest.raises(InvalidInputError, match=words.format("where, in a classic session")):
        writer.update_where(orders, change, where=is_even)
    for call in (
        lambda: writer.merge(rows((3, "Z", "d2")), orders, on=["id"]),
        lambda: writer.deduplicate(orders, on=["id"], keep=["note"]),
        lambda: writer.rewrite(orders, lambda all_rows: all_rows),
    ):
        with pytest.raises(InvalidInputError, match=words.format("where")):
            call()
    left = "NOT (`dt` <=> 'd1')"
    assert writer.merge(rows((3, "C", "d2")), orders, on=["id"], where=left).updated == 1
    assert writer.update_where(orders, change, where=is_even & F.expr(left)).updated == 1
    assert writer.delete_where(orders, f"id = 3 AND {left}").deleted == 1
    assert listed(orders) == [(1, "a", "d1"), (2, "b", "d1"), (4, "D", None)]


@pytest.mark.slow
def test_a_partition_of_another_tool_that_cannot_be_changed_is_in_the_way_of_calls_about_it_alone(
    writer: TableWriter, spark: SparkSession, orders: str, rows: Rows, listed: Listed
) -> None:
    rows((1, "a", "d1"), (2, "b", "d2")).write.insertInto(orders)
    location = writer._services.open_to_write(orders).table.location
    rows((3, "c", "d1")).select("id", "note").write.parquet(f"{location}/dt=d1/HIVE_UNION_SUBDIR_1")
    assert writer.update_where(orders, {"note": "'B'"}, where="id = 2 AND NOT (`dt` <=> 'd1')").updated == 1
    for call in (
        lambda: writer.delete_where(orders, "id = 1"),
        lambda: writer.merge(rows((1, "A", "d1")), orders, on=["id"]),
    ):
        with pytest.raises(
            InvalidInputError, match=r"dt=d1 .* has files in directories of its own.*NOT \(`dt` <=> 'd1'\)"
        ):
            call()
    assert writer.merge(rows((2, "C", "d2")), orders, on=["dt", "id"]).updated == 1
    spark.catalog.refreshTable(orders)
    assert [tuple(row) for row in spark.table(orders).where("dt = 'd2'").collect()] == [(2, "C", "d2")]
