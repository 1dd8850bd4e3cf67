"""A streaming query in a process of its own that kills itself, by SIGKILL, at a named moment of one of its batches.

``python killed_stream.py SETTINGS.json TABLE SOURCE CHECKPOINT MOMENT BATCH CARRY``: one file of SOURCE is one batch.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from table_writer import TableWriter, TableWriterConfig

try:
    from .killed_writer import IN_PLACE, MOMENTS, die
except ImportError:  # run as a script
    from killed_writer import IN_PLACE, MOMENTS, die  # type: ignore[import-not-found, no-redef]

SCHEMA = "id BIGINT, note STRING, dt STRING"
QUERY = "orders from files"
Carry = Literal["copy", "in_place"]


def query(
    spark: SparkSession, writer: TableWriter, table: str, source: str, checkpoint: str, carry: Carry = "copy"
) -> StreamingQuery:
    """Start the query; it ends when there are no more files."""
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(source)
    write_batch = writer.for_each_batch(table, mode="append", query_name=QUERY, carry=carry)
    started = stream.writeStream.foreachBatch(write_batch).option("checkpointLocation", checkpoint)
    return started.trigger(availableNow=True).start()


def dying(method: Callable[..., Any], phase: str, call_number: int) -> Callable[..., Any]:
    calls: list[None] = []

    def call(*arguments: Any, **named: Any) -> Any:
        calls.append(None)
        if phase == "before" and len(calls) == call_number:
            die()
        answer = method(*arguments, **named)
        if phase == "after" and len(calls) == call_number:
            die()
        return answer

    return call


def main(settings: str, table: str, source: str, checkpoint: str, moment: str, *batch_and_carry: str) -> None:
    builder = SparkSession.builder
    for name, value in json.loads(Path(settings).read_text()).items():
        builder = builder.config(name, value)
    spark = builder.enableHiveSupport().getOrCreate()
    batch, carry = batch_and_carry
    kind, name, phase = (IN_PLACE if carry == "in_place" else MOMENTS)[moment]
    setattr(kind, name, dying(getattr(kind, name), phase, int(batch) + 1))
    config = TableWriterConfig(metastore_timeout_seconds=1, publish_timeout_seconds=7)
    carried: Carry = "in_place" if carry == "in_place" else "copy"
    query(spark, TableWriter(spark, config=config), table, source, checkpoint, carried).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
