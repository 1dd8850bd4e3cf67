"""What stands between botocore and a store: answers cut short, late or twice, a proxy's, connections that end.

No call takes what it got for what it asked. A read is whole or an error; a change is done, or an error.
"""

from __future__ import annotations

import hashlib
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, get_args
from urllib.parse import unquote

import pytest

from table_writer.errors import StorageError
from table_writer.model.message import UploadedPart
from table_writer.storage.request_settings import RequestSettings
from table_writer.storage.s3.settings import S3Settings, StaticKeys
from table_writer.storage.s3.store import S3Store
from tests.bare_server import OF_PROXIES, UNANSWERED, BareServer, Fault, http, read_request

FAULTS: Final[tuple[Fault, ...]] = get_args(Fault)
HASTY_SECONDS: Final = 0.2  # less than an answer that is late takes
DATE: Final = "Mon, 01 Jan 2024 00:00:00 GMT"
PART = UploadedPart(number=1, etag='"part"', size_bytes=5)


@dataclass
class BareS3:
    """As much of S3 as these tests ask for; ``applies`` says whether a request whose answer fails takes effect."""

    objects: dict[str, bytes] = field(default_factory=dict)
    uploads: set[str] = field(default_factory=set)
    applies: bool = True
    hits: Callable[[str], bool] = lambda _: False

    def converse(self, end: socket.socket) -> tuple[str, bytes] | None:
        """Read a request, carry it out, and return its answer."""
        request = read_request(end)
        if request is None:
            return None
        path, _, query = request.path.partition("?")
        key = unquote(path).removeprefix("/mart/")
        name = _name_of(request.method, query, request.headers)
        takes_effect = self.applies or not self.hits(name)
        if request.method in ("GET", "HEAD"):
            answer = self._list() if name == "list" else self._get(key)
            return name, answer if name != "head" else answer.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        if name == "claim" and key in self.objects:
            return name, refusal(412, "PreconditionFailed")
        if name == "complete" and takes_effect and not self.uploads:
            return name, refusal(404, "NoSuchUpload")
        if takes_effect:
            self._change(name, key, request.body)
        answers = {
            "delete": document("<DeleteResult></DeleteResult>"),
            "complete": document(
                "<CompleteMultipartUploadResult>"
                f"<Bucket>mart</Bucket><Key>{key}</Key><ETag>{tag(b'whole')}</ETag></CompleteMultipartUploadResult>"
            ),
            "copy": document(f"<CopyObjectResult><ETag>{tag(b'source')}</ETag></CopyObjectResult>"),
        }
        return name, answers.get(name) or http(200, b"", {"ETag": tag(request.body)})

    def _change(self, name: str, key: str, body: bytes) -> None:
        if name == "delete":
            for one in re.findall("<Key>(.*?)</Key>", body.decode()):
                self.objects.pop(one, None)
        else:
            self.objects[key] = {"complete": b"whole", "copy": self.objects.get("source", b"")}.get(name, body)
        if name == "complete":
            self.uploads.clear()

    def _list(self) -> bytes:
        items = "".join(
            f"<Contents><Key>{one}</Key><Size>{len(text)}</Size><ETag>{tag(text)}</ETag>"
            "<LastModified>2024-01-01T00:00:00Z</LastModified></Contents>"
            for one, text in sorted(self.objects.items())
        )
        return document(f"<ListBucketResult><IsTruncated>false</IsTruncated>{items}</ListBucketResult>")

    def _get(self, key: str) -> bytes:
        if key not in self.objects:
            return refusal(404, "NoSuchKey")
        return http(200, self.objects[key], {"ETag": tag(self.objects[key]), "Last-Modified": DATE})


def _name_of(method: str, query: str, headers: Mapping[str, str]) -> str:
    if method != "PUT":
        known = {"list-type": "list", "delete": "delete", "uploadId": "complete"}
        return next((name for word, name in known.items() if word in query), method.lower())
    return "copy" if "x-amz-copy-source" in headers else "claim" if "if-none-match" in headers else "put"


