"""The interface of a file that rows are written to, whatever its format; ``files`` knows the formats."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final, Protocol

import pyarrow as pa

from table_writer.model.column_statistics import LONGEST_TEXT_BYTES, Bound, ColumnStatistics

__all__ = [
    "MOST_COLUMNS",
    "EncodedFile",
    "MakeBound",
    "Sink",
    "footer_bytes",
    "leaf_count",
    "make_bound",
    "widest_bytes",
]


MOST_COLUMNS: Final = 100
"""Columns of a file, nested ones not counted, whose statistics are collected.

Each is some 20 bytes in the message of every task, compressed, all of which the driver holds.
"""


MakeBound = Callable[[Any], Bound | None]
"""Makes a bound of what a footer holds for it: a number, or bytes. ``None`` where Python has no such value."""


EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - local time, and as UTC below

EPOCH_DATE: Final = EPOCH.date()

CHUNK_FOOTER_BYTES: Final = 1500  # what Arrow's writer keeps of one column of one row group until the file ends

MAX_STATISTICS_BYTES: Final = 4096  # Arrow leaves out a minimum or maximum that is longer

STATISTICS: Final = 4  # minimum and maximum, in the footer and in the page index


class Sink(Protocol):
    """What encoded bytes are written to."""

    def write(self, data: bytes) -> int:
        """Take encoded bytes."""


class EncodedFile(Protocol):
    """A file being written."""

    def takes(self, rows: Any) -> bool:
        """Whether these rows can go into the file, given how the first ones let it be opened."""

    def write(self, rows: Any) -> None:
        """Encode a table."""

    def close(self) -> tuple[int, int]:
        """Write the footer; returns what the file says it holds: rows, and bytes before compression."""

    def statistics(self) -> dict[str, ColumnStatistics]:
        """Return what the footer says of columns that are not nested, once it is written; others are not known."""


def make_bound(kind: Any) -> MakeBound:
    """Return how the bounds of a column of some type are made; of most types there are none.

    Those of floating point leave NaN out, and do not tell 0.0 from -0.0.
    """
    types = pa.types
    if types.is_integer(kind):
        return int
    if types.is_date32(kind):
        return _date
    if types.is_timestamp(kind):
        epoch = EPOCH if kind.tz is None else EPOCH.replace(tzinfo=UTC)
        return partial(_moment, epoch, timedelta(milliseconds=1) if kind.unit == "ms" else timedelta(microseconds=1))
    if types.is_decimal(kind):
        return partial(_decimal, -kind.scale)
    return _text if types.is_string(kind) or types.is_large_string(kind) else _no_bound


def _date(days: int) -> date | None:
    try:
        return EPOCH_DATE + timedelta(days)
    except OverflowError:  # before the year 1, or after 9999
        return None


def _moment(epoch: datetime, unit: timedelta, count: int) -> datetime | None:
    try:
        return epoch + count * unit
    except OverflowError:
        return None


def _decimal(exponent: int, unscaled: int | bytes) -> Decimal:
    number = unscaled if isinstance(unscaled, int) else int.from_bytes(unscaled, "big", signed=True)
    digits = tuple(map(int, str(abs(number))))
    return Decimal((int(number < 0), digits, exponent))  # exact, whatever the context's precision is


def _text(encoded: bytes) -> str | None:
    try:
        return encoded.decode() if len(encoded) <= LONGEST_TEXT_BYTES else None
    except UnicodeDecodeError:  # Spark does not check its strings
        return None


def _no_bound(_: Any) -> None:
    return None


def leaf_count(schema: Any) -> int:
    """Return how many columns a file of these rows has: a struct is as many as it has fields, all the way down."""
    return sum(_leaves(field.type) for field in schema)


def widest_bytes(rows: Any) -> float:
    """Return the bytes of an average value of the widest column."""
    return float(max(column.nbytes for column in rows.columns) / max(1, rows.num_rows))


def footer_bytes(rows: Any) -> int:
    """Return what a file that takes these rows as a row group has to remember of them until it ends."""
    widths = (column.nbytes / max(1, rows.num_rows) for column in rows.columns)
    statistics_bytes = sum(STATISTICS * min(MAX_STATISTICS_BYTES, width) for width in widths)
    return int(CHUNK_FOOTER_BYTES * leaf_count(rows.schema) + statistics_bytes)


def _leaves(kind: Any) -> int:
    children = [kind.field(number).type for number in range(kind.num_fields)] if pa.types.is_nested(kind) else []
    return sum(map(_leaves, children)) or 1
