"""A scheduled job: an application that starts, writes once, and ends. Run by :mod:`benchmarks.cold`.

Its clock starts with the session: what it imports after that is part of what the write costs.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from benchmarks.peaks import core_seconds, core_seconds_by_kind

KINDS: Final = {"SparkSubmit": "Java", "pyspark.daemon": "workers"}


def used_core_seconds() -> dict[str, float]:
    """Return what this process, its Java and its Python workers have used so far."""
    below = core_seconds_by_kind(KINDS, "driver")
    return {"driver": core_seconds(os.getpid()) + below["driver"], "Java": below["Java"], "workers": below["workers"]}


def drop_rows(rows: DataFrame, table: str, mode: str) -> None:
    """Let Spark read the rows, and write nothing: the floor of any writer."""
    rows.write.format("noop").mode("overwrite").save()


def count_in_python(rows: DataFrame, table: str, mode: str) -> None:
    """Let Python workers count the rows, and write nothing: the floor of any writer in Python."""
    rows.mapInArrow(count_rows, StructType([StructField("rows", LongType())])).collect()


def count_rows(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield how many there are; without ``pyarrow.array``, which would import pandas."""
    import pyarrow as pa

    count = pa.py_buffer(sum(batch.num_rows for batch in batches).to_bytes(8, sys.byteorder))
    yield pa.RecordBatch.from_arrays([pa.Array.from_buffers(pa.int64(), 1, [None, count])], names=["rows"])


def insert_overwrite(rows: DataFrame, table: str, mode: str) -> None:
    """Write as Spark does."""
    rows.write.insertInto(table, overwrite=True)


def write_with_table_writer(rows: DataFrame, table: str, mode: str) -> None:
    """Write as this library does, its import included."""
    from table_writer import TableWriter

    getattr(TableWriter(rows.sparkSession), mode)(rows, table)


SIDES: Final = {
    "floor": drop_rows,
    "Python": count_in_python,
    "Spark": insert_overwrite,
    "ours": write_with_table_writer,
}


def main() -> None:
    """Write the rows of a directory into a table, and print what it took."""
    side, source, table, mode = sys.argv[1:]
    sys.modules["IPython"] = None  # type: ignore[assignment]  # of a notebook; PySpark imports it at the first column
    spark = SparkSession.builder.getOrCreate()
    begun, used = time.monotonic(), used_core_seconds()
    SIDES[side](spark.read.parquet(source), table, mode)
    seconds, after = time.monotonic() - begun, used_core_seconds()
    print(json.dumps({"seconds": seconds, "cores": {kind: after[kind] - used[kind] for kind in used}}))
    spark.stop()


if __name__ == "__main__":
    main()
