"""Entries of a table's log: each says what is about to change, and is stored before the change.

An entry is frozen, versioned, and validates itself on load and on save, so that a truncated, foreign or hostile file
is an error before anything is decided by it. Locations below the table root are stored relative to it.
"""

from __future__ import annotations

import enum
import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from table_writer.errors import InvalidInputError
from table_writer.model.check_result import CheckResult
from table_writer.model.column_figures import ColumnFigures, from_text
from table_writer.model.contents import Contents
from table_writer.model.hive_columns import hive_columns
from table_writer.model.location import Location
from table_writer.model.meaning import OF_OPERATION, Meaning, Operation
from table_writer.model.table import PartitionValues
from table_writer.model.units import DAY_SECONDS
from table_writer.model.words import NO_WORDS, Words
from table_writer.model.write_mode import WriteMode

ENTRY_FORMAT: Final = 1
WRITE_ID: Final = re.compile(r"[0-9a-zA-Z][0-9a-zA-Z._-]{0,79}")
MAX_NUMBER: Final = 2**63 - 1  # of a bigint; JSON itself knows no limit
MAX_TIMEOUT_SECONDS: Final = DAY_SECONDS  # what the config allows; others wait for a claim that long


_CHANGED: Final = frozenset(
    {"partitions", "replaced", "schema", "columns_by", "replaced_schema", "row_bytes", "depends_on_rows", "checks"}
)
_REPEATED: Final = _CHANGED | {"mode", "recovers", "recovered_write_id", "repeats"}
BODIES: Final[Mapping[Operation, frozenset[str]]] = {
    Operation.WRITE: _CHANGED | {"mode"},
    Operation.COMPACT: _CHANGED,
    Operation.RECOVER: _REPEATED,
    Operation.UNDO: _REPEATED,
    Operation.ROLLBACK: _CHANGED | {"rollback_to"},
    Operation.RESTORE: _CHANGED,
    **dict.fromkeys(
        (Operation.VACUUM, Operation.DISCARD, Operation.HANDOVER, Operation.TAKE_BACK), frozenset({"deletes"})
    ),
    Operation.ERASE: frozenset({"deletes", "erasure"}),
}
"""The fields of each operation's own; all others are the header, which every entry has."""

BODY: Final = frozenset().union(*BODIES.values())
NEEDED: Final = {
    Operation.WRITE: "mode",
    Operation.RECOVER: "recovers",
    Operation.UNDO: "recovers",
    Operation.ROLLBACK: "rollback_to",
    Operation.VACUUM: "deletes",
    Operation.DISCARD: "deletes",
    Operation.HANDOVER: "deletes",
    Operation.TAKE_BACK: "deletes",
    Operation.ERASE: "erasure",
}
"""The field without which an operation means nothing."""

WORDS: Final = ("call", "where", "tags")
COUNTS: Final = ("inserted", "updated", "deleted")
ALWAYS: Final = frozenset({"version", "base_version", "rollback_to"})
"""Fields that mean something though they are 0; others that are 0 or empty are left out."""


class NewerLibraryError(InvalidInputError):
    """What is stored is not damaged: a newer version of this library has written it."""


class Outcome(enum.Enum):
    """How an entry ended; the first one recorded stands. An entry without an outcome is in doubt."""

    PUBLISHED = "published"  # it was carried out: readers look at its new locations, or did until a later entry
    ABANDONED = "abandoned"  # it changed nothing and never will


class AddedFile(msgspec.Struct, frozen=True, kw_only=True, rename={"size_bytes": "size"}):
    """A new file that an append in place adds to the location where readers look already."""

    name: str  # below the location, and below the source
    size_bytes: int


