"""Every call that a mirror makes fails, in every way: the table has its rows, and the next write mends the mirror."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import product
from typing import Any
from unittest import mock

import pytest

from table_writer.errors import TableWriterError
from table_writer.mirrors import follow
from tests.fuzz.puppet import pools_at_once
from tests.maintenance.operations import OPERATIONS, Operation
from tests.maintenance.test_every_fault import KINDS
from tests.publish.world import CHANGING, DeathError, Fault, Rows

from .iceberg_world import IcebergWorld, rows_of_json
from .world import MirroredWorld, assert_the_mirror_goes_on

pytestmark = pytest.mark.usefixtures("in_one_thread")

WORLDS = {"delta": MirroredWorld, "iceberg": IcebergWorld}
CALLS_OF_MIRRORS = ("_follow", "why_behind", "tidy")


@pytest.fixture(autouse=True)
def _rows_of_json() -> Iterator[None]:
    with rows_of_json():
        yield


def started(kind: str, operation: Operation) -> MirroredWorld:
    world = WORLDS[kind]()
    operation.prepare(world)
    return world


@contextmanager
def telling_the_mirrors(calls: list[tuple[str, str]]) -> Iterator[set[int]]:
    """Tell which of the calls that are recorded are made for mirrors, by their places."""
    places: set[int] = set()

    def told(name: str) -> Any:
        really = getattr(follow, name)

        def call(*given: Any) -> Any:
            before = len(calls)
            try:
                return really(*given)
            finally:
                places.update(range(before, len(calls)))

        return call

    names = {name: told(name) for name in CALLS_OF_MIRRORS}
    with mock.patch.multiple(follow, **names):
        yield places


@cache
def faults_of(kind: str, operation: Operation) -> tuple[dict[Fault, bool], Rows]:
    """Return every fault of the calls for mirrors, whether its cell differs from others, and the rows afterwards."""
    world = started(kind, operation)
    seen: Counter[tuple[str, str]] = Counter()
    found: dict[Fault, bool] = {}
    with pools_at_once(), rows_of_json(), world.recording() as calls, telling_the_mirrors(calls) as places:
        operation.run(world)
    met: set[tuple[str, str]] = set()
    for place, call in enumerate(calls):
        seen[call] += 1
        for phase in ("before", "after") if place in places else ():
            for error in KINDS:
                is_change = call in CHANGING
                refused = phase == "before" and error is Exception and (is_change or call not in met)
                found[Fault(*call, seen[call], phase, error)] = (is_change and error is DeathError) or refused
        if place in places:
            met.add(call)
    return found, world.rows()


def cells() -> Iterator[object]:
    for kind, operation in product(WORLDS, OPERATIONS):
        for fault, differs in faults_of(kind, operation)[0].items():
            is_fast = differs and (kind == "delta" or (fault.kind is DeathError and fault.phase == "after"))
            marks = [] if is_fast else [pytest.mark.slow]
            yield pytest.param(kind, operation, fault, marks=marks, id=f"{kind}-{operation}-{fault}")


@pytest.mark.parametrize(("kind", "operation", "fault"), list(cells()))
def test_the_table_has_its_rows_and_the_next_write_mends_the_mirror(
    kind: str, operation: Operation, fault: Fault
) -> None:
    world = started(kind, operation)
    after = faults_of(kind, operation)[1]
    raised: BaseException | None = None
    with world.inject(fault):
        try:
            operation.run(world)
        except (TableWriterError, KeyboardInterrupt, DeathError) as error:
            raised = error
    assert world.rows() == after
    assert not isinstance(raised, TableWriterError), "a mirror fails no call"
    if fault.kind is DeathError:
        world.memory.clear()
    world.wait_out_claims()
    if not operation.adopts or raised is None:
        assert_the_mirror_goes_on(world)


def test_the_matrix_holds_every_change_that_a_mirror_makes() -> None:
    injected = {
        kind: {(fault.service, fault.call) for operation in OPERATIONS for fault in faults_of(kind, operation)[0]}
        for kind in WORLDS
    }
    assert injected["delta"] >= {("store", "put_if_absent"), ("store", "get"), ("store", "list_page")}
    of_metastore = {("metastore", call) for call in ("get_table", "add_table", "alter_partitions")}
    assert injected["iceberg"] >= {("store", "put"), ("store", "get"), *of_metastore}
