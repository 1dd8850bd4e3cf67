"""One table's log: it is read from its entries or from its newest fold on, folded, trimmed, and searched for keys."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final, NamedTuple

from table_writer.errors import DamagedError, InvalidInputError, StorageError
from table_writer.model.entry import Key, LogEntry
from table_writer.model.table import PartitionValues
from table_writer.model.table_read import ReadVersion
from table_writer.model.write import TableLayout
from table_writer.protocol.log.fold import fold_from_json, fold_to_json
from table_writer.protocol.log.history import History
from table_writer.protocol.log.keys import KeySearch
from table_writer.protocol.log.known_keys import KnownKeys
from table_writer.protocol.log.listing import Lister, Listing
from table_writer.protocol.log.marks import OF_ONE_ENTRY, Closing, Marks
from table_writer.protocol.log.records import SlotRecord
from table_writer.protocol.log.slots import Slots
from table_writer.protocol.log.state import TableState
from table_writer.protocol.log.stored import MAX_MEMORY_BYTES, Allowance, packed
from table_writer.protocol.log.trimming import OldEntries, Trimming, counts_twice, foldable
from table_writer.storage.object_store import ObjectStore, many

logger = logging.getLogger(__name__)
FOLD_EVERY_VERSIONS: Final = 100  # a log shorter than that is read as fast without
MOST_FOLDS: Final = 3  # that are tried, the newest first: two are kept
RECENT_ENTRIES: Final = 3  # among which the last write is looked for: after it come a vacuum, or a rollback


class RecentLog(NamedTuple):
    """The newest fold, and the log's listing after it; without a fold from the beginning."""

    listing: Listing
    fold: TableState | None = None


