"""A write, and the carrying out of any claimed entry, written down once more in the smallest form."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final

from table_writer.log.history import Placement, SlotRecord
from table_writer.log.rules import Effect, PartitionState, Standing
from table_writer.model.entry import LogEntry, Operation, Outcome
from table_writer.model.write import no_partition

from .adding import Adding
from .requests import (
    FAILED,
    LOST,
    MISSING,
    OK,
    TOO_LATE,
    Claim,
    Copy,
    Delete,
    ListFiles,
    Next,
    Phase,
    ReadLog,
    ReadMetastore,
    RecordOutcome,
    Send,
    Upload,
    Verify,
)
from .state import (
    PARTITIONS,
    Added,
    Call,
    Change,
    Log,
    Slot,
    code_of_text,
    entry_of,
    is_elsewhere,
    place_of,
    rows_at,
    tag_of,
)
from .writes import HALF, Behind, Brought, Corrected, Job, Planned, Shown, Write

TRIES: Final = 3


class Publishing(Adding):
    """A write, and the carrying out of any claimed entry."""

    def write(self, write: Write) -> Phase:
        """Fix the base version first: a write with the same key that comes later is above it."""
        log: Log = yield ReadLog()
        plan = Planned(write, log.newest, log.in_doubt, log_id=log.marks.log_id)
        return ("look_for_key", plan) if write.key else ("upload", plan)

    def look_for_key(self, plan: Planned) -> Phase:
        log: Log = yield ReadLog()
        repeats = self.repeats(log.history.records, plan.write.key)
        return ("end", "repeated") if repeats else ("upload", plan)

    def upload(self, plan: Planned) -> Phase:
        several = plan.write.partitions if plan.write.in_place > 1 else ()
        files = tuple((plan.own(values), plan.write.rows(values)) for values in several)
        yield Upload(tuple(map(plan.own, plan.write.partitions)), files)
        return "publish", plan

    def publish(self, plan: Planned) -> Phase:
        log: Log = yield ReadLog()
        plan = plan._replace(seen=log.newest) if plan.write.by else plan
        again = ("publish", plan)
        if not self.is_same_log(plan, log):
            return "discard", plan, "failed"
        draft = self.drafted(plan)
        unseen = {*range(plan.base + 1, log.newest + 1), *plan.in_doubt, *log.in_doubt}
        records = [log.record(version) for version in sorted(unseen)]
        if plan.write.key and self.repeats_since(self.records_with_key(log, records), plan):
            return "discard", plan, "repeated"
        own = self.of_this_write(plan, log)
        if own:
            return own
        for record in records:
            verdict = self.standing(record, draft, plan)
            if verdict is Standing.IN_DOUBT:
                return self.resolving(log, record, again, failed=("discard", plan, "failed"))
            if verdict in {Standing.CONFLICT, Standing.DELETED}:
                return "discard", plan, "failed"
        return "look", plan, log

    def drafted(self, plan: Planned) -> LogEntry:
        """Return what the write wants to claim, as far as it knows: where its rows are, copied or not."""
        return entry_of(plan.base + 1, self._slot(plan, tuple((values, None) for values in plan.write.partitions)))

    def of_this_write(self, plan: Planned, log: Log) -> Next | None:
        """Return where to go on if another process has claimed this very write: only one that was staged."""
        return None

    def look(self, plan: Planned, log: Log) -> Phase:
        write, named = plan.write, plan.write.partitions
        if write.scope is not no_partition:
            names = yield ReadMetastore(PARTITIONS)
            there = [(values,) for values, code in zip(PARTITIONS, names, strict=True) if code is not None]
            named += tuple(sorted(values for (values,) in write.scope(there) if values not in named))
        now = (yield ReadMetastore(named)) if named else ()
        return self.looked(plan, log, tuple(zip(named, now, strict=True)))

    def looked(self, plan: Planned, log: Log, shown: Shown) -> Next:
        """Decide by what the metastore shows. What stays must be what the log says, and no late call's."""
        builds = plan.write.appends or plan.write.creates
        to_verify = self.to_verify(log) if builds else frozenset()
        return ("verify", plan, log, shown, to_verify) if to_verify else self.compared(plan, log, shown)

    def compared(self, plan: Planned, log: Log, shown: Shown) -> Next:
        builds, failed = plan.write.appends or plan.write.creates, ("discard", plan, "failed")
        behind = self.in_the_way(plan, log, shown) if builds else ()
        then = Corrected(again=("publish", plan), failed=failed, nothing=("build", plan, log, shown), written=failed)
        return ("correct", log, behind, then) if behind else self.built(plan, log, shown)

    def verify(self, plan: Planned, log: Log, shown: Shown, versions: frozenset[int]) -> Phase:
        """Compare all that the log knows: nobody has looked since the day in which a late call may have come."""
        looked_at = self.verified_by(plan)
        behind = self.behind(log, tuple(zip(looked_at, (yield ReadMetastore(looked_at)), strict=True)))
        then = Corrected(
            again=("publish", plan),
            failed=("discard", plan, "failed"),
            nothing=("forget_recoveries", ("publish", plan), versions),
            written=("compare_own", plan, log, shown),
        )
        return ("correct", log, behind, then) if behind else then.nothing

    def forget_recoveries(self, then: Next, versions: frozenset[int]) -> Phase:
        yield Verify(versions)
        return then

    def correct(self, log: Log, behind: tuple[Behind, ...], then: Corrected) -> Phase:
        """Correct what late calls have set back, but for placeholders that another tool has written to since."""
        places = tuple(old for _, (_, old, _) in behind if old is not None and rows_at(old) is None)
        found = (yield ListFiles(places)) if places else ()
        written = {place for place, rows in zip(places, found, strict=True) if rows}
        left = [(version, change) for version, change in behind if change[1] not in written]
        if left:
            first = min(version for version, _ in left)
            changes = tuple(change for version, change in left if version == first)
            return self.doing_again(log, first, changes, then.again, then.failed)
        return then.written if any(new for _, (_, _, new) in behind) else then.nothing

    def compare_own(self, plan: Planned, log: Log, shown: Shown) -> Phase:
        """Somebody has written where a late call has put a partition: nobody forgets that it may have come."""
        return self.compared(plan, log, shown)
        yield

    def build(self, plan: Planned, log: Log, shown: Shown) -> Phase:
        return self.built(plan, log, shown)
        yield

    def in_the_way(self, plan: Planned, log: Log, shown: Shown) -> tuple[Behind, ...]:
        """What is to be corrected before a write builds on it. In an unpartitioned table any call may be late."""
        return self.behind(log, shown) if self.may_be_late(log) or plan.write.is_of_whole_table else ()

    def built(self, plan: Planned, log: Log, shown: Shown) -> Next:
        if self.refuses(plan.write, shown):
            return "discard", plan, "failed"
        if plan.write.creates and any(code is not None for _, code in shown):
            return "look_into", plan, log, shown
        return ("bring", plan, log, shown) if plan.write.appends else ("claim", plan, log, shown)

    def refuses(self, write: Write, shown: Shown) -> bool:
        there = [code for _, code in shown if code is not None]
        return bool(write.creates and any(map(rows_at, there))) or bool(write.appends and any(map(is_elsewhere, there)))

    def look_into(self, plan: Planned, log: Log, shown: Shown) -> Phase:
        """Create what is there without rows: a publish has added it, and was refused then."""
        found = yield ListFiles(tuple(place for _, place in self.places(shown)))
        return ("discard", plan, "failed") if any(found) else ("claim", plan, log, shown)

    def behind(self, log: Log, shown: Shown) -> tuple[Behind, ...]:
        """What late calls have set back, with the version that is to be done again."""
        found: list[Behind] = []
        for values, code in shown:
            placed = log.history.current.get((values,))
            if placed and self.placement(log.history, values, code) is Placement.BEHIND:
                wanted = code_of_text(placed.partition.new_location)
                found.append((placed.version, (values, place_of(code), wanted)))
        return tuple(found)

    def bring(self, plan: Planned, log: Log, shown: Shown) -> Phase:
        """Compare what is there with what was copied; after copying look at everything again."""
        there_already = self.in_place(plan.write, shown)
        places = tuple(one for one in self.places(shown) if one[0] not in there_already)
        listed = (yield ListFiles(tuple(place for _, place in places))) if places else ()
        there = {values: (place, rows) for (values, place), rows in zip(places, listed, strict=True) if rows}
        known = {one.values: (one.source, one.rows) for one in plan.brought}
        none: tuple[str, tuple[str, ...]] = ("", ())
        copied = [one for one in plan.write.partitions if one not in there_already]
        changed = [one for one in copied if known.get(one, none) != there.get(one, none)]
        if changed:
            return "copy", plan, tuple(Brought(one, "", *there.get(one, none)) for one in changed)
        if not places:
            return "claim", plan, log, shown
        named = tuple(values for values, _ in shown)
        again = tuple(zip(named, (yield ReadMetastore(named)), strict=True))
        if [place_of(code) for _, code in again] == [place_of(code) for _, code in shown]:
            return "claim", plan, log, again
        return self.looked(plan, log, again)

    def copy(self, plan: Planned, wanted: tuple[Brought, ...]) -> Phase:
        """Copy into directories where nobody has put a file yet: what is sent to them twice does no harm."""
        brought = tuple(one._replace(target=self.own_directory(plan, one.values)) for one in wanted)
        answer = yield Copy(tuple(self.copies(plan, brought)))
        if answer == LOST:
            return "discard", plan, "failed"
        if answer != OK:
            brought = tuple(one._replace(source=HALF) for one in brought)
        others = tuple(one for one in plan.brought if one.values not in {new.values for new in brought})
        made = any(one.target != plan.own(one.values) for one in brought)
        return "publish", plan._replace(brought=tuple(sorted(others + brought)), rounds=plan.rounds + made)

    def copies(self, plan: Planned, brought: tuple[Brought, ...]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        for one in brought:
            own = plan.own(one.values)
            if one.target != own:
                yield one.target, own, plan.write.rows(one.values)
            if one.source:
                yield one.target, one.source, one.rows

    def claim(self, plan: Planned, log: Log, shown: Shown) -> Phase:
        slot = self._slot(plan, shown)
        if self.is_deleted_in_place(plan, log, slot):
            return "discard", plan, "failed"
        if not (yield Claim(log.newest + 1, slot)):
            return "publish", plan
        return self.carry_out_write(log.newest + 1, slot, tag_of(shown[0][1]) if shown else "")

    def carry_out_write(self, version: int, slot: Slot, expected: str) -> Next:
        job = Job(
            version=version,
            write_id=slot.write_id,
            changes=slot.changes,
            outcome=Outcome.PUBLISHED,
            to_record=(version,),
            done=("end", "success"),
            refused=("end", "failed"),
            unknown=("end", "unknown"),
            unrecorded=("end", "success"),  # readers have switched: only a note
            emptied=at_placeholders(slot.changes),
            expected=expected,
            in_place=slot.added,
            to_copy=self.to_copy(slot.changes, slot.added),
        )
        return "switch", job, present_before(slot.changes), 1

    def discard(self, plan: Planned, report: str) -> Phase:
        """Give up a write that never claimed: its data is its own, and nobody ever publishes it."""
        yield Delete((plan.write.write_id, *plan.fresh))
        return "end", report

    def switch(self, job: Job, present: tuple[str, ...], attempt: int) -> Phase:
        stay = tuple((values, new) for values, _, new in job.changes if new is not None)
        if attempt == 1 and not present:
            answer = (yield self.send(job, ("add", stay))) if stay else OK
            return self.switched(job) if answer == OK else ("call_failed", job, answer)
        missing = tuple((values, f"@{job.write_id}/{values}") for values, _ in stay if values not in present)
        if missing:
            answer = yield self.send(job, ("add", missing))
            if answer != OK:
                return "call_failed", job, answer
        return "alter", job, (*present, *(values for values, _ in missing)), attempt

    def alter(self, job: Job, present: tuple[str, ...], attempt: int) -> Phase:
        answer = yield self.send(job, self.one_alter(job, present))
        if answer == OK:
            return self.switched(job)
        if answer != MISSING or attempt == TRIES:
            return "call_failed", job, answer
        partitions = tuple(values for values, _, _ in job.changes)
        now = yield ReadMetastore(partitions)
        shown = tuple(values for values, code in zip(partitions, now, strict=True) if code is not None)
        return "switch", job, shown, attempt + 1

    def one_alter(self, job: Job, present: tuple[str, ...]) -> Call:
        """Change all at once. What is at a placeholder already stays there: another tool may have written to it."""
        nowhere = {values: f"@{job.write_id}/{values}" for values in present} | dict(job.emptied)
        marks = {} if job.expected else {one.values: f"^{job.write_id}" for one in job.in_place}
        changes = tuple(
            (values, f"{new}{marks.get(values, '')}" if new else nowhere[values])
            for values, _, new in job.changes
            if values in present
        )
        return ("alter", changes, job.write_id, job.expected) if job.expected else ("alter", changes)

    def call_failed(self, job: Job, answer: str) -> Phase:
        now = yield ReadMetastore(tuple(values for values, _, _ in job.changes))
        seen = self.effect({self.state_of_call(job, *one) for one in zip(job.changes, now, strict=True)})
        if seen is Effect.ALL:
            return self.switched(job)
        log: Log = yield ReadLog()
        if log.slots[job.version - 1].outcome is Outcome.PUBLISHED:  # others have seen or done it, and moved on
            return "record_outcome", job, job.to_record
        return job.unknown if answer in {LOST, TOO_LATE} or seen is Effect.SOME else ("give_up", job)

    def give_up(self, job: Job) -> Phase:
        own = job.version
        stands = yield RecordOutcome(own, Outcome.ABANDONED, job.write_id, self.in_time_of_giving_up(own))
        return job.refused if stands is Outcome.ABANDONED else job.unknown

    def drop(self, job: Job) -> Phase:
        """Drop what was emptied, if it is still empty; a failure leaves the entry in doubt."""
        emptied = tuple(values for values, _, new in job.changes if new is None)
        if emptied:
            now = yield ReadMetastore(emptied)
            for values, code in zip(emptied, now, strict=True):
                if code is not None and rows_at(code) is None and (yield from self.is_empty(code)):
                    answer = yield self.send(job, ("drop", ((values, None),)))
                    if answer not in {OK, MISSING}:
                        return job.unrecorded
        return "record_outcome", job, job.to_record

    def is_empty(self, placeholder: str) -> Generator[ListFiles, tuple[tuple[str, ...], ...], bool]:
        """Whether no other tool has added rows."""
        return not any((yield ListFiles((placeholder,))))

    def record_outcome(self, job: Job, versions: tuple[int, ...]) -> Phase:
        if not versions:
            return job.done
        stands = yield RecordOutcome(versions[0], job.outcome, job.write_id, superseded=job.superseded)
        return job.unrecorded if stands == FAILED else ("record_outcome", job, versions[1:])

    def send(self, job: Job, call: Call) -> Send:
        return Send(call, self.in_time_of(job.version))

    def resolving(self, log: Log, record: SlotRecord, again: Next, *, failed: Next) -> Next:
        """Return the phase that resolves an entry in doubt, or that waits for its claimant."""
        if self.is_over(record):
            return self.recovery(log, record, again, failed=failed)
        slot = log.slots[record.entry.version - 1]
        return ("confirm", record.entry.version, slot, again) if self.is_confirmable(slot) else again

    def confirm(self, version: int, slot: Slot, again: Next) -> Phase:
        """Record in its claimant's place that an entry has taken effect."""
        now = yield ReadMetastore(tuple(values for values, _, _ in slot.changes))
        copied = yield from self.copied(slot)
        states = self.states(slot, now, copied)
        if self.effect({*states.values()}) is Effect.ALL:
            log: Log = yield ReadLog()
            if not self.may_be_late(log):
                yield RecordOutcome(version, Outcome.PUBLISHED, slot.write_id)
        return again

    def recovery(self, log: Log, record: SlotRecord, then: Next, *, failed: Next) -> Next:
        """Return the phase that finishes an entry whose claimant is gone."""
        version = record.entry.version
        if self.covered(log.history, record):
            return "rebuild", log, version, then
        return self.doing_again(log, version, log.slots[version - 1].changes, then, failed)

    def doing_again(self, log: Log, version: int, changes: tuple[Change, ...], then: Next, failed: Next) -> Next:
        own = log.newest + 1
        slot = Slot(
            Operation.RECOVER,
            f"R{own}",
            changes,
            log.newest,
            recovers=version,
            recovered_write_id=log.slots[version - 1].recovered_write_id or log.slots[version - 1].write_id,
            is_putting_right=log.slots[version - 1].outcome is not None,
            unused=log.slots[version - 1].unused if log.slots[version - 1].outcome is None else (),
            log_id=log.marks.log_id,
            added=log.slots[version - 1].added if log.slots[version - 1].outcome is None else (),
        )
        return "recover_one", own, slot, then, failed

    def recover_one(self, own: int, slot: Slot, then: Next, failed: Next) -> Phase:
        if not (yield Claim(own, slot)):
            return then
        return "roll_forward", own, slot, then, failed

    def roll_forward(self, own: int, slot: Slot, then: Next, failed: Next) -> Phase:
        changes = slot.changes
        now = yield ReadMetastore(tuple(values for values, _, _ in changes))
        missing = yield from self.missing(slot)
        copied = frozenset(values for values, rows in missing.items() if not rows)
        states = self.states(slot, now, copied)
        if PartitionState.SUPERSEDED in states.values():
            log: Log = yield ReadLog()
            states = self.recovered_states(log, slot, now, copied)
        shown = dict(zip((values for values, _, _ in changes), now, strict=True))
        for values, _, new in changes:
            place = shown[values]
            if new and place and rows_at(place) is None and not (yield from self.is_empty(place)):
                states[values] = PartitionState.SUPERSEDED  # what another tool has put there is to stay
        todo = self.to_do(changes, states)
        job = Job(
            version=own,
            write_id=slot.write_id,
            changes=todo,
            outcome=self.recovered_as(tuple(states.values())),
            superseded=tuple(values for values, state in states.items() if state is PartitionState.SUPERSEDED),
            to_record=self.recording_order(slot.recovers or own, own),
            done=then,
            refused=failed,
            unknown=failed,
            unrecorded=failed,
            expected=tag_of(now[0]) if now else "",
            emptied=tuple((values, place) for values, place in shown.items() if place and rows_at(place) is None),
            in_place=slot.added,
            to_copy=self.to_copy_again(todo, slot, missing),
        )
        present = tuple(values for values, _, _ in todo if shown[values] is not None)
        return ("switch", job, present, 1) if todo else ("record_outcome", job, job.to_record)

    def _slot(self, plan: Planned, shown: Shown) -> Slot:
        write = plan.write
        in_place = self.in_place(write, shown)
        targets = {values: plan.target(values) for values in write.partitions} | in_place
        nowhere = {values: f"@{write.write_id}/{values}" for values, _ in shown if write.is_of_whole_table}
        unused = sorted(plan.own(values) for values, target in targets.items() if target != plan.own(values))
        return Slot(
            Operation.WRITE,
            write.write_id,
            tuple((values, place_of(old), targets.get(values) or nowhere.get(values)) for values, old in shown),
            plan.base,
            plan.in_doubt,
            appends=write.appends,
            creates=write.creates,
            replaces=write.replaces,
            key=write.key,
            by=write.by,
            unused=tuple(unused),
            log_id=plan.log_id,
            added=tuple(Added(values, plan.own(values), write.rows(values)) for values in in_place),
            files=max(1, write.in_place),
        )


def present_before(changes: tuple[Change, ...]) -> tuple[str, ...]:
    return tuple(values for values, old, _ in changes if old is not None)


def at_placeholders(changes: tuple[Change, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((values, old) for values, old, _ in changes if old is not None and rows_at(old) is None)
