"""A table whose files are in a store that speaks HTTP, and the part of the crash matrix that such a store decides."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

import pytest

from table_writer.config import TableWriterConfig
from table_writer.errors import TableWriterError
from table_writer.protocol.table.services import Services
from table_writer.storage.kinds import settings_for
from table_writer.storage.object_store import open_store
from table_writer.testing.memory_metastore import MemoryMetastore
from tests.azurite import AzuriteServer
from tests.fake_gcs import FakeGcsServer
from tests.publish.world import CHANGING, DeathError, Fault, MetastoreDouble, World
from tests.real.hooked import HookedStore

from .operations import OPERATIONS, Operation
from .test_every_fault import assert_can_be_made_whole, faults_of, rows_before_and_after

DECISIVE = {"complete_upload", "abort_upload", "copy"}  # what each store does in its own way; claims: tests/storage


@dataclass
class RemoteWorld(MetastoreDouble):
    hadoop: Mapping[str, str] = field(default_factory=dict)

    def all_services(self, config: TableWriterConfig | None = None) -> Services:
        services = super().all_services(config)
        services.session = replace(services.session, hadoop={**services.session.hadoop, **self.hadoop})
        return services

    def wait_out_claims(self) -> None:
        self.store.skipped_seconds += self.wait_seconds


def worlds_on(server: AzuriteServer | FakeGcsServer, *, at_most: int) -> Callable[[], RemoteWorld]:
    """Return what makes a new world; the server is restarted after so many, since each makes it slower."""
    made = count(1)

    def make() -> RemoteWorld:
        if next(made) % at_most == 0:
            server.restart()
        root, hadoop = server.location(f"{uuid.uuid4().hex}/mart/orders/"), server.hadoop_settings()
        metastore = MemoryMetastore()
        metastore.create_table(replace(World().table, location=str(root)))
        store = HookedStore(open_store(settings_for(root, hadoop)))
        return RemoteWorld(store=store, metastore=metastore, root=str(root), hadoop=hadoop)

    return make


def cells() -> Iterator[object]:
    """Deaths and lost answers of what changes the store; what the metastore does is the same on every store."""
    for operation in OPERATIONS:
        for fault in faults_of(operation):
            changes = (fault.service, fault.call) in CHANGING and fault.service == "store" and fault.phase == "after"
            if changes and fault.kind in (DeathError, Exception):
                fast = fault.number == 1 and fault.kind is DeathError and fault.call in DECISIVE
                marks = [] if fast else [pytest.mark.slow]
                yield pytest.param(operation, fault, marks=marks, id=f"{operation}-{fault}")


def require_whole_after(operation: Operation, fault: Fault, world: RemoteWorld) -> None:
    """Run an operation with a fault: rows are all old or all new, and what follows leaves nothing behind."""
    before, after = rows_before_and_after(operation)
    operation.prepare(world)
    raised: BaseException | None = None
    with world.inject(fault):
        try:
            operation.run(world)
        except (TableWriterError, DeathError) as error:
            raised = error
    assert operation.allows(world.rows(), before, after)
    assert_can_be_made_whole(world, operation, raised, before, after)
