"""Worlds to run the contract in: the double, and a real Hive metastore."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore, ttypes
from moto.server import ThreadedMotoServer
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TTransportException

from table_writer.metastore.connection import Connection
from table_writer.metastore.glue import GlueMetastore, make_clients
from table_writer.metastore.hive import HiveMetastore
from table_writer.metastore.protocol import Metastore
from table_writer.metastore.settings import GlueSettings, MetastoreSettings
from table_writer.model.table import Column, Partition, PartitionValues, Table, TableName
from table_writer.testing import MetastoreServer
from table_writer.testing.choices import HiveVersion
from table_writer.testing.memory_metastore import MemoryMetastore
from table_writer.testing.pytest_plugin import chosen_option
from tests.bare_server import BareServer
from tests.doubles.glue import GlueDouble, table_input
from tests.metastore.databases import DATABASES, Database

FIGURES = {
    "numFiles": "7",
    "totalSize": "700",
    "numRows": "70",
    "rawDataSize": "7000",
    "spark.sql.statistics.numRows": "70",
}
IGNORES_EXPECTATIONS = ("3.1.3",)  # of alter_table
SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
INPUT_FORMAT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
OUTPUT_FORMAT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"

CALLS = "it counts Hive's calls; Glue's are counted in tests/glue"
GLUE_DIFFERS = {
    "test_add_adds_nothing_if_one_exists": "Glue adds the others: tests/glue/test_gateway.py",
    "test_alter_changes_nothing_if_one_is_missing": "Glue changes the others: tests/glue/test_gateway.py",
    "test_the_version_is_told_by_reading": "Glue has no version",
    "test_a_partition_just_added_is_altered_without_reading_it": CALLS,
    "test_six_hundred_partitions_switch_in_one_call": CALLS,
    "test_a_change_asks_once_before_it_is_sent_and_not_at_all_if_refused": CALLS,
    "test_all_partitions_are_read_by_their_names": CALLS,
    "test_threads_share_one_metastore": CALLS,
    "test_reading_and_moving_it_cost_one_call_each": CALLS,
    "test_it_can_be_neither_added_nor_dropped": CALLS,
}
"""What of the contract AWS Glue does not keep, by test."""
STALE = "moto accepts a stale VersionId"
HIVE_4_HAS = {
    "test_a_password_is_taken_and_a_wrong_one_is_said",
    "test_thrift_over_http_is_spoken_and_a_wrong_token_turned_away",
}
MOTO_DIFFERS = {
    "test_a_lost_update_is_refused": STALE,
    "test_a_table_is_added_once_and_found_by_what_its_parameter_names": STALE,
    "test_of_four_racing_writers_one_wins_if_compared": STALE,
}
"""What moto does otherwise than AWS; it accepts more than 100 partitions a call as well."""


@dataclass(frozen=True)
class World:
    """A metastore under test, and tables in it that were made behind its back."""

    metastore: Metastore
    root: str
    create: Callable[[Table], object]
    compares_and_sets: bool = True

    def table(self, partition_columns: Sequence[str] = ("dt",), **changes: Any) -> Table:
        """Create a table and read it."""
        name = TableName("default", f"t{uuid.uuid4().hex[:12]}")
        described = {
            "name": name,
            "kind": "EXTERNAL_TABLE",
            "location": f"{self.root}/{name.name}/",
            "columns": (Column("id", "bigint", "a key"), Column("tags", "array<struct<a:int,b:string>>")),
            "partition_columns": tuple(Column(column, "string") for column in partition_columns),
            "parameters": {"EXTERNAL": "TRUE", "owner team": "ünïcode"},
            "input_format": INPUT_FORMAT,
            "output_format": OUTPUT_FORMAT,
            "serde": SERDE,
            "serde_parameters": {"serialization.format": "1", "path": f"{self.root}/{name.name}"},
            "bucket_columns": ("id",),
        }
        self.create(Table(**{**described, **changes}))
        table = self.metastore.get_table(name)
        assert table is not None
        return table

    def partition(self, *values: str, at: str = "a", parameters: Mapping[str, str] = FIGURES) -> Partition:
        """Describe a partition to add; all share one location, which costs the server least."""
        return Partition(values=values, location=f"{self.root}/{at}/", parameters=parameters)

    def read(self, table: Table, *values: str) -> Partition:
        """Read one partition that exists."""
        return self.metastore.get_partitions(table, [values])[values]

    def locations(self, table: Table) -> dict[PartitionValues, str]:
        """Return the last directory of each partition's location, by values."""
        values = self.metastore.get_partition_names(table.name)
        partitions = self.metastore.get_partitions(table, values)
        return {one: partition.location.rstrip("/").rpartition("/")[2] for one, partition in partitions.items()}


def thrift_table(table: Table) -> ttypes.Table:
    """Spell a table for ``create_table``."""
    return ttypes.Table(
        tableName=table.name.name,
        dbName=table.name.database,
        owner="somebody",
        createTime=1,
        lastAccessTime=0,
        retention=0,
        tableType=table.kind,
        parameters=dict(table.parameters),
        partitionKeys=[ttypes.FieldSchema(column.name, column.type, None) for column in table.partition_columns],
        viewOriginalText="select 1" if "VIEW" in table.kind else None,
        viewExpandedText="select 1" if "VIEW" in table.kind else None,
        sd=ttypes.StorageDescriptor(
            cols=[ttypes.FieldSchema(column.name, column.type, column.comment or None) for column in table.columns],
            location=table.location.rstrip("/") or None,
            inputFormat=table.input_format,
            outputFormat=table.output_format,
            compressed=False,
            numBuckets=4,
            bucketCols=list(table.bucket_columns),
            sortCols=[],
            parameters={},
            serdeInfo=ttypes.SerDeInfo(None, table.serde, dict(table.serde_parameters)),
            storedAsSubDirectories=False,
        ),
    )


