"""What every vacuum does: looks at what readers have left, and deletes it. No other file deletes published files."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Final, Protocol

from table_writer.errors import MetastoreError, StorageError, TableWriterError
from table_writer.model.entry import DeletedLocation, LogEntry, Outcome
from table_writer.model.location import Location, Place
from table_writer.model.meaning import Operation
from table_writer.model.process import boot_seconds
from table_writer.model.table import Partition, PartitionValues
from table_writer.model.units import HOUR_SECONDS
from table_writer.model.write import TableLayout
from table_writer.protocol.log.deadline import Deadline
from table_writer.protocol.log.history import History
from table_writer.protocol.log.placements import Placement
from table_writer.protocol.log.registration import check_keys
from table_writer.protocol.log.rules import claim_is_over
from table_writer.protocol.log.state import LeftLocation
from table_writer.protocol.log.table_log import TableLog
from table_writer.protocol.log.trimming import OldEntries
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.vacuum.due import (
    Ages,
    DeadWrite,
    DueLocations,
    InUse,
    KeptLocation,
    OtherTables,
    in_use,
    is_used,
    may_go,
)
from table_writer.storage.object_store import ObjectInfo, ObjectStore, UploadInfo, many
from table_writer.storage.table_files import (
    RemovalResult,
    abort_uploads,
    batches,
    delete_keys,
    files_at,
    without_marker,
)

logger = logging.getLogger(__name__)
LOCATIONS_AT_ONCE: Final = 64
READ_AT_MOST: Final = 16  # partitions, for each location deleted: a look at the metastore reads all that the table has
LOOK_SECONDS: Final = 60.0  # a look counts as "just before" for so long, however many locations it could serve
CLAIM_SECONDS: Final = float(HOUR_SECONDS)  # nobody waits for a vacuum
CHUNK_SECONDS: Final = 600.0  # the time to list and delete one chunk
SPARED: Final = "readers were pointed there a moment ago"


@dataclass(frozen=True, slots=True)
class FoundLocation:
    """A location to delete, with the objects that lie there, once somebody has looked."""

    left: LeftLocation
    objects: tuple[ObjectInfo, ...] = ()
    other_count: int = 0  # of objects that are not to be deleted: other tools have put them there since

    def without(self, keys: Collection[str]) -> FoundLocation:
        """Return the same without some of its objects."""
        return replace(self, objects=tuple(item for item in self.objects if item.key not in keys)) if keys else self


@dataclass(frozen=True, kw_only=True, slots=True)
class VacuumResult:
    """The result of a vacuum: what it deleted, or would delete."""

    version: int | None = None  # the version of its own entry; None: a dry run, or nothing that needs one
    locations: tuple[FoundLocation, ...] = ()
    dead_writes: tuple[DeadWrite, ...] = ()
    leftover_uploads: tuple[UploadInfo, ...] = ()
    stale_registrations: tuple[str, ...] = ()
    trimmed: tuple[int, ...] = ()
    folded: int | None = None  # the version up to which the log was folded
    kept: tuple[KeptLocation, ...] = ()
    in_doubt: tuple[int, ...] = ()
    failures: tuple[str, ...] = ()


def places_of(plan: VacuumResult, layout: TableLayout) -> list[Location]:
    """Return the locations that a plan deletes."""
    return [
        *(found.left.location for found in plan.locations),
        *(layout.data(dead.write_id) for dead in plan.dead_writes),
    ]


class Mirrors(Protocol):
    """The mirrors of tables, which may name files that readers have left."""

    def why_behind(self, opened: OpenTable, leaving: Collection[Location]) -> str:
        """Bring every mirror of a table to the newest version, and say why one is not there; empty if all are."""

    def tidy(self, opened: OpenTable, older_than_seconds: float) -> tuple[str, ...]:
        """Let the mirrors of a table delete what no reader needs any more; returns what failed."""


class Remover:
    """Deletes what readers of one table have left, once an entry names it."""

    def __init__(self, opened: OpenTable, mirrors: Mirrors, *, clock: Callable[[], float] = boot_seconds) -> None:
        self.opened = opened
        self._mirrors = mirrors
        self._store = opened.store
        self._log = opened.log
        self._layout = opened.layout
        self._clock = clock
        self._others: OtherTables | None = None
        self.why_partial = cache(opened.why_partial)  # asked once, if at all

    def look_around(self) -> tuple[History, Mapping[PartitionValues, Partition], frozenset[int]]:
        """Read the log, then the partitions; also return the recoveries of before which no call can come any more."""
        read: Callable[[], History] = self._log.read_recent
        while True:
            history = read()
            verifiable = self._verifiable(history)  # asked first: a call may come between a look and the question
            partitions = self.opened.metastore.get_all_partitions(self.opened.table)
            if not history.needs_entries({values: partition.location for values, partition in partitions.items()}):
                return history, partitions, verifiable
            read = self._log.read_history

    def kept_for_mirrors(self, plan: VacuumResult) -> VacuumResult:
        """Return the plan if no mirror names any more what readers have left, else one without anything to delete.

        Mirrors follow first: files that are not there any more would fail their readers. Writes of an earlier log, of
        which this one knows nothing, look dead.
        """
        places, reason = places_of(plan, self._layout), self._why_behind(plan)
        if not reason:
            return plan
        kept = (KeptLocation(place, reason) for place in places)
        return replace(plan, locations=(), dead_writes=(), kept=(*plan.kept, *kept))

    def _why_behind(self, plan: VacuumResult) -> str:
        """Let mirrors follow, and say why one that may name what a plan deletes does not; empty if none may."""
        places = places_of(plan, self._layout)
        return self._mirrors.why_behind(self.opened, places) if places else ""

    def verify(
        self, history: History, partitions: Mapping[PartitionValues, Partition], recoveries: Collection[int]
    ) -> bool:
        """Delete the marks of recoveries if none of the calls that could come late has done harm that is still there.

        Returns whether it has.
        """
        here = {values: partition.location for values, partition in partitions.items()}
        placements = history.placements.of_all(here)
        if Placement.BEHIND in placements.values():
            return False
        shown = {values: partitions[values].parameters for values in placements.keys() & partitions.keys()}
        is_older = any(
            history.placements.has_late_parameters(values, parameters) for values, parameters in shown.items()
        )
        is_sound = not is_older and self.opened.correct_statistics(history, placements)
        if is_sound:
            self._log.marks.forget_recoveries(recoveries)
        return is_sound

    def _verifiable(self, history: History) -> frozenset[int]:
        """Return the recoveries of before which calls may have come late, and none can any more.

        Only those before all that is in doubt: what a job that was killed since has left does not matter to them.
        """
        oldest = min((record.entry.version for record in history.records.publishes_in_doubt), default=math.inf)
        return self._log.marks.past_calls([version for version in history.unverified or () if version < oldest])

    def in_use_now(self, history: History) -> InUse:
        """Ask the metastore where readers look, and the log where they may."""
        shown = self.opened.metastore.get_all_partitions(self.opened.table).values()
        return in_use(history, shown, self.why_partial)

    def spare_others(self, chosen: DueLocations) -> DueLocations:
        """Keep what may be another table's; all tables are read once a vacuum, if other tools' files are due at all."""
        if not any(left.objects for left in chosen.locations):
            return chosen
        if partial := self.why_partial():
            reason = f"other tables may have files there that this role does not see: {partial}; see sees_everything"
            return chosen.with_kept({left.location.place: reason for left in chosen.locations if left.objects})
        try:
            self._others = self._others or OtherTables(self.opened.metastore, self._layout, self.opened.table)
        except MetastoreError as error:
            reason = f"which other tables may have files there is not known: {error.message}"
            return chosen.with_kept({left.location.place: reason for left in chosen.locations if left.objects})
        return chosen.with_kept(self._others.reasons(self._store, chosen.locations))

    def found_locations(self, history: History, locations: Sequence[LeftLocation]) -> tuple[FoundLocation, ...]:
        """List what lies at each location; of other tools' files only the listed ones, if they are unchanged."""

        def look(left: LeftLocation) -> FoundLocation:
            objects = tuple(files_at(self._store, self._layout, left.location))
            if not left.objects:
                return FoundLocation(left, objects)
            there = {(file.key, file.size_bytes, file.etag): file for file in objects}
            free = (listed_object for listed_object in left.objects if may_go(history, left.location, listed_object))
            listed = ((listed_object.key, listed_object.size_bytes, listed_object.etag) for listed_object in free)
            found = tuple(there[identity] for identity in listed if identity in there)
            others = set(without_marker(objects, left.location)).difference(found)
            return FoundLocation(left, found, other_count=len(others))

        return tuple(many(look, locations))

    def deletes(self, plan: VacuumResult) -> tuple[DeletedLocation, ...]:
        """Return what the entry of a plan names."""
        replaced = ((found.left.location, found.left.left_by) for found in plan.locations)
        dead = ((self._layout.data(write.write_id), None) for write in plan.dead_writes)
        return tuple(DeletedLocation(location=str(place), replaced_by=by) for place, by in (*replaced, *dead))

    def entry(self, history: History, operation: Operation, deletes: tuple[DeletedLocation, ...]) -> LogEntry:
        """Return the next entry of the log, which deletes."""
        return self.opened.next_entry(history.end, operation, publish_timeout_seconds=CLAIM_SECONDS, deletes=deletes)

    def deadline(self, entry: LogEntry | None = None) -> Deadline:
        """Return how long something may be deleted by an entry of this process; ``None``: its process has died."""
        if entry is None:
            return Deadline(CLAIM_SECONDS, self._clock)
        return Deadline(CLAIM_SECONDS, self._clock, claim_age=partial(self._log.slots.claim_age, entry))

    def carry_out(self, history: History, entry: LogEntry, plan: VacuumResult, deadline: Deadline) -> VacuumResult:
        """Delete what the claimed entry names, a few locations at a time, each looked at again just before.

        One look serves several groups of locations while it is fresh: in a large table it costs more than they do. What
        is in use by then is spared. After the claim's time nothing more is deleted: a process that was paused for long
        does not know what has happened since. The outcome says that all is gone that an entry names: until then it
        stays in doubt, and the next vacuum takes over.
        """
        logger.info("write_id=%s version=%d vacuums %s", entry.write_id, entry.version, entry.table)
        done: list[FoundLocation] = []
        gone: set[Place] = set()
        spared: list[KeptLocation] = []
        failures: list[str] = []
        served, fresh = 0, Deadline(0.0, self._clock)
        for chunk in batches(plan.locations, LOCATIONS_AT_ONCE):
            if served <= 0 or not fresh.allows(0.0):
                fresh = Deadline(LOOK_SECONDS, self._clock)
                used = self.in_use_now(history)
                served = used.place_count // READ_AT_MOST
            served -= len(chunk)
            if not deadline.allows(CHUNK_SECONDS):
                break
            chosen = DueLocations(tuple(found_location.left for found_location in chunk), ())
            in_the_way = {left.location.place: SPARED for left in chosen.locations if is_used(used, left)}
            free = self.spare_others(chosen.with_kept(in_the_way))
            spared += free.kept
            found = self.found_locations(history, free.locations)
            failed = self._delete(entry, (item for found_location in found for item in found_location.objects)).failures
            failures += failed
            left = self._left_of(history, found) if failed else frozenset()
            deleted = [found_location.without(left) for found_location in found]
            done += [there for there, was in zip(deleted, found, strict=True) if there.objects or not was.objects]
            gone |= {there.left.location.place for there, was in zip(deleted, found, strict=True) if there == was}
        used = self.in_use_now(history)
        dead: list[DeadWrite] = []
        for write in plan.dead_writes:
            if deadline.allows(CHUNK_SECONDS) and not used.meets(self._layout.data(write.write_id).place):
                given_up, failed = self._give_up(entry, write)
                failures += failed
                dead.append(given_up)
        if not deadline.allows(CHUNK_SECONDS):
            failures.append("the time of this vacuum's claim is over; run it again for the rest")
        # once more: a mirror begun meanwhile may name what is deleted, and its process may be gone
        failures += filter(None, [self._why_behind(plan)])
        if not failures and not _outstanding(history, entry) - gone:
            record_as_done(self._log, entry, entry)
        if entry.meaning.may_end_other_vacuums:
            record_ended(self._log, history, gone, entry)
        return replace(
            plan,
            version=entry.version,
            locations=counted_once(done),
            dead_writes=tuple(dead),
            kept=(*plan.kept, *spared),
            failures=tuple(failures),
        )

    def _left_of(self, history: History, found: Sequence[FoundLocation]) -> frozenset[str]:
        """Return the objects that are there still, after a request that was to delete some has failed."""
        try:
            again = self.found_locations(history, [found_location.left for found_location in found])
        except StorageError:
            again = tuple(found)
        return frozenset(item.key for found_location in again for item in found_location.objects)

    def _give_up(self, entry: LogEntry, write: DeadWrite) -> tuple[DeadWrite, list[str]]:
        """Remove a dead write: uploads, objects, and last the registration, without which it would look discarded.

        Returns what of it is gone, and why the rest is not.
        """
        data = self._layout.data(write.write_id)
        aborted = abort_uploads(self._store, self._store.list_uploads(data.key))
        deleted = self._delete(entry, self._store.list(data.key))
        failures = [*aborted.failures, *deleted.failures]
        left = left_objects(self._store, data, write) if deleted.failures else frozenset()
        if not failures:
            checks = check_keys(self._store, self._layout, write.write_id)
            keys = (self._layout.staged_key(write.write_id), self._layout.registration_key(write.write_id))
            failures += self._delete(entry, [*checks, *keys]).failures
        gone = replace(
            write,
            objects=tuple(item for item in write.objects if item.key not in left),
            uploads=tuple(upload for upload in write.uploads if upload.key not in aborted.left_keys),
            registered=() if failures else write.registered,
        )
        return gone, failures

    def tidy_up(self, plan: VacuumResult, history: History, oldest: OldEntries, ages: Ages) -> VacuumResult:
        """Remove what needs no claim: late uploads of writes that ended, stale registrations, entries; fold the log."""
        aborted = abort_uploads(self._store, plan.leftover_uploads)
        deleted = self._delete(None, plan.stale_registrations)
        failures = [*plan.failures, *aborted.failures, *deleted.failures]
        trimmed = plan.trimmed
        try:
            self._log.trim(trimmed)
        except TableWriterError as error:
            trimmed = ()
            failures.append(str(error))
        failures += self._mirrors.tidy(self.opened, ages.history_seconds)
        folded = self._log.save_fold(history, oldest, trimmed)
        return replace(
            plan,
            leftover_uploads=tuple(upload for upload in plan.leftover_uploads if upload.key not in aborted.left_keys),
            stale_registrations=tuple(key for key in plan.stale_registrations if key not in deleted.left_keys),
            trimmed=trimmed,
            folded=folded,
            failures=tuple(failures),
        )

    def _delete(self, entry: LogEntry | None, keys: Iterable[str | ObjectInfo]) -> RemovalResult:
        removed = delete_keys(self._store, keys)
        for failure in removed.failures:
            logger.warning("write_id=%s: not all deleted: %s", entry.write_id if entry else "-", failure)
        return removed


