"""What is particular to files: no leftovers, no half files, Hadoop's checksum files."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from table_writer.errors import InvalidInputError, StorageError
from table_writer.storage.local.store import FileSystemClock, LocalStore

WRITE = "_table_writer/data/1"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "wh").mkdir()
    return tmp_path / "wh"


@pytest.fixture
def store() -> LocalStore:
    return LocalStore()


def key(path: Path) -> str:
    return str(path)[1:]


def tree(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def pending(store: LocalStore, path: Path, body: bytes = b"x") -> tuple[str, list]:
    upload_id = store.create_upload(key(path))
    return upload_id, [store.upload_part(key(path), upload_id, 1, body)]


HOST_WITH_A_WRONG_CLOCK = """
import sys, time
real, wrong_by = time.time, float(sys.argv[1])
time.time = lambda: real() + wrong_by  # before anything else is imported
from table_writer.storage.local.store import LocalStore
print(LocalStore().get(sys.argv[2]).age_seconds)
"""


@pytest.mark.parametrize("wrong_by_seconds", [400, -400])
def test_ages_are_by_the_clock_of_the_file_system_and_not_by_this_hosts(root: Path, wrong_by_seconds: int) -> None:
    """A host that is 400 s ahead took the live claim of another one for over."""
    claim = root / "_table_writer/log/1.json"
    LocalStore().put(key(claim), b"")
    os.utime(claim, (time.time() - 1_000, time.time() - 1_000))
    command = [sys.executable, "-c", HOST_WITH_A_WRONG_CLOCK, str(wrong_by_seconds), key(claim)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 900 < float(ran.stdout) < 1_300
    assert tree(root) == ["_table_writer", "_table_writer/log", "_table_writer/log/1.json"], "asking leaves nothing"


def test_each_file_system_is_asked_once_a_minute_and_time_goes_on_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = [10.0], []
    monkeypatch.setattr("table_writer.storage.local.store.boot_seconds", lambda: now[0])
    clock = FileSystemClock()

    def ask(device: int, time_there: float) -> float:
        return clock.seconds(device, lambda: asked.append(device) or time_there)

    assert [ask(1, 500.0), ask(2, 900.0)] == [500.0, 900.0]
    now[0] += 59
    assert [ask(1, 0.0), ask(2, 0.0)] == [559.0, 959.0]
    now[0] += 1
    assert ask(1, 7.0) == 7.0
    assert asked == [1, 2, 1]


def test_where_nothing_may_be_written_this_hosts_clock_has_to_do_and_no_other_failure_tells_a_time() -> None:
    def refused(code: int) -> float:
        raise OSError(code, "made up")

    for code in (errno.EACCES, errno.EROFS):
        before = time.time()
        assert before <= FileSystemClock().seconds(1, lambda code=code: refused(code)) <= time.time()
    with pytest.raises(OSError, match="made up"):
        FileSystemClock().seconds(1, lambda: refused(errno.ENOSPC))


def test_uploads_and_puts_leave_nothing_but_the_file_and_aborts_nothing(store: LocalStore, root: Path) -> None:
    path = root / WRITE / "dt=1/a"
    upload_id, _ = pending(store, path)
    assert tree(root)
    store.abort_upload(key(path), upload_id)
    assert tree(root) == []
    assert root.is_dir()
    store.complete_upload(key(path), *pending(store, path))
    assert tree(root / WRITE) == ["dt=1", "dt=1/a"]
    store.put(key(root / WRITE / "owner.json"), b"1")
    store.put_if_absent(key(root / WRITE / "owner.json"), b"2")
    assert tree(root / WRITE) == ["dt=1", "dt=1/a", "owner.json"]


def test_the_last_object_takes_directories_of_table_writer_along(store: LocalStore, root: Path) -> None:
    for name in ("dt=1/a", "dt=1/b", "dt=2/c"):
        store.put(key(root / WRITE / name), b"")
    (root / WRITE / "dt=2/.c.crc").write_bytes(b"goes along")
    store.delete([key(root / WRITE / "dt=1/a"), key(root / WRITE / "dt=2/c")])
    assert tree(root / WRITE) == ["dt=1", "dt=1/b"]
    store.delete([key(root / WRITE / "dt=1/b")])
    assert tree(root) == []
    for name in ("orders/dt=1/hour=2/a", "plain/a"):
        store.put(key(root / name), b"")
    store.delete([key(root / "orders/dt=1/hour=2/a"), key(root / "plain/a")])
    assert tree(root) == ["orders", "plain"]


def test_listings_show_no_pending_uploads_and_no_checksum_files(store: LocalStore, root: Path) -> None:
    pending(store, root / "dt=1/a")
    (root / "dt=1/.b.crc").write_bytes(b"crc")
    (root / "dt=1/.hidden").write_bytes(b"as S3 would list it")
    assert [info.key for info in store.list(key(root) + "/")] == [key(root / "dt=1/.hidden")]


@pytest.mark.parametrize("how", ["put", "complete", "a claim that lost"])
def test_a_replaced_object_loses_the_checksum_file_of_the_old_one(store: LocalStore, root: Path, how: str) -> None:
    path = root / "_SUCCESS"
    path.write_bytes(b"")
    (root / "._SUCCESS.crc").write_bytes(b"of the old one")
    if how == "put":
        store.put(key(path), b"new")
    elif how == "complete":
        store.complete_upload(key(path), *pending(store, path, b"new"))
    else:
        assert not store.put_if_absent(key(path), b"new")
    assert tree(root) == (["._SUCCESS.crc"] if how.startswith("a claim") else []) + ["_SUCCESS"]


def test_a_directory_is_no_object(store: LocalStore, root: Path) -> None:
    assert store.get(key(root)) is None
    assert store.head(key(root)) is None
    store.delete([key(root)])
    assert root.is_dir()


def test_what_was_killed_half_way_is_aborted_or_repeated(store: LocalStore, root: Path) -> None:
    path = root / WRITE / "a"
    left = path.parent / ".uploads" / ("0" * 32) / "a"
    left.mkdir(parents=True)
    (left / "00001").write_bytes(b"half")
    (found,) = store.list_uploads(key(root) + "/")
    assert found.key == key(path)
    store.abort_upload(found.key, found.upload_id)
    assert tree(root) == []
    upload_id = store.create_upload(key(path))
    parts = [store.upload_part(key(path), upload_id, number, b"part") for number in (1, 2)]
    (path.parent / ".uploads" / upload_id / "a" / "whole-1").write_bytes(b"pa")
    store.complete_upload(key(path), upload_id, parts)
    assert path.read_bytes() == b"partpart"
    assert tree(path.parent) == ["a"]


def test_the_clock_decides_the_age(root: Path) -> None:
    (root / "a").write_bytes(b"")
    os.utime(root / "a", (1_000, 1_000))
    found = LocalStore(clock=lambda: 1_090.0).get(key(root / "a"))
    assert found is not None
    assert found.age_seconds == pytest.approx(90)


def test_keys_that_no_file_can_have_and_upload_ids_of_another_store_are_refused(store: LocalStore, root: Path) -> None:
    for bad in ("a//b", "a/../b", "a/./b", "/a", "a/", "a\0b", "a/.uploads/b"):
        with pytest.raises(InvalidInputError, match="can't be a key"):
            store.put(bad, b"")
    for bad in ("", "../../etc", "0" * 31, "x" * 32):
        with pytest.raises(InvalidInputError, match="not an upload id"):
            store.abort_upload(key(root / "a"), bad)


def test_what_the_file_system_refuses_is_a_storage_error(store: LocalStore, root: Path) -> None:
    (root / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="file:///"):
        store.put(key(root / "file/below"), b"")
    with pytest.raises(StorageError, match="failed"):
        store.put(key(root / ("x" * 300)), b"")


def test_new_files_have_the_mode_that_the_umask_asks_for(store: LocalStore, root: Path) -> None:
    store.complete_upload(key(root / "a"), *pending(store, root / "a"))
    (root / "reference").write_bytes(b"")
    assert stat.S_IMODE((root / "a").stat().st_mode) == stat.S_IMODE((root / "reference").stat().st_mode)


def test_the_etag_changes_even_where_size_and_time_do_not(store: LocalStore, root: Path) -> None:
    etags = set()
    for body in (b"one", b"two"):
        store.put(key(root / "a"), body)
        os.utime(root / "a", ns=(10**18, 10**18))
        found = store.head(key(root / "a"))
        assert found is not None
        etags.add(found.etag)
    assert len(etags) == 2


def test_threads_that_empty_and_fill_one_directory_do_not_disturb_each_other(store: LocalStore, root: Path) -> None:
    def fill_and_empty(number: int) -> None:
        path = key(root / WRITE / "dt=1" / str(number))
        store.abort_upload(path, store.create_upload(path))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(fill_and_empty, range(5_000)))
    assert tree(root) == []
