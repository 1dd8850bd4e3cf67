"""What becomes of claims and uploads on GCS when requests are lost, late, repeated, or sent again after an abort."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from random import Random

import pytest
import requests

from table_writer.errors import StorageError
from table_writer.model.message import UploadedPart
from table_writer.storage.gcs.store import GcsStore
from tests.fake_gcs import FakeGcsServer
from tests.storage.conftest import BUCKET
from tests.storage.gcs_proxy import CHANGES, FATES, Fate, GcsProxy
from tests.storage.test_contract import body_of, in_parallel, race, upload

pytestmark = pytest.mark.needs("gcs")
ONE, THREE = (b"rows",), (b"first,", b"second,", b"third")


@pytest.fixture
def proxy(gcs: FakeGcsServer) -> Iterator[GcsProxy]:
    made = GcsProxy(gcs.port)
    with made.server:
        yield made


@pytest.fixture
def store(proxy: GcsProxy) -> GcsStore:
    return proxy.store(BUCKET)


@pytest.fixture
def key() -> str:
    return f"chaos/{uuid.uuid4().hex}/a"


def pending(store: GcsStore, key: str) -> list[str]:
    return [found.upload_id for found in store.list_uploads(key.removesuffix("a"))]


@pytest.mark.parametrize("kind", ["part", "compose", "rewrite", "delete"])
@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("bodies", [ONE, THREE], ids=["one part", "three parts"])
def test_an_upload_whose_requests_are_lost_late_or_repeated_is_completed_once(
    proxy: GcsProxy, store: GcsStore, key: str, kind: str, fate: Fate, bodies: tuple[bytes, ...]
) -> None:
    proxy.let(kind, fate)
    upload_id, parts = upload(store, key, *bodies)
    store.complete_upload(key, upload_id, parts)
    completed = store.head(key)
    assert body_of(store, key) == b"".join(bodies)
    assert pending(store, key) == []
    proxy.release()
    proxy.replay("compose", "rewrite", "delete")
    store.complete_upload(key, upload_id, parts)
    assert store.head(key) == completed  # the generation as well: nobody reads it from another one
    for give_up_or_repeat in (store.abort_upload, partial(store.complete_upload, parts=parts)):
        proxy.replay("part")
        assert pending(store, key) == [upload_id]
        give_up_or_repeat(key, upload_id)
        assert (store.head(key), pending(store, key)) == (completed, [])


@pytest.mark.parametrize("bodies", [ONE, THREE], ids=["one part", "three parts"])
def test_after_an_abort_all_requests_of_an_upload_come_again_and_make_no_file(
    proxy: GcsProxy, store: GcsStore, key: str, bodies: tuple[bytes, ...]
) -> None:
    proxy.let("part", "repeated")
    proxy.let("compose", "held", "held", "held")
    proxy.let("rewrite", "held", "held", "held")
    upload_id, parts = upload(store, key, *bodies)
    with pytest.raises(StorageError):
        store.complete_upload(key, upload_id, parts)
    store.abort_upload(key, upload_id)
    proxy.release()
    for _ in range(2):
        proxy.replay("part", "compose", "rewrite")
        proxy.replay("rewrite", "part", "compose")
    with pytest.raises(StorageError, match="is gone"):
        store.complete_upload(key, upload_id, parts)
    assert store.head(key) is None
    assert pending(store, key) == [upload_id]  # late parts, for a vacuum
    store.abort_upload(key, upload_id)
    assert pending(store, key) == []


@pytest.mark.parametrize("bodies", [ONE, THREE], ids=["one part", "three parts"])
def test_where_a_bucket_keeps_versions_nothing_stays_of_uploads_and_an_abort_is_final_too(
    proxy: GcsProxy, gcs: FakeGcsServer, bodies: tuple[bytes, ...]
) -> None:
    bucket = {"name": f"versions-{uuid.uuid4().hex}", "versioning": {"enabled": True}}
    requests.post(f"{gcs.url}/storage/v1/b?project=p", json=bucket, timeout=5).raise_for_status()
    store = proxy.store(bucket["name"])
    upload_id, parts = upload(store, "d/a", *bodies)
    proxy.let("rewrite", "held", "held", "held")
    with pytest.raises(StorageError):
        store.complete_upload("d/a", upload_id, parts)
    store.abort_upload("d/a", upload_id)
    proxy.release()
    assert store.head("d/a") is None
    store.complete_upload("d/b", *upload(store, "d/b", *bodies))
    kept = requests.get(f"{gcs.url}/storage/v1/b/{bucket['name']}/o?versions=true", timeout=5).json()
    assert [item["name"] for item in kept["items"]] == ["d/b"]


@pytest.mark.parametrize("kind", ["compose", "rewrite"])
@pytest.mark.parametrize("again", [(), ("part",), ("part", "compose")], ids=str)
def test_a_completion_under_way_makes_no_file_after_an_abort_though_parts_come_again(
    proxy: GcsProxy, store: GcsStore, gcs: FakeGcsServer, key: str, kind: str, again: tuple[str, ...]
) -> None:
    other = GcsProxy(gcs.port)
    upload_id, parts = upload(store, key, *THREE)

    def abort() -> None:
        other.store(BUCKET).abort_upload(key, upload_id)
        proxy.replay(*again)

    with other.server:
        proxy.before[kind] = abort
        with pytest.raises(StorageError, match="is gone"):
            store.complete_upload(key, upload_id, parts)
    assert store.head(key) is None


def test_an_abort_takes_what_is_composed_while_it_lists(
    proxy: GcsProxy, store: GcsStore, gcs: FakeGcsServer, key: str
) -> None:
    upload_id, parts = upload(store, key, *THREE)
    other, composed, aborted, outcomes = GcsProxy(gcs.port), threading.Event(), threading.Event(), []

    def pause() -> None:
        composed.set()
        aborted.wait(20)

    def complete() -> None:
        outcomes.append(attempt(other.store(BUCKET), key, upload_id, parts))

    with other.server:
        other.before["rewrite"] = pause
        completing = threading.Thread(target=complete)
        proxy.before["delete"] = lambda: (completing.start(), composed.wait(20))
        store.abort_upload(key, upload_id)
        aborted.set()
        completing.join(20)
    assert (outcomes, store.head(key), pending(store, key)) == (["failed"], None, [])


def test_a_composed_file_that_a_late_repeat_has_replaced_is_composed_again(
    proxy: GcsProxy, store: GcsStore, key: str
) -> None:
    upload_id, parts = upload(store, key, *THREE)
    proxy.before["rewrite"] = partial(proxy.replay, "compose")
    store.complete_upload(key, upload_id, parts)
    assert (body_of(store, key), pending(store, key)) == (b"".join(THREE), [])


def test_parts_that_stay_after_a_completion_are_found_and_their_abort_leaves_the_file(
    proxy: GcsProxy, store: GcsStore, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    upload_id, parts = upload(store, key, *ONE)
    proxy.let("delete", *["held"] * 3)
    store.complete_upload(key, upload_id, parts)
    assert "were not deleted after their completion" in caplog.text
    assert pending(store, key) == [upload_id]
    store.abort_upload(key, upload_id)
    assert (body_of(store, key), pending(store, key)) == (b"rows", [])


def test_a_file_that_took_the_key_is_not_replaced_where_google_keeps_the_condition(
    proxy: GcsProxy, store: GcsStore, key: str
) -> None:
    """The emulator passes over it, so what is sent is looked at."""
    upload_id, parts = upload(store, key, *THREE)
    store.complete_upload(key, upload_id, parts)
    sent = {one.path.partition("?")[0].rpartition("/")[2]: one for one in proxy.history if one.method == "POST"}
    assert "ifGenerationMatch=0" in sent["compose"].path
    (rewrite,) = [one for one in proxy.history if "/rewriteTo/" in one.path]
    assert "ifGenerationMatch=0" in rewrite.path
    assert "sourceGeneration=" in rewrite.path


@pytest.mark.parametrize("fate", FATES)
def test_a_claim_whose_request_is_lost_late_or_repeated_is_decided_by_what_is_there(
    proxy: GcsProxy, store: GcsStore, key: str, fate: Fate
) -> None:
    proxy.let("put", fate)
    assert store.put_if_absent(key, b"first")
    proxy.let("put", fate)
    assert not store.put_if_absent(key, b"second")
    proxy.release()
    proxy.replay("put")
    assert body_of(store, key) == b"first"


@pytest.mark.parametrize("seed", range(12))
def test_of_racing_claims_one_wins_whatever_happens_to_requests(proxy: GcsProxy, key: str, seed: int) -> None:
    proxy.random = Random(seed)

    def claim(body: bytes) -> bool | None:
        with suppress(StorageError):  # then it is open whose it is
            return proxy.store(BUCKET).put_if_absent(key, body)
        return None

    bodies = [f"writer {number}".encode() for number in range(6)]
    outcomes = race([partial(claim, body) for body in bodies])
    proxy.random = None
    proxy.release()
    proxy.replay("put")
    assert outcomes.count(True) <= 1
    if True in outcomes:
        assert body_of(proxy.store(BUCKET), key) == bodies[outcomes.index(True)]
    else:
        assert None in outcomes


def attempt(store: GcsStore, key: str, upload_id: str, parts: list[UploadedPart]) -> str:
    try:
        store.complete_upload(key, upload_id, parts)
    except StorageError:
        return "failed"
    return "completed"


def give_up(store: GcsStore, key: str, upload_id: str) -> str:
    with suppress(StorageError):
        store.abort_upload(key, upload_id)
        return "aborted"
    return "not aborted"


@pytest.mark.parametrize("seed", range(24))
def test_two_drivers_and_an_abort_at_once_leave_the_whole_file_or_none(proxy: GcsProxy, key: str, seed: int) -> None:
    random = Random(seed)
    bodies = [f"{number},".encode() * 50 for number in range(random.choice([1, 2, 5, 40]))]
    calm = proxy.store(BUCKET)
    upload_id, parts = upload(calm, key, *bodies)
    proxy.random = random
    calls = [partial(attempt, proxy.store(BUCKET), key, upload_id, parts) for _ in range(2)]
    if seed % 2:
        calls.append(partial(give_up, proxy.store(BUCKET), key, upload_id))
    outcomes = race(calls)
    proxy.random = None
    found = body_of(calm, key)
    assert found in (None, b"".join(bodies))
    assert found is not None or "completed" not in outcomes
    if "aborted" in outcomes and found is None:
        proxy.release()
        proxy.replay(*(kind for kind in CHANGES if kind != "delete"))
        assert calm.head(key) is None
    calm.abort_upload(key, upload_id)
    assert pending(calm, key) == []
    assert body_of(calm, key) in (found, b"".join(bodies) if "aborted" not in outcomes else found)


def test_a_part_that_is_sent_again_is_the_same_part(proxy: GcsProxy, store: GcsStore, key: str) -> None:
    upload_id, (part,) = upload(store, key, b"rows")
    proxy.let("part", "lost")
    assert [store.upload_part(key, upload_id, 1, b"rows") for _ in range(2)] == [part, part]
    other = store.upload_part(key, upload_id, 1, b"other")
    store.complete_upload(key, upload_id, [part])
    assert body_of(store, key) == b"rows"
    assert other != part
    assert pending(store, key) == [upload_id]
    with pytest.raises(StorageError, match="is gone"):
        store.complete_upload(f"{key}b", upload_id, [part])
    with pytest.raises(StorageError, match="none of this store"):
        store.complete_upload(key, upload_id, [replace(part, etag="an-etag-of-s3")])


def test_more_parts_than_one_compose_takes_are_joined_in_order(proxy: GcsProxy, store: GcsStore, key: str) -> None:
    bodies = [f"{number:05d}".encode() for number in range(1_100)]
    upload_id = store.create_upload(key)
    calls = [partial(store.upload_part, key, upload_id, number, body) for number, body in enumerate(bodies, start=1)]
    parts = in_parallel(calls, 16)
    proxy.let("compose", "lost", "repeated", "held")
    store.complete_upload(key, upload_id, parts)
    assert body_of(store, key) == b"".join(bodies)
    assert pending(store, key) == []
