"""The state of a table by its log: where each partition is, what readers have left, what vacuums have deleted.

Pure: records are applied in the order of their versions, and each adds what it says. A vacuum stores the state, which
is then called a fold: who reads the log begins with it, and applies only the records that came after it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime

from table_writer.model.contents import Contents
from table_writer.model.entry import EntryPartition, LogEntry, Outcome, ReplacedObject
from table_writer.model.location import Location, Place
from table_writer.model.table import PartitionValues
from table_writer.model.write import TableLayout
from table_writer.protocol.log.known_keys import KnownKeys
from table_writer.protocol.log.records import SlotRecord


@dataclass(frozen=True, slots=True)
class CurrentPartition:
    """The newest published entry's description of a partition: it says where the partition is."""

    version: int
    partition: EntryPartition
    age_seconds: float  # since this was recorded


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftLocation:
    """A location that readers have left, or that they never came to because its entry was abandoned.

    ``objects`` lists exactly what may be deleted where other tools wrote; a location of ours may go as a whole.
    """

    location: Location
    left_by: int  # the version after which readers did not look there any more
    age_seconds: float  # since this was recorded
    retention_seconds: float | None  # as scheduled; None: the usual one
    objects: tuple[ReplacedObject, ...] = ()
    bytes: int = 0  # as far as the log knows


