"""What a mirror has to take up: read from the log, from listings, and from the metastore what the log does not know."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from table_writer.errors import InvalidInputError, counted, few
from table_writer.mirrors.fitting import Footers
from table_writer.mirrors.mirror import Held, Mirror, MirrorChange, MirroredFile, MirroredTable
from table_writer.model.column_statistics import EXISTS_DEFAULT
from table_writer.model.contents import Contents
from table_writer.model.entry import EntryPartition, LogEntry
from table_writer.model.hive_columns import spark_columns
from table_writer.model.location import Location
from table_writer.model.message import write_id_in
from table_writer.model.table import PartitionValues, Table
from table_writer.model.table_kind import provider_of
from table_writer.model.write import WrittenFile, WrittenFiles
from table_writer.protocol.log.history import History
from table_writer.protocol.log.placements import Placement
from table_writer.protocol.log.records import SlotRecord
from table_writer.protocol.log.versions import oldest_whole_version
from table_writer.protocol.table.open_table import OpenTable
from table_writer.storage.object_store import ObjectInfo, SourceChangedError, is_hidden, many
from table_writer.storage.table_files import files_read_at, objects_by_location

MOST_VERSIONS: Final = 500  # of a log that is read to begin a mirror with its oldest
LOOKS: Final = 5  # at log and metastore, while others publish
WHOLE: Final = "mirror"  # the mode of a change that no single version has made


class MustBeWholeError(Exception):
    """The versions since cannot be told one by one; the text says why."""


class OvertakenError(Exception):
    """Somebody has begun a version since the log was read: files of it may be among those that were listed."""


class _GoneError(Exception):
    """Files of a version are not there any more: a later one has replaced them."""


class TableChanges:
    """The changes of one table, for its mirrors."""

    def __init__(self, opened: OpenTable, mirror: Mirror) -> None:
        self._opened = opened
        self._layout = opened.layout
        self._footers = Footers(opened, mirror)
        self.seen = 0
        """The version up to which nothing is left to take up, by the last look."""

    def of_publish(self, files: WrittenFiles, entry: LogEntry) -> MirrorChange:
        """Return the change of a write that this process has just published; what it knows of files is not listed."""
        plan = files.plan
        written = {plan.spelled(partition.values): partition for partition in files.partitions}
        known: dict[PartitionValues, tuple[MirroredFile, ...]] = {}
        for partition in entry.partitions:
            own = written.get(partition.values)
            told = () if own is None else own.files()
            if not _is_at(partition.own_location, told):
                continue  # a write that began again has copied its files elsewhere
            if Contents.of(told) == partition.contents:
                known[partition.values] = tuple(
                    MirroredFile(key=file.key, size_bytes=file.size_bytes, rows=file.rows, figures=file.figures)
                    for file in told
                )
        table = plan.table
        columns = _fields_of(plan.schema) if plan.replaced_schema else tuple(spark_columns(table))
        return self._change(entry, entry.partitions, self._table(table, columns, plan.log_id), known=known)

    def since(self, held: Held) -> Iterator[MirrorChange]:
        """Yield the changes of each version that a mirror does not hold.

        Raises ``MustBeWholeError`` if that cannot be told, or files of one are gone.
        """
        log = self._opened.log
        begin = min({held.version + 1, *held.in_doubt}) - 1
        listing = log.lister.read(listed_after=begin)
        if held.log_id not in listing.ids or listing.newest < held.version:
            raise MustBeWholeError("it is of another log")
        self.seen = 0 if listing.in_doubt else listing.newest
        unseen = {*range(held.version + 1, listing.newest + 1), *held.in_doubt}
        if not unseen:
            return
        if len(unseen) > MOST_VERSIONS:
            raise MustBeWholeError(f"it is {len(unseen)} versions behind")
        if not listing.versions.issuperset(unseen):
            raise MustBeWholeError("entries since were trimmed by a vacuum, or lost")
        history = log.read_history(replace(listing, versions=listing.versions & unseen))
        if not history.records.published:
            return
        table = self._described(self._opened.metastore.get_table(self._opened.table.name), held.log_id)
        yield from self._one_by_one(held, history, table)

    def _one_by_one(self, held: Held, history: History, table: MirroredTable) -> Iterator[MirrorChange]:
        """Yield a change for each version; one whose files are unfit is told with the next."""
        waiting: tuple[SlotRecord, ...] = ()
        for record in history.records.published:
            version = max(held.version, record.entry.version)
            in_doubt = (found.entry.version for found in history.records.publishes_in_doubt)
            doubtful = frozenset(number for number in in_doubt if number < version)
            try:
                change = self._of_records((*waiting, record), history, table)
            except _GoneError as gone:
                raise MustBeWholeError(f"files of version {record.entry.version} are gone: {gone}") from gone
            change = replace(change, version=version, in_doubt=doubtful)
            waiting = (*waiting, record) if change.unfit else ()
            if not waiting:
                yield change
        if waiting:
            yield change  # which is refused, and says why

    def from_the_oldest(self) -> Iterator[MirrorChange]:
        """Yield what readers saw after the oldest version of which all files are there, and what later ones changed.

        Raises ``MustBeWholeError`` if that cannot be told, or would take long.
        """
        listing = self._opened.log.lister.read(listed_after=0)
        if len(listing.versions) > MOST_VERSIONS:
            raise MustBeWholeError(f"the log has {len(listing.versions)} versions")
        now = self._opened.metastore.get_all_partitions(self._opened.table)
        history = self._opened.log.read_history(listing)
        published = history.records.published
        if not published or history.lost:
            raise MustBeWholeError("no version is known")
        described = self._described(self._opened.metastore.get_table(self._opened.table.name), self._log_id())
        oldest = oldest_whole_version(history) or published[0].entry.version
        here = {values: partition.location for values, partition in now.items()}
        later = [record for record in published if record.entry.version > oldest]
        try:
            for record in (None, *later):
                change = (
                    self._after(history, oldest, here, described)
                    if record is None
                    else self._of_records([record], history, described)
                )
                if change.unfit:
                    raise MustBeWholeError(f"files of version {change.version} cannot be shown")
                yield change
        except _GoneError as gone:
            raise MustBeWholeError(f"files are gone: {gone}") from gone

    def _after(
        self, history: History, version: int, here: Mapping[PartitionValues, str], described: MirroredTable
    ) -> MirrorChange:
        """Return all that readers saw after a version, of partitions that the log does not know as they are now."""
        others, _ = self._locations(history, here)
        locations = {v: place for v, place in others.items() if v not in history.state.current_partitions}
        for values, past in history.past.at(version).items():
            location = None if past.location is None else Location.parse_any(past.location)
            if not past.known or not past.sure or (location is not None and history.past.is_deleted(location)):
                raise MustBeWholeError(f"where partitions were after version {version} is not known")
            if location is not None and not self._is_empty(location):
                locations[values] = location
        listed = self._list(locations.values())
        found: dict[PartitionValues, tuple[MirroredFile, ...]] = {}
        for values, location in locations.items():
            later = history.past.surplus_names(location, version)
            files = [file for file in listed[location] if file.key.removeprefix(location.key) not in later]
            described_then = history.past.content_at(values, location, version=version)
            if described_then is not None and len(files) < described_then.files:
                raise _GoneError(str(location))
            self._require_none_since(history.newest, described_then, files)
            found[values] = tuple(self._mirrored(file, described_then, alone=len(files) == 1) for file in files)
        entry = history.records.by_version[version].entry
        change = MirrorChange(
            table=_of_then(entry, described),
            version=version,
            write_id=entry.write_id,
            mode=entry.called,
            created_at=entry.created_at,
            partitions={values: files for values, files in found.items() if files},
            is_whole=True,
        )
        return self._with_footers(change, listed, of_all=True)

    def _log_id(self) -> str:
        return self._opened.log.slots.log_id

    def whole(self, *, of_all: bool = True, to_the_end: bool = False) -> MirrorChange:
        """Return all that readers of the table see now, by the log; and by the metastore what the log does not know.

        The footers of all files are read, or those of other tools' files alone; of files that a mirror cannot show, the
        first are enough, unless ``to_the_end``.
        """
        for _ in range(LOOKS):
            history = self._opened.log.read_recent()
            table = self._opened.metastore.get_table(self._opened.table.name)
            now = self._opened.metastore.get_all_partitions(self._opened.table)
            here = {values: partition.location for values, partition in now.items()}
            wanted, notes = self._locations(history, here)
            listed = self._list(wanted.values())
            if not self._is_overtaken(history.newest):  # asked last: files come to where readers look already
                break
        else:
            raise InvalidInputError(f"{self._opened.table.name} was published {LOOKS} times while it was looked at")
        if not history.newest:
            raise InvalidInputError(f"{self._opened.table.name} has no version yet: a mirror begins with the first")
        known_before = history.fold.version if history.fold else 0
        described = self._described(table, self._log_id())
        self.seen = 0 if history.records.in_doubt else history.newest
        doubtful = history.records.publishes_in_doubt
        unseen = {key for record in doubtful for partition in record.entry.partitions for key in partition.targets()}
        contents = history.state.current_contents()
        found = {
            values: tuple(
                self._mirrored(file, contents.get(values), alone=len(listed[location]) == 1)
                for file in listed[location]
                if file.key not in unseen
            )
            for values, location in wanted.items()
        }
        change = MirrorChange(
            table=described,
            version=max((record.entry.version for record in history.records.published), default=known_before),
            in_doubt=frozenset(record.entry.version for record in doubtful),
            mode=WHOLE,
            created_at=datetime.now(UTC),
            partitions={values: files for values, files in found.items() if files},
            is_whole=True,
            notes=(*notes, *_notes_on_columns(described)),
        )
        infos = (info for found_there in listed.values() for info in found_there)
        return self._footers.read(change, infos, of_all=of_all, to_the_end=to_the_end)

    def _locations(
        self, history: History, here: Mapping[PartitionValues, str]
    ) -> tuple[dict[PartitionValues, Location], tuple[str, ...]]:
        """Return where readers look for each partition, and what is to be said about those of other tools."""
        current, placements = history.state.current_partitions, history.placements.of_all(here)
        texts: dict[PartitionValues, str | None] = {}
        theirs: list[PartitionValues] = []
        records = reversed(history.records.publishes_in_doubt)  # the oldest says where readers look until then
        doubtful = {partition.values: partition for record in records for partition in record.entry.partitions}
        for values, placed in current.items():
            placement = placements[values]
            if values in doubtful:  # what has switched already is not published for that
                texts[values] = doubtful[values].old_location
                continue
            is_moved = placement in {Placement.MOVED, Placement.MISSING}
            texts[values] = here.get(values) if is_moved else placed.partition.new_location
            theirs += [values] if placement is Placement.MOVED else []
        for values in here.keys() - current.keys():
            texts[values] = doubtful[values].old_location if values in doubtful else here[values]
            theirs += [] if texts[values] is None else [values]
        self._require_places_of_their_own(texts)
        names = few(self._opened.partition_names(theirs))
        note = (
            f"{counted(len(theirs), 'partition')} that other tools write: {names}. The mirror has their files as they"
            " were listed now; --repair lists them again"
        )
        locations = {values: Location.parse(text) for values, text in texts.items() if text is not None}
        return {v: place for v, place in locations.items() if not self._is_empty(place)}, (note,) if theirs else ()

    def _require_places_of_their_own(self, texts: Mapping[PartitionValues, str | None]) -> None:
        """Raise ``InvalidInputError`` if two partitions have the same files: a path is in a mirror once."""
        at: dict[object, PartitionValues] = {}
        for values, text in texts.items():
            location = None if text is None else Location.parse(text)
            if location is None or self._layout.is_placeholder(location):
                continue
            if at.setdefault(location.place, values) != values:
                names = " and ".join(self._opened.partition_names([at[location.place], values]))
                raise InvalidInputError(
                    f"{names} of {self._opened.table.name} are both at {location}: a mirror names a file once. Move one"
                    " of them, or drop it"
                )

    def _is_empty(self, location: Location) -> bool:
        if not self._layout.is_placeholder(location):
            return False
        return not any(files_read_at(self._opened.store, self._layout, location))

    def _of_records(self, records: Iterable[SlotRecord], history: History, described: MirroredTable) -> MirrorChange:
        changes = [
            self._change(record.entry, record.switched_partitions, _of_then(record.entry, described), history=history)
            for record in records
        ]
        merged = changes[0]
        for change in changes[1:]:
            merged = _merged(merged, change)
        return merged

    def _change(
        self,
        entry: LogEntry,
        switched: Collection[EntryPartition],
        table: MirroredTable,
        *,
        history: History | None = None,
        known: Mapping[PartitionValues, tuple[MirroredFile, ...]] | None = None,
    ) -> MirrorChange:
        """Return what an entry changes; files are listed where they are not known."""
        known = known or {}
        grown = {partition.values: partition for partition in switched if not partition.holds_all}
        moved = {partition.values: partition for partition in switched if partition.holds_all}
        wanted = {
            values: Location.parse(partition.new_location)
            for values, partition in moved.items()
            if partition.new_location is not None and values not in known
        }
        listed = self._list(wanted.values())
        partitions: dict[PartitionValues, tuple[MirroredFile, ...]] = {}
        for values, partition in moved.items():
            if values not in wanted:
                partitions[values] = known.get(values, ())
                continue
            location = wanted[values]
            later = history.past.surplus_names(location, entry.version) if history is not None else frozenset()
            files = [file for file in listed[location] if file.key.removeprefix(location.key) not in later]
            if Contents.of(files).lacks(partition.contents):
                raise _GoneError(str(location))
            self._require_none_since(entry.version if history is None else history.newest, partition, files)
            partitions[values] = tuple(self._mirrored(file, partition, alone=len(files) == 1) for file in files)
        added = {values: _added_files(partition, known.get(values, ())) for values, partition in grown.items()}
        change = MirrorChange(
            table=table,
            version=entry.version,
            write_id=entry.write_id,
            mode=entry.called,
            created_at=entry.created_at,
            partitions=partitions,
            added=added,
            changes_rows=not entry.is_compaction,
        )
        return self._with_footers(change, listed)

    def _with_footers(
        self, change: MirrorChange, listed: Mapping[Location, Collection[ObjectInfo]], *, of_all: bool = False
    ) -> MirrorChange:
        try:
            infos = (info for found in listed.values() for info in found)
            return self._footers.read(change, infos, of_all=of_all)
        except SourceChangedError as changed:
            raise _GoneError(str(changed)) from changed

    def _require_none_since(
        self, version: int, described: EntryPartition | None, files: Collection[ObjectInfo]
    ) -> None:
        """Raise ``OvertakenError`` if files beside those of a partition may be a later version's."""
        if (described is None or len(files) > described.files) and self._is_overtaken(version):
            raise OvertakenError

    def _is_overtaken(self, version: int) -> bool:
        return self._opened.log.lister.read(listed_after=version).newest > version

    def _list(self, locations: Collection[Location]) -> dict[Location, list[ObjectInfo]]:
        """List what readers find directly at each location."""
        store, layout, root = self._opened.store, self._layout, self._layout.root
        for location in locations:
            if location.place[:2] != root.place[:2]:
                raise InvalidInputError(
                    f"a partition of {self._opened.table.name} lies in another bucket, at {location}: a mirror has the"
                    " files of one"
                )
        inside = [place for place in locations if root.contains(place) and not place.contains(layout.own)]
        others = [place for place in locations if place not in inside]
        found: dict[Location, list[ObjectInfo]] = dict(objects_by_location(store, layout, inside)) if inside else {}
        found |= zip(others, many(lambda place: list(files_read_at(store, layout, place)), others), strict=True)
        return {
            place: [file for file in files if _is_read(file.key.removeprefix(place.key))]
            for place, files in found.items()
        }

    def _mirrored(self, file: ObjectInfo, described: EntryPartition | None, *, alone: bool) -> MirroredFile:
        """Return a listed file; the figures of a partition are those of its only file."""
        is_it = alone and described is not None and (described.files, described.bytes) == (1, file.size_bytes)
        return MirroredFile(
            key=file.key,
            size_bytes=file.size_bytes,
            rows=described.rows if is_it and described is not None else None,
            figures=described.figures if is_it and described is not None else "",
            is_copy=self._is_copy(file.key),
        )

    def _is_copy(self, key: str) -> bool:
        """Return whether a file lies among those of a write whose name it does not bear: it was carried over."""
        write_id, _, path = key.removeprefix(self._layout.all_data.key).partition("/")
        is_ours = key.startswith(self._layout.all_data.key)
        return is_ours and write_id_in(path.rpartition("/")[2], (write_id,)) != write_id

    def _described(self, table: Table | None, log_id: str) -> MirroredTable:
        if table is None:
            raise InvalidInputError(f"{self._opened.table.name} was dropped", table=str(self._opened.table.name))
        return self._table(table, tuple(spark_columns(table)), log_id)

    def _table(self, table: Table, fields: tuple[dict[str, Any], ...], log_id: str) -> MirroredTable:
        if provider_of(table) != "parquet" and "parquet" not in table.serde.lower():
            raise InvalidInputError(f"{table.name} is not stored as Parquet: no mirror can show its files")
        return MirroredTable(
            name=str(table.name),
            fields=fields,
            partition_columns=tuple(field["name"] for field in fields[len(fields) - len(table.partition_columns) :]),
            log_id=log_id,
            columns_by=table.columns_by,
        )


