"""The S3 server holds a bucket, keeps its secret, and goes away."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from table_writer.testing import LakehouseError, S3Server
from table_writer.testing.servers import VERSITYGW_INSTALL, S3ServerName, _find_versitygw

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
