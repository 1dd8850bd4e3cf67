"""The columns of a table as rows without Spark need them: types in Arrow, limits, and Spark's JSON of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from table_writer.errors import InvalidInputError
from table_writer.model.column_statistics import CHAR_VARCHAR, CURRENT_DEFAULT
from table_writer.model.table import Table
from table_writer.read.types import PARTITION_TYPES, arrow_schema, sparks_fields

LIMITED: Final = re.compile(r"(?P<kind>char|varchar)\((?P<length>\d+)\)", re.IGNORECASE)
INSTANTS: Final = frozenset({"timestamp", "timestamp with local time zone"})
OF_SPARK: Final[Mapping[Any, str]] = {
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class TableField:
    """A column of a table."""

    name: str
    kind: Any  # Arrow's type of its values
    declared: str  # the type as the metastore has it, in lower case
    nullable: bool
    described: Mapping[str, Any]  # as in Spark's JSON of a schema
    is_partition: bool = False

    @property
    def limit(self) -> tuple[str, int] | None:
        """Return ``char`` or ``varchar`` and how many characters it has; ``None`` of other types."""
        found = LIMITED.fullmatch(self.described.get("metadata", {}).get(CHAR_VARCHAR, ""))
        return (found["kind"].lower(), int(found["length"])) if found else None

    @property
    def has_default(self) -> bool:
        """Return whether a row that lacks the column gets something else than null."""
        return CURRENT_DEFAULT in self.described.get("metadata", {})

    @property
    def spelled_as(self) -> str:
        """Return the type as the spellings of partitions know it."""
        if pa.types.is_decimal(self.kind):
            return f"decimal({self.kind.precision},{self.kind.scale})"
        is_instant = pa.types.is_timestamp(self.kind) and self.described["type"] == "timestamp"
        return "timestamp" if is_instant else PARTITION_TYPES.get(self.kind, self.declared)


def table_fields(table: Table) -> tuple[TableField, ...]:
    """Return the data columns, then the partition columns.

    Raises ``InvalidInputError`` for a column that only Spark can write.
    """
    stored = {field["name"].lower(): field for field in sparks_fields(table)}
    declared = {column.name.lower(): column for column in (*table.columns, *table.partition_columns)}
    partitions = {column.name.lower() for column in table.partition_columns}
    fields = []
    for field in arrow_schema(table):
        column = declared.get(field.name.lower())
        text = column.type if column else ""
        described = stored.get(field.name.lower()) or _described(field, text, column.comment if column else "")
        name = field.name.lower()
        is_instant = described["type"] == "timestamp"
        kind = pa.timestamp("us", tz="UTC") if is_instant else field.type
        _require_writable(table, field.name, text, kind, described)
        fields.append(
            TableField(
                name=field.name,
                kind=kind,
                declared=text.lower(),
                nullable=bool(described.get("nullable", True)),
                described=described,
                is_partition=name in partitions,
            )
        )
    return tuple(fields)


def schema_json(fields: Sequence[TableField]) -> str:
    """Return Spark's JSON of the data columns among some columns, as ``StructType.json()`` spells it."""
    data = [dict(field.described) for field in fields if not field.is_partition]
    return json.dumps({"type": "struct", "fields": data}, separators=(",", ":"), sort_keys=True)


def _require_writable(table: Table, name: str, declared: str, kind: Any, described: Mapping[str, Any]) -> None:
    is_nested = pa.types.is_nested(kind)
    if is_nested and re.search(r"\b(var)?char\(", declared + str(described.get("metadata", {}).get(CHAR_VARCHAR, ""))):
        raise InvalidInputError(
            f"{table.name} takes Spark: column {name} is {declared}, whose lengths only Spark checks",
            table=str(table.name),
        )
    if _requires_values(described["type"]):
        raise InvalidInputError(
            f"{table.name} takes Spark: column {name} has fields or elements that are NOT NULL", table=str(table.name)
        )
    if isinstance(described["type"], dict) and described["type"].get("type") == "udt":
        raise InvalidInputError(
            f"{table.name} takes Spark: column {name} has a user-defined type", table=str(table.name)
        )


def _requires_values(kind: Any) -> bool:
    """Return whether something inside a type may not be null."""
    if not isinstance(kind, dict):
        return False
    fields = kind.get("fields", ())
    inner = [field["type"] for field in fields] + [kind.get(name) for name in ("elementType", "keyType", "valueType")]
    flags = [field.get("nullable", True) for field in fields]
    flags += [kind.get(name, True) for name in ("containsNull", "valueContainsNull")]
    return not all(flags) or any(map(_requires_values, inner))


def _described(field: Any, declared: str, comment: str) -> dict[str, Any]:
    """Return a column as Spark keeps it that only Hive has described."""
    metadata = {"comment": comment} if comment else {}
    if LIMITED.fullmatch(declared.strip()):
        metadata[CHAR_VARCHAR] = declared.strip().lower()
    is_instant = declared.strip().lower() in INSTANTS  # of a partition column pyarrow's type does not tell
    kind = "timestamp" if is_instant else _json_type(field.type)
    return {"name": field.name, "type": kind, "nullable": True, "metadata": metadata}


def _json_type(kind: Any) -> Any:
    if pa.types.is_struct(kind):
        inner = [
            {"name": field.name, "type": _json_type(field.type), "nullable": True, "metadata": {}} for field in kind
        ]
        return {"type": "struct", "fields": inner}
    if pa.types.is_list(kind):
        return {"type": "array", "elementType": _json_type(kind.value_type), "containsNull": True}
    if pa.types.is_map(kind):
        key, value = _json_type(kind.key_type), _json_type(kind.item_type)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return OF_SPARK[kind]
