from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession


@pytest.fixture
def make_table(spark: SparkSession, lakehouse_database: str) -> Callable[..., str]:
    """Create a table in the test's own database; the DDL says ``{name}``."""

    def make(ddl: str, name: str = "orders") -> str:
        full = f"{lakehouse_database}.{name}"
        spark.sql(ddl.format(name=full))
        return full

    return make