class Counts(Protocol):
    """The counts of some files; ``None`` where they are not known."""

    @property
    def rows(self) -> int | None:
        """Return the number of rows."""

    @property
    def bytes(self) -> int:
        """Return the bytes of the files as they are stored."""

    @property
    def raw_bytes(self) -> int | None:
        """Return the bytes before compression."""

    @property
    def files(self) -> int:
        """Return the number of files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryPartition:
    """One partition of an entry: where readers looked, where they will look, and what is there.

    What other tools wrote has ``None`` for the figures that its listing does not show. An append in place leaves the
    location as it is: its figures are those of the files that it adds.
    """

    values: PartitionValues
    old_location: str | None  # None: the partition did not exist
    new_location: str | None  # None: the partition will not exist
    rows: int | None
    bytes: int
    raw_bytes: int | None  # before compression
    files: int
    source: str | None = None  # of an append in place: where its files were written, and are copied from
    added: tuple[AddedFile, ...] = ()  # by an append in place; empty for all else
    figures: str = ""  # of columns, for the metastore after the switch; empty where not all are known

    @property
    def locations(self) -> tuple[str, ...]:
        """Return every location that is named: where readers looked, will look, and where added files come from."""
        return tuple(text for text in (self.old_location, self.new_location, self.source) if text)

    @property
    def contents(self) -> Contents:
        """How much it has, or adds."""
        return Contents(self.files, self.bytes)

    @property
    def holds_all(self) -> bool:
        """Whether its files and figures are all there is at its location: an append in place has others beside."""
        return not self.added

    @property
    def is_done_by_switch(self) -> bool:
        """Whether readers see all of it once the metastore has switched it; files of an append in place come after."""
        return not self.added

    @property
    def left_location(self) -> str | None:
        """Return the location that readers leave by it; ``None`` if there was none, or they stay."""
        return None if self.added else self.old_location

    @property
    def own_location(self) -> str | None:
        """Return the location where the entry itself has put files; ``None`` if there is none."""
        return self.source if self.added else self.new_location

    def column_figures(self) -> dict[str, ColumnFigures]:
        """Return the figures of its columns; none of columns that are said to have more or fewer rows than it."""
        return {name: figures for name, figures in from_text(self.figures).items() if figures.rows == self.rows}

    def with_more(self, more: Counts) -> EntryPartition:
        """Return the same with the figures of other files beside its own; those of columns are known no more."""
        return replace(
            self,
            figures="",
            rows=_sum_if_known(self.rows, more.rows),
            bytes=self.bytes + more.bytes,
            raw_bytes=_sum_if_known(self.raw_bytes, more.raw_bytes),
            files=self.files + more.files,
        )

    def targets(self) -> dict[str, int]:
        """Return keys and sizes of the files that an append in place adds."""
        prefix = Location.parse(self.new_location).key if self.added and self.new_location else ""
        return {f"{prefix}{file.name}": file.size_bytes for file in self.added}

    def sources(self) -> dict[str, str]:
        """Return where the files lie that an append in place adds, by the keys that they get."""
        prefix = Location.parse(self.source).key if self.added and self.source else ""
        return dict(zip(self.targets(), (f"{prefix}{file.name}" for file in self.added), strict=True))

    @classmethod
    def without_rows(cls, values: PartitionValues, new_location: str | None) -> EntryPartition:
        """Describe a partition that will have no rows."""
        return cls(values=values, old_location=None, new_location=new_location, rows=0, bytes=0, raw_bytes=0, files=0)


@dataclass(frozen=True, slots=True)
class Key:
    """An idempotency key: that of a stream's batch, or that of a single call, which never meet."""

    text: str
    stream: str = ""  # the streaming query's name; empty for a single call

    def __bool__(self) -> bool:
        return self.text != ""

    def is_of(self, entry: LogEntry) -> bool:
        """Return whether an entry has this key."""
        return self.text != "" and entry.key == self


NO_KEY: Final = Key("")


class ReplacedObject(msgspec.Struct, frozen=True, kw_only=True, rename={"key": "path", "size_bytes": "size"}):
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

    @classmethod
    def kept_at(cls, location: Location) -> DeletedLocation:
        """Name the directory of a write of which nothing goes now: an entry of a vacuum has to name one."""
        return cls(location=str(location), replaced_by=None, kept=True)


