"""Arrow types as Spark sends them, as ORC columns like those of Spark's own files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa

from table_writer.errors import InvalidInputError
from table_writer.upload.orc_wire import Message, encode, packed

__all__ = ["OrcColumn", "orc_columns"]

ROOT: Final = "root"
CATALYST_TYPE: Final = b"spark.sql.catalyst.type"
KINDS: Final = {
    "bool": 0,
    "int8": 1,
    "int16": 2,
    "int32": 3,
    "int64": 4,
    "float": 5,
    "double": 6,
    "string": 7,
    "binary": 8,
    "date32[day]": 15,
}
TIMESTAMP, LIST, MAP, STRUCT, DECIMAL = 9, 10, 11, 12, 14


class OrcColumn(NamedTuple):
    """One column of a file, or one inside another: its ORC type, and which columns of Arrow's hold it."""

    type_message: bytes
    arrow_id: int
    fraction_id: int | None = None


def orc_columns(schema: Any) -> list[OrcColumn]:
    """Return all columns of a file in ORC's order: the row itself, then each column before those inside of it.

    Raises
    ------
    InvalidInputError
        A column has a type that cannot be written so that Spark reads back what was written.
    """
    return list(_columns(pa.struct(list(schema)), _Count(), _Count(), ROOT))


class _Count:
    """Gives out numbers from 0."""

    def __init__(self) -> None:
        self.value = 0

    def next(self) -> int:
        self.value += 1
        return self.value - 1


def _columns(kind: Any, orc_ids: _Count, arrow_ids: _Count, name: str) -> Iterator[OrcColumn]:
    orc_ids.next()
    arrow_id = arrow_ids.next()
    types = pa.types
    if types.is_timestamp(kind) and kind.tz is not None:
        arrow_ids.next()
        yield OrcColumn(encode([(1, TIMESTAMP), _spark_type("timestamp")]), arrow_id + 1, arrow_ids.next())
        return
    children = _children(kind)
    inside: list[OrcColumn] = []
    subtypes = []
    for child_name, child in children:
        subtypes.append(orc_ids.value)
        inside.extend(_columns(child, orc_ids, arrow_ids, child_name if name == ROOT else name))
    yield OrcColumn(encode(_type_message(kind, subtypes, children, name)), arrow_id)
    yield from inside


def _children(kind: Any) -> list[tuple[str, Any]]:
    types = pa.types
    if types.is_struct(kind):
        return [(field.name, field.type) for field in kind]
    if types.is_map(kind):
        return [("key", kind.key_type), ("value", kind.item_type)]
    if types.is_list(kind) or types.is_large_list(kind):
        return [("element", kind.value_type)]
    return []


def _type_message(kind: Any, subtypes: list[int], children: list[tuple[str, Any]], name: str) -> Message:
    types = pa.types
    message: Message
    if types.is_struct(kind):
        _require_readable([child for child, _ in children])
        return [(1, STRUCT), (2, packed(subtypes)), *((3, child.encode()) for child, _ in children)]
    if types.is_map(kind):
        return [(1, MAP), (2, packed(subtypes))]
    if types.is_list(kind) or types.is_large_list(kind):
        return [(1, LIST), (2, packed(subtypes))]
    if types.is_decimal(kind):
        return [(1, DECIMAL), (5, kind.precision), (6, kind.scale)]
    if types.is_timestamp(kind):
        return [(1, KINDS["int64"]), _spark_type("timestamp_ntz")]
    spelled = str(kind).removeprefix("large_")
    if spelled not in KINDS:
        raise InvalidInputError(
            f"column {name!r} has type {kind}, which cannot be written to ORC without Spark: cast it, or write with"
            ' engine="spark"'
        )
    message = [(1, KINDS[spelled])]
    return [*message, _spark_type("string")] if spelled == "string" else message


def _require_readable(names: list[str]) -> None:
    quoted = [name for name in names if name.endswith("`")]
    if quoted:
        raise InvalidInputError(
            f"column {quoted[0]!r} ends in a backquote: Java cannot read an ORC file of it; rename the column"
        )


def _spark_type(name: str) -> tuple[int, bytes]:
    """Return the attribute by which Spark knows its own type again."""
    return 7, encode([(1, CATALYST_TYPE), (2, name.encode())])
