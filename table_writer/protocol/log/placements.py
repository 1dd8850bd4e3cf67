"""Where partitions are, compared with where they belong by the log: a call that came late may have taken them away.

Pure. A call is late that the metastore applies after others have been told how its entry ended.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from table_writer.model.entry import EntryPartition, LogEntry, Outcome
from table_writer.model.location import Location, Place, PlaceSet
from table_writer.model.table import VERSION_PARAMETER, PartitionValues
from table_writer.protocol.log.records import Records, SlotRecord
from table_writer.protocol.log.state import TableState


class Placement(enum.Enum):
    """The metastore's location of a partition, compared with the log."""

    IN_PLACE = "where the newest published entry has put it"
    BEHIND = "where an older entry of ours has put it: a call was applied late, or the metastore was set back"
    MISSING = "not in the metastore: another tool dropped it"
    MOVED = "at a location that the log does not know: another tool moved it"
    IN_DOUBT = "where a publish in doubt may have put it; only `placements_now` says so"


@dataclass(frozen=True, slots=True)
class RightPlace:
    """The location to which a partition belongs, and the version that says so."""

    version: int
    location: str | None  # None: nowhere


class Placements:
    """Compares partitions with one reading of the log.

    ``unverified`` are recoveries after which nobody has looked yet whether a call came late; ``None``: all that the
    records show. ``lost`` are versions whose entries are lost: what they did to which partition is not known.
    """

    def __init__(
        self, records: Records, state: TableState, unverified: Collection[int] | None, lost: Collection[int]
    ) -> None:
        self._records = records
        self._state = state
        self._unverified = unverified
        self._lost = lost

    def of(self, values: PartitionValues, location: str | None) -> Placement:
        """Compare the metastore's location of a partition, ``None`` if it does not exist, with the log.

        An older location of this library is always behind. Others, too, can drop a partition, or point it back at files
        of other tools. That is behind only if a call of ours that did the same was never answered, and nobody has
        looked after the day in which the call could come. Else somebody did it on purpose. A placeholder that no entry
        names counts as no partition: a refused publish has added it.
        """
        if self.correction_of(values, location) is not None:
            return Placement.BEHIND
        newest = self._state.current_partitions.get(values)
        current = None if location is None else Location.parse_any(location)
        wanted = self._state.place_of(newest.partition.new_location) if newest is not None else None
        if current is not None and current.place == wanted:
            return Placement.IN_PLACE
        if location is not None and (
            not self._state.is_placeholder(location) or self._has_lost_after(newest.version if newest else 0)
        ):
            return Placement.MOVED  # if not by another tool, then by a lost entry, for all that is known
        return Placement.IN_PLACE if newest is not None and wanted is None else Placement.MISSING

    def of_all(
        self, here: Mapping[PartitionValues, str], wanted: Iterable[PartitionValues] | None = None
    ) -> dict[PartitionValues, Placement]:
        """Compare with the metastore what was ever published, or brought somewhere late; by default all of it."""
        return {
            values: self.of(values, here.get(values))
            for values in (self.known_values if wanted is None else wanted)
            if values in self._state.current_partitions or self.correction_of(values, here.get(values))
        }

    def right_place_of(self, values: PartitionValues) -> RightPlace | None:
        """Return where a partition belongs, ``None`` if nobody knows: of publishes and recoveries the newest says it.

        A recovery that has left it alone says where it was found, for as long as calls may come that take it from
        there. Where calls of ours lead to files of ours, a late one had taken it by then.
        """
        newest = self._state.current_partitions.get(values)
        published = None if newest is None else RightPlace(newest.version, newest.partition.new_location)
        for record, partition in reversed(self._records.by_partition.get(values, ())):
            if newest is not None and record.entry.version < newest.version:
                break
            is_found = values in record.found and record.recorded_by in self._unverified_ids
            is_late = record.outcome is not None and self._may_have_come_late(record)
            if not is_found and (not is_late or (newest is not None and record.entry.version == newest.version)):
                continue
            text = record.found.get(values, partition.old_location)
            location = None if text is None else Location.parse_any(text)
            if text is not None and location is None:
                return None
            place = None if location is None else location.place
            if published is not None and place == self._state.place_of(published.location):
                return published
            is_ours = location is not None and self._state.layout.all_data.contains(location)
            if published is None or not is_ours or place not in self._calls(values):
                return RightPlace(record.entry.version, text)
        return published

    def correction_of(self, values: PartitionValues, location: str | None) -> RightPlace | None:
        """Return where a partition goes back to that a late call has brought to where it is; ``None`` if none has."""
        right_place, current = self.right_place_of(values), None if location is None else Location.parse_any(location)
        if right_place is None or (
            location is not None and (current is None or self._has_lost_after(right_place.version))
        ):
            return None
        wanted, place = self._state.place_of(right_place.location), current.place if current else None
        calls = {} if place == wanted else self._calls(values)
        if place not in calls and self._state.is_placeholder(location):
            place = None
        if place not in calls or place == wanted:
            return None
        return replace(right_place, location=None) if calls[place] else right_place

    def is_led_to(self, values: PartitionValues, text: str | None) -> bool:
        """Return whether a call of ours that may have come unseen leads there, though it may belong there, too."""
        location = None if text is None else Location.parse_any(text)
        return location is not None and location.place in self._calls(values)

    @cached_property
    def known_values(self) -> frozenset[PartitionValues]:
        """All partitions that were ever published, or that late calls may bring somewhere."""
        unpublished = self._records.by_partition.keys() - self._state.current_partitions
        return frozenset(self._state.current_partitions).union(values for values in unpublished if self._calls(values))

    def right_places(self) -> Iterator[str | None]:
        """Yield where partitions go back to once late calls are undone; nothing while none may come."""
        if self._unverified_ids != {""}:
            found = (self.right_place_of(values) for values in self.known_values)
            yield from (right_place.location for right_place in found if right_place is not None)

    @cached_property
    def late_places(self) -> PlaceSet:
        """The places to which calls may have brought readers late, unseen, or may yet bring them.

        An abandoned write is left as its whole directory, around the places of its partitions.
        """
        late = (record for record in self._records if record.outcome is not None and self._may_have_come_late(record))
        texts = (partition.new_location for record in late for partition in record.entry.partitions)
        return PlaceSet(place for text in texts if (place := self._state.place_of(text)) is not None)

    def is_unexplained(self, values: PartitionValues, text: str) -> bool:
        """Return whether a published partition is at a place of ours, and no record that was read tells why."""
        location = Location.parse_any(text)
        wanted = self._state.place_of(self._state.current_partitions[values].partition.new_location)
        own = self._state.layout.own
        is_elsewhere = location is not None and location.place != wanted and own.contains(location)
        return is_elsewhere and self.of(values, text) is not Placement.BEHIND

    def has_late_parameters(self, values: PartitionValues, parameters: Mapping[str, str]) -> bool:
        """Return whether a call of another version has put the parameters of a partition that is where it should be.

        An alter of an append in place changes no location: only the version that it writes tells that it came late.
        """
        text, newest = parameters.get(VERSION_PARAMETER, ""), self._state.current_partitions[values].version
        entries = self._records.by_version
        if newest not in entries or not text.isdecimal():
            return False
        version, named = int(text), entries.get(int(text))
        is_older = version < (entries[newest].entry.recovers or newest)
        never_came = named is not None and (named.outcome is Outcome.ABANDONED or values in named.superseded)
        return is_older or never_came

    def _has_lost_after(self, version: int) -> bool:
        return any(lost_version > version for lost_version in self._lost)

    @cached_property
    def _unverified_ids(self) -> frozenset[str]:
        """The recoveries that recorded the outcomes of entries whose calls may come late; none for one in doubt."""
        if self._unverified is None:
            recoveries = (record.entry for record in self._records if record.entry.meaning.repeats)
        else:
            recoveries = (record.entry for record in self._records if record.entry.version in self._unverified)
        return frozenset({"", *(entry.write_id for entry in recoveries)})

    def _may_have_come_late(self, record: SlotRecord) -> bool:
        """Return whether an entry's call was unanswered, and may have come unseen, as where an outcome was rebuilt."""
        if record.recorded_by != record.entry.write_id:
            return record.recorded_by in self._unverified_ids
        return not record.entry.meaning.repeats and record.entry.version in (self._unverified or ())

    def _calls(self, values: PartitionValues) -> dict[Place | None, bool]:
        """Return where calls may bring a partition, ``None`` being nowhere; and whether only where there was none.

        Those are the calls of entries before the newest published one, but not to where that has put it: there it is
        in place. And, while they may come unseen, of those after it, which by their outcomes have not moved it.
        """
        newest = self._state.current_partitions.get(values)
        calls: dict[Place | None, bool] = {}
        for record, partition in self._records.by_partition.get(values, ()):
            version, is_older = record.entry.version, newest is not None and record.entry.version < newest.version
            places: set[Place | None] = set(self._own_places(record.entry, partition)) if is_older else set()
            is_unpublished = record.outcome is not None and (newest is None or version > newest.version)
            if (is_older or is_unpublished) and self._may_have_come_late(record):
                places.add(self._state.place_of(partition.new_location))
            if is_older and newest is not None and newest.partition.new_location is not None:
                places.discard(self._state.place_of(newest.partition.new_location))
            adds = is_unpublished and version in self._only_adding
            calls |= {place: adds and calls.get(place, True) for place in places}
        return calls

    @cached_property
    def _only_adding(self) -> frozenset[int]:
        """The entries whose own call only adds partitions: it changes nothing where there is one."""
        return frozenset(record.entry.version for record in self._records if record.entry.only_adds)

    def _own_places(self, entry: LogEntry, partition: EntryPartition) -> Iterator[Place]:
        """Yield the places to which only an entry's calls move a partition: its placeholder; its location, if ours."""
        layout = self._state.layout
        yield layout.placeholder(entry.write_id, partition.values).place
        if partition.new_location is not None:
            location = self._state.parse(partition.new_location)
            if layout.write_id_of(location) is not None:
                yield location.place
