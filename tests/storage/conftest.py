"""Stores for the contract tests, and an S3 endpoint whose every answer a test decides."""

from __future__ import annotations

import functools
import io
import socket
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from table_writer.model.location import Location
from table_writer.storage.kinds import settings_for
from table_writer.storage.local.settings import LocalSettings
from table_writer.storage.object_store import ObjectInfo, ObjectStore, open_store
from table_writer.storage.request_settings import RequestSettings
from table_writer.storage.s3.settings import S3Overrides, S3Settings, StaticKeys
from table_writer.storage.s3.store import S3Store
from table_writer.testing.memory_store import MemoryStore
from table_writer.testing.servers import S3Server
from tests.azurite import AzuriteServer
from tests.bare_server import BareServer, Request, http, read_request
from tests.fake_gcs import FakeGcsServer
from tests.seaweedfs import SeaweedServer

BUCKET = "storage-tests"
SOURCE = ObjectInfo(key="d/a=1", size_bytes=4, etag="etag", modified_at=datetime(2024, 1, 1, tzinfo=UTC))
COPIED = "<CopyObjectResult><ETag>&quot;e&quot;</ETag></CopyObjectResult>"
PART_COPIED = "<CopyPartResult><ETag>&quot;e&quot;</ETag></CopyPartResult>"
CREATED = "<InitiateMultipartUploadResult><UploadId>7</UploadId></InitiateMultipartUploadResult>"
TWICE = RequestSettings(max_attempts=2)
MARKS = {
    "azurite": pytest.mark.needs("azure"),
    "gcs": pytest.mark.needs("gcs"),
    "seaweedfs": pytest.mark.needs("seaweedfs"),
    "moto": pytest.mark.slow,
}


@pytest.hookimpl(tryfirst=True)  # before options such as -m choose by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave moto to the slow run: it takes as long as all other stores together."""
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            named = {one for one in item.callspec.params.values() if isinstance(one, str)}
            for mark in (MARKS[kind] for kind in named if kind in MARKS):
                item.add_marker(mark)


@dataclass
class Place:
    """A store and a directory in it that no other test uses."""

    store: ObjectStore
    directory: str  # ends in "/"
    kind: str
    requests_before: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        self.requests_before = Counter(self.store.request_counts())

    def requests(self) -> dict[str, int]:
        """Return the requests since the test has the store; a client of S3 takes 0.1 s to make, so tests share it."""
        return dict(Counter(self.store.request_counts()) - self.requests_before)


open_shared = functools.cache(open_store)


@pytest.fixture(scope="session")
def moto() -> Iterator[S3Server]:
    with S3Server("moto", bucket=BUCKET) as server:
        yield server


@pytest.fixture(scope="session")
def versitygw() -> Iterator[S3Server]:
    with S3Server("versitygw", bucket=BUCKET) as server:
        yield server


@pytest.fixture(scope="session")
def azurite() -> Iterator[AzuriteServer]:
    with AzuriteServer(container=BUCKET) as server:
        yield server


@pytest.fixture(scope="session")
def gcs() -> Iterator[FakeGcsServer]:
    with FakeGcsServer(bucket=BUCKET) as server:
        yield server


@pytest.fixture(scope="session")
def seaweedfs() -> Iterator[SeaweedServer]:
    with SeaweedServer(bucket=BUCKET) as server:
        yield server


@pytest.fixture
def open_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Place]:
    def opened(kind: str, *, checksums: bool = True, **s3_settings: object) -> Place:
        name = f"wh/{uuid.uuid4().hex}/_table_writer/"
        if kind == "memory":
            return Place(MemoryStore(), name, kind)
        if kind == "local":
            return Place(open_store(LocalSettings()), f"{str(tmp_path)[1:]}/{name}", kind)
        if kind == "azurite":
            account: AzuriteServer = request.getfixturevalue(kind)
            of_azure = settings_for(account.location(), account.hadoop_settings())
            return Place(
                open_shared(replace(of_azure, requests=RequestSettings(max_attempts=2), **s3_settings)), name, kind
            )
        if kind == "gcs":
            google: FakeGcsServer = request.getfixturevalue(kind)
            of_google = settings_for(google.location(), google.hadoop_settings())
            return Place(open_shared(replace(of_google, requests=TWICE, **s3_settings)), name, kind)
        server: S3Server = request.getfixturevalue(kind)
        location = Location.parse(f"s3a://{BUCKET}/")
        settings = settings_for(location, server.hadoop_settings(), S3Overrides(max_attempts=2, checksums=checksums))
        return Place(open_shared(replace(settings, **s3_settings)), name, kind)

    return opened


