"""STEP 3: every pending upload becomes an object, or every one is undone. Nothing here is visible to readers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, Self, TypeVar

from table_writer.errors import InvalidInputError, StorageError, TableWriterError
from table_writer.model.message import CommitMessage, PendingUpload
from table_writer.progress import current
from table_writer.protocol.table.open_table import OpenTable
from table_writer.storage.object_store import ObjectInfo, ObjectStore, UploadInfo
from table_writer.storage.table_files import COPY_THREADS, abort_uploads, delete_keys

logger = logging.getLogger(__name__)
MANY_UPLOADS: Final = 2_000
"""From so many uploads on others complete them.

A request takes 1.4 ms of the one interpreter, however many threads wait for it, and 8 threads send 400 a second where
each takes 20 ms: 2,000 take three to five seconds. A Spark job that asks executors takes as long as some hundred
requests, and its tasks share the rest among them.
"""
THREADS: Final = 8  # Hadoop's default of fs.s3a.committer.threads, which other stores have not
INTERRUPT_SECONDS: Final = 0.5  # a signal that arrives just before Python blocks on a lock is seen after this long
Item = TypeVar("Item")
Spread = Callable[[Iterable[PendingUpload]], None]
"""Completes all these uploads, or raises; then any part of them may be completed."""


class Completer:
    """Completes the pending uploads of a write, or leaves nothing of it.

    From ``many`` uploads on others complete them, where there are others.
    """

    def __init__(self, store: ObjectStore, *, threads: int, many: int = MANY_UPLOADS) -> None:
        self._store = store
        self._threads = threads
        self._many = many

    @classmethod
    def of(cls, opened: OpenTable) -> Self:
        """Return the completer of a table's writes."""
        threads = opened.config.complete_threads or opened.tuning.committer_threads or THREADS
        return cls(opened.store, threads=threads)

    def complete(
        self, write_id: str, data_prefix: str, messages: Collection[CommitMessage], spread: Spread | None = None
    ) -> None:
        """Complete every upload that the messages name.

        After an error or Ctrl-C none of their objects exists and none of the uploads is pending, as far as the store
        could be reached; what could not be undone is logged and left to vacuum. All messages must be of ``write_id``
        and all keys below ``data_prefix``, else a ``StorageError`` comes before anything was completed. There is one
        message per task. They are read more than once, and need not be in memory all at once. ``spread`` completes very
        many uploads elsewhere.
        """
        count = _check_messages(write_id, data_prefix, messages)
        logger.info("write_id=%s: completing %d uploads below %s", write_id, count, data_prefix)
        uploads = _Uploads(messages, count)
        current().name(write_id)
        current().count("uploads", count)
        try:
            if spread is None or count < self._many:
                self._complete_here(write_id, uploads)
            else:
                try:
                    spread(uploads)
                except BaseException:  # Ctrl-C as well: any part may be done, and the store is asked what is there
                    self.discard(data_prefix)
                    raise
        except TableWriterError as error:
            error.write_id = error.write_id or write_id
            raise
        logger.info("write_id=%s: completed %d uploads", write_id, count)

    def _complete_here(self, write_id: str, uploads: Collection[PendingUpload]) -> None:
        progress = current()  # of this thread, which waits for those that send the requests

        def complete_one(upload: PendingUpload) -> None:
            self._store.complete_upload(upload.key, upload.upload_id, upload.parts)
            progress.advance()

        def undo_one(upload: PendingUpload) -> None:
            try:
                self._store.abort_upload(upload.key, upload.upload_id)  # where the outcome is unclear: first stop it
            finally:
                self._store.delete([upload.key])

        def abort_one(upload: PendingUpload) -> None:
            self._store.abort_upload(upload.key, upload.upload_id)

        def describe(upload: PendingUpload) -> str:
            return f"write_id={write_id}: {upload.key}"

        run_all(uploads, do=complete_one, undo=undo_one, skip=abort_one, threads=self._threads, describe=describe)

    def copy(self, copies: Mapping[str, ObjectInfo]) -> None:
        """Let the store make every copy, of objects as they were listed, by new key.

        After an error some of them exist, and their keys are not used again. Raises ``StorageError``, and its subclass
        ``SourceChangedError`` if an object is not what was listed any more.
        """
        progress = current()
        progress.count("copies", len(copies))

        def copy_one(key: str) -> None:
            self._store.copy(copies[key], key)
            progress.advance()

        nothing = lambda _: None  # noqa: E731  # what a failed round has copied goes with its directory
        run_all(copies, do=copy_one, undo=nothing, skip=nothing, threads=max(self._threads, COPY_THREADS))

    def abort_leftovers(self, data_prefix: str, messages: Collection[CommitMessage]) -> int:
        """Abort the pending uploads below the prefix that no message names: failed and speculative attempts left them.

        Returns how many. Leftovers are invisible, so a store that refuses to list or abort them does not fail the
        write: that is logged. Named uploads are complete by then and pending no more, but not every store says so:
        SeaweedFS may list one still, and deletes the object's bytes if it is aborted (its issue 11382).
        """
        write_id = _write_id(data_prefix)
        uploads = _list_until_failure(write_id, "pending uploads", partial(self._store.list_uploads, data_prefix))
        pending = {(upload.key, upload.upload_id): upload for upload in uploads}
        for message in messages if pending else ():  # usually there are none, and nothing is read
            for named in message.uploads:
                pending.pop((named.key, named.upload_id), None)
        aborted = self._abort(write_id, pending.values())
        if aborted:
            logger.info("write_id=%s: aborted %d uploads of attempts that did not count", write_id, aborted)
        return aborted

    def discard(self, data_prefix: str) -> None:
        """Undo a whole unpublished write: abort all uploads below its prefix, then delete all objects there.

        Everything is tried; what fails is logged and left to vacuum. In this order nothing can come late: an upload
        that is completed while uploads are listed is an object by the time objects are.
        """
        write_id = _write_id(data_prefix)
        uploads = _list_until_failure(write_id, "pending uploads", partial(self._store.list_uploads, data_prefix))
        aborted = self._abort(write_id, uploads)
        objects = _list_until_failure(write_id, "objects", partial(self._store.list, data_prefix))
        deleted = delete_keys(self._store, (found.key for found in objects))
        for failure in deleted.failures:
            logger.warning("write_id=%s: could not delete all of its objects: %s", write_id, failure)
        logger.info("write_id=%s: discarded %d uploads and %d objects", write_id, aborted, deleted.count)

    def _abort(self, write_id: str, uploads: Iterable[UploadInfo]) -> int:
        aborted = abort_uploads(self._store, uploads, threads=self._threads)
        for failure in aborted.failures:
            logger.warning("write_id=%s: could not abort an upload: %s", write_id, failure)
        return aborted.count


