"""The manifests of an Iceberg mirror, and the lists that name them."""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Iterator, Sequence
from typing import Final

from pyiceberg.exceptions import ResolveError, ValidationError
from pyiceberg.manifest import ManifestEntry, ManifestFile, read_manifest_list, write_manifest, write_manifest_list
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1
from pyiceberg.table.snapshots import Snapshot as TableSnapshot

from table_writer.mirrors.iceberg.files import StoreFiles
from table_writer.mirrors.iceberg.snapshot import MOST_ENTRIES, Edit, Manifest, Snapshot, new_entry, values_of
from table_writer.mirrors.mirror import MirrorChange
from table_writer.storage.object_store import many

FORMAT_VERSION: Final = 2
COMPRESSION: Final = "deflate"  # of manifests: what every reader has
UNREADABLE: Final = (  # what pyiceberg raises of a file that is cut off or no Avro
    *(FileNotFoundError, ValidationError, ValueError, EOFError, KeyError, IndexError, TypeError),
    *(AssertionError, OverflowError, AttributeError, NotImplementedError, SystemError, ResolveError, zlib.error),
)


class ManifestFiles:
    """Writes and reads the manifests of one mirror."""

    def __init__(self, files: StoreFiles, prefix: str) -> None:
        self._files = files
        self._prefix = prefix

    def put_snapshot(
        self, before: Snapshot, change: MirrorChange, edit: Edit, metadata: TableMetadata, schema: Schema
    ) -> tuple[TableSnapshot, tuple[Manifest, ...]]:
        """Write manifests and their list."""
        snapshot_id, number = secrets.randbits(62), last_number(metadata) + 1
        manifests = self._put_manifests(edit, metadata.spec(), schema, snapshot_id, number)
        all_manifests = (*edit.kept, *manifests)
        parent = metadata.current_snapshot_id
        output = self._files.new_output(self._new_file(f"snap-{snapshot_id}"))
        with write_manifest_list(FORMAT_VERSION, output, snapshot_id, parent, number, COMPRESSION) as writer:
            writer.add_manifests([manifest.file for manifest in all_manifests])
        facts = {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": parent,
            "sequence-number": number,
            "timestamp-ms": max(millis(change), metadata.last_updated_ms),
            "manifest-list": output.location,
            "summary": before.summary(change, edit),
            "schema-id": schema.schema_id,
        }
        snapshot = TableSnapshot.model_validate(facts)
        return snapshot, tuple(manifest for manifest in all_manifests if manifest.entries)

    def _put_manifests(
        self, edit: Edit, spec: PartitionSpec, schema: Schema, snapshot_id: int, number: int
    ) -> list[Manifest]:
        """Write what a change touches in as few manifests as may be."""
        added = [new_entry(file, snapshot_id, number) for file in edit.added]
        todo: list[tuple[str, ManifestEntry]] = [
            *(("existing", entry) for entry in edit.existing),
            *(("delete", entry) for entry in edit.deleted),
            *(("add", entry) for entry in added),
        ]
        if len(todo) > MOST_ENTRIES:
            todo.sort(key=lambda one: repr(values_of(one[1].data_file.partition)))

        def put(batch: Sequence[tuple[str, ManifestEntry]]) -> Manifest:
            output = self._files.new_output(self._new_file("manifest"))
            with write_manifest(FORMAT_VERSION, spec, schema, output, snapshot_id, COMPRESSION) as writer:
                for kind, entry in batch:
                    getattr(writer, kind)(entry)
            file = _with_numbers(writer.to_manifest_file(), number)
            return Manifest(file=file, entries=tuple(entry for kind, entry in batch if kind != "delete"))

        return many(put, list(_batches(todo)))

    def _new_file(self, name: str) -> str:
        return self._files.location_of(f"{self._prefix}{name}-{secrets.token_hex(8)}.avro").rstrip("/")

    def keys_named(self, snapshots: Sequence[TableSnapshot]) -> dict[int, frozenset[str] | None]:
        """Return the keys of the files of each snapshot; ``None`` if it cannot be read."""
        lists = many(self.of, snapshots)
        distinct = {file.manifest_path: file for files in lists for file in files or ()}
        keys = dict(zip(distinct, many(self._keys_in, distinct.values()), strict=True))
        named: dict[int, frozenset[str] | None] = {}
        for snapshot, files in zip(snapshots, lists, strict=True):
            of_all = [] if files is None else [keys[file.manifest_path] for file in files]
            readable = [found for found in of_all if found is not None]
            is_whole = files is not None and len(readable) == len(of_all)
            named[snapshot.snapshot_id] = frozenset().union(*readable) if is_whole else None
        return named

    def of(self, snapshot: TableSnapshot) -> list[ManifestFile] | None:
        """Return what the list of a snapshot names; ``None`` if it cannot be read."""
        try:
            return list(read_manifest_list(self._files.new_input(snapshot.manifest_list)))
        except UNREADABLE:
            return None

    def _keys_in(self, file: ManifestFile) -> frozenset[str] | None:
        try:
            entries = file.fetch_manifest_entry(self._files)
        except UNREADABLE:
            return None
        return frozenset(self._files.key_of(entry.data_file.file_path) for entry in entries)


def last_number(metadata: TableMetadata) -> int:
    """Return the last sequence number of a table."""
    return 0 if isinstance(metadata, TableMetadataV1) else metadata.last_sequence_number


def _with_numbers(file: ManifestFile, number: int) -> ManifestFile:
    """Return a manifest with the sequence numbers that its list gives it."""
    file.sequence_number = number
    file.min_sequence_number = number if file.min_sequence_number < 0 else min(file.min_sequence_number, number)
    return file


def _batches(todo: Sequence[tuple[str, ManifestEntry]]) -> Iterator[Sequence[tuple[str, ManifestEntry]]]:
    return (todo[start : start + MOST_ENTRIES] for start in range(0, len(todo), MOST_ENTRIES))


def millis(change: MirrorChange) -> int:
    """Return when a change was made, as Iceberg has times."""
    return int(change.created_at.timestamp() * 1000)
