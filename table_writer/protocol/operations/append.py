"""An append that copies: what readers see of a partition goes beside its new files, to a location of their own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from table_writer.errors import ConflictError, InvalidInputError, StorageError, counted
from table_writer.model.contents import Contents
from table_writer.model.entry import EntryPartition, LogEntry, ReplacedLocation
from table_writer.model.location import Location
from table_writer.model.message import write_id_in
from table_writer.model.table import VERSION_PARAMETER, Partition, PartitionsNow, PartitionValues, name_in, shown_name
from table_writer.model.write import TableLayout, WritePlan, WrittenFiles
from table_writer.storage.object_store import ObjectInfo, ObjectStore, SourceChangedError, visible_files
from table_writer.storage.table_files import files_of_each, is_named_by_us, why_not_copied

logger = logging.getLogger(__name__)
MOST_ATTEMPTS: Final = 20  # attempts to copy files that others replace meanwhile
CopyFiles = Callable[[Mapping[str, ObjectInfo]], None]
"""Makes all copies, or raises; given are the new keys, each with the file as it was listed."""
Missing = Mapping[PartitionValues, tuple[Location, Mapping[str, ObjectInfo]]]
"""Partitions whose files are not all copied: where the write's own files are, and all that is to lie beside them."""


class OwnFilesSeenError(ConflictError):
    """Readers look at files of a write that is yet to be published, as far as the log was read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CarriedFiles:
    """The files of one partition that an append brings along; rows are known where this library wrote them all."""

    files: int = 0
    bytes: int = 0
    rows: int | None = 0
    raw_bytes: int | None = 0
    version: int | None = None  # the version that published exactly these files; None: nobody knows
    figures: str = ""  # the figures of their columns


@dataclass(frozen=True, slots=True)
class _PartitionPlace:
    """The place where readers will look for a partition, and the files copied there, by name; ``None``: not all."""

    location: Location
    copied: Mapping[str, ObjectInfo] | None


@dataclass
class CarryOver:
    """Copies what readers see of a write's partitions beside its new files, no byte through this process.

    No key is ever deleted or written with other bytes, so a request that comes late changes nothing. The first round
    copies below the write's own prefix, where nobody but its process writes; later rounds add files that have come
    since. Where files were replaced or have gone, all files of the partition, new and old, are copied to a
    ``fresh_directory`` that nobody has used before. A staged write (``is_shared``) does that from the first round on:
    other processes may publish it too.

    A compaction is an append that leaves out what it has written anew, as long as all of that is there still: what
    others have added since comes along. Else it gives the partition up.
    """

    store: ObjectStore
    copy_files: CopyFiles
    staged: WrittenFiles
    fresh_directory: Callable[[], Location]
    is_shared: bool = False
    carried: dict[PartitionValues, CarriedFiles] = field(default_factory=dict, init=False)
    _partition_places: dict[PartitionValues, _PartitionPlace] = field(default_factory=dict, init=False)
    _directories: list[Location] = field(default_factory=list, init=False)
    _unseen_directories: dict[str, Location] = field(default_factory=dict, init=False)  # by key; others replaced them
    _attempts: int = field(default=0, init=False)
    given_up: set[PartitionValues] = field(default_factory=set, init=False)
    """Partitions of a compaction that others have changed since: they stay as they are."""
    copies: set[str] = field(default_factory=set, init=False)
    """Keys of all copies that any round has asked for."""

    @property
    def plan(self) -> WritePlan:
        """The write's plan."""
        return self.staged.plan

    def with_new_locations(self, draft: LogEntry, to_grow: Collection[PartitionValues] = ()) -> LogEntry:
        """Return the draft with its partitions where readers will look; those ``to_grow`` stay as they are."""
        partitions: list[EntryPartition] = []
        for partition in draft.partitions:
            place = None if partition.values in to_grow else self._partition_places.get(partition.values)
            if partition.values not in self.given_up:
                partitions.append(replace(partition, new_location=str(place.location)) if place else partition)
        return replace(draft, partitions=tuple(partitions))

    @property
    def unseen_directories(self) -> Collection[Location]:
        """The directories of the write at which no reader will look: copies elsewhere have taken their place."""
        return self._unseen_directories.values()

    def to_bring(self, now: PartitionsNow, targets: Mapping[PartitionValues, str]) -> Missing:
        """Return the partitions of which files are still to be copied; none if the last round has copied exactly all.

        ``targets`` says where the write's own files are: the metastore may spell a partition differently from Spark.

        Raises ``InvalidInputError`` if a partition's files cannot be read by the table's description, lie in another
        bucket, or are too many bytes; ``StorageError`` if the files that readers would see are not exactly those that
        were written and copied.
        """
        listed = self._files_by_partition(now)
        known = {values: placement.copied for values, placement in self._partition_places.items()}
        missing = {
            values: (Location.parse(target), listed.get(values, {}))
            for values, target in targets.items()
            if values not in self.given_up and known.get(values, {}) != listed.get(values, {})
        }
        if not missing:
            self._require_exactly()
        return missing

    def bring(self, missing: Missing) -> None:
        """Copy these files; ``ConflictError`` if they change faster than they are copied."""
        self._attempts += 1
        if self._attempts > MOST_ATTEMPTS:
            raise ConflictError(
                f"files of {self.plan.table.name} changed {MOST_ATTEMPTS} times while write {self.plan.write_id} copied"
                " them: others write to the same partitions without pause. Nothing was published; run it again later.",
                **self.plan.named,
            )
        copies = self._place(missing)
        self.copies.update(copies)
        logger.info("write_id=%s copies %s", self.plan.write_id, Contents.of(copies.values()))
        try:
            self.copy_files(copies)
        except SourceChangedError as gone:
            logger.warning("write_id=%s lists again: %s", self.plan.write_id, gone)
            self._partition_places |= {
                values: _PartitionPlace(self._partition_places[values].location, None) for values in missing
            }

    def _place(self, changed: Missing) -> dict[str, ObjectInfo]:
        """Choose where the files of these partitions go; returns the copies to make."""
        again = {values for values, (_, files) in changed.items() if not self._may_grow(values, files)}
        if again:
            self._directories.append(self.fresh_directory())
        new = self._new_files() if again else {}
        copies: dict[str, ObjectInfo] = {}
        for values, (target, files) in changed.items():
            place = self._partition_places.get(values, _PartitionPlace(target, {}))
            location, sources = place.location, {name: files[name] for name in files.keys() - (place.copied or {})}
            if values in again:
                location = self._directories[-1].child(self.plan.data_location.relative_key(target))
                own = {key.removeprefix(target.key): found for key, found in new.get(values, {}).items()}
                if own.keys() & files.keys():
                    name = self.plan.table.name
                    raise OwnFilesSeenError(
                        f"readers of {name} look at files of write {self.plan.write_id}, which no version of the log"
                        f" has published. Nothing was changed; run `table-writer recover {name}` first.",
                        **self.plan.named,
                    )
                sources = {**own, **files}
                self._unseen_directories[place.location.key] = place.location
            copies |= {f"{location.key}{name}": source for name, source in sources.items()}
            self._partition_places[values] = _PartitionPlace(location, files)
        return copies

    def _may_grow(self, values: PartitionValues, files: Mapping[str, ObjectInfo]) -> bool:
        """Return whether files only have to be added where the partition is now."""
        place = self._partition_places.get(values)
        if place is None:
            return not self.is_shared
        return place.copied is not None and place.copied.items() <= files.items()

    def _new_files(self) -> dict[PartitionValues, dict[str, ObjectInfo]]:
        """Return the write's own files of each partition as they are listed now, by the metastore's spelling."""
        listed = require_as_staged(self.store, self.staged)
        return {
            self.plan.spelled(partition.values): {key: listed[key] for key in partition.keys}
            for partition in self.staged.partitions
        }

    def _require_exactly(self) -> None:
        """Refuse to publish when readers would see anything but the new files and the copies.

        An executor that was given up may have copied late; and anybody can reach a staged write's files.
        """
        if not self._partition_places and not self.is_shared:
            return
        own = require_as_staged(self.store, self.staged)
        others = (file for directory in self._directories for file in visible_files(self.store, directory.key))
        seen = (
            file for file in (*own.values(), *others) if self._directory_of(file.key) not in self._unseen_directories
        )
        wrong = {(file.key, file.size_bytes) for file in seen} ^ set(self._expected(own).items())
        if wrong:
            raise StorageError(
                f"the files of write {self.plan.write_id} are not exactly those that were written and copied:"
                f" {counted(len(wrong), 'file')} not as expected, for example {min(wrong)[0]}. Nothing was published."
                " Run it again.",
                **self.plan.named,
            )

    def _expected(self, own: Mapping[str, ObjectInfo]) -> dict[str, int]:
        """Return keys and sizes of all files that readers are to see."""
        expected: dict[str, int] = {}
        for partition in self.staged.partitions:
            values = self.plan.spelled(partition.values)
            if values in self.given_up:
                continue
            place = self._partition_places.get(values)
            for key in partition.keys:
                below = key.removeprefix(self._directory_of(key))
                expected[f"{place.location.key}{below}" if place else key] = own[key].size_bytes
            copied = (place.copied or {}) if place else {}
            expected |= {f"{place.location.key}{name}": file.size_bytes for name, file in copied.items() if place}
        return expected

    def _directory_of(self, key: str) -> str:
        """Return the key of the partition's directory in which one of the write's files, or a copy, is."""
        prefix = self.plan.layout.all_data.key
        below = key.removeprefix(prefix).split("/")
        return prefix + "".join(f"{segment}/" for segment in below[: 1 + len(self.plan.table.partition_columns)])

    def _files_by_partition(self, now: PartitionsNow) -> dict[PartitionValues, dict[str, ObjectInfo]]:
        """List what readers of each partition see, by the names of files below its location."""
        locations = {values: self._place_of(partition) for values, partition in now.items()}
        found = files_of_each(self.store, self.plan.layout, locations.values())
        listed = {values: self._files_of(partition, found[locations[values]]) for values, partition in now.items()}
        if self.plan.compacted:
            return self._beside_compacted(now, listed)
        limit, size = self.plan.max_copied_bytes, sum(Contents.of(files.values()).bytes for files in listed.values())
        if limit is not None and size > limit:
            raise InvalidInputError(
                f"the append would copy {size:,} bytes that {self.plan.table.name} holds already in"
                f" {counted(len(listed), 'partition')}, above max_copied_bytes={limit:,}. Nothing was published."
                " Partition the table more finely, so that an append touches less; or replace the rows with"
                f" {self.plan.table.overwrite_call}; or raise max_copied_bytes.",
                **self.plan.named,
            )
        layout = self.plan.layout
        self.carried = {values: _carried_files(now[values], files.values(), layout) for values, files in listed.items()}
        return listed

    def _beside_compacted(
        self, now: PartitionsNow, listed: Mapping[PartitionValues, dict[str, ObjectInfo]]
    ) -> dict[PartitionValues, dict[str, ObjectInfo]]:
        """Return the files beside those that were compacted; partitions that have not all of these are given up."""
        written_partitions = {self.plan.spelled(partition.values): partition for partition in self.staged.partitions}
        beside: dict[PartitionValues, dict[str, ObjectInfo]] = {}
        for values in written_partitions.keys() - self.given_up:
            new = written_partitions[values]
            names = _names_if_there(self.plan.compacted[values], now.get(values), listed.get(values, {}))
            if names is None:
                self.given_up.add(values)
                own = self.plan.data_location.child(name_in(self.plan.table, new.values))
                place = self._partition_places.get(values)  # of an earlier round
                target = place.location if place else own
                self._unseen_directories |= {directory.key: directory for directory in (own, target)}
                continue
            beside[values] = {name: file for name, file in listed[values].items() if name not in names}
            carried_before = _carried_files(now[values], listed[values].values(), self.plan.layout)
            self.carried[values] = CarriedFiles(
                **Contents.of(beside[values].values())._asdict(),
                rows=carried_before.rows if carried_before.rows is None else carried_before.rows - new.rows,
            )
        return beside

    def _place_of(self, partition: Partition) -> Location:
        """Return where a partition's files are; ``InvalidInputError`` if they cannot be copied."""
        reason = why_not_copied(self.plan.layout, partition)
        if reason:
            raise InvalidInputError(
                f"{shown_name(self.plan.table, partition.values)} of {self.plan.table.name} {reason}: its files cannot"
                " be put beside new ones. Nothing was published. Replace it with"
                f" {self.plan.table.overwrite_call}, with its rows and the new ones.",
                **self.plan.named,
            )
        return Location.parse(partition.location)

    def _files_of(self, partition: Partition, found: Sequence[ObjectInfo]) -> dict[str, ObjectInfo]:
        """Return what readers of a partition see, by the names of files below its location."""
        location = Location.parse(partition.location)
        files = {file.key.removeprefix(location.key): file for file in found}
        self._require_whole(partition, location, files)
        return files

    def _require_whole(self, partition: Partition, location: Location, files: Mapping[str, ObjectInfo]) -> None:
        """Refuse to copy what is left of a partition that has lost files: the copy would make the loss permanent.

        Files without a write_id in their name are another tool's, which may have replaced ours with fewer.
        """
        layout = self.plan.layout
        own = layout.write_id_of(location)
        expected = Contents(*(_figure(partition.parameters.get(name)) or 0 for name in ("numFiles", "totalSize")))
        found = Contents.of(files.values())
        if (
            own is None
            or not found.lacks(expected)
            or not all(is_named_by_us(file.key, location, layout) for file in files.values())
        ):
            return
        raise StorageError(
            f"{shown_name(self.plan.table, partition.values)} of {self.plan.table.name} is damaged: of"
            f" {expected} at {location}, {found.files} with {found.bytes:,} are there. Nothing was published. Bring"
            " them back from older versions of the objects, or a backup; or replace the partition with"
            f" {self.plan.table.overwrite_call}.",
            **self.plan.named,
        )


