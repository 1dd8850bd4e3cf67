"""Append on real parts: old and new rows together, whatever others do meanwhile, and no old byte through the client."""

from __future__ import annotations

import copy
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore import ttypes
from pyspark.sql import SparkSession

from table_writer import ConflictError, InvalidInputError, TableWriter
from table_writer.model.table import Partition
from table_writer.spark import open_gateway
from table_writer.spark.executors import MANY_COPIES, Executors
from table_writer.storage.object_store import ObjectInfo, open_store
from table_writer.storage.worker import copier
from table_writer.testing import Lakehouse

from .watched import BEFORE_CLAIM, COPYING, STAGED, Moment, Seen, requests_to

Rows = Callable[..., Any]
Content = Callable[[str], set[tuple[Any, ...]]]
Look = Callable[[str], Seen]
Stopped = Callable[..., TableWriter]
MOMENTS = {"staged": STAGED, "copying": COPYING, "before the claim": BEFORE_CLAIM}


def listed(spark: SparkSession, table: str) -> list[tuple[Any, ...]]:
    """Return the rows with their number: none may be there twice."""
    spark.catalog.refreshTable(table)
    return sorted(tuple(row) for row in spark.table(table).collect())


@pytest.mark.connect
def test_rows_come_beside_those_that_spark_wrote_and_no_byte_of_these_passes_the_client(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, look: Look, lakehouse: Lakehouse
) -> None:
    rows((1, "a", "d1"), (2, "b", "d1"), (3, "c", "d2")).repartition(2, "id").write.insertInto(orders)
    before = look(orders)
    old = before.files_of("dt=d1")
    with requests_to(lakehouse) as sent:
        result = writer.append(rows((4, "d", "d1"), (5, "e", "d3")).coalesce(1), orders)
    after = look(orders)
    assert listed(spark, orders) == [(1, "a", "d1"), (2, "b", "d1"), (3, "c", "d2"), (4, "d", "d1"), (5, "e", "d3")]
    assert {one.name: one.action for one in result.partitions} == {"dt=d1": "appended", "dt=d3": "added"}
    assert (result.copied_files, result.copied_bytes) == (len(old), sum(size for _, size in old.values()))
    assert result.storage_requests["CopyObject"] == len(old)
    assert [path for method, path in sent if method == "GET" and path.endswith(".parquet")] == []
    assert Counter(method for method, path in sent if path.rpartition("/")[2] in old) == {"PUT": len(old)}
    assert {name: after.files_of("dt=d1")[name] for name in old} == old, "same names, same bytes"
    assert len(after.files_of("dt=d1")) == len(old) + 1
    assert after.locations["dt=d2"] == before.locations["dt=d2"]
    assert before.data.items() <= after.data.items(), "running queries still read the old ones"


def test_appends_add_up_and_so_do_the_statistics(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, look: Look
) -> None:
    for number in range(3):
        result = writer.append(rows((number, "x", "d1")).coalesce(1), orders)
    assert listed(spark, orders) == [(0, "x", "d1"), (1, "x", "d1"), (2, "x", "d1")]
    assert (result.rows, result.files, result.copied_files) == (1, 1, 2)
    assert len(look(orders).files_of("dt=d1")) == 3
    described = {row[0]: row[1] for row in spark.sql(f"DESCRIBE EXTENDED {orders} PARTITION (dt='d1')").collect()}
    assert "numRows=3" in described["Partition Parameters"]
    assert described["Partition Statistics"] == f"{result.bytes + result.copied_bytes} bytes, 3 rows"


def test_rows_of_other_tools_are_not_counted_so_no_number_of_rows_is_claimed(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows
) -> None:
    writer.append(rows((1, "a", "d1")), orders)
    rows((2, "b", "d1")).write.insertInto(orders)
    writer.append(rows((3, "c", "d1")), orders)
    described = {row[0]: row[1] for row in spark.sql(f"DESCRIBE EXTENDED {orders} PARTITION (dt='d1')").collect()}
    assert "numRows" not in described["Partition Parameters"]
    assert spark.table(orders).count() == 3


