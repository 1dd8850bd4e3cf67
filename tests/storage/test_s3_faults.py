"""What becomes of S3's bad answers, given by a server that answers as each test says."""

from __future__ import annotations

import base64
import hashlib
import re
import socket
import traceback
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from table_writer.errors import InvalidInputError, StorageError
from table_writer.model.message import UploadedPart
from table_writer.storage.object_store import ObjectInfo
from table_writer.storage.s3.settings import Provider, S3Settings
from table_writer.storage.s3.store import S3Store
from tests.storage.conftest import COPIED, CREATED, PART_COPIED, SOURCE, answer_instead

if TYPE_CHECKING:
    from tests.storage.conftest import FakeS3

PARTS = [UploadedPart(number=1, etag='"e"', size_bytes=4, checksum="yTuzdQ==")]


def two_attempts(settings: S3Settings, hasty: dict[str, float] | None = None, **changes: object) -> S3Store:
    requests = replace(settings.requests, max_attempts=2, **(hasty or {}))
    return S3Store(replace(settings, requests=requests, **changes), sleep=lambda _: None)


@pytest.mark.parametrize(("status", "code"), [(409, "ConditionalRequestConflict"), (503, "SlowDown"), (0, "")])
@pytest.mark.parametrize("present", ["ours", "theirs"])
def test_a_claim_without_a_good_answer_is_whose_bytes_are_there(
    fake_s3: FakeS3, fake_store: S3Store, present: str, status: int, code: str
) -> None:
    fail(fake_s3, status, code)
    fake_s3.object(present)
    assert fake_store.put_if_absent("log/1", b"ours") is (present == "ours")


def fail(fake_s3: FakeS3, status: int, code: str) -> None:
    """Let the next request fail; with no status, by a lost answer."""
    fake_s3.answer(status, f"<Error><Code>{code}</Code></Error>", drop=not status)


def test_a_claim_that_the_client_itself_repeated_is_ours_after_412(fake_s3: FakeS3, fake_settings: S3Settings) -> None:
    fake_s3.answer(drop=True)
    fake_s3.error(412, "PreconditionFailed")
    fake_s3.object("ours")
    store = two_attempts(fake_settings)
    assert store.put_if_absent("log/1", b"ours")
    assert store.request_counts() == {"PutObject": 2, "GetObject": 1}


@pytest.mark.parametrize(
    ("status", "code"), [(409, "ConditionalRequestConflict"), (412, "PreconditionFailed"), (503, "SlowDown"), (0, "")]
)
def test_a_claim_that_is_not_there_is_sent_again(fake_s3: FakeS3, fake_store: S3Store, status: int, code: str) -> None:
    fail(fake_s3, status, code)
    fake_s3.error(404, "NoSuchKey")
    fake_s3.answer(headers={"ETag": hashlib.md5(b"ours", usedforsecurity=False).hexdigest()})
    assert fake_store.put_if_absent("log/1", b"ours")
    assert [request.headers.get("if-none-match") for request in fake_s3.requests] == ["*", None, "*"]
    for _ in range(5 if code == "ConditionalRequestConflict" else 0):  # without an end to them
        fail(fake_s3, status, code)
        fake_s3.error(404, "NoSuchKey")
    if code == "ConditionalRequestConflict":
        with pytest.raises(StorageError, match=code):
            fake_store.put_if_absent("log/2", b"ours")


def test_a_claim_that_the_store_refuses_is_not_read_back(fake_s3: FakeS3, fake_store: S3Store) -> None:
    fake_s3.error(403, "AccessDenied")
    with pytest.raises(StorageError, match="s3:PutObject"):
        fake_store.put_if_absent("log/1", b"ours")
    fake_s3.error(501, "NotImplemented", "A header you provided implies functionality that is not implemented")
    with pytest.raises(InvalidInputError, match=f"{fake_s3.url} does not know conditional puts"):
        fake_store.put_if_absent("log/1", b"ours")


