"""The three vacuums, each by the entry that it claims: a sweep, a staged write that is given up, and an erasure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from table_writer.errors import ConflictError
from table_writer.model.entry import DeletedLocation, Erasure, LogEntry
from table_writer.model.location import Location, Place
from table_writer.model.meaning import Operation
from table_writer.model.process import boot_seconds
from table_writer.model.table import Partition, PartitionValues, shown_name
from table_writer.protocol.log.deadline import Deadline
from table_writer.protocol.log.history import History
from table_writer.protocol.log.placements import Placement
from table_writer.protocol.log.trimming import OldEntries, Trimming
from table_writer.protocol.loop import AGAIN, Again, Answer, Claimant, Draft, PreviewableClaimant, preview, run
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.vacuum.due import (
    Ages,
    DeadWrite,
    DueLocations,
    KeptLocation,
    Look,
    Traces,
    due_locations,
    in_use,
    is_used,
    look_for_traces,
)
from table_writer.protocol.vacuum.remover import (
    FoundLocation,
    Mirrors,
    Remover,
    VacuumResult,
    counted_once,
    interrupted,
    record_as_done,
    record_ended,
)

LOOKS_AGAIN: Final = 3  # looks of a dry run while others publish
ChosenLocations = tuple[tuple[FoundLocation, ...], tuple[KeptLocation, ...]]
ChooseLocations = Callable[[History, Sequence[FoundLocation]], ChosenLocations]
"""Chooses, of locations that readers have left, those that hold what is to go, and says which others may hold it."""
EndsDoubts = Callable[[History], bool]
"""Ends a publish in doubt, and says whether there was one."""


class Vacuum:
    """Vacuums one table, whose ``mirrors`` follow before anything is deleted."""

    def __init__(self, opened: OpenTable, mirrors: Mirrors, *, clock: Callable[[], float] = boot_seconds) -> None:
        self._opened = opened
        self._remover = Remover(opened, mirrors, clock=clock)
        self.look: Look | None = None  # the last run's look

    def run(self, ages: Ages, *, dry_run: bool) -> VacuumResult:
        """Delete what is old enough; the next vacuum takes over what is among the ``failures``."""
        # one that deletes finds out when it claims its version whether others have published meanwhile
        sweep = _Sweep(self._remover, ages, looks_again=LOOKS_AGAIN if dry_run else 0)
        try:
            return preview(sweep) if dry_run else run(sweep)
        finally:
            self.look = sweep.last_look

    def erase(self, erasure: Erasure, choose: ChooseLocations, ends_doubts: EndsDoubts) -> LogEntry:
        """Claim a vacuum that the next one carries out: what it names is due, whatever its retention.

        From the claim on nobody reads there, or points readers there. ``choose`` gets all locations that readers have
        left and that can go, with their objects. It is claimed over no publish in doubt, as every publish: that may
        bring rows back.
        """
        return run(_Erasure(self._remover, erasure, choose, ends_doubts))

    def give_up(self, write_id: str, *, base_version: int = 0, dry_run: bool) -> VacuumResult:
        """Delete all of one write that was never published, once a claim keeps its publishers from publishing it.

        A write that had claimed an entry, which was abandoned, stays for its retention, as every write that ever
        claimed. Entries older than ``base_version`` do not name it, and are not read. Raises ``ConflictError`` if it is
        published, or will be.
        """
        discard = _Discard(self._remover, write_id, base_version)
        return preview(discard) if dry_run else run(discard)

    def finish(self) -> tuple[int, ...]:
        """Carry out the vacuums whose own process died; returns their versions."""
        history = self._opened.log.read_recent()
        finished: list[int] = []
        for entry in interrupted(history):
            ids = {self._opened.layout.write_id_of(Location.parse(deletion.location)) for deletion in entry.deletes}
            dead = sorted(write_id for write_id in ids - history.claimed_ids if write_id)
            plan = VacuumResult(
                locations=tuple(map(FoundLocation, history.state.outstanding_locations(entry))),
                dead_writes=tuple(DeadWrite(write_id=dead_id, reason="", objects=(), uploads=()) for dead_id in dead),
            )
            if self._remover.kept_for_mirrors(plan) is not plan:
                continue
            self._remover.carry_out(history, entry, plan, self._remover.deadline())
            if self._opened.log.slots.outcome(entry.version) is not None:
                finished.append(entry.version)
        record_ended(self._opened.log, history, frozenset())
        return tuple(finished)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a sweep goes by: the log, the partitions, and what lies below the table's root."""

    look: Look
    verifiable: frozenset[int]  # the recoveries of before which no call can come any more
    oldest: OldEntries

    @property
    def history(self) -> History:
        """The log."""
        return self.look.history


_Chosen = tuple[_Seen, VacuumResult]


