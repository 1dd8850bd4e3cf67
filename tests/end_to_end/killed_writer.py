"""A writer in a process of its own that kills itself, by SIGKILL, at a named moment.

``python killed_writer.py SETTINGS.json TABLE MOMENT [in_place]``; the settings are those of a running lakehouse's
session. With ``in_place`` it appends, else it overwrites.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from table_writer import TableWriter, TableWriterConfig
from table_writer.config import Engine
from table_writer.jobs.complete import Completer
from table_writer.protocol.log.slots import Slots
from table_writer.protocol.operations import in_place
from table_writer.protocol.operations.switch import Switch
from table_writer.storage.s3.store import S3Store

BY_THE_DRIVER: Final = ("before the driver's first part", "after the driver's first part")
MOMENTS: dict[str, tuple[type, str, str]] = {
    BY_THE_DRIVER[0]: (S3Store, "upload_part", "before"),
    BY_THE_DRIVER[1]: (S3Store, "upload_part", "after"),
    "before complete": (Completer, "complete", "before"),
    "after complete": (Completer, "complete", "after"),
    "before the claim": (Slots, "claim", "before"),
    "after the claim": (Slots, "claim", "after"),
    "before the switch": (Switch, "apply", "before"),
    "after the switch": (Switch, "apply", "after"),
    "after its outcome": (Slots, "record_outcome", "after"),
}
IN_PLACE: dict[str, tuple[type, str, str]] = {
    "before the claim": (Slots, "claim", "before"),
    "after the claim": (Slots, "claim", "after"),
    "after the alter": (Switch, "apply", "after"),
    "between two copies": (S3Store, "copy", "after"),
    "before its outcome": (Slots, "record_outcome", "before"),
}


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying(method: Callable[..., Any], phase: str) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        if phase == "before":
            die()
        answer = method(*arguments, **named)
        die()
        return answer

    return call


def main(settings: str, table: str, moment: str, carry: str = "") -> None:
    builder = SparkSession.builder
    for name, value in json.loads(Path(settings).read_text()).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()  # the settings say that it is on Hive
    kind, name, phase = (IN_PLACE if carry else MOMENTS)[moment]
    in_place.COPY_THREADS = 1  # type: ignore[misc]
    setattr(kind, name, dying(getattr(kind, name), phase))
    config = TableWriterConfig(metastore_timeout_seconds=1, publish_timeout_seconds=7)
    engine: Engine = "auto" if moment in BY_THE_DRIVER else "arrow"  # by tasks
    df = spark.sql("SELECT 100L AS id, 'new' AS note, 'd1' AS dt UNION ALL SELECT 300L, 'new', 'd3'")
    writer = TableWriter(spark, config=config)
    if carry:
        writer.append(df, table, carry="in_place", engine=engine)
    else:
        writer.overwrite_partitions(df, table, engine=engine)


if __name__ == "__main__":
    main(*sys.argv[1:])
