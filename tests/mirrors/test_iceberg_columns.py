"""What a table's columns and values are in Iceberg: types with all that is inside them, and texts of partitions."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import pytest
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.types import DecimalType, IntegerType, ListType, LongType, MapType, NestedField, StringType, StructType

from table_writer.errors import InvalidInputError
from table_writer.mirrors.iceberg.columns import (
    FIRST_EXTRA_ID,
    FieldIds,
    hive_columns,
    name_mapping,
    partition_record,
    schema_of,
    spec_of,
)
from table_writer.mirrors.iceberg.files import MetadataFiles
from table_writer.mirrors.mirror import MirroredTable
from table_writer.model.table import NULL_PARTITION

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
CITY: Final = {"type": "struct", "fields": [{"name": "City", "type": "string"}, {"name": "zip", "type": "integer"}]}
LONGS: Final = {"type": "array", "elementType": "long"}
FIELDS: Final = (
    {"name": "Person", "type": CITY, "metadata": {"comment": "who"}},
    {"name": "tags", "type": {"type": "array", "elementType": {"type": "udt", "sqlType": "decimal(9,2)"}}},
    {"name": "counts", "type": {"type": "map", "keyType": "string", "valueType": LONGS}},
)


def table_with(*fields: dict[str, Any], by: tuple[str, ...] = ()) -> MirroredTable:
    return MirroredTable(name="mart.orders", fields=fields, partition_columns=by, log_id="l", columns_by="c")


def optional(number: int, name: str, kind: Any, doc: str | None = None) -> NestedField:
    return NestedField(number, name, kind, required=False, doc=doc)


def test_columns_get_numbers_first_then_what_is_in_them() -> None:
    ids = FieldIds()
    schema = schema_of(table_with(*FIELDS), ids, 7)
    inside = StructType(optional(4, "City", StringType()), optional(5, "zip", IntegerType()))
    tags = ListType(element_id=6, element_type=DecimalType(9, 2), element_required=False)
    longs = ListType(element_id=9, element_type=LongType(), element_required=False)
    counts = MapType(7, StringType(), 8, longs, value_required=False)
    assert schema.fields == (
        optional(1, "Person", inside, "who"),
        optional(2, "tags", tags),
        optional(3, "counts", counts),
    )
    assert (schema.schema_id, ids.last) == (7, 9)
    again = FieldIds.of([schema], ids.last)
    assert again == ids
    assert schema_of(table_with(*FIELDS[::-1]), again).fields == schema.fields[::-1]
    assert again.last == 9


def test_a_metastore_describes_the_same_columns() -> None:
    described = hive_columns(schema_of(table_with(*FIELDS), FieldIds()))
    assert [(column.name, column.type, column.comment) for column in described] == [
        ("person", "struct<City:string,zip:int>", "who"),
        ("tags", "array<decimal(9,2)>", ""),
        ("counts", "map<string,array<bigint>>", ""),
    ]


@pytest.mark.parametrize("kind", ["interval day to second", {"type": "array", "elementType": "void"}, "variant"])
def test_a_type_that_iceberg_has_not_is_refused_by_name(kind: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"column odd of mart\.orders cannot be mirrored: .* has no type"):
        schema_of(table_with({"name": "odd", "type": kind}), FieldIds())


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("byte", "7", 7),
        ("short", "007", 7),
        ("integer", "-7", -7),
        ("long", "9000000000", 9_000_000_000),
        ("integer", "seven", None),
        ("float", "0.5", 0.5),
        ("double", "-2.5e0", -2.5),
        ("boolean", "TRUE", True),
        ("boolean", "false", False),
        ("date", "2024-02-29", (date(2024, 2, 29) - EPOCH.date()).days),
        ("date", "1969-12-31", -1),
        ("timestamp", "1970-01-01 00:00:01.5", 1_500_000),
        ("timestamp_ntz", "1969-12-31 23:59:59", -1_000_000),
        ("decimal(9,2)", "12.5", Decimal("12.50")),
        ("string", "d 1/x", "d 1/x"),
        ("string", "", None),
        ("string", NULL_PARTITION, None),
        ("integer", NULL_PARTITION, None),
        ("varchar(3)", "abc", "abc"),
        ("binary", "é", "é".encode()),
    ],
)
def test_the_text_of_a_partition_is_the_value_that_readers_see(kind: str, text: str, value: object) -> None:
    table = table_with({"name": "id", "type": "long"}, {"name": "p", "type": kind}, by=("p",))
    (found,) = partition_record((text,), table)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["+10000-01-01", "-0001-01-01"])
def test_a_date_that_iceberg_cannot_hold_is_refused(text: str) -> None:
    table = table_with({"name": "id", "type": "long"}, {"name": "p", "type": "date"}, by=("p",))
    with pytest.raises(InvalidInputError, match="no date between the years 1 and 9999"):
        partition_record((text,), table)


def test_partitions_are_those_of_the_values_themselves() -> None:
    table = table_with(
        {"name": "id", "type": "long"}, {"name": "d", "type": "date"}, {"name": "h", "type": "integer"}, by=("d", "h")
    )
    spec = spec_of(table, schema_of(table, FieldIds()))
    assert [(one.source_id, one.field_id, one.name, str(one.transform)) for one in spec.fields] == [
        (2, 1000, "d", "identity"),
        (3, 1001, "h", "identity"),
    ]
    assert spec.spec_id == 0
    by_double = table_with({"name": "x", "type": "double"}, by=("x",))
    with pytest.raises(InvalidInputError, match="partitioned by x, a double"):
        spec_of(by_double, schema_of(by_double, FieldIds()))


def test_what_a_file_has_under_a_partitions_name_is_no_column_of_the_table() -> None:
    """Partitions alone say what their values are, so the mapping must not give the file's column that number."""
    table = table_with({"name": "id", "type": "long"}, {"name": "Dt", "type": "string"}, by=("Dt",))
    schema = schema_of(table, FieldIds())
    mapped = NameMapping.model_validate_json(name_mapping(table, [schema], [("ID",), ("dt",), ("other",)]))
    numbers = {name: found.field_id for found in mapped.root for name in found.names}
    assert numbers["id"] == numbers["ID"] == 1
    assert {numbers["dt"], numbers["other"]} == {FIRST_EXTRA_ID + 1, FIRST_EXTRA_ID + 2}
    again = name_mapping(table, [schema], mapped=mapped.model_dump_json())
    assert NameMapping.model_validate_json(again) == mapped


@pytest.mark.parametrize(
    ("name", "number"),
    [("00007-9c.metadata.json", 7), ("00012-a-b.metadata.json", 12), ("v3.metadata.json", 0), ("x-1.metadata.json", 0)],
)
def test_a_file_of_metadata_says_its_number(name: str, number: int) -> None:
    files = object.__new__(MetadataFiles)
    assert files.number_of(f"s3://lake/mart/orders/_iceberg/metadata/{name}") == number
