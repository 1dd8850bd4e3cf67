"""A metastore in memory with the real one's manners: all or nothing, one caller at a time, failures on request."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from table_writer.errors import InvalidInputError, MetastoreError, PartitionExistsError, PartitionMissingError
from table_writer.metastore.hive_objects import (
    DDL_TIME,
    WHOLE_TABLE,
    changed_parameters,
    expectation,
    hive_location,
    moved_serde_parameters,
    table_was_changed,
    true_location,
    whole_table_parameters,
)
from table_writer.metastore.hive_statistics import ColumnDescription, column_descriptions
from table_writer.metastore.protocol import (
    nothing,
    read_all,
    require_asked,
    require_kept,
    require_same,
    require_there,
    require_whole,
    validate_additions,
    validate_changes,
    validate_drops,
    validate_values,
)
from table_writer.model.column_figures import ColumnFigures
from table_writer.model.location import without_s3_login
from table_writer.model.process import PerProcess
from table_writer.model.table import Column, Partition, PartitionChange, PartitionValues, Table, TableName
from table_writer.testing.late import may_come_late

NATIVE: Final = "memory"  # marks what was read from here, as Thrift's objects mark what was read from Hive
PARTITION_BATCH: Final = 250
ACCURATE: Final = "COLUMN_STATS_ACCURATE"


class MemoryMetastore:
    """A :class:`~table_writer.metastore.protocol.Metastore` for tests.

    Attributes
    ----------
    on_call
        Called as ``on_call(method, phase)`` around each call, with the protocol's method name and the phase:
        ``"before"`` or ``"after"``. What it raises reaches the caller: before, nothing has changed; after, the
        change is made (raise a ``LostResponseError`` for a lost answer). It may use the metastore itself, as another
        process would. A :class:`~table_writer.testing.late.Late` before a change keeps it in :attr:`pending`. Can be
        set later.
    """

    uri = "memory://metastore"

    def __init__(self) -> None:
        self.on_call: Callable[[str, str], None] | None = None
        self.version = "2.3.10"
        """What :meth:`server_version` answers; can be set."""
        self.immovable: dict[TableName, str] = {}
        """What :meth:`why_immovable` answers of a table; can be set."""
        self.types_stay = ""
        """What :meth:`why_types_stay` answers; can be set."""
        self.replicated = ""
        """What :meth:`replicated_as` answers; can be set."""
        self.partial = ""
        """What :meth:`why_partial` answers; can be set."""
        self.answers_for_missing_tables = "error"
        """``"empty"``: a table that is gone has no partitions, as in Hive 4; can be set."""
        self.character_set = ""
        """Of its database, which keeps ``?`` for what it does not know: ``"latin1"``; can be set."""
        self.compares = True
        """Whether a table is compared before it is set; Hive 3.1, and 2.3 before 2.3.10, do not. Can be set."""
        self._lock = PerProcess(threading.RLock)
        self.pending: list[Callable[[], object]] = []
        """The changes that were kept. Calling one applies it, without the hook."""
        self._counts: Counter[str] = Counter()
        self._tables: dict[TableName, Table] = {}
        self._partitions: dict[TableName, dict[PartitionValues, Partition]] = {}
        self._statistics: dict[TableName, dict[PartitionValues, dict[str, ColumnDescription]]] = {}
        self._lost: dict[TableName, set[PartitionValues]] = {}  # their names have a ? as no name that is asked for has

    def create_table(self, table: Table) -> Table:
        """Create or replace a table, keeping its partitions, and return it as a read would."""
        with self._lock.get():
            created = table.created_at_seconds or int(time.time())
            location = true_location(table.location, table.parameters, table.serde_parameters)
            hives = table.hive_location or hive_location(table.location, table.parameters, table.serde_parameters)
            stored = replace(
                table,
                location=_with_slash(location),
                hive_location=_with_slash(hives),
                parameters={**_ddl_time(), **_without_logins(table.parameters)},
                serde_parameters=_without_logins(table.serde_parameters),
                created_at_seconds=created,
                native=NATIVE,
            )
            self._tables[table.name] = stored
            self._partitions.setdefault(table.name, {})
            return stored

    def drop_table(self, name: TableName) -> None:
        """Drop a table and its partitions."""
        with self._lock.get():
            del self._tables[name], self._partitions[name]
            self._statistics.pop(name, None)
            self._lost.pop(name, None)

    def put_partition(self, name: TableName, partition: Partition) -> Partition:
        """Add or replace a partition, as another tool would, and return it as a read would."""
        with self._lock.get():
            values, (location,) = self._kept(partition.values), self._kept((_with_slash(partition.location),))
            stored = replace(partition, values=values, location=location, native=NATIVE)
            self._partitions[name][values] = stored
            if values != partition.values:
                self._lost.setdefault(name, set()).add(values)
            return stored

    def close(self) -> None:
        pass

    def server_version(self) -> str:
        with self._call("server_version", "getVersion"):
            return self.version

    def stated_version(self) -> str:
        return self.server_version()

    def why_immovable(self, table: Table) -> str:
        with self._call("why_immovable", "get_config_value"):
            return self.immovable.get(table.name, "")

    def why_types_stay(self) -> str:
        with self._call("why_types_stay", "get_config_value"):
            return self.types_stay

    def replicated_as(self, table: Table) -> str:  # noqa: ARG002  # all are alike
        with self._call("replicated_as", "get_database"):
            return self.replicated

    def try_values(self, table: Table, location: str, values: Sequence[str]) -> None:
        columns = (Column("value", "string"),)
        scratch = replace(table, name=TableName(table.name.database, "scratch"), partition_columns=columns)
        with self._call("try_values", "create_table"):
            self.create_table(scratch)
        try:
            self.add_partitions(scratch, [Partition(values=(value,), location=location) for value in values])
        finally:
            self.drop_table(scratch.name)

    def why_partial(self, table: Table) -> str:  # noqa: ARG002  # all are alike
        with self._call("why_partial", "get_config_value"):
            return self.partial

    def why_unproven(self, table: Table) -> str:  # noqa: ARG002  # all are alike
        return ""

    def switches_at_once(self, table: Table) -> bool:  # noqa: ARG002  # all are alike
        return True

    def call_counts(self) -> Mapping[str, int]:
        return dict(self._counts)

    def get_table(self, name: TableName) -> Table | None:
        with self._call("get_table", "get_table_req"):
            found = self._tables.get(name)
            return None if found is None else replace(found, native=found)

    @may_come_late
    def add_table(self, table: Table) -> bool:
        with self._call("add_table", "create_table"):
            if table.name in self._tables:
                return False
            self.create_table(table)
            return True

    @may_come_late
    def remove_table(self, name: TableName) -> None:
        with self._call("remove_table", "drop_table"):
            if name in self._tables:
                self.drop_table(name)

    def get_databases(self) -> Sequence[str]:
        with self._call("get_databases", "get_all_databases"):
            return sorted({name.database for name in self._tables})

    def get_tables(self, database: str) -> Sequence[Table]:
        with self._call("get_tables", "get_all_tables"):
            return [table for name, table in self._tables.items() if name.database == database]

    def get_partition_names(self, name: TableName) -> Sequence[PartitionValues]:
        with self._call("get_partition_names", "get_partition_names"):
            stored = self._listed(name)
            if not stored and not require_there(name, self._again(name), self.uri).partition_columns:
                return [WHOLE_TABLE]
            lost = self._lost.get(name, set()) & stored.keys()
            require_whole(name, ["/".join(lost_values) for lost_values in sorted(lost)], self.uri)
            return sorted(stored)

    def get_partitions(self, table: Table, values: Sequence[PartitionValues]) -> Mapping[PartitionValues, Partition]:
        validate_values(table, values)
        if not table.partition_columns:
            return self._get_whole_table(table) if values else {}
        with self._call("get_partitions", "get_partitions_by_names", calls=-(-len(values) // PARTITION_BATCH)):
            stored = self._listed(table.name)
            asked = {self._kept(partition_values): partition_values for partition_values in values}
            lost = self._lost.get(table.name, set())
            found = {
                kept: stored[kept]
                for kept, partition_values in asked.items()
                if kept in stored and (kept != partition_values or kept not in lost)
            }
            require_asked(table, values, found, self.uri)
            if values and not found:
                require_same(table, self._again(table.name), self.uri)
            return found

    def get_all_partitions(self, table: Table) -> Mapping[PartitionValues, Partition]:
        return read_all(self, table)

    @may_come_late
    def add_partitions(
        self, table: Table, partitions: Sequence[Partition], *, before_send: Callable[[], None] = nothing
    ) -> None:
        validate_additions(table, partitions)
        with self._call("add_partitions", "add_partitions_req", calls=min(len(partitions), 1), before_send=before_send):
            stored = self._of(table.name)
            for partition in partitions:
                if self._kept(partition.values) in stored:
                    raise PartitionExistsError(
                        f"partition {partition.values} of {table.name} exists; nothing was added"
                    )
            for partition in partitions:
                parameters = {**_ddl_time(), **partition.parameters}
                self.put_partition(table.name, replace(partition, parameters=parameters))

        def drop(values: Sequence[PartitionValues]) -> None:
            with self._call("drop_partitions", "drop_partitions_req", before_send=before_send):
                for partition_values in values:
                    self._of(table.name).pop(self._kept(partition_values), None)

        require_kept(self, table, partitions, drop)

    @may_come_late
    def alter_partitions(
        self, table: Table, changes: Sequence[PartitionChange], *, before_send: Callable[[], None] = nothing
    ) -> None:
        """As in Hive, what was read is written back whole; one table with compare-and-set, as Hive 4 does."""
        validate_changes(table, changes)
        alter = self._alter if table.partition_columns else self._alter_whole_table
        alter(table, changes, before_send)

    @may_come_late
    def drop_partition(
        self, table: Table, values: PartitionValues, *, before_send: Callable[[], None] = nothing
    ) -> None:
        validate_drops(table, [values])
        with self._call("drop_partition", "drop_partition", before_send=before_send):
            kept = self._kept(values)
            if kept != values and kept in self._partitions.get(table.name, {}):
                raise MetastoreError(f"Expecting a partition with name {values}, but metastore is returning {kept}.")
            self._partitions.get(table.name, {}).pop(values, None)
            self._statistics.get(table.name, {}).pop(values, None)

    def keeps_statistics(self, table: Table) -> bool:  # noqa: ARG002  # all are alike
        return True

    def statistics(self, name: TableName) -> dict[PartitionValues, dict[str, ColumnDescription]]:
        """What is kept now, without a call."""
        return {values: dict(columns) for values, columns in self._statistics.get(name, {}).items() if columns}

    def put_statistics(self, name: TableName, values: PartitionValues, one: Mapping[str, ColumnDescription]) -> None:
        """Set the statistics of a partition as another tool would; a server marks them as accurate."""
        with self._lock.get():
            self._statistics.setdefault(name, {}).setdefault(values, {}).update(one)
            if values:
                stored = self._partitions[name][values]
                self._partitions[name][values] = replace(stored, parameters={**stored.parameters, ACCURATE: "{}"})
            else:
                table = self._tables[name]
                self._tables[name] = replace(table, parameters={**table.parameters, ACCURATE: "{}"})

    def differing_statistics(
        self, table: Table, expected: Mapping[PartitionValues, Mapping[str, ColumnFigures]]
    ) -> Sequence[PartitionValues]:
        validate_values(table, list(expected))
        calls = -(-len(expected) // PARTITION_BATCH)
        with self._call("differing_statistics", "get_partitions_statistics_req", calls=calls):
            wanted = {values: column_descriptions(table, figures) for values, figures in expected.items()}
            found = self.statistics(table.name)
            return [values for values, columns in found.items() if values in wanted and columns != wanted[values]]

    @may_come_late
    def set_statistics(
        self,
        table: Table,
        figures: Mapping[PartitionValues, Mapping[str, ColumnFigures]],
        *,
        before_send: Callable[[], None] = nothing,
    ) -> None:
        validate_values(table, list(figures))
        with self._call("set_statistics", "set_aggr_stats_for", before_send=before_send):
            there = self._of(table.name) if table.partition_columns else {WHOLE_TABLE: None}
            for values, column_figures in figures.items():
                if values not in there:
                    raise MetastoreError(f"partition {values} of {table.name} does not exist: NoSuchObjectException")
                if described := column_descriptions(table, column_figures):
                    self.put_statistics(table.name, values, described)

    @may_come_late
    def drop_statistics(
        self, table: Table, values: Sequence[PartitionValues], *, before_send: Callable[[], None] = nothing
    ) -> None:
        validate_values(table, values)
        method = "delete_partition_column_statistics"
        with self._call("drop_statistics", method, calls=len(values), before_send=before_send):
            for partition_values in values:
                self._statistics.get(table.name, {}).pop(partition_values, None)

    def _get_whole_table(self, table: Table) -> Mapping[PartitionValues, Partition]:
        with self._call("get_partitions", "get_table_req"):
            require_same(table, self._tables.get(table.name), self.uri)
            now = self._tables[table.name]
            found = Partition(values=WHOLE_TABLE, location=now.location, parameters=now.parameters, native=now)
            return {WHOLE_TABLE: found}

    def _alter(self, table: Table, changes: Sequence[PartitionChange], before_send: Callable[[], None]) -> None:
        method = "alter_partitions_with_environment_context"
        with self._call("alter_partitions", method, calls=min(len(changes), 1), before_send=before_send):
            stored = self._of(table.name)
            for change in changes:
                if self._kept(change.partition.values) not in stored:
                    text = f"partition {change.partition.values} of {table.name} does not exist; nothing was changed"
                    raise PartitionMissingError(text)
            for change in changes:
                parameters = {**_ddl_time(), **changed_parameters(change)}
                altered = replace(change.partition, location=change.location, parameters=parameters, differs="")
                self.put_partition(table.name, altered)

    def _alter_whole_table(
        self, table: Table, changes: Sequence[PartitionChange], before_send: Callable[[], None]
    ) -> None:
        read = [_table_read(change) for change in changes]
        method, name = "alter_table_with_environment_context", table.name
        with self._call("alter_partitions", method, calls=len(read), before_send=before_send):
            for table_read, change in zip(read, changes, strict=True):
                parameters = whole_table_parameters(change)
                expected = expectation(change.partition.parameters, parameters)
                self._of(name)
                if self.compares and not self._tables[name].parameters.items() >= expected.items():
                    raise table_was_changed(name, self.uri)
                self._tables[name] = replace(
                    table_read,
                    location=_with_slash(change.location),
                    hive_location="",
                    columns=table_read.columns if change.columns is None else change.columns,
                    serde_parameters=moved_serde_parameters(table_read.serde_parameters, change.location.rstrip("/")),
                    parameters={**_ddl_time(), **parameters},
                )

    @contextmanager
    def _call(
        self, method: str, thrift_method: str, *, calls: int = 1, before_send: Callable[[], None] = nothing
    ) -> Iterator[None]:
        """Count a call and give the hook its turns; the hook runs outside the lock, as other processes do."""
        before_send()
        if self.on_call is not None:
            self.on_call(method, "before")
        with self._lock.get():
            self._counts.update({thrift_method: calls} if calls else {})
            yield
        if self.on_call is not None:
            self.on_call(method, "after")

    def _kept(self, values: PartitionValues) -> PartitionValues:
        """Return what the database makes of values."""
        name = self.character_set
        return tuple(text.encode(name, "replace").decode(name) for text in values) if name else values

    def _again(self, name: TableName) -> Table | None:
        """Read a table to confirm an empty answer."""
        self._counts.update({"get_table_req": 1})
        return self._tables.get(name)

    def _listed(self, name: TableName) -> Mapping[PartitionValues, Partition]:
        """Return a table's partitions, or what is answered where there is no such table."""
        gone = name not in self._partitions and self.answers_for_missing_tables == "empty"
        return {} if gone else self._of(name)

    def _of(self, name: TableName) -> dict[PartitionValues, Partition]:
        if name not in self._partitions:
            raise MetastoreError(f"table {name} does not exist in {self.uri}; create it first", table=str(name))
        return self._partitions[name]


def _table_read(change: PartitionChange) -> Table:
    """Return the table that was read as its own partition: it is written back whole."""
    if not isinstance(change.partition.native, Table):
        raise InvalidInputError(f"{change.partition!r} was not read from this metastore; read it first")
    return change.partition.native


def _without_logins(parameters: Mapping[str, str]) -> dict[str, str]:
    return {name: without_s3_login(value) for name, value in parameters.items()}


def _with_slash(location: str) -> str:
    return f"{without_s3_login(location).rstrip('/')}/" if location else ""


def _ddl_time() -> dict[str, str]:
    return {DDL_TIME: str(int(time.time()))}
