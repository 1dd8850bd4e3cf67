"""A note that a whole look at a table leaves, so that the next look is short while nothing has happened.

A note says how long nothing becomes due, and what the table's directory looked like when that was found out. One
listing shows whether it still does: if any object of the log came, went or changed, the note counts nothing.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from table_writer.errors import StorageError
from table_writer.log.stored import Allowance, packed
from table_writer.log.table_log import SLOT
from table_writer.metastore.protocol import Metastore
from table_writer.model.entry import WRITE_ID
from table_writer.model.table import Partition, PartitionValues, Table
from table_writer.model.write import TableLayout
from table_writer.storage.object_store import ObjectInfo, ObjectStore, StoredObject

logger = logging.getLogger(__name__)
IDLE_FORMAT: Final = 1  # another one for every change of what a vacuum finds: older notes count nothing then
BELIEVED_SECONDS: Final = 7 * 86_400.0  # then the whole log is read again, whatever a note says
COMPARED_VERSIONS: Final = 200  # newest entries that a glance compares: with names and marks they fit on one page
MOST_PARTITIONS: Final = 5_000  # that a note names; a larger table is read as a whole
Locations = Mapping[PartitionValues, Partition]


class IdleNote(msgspec.Struct, frozen=True, kw_only=True):
    """A note of the last look, at which nothing had to be done."""

    format: int
    table: tuple[str, str, int]  # database, name, creation time
    first_version: int  # the first version that is compared
    looks: str  # how the log and owner.json looked in the listing
    version: int  # the newest
    settings: str  # the ages of the vacuum that looked
    quiet_seconds: float  # how long a vacuum with these ages finds nothing, from the put of this note on
    directories: str  # the writes below data/
    partitions: tuple[PartitionValues, ...] | None  # those of the log; None: too many, or some are to be corrected
    locations: str  # their locations in the metastore, as a digest
    missing: tuple[PartitionValues, ...] = ()  # those that the metastore did not have


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnListing:
    """The log of a table from a version on, its owner, and the writes that are running or staged: one request."""

    first_version: int
    log: tuple[ObjectInfo, ...]
    owner: ObjectInfo | None
    pending: tuple[str, ...]  # keys of what says that a write is running or staged, and of results of checks

    @property
    def is_empty(self) -> bool:
        """Return whether this library keeps nothing there: the table is not one of its tables."""
        return not self.log and self.owner is None and not self.pending

    @property
    def newest(self) -> tuple[int, datetime | None]:
        """The newest version, and when its entry was put; 0 if there is none."""
        slots = {int(found[1]): file.modified_at for file in self.log if (found := _slot(file.key))}  # entries last
        newest = max(slots, default=0)
        return newest, slots.get(newest)

    def looks(self, first_version: int) -> str:
        """Return a digest that changes when an object of the log from this version on comes, goes or changes."""
        compared = [file for file in self.log if not (found := _slot(file.key)) or int(found[1]) >= first_version]
        compared += [] if self.owner is None else [self.owner]
        return _digest([file.key, file.etag, file.size_bytes, file.modified_at.isoformat()] for file in compared)


def list_own(store: ObjectStore, layout: TableLayout, first_version: int = 0) -> OwnListing:
    """List what is beside the data, but for ``names/``, which grows for ever; one page where the log is short.

    Of a long one that a vacuum has folded, what comes after that: all of it counts where it is folded.
    """
    log: list[ObjectInfo] = []
    owner: ObjectInfo | None = None
    pending: list[str] = []
    names = f"{layout.own.key}names/"
    start_after = layout.entry_key(first_version - 1) if first_version else layout.log_prefix
    more = True
    while more:
        page, more = store.list_page(layout.own.key, start_after=start_after)
        folded = _newest_fold(store, layout) if more and start_after == layout.log_prefix else 0
        if folded:
            return list_own(store, layout, folded)
        for info in page:
            if info.key.startswith(layout.log_prefix):
                log.append(info)
            elif info.key == layout.owner_key:
                owner = info
            elif info.key.startswith((layout.registrations.key, layout.all_staged.key)):
                pending.append(info.key)
        if page:
            start_after = page[-1].key
        if start_after.startswith(names):
            start_after = f"{names[:-1]}0"  # "0" follows "/"
    return OwnListing(first_version=first_version, log=tuple(log), owner=owner, pending=tuple(pending))


def _newest_fold(store: ObjectStore, layout: TableLayout) -> int:
    marks = f"{layout.log_prefix}folded-"
    numbers = (mark.key.removeprefix(marks) for mark in store.list(marks))
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


@dataclass(frozen=True, slots=True)
class Glance:
    """The answers to the first two requests of a visit to a table."""

    store: ObjectStore
    layout: TableLayout
    stored: StoredObject | None
    note: IdleNote | None
    listing: OwnListing

    @classmethod
    def at(cls, store: ObjectStore, layout: TableLayout) -> Glance:
        """Read the note, and list what it is about."""
        stored = store.get(layout.idle_key)
        note = None if stored is None else _parsed(stored)
        return cls(store, layout, stored, note, list_own(store, layout, note.first_version if note else 0))

    @property
    def is_foreign(self) -> bool:
        """Return whether this library has never written the table."""
        return self.stored is None and self.listing.is_empty

    @property
    def age_seconds(self) -> float | None:
        """The age of the newest version by the store's clock; ``None`` without a note, which tells the time."""
        _, modified_at = self.listing.newest
        if self.stored is None or modified_at is None:
            return None
        age = self.stored.info.modified_at - modified_at
        return max(0.0, age.total_seconds() + self.stored.age_seconds)

    def valid_note(self, table: Table) -> IdleNote | None:
        """Return the note if nothing has happened to the log since, and it is not too old to be believed."""
        note, stored = self.note, self.stored
        if note is None or stored is None or stored.age_seconds >= BELIEVED_SECONDS:
            return None
        is_same = note.table == _identity(table) and note.looks == self.listing.looks(note.first_version)
        return note if is_same else None

    def quiet_note(self, table: Table, settings: str) -> IdleNote | None:
        """Return the note if a vacuum with these settings has nothing to do: two more requests."""
        note = self.valid_note(table)
        if note is None or self.stored is None or self.listing.pending or note.settings != settings:
            return None
        if self.stored.age_seconds >= note.quiet_seconds or any(self.store.list_uploads(self.layout.all_data.key)):
            return None
        directories = self.store.list_directories(self.layout.all_data.key)
        return note if _directories(filter(WRITE_ID.fullmatch, directories)) == note.directories else None

    def settled_note(self, table: Table, metastore: Metastore) -> IdleNote | None:
        """Return the note if a recovery has nothing to do: one metastore call for every 250 partitions of the log."""
        note = self.valid_note(table)
        if note is None or note.partitions is None:
            return None
        now = metastore.get_partitions(table, note.partitions)
        return note if _locations(note.partitions, now) == note.locations else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    """The findings of a whole look at which nothing had to be done."""

    version: int
    settings: str
    quiet_seconds: float
    write_ids: Collection[str]  # that have a directory below data/
    placed: Collection[PartitionValues] | None  # the partitions of the log; None: some have to be corrected
    partitions: Locations  # as the metastore had them


