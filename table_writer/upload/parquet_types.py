"""Arrow types as Spark sends them, turned into those that make Parquet columns as Spark writes them."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from table_writer.errors import InvalidInputError
from table_writer.model.upload_spec import ParquetOptions

__all__ = ["file_schema", "with_schema", "writes_int96"]

MICROS: Final = pa.timestamp("us", tz="UTC")
MILLIS: Final = pa.timestamp("ms", tz="UTC")


def file_schema(schema: Any, options: ParquetOptions) -> Any:
    """Return the schema of a file: every column and everything in it may be null, as in Spark's files.

    Raises
    ------
    InvalidInputError
        A column has a type that Parquet cannot hold.
    """
    fields = []
    for field in schema:
        kind = file_type(field.type, column=field.name)
        if kind == MICROS and options.timestamp_type == "TIMESTAMP_MILLIS":
            kind = MILLIS
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)


def file_type(kind: Any, *, column: str) -> Any:
    """Return the type to write for a type that Spark sent."""
    types = pa.types
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, file_type(field.type, column=column)) for field in kind])
    if types.is_list(kind) or types.is_large_list(kind):
        make = pa.list_ if types.is_list(kind) else pa.large_list
        return make(pa.field("element", file_type(kind.value_type, column=column)))
    if types.is_map(kind):
        key = pa.field("key", file_type(kind.key_type, column=column), nullable=False)
        return pa.map_(key, pa.field("value", file_type(kind.item_type, column=column)))
    return _without_children(kind, column=column)


def _without_children(kind: Any, *, column: str) -> Any:
    types = pa.types
    if types.is_timestamp(kind):
        return pa.timestamp("us") if kind.tz is None else MICROS
    if types.is_time64(kind):
        return pa.time64("us")
    if types.is_duration(kind):
        return pa.int64()  # Spark's day-time interval: micros
    if types.is_null(kind) or types.is_interval(kind):
        raise InvalidInputError(f"column {column!r} has type {kind}, which Parquet has no column for; cast it")
    return kind


def with_schema(rows: Any, schema: Any) -> Any:
    """Return a table with the types of a file; columns that have them already are not copied."""
    columns = []
    for column, field in zip(rows.columns, schema, strict=True):
        if column.type == field.type:
            columns.append(column)
        elif field.type == MILLIS:
            columns.append(pc.floor_temporal(column, unit="millisecond").cast(field.type))
        else:
            columns.append(column.cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def writes_int96(schema: Any, options: ParquetOptions) -> bool:
    """Whether timestamps become INT96: Arrow does that for all of a file or none, and TIMESTAMP_NTZ never is."""
    return options.timestamp_type == "INT96" and not any(_has_local_timestamp(field.type) for field in schema)


def _has_local_timestamp(kind: Any) -> bool:
    if pa.types.is_timestamp(kind):
        return kind.tz is None
    return any(_has_local_timestamp(kind.field(position).type) for position in range(kind.num_fields))
