"""A streaming query whose checkpoint was deleted begins its batch ids at 0 again.

Under the same ``query_name`` its batches have the keys of batches that were published before, and were passed over as
replays: rows were dropped in silence. Sinks that remember batch ids share the trouble (apache/hudi#6098,
apache/hudi#9510). A query id belongs to one checkpoint, and tells the two apart.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from table_writer import InvalidInputError, Maintenance, TableWriter
from table_writer.model.entry import Key
from table_writer.protocol.log import table_log
from table_writer.protocol.log.rules import QUERY_TAG
from table_writer.protocol.table.open_table import RepeatedError
from table_writer.spark import is_connect
from tests.publish.world import World

Run = Callable[..., Any]


@pytest.fixture
def orders(spark: SparkSession, lakehouse_database: str) -> str:
    table = f"{lakehouse_database}.orders"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, dt STRING) USING parquet PARTITIONED BY (dt)")
    return table


@pytest.fixture
def run(spark: SparkSession, orders: str, tmp_path: Path) -> Run:
    """Put files of a row each, and run the query until it has read all."""
    source, writer = tmp_path / "source", TableWriter(spark)
    source.mkdir()

    def until_done(*ids: int, checkpoint: str = "checkpoint", query_name: str = "orders") -> None:
        for number in ids:
            (source / f"{number}.json").write_text(json.dumps({"id": number, "dt": f"d{number % 2}"}))
        rows = spark.readStream.schema("id BIGINT, dt STRING").option("maxFilesPerTrigger", 1).json(str(source))
        write_batch = writer.for_each_batch(orders, mode="append", query_name=query_name, tags={"job": "nightly"})
        started = rows.writeStream.foreachBatch(write_batch).option("checkpointLocation", str(tmp_path / checkpoint))
        query = started.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(300)
        finally:
            query.stop()

    return until_done


def ids(spark: SparkSession, table: str) -> list[int]:
    spark.catalog.refreshTable(table)
    return sorted(row[0] for row in spark.table(table).select("id").collect())


@pytest.mark.slow
@pytest.mark.connect
def test_a_new_checkpoint_under_the_same_query_name_is_an_error_and_not_silence(
    run: Run, spark: SparkSession, orders: str, tmp_path: Path
) -> None:
    run(0, 1)
    run()  # from the same checkpoint: the same query
    keeper = Maintenance(services=TableWriter(spark)._services)
    tags = [one.tags for one in keeper.history(orders).versions]
    assert [one["job"] for one in tags] == ["nightly", "nightly"]
    assert len({one.get(QUERY_TAG, "") for one in tags}) == 1
    assert all(is_connect(spark) or QUERY_TAG in one for one in tags)
    (tmp_path / "checkpoint" / "commits" / "1").unlink()  # as if it had died before it could note the batch
    (tmp_path / "checkpoint" / "commits" / ".1.crc").unlink(missing_ok=True)
    run(2)
    assert ids(spark, orders) == [0, 1, 2], "a replayed batch of the same checkpoint is recognised"
    shutil.rmtree(tmp_path / "checkpoint")
    with pytest.raises(StreamingQueryException, match=r"another checkpoint.*another query_name"):
        run(3)
    assert ids(spark, orders) == [0, 1, 2], "nothing was written"
    run(checkpoint="second", query_name="orders-2")
    assert ids(spark, orders) == [0, 0, 1, 1, 2, 2, 3], "the way out that the message names"


@pytest.mark.slow
def test_a_new_checkpoint_goes_on_once_the_old_rows_were_rolled_back(
    run: Run, spark: SparkSession, orders: str
) -> None:
    run(0, 1)
    Maintenance(services=TableWriter(spark)._services).rollback(orders, version=0)
    run(checkpoint="second")
    assert ids(spark, orders) == [0, 1]


NEW, OLD = "new-query", "old-query"


def put(world: World, key: str, query_id: str = "") -> int:
    """Publish a batch as a streaming query would; returns its version."""
    plan = replace(world.plan(key=key, stream="orders"), tags={QUERY_TAG: query_id} if query_id else {})
    version = world.write({"d1": frozenset([1])}, plan=plan).entry.version
    return int(version)


def ask(world: World, key: str, *query_ids: str) -> object:
    return world.services().require_new_key(Key(key, key.rpartition("/")[0]), query_ids)


def test_another_query_is_refused_at_every_batch_and_an_unknown_one_at_none() -> None:
    world = World()
    for batch in range(3):
        put(world, f"orders/{batch}", OLD)
    for batch in (0, 2, 3, 57):
        with pytest.raises(InvalidInputError, match=f"batch {batch} of query_name='orders'.*{NEW}.*{OLD}"):
            ask(world, f"orders/{batch}", NEW)
    assert ask(world, "orders/3", OLD) is not None
    assert ask(world, "orders/3", NEW, OLD) is not None, "it may be either"
    assert ask(world, "orders/3") is not None, "nobody can tell"
    with pytest.raises(InvalidInputError, match=r"batch 1 of query_name='orders'.*another checkpoint than the one"):
        ask(world, "orders/1")  # a query that is started again repeats its newest batch alone
    assert ask(world, "others/0", NEW) is not None


def test_a_first_batch_without_rows_hides_no_new_checkpoint() -> None:
    """Its key was never used: the stream's newest entry tells."""
    world = World()
    put(world, "orders/1", OLD)
    with pytest.raises(InvalidInputError, match="another checkpoint"):
        ask(world, "orders/0", NEW)


