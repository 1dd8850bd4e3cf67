"""What readers see of a directory: Spark's rule, wherever the pages of a listing end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from table_writer.errors import InvalidInputError
from table_writer.storage.object_store import is_hidden, visible_files
from table_writer.testing.memory_store import MemoryStore

if TYPE_CHECKING:
    from tests.storage.conftest import Place

HIDDEN = ["_SUCCESS", "_metadata", "_common_metadata", "_temporary", ".part-0.crc", ".hive-staging_x=1", "a._COPYING_"]
VISIBLE = ["part-0", "000000_0", "_dt=1", "a_b", "a.b", "=", "a._COPYING_b", "-", "~", "ü", "😀"]


def test_hidden_is_what_spark_passes_over() -> None:
    assert [name for name in (*HIDDEN, *VISIBLE) if is_hidden(name)] == HIDDEN


def test_hidden_names_hide_what_lies_below_them(place: Place) -> None:
    location = f"{place.directory}dt=1/"  # _table_writer/ above hides nothing
    seen = [f"{location}{name}" for name in VISIBLE] + [f"{location}{name}.d/x/part-0" for name in VISIBLE]
    unseen = [f"{location}{name}" for name in HIDDEN if not (place.kind == "local" and name.endswith(".crc"))]
    unseen += [f"{location}d/{name}.d/part-0" for name in HIDDEN if name[0] in "._"]
    for key in [*seen, *unseen, f"{place.directory}dt=10/part-0", f"{place.directory}part-0"]:
        place.store.put(key, b"")
    assert [info.key for info in visible_files(place.store, location)] == sorted(seen, key=str.encode)


def test_the_directory_beside_is_jumped_over_in_every_store(place: Place) -> None:
    root = f"{place.directory}orders/"
    seen = ["a", "own-", "own0", "own00/a", "own=1/a", "ownership/b", "z"]
    for name in [*seen, "own/a", "own/log/1", "own/zz", "own/~/a", "own/~~", "own/ü", "own/😀/x"]:
        place.store.put(f"{root}{name}", b"")
    found = visible_files(place.store, root, beside=f"{root}own/")
    assert [info.key.removeprefix(root) for info in found] == sorted(seen, key=str.encode)


@pytest.mark.parametrize("before", [0, 1, 999, 1_000, 1_001])
def test_a_directory_of_very_many_objects_costs_one_request_at_most(before: int) -> None:
    store = MemoryStore()
    for number in range(before):
        store.put(f"orders/A{number:05d}", b"")
    for number in range(10_000):
        store.put(f"orders/_table_writer/data/{number:05d}", b"")
    store.put("orders/a", b"")
    found = list(visible_files(store, "orders/", beside="orders/_table_writer/"))
    assert len(found) == before + 1
    pages = -(-(before + 1) // 1_000)
    assert store.request_counts()["ListObjectsV2"] <= pages + 1


def test_nothing_is_listed_before_it_is_asked_for_and_a_prefix_that_is_no_directory_is_refused_at_the_call() -> None:
    store = MemoryStore()
    visible_files(store, "orders/")
    assert store.request_counts() == {}
    for location, beside in (("orders", ""), ("", ""), ("orders/", "orders/_table_writer")):
        with pytest.raises(InvalidInputError, match="does not end in"):
            visible_files(store, location, beside=beside)


names = st.text("_.=~0aüz😀", min_size=1, max_size=3)
paths = st.lists(names | st.sampled_from(["own", "_own", *HIDDEN]), min_size=1, max_size=3).map("/".join)


@given(st.sets(paths, max_size=30), st.integers(1, 7), st.sampled_from(["", "t/own/", "t/_own/", "t/a/", "t/own/own/"]))
@settings(deadline=None, max_examples=300)
def test_each_visible_object_comes_once_wherever_pages_end(below: set[str], page_keys: int, beside: str) -> None:
    store = MemoryStore(page_keys=page_keys)
    for path in below:
        store.put(f"t/{path}", b"")
    store.put("s/above", b"")
    store.put("t0", b"")
    expected = {
        f"t/{path}"
        for path in below
        if not any(is_hidden(name) for name in path.split("/")) and not (beside and f"t/{path}".startswith(beside))
    }
    assert [info.key for info in visible_files(store, "t/", beside=beside)] == sorted(expected)
