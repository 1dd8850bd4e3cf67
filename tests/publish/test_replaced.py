"""Which files of other tools a publish lists, and in how many requests."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from table_writer.model.location import Location
from table_writer.model.write import TableLayout
from table_writer.protocol.operations.entry import replaced_locations
from table_writer.testing.memory_store import MemoryStore

NOW = datetime(2024, 1, 1, tzinfo=UTC)
LAYOUT = TableLayout(Location.parse("s3a://lake/t"))


def filled(partitions: int, files: int) -> MemoryStore:
    store = MemoryStore()
    for partition in range(partitions):
        for file in range(files):
            store.put(f"t/p={partition:04d}/part-{file:05d}", b"x")
    store.put("t/_SUCCESS", b"")
    store.put("t/_table_writer/log/1.json", b"x")
    return store


@pytest.mark.parametrize("wanted", [[0], [3, 4, 5], [0, 19], list(range(20)), [7, 2, 11]])
@pytest.mark.parametrize("files", [1, 400, 1500])
def test_exactly_the_files_of_the_replaced_partitions_are_listed(wanted: list[int], files: int) -> None:
    store = filled(20, files)
    locations = [f"s3a://lake/t/p={partition:04d}" for partition in wanted]
    replaced = replaced_locations(store, LAYOUT, locations, NOW).locations
    found = {replaced_one.location: [o.key for o in replaced_one.objects] for replaced_one in replaced}
    assert found == {
        f"s3a://lake/t/p={partition:04d}/": [f"t/p={partition:04d}/part-{file:05d}" for file in range(files)]
        for partition in wanted
    }


def test_many_small_partitions_take_few_requests() -> None:
    store = filled(300, 2)
    before = sum(store.request_counts().values())
    replaced_locations(store, LAYOUT, [f"s3a://lake/t/p={partition:04d}" for partition in range(300)], NOW)
    assert sum(store.request_counts().values()) - before == 1


def test_far_apart_partitions_are_jumped_to() -> None:
    store = filled(20, 1500)
    before = sum(store.request_counts().values())
    replaced_locations(store, LAYOUT, ["s3a://lake/t/p=0000", "s3a://lake/t/p=0019"], NOW)
    assert sum(store.request_counts().values()) - before <= 4


def test_our_own_locations_are_not_listed() -> None:
    store = filled(1, 1)
    before = sum(store.request_counts().values())
    replaced = replaced_locations(store, LAYOUT, ["s3a://lake/t/_table_writer/data/w/p=1/"], NOW)
    assert [one.objects for one in replaced.locations] == [()]
    assert sum(store.request_counts().values()) == before


def test_an_empty_location_of_ours_is_nothing_to_delete() -> None:
    assert replaced_locations(filled(1, 1), LAYOUT, ["s3a://lake/t/_table_writer/empty/w/"], NOW).locations == ()


@pytest.mark.parametrize("location", ["s3a://other/t/p=1", "s3a://lake/t", "s3a://lake/", "s3a://lake/t2/p=1"])
def test_a_location_that_is_not_the_tables_alone_is_never_scheduled(location: str) -> None:
    replaced = replaced_locations(filled(2, 2), LAYOUT, [location], NOW)
    assert replaced.locations == ()
    assert [note.partition(" was replaced but is not")[0] for note in replaced.notes] == [f"{location.rstrip('/')}/"]


def test_a_sibling_directory_whose_name_begins_alike_is_not_listed() -> None:
    store = MemoryStore()
    for key in ("t/p=1/a", "t/p=10/b", "t/p=1.bak/c", "t/p=1-x/d"):
        store.put(key, b"x")
    replaced = replaced_locations(store, LAYOUT, ["s3a://lake/t/p=1"], NOW).locations
    assert [o.key for o in replaced[0].objects] == ["t/p=1/a"]