class Erasure(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that may hold deleted rows, as they were found when they were to be erased."""

    predicate_sha256: str  # of a salt that is stored nowhere, and the delete's predicate, which may name a person
    deleted_rows: int | None  # None: the call was repeated, and an earlier one has deleted them
    write_id: str  # of the delete; empty: readers saw no such row any more
    keys: tuple[str, ...] = ()  # of the objects that go
    kept: tuple[tuple[str, str], ...] = ()  # locations that may hold such rows and do not go, and why, for a person
    unknown: tuple[str, ...] = ()  # what could not be found out, for a person


@dataclass(frozen=True, kw_only=True, slots=True)
class LogEntry:
    """One record of a table's log, claimed before the metastore changes."""

    log_id: str = ""  # of the log in which it was claimed: entries of another log may lie here by mistake
    table: str
    version: int
    write_id: str
    operation: Operation
    mode: WriteMode | None = None  # of a write, or of a recovery that does one again
    created_at: datetime
    base_version: int
    in_doubt: frozenset[int] = frozenset()  # versions that had not ended when it was claimed: published after it
    publish_timeout_seconds: float  # others leave the entry alone for this long
    recovers: int | None = None  # a recover entry names the version it finishes
    recovered_write_id: str = ""  # of a recover entry: the write that it repeats
    repeats: Operation | None = None  # of a recovery, or what undoes a late call: the operation that it repeats
    rollback_to: int | None = None  # a rollback names the version it goes back to
    key: Key = NO_KEY  # of idempotency
    words: Words = NO_WORDS  # what its caller has said, and what became of rows
    depends_on_rows: bool = False  # its rows are computed from those that its partitions had
    schema: str = ""  # of its rows' data columns, Spark's JSON; of a rollback, those that the table is to have
    columns_by: str = ""  # the write that gave the table the columns of these rows in place of others; empty: none
    replaced_schema: str = ""  # the columns that the table had until then, of the write that gives it others
    row_bytes: int = 0  # of a row in Arrow, where the write's rows were widest; 0 where nobody has looked
    partitions: tuple[EntryPartition, ...] = ()
    replaced: tuple[ReplacedLocation, ...] = ()
    deletes: tuple[DeletedLocation, ...] = ()
    erasure: Erasure | None = None  # of a vacuum that an erasure has claimed
    writer: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[CheckResult, ...] = ()  # that the write passed, or failed with a warning; no rows of the data

    @property
    def idempotency_key(self) -> str:
        """Return the text of the key; empty if there is none."""
        return self.key.text

    @property
    def stream(self) -> str:
        """Return the stream whose batch it is; empty if it is none."""
        return self.key.stream

    @property
    def tags(self) -> Mapping[str, str]:
        """Return the tags that the caller has given."""
        return self.words.tags

    @property
    def called(self) -> str:
        """Return by what name people know it: that of the call that changes rows; else its mode, or what it is."""
        back = "" if self.rollback_to is None else f" to version {self.rollback_to}"
        usual = self.mode.value if self.mode else (self.repeats or self.operation).value
        return self.words.call or f"{usual}{back}"

    @property
    def partition_values(self) -> frozenset[PartitionValues]:
        """Return the partitions that this entry changes."""
        return frozenset(partition.values for partition in self.partitions)

    @property
    def meaning(self) -> Meaning:
        """Return what it means to others."""
        return OF_OPERATION[self.operation]

    @property
    def keeps_rows(self) -> bool:
        """Return whether it adds rows to those that its partitions have."""
        return self.mode is not None and self.mode.facts.keeps_rows

    @property
    def is_compaction(self) -> bool:
        """Return whether this is a compaction, or a recovery that repeats one: no rows change."""
        return Operation.COMPACT in {self.operation, self.repeats}

    @property
    def only_adds(self) -> bool:
        """Return whether the switch only adds partitions; a recovery alters the partitions that are there by then."""
        return not self.meaning.repeats and all(
            partition.new_location and partition.old_location is None for partition in self.partitions
        )

    @property
    def only_drops_late(self) -> bool:
        """Return whether this is a correction that drops what the late call of an abandoned entry has added."""
        return self.operation is Operation.UNDO and not any(partition.new_location for partition in self.partitions)

    @property
    def has_figures(self) -> bool:
        """Return whether its claimant gives the metastore figures of columns after the switch."""
        return any(partition.figures for partition in self.partitions)

    @property
    def erasing_id(self) -> str:
        """Return the write by which an erasure is known: the delete; itself, where no reader saw such a row."""
        return (self.erasure and self.erasure.write_id) or self.write_id

    @property
    def erased(self) -> str:
        """Say when and by whom rows were erased, for a message about the files of an erasure."""
        by = f"{self.writer.get('user', '?')}@{self.writer.get('host', '?')}"
        return f"erased on {self.created_at:%Y-%m-%d} by {by} (write {self.erasing_id})"

    @property
    def named(self) -> dict[str, str]:
        """Return the keywords with which an error names this entry."""
        return {"table": self.table, "write_id": self.write_id}

    def validate(self) -> None:
        """Check the entry against itself; ``InvalidInputError`` lists what is wrong."""
        figures = [n for p in self.partitions for n in (p.rows or 0, p.bytes, p.raw_bytes or 0, p.files)]
        figures += [self.row_bytes, *self.words.counts.values()]
        base, timeout = self.base_version, self.publish_timeout_seconds
        recovers, back_to = self.recovers, self.rollback_to
        needed = NEEDED.get(self.operation, "")
        foreign = sorted(name for name in BODY - BODIES[self.operation] if getattr(self, name) != _USUAL[name])
        faults = {
            "version is below 1, or none that could have been reached": not 1 <= self.version <= MAX_NUMBER,
            "base version is not below the version": not 0 <= base < self.version,
            "write_id is malformed": WRITE_ID.fullmatch(self.write_id) is None,
            "created_at has no time zone": self.created_at.utcoffset() is None,
            "files are added in a way that no append in place does": not all(map(_has_valid_files, self.partitions)),
            "a partition is named twice": len(self.partition_values) != len(self.partitions),
            "a figure is negative, or one that nothing could have": min(figures) < 0 or max(figures) > MAX_NUMBER,
            "publish timeout is not positive, or longer than a day": not 0 < timeout <= MAX_TIMEOUT_SECONDS,
            "a schedule has no time zone": any(replaced.delete_after.utcoffset() is None for replaced in self.replaced),
            f"a {self.operation.value} has no {', '.join(foreign)}": bool(foreign),
            f"a {self.operation.value} has to say its {needed}": bool(needed) and getattr(self, needed) in _MISSING,
            "the version to recover is not an earlier one": recovers is not None and not 1 <= recovers <= base,
            "its columns cannot be read": bool(self.columns_by) and not (self.schema and _are_columns(self.schema)),
            "the columns that it replaces cannot be read": not _are_columns(self.replaced_schema),
            "what was in doubt is not earlier": any(not 1 <= version < self.version for version in self.in_doubt),
            "the version to go back to is not an earlier one": back_to is not None and not 0 <= back_to <= base,
        }
        problems = [text for text, is_so in faults.items() if is_so]
        if problems:
            raise InvalidInputError(f"log entry {self.version} is not valid: {'; '.join(problems)}", table=self.table)

    def to_json(self, root: Location) -> bytes:
        """Return the entry as JSON for storage below ``root``; an entry that is not valid is never stored."""
        self.validate()
        fields = msgspec.to_builtins(self, builtin_types=(datetime,))
        fields["checks"] = [result.to_json() for result in self.checks]
        fields["in_doubt"] = sorted(self.in_doubt)
        fields["key"] = {name: text for name, text in fields["key"].items() if text}
        words = fields.pop("words")
        fields["counts"] = {name: words.pop(name) for name in COUNTS if name in words}
        fields |= words
        _change_locations(fields, partial(shortened, root=root), partial(below_root, root=root))
        for partition in fields["partitions"]:
            for name in ("source", "added", "figures"):
                if not partition[name]:
                    del partition[name]
        stored = {name: value for name, value in fields.items() if value or (value == 0 and name in ALWAYS)}
        body = {name: stored.pop(name) for name in BODY & stored.keys()}
        whole = {"format": ENTRY_FORMAT, **stored, "body": {name: body[name] for name in sorted(body)}}
        return json.dumps(whole, ensure_ascii=False, default=datetime.isoformat).encode()

    @classmethod
    def from_json(cls, data: bytes, *, root: Location, version: int) -> LogEntry:
        """Read and validate the entry that is stored in slot ``version``.

        An ``InvalidInputError`` says that it is truncated, of an unknown format, or belongs to another slot.
        """
        subject = f"log entry {version} below {root}"
        try:
            fields = msgspec.json.decode(data.removeprefix(BOM_UTF8))  # an editor may have added the mark
            require_understood(fields, subject, ENTRY_FORMAT)
            fields = _NO_LISTS | fields.pop("body") | fields
            _change_locations(fields, partial(lengthened, root=root), lambda path: f"{root.key}{path}")
            fields["checks"] = tuple(map(CheckResult.from_json, fields["checks"]))
            fields["words"] = {name: fields[name] for name in WORDS if name in fields} | fields.get("counts", {})
            entry = msgspec.convert(fields, cls)
        except NewerLibraryError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidInputError(f"{subject} cannot be read: {type(error).__name__}: {error}") from error
        if entry.version != version:
            raise InvalidInputError(f"{subject} says it is version {entry.version}: the file was moved or copied")
        entry.validate()
        return entry


_USUAL: Final = {field.name: field.default for field in fields(LogEntry) if field.name in BODY}
_MISSING: Final = (None, ())
_NO_LISTS: Final[Mapping[str, Any]] = dict.fromkeys(("partitions", "replaced", "deletes", "checks"), ())
msgspec.json.Decoder(LogEntry)  # prepared here: msgspec 0.22 crashes when two threads prepare it at once


def require_understood(fields: Mapping[str, Any], subject: str, known_format: int) -> None:
    """Refuse another format, and words that whoever goes on from here must understand: none is known yet."""
    if fields["format"] != known_format:
        raise NewerLibraryError(f"{subject} has format {fields['format']!r}: upgrade table_writer to read it")
    unknown = dict(fields.get("must_understand", {}))
    if unknown:
        since = ", ".join(f"{word!r} (since {version})" for word, version in sorted(unknown.items()))
        raise NewerLibraryError(
            f"{subject} was written by a newer table_writer, and this one must not go on from it: it has to understand"
            f" {since}. Nothing was changed. Upgrade table_writer"
        )


def _sum_if_known(count: int | None, other: int | None) -> int | None:
    return None if count is None or other is None else count + other


def _are_columns(schema: str) -> bool:
    """Return whether a schema, if there is one, can become that of a table."""
    try:
        return not schema or bool(hive_columns(schema))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def _has_valid_files(partition: EntryPartition) -> bool:
    """Return whether added files, if any, go to a location that stays, under names that cannot leave it."""
    if not partition.added:
        return partition.source is None
    names = [file.name for file in partition.added]
    segments = {segment for name in names for segment in name.split("/")}
    sizes = [file.size_bytes for file in partition.added]
    return (
        partition.source is not None
        and partition.new_location is not None
        and partition.old_location == partition.new_location
        and len(set(names)) == len(names) == partition.files
        and segments.isdisjoint({"", ".", ".."})
        and min(sizes) >= 0
        and sum(sizes) == partition.bytes
    )


def _change_locations(fields: dict[str, Any], change: Callable[[str], str], change_key: Callable[[str], str]) -> None:
    """Change every location and key of an entry's fields: on the store they are relative to the table's root."""
    for partition in fields["partitions"]:
        for name in ("old_location", "new_location", "source"):
            if partition.get(name) is not None:
                partition[name] = change(partition[name])
    for path in (*fields["replaced"], *fields["deletes"]):
        path["location"] = change(path["location"])
        for listed in path.get("objects", ()):
            listed["path"] = change_key(listed["path"])
    if fields.get("erasure"):
        fields["erasure"]["keys"] = [change_key(key) for key in fields["erasure"]["keys"]]
        fields["erasure"]["kept"] = [[change(location), why] for location, why in fields["erasure"]["kept"]]


def shortened(location: str, *, root: Location) -> str:
    """Return a location as it is stored: relative to the table's root, if it lies below it."""
    parsed = Location.parse(location)
    return root.relative_key(parsed) if root.contains(parsed) else str(parsed)


def lengthened(text: str, *, root: Location) -> str:
    """Return a location that was stored; one that leaves the table's root is refused."""
    if "://" in text:
        return str(Location.parse(text))
    if ".." in text.split("/"):
        raise InvalidInputError(f"a location in the log leaves the table root: {text!r}")
    return str(root.beside(root.key + text))


def below_root(key: str, *, root: Location) -> str:
    """Return a listed file's path below the root: a rename of the table moves both."""
    if not key.startswith(root.key):
        raise InvalidInputError(f"{key!r} is not below {root}: such files are not scheduled")
    return key.removeprefix(root.key)
