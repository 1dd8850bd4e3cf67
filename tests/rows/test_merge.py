"""A merge changes the rows that updates name by key, inserts those that are new, and counts both exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer import ConflictError, InvalidInputError, SchemaMismatchError, TableWriter, TableWriterConfig
from table_writer.events.event import TableEvent
from table_writer.model.table import Partition
from table_writer.reports.rows_result import RowsResult
from tests.end_to_end.watched import STAGED

Rows = Callable[..., Any]
Listed = Callable[[str], list[tuple[Any, ...]]]
Stopped = Callable[..., TableWriter]


def counts(result: RowsResult) -> tuple[int | None, ...]:
    return (result.inserted, result.updated, result.deleted)


def test_rows_are_changed_by_key_and_new_ones_inserted(
    writer: TableWriter, orders: str, rows: Rows, listed: Listed
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1"), (2, "b", "d1"), (3, "c", "d2"), (4, "d", "d3")), orders)
    result = writer.merge(rows((2, "B", "d1"), (5, "E", "d1"), (6, None, "d4")), orders, on=["dt", "ID"])
    assert counts(result) == (2, 1, 0)
    assert listed(orders) == [
        (1, "a", "d1"),
        (2, "B", "d1"),
        (3, "c", "d2"),
        (4, "d", "d3"),
        (5, "E", "d1"),
        (6, None, "d4"),
    ]
    assert [(partition.name, partition.action) for partition in result.partitions] == [
        ("dt=d1", "replaced"),
        ("dt=d4", "added"),
    ]


@pytest.mark.parametrize(
    ("matched", "missing", "expected_counts", "expected"),
    [
        ("update", "ignore", (0, 2, 0), [(1, "A", "d1"), (1, "A", "d1"), (2, "b", "d2")]),
        ("delete", "ignore", (0, 0, 2), [(2, "b", "d2")]),
        ("ignore", "insert", (1, 0, 0), [(1, "a", "d1"), (1, "a2", "d1"), (2, "b", "d2"), (9, "N", "d2")]),
        ("delete", "insert", (1, 0, 2), [(2, "b", "d2"), (9, "N", "d2")]),
    ],
)
def test_what_becomes_of_both_kinds_of_updates_is_said(
    matched: Any,
    missing: Any,
    expected_counts: tuple[int, ...],
    expected: list[tuple[Any, ...]],
    writer: TableWriter,
    orders: str,
    rows: Rows,
    listed: Listed,
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1"), (1, "a2", "d1"), (2, "b", "d2")), orders)
    updates = rows((1, "A", "d1"), (9, "N", "d2"))
    assert counts(writer.merge(updates, orders, on=["id"], matched=matched, missing=missing)) == expected_counts
    assert listed(orders) == expected


def test_only_files_with_a_row_of_the_keys_are_written_anew(
    writer: TableWriter, spark: SparkSession, orders: str, rows: Rows, listed: Listed
) -> None:
    for number in range(3):
        writer.append(rows((number, "a", "d1"), (number + 10, "a", "d2")), orders)
    before = set(spark.table(orders).select(F.input_file_name()).distinct().toPandas().iloc[:, 0])
    result = writer.merge(rows((1, "B", "d1")), orders, on=["dt", "id"], search_above_bytes=0)
    assert counts(result) == (0, 1, 0)
    assert (result.replaced_files, result.copied_files, result.files, result.rows) == (1, 2, 1, 1)
    assert listed(orders)[:3] == [(0, "a", "d1"), (1, "B", "d1"), (10, "a", "d2")]
    names = {path.rpartition("/")[2] for path in before}
    after = {row[0].rpartition("/")[2] for row in spark.table(orders).select(F.input_file_name()).distinct().collect()}
    assert len(names - after) <= 1
    new = rows((99, None, "d1"))
    assert writer.merge(new, orders, on=["dt", "id"], search_above_bytes=0).copied_files == 3


def test_rows_move_to_the_partition_of_their_update(
    writer: TableWriter, orders: str, rows: Rows, listed: Listed
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1"), (2, "b", "d2"), (3, "c", "d2")), orders)
    assert counts(writer.merge(rows((1, "A", "d2")), orders, on=["id"])) == (0, 1, 0)
    assert listed(orders) == [(1, "A", "d2"), (2, "b", "d2"), (3, "c", "d2")]


def test_set_says_what_is_taken_of_both_sides(writer: TableWriter, orders: str, rows: Rows, listed: Listed) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1"), (2, "b", "d1")), orders)
    deltas = rows((1, "+", "d1"), (3, "new", "d1")).withColumn("suffix", F.lit("!"))
    result = writer.merge(deltas, orders, on=["id"], set={"NOTE": "target.note || updates.note || updates.suffix"})
    assert counts(result) == (1, 1, 0)
    assert listed(orders) == [(1, "a+!", "d1"), (2, "b", "d1"), (3, "new", "d1")]
    few = deltas.select("id", "suffix")
    result = writer.merge(few, orders, on=["id"], missing="ignore", set={"note": F.col("updates.suffix")})
    assert counts(result) == (0, 2, 0)
    assert listed(orders) == [(1, "!", "d1"), (2, "b", "d1"), (3, "!", "d1")]


def test_keys_alone_delete(writer: TableWriter, orders: str, rows: Rows, listed: Listed) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1"), (2, "b", "d2")), orders)
    keys = rows((1, None, "x"), (7, None, "x")).select("id")
    result = writer.merge(keys, orders, on=["id"], matched="delete", missing="ignore")
    assert counts(result) == (0, 0, 1)
    assert [partition.name for partition in result.emptied] == ["dt=d1"]
    assert listed(orders) == [(2, "b", "d2")]
    assert writer.merge(keys, orders, on=["id"], matched="delete", missing="ignore").version is None


@pytest.mark.slow
def test_what_cannot_be_merged_is_refused_in_words(
    writer: TableWriter, orders: str, rows: Rows, listed: Listed, spark: SparkSession
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1"), (2, "b", "d2")), orders)
    good = rows((1, "A", "d1"))

    def refused(words: str, updates: Any = good, kind: type[Exception] = InvalidInputError, **options: Any) -> None:
        with pytest.raises(kind, match=words):
            writer.merge(updates, orders, **{"on": ["id"], **options})

    refused("id=1 is there 2 times", rows((1, "A", "d1"), (1, "B", "d1")))
    refused(r"1 row of 2 have a null in their key \(id\)", rows((1, "A", "d1"), (None, "B", "d1")))
    refused(r"null in their key \(id, dt\)", rows((1, "A", "")), on=["id", "dt"])
    refused("no column 'ident'", on=["ident"])
    refused("id stands there twice", on=["id", "ID"])
    refused("names no column", on=[])
    refused("no column 'notes'; did you mean note", set={"notes": "1"})
    refused("set: expected the columns", matched="delete", set={"note": "1"})
    refused("changes nothing", matched="ignore", missing="ignore")
    refused("search_above_bytes=-1: expected", search_above_bytes=-1)
    refused(r"set\['note'\]='updates.nothing'", set={"note": "updates.nothing"})
    refused("asks other rows", set={"note": "first(target.note) OVER (ORDER BY target.id)"})
    refused("where=\"dt = 'd1'\" does not select: dt=d9", rows((9, "N", "d9")), where="dt = 'd1'")
    refused("extra", good.withColumn("extra", F.lit(1)), SchemaMismatchError)
    refused("note", good.drop("note"), SchemaMismatchError)
    refused("id", good.withColumn("id", F.lit("x")), SchemaMismatchError)
    assert listed(orders) == [(1, "a", "d1"), (2, "b", "d2")]


def test_nothing_to_merge_changes_nothing(writer: TableWriter, orders: str, rows: Rows, listed: Listed) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1")), orders)
    assert writer.merge(rows((1, "a", "d1")).where("id > 1"), orders, on=["id"]).version is None
    result = writer.merge(rows((1, "A", "d1")), orders, on=["id"], matched="ignore")
    assert (result.version, counts(result)) == (None, (0, 0, 0))
    assert listed(orders) == [(1, "a", "d1")]


def test_two_inserts_of_one_key_into_two_partitions_conflict(
    writer: TableWriter, orders: str, rows: Rows, listed: Listed, stopped: Stopped
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1")), orders)
    late = stopped(STAGED, lambda: writer.append(rows((7, "x", "d7")), orders))
    with pytest.raises(ConflictError, match="dt=d7"):
        late.merge(rows((7, "y", "d8")), orders, on=["id"])
    late = stopped(STAGED, lambda: writer.append(rows((8, "x", "d7")), orders))
    assert counts(late.merge(rows((8, "y", "d8")), orders, on=["id"], retries=1)) == (0, 1, 0)
    assert listed(orders) == [(1, "a", "d1"), (7, "x", "d7"), (8, "y", "d8")]


def test_an_unpartitioned_table_is_merged_file_by_file(
    writer: TableWriter, spark: SparkSession, make_table: Callable[..., str], listed: Listed
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, n INT) USING parquet")
    for number in range(3):
        writer.append(spark.range(number, number + 1).selectExpr("id", "1 AS n"), table)
    updates = spark.range(2, 4).selectExpr("id", "5 AS n")
    result = writer.merge(updates, table, on=["id"], set={"n": "target.n + updates.n"}, search_above_bytes=0)
    assert counts(result) == (1, 1, 0)
    assert (result.replaced_files, result.copied_files) == (1, 2)
    assert listed(table) == [(0, 1), (1, 1), (2, 6), (3, 5)]


def test_updates_that_are_read_from_the_table_itself(
    writer: TableWriter, spark: SparkSession, orders: str, rows: Rows, listed: Listed
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1"), (2, "b", "d2")), orders)
    spark.catalog.refreshTable(orders)
    updates = spark.table(orders).withColumn("note", F.upper("note"))
    assert counts(writer.merge(updates, orders, on=["id"])) == (0, 2, 0)
    assert listed(orders) == [(1, "A", "d1"), (2, "B", "d2")]


@pytest.mark.slow
def test_a_partition_that_another_tool_has_spelled_its_own_way_is_found_by_its_value(
    writer: TableWriter, spark: SparkSession, make_table: Callable[..., str], listed: Listed
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, p INT) USING parquet PARTITIONED BY (p)")
    opened = writer._services.open_to_write(table)
    location = f"{opened.table.root}p=01/"
    spark.range(3).coalesce(1).write.parquet(location)
    opened.metastore.add_partitions(opened.table, [Partition(values=("01",), location=location, parameters={})])
    updates = spark.createDataFrame([(2, 1), (7, 1), (8, 2)], "id BIGINT, p INT")
    assert counts(writer.merge(updates, table, on=["p", "id"])) == (2, 1, 0)
    assert listed(table) == [(0, 1), (1, 1), (2, 1), (7, 1), (8, 2)]
    assert counts(writer.merge(spark.range(9, 10).selectExpr("id", "1 AS p"), table, on=["id"])) == (1, 0, 0)
    assert writer.delete_where(table, "p = 1 AND id < 9").deleted == 4
    assert listed(table) == [(8, 2), (9, 1)]
    assert sorted(opened.metastore.get_partition_names(opened.table.name)) == [("01",), ("2",)]


def test_listeners_are_told_of_a_merge(spark: SparkSession, orders: str, rows: Rows) -> None:
    events: list[TableEvent] = []
    told_writer = TableWriter(spark, config=TableWriterConfig(listeners=[events.append]))
    told_writer.append(rows((1, "a", "d1")), orders)
    told_writer.merge(rows((1, "A", "d1")), orders, on=["id"], tags={"feed": "7"}, idempotency_key="feed 7")
    told_writer.merge(rows((1, "A", "d1")), orders, on=["id"], idempotency_key="feed 7")
    with pytest.raises(InvalidInputError):
        told_writer.merge(rows((1, "A", "d1")), orders, on=["no_such"])
    assert [(event.operation, event.mode, event.outcome, event.version) for event in events[1:]] == [
        ("write", "merge", "published", 2),
        ("write", "merge", "repeated", 2),
        ("write", "merge", "failed", None),
    ]
    assert dict(events[1].tags) == {"feed": "7"}
    assert [(partition.name, partition.action, partition.rows) for partition in events[1].partitions] == [
        ("dt=d1", "replaced", 1)
    ]


@pytest.fixture
def feed(make_table: Callable[..., str]) -> str:
    return make_table(
        "CREATE TABLE {name} (id BIGINT, seq BIGINT, note STRING, dt STRING) USING parquet PARTITIONED BY (dt)"
    )


def test_with_newest_by_a_feed_may_be_late_doubled_and_out_of_order(
    writer: TableWriter, spark: SparkSession, feed: str, listed: Listed
) -> None:
    def merged(*changes: tuple[Any, ...], **options: Any) -> tuple[Any, ...]:
        updates = spark.createDataFrame(list(changes), "id BIGINT, seq BIGINT, note STRING, dt STRING")
        result = writer.merge(updates, feed, on=["id"], newest_by="seq", **options)
        return (result.inserted, result.updated, result.deleted, result.replaced_files)

    assert merged((1, 5, "e", "d1"), (1, 4, "d", "d1"), (2, 1, "a", "d2"), (1, 5, "e", "d1")) == (2, 0, 0, 0)
    assert merged((1, 3, "late", "d1"), (2, 1, "again", "d2"), (1, None, "ageless", "d1")) == (0, 0, 0, 0)
    assert merged((1, 4, "late", "d1"), (2, 9, "i", "d2"), (2, 8, "h", "d2"), (3, None, "?", "d3")) == (1, 1, 0, 1)
    assert listed(feed) == [(1, 5, "e", "d1"), (2, 9, "i", "d2"), (3, None, "?", "d3")]
    counted = {"set": {"seq": "updates.seq", "note": "concat(target.note, updates.note)"}, "missing": "ignore"}
    assert merged((3, 1, "!", "d3"), (2, 9, "again", "d2"), (7, 1, "-", "d1"), **counted) == (0, 1, 0, 1)
    with pytest.raises(InvalidInputError, match="forget a deleted row"):
        merged((1, 6, "gone", "d1"), matched="delete", missing="ignore")
    with pytest.raises(InvalidInputError, match="set it too"):
        merged((2, 10, "x", "d2"), set={"note": "updates.note"})
    with pytest.raises(InvalidInputError, match=r"newest_by: .* has no column 'sq'; did you mean seq"):
        writer.merge(spark.table(feed), feed, on=["id"], newest_by="sq")
