"""Calls that are made twice, and what a write says of itself: keys, tags, the id that a scheduler gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from table_writer import InvalidInputError, Maintenance, MetastoreError, TableWriter
from tests.cells import first_fast

from .watched import STAGED, SWITCHING, Seen, failing_with

Rows = Callable[..., Any]
Content = Callable[[str], set[tuple[Any, ...]]]
Look = Callable[[str], Seen]
Stopped = Callable[..., TableWriter]
MODES = ("append", "create_partitions", "overwrite_partitions", "overwrite_table")


@pytest.mark.connect
@pytest.mark.parametrize("method", first_fast(MODES, 2))
def test_a_call_with_a_key_that_was_published_does_nothing(
    method: str, writer: TableWriter, orders: str, rows: Rows, content: Content, look: Look
) -> None:
    first = getattr(writer, method)(rows((1, "a", "d1")), orders, idempotency_key="orders/2024-01-01")
    before = look(orders)
    again = getattr(writer, method)(rows((2, "b", "d2")), orders, idempotency_key="orders/2024-01-01")
    assert (again.repeated, again.version, again.write_id) == (True, first.version, first.write_id)
    assert "published before as version 1, nothing changed" in repr(again)
    assert look(orders) == before
    assert not getattr(writer, method)(rows((2, "b", "d2")), orders, idempotency_key="orders/2024-01-02").repeated


def test_of_two_calls_with_one_key_at_once_the_second_is_recognised_and_leaves_nothing(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, content: Content, stopped: Stopped, look: Look
) -> None:
    first: list[Any] = []
    append = lambda: first.append(writer.append(rows((1, "first", "d1")), orders, idempotency_key="k"))  # noqa: E731
    second = stopped(STAGED, append).append(rows((1, "second", "d2")), orders, idempotency_key="k")
    assert (second.repeated, second.write_id) == (True, first[0].write_id)
    spark.catalog.refreshTable(orders)
    assert content(orders) == {(1, "first", "d1")}
    assert len(look(orders).data) == 1
    assert look(orders).uploads == frozenset()
    assert not [key for key in look(orders).objects if "/writes/" in key]


def test_a_rollback_makes_a_key_void_and_rolling_it_back_makes_it_count_again(
    writer: TableWriter, keeper: Maintenance, orders: str, rows: Rows, content: Content
) -> None:
    writer.append(rows((0, "old", "d1")), orders)
    writer.append(rows((1, "a", "d1")), orders, idempotency_key="k")
    keeper.rollback(orders, version=1)
    assert not writer.append(rows((2, "b", "d1")), orders, idempotency_key="k").repeated
    assert content(orders) == {(0, "old", "d1"), (2, "b", "d1")}
    keeper.rollback(orders, version=2)
    assert writer.append(rows((3, "c", "d1")), orders, idempotency_key="k").version == 2


@pytest.mark.slow
def test_the_key_of_a_write_that_failed_is_void(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, content: Content, stopped: Stopped
) -> None:
    writer.append(rows((0, "old", "d1")), orders)
    failing = rows((1, "a", "d1")).withColumn("note", F.raise_error("broken row"))
    with pytest.raises(Exception, match="broken row"):
        writer.append(failing, orders, idempotency_key="k")
    refused = stopped(SWITCHING, failing_with(MetastoreError("refused")))
    with pytest.raises(MetastoreError, match="refused"):
        refused.append(rows((1, "a", "d1")), orders, idempotency_key="k")
    assert not writer.append(rows((1, "a", "d1")), orders, idempotency_key="k").repeated
    assert content(orders) == {(0, "old", "d1"), (1, "a", "d1")}


def test_tags_and_key_stand_in_the_history(writer: TableWriter, keeper: Maintenance, orders: str, rows: Rows) -> None:
    writer.append(rows((1, "a", "d1")), orders, tags={"run": "42", "dag": "nightly"}, idempotency_key="k")
    history = keeper.history(orders)
    assert dict(history.versions[0].tags) == {"run": "42", "dag": "nightly"}
    assert history.versions[0].idempotency_key == "k"
    assert "dag=nightly" in repr(history)


def test_a_write_uuid_is_in_every_file_name_and_is_never_used_again(
    spark: SparkSession, writer: TableWriter, keeper: Maintenance, orders: str, rows: Rows, look: Look
) -> None:
    result = writer.append(rows((1, "a", "d1"), (2, "b", "d2")), orders, write_uuid="airflow.run-7")
    assert result.write_id == "airflow.run-7"
    assert all("airflow.run-7" in key.rpartition("/")[2] for key in look(orders).data)
    keeper.rollback(orders, version=0)
    before = look(orders)
    with pytest.raises(InvalidInputError, match=r"write_uuid='airflow.run-7' was used before"):
        writer.append(rows((3, "c", "d3")), orders, write_uuid="airflow.run-7")
    assert look(orders) == before


@pytest.mark.parametrize("bad", ["a/b", "..", "x" * 81, "a b", "ä"])
def test_a_write_uuid_that_makes_no_name_is_refused(bad: str, writer: TableWriter, orders: str, rows: Rows) -> None:
    with pytest.raises(InvalidInputError, match="write_uuid"):
        writer.append(rows((1, "a", "d1")), orders, write_uuid=bad)
