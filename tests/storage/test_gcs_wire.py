"""Requests to Google are those that Google's own client sends: nobody has run ours on an account."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Bucket, Client

from table_writer.model.message import UploadedPart
from table_writer.storage.gcs.settings import GCS_UPLOADS, GcsSettings, NoLogin
from table_writer.storage.gcs.store import GcsStore
from table_writer.storage.object_store import ObjectInfo
from table_writer.storage.request_settings import RequestSettings
from tests.bare_server import Request
from tests.storage.conftest import FakeS3

KEY: Final = "wh/dt=a b%2Fü/part-0.parquet"
LISTED: Final = ObjectInfo(key=KEY, size_bytes=4, etag="17", modified_at=datetime(2024, 1, 1, tzinfo=UTC))
NAMED: Final = {"name": KEY, "bucket": "lake", "generation": "17", "metageneration": "1", "size": "4"}
TIMES: Final = {"updated": "2024-01-01T00:00:00.123Z", "timeCreated": "2024-01-01T00:00:00.123Z"}
MD5: Final = hashlib.md5(b"rows", usedforsecurity=False).digest()
STORED: Final = {"kind": "storage#object", **NAMED, **TIMES, "md5Hash": base64.b64encode(MD5).decode(), "etag": "e"}
REWRITTEN: Final = {
    "kind": "storage#rewriteResponse",
    "done": True,
    "resource": STORED,
    "totalBytesRewritten": "4",
    "objectSize": "4",
}
LISTING: Final = {"kind": "storage#objects", "items": [STORED]}
OF_MEDIA: Final = {"X-Goog-Generation": "17", "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}
UPLOAD: Final = "0" * 32
PARTS: Final = [UploadedPart(number=number, etag=f"{'a' * 32}-{number}", size_bytes=4) for number in (1, 2)]
NAMES: Final = [f"{GCS_UPLOADS}{KEY}/{UPLOAD}/{number:05d}-{'a' * 32}" for number in (1, 2)]


@pytest.fixture
def ours(fake_s3: FakeS3) -> GcsStore:
    settings = GcsSettings(
        bucket="lake", endpoint_url=fake_s3.url, credential=NoLogin(), requests=RequestSettings(max_attempts=1)
    )
    return GcsStore(settings, sleep=lambda _: None)


@pytest.fixture
def theirs(fake_s3: FakeS3, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    monkeypatch.setenv("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")  # a request beside each other one
    options = {"api_endpoint": fake_s3.url}
    with Client(project="p", credentials=AnonymousCredentials(), client_options=options) as client:
        yield client.bucket("lake")


def answer(fake: FakeS3, document: object, **headers: str) -> None:
    body = document if isinstance(document, str) else json.dumps(document)
    fake.answer(200, body, headers={"Content-Type": "application/json", **headers})


def sent(request: Request) -> tuple[str, str, dict[str, list[str]], Any]:
    """Return method, path, query and document of a request, without what changes nothing."""
    url = urlsplit(request.path)
    query = {name: values for name, values in parse_qs(url.query).items() if name not in ("prettyPrint", "fields")}
    document: Any = {}
    if request.headers.get("content-type", "").startswith("multipart/related"):
        described, content = re.findall(rb"\r\n\r\n(.*?)\r\n--", request.body, re.DOTALL)
        document = [json.loads(described), content]
    elif request.body:
        document = json.loads(request.body)
    return request.method, unquote(url.path), query, document


def both(fake: FakeS3, document: object, one: Callable[[], object], other: Callable[[], object], **headers: str) -> Any:
    """Return what ours and theirs have sent, after a look that they went to the same place in the same way."""
    for call in (one, other):
        answer(fake, document, **headers)
        call()
    first, second = map(sent, fake.requests[-2:])
    assert first[:2] == second[:2]
    return first, second


def test_a_claim_is_googles_upload_on_condition_that_there_is_no_object(
    fake_s3: FakeS3, ours: GcsStore, theirs: Bucket
) -> None:
    mine, googles = both(
        fake_s3,
        STORED,
        lambda: ours.put_if_absent(KEY, b"rows"),
        lambda: theirs.blob(KEY).upload_from_string(b"rows", if_generation_match=0, checksum="md5", retry=None),
    )
    assert mine[2] == googles[2] == {"uploadType": ["multipart"], "ifGenerationMatch": ["0"]}
    assert mine[3][0] == {"name": KEY, "md5Hash": STORED["md5Hash"]}
    assert mine[3][0].items() <= googles[3][0].items()
    assert mine[3][1] == googles[3][1] == b"rows"


def test_reads_copies_and_deletes_name_a_generation(fake_s3: FakeS3, ours: GcsStore, theirs: Bucket) -> None:
    exact = theirs.blob(KEY, generation=17)
    mine, googles = both(
        fake_s3,
        "rows",
        lambda: ours.read_range(LISTED, 0, 4),
        lambda: exact.download_as_bytes(start=0, end=3, raw_download=True, retry=None, checksum=None),
        **OF_MEDIA,
    )
    assert mine[2] == googles[2] == {"alt": ["media"], "generation": ["17"]}
    assert {one.headers["range"] for one in fake_s3.requests} == {"bytes=0-3"}
    mine, googles = both(fake_s3, "", lambda: ours.delete([LISTED]), lambda: exact.delete(retry=None))
    assert mine[2] == googles[2] == {"generation": ["17"]}
    mine, googles = both(
        fake_s3, REWRITTEN, lambda: ours.copy(LISTED, "b"), lambda: theirs.blob("b").rewrite(exact, retry=None)
    )
    assert mine[2] == googles[2] == {"sourceGeneration": ["17"]}
    mine, googles = both(fake_s3, STORED, lambda: ours.head(KEY), lambda: theirs.blob(KEY).reload(retry=None))
    assert mine[2] == {name: value for name, value in googles[2].items() if name != "projection"} == {}


def test_a_listing_is_googles_from_a_key_on(fake_s3: FakeS3, ours: GcsStore, theirs: Bucket) -> None:
    mine, googles = both(
        fake_s3,
        LISTING,
        lambda: ours.list_page("wh/", start_after="wh/a"),
        lambda: list(theirs.list_blobs(prefix="wh/", start_offset="wh/a", page_size=1_000, retry=None)),
    )
    assert mine[2] == {name: value for name, value in googles[2].items() if name != "projection"}


def test_parts_are_composed_by_their_generations_to_an_object_that_is_not_there(
    fake_s3: FakeS3, ours: GcsStore, theirs: Bucket
) -> None:
    parts = [
        {"kind": "storage#object", **NAMED, **TIMES, "name": name, "generation": str(number)}
        for number, name in enumerate(NAMES, start=1)
    ]
    answers = (STORED, {"kind": "storage#objects", "items": parts}, REWRITTEN, "", "")
    for document in answers:
        answer(fake_s3, document)
    ours.complete_upload(KEY, UPLOAD, PARTS)
    compose, rewrite = sent(fake_s3.requests[0]), sent(fake_s3.requests[2])
    blobs = [theirs.blob(name, generation=number) for number, name in enumerate(NAMES, start=1)]
    joined = compose[1].partition("/o/")[2].removesuffix("/compose")
    answer(fake_s3, STORED)
    theirs.blob(joined).compose(blobs, if_generation_match=0, if_source_generation_match=[1, 2], retry=None)
    googles = sent(fake_s3.requests[-1])
    assert compose[:3] == googles[:3]
    assert json.dumps(compose[3]["sourceObjects"]).replace('"1"', "1").replace('"2"', "2") == json.dumps(
        googles[3]["sourceObjects"]
    )
    answer(fake_s3, REWRITTEN)
    theirs.blob(KEY).rewrite(theirs.blob(joined, generation=17), if_generation_match=0, retry=None)
    assert rewrite == sent(fake_s3.requests[-1])
