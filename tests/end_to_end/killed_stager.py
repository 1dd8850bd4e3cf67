"""A process that stages a write and kills itself, by SIGKILL: then, or at a named moment of publishing it.

``python killed_stager.py SETTINGS.json TABLE MOMENT MODE``; the settings are those of a running lakehouse's session.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from table_writer import TableWriter, TableWriterConfig
from table_writer.protocol.log.table_log import TableLog
from table_writer.protocol.operations.append import CarryOver
from table_writer.protocol.operations.switch import Switch

try:
    from .killed_writer import die, dying
except ImportError:  # run as a script
    from killed_writer import die, dying  # type: ignore[import-not-found, no-redef]

MOMENTS = {
    "staged": None,
    "copied": (CarryOver, "bring", "after"),
    "claimed": (TableLog, "claim", "after"),
    "switched": (Switch, "apply", "after"),
}


def main(settings: str, table: str, moment: str, mode: str) -> None:
    builder = SparkSession.builder
    for name, value in json.loads(Path(settings).read_text()).items():
        builder = builder.config(name, value)
    spark = builder.enableHiveSupport().getOrCreate()
    config = TableWriterConfig(metastore_timeout_seconds=1, publish_timeout_seconds=7)
    df = spark.sql("SELECT 100L AS id, 'new' AS note, 'd1' AS dt UNION ALL SELECT 300L, 'new', 'd3'")
    staged = TableWriter(spark, config=config).stage(df, table, mode)
    chosen = MOMENTS[moment]
    if chosen is None:
        die()
    else:
        kind, name, phase = chosen
        setattr(kind, name, dying(getattr(kind, name), phase))
    staged.publish()


if __name__ == "__main__":
    main(*sys.argv[1:])
