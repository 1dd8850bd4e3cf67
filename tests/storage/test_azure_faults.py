"""What becomes of Azure's bad answers, given by a server that answers as each test says, as no emulator does."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Final

import pytest

from table_writer.errors import InvalidInputError, StorageError
from table_writer.model.message import UploadedPart
from table_writer.storage.azure.client import SourceLogin, _Retry
from table_writer.storage.azure.settings import (
    AccountKey,
    AzureCredential,
    AzureSettings,
    ManagedIdentity,
    SasToken,
    ServicePrincipal,
)
from table_writer.storage.azure.store import ABORTED, AzureStore
from table_writer.storage.object_store import ObjectInfo, SourceChangedError
from table_writer.storage.request_settings import LONGEST_PAUSE_SECONDS, RequestSettings
from tests.storage.conftest import FakeS3

UPLOAD: Final = "0192f0c0000000000000000000000000"  # begun in October 2024, as the first twelve digits say
BLOCK: Final = f"{UPLOAD}-00001-{'ab' * 12}"
PARTS: Final = [UploadedPart(number=1, etag=BLOCK, size_bytes=4)]
SOURCE: Final = ObjectInfo(key="d/a", size_bytes=10, etag="0x8D1", modified_at=datetime(2024, 1, 1, tzinfo=UTC))
OF_SOURCE: Final = {"ETag": '"0x8D1"', "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT", "x-ms-blob-type": "BlockBlob"}
XML: Final = {"Content-Type": "application/xml"}


@pytest.fixture
def settings(fake_s3: FakeS3) -> AzureSettings:
    return AzureSettings(
        account="mart",
        container="lake",
        account_url=f"{fake_s3.url}/mart",
        credential=AccountKey("aHVzaC1odXNo"),
        requests=RequestSettings(max_attempts=1, connect_timeout_seconds=2, read_timeout_seconds=2),
    )


@pytest.fixture
def store(settings: AzureSettings) -> AzureStore:
    return AzureStore(settings, sleep=lambda _: None)


def fail(fake: FakeS3, status: int, code: str) -> None:
    """Let the next request fail; with no status, by a lost answer."""
    body = f"<Error><Code>{code}</Code><Message>said the fake</Message></Error>"
    fake.answer(status, body, headers={**XML, "x-ms-error-code": code}, drop=not status)


def give(fake: FakeS3, body: str, **more: str) -> None:
    headers = {**OF_SOURCE, "Content-Range": f"bytes 0-{len(body) - 1}/{len(body)}", **more}
    fake.answer(206, body, headers=headers)


@pytest.mark.parametrize(
    ("status", "code"),
    [(409, "BlobAlreadyExists"), (412, "ConditionNotMet"), (500, "InternalError"), (503, "ServerBusy"), (0, "")],
)
@pytest.mark.parametrize("present", ["ours", "other"])
def test_whose_claim_it_is_is_read_back(
    fake_s3: FakeS3, store: AzureStore, status: int, code: str, present: str
) -> None:
    fail(fake_s3, status, code)
    give(fake_s3, present)
    assert store.put_if_absent("log/1", b"ours") == (present == "ours")
    assert [request.headers.get("if-none-match") for request in fake_s3.requests] == ["*", None]


def test_a_claim_that_is_not_there_is_sent_again_and_in_the_end_open(fake_s3: FakeS3, store: AzureStore) -> None:
    fake_s3.answer(drop=True)
    fail(fake_s3, 404, "BlobNotFound")
    fake_s3.answer(201)
    assert store.put_if_absent("log/1", b"ours")
    for _ in range(5):
        fail(fake_s3, 503, "ServerBusy")
        fail(fake_s3, 404, "BlobNotFound")
    with pytest.raises(StorageError, match="slow down"):
        store.put_if_absent("log/1", b"ours")


def test_a_claim_that_was_denied_is_not_read_back_and_a_retry_is_counted(
    fake_s3: FakeS3, store: AzureStore, settings: AzureSettings
) -> None:
    fail(fake_s3, 403, "AuthorizationPermissionMismatch")
    with pytest.raises(StorageError, match="Storage Blob Data Contributor"):
        store.put_if_absent("log/1", b"ours")
    fail(fake_s3, 503, "ServerBusy")
    fake_s3.answer(201)
    patient = AzureStore(replace(settings, requests=replace(settings.requests, max_attempts=2)))
    patient.put("a", b"x")
    assert patient.request_counts() == {"PutObject": 2}


def test_a_completion_names_uncommitted_blocks_alone_and_deletes_nothing_if_it_fails(
    fake_s3: FakeS3, store: AzureStore
) -> None:
    """Else a late repeat would commit the object's own blocks again, which changes its ETag."""
    fake_s3.answer(201)
    store.complete_upload("a", UPLOAD, PARTS)
    assert re.findall(rb"<(Uncommitted|Latest|Committed)>", fake_s3.requests[0].body) == [b"Uncommitted"]
    fail(fake_s3, 500, "InternalError")
    with pytest.raises(StorageError, match="Azure failed"):
        store.complete_upload("a", UPLOAD, PARTS)
    assert [request.method for request in fake_s3.requests] == ["PUT", "PUT"]


