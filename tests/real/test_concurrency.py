"""Several processes on one table: no lost update, no conflict about nothing, one winner for each overlap."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from table_writer.errors import ConflictError
from table_writer.model.write_mode import WriteMode
from tests.publish.world import DeathError, Fault
from tests.real.hammer import Written, assert_clean, assert_no_update_is_lost, hammer, rows_by_the_log, settled
from tests.real.real_world import Address, RealWorld
from tests.real.worker import context, roll_back, stop_at, vacuum_it, write_one

SECONDS = float(os.environ.get("TABLE_WRITER_HAMMER_SECONDS", "5"))
LONG_SECONDS = float(os.environ.get("TABLE_WRITER_LONG_HAMMER_SECONDS", "90"))
VALUES = ["d1", "d2", "d3", "d4"]


def run_together(
    address: Address,
    world: RealWorld,
    partitions: Sequence[list[str]],
    seconds: float,
    *,
    killing: bool = False,
    appenders: int = 0,
) -> tuple[list[Written], int]:
    """Start one process for each list of partitions; end some by SIGKILL and start others if asked. Counts kills.

    The first ``appenders`` of them append, the others overwrite.
    """
    results = context.Queue()
    written: list[Written] = []
    dice = random.Random(7)
    ends = time.monotonic() + seconds
    numbers = iter(range(1, 10_000))

    def start(index: int):  # type: ignore[no-untyped-def]
        left = max(1.0, ends - time.monotonic())
        mode = WriteMode.APPEND if index < appenders else WriteMode.OVERWRITE_PARTITIONS
        arguments = (address, world.name.name, next(numbers), partitions[index], left, results, mode)
        process = context.Process(target=hammer, args=arguments)
        process.start()
        return process

    running = [start(index) for index in range(len(partitions))]
    kills = 0
    while time.monotonic() < ends:
        while not results.empty():
            written.append(results.get())
        if killing and time.monotonic() < ends - 2:
            time.sleep(dice.uniform(0.2, 1.5))
            victim = dice.randrange(len(running))
            assert running[victim].pid
            running[victim].kill()
            running[victim].join()
            kills += 1
            results = context.Queue()  # a killed process may have died within a message
            running[victim] = start(victim)
        else:
            time.sleep(0.05)
    deadline = time.monotonic() + 90
    while any(process.is_alive() for process in running) and time.monotonic() < deadline:
        while not results.empty():
            written.append(results.get())
        time.sleep(0.05)
    for process in running:
        process.join(1)
        if process.is_alive():
            process.kill()
    while not results.empty():
        written.append(results.get())
    return written, kills


@pytest.mark.slow
def test_writers_of_different_partitions_never_conflict(address: Address, new_world: Callable[[], RealWorld]) -> None:
    world = new_world()
    written, _ = run_together(address, world, [[value] for value in VALUES], SECONDS)
    outcomes = Counter(outcome for _, outcome, _, _ in written)
    assert outcomes["published"] >= len(VALUES)
    assert outcomes["conflict"] == 0
    history = settled(world)
    published = {version for _, outcome, version, _ in written if outcome == "published"}
    assert published <= {record.entry.version for record in history.records.published}
    assert len(history.state.current_partitions) == len(VALUES)
    assert_no_update_is_lost(world, history)


def test_each_overlap_of_writers_has_one_winner(address: Address, new_world: Callable[[], RealWorld]) -> None:
    world = new_world()
    written, _ = run_together(address, world, [VALUES] * 4, SECONDS)
    outcomes = Counter(outcome for _, outcome, _, _ in written)
    assert outcomes["published"] > 0
    assert outcomes["conflict"] > 0
    assert assert_no_update_is_lost(world, settled(world)) > 0
    assert_clean(world)


@pytest.mark.parametrize("killing", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_appenders_and_overwriters_of_the_same_partitions_lose_no_row(
    killing: bool, address: Address, new_world: Callable[[], RealWorld]
) -> None:
    world = new_world()
    seconds = 4 * SECONDS if killing else SECONDS
    written, kills = run_together(address, world, [VALUES[:2]] * 4, seconds, killing=killing, appenders=2)
    outcomes = Counter((number <= 2, outcome) for number, outcome, _, _ in written)
    assert killing or outcomes[True, "published"] > 1, "both kinds get their turn"
    assert outcomes[True, "conflict"] == 0 or killing, "an append is built on what others publish"
    history = settled(world)
    assert_no_update_is_lost(world, history)
    assert world.rows() == rows_by_the_log(history)
    assert_clean(world)
    print(f"{kills} kills, {len(history.records)} versions, {outcomes}")


@pytest.mark.parametrize("seconds", [SECONDS, pytest.param(LONG_SECONDS, marks=pytest.mark.slow)])
def test_writers_that_are_killed_at_random_lose_nothing(
    seconds: float, address: Address, new_world: Callable[[], RealWorld]
) -> None:
    world = new_world()
    world.write({value: frozenset({0}) for value in VALUES})
    written, kills = run_together(address, world, [VALUES[:2], VALUES[2:], VALUES], seconds, killing=True)
    assert kills > 0
    published = {version for _, outcome, version, _ in written if outcome == "published"}
    history = settled(world)
    assert published <= {record.entry.version for record in history.records.published}, "what was reported published is"
    assert_no_update_is_lost(world, history)
    assert not history.records.publishes_in_doubt
    assert_clean(world)
    print(f"{kills} kills, {len(history.records)} versions, {Counter(outcome for _, outcome, _, _ in written)}")


def wait_until_stopped(pid: int) -> None:
    for _ in range(600):
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T":
            return
        time.sleep(0.05)
    raise AssertionError("the writer did not reach the call")


MOMENTS = [
    (Fault("store", "put_if_absent", 1, "before", DeathError), {"ConflictError"}),  # before its claim
    (Fault("store", "put_if_absent", 1, "after", DeathError), {"published"}),  # its claim stands: others have done it
    (Fault("metastore", "alter_partitions", 1, "before", DeathError), {"published"}),
    (Fault("metastore", "alter_partitions", 1, "after", DeathError), {"published"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("moment", "ends"), MOMENTS, ids=[str(moment) for moment, _ in MOMENTS])
def test_a_writer_that_wakes_up_after_its_time_changes_nothing_and_says_what_became_of_it(
    moment: Fault, ends: set[str], address: Address, new_world: Callable[[], RealWorld]
) -> None:
    world = new_world()
    world.write({"d1": frozenset({1}), "d2": frozenset({2})})
    results = context.SimpleQueue()
    process = context.Process(target=stop_at, args=(address, world.name.name, moment, results))
    process.start()
    assert process.pid
    try:
        wait_until_stopped(process.pid)
        time.sleep(7.5)  # longer than its claim lasts
        newer = {"d1": frozenset({3})}
        try:
            world.write(newer)
        except ConflictError:  # with what it has just recovered
            world.write(newer)
        seen = world.rows()
        assert seen["d1"] == frozenset({3})
        os.kill(process.pid, signal.SIGCONT)
        process.join(60)
        assert results.get() in ends
    finally:
        process.kill()
    assert world.rows() == seen, "the sleeper changed nothing"
    world.wait_out_claims()
    assert world.keeper.recover(str(world.name)).put_right == ()
    world.vacuum()
    assert world.leftovers() == []
    assert world.rows() == seen


def test_two_vacuums_a_rollback_and_a_writer_at_once(address: Address, new_world: Callable[[], RealWorld]) -> None:
    world = new_world()
    for number in range(4):
        world.write({value: frozenset({number}) for value in VALUES})
    table = world.name.name
    jobs = [vacuum_it, vacuum_it, roll_back, write_one]
    processes = [context.Process(target=job, args=(address, table)) for job in jobs]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0, 0, 0]
    rows = world.rows()
    assert rows["d4"] == frozenset({99})
    assert len({rows[value] for value in VALUES[:3]}) == 1, "rolled back together, or not at all"
    world.wait_out_claims()
    world.vacuum()
    assert world.leftovers() == []
    assert world.rows() == rows
