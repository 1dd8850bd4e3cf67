"""Rules that the product is about to have: they go, one by one, as it gets them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from table_writer.log.history import History as ProductHistory
from table_writer.log.history import SlotRecord
from table_writer.log.rules import PartitionState, partition_state
from table_writer.model.entry import LogEntry, Operation, Outcome
from table_writer.model.location import Location, PlaceSet
from table_writer.model.table import PartitionValues


class History(ProductHistory):
    """The copies of an abandoned append have a directory of their own, which goes like the write's."""

    def _fold(self, record: SlotRecord) -> None:
        super()._fold(record)
        entry = record.entry
        if entry.operation is Operation.WRITE and record.outcome is Outcome.ABANDONED:
            own = self.layout.data(entry.write_id)
            targets = (self._location(one.new_location) for one in entry.partitions if one.new_location is not None)
            for target in targets:
                if self._is_ours(target) and not own.contains(target):
                    self._leave(target, record)

    def _ids_of(self, records: Iterable[SlotRecord]) -> frozenset[str]:
        """Count the writes whose own files an append, or its recovery, has left unused: published all the same."""
        records = tuple(records)
        replaced = (Location.parse(one.location) for record in records for one in record.entry.replaced)
        found = {self.layout.write_id_of(location) for location in replaced}
        return super()._ids_of(records) | {write_id for write_id in found if write_id}


def covered(history: ProductHistory, entry: LogEntry) -> bool:
    """Whether newer entries show that one without an outcome had ended: nobody claims over an entry in doubt.

    So does a vacuum that deletes what the entry points readers at.
    """
    if any(one.entry.version > entry.version and _covers(one, entry) for one in history.records):
        return True
    targets = [Location.parse(one.new_location).place for one in entry.partitions if one.new_location is not None]
    vacuums = (
        one.entry
        for one in history.records
        if one.outcome is not Outcome.ABANDONED and one.entry.version > entry.version
    )
    deleted = PlaceSet(Location.parse(one.location).place for entry in vacuums for one in entry.deletes)
    return any(map(deleted.holds, targets))


def _covers(record: SlotRecord, entry: LogEntry) -> bool:
    newer = record.entry
    if record.outcome is Outcome.ABANDONED or not newer.partition_values & entry.partition_values:
        return False
    if newer.operation is Operation.RECOVER:  # of something newer: several processes may recover one entry
        return record.outcome is Outcome.PUBLISHED and (newer.settles or 0) > entry.version
    return newer.operation is not Operation.VACUUM


def rebuilt_outcome(
    history: ProductHistory, entry: LogEntry, locations: Mapping[PartitionValues, str]
) -> tuple[Outcome, frozenset[PartitionValues]]:
    """Believe a recovery of it that was carried out; else one partition bears witness for all.

    The next entry that names it found it at this entry's location; or it is there still.
    """
    newer = [one for one in history.records if one.entry.version > entry.version]
    for record in newer:
        if record.entry.settles == entry.version and record.outcome is Outcome.PUBLISHED:
            return Outcome.PUBLISHED, record.superseded
    for partition in entry.partitions:
        following = (one.entry for one in newer if _covers(one, entry))
        named = (one for next_entry in following for one in next_entry.partitions if one.values == partition.values)
        after = next(named, None)
        found = after.old_location if after is not None else locations.get(partition.values)
        state = partition_state(partition, found, history.layout)
        if state in {PartitionState.DONE, PartitionState.EMPTIED}:
            return Outcome.PUBLISHED, frozenset()
    return Outcome.ABANDONED, frozenset()
