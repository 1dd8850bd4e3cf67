"""Rows by key in formats that Spark's own writer writes, and over Spark Connect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from table_writer import TableWriter

Rows = Callable[..., Any]
Listed = Callable[[str], list[tuple[Any, ...]]]
KINDS: Final = {
    "orc": "CREATE TABLE {name} (id BIGINT, note STRING, dt STRING) USING orc PARTITIONED BY (dt)",
    "text": "CREATE TABLE {name} (id BIGINT, note STRING) PARTITIONED BY (dt STRING) STORED AS TEXTFILE",
    "avro": "CREATE TABLE {name} (id BIGINT, note STRING) PARTITIONED BY (dt STRING) STORED AS AVRO",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_only_files_with_hits_are_written_anew_in_other_formats(
    kind: str, writer: TableWriter, make_table: Callable[..., str], rows: Rows, listed: Listed
) -> None:
    table = make_table(KINDS[kind])
    writer.append(rows((1, "a", "x/y"), (2, "b", "d2")), table)
    writer.append(rows((3, "c", "x/y")), table)
    result = writer.merge(rows((3, "C", "x/y"), (4, "d", "d2")), table, on=["id"])
    assert (result.inserted, result.updated, result.replaced_files, result.copied_files) == (1, 1, 1, 2)
    assert listed(table) == [(1, "a", "x/y"), (2, "b", "d2"), (3, "C", "x/y"), (4, "d", "d2")]
    assert writer.delete_where(table, "note = 'a'").deleted == 1
    assert writer.update_where(table, {"note": "upper(note)", "dt": "'x/y'"}, where="dt = 'd2'").updated == 2
    assert listed(table) == [(2, "B", "x/y"), (3, "C", "x/y"), (4, "D", "x/y")]


@pytest.mark.slow
@pytest.mark.connect
def test_every_call_over_both_kinds_of_session(
    writer: TableWriter, spark: SparkSession, orders: str, rows: Rows, listed: Listed
) -> None:
    writer.append(rows((1, "a", "d:1"), (2, "b", "d2")), orders)
    writer.append(rows((3, "c", "d:1"), (3, "c", "d:1")), orders)
    result = writer.merge(rows((1, "A", "d:1"), (4, "d", None)), orders, on=["id"])
    assert (result.inserted, result.updated, result.replaced_files) == (1, 1, 1)
    assert writer.deduplicate(orders, on=["id"], keep=["note DESC"]).deleted == 1
    assert writer.update_where(orders, {"note": "note || '!'"}, where="id >= 3").updated == 2
    assert writer.delete_where(orders, "id IN (2, 9)").deleted == 1
    assert writer.rewrite(orders, lambda all_rows: all_rows.where("id <> 4"), retries=1).rows == 2
    assert listed(orders) == [(1, "A", "d:1"), (3, "c!", "d:1")]
