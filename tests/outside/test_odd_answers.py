"""A proxy or another store sends a header or a field twice, garbled, or not at all.

A gateway adds a second Date, which clients fold into "a, b": a raw TypeError came of it. Whatever is wrong with an
answer is read leniently where the meaning is plain, and is a StorageError that says what to look at where it is not.
Seen by a user behind such a gateway.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from table_writer.errors import StorageError
from table_writer.model.message import UploadedPart
from table_writer.storage import answers
from table_writer.storage.object_store import ObjectInfo
from table_writer.storage.request_settings import RequestSettings
from table_writer.storage.s3.settings import S3Settings, StaticKeys
from table_writer.storage.s3.store import S3Store
from tests.outside.s3_proxy import Told, s3_proxy

NEW_YEAR: Final = "Mon, 01 Jan 2024 00:00:00 GMT"
HEADERS: Final = {"Date": NEW_YEAR, "Last-Modified": NEW_YEAR, "ETag": '"abc"', "Content-Length": "4"}
GARBLED: Final = ("", "yesterday", "Mon, 41 Jan 2024 00:00:00 GMT", "\x7f", "99999999999999999999")
ITEM: Final = (
    '<Contents><Key>d/a</Key><Size>4</Size><ETag>"abc"</ETag><LastModified>2024-01-01T00:00:00.000Z</LastModified>'
    "</Contents>"
)
UPLOAD: Final = "<Upload><Key>d/a</Key><UploadId>7</UploadId><Initiated>2024-01-01T00:00:00.000Z</Initiated></Upload>"
SOURCE: Final = ObjectInfo(key="d/a", size_bytes=4, etag="abc", modified_at=answers.time_in(NEW_YEAR))  # type: ignore[arg-type]


@dataclass
class Teller:
    """A store of which every answer is the same, until it is told another."""

    store: S3Store
    told: Told = field(default_factory=Told)

    def tells(self, body: bytes = b"", headers: dict[str, list[str]] | None = None, status: int = 200) -> S3Store:
        """Answer so from now on; return the store."""
        shown = {name: [text] for name, text in HEADERS.items() if name != "Content-Length"} | (headers or {})
        listed = [(name, text) for name, texts in shown.items() for text in texts]
        self.told = Told(status=status, headers=listed, body=body)
        return self.store


@pytest.fixture(scope="module")
def teller() -> Iterator[Teller]:
    tellers: list[Teller] = []
    with s3_proxy("http://127.0.0.1:1", lambda *_: tellers[0].told) as proxy:
        settings = S3Settings(
            bucket="mart",
            endpoint_url=proxy.url,
            region="us-east-1",
            path_style=True,
            credentials=(StaticKeys(access_key="AKIAME", secret_key="hush-hush"),),
            requests=RequestSettings(max_attempts=1),
        )
        tellers.append(Teller(S3Store(settings, sleep=lambda _: None)))
        yield tellers[0]


def listing(item: str) -> bytes:
    return f"<ListBucketResult><IsTruncated>false</IsTruncated>{item}</ListBucketResult>".encode()


def uploads(item: str) -> bytes:
    return f"<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>{item}</ListMultipartUploadsResult>".encode()


def test_headers_that_come_twice_are_read_once(teller: Teller) -> None:
    for name in ("Date", "Last-Modified", "ETag"):
        store = teller.tells(b"body", {name: [HEADERS[name], HEADERS[name]]})
        stored = store.get("d/a")
        assert stored is not None
        assert (stored.info, stored.age_seconds, stored.body) == (SOURCE, 0.0, b"body")
        info = store.head("d/a")
        assert info is not None
        assert info.etag == "abc"


@pytest.mark.parametrize("name", ["Date", "Last-Modified", "ETag"])
def test_a_header_that_is_missing_or_garbled_is_named(teller: Teller, name: str) -> None:
    garbled = GARBLED[:1] if name == "ETag" else GARBLED  # whatever else is there is an ETag
    for texts in ([], *([text] for text in garbled)):
        store = teller.tells(b"body", {name: texts})
        field_name = name.replace("-", "")
        with pytest.raises(StorageError, match=rf"s3://mart/d/a is not what S3.*{field_name}"):
            store.get("d/a")


def outcome(request: Callable[[], Any]) -> Any:
    """Return the answer, ``None`` after an error of ours that names the place; any other error is raised."""
    try:
        return request()
    except StorageError as error:
        named = "mart" in error.message
    assert named
    return None


@pytest.mark.parametrize("name", ["Key", "Size", "ETag", "LastModified"])
@pytest.mark.parametrize("text", [None, *GARBLED])
def test_a_field_of_a_listing_is_read_or_a_storage_error(teller: Teller, name: str, text: str | None) -> None:
    whole = re.sub(f"<{name}>.*</{name}>", "" if text is None else f"<{name}>{text}</{name}>", ITEM)
    store = teller.tells(listing(whole))
    found = outcome(lambda: list(store.list("")))
    assert text is None or not found or all(isinstance(info.size_bytes, int) for info in found)
    assert text is not None or not found


@pytest.mark.parametrize("name", ["Key", "UploadId", "Initiated"])
@pytest.mark.parametrize("text", [None, "", "yesterday"])
def test_a_field_of_an_upload_is_read_or_a_storage_error(teller: Teller, name: str, text: str | None) -> None:
    whole = re.sub(f"<{name}>.*</{name}>", "" if text is None else f"<{name}>{text}</{name}>", UPLOAD)
    store = teller.tells(uploads(whole))
    found = outcome(lambda: list(store.list_uploads("d/")))
    assert not found or (name, text) == ("UploadId", "yesterday")


CALLS: Final[dict[str, Callable[[S3Store], Any]]] = {
    "get": lambda store: store.get("d/a"),
    "head": lambda store: store.head("d/a"),
    "read_range": lambda store: store.read_range(SOURCE, 0, 4),
    "list": lambda store: list(store.list("d/")),
    "list_files": lambda store: store.list_files("d/"),
    "list_directories": lambda store: store.list_directories("d/"),
    "list_uploads": lambda store: list(store.list_uploads("d/")),
    "put": lambda store: store.put("d/a", b"body"),
    "put_if_absent": lambda store: store.put_if_absent("d/a", b"body"),
    "create_upload": lambda store: store.create_upload("d/a"),
    "upload_part": lambda store: store.upload_part("d/a", "7", 1, b"body"),
    "complete_upload": lambda store: store.complete_upload(
        "d/a", "7", [UploadedPart(number=1, etag='"abc"', size_bytes=4)]
    ),
    "abort_upload": lambda store: store.abort_upload("d/a", "7"),
    "copy": lambda store: store.copy(SOURCE, "d/b"),
    "delete": lambda store: store.delete(["d/a"]),
}
PAGES: Final = {
    "nothing": b"",
    "a page of a portal": b"<html><body>Please log in</body></html>",
    "half a document": b"<ListBucketResult><Contents><Key>d/",
    "a truncated page without an end": b"<R><IsTruncated>true</IsTruncated></R>",
    "another document": b"<A><B>c</B></A>",
    "no text": bytes(range(256)),
}


@pytest.mark.parametrize("call", CALLS)
def test_no_answer_makes_any_call_fail_raw(teller: Teller, call: str) -> None:
    garbled = ({name: [] for name in HEADERS}, {"Last-Modified": ["?"], "ETag": [], "Date": ["?", "?"]})
    for body in PAGES.values():
        for status, headers in ((200, {}), (400, {}), (409, {}), *((200, headers) for headers in garbled)):
            store = teller.tells(body, headers, status)
            outcome(lambda store=store: CALLS[call](store))
