"""A durable metastore and an S3 endpoint of their own: these tests kill and restart them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hmsclient.genthrift.hive_metastore import ttypes

from table_writer.testing import MetastoreServer, S3Server
from table_writer.testing.jars import s3a_jars
from table_writer.testing.pytest_plugin import chosen_option
from tests.metastore.conftest import require_version
from tests.real.real_world import DATABASE, Address, RealWorld

numbers = itertools.count(1)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with S3Server("versitygw", bucket="real-parts") as server:
        yield server


@pytest.fixture(scope="session")
def metastore_server(
    request: pytest.FixtureRequest, s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MetastoreServer]:
    directory: Path = tmp_path_factory.mktemp("derby") / "database"
    settings, hive = s3_server.hadoop_settings(), chosen_option(request.config, "hive")
    with MetastoreServer(hive=hive, directory=directory, settings=settings, jars=s3a_jars()) as server:
        require_version(server.uri, hive)
        yield server


@pytest.fixture(scope="session")
def address(s3_server: S3Server, metastore_server: MetastoreServer) -> Address:
    return address_of(s3_server, metastore_server)


def address_of(s3_server: S3Server, metastore_server: MetastoreServer) -> Address:
    """Make the tests' database."""
    address = Address(
        metastore_uri=metastore_server.uri,
        endpoint_url=s3_server.endpoint_url,
        bucket=s3_server.bucket,
        access_key=s3_server.access_key,
        secret_key=s3_server.secret_key,
        s3_server=s3_server.server,
    )
    with address.metastore() as metastore:
        database = ttypes.Database(DATABASE, "", f"s3a://{s3_server.bucket}/{DATABASE}", {})
        metastore._connection.change("create_database", database, table=DATABASE)
    return address


@pytest.fixture
def new_world(address: Address) -> Iterator[Callable[[], RealWorld]]:
    yield from worlds(address)


def worlds(address: Address) -> Iterator[Callable[[], RealWorld]]:
    """Return a factory of tables, which are dropped at last: a first write reads all that there are."""
    made: list[RealWorld] = []

    def make() -> RealWorld:
        made.append(address.world(f"orders_{next(numbers)}").create())
        return made[-1]

    yield make
    for world in made:
        world.drop()
        world.metastore.real.close()
