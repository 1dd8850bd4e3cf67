"""What readers of both kinds of mirrors share: how they reach the store, and the comparison with Spark's rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

from table_writer.testing import Lakehouse
from tests.readers.tables import spelled

Found = list[tuple[Any, ...]]


class S3Access(NamedTuple):
    """The address and the keys of a lakehouse's S3."""

    endpoint: str
    access_key: str
    secret_key: str
    region: str = "us-east-1"

    @classmethod
    def of(cls, lake: Lakehouse) -> S3Access:
        settings = lake.s3_server.hadoop_settings()
        ends = ("fs.s3a.endpoint", "access.key", "secret.key")
        endpoint, *keys = (next(value for name, value in settings.items() if name.endswith(end)) for end in ends)
        return cls(endpoint if "://" in endpoint else f"http://{endpoint}", *keys)


def as_rows(table: pa.Table) -> Found:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def differing(spark: SparkSession, table: str, found: Found, columns: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return the rows that Spark finds and that a reader has found otherwise, of some columns or of all."""
    sparks = spark.table(table)
    sparks = sparks.select(*(f"`{column}`" for column in columns or sparks.columns))
    expected, rows = spelled(sparks.collect(), sparks.schema), spelled(found, sparks.schema)
    assert expected
    return [pair for pair in zip(expected, rows, strict=True) if pair[0] != pair[1]]
