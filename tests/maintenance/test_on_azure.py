"""All operations, and the crash matrix, on a table whose files are in Azure, as Azurite has it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

import pytest

from table_writer.config import TableWriterConfig
from table_writer.errors import TableWriterError
from table_writer.storage import open_store
from table_writer.storage.hadoop import settings_for
from table_writer.table.services import Services
from tests.azurite import AzuriteServer
from tests.doubles.memory_metastore import MemoryMetastore
from tests.publish.world import CHANGING, DeathError, Fault, MetastoreDouble, World
from tests.real.hooked import HookedStore

from .operations import OPERATIONS, Operation, require_same_as_on_s3
from .test_every_fault import assert_can_be_made_whole, faults_of, rows_before_and_after

pytestmark = pytest.mark.needs("azure")
WORLDS_AT_MOST = 200  # every ten minutes Azurite looks for what it can forget: seconds a request where that is much
DECISIVE = {"complete_upload", "abort_upload", "copy"}  # what Azure does in its own way; claims: tests/storage


@dataclass
class AzureWorld(MetastoreDouble):
    hadoop: Mapping[str, str] = field(default_factory=dict)

    def all_services(self, config: TableWriterConfig | None = None) -> Services:
        services = super().all_services(config)
        services.session = replace(services.session, hadoop={**services.session.hadoop, **self.hadoop})
        return services

    def wait_out_claims(self) -> None:
        self.store.skipped_seconds += self.wait_seconds


@pytest.fixture(scope="module")
def azurite() -> Iterator[AzuriteServer]:
    with AzuriteServer() as server:
        yield server


@pytest.fixture(scope="module")
def new_world(azurite: AzuriteServer) -> Callable[[], AzureWorld]:
    made = count(1)

    def make() -> AzureWorld:
        if next(made) % WORLDS_AT_MOST == 0:
            azurite.restart()
        root = azurite.location(f"{uuid.uuid4().hex}/mart/orders/")
        store = open_store(settings_for(root, azurite.hadoop_settings()))
        metastore = MemoryMetastore()
        metastore.create_table(replace(World().table, location=str(root)))
        hadoop = azurite.hadoop_settings()
        return AzureWorld(store=HookedStore(store), metastore=metastore, root=str(root), hadoop=hadoop)

    return make


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_an_operation_does_in_azure_what_it_does_on_s3(
    operation: Operation, new_world: Callable[[], AzureWorld]
) -> None:
    require_same_as_on_s3(operation, new_world())


def cells() -> Iterator[object]:
    """Deaths and lost answers of what changes the store; what the metastore does is the same on every store."""
    for operation in OPERATIONS:
        for fault in faults_of(operation):
            changes = (fault.service, fault.call) in CHANGING and fault.service == "store" and fault.phase == "after"
            if changes and fault.kind in (DeathError, Exception):
                fast = fault.number == 1 and fault.kind is DeathError and fault.call in DECISIVE
                marks = [] if fast else [pytest.mark.slow]
                yield pytest.param(operation, fault, marks=marks, id=f"{operation}-{fault}")


@pytest.mark.parametrize(("operation", "fault"), list(cells()))
def test_rows_are_all_old_or_all_new_and_recover_rerun_and_vacuum_leave_nothing(
    operation: Operation, fault: Fault, new_world: Callable[[], AzureWorld]
) -> None:
    before, after = rows_before_and_after(operation)
    world = new_world()
    operation.prepare(world)
    raised: BaseException | None = None
    with world.inject(fault):
        try:
            operation.run(world)
        except (TableWriterError, DeathError) as error:
            raised = error
    assert operation.allows(world.rows(), before, after)
    assert_can_be_made_whole(world, operation, raised, before, after)


def test_the_matrix_holds_every_call_that_changes_the_store() -> None:
    injected = {one.values[1].call for one in cells()}  # type: ignore[attr-defined]
    assert injected >= {call for service, call in CHANGING if service == "store"}
