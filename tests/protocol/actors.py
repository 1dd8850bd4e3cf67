"""The programs of all actors, written down once more in the smallest form. Every decision is the product's function.

What a mutation breaks is a method of its own, so that :mod:`tests.protocol.mutations` can replace it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from table_writer.log.history import History, Left, Placement, SlotRecord
from table_writer.log.rules import PartitionState, Standing, claim_is_over, partition_state, standing
from table_writer.model.entry import LogEntry, Operation, Outcome
from table_writer.model.location import Location, Place, PlaceSet

from .requests import (
    FAILED,
    LOST,
    MISSING,
    OK,
    TOO_LATE,
    Claim,
    Delete,
    HasData,
    ListStale,
    Next,
    Phase,
    ReadLog,
    ReadMetastore,
    Send,
    Settle,
    Upload,
)
from .state import (
    LAYOUT,
    PARTITIONS,
    RETENTION,
    Call,
    Change,
    Log,
    Metastore,
    Slot,
    code_of,
    code_of_text,
    entry_of,
    entry_partition,
    location,
    rows_at,
    text,
)

TRIES = 3


class Write(NamedTuple):
    """A write: its id and its partitions."""

    write_id: str
    partitions: tuple[str, ...]


class Rollback(NamedTuple):
    """A rollback to the state after a version."""

    write_id: str
    version: int
    partitions: tuple[str, ...]


class Job(NamedTuple):
    """A claimed entry that is being carried out, and where to go on."""

    version: int
    write_id: str
    changes: tuple[Change, ...]  # what is still to be changed
    drops: tuple[str, ...]  # partitions to drop once they are empty
    outcome: Outcome
    settles: tuple[int, ...]  # in this order
    done: Next
    refused: Next
    unknown: Next
    unrecorded: Next  # carried out, but the log could not record it


class Rules:
    """The product's rules, each replaceable."""

    def standing(self, record: SlotRecord, draft: LogEntry, in_doubt_at_plan: frozenset[int]) -> Standing:
        return standing(record.entry, record.outcome, draft, in_doubt_at_plan)

    def is_over(self, record: SlotRecord) -> bool:
        return claim_is_over(record.entry, record.age_seconds)

    def state(self, change: Change, now: str | None) -> PartitionState:
        return partition_state(entry_partition(change), text(now), LAYOUT)

    def placement(self, history: History, values: str, now: str | None) -> Placement:
        return history.placement((values,), text(now))

    def in_use(self, history: History) -> frozenset[Place]:
        return history.in_use()

    def live(self, now: Metastore) -> frozenset[Place]:
        return frozenset(location(code).place for code in now if code is not None)

    def restorable(self, history: History, code: str) -> bool:
        return history.restorable(location(code))

    def is_old(self, left: Left) -> bool:
        seconds = RETENTION.total_seconds() if left.retention_seconds is None else left.retention_seconds
        return left.age_seconds > seconds

    def in_time_of(self, version: int) -> int:
        """The claim within whose time the metastore is changed."""
        return version

    def in_time_of_giving_up(self, version: int) -> int:
        return version

    def settles(self, original: int, own: int) -> tuple[int, ...]:
        """The order in which a recovery records outcomes."""
        return (original, own)


