"""The slots of a log: entries and their outcomes as objects in a store. :mod:`table_writer.protocol.log.rules` decides.

A slot is claimed once, by one writer; neither an entry nor its outcome ever changes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import msgspec

from table_writer.errors import DamagedError, InvalidInputError, StorageError
from table_writer.model.entry import LogEntry, NewerLibraryError, Outcome
from table_writer.model.table import PartitionValues
from table_writer.model.write import TableLayout
from table_writer.protocol.log.records import UNRECORDED, SlotRecord, moved_locations, superseded_locations
from table_writer.protocol.log.stored import MAX_MEMORY_BYTES, MAX_OUTCOME_BYTES, Allowance, TooMuchError, packed
from table_writer.storage.object_store import ObjectStore

logger = logging.getLogger(__name__)


class StoredOutcome(msgspec.Struct, frozen=True, kw_only=True):
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


class Slots:
    """The slots of one log; ``memory_bytes`` is how much memory one reading may take.

    ``ids`` are those of the log, as its last listing showed them: entries of another log may lie here by mistake.
    """

    def __init__(self, store: ObjectStore, layout: TableLayout, *, memory_bytes: int = MAX_MEMORY_BYTES) -> None:
        self._store = store
        self._layout = layout
        self._memory_bytes = memory_bytes
        self._ended_records: dict[int, SlotRecord] = {}
        self._entries: dict[int, LogEntry] = {}  # that were read without their outcomes
        self.ids: frozenset[str] = frozenset()
        self.expected_id = ""  # empty: not known
        self.closed_for = ""  # as the last listing showed it

    @property
    def log_id(self) -> str:
        """The id of the log, empty if it is not known."""
        return self.expected_id or max(self.ids, default="")

    def read(self, version: int) -> SlotRecord:
        """Read one entry with its outcome; ``InvalidInputError`` if it is not there, or not valid."""
        record = self.find(version)
        if record is None:
            raise DamagedError(f"log entry {version} below {self._layout.root} is not there any more")
        return record

    def find(self, version: int, allowance: Allowance | None = None) -> SlotRecord | None:
        """Read one entry with its outcome, ``None`` if it is not there any more.

        A record that has ended is kept, and reading it again takes nothing of the allowance.
        """
        allowance = allowance or Allowance(self._memory_bytes)
        if version in self._ended_records:
            return self._ended_records[version]
        stored = self._store.get(self._layout.entry_key(version))
        if stored is None:
            return None
        entry = self._entry(version, stored.body, allowance)
        stored_outcome = self._read_outcome(version, allowance)
        if stored_outcome is None:
            return SlotRecord(entry, None, stored.age_seconds)
        if stored_outcome.of not in ("", entry.write_id):
            raise DamagedError(self._unreadable(version, f"it is of write {stored_outcome.of}, not {entry.write_id}"))
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
            stored = self._store.get(self._layout.entry_key(version))
            if stored is None:
                return None
            self._entries[version] = self._entry(version, stored.body, Allowance(self._memory_bytes))
        return self._entries[version]

    def _entry(self, version: int, stored: bytes, allowance: Allowance) -> LogEntry:
        parse = partial(LogEntry.from_json, root=self._layout.root, version=version)
        try:
            entry = allowance.parsed(stored, parse)
        except TooMuchError as error:
            raise InvalidInputError(f"log entry {version} below {self._layout.root} cannot be read: {error}") from error
        except NewerLibraryError:
            raise
        except ValueError as error:
            what = f"log entry {version} below {self._layout.root} cannot be read: {error}"
            why = str(error) if isinstance(error, InvalidInputError) else what
            raise DamagedError(f"{why}. {self._way_out_of_damage(version)}") from error
        if entry.log_id and self.ids and entry.log_id not in self.ids:
            raise DamagedError(
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
        stored = self._store.get(key)
        if stored is None:
            return None
        try:
            parse = partial(msgspec.json.decode, type=StoredOutcome)
            found: StoredOutcome = allowance.parsed(stored.body, parse, most=MAX_OUTCOME_BYTES)
        except (ValueError, RecursionError) as error:
            raise DamagedError(self._unreadable(version, str(error))) from error
        return msgspec.structs.replace(found, age_seconds=stored.age_seconds)

    def _unreadable(self, version: int, why: str) -> str:
        key = self._layout.outcome_key(version)
        return (
            f"the outcome at {key} cannot be read: {why}. Delete it, and run `table-writer recover TABLE`, which finds"
            f" out from newer entries and from the metastore how version {version} ended"
        )

    def require_open(self, table: str) -> None:
        """Raise ``InvalidInputError`` if the last listing showed that the log was closed by a handover."""
        if self.closed_for:
            raise closed_error(table, self.closed_for)

    def claim(self, entry: LogEntry) -> bool:
        """Put an entry into its slot; exactly one of several claimants gets ``True``.

        Raises ``InvalidInputError`` if the log is closed, or the entry so long that nobody would read it again; nothing
        was stored then. A listing from before it was closed leads to a slot that the handover has taken.
        """
        if not entry.meaning.may_claim_when_closed:
            self.require_open(entry.table)
        text = replace(entry, log_id=self.log_id).to_json(self._layout.root)
        try:
            body = packed(text, self._memory_bytes)
        except ValueError as error:
            raise InvalidInputError(
                f"the log entry of this {entry.operation.value} of {entry.table} cannot be stored: {error}. Nothing"
                " changed; change fewer partitions at a time",
                **entry.named,
            ) from error
        claimed = self._store.put_if_absent(self._layout.entry_key(entry.version), body)
        logger.info("write_id=%s version=%d claimed=%s", entry.write_id, entry.version, claimed)
        return claimed

    def claim_age(self, entry: LogEntry) -> float | None:
        """Return how old a claim is by the store's clock; ``None`` if it does not stand, or nobody can say."""
        try:
            stored = self._store.get(self._layout.entry_key(entry.version))
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
        body: dict[str, Any] = {"outcome": outcome.value, "version": version, "recorded_by": write_id, "of": of}
        body |= {"superseded": sorted(map(list, superseded))} if superseded else {}
        found = tuple(
            (values, place) for values, place in sorted({**superseded, **moved}.items()) if place != UNRECORDED
        )
        body |= {"found": found} if found else {}
        if self._store.put_if_absent(self._layout.outcome_key(version), packed(json.dumps(body).encode())):
            return StoredOutcome(
                outcome=outcome, recorded_by=write_id, of=of, superseded=frozenset(superseded), found=found
            )
        stands = self.stored_outcome(version)
        if stands is None:
            raise StorageError(f"the outcome of log entry {version} below {self._layout.root} was there, and is gone")
        return stands


def closed_error(table: str, kind: str) -> InvalidInputError:
    """Return the error of a call on a table that was handed over to a kind of mirror."""
    return InvalidInputError(
        f"{table} was handed over: it goes on as the {kind.capitalize()} table that was its mirror, and its log is"
        " closed. Nothing was changed. Write to that table with its own engines; or, if nobody has yet,"
        f" `table-writer handover {table} --undo`",
        table=table,
    )
