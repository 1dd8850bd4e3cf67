"""How a partition's own description differs from its table's. No I/O, no Thrift types."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from table_writer.model.table import Column

__all__ = ["differences"]

READERS_IGNORE: Final = frozenset(
    {
        "path",  # Spark repeats the table's location here
        "compression",  # these are for writers: a file says itself how it is compressed
        "parquet.compression",
        "orc.compress",
    }
)
COLUMNAR: Final = ("ParquetHiveSerDe", "OrcSerde")
"""For these Hive sets ``serialization.format`` to 1 and nobody reads it; for text it can be the delimiter."""

MAX_NAMED: Final = 3  # a table of 1,000 columns must not become a message of 1,000 lines

NAME_AND_TYPE: Final = attrgetter("name", "type")


def differences(storage: Any, described: Any, columns: Sequence[Column]) -> str:
    """Say how one ``StorageDescriptor`` differs from the table's; empty when files of both are read alike.

    Parameters
    ----------
    storage
        The partition's.
    described
        The table's.
    columns
        The table's columns.

    Notes
    -----
    The output format is left out: it makes files and reads none. Of columns only those count that the table does not
    have, or has with another type: Parquet and ORC find columns by name, and one that is missing is null.
    """
    if _same_serde(storage.serdeInfo, described.serdeInfo):
        columnar = str(storage.serdeInfo.serializationLib).endswith(COLUMNAR)
        ignored = READERS_IGNORE | {"serialization.format"} if columnar else READERS_IGNORE
        found = _parameters(storage.serdeInfo.parameters or {}, described.serdeInfo.parameters or {}, ignored)
    else:
        found = [f"is stored as {storage.serdeInfo.serializationLib}"]
    if storage.inputFormat != described.inputFormat:
        found.append(f"is read by {storage.inputFormat}, the table by {described.inputFormat}")
    # 5,000 partitions of 100 columns: equal lists are the rule, and comparing them is all that happens then
    if list(map(NAME_AND_TYPE, storage.cols)) != list(map(NAME_AND_TYPE, columns)):
        found += _columns(storage.cols, columns)
    rest = len(found) - MAX_NAMED
    return "; ".join(found[:MAX_NAMED]) + (f"; and {rest} more differences" if rest > 0 else "")


def _same_serde(one: Any, other: Any) -> bool:
    return bool(one.serializationLib == other.serializationLib)


def _parameters(theirs: Mapping[str, str], tables: Mapping[str, str], ignored: Collection[str]) -> list[str]:
    """Name the SerDe parameters that are others; their values may be secret and stay out of messages."""
    names = sorted(theirs.keys() | tables.keys()) if theirs != tables else []
    return [
        f"has another SerDe parameter {name} than the table"
        for name in names
        if theirs.get(name) != tables.get(name) and name.lower() not in ignored
    ]


def _columns(theirs: Sequence[Any], tables: Sequence[Column]) -> list[str]:
    types = {column.name.lower(): column.type for column in tables}
    found = []
    for column in theirs:
        type_in_table = types.get(column.name.lower())
        if type_in_table is None:
            found.append(f"has column {column.name}, which the table does not have")
        elif type_in_table.lower() != column.type.lower():
            found.append(f"has column {column.name} as {column.type}, the table as {type_in_table}")
    return found
