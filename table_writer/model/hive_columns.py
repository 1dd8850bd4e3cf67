"""Spark's list of a table's columns as the metastore keeps it: Hive's columns, and table parameters of Spark's own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from table_writer.model.column_statistics import CHAR_VARCHAR
from table_writer.model.table import SPARK_SCHEMA, Column, Table

HIVE_NAMES: Final = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
LONGEST_PARAMETER: Final = 4_000  # characters of a value that every metastore's database keeps; so Spark's threshold
PART: Final = f"{SPARK_SCHEMA}.part."
PARTS: Final = f"{SPARK_SCHEMA}.numParts"
SPARK_NAMES: Final = {hive: spark for spark, hive in HIVE_NAMES.items()}
TOKEN: Final = re.compile(r"[<>:,]|[^<>:,(]+(?:\([^)]*\))?")


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


def spark_columns(table: Table) -> list[dict[str, Any]]:
    """Return all columns of a table as the fields of a schema in Spark's JSON, those of partitions last.

    They are those that Spark has stored, with the case of their names, unless another tool has changed Hive's since.
    """
    hives = (*table.columns, *table.partition_columns)
    fields = _stored_fields(table.parameters)
    of_fields = {column.name: column.type.lower() for column in hive_columns(json.dumps({"fields": fields}))}
    is_sparks = bool(fields) and "spark.sql.sources.provider" in table.parameters
    if not is_sparks and of_fields != {column.name.lower(): column.type.lower() for column in hives}:
        fields = [spark_field(column) for column in hives]
    last = [column.name.lower() for column in table.partition_columns]
    by_name = {field["name"].lower(): field for field in fields}
    return [*(field for field in fields if field["name"].lower() not in last), *(by_name[name] for name in last)]


def _stored_fields(parameters: Mapping[str, str]) -> list[dict[str, Any]]:
    count = int(parameters.get(PARTS, 0))
    text = parameters.get(SPARK_SCHEMA) or "".join(parameters[f"{PART}{number}"] for number in range(count))
    fields: list[dict[str, Any]] = json.loads(text)["fields"] if text else []
    return fields


def spark_field(column: Column) -> dict[str, Any]:
    """Return one of Hive's columns as a field of a schema in Spark's JSON.

    Examples
    --------
    >>> spark_field(Column("code", "varchar(3)"))["metadata"]
    {'__CHAR_VARCHAR_TYPE_STRING': 'varchar(3)'}
    >>> spark_field(Column("tags", "map<string,array<int>>"))["type"]["valueType"]
    {'type': 'array', 'elementType': 'integer', 'containsNull': True}
    """
    kind = _spark_type(TOKEN.findall(column.type))
    is_limited = isinstance(kind, str) and kind.startswith(("char(", "varchar("))
    metadata = {"comment": column.comment} if column.comment else {}
    metadata |= {CHAR_VARCHAR: str(kind)} if is_limited else {}
    return {"name": column.name, "type": "string" if is_limited else kind, "nullable": True, "metadata": metadata}


def _spark_type(tokens: list[str]) -> str | dict[str, Any]:
    """Read the next type of a text in Hive's spelling."""
    name = tokens.pop(0).strip().lower()
    if not tokens or tokens[0] != "<":
        plain = name.replace(" ", "")
        return "decimal(10,0)" if plain == "decimal" else SPARK_NAMES.get(plain, plain)
    inner: list[tuple[str, Any]] = []
    while tokens.pop(0) in "<,":
        label = tokens.pop(0) if name == "struct" else ""
        if label:
            tokens.pop(0)
        inner.append((label, _spark_type(tokens)))
    if name == "struct":
        fields = [{"name": label, "type": kind, "nullable": True, "metadata": {}} for label, kind in inner]
        return {"type": name, "fields": fields}
    if name == "array":
        return {"type": name, "elementType": inner[0][1], "containsNull": True}
    return {"type": name, "keyType": inner[0][1], "valueType": inner[1][1], "valueContainsNull": True}


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
