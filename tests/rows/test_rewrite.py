"""A rewrite replaces exactly the selected partitions, by rows that were computed from exactly their version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer import ConflictError, InvalidInputError, SchemaMismatchError, TableWriter
from table_writer.check import unique
from table_writer.errors import CheckFailedError
from tests.end_to_end.watched import BEFORE_CLAIM, STAGED

Rows = Callable[..., Any]
Listed = Callable[[str], list[tuple[Any, ...]]]
Stopped = Callable[..., TableWriter]


def doubled(rows: DataFrame) -> DataFrame:
    return rows.withColumn("id", F.col("id") * 2)


def test_selected_partitions_hold_what_the_function_returns_and_others_are_untouched(
    writer: TableWriter, orders: str, rows: Rows, listed: Listed
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1"), (2, "b", "d2"), (3, "c", "d3")), orders)
    result = writer.rewrite(orders, doubled, where="dt <= 'd2'")
    assert listed(orders) == [(2, "a", "d1"), (3, "c", "d3"), (4, "b", "d2")]
    assert [partition.name for partition in result.replaced] == ["dt=d1", "dt=d2"]
    assert (result.version, result.rows, result.mode, result.replaced_files, result.inserted) == (
        2,
        2,
        "rewrite",
        2,
        None,
    )
    assert result.to_text().startswith(f"{orders} version 2 rewrote 2 partitions: 2 files instead of 2")


def test_partitions_without_rows_are_dropped_in_the_same_version(
    writer: TableWriter, orders: str, rows: Rows, listed: Listed
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1"), (2, "b", "d2"), (3, "c", "d3")), orders)
    result = writer.rewrite(orders, lambda all_rows: all_rows.where("id = 2"))
    assert listed(orders) == [(2, "b", "d2")]
    assert [partition.name for partition in result.emptied] == ["dt=d1", "dt=d3"]
    assert writer.rewrite(orders, lambda all_rows: all_rows.where("false")).rows == 0
    assert listed(orders) == []
    assert writer.rewrite(orders, doubled).version is None


def test_rows_that_move_come_beside_those_that_are_there(
    writer: TableWriter, orders: str, rows: Rows, listed: Listed
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1"), (2, "b", "d1"), (3, "c", "d2")), orders)
    moved = F.when(F.col("id") == 2, "d2").when(F.col("id") == 1, "new").otherwise(F.col("dt"))
    result = writer.rewrite(orders, lambda selected: selected.withColumn("dt", moved), where="dt = 'd1'")
    assert listed(orders) == [(1, "a", "new"), (2, "b", "d2"), (3, "c", "d2")]
    by_name = {partition.name: partition for partition in result.partitions}
    assert {name: partition.action for name, partition in by_name.items()} == {
        "dt=d1": "emptied",
        "dt=d2": "replaced",
        "dt=new": "added",
    }
    assert (by_name["dt=d2"].rows, by_name["dt=d2"].copied_files, result.rows) == (1, 1, 2)
    assert writer.rewrite(orders, doubled).rows == 3  # the log knows the copies too


def test_an_unpartitioned_table_is_rewritten_as_a_whole(
    writer: TableWriter, spark: SparkSession, make_table: Callable[..., str], listed: Listed
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT) USING parquet")
    writer.append(spark.range(3), table)
    assert writer.rewrite(table, doubled).rows == 3
    assert listed(table) == [(0,), (2,), (4,)]
    assert writer.rewrite(table, lambda all_rows: all_rows.where("id < 0")).version == 3
    assert listed(table) == []
    with pytest.raises(InvalidInputError, match="is not partitioned"):
        writer.rewrite(table, doubled, where="id = 1")


def test_rows_of_other_tools_are_rewritten_too(
    writer: TableWriter, spark: SparkSession, orders: str, rows: Rows, listed: Listed
) -> None:
    rows((1, "a", "d1"), (2, None, None)).write.insertInto(orders)
    assert writer.rewrite(orders, doubled).version == 1
    assert listed(orders) == [(2, "a", "d1"), (4, None, None)]


def test_somebody_elses_publish_is_a_conflict(
    writer: TableWriter, orders: str, rows: Rows, listed: Listed, stopped: Stopped
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1"), (2, "b", "d2")), orders)
    late = stopped(STAGED, lambda: writer.append(rows((10, "x", "d1")), orders))
    with pytest.raises(ConflictError, match="version 1, on which its rows are based"):
        late.rewrite(orders, doubled, where="dt = 'd1'")
    assert listed(orders) == [(1, "a", "d1"), (10, "x", "d1"), (2, "b", "d2")]


def test_a_publish_of_other_partitions_is_none(
    writer: TableWriter, orders: str, rows: Rows, listed: Listed, stopped: Stopped
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1"), (2, "b", "d2")), orders)
    late = stopped(STAGED, lambda: writer.append(rows((10, "x", "d2")), orders))
    late.rewrite(orders, doubled, where="dt = 'd1'")
    assert listed(orders) == [(10, "x", "d2"), (2, "a", "d1"), (2, "b", "d2")]


@pytest.mark.parametrize("carry", ["copy", "in_place"])
@pytest.mark.parametrize("moment", [STAGED, BEFORE_CLAIM], ids=["staged", "claiming"])
def test_with_retries_the_newer_rows_are_taken(
    moment: tuple[str, str, str],
    carry: Any,
    writer: TableWriter,
    orders: str,
    rows: Rows,
    listed: Listed,
    stopped: Stopped,
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1")), orders)
    late = stopped(moment, lambda: writer.append(rows((10, "x", "d1")), orders, carry=carry))
    assert late.rewrite(orders, doubled, retries=1).version == 3
    assert listed(orders) == [(2, "a", "d1"), (20, "x", "d1")]


def test_a_compaction_meanwhile_is_no_conflict(
    writer: TableWriter, orders: str, rows: Rows, listed: Listed, stopped: Stopped
) -> None:
    writer.append(rows((1, "a", "d1")), orders)
    writer.append(rows((2, "b", "d1")), orders)
    late = stopped(STAGED, lambda: writer.compact(orders, min_files=2))
    assert late.rewrite(orders, doubled).version == 4
    assert listed(orders) == [(2, "a", "d1"), (4, "b", "d1")]


def test_files_of_other_tools_that_come_after_the_version_are_refused(
    writer: TableWriter, orders: str, rows: Rows, listed: Listed
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1")), orders)
    rows((2, "b", "d1")).write.insertInto(orders)
    with pytest.raises(InvalidInputError, match=r"dt=d1 .* another tool has added or deleted some"):
        writer.rewrite(orders, doubled, retries=3)
    assert listed(orders) == [(1, "a", "d1"), (2, "b", "d1")]


def test_files_of_other_tools_that_come_while_it_writes_are_a_conflict(
    writer: TableWriter, orders: str, rows: Rows, listed: Listed, stopped: Stopped
) -> None:
    rows((1, "a", "d1")).write.insertInto(orders)
    late = stopped(STAGED, lambda: rows((2, "b", "d1")).write.insertInto(orders))
    with pytest.raises(ConflictError, match="dt=d1"):
        late.rewrite(orders, doubled)
    late = stopped(STAGED, lambda: rows((3, "c", "new")).write.insertInto(orders))
    with pytest.raises(ConflictError, match="dt=new"):
        late.rewrite(orders, lambda all_rows: all_rows.withColumn("dt", F.lit("new")))
    assert listed(orders) == [(1, "a", "d1"), (2, "b", "d1"), (3, "c", "new")]
    assert late.rewrite(orders, doubled).rows == 3


def test_what_the_function_returns_must_fit(writer: TableWriter, orders: str, rows: Rows, listed: Listed) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1")), orders)
    with pytest.raises(InvalidInputError, match="expected a Spark DataFrame, got a NoneType"):
        writer.rewrite(orders, lambda _: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(SchemaMismatchError, match="note"):
        writer.rewrite(orders, lambda all_rows: all_rows.drop("note"))
    with pytest.raises(CheckFailedError, match="unique"):
        writer.rewrite(orders, lambda all_rows: all_rows.union(all_rows), checks=[unique("id")])
    assert listed(orders) == [(1, "a", "d1")]


def test_a_key_that_was_published_does_nothing_again(
    writer: TableWriter, orders: str, rows: Rows, listed: Listed
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1")), orders)
    first = writer.rewrite(orders, doubled, idempotency_key="run 7", tags={"why": "twice"})
    again = writer.rewrite(orders, doubled, idempotency_key="run 7")
    assert (again.repeated, again.version, again.mode) == (True, first.version, "rewrite")
    assert listed(orders) == [(2, "a", "d1")]