def test_partitions_without_files_take_rows_and_nothing_is_copied(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows
) -> None:
    services = writer._services.open_to_write(orders)
    placeholder = Partition(values=("d1",), location=str(services.layout.placeholder("w")), parameters={})
    services.metastore.add_partitions(services.table, [placeholder])
    spark.sql(f"ALTER TABLE {orders} ADD PARTITION (dt='d2')")
    result = writer.append(rows((1, "a", "d1"), (2, "b", "d2")), orders, max_copied_bytes=0)
    assert listed(spark, orders) == [(1, "a", "d1"), (2, "b", "d2")]
    assert result.copied_files == 0


def test_a_dataframe_may_read_the_partition_it_is_appended_to(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows
) -> None:
    writer.append(rows((1, "a", "d1")), orders)
    writer.append(spark.table(orders).selectExpr("id + 1 AS id", "note", "dt"), orders)
    assert listed(spark, orders) == [(1, "a", "d1"), (2, "a", "d1")]


def test_a_copy_above_the_limit_is_refused_with_the_ways_out_and_leaves_nothing(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, look: Look
) -> None:
    writer.append(rows((1, "a", "d1")), orders)
    before = look(orders)
    with pytest.raises(InvalidInputError) as raised:
        writer.append(rows((2, "b", "d1"), (3, "c", "d2")), orders, max_copied_bytes=0)
    for said in (orders, "max_copied_bytes=0", "more finely", "overwrite_partitions", "raise max_copied_bytes"):
        assert said in str(raised.value)
    assert look(orders) == before
    writer.append(rows((3, "c", "d2")), orders, max_copied_bytes=0)
    writer.append(rows((2, "b", "d1")), orders, max_copied_bytes=None)
    assert listed(spark, orders) == [(1, "a", "d1"), (2, "b", "d1"), (3, "c", "d2")]


def _as_orc(storage: Any) -> None:
    storage.serdeInfo.serializationLib = "org.apache.hadoop.hive.ql.io.orc.OrcSerde"


def _as_text(storage: Any) -> None:
    storage.cols[0].type = "string"


def _with_more(storage: Any) -> None:
    storage.cols.append(ttypes.FieldSchema("gone", "string", ""))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_as_orc, "is stored as org.apache.hadoop.hive.ql.io.orc.OrcSerde"),
        (_as_text, "has column id as string, the table as bigint"),
        (_with_more, "has column gone, which the table does not have"),
    ],
)
def test_a_partition_that_is_described_otherwise_than_the_table_is_refused_with_the_difference(
    change: Callable[[Any], None],
    said: str,
    writer: TableWriter,
    make_table: Callable[..., str],
    rows: Rows,
    look: Look,
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, note STRING) PARTITIONED BY (dt STRING) STORED AS PARQUET")
    writer.append(rows((1, "a", "d1"), (2, "b", "d2")), table)
    services = writer._services.open_to_write(table)
    found = services.metastore.get_partitions(services.table, [("d1",)])[("d1",)]
    altered: Any = copy.deepcopy(found.native)
    change(altered.sd)
    services.metastore._connection.change(  # type: ignore[attr-defined]
        "alter_partition", services.table.name.database, services.table.name.name, altered, table=table
    )
    before = look(table)
    with pytest.raises(InvalidInputError) as raised:
        writer.append(rows((3, "c", "d1"), (4, "d", "d2")), table)
    assert f"dt=d1 of {table} {said}" in str(raised.value)
    assert "overwrite_partitions" in str(raised.value)
    assert look(table) == before
    assert writer.append(rows((4, "d", "d2")), table).copied_files == 1, "the other partition is as the table says"


