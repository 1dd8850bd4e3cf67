"""Keys of a long-lived session are renewed while it runs: somebody sets ``fs.s3a.session.token`` and the keys again.

Notebooks and streams do so every hour, in ``hadoopConfiguration`` of a session whose writer is kept. The next write
takes the new keys, in the driver and in the Python workers of its tasks. Seen by a user of a notebook.
Keys in files: ``test_advice.py``.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from table_writer import TableWriter, TableWriterConfig
from table_writer.storage.s3.settings import S3Overrides
from table_writer.testing import Lakehouse
from tests.outside.s3_proxy import Asked, Forward, Told, refusal, s3_proxy


@pytest.mark.slow
def test_a_kept_writer_takes_keys_that_were_set_in_the_session_since(
    lakehouse: Lakehouse, spark: SparkSession, lakehouse_database: str
) -> None:
    settings = lakehouse.s3_server.hadoop_settings()
    accepted = ["AKIAFIRST"]

    def behave(asked: Asked, forward: Forward) -> Told:
        named = asked.headers.get("Authorization", "").partition("Credential=")[2].partition("/")[0]
        return forward(asked) if named == accepted[0] else refusal(400, "ExpiredToken")

    table = f"{lakehouse_database}.renewed"
    spark.sql(f"CREATE TABLE {table} (id BIGINT) USING parquet")
    hadoop: Any = spark._jsc.hadoopConfiguration()  # type: ignore[attr-defined]
    before = {name: hadoop.get(name) for name in ("fs.s3a.access.key", "fs.s3a.secret.key")}
    keys = (settings["fs.s3a.access.key"], settings["fs.s3a.secret.key"])
    try:
        with s3_proxy(lakehouse.s3_server.endpoint_url, behave, keys) as proxy:
            hadoop.set("fs.s3a.access.key", "AKIAFIRST")
            writer = TableWriter(spark, config=TableWriterConfig(s3=S3Overrides(endpoint_url=proxy.url)))
            hadoop.set("fs.s3a.access.key", "AKIASECOND")
            accepted[0] = "AKIASECOND"
            assert writer.append(spark.range(3), table).rows == 3
    finally:
        for name, text in before.items():
            hadoop.set(name, text)
    assert spark.table(table).count() == 3
