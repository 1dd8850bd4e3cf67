"""Idempotency keys: which entry has published one, and which is the newest of a stream of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from table_writer.model.entry import Key, LogEntry, Outcome
from table_writer.protocol.log.known_keys import KnownKeys, key_digest
from table_writer.protocol.log.records import SlotRecord
from table_writer.protocol.log.rules import comes_before, newest_of_stream, published_with_key
from table_writer.storage.object_store import THREADS, many


@dataclass(frozen=True, kw_only=True, slots=True)
class KeySearch:
    """Looks keys up in one log, as one listing showed it."""

    find: Callable[[int], SlotRecord | None]
    read_whole: Callable[[], Sequence[SlotRecord]]
    versions: tuple[int, ...]  # after the fold, in order
    is_in_order: bool  # the log knows no rollback, after which batches come again
    folded: KnownKeys  # empty: there is no fold

    def look_up(self, key: Key) -> tuple[SlotRecord | None, Sequence[SlotRecord]]:
        """Return the published entry with a key, ``None`` if none counts, and all records read: up to the newest.

        :meth:`~table_writer.protocol.log.table_log.TableLog.find_key` says how far is read.
        """
        waiting, read, at_once = self.versions, list[SlotRecord](), 1
        while waiting:
            waiting, versions = waiting[:-at_once], waiting[-at_once:]
            records = [record for record in many(self.find, versions) if record is not None]
            read = records + read
            published = published_with_key(read, key)
            batches = (
                record.entry.idempotency_key for record in records if key.stream and record.entry.stream == key.stream
            )
            is_passed = self.is_in_order and any(comes_before(batch, key.text) for batch in batches)
            if published is not None or is_passed:
                return published, read
            at_once = min(2 * at_once, THREADS)
        return self._folded_key(key, read), read

    def look_up_batch(self, key: Key) -> tuple[SlotRecord | None, LogEntry | None]:
        """Return the published entry with a stream's key, and the newest one of its stream that counts."""
        published, read = self.look_up(key)
        return published, newest_of_stream(read, key.stream) or self._folded_stream(key, read)

    def _folded_key(self, key: Key, newer: Sequence[SlotRecord]) -> SlotRecord | None:
        folded = self.folded.published.get(key_digest(key.text, key.stream))
        if folded is None:
            return None
        record = self.find(folded)
        if record is None or not key.is_of(record.entry) or self._may_be_void(record, newer):
            return published_with_key(self.read_whole(), key)
        return record if record.outcome is None else published_with_key([record], key)  # its outcome was lost

    def _folded_stream(self, key: Key, newer: Sequence[SlotRecord]) -> LogEntry | None:
        version = self.folded.newest_batches.get(key.stream)
        record = None if version is None else self.find(version)
        if record is None:
            return None
        if record.outcome is Outcome.ABANDONED or self._may_be_void(record, newer):
            return newest_of_stream(self.read_whole(), key.stream)
        return record.entry

    def _may_be_void(self, record: SlotRecord, newer: Sequence[SlotRecord]) -> bool:
        """Return whether a rollback may have taken back what a folded entry has published."""
        is_back = any(record.entry.rollback_to is not None and record.outcome is Outcome.PUBLISHED for record in newer)
        return is_back or self.folded.voids(record.entry.version)