@pytest.fixture(params=["memory", "local", "moto", "versitygw", "azurite", "gcs", "seaweedfs"])
def place(request: pytest.FixtureRequest, open_place: Callable[..., Place]) -> Place:
    """Every store."""
    return open_place(request.param)


@pytest.fixture(params=["memory", "local", "versitygw", "azurite", "gcs", "seaweedfs"])
def strict_place(request: pytest.FixtureRequest, open_place: Callable[..., Place]) -> Place:
    """Every store but moto, which accepts what S3 refuses, or answers 500."""
    return open_place(request.param)


@dataclass
class Answer:
    status: int = 200
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False  # close the connection instead
    truncate: bool = False  # keep the last byte back, and close


class FakeS3:
    """Gives the queued answers in order, whatever is asked, and remembers the requests."""

    def __init__(self) -> None:
        self.answers: deque[Answer] = deque()
        self.requests: list[Request] = []
        self.server = BareServer(self.converse)
        self.url = f"http://127.0.0.1:{self.server.port}"

    def converse(self, end: socket.socket) -> tuple[str, bytes] | None:
        request = read_request(end)
        if request is None:
            return None
        self.requests.append(request)
        answer = self.answers.popleft()
        if answer.drop:
            return None
        sent = http(answer.status, answer.body.encode(), answer.headers, has_body=request.method != "HEAD")
        if answer.truncate:
            end.sendall(sent[:-1])
            return None
        return request.method, sent

    def answer(self, status: int = 200, body: str = "", **options: object) -> None:
        self.answers.append(Answer(status, body, **options))

    def error(self, status: int, code: str, message: str = "said the fake") -> None:
        self.answer(status, f"<Error><Code>{code}</Code><Message>{message}</Message></Error>")

    def object(self, body: str, **options: object) -> None:
        headers = {"ETag": '"etag"', "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}
        self.answer(200, body, headers=headers, **options)


@pytest.fixture
def fake_s3() -> Iterator[FakeS3]:
    fake = FakeS3()
    with fake.server:
        yield fake
    assert not fake.answers, "the code under test sent fewer requests than the test prepared answers for"


@pytest.fixture
def fake_settings(fake_s3: FakeS3) -> S3Settings:
    return S3Settings(
        bucket="mart",
        endpoint_url=fake_s3.url,
        region="us-east-1",
        path_style=True,
        credentials=(StaticKeys(access_key="AKIAME", secret_key="hush-hush"),),
        requests=RequestSettings(max_attempts=1, connect_timeout_seconds=2, read_timeout_seconds=2),
    )


@pytest.fixture
def fake_store(fake_settings: S3Settings) -> S3Store:
    return S3Store(fake_settings, sleep=lambda _: None)


def answer_instead(
    store: S3Store, operation: str, body: bytes, *, status: int = 200, where: str = ""
) -> list[AWSPreparedRequest]:
    """Answer an operation of a store before it is sent; returns the list of what would have been."""
    sent: list[AWSPreparedRequest] = []

    def answer(request: AWSPreparedRequest, **_: object) -> AWSResponse | None:
        if where not in f"{request.url}&":
            return None
        sent.append(request)
        answered = AWSResponse(request.url, status, {}, io.BytesIO())
        answered._content = body
        return answered

    store.client.meta.events.register_first(f"before-send.s3.{operation}", answer)
    return sent