def test_a_completion_whose_answer_was_lost_is_found_done(fake_s3: FakeS3, settings: AzureSettings) -> None:
    fake_s3.answer(drop=True)
    fail(fake_s3, 400, "InvalidBlockList")
    fake_s3.answer(200, "rows", headers=OF_SOURCE)
    AzureStore(replace(settings, requests=replace(settings.requests, max_attempts=2))).complete_upload(
        "a", UPLOAD, PARTS
    )
    assert [request.method for request in fake_s3.requests] == ["PUT", "PUT", "HEAD"]


@pytest.mark.parametrize("present", ["longer rows", None])
def test_a_gone_upload_is_no_object_of_another_size(fake_s3: FakeS3, store: AzureStore, present: str | None) -> None:
    fail(fake_s3, 400, "InvalidBlockList")
    if present is None:
        fake_s3.answer(404, headers={"x-ms-error-code": "BlobNotFound"})
    else:
        fake_s3.answer(200, present, headers=OF_SOURCE)
    with pytest.raises(StorageError, match="is gone"):
        store.complete_upload("a", UPLOAD, PARTS)


def test_an_abort_deletes_only_what_it_has_put(fake_s3: FakeS3, store: AzureStore) -> None:
    fake_s3.answer(201, headers={"ETag": '"0x1"', "Last-Modified": OF_SOURCE["Last-Modified"]})
    fail(fake_s3, 412, "ConditionNotMet")  # a completion came in between
    store.abort_upload("a", UPLOAD)
    put, delete = fake_s3.requests
    assert (put.headers["if-none-match"], put.headers[f"x-ms-meta-{ABORTED}"]) == ("*", "1")
    assert (delete.method, delete.headers["if-match"]) == ("DELETE", '"0x1"')


def test_an_abort_whose_answer_was_lost_finds_its_mark(fake_s3: FakeS3, settings: AzureSettings) -> None:
    fake_s3.answer(drop=True)
    fail(fake_s3, 409, "BlobAlreadyExists")
    fake_s3.answer(200, headers={**OF_SOURCE, f"x-ms-meta-{ABORTED}": "1"})
    fake_s3.answer(202)
    AzureStore(replace(settings, requests=replace(settings.requests, max_attempts=2))).abort_upload("a", UPLOAD)
    assert [request.method for request in fake_s3.requests] == ["PUT", "PUT", "HEAD", "DELETE"]


def listing(*blobs: str) -> str:
    return f"<EnumerationResults><Blobs>{''.join(blobs)}</Blobs><NextMarker/></EnumerationResults>"


def test_pending_uploads_are_found_without_time_and_etag(fake_s3: FakeS3, store: AzureStore) -> None:
    pending = (
        "<Blob><Name>d/a</Name><Properties><Content-Length>0</Content-Length><BlobType>BlockBlob</BlobType></Properties>"
        "</Blob>"
    )
    done = (
        "<Blob><Name>d/b</Name><Properties><Last-Modified>Mon, 01 Jan 2024 00:00:00 GMT</Last-Modified><Etag>0x1</Etag>"
        "<Content-Length>4</Content-Length><BlobType>BlockBlob</BlobType></Properties><Metadata/></Blob>"
    )
    others = pending.replace("d/a", "c/a")  # a store that does not filter endangers nobody
    fake_s3.answer(200, listing(others, pending, done), headers=XML)
    blocks = f"<Block><Name>{encoded(BLOCK)}</Name><Size>4</Size></Block>"
    fake_s3.answer(200, f"<BlockList><UncommittedBlocks>{blocks}</UncommittedBlocks></BlockList>", headers=XML)
    (found,) = store.list_uploads("d/")
    assert (found.key, found.upload_id, found.initiated_at.date().isoformat()) == ("d/a", UPLOAD, "2024-11-03")
    assert "uncommittedblobs" in fake_s3.requests[0].path