@pytest.mark.parametrize(("status", "code"), [(200, "InternalError"), (503, "SlowDown")])
def test_a_completion_that_fails_is_tried_again_and_every_retry_is_counted(
    fake_s3: FakeS3, fake_settings: S3Settings, status: int, code: str
) -> None:
    store = two_attempts(fake_settings)
    fake_s3.error(status, code)
    fake_s3.answer(200, "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>")
    store.complete_upload("a", "id", PARTS)
    assert store.request_counts() == {"CompleteMultipartUpload": 2}
    for _ in range(2):
        fake_s3.error(status, code)
    with pytest.raises(StorageError, match=code):
        store.complete_upload("a", "id", PARTS)


def test_a_completion_whose_answer_was_lost_is_found_done(fake_s3: FakeS3, fake_settings: S3Settings) -> None:
    fake_s3.answer(drop=True)
    fake_s3.error(404, "NoSuchUpload")
    fake_s3.object("body")
    two_attempts(fake_settings).complete_upload("a", "id", PARTS)


def test_a_gone_upload_is_no_object_of_another_size(fake_s3: FakeS3, fake_store: S3Store) -> None:
    fake_s3.error(404, "NoSuchUpload")
    fake_s3.object("some other body")
    with pytest.raises(StorageError, match=r"is gone.*AbortIncompleteMultipartUpload"):
        fake_store.complete_upload("a", "id", PARTS)


def test_an_object_that_arrives_in_part_is_read_again(fake_s3: FakeS3, fake_store: S3Store) -> None:
    fake_s3.object("body", truncate=True)
    fake_s3.object("body")
    found = fake_store.get("a")
    assert found is not None
    assert found.body == b"body"
    for _ in range(4):
        fake_s3.object("body", truncate=True)
    with pytest.raises(StorageError, match="mart/a"):
        fake_store.get("a")


def test_the_age_of_an_object_comes_from_the_stores_own_clock(fake_s3: FakeS3, fake_store: S3Store) -> None:
    fake_s3.object("")  # http.server adds its own Date
    found = fake_store.get("a")
    assert found is not None
    assert found.age_seconds > 365 * 86_400


def listing(keys: list[str], *, more: bool) -> str:
    items = "".join(
        f'<Contents><Key>{key}</Key><Size>1</Size><ETag>"e"</ETag><LastModified>2024-01-01T00:00:00.000Z</LastModified>'
        "</Contents>"
        for key in keys
    )
    truncated = f"<IsTruncated>{str(more).lower()}</IsTruncated>"
    return f"<ListBucketResult><EncodingType>url</EncodingType>{truncated}{items}</ListBucketResult>"


def test_a_page_of_nothing_but_markers_is_never_handed_out_empty(fake_s3: FakeS3, fake_store: S3Store) -> None:
    fake_s3.answer(200, listing(["d/", "d/e/"], more=True))
    fake_s3.answer(200, listing(["d/f"], more=False))
    page, more = fake_store.list_page("d/")
    assert ([info.key for info in page], more) == (["d/f"], False)
    assert "start-after=d%2Fe%2F" in fake_s3.requests[1].path


def uploads_page(*keys: str, more: bool = False, encoding: str = "") -> str:
    uploads = "".join(
        f"<Upload><Key>{key}</Key><UploadId>7</UploadId><Initiated>2024-01-01T00:00:00.000Z</Initiated></Upload>"
        for key in keys
    )
    marker = f"<NextKeyMarker>{keys[-1]}</NextKeyMarker><NextUploadIdMarker>7</NextUploadIdMarker>" if more else ""
    truncated = f"{encoding}<IsTruncated>{str(more).lower()}</IsTruncated>"
    return f"<ListMultipartUploadsResult>{truncated}{marker}{uploads}</ListMultipartUploadsResult>"


def test_a_store_that_does_not_filter_by_prefix_endangers_nobody(fake_s3: FakeS3, fake_store: S3Store) -> None:
    fake_s3.answer(200, listing(["c/x", "d/y"], more=False))
    assert [info.key for info in fake_store.list("d/")] == ["d/y"]
    fake_s3.answer(200, uploads_page("c/x", "d/y+z"))
    assert [upload.key for upload in fake_store.list_uploads("d/")] == ["d/y+z"]  # not encoded: the answer says nothing


