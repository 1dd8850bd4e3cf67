"""Which columns get a dictionary: decided by a sample, since Arrow keeps one that does not pay."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

__all__ = ["MAX_DICTIONARY_BYTES", "columns_that_repeat"]

MAX_DICTIONARY_BYTES: Final = 1024 * 1024  # parquet-mr's and Arrow's: a larger one is given up half-way
SAMPLE_ROWS: Final = 2048
SAMPLE_BYTES: Final = 4 * 1024 * 1024  # of rows so wide that fewer of them are looked at
WORTHWHILE: Final = 0.7  # dictionary and indices must take less than this share of the plain values


def columns_that_repeat(rows: Any) -> list[str]:
    """Return the paths of the Parquet columns of a table that a dictionary makes clearly smaller."""
    largest = max(rows.to_batches(), key=lambda batch: batch.num_rows)
    sample_rows = max(1, min(SAMPLE_ROWS, SAMPLE_BYTES * largest.num_rows // max(1, largest.nbytes)))
    step = max(1, largest.num_rows // sample_rows)
    sample = largest.take(pa.array(range(0, largest.num_rows, step), type=pa.int64()))
    scale = rows.num_rows / sample.num_rows
    return [
        path
        for name, column in zip(rows.column_names, sample.columns, strict=True)
        for path, values in _leaves(name, column)
        if _repeats(values, scale)
    ]


def _leaves(path: str, values: Any) -> Iterator[tuple[str, Any]]:
    kind = values.type
    if pa.types.is_struct(kind):
        for position, field in enumerate(kind):
            yield from _leaves(f"{path}.{field.name}", values.field(position))
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", values.keys)
        yield from _leaves(f"{path}.key_value.value", values.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(f"{path}.list.element", values.values)
    elif not pa.types.is_boolean(kind) and not pa.types.is_null(kind):
        yield path, values


def _repeats(values: Any, scale: float) -> bool:
    value_count = len(values) - values.null_count
    distinct_count = len(values.unique()) - (values.null_count > 0)  # several times faster than count_distinct
    if distinct_count == value_count:
        return False
    all_values = value_count * scale
    distinct = _distinct_in_all(value_count, distinct_count, all_values)
    width = values.nbytes / len(values) + 4 if _is_binary(values.type) else values.type.bit_width / 8
    dictionary_bytes = distinct * width
    index_bytes = all_values * max(1, math.ceil(math.log2(distinct))) / 8
    is_smaller: bool = dictionary_bytes + index_bytes < WORTHWHILE * all_values * width
    return is_smaller and dictionary_bytes <= MAX_DICTIONARY_BYTES


def _is_binary(kind: Any) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind) or types.is_large_binary(kind)
    )


def _distinct_in_all(sampled: int, distinct: int, total: float) -> float:
    """Return D such that a draw of ``sampled`` out of D equally likely values shows ``distinct`` different ones."""
    if total <= sampled:
        return distinct
    low, high = float(distinct), float(sampled) ** 2
    for _ in range(40):
        middle = (low + high) / 2
        if middle * -math.expm1(-sampled / middle) < distinct:
            low = middle
        else:
            high = middle
    return min(high, total)
