"""Step 3: all uploads become objects, or none is left."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import pytest

from table_writer.complete import Completer, run_all
from table_writer.errors import InvalidInputError, StorageError, TableWriterError
from table_writer.model.message import CommitMessage, PendingUpload
from table_writer.testing.memory_store import MemoryStore

WRITE_ID = "20240101-cafe"
PREFIX = f"wh/orders/_table_writer/data/{WRITE_ID}/"
THREADS = [1, 3, 8]


class Ledger:
    """What was called on which item; one chosen item fails."""

    def __init__(self, failing: int | None = None, error: BaseException | None = None, broken: str = "") -> None:
        self.calls: list[tuple[str, int]] = []
        self.failing = failing
        self.error = error or StorageError("no")
        self.broken = broken  # a compensation that fails as well

    def do(self, item: int) -> None:
        self.calls.append(("do", item))
        if item == self.failing:
            raise self.error

    def undo(self, item: int) -> None:
        self.calls.append(("undo", item))
        if self.broken == "undo":
            raise RuntimeError("undo is broken")

    def skip(self, item: int) -> None:
        self.calls.append(("skip", item))
        if self.broken == "skip":
            raise RuntimeError("skip is broken")

    def run(self, count: int, threads: int) -> None:
        run_all(range(count), do=self.do, undo=self.undo, skip=self.skip, threads=threads)

    def items(self, kind: str) -> set[int]:
        return {item for called, item in self.calls if called == kind}


def assert_each_item_settled_once(ledger: Ledger, count: int) -> None:
    settled = Counter(item for kind, item in ledger.calls if kind != "do")
    assert settled == Counter(range(count))
    assert ledger.items("undo") == ledger.items("do")
    assert ledger.items("skip") == set(range(count)) - ledger.items("do")


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("count", [0, 1, 2, 12])
def test_without_a_failure_everything_is_done_once_and_nothing_undone(count: int, threads: int) -> None:
    ledger = Ledger()
    ledger.run(count, threads)
    assert Counter(ledger.calls) == Counter(("do", item) for item in range(count))


@pytest.mark.parametrize("broken", ["", "undo", "skip"])
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("failing", range(12))
def test_a_failure_at_any_item_undoes_the_started_and_skips_the_rest(failing: int, threads: int, broken: str) -> None:
    ledger = Ledger(failing, broken=broken)
    with pytest.raises(StorageError) as caught:
        ledger.run(12, threads)
    assert caught.value is ledger.error
    assert failing in ledger.items("undo")
    assert_each_item_settled_once(ledger, 12)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), ValueError("not one of ours")], ids=repr)
@pytest.mark.parametrize("threads", THREADS)
def test_whatever_do_raises_is_taken_back_and_raised(error: BaseException, threads: int) -> None:
    ledger = Ledger(4, error)
    with pytest.raises(type(error)) as caught:
        ledger.run(12, threads)
    assert caught.value is error
    assert_each_item_settled_once(ledger, 12)


def test_with_one_thread_nothing_starts_after_the_failure() -> None:
    ledger = Ledger(4)
    with suppress(StorageError):
        ledger.run(12, 1)
    assert ledger.items("do") == {0, 1, 2, 3, 4}


def test_of_several_failures_the_first_is_raised_and_the_others_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    both_started, first_failed = threading.Barrier(2), threading.Event()

    def do(item: int) -> None:
        both_started.wait(5)
        if item == 1:
            first_failed.wait(5)
            time.sleep(0.05)
            raise StorageError("second")
        first_failed.set()
        raise StorageError("first")

    with pytest.raises(StorageError, match="first"):
        run_all([0, 1], do=do, undo=lambda _: None, skip=lambda _: None, threads=2)
    assert caplog.messages == ["failed as well: second"]


def test_items_in_flight_are_waited_for_before_the_first_compensation() -> None:
    others_started, events = threading.Barrier(3), []

    def do(item: int) -> None:
        others_started.wait(5)
        if item == 0:
            raise StorageError("no")
        time.sleep(0.1)
        events.append(("done", item))

    with pytest.raises(StorageError):
        run_all(
            range(9),
            do=do,
            undo=lambda item: events.append(("undo", item)),
            skip=lambda item: events.append(("skip", item)),
            threads=3,
        )
    assert set(events[:2]) == {("done", 1), ("done", 2)}
    assert Counter(kind for kind, _ in events) == {"done": 2, "undo": 3, "skip": 6}


@pytest.mark.parametrize("threads", THREADS)
def test_ctrl_c_waits_for_items_in_flight_then_undoes_them(threads: int) -> None:
    ledger, running = Ledger(), threading.Semaphore(0)
    finished: list[int] = []

    def do(item: int) -> None:
        ledger.do(item)
        running.release()
        time.sleep(0.2)
        finished.append(item)

    def interrupt() -> None:
        for _ in range(threads):
            running.acquire()
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    press = threading.Thread(target=interrupt)
    press.start()
    with pytest.raises(KeyboardInterrupt):
        run_all(range(50), do=do, undo=ledger.undo, skip=ledger.skip, threads=threads)
    press.join()
    assert set(finished) == ledger.items("do") != set(range(50))
    assert_each_item_settled_once(ledger, 50)


def test_a_failing_compensation_is_logged_with_its_item(caplog: pytest.LogCaptureFixture) -> None:
    ledger = Ledger(1, broken="undo")
    with pytest.raises(StorageError):
        run_all([0, 1], do=ledger.do, undo=ledger.undo, skip=ledger.skip, threads=1, describe="file {}".format)
    assert [record.message for record in caplog.records] == ["undo failed for file 0", "undo failed for file 1"]


class RecordingStore(MemoryStore):
    """Fails the n-th completion and remembers what was deleted and aborted."""

    def __init__(self, fail_on_complete: int | None = None) -> None:
        super().__init__()
        self.fail_on_complete = fail_on_complete
        self.completed: list[str] = []
        self.log: list[tuple[str, str]] = []
        self.on_call = self._record

    def _record(self, operation: str, phase: str, key: str) -> None:
        if (operation, phase) == ("complete_upload", "before") and len(self.completed) == self.fail_on_complete:
            raise StorageError("injected")
        if (operation, phase) == ("complete_upload", "after"):
            self.completed.append(key)
        if phase == "after":
            self.log.append((operation, key))

    def of(self, operation: str) -> set[str]:
        return {key for called, key in self.log if called == operation}


def pending(store: MemoryStore, name: str) -> PendingUpload:
    key = f"{PREFIX}{name}"
    upload_id = store.create_upload(key)
    part = store.upload_part(key, upload_id, 1, name.encode())
    return PendingUpload(
        key=key, upload_id=upload_id, parts=(part,), size_bytes=part.size_bytes, row_count=1, partition_values=()
    )


def message(index: int, uploads: Sequence[PendingUpload], write_id: str = WRITE_ID) -> CommitMessage:
    return CommitMessage(
        write_id=write_id, task_index=index, attempt_id=index, row_count=len(uploads), uploads=tuple(uploads)
    )


def messages(store: MemoryStore, tasks: int, files: int) -> list[CommitMessage]:
    return [message(task, [pending(store, f"part-{task:02d}-{i}") for i in range(files)]) for task in range(tasks)]


def keys(sent: Sequence[CommitMessage]) -> set[str]:
    return {upload.key for each in sent for upload in each.uploads}


@pytest.mark.parametrize("threads", THREADS)
def test_completing_makes_every_upload_an_object(threads: int) -> None:
    store = MemoryStore()
    sent = messages(store, 4, 3)
    Completer(store, threads=threads).complete(WRITE_ID, PREFIX, sent)
    assert {found.key for found in store.list(PREFIX)} == keys(sent)
    assert list(store.list_uploads(PREFIX)) == []


def test_a_write_without_files_completes() -> None:
    Completer(MemoryStore(), threads=8).complete(WRITE_ID, PREFIX, [])


def test_after_the_fifth_of_twelve_completions_five_are_deleted_and_seven_aborted() -> None:
    """As netflix/s3committer's testJobCommitFailure."""
    store = RecordingStore(fail_on_complete=5)
    sent = messages(store, 4, 3)
    with pytest.raises(StorageError, match="injected"):
        Completer(store, threads=1).complete(WRITE_ID, PREFIX, sent)
    assert len(store.completed) == 5
    deleted, aborted = store.of("delete"), store.of("abort_upload") - set(store.completed)
    assert set(store.completed) <= deleted
    assert len(aborted) == 7
    assert set(store.completed) | aborted == keys(sent)