class TableLog:
    """The log of one table; ``memory_bytes`` is how much memory one reading of it may take."""

    def __init__(self, store: ObjectStore, layout: TableLayout, *, memory_bytes: int = MAX_MEMORY_BYTES) -> None:
        self.store = store
        self._layout = layout
        self._memory_bytes = memory_bytes
        self.marks = Marks(store, layout)
        self.slots = Slots(store, layout, memory_bytes=memory_bytes)
        self.lister = Lister(store, layout, self.slots, self.marks)
        self._folds: dict[int, TableState] = {}  # a fold never changes
        self._passed_over: set[int] = set()  # folds that cannot be believed

    def expect(self, log_id: str) -> None:
        """Refuse from now on to read any other log than this; empty: not known."""
        self.slots.expected_id = log_id

    def read_history(self, listing: Listing | None = None) -> History:
        """Read every record that is left in the log: two requests an entry, several at once.

        Entries that a vacuum trims meanwhile are left out: nothing depends on them. ``listing`` is of the whole log; by
        default it is listed now. Raises ``InvalidInputError`` if an entry cannot be read,
        or if all of them take more memory than they may.
        """
        return self._history(listing or self.lister.read(listed_after=0), None, Allowance(self._memory_bytes))

    def _history(self, listing: Listing, fold: TableState | None, allowance: Allowance) -> History:
        versions = (version for version in sorted(listing.versions) if fold is None or version > fold.version)
        found = [
            record
            for record in many(lambda version: self.slots.find(version, allowance), versions)
            if record is not None
        ]
        return History(self._layout, found, listing.unverified, lost=listing.lost | listing.accepted_losses, fold=fold)

    def read_recent(self, *, allow_lost: bool = False) -> History:
        """Read what is to be done, however long the log is: what a vacuum has folded, and the records after that.

        Where there is no fold, or it must not be believed, every record is read. ``allow_lost`` as in
        ``Lister.read``.
        """
        allowance = Allowance(self._memory_bytes)
        listing, fold = self.list_recent(allow_lost=allow_lost, allowance=allowance)
        history = self._history(listing, fold, allowance)
        return (
            self.read_history(self.lister.read(listed_after=0, allow_lost=allow_lost))
            if counts_twice(history)
            else history
        )

    def explained_history(
        self, history: History, here: Mapping[PartitionValues, str], *, allow_lost: bool = False
    ) -> History:
        """Return a history with all records if only they can tell how partitions came to where they are."""
        if not history.needs_entries(here):
            return history
        return self.read_history(self.lister.read(listed_after=0, allow_lost=allow_lost))

    def list_recent(self, *, allow_lost: bool = False, allowance: Allowance | None = None) -> RecentLog:
        """List the log from the newest fold on, and return that too; all of it where there is none.

        One request where the log fits on a page and has no fold; else six at the most.
        """
        page, more = self.store.list_page(self._layout.log_prefix)
        marks = self.marks.numbers(mark.key for mark in (self.marks.list() if more else page))
        for version in sorted(marks["folded"], reverse=True)[:MOST_FOLDS]:
            fold = self._read_fold(version, allowance or Allowance(self._memory_bytes))
            if fold is not None:
                listing = self.lister.read(listed_after=version, allow_lost=allow_lost)
                if (
                    listing.listed_after
                    and fold.stands_for(listing.unverified)
                    and fold.log_id in (listing.ids or {fold.log_id})
                ):
                    return RecentLog(listing, fold)
            self._passed_over.add(version)
        return RecentLog(self.lister.read(listed_after=0, allow_lost=allow_lost, listed=None if more else page))

    def _read_fold(self, version: int, allowance: Allowance) -> TableState | None:
        """Read a fold if it can be believed: the entry that it ends with must be there, and have ended."""
        if version in self._folds:
            return self._folds[version]
        key = self.marks.key("folded", version)
        stored = self.store.get(key)
        if stored is None:
            return None
        parse = partial(fold_from_json, layout=self._layout, older_seconds=stored.age_seconds)
        try:
            fold = allowance.parsed(stored.body, parse)
            last = self.slots.find(version, allowance)
        except (ValueError, KeyError, TypeError, RecursionError, InvalidInputError) as error:
            logger.warning("%s is passed over, and all entries are read: %s", key, error)
            return None
        is_same = last is not None and last.outcome is not None and last.entry.write_id == fold.write_id
        if not is_same or fold.version != version:
            logger.warning("%s is passed over, and all entries are read: it is of another log", key)
            return None
        self._folds[version] = replace(fold, read_at=stored.info.modified_at + timedelta(seconds=stored.age_seconds))
        return self._folds[version]

    def read_oldest(self, history: History, age_seconds: float) -> OldEntries:
        """List the entries before a history's fold, as far as they ended longer ago than this, and which are gone."""
        fold = history.fold
        if fold is None or fold.read_at is None:
            return OldEntries()
        ended: set[int] = set()
        listed: set[int] = set()
        last = 0
        for version, is_entry, found in self.lister.list_slots(fold.version):
            if not is_entry and (fold.read_at - found.modified_at).total_seconds() <= age_seconds:
                break
            if is_entry and last == version:
                ended.add(version)
            last = last if is_entry else version
            listed.add(version)
        trimmed = max(self.marks.listed("trimmed"), default=0)
        return OldEntries(frozenset(ended), frozenset(listed), trimmed)

    def save_fold(self, history: History, oldest: OldEntries, trimmed: Collection[int] = ()) -> int | None:
        """Fold what has ended, if that is much more than before; returns up to which version, ``None`` if nothing.

        Not where a recovery has begun since the history's marks were listed: it may have ended what the listing showed
        in doubt. If it cannot be put, others read more. The fold before stays for those who are about to read it.
        """
        earlier, version = history.fold.version if history.fold else 0, self.fold_version(history)
        try:
            if not version or not self.marks.listed("recovered") <= set(history.unverified or ()):
                return None
            folded_history = history.up_to(version)
            body = fold_to_json(Trimming(folded_history, oldest).fold(self.slots.log_id, trimmed))
            again = fold_from_json(body, layout=self._layout, older_seconds=0.0)
            if again.facts() != folded_history.state.facts():
                logger.error("the log up to version %d was not folded: what would be read again differs", version)
                return None
            self.store.put(self.marks.key("folded", version), packed(body, self._memory_bytes))
            if self.lister.read_checkpoint()[0] < version:
                self.lister.put_checkpoint(version)
            folds = self.marks.listed("folded") - {version}
            useless = sorted(number for number in folds if number < earlier or number in self._passed_over)
            self.store.delete([self.marks.key("folded", number) for number in useless])
        except (StorageError, ValueError) as error:
            logger.warning("the log up to version %d was not folded: %s", version, error)
            return None
        return version

    def fold_version(self, history: History) -> int:
        """Return up to which version a vacuum folds the log now; 0 where that is not worth it."""
        version = foldable(history)
        count = sum(record.entry.version <= version for record in history.records)
        return version if count >= FOLD_EVERY_VERSIONS else 0

    def find_key(self, key: Key, recent: RecentLog | None = None) -> SlotRecord | None:
        """Return the published entry with an idempotency key, ``None`` if there is none that counts.

        Reads back from the newest entry, more at a time the further it gets, to the fold, which knows all keys up to
        its version. Batches of a stream come in order, so reading
        ends at an earlier batch of the stream, which is usually the newest entry. While the log knows a rollback, after
        which batches come again, it does not end there. The whole log is read only for a key that a rollback may have
        made free again.
        """
        return self._search(recent or self.list_recent()).look_up(key)[0]

    def find_batch(self, key: Key, recent: RecentLog) -> tuple[SlotRecord | None, LogEntry | None]:
        """Return the published entry with a stream's key, and the newest one of its stream that counts."""
        return self._search(recent).look_up_batch(key)

    def _search(self, recent: RecentLog) -> KeySearch:
        allowance = Allowance(self._memory_bytes)
        listing, fold = recent
        return KeySearch(
            find=lambda version: self.slots.find(version, allowance),
            read_whole=lambda: self.read_history().records,
            versions=tuple(sorted(version for version in listing.versions if fold is None or version > fold.version)),
            is_in_order=not listing.rolled_back,
            folded=fold.keys if fold else KnownKeys(),
        )

    def unseen_at(self, based_on: int | None) -> frozenset[int]:
        """Return the versions up to another one whose rows are none of those that are based on that.

        A number, as a result tells it, says that its version is published, and nothing of versions that had been
        claimed before and were published after it. Who has read at a version has waited for all up to it. A number
        whose own entry is gone says nothing at all: it is returned itself, as a version of which nothing is known.
        """
        if not based_on or isinstance(based_on, ReadVersion):
            return frozenset()
        entry = self.slots.find_entry(based_on)
        return entry.in_doubt if entry is not None else frozenset({int(based_on)})

    def seen_row_bytes(self, listing: Listing, schema: str) -> int:
        """Return how wide the rows of the last write were, 0 if that is not known: one request, seldom more.

        Rows of another ``schema`` say nothing. Only speed depends on it: an entry that cannot be read is reported by
        those who need it.
        """
        for version in sorted(listing.versions, reverse=True)[:RECENT_ENTRIES]:
            try:
                entry = self.slots.find_entry(version)
            except InvalidInputError as error:
                logger.warning("how wide rows are is not known: %s", error)
                return 0
            if entry is not None and entry.row_bytes:
                return entry.row_bytes if entry.schema == schema else 0
        return 0

    def _is_past(self, closing: Closing, trimmed: int) -> bool:
        """Return whether the slot that a mark names is another write's, or was trimmed: it will never count."""
        entry = self.slots.find_entry(closing.version)
        return closing.version <= trimmed if entry is None else not closing.is_of(entry)

    def trim(self, versions: Collection[int]) -> None:
        """Delete entries on which nothing depends any more.

        First a mark says so: an entry above it that is gone is lost. An entry goes before its outcome, since an entry
        without an outcome would be in doubt.
        """
        wanted = set(versions)
        keys = [mark.key for mark in self.marks.list()]
        marks, closings = self.marks.numbers(keys), self.marks.closings(keys)
        entries, outcomes = self.lister.slots_up_to(max(wanted | marks["trimmed"], default=0))
        if wanted:  # who trims meanwhile has put a mark before
            marks = self.marks.numbers(mark.key for mark in self.marks.list())
        ordered = sorted(wanted - marks["folded"])
        trimmed = max(marks["trimmed"], default=0)
        if ordered:
            there = entries | marks["lost"]
            lost = [version for version in range(trimmed + 1, ordered[-1]) if version not in there]
            if lost:
                raise DamagedError(self.lister.lost_message(lost))
            trimmed = max(trimmed, ordered[-1])
            self.store.put(self.marks.key("trimmed", ordered[-1]), b"")
            self.store.delete([self._layout.entry_key(version) for version in ordered])
        entries -= set(ordered)
        orphans = sorted(version for version in outcomes - entries if version <= trimmed)  # those of earlier trims, too
        gone = [version for version in orphans if self.store.head(self._layout.entry_key(version)) is None]
        useless_marks = {
            kind: sorted(number for number in marks[kind] - entries if number <= trimmed) for kind in OF_ONE_ENTRY
        }
        past = [closing for closing in closings if self._is_past(closing, trimmed)]
        useless = [
            *(self.marks.key(kind, version) for kind, versions in useless_marks.items() for version in versions),
            *(self.marks.key("trimmed", version) for version in sorted(marks["trimmed"] - {trimmed})),
            *(self.marks.key("reopened", version) for version in sorted(marks["reopened"])[:-1]),
            *(self.marks.key("closed", str(closing)) for closing in past),
        ]
        self.store.delete([*(self._layout.outcome_key(version) for version in gone), *useless])
