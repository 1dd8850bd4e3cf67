"""The metastore runs alone, comes back on its port, and remembers what its database remembers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from hmsclient.genthrift.hive_metastore.ttypes import Database
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from table_writer.testing import LakehouseError, MetastoreServer


@contextmanager
def connected(uri: str) -> Iterator[ThriftHiveMetastore.Client]:
    address = urlsplit(uri)
    transport = TBufferedTransport(TSocket(address.hostname, address.port))
    transport.open()
    try:
        yield ThriftHiveMetastore.Client(TBinaryProtocolAccelerated(transport))
    finally:
        transport.close()


def databases(uri: str) -> list[str]:
    with connected(uri) as client:
        return sorted(client.get_all_databases())


def create_database(uri: str, name: str, location: Path) -> None:
    with connected(uri) as client:
        client.create_database(Database(name=name, locationUri=location.as_uri(), parameters={}))


@pytest.mark.slow
def test_a_metastore_in_memory_comes_back_empty_on_the_same_port(tmp_path: Path) -> None:
    with MetastoreServer() as metastore:
        uri, pid = metastore.uri, metastore.pid
        create_database(uri, "sales", tmp_path / "sales")
        assert databases(uri) == ["default", "sales"]
        metastore.kill()
        assert repr(metastore) == "MetastoreServer(not running)"
        with pytest.raises(TTransportException):
            databases(uri)
        metastore.restart()
        assert metastore.uri == uri
        assert metastore.pid != pid
        assert databases(uri) == ["default"]
    with pytest.raises(TTransportException):
        databases(uri)


@pytest.mark.slow
def test_a_durable_metastore_survives_a_kill_and_its_own_object(tmp_path: Path) -> None:
    durable = tmp_path / "derby"
    with MetastoreServer(directory=durable, warehouse=(tmp_path / "warehouse").as_uri()) as metastore:
        create_database(metastore.uri, "sales", tmp_path / "sales")
        metastore.kill()
        metastore.restart()
        assert databases(metastore.uri) == ["default", "sales"]
    with MetastoreServer(directory=durable) as metastore:
        assert databases(metastore.uri) == ["default", "sales"]
        with connected(metastore.uri) as client:
            assert client.get_database("default").locationUri == f"file:{tmp_path}/warehouse"


def test_a_metastore_that_does_not_start_shows_the_end_of_its_log() -> None:
    settings = {"javax.jdo.option.ConnectionDriverName": "no.such.Driver", "hive.hmshandler.retry.attempts": "0"}
    metastore = MetastoreServer(settings=settings)
    with pytest.raises(LakehouseError, match=r"(?s)Hive metastore ended while it was starting.*persistence manager"):
        metastore.start()
    assert not metastore._scratch


def test_a_metastore_that_was_not_started_has_no_uri() -> None:
    metastore = MetastoreServer()
    metastore.stop()
    metastore.kill()
    with pytest.raises(LakehouseError, match="not running"):
        _ = metastore.uri


def test_without_java_nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/does/not/exist")
    metastore = MetastoreServer()
    with pytest.raises(LakehouseError, match="no java"):
        metastore.start()
    assert not metastore._scratch
