"""Mirrors of a table in Azure or on GCS, as emulators have them: what they hold after each operation."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from table_writer.config import TableWriterConfig
from table_writer.mirrors.iceberg import catalog as catalogs
from table_writer.storage.kinds import settings_for
from table_writer.storage.object_store import open_store
from table_writer.testing.memory_metastore import MemoryMetastore
from tests.azurite import AzuriteServer
from tests.fake_gcs import FakeGcsServer
from tests.maintenance.operations import MIXED, OLD, OPERATIONS, REPLACED, Operation
from tests.maintenance.remote_world import RemoteWorld
from tests.publish.world import World
from tests.real.hooked import HookedStore

from .iceberg_world import IcebergWorld, rows_of_json
from .world import PARQUET, MirroredWorld, assert_the_mirror_goes_on


@dataclass
class RemoteDelta(RemoteWorld, MirroredWorld):
    """A world in another store whose writes are followed by a Delta mirror."""


@dataclass
class RemoteIceberg(RemoteWorld, IcebergWorld):
    """A world in another store whose writes are followed by an Iceberg mirror."""


WORLDS = {"delta": RemoteDelta, "iceberg": RemoteIceberg}


FAST: Final = {"append in place to our partitions", "compaction after an append in place", "rollback", "vacuum"}


def chosen() -> list[Any]:
    """All operations, some of them in the fast run."""
    assert {str(operation) for operation in OPERATIONS} >= FAST
    return [
        pytest.param(operation, marks=[] if str(operation) in FAST else [pytest.mark.slow]) for operation in OPERATIONS
    ]


ON_AZURE: Final = pytest.param(AzuriteServer, marks=pytest.mark.needs("azure"), id="azure")
ON_GCS: Final = pytest.param(FakeGcsServer, marks=pytest.mark.needs("gcs"), id="gcs")


@pytest.fixture(scope="module", params=[ON_AZURE, ON_GCS])
def server(request: pytest.FixtureRequest) -> Iterator[AzuriteServer | FakeGcsServer]:
    with request.param() as started:
        yield started


def world_on(server: AzuriteServer | FakeGcsServer, kind: str, **config: Any) -> RemoteDelta | RemoteIceberg:
    root, hadoop = server.location(f"{uuid.uuid4().hex}/mart/orders/"), server.hadoop_settings()
    store, metastore = HookedStore(open_store(settings_for(root, hadoop))), MemoryMetastore()
    metastore.create_table(replace(World().table, location=str(root), serde=PARQUET))
    return WORLDS[kind](
        store=store,
        metastore=metastore,
        root=str(root),
        hadoop=hadoop,
        config=TableWriterConfig(mirrors=[kind], **config),
        counts_figures=True,
    )


@pytest.fixture(params=WORLDS)
def world(
    request: pytest.FixtureRequest, server: AzuriteServer | FakeGcsServer
) -> Iterator[RemoteDelta | RemoteIceberg]:
    with rows_of_json():
        yield world_on(server, request.param)


@pytest.mark.parametrize("operation", chosen(), ids=str)
def test_the_mirror_has_the_rows_of_the_table_after_each_operation_and_a_vacuum(
    operation: Operation, world: RemoteDelta | RemoteIceberg
) -> None:
    operation.prepare(world)
    operation.run(world)
    world.wait_out_claims()
    assert_the_mirror_goes_on(world)


def test_of_two_commits_of_one_number_one_wins_and_the_other_follows(world: RemoteDelta | RemoteIceberg) -> None:
    world.write(OLD)
    if isinstance(world, RemoteDelta):
        world.at_store("put_if_absent", "before", lambda: world.write(MIXED), key="00001.json")
    else:
        world.at_store("put", "before", lambda: world.write(MIXED), key=".metadata.json")
    world.write(REPLACED)
    assert world.mirrored_rows() == world.rows()
    assert world.notes() == ()


def test_what_is_missing_is_told_and_repaired(world: RemoteDelta | RemoteIceberg) -> None:
    kind, lost = ("delta", "0.json") if isinstance(world, RemoteDelta) else ("iceberg", ".avro")
    name = str(world.name)
    world.write(OLD)
    world.write(MIXED)
    world.store.delete([found for found in world.store.list(world.layout.root.key) if found.key.endswith(lost)])
    assert world.keeper.mirror(name, as_=kind, check=True).state == "damaged"
    assert world.keeper.mirror(name, as_=kind, repair=True).state == "in step"
    assert world.mirrored_rows() == world.rows()
    assert world.keeper.mirror(name, as_=kind, drop=True).state == "dropped"
    assert world.keeper.mirror(name, as_=kind, check=True).state == "absent"


@pytest.mark.parametrize("server", [ON_AZURE], indirect=True)
def test_a_catalog_that_cannot_read_there_is_refused_before_anything_is_written(
    server: AzuriteServer, tmp_path: Path
) -> None:
    world = world_on(server, "iceberg", iceberg_catalog="lake")
    sql = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db")
    without_adlfs = mock.patch.object(catalogs, "find_spec", return_value=None)
    with rows_of_json(), without_adlfs, mock.patch.object(catalogs, "load_catalog", return_value=sql):
        world.write(OLD)
    sql.close()
    [note] = world.notes()
    assert "the Iceberg catalog 'lake' reads this table's files by adlfs: pip install adlfs" in note
    assert [found.key for found in world.store.list(world.layout.root.key) if "_iceberg/" in found.key] == []
