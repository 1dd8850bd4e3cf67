"""A writer in processes of its own that are killed, by SIGKILL, when the first of its tasks has sent its files.

Java is killed first: it would abort its uploads if it noticed that Python is gone.

``python killed_spark_engine.py SETTINGS.json TABLE MOMENT``, where the settings are those of a running lakehouse.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from table_writer import TableWriter

FIRST_TASK_SECONDS = 8  # of which a task of one row takes some


def main(settings: str, table: str, _: str) -> None:
    builder = SparkSession.builder
    for name, value in json.loads(Path(settings).read_text()).items():
        builder = builder.config(name, value)
    spark = builder.enableHiveSupport().getOrCreate()
    gateway: Any = spark.sparkContext._gateway
    victims = (gateway.proc.pid, os.getpid())

    @F.udf("string")
    def killing(number):
        if number:
            time.sleep(FIRST_TASK_SECONDS)
            for victim in victims:
                os.kill(victim, signal.SIGKILL)
            time.sleep(FIRST_TASK_SECONDS)
        return "new"

    rows = spark.range(0, 2, 1, 2).select("id", killing("id").alias("note"), F.lit("d1").alias("dt"))
    TableWriter(spark).overwrite_partitions(rows, table)


if __name__ == "__main__":
    main(*sys.argv[1:])
