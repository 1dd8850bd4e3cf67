"""What only Azure does: blocks of several uploads under one key, marks of aborts, directories, logins, listings."""

from __future__ import annotations

import logging
import traceback
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest
from azure.core import MatchConditions
from azure.storage.blob import ContainerSasPermissions, generate_container_sas

from table_writer.errors import InvalidInputError, StorageError
from table_writer.model.message import UploadedPart
from table_writer.storage.azure import store as azure
from table_writer.storage.azure.settings import AzureSettings, SasToken
from table_writer.storage.azure.store import ABORTED, AzureStore
from table_writer.storage.kinds import settings_for
from table_writer.storage.object_store import SourceChangedError, open_store, visible_files
from table_writer.storage.request_settings import RequestSettings
from tests.azurite import AzuriteServer
from tests.forked import in_child
from tests.storage.test_contract import body_of, in_parallel, keys_below, race, upload

if TYPE_CHECKING:
    from tests.storage.conftest import Place

pytestmark = pytest.mark.needs("azure")


@pytest.fixture
def place(open_place: Callable[..., Place]) -> Place:
    return open_place("azurite")


@pytest.fixture
def store(place: Place) -> AzureStore:
    assert isinstance(place.store, AzureStore)
    return place.store


@pytest.fixture
def key(place: Place) -> str:
    return f"{place.directory}dt=1/a"


def test_a_late_second_completion_neither_touches_the_object_nor_brings_it_back(store: AzureStore, key: str) -> None:
    upload_id, parts = upload(store, key, b"x" * 1000, b"tail")
    store.complete_upload(key, upload_id, parts)
    before = store.head(key)
    store.complete_upload(key, upload_id, parts)
    assert store.head(key) == before  # the ETag as well: copies are made on condition that it is the one listed
    store.delete([key])
    with pytest.raises(StorageError, match="is gone"):
        store.complete_upload(key, upload_id, parts)
    assert store.head(key) is None


def test_a_part_for_an_aborted_upload_is_taken_and_completes_nothing(store: AzureStore, key: str) -> None:
    upload_id, parts = upload(store, key, b"first", b"second")
    store.abort_upload(key, upload_id)
    store.upload_part(key, upload_id, 2, b"second")
    with pytest.raises(StorageError, match="is gone"):
        store.complete_upload(key, upload_id, parts)
    assert store.head(key) is None
    assert [found.upload_id for found in store.list_uploads(key.removesuffix("a"))] == [upload_id]


def test_parts_of_another_upload_are_refused_before_anything_is_sent(place: Place, key: str) -> None:
    _, parts = upload(place.store, key, b"x")
    with pytest.raises(StorageError, match="not those of upload"):
        place.store.complete_upload(key, place.store.create_upload(key), parts)
    with pytest.raises(StorageError, match="no upload of this library"):
        place.store.upload_part(key, "of-another-store", 1, b"x")
    assert place.requests() == {"UploadPart": 1}


def test_of_a_completion_and_an_abort_at_the_same_moment_one_wins(store: AzureStore, place: Place) -> None:
    def completes(key: str, upload_id: str, parts: list[UploadedPart]) -> bool:
        try:
            store.complete_upload(key, upload_id, parts)
        except StorageError:
            return False
        return True

    for number in range(20):
        key = f"{place.directory}{number}"
        upload_id, parts = upload(store, key, b"rows")
        completed, _ = race([partial(completes, key, upload_id, parts), partial(store.abort_upload, key, upload_id)])
        assert body_of(store, key) == (b"rows" if completed else None)
    assert list(store.list_uploads(place.directory)) == []


def test_what_a_crash_left_of_an_abort_goes_with_the_next_one(store: AzureStore, place: Place, key: str) -> None:
    upload_id, parts = upload(store, key, b"rows")
    blob = store.client.get_blob_client(key)
    blob.commit_block_list([], metadata={ABORTED: "1"}, match_condition=MatchConditions.IfMissing)
    assert (store.get(key), store.head(key)) == (None, None)
    assert (keys_below(place), store.list_files(key.removesuffix("a"))) == ([], [])
    assert list(visible_files(store, place.directory)) == []
    (found,) = store.list_uploads(place.directory)
    assert abs(found.initiated_at - datetime.now(UTC)) < timedelta(seconds=60)
    with pytest.raises(StorageError, match="is gone"):
        store.complete_upload(key, upload_id, parts)
    store.abort_upload(found.key, found.upload_id)
    assert list(store.list_uploads(place.directory)) == []
    assert not blob.exists()


def test_an_upload_takes_its_own_bytes_and_its_abort_no_others(store: AzureStore, key: str) -> None:
    upload_id, (first,) = upload(store, key, b"first")
    store.upload_part(key, upload_id, 1, b"other")
    store.complete_upload(key, upload_id, [first])
    assert body_of(store, key) == b"first"
    store.put(key, b"")
    store.abort_upload(key, store.create_upload(key))
    assert body_of(store, key) == b""