def _list_until_failure(write_id: str, what: str, listing: Callable[[], Iterable[Item]]) -> Iterator[Item]:
    """List until the store fails; that is logged."""
    try:
        yield from listing()
    except StorageError as error:
        logger.warning("write_id=%s: could not list %s: %s", write_id, what, error)


def run_all(
    items: Collection[Item],
    *,
    do: Callable[[Item], object],
    undo: Callable[[Item], object],
    skip: Callable[[Item], object],
    threads: int,
    describe: Callable[[Item], str] = repr,
) -> None:
    """Run ``do`` on all items, in parallel; when one fails, take back what was done and raise its error.

    On the first error, or Ctrl-C, no further item is started and those in flight are waited for. Then each started item
    gets ``undo``, the failed ones too since their outcome may be unclear, and each other ``skip``. Every compensation
    is attempted; one that fails is logged, with ``describe`` of the item, and hides nothing. A second Ctrl-C while
    items are in flight gives up waiting and undoing.

    Items are taken in their order, and again from the first one for the compensation. So none is kept, and a collection
    that makes them anew, the same each time, may have any number.

    Examples
    --------
    >>> def halve(number: int) -> None:
    ...     if number % 2:
    ...         raise ValueError(f"{number} is odd")
    >>> run_all([2, 3, 4], do=halve, undo=lambda n: print("undo", n), skip=lambda n: print("skip", n), threads=1)
    Traceback (most recent call last):
    ValueError: 3 is odd
    """
    run = _Run(items, do)
    run.finish(threads)
    if not run.failures:
        return
    for error in run.failures[1:]:
        logger.warning("failed as well: %s", error)
    shared = _SharedIterator(enumerate(items))

    def compensate() -> None:
        for number, item in shared:
            action, name = (undo, "undo") if number < run.started_count else (skip, "skip")
            try:
                action(item)
            except Exception:  # the other compensations still run, and the first error is the one that counts
                logger.warning("%s failed for %s", name, describe(item), exc_info=True)

    with ThreadPoolExecutor(threads, thread_name_prefix="undo") as pool:  # on Ctrl-C, too, it finishes what is left
        for _ in range(threads):
            pool.submit(compensate)
    raise run.failures[0]


