"""Server-side copies: what every store must do alike, and what becomes of S3's bad answers to them."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from table_writer.errors import StorageError
from table_writer.model.upload_spec import MAX_PART_BYTES
from table_writer.storage.local.store import LocalStore, copy_contents
from table_writer.storage.object_store import ObjectInfo, ObjectStore, SourceChangedError
from table_writer.storage.s3.settings import COPY_PART_BYTES, S3Settings
from table_writer.storage.s3.store import MAX_PARTS, S3Store, part_ranges
from tests.storage.conftest import COPIED, CREATED, PART_COPIED, SOURCE, answer_instead
from tests.storage.test_contract import MIB, body_of, keys_below, upload

if TYPE_CHECKING:
    from tests.storage.conftest import FakeS3, Place

Copied = tuple[LocalStore, ObjectInfo, Path]
IN_PARTS = {"max_single_copy_bytes": MIB, "copy_part_bytes": 5 * MIB}
BIG = b"".join(bytes([number]) * MIB for number in range(11))  # three parts


def listed(store: ObjectStore, key: str) -> ObjectInfo:
    (found,) = store.list(key)
    return found


def put(place: Place, name: str, body: bytes) -> ObjectInfo:
    place.store.put(f"{place.directory}{name}", body)
    return listed(place.store, f"{place.directory}{name}")


def sent_since(store: ObjectStore, before: Mapping[str, int]) -> dict[str, int]:
    """Return the requests since then, by kind."""
    return dict(Counter(store.request_counts()) - Counter(before))


@pytest.fixture(params=["moto", "versitygw", "seaweedfs"])
def parts_place(request: pytest.FixtureRequest, open_place: Callable[..., Place]) -> Place:
    """The S3 stores, which copy what is larger than 1 MiB in parts."""
    return open_place(request.param, **IN_PARTS)


@pytest.mark.parametrize(
    "bodies",
    [[b""], [b"x"], [bytes(range(256)) * 5_000], [b"x" * 5 * MIB, b"tail"]],
    ids=["empty", "one byte", "1.2 MB", "in parts"],
)
def test_a_copy_has_the_bytes_of_its_source_and_none_go_through_the_client(place: Place, bodies: list[bytes]) -> None:
    key = f"{place.directory}dt=1/a"
    if len(bodies) == 1:
        place.store.put(key, bodies[0])
    else:
        place.store.complete_upload(key, *upload(place.store, key, *bodies))
    source, before = listed(place.store, key), place.store.request_counts()
    place.store.copy(source, f"{place.directory}data/dt=1/b")
    assert sent_since(place.store, before) == {"CopyObject": 1}
    assert body_of(place.store, f"{place.directory}data/dt=1/b") == b"".join(bodies)
    assert keys_below(place) == ["data/dt=1/b", "dt=1/a"]
    assert listed(place.store, source.key) == source


def test_a_copy_replaces_what_is_there_and_stays_when_its_source_goes_or_changes(place: Place) -> None:
    put(place, "data/a", b"something longer")
    for name in ("a", "b"):
        source = put(place, name, b"old")
        for _ in range(3):
            place.store.copy(source, f"{place.directory}data/{name}")
    place.store.delete([f"{place.directory}a"])
    place.store.put(f"{place.directory}b", b"new")
    assert [body_of(place.store, f"{place.directory}data/{name}") for name in "ab"] == [b"old", b"old"]


def test_a_copy_is_as_young_as_it_is(place: Place) -> None:
    source = put(place, "a", b"rows")
    if place.kind == "local":
        os.utime(f"/{source.key}", (1_000, 1_000))
        source = listed(place.store, source.key)
    place.store.copy(source, f"{place.directory}b")
    found = place.store.get(f"{place.directory}b")
    assert found is not None
    assert found.age_seconds < 60


@pytest.mark.parametrize("body", [b"other", b"size"], ids=["longer", "as long"])
def test_a_source_that_changed_since_it_was_listed_is_refused(strict_place: Place, body: bytes) -> None:
    source = put(strict_place, "a", b"rows")
    put(strict_place, "present", b"present")
    strict_place.store.put(source.key, body)
    for target in ("data/b", "present"):
        with pytest.raises(SourceChangedError, match=r"a was replaced or deleted since it was listed.*List again"):
            strict_place.store.copy(source, f"{strict_place.directory}{target}")
    assert keys_below(strict_place) == ["a", "present"]
    assert body_of(strict_place.store, f"{strict_place.directory}present") == b"present"
    assert list(strict_place.store.list_uploads(strict_place.directory)) == []


def test_a_source_that_is_gone_is_refused(place: Place) -> None:
    source = put(place, "a", b"rows")
    place.store.delete([source.key])
    with pytest.raises(SourceChangedError, match="replaced or deleted"):
        place.store.copy(source, f"{place.directory}data/b")
    assert keys_below(place) == []


@pytest.mark.parametrize("size_bytes", [MIB, MIB + 1, 5 * MIB, 10 * MIB, 11 * MIB])
def test_a_large_file_is_copied_in_parts_and_none_go_through_the_client(parts_place: Place, size_bytes: int) -> None:
    store, key = parts_place.store, f"{parts_place.directory}b"
    source = put(parts_place, "a", BIG[:size_bytes])
    before = store.request_counts()
    store.copy(source, key)
    parts = -(-size_bytes // (5 * MIB))
    kinds = {"HeadObject": 1, "CreateMultipartUpload": 1, "UploadPartCopy": parts, "CompleteMultipartUpload": 1}
    assert sent_since(store, before) == (kinds if size_bytes > MIB else {"CopyObject": 1})
    assert body_of(store, key) == BIG[:size_bytes]
    assert list(store.list_uploads(parts_place.directory)) == []


@pytest.mark.parametrize("checksums", [True, False])
@pytest.mark.parametrize("kind", ["moto", "versitygw", "seaweedfs"])
def test_a_large_source_of_any_origin_is_copied(kind: str, checksums: bool, open_place: Callable[..., Place]) -> None:
    place = open_place(kind, checksums=checksums, **IN_PARTS)
    key = f"{place.directory}sp ace+%41/dt=ü"
    upload_id, parts = upload(place.store, key, BIG[: 5 * MIB], BIG[5 * MIB :])
    place.store.complete_upload(key, upload_id, parts)
    place.store.copy(listed(place.store, key), f"{key}-1")
    place.store.copy(listed(place.store, f"{key}-1"), f"{key}-2")  # a copy of a copy
    assert body_of(place.store, f"{key}-2") == BIG


@pytest.mark.parametrize("kind", ["moto", "versitygw", "seaweedfs"])
@pytest.mark.parametrize("size_bytes", [10, 2 * MIB], ids=["whole", "in parts"])
def test_metadata_is_kept_and_tags_are_not(kind: str, size_bytes: int, open_place: Callable[..., Place]) -> None:
    place = open_place(kind, **IN_PARTS)
    store, key = place.store, f"{place.directory}a"
    assert isinstance(store, S3Store)
    given = {"Metadata": {"x-amz-key-v2": "wrapped"}, "ContentEncoding": "gzip"}
    store.client.put_object(Bucket=store.bucket, Key=key, Body=bytes(size_bytes), Tagging="owner=other", **given)
    store.copy(listed(store, key), f"{key}-1")
    copied = store.client.head_object(Bucket=store.bucket, Key=f"{key}-1")
    assert {name: copied[name] for name in given} == given
    assert copied.get("TagCount", 0) == 0


@pytest.mark.parametrize("change", ["replaced", "deleted"])
def test_a_large_source_that_changed_is_refused_before_anything_starts(parts_place: Place, change: str) -> None:
    source = put(parts_place, "a", BIG)
    if change == "replaced":
        parts_place.store.put(source.key, BIG[::-1])
    else:
        parts_place.store.delete([source.key])
    with pytest.raises(SourceChangedError):
        parts_place.store.copy(source, f"{parts_place.directory}b")
    assert "CreateMultipartUpload" not in parts_place.requests()
    assert parts_place.store.head(f"{parts_place.directory}b") is None


def test_a_large_source_that_changes_meanwhile_is_refused(open_place: Callable[..., Place]) -> None:
    place = open_place("versitygw", **IN_PARTS)  # moto knows no condition on the source
    source = put(place, "a", BIG)
    assert isinstance(place.store, S3Store)
    changed = threading.Lock()

    def change(**_: object) -> None:
        if changed.acquire(blocking=False):
            open_place("versitygw").store.put(source.key, BIG[::-1])

    place.store.client.meta.events.register("before-call.s3.UploadPartCopy", change)
    with pytest.raises(SourceChangedError):
        place.store.copy(source, f"{place.directory}b")
    assert keys_below(place) == ["a"]
    assert list(place.store.list_uploads(place.directory)) == []


def refuse_part(store: S3Store, number: int) -> None:
    """Answer one part of every copy with an error, the server having done nothing."""
    denied = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
    answer_instead(store, "UploadPartCopy", denied, status=403, where=f"partNumber={number}&")


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_copy_that_fails_at_any_part_leaves_no_pending_upload(parts_place: Place, number: int) -> None:
    store = parts_place.store
    assert isinstance(store, S3Store)
    refuse_part(store, number)
    sent: list[str] = []
    store.client.meta.events.register("after-call.s3", lambda model, **_: sent.append(model.name))
    with pytest.raises(StorageError, match=r"AccessDenied.*s3:PutObject \(and s3:GetObject on the file"):
        store.copy(put(parts_place, "a", BIG), f"{parts_place.directory}b")
    assert sent[-1] == "AbortMultipartUpload"  # after the last part: one that came later would stay
    assert keys_below(parts_place) == ["a"]
    assert list(store.list_uploads(parts_place.directory)) == []


@pytest.mark.parametrize(
    ("size_bytes", "parts"), [(1, 1), (2**30 + 1, 5), (5 * 2**40, MAX_PARTS), (48 * 2**40, MAX_PARTS)]
)
def test_parts_cover_a_file_of_any_size_within_what_s3_allows(size_bytes: int, parts: int) -> None:
    ranges = part_ranges(size_bytes, COPY_PART_BYTES)
    assert len(ranges) == parts
    assert ranges[0][0] == 0
    assert ranges[-1][1] == size_bytes - 1
    assert all(last + 1 == first for (_, last), (first, _) in pairwise(ranges))
    assert max(last + 1 - first for first, last in ranges) <= MAX_PART_BYTES


def test_the_source_of_a_copy_through_an_access_point_is_named_as_s3_wants_it(fake_settings: S3Settings) -> None:
    bucket = "arn:aws:s3:eu-central-1:123456789012:accesspoint/mart"
    store = S3Store(S3Settings(bucket=bucket, region="eu-central-1", credentials=fake_settings.credentials))
    sent = answer_instead(store, "CopyObject", COPIED.encode())
    store.copy(SOURCE, "b")
    assert sent[0].headers["x-amz-copy-source"] == f"{bucket}/object/d/a%3D1".replace(":", "%3A").encode()


@pytest.mark.parametrize(
    ("status", "code"), [(412, "PreconditionFailed"), (412, ""), (404, "NoSuchKey"), (200, "PreconditionFailed")]
)
def test_a_source_that_s3_finds_changed_is_named(fake_s3: FakeS3, fake_store: S3Store, status: int, code: str) -> None:
    fake_s3.error(status, code)
    with pytest.raises(SourceChangedError, match="s3://mart/d/a=1 was replaced or deleted") as caught:
        fake_store.copy(SOURCE, "b")
    assert caught.value.__cause__ is not None
    assert caught.value.code == "source_changed"


REFUSALS = [
    (200, "InternalError", "S3 failed, also after retries: CopyObject on s3://mart/b, a copy of s3://mart/d/a=1"),
    (403, "AccessDenied", r"s3:PutObject \(and s3:GetObject on the file that is copied\) there.*kms:Decrypt"),
    (403, "InvalidObjectState", r"archived.*Restore it"),
]


@pytest.mark.parametrize(("status", "code", "said"), REFUSALS)
def test_a_refused_copy_is_an_error(fake_s3: FakeS3, fake_store: S3Store, status: int, code: str, said: str) -> None:
    fake_s3.error(status, code)
    with pytest.raises(StorageError, match=said) as caught:
        fake_store.copy(SOURCE, "b")
    assert not isinstance(caught.value, SourceChangedError)


@pytest.mark.parametrize("lost", [False, True], ids=["an error inside a 200", "lost"])
def test_a_copy_without_a_good_answer_is_sent_again(fake_s3: FakeS3, fake_settings: S3Settings, lost: bool) -> None:
    store = S3Store(replace(fake_settings, requests=replace(fake_settings.requests, max_attempts=2)))
    fake_s3.answer(200, "<Error><Code>InternalError</Code></Error>", drop=lost)
    fake_s3.answer(200, COPIED)
    store.copy(SOURCE, "b")
    assert store.request_counts() == {"CopyObject": 2}


def in_parts(settings: S3Settings) -> S3Store:
    return S3Store(replace(settings, max_single_copy_bytes=0))


@pytest.mark.parametrize(("status", "code"), [(200, "InternalError"), (404, "NoSuchKey"), (412, "PreconditionFailed")])
def test_a_part_that_fails_aborts_the_upload(
    fake_s3: FakeS3, fake_settings: S3Settings, status: int, code: str
) -> None:
    fake_s3.object("body")
    fake_s3.answer(200, CREATED)
    fake_s3.error(status, code)
    fake_s3.answer(204)
    with pytest.raises(StorageError) as caught:
        in_parts(fake_settings).copy(SOURCE, "b")
    assert isinstance(caught.value, SourceChangedError) == (status != 200)
    assert (fake_s3.requests[-1].method, fake_s3.requests[-1].path) == ("DELETE", "/mart/b?uploadId=7")


@pytest.mark.parametrize(
    ("status", "code", "abort", "expected"),
    [
        (412, "PreconditionFailed", (403, "AccessDenied"), "was replaced or deleted"),
        (404, "NoSuchUpload", (404, "NoSuchUpload"), "AbortIncompleteMultipartUpload"),
    ],
)
def test_an_abort_that_fails_as_well_hides_no_error(
    fake_s3: FakeS3,
    fake_settings: S3Settings,
    caplog: pytest.LogCaptureFixture,
    status: int,
    code: str,
    abort: tuple[int, str],
    expected: str,
) -> None:
    fake_s3.object("body")
    fake_s3.answer(200, CREATED)
    fake_s3.error(status, code)
    fake_s3.error(*abort)
    with pytest.raises(StorageError, match=expected):
        in_parts(fake_settings).copy(SOURCE, "b")
    assert ("the copy to b failed, and its upload was not aborted" in caplog.text) is (abort[0] == 403)


def test_a_large_copy_whose_completion_was_lost_is_found_done(fake_s3: FakeS3, fake_settings: S3Settings) -> None:
    fake_s3.object("body")
    fake_s3.answer(200, CREATED)
    fake_s3.answer(200, PART_COPIED)
    fake_s3.answer(drop=True)
    fake_s3.error(404, "NoSuchUpload")
    fake_s3.object("body")
    in_parts(replace(fake_settings, requests=replace(fake_settings.requests, max_attempts=2))).copy(SOURCE, "b")


@pytest.fixture
def file_copy(tmp_path: Path) -> Copied:
    (tmp_path / "a").write_bytes(b"old rows")
    store = LocalStore()
    return store, listed(store, str(tmp_path / "a")[1:]), tmp_path


def test_a_file_copy_is_one_file_that_the_source_does_not_change(file_copy: Copied) -> None:
    store, source, root = file_copy
    (root / ".b.crc").write_bytes(b"of the one that is replaced")
    store.copy(source, str(root / "b")[1:])
    with (root / "a").open("r+b") as file:  # as Hadoop's local file system and pandas do
        file.truncate()
        file.write(b"new")
    assert (root / "b").read_bytes() == b"old rows"
    assert sorted(path.name for path in root.rglob("*")) == ["a", "b"]


@pytest.mark.parametrize("change", ["in place", "gone", "a directory"])
def test_a_refused_file_copy_leaves_nothing(file_copy: Copied, change: str) -> None:
    store, source, root = file_copy
    if change == "in place":
        with (root / "a").open("ab") as file:
            file.write(b"!")
    else:
        (root / "a").unlink()
    if change == "a directory":
        (root / "a").mkdir()
    with pytest.raises(SourceChangedError, match=f"file:///{source.key} was replaced"):
        store.copy(source, str(root / "b/c")[1:])
    assert [path.name for path in root.rglob("*")] == ["a"] * (change != "gone")


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_file_that_is_written_to_meanwhile_is_refused_and_one_that_is_replaced_is_copied_as_it_was(
    file_copy: Copied, is_replaced: bool
) -> None:
    store, source, root = file_copy

    def meanwhile(*_: int) -> int:
        if is_replaced:
            store.put(source.key, b"new rows")
        else:
            with (root / "a").open("ab") as file:
                file.write(b" and new ones")
        return 0

    with nullcontext() if is_replaced else pytest.raises(SourceChangedError):
        LocalStore(copy_range=meanwhile).copy(source, str(root / "b")[1:])
    assert sorted(path.name for path in root.rglob("*")) == ["a", "b"][: 1 + is_replaced]
    assert not is_replaced or (root / "b").read_bytes() == b"old rows"


def stops_after(count: int, error: OSError | None) -> Callable[..., int]:
    """Copy so many bytes a call twice, then fail or claim that there are no more."""
    calls: list[int] = []

    def copy_range(source: int, target: int, _: int, source_offset: int, target_offset: int) -> int:
        calls.append(source_offset)
        if len(calls) > 2:
            if error:
                raise error
            return 0
        return os.pwrite(target, os.pread(source, count, source_offset), target_offset)

    return copy_range


@pytest.mark.parametrize("error", [None, OSError(18, "Invalid cross-device link")], ids=["stops", "refuses"])
@pytest.mark.parametrize("count", [0, 1, 1_000])
def test_what_the_kernel_does_not_copy_is_read_and_written(tmp_path: Path, count: int, error: OSError | None) -> None:
    body = os.urandom(3_000)
    (tmp_path / "a").write_bytes(body)
    with (tmp_path / "a").open("rb") as source, (tmp_path / "b").open("xb") as target:
        copy_contents(source, target, copy_range=stops_after(count, error))
    assert (tmp_path / "b").read_bytes() == body
