"""Replacing what a predicate selects: those partitions, all of them, and no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from table_writer import ConflictError, InvalidInputError, Maintenance, TableWriter

from .watched import STAGED, Seen

Rows = Callable[..., Any]
Content = Callable[[str], set[tuple[Any, ...]]]
Look = Callable[[str], Seen]
Stopped = Callable[..., TableWriter]

SELECTED = {
    "dt >= DATE'2024-01-02'": {"dt=2024-01-02/hour=9/country=fr", "dt=2024-01-03/hour=10/country=a b%2F"},
    "dt >= '2024-01-02'": {"dt=2024-01-02/hour=9/country=fr", "dt=2024-01-03/hour=10/country=a b%2F"},
    "hour > 9": {"dt=2024-01-01/hour=10/country=de", "dt=2024-01-03/hour=10/country=a b%2F"},
    "hour > 9 AND dt < '2024-01-03'": {"dt=2024-01-01/hour=10/country=de"},
    "hour = 1 OR country IN ('fr', 'a b/')": {
        "dt=2024-01-01/hour=1/country=de",
        "dt=2024-01-02/hour=9/country=fr",
        "dt=2024-01-03/hour=10/country=a b%2F",
    },
    "country IS NULL": {"dt=2024-01-01/hour=2/country=__HIVE_DEFAULT_PARTITION__"},
    "country = 'a b/'": {"dt=2024-01-03/hour=10/country=a b%2F"},
    "month(dt) = 1 AND NOT country <=> 'de'": {
        "dt=2024-01-01/hour=2/country=__HIVE_DEFAULT_PARTITION__",
        "dt=2024-01-02/hour=9/country=fr",
        "dt=2024-01-03/hour=10/country=a b%2F",
    },
}


@pytest.fixture
def visits(spark: SparkSession, writer: TableWriter, make_table: Callable[..., str]) -> str:
    table = make_table(
        "CREATE TABLE {name} (id BIGINT, dt DATE, hour INT, country STRING) USING parquet"
        " PARTITIONED BY (dt, hour, country)"
    )
    writer.append(
        visit(
            spark,
            (1, "2024-01-01", 1, "de"),
            (2, "2024-01-01", 10, "de"),
            (3, "2024-01-01", 2, None),
            (4, "2024-01-02", 9, "fr"),
            (5, "2024-01-03", 10, "a b/"),
        ),
        table,
    )
    return table


def visit(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    made = spark.createDataFrame(list(rows), "id BIGINT, dt STRING, hour INT, country STRING")
    return made.selectExpr("id", "CAST(dt AS DATE) AS dt", "hour", "country").coalesce(1)


@pytest.mark.slow
@pytest.mark.connect
def test_exactly_what_the_predicate_selects_is_dropped(
    spark: SparkSession, writer: TableWriter, keeper: Maintenance, visits: str, look: Look
) -> None:
    """One table for all predicates: a rollback brings back what was dropped."""
    every = look(visits)
    rows = spark.table(visits).collect()
    for where, selected in SELECTED.items():
        result = writer.overwrite_partitions(visit(spark), visits, where=where, if_empty="replace")
        assert {one.name for one in result.emptied} == selected, where
        left = look(visits).locations
        assert left.keys() == every.locations.keys() - selected, where
        assert all(every.locations[name] == location for name, location in left.items()), "nothing else was touched"
        assert result.version is not None
        keeper.rollback(visits, version=result.version - 1)
        assert look(visits).locations == every.locations
    spark.catalog.refreshTable(visits)
    assert sorted(map(tuple, spark.table(visits).collect()), key=str) == sorted(map(tuple, rows), key=str)


@pytest.mark.connect
def test_selected_partitions_with_rows_are_replaced_new_ones_added_and_those_without_rows_dropped(
    writer: TableWriter, orders: str, rows: Rows, content: Content, look: Look
) -> None:
    writer.append(rows((1, "a", "d1"), (2, "b", "d2"), (3, "c", "d3")), orders)
    before = look(orders)
    result = writer.overwrite_partitions(rows((20, "B", "d2"), (40, "D", "d4")), orders, where="dt >= 'd2'")
    assert {one.name: one.action for one in result.partitions} == {
        "dt=d2": "replaced",
        "dt=d3": "emptied",
        "dt=d4": "added",
    }
    assert content(orders) == {(1, "a", "d1"), (20, "B", "d2"), (40, "D", "d4")}
    assert look(orders).locations["dt=d1"] == before.locations["dt=d1"]
    assert before.data.items() <= look(orders).data.items()


@pytest.mark.connect
@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("dt >= 'd2'", "dt=d1 (1 row)"),
        ("id < 3", "no predicate over the partition columns (dt)"),
        ("dt >", "no predicate over the partition columns (dt)"),
        ("dt", "no predicate over the partition columns (dt)"),
        ("dt = 'd1' AND rand() < 0.5", "write the value out"),
    ],
)
def test_a_bad_predicate_and_a_row_outside_publish_nothing(
    where: str, said: str, writer: TableWriter, orders: str, rows: Rows, look: Look
) -> None:
    writer.append(rows((1, "a", "d1"), (2, "b", "d2")), orders)
    before = look(orders)
    with pytest.raises(InvalidInputError) as raised:
        writer.overwrite_partitions(rows((10, "A", "d1"), (20, "B", "d2")), orders, where=where)
    assert said in str(raised.value)
    assert orders in str(raised.value)
    assert look(orders) == before


@pytest.mark.connect
def test_the_predicate_stands_in_the_history(writer: TableWriter, orders: str, rows: Rows, keeper: Maintenance) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1")), orders, where="dt = 'd1'")
    newest = keeper.history(orders).versions[0]
    assert (newest.mode, newest.where) == ("overwrite_partitions", "dt = 'd1'")


@pytest.mark.connect
def test_a_new_partition_inside_the_predicate_is_a_conflict_one_outside_is_not(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, content: Content, stopped: Stopped
) -> None:
    writer.append(rows((1, "a", "d1"), (2, "b", "d2")), orders)
    outside = stopped(STAGED, lambda: writer.append(rows((9, "other", "d0")), orders))
    outside.overwrite_partitions(rows((20, "B", "d2")), orders, where="dt >= 'd2'")
    spark.catalog.refreshTable(orders)
    assert content(orders) == {(1, "a", "d1"), (20, "B", "d2"), (9, "other", "d0")}
    inside = stopped(STAGED, lambda: writer.append(rows((8, "other", "d8")), orders))
    with pytest.raises(ConflictError, match="dt=d8"):
        inside.overwrite_partitions(rows((21, "B", "d2")), orders, where="dt >= 'd2'")
    assert content(orders) == {(1, "a", "d1"), (20, "B", "d2"), (9, "other", "d0"), (8, "other", "d8")}


@pytest.mark.connect
def test_a_partition_that_another_tool_adds_inside_the_predicate_is_replaced_too(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, content: Content, stopped: Stopped
) -> None:
    writer.append(rows((1, "a", "d1")), orders)
    late = stopped(STAGED, lambda: rows((9, "spark", "d9")).write.insertInto(orders))
    result = late.overwrite_partitions(rows((2, "b", "d2")), orders, where="dt >= 'd2'")
    spark.catalog.refreshTable(orders)
    assert [one.name for one in result.emptied] == ["dt=d9"]
    assert content(orders) == {(1, "a", "d1"), (2, "b", "d2")}
