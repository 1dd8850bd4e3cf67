"""The one factory: real services for a metastore and a table. Everything else is handed its services."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache, cached_property

from table_writer.checked import LONGEST_AGE
from table_writer.complete import Completer
from table_writer.config import SessionSettings, TableWriterConfig
from table_writer.errors import InvalidInputError
from table_writer.log.owner import Owner, require_in_place, require_owner
from table_writer.log.registration import Registration, writer_identity
from table_writer.log.table_log import TableLog
from table_writer.metastore.hive import HiveMetastore
from table_writer.metastore.protocol import Metastore
from table_writer.metastore.settings import MetastoreSettings
from table_writer.model.entry import LogEntry
from table_writer.model.location import Location
from table_writer.model.table import (
    HOURS_PROPERTIES,
    RETENTION_PROPERTY,
    PartitionValues,
    Table,
    TableName,
    name_in,
    partition_values,
    shown_name,
    unknown_properties,
)
from table_writer.model.write import TableLayout, WritePlan
from table_writer.publish.append import CopyFiles
from table_writer.publish.parts import PublishParts
from table_writer.publish.publisher import Publisher
from table_writer.publish.recovery import Recovery
from table_writer.publish.restore import Restore, adopt
from table_writer.publish.rollback import Rollback
from table_writer.publish.switch import ClaimedEntries, Switch
from table_writer.storage import ObjectStore, StoreSettings, committer_threads, open_store, settings_for
from table_writer.vacuum.sweep import Vacuum

__all__ = ["Services", "TableServices", "require_table"]

COMPLETE_THREADS = 8  # Hadoop's default of fs.s3a.committer.threads, for stores that are not S3


@dataclass(frozen=True, kw_only=True)
class TableServices:
    """The services that work on one table needs, each made when it is asked for."""

    table: Table
    layout: TableLayout
    store: ObjectStore
    store_settings: StoreSettings
    metastore: Metastore
    session: SessionSettings
    config: TableWriterConfig
    sleep: Callable[[float], None] = time.sleep

    @property
    def identity(self) -> dict[str, str]:
        """Who writes: the process that asks, which may be a fork of the one that opened the table."""
        return writer_identity(self.session.application_id)

    @cached_property
    def log(self) -> TableLog:
        """The table's log."""
        return TableLog(self.store, self.layout, memory_bytes=self.config.log_memory_bytes)

    def completer(self) -> Completer:
        """Step 3."""
        configured = committer_threads(self.layout.root, self.session.hadoop)
        threads = self.config.complete_threads or configured or COMPLETE_THREADS
        return Completer(self.store, threads=threads)

    def registration(self, plan: WritePlan) -> Registration:
        """The sign of life of a write."""
        return Registration(self.store, plan, self.identity, heartbeat_seconds=self.config.heartbeat_seconds)

    def claimed(self) -> ClaimedEntries:
        """Carries out what was claimed: the one call of step 5, and its outcome."""
        timeout = self.config.metastore_timeout_seconds
        return ClaimedEntries(self.log, Switch(self.metastore, self.store, self.layout, call_timeout_seconds=timeout))

    def recovery(self) -> Recovery:
        """Settles what dead writers left in doubt."""
        timeout = self.config.publish_timeout_seconds
        return Recovery(
            self.log,
            self.metastore,
            self.claimed(),
            self.layout,
            publish_timeout_seconds=timeout,
            identity=self.identity,
            sleep=self.sleep,
        )

    def publisher(self, copy_files: CopyFiles | None = None) -> Publisher:
        """Step 5; an append copies files on this machine's threads unless others are named."""
        parts = self._publish_parts()
        return Publisher(replace(parts, copy_files=copy_files) if copy_files else parts)

    def rollback(self) -> Rollback:
        """Puts partitions back to an earlier version."""
        return Rollback(self._publish_parts())

    def restore(self) -> Restore:
        """Adds partitions that the metastore has lost."""
        return Restore(self._publish_parts())

    def _publish_parts(self) -> PublishParts:
        return PublishParts(
            store=self.store,
            log=self.log,
            metastore=self.metastore,
            layout=self.layout,
            claimed=self.claimed(),
            recovery=self.recovery(),
            copy_files=self.completer().copy,
            publish_timeout_seconds=self.config.publish_timeout_seconds,
            retention=self.retention,
            identity=self.identity,
        )

    def require_owner(self) -> None:
        """Raise ``InvalidInputError`` if the files below the root are another table's, or the table is not there."""
        self.log.expect(require_owner(self.store, self.layout, self.owner))
        require_in_place(self.store, self.layout, self.table)

    @property
    def owner(self) -> Owner:
        """The table, as ``owner.json`` is to name it."""
        return Owner.of(self.table, self.metastore.uri)

    def adopt(self, *, accept_loss: bool = False) -> None:
        """Take over the files below the root."""
        adopt(self._publish_parts(), self.table, self.owner, accept_loss=accept_loss)

    def published_with_key(self, key: str, *, in_order: bool = False) -> LogEntry | None:
        """Return the published entry with an idempotency key, ``None`` for none and for no key.

        Raises
        ------
        InvalidInputError
            The files below the root are another table's.
        """
        if not key:
            return None
        self.require_owner()
        return self.log.find_key(key, in_order=in_order)

    def vacuum(self) -> Vacuum:
        """Step 6."""
        return Vacuum(
            self.store,
            self.log,
            self.metastore,
            self.layout,
            identity=self.identity,
        )

    def marks_success(self) -> bool:
        """Whether ``_SUCCESS`` is wanted."""
        wanted = self.session.hadoop.get("mapreduce.fileoutputcommitter.marksuccessfuljobs", "true")
        return wanted.lower() != "false" if self.config.mark_success is None else self.config.mark_success

    def partition_names(self, values: Collection[PartitionValues]) -> tuple[str, ...]:
        """Return Hive's names of partitions for people, in the order of their values."""
        return tuple(shown_name(self.table, one) for one in sorted(values))

    def partition_values(self, names: Collection[str] | None) -> tuple[PartitionValues, ...] | None:
        """Read partition names as Hive spells them; ``None`` stands for all partitions.

        Raises
        ------
        InvalidInputError
            A name is none of this table's, or there is no name.
        """
        if names is None:
            return None
        columns = [column.name for column in self.table.partition_columns]
        chosen: list[PartitionValues] = []
        for name in names:
            values = partition_values(name)
            if len(values) != len(columns) or name_in(self.table, values).lower() != name.lower():
                example = "/".join(f"{column}=…" for column in columns)
                raise InvalidInputError(
                    f"{name!r} is not a partition of {self.table.name}; expected {example} as SHOW PARTITIONS spells"
                    " it, with %3A for a colon",
                    table=str(self.table.name),
                )
            chosen.append(values)
        if not chosen:
            raise InvalidInputError("no partition is named; leave partitions out for all of them")
        return tuple(dict.fromkeys(chosen))

    @cached_property
    def retention(self) -> timedelta:
        """How long replaced data stays: the table's property wins over the config."""
        of_table = self.hours_property(RETENTION_PROPERTY)
        return self.config.retention if of_table is None else of_table

    def require_properties(self) -> None:
        """Refuse a table whose properties ask this library for something that it does not understand.

        Raises
        ------
        InvalidInputError
            One has a name that looks like this library's and is none, or a value that is no number of hours.
        """
        for name, meant in unknown_properties(self.table.parameters).items():
            raise InvalidInputError(
                f"table_writer knows no table property {name}{meant or '.'} Take it away, or spell it right: ALTER"
                f" TABLE {self.table.name} UNSET TBLPROPERTIES ('{name}'). Known are {', '.join(HOURS_PROPERTIES)}",
                table=str(self.table.name),
            )
        for name in HOURS_PROPERTIES:
            self.hours_property(name)

    def hours_property(self, name: str) -> timedelta | None:
        """Return a table property that is a number of hours, ``None`` if the table does not have it.

        Raises
        ------
        InvalidInputError
            It is no number, negative, or more than a hundred years.
        """
        text = self.table.parameters.get(name)
        if text is None:
            return None
        try:
            hours = timedelta(hours=float(text))
        except (ValueError, OverflowError):
            hours = timedelta(days=-1)
        if not timedelta(0) <= hours <= LONGEST_AGE:
            raise InvalidInputError(
                f"table property {name}={text!r} of {self.table.name} is not a number of hours, from 0 to"
                f" {LONGEST_AGE // timedelta(hours=1):,} (100 years)",
                table=str(self.table.name),
            )
        return hours


