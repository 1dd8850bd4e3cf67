"""A staged write, which any process may publish or discard, written down once more in the smallest form."""

from __future__ import annotations

from table_writer.model.entry import Operation, Outcome

from .answers import staged_key
from .publishing import Publishing
from .requests import (
    OK,
    Claim,
    Delete,
    ListFiles,
    Next,
    Phase,
    PutRegistration,
    ReadLog,
    ReadMetastore,
    ReadRegistration,
    RecordOutcome,
    RemoveRegistration,
    Upload,
)
from .rules import Discarding
from .state import PARTITIONS, Log, Slot
from .writes import Planned, Shown, Write


class Staging(Publishing):
    """Staging, and publishing and discarding what was staged."""

    def stage(self, write: Write) -> Phase:
        """Upload with a sign of life, then say that the write waits."""
        yield Upload(tuple(f"{write.write_id}/{values}" for values in write.partitions))
        yield PutRegistration(write.write_id, self.heartbeat_key(write.write_id), is_staged=False)
        answer = yield PutRegistration(write.write_id, staged_key(write.write_id), is_staged=True)
        return "end", "staged" if answer == OK else "unknown"

    def publish_staged(self, write: Write, base: int, log_id: int = 1) -> Phase:
        if not (yield ReadRegistration(write.write_id)):
            return "end", "not staged"
        return "compare_staged", Planned(write, base, frozenset(), log_id=log_id)

    def compare_staged(self, plan: Planned) -> Phase:
        """Compare the files with what was staged."""
        targets = tuple(map(plan.own, plan.write.partitions))
        found = yield ListFiles(targets)
        whole = all(code in rows for code, rows in zip(targets, found, strict=True))
        return ("publish", plan) if whole else ("look_why", plan)

    def look_why(self, plan: Planned) -> Phase:
        """Files that were staged are gone: ask the log before anything is promised."""
        log: Log = yield ReadLog()
        plan = plan._replace(seen=log.newest)
        return self.of_this_write(plan, log) or ("leave", plan, "failed")

    def of_this_write(self, plan: Planned, log: Log) -> Next | None:
        """What other processes have done with the same staged write."""
        if not plan.write.by:
            return None
        if any(slot.trimmed for slot in log.slots[plan.base :]):
            return "leave", plan, "unknown"
        own = [one for one in log.history.records if one.entry.write_id == plan.write.write_id]
        if not own or own[-1].outcome is Outcome.ABANDONED:
            return None
        if own[-1].outcome is Outcome.PUBLISHED:
            return "leave", plan, "repeated"
        return self.resolving(log, own[-1], ("publish", plan), failed=("leave", plan, self.own_not_resolved()))

    def own_not_resolved(self) -> str:
        """What a publisher says that could not resolve its own write's entry."""
        return "unknown"

    def claim(self, plan: Planned, log: Log, shown: Shown) -> Phase:
        phase = yield from super().claim(plan, log, shown)
        if not plan.write.by or phase[0] != "switch":
            return phase
        kind, job, present, attempt = phase
        sent = plan._replace(seen=job.version, rounds=0)  # from now on the log owns what was copied
        success = ("leave", sent, "success")
        refused, unknown = ("leave", sent, "failed"), ("leave", sent, "unknown")
        ends = job._replace(done=success, refused=refused, unknown=unknown, unrecorded=success)
        return kind, ends, present, attempt

    def discard(self, plan: Planned, report: str) -> Phase:
        if plan.write.by:
            return "leave", plan, report
        return (yield from super().discard(plan, report))

    def leave(self, plan: Planned, report: str) -> Phase:
        """Leave only what was staged behind a publish that did not claim: nobody else knows the copies."""
        told = f"failed at v{plan.seen}" if report == "failed" else report
        if plan.rounds:
            yield Delete(plan.fresh)
        return "unregister", plan, told

    def unregister(self, plan: Planned, report: str) -> Phase:
        if report in {"success", "repeated"}:
            yield RemoveRegistration(plan.write.write_id)
        return "end", report

    def discard_staged(self, write_id: str) -> Phase:
        if not (yield ReadRegistration(write_id)):
            return "end", "not staged"
        return "look_at_claims", write_id

    def look_at_claims(self, write_id: str) -> Phase:
        log: Log = yield ReadLog()
        now = yield ReadMetastore(PARTITIONS)
        decided = self.discarding(log, write_id, self.in_use(log.history, now))
        if decided is Discarding.REFUSED:
            return "end", "refused"
        return "claim_discard", write_id, log, decided

    def claim_discard(self, write_id: str, log: Log, decided: Discarding) -> Phase:
        """Name the write, so that nobody publishes it any more; what an entry has named is deleted later."""
        own = log.newest + 1
        deletes: tuple[tuple[str, int | None], ...] = ((write_id, None),)
        later = decided is Discarding.LATER
        slot = Slot(Operation.VACUUM, f"D{own}", (), log.newest, deletes=deletes, kept=later)
        if not (yield Claim(own, slot)):
            return "look_at_claims", write_id
        if later:
            return "forget", write_id, own, slot.write_id
        return "vacuum_again", own, slot.write_id, log, deletes

    def forget(self, write_id: str, own: int, by: str) -> Phase:
        yield RecordOutcome(own, Outcome.PUBLISHED, by)
        return "forgotten", write_id

    def forgotten(self, write_id: str) -> Phase:
        yield RemoveRegistration(write_id)
        return "end", "vacuumed"