def leave_note(store: ObjectStore, layout: TableLayout, table: Table, listing: OwnListing, findings: Findings) -> None:
    """Put a note for the next look; if that fails, it reads everything again.

    ``listing`` was made before the look: what came since then makes the note worthless, as it should be.
    """
    if findings.quiet_seconds <= 0 or listing.newest[0] != findings.version or listing.owner is None or listing.pending:
        return
    first = max(listing.first_version, findings.version - COMPARED_VERSIONS)
    values_in_place = (
        None if findings.placed is None or len(findings.placed) > MOST_PARTITIONS else tuple(sorted(findings.placed))
    )
    note = IdleNote(
        format=IDLE_FORMAT,
        table=_identity(table),
        first_version=first,
        looks=listing.looks(first),
        version=findings.version,
        settings=findings.settings,
        quiet_seconds=min(findings.quiet_seconds, BELIEVED_SECONDS),
        directories=_directories(findings.write_ids),
        partitions=values_in_place,
        locations=_locations(values_in_place or (), findings.partitions),
        missing=tuple(values for values in values_in_place or () if values not in findings.partitions),
    )
    try:
        store.put(layout.idle_key, packed(msgspec.json.encode(note)))
    except StorageError as error:
        logger.warning("%s was not put, and the next look reads everything: %s", layout.idle_key, error)


def _parsed(stored: StoredObject) -> IdleNote | None:
    try:
        note: IdleNote = Allowance().parsed(stored.body, lambda body: msgspec.json.decode(body, type=IdleNote))
    except (ValueError, RecursionError) as error:
        logger.warning("%s cannot be used, and everything is read: %s", stored.info.key, error)
        return None
    return note if note.format == IDLE_FORMAT and note.first_version >= 0 else None


def _slot(key: str) -> tuple[str, str] | None:
    found = SLOT.fullmatch(key.rpartition("/")[2])
    return None if found is None else (found[0], found[1])


def _identity(table: Table) -> tuple[str, str, int]:
    return (table.name.database, table.name.name, table.created_at_seconds)


def _directories(names: Iterable[str]) -> str:
    return _digest([name] for name in sorted(names))


def _locations(values: Iterable[PartitionValues], now: Locations) -> str:
    return _digest([*key, now[key].location if key in now else None] for key in values)


def _digest(rows: Iterable[list[str | int | None]]) -> str:
    return hashlib.sha256(json.dumps(list(rows)).encode()).hexdigest()
