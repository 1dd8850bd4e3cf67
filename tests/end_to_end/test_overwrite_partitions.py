"""The main job on real parts: Spark, a Hive metastore, S3 over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from table_writer import ConflictError, InvalidInputError, TableWriter, TableWriterConfig
from table_writer.testing import Lakehouse

from .watched import STAGED

Rows = Callable[..., Any]
Content = Callable[[str], set[tuple[Any, ...]]]
Keys = Callable[[str], set[str]]


@pytest.mark.connect
def test_first_write_adds_and_second_replaces_only_its_partitions(
    writer: TableWriter, orders: str, rows: Rows, content: Content
) -> None:
    first = writer.overwrite_partitions(rows((1, "a", "d1"), (2, "b", "d2"), (3, "c", "d3")), orders)
    assert [partition.name for partition in first.added] == ["dt=d1", "dt=d2", "dt=d3"]
    assert first.replaced == ()
    second = writer.overwrite_partitions(rows((20, "B", "d2"), (40, "D", "d4")), orders)
    assert [partition.name for partition in second.replaced] == ["dt=d2"]
    assert [partition.name for partition in second.added] == ["dt=d4"]
    assert content(orders) == {(1, "a", "d1"), (20, "B", "d2"), (3, "c", "d3"), (40, "D", "d4")}
    assert (first.version, second.version) == (1, 2)


@pytest.mark.connect
def test_a_dataframe_may_read_the_table_it_overwrites(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows, content: Content
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1"), (2, "b", "d2")), orders)
    table = spark.table(orders)
    writer.overwrite_partitions(table.withColumn("id", table.id + 100), orders)
    assert content(orders) == {(101, "a", "d1"), (102, "b", "d2")}


LOOK = {"get_partitions_statistics_req": 1}  # are there statistics of the rows that go?


@pytest.mark.parametrize(
    ("second", "changing"),
    [
        ([(1, "a", "d1"), (2, "b", "d2")], {"alter_partitions_with_environment_context": 1, **LOOK}),
        ([(1, "a", "d3")], {"add_partitions_req": 1, "get_table_req": 3}),  # none is there: is the table?
        (
            [(1, "a", "d1"), (3, "c", "d3")],
            {"add_partitions_req": 1, "alter_partitions_with_environment_context": 1, **LOOK},
        ),
    ],
    ids=["replaces", "adds", "mixes"],
)
def test_a_write_takes_one_changing_call_or_two_and_three_requests_a_file(
    spark: SparkSession, orders: str, rows: Rows, second: list[Any], changing: dict[str, int]
) -> None:
    writer = TableWriter(spark, config=TableWriterConfig(column_statistics="off"))
    writer.overwrite_partitions(rows((1, "a", "d1"), (2, "b", "d2")), orders)
    result = writer.overwrite_partitions(rows(*second).coalesce(1), orders)
    assert result.metastore_calls == {"get_table_req": 2, "get_partitions_by_names": 1, **changing}
    uploads = ("CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload")
    assert {name: result.storage_requests[name] for name in uploads} == dict.fromkeys(uploads, result.files)
    assert sum(result.storage_requests.values()) == 3 * result.files + 12


@pytest.mark.connect
def test_statistics_of_partitions_are_exact(spark: SparkSession, writer: TableWriter, orders: str, rows: Rows) -> None:
    result = writer.overwrite_partitions(rows((1, "a", "d1"), (2, "b", "d1")), orders)
    described = {row[0]: row[1] for row in spark.sql(f"DESCRIBE EXTENDED {orders} PARTITION (dt='d1')").collect()}
    assert "numRows=2" in described["Partition Parameters"]
    assert f"totalSize={result.bytes}" in described["Partition Parameters"]
    assert f"table_writer.write_id={result.write_id}" in described["Partition Parameters"]
    assert described["Partition Statistics"] == f"{result.bytes} bytes, 2 rows"


def test_statistics_of_the_table_that_are_wrong_now_are_removed(
    spark: SparkSession, writer: TableWriter, orders: str, rows: Rows
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1")), orders)
    spark.sql(f"ANALYZE TABLE {orders} COMPUTE STATISTICS")
    assert "spark.sql.statistics.numRows" in parameters_of(writer, orders)
    result = writer.overwrite_partitions(rows((1, "a", "d1"), (2, "b", "d1")), orders)
    assert result.notes == ()
    assert not [name for name in parameters_of(writer, orders) if name.startswith("spark.sql.statistics")]


def parameters_of(writer: TableWriter, table: str) -> dict[str, str]:
    return dict(writer._services.open_to_write(table).table.parameters)


def test_success_file_is_hadoops_json(
    writer: TableWriter, orders: str, rows: Rows, keys_below: Keys, lakehouse: Lakehouse
) -> None:
    result = writer.overwrite_partitions(rows((1, "a", "d1")), orders)
    assert "_SUCCESS" in keys_below(orders)
    body = json.loads(success_of(lakehouse, orders))
    assert body["name"] == "org.apache.hadoop.fs.s3a.commit.files.SuccessData/1"
    assert body["committer"] == "table_writer"
    assert body["jobId"] == result.write_id
    assert len(body["filenames"]) == result.files


def success_of(lakehouse: Lakehouse, table: str) -> bytes:
    described = lakehouse.spark.sql(f"DESCRIBE FORMATTED {table}").where("col_name = 'Location'").first()
    assert described is not None
    key = described[1].split("/", 3)[3] + "/_SUCCESS"
    return lakehouse.s3.get_object(Bucket=lakehouse.bucket, Key=key)["Body"].read()


def test_no_success_file_where_hadoop_is_told_not_to_write_one(
    spark: SparkSession, orders: str, rows: Rows, keys_below: Keys
) -> None:
    config = TableWriterConfig(hadoop={"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"})
    TableWriter(spark, config=config).overwrite_partitions(rows((1, "a", "d1")), orders)
    assert "_SUCCESS" not in keys_below(orders)


@pytest.mark.connect
def test_nothing_of_a_failed_write_is_left(
    spark: SparkSession,
    writer: TableWriter,
    orders: str,
    rows: Rows,
    content: Content,
    keys_below: Keys,
    lakehouse: Lakehouse,
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1")), orders)
    before = keys_below(orders)
    failing = rows(*[(n, "x", f"d{n % 3}") for n in range(1000)]).withColumn(
        "note", F.when(F.col("id") == 999, F.raise_error("broken row")).otherwise("x")
    )
    with pytest.raises(Exception, match="broken row"):
        writer.overwrite_partitions(failing, orders)
    assert keys_below(orders) == before
    assert uploads_of(lakehouse, orders) == []
    assert content(orders) == {(1, "a", "d1")}


def test_an_empty_dataframe_is_an_error_unless_it_may_be_empty(
    writer: TableWriter, orders: str, rows: Rows, content: Content, keys_below: Keys
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1")), orders)
    before = keys_below(orders)
    empty = rows((1, "a", "d1")).where("id > 1")
    with pytest.raises(InvalidInputError, match="if_empty='ignore'"):
        writer.overwrite_partitions(empty, orders)
    result = writer.overwrite_partitions(empty, orders, if_empty="ignore")
    assert result.version is None
    assert "nothing changed" in repr(result)
    assert content(orders) == {(1, "a", "d1")}
    assert keys_below(orders) == before


def test_the_second_of_two_overlapping_writes_is_a_conflict(
    writer: TableWriter, orders: str, rows: Rows, content: Content, stopped: Callable[..., TableWriter]
) -> None:
    writer.overwrite_partitions(rows((1, "a", "d1")), orders)
    late = stopped(STAGED, lambda: writer.overwrite_partitions(rows((7, "winner", "d1")), orders))
    with pytest.raises(ConflictError, match="dt=d1"):
        late.overwrite_partitions(rows((8, "loser", "d1")), orders)
    assert content(orders) == {(7, "winner", "d1")}


def test_result_reads_well(spark: SparkSession, writer: TableWriter, orders: str, rows: Rows) -> None:
    result = writer.overwrite_partitions(rows((1, "a", "d<1>")), orders)
    assert "1 partition added, 0 replaced, 1 row in 1 file" in repr(result)
    assert "dt=d&lt;1&gt;" in result._repr_html_()
    assert_df_equality(spark.table(orders), rows((1, "a", "d<1>")), ignore_nullable=True)


def uploads_of(lakehouse: Lakehouse, table: str) -> list[Any]:
    prefix = f"warehouse/{table.replace('.', '.db/')}/"
    return lakehouse.s3.list_multipart_uploads(Bucket=lakehouse.bucket, Prefix=prefix).get("Uploads", [])
