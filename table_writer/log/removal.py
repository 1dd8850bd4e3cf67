"""Remove very many uploads and objects, several requests at once; a failure is reported and the others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, TypeVar

from table_writer.errors import StorageError
from table_writer.storage.object_store import PAGE_KEYS, ObjectStore, UploadInfo

DELETE_THREADS: Final = 4
"""AWS allows 3,500 deletions a second below one prefix: four batches of 1,000 at a time are more than enough."""

Item = TypeVar("Item")


@dataclass(slots=True)
class Removed:
    """How many uploads or objects are gone, and why others are not."""

    count: int = 0
    failures: list[str] = field(default_factory=list)


def abort_uploads(store: ObjectStore, uploads: Iterable[UploadInfo], *, threads: int) -> Removed:
    """Abort pending uploads; one that is gone already counts as aborted."""

    def abort(upload: UploadInfo) -> int:
        store.abort_upload(upload.key, upload.upload_id)
        return 1

    return _remove(abort, uploads, threads=threads, at_once=PAGE_KEYS)


def delete_keys(store: ObjectStore, keys: Iterable[str]) -> Removed:
    """Delete objects, 1,000 a request; of a batch that fails nobody knows how many are gone: none is counted."""

    def delete(batch: list[str]) -> int:
        store.delete(batch)
        return len(batch)

    return _remove(delete, batches(keys, PAGE_KEYS), threads=DELETE_THREADS, at_once=DELETE_THREADS)


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Cut what may be too long to be held at once."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def _remove(remove: Callable[[Item], int], items: Iterable[Item], *, threads: int, at_once: int) -> Removed:
    """Call ``remove`` for each item; no more than ``at_once`` are taken before the first of them is done with."""
    removed = Removed()

    def tried(item: Item) -> int | StorageError:
        try:
            return remove(item)
        except StorageError as error:
            return error

    with ThreadPoolExecutor(threads, thread_name_prefix="remove") as pool:
        for batch in batches(items, at_once):
            for answer in pool.map(tried, batch):
                if isinstance(answer, StorageError):
                    removed.failures.append(str(answer))
                else:
                    removed.count += answer
    return removed
