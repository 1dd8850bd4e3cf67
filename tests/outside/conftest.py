from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from table_writer.testing.servers import S3Server


@pytest.fixture
def make_table(spark: SparkSession, lakehouse_database: str) -> Callable[..., str]:
    """Create a table in the test's own database; the DDL says ``{name}``."""

    def make(ddl: str, name: str = "orders") -> str:
        full = f"{lakehouse_database}.{name}"
        spark.sql(ddl.format(name=full))
        return full

    return make


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """Run a store that does all right, before which a proxy may stand."""
    with S3Server("versitygw", bucket="outside") as server:
        yield server
