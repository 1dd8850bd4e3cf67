"""The Hive metastore as the protocol needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from table_writer.model.table import Partition, PartitionChange, PartitionValues, Table, TableName

__all__ = ["Metastore", "nothing"]


def nothing() -> None:
    """Do nothing."""


class Metastore(Protocol):
    """What table_writer asks of a metastore; nothing here retries a call that changes something.

    Reads raise :class:`~table_writer.errors.MetastoreError`. A changing call has three outcomes:

    * it returns: done;
    * it raises a ``MetastoreError``: the call is over. It changed nothing, with one exception: a metastore whose own
      listener fails *after* the commit answers with an error as well. Reading back settles that for good;
    * it raises a ``LostResponseError``: unknown, and the server may still be about to apply it.

    Locations are returned as full URIs ending in ``/``, spelled as the metastore stores them (``file:/tmp/x/`` for
    ``file:///tmp/x/``): compare them by :class:`~table_writer.model.location.Location`. Given ones may end in ``/``.

    **A table without partition columns is its own single partition, of values** ``()``. It is read and altered as a
    partition is, by the same methods: its location and parameters are the table's. It exists as long as the table does
    and can be neither added nor dropped.
    """

    @property
    def uri(self) -> str:
        """The address used, for messages; no credentials."""

    def close(self) -> None:
        """Close the connection; a later call opens a new one."""

    def server_version(self) -> str:
        """Return the version of the metastore as far as it can be told without a change, else the empty string.

        A version number, from a single digit (``"3"``) to what a distribution calls its own (``"3.1.3000.7.2"``). Of
        Hive 2.3, ``"2.3.10"`` is the last release and ``"2.3"`` any before it. From it follows whether
        ``alter_table`` honours ``expected_parameter_key``: 2.3.10 and 4 do, earlier 2.3 and 3 ignore it silently.
        """

    def call_counts(self) -> Mapping[str, int]:
        """Return how many calls were sent so far, by Thrift method."""

    def get_table(self, name: TableName) -> Table | None:
        """Return the table, ``None`` when there is none."""

    def get_databases(self) -> Sequence[str]:
        """Return the names of all databases, in one call."""

    def get_tables(self, database: str) -> Iterable[Table]:
        """Read all tables and views of a database, in chunks as they are used; none when there is no such database."""

    def get_partition_names(self, name: TableName) -> Sequence[PartitionValues]:
        """Return the values of all partitions, decoded from Hive's escaped names; ``[()]`` of an unpartitioned table.

        Costs one call, and a second one where the first one's answer is empty: that the table is there.
        """

    def get_partitions(self, table: Table, values: Sequence[PartitionValues]) -> Mapping[PartitionValues, Partition]:
        """Read partitions by value, 250 a call; those that do not exist are absent from the answer.

        Of an unpartitioned table ``()`` is the table, freshly read. Where nothing is there the table is read again.

        Raises
        ------
        MetastoreError
            Also: the answer has other values than were asked for, since the metastore's database cannot keep these; or
            nothing is there, and the table is gone or another one than ``table``.
        """

    def get_all_partitions(self, table: Table) -> Mapping[PartitionValues, Partition]:
        """Read all partitions, their names first; one that vanishes in between is absent, a new one may be as well.

        What is not in the answer may be deleted, so it is of exactly this table, which is read again at last, and of
        every name that is listed. An unpartitioned table is read in one call.

        Raises
        ------
        MetastoreError
            Also: the table is gone, or was made again, or some of its partitions are listed and not returned.
        """

    def add_partitions(
        self, table: Table, partitions: Sequence[Partition], *, before_send: Callable[[], None] = nothing
    ) -> None:
        """Add all partitions with the table's columns and SerDe in ONE call, or none.

        ``before_send`` runs when nothing more can delay the request; what it raises keeps the request from being sent.

        Their parameters should hold ``numFiles`` and ``totalSize``: without both, a metastore lists each location.
        Values that are not ASCII are read back, since not every metastore's database keeps them.

        Raises
        ------
        InvalidInputError
            A partition appears twice, its values do not fit the table's partition columns, or there are none.
        PartitionExistsError
            One of them exists; nothing changed unless the server applied an earlier attempt of its own.
        MetastoreError
            Also: values were stored as others; the partitions were dropped again.
        """

    def alter_partitions(
        self, table: Table, changes: Sequence[PartitionChange], *, before_send: Callable[[], None] = nothing
    ) -> None:
        """Apply all changes in ONE call, or none.

        What was read is written back whole, so partitions must be freshly read. Only one that this process itself has
        just added may be given as it was added: there is nothing in it that the caller does not know.

        For an unpartitioned table the one change is a compare-and-set as far as the server has it: on
        ``table_writer.write_id``, or on ``transient_lastDdlTime`` while there is no write_id or it stays the same.
        Servers that ignore this (see :meth:`server_version`) let the later of two win. Spark's placeholder for a
        location stays, and only the SerDe parameter ``path`` moves.

        Raises
        ------
        InvalidInputError
            A partition appears twice, or its values do not fit the table's partition columns.
        PartitionMissingError
            One of them does not exist; nothing changed.
        MetastoreError
            Also: an unpartitioned table was changed since it was read, or is gone; nothing changed.
        """

    def drop_partition(
        self, table: Table, values: PartitionValues, *, before_send: Callable[[], None] = nothing
    ) -> None:
        """Drop one partition from the metastore, leaving its data; one that does not exist is no error.

        Raises
        ------
        InvalidInputError
            The values do not fit the table's partition columns, or there are none.
        """
