"""The crash matrix on real parts: a real metastore, an S3 endpoint over HTTP, processes ended by SIGKILL."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from table_writer.errors import OutcomeUnknownError, TableWriterError
from tests.maintenance.operations import OPERATIONS, Operation
from tests.publish.world import CHANGING, DeathError, Fault, World
from tests.real.hooked import HookedMetastore, HookedStore
from tests.real.real_world import Address, RealWorld
from tests.real.worker import killed

UPLOAD, CLAIM = ("store", "create_upload"), ("store", "put_if_absent")
DECISIVE = {CLAIM, ("metastore", "alter_partitions"), ("metastore", "add_partitions")}


def every_fault(operation: Operation) -> Iterator[Fault]:
    """Generate the faults from the calls that the operation makes on doubles: those on real parts are the same.

    Each state of the servers once: a death before a call leaves what one after the change before it leaves, and what a
    plan has left is the same for every mode, so that the first write has the cells of it. Ctrl-C and refusals are left
    to the doubles: they do nothing to servers that a death does not do. A claim whose answer is lost is read again, by
    the same lines whatever the operation: a few of them have that cell.
    """
    world = World()
    operation.prepare(world)
    world.store, world.metastore = HookedStore(world.store), HookedMetastore(world.metastore)  # type: ignore[assignment]
    seen: Counter[tuple[str, str]] = Counter()
    with world.recording() as calls:
        operation.run(world)
    plans = operation.name != "first write" and UPLOAD in calls
    changed = False
    for index, (service, call) in enumerate(calls):
        seen[service, call] += 1
        if (service, call) in CHANGING - {UPLOAD}:  # every upload is completed or aborted
            fault = Fault(service, call, seen[service, call], "after", DeathError)
            if not changed:
                yield replace(fault, phase="before")
            if not plans or index > calls.index(UPLOAD):
                yield fault
                if (service, call) in DECISIVE and (operation.name in FAST or (service, call) != CLAIM):
                    yield replace(fault, kind=Exception)
            changed = True


def cells() -> Iterator[object]:
    """All deaths and errors; in the fast run the deaths after the calls that decide."""
    for operation in OPERATIONS:
        for fault in every_fault(operation):
            decides = fault.kind is DeathError and (fault.service, fault.call) in DECISIVE
            fast = decides and operation.name in FAST and fault.phase == "after"
            name = f"{SERVERS}: {operation}-{fault}"
            yield pytest.param(operation, fault, marks=[] if fast else [pytest.mark.slow], id=name)


SERVERS = "versitygw, Hive 2.3.10 over Derby"
FAST = {"write that mixes, of our partitions", "append to our partitions", "vacuum"}


@pytest.mark.parametrize(("operation", "fault"), list(cells()))
def test_rows_are_all_old_or_all_new_and_recover_rerun_and_vacuum_leave_nothing(
    operation: Operation, fault: Fault, new_world: Callable[[], RealWorld], address: Address
) -> None:
    world = new_world()
    assert f"{address.s3_server}, Hive {world.metastore.server_version()} over Derby" == SERVERS
    operation.prepare(world)
    before = world.rows()
    raised: BaseException | None = None
    if fault.kind is DeathError:
        assert killed(world, address, operation.name, fault) == -signal.SIGKILL
    else:
        with world.inject(fault):
            try:
                operation.run(world)
            except TableWriterError as error:
                raised = error
    seen = world.rows()
    world.wait_out_claims()
    if not operation.adopts:
        world.keeper.recover(str(world.name))
        assert world.keeper.recover(str(world.name)).settled == {}
    operation.run(world)
    after = world.rows()
    assert after == expected(operation)
    assert operation.allows(seen, before, after)
    if isinstance(raised, TableWriterError) and not isinstance(raised, OutcomeUnknownError) and not operation.resolves:
        assert seen == before
    world.wait_out_claims()
    world.keeper.recover(str(world.name))
    assert world.vacuum().failures == ()
    assert world.leftovers() == []
    assert world.history().records.in_doubt == ()
    assert world.rows() == after


def expected(operation: Operation) -> dict[str, frozenset[int]]:
    world = World()
    operation.prepare(world)
    operation.run(world)
    return world.rows()


def test_the_matrix_has_at_least_sixty_cells_with_a_kill() -> None:
    kills = [fault for operation in OPERATIONS for fault in every_fault(operation) if fault.kind is DeathError]
    assert len(kills) >= 60
