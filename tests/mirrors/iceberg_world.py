"""Worlds whose tables have an Iceberg mirror, and pyiceberg's own scan of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from unittest import mock

from pyiceberg.table import StaticTable
from pyiceberg.table.snapshots import Snapshot

from table_writer.config import TableWriterConfig
from table_writer.mirrors.iceberg import table as iceberg_table
from table_writer.mirrors.iceberg.files import StoreFiles
from table_writer.mirrors.iceberg.snapshot import VERSION
from table_writer.mirrors.iceberg.table import IcebergMirror
from table_writer.model.table import TableName
from table_writer.storage.object_store import ObjectStore
from tests.publish.world import ROOT

from .world import MirroredWorld

HOME: Final = f"{ROOT.removeprefix('s3a://lake/')}_iceberg/"
MIRROR: Final = TableName("mart", "orders_iceberg")


@dataclass
class IcebergWorld(MirroredWorld):
    """A world whose writes are followed by an Iceberg mirror."""

    config: TableWriterConfig = field(default_factory=lambda: TableWriterConfig(mirrors=["iceberg"]))

    @property
    def metadata_location(self) -> str:
        table = self.metastore.get_table(MIRROR)
        assert table is not None
        return str(table.parameters["metadata_location"])

    def read_by_pyiceberg(self) -> StaticTable:
        """Return the mirror as pyiceberg finds it from its metadata alone."""
        files = StoreFiles(self.store, self.layout.root)
        with mock.patch("pyiceberg.table.load_file_io", return_value=files):
            return StaticTable.from_metadata(self.metadata_location)

    def snapshots(self) -> list[Snapshot]:
        return sorted(self.read_by_pyiceberg().metadata.snapshots, key=lambda found: found.sequence_number or 0)

    def versions(self) -> list[int]:
        """The versions of the log that snapshots hold."""
        return [int(found.summary[VERSION]) for found in self.snapshots() if found.summary]

    def commits(self) -> list[str]:
        return [found.manifest_list for found in self.snapshots()]

    def mirrored_rows(self, number: int | None = None) -> dict[str, frozenset[int]]:
        """What a scan of pyiceberg's plans to read, by partitions; every file is there."""
        assert not (IcebergMirror(self.services()).read() or mock.Mock(damage="absent")).damage
        table = self.read_by_pyiceberg()
        chosen = {} if number is None else {"snapshot_id": self.snapshots()[number].snapshot_id}
        found: dict[str, list[int]] = {}
        for task in table.scan(**chosen).plan_files():
            key = StoreFiles(self.store, self.layout.root).key_of(task.file.file_path)
            stored = self.store.get(key)
            assert stored is not None, f"the mirror names {key}, which is not there"
            ids = json.loads(stored.body)
            assert task.file.record_count == len(ids)
            values = "".join(value or "" for value in task.file.partition)
            found[values] = [*found.get(values, ()), *ids]
        assert all(len(set(ids)) == len(ids) for ids in found.values())
        return {values: frozenset(ids) for values, ids in found.items()}

    def named_files_are_there(self) -> bool:
        """Whether every file is there that any snapshot names."""
        return all(
            self.store.head(StoreFiles(self.store, self.layout.root).key_of(task.file.file_path)) is not None
            for snapshot in self.snapshots()
            for task in self.read_by_pyiceberg().scan(snapshot_id=snapshot.snapshot_id).plan_files()
        )


@contextmanager
def rows_of_json() -> Iterator[None]:
    """Let the footers of files that are no Parquet tell their rows."""

    def count(store: ObjectStore, key: str) -> int | None:
        found = store.get(key)
        return None if found is None else len(json.loads(found.body))

    with mock.patch.object(iceberg_table, "count_rows", count):
        yield


def facts_of(snapshot: Snapshot) -> dict[str, Any]:
    assert snapshot.summary is not None
    return snapshot.summary.additional_properties
