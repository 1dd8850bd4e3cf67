"""The mirror of a table in Iceberg's format, as it lies in the store and in a catalog."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from pyiceberg.manifest import ManifestContent, read_manifest_list
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    RemovePropertiesUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    update_table_metadata,
)

from table_writer.errors import InvalidInputError, StorageError
from table_writer.mirrors.iceberg.catalog import Catalog, OwnCatalog, PyIcebergCatalog
from table_writer.mirrors.iceberg.columns import FieldIds, first_clash, is_same_schema, name_mapping, schema_of, spec_of
from table_writer.mirrors.iceberg.files import MetadataFiles, StoreFiles
from table_writer.mirrors.iceberg.manifests import FORMAT_VERSION, UNREADABLE, ManifestFiles, last_number, millis
from table_writer.mirrors.iceberg.snapshot import DROPPED, LOG_ID, CatalogPlace, Manifest, Snapshot, own_facts
from table_writer.mirrors.mirror import HANDED_OVER, TAKEN_BACK, Held, MirrorChange, MirroredFile, NotOursError
from table_writer.model.location import Location
from table_writer.model.table import TableName
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.table.root_markers import ICEBERG_MIRROR, iceberg_note
from table_writer.storage.footers import Names, count_rows, other_spellings, paths_of
from table_writer.storage.kinds import kind_of
from table_writer.storage.object_store import many
from table_writer.storage.table_files import delete_keys, require_deleted

NAME_MAPPING: Final = "schema.name-mapping.default"
MOST_SNAPSHOTS: Final = 500  # each publish writes what is told of all of them
RELEASES: Final = 10  # while other processes write


class IcebergMirror:
    """The mirror of a table in Iceberg's format."""

    numbers_versions: ClassVar = False

    def __init__(self, opened: OpenTable) -> None:
        self._opened = opened
        self._store = opened.store
        self._root = opened.layout.root
        self.home = self._root.child(ICEBERG_MIRROR)
        self.files = StoreFiles(opened.store, self._root)
        self._metadata_prefix = f"{self.home.key}metadata/"
        self._manifests = ManifestFiles(self.files, self._metadata_prefix)

    def read(self) -> Snapshot | None:
        """Read where the catalog is, what it names, and what that comes to."""
        return self._read_at(self._noted())

    def _read_at(self, place: CatalogPlace | None) -> Snapshot | None:
        location = None if place is None else self._catalog(place).find()
        if place is None or location is None:
            return None
        self._require_own(place, location)
        try:
            metadata = TableMetadataUtil.parse_raw(self.files.read(location).decode())
        except UNREADABLE as error:
            damage = f"{location} cannot be read: {error}"
            return Snapshot(root=self._root, place=place, location=location, damage=damage)
        return self._snapshot(Snapshot(root=self._root, place=place, location=location, metadata=metadata), metadata)

    def is_there(self, held: Held) -> bool:  # noqa: ARG002 - the catalog tells
        """Leave that to the catalog, which takes no change of a table that it has not."""
        return True

    def why_unfit(self, wanted: Names, there: Names, *, has_ids: bool) -> str:
        """Say why: the mapping of names is for files without ids, and it cannot say which of two columns is meant."""
        twice = next((found for found in other_spellings(wanted, there) if len(found[1]) > 1), None)
        if twice is not None:
            return f"has column {'.'.join(twice[0])} twice, as {' and '.join(twice[1])}"
        clash = first_clash((*paths_of(wanted), *paths_of(there)))
        if clash and not first_clash(paths_of(wanted)):  # else the table itself is refused
            return f"has a column, or a field inside one, that Iceberg cannot tell from another: both are {clash}"
        if has_ids:
            return "has ids for its columns, and readers of Iceberg would find columns by these"
        return ""

    def write(self, held: Held | None, change: MirrorChange) -> Snapshot | None:
        """Write the manifests, their list and the metadata of a snapshot, and let the catalog name it."""
        before = held if isinstance(held, Snapshot) else Snapshot(root=self._root)
        metadata, is_new = self._base(before, change)
        if is_new:
            before = replace(before, manifests=())
            if not (before.location or self._is_free()):
                return None
        schema, updates = (metadata.schema(), ()) if is_new else _table_updates(metadata, change)
        edit = before.edit(change, schema, metadata.spec(), self._count_rows)
        is_held = change.version <= before.version and change.in_doubt == before.in_doubt and not is_new
        if is_held and not (updates or edit.added or edit.deleted or before.damage):
            return before
        snapshot, manifests = self._manifests.put_snapshot(before, change, edit, metadata, schema)
        to_main = {"ref-name": "main", "type": "branch", "snapshot-id": snapshot.snapshot_id}
        shown = (AddSnapshotUpdate(snapshot=snapshot), SetSnapshotRefUpdate.model_validate(to_main))
        return self._committed(before, metadata, (*updates, *shown, *_expiries(metadata)), manifests, is_new=is_new)

    def hand_over(self, held: Held, version: int) -> Snapshot | None:
        """Note it: Iceberg's engines can write as it is. Files that readers of the Hive table need stay no one's."""
        return self._with_updates(held, (SetPropertiesUpdate(updates={HANDED_OVER: str(version)}),))

    def take_back(self, held: Held, version: int) -> Snapshot | None:
        """Note that."""
        removals = (RemovePropertiesUpdate(removals=[HANDED_OVER]),) if held.handed_over else ()
        return self._with_updates(held, (SetPropertiesUpdate(updates={TAKEN_BACK: str(version)}), *removals))

    def _with_updates(self, held: Held, updates: tuple[TableUpdate, ...]) -> Snapshot | None:
        if not isinstance(held, Snapshot) or held.metadata is None:
            raise InvalidInputError(f"the iceberg mirror cannot be read: {held.damage}")
        return self._committed(held, held.metadata, updates, held.manifests, is_new=False)

    def _committed(
        self,
        before: Snapshot,
        metadata: TableMetadata,
        updates: tuple[TableUpdate, ...],
        manifests: tuple[Manifest, ...],
        *,
        is_new: bool,
    ) -> Snapshot | None:
        place = before.place or self._place()
        catalog = self._catalog(place)
        if not is_new:
            answer = catalog.commit(before.location, metadata, updates)
        else:
            made = update_table_metadata(metadata, updates)
            if not before.location:  # before the table is there, a note in the root says where it is
                self._store.put(self._note_key, place.note())
            location = catalog.replace(before.location, made) if before.location else catalog.add(made)
            answer = None if location is None else (location, made)
        if answer is None:
            return None
        location, after = answer
        return Snapshot(root=self._root, place=place, location=location, metadata=after, manifests=manifests)

    def _is_free(self) -> bool:
        """Return whether no table has the mirror's name; if it is the mirror itself, note where it is."""
        place = self._place()
        location = self._catalog(place).find()
        if location is not None:
            self._require_own(place, location)
            self._store.put(self._note_key, place.note())
        return location is None

    def _place(self) -> CatalogPlace:
        return self._noted() or CatalogPlace(self._opened.config.iceberg_catalog, _usual_name(self._opened.table.name))

    def release(self, locations: Collection[Location]) -> None:
        """Expire the earlier snapshots that name files there: no snapshot is listed that cannot be read."""
        for _ in range(RELEASES):
            held = self.read()
            if held is None or held.metadata is None or held.place is None:
                return
            metadata, places = held.metadata, tuple(location.key for location in locations)
            earlier = [found for found in metadata.snapshots if found.snapshot_id != metadata.current_snapshot_id]
            named = self._manifests.keys_named(earlier)
            ids = [
                snapshot_id
                for snapshot_id, keys in named.items()
                if keys is None or any(key.startswith(places) for key in keys)
            ]
            if not ids or self._catalog(held.place).commit(held.location, metadata, _removal(ids)):
                return
        raise StorageError(f"other processes have written to the mirror {RELEASES} times meanwhile")

    def tidy(self, older_than_seconds: float) -> None:
        """Delete files that no snapshot needs and that are old enough."""
        owner = self._store.get(self._opened.layout.owner_key)
        listed = [] if owner is None else list(self._store.list(self._metadata_prefix))
        if owner is None or not listed:
            return
        now = owner.info.modified_at.timestamp() + owner.age_seconds
        old = [found for found in listed if now - found.modified_at.timestamp() > older_than_seconds]
        held = self.read() if old else None
        if held is None or held.metadata is None:
            return
        lists = many(self._manifests.of, held.metadata.snapshots)
        needed = {held.location, *(found.metadata_file for found in held.metadata.metadata_log)}
        needed |= {snapshot.manifest_list for snapshot in held.metadata.snapshots}
        needed |= {file.manifest_path for files in lists for file in files or ()}
        keys = set(map(self.files.key_of, needed))
        gone = [found for found in old if found.key not in keys]
        require_deleted(delete_keys(self._store, gone), str(self.home))

    def why_unguarded(self) -> str:
        """Ask the catalog."""
        return self._catalog(self._place()).why_unguarded()

    def retire(self, held: Held) -> Snapshot | None:
        """Note it in the table, whose catalog compares; what cannot be read can be noted nowhere, nor handed over."""
        if not isinstance(held, Snapshot) or held.metadata is None:
            return held if isinstance(held, Snapshot) else None
        return self._with_updates(held, (SetPropertiesUpdate(updates={DROPPED: str(held.version)}),))

    def drop(self, held: Held | None) -> int:
        """Drop the table from its catalog, for which who makes it anew waits, then delete its metadata.

        Whoever makes it anew has noted that in the log before the first file of it.
        """
        keys = [found.key for found in self._store.list(self.home.key)]
        retired = held or self._left_over(keys)
        if isinstance(retired, Snapshot) and retired.place is not None:
            catalog = self._catalog(retired.place)
            if catalog.find() == retired.location:
                catalog.remove()
        self._opened.log.lister.read(allow_lost=True)
        if self._opened.log.lister.mirror("iceberg").is_there:
            return 0
        require_deleted(delete_keys(self._store, keys), str(self.home))
        return len(keys)

    def _left_over(self, keys: Sequence[str]) -> Snapshot | None:
        """Return the table that a drop has left which has died: a note is there yet."""
        notes = (key for key in keys if key.endswith(".json") and "/" not in key.removeprefix(self.home.key))
        found = (self._read_at(self._noted(key)) for key in notes)
        return next((table for table in found if table is not None and table.is_dropped), None)

    @property
    def _note_key(self) -> str:
        return iceberg_note(self._root, self._opened.log.lister.mirror("iceberg").number)

    def _noted(self, key: str = "") -> CatalogPlace | None:
        """Read where readers find the mirror; ``None`` if there is no note that can be read."""
        found = self._store.get(key or self._note_key)
        try:
            return None if found is None else CatalogPlace.from_note(found.body)
        except (ValueError, KeyError, TypeError):
            return CatalogPlace(self._opened.config.iceberg_catalog, _usual_name(self._opened.table.name))

    def _catalog(self, place: CatalogPlace) -> Catalog:
        files = MetadataFiles(self.files, self._metadata_prefix)
        if place.catalog:
            needed = kind_of(self._root).iceberg_library
            return PyIcebergCatalog(place.catalog, place.table, files, needed=needed)
        return OwnCatalog(self._opened.metastore, place.table, files)

    def _require_own(self, place: CatalogPlace, location: str) -> None:
        found = Location.parse_any(location)
        if found is None or not self.home.contains(found):
            raise NotOursError(
                f"{place.table} is a table that this library did not make: it is left alone. Drop or rename it if"
                " nobody needs it",
                table=str(self._opened.table.name),
            )

    def _snapshot(self, found: Snapshot, metadata: TableMetadata) -> Snapshot:
        """Return the newest snapshot with its files, and what is wrong with it."""
        current, damage = metadata.current_snapshot(), ""
        if current is None:
            return replace(found, damage="it has no snapshot")
        if not own_facts(current):
            damage = f"another tool has made snapshot {current.snapshot_id}"
        elif found.handed_over and last_number(metadata) != current.sequence_number:
            damage = "another tool has made a snapshot that is not the current one, on a branch or before a rollback"
        elif metadata.properties.get("gc.enabled") != "false" or NAME_MAPPING not in metadata.properties:
            damage = "another tool has changed its properties"
        try:
            listed = list(read_manifest_list(self.files.new_input(current.manifest_list)))
            data = [file for file in listed if file.content == ManifestContent.DATA]
            entries = many(lambda file: file.fetch_manifest_entry(self.files), data)
        except UNREADABLE as error:
            return replace(found, damage=f"a manifest cannot be read: {error}", is_whole=False)
        manifests = tuple(
            Manifest(file=file, entries=tuple(of_file)) for file, of_file in zip(data, entries, strict=True)
        )
        return replace(found, manifests=manifests, damage=damage)

    def _base(self, before: Snapshot, change: MirrorChange) -> tuple[TableMetadata, bool]:
        """Return the metadata to go on from, and whether it is new: nothing of it can be gone on from."""
        metadata = before.metadata
        if metadata is not None and before.is_whole:
            names = tuple(field.name for field in metadata.spec().fields)
            if names == change.table.partition_columns and metadata.location == str(self.home).rstrip("/"):
                return metadata, False
        schema = schema_of(change.table, FieldIds())
        made = new_table_metadata(
            schema,
            spec_of(change.table, schema),
            UNSORTED_SORT_ORDER,
            str(self.home).rstrip("/"),
            {**_properties(change, [schema]), "format-version": str(FORMAT_VERSION)},
        )
        return made.model_copy(update={"last_updated_ms": millis(change)}), True

    def _count_rows(self, files: Sequence[MirroredFile]) -> dict[str, int]:
        """Read the footers of files of which the log does not know how many rows they have."""
        counts = many(lambda file: count_rows(self._store, file.key), files)
        if unknown := [file.key for file, count in zip(files, counts, strict=True) if count is None]:
            raise InvalidInputError(f"how many rows {unknown[0]} has cannot be read: it is no Parquet, or encrypted")
        return {file.key: int(count or 0) for file, count in zip(files, counts, strict=True)}