def test_a_partition_in_another_bucket_is_refused(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, lakehouse: Lakehouse, look: Look
) -> None:
    lakehouse.s3.create_bucket(Bucket="apart")
    rows((1, "a", "d1")).select("id", "note").write.mode("overwrite").parquet("s3a://apart/append/d1")
    spark.sql(f"ALTER TABLE {orders} ADD PARTITION (dt='d1') LOCATION 's3a://apart/append/d1'")
    writer.append(rows((9, "z", "d9")), orders)
    before = look(orders)
    with pytest.raises(InvalidInputError, match="another bucket, at s3a://apart/append/d1/"):
        writer.append(rows((2, "b", "d1")), orders)
    assert look(orders) == before


@pytest.mark.connect
@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_of_two_appenders_to_one_partition_both_succeed(
    moment: Moment, spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, stopped: Stopped, look: Look
) -> None:
    writer.append(rows((1, "old", "d1")).coalesce(1), orders)
    first: list[Any] = []
    second = stopped(moment, lambda: first.append(writer.append(rows((2, "first", "d1"), (7, "first", "d2")), orders)))
    result = second.append(rows((3, "second", "d1"), (8, "second", "d3")).coalesce(1), orders)
    assert (first[0].version, result.version) == (2, 3)
    assert listed(spark, orders) == [
        (1, "old", "d1"),
        (2, "first", "d1"),
        (3, "second", "d1"),
        (7, "first", "d2"),
        (8, "second", "d3"),
    ]
    assert look(orders).uploads == frozenset()


@pytest.mark.connect
def test_two_appenders_in_two_threads_both_succeed(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, stopped: Stopped
) -> None:
    writer.append(rows((0, "old", "d1")).coalesce(1), orders)
    together = threading.Barrier(2, timeout=300)
    frames = [rows((number, "new", "d1")).coalesce(1) for number in (1, 2)]

    def append(frame: Any) -> Any:
        return stopped(STAGED, together.wait).append(frame, orders)

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(append, frames))
    assert {result.version for result in results} == {2, 3}
    assert listed(spark, orders) == [(0, "old", "d1"), (1, "new", "d1"), (2, "new", "d1")]


def test_an_append_builds_on_an_overwrite_that_was_faster(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, stopped: Stopped
) -> None:
    writer.append(rows((1, "old", "d1")), orders)
    appender = stopped(BEFORE_CLAIM, lambda: writer.overwrite_partitions(rows((2, "over", "d1")), orders))
    appender.append(rows((3, "new", "d1")), orders)
    assert listed(spark, orders) == [(2, "over", "d1"), (3, "new", "d1")]


@pytest.mark.parametrize("method", ["overwrite_partitions", "overwrite_table"])
def test_an_overwrite_conflicts_with_an_append_that_was_faster(
    method: str, spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, stopped: Stopped, look: Look
) -> None:
    writer.append(rows((1, "old", "d1")), orders)
    overwriter = stopped(STAGED, lambda: writer.append(rows((2, "new", "d1")), orders))
    with pytest.raises(ConflictError, match="dt=d1"):
        getattr(overwriter, method)(rows((3, "over", "d1")), orders)
    assert listed(spark, orders) == [(1, "old", "d1"), (2, "new", "d1")]
    assert look(orders).uploads == frozenset()


@pytest.mark.connect
@pytest.mark.parametrize("moment", [STAGED, COPYING], ids=["staged", "copying"])
def test_what_another_tool_inserts_meanwhile_is_kept(
    moment: Moment, spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, stopped: Stopped
) -> None:
    writer.append(rows((1, "old", "d1")), orders)
    appender = stopped(moment, lambda: rows((2, "inserted", "d1"), (5, "inserted", "d5")).write.insertInto(orders))
    appender.append(rows((3, "new", "d1"), (6, "new", "d5")), orders)
    assert listed(spark, orders) == [
        (1, "old", "d1"),
        (2, "inserted", "d1"),
        (3, "new", "d1"),
        (5, "inserted", "d5"),
        (6, "new", "d5"),
    ]


