"""Many directories are listed together where that takes fewer requests, and what is found is what each one holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from table_writer.model.location import Location
from table_writer.model.write import TableLayout
from table_writer.storage.table_files import TOGETHER, files_of_each, files_read_at, objects_of_each
from table_writer.testing.memory_store import MemoryStore

ROOT: Final = "mart/orders/"
LAYOUT: Final = TableLayout(Location.parse(f"s3a://lake/{ROOT}"))
NAMES: Final = (
    *("", "x", "dt=1/b=2", "a", "a b", "a!", "aa", "b", "ä", "€", "z", "dt=1", "dt=10", "dt=1%2F", "x0", "x/y", "x/z"),
    *map(str, range(30)),
)
WRITES: Final = ("w1", "w2", "w3", "w1 of another scheme", "placeholders of w1", "another tool")
PLACES: Final = st.tuples(st.sampled_from(["w1", *WRITES]), st.sampled_from(NAMES))
FILES: Final = ("part-0", "part-1", "_SUCCESS", ".part-0.crc", "below/part-2", "_hidden/part-3", "_dt=1/part-4")


def place(write: str, name: str) -> Location:
    """Return a partition's place, or with no name that of the whole write."""
    if write == "another tool":
        return LAYOUT.root.child(name or "dt=0")
    if write.startswith("placeholders"):
        return LAYOUT.placeholder("w1").child(name) if name else LAYOUT.placeholder("w1")
    directory = LAYOUT.data(write.partition(" ")[0])
    if "scheme" in write:
        directory = Location.parse(str(directory).replace("s3a:", "s3:"))
    return directory.child(name) if name else directory


@settings(max_examples=150, deadline=None)
@given(
    first=st.lists(st.sampled_from(NAMES), min_size=10, unique=True),
    more=st.lists(PLACES, max_size=12),
    kept=st.lists(st.lists(st.sampled_from(FILES), max_size=4, unique=True), min_size=1, max_size=9),
    unwanted=st.lists(PLACES, max_size=12),
    page_keys=st.sampled_from([5, 12, 40, 1_000]),
)
def test_what_is_found_together_is_what_each_directory_holds(
    first: list[str],
    more: list[tuple[str, str]],
    kept: list[list[str]],
    unwanted: list[tuple[str, str]],
    page_keys: int,
) -> None:
    wanted = [*(("w1", name) for name in first), *more]
    held = {where: kept[number % len(kept)] for number, where in enumerate((*wanted, *unwanted))}
    store = MemoryStore(page_keys=page_keys)
    for (write, name), files in held.items():
        for file in files:
            store.put(f"{place(write, name).key}{file}", b"1")
    locations = [place(write, name) for write, name in wanted]
    found, read = objects_of_each(store, LAYOUT, locations), files_of_each(store, LAYOUT, locations)
    assert found == {location: list(store.list(location.key)) for location in locations}
    assert read == {location: list(files_read_at(store, LAYOUT, location)) for location in locations}


def requests_for(partitions: int, files: int, locations: Sequence[Location]) -> int:
    store = MemoryStore()
    for number in range(partitions):
        for file in range(files):
            store.put(f"{place('w1', f'dt={number:04}').key}part-{file}", b"1")
    before = store.request_counts().get("ListObjectsV2", 0)
    objects_of_each(store, LAYOUT, locations)
    return store.request_counts()["ListObjectsV2"] - before


def days(*numbers: int) -> list[Location]:
    return [place("w1", f"dt={number:04}") for number in numbers]


def test_directories_of_one_write_take_a_request_for_each_thousand_files() -> None:
    assert requests_for(900, 1, days(*range(900))) == 1
    assert requests_for(2_000, 1, days(*range(2_000))) == 2 + 2  # a page may not have all of its last directory
    assert requests_for(600, 3, days(*range(600))) == 2
    assert requests_for(600, 3, days(*range(0, 600, 2))) == 2


def test_where_few_are_wanted_or_each_is_large_each_is_listed_by_itself() -> None:
    few = days(*range(TOGETHER - 1))
    assert requests_for(600, 3, few) == len(few)
    large = days(*range(10))
    assert requests_for(10, 400, large) == 1 + len(large)  # one page shows that it does not pay
    sparse = days(*range(0, 2_000, 200))
    assert requests_for(2_000, 3, sparse) == 1 + len(sparse)


def test_nothing_is_asked_for_nothing() -> None:
    assert objects_of_each(MemoryStore(), LAYOUT, []) == files_of_each(MemoryStore(), LAYOUT, []) == {}
