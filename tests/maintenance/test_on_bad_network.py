"""Operations on a table on GCS whose requests are lost, late or repeated, three of ten, as chance decides."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

import pytest

from table_writer.errors import TableWriterError
from tests.fake_gcs import FakeGcsServer
from tests.real.hooked import HookedStore
from tests.storage.gcs_proxy import GcsProxy

from .operations import OPERATIONS, Operation
from .remote_world import worlds_on
from .test_every_fault import assert_can_be_made_whole, rows_before_and_after

pytestmark = pytest.mark.needs("gcs")
SEEDS: Final = 3
CHOSEN: Final = {
    *("write that mixes, of our partitions", "append to our partitions", "append in place to our partitions"),
    *(
        "compaction after an append in place",
        "publish of a staged write that mixes",
        "overwrite of the table, of our partitions",
    ),
    *("abort of dead uploads", "vacuum"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[FakeGcsServer]:
    with FakeGcsServer() as started:
        yield started


def chosen() -> list[Operation]:
    found = [operation for operation in OPERATIONS if str(operation) in CHOSEN]
    assert len(found) == len(CHOSEN)
    return found


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed > 0)) for seed in range(SEEDS)])
@pytest.mark.parametrize("operation", chosen(), ids=str)
def test_rows_are_all_old_or_all_new_whatever_becomes_of_requests(
    server: FakeGcsServer, operation: Operation, seed: int
) -> None:
    before, after = rows_before_and_after(operation)
    world = worlds_on(server, at_most=1_000)()
    operation.prepare(world)
    proxy, raised = GcsProxy(server.port), None
    with proxy.server:
        world.store = HookedStore(proxy.store(server.bucket))
        proxy.random = Random(f"{operation} {seed}")
        try:
            operation.run(world)
        except TableWriterError as error:
            raised = error
        proxy.random = None
        assert operation.allows(world.rows(), before, after)
        assert_can_be_made_whole(world, operation, raised, before, after)
        proxy.release()
        proxy.replay("part", "compose")
        for _ in range(2):  # a registration that comes late keeps the parts of its write for one vacuum more
            world.wait_out_claims()
            assert world.vacuum().failures == ()
        assert (world.rows(), world.leftovers()) == (after, [])