def require_table(table: Table | None, name: TableName, metastore_uri: str) -> Table:
    """Return the table; refuse one that is not there or has no files of its own."""
    if table is None:
        raise InvalidInputError(f"there is no table {name} in the metastore at {metastore_uri}", table=str(name))
    if not table.location or "VIEW" in table.kind:
        raise InvalidInputError(f"{name} is a view ({table.kind}): it has no log of its own", table=str(name))
    return table


class Services:
    """Opens services for the tables of one metastore.

    Parameters
    ----------
    session, config
        Hadoop's settings, and what the user says beside them.
    open_metastore, open_object_store, sleep
        Replaced by doubles in tests.
    """

    def __init__(
        self,
        session: SessionSettings,
        config: TableWriterConfig,
        *,
        open_metastore: Callable[[MetastoreSettings], Metastore] = HiveMetastore,
        open_object_store: Callable[[StoreSettings], ObjectStore] = open_store,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.session = session
        self.config = config
        self.metastore = open_metastore(_metastore_settings(session, config))
        self._sleep = sleep
        self._open_object_store = cache(open_object_store)  # a client of S3 takes 100 to 200 ms to make

    def open_table(
        self,
        name: TableName,
        require: Callable[[Table | None, TableName, str], Table] = require_table,
    ) -> TableServices:
        """Look a table up and open its store.

        Raises
        ------
        InvalidInputError
            The table does not exist or is not what is required, or its store is not supported.
        MetastoreError, StorageError
            One of the two cannot be reached.
        """
        table = require(self.metastore.get_table(name), name, self.metastore.uri)
        layout = TableLayout(Location.parse(table.root), self.config.directory_name)
        settings = settings_for(layout.root, self.session.hadoop, self.config.s3)
        return TableServices(
            table=table,
            layout=layout,
            store=self._open_object_store(settings),
            store_settings=settings,
            metastore=self.metastore,
            session=self.session,
            config=self.config,
            sleep=self._sleep,
        )


def _metastore_settings(session: SessionSettings, config: TableWriterConfig) -> MetastoreSettings:
    uris = {"hive.metastore.uris": ",".join(config.metastore_uris)} if config.metastore_uris else {}
    settings = MetastoreSettings.from_hadoop({**session.hadoop, **uris}, ca_file=config.metastore_ca_file)
    return replace(settings, timeout_seconds=config.metastore_timeout_seconds)
