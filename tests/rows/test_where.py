"""Rows that a predicate is true of are deleted or changed, of double ones the first stays; no other row is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer import InvalidInputError, SchemaMismatchError, TableWriter
from table_writer.testing.embedded import Lakehouse

Rows = Callable[..., Any]
Listed = Callable[[str], list[tuple[Any, ...]]]


def test_rows_that_a_predicate_is_true_of_go(writer: TableWriter, orders: str, rows: Rows, listed: Listed) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1"), (2, None, "d1"), (3, "a", "d2"), (4, "c", "d3")), orders)
    result = writer.delete_where(orders, "note = 'a'")
    assert (result.deleted, result.updated, result.inserted) == (2, 0, 0)
    assert [(partition.name, partition.action) for partition in result.partitions] == [
        ("dt=d1", "replaced"),
        ("dt=d2", "emptied"),
    ]
    assert listed(orders) == [(2, None, "d1"), (4, "c", "d3")]
    assert writer.delete_where(orders, F.col("note").isNull() & (F.col("dt") == "d1")).deleted == 1
    assert writer.delete_where(orders, "note = 'nobody'").version is None
    assert listed(orders) == [(4, "c", "d3")]


@pytest.mark.parametrize(
    ("predicate", "left"),
    [
        ("id IN (SELECT id FROM gone)", [2, 3]),
        ("id NOT IN (SELECT id FROM gone)", [1, 2, 3]),  # of which one is null: true of none
        ("EXISTS (SELECT 1 FROM gone WHERE gone.id = orders.id)", [2, 3]),
        ("id > (SELECT min(id) FROM gone)", [1]),
        ("note IN (SELECT note FROM gone) OR id = 3", [1, 2]),
    ],
)
def test_a_predicate_may_have_subqueries(
    predicate: str, left: list[int], writer: TableWriter, spark: SparkSession, orders: str, rows: Rows, listed: Listed
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1"), (2, None, "d1"), (3, "c", "d2")), orders)
    rows((1, None, "x"), (None, "z", "x")).createOrReplaceTempView("gone")
    assert writer.delete_where(orders, predicate).deleted == 3 - len(left)
    assert [row[0] for row in listed(orders)] == left


def test_other_values_are_set_and_rows_move(writer: TableWriter, orders: str, rows: Rows, listed: Listed) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1"), (2, "b", "d1"), (3, "c", "d2")), orders)
    result = writer.update_where(orders, {"note": "note || id", "DT": F.lit("d2")}, where="id = 1")
    assert (result.deleted, result.updated, result.inserted) == (0, 1, 0)
    assert listed(orders) == [(1, "a1", "d2"), (2, "b", "d1"), (3, "c", "d2")]
    assert writer.update_where(orders, {"id": "id"}, where="id = 77").version is None


@pytest.mark.slow
def test_partitions_that_a_call_is_not_about_are_not_looked_at(
    writer: TableWriter, orders: str, rows: Rows, listed: Listed, lakehouse: Lakehouse
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1"), (2, "b", "d1"), (3, "c", "d2")), orders)
    (lost,) = (one for one in writer.maintenance.show(orders, 1).partitions if one.name == "dt=d2")
    bucket, _, prefix = str(lost.new_location).split("://")[1].partition("/")
    for item in lakehouse.s3.list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]:
        lakehouse.s3.delete_object(Bucket=bucket, Key=item["Key"])
    assert writer.delete_where(orders, "dt = 'd1' AND id = 1").deleted == 1
    assert writer.merge(rows((2, "B", "d1")), orders, on=["id", "dt"]).updated == 1
    assert writer.merge(rows((2, "C", "d1")), orders, on=["id"], where="dt = 'd1'").updated == 1
    with pytest.raises(InvalidInputError, match=r"dt=d2 .* another tool has added or deleted some"):
        writer.delete_where(orders, "id = 3")


def test_what_is_no_predicate_or_no_value_is_refused_in_words(
    writer: TableWriter, orders: str, rows: Rows, listed: Listed
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1")), orders)

    def refused(words: str, predicate: Any, **set_: Any) -> None:
        with pytest.raises(InvalidInputError, match=words):
            if set_:
                writer.update_where(orders, set_, where=predicate)
            else:
                writer.delete_where(orders, predicate)

    refused("other rows each time it is asked", "rand() < 0.5")
    refused("other rows each time it is asked", F.rand() < 2)
    refused("is bigint, not boolean", "id")
    refused("no_such", "no_such = 1")
    refused("a comment", "id = 1 -- and more")
    refused("asks other rows", "row_number() OVER (ORDER BY id) = 1")
    refused("MISSING_GROUP_BY", "count(1) > 0")
    refused("cannot be looked through", "CAST(note AS INT) = 1")
    refused("no column 'nota'; did you mean note", "id = 1", nota="1")
    with pytest.raises(SchemaMismatchError, match="id"):
        writer.update_where(orders, {"id": "'x'"}, where="id = 1")
    with pytest.raises(InvalidInputError, match="expected the columns to change"):
        writer.update_where(orders, {}, where="id = 1")
    assert listed(orders) == [(1, "a", "d1")]


def test_of_double_rows_the_first_in_the_order_stays(
    writer: TableWriter, orders: str, rows: Rows, listed: Listed
) -> None:
    writer.append(rows((1, "a", "d1"), (2, "b", "d2"), (None, "n", "d1")), orders)
    writer.append(rows((1, "c", "d2"), (3, "d", "d3"), (None, "n", "d1")), orders)
    writer.append(rows((1, "b", "d3"), (3, "d", "d3")), orders)
    result = writer.deduplicate(orders, on=["id"], keep=["note desc nulls last", F.col("dt")])
    assert (result.deleted, result.updated, result.inserted) == (3, 0, 0)
    assert listed(orders) == [(1, "c", "d2"), (2, "b", "d2"), (3, "d", "d3"), (None, "n", "d1"), (None, "n", "d1")]
    assert writer.deduplicate(orders, on=["id"], keep=["note"]).version is None
    with pytest.raises(InvalidInputError, match=r"keep='nota'.* cannot be resolved"):
        writer.deduplicate(orders, on=["id"], keep=["nota DESC"])
    with pytest.raises(InvalidInputError, match="expected an order"):
        writer.deduplicate(orders, on=["id"], keep=[])
