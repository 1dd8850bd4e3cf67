"""How many rows Spark may send to Python at once without weighing each of them."""

from __future__ import annotations

import re
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 - as Spark documents it

__all__ = ["batch_rows", "fixed_row_bytes", "runs_other_python"]

BATCH_BYTES: Final = 64 * 1024 * 1024  # Spark's own limit of a batch, kept here by the number of rows
SPARK_BATCH_ROWS: Final = 10_000
SEEN_ROWS: Final = 2_000  # where rows may become wider than those seen: no slower, and five times the room
LEAST_ROWS: Final = 1_000  # smaller batches cost more than the weighing
WIDER_THAN_SEEN: Final = 32  # how many times as wide as the rows of an earlier write those of a batch may be
PYTHON_NODES: Final = re.compile("Python|Pandas|Arrow|RDD")  # what a LogicalRDD has behind it is not to be seen

FIXED_WIDTHS: Final[dict[type[T.DataType], int]] = {
    T.NullType: 0,
    T.BooleanType: 1,
    T.ByteType: 1,
    T.ShortType: 2,
    T.IntegerType: 4,
    T.DateType: 4,
    T.FloatType: 4,
    T.YearMonthIntervalType: 4,
    T.LongType: 8,
    T.DoubleType: 8,
    T.TimestampType: 8,
    T.TimestampNTZType: 8,
    T.DayTimeIntervalType: 8,
    T.DecimalType: 16,
}
"""Bytes of a value in Arrow."""


def fixed_row_bytes(schema: T.StructType) -> int | None:
    """Return how many bytes each row takes in Arrow; ``None`` where that depends on the row.

    Examples
    --------
    >>> fixed_row_bytes(T.StructType().add("id", "long").add("place", T.StructType().add("lat", "double")))
    19
    >>> fixed_row_bytes(T.StructType().add("name", "string")) is None
    True
    """
    widths = [
        fixed_row_bytes(field.dataType)
        if isinstance(field.dataType, T.StructType)
        else FIXED_WIDTHS.get(type(field.dataType))
        for field in schema
    ]
    known = [width + 1 for width in widths if width is not None]  # and whether it is null
    return sum(known) if len(known) == len(widths) else None


def batch_rows(schema: T.StructType, seen_row_bytes: int) -> int:
    """Return how many rows stay below 64 MiB; 0 where only weighing tells, or would cost less.

    Spark ends an Arrow batch at 10,000 rows or 64 MiB, and since 4.0 computes the size of what it has after each row:
    more than half of what the transfer to Python costs. Where rows cannot be that wide, their number does the same.

    Parameters
    ----------
    schema
        Of the rows.
    seen_row_bytes
        Bytes of a row in Arrow at the widest place of an earlier write to the table; 0 where that is not known.

    Examples
    --------
    >>> names = T.StructType().add("name", "string")
    >>> batch_rows(names, 0), batch_rows(names, 100), batch_rows(names, 1_000), batch_rows(names, 10_000)
    (0, 2000, 2000, 0)
    """
    fixed = fixed_row_bytes(schema)
    width, most = (seen_row_bytes * WIDER_THAN_SEEN, SEEN_ROWS) if fixed is None else (fixed, SPARK_BATCH_ROWS)
    rows = min(most, BATCH_BYTES // width) if width else 0
    return rows if rows >= LEAST_ROWS else 0


def runs_other_python(rows: DataFrame) -> bool:
    """Whether Python code of the user's own may run in the jobs that compute these rows, or nobody can tell.

    Such code gets its batches by the same two limits, and its rows may be of any width.
    """
    java: Any = rows.sparkSession.sparkContext._jvm  # noqa: SLF001 - PySpark shows no plan
    plan: Any = rows._jdf.queryExecution().analyzed()  # noqa: SLF001 - the same
    python_udf = java.org.apache.spark.sql.catalyst.trees.TreePattern.PYTHON_UDF()
    return bool(plan.containsPattern(python_udf)) or PYTHON_NODES.search(plan.toString()) is not None