def encoded(name: str) -> str:
    return base64.b64encode(name.encode()).decode()


@pytest.mark.parametrize(
    ("status", "code"),
    [(404, "BlobNotFound"), (404, "CannotVerifyCopySource"), (412, "SourceConditionNotMet"), (412, "ConditionNotMet")],
)
def test_a_source_that_changed_is_refused(fake_s3: FakeS3, store: AzureStore, status: int, code: str) -> None:
    fail(fake_s3, status, code)
    with pytest.raises(SourceChangedError, match="replaced or deleted"):
        store.copy(SOURCE, "b")
    fake_s3.answer(202, headers={"x-ms-copy-status": "pending", **OF_SOURCE})
    with pytest.raises(StorageError, match="its state is 'pending'"):
        store.copy(SOURCE, "b")


def test_a_copy_is_made_by_the_store_from_exactly_the_source(fake_s3: FakeS3, store: AzureStore) -> None:
    fake_s3.answer(202, headers={"x-ms-copy-status": "success", **OF_SOURCE})
    store.copy(SOURCE, "b")
    (request,) = fake_s3.requests
    assert request.headers["x-ms-source-if-match"] == '"0x8D1"'
    assert request.headers["x-ms-requires-sync"] == "True"
    assert re.search(r"/mart/lake/d/a\?.*sp=r&.*sig=", request.headers["x-ms-copy-source"])  # to read, and that one
    assert request.body == b""


def test_a_large_file_is_copied_in_blocks_with_its_metadata(fake_s3: FakeS3, settings: AzureSettings) -> None:
    store = AzureStore(replace(settings, max_single_copy_bytes=0, copy_part_bytes=4))
    fake_s3.answer(200, "0123456789", headers={**OF_SOURCE, "x-ms-meta-key_v2": "wrapped", "Content-Encoding": "gzip"})
    for _ in range(4):
        fake_s3.answer(201)
    store.copy(SOURCE, "b")
    _, *blocks, commit = fake_s3.requests
    assert sorted(block.headers["x-ms-source-range"] for block in blocks) == ["bytes=0-3", "bytes=4-7", "bytes=8-9"]
    assert {block.headers["x-ms-source-if-match"] for block in blocks} == {'"0x8D1"'}
    assert (commit.headers["x-ms-meta-key_v2"], commit.headers["x-ms-blob-content-encoding"]) == ("wrapped", "gzip")
    assert len(re.findall(b"<Uncommitted>", commit.body)) == 3
    assert store.request_counts() == {"HeadObject": 1, "UploadPartCopy": 3, "CompleteMultipartUpload": 1}


def test_a_large_copy_that_fails_aborts_its_upload(fake_s3: FakeS3, settings: AzureSettings) -> None:
    store = AzureStore(replace(settings, max_single_copy_bytes=0, copy_part_bytes=10))
    fake_s3.answer(200, "0123456789", headers=OF_SOURCE)
    fail(fake_s3, 412, "SourceConditionNotMet")
    fake_s3.answer(201, headers={"ETag": '"0x1"', "Last-Modified": OF_SOURCE["Last-Modified"]})
    fake_s3.answer(202)
    with pytest.raises(SourceChangedError):
        store.copy(SOURCE, "b")
    assert [request.method for request in fake_s3.requests] == ["HEAD", "PUT", "PUT", "DELETE"]


def test_the_source_of_a_copy_is_read_with_the_stores_own_token(fake_s3: FakeS3, settings: AzureSettings) -> None:
    fake_s3.answer(202, headers={"x-ms-copy-status": "success", **OF_SOURCE})
    AzureStore(replace(settings, credential=SasToken("?sv=1&sig=hush"))).copy(SOURCE, "b")
    assert fake_s3.requests[0].headers["x-ms-copy-source"].endswith("/mart/lake/d/a?sv=1&sig=hush")
    login = replace(settings, account_url="https://mart.blob.core.windows.net", credential=ManagedIdentity())
    client = SimpleNamespace(
        credential=SimpleNamespace(get_token=lambda scope: SimpleNamespace(token=f"token-for-{scope}")),
        get_blob_client=lambda key: SimpleNamespace(url=f"https://mart.blob.core.windows.net/lake/{key}"),
    )
    address, options = SourceLogin(login, client).of("d/a")  # type: ignore[arg-type]
    assert address == "https://mart.blob.core.windows.net/lake/d/a"
    assert options == {"source_authorization": "Bearer token-for-https://storage.azure.com/.default"}


