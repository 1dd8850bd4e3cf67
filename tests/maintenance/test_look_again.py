"""A vacuum looks, decides, claims and looks again: what changes in between is never lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from table_writer.errors import InvalidInputError, LostResponseError, OutcomeUnknownError, StorageError
from table_writer.model.check_result import CheckResult
from table_writer.model.entry import Outcome
from table_writer.protocol.log.registration import put_check_results
from tests.publish.world import TABLE, DeathError, Fault, World

T = str(TABLE)
ONE = {"d1": frozenset({1}), "d2": frozenset({2})}
TWO = {"d1": frozenset({10})}


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


def test_uploads_of_a_write_in_doubt_stay_and_those_of_an_ended_one_go(world: World) -> None:
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
    assert world.history().state.doomed_places
    world.services().log.slots.record_outcome(3, Outcome.ABANDONED, write_id="somebody")
    world.keeper.rollback(T, version=1)
    assert world.rows() == ONE


def refuse_to_delete(world: World, part_of_key: str) -> None:
    def refuse(call: str, phase: str, key: str) -> None:
        if (call, phase) == ("delete", "before") and part_of_key in key:
            raise StorageError("AccessDenied")

    world.store.on_call = refuse


def test_a_vacuum_that_deletes_what_a_dead_one_named_ends_both(world: World) -> None:
    world.write(TWO)
    with world.inject(Fault("store", "delete", 1, "before", DeathError)), pytest.raises(DeathError):
        world.vacuum()
    world.write({"d2": frozenset({20})})
    world.wait_out_claims()
    report = world.vacuum()
    assert (report.version, len(report.deleted)) == (5, 2)
    dead, own = world.history().records[2], world.history().records[4]
    assert (dead.outcome, own.outcome) == (Outcome.PUBLISHED, Outcome.PUBLISHED)
    assert dead.recorded_by == own.recorded_by == own.entry.write_id


def test_a_dead_vacuum_stays_in_doubt_while_something_of_it_is_not_deleted(world: World) -> None:
    world.write(TWO)
    old = str(world.services().log.slots.read(1).entry.partitions[0].new_location)
    with world.inject(Fault("store", "delete", 1, "before", DeathError)), pytest.raises(DeathError):
        world.vacuum()
    world.write({"d2": frozenset({20})})
    world.pointed_by_another_tool("d7", old)
    world.wait_out_claims()
    assert len(world.vacuum().deleted) == 1
    assert world.services().log.slots.outcome(3) is None
    assert world.rows()["d7"] == frozenset({1})


def test_of_a_dead_write_the_registration_goes_last(world: World) -> None:
    """Without it the rest would look as if its writer had discarded it."""
    plan = world.plan()
    with world.inject(Fault("store", "complete_upload", 2, "before", DeathError)), pytest.raises(DeathError):
        world.write({"d3": frozenset({3}), "d4": frozenset({4})}, plan=plan)
    world.wait_out_claims()
    refuse_to_delete(world, "/data/")
    assert "AccessDenied" in world.vacuum().failures[0]
    world.store.on_call = None
    assert world.store.head(world.layout.registration_key(plan.write_id)) is not None
    assert world.services().log.slots.outcome(2) is None
    assert world.vacuum().failures == ()
    assert world.leftovers() == []
    assert world.store.head(world.layout.registration_key(plan.write_id)) is None


def test_entries_that_cannot_be_trimmed_are_told_and_fail_nothing_else(world: World) -> None:
    world.write(TWO)
    world.write({"d2": frozenset({20})})
    world.vacuum()
    world.write({"d3": frozenset({3})})
    world.skipped_seconds += 400 * 86_400
    refuse_to_delete(world, "/log/")
    assert any("AccessDenied" in failure for failure in world.vacuum().failures)
    world.store.on_call = None
    assert world.vacuum().failures == ()
    assert 1 not in world.services().log.lister.read(listed_after=0).versions


def test_what_lies_beside_a_staged_write_stays_and_what_lies_beside_none_goes(world: World) -> None:
    write_id = world.stage({"d5": frozenset({5})})
    passed = CheckResult(name="unique(id)", severity="error", passed=True, message="")
    for of in (write_id, "gone"):
        put_check_results(world.store, world.layout, of, [passed])
    world.vacuum()
    left = [info.key for info in world.store.list(world.layout.all_staged.key)]
    assert len(left) == 2
    assert all(write_id in key for key in left)


def test_a_registration_that_its_publisher_left_goes_once_the_publisher_is_dead(world: World) -> None:
    plan = world.plan()
    with world.inject(Fault("store", "put_if_absent", 2, "after", DeathError)), pytest.raises(DeathError):
        world.write({"d3": frozenset({3})}, plan=plan)
    key = world.layout.registration_key(plan.write_id)
    assert world.vacuum().removed_registrations == ()
    assert world.store.head(key) is not None
    world.wait_out_claims()
    assert world.vacuum().removed_registrations == (key,)
    assert world.store.head(key) is None


def test_a_vacuum_that_loses_its_slot_decides_anew(world: World) -> None:
    world.write(TWO)

    def roll_back_first(call: str, phase: str, key: str) -> None:
        if (call, phase) == ("put_if_absent", "before") and "/log/" in key:
            world.store.on_call = None
            world.keeper.rollback(T, version=1)

    world.store.on_call = roll_back_first
    report = world.vacuum()
    assert [one.reason for one in report.deleted if "replaced by version 3" in one.reason]
    assert world.rows() == ONE
