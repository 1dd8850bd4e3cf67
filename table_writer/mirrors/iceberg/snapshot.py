"""What readers of an Iceberg mirror find: metadata, and the manifests of its newest snapshot with their files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.snapshots import Snapshot as TableSnapshot
from pyiceberg.typedef import Record

from table_writer.mirrors.iceberg.columns import figures_of, partition_record
from table_writer.mirrors.mirror import (
    HANDED_OVER,
    IN_OTHER_PARTITION,
    OTHER_ROW_COUNT,
    OTHER_SIZE,
    TAKEN_BACK,
    MirrorChange,
    MirroredFile,
    MirroredTable,
    noted_version,
)
from table_writer.model.location import Location
from table_writer.model.table import TableName

PartitionKey = tuple[Any, ...]
RowCounts = Mapping[str, int]  # by the keys of files
CountRows = Callable[[Sequence[MirroredFile]], RowCounts]
LOG_ID: Final = "table_writer.log_id"
DROPPED: Final = "table_writer.dropped"  # a property: its catalog is about to lose the table
VERSION: Final = "table_writer.version"
IN_DOUBT: Final = "table_writer.in_doubt"
WRITE_ID: Final = "table_writer.write_id"
MODE: Final = "table_writer.mode"
MOST_ENTRIES: Final = 2_000  # of a manifest: what a publish writes again where it takes one file away
MOST_MANIFESTS: Final = 100  # Iceberg's commit.manifest.min-count-to-merge


@dataclass(frozen=True, slots=True)
class CatalogPlace:
    """Where readers find a mirror: a note in the table's root says it, so that each process finds the same one."""

    catalog: str  # as pyiceberg's configuration names it; empty: the metastore of the table
    table: TableName

    @classmethod
    def from_note(cls, body: bytes) -> CatalogPlace:
        """Read the note; ``ValueError`` if it is none."""
        facts = json.loads(body)
        return cls(str(facts["catalog"]), TableName.parse(facts["table"]))

    def note(self) -> bytes:
        """Return the note."""
        return json.dumps({"catalog": self.catalog, "table": str(self.table)}).encode()


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """A manifest of the newest snapshot, with the files that readers read."""

    file: ManifestFile
    entries: tuple[ManifestEntry, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    """What a change makes of the files of a snapshot."""

    kept: tuple[Manifest, ...]  # as they are
    existing: tuple[ManifestEntry, ...]  # of manifests that are written anew
    deleted: tuple[ManifestEntry, ...]
    added: tuple[DataFile, ...]

    @property
    def operation(self) -> Operation:
        """Return what Iceberg calls this."""
        if not self.deleted:
            return Operation.APPEND
        return Operation.OVERWRITE if self.added else Operation.DELETE


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """An Iceberg table as its catalog names it."""

    root: Location
    place: CatalogPlace | None = None
    location: str = ""  # of the metadata; empty if there is no such table yet
    metadata: TableMetadata | None = field(default=None, repr=False)  # ``None`` if it cannot be read
    manifests: tuple[Manifest, ...] = ()
    damage: str = ""
    is_whole: bool = True  # whether all of its manifests could be read

    @property
    def current(self) -> TableSnapshot | None:
        """Return what readers read."""
        return None if self.metadata is None else self.metadata.current_snapshot()

    @cached_property
    def _facts(self) -> Mapping[str, str]:
        """Return what the newest snapshot of this library's own says of itself."""
        snapshots = [] if self.metadata is None else [self.current, *reversed(self.metadata.snapshots)]
        return next((facts for snapshot in snapshots if (facts := own_facts(snapshot))), {})

    @property
    def version(self) -> int:
        """Return the version of the log that it holds."""
        return int(self._facts.get(VERSION, 0))

    @property
    def in_doubt(self) -> frozenset[int]:
        """Return earlier versions that were in doubt."""
        return frozenset(map(int, self._facts.get(IN_DOUBT, "").split()))

    @property
    def log_id(self) -> str:
        """Return the id of the log that it follows."""
        return self._properties.get(LOG_ID, "")

    @property
    def is_dropped(self) -> bool:
        """Return whether somebody is dropping it."""
        return DROPPED in self._properties

    @property
    def handed_over(self) -> int:
        """Return the version of the log by which it went on without this library; 0 if it is a mirror."""
        return noted_version(self._properties, HANDED_OVER)

    @property
    def taken_back(self) -> int:
        """Return the newest version of the log by which it became a mirror again; 0 if there is none."""
        return noted_version(self._properties, TAKEN_BACK)

    @property
    def _properties(self) -> Mapping[str, str]:
        return {} if self.metadata is None else self.metadata.properties

    @property
    def own_version(self) -> int:
        """Return the id of the snapshot."""
        return 0 if self.current is None else self.current.snapshot_id

    @property
    def file_count(self) -> int:
        """Return how many files its readers read."""
        return sum(len(manifest.entries) for manifest in self.manifests)

    @cached_property
    def keys(self) -> frozenset[str]:
        """Return the keys of the files that its readers read."""
        return frozenset(self._key_of(entry.data_file.file_path) for entry in self._entries())

    def _key_of(self, path: str) -> str:
        store = f"{self.root.scheme}://{self.root.bucket}/"
        return path.removeprefix(store) if path.startswith(store) else path

    def _entries(self) -> Iterator[ManifestEntry]:
        return (entry for manifest in self.manifests for entry in manifest.entries)

    @cached_property
    def _by_partition(self) -> Mapping[PartitionKey, Mapping[str, ManifestEntry]]:
        """Return the files of each partition, by their paths."""
        found: dict[PartitionKey, dict[str, ManifestEntry]] = {}
        for entry in self._entries():
            found.setdefault(key_of(entry.data_file.partition), {})[entry.data_file.file_path] = entry
        return found

    def differing(self, change: MirrorChange) -> dict[str, str]:
        """Say of files that the mirror names, too, what it says otherwise of them."""
        held = {_path(entry): entry.data_file for entry in self._entries()}
        differences: dict[str, str] = {}
        for values, files in change.partitions.items():
            record = partition_record(values, change.table)
            for file in files:
                before = held.get(str(self.root.beside(file.key)).rstrip("/"))
                if before is None:
                    continue
                is_elsewhere = key_of(before.partition) != key_of(record)
                if why := IN_OTHER_PARTITION if is_elsewhere else _why_differs(before, file):
                    differences[file.key] = why
        return differences

    def respells(self, table: MirroredTable) -> bool:  # noqa: ARG002 - whatever it is
        """Return that all spellings are found: the mapping of names has those of every schema."""
        return False

    def edit(self, change: MirrorChange, schema: Schema, spec: PartitionSpec, count: CountRows) -> Edit:
        """Return what a change makes of these files; ``count`` counts the rows of files where nobody knows them."""
        taken, new = self._differences(change)
        rows = count([file for file, _ in new.values() if file.rows is None])
        added = [data_file(path, file, record, schema, spec, rows) for path, (file, record) in new.items()]
        touched = [manifest for manifest in self.manifests if any(_path(entry) in taken for entry in manifest.entries)]
        kept = [manifest for manifest in self.manifests if manifest not in touched]
        if len(kept) + 1 > MOST_MANIFESTS:
            small = [manifest for manifest in kept if len(manifest.entries) < MOST_ENTRIES // 2]
            touched, kept = [*touched, *small], [manifest for manifest in kept if manifest not in small]
        entries = [entry for manifest in touched for entry in manifest.entries]
        return Edit(
            kept=tuple(kept),
            existing=tuple(entry for entry in entries if _path(entry) not in taken),
            deleted=tuple(entry for entry in entries if _path(entry) in taken),
            added=tuple(added),
        )

    def _differences(self, change: MirrorChange) -> tuple[set[str], dict[str, tuple[MirroredFile, Record]]]:
        """Return the paths of the files that go, and the files that come."""
        records: dict[PartitionKey, Record] = {}
        wanted: dict[PartitionKey, dict[str, MirroredFile]] = {}
        added: dict[PartitionKey, dict[str, MirroredFile]] = {}
        for found, partitions in ((wanted, change.partitions), (added, change.added)):
            for values, files in partitions.items():
                record = partition_record(values, change.table)
                records[key_of(record)] = record
                by_path = {str(self.root.beside(file.key)).rstrip("/"): file for file in files}
                found.setdefault(key_of(record), {}).update(by_path)
        taken: set[str] = set()
        new: dict[str, tuple[MirroredFile, Record]] = {}
        for key in self._by_partition.keys() | wanted.keys() if change.is_whole else wanted.keys():
            before, after = self._by_partition.get(key, {}), wanted.get(key, {})
            taken |= {path for path, entry in before.items() if not _is_same(entry, after.get(path))}
            new |= {path: (file, records[key]) for path, file in after.items() if not _is_same(before.get(path), file)}
        for key, more in added.items():
            before = self._by_partition.get(key, {})
            others = {path: file for path, file in more.items() if not _is_same(before.get(path), file)}
            taken |= others.keys() & before.keys()
            new |= {path: (file, records[key]) for path, file in others.items()}
        return taken, new

    def summary(self, change: MirrorChange, edit: Edit) -> Summary:
        """Return what a snapshot says of itself."""
        deleted = [entry.data_file for entry in edit.deleted]
        files = [*(manifest.entries for manifest in edit.kept), edit.existing]
        all_files = [*(entry.data_file for entries in files for entry in entries), *edit.added]
        counts = {
            "added-data-files": len(edit.added),
            "added-records": sum(file.record_count for file in edit.added),
            "added-files-size": sum(file.file_size_in_bytes for file in edit.added),
            "deleted-data-files": len(deleted),
            "deleted-records": sum(file.record_count for file in deleted),
            "removed-files-size": sum(file.file_size_in_bytes for file in deleted),
            "changed-partition-count": len({key_of(file.partition) for file in (*edit.added, *deleted)}),
        }
        totals = {
            "total-data-files": len(all_files),
            "total-records": sum(file.record_count for file in all_files),
            "total-files-size": sum(file.file_size_in_bytes for file in all_files),
            "total-delete-files": 0,
        }
        facts = {
            VERSION: change.version,
            IN_DOUBT: " ".join(map(str, sorted(change.in_doubt))),
            WRITE_ID: change.write_id,
            MODE: change.mode,
        }
        shown = {**{name: count for name, count in counts.items() if count}, **totals}
        operation = edit.operation if change.changes_rows else Operation.REPLACE
        return Summary(operation, **{name: str(fact) for name, fact in {**shown, **facts}.items() if fact != ""})


def own_facts(snapshot: TableSnapshot | None) -> Mapping[str, str]:
    """Return what a snapshot of this library's own says of itself; nothing of another tool's."""
    facts = {} if snapshot is None or snapshot.summary is None else snapshot.summary.additional_properties
    return facts if facts.get(VERSION, "").isdecimal() else {}


def key_of(record: Record) -> PartitionKey:
    """Return a partition as a key: two NaNs are one, two zeros are two."""
    return tuple(repr(value) if isinstance(value, float) else value for value in values_of(record))


def values_of(record: Record) -> list[Any]:
    """Return what a record holds, in its order."""
    return [record[position] for position in range(len(record))]


def data_file(
    path: str, file: MirroredFile, record: Record, schema: Schema, spec: PartitionSpec, rows: RowCounts
) -> DataFile:
    """Describe a file as a manifest does."""
    facts: dict[str, Any] = {
        "content": DataFileContent.DATA,
        "file_path": path,
        "file_format": FileFormat.PARQUET,
        "partition": record,
        "record_count": rows[file.key] if file.rows is None else file.rows,
        "file_size_in_bytes": file.size_bytes,
        **figures_of(file, schema),
    }
    made = DataFile.from_args(**facts)
    made.spec_id = spec.spec_id
    return made


def new_entry(file: DataFile, snapshot_id: int, sequence_number: int) -> ManifestEntry:
    """Return the entry of a file that a snapshot adds, as readers find it."""
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.ADDED,
        snapshot_id=snapshot_id,
        sequence_number=sequence_number,
        file_sequence_number=sequence_number,
        data_file=file,
    )


def _path(entry: ManifestEntry) -> str:
    return entry.data_file.file_path


def _is_same(entry: ManifestEntry | None, file: MirroredFile | None) -> bool:
    return entry is not None and file is not None and not _why_differs(entry.data_file, file)


def _why_differs(before: DataFile, file: MirroredFile) -> str:
    """Say how the description of a file differs; empty where nothing is known to."""
    if before.file_size_in_bytes != file.size_bytes:
        return OTHER_SIZE
    return OTHER_ROW_COUNT if file.rows not in {None, before.record_count} else ""
