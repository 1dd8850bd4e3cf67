"""What Spark sees of maintenance, and the command line on a running lakehouse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from table_writer import InvalidInputError, Maintenance, TableWriter, TableWriterConfig
from table_writer.testing import Lakehouse

Content = Callable[[str], set[tuple[Any, ...]]]
OLD = {(1, "old", "d1"), (2, "old", "d2")}
NEW = {(10, "new", "d1"), (2, "old", "d2"), (3, "new", "d3")}


@pytest.fixture
def keeper(lakehouse: Lakehouse) -> Maintenance:
    settings = lakehouse.s3_server.hadoop_settings()
    return Maintenance(lakehouse.metastore_uri, config=TableWriterConfig(hadoop=settings))


@pytest.fixture
def written(writer: TableWriter, orders: str, rows: Callable[..., Any]) -> str:
    writer.overwrite_partitions(rows(*OLD), orders)
    writer.overwrite_partitions(rows((10, "new", "d1"), (3, "new", "d3")), orders)
    return orders


def test_spark_sees_the_older_rows_after_a_rollback_and_no_dropped_partition(
    keeper: Maintenance, written: str, spark: SparkSession, content: Content
) -> None:
    report = keeper.rollback(written, version=1)
    spark.catalog.refreshTable(written)
    assert {partition.change for partition in report.partitions} == {"replaced", "dropped"}
    assert content(written) == OLD
    assert {row[0] for row in spark.sql(f"SHOW PARTITIONS {written}").collect()} == {"dt=d1", "dt=d2"}
    keeper.rollback(written, version=2)
    spark.catalog.refreshTable(written)
    assert content(written) == NEW


def test_spark_rows_that_were_replaced_come_back_and_then_go(
    keeper: Maintenance,
    writer: TableWriter,
    orders: str,
    spark: SparkSession,
    rows: Callable[..., Any],
    content: Content,
    keys_below: Callable[[str], set[str]],
) -> None:
    spark.sql(f"INSERT INTO {orders} PARTITION (dt='d1') SELECT 1L, 'spark'")
    theirs = {key for key in keys_below(orders) if key.startswith("dt=d1/")}
    writer.overwrite_partitions(rows((10, "new", "d1")), orders)
    keeper.rollback(orders, version=0)
    spark.catalog.refreshTable(orders)
    assert content(orders) == {(1, "spark", "d1")}
    writer.overwrite_partitions(rows((11, "newer", "d1")), orders)
    report = keeper.vacuum(orders, older_than=timedelta(0), force=True)
    assert len(theirs) == 1
    assert not theirs & keys_below(orders)
    assert report.bytes_freed > 0
    spark.catalog.refreshTable(orders)
    assert content(orders) == {(11, "newer", "d1")}
    with pytest.raises(InvalidInputError, match="vacuumed"):
        keeper.rollback(orders, version=0)


def test_a_table_that_was_dropped_and_created_again_gets_its_partitions_back(
    keeper: Maintenance,
    make_table: Callable[..., str],
    lakehouse: Lakehouse,
    writer: TableWriter,
    spark: SparkSession,
    rows: Callable[..., Any],
    content: Content,
    lakehouse_database: str,
) -> None:
    columns = "(id BIGINT, note STRING) PARTITIONED BY (dt STRING)"
    ddl = f"CREATE EXTERNAL TABLE {{name}} {columns} STORED AS PARQUET LOCATION '{{location}}'"
    location = f"{lakehouse.warehouse}/{lakehouse_database}_elsewhere/orders"
    table = make_table(ddl, location=location)
    writer.overwrite_partitions(rows(*OLD), table)
    spark.sql(f"DROP TABLE {table}")
    make_table(ddl, location=location)
    assert content(table) == set()
    report = keeper.restore(table)
    assert [partition.name for partition in report.partitions] == ["dt=d1", "dt=d2"]
    spark.catalog.refreshTable(table)
    assert content(table) == OLD
    writer.overwrite_partitions(rows((5, "on", "d5")), table)
    assert content(table) == OLD | {(5, "on", "d5")}


def test_the_command_line_works_on_a_running_lakehouse(
    lakehouse: Lakehouse, written: str, spark: SparkSession, content: Content, tmp_path: Path
) -> None:
    settings = lakehouse.s3_server.hadoop_settings()
    properties = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in settings.items())
    (tmp_path / "core-site.xml").write_text(f"<configuration>{properties}</configuration>")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        connection = ("--metastore-uri", lakehouse.metastore_uri, "--conf-dir", str(tmp_path))
        command = [sys.executable, "-m", "table_writer", *words, *connection]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=dict(os.environ))

    versions = json.loads(run("history", written, "--json").stdout)["versions"]
    assert [(one["version"], one["state"]) for one in versions] == [(2, "published"), (1, "published")]
    refused = run("vacuum", written, "--older-than", "0")
    assert (refused.returncode, "force" in refused.stderr) == (2, True)
    rolled_back = run("rollback", written, "--version", "1")
    assert rolled_back.returncode == 0, rolled_back.stderr
    spark.catalog.refreshTable(written)
    assert content(written) == OLD
    doctor = run("doctor", written, "--json")
    findings = {one["check"]: one["status"] for one in json.loads(doctor.stdout)["findings"]}
    assert findings["conditional put"] == "ok"
    assert lakehouse.s3_server.secret_key not in doctor.stdout + doctor.stderr


def test_the_writers_own_doctor_looks_at_the_sessions_settings(writer: TableWriter, written: str) -> None:
    checks = {finding.check for finding in writer.doctor(written).findings}
    assert {"metastore version", "conditional put", "executor memory"} <= checks
