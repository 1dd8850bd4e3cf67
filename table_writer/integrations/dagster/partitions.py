"""The predicate that selects the rows of partition keys, by ``partition_expr``, as Dagster's own managers have it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from math import prod
from typing import Any, Final

from dagster import MultiPartitionKey, MultiPartitionsDefinition, PartitionsDefinition, TimeWindowPartitionsDefinition
from pyspark.sql.types import DataType, DateType, StringType, TimestampNTZType, TimestampType

from table_writer.errors import InvalidInputError
from table_writer.spark.types import cast_sql, literal

TypeOf = Callable[[str], DataType]
"""Tells the type that an expression has over the table's columns."""
WALL_CLOCK: Final = "%Y-%m-%d %H:%M:%S"
DIRECTIVES: Final = "YmdHMS"  # of a time's format: texts in this order are in the order of their times
PLAIN_COLUMN: Final = re.compile(r"`?(\w+)`?", re.ASCII)


def expressions_of(asset: str, declared: Any, definition: PartitionsDefinition[Any]) -> dict[str, str]:
    """Return the expression of each dimension, by its name; of the only one by an empty name."""
    if not isinstance(definition, MultiPartitionsDefinition):
        if not declared or not isinstance(declared, str):
            raise InvalidInputError(
                f"asset {asset} is partitioned: say by which column of the table its partitions are told apart, in"
                ' metadata={"partition_expr": "dt"}'
            )
        return {"": declared}
    dimensions = [dimension.name for dimension in definition.partitions_defs]
    if not isinstance(declared, Mapping) or set(declared) != set(dimensions):
        raise InvalidInputError(
            f"asset {asset} has partitions of several dimensions: metadata partition_expr has a column for each of"
            f" {dimensions}, not {declared!r}"
        )
    return dict(declared)


def partition_columns(expressions: Mapping[str, str]) -> list[str] | None:
    """Return the columns that a new table is partitioned by; ``None`` if an expression is no plain column."""
    found = [PLAIN_COLUMN.fullmatch(expression.strip()) for expression in expressions.values()]
    return None if None in found else [match.group(1) for match in found if match]


def predicate(
    keys: Sequence[str], definition: PartitionsDefinition[Any], expressions: Mapping[str, str], type_of: TypeOf
) -> str:
    """Return the SQL predicate that is true of exactly the rows of these keys."""
    if not isinstance(definition, MultiPartitionsDefinition):
        return _of_dimension(list(keys), definition, expressions[""], type_of)
    dimensions = {dimension.name: dimension.partitions_def for dimension in definition.partitions_defs}
    points = [_parts(key, definition) for key in keys]
    by_dimension = {name: list(dict.fromkeys(point[name] for point in points)) for name in dimensions}

    def box(keys_by_dimension: Mapping[str, list[str]]) -> str:
        return " AND ".join(
            f"({_of_dimension(keys_by_dimension[name], dimension, expressions[name], type_of)})"
            for name, dimension in dimensions.items()
        )

    if prod(len(values) for values in by_dimension.values()) == len(points):
        return box(by_dimension)
    return " OR ".join(f"({box({name: [key] for name, key in point.items()})})" for point in points)


def _parts(key: str, definition: MultiPartitionsDefinition) -> Mapping[str, str]:
    found: Any = key if isinstance(key, MultiPartitionKey) else definition.get_partition_key_from_str(key)
    parts: Mapping[str, str] = found.keys_by_dimension
    return parts


def _of_dimension(keys: list[str], definition: PartitionsDefinition[Any], expression: str, type_of: TypeOf) -> str:
    kind = type_of(expression)
    if isinstance(definition, TimeWindowPartitionsDefinition) and _is_ordered(kind, definition.fmt):
        windows = [definition.time_window_for_partition_key(key) for key in keys]
        spans = joined(sorted(((window.start, window.end) for window in windows), key=_instants))
        literals = [[_moment(time, kind, definition.fmt) for time in span] for span in spans]
        ranges = [f"{expression} >= {start} AND {expression} < {end}" for start, end in literals]
        return ranges[0] if len(ranges) == 1 else " OR ".join(f"({one_range})" for one_range in ranges)
    values = [literal(key) for key in keys]
    if not isinstance(kind, StringType):
        values = [cast_sql(value, kind) for value in values]
    return f"{expression} IN ({', '.join(values)})"


def _is_ordered(kind: DataType, key_format: str) -> bool:
    """Return whether values are in the order of their times: then a window may have many, as a month has days."""
    directives = "".join(re.findall(r"%(.)", key_format))
    return isinstance(kind, DateType | TimestampType | TimestampNTZType) or (
        isinstance(kind, StringType) and DIRECTIVES.startswith(directives)
    )


def _instants(window: tuple[datetime, datetime]) -> tuple[float, float]:
    """Return a window's ends so that they can be compared: of one zone Python compares clocks, which are set back."""
    return window[0].timestamp(), window[1].timestamp()


def joined(windows: Iterable[tuple[datetime, datetime]]) -> list[tuple[datetime, datetime]]:
    """Join windows that follow one another."""
    spans: list[tuple[datetime, datetime]] = []
    for start, end in windows:
        if spans and spans[-1][1].timestamp() == start.timestamp():
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans


def _moment(time: datetime, kind: DataType, key_format: str) -> str:
    """Return the literal of a window's end: a text is in the format of the keys, a date is of the keys' time zone."""
    if isinstance(kind, StringType):
        return literal(time.strftime(key_format))
    if isinstance(kind, DateType):
        return f"DATE'{time:%Y-%m-%d}'"
    if isinstance(kind, TimestampNTZType):
        return f"TIMESTAMP_NTZ'{time.strftime(WALL_CLOCK)}'"
    return f"TIMESTAMP_LTZ'{time.strftime(WALL_CLOCK)}{time:%z}'"
