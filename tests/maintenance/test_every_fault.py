"""The crash matrix over the doubles: every call of every operation fails, in every way, before and after its effect.

The fast run holds the cells that can differ, the slow one all:

- Whoever dies before a call leaves what there was after the last call that changed something. So of deaths only those
  after a change are told apart, and the one before the first of them. A test proves it by what is left behind.
- A read whose answer is lost is a read that was refused, and a later read of a kind fails as the first does.

A first write tries the store by calls that are the same in every operation, so one operation has cells for them.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, TypeVar
from unittest import mock

import pytest

from table_writer.errors import InvalidInputError, OutcomeUnknownError, TableWriterError
from table_writer.protocol.log import owner
from tests.fuzz.puppet import strings_pulled
from tests.publish.world import CHANGING, DeathError, Fault, World, plain

from .operations import OPERATIONS, Operation

pytestmark = pytest.mark.usefixtures("in_one_thread")

Rows = Mapping[str, frozenset[int]]
Made = TypeVar("Made", bound=World)

TIME = re.compile(r"\d{8}T\d{6}|\d{4}-\d\d-\d\dT[0-9:.+]*|(?<=_seconds\": )\d{10}|(?<=\"timestamp\": )\d{13}")
KINDS: tuple[type[BaseException], ...] = (Exception, KeyboardInterrupt, DeathError)
PROVES = "first write"  # the operation whose cells hold the calls that try the store


def started(operation: Operation, make: Callable[[], Made]) -> Made:
    world = make()
    operation.prepare(world)
    return world


@cache
def rows_before_and_after(operation: Operation, make: Callable[[], World] = World) -> tuple[Rows, Rows]:
    world = started(operation, make)
    before = world.rows()
    operation.run(world)
    return before, world.rows()


@contextmanager
def telling_the_proof(calls: list[tuple[str, str]]) -> Iterator[set[int]]:
    """Tell which of the calls that are recorded try the store, by their places."""
    places: set[int] = set()
    really = owner.require_proven

    def prove(*given: Any) -> None:
        before = len(calls)
        really(*given)
        places.update(range(before, len(calls)))

    with mock.patch.object(owner, "require_proven", prove):
        yield places


@cache
def faults_of(operation: Operation) -> dict[Fault, bool]:
    """Return every fault of an operation, and whether its cell differs from all others."""
    world = started(operation, World)
    seen: Counter[tuple[str, str]] = Counter()
    found: dict[Fault, bool] = {}
    with world.recording() as calls, telling_the_proof(calls) as proof:
        operation.run(world)
    first = next((one for one in calls if one in CHANGING), None)
    for place, one in enumerate(calls):
        seen[one] += 1
        for phase in ("before", "after") if place not in proof or operation.name == PROVES else ():
            for kind in KINDS:
                is_change, is_first = one in CHANGING, seen[one] == 1
                refused = phase == "before" and kind is not DeathError and (is_change or is_first)
                died_first = phase == "before" and kind is DeathError and one == first and is_first
                differs = (is_change and phase == "after") or refused or died_first
                found[Fault(*one, seen[one], phase, kind)] = differs
    return found


def every_fault() -> Iterator[tuple[Operation, Fault]]:
    return ((operation, fault) for operation in OPERATIONS for fault in faults_of(operation))


def cells(*, of_deaths: bool = False) -> Iterator[object]:
    for operation, fault in every_fault():
        if of_deaths and not (operation.publishes and fault.kind is DeathError):
            continue
        is_slow = fault.kind is KeyboardInterrupt or not faults_of(operation)[fault]
        yield pytest.param(operation, fault, marks=[pytest.mark.slow] * is_slow, id=f"{operation}-{fault}")


@pytest.mark.parametrize(("operation", "fault"), list(cells()))
def test_rows_are_all_old_or_all_new_and_recover_rerun_and_vacuum_leave_nothing(
    operation: Operation, fault: Fault
) -> None:
    before, after = rows_before_and_after(operation)
    world = started(operation, World)
    raised: BaseException | None = None
    with world.inject(fault):
        try:
            operation.run(world)
        except (TableWriterError, KeyboardInterrupt, DeathError) as error:
            raised = error
    assert operation.allows(world.rows(), before, after)
    assert_can_be_made_whole(world, operation, raised, before, after)


@pytest.mark.parametrize(("operation", "fault"), list(cells(of_deaths=True)))
def test_a_vacuum_right_after_a_crash_loses_nothing_that_recover_needs(operation: Operation, fault: Fault) -> None:
    before, after = rows_before_and_after(operation)
    world = started(operation, World)
    with world.inject(fault), suppress(DeathError):
        operation.run(world)
    if operation.adopts:
        world.wait_out_claims()  # to adopt is to add what is missing, once nobody else is at it
        try:
            world.keeper.adopt(str(world.name))
        except InvalidInputError:  # some are back already, and nobody can tell why the others are not
            world.keeper.restore(str(world.name))
    world.vacuum()
    assert operation.allows(world.rows(), before, after)
    world.wait_out_claims()
    world.vacuum()
    world.keeper.recover(str(world.name))
    if operation.adopts:
        world.keeper.restore(str(world.name))  # until then no partition points at the files
    assert operation.allows(world.rows(), before, after)
    assert world.vacuum().failures == ()
    assert world.leftovers() == []


def assert_can_be_made_whole(
    world: World, operation: Operation, raised: BaseException | None, before: Rows, after: Rows
) -> None:
    """Look at what a fault has left: what was raised says the truth, and recover, a second run and a vacuum end it."""
    if raised is None:
        assert world.rows() == after
    if isinstance(raised, TableWriterError) and not isinstance(raised, OutcomeUnknownError) and not operation.resolves:
        assert world.rows() == before, "an error that promises that nothing is visible"
        assert not world.history().records.publishes_in_doubt, "nor may it become visible later"
    world.wait_out_claims()
    if not operation.adopts:
        world.keeper.recover(str(world.name))
        assert operation.allows(world.rows(), before, after)
        assert world.keeper.recover(str(world.name)).settled == {}, "a second one finds nothing to do"
    operation.run(world)
    assert world.rows() == after
    assert_published_entries_lead_to(world)
    world.wait_out_claims()
    world.keeper.recover(str(world.name))
    assert world.vacuum().failures == ()
    assert world.leftovers() == []
    assert world.history().records.in_doubt == ()
    assert world.rows() == after


def assert_published_entries_lead_to(world: World) -> None:
    """Every partition is where the newest published entry that names it says."""
    now = {value: one.location for value, one in world.partitions().items()}
    wanted = {
        "".join(values): placed.partition.new_location
        for values, placed in world.history().state.current_partitions.items()
    }
    assert {value: location for value, location in wanted.items() if location} == {
        value: location for value, location in now.items() if value in wanted
    }


def test_the_matrix_holds_every_call_that_changes_something() -> None:
    injected = {(fault.service, fault.call) for _, fault in every_fault()}
    assert injected >= CHANGING - {("metastore", "add_table")}  # of mirrors, which have a matrix of their own


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_a_death_that_the_fast_run_leaves_out_leaves_what_another_one_leaves(operation: Operation) -> None:
    left: dict[bool, set[frozenset[tuple[str, ...]]]] = {True: set(), False: set()}
    for fault, differs in faults_of(operation).items():
        if fault.kind is DeathError:
            left[differs].add(left_behind(operation, fault))
    assert left[False] <= left[True]


def left_behind(operation: Operation, fault: Fault) -> frozenset[tuple[str, ...]]:
    """Return all that store and metastore hold after a fault, without times; calls come in one order in one thread."""
    with strings_pulled(time.monotonic):
        world = started(operation, World)
        with world.inject(fault), suppress(DeathError):
            operation.run(world)
        objects = {(key, plain(body).decode()) for key, (body, _) in world.store._objects.items()}
        uploads = {("upload", upload.key) for upload in world.store.list_uploads(world.root.partition("lake/")[2])}
        partitions = {("partition", value, one.location) for value, one in world.partitions().items()}
    return frozenset(tuple(TIME.sub("", text) for text in one) for one in {*objects, *uploads, *partitions})
