"""The rules by which writers of one table agree: pure functions of entries.

``docs/design/claims.md`` and ``docs/design/recovery.md`` say why. Change one, and explore all interleavings again.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from table_writer.errors import InvalidInputError
from table_writer.model.entry import EntryPartition, Key, LogEntry, Outcome
from table_writer.model.location import Location, PlaceSet
from table_writer.model.table import PartitionValues
from table_writer.model.write import Scope, TableLayout, no_partition
from table_writer.protocol.log.history import History
from table_writer.protocol.log.placements import Placement
from table_writer.protocol.log.records import SlotRecord

QUERY_TAG: Final = "streaming_query_id"
"""Tag of an entry with the id of the streaming query that has written it: it belongs to one checkpoint."""


class Standing(enum.Enum):
    """The meaning of another writer's entry for a write that wants to publish."""

    UNRELATED = "its partitions are others, or it was abandoned"
    EARLIER = "it had ended before this write was planned, or what it did is no matter to this write"
    CONFLICT = "it published a partition of this write after this write was planned"
    DELETED = "it is a vacuum that deletes files of this write"
    IN_DOUBT = "it may yet publish a partition, or the idempotency key, of this write: wait, then recover it"


def standing(
    record: SlotRecord,
    draft: LogEntry,
    in_doubt_at_plan: Collection[int],
    *,
    scope: Scope = no_partition,
    appends: bool = False,
    layout: TableLayout | None = None,
) -> Standing:
    """Decide what another write's entry means to the write that wants to claim ``draft``.

    The draft's ``base_version`` was the newest when it was planned. Of versions that were in doubt then, one that was
    published since may hold rows this write never saw. ``scope``: which other partitions the write replaces, whether it
    has rows for them or not. ``appends``: it builds on whatever is there when it claims, so what others have published
    since is no conflict; an append that says which version it is based on does not. Nor is a compaction, which changes
    no rows, or a correction that drops what a late call has added: no version has its rows. ``layout`` says which
    directory is its own: a vacuum that names that has given the write up, though it may have no rows at all.
    """
    entry, outcome = record.entry, record.outcome
    seen = entry.version <= draft.base_version and entry.version not in in_doubt_at_plan
    if not entry.meaning.changes_partitions:
        meets = (
            not seen
            and outcome is not Outcome.ABANDONED
            and _are_deleted_by([entry], draft, layout, layout.data(draft.write_id) if layout else None)
        )
        return Standing.DELETED if meets else Standing.UNRELATED
    overlap = bool(entry.partition_values & draft.partition_values or scope(entry.partition_values))
    same_key = draft.key.is_of(entry)
    if outcome is None and (overlap or same_key):
        return Standing.IN_DOUBT
    if outcome is not Outcome.PUBLISHED or not overlap:
        return Standing.UNRELATED
    same_rows = entry.meaning.keeps_all_rows or entry.only_drops_late
    return Standing.EARLIER if seen or appends or same_rows else Standing.CONFLICT


def _are_deleted_by(
    vacuums: Iterable[LogEntry], entry: LogEntry, layout: TableLayout | None = None, data: Location | None = None
) -> bool:
    """Return whether vacuums delete what an entry points readers at, or copies from, or the directory that is given.

    Of other tools' files, such as those in the root, exactly the listed ones go: nothing that lies below. Which is
    which takes the ``layout`` to tell; without one all go as a whole.
    """
    named = [Location.parse(deletion.location) for vacuum in vacuums for deletion in vacuum.deletes]
    exactly = {location.place for location in named}
    whole = PlaceSet(location.place for location in named if layout is None or layout.write_id_of(location) is not None)
    texts = (
        text
        for partition in entry.partitions
        for text in (partition.new_location, partition.own_location)
        if text is not None
    )
    locations = [*map(Location.parse, texts), *([data] if data else [])]
    return any(location.place in exactly or whole.holds(location.place) for location in locations)


def claim_is_over(entry: LogEntry, age_seconds: float) -> bool:
    """Return whether the claimant of an entry in doubt sends nothing any more, so that others may recover it.

    The age is the store's own (its clock minus its LastModified). A claimant times itself from before the claim was
    sent, so it always stops first.
    """
    return age_seconds > entry.publish_timeout_seconds


class PartitionState(enum.Enum):
    """The state of one partition of an entry in the metastore."""

    DONE = "as the entry wants it"
    EMPTIED = "without rows, and still to be dropped"
    BEFORE = "as it was before the entry: the change can be applied"
    SUPERSEDED = "at a location the entry does not know: another tool was there"
    SWITCHED_THEN_MOVED = "at such a location, and its parameters say that the entry had switched it before"


