"""Columns and values of a table as Iceberg has them.

Source: Iceberg's specification: "Schemas and Data Types", "Column Projection", "Name Mapping Serialization",
"Binary single-value serialization".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from pyiceberg.conversions import to_bytes
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, NameMapping, parse_mapping_from_json
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from table_writer.errors import InvalidInputError
from table_writer.mirrors.mirror import MirroredFile, MirroredTable
from table_writer.model.column_figures import ColumnFigures, from_text
from table_writer.model.hive_columns import HIVE_NAMES
from table_writer.model.partition_value import canonical
from table_writer.model.table import NULL_PARTITION, Column, PartitionValues
from table_writer.storage.footers import Path

Merged = dict[int, dict[str, Any]]
"""The names of columns by their ids, and in each the same of what is inside it."""
PLAIN_TYPES: Final[Mapping[str, PrimitiveType]] = {
    **dict.fromkeys(("byte", "short", "integer"), IntegerType()),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
    "timestamp_ntz": TimestampType(),
}
IN_HIVE: Final[Mapping[type[PrimitiveType], str]] = {
    BinaryType: "binary",
    BooleanType: "boolean",
    DateType: "date",
    DoubleType: "double",
    FloatType: "float",
    IntegerType: "int",
    LongType: "bigint",
    StringType: "string",
    TimestampType: "timestamp",
    TimestamptzType: "timestamp",  # Hive 2 has no other
}
FIRST_EXTRA_ID: Final = 1_000_000_000  # of what is in files and no column of the table: no schema comes as far
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_DAY: Final = date(1970, 1, 1)
MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(slots=True)
class FieldIds:
    """The ids of all columns that a mirror has ever had, by their paths in lower case: one path keeps its id."""

    by_path: dict[Path, int] = field(default_factory=dict)
    last: int = 0

    @classmethod
    def of(cls, schemas: Iterable[Schema], last: int) -> FieldIds:
        """Read them from schemas, of which later ones count more."""
        ids = cls(last=last)
        for schema in schemas:
            ids._take(schema.as_struct(), ())
        return ids

    def _take(self, kind: IcebergType, above: Path) -> None:
        for inner in _fields_in(kind):
            path = (*above, inner.name.lower())
            self.by_path[path] = inner.field_id
            self._take(inner.field_type, path)

    def __getitem__(self, path: Path) -> int:
        if path not in self.by_path:
            self.last += 1
            self.by_path[path] = self.last
        return self.by_path[path]


def schema_of(table: MirroredTable, ids: FieldIds, schema_id: int = 0) -> Schema:
    """Return the columns of a table; each is optional, as in Hive."""
    for column in table.fields:  # as Iceberg numbers a new table: columns first, then what is in them
        ids[column["name"].lower(),]
    fields = []
    for column in table.fields:
        try:
            kind = _iceberg_type(column["type"], (column["name"].lower(),), ids)
        except ValueError as error:
            named = f"column {column['name']} of {table.name}"
            text = f"{named} cannot be mirrored: Iceberg's format version 2 has no type {error}"
            raise InvalidInputError(text, table=table.name) from error
        comment = column.get("metadata", {}).get("comment")
        fields.append(
            NestedField(ids[column["name"].lower(),], column["name"], kind, required=False, doc=comment or None)
        )
    _require_distinct(table, StructType(*fields))
    return Schema(*fields, schema_id=schema_id)


def _require_distinct(table: MirroredTable, columns: StructType) -> None:
    """Refuse what would have one name: Iceberg writes a field inside of a column as it writes a column with a dot."""
    if clash := first_clash(_paths_below(columns)):
        raise InvalidInputError(
            f"{table.name} has two columns or fields that are both {clash} in Iceberg, such as a column `a.b` beside"
            " field b of a column a: an Iceberg mirror cannot show them, a Delta mirror can",
            table=table.name,
        )


def first_clash(paths: Iterable[Path]) -> str:
    """Return the name that two different paths have; empty if there is none."""
    named: dict[str, Path] = {}
    for path in (tuple(map(str.lower, path)) for path in paths):
        if named.setdefault(".".join(path), path) != path:
            return ".".join(path)
    return ""


def _iceberg_type(kind: Any, path: Path, ids: FieldIds) -> IcebergType:
    if isinstance(kind, str):
        return _plain_type(kind)
    if kind["type"] == "struct":
        return StructType(*(_inner(found["name"], found["type"], path, ids) for found in kind["fields"]))
    if kind["type"] == "array":
        element = _inner("element", kind["elementType"], path, ids)
        return ListType(element_id=element.field_id, element_type=element.field_type, element_required=False)
    if kind["type"] == "map":
        key, value = _inner("key", kind["keyType"], path, ids), _inner("value", kind["valueType"], path, ids)
        return MapType(key.field_id, key.field_type, value.field_id, value.field_type, value_required=False)
    if kind["type"] == "udt":
        return _iceberg_type(kind["sqlType"], path, ids)
    raise ValueError(kind["type"])


def _plain_type(kind: str) -> PrimitiveType:
    if kind.startswith(("char(", "varchar(", "string collate ")):
        return StringType()
    if kind.startswith("decimal("):
        precision, _, scale = kind.removeprefix("decimal(").rstrip(")").partition(",")
        return DecimalType(int(precision), int(scale or 0))
    if kind not in PLAIN_TYPES:
        raise ValueError(kind)
    return PLAIN_TYPES[kind]


def _inner(name: str, kind: Any, above: Path, ids: FieldIds) -> NestedField:
    path = (*above, name.lower())
    return NestedField(ids[path], name, _iceberg_type(kind, path, ids), required=False)


def is_same_schema(one: Schema, other: Schema) -> bool:
    """Return whether two schemas are one, but for their numbers."""
    return bool(one.as_struct() == other.as_struct())


def name_mapping(table: MirroredTable, schemas: Sequence[Schema], paths: Iterable[Path] = (), mapped: str = "") -> str:
    """Return by which names files have the columns of all schemas: they carry no ids.

    Hive's readers do not look at the case of names; writers of files have spelled them as they liked. What ``paths``
    say of files, and what was ``mapped`` before, is no column of the table else: pyiceberg demands that it has an id,
    too. So has a column of a partition's name in a file, since partitions alone say what their values are.
    """
    ids = FieldIds.of(schemas, FIRST_EXTRA_ID)
    columns = [path for schema in schemas for path in _paths_below(schema.as_struct())]
    ids.by_path = {path: number for path, number in ids.by_path.items() if path[0] not in _partition_names(table)}
    root: Merged = {}
    named: dict[str, Path] = {}
    for path in (*_outer_first(columns), *_outer_first((*paths, *_paths_mapped(mapped)))):
        lower = tuple(map(str.lower, path))
        if named.setdefault(".".join(lower), lower) != lower:
            continue  # Iceberg's own library reads no table whose mapping has a name twice
        fields = root
        for depth in range(1, len(path) + 1):
            number = ids[tuple(map(str.lower, path[:depth]))]
            found = fields.setdefault(number, {"names": {}, "fields": {}})
            fields = found["fields"]
        found["names"] |= {path[-1]: None}
    return NameMapping(root=_mapped(root)).model_dump_json()


def _outer_first(paths: Iterable[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: (len(path), tuple(map(str.lower, path)), path))


def _partition_names(table: MirroredTable) -> frozenset[str]:
    return frozenset(name.lower() for name in table.partition_columns)


def _paths_below(kind: IcebergType, above: Path = ()) -> Iterator[Path]:
    """Yield the names of all columns as they are, and in lower case, each below those around it in lower case."""
    for inner in _fields_in(kind):
        yield from ((*above, name) for name in (inner.name, inner.name.lower()))
        yield from _paths_below(inner.field_type, (*above, inner.name.lower()))


def _paths_mapped(mapped: str) -> Iterator[Path]:
    """Yield the names in a mapping; nothing of one that cannot be read, which is made anew."""

    def below(fields: Iterable[MappedField], above: Path) -> Iterator[Path]:
        for found in fields:
            yield from ((*above, name) for name in found.names)
            yield from below(found.fields, (*above, found.names[0].lower()))

    try:
        yield from below(parse_mapping_from_json(mapped).root if mapped else (), ())
    except (ValueError, IndexError):
        return


def _mapped(merged: Merged) -> list[MappedField]:
    return [
        MappedField.model_validate(
            {"field-id": number, "names": list(found["names"]), "fields": _mapped(found["fields"])}
        )
        for number, found in merged.items()
    ]


def _fields_in(kind: IcebergType) -> tuple[NestedField, ...]:
    if isinstance(kind, StructType):
        return tuple(kind.fields)
    if isinstance(kind, ListType):
        return (kind.element_field,)
    return (kind.key_field, kind.value_field) if isinstance(kind, MapType) else ()


def hive_columns(schema: Schema) -> tuple[Column, ...]:
    """Return columns as a metastore describes a table of Iceberg's, which nobody reads by them."""
    return tuple(Column(found.name.lower(), _hive_type(found.field_type), found.doc or "") for found in schema.fields)