def test_pages_of_uploads_go_on_from_both_markers(fake_s3: FakeS3, fake_store: S3Store) -> None:
    encoding = "<EncodingType>url</EncodingType>"
    fake_s3.answer(200, uploads_page("d/a%20b", more=True, encoding=encoding))
    fake_s3.answer(200, uploads_page("d/c", encoding=encoding))
    assert [upload.key for upload in fake_store.list_uploads("d/")] == ["d/a b", "d/c"]
    assert "key-marker=d%2Fa%20b" in fake_s3.requests[1].path
    assert "upload-id-marker=7" in fake_s3.requests[1].path


def test_a_store_that_pages_uploads_by_key_alone_is_paged_so(fake_s3: FakeS3, fake_store: S3Store) -> None:
    fake_s3.answer(200, uploads_page("d/a", more=True))
    fake_s3.error(400, "InvalidArgument", "Invalid uploadId marker")
    fake_s3.answer(200, uploads_page())
    assert [upload.key for upload in fake_store.list_uploads("d/")] == ["d/a"]
    assert ["upload-id-marker" in request.path for request in fake_s3.requests] == [False, True, False]
    assert "key-marker=d%2Fa" in fake_s3.requests[2].path


def deleted(*errors: tuple[str, str]) -> str:
    inner = "".join(f"<Error><Key>{key}</Key><Code>{code}</Code><Message>m</Message></Error>" for key, code in errors)
    return f"<DeleteResult>{inner}</DeleteResult>"


def test_keys_that_s3_refused_to_delete_are_an_error(fake_s3: FakeS3, fake_store: S3Store) -> None:
    fake_s3.answer(200, deleted(("b", "AccessDenied"), ("c", "AccessDenied")))
    with pytest.raises(StorageError, match=r"2 of 3 objects.*s3://mart/b: AccessDenied.*s3:DeleteObject"):
        fake_store.delete(["a", "b", "c"])


def test_keys_that_s3_could_not_delete_just_now_are_tried_again(fake_s3: FakeS3, fake_store: S3Store) -> None:
    fake_s3.answer(200, deleted(("b", "InternalError"), ("c", "NoSuchKey")))
    fake_s3.answer(200, deleted())
    fake_store.delete(["a", "b", "c"])
    assert fake_s3.requests[1].body.count(b"<Key>") == 1


def test_refusals_in_the_first_batch_keep_no_second_from_being_sent(fake_s3: FakeS3, fake_store: S3Store) -> None:
    fake_s3.answer(200, deleted(("0", "AccessDenied")))
    fake_s3.answer(200, deleted())
    with pytest.raises(StorageError, match="1 of 1,500 objects"):
        fake_store.delete([str(number) for number in range(1_500)])
    assert [request.body.count(b"<Key>") for request in fake_s3.requests] == [1_000, 500]


LISTED = [
    ObjectInfo(key=key, size_bytes=1, etag=f"of-{key}", modified_at=datetime(2024, 1, 1, tzinfo=UTC)) for key in "ab"
]


def test_what_was_listed_is_deleted_by_its_etag(fake_s3: FakeS3, fake_store: S3Store) -> None:
    fake_s3.answer(200, deleted(("a", "PreconditionFailed"), ("b", "ConditionalRequestConflict")))
    fake_s3.answer(200, deleted())
    with pytest.raises(StorageError, match=r"1 of 3 objects could not be deleted, first s3://mart/a: .* It stays"):
        fake_store.delete([*LISTED, "c"])
    both, again = (one.body.decode() for one in fake_s3.requests)
    assert re.findall("<ETag>(.*?)</ETag>", both) == ['"of-a"', '"of-b"']
    assert re.findall("<Key>(.*?)</Key>", again) == ["b"]


def test_a_store_that_takes_no_etag_to_delete_is_asked_without(fake_s3: FakeS3, fake_store: S3Store) -> None:
    fake_s3.error(400, "MalformedXML")
    fake_s3.answer(200, deleted())
    fake_store.delete(LISTED)
    assert ["<ETag>" in one.body.decode() for one in fake_s3.requests] == [True, False]


@pytest.mark.parametrize(("status", "code"), [(412, "PreconditionFailed"), (404, "NoSuchKey"), (403, "AccessDenied")])
def test_a_listed_key_that_is_no_xml_goes_by_etag(status: int, code: str, fake_s3: FakeS3, fake_store: S3Store) -> None:
    fake_s3.error(status, code)
    refused = {412: pytest.raises(StorageError, match="It stays"), 403: pytest.raises(StorageError, match="denied")}
    with refused.get(status, nullcontext()):
        fake_store.delete([replace(LISTED[0], key="a\x01")])
    assert fake_s3.requests[0].headers["if-match"] == '"of-a"'


