"""Copies inside the store, asked for by executors: for appends to partitions of very many files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from pyspark import SparkContext

from table_writer.storage import SourceChangedError, open_store
from table_writer.storage.object_store import ObjectInfo
from table_writer.upload.failures import translated
from table_writer.upload.interrupt import run_interruptibly
from table_writer.upload.shipping import prepare_executors

__all__ = ["MANY_COPIES", "ExecutorCopies"]

MANY_COPIES: Final = 2_000  # a Spark job takes as long as some hundred requests
COPIES_PER_TASK: Final = 500
THREADS: Final = 16


@dataclass(frozen=True)
class ExecutorCopies:
    """Copies many files by a Spark job, few of them by the driver's own threads.

    Parameters
    ----------
    context, store_settings, write_id
        Where the job runs, what it opens, and its tag.
    copy_few
        The driver's way.
    count_requests
        Told what executors sent, by kind.
    many
        From so many copies on executors do it.
    """

    context: SparkContext
    store_settings: Any
    write_id: str
    copy_few: Callable[[Mapping[str, ObjectInfo]], None]
    count_requests: Callable[[Mapping[str, int]], None]
    many: int = MANY_COPIES

    def __call__(self, copies: Mapping[str, ObjectInfo]) -> None:
        """Make every copy.

        Raises
        ------
        StorageError
            A copy failed; its subclass ``SourceChangedError`` when an object is not what was listed any more. Some
            copies may exist then.
        """
        if len(copies) < self.many:
            self.copy_few(copies)
            return
        prepare_executors(self.context)
        task_count = -(-len(copies) // COPIES_PER_TASK)
        job = self.context.parallelize(list(copies.items()), task_count).mapPartitions(_copier(self.store_settings))
        with translated(self.write_id):
            answers = run_interruptibly(self.context, job.collect, tag=f"table_writer-{self.write_id}")
        for requests, _ in answers:
            self.count_requests(requests)
        changed = next((message for _, message in answers if message), "")
        if changed:
            raise SourceChangedError(changed, write_id=self.write_id)


def _copier(settings: Any) -> Callable[[Iterable[tuple[str, ObjectInfo]]], Iterator[tuple[Mapping[str, int], str]]]:
    """Return what one task does; it answers with its requests, and with a message if a source has changed."""

    def copy_all(copies: Iterable[tuple[str, ObjectInfo]]) -> Iterator[tuple[Mapping[str, int], str]]:
        store = open_store(settings)
        before = Counter(store.request_counts())
        message = ""
        with ThreadPoolExecutor(THREADS, thread_name_prefix="copy") as pool:
            futures = [pool.submit(store.copy, source, key) for key, source in copies]
            for future in futures:
                try:
                    future.result()
                except SourceChangedError as changed:
                    message = changed.message
        yield dict(Counter(store.request_counts()) - before), message

    return copy_all
