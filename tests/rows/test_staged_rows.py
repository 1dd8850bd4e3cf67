"""Changes of rows that are planned, staged and published later, or done for each batch of a stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer import ConflictError, InvalidInputError, Maintenance, RowsPlan, TableWriter
from table_writer.check import unique

Rows = Callable[..., Any]
Listed = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def filled(writer: TableWriter, orders: str, rows: Rows) -> str:
    writer.overwrite_partitions(rows((1, "a", "d1"), (2, "b", "d1"), (3, "c", "d2")), orders)
    return orders


@pytest.mark.connect
def test_a_plan_counts_what_the_call_would_change_and_writes_nothing(
    writer: TableWriter, filled: str, rows: Rows, listed: Listed, keys_below: Callable[[str], set[str]]
) -> None:
    writer.append(rows((9, "z", "d1")), filled)
    before = keys_below(filled)
    updates = rows((1, "A", "d1"), (4, "D", "d4"))
    plan = writer.plan(updates, filled, "merge", on=["id"])
    assert isinstance(plan, RowsPlan)
    assert (plan.ok, plan.base_version, plan.mode) == (True, 2, "merge")
    emptying = writer.plan(None, filled, "delete_where", predicate=F.col("dt") == "d2")
    assert isinstance(emptying, RowsPlan)
    assert ([one.name for one in emptying.emptied], emptying.deleted, emptying.rows) == (["dt=d2"], 1, 0)
    nothing = writer.plan(updates, filled, "merge", on=["id"], where="dt = 'd2'", missing="ignore")
    assert nothing.partitions == ()
    with pytest.raises(InvalidInputError, match="where=\"dt = 'd1'\" does not select: dt=d4"):
        writer.plan(updates, filled, "merge", on=["id"], where="dt = 'd1'")
    assert keys_below(filled) == before
    result = writer.merge(updates, filled, on=["id"])
    for name in ("inserted", "updated", "deleted", "replaced_files", "replaced_bytes", "rows", "copied_bytes"):
        assert getattr(plan, name) == getattr(result, name), name
    assert [(one.name, one.rows) for one in plan.replaced] == [(one.name, one.rows) for one in result.replaced]
    assert [one.name for one in plan.added] == [one.name for one in result.added] == ["dt=d4"]


def test_what_is_staged_is_seen_checked_and_published_by_a_process_without_spark(
    writer: TableWriter, filled: str, rows: Rows, listed: Listed, keeper: Maintenance
) -> None:
    writer.append(rows((9, "z", "d1")), filled)
    before = listed(filled)
    staged = writer.stage(rows((1, "A", "d1"), (4, "D", "d4")), filled, "merge", on=["id"])
    assert listed(filled) == before
    assert sorted(row.id for row in staged.dataframe().collect()) == [1, 2, 4, 9]  # with the file that stays
    assert staged.check(unique("id"))[0].passed
    assert "merge: inserted 1, updated 1, deleted 0 rows" in keeper.publish(filled, staged.write_id, dry_run=True).notes
    assert keeper.publish(filled, staged.write_id).rows == 4
    assert listed(filled) == [(1, "A", "d1"), (2, "b", "d1"), (3, "c", "d2"), (4, "D", "d4"), (9, "z", "d1")]
    gone = writer.stage(None, filled, "delete_where", predicate="dt IN ('d1', 'd4') AND id <> 2")
    assert [one.name for one in keeper.publish(filled, gone.write_id).emptied] == ["dt=d4"]
    assert listed(filled) == [(2, "b", "d1"), (3, "c", "d2")]
    with pytest.raises(InvalidInputError, match="delete_where would change no row"):
        writer.stage(None, filled, "delete_where", predicate="id > 100")


@pytest.mark.parametrize("of_other_tool", [False, True], ids=["own files", "another tool's files"])
def test_rows_that_another_tool_inserts_while_a_change_is_staged_stay(
    of_other_tool: bool, writer: TableWriter, filled: str, rows: Rows, listed: Listed, keeper: Maintenance
) -> None:
    if of_other_tool:
        rows((5, "e", "d5")).write.insertInto(filled)
    staged = writer.stage(None, filled, "update_where", set={"note": "'x'"}, where=F.col("id") != 3)
    rows((7, "new", "d5" if of_other_tool else "d1")).write.insertInto(filled)
    before = listed(filled)
    for publish in (keeper.publish, lambda table, write_id: writer.staged_write(table, write_id).publish()):
        with pytest.raises(ConflictError, match="changed since they were read"):
            publish(filled, staged.write_id)
    assert listed(filled) == before
    staged.discard()


def test_a_publish_where_keys_were_looked_for_is_a_conflict_and_another_is_none(
    writer: TableWriter, filled: str, rows: Rows, listed: Listed, keeper: Maintenance
) -> None:
    updates = rows((4, "D", "d1"))
    searched: Any = {"on": ["id"], "where": "dt < 'd5'"}
    staged = writer.stage(updates, filled, "merge", **searched)
    late = writer.stage(rows((5, "E", "d1")), filled, "merge", **searched)
    writer.append(rows((8, "n", "d9")), filled)
    with pytest.raises(ConflictError, match="takes Spark to say"):  # whether the key could be in what is new
        keeper.publish(filled, staged.write_id)
    writer.staged_write(filled, staged.write_id).publish()
    writer.append(rows((5, "n", "d2")), filled)
    with pytest.raises(ConflictError, match="has published 1 partition"):
        writer.staged_write(filled, late.write_id).publish()
    assert [row for row in listed(filled) if row[0] in {4, 5}] == [(4, "D", "d1"), (5, "n", "d2")]
    late.discard()


@pytest.mark.connect
def test_each_batch_is_merged_once(
    spark: SparkSession, writer: TableWriter, filled: str, listed: Listed, keeper: Maintenance, tmp_path: Path
) -> None:
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    source.mkdir()
    added = {"note": "concat(target.note, updates.note)"}
    write_batch = writer.for_each_batch(filled, "merge", "changes", on=["id"], set=added, retries=1)

    def run() -> list[tuple[Any, ...]]:
        changes = spark.readStream.schema("id BIGINT, note STRING, dt STRING").json(str(source))
        begun = changes.writeStream.foreachBatch(write_batch).option("checkpointLocation", str(checkpoint))
        assert begun.trigger(availableNow=True).start().awaitTermination(120)
        return listed(filled)

    changed = [{"id": 1, "note": "+", "dt": "d1"}, {"id": 4, "note": "new", "dt": "d4"}]
    (source / "0.json").write_text("".join(f"{json.dumps(row)}\n" for row in changed))
    expected = [(1, "a+", "d1"), (2, "b", "d1"), (3, "c", "d2"), (4, "new", "d4")]
    assert run() == expected
    (checkpoint / "commits" / "0").unlink()  # as if the query had died before it could note the batch
    (checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
    assert run() == expected
    newest = keeper.history(filled).versions[0]
    assert (newest.version, newest.idempotency_key) == (2, "changes/0")


@pytest.mark.parametrize(
    ("mode", "given", "words"),
    [
        ("merge", {"on": ["id"], "if_empty": "ignore"}, "merge has no parameter if_empty"),
        ("merge", {}, "merge needs on"),
        ("append", {"on": ["id"]}, "append has no parameter on"),
        ("delete_where", {"predicate": "id = 1"}, "takes no rows"),
        ("merges", {"on": ["id"]}, "or a call that changes rows: rewrite, merge"),
    ],
)
def test_a_call_that_does_not_fit_is_refused_in_words(
    mode: str, given: Any, words: str, writer: TableWriter, orders: str, rows: Rows
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        writer.for_each_batch(orders, mode, "q", **given)
    with pytest.raises(InvalidInputError, match=words):
        writer.plan(rows((1, "a", "d1")), orders, mode, **given)
