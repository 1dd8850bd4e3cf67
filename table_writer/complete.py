"""STEP 3: every pending upload becomes an object, or every one is undone. Nothing here is visible to readers."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Final, Generic, TypeVar

from table_writer.errors import InvalidInputError, StorageError, TableWriterError
from table_writer.model.message import CommitMessage, PendingUpload
from table_writer.storage.object_store import ObjectInfo, ObjectStore, UploadInfo

__all__ = ["Completer", "run_all"]

logger = logging.getLogger(__name__)

DELETE_BATCH_KEYS: Final = 1_000
COPY_THREADS: Final = 32  # a copy is one request that waits for the store and moves nothing here
INTERRUPT_SECONDS: Final = 0.5  # a signal that arrives just before Python blocks on a lock is seen after this long

Item = TypeVar("Item")


class Completer:
    """Completes the pending uploads of a write, or leaves nothing of it.

    Parameters
    ----------
    store
        Where the uploads are.
    threads
        Requests in flight at once.
    """

    def __init__(self, store: ObjectStore, *, threads: int) -> None:
        self._store = store
        self._threads = threads

    def complete(
        self,
        write_id: str,
        data_prefix: str,
        messages: Sequence[CommitMessage],
    ) -> None:
        """Complete every upload that the messages name.

        After an error or Ctrl-C none of their objects exists and none of the uploads is pending, as far as the store
        could be reached; what could not be undone is logged and left to vacuum.

        Parameters
        ----------
        write_id
            The write that all messages must belong to.
        data_prefix
            ``…/data/<write_id>/``, which all keys must lie below.
        messages
            One per task.

        Raises
        ------
        StorageError
            A message is wrong (then nothing was completed), or an upload could not be completed (then all is undone).
        """
        uploads = _checked(write_id, data_prefix, messages)
        logger.info("write_id=%s: completing %d uploads below %s", write_id, len(uploads), data_prefix)

        def complete_one(upload: PendingUpload) -> None:
            self._store.complete_upload(upload.key, upload.upload_id, upload.parts)

        def undo_one(upload: PendingUpload) -> None:
            try:
                self._store.abort_upload(upload.key, upload.upload_id)  # where the outcome is unclear: first stop it
            finally:
                self._store.delete([upload.key])

        def abort_one(upload: PendingUpload) -> None:
            self._store.abort_upload(upload.key, upload.upload_id)

        def describe(upload: PendingUpload) -> str:
            return f"write_id={write_id}: {upload.key}"

        try:
            run_all(uploads, do=complete_one, undo=undo_one, skip=abort_one, threads=self._threads, describe=describe)
        except TableWriterError as error:
            error.write_id = error.write_id or write_id
            raise
        logger.info("write_id=%s: completed %d uploads", write_id, len(uploads))

    def copy(self, copies: Mapping[str, ObjectInfo]) -> None:
        """Make every copy, by the store itself; after an error none of them exists, as far as the store was reached.

        Parameters
        ----------
        copies
            New keys, each with the object to copy as it was listed.

        Raises
        ------
        StorageError
            A copy failed; its subclass ``SourceChangedError`` when an object is not what was listed any more.
        """

        def copy_one(key: str) -> None:
            self._store.copy(copies[key], key)

        def undo_one(key: str) -> None:
            self._store.delete([key])

        run_all(copies, do=copy_one, undo=undo_one, skip=lambda _: None, threads=max(self._threads, COPY_THREADS))

    def abort_leftovers(self, data_prefix: str, messages: Sequence[CommitMessage]) -> int:
        """Abort what failed and speculative attempts left: the pending uploads below the prefix that no message names.

        Leftovers are invisible, so a store that refuses to list or abort them does not fail the write: that is logged.

        Returns
        -------
        int
            How many uploads were aborted.
        """
        write_id = _write_id(data_prefix)
        named = {(upload.key, upload.upload_id) for message in messages for upload in message.uploads}
        leftovers = (upload for upload in self._uploads(data_prefix) if (upload.key, upload.upload_id) not in named)
        aborted = self._abort(write_id, leftovers)
        if aborted:
            logger.info("write_id=%s: aborted %d uploads of attempts that did not count", write_id, aborted)
        return aborted

    def discard(self, data_prefix: str) -> None:
        """Undo a whole unpublished write: abort all uploads below its prefix, then delete all objects there.

        Everything is tried; what fails is logged and left to vacuum.
        """
        write_id = _write_id(data_prefix)
        aborted = self._abort(write_id, self._uploads(data_prefix))
        deleted = 0
        for batch in _batches(self._objects(data_prefix), DELETE_BATCH_KEYS):
            try:
                self._store.delete([found.key for found in batch])
                deleted += len(batch)
            except StorageError as error:
                logger.warning("write_id=%s: could not delete all of %d objects: %s", write_id, len(batch), error)
        logger.info("write_id=%s: discarded %d uploads and %d objects", write_id, aborted, deleted)

    def _abort(self, write_id: str, uploads: Iterable[UploadInfo]) -> int:
        def abort(upload: UploadInfo) -> bool:
            try:
                self._store.abort_upload(upload.key, upload.upload_id)
            except StorageError as error:
                logger.warning("write_id=%s: could not abort an upload of %s: %s", write_id, upload.key, error)
                return False
            return True

        aborted = 0
        for batch in _batches(uploads, DELETE_BATCH_KEYS):  # bounds what is in memory
            with ThreadPoolExecutor(self._threads, thread_name_prefix="abort") as pool:
                aborted += sum(pool.map(abort, batch))
        return aborted

    def _uploads(self, data_prefix: str) -> Iterator[UploadInfo]:
        try:
            yield from self._store.list_uploads(data_prefix)
        except StorageError as error:
            logger.warning("write_id=%s: could not list pending uploads: %s", _write_id(data_prefix), error)

    def _objects(self, data_prefix: str) -> Iterator[ObjectInfo]:
        try:
            yield from self._store.list(data_prefix)
        except StorageError as error:
            logger.warning("write_id=%s: could not list objects: %s", _write_id(data_prefix), error)


def run_all(
    items: Iterable[Item],
    *,
    do: Callable[[Item], object],
    undo: Callable[[Item], object],
    skip: Callable[[Item], object],
    threads: int,
    describe: Callable[[Item], str] = repr,
) -> None:
    """Run ``do`` on all items, in parallel; when one fails, take back what was done and raise its error.

    On the first error, or Ctrl-C, no further item is started and those in flight are waited for. Then each started
    item gets ``undo``, the failed ones too since their outcome may be unclear, and each other ``skip``. Every
    compensation is attempted; one that fails is logged, with ``describe`` of the item, and hides nothing. A second
    Ctrl-C while items are in flight gives up waiting and undoing.

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

    def compensate(action: Callable[[Item], object], name: str, item: Item) -> None:
        try:
            action(item)
        except Exception:  # the other compensations still run, and the first error is the one that counts
            logger.warning("%s failed for %s", name, describe(item), exc_info=True)

    with ThreadPoolExecutor(threads, thread_name_prefix="undo") as pool:  # on Ctrl-C, too, it finishes what is queued
        for item in run.started:
            pool.submit(compensate, undo, "undo", item)
        for item in run.waiting:
            pool.submit(compensate, skip, "skip", item)
    raise run.failures[0]