@pytest.mark.parametrize(
    "login",
    [
        ManagedIdentity(),
        ManagedIdentity("id-1"),
        ServicePrincipal(tenant="contoso", client_id="app", secret="hush", authority="login.chinacloudapi.cn"),
        ServicePrincipal(tenant="contoso", client_id="app", token_file="/var/run/token"),
    ],
    ids=["machine", "of several", "secret", "workload"],
)
def test_logins_of_entra_id_need_no_request_but_tls(settings: AzureSettings, login: AzureCredential) -> None:
    store = AzureStore(replace(settings, account_url="https://mart.blob.core.windows.net", credential=login))
    assert callable(store.client.credential.get_token)
    assert store.request_counts() == {}
    with pytest.raises(InvalidInputError, match="TLS") as caught:
        replace(settings, credential=login)
    assert "hush" not in f"{store!r}{login!r}{vars(caught.value)}"


def test_a_tenant_that_cannot_be_one_is_refused(settings: AzureSettings) -> None:
    login = ServicePrincipal(tenant="not a tenant", client_id="app", secret="hush")
    with pytest.raises(InvalidInputError, match="no login for Azure") as caught:
        AzureStore(replace(settings, account_url="https://mart.blob.core.windows.net", credential=login))
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (403, "AuthenticationFailed", r"does not accept the login.*expiry"),
        (403, "KeyBasedAuthenticationNotPermitted", r"takes no shared keys.*OAuth"),
        (403, "AuthorizationFailure", r"access denied.*firewall"),
        (404, "ContainerNotFound", r"container does not exist"),
        (409, "BlobArchived", r"archived.*online tier"),
        (503, "ServerBusy", r"slow down"),
        (500, "InternalError", r"Azure failed"),
        (418, "Teapot", r"Azure refused: abfss://lake@mart/a/b: Teapot \(HTTP 418\): said the fake"),
    ],
)
def test_each_error_says_what_to_do(fake_s3: FakeS3, store: AzureStore, status: int, code: str, expected: str) -> None:
    fail(fake_s3, status, code)
    with pytest.raises(StorageError, match=expected) as caught:
        store.get("a/b")
    assert caught.value.__cause__ is not None
    assert "hush" not in f"{caught.value.__cause__!r}{vars(caught.value.__cause__)}"


def test_an_object_without_permission_does_not_pass_for_a_missing_one(fake_s3: FakeS3, store: AzureStore) -> None:
    for call in (store.get, store.head):
        fake_s3.answer(403, headers={"x-ms-error-code": "AuthorizationPermissionMismatch"})
        with pytest.raises(StorageError, match="access denied"):
            call("a")


def test_objects_that_azure_refuses_to_delete_keep_no_others_from_it(fake_s3: FakeS3, store: AzureStore) -> None:
    fail(fake_s3, 409, "SnapshotsPresent")
    fake_s3.answer(202)
    fail(fake_s3, 404, "BlobNotFound")
    with pytest.raises(StorageError, match=r"1 of 3 objects.*has snapshots"):
        store.delete(["a", "b", "c"])
    assert len(fake_s3.requests) == 3


def test_the_age_of_an_object_comes_from_the_services_own_clock(fake_s3: FakeS3, store: AzureStore) -> None:
    give(fake_s3, "x")  # http.server adds its own Date
    found = store.get("a")
    assert found is not None
    assert found.age_seconds > 365 * 86_400


def test_an_endpoint_that_is_not_there_is_named(settings: AzureSettings) -> None:
    with pytest.raises(StorageError, match=r"can't be reached.*127.0.0.1.*port=1"):
        AzureStore(replace(settings, account_url="http://127.0.0.1:1/mart")).head("a")


def test_pauses_between_attempts_stay_short(settings: AzureSettings) -> None:
    pauses = [_Retry(retry_total=8).get_backoff_time({"count": count}) for count in range(8)]
    assert all(0 <= pause <= min(LONGEST_PAUSE_SECONDS, 0.2 * 2**count) for count, pause in enumerate(pauses))
    assert timedelta(seconds=sum(pauses)) < timedelta(minutes=1)