def test_a_key_that_xml_cannot_hold_is_deleted_by_itself(fake_s3: FakeS3, fake_store: S3Store) -> None:
    fake_s3.answer(200, deleted())
    fake_s3.answer(204)
    fake_store.delete(["a\x01", "b"])
    assert [(request.method, request.path) for request in fake_s3.requests] == [
        ("POST", "/mart?delete"),
        ("DELETE", "/mart/a%01"),
    ]
    assert b"<Key>b</Key>" in fake_s3.requests[0].body
    assert b"<Key>a" not in fake_s3.requests[0].body


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (403, "AccessDenied", r"denied.*need s3:GetObject and s3:ListBucket.*kms:Decrypt.*AWS_PROFILE or --profile"),
        (400, "ExpiredToken", r"session token has expired.*AWS_SESSION_TOKEN.*aws sso login"),
        (403, "InvalidAccessKeyId", r"does not accept the keys.*AWS_PROFILE or --profile, or AWS_ACCESS_KEY_ID"),
        (403, "SignatureDoesNotMatch", r"does not accept the keys"),
        (400, "AuthorizationHeaderMalformed", r"another region.*fs.s3a.endpoint.region"),
        (503, "ServiceUnavailable", r"slow down"),
        (500, "InternalError", r"S3 failed"),
        (418, "Teapot", r"S3 refused: GetObject on s3://mart/a/b: Teapot \(HTTP 418\): said the fake"),
    ],
)
def test_each_error_says_what_to_do(
    fake_s3: FakeS3, fake_store: S3Store, status: int, code: str, expected: str
) -> None:
    """The others: tests/outside/test_advice.py."""
    fake_s3.error(status, code)
    with pytest.raises(StorageError, match=expected) as caught:
        fake_store.get("a/b")
    assert "s3://mart/a/b" in str(caught.value)
    assert caught.value.__cause__ is not None


def test_a_head_without_permission_does_not_pass_for_a_missing_key(fake_s3: FakeS3, fake_store: S3Store) -> None:
    fake_s3.error(403, "")
    with pytest.raises(StorageError, match=r"access denied.*s3:GetObject and s3:ListBucket"):
        fake_store.head("a")


def test_an_endpoint_that_is_not_there_is_named(fake_settings: S3Settings) -> None:
    store = S3Store(replace(fake_settings, endpoint_url="http://127.0.0.1:1"))
    with pytest.raises(StorageError, match=r"can't be reached.*127.0.0.1:1.*fs.s3a.endpoint"):
        store.head("a")


