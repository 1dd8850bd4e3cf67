"""A table's schema as Spark reads it from the metastore.

Source of the rules: Spark's ``HiveExternalCatalog``, which keeps the exact schema in table parameters, because Hive
knows neither case nor all of Spark's types, and goes back to Hive's columns when Hive has altered the table since.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import StructField, StructType, _parse_datatype_string

from table_writer.model.table import Column, Table
from table_writer.plan.table_check import provider_of

__all__ = ["CHAR_VARCHAR", "table_schema"]

CHAR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"  # Spark's metadata key: the type is string, its limit is kept here


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
    text = column.type.lower()
    limited = text.startswith(("char(", "varchar("))
    metadata: dict[str, Any] = {CHAR_VARCHAR: text} if limited else {}
    return StructField(
        column.name, _parse_datatype_string("string" if limited else column.type), nullable=True, metadata=metadata
    )
