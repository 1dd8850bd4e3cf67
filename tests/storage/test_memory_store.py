"""The double's own faculties: faults and a clock. Its S3 semantics are in test_contract.py."""

from __future__ import annotations

import pytest

from table_writer.errors import StorageError
from tests.doubles.memory_store import REQUESTS, MemoryStore


def test_the_hook_runs_before_and_after_every_operation() -> None:
    store, seen = MemoryStore(), {}
    store.on_call = lambda operation, phase, key: seen.setdefault(operation, []).append(phase)
    upload_id = store.create_upload("d/a")
    store.complete_upload("d/a", upload_id, [store.upload_part("d/a", upload_id, 1, b"x")])
    store.abort_upload("d/a", upload_id)
    store.put("d/b", b"")
    store.put_if_absent("d/c", b"")
    store.get("d/a")
    listed = store.head("d/a")
    assert listed is not None
    store.copy(listed, "d/d")
    store.read_range(listed, 0, 1)
    store.list_page("d/")
    store.list_files("d/")
    store.list_directories("d/")
    store.list_uploads("d/")
    store.delete(["d/a"])
    assert seen == {operation: ["before", "after"] for operation in REQUESTS}


@pytest.mark.parametrize(("phase", "stored"), [("before", None), ("after", b"1")])
def test_a_fault_before_takes_no_effect_and_a_fault_after_does(phase: str, stored: bytes | None) -> None:
    store = MemoryStore()
    store.put("a", b"1")
    (listed,) = store.list("")

    def fail(operation: str, at: str, _key: str) -> None:
        if (operation in ("put", "copy"), at) == (True, phase):
            raise StorageError("injected")

    store.on_call = fail
    with pytest.raises(StorageError, match="injected"):
        store.put("b", b"1")
    with pytest.raises(StorageError, match="injected"):
        store.copy(listed, "c")
    assert [found and found.body for found in (store.get("b"), store.get("c"))] == [stored, stored]


def test_a_small_part_in_the_middle_is_refused_as_s3_does() -> None:
    store = MemoryStore()
    upload_id = store.create_upload("a")
    parts = [store.upload_part("a", upload_id, number, b"small") for number in (1, 2)]
    with pytest.raises(StorageError, match="EntityTooSmall"):
        store.complete_upload("a", upload_id, parts)
