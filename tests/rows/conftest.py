from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.end_to_end.conftest import another_session, keeper, keys_below, make_table, orders, rows, stopped, writer

__all__ = ["another_session", "keeper", "keys_below", "make_table", "orders", "rows", "stopped", "writer"]

Listed = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def listed(spark: SparkSession) -> Listed:
    """Return all rows of a table, in their order, as a session sees them that has not looked before."""

    def rows_of(table: str) -> list[tuple[Any, ...]]:
        spark.catalog.refreshTable(table)
        return sorted(map(tuple, spark.table(table).collect()), key=repr)

    return rows_of