class Publishing(Rules):
    """A write, and the carrying out of any claimed entry."""

    def write(self, write: Write) -> Phase:
        log: Log = yield ReadLog()
        return "upload", write, log.newest, log.in_doubt

    def upload(self, write: Write, base: int, in_doubt: frozenset[int]) -> Phase:
        yield Upload(tuple(f"{write.write_id}/{values}" for values in write.partitions))
        return "publish", write, base, in_doubt

    def publish(self, write: Write, base: int, in_doubt: frozenset[int]) -> Phase:
        log: Log = yield ReadLog()
        again = ("publish", write, base, in_doubt)
        draft = entry_of(base + 1, self._slot(write, base, in_doubt, (None,) * len(write.partitions)))
        for version in sorted({*range(base + 1, log.newest + 1), *in_doubt, *log.in_doubt}):
            record = log.record(version)
            verdict = self.standing(record, draft, in_doubt)
            if verdict is Standing.IN_DOUBT:
                return self.recovery(log, record, again, failed=("discard", write)) if self.is_over(record) else again
            if verdict in {Standing.CONFLICT, Standing.DELETED}:
                return "discard", write
        return "look", write, base, in_doubt, log.newest

    def look(self, write: Write, base: int, in_doubt: frozenset[int], newest: int) -> Phase:
        now = yield ReadMetastore(write.partitions)
        return "claim", write, base, in_doubt, newest, now

    def claim(self, write: Write, base: int, in_doubt: frozenset[int], newest: int, now: Metastore) -> Phase:
        slot = self._slot(write, base, in_doubt, now)
        if not (yield Claim(newest + 1, slot)):
            return "publish", write, base, in_doubt
        return self.carry_out_write(newest + 1, slot)

    def carry_out_write(self, version: int, slot: Slot) -> Next:
        job = Job(
            version=version,
            write_id=slot.write_id,
            changes=slot.changes,
            drops=(),
            outcome=Outcome.PUBLISHED,
            settles=(version,),
            done=("end", "success"),
            refused=("end", "failed"),
            unknown=("end", "unknown"),
            unrecorded=("end", "success"),  # readers have switched: only a note
        )
        return "switch", job, _present(slot.changes), 1

    def discard(self, write: Write) -> Phase:
        """Give up a write that never claimed: its data is its own."""
        yield Delete(write.write_id)
        return "end", "failed"

    def switch(self, job: Job, present: tuple[str, ...], attempt: int) -> Phase:
        final = all(new is not None for _, _, new in job.changes)
        if attempt == 1 and not present and final:
            answer = yield self.send(job, ("add", tuple((values, new) for values, _, new in job.changes)))
            return ("drop", job) if answer == OK else ("call_failed", job, answer)
        empty = f"@{job.write_id}"
        missing = tuple((values, empty) for values, _, _ in job.changes if values not in present)
        if missing:
            answer = yield self.send(job, ("add", missing))
            if answer != OK:
                return "call_failed", job, answer
        return "alter", job, attempt

    def alter(self, job: Job, attempt: int) -> Phase:
        empty = f"@{job.write_id}"
        answer = yield self.send(job, ("alter", tuple((values, new or empty) for values, _, new in job.changes)))
        if answer == OK:
            return "drop", job
        if answer != MISSING or attempt == TRIES:
            return "call_failed", job, answer
        partitions = tuple(values for values, _, _ in job.changes)
        now = yield ReadMetastore(partitions)
        present = tuple(values for values, code in zip(partitions, now, strict=True) if code is not None)
        return "switch", job, present, attempt + 1

    def call_failed(self, job: Job, answer: str) -> Phase:
        if answer == TOO_LATE:
            return job.unknown
        now = yield ReadMetastore(tuple(values for values, _, _ in job.changes))
        states = {self.state(change, code) for change, code in zip(job.changes, now, strict=True)}
        if states <= {PartitionState.DONE, PartitionState.EMPTIED}:
            return "drop", job
        return job.unknown if answer == LOST else ("give_up", job)

    def give_up(self, job: Job) -> Phase:
        own = job.version
        stands = yield Settle(own, Outcome.ABANDONED, job.write_id, self.in_time_of_giving_up(own))
        return job.refused if stands is Outcome.ABANDONED else job.unknown

    def drop(self, job: Job) -> Phase:
        if not job.drops:
            return "settle", job, job.settles
        answer = yield self.send(job, ("drop", ((job.drops[0], None),)))
        if answer not in {OK, MISSING}:
            return job.unrecorded
        return "drop", job._replace(drops=job.drops[1:])

    def settle(self, job: Job, versions: tuple[int, ...]) -> Phase:
        if not versions:
            return job.done
        stands = yield Settle(versions[0], job.outcome, job.write_id)
        return job.unrecorded if stands == FAILED else ("settle", job, versions[1:])

    def send(self, job: Job, call: Call) -> Send:
        return Send(call, self.in_time_of(job.version))

    def recovery(self, log: Log, record: SlotRecord, then: Next, *, failed: Next) -> Next:
        """Return the phase that finishes an entry whose claimant is gone."""
        version = record.entry.version
        return "recover_one", version, log.slots[version - 1].changes, log.newest, then, failed

    def recover_one(self, settles: int, changes: tuple[Change, ...], newest: int, then: Next, failed: Next) -> Phase:
        slot = Slot(Operation.RECOVER, f"R{newest + 1}", changes, newest, settles=settles)
        if not (yield Claim(newest + 1, slot)):
            return then
        return "roll_forward", settles, changes, newest + 1, then, failed

    def roll_forward(self, settles: int, changes: tuple[Change, ...], own: int, then: Next, failed: Next) -> Phase:
        now = yield ReadMetastore(tuple(values for values, _, _ in changes))
        states = {change[0]: self.state(change, code) for change, code in zip(changes, now, strict=True)}
        shown = dict(zip((values for values, _, _ in changes), now, strict=True))
        todo = tuple(change for change in changes if states[change[0]] is PartitionState.BEFORE)
        emptied = tuple(values for values, state in states.items() if state is PartitionState.EMPTIED)
        superseded = all(state is PartitionState.SUPERSEDED for state in states.values())
        job = Job(
            version=own,
            write_id=f"R{own}",
            changes=todo,
            drops=(*emptied, *(values for values, _, new in todo if new is None)),
            outcome=Outcome.ABANDONED if superseded else Outcome.PUBLISHED,
            settles=self.settles(settles, own),
            done=then,
            refused=failed,
            unknown=failed,
            unrecorded=failed,
        )
        present = tuple(values for values, _, _ in todo if shown[values] is not None)
        return ("switch", job, present, 1) if todo else ("drop", job)

    def _slot(self, write: Write, base: int, in_doubt: frozenset[int], now: tuple[str | None, ...]) -> Slot:
        changes = tuple(
            (values, old, f"{write.write_id}/{values}") for values, old in zip(write.partitions, now, strict=True)
        )
        return Slot(Operation.WRITE, write.write_id, changes, base, in_doubt)


