"""Worlds whose tables have a mirror, and readers of mirrors."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

from table_writer.config import TableWriterConfig
from table_writer.jobs import results
from table_writer.jobs.results import end_publish
from table_writer.mirrors.delta import DeltaMirror
from table_writer.mirrors.delta.snapshot import Snapshot
from table_writer.model.write import WrittenFiles
from table_writer.progress import Stopwatch
from table_writer.protocol.operations.publisher import PublishResult
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.table.services import Services
from table_writer.reports.write_result import WriteResult
from tests.publish.world import ROOT, Rows, World, body_of

PREFIX = f"{ROOT.removeprefix('s3a://lake/')}_delta_log/"
PARQUET = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"


@dataclass
class MirroredWorld(World):
    """A world whose writes are followed by a Delta mirror."""

    config: TableWriterConfig = field(default_factory=lambda: TableWriterConfig(mirrors=["delta"]))
    counts_figures: bool = True
    results: list[WriteResult] = field(default_factory=list)
    memory: dict[Any, Any] = field(default_factory=dict)  # of the process
    remembers: bool = True  # else each call is one of a process of its own
    follows: bool = True  # else writes die before they bring the mirror up
    costs: list[dict[str, int]] = field(default_factory=list)  # of each write, by kind

    def __post_init__(self) -> None:
        if self.metastore.get_table(self.name) is None:
            super().__post_init__()
            self.metastore.create_table(replace(self.table, serde=PARQUET))

    def all_services(self, config: TableWriterConfig | None = None) -> Services:
        services = super().all_services(config)
        services._memory = self.memory if self.remembers else {}
        return services

    def after_publish(self, services: OpenTable, files: WrittenFiles, published: PublishResult) -> None:
        """Do what ``TableWriter`` does then."""
        dies = nullcontext() if self.follows else mock.patch.object(results, "follow_publish", return_value=())
        with dies:
            self.results.append(end_publish(services, files, published, Stopwatch(self.metastore)))

    def write(self, rows: Rows, **options: Any) -> PublishResult:
        """Note what it cost, too."""
        before = Counter(self.store.request_counts())
        published = super().write(rows, **options)
        self.costs.append(dict(Counter(self.store.request_counts()) - before))
        return published

    def commits(self) -> list[str]:
        return [key for key in self.store.list_files(PREFIX) if key.endswith(".json")]

    def mirrored_rows(self, number: int | None = None) -> dict[str, frozenset[int]]:
        """What readers of the mirror see, by partitions, now or in one of its versions; every file is there."""
        snapshot = DeltaMirror(self.services()).read()
        assert snapshot is not None
        assert not snapshot.damage
        if number is not None:
            snapshot = Snapshot(root=self.layout.root)
            for one, key in enumerate(self.commits()[: number + 1]):
                snapshot = snapshot.after(one, map(json.loads, body_of(self.store, key).splitlines()))
        found: dict[str, frozenset[int]] = {}
        for values, files in snapshot.files.items():
            ids: list[int] = []
            for path, _ in files:
                stored = self.store.get(snapshot._key_of(path))
                assert stored is not None, f"the mirror names {path}, which is not there"
                ids += json.loads(stored.body)
            assert len(set(ids)) == len(ids)
            found["".join(value or "" for value in values)] = frozenset(ids)
        return found

    def named_files_are_there(self) -> bool:
        """Whether every file is there that the mirror's newest version names."""
        held = DeltaMirror(self.services()).read()
        assert held is not None
        return all(self.store.head(key) is not None for key in held.keys)

    def notes(self) -> tuple[str, ...]:
        """Return what results say of mirrors."""
        return tuple(note for result in self.results for note in result.notes if "mirror" in note)


def drop_elsewhere(world: MirroredWorld, kind: str) -> None:
    """Let another process drop the mirror."""
    memory, world.memory = world.memory, {}
    world.keeper.mirror(str(world.name), as_=kind, drop=True)
    world.memory = memory


def assert_the_mirror_goes_on(world: MirroredWorld) -> None:
    """After a recovery, a write and a vacuum the mirror holds what the table holds."""
    world.keeper.recover(str(world.name))
    world.write({"next": frozenset({5_000})} if world.table.partition_columns else {"": frozenset({5_000})})
    assert world.mirrored_rows() == world.rows()
    assert world.vacuum().failures == ()
    assert world.leftovers() == []
    assert world.named_files_are_there()
    assert world.mirrored_rows() == world.rows()


def actions_of(world: MirroredWorld, kind: str) -> list[dict[str, Any]]:
    """Return the actions of a kind in all commits, in their order."""
    lines = (line for key in world.commits() for line in body_of(world.store, key).splitlines())
    return [action[kind] for line in lines if kind in (action := json.loads(line))]