@dataclass
class _Sweep(PreviewableClaimant[_Seen, _Chosen, VacuumResult]):
    """Deletes what is old enough."""

    remover: Remover
    ages: Ages
    looks_again: int = 0
    last_look: Look | None = None

    def __post_init__(self) -> None:
        self.opened = self.remover.opened

    def read(self) -> _Seen:
        traces = look_for_traces(self.opened.store, self.opened.layout)
        history, partitions, verifiable = self.remover.look_around()
        oldest = self.opened.log.read_oldest(history, self.ages.history_seconds)
        self.last_look = Look(traces, history, partitions)
        return _Seen(self.last_look, verifiable, oldest)

    def waits(self, view: _Seen) -> bool:
        return bool(view.verifiable) and self.remover.verify(view.history, view.look.partitions, view.verifiable)

    def look(self, view: _Seen) -> Answer[VacuumResult] | Draft[_Chosen] | Again:
        if self.looks_again and self._is_overtaken(view.look):
            self.looks_again -= 1
            return AGAIN
        history, traces, ages = view.history, view.look.traces, self.ages
        in_doubt = tuple(record.entry.version for record in history.records.publishes_in_doubt)
        if self.opened.log.slots.closed_for:
            kept = KeptLocation(self.opened.layout.own, "the table was handed over, and no vacuum deletes any more")
            return Answer(VacuumResult(in_doubt=in_doubt, kept=(kept,)))
        used = in_use(history, view.look.partitions.values(), self.remover.why_partial)
        chosen = self.remover.spare_others(due_locations(history, used, ages, traces.staged_ids))
        plan = VacuumResult(
            locations=tuple(map(FoundLocation, chosen.locations)),
            dead_writes=traces.dead_writes(self.opened.store, history, used, ages.dead_write_seconds),
            leftover_uploads=traces.leftover_uploads(history, ages.dead_write_seconds),
            stale_registrations=traces.stale_registrations(history, ages.dead_write_seconds),
            trimmed=self._trimmable(history, ages, view.oldest),
            kept=chosen.kept,
            in_doubt=in_doubt,
        )
        return Draft(self.remover.entry(history, Operation.VACUUM, self.remover.deletes(plan)), (view, plan))

    def planned(self, draft: Draft[_Chosen]) -> VacuumResult:
        view, plan = draft.basis
        locations = [found.left for found in plan.locations]
        return replace(plan, locations=counted_once(self.remover.found_locations(view.history, locations)))

    def before_claim(self, draft: Draft[_Chosen]) -> Answer[VacuumResult] | Draft[_Chosen]:
        """Let mirrors follow; what needs no claim is done without, and a dead vacuum's entry goes on."""
        view, plan = draft.basis
        plan = self.remover.kept_for_mirrors(plan)
        if not plan.locations and not plan.dead_writes:
            record_ended(self.opened.log, view.history, frozenset())
            return Answer(self._tidied(plan, view))
        deletes = draft.entry.deletes
        died = (entry for entry in interrupted(view.history) if set(deletes) <= set(entry.deletes))
        unfinished = next(died, None)  # it names all of the plan: no second one is needed
        return Draft(unfinished or draft.entry, (view, plan), is_claimed=unfinished is not None)

    def deadline(self, draft: Draft[_Chosen]) -> Deadline:
        return self.remover.deadline(None if draft.is_claimed else draft.entry)

    def carry_out(self, draft: Draft[_Chosen], deadline: Deadline) -> Answer[VacuumResult]:
        view, plan = draft.basis
        return Answer(self._tidied(self.remover.carry_out(view.history, draft.entry, plan, deadline), view))

    def _tidied(self, plan: VacuumResult, view: _Seen) -> VacuumResult:
        return self.remover.tidy_up(plan, view.history, view.oldest, self.ages)

    def _is_overtaken(self, look: Look) -> bool:
        """Return whether partitions are not where the log has put them, and somebody published since it was read."""
        if all(where is Placement.IN_PLACE for where in look.placements().values()):
            return False
        newest = look.history.newest
        return self.opened.log.lister.read(listed_after=newest, allow_lost=True).newest > newest

    def _trimmable(self, history: History, ages: Ages, oldest: OldEntries) -> tuple[int, ...]:
        """Return the entries to be trimmed; not the one that the next fold ends with."""
        return tuple(
            sorted(Trimming(history, oldest).versions(ages.history_seconds) - {self.opened.log.fold_version(history)})
        )


