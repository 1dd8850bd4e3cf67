"""What a writer's calls tell, on the lakehouse: true figures, and what Spark's plan says the rows are read from."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from openlineage.client.serde import Serde
from pyspark.sql import DataFrame, SparkSession

from table_writer import CheckFailedError, SchemaMismatchError, TableWriter, TableWriterConfig
from table_writer.check import in_range, not_null
from table_writer.events import Source, TableEvent
from table_writer.integrations.openlineage import OpenLineageListener
from table_writer.testing import Lakehouse
from tests.events.lineage import read_by_client

COLUMNS = "id BIGINT, note STRING, dt STRING"


class Told:
    """A listener that could not travel: executors must get on without it."""

    def __init__(self) -> None:
        self.events: list[TableEvent] = []
        self.lock = threading.Lock()

    def __call__(self, event: TableEvent) -> None:
        with self.lock:
            self.events.append(event)

    @property
    def last(self) -> TableEvent:
        return self.events[-1]


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def writer(spark: SparkSession, told: Told) -> TableWriter:
    return TableWriter(spark, config=TableWriterConfig(listeners=[told]))


@pytest.fixture
def orders(spark: SparkSession, lakehouse_database: str) -> str:
    name = f"{lakehouse_database}.orders"
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) USING parquet PARTITIONED BY (dt)")
    return name


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1, "a", "d1"), (2, "b", "d1"), (3, None, "d2")], COLUMNS)


def test_a_write_is_told_as_its_result_says(writer: TableWriter, told: Told, orders: str, rows: DataFrame) -> None:
    result = writer.append(
        rows, orders, tags={"team": "shop"}, idempotency_key="k", checks=[not_null("note", severity="warn")]
    )
    (event,) = told.events
    assert (event.operation, event.outcome, event.mode, event.table) == ("write", "published", "append", orders)
    assert (event.version, event.write_id, event.tags) == (result.version, result.write_id, {"team": "shop"})
    assert (event.rows, event.files, event.bytes) == (result.rows, result.files, result.bytes)
    assert [(one.name, one.action, one.rows) for one in event.partitions] == [
        ("dt=d1", "added", 2),
        ("dt=d2", "added", 1),
    ]
    assert [(one.name, one.passed) for one in event.checks] == [("not_null(note)", False)]
    assert (
        [step.name for step in event.steps]
        == list(result.seconds)
        == ["plan", "upload", "complete", "check", "publish"]
    )
    assert {step.name: step.seconds for step in event.steps} == result.seconds
    assert all(one.ended_at <= other.started_at for one, other in zip(event.steps, event.steps[1:], strict=False))
    assert event.storage_requests["UploadPart"] >= 2  # of executors
    assert (event.sources, event.application_id) == ((), rows.sparkSession.sparkContext.applicationId)
    writer.append(rows, orders, idempotency_key="k")
    assert (told.last.outcome, told.last.version, told.last.partitions) == ("repeated", result.version, ())
    writer.append(rows.limit(0), orders, if_empty="ignore")
    assert (told.last.outcome, told.last.version) == ("nothing", None)


@pytest.mark.slow
def test_sources_are_the_tables_and_files_that_the_plan_reads(
    spark: SparkSession,
    lakehouse: Lakehouse,
    lakehouse_database: str,
    writer: TableWriter,
    told: Told,
    orders: str,
    rows: DataFrame,
) -> None:
    place = f"{lakehouse.warehouse}/{lakehouse_database}.drop"
    rows.write.parquet(place)
    spark.sql(f"CREATE TABLE {lakehouse_database}.hive (id BIGINT) STORED AS ORC")
    spark.sql(f"CREATE TABLE {lakehouse_database}.native (id BIGINT) USING parquet")
    spark.sql(f"CREATE VIEW {lakehouse_database}.seen AS SELECT id FROM {lakehouse_database}.native")
    writer.append(spark.createDataFrame([(1,)], "id BIGINT"), f"{lakehouse_database}.native")
    frame = spark.read.parquet(place).cache()
    frame.createOrReplaceTempView("dropped")
    found = spark.sql(
        f"WITH few AS (SELECT id FROM {lakehouse_database}.seen)"
        " SELECT d.id, d.note, d.dt FROM dropped d JOIN few USING (id)"
        f" WHERE d.id NOT IN (SELECT id FROM {lakehouse_database}.hive) AND d.id IN (SELECT id FROM {orders})"
    )
    try:
        writer.overwrite_partitions(found, orders, if_empty="ignore")
    finally:
        spark.catalog.dropTempView("dropped")
        frame.unpersist()
    sources = told.last.sources
    assert sources is not None
    where = {one.table: one.location for one in sources}
    assert set(where) == {"", f"{lakehouse_database}.native", f"{lakehouse_database}.hive", orders}
    assert (where[""], where[f"{lakehouse_database}.native"].rstrip("/").rpartition("/")[2]) == (place, "native")
    assert len(sources) == 4
    assert Source("", place) in sources
    listener = OpenLineageListener(namespace="shop")
    for one in listener.run_events(told.last):
        read = read_by_client(json.loads(Serde.to_json(one)))
        assert {dataset.name for dataset in read.inputs or ()} >= {orders, place.partition("://")[2].partition("/")[2]}


def test_a_write_that_is_refused_is_told_with_its_checks_and_no_rows(
    writer: TableWriter, told: Told, orders: str, rows: DataFrame
) -> None:
    with pytest.raises(CheckFailedError) as failed:
        writer.append(rows, orders, checks=[not_null("note"), in_range("id", min=0)])
    event = told.last
    assert (event.outcome, event.version, event.write_id) == ("failed", None, failed.value.write_id)
    assert [(one.name, one.passed, one.examples) for one in event.checks] == [
        ("not_null(note)", False, ()),
        ("in_range(id, min=0)", True, ()),
    ]
    assert [step.name for step in event.steps] == ["plan", "upload", "complete", "check"]
    with pytest.raises(SchemaMismatchError):
        writer.append(rows.drop("note"), orders)
    assert told.last.error is not None
    assert (told.last.error.code, [step.name for step in told.last.steps]) == ("schema_mismatch", ["plan"])


@pytest.mark.slow
def test_staging_publishing_and_compacting_are_told_each_by_itself(
    writer: TableWriter, told: Told, orders: str, rows: DataFrame
) -> None:
    with writer.stage(rows, orders, mode="append") as staged:
        staged.publish()
    with writer.stage(rows.withColumn("more", rows.id), orders, mode="append", schema="evolve") as staged:
        staged.publish()
    with writer.stage(rows, orders, schema="allow_missing"):
        pass
    writer.compact(orders, min_files=2)
    writer.compact(orders, min_files=2, dry_run=True)
    found = [(one.operation, one.outcome, one.mode) for one in told.events]
    assert found == [
        ("stage", "staged", "append"),
        ("publish", "published", "append"),
        ("stage", "staged", "append"),
        ("publish", "published", "append"),
        ("stage", "staged", "overwrite_partitions"),
        ("discard", "discarded", "overwrite_partitions"),
        ("compact", "published", "compact"),
    ]
    first, second = told.events[0], told.events[1]
    assert first.write_id == second.write_id
    assert [(one.name, one.action) for one in first.partitions] == [("dt=d1", "staged"), ("dt=d2", "staged")]
    assert [one.name for one in told.events[3].columns] == ["id", "note", "more"]
    assert (told.last.rows, [one.files for one in told.last.partitions]) == (6, [1, 1])


def test_a_batch_of_a_stream_is_told_as_a_write(writer: TableWriter, told: Told, orders: str, rows: DataFrame) -> None:
    write_batch: Any = writer.for_each_batch(orders, mode="append", query_name="orders")
    write_batch(rows, 0)
    write_batch(rows, 0)
    assert [(one.operation, one.outcome, one.idempotency_key) for one in told.events] == [
        ("write", "published", "orders/0"),
        ("write", "repeated", "orders/0"),
    ]
