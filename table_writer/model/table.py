"""A Hive table and its partitions as the metastore describes them, free of Thrift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from table_writer.errors import InvalidInputError

__all__ = ["Column", "Partition", "PartitionChange", "PartitionValues", "Table", "TableName"]

PartitionValues = tuple[str, ...]
"""The values of one partition in the order of the table's partition columns, as the metastore spells them."""


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """``database.name``, lower case as the metastore keeps it.

    Examples
    --------
    >>> str(TableName.parse("Mart.Orders"))
    'mart.orders'
    """

    database: str
    name: str

    @classmethod
    def parse(cls, text: str, *, default_database: str = "default") -> TableName:
        """Read ``name``, ``database.name`` or ``spark_catalog.database.name``; backquotes are allowed."""
        parts = [part.strip().strip("`") for part in text.split(".")] if isinstance(text, str) else []
        if len(parts) == 3 and parts[0].lower() in {"spark_catalog", "hive"}:
            parts = parts[1:]
        if len(parts) == 1:
            parts = [default_database, *parts]
        if len(parts) != 2 or not all(part.replace("_", "a").isalnum() for part in parts):
            raise InvalidInputError(f"{text!r} is not a table name; expected 'database.table'")
        return cls(parts[0].lower(), parts[1].lower())

    def __str__(self) -> str:
        """``database.name``."""
        return f"{self.database}.{self.name}"


@dataclass(frozen=True, slots=True)
class Column:
    """A column with its type in Hive's spelling, for example ``array<struct<a:int>>``."""

    name: str
    type: str
    comment: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """What the metastore says of a table at one moment.

    ``native`` is the gateway's own object. It travels along so that a later change sends back every field,
    also those that this library does not model.
    """

    name: TableName
    kind: str  # MANAGED_TABLE, EXTERNAL_TABLE, VIRTUAL_VIEW, MATERIALIZED_VIEW
    location: str
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...]
    parameters: Mapping[str, str] = field(default_factory=dict)
    input_format: str = ""
    output_format: str = ""
    serde: str = ""
    serde_parameters: Mapping[str, str] = field(default_factory=dict)
    bucket_columns: tuple[str, ...] = ()
    created_at_seconds: int = 0
    native: object = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Partition:
    """One partition: its values, where readers look, its parameters."""

    values: PartitionValues
    location: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    native: object = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionChange:
    """Point a freshly read partition at another location.

    Columns, SerDe and formats become the table's current ones. Of the parameters only those in ``set_parameters``
    and ``removed_parameters`` change.
    """

    partition: Partition
    location: str
    set_parameters: Mapping[str, str]
    removed_parameters: frozenset[str] = frozenset()
