"""Rules that the product is about to have: they go, one by one, as it gets them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from table_writer.log.history import History as ProductHistory
from table_writer.log.history import SlotRecord
from table_writer.log.rules import is_covered
from table_writer.log.rules import rebuilt_outcome as product_rebuilt_outcome
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
    """Count vacuums that delete what an entry points readers at, too."""
    if is_covered(history, entry):
        return True
    targets = [Location.parse(one.new_location).place for one in entry.partitions if one.new_location is not None]
    vacuums = (
        one.entry
        for one in history.records
        if one.outcome is not Outcome.ABANDONED and one.entry.version > entry.version
    )
    deleted = PlaceSet(Location.parse(one.location).place for entry in vacuums for one in entry.deletes)
    return any(map(deleted.holds, targets))


def rebuilt_outcome(
    history: ProductHistory, entry: LogEntry, locations: Mapping[PartitionValues, str]
) -> tuple[Outcome, frozenset[PartitionValues]]:
    """Believe only a recovery that was carried out: one that the metastore has refused says nothing of the entry."""
    refused = [one for one in history.records if one.entry.settles == entry.version]
    believed = [one for one in history.records if one not in refused or one.outcome is Outcome.PUBLISHED]
    return product_rebuilt_outcome(ProductHistory(history.layout, believed, history.unverified), entry, locations)