@pytest.mark.parametrize("block", ["of-another-tool", f"{'f' * 32}-00001-{'0' * 24}"], ids=["another", "like ours"])
def test_blocks_of_another_tool_are_an_upload_of_now(store: AzureStore, place: Place, key: str, block: str) -> None:
    store.client.get_blob_client(key).stage_block(block, b"x")
    (found,) = store.list_uploads(place.directory)
    assert (found.key, found.upload_id) == (key, "" if "another" in block else "f" * 32)
    assert abs(found.initiated_at - datetime.now(UTC)) < timedelta(seconds=60)
    store.abort_upload(found.key, found.upload_id)
    assert list(store.list_uploads(place.directory)) == []


def test_directories_of_a_hierarchical_account_are_no_objects(store: AzureStore, place: Place) -> None:
    """Such accounts list a directory as an empty blob with this metadata; Hadoop writes it in the others."""
    for name in ("dt=1", "dt=2"):
        blob = store.client.get_blob_client(f"{place.directory}{name}")
        blob.upload_blob(b"", metadata={"hdi_isfolder": "true"})
    store.put(f"{place.directory}dt=1/a", b"x")
    assert keys_below(place) == ["dt=1/a"]
    assert store.list_files(place.directory) == []
    assert store.list_directories(place.directory) == ["dt=1"]
    assert (store.get(f"{place.directory}dt=2"), store.head(f"{place.directory}dt=2")) == (None, None)
    assert list(store.list_uploads(place.directory)) == []
    assert [info.key for info in visible_files(store, place.directory)] == [f"{place.directory}dt=1/a"]


@pytest.mark.parametrize("listed_keys", [5_000, 3])
@pytest.mark.parametrize("start", ["", "a", "a/", "a/2", "a/2/x", "b", "b/9", "c/1", "c/1/", "zz"])
@pytest.mark.parametrize("prefix", ["", "a/", "a", "c/1/"])
def test_a_page_begins_after_its_key_wherever_the_key_lies(
    store: AzureStore, place: Place, prefix: str, start: str, listed_keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure, "LISTED_KEYS", listed_keys)
    names = ["a/1", "a/2/x", "a/2/y", "a/3", "ab", "b", "b-", "c/1/x", *(f"c/{n}/x" for n in range(10, 40))]
    in_parallel([lambda name=name: store.put(place.directory + name, b"") for name in names])
    expected = [name for name in sorted(names, key=str.encode) if name.startswith(prefix) and name > start]
    page, more = store.list_page(place.directory + prefix, start_after=place.directory + start)
    assert ([info.key.removeprefix(place.directory) for info in page], more) == (expected, False)


