"""A vacuum looks, decides, claims and looks again: what changes in between is never lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from table_writer.errors import InvalidInputError, LostResponseError, OutcomeUnknownError
from table_writer.model.entry import Outcome
from tests.publish.world import TABLE, DeathError, Fault, World

T = str(TABLE)
ONE = {"d1": frozenset({1}), "d2": frozenset({2})}
TWO = {"d1": frozenset({10})}
NOW = timedelta(0)


@pytest.fixture
def world() -> World:
    world = World()
    world.write(ONE)
    return world


def once_the_vacuum_has_claimed(world: World, act: Callable[[], object]) -> None:
    def called(call: str, phase: str, key: str) -> None:
        if (call, phase) == ("put_if_absent", "after") and "/log/" in key:
            world.store.on_call = None
            act()

    world.store.on_call = called


def test_a_dead_write_that_readers_are_pointed_at_after_the_claim_stays(world: World) -> None:
    """Somebody registers its files by hand, as people do who look for lost rows."""
    plan = world.plan()
    with world.inject(Fault("metastore", "get_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
        world.write({"d3": frozenset({3})}, plan=plan)
    world.wait_out_claims()
    location = f"{plan.data_location}dt=d3/"
    once_the_vacuum_has_claimed(world, lambda: world.pointed_by_another_tool("d3", location))
    world.vacuum()
    assert world.rows() == {**ONE, "d3": frozenset({3})}


def test_uploads_of_a_write_in_doubt_stay_and_those_of_a_settled_one_go(world: World) -> None:
    plan = world.plan()
    lost = Fault("metastore", "alter_partitions", 1, "before", LostResponseError)
    with world.inject(lost), pytest.raises(OutcomeUnknownError):
        world.write(TWO, plan=plan)
    late = world.store.create_upload(f"{plan.data_location.key}dt=d1/part-late")
    world.wait_out_claims()
    world.vacuum()
    assert [one.upload_id for one in world.store.list_uploads(plan.data_location.key)] == [late]
    world.keeper.recover(T)
    world.vacuum()
    assert list(world.store.list_uploads(plan.data_location.key)) == []


def test_what_a_vacuum_may_be_deleting_at_this_moment_is_not_brought_back(world: World) -> None:
    world.write(TWO)
    refused = []

    def roll_back() -> None:
        with pytest.raises(InvalidInputError, match="vacuumed") as error:
            world.keeper.rollback(T, version=1)
        refused.append(error.value)

    once_the_vacuum_has_claimed(world, roll_back)
    world.vacuum()
    assert refused
    assert world.rows() == {**ONE, **TWO}


def test_what_an_abandoned_vacuum_named_can_be_brought_back(world: World) -> None:
    world.write(TWO)
    with world.inject(Fault("store", "put_if_absent", 1, "after", DeathError)), pytest.raises(DeathError):
        world.vacuum()
    assert world.history().doomed
    world.services().log.settle(3, Outcome.ABANDONED, write_id="somebody")
    world.keeper.rollback(T, version=1)
    assert world.rows() == ONE