class _Run(Generic[Item]):
    """Which items were started and what failed; under one lock, so that nothing starts after a failure.

    It counts what is in flight itself: a thread pool that is interrupted while it starts a thread loses track of it.
    """

    def __init__(self, items: Iterable[Item], do: Callable[[Item], object]) -> None:
        self._changed = threading.Condition()
        self._in_flight_count = 0
        self._do = do
        self.waiting = deque(items)
        self.started: list[Item] = []
        self.failures: list[BaseException] = []

    def finish(self, threads: int) -> None:
        """Return when all items are done, or one has failed and none is in flight any more."""
        with ThreadPoolExecutor(threads, thread_name_prefix="complete") as pool:
            try:
                for _ in range(min(threads, len(self.waiting))):
                    pool.submit(self._work)
                self._wait()
            except BaseException as error:  # noqa: BLE001 - Ctrl-C, which reaches this thread and not the workers
                self._fail(error)
                self._wait()

    def _wait(self) -> None:
        with self._changed:
            while self._in_flight_count or (self.waiting and not self.failures):
                self._changed.wait(INTERRUPT_SECONDS)

    def _work(self) -> None:
        while True:
            with self._changed:
                if self.failures or not self.waiting:
                    return
                item = self.waiting.popleft()
                self.started.append(item)
                self._in_flight_count += 1
            try:
                self._do(item)
            except BaseException as error:  # noqa: BLE001 - whatever it is stops the others, and is raised in the end
                self._fail(error)
            with self._changed:
                self._in_flight_count -= 1
                self._changed.notify()

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self.failures.append(error)


def _checked(write_id: str, data_prefix: str, messages: Sequence[CommitMessage]) -> list[PendingUpload]:
    """Return all uploads; refuse what can't be right before the first object exists."""
    if _write_id(data_prefix) != write_id:
        raise InvalidInputError(f"{data_prefix} is not the data prefix of this write", write_id=write_id)
    for message in messages:
        if message.write_id != write_id:
            raise StorageError(f"a commit message belongs to write {message.write_id}", write_id=write_id)
        message.validate()
    uploads = [upload for message in messages for upload in message.uploads]
    keys = {upload.key for upload in uploads}
    if len(keys) != len(uploads):
        raise StorageError("two tasks wrote a file under one key", write_id=write_id)
    if len({message.task_index for message in messages}) != len(messages):
        raise StorageError("two commit messages come from one task", write_id=write_id)
    strays = [key for key in keys if not key.startswith(data_prefix)]
    if strays:
        raise StorageError(f"{strays[0]} is not below {data_prefix}", write_id=write_id)
    return uploads


def _write_id(data_prefix: str) -> str:
    """Return the last segment of ``…/data/<write_id>/``; anything shorter could hold other writers' files."""
    above, _, write_id = data_prefix.removesuffix("/").rpartition("/")
    if not data_prefix.endswith("/") or not above or not write_id:
        raise InvalidInputError(f"{data_prefix!r} is not the data prefix of one write: expected …/data/<write_id>/")
    return write_id


def _batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
