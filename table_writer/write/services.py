"""The one factory: real services for a metastore and a table. Everything else is handed its services."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache

from table_writer.config import SessionSettings, TableWriterConfig
from table_writer.errors import InvalidInputError
from table_writer.log.open_table import OpenTable
from table_writer.metastore.hive import HiveMetastore
from table_writer.metastore.protocol import Metastore
from table_writer.metastore.settings import MetastoreSettings
from table_writer.model.location import Location
from table_writer.model.table import Table, TableName
from table_writer.model.write import TableLayout
from table_writer.storage import ObjectStore, StoreSettings, open_store, settings_for

__all__ = ["Services", "require_table"]


def require_table(table: Table | None, name: TableName, metastore_uri: str) -> Table:
    """Return the table; refuse one that is not there or has no files of its own."""
    if table is None:
        raise InvalidInputError(f"there is no table {name} in the metastore at {metastore_uri}", table=str(name))
    if not table.location or "VIEW" in table.kind:
        raise InvalidInputError(f"{name} is a view ({table.kind}): it has no log of its own", table=str(name))
    return table


class Services:
    """Opens services for the tables of one metastore; tests replace the three functions by doubles."""

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
        self, name: TableName, require: Callable[[Table | None, TableName, str], Table] = require_table
    ) -> OpenTable:
        """Look a table up and open its store; raises what ``require`` raises, and for a store that is not supported."""
        table = require(self.metastore.get_table(name), name, self.metastore.uri)
        layout = TableLayout(Location.parse(table.root), self.config.directory_name)
        settings = settings_for(layout.root, self.session.hadoop, self.config.s3)
        return OpenTable(
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
