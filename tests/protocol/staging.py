"""A staged write, which any process may publish or discard, written down once more in the smallest form."""

from __future__ import annotations

from table_writer.model.entry import Operation, Outcome

from .publishing import Publishing
from .requests import (
    OK,
    TOO_LATE,
    Claim,
    CopyRows,
    DeleteRows,
    GiveTurnBack,
    ListFiles,
    ListTurns,
    Next,
    Phase,
    ReadLog,
    ReadMetastore,
    ReadRegistration,
    ReadTurn,
    RemoveRegistration,
    Settle,
    TakeTurn,
)
from .rules import Discarding
from .state import PARTITIONS, Log, Slot, place_of, rows_at
from .writes import Planned, Shown, Source, Write

Files = tuple[tuple[str, tuple[str, ...]], ...]  # by location

PAUSED: Next = ("end", "paused")  # longer than its turn: it does nothing any more


class Staging(Publishing):
    """Publishing and discarding a staged write."""

    def publish_staged(self, write: Write, base: int) -> Phase:
        if not (yield ReadRegistration(write.write_id)):
            return "end", "not staged"
        plan = Planned(write, base, frozenset())
        return ("list_turns", plan) if write.appends else ("compare_staged", plan)

    def list_turns(self, plan: Planned) -> Phase:
        numbers = yield ListTurns()
        return ("look_at_turn", plan, numbers[-1]) if numbers else ("take_turn", plan, 1)

    def look_at_turn(self, plan: Planned, number: int) -> Phase:
        is_held = yield ReadTurn(number)
        return ("end", "not its turn") if is_held else ("take_turn", plan, number + 1)

    def take_turn(self, plan: Planned, number: int) -> Phase:
        """Nobody ever takes a number again: whoever takes the next one has seen that this one is over."""
        if not (yield TakeTurn(number, plan.write.by)):
            return "end", "not its turn"
        return "compare_staged", plan._replace(turn=number)

    def compare_staged(self, plan: Planned) -> Phase:
        """Compare the files with what was staged; of an append what somebody else has copied goes."""
        found = yield ListFiles(self._targets(plan.write))
        if any(code not in rows for code, rows in zip(self._targets(plan.write), found, strict=True)):
            return "look_why", plan
        beside = self._beside(plan.write, found)
        if beside and not plan.turn:
            return "leave", plan, "failed", False
        return ("delete_copies", plan, beside, ("publish", plan)) if beside else ("publish", plan)

    def look_why(self, plan: Planned) -> Phase:
        """Files that were staged are gone: ask the log before anything is promised."""
        log: Log = yield ReadLog()
        plan = plan._replace(seen=log.newest)
        return self.of_this_write(plan, log) or ("leave", plan, "failed", True)

    def delete_copies(self, plan: Planned, beside: Files, then: Next) -> Phase:
        log: Log = yield ReadLog()
        if self.is_claimed(log, plan.write.write_id):
            return then
        answer = yield DeleteRows(beside, self.turn_of_files(plan))
        return PAUSED if answer == TOO_LATE else then

    def of_this_write(self, plan: Planned, log: Log) -> Next | None:
        """What other processes have done with the same staged write."""
        if not plan.write.by:
            return None
        if any(slot.trimmed for slot in log.slots[plan.base :]):
            return "leave", plan, "unknown", False
        own = [one for one in log.history.records if one.entry.write_id == plan.write.write_id]
        if not own or own[-1].outcome is Outcome.ABANDONED:
            return None
        if own[-1].outcome is Outcome.PUBLISHED:
            return "leave", plan, "repeated", False
        failed = ("leave", plan, self.own_not_settled(), False)
        return self.settling(log, own[-1], ("publish", plan), failed=failed)

    def own_not_settled(self) -> str:
        """What a publisher says that could not settle its own write's entry."""
        return "unknown"

    def bring(self, plan: Planned, log: Log, shown: Shown) -> Phase:
        """Compare what is there with what this process has copied; others may have copied, too."""
        if not plan.write.by:
            return (yield from super().bring(plan, log, shown))
        sources = tuple((values, place) for values, code in shown if (place := rows_at(code)))
        listed = (yield ListFiles(tuple(place for _, place in sources))) if sources else ()
        wanted = tuple((*source, rows) for source, rows in zip(sources, listed, strict=True) if rows)
        if wanted != plan.copied:
            return "delete_surplus", plan, wanted
        return "compare_all", plan, log, shown

    def delete_surplus(self, plan: Planned, wanted: tuple[Source, ...]) -> Phase:
        there = {(values, row) for values, _, rows in wanted for row in rows}
        surplus = tuple(
            (self._target(plan.write, values), tuple(row for row in rows if (values, row) not in there))
            for values, _, rows in plan.copied
        )
        if any(rows for _, rows in surplus) and (yield DeleteRows(surplus, self.turn_of_files(plan))) == TOO_LATE:
            return PAUSED
        return "copy_missing", plan, wanted

    def copy_missing(self, plan: Planned, wanted: tuple[Source, ...]) -> Phase:
        missing = tuple(one for one in wanted if one not in plan.copied)
        copies = tuple((self._target(plan.write, values), source, rows) for values, source, rows in missing)
        answer = (yield CopyRows(copies, self.turn_of_files(plan))) if copies else OK
        if answer == TOO_LATE:
            return PAUSED
        kept = tuple(one for one in plan.copied if one in wanted)
        return "publish", plan._replace(copied=wanted if answer == OK else kept)

    def compare_all(self, plan: Planned, log: Log, shown: Shown) -> Phase:
        """Nothing but the staged files and the copies may lie there."""
        if self.compares(plan):
            found = yield ListFiles(self._targets(plan.write))
            wanted = {values: {self._target(plan.write, values)} for values in plan.write.partitions}
            for values, _, rows in plan.copied:
                wanted[values] |= {*rows}
            if [{*rows} for rows in found] != list(wanted.values()):
                return "leave", plan, "failed", False
        if all(code is None for _, code in shown):
            return "claim", plan, log, shown
        named = tuple(values for values, _ in shown)
        again = tuple(zip(named, (yield ReadMetastore(named)), strict=True))
        if [place_of(code) for _, code in again] == [place_of(code) for _, code in shown]:
            return "claim", plan, log, again
        return self.looked(plan, log, again)

    def compares(self, plan: Planned) -> bool:
        """Whether a staged append looks at its own directory before its claim."""
        return True

    def claim(self, plan: Planned, log: Log, shown: Shown) -> Phase:
        phase = yield from super().claim(plan, log, shown)
        if not plan.write.by or phase[0] != "switch":
            return phase
        kind, job, present, attempt = phase
        sent = plan._replace(seen=job.version)
        success = ("leave", sent, "success", True)
        refused, unknown = ("leave", sent, "failed", True), ("leave", sent, "unknown", True)
        ends = job._replace(done=success, refused=refused, unknown=unknown, unrecorded=success)
        return kind, ends, present, attempt

    def discard(self, plan: Planned, report: str) -> Phase:
        if plan.write.by:
            return "leave", plan, report, False
        return (yield from super().discard(plan, report))

    def leave(self, plan: Planned, report: str, is_sent: bool) -> Phase:
        """Leave only what was staged behind a publish that did not claim."""
        told = f"failed at v{plan.seen}" if report == "failed" else report
        then = ("give_back", plan, told)
        if is_sent or not plan.turn:
            return then
        found = yield ListFiles(self._targets(plan.write))
        whole = all(code in rows for code, rows in zip(self._targets(plan.write), found, strict=True))
        beside = self._beside(plan.write, found)
        return ("delete_copies", plan, beside, then) if whole and beside else then

    def give_back(self, plan: Planned, report: str) -> Phase:
        if plan.turn:
            yield GiveTurnBack(plan.turn)
        return "unregister", plan, report

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
        if decided is Discarding.LATER:
            named = {c for slot in log.slots if slot.write_id == write_id for _, _, c in slot.changes if rows_at(c)}
            deletes = tuple((code, None) for code in sorted(filter(None, named)))
        slot = Slot(Operation.VACUUM, f"D{own}", (), log.newest, deletes=deletes)
        if not (yield Claim(own, slot)):
            return "look_at_claims", write_id
        if decided is Discarding.LATER:
            return "forget", write_id, own, slot.write_id
        return "vacuum_again", own, slot.write_id, log, deletes

    def forget(self, write_id: str, own: int, by: str) -> Phase:
        yield Settle(own, Outcome.PUBLISHED, by)
        return "forgotten", write_id

    def forgotten(self, write_id: str) -> Phase:
        yield RemoveRegistration(write_id)
        return "end", "vacuumed"

    def _target(self, write: Write, values: str) -> str:
        return f"{write.write_id}/{values}"

    def _targets(self, write: Write) -> tuple[str, ...]:
        return tuple(self._target(write, values) for values in write.partitions)

    def _beside(self, write: Write, found: tuple[tuple[str, ...], ...]) -> Files:
        """Return the files that nobody has staged, by location."""
        rows = (
            (code, tuple(r for r in rows if r != code)) for code, rows in zip(self._targets(write), found, strict=True)
        )
        return tuple(one for one in rows if one[1])
