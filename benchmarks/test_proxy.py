"""The proxy changes nothing, counts everything, and delays each request by itself."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from benchmarks.proxy import Sizes
from benchmarks.s3_operations import parse_request
from benchmarks.servers import CountingProxy
from table_writer.testing import S3Server
from table_writer.testing.servers import REGION

BODY = b"0123456789" * 1000
PART = b"x" * (5 * 1024 * 1024)


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server(bucket="counted") as started:
        yield started


@pytest.fixture(scope="module")
def proxy(server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CountingProxy]:
    started = CountingProxy(server.endpoint_url.removeprefix("http://"), tmp_path_factory.mktemp("proxy"))
    yield started
    started.stop()


@pytest.fixture
def client(server: S3Server, proxy: CountingProxy) -> Iterator[Any]:
    made = boto3.session.Session().client(
        "s3",
        endpoint_url=proxy.endpoint_url,
        region_name=REGION,
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
        config=Config(s3={"addressing_style": "path"}, proxies={}, max_pool_connections=16),
    )
    proxy.reset()
    with closing(made):
        yield made
    proxy.reset()


def upload(client: Any, key: str, parts: int) -> None:
    upload_id = client.create_multipart_upload(Bucket="counted", Key=key)["UploadId"]
    done = []
    for number in range(1, parts + 1):
        answer = client.upload_part(Bucket="counted", Key=key, UploadId=upload_id, PartNumber=number, Body=PART)
        done.append({"PartNumber": number, "ETag": answer["ETag"]})
    client.complete_multipart_upload(Bucket="counted", Key=key, UploadId=upload_id, MultipartUpload={"Parts": done})


def test_requests_are_counted_by_operation(client: Any, proxy: CountingProxy) -> None:
    client.put_object(Bucket="counted", Key="a/one", Body=BODY)
    client.head_object(Bucket="counted", Key="a/one")
    assert client.get_object(Bucket="counted", Key="a/one")["Body"].read() == BODY
    client.list_objects_v2(Bucket="counted", Prefix="a/")
    client.copy_object(Bucket="counted", Key="a/two", CopySource={"Bucket": "counted", "Key": "a/one"})
    client.delete_object(Bucket="counted", Key="a/one")
    client.delete_objects(Bucket="counted", Delete={"Objects": [{"Key": "a/two"}]})
    assert proxy.traffic()["requests"] == {
        "PutObject": 1,
        "HeadObject": 1,
        "GetObject": 1,
        "ListObjectsV2": 1,
        "CopyObject": 1,
        "DeleteObject": 1,
        "DeleteObjects": 1,
    }


def test_bytes_are_those_of_bodies_and_copies(client: Any, proxy: CountingProxy) -> None:
    client.put_object(Bucket="counted", Key="copied from", Body=BODY)
    client.copy_object(Bucket="counted", Key="b/two", CopySource={"Bucket": "counted", "Key": "copied from"})
    client.copy_object(Bucket="counted", Key="b/three", CopySource={"Bucket": "counted", "Key": "b/two"})
    client.get_object(Bucket="counted", Key="b/two")["Body"].read()
    found = proxy.traffic()
    assert found["copied_bytes"] == 2 * len(BODY)
    assert found["unknown_copies"] == 0
    assert len(BODY) <= found["sent_bytes"] < len(BODY) + 500  # the checksum may follow in a chunk's trailer
    assert found["answered_bytes"] > len(BODY)


def test_a_multipart_upload_is_as_large_as_its_parts(client: Any, proxy: CountingProxy) -> None:
    upload(client, "c/parts", 2)
    client.copy_object(Bucket="counted", Key="c/copy", CopySource={"Bucket": "counted", "Key": "c/parts"})
    found = proxy.traffic()
    assert found["copied_bytes"] == 2 * len(PART)
    assert found["requests"] == {
        "CreateMultipartUpload": 1,
        "UploadPart": 2,
        "CompleteMultipartUpload": 1,
        "CopyObject": 1,
    }


def test_a_copy_of_an_object_that_never_came_through_is_said_to_be_unknown(
    client: Any, proxy: CountingProxy, server: S3Server
) -> None:
    with closing(server.client()) as direct:
        direct.put_object(Bucket="counted", Key="d/direct", Body=BODY)
    client.copy_object(Bucket="counted", Key="d/copy", CopySource={"Bucket": "counted", "Key": "d/direct"})
    assert proxy.traffic()["unknown_copies"] == 1


def test_refused_requests_are_told_apart(client: Any, proxy: CountingProxy) -> None:
    with pytest.raises(ClientError):
        client.head_object(Bucket="counted", Key="never there")
    assert proxy.traffic()["refused"] == {"HeadObject 404": 1}


def exchange(proxy: CountingProxy, *pieces: bytes) -> bytes:
    """Send some bytes as they are, and return the answer up to the end of the connection."""
    address = ("127.0.0.1", int(proxy.endpoint_url.rpartition(":")[2]))
    with socket.create_connection(address, timeout=30) as connection:
        answers = b""
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(0.05)
        while received := connection.recv(65536):
            answers += received
    return answers


class Echo:
    """A server that repeats the body it gets, after 100 Continue if it is asked to."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.target = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def answer_one(self, body_end: bytes) -> bytes:
        connection, _ = self._listener.accept()
        with connection:
            connection.settimeout(30)
            received = b""
            while not received.endswith(b"\r\n\r\n"):
                received += connection.recv(65536)
            if b"100-continue" in received:
                connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            while not received.endswith(body_end):
                received += connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nyes\r\n0\r\n\r\n")
        self._listener.close()
        return received