def test_an_endpoint_that_never_answers_is_told_of_while_it_is_waited_for(
    fake_settings: S3Settings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the system takes connections, and nobody reads them
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://me:hush-hush@127.0.0.1:{silent.getsockname()[1]}")
        store = two_attempts(fake_settings, {"read_timeout_seconds": 0.2}, endpoint_url="")
        with pytest.raises(StorageError, match=r"S3 has not answered.*fs\.s3a\.connection\.timeout") as raised:
            store.head("a")
    assert "hush-hush" not in "".join(traceback.format_exception(raised.value))
    [line] = [one.getMessage() for one in caplog.records if one.name.startswith("table_writer")]
    assert line.startswith("S3 did not answer HeadObject on bucket mart, attempt 1 of 2: Read timeout on endpoint URL")
    assert "hush-hush" not in line


def sent_headers(fake_s3: FakeS3) -> dict[str, str]:
    return fake_s3.requests[-1].headers


def test_encryption_acl_and_storage_class_go_with_every_new_object(fake_s3: FakeS3, fake_settings: S3Settings) -> None:
    settings = replace(
        fake_settings,
        encryption="aws:kms",
        kms_key_id="arn:key",
        kms_context="e30=",
        acl="bucket-owner-full-control",
        storage_class="INTELLIGENT_TIERING",
        requester_pays=True,
    )
    payer = {"x-amz-request-payer": "requester"}
    every = payer | {
        "x-amz-server-side-encryption": "aws:kms",
        "x-amz-server-side-encryption-aws-kms-key-id": "arn:key",
        "x-amz-server-side-encryption-context": "e30=",
        "x-amz-acl": "bucket-owner-full-control",
        "x-amz-storage-class": "INTELLIGENT_TIERING",
    }
    source = payer | {"x-amz-copy-source": "mart/d/a%3D1", "x-amz-copy-source-if-match": '"etag"'}
    store = S3Store(settings)
    fake_s3.answer(200, CREATED)
    assert store.create_upload("a") == "7"
    fake_s3.answer()
    store.put("a", b"")
    fake_s3.answer(headers={"ETag": hashlib.md5(b"", usedforsecurity=False).hexdigest()})
    store.put_if_absent("a", b"")
    fake_s3.answer(200, COPIED)
    store.copy(SOURCE, "b")
    assert all(every.items() <= request.headers.items() for request in fake_s3.requests)
    assert (source | {"x-amz-checksum-algorithm": "CRC32"}).items() <= sent_headers(fake_s3).items()
    fake_s3.object("body")
    for answer in (CREATED, PART_COPIED, "<CompleteMultipartUploadResult/>"):
        fake_s3.answer(200, answer)
    S3Store(replace(settings, max_single_copy_bytes=0)).copy(SOURCE, "b")
    created, part = (request.headers for request in fake_s3.requests[-3:-1])
    assert every.items() <= created.items()
    assert (source | {"x-amz-copy-source-range": "bytes=0-3"}).items() <= part.items()
    assert not [name for headers in (created, part) for name in headers if "checksum" in name]


def test_parts_go_with_their_crc32_which_completing_repeats(fake_s3: FakeS3, fake_store: S3Store) -> None:
    fake_s3.answer(200, headers={"ETag": '"e"'})
    part = fake_store.upload_part("a", "id", 1, memoryview(b"123456789"))
    assert part.checksum == sent_headers(fake_s3)["x-amz-checksum-crc32"] == "y/Q5Jg=="
    fake_s3.answer(200, "<CompleteMultipartUploadResult/>")
    fake_store.complete_upload("a", "id", [part])
    assert re.search(rb"<ChecksumCRC32>y/Q5Jg==</ChecksumCRC32>", fake_s3.requests[-1].body)


def test_a_store_without_checksums_is_sent_none(fake_s3: FakeS3, fake_settings: S3Settings) -> None:
    store = S3Store(replace(fake_settings, checksum=None))
    fake_s3.answer(200, COPIED)
    store.copy(SOURCE, "b")
    fake_s3.answer(200, CREATED)
    store.create_upload("a")
    fake_s3.answer(200, headers={"ETag": '"e"'})
    part = store.upload_part("a", "7", 1, b"123456789")
    fake_s3.answer(200, "<CompleteMultipartUploadResult/>")
    store.complete_upload("a", "7", [part])
    fake_s3.answer()
    store.put("a", b"x")
    fake_s3.answer(200, deleted())
    store.delete(["a"])
    assert part.checksum == ""
    assert not [name for request in fake_s3.requests for name in request.headers if "checksum" in name]
    md5 = hashlib.md5(fake_s3.requests[-1].body, usedforsecurity=False).digest()
    assert sent_headers(fake_s3)["content-md5"] == base64.b64encode(md5).decode()


def test_anonymous_requests_carry_no_signature(fake_s3: FakeS3, fake_settings: S3Settings) -> None:
    fake_s3.error(404, "NoSuchKey")
    S3Store(replace(fake_settings, credentials=(Provider.ANONYMOUS,))).get("a")
    assert "authorization" not in sent_headers(fake_s3)


def test_over_tls_the_checksum_replaces_hashing_for_the_signature(fake_settings: S3Settings) -> None:
    store = S3Store(replace(fake_settings, endpoint_url="https://127.0.0.1:1"))
    sent = answer_instead(store, "PutObject", b"")
    store.put("a", b"123456789")
    assert sent[0].headers["x-amz-content-sha256"] == b"UNSIGNED-PAYLOAD"
    assert sent[0].headers["x-amz-checksum-crc32"] == b"y/Q5Jg=="
