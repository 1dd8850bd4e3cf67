"""A store completes an upload only if all its parts but the last have one length.

Cloudflare R2 does so (apache/iceberg-rust#1406, apache/opendal#2904). A file of several parts was refused there, since
a part ended where a page of the file did, or earlier where too much waited in memory.
"""

from __future__ import annotations

import os
import re

from pyspark.sql import SparkSession

from table_writer import TableWriter, TableWriterConfig
from table_writer.storage.s3.settings import S3Overrides
from table_writer.testing import Lakehouse
from tests.outside.s3_proxy import Asked, Forward, Told, refusal, s3_proxy

MIB = 1024 * 1024


def test_a_file_of_several_parts_is_completed_where_parts_must_be_alike(
    lakehouse: Lakehouse, spark: SparkSession, lakehouse_database: str
) -> None:
    sizes: dict[str, dict[int, int]] = {}

    def as_r2(asked: Asked, forward: Forward) -> Told:
        upload_id = asked.query.get("uploadId", "")
        if asked.method == "PUT" and "partNumber" in asked.query:
            sizes.setdefault(upload_id, {})[int(asked.query["partNumber"])] = len(asked.body)
        if asked.method == "POST" and upload_id:
            named = [sizes[upload_id][int(number)] for number in re.findall(rb"<PartNumber>(\d+)<", asked.body)]
            if len(set(named[:-1])) > 1 or named[-1] > named[0]:
                return refusal(400, "InvalidPart", "All non-trailing parts must have the same length.")
        return forward(asked)

    table = f"{lakehouse_database}.pictures"
    spark.sql(f"CREATE TABLE {table} (id INT, payload BINARY, dt STRING) USING parquet PARTITIONED BY (dt)")
    rows = [(number, os.urandom(300_000 + 37_000 * (number % 11)), f"d{number % 2}") for number in range(60)]
    frame = spark.createDataFrame(rows, "id INT, payload BINARY, dt STRING").coalesce(1)
    with s3_proxy(lakehouse.s3_server.endpoint_url, as_r2) as proxy:
        config = TableWriterConfig(s3=S3Overrides(endpoint_url=proxy.url), part_size_bytes=5 * MIB)
        result = TableWriter(spark, config=config).append(frame, table)
    assert result.rows == spark.table(table).count() == 60
    assert max(map(len, sizes.values())) >= 3
