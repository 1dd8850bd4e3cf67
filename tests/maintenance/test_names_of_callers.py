"""A ``write_id`` that a caller has given is any text: ``1`` or a scheduler's date is part of many other names."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from table_writer.model.location import Location
from table_writer.model.write_mode import WriteMode
from tests.publish.world import DIED, TABLE, Rows, World, insert

T = str(TABLE)
NAMES = ["1", "0", "00000", "20240131", "part", "json", "a.b-00001-c"]
OLD = {"d1": frozenset({1}), "d2": frozenset({2})}


def write_named(world: World, name: str, rows: Rows, mode: WriteMode = WriteMode.APPEND) -> None:
    world.write(rows, plan=replace(world.plan(mode), write_id=name, named_by_caller=True))


@pytest.mark.parametrize("name", NAMES)
def test_recover_takes_copies_for_copies_whatever_the_write_is_called(name: str) -> None:
    world = World()
    world.write(OLD)
    world.fails(DIED, lambda: write_named(world, name, {"d1": frozenset({10})}))
    world.recover_later()
    assert world.rows() == {**OLD, "d1": frozenset({1, 10})}


@pytest.mark.parametrize("name", NAMES)
def test_recover_notices_what_another_tool_has_inserted_whatever_the_write_is_called(name: str) -> None:
    world = World()
    world.write(OLD)
    world.fails(DIED, lambda: write_named(world, name, {"d1": frozenset({10})}))
    insert(world, "d1", 20240131)
    world.recover_later()
    assert world.rows() == {**OLD, "d1": frozenset({1, 20240131})}, "given up: the row is in no copy"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("file", ["part-00001-4c1b-c000.parquet", "part-00000-20240131.json", "1-0-a.b-00001-c.json"])
def test_a_vacuum_aborts_no_upload_of_another_tool_whatever_a_write_is_called(name: str, file: str) -> None:
    world = World()
    world.written_by_another_tool("d3", frozenset({3}))
    write_named(world, name, OLD)
    theirs = world.store.create_upload(f"{Location.parse(world.root).key}dt=d3/{file}")
    world.skipped_seconds += 100 * 86_400
    world.vacuum()
    world.keeper.uploads(T, abort=True, older_than=timedelta(0), force=True)
    assert [one.upload_id for one in world.store.list_uploads("mart/")] == [theirs]


@pytest.mark.parametrize("name", NAMES)
def test_an_upload_of_a_copy_is_told_by_its_name_whatever_the_write_is_called(name: str) -> None:
    world = World()
    world.written_by_another_tool("d3", frozenset({3}))
    write_named(world, name, OLD)
    world.store.create_upload(f"{Location.parse(world.root).key}dt=d3/part-00000-{name}-0-0.json")
    world.skipped_seconds += 100 * 86_400
    world.vacuum()
    assert [*world.store.list_uploads("mart/")] == []


@pytest.mark.parametrize("name", NAMES)
def test_files_of_another_tool_are_not_taken_for_what_is_left_of_a_write(name: str) -> None:
    """It has replaced the rows by fewer: an append brings those along, and misses none."""
    world = World()
    write_named(world, name, {"d1": frozenset({1, 2, 3})}, WriteMode.OVERWRITE_PARTITIONS)
    place = Location.parse(world.partitions()["d1"].location).key
    world.store.delete([info.key for info in world.store.list(place)])
    world.store.put(f"{place}part-00001-20240131-a.b-00001-c.json", b"[7]")
    world.write({"d1": frozenset({10})}, plan=world.plan(WriteMode.APPEND))
    assert world.rows() == {"d1": frozenset({7, 10})}
