"""What stands between botocore and Glue: answers that are cut short, a proxy's, and connections that end."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from table_writer.errors import LostResponseError, MetastoreError
from table_writer.metastore.glue import GlueMetastore
from table_writer.metastore.settings import GlueSettings
from table_writer.model.table import Partition, PartitionChange, Table, TableName

NAME = TableName("mart", "orders")
STORAGE = {"Columns": [{"Name": "id", "Type": "int"}], "Location": "s3://lake/orders", "SerdeInfo": {}}
TABLE = {
    "Name": NAME.name,
    "DatabaseName": NAME.database,
    "CreateTime": 1.0,
    "TableType": "EXTERNAL_TABLE",
    "PartitionKeys": [{"Name": "dt", "Type": "string"}],
    "StorageDescriptor": STORAGE,
    "Parameters": {},
    "VersionId": "1",
}
VALUES = [("d1",), ("d2",)]
REFUSED = {"ErrorCode": "AccessDeniedException", "ErrorMessage": "no"}
PARTITIONS = [{"Values": list(one), "StorageDescriptor": STORAGE, "Parameters": {}} for one in VALUES]
ANSWERS: dict[str, dict[str, Any]] = {
    "GetTable": {"Table": TABLE},
    "GetPartitions": {"Partitions": PARTITIONS},
    "BatchGetPartition": {"Partitions": PARTITIONS},
    "BatchUpdatePartition": {"Errors": [{"PartitionValueList": list(one), "ErrorDetail": REFUSED} for one in VALUES]},
}


@contextmanager
def glue(operation: str, fault: str) -> Iterator[tuple[str, list[str]]]:
    """Run a Glue whose answer to one operation is ``cut``, ``html``, or that ``drops`` it; yields its calls, too."""
    heard: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            asked = self.headers["X-Amz-Target"].rpartition(".")[2]
            heard.append(asked)
            if asked == operation and fault == "drops":
                self.close_connection = True
                return
            body = json.dumps(ANSWERS[asked]).encode()
            if asked == operation and fault == "html":
                body = b"<html>log in</html>"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.close_connection = asked == operation and fault == "cut"
            self.wfile.write(body[: len(body) // 2] if self.close_connection else body)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", heard
        server.shutdown()


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")


def connected(endpoint: str) -> GlueMetastore:
    return GlueMetastore(GlueSettings(region="us-east-1", endpoint_url=endpoint, timeout_seconds=20))


def changes(metastore: GlueMetastore) -> tuple[Table, list[PartitionChange]]:
    table = metastore.get_table(NAME)
    assert table is not None
    found: list[Partition] = list(metastore.get_partitions(table, VALUES).values())
    return table, [PartitionChange(partition=one, location="s3://lake/new", set_parameters={}) for one in found]


@pytest.mark.parametrize("fault", ["cut", "html"])
@pytest.mark.parametrize("operation", ["GetTable", "GetPartitions", "BatchGetPartition"])
def test_a_read_that_is_no_whole_answer_of_glue_is_an_error_and_never_less(operation: str, fault: str) -> None:
    with glue(operation, fault) as (endpoint, _):
        metastore = connected(endpoint)
        with pytest.raises(MetastoreError, match="cut short"):
            changes(metastore)[0] and metastore.get_partition_names(NAME)


@pytest.mark.parametrize("fault", ["cut", "html", "drops"])
def test_a_change_without_a_whole_answer_is_unknown_and_sent_once(fault: str) -> None:
    with glue("BatchUpdatePartition", fault) as (endpoint, heard):
        metastore = connected(endpoint)
        table, moves = changes(metastore)
        with pytest.raises(LostResponseError):
            metastore.alter_partitions(table, moves)
    assert heard.count("BatchUpdatePartition") == 1


@pytest.mark.slow
def test_a_proxy_that_drops_a_change_leaves_it_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "")
    with glue("BatchUpdatePartition", "drops") as (proxy, heard):
        monkeypatch.setenv("HTTP_PROXY", proxy)
        metastore = connected("http://glue.example")
        table, moves = changes(metastore)
        with pytest.raises(LostResponseError):
            metastore.alter_partitions(table, moves)
    assert heard[-1] == "BatchUpdatePartition"


def test_a_whole_refusal_is_a_refusal() -> None:
    with glue("", "") as (endpoint, _):
        metastore = connected(endpoint)
        table, moves = changes(metastore)
        with pytest.raises(MetastoreError, match="AccessDeniedException") as caught:
            metastore.alter_partitions(table, moves)
        assert not isinstance(caught.value, LostResponseError)
