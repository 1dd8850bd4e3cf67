"""The metastore runs alone, comes back on its port, and remembers what its database remembers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Database

from table_writer.errors import MetastoreError
from table_writer.metastore.connection import Connection
from table_writer.metastore.settings import MetastoreSettings
from table_writer.testing import LakehouseError, MetastoreServer


def call(uri: str, method: str, *arguments: object) -> Any:
    return Connection(MetastoreSettings(uris=(uri,), read_attempts=1)).read(method, *arguments, table="")


def databases(uri: str) -> list[str]:
    return sorted(call(uri, "get_all_databases"))


def create_database(uri: str, name: str, location: Path) -> None:
    call(uri, "create_database", Database(name=name, locationUri=location.as_uri(), parameters={}))


@pytest.mark.slow
def test_a_metastore_in_memory_comes_back_empty_on_the_same_port(tmp_path: Path) -> None:
    with MetastoreServer() as metastore:
        uri, pid = metastore.uri, metastore.pid
        create_database(uri, "sales", tmp_path / "sales")
        assert databases(uri) == ["default", "sales"]
        metastore.kill()
        assert repr(metastore) == "MetastoreServer(not running)"
        with pytest.raises(MetastoreError, match="not reachable"):
            databases(uri)
        metastore.restart()
        assert metastore.uri == uri
        assert metastore.pid != pid
        assert databases(uri) == ["default"]
    with pytest.raises(MetastoreError, match="not reachable"):
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
        assert call(metastore.uri, "get_database", "default").locationUri == f"file:{tmp_path}/warehouse"


def test_a_metastore_that_does_not_start_shows_the_end_of_its_log() -> None:
    settings = {"javax.jdo.option.ConnectionDriverName": "no.such.Driver", "hive.hmshandler.retry.attempts": "0"}
    metastore = MetastoreServer(settings=settings)
    with pytest.raises(LakehouseError, match=r"(?s)Hive metastore ended while it was starting.*persistence manager"):
        metastore.start()
    assert not metastore._scratch


def test_without_a_start_there_is_no_uri_and_without_java_no_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    metastore = MetastoreServer()
    metastore.stop()
    metastore.kill()
    with pytest.raises(LakehouseError, match="not running"):
        _ = metastore.uri
    monkeypatch.setenv("JAVA_HOME", "/does/not/exist")
    with pytest.raises(LakehouseError, match="no java"):
        metastore.start()
    assert not metastore._scratch
