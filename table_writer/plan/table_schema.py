"""A table's schema as Spark reads it from the metastore.

Source of the rules: Spark's ``HiveExternalCatalog``, which keeps the exact schema in table parameters, because Hive
knows neither case nor all of Spark's types, and goes back to Hive's columns when Hive has altered the table since.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    VarcharType,
    _parse_datatype_string,
)

from table_writer.model.column_statistics import CHAR_VARCHAR
from table_writer.model.table import Column, Table
from table_writer.plan.table_check import provider_of

__all__ = ["CHAR_VARCHAR", "exact_type", "plain_type", "stored_field", "table_schema"]


def table_schema(table: Table) -> StructType:
    """Return data columns followed by partition columns, with Spark's types, case, order and metadata."""
    stored = _stored_schema(table)
    partition_names = [column.name.lower() for column in table.partition_columns]
    if stored is None or provider_of(table) == "hive":
        hives = StructType([_field(column) for column in (*table.columns, *table.partition_columns)])
        if stored is None or _plain(stored, partition_names) != _plain(hives, partition_names):
            return hives
    data = [field for field in stored if field.name.lower() not in partition_names]
    by_name = {field.name.lower(): field for field in stored}
    return StructType(data + [by_name[name] for name in partition_names])


def partition_schema(table: Table) -> StructType:
    """Return the partition columns of :func:`table_schema`: its last ones."""
    schema = table_schema(table)
    return StructType(schema.fields[len(schema) - len(table.partition_columns) :])


def _stored_schema(table: Table) -> StructType | None:
    parameters = table.parameters
    text = parameters.get("spark.sql.sources.schema")
    if text is None and "spark.sql.sources.schema.numParts" in parameters:
        count = int(parameters["spark.sql.sources.schema.numParts"])
        text = "".join(parameters[f"spark.sql.sources.schema.part.{index}"] for index in range(count))
    return None if text is None else StructType.fromJson(json.loads(text))


def _plain(schema: StructType, partition_names: Sequence[str]) -> list[str]:
    """Describe columns for Spark's comparison: partition columns last; case and nullability don't count."""
    last = sorted(schema, key=lambda field: field.name.lower() in partition_names)
    return [f"{field.name} {field.dataType.simpleString()}".lower() for field in last]


def _field(column: Column) -> StructField:
    return stored_field(column.name, _parsed(column.type), column.comment)


def stored_field(name: str, kind: DataType, comment: str = "") -> StructField:
    """Return a column as Spark keeps it: ``char(n)`` and ``varchar(n)`` are strings, their limits metadata."""
    plain = plain_type(kind)
    metadata: dict[str, Any] = {"comment": comment} if comment else {}
    if plain != kind:
        metadata[CHAR_VARCHAR] = kind.simpleString()
    return StructField(name, plain, nullable=True, metadata=metadata)


def exact_type(field: StructField) -> DataType:
    """Return a column's type with ``char(n)`` and ``varchar(n)`` in their places."""
    declared = field.metadata.get(CHAR_VARCHAR)
    return field.dataType if declared is None else _with_limits(field.dataType, _parsed(declared))


def plain_type(kind: DataType) -> DataType:
    """Return a type with string in the place of ``char(n)`` and ``varchar(n)``."""
    if isinstance(kind, (CharType, VarcharType)):
        return StringType()
    if isinstance(kind, StructType):
        return StructType([StructField(f.name, plain_type(f.dataType), f.nullable, f.metadata) for f in kind])
    if isinstance(kind, ArrayType):
        return ArrayType(plain_type(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(plain_type(kind.keyType), plain_type(kind.valueType), kind.valueContainsNull)
    return kind


def _with_limits(kind: DataType, declared: DataType) -> DataType:
    """Take limits from what was declared, which says nothing of nulls, and all else from the type."""
    if isinstance(kind, StructType) and isinstance(declared, StructType):
        return StructType(
            [
                StructField(field.name, _with_limits(field.dataType, other.dataType), field.nullable, field.metadata)
                for field, other in zip(kind, declared, strict=True)
            ]
        )
    if isinstance(kind, ArrayType) and isinstance(declared, ArrayType):
        return ArrayType(_with_limits(kind.elementType, declared.elementType), kind.containsNull)
    if isinstance(kind, MapType) and isinstance(declared, MapType):
        key, value = _with_limits(kind.keyType, declared.keyType), _with_limits(kind.valueType, declared.valueType)
        return MapType(key, value, kind.valueContainsNull)
    return declared if isinstance(declared, (CharType, VarcharType)) else kind


def _parsed(text: str) -> DataType:
    """Read a type in Hive's spelling, which does not quote the names of fields."""
    return _parse_datatype_string(re.sub(r"(struct<|,)([^,<:`]+)(?=:)", r"\1`\2`", text))
