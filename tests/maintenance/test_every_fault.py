"""The crash matrix over the doubles: every call of every operation fails, in every way, before and after its effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache

import pytest

from table_writer.errors import OutcomeUnknownError, TableWriterError
from tests.publish.world import DeathError, Fault, World

from .operations import OPERATIONS, Operation

KINDS: tuple[type[BaseException], ...] = (Exception, KeyboardInterrupt, DeathError)


def started(operation: Operation) -> World:
    world = World()
    operation.prepare(world)
    return world


@cache
def rows_before_and_after(operation: Operation) -> tuple[dict[str, frozenset[int]], dict[str, frozenset[int]]]:
    world = started(operation)
    before = world.rows()
    operation.run(world)
    return before, world.rows()


def every_fault() -> Iterator[tuple[Operation, Fault]]:
    for operation in OPERATIONS:
        world = started(operation)
        seen: Counter[tuple[str, str]] = Counter()
        with world.recording() as calls:
            operation.run(world)
        for service, call in calls:
            seen[service, call] += 1
            for phase in ("before", "after"):
                for kind in KINDS:
                    yield operation, Fault(service, call, seen[service, call], phase, kind)


def cells() -> Iterator[object]:
    for operation, fault in every_fault():
        marks = [pytest.mark.slow] if fault.kind is KeyboardInterrupt else []
        yield pytest.param(operation, fault, marks=marks, id=f"{operation}-{fault}")


@pytest.mark.parametrize(("operation", "fault"), list(cells()))
def test_rows_are_all_old_or_all_new_and_recover_rerun_and_vacuum_leave_nothing(
    operation: Operation, fault: Fault
) -> None:
    before, after = rows_before_and_after(operation)
    allowed = (before, operation.between, after)
    world = started(operation)
    raised: BaseException | None = None
    with world.inject(fault):
        try:
            operation.run(world)
        except (TableWriterError, KeyboardInterrupt, DeathError) as error:
            raised = error
    assert world.rows() in allowed
    if raised is None:
        assert world.rows() == after
    if isinstance(raised, TableWriterError) and not isinstance(raised, OutcomeUnknownError) and not operation.settles:
        assert world.rows() == before, "an error that promises that nothing is visible"
        assert not world.history().publishes_in_doubt, "nor may it become visible later"
    world.wait_out_claims()
    if not operation.adopts:
        world.keeper.recover(str(world.name))
        assert world.rows() in allowed
        assert world.keeper.recover(str(world.name)).settled == {}, "a second one finds nothing to do"
    operation.run(world)
    assert world.rows() == after
    assert_published_entries_lead_to(world)
    world.wait_out_claims()
    world.keeper.recover(str(world.name))
    assert world.vacuum().failures == ()
    assert world.leftovers() == []
    assert world.history().in_doubt == ()
    assert world.rows() == after


@pytest.mark.parametrize(
    ("operation", "fault"),
    [(operation, fault) for operation, fault in every_fault() if operation.publishes and fault.kind is DeathError],
    ids=str,
)
def test_a_vacuum_right_after_a_crash_loses_nothing_that_recover_needs(operation: Operation, fault: Fault) -> None:
    before, after = rows_before_and_after(operation)
    world = started(operation)
    with world.inject(fault), suppress(DeathError):
        operation.run(world)
    if operation.adopts:
        world.keeper.adopt(str(world.name))
    world.vacuum()
    assert world.rows() in (before, operation.between, after)
    world.wait_out_claims()
    world.vacuum()
    world.keeper.recover(str(world.name))
    if operation.adopts:
        world.keeper.restore(str(world.name))  # until then no partition points at the files
    assert world.rows() in (before, operation.between, after)
    assert world.vacuum().failures == ()
    assert world.leftovers() == []


def assert_published_entries_lead_to(world: World) -> None:
    """Every partition is where the newest published entry that names it says."""
    now = {value: one.location for value, one in world.partitions().items()}
    wanted = {"".join(values): placed.partition.new_location for values, placed in world.history().current.items()}
    assert {value: location for value, location in wanted.items() if location} == {
        value: location for value, location in now.items() if value in wanted
    }


def test_the_matrix_holds_every_call_that_changes_something() -> None:
    injected = {(fault.service, fault.call) for _, fault in every_fault()}
    changing = {("metastore", call) for call in ("add_partitions", "alter_partitions", "drop_partition")} | {
        ("store", call) for call in ("put", "put_if_absent", "delete", "complete_upload", "abort_upload", "copy")
    }
    assert changing <= injected