def left_objects(store: ObjectStore, data: Location, write: DeadWrite) -> frozenset[str]:
    """Return the objects of a dead write that are there still, after a request to delete some has failed."""
    try:
        items = tuple(store.list(data.key))
    except StorageError:
        items = write.objects
    return frozenset(item.key for item in items)


def counted_once(locations: Iterable[FoundLocation]) -> tuple[FoundLocation, ...]:
    """Return the locations, each object at the first that has it: an abandoned write's directory lies around others."""
    counted_keys: set[str] = set()
    counted: list[FoundLocation] = []
    for found in locations:
        counted.append(found.without(counted_keys))
        counted_keys.update(item.key for item in found.objects)
    return tuple(counted)


def _outstanding(history: History, entry: LogEntry) -> frozenset[Place]:
    return frozenset(left.location.place for left in history.state.outstanding_locations(entry))


def record_ended(log: TableLog, history: History, gone: Collection[Place], own: LogEntry | None = None) -> None:
    """Record the other vacuums of which nothing is left that they name: they died, or waited for this one.

    ``gone`` is what has just been deleted; the log knows what others have deleted, and where readers are again.
    """
    for record in history.records.in_doubt:
        entry = record.entry
        if entry.meaning.changes_partitions or entry == own:
            continue
        came_back = history.state.remaining_places(record)  # nobody may read there ever again
        outstanding = _outstanding(history, entry) | came_back
        is_alone = entry.meaning.erases or claim_is_over(entry, record.age_seconds)
        if outstanding.issubset(gone) and (outstanding or is_alone):
            record_as_done(log, entry, own or entry)


def record_as_done(log: TableLog, entry: LogEntry, by: LogEntry) -> None:
    """Record that all is gone that a vacuum names."""
    log.slots.record_outcome(entry.version, Outcome.PUBLISHED, write_id=by.write_id, of=entry.write_id)


def interrupted(history: History) -> tuple[LogEntry, ...]:
    """Return the vacuums that are in doubt although their time is over; what an erasure names waits for a vacuum."""
    vacuums = (record for record in history.records.in_doubt if not record.entry.meaning.changes_partitions)
    return tuple(
        record.entry
        for record in vacuums
        if not record.entry.meaning.erases and claim_is_over(record.entry, record.age_seconds)
    )