def tag(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


def document(text: str) -> bytes:
    return http(200, f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode(), {"Content-Type": "application/xml"})


def refusal(status: int, code: str) -> bytes:
    return http(status, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())


@dataclass
class Wire:
    """``store`` waits as long as a busy machine may take; ``hasty`` is for answers that are late."""

    s3: BareS3
    server: BareServer
    store: S3Store
    hasty: S3Store

    def asked(self, fault: Fault) -> S3Store:
        """Return the store whose call this fault is to meet."""
        return self.hasty if fault == "late" else self.store

    def breaks(self, hit: str, fault: Fault, *, applies: bool = True, always: bool = False) -> None:
        """Let the answer to a call fail; a proxy's is of a request that has not come through."""
        self.s3.applies = applies and fault not in OF_PROXIES
        self.server.fails(hit, fault, always=always)


@pytest.fixture(scope="module")
def shared_wire() -> Iterator[Wire]:
    """A client takes a tenth of a second to make."""
    s3 = BareS3()
    with BareServer(s3.converse) as server:
        s3.hits = server.hits
        settings = S3Settings(
            bucket="mart",
            endpoint_url=f"http://127.0.0.1:{server.port}",
            region="us-east-1",
            path_style=True,
            credentials=(StaticKeys(access_key="AKIAME", secret_key="hush-hush"),),
            requests=RequestSettings(max_attempts=2, connect_timeout_seconds=1, read_timeout_seconds=10),
        )
        hasty = replace(settings, requests=replace(settings.requests, read_timeout_seconds=HASTY_SECONDS))
        yield Wire(s3, server, *(S3Store(one, sleep=lambda _: None) for one in (settings, hasty)))


@pytest.fixture
def wire(shared_wire: Wire, monkeypatch: pytest.MonkeyPatch) -> Wire:
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.0)
    shared_wire.server.fault = None
    shared_wire.s3.objects.clear()
    shared_wire.s3.uploads.clear()
    shared_wire.s3.applies = True
    return shared_wire


@pytest.fixture(autouse=True)
def no_call_hangs() -> Iterator[None]:
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < 15


def result_of(call: Any) -> Any:
    try:
        return call()
    except StorageError as error:
        return error


def is_a_lie(wire: Wire, fault: Fault) -> bool:
    """Whether the store itself says in a whole answer that it has done what it has not."""
    return not wire.s3.applies and fault not in (*OF_PROXIES, *UNANSWERED)


READS: Final = {
    "get": lambda store: (found := store.get("a")) and found.body,
    "head": lambda store: (found := store.head("a")) and found.size_bytes,
    "list": lambda store: [one.key for one in store.list("")],
}


@pytest.mark.parametrize("always", [False, True], ids=["once", "always"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("read", READS)
def test_a_read_is_whole_or_an_error(wire: Wire, read: str, fault: Fault, always: bool) -> None:
    wire.s3.objects |= {"a": b"rows of a", "b": b"more"}
    right = READS[read](wire.store)
    assert right
    wire.server.fails(read, fault, always=always)
    for _ in range(2):
        answer = result_of(lambda: READS[read](wire.asked(fault)))
        assert isinstance(answer, StorageError) or answer == right
    wire.server.fault = None
    assert READS[read](wire.store) == right


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("applies", [True, False])
@pytest.mark.parametrize("theirs", [True, False])
@pytest.mark.parametrize("always", [False, True], ids=["once", "always"])
def test_a_claim_is_won_only_if_it_is_stored(
    wire: Wire, fault: Fault, applies: bool, theirs: bool, always: bool
) -> None:
    wire.store.put("warm", b"")
    if theirs:
        wire.s3.objects["log/1"] = b"theirs"
    wire.breaks("claim", fault, applies=applies, always=always)
    answer = result_of(lambda: wire.asked(fault).put_if_absent("log/1", b"ours"))
    stored = wire.s3.objects.get("log/1")
    if answer is True and not is_a_lie(wire, fault):
        assert stored == b"ours"
    if answer is False:
        assert stored == b"theirs"
    if fault in OF_PROXIES and always:
        assert isinstance(answer, StorageError) or (theirs and answer is False), "it was read back"


CHANGES: Final = {
    "put": lambda store: store.put("a", b"new"),
    "complete": lambda store: store.complete_upload("a", "upload", [PART]),
    "delete": lambda store: store.delete(["a"]),
    "copy": lambda store: store.copy(store.head("source"), "a"),
}
DONE: Final = {"put": b"new", "complete": b"whole", "delete": None, "copy": b"source"}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("applies", [True, False])
@pytest.mark.parametrize("always", [False, True], ids=["once", "always"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_done_or_an_error(wire: Wire, change: str, fault: Fault, applies: bool, always: bool) -> None:
    wire.s3.objects |= {"a": b"old", "source": b"source"}
    wire.s3.uploads.add("upload")
    wire.store.head("a")
    wire.breaks(change, fault, applies=applies, always=always)
    answer = result_of(lambda: CHANGES[change](wire.asked(fault)))
    if answer is None and not is_a_lie(wire, fault):
        assert wire.s3.objects.get("a") == DONE[change]
    if fault in OF_PROXIES and always:
        assert isinstance(answer, StorageError)
        assert wire.s3.objects["a"] == b"old"


def test_an_answer_that_comes_twice_is_not_that_of_the_next_call(wire: Wire) -> None:
    wire.s3.objects |= {"a": b"rows of a", "log/1": b"theirs"}
    for hit in ("get", "put", "list"):
        wire.server.fails(hit, "twice", always=True)
        for _ in range(5):
            assert READS["get"](wire.store) == b"rows of a"
            wire.store.put("x", b"new")
            assert len(list(wire.store.list(""))) == 3
            assert not wire.store.put_if_absent("log/1", b"ours")
            assert wire.store.get("never") is None
