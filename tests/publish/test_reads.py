"""A write whose query reads the table it is written to: what it has read is compared with what readers see."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from contextlib import nullcontext
from dataclasses import replace
from typing import Final

import pytest

from table_writer.errors import ConflictError
from table_writer.model.location import Location
from table_writer.model.table import PartitionValues
from table_writer.model.table_read import ReadOf, TableRead
from table_writer.model.write import WritePlan, WrittenFiles
from table_writer.model.write_mode import WriteMode
from table_writer.storage.table_files import listed_files
from tests.publish.world import Rows, World, publisher_of

OLD: Final = {"d1": frozenset({1, 2}), "d2": frozenset({5})}
MINE: Final = {"d1": frozenset({10})}
MORE: Final = {"d1": frozenset({3})}


def everything(values: Collection[PartitionValues]) -> frozenset[PartitionValues]:
    return frozenset(values)


def nothing(_: Collection[PartitionValues]) -> frozenset[PartitionValues]:
    return frozenset()


def read_now(
    world: World, of: ReadOf = ReadOf.TABLE, covers: Callable[..., frozenset[PartitionValues]] = everything
) -> TableRead:
    locations = [Location.parse(one.location) for one in world.partitions().values()]
    files = {one.place: listed_files(world.store, world.layout, one) for one in locations}
    return TableRead(of=of, files=files, covers=covers)


def plan_of(
    world: World, *reads: TableRead, mode: WriteMode = WriteMode.OVERWRITE_PARTITIONS, based_on: int | None = None
) -> WritePlan:
    plan = world.plan(mode)
    return replace(
        plan, reads=reads, based_on=based_on, base_version=plan.base_version if based_on is None else based_on
    )


def written(rows: Rows = OLD) -> World:
    world = World()
    world.write(rows)
    return world


def append(world: World, rows: Rows = MORE, *, in_place: bool = False) -> None:
    world.write(rows, plan=world.plan(WriteMode.APPEND, in_place=in_place))


def drop(world: World) -> None:
    world.write({}, plan=replace(world.plan(), scope=lambda values: frozenset(values) & {("d1",)}))


def add_by_another_tool(world: World) -> None:
    prefix = Location.parse(world.partitions()["d1"].location).key
    world.store.put(f"{prefix}others.json", json.dumps([7]).encode())


def roll_back_to(world: World, version: int) -> None:
    world.keeper.rollback(str(world.name), version=version)


CHANGES: Final[dict[str, Callable[[World], object]]] = {
    "append": append,
    "append in place": lambda world: append(world, in_place=True),
    "overwrite": lambda world: world.write(MORE),
    "drop": drop,
    "another tool": add_by_another_tool,
    "move by another tool": lambda world: world.written_by_another_tool("d1", frozenset({7})),
    "rollback": lambda world: roll_back_to(world, 1),
    "append and compaction": lambda world: (append(world), world.compact("d1")),
    "other's file and compaction": lambda world: (add_by_another_tool(world), world.compact("d1")),
}


@pytest.mark.parametrize("of", ReadOf)
@pytest.mark.parametrize("change", CHANGES)
def test_what_has_changed_since_it_was_read_is_refused(change: str, of: ReadOf) -> None:
    world = written({"d1": frozenset({1}), "d2": frozenset({5})})
    world.write(OLD)
    read = read_now(world, of)
    CHANGES[change](world)
    before = world.rows()
    with pytest.raises(ConflictError, match=r"dt=d1.*Read the table again"):
        world.write(MINE, plan=plan_of(world, read))
    assert world.rows() == before


def test_a_change_between_plan_and_look_that_no_log_shows_is_noticed() -> None:
    world = written()
    with pytest.raises(ConflictError, match="Read the table again"):
        world.write(MINE, plan=plan_of(world, read_now(world)), before_publish=lambda: add_by_another_tool(world))


@pytest.mark.parametrize("times", [1, 2])
def test_a_compaction_changes_no_rows(times: int) -> None:
    world = written()
    append(world)
    read = read_now(world)
    for _ in range(times):
        world.compact("d1")
    world.write(MINE, plan=plan_of(world, read))
    assert world.rows() == {**OLD, **MINE}


@pytest.mark.parametrize("of", ReadOf)
def test_partitions_beside_those_of_the_write_may_change(of: ReadOf) -> None:
    world = written()
    read = read_now(world, of)
    append(world, {"d2": frozenset({6}), "d3": frozenset({7})})
    world.write(MINE, plan=plan_of(world, read))
    assert world.rows() == {**MINE, "d2": frozenset({5, 6}), "d3": frozenset({7})}


def test_a_partition_that_came_since_counts_where_the_query_would_read_it() -> None:
    world = written({"d2": frozenset({5})})
    whole, filtered = read_now(world), read_now(world, covers=nothing)
    append(world)
    for mode in (WriteMode.OVERWRITE_PARTITIONS, WriteMode.OVERWRITE_TABLE):
        with pytest.raises(ConflictError, match="dt=d1"):
            world.write({"d2": frozenset({6})} | MINE, plan=plan_of(world, whole, mode=mode))
    world.write(MINE, plan=plan_of(world, filtered))
    assert world.rows() == {**MINE, "d2": frozenset({5})}


def test_files_below_the_root_where_no_reader_ever_looked_are_none_of_the_table() -> None:
    world = written()
    directory = world.layout.data("staged").child("dt=d1")
    files = {"part-0.json": (3, None)}
    world.write(MINE, plan=plan_of(world, TableRead(of=ReadOf.PATHS, files={directory.place: files}, covers=nothing)))
    assert world.rows() == {**OLD, **MINE}


def test_who_says_the_version_is_believed_about_older_rows_and_not_about_the_table() -> None:
    world = written()
    reads = {of: read_now(world, of) for of in ReadOf}
    append(world)
    with pytest.raises(ConflictError, match="Read the table again"):
        world.write(MINE, plan=plan_of(world, reads[ReadOf.TABLE], based_on=2))
    world.write(MINE, plan=plan_of(world, reads[ReadOf.VERSION], reads[ReadOf.PATHS], based_on=2))
    assert world.rows() == {**OLD, **MINE}


@pytest.mark.parametrize("mode", WriteMode)
def test_a_write_that_says_its_version_conflicts_with_what_came_after_it(mode: WriteMode) -> None:
    world = written()
    append(world, MORE)
    with pytest.raises(ConflictError, match=r"after version 1, on which its rows are based: dt=d1"):
        world.write(MINE, plan=plan_of(world, mode=mode, based_on=1))
    assert world.rows() == {"d1": frozenset({1, 2, 3}), "d2": frozenset({5})}


def test_an_append_that_says_its_version_does_not_conflict_with_a_compaction_or_other_partitions() -> None:
    world = written()
    append(world, {"d2": frozenset({6})})
    world.compact("d1")
    world.write(MINE, plan=plan_of(world, mode=WriteMode.APPEND, based_on=1))
    assert world.rows() == {"d1": frozenset({1, 2, 10}), "d2": frozenset({5, 6})}


def test_the_unpartitioned_table_is_one_partition(world: World) -> None:
    world.become_unpartitioned()
    world.write({"": frozenset({1})})
    read = read_now(world)
    world.write({"": frozenset({2})}, plan=plan_of(world, read, mode=WriteMode.OVERWRITE_TABLE))
    with pytest.raises(ConflictError, match="whole table"):
        world.write({"": frozenset({3})}, plan=plan_of(world, read, mode=WriteMode.OVERWRITE_TABLE))
    assert world.rows() == {"": frozenset({2})}


def staged(world: World, plan: WritePlan) -> WrittenFiles:
    return WrittenFiles.from_messages(plan, (world._upload(plan, MINE),))


@pytest.mark.parametrize("mode", [WriteMode.OVERWRITE_PARTITIONS, WriteMode.OVERWRITE_TABLE, WriteMode.APPEND])
def test_what_is_to_be_staged_is_refused_where_what_it_would_replace_has_changed_since_it_was_read(
    mode: WriteMode,
) -> None:
    world = written()
    read = read_now(world)
    append(world, {"d2": frozenset({6})})
    files, publisher = staged(world, plan_of(world, read, mode=mode)), publisher_of(world.services())
    with pytest.raises(ConflictError, match="dt=d2") if mode.facts.replaces_table else nullcontext():
        publisher.as_read(files)
    append(world)
    with pytest.raises(ConflictError, match="dt=d1") if not mode.facts.keeps_rows else nullcontext():
        publisher.as_read(files)


def test_what_has_read_nothing_of_its_table_may_be_staged_over_whatever_is_there() -> None:
    world = written()
    files = staged(world, plan_of(world))
    append(world)
    assert publisher_of(world.services()).as_read(files) == ()
    assert world.rows() == {"d1": frozenset({1, 2, 3}), "d2": frozenset({5})}


def test_a_look_at_what_is_to_be_staged_or_published_changes_nothing() -> None:
    """Also where a publish would put a marker, since the table is to be without rows."""
    world = World()
    world.become_unpartitioned()
    world.write({"": frozenset({1})})
    plan = plan_of(world, read_now(world), mode=WriteMode.OVERWRITE_TABLE)
    files, publisher = WrittenFiles(plan=plan, partitions=()), publisher_of(world.services())
    before = {found.key for found in world.store.list("")}
    (read,) = publisher.as_read(files)
    publisher.examine(files)
    assert read.files.keys() == {Location.parse(world.partitions()[""].location).place}
    assert {found.key for found in world.store.list("")} == before
    world.write({"": frozenset({2})})
    for look in (publisher.as_read, publisher.examine):
        with pytest.raises(ConflictError, match="whole table"):
            look(files)


def test_rows_that_were_replaced_in_versions_that_the_log_has_forgotten_are_not_taken_for_compacted_ones() -> None:
    world = written({"d1": frozenset({1, 2})})
    read = read_now(world)
    world.write({"d1": frozenset({3, 4})})
    world.compact("d1")
    world.services().log.trim([1, 2])
    with pytest.raises(ConflictError, match="dt=d1"):
        world.write(MINE, plan=plan_of(world, read))
    assert world.rows() == {"d1": frozenset({3, 4})}
