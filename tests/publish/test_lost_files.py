"""An append copies what it lists, and refuses where files of ours were lost; other tools may leave fewer files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from table_writer.errors import StorageError
from table_writer.model.location import Location
from table_writer.model.write_mode import WriteMode
from tests.publish.world import World

NEW: Final = {"d1": frozenset({9})}


def appended_twice() -> tuple[World, list[str]]:
    """Return a table whose partition d1 has two files of ours, and their keys."""
    world = World()
    world.write({"d1": frozenset({1, 2})})
    world.write({"d1": frozenset({3, 4})}, plan=world.plan(WriteMode.APPEND))
    directory = Location.parse(world.partitions()["d1"].location).key
    return world, [found.key for found in world.store.list(directory)]


def append(world: World) -> None:
    world.write(NEW, plan=world.plan(WriteMode.APPEND))


@pytest.mark.parametrize(
    "damage",
    [
        lambda store, keys: store.delete(keys[:1]),
        lambda store, keys: store.delete(keys),
        lambda store, keys: store.put(keys[0], b"[1"),
        lambda store, keys: store.put(keys[0], b""),
    ],
    ids=["one file is gone", "all files are gone", "one is truncated", "one is empty"],
)
def test_an_append_to_a_partition_that_has_lost_files_is_refused(damage: Callable[..., None]) -> None:
    world, keys = appended_twice()
    damage(world.store, keys)
    with pytest.raises(
        StorageError, match=r"dt=d1 of mart.orders is damaged: of 2 files with 12 .*overwrite_partitions"
    ):
        append(world)
    assert world.history().newest == 2
    world.write({"d1": frozenset({1, 2, 3, 4})})
    append(world)
    assert world.rows() == {"d1": frozenset({1, 2, 3, 4, 9})}


def test_a_partition_that_another_tool_has_overwritten_in_place_with_less_is_copied() -> None:
    world, keys = appended_twice()
    world.store.delete(keys)
    world.store.put(f"{keys[0].rpartition('/')[0]}/part-0.json", b"[7]")
    append(world)
    assert world.rows() == {"d1": frozenset({7, 9})}


def test_a_partition_into_which_another_tool_has_inserted_is_copied() -> None:
    world, keys = appended_twice()
    world.store.put(f"{keys[0].rpartition('/')[0]}/part-0.json", b"[7]")
    append(world)
    assert world.rows() == {"d1": frozenset({1, 2, 3, 4, 7, 9})}


def test_an_append_beside_a_damaged_partition_is_made() -> None:
    world, keys = appended_twice()
    world.store.delete(keys)
    world.write({"d2": frozenset({5})}, plan=world.plan(WriteMode.APPEND))
    assert world.rows() == {"d2": frozenset({5})}
