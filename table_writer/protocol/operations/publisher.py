"""The order of a publish: look at the log and the metastore, claim an entry, switch, record the outcome."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final, Protocol

from table_writer.errors import (
    ConflictError,
    MetastoreError,
    OutcomeUnknownError,
    PartitionExistsError,
    TableWriterError,
    counted,
    few,
)
from table_writer.metastore.protocol import require_named
from table_writer.model.entry import EntryPartition, Key, LogEntry, Outcome, ReplacedLocation
from table_writer.model.location import Location
from table_writer.model.table import PartitionsNow, PartitionValues, Table, locations, shown_name
from table_writer.model.table_kind import refuse_others
from table_writer.model.table_read import TableRead
from table_writer.model.write import WritePlan, WrittenFiles, every_partition, no_partition, written_ids
from table_writer.protocol.log.deadline import Deadline
from table_writer.protocol.log.listing import Listing
from table_writer.protocol.log.owner import precedes
from table_writer.protocol.log.records import LogEnd, SlotRecord
from table_writer.protocol.log.rules import QUERY_TAG, Standing, published_with_key, require_same_query, standing
from table_writer.protocol.loop import AGAIN, Again, Answer, Claimant, Draft, Prepare, outcome_unknown, run
from table_writer.protocol.operations.append import CarriedFiles, CarryOver, CopyFiles, Missing, OwnFilesSeenError
from table_writer.protocol.operations.base import (
    NEWEST,
    add_unseen,
    are_as_published,
    confirmed_partitions,
    has_grown,
    unlisted_partitions,
)
from table_writer.protocol.operations.correction import Correction
from table_writer.protocol.operations.entry import (
    entry_of,
    replaced_locations,
    there_under_other_names,
    with_figures,
    with_old_locations,
)
from table_writer.protocol.operations.in_place import InPlace
from table_writer.protocol.operations.reads import read_now, require_as_read, require_not_erased
from table_writer.protocol.operations.recovery import Recovery
from table_writer.protocol.operations.switch import ClaimedEntries
from table_writer.protocol.table.open_table import OpenTable, repetition_error
from table_writer.storage.table_files import existing_values

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
        self._publisher, self._pauses_left = publisher, MOST_PAUSES
        self._draft, store = entry_of(staged, self.opened), self.opened.store
        self._carry_over = CarryOver(store, publisher.copy_files, staged, claiming.fresh_directory, is_shared=is_shared)
        self._in_place = InPlace(
            store, staged, read_all=self.opened.metastore.get_all_partitions, copies=self._carry_over.copies
        )
        self._listing: Listing | None = None
        self._records: Sequence[SlotRecord] = ()
        self._read_at = self._looked_at = self._clock()

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
        self._read_at, plan, publisher = self._clock(), self.plan, self._publisher
        self._records = records = publisher.unseen_records(plan, view)
        if self.is_shared:
            _refuse_published(plan, records)
        publisher.refuse_other_log(plan, view)
        require_not_erased(self.opened, plan, records)
        waiting_for = publisher.first_in_doubt(self._carry_over.with_new_locations(self._draft), records, plan)
        if waiting_for is not None:
            publisher.resolve_other(waiting_for, plan, view)
        return waiting_for is not None

    def look(self, view: Listing) -> Draft[_ClaimBasis] | Prepare | Again:
        found = self._publisher.look(_after(self._draft, view.end), self._carry_over, self._in_place, view)
        if not isinstance(found, _ClaimBasis):
            return found
        self._looked_at = self._clock()
        # a vacuum may delete where files are added
        self._publisher.first_in_doubt(found.entry, self._records, self.plan)
        return Draft(found.entry, found)

    def before_claim(self, draft: Draft[_ClaimBasis]) -> Draft[_ClaimBasis]:
        self._publisher.make_directory(self.plan, draft.entry)
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
        self._publisher.note_newest(entry)
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
        self._recovery = Recovery(opened)
        self._correction = Correction(opened, self._recovery)
        self._newest_key = (NEWEST, opened.layout.own.place)
        self._compared_at = -1  # the newest version when the metastore was found not to have been set back

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

    def note_newest(self, entry: LogEntry) -> None:
        """Remember which version this process has published: where it is the newest, nobody has set anything back."""
        self.opened.memory[self._newest_key] = entry.version

    def require_unpublished(self, plan: WritePlan) -> None:
        """Raise ``RepeatedError`` if another process has published a staged write; first resolve one in doubt.

        Raises ``OutcomeUnknownError`` if it could not be resolved.
        """
        while True:
            listing = self.opened.log.lister.read(listed_after=plan.base_version)
            records = self.unseen_records(plan, listing)
            _refuse_published(plan, records)
            in_doubt = (record.entry for record in records if record.outcome is None)
            own = (entry for entry in in_doubt if entry.meaning.changes_partitions)
            doubtful = [entry.version for entry in own if plan.write_id in written_ids(plan.layout, entry)]
            if not doubtful:
                return
            self.resolve_other(doubtful[0], plan, listing)

    def examine(self, staged: WrittenFiles) -> None:
        """Raise what :meth:`publish` would raise for what others have done since the plan; change nothing.

        Entries in doubt are passed over: a publish would wait for them.
        """
        listing = self.opened.log.lister.read(listed_after=0)
        staged = self._with_unseen(staged)
        records = self.unseen_records(staged.plan, listing)
        _refuse_published(staged.plan, records)
        self.refuse_other_log(staged.plan, listing)
        draft = entry_of(staged, self.opened)
        self.first_in_doubt(draft, records, staged.plan)
        table = self._table(staged.plan)
        now = self.opened.metastore.get_partitions(table, sorted(draft.partition_values))
        has_grown(self.opened, table, now, listing.end, compares=staged.plan.builds_on_rows)
        self._refuse_existing(staged.plan, now)
        self._refuse_other_names(staged.plan, draft, now)
        if staged.plan.reads:
            draft = self._with_emptied_partitions(staged.plan, draft, table, listing.newest)
            now = self.opened.metastore.get_partitions(table, sorted(draft.partition_values))
        require_as_read(self.opened, staged.plan, now, draft.partition_values)

    def as_read(self, staged: WrittenFiles) -> tuple[TableRead, ...]:
        """Return what readers see of the partitions of a write that is to be staged, if its rows depend on that.

        Whoever publishes compares it with what they see then. Raises ``ConflictError`` if the rows were computed from
        something else.
        """
        plan = staged.plan
        require_not_erased(self.opened, plan)
        if not plan.reads or plan.mode.facts.keeps_rows:
            return ()
        table = self._table(plan)
        draft = self._with_emptied_partitions(plan, entry_of(staged, self.opened), table, 0)
        values = [partition.values for partition in draft.partitions]
        now = self.opened.metastore.get_partitions(table, values)
        seen = read_now(self.opened, now)  # before it is compared: what comes in between differs from one of both
        require_as_read(self.opened, plan, now, values)
        return (seen,)

    def resolve_other(self, version: int, plan: WritePlan, listing: Listing) -> None:
        """Wait for another entry, or end it; a failure says what that means for the write."""
        entry = self.opened.log.slots.read(version).entry
        try:
            self._recovery.resolve(version, self._table(plan), end=listing.end)
        except TableWriterError as error:
            if plan.write_id in written_ids(plan.layout, entry):  # by another process: it may yet be seen
                raise outcome_unknown(entry, error) from error
            if not isinstance(error, OutcomeUnknownError):
                raise
            raise MetastoreError(
                f"version {version} of {plan.table.name}, left in doubt by another write of the same partitions, could"
                f" not be resolved: {error.message} Nothing of write {plan.write_id} was published.",
                **plan.named,
            ) from error

    def look(
        self, draft: LogEntry, carry_over: CarryOver, in_place: InPlace, listing: Listing
    ) -> _ClaimBasis | Prepare | Again:
        """Read the table and the partitions again: the only look that a claim is based on.

        Again, if a late call was corrected: the log may have grown.
        """
        plan = carry_over.plan
        table = self._table(plan)
        draft = self._with_emptied_partitions(plan, draft, table, listing.newest)
        values = [partition.values for partition in draft.partitions]
        now = self.opened.metastore.get_partitions(table, values)
        emptied = (partition.values for partition in draft.partitions if partition.new_location is None)
        if not_shown := [key for key in emptied if key not in now]:
            add_unseen(self.opened, table, not_shown)
            now = self.opened.metastore.get_partitions(table, values)
        is_longer = has_grown(self.opened, table, now, listing.end, compares=plan.builds_on_rows)
        if is_longer or self._is_outdated(plan, table, now, listing, values):
            return AGAIN
        while True:
            now = confirmed_partitions(self.opened, table, now, listing.newest) if plan.builds_on_rows else now
            self._refuse_existing(plan, now)
            self._refuse_other_names(plan, draft, now)
            delete_after = datetime.now(UTC) + self.opened.retention
            to_grow = in_place.partitions_to_grow(table, now)
            leaving = {values: partition for values, partition in now.items() if values not in to_grow}
            old_locations, partitioned = list(locations(leaving).values()), bool(plan.table.partition_columns)
            store, layout = self.opened.store, plan.layout
            replaced = replaced_locations(store, layout, old_locations, delete_after, partitioned=partitioned)
            carried = leaving if plan.mode.facts.keeps_rows else {}
            moving = (partition for partition in draft.partitions if partition.values not in to_grow)
            targets = {partition.values: str(partition.new_location) for partition in moving}
            if missing := carry_over.to_bring(carried, targets):
                return Prepare(partial(self._bring, carry_over, missing, listing))
            if not carried and not any(location.objects for location in replaced.locations):
                break
            before, now = now, self.opened.metastore.get_partitions(table, values)
            if locations(before) == locations(now):  # listing takes time, in which another tool may move a partition
                break
        if not plan.mode.facts.keeps_rows:  # an append builds on whatever is there
            require_as_read(self.opened, plan, now, values)
        entry_partitions = in_place.with_added_files(carry_over.with_new_locations(draft, to_grow), to_grow).partitions
        if not entry_partitions and carry_over.given_up:
            raise GaveWayError
        are_told = any(partition.figures for partition in entry_partitions)
        carried_files = with_figures(self.opened.log, carry_over.carried, now) if are_told else carry_over.carried
        partitions = tuple(with_old_locations(partition, now, carried_files) for partition in entry_partitions)
        kept_places = {Location.parse(now[key].location).place for key in carry_over.given_up if key in now}
        scheduled = (old for old in replaced.locations if Location.parse(old.location).place not in kept_places)
        unseen = (*carry_over.unseen_directories, *in_place.sources(partitions))
        overtaken = (ReplacedLocation(location=str(location), delete_after=delete_after) for location in unseen)
        entry = replace(draft, created_at=datetime.now(UTC), partitions=partitions, replaced=(*scheduled, *overtaken))
        return _ClaimBasis(table, now, entry, (*replaced.notes, *self._hidden_note(plan, table)))

    def _is_outdated(
        self, plan: WritePlan, table: Table, now: PartitionsNow, listing: Listing, values: Sequence[PartitionValues]
    ) -> bool:
        """Return whether a write has to look again; refuses a metastore that was set back.

        A write that builds on no rows would hide that from the next one that does: what it publishes is the newest. It
        asks nothing while calls may have come late, which it does not correct, nor where this process has just seen the
        metastore do what the newest version says.
        """
        if plan.builds_on_rows:
            if self._correction.correct(table, values, now, listing):
                return True
        elif listing.unverified or self.opened.memory.get(self._newest_key) == listing.newest:
            return False
        if self._compared_at != listing.newest and not are_as_published(self.opened, table, values, now, listing):
            return True
        self._compared_at = listing.newest
        return False

    def _bring(self, carry_over: CarryOver, missing: Missing, listing: Listing) -> None:
        """Copy what an append brings along, unless others have just published it."""
        try:
            carry_over.bring(missing)
        except OwnFilesSeenError:
            if self.opened.log.lister.read(listed_after=listing.listed_after).newest == listing.newest:
                raise

    def _hidden_note(self, plan: WritePlan, table: Table) -> tuple[str, ...]:
        """Say that what a catalog hides from a role, and the log does not know, is not replaced."""
        is_asked = plan.scope is every_partition and not self.opened.metastore.switches_at_once(table)
        partial = self.opened.why_partial() if is_asked else ""
        note = f"partitions of other tools that are not shown to this role keep their rows: {partial}"
        return (note,) if partial else ()

    def _with_emptied_partitions(self, plan: WritePlan, draft: LogEntry, table: Table, newest: int) -> LogEntry:
        """Add the partitions that the write replaces with nothing: they are dropped.

        An unpartitioned table cannot be dropped. It gets a directory without rows.
        """
        if plan.scope is no_partition:
            return draft
        nowhere = None if table.partition_columns else str(plan.data_location)
        names = self.opened.metastore.get_partition_names(table.name) if table.partition_columns else [()]
        left_out = unlisted_partitions(self.opened, newest, names) if table.partition_columns else ()
        emptied = plan.scope([*names, *left_out]) - draft.partition_values
        gone = tuple(EntryPartition.without_rows(values, nowhere) for values in sorted(emptied))
        return replace(draft, partitions=(*draft.partitions, *gone))

    def make_directory(self, plan: WritePlan, entry: LogEntry) -> None:
        """Put a marker where an unpartitioned table is without rows: Spark fails on a directory that does not exist."""
        if any(partition.values == () and not partition.files for partition in entry.partitions):
            self.opened.store.put(f"{plan.data_location.key}{EMPTY_MARKER}", b"")

    def _refuse_existing(self, plan: WritePlan, now: PartitionsNow) -> None:
        if not plan.mode.facts.only_creates:
            return
        existing = existing_values(self.opened.store, plan.layout, now)
        if existing:
            raise PartitionExistsError(
                f"write {plan.write_id} would create what is there already, {counted(len(existing), 'partition')} of"
                f" {plan.table.name}: {_few_names(plan.table, existing)}. Nothing was published. Use append or"
                " overwrite_partitions for them.",
                **plan.named,
            )

    def _refuse_other_names(self, plan: WritePlan, draft: LogEntry, now: PartitionsNow) -> None:
        added = [
            partition.values for partition in draft.partitions if partition.new_location and partition.values not in now
        ]
        others = there_under_other_names(self.opened.metastore, plan.table, added, plan.spellings.time_zone)
        if others:
            values = min(others)
            raise ConflictError(
                f"another tool has added {shown_name(plan.table, values)} of {plan.table.name} in its own way since"
                f" write {plan.write_id} was planned: {others[values]}. Nothing was published. Run it again.",
                **plan.named,
            )

    def _table(self, plan: WritePlan) -> Table:
        table = self.opened.metastore.get_table(plan.table.name)
        if table is not None:
            require_named(plan.table.name, table, self.opened.metastore.uri)
        if table is None or table.created_at_seconds != plan.table.created_at_seconds:
            what = "dropped while it was being written"
        elif _description(table) != _description(plan.table):
            what = "altered (location, columns or format) while it was being written, or staged"
        else:
            refuse_others(table)
            return table
        raise ConflictError(f"{plan.table.name} was {what}; nothing was published. Run it again.", **plan.named)

    def unseen_records(self, plan: WritePlan, listing: Listing) -> Sequence[SlotRecord]:
        """Read every entry that this write did not see ended, as far as the log still has it."""
        unseen: set[int] = {*range(plan.base_version + 1, listing.newest + 1), *plan.in_doubt, *listing.in_doubt}
        return self.opened.log.read_history(replace(listing, versions=listing.versions & unseen)).records

    def _with_unseen(self, staged: WrittenFiles) -> WrittenFiles:
        """Return the files with a plan that names what had not ended when the version of its rows was claimed."""
        plan = staged.plan
        unseen = self.opened.log.unseen_at(plan.based_on)
        return staged.with_plan(in_doubt=plan.in_doubt | unseen) if unseen else staged

    def first_in_doubt(self, draft: LogEntry, records: Sequence[SlotRecord], plan: WritePlan) -> int | None:
        """Compare with every entry this write did not see ended; returns the oldest that must be resolved first."""
        published = self._repetition(records, draft.key)
        if published is not None:
            if draft.stream:
                query_ids = [draft.tags[QUERY_TAG]] if QUERY_TAG in draft.tags else ()
                require_same_query(published.entry, draft.key, query_ids)
            raise repetition_error(published, plan.table)
        plan.concerns(frozenset().union(*(record.entry.partition_values for record in records)))  # asked once for all
        appends, layout = plan.mode.facts.keeps_rows and plan.based_on is None, plan.layout
        for record in records:
            verdict = standing(record, draft, plan.in_doubt, scope=plan.concerns, appends=appends, layout=layout)
            if verdict is Standing.IN_DOUBT:
                return record.entry.version
            if verdict is Standing.CONFLICT:
                raise self._conflict(record.entry, draft, plan)
            if verdict is Standing.DELETED:
                raise _given_up_error(record.entry, draft, plan)
        return None

    def _repetition(self, records: Sequence[SlotRecord], key: Key) -> SlotRecord | None:
        """Return the write that has published the key; a rollback since the plan may have brought it back."""
        if not key:
            return None
        rolled_back = any(
            record.entry.rollback_to is not None and record.outcome is Outcome.PUBLISHED for record in records
        )
        return self.opened.log.find_key(key) if rolled_back else published_with_key(records, key)

    def _conflict(self, entry: LogEntry, draft: LogEntry, plan: WritePlan) -> ConflictError:
        planned = f"this write was planned at version {draft.base_version}"
        behind = planned if plan.based_on is None else f"version {plan.based_on}, on which its rows are based"
        again = "run it again if its rows should win"
        if plan.based_on is not None:
            again = "read() the table again, and write what you make of its rows, based on version_of() them"
        both = (entry.partition_values & draft.partition_values) | plan.concerns(entry.partition_values)
        return ConflictError(
            f"write {entry.write_id} (version {entry.version}, {entry.writer.get('user', '?')}@"
            f"{entry.writer.get('host', '?')}) has published {counted(len(both), 'partition')} of {draft.table} that"
            f" write {draft.write_id} wants to publish, after {behind}:"
            f" {_few_names(plan.table, both)}."
            f" The other write stays, this one changed nothing; {again}.",
            **draft.named,
        )

    def refuse_other_log(self, plan: WritePlan, listing: Listing) -> None:
        """Refuse a plan whose base version says nothing of the log that is there now."""
        name, needed = plan.table.name, {*range(plan.base_version + 1, listing.newest + 1), *plan.in_doubt}
        is_succeeded = any(precedes(plan.log_id, log_id) for log_id in listing.ids)
        if is_succeeded or listing.newest < plan.base_version or (plan.log_id and plan.log_id not in listing.ids):
            since = f"since write {plan.write_id} was planned"
            why = f"the log of {name} was begun again, or adopted without another one, {since}"
        elif not listing.versions.issuperset(needed):
            when = "at which it was planned" if plan.based_on is None else "on which its rows are based"
            why = (
                f"the log of {name} was trimmed, or lost entries, past version {plan.base_version} of write"
                f" {plan.write_id}, {when}"
            )
        else:
            return
        again = "Run it again" if plan.based_on is None else "Read the table again, and run it on those rows"
        raise ConflictError(
            f"{why}; what happened since cannot be told. This call published nothing. {again}; if it was staged, look"
            " first whether another process has published it.",
            **plan.named,
        )


def _after(draft: LogEntry, end: LogEnd) -> LogEntry:
    """Return the draft as the next entry of a log; what has not ended by now may be published after it."""
    return replace(draft, version=end.newest + 1, in_doubt=end.in_doubt)


def _description(table: Table) -> tuple[object, ...]:
    """Return what decides whether files that were written for a table can be read through it."""
    columns = (table.columns_by, table.columns, table.partition_columns)
    return (table.root, *columns, table.input_format, table.serde)


def _given_up_error(vacuum: LogEntry, draft: LogEntry, plan: WritePlan) -> ConflictError:
    if not any(Location.parse(deletion.location).contains(plan.data_location) for deletion in vacuum.deletes):
        return ConflictError(
            f"write {draft.write_id} of {draft.table} would add files to a location that version {vacuum.version} of"
            " the log deletes: another tool has pointed readers there. Nothing was published. Run `table-writer doctor"
            f" {draft.table}`, or replace the partitions with {plan.table.overwrite_call}.",
            **draft.named,
        )
    return ConflictError(
        f"write {draft.write_id} of {draft.table} {vacuum.meaning.gave_up}: version {vacuum.version} of the log deletes"
        " its files. Nothing was published. Run it again.",
        **draft.named,
    )


def _refuse_published(plan: WritePlan, records: Iterable[SlotRecord]) -> None:
    """Raise what a repetition raises if a record shows that the staged write was published, perhaps by a recovery."""
    for record in records:
        if record.outcome is Outcome.PUBLISHED and plan.write_id in written_ids(plan.layout, record.entry):
            raise repetition_error(record, plan.table)


def _few_names(table: Table, values: Collection[PartitionValues]) -> str:
    return few((shown_name(table, key) for key in sorted(values)), most=3)