def _usual_name(table: TableName) -> TableName:
    return TableName(table.database, f"{table.name}_iceberg")


def _properties(change: MirrorChange, schemas: Sequence[Schema], mapped: str = "") -> dict[str, str]:
    """Return the properties of the mirror: readers find columns by names, and nobody deletes its files."""
    return {
        NAME_MAPPING: name_mapping(change.table, schemas, change.paths, mapped),
        "gc.enabled": "false",
        "write.metadata.previous-versions-max": "20",
        LOG_ID: change.table.log_id,
    }


def _table_updates(metadata: TableMetadata, change: MirrorChange) -> tuple[Schema, tuple[TableUpdate, ...]]:
    """Return the columns of a table, and what changes of what readers are told of it."""
    ids = FieldIds.of(metadata.schemas, metadata.last_column_id)
    wanted = schema_of(change.table, ids, max(schema.schema_id for schema in metadata.schemas) + 1)
    same = next((schema for schema in metadata.schemas if is_same_schema(schema, wanted)), None)
    updates: list[TableUpdate] = [] if same else [AddSchemaUpdate.model_validate({"schema": wanted})]
    schema = same or wanted
    if schema.schema_id != metadata.current_schema_id:
        updates.append(SetCurrentSchemaUpdate.model_validate({"schema-id": schema.schema_id}))
    schemas = [*([] if same else [wanted]), *metadata.schemas]
    properties = _properties(change, schemas, metadata.properties.get(NAME_MAPPING, ""))
    changed = {name: text for name, text in properties.items() if metadata.properties.get(name) != text}
    updates += [SetPropertiesUpdate(updates=changed)] if changed else []
    if LOG_ID in changed and TAKEN_BACK in metadata.properties:  # by a version of another log
        updates.append(RemovePropertiesUpdate(removals=[TAKEN_BACK]))
    return schema, tuple(updates)


def _expiries(metadata: TableMetadata) -> tuple[TableUpdate, ...]:
    """Return that the oldest snapshots go where there are too many."""
    surplus = len(metadata.snapshots) + 1 - MOST_SNAPSHOTS
    oldest = sorted(metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0)[: max(surplus, 0)]
    return _removal([snapshot.snapshot_id for snapshot in oldest])


def _removal(ids: Sequence[int]) -> tuple[TableUpdate, ...]:
    return (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": ids}),) if ids else ()
