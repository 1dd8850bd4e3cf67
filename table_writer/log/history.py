"""The log as a whole: it says where each partition is, what readers have left, and what is being deleted.

Pure: made from the records of one reading of the log. Publish, recover, rollback, restore and vacuum decide by it.
Recover and vacuum begin with what an earlier vacuum has folded, and read only the entries after that.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Final

from table_writer.log.fold import CurrentPartition, Fold, LeftLocation
from table_writer.model.entry import EntryPartition, LogEntry, Operation, Outcome, ReplacedObject
from table_writer.model.location import Location, Place
from table_writer.model.table import VERSION_PARAMETER, PartitionValues
from table_writer.model.write import TableLayout, written_ids

LATE_CALL_SECONDS: Final = 86_400  # no metastore applies a call a day after it was sent
NOT_KNOWN: Final = ""  # a location that an outcome does not say


def superseded_locations(
    superseded: Collection[PartitionValues], found: Mapping[PartitionValues, str | None]
) -> dict[PartitionValues, str | None]:
    """Return the superseded partitions of an outcome, with where they were found."""
    return {values: found.get(values, NOT_KNOWN) for values in superseded}


def moved_locations(
    superseded: Collection[PartitionValues], found: Mapping[PartitionValues, str | None]
) -> dict[PartitionValues, str | None]:
    """Return where partitions were found that an entry had switched, and another tool has moved since."""
    return {values: place for values, place in found.items() if values not in superseded}


@dataclass(frozen=True, slots=True)
class SlotRecord:
    """An entry as it was found, with its outcome; ages are the store's own clock minus its LastModified."""

    entry: LogEntry
    outcome: Outcome | None
    age_seconds: float
    recorded_by: str = ""  # the write_id that recorded the outcome
    outcome_age_seconds: float = 0.0
    superseded: frozenset[PartitionValues] = frozenset()  # partitions that another tool had moved: never switched
    found: Mapping[PartitionValues, str | None] = field(default_factory=dict)
    """The locations of these at that time, and of others that had been switched and were moved since."""

    @property
    def switched_partitions(self) -> tuple[EntryPartition, ...]:
        """The partitions that it has changed, or wants to; of an abandoned one all that it wanted to."""
        skipped = self.superseded if self.outcome is Outcome.PUBLISHED else ()
        return tuple(partition for partition in self.entry.partitions if partition.values not in skipped)

    @property
    def superseded_locations(self) -> dict[PartitionValues, str | None]:
        """The superseded partitions, with where they were found."""
        return superseded_locations(self.superseded, self.found)

    @property
    def moved_locations(self) -> dict[PartitionValues, str | None]:
        """The partitions that were switched and that another tool has moved since, with where they were found."""
        return moved_locations(self.superseded, self.found)


@dataclass(frozen=True, slots=True)
class StateThen:
    """The location of a partition after a version, ``None`` if it did not exist; unknown if entries are gone."""

    location: str | None
    known: bool = field(kw_only=True)
    sure: bool = field(default=True, kw_only=True, compare=False)
    """False if another tool has moved it between two entries: nobody knows whether before or after that version."""


@dataclass(frozen=True, slots=True, order=True)
class Sight:
    """The locations of a partition before and after an entry, or a recovery that has left it alone, by the log."""

    version: int
    is_found: bool  # by a recovery, after the entry
    before: str | None = field(compare=False)
    after: str | None = field(compare=False)
    is_switched: bool = field(default=False, kw_only=True, compare=False)  # by the entry


@dataclass(frozen=True, slots=True)
class Belongs:
    """The location to which a partition belongs, and the version that says so."""

    version: int
    location: str | None  # None: nowhere


class Placement(enum.Enum):
    """The metastore's location of a partition, compared with the log."""

    IN_PLACE = "where the newest published entry has put it"
    BEHIND = "where an older entry of ours has put it: a call was applied late, or the metastore was set back"
    MISSING = "not in the metastore: another tool dropped it"
    MOVED = "at a location that the log does not know: another tool moved it"
    IN_DOUBT = "where a publish in doubt may have put it; only `placements_now` says so"


