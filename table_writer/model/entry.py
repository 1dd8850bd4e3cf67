"""Entries of a table's log: what one publish is about to change, stored before it changes.

An entry is frozen, versioned, and validates itself on load and on save, so that a truncated, foreign or hostile file
is an error before anything is decided by it. Locations below the table root are stored relative to it.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from table_writer.errors import InvalidInputError
from table_writer.model.check_result import CheckResult
from table_writer.model.location import Location
from table_writer.model.table import PartitionValues

__all__ = [
    "DISCARD",
    "MAX_NUMBER",
    "MAX_TIMEOUT_SECONDS",
    "WRITE_ID",
    "DeletedLocation",
    "EntryPartition",
    "LogEntry",
    "Operation",
    "Outcome",
    "ReplacedLocation",
    "ReplacedObject",
]

ENTRY_FORMAT: Final = 1
DISCARD: Final = "discard"  # the mode of a vacuum that gives one staged write up, because somebody asked
WRITE_ID: Final = re.compile(r"[0-9a-zA-Z][0-9a-zA-Z._-]{0,79}")
MAX_NUMBER: Final = 2**63 - 1  # of a bigint; JSON itself knows no limit
MAX_TIMEOUT_SECONDS: Final = 86_400  # what the config allows; others wait for a claim that long


class Operation(enum.Enum):
    """What an entry does."""

    WRITE = "write"  # points partitions at new rows
    RECOVER = "recover"  # does again what another entry says: its writer is gone, or a late call has undone it
    ROLLBACK = "rollback"  # points partitions at rows they had before
    RESTORE = "restore"  # adds partitions that the metastore has lost
    VACUUM = "vacuum"  # deletes locations; no partition changes


class Outcome(enum.Enum):
    """How an entry ended; the first one recorded stands. An entry without an outcome is in doubt."""

    PUBLISHED = "published"  # it was carried out: readers look at its new locations, or did until a later entry
    ABANDONED = "abandoned"  # it changed nothing and never will


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryPartition:
    """One partition of an entry: where readers looked, where they will look, and what is there.

    What other tools wrote has ``None`` for the figures that its listing does not show.
    """

    values: PartitionValues
    old_location: str | None  # None: the partition did not exist
    new_location: str | None  # None: the partition will not exist
    rows: int | None
    bytes: int
    raw_bytes: int | None  # before compression
    files: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplacedObject:
    """A file that another tool wrote, exactly as it was when it was replaced."""

    key: str
    size_bytes: int
    etag: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplacedLocation:
    """A location that readers left, and when it may be deleted.

    ``objects`` lists the files where other tools wrote them: only these, unchanged, may ever be deleted.
    A location of this library's own has none: all of its directory belongs to one write.
    """

    location: str
    delete_after: datetime
    objects: tuple[ReplacedObject, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class DeletedLocation:
    """A location that a vacuum deletes.

    ``replaced_by`` is the version after which readers did not look there any more; ``None`` for the directory of a
    write that was never published. No entry may point readers at a location that an earlier one deletes.

    ``kept``: the write is given up, and its files go only with their retention, since it had claimed an entry.
    """

    location: str
    replaced_by: int | None
    kept: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class LogEntry:
    """One record of a table's log, claimed before the metastore changes."""

    table: str
    version: int
    write_id: str
    operation: Operation
    mode: str
    created_at: datetime
    base_version: int
    publish_timeout_seconds: float  # others leave the entry alone for this long
    partitions: tuple[EntryPartition, ...]
    replaced: tuple[ReplacedLocation, ...] = ()
    deletes: tuple[DeletedLocation, ...] = ()
    schema: str = ""
    row_bytes: int = 0  # of a row in Arrow, where the write's rows were widest; 0 where nobody has looked
    settles: int | None = None  # a recover entry names the version it finishes
    rollback_to: int | None = None  # a rollback names the version it goes back to
    idempotency_key: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    writer: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[CheckResult, ...] = ()  # that the write passed, or failed with a warning; no rows of the data
    recovered_write_id: str = ""  # of a recover entry: whose write it does again
    log_id: str = ""  # of the log that it was claimed in: entries of another one may lie here by mistake

    @property
    def partition_values(self) -> frozenset[PartitionValues]:
        """The partitions this entry changes."""
        return frozenset(partition.values for partition in self.partitions)

    def validate(self) -> None:
        """Check the entry against itself.

        Raises
        ------
        InvalidInputError
            A field is out of its range, or two partitions have the same values.
        """
        problems = [
            text
            for text, wrong in (
                ("version is below 1, or none that could have been reached", not 1 <= self.version <= MAX_NUMBER),
                ("base version is not below the version", not 0 <= self.base_version < self.version),
                ("write_id is malformed", WRITE_ID.fullmatch(self.write_id) is None),
                ("created_at has no time zone", self.created_at.utcoffset() is None),
                ("a partition is named twice", len(self.partition_values) != len(self.partitions)),
                (
                    "a figure is negative, or one that nothing could have",
                    any(not 0 <= n <= MAX_NUMBER for p in self.partitions for n in _figures(p))
                    or not 0 <= self.row_bytes <= MAX_NUMBER,
                ),
                (
                    "publish timeout is not positive, or longer than a day",
                    not 0 < self.publish_timeout_seconds <= MAX_TIMEOUT_SECONDS,
                ),
                ("a schedule has no time zone", any(one.delete_after.utcoffset() is None for one in self.replaced)),
                (
                    "a recover entry names no version",
                    (self.operation is Operation.RECOVER) != (self.settles is not None),
                ),
                (
                    "only a vacuum deletes, and it changes no partition",
                    bool(self.deletes) != (self.operation is Operation.VACUUM)
                    or (bool(self.partitions) and self.operation is Operation.VACUUM),
                ),
                (
                    "the version to settle is not an earlier one",
                    self.settles is not None and not 1 <= self.settles <= self.base_version,
                ),
                (
                    "the version to go back to is not an earlier one",
                    self.rollback_to is not None and not 0 <= self.rollback_to <= self.base_version,
                ),
            )
            if wrong
        ]
        if problems:
            raise InvalidInputError(f"log entry {self.version} is not valid: {'; '.join(problems)}", table=self.table)

    def to_json(self, root: Location) -> bytes:
        """Serialise for storage below ``root``; an entry that does not validate is never stored."""
        self.validate()
        return json.dumps(
            {
                "format": ENTRY_FORMAT,
                "log_id": self.log_id,
                "table": self.table,
                "version": self.version,
                "write_id": self.write_id,
                "operation": self.operation.value,
                "mode": self.mode,
                "created_at": self.created_at.isoformat(),
                "base_version": self.base_version,
                "publish_timeout_seconds": self.publish_timeout_seconds,
                "settles": self.settles,
                "recovered_write_id": self.recovered_write_id,
                "rollback_to": self.rollback_to,
                "idempotency_key": self.idempotency_key,
                "tags": dict(self.tags),
                "schema": self.schema,
                "row_bytes": self.row_bytes,
                "partitions": [_partition_to_json(partition, root) for partition in self.partitions],
                "replaced": [_replaced_to_json(replaced, root) for replaced in self.replaced],
                "deletes": [
                    {
                        "location": _shorten(deleted.location, root),
                        "replaced_by": deleted.replaced_by,
                        "kept": deleted.kept,
                    }
                    for deleted in self.deletes
                ],
                "writer": dict(self.writer),
                "checks": [result.to_json() for result in self.checks],
            },
            ensure_ascii=False,
        ).encode()

    @classmethod
    def from_json(cls, data: bytes, *, root: Location, version: int) -> LogEntry:
        """Read and validate the entry that is stored in slot ``version``.

        Raises
        ------
        InvalidInputError
            The file is truncated, of an unknown format, or belongs to another slot.
        """
        where = f"log entry {version} below {root}"
        try:
            stored = json.loads(data)
            if stored["format"] != ENTRY_FORMAT:
                raise InvalidInputError(f"format {stored['format']!r}: upgrade table_writer to read it")
            entry = cls(
                table=_text(stored["table"]),
                version=int(stored["version"]),
                write_id=_text(stored["write_id"]),
                operation=Operation(stored["operation"]),
                mode=_text(stored["mode"]),
                created_at=datetime.fromisoformat(stored["created_at"]),
                base_version=int(stored["base_version"]),
                publish_timeout_seconds=float(stored["publish_timeout_seconds"]),
                settles=_number(stored["settles"]),
                rollback_to=_number(stored["rollback_to"]),
                idempotency_key=_text(stored["idempotency_key"]),
                tags={_text(key): _text(value) for key, value in stored["tags"].items()},
                schema=_text(stored["schema"]),
                row_bytes=int(stored.get("row_bytes", 0)),
                partitions=tuple(_partition_from_json(partition, root) for partition in stored["partitions"]),
                replaced=tuple(_replaced_from_json(replaced, root) for replaced in stored["replaced"]),
                deletes=tuple(
                    DeletedLocation(
                        location=_lengthen(_text(deleted["location"]), root),
                        replaced_by=_number(deleted["replaced_by"]),
                        kept=bool(deleted.get("kept", False)),
                    )
                    for deleted in stored["deletes"]
                ),
                writer={_text(key): _text(value) for key, value in stored["writer"].items()},
                checks=tuple(map(CheckResult.from_json, stored.get("checks", ()))),
                recovered_write_id=_text(stored.get("recovered_write_id", "")),
                log_id=_text(stored.get("log_id", "")),
            )
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise InvalidInputError(f"{where} cannot be read: {type(error).__name__}: {error}") from error
        if entry.version != version:
            raise InvalidInputError(f"{where} says it is version {entry.version}: the file was moved or copied")
        entry.validate()
        return entry


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, found {type(value).__name__}")
    value.encode()  # half a surrogate pair could not be stored again
    return value


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _figures(partition: EntryPartition) -> tuple[int, ...]:
    return (partition.rows or 0, partition.bytes, partition.raw_bytes or 0, partition.files)


