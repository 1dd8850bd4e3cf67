"""What a caller was told stays true: published, abandoned, discarded, published already. Over doubles."""

from __future__ import annotations

import pytest

from table_writer.errors import ConflictError, PartlyPublishedError
from table_writer.log import rules
from table_writer.model.entry import Key
from table_writer.model.write import WriteMode
from tests.publish.world import DeathError, Fault, World

T = "mart.orders"
OLD = {"d1": frozenset({1}), "d2": frozenset({2})}
MORE = {"d1": frozenset({10}), "d2": frozenset({20})}
ALL = {"d1": frozenset({1, 10}), "d2": frozenset({2, 20})}
DIED = Fault("metastore", "alter_partitions", 1, "before", DeathError)


@pytest.fixture
def world() -> World:
    world = World()
    world.write(OLD)
    return world


@pytest.mark.parametrize("mode", WriteMode)
def test_a_write_that_a_recovery_may_publish_is_not_discarded(world: World, mode: WriteMode) -> None:
    rows = {"d1": frozenset({10})} if mode is not WriteMode.CREATE_PARTITIONS else {"d3": frozenset({30})}
    write_id = world.stage(rows, plan=world.plan(mode))
    died = (
        DIED
        if mode is not WriteMode.CREATE_PARTITIONS
        else Fault("metastore", "add_partitions", 1, "before", DeathError)
    )
    with world.inject(died), pytest.raises(DeathError):
        world.keeper.publish(T, write_id)
    with pytest.raises(ConflictError, match="is not discarded"):
        world.keeper.discard(T, write_id)
    world.wait_out_claims()
    world.keeper.recover(T)
    assert rows["d3" if mode is WriteMode.CREATE_PARTITIONS else "d1"] <= frozenset().union(*world.rows().values())


def test_a_writer_whose_machine_was_paused_for_days_sends_nothing_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hypervisor stops the boot clock as well: the wall clock alone shows it, and the store's tells how long."""
    days, wall = 3 * 86_400.0, [0.0]
    monkeypatch.setattr(rules, "wall_seconds", lambda: wall[0])

    def pause(call: str, phase: str, key: object) -> None:
        if (call, phase) == ("put_if_absent", "after") and str(key).endswith("2.json"):
            world.store.on_call = None
            wall[0] += days
            world.skipped_seconds += days
            world.keeper.recover(T)  # of the others who were awake
            world.write({"d1": frozenset({100})})

    world.store.on_call = pause
    world.write(MORE)  # which the others have published in its place
    assert world.rows() == {"d1": frozenset({100}), "d2": frozenset({20})}


def test_a_wall_clock_that_somebody_sets_stops_no_write(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    wall = [0.0]
    monkeypatch.setattr(rules, "wall_seconds", lambda: wall[0])

    def set_clock(call: str, phase: str) -> None:
        wall[0] += 86_400 * ((call, phase) == ("get_partitions", "after"))

    world.metastore.on_call = set_clock
    world.write(MORE)
    assert world.rows() == MORE


@pytest.mark.parametrize("age", [None, 99.0])
def test_without_the_stores_word_the_longer_of_two_times_counts(
    age: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, wall = [0.0], [0.0]
    monkeypatch.setattr(rules, "wall_seconds", lambda: wall[0])
    deadline = rules.Deadline(100, clock=lambda: running[0], claim_age=lambda: age)
    assert deadline.allows(100)
    wall[0] = 98
    assert deadline.allows(1.5) is (age is None), "by the store's clock it is 99 s old"
    running[0] = wall[0] = 101
    assert not deadline.allows(0)


def test_rows_of_a_partition_that_another_tool_had_moved_were_not_published_already(world: World) -> None:
    """The entry is on record as published: of the other partition. The rows of this one are nowhere."""
    plan = world.plan(WriteMode.APPEND, key="nightly")
    with world.inject(DIED), pytest.raises(DeathError):
        world.write(MORE, plan=plan)
    world.pointed_by_another_tool("d1", f"{world.root}elsewhere/")
    world.wait_out_claims()
    assert world.keeper.recover(T).superseded == ("dt=d1",)
    with pytest.raises(PartlyPublishedError, match=r"version 2 .* but for 1 partition: dt=d1\."):
        world.services().require_new_key(plan.key)
    with pytest.raises(PartlyPublishedError):
        world.write(MORE, plan=plan)
    world.keeper.rollback(T, version=1)
    assert world.services().require_new_key(plan.key) is not None, "the way out that the message names"


def test_a_staged_write_some_of_whose_partitions_were_moved_was_not_published_already(world: World) -> None:
    write_id = world.stage(MORE)
    with world.inject(DIED), pytest.raises(DeathError):
        world.keeper.publish(T, write_id)
    world.pointed_by_another_tool("d1", f"{world.root}elsewhere/")
    world.wait_out_claims()
    for _ in range(2):
        with pytest.raises(PartlyPublishedError, match="dt=d1"):
            world.keeper.publish(T, write_id)


def test_a_batch_of_a_stream_is_not_looked_for_among_single_calls(world: World) -> None:
    for key, stream in (("orders/5", "orders"), ("orders/2", ""), ("orders/2024-01-01", "")):
        world.write({"d1": frozenset({len(key)})}, plan=world.plan(WriteMode.APPEND, key=key, stream=stream))
    log = world.services().log
    assert log.find_key(Key("orders/5", "orders")) is not None
    assert log.find_key(Key("orders/5")) is None
    assert log.find_key(Key("orders/2", "orders")) is None
