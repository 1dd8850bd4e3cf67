"""Turns: one publisher of a staged append at a time, whoever dies, pauses or comes back."""

from __future__ import annotations

from typing import Any

import pytest

from table_writer.errors import ConflictError
from table_writer.log.deadline import boot_seconds
from table_writer.log.signs import read_signs, sign_prefix
from table_writer.log.turn import Turn
from table_writer.model.write import WriteMode
from tests.publish.world import World

HEARTBEAT_SECONDS = 60.0


@pytest.fixture
def world() -> World:
    return World()


def a_turn(world: World, plan: Any, **named: Any) -> Turn:
    identity = {"host": "elsewhere", "pid": "1", "process": "another boot/1/1"}
    return Turn(world.store, plan, identity, heartbeat_seconds=HEARTBEAT_SECONDS, **named)


def test_a_turn_is_held_by_one_at_a_time_also_among_threads_of_one_process(world: World) -> None:
    plan = world.plan(WriteMode.APPEND)
    with a_turn(world, plan), pytest.raises(ConflictError, match="another process"), a_turn(world, plan):
        pass
    with a_turn(world, plan):
        pass


def test_two_that_ask_at_the_same_moment_do_not_both_get_it(world: World) -> None:
    plan = world.plan(WriteMode.APPEND)
    second = a_turn(world, plan)

    def before(call: str, phase: str, key: object) -> None:
        if call == "put_if_absent" and phase == "before":
            world.store.on_call = None
            second.__enter__()

    world.store.on_call = before
    with pytest.raises(ConflictError), a_turn(world, plan):
        pass
    second.__exit__(None, None, None)


def test_numbers_are_never_used_again(world: World) -> None:
    plan = world.plan(WriteMode.APPEND)
    seen = set()
    for _ in range(3):
        with a_turn(world, plan):
            seen.add(read_signs(world.store, plan.layout, plan.write_id)[-1])
    assert len(seen) == 3
    assert len(read_signs(world.store, plan.layout, plan.write_id)) == 1, "only the newest is kept"


def test_a_dead_holder_is_followed_once_it_has_missed_its_heartbeats(world: World) -> None:
    plan = world.plan(WriteMode.APPEND)
    dead = a_turn(world, plan)
    dead.__enter__()
    world.skipped_seconds += 4 * HEARTBEAT_SECONDS
    with pytest.raises(ConflictError), a_turn(world, plan):
        pass
    world.skipped_seconds += 2 * HEARTBEAT_SECONDS
    with a_turn(world, plan):
        dead.__exit__(None, None, None)
        with pytest.raises(ConflictError), a_turn(world, plan):
            pass


def test_a_holder_stops_before_others_take_it_for_dead(world: World) -> None:
    plan = world.plan(WriteMode.APPEND)
    offset = 0.0
    turn = a_turn(world, plan, clock=lambda: boot_seconds() + offset)
    with turn:
        turn.require()
        offset = 3.9 * HEARTBEAT_SECONDS
        turn.require()
        offset = 4.1 * HEARTBEAT_SECONDS
        with pytest.raises(ConflictError, match="no sign of life"):
            turn.require()


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"given_back": "yes"}'])
def test_what_cannot_be_read_counts_by_its_age(world: World, damage: bytes) -> None:
    plan = world.plan(WriteMode.APPEND)
    world.store.put(f"{sign_prefix(plan.layout, plan.write_id, 'turn')}00007", damage)
    with pytest.raises(ConflictError), a_turn(world, plan):
        pass
    world.skipped_seconds += 6 * 3_600
    with a_turn(world, plan):
        assert read_signs(world.store, plan.layout, plan.write_id)[-1].endswith("00008")