def require_as_staged(store: ObjectStore, staged: WrittenFiles) -> dict[str, ObjectInfo]:
    """Compare the write's directory with what was written; costs one request for 1,000 files.

    Returns all files that readers of the directory would see, by their keys. Raises ``StorageError`` if files of the
    write are missing or have another size.
    """
    plan = staged.plan
    found = {file.key: file for file in visible_files(store, plan.data_location.key)}
    for partition in staged.partitions:
        sizes = [found[key].size_bytes for key in partition.keys if key in found]
        if (len(sizes), sum(sizes)) != (len(partition.keys), partition.bytes):
            raise StorageError(
                f"write {plan.write_id} of {plan.table.name} is not as it was written: of"
                f" {counted(len(partition.keys), 'file')} of partition {partition.values} with {partition.bytes:,}"
                f" bytes, {len(sizes)} with {sum(sizes):,} are there. Nothing was published. If it is staged, discard"
                " it; write it again.",
                **plan.named,
            )
    return found


def _names_if_there(
    compacted: ReplacedLocation, now: Partition | None, listed: Mapping[str, ObjectInfo]
) -> frozenset[str] | None:
    """Return the names of the files that were compacted, ``None`` if not all of them are there, as they were.

    In another location they are copies, which an append of this library has made: only names of its own tell so.
    """
    location = Location.parse(compacted.location)
    if now is None:
        return None
    is_same = Location.parse(now.location).same_place(location)
    names: set[str] = set()
    for compacted_file in compacted.objects:
        name = compacted_file.key.removeprefix(location.key)
        found = listed.get(name)
        if found is None or found.size_bytes != compacted_file.size_bytes:
            return None
        if found.etag != compacted_file.etag if is_same else write_id_in(name.rpartition("/")[2]) is None:
            return None
        names.add(name)
    return frozenset(names)


def _carried_files(partition: Partition, files: Collection[ObjectInfo], layout: TableLayout) -> CarriedFiles:
    """Take rows from the partition's parameters only where they describe these very files."""
    found = Contents.of(files)
    given = partition.parameters
    ours = layout.write_id_of(Location.parse(partition.location)) is not None
    if not files:
        return CarriedFiles()
    exact = ours and (given.get("numFiles"), given.get("totalSize")) == tuple(map(str, found))
    return CarriedFiles(
        **found._asdict(),
        rows=_figure(given.get("numRows")) if exact else None,
        raw_bytes=_figure(given.get("rawDataSize")) if exact else None,
        version=_figure(given.get(VERSION_PARAMETER)) if exact else None,
    )


def _figure(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
