"""The one factory: it opens the services for the tables of one metastore."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from typing import Any, Final

from table_writer.checked import nearest
from table_writer.config import SessionSettings, TableWriterConfig
from table_writer.errors import InvalidInputError, MetastoreError
from table_writer.metastore.protocol import Metastore, require_named
from table_writer.metastore.settings import Credentials, GlueSettings, MetastoreSettings
from table_writer.model.location import Location, Place
from table_writer.model.table import Table, TableName
from table_writer.model.write import TableLayout
from table_writer.protocol.table.open_table import OpenTable
from table_writer.storage.kinds import KINDS, settings_for
from table_writer.storage.object_store import ObjectStore, StoreSettings, open_store

logger = logging.getLogger(__name__)
MOST_COMPARED: Final = 1_000  # tables whose names are compared with one that is not there


def require_table(table: Table | None, name: TableName, metastore_uri: str, meant: str = "") -> Table:
    """Return the table; refuse one that is not there or has no files of its own.

    ``meant`` is what :func:`nearest_names` says of one that is not there.
    """
    if table is None:
        raise InvalidInputError(f"there is no table {name} in the metastore at {metastore_uri}{meant}", table=str(name))
    if not table.location or "VIEW" in table.kind:
        raise InvalidInputError(f"{name} is a view ({table.kind}): it has no log of its own", table=str(name))
    return table


def nearest_names(metastore: Metastore, name: TableName) -> str:
    """Say of a table that is not there which database is not, or which table may be meant; empty if nobody knows."""
    try:
        databases = metastore.get_databases()
        if name.database not in databases:
            return f", which has no database {name.database}{nearest(name.database, databases)}"
        tables = islice(metastore.get_tables(name.database), MOST_COMPARED)
        return nearest(name.name, [table.name.name for table in tables])
    except MetastoreError as error:
        logger.info("not known what %s may mean: %s", name, error)
        return ""


AnySettings = MetastoreSettings | GlueSettings


def _metastore_settings(session: SessionSettings, config: TableWriterConfig) -> AnySettings:
    """Return the settings of Hive's metastore, or of AWS Glue where the config or the session says so."""
    named = config.metastore_uris or ()
    if config.metastore == "glue" or (config.metastore is None and GlueSettings.are_meant(session.hadoop, named)):
        return config.glue.completed_from(session.hadoop, *named[:1])
    return MetastoreSettings.from_hadoop(
        {**session.hadoop, **config.metastore_setting},
        ca_file=config.metastore_ca_file,
        credentials=Credentials(
            token=session.metastore_token,
            password=config.metastore_password,
            password_in_clear=config.metastore_password_in_clear,
        ),
    )


def open_metastore(settings: AnySettings) -> Metastore:
    """Open the metastore that the settings are for."""
    if isinstance(settings, GlueSettings):
        from table_writer.metastore.glue import GlueMetastore  # noqa: PLC0415 - boto3 is of no use to Hive's metastore

        return GlueMetastore(settings)
    from table_writer.metastore.hive import HiveMetastore  # noqa: PLC0415 - nor is Thrift to AWS Glue

    return HiveMetastore(settings)


def hadoop_without_spark(config: TableWriterConfig) -> Mapping[str, str]:
    """Return the settings of a config, and where each kind of store looks for a login that it does not name."""
    found = dict(config.hadoop)
    for kind in KINDS:
        found |= kind.without_spark(config.hadoop)
    return found


class Services:
    """Opens services for the tables of one metastore; tests replace the three functions by doubles."""

    def __init__(
        self,
        session: SessionSettings,
        config: TableWriterConfig,
        *,
        open_metastore: Callable[[AnySettings], Metastore] = open_metastore,
        open_object_store: Callable[[StoreSettings], ObjectStore] = open_store,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.session = session
        self.config = config
        settings = replace(_metastore_settings(session, config), timeout_seconds=config.metastore_timeout_seconds)
        self._open_metastore = partial(open_metastore, settings)
        self.metastore = self._open_metastore()
        self._sleep = sleep
        self._memory: dict[tuple[str, Place], Any] = {}
        self._open_anew = open_object_store
        self._open_object_store = cache(open_object_store)  # a client of S3 takes 100 to 200 ms to make

    @classmethod
    def without_spark(cls, metastore_uri: str | None, config: TableWriterConfig) -> Services:
        """Take all settings from the config; credentials of S3 that it does not name are what the AWS SDK finds."""
        if metastore_uri is not None:
            config = replace(config, metastore_uris=tuple(metastore_uri.split(",")))
        return cls(SessionSettings(hadoop=hadoop_without_spark(config)), config)

    @property
    def has_doubles(self) -> bool:
        """Whether a double stands for the stores, which no other process reaches."""
        return self._open_anew is not open_store

    def open_table(
        self, name: TableName, require: Callable[[Table | None, TableName, str, str], Table] = require_table
    ) -> OpenTable:
        """Look a table up and open its store; raises what ``require`` raises, and for a store that is not supported."""
        found = self.metastore.get_table(name)
        meant = "" if found else nearest_names(self.metastore, name)
        known = found and require_named(name, found, self.metastore.uri)
        return self.open_known_table(require(known, name, self.metastore.uri, meant))

    def beside(self) -> Services:
        """Return the same with a connection to the metastore of its own, and the same stores."""
        other = copy(self)
        other.metastore = self._open_metastore()
        return other

    def store_of(self, location: Location) -> ObjectStore:
        """Return the store of a location, which may be another bucket than its table's."""
        return self._open_object_store(settings_for(location, self.session.hadoop, self.config.s3))

    def open_another(self, location: Location) -> ObjectStore:
        """Open the store of a location once more, with a client that nobody else has."""
        return self._open_anew(settings_for(location, self.session.hadoop, self.config.s3))

    def open_known_table(self, table: Table) -> OpenTable:
        """Open the store of a table that was looked up already."""
        layout = TableLayout(Location.parse(table.root), self.config.directory_name)
        settings = settings_for(layout.root, self.session.hadoop, self.config.s3)
        return OpenTable(
            table=table,
            layout=layout,
            store=self.store_of(layout.root),
            store_settings=settings,
            metastore=self.metastore,
            session=self.session,
            config=self.config,
            sleep=self._sleep,
            memory=self._memory,
        )
