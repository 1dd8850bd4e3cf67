"""Append in place on real parts: new files come to where readers look, and a driver that dies has added all or none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from table_writer import Maintenance, TableWriter, TableWriterConfig
from table_writer.testing import Lakehouse
from tests.cells import first_fast

from .killed_writer import IN_PLACE
from .test_append import listed
from .test_kills import kill_a_writer
from .watched import BEFORE_CLAIM, STAGED, Moment, Seen

Rows = Callable[..., Any]
Look = Callable[[str], Seen]
MakeTable = Callable[..., str]
OLD = [(1, "old", "d1"), (2, "old", "d2"), (3, "old", "d3")]
NEW = [(100, "new", "d1"), (300, "new", "d3")]


def test_new_files_come_beside_those_that_are_there_one_for_each_partition(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, look: Look
) -> None:
    writer.append(rows(*OLD), orders)
    before = look(orders)
    many = rows(*((number, "new", f"d{number % 2 + 1}") for number in range(10, 30)), (99, "new", "d9"))
    result = writer.append(many.repartition(6, "id"), orders, carry="in_place")
    after = look(orders)
    assert len(listed(spark, orders)) == 24
    assert {name: after.locations[name] for name in before.locations} == before.locations
    for partition in ("dt=d1", "dt=d2"):
        old, now = before.files_of(partition), after.files_of(partition)
        assert (old.items() <= now.items(), len(now) - len(old)) == (True, 1)
    assert (result.copied_files, result.rows, result.files) == (0, 21, 3)
    assert result.storage_requests["CopyObject"] == 2, "the new files alone"
    writer.append(rows((7, "x", "d1")), orders, carry="in_place")
    described = {row[0]: row[1] for row in spark.sql(f"DESCRIBE EXTENDED {orders} PARTITION (dt='d1')").collect()}
    size = sum(size for _, size in look(orders).files_of("dt=d1").values())
    assert described["Partition Statistics"] == f"{size} bytes, 12 rows"


def test_rows_of_other_tools_stay_where_they_are_and_no_number_of_rows_is_claimed(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, look: Look, keeper: Maintenance
) -> None:
    rows(*OLD).write.insertInto(orders)
    before = look(orders)
    writer.append(rows(*NEW), orders, carry="in_place")
    assert look(orders).locations == before.locations
    assert listed(spark, orders) == sorted(OLD + NEW)
    described = {row[0]: row[1] for row in spark.sql(f"DESCRIBE EXTENDED {orders} PARTITION (dt='d1')").collect()}
    assert "numRows" not in described["Partition Parameters"]
    rows((4, "inserted", "d1")).write.insertInto(orders)
    assert listed(spark, orders) == sorted([*OLD, *NEW, (4, "inserted", "d1")])
    keeper.rollback(orders, version=0)
    assert listed(spark, orders) == sorted([*OLD, (4, "inserted", "d1")])


def test_the_plan_says_what_the_other_way_would_copy(
    writer: TableWriter, orders: str, rows: Rows, spark: SparkSession
) -> None:
    writer.append(rows(*OLD), orders)
    copying, in_place = (
        writer.plan(rows(*NEW), orders, "append"),
        writer.plan(rows(*NEW), orders, "append", carry="in_place"),
    )
    assert any("carry='in_place' would copy none of these 2 files" in note for note in copying.notes)
    assert any("carry='copy' would copy 2 files" in note for note in in_place.notes)
    assert [(one.copied_files, one.replaced_location) for one in in_place.partitions] == [(0, None)] * 2


@pytest.mark.parametrize("moment", first_fast([STAGED, BEFORE_CLAIM]), ids=["staged", "before the claim"])
def test_what_others_insert_and_append_meanwhile_is_kept(
    moment: Moment, spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, stopped: Callable[..., Any]
) -> None:
    writer.append(rows(*OLD), orders)

    def others() -> None:
        rows((4, "inserted", "d1")).write.insertInto(orders)
        writer.append(rows((5, "appended", "d1")), orders)
        writer.append(rows((6, "in place", "d1")), orders, carry="in_place")

    stopped(moment, others).append(rows(*NEW), orders, carry="in_place")
    more = [(4, "inserted", "d1"), (5, "appended", "d1"), (6, "in place", "d1")]
    assert listed(spark, orders) == sorted(OLD + NEW + more)


@pytest.mark.slow
def test_counts_of_readers_only_ever_grow(spark: SparkSession, writer: TableWriter, orders: str, rows: Rows) -> None:
    writer.append(rows(*OLD), orders)
    session, counts, ended = spark.newSession(), [], threading.Event()
    failed: list[BaseException] = []

    def read() -> None:
        try:
            while not ended.is_set():
                session.catalog.refreshTable(orders)
                counts.append(session.table(orders).where("length(note) > 0").count())
        except BaseException as error:  # noqa: BLE001  # whatever a reader gets is a failure
            failed.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(5):
        new = rows(*((number, "new", f"d{day}") for day in range(1, 7)))
        writer.append(new, orders, carry="in_place")
    ended.set()
    reader.join(120)
    assert failed == []
    assert counts == sorted(counts)
    assert len(listed(session, orders)) == 3 + 5 * 6


def test_an_unpartitioned_table(
    spark: SparkSession, writer: TableWriter, make_table: MakeTable, keeper: Maintenance
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT) USING parquet")
    spark.range(3).write.insertInto(table)
    writer.append(spark.range(3, 5), table, carry="in_place")
    assert [one[0] for one in listed(spark, table)] == [0, 1, 2, 3, 4]
    writer.overwrite_table(spark.range(1), table)
    writer.append(spark.range(1, 3), table, carry="in_place")
    writer.append(spark.range(3, 4), table, carry="in_place")
    assert [one[0] for one in listed(spark, table)] == [0, 1, 2, 3]
    keeper.rollback(table, version=3)
    assert [one[0] for one in listed(spark, table)] == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("stored_as", ["ORC", "TEXTFILE"])
def test_a_table_that_sparks_engine_writes(
    stored_as: str, spark: SparkSession, writer: TableWriter, make_table: MakeTable, rows: Rows, look: Look
) -> None:
    ddl = f"CREATE TABLE {{name}} (id BIGINT, note STRING) PARTITIONED BY (dt STRING) STORED AS {stored_as}"
    table = make_table(ddl)
    writer.append(rows(*OLD), table)
    before = look(table).locations
    writer.append(rows(*NEW), table, carry="in_place", engine="spark")
    assert listed(spark, table) == sorted(OLD + NEW)
    assert look(table).locations == before


def test_it_is_staged_here_and_published_elsewhere(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, look: Look, lakehouse: Lakehouse
) -> None:
    writer.append(rows(*OLD), orders)
    before = look(orders).locations
    staged = writer.stage(rows(*NEW), orders, "append", carry="in_place")
    writer.append(rows((4, "meanwhile", "d1")), orders, carry="in_place")
    assert listed(spark, orders) == sorted([*OLD, (4, "meanwhile", "d1")])
    elsewhere = Maintenance(
        lakehouse.metastore_uri, config=TableWriterConfig(hadoop=lakehouse.s3_server.hadoop_settings())
    )
    assert elsewhere.publish(orders, staged.write_id).version == 3
    assert elsewhere.publish(orders, staged.write_id).repeated
    assert listed(spark, orders) == sorted([*OLD, *NEW, (4, "meanwhile", "d1")])
    assert look(orders).locations == before


def test_a_batch_of_a_stream_counts_once(spark: SparkSession, writer: TableWriter, orders: str, rows: Rows) -> None:
    write_batch = writer.for_each_batch(orders, "append", "orders", carry="in_place")
    for batch in (0, 0, 1, 1):
        write_batch(rows((batch, "new", "d1")), batch)
    assert listed(spark, orders) == [(0, "new", "d1"), (1, "new", "d1")]


@pytest.mark.slow
@pytest.mark.parametrize("moment", IN_PLACE)
def test_after_a_kill_recover_brings_all_rows_and_a_rollback_the_old_ones(
    moment: str,
    spark: SparkSession,
    writer: TableWriter,
    orders: str,
    rows: Rows,
    look: Look,
    keeper: Maintenance,
    tmp_path: Path,
) -> None:
    writer.append(rows(*OLD), orders)
    kill_a_writer(spark, orders, moment, tmp_path, *(Path(__file__).with_name("killed_writer.py"), "in_place"))
    seen = {"between two copies": [*OLD, NEW[0]], "before its outcome": [*OLD, *NEW]}.get(moment, OLD)
    assert listed(spark, orders) == sorted(seen)
    keeper.recover(orders)
    claimed = moment != "before the claim"
    assert listed(spark, orders) == sorted([*OLD, *NEW] if claimed else OLD)
    writer.append(rows((5, "later", "d3")), orders, carry="in_place")
    if claimed:
        keeper.rollback(orders, version=2)
        assert listed(spark, orders) == sorted([*OLD, *NEW])
    keeper.rollback(orders, version=1)
    assert listed(spark, orders) == sorted(OLD)
    assert not writer._services.open_to_write(orders).log.lister.read().in_doubt
