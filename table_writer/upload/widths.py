"""How wide rows are: what decides how many files a task holds open, and how large its pages become."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

__all__ = ["footer_bytes", "leaf_count", "widest_bytes"]

CHUNK_FOOTER_BYTES: Final = 1500  # what Arrow's writer keeps of one column of one row group until the file ends
MAX_STATISTICS_BYTES: Final = 4096  # Arrow leaves out a minimum or maximum that is longer
STATISTICS: Final = 4  # minimum and maximum, in the footer and in the page index


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
