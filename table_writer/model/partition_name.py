"""Partition names and directories, spelled as Spark and Hive spell them.

Source of the rules: Spark's ``ExternalCatalogUtils`` and Hive's ``FileUtils.escapePathName``, which agree.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from table_writer.errors import InvalidInputError
from table_writer.model.table import PartitionValues, Table

__all__ = [
    "NULL_PARTITION",
    "WHOLE_TABLE",
    "escape",
    "name_in",
    "partition_name",
    "partition_values",
    "shown_name",
    "unescape",
]

NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
"""How Hive spells a partition value that is null or an empty string."""

WHOLE_TABLE: Final = "(whole table)"
"""What people read for the one partition of an unpartitioned table, which has no name."""

ESCAPED: Final = {code: f"%{code:02X}" for code in (*range(0x01, 0x20), 0x7F, *map(ord, "\"#%'*/:=?\\{[]^"))}


def escape(value: str) -> str:
    """Escape one column name or value for a partition name.

    Examples
    --------
    >>> escape("a/b c:d%")
    'a%2Fb c%3Ad%25'
    """
    return value.translate(ESCAPED)


def unescape(text: str) -> str:
    """Undo :func:`escape`; a ``%`` that no two hex digits follow stays, as in Hive.

    Examples
    --------
    >>> unescape("a%2Fb c%3Ad%25 100%")
    'a/b c:d% 100%'
    """
    return re.sub("%([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), text)


def partition_name(columns: Sequence[str], values: PartitionValues) -> str:
    """Return ``dt=2024-01-01/country=de``: Hive's name of the partition, and its directory.

    Examples
    --------
    >>> partition_name(["dt", "country"], ("2024-01-01", NULL_PARTITION))
    'dt=2024-01-01/country=__HIVE_DEFAULT_PARTITION__'
    """
    if len(columns) != len(values):
        raise InvalidInputError(f"the table is partitioned by {list(columns)}; {list(values)} names no partition of it")
    return "/".join(f"{escape(column)}={escape(value)}" for column, value in zip(columns, values, strict=True))


def name_in(table: Table, values: PartitionValues) -> str:
    """Return Hive's name of a table's partition."""
    return partition_name([column.name for column in table.partition_columns], values)


def shown_name(table: Table, values: PartitionValues) -> str:
    """Return the name of a table's partition for people."""
    return name_in(table, values) or WHOLE_TABLE


def partition_values(name: str) -> PartitionValues:
    """Read the values out of a partition name.

    Examples
    --------
    >>> partition_values("dt=2024-01-01/path=a%2Fb")
    ('2024-01-01', 'a/b')
    """
    pairs = [part.partition("=") for part in name.split("/")]
    if not all(separator for _, separator, _ in pairs):
        raise InvalidInputError(f"{name!r} is not a partition name; expected column=value/column=value")
    return tuple(unescape(value) for _, _, value in pairs)