def answer_together(listener: socket.socket, count: int) -> None:
    """Answer only when so many requests have come."""
    connections = []
    for _ in range(count):
        connection, _ = listener.accept()
        connection.settimeout(30)
        while not connection.recv(65536).endswith(b"\r\n\r\n"):
            pass
        connections.append(connection)
    for connection in connections:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        connection.close()


def test_each_request_waits_and_holds_up_no_other(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        through = CountingProxy(f"127.0.0.1:{listener.getsockname()[1]}", tmp_path)
        try:
            through.reset(latency_ms=200)
            started = time.monotonic()
            with ThreadPoolExecutor(4) as threads:
                server = threads.submit(answer_together, listener, 3)
                request = b"HEAD /bucket/key HTTP/1.1\r\nConnection: close\r\n\r\n"
                answers = list(threads.map(lambda _: exchange(through, request), range(3)))
                server.result()
            assert time.monotonic() - started >= 0.2
            assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)
            assert through.traffic()["requests"] == {"HeadObject": 3}
            assert through.traffic()["latency_ms"] == 200
        finally:
            through.stop()


@pytest.mark.parametrize(
    ("head", "body", "sent_bytes"),
    [
        (b"Content-Length: 4\r\n", b"body", 4),
        (b"Content-Length: 4\r\nExpect: 100-continue\r\n", b"body", 4),
        (b"Transfer-Encoding: chunked\r\n", b"2;extension=1\r\nbo\r\n2\r\ndy\r\n0\r\nTrailer: 1\r\n\r\n", 4),
    ],
    ids=["length", "expect", "chunked"],
)
def test_bodies_pass_unchanged(head: bytes, body: bytes, sent_bytes: int, tmp_path: Path) -> None:
    echo = Echo()
    through = CountingProxy(echo.target, tmp_path)
    try:
        with ThreadPoolExecutor(1) as thread:
            sent = b"PUT /bucket/key HTTP/1.1\r\nHost: here\r\nConnection: close\r\n" + head + b"\r\n"
            received = thread.submit(echo.answer_one, body)
            answer = exchange(through, sent, body)
            assert received.result() == sent + body
        found = through.traffic()
    finally:
        through.stop()
    assert answer.endswith(b"Transfer-Encoding: chunked\r\n\r\n3\r\nyes\r\n0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 100" if b"Expect" in head else b"HTTP/1.1 200")
    assert (found["sent_bytes"], found["answered_bytes"], found["requests"]) == (sent_bytes, 3, {"PutObject": 1})


@pytest.mark.parametrize(
    ("method", "target", "headers", "operation"),
    [
        ("PUT", "/b/k?partNumber=1&uploadId=u", {}, "UploadPart"),
        ("PUT", "/b/k?partNumber=1&uploadId=u", {"x-amz-copy-source": "/b/o"}, "UploadPartCopy"),
        ("PUT", "/b/", {}, "CreateBucket"),
        ("POST", "/b/k?uploads", {}, "CreateMultipartUpload"),
        ("POST", "/b/k?uploadId=u", {}, "CompleteMultipartUpload"),
        ("POST", "/b?delete", {}, "DeleteObjects"),
        ("DELETE", "/b/k?uploadId=u", {}, "AbortMultipartUpload"),
        ("GET", "/b/?list-type=2&prefix=a%2F", {}, "ListObjectsV2"),
        ("GET", "/b?uploads&prefix=a", {}, "ListMultipartUploads"),
        ("HEAD", "/b", {}, "HeadBucket"),
        ("PATCH", "/b/k", {}, "PATCH other"),
    ],
)
def test_an_operation_is_known_by_its_request(
    method: str, target: str, headers: dict[str, str], operation: str
) -> None:
    assert parse_request(method, target, headers).operation == operation


def test_copied_ranges_add_up_to_the_new_object() -> None:
    sizes = Sizes()

    def copied(target: str, headers: dict[str, str]) -> int | None:
        return sizes.note(parse_request("PUT", target, headers))

    part = {"x-amz-copy-source": "b/o%20ld?versionId=1", "x-amz-copy-source-range": "bytes=0-99"}
    assert copied("/b/new?partNumber=1&uploadId=u", part) == 100
    assert copied("/b/new?partNumber=2&uploadId=u", part | {"x-amz-copy-source-range": "bytes=100-149"}) == 50
    sizes.note(parse_request("POST", "/b/new?uploadId=u", {}))
    sizes.note(parse_request("POST", "/b/new?uploadId=u", {}))  # a second answer to the same upload changes nothing
    assert copied("/b/newer", {"x-amz-copy-source": "/b/new"}) == 150
