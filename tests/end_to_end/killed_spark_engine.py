"""A writer in a process of its own that is killed, by SIGKILL, when the first of its tasks has sent its files.

``python killed_spark_engine.py SETTINGS.json TABLE MOMENT``, where the settings are those of a running lakehouse.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from table_writer import TableWriter

FIRST_TASK_SECONDS = 8  # of which a task of one row takes some


def main(settings: str, table: str, _: str) -> None:
    builder = SparkSession.builder
    for name, value in json.loads(Path(settings).read_text()).items():
        builder = builder.config(name, value)
    spark = builder.enableHiveSupport().getOrCreate()
    driver = os.getpid()

    @F.udf("string")
    def killing(number: int) -> str:
        if number:
            time.sleep(FIRST_TASK_SECONDS)
            os.kill(driver, signal.SIGKILL)
            time.sleep(FIRST_TASK_SECONDS)
        return "new"

    rows = spark.range(0, 2, 1, 2).select("id", killing("id").alias("note"), F.lit("d1").alias("dt"))
    TableWriter(spark).overwrite_partitions(rows, table)


if __name__ == "__main__":
    main(*sys.argv[1:])
