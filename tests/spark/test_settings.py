"""What a session's Hadoop settings say arrives as it is."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from table_writer.spark import open_gateway

ODD = ("two\nlines", "a=b, c={d}", "", " at both ends ", "Grüße\t\x00\x1f", "\\n is no line")


@pytest.mark.parametrize("value", ODD)
def test_any_value_of_a_setting_arrives_as_it_is(spark: SparkSession, value: str) -> None:
    session = spark.newSession()
    session.conf.set("fs.s3a.bucket.odd.note", value)
    session.conf.set("parquet.note", value)
    gateway = open_gateway(session)
    assert gateway.settings({}).hadoop["fs.s3a.bucket.odd.note"] == value
    assert gateway.file_settings()["parquet.note"] == value
