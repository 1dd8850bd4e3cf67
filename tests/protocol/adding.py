"""What is different where an append puts its files beside those that readers look at already."""

from __future__ import annotations

from collections.abc import Collection, Generator

from table_writer.log.rules import PartitionState, Standing
from table_writer.model.entry import Operation, Outcome

from .requests import OK, Copy, ListFiles, Next, Phase, ReadLog, ReadMetastore, Rebuild
from .rules import Rules
from .state import Added, Change, Log, Metastore, Slot, added_to, entry_of, is_altered_by, location, place_of, rows_at
from .writes import Job, Planned, Shown, Write

Missing = dict[str, tuple[str, ...]]  # rows that are not where they shall be, for each partition in place
Listing = Generator[ListFiles, tuple[tuple[str, ...], ...], Missing]


class Adding(Rules):
    """Appends in place: one alter first, then a copy a file, then the outcome."""

    def in_place(self, write: Write, shown: Shown) -> dict[str, str]:
        """Return where the partitions are that files are added to: those that readers find rows in."""
        found = {values: place_of(code) for values, code in shown if rows_at(code)} if write.in_place else {}
        return {values: place for values, place in found.items() if place}

    def is_deleted_in_place(self, plan: Planned, log: Log, slot: Slot) -> bool:
        """Whether a vacuum that the write has not seen ended deletes the location that files are to be added to."""
        if not slot.added:
            return False
        unseen = sorted({*range(plan.base + 1, log.newest + 1), *plan.in_doubt, *log.in_doubt})
        draft = entry_of(log.newest + 1, slot)
        return any(self.standing(log.record(version), draft, plan) is Standing.DELETED for version in unseen)

    def to_copy(self, changes: tuple[Change, ...], added: tuple[Added, ...]) -> tuple[tuple[str, str, str], ...]:
        places = {values: new for values, _, new in changes if new}
        return tuple((places[one.values], one.source, row) for one in added if one.values in places for row in one.rows)

    def to_copy_again(self, todo: tuple[Change, ...], slot: Slot, missing: Missing) -> tuple[tuple[str, str, str], ...]:
        """What a recovery copies: only what is not there."""
        left = tuple(one._replace(rows=missing[one.values]) for one in slot.added)
        return self.to_copy(todo, left)

    def switched(self, job: Job) -> Next:
        """Where to go on after the metastore call."""
        return ("copy_added", job, job.to_copy) if job.to_copy else ("drop", job)

    def copy_added(self, job: Job, todo: tuple[tuple[str, str, str], ...]) -> Phase:
        """Copy the next file. Whatever goes wrong, others do the rest."""
        if not todo:
            return "drop", job
        target, source, row = todo[0]
        answer = yield Copy(((target, source, (row,)),), self.in_time_of(job.version))
        return ("copy_added", job, todo[1:]) if answer == OK else job.unknown

    def state_of_call(self, job: Job, change: Change, now: str | None) -> PartitionState:
        """What a call without an answer has done: in place only the parameters tell."""
        added = added_to(job.in_place, change[0])
        return self.state(change, now, added, copied=is_altered_by(now, job.write_id))

    def missing(self, slot: Slot) -> Listing:
        """List what an entry adds, and what of it is not there."""
        places = {values: new for values, _, new in slot.changes if new and added_to(slot.added, values)}
        found = (yield ListFiles(tuple(places.values()))) if places else ()
        there = dict(zip(places, found, strict=True))
        return {one.values: tuple(row for row in one.rows if row not in there[one.values]) for one in slot.added}

    def copied(self, slot: Slot) -> Generator[ListFiles, tuple[tuple[str, ...], ...], frozenset[str]]:
        """Return the partitions to which all files of an entry have been added."""
        missing = yield from self.missing(slot)
        return frozenset(values for values, rows in missing.items() if not rows)

    def states(self, slot: Slot, now: Metastore, copied: Collection[str]) -> dict[str, PartitionState]:
        return {
            change[0]: self.state(change, code, added_to(slot.added, change[0]), copied=change[0] in copied)
            for change, code in zip(slot.changes, now, strict=True)
        }

    def recovered_states(
        self, log: Log, slot: Slot, now: Metastore, copied: Collection[str]
    ) -> dict[str, PartitionState]:
        return {
            change[0]: self.recovered_state(
                log.history, change, code, added_to(slot.added, change[0]), copied=change[0] in copied
            )
            for change, code in zip(slot.changes, now, strict=True)
        }

    def rebuild(self, log: Log, version: int, then: Next) -> Phase:
        """Record again how an entry had ended, by what came after it."""
        slot = log.slots[version - 1]
        now = yield ReadMetastore(tuple(values for values, _, _ in slot.changes))
        shown = dict(zip((values for values, _, _ in slot.changes), now, strict=True))
        missing = yield from self.missing(slot)
        log = yield from self.log_after_listing(log, missing)
        copied = {values: self.is_whole(log, slot, values, rows) for values, rows in missing.items()}
        outcome, superseded = self.rebuilt(log, version, shown, copied)
        again = (one.write_id for one in log.slots if one.recovers == version and one.outcome is not None)
        yield Rebuild(version, outcome, next(again, slot.write_id), superseded)
        return then

    def log_after_listing(self, log: Log, missing: Missing) -> Generator[ReadLog, Log, Log]:
        """Read the log after files were missed: a vacuum may have claimed their location meanwhile."""
        return (yield ReadLog()) if any(missing.values()) else log

    def is_whole(self, log: Log, slot: Slot, values: str, missing: tuple[str, ...]) -> bool | None:
        """Whether all files of an entry are at a location, ``None`` if a vacuum deletes it, or has done so."""
        place = next(location(new).place for name, _, new in slot.changes if name == values and new)
        vacuums = (one for one in log.slots if one.operation is Operation.VACUUM and not one.trimmed and not one.gone)
        named = (code for one in vacuums if one.outcome is not Outcome.ABANDONED for code, _ in one.deletes)
        if not missing:
            return True
        return None if place in {location(code).place for code in named} else False

    def without_surplus(self, log: Log, code: str, version: int, rows: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of the rows at a location that are part of a version."""
        surplus = self.surplus(log.history, code, version)
        return tuple(row for row in rows if row not in surplus)
