"""The metastore server is ended by SIGKILL around the switch, and started again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from table_writer.errors import MetastoreError, TableWriterError
from table_writer.metastore.protocol import Metastore
from table_writer.model.table import Partition, PartitionChange, PartitionValues, Table
from table_writer.protocol.operations.parameters import NO_FILES
from table_writer.testing import MetastoreServer
from table_writer.testing.processes import ServerProcess
from tests.maintenance.operations import OPERATIONS, Operation
from tests.real.real_world import RealWorld

PARTITIONS = 400
MOMENTS = ("before", "during", "after")
SWITCHING = {
    *("write that adds, of our partitions", "write that mixes, of our partitions"),
    *("rollback", "restore", "recover a dead publisher"),
}
CELLS = [(operation, moment) for operation in OPERATIONS if operation.name in SWITCHING for moment in MOMENTS]
FAST = ("write that mixes, of our partitions", "during")


@pytest.mark.parametrize(
    ("operation", "moment"),
    [
        pytest.param(
            operation,
            moment,
            marks=[] if (operation.name, moment) == FAST else [pytest.mark.slow],
            id=f"killed {moment} the switch of: {operation}",
        )
        for operation, moment in CELLS
    ],
)
def test_a_killed_metastore_leaves_all_old_or_all_new_rows(
    operation: Operation, moment: str, new_world: Callable[[], RealWorld], metastore_server: MetastoreServer
) -> None:
    kill_around_the_switch(metastore_server, operation, moment, new_world())


@contextmanager
def killed(server: ServerProcess, moment: str, world: RealWorld, *, is_back_at_once: bool) -> Iterator[None]:
    done: list[bool] = []

    def kill() -> None:
        if not done:
            done.append(True)
            server.kill()
            if is_back_at_once:
                server.start()

    timer = threading.Timer(0.01, kill)

    def hook(call: str, phase: str) -> None:
        if call not in {"alter_partitions", "add_partitions"}:
            return
        if moment == phase:
            kill()
        elif (moment, phase) == ("during", "before") and timer.ident is None:  # the first of two calls
            timer.start()

    world.metastore.on_call = hook
    try:
        yield
    finally:
        world.metastore.on_call = None
        if timer.ident is not None:
            timer.join()
        kill()  # an alter may have been faster than the timer
        if not is_back_at_once:
            server.restart()


def kill_around_the_switch(
    server: ServerProcess, operation: Operation, moment: str, world: RealWorld, *, is_back_at_once: bool = False
) -> None:
    """End a server by SIGKILL before, during or after the calls that readers see; start it again, and look."""
    operation.prepare(world)
    before = world.rows()
    with killed(server, moment, world, is_back_at_once=is_back_at_once), suppress(TableWriterError):
        operation.run(world)
    seen = world.rows()
    world.wait_out_claims()
    operation.run(world)
    after = world.rows()
    assert seen in (before, operation.between, after)
    world.wait_out_claims()
    world.keeper.recover(str(world.name))
    assert world.vacuum().failures == ()
    assert world.leftovers() == []
    assert world.history().records.in_doubt == ()
    assert world.rows() == after


@pytest.mark.needs("hive")
def test_a_switch_of_many_partitions_is_all_or_nothing(
    new_world: Callable[[], RealWorld], metastore_server: MetastoreServer, tmp_path: Path
) -> None:
    kill_in_the_middle_of_a_switch(metastore_server, new_world(), tmp_path.as_uri())


def kill_in_the_middle_of_a_switch(server: ServerProcess, world: RealWorld, directory: str) -> None:
    """End a server by SIGKILL while one call moves hundreds of partitions, early and late."""
    table, metastore = world.table, world.metastore.real
    values = [(str(number),) for number in range(PARTITIONS)]
    added = (Partition(values=one, location=f"{directory}/old", parameters=NO_FILES) for one in values)
    metastore.add_partitions(table, list(added))

    def switch(to: str, ready: Callable[[], object] = int) -> float:
        read = metastore.get_partitions(table, values)
        changes = [
            PartitionChange(partition=one, location=f"{directory}/{to}", set_parameters={}) for one in read.values()
        ]
        ready()
        began = time.monotonic()
        metastore.alter_partitions(table, changes)
        return time.monotonic() - began

    seconds = switch("0")
    for share in (0.3, 0.7):
        before = locations(metastore, table)

        def kill() -> None:
            server.kill()
            server.start()

        timer = threading.Timer(share * seconds, kill)
        with suppress(MetastoreError):
            switch(str(share), timer.start)
        timer.join()
        after = locations(metastore, table)
        assert (len(after), len(set(after.values()))) == (PARTITIONS, 1), "neither all old nor all new"
        assert set(after.values()) <= {*before.values(), str(share)}


def locations(metastore: Metastore, table: Table) -> dict[PartitionValues, str]:
    """Return the last directory of each partition's location."""
    partitions = metastore.get_all_partitions(table)
    return {values: one.location.rstrip("/").rpartition("/")[2] for values, one in partitions.items()}
