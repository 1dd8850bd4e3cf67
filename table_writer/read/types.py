"""A table's columns as pyarrow's types, from what the metastore holds: types in Hive's spelling, or Spark's own JSON.

Spark keeps a schema beside Hive's columns, with the case of names and types that Hive does not know. Which of the two
counts is Spark's rule, as in ``jobs/plan/types.py``, which asks Spark to read the same texts.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

import pyarrow as pa

from table_writer.errors import InvalidInputError
from table_writer.model.column_statistics import CHAR_VARCHAR, EXISTS_DEFAULT
from table_writer.model.partition_value import canonical
from table_writer.model.table import NULL_PARTITION, Table

SIMPLE: Final[Mapping[str, Any]] = {
    **{name: pa.int8() for name in ("tinyint", "byte")},
    **{name: pa.int16() for name in ("smallint", "short")},
    **{name: pa.int32() for name in ("int", "integer")},
    **{name: pa.int64() for name in ("bigint", "long")},
    **{name: pa.float32() for name in ("float", "real")},
    **{name: pa.float64() for name in ("double", "double precision")},
    **{name: pa.string() for name in ("string", "char", "varchar")},
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),  # an instant
    "timestamp_ltz": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),  # what a clock on the wall shows
    "decimal": pa.decimal128(10, 0),
}
TOKEN: Final = re.compile(r"[<>:,]|[^<>:,(]+(?:\([^)]*\))?")
PARTITION_TYPES: Final = {  # as model/partition_value.py calls them
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
    pa.binary(): "string",
}

LITERALS: Final = tuple(
    map(
        functools.partial(re.compile, flags=re.IGNORECASE | re.DOTALL),
        (
            r"(?P<null>NULL|CAST\(NULL AS .+\))(?P<text>)?(?P<plain>)?",
            r"(?:DATE |TIMESTAMP_NTZ |X)?'(?P<text>(?:[^'\\]|\\.)*)'(?P<null>)?(?P<plain>)?",
            r"CAST\('(?P<text>[^'\\]*)' AS (?:FLOAT|DOUBLE)\)(?P<null>)?(?P<plain>)?",
            r"(?P<plain>TRUE|FALSE|-?[0-9.]+(?:E[+-]?\d+)?)(?:Y|S|L|D|BD)?(?P<null>)?(?P<text>)?",
        ),
    )
)
"""Literals as Spark spells them. A ``TIMESTAMP`` is meant in the zone of the session that reads it."""

OF_LITERALS: Final[Sequence[tuple[Callable[[Any], bool], Callable[[str], Any]]]] = (
    (pa.types.is_string, str),
    (pa.types.is_binary, bytes.fromhex),
    (pa.types.is_boolean, lambda text: text.lower() == "true"),
    (pa.types.is_floating, float),
    (pa.types.is_decimal, Decimal),
    (pa.types.is_integer, int),
    (pa.types.is_date, date.fromisoformat),
    (pa.types.is_timestamp, datetime.fromisoformat),
)

PARSERS: Final[Sequence[tuple[Callable[[Any], bool], Callable[[str], Any]]]] = (
    (pa.types.is_integer, int),
    (pa.types.is_floating, float.fromhex),
    (pa.types.is_decimal, Decimal),
    (pa.types.is_boolean, "true".__eq__),
    (pa.types.is_date, date.fromisoformat),
    (pa.types.is_timestamp, datetime.fromisoformat),
    (pa.types.is_binary, str.encode),
)


def arrow_schema(table: Table, *, has_instants: bool = True) -> Any:
    """Return data columns followed by partition columns, with the case that Spark gives their names.

    A ``TIMESTAMP`` is an instant (``timestamp[us, UTC]``) where ``has_instants``: ORC keeps what the clock of the
    writer's machine showed. As a partition column it is what its text says (``timestamp[us]``): in which zone that is
    meant, only the session that wrote it knew.

    Raises
    ------
    InvalidInputError
        A column has a type that pyarrow does not read.
    """
    try:
        schema = _schema(table)
    except (KeyError, ValueError, IndexError) as error:
        raise InvalidInputError(
            f"{table.name} cannot be read without Spark: pyarrow has no type for {error}", table=str(table.name)
        ) from error
    last = {column.name.lower() for column in table.partition_columns}
    keeps_zone = [has_instants and field.name.lower() not in last for field in schema]
    return pa.schema(
        [
            field if keeps else field.with_type(_without_zones(field.type))
            for field, keeps in zip(schema, keeps_zone, strict=True)
        ]
    )


def sparks_fields(table: Table) -> Sequence[Mapping[str, Any]]:
    """Return the columns as Spark's own JSON describes them; none where Hive's columns count."""
    described = _sparks_schema(table.parameters)
    if described is None or not _is_sparks(table, list(_of_json(described))):
        return ()
    fields: Sequence[Mapping[str, Any]] = described["fields"]
    return fields


class Default(NamedTuple):
    """The value that Spark reads of a column which a file lacks, since it was added later: a literal of SQL."""

    sql: str
    char_length: int = 0  # of char(n), which is padded there, as everywhere

    def value(self, kind: Any) -> Any:
        """Return it as a scalar of a type; ``None`` is null.

        Raises ``ValueError`` for one that means another value in another session, or is of several values.
        """
        found = next(filter(None, (pattern.fullmatch(self.sql.strip()) for pattern in LITERALS)), None)
        parse = next((parse for is_one, parse in OF_LITERALS if is_one(kind)), None)
        if found is None or parse is None or (pa.types.is_timestamp(kind) and kind.tz is not None):
            raise ValueError("only Spark can tell what that is")
        if found["null"]:
            return None
        text = found["plain"] or re.sub(r"\\(.)", r"\1", found["text"], flags=re.DOTALL)
        value = parse(text.ljust(self.char_length))
        if value != value:  # noqa: PLR0124  # NaN, of which no file can be said to have it everywhere
            raise ValueError("only Spark can tell what that is")
        return pa.scalar(value, kind)


def existing_defaults(table: Table) -> dict[str, Default]:
    """Return the values that Spark reads of columns which a file lacks, by their names."""
    found = {}
    for field in sparks_fields(table):
        said = field.get("metadata", {})
        char = re.fullmatch(r"char\((\d+)\)", said.get(CHAR_VARCHAR, ""))
        if EXISTS_DEFAULT in said:
            found[field["name"]] = Default(said[EXISTS_DEFAULT], int(char[1]) if char else 0)
    return found


def partition_value(text: str, kind: Any, hive_type: str) -> Any:
    """Return the value that Spark makes of a partition's text, as Python has it; ``None`` for null.

    Raises ``InvalidInputError`` for one that Python cannot hold, such as a date of the year 10000.
    """
    name = f"decimal({kind.precision},{kind.scale})" if pa.types.is_decimal(kind) else PARTITION_TYPES.get(kind)
    (found,) = canonical((text,), (name or hive_type,))  # hive_type: string, or char(n), which is padded
    if found == NULL_PARTITION:
        return None
    plain = found.removeprefix("decimal ").removeprefix("double ") if name else found
    try:
        return _parsed_value(plain, kind)
    except ValueError as error:
        raise InvalidInputError(f"the partition value {text!r} is no {kind} that Python can hold") from error


def _parsed_value(text: str, kind: Any) -> Any:
    parse = next((parse for is_one, parse in PARSERS if is_one(kind)), str)
    return parse(text)


def _schema(table: Table) -> list[Any]:
    described = _sparks_schema(table.parameters)
    stored = [] if described is None else list(_of_json(described))
    partition_names = [column.name.lower() for column in table.partition_columns]
    if described is None or not _is_sparks(table, stored):
        return _hives_fields(table)
    by_name = {field.name.lower(): field for field in stored}
    data = [field for field in stored if field.name.lower() not in partition_names]
    return [*data, *(by_name[name] for name in partition_names)]


def _is_sparks(table: Table, stored: list[Any]) -> bool:
    """Return whether the columns that Spark has stored count, and not Hive's."""
    return "spark.sql.sources.provider" in table.parameters or _are_alike(stored, _hives_fields(table))


