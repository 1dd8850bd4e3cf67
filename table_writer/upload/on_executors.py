"""Requests to the store in such numbers that executors send them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from table_writer.errors import StorageError
from table_writer.progress import current
from table_writer.sql_text import spark_reason
from table_writer.storage.object_store import ObjectStore
from table_writer.upload.failures import translated
from table_writer.upload.interrupt import run_interruptibly
from table_writer.upload.shipping import prepare_executors
from table_writer.upload.worker_store import worker_store

__all__ = ["ITEMS_PER_TASK", "Executors", "in_one_task"]

ITEMS_PER_TASK: Final = 500
THREADS: Final = 16

Item = TypeVar("Item")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Executors:
    """Runs a function on items of a Spark job of its own, in tasks of a write.

    Parameters
    ----------
    context, store_settings, write_id
        Where the job runs, what its tasks open, and its tag.
    count_requests
        Told what the tasks sent, by kind.
    """

    context: SparkContext
    store_settings: Any
    write_id: str
    count_requests: Callable[[Mapping[str, int]], None]

    def run(
        self,
        items: Sequence[Item],
        work: Callable[[Iterable[Item]], Iterator[tuple[Mapping[str, int], Answer]]],
        *,
        task_count: int,
    ) -> list[Answer]:
        """Return what each task answered beside its requests.

        Raises
        ------
        TableWriterError
            As raised in a task; a ``StorageError`` for what Spark itself could not do, such as run the tasks to their
            end. Ctrl-C and any failure end the other tasks first.
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
