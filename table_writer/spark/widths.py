"""How many bytes rows take in Arrow: by their types alone, or as an expression that Spark computes for each row."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql import types as T  # noqa: N812 - as Spark documents it

from table_writer.spark.sql import quoted

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
    """Whether Spark can compute how wide a row is; not of a variant."""
    return all(map(_is_measurable, (field.dataType for field in schema)))


def refusing_wide(rows: DataFrame, max_row_bytes: int) -> DataFrame:
    """Return the same rows, of a schema that is measurable; the job that meets a wider one ends with ``WideRowError``.

    The look is part of the first column, not a filter: Spark would move that to where a value is not computed yet, and
    compute it twice.
    """
    first, *others = (F.col(quoted(name)) for name in rows.columns)
    widths = (_value_bytes(F.col(quoted(field.name)), field.dataType) for field in rows.schema)
    wide = F.raise_error(F.lit(f"\ntable_writer.errors.WideRowError: a row has over {max_row_bytes:,} bytes\n"))
    checked = F.when(reduce(add, widths) <= max_row_bytes, first).otherwise(wide)
    return rows.select(checked.alias(rows.columns[0]), *others)


def _is_measurable(kind: T.DataType) -> bool:
    if isinstance(kind, T.StructType):
        return is_measurable(kind) and len({name.lower() for name in kind.names}) == len(kind)  # else: which is meant?
    if isinstance(kind, T.ArrayType):
        return _is_measurable(kind.elementType)
    if isinstance(kind, T.MapType):
        return _is_measurable(kind.keyType) and _is_measurable(kind.valueType)
    return type(kind) in FIXED_WIDTHS or isinstance(kind, T.StringType | T.BinaryType)


def _value_bytes(value: Column, kind: T.DataType) -> Column:
    if isinstance(kind, T.StructType):
        return reduce(add, (_value_bytes(value.getField(field.name), field.dataType) for field in kind), F.lit(1))
    if isinstance(kind, T.ArrayType):
        return _all_bytes(value, kind.elementType)
    if isinstance(kind, T.MapType):
        return _all_bytes(F.map_keys(value), kind.keyType) + _all_bytes(F.map_values(value), kind.valueType)
    if isinstance(kind, T.StringType | T.BinaryType):
        return F.coalesce(F.octet_length(value).cast("long"), F.lit(0)) + OFFSET_BYTES
    return F.lit(FIXED_WIDTHS[type(kind)] + 1)


def _all_bytes(values: Column, kind: T.DataType) -> Column:
    """Return the bytes of all values of an array, which may be null."""
    if type(kind) in FIXED_WIDTHS:
        summed = F.size(values).cast("long") * (FIXED_WIDTHS[type(kind)] + 1)
    else:
        zero = F.lit(0).cast("long")
        summed = F.aggregate(values, zero, lambda total, value: total + _value_bytes(value, kind))
    return F.coalesce(summed, F.lit(0)) + OFFSET_BYTES
