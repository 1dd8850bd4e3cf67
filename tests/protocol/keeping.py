"""Recover and vacuum, written down once more in the smallest form."""

from __future__ import annotations

from table_writer.model.entry import Operation, Outcome

from .requests import LOST, Claim, Delete, ListStale, Phase, ReadLog, ReadMetastore, RecordOutcome
from .restoring import Restoring
from .state import PARTITIONS, Log, Slot, code_of, location
from .writes import Corrected


class Keeping(Restoring):
    """Recover and vacuum."""

    def recover(self) -> Phase:
        log: Log = yield ReadLog()
        return self.first_in_doubt(log, ("recover",)) or ("compare", log)

    def compare(self, log: Log) -> Phase:
        """Correct what a late call has set back."""
        now = yield ReadMetastore(PARTITIONS)
        behind = self.behind(log, tuple(zip(PARTITIONS, now, strict=True)))
        told, to_verify = ("end", "recovered"), self.to_verify(log)
        nothing = ("forget_recoveries", told, to_verify) if to_verify else told
        then = Corrected(again=("recover",), failed=("end", "failed"), nothing=nothing, written=told)
        return ("correct", log, behind, then) if behind else nothing

    def vacuum(self, write_id: str) -> Phase:
        stale, staged = yield ListStale()
        log: Log = yield ReadLog()
        return "vacuum_look", write_id, log, tuple(sorted(stale - log.history.claimed_ids)), staged

    def vacuum_look(self, write_id: str, log: Log, dead: tuple[str, ...], staged: frozenset[str]) -> Phase:
        now = yield ReadMetastore(PARTITIONS)
        used = self.in_use(log.history, now)
        chosen = self.chosen(log.history, used)
        gone = [(code_of(left.location.place), left.left_by) for left in chosen]
        deletes: list[tuple[str, int | None]] = [one for one in gone if not self.waits(one[0], staged)]
        deletes += [(code, None) for code in dead if not used.meets(location(code).place)]
        return ("vacuum_claim", write_id, log, tuple(deletes)) if deletes else ("end", "nothing")

    def vacuum_claim(self, write_id: str, log: Log, deletes: tuple[tuple[str, int | None], ...]) -> Phase:
        own = log.newest + 1
        slot = Slot(Operation.VACUUM, f"{write_id}{own}", (), log.newest, deletes=deletes)
        if not (yield Claim(own, slot)):
            return "vacuum", write_id
        return "vacuum_again", own, slot.write_id, log, deletes

    def vacuum_again(self, own: int, write_id: str, log: Log, deletes: tuple[tuple[str, int | None], ...]) -> Phase:
        """Look at the metastore again, and spare what readers were pointed to since."""
        now = yield ReadMetastore(PARTITIONS)
        used = self.in_use(log.history, now)
        left = log.history.left
        spared = {code for code, by in deletes if by and self.is_used(used, left[location(code).place])}
        dead = {code for code, by in deletes if not by and used.meets(location(code).place)}
        codes = tuple(code for code, _ in deletes if code not in spared | dead)
        if spared:  # the entry stays in doubt, and the next vacuum takes over
            return "vacuum_rest", write_id, codes, ()
        done = {code for code, _ in deletes}
        died = tuple(
            record.entry.version
            for record in log.history.in_doubt
            if record.entry.operation is Operation.VACUUM
            and not {code_of(left.location.place) for left in log.history.outstanding(record.entry)} - done
        )
        return "vacuum_rest", write_id, codes, (*died, own)

    def vacuum_rest(self, write_id: str, codes: tuple[str, ...], versions: tuple[int, ...]) -> Phase:
        if codes:
            if (yield Delete(codes[:1])) == LOST:
                return "end", "half done"
            return "vacuum_rest", write_id, codes[1:], versions
        if versions:
            yield RecordOutcome(versions[0], Outcome.PUBLISHED, write_id)
            return "vacuum_rest", write_id, codes, versions[1:]
        return "end", "vacuumed"

    def finish(self) -> Phase:
        """Carry out the first vacuum whose own process died."""
        log: Log = yield ReadLog()
        for record in log.history.in_doubt:
            if record.entry.operation is Operation.VACUUM and self.is_over(record):
                own = record.entry.version
                outstanding = {left.location.place for left in log.history.outstanding(record.entry)}
                deletes = tuple(
                    (code, left_by)
                    for code, left_by in log.slots[own - 1].deletes
                    if (location(code).place in outstanding if left_by else code not in log.history.claimed_ids)
                )
                return "vacuum_again", own, record.entry.write_id, log, deletes
        return "end", "nothing"


class Protocol(Keeping):
    """All programs under the rules as they are."""
