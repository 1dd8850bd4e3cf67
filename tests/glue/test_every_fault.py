"""The crash matrix where a switch is several calls: each fails, dies or loses its answer, and recover makes it whole.

What may be seen in between is weaker than in Hive: each *partition* has old rows or new ones. All else is the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Final

import pytest

from table_writer.errors import TableWriterError
from tests.glue.world import GlueWorld
from tests.maintenance.operations import OPERATIONS, Operation
from tests.maintenance.test_every_fault import KINDS, Rows, assert_can_be_made_whole, rows_before_and_after, started
from tests.publish.world import CHANGING, DeathError, Fault

pytestmark = pytest.mark.usefixtures("in_one_thread")

FAST: Final = {
    "append to our partitions",
    "append over a dead publisher",
    "creation of partitions",
    "overwrite of an unpartitioned table, of our rows",
    "publish of a staged write that mixes",
    "recover a dead publisher",
    "restore",
    "rollback",
    "write that mixes, of our partitions",
}


@cache
def calls_of(operation: Operation) -> tuple[tuple[str, str], ...]:
    world = started(operation, GlueWorld)
    with world.recording() as calls:
        operation.run(world)
    return tuple(calls)


def faults_of(operation: Operation) -> Iterator[Fault]:
    """Every call to Glue in every way; what the store does is the same as in Hive's matrix.

    A read leaves nothing: a death beside it is one after the change before, and its lost answer is its refusal.
    """
    seen: Counter[tuple[str, str]] = Counter()
    for one in calls_of(operation):
        seen[one] += 1
        if one[0] == "metastore" and one in CHANGING:
            yield from (Fault(*one, seen[one], phase, kind) for phase in ("before", "after") for kind in KINDS)
        elif one[0] == "metastore":
            yield from (Fault(*one, seen[one], "before", kind) for kind in (Exception, KeyboardInterrupt))


def cells(*, of_changes: bool = False) -> Iterator[object]:
    """The fast run holds changes that are refused, and what they leave behind, of operations that differ here."""
    for operation in OPERATIONS:
        for fault in faults_of(operation):
            changes = (fault.service, fault.call) in CHANGING
            is_told_apart = fault.kind is Exception or (fault.kind is DeathError and fault.phase == "after")
            is_fast = operation.name in FAST and changes and is_told_apart
            if changes or not of_changes:
                yield pytest.param(
                    operation, fault, marks=[] if is_fast else [pytest.mark.slow], id=f"{operation}-{fault}"
                )


def is_old_or_new(rows: Rows, *known: Rows | None) -> bool:
    """Whether each partition by itself is as in one of the states."""
    states = [one for one in known if one is not None]
    values = {value for one in (rows, *states) for value in one}
    return all(rows.get(value) in [one.get(value) for one in states] for value in values)


@pytest.mark.parametrize(("operation", "fault"), list(cells()))
def test_each_partition_is_old_or_new_and_recover_makes_the_table_whole(operation: Operation, fault: Fault) -> None:
    before, after = rows_before_and_after(operation, GlueWorld)
    allowed = (before, operation.between, after)
    world = started(operation, GlueWorld)
    raised: BaseException | None = None
    with world.inject(fault):
        try:
            operation.run(world)
        except (TableWriterError, KeyboardInterrupt, DeathError) as error:
            raised = error
    assert operation.allows(world.rows(), before, after) or is_old_or_new(world.rows(), *allowed)
    assert_can_be_made_whole(world, operation, raised, before, after)


@pytest.mark.parametrize(("operation", "fault"), list(cells(of_changes=True)))
def test_a_vacuum_while_some_partitions_are_switched_loses_nothing(operation: Operation, fault: Fault) -> None:
    before, after = rows_before_and_after(operation, GlueWorld)
    allowed = (before, operation.between, after)
    world = started(operation, GlueWorld)
    with world.inject(fault), suppress(TableWriterError, KeyboardInterrupt, DeathError):
        operation.run(world)
    if operation.adopts:
        world.wait_out_claims()
        world.keeper.restore(str(world.name))  # to adopt is refused while only some partitions are back
    world.vacuum()
    assert operation.allows(world.rows(), before, after) or is_old_or_new(world.rows(), *allowed)
    world.wait_out_claims()
    world.vacuum()
    world.keeper.recover(str(world.name))
    if operation.adopts:
        world.keeper.restore(str(world.name))
    assert operation.allows(world.rows(), before, after)
    if operation.name.startswith("restore"):  # where readers look for what is not shown, nobody knows
        world.keeper.restore(str(world.name))
    assert world.vacuum().failures == ()
    assert world.leftovers() == []


def test_the_fast_run_holds_the_operations_it_names() -> None:
    assert {operation.name for operation in OPERATIONS} >= FAST
