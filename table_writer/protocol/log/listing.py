"""One listing of a log: which slots are taken, what is in doubt, and what is lost."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from table_writer.errors import ConflictError, DamagedError, StorageError, counted, few
from table_writer.model.entry import Outcome
from table_writer.model.write import TableLayout
from table_writer.protocol.log.marks import MARK, Closing, Marks, MirrorMarks
from table_writer.protocol.log.owner import precedes, readable_owner
from table_writer.protocol.log.records import LogEnd
from table_writer.protocol.log.slots import Slots
from table_writer.protocol.log.stored import MAX_BYTES, small_json
from table_writer.storage.object_store import ObjectInfo, ObjectStore

logger = logging.getLogger(__name__)
CHECKPOINT_EVERY_VERSIONS: Final = 50  # a page of a listing holds 500 entries with their outcomes: this costs nothing
MOST_LOST: Final = 100_000  # entries; a slot further away was never claimed by this library
SLOT: Final = re.compile(r"([0-9]{20})\.(json|done)")


@dataclass(frozen=True, slots=True)
class Listing:
    """The slots and marks of a log, as one listing showed them."""

    newest: int  # 0: nothing was ever claimed
    in_doubt: frozenset[int]
    listed_after: int  # nothing up to this version was in doubt, and nothing before it was listed
    versions: frozenset[int]  # the slots found; those that a vacuum has trimmed are missing
    ids: frozenset[str] = frozenset()  # ids of the log: one that was deleted and begun again has another
    unverified: frozenset[int] = frozenset()  # recoveries after which nobody has looked yet whether a call came late
    rolled_back: frozenset[int] = frozenset()  # rollbacks: after them batches of streams may come again
    trimmed: int = 0  # up to here vacuums may have deleted entries
    lost: frozenset[int] = frozenset()  # entries that are gone, though no vacuum has deleted them
    accepted_losses: frozenset[int] = frozenset()  # lost entries that the log goes on without
    closings: tuple[Closing, ...] = ()  # the handovers that have closed it, in the order of versions
    opened: frozenset[int] = frozenset()  # the handovers that may have let others write to the mirror
    mirrors: Mapping[str, MirrorMarks] = field(default_factory=dict)  # by their kinds

    @property
    def closed_for(self) -> str:
        """The format in which the table goes on; empty: the log is open. The first handover counts."""
        return self.closings[0].kind if self.closings else ""

    @property
    def end(self) -> LogEnd:
        """The end of the log; a vacuum in doubt is in it as well, and changes no rows."""
        return LogEnd(self.newest, self.in_doubt)

    @property
    def checkpoint(self) -> int:
        """The newest version up to which nothing is in doubt."""
        return min(self.in_doubt) - 1 if self.in_doubt else self.newest


class Lister:
    """Lists one log."""

    def __init__(self, store: ObjectStore, layout: TableLayout, slots: Slots, marks: Marks) -> None:
        self._store = store
        self._layout = layout
        self._slots = slots
        self._marks = marks
        self._mirrors: Mapping[str, MirrorMarks] | None = None  # as the last listing showed them

    def read(
        self, *, listed_after: int | None = None, allow_lost: bool = False, listed: Collection[ObjectInfo] | None = None
    ) -> Listing:
        """List the log: two requests, or one when the caller knows a checkpoint.

        ``listed_after`` is a version up to which nothing was in doubt at an earlier look; by default the stored
        checkpoint. ``allow_lost`` also returns a log of which entries are lost: to look at it, or to declare the loss.
        ``listed`` is what a listing from there has just shown.
        Raises ``InvalidInputError`` if the log was deleted, or entries of it are lost, and ``ConflictError`` if it was
        deleted since :meth:`~table_writer.protocol.log.table_log.TableLog.expect` was told which one it is.
        """
        start, of_log = self.read_checkpoint() if listed_after is None else (listed_after, "")
        listing = self._list(start, listed)
        if start and (not listing.versions or (of_log and of_log not in listing.ids)):
            listing = self._list(0)  # somebody deleted the log, but not its checkpoint; or that is another log's
        listing = self._with_log_id(listing)
        missed: frozenset[int] = frozenset()
        while listing.lost and not missed:  # look again: a file system may list while entries come, and miss some
            again = self._with_log_id(self._list(listing.listed_after))
            missed = again.lost & listing.lost
            listing = replace(again, lost=missed or again.lost)
        if listing.lost and not allow_lost:
            raise DamagedError(self.lost_message(listing.lost))
        return listing

    @property
    def mirrors(self) -> Mapping[str, MirrorMarks]:
        """What marks say of mirrors, by their kinds, as the last listing showed them."""
        return self.read(allow_lost=True).mirrors if self._mirrors is None else self._mirrors

    def mirror(self, kind: str) -> MirrorMarks:
        """Return what they say of one kind."""
        return self.mirrors.get(kind, MirrorMarks())

    def _list(self, start: int, listed: Collection[ObjectInfo] | None = None) -> Listing:
        """List from a checkpoint on; its own version is listed too, since that is there unless the log was deleted.

        An outcome whose entry is gone takes up its slot as well: whoever claimed the slot again would find that it has
        ended.
        """
        entries: set[int] = set()
        outcomes: set[int] = set()
        marks: list[str] = []
        ids: set[str] = set()
        first = self._layout.entry_key(start - 1) if start else ""  # an outcome sorts before its entry
        for found in self._store.list(self._layout.log_prefix, start_after=first) if listed is None else listed:
            name = found.key.removeprefix(self._layout.log_prefix)
            slot, mark = SLOT.fullmatch(name), MARK.fullmatch(name)
            if found.size_bytes > MAX_BYTES:
                raise DamagedError(f"{found.key} has {found.size_bytes:,} bytes: that is no log entry; look at it")
            if slot is not None:
                (entries if slot[2] == "json" else outcomes).add(int(slot[1]))
            elif mark is not None and mark[1] == "id":
                ids.add(mark[2])
            elif mark is not None:
                marks.append(found.key)
        numbers = self._marks.numbers(marks)
        closings = sorted(self._marks.closings(marks))
        newest = max(entries | outcomes, default=start)
        trimmed = max(numbers["trimmed"], default=0)
        whole = range(max(start - 1, trimmed) + 1, newest + 1) if entries | outcomes else range(0)
        if whole.stop - whole.start > len(entries) + len(numbers["lost"]) + MOST_LOST:
            raise DamagedError(
                f"{self._layout.entry_key(newest)}, or the outcome beside it, is far beyond the"
                f" {counted(len(entries), 'entry')} of this log. If vacuums have trimmed the log, its mark"
                f" {self._layout.log_prefix}trimmed-… is lost: bring that back from an older version of the object. If"
                " not, it is none of this log: look at it, and move it away"
            )
        self._slots.ids = frozenset(ids)
        lost = frozenset(whole) - entries - numbers["lost"] - {0}
        listing = Listing(
            newest=newest,
            in_doubt=frozenset(entries - outcomes),
            listed_after=start,
            versions=frozenset(entries),
            ids=self._slots.ids,
            unverified=numbers["recovered"],
            rolled_back=numbers["rolled-back"],
            trimmed=trimmed,
            lost=lost,
            accepted_losses=numbers["lost"],
            closings=tuple(closing for closing in closings if self._closes(closing, numbers, lost)),
            opened=numbers["opened"],
            mirrors=self._marks.mirrors(marks),
        )
        self._slots.closed_for = listing.closed_for
        self._mirrors = listing.mirrors
        return listing

    def _closes(self, closing: Closing, numbers: Mapping[str, frozenset[int]], lost: Collection[int]) -> bool:
        """Return whether a mark counts: the slot that it names is its own write's, and no later version has undone it.

        A mark may arrive late, after its write has ended without that slot, or after its handover was undone. Of an
        entry that is lost nobody knows whose it was.
        """
        if closing.version < max(numbers["reopened"], default=0):
            return False
        if closing.version in lost or closing.version in numbers["lost"]:
            return True
        if not closing.is_of(self._slots.find_entry(closing.version)):
            return False
        return self._slots.outcome(closing.version) is not Outcome.ABANDONED

    def _with_log_id(self, listing: Listing) -> Listing:
        """Return the listing with the id that ``owner.json`` says the log has; put it back where only that was lost."""
        expected_id = self._slots.expected_id
        if any(precedes(expected_id, log_id) for log_id in listing.ids):
            raise ConflictError(
                f"a person has adopted the table below {self._layout.root} without another log since this call began,"
                " or an earlier owner.json was put back. This call changed nothing. Run it again; if that stays,"
                " `table-writer adopt` the table"
            )
        if not expected_id or expected_id in listing.ids:
            return listing
        self._slots.ids = frozenset()  # the question is of which log the entries are
        newest = max(listing.versions, default=0)
        record = self._slots.find(newest) if newest else None
        if record is None or record.entry.log_id != self._slots.expected_id:
            owner = readable_owner(self._store, self._layout)
            if owner is None or owner.log_id != self._slots.expected_id:
                raise ConflictError(
                    f"the log below {self._layout.root} was deleted since this call began: what happened since cannot"
                    " be told. This call changed nothing. Run it again"
                )
            raise DamagedError(
                f"{self._layout.log_prefix} is not the log that {self._layout.owner_key} names: it was deleted, or is"
                " another table's. Nothing was changed. Put the log back from older versions of the bucket's objects,"
                f" or a backup; or forget the table's history: delete {self._layout.owner_key}, checkpoint.json"
                " and log/ beside it, then `table-writer adopt TABLE --accept-loss`."
            )
        self._store.put(self._marks.key("id", self._slots.expected_id), b"")
        self._slots.ids = frozenset({self._slots.expected_id})
        return replace(listing, ids=listing.ids | {self._slots.expected_id})

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
        lost = self.read(listed_after=0, allow_lost=True).lost
        for version in sorted(() if dry_run else lost):
            self._store.put(self._marks.key("lost", version), b"")
        return lost

    def read_newest(self, count: int) -> Listing:
        """List as many of the newest entries as asked for, if not a few more; all if there are no more."""
        listing, span = self.read(), count
        while listing.listed_after and len(listing.versions) < count:
            listing = self.read(listed_after=max(0, listing.newest - span))
            span *= 4  # vacuums have trimmed some
        return listing

    def slots_up_to(self, last: int) -> tuple[set[int], set[int]]:
        """List the entries and the outcomes up to a version; also those without an entry, of earlier trims."""
        entries: set[int] = set()
        outcomes: set[int] = set()
        if not last:
            return entries, outcomes
        for version, is_entry, _ in self.list_slots(last):
            (entries if is_entry else outcomes).add(version)
        return entries, outcomes

    def list_slots(self, last: int) -> Iterator[tuple[int, bool, ObjectInfo]]:
        """List slots up to a version: whether it is the entry, or the outcome, which sorts before it."""
        for found in self._store.list(self._layout.log_prefix):
            name = found.key.removeprefix(self._layout.log_prefix)
            slot = SLOT.fullmatch(name)
            if name > ":" or (slot is not None and int(slot[1]) > last):
                return
            if slot is not None:  # others are not ours, such as .keep
                yield int(slot[1]), slot[2] == "json", found

    def save_checkpoint(self, listing: Listing) -> None:
        """Save up to where nothing is in doubt, so that the next writers list less; if that fails they list more."""
        if listing.checkpoint - listing.listed_after < CHECKPOINT_EVERY_VERSIONS:
            return
        try:
            self.put_checkpoint(listing.checkpoint)
        except StorageError as error:
            logger.warning("the checkpoint %s was not saved: %s", self._layout.checkpoint_key, error)

    def put_checkpoint(self, version: int) -> None:
        """Store the version up to which nothing is in doubt."""
        checkpoint = {"version": version, "log_id": self._slots.log_id}
        self._store.put(self._layout.checkpoint_key, json.dumps(checkpoint).encode())

    def with_checkpoint(self, listing: Listing) -> Listing:
        """Return a listing of the whole log with the stored checkpoint: its age tells writers when to renew it."""
        version, of_log = self.read_checkpoint()
        is_ours = version in listing.versions and (not of_log or of_log in listing.ids)
        return replace(listing, listed_after=version) if is_ours else listing

    def read_checkpoint(self) -> tuple[int, str]:
        """Return up to which version nothing is in doubt, and of which log."""
        stored = self._store.get(self._layout.checkpoint_key)
        if stored is None:
            return 0, ""
        try:
            checkpoint = small_json(stored.body)
            return max(0, int(checkpoint["version"])), str(checkpoint.get("log_id", ""))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            logger.warning("the checkpoint %s cannot be read; listing the whole log", self._layout.checkpoint_key)
            return 0, ""
