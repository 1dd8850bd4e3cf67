"""The one factory: real services for a Spark session and a table. Everything else is handed its services."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache, cached_property

from pyspark.sql import SparkSession

from table_writer.complete import Completer
from table_writer.config import TableWriterConfig
from table_writer.errors import InvalidInputError
from table_writer.log.registration import writer_identity
from table_writer.log.table_log import TableLog
from table_writer.metastore.hive import HiveMetastore
from table_writer.metastore.protocol import Metastore
from table_writer.metastore.settings import MetastoreSettings
from table_writer.model.location import Location
from table_writer.model.table import Table, TableName
from table_writer.model.write import TableLayout
from table_writer.plan.planner import Planner
from table_writer.plan.session import SessionSettings, read_session
from table_writer.plan.table_check import require_writable
from table_writer.publish.publisher import Publisher
from table_writer.publish.recovery import Recovery
from table_writer.publish.switch import Switch
from table_writer.storage import ObjectStore, StoreSettings, committer_threads, open_store, settings_for

__all__ = ["SessionServices", "TableServices"]

COMPLETE_THREADS = 8  # Hadoop's default of fs.s3a.committer.threads, for stores that are not S3
RETENTION_PROPERTY = "table_writer.retention"


@dataclass(frozen=True, kw_only=True)
class TableServices:
    """The services that one write to one table needs."""

    table: Table
    layout: TableLayout
    store: ObjectStore
    store_settings: StoreSettings
    metastore: Metastore
    session: SessionSettings
    config: TableWriterConfig

    @cached_property
    def identity(self) -> dict[str, str]:
        """Who writes."""
        return writer_identity(self.session.application_id)

    @cached_property
    def log(self) -> TableLog:
        """The table's log."""
        return TableLog(self.store, self.layout)

    def planner(self) -> Planner:
        """Step 1."""
        return Planner(
            self.table,
            self.layout,
            self.store,
            self.store_settings,
            self.log,
            self.metastore,
            session=self.session,
            config=self.config,
        )

    def completer(self) -> Completer:
        """Step 3."""
        configured = committer_threads(self.layout.root, self.session.hadoop)
        threads = self.config.complete_threads or configured or COMPLETE_THREADS
        return Completer(self.store, threads=threads)

    def switch(self) -> Switch:
        """The one call of step 5."""
        return Switch(self.metastore, call_timeout_seconds=self.config.metastore_timeout_seconds)

    def recovery(self) -> Recovery:
        """Settles what dead writers left in doubt."""
        timeout = self.config.publish_timeout_seconds
        return Recovery(
            self.log,
            self.metastore,
            self.switch(),
            self.layout,
            publish_timeout_seconds=timeout,
            identity=self.identity,
        )

    def publisher(self) -> Publisher:
        """Step 5."""
        return Publisher(
            self.store,
            self.log,
            self.metastore,
            self.switch(),
            self.recovery(),
            publish_timeout_seconds=self.config.publish_timeout_seconds,
            retention=self.retention,
            identity=self.identity,
        )

    def marks_success(self) -> bool:
        """Whether ``_SUCCESS`` is wanted."""
        wanted = self.session.hadoop.get("mapreduce.fileoutputcommitter.marksuccessfuljobs", "true")
        return wanted.lower() != "false" if self.config.mark_success is None else self.config.mark_success

    @cached_property
    def retention(self) -> timedelta:
        """How long replaced data stays: the table's property wins over the config."""
        text = self.table.parameters.get(RETENTION_PROPERTY)
        if text is None:
            return self.config.retention
        try:
            retention = timedelta(hours=float(text))
        except (ValueError, OverflowError):
            retention = timedelta(days=-1)
        if retention < timedelta(0):
            raise InvalidInputError(
                f"table property {RETENTION_PROPERTY}={text!r} of {self.table.name} is not a number of hours",
                table=str(self.table.name),
            )
        return retention


class SessionServices:
    """Opens services for the tables of one Spark session.

    Parameters
    ----------
    spark, config
        The session, and what the user says beside its settings.
    open_metastore, open_object_store
        Replaced by doubles in tests.
    """

    def __init__(
        self,
        spark: SparkSession,
        config: TableWriterConfig,
        *,
        open_metastore: Callable[[MetastoreSettings], Metastore] = HiveMetastore,
        open_object_store: Callable[[StoreSettings], ObjectStore] = open_store,
    ) -> None:
        self._spark = spark
        self._config = config
        self._session = read_session(spark, config.hadoop)
        self.metastore = open_metastore(_metastore_settings(self._session, config))
        self._open_object_store = cache(open_object_store)  # a client of S3 takes 100 to 200 ms to make

    def open_table(self, text: str) -> TableServices:
        """Look a table up and open its store.

        Raises
        ------
        InvalidInputError
            The table does not exist or cannot be written, or its store is not supported.
        MetastoreError, StorageError
            One of the two cannot be reached.
        """
        name = TableName.parse(text, default_database=self._spark.catalog.currentDatabase())
        table = require_writable(self.metastore.get_table(name), name, self.metastore.uri)
        layout = TableLayout(Location.parse(table.location), self._config.directory_name)
        settings = settings_for(layout.root, self._session.hadoop, self._config.s3)
        services = TableServices(
            table=table,
            layout=layout,
            store=self._open_object_store(settings),
            store_settings=settings,
            metastore=self.metastore,
            session=self._session,
            config=self._config,
        )
        _ = services.retention  # a property that cannot be read is a bad call too
        return services


def _metastore_settings(session: SessionSettings, config: TableWriterConfig) -> MetastoreSettings:
    uris = {"hive.metastore.uris": ",".join(config.metastore_uris)} if config.metastore_uris else {}
    settings = MetastoreSettings.from_hadoop({**session.hadoop, **uris}, ca_file=config.metastore_ca_file)
    return replace(settings, timeout_seconds=config.metastore_timeout_seconds)
