"""All operations, and the crash matrix, on a table whose files are in another store than S3, as its emulator has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.azurite import AzuriteServer
from tests.fake_gcs import FakeGcsServer
from tests.publish.world import CHANGING, Fault

from .operations import OPERATIONS, Operation, require_same_as_on_s3
from .remote_world import RemoteWorld, cells, require_whole_after, worlds_on

SERVERS = {  # with the number of worlds after which it is started anew: each makes it slower
    "azure": (AzuriteServer, 200),
    "gcs": (FakeGcsServer, 50),
}


@pytest.fixture(scope="module", params=[pytest.param(name, marks=pytest.mark.needs(name)) for name in SERVERS])
def new_world(request: pytest.FixtureRequest) -> Iterator[Callable[[], RemoteWorld]]:
    start, worlds_at_most = SERVERS[request.param]
    with start() as server:
        yield worlds_on(server, at_most=worlds_at_most)


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_an_operation_does_there_what_it_does_on_s3(operation: Operation, new_world: Callable[[], RemoteWorld]) -> None:
    require_same_as_on_s3(operation, new_world())


@pytest.mark.parametrize(("operation", "fault"), list(cells()))
def test_rows_are_all_old_or_all_new_and_recover_rerun_and_vacuum_leave_nothing(
    operation: Operation, fault: Fault, new_world: Callable[[], RemoteWorld]
) -> None:
    require_whole_after(operation, fault, new_world())


def test_the_matrix_holds_every_call_that_changes_the_store() -> None:
    injected = {one.values[1].call for one in cells()}  # type: ignore[attr-defined]
    assert injected >= {call for service, call in CHANGING if service == "store"}
