"""Spark's list of a table's columns as the metastore keeps it: Hive's columns, and table parameters of Spark's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from table_writer.model.column_statistics import CHAR_VARCHAR
from table_writer.model.table import SPARK_SCHEMA, Column

HIVE_NAMES: Final = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
LONGEST_PARAMETER: Final = 4_000  # characters of a value that every metastore's database keeps; so Spark's threshold
PART: Final = f"{SPARK_SCHEMA}.part."
PARTS: Final = f"{SPARK_SCHEMA}.numParts"


def hive_columns(schema: str) -> tuple[Column, ...]:
    """Return Hive's columns of a schema in Spark's JSON, as Spark itself writes them, in lower case as Hive keeps them.

    Examples
    --------
    >>> hive_columns('{"fields": [{"name": "Id", "type": "long", "metadata": {"comment": "a key"}}]}')
    (Column(name='id', type='bigint', comment='a key'),)
    """
    return tuple(
        Column(
            field["name"].lower(),
            field.get("metadata", {}).get(CHAR_VARCHAR) or _hive_type(field["type"]),
            field.get("metadata", {}).get("comment", ""),
        )
        for field in json.loads(schema)["fields"]
    )


def _hive_type(kind: str | Mapping[str, Any]) -> str:
    if isinstance(kind, str):
        return HIVE_NAMES.get(kind, kind)
    if kind["type"] == "struct":
        fields = (f"{field['name']}:{_hive_type(field['type'])}" for field in kind["fields"])
        return f"struct<{','.join(fields)}>"
    if kind["type"] == "array":
        return f"array<{_hive_type(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{_hive_type(kind['keyType'])},{_hive_type(kind['valueType'])}>"
    return str(kind["type"])  # Hive knows no other


def schema_parameters(schema: str) -> dict[str, str]:
    """Return the table parameters in which Spark keeps a schema.

    Examples
    --------
    >>> schema_parameters('{"fields": []}')
    {'spark.sql.sources.schema': '{"fields": []}'}
    >>> sorted(schema_parameters("x" * 4_001))
    ['spark.sql.sources.schema.numParts', 'spark.sql.sources.schema.part.0', 'spark.sql.sources.schema.part.1']
    """
    if len(schema) <= LONGEST_PARAMETER:
        return {SPARK_SCHEMA: schema}
    parts = [schema[begin : begin + LONGEST_PARAMETER] for begin in range(0, len(schema), LONGEST_PARAMETER)]
    return {PARTS: str(len(parts)), **{f"{PART}{number}": part for number, part in enumerate(parts)}}


def is_of_schema(parameter: str) -> bool:
    """Return whether a table parameter has Spark's schema or a part of it, and not how the table is bucketed."""
    return parameter in {SPARK_SCHEMA, PARTS} or parameter.startswith(PART)