@pytest.mark.parametrize("moment", [STAGED, COPYING], ids=["staged", "copying"])
def test_what_another_tool_overwrites_meanwhile_is_not_brought_back(
    moment: Moment, spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, stopped: Stopped
) -> None:
    writer.append(rows((1, "old", "d1")), orders)
    overwrite = f"INSERT OVERWRITE {orders} PARTITION (dt='d1') SELECT 2L, 'others'"
    appender = stopped(moment, lambda: spark.sql(overwrite))
    appender.append(rows((3, "new", "d1")), orders)
    assert listed(spark, orders) == [(2, "others", "d1"), (3, "new", "d1")]


@pytest.mark.parametrize("kind", ["USING orc PARTITIONED BY (dt)", "USING parquet PARTITIONED BY (dt)"])
def test_on_a_file_system_too(
    kind: str, spark: SparkSession, writer: TableWriter, make_table: Callable[..., str], rows: Rows, tmp_path: Path
) -> None:
    ddl = f"CREATE TABLE {{name}} (id BIGINT, note STRING, dt STRING) {kind} LOCATION 'file://{tmp_path}/orders'"
    table = make_table(ddl)
    rows((1, "a", "d1")).write.insertInto(table)
    old = {file.name for file in (tmp_path / "orders" / "dt=d1").iterdir() if not file.name.startswith(".")}
    result = writer.append(rows((2, "b", "d1")), table)
    writer.append(rows((3, "c", "d1")), table)
    assert listed(spark, table) == [(1, "a", "d1"), (2, "b", "d1"), (3, "c", "d1")]
    assert old < {file.name for file in Path(result.partitions[0].location.removeprefix("file://")).iterdir()}


def tiny_objects(writer: TableWriter, table: str, count: int) -> tuple[Any, str, list[ObjectInfo]]:
    services = writer._services.open_to_write(table)
    store, prefix = services.store, f"{services.layout.root.key}tiny/"
    for number in range(count):
        store.put(f"{prefix}{number:03d}", str(number).encode())
    return services.store_settings, prefix, list(store.list(prefix))


def test_executors_copy_what_they_are_given_and_say_what_it_took(
    spark: SparkSession, writer: TableWriter, orders: str
) -> None:
    settings, prefix, found = tiny_objects(writer, orders, 60)
    copies = [(source.key.replace("/tiny/", "/copied/"), source) for source in found]
    answers = spark.sparkContext.parallelize(copies, 3).mapPartitions(copier(settings)).collect()
    store = open_store(settings)
    copied = {
        one.key.rpartition("/")[2]: (one.etag, one.size_bytes) for one in store.list(prefix.replace("tiny", "copied"))
    }
    assert copied == {one.key.rpartition("/")[2]: (one.etag, one.size_bytes) for one in found}
    assert [(requests, message) for requests, message in answers] == [({"CopyObject": 20}, "")] * 3


def test_an_executor_says_when_a_source_is_gone_and_copies_the_others(writer: TableWriter, orders: str) -> None:
    settings, prefix, found = tiny_objects(writer, orders, 3)
    store = open_store(settings)
    store.delete([found[1].key])
    copies = [(source.key.replace("/tiny/", "/copied/"), source) for source in found]
    ((_, message),) = copier(settings)(copies)
    assert found[1].key in message
    assert [one.key.rpartition("/")[2] for one in store.list(prefix.replace("tiny", "copied"))] == ["000", "002"]


@pytest.mark.slow
def test_very_many_copies_are_spread_over_executors(spark: SparkSession, writer: TableWriter, orders: str) -> None:
    settings, prefix, (source,) = tiny_objects(writer, orders, 1)
    counted: Counter[str] = Counter()
    by_driver: list[Any] = []
    copy_all = partial(Executors(open_gateway(spark), settings, "w", counted.update).copy, few=by_driver.append)
    copy_all({f"{prefix}many/{number}": source for number in range(MANY_COPIES)})
    assert (dict(counted), by_driver) == ({"CopyObject": MANY_COPIES}, [])
    assert len(list(open_store(settings).list(f"{prefix}many/"))) == MANY_COPIES
    copy_all({f"{prefix}few": source})
    assert by_driver == [{f"{prefix}few": source}]
