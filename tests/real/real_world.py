"""One table on a real Hive metastore and a real S3 endpoint, in any process."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from table_writer.config import TableWriterConfig
from table_writer.metastore.hive import HiveMetastore
from table_writer.metastore.settings import MetastoreSettings
from table_writer.model.table import Column, Table, TableName
from table_writer.storage.object_store import open_store
from table_writer.storage.s3.settings import S3Settings, StaticKeys
from tests.metastore.conftest import INPUT_FORMAT, OUTPUT_FORMAT, SERDE, thrift_table
from tests.publish.world import FaultyWorld
from tests.real.hooked import HookedMetastore, HookedStore

DATABASE = "real"


FORMATS = {"serde": SERDE, "input_format": INPUT_FORMAT, "output_format": OUTPUT_FORMAT}
CONFIG = TableWriterConfig(metastore_timeout_seconds=30, publish_timeout_seconds=70, heartbeat_seconds=0.5)


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where the servers are, for this process and for those it starts."""

    metastore_uri: str
    endpoint_url: str
    bucket: str
    access_key: str
    secret_key: str = field(repr=False)
    s3_server: str
    metastore_timeout_seconds: float = CONFIG.metastore_timeout_seconds

    def metastore(self) -> HiveMetastore:
        return HiveMetastore(
            MetastoreSettings(uris=(self.metastore_uri,), timeout_seconds=self.metastore_timeout_seconds)
        )

    def world(self, table: str, config: TableWriterConfig = CONFIG) -> RealWorld:
        store = open_store(
            S3Settings(
                bucket=self.bucket,
                endpoint_url=self.endpoint_url,
                path_style=True,
                credentials=(StaticKeys(access_key=self.access_key, secret_key=self.secret_key),),
            )
        )
        return RealWorld(
            store=HookedStore(store),
            metastore=HookedMetastore(self.metastore()),
            name=TableName(DATABASE, table),
            root=f"s3a://{self.bucket}/{DATABASE}/{table}/",
            config=config,
        )


@dataclass
class RealWorld(FaultyWorld):
    """A table over real parts; time is skipped by the reader of ages, not by the servers."""

    partition_keys: tuple[str, ...] = ("dt",)

    def create(self) -> RealWorld:
        by = tuple(Column(name, "string") for name in self.partition_keys)
        self.make(self.name, location=self.root, partition_columns=by, parameters={"EXTERNAL": "TRUE"})
        return self

    def make(self, name: TableName, *, kind: str = "EXTERNAL_TABLE", location: str = "", **fields: Any) -> None:
        """Make any table behind the library's back."""
        fields = {"columns": (Column("id", "bigint"),), "partition_columns": (), **FORMATS, **fields}
        self.change("create_table", thrift_table(Table(name=name, kind=kind, location=location, **fields)))

    def wait_out_claims(self) -> None:
        self.store.skipped_seconds += self.wait_seconds

    def lose_metastore(self) -> None:
        time.sleep(1.1)  # the metastore counts creation in whole seconds
        self.drop()
        self.create()

    def become_unpartitioned(self) -> None:
        self.partition_keys = ()
        self.drop()
        self.create()

    def drop(self) -> None:
        self.change("drop_table", self.name.database, self.name.name, False)

    def change(self, method: str, *arguments: Any) -> None:
        """Send a call of Thrift's."""
        self.metastore.real._connection.change(method, *arguments, table=str(self.name))
