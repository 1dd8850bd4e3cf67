from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from table_writer import Maintenance, TableWriter, TableWriterConfig
from table_writer.testing import Lakehouse
from tests.end_to_end.conftest import content, make_table, rows
from tests.readers.tables import Tables

__all__ = ["content", "make_table", "rows"]


@pytest.fixture(scope="session")
def writer(spark: SparkSession) -> TableWriter:
    """Return a writer whose publishes a Delta mirror follows."""
    return TableWriter(spark, config=TableWriterConfig(mirrors=["delta"]))


@pytest.fixture(scope="session")
def keeper(writer: TableWriter) -> Maintenance:
    return Maintenance(services=writer._services)


@pytest.fixture
def mirror_of(lakehouse: Lakehouse, writer: TableWriter) -> Callable[[str], Any]:
    """Return the reader of a table's mirror."""
    from .readers import DeltaReader  # delta-rs is not where delta-spark is

    return lambda table: DeltaReader(lakehouse, writer, table)


@pytest.fixture
def tables(spark: SparkSession, lakehouse_database: str) -> Iterator[Tables]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # a partition's time is read as one of the reader's clock
    yield Tables(spark, lakehouse_database)
    spark.conf.set("spark.sql.session.timeZone", before)
