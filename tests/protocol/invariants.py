"""What must be true in every state, and after everything has died there and recover and vacuum have run.

Nothing here asks the product: the log is read a second time, in the simplest way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from table_writer.log.history import History
from table_writer.model.entry import Operation, Outcome
from table_writer.model.location import Location

from .answers import a_day_later, answer_to_read, change, claim, record_outcome, send
from .content import (
    created_over,
    done_twice,
    insert_is_dropped,
    not_alone,
    other_rows_are_seen,
    rows_are_wrong,
    shown_twice,
    was_repeated,
)
from .folding import folded_says_otherwise
from .requests import (
    Claim,
    Copy,
    Delete,
    Done,
    Machine,
    Next,
    PutRegistration,
    ReadLog,
    Rebuild,
    RecordOutcome,
    RemoveRegistration,
    Send,
    Upload,
    Verify,
)
from .staged_invariants import StagedChecks
from .state import INDEX, LAYOUT, PARTITIONS, Log, Metastore, Slot, World, added_to, code_of, place_of, rows_at
from .writes import Write

LONGEST_RUN = 400

Label = tuple[str, object, str]


class Checks:
    """All invariants of one scenario; what was checked once is not checked again."""

    def __init__(self, machine: Machine, actors: Mapping[str, Next], begin: World, *, in_batches: bool) -> None:
        self._machine = machine
        self._names = tuple(actors)
        self._in_batches = in_batches
        self._writes = {name: phase[1] for name, phase in actors.items() if phase[0] in {"write", "rollback"}}
        self._begin = begin
        self._staged = StagedChecks(actors, begin)
        self._is_whole = any(isinstance(one, Write) and one.is_of_whole_table for one in self._writes.values())
        self._states: dict[object, str] = {}
        self._steps: dict[object, str] = {}
        self._folds: dict[Log, str] = {}
        self.closing: list[tuple[Label, World]] = []

    def step(self, before: World, after: World) -> str:
        """Check a step from one state to the next."""
        if before.metastore == after.metastore:
            return ""
        late = len(after.late) < len(before.late)
        if not late and (dropped := insert_is_dropped(before, after)):
            return dropped
        if after.touched or any(one.place.startswith("@") for one in after.inserts):  # what others wrote stays behind
            return "" if late else created_over(before.log, before.metastore, after.metastore)
        key = (before.log, before.metastore, after.metastore, late)
        found = self._steps.get(key)
        self.closing = []
        if found is None:
            found = "" if self._in_batches else torn(before.log, before.metastore, after.metastore)
            if not late:
                found = found or unclaimed(before.log, before.metastore, after.metastore)
                found = found or created_over(before.log, before.metastore, after.metastore)
            self._steps[key] = found
        return found

    def state(self, world: World, told: tuple[str, ...]) -> str:
        """Check a state, and what becomes of it when everything dies there."""
        key = (world.log, world.metastore, world.data, world.rows, world.touched, world.staged, world.inserts, told)
        found = self._states.get(key)
        if found is None:
            found = self._states[key] = self._check(world, told)
        return found

    def _check(self, world: World, told: tuple[str, ...]) -> str:
        self.closing = []
        now = self._now(world, told) or self._folded(world.log)
        return now or self._after_all_died(world._replace(late=(), late_store=()), told)

    def _folded(self, log: Log) -> str:
        found = self._folds.get(log)
        if found is None:
            found = self._folds[log] = folded_says_otherwise(log, self._machine.program)
        return found

    def _now(self, world: World, told: tuple[str, ...], *, is_expired: bool = False) -> str:
        return (
            dead_location(world)
            or other_rows_are_seen(world)
            or shown_twice(world)
            or self._failed_is_visible(world, told)
            or self._is_gone(world)
            or self._nothing_to_repeat(world, told)
            or self._staged.state(world, zip(self._names, told, strict=True), is_expired=is_expired)
        )

    def _is_gone(self, world: World) -> str:
        gone = self._is_whole and world.metastore[INDEX["p"]] is None
        return "the unpartitioned table has lost its location" if gone else ""

    def _nothing_to_repeat(self, world: World, told: tuple[str, ...]) -> str:
        for name, report in zip(self._names, told, strict=True):
            if (
                report == "repeated"
                and name in self._writes
                and not was_repeated(world.log, self._writes[name].key, self._begin.log.newest)
            ):
                return f"{name} told its user that its key was published, and no such rows are there"
        return ""

    def _failed_is_visible(self, world: World, told: tuple[str, ...]) -> str:
        for name, report in zip(self._names, told, strict=True):
            if report == "failed" and name in self._writes:
                write = self._writes[name]
                slot = slot_of(world.log, write.write_id)
                if slot is not None and slot.lost is Outcome.ABANDONED:
                    continue  # nobody can know it any more
                if slot is not None and slot.ended is Outcome.PUBLISHED:
                    return f"{name} told its user that it failed, and its entry is published"
                own = {new for v, _, new in slot.changes if not added_to(slot.added, v)} if slot else set()
                own |= set() if slot else {*write_places(write.write_id)}
                if any(rows_at(code) in own for _, code in _shown(world.metastore) if rows_at(code)):
                    return f"{name} told its user that it failed, and readers see its rows"
        return ""

    def _after_all_died(self, world: World, told: tuple[str, ...]) -> str:
        world = world._replace(log=world.log.all_timed_out())
        self.closing.append((("", None, "everything dies; no call is pending any more; claims time out"), world))
        problem, world, report = self._run("recover", ("recover",), world)
        if world.log.has_lost_entries and report == "entries are lost":
            return ""
        problem = problem or ("" if report == "recovered" else f"recover ends with {report!r} though nothing failed")
        problem = problem or self._after_recover(world, told)
        if problem:
            return problem
        world = a_day_later(world._replace(awake=frozenset()))
        self.closing.append((("time", 0, "a day passes"), world))
        problem, world, _ = self._run("vacuum", ("vacuum", "V"), world)
        return problem or self._now(world, told, is_expired=True) or leaked(world) or forgotten(world.log.a_day_later())

    def _after_recover(self, world: World, told: tuple[str, ...]) -> str:
        return (
            self._now(world, told)
            or in_doubt(world.log)
            or out_of_place(world)
            or lost_update(world.log)
            or rows_are_wrong(world)
            or not_alone(world)
            or done_twice(world.log)
            or self._success_is_gone(world, told)
            or self._staged.success_is_gone(world, zip(self._names, told, strict=True))
        )

    def _success_is_gone(self, world: World, told: tuple[str, ...]) -> str:
        for name, report in zip(self._names, told, strict=True):
            if report == "success" and name in self._writes:
                slot = slot_of(world.log, self._writes[name].write_id)
                if (
                    slot is not None
                    and slot.ended is not Outcome.PUBLISHED
                    and not {change[0] for change in slot.changes} & world.touched
                ):
                    return f"{name} told its user that it succeeded, and its entry is {_word(slot.ended)}"
        return ""

    def _run(self, name: str, phase: Next, world: World) -> tuple[str, World, str]:
        """Run one actor alone, without a fault."""
        actor = self._machine.at(name, phase)
        for _ in range(LONGEST_RUN):
            request: Any = actor.request
            if isinstance(request, Done):
                return "", world, request.report
            response: object = "ok"
            if isinstance(request, Claim):
                response, world = claim(request, world)
            elif isinstance(request, RecordOutcome):
                response, world = record_outcome(request, world)
            elif isinstance(request, Send):
                response, world = send(request, world)
            elif isinstance(request, Copy | Upload | Delete | RemoveRegistration | PutRegistration | Verify | Rebuild):
                response, world = change(request, world)
            elif isinstance(request, ReadLog) and world.log.has_lost_entries:
                response = self._machine.program.newest_entries(world.log)
                if response is None:
                    return "", world, "entries are lost"
            else:
                response = answer_to_read(request, world)
            self.closing.append(((name, request, ""), world))
            problem = dead_location(world)
            if problem:
                return problem, world, ""
            actor = self._machine.answer(actor, response)
        return f"{name} does not come to an end", world, ""


def dead_location(world: World) -> str:
    """(a) Readers are never pointed at rows that are gone, but by another tool."""
    for values, code in _shown(world.metastore):
        ours = not code.startswith("x:") and f"{values} back" not in world.touched
        if rows_at(code) and ours and rows_at(code) not in world.data:
            return f"{values} is at {code}, whose data is gone"
    return ""


def torn(log: Log, before: Metastore, after: Metastore) -> str:
    """(b) All partitions of an entry switch in one step.

    A drop is no switch: its partition is without rows. It has no condition either: a late alter that comes in between
    the two is undone for that partition alone, until recover has run.
    """
    if any(then is None and now is not None for now, then in zip(before, after, strict=True)):
        return ""
    for version, slot in enumerate(log.slots, 1):
        if slot.outcome is not None or slot.operation not in {Operation.WRITE, Operation.ROLLBACK}:
            continue
        changes = [change for change in slot.changes if rows_at(change[1]) != rows_at(change[2])]
        was = sum(rows_at(before[INDEX[values]]) == rows_at(new) for values, _, new in changes)
        now = sum(rows_at(after[INDEX[values]]) == rows_at(new) for values, _, new in changes)
        if was == 0 and 0 < now < len(changes):
            return f"readers see {now} of the {len(changes)} partitions of version {version} without the others"
    return ""


def unclaimed(log: Log, before: Metastore, after: Metastore) -> str:
    """(g) But for a late call, what readers see of a partition changes only to what an entry in doubt wants."""
    for values in PARTITIONS:
        shown = rows_at(after[INDEX[values]])
        if shown == rows_at(before[INDEX[values]]):
            continue
        wanted = {
            rows_at(new) for slot in log.slots if slot.outcome is None for v, _, new in slot.changes if v == values
        }
        if shown not in wanted:
            return f"{values} goes from {before[INDEX[values]]} to {shown}, which no entry in doubt wants"
    return ""


def in_doubt(log: Log) -> str:
    """(e) After recover nothing is in doubt, except vacuums."""
    for version, slot in enumerate(log.slots, 1):
        if slot.outcome is None and slot.operation is not Operation.VACUUM:
            return f"version {version} is in doubt after recover"
    return ""


def out_of_place(world: World) -> str:
    """(d) After recover each partition is where the newest published entry says."""
    written = {one.values for one in world.inserts if one.place in world.metastore and one.place.startswith("@")}
    for values in PARTITIONS:
        if values not in world.touched | written:
            wanted = newest_word(world.log, values)
            if wanted and rows_at(wanted[1]) != rows_at(world.metastore[INDEX[values]]):
                shown = world.metastore[INDEX[values]]
                return f"{values} is at {shown} after recover; version {wanted[0]} had put it at {wanted[1]}"
    return ""


def lost_update(log: Log) -> str:
    """(d) No entry is published over another that its write has not seen."""
    published = [
        (version, slot)
        for version, slot in enumerate(log.slots, 1)
        if slot.ended is Outcome.PUBLISHED and slot.operation is not Operation.VACUUM
    ]
    for later, slot in published:
        for earlier, other in published:
            if earlier >= later or not (_partitions(slot) | {*slot.replaces}) & _partitions(other):
                continue
            unseen = earlier > slot.base or earlier in slot.in_doubt_at_plan or slot.log_id != log.marks.log_id
            unseen = unseen and not slot.appends
            if slot.operation is Operation.WRITE and unseen:
                return f"version {later} is published over version {earlier}, which it never saw: a lost update"
            over = slot.recovers is not None and earlier > slot.recovers and other.operation is not Operation.RECOVER
            if over and _partitions(slot) & _partitions(other) - {*other.superseded}:
                return f"version {later} does version {slot.recovers} again, over version {earlier}: a lost update"
    return ""


def leaked(world: World) -> str:
    """(f) After recover, a day and a vacuum, all data is in use."""
    words = (newest_word(world.log, values) for values in PARTITIONS)
    used = {word[1] for word in words if word} | {place_of(code) for code in world.metastore}
    left = sorted(code for code in world.data if code not in used and not code.startswith("@"))
    return f"nobody uses {', '.join(left)}, and vacuum leaves it" if left else ""


def forgotten(log: Log) -> str:
    """(h) A log whose old entries were trimmed says the same of what is left."""
    trimmed = log.history.trimmable(0)
    kept = log.history_of([record for record in log.history.records if record.entry.version not in trimmed])
    if _said(kept) != _said(log.history):
        return f"without versions {sorted(trimmed)} the log says something else"
    if trimmed and _surplus(kept) != _surplus(log.history):
        return f"without versions {sorted(trimmed)} nobody knows which files are of which version"
    used = {code_of(place).partition("/")[0] for place in kept.in_use() if place[2].startswith(LAYOUT.all_data.key)}
    return f"without versions {sorted(trimmed)} {used - kept.claimed_ids} look dead" if used - kept.claimed_ids else ""


def _said(history: History) -> tuple[object, ...]:
    left = {(place, left.left_by) for place, left in history.left.items()}
    return history.current, left, history.in_use(), {place for place in history.left if history.deleted.get(place)}


def _surplus(history: History) -> dict[object, object]:
    """What the log says of files at every location that is current, or left."""
    live = {location.place: location for location in (left.location for left in history.left.values())}
    for placed in history.current.values():
        if placed.partition.new_location is not None:
            found = Location.parse(placed.partition.new_location)
            live[found.place] = found
    return {
        (place, version): history.surplus(one, version)
        for place, one in live.items()
        for version in range(history.newest + 1)
    }


def newest_word(log: Log, values: str) -> tuple[int, str | None] | None:
    """Return what the newest published entry of a partition says."""
    for version in range(log.newest, 0, -1):
        slot = log.slots[version - 1]
        if slot.ended is Outcome.PUBLISHED:
            for name, _, new in slot.changes:
                if name == values and values not in slot.superseded:
                    return version, new
    return None


def slot_of(log: Log, write_id: str) -> Slot | None:
    return next((slot for slot in log.slots if slot.write_id == write_id), None)


def write_places(write_id: str) -> Iterable[str]:
    return (f"{write_id}/{values}" for values in PARTITIONS)


def _partitions(slot: Slot) -> set[str]:
    return {values for values, _, _ in slot.changes}


def _shown(metastore: Metastore) -> Iterable[tuple[str, str]]:
    return ((values, code) for values, code in zip(PARTITIONS, metastore, strict=True) if code is not None)


def _word(outcome: Outcome | None) -> str:
    return outcome.value if outcome else "in doubt"
