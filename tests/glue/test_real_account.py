"""The script for a real account runs, and tells where moto is not AWS."""

from __future__ import annotations

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.glue import real_account


@pytest.mark.slow
def test_the_script_runs_cleans_up_and_names_what_moto_does_otherwise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setattr(real_account, "MANY", 110)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        s3 = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
        s3.create_bucket(Bucket="scratch")
        failed = real_account.main(["--bucket", "scratch", "--region", "us-east-1", "--endpoint", endpoint])
        assert s3.list_objects_v2(Bucket="scratch")["KeyCount"] == 0
        glue = boto3.client("glue", endpoint_url=endpoint, region_name="us-east-1")
        assert glue.get_databases()["DatabaseList"] == []
    finally:
        server.stop()
    said = capsys.readouterr().out
    assert failed == 2, said
    assert "FAILED  stale_version: AssertionError: a stale VersionId was accepted" in said
    assert "FAILED  too_many: AssertionError: 101 partitions were accepted" in said
