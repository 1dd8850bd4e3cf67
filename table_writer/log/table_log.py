"""The log's objects in a store. This file reads and puts them; :mod:`table_writer.log.rules` decides."""

from __future__ import annotations

import json
import logging
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from table_writer.errors import ConflictError, InvalidInputError, StorageError, counted, few
from table_writer.log.fold import fold_from_json, fold_to_json
from table_writer.log.history import History
from table_writer.log.keys import KeySearch
from table_writer.log.owner import readable_owner
from table_writer.log.records import NOT_KNOWN, SlotRecord, moved_locations, superseded_locations
from table_writer.log.state import TableState
from table_writer.log.stored import (
    MAX_BYTES,
    MAX_MEMORY_BYTES,
    MAX_OUTCOME_BYTES,
    Allowance,
    TooMuchError,
    packed,
    small_json,
)
from table_writer.log.trimming import Oldest, Trimming, counts_twice, foldable
from table_writer.model.entry import MAX_TIMEOUT_SECONDS, Key, LogEntry, Outcome
from table_writer.model.table import PartitionValues
from table_writer.model.write import TableLayout
from table_writer.storage.object_store import ObjectInfo, ObjectStore, many

logger = logging.getLogger(__name__)

CHECKPOINT_EVERY_VERSIONS: Final = 50  # a page of a listing holds 500 entries with their outcomes: this costs nothing
FOLD_EVERY_VERSIONS: Final = 100  # a log shorter than that is read as fast without
LATE_CALL_SECONDS: Final = 86_400  # no metastore applies a call a day after it was sent
MOST_FOLDS: Final = 3  # that are tried, the newest first: two are kept
RECENT_ENTRIES: Final = 3  # among which the last write is looked for: after it come a vacuum, or a rollback
MAX_ENTRY_BYTES: Final = MAX_BYTES
MOST_LOST: Final = 100_000  # entries; a slot further away was never claimed by this library
SLOT: Final = re.compile(r"([0-9]{20})\.(json|done)")
MARK: Final = re.compile(r"(folded|id|last-word|lost|recovered|rolled-back|trimmed)-([0-9a-zA-Z]+)")
"""A fact that every listing of the log shows: objects whose names sort after all entries, empty but for folds."""

OF_ONE_ENTRY: Final = ("last-word", "rolled-back")  # marks that go with their entry, which may be yet to come
RELEASED: Final = b"released"  # the body of a recovery's mark once nothing of it is under way


@dataclass(frozen=True, slots=True)
class LogState:
    """The state of the log, as one listing showed it."""

    newest: int  # 0: nothing was ever claimed
    in_doubt: frozenset[int]
    listed_after: int  # up to this version nothing was in doubt, and nothing was listed
    versions: frozenset[int]  # the slots found; those that a vacuum has trimmed are missing
    orphans: frozenset[int]  # outcomes without an entry: a trim was interrupted, or the entry was lost
    ids: frozenset[str] = frozenset()  # ids of the log: one that was deleted and begun again has another
    unverified: frozenset[int] = frozenset()  # recoveries after which nobody has looked yet whether a call came late
    rolled_back: frozenset[int] = frozenset()  # rollbacks: after them batches of streams may come again
    trimmed: int = 0  # up to here vacuums may have deleted entries
    lost: frozenset[int] = frozenset()  # entries that are gone, though no vacuum has deleted them
    given_up: frozenset[int] = frozenset()  # lost entries that the log goes on without

    @property
    def checkpoint(self) -> int:
        """The newest version up to which nothing is in doubt."""
        return min(self.in_doubt) - 1 if self.in_doubt else self.newest


class Recent(NamedTuple):
    """The newest fold, and the log's state after it; without a fold from the beginning."""

    state: LogState
    fold: TableState | None = None


class StoredOutcome(msgspec.Struct, frozen=True, kw_only=True, rename={"recorded_by": "settled_by"}):
    """The stored object that says how an entry ended."""

    outcome: Outcome
    recorded_by: str
    of: str = ""  # the write_id of the entry
    superseded: frozenset[PartitionValues] = frozenset()
    found: tuple[tuple[PartitionValues, str | None], ...] = ()
    """The locations of those, as far as known, and of others that had been switched and were moved since."""
    age_seconds: float = 0.0  # by the store's clock: not stored

    @property
    def superseded_locations(self) -> dict[PartitionValues, str | None]:
        """The superseded partitions, with where they were found."""
        return superseded_locations(self.superseded, dict(self.found))

    @property
    def moved_locations(self) -> dict[PartitionValues, str | None]:
        """The partitions that were switched and that another tool has moved since, with where they were found."""
        return moved_locations(self.superseded, dict(self.found))


