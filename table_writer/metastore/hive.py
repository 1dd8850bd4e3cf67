"""A Hive metastore over Thrift, Hive 2.3 to 4.2."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Final, Self, TypeVar

from hmsclient.genthrift.hive_metastore import ttypes
from thrift.Thrift import TApplicationException

from table_writer.errors import MetastoreError, PartitionExistsError, PartitionMissingError, counted
from table_writer.metastore import hive_objects, protocol
from table_writer.metastore.connection import Connection, RefusedError
from table_writer.metastore.hive_statistics import (
    ColumnDescription,
    column_description,
    column_descriptions,
    statistics_object,
)
from table_writer.metastore.settings import MetastoreSettings
from table_writer.model.column_figures import ColumnFigures
from table_writer.model.table import (
    Partition,
    PartitionChange,
    PartitionValues,
    Table,
    TableName,
    name_in,
    partition_values,
)

TABLE_BATCH: Final = 100
ALL: Final = -1  # of an i16: the largest number that could be asked for is 32,767, and no number asks for all
NO_LISTING: Final[Mapping[str, str]] = {"DO_NOT_UPDATE_STATS": "true"}

# What alter_partitions answers when a partition is missing: Hive 2.3 and 3 wrap the error, 4 counts.
MISSING_PARTITION: Final = re.compile(r"NoSuchObjectException|not matching with old parts size|partition values=\[")
TABLE_CHANGED: Final = "The table has been modified."  # what a refused compare-and-set is answered with, 2.3.10 and 4
NO_VERSION: Final = "3.0"  # what getVersion answers up to Hive 3.1.3, whatever the version
NEW_IN_2_3_10: Final = "hive.metastore.client.connection.timeout"
TRANSFORMER: Final = "metastore.metadata.transformer.class"  # of Hive 4: checks where tables lie
REPLICATED: Final = "repl.source.for"  # of a database: the policies that replicate it
TYPES_STAY: Final = "hive.metastore.disallow.incompatible.col.type.changes"
DEFAULT_HOOKS: Final = ("", "DefaultMetaStoreFilterHookImpl")  # which show everything to everybody
ALL_COLUMNS: Final = None  # of delete_…_column_statistics
T = TypeVar("T")


class HiveMetastore:
    """The :class:`~table_writer.metastore.protocol.Metastore` that production uses.

    A changing call is sent once, on a connection that was open the moment before; a broken read is repeated on the next
    address. Usable from several threads, which take turns on one connection.

    Notes
    -----
    Measured on Hive 2.3.10 with ``hive.stats.autogather`` at its default, true:

    * ``add_partitions`` keeps all parameters that it is given. If **both** ``numFiles`` and ``totalSize`` are there, it
      does not list the location; else it lists and sets these two. ``DO_NOT_UPDATE_STATS`` changes nothing there,
      neither as a parameter (where it stays visible) nor in the context of ``add_partition_with_environment_context``.
    * ``alter_partitions`` with ``DO_NOT_UPDATE_STATS`` keeps all parameters and lists nothing. Without it, a changed
      location is listed and ``numFiles`` and ``totalSize`` are overwritten, while ``numRows`` and ``rawDataSize`` stay.
    * ``alter_table`` with it makes no call to any file system and moves no file, of managed tables neither.
    """

    def __init__(self, settings: MetastoreSettings) -> None:
        self._settings = settings
        self._connection = Connection(settings)

    def __repr__(self) -> str:
        return f"HiveMetastore({self._settings!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def uri(self) -> str:
        return self._connection.uri

    def close(self) -> None:
        self._connection.close()

    def server_version(self) -> str:
        """Return the metastore's version as far as three reads can tell it, else the empty string.

        Notes
        -----
        ``getVersion`` answers the constant ``"3.0"`` in Hive 2.3.9, 2.3.10 and 3.1.3, and the real version in 4.0.1.
        Where it is the constant, two more calls decide:

        * ``get_index_names``: Hive 3 has no indexes any more and does not know the call; Hive 2 does;
        * ``get_config_value`` of a property that 2.3.10 brought with a default: older ones have no value for it,
          unless someone wrote it into their ``hive-site.xml``.

        2.3.10 was asked; of the others the byte code was read.
        """
        version = self.stated_version()
        if version != NO_VERSION:
            return version
        try:
            self._connection.read("get_index_names", "default", "none", 1, table="")  # there need not be such a table
        except RefusedError as refused:
            unknown = getattr(refused.reason, "type", None) == TApplicationException.UNKNOWN_METHOD
            return "3" if isinstance(refused.reason, TApplicationException) and unknown else ""
        try:
            is_last = bool(self._connection.read("get_config_value", NEW_IN_2_3_10, "", table=""))
        except RefusedError:
            is_last = False
        return "2.3.10" if is_last else "2.3"

    def stated_version(self) -> str:
        try:
            return str(self._connection.read("getVersion", table=""))
        except RefusedError:
            return ""

    def why_immovable(self, table: Table) -> str:
        """Ask Hive 4 for the settings that decide: four reads, and one where nobody checks where tables lie."""
        if hive_objects.keeps_location(table) or not self._setting(TRANSFORMER).endswith("MetastoreDefaultTransformer"):
            return ""
        database = self._connection.read("get_database", table.name.database, table=str(table.name))
        return hive_objects.why_immovable(
            table,
            warehouse=self._setting("metastore.warehouse.dir"),
            managed=database.managedLocationUri or "",
            has_external=self._setting("metastore.warehouse.external.dir") != "",
        )

    def why_types_stay(self) -> str:
        """Ask for the setting by which a server keeps types where they are, unless a client says otherwise: Hive 3."""
        if self._setting(TYPES_STAY).lower() != "true" or self._may_change_types():
            return ""
        return (
            f"would get other types where its columns have theirs, and the metastore at {self.uri} refuses some"
            f" ({TYPES_STAY}=true in its hive-site.xml; Hive's default)"
        )

    def replicated_as(self, table: Table) -> str:
        database = self._connection.read("get_database", table.name.database, table=str(table.name))
        return str((database.parameters or {}).get(REPLICATED, "")).strip()

    def _may_change_types(self) -> bool:
        """Let this connection change types, where the server lets its clients decide: Hive 2.3 does not."""
        try:
            self._connection.read("setMetaConf", TYPES_STAY, "false", table="")
        except RefusedError:
            return False
        return True

    def try_values(self, table: Table, location: str, values: Sequence[str]) -> None:
        name = protocol.scratch_name(table)
        made = hive_objects.scratch_table(table, name, location)
        self._connection.change("create_table", made, table=str(name))
        try:
            scratch = protocol.require_there(name, self.get_table(name), self.uri)
            self.add_partitions(scratch, [Partition(values=(value,), location=location) for value in values])
        finally:
            self._change("drop_table", name, False, before_send=protocol.nothing)

    def why_partial(self, table: Table) -> str:  # noqa: ARG002  # all are alike
        """Ask for the filter by which Ranger and Sentry leave out what a user may not see: one read or two."""
        names = ("hive.metastore.filter.hook", "metastore.filter.hook")  # Hive 3 and 4 know both, Hive 2 the first
        hook = next(filter(None, map(self._setting, names)), "")
        if hook.rpartition(".")[2] in DEFAULT_HOOKS:
            return ""
        return f"the metastore at {self.uri} leaves out what a user may not see (metastore.filter.hook={hook})"

    def why_unproven(self, table: Table) -> str:  # noqa: ARG002  # a table that is shown is shown whole
        return ""

    def _setting(self, name: str) -> str:
        """Return a setting of the server; empty if it has none, or Hive 2 knows no names that begin like this."""
        try:
            return str(self._connection.read("get_config_value", name, "", table="")).strip()
        except RefusedError:
            return ""

    def switches_at_once(self, table: Table) -> bool:  # noqa: ARG002  # all are alike
        return True

    def call_counts(self) -> Mapping[str, int]:
        return self._connection.counts()

    def get_table(self, name: TableName) -> Table | None:
        request = ttypes.GetTableRequest(dbName=name.database, tblName=name.name, capabilities=_CAPABILITIES)
        try:
            answer = self._connection.read("get_table_req", request, table=str(name))
            return protocol.require_named(name, hive_objects.table_from(answer.table), self.uri)
        except RefusedError as refused:
            if isinstance(refused.reason, ttypes.NoSuchObjectException):
                return None
            raise

    def add_table(self, table: Table) -> bool:
        try:
            self._connection.change("create_table", hive_objects.new_table(table), table=str(table.name))
        except RefusedError as refused:
            if isinstance(refused.reason, ttypes.AlreadyExistsException):
                return False
            raise
        return True

    def remove_table(self, name: TableName) -> None:
        try:
            self._change("drop_table", name, False, before_send=protocol.nothing)
        except RefusedError as refused:
            if not isinstance(refused.reason, ttypes.NoSuchObjectException):
                raise

    def get_databases(self) -> Sequence[str]:
        return list(self._connection.read("get_all_databases", table=""))

    def get_tables(self, database: str) -> Iterator[Table]:
        """Read all tables and views of a database, 100 a call; one that is dropped meanwhile is absent."""
        missing: set[str] = set()
        read = partial(self._connection.read, table=f"{database}.*")
        for names in _batches(read("get_all_tables", database), TABLE_BATCH):  # not kept: a large metastore's fill a GB
            request = ttypes.GetTablesRequest(dbName=database, tblNames=names, capabilities=_CAPABILITIES)
            answer = read("get_table_objects_by_name_req", request)
            found = list(map(hive_objects.table_from, answer.tables))
            missing |= set(names) - {table.name.name for table in found}
            yield from found
        twice = missing.intersection(read("get_all_tables", database)) if missing else ()
        if twice:
            raise MetastoreError(
                f"the metastore at {self.uri} lists {counted(len(twice), 'table')} of {database} that it does not"
                f" return, first {min(twice)}; run it again, and look into the metastore's log if it happens again",
                table=f"{database}.*",
            )

    def get_partition_names(self, name: TableName) -> Sequence[PartitionValues]:
        names = self._connection.read("get_partition_names", name.database, name.name, ALL, table=str(name))
        protocol.require_whole(name, names, self.uri)
        table = None if names else self.get_table(name)  # most tables have some names, an unpartitioned one never does
        is_whole = not names and not protocol.require_there(name, table, self.uri).partition_columns
        return [hive_objects.WHOLE_TABLE] if is_whole else [partition_values(text) for text in names]

    def get_partitions(self, table: Table, values: Sequence[PartitionValues]) -> Mapping[PartitionValues, Partition]:
        protocol.validate_values(table, values)
        if not values:
            return {}
        if not table.partition_columns:
            now = protocol.require_same(table, self.get_table(table.name), self.uri)
            return {hive_objects.WHOLE_TABLE: hive_objects.whole_table(now)}
        names = [name_in(table, partition) for partition in values]
        found: dict[PartitionValues, Partition] = {}
        for batch in _batches(names, self._settings.partition_batch):
            answer = self._connection.read(
                "get_partitions_by_names", table.name.database, table.name.name, batch, table=str(table.name)
            )
            partitions = (hive_objects.partition_from(native, table) for native in answer)
            found |= {partition.values: partition for partition in partitions}
        protocol.require_asked(table, values, found, self.uri)
        if not found:
            protocol.require_same(table, self.get_table(table.name), self.uri)
        return found

    def get_all_partitions(self, table: Table) -> Mapping[PartitionValues, Partition]:
        return protocol.read_all(self, table)

    def add_partitions(
        self, table: Table, partitions: Sequence[Partition], *, before_send: Callable[[], None] = protocol.nothing
    ) -> None:
        """Add all in ONE call, or none; the server makes each location's directory where it is missing."""
        protocol.validate_additions(table, partitions)
        if not partitions:
            return
        request = ttypes.AddPartitionsRequest(
            dbName=table.name.database,
            tblName=table.name.name,
            parts=[hive_objects.new_partition(table, partition) for partition in partitions],
            ifNotExists=False,
            needResult=False,
        )
        try:
            self._connection.change("add_partitions_req", request, table=str(table.name), before_send=before_send)
        except RefusedError as refused:
            if isinstance(refused.reason, ttypes.AlreadyExistsException):
                raise PartitionExistsError(
                    f"partition {_refused_partition(refused)} of {table.name} exists; nothing was added, plan again",
                    table=str(table.name),
                ) from refused.reason
            raise
        protocol.require_kept(self, table, partitions, partial(self._drop_added, table, before_send))

    def alter_partitions(
        self, table: Table, changes: Sequence[PartitionChange], *, before_send: Callable[[], None] = protocol.nothing
    ) -> None:
        """Apply all in ONE call, or none; of an unpartitioned table by ``alter_table`` with compare-and-set."""
        protocol.validate_changes(table, changes)
        alter = self._alter if table.partition_columns else self._alter_whole_table
        if changes:
            alter(table, changes, before_send)

    def drop_partition(
        self, table: Table, values: PartitionValues, *, before_send: Callable[[], None] = protocol.nothing
    ) -> None:
        protocol.validate_drops(table, [values])
        try:
            self._change("drop_partition", table.name, list(values), False, before_send=before_send)
        except RefusedError as refused:
            if not isinstance(refused.reason, ttypes.NoSuchObjectException):
                raise

    def keeps_statistics(self, table: Table) -> bool:  # noqa: ARG002  # all are alike
        return True

    def differing_statistics(
        self, table: Table, expected: Mapping[PartitionValues, Mapping[str, ColumnFigures]]
    ) -> Sequence[PartitionValues]:
        protocol.validate_values(table, list(expected))
        found = self._statistics(table, list(expected))
        wanted = {values: column_descriptions(table, figures) for values, figures in expected.items()}
        return [values for values, there in found.items() if there and there != wanted.get(values)]

    def set_statistics(
        self,
        table: Table,
        figures: Mapping[PartitionValues, Mapping[str, ColumnFigures]],
        *,
        before_send: Callable[[], None] = protocol.nothing,
    ) -> None:
        protocol.validate_values(table, list(figures))
        types = {column.name.lower(): column.type for column in table.columns}
        all_statistics = [
            ttypes.ColumnStatistics(
                statsDesc=ttypes.ColumnStatisticsDesc(
                    isTblLevel=not values,
                    dbName=table.name.database,
                    tableName=table.name.name,
                    partName=name_in(table, values) if values else None,
                    lastAnalyzed=int(time.time()),
                ),
                statsObj=[statistics_object(name, types[name], description) for name, description in columns.items()],
            )
            for values, partition_figures in figures.items()
            if (columns := column_descriptions(table, partition_figures))
        ]
        if not all_statistics:
            return
        change = partial(self._connection.change, table=str(table.name), before_send=before_send)
        if table.partition_columns:
            change("set_aggr_stats_for", ttypes.SetPartitionsStatsRequest(all_statistics, needMerge=False))
        else:
            change("update_table_column_statistics", all_statistics[0])

    def drop_statistics(
        self, table: Table, values: Sequence[PartitionValues], *, before_send: Callable[[], None] = protocol.nothing
    ) -> None:
        protocol.validate_values(table, values)
        for partition in values:
            try:
                if partition:
                    name = name_in(table, partition)
                    call = "delete_partition_column_statistics"
                    self._change(call, table.name, name, ALL_COLUMNS, before_send=before_send)
                else:
                    self._change("delete_table_column_statistics", table.name, ALL_COLUMNS, before_send=before_send)
            except RefusedError as refused:
                if not isinstance(refused.reason, ttypes.NoSuchObjectException):
                    raise

    def _statistics(
        self, table: Table, values: Sequence[PartitionValues]
    ) -> dict[PartitionValues, dict[str, ColumnDescription]]:
        """Read the column statistics of partitions, 250 a call."""
        columns = [column.name.lower() for column in table.columns]
        database, name, found = table.name.database, table.name.name, {}
        if not table.partition_columns:
            request = ttypes.TableStatsRequest(database, name, columns)
            answer = (
                self._connection.read("get_table_statistics_req", request, table=str(table.name)) if values else None
            )
            found = {hive_objects.WHOLE_TABLE: answer.tableStats} if answer is not None else {}
        for batch in _batches(
            [name_in(table, partition) for partition in values if partition], self._settings.partition_batch
        ):
            request = ttypes.PartitionsStatsRequest(database, name, columns, batch)
            answer = self._connection.read("get_partitions_statistics_req", request, table=str(table.name))
            found |= {partition_values(text): objects for text, objects in answer.partStats.items()}
        return {
            partition: {native.colName: column_description(native) for native in objects or ()}
            for partition, objects in found.items()
        }

    def _drop_added(self, table: Table, before_send: Callable[[], None], values: Sequence[PartitionValues]) -> None:
        names = ttypes.RequestPartsSpec(names=[name_in(table, partition) for partition in values])
        request = ttypes.DropPartitionsRequest(
            table.name.database, table.name.name, names, deleteData=False, ifExists=True, needResult=False
        )
        self._connection.change("drop_partitions_req", request, table=str(table.name), before_send=before_send)

    def _change(self, method: str, name: TableName, *arguments: object, before_send: Callable[[], None]) -> None:
        """Send a changing call whose first two arguments name the table."""
        self._connection.change(method, name.database, name.name, *arguments, table=str(name), before_send=before_send)

    def _alter(self, table: Table, changes: Sequence[PartitionChange], before_send: Callable[[], None]) -> None:
        altered = [hive_objects.altered_partition(table, change) for change in changes]
        try:
            call = "alter_partitions_with_environment_context"
            self._change(call, table.name, altered, ttypes.EnvironmentContext(NO_LISTING), before_send=before_send)
        except RefusedError as refused:
            if MISSING_PARTITION.search(str(getattr(refused.reason, "message", ""))):
                raise PartitionMissingError(
                    f"partition {_refused_partition(refused)} of {table.name} does not exist; nothing was changed,"
                    " plan again",
                    table=str(table.name),
                ) from refused.reason
            raise

    def _alter_whole_table(
        self, table: Table, changes: Sequence[PartitionChange], before_send: Callable[[], None]
    ) -> None:
        """Move a table; the server refuses if somebody else was faster."""
        (change,) = changes
        altered = hive_objects.altered_table(change)
        if change.columns is not None:
            self._may_change_types()
        context = dict(NO_LISTING)
        for name, value in hive_objects.expectation(change.partition.parameters, altered.parameters).items():
            context |= {"expected_parameter_key": name, "expected_parameter_value": value}
        try:
            call = "alter_table_with_environment_context"
            self._change(call, table.name, altered, ttypes.EnvironmentContext(context), before_send=before_send)
        except RefusedError as refused:
            if TABLE_CHANGED in str(getattr(refused.reason, "message", "")):
                raise hive_objects.table_was_changed(table.name, self.uri) from refused.reason
            raise


# INSERT_ONLY_TABLES, newer than hmsclient. Without it Hive 3 and 4 refuse a whole batch of tables for one of that kind.
_CAPABILITIES: Final = ttypes.ClientCapabilities([2])


def _refused_partition(refused: RefusedError) -> str:
    """Return the partition that the server complains of, as far as it says."""
    match = re.search(r"values[:=](\[.*?\])", str(getattr(refused.reason, "message", "")), flags=re.DOTALL)
    return match[1] if match else "(not named by the metastore)"


def _batches(items: Sequence[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch
