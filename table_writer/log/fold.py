"""A fold holds what a log says up to a version, so that nobody has to read the entries before it.

A vacuum writes it. The entries stay the truth: a fold that is lost, damaged, of another format or of another log is
passed over, and all entries are read again. So are they where a question is about what it leaves out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

import msgspec

from table_writer.model.entry import EntryPartition, ReplacedObject, below_root, lengthened, shortened
from table_writer.model.location import Location

FOLD_FORMAT: Final = 2  # another one for every change of what is folded: older folds are passed over then
FOLD_EVERY_VERSIONS: Final = 100  # a log shorter than that is read as fast without


@dataclass(frozen=True, slots=True)
class CurrentPartition:
    """The newest published entry's description of a partition: it says where the partition is."""

    version: int
    partition: EntryPartition
    age_seconds: float  # since this was recorded


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftLocation:
    """A location that readers have left, or that they never came to because its entry was abandoned.

    ``objects`` lists exactly what may be deleted where other tools wrote; a location of ours may go as a whole.
    """

    location: Location
    left_by: int  # the version after which readers did not look there any more
    age_seconds: float  # since this was recorded
    retention_seconds: float | None  # as scheduled; None: the usual one
    objects: tuple[ReplacedObject, ...] = ()
    bytes: int = 0  # as far as the log knows


@dataclass(frozen=True, kw_only=True, slots=True)
class Fold:
    """The facts that are needed of the entries up to a version, none of which is in doubt."""

    version: int
    log_id: str  # the id of its log
    write_id: str  # of that version; a log that was set back has another one there, or none
    current: tuple[CurrentPartition, ...]
    left: tuple[LeftLocation, ...]
    deleted: tuple[tuple[str, int], ...]  # locations that readers have left, or look at, with their newest vacuum
    held: tuple[EntryPartition, ...]  # their rows and files
    naming: tuple[tuple[str, tuple[int, ...]], ...]  # the entries that name each of them
    added: tuple[str, ...]  # those of them to which files were added in place
    vacuums: tuple[tuple[int, tuple[int, ...]], ...]  # with the entries that replaced what each has deleted
    groups: Mapping[str, int]  # the newest version of each stream of batches
    keys: Mapping[str, int]  # the newest published version of each idempotency key, by its digest
    rollbacks: tuple[tuple[int, int], ...]  # with the versions that they went back to
    read_at: datetime | None = None  # by the store's clock; not stored

    def to_json(self, root: Location) -> bytes:
        """Serialise for storage below ``root``, with a checksum."""
        fields = msgspec.to_builtins(self)
        del fields["read_at"]
        for left_location in fields["left"]:
            left_location["location"] = str(Location(**left_location["location"]))
        _change_locations(fields, partial(shortened, root=root), partial(below_root, root=root))
        folded = msgspec.json.encode(fields)
        return msgspec.json.encode(_Stored(format=FOLD_FORMAT, sha256=_digest(folded), folded=msgspec.Raw(folded)))

    @classmethod
    def from_json(cls, data: bytes, *, root: Location, older_seconds: float) -> Fold:
        """Read what was stored so long ago; ``ValueError`` if it is damaged, or of another format."""
        stored = msgspec.json.decode(data, type=_Stored)
        if stored.format != FOLD_FORMAT:
            raise ValueError(f"it has format {stored.format}")
        if stored.sha256 != _digest(bytes(stored.folded)):
            raise ValueError("its checksum is of other bytes")
        fields = msgspec.json.decode(stored.folded)
        _change_locations(fields, partial(lengthened, root=root), lambda path: f"{root.key}{path}")
        for left_location in fields["left"]:
            left_location["location"] = asdict(Location.parse(left_location["location"]))
        for item in (*fields["current"], *fields["left"]):
            item["age_seconds"] += older_seconds
        return msgspec.convert(fields, cls)

    def holds(self, unverified: Collection[int]) -> bool:
        """Return whether the fold may stand for its entries: not if one of their calls may have come since, unseen."""
        return all(version > self.version for version in unverified)

    def voids(self, version: int) -> bool:
        """Return whether a rollback may have taken back what this version published: then its key is free again."""
        return any(to < version < rollback for rollback, to in self.rollbacks)


@dataclass(frozen=True, slots=True)
class Oldest:
    """The oldest entries before a fold, as a listing showed them."""

    ended: frozenset[int] = frozenset()  # those that ended longer ago than was asked
    listed: frozenset[int] = frozenset()  # all that are there, up to the first that has not
    trimmed: int = 0  # up to here vacuums may have deleted entries

    def is_gone(self, version: int) -> bool:
        """Return whether a vacuum has trimmed an entry."""
        return version not in self.listed and version <= self.trimmed and version < max(self.ended, default=0)


NOTHING_LISTED: Final = Oldest()


class _Stored(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    sha256: str  # the checksum of ``folded``
    folded: msgspec.Raw


msgspec.json.Decoder(_Stored)  # prepared here: msgspec 0.22 crashes when two threads prepare it at once


def key_digest(key: str, stream: str | None) -> str:
    """Return the digest that stands for an idempotency key in a fold; whoever finds it compares the key itself."""
    space = "" if stream is None else f"{stream}\0"
    return hashlib.blake2b(f"{space}{key}".encode(), digest_size=8).hexdigest()


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _change_locations(fields: dict[str, Any], change: Callable[[str], str], change_key: Callable[[str], str]) -> None:
    """Change every location and key: on the store they are relative to the table's root."""
    for partition in (*(current["partition"] for current in fields["current"]), *fields["held"]):
        for name in ("old_location", "new_location", "source"):
            if partition[name] is not None:
                partition[name] = change(partition[name])
    for left_location in fields["left"]:
        left_location["location"] = change(left_location["location"])
        for found in left_location["objects"]:
            found["path"] = change_key(found["path"])
    for name in ("deleted", "naming"):
        fields[name] = [(change(location), rest) for location, rest in fields[name]]
    fields["added"] = [change(location) for location in fields["added"]]