def test_entries_of_before_ids_were_kept_stay_valid() -> None:
    world = World()
    put(world, "orders/0")
    assert ask(world, "orders/1", NEW) is not None
    put(world, "orders/1", OLD)
    with pytest.raises(InvalidInputError, match="another checkpoint"):
        ask(world, "orders/0", NEW)


def test_what_a_fold_and_a_trim_have_left_of_a_stream_still_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_log, "FOLD_EVERY_VERSIONS", 3)
    world = World()
    for batch in range(4):
        put(world, f"orders/{batch}", OLD)
    for number in range(4):
        world.write({f"e{number}": frozenset([number])})
    world.vacuum()
    assert world.services().log.read_recent().fold is not None
    for batch in (0, 3, 4):
        with pytest.raises(InvalidInputError, match="another checkpoint"):
            ask(world, f"orders/{batch}", NEW)
    with pytest.raises(RepeatedError):
        ask(world, "orders/3", OLD)
    assert ask(world, "orders/4", OLD) is not None


def test_the_usual_batch_costs_no_request_more_than_a_key() -> None:
    world = World()
    for batch in range(40):
        put(world, f"orders/{batch}", OLD)
    counts = []
    for look in (
        lambda log, recent: log.find_batch(Key("orders/40", "orders"), recent)[0],
        lambda log, recent: log.find_key(Key("orders/40", "orders"), recent),
    ):
        log = world.services().log  # which remembers nothing
        recent, before = log.list_recent(), world.store.request_counts()["GetObject"]
        assert look(log, recent) is None
        counts.append(world.store.request_counts()["GetObject"] - before)
    assert counts[0] == counts[1]


def test_a_query_that_publishes_the_same_batch_meanwhile_is_no_replay() -> None:
    world = World()
    with pytest.raises(InvalidInputError, match="another checkpoint"):
        world.write(
            {"d1": frozenset([2])},
            plan=replace(world.plan(key="orders/0", stream="orders"), tags={QUERY_TAG: NEW}),
            before_publish=lambda: put(world, "orders/0", OLD),
        )
    with pytest.raises(RepeatedError):
        world.write(
            {"d1": frozenset([2])},
            plan=replace(world.plan(), base_version=0, key=Key("orders/0", "orders"), tags={QUERY_TAG: OLD}),
        )
