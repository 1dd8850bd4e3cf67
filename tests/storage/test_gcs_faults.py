"""What becomes of Google's bad answers, given by a server that answers as each test says, as no emulator does."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote

import pytest

from table_writer.errors import InvalidInputError, StorageError
from table_writer.model.message import UploadedPart
from table_writer.storage.gcs import client as gcs_client
from table_writer.storage.gcs.settings import GCS_UPLOADS, GcsSettings, NoLogin, UserLogin
from table_writer.storage.gcs.store import MARK, GcsStore
from table_writer.storage.object_store import ObjectInfo, SourceChangedError
from table_writer.storage.request_settings import LONGEST_PAUSE_SECONDS, RequestSettings
from tests.bare_server import PAGE, http, read_request
from tests.storage.conftest import FakeS3

KEY: Final = "d/a"
UPLOAD: Final = "0192f0c0000000000000000000000000"
DIGEST: Final = "ab" * 16
PARTS: Final = [UploadedPart(number=1, etag=f"{DIGEST}-7", size_bytes=4)]
SOURCE: Final = ObjectInfo(key=KEY, size_bytes=4, etag="17", modified_at=datetime(2024, 1, 1, tzinfo=UTC))
JSON: Final = {"Content-Type": "application/json; charset=UTF-8"}
OF_MEDIA: Final = {"X-Goog-Generation": "17", "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}
TIME: Final = "2024-01-01T00:00:00.123Z"


@pytest.fixture
def settings(fake_s3: FakeS3) -> GcsSettings:
    timeouts = {"connect_timeout_seconds": 2, "read_timeout_seconds": 2}
    return GcsSettings(
        bucket="lake",
        endpoint_url=fake_s3.url,
        credential=NoLogin(),
        requests=RequestSettings(max_attempts=1, **timeouts),
    )


@pytest.fixture
def store(settings: GcsSettings) -> GcsStore:
    return GcsStore(settings, sleep=lambda _: None)


def patient(settings: GcsSettings, attempts: int = 2) -> GcsStore:
    return GcsStore(replace(settings, requests=replace(settings.requests, max_attempts=attempts)), sleep=lambda _: None)


def give(fake: FakeS3, document: object) -> None:
    fake.answer(200, json.dumps(document), headers=JSON)


def fail(fake: FakeS3, status: int, reason: str = "", message: str = "said the fake") -> None:
    """Let the next request fail; with no status, by a lost answer."""
    error = {"code": status, "message": message, "errors": [{"message": message, "reason": reason}]}
    fake.answer(status or 200, json.dumps({"error": error}), headers=JSON, drop=not status)


def described(name: str = KEY, body: bytes = b"ours", **more: object) -> dict[str, Any]:
    digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
    named = {"name": name, "size": str(len(body)), "generation": "17", "md5Hash": digest}
    return {**named, "updated": TIME, "timeCreated": TIME, **more}


def mark(*names: str) -> str:
    return f"{UPLOAD}-{hashlib.md5(' '.join(names).encode(), usedforsecurity=False).hexdigest()}"


@pytest.mark.parametrize("status", [412, 500, 503, 0])
@pytest.mark.parametrize("present", ["ours", "other"])
def test_whose_claim_it_is_is_read_back(fake_s3: FakeS3, store: GcsStore, status: int, present: str) -> None:
    fail(fake_s3, status)
    fake_s3.answer(200, present, headers=OF_MEDIA)
    assert store.put_if_absent(KEY, b"ours") == (present == "ours")
    assert ["ifGenerationMatch=0" in request.path for request in fake_s3.requests] == [True, False]


@pytest.mark.parametrize(
    "said", [PAGE.decode(), "[]", json.dumps(described(body=b"other")), json.dumps(described("b"))]
)
def test_a_claim_whose_answer_tells_of_something_else_is_read_back(fake_s3: FakeS3, store: GcsStore, said: str) -> None:
    fake_s3.answer(200, said)
    fake_s3.answer(200, "other", headers=OF_MEDIA)
    assert not store.put_if_absent(KEY, b"ours")


def test_a_claim_that_is_not_there_is_sent_again_and_one_that_was_denied_is_not(
    fake_s3: FakeS3, store: GcsStore
) -> None:
    fake_s3.answer(drop=True)
    fail(fake_s3, 404, "notFound", "No such object: lake/d/a")
    give(fake_s3, described())
    assert store.put_if_absent(KEY, b"ours")
    fail(fake_s3, 403, "forbidden")
    with pytest.raises(StorageError, match=r"access denied.*roles/storage\.objectUser"):
        store.put_if_absent(KEY, b"ours")


def test_what_may_pass_is_sent_again_and_counted_and_a_body_without_an_end_is_read_again(
    fake_s3: FakeS3, settings: GcsSettings
) -> None:
    store = patient(settings, 5)
    for status in (503, 429, 0):
        fail(fake_s3, status)
    fake_s3.answer(200, "rows", headers=OF_MEDIA, truncate=True)
    fake_s3.answer(200, "rows", headers=OF_MEDIA)
    found = store.get(KEY)
    assert found is not None
    assert found.body == b"rows"
    assert store.request_counts() == {"GetObject": 5}


def test_pauses_between_attempts_stay_short(fake_s3: FakeS3, settings: GcsSettings) -> None:
    pauses: list[float] = []
    store = GcsStore(replace(settings, requests=replace(settings.requests, max_attempts=8)), sleep=pauses.append)
    for _ in range(8):
        fail(fake_s3, 503)
    with pytest.raises(StorageError, match="slow down"):
        store.head(KEY)
    assert all(0 <= pause <= min(LONGEST_PAUSE_SECONDS, 0.2 * 2**count) for count, pause in enumerate(pauses))
    assert len(pauses) == 7


def test_pages_and_answers_of_others_are_errors(fake_s3: FakeS3, store: GcsStore) -> None:
    calls = {
        "get": lambda: store.get(KEY),
        "read": lambda: store.read_range(SOURCE, 0, 4),
        "head": lambda: store.head(KEY),
        "list": lambda: store.list_page("d/"),
        "put": lambda: store.put(KEY, b"ours"),
        "delete": lambda: store.delete([KEY]),
        "copy": lambda: store.copy(SOURCE, "b"),
        "part": lambda: store.upload_part(KEY, UPLOAD, 1, b"rows"),
        "complete": lambda: store.complete_upload(KEY, UPLOAD, PARTS),
        "abort": lambda: store.abort_upload(KEY, UPLOAD),
        "uploads": lambda: list(store.list_uploads("d/")),
    }
    for name, call in calls.items():
        fake_s3.answer(200, PAGE.decode(), headers={"Content-Type": "text/html"})
        with pytest.raises(StorageError, match="not what S3, Azure or Google would send"):
            call()
        assert len(fake_s3.requests) == list(calls).index(name) + 1
    for missing in (lambda: store.get(KEY), lambda: store.head(KEY), lambda: store.delete([KEY])):
        fake_s3.answer(404, PAGE.decode(), headers={"Content-Type": "text/html"})
        with pytest.raises(StorageError, match=r"no such bucket or file.*Please log in"):
            missing()


@pytest.mark.parametrize("said", ["", "404 page not found", "default backend - 404", '{"error": "not found"}'])
def test_a_404_that_is_not_googles_is_no_missing_file(fake_s3: FakeS3, store: GcsStore, said: str) -> None:
    for call in (store.get, store.head, lambda key: store.delete([key]), lambda _: store.read_range(SOURCE, 0, 4)):
        fake_s3.answer(404, said)
        with pytest.raises(StorageError, match="no such bucket or file") as caught:
            call(KEY)
        assert not isinstance(caught.value, SourceChangedError)


def test_a_bucket_that_is_not_there_is_no_missing_file(fake_s3: FakeS3, store: GcsStore) -> None:
    for call in (store.get, store.head):
        fail(fake_s3, 404, "notFound", "The specified bucket does not exist.")
        with pytest.raises(StorageError, match="bucket does not exist"):
            call(KEY)
    fake_s3.answer(404, "No such object: lake/d/a", headers={"Content-Type": "text/html; charset=UTF-8"})
    assert store.get(KEY) is None


def test_a_file_whose_bytes_come_without_their_time_is_asked_for_it(fake_s3: FakeS3, store: GcsStore) -> None:
    generation = {"X-Goog-Generation": "17"}
    fake_s3.answer(200, "ours", headers=generation)
    give(fake_s3, described())
    found = store.get(KEY)
    assert found is not None
    assert (found.info, found.body) == (replace(SOURCE, modified_at=found.info.modified_at), b"ours")
    assert found.info.modified_at == SOURCE.modified_at
    fake_s3.answer(200, "ours", headers=generation)
    give(fake_s3, described(generation="18"))
    with pytest.raises(StorageError, match="replaced while it was read"):
        store.get(KEY)
    fake_s3.answer(206, "ours", headers=generation)
    assert store.read_range(SOURCE, 0, 4) == b"ours"


def test_bytes_that_were_packed_on_the_way_are_unpacked(fake_s3: FakeS3) -> None:
    packed = gzip.compress(b"rows")
    headers = {**OF_MEDIA, "X-Goog-Stored-Content-Encoding": "identity", "Content-Encoding": "gzip"}
    fake_s3.server.converse = lambda end: ("get", http(200, packed, headers)) if read_request(end) else None
    settings = GcsSettings(
        bucket="lake", endpoint_url=fake_s3.url, credential=NoLogin(), requests=RequestSettings(max_attempts=1)
    )
    found = GcsStore(settings).get(KEY)
    assert found is not None
    assert found.body == b"rows"


@pytest.mark.parametrize(
    "headers", [{"X-Goog-Stored-Content-Length": "5"}, {"X-Goog-Hash": "crc32c=AAAAAA==, md5=AAAAAAAAAAAAAAAAAAAAAA=="}]
)
def test_other_bytes_than_those_of_the_object_are_an_error(
    fake_s3: FakeS3, store: GcsStore, headers: dict[str, str]
) -> None:
    fake_s3.answer(200, "rows", headers={**OF_MEDIA, **headers})
    with pytest.raises(StorageError, match="other bytes"):
        store.get(KEY)


def test_a_range_of_another_generation_or_length_is_refused(fake_s3: FakeS3, store: GcsStore) -> None:
    fake_s3.answer(206, "rows", headers={**OF_MEDIA, "X-Goog-Generation": "18"})
    with pytest.raises(SourceChangedError):
        store.read_range(SOURCE, 0, 4)
    fake_s3.answer(206, "row", headers=OF_MEDIA)
    with pytest.raises(StorageError, match="asked for 4 bytes and answered 3"):
        store.read_range(SOURCE, 0, 4)


def test_a_completion_whose_answer_was_lost_is_found_done_by_its_mark(fake_s3: FakeS3, settings: GcsSettings) -> None:
    fake_s3.answer(drop=True)
    fail(fake_s3, 412, "conditionNotMet")
    give(fake_s3, described(metadata={MARK: mark(f"00001-{DIGEST}")}))
    give(fake_s3, {"kind": "storage#objects"})
    patient(settings).complete_upload(KEY, UPLOAD, PARTS)
    assert [request.method for request in fake_s3.requests] == ["POST", "POST", "GET", "GET"]


def test_an_answer_that_lacks_something_is_told_of_with_its_place(fake_s3: FakeS3, store: GcsStore) -> None:
    calls = (
        ({"done": False}, lambda: store.copy(SOURCE, "b"), "gs://lake/b"),
        (
            {"kind": "storage#objects", "items": [{"name": NAMES[0], "updated": TIME}]},
            lambda: list(store.list_uploads("d/")),
            "gs://lake/d/",
        ),
        ({**described(), "size": "four"}, lambda: store.head(KEY), "gs://lake/d/a"),
        ({**described(), "updated": "today"}, lambda: store.head(KEY), "gs://lake/d/a"),
        ("{}}", lambda: store.head(KEY), "gs://lake/d/a"),
        ("[]", lambda: store.head(KEY), "gs://lake/d/a"),
    )
    for said, call, where in calls:
        fake_s3.answer(200, said if isinstance(said, str) else json.dumps(said), headers=JSON)
        with pytest.raises(
            StorageError, match=f"not what S3, Azure or Google would send.*{where}|{where}.*not what S3"
        ):
            call()


def test_a_page_after_a_delete_is_no_success_also_behind_blanks(fake_s3: FakeS3, store: GcsStore) -> None:
    fake_s3.answer(200, f"\r\n {PAGE.decode()}")
    with pytest.raises(StorageError, match="it is a page"):
        store.delete([KEY])


@pytest.mark.parametrize("metadata", [{}, {MARK: mark("another part")}], ids=["another file", "other parts"])
def test_a_file_of_others_is_not_taken_for_a_completion(
    fake_s3: FakeS3, store: GcsStore, metadata: dict[str, str]
) -> None:
    fail(fake_s3, 412, "conditionNotMet")
    give(fake_s3, described(metadata=metadata))
    with pytest.raises(StorageError, match="is there, and not of upload"):
        store.complete_upload(KEY, UPLOAD, PARTS)
    fail(fake_s3, 404, "notFound", "No such object: lake/d/a")
    give(fake_s3, described(metadata=metadata))
    with pytest.raises(StorageError, match="is gone"):
        store.complete_upload(KEY, UPLOAD, PARTS)
    fail(fake_s3, 500)
    give(fake_s3, described(metadata=metadata))
    with pytest.raises(StorageError, match="Google failed"):
        store.complete_upload(KEY, UPLOAD, PARTS)


def test_a_long_copy_takes_several_requests_and_may_be_stopped_before_each(fake_s3: FakeS3, store: GcsStore) -> None:
    give(fake_s3, {"done": False, "rewriteToken": "t/1"})
    give(fake_s3, {"done": True})
    store.copy(SOURCE, "b")
    assert ["rewriteToken=t%2F1" in request.path for request in fake_s3.requests] == [False, True]
    sent = []

    def in_time() -> None:
        sent.append(1)
        if len(sent) == 2:
            raise StorageError("too late")

    give(fake_s3, {"done": False, "rewriteToken": "t/1"})
    with pytest.raises(StorageError, match="too late"):
        store.copy(SOURCE, "b", before_send=in_time)


def test_a_part_that_is_there_already_is_taken_with_its_generation(fake_s3: FakeS3, store: GcsStore) -> None:
    fail(fake_s3, 412, "conditionNotMet")
    give(fake_s3, described(generation="5"))
    assert store.upload_part(KEY, UPLOAD, 1, b"rows").etag.endswith("-5")
    fail(fake_s3, 412, "conditionNotMet")
    fail(fake_s3, 404, "notFound", "No such object: it was given up meanwhile")
    with pytest.raises(StorageError, match="conditionNotMet"):
        store.upload_part(KEY, UPLOAD, 1, b"rows")
    with pytest.raises(StorageError, match="no upload of this library"):
        store.upload_part(KEY, "of-another-store", 1, b"rows")


def test_an_abort_that_finds_parts_again_and_again_ends_with_an_error(fake_s3: FakeS3, store: GcsStore) -> None:
    name = f"{GCS_UPLOADS}{KEY}/{UPLOAD}/00001-{DIGEST}"
    for _ in range(10):
        give(fake_s3, {"kind": "storage#objects", "items": [{"name": name}]})
        fake_s3.answer(204)
    with pytest.raises(StorageError, match="is being sent still"):
        store.abort_upload(KEY, UPLOAD)


def test_pending_uploads_have_the_time_of_their_first_part_and_what_is_none_is_left_out(
    fake_s3: FakeS3, store: GcsStore
) -> None:
    prefix = f"{GCS_UPLOADS}{KEY}/{UPLOAD}/"
    names = [f"{prefix}00001-{DIGEST}", f"{prefix}00002-{DIGEST}", f"{GCS_UPLOADS}d/readme", f"{GCS_UPLOADS}c/x"]
    items = [described(name, timeCreated=f"2024-01-0{9 - number}T00:00:00Z") for number, name in enumerate(names)]
    give(fake_s3, {"kind": "storage#objects", "items": items})
    (found,) = store.list_uploads("d/")
    assert (found.key, found.upload_id, found.initiated_at.day) == (KEY, UPLOAD, 8)


def test_an_empty_page_is_followed_to_the_next_one_and_another_order_is_refused(
    fake_s3: FakeS3, store: GcsStore
) -> None:
    give(fake_s3, {"kind": "storage#objects", "nextPageToken": "t"})
    give(fake_s3, {"kind": "storage#objects", "items": [described("d/"), described("d/b")]})
    page, more = store.list_page("d/", start_after="d")
    assert ([info.key for info in page], more) == (["d/b"], False)
    assert "pageToken=t" in fake_s3.requests[1].path
    give(fake_s3, {"kind": "storage#objects", "items": [described("d/b"), described("d/a")]})
    with pytest.raises(StorageError, match="in an order of its own"):
        store.list_page("d/")


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        (401, "authError", r"does not accept the login.*fs\.gs\.auth"),
        (403, "forbidden", r"access denied.*objectUser"),
        (403, "retentionPolicyNotMet", "retention policy protects"),
        (400, "userProjectMissing", r"pays for this bucket.*requester\.pays"),
        (429, "rateLimitExceeded", "slow down"),
        (503, "backendError", "slow down"),
        (500, "backendError", "Google failed"),
        (418, "teapot", r"Google refused: gs://lake/d/a: teapot \(HTTP 418\): said the fake"),
        (302, "", "Google refused"),
    ],
)
def test_each_error_says_what_to_do(fake_s3: FakeS3, store: GcsStore, status: int, reason: str, expected: str) -> None:
    fail(fake_s3, status, reason)
    with pytest.raises(StorageError, match=expected) as caught:
        store.get(KEY)
    assert caught.value.__cause__ is not None


def test_a_bucket_whose_readers_pay_is_known_by_googles_words(fake_s3: FakeS3, store: GcsStore) -> None:
    said = "Bucket is requester pays bucket but no user project provided."
    fail(fake_s3, 400, "required", said)
    fake_s3.answer(400, said)
    for call in (store.head, store.get):
        with pytest.raises(StorageError, match=r"pays for this bucket.*requester\.pays"):
            call(KEY)


def test_objects_that_google_refuses_to_delete_keep_no_others_from_it(fake_s3: FakeS3, store: GcsStore) -> None:
    fail(fake_s3, 403, "objectUnderActiveHold")
    fake_s3.answer(204)
    fail(fake_s3, 404, "notFound", "No such object: lake/c")
    with pytest.raises(StorageError, match=r"1 of 3 objects.*hold protects"):
        store.delete(["a", "b", "c"])


def test_an_address_that_is_not_there_is_named_and_a_token_is_in_no_error(
    fake_s3: FakeS3, settings: GcsSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StorageError, match=r"can't be reached.*127.0.0.1"):
        GcsStore(replace(settings, endpoint_url="http://127.0.0.1:1")).head(KEY)
    monkeypatch.setattr(gcs_client, "TOKEN_URL", f"{fake_s3.url}/token")
    login = UserLogin(client_id="app", client_secret="hush", refresh_token="hush")
    safe = replace(settings, endpoint_url="https://127.0.0.1:1", credential=login)
    for is_lost, count in ((False, 0), (True, 2)):  # pauses: a login that is wrong is said at once
        pauses: list[float] = []
        for _ in range(count + 1):
            fake_s3.answer(400, '{"error": "invalid_grant"}', headers=JSON, drop=is_lost)
        with pytest.raises(StorageError, match=r"no token for gs://lake/d/a.*clock") as caught:
            GcsStore(replace(safe, requests=replace(safe.requests, max_attempts=3)), sleep=pauses.append).head(KEY)
        assert len(pauses) == count
        assert "hush" not in f"{caught.value!r}{caught.value.__cause__!r}{safe!r}"


def test_names_that_google_does_not_take_are_refused_before_anything_is_sent(fake_s3: FakeS3, store: GcsStore) -> None:
    for key in ("a\nb", "..", ".well-known/acme-challenge/a", "x" * 1_025, f"{GCS_UPLOADS}a"):
        for call in (store.put, store.put_if_absent):
            with pytest.raises(InvalidInputError, match="gs://lake/"):
                call(key, b"")
        with pytest.raises(InvalidInputError, match="gs://lake/"):
            store.create_upload(key)
    with pytest.raises(InvalidInputError, match="too long"):
        store.create_upload("x" * 960)
    assert fake_s3.requests == []


MANY: Final = [UploadedPart(number=number, etag=f"{DIGEST}-{number}", size_bytes=4) for number in range(1, 34)]
PREFIX: Final = f"{GCS_UPLOADS}{KEY}/{UPLOAD}/"
NAMES: Final = [f"{PREFIX}{part.number:05d}-{DIGEST}" for part in MANY]


def composed(fake: FakeS3, number: int) -> tuple[str, list[tuple[str, str]]]:
    """Return what a request has composed: its name, and what of, with generations."""
    request = fake.requests[number]
    path, _, query = request.path.partition("?")
    document = json.loads(request.body)
    sources = document["sourceObjects"]
    assert query == "ifGenerationMatch=0"
    assert all(one["objectPreconditions"] == {"ifGenerationMatch": one["generation"]} for one in sources)
    assert document["destination"]["contentType"] == "application/octet-stream"
    assert document["destination"]["metadata"] == {MARK: mark(*(name.rpartition("/")[2] for name in expected(fake)))}
    name = unquote(path.removesuffix("/compose").partition("/b/lake/o/")[2])
    return name, [(one["name"], one["generation"]) for one in sources]


def expected(fake: FakeS3) -> list[str]:
    """Return the parts of the upload that a test completes."""
    first = json.loads(fake.requests[0].body)["sourceObjects"]
    return NAMES if len(first) > 2 else NAMES[: len(first)]


def give_parts(fake: FakeS3, *generations: int, more: tuple[str, ...] = ()) -> None:
    items = [{"name": NAMES[number - 1], "generation": str(number)} for number in generations]
    joined = [{"name": name, "generation": "99"} for name in more]
    give(fake, {"kind": "storage#objects", "items": [*items, *joined]})


def test_more_than_32_parts_are_composed_level_by_level_and_all_that_is_left_is_deleted(
    fake_s3: FakeS3, store: GcsStore
) -> None:
    give(fake_s3, described(generation="101"))
    give(fake_s3, described(generation="102"))
    give_parts(fake_s3, *range(1, 34), more=(f"{PREFIX}joined-a", f"{PREFIX}joined-b"))
    give(fake_s3, {"done": True})
    for _ in range(35):
        fake_s3.answer(204)
    store.complete_upload(KEY, UPLOAD, MANY)
    first, second = composed(fake_s3, 0), composed(fake_s3, 1)
    assert first[1] == [(name, str(number)) for number, name in enumerate(NAMES[:32], start=1)]
    assert second[1] == [(first[0], "101"), (NAMES[32], "33")]
    assert second[0].startswith(f"{PREFIX}joined-")
    assert len(second[0]) == len(f"{PREFIX}joined-") + 32
    rewritten, deleted = fake_s3.requests[3], fake_s3.requests[4:]
    assert "sourceGeneration=102&ifGenerationMatch=0" in rewritten.path
    assert {(request.method, "generation=" in request.path) for request in deleted} == {("DELETE", True)}
    assert len({request.path for request in deleted}) == 35
    assert store.request_counts()["UploadPartCopy"] == 2


@pytest.mark.parametrize("there", [(1,), ()])
def test_parts_that_are_gone_after_they_were_composed_complete_nothing(
    fake_s3: FakeS3, store: GcsStore, there: tuple[int, ...]
) -> None:
    for _ in range(3):
        give(fake_s3, described(generation="101"))
        give_parts(fake_s3, *there, more=(NAMES[1],))  # of the second another generation, sent after an abort
        fail(fake_s3, 404, "notFound", "No such object")
    with pytest.raises(StorageError, match="is gone"):
        store.complete_upload(KEY, UPLOAD, MANY[:2])
    assert len({composed(fake_s3, number)[0] for number in (0, 3, 6)}) == 3


def test_a_compose_that_may_pass_is_made_again_under_another_name_if_all_parts_are_there(
    fake_s3: FakeS3, settings: GcsSettings
) -> None:
    store = patient(settings)
    fail(fake_s3, 500)
    give(fake_s3, described())
    give(fake_s3, described())
    give(fake_s3, described(generation="101"))
    give_parts(fake_s3, 1, 2)
    give(fake_s3, {"done": True})
    fake_s3.answer(204)
    fake_s3.answer(204)
    store.complete_upload(KEY, UPLOAD, MANY[:2])
    assert composed(fake_s3, 0)[1] == composed(fake_s3, 3)[1]
    assert composed(fake_s3, 0)[0] != composed(fake_s3, 3)[0]
    assert [request.method for request in fake_s3.requests[1:3]] == ["GET", "GET"]


def test_a_compose_of_parts_of_which_one_is_gone_is_no_failure_that_may_pass(
    fake_s3: FakeS3, settings: GcsSettings
) -> None:
    store = GcsStore(replace(settings, requests=replace(settings.requests, max_attempts=1)), sleep=lambda _: None)
    for _ in range(3):
        fail(fake_s3, 500)
        give(fake_s3, described())
        fail(fake_s3, 404, "notFound", "No such object")  # the second part
        fail(fake_s3, 404, "notFound", "No such object")  # the file
    with pytest.raises(StorageError, match="is gone"):
        store.complete_upload(KEY, UPLOAD, MANY[:2])


def test_a_compose_that_is_denied_or_fails_for_good_is_said_at_once(fake_s3: FakeS3, settings: GcsSettings) -> None:
    fail(fake_s3, 403, "forbidden")
    fail(fake_s3, 404, "notFound", "No such object")
    with pytest.raises(StorageError, match="access denied"):
        patient(settings).complete_upload(KEY, UPLOAD, MANY[:2])
    assert len(fake_s3.requests) == 2
    for _ in range(2):
        fail(fake_s3, 503)
        give(fake_s3, described())
        give(fake_s3, described())
    fail(fake_s3, 404, "notFound", "No such object")
    with pytest.raises(StorageError, match="slow down"):
        patient(settings).complete_upload(KEY, UPLOAD, MANY[:2])


def test_parts_that_cannot_be_deleted_leave_the_file_complete(
    fake_s3: FakeS3, store: GcsStore, caplog: pytest.LogCaptureFixture
) -> None:
    give(fake_s3, {"done": True})
    fail(fake_s3, 403, "forbidden")
    store.complete_upload(KEY, UPLOAD, PARTS)
    assert f"the parts below {PREFIX} were not deleted" in caplog.text


def test_what_is_no_part_of_this_store_completes_nothing(store: GcsStore) -> None:
    with pytest.raises(StorageError, match="is to be completed without parts"):
        store.complete_upload(KEY, UPLOAD, [])
    with pytest.raises(StorageError, match="is none of this store: 'etag'"):
        store.complete_upload(KEY, UPLOAD, [replace(PARTS[0], etag="etag")])


def test_what_was_put_is_compared_with_what_google_has(fake_s3: FakeS3, store: GcsStore) -> None:
    give(fake_s3, described())
    store.put(KEY, b"ours")
    give(fake_s3, described(body=b"other"))
    with pytest.raises(StorageError, match="other bytes"):
        store.put(KEY, b"ours")
    fail(fake_s3, 403, "forbidden")
    with pytest.raises(StorageError, match="access denied: gs://lake/d/a"):
        store.put(KEY, b"ours")


def test_a_listing_goes_on_from_page_to_page(fake_s3: FakeS3, store: GcsStore) -> None:
    give(fake_s3, {"kind": "storage#objects", "items": [described("d/a")], "prefixes": ["d/x/"], "nextPageToken": "t"})
    give(fake_s3, {"kind": "storage#objects", "items": [described("d/b"), described("d/c/")], "prefixes": ["d/w/"]})
    assert store.list_files("d/") == ["d/a", "d/b"]
    give(fake_s3, {"kind": "storage#objects", "prefixes": ["d/x/", "d/ü/"], "nextPageToken": "t"})
    give(fake_s3, {"kind": "storage#objects", "prefixes": ["d/w/"]})
    assert store.list_directories("d/") == ["w", "x", "ü"]
    assert ["pageToken=t" in request.path for request in fake_s3.requests] == [False, True, False, True]
    assert all("delimiter=%2F" in request.path for request in fake_s3.requests)
    give(fake_s3, {"kind": "storage#objects", "items": [described("d/a")], "nextPageToken": "t"})
    page, more = store.list_page("d/")
    assert ([info.key for info in page], more) == ([KEY], True)


def test_a_range_past_the_end_is_what_is_there_and_nothing_is_asked_for_nothing(
    fake_s3: FakeS3, store: GcsStore
) -> None:
    assert store.read_range(SOURCE, 4, 10) == b""
    assert store.read_range(SOURCE, 0, 0) == b""
    fake_s3.answer(206, "ws", headers=OF_MEDIA)
    assert store.read_range(SOURCE, 2, 10) == b"ws"
    assert fake_s3.requests[0].headers["range"] == "bytes=2-3"
    fail(fake_s3, 404, "notFound", "No such object: lake/d/a")
    with pytest.raises(SourceChangedError):
        store.read_range(SOURCE, 0, 4)
    fail(fake_s3, 403, "forbidden")
    with pytest.raises(StorageError, match="access denied: gs://lake/d/a"):
        store.read_range(SOURCE, 0, 4)


def test_what_another_has_replaced_is_not_deleted_and_what_is_gone_is_no_failure(
    fake_s3: FakeS3, store: GcsStore
) -> None:
    fail(fake_s3, 404, "notFound", "No such object: lake/d/a")
    give(fake_s3, described(generation="18"))
    with pytest.raises(StorageError, match="gs://lake/d/a is another object than the one that was listed"):
        store.delete([SOURCE])
    fail(fake_s3, 404, "notFound", "No such object: lake/d/a")
    fail(fake_s3, 404, "notFound", "No such object: lake/d/a")
    store.delete([SOURCE])
    fail(fake_s3, 404, "notFound", "No such object: lake/d/a")
    store.delete([KEY])


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("k" * 1_025, "is too long: Google takes 1,024 bytes"),
        (f"{GCS_UPLOADS}a", "is for files that are being sent"),
        (".", "Google takes no such name"),
        ("..", "Google takes no such name"),
        (".well-known/acme-challenge/a", "Google takes no such name"),
        ("a\nb", "nor a line break"),
    ],
)
def test_a_key_that_google_does_not_take_is_refused_before_anything_is_sent(
    fake_s3: FakeS3, store: GcsStore, key: str, why: str
) -> None:
    for call in (
        lambda: store.put(key, b""),
        lambda: store.put_if_absent(key, b""),
        lambda: store.copy(SOURCE, key),
        lambda: store.create_upload(key),
    ):
        with pytest.raises(InvalidInputError, match=why):
            call()
    assert not fake_s3.requests


def test_the_longest_key_of_an_upload_leaves_room_for_its_parts(store: GcsStore) -> None:
    longest = 1_024 - 39 - len(f"{GCS_UPLOADS}/{UPLOAD}/")
    assert len(store.create_upload("k" * longest)) == 32
    with pytest.raises(InvalidInputError, match=f"with {GCS_UPLOADS} before it"):
        store.create_upload("k" * (longest + 1))
