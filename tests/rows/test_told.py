"""What a change of rows says of itself for ever: its call, its condition, how many rows, and who it was."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer import Maintenance, SchemaMismatchError, TableWriter, TableWriterConfig
from table_writer.events import TableEvent
from table_writer.model.words import LONGEST_CONDITION
from table_writer.protocol.operations.switch import Switch
from table_writer.reports.history_reports import VersionSummary

Rows = Callable[..., Any]
FIRST = [(1, "a", "d1"), (2, "b", "d1"), (3, "c", "d2")]


def newest(keeper: Maintenance, table: str) -> VersionSummary:
    return keeper.history(table).versions[0]


def told(version: VersionSummary) -> tuple[Any, ...]:
    return version.mode, version.where, version.inserted, version.updated, version.deleted


def line_of(keeper: Maintenance, table: str) -> str:
    """Return how the newest version is shown in a history."""
    return " ".join(keeper.history(table).to_text().splitlines()[2].split())


@pytest.mark.parametrize("by_sql", [False, True])
def test_a_history_says_who_has_deleted_updated_and_merged_which_rows(
    spark: SparkSession, writer: TableWriter, keeper: Maintenance, orders: str, rows: Rows, by_sql: bool
) -> None:
    writer.overwrite_partitions(rows(*FIRST), orders)
    rows((1, "A", "d1"), (9, "i", "d1")).createOrReplaceTempView("feed")
    if by_sql:
        writer.sql(
            f"MERGE INTO {orders} t USING feed ON t.id = feed.id AND t.dt = feed.dt WHEN MATCHED THEN UPDATE"
            " SET * WHEN NOT MATCHED THEN INSERT *",
            where="dt = 'd1'",
        )
    else:
        writer.merge(rows((1, "A", "d1"), (9, "i", "d1")), orders, on=["id", "dt"], where="dt = 'd1'")
    assert told(newest(keeper, orders)) == ("merge", "dt = 'd1'", 1, 1, 0)
    assert "merge: 1 inserted, 1 updated, where dt = 'd1'" in line_of(keeper, orders)
    if by_sql:
        writer.sql(f"UPDATE {orders} SET note = 'x' WHERE id < 3")
    else:
        writer.update_where(orders, {"note": "'x'"}, where="id < 3")
    mode, where, *counts = told(newest(keeper, orders))
    assert (mode, where.strip("()"), counts) == ("update_where", "id < 3", [0, 2, 0])
    if by_sql:
        writer.sql(f"DELETE FROM {orders} WHERE id = 2")
    else:
        writer.delete_where(orders, "id = 2")
    version = newest(keeper, orders)
    mode, where, *counts = told(version)
    assert (mode, where.strip("()"), counts) == ("delete_where", "id = 2", [0, 0, 1])
    assert f"{version.user}@{version.host}" in line_of(keeper, orders)
    assert "delete_where: 1 deleted, where " in line_of(keeper, orders)
    assert version.application_id == spark.sparkContext.applicationId
    plain = keeper.history(orders).to_dict()["versions"][0]
    assert (plain["mode"], plain["where"].strip("()"), plain["deleted"]) == ("delete_where", "id = 2", 1)
    assert keeper.show(orders, version.version).to_text().splitlines()[0].endswith(": delete_where, published")
    assert "<td>delete_where: 1 deleted, where " in keeper.report(orders).to_html()


def test_other_calls_say_what_they_know(writer: TableWriter, keeper: Maintenance, orders: str, rows: Rows) -> None:
    writer.overwrite_partitions(rows(*FIRST, (3, "old", "d2")), orders, where="dt >= 'd1'")
    assert told(newest(keeper, orders)) == ("overwrite_partitions", "dt >= 'd1'", None, None, None)
    writer.append(rows((7, "g", "d1"), (8, "h", "d1")), orders)
    assert told(newest(keeper, orders)) == ("append", "", 2, None, None)
    writer.deduplicate(orders, on=["id"], keep=["note DESC"], where="dt = 'd2'")
    assert told(newest(keeper, orders)) == ("deduplicate", "dt = 'd2'", 0, 0, 1)
    writer.rewrite(orders, lambda found: found.where("id <> 8"), where="dt = 'd1'")
    assert told(newest(keeper, orders)) == ("rewrite", "dt = 'd1'", None, None, None)
    writer.delete_where(orders, (F.col("id") == 7) & F.col("note").isNotNull())
    mode, where, *counts = told(newest(keeper, orders))
    assert (mode, counts) == ("delete_where", [0, 0, 1])
    assert {"id", "7", "note"} <= set(re.findall(r"\w+", where))
    assert not where.startswith("Column<")
    writer.delete_where(orders, f"id IN ({', '.join(map(str, range(1_000)))})\n  AND\n  dt = 'd2'")
    version = newest(keeper, orders)
    assert (len(version.where), version.where[:16], version.where[-1]) == (LONGEST_CONDITION, "id IN (0, 1, 2, ", "…")
    assert "\n" not in version.where
    keeper.vacuum(orders, older_than=timedelta(0), force=True)
    assert told(newest(keeper, orders)) == ("vacuum", "", None, None, None)


def test_the_log_holds_no_condition_of_a_purge(
    writer: TableWriter, keeper: Maintenance, orders: str, rows: Rows
) -> None:
    writer.overwrite_partitions(rows(*FIRST), orders)
    writer.delete_where(orders, "note = 'b'", purge=True)
    done, deleted = keeper.history(orders).versions[:2]
    assert told(done)[:2] == ("erase", "")
    assert told(deleted) == ("delete_where", "", 0, 0, 1)
    assert "note = 'b'" not in keeper.history(orders).to_json()


def test_a_staged_change_is_known_by_its_call_until_it_is_published_and_after(
    spark: SparkSession, writer: TableWriter, keeper: Maintenance, orders: str, rows: Rows
) -> None:
    events: list[TableEvent] = []
    writer.overwrite_partitions(rows(*FIRST), orders)
    told_writer = TableWriter(spark, config=TableWriterConfig(listeners=[events.append]))
    staged = told_writer.stage(None, orders, mode="delete_where", predicate="id = 2")
    summary = keeper.staged(orders).staged[0]
    assert (summary.mode, summary.where, summary.deleted) == ("delete_where", "id = 2", 1)
    assert "delete_where: 1 deleted, where id = 2" in " ".join(keeper.staged(orders).to_text().split())
    assert staged.mode == "delete_where"
    assert staged.publish().mode == "delete_where"
    assert told(newest(keeper, orders)) == ("delete_where", "id = 2", 0, 0, 1)
    assert [(event.operation, event.mode) for event in events] == [
        ("stage", "delete_where"),
        ("publish", "delete_where"),
    ]


def test_a_recovered_change_keeps_its_words(
    spark: SparkSession, keeper: Maintenance, orders: str, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = TableWriter(spark, config=TableWriterConfig(metastore_timeout_seconds=1, publish_timeout_seconds=7))
    writer.overwrite_partitions(rows(*FIRST), orders)

    def died(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, suppress(BaseException):
        patch.setattr(Switch, "apply", died)
        writer.delete_where(orders, "id = 2")
    keeper.recover(orders)
    recovered, deleted = keeper.history(orders).versions[:2]
    assert told(recovered) == told(deleted) == ("delete_where", "id = 2", 0, 0, 1)


def test_columns_that_do_not_fit_a_change_of_rows_are_answered_by_what_such_a_call_can_do(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows
) -> None:
    """These calls have no parameter schema: what the message says instead is done here."""
    writer.overwrite_partitions(rows(*FIRST), orders)
    old_feed = rows((9, "i", "d1")).drop("note")
    with pytest.raises(SchemaMismatchError, match=r"missing in the DataFrame: 'note' \(give them, too") as lacking:
        writer.merge(old_feed, orders, on=["id", "dt"])
    assert writer.merge(old_feed.withColumn("note", F.lit(None)), orders, on=["id", "dt"]).inserted == 1
    wide = rows((9, "i", "d1")).withColumn("x", F.lit(1))
    with pytest.raises(SchemaMismatchError, match=r"does not have: 'x' \(drop them; .* ADD COLUMNS\)") as extra:
        writer.merge(wide, orders, on=["id", "dt"])
    with pytest.raises(SchemaMismatchError, match=r"does not have: 'x' \(drop them; .* ADD COLUMNS\)"):
        writer.rewrite(orders, lambda found: found.withColumn("x", F.lit(1)))
    assert all("schema=" not in str(refused.value) for refused in (lacking, extra))
    spark.sql(f"ALTER TABLE {orders} ADD COLUMNS (x INT)")
    assert writer.merge(wide, orders, on=["id", "dt"]).updated == 1
