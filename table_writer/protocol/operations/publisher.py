"""The order of a publish: look at the log and the metastore, claim an entry, switch, record the outcome."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final, Protocol

from table_writer.errors import ConflictError
from table_writer.model.entry import LogEntry, ReplacedLocation
from table_writer.model.location import Location
from table_writer.model.table import PartitionsNow, PartitionValues, Table, locations
from table_writer.model.table_read import TableRead
from table_writer.model.write import WritePlan, WrittenFiles, every_partition, written_ids
from table_writer.protocol.log.deadline import Deadline
from table_writer.protocol.log.listing import Listing
from table_writer.protocol.log.records import LogEnd, SlotRecord
from table_writer.protocol.loop import AGAIN, Again, Answer, Claimant, Draft, Prepare, run
from table_writer.protocol.operations.append import CarriedFiles, CarryOver, CopyFiles, Missing, OwnFilesSeenError
from table_writer.protocol.operations.base import NEWEST, add_unseen, are_as_published, confirmed_partitions, has_grown
from table_writer.protocol.operations.correction import Correction
from table_writer.protocol.operations.entry import (
    ScheduledDeletions,
    entry_of,
    replaced_locations,
    with_figures,
    with_old_locations,
)
from table_writer.protocol.operations.in_place import InPlace
from table_writer.protocol.operations.reads import read_now, require_as_read, require_not_erased
from table_writer.protocol.operations.since_plan import SincePlan, refuse_published
from table_writer.protocol.operations.switch import ClaimedEntries
from table_writer.protocol.table.open_table import OpenTable

logger = logging.getLogger(__name__)
MOST_PAUSES: Final = 3  # pauses of the machine before a claim; a clock that leaps all the time says nothing
EMPTY_MARKER: Final = "_EMPTY"  # readers pass over names that start with _


class GaveWayError(Exception):
    """Others have changed all partitions of a compaction since it read them: nothing is left to publish."""


class Claims(Protocol):
    """The owner of a write's files while it is being published."""

    def __call__(self, entry: LogEntry) -> AbstractContextManager[Callable[[], None]]:
        """Enter around the sending of a claim: from then on the log owns the files that the entry names.

        The value is called when the claim was certainly lost.
        """

    def fresh_directory(self) -> Location:
        """Return a directory below ``data/`` that nobody has used before; discarded unless a claim names it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishResult:
    """A publish that took effect; of an append also what it brought along."""

    entry: LogEntry
    notes: tuple[str, ...]
    carried: Mapping[PartitionValues, CarriedFiles] = field(default_factory=dict)
    given_up: Collection[PartitionValues] = ()  # partitions of a compaction that others have changed since


@dataclass(frozen=True, slots=True)
class _Leaving:
    """What readers will leave, as the metastore and listings show it."""

    now: PartitionsNow
    to_grow: PartitionsNow  # those of them to whose location files are added: readers do not leave that
    replaced: ScheduledDeletions
    delete_after: datetime


@dataclass(frozen=True, slots=True)
class _ClaimBasis:
    """The metastore and the replaced files as they were just before the claim."""

    table: Table
    now: PartitionsNow
    entry: LogEntry
    notes: tuple[str, ...]

    def result(self, carry_over: CarryOver, notes: tuple[str, ...]) -> PublishResult:
        """Describe the publish that this look led to."""
        return PublishResult(
            entry=self.entry, notes=self.notes + notes, carried=carry_over.carried, given_up=carry_over.given_up
        )


class _Publish(Claimant[Listing, _ClaimBasis, PublishResult]):
    """Points partitions at staged files; over rounds it keeps its copies, and the claims that it may still give up."""

    def __init__(self, publisher: Publisher, staged: WrittenFiles, claiming: Claims, *, is_shared: bool) -> None:
        self.opened, self.plan, self.claiming, self.is_shared = publisher.opened, staged.plan, claiming, is_shared
        self._since, self._correction = SincePlan(self.opened, self.plan), Correction(self.opened)
        self._draft, store = entry_of(staged, self.opened), self.opened.store
        self._carry_over = CarryOver(store, publisher.copy_files, staged, claiming.fresh_directory, is_shared=is_shared)
        self._in_place = InPlace(
            store, staged, read_all=self.opened.metastore.get_all_partitions, copies=self._carry_over.copies
        )
        self._pauses_left = MOST_PAUSES
        self._listing: Listing | None = None
        self._records: Sequence[SlotRecord] = ()
        self._read_at = self._looked_at = self._clock()
        self._newest_key = (NEWEST, self.opened.layout.own.place)
        self._compared_at = -1  # the newest version when the metastore was found not to have been set back
        self._added: frozenset[PartitionValues] = frozenset()  # without rows, and not seen since

    def _clock(self) -> Deadline:
        return Deadline(self.opened.config.publish_timeout_seconds)

    def read(self) -> Listing:
        if self._listing is None:
            since = min({self.plan.base_version, *(version - 1 for version in self.plan.in_doubt)})
            self._listing = self.opened.log.lister.read(listed_after=since)
            require_not_erased(self.opened, self.plan)
        else:
            self._listing = self.opened.log.lister.read(listed_after=self._listing.listed_after)
        return self._listing

    def waits(self, view: Listing) -> bool:
        self._read_at, plan, since = self._clock(), self.plan, self._since
        self._records = records = since.records(view)
        if self.is_shared:
            refuse_published(plan, records)
        since.refuse_other_log(view)
        require_not_erased(self.opened, plan, records)
        waiting_for = since.first_in_doubt(self._carry_over.with_new_locations(self._draft), records)
        if waiting_for is not None:
            since.end_other(waiting_for, view)
        return waiting_for is not None

    def look(self, view: Listing) -> Draft[_ClaimBasis] | Prepare | Again:
        """Read the table and the partitions again: the only look that a claim is based on."""
        table = self._since.table()
        draft = self._since.with_emptied_partitions(_after(self._draft, view.end), table, view.newest)
        now = self.opened.metastore.get_partitions(table, _values(draft))
        if (first := self._comes_first(draft, table, now, view)) is not None:
            return first
        leaving = self._leaving(draft, table, now, view)
        if isinstance(leaving, Prepare):
            return leaving
        if not self.plan.mode.facts.keeps_rows:  # an append builds on whatever is there
            require_as_read(self.opened, self.plan, leaving.now, _values(draft))
        basis = self._claim_basis(draft, table, leaving)
        self._looked_at = self._clock()
        self._since.first_in_doubt(basis.entry, self._records)  # a vacuum may delete where files are added
        return Draft(basis.entry, basis)

    def _comes_first(
        self, draft: LogEntry, table: Table, now: PartitionsNow, listing: Listing
    ) -> Prepare | Again | None:
        """Return what must be done before this look counts, ``AGAIN`` if the log has grown; ``None``: nothing.

        Refuses a metastore that was set back. A write that builds on no rows would hide that from the next one that
        does: what it publishes is the newest. It asks nothing while calls may have come late, which it does not
        correct, nor where this process has just seen the metastore do what the newest version says.
        """
        opened, values, builds_on_rows = self.opened, _values(draft), self.plan.builds_on_rows
        self._added -= now.keys()  # one that is seen has to be proven anew once it is gone
        emptied = (partition.values for partition in draft.partitions if partition.new_location is None)
        if not_shown := [key for key in emptied if key not in now and key not in self._added]:
            return Prepare(partial(self._add_unseen, table, not_shown))
        if has_grown(opened, table, now, listing.end, compares=builds_on_rows):
            return AGAIN
        if builds_on_rows:
            if (late := self._correction.needed(table, values, now, listing)) is not None:
                return late
        elif listing.unverified or opened.memory.get(self._newest_key) == listing.newest:
            return None
        if self._compared_at != listing.newest and not are_as_published(opened, table, values, now, listing):
            return AGAIN
        self._compared_at = listing.newest
        return None

    def _add_unseen(self, table: Table, values: Sequence[PartitionValues]) -> None:
        add_unseen(self.opened, table, values)
        self._added |= frozenset(values)

    def _leaving(self, draft: LogEntry, table: Table, now: PartitionsNow, listing: Listing) -> _Leaving | Prepare:
        """Find out what readers will leave, and copy before what an append brings along."""
        opened, plan, layout = self.opened, self.plan, self.plan.layout
        while True:
            now = confirmed_partitions(opened, table, now, listing.newest) if plan.builds_on_rows else now
            self._since.refuse_existing(now)
            self._since.refuse_other_names(draft, now)
            delete_after = datetime.now(UTC) + opened.retention
            to_grow = self._in_place.partitions_to_grow(table, now)
            leaving = {values: partition for values, partition in now.items() if values not in to_grow}
            old_locations, partitioned = list(locations(leaving).values()), bool(plan.table.partition_columns)
            replaced = replaced_locations(opened.store, layout, old_locations, delete_after, partitioned=partitioned)
            carried = leaving if plan.mode.facts.keeps_rows else {}
            moving = (partition for partition in draft.partitions if partition.values not in to_grow)
            targets = {partition.values: str(partition.new_location) for partition in moving}
            if missing := self._carry_over.to_bring(carried, targets):
                return Prepare(partial(self._bring, missing, listing))
            found = _Leaving(now, to_grow, replaced, delete_after)
            if not carried and not any(location.objects for location in replaced.locations):
                return found
            before, now = now, opened.metastore.get_partitions(table, _values(draft))
            if locations(before) == locations(now):  # listing takes time, in which another tool may move a partition
                return replace(found, now=now)

    def _bring(self, missing: Missing, listing: Listing) -> None:
        """Copy what an append brings along, unless others have just published it."""
        try:
            self._carry_over.bring(missing)
        except OwnFilesSeenError:
            if self.opened.log.lister.read(listed_after=listing.listed_after).newest == listing.newest:
                raise

    def _claim_basis(self, draft: LogEntry, table: Table, leaving: _Leaving) -> _ClaimBasis:
        """Return the entry to be claimed, with what it is based on."""
        carry_over, in_place, now, to_grow = self._carry_over, self._in_place, leaving.now, leaving.to_grow
        entry_partitions = in_place.with_added_files(carry_over.with_new_locations(draft, to_grow), to_grow).partitions
        if not entry_partitions and carry_over.given_up:
            raise GaveWayError
        are_told = any(partition.figures for partition in entry_partitions)
        carried_files = with_figures(self.opened.log, carry_over.carried, now) if are_told else carry_over.carried
        partitions = tuple(with_old_locations(partition, now, carried_files) for partition in entry_partitions)
        kept_places = {Location.parse(now[key].location).place for key in carry_over.given_up if key in now}
        replaced, delete_after = leaving.replaced, leaving.delete_after
        scheduled = (old for old in replaced.locations if Location.parse(old.location).place not in kept_places)
        unseen = (*carry_over.unseen_directories, *in_place.sources(partitions))
        overtaken = (ReplacedLocation(location=str(location), delete_after=delete_after) for location in unseen)
        entry = replace(draft, created_at=datetime.now(UTC), partitions=partitions, replaced=(*scheduled, *overtaken))
        return _ClaimBasis(table, now, entry, (*replaced.notes, *self._hidden_note(table)))

    def _hidden_note(self, table: Table) -> tuple[str, ...]:
        """Say that what a catalog hides from a role, and the log does not know, is not replaced."""
        is_asked = self.plan.scope is every_partition and not self.opened.metastore.switches_at_once(table)
        partial = self.opened.why_partial() if is_asked else ""
        note = f"partitions of other tools that are not shown to this role keep their rows: {partial}"
        return (note,) if partial else ()

    def before_claim(self, draft: Draft[_ClaimBasis]) -> Draft[_ClaimBasis]:
        """Put a marker where an unpartitioned table is without rows: Spark fails on a directory that does not exist."""
        if any(partition.values == () and not partition.files for partition in draft.entry.partitions):
            self.opened.store.put(f"{self.plan.data_location.key}{EMPTY_MARKER}", b"")
        return draft

    def owning(self, draft: Draft[_ClaimBasis]) -> AbstractContextManager[Callable[[], object]]:
        return self.claiming(draft.entry)

    def carry_out(self, draft: Draft[_ClaimBasis], deadline: Deadline) -> Answer[PublishResult] | Again:
        entry, look, opened, listing = draft.entry, draft.basis, self.opened, self._listing
        was_paused = self._read_at.has_leapt() or self._looked_at.is_over()
        if self._pauses_left and was_paused and self._gives_up(entry):
            self._pauses_left -= 1
            logger.warning("write_id=%s was paused before its claim: looking again", self.plan.write_id)
            return AGAIN
        notes = ClaimedEntries(opened).carry_out(look.table, entry, look.now, deadline, self._in_place.files)
        opened.memory[self._newest_key] = entry.version  # where it is the newest, nobody has set anything back
        if not notes and listing is not None:
            log = replace(listing, newest=entry.version, listed_after=self.plan.checkpoint)
            opened.log.lister.save_checkpoint(log)
        return Answer(look.result(self._carry_over, notes))

    def _gives_up(self, entry: LogEntry) -> bool:
        """Give a claim up that was made long after its look; not if others have ended it meanwhile."""
        if self.opened.log.slots.outcome(entry.version) is not None:
            return False
        why = f"its process was paused between its look at {entry.table} and its claim"
        ClaimedEntries(self.opened).abandon(entry, ConflictError(why, **entry.named))
        return True


class Publisher:
    """Publishes staged files of one table; ``copy_files`` copies those that an append brings along."""

    def __init__(self, opened: OpenTable, copy_files: CopyFiles) -> None:
        self.opened = opened
        self.copy_files = copy_files

    def publish(self, staged: WrittenFiles, claiming: Claims, *, is_shared: bool = False) -> PublishResult:
        """Make readers see the staged files: all partitions at once, or none.

        ``claiming`` is entered around the sending of a claim. ``is_shared``: other processes may publish the write too.

        Nothing changed after a ``ConflictError`` (a partition was published, or moved, by somebody else since the
        plan), a ``PartitionExistsError`` (the mode adds partitions, and one exists), a ``RepeatedError`` (the
        idempotency key was published meanwhile, or this staged write by another process) and a ``MetastoreError`` (the
        metastore refused). But a ``ConflictError`` may say that the write is on record as abandoned: then its call came
        late, and whoever looks next undoes it. ``PartlyPublishedError``: some partitions were another tool's.
        ``OutcomeUnknownError``: the switch may or may not have taken effect; nothing is deleted.
        """
        return run(_Publish(self, self._with_unseen(staged), claiming, is_shared=is_shared))

    def require_unpublished(self, plan: WritePlan) -> None:
        """Raise ``RepeatedError`` if another process has published a staged write; first resolve one in doubt.

        Raises ``OutcomeUnknownError`` if it could not be resolved.
        """
        since = SincePlan(self.opened, plan)
        while True:
            listing = self.opened.log.lister.read(listed_after=plan.base_version)
            records = since.records(listing)
            refuse_published(plan, records)
            in_doubt = (record.entry for record in records if record.outcome is None)
            own = (entry for entry in in_doubt if entry.meaning.changes_partitions)
            doubtful = [entry.version for entry in own if plan.write_id in written_ids(plan.layout, entry)]
            if not doubtful:
                return
            since.end_other(doubtful[0], listing)

    def examine(self, staged: WrittenFiles) -> None:
        """Raise what :meth:`publish` would raise for what others have done since the plan; change nothing.

        Entries in doubt are passed over: a publish would wait for them.
        """
        listing = self.opened.log.lister.read(listed_after=0)
        staged = self._with_unseen(staged)
        plan, draft, since = staged.plan, entry_of(staged, self.opened), SincePlan(self.opened, staged.plan)
        records = since.records(listing)
        refuse_published(plan, records)
        since.refuse_other_log(listing)
        since.first_in_doubt(draft, records)
        table = since.table()
        now = self.opened.metastore.get_partitions(table, sorted(draft.partition_values))
        has_grown(self.opened, table, now, listing.end, compares=plan.builds_on_rows)
        since.refuse_existing(now)
        since.refuse_other_names(draft, now)
        if plan.reads:
            draft = since.with_emptied_partitions(draft, table, listing.newest)
            now = self.opened.metastore.get_partitions(table, sorted(draft.partition_values))
        require_as_read(self.opened, plan, now, draft.partition_values)

    def as_read(self, staged: WrittenFiles) -> tuple[TableRead, ...]:
        """Return what readers see of the partitions of a write that is to be staged, if its rows depend on that.

        Whoever publishes compares it with what they see then. Raises ``ConflictError`` if the rows were computed from
        something else.
        """
        plan, since = staged.plan, SincePlan(self.opened, staged.plan)
        require_not_erased(self.opened, plan)
        if not plan.reads or plan.mode.facts.keeps_rows:
            return ()
        table = since.table()
        draft = since.with_emptied_partitions(entry_of(staged, self.opened), table, 0)
        now = self.opened.metastore.get_partitions(table, _values(draft))
        seen = read_now(self.opened, now)  # before it is compared: what comes in between differs from one of both
        require_as_read(self.opened, plan, now, _values(draft))
        return (seen,)

    def _with_unseen(self, staged: WrittenFiles) -> WrittenFiles:
        """Return the files with a plan that names what had not ended when the version of its rows was claimed."""
        plan = staged.plan
        unseen = self.opened.log.unseen_at(plan.based_on)
        return staged.with_plan(in_doubt=plan.in_doubt | unseen) if unseen else staged


def _values(draft: LogEntry) -> list[PartitionValues]:
    return [partition.values for partition in draft.partitions]


def _after(draft: LogEntry, end: LogEnd) -> LogEntry:
    """Return the draft as the next entry of a log; what has not ended by now may be published after it."""
    return replace(draft, version=end.newest + 1, in_doubt=end.in_doubt)
