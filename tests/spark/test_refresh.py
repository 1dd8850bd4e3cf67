"""What a session is told after readers have switched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final
from uuid import uuid4

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession
from pyspark.sql.catalog import Catalog

from table_writer import TableWriter
from table_writer.model.table import Table, TableName
from table_writer.spark import open_gateway
from table_writer.testing import Lakehouse

KNOWN: Final[dict[str, Callable[[SparkSession, str], object]]] = {
    "nothing": lambda _, __: None,
    "another table": lambda spark, table: spark.table(f"{table}_other").collect(),
    "the table": lambda spark, table: spark.table(table).collect(),
    "the table, by a view": lambda spark, table: spark.sql(f"SELECT * FROM {table}_view").collect(),
    "a cached query of another session": lambda spark, table: spark.newSession().table(table).cache().count(),
}


class Gone:
    """A session whose Java has ended."""

    def __getattr__(self, name: str) -> object:
        raise Py4JNetworkError("the JVM is gone")


def test_a_session_whose_java_is_gone_gets_notes_and_no_error(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error would look as if nothing had been published."""
    gateway: Any = open_gateway(spark)
    monkeypatch.setattr(gateway, "_session", Gone())
    name = TableName("mart", "orders")
    table = Table(name=name, kind="EXTERNAL_TABLE", location="s3a://lake/orders/", columns=(), partition_columns=())
    assert gateway.refresh(table, "w") == (
        "this session may show old rows until REFRESH TABLE `spark_catalog`.`mart`.`orders`",
    )


@pytest.fixture(scope="module")
def table(spark: SparkSession, lakehouse: Lakehouse) -> Iterator[str]:
    database = f"refresh_{uuid4().hex[:8]}"
    spark.sql(f"CREATE DATABASE {database} LOCATION '{lakehouse.warehouse}/{database}.db'")
    for name in ("Orders", "orders_other"):
        spark.sql(f"CREATE TABLE {database}.{name} (id INT, dt STRING) USING parquet PARTITIONED BY (dt)")
    spark.sql(f"CREATE VIEW {database}.orders_view AS SELECT * FROM {database}.orders")
    yield f"{database}.orders"
    spark.sql(f"DROP DATABASE {database} CASCADE")


@pytest.mark.parametrize("known", KNOWN)
def test_only_a_session_that_knows_of_the_table_is_refreshed(
    spark: SparkSession, table: str, known: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To refresh it, Spark opens its own client of the metastore: a second of a job that has read no table."""
    refreshed: list[str] = []
    refresh = Catalog.refreshTable

    def refresh_told(catalog: Catalog, name: str) -> None:
        refreshed.append(name)
        refresh(catalog, name)

    monkeypatch.setattr(Catalog, "refreshTable", refresh_told)
    job = spark.newSession()
    writer = TableWriter(job)
    writer.overwrite_partitions(job.sql("SELECT 1 AS id, 'a' AS dt"), table)
    refreshed.clear()
    KNOWN[known](job, table)
    try:
        writer.overwrite_partitions(job.sql("SELECT 2 AS id, 'a' AS dt"), table)
        assert bool(refreshed) == (known in {"the table", "the table, by a view", "a cached query of another session"})
        assert job.table(table).collect() == [(2, "a")]
    finally:
        spark.catalog.clearCache()