def _of_then(entry: LogEntry, described: MirroredTable) -> MirroredTable:
    """Return the table with the columns that an entry has given it, if others have taken their place since."""
    if described.partition_columns or not entry.schema or entry.columns_by == described.columns_by:
        return described
    return replace(described, fields=_fields_of(entry.schema), columns_by=entry.columns_by)


def _is_at(location: str | None, files: Collection[WrittenFile]) -> bool:
    key = "" if location is None else Location.parse(location).key
    return all(file.key.rpartition("/")[0] + "/" == key for file in files)


def _is_read(name: str) -> bool:
    return "/" not in name and not is_hidden(name)


def _fields_of(schema: str) -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(schema)["fields"])


def _added_files(partition: EntryPartition, told: Collection[MirroredFile]) -> tuple[MirroredFile, ...]:
    """Return the files of an append in place, where readers look for them."""
    location = Location.parse(str(partition.new_location))
    by_name = {file.key.rpartition("/")[2]: file for file in told}
    files = []
    for added in partition.added:
        known = by_name.get(added.name.rpartition("/")[2])
        is_only = len(partition.added) == 1
        files.append(
            MirroredFile(
                key=f"{location.key}{added.name}",
                size_bytes=added.size_bytes,
                rows=known.rows if known else partition.rows if is_only else None,
                figures=known.figures if known else partition.figures if is_only else "",
            )
        )
    return tuple(files)


def _merged(earlier: MirrorChange, later: MirrorChange) -> MirrorChange:
    """Return two changes in one, that of the later version."""
    partitions = {**earlier.partitions, **later.partitions}
    added = {values: files for values, files in earlier.added.items() if values not in later.partitions}
    for values, files in later.added.items():
        if values in partitions:
            partitions[values] = (*partitions[values], *files)
        else:
            added[values] = (*added.get(values, ()), *files)
    return replace(
        later,
        partitions=partitions,
        added=added,
        changes_rows=earlier.changes_rows or later.changes_rows,
        paths=earlier.paths | later.paths,
    )


def _notes_on_columns(table: MirroredTable) -> tuple[str, ...]:
    """Name the columns that older files lack and that Hive's readers find a default for."""
    names = [field["name"] for field in table.fields if EXISTS_DEFAULT in field.get("metadata", {})]
    note = f"column {few(names)} has a default for rows of files without it: in the mirror they have null"
    return (note,) if names else ()
