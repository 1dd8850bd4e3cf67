"""Rules that the product is about to have: they go, one by one, as it gets them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from table_writer.log.history import History as ProductHistory
from table_writer.log.history import Placement, SlotRecord
from table_writer.model.entry import EntryPartition, LogEntry, Operation, Outcome
from table_writer.model.location import Location, Place, PlaceSet
from table_writer.model.table import PartitionValues
from table_writer.model.write import TableLayout


class History(ProductHistory):
    """The log's history with late calls that count until somebody has verified, and directories for each round."""

    def __init__(
        self, layout: TableLayout, records: Sequence[SlotRecord], unverified: Collection[int] | None = None
    ) -> None:
        object.__setattr__(self, "unverified", unverified)
        super().__init__(layout, records)

    unverified: Collection[int] | None

    def placement(self, values: PartitionValues, location: str | None) -> Placement:
        newest = self.current[values]
        wanted = newest.partition.new_location
        older = [(record, named) for record, named in self._naming[values] if record.entry.version < newest.version]
        current = None if location is None else Location.parse_any(location)
        if current is None and location is not None:
            return Placement.MOVED
        if current is not None and wanted is not None and current.same_place(self._location(wanted)):
            return Placement.IN_PLACE
        late = self._late_recoveries()
        unanswered = [named for record, named in older if record.settled_by in late]
        ours = {place for record, named in older for place in self._all_places_of(record.entry, named)}
        theirs = {self._place(named.new_location) for named in unanswered}
        if current is not None and (current.place in ours or current.place in theirs):
            return Placement.BEHIND
        if current is not None and not self.layout.is_placeholder(current):
            return Placement.MOVED
        if wanted is None:
            return Placement.IN_PLACE
        return Placement.BEHIND if None in theirs else Placement.MISSING

    def trimmable(self, age_seconds: float) -> frozenset[int]:
        """What a late call may have brought back must be known until somebody has looked."""
        return frozenset() if self.unverified else super().trimmable(age_seconds)

    def _late_recoveries(self) -> frozenset[str]:
        recoveries = (one.entry for one in self.records if one.entry.operation is Operation.RECOVER)
        return frozenset(
            one.write_id for one in recoveries if self.unverified is None or one.version in self.unverified
        )

    def _all_places_of(self, entry: LogEntry, named: EntryPartition) -> Iterable[Place]:
        yield self.layout.all_empty.child(entry.write_id, *(f"p-{value}" for value in named.values)).place
        if named.new_location is not None and self._is_ours(self._location(named.new_location)):
            yield self._location(named.new_location).place

    def _fold(self, record: SlotRecord) -> None:
        super()._fold(record)
        entry = record.entry
        own = self.layout.data(entry.write_id)
        if entry.operation is Operation.WRITE and record.outcome is Outcome.ABANDONED:
            for named in entry.partitions:  # a copy in a directory of its own
                target = named.new_location and self._location(named.new_location)
                if target and self._is_ours(target) and not own.contains(target):
                    self._leave(target, record, bytes=named.bytes)
        if record.outcome is Outcome.PUBLISHED:
            targets = PlaceSet(self._location(p.new_location).place for p in entry.partitions if p.new_location)
            for one in entry.replaced:  # what was written, and copied from there
                place = self._location(one.location)
                if record.superseded and own.contains(place) and not targets.holds(place.place):
                    self._leave(place, record)


def covered(history: History, entry: LogEntry) -> bool:
    """Whether newer entries have passed over one without an outcome: then it had one, which was lost."""
    targets = [Location.parse(one.new_location).place for one in entry.partitions if one.new_location is not None]
    for record in history.records:
        newer = record.entry
        if newer.version <= entry.version or record.outcome is Outcome.ABANDONED:
            continue
        if newer.operation is Operation.VACUUM:
            deleted = PlaceSet(Location.parse(one.location).place for one in newer.deletes)
            if any(map(deleted.holds, targets)):
                return True
        elif record.outcome is Outcome.PUBLISHED and newer.partition_values & entry.partition_values:
            return True
    return False


def rebuilt_outcome(
    history: History, record: SlotRecord, locations_now: Mapping[PartitionValues, str | None]
) -> tuple[Outcome, frozenset[PartitionValues]]:
    """Say how a covered entry had ended, and which partitions another tool had moved, by what came after it."""
    entry = record.entry
    later = [one for one in history.published if one.entry.version > entry.version]
    doubtful: set[PartitionValues] = set()
    published = any(one.entry.settles == entry.version for one in later)
    for partition in entry.partitions:
        after = (p for one in later for p in one.entry.partitions if p.values == partition.values)
        following = next(after, None)
        found = following.old_location if following is not None else locations_now.get(partition.values)
        if _same(history.layout, found, partition.new_location):
            published = True
        elif following is not None or not _known(history, partition.values, found):
            doubtful.add(partition.values)
    if not published:
        return Outcome.ABANDONED, frozenset()
    return Outcome.PUBLISHED, frozenset(doubtful)


def _same(layout: TableLayout, found: str | None, wanted: str | None) -> bool:
    here = None if found is None else Location.parse_any(found)
    if here is None or layout.is_placeholder(here):
        return wanted is None and (found is None or here is not None)
    return wanted is not None and here.same_place(Location.parse(wanted))


def _known(history: History, values: PartitionValues, found: str | None) -> bool:
    """Whether only calls of this library have been there."""
    if found is None or values not in history.current:
        return True
    return history.placement(values, found) in {Placement.IN_PLACE, Placement.BEHIND}
