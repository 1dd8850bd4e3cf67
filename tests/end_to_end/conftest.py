from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from table_writer import Maintenance, TableWriter
from table_writer.testing import Lakehouse

from .watched import Seen, look_at, stopped_at


@pytest.fixture(scope="session")
def writer(spark: SparkSession) -> TableWriter:
    return TableWriter(spark)


@pytest.fixture
def another_session(spark: Any, lakehouse: Lakehouse) -> Iterator[Any]:
    """Make a session that knows nothing of the first; over Spark Connect ``newSession`` does so from Spark 4.3 on."""
    if hasattr(spark, "newSession"):
        yield spark.newSession()
        return
    builder: Any = SparkSession.builder
    session = builder.remote(lakehouse.connect_server.url).create()
    type(spark)._set_default_and_active_session(spark)
    yield session
    session.stop()


@pytest.fixture
def make_table(spark: SparkSession, lakehouse_database: str) -> Callable[..., str]:
    """Create a table in the test's own database; the DDL says ``{name}`` and may say ``{location}``."""

    def make(ddl: str, name: str = "orders", location: str = "") -> str:
        full = f"{lakehouse_database}.{name}"
        spark.sql(ddl.format(name=full, location=location))
        return full

    return make


@pytest.fixture
def orders(make_table: Callable[..., str]) -> str:
    return make_table("CREATE TABLE {name} (id BIGINT, note STRING, dt STRING) USING parquet PARTITIONED BY (dt)")


@pytest.fixture
def rows(spark: SparkSession) -> Callable[..., Any]:
    return lambda *values: spark.createDataFrame(list(values), "id BIGINT, note STRING, dt STRING")


@pytest.fixture
def content(spark: SparkSession) -> Callable[[str], set[tuple[Any, ...]]]:
    return lambda table: {tuple(row) for row in spark.table(table).collect()}


@pytest.fixture
def keys_below(spark: SparkSession, lakehouse: Lakehouse) -> Callable[[str], set[str]]:
    """Return the objects below a table's location, without the marker keys that end in a slash."""

    def keys(table: str) -> set[str]:
        described = spark.sql(f"DESCRIBE FORMATTED {table}").where("col_name = 'Location'").first()
        assert described is not None
        prefix = described[1].split("/", 3)[3] + "/"
        pages = lakehouse.s3.get_paginator("list_objects_v2").paginate(Bucket=lakehouse.bucket, Prefix=prefix)
        found = {entry["Key"].removeprefix(prefix) for page in pages for entry in page.get("Contents", [])}
        return {key for key in found if key and not key.endswith("/")}

    return keys


@pytest.fixture
def look(writer: TableWriter, lakehouse: Lakehouse) -> Callable[[str], Seen]:
    """Return everything that is there of a table."""
    return lambda table: look_at(table, writer, lakehouse)


@pytest.fixture
def keeper(writer: TableWriter) -> Maintenance:
    """Maintenance with what the session's writer has opened."""
    return Maintenance(services=writer._services)


@pytest.fixture
def stopped(spark: SparkSession) -> Callable[..., TableWriter]:
    """Make a writer that does something else at a moment of its next write."""
    return lambda moment, action, config=None: stopped_at(spark, moment, action, config)