@pytest.mark.parametrize("phase", ["before", "after"])
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("failing", range(12))
def test_a_failed_completion_leaves_no_object_and_no_upload(failing: int, threads: int, phase: str) -> None:
    store = MemoryStore()
    sent = messages(store, 4, 3)
    victim = sorted(keys(sent))[failing]

    def fail(operation: str, at: str, key: str) -> None:
        if (operation, at, key) == ("complete_upload", phase, victim):
            raise StorageError("no answer")

    store.on_call = fail
    with pytest.raises(StorageError) as caught:
        Completer(store, threads=threads).complete(WRITE_ID, PREFIX, sent)
    assert caught.value.write_id == WRITE_ID
    assert list(store.list(PREFIX)) == []
    assert list(store.list_uploads(PREFIX)) == []


@pytest.mark.parametrize("operation", ["abort_upload", "delete"])
def test_one_failing_compensation_keeps_no_other_from_running(operation: str, caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    sent = messages(store, 4, 3)
    stuck = min(keys(sent))

    def fail(called: str, phase: str, key: str) -> None:
        last_completion = called == "complete_upload" and key.endswith("03-2")
        if phase == "before" and (last_completion or (called, key) == (operation, stuck)):
            raise StorageError(f"{called} failed")

    store.on_call = fail
    with pytest.raises(StorageError, match="complete_upload failed"):
        Completer(store, threads=1).complete(WRITE_ID, PREFIX, sent)
    left = {found.key for found in store.list(PREFIX)}
    assert left == ({stuck} if operation == "delete" else set())
    assert list(store.list_uploads(PREFIX)) == []
    assert [WRITE_ID in record.getMessage() for record in caplog.records] == [True]


def wrong_messages(store: MemoryStore) -> dict[str, list[CommitMessage]]:
    good = pending(store, "good")
    stray = PendingUpload(
        key="elsewhere/x", upload_id="1", parts=good.parts, size_bytes=good.size_bytes, row_count=1, partition_values=()
    )
    empty = CommitMessage(write_id=WRITE_ID, task_index=0, attempt_id=0, row_count=7, uploads=(good,))
    return {
        "of another write": [message(0, [good]), message(1, [], "20240101-beef")],
        "with a key outside the prefix": [message(0, [good]), message(1, [stray])],
        "naming one key twice": [message(0, [good]), message(1, [good])],
        "from two attempts of one task": [message(0, [good]), message(0, [pending(store, "other")])],
        "with rows that are in no file": [empty],
    }


@pytest.mark.parametrize("kind", list(wrong_messages(MemoryStore())))
def test_a_wrong_message_fails_before_the_first_object_exists(kind: str) -> None:
    store = MemoryStore()
    sent = wrong_messages(store)[kind]
    with pytest.raises(StorageError):
        Completer(store, threads=2).complete(WRITE_ID, PREFIX, sent)
    assert "CompleteMultipartUpload" not in store.request_counts()
    assert "AbortMultipartUpload" not in store.request_counts()


def test_leftovers_are_the_uploads_below_the_prefix_that_no_message_names() -> None:
    store = MemoryStore()
    sent = messages(store, 2, 2)
    pending(store, "part-00-0")  # the same key, from an attempt that failed
    pending(store, "speculative")
    neighbour = store.create_upload(f"{PREFIX.removesuffix('/')}-2/part")
    assert Completer(store, threads=3).abort_leftovers(PREFIX, sent) == 2
    assert {upload.upload_id for upload in store.list_uploads(PREFIX)} == {
        upload.upload_id for each in sent for upload in each.uploads
    }
    assert neighbour in {upload.upload_id for upload in store.list_uploads("wh/")}


def test_a_store_that_lists_no_uploads_fails_no_write(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()

    def deny(operation: str, _phase: str, _key: str) -> None:
        if operation == "list_uploads":
            raise StorageError("access denied")

    store.on_call = deny
    assert Completer(store, threads=3).abort_leftovers(PREFIX, []) == 0
    assert f"write_id={WRITE_ID}" in caplog.text


def test_discard_leaves_nothing_below_the_prefix_and_touches_nothing_else() -> None:
    store = MemoryStore()
    Completer(store, threads=3).complete(WRITE_ID, PREFIX, messages(store, 3, 2))
    pending(store, "left")
    others = [f"{PREFIX.removesuffix('/')}-2/part", "wh/orders/_table_writer/log/1.json", "wh/orders/dt=1/part"]
    for key in others:
        store.put(key, b"other")
        store.create_upload(key)
    Completer(store, threads=3).discard(PREFIX)
    assert sorted(found.key for found in store.list("")) == sorted(others)
    assert sorted(upload.key for upload in store.list_uploads("wh/")) == sorted(others)


def test_discard_deletes_more_objects_than_one_page_holds() -> None:
    store = MemoryStore()
    for number in range(2_345):
        store.put(f"{PREFIX}{number}", b"")
    Completer(store, threads=3).discard(PREFIX)
    assert list(store.list(PREFIX)) == []


@pytest.mark.parametrize("failing", ["list_uploads", "abort_upload", "list_page", "delete"])
def test_discard_tries_everything_and_logs_what_fails(failing: str, caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    Completer(store, threads=3).complete(WRITE_ID, PREFIX, messages(store, 3, 2))
    pending(store, "left")

    def fail(operation: str, phase: str, _key: str) -> None:
        if (operation, phase) == (failing, "before"):
            raise StorageError("no")

    store.on_call = fail
    Completer(store, threads=3).discard(PREFIX)
    store.on_call = None
    assert bool(list(store.list(PREFIX))) == (failing in ("list_page", "delete"))
    assert bool(list(store.list_uploads(PREFIX))) == (failing in ("list_uploads", "abort_upload"))
    assert all(WRITE_ID in record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING)
    assert any(record.levelno >= logging.WARNING for record in caplog.records)


@pytest.mark.parametrize("prefix", ["", "/", "data", "data/", f"data/{WRITE_ID}", f"/{WRITE_ID}/", "data//"])
def test_a_prefix_that_is_not_one_writes_own_is_refused(prefix: str) -> None:
    completer = Completer(MemoryStore(), threads=1)
    for call in (completer.discard, lambda prefix: completer.abort_leftovers(prefix, [])):
        with pytest.raises(InvalidInputError):
            call(prefix)
    with pytest.raises(TableWriterError):
        completer.complete(WRITE_ID, prefix, [])
