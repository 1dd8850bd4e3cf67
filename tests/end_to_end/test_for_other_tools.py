"""What other tools look for beside the rows: markers, reports, names of files, and no renames."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from table_writer import InvalidInputError, TableWriter, TableWriterConfig
from table_writer.testing import Lakehouse

Rows = Callable[..., Any]
Keys = Callable[[str], set[str]]
REFUSING = TableWriterConfig(renames="error", hadoop={"fs.s3a.committer.magic.enabled": "false"})


def markers(keys: set[str]) -> set[str]:
    return {key for key in keys if key.endswith("_SUCCESS")}


def root_of(spark: SparkSession, table: str) -> str:
    described = spark.sql(f"DESCRIBE FORMATTED {table}").where("col_name = 'Location'").first()
    assert described is not None
    return str(described[1])


def test_sensors_find_each_partitions_marker_below_the_root_and_readers_do_not(
    spark: SparkSession, orders: str, rows: Rows, keys_below: Keys, content: Callable[[str], set[tuple[Any, ...]]]
) -> None:
    writer = TableWriter(spark, config=TableWriterConfig(mark_success="partitions"))
    spark.sql(f"INSERT INTO {orders} VALUES (1, 'of Spark', 'd 1')")
    writer.append(rows((2, "b", "d 1"), (3, "c", "d/2")), orders, carry="in_place")
    assert markers(keys_below(orders)) == {"_SUCCESS", "dt=d 1/_SUCCESS", "dt=d%2F2/_SUCCESS"}
    assert content(orders) == {(1, "of Spark", "d 1"), (2, "b", "d 1"), (3, "c", "d/2")}
    spark.sql(f"MSCK REPAIR TABLE {orders}")
    assert spark.sql(f"SHOW PARTITIONS {orders}").count() == 2
    assert writer.append(rows((4, "d", "d 1")), orders).copied_files == 2
    writer.delete_where(orders, "id = 3")
    assert writer.read(orders, version=1).count() == 3
    assert content(orders) == {(1, "of Spark", "d 1"), (2, "b", "d 1"), (4, "d", "d 1")}
    assert markers(keys_below(orders)) >= {"_SUCCESS", "dt=d 1/_SUCCESS"}
    writer.overwrite_partitions(rows((5, "e", "d 1")), orders, where="dt IN ('d 1', 'd/2')")
    assert markers(keys_below(orders)) == {"_SUCCESS", "dt=d 1/_SUCCESS"}


def test_hadoop_reads_a_marker_with_its_figures(
    spark: SparkSession, orders: str, rows: Rows, lakehouse: Lakehouse
) -> None:
    writer = TableWriter(spark, config=TableWriterConfig(mark_success="partitions"))
    result = writer.overwrite_partitions(rows((1, "a", "d1"), (2, "b", "d1"), (3, "c", "d2")), orders)
    java: Any = spark.sparkContext._jvm
    data = java.org.apache.hadoop.fs.s3a.commit.files.SuccessData

    def load(name: str) -> Any:
        path = java.org.apache.hadoop.fs.Path(f"{root_of(spark, orders)}/{name}")
        return data.load(path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), path)

    whole, partition = load("_SUCCESS"), load("dt=d1/_SUCCESS")
    assert whole.getJobId() == partition.getJobId() == result.write_id
    assert (whole.getMetrics()["rows"], partition.getMetrics()["rows"]) == (3, 2)
    assert whole.getMetrics()["committer_bytes_committed"] == result.bytes
    statistics = whole.getIOStatistics()
    assert statistics.counters()["multipart_upload_completed"] == result.files
    assert statistics.counters()["object_put_request"] >= 1
    assert statistics.meanStatistics()["table_writer.upload.mean"].getSamples() == 1
    assert statistics.maximums()["table_writer.publish.max"] >= statistics.minimums()["table_writer.publish.min"] > 0
    assert whole.dumpMetrics("", "=", ";").count("committer_commits_completed=") == 1


def test_files_are_named_as_the_config_says_and_keep_their_names_in_appends(
    spark: SparkSession, orders: str, rows: Rows, keys_below: Keys, content: Callable[[str], set[tuple[Any, ...]]]
) -> None:
    writer = TableWriter(spark, config=TableWriterConfig(file_name_prefix="orders-eu"))
    first = writer.overwrite_partitions(rows((1, "a", "d1")), orders)
    second = TableWriter(spark).append(rows((2, "b", "d1")), orders)
    names = {key.rpartition("/")[2] for key in keys_below(orders) if second.write_id in key and "dt=" in key}
    assert {name.partition("-0000")[0] for name in names} == {"orders-eu", "part"}
    assert all(first.write_id in name for name in names if name.startswith("orders-eu"))
    assert content(orders) == {(1, "a", "d1"), (2, "b", "d1")}
    assert writer.compact(orders, min_files=2).version == 3


@pytest.mark.parametrize("call", ["write", "plan", "compact"])
def test_a_format_that_would_be_renamed_is_refused_before_anything_is_written(
    spark: SparkSession, make_table: Callable[..., str], rows: Rows, keys_below: Keys, call: str
) -> None:
    table = make_table("CREATE TABLE {name} (id BIGINT, note STRING, dt STRING) USING orc PARTITIONED BY (dt)")
    if call == "compact":
        TableWriter(spark).append(rows((1, "a", "d1")), table)
        TableWriter(spark).append(rows((2, "b", "d1")), table)
    before = keys_below(table)
    writer = TableWriter(spark, config=REFUSING)
    calls: dict[str, Callable[[], object]] = {
        "write": lambda: writer.append(rows((3, "c", "d1")), table),
        "plan": lambda: writer.plan(rows((3, "c", "d1")), table, mode="append"),
        "compact": lambda: writer.compact(table, min_files=2),
    }
    with pytest.raises(
        InvalidInputError, match=r"would rename the files .*committer\.magic\.enabled=false.*renames='note'"
    ):
        calls[call]()
    assert keys_below(table) == before


def test_what_needs_no_renames_is_written_where_they_are_an_error(spark: SparkSession, orders: str, rows: Rows) -> None:
    writer = TableWriter(spark, config=REFUSING)
    assert writer.append(rows((1, "a", "d1")), orders).rows == 1
    with pytest.raises(InvalidInputError, match="would rename"):
        writer.append(rows((1, "a", "d1")), orders, engine="spark")
    with_magic = TableWriter(spark, config=TableWriterConfig(renames="error"))
    assert with_magic.append(rows((1, "a", "d1")), orders, engine="spark").rows == 1


def test_each_write_leaves_a_report_in_the_store_also_one_that_fails(
    spark: SparkSession, orders: str, rows: Rows, lakehouse: Lakehouse
) -> None:
    prefix = f"reports/{orders}/"
    config = TableWriterConfig(report_directory=f"s3a://{lakehouse.bucket}/{prefix}")
    writer = TableWriter(spark, config=config)
    result = writer.append(rows((1, "a", "d1")), orders)
    with pytest.raises(InvalidInputError):
        writer.append(rows(), orders)
    listed = lakehouse.s3.list_objects_v2(Bucket=lakehouse.bucket, Prefix=prefix)["Contents"]
    bodies = [lakehouse.s3.get_object(Bucket=lakehouse.bucket, Key=found["Key"])["Body"].read() for found in listed]
    done, failed = map(json.loads, bodies)
    assert (done["outcome"], done["write_id"], done["rows"]) == ("published", result.write_id, 1)
    assert (failed["outcome"], failed["table"], failed["error"]["code"]) == ("failed", orders, "invalid_input")


def test_a_report_that_cannot_be_put_fails_no_write(
    spark: SparkSession, orders: str, rows: Rows, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no directory")
    config = TableWriterConfig(report_directory=f"file://{tmp_path}/file/reports")
    assert TableWriter(spark, config=config).append(rows((1, "a", "d1")), orders).version == 1
    assert f"no report in file://{tmp_path}/file/reports/" in caplog.text