def hive_world(uri: str, root: Path, **settings: Any) -> World:
    """Return a world whose metastore listens at ``uri``; the backdoor is a connection of its own."""
    backdoor = Connection(MetastoreSettings(uris=(uri,)))

    def create(table: Table) -> None:
        backdoor.change("create_table", thrift_table(table), table=str(table.name))

    metastore = HiveMetastore(MetastoreSettings(**{"uris": (uri,), **settings}))
    return World(metastore, f"file:{root}", create)


def require_version(uri: str, hive: str) -> None:
    """Fail unless the metastore is of that Hive, as far as it says: 2.3.9, of Spark 3.5, looks like any 2.3."""
    with HiveMetastore(MetastoreSettings(uris=(uri,))) as metastore:
        told = metastore.server_version()
    assert told == {"2.3.10": told if told.startswith("2.3") else "2.3", "3.1.3": "3"}.get(hive, hive)


@contextmanager
def metastore_on(
    database: Database, *, hive: HiveVersion, settings: Mapping[str, str], jars: Sequence[Path] = ()
) -> Iterator[MetastoreServer]:
    """Start a database, and a metastore on it that has made its tables there."""
    with database:
        settings = {"hive.hmshandler.retry.attempts": "1", **settings, **database.settings()}  # not 10, each 2 s later
        jars = (*jars, *database.driver)
        with MetastoreServer(hive=hive, settings=settings, jars=jars) as metastore, TemporaryDirectory() as root:
            require_version(metastore.uri, hive)
            world = hive_world(metastore.uri, Path(root))
            world.metastore.add_partitions(world.table(), [world.partition("1")])
            database.prepare()
            yield metastore


def thrift_server(handler: ThriftHiveMetastore.Processor, transport: Callable[[Any], Any]) -> BareServer:
    """Answer calls of Thrift from Python."""

    def converse(end: socket.socket) -> None:
        held = TSocket()
        held.setHandle(end)
        protocol = TBinaryProtocol(transport(held))
        with suppress(TTransportException):
            while True:
                handler.process(protocol, protocol)

    return BareServer(converse)


@pytest.fixture
def double() -> World:
    metastore = MemoryMetastore()
    return World(metastore, "file:/wh", metastore.create_table)


@pytest.fixture(scope="session")
def metastore_server(request: pytest.FixtureRequest, hive_version: Any) -> Iterator[MetastoreServer]:
    """Return a metastore with Hive's defaults, where statistics are gathered."""
    settings, name = {"hive.stats.autogather": "true"}, request.config.getoption("--metastore-database")
    if name:
        started = metastore_on(DATABASES[name](), hive=hive_version, settings=settings)
    else:
        started = MetastoreServer(hive=hive_version, settings=settings)
    with started as server:
        require_version(server.uri, hive_version)
        yield server


@pytest.fixture(scope="session")
def hive_version(request: pytest.FixtureRequest) -> str:
    """Return which Hive the real metastore is of: ``--lakehouse-hive``."""
    return str(chosen_option(request.config, "hive"))


@pytest.fixture
def hive(metastore_server: MetastoreServer, hive_version: str, tmp_path: Path) -> World:
    world = hive_world(metastore_server.uri, tmp_path)
    return replace(world, compares_and_sets=hive_version not in IGNORES_EXPECTATIONS)


@pytest.fixture
def backdoor(metastore_server: MetastoreServer) -> Connection:
    """Return a connection of another tool to the metastore of ``hive``."""
    return Connection(MetastoreSettings(uris=(metastore_server.uri,)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what does not hold of Glue, or of moto's, and of older Hives what only Hive 4 has."""
    is_hive_4 = str(chosen_option(config, "hive")).startswith("4.")
    out = [one for one in items if _differs(one) or (not is_hive_4 and _name(one) in HIVE_4_HAS)]
    config.hook.pytest_deselected(items=out)
    items[:] = [one for one in items if one not in out]


def _name(item: pytest.Item) -> str:
    return str(getattr(item, "originalname", ""))


def _differs(item: pytest.Item) -> bool:
    kind = item.callspec.params.get("world") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ""
    name = _name(item)
    return (kind in {"glue", "moto"} and name in GLUE_DIFFERS) or (kind == "moto" and name in MOTO_DIFFERS)


@pytest.fixture(params=["memory", "hive", "glue", pytest.param("moto", marks=pytest.mark.slow)])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    if request.param == "hive":
        return request.getfixturevalue("hive")
    if request.param == "moto":
        return request.getfixturevalue("moto_glue")
    double = GlueDouble() if request.param == "glue" else MemoryMetastore()
    return World(double, f"file:{tmp_path}", double.create_table)


@pytest.fixture(scope="session")
def moto_server() -> Iterator[str]:
    """Return the address of moto's Glue."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def moto_glue(moto_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return a world over moto: the product's own clients and real HTTP."""
    for name, value in (("AWS_ACCESS_KEY_ID", "x"), ("AWS_SECRET_ACCESS_KEY", "x"), ("AWS_REGION", "us-east-1")):
        monkeypatch.setenv(name, value)
    settings = GlueSettings(region="us-east-1", endpoint_url=moto_server)
    client = make_clients(settings).changes
    with suppress(client.exceptions.AlreadyExistsException):
        client.create_database(DatabaseInput={"Name": "default"})

    def create(table: Table) -> None:
        client.create_table(DatabaseName=table.name.database, TableInput=table_input(table))

    return World(GlueMetastore(settings), f"file:{tmp_path}", create)
