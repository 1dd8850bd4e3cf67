"""Requests to the store in such numbers that executors send them."""

from __future__ import annotations

import pickle
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeVar

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from table_writer.errors import StorageError
from table_writer.log.removal import batches
from table_writer.model.message import PendingUpload
from table_writer.progress import current
from table_writer.spark.jobs import run_interruptibly, translated
from table_writer.spark.shipping import prepare_executors
from table_writer.spark.sql import spark_reason
from table_writer.storage import SourceChangedError, open_store
from table_writer.storage.object_store import ObjectInfo, ObjectStore

__all__ = [
    "ITEMS_PER_TASK",
    "MANY_COPIES",
    "ExecutorCompletions",
    "ExecutorCopies",
    "Executors",
    "in_one_task",
    "jobs",
    "worker_store",
]


ITEMS_PER_TASK: Final = 500

THREADS: Final = 16

Item = TypeVar("Item")

Answer = TypeVar("Answer")

TASKS_PER_JOB: Final = 40
"""20,000 uploads: a driver that packs all of 100,000 at once holds them twice, and no store takes more at a time."""


MANY_COPIES: Final = 2_000  # a Spark job takes as long as some hundred requests

COPIES_PER_TASK: Final = ITEMS_PER_TASK


@dataclass(frozen=True)
class Executors:
    """Runs a function on items in a Spark job of its own."""

    context: SparkContext
    store_settings: Any
    write_id: str  # the job's tag
    count_requests: Callable[[Mapping[str, int]], None]  # told what the tasks sent, by kind

    def run(
        self,
        items: Sequence[Item],
        work: Callable[[Iterable[Item]], Iterator[tuple[Mapping[str, int], Answer]]],
        *,
        task_count: int,
    ) -> list[Answer]:
        """Return what each task answered beside its requests.

        Raises what a task raised, and a ``StorageError`` for what Spark itself could not do, such as run the tasks to
        their end. Ctrl-C and any failure end the other tasks first.
        """
        prepare_executors(self.context)
        before = current().now

        def counted(done: int, total: int) -> tuple[int, int, str]:
            """Count what is counted already, uploads or copies, of which each task does its share."""
            if before.total is None:
                return done, total, "tasks"
            return min(before.done + done * ITEMS_PER_TASK, before.total), before.total, before.unit

        try:
            job = self.context.parallelize(items, task_count).mapPartitions(work)
            with translated(self.write_id):
                tag = f"table_writer-{self.write_id}"
                answers = run_interruptibly(self.context, job.collect, tag=tag, counted=counted)
        except (PySparkException, Py4JError) as error:  # no code of the user's runs in these tasks
            raise StorageError(
                f"executors could not send the requests of write {self.write_id}: {spark_reason(error).rstrip('.')}."
                " Nothing was published; look at the job in Spark's UI, and run the write again.",
                write_id=self.write_id,
            ) from error
        for requests, _ in answers:
            self.count_requests(requests)
        return [answer for _, answer in answers]


def in_one_task(
    store_settings: Any, do: Callable[[ObjectStore, Item], Answer], items: Iterable[Item]
) -> tuple[Mapping[str, int], list[Answer]]:
    """Run ``do`` on all items, several at once; returns the requests sent, by kind, and the answers.

    The first failure is raised; what has not begun by then does not begin any more.
    """
    store = worker_store(store_settings)
    before = Counter(store.request_counts())
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="table_writer-task")
    try:
        futures = [pool.submit(do, store, item) for item in items]
        answers = [future.result() for future in futures]
    finally:
        pool.shutdown(cancel_futures=True)
    return dict(Counter(store.request_counts()) - before), answers


@lru_cache(maxsize=4)
def worker_store(settings: Any) -> ObjectStore:
    """Open a store once in a process, which takes 100 to 200 ms."""
    return open_store(settings)


@dataclass(frozen=True)
class ExecutorCompletions:
    """Completes uploads by a Spark job; what failed attempts have sent is not counted."""

    executors: Executors

    def __call__(self, uploads: Iterable[PendingUpload]) -> None:
        """Complete every upload; they are read once, and few are held at a time.

        After a ``StorageError`` any part of the others may be completed. No task runs any more, except on executors
        that have stopped answering.
        """
        work = _completer(self.executors.store_settings)
        for shares in jobs(uploads):
            self.executors.run(shares, work, task_count=len(shares))


def jobs(uploads: Iterable[PendingUpload]) -> Iterator[list[bytes]]:
    """Yield the shares of one job after the other: what each task gets, packed."""
    shares = (zlib.compress(pickle.dumps(batch), level=1) for batch in batches(uploads, ITEMS_PER_TASK))
    return batches(shares, TASKS_PER_JOB)


def _completer(settings: Any) -> Callable[[Iterable[bytes]], Iterator[tuple[Mapping[str, int], None]]]:
    """Return what one task does."""

    def complete_one(store: ObjectStore, upload: PendingUpload) -> None:
        store.complete_upload(upload.key, upload.upload_id, upload.parts)

    def complete_all(shares: Iterable[bytes]) -> Iterator[tuple[Mapping[str, int], None]]:
        for share in shares:
            uploads = pickle.loads(zlib.decompress(share))  # noqa: S301 - packed by the driver, as all of a job is
            requests, _ = in_one_task(settings, complete_one, uploads)
            yield requests, None

    return complete_all


@dataclass(frozen=True)
class ExecutorCopies:
    """Copies many files by a Spark job, few of them by the driver's own threads."""

    executors: Executors
    copy_few: Callable[[Mapping[str, ObjectInfo]], None]  # the driver's way
    many: int = MANY_COPIES  # from so many copies on executors do it

    def __call__(self, copies: Mapping[str, ObjectInfo]) -> None:
        """Make every copy, or raise: ``SourceChangedError`` for an object that is not what was listed."""
        if len(copies) < self.many:
            self.copy_few(copies)
            return
        task_count = -(-len(copies) // COPIES_PER_TASK)
        work = _copier(self.executors.store_settings)
        answers = self.executors.run(list(copies.items()), work, task_count=task_count)
        changed = next(filter(None, answers), "")
        if changed:
            raise SourceChangedError(changed, write_id=self.executors.write_id)


def _copier(settings: Any) -> Callable[[Iterable[tuple[str, ObjectInfo]]], Iterator[tuple[Mapping[str, int], str]]]:
    """Return what one task does; it answers with its requests, and with a message if a source has changed."""

    def copy_one(store: ObjectStore, copy: tuple[str, ObjectInfo]) -> str:
        key, source = copy
        try:
            store.copy(source, key)
        except SourceChangedError as changed:
            return changed.message
        return ""

    def copy_all(copies: Iterable[tuple[str, ObjectInfo]]) -> Iterator[tuple[Mapping[str, int], str]]:
        requests, messages = in_one_task(settings, copy_one, copies)
        yield requests, next(filter(None, messages), "")

    return copy_all
