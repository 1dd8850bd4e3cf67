"""A write of so many files that executors complete them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from table_writer import TableWriter
from table_writer.jobs.complete import MANY_UPLOADS

from .watched import Seen

pytestmark = pytest.mark.slow


def test_executors_complete_what_the_driver_believes(
    spark: SparkSession, writer: TableWriter, orders: str, look: Callable[[str], Seen]
) -> None:
    rows = spark.range(0, MANY_UPLOADS, 1, 2).select(
        "id", F.lit("x").alias("note"), F.concat(F.lit("d"), F.col("id")).alias("dt")
    )
    result = writer.overwrite_partitions(rows, orders)
    assert result.files == MANY_UPLOADS
    uploads = ("CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload")
    assert {name: result.storage_requests[name] for name in uploads} == dict.fromkeys(uploads, MANY_UPLOADS)
    assert "AbortMultipartUpload" not in result.storage_requests
    assert spark.table(orders).count() == MANY_UPLOADS
    assert not [key for key in look(orders).objects if "/writes/" in key]
