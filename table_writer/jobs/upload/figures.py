"""Figures of a file's columns for optimizers, counted while its rows are encoded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from table_writer.model.column_figures import KEY_LIKE, MOST_MEMBERS, ColumnFigures, Kind, members_of

MOST_COLUMNS: Final = 100  # of a file that are counted


class Look(NamedTuple):
    """The values of one column in a sample of a file's first row group."""

    values: int  # rows of the sample whose value is not null
    different: Any  # these, as an array of Arrow, without null
    in_all: float  # an estimate: different values of the whole row group, a count
    all_values: float  # an estimate: rows of the whole row group whose value is not null
    width: float  # bytes of a value in a dictionary


class FigureCount:
    """Counts figures of the columns of one file that are not nested.

    All is counted exactly but the distinct values: these are estimated from the sample that the encoder takes of the
    first row group anyway. Counting them needs a hash of every value, which Arrow has no function for.

    Examples
    --------
    >>> count = FigureCount(pa.schema({"id": pa.int64()}))
    >>> count.add(pa.table({"id": [3, 1, None]}))
    >>> one = count.figures({})["id"]
    >>> one.nulls, one.values, one.low, one.high
    (1, 2, 1, 3)
    """

    def __init__(self, schema: Any) -> None:
        kinds = {field.name: _kind(field.type) for field in schema}
        self._kinds = {name: kind for name, kind in list(kinds.items())[:MOST_COLUMNS] if kind is not None}
        self._first: dict[str, ColumnFigures] = {}  # of the first row group
        self._all: dict[str, ColumnFigures] = {}

    def add(self, rows: Any) -> None:
        """Count a table of the file's schema."""
        for name, kind in self._kinds.items():
            counted = _count_column(kind, rows.column(name))
            self._first.setdefault(name, counted)
            self._all[name] = self._all[name].plus(counted) if name in self._all else counted

    def figures(self, looks: Mapping[str, Look]) -> dict[str, ColumnFigures]:
        """Return what was counted, with the distinct values that a look at the first row group lets expect."""
        return {name: _with_distinct(column, self._first[name], looks.get(name)) for name, column in self._all.items()}


def _with_distinct(column: ColumnFigures, first: ColumnFigures, look: Look | None) -> ColumnFigures:
    if column.kind == "boolean":
        return replace(column, distinct=column.bounded(None))
    if not column.values:
        return replace(column, distinct=0)
    if look is None or not first.values:
        return column
    grows = look.in_all >= KEY_LIKE * first.values
    distinct = round(look.in_all * column.values / first.values if grows else look.in_all)
    are_all = len(look.different) <= MOST_MEMBERS and (not grows or column.values == look.values)
    members = members_of(_plain(look.different)) if are_all else None
    return replace(column, distinct=column.bounded(distinct), members=members)


def _plain(values: Any) -> list[object]:
    """Return values of Arrow as such that every process shows alike; text need not be UTF-8."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        values = values.cast(pa.large_binary())
    elif pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    plain: list[object] = values.to_pylist()
    return plain


def _kind(kind: Any) -> Kind | None:
    types = pa.types
    checks: dict[Kind, bool] = {
        "integer": types.is_integer(kind),
        "float": types.is_floating(kind),
        "decimal": types.is_decimal(kind),
        "date": types.is_date32(kind),
        "timestamp": types.is_timestamp(kind),
        "boolean": types.is_boolean(kind),
        "text": types.is_string(kind) or types.is_large_string(kind),
        "binary": types.is_binary(kind) or types.is_large_binary(kind),
    }
    return next((name for name, is_so in checks.items() if is_so), None)


def _count_column(kind: Kind, column: Any) -> ColumnFigures:
    """Count one column of a row group."""
    nulls = column.null_count
    counted = ColumnFigures(kind, nulls, len(column) - nulls)
    if not counted.values:
        return counted
    if kind == "boolean":
        return replace(counted, true_values=pc.sum(column).as_py())
    if kind in {"text", "binary"}:
        lengths = pc.binary_length(column)
        return replace(counted, total_bytes=pc.sum(lengths).as_py(), longest_bytes=pc.max(lengths).as_py())
    if kind == "float" and pc.any(pc.is_nan(column)).as_py():
        return counted
    bounds = pc.min_max(column)
    low, high = (_bound(kind, bounds[name]) for name in ("min", "max"))
    return replace(counted, low=low, high=high)


def _bound(kind: Kind, scalar: Any) -> int | float | str | None:
    """Return a bound as ``ColumnFigures`` has it: days, microseconds (Arrow counts these or milliseconds), values."""
    if kind in {"date", "timestamp"}:
        count: int = scalar.value
        return count * 1000 if kind == "timestamp" and scalar.type.unit == "ms" else count
    value: int | float | Decimal = scalar.as_py()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else None  # 0.0 for -0.0: the two are one value
    return value
