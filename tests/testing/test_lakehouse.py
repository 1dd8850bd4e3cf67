"""The parts of a running lakehouse know each other."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from table_writer.errors import InvalidInputError
from table_writer.testing import Lakehouse, LakehouseError
from table_writer.testing import lakehouse as start_lakehouse


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_hive_table_keeps_its_locations_scheme(scheme: str, lakehouse: Lakehouse, lakehouse_database: str) -> None:
    table, location = f"{lakehouse_database}.events", f"{scheme}://{lakehouse.bucket}/{lakehouse_database}/events"
    spark = lakehouse.spark
    spark.sql(f"CREATE TABLE {table} (id INT) PARTITIONED BY (dt STRING) STORED AS PARQUET LOCATION '{location}'")
    spark.sql("SET hive.exec.dynamic.partition.mode=nonstrict")
    spark.createDataFrame([(1, "a")], "id INT, dt STRING").write.insertInto(table)
    assert spark.table(table).count() == 1
    described = spark.sql(f"DESCRIBE EXTENDED {table}").filter("col_name = 'Location'").first()
    assert described is not None
    assert described.data_type == location


def test_python_functions_run_in_this_interpreter(lakehouse: Lakehouse) -> None:
    def executable(_: Iterator[object]) -> Iterator[str]:
        yield sys.executable

    context = lakehouse.spark.sparkContext
    assert context.range(2, numSlices=2).mapPartitions(executable).distinct().collect() == [sys.executable]


def test_the_session_is_set_for_tests(lakehouse: Lakehouse) -> None:
    conf = lakehouse.spark.conf
    assert conf.get("spark.sql.session.timeZone") == "UTC"
    assert conf.get("spark.sql.warehouse.dir") == lakehouse.warehouse == f"s3a://{lakehouse.bucket}/warehouse"
    assert conf.get("spark.hadoop.hive.metastore.uris") == lakehouse.metastore_uri
    assert lakehouse.spark.sparkContext.uiWebUrl is None


def test_a_second_lakehouse_in_one_process_is_refused(lakehouse: Lakehouse) -> None:
    with pytest.raises(LakehouseError, match="runs in this process already"):
        start_lakehouse(storage="file")
    assert lakehouse.spark.range(3).count() == 3


def test_an_unknown_storage_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="expected one of s3, file"):
        start_lakehouse(storage="hdfs")  # type: ignore[arg-type]


def test_the_repr_names_the_parts_and_no_secret(lakehouse: Lakehouse) -> None:
    shown = repr(lakehouse)
    for part in (lakehouse.warehouse, lakehouse.metastore_uri, lakehouse.s3_server.endpoint_url):
        assert part in shown
    assert lakehouse.s3_server.secret_key not in shown
