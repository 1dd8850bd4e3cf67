"""Requests to the store that a Spark task sends. Executors import this file; it needs botocore and no Spark."""

from __future__ import annotations

import pickle
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, TypeVar

from table_writer.model.message import PendingUpload
from table_writer.storage.object_store import (
    THREADS,
    ObjectInfo,
    ObjectStore,
    SourceChangedError,
    StoreSettings,
    open_store,
)

Item = TypeVar("Item")
Answer = TypeVar("Answer")


@lru_cache(maxsize=4)
def worker_store(settings: StoreSettings) -> ObjectStore:
    """Open a store once in a process, which takes 100 to 200 ms."""
    return open_store(settings)


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


def completer(settings: Any) -> Callable[[Iterable[bytes]], Iterator[tuple[Mapping[str, int], None]]]:
    """Return the function of one task."""

    def complete_one(store: ObjectStore, upload: PendingUpload) -> None:
        store.complete_upload(upload.key, upload.upload_id, upload.parts)

    def complete_all(shares: Iterable[bytes]) -> Iterator[tuple[Mapping[str, int], None]]:
        for share in shares:
            uploads = pickle.loads(zlib.decompress(share))  # noqa: S301 - packed by the driver, as all of a job is
            requests, _ = in_one_task(settings, complete_one, uploads)
            yield requests, None

    return complete_all


def copier(settings: Any) -> Callable[[Iterable[tuple[str, ObjectInfo]]], Iterator[tuple[Mapping[str, int], str]]]:
    """Return the function of one task; it answers with its requests, and with a message if a source has changed."""

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
