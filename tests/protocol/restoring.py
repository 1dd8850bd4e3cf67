"""Rollback and restore, written down once more in the smallest form."""

from __future__ import annotations

from table_writer.log.history import Placement
from table_writer.model.entry import Operation, Outcome

from .requests import LOST, Claim, Copy, HasData, ListFiles, Next, Phase, ReadLog, ReadMetastore
from .staging import Staging
from .state import PARTITIONS, Change, Log, Slot, code_of_text, place_of, rows_at, tag_of
from .writes import Rollback

FromWhere = tuple[tuple[str, str], ...]  # to, from


class Restoring(Staging):
    """Rollback, which copies where a location holds later files as well, and restore."""

    def first_in_doubt(self, log: Log, again: Next) -> Next | None:
        """Return the phase that resolves the oldest entry in doubt, or that waits for it."""
        for record in log.history.in_doubt:
            if record.entry.operation is not Operation.VACUUM:
                return self.resolving(log, record, again, failed=("end", "failed"))
        return None

    def rollback(self, rollback: Rollback) -> Phase:
        log: Log = yield ReadLog()
        again = self.first_in_doubt(log, ("rollback", rollback))
        if again:
            return again
        if self.is_given_up(log, rollback.write_id):
            return "end", "failed"
        states = log.history.state_at(rollback.version)
        targets: list[tuple[str, str | None]] = []
        copies: list[tuple[str, str]] = []
        for values in rollback.partitions:
            if (values,) in states:
                code = code_of_text(states[(values,)].location)
                if code is not None and rows_at(code):
                    copied = self.is_to_be_copied(log, code, rollback.version)
                    if not self.is_there(log, values, code, copied=copied):
                        return "end", "failed"
                    if copied:
                        copies.append((f"{rollback.write_id}/{values}", code))
                        code = copies[-1][0]
                targets.append((values, code))
        if not targets:
            return "end", "nothing"
        then = ("check_data", rollback, log, tuple(targets))
        return ("copy_state", log, rollback.version, tuple(copies), then) if copies else then

    def is_to_be_copied(self, log: Log, code: str, version: int) -> bool:
        """Whether files that are no part of a version lie at its location, or may come there."""
        return bool(self.surplus(log.history, code, version))

    def is_there(self, log: Log, values: str, code: str, *, copied: bool) -> bool:
        """Whether a location may be pointed at, or copied from."""
        current = log.history.current.get((values,))
        is_current = current is not None and code_of_text(current.partition.new_location) == code
        return self.restorable(log.history, code) or (copied and is_current)

    def is_given_up(self, log: Log, write_id: str) -> bool:
        """Whether a vacuum deletes what a rollback has copied: it took the rollback for dead."""
        named = (code for slot in log.slots if slot.outcome is not Outcome.ABANDONED for code, _ in slot.deletes)
        return write_id in named

    def copy_state(self, log: Log, version: int, copies: FromWhere, then: Next) -> Phase:
        """Copy the files of a version to a directory of the rollback's own, and compare."""
        sources = tuple(source for _, source in copies)
        listed = yield ListFiles(sources)
        wanted = tuple(
            self.without_surplus(log, source, version, rows) for source, rows in zip(sources, listed, strict=True)
        )
        sent = tuple((target, source, rows) for (target, source), rows in zip(copies, wanted, strict=True))
        if (yield Copy(sent)) == LOST:
            return "end", "failed"
        found = yield ListFiles(tuple(target for target, _ in copies))
        return then if all(wanted) and tuple(map(sorted, found)) == tuple(map(sorted, wanted)) else ("end", "failed")

    def restore(self, write_id: str) -> Phase:
        log: Log = yield ReadLog()
        again = self.first_in_doubt(log, ("restore", write_id))
        if again or self.is_given_up(log, write_id):
            return again or ("end", "failed")
        now = yield ReadMetastore(PARTITIONS)
        missing: list[Change] = []
        copies: list[tuple[str, str]] = []
        for values, code in zip(PARTITIONS, now, strict=True):
            placed = log.history.current.get((values,))
            wanted = code_of_text(placed.partition.new_location) if placed else None
            if code is None and wanted is not None:
                if self.is_to_be_copied(log, wanted, log.newest):
                    copies.append((f"{write_id}/{values}", wanted))
                    wanted = copies[-1][0]
                missing.append((values, None, wanted))
        if not missing:
            return "end", "nothing"
        then = ("claim_restore", write_id, log.newest, tuple(missing))
        return ("copy_state", log, log.newest, tuple(copies), then) if copies else then

    def claim_restore(self, write_id: str, newest: int, changes: tuple[Change, ...]) -> Phase:
        slot = Slot(Operation.RESTORE, write_id, changes, newest)
        if not (yield Claim(newest + 1, slot)):
            return "restore", write_id
        return self.carry_out_write(newest + 1, slot, "")

    def check_data(self, rollback: Rollback, log: Log, targets: tuple[tuple[str, str | None], ...]) -> Phase:
        if not (yield HasData(tuple(code for _, code in targets if code is not None and rows_at(code)))):
            return "end", "failed"
        now = yield ReadMetastore(tuple(values for values, _ in targets))
        for (values, _), code in zip(targets, now, strict=True):
            if self.placement(log.history, values, code) is not Placement.IN_PLACE:
                return "end", "failed"
        changes = tuple(
            (values, place_of(code), target)
            for (values, target), code in zip(targets, now, strict=True)
            if place_of(code) != target
        )
        expected = tag_of(now[0])
        return ("claim_rollback", rollback, log.newest, changes, expected) if changes else ("end", "nothing")

    def claim_rollback(self, rollback: Rollback, newest: int, changes: tuple[Change, ...], expected: str) -> Phase:
        slot = Slot(Operation.ROLLBACK, rollback.write_id, changes, newest, rollback_to=rollback.version)
        if not (yield Claim(newest + 1, slot)):
            return "rollback", rollback
        return self.carry_out_write(newest + 1, slot, expected)
