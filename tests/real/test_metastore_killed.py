"""The metastore server is ended by SIGKILL around the switch, and started again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from table_writer.errors import TableWriterError
from table_writer.testing import MetastoreServer
from tests.maintenance.operations import OPERATIONS, Operation
from tests.real.real_world import RealWorld

MOMENTS = ("before", "during", "after")
SWITCHING = [
    operation
    for operation in OPERATIONS
    if operation.name
    in {
        "write that adds, of our partitions",
        "write that mixes, of our partitions",
        "rollback",
        "restore",
        "recover a dead publisher",
    }
]
CELLS = [(operation, moment) for operation in SWITCHING for moment in MOMENTS]
FAST = {("write that mixes, of our partitions", "during")}


@pytest.mark.parametrize(
    ("operation", "moment"),
    [
        pytest.param(
            operation,
            moment,
            marks=[] if (operation.name, moment) in FAST else [pytest.mark.slow],
            id=f"killed {moment} the switch of: {operation}",
        )
        for operation, moment in CELLS
    ],
)
def test_a_killed_metastore_leaves_all_old_or_all_new_rows(
    operation: Operation, moment: str, new_world: Callable[[], RealWorld], metastore_server: MetastoreServer
) -> None:
    world = new_world()
    operation.prepare(world)
    before = world.rows()
    killed: list[bool] = []

    def kill() -> None:
        if not killed:
            killed.append(True)
            metastore_server.kill()

    def hook(call: str, phase: str) -> None:
        if call in {"alter_partitions", "add_partitions"}:
            if (moment, phase) == ("during", "before"):
                threading.Timer(0.01, kill).start()
            elif moment == phase:
                kill()

    world.metastore.on_call = hook
    try:
        with suppress(TableWriterError):
            operation.run(world)
    finally:
        world.metastore.on_call = None
        kill()  # an alter may have been faster than the timer
        metastore_server.restart()
    seen = world.rows()
    world.wait_out_claims()
    operation.run(world)
    after = world.rows()
    assert seen in (before, operation.between, after)
    world.wait_out_claims()
    world.keeper.recover(str(world.name))
    assert world.vacuum().failures == ()
    assert world.leftovers() == []
    assert world.history().in_doubt == ()
    assert world.rows() == after
