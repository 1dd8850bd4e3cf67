"""The partitions of a table after an earlier version, as far as its entries tell; what nobody can know is said so.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce

from table_writer.model.entry import EntryPartition, LogEntry, Outcome
from table_writer.model.location import Location, Place
from table_writer.model.table import PartitionValues
from table_writer.protocol.log.records import Records, SlotRecord
from table_writer.protocol.log.state import TableState


@dataclass(frozen=True, slots=True)
class PastLocation:
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


class PastStates:
    """The states of a table after each version; all of its entries must have been read."""

    def __init__(self, records: Records, state: TableState) -> None:
        self._records = records
        self._state = state

    def changed_since(self, version: int) -> dict[PartitionValues, PastLocation]:
        """Return where each partition that was changed after ``version`` was at ``version``.

        It was where the newest sight up to then had it; before the first, where all later ones have found it until one
        has switched it. If entries in between were trimmed, and no other sight confirms the location, it is not known.
        """
        self._records.require_all()
        later = (record for record in self._records.published if record.entry.version > version)
        changed_values = dict.fromkeys(partition.values for record in later for partition in record.switched_partitions)
        newest = self._state.version
        hole = next(
            (number for number in range(version + 1, newest) if not self._records.has_all(number, number)), newest
        )
        return {values: self._state_at(values, version, hole) for values in changed_values}

    def at(self, version: int) -> dict[PartitionValues, PastLocation]:
        """Return the same of every partition that was ever published: the others are where they were at ``version``."""
        unchanged = {
            values: PastLocation(current.partition.new_location, known=True)
            for values, current in self._state.current_partitions.items()
        }
        for values in {values for record in self._records for values in record.moved_locations}:
            unchanged[values] = PastLocation(max(reversed(self._sights(values))).after, known=True)
        return unchanged | self.changed_since(version)

    def _state_at(self, values: PartitionValues, version: int, hole: int) -> PastLocation:
        sights, place_of = self._sights(values), self._state.place_of
        last = max((sight for sight in reversed(sights) if sight.version <= version), default=None)
        later = sorted(sight for sight in sights if sight.version > version)
        changed = next(index for index, sight in enumerate(later) if sight.is_switched)
        seen = [sight.before for sight in later[: changed + 1]]
        if last is None:
            places = {None if self._state.is_placeholder(text) else place_of(text) for text in seen}
            return PastLocation(seen[-1], known=later[changed].version <= hole, sure=len(places) == 1)
        is_borne_out = set(map(place_of, seen)) == {place_of(last.after)}
        known = is_borne_out or self._records.has_all(last.version, version)
        return PastLocation(last.after, known=known, sure=is_borne_out or last.version == version)

    @cached_property
    def _version_of(self) -> Mapping[str, int]:
        return {record.entry.write_id: record.entry.version for record in self._records}

    def _sights(self, values: PartitionValues) -> list[Sight]:
        """Return where a partition was on record to be, before and after entries and recoveries that left it alone.

        A recovery does again what an earlier entry says, or undoes a call of it that came late: by the log the
        partition was before, as it is after, where that entry has put it.
        """
        sights: list[Sight] = []
        for record, partition in self._records.by_partition.get(values, ()):
            entry = record.entry
            if record.has_switched(values):
                before = partition.new_location if entry.meaning.repeats else partition.old_location
                sights.append(Sight(entry.version, False, before, partition.new_location, is_switched=True))
            elif record.outcome is not None and not entry.meaning.repeats:  # what its claim has found
                sights.append(Sight(entry.version, False, partition.old_location, partition.old_location))
            if values in record.found:
                found = record.found[values]
                sights.append(Sight(self._version_of.get(record.recorded_by, entry.version), True, found, found))
        return sights

    def content_at(
        self, values: PartitionValues, location: Location, *, version: int | None = None
    ) -> EntryPartition | None:
        """Return what the log knows of the files at a location of ours after a version, by default the newest.

        Those that appends in place have added since it was written count. ``None`` if no entry has written it.
        """
        self._records.require_all()
        content: EntryPartition | None = None
        added: dict[str, EntryPartition] = {}  # by the first of its files: a recovery does the same append again
        for record, partition in self._records.by_partition.get(values, ()):
            if version is not None and record.entry.version > version:
                break
            if partition.new_location is None or location.place != self._state.place_of(partition.new_location):
                continue
            if partition.holds_all:
                content, added = partition, {}
            elif record.has_switched(values):
                added[partition.added[0].name] = partition
        return None if content is None else reduce(EntryPartition.with_more, added.values(), content)

    @cached_property
    def _appends_in_place(self) -> Mapping[Place, list[tuple[int, SlotRecord, EntryPartition]]]:
        """Appends in place to each location, whatever became of them; one that is done again keeps its version."""
        appends: dict[Place, list[tuple[int, SlotRecord, EntryPartition]]] = {}
        first: dict[int, int] = {}  # versions of entries that were done again, by those of their recoveries
        for record in self._records:
            version, again = record.entry.version, record.entry.recovers
            first[version] = version if again is None else first.get(again, again)
            for partition in (partition for partition in record.entry.partitions if partition.added):
                place = self._state.parse(str(partition.new_location)).place
                appends.setdefault(place, []).append((first[version], record, partition))
        return appends

    def surplus_names(self, location: Location, version: int) -> frozenset[str]:
        """Return names of files that may lie at a location, or come there, and are no part of a version.

        Those are the files of all appends in place but the ones that were published up to the version. A recovery names
        the same files as the entry that it finishes. What its own claimant has abandoned was refused before any copy.
        """
        self._records.require_all()
        appends = [
            (first, record, partition)
            for first, record, partition in self._appends_in_place.get(location.place, [])
            if record.outcome is not Outcome.ABANDONED or record.recorded_by != record.entry.write_id
        ]
        part = {
            file.name
            for first, record, partition in appends
            if first <= version and record.has_switched(partition.values)
            for file in partition.added
        }
        return frozenset(file.name for _, _, partition in appends for file in partition.added) - part

    def is_deleted(self, location: Location) -> bool:
        """Return whether a vacuum has deleted what lay there, or may be deleting it, and readers have not come back."""
        self._records.require_all()
        state, place = self._state, location.place
        if place in state.live_places:
            return False
        left, deleted = state.left_locations.get(place), state.deleted_places.get(place)
        return state.is_doomed(location) or (deleted is not None and (left is None or deleted >= left.left_by))

    def erasure_of(self, location: Location) -> LogEntry | None:
        """Return the entry by which the files at a location are to be erased, or were; ``None`` if there is none."""
        self._records.require_all()
        places = self._state.layout.places_around(location)
        return next((record.entry for record in self._records if record.erased_places & places), None)

    def is_restorable(self, location: Location) -> bool:
        """Return whether readers have left files there that no vacuum has deleted, or may be deleting."""
        self._records.require_all()
        state, left = self._state, self._state.left_locations.get(location.place)
        is_there = left is not None and state.deleted_places.get(location.place, 0) < left.left_by
        return is_there and not state.is_doomed(location)
