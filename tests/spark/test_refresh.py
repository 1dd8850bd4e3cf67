"""What a session is told after readers have switched."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession
from pyspark.sql.catalog import Catalog

from table_writer.model.table import Table, TableName
from table_writer.spark import open_gateway


def test_a_session_whose_java_is_gone_gets_notes_and_no_error(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error would look as if nothing had been published."""

    def gone(_: Catalog, __: SparkSession) -> None:
        raise Py4JNetworkError("the JVM is gone")

    monkeypatch.setattr(Catalog, "__init__", gone)
    name = TableName("mart", "orders")
    table = Table(name=name, kind="EXTERNAL_TABLE", location="s3a://lake/orders/", columns=(), partition_columns=())
    assert open_gateway(spark).refresh(table, "w") == (
        "this session may show old rows until REFRESH TABLE `spark_catalog`.`mart`.`orders`",
    )
