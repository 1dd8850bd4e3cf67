"""Spark's types: what is inside of them, and how they, names and texts are spelled for its parser.

All text that goes to Spark's parser spells a type by :func:`type_sql`, or with what is beside it by :func:`cast_sql`
and :func:`column_sql`. Spark's own ``simpleString`` is for people: names of fields are not quoted there, and
``timestamp`` means to the parser what ``spark.sql.timestampType`` says at that moment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    MapType,
    StructField,
    StructType,
    TimestampType,
    UserDefinedType,
    VarcharType,
    _parse_datatype_string,
)

from table_writer.model.column_statistics import CHAR_VARCHAR, CURRENT_DEFAULT
from table_writer.model.table import quoted

LIMITED: Final = (CharType, VarcharType)
HIVES_WORDS: Final = re.compile(
    r"(?P<quoted>`(?:[^`]|``)*`)|(?P<before>struct<|,)(?P<name>[^,<:`]+)(?=:)|\btimestamp\b", re.IGNORECASE
)


def literal(text: str) -> str:
    """Quote a text; ``${`` is escaped too, since Spark puts variables into a statement before it reads it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
    return f"'{escaped}'"


def type_sql(kind: DataType) -> str:
    """Spell a type for Spark's parser, with all that is said of its fields; it means the same in every session.

    Examples
    --------
    >>> type_sql(StructType().add("paid at", TimestampType(), nullable=False))
    'struct<`paid at`: timestamp_ltz NOT NULL>'
    """
    if isinstance(kind, StructType):
        return f"struct<{', '.join(column_sql(field, ': ') for field in kind)}>"
    if isinstance(kind, ArrayType):
        return f"array<{type_sql(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{type_sql(kind.keyType)},{type_sql(kind.valueType)}>"
    if isinstance(kind, UserDefinedType):  # for which SQL has no name
        return type_sql(kind.sqlType())
    return "timestamp_ltz" if isinstance(kind, TimestampType) else kind.simpleString()


def column_sql(field: StructField, between: str = " ") -> str:
    """Spell a column, or a field of a struct, with what stands between its name and its type."""
    metadata = field.metadata
    clauses = (
        f"{quoted(field.name)}{between}{type_sql(field.dataType)}",
        "" if field.nullable else "NOT NULL",
        f"DEFAULT {metadata[CURRENT_DEFAULT]}" if CURRENT_DEFAULT in metadata else "",
        f"COMMENT {literal(metadata['comment'])}" if "comment" in metadata else "",
    )
    return " ".join(filter(None, clauses))


def cast_sql(value: str, kind: DataType, function: str = "CAST") -> str:
    """Spell a conversion of what is SQL already; ``function`` may be ``try_cast``.

    Examples
    --------
    >>> cast_sql(quoted("seen at"), TimestampType())
    'CAST(`seen at` AS timestamp_ltz)'
    """
    return f"{function}({value} AS {type_sql(kind)})"


def shown_type(kind: DataType) -> str:
    """Spell a type for people, and for comparisons of such texts; Spark's parser may read another one in it."""
    return str(kind.simpleString())


def type_of_ddl(ddl: str) -> DataType:
    """Read a type, or the columns of a schema, as this session does; ``PySparkException`` for what is neither."""
    return _parse_datatype_string(ddl)


def type_of_hive(text: str) -> DataType:
    """Read a type in Hive's spelling, as Spark's catalog does: names are not quoted, a timestamp is an instant."""

    def spelled(found: re.Match[str]) -> str:
        if found["quoted"]:
            return found[0]
        return f"{found['before']}{quoted(found['name'])}" if found["name"] else "timestamp_ltz"

    return type_of_ddl(HIVES_WORDS.sub(spelled, text))


PLAIN_LIMIT: Final = re.compile(r"(char|varchar)\((\d+)\)", re.IGNORECASE)


def exact_type(field: StructField) -> DataType:
    """Return a column's type with ``char(n)`` and ``varchar(n)`` in their places; Spark keeps them as metadata."""
    declared = field.metadata.get(CHAR_VARCHAR)
    if declared and (plain := PLAIN_LIMIT.fullmatch(declared)):  # without Java, as almost all are
        return (CharType if plain[1].lower() == "char" else VarcharType)(int(plain[2]))
    return field.dataType if declared is None else _with_limits(field.dataType, type_of_hive(declared))


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
    return declared if isinstance(declared, LIMITED) else kind


def all_types(kind: DataType) -> Iterator[DataType]:
    """Yield a type and every type inside it, itself first."""
    yield kind
    inside: list[DataType] = []
    if isinstance(kind, StructType):
        inside = [field.dataType for field in kind]
    elif isinstance(kind, ArrayType):
        inside = [kind.elementType]
    elif isinstance(kind, MapType):
        inside = [kind.keyType, kind.valueType]
    for inner in inside:
        yield from all_types(inner)


def rebuilt(kind: DataType, leaf: Callable[[DataType], DataType] = lambda kind: kind, *, nullable: bool = False) -> Any:
    """Return a type with others in place of its leaves; with ``nullable`` all that is inside may be null."""

    def inner(part: DataType) -> DataType:
        return rebuilt(part, leaf, nullable=nullable)  # type: ignore[no-any-return]

    if isinstance(kind, StructType):
        fields = (StructField(f.name, inner(f.dataType), nullable or f.nullable, f.metadata) for f in kind)
        return StructType(list(fields))
    if isinstance(kind, ArrayType):
        return ArrayType(inner(kind.elementType), nullable or kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(inner(kind.keyType), inner(kind.valueType), nullable or kind.valueContainsNull)
    return leaf(kind)
