"""The files of touched partitions whose rows stay: the store copies them beside the new ones, each as it was listed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from table_writer.jobs.rows.hits import FileNames, rows_by_file
from table_writer.jobs.rows.snapshot import Files, Snapshot
from table_writer.model.contents import Contents
from table_writer.model.table import PartitionValues, name_in
from table_writer.model.write import FileKeys, WritePlan, WrittenFiles, WrittenPartition
from table_writer.reports.write_result import PartitionResult
from table_writer.storage.object_store import ObjectInfo


def files_that_stay(snapshot: Snapshot, replaced: FileNames, touched: Collection[PartitionValues]) -> Files:
    """Return the files of touched partitions that are not replaced."""
    chosen = {
        values: {name: file for name, file in files.items() if name not in replaced.get(values, ())}
        for values, files in snapshot.files_of(touched).items()
    }
    return {values: files for values, files in chosen.items() if files}


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptFiles:
    """The files that stay, by partition, with the number of their rows; and that of the replaced files, if counted."""

    files: Files = field(default_factory=dict)
    rows: Mapping[PartitionValues, int] = field(default_factory=dict)
    replaced_rows: int = 0

    @classmethod
    def of(
        cls, snapshot: Snapshot, replaced: FileNames, touched: Collection[PartitionValues], *, counts: bool
    ) -> KeptFiles:
        """Choose the files of touched partitions that are not replaced; ``counts``: rows of the replaced ones, too."""
        every, kept = snapshot.files_of(touched), files_that_stay(snapshot, replaced, touched)
        row_counts = rows_by_file(snapshot, every if counts else kept)
        return cls(
            files=kept,
            rows={values: sum(row_counts[values].get(name, 0) for name in files) for values, files in kept.items()},
            replaced_rows=sum(row_counts[values].get(name, 0) for values in replaced for name in replaced[values])
            if counts
            else 0,
        )

    def copies(self, written: WrittenFiles) -> dict[str, ObjectInfo]:
        """Return the copies to make: the new keys, each with the file as it was listed."""
        own = _by_spelling(written)
        return {
            f"{_directory(written.plan, own.get(values), values)}{name}": file
            for values, files in self.files.items()
            for name, file in files.items()
        }

    def beside(self, written: WrittenFiles) -> WrittenFiles:
        """Return the files of the write with the copies among them; figures of columns are of the new files alone."""
        if not self.files:
            return written
        own = _by_spelling(written)
        partitions = [self._beside(written.plan, values, own.get(values)) for values in own.keys() | self.files.keys()]
        in_order = sorted(partitions, key=lambda partition: partition.values)
        return replace(written, partitions=tuple(in_order), statistics={})

    def result_of(self, partition: PartitionResult) -> PartitionResult:
        """Return the result of a partition with the copies apart from what was written."""
        files = self.files.get(partition.values, {})
        size_bytes = Contents.of(files.values()).bytes
        return replace(
            partition,
            rows=(partition.rows or 0) - self.rows.get(partition.values, 0),
            bytes=partition.bytes - size_bytes,
            files=partition.files - len(files),
            copied_files=len(files),
            copied_bytes=size_bytes,
        )

    def _beside(self, plan: WritePlan, values: PartitionValues, own: WrittenPartition | None) -> WrittenPartition:
        files = self.files.get(values, {})
        new = own or WrittenPartition(values=values, keys=(), rows=0, bytes=0, raw_bytes=None)
        if not files:
            return new
        directory = _directory(plan, own, values)
        return replace(
            new,
            keys=FileKeys([*new.keys, *(f"{directory}{name}" for name in files)]),
            rows=new.rows + self.rows[values],
            bytes=new.bytes + Contents.of(files.values()).bytes,
            raw_bytes=None,
            figures="",
        )


def _by_spelling(written: WrittenFiles) -> dict[PartitionValues, WrittenPartition]:
    """Return the partitions of a write as the metastore spells them."""
    return {written.plan.spelled(partition.values): partition for partition in written.partitions}


def _directory(plan: WritePlan, own: WrittenPartition | None, values: PartitionValues) -> str:
    """Return the key of the directory that the write has for a partition."""
    return plan.data_location.child(name_in(plan.table, own.values if own else values)).key
