"""Finish an entry whose writer is gone: claim a recover entry over the same partitions, then apply it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType

from table_writer.errors import ConflictError, MetastoreError, StorageError
from table_writer.events.event import TableEvent
from table_writer.events.listeners import note_resolution
from table_writer.model.entry import NO_KEY, EntryPartition, LogEntry, Outcome
from table_writer.model.location import Location, same_place
from table_writer.model.meaning import Operation
from table_writer.model.partition_facts import PartitionFacts
from table_writer.model.table import PartitionsNow, PartitionValues, Table, locations, name_in
from table_writer.model.write import TableLayout, new_write_id
from table_writer.protocol.log import rules
from table_writer.protocol.log.changes import change_of
from table_writer.protocol.log.deadline import Deadline
from table_writer.protocol.log.history import History
from table_writer.protocol.log.records import UNRECORDED, LogEnd, SlotRecord
from table_writer.protocol.log.rules import Effect, PartitionState
from table_writer.protocol.log.slots import StoredOutcome
from table_writer.protocol.loop import Answer, Claimant, Draft, attempt, outcome_unknown
from table_writer.protocol.operations.base import prove_dropped, require_superseded
from table_writer.protocol.operations.entry import there_under_other_names
from table_writer.protocol.operations.evidence import Evidence, LostTest, never
from table_writer.protocol.operations.in_place import copied_partitions, half_added_error, whole_partitions
from table_writer.protocol.operations.success import mark_partitions
from table_writer.protocol.operations.switch import ClaimedEntries, states
from table_writer.protocol.table.open_table import OpenTable

logger = logging.getLogger(__name__)
FIRST_WAIT_SECONDS = 0.05
LONGEST_WAIT_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RecoveredEntry:
    """An entry that was in doubt, and how it has ended."""

    version: int
    outcome: Outcome
    partitions: tuple[PartitionValues, ...] = ()  # those that this recovery has switched
    superseded: Mapping[PartitionValues, str | None] = field(default_factory=dict)
    """Left alone, with where another tool had moved them meanwhile."""
    moved: Mapping[PartitionValues, str | None] = field(default_factory=dict)
    """Switched, with where another tool has moved them since."""


@dataclass
class _Repeat(Claimant[None, None, RecoveredEntry | None]):
    """Claims a recover entry once: whoever wants it reads the log anew if somebody else was faster."""

    recovery: Recovery
    record: SlotRecord
    entry: LogEntry
    table: Table
    lost_heir: str
    is_correction: bool

    def __post_init__(self) -> None:
        self.opened = self.recovery.opened

    def read(self) -> None:
        """What it repeats was read by whoever has found that it must be."""

    def look(self, _: None) -> Draft[None]:
        return Draft(self.entry, None)

    def before_claim(self, draft: Draft[None]) -> Draft[None]:
        self.opened.log.marks.remember_recovery(draft.entry.version)
        return draft

    def carry_out(self, draft: Draft[None], deadline: Deadline) -> Answer[RecoveredEntry | None]:
        """Do it again; ``None`` if it came too late for the last word."""
        recovery, original, claimed = self.recovery, self.record.entry, draft.entry
        if not self.is_correction and not recovery.has_last_word(original, claimed, self.lost_heir):
            return Answer(None)
        ended = None if self.is_correction else recovery.outcome_of_origin(original)
        if ended is not None:
            return Answer(recovery.end_as(ended, original, claimed, self.table))
        return Answer(recovery.do_again(self, claimed, deadline))


class Recovery:
    """Resolves entries in doubt: finds out how they ended, or carries them out."""

    def __init__(self, opened: OpenTable, is_lost: LostTest = never) -> None:
        self.opened = opened
        self._log = opened.log
        self._metastore = opened.metastore
        self._layout = opened.layout
        self._claimed = ClaimedEntries(opened)
        self._evidence = Evidence(opened, is_lost)

    def resolve(self, version: int, table: Table, *, end: LogEnd) -> RecoveredEntry | None:
        """Confirm an entry that has taken effect; else wait until it has ended, or recover it once its claim is over.

        Returns when something changed, ``None`` where others ended it or were first: the caller reads the log again.
        """
        record = self._log.slots.read(version)
        if self._is_wordless(record):
            version = record.entry.recovers or 0
            stored_outcome = self._log.slots.stored_outcome(version)
            if stored_outcome is None and self._log.slots.find(version) is not None:  # its end decides
                return self.resolve(version, table, end=end)
            # one that is published may be a correction, which needs no word
            if stored_outcome is None or stored_outcome.outcome is Outcome.ABANDONED:
                why = "it recovers what was abandoned, or is lost"
                return self._record(record.entry, Outcome.ABANDONED, by=record.entry.write_id, why=why)
        record, is_seen = self._wait(record, table)
        if is_seen:  # its outcome is recorded in its claimant's place
            return self._record(record.entry, Outcome.PUBLISHED, by=record.entry.write_id, why="readers see it")
        return None if record.outcome is not None else self._end(record, table, end=end)

    def _is_wordless(self, record: SlotRecord) -> bool:
        """Return whether a recover entry is in doubt, and has not the last word on what it recovers.

        What undoes the late call of an abandoned entry needs no word: it switches partitions within its claim.
        """
        needs_word = record.outcome is None and record.entry.meaning.needs_last_word
        return needs_word and self._log.marks.last_word(record.entry.recovers or 0) != record.entry.write_id

    def _wait(self, record: SlotRecord, table: Table) -> tuple[SlotRecord, bool]:
        """Return an entry once it has ended, or others may end it; also whether readers see all of it by then."""
        version, wait = record.entry.version, FIRST_WAIT_SECONDS
        while record.outcome is None and not self._is_free(record):
            if self._has_taken_effect(record.entry, table):
                return record, True
            if wait == FIRST_WAIT_SECONDS:
                logger.warning(
                    "version=%d is being published by write_id=%s; waiting, at most %.0f s. Ctrl-C is safe",
                    version,
                    record.entry.write_id,
                    record.entry.publish_timeout_seconds - record.age_seconds,
                )
            self.opened.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)
            record = self._log.slots.read(version)
        return record, False

    def _end(self, record: SlotRecord, table: Table, *, end: LogEnd) -> RecoveredEntry | None:
        """End an entry in doubt whose claimant has gone: as whoever has the last word says, if anybody has.

        That may be a recovery which has died or was refused, on which another has the last word, and so on: the last of
        them is ended, and the others as it is.
        """
        history = self._log.read_history(self._log.lister.read(listed_after=record.entry.version))
        heirs = {later.entry.write_id: later for later in history.records if later.entry.version > record.entry.version}
        chain, word = [record], self._log.marks.last_word(record.entry.version)
        heir = heirs.pop(word, None)
        while heir is not None and heir.outcome is None:
            heir, _ = self._wait(heir, table)
            if heir.outcome is None:
                chain.append(heir)
                word = self._log.marks.last_word(heir.entry.version)
                heir = heirs.pop(word, None)
        recovered_entry = self._end_last(chain[-1], heir, word, history, table, end=end)
        for link, by in zip(reversed(chain[:-1]), reversed(chain), strict=False):
            if recovered_entry is not None:
                link_ended = self._record(
                    link.entry,
                    recovered_entry.outcome,
                    by=by.entry.write_id,
                    superseded=recovered_entry.superseded,
                    moved=recovered_entry.moved,
                    why=f"version {by.entry.version} has ended it",
                )
                recovered_entry = replace(link_ended, partitions=recovered_entry.partitions)
        return recovered_entry

    def _end_last(
        self, last: SlotRecord, heir: SlotRecord | None, word: str, history: History, table: Table, *, end: LogEnd
    ) -> RecoveredEntry | None:
        """End an entry on which ``word`` is the last one, perhaps that of a recovery, its ``heir``, which has ended."""
        if word == last.entry.write_id:
            return self._record(last.entry, Outcome.ABANDONED, by=word, why="the metastore had refused it")
        if heir is not None and heir.outcome is not None:
            why = f"version {heir.entry.version} has ended it"
            superseded, moved = heir.superseded_locations, heir.moved_locations
            return self._record(last.entry, heir.outcome, by=word, superseded=superseded, moved=moved, why=why)
        if rules.is_covered(history, last.entry):
            return self._rebuild(last.entry, history, table)
        return self.recover(last, table, end=end, lost_heir=word)

    def _is_free(self, record: SlotRecord) -> bool:
        """Return whether no call of an entry in doubt is under way any more, if its claimant keeps to its time."""
        if rules.claim_is_over(record.entry, record.age_seconds):
            return True
        return record.entry.meaning.repeats and self._log.marks.is_released(record.entry.version)

    def _record(
        self,
        entry: LogEntry,
        outcome: Outcome,
        *,
        by: str,
        why: str,
        superseded: Mapping[PartitionValues, str | None] = MappingProxyType({}),
        moved: Mapping[PartitionValues, str | None] = MappingProxyType({}),
    ) -> RecoveredEntry:
        """Record how an entry in doubt has ended, without anything to be switched, and tell listeners."""
        stored_outcome = self._log.slots.record_outcome(
            entry.version, outcome, write_id=by, superseded=superseded, moved=moved, of=entry.write_id
        )
        logger.warning("version=%d was in doubt, and %s: %s", entry.version, why, stored_outcome.outcome.value)
        self._ended(entry, stored_outcome.outcome, superseded=stored_outcome.superseded)
        return RecoveredEntry(
            version=entry.version,
            outcome=stored_outcome.outcome,
            superseded=stored_outcome.superseded_locations,
            moved=stored_outcome.moved_locations,
        )

    def _rebuild(self, entry: LogEntry, history: History, table: Table) -> RecoveredEntry:
        """Record an outcome that was lost. Nothing is switched: newer entries have been published over this one."""
        now = self._metastore.get_partitions(table, [partition.values for partition in entry.partitions])

        def read_again() -> History:
            return self._log.read_history(self._log.lister.read(listed_after=entry.version))

        copied = copied_partitions(self.opened.store, history, entry, read_again)
        outcome, superseded = rules.rebuilt_outcome(history, entry, locations(now), copied)
        self._log.marks.remember_recovery(entry.version)  # its claimant may have died with a call under way
        recorded_by = next(
            (record.recorded_by for record in history.records if record.entry.recovers == entry.version), ""
        )
        why = "newer entries show how it had ended"
        superseded_locations = dict.fromkeys(superseded, UNRECORDED)
        return self._record(entry, outcome, by=recorded_by or entry.write_id, superseded=superseded_locations, why=why)

    def _has_taken_effect(self, entry: LogEntry, table: Table) -> bool:
        """Return whether readers look at a write's files in every partition: then its claimant sends nothing more.

        Only its own call points there. A rollback's calls prove nothing, since another tool's may look like them. Nor
        does a drop, a call of its own that may still come. And until somebody has looked after a recovery, an earlier
        call may have done it. Nor where partitions switch one after another: what was refused for load is sent again.
        Nor of an entry with figures of columns: its claimant sets statistics, and alters the partitions once more.
        """
        if entry.has_figures or not self._metastore.switches_at_once(table):
            return False
        targets = [partition.new_location and Location.parse(partition.new_location) for partition in entry.partitions]
        are_own = entry.meaning.has_own_files
        if not are_own or not all(target and self._layout.all_data.contains(target) for target in targets):
            return False
        try:
            now = self._metastore.get_partitions(table, [partition.values for partition in entry.partitions])
        except MetastoreError as error:
            logger.warning("version=%d cannot be seen: %s", entry.version, error)
            return False
        found = states(entry, now, self._layout, whole_partitions(self.opened.store, entry.partitions))
        return rules.effect(found.values()) is Effect.ALL and not (
            self._log.lister.read(listed_after=entry.version).unverified
        )

    def recover(
        self,
        record: SlotRecord,
        table: Table,
        *,
        end: LogEnd,
        behind: Sequence[EntryPartition] = (),
        lost_heir: str = "",
    ) -> RecoveredEntry | None:
        """Do an entry again, partition by partition, as far as no other tool has been there.

        ``record`` is an entry in doubt, or the newest published one of partitions that a late call has put back. Those
        are ``behind``, with their present locations as the old ones; then only they are done again. The recover entry
        takes the slot after the ``end`` of the log, and the last word on an entry in doubt, unless that is
        ``lost_heir``'s, whose entry is lost for good. Returns ``None`` if somebody else has either first.

        Raises ``OutcomeUnknownError`` if the metastore's answer was lost; the recover entry stays in doubt and can
        itself be recovered. ``MetastoreError``: the metastore refused; the entry stays in doubt.
        """
        claimed = self._recover_entry(record.entry, end, behind)
        if record.outcome is Outcome.ABANDONED:  # whose late call is undone: its rows are not published
            claimed = replace(claimed, operation=Operation.UNDO, recovered_write_id="")
        ended = attempt(_Repeat(self, record, claimed, table, lost_heir, is_correction=bool(behind)))
        return ended.facts if isinstance(ended, Answer) else None

    def outcome_of_origin(self, entry: LogEntry) -> StoredOutcome | None:
        """Return how that has ended which a recover entry recovers, through others that are in doubt as it is.

        One that came too late for the last word is on record as abandoned, which says nothing of its origin.
        """
        too_late = None
        while entry.recovers is not None:
            ended, record = self._log.slots.stored_outcome(entry.recovers), self._log.slots.find(entry.recovers)
            was_ended = ended is not None and (ended.outcome is Outcome.PUBLISHED or bool(ended.superseded))
            if record is None or was_ended or (ended is not None and record.entry.recovers is None):
                return ended or too_late
            too_late, entry = ended or too_late, record.entry
        return too_late

    def do_again(self, repeat: _Repeat, claimed: LogEntry, deadline: Deadline) -> RecoveredEntry:
        """Carry out a claimed recover entry, as far as no other tool has been there."""
        record, table, is_correction = repeat.record, repeat.table, repeat.is_correction
        try:
            now = self._metastore.get_partitions(table, [partition.values for partition in claimed.partitions])
        except MetastoreError as error:
            self._claimed.abandon(claimed, error)
            raise
        found = self._evidence.states(claimed, now)
        superseded = tuple(values for values, state in found.items() if state is PartitionState.SUPERSEDED)
        if superseded and not is_correction:
            now = self._confirm_moves(table, record, claimed, now, superseded, deadline)
            found = self._evidence.states(claimed, now)
            superseded = tuple(values for values, state in found.items() if state is PartitionState.SUPERSEDED)
        if superseded:
            logger.warning("version=%s superseded by another tool, left alone: %s", claimed.recovers, superseded)
        here = locations(now)
        chosen = found.keys() - set(superseded) if is_correction else rules.to_switch(found)
        chosen_ones = (partition for partition in claimed.partitions if partition.values in chosen)
        # done partitions go last: where partitions switch one after another, a claim may be too short for all
        todo = tuple(sorted(chosen_ones, key=lambda partition: found[partition.values] is PartitionState.DONE))
        in_the_way = {} if is_correction else self._evidence.why_not_carried_out(claimed, found, here)
        in_the_way = in_the_way or self._evidence.lost_files(todo, found)
        if in_the_way:
            half = half_added_error(self.opened.store, record.entry, claimed, found, in_the_way)
            if half is not None:
                self._claimed.abandon(claimed, half)
                raise half
            logger.warning("version=%s is given up: %s", claimed.recovers, in_the_way)
            undone = _undone(claimed, found, here, in_the_way.keys(), self.opened.layout)
            return self._record_outcome(record.entry, claimed, (), undone)
        theirs = {PartitionState.SUPERSEDED, PartitionState.SWITCHED_THEN_MOVED}
        partitions = tuple(partition for partition in claimed.partitions if found[partition.values] not in theirs)
        ours = replace(claimed, partitions=partitions)
        self._carry_out(record.entry, table, ours, todo, now, deadline)
        switched = tuple(partition.values for partition in todo)
        moved = {
            values: here.get(values) for values, state in found.items() if state is PartitionState.SWITCHED_THEN_MOVED
        }
        superseded_locations = {values: here.get(values) for values in superseded}
        return self._record_outcome(record.entry, claimed, switched, superseded_locations, moved)

    def end_as(self, original: StoredOutcome, entry: LogEntry, claimed: LogEntry, table: Table) -> RecoveredEntry:
        """End a recover entry as what it recovers has ended, and switch nothing.

        Of a correction of a late call, too: where its call has not come, the partitions are corrected anew, but for
        those that another tool has moved since.
        """
        superseded = entry.partition_values if original.outcome is Outcome.ABANDONED else original.superseded
        found = original.superseded_locations
        superseded_locations = {values: found.get(values, UNRECORDED) for values in superseded & entry.partition_values}
        if original.recorded_by != entry.write_id:  # a correction
            superseded_locations |= self._moved_locations(entry, claimed, table)
        return self._record_outcome(entry, claimed, (), superseded_locations)

    def _moved_locations(self, entry: LogEntry, claimed: LogEntry, table: Table) -> dict[PartitionValues, str | None]:
        """Return where other tools have partitions that a correction in doubt has found, or wants, elsewhere."""
        try:
            here = locations(self._metastore.get_partitions(table, list(entry.partition_values)))
        except MetastoreError as error:
            self._claimed.abandon(claimed, error)
            raise
        history = self._log.read_history()
        return {
            partition.values: here.get(partition.values)
            for partition in entry.partitions
            if not any(
                same_place(here.get(partition.values), place)
                for place in (partition.old_location, partition.new_location)
            )
            and history.placements.correction_of(partition.values, here.get(partition.values)) is None
        }

    def has_last_word(self, original: LogEntry, claimed: LogEntry, lost_heir: str) -> bool:
        """Take the last word on an entry in doubt; a recovery that comes too late for it has changed nothing."""
        try:
            word = self._log.marks.take_last_word(original.version, claimed.write_id)
        except StorageError as error:
            raise outcome_unknown(claimed, error) from error
        if word in {claimed.write_id, lost_heir}:
            return True
        self._log.slots.record_outcome(
            claimed.version, Outcome.ABANDONED, write_id=claimed.write_id, of=claimed.write_id
        )
        return False

    def _confirm_moves(
        self,
        table: Table,
        record: SlotRecord,
        claimed: LogEntry,
        now: PartitionsNow,
        superseded: Collection[PartitionValues],
        deadline: Deadline,
    ) -> PartitionsNow:
        """Make sure that another tool has moved or dropped partitions, before the entry is said not to have done them.

        Raises ``ConflictError``, and the entry stays in doubt, if the metastore's answers may be old, or hide some.
        """
        try:
            now = require_superseded(self.opened, table, record, now, superseded)
            absent = {values for values in superseded if values not in now}
            absent -= there_under_other_names(self._metastore, table, absent).keys()
            prove_dropped(self.opened, table, claimed, absent, partial(self._claimed.in_time, claimed, deadline))
        except ConflictError as error:
            self._claimed.abandon(claimed, error)
            raise
        return now

    def _carry_out(
        self,
        original: LogEntry,
        table: Table,
        ours: LogEntry,
        todo: Sequence[EntryPartition],
        now: PartitionsNow,
        deadline: Deadline,
    ) -> None:
        """Switch what is left to be switched, and give all partitions that are not another tool's their statistics."""
        statistics = self._claimed.statistics
        result = statistics.forget(table, ours, now.keys() & ours.partition_values, deadline)
        if todo:
            present = {partition.values: now[partition.values] for partition in todo if partition.values in now}
            left_to_do = self._claimed.switch(table, replace(ours, partitions=tuple(todo)), present, deadline)
            if left_to_do is None:  # others have done it, with its statistics
                return
            result = replace(result, notes=left_to_do, is_open=True) if left_to_do else result
        result = result if result.is_open else statistics.tell(table, ours, deadline)
        if result.is_open:
            raise MetastoreError(
                f"version {original.version} of {ours.table} is only half recovered: {result.notes[0]}", **ours.named
            )

    def _recover_entry(self, original: LogEntry, end: LogEnd, behind: Sequence[EntryPartition]) -> LogEntry:
        """Return the recover entry. What it replaces stays for as long as the original has scheduled, from now on."""
        created_at = datetime.now(UTC)
        later = created_at - original.created_at
        replaced = tuple(replace(old, delete_after=old.delete_after + later) for old in original.replaced)
        return replace(
            original,
            version=end.newest + 1,
            in_doubt=end.in_doubt - {original.version, original.recovers},  # these end as it does, by its own switch
            write_id=new_write_id(),
            operation=Operation.RECOVER,
            created_at=created_at,
            base_version=end.newest,
            recovers=original.version,
            recovered_write_id=original.recovered_write_id or original.write_id,
            repeats=original.repeats or original.operation,
            rollback_to=None,
            publish_timeout_seconds=self.opened.config.publish_timeout_seconds,
            log_id=self._log.slots.log_id,
            key=NO_KEY,
            partitions=tuple(behind) or original.partitions,
            replaced=() if behind else replaced,
            writer=self.opened.identity,
        )

    def _record_outcome(
        self,
        original: LogEntry,
        claimed: LogEntry,
        switched: tuple[PartitionValues, ...],
        superseded: Mapping[PartitionValues, str | None],
        moved: Mapping[PartitionValues, str | None] = MappingProxyType({}),
    ) -> RecoveredEntry:
        """Record the outcome, the recover entry's first: it has the last word, and the original ends as it does.

        What stands for the original may be another one: of an entry that a late call had undone it is recorded already.
        """
        nothing_done = bool(superseded) and len(superseded) == len(claimed.partitions)
        by, outcome = claimed.write_id, Outcome.ABANDONED if nothing_done else Outcome.PUBLISHED
        stored_outcome = self._log.slots.record_outcome(
            claimed.version, outcome, write_id=by, superseded=superseded, moved=moved, of=by
        )
        superseded_locations = stored_outcome.superseded_locations
        outcome = self._log.slots.record_outcome(
            original.version,
            stored_outcome.outcome,
            write_id=by,
            superseded=superseded_locations,
            moved=stored_outcome.moved_locations,
            of=original.write_id,
        ).outcome
        logger.warning("version=%d recovered as version=%d: %s", original.version, claimed.version, outcome.value)
        self._ended(original, outcome, claimed=claimed, superseded=superseded_locations)
        return RecoveredEntry(
            version=original.version,
            outcome=outcome,
            partitions=switched,
            superseded=superseded_locations,
            moved=stored_outcome.moved_locations,
        )

    def _ended(
        self,
        original: LogEntry,
        outcome: Outcome,
        *,
        claimed: LogEntry | None = None,
        superseded: Collection[PartitionValues] = (),
    ) -> None:
        """Set the markers of an entry that was in doubt; let listeners know, once the call is over, how it has ended.

        They hear of a recovery that had died by the entry that it recovers.
        """
        if outcome is Outcome.PUBLISHED:
            mark_partitions(self.opened, self.opened.table, claimed or original)
        if original.meaning.repeats:
            return
        note_resolution(partial(self._event, original, outcome, claimed or original, superseded))

    def _event(
        self, original: LogEntry, outcome: Outcome, by: LogEntry, superseded: Collection[PartitionValues]
    ) -> TableEvent:
        partitions = (
            PartitionFacts.of_entry(
                name_in(self.opened.table, partition.values), change_of(partition, self._layout, original), partition
            )
            for partition in by.partitions
            if partition.values not in superseded
        )
        return TableEvent(
            operation="recover",
            outcome="published" if outcome is Outcome.PUBLISHED else "abandoned",
            mode=original.called.partition(" ")[0],  # a rollback's says to which version
            started_at=original.created_at,
            ended_at=datetime.now(UTC),
            version=by.version,
            write_id=by.write_id,
            of_version=original.version,
            of_write_id=original.recovered_write_id or original.write_id,
            partitions=tuple(partitions) if outcome is Outcome.PUBLISHED else (),
            checks=original.checks,
            tags=original.tags,
            idempotency_key=original.idempotency_key,
            **self.opened.event_facts,
        )

    def resolved_history(self, table: Table) -> tuple[History, tuple[RecoveredEntry, ...]]:
        """Resolve every publish in doubt, oldest first, and return all of the log as it is then, with what was done."""
        history, done = self.resolve_in_doubt(table)
        while history.fold is not None:
            history = self._log.read_history()
            if history.records.publishes_in_doubt:  # one has begun meanwhile, or has lost its outcome
                history, more = self.resolve_in_doubt(table, self._log.read_history)
                done += more
        return history, tuple(done)

    def resolve_in_doubt(
        self, table: Table, read: Callable[[], History] | None = None
    ) -> tuple[History, list[RecoveredEntry]]:
        """Resolve every publish in doubt, oldest first; by default of the log only what is recent is read."""
        read = read or self._log.read_recent
        done: list[RecoveredEntry] = []
        history = read()
        while history.records.publishes_in_doubt:
            oldest = history.records.publishes_in_doubt[0].entry.version
            recovered = self.resolve(oldest, table, end=history.end)
            done += [recovered] if recovered else []
            history = read()
        return history, done

    def end_doubts(self, history: History, table: Table) -> tuple[str, ...] | None:
        """End all that a history shows in doubt, and say how it has ended; ``None`` if nothing is in doubt."""
        if not history.records.publishes_in_doubt:
            return None
        _, done = self.resolve_in_doubt(table)
        return tuple(f"version {entry.version} was in doubt: {entry.outcome.value} now" for entry in done)


def doubts(history: History) -> tuple[str, ...]:
    """Say what is in doubt, for a dry run, which ends nothing."""
    versions = (record.entry.version for record in history.records.publishes_in_doubt)
    return tuple(
        f"version {version} is in doubt: resolving it comes first, and may change this" for version in versions
    )


def _undone(
    claimed: LogEntry,
    found: Mapping[PartitionValues, PartitionState],
    here: Mapping[PartitionValues, str],
    in_the_way: Collection[PartitionValues],
    layout: TableLayout,
) -> dict[PartitionValues, str | None]:
    """Return where partitions are that an entry which is given up has not switched.

    One that a late call has taken before its switch does not belong where it is; one that was not shown does.
    """

    def where(partition: EntryPartition) -> str | None:
        place = here.get(partition.values)
        is_hidden = partition.old_location is None and place is not None and partition.values in in_the_way
        if found[partition.values] is not PartitionState.BEFORE:
            return place
        return place if is_hidden and not layout.is_placeholder(Location.parse(str(place))) else partition.old_location

    ended = {PartitionState.DONE, PartitionState.SWITCHED_THEN_MOVED}
    return {
        partition.values: where(partition) for partition in claimed.partitions if found[partition.values] not in ended
    }
