"""How many rows Spark may send to Python at once without weighing each of them."""

from __future__ import annotations

from typing import Final

from pyspark.sql import types as T  # noqa: N812 - as Spark documents it

__all__ = ["batch_rows", "fixed_row_bytes"]

BATCH_BYTES: Final = 64 * 1024 * 1024  # Spark's own limit of a batch, kept here by the number of rows
SPARK_BATCH_ROWS: Final = 10_000
LEAST_ROWS: Final = 1_000  # smaller batches cost more than the weighing
WIDER_THAN_SEEN: Final = 32  # how many times as wide as the rows of an earlier write those of a batch may be

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
    """Return how many rows stay below 64 MiB, 10,000 at the most; 0 where only weighing tells, or would cost less.

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
    (0, 10000, 2097, 0)
    """
    width = fixed_row_bytes(schema) or seen_row_bytes * WIDER_THAN_SEEN
    rows = min(SPARK_BATCH_ROWS, BATCH_BYTES // width) if width else 0
    return rows if rows >= LEAST_ROWS else 0