@dataclass(kw_only=True)
class TableState:
    """What the entries of a log say in sum, up to a version."""

    layout: TableLayout
    version: int = 0
    log_id: str = ""  # of a fold: the id of its log
    write_id: str = ""  # of the version; a log that was set back has another one there, or none
    current_partitions: dict[PartitionValues, CurrentPartition] = field(default_factory=dict)
    """The newest published entry's word on each partition that was ever published."""
    left_locations: dict[Place, LeftLocation] = field(default_factory=dict)
    """The locations that readers have left and no vacuum has deleted."""
    deleted_places: dict[Place, int] = field(default_factory=dict)
    """The places that vacuums have deleted, each with the version of the newest one."""
    contents: dict[Place, EntryPartition] = field(default_factory=dict)
    """The rows and files that lie at each location that was published."""
    versions_by_place: dict[Place, tuple[int, ...]] = field(default_factory=dict)
    """The versions that point readers at each place."""
    grown_places: set[Place] = field(default_factory=set)
    """The locations to which appends in place added, whatever became of them."""
    vacuums: dict[int, frozenset[int]] = field(default_factory=dict)
    """The vacuums, each with the versions that had replaced what it has deleted."""
    keys: KnownKeys = field(default_factory=KnownKeys)
    doomed_places: dict[Place, int | None] = field(default_factory=dict)
    """The places that vacuums in doubt may be deleting at this moment, each with the version after which readers did
    not look there any more. Of a fold nothing is in doubt."""
    read_at: datetime | None = None  # of a fold, by the store's clock
    _counted: set[str] = field(default_factory=set, repr=False)  # keys of files that were added in place since the fold
    _locations: dict[str, Location] = field(default_factory=dict, repr=False, compare=False)

    def after(self, records: Collection[SlotRecord]) -> TableState:
        """Return the state after more records; this one stays as it is."""
        state = copy(self)
        for name, fact in vars(self).items():
            if isinstance(fact, (dict, set, KnownKeys)):
                setattr(state, name, fact.copy())
        for record in records:
            state.apply(record)
        return state

    def apply(self, record: SlotRecord) -> None:
        """Add what one more record says, the next by its version."""
        entry = record.entry
        self.version, self.write_id = entry.version, entry.write_id
        self._note_places(entry)
        self.keys.apply(record)
        if not entry.meaning.changes_partitions:
            self._apply_vacuum(record)
        elif record.outcome is Outcome.ABANDONED:
            self._apply_abandoned(record)
        elif record.outcome is Outcome.PUBLISHED:
            self._apply_published(record)

    def _note_places(self, entry: LogEntry) -> None:
        """Note which places an entry names, whatever became of it."""
        for partition in entry.partitions:
            place = self.place_of(partition.new_location)
            if place is not None:
                self.versions_by_place[place] = (*self.versions_by_place.get(place, ()), entry.version)
                if not partition.holds_all:
                    self.grown_places.add(place)

    def _apply_vacuum(self, record: SlotRecord) -> None:
        entry = record.entry
        replaced_by = (deletion.replaced_by for deletion in entry.deletes)
        self.vacuums[entry.version] = frozenset(version for version in replaced_by if version is not None)
        if record.outcome is Outcome.ABANDONED:
            return
        for deletion in (deletion for deletion in entry.deletes if not deletion.kept):
            place = self.parse(deletion.location).place
            if record.outcome is None:
                self.doomed_places[place] = deletion.replaced_by
                continue
            self.deleted_places[place] = entry.version
            self.contents.pop(place, None)
            left = self.left_locations.get(place)
            if left is not None and left.left_by == (deletion.replaced_by or left.left_by):
                del self.left_locations[place]

    def _apply_abandoned(self, record: SlotRecord) -> None:
        """Note as left what readers would have seen by this entry alone: its own files, or its copies."""
        entry, data = record.entry, self.layout.data(record.entry.write_id)
        own = [
            self.parse(partition.own_location) for partition in entry.partitions if partition.own_location is not None
        ]
        if entry.meaning.has_own_files:
            self._leave(data, record, bytes=sum(partition.bytes for partition in entry.partitions))
            copies = [location for location in own if not data.contains(location)]  # in a fresh directory
        else:
            copies = [location for location in own if data.contains(location)]
        seen = {self.place_of(partition.old_location) for partition in entry.partitions}
        # also what copies elsewhere had replaced before the claim
        replaced = (self.parse(replaced_location.location) for replaced_location in entry.replaced)
        unseen = (
            location
            for location in replaced
            if self.layout.write_id_of(location) is not None and location.place not in seen
        )
        for location in (*copies, *unseen):
            self._leave(location, record)

    def _apply_published(self, record: SlotRecord) -> None:
        entry, data = record.entry, self.layout.all_data
        switched = record.switched_partitions
        for partition in switched:
            before = self.current_partitions.get(partition.values)
            for text in (self._left_behind(before), partition.old_location):
                if text is not None and text != partition.new_location and data.contains(self.parse(text)):
                    content = self.contents.get(self.parse(text).place)
                    self._leave(self.parse(text), record, bytes=content.bytes if content else 0)
            self._hold(partition)
            self.current_partitions[partition.values] = CurrentPartition(
                entry.version, partition, record.outcome_age_seconds
            )
        self._leave_replaced(record, switched)
        for partition in (partition for partition in entry.partitions if partition.new_location is not None):
            if partition.values not in record.superseded:
                self._come_to(self.parse(str(partition.new_location)))
            else:
                self._leave_superseded(partition, record)

    def _leave_replaced(self, record: SlotRecord, switched: Collection[EntryPartition]) -> None:
        entry = record.entry
        left = {self.place_of(partition.old_location) for partition in switched}
        ids = {entry.write_id, entry.recovered_write_id}
        for replaced in entry.replaced:
            location = self.parse(replaced.location)
            is_own = self.layout.write_id_of(location) in ids
            if record.superseded and location.place not in left and not is_own:
                continue  # another tool has taken its files elsewhere: they were never replaced by this library
            earlier = self.left_locations.get(location.place)
            self._leave(
                location,
                record,
                retention_seconds=max(0.0, (replaced.delete_after - entry.created_at).total_seconds()),
                objects=replaced.objects,
                bytes=Contents.of(replaced.objects).bytes or (earlier.bytes if earlier else 0),
            )

    def _hold(self, partition: EntryPartition) -> None:
        """Note what lies at a partition's new location; a recovery does an append in place again, which counts once."""
        place = self.place_of(partition.new_location)
        targets = partition.targets()
        if place is not None and not targets:
            self.contents[place] = replace(partition, figures="")
        elif place in self.contents and not targets.keys() <= self._counted:
            self.contents[place] = self.contents[place].with_more(partition)
        self._counted.update(targets)

    def _left_behind(self, before: CurrentPartition | None) -> str | None:
        """Return where a partition was; not what is deleted by now, since an entry that is trimmed had left it."""
        text = before.partition.new_location if before else None
        deleted = self.deleted_places.get(self.parse(text).place, 0) if text else 0
        return None if before is None or deleted > before.version else text

    def _leave_superseded(self, partition: EntryPartition, record: SlotRecord) -> None:
        """Note that readers never came to these files, if they are this entry's, or of one that it recovers."""
        entry, location = record.entry, self.parse(str(partition.own_location))
        is_copy = self.layout.write_id_of(location) == entry.write_id
        if is_copy or entry.meaning.shows_a_write:
            self._leave(location, record, bytes=partition.bytes)

    def _come_to(self, location: Location) -> None:
        """Note that readers look at a location, which may belong to a write whose earlier entry was abandoned."""
        self.left_locations.pop(location.place, None)
        write_id = self.layout.write_id_of(location)
        if write_id is not None:
            self.left_locations.pop(self.layout.data(write_id).place, None)

    def _leave(
        self,
        location: Location,
        record: SlotRecord,
        *,
        retention_seconds: float | None = None,
        objects: tuple[ReplacedObject, ...] = (),
        bytes: int = 0,  # noqa: A002  # as everywhere in the model
    ) -> None:
        self.left_locations[location.place] = LeftLocation(
            location=location,
            left_by=record.entry.version,
            age_seconds=record.outcome_age_seconds,
            retention_seconds=retention_seconds,
            objects=objects,
            bytes=bytes,
        )

    def parse(self, text: str) -> Location:
        """Parse a location, each text once: entries name the same ones again and again."""
        if text not in self._locations:
            self._locations[text] = Location.parse(text)
        return self._locations[text]

    def place_of(self, location: str | None) -> Place | None:
        """Return what compares a location with others, ``None`` for none; other tools may have written any text."""
        if location is None:
            return None
        parsed = self._locations.get(location) or Location.parse_any(location)
        return ("", "", location) if parsed is None else self.parse(location).place

    def is_placeholder(self, text: str | None) -> bool:
        """Return whether a location is a placeholder: where no other tool has written, there is no partition."""
        location = None if text is None else Location.parse_any(text)
        return location is not None and self.layout.is_placeholder(location)

    @property
    def live_places(self) -> frozenset[Place]:
        """The places where readers look, by the newest published entries."""
        places = (self.place_of(current.partition.new_location) for current in self.current_partitions.values())
        return frozenset(place for place in places if place is not None)

    def current_contents(self) -> dict[PartitionValues, EntryPartition]:
        """Return what lies where each partition is by the log, as far as the log has written it."""
        places = {
            values: self.place_of(current.partition.new_location) for values, current in self.current_partitions.items()
        }
        return {values: self.contents[place] for values, place in places.items() if place in self.contents}

    def outstanding_locations(self, vacuum: LogEntry) -> tuple[LeftLocation, ...]:
        """Return what a vacuum names and has not deleted, unless readers have been there again since."""
        named = (deletion for deletion in vacuum.deletes if not deletion.kept)
        found = (
            (self.left_locations.get(self.parse(deletion.location).place), deletion.replaced_by) for deletion in named
        )
        return tuple(left for left, replaced_by in found if left is not None and left.left_by == replaced_by)

    def is_doomed(self, location: Location) -> bool:
        """Return whether a vacuum in doubt names a location: it may be deleted at this moment, or by the next one."""
        return not self.doomed_places.keys().isdisjoint(self.layout.places_around(location))

    def remaining_places(self, erasing: SlotRecord) -> frozenset[Place]:
        """Return the places of an erasure where readers look, or that they have left and no vacuum has deleted since.

        However often they have come back and left again. Another tool may have put new files where it had others: these
        are none of the erasure.
        """
        places = erasing.erased_places
        if not places:
            return places
        keys = frozenset(erasing.entry.erasure.keys if erasing.entry.erasure else ())
        texts = (current.partition.new_location for current in self.current_partitions.values())
        live = [location for text in texts if text and (location := Location.parse_any(text)) is not None]
        named = [
            left.location
            for left in self.left_locations.values()
            if not left.objects or any(file.key in keys for file in left.objects)
        ]
        return places & frozenset(
            place for location in (*live, *named) for place in self.layout.places_around(location)
        )

    def write_ids(self) -> frozenset[str]:
        """Return the writes whose files readers see, or have left."""
        texts = (text for current in self.current_partitions.values() for text in current.partition.locations)
        places = (*map(self.parse, texts), *(left.location for left in self.left_locations.values()))
        return frozenset(write_id for location in places if (write_id := self.layout.write_id_of(location)) is not None)

    def stands_for(self, unverified: Collection[int]) -> bool:
        """Return whether a fold may stand for its entries: not if one of their calls may have come since, unseen."""
        return all(version > self.version for version in unverified)

    def facts(self) -> tuple[object, ...]:
        """Return what two readings of one log agree on, which ages are not."""
        left = {place: (left.left_by, left.objects) for place, left in self.left_locations.items()}
        partitions = {
            values: (current.version, current.partition) for values, current in self.current_partitions.items()
        }
        return self.version, partitions, left, self.current_contents()

    def fold(self, log_id: str, stays: Callable[[int], bool]) -> TableState:
        """Return what is stored of the state: what concerns places that are there, and versions that stay."""
        there = self.live_places | self.left_locations.keys()
        vacuums = {version: frozenset(filter(stays, by)) for version, by in self.vacuums.items() if stays(version)}
        return replace(
            self,
            log_id=log_id,
            deleted_places={place: version for place, version in self.deleted_places.items() if place in there},
            contents={place: content for place, content in self.contents.items() if place in there},
            versions_by_place={
                place: tuple(filter(stays, by)) for place, by in self.versions_by_place.items() if place in there
            },
            grown_places=self.grown_places & there,
            vacuums={version: by for version, by in vacuums.items() if by},
            keys=self.keys.folded(stays),
            _counted=set(),
        )
