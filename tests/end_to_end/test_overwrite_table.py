"""Replacing a whole partitioned table: what has no rows any more is dropped, and can come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from table_writer import ConflictError, InvalidInputError, Maintenance, TableWriter
from tests.cells import first_fast

from .watched import STAGED, Seen

Rows = Callable[..., Any]
Content = Callable[[str], set[tuple[Any, ...]]]
Look = Callable[[str], Seen]
Stopped = Callable[..., TableWriter]


def partitions(spark: SparkSession, table: str) -> set[str]:
    return {row[0] for row in spark.sql(f"SHOW PARTITIONS {table}").collect()}


@pytest.mark.connect
def test_the_table_holds_the_dataframe_and_nothing_else(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, content: Content, look: Look
) -> None:
    rows((1, "spark", "d1")).write.insertInto(orders)
    writer.append(rows((2, "ours", "d2"), (3, "ours", "d3")), orders)
    before = look(orders)
    result = writer.overwrite_table(rows((20, "new", "d2"), (40, "new", "d4")), orders)
    assert {one.name: one.action for one in result.partitions} == {
        "dt=d1": "emptied",
        "dt=d2": "replaced",
        "dt=d3": "emptied",
        "dt=d4": "added",
    }
    assert (result.rows, [one.location for one in result.emptied]) == (2, ["", ""])
    assert content(orders) == {(20, "new", "d2"), (40, "new", "d4")}
    assert partitions(spark, orders) == {"dt=d2", "dt=d4"}
    assert before.data.items() <= look(orders).data.items(), "running queries still read them"


def test_a_rollback_brings_dropped_partitions_back(
    spark: SparkSession, writer: TableWriter, keeper: Maintenance, orders: str, rows: Rows, content: Content
) -> None:
    rows((1, "spark", "d1")).write.insertInto(orders)
    writer.append(rows((2, "ours", "d2")), orders)
    writer.overwrite_table(rows((3, "new", "d3")), orders)
    assert content(orders) == {(3, "new", "d3")}
    keeper.rollback(orders, version=1)
    spark.catalog.refreshTable(orders)
    assert content(orders) == {(1, "spark", "d1"), (2, "ours", "d2")}
    assert partitions(spark, orders) == {"dt=d1", "dt=d2"}
    assert keeper.recover(orders).settled == {}


@pytest.mark.connect
@pytest.mark.parametrize("faster", first_fast(["append", "overwrite_partitions", "create_partitions"]))
def test_any_partition_published_meanwhile_is_a_conflict(
    faster: str, writer: TableWriter, orders: str, rows: Rows, content: Content, stopped: Stopped, look: Look
) -> None:
    writer.append(rows((1, "a", "d1")), orders)
    late = stopped(STAGED, lambda: getattr(writer, faster)(rows((9, "first", "d9")), orders))
    with pytest.raises(ConflictError, match="dt=d9"):
        late.overwrite_table(rows((2, "b", "d2")), orders)
    assert content(orders) == {(1, "a", "d1"), (9, "first", "d9")}
    assert look(orders).uploads == frozenset()


def test_an_empty_dataframe_empties_the_table_only_when_that_is_said(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, content: Content
) -> None:
    writer.append(rows((1, "a", "d1"), (2, "b", "d2")), orders)
    empty = rows((1, "a", "d1")).where("id > 1")
    with pytest.raises(InvalidInputError, match="if_empty='replace'"):
        writer.overwrite_table(empty, orders)
    assert writer.overwrite_table(empty, orders, if_empty="ignore").version is None
    assert len(content(orders)) == 2
    assert len(writer.overwrite_table(empty, orders, if_empty="replace").emptied) == 2
    assert (content(orders), partitions(spark, orders)) == (set(), set())


def test_the_dataframe_may_read_the_table_it_replaces(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, content: Content
) -> None:
    writer.append(rows((1, "a", "d1"), (2, "b", "d2")), orders)
    writer.overwrite_table(spark.table(orders).where("id = 2").selectExpr("id + 1 AS id", "note", "dt"), orders)
    assert content(orders) == {(3, "b", "d2")}


def test_partitions_dropped_and_written_again_are_there_once(
    writer: TableWriter, orders: str, rows: Rows, content: Content
) -> None:
    writer.append(rows((1, "a", "d1"), (2, "b", "d2")), orders)
    writer.overwrite_table(rows((3, "c", "d2")), orders)
    result = writer.append(rows((4, "d", "d1")), orders)
    assert [one.action for one in result.partitions] == ["added"], "what was dropped does not come along"
    assert content(orders) == {(3, "c", "d2"), (4, "d", "d1")}
