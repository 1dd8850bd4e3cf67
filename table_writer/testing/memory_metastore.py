"""A metastore in memory with the real one's manners: all or nothing, one caller at a time, failures on request."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from table_writer.errors import MetastoreError, PartitionExistsError, PartitionMissingError
from table_writer.metastore.protocol import nothing
from table_writer.metastore.validation import validate_additions, validate_changes, validate_values
from table_writer.model.table import Partition, PartitionChange, PartitionValues, Table, TableName

__all__ = ["MemoryMetastore"]

NATIVE: Final = "memory"  # marks what was read from here, as Thrift's objects mark what was read from Hive
PARTITION_BATCH: Final = 250


class MemoryMetastore:
    """A :class:`~table_writer.metastore.protocol.Metastore` for tests.

    Parameters
    ----------
    on_call
        Called as ``on_call(method, phase)`` around each call, with the protocol's method name and the phase:
        ``"before"`` or ``"after"``. What it raises reaches the caller: before, nothing has changed; after, the
        change is made (raise a ``LostResponseError`` for a lost answer). It may use the metastore itself, as another
        process would. Can be set later.

    Examples
    --------
    >>> from table_writer.model.table import Column
    >>> metastore = MemoryMetastore()
    >>> orders = metastore.create_table(
    ...     Table(name=TableName("mart", "orders"), kind="EXTERNAL_TABLE", location="s3://mart/orders/",
    ...           columns=(Column("id", "bigint"),), partition_columns=(Column("dt", "string"),)))
    >>> metastore.add_partitions(orders, [Partition(values=("2024-01-01",), location="s3://mart/orders/a")])
    >>> metastore.get_partitions(orders, [("2024-01-01",), ("2024-01-02",)]).keys()
    dict_keys([('2024-01-01',)])
    """

    uri = "memory://metastore"

    def __init__(self, *, on_call: Callable[[str, str], None] | None = None) -> None:
        self.on_call = on_call
        self.version = "2.3.10"
        """What :meth:`server_version` answers; can be set."""
        self._lock = threading.RLock()
        self._counts: Counter[str] = Counter()
        self._tables: dict[TableName, Table] = {}
        self._partitions: dict[TableName, dict[PartitionValues, Partition]] = {}

    def create_table(self, table: Table) -> Table:
        """Create or replace a table, keeping its partitions, and return it as a read would."""
        with self._lock:
            created = table.created_at_seconds or int(time.time())
            stored = replace(table, location=_with_slash(table.location), created_at_seconds=created, native=NATIVE)
            self._tables[table.name] = stored
            self._partitions.setdefault(table.name, {})
            return stored

    def drop_table(self, name: TableName) -> None:
        """Drop a table and its partitions."""
        with self._lock:
            del self._tables[name], self._partitions[name]

    def put_partition(self, name: TableName, partition: Partition) -> Partition:
        """Add or replace a partition, as another tool would, and return it as a read would."""
        with self._lock:
            stored = replace(partition, location=_with_slash(partition.location), native=NATIVE)
            self._partitions[name][partition.values] = stored
            return stored

    def close(self) -> None:
        """Do nothing."""

    def server_version(self) -> str:
        """Return :attr:`version`."""
        with self._call("server_version", "getVersion"):
            return self.version

    def call_counts(self) -> Mapping[str, int]:
        """Return how many calls a real metastore would have received so far, by Thrift method."""
        return dict(self._counts)

    def get_table(self, name: TableName) -> Table | None:
        """Return the table, ``None`` when there is none."""
        with self._call("get_table", "get_table_req"):
            return self._tables.get(name)

    def get_tables(self, database: str) -> Sequence[Table]:
        """Return all tables of a database."""
        with self._call("get_tables", "get_all_tables"):
            return [table for name, table in self._tables.items() if name.database == database]

    def get_partition_names(self, name: TableName) -> Sequence[PartitionValues]:
        """Return the values of all partitions."""
        with self._call("get_partition_names", "get_partition_names"):
            return sorted(self._of(name))

    def get_partitions(self, table: Table, values: Sequence[PartitionValues]) -> Mapping[PartitionValues, Partition]:
        """Read partitions by value; those that do not exist are absent from the answer."""
        validate_values(table, values)
        with self._call("get_partitions", "get_partitions_by_names", calls=-(-len(values) // PARTITION_BATCH)):
            stored = self._of(table.name)
            return {one: stored[one] for one in values if one in stored}

    def get_all_partitions(self, table: Table) -> Mapping[PartitionValues, Partition]:
        """Read all partitions; as in Hive, by two calls, and ``on_call`` sees both."""
        return self.get_partitions(table, self.get_partition_names(table.name))

    def add_partitions(
        self, table: Table, partitions: Sequence[Partition], *, before_send: Callable[[], None] = nothing
    ) -> None:
        """Add all partitions, or none."""
        validate_additions(table, partitions)
        with self._call("add_partitions", "add_partitions_req", calls=min(len(partitions), 1), before_send=before_send):
            stored = self._of(table.name)
            for one in partitions:
                if one.values in stored:
                    raise PartitionExistsError(f"partition {one.values} of {table.name} exists; nothing was added")
            for one in partitions:
                self.put_partition(table.name, replace(one, parameters={**_ddl_time(), **one.parameters}))

    def alter_partitions(
        self, table: Table, changes: Sequence[PartitionChange], *, before_send: Callable[[], None] = nothing
    ) -> None:
        """Apply all changes, or none; as in Hive, what was read is written back whole."""
        validate_changes(table, changes)
        method = "alter_partitions_with_environment_context"
        with self._call("alter_partitions", method, calls=min(len(changes), 1), before_send=before_send):
            stored = self._of(table.name)
            for change in changes:
                if change.partition.values not in stored:
                    text = f"partition {change.partition.values} of {table.name} does not exist; nothing was changed"
                    raise PartitionMissingError(text)
            for change in changes:
                read = change.partition.parameters.items()
                kept = {name: value for name, value in read if name not in change.removed_parameters}
                parameters = {**kept, **_ddl_time(), **change.set_parameters}
                altered = replace(change.partition, location=change.location, parameters=parameters)
                self.put_partition(table.name, altered)

    def drop_partition(
        self, table: Table, values: PartitionValues, *, before_send: Callable[[], None] = nothing
    ) -> None:
        """Drop one partition; one that does not exist is no error."""
        with self._call("drop_partition", "drop_partition", before_send=before_send):
            self._partitions.get(table.name, {}).pop(values, None)

    @contextmanager
    def _call(
        self, method: str, thrift_method: str, *, calls: int = 1, before_send: Callable[[], None] = nothing
    ) -> Iterator[None]:
        """Count a call and give the hook its turns; the hook runs outside the lock, as other processes do."""
        before_send()
        if self.on_call is not None:
            self.on_call(method, "before")
        with self._lock:
            self._counts.update({thrift_method: calls} if calls else {})
            yield
        if self.on_call is not None:
            self.on_call(method, "after")

    def _of(self, name: TableName) -> dict[PartitionValues, Partition]:
        if name not in self._partitions:
            raise MetastoreError(f"table {name} does not exist in {self.uri}; create it first", table=str(name))
        return self._partitions[name]


def _with_slash(location: str) -> str:
    return f"{location.rstrip('/')}/" if location else ""


def _ddl_time() -> dict[str, str]:
    return {"transient_lastDdlTime": str(int(time.time()))}
