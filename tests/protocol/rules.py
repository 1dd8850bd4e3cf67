"""The product's own rules, each a method, so that a mutation can replace it."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from table_writer.log.history import History, Left, Placement, SlotRecord
from table_writer.log.keys import published_with_key
from table_writer.log.rules import (
    Effect,
    PartitionState,
    Standing,
    claim_is_over,
    effect,
    partition_state,
    recovered_state,
    standing,
    to_switch,
)
from table_writer.model.entry import LogEntry, Operation, Outcome
from table_writer.model.table import Partition
from table_writer.vacuum.due import Ages, InUse, due, in_use, is_used

from .state import (
    LAYOUT,
    PARTITIONS,
    RETENTION,
    Change,
    Log,
    Metastore,
    Slot,
    entry_partition,
    location,
    text,
)
from .writes import Planned


class Discarding(enum.Enum):
    """What becomes of a staged write that somebody discards."""

    REFUSED = "it is published, or may be"
    NOW = "it never claimed an entry"
    LATER = "its entry was abandoned: its files stay for their retention"


class Rules:
    """The product's rules, each replaceable."""

    older_than_seconds: float | None = None  # what is old enough for a vacuum; None: past its retention

    def standing(self, record: SlotRecord, draft: LogEntry, plan: Planned) -> Standing:
        write = plan.write
        return standing(record.entry, record.outcome, draft, plan.in_doubt, scope=write.scope, appends=write.appends)

    def repeats(self, records: Sequence[SlotRecord], key: str) -> bool:
        """Whether a write with this key is published already."""
        return published_with_key(records, key) is not None

    def repeats_since(self, records: Sequence[SlotRecord], plan: Planned) -> bool:
        """The same, of the entries that the write has not seen settled."""
        return self.repeats(records, plan.write.key)

    def is_over(self, record: SlotRecord) -> bool:
        return claim_is_over(record.entry, record.age_seconds)

    def is_confirmable(self, slot: Slot) -> bool:
        """Whether all that an entry does is to be seen at once, and only its own call does it."""
        own = (f"{slot.write_id}/", f"@{slot.write_id}")
        return bool(slot.changes) and all(new is not None and new.startswith(own) for _, _, new in slot.changes)

    def is_recovered_lately(self, log: Log) -> bool:
        """Whether a call of an entry that was recovered may still come."""
        return any(slot.operation is Operation.RECOVER and not slot.old for slot in log.slots)

    def state(self, change: Change, now: str | None) -> PartitionState:
        return partition_state(entry_partition(change), text(now), LAYOUT)

    def recovered_state(self, history: History, change: Change, now: str | None) -> PartitionState:
        return recovered_state(history, entry_partition(change), text(now))

    def placement(self, history: History, values: str, now: str | None) -> Placement:
        return history.placement((values,), text(now))

    def in_use(self, history: History, now: Metastore) -> InUse:
        shown = zip(PARTITIONS, now, strict=True)
        return in_use(history, [Partition(values=(v,), location=str(location(c))) for v, c in shown if c is not None])

    def chosen(self, history: History, used: InUse) -> tuple[Left, ...]:
        """What a vacuum deletes."""
        usual = RETENTION.total_seconds()
        older_than = self.older_than_seconds
        ages = Ages(replaced_seconds=older_than, usual_seconds=usual, dead_write_seconds=usual)
        return due(history, used, ages).locations

    def waits(self, code: str, staged: frozenset[str]) -> bool:
        """Whether a location belongs to a write that can still be published."""
        return code.partition("/")[0] in staged

    def is_used(self, used: InUse, left: Left) -> bool:
        return is_used(used, left)

    def restorable(self, history: History, code: str) -> bool:
        return history.restorable(location(code))

    def in_time_of(self, version: int) -> int:
        """The claim within whose time the metastore is changed."""
        return version

    def in_time_of_giving_up(self, version: int) -> int:
        return version

    def effect(self, states: set[PartitionState]) -> Effect:
        return effect(states)

    def to_do(self, changes: tuple[Change, ...], states: dict[str, PartitionState]) -> tuple[Change, ...]:
        """What a recovery sends again."""
        chosen = to_switch({(values,): state for values, state in states.items()})
        return tuple(change for change in changes if (change[0],) in chosen)

    def recovered_as(self, states: tuple[PartitionState, ...]) -> Outcome:
        """What a recovery records. An entry that changes no partition is carried out as soon as it is claimed."""
        superseded = bool(states) and set(states) == {PartitionState.SUPERSEDED}
        return Outcome.ABANDONED if superseded else Outcome.PUBLISHED

    def turn_of_claim(self, plan: Planned) -> int:
        """The turn within which a staged append is claimed."""
        return plan.turn

    def turn_of_files(self, plan: Planned) -> int:
        """The turn within which files are copied and deleted for a staged append."""
        return plan.turn

    def is_claimed(self, log: Log, write_id: str) -> bool:
        """Whether readers look at a staged write's files, or may do so: then no copy is deleted."""
        kept = [record for record in log.history.records if record.outcome is not Outcome.ABANDONED]
        return write_id in History(LAYOUT, kept).claimed_ids

    def discarding(self, log: Log, write_id: str, used: InUse) -> Discarding:
        """Decide about a discard."""
        if self.is_claimed(log, write_id) or used.meets(location(write_id).place):
            return Discarding.REFUSED
        return Discarding.LATER if write_id in log.history.claimed_ids else Discarding.NOW

    def settles(self, original: int, own: int) -> tuple[int, ...]:
        """The order in which a recovery records outcomes."""
        return (original, own)