def partition_state(
    partition: EntryPartition, current_location: str | None, layout: TableLayout, *, copied: bool = False
) -> PartitionState:
    """Decide by the location alone: parameters of one reply may come from another moment. ``None``: it does not exist.

    A partition at a placeholder has no rows. A publish adds new partitions there, and a rollback puts those there that
    it is about to drop. An append in place leaves the location as it is: ``copied`` says whether all of its files are
    there.
    """
    if current_location is None:
        if partition.new_location is None:
            return PartitionState.DONE
        return PartitionState.BEFORE if partition.old_location is None else PartitionState.SUPERSEDED
    current = Location.parse_any(current_location)
    if current is None:  # no location of ours
        return PartitionState.SUPERSEDED
    placeholder = layout.is_placeholder(current)
    if partition.new_location is None:
        wanted = PartitionState.EMPTIED if placeholder else None
    else:
        is_whole = copied or partition.is_done_by_switch
        is_there = is_whole and current.same_place(Location.parse(partition.new_location))
        wanted = PartitionState.DONE if is_there else None
    old = partition.old_location
    before = placeholder if old is None else current.same_place(Location.parse(old))
    return wanted or (PartitionState.BEFORE if before else PartitionState.SUPERSEDED)


class Effect(enum.Enum):
    """The effect of a failed call, as reading back shows it."""

    ALL = "the call took effect; its answer was lost, or an error was reported after the commit"
    NONE = "it has not taken effect: a refusal stands, a lost call may still come"
    SOME = "it took effect, and somebody has moved a partition since: nobody can tell more now"


def effect(states: Collection[PartitionState]) -> Effect:
    """Decide whether a call took effect, which changes all partitions or none."""
    changed = {state in {PartitionState.DONE, PartitionState.EMPTIED} for state in states}
    return {frozenset({True}): Effect.ALL, frozenset({False}): Effect.NONE}.get(frozenset(changed), Effect.SOME)


def recovered_state(
    history: History, partition: EntryPartition, current_location: str | None, *, copied: bool = False
) -> PartitionState:
    """Decide for a recovery, which must not take a late call of this library for another tool.

    Where only calls of ours have been, however late, the entry is rolled forward: also where one has put a partition
    back to another tool's files after the entry, or to a placeholder to be dropped. ``history`` goes up to the entry
    that is recovered.
    """
    state = partition_state(partition, current_location, history.layout, copied=copied)
    if state is not PartitionState.SUPERSEDED:
        return state
    placements, values = history.placements, partition.values
    location = None if current_location is None else Location.parse_any(current_location)
    if location is not None and history.layout.is_placeholder(location):
        return PartitionState.BEFORE
    ours = placements.of(values, current_location) in {Placement.IN_PLACE, Placement.BEHIND}
    return PartitionState.BEFORE if ours or placements.is_led_to(values, current_location) else state


def is_covered(history: History, entry: LogEntry) -> bool:
    """Return whether a newer entry names a partition of this one, or a vacuum its files: then it had ended before.

    Nobody claims over an entry in doubt. So a covered one without an outcome has lost it. It is never done again, since
    readers look at what came after it, or will.
    """
    stand = [record for record in history.records if record.outcome is not Outcome.ABANDONED]
    newer = [record for record in stand if record.entry.version > entry.version]
    are_deleted = _are_deleted_by((record.entry for record in newer), entry, history.layout)
    return are_deleted or any(_covers(record, entry) for record in newer)


def rebuilt_outcome(
    history: History,
    entry: LogEntry,
    locations: Mapping[PartitionValues, str],
    copied: Mapping[PartitionValues, bool | None] = MappingProxyType({}),
) -> tuple[Outcome, frozenset[PartitionValues]]:
    """Find out how a covered entry ended whose outcome is lost, and which of its partitions another tool had moved.

    A recovery that carried it out says so. Else one partition tells for all, since they switched in one call: either
    the next entry that names it found it at this entry's location, or it is there still. Where entries in between were
    trimmed, nobody knows what they found; then its idempotency key is not free again. ``copied`` says of appends in
    place whether their files are at the location, ``None`` where that has been deleted since: then nobody knows either.
    """
    for record in reversed(history.records.published):
        if record.entry.recovers == entry.version:
            return Outcome.PUBLISHED, record.superseded
    covering = [record.entry for record in history.records if _covers(record, entry)]
    if any(is_there is not False for is_there in copied.values()):
        return Outcome.PUBLISHED, frozenset()
    for partition in (placed for placed in entry.partitions if placed.is_done_by_switch):
        after = next((record for record in covering if partition.values in record.partition_values), None)
        named = (later.old_location for later in after.partitions if later.values == partition.values) if after else ()
        found = next(iter(named), None) if after else locations.get(partition.values)
        state = partition_state(partition, found, history.layout)
        is_known = after is None or history.records.has_all(entry.version + 1, after.version - 1)
        if state in {PartitionState.DONE, PartitionState.EMPTIED} or not is_known:
            return Outcome.PUBLISHED, frozenset()
    return Outcome.ABANDONED, frozenset()


