"""Rules that look as if they could go. Each is broken here, alone, and the exploration must notice."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from table_writer.log.history import History, Placement, SlotRecord
from table_writer.log.rules import Effect, PartitionState, Standing
from table_writer.model.entry import LogEntry, Outcome
from table_writer.vacuum.due import InUse

from .keeping import Protocol
from .mutation import Mutation, where
from .requests import LOST, MISSING, OK, Claim, Next, Phase, ReadMetastore, RecordOutcome, Send
from .scenarios import (
    A_P,
    A_PQ,
    B_P,
    DIED,
    HALF_DONE,
    OLD_ALTER,
    OLD_DROP,
    ONLY_P,
    READERS_CAME_BACK,
    RECOVER,
    SLEPT,
    TWICE,
    VACUUM,
    rollback,
    write,
)
from .state import Added, Budget, Change, Log, Metastore, Slot, location, rows_at
from .writes import Job, Planned, Shown

AWAKE: Final[Next] = (
    "switch",
    Job(
        version=2,
        write_id="X",
        changes=(("p", "I/p", "X/p"),),
        outcome=Outcome.PUBLISHED,
        to_record=(2,),
        done=("end", "success"),
        refused=("end", "failed"),
        unknown=("end", "unknown"),
        unrecorded=("end", "success"),
    ),
    ("p",),
    1,
)
"""X goes on where it fell asleep."""


class WriteWithoutClaim(Protocol):
    def claim(self, plan: Planned, log: Log, shown: Shown) -> Phase:
        kind = "alter" if all(code for _, code in shown) else "add"
        answer = yield Send((kind, tuple((values, f"{plan.write.write_id}/{values}") for values, _ in shown)))
        return "end", "success" if answer == OK else "unknown"


class ClaimsAnySlot(Protocol):
    def claim(self, plan: Planned, log: Log, shown: Shown) -> Phase:
        return (yield from self.claim_any(plan, log.newest + 1, shown))

    def claim_any(self, plan: Planned, version: int, shown: Shown) -> Phase:
        slot = self._slot(plan, shown)
        if not (yield Claim(version, slot)):
            return "claim_any", plan, version + 1, shown
        return self.carry_out_write(version, slot, "")


class RecoversWithoutClaim(Protocol):
    def recover_one(self, own: int, slot: Slot, then: Next, failed: Next) -> Phase:
        return "roll_forward", own, slot, then, failed
        yield

    def in_time_of(self, version: int) -> int:
        return 0

    def recording_order(self, original: int, own: int) -> tuple[int, ...]:
        return (original,)


class AppliesAgain(Protocol):
    def record_outcome(self, job: Job, versions: tuple[int, ...]) -> Phase:
        phase = yield from super().record_outcome(job, versions)
        return ("again", job) if phase == ("end", "success") else phase

    def again(self, job: Job) -> Phase:
        yield self.send(job, self.one_alter(job, tuple(values for values, _, _ in job.changes)))
        return job.done


class ForgetsInDoubtAtPlan(Protocol):
    def standing(self, record: SlotRecord, draft: LogEntry, plan: Planned) -> Standing:
        return super().standing(record, draft, plan._replace(in_doubt=frozenset()))


class SendsTooLate(Protocol):
    def in_time_of(self, version: int) -> int:
        return 0


class RecoversTooEarly(Protocol):
    def is_over(self, record: SlotRecord) -> bool:
        return True


class ConfirmsBeforeTheDrop(Protocol):
    def is_confirmable(self, slot: Slot) -> bool:
        return True


class ConfirmsWhatALateCallDid(Protocol):
    def may_be_late(self, log: Log) -> bool:
        return False


class AbandonsTooLate(Protocol):
    def in_time_of_giving_up(self, version: int) -> int:
        return 0


class AbandonsUnanswered(Protocol):
    def call_failed(self, job: Job, answer: str) -> Phase:
        phase = yield from super().call_failed(job, answer)
        return ("give_up", job) if phase == job.unknown and answer == LOST else phase


class DropsPlaceholders(Protocol):
    def give_up(self, job: Job) -> Phase:
        now = yield ReadMetastore(tuple(values for values, _, _ in job.changes))
        for (values, _, _), code in zip(job.changes, now, strict=True):
            if code == f"@{job.write_id}/{values}":
                yield self.send(job, ("drop", ((values, None),)))
        return "really_give_up", job

    def really_give_up(self, job: Job) -> Phase:
        return (yield from super().give_up(job))


class RecordsItsOwnFirst(Protocol):
    def recording_order(self, original: int, own: int) -> tuple[int, ...]:
        return (own, original)


class AltersOneByOne(Protocol):
    def alter(self, job: Job, present: tuple[str, ...], attempt: int) -> Phase:
        for values, _, new in job.changes:
            answer = yield self.send(job, ("alter", ((values, new or f"@{job.write_id}"),)))
            if answer != OK:
                return "call_failed", job, answer
        return "drop", job


class AddsInPlace(Protocol):
    """New partitions are added where their rows are, not at a placeholder."""

    def switch(self, job: Job, present: tuple[str, ...], attempt: int) -> Phase:
        missing = tuple((values, new) for values, _, new in job.changes if values not in present)
        if missing:
            answer = yield self.send(job, ("add", missing))
            if answer != OK:
                return "call_failed", job, answer
        return "alter", job, tuple(values for values, _, _ in job.changes), attempt


class RecordsBeforeTheDrop(Protocol):
    def drop(self, job: Job) -> Phase:
        for version in job.to_record:
            yield RecordOutcome(version, job.outcome, job.write_id)
        return "drop_after", job._replace(to_record=())

    def drop_after(self, job: Job) -> Phase:
        return (yield from super().drop(job))


class ForgetsUnansweredDrops(Protocol):
    def drop(self, job: Job) -> Phase:
        emptied = tuple(values for values, _, new in job.changes if new is None)
        now = yield ReadMetastore(emptied)
        for values, code in zip(emptied, now, strict=True):
            if code is not None and rows_at(code) is None:
                answer = yield self.send(job, ("drop", ((values, None),)))
                if answer not in {OK, MISSING, LOST}:
                    return job.unrecorded
        return "record_outcome", job, job.to_record


class LeavesLateDrops(Protocol):
    def placement(self, history: History, values: str, now: str | None) -> Placement:
        found = super().placement(history, values, now)
        return Placement.MISSING if now is None and found is Placement.BEHIND else found


class LeavesLateAlters(Protocol):
    def compare(self, log: Log) -> Phase:
        return "end", "recovered"
        yield


class TakesLateCallsForAnotherTool(Protocol):
    def recovered_state(
        self, history: History, change: Change, now: str | None, added: Added | None = None, *, copied: bool = False
    ) -> PartitionState:
        return self.state(change, now, added, copied=copied)


class TakesPlaceholdersForAnotherTool(Protocol):
    def placement(self, history: History, values: str, now: str | None) -> Placement:
        found = super().placement(history, values, now)
        at_placeholder = now is not None and rows_at(now) is None
        newer = at_placeholder and any(
            record.entry.write_id == str(now)[1:].partition("/")[0]
            and record.entry.version > history.current[(values,)].version
            for record in history.records
        )
        return Placement.MOVED if newer else found


class TakesSomeForNone(Protocol):
    def effect(self, states: set[PartitionState]) -> Effect:
        found = super().effect(states)
        return Effect.NONE if found is Effect.SOME else found


class SwitchesOnlyWhatIsNotDone(Protocol):
    def to_do(self, changes: tuple[Change, ...], states: dict[str, PartitionState]) -> tuple[Change, ...]:
        return tuple(c for c in changes if states[c[0]] in {PartitionState.BEFORE, PartitionState.EMPTIED})


class VacuumsWithoutClaim(Protocol):
    def vacuum_claim(self, write_id: str, log: Log, deletes: tuple[tuple[str, int | None], ...]) -> Phase:
        return "vacuum_bare", write_id, log, deletes
        yield

    def vacuum_bare(self, write_id: str, log: Log, deletes: tuple[tuple[str, int | None], ...]) -> Phase:
        phase = yield from self.vacuum_again(0, write_id, log, deletes)
        return (*phase[:-1], ())


class VacuumIgnoresTheMetastore(Protocol):
    def in_use(self, history: History, now: Metastore) -> InUse:
        return super().in_use(history, (None, None))


class VacuumIgnoresWhatIsInDoubt(Protocol):
    def in_use(self, history: History, now: Metastore) -> InUse:
        ended = [record for record in history.records if record.outcome is not None]
        return super().in_use(History(history.layout, ended, history.unverified), now)


class VacuumDoesNotWait(Protocol):
    older_than_seconds = -1.0


class RollsBackToWhatIsVacuumed(Protocol):
    def restorable(self, history: History, code: str) -> bool:
        return True


class RollsBackWhileAVacuumMayDelete(Protocol):
    def restorable(self, history: History, code: str) -> bool:
        left = history.left.get(location(code).place)
        return left is not None and history.deleted.get(location(code).place, 0) < left.left_by


class PublishesWhatIsVacuumed(Protocol):
    def standing(self, record: SlotRecord, draft: LogEntry, plan: Planned) -> Standing:
        found = super().standing(record, draft, plan)
        return Standing.UNRELATED if found is Standing.DELETED else found


B_Q: Final = write("B", "q")
TWO = where("2 writes", ONLY_P, A=A_P, B=B_P)
THREE = where("2 writes, recover", ONLY_P, A=A_P, B=B_P, recover=RECOVER)
BACK_AND_VACUUM = where("rollback, vacuum", TWICE, K=rollback(1), vacuum=VACUUM)
LATE_OR_REFUSED = Budget(refusals=1, late=1)

MUTATIONS: Final = (
    Mutation("no metastore change without a claim", WriteWithoutClaim, TWO, "no entry in doubt wants"),
    Mutation("a lost slot means reading the log again", ClaimsAnySlot, TWO, "lost update"),
    Mutation(
        "no recovery without a claim",
        RecoversWithoutClaim,
        where("a write died, 2 recovers", DIED, Budget(timeouts=0), B=B_P, recover=RECOVER, again=RECOVER),
        "no entry in doubt wants",
    ),
    Mutation("nothing is applied again after publishing", AppliesAgain, TWO, "no entry in doubt wants"),
    Mutation(
        "what was in doubt at the plan and is published since is a conflict",
        ForgetsInDoubtAtPlan,
        where("a write died", DIED, B=B_P, recover=RECOVER),
        "lost update",
    ),
    Mutation("nothing is sent after the claim's timeout", SendsTooLate, THREE, "no entry in doubt wants"),
    Mutation(
        "nothing is sent after the claim's timeout, least of all a day later",
        SendsTooLate,
        replace(where("a sleeper, vacuum", SLEPT, Budget(days=1), vacuum=VACUUM, X=AWAKE), steps_are_checked=False),
        "data is gone",
    ),
    Mutation(
        "nothing is recovered before the claim's timeout",
        RecoversTooEarly,
        where("2 writes, recover", ONLY_P, A=A_P, B=B_P, recover=RECOVER),
        "no entry in doubt wants",
    ),
    Mutation(
        "nothing is confirmed while its drop may still come",
        ConfirmsBeforeTheDrop,
        where("rollback, write, recover", ONLY_P, Budget(timeouts=1), K=rollback(0), B=B_P, recover=RECOVER),
        "no entry in doubt wants",
    ),
    Mutation(
        "nothing is confirmed that a late call may have done",
        ConfirmsWhatALateCallDid,
        where("old alter", OLD_ALTER, Budget(timeouts=1), K=rollback(2), B=B_P, recover=RECOVER),
        "no entry in doubt wants",
    ),
    Mutation(
        "nothing is abandoned after the claim's timeout",
        AbandonsTooLate,
        where("write, recover", ONLY_P, LATE_OR_REFUSED, A=A_P, recover=RECOVER),
        "told its user that it failed",
    ),
    Mutation(
        "nothing is abandoned with a call unanswered",
        AbandonsUnanswered,
        where("write, recover", ONLY_P, LATE_OR_REFUSED, A=A_P, recover=RECOVER),
        "told its user that it failed",
    ),
    Mutation(
        "placeholders stay after a refusal",
        DropsPlaceholders,
        where("2 writes", ONLY_P, LATE_OR_REFUSED, A=A_PQ, B=B_Q),
        "after recover",
    ),
    Mutation("one alter for all partitions", AltersOneByOne, where("write", ONLY_P, A=A_PQ), "without the others"),
    Mutation("new partitions come empty", AddsInPlace, where("write", ONLY_P, A=A_PQ), "without the others"),
    Mutation(
        "an outcome is recorded after the drop",
        RecordsBeforeTheDrop,
        where("rollback, write", ONLY_P, Budget(late=1), K=rollback(0), B=B_P),
        "no entry in doubt wants",
    ),
    Mutation(
        "a drop without an answer leaves the entry in doubt",
        ForgetsUnansweredDrops,
        where("rollback, write", ONLY_P, Budget(late=1), K=rollback(0), B=B_P),
        "after recover",
    ),
    Mutation("a late drop is repaired", LeavesLateDrops, where("old drop", OLD_DROP, recover=RECOVER), "after recover"),
    Mutation(
        "a late alter is repaired", LeavesLateAlters, where("old alter", OLD_ALTER, recover=RECOVER), "after recover"
    ),
    Mutation(
        "recover tells a late alter from another tool",
        TakesLateCallsForAnotherTool,
        where("old alter", OLD_ALTER, Budget(unrecorded=1), A=A_P, recover=RECOVER),
        "told its user that it succeeded",
    ),
    Mutation(
        "recover does not tear an entry over a late drop",
        TakesLateCallsForAnotherTool,
        where("old drop", OLD_DROP, A=A_PQ, recover=RECOVER),
        "without the others",
    ),
    Mutation(
        "a placeholder is as good as no partition",
        TakesPlaceholdersForAnotherTool,
        where("old drop", OLD_DROP, Budget(refusals=1), A=A_PQ, recover=RECOVER),
        "after recover",
    ),
    Mutation(
        "a call that changed one partition changed all",
        TakesSomeForNone,
        where("old alter", OLD_ALTER, Budget(misreported=1), A=A_PQ, recover=RECOVER),
        "told its user that it failed",
    ),
    Mutation(
        "a recovery switches all partitions in one call, also what is done",
        SwitchesOnlyWhatIsNotDone,
        where("half done", HALF_DONE, Budget(timeouts=1), K=rollback(1, "pq"), recover=RECOVER),
        "without the others",
    ),
    Mutation("no vacuum without a claim", VacuumsWithoutClaim, BACK_AND_VACUUM, "data is gone"),
    Mutation(
        "a vacuum looks at the metastore",
        VacuumIgnoresTheMetastore,
        where("old alter, vacuum", OLD_ALTER, Budget(days=1), vacuum=VACUUM),
        "data is gone",
    ),
    Mutation("a vacuum spares what is in doubt", VacuumIgnoresWhatIsInDoubt, BACK_AND_VACUUM, "data is gone"),
    Mutation(
        "a vacuum waits until no call can be late",
        VacuumDoesNotWait,
        where("old alter, vacuum", OLD_ALTER, vacuum=VACUUM),
        "data is gone",
    ),
    Mutation("no rollback to what a vacuum deletes", RollsBackToWhatIsVacuumed, BACK_AND_VACUUM, "data is gone"),
    Mutation(
        "no rollback to what a vacuum may be deleting, though readers were there again",
        RollsBackWhileAVacuumMayDelete,
        where("a vacuum died", READERS_CAME_BACK, B=B_P, K=rollback(3), finish=("finish",)),
        "data is gone",
    ),
    Mutation(
        "a write that a vacuum has given up stops",
        PublishesWhatIsVacuumed,
        where("write, vacuum, a day", ONLY_P, Budget(days=1), A=A_P, vacuum=VACUUM),
        "data is gone",
    ),
)