def _shorten(location: str, root: Location) -> str:
    parsed = Location.parse(location)
    return root.relative_key(parsed) if root.contains(parsed) else str(parsed)


def _lengthen(text: str, root: Location) -> str:
    if "://" in text:
        return str(Location.parse(text))
    if ".." in text.split("/"):
        raise InvalidInputError(f"a location in the log leaves the table root: {text!r}")
    return str(Location(root.scheme, root.bucket, root.key + text))


def _partition_to_json(partition: EntryPartition, root: Location) -> dict[str, Any]:
    old, new = partition.old_location, partition.new_location
    return {
        "values": list(partition.values),
        "old_location": None if old is None else _shorten(old, root),
        "new_location": None if new is None else _shorten(new, root),
        "rows": partition.rows,
        "bytes": partition.bytes,
        "raw_bytes": partition.raw_bytes,
        "files": partition.files,
    }


def _partition_from_json(stored: Mapping[str, Any], root: Location) -> EntryPartition:
    old, new = stored["old_location"], stored["new_location"]
    return EntryPartition(
        values=tuple(_text(value) for value in stored["values"]),
        old_location=None if old is None else _lengthen(_text(old), root),
        new_location=None if new is None else _lengthen(_text(new), root),
        rows=_number(stored["rows"]),
        bytes=int(stored["bytes"]),
        raw_bytes=_number(stored["raw_bytes"]),
        files=int(stored["files"]),
    )


def _below(key: str, root: Location) -> str:
    """Return a listed file's path below the root: a rename of the table moves both."""
    if not key.startswith(root.key):
        raise InvalidInputError(f"{key!r} is not below {root}: such files are not scheduled")
    return key.removeprefix(root.key)


def _replaced_to_json(replaced: ReplacedLocation, root: Location) -> dict[str, Any]:
    return {
        "location": _shorten(replaced.location, root),
        "delete_after": replaced.delete_after.isoformat(),
        "objects": [{"path": _below(o.key, root), "size": o.size_bytes, "etag": o.etag} for o in replaced.objects],
    }


def _replaced_from_json(stored: Mapping[str, Any], root: Location) -> ReplacedLocation:
    return ReplacedLocation(
        location=_lengthen(_text(stored["location"]), root),
        delete_after=datetime.fromisoformat(stored["delete_after"]),
        objects=tuple(
            ReplacedObject(key=root.key + _text(o["path"]), size_bytes=int(o["size"]), etag=_text(o["etag"]))
            for o in stored["objects"]
        ),
    )
