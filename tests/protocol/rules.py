"""The product's own rules, each a method, so that a mutation can replace it."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from table_writer.log.fold import Fold, Left
from table_writer.log.history import History, Placement, SlotRecord
from table_writer.log.rules import (
    Effect,
    PartitionState,
    Standing,
    claim_is_over,
    counts_twice,
    effect,
    foldable,
    is_covered,
    partition_state,
    published_with_key,
    rebuilt_outcome,
    recovered_state,
    standing,
    to_switch,
)
from table_writer.model.entry import Key, LogEntry, Operation, Outcome
from table_writer.model.table import Partition, PartitionValues
from table_writer.vacuum.due import Ages, InUse, due, in_use, is_used

from .state import (
    LAYOUT,
    PARTITIONS,
    RETENTION,
    Added,
    Change,
    Log,
    Metastore,
    Slot,
    entry_partition,
    location,
    place_of,
    text,
)
from .writes import Planned, Shown


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
        return standing(record, draft, plan.in_doubt, scope=write.scope, appends=write.appends, layout=LAYOUT)

    def repeats(self, records: Sequence[SlotRecord], key: str) -> bool:
        """Whether a write with this key is published already."""
        return published_with_key(records, Key(key)) is not None

    def repeats_since(self, records: Sequence[SlotRecord], plan: Planned) -> bool:
        """The same, of the entries that the write has not seen ended."""
        return self.repeats(records, plan.write.key)

    def records_with_key(self, log: Log, unseen: Sequence[SlotRecord]) -> Sequence[SlotRecord]:
        """Which entries a key is looked for in at the publish: a rollback may have brought any key back."""
        is_back = any(one.entry.rollback_to is not None and one.outcome is Outcome.PUBLISHED for one in unseen)
        return log.history.records if is_back else unseen

    def is_over(self, record: SlotRecord) -> bool:
        return claim_is_over(record.entry, record.age_seconds)

    def is_confirmable(self, slot: Slot) -> bool:
        """Whether all that an entry does is to be seen at once, and only its own call does it."""
        here = [new and (new[0] != "@" or new == f"@{slot.write_id}/{values}") for values, _, new in slot.changes]
        return slot.operation is Operation.WRITE and bool(here) and all(here)

    def state(
        self, change: Change, now: str | None, added: Added | None = None, *, copied: bool = False
    ) -> PartitionState:
        return partition_state(entry_partition(change, added), text(now), LAYOUT, copied=copied)

    def recovered_state(
        self, history: History, change: Change, now: str | None, added: Added | None = None, *, copied: bool = False
    ) -> PartitionState:
        return recovered_state(history, entry_partition(change, added), text(now), copied=copied)

    def surplus(self, history: History, code: str, version: int) -> frozenset[str]:
        """Which rows may be at a location, or come there, and are no part of a version."""
        return history.surplus(location(code), version)

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

    def own_directory(self, plan: Planned, values: str) -> str:
        """Where an append copies the next time what is in a partition; nobody has written there before."""
        is_first = not plan.write.by and all(one.values != values for one in plan.brought)
        return plan.own(values) if is_first else f"{plan.who}_{plan.rounds + 1}/{values}"

    def places(self, shown: Shown) -> tuple[tuple[str, str], ...]:
        """Where rows may be, by the partitions that a metastore shows: others may have added some to a placeholder."""
        return tuple((values, place) for values, code in shown if (place := place_of(code)))

    def heartbeat_key(self, write_id: str) -> str:
        """The key of a running write's sign of life."""
        return f"writes/{write_id}"

    def to_verify(self, log: Log) -> frozenset[int]:
        """Recoveries whose late calls have all come by now, and which nobody has looked for since.

        Not while anything is in doubt: what seems to be behind may be about to change.
        """
        in_doubt = any(log.slots[version - 1].operation is not Operation.VACUUM for version in log.in_doubt)
        return frozenset() if in_doubt else log.marks.closed

    def may_be_late(self, log: Log) -> bool:
        """Whether a call of an entry that was recovered may come, or have come unseen."""
        return bool(log.marks.unverified)

    def verified_by(self, plan: Planned) -> tuple[str, ...]:
        """Which partitions are looked at before recoveries are forgotten."""
        del plan
        return PARTITIONS

    def covered(self, history: History, record: SlotRecord) -> bool:
        return is_covered(history, record.entry)

    def rebuilt(
        self, log: Log, version: int, shown: dict[str, str | None], copied: dict[str, bool | None]
    ) -> tuple[Outcome, tuple[str, ...]]:
        """Find out how an entry had ended, and which of its partitions another tool had moved."""
        added: dict[PartitionValues, bool | None] = {(values,): is_there for values, is_there in copied.items()}
        places: dict[PartitionValues, str] = {
            (values,): str(location(code)) for values, code in shown.items() if code is not None
        }
        outcome, superseded = rebuilt_outcome(log.history, log.record(version).entry, places, added)
        return outcome, tuple(sorted(values for (values,) in superseded))

    def folds(self, history: History) -> tuple[int, ...]:
        """Versions up to which vacuums may have folded the log, now or before there were recovery marks.

        What a recovery has ended that is not verified had not ended before its mark was there.
        """
        before = History(history.layout, history.records, frozenset(), history.lost)
        late = (one.entry.version for one in history.records if self.is_late(history, one))
        newest = min([foldable(before), *(one - 1 for one in late)])
        versions = (one.entry.version for one in history.records)
        return tuple(one for one in versions if one <= newest and self.holds(history, one))

    def is_late(self, history: History, record: SlotRecord) -> bool:
        """Whether an entry is not folded, since a call of it may have come late."""
        return history._may_have_come_late(record)

    def holds(self, history: History, version: int) -> bool:
        """Whether a fold up to a version is believed."""
        return history.up_to(version).folded("").holds(history.unverified or ())

    def with_fold(self, history: History, fold: Fold) -> History:
        """Return what a reading shows that begins with a fold."""
        later = [one for one in history.records if one.entry.version > fold.version]
        return History(history.layout, later, history.unverified, history.lost, fold)

    def needs_entries(self, history: History, here: dict[PartitionValues, str]) -> bool:
        """Whether the entries are asked how a partition came to where it is."""
        return history.needs_entries(here)

    def counts_twice(self, history: History) -> bool:
        """Whether the entries are asked which files count."""
        return counts_twice(history)

    def is_same_log(self, plan: Planned, log: Log) -> bool:
        return plan.log_id == log.marks.log_id

    def newest_entries(self, log: Log) -> Log | None:
        """Return the log, ``None`` if entries of it are lost: then nothing is done before a person has decided."""
        return None if log.has_lost_entries else log

    def is_claimed(self, log: Log, write_id: str) -> bool:
        """Whether readers look at a staged write's files, or may do so: then no copy is deleted."""
        kept = [record for record in log.history.records if record.outcome is not Outcome.ABANDONED]
        return write_id in log.history_of(kept).claimed_ids

    def discarding(self, log: Log, write_id: str, used: InUse) -> Discarding:
        """Decide about a discard."""
        if self.is_claimed(log, write_id) or used.meets(location(write_id).place):
            return Discarding.REFUSED
        return Discarding.LATER if write_id in log.history.claimed_ids else Discarding.NOW

    def recording_order(self, original: int, own: int) -> tuple[int, ...]:
        """The order in which a recovery records outcomes."""
        return (original, own)