@dataclass
class _Erasure(Claimant[Look, bool, LogEntry]):
    """Names what may hold deleted rows: the next sweep deletes it."""

    remover: Remover
    erasure: Erasure
    choose: ChooseLocations
    ends_doubts: EndsDoubts

    def __post_init__(self) -> None:
        self.opened = self.remover.opened

    def read(self) -> Look:
        traces = look_for_traces(self.opened.store, self.opened.layout)
        history, partitions, _ = self.remover.look_around()
        return Look(traces, history, partitions)

    def waits(self, view: Look) -> bool:
        return self.ends_doubts(view.history)

    def look(self, view: Look) -> Draft[bool]:
        traces, history, partitions = view.traces, view.history, view.partitions
        free = self.remover.spare_others(self._erasable(history, partitions, traces))
        chosen, kept = self.choose(history, self.remover.found_locations(history, free.locations))
        kept = (*kept, *free.kept, *self._out_of_sight(history, partitions))
        keys = tuple(found.key for location in counted_once(chosen) for found in location.objects)
        entry = self.remover.entry(history, Operation.ERASE, self.remover.deletes(VacuumResult(locations=chosen)))
        if not chosen:
            entry = replace(entry, deletes=(DeletedLocation.kept_at(self.opened.layout.data(entry.write_id)),))
        described = msgspec.structs.replace(
            self.erasure, keys=keys, kept=(*self.erasure.kept, *((str(path.location), path.reason) for path in kept))
        )
        return Draft(replace(entry, erasure=described), bool(chosen))

    def carry_out(self, draft: Draft[bool], _: Deadline) -> Answer[LogEntry]:
        """Leave it in doubt on purpose, for a sweep; with nothing to delete it is done."""
        if not draft.basis:
            record_as_done(self.opened.log, draft.entry, draft.entry)
        return Answer(draft.entry)

    def _out_of_sight(
        self, history: History, partitions: Mapping[PartitionValues, Partition]
    ) -> Iterator[KeptLocation]:
        """Name the files that no reader sees, and that readers have not left by the log."""
        here = {values: partition.location for values, partition in partitions.items()}
        for values, placement in sorted(history.placements.of_all(here).items()):
            where = history.state.current_partitions[values].partition.new_location
            if placement is not Placement.IN_PLACE and where is not None:
                name = shown_name(self.opened.table, values)
                why = f"the log has rows of {name} there, and the metastore does not: they were not looked through"
                yield KeptLocation(Location.parse(where), why)

    def _erasable(
        self, history: History, partitions: Mapping[PartitionValues, Partition], traces: Traces
    ) -> DueLocations:
        """Return all that readers have left, but for where they may look, and for writes that are staged."""
        used = in_use(history, partitions.values(), self.remover.why_partial)
        reasons: dict[Place, str] = {}
        for left in history.state.left_locations.values():
            if is_used(used, left):
                reasons[left.location.place] = "readers may look there"
            elif self.opened.layout.write_id_of(left.location) in traces.staged_ids:
                reasons[left.location.place] = "the write is staged"
        return DueLocations(tuple(history.state.left_locations.values()), ()).with_kept(reasons)


_GivenUp = tuple[History, VacuumResult]


@dataclass
class _Discard(PreviewableClaimant[History, _GivenUp, VacuumResult]):
    """Gives one write up that was never published."""

    remover: Remover
    write_id: str
    base_version: int

    def __post_init__(self) -> None:
        self.opened = self.remover.opened

    def read(self) -> History:
        log = self.opened.log
        return log.read_history(log.lister.read(listed_after=max(0, self.base_version - 1)))

    def look(self, view: History) -> Draft[_GivenUp]:
        name, data = self.opened.table.name, self.opened.layout.data(self.write_id)
        if self.write_id in view.records.possibly_published_ids or self.remover.in_use_now(view).meets(data.place):
            raise ConflictError(
                f"write {self.write_id} of {name} was published, or is being published: it is not discarded, and"
                f" nothing was deleted. `table-writer history {name}` shows its version; a rollback takes it back.",
                table=str(name),
                write_id=self.write_id,
            )
        plan = self._plan(view, data)
        deletes = self.remover.deletes(plan) or (DeletedLocation.kept_at(data),)
        return Draft(self.remover.entry(view, Operation.DISCARD, deletes), (view, plan))

    def planned(self, draft: Draft[_GivenUp]) -> VacuumResult:
        return draft.basis[1]

    def deadline(self, draft: Draft[_GivenUp]) -> Deadline:
        return self.remover.deadline(draft.entry)

    def carry_out(self, draft: Draft[_GivenUp], deadline: Deadline) -> Answer[VacuumResult]:
        history, plan = draft.basis
        return Answer(self.remover.carry_out(history, draft.entry, plan, deadline))

    def _plan(self, history: History, data: Location) -> VacuumResult:
        """Return what goes with a write: all of it; nothing yet, if it had claimed an entry which was abandoned."""
        if self.write_id in history.claimed_ids:
            return VacuumResult(kept=(KeptLocation(data, "a version of the log had claimed it, and was given up"),))
        objects, uploads = tuple(self.opened.store.list(data.key)), tuple(self.opened.store.list_uploads(data.key))
        dead = DeadWrite(write_id=self.write_id, reason="discarded", objects=objects, uploads=uploads)
        return VacuumResult(dead_writes=(dead,))