def _hive_type(kind: IcebergType) -> str:
    if isinstance(kind, StructType):
        return f"struct<{','.join(f'{inner.name}:{_hive_type(inner.field_type)}' for inner in kind.fields)}>"
    if isinstance(kind, ListType):
        return f"array<{_hive_type(kind.element_type)}>"
    if isinstance(kind, MapType):
        return f"map<{_hive_type(kind.key_type)},{_hive_type(kind.value_type)}>"
    if isinstance(kind, DecimalType):
        return f"decimal({kind.precision},{kind.scale})"
    return IN_HIVE.get(type(kind), "string") if isinstance(kind, PrimitiveType) else "string"


def spec_of(table: MirroredTable, schema: Schema) -> PartitionSpec:
    """Return the partitions of a table: by the values themselves.

    Refused are doubles: pyiceberg 0.12 reads them from manifests as floats, and would take two partitions for one.
    """
    for name in table.partition_columns:
        if isinstance(schema.find_field(name).field_type, DoubleType):
            raise InvalidInputError(
                f"{table.name} is partitioned by {name}, a double, which pyiceberg does not read exactly",
                table=table.name,
            )
    fields = [
        PartitionField(
            source_id=schema.find_field(name).field_id,
            field_id=PARTITION_FIELD_ID_START + number,
            transform=IdentityTransform(),
            name=name,
        )
        for number, name in enumerate(table.partition_columns)
    ]
    return PartitionSpec(*fields, spec_id=0)


