"""Step 3: all uploads become objects, or none is left."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from table_writer.errors import InvalidInputError, StorageError, TableWriterError
from table_writer.jobs.complete import MANY_UPLOADS, Completer
from table_writer.model.message import CommitMessage, PendingUpload, UploadedPart, names_of_task
from table_writer.progress import WriteProgress, report_progress
from table_writer.storage.object_store import UploadInfo
from table_writer.testing.memory_store import MemoryStore

WRITE_ID = "20240101-cafe"
PREFIX = f"wh/orders/_table_writer/data/{WRITE_ID}/"
THREADS = [1, 3, 8]


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


def pending(store: MemoryStore, file_name: str) -> PendingUpload:
    key = f"{PREFIX}{file_name}"
    upload_id = store.create_upload(key)
    part = store.upload_part(key, upload_id, 1, file_name.encode())
    return PendingUpload(
        key=key, upload_id=upload_id, parts=(part,), size_bytes=part.size_bytes, row_count=1, partition_values=()
    )


def message(index: int, uploads: Sequence[PendingUpload], write_id: str = WRITE_ID) -> CommitMessage:
    return CommitMessage(
        write_id=write_id, task_index=index, attempt_id=index, row_count=len(uploads), uploads=tuple(uploads)
    )


def name(task: int, number: int) -> str:
    return f"{names_of_task(WRITE_ID, task)}{number}"


def messages(store: MemoryStore, tasks: int, files: int) -> list[CommitMessage]:
    return [message(task, [pending(store, name(task, number)) for number in range(files)]) for task in range(tasks)]


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


def test_uploads_and_copies_are_counted_by_their_names() -> None:
    store, progress = MemoryStore(), WriteProgress(None)
    completer = Completer(store, threads=2)
    with report_progress(progress):
        completer.complete(WRITE_ID, PREFIX, messages(store, 2, 3))
        assert (progress.snapshot.done, progress.snapshot.total, progress.snapshot.unit) == (6, 6, "uploads")
        completer.copy({f"{found.key}-copy": found for found in list(store.list(PREFIX))[:4]})
        assert (progress.snapshot.done, progress.snapshot.total, progress.snapshot.unit) == (4, 4, "copies")
    assert progress.snapshot.write_id == WRITE_ID


def test_copies_of_a_failed_round_stay_and_nothing_more_is_said(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    store.put("a", b"1")
    (there,) = store.list("")
    gone = replace(there, key="gone")
    with pytest.raises(StorageError):
        Completer(store, threads=1).copy({"a-copy": there, "b-copy": gone, "c-copy": there})
    assert "a-copy" in {found.key for found in store.list("")}
    assert not caplog.records


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
        last_completion = called == "complete_upload" and key.endswith(name(3, 2))
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
    good = pending(store, name(0, 0))
    stray = replace(good, key=f"elsewhere/{name(1, 0)}")
    empty = CommitMessage(write_id=WRITE_ID, task_index=0, attempt_id=0, row_count=7, uploads=(good,))
    return {
        "of another write": [message(0, [good]), message(1, [], "20240101-beef")],
        "with a key outside the prefix": [message(0, [good]), message(1, [stray])],
        "naming one key twice": [message(0, [good, good])],
        "naming a key of another task": [message(0, [good]), message(1, [good])],
        "from two attempts of one task": [message(0, [good]), message(0, [pending(store, name(0, 1))])],
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


def test_leftovers_are_what_is_pending_below_the_prefix_and_no_message_names() -> None:
    store = MemoryStore()
    sent = messages(store, 2, 2)
    pending(store, name(0, 0))  # the same key, from an attempt that failed
    pending(store, "speculative")
    neighbour = store.create_upload(f"{PREFIX.removesuffix('/')}-2/part")
    completer = Completer(store, threads=3)
    completer.complete(WRITE_ID, PREFIX, sent)
    assert completer.abort_leftovers(PREFIX, sent) == 2
    assert [upload.upload_id for upload in store.list_uploads("wh/")] == [neighbour]
    assert {found.key for found in store.list(PREFIX)} == keys(sent)


class ForgetfulStore(MemoryStore):
    """Still lists uploads that are complete, and deletes the bytes of the object with such an upload.

    As SeaweedFS can: github.com/seaweedfs/seaweedfs/issues/11382.
    """

    def __init__(self) -> None:
        super().__init__()
        self.made_of: dict[str, str] = {}

    def complete_upload(self, key: str, upload_id: str, parts: Sequence[UploadedPart]) -> None:
        super().complete_upload(key, upload_id, parts)
        self.made_of[upload_id] = key

    def list_uploads(self, prefix: str) -> Iterator[UploadInfo]:
        yield from super().list_uploads(prefix)
        for upload_id, key in self.made_of.items():
            yield UploadInfo(key=key, upload_id=upload_id, initiated_at=datetime.now(UTC))

    def abort_upload(self, key: str, upload_id: str) -> None:
        super().abort_upload(key, upload_id)
        if upload_id in self.made_of:
            self.delete([key])


def test_an_upload_that_a_message_names_is_no_leftover_whatever_the_store_lists() -> None:
    store = ForgetfulStore()
    sent = messages(store, 3, 2)
    pending(store, "speculative")
    completer = Completer(store, threads=3)
    completer.complete(WRITE_ID, PREFIX, sent)
    assert completer.abort_leftovers(PREFIX, sent) == 1
    assert {found.key for found in store.list(PREFIX)} == keys(sent)


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
    with pytest.raises(InvalidInputError):
        completer.discard(prefix)
    with pytest.raises(InvalidInputError):
        completer.abort_leftovers(prefix, [])
    with pytest.raises(TableWriterError):
        completer.complete(WRITE_ID, prefix, [])


class Elsewhere:
    """Completes uploads as executors would, and ends as told after so many."""

    def __init__(self, store: MemoryStore, ends_after: int | None = None, error: BaseException | None = None) -> None:
        self.store = store
        self.ends_after = ends_after
        self.error = error or StorageError("an executor failed")
        self.rest: list[PendingUpload] = []

    def __call__(self, uploads: Iterable[PendingUpload]) -> None:
        for number, upload in enumerate(uploads):
            if self.ends_after is None or number < self.ends_after:
                self.store.complete_upload(upload.key, upload.upload_id, upload.parts)
            else:
                self.rest.append(upload)
        if self.rest:
            raise self.error


@pytest.mark.parametrize(("files", "by"), [(MANY_UPLOADS, "elsewhere"), (MANY_UPLOADS - 1, "here")])
def test_very_many_uploads_are_completed_elsewhere_and_fewer_here(files: int, by: str) -> None:
    store, asked = MemoryStore(), []
    sent = messages(store, 1, files)

    def elsewhere(uploads: Iterable[PendingUpload]) -> None:
        asked.append("elsewhere")
        Elsewhere(store)(uploads)

    Completer(store, threads=2).complete(WRITE_ID, PREFIX, sent, elsewhere)
    assert asked == ["elsewhere"] * (by == "elsewhere")
    assert len(list(store.list(PREFIX))) == files


def test_very_many_uploads_are_completed_here_where_there_is_nobody_else() -> None:
    store = MemoryStore()
    Completer(store, threads=2, many=3).complete(WRITE_ID, PREFIX, messages(store, 1, 4))
    assert len(list(store.list(PREFIX))) == 4


@pytest.mark.parametrize("error", [StorageError("no"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("ends_after", [0, 1, 10, 19])
def test_what_fails_elsewhere_is_undone_by_the_prefix_alone(ends_after: int, error: BaseException) -> None:
    store = MemoryStore()
    sent = messages(store, 2, 10)
    neighbour = f"{PREFIX.removesuffix('/')}-2/part"
    store.put(neighbour, b"other")
    with pytest.raises(type(error)) as caught:
        Completer(store, threads=2, many=1).complete(WRITE_ID, PREFIX, sent, Elsewhere(store, ends_after, error))
    assert caught.value is error
    assert [found.key for found in store.list("")] == [neighbour]
    assert list(store.list_uploads("wh/")) == []


def test_a_task_that_still_runs_after_the_write_was_undone_completes_nothing() -> None:
    store = MemoryStore()
    elsewhere = Elsewhere(store, 7)
    with pytest.raises(StorageError):
        Completer(store, threads=2, many=1).complete(WRITE_ID, PREFIX, messages(store, 1, 10), elsewhere)
    for upload in elsewhere.rest:
        with pytest.raises(StorageError, match="is gone"):
            store.complete_upload(upload.key, upload.upload_id, upload.parts)
    assert list(store.list("")) == []
