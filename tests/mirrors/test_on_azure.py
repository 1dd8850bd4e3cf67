"""Mirrors of a table whose files are in Azure, as Azurite has it: what they hold after each operation."""

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
from table_writer.steps.mirrors.iceberg import catalog as catalogs
from table_writer.storage import open_store
from table_writer.storage.hadoop import settings_for
from tests.azurite import AzuriteServer
from tests.doubles.memory_metastore import MemoryMetastore
from tests.maintenance.operations import MIXED, OLD, OPERATIONS, REPLACED, Operation
from tests.maintenance.remote_world import RemoteWorld
from tests.publish.world import World
from tests.real.hooked import HookedStore

from .iceberg_world import IcebergWorld, rows_of_json
from .world import PARQUET, MirroredWorld, assert_the_mirror_goes_on

pytestmark = pytest.mark.needs("azure")


@dataclass
class DeltaInAzure(RemoteWorld, MirroredWorld):
    """A world in Azure whose writes are followed by a Delta mirror."""


@dataclass
class IcebergInAzure(RemoteWorld, IcebergWorld):
    """A world in Azure whose writes are followed by an Iceberg mirror."""


WORLDS = {"delta": DeltaInAzure, "iceberg": IcebergInAzure}


FAST: Final = {"append in place to our partitions", "compaction after an append in place", "rollback", "vacuum"}


def chosen() -> list[Any]:
    """All operations, some of them in the fast run."""
    assert {str(operation) for operation in OPERATIONS} >= FAST
    return [
        pytest.param(operation, marks=[] if str(operation) in FAST else [pytest.mark.slow]) for operation in OPERATIONS
    ]


@pytest.fixture(scope="module")
def azurite() -> Iterator[AzuriteServer]:
    with AzuriteServer() as server:
        yield server


def in_azure(kind: str, azurite: AzuriteServer, **config: Any) -> DeltaInAzure | IcebergInAzure:
    root, hadoop = azurite.location(f"{uuid.uuid4().hex}/mart/orders/"), azurite.hadoop_settings()
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
def world(request: pytest.FixtureRequest, azurite: AzuriteServer) -> Iterator[DeltaInAzure | IcebergInAzure]:
    with rows_of_json():
        yield in_azure(request.param, azurite)


@pytest.mark.parametrize("operation", chosen(), ids=str)
def test_the_mirror_has_the_rows_of_the_table_after_each_operation_and_a_vacuum(
    operation: Operation, world: DeltaInAzure | IcebergInAzure
) -> None:
    operation.prepare(world)
    operation.run(world)
    world.wait_out_claims()
    assert_the_mirror_goes_on(world)


def test_of_two_commits_of_one_number_one_wins_and_the_other_follows(world: DeltaInAzure | IcebergInAzure) -> None:
    world.write(OLD)
    if isinstance(world, DeltaInAzure):
        world.at_store("put_if_absent", "before", lambda: world.write(MIXED), key="00001.json")
    else:
        world.at_store("put", "before", lambda: world.write(MIXED), key=".metadata.json")
    world.write(REPLACED)
    assert world.mirrored_rows() == world.rows()
    assert world.notes() == ()


def test_what_is_missing_is_told_and_repaired(world: DeltaInAzure | IcebergInAzure) -> None:
    kind, lost = ("delta", "0.json") if isinstance(world, DeltaInAzure) else ("iceberg", ".avro")
    name = str(world.name)
    world.write(OLD)
    world.write(MIXED)
    world.store.delete([found for found in world.store.list(world.layout.root.key) if found.key.endswith(lost)])
    assert world.keeper.mirror(name, as_=kind, check=True).state == "damaged"
    assert world.keeper.mirror(name, as_=kind, repair=True).state == "in step"
    assert world.mirrored_rows() == world.rows()
    assert world.keeper.mirror(name, as_=kind, drop=True).state == "dropped"
    assert world.keeper.mirror(name, as_=kind, check=True).state == "absent"


def test_a_catalog_that_cannot_read_there_is_refused_before_anything_is_written(
    azurite: AzuriteServer, tmp_path: Path
) -> None:
    world = in_azure("iceberg", azurite, iceberg_catalog="lake")
    sql = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db")
    without_adlfs = mock.patch.object(catalogs, "find_spec", return_value=None)
    with rows_of_json(), without_adlfs, mock.patch.object(catalogs, "load_catalog", return_value=sql):
        world.write(OLD)
    sql.close()
    [note] = world.notes()
    assert "the Iceberg catalog 'lake' reads files in Azure by adlfs: pip install adlfs" in note
    assert [found.key for found in world.store.list(world.layout.root.key) if "_iceberg/" in found.key] == []
