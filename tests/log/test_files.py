"""Which files of a location are this library's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from table_writer.errors import StorageError
from table_writer.model.entry import AddedFile, EntryPartition
from table_writer.model.location import Location
from table_writer.model.table import Partition
from table_writer.protocol.operations.in_place import add_files, listed_sources, missing_files
from table_writer.storage.object_store import PAGE_KEYS
from table_writer.storage.table_files import (
    DELETE_THREADS,
    batches,
    delete_keys,
    existing_values,
    files_at,
    is_named_by_us,
    listed_files,
    why_not_copied,
    written_placeholders,
)
from table_writer.testing.memory_store import MemoryStore

from .test_rules import D1, D2, D3, LAYOUT, THEIRS, at, entry


@pytest.mark.parametrize(
    ("name", "location", "ours"),
    [
        ("part-00000-20240501T000000-0123456789abcdef-7-0.parquet", THEIRS, True),
        ("part-00000-run-42-7-0.parquet", at("run-42"), True),
        ("part-00000-run-42-7-0.parquet", at("run-43"), False),
        ("part-00000-run-42-7-0.parquet", THEIRS, False),
        ("part-00000-11-7-0.parquet", at("1"), False),
        ("part-00001-4c1b2a50-77fd-4c39-9e0e-2d1f5a6b7c8d-c000.snappy.parquet", at("1"), False),
        ("report-20240131-7-0.parquet", at("20240131"), False),
        ("x-00001-00000-20240131-7-0.zstd.parquet", at("20240131"), True),
    ],
)
def test_a_file_is_named_by_us_if_it_bears_an_id_or_the_name_that_a_caller_gave_the_write(
    name: str, location: str, ours: bool
) -> None:
    there = Location.parse(location)
    assert is_named_by_us(f"{there.key}{name}", there, LAYOUT) is ours


def appended(*names: str) -> EntryPartition:
    """An append in place of files to where another tool has put a partition; each has as many bytes as its name."""
    added = tuple(AddedFile(name=name, size_bytes=len(name)) for name in names)
    return replace(entry(1, D1).partitions[0], new_location=THEIRS, source=at("w1"), added=added)


def store_of(partition: EntryPartition) -> MemoryStore:
    store = MemoryStore()
    for key in partition.sources().values():
        store.put(key, key.rpartition("/")[2].encode())
    return store


def keys(store: MemoryStore, location: str) -> list[str]:
    prefix = Location.parse(location).key
    return [info.key.removeprefix(prefix) for info in store.list(prefix)]


def test_files_are_added_from_where_the_write_has_put_them_and_twice_is_as_good_as_once() -> None:
    wanted = appended("a", "bb")
    store = store_of(wanted)
    asked: list[str] = []
    for copies in (2, 2):
        add_files(store, [wanted], before_send=lambda: asked.append("may it?"))
        assert (keys(store, THEIRS), len(asked)) == (["a", "bb"], copies)
    assert missing_files(store, [wanted]) == {}


def test_only_files_that_are_missing_or_of_another_size_are_copied() -> None:
    wanted = appended("a", "bb", "ccc")
    store, there = store_of(wanted), Location.parse(THEIRS).key
    store.put(f"{there}a", b"a")
    store.put(f"{there}bb", b"other")
    assert missing_files(store, [wanted]) == {f"{there}bb": 2, f"{there}ccc": 3}
    asked: list[str] = []
    add_files(store, [wanted], before_send=lambda: asked.append("may it?"))
    assert (missing_files(store, [wanted]), len(asked)) == ({}, 2)


def test_nothing_is_added_where_a_source_is_gone_or_another_and_the_error_names_one() -> None:
    wanted = appended("a", "bb", "ccc")
    store = store_of(wanted)
    sources = sorted(wanted.sources().values())
    store.delete(sources[:1])
    store.put(sources[1], b"other")
    assert set(listed_sources(store, [wanted])) == {sources[2]}
    with pytest.raises(StorageError, match=rf"2 files to be added are gone, for example {sources[0]}\."):
        add_files(store, [wanted], before_send=int)
    assert keys(store, THEIRS) == []


def test_what_may_not_be_sent_any_more_is_not_sent() -> None:
    wanted = appended("a")
    store = store_of(wanted)

    def too_late() -> None:
        raise StorageError("too late")

    with pytest.raises(StorageError, match="too late"):
        add_files(store, [wanted], listed_sources(store, [wanted]), before_send=too_late)
    assert keys(store, THEIRS) == []


def test_a_partition_at_a_name_that_a_refused_publish_has_left_exists_once_another_tool_writes_there() -> None:
    store = MemoryStore()
    empty = LAYOUT.placeholder("w1", D1)
    found = {
        D1: Partition(values=D1, location=str(empty)),
        D2: Partition(values=D2, location=THEIRS),
        D3: Partition(values=D3, location="no location"),
    }
    store.put(f"{empty.key}_hidden", b"x")
    assert (written_placeholders(store, LAYOUT, found), existing_values(store, LAYOUT, found)) == (set(), {D2, D3})
    store.put(f"{empty.key}part-0", b"x")
    assert (written_placeholders(store, LAYOUT, found), existing_values(store, LAYOUT, found)) == ({D1}, {D1, D2, D3})


def test_at_the_root_only_what_its_readers_see_counts_and_elsewhere_all_but_another_tables() -> None:
    store = MemoryStore()
    for name in ("part-0", "_SUCCESS", "_table_writer/log/1", "dt=d1/_hidden", "dt=d1/_table_writer/owner.json"):
        store.put(f"t/{name}", b"x")
    assert [info.key for info in files_at(store, LAYOUT, LAYOUT.root)] == ["t/part-0"]
    assert [info.key for info in files_at(store, LAYOUT, Location.parse(THEIRS))] == ["t/dt=d1/_hidden"]
    assert set(listed_files(store, LAYOUT, LAYOUT.root)) == {"part-0"}


def test_files_can_be_put_beside_new_ones_only_from_the_same_bucket_and_described_as_the_table() -> None:
    there = Partition(values=D1, location=THEIRS)
    assert why_not_copied(LAYOUT, there) == ""
    assert why_not_copied(LAYOUT, replace(there, differs="is ORC")) == "is ORC"
    far = replace(there, location="s3a://other/t/dt=d1/")
    assert why_not_copied(LAYOUT, far) == "lies in another bucket, at s3a://other/t/dt=d1/"


def test_what_is_too_long_to_be_held_is_cut_and_nothing_is_left_out() -> None:
    assert list(batches(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(batches(range(4), 2)) == [[0, 1], [2, 3]]
    assert list(batches([], 2)) == []


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
