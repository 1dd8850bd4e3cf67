"""The DataFrame's columns, matched by name, in the table's types.

What is safe is done for the user: columns in any order, types that widen without loss. All else is refused with both
types named, before anything is written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import (
    ArrayType,
    AtomicType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from table_writer.errors import SchemaMismatchError
from table_writer.plan.table_schema import CHAR_VARCHAR

__all__ = ["fit"]

INTEGER_DIGITS: Final[dict[type[DataType], int]] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
WIDER: Final[dict[type[DataType], tuple[type[DataType], ...]]] = {
    ByteType: (ShortType, IntegerType, LongType, FloatType, DoubleType),
    ShortType: (IntegerType, LongType, FloatType, DoubleType),
    IntegerType: (LongType, DoubleType),
    FloatType: (DoubleType,),
    DateType: (TimestampType, TimestampNTZType),
}
LIMIT: Final = re.compile(r"(char|varchar)\((\d+)\)")
SPELLED_ALIKE: Final = (DateType, ByteType, ShortType, IntegerType, LongType)  # cheaper to send than their text
STORABLE: Final = (
    *(BinaryType, BooleanType, ByteType, DateType, DecimalType, DoubleType, FloatType, IntegerType, LongType),
    *(ShortType, StringType, TimestampNTZType, TimestampType),
)


def fit(df: DataFrame, schema: StructType, table: str, partition_columns: Sequence[str]) -> DataFrame:
    """Return the DataFrame with exactly the table's columns, order and types.

    Partition values are turned into text by Spark itself, as its own writer does it; integers and dates, whose text is
    the same everywhere, stay as they are.

    Parameters
    ----------
    df
        What the user gave.
    schema
        The table's schema, partition columns last.
    table
        Name of the table, for messages.
    partition_columns
        Names of the partition columns in the table's order.

    Raises
    ------
    SchemaMismatchError
        Names every column that is missing, extra, there twice, or of a type that does not fit.
    """
    _refuse(_name_problems(df, schema), table)
    given = {field.name.lower(): field for field in df.schema}
    limited = [field.name for field in schema if _has_nested_limit(field)]
    problems = [f"column {name} has char(n) or varchar(n) inside, which is not supported" for name in limited] + [
        problem
        for field in schema
        for problem in _type_problems(given[field.name.lower()].dataType, field.dataType, field.name)
    ]
    _refuse(problems, table)
    columns: list[Column] = []
    partitions = {name.lower() for name in partition_columns}
    for field in schema:
        source = given[field.name.lower()]
        column = _limited(_converted(df[_quoted(source.name)], source.dataType, field.dataType), field)
        as_text = field.name.lower() in partitions and not isinstance(field.dataType, SPELLED_ALIKE)
        columns.append((column.cast("string") if as_text else column).alias(field.name))
    return df.select(*columns)


def _refuse(problems: Sequence[str], table: str) -> None:
    if problems:
        raise SchemaMismatchError(
            f"the DataFrame does not fit table {table}, nothing was written: {'; '.join(problems)}.", table=table
        )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _name_problems(df: DataFrame, schema: StructType) -> list[str]:
    wanted = {field.name.lower(): field.name for field in schema}
    counts = Counter(name.lower() for name in df.columns)
    twice = sorted(name for name, count in counts.items() if count > 1)
    missing = [name for lower, name in wanted.items() if lower not in counts]
    extra = [name for name in df.columns if name.lower() not in wanted]
    return [
        f"{what}: {', '.join(map(repr, names))}"
        for what, names in (
            ("columns that differ only by case, or are there twice", twice),
            ("columns of the table missing in the DataFrame", missing),
            ("columns the table does not have", extra),
        )
        if names
    ]


def _type_problems(given: DataType, wanted: DataType, path: str) -> list[str]:
    """Name every place where a type does not fit, down into nested types."""
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        fields = {field.name.lower(): field for field in given}
        names = {field.name.lower() for field in wanted}
        twice = [f"struct {path} has fields that differ only by case"] if len(fields) < len(given) else []
        absent = [f"field {path}.{field.name} is missing" for field in wanted if field.name.lower() not in fields]
        extra = [f"field {path}.{field.name} is not in the table" for field in given if field.name.lower() not in names]
        inner = [
            problem
            for field in wanted
            if field.name.lower() in fields
            for problem in _type_problems(fields[field.name.lower()].dataType, field.dataType, f"{path}.{field.name}")
        ]
        return [*twice, *absent, *extra, *inner]
    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        return _type_problems(given.elementType, wanted.elementType, f"{path}.element")
    if isinstance(given, MapType) and isinstance(wanted, MapType):
        return [
            *_type_problems(given.keyType, wanted.keyType, f"{path}.key"),
            *_type_problems(given.valueType, wanted.valueType, f"{path}.value"),
        ]
    if not isinstance(wanted, (*STORABLE, StructType, ArrayType, MapType)):
        return [f"column {path} has type {wanted.simpleString()}, which is not supported"]
    if not _widens(given, wanted):
        return [f"column {path} is {given.simpleString()} in the DataFrame and {wanted.simpleString()} in the table"]
    return []


def _widens(given: DataType, wanted: DataType) -> bool:
    """Whether every value of one type is a value of the other."""
    if given == wanted or isinstance(given, NullType):
        return True
    if isinstance(wanted, DecimalType):
        if isinstance(given, DecimalType):
            return wanted.scale >= given.scale and wanted.precision - wanted.scale >= given.precision - given.scale
        return INTEGER_DIGITS.get(type(given), 99) <= wanted.precision - wanted.scale
    if isinstance(wanted, StringType):
        return isinstance(given, AtomicType) and not isinstance(given, BinaryType)
    return type(wanted) in WIDER.get(type(given), ())


def _converted(column: Column, given: DataType, wanted: DataType) -> Column:
    """Convert by name where types differ; a column that already fits is passed through untouched."""
    if _same(given, wanted):
        return column
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        fields = {field.name.lower(): field for field in given}
        parts = [
            _converted(column.getField(source.name), source.dataType, field.dataType).alias(field.name)
            for field in wanted
            if (source := fields.get(field.name.lower())) is not None
        ]
        return F.when(column.isNotNull(), F.struct(*parts))
    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        element, target = given.elementType, wanted.elementType
        return F.transform(column, lambda item: _converted(item, element, target))
    if isinstance(given, MapType) and isinstance(wanted, MapType):
        key, value = (given.keyType, wanted.keyType), (given.valueType, wanted.valueType)
        values = F.transform_values(column, lambda _, item: _converted(item, *value))
        return F.transform_keys(values, lambda item, _: _converted(item, *key))
    return column.cast(wanted)


def _same(given: DataType, wanted: DataType) -> bool:
    """Equal but for what Parquet does not keep: whether nulls are allowed, and metadata."""
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        return len(given) == len(wanted) and all(
            a.name == b.name and _same(a.dataType, b.dataType) for a, b in zip(given, wanted, strict=True)
        )
    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        return _same(given.elementType, wanted.elementType)
    if isinstance(given, MapType) and isinstance(wanted, MapType):
        return _same(given.keyType, wanted.keyType) and _same(given.valueType, wanted.valueType)
    return given == wanted


def _has_nested_limit(field: StructField) -> bool:
    limits = str(field.metadata.get(CHAR_VARCHAR, ""))
    return "char(" in limits and LIMIT.fullmatch(limits) is None


def _limited(column: Column, field: StructField) -> Column:
    """Enforce ``char(n)`` and ``varchar(n)`` as Spark does: trailing blanks may go, more is an error of the task."""
    limit = LIMIT.fullmatch(str(field.metadata.get(CHAR_VARCHAR, "")))
    if limit is None:
        return column
    kind, length = limit[1], int(limit[2])
    text = F.concat(F.lit(f"column {field.name} is {kind}({length}), too short for: "), column)
    cut = F.substring(column, 1, length)
    return (
        F.when(F.length(column) <= length, F.rpad(column, length, " ") if kind == "char" else column)
        .when(F.length(F.rtrim(column)) <= length, cut)
        .otherwise(F.when(column.isNotNull(), F.raise_error(text)))
    )
