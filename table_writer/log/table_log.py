"""Entries and their outcomes as objects in a store. Nothing here decides; :mod:`table_writer.log.rules` does."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from table_writer.errors import InvalidInputError, StorageError
from table_writer.log.history import LATE_CALL_SECONDS, History, SlotRecord
from table_writer.log.keys import comes_before, published_with_key
from table_writer.log.stored import MAX_BYTES, MAX_MEMORY_BYTES, MAX_OUTCOME_BYTES, Allowance, packed, small_json
from table_writer.model.entry import LogEntry, Outcome
from table_writer.model.table import PartitionValues
from table_writer.model.write import TableLayout
from table_writer.storage.object_store import ObjectStore

__all__ = ["LogState", "TableLog"]

logger = logging.getLogger(__name__)

HINT_EVERY_VERSIONS: Final = 50  # one listing page holds 500 entries with their outcomes: a hint this old costs nothing
RECENT_ENTRIES: Final = 3  # among which the last write is looked for: after it come a vacuum, or a rollback
READ_THREADS: Final = 16  # a whole log is read at once; each entry is two small requests
MAX_ENTRY_BYTES: Final = MAX_BYTES
SLOT: Final = re.compile(r"([0-9]{20})\.(json|done)")


@dataclass(frozen=True, slots=True)
class LogState:
    """What one listing of the log showed."""

    newest: int  # 0: nothing was ever claimed
    in_doubt: frozenset[int]
    listed_after: int  # versions up to here were settled and not listed
    versions: frozenset[int]  # the slots found; those that a vacuum has trimmed are missing
    orphans: frozenset[int]  # outcomes without an entry: a trim was interrupted

    @property
    def settled(self) -> int:
        """The newest version up to which nothing is in doubt."""
        return min(self.in_doubt) - 1 if self.in_doubt else self.newest


@dataclass(frozen=True, kw_only=True, slots=True)
class _Settled:
    outcome: Outcome
    settled_by: str
    superseded: frozenset[PartitionValues]
    age_seconds: float


class TableLog:
    """The log of one table.

    Parameters
    ----------
    store
        The store that holds the table root.
    layout
        Paths below the table root.
    memory_bytes
        How much memory one reading of the log may take.
    """

    def __init__(self, store: ObjectStore, layout: TableLayout, *, memory_bytes: int = MAX_MEMORY_BYTES) -> None:
        self._store = store
        self._layout = layout
        self._memory_bytes = memory_bytes
        self._settled_records: dict[int, SlotRecord] = {}  # neither an entry nor its outcome ever changes

    def read_state(self, *, listed_after: int | None = None) -> LogState:
        """List the log: two requests, or one when the caller knows a settled version.

        Parameters
        ----------
        listed_after
            A version up to which nothing was in doubt at an earlier look; read from the store by default.
        """
        start = self._read_hint() if listed_after is None else listed_after
        state = self._list(start)
        return state if start == 0 or state.versions else self._list(0)  # somebody deleted the log, but not the hint

    def _list(self, start: int) -> LogState:
        """List from a settled version on, itself included: it is there unless the log was deleted."""
        entries: set[int] = set()
        outcomes: set[int] = set()
        first = self._layout.entry_key(start - 1) if start else ""  # an outcome sorts before its entry
        for found in self._store.list(self._layout.log_prefix, start_after=first):
            slot = SLOT.fullmatch(found.key.removeprefix(self._layout.log_prefix))
            if found.size_bytes > MAX_ENTRY_BYTES:
                raise InvalidInputError(f"{found.key} has {found.size_bytes:,} bytes: that is no log entry; look at it")
            if slot is not None:
                (entries if slot[2] == "json" else outcomes).add(int(slot[1]))
        return LogState(
            newest=max(entries, default=start),
            in_doubt=frozenset(entries - outcomes),
            listed_after=start,
            versions=frozenset(entries),
            orphans=frozenset(outcomes - entries),
        )

    def read_history(self, state: LogState | None = None) -> History:
        """Read every record that is left in the log: two requests an entry, several at once.

        Entries that a vacuum trims meanwhile are left out: nothing depends on them.

        Parameters
        ----------
        state
            What a listing of the whole log has just shown; by default it is listed now.

        Raises
        ------
        InvalidInputError
            An entry cannot be read, or all of them take more memory than they may; it is named.
        """
        allowance = Allowance(self._memory_bytes)
        listed = sorted((state or self.read_state(listed_after=0)).versions)
        with ThreadPoolExecutor(READ_THREADS, thread_name_prefix="log") as pool:
            records = pool.map(lambda version: self.find(version, allowance), listed)
            return History(self._layout, [record for record in records if record is not None])

    def find_key(self, key: str, *, in_order: bool = False) -> LogEntry | None:
        """Return the published entry with an idempotency key, ``None`` if there is none that counts.

        Reads back from the newest entry, more at a time the further it gets.

        Parameters
        ----------
        key
            Not empty.
        in_order
            It is a stream's ``query/batch``, and batches come in order: reading ends at an earlier batch of the stream,
            which is usually the newest entry. Without it, and as long as the log knows a rollback, after which batches
            come again, the whole log may be read.
        """
        waiting = sorted(self.read_state(listed_after=0).versions)
        in_order = in_order and not self._was_rolled_back(waiting)
        found: list[SlotRecord] = []
        allowance, at_once = Allowance(self._memory_bytes), 1
        while waiting:
            waiting, versions = waiting[:-at_once], waiting[-at_once:]
            with ThreadPoolExecutor(READ_THREADS, thread_name_prefix="log") as pool:
                read = pool.map(lambda version: self.find(version, allowance), versions)
                records = [record for record in read if record is not None]
            found = records + found
            entry = published_with_key(found, key)
            passed = in_order and any(comes_before(one.entry.idempotency_key, key) for one in records)
            if entry is not None or passed:
                return entry
            at_once = min(2 * at_once, READ_THREADS)
        return None

    def read(self, version: int) -> SlotRecord:
        """Read one entry with its outcome.

        Raises
        ------
        InvalidInputError
            The entry is not there, or not valid.
        """
        record = self.find(version)
        if record is None:
            raise InvalidInputError(f"log entry {version} below {self._layout.root} is not there any more")
        return record

    def find(self, version: int, allowance: Allowance | None = None) -> SlotRecord | None:
        """Read one entry with its outcome, ``None`` if it is not there any more.

        Parameters
        ----------
        version
            Its slot.
        allowance
            Of the reading that it belongs to; what was read before, and is kept, takes nothing of it.
        """
        allowance = allowance or Allowance(self._memory_bytes)
        if version in self._settled_records:
            return self._settled_records[version]
        stored = self._store.get(self._layout.entry_key(version))
        if stored is None:
            return None
        entry = self._entry(version, stored.body, allowance)
        settled = self._read_outcome(version, allowance)
        if settled is None:
            return SlotRecord(entry, None, stored.age_seconds)
        record = SlotRecord(
            entry,
            settled.outcome,
            stored.age_seconds,
            settled_by=settled.settled_by,
            settled_age_seconds=settled.age_seconds,
            superseded=settled.superseded,
        )
        self._settled_records[version] = record
        return record

    def seen_row_bytes(self, state: LogState, schema: str) -> int:
        """Return how wide the rows of the last write were, 0 if that is not known: one request, seldom more.

        Only speed depends on it: an entry that cannot be read is reported by those who need it.

        Parameters
        ----------
        state
            What a listing of the log has shown.
        schema
            Of the data columns, as entries keep it: rows of other columns say nothing.
        """
        for version in sorted(state.versions, reverse=True)[:RECENT_ENTRIES]:
            stored = self._store.get(self._layout.entry_key(version))
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
            return allowance.parsed(stored, parse)
        except InvalidInputError:
            raise
        except ValueError as error:
            raise InvalidInputError(f"log entry {version} below {self._layout.root} cannot be read: {error}") from error

    def outcome(self, version: int) -> Outcome | None:
        """Return how an entry ended, ``None`` while it is in doubt."""
        settled = self._read_outcome(version, Allowance(self._memory_bytes))
        return settled.outcome if settled else None

    def _read_outcome(self, version: int, allowance: Allowance) -> _Settled | None:
        key = self._layout.outcome_key(version)
        stored = self._store.get(key)
        if stored is None:
            return None
        try:
            body = allowance.parsed(stored.body, json.loads, most=MAX_OUTCOME_BYTES)
            return _Settled(
                outcome=Outcome(body["outcome"]),
                settled_by=str(body["settled_by"]),
                superseded=frozenset(tuple(map(str, values)) for values in body.get("superseded", ())),
                age_seconds=stored.age_seconds,
            )
        except (AttributeError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InvalidInputError(f"the outcome at {key} cannot be read: {error}") from error

    def trim(self, versions: Iterable[int]) -> None:
        """Delete entries on which nothing depends any more.

        The entry goes before its outcome: an entry without an outcome would be in doubt.
        """
        ordered = sorted(versions)
        self._store.delete([self._layout.entry_key(version) for version in ordered])
        orphans = self.read_state(listed_after=0).orphans  # of earlier trims that were interrupted, too
        gone = [version for version in sorted(orphans) if self._store.head(self._layout.entry_key(version)) is None]
        self._store.delete([self._layout.outcome_key(version) for version in gone])

    def claim(self, entry: LogEntry) -> bool:
        """Put an entry into its slot; exactly one of several claimants gets ``True``.

        Raises
        ------
        InvalidInputError
            The entry is so long that nobody would read it again; nothing was stored.
        """
        text = entry.to_json(self._layout.root)
        try:
            body = packed(text, self._memory_bytes)
        except ValueError as error:
            raise InvalidInputError(
                f"the log entry of this {entry.operation.value} of {entry.table} cannot be stored: {error}. Nothing"
                " changed; change fewer partitions at a time",
                table=entry.table,
                write_id=entry.write_id,
            ) from error
        claimed = self._store.put_if_absent(self._layout.entry_key(entry.version), body)
        logger.info("write_id=%s version=%d claimed=%s", entry.write_id, entry.version, claimed)
        return claimed

    def settle(
        self, version: int, outcome: Outcome, *, write_id: str, superseded: Iterable[PartitionValues] = ()
    ) -> Outcome:
        """Record how an entry ended; returns the outcome that stands, which may be an earlier one.

        Parameters
        ----------
        version, outcome
            The entry, and what became of it.
        write_id
            The entry's own where its calls were seen to end, by whomever; else the recovery's: then one may come late.
        superseded
            Partitions that were not switched, since another tool had moved them.
        """
        body = {"outcome": outcome.value, "version": version, "settled_by": write_id}
        moved = {"superseded": sorted(map(list, superseded))} if superseded else {}
        if self._store.put_if_absent(self._layout.outcome_key(version), packed(json.dumps({**body, **moved}).encode())):
            return outcome
        return self.outcome(version) or outcome

    def remember_settled(self, state: LogState) -> None:
        """Save a hint that spares the next writers a long listing. Best effort: without it they list more."""
        if state.settled - state.listed_after < HINT_EVERY_VERSIONS:
            return
        try:
            self._remember(self._layout.settled_key, state.settled)
        except StorageError as error:
            logger.warning("the hint %s was not saved: %s", self._layout.settled_key, error)

    def remember_recovery(self, version: int) -> None:
        """Note, before a recover entry is claimed, that calls of the entry it settles may come late.

        Raises
        ------
        StorageError
            It could not be noted; nothing must be recovered then.
        """
        self._remember(self._layout.recovered_key, version)

    def remember_rollback(self, version: int) -> None:
        """Note, before a rollback is claimed, that batches of streams may come again.

        Raises
        ------
        StorageError
            It could not be noted; nothing must be rolled back then.
        """
        self._remember(self._layout.rolled_back_key, version)

    def _was_rolled_back(self, versions: Collection[int]) -> bool:
        """Whether one of these versions is a rollback, as far as can be told."""
        stored = self._store.get(self._layout.rolled_back_key)
        version = None if stored is None else _version_in(stored.body)
        return stored is not None and (version is None or version in versions)

    def _remember(self, key: str, version: int) -> None:
        self._store.put(key, json.dumps({"version": version}).encode())

    def recovered_lately(self) -> bool:
        """Whether an entry was recovered so lately that one of its calls may still come."""
        stored = self._store.get(self._layout.recovered_key)
        return stored is not None and stored.age_seconds < LATE_CALL_SECONDS

    def _read_hint(self) -> int:
        stored = self._store.get(self._layout.settled_key)
        version = 0 if stored is None else _version_in(stored.body)
        if version is None:
            logger.warning("the hint %s cannot be read; listing the whole log", self._layout.settled_key)
        return version or 0


def _version_in(body: bytes) -> int | None:
    """Read the version that a small object remembers, ``None`` if it cannot be read."""
    try:
        return max(0, int(small_json(body)["version"]))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
