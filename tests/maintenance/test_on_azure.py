"""All operations, and the crash matrix, on a table whose files are in Azure, as Azurite has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.azurite import AzuriteServer
from tests.publish.world import CHANGING, Fault

from .operations import OPERATIONS, Operation, require_same_as_on_s3
from .remote_world import RemoteWorld, cells, require_whole_after, worlds_on

pytestmark = pytest.mark.needs("azure")
WORLDS_AT_MOST = 200  # every ten minutes Azurite looks for what it can forget: seconds a request where that is much


@pytest.fixture(scope="module")
def new_world() -> Iterator[Callable[[], RemoteWorld]]:
    with AzuriteServer() as server:
        yield worlds_on(server, at_most=WORLDS_AT_MOST)


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_an_operation_does_in_azure_what_it_does_on_s3(
    operation: Operation, new_world: Callable[[], RemoteWorld]
) -> None:
    require_same_as_on_s3(operation, new_world())


@pytest.mark.parametrize(("operation", "fault"), list(cells()))
def test_rows_are_all_old_or_all_new_and_recover_rerun_and_vacuum_leave_nothing(
    operation: Operation, fault: Fault, new_world: Callable[[], RemoteWorld]
) -> None:
    require_whole_after(operation, fault, new_world())


def test_the_matrix_holds_every_call_that_changes_the_store() -> None:
    injected = {one.values[1].call for one in cells()}  # type: ignore[attr-defined]
    assert injected >= {call for service, call in CHANGING if service == "store"}
