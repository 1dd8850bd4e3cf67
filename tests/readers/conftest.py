from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from pyspark.sql import SparkSession

from table_writer.testing import Lakehouse

from .tables import Tables
from .trino import TrinoServer


@pytest.hookimpl(tryfirst=True)  # before options such as -m choose by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts an engine: `make test-readers` runs it, and nothing else does."""
    for item in items:
        if "/tests/readers/" in str(item.path):
            item.add_marker(pytest.mark.needs("readers"))


@pytest.fixture(scope="session")
def trino(lakehouse: Lakehouse) -> Iterator[TrinoServer]:
    """A running Trino over the lakehouse: ``trino.rows("SELECT …")``; its catalogs differ in what they remember."""
    with TrinoServer(lakehouse) as server:
        yield server


@pytest.fixture(scope="session")
def database(lakehouse: Lakehouse, spark: SparkSession) -> Iterator[str]:
    name = "read_by_others"
    spark.sql(f"CREATE DATABASE {name} LOCATION '{lakehouse.warehouse}/{name}.db'")
    yield name
    spark.sql(f"DROP DATABASE {name} CASCADE")


@pytest.fixture(scope="session")
def tables(spark: SparkSession, database: str) -> Mapping[str, str]:
    """All tables of :class:`Tables`, by a short name."""
    return Tables(spark, database).make_all()
