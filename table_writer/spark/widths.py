"""The bytes that rows take in Arrow: by their types alone, or as an expression that Spark computes for each row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from operator import add
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql import types as T  # noqa: N812 - as Spark documents it

from table_writer.spark.sql import balanced_tree, quoted
from table_writer.spark.types import all_types

FIXED_WIDTHS: Final[dict[type[T.DataType], int]] = {
    kind: width
    for width, kinds in {
        0: (T.NullType,),
        1: (T.BooleanType, T.ByteType),
        2: (T.ShortType,),
        4: (T.IntegerType, T.DateType, T.FloatType, T.YearMonthIntervalType),
        8: (T.LongType, T.DoubleType, T.TimestampType, T.TimestampNTZType, T.DayTimeIntervalType),
        16: (T.DecimalType,),
    }.items()
    for kind in kinds
}
"""Bytes of a value in Arrow."""

DEEPEST: Final = 5  # arrays inside of arrays: Spark's analyzer takes some rounds for each
MOST_FIELDS: Final = 100  # as many as Spark computes by generated code (spark.sql.codegen.maxFields)
MOST_LISTS: Final = 8  # arrays and maps: for each, Spark compiles a loop
OFFSET_BYTES: Final = 5  # where a value begins, and whether it is null


def fixed_row_bytes(schema: T.StructType) -> int | None:
    """Return how many bytes each row takes; ``None`` where that depends on the row."""
    widths = [
        fixed_row_bytes(field.dataType)
        if isinstance(field.dataType, T.StructType)
        else FIXED_WIDTHS.get(type(field.dataType))
        for field in schema
    ]
    known = [width + 1 for width in widths if width is not None]  # and whether it is null
    return sum(known) if len(known) == len(widths) else None


def is_measurable(schema: T.StructType) -> bool:
    """Return whether Spark can compute how wide a row is, and sooner than it weighs its batches."""
    return len(list(islice(all_types(schema), MOST_FIELDS + 2))) <= MOST_FIELDS + 1 and _has_width(schema)


def is_measured_soon(schema: T.StructType) -> bool:
    """Return whether Spark can compute how wide a row is with little to compile: few fields, of which few are lists."""
    lists = (kind for kind in all_types(schema) if isinstance(kind, T.ArrayType | T.MapType))
    return is_measurable(schema) and len(list(islice(lists, MOST_LISTS + 1))) <= MOST_LISTS


def refusing_wide(rows: DataFrame, max_row_bytes: int) -> DataFrame:
    """Return the same rows, of a schema that is measurable; the job that meets a wider one ends with ``WideRowError``.

    The look is part of the first column, not a filter: Spark would move that to where a value is not computed yet, and
    compute it twice.
    """
    first, *others = (F.col(quoted(name)) for name in rows.columns)
    wide = F.raise_error(F.lit(f"\ntable_writer.errors.WideRowError: a row has over {max_row_bytes:,} bytes\n"))
    checked = F.when(row_width(rows) <= max_row_bytes, first).otherwise(wide)
    return rows.select(checked.alias(rows.columns[0]), *others)


def row_width(rows: DataFrame) -> Column:
    """Return the bytes that a row takes, of a schema that is measurable."""
    return _sum(part for field in rows.schema for part in _widths(F.col(quoted(field.name)), field.dataType))


def row_width_at_once(rows: DataFrame) -> Column:
    """Return the same for a query that runs once: all texts are measured as one, which Java compiles sooner."""
    texts = [quoted(field.name) for field in rows.schema if field.dataType == T.StringType()]
    others = [field for field in rows.schema if field.dataType != T.StringType()]
    parts = [part for field in others for part in _widths(F.col(quoted(field.name)), field.dataType)]
    if texts:
        parts += [F.octet_length(F.concat_ws("", *texts)), OFFSET_BYTES * len(texts)]
    return _sum(parts)


def _has_width(kind: T.DataType, depth: int = 0) -> bool:
    """Return whether Spark can compute how wide a value, or a row, is: not of a variant."""
    if isinstance(kind, T.StructType):
        is_clear = len({name.lower() for name in kind.names}) == len(kind)  # else: which is meant?
        return is_clear and all(_has_width(field.dataType, depth) for field in kind)
    if isinstance(kind, T.ArrayType):
        return depth < DEEPEST and _has_width(kind.elementType, depth + 1)
    if isinstance(kind, T.MapType):
        return depth < DEEPEST and all(_has_width(part, depth + 1) for part in (kind.keyType, kind.valueType))
    return type(kind) in FIXED_WIDTHS or isinstance(kind, T.StringType | T.BinaryType)


def _widths(value: Column, kind: T.DataType) -> Iterator[Column | int]:
    """Yield what a value's bytes are the sum of: numbers that hold for each value, and expressions."""
    if isinstance(kind, T.StructType):
        yield 1
        for field in kind:
            yield from _widths(value.getField(field.name), field.dataType)
    elif isinstance(kind, T.ArrayType):
        yield from _all_widths(value, kind.elementType)
    elif isinstance(kind, T.MapType):
        yield from _all_widths(F.map_keys(value), kind.keyType)
        yield from _all_widths(F.map_values(value), kind.valueType)
    elif isinstance(kind, T.StringType | T.BinaryType):
        yield OFFSET_BYTES
        yield F.coalesce(F.octet_length(value).cast("long"), F.lit(0))
    else:
        yield FIXED_WIDTHS[type(kind)] + 1


def _all_widths(values: Column, kind: T.DataType) -> Iterator[Column | int]:
    """Yield those of all values of an array, which may be null."""
    if type(kind) in FIXED_WIDTHS:
        summed = F.size(values).cast("long") * (FIXED_WIDTHS[type(kind)] + 1)
    else:
        zero = F.lit(0).cast("long")
        summed = F.aggregate(values, zero, lambda total, value: total + _sum(_widths(value, kind)))
    yield OFFSET_BYTES
    yield F.coalesce(summed, F.lit(0))


def _sum(widths: Iterable[Column | int]) -> Column:
    parts = list(widths)
    fixed = sum(part for part in parts if isinstance(part, int))
    return balanced_tree(add, [*(part for part in parts if not isinstance(part, int)), F.lit(fixed)])
