"""Spark's strings are bytes, and Python's are not: text that is no UTF-8 is data like any other, and no partition.

A partition's name is text. Spark's own ``INSERT`` puts such a row into a directory with U+FFFD in its name, from where
it is read back with another value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from table_writer import TableWriter
from table_writer.check import allowed_values, matches, not_null, unique

Listed = Callable[..., list[tuple[Any, ...]]]
BAD = "CAST(X'C3' AS STRING)"


@pytest.fixture
def bad_rows(spark: SparkSession) -> Callable[..., DataFrame]:
    def make(*ids: int, note: str = BAD, dt: str = "'d1'") -> DataFrame:
        return spark.sql(
            f"SELECT explode(array({', '.join(f'{number}L' for number in ids)})) AS id, {note} AS note, {dt} AS dt"
        )

    return make


def notes(spark: SparkSession, table: str) -> list[tuple[int, str]]:
    spark.catalog.refreshTable(table)
    rows = spark.table(table).selectExpr("id", "hex(note)").collect()
    return sorted((row[0], row[1]) for row in rows)


def test_it_is_data_like_any_other(
    spark: SparkSession, writer: TableWriter, orders: str, bad_rows: Callable[..., DataFrame]
) -> None:
    checks = [not_null("note"), unique("note", severity="warn"), allowed_values("note", ["x"], severity="warn")]
    found = writer.append(bad_rows(1, 2), orders, checks=[*checks, matches("note", "x", severity="warn")])
    assert [one.failed_rows for one in found.checks] == [None, 2, 2, 2]
    assert notes(spark, orders) == [(1, "C3"), (2, "C3")]
    other = bad_rows(2, 3, note="CAST(X'C3C3' AS STRING)")
    merged = writer.merge(other, orders, on=["dt", "id"])
    assert (merged.updated, merged.inserted) == (1, 1)
    assert notes(spark, orders) == [(1, "C3"), (2, "C3C3"), (3, "C3C3")]
    by_note = writer.merge(bad_rows(9), orders, on=["dt", "note"])
    assert (by_note.updated, by_note.inserted) == (1, 0)
    assert writer.deduplicate(orders, on=["note"], keep=["id"]).deleted == 1
    assert notes(spark, orders) == [(2, "C3C3"), (9, "C3")]
    changes = writer.read_changes(orders, 1, 4).selectExpr("id", "hex(note)", "_change_type").collect()
    assert sorted(map(tuple, changes)) == [
        (1, "C3", "delete"),
        (2, "C3", "delete"),
        (2, "C3C3", "insert"),
        (9, "C3", "insert"),
    ]
    writer.append(bad_rows(10), orders)
    assert writer.compact(orders, min_files=2).partitions
    assert notes(spark, orders) == [(2, "C3C3"), (9, "C3"), (10, "C3")]


@pytest.mark.parametrize("engine", ["arrow", "spark"])
def test_it_is_refused_as_a_partition(
    spark: SparkSession, writer: TableWriter, orders: str, bad_rows: Callable[..., DataFrame], engine: Any
) -> None:
    writer.append(bad_rows(1), orders)
    rows = bad_rows(2, dt=BAD)
    with pytest.raises(Exception, match=r"dt is a partition.s text.*no UTF-8.*0xC3"):
        writer.append(rows, orders, engine=engine)
    with pytest.raises(Exception, match=r"dt is a partition.s text.*no UTF-8.*0xC3"):
        writer.merge(rows, orders, on=["dt", "id"], engine=engine)
    with pytest.raises(Exception, match=r"dt is a partition.s text.*no UTF-8.*0xC3"):
        writer.update_where(orders, {"dt": BAD}, "id = 1", engine=engine)
    assert notes(spark, orders) == [(1, "C3")]
