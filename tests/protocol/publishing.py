"""A write, and the carrying out of any claimed entry, written down once more in the smallest form."""

from __future__ import annotations

from typing import Final, NamedTuple

from table_writer.log.history import SlotRecord
from table_writer.log.rules import Effect, PartitionState, Standing
from table_writer.model.entry import Operation, Outcome

from .requests import (
    FAILED,
    LOST,
    MISSING,
    OK,
    TOO_LATE,
    Claim,
    Delete,
    Next,
    Phase,
    ReadLog,
    ReadMetastore,
    Send,
    Settle,
    Upload,
)
from .rules import Rules
from .state import (
    Call,
    Change,
    Log,
    Metastore,
    Slot,
    entry_of,
    rows_at,
)

TRIES: Final = 3


class Write(NamedTuple):
    """A write: its id and its partitions."""

    write_id: str
    partitions: tuple[str, ...]


class Job(NamedTuple):
    """A claimed entry that is being carried out, and where to go on."""

    version: int
    write_id: str
    changes: tuple[Change, ...]  # what is still to be changed
    outcome: Outcome
    settles: tuple[int, ...]  # in this order
    done: Next
    refused: Next
    unknown: Next
    unrecorded: Next  # carried out, but the log could not record it


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
            outcome=Outcome.PUBLISHED,
            settles=(version,),
            done=("end", "success"),
            refused=("end", "failed"),
            unknown=("end", "unknown"),
            unrecorded=("end", "success"),  # readers have switched: only a note
        )
        return "switch", job, present_before(slot.changes), 1

    def discard(self, write: Write) -> Phase:
        """Give up a write that never claimed: its data is its own."""
        yield Delete(write.write_id)
        return "end", "failed"

    def switch(self, job: Job, present: tuple[str, ...], attempt: int) -> Phase:
        stay = tuple((values, new) for values, _, new in job.changes if new is not None)
        if attempt == 1 and not present:
            answer = (yield self.send(job, ("add", stay))) if stay else OK
            return ("drop", job) if answer == OK else ("call_failed", job, answer)
        missing = tuple((values, f"@{job.write_id}") for values, _ in stay if values not in present)
        if missing:
            answer = yield self.send(job, ("add", missing))
            if answer != OK:
                return "call_failed", job, answer
        return "alter", job, (*present, *(values for values, _ in missing)), attempt

    def alter(self, job: Job, present: tuple[str, ...], attempt: int) -> Phase:
        answer = yield self.send(job, self.one_alter(job, present))
        if answer == OK:
            return "drop", job
        if answer != MISSING or attempt == TRIES:
            return "call_failed", job, answer
        partitions = tuple(values for values, _, _ in job.changes)
        now = yield ReadMetastore(partitions)
        shown = tuple(values for values, code in zip(partitions, now, strict=True) if code is not None)
        return "switch", job, shown, attempt + 1

    def one_alter(self, job: Job, present: tuple[str, ...]) -> Call:
        changes = tuple((values, new or f"@{job.write_id}") for values, _, new in job.changes if values in present)
        return "alter", changes

    def call_failed(self, job: Job, answer: str) -> Phase:
        if answer == TOO_LATE:
            return job.unknown
        now = yield ReadMetastore(tuple(values for values, _, _ in job.changes))
        states = {self.state(change, code) for change, code in zip(job.changes, now, strict=True)}
        seen = self.effect(states)
        if seen is Effect.ALL:
            return "drop", job
        return job.unknown if answer == LOST or seen is Effect.SOME else ("give_up", job)

    def give_up(self, job: Job) -> Phase:
        own = job.version
        stands = yield Settle(own, Outcome.ABANDONED, job.write_id, self.in_time_of_giving_up(own))
        return job.refused if stands is Outcome.ABANDONED else job.unknown

    def drop(self, job: Job) -> Phase:
        """Drop what was emptied, if it is still empty; a failure leaves the entry in doubt."""
        emptied = tuple(values for values, _, new in job.changes if new is None)
        if emptied:
            now = yield ReadMetastore(emptied)
            for values, code in zip(emptied, now, strict=True):
                if code is not None and rows_at(code) is None:
                    answer = yield self.send(job, ("drop", ((values, None),)))
                    if answer not in {OK, MISSING}:
                        return job.unrecorded
        return "settle", job, job.settles

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
        return self.doing_again(log, version, log.slots[version - 1].changes, then, failed)

    def doing_again(self, log: Log, version: int, changes: tuple[Change, ...], then: Next, failed: Next) -> Next:
        own = log.newest + 1
        slot = Slot(
            Operation.RECOVER,
            f"R{own}",
            changes,
            log.newest,
            settles=version,
            is_putting_right=log.slots[version - 1].outcome is not None,
        )
        return "recover_one", own, slot, then, failed

    def recover_one(self, own: int, slot: Slot, then: Next, failed: Next) -> Phase:
        if not (yield Claim(own, slot)):
            return then
        return "roll_forward", own, slot, then, failed

    def roll_forward(self, own: int, slot: Slot, then: Next, failed: Next) -> Phase:
        changes = slot.changes
        now = yield ReadMetastore(tuple(values for values, _, _ in changes))
        states = {change[0]: self.state(change, code) for change, code in zip(changes, now, strict=True)}
        if PartitionState.SUPERSEDED in states.values():
            log: Log = yield ReadLog()
            states = {
                change[0]: self.recovered_state(log.history, change, code)
                for change, code in zip(changes, now, strict=True)
            }
        shown = dict(zip((values for values, _, _ in changes), now, strict=True))
        todo = self.to_do(changes, states)
        superseded = all(state is PartitionState.SUPERSEDED for state in states.values())
        job = Job(
            version=own,
            write_id=slot.write_id,
            changes=todo,
            outcome=Outcome.ABANDONED if superseded else Outcome.PUBLISHED,
            settles=self.settles(slot.settles or own, own),
            done=then,
            refused=failed,
            unknown=failed,
            unrecorded=failed,
        )
        present = tuple(values for values, _, _ in todo if shown[values] is not None)
        return ("switch", job, present, 1) if todo else ("settle", job, job.settles)

    def _slot(self, write: Write, base: int, in_doubt: frozenset[int], now: tuple[str | None, ...]) -> Slot:
        changes = tuple(
            (values, old, f"{write.write_id}/{values}") for values, old in zip(write.partitions, now, strict=True)
        )
        return Slot(Operation.WRITE, write.write_id, changes, base, in_doubt)


def present_before(changes: tuple[Change, ...]) -> tuple[str, ...]:
    return tuple(values for values, old, _ in changes if old is not None)