def _covers(record: SlotRecord, entry: LogEntry) -> bool:
    """Return whether a record is newer, and was claimed after the entry had ended; two recoveries may be of one."""
    newer = record.entry
    if newer.version <= entry.version or not newer.partition_values & entry.partition_values:
        return False
    if newer.meaning.repeats:
        return record.outcome is Outcome.PUBLISHED and (newer.recovers or 0) > entry.version
    return record.outcome is not Outcome.ABANDONED


def to_switch(states: Mapping[PartitionValues, PartitionState]) -> frozenset[PartitionValues]:
    """Choose what a recovery sends: all that no other tool has moved, if anything is left to do.

    What is done already goes into the same call: a late one may undo it in between, and then readers would see a half.
    """
    if not {PartitionState.BEFORE, PartitionState.EMPTIED} & set(states.values()):
        return frozenset()
    others = {PartitionState.SUPERSEDED, PartitionState.SWITCHED_THEN_MOVED}
    return frozenset(values for values, state in states.items() if state not in others)


def published_with_key(records: Sequence[SlotRecord], key: Key) -> SlotRecord | None:
    """Return the newest published entry with this key, ``None`` if there is none that counts.

    ``records`` are all from some version up to the newest. The key of an abandoned entry is void. So is that of one
    whose partitions have all been rolled back to a version before it: its rows are gone, and the same call shall write
    them again.
    """
    for record in reversed(records):
        if key.is_of(record.entry) and record.entry.meaning.brings_rows and is_kept(record, records):
            return record
    return None


def newest_of_stream(records: Sequence[SlotRecord], stream: str) -> LogEntry | None:
    """Return the newest published batch of a stream that no rollback has taken back, ``None`` without one.

    ``records`` are all from some version up to the newest.
    """
    for record in reversed(records):
        entry = record.entry
        is_batch = entry.meaning.brings_rows and entry.stream == stream
        if is_batch and is_kept(record, records):
            return entry
    return None


def require_same_query(newest: LogEntry | None, key: Key, query_ids: Collection[str]) -> None:
    """Refuse a batch of a query that is another than the one that has written the newest batch of its stream.

    Batch ids of a new checkpoint start at 0 again: its batches would be passed over as replays, or, where the earlier
    query had no rows, be told apart by nothing. ``query_ids``: the queries that this one may be; none if nobody knows.
    Then the numbers tell: a query that is started again repeats its newest batch alone.
    """
    if newest is None:
        return
    known = newest.tags.get(QUERY_TAG, "")
    if query_ids:
        is_other = known != "" and known not in query_ids
        which = f"({', '.join(sorted(query_ids))}) than the one ({known})"
    else:
        is_other, which = comes_before(key.text, newest.idempotency_key), "than the one"
    if not is_other:
        return
    raise InvalidInputError(
        f"batch {key.text.rpartition('/')[2]} of query_name={key.stream!r} comes from a streaming query with another"
        f" checkpoint {which} that has written"
        f" {newest.idempotency_key!r} as version {newest.version}. Batch ids of a new checkpoint start at 0 again, and"
        " its rows would be passed over as replays. Nothing was written. Go on with the old checkpoint; or give the new"
        " one another query_name, once its source begins after the rows that are in the table already, or these were"
        " rolled back.",
        table=newest.table,
    )


def is_kept(record: SlotRecord, records: Sequence[SlotRecord]) -> bool:
    """Return whether an entry was published, and not all of its partitions were rolled back to a version before it.

    ``records`` are all from some version at or before it up to the newest.
    """
    rollbacks = [r.entry for r in records if r.entry.rollback_to is not None and r.outcome is Outcome.PUBLISHED]
    switched = record.entry.partition_values - record.superseded
    return record.outcome is Outcome.PUBLISHED and any(
        _counts(record.entry.version, values, rollbacks, records[-1].entry.version) for values in switched
    )


def _counts(version: int, values: PartitionValues, rollbacks: Sequence[LogEntry], at: int) -> bool:
    """Return whether what a version wrote to a partition was part of the table's history at a later version.

    A rollback takes over the history of its target, so the question is asked again there.
    """
    for rollback in reversed(rollbacks):
        target = rollback.rollback_to
        if target is not None and version < rollback.version <= at and values in rollback.partition_values:
            return target >= version and _counts(version, values, rollbacks, target)
    return True


def comes_before(key: str, other: str) -> bool:
    """Return whether a stream's key, ``query/batch``, is of an earlier batch of the other's stream.

    Examples
    --------
    >>> comes_before("orders/9", "orders/10"), comes_before("orders/10", "orders/10"), comes_before("a/1", "orders/10")
    (True, False, False)
    """
    (stream, _, batch), (of_other, _, later) = key.rpartition("/"), other.rpartition("/")
    return stream != "" and stream == of_other and batch.isdecimal() and later.isdecimal() and int(batch) < int(later)