def _hives_fields(table: Table) -> list[Any]:
    return [pa.field(column.name, _of_text(column.type)) for column in (*table.columns, *table.partition_columns)]


def _sparks_schema(parameters: Mapping[str, str]) -> Any:
    text = parameters.get("spark.sql.sources.schema")
    if text is None and "spark.sql.sources.schema.numParts" in parameters:
        count = int(parameters["spark.sql.sources.schema.numParts"])
        text = "".join(parameters[f"spark.sql.sources.schema.part.{index}"] for index in range(count))
    return None if text is None else json.loads(text)


def _are_alike(stored: list[Any], hives: list[Any]) -> bool:
    """Return whether Hive's columns are still those that Spark has stored: another tool may have changed them since."""

    def plain(fields: list[Any]) -> dict[str, str]:
        return {field.name.lower(): str(field.type).lower() for field in fields}

    return plain(stored) == plain(hives)


def _without_zones(kind: Any) -> Any:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_zones(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_without_zones(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_without_zones(kind.key_type), _without_zones(kind.item_type))
    return pa.timestamp("us") if pa.types.is_timestamp(kind) else kind


def _of_json(described: Any) -> Any:
    """Read a type as Spark's JSON has it."""
    if isinstance(described, str):
        return _simple(described)
    kind = described["type"]
    if kind == "struct":
        return pa.struct([pa.field(field["name"], _of_json(field["type"])) for field in described["fields"]])
    if kind == "array":
        return pa.list_(_of_json(described["elementType"]))
    if kind == "map":
        return pa.map_(_of_json(described["keyType"]), _of_json(described["valueType"]))
    return _of_json(described["sqlType"])  # a user's own type, kept as this one


def _of_text(text: str) -> Any:
    """Read a type in Hive's spelling, such as ``array<struct<a:int,b:decimal(10,2)>>``."""
    tokens = TOKEN.findall(text)
    found = _next_type(tokens)
    if tokens:
        raise ValueError(text)
    return found


def _next_type(tokens: list[str]) -> Any:
    name = tokens.pop(0).strip().lower()
    if not tokens or tokens[0] != "<":
        return _simple(name)
    inner = []
    while tokens.pop(0) in "<,":
        label = ""
        if name == "struct":
            label, _ = tokens.pop(0), tokens.pop(0)
        inner.append(pa.field(label, _next_type(tokens)))
    if name == "struct":
        return pa.struct(inner)
    types = [field.type for field in inner]
    return {"array": pa.list_, "map": pa.map_}[name](*types)


def _simple(text: str) -> Any:
    name, _, sizes = text.strip().rstrip(")").partition("(")
    if name == "decimal" and sizes:
        return pa.decimal128(*map(int, sizes.split(",")))
    return SIMPLE[name.split(" collate ")[0].strip()]
