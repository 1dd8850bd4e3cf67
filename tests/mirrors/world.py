"""Worlds whose tables have a mirror, and readers of mirrors."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

from table_writer.config import TableWriterConfig
from table_writer.model.write import WritePlan, WrittenFiles
from table_writer.progress import Stopwatch
from table_writer.reports.write_result import WriteResult
from table_writer.steps.mirrors.delta import DeltaMirror
from table_writer.steps.results import end_publish
from table_writer.steps.running_write import RunningWrite
from tests.publish.world import ROOT, Rows, World, publisher_of

PREFIX = f"{ROOT.removeprefix('s3a://lake/')}_delta_log/"
PARQUET = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"


@dataclass
class MirroredWorld(World):
    """A world whose writes are followed by a Delta mirror."""

    config: TableWriterConfig = field(default_factory=lambda: TableWriterConfig(mirrors=["delta"]))
    counts_figures: bool = True
    results: list[WriteResult] = field(default_factory=list)
    memory: dict = field(default_factory=dict)  # of the process: a new one begins with nothing

    def __post_init__(self) -> None:
        super().__post_init__()
        self.metastore.create_table(replace(self.table, serde=PARQUET))

    def all_services(self, config: TableWriterConfig | None = None):
        services = super().all_services(config)
        services._memory = self.memory
        return services

    def write(self, rows: Rows, *, plan: WritePlan | None = None, before_publish=int, config=None):
        """Do what ``TableWriter`` does after the plan, to the end."""
        services = self.services(config)
        plan = plan or self.plan()
        services.log.expect(plan.log_id)
        self.columns |= dict.fromkeys(frozenset().union(*rows.values()), plan.columns)
        with RunningWrite(services, plan) as write:
            messages = (self._upload(plan, rows),)
            write.complete(messages)
            before_publish()
            files = WrittenFiles.from_messages(plan, messages, keeps_files=bool(services.mirrors))
            published = publisher_of(services).publish(files, write.claiming)
        self.results.append(end_publish(services, files, published, Stopwatch(self.metastore)))
        return published

    def commits(self) -> list[str]:
        return [key for key in self.store.list_files(PREFIX) if key.endswith(".json")]

    def mirrored_rows(self) -> dict[str, frozenset[int]]:
        """What readers of the mirror see, by partitions; every file is there."""
        snapshot = DeltaMirror(self.services()).read()
        assert snapshot is not None
        assert not snapshot.damage
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

    def notes(self) -> tuple[str, ...]:
        return tuple(note for result in self.results for note in result.notes if "mirror" in note)