def test_what_lies_in_other_directories_costs_a_jump_no_request(
    store: AzureStore, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_parallel([lambda n=n: store.put(f"{place.directory}data/{n:04d}", b"") for n in range(200)], 16)
    for name in ("log/1", "log/2", "names/1"):
        store.put(f"{place.directory}{name}", b"")
    monkeypatch.setattr(azure, "LISTED_KEYS", 10)
    before = place.requests().get("ListObjectsV2", 0)
    page, _ = store.list_page(place.directory, start_after=f"{place.directory}log/1")
    assert [info.key.removeprefix(place.directory) for info in page] == ["log/2", "names/1"]
    assert place.requests()["ListObjectsV2"] - before == 4  # a first page, the directory, and two in it


@pytest.mark.parametrize("listed_keys", [5_000, 3])
def test_pages_are_in_the_order_of_bytes_and_leave_nothing_out_whatever_the_stores_order_is(
    store: AzureStore, place: Place, listed_keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hierarchical account may list a directory before ``a-x``, and Azurite lists in the order of UTF-16."""
    names = ["a/1", "a/2", "a-x", "a.x", "a", "a0", "😀", "\ufb01", "😀/1", "\ufb01/1", "b/c/1", "b/c-1", "b/c/2"]
    in_parallel([lambda name=name: store.put(place.directory + name, b"") for name in names])
    monkeypatch.setattr(azure, "LISTED_KEYS", listed_keys)
    monkeypatch.setattr(azure, "PAGE_KEYS", 4)
    found, more, last = [], True, ""
    while more:
        page, more = store.list_page(place.directory, start_after=last)
        found += [info.key.removeprefix(place.directory) for info in page]
        last = page[-1].key
    assert found == sorted(names, key=str.encode)


@pytest.mark.parametrize("name", ["dt=a./f", "dt=./f", "f.", "..", "back\\slash", "x" * 1025, "/".join("d" * 255)])
def test_names_that_azure_does_not_take_are_refused_before_anything_is_sent(place: Place, name: str) -> None:
    for call in (place.store.create_upload, lambda key: place.store.put(key, b"")):
        with pytest.raises(InvalidInputError):
            call(f"{place.directory}{name}")
    assert place.requests() == {}


def opened(azurite: AzuriteServer, *, permission: str) -> AzureStore:
    token = generate_container_sas(
        azurite.account,
        azurite.container,
        account_key=azurite.key,
        permission=ContainerSasPermissions.from_string(permission),
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )
    host = azurite.location().bucket.partition("@")[2]
    hadoop = {name: value for name, value in azurite.hadoop_settings().items() if "key" not in name}
    hadoop |= {
        f"fs.azure.account.auth.type.{host}": "SAS",
        f"fs.azure.sas.fixed.token.{azurite.container}.{host}": token,
    }
    settings = settings_for(azurite.location(), hadoop)
    assert isinstance(settings, AzureSettings)
    assert isinstance(settings.credential, SasToken)
    store = open_store(replace(settings, requests=RequestSettings(max_attempts=1)))
    assert isinstance(store, AzureStore)
    return store


def test_a_sas_token_is_enough_for_every_call(azurite: AzuriteServer, place: Place, key: str) -> None:
    store = opened(azurite, permission="racwdl")
    upload_id, parts = upload(store, key, b"rows")
    assert [found.upload_id for found in store.list_uploads(place.directory)] == [upload_id]
    store.complete_upload(key, upload_id, parts)
    assert store.put_if_absent(f"{key}-claim", b"1")
    (source, _) = store.list(place.directory)
    store.copy(source, f"{key}-copy")
    assert body_of(store, f"{key}-copy") == b"rows"
    store.abort_upload(f"{key}-2", upload(store, f"{key}-2", b"x")[0])
    store.delete([info.key for info in store.list(place.directory)])
    assert keys_below(place) == []


@pytest.mark.parametrize(
    ("permission", "call"),
    [
        ("rl", lambda store, key: store.put(key, b"x")),
        ("rl", lambda store, key: store.put_if_absent(key, b"x")),
        ("rl", lambda store, key: upload(store, key, b"x")),
        ("rcw", lambda store, key: list(store.list(f"{key}/"))),
        ("rcwl", lambda store, key: store.delete([key])),
    ],
)
def test_a_token_that_lacks_a_permission_is_an_error_that_names_the_roles_and_not_the_token(
    azurite: AzuriteServer, store: AzureStore, key: str, permission: str, call: Callable[[AzureStore, str], object]
) -> None:
    store.put(key, b"x")
    with pytest.raises(StorageError, match=r"access denied.*Storage Blob Data Contributor") as caught:
        call(opened(azurite, permission=permission), key)
    assert "sig=" not in "".join(traceback.format_exception(caught.value)).replace("sig=…", "")


def test_no_signature_is_in_a_log_of_any_level(
    azurite: AzuriteServer, place: Place, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    store = opened(azurite, permission="racwdl")
    assert isinstance(store._settings.credential, SasToken)
    signature = store._settings.credential.token.partition("sig=")[2].partition("&")[0]
    store.put(key, b"x")
    (source,) = store.list(place.directory)
    store.copy(source, f"{key}-copy")
    with pytest.raises(StorageError) as caught:
        AzureStore(
            replace(store._settings, account_url="http://127.0.0.1:1/mart", requests=RequestSettings(max_attempts=1))
        ).get(key)
    error: BaseException | None = caught.value
    shown = caplog.text + repr(store)
    while error is not None:
        shown += f"{error!r} {error} {vars(error)}"
        error = error.__cause__ or error.__context__
    assert "urllib3" in caplog.text
    assert signature not in shown


def test_a_container_that_is_not_there_is_named(azurite: AzuriteServer) -> None:
    settings = settings_for(azurite.location(), azurite.hadoop_settings())
    assert isinstance(settings, AzureSettings)
    store = AzureStore(replace(settings, container=f"no{uuid.uuid4().hex[:8]}"))
    for call in (lambda: store.get("a"), lambda: store.put("a", b""), lambda: list(store.list("a/"))):
        with pytest.raises(StorageError, match="container does not exist"):
            call()
    with pytest.raises(StorageError, match="container does not exist"):
        store.delete(["a"])


def test_an_object_of_several_requests_is_read_whole(place: Place, store: AzureStore, key: str) -> None:
    body = bytes(range(256)) * 4096 * 33  # 33 MiB
    store.put(key, body)
    assert body_of(store, key) == body
    assert place.requests() == {"PutObject": 1, "GetObject": 2}


def test_a_forked_process_has_a_client_of_its_own(store: AzureStore, place: Place, key: str) -> None:
    store.put(key, b"parent")
    mine = store.client._config.transport.session
    for _ in range(2):
        assert in_child(lambda: (body_of(store, key), store.client._config.transport.session is mine)) == str(
            (b"parent", False)
        )
        assert body_of(store, key) == b"parent"
    assert store.client._config.transport.session is mine


def test_a_large_source_that_changed_is_refused_before_anything_starts(open_place: Callable[..., Place]) -> None:
    place = open_place("azurite", max_single_copy_bytes=0)
    place.store.put(f"{place.directory}a", b"rows")
    (source,) = place.store.list(place.directory)
    place.store.put(f"{place.directory}a", b"ROWS")
    with pytest.raises(SourceChangedError):
        place.store.copy(source, f"{place.directory}b")
    assert "UploadPartCopy" not in place.requests()
    assert keys_below(place) == ["a"]
