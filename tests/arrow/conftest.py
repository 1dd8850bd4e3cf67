from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from table_writer import ArrowWriter, TableWriterConfig
from table_writer.testing import Lakehouse
from tests.end_to_end.conftest import keeper, make_table, writer

__all__ = ["keeper", "make_table", "writer"]


@pytest.fixture(scope="session")
def settings(lakehouse: Lakehouse) -> TableWriterConfig:
    return TableWriterConfig(hadoop=lakehouse.s3_server.hadoop_settings() if lakehouse.s3_server else {})


@pytest.fixture
def arrow(lakehouse: Lakehouse, settings: TableWriterConfig) -> ArrowWriter:
    return ArrowWriter(lakehouse.metastore_uri, config=settings)


@pytest.fixture
def listed(spark: SparkSession) -> Callable[..., list[tuple[Any, ...]]]:
    """Return all rows of a table, in their order, as a session sees them that has not looked before."""

    def rows_of(table: str) -> list[tuple[Any, ...]]:
        spark.catalog.refreshTable(table)
        return sorted(map(tuple, spark.table(table).collect()), key=repr)

    return rows_of
