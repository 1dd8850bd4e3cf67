"""Removing very many objects and uploads: all are tried, and few are held at once."""

from __future__ import annotations

from collections.abc import Iterator

from table_writer.errors import StorageError
from table_writer.log.files import DELETE_THREADS, delete_keys
from table_writer.storage.object_store import PAGE_KEYS
from tests.doubles.memory_store import MemoryStore

COUNT = 2 * DELETE_THREADS * PAGE_KEYS + 1


def test_keys_are_taken_no_faster_than_they_are_deleted() -> None:
    store, taken, taken_before_a_deletion = MemoryStore(), [0], [COUNT]

    def keys() -> Iterator[str]:
        for number in range(COUNT):
            taken[0] = number + 1
            yield f"k{number}"

    def called(call: str, phase: str, key: str) -> None:
        if (call, phase, key) == ("delete", "before", "k0"):
            taken_before_a_deletion[0] = taken[0]

    store.on_call = called
    assert delete_keys(store, keys()).count == COUNT
    assert taken_before_a_deletion == [DELETE_THREADS * PAGE_KEYS]


def test_a_batch_that_fails_is_told_and_hinders_no_other() -> None:
    store = MemoryStore()

    def called(call: str, phase: str, key: str) -> None:
        if (call, phase, key) == ("delete", "before", "k0"):
            raise StorageError("AccessDenied")

    store.on_call = called
    removed = delete_keys(store, (f"k{number}" for number in range(COUNT)))
    assert (removed.count, removed.failures) == (COUNT - PAGE_KEYS, ["AccessDenied"])