def partition_record(values: PartitionValues, table: MirroredTable) -> Record:
    """Return a partition's values as Iceberg writes them; what is no value of its type is null, as for Hive's readers.

    A timestamp's text is read as a clock in UTC shows it.
    """
    fields = table.fields[len(table.fields) - len(values) :]
    pairs = zip(values, fields, strict=True)
    return Record(*(_partition_value(text, str(found["type"]), found["name"]) for text, found in pairs))


def _partition_value(text: str, kind: str, name: str) -> Any:
    hive = HIVE_NAMES.get(kind, kind)
    if text in {NULL_PARTITION, ""} or isinstance(_plain_type(kind), StringType):
        return None if text in {NULL_PARTITION, ""} else text
    if kind == "binary":
        return text.encode()
    (known,) = canonical((text,), (hive,), "UTC")
    try:
        return None if known == NULL_PARTITION else _value(known, kind)
    except ValueError as error:
        text = f"{name}={text!r} cannot be mirrored: no {hive} between the years 1 and 9999"
        raise InvalidInputError(text) from error


def _value(known: str, kind: str) -> Any:
    """Return a value of its canonical text."""
    if kind in {"byte", "short", "integer", "long"}:
        return int(known)
    if kind in {"float", "double"}:
        return float.fromhex(known.removeprefix("double "))
    if kind == "boolean":
        return known == "true"
    if kind == "date":
        return (date.fromisoformat(known) - FIRST_DAY).days
    if kind in {"timestamp", "timestamp_ntz"}:
        moment = datetime.fromisoformat(known)
        return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND
    return Decimal(known.removeprefix("decimal "))


def figures_of(file: MirroredFile, schema: Schema) -> dict[str, dict[int, Any]]:
    """Return what is known exactly of a file's columns, as a manifest has it."""
    known = {name.lower(): found for name, found in from_text(file.figures).items() if found.rows == file.rows}
    facts: dict[str, dict[int, Any]] = {
        "column_sizes": {},  # pyiceberg lists no entry without
        "value_counts": {},
        "null_value_counts": {},
        "lower_bounds": {},
        "upper_bounds": {},
    }
    for column in schema.fields:
        found = known.get(column.name.lower())
        if found is None:
            continue
        facts["value_counts"][column.field_id] = found.rows
        facts["null_value_counts"][column.field_id] = found.nulls
        bounds = _bounds(column.field_type, found)
        if bounds is not None:
            facts["lower_bounds"][column.field_id], facts["upper_bounds"][column.field_id] = bounds
    return facts


def _bounds(kind: IcebergType, figures: ColumnFigures) -> tuple[bytes, bytes] | None:
    """Return the least and the greatest value in Iceberg's bytes; none where they would not be exact."""
    if figures.low is None or figures.high is None or not isinstance(kind, PrimitiveType):
        return None
    try:
        low, high = (_bound(kind, bound) for bound in (figures.low, figures.high))
        return None if low is None or high is None else (to_bytes(kind, low), to_bytes(kind, high))
    except (ValueError, OverflowError, InvalidOperation, TypeError):
        return None


def _bound(kind: PrimitiveType, bound: float | str) -> Any:
    if isinstance(kind, IntegerType | LongType | DateType | TimestampType | TimestamptzType):
        return int(bound)
    if isinstance(kind, FloatType | DoubleType):
        return float(bound)
    if isinstance(kind, DecimalType):
        return Decimal(str(bound)).quantize(Decimal(1).scaleb(-kind.scale))
    return None