@dataclass(frozen=True)
class History:
    """All records of a log, folded; or a fold, and the records after it."""

    layout: TableLayout
    records: Sequence[SlotRecord]  # every one that is left in the log, or after the fold, by ascending version
    unverified: Collection[int] | None = None
    """Recoveries after which nobody has looked yet whether a call came late; ``None``: all that the records show."""
    lost: Collection[int] = ()  # versions whose entries are lost: what they did to which partition is not known
    fold: Fold | None = None
    """The fold of the entries before. It answers what recover and vacuum ask; other questions are refused."""
    current_partitions: dict[PartitionValues, CurrentPartition] = field(default_factory=dict, init=False)
    """The newest published entry's word on each partition that was ever published."""
    left_locations: dict[Place, LeftLocation] = field(default_factory=dict, init=False)
    """The locations that readers have left and no vacuum has deleted."""
    deleted: dict[Place, int] = field(default_factory=dict, init=False)
    """The places that vacuums have deleted, each with the version of the newest one."""
    doomed: set[Place] = field(default_factory=set, init=False)
    """The places that vacuums in doubt may be deleting at this moment."""
    naming: dict[PartitionValues, list[tuple[SlotRecord, EntryPartition]]] = field(
        default_factory=dict, init=False, repr=False
    )
    adding: dict[Place, list[tuple[int, SlotRecord, EntryPartition]]] = field(
        default_factory=dict, init=False, repr=False
    )
    """Appends in place to each location, whatever became of them; one that is done again keeps its version."""
    contents: dict[Place, EntryPartition] = field(default_factory=dict, init=False, repr=False)
    """The rows and files that lie at each location that was published."""
    _counted: set[str] = field(default_factory=set, init=False, repr=False)  # keys of files that were added in place
    locations: dict[str, Location] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.fold is not None:
            self._begin(self.fold)
        first: dict[int, int] = {}  # versions of entries that were done again, by those of their recoveries
        for record in self.records:
            version, again = record.entry.version, record.entry.recovers
            first[version] = version if again is None else first.get(again, again)
            for partition in record.entry.partitions:
                self.naming.setdefault(partition.values, []).append((record, partition))
                if partition.added and partition.new_location is not None:
                    place = self.parse(partition.new_location).place
                    self.adding.setdefault(place, []).append((first[version], record, partition))
            self._fold(record)

    def _begin(self, fold: Fold) -> None:
        self.current_partitions.update({current.partition.values: current for current in fold.current})
        self.left_locations.update({left_location.location.place: left_location for left_location in fold.left})
        self.deleted.update({self.parse(location).place: version for location, version in fold.deleted})
        self.contents.update({self.parse(str(partition.new_location)).place: partition for partition in fold.held})

    def up_to(self, version: int) -> History:
        """Return what a reading of the log would have shown when this version was the newest."""
        records = [record for record in self.records if record.entry.version <= version]
        return History(self.layout, records, self.unverified, self.lost, self.fold)

    def _require_entries(self) -> None:
        """Refuse a question that takes the entries before a fold: whoever asks it must read them."""
        if self.fold is not None:
            raise LookupError(f"entries up to version {self.fold.version} were not read, and this depends on them")

    def needs_entries(self, here: Mapping[PartitionValues, str]) -> bool:
        """Return whether only entries before the fold can tell how a partition came to where it is, at a place of ours.

        That is so after a late call, and after a metastore was set back.
        """
        return self.fold is not None and any(
            self._is_unexplained(values, location)
            for values, location in here.items()
            if values in self.current_partitions
        )

    def _is_unexplained(self, values: PartitionValues, text: str) -> bool:
        location = Location.parse_any(text)
        wanted = self.place_of(self.current_partitions[values].partition.new_location)
        is_elsewhere = location is not None and location.place != wanted and self.layout.own.contains(location)
        return is_elsewhere and self.placement(values, text) is not Placement.BEHIND

    def has_late_parameters(self, values: PartitionValues, parameters: Mapping[str, str]) -> bool:
        """Return whether a call of another version has put the parameters of a partition that is where it should be.

        An alter of an append in place changes no location: only the version that it writes tells that it came late.
        """
        text, newest = parameters.get(VERSION_PARAMETER, ""), self.current_partitions[values].version
        entries = {record.entry.version: record for record in self.records}
        if newest not in entries or not text.isdecimal():
            return False
        version, named = int(text), entries.get(int(text))
        is_older = version < (entries[newest].entry.recovers or newest)
        never_came = named is not None and (named.outcome is Outcome.ABANDONED or values in named.superseded)
        return is_older or never_came

    @property
    def newest(self) -> int:
        """The newest version; 0 if there is none."""
        return self.records[-1].entry.version if self.records else self.fold.version if self.fold else 0

    @property
    def last_slot(self) -> int:
        """The last slot that is taken: the newest version, or that of an entry after it that is lost."""
        return max(self.newest, *self.lost, 0)

    @cached_property
    def in_doubt(self) -> tuple[SlotRecord, ...]:
        """Entries without an outcome."""
        return tuple(record for record in self.records if record.outcome is None)

    @property
    def publishes_in_doubt(self) -> tuple[SlotRecord, ...]:
        """Entries in doubt that may change what readers see: all but vacuums."""
        return tuple(record for record in self.in_doubt if record.entry.operation is not Operation.VACUUM)

    @property
    def published_records(self) -> tuple[SlotRecord, ...]:
        """Entries that changed partitions."""
        ended = (record for record in self.records if record.outcome is Outcome.PUBLISHED)
        return tuple(record for record in ended if record.entry.operation is not Operation.VACUUM)

    @cached_property
    def _unverified_ids(self) -> frozenset[str]:
        """The recoveries that recorded the outcomes of entries whose calls may come late; none for one in doubt."""
        if self.unverified is None:
            recoveries = (record.entry for record in self.records if record.entry.operation is Operation.RECOVER)
        else:
            recoveries = (record.entry for record in self.records if record.entry.version in self.unverified)
        return frozenset({"", *(entry.write_id for entry in recoveries)})

    def _may_have_come_late(self, record: SlotRecord) -> bool:
        """Return whether an entry's call was unanswered, and may have come unseen, as where an outcome was rebuilt."""
        if record.recorded_by != record.entry.write_id:
            return record.recorded_by in self._unverified_ids
        is_rebuilt = record.entry.operation is not Operation.RECOVER
        return is_rebuilt and record.entry.version in (self.unverified or ())

    def publication(self, write_id: str) -> SlotRecord | None:
        """Return the entry that made readers see a write first, ``None`` if none did, or none is left."""
        self._require_entries()
        for record in self.published_records:
            has_made = record.entry.has_own_files or record.entry.recovers is not None
            if has_made and write_id in written_ids(self.layout, record.entry):
                return record
        return None

    @cached_property
    def claimed_ids(self) -> frozenset[str]:
        """The writes that ever claimed an entry: their files belong to the log.

        Of those before a fold only the ones of which readers see files, or have left some that are not deleted.
        """
        return self._ids_of(self.records) | self._folded_ids()

    @cached_property
    def published_ids(self) -> frozenset[str]:
        """The writes that readers look at, have looked at, or may look at once an entry is resolved."""
        self._require_entries()
        return self._ids_of([record for record in self.records if record.outcome is not Outcome.ABANDONED])

    @cached_property
    def live_places(self) -> frozenset[Place | None]:
        """The places where readers look, by the newest published entries."""
        return frozenset(self.place_of(current.partition.new_location) for current in self.current_partitions.values())

    @cached_property
    def ids_in_doubt(self) -> frozenset[str]:
        """The writes whose files an entry in doubt names."""
        return self._ids_of(self.in_doubt)

    def in_use(self) -> frozenset[Place]:
        """Return where readers look by the log, or may once what is in doubt is resolved, or a late call is undone."""
        named = [current.partition.new_location for current in self.current_partitions.values()]
        found = (self.belongs(values) for values in self.known_values) if self._unverified_ids != {""} else ()
        named += [belongs.location for belongs in found if belongs is not None]
        for partition in (partition for record in self.in_doubt for partition in record.entry.partitions):
            named += [partition.old_location, partition.new_location, partition.source]
        return frozenset(place for location in named if (place := self.place_of(location)) is not None)

    def placement(self, values: PartitionValues, location: str | None) -> Placement:
        """Compare the metastore's location of a partition, ``None`` if it does not exist, with the log.

        An older location of this library is always behind. Others, too, can drop a partition, or point it back at files
        of other tools. That is behind only if a call of ours that did the same was never answered, and nobody has
        looked after the day in which the call could come. Else somebody did it on purpose. A placeholder that no entry
        names counts as no partition: a refused publish has added it.
        """
        if self.correction_of(values, location) is not None:
            return Placement.BEHIND
        newest = self.current_partitions.get(values)
        current = None if location is None else Location.parse_any(location)
        wanted = self.place_of(newest.partition.new_location) if newest is not None else None
        if current is not None and current.place == wanted:
            return Placement.IN_PLACE
        if location is not None and (not self._is_name(location) or self.lost_after(newest.version if newest else 0)):
            return Placement.MOVED  # if not by another tool, then by a lost entry, for all that is known
        return Placement.IN_PLACE if newest is not None and wanted is None else Placement.MISSING

    def placements(
        self, here: Mapping[PartitionValues, str], wanted: Iterable[PartitionValues] | None = None
    ) -> dict[PartitionValues, Placement]:
        """Compare with the metastore what was ever published, or brought somewhere late; by default all of it."""
        return {
            values: self.placement(values, here.get(values))
            for values in (self.known_values if wanted is None else wanted)
            if values in self.current_partitions or self.correction_of(values, here.get(values))
        }

    def belongs(self, values: PartitionValues) -> Belongs | None:
        """Return where a partition belongs, ``None`` if nobody knows: of publishes and recoveries the newest says it.

        A recovery that has left it alone says where it was found, for as long as calls may come that take it from
        there. Where calls of ours lead to files of ours, a late one had taken it by then.
        """
        newest = self.current_partitions.get(values)
        published = None if newest is None else Belongs(newest.version, newest.partition.new_location)
        for record, partition in reversed(self.naming.get(values, ())):
            if newest is not None and record.entry.version < newest.version:
                break
            is_found = values in record.found and record.recorded_by in self._unverified_ids
            is_given_up = record.outcome is not None and self._may_have_come_late(record)
            if not is_found and (not is_given_up or (newest is not None and record.entry.version == newest.version)):
                continue
            text = record.found.get(values, partition.old_location)
            location = None if text is None else Location.parse_any(text)
            if text is not None and location is None:
                return None
            place = None if location is None else location.place
            if published is not None and place == self.place_of(published.location):
                return published
            is_ours = location is not None and self.layout.all_data.contains(location)
            if published is None or not is_ours or place not in self._calls(values):
                return Belongs(record.entry.version, text)
        return published

    def correction_of(self, values: PartitionValues, location: str | None) -> Belongs | None:
        """Return where a partition goes back to that a late call has brought to where it is; ``None`` if none has."""
        belongs, current = self.belongs(values), None if location is None else Location.parse_any(location)
        if belongs is None or (location is not None and (current is None or self.lost_after(belongs.version))):
            return None
        wanted, place = self.place_of(belongs.location), current.place if current else None
        calls = {} if place == wanted else self._calls(values)
        if place not in calls and self._is_name(location):
            place = None
        if place not in calls or place == wanted:
            return None
        return replace(belongs, location=None) if calls[place] else belongs

    @cached_property
    def _only_adding(self) -> frozenset[int]:
        """The entries whose own call only adds partitions: it changes nothing where there is one."""
        return frozenset(record.entry.version for record in self.records if record.entry.only_adds)

    def _calls(self, values: PartitionValues) -> dict[Place | None, bool]:
        """Return where calls may bring a partition, ``None`` being nowhere; and whether only where there was none.

        Those are the calls of entries before the newest published one, but not to where that has put it: there it is
        in place. And, while they may come unseen, of those after it, which by their outcomes have not moved it.
        """
        newest = self.current_partitions.get(values)
        calls: dict[Place | None, bool] = {}
        for record, partition in self.naming.get(values, ()):
            version, is_older = record.entry.version, newest is not None and record.entry.version < newest.version
            places: set[Place | None] = set(self._places_of(record.entry, partition)) if is_older else set()
            is_given_up = record.outcome is not None and (newest is None or version > newest.version)
            if (is_older or is_given_up) and self._may_have_come_late(record):
                places.add(self.place_of(partition.new_location))
            if is_older and newest is not None and newest.partition.new_location is not None:
                places.discard(self.place_of(newest.partition.new_location))
            adds = is_given_up and version in self._only_adding
            calls |= {place: adds and calls.get(place, True) for place in places}
        return calls

    @cached_property
    def known_values(self) -> frozenset[PartitionValues]:
        """All partitions that were ever published, or that late calls may bring somewhere."""
        return frozenset(self.current_partitions).union(
            values for values in self.naming.keys() - self.current_partitions if self._calls(values)
        )

    def state_at(self, version: int) -> dict[PartitionValues, StateThen]:
        """Return where each partition that was changed after ``version`` was at ``version``.

        It was where the newest sight up to then had it; before the first, where all later ones have found it until one
        has switched it. If entries in between were trimmed, and no other sight confirms the location, it is not known.
        """
        self._require_entries()
        later = (record for record in self.published_records if record.entry.version > version)
        changed_values = dict.fromkeys(partition.values for record in later for partition in record.switched_partitions)
        hole = next(
            (number for number in range(version + 1, self.newest) if number not in self._by_version), self.newest
        )
        return {values: self._state_at(values, version, hole) for values in changed_values}

    def _state_at(self, values: PartitionValues, version: int, hole: int) -> StateThen:
        sights = self._sights(values)
        last = max((sight for sight in reversed(sights) if sight.version <= version), default=None)
        later = sorted(sight for sight in sights if sight.version > version)
        changed = next(index for index, sight in enumerate(later) if sight.is_switched)
        seen = [sight.before for sight in later[: changed + 1]]
        if last is None:
            places = {None if self._is_name(text) else self.place_of(text) for text in seen}
            return StateThen(seen[-1], known=later[changed].version <= hole, sure=len(places) == 1)
        is_borne_out = set(map(self.place_of, seen)) == {self.place_of(last.after)}
        known = is_borne_out or all(number in self._by_version for number in range(last.version, version + 1))
        return StateThen(last.after, known=known, sure=is_borne_out or last.version == version)

    @cached_property
    def _by_version(self) -> Mapping[int, SlotRecord]:
        return {record.entry.version: record for record in self.records}

    @cached_property
    def _version_of(self) -> Mapping[str, int]:
        return {record.entry.write_id: record.entry.version for record in self.records}

    def _sights(self, values: PartitionValues) -> list[Sight]:
        """Return where a partition was on record to be, before and after entries and recoveries that left it alone.

        A correction shows that it was before its late call where it is after the correction.
        """
        sights: list[Sight] = []
        for record, partition in self.naming.get(values, ()):
            entry, corrected = record.entry, self._by_version.get(record.entry.recovers or 0)
            if record.outcome is Outcome.PUBLISHED and values not in record.superseded:
                is_correction = corrected is not None and corrected.recorded_by not in {"", entry.write_id}
                before = partition.new_location if is_correction else partition.old_location
                sights.append(Sight(entry.version, False, before, partition.new_location, is_switched=True))
            elif record.outcome is not None and entry.operation is not Operation.RECOVER:  # what its claim has found
                sights.append(Sight(entry.version, False, partition.old_location, partition.old_location))
            if values in record.found:
                found = record.found[values]
                sights.append(Sight(self._version_of.get(record.recorded_by, entry.version), True, found, found))
        return sights

    def states_at(self, version: int) -> dict[PartitionValues, StateThen]:
        """Return the same of every partition that was ever published: the others are where they were at ``version``."""
        unchanged = {
            values: StateThen(current.partition.new_location, known=True)
            for values, current in self.current_partitions.items()
        }
        for values in {values for record in self.records for values in record.moved_locations}:
            unchanged[values] = StateThen(max(reversed(self._sights(values))).after, known=True)
        return unchanged | self.state_at(version)

    def is_deleted(self, location: Location) -> bool:
        """Return whether a vacuum has deleted what lay there, or may be deleting it, and readers have not come back."""
        self._require_entries()
        place = location.place
        if place in self.live_places:
            return False
        left, deleted = self.left_locations.get(place), self.deleted.get(place)
        return place in self.doomed or (deleted is not None and (left is None or deleted >= left.left_by))

    def lost_after(self, version: int) -> int | None:
        """Return the first lost version after another one, ``None`` if there is none."""
        return min((lost_version for lost_version in self.lost if lost_version > version), default=None)

    def content_at(
        self, values: PartitionValues, location: Location, *, version: int | None = None
    ) -> EntryPartition | None:
        """Return what the log knows of the files at a location of ours after a version, by default the newest.

        Those that appends in place have added since it was written count. ``None`` if no entry has written it.
        """
        self._require_entries()
        content: EntryPartition | None = None
        added: dict[str, EntryPartition] = {}  # by the first of its files: a recovery does the same append again
        for record, partition in self.naming.get(values, []):
            if version is not None and record.entry.version > version:
                break
            if partition.new_location is None or not location.same_place(self.parse(partition.new_location)):
                continue
            if not partition.added:
                content, added = partition, {}
            elif record.outcome is Outcome.PUBLISHED and values not in record.superseded:
                added[partition.added[0].name] = partition
        return None if content is None else reduce(EntryPartition.with_more, added.values(), content)

    def published_of(self, values: PartitionValues) -> Iterator[tuple[SlotRecord, EntryPartition]]:
        """Yield the entries that have changed a partition, newest first, with what they say of it."""
        self._require_entries()
        for record, partition in reversed(self.naming.get(values, [])):
            if record.outcome is Outcome.PUBLISHED and values not in record.superseded:
                yield record, partition

    def current_contents(self) -> dict[PartitionValues, EntryPartition]:
        """Return what lies where each partition is by the log, as far as the log has written it."""
        places = {
            values: self.place_of(current.partition.new_location) for values, current in self.current_partitions.items()
        }
        return {values: self.contents[place] for values, place in places.items() if place in self.contents}

    def surplus_names(self, location: Location, version: int) -> frozenset[str]:
        """Return names of files that may lie at a location, or come there, and are no part of a version.

        Those are the files of all appends in place but the ones that were published up to the version. A recovery names
        the same files as the entry that it finishes. What its own claimant has abandoned was refused before any copy.
        """
        self._require_entries()
        adding = [
            (at, record, partition)
            for at, record, partition in self.adding.get(location.place, [])
            if record.outcome is not Outcome.ABANDONED or record.recorded_by != record.entry.write_id
        ]
        part = {
            file.name
            for at, record, partition in adding
            if at <= version and record.outcome is Outcome.PUBLISHED and partition.values not in record.superseded
            for file in partition.added
        }
        return frozenset(file.name for _, _, partition in adding for file in partition.added) - part

    def is_restorable(self, location: Location) -> bool:
        """Return whether readers have left files there that no vacuum has deleted, or may be deleting."""
        self._require_entries()
        left = self.left_locations.get(location.place)
        is_there = left is not None and self.deleted.get(location.place, 0) < left.left_by
        return is_there and location.place not in self.doomed

    def outstanding_locations(self, vacuum: LogEntry) -> tuple[LeftLocation, ...]:
        """Return what a vacuum names and has not deleted, unless readers have been there again since."""
        named = (deletion for deletion in vacuum.deletes if not deletion.kept)
        found = (
            (self.left_locations.get(self.parse(deletion.location).place), deletion.replaced_by) for deletion in named
        )
        return tuple(left for left, replaced_by in found if left is not None and left.left_by == replaced_by)

    def _fold(self, record: SlotRecord) -> None:
        entry = record.entry
        if entry.operation is Operation.VACUUM:
            self._fold_vacuum(record)
        elif record.outcome is Outcome.ABANDONED:
            self._fold_abandoned(record)
        elif record.outcome is Outcome.PUBLISHED:
            self._fold_published(record)

    def _fold_vacuum(self, record: SlotRecord) -> None:
        if record.outcome is Outcome.ABANDONED:
            return
        for deleted in (deletion for deletion in record.entry.deletes if not deletion.kept):
            place = self.parse(deleted.location).place
            if record.outcome is None:
                self.doomed.add(place)
                continue
            self.deleted[place] = record.entry.version
            self.contents.pop(place, None)
            if place in self.left_locations and self.left_locations[place].left_by == (
                deleted.replaced_by or self.left_locations[place].left_by
            ):
                del self.left_locations[place]

    def _fold_abandoned(self, record: SlotRecord) -> None:
        """Leave what only this entry would have shown; all but writes point at what is there anyway, or have copied."""
        entry, data = record.entry, self.layout.data(record.entry.write_id)
        own = [
            self.parse(partition.own_location) for partition in entry.partitions if partition.own_location is not None
        ]
        if entry.has_own_files:
            self._leave(data, record, bytes=sum(p.bytes for p in entry.partitions))
            copies = [location for location in own if not data.contains(location)]  # in a fresh directory
        else:
            copies = [location for location in own if data.contains(location)]
        seen = {self.place_of(partition.old_location) for partition in entry.partitions}
        # also what copies elsewhere had replaced before the claim
        replaced = (self.parse(replaced_location.location) for replaced_location in entry.replaced)
        unseen_places = (location for location in replaced if self._is_ours(location) and location.place not in seen)
        for location in (*copies, *unseen_places):
            self._leave(location, record)

    def _hold(self, partition: EntryPartition) -> None:
        """Note what lies at a partition's new location; a recovery does an append in place again, which counts once."""
        place = self.place_of(partition.new_location)
        targets = partition.targets()
        if place is not None and not targets:
            self.contents[place] = replace(partition, figures="")
        elif place in self.contents and not targets.keys() <= self._counted:
            self.contents[place] = self.contents[place].with_more(partition)
        self._counted.update(targets)

    def _fold_published(self, record: SlotRecord) -> None:
        entry, data = record.entry, self.layout.all_data
        switched = [partition for partition in entry.partitions if partition.values not in record.superseded]
        for partition in switched:
            before = self.current_partitions.get(partition.values)
            for text in (self._left_behind(before), partition.old_location):
                if text is not None and text != partition.new_location and data.contains(self.parse(text)):
                    held = self.contents.get(self.parse(text).place)
                    self._leave(self.parse(text), record, bytes=held.bytes if held else 0)
            self._hold(partition)
            self.current_partitions[partition.values] = CurrentPartition(
                entry.version, partition, record.outcome_age_seconds
            )
        left = {self.place_of(partition.old_location) for partition in switched}
        replaced_places = (self.parse(replaced_location.location) for replaced_location in entry.replaced)
        ids = {entry.write_id, entry.recovered_write_id}
        own = {location.place for location in replaced_places if self.layout.write_id_of(location) in ids}
        for replaced in entry.replaced:
            location = self.parse(replaced.location)
            if record.superseded and location.place not in left and location.place not in own:
                continue  # another tool has taken its files elsewhere: they were never replaced by this library
            earlier = self.left_locations.get(location.place)
            self._leave(
                location,
                record,
                retention_seconds=max(0.0, (replaced.delete_after - entry.created_at).total_seconds()),
                objects=replaced.objects,
                bytes=sum(found.size_bytes for found in replaced.objects) or (earlier.bytes if earlier else 0),
            )
        for partition in entry.partitions:
            if partition.new_location is None:
                continue
            if partition.values not in record.superseded:
                self._come_to(self.parse(partition.new_location))
            else:
                self._leave_superseded(partition, record)

    def _left_behind(self, before: CurrentPartition | None) -> str | None:
        """Return where a partition was; not what is deleted by now, since an entry that is trimmed had left it."""
        text = before.partition.new_location if before else None
        deleted = self.deleted.get(self.parse(text).place, 0) if text else 0
        return None if before is None or deleted > before.version else text

    def _leave_superseded(self, partition: EntryPartition, record: SlotRecord) -> None:
        """Note that readers never came to these files, if they are this entry's, or of one that it recovers."""
        entry, location = record.entry, self.parse(str(partition.own_location))
        is_copy = self.layout.write_id_of(location) == entry.write_id
        if is_copy or entry.has_own_files or entry.recovers is not None:
            self._leave(location, record, bytes=partition.bytes)

    def _come_to(self, location: Location) -> None:
        """Note that readers look at a location, which may belong to a write whose earlier entry was abandoned."""
        self.left_locations.pop(location.place, None)
        write_id = self.layout.write_id_of(location)
        if write_id is not None:
            self.left_locations.pop(self.layout.data(write_id).place, None)

    def parse(self, text: str) -> Location:
        """Parse a location, each text once: entries name the same ones again and again."""
        if text not in self.locations:
            self.locations[text] = Location.parse(text)
        return self.locations[text]

    def place_of(self, location: str | None) -> Place | None:
        """Return what compares a location with others, ``None`` for none; other tools may have written any text."""
        if location is None:
            return None
        parsed = self.locations.get(location) or Location.parse_any(location)
        return ("", "", location) if parsed is None else self.parse(location).place

    def _is_name(self, text: str | None) -> bool:
        """Return whether a publish has left a name there: where another tool has not written, there is no partition."""
        location = None if text is None else Location.parse_any(text)
        return location is not None and self.layout.is_placeholder(location)

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

    def _is_ours(self, location: Location) -> bool:
        return self.layout.write_id_of(location) is not None

    def _places_of(self, entry: LogEntry, partition: EntryPartition) -> Iterable[Place]:
        """Yield the places to which only an entry's calls move a partition: its placeholder; its location, if ours."""
        yield self.layout.empty(entry.write_id, partition.values).place
        if partition.new_location is not None and self._is_ours(self.parse(partition.new_location)):
            yield self.parse(partition.new_location).place

    def _folded_ids(self) -> set[str]:
        """Return the writes of which a fold still names files, or directories."""
        partitions = (current.partition for current in self.fold.current) if self.fold else ()
        texts = {
            text
            for partition in partitions
            for text in (partition.old_location, partition.new_location, partition.source)
            if text
        }
        left = (old.location for old in (self.fold.left if self.fold else ()))
        places = [*map(self.parse, texts), *left]
        return {write_id for location in places if (write_id := self.layout.write_id_of(location)) is not None}

    def _ids_of(self, records: Collection[SlotRecord]) -> frozenset[str]:
        """Return the writes that entries name, by their own ``write_id`` and by every location."""
        named = (
            location
            for record in records
            for partition in record.entry.partitions
            for location in (partition.old_location, partition.new_location)
            if location is not None
        )
        found = {self.layout.write_id_of(self.parse(location)) for location in named}
        own = {record.entry.write_id for record in records if record.entry.has_own_files}
        recovered = {record.entry.recovered_write_id for record in records}
        return frozenset(write_id for write_id in found | own | recovered if write_id)
