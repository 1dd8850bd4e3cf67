"""Entries and their outcomes as objects in a store. Nothing here decides; :mod:`table_writer.log.rules` does."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import msgspec

from table_writer.errors import ConflictError, InvalidInputError, StorageError
from table_writer.log.history import LATE_CALL_SECONDS, History, SlotRecord
from table_writer.log.owner import readable_owner
from table_writer.log.rules import comes_before, published_with_key
from table_writer.log.stored import (
    MAX_BYTES,
    MAX_MEMORY_BYTES,
    MAX_OUTCOME_BYTES,
    Allowance,
    TooMuchError,
    packed,
    small_json,
)
from table_writer.model.entry import MAX_TIMEOUT_SECONDS, LogEntry, Outcome
from table_writer.model.table import PartitionValues
from table_writer.model.write import TableLayout
from table_writer.storage.object_store import THREADS, ObjectStore, many

logger = logging.getLogger(__name__)

CHECKPOINT_EVERY_VERSIONS: Final = 50  # a page of a listing holds 500 entries with their outcomes: this costs nothing
RECENT_ENTRIES: Final = 3  # among which the last write is looked for: after it come a vacuum, or a rollback
MAX_ENTRY_BYTES: Final = MAX_BYTES
MOST_LOST: Final = 100_000  # entries; a slot further away was never claimed by this library
SLOT: Final = re.compile(r"([0-9]{20})\.(json|done)")
MARK: Final = re.compile(r"(id|lost|recovered|rolled-back|trimmed)-([0-9a-zA-Z]+)")
"""A fact that every listing of the log shows at no cost: empty objects, whose names sort after all entries."""


@dataclass(frozen=True, slots=True)
class LogState:
    """What one listing of the log showed."""

    newest: int  # 0: nothing was ever claimed
    in_doubt: frozenset[int]
    listed_after: int  # up to this version nothing was in doubt, and nothing was listed
    versions: frozenset[int]  # the slots found; those that a vacuum has trimmed are missing
    orphans: frozenset[int]  # outcomes without an entry: a trim was interrupted, or the entry was lost
    ids: frozenset[str] = frozenset()  # of the log; a log that somebody has deleted and begun again has another
    unverified: frozenset[int] = frozenset()  # recoveries after which nobody has looked yet whether a call came late
    rolled_back: frozenset[int] = frozenset()  # rollbacks: after them batches of streams may come again
    trimmed: int = 0  # up to here vacuums may have deleted entries
    older_trims: frozenset[int] = frozenset()  # the same of earlier trims: their marks say nothing more
    lost: frozenset[int] = frozenset()  # entries that are gone, though no vacuum has deleted them
    given_up: frozenset[int] = frozenset()  # lost entries that the log goes on without

    @property
    def checkpoint(self) -> int:
        """The newest version up to which nothing is in doubt."""
        return min(self.in_doubt) - 1 if self.in_doubt else self.newest


class _StoredOutcome(msgspec.Struct, frozen=True, kw_only=True, rename={"recorded_by": "settled_by"}):
    outcome: Outcome
    recorded_by: str
    of: str = ""  # the write_id of the entry
    superseded: frozenset[PartitionValues] = frozenset()
    age_seconds: float = 0.0  # by the store's clock: not stored


class TableLog:
    """The log of one table; ``memory_bytes`` is how much memory one reading of it may take."""

    def __init__(self, store: ObjectStore, layout: TableLayout, *, memory_bytes: int = MAX_MEMORY_BYTES) -> None:
        self.store = store
        self._layout = layout
        self._memory_bytes = memory_bytes
        self._ended_records: dict[int, SlotRecord] = {}  # neither an entry nor its outcome ever changes
        self._ids: frozenset[str] = frozenset()
        self._expected_id = ""

    def expect(self, log_id: str) -> None:
        """Refuse from now on to read any other log than this; empty: not known."""
        self._expected_id = log_id

    def read_state(self, *, listed_after: int | None = None, allow_lost: bool = False) -> LogState:
        """List the log: two requests, or one when the caller knows a checkpoint.

        ``listed_after`` is a version up to which nothing was in doubt at an earlier look; by default the stored
        checkpoint. ``allow_lost`` also returns a log of which entries are lost: to look at it, or to declare the loss.
        Raises ``InvalidInputError`` if the log was deleted, or entries of it are lost, and ``ConflictError`` if it was
        deleted since :meth:`expect` was told which one it is.
        """
        start, of_log = self._read_checkpoint() if listed_after is None else (listed_after, "")
        state = self._list(start)
        if start and (not state.versions or (of_log and of_log not in state.ids)):
            state = self._list(0)  # somebody deleted the log, but not its checkpoint; or that is another log's
        state = self._identified(state)
        missed: frozenset[int] = frozenset()
        while state.lost and not missed:  # look again: a file system may list while entries come, and miss some
            again = self._identified(self._list(state.listed_after))
            missed = again.lost & state.lost
            state = replace(again, lost=missed or again.lost)
        if state.lost and not allow_lost:
            raise InvalidInputError(self.lost_message(state.lost))
        return state

    def _list(self, start: int) -> LogState:
        """List from a checkpoint on; its own version is listed too, since that is there unless the log was deleted.

        An outcome whose entry is gone takes up its slot as well: whoever claimed the slot again would find that it has
        ended.
        """
        entries: set[int] = set()
        outcomes: set[int] = set()
        marks: dict[str, set[str]] = {}
        first = self._layout.entry_key(start - 1) if start else ""  # an outcome sorts before its entry
        for found in self.store.list(self._layout.log_prefix, start_after=first):
            name = found.key.removeprefix(self._layout.log_prefix)
            slot, mark = SLOT.fullmatch(name), MARK.fullmatch(name)
            if found.size_bytes > MAX_ENTRY_BYTES:
                raise InvalidInputError(f"{found.key} has {found.size_bytes:,} bytes: that is no log entry; look at it")
            if slot is not None:
                (entries if slot[2] == "json" else outcomes).add(int(slot[1]))
            elif mark is not None:
                marks.setdefault(mark[1], set()).add(mark[2])
        numbers = {kind: frozenset(map(int, filter(str.isdecimal, found))) for kind, found in marks.items()}
        newest = max(entries | outcomes, default=start)
        none: frozenset[int] = frozenset()
        trims = numbers.get("trimmed", none)
        trimmed = max(trims, default=0)
        whole = range(max(start - 1, trimmed) + 1, newest + 1) if entries | outcomes else range(0)
        if whole.stop - whole.start > len(entries) + len(marks.get("lost", ())) + MOST_LOST:
            raise InvalidInputError(
                f"{self._layout.entry_key(newest)}, or the outcome beside it, is far beyond the {len(entries)} entries"
                f" of this log. If vacuums have trimmed the log, its mark {self._layout.log_prefix}trimmed-… is lost:"
                " bring that back from an older version of the object. If not, it is none of this log: look at it, and"
                " move it away"
            )
        self._ids = frozenset(marks.get("id", ()))
        return LogState(
            newest=newest,
            in_doubt=frozenset(entries - outcomes),
            listed_after=start,
            versions=frozenset(entries),
            orphans=frozenset(outcomes - entries),
            ids=self._ids,
            unverified=numbers.get("recovered", none),
            rolled_back=numbers.get("rolled-back", none),
            trimmed=trimmed,
            older_trims=trims - {trimmed},
            lost=frozenset(whole) - entries - numbers.get("lost", none) - {0},
            given_up=numbers.get("lost", none),
        )

    def _identified(self, state: LogState) -> LogState:
        """Return the state with the id that ``owner.json`` says the log has; put it back where only that was lost."""
        if not self._expected_id or self._expected_id in state.ids:
            return state
        self._ids = frozenset()  # of which log the entries are is the question
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
        shown = ", ".join(map(str, sorted(lost)[:5])) + (", …" if len(lost) > 5 else "")
        return (
            f"{len(lost)} entries of the log below {self._layout.root} are lost (version {shown}): they are gone, and"
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

    def read_history(self, state: LogState | None = None) -> History:
        """Read every record that is left in the log: two requests an entry, several at once.

        Entries that a vacuum trims meanwhile are left out: nothing depends on them. ``state`` is what a listing of the
        whole log has just shown; by default it is listed now. Raises ``InvalidInputError`` if an entry cannot be read,
        or if all of them take more memory than they may.
        """
        allowance = Allowance(self._memory_bytes)
        state = state or self.read_state(listed_after=0)
        records = many(lambda version: self.find(version, allowance), sorted(state.versions))
        found = [record for record in records if record is not None]
        return History(self._layout, found, state.unverified, lost=state.lost | state.given_up)

    def find_key(self, key: str, state: LogState | None = None, *, in_order: bool = False) -> LogEntry | None:
        """Return the published entry with an idempotency key, ``None`` if there is none that counts.

        Reads back from the newest entry, more at a time the further it gets. ``in_order`` says that the key is a
        stream's ``query/batch``. Batches come in order, so reading ends at an earlier batch of the stream, which is
        usually the newest entry. Without it, and while the log knows a rollback, after which batches come again, the
        whole log may be read.
        """
        state = state or self.read_state(listed_after=0)
        waiting = sorted(state.versions)
        in_order = in_order and not state.rolled_back
        found: list[SlotRecord] = []
        allowance, at_once = Allowance(self._memory_bytes), 1
        while waiting:
            waiting, versions = waiting[:-at_once], waiting[-at_once:]
            read = many(lambda version: self.find(version, allowance), versions)
            records = [record for record in read if record is not None]
            found = records + found
            entry = published_with_key(found, key)
            passed = in_order and any(comes_before(one.entry.idempotency_key, key) for one in records)
            if entry is not None or passed:
                return entry
            at_once = min(2 * at_once, THREADS)
        return None

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
        ended = self._read_outcome(version, allowance)
        if ended is None:
            return SlotRecord(entry, None, stored.age_seconds)
        if ended.of not in ("", entry.write_id):
            raise InvalidInputError(self._unreadable(version, f"it is of write {ended.of}, not {entry.write_id}"))
        record = SlotRecord(
            entry,
            ended.outcome,
            stored.age_seconds,
            recorded_by=ended.recorded_by,
            outcome_age_seconds=ended.age_seconds,
            superseded=ended.superseded,
        )
        self._ended_records[version] = record
        return record

    def seen_row_bytes(self, state: LogState, schema: str) -> int:
        """Return how wide the rows of the last write were, 0 if that is not known: one request, seldom more.

        Rows of another ``schema`` say nothing. Only speed depends on it: an entry that cannot be read is reported by
        those who need it.
        """
        for version in sorted(state.versions, reverse=True)[:RECENT_ENTRIES]:
            stored = self.store.get(self._layout.entry_key(version))
            try:
                entry = None if stored is None else self._entry(version, stored.body, Allowance(self._memory_bytes))
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
        """Return how an entry ended, ``None`` while it is in doubt."""
        ended = self._read_outcome(version, Allowance(self._memory_bytes))
        return ended.outcome if ended else None

    def _read_outcome(self, version: int, allowance: Allowance) -> _StoredOutcome | None:
        key = self._layout.outcome_key(version)
        stored = self.store.get(key)
        if stored is None:
            return None
        try:
            parse = partial(msgspec.json.decode, type=_StoredOutcome)
            found: _StoredOutcome = allowance.parsed(stored.body, parse, most=MAX_OUTCOME_BYTES)
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(self._unreadable(version, str(error))) from error
        return msgspec.structs.replace(found, age_seconds=stored.age_seconds)

    def _unreadable(self, version: int, why: str) -> str:
        key = self._layout.outcome_key(version)
        return (
            f"the outcome at {key} cannot be read: {why}. Delete it, and run `table-writer recover TABLE`, which finds"
            f" out from newer entries and from the metastore how version {version} ended"
        )

    def trim(self, versions: Iterable[int]) -> None:
        """Delete entries on which nothing depends any more.

        First a mark says so: an entry above it that is gone is lost. An entry goes before its outcome, since an entry
        without an outcome would be in doubt.
        """
        ordered = sorted(versions)
        if ordered:
            self.store.put(self._mark("trimmed", ordered[-1]), b"")
        self.store.delete([self._layout.entry_key(version) for version in ordered])
        state = self.read_state(listed_after=0)
        orphans = (version for version in sorted(state.orphans) if version <= state.trimmed)  # of earlier trims, too
        gone = [version for version in orphans if self.store.head(self._layout.entry_key(version)) is None]
        undone = (one for one in state.rolled_back - state.versions if one <= state.trimmed)  # a later one is to come
        useless = [
            *(self._mark("rolled-back", version) for version in sorted(undone)),
            *(self._mark("trimmed", version) for version in sorted(state.older_trims)),
        ]
        self.store.delete([*(self._layout.outcome_key(version) for version in gone), *useless])

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

    def record_outcome(
        self, version: int, outcome: Outcome, *, write_id: str, superseded: Iterable[PartitionValues] = (), of: str = ""
    ) -> Outcome:
        """Record how an entry ended; returns the outcome that stands, which may be an earlier one.

        ``write_id`` is the entry's own where its calls were seen to end, by whomever. Else it is the recovery's, and a
        call may still come late. ``superseded`` partitions were not switched, since another tool had moved them. ``of``
        is the write_id of the entry: an outcome of another table may lie here by mistake.
        """
        body = {"outcome": outcome.value, "version": version, "settled_by": write_id, "of": of}
        moved = {"superseded": sorted(map(list, superseded))} if superseded else {}
        if self.store.put_if_absent(self._layout.outcome_key(version), packed(json.dumps({**body, **moved}).encode())):
            return outcome
        return self.outcome(version) or outcome

    def save_checkpoint(self, state: LogState) -> None:
        """Save up to where nothing is in doubt, so that the next writers list less; if that fails they list more."""
        if state.checkpoint - state.listed_after < CHECKPOINT_EVERY_VERSIONS:
            return
        checkpoint = {"version": state.checkpoint, "log_id": self._log_id}
        try:
            self.store.put(self._layout.checkpoint_key, json.dumps(checkpoint).encode())
        except StorageError as error:
            logger.warning("the checkpoint %s was not saved: %s", self._layout.checkpoint_key, error)

    def remember_recovery(self, version: int) -> None:
        """Note, before a recover entry is claimed, that calls may come late; if that fails, nothing is recovered."""
        self.store.put(self._mark("recovered", version), b"")

    def forget_recoveries(self, versions: Iterable[int]) -> None:
        """Note that all partitions are where they should be, and that no call of before these recoveries can come."""
        self.store.delete([self._mark("recovered", version) for version in sorted(versions)])

    def may_calls_come(self, version: int) -> bool:
        """Whether calls of before a recovery may still come, or the recovery's own, which its claim gives a day."""
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