class _SharedIterator(Iterator[Item]):
    """An iterator that several threads take from."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = iter(items)
        self._lock = threading.Lock()

    def __next__(self) -> Item:
        with self._lock:
            return next(self._items)


class _Run(Generic[Item]):
    """The counts and failures of a run, under one lock, so that nothing starts after a failure.

    It counts what is in flight itself: a thread pool that is interrupted while it starts a thread loses track of it.
    """

    def __init__(self, items: Iterable[Item], do: Callable[[Item], object]) -> None:
        self._changed = threading.Condition()
        self._in_flight_count = 0
        self._do = do
        self._items = iter(items)
        self._items_left = True
        self.started_count = 0
        self.failures: list[BaseException] = []

    def finish(self, threads: int) -> None:
        """Return when all items are done, or one has failed and none is in flight any more."""
        with ThreadPoolExecutor(threads, thread_name_prefix="complete") as pool:
            try:
                for _ in range(threads):
                    pool.submit(self._work)
                self._wait()
            except BaseException as error:  # noqa: BLE001 - Ctrl-C, which reaches this thread and not the workers
                self._fail(error)
                self._wait()

    def _wait(self) -> None:
        with self._changed:
            while self._in_flight_count or (self._items_left and not self.failures):
                self._changed.wait(INTERRUPT_SECONDS)

    def _work(self) -> None:
        for item in self._take_items():
            try:
                self._do(item)
            except BaseException as error:  # noqa: BLE001 - whatever it is stops the others, and is raised in the end
                self._fail(error)
            with self._changed:
                self._in_flight_count -= 1
                self._changed.notify()

    def _take_items(self) -> Iterator[Item]:
        """Take items until none is left or something has failed; each thread has an iterator of its own."""
        while True:
            with self._changed:
                if self.failures or not self._items_left:
                    return
                try:
                    item = next(self._items)
                except StopIteration:
                    self._items_left = False
                    self._changed.notify()
                    return
                except BaseException as error:  # noqa: BLE001 - an item that cannot be made is a failure like another
                    self._fail(error)
                    return
                self.started_count += 1
                self._in_flight_count += 1
            yield item

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self.failures.append(error)


@dataclass(frozen=True)
class _Uploads(Collection[PendingUpload]):
    """The uploads of messages, which are read anew each time."""

    messages: Collection[CommitMessage]
    count: int

    def __len__(self) -> int:
        return self.count

    def __contains__(self, upload: object) -> bool:
        return any(upload == named for named in self)

    def __iter__(self) -> Iterator[PendingUpload]:
        return (upload for message in self.messages for upload in message.uploads)


def _check_messages(write_id: str, data_prefix: str, messages: Collection[CommitMessage]) -> int:
    """Count all uploads; refuse what can't be right before the first object exists.

    Tasks name their files after themselves, and a message is checked for that: so no file is written by two.
    """
    if _write_id(data_prefix) != write_id:
        raise InvalidInputError(f"{data_prefix} is not the data prefix of this write", write_id=write_id)
    tasks: set[int] = set()
    count = 0
    for message in messages:
        if message.write_id != write_id:
            raise StorageError(f"a commit message belongs to write {message.write_id}", write_id=write_id)
        message.validate()
        strays = [upload.key for upload in message.uploads if not upload.key.startswith(data_prefix)]
        if strays:
            raise StorageError(f"{strays[0]} is not below {data_prefix}", write_id=write_id)
        tasks.add(message.task_index)
        count += len(message.uploads)
    if len(tasks) != len(messages):
        raise StorageError("two commit messages come from one task", write_id=write_id)
    return count


def _write_id(data_prefix: str) -> str:
    """Return the last segment of ``…/data/<write_id>/``; anything shorter could hold other writers' files."""
    above, _, write_id = data_prefix.removesuffix("/").rpartition("/")
    if not data_prefix.endswith("/") or not above or not write_id:
        raise InvalidInputError(f"{data_prefix!r} is not the data prefix of one write: expected …/data/<write_id>/")
    return write_id