class Keeping(Publishing):
    """Recover, rollback and vacuum."""

    def recover(self) -> Phase:
        log: Log = yield ReadLog()
        return self.first_in_doubt(log, ("recover",)) or ("compare", log)

    def first_in_doubt(self, log: Log, again: Next) -> Next | None:
        """Return the phase that settles the oldest entry in doubt, or that waits for it."""
        for record in log.history.in_doubt:
            if record.entry.operation is not Operation.VACUUM:
                return self.recovery(log, record, again, failed=("end", "failed")) if self.is_over(record) else again
        return None

    def compare(self, log: Log) -> Phase:
        """Put right what a late call has set back."""
        now = yield ReadMetastore(PARTITIONS)
        behind: dict[int, list[Change]] = {}
        for values, code in zip(PARTITIONS, now, strict=True):
            placed = log.history.current.get((values,))
            if placed and self.placement(log.history, values, code) is Placement.BEHIND:
                wanted = code_of_text(placed.partition.new_location)
                behind.setdefault(placed.version, []).append((values, code, wanted))
        if not behind:
            return "end", "recovered"
        version = min(behind)
        return "recover_one", version, tuple(behind[version]), log.newest, ("recover",), ("end", "failed")

    def rollback(self, rollback: Rollback) -> Phase:
        log: Log = yield ReadLog()
        again = self.first_in_doubt(log, ("rollback", rollback))
        if again:
            return again
        states = log.history.state_at(rollback.version)
        targets: list[tuple[str, str | None]] = []
        for values in rollback.partitions:
            if (values,) in states:
                code = rows_at(code_of_text(states[(values,)][0]))
                if code is not None and not self.restorable(log.history, code):
                    return "end", "failed"
                targets.append((values, code))
        return ("check_data", rollback, log, tuple(targets)) if targets else ("end", "nothing")

    def check_data(self, rollback: Rollback, log: Log, targets: tuple[tuple[str, str | None], ...]) -> Phase:
        if not (yield HasData(tuple(code for _, code in targets if code is not None))):
            return "end", "failed"
        now = yield ReadMetastore(tuple(values for values, _ in targets))
        for (values, _), code in zip(targets, now, strict=True):
            if self.placement(log.history, values, code) is not Placement.IN_PLACE:
                return "end", "failed"
        changes = tuple(
            (values, code, target)
            for (values, target), code in zip(targets, now, strict=True)
            if rows_at(code) != target or (code is not None and target is None)
        )
        return ("claim_rollback", rollback, log.newest, changes) if changes else ("end", "nothing")

    def claim_rollback(self, rollback: Rollback, newest: int, changes: tuple[Change, ...]) -> Phase:
        slot = Slot(Operation.ROLLBACK, rollback.write_id, changes, newest)
        if not (yield Claim(newest + 1, slot)):
            return "rollback", rollback
        job = Job(
            version=newest + 1,
            write_id=rollback.write_id,
            changes=changes,
            drops=tuple(values for values, _, new in changes if new is None),
            outcome=Outcome.PUBLISHED,
            settles=(newest + 1,),
            done=("end", "success"),
            refused=("end", "failed"),
            unknown=("end", "unknown"),
            unrecorded=("end", "success"),
        )
        return "switch", job, _present(changes), 1

    def vacuum(self, write_id: str) -> Phase:
        stale: frozenset[str] = yield ListStale()
        log: Log = yield ReadLog()
        found: list[tuple[str, int | None]] = [
            (code_of(place), left.left_by) for place, left in log.history.left.items() if self.is_old(left)
        ]
        found += [(code, None) for code in sorted(stale - log.history.claimed_ids())]
        return ("vacuum_look", write_id, log, tuple(found)) if found else ("end", "nothing")

    def vacuum_look(self, write_id: str, log: Log, found: tuple[tuple[str, int | None], ...]) -> Phase:
        now = yield ReadMetastore(PARTITIONS)
        kept = PlaceSet(self.in_use(log.history) | self.live(now))
        deletes = tuple(one for one in found if not kept.meets(location(one[0]).place))
        return ("vacuum_claim", write_id, log.newest, deletes) if deletes else ("end", "nothing")

    def vacuum_claim(self, write_id: str, newest: int, deletes: tuple[tuple[str, int | None], ...]) -> Phase:
        slot = Slot(Operation.VACUUM, f"{write_id}{newest + 1}", (), newest, deletes=deletes)
        if not (yield Claim(newest + 1, slot)):
            return "vacuum", write_id
        return "vacuum_delete", newest + 1, slot.write_id, tuple(code for code, _ in deletes)

    def vacuum_delete(self, version: int, write_id: str, codes: tuple[str, ...]) -> Phase:
        now = yield ReadMetastore(PARTITIONS)
        live = PlaceSet(self.live(now))
        return "vacuum_rest", version, write_id, tuple(code for code in codes if not live.meets(location(code).place))

    def vacuum_rest(self, version: int, write_id: str, codes: tuple[str, ...]) -> Phase:
        if codes:
            yield Delete(codes[0])
            return "vacuum_rest", version, write_id, codes[1:]
        yield Settle(version, Outcome.PUBLISHED, write_id)
        return "end", "vacuumed"


class Protocol(Keeping):
    """All programs under the rules as they are."""


def _present(changes: tuple[Change, ...]) -> tuple[str, ...]:
    return tuple(values for values, old, _ in changes if old is not None)
