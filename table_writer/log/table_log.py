"""Entries and their outcomes as objects in a store. Nothing here decides; :mod:`table_writer.log.rules` does."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass
from typing import Final

from table_writer.errors import InvalidInputError, StorageError
from table_writer.model.entry import LogEntry, Outcome
from table_writer.model.write import TableLayout
from table_writer.storage.object_store import ObjectStore

__all__ = ["LogState", "SlotRecord", "TableLog"]

logger = logging.getLogger(__name__)

HINT_EVERY_VERSIONS: Final = 50  # one listing page holds 500 entries with their outcomes: a hint this old costs nothing
SLOT: Final = re.compile(r"(\d{20})\.(json|done)")


@dataclass(frozen=True, slots=True)
class LogState:
    """What one listing of the log showed."""

    newest: int  # 0: nothing was ever claimed
    in_doubt: frozenset[int]
    listed_after: int  # versions up to here were settled and not listed
    oldest_listed: int  # the first slot found, 0 when none was

    @property
    def settled(self) -> int:
        """The newest version up to which nothing is in doubt."""
        return min(self.in_doubt) - 1 if self.in_doubt else self.newest


@dataclass(frozen=True, slots=True)
class SlotRecord:
    """An entry as it was found, with its outcome and its age on the store's own clock."""

    entry: LogEntry
    outcome: Outcome | None
    age_seconds: float


class TableLog:
    """The log of one table.

    Parameters
    ----------
    store
        The store that holds the table root.
    layout
        Paths below the table root.
    """

    def __init__(self, store: ObjectStore, layout: TableLayout) -> None:
        self._store = store
        self._layout = layout
        self._settled_records: dict[int, SlotRecord] = {}  # neither an entry nor its outcome ever changes

    def read_state(self, *, listed_after: int | None = None) -> LogState:
        """List the log: two requests, or one when the caller knows a settled version.

        Parameters
        ----------
        listed_after
            A version up to which nothing was in doubt at an earlier look; read from the store by default.
        """
        start = self._read_hint() if listed_after is None else listed_after
        entries: set[int] = set()
        outcomes: set[int] = set()
        for found in self._store.list(self._layout.log_prefix, start_after=self._layout.entry_key(start)):
            slot = SLOT.fullmatch(found.key.removeprefix(self._layout.log_prefix))
            if slot is not None:
                (entries if slot[2] == "json" else outcomes).add(int(slot[1]))
        return LogState(
            newest=max(entries, default=start),
            in_doubt=frozenset(entries - outcomes),
            listed_after=start,
            oldest_listed=min(entries, default=0),
        )

    def read(self, version: int) -> SlotRecord:
        """Read one entry with its outcome.

        Raises
        ------
        InvalidInputError
            The entry is not there, or not valid.
        """
        if version in self._settled_records:
            return self._settled_records[version]
        stored = self._store.get(self._layout.entry_key(version))
        if stored is None:
            raise InvalidInputError(f"log entry {version} below {self._layout.root} is not there any more")
        entry = LogEntry.from_json(stored.body, root=self._layout.root, version=version)
        record = SlotRecord(entry=entry, outcome=self.outcome(version), age_seconds=stored.age_seconds)
        if record.outcome is not None:
            self._settled_records[version] = record
        return record

    def outcome(self, version: int) -> Outcome | None:
        """Return how an entry ended, ``None`` while it is in doubt."""
        stored = self._store.get(self._layout.outcome_key(version))
        if stored is None:
            return None
        try:
            return Outcome(json.loads(stored.body)["outcome"])
        except (ValueError, KeyError, TypeError) as error:
            key = self._layout.outcome_key(version)
            raise InvalidInputError(f"the outcome at {key} cannot be read: {error}") from error

    def claim(self, entry: LogEntry) -> bool:
        """Put an entry into its slot; exactly one of several claimants gets ``True``."""
        claimed = self._store.put_if_absent(self._layout.entry_key(entry.version), entry.to_json(self._layout.root))
        logger.info("write_id=%s version=%d claimed=%s", entry.write_id, entry.version, claimed)
        return claimed

    def settle(self, version: int, outcome: Outcome, *, write_id: str) -> Outcome:
        """Record how an entry ended; returns the outcome that stands, which may be an earlier one."""
        body = json.dumps({"outcome": outcome.value, "version": version, "settled_by": write_id}).encode()
        if self._store.put_if_absent(self._layout.outcome_key(version), body):
            return outcome
        return self.outcome(version) or outcome

    def remember_settled(self, state: LogState) -> None:
        """Save a hint that spares the next writers a long listing. Best effort: without it they list more."""
        if state.settled - state.listed_after < HINT_EVERY_VERSIONS:
            return
        try:
            self._store.put(self._layout.settled_key, json.dumps({"version": state.settled}).encode())
        except StorageError as error:
            logger.warning("the hint %s was not saved: %s", self._layout.settled_key, error)

    def _read_hint(self) -> int:
        stored = self._store.get(self._layout.settled_key)
        if stored is None:
            return 0
        try:
            return max(0, int(json.loads(stored.body)["version"]))
        except (ValueError, KeyError, TypeError):
            logger.warning("the hint %s cannot be read; listing the whole log", self._layout.settled_key)
            return 0
