"""Rules that the product is about to have: they go, one by one, as it gets them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from table_writer.log.history import History
from table_writer.log.rules import PartitionState, is_covered, partition_state
from table_writer.model.entry import EntryPartition, LogEntry, Operation, Outcome
from table_writer.model.table import PartitionValues


def covered(history: History, entry: LogEntry) -> bool:
    """Count what was claimed over the entry and is still in doubt: nobody claims over an entry in doubt."""
    return is_covered(history, entry) or any(True for _ in _newer(history, entry))


def _newer(history: History, entry: LogEntry) -> Iterator[LogEntry]:
    for record in history.records:
        newer = record.entry
        if newer.version <= entry.version or not newer.partition_values & entry.partition_values:
            continue
        if newer.operation is Operation.RECOVER:  # of something newer: several processes may recover one entry
            is_over = record.outcome is Outcome.PUBLISHED and (newer.settles or 0) > entry.version
        else:
            is_over = record.outcome is not Outcome.ABANDONED
        if is_over:
            yield newer


def rebuilt_outcome(
    history: History, entry: LogEntry, locations: Mapping[PartitionValues, str]
) -> tuple[Outcome, frozenset[PartitionValues]]:
    """Believe a recovery of it that was carried out; else one partition bears witness for all.

    The next entry that names it found it at this entry's location; or it is there still.
    """
    for record in reversed(history.published):
        if record.entry.settles == entry.version:
            return Outcome.PUBLISHED, record.superseded
    present = {record.entry.version for record in history.records}
    for partition in entry.partitions:
        after = _following(history, entry, partition.values)
        found = after[1].old_location if after else locations.get(partition.values)
        state = partition_state(partition, found, history.layout)
        is_known = not after or present.issuperset(range(entry.version, after[0]))
        if state in {PartitionState.DONE, PartitionState.EMPTIED} or not is_known:
            return Outcome.PUBLISHED, frozenset()
    return Outcome.ABANDONED, frozenset()


def _following(history: History, entry: LogEntry, values: PartitionValues) -> tuple[int, EntryPartition] | None:
    named = ((one.version, partition) for one in _newer(history, entry) for partition in one.partitions)
    return next((one for one in named if one[1].values == values), None)
