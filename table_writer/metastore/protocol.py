"""The Hive metastore as the protocol needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from table_writer.model.table import Partition, PartitionChange, PartitionValues, Table, TableName

__all__ = ["Metastore"]


class Metastore(Protocol):
    """What table_writer asks of a metastore; nothing here retries a call that changes something.

    Reads raise :class:`~table_writer.errors.MetastoreError`. A changing call has three outcomes: it returns (done),
    raises a ``MetastoreError`` (not done), or raises a ``LostResponseError`` (unknown).
    Locations are given and returned as full URIs ending in ``/``.
    """

    @property
    def uri(self) -> str:
        """The address used, for messages; no credentials."""

    def call_counts(self) -> Mapping[str, int]:
        """Return how many calls were sent so far, by Thrift method."""

    def get_table(self, name: TableName) -> Table | None:
        """Return the table, ``None`` when there is none."""

    def get_tables(self, database: str) -> Sequence[Table]:
        """Return all tables of a database, in chunks."""

    def get_partition_names(self, name: TableName) -> Sequence[PartitionValues]:
        """Return the values of all partitions, decoded from Hive's escaped names."""

    def get_partitions(self, table: Table, values: Sequence[PartitionValues]) -> Mapping[PartitionValues, Partition]:
        """Read partitions by value, 250 a call; those that do not exist are absent from the answer."""

    def add_partitions(self, table: Table, partitions: Sequence[Partition]) -> None:
        """Add all partitions with the table's columns and SerDe in ONE call, or none.

        Raises
        ------
        PartitionExistsError
            One of them exists; nothing changed unless the server applied an earlier attempt of its own.
        """

    def alter_partitions(self, table: Table, changes: Sequence[PartitionChange]) -> None:
        """Apply all changes in ONE call, or none.

        Raises
        ------
        PartitionMissingError
            One of them does not exist; nothing changed.
        """

    def drop_partition(self, table: Table, values: PartitionValues) -> None:
        """Drop one partition from the metastore, leaving its data; one that does not exist is no error."""
