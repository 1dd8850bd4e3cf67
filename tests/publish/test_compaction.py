"""Compactions beside other writers: rows stay what they are, whatever comes in between."""

from __future__ import annotations

import pytest

from table_writer.model.entry import Outcome
from table_writer.model.meaning import Operation
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.operations.publisher import GaveWayError
from tests.publish.world import DIED, World

MANY = {"d1": frozenset({1, 2, 3, 4}), "d2": frozenset({5})}


def small_files() -> World:
    world = World()
    world.write({"d1": frozenset({1}), "d2": frozenset({5})})
    for row in (2, 3, 4):
        append(world, {"d1": frozenset({row})})
    return world


def append(world: World, rows: dict[str, frozenset[int]], *, in_place: bool = True) -> None:
    world.write(rows, plan=world.plan(WriteMode.APPEND, in_place=in_place))


def files(world: World, value: str = "d1") -> int:
    return int(world.partitions()[value].parameters["numFiles"])


def test_it_has_the_same_rows_in_one_file_and_says_what_it_is() -> None:
    world = small_files()
    world.compact("d1")
    assert world.rows() == MANY
    assert (files(world), world.partitions()["d1"].parameters["numRows"]) == (1, "4")
    assert world.history().records[-1].entry.operation is Operation.COMPACT
    world.vacuum()
    assert world.leftovers() == []
    assert world.rows() == MANY


def test_of_some_files_the_others_come_along() -> None:
    world = small_files()
    world.compact("d1", at_most=2)
    assert world.rows() == MANY
    assert (files(world), world.partitions()["d1"].parameters["numRows"]) == (3, "4")


@pytest.mark.parametrize("in_place", [True, False])
def test_an_append_in_between_comes_along(in_place: bool) -> None:
    world = small_files()
    world.compact("d1", before_publish=lambda: append(world, {"d1": frozenset({9})}, in_place=in_place))
    assert world.rows() == {**MANY, "d1": frozenset({1, 2, 3, 4, 9})}
    assert files(world) == 2
    world.vacuum()
    assert world.leftovers() == []


@pytest.mark.parametrize("in_place", [True, False])
def test_an_append_that_was_planned_before_builds_on_it(in_place: bool) -> None:
    world = small_files()
    plan = world.plan(WriteMode.APPEND, in_place=in_place)
    world.compact("d1")
    world.write({"d1": frozenset({9})}, plan=plan)
    assert world.rows() == {**MANY, "d1": frozenset({1, 2, 3, 4, 9})}


def test_an_overwrite_that_was_planned_before_does_not_conflict() -> None:
    world = small_files()
    plan = world.plan()
    world.compact("d1")
    world.write({"d1": frozenset({9})}, plan=plan)
    assert world.rows() == {**MANY, "d1": frozenset({9})}


def test_it_gives_way_to_whoever_has_replaced_the_rows() -> None:
    world = small_files()
    with pytest.raises(GaveWayError):
        world.compact("d1", before_publish=lambda: world.write({"d1": frozenset({9})}))
    assert world.rows() == {**MANY, "d1": frozenset({9})}
    assert world.history().records[-1].entry.operation is Operation.WRITE


def test_it_gives_way_in_one_partition_and_goes_on_in_the_other() -> None:
    world = small_files()
    append(world, {"d2": frozenset({6})})
    published = world.compact("d1", "d2", before_publish=lambda: world.write({"d1": frozenset({9})}))
    assert published.given_up == {("d1",)}
    assert world.rows() == {"d1": frozenset({9}), "d2": frozenset({5, 6})}
    assert files(world, "d2") == 1
    world.vacuum()
    assert world.leftovers() == []


def test_it_gives_way_to_a_rollback_of_what_it_has_read() -> None:
    world = small_files()
    with pytest.raises(GaveWayError):
        world.compact("d1", before_publish=lambda: world.keeper.rollback("mart.orders", version=2))
    assert world.rows() == {"d1": frozenset({1, 2}), "d2": frozenset({5})}


def test_another_tool_that_changed_a_file_stops_it(world: World) -> None:
    world.written_by_another_tool("d1", frozenset({1}))
    with pytest.raises(GaveWayError):
        world.compact("d1", before_publish=lambda: world.written_by_another_tool("d1", frozenset({7})))
    assert world.rows() == {"d1": frozenset({7})}


def test_a_rollback_to_before_it_finds_the_old_files() -> None:
    world = small_files()
    world.compact("d1")
    append(world, {"d1": frozenset({9})})
    world.keeper.rollback("mart.orders", version=3)
    assert world.rows() == {**MANY, "d1": frozenset({1, 2, 3})}
    world.keeper.rollback("mart.orders", version=5)
    assert world.rows() == MANY


def test_a_dead_one_is_given_up_and_not_finished_by_others() -> None:
    """Another tool may have inserted for days where its files were: no rows change if it is begun anew."""
    world = small_files()
    world.fails(DIED, lambda: world.compact("d1"))
    world.wait_out_claims()
    append(world, {"d1": frozenset({9})})
    assert world.rows() == {**MANY, "d1": frozenset({1, 2, 3, 4, 9})}
    assert world.services().log.slots.outcome(world.history().records[-3].entry.version) is Outcome.ABANDONED