class TableLog:
    """The log of one table; ``memory_bytes`` is how much memory one reading of it may take."""

    def __init__(self, store: ObjectStore, layout: TableLayout, *, memory_bytes: int = MAX_MEMORY_BYTES) -> None:
        self.store = store
        self._layout = layout
        self._memory_bytes = memory_bytes
        self._ended_records: dict[int, SlotRecord] = {}  # neither an entry nor its outcome ever changes
        self._entries: dict[int, LogEntry] = {}  # that were read without their outcomes
        self._ids: frozenset[str] = frozenset()
        self._folds: dict[int, TableState] = {}  # nor does a fold
        self._passed_over: set[int] = set()  # folds that cannot be believed
        self._expected_id = ""

    def expect(self, log_id: str) -> None:
        """Refuse from now on to read any other log than this; empty: not known."""
        self._expected_id = log_id

    def read_state(
        self, *, listed_after: int | None = None, allow_lost: bool = False, listed: Collection[ObjectInfo] | None = None
    ) -> LogState:
        """List the log: two requests, or one when the caller knows a checkpoint.

        ``listed_after`` is a version up to which nothing was in doubt at an earlier look; by default the stored
        checkpoint. ``allow_lost`` also returns a log of which entries are lost: to look at it, or to declare the loss.
        ``listed`` is what a listing from there has just shown.
        Raises ``InvalidInputError`` if the log was deleted, or entries of it are lost, and ``ConflictError`` if it was
        deleted since :meth:`expect` was told which one it is.
        """
        start, of_log = self._read_checkpoint() if listed_after is None else (listed_after, "")
        state = self._list(start, listed)
        if start and (not state.versions or (of_log and of_log not in state.ids)):
            state = self._list(0)  # somebody deleted the log, but not its checkpoint; or that is another log's
        state = self._with_log_id(state)
        missed: frozenset[int] = frozenset()
        while state.lost and not missed:  # look again: a file system may list while entries come, and miss some
            again = self._with_log_id(self._list(state.listed_after))
            missed = again.lost & state.lost
            state = replace(again, lost=missed or again.lost)
        if state.lost and not allow_lost:
            raise InvalidInputError(self.lost_message(state.lost))
        return state

    def _list(self, start: int, listed: Collection[ObjectInfo] | None = None) -> LogState:
        """List from a checkpoint on; its own version is listed too, since that is there unless the log was deleted.

        An outcome whose entry is gone takes up its slot as well: whoever claimed the slot again would find that it has
        ended.
        """
        entries: set[int] = set()
        outcomes: set[int] = set()
        marks: list[str] = []
        ids: set[str] = set()
        first = self._layout.entry_key(start - 1) if start else ""  # an outcome sorts before its entry
        for found in self.store.list(self._layout.log_prefix, start_after=first) if listed is None else listed:
            name = found.key.removeprefix(self._layout.log_prefix)
            slot, mark = SLOT.fullmatch(name), MARK.fullmatch(name)
            if found.size_bytes > MAX_ENTRY_BYTES:
                raise InvalidInputError(f"{found.key} has {found.size_bytes:,} bytes: that is no log entry; look at it")
            if slot is not None:
                (entries if slot[2] == "json" else outcomes).add(int(slot[1]))
            elif mark is not None and mark[1] == "id":
                ids.add(mark[2])
            elif mark is not None:
                marks.append(found.key)
        numbers = self._marks(marks)
        newest = max(entries | outcomes, default=start)
        trimmed = max(numbers["trimmed"], default=0)
        whole = range(max(start - 1, trimmed) + 1, newest + 1) if entries | outcomes else range(0)
        if whole.stop - whole.start > len(entries) + len(numbers["lost"]) + MOST_LOST:
            raise InvalidInputError(
                f"{self._layout.entry_key(newest)}, or the outcome beside it, is far beyond the"
                f" {counted(len(entries), 'entry')} of this log. If vacuums have trimmed the log, its mark"
                f" {self._layout.log_prefix}trimmed-… is lost: bring that back from an older version of the object. If"
                " not, it is none of this log: look at it, and move it away"
            )
        self._ids = frozenset(ids)
        return LogState(
            newest=newest,
            in_doubt=frozenset(entries - outcomes),
            listed_after=start,
            versions=frozenset(entries),
            orphans=frozenset(outcomes - entries),
            ids=self._ids,
            unverified=numbers["recovered"],
            rolled_back=numbers["rolled-back"],
            trimmed=trimmed,
            lost=frozenset(whole) - entries - numbers["lost"] - {0},
            given_up=numbers["lost"],
        )

    def _with_log_id(self, state: LogState) -> LogState:
        """Return the state with the id that ``owner.json`` says the log has; put it back where only that was lost."""
        if not self._expected_id or self._expected_id in state.ids:
            return state
        self._ids = frozenset()  # the question is of which log the entries are
        newest = max(state.versions, default=0)
        record = self.find(newest) if newest else None
        if record is None or record.entry.log_id != self._expected_id:
            owner = readable_owner(self.store, self._layout)
            if owner is None or owner.log_id != self._expected_id:
                raise ConflictError(
                    f"the log below {self._layout.root} was deleted since this call began: what happened since cannot"
                    " be told. This call changed nothing. Run it again"
                )
            raise InvalidInputError(
                f"{self._layout.log_prefix} is not the log that {self._layout.owner_key} names: it was deleted, or is"
                " another table's. Nothing was changed. Put the log back from older versions of the bucket's objects,"
                f" or a backup; or forget the table's history: delete {self._layout.owner_key}, settled.json beside it"
                " and all of log/."
            )
        self.store.put(self._mark("id", self._expected_id), b"")
        self._ids = frozenset({self._expected_id})
        return replace(state, ids=state.ids | {self._expected_id})

    def lost_message(self, lost: Collection[int]) -> str:
        """Say which entries are lost, and what to do."""
        shown = few(sorted(lost))
        return (
            f"entries of the log below {self._layout.root} are lost: {len(lost)} (version {shown}). They are gone, and"
            " no vacuum has deleted them. What they published, and under which idempotency keys, is not known. Nothing"
            f" was changed. Put {self._layout.entry_key(min(lost))} back from an older version of the object, or a"
            " backup. If it is lost for good, `table-writer recover TABLE --accept-loss` goes on without it: readers"
            " keep the partitions that they see now."
        )

    def accept_loss(self, *, dry_run: bool = False) -> frozenset[int]:
        """Declare that lost entries are lost for good; returns their versions. Their slots are never claimed again."""
        lost = self.read_state(listed_after=0, allow_lost=True).lost
        for version in sorted(() if dry_run else lost):
            self.store.put(self._mark("lost", version), b"")
        return lost

    @property
    def _log_id(self) -> str:
        return self._expected_id or min(self._ids, default="")

    def _mark(self, kind: str, value: int | str) -> str:
        return f"{self._layout.log_prefix}{kind}-{value if isinstance(value, str) else f'{value:020d}'}"

    def read_newest(self, count: int) -> LogState:
        """List as many of the newest entries as asked for, if not a few more; all if there are no more."""
        state, span = self.read_state(), count
        while state.listed_after and len(state.versions) < count:
            state = self.read_state(listed_after=max(0, state.newest - span))
            span *= 4  # vacuums have trimmed some
        return state

    def read_history(self, state: LogState | None = None) -> History:
        """Read every record that is left in the log: two requests an entry, several at once.

        Entries that a vacuum trims meanwhile are left out: nothing depends on them. ``state`` is what a listing of the
        whole log has just shown; by default it is listed now. Raises ``InvalidInputError`` if an entry cannot be read,
        or if all of them take more memory than they may.
        """
        return self._history(state or self.read_state(listed_after=0), None, Allowance(self._memory_bytes))

    def _history(self, state: LogState, fold: TableState | None, allowance: Allowance) -> History:
        versions = (version for version in sorted(state.versions) if fold is None or version > fold.version)
        found = [
            record for record in many(lambda version: self.find(version, allowance), versions) if record is not None
        ]
        return History(self._layout, found, state.unverified, lost=state.lost | state.given_up, fold=fold)

    def read_recent(self, *, allow_lost: bool = False) -> History:
        """Read what is to be done, however long the log is: what a vacuum has folded, and the records after that.

        Where there is no fold, or it must not be believed, every record is read. ``allow_lost`` as in
        :meth:`read_state`.
        """
        allowance = Allowance(self._memory_bytes)
        state, fold = self.read_recent_state(allow_lost=allow_lost, allowance=allowance)
        history = self._history(state, fold, allowance)
        return (
            self.read_history(self.read_state(listed_after=0, allow_lost=allow_lost))
            if counts_twice(history)
            else history
        )

    def explained_history(
        self, history: History, here: Mapping[PartitionValues, str], *, allow_lost: bool = False
    ) -> History:
        """Return a history with all records if only they can tell how partitions came to where they are."""
        if not history.needs_entries(here):
            return history
        return self.read_history(self.read_state(listed_after=0, allow_lost=allow_lost))

    def read_recent_state(self, *, allow_lost: bool = False, allowance: Allowance | None = None) -> Recent:
        """List the log from the newest fold on, and return that too; all of it where there is none.

        One request where the log fits on a page and has no fold; else six at the most.
        """
        page, more = self.store.list_page(self._layout.log_prefix)
        marks = self._marks(mark.key for mark in (self._list_marks() if more else page))
        for version in sorted(marks["folded"], reverse=True)[:MOST_FOLDS]:
            fold = self._read_fold(version, allowance or Allowance(self._memory_bytes))
            if fold is not None:
                state = self.read_state(listed_after=version, allow_lost=allow_lost)
                if (
                    state.listed_after
                    and fold.stands_for(state.unverified)
                    and fold.log_id in (state.ids or {fold.log_id})
                ):
                    return Recent(state, fold)
            self._passed_over.add(version)
        return Recent(self.read_state(listed_after=0, allow_lost=allow_lost, listed=None if more else page))

    def _marks(self, keys: Iterable[str]) -> defaultdict[str, frozenset[int]]:
        """Return the versions that marks name, by what they say of them."""
        names = (key.removeprefix(self._layout.log_prefix) for key in keys)
        found = [(mark[1], mark[2]) for name in names if (mark := MARK.fullmatch(name))]
        numbers: defaultdict[str, frozenset[int]] = defaultdict(frozenset)
        for kind, number in found:
            numbers[kind] |= {int(number)} if number.isdecimal() else frozenset()
        return numbers

    def _list_marks(self) -> Iterator[ObjectInfo]:
        return self.store.list(self._layout.log_prefix, start_after=f"{self._layout.log_prefix}:")  # after all numbers

    def _read_fold(self, version: int, allowance: Allowance) -> TableState | None:
        """Read a fold if it can be believed: the entry that it ends with must be there, and have ended."""
        if version in self._folds:
            return self._folds[version]
        key = self._mark("folded", version)
        stored = self.store.get(key)
        if stored is None:
            return None
        parse = partial(fold_from_json, layout=self._layout, older_seconds=stored.age_seconds)
        try:
            fold = allowance.parsed(stored.body, parse)
            last = self.find(version, allowance)
        except (ValueError, KeyError, TypeError, RecursionError, InvalidInputError) as error:
            logger.warning("%s is passed over, and all entries are read: %s", key, error)
            return None
        is_same = last is not None and last.outcome is not None and last.entry.write_id == fold.write_id
        if not is_same or fold.version != version:
            logger.warning("%s is passed over, and all entries are read: it is of another log", key)
            return None
        self._folds[version] = replace(fold, read_at=stored.info.modified_at + timedelta(seconds=stored.age_seconds))
        return self._folds[version]

    def read_oldest(self, history: History, age_seconds: float) -> Oldest:
        """List the entries before a history's fold, as far as they ended longer ago than this, and which are gone."""
        fold = history.fold
        if fold is None or fold.read_at is None:
            return Oldest()
        ended: set[int] = set()
        listed: set[int] = set()
        last = 0
        for version, is_entry, found in self._list_slots(fold.version):
            if not is_entry and (fold.read_at - found.modified_at).total_seconds() <= age_seconds:
                break
            if is_entry and last == version:
                ended.add(version)
            last = last if is_entry else version
            listed.add(version)
        trimmed = max(self._marks(mark.key for mark in self._list_marks())["trimmed"], default=0)
        return Oldest(frozenset(ended), frozenset(listed), trimmed)

    def save_fold(self, history: History, oldest: Oldest, trimmed: Collection[int] = ()) -> int | None:
        """Fold what has ended, if that is much more than before; returns up to which version, ``None`` if nothing.

        Not where a recovery has begun since the history's marks were listed: it may have ended what the listing showed
        in doubt. If it cannot be put, others read more. The fold before stays for those who are about to read it.
        """
        earlier, version = history.fold.version if history.fold else 0, self.fold_version(history)
        try:
            if not version or self._marks(mark.key for mark in self._list_marks())["recovered"]:
                return None
            folded_history = history.up_to(version)
            body = fold_to_json(Trimming(folded_history, oldest).fold(self._log_id, trimmed))
            again = fold_from_json(body, layout=self._layout, older_seconds=0.0)
            if again.facts() != folded_history.state.facts():
                logger.error("the log up to version %d was not folded: what would be read again differs", version)
                return None
            self.store.put(self._mark("folded", version), packed(body, self._memory_bytes))
            if self._read_checkpoint()[0] < version:
                self._put_checkpoint(version)
            folds = self._marks(mark.key for mark in self._list_marks())["folded"] - {version}
            useless = sorted(number for number in folds if number < earlier or number in self._passed_over)
            self.store.delete([self._mark("folded", number) for number in useless])
        except (StorageError, ValueError) as error:
            logger.warning("the log up to version %d was not folded: %s", version, error)
            return None
        return version

    def fold_version(self, history: History) -> int:
        """Return up to which version a vacuum folds the log now; 0 where that is not worth it."""
        version = foldable(history)
        count = sum(record.entry.version <= version for record in history.records)
        return version if count >= FOLD_EVERY_VERSIONS else 0

    def find_key(self, key: Key, recent: Recent | None = None) -> SlotRecord | None:
        """Return the published entry with an idempotency key, ``None`` if there is none that counts.

        Reads back from the newest entry, more at a time the further it gets, to the fold, which knows all keys up to
        its version. Batches of a stream come in order, so reading
        ends at an earlier batch of the stream, which is usually the newest entry. While the log knows a rollback, after
        which batches come again, it does not end there. The whole log is read only for a key that a rollback may have
        made free again.
        """
        return self._search(recent or self.read_recent_state()).look_up(key)[0]

    def find_batch(self, key: Key, recent: Recent) -> tuple[SlotRecord | None, LogEntry | None]:
        """Return the published entry with a stream's key, and the newest one of its stream that counts."""
        return self._search(recent).look_up_batch(key)

    def _search(self, recent: Recent) -> KeySearch:
        allowance = Allowance(self._memory_bytes)
        state, fold = recent
        return KeySearch(
            find=lambda version: self.find(version, allowance),
            read_whole=lambda: self.read_history().records,
            versions=tuple(sorted(version for version in state.versions if fold is None or version > fold.version)),
            is_in_order=not state.rolled_back,
            fold=fold,
        )

    def read(self, version: int) -> SlotRecord:
        """Read one entry with its outcome; ``InvalidInputError`` if it is not there, or not valid."""
        record = self.find(version)
        if record is None:
            raise InvalidInputError(f"log entry {version} below {self._layout.root} is not there any more")
        return record

    def find(self, version: int, allowance: Allowance | None = None) -> SlotRecord | None:
        """Read one entry with its outcome, ``None`` if it is not there any more.

        A record that has ended is kept, and reading it again takes nothing of the allowance.
        """
        allowance = allowance or Allowance(self._memory_bytes)
        if version in self._ended_records:
            return self._ended_records[version]
        stored = self.store.get(self._layout.entry_key(version))
        if stored is None:
            return None
        entry = self._entry(version, stored.body, allowance)
        stored_outcome = self._read_outcome(version, allowance)
        if stored_outcome is None:
            return SlotRecord(entry, None, stored.age_seconds)
        if stored_outcome.of not in ("", entry.write_id):
            raise InvalidInputError(
                self._unreadable(version, f"it is of write {stored_outcome.of}, not {entry.write_id}")
            )
        record = SlotRecord(
            entry,
            stored_outcome.outcome,
            stored.age_seconds,
            recorded_by=stored_outcome.recorded_by,
            outcome_age_seconds=stored_outcome.age_seconds,
            superseded=stored_outcome.superseded,
            found=dict(stored_outcome.found),
        )
        self._ended_records[version] = record
        return record

    def find_entry(self, version: int) -> LogEntry | None:
        """Read one entry without its outcome, ``None`` if it is not there any more: one request, and once."""
        if version in self._ended_records:
            return self._ended_records[version].entry
        if version not in self._entries:
            stored = self.store.get(self._layout.entry_key(version))
            if stored is None:
                return None
            self._entries[version] = self._entry(version, stored.body, Allowance(self._memory_bytes))
        return self._entries[version]

    def seen_row_bytes(self, state: LogState, schema: str) -> int:
        """Return how wide the rows of the last write were, 0 if that is not known: one request, seldom more.

        Rows of another ``schema`` say nothing. Only speed depends on it: an entry that cannot be read is reported by
        those who need it.
        """
        for version in sorted(state.versions, reverse=True)[:RECENT_ENTRIES]:
            try:
                entry = self.find_entry(version)
            except InvalidInputError as error:
                logger.warning("how wide rows are is not known: %s", error)
                return 0
            if entry is not None and entry.row_bytes:
                return entry.row_bytes if entry.schema == schema else 0
        return 0

    def _entry(self, version: int, stored: bytes, allowance: Allowance) -> LogEntry:
        parse = partial(LogEntry.from_json, root=self._layout.root, version=version)
        try:
            entry = allowance.parsed(stored, parse)
        except TooMuchError as error:
            raise InvalidInputError(f"log entry {version} below {self._layout.root} cannot be read: {error}") from error
        except ValueError as error:
            what = f"log entry {version} below {self._layout.root} cannot be read: {error}"
            why = str(error) if isinstance(error, InvalidInputError) else what
            raise InvalidInputError(f"{why}. {self._way_out_of_damage(version)}") from error
        if entry.log_id and self._ids and entry.log_id not in self._ids:
            raise InvalidInputError(
                f"log entry {version} below {self._layout.root} is of another log: it was copied here."
                f" {self._way_out_of_damage(version)}"
            )
        return entry

    def _way_out_of_damage(self, version: int) -> str:
        return (
            f"Put {self._layout.entry_key(version)} back from an older version of the object, or a backup. If it is"
            " damaged for good, delete it, and run `table-writer recover TABLE --accept-loss`"
        )

    def outcome(self, version: int) -> Outcome | None:
        """Return the outcome of an entry, ``None`` while it is in doubt."""
        stored_outcome = self.stored_outcome(version)
        return None if stored_outcome is None else stored_outcome.outcome

    def stored_outcome(self, version: int) -> StoredOutcome | None:
        """Return how an entry ended, ``None`` while it is in doubt."""
        return self._read_outcome(version, Allowance(self._memory_bytes))

    def _read_outcome(self, version: int, allowance: Allowance) -> StoredOutcome | None:
        key = self._layout.outcome_key(version)
        stored = self.store.get(key)
        if stored is None:
            return None
        try:
            parse = partial(msgspec.json.decode, type=StoredOutcome)
            found: StoredOutcome = allowance.parsed(stored.body, parse, most=MAX_OUTCOME_BYTES)
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(self._unreadable(version, str(error))) from error
        return msgspec.structs.replace(found, age_seconds=stored.age_seconds)

    def _unreadable(self, version: int, why: str) -> str:
        key = self._layout.outcome_key(version)
        return (
            f"the outcome at {key} cannot be read: {why}. Delete it, and run `table-writer recover TABLE`, which finds"
            f" out from newer entries and from the metastore how version {version} ended"
        )

    def trim(self, versions: Collection[int]) -> None:
        """Delete entries on which nothing depends any more.

        First a mark says so: an entry above it that is gone is lost. An entry goes before its outcome, since an entry
        without an outcome would be in doubt.
        """
        wanted = set(versions)
        marks = self._marks(mark.key for mark in self._list_marks())
        entries, outcomes = self._slots_up_to(max(wanted | marks["trimmed"], default=0))
        if wanted:  # who trims meanwhile has put a mark before
            marks = self._marks(mark.key for mark in self._list_marks())
        ordered = sorted(wanted - marks["folded"])
        trimmed = max(marks["trimmed"], default=0)
        if ordered:
            there = entries | marks["lost"]
            lost = [version for version in range(trimmed + 1, ordered[-1]) if version not in there]
            if lost:
                raise InvalidInputError(self.lost_message(lost))
            trimmed = max(trimmed, ordered[-1])
            self.store.put(self._mark("trimmed", ordered[-1]), b"")
            self.store.delete([self._layout.entry_key(version) for version in ordered])
        entries -= set(ordered)
        orphans = sorted(version for version in outcomes - entries if version <= trimmed)  # those of earlier trims, too
        gone = [version for version in orphans if self.store.head(self._layout.entry_key(version)) is None]
        useless_marks = {
            kind: sorted(number for number in marks[kind] - entries if number <= trimmed) for kind in OF_ONE_ENTRY
        }
        useless = [
            *(self._mark(kind, version) for kind, versions in useless_marks.items() for version in versions),
            *(self._mark("trimmed", version) for version in sorted(marks["trimmed"] - {trimmed})),
        ]
        self.store.delete([*(self._layout.outcome_key(version) for version in gone), *useless])

    def _slots_up_to(self, last: int) -> tuple[set[int], set[int]]:
        """List the entries and the outcomes up to a version; also those without an entry, of earlier trims."""
        entries: set[int] = set()
        outcomes: set[int] = set()
        if not last:
            return entries, outcomes
        for version, is_entry, _ in self._list_slots(last):
            (entries if is_entry else outcomes).add(version)
        return entries, outcomes

    def _list_slots(self, last: int) -> Iterator[tuple[int, bool, ObjectInfo]]:
        """List slots up to a version: whether it is the entry, or the outcome, which sorts before it."""
        for found in self.store.list(self._layout.log_prefix):
            name = found.key.removeprefix(self._layout.log_prefix)
            slot = SLOT.fullmatch(name)
            if name > ":" or (slot is not None and int(slot[1]) > last):
                return
            if slot is not None:  # others are not ours, such as .keep
                yield int(slot[1]), slot[2] == "json", found

    def claim(self, entry: LogEntry) -> bool:
        """Put an entry into its slot; exactly one of several claimants gets ``True``.

        Raises ``InvalidInputError`` if the entry is so long that nobody would read it again; nothing was stored then.
        """
        text = replace(entry, log_id=self._log_id).to_json(self._layout.root)
        try:
            body = packed(text, self._memory_bytes)
        except ValueError as error:
            raise InvalidInputError(
                f"the log entry of this {entry.operation.value} of {entry.table} cannot be stored: {error}. Nothing"
                " changed; change fewer partitions at a time",
                **entry.named,
            ) from error
        claimed = self.store.put_if_absent(self._layout.entry_key(entry.version), body)
        logger.info("write_id=%s version=%d claimed=%s", entry.write_id, entry.version, claimed)
        return claimed

    def claim_age(self, entry: LogEntry) -> float | None:
        """Return how old a claim is by the store's clock; ``None`` if it does not stand, or nobody can say."""
        try:
            stored = self.store.get(self._layout.entry_key(entry.version))
        except StorageError as error:
            logger.warning("write_id=%s the age of its claim is not known: %s", entry.write_id, error)
            return None
        return None if stored is None else stored.age_seconds

    def record_outcome(
        self,
        version: int,
        outcome: Outcome,
        *,
        write_id: str,
        superseded: Mapping[PartitionValues, str | None] = MappingProxyType({}),
        moved: Mapping[PartitionValues, str | None] = MappingProxyType({}),
        of: str = "",
    ) -> StoredOutcome:
        """Record how an entry ended; returns what stands, which may be an earlier record.

        ``write_id`` is the entry's own where its calls were seen to end, by whomever. Else it is the recovery's, and a
        call may still come late. ``superseded`` partitions were not switched, with where they were found instead;
        ``moved`` ones were, and found elsewhere.
        ``of`` is the write_id of the entry: an outcome of another table may lie here by mistake.
        """
        body: dict[str, Any] = {"outcome": outcome.value, "version": version, "settled_by": write_id, "of": of}
        body |= {"superseded": sorted(map(list, superseded))} if superseded else {}
        found = tuple(
            (values, place) for values, place in sorted({**superseded, **moved}.items()) if place != NOT_KNOWN
        )
        body |= {"found": found} if found else {}
        if self.store.put_if_absent(self._layout.outcome_key(version), packed(json.dumps(body).encode())):
            return StoredOutcome(
                outcome=outcome, recorded_by=write_id, of=of, superseded=frozenset(superseded), found=found
            )
        stands = self.stored_outcome(version)
        if stands is None:
            raise StorageError(f"the outcome of log entry {version} below {self._layout.root} was there, and is gone")
        return stands

    def take_last_word(self, version: int, write_id: str) -> str:
        """Return whose word on an entry in doubt is the last one: this writer's, unless another has taken it before.

        Its claimant takes it before it says that the metastore has refused; a recovery before it switches, in the name
        of its own entry. So of the two at most one acts, however late a request of the other arrives.
        """
        key = self._mark("last-word", version)
        return write_id if self.store.put_if_absent(key, write_id.encode()) else self.last_word(version)

    def last_word(self, version: int) -> str:
        """Return the ``write_id`` that has taken the last word on an entry; empty if none has."""
        stored = self.store.get(self._mark("last-word", version))
        return "" if stored is None else stored.body.decode(errors="replace")

    def save_checkpoint(self, state: LogState) -> None:
        """Save up to where nothing is in doubt, so that the next writers list less; if that fails they list more."""
        if state.checkpoint - state.listed_after < CHECKPOINT_EVERY_VERSIONS:
            return
        try:
            self._put_checkpoint(state.checkpoint)
        except StorageError as error:
            logger.warning("the checkpoint %s was not saved: %s", self._layout.checkpoint_key, error)

    def _put_checkpoint(self, version: int) -> None:
        checkpoint = {"version": version, "log_id": self._log_id}
        self.store.put(self._layout.checkpoint_key, json.dumps(checkpoint).encode())

    def remember_recovery(self, version: int) -> None:
        """Note, before a recover entry is claimed, that calls may come late; if that fails, nothing is recovered."""
        self.store.put(self._mark("recovered", version), b"")

    def release_recovery(self, version: int) -> None:
        """Note that a recovery has nothing under way: the metastore has refused, and another may go on at once."""
        self.store.put(self._mark("recovered", version), RELEASED)

    def is_released(self, version: int) -> bool:
        """Return whether a recovery has nothing under way, and will not go on."""
        stored = self.store.get(self._mark("recovered", version))
        return stored is not None and stored.body == RELEASED

    def forget_recoveries(self, versions: Iterable[int]) -> None:
        """Note that all partitions are where they should be, and that no call of before these recoveries can come."""
        self.store.delete([self._mark("recovered", version) for version in sorted(versions)])

    def may_calls_come(self, version: int) -> bool:
        """Return whether calls from before a recovery may still come, or its own, to which its claim gives a day."""
        stored = self.store.get(self._mark("recovered", version))
        return stored is not None and stored.age_seconds < MAX_TIMEOUT_SECONDS + LATE_CALL_SECONDS

    def remember_rollback(self, version: int) -> None:
        """Note, before a rollback is claimed, that batches of streams may come again; if that fails, there is none."""
        self.store.put(self._mark("rolled-back", version), b"")

    def with_checkpoint(self, state: LogState) -> LogState:
        """Return the state of the whole log with the stored checkpoint: its age tells writers when to renew it."""
        version, of_log = self._read_checkpoint()
        is_ours = version in state.versions and (not of_log or of_log in state.ids)
        return replace(state, listed_after=version) if is_ours else state

    def _read_checkpoint(self) -> tuple[int, str]:
        """Return up to which version nothing is in doubt, and of which log."""
        stored = self.store.get(self._layout.checkpoint_key)
        if stored is None:
            return 0, ""
        try:
            checkpoint = small_json(stored.body)
            return max(0, int(checkpoint["version"])), str(checkpoint.get("log_id", ""))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            logger.warning("the checkpoint %s cannot be read; listing the whole log", self._layout.checkpoint_key)
            return 0, ""
