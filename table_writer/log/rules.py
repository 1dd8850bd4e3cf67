"""The rules by which writers of one table agree. Pure functions: no storage, no metastore, no clock.

DESIGN's rules b, c and e; whoever changes one explores all interleavings again.
"""

from __future__ import annotations

import enum
from collections.abc import Collection

from table_writer.model.entry import EntryPartition, LogEntry, Outcome
from table_writer.model.location import Location

__all__ = ["PartitionState", "Standing", "claim_is_over", "partition_state", "standing"]


class Standing(enum.Enum):
    """What another writer's entry means to a write that wants to publish."""

    UNRELATED = "its partitions are others, or it was abandoned"
    EARLIER = "it was settled before this write was planned"
    CONFLICT = "it published a partition of this write after this write was planned"
    IN_DOUBT = "it may yet publish a partition of this write: wait, then recover it"


def standing(entry: LogEntry, outcome: Outcome | None, draft: LogEntry, in_doubt_at_plan: Collection[int]) -> Standing:
    """Decide what ``entry`` means to the write that wants to claim ``draft``.

    Parameters
    ----------
    entry, outcome
        Another write's entry and how it ended, ``None`` while it is in doubt.
    draft
        The entry this write wants to claim; its ``base_version`` was the newest when it was planned.
    in_doubt_at_plan
        Versions that were in doubt at that time. One that was published since may hold rows this write never saw.
    """
    if outcome is Outcome.ABANDONED or entry.partition_values.isdisjoint(draft.partition_values):
        return Standing.UNRELATED
    if outcome is None:
        return Standing.IN_DOUBT
    seen = entry.version <= draft.base_version and entry.version not in in_doubt_at_plan
    return Standing.EARLIER if seen else Standing.CONFLICT


def claim_is_over(entry: LogEntry, age_seconds: float) -> bool:
    """Whether the claimant of an entry in doubt sends nothing any more, so that others may recover it.

    The age is the store's own (its clock minus its LastModified). A claimant times itself from before the claim was
    sent, so it always stops first.
    """
    return age_seconds > entry.publish_timeout_seconds


class PartitionState(enum.Enum):
    """Where one partition of an entry stands in the metastore."""

    DONE = "at its new location"
    BEFORE = "where it was before the entry: the change can be applied"
    SUPERSEDED = "at a location the entry does not know: another tool was there"


def partition_state(partition: EntryPartition, current_location: str | None, empty: Location) -> PartitionState:
    """Decide by the location alone; parameters of one reply may come from another moment.

    Parameters
    ----------
    partition
        What the entry wants.
    current_location
        Where the metastore points now, ``None`` if the partition does not exist.
    empty
        The location at which the entry first adds partitions that did not exist.
    """
    if current_location is None:
        return PartitionState.BEFORE if partition.old_location is None else PartitionState.SUPERSEDED
    current = Location.parse(current_location)
    if current.same_place(Location.parse(partition.new_location)):
        return PartitionState.DONE
    before = empty if partition.old_location is None else Location.parse(partition.old_location)
    return PartitionState.BEFORE if current.same_place(before) else PartitionState.SUPERSEDED
