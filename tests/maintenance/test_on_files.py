"""All operations on a table whose store is a file system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from table_writer.storage.local.store import LocalStore
from table_writer.testing.memory_metastore import MemoryMetastore
from tests.cells import first_fast
from tests.publish.world import MetastoreDouble, World
from tests.real.hooked import HookedStore

from .operations import OPERATIONS, Operation, require_same_as_on_s3


class FileWorld(MetastoreDouble):
    def wait_out_claims(self) -> None:
        self.store.skipped_seconds += 10_000


@pytest.fixture
def new_world(tmp_path: Path) -> Callable[[str], FileWorld]:
    def make(spelling: str) -> FileWorld:
        root = f"{spelling}{tmp_path}/mart/orders/"
        metastore = MemoryMetastore()
        metastore.create_table(replace(World().table, location=root))
        return FileWorld(store=HookedStore(LocalStore()), metastore=metastore, root=root)

    return make


@pytest.mark.parametrize("spelling", first_fast(["file://", "file:"]))
@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_an_operation_does_on_files_what_it_does_on_s3(
    operation: Operation, spelling: str, new_world: Callable[[str], FileWorld], tmp_path: Path
) -> None:
    world = new_world(spelling)
    require_same_as_on_s3(operation, world)
    live = {Path(f"/{key}") for _, _, key in world.history().in_use()}
    data = tmp_path / "mart/orders/_table_writer/data"
    empty = [path for path in data.rglob("*") if path.is_dir() and not any(path.iterdir())]
    assert empty == []
    assert {path.parent for path in data.rglob("part-*")} <= live
