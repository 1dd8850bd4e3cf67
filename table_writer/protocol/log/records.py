"""The entries of a log as they were read, with their outcomes, and what only they know: who has named what, and when.

Pure: made from one reading of the log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple, overload

from table_writer.model.entry import EntryPartition, LogEntry, Outcome
from table_writer.model.location import Location, Place
from table_writer.model.table import PartitionValues
from table_writer.model.write import TableLayout, written_ids

UNRECORDED: Final = ""  # a location that an outcome does not say


class LogEnd(NamedTuple):
    """The end of a log as a look has found it: whatever is claimed is claimed after one."""

    newest: int  # the last slot that is taken
    in_doubt: frozenset[int] = frozenset()  # entries that had not ended: they may be published after what comes next


def superseded_locations(
    superseded: Collection[PartitionValues], found: Mapping[PartitionValues, str | None]
) -> dict[PartitionValues, str | None]:
    """Return the superseded partitions of an outcome, with where they were found."""
    return {values: found.get(values, UNRECORDED) for values in superseded}


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

    @property
    def has_changed(self) -> bool:
        """Return whether it was published, and changed partitions: a vacuum changes none."""
        return self.outcome is Outcome.PUBLISHED and self.entry.meaning.changes_partitions

    @property
    def erased_places(self) -> frozenset[Place]:
        """The places whose files are to be erased by it, or were; none if it is no erasure."""
        is_erasure = self.entry.meaning.erases and self.outcome is not Outcome.ABANDONED
        named = (deletion for deletion in self.entry.deletes if is_erasure and not deletion.kept)
        return frozenset(Location.parse(deletion.location).place for deletion in named)

    def has_switched(self, values: PartitionValues) -> bool:
        """Return whether it was published, and this partition with it."""
        return self.outcome is Outcome.PUBLISHED and values not in self.superseded


class Records(Sequence[SlotRecord]):
    """Every record that is left in the log, or that came after a fold, by ascending version."""

    def __init__(self, layout: TableLayout, records: Sequence[SlotRecord], folded_to: int = 0) -> None:
        self._layout = layout
        self._records = tuple(records)
        self._folded_to = folded_to

    @overload
    def __getitem__(self, index: int) -> SlotRecord: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[SlotRecord]: ...
    def __getitem__(self, index: int | slice) -> SlotRecord | Sequence[SlotRecord]:
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[SlotRecord]:
        return iter(self._records)

    def require_all(self) -> None:
        """Refuse a question that takes the entries before a fold: whoever asks it must read them."""
        if self._folded_to:
            raise LookupError(f"entries up to version {self._folded_to} were not read, and this depends on them")

    @cached_property
    def by_version(self) -> Mapping[int, SlotRecord]:
        """The records by their versions."""
        return {record.entry.version: record for record in self}

    @cached_property
    def by_partition(self) -> Mapping[PartitionValues, Sequence[tuple[SlotRecord, EntryPartition]]]:
        """The records that name each partition, with what they say of it."""
        naming: dict[PartitionValues, list[tuple[SlotRecord, EntryPartition]]] = {}
        for record in self:
            for partition in record.entry.partitions:
                naming.setdefault(partition.values, []).append((record, partition))
        return naming

    @cached_property
    def in_doubt(self) -> tuple[SlotRecord, ...]:
        """Entries without an outcome."""
        return tuple(record for record in self if record.outcome is None)

    @property
    def publishes_in_doubt(self) -> tuple[SlotRecord, ...]:
        """Entries in doubt that may change what readers see: all but vacuums."""
        return tuple(record for record in self.in_doubt if record.entry.meaning.changes_partitions)

    @property
    def published(self) -> tuple[SlotRecord, ...]:
        """Entries that changed partitions."""
        return tuple(record for record in self if record.has_changed)

    def published_of(self, values: PartitionValues) -> Iterator[tuple[SlotRecord, EntryPartition]]:
        """Yield the entries that have changed a partition, newest first, with what they say of it."""
        self.require_all()
        named = reversed(self.by_partition.get(values, ()))
        return ((record, partition) for record, partition in named if record.has_switched(values))

    def publication(self, write_id: str) -> SlotRecord | None:
        """Return the entry that made readers see a write first, ``None`` if none did, or none is left."""
        self.require_all()
        for record in self.published:
            if record.entry.meaning.shows_a_write and write_id in written_ids(self._layout, record.entry):
                return record
        return None

    def has_all(self, first: int, last: int) -> bool:
        """Return whether no entry between two versions, these included, was trimmed or lost."""
        return all(version in self.by_version for version in range(first, last + 1))

    @cached_property
    def write_ids(self) -> frozenset[str]:
        """The writes that entries name."""
        return self._ids_of(self)

    @cached_property
    def possibly_published_ids(self) -> frozenset[str]:
        """The writes that readers look at, have looked at, or may look at once an entry is resolved."""
        self.require_all()
        return self._ids_of([record for record in self if record.outcome is not Outcome.ABANDONED])

    @cached_property
    def ids_in_doubt(self) -> frozenset[str]:
        """The writes whose files an entry in doubt names."""
        return self._ids_of(self.in_doubt)

    def _ids_of(self, records: Collection[SlotRecord]) -> frozenset[str]:
        """Return the writes that entries name, by their own ``write_id`` and by every location."""
        texts = {
            location
            for record in records
            for partition in record.entry.partitions
            for location in (partition.old_location, partition.new_location)
            if location is not None
        }
        named = {self._layout.write_id_of(Location.parse(text)) for text in texts}
        own = {record.entry.write_id for record in records if record.entry.meaning.has_own_files}
        recovered = {record.entry.recovered_write_id for record in records}
        return frozenset(write_id for write_id in named | own | recovered if write_id)
