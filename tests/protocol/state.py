"""The small world that is explored: a log, a metastore, data, calls that are under way, and what actors remember.

Locations are short texts here: ``A/p`` are the rows of write A in partition p, ``A`` all its rows, ``A_1`` a directory
that it has copied into when somebody had changed what it had copied, ``@A/p`` its placeholder of p, ``dt=p`` rows that
other tools wrote below the table root, ``dt=`` those in the root itself, ``x:p`` a place elsewhere. A location of a
table whose server compares and sets has the write that came last: ``A/p~A``. One that an append in place has altered
has that entry in its parameters: ``I/p^A``.

Rows are named by the location they were first written to: an append of A to ``I/p`` has the rows ``A/p`` and ``I/p``.
A row that another tool has inserted into p is ``o/p``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final, NamedTuple

from table_writer.log.history import History, SlotRecord
from table_writer.model.entry import (
    AddedFile,
    DeletedLocation,
    EntryPartition,
    LogEntry,
    Operation,
    Outcome,
    ReplacedLocation,
    ReplacedObject,
)
from table_writer.model.location import Location, Place
from table_writer.model.write import TableLayout

CHANGED: Final = "changed"  # answer: what the call was based on is not there any more
PARTITIONS: Final = ("p", "q")
INDEX: Final = {"p": 0, "q": 1}
LAYOUT: Final = TableLayout(Location.parse("s3a://lake/t"))
ROOT: Final = "dt="  # where an unpartitioned table is at first
TIMEOUT_SECONDS: Final = 300.0
RETENTION: Final = timedelta(days=1)
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)

Metastore = tuple[str | None, str | None]  # where p and q are
Change = tuple[str, str | None, str | None]  # partition, old location, new location
Call = tuple[Any, ...]  # add | alter | drop; partitions with locations; where the server compares: new and old write

_CODES: Final[dict[Place, str]] = {}


@cache
def location(code: str) -> Location:
    """Spell a short text as the product would."""
    if "~" in code or "^" in code:
        return location(str(place_of(code)))
    if code == ROOT:
        found = LAYOUT.root
    elif code.startswith("x:"):
        found = Location.parse(f"s3a://elsewhere/{code[2:]}")
    elif code.startswith("dt="):
        found = LAYOUT.root.child(code)
    elif code.startswith("@"):
        write_id, _, values = code[1:].partition("/")
        found = LAYOUT.empty(write_id, (values,))
    else:
        write_id, _, values = code.partition("/")
        if values:
            location(write_id)  # the directory of an abandoned write is deleted as a whole
        found = LAYOUT.data(write_id).child(f"dt={values}") if values else LAYOUT.data(write_id)
    _CODES[found.place] = code
    return found


def text(code: str | None) -> str | None:
    return None if code is None else str(location(code))


def code_of(place: Place) -> str:
    return _CODES[place]


def code_of_text(full: str | None) -> str | None:
    return None if full is None else _CODES[Location.parse(full).place]


def rows_at(code: str | None) -> str | None:
    """Where a reader finds rows: a placeholder and a missing partition are the same to it."""
    return None if code is None or code.startswith("@") else place_of(code)


def place_of(code: str | None) -> str | None:
    return code.partition("~")[0].partition("^")[0] if code else code


def root_of(code: str) -> str:
    """Return the write, or the publisher, whose process looks after a directory."""
    return code.partition("/")[0].partition("_")[0]


def tag_of(code: str | None) -> str:
    """The write that changed a table last, where its server compares that."""
    return (code or "").partition("~")[2]


def is_altered_by(code: str | None, write_id: str) -> bool:
    """Whether a partition's parameters name an entry: only its own alter sets them."""
    return write_id in {tag_of(code), (code or "").partition("^")[2]}


def is_elsewhere(code: str) -> bool:
    """Whether a location is in another bucket, from which an append copies nothing."""
    return code.startswith("x:")


class Added(NamedTuple):
    """What an append in place copies to where a partition is."""

    values: str
    source: str
    rows: tuple[str, ...]  # each is a file of its own


class Slot(NamedTuple):
    """One entry of the log with its outcome."""

    operation: Operation
    write_id: str
    changes: tuple[Change, ...] = ()
    base: int = 0
    in_doubt_at_plan: frozenset[int] = frozenset()  # not stored by the product: what the check of lost updates needs
    recovers: int | None = None  # a recover entry: the version it finishes
    recovered_write_id: str = ""  # the write that it does again
    is_putting_right: bool = False  # a recover entry that undoes a late call
    deletes: tuple[tuple[str, int | None], ...] = ()
    outcome: Outcome | None = None
    recorded_by: str = ""
    timed_out: bool = False
    old: bool = False  # a retention has passed since the outcome
    appends: bool = False  # this and the next two are in the product's plan, not in its entry
    creates: bool = False
    replaces: tuple[str, ...] = ()  # partitions that it replaces, with rows for them or not
    key: str = ""
    rollback_to: int | None = None
    by: str = ""  # which of several processes that publish one staged write has claimed it
    trimmed: bool = False  # a vacuum has deleted the entry
    gone: bool = False  # the entry is lost, and its outcome is there
    lost: Outcome | None = None  # its outcome was that, and is lost, or was
    unused: tuple[str, ...] = ()  # directories of the write that readers never come to: replaced by the entry itself
    kept: bool = False  # a discard that deletes nothing yet
    superseded: tuple[str, ...] = ()
    log_id: int = 1  # of the log that the write was planned in: not in the product's entry, but in its plan
    added: tuple[Added, ...] = ()
    files: int = 1  # of the write in each partition; not in the product's entry like this

    def rows(self, values: str) -> frozenset[str]:
        """Return the rows that the write itself has for a partition, one a file."""
        return frozenset(f"{self.write_id}/{values}{'+' * number}" for number in range(self.files))

    @property
    def ended(self) -> Outcome | None:
        """How it ended, whatever became of the object that says so."""
        return Outcome.PUBLISHED if self.lost is Outcome.PUBLISHED else self.outcome


class Marks(NamedTuple):
    """Small objects beside the entries."""

    unverified: frozenset[int] = frozenset()  # recoveries, since which nobody has looked whether a call came late
    closed: frozenset[int] = frozenset()  # those of them since which a day has passed
    log_id: int = 1  # a log that was deleted and begun again has another


class Log:
    """All slots; the same slots are the same object, so that states are compared and hashed by identity."""

    __slots__ = ("_history", "_made", "marks", "newest", "slots")
    _known: dict[tuple[tuple[Slot, ...], Marks], Log] = {}  # noqa: RUF012  # all logs, emptied by ``forget``

    def __init__(self, slots: tuple[Slot, ...], marks: Marks) -> None:
        self.slots = slots
        self.marks = marks
        self.newest = len(slots)
        self._history: History | None = None
        self._made: dict[object, Log] = {}

    @classmethod
    def of(cls, slots: tuple[Slot, ...], marks: Marks) -> Log:
        found = cls._known.get((slots, marks))
        if found is None:
            found = cls._known[slots, marks] = cls(slots, marks)
        return found

    @classmethod
    def forget(cls) -> None:
        cls._known.clear()

    @property
    def history(self) -> History:
        """The product's own reading of this log."""
        if self._history is None:
            kept = ((number, slot) for number, slot in enumerate(self.slots, 1) if not slot.trimmed and not slot.gone)
            self._history = self.history_of([_record(number, slot) for number, slot in kept])
        return self._history

    def history_of(self, records: Sequence[SlotRecord]) -> History:
        return History(LAYOUT, records, self.marks.unverified)

    def record(self, version: int) -> SlotRecord:
        return _record(version, self.slots[version - 1])

    @property
    def in_doubt(self) -> frozenset[int]:
        return frozenset(number for number, slot in enumerate(self.slots, 1) if slot.outcome is None)

    @property
    def has_lost_entries(self) -> bool:
        return any(slot.gone for slot in self.slots)

    def without_lost_entries(self) -> Log:
        """Return the log as it looks to those who do not look at outcomes without an entry."""
        slots = self.slots
        while slots and slots[-1].gone:
            slots = slots[:-1]
        return Log.of(slots, self.marks)

    def claimed(self, version: int, slot: Slot) -> Log:
        """Return the log with this entry; an outcome that is there already becomes the entry's."""
        made = self._made.get((version, slot))
        if made is None:
            here = self.slots[version - 1 : version]
            if here:
                slot = slot._replace(outcome=here[0].outcome, recorded_by=here[0].recorded_by)
            recovery = {version} if slot.operation is Operation.RECOVER else set()
            marks = self.marks._replace(unverified=self.marks.unverified | recovery)
            made = Log.of((*self.slots[: version - 1], slot, *self.slots[version:]), marks)
            self._made[version, slot] = made
        return made

    def with_outcome(self, version: int, outcome: Outcome, write_id: str, superseded: tuple[str, ...] = ()) -> Log:
        """Return the log with this outcome; the first one stands."""
        key = (version, outcome, write_id, superseded)
        made = self._made.get(key)
        if made is None:
            slot = self.slots[version - 1]
            late = slot.timed_out and write_id != slot.write_id  # no matter once the claimant itself is done
            new = slot._replace(outcome=outcome, recorded_by=write_id, timed_out=late, superseded=superseded)
            made = self._made[key] = self._with(version, slot if slot.outcome else new)
        return made

    def rebuilt(self, version: int, outcome: Outcome, write_id: str, superseded: tuple[str, ...]) -> Log:
        """Return the log with an outcome that was lost."""
        slot = self.slots[version - 1]
        if slot.outcome is not None:
            return self
        new = slot._replace(outcome=outcome, recorded_by=write_id, superseded=superseded)
        marks = self.marks._replace(unverified=self.marks.unverified | {version})
        return Log.of((*self.slots[: version - 1], new, *self.slots[version:]), marks)

    def timed_out(self, version: int) -> Log:
        made = self._made.get(version)
        if made is None:
            made = self._made[version] = self._with(version, self.slots[version - 1]._replace(timed_out=True))
        return made

    def damaged(self, version: int) -> Log:
        """Return the log without this outcome."""
        slot = self.slots[version - 1]
        none = slot._replace(outcome=None, recorded_by="", superseded=(), old=False, lost=slot.lost or slot.outcome)
        return self._with(version, none)

    def without_entry(self, version: int) -> Log:
        return self._with(version, self.slots[version - 1]._replace(gone=True))

    def verified(self, versions: frozenset[int]) -> Log:
        marks = self.marks
        return Log.of(
            self.slots, marks._replace(unverified=marks.unverified - versions, closed=marks.closed - versions)
        )

    def all_timed_out(self) -> Log:
        return Log.of(tuple(slot._replace(timed_out=True) for slot in self.slots), self.marks)

    def a_day_later(self) -> Log:
        slots = tuple(slot._replace(timed_out=True, old=slot.outcome is not None) for slot in self.slots)
        return Log.of(slots, self.marks._replace(closed=self.marks.unverified))

    def _with(self, version: int, slot: Slot) -> Log:
        return Log.of((*self.slots[: version - 1], slot, *self.slots[version:]), self.marks)


def entry_of(version: int, slot: Slot) -> LogEntry:
    """Make the product's entry; like the product, refuse one that is not valid."""
    entry = LogEntry(
        table="mart.orders",
        version=version,
        write_id=slot.write_id,
        operation=slot.operation,
        mode="overwrite_partitions",
        created_at=NOW,
        base_version=slot.base,
        publish_timeout_seconds=TIMEOUT_SECONDS,
        partitions=tuple(entry_partition(change, added_to(slot.added, change[0])) for change in slot.changes),
        replaced=() if slot.is_putting_right else tuple(map(_replaced, _replaced_by(slot))),
        deletes=tuple(
            DeletedLocation(location=str(location(code)), replaced_by=by, kept=slot.kept) for code, by in slot.deletes
        ),
        recovers=slot.recovers,
        recovered_write_id=slot.recovered_write_id,
        rollback_to=slot.rollback_to,
        idempotency_key=slot.key,
    )
    entry.validate()
    return entry


@cache
def entry_partition(change: Change, added: Added | None = None) -> EntryPartition:
    values, old, new = change
    count = len(added.rows) if added else 1
    return EntryPartition(
        values=(values,),
        old_location=text(old),
        new_location=text(new),
        rows=count,
        bytes=count,
        raw_bytes=count,
        files=count,
        source=text(added.source) if added else None,
        added=tuple(AddedFile(name=row, size_bytes=1) for row in added.rows) if added else (),
    )


def added_to(added: Iterable[Added], values: str) -> Added | None:
    return next((one for one in added if one.values == values), None)


def _replaced_by(slot: Slot) -> Iterable[str]:
    """What stays for its retention; as in the product no placeholder, and nothing outside the root."""
    old = (old for _, old, new in slot.changes if old and old != new and not old.startswith(("@", "x:")))
    return (*old, *slot.unused)


def _replaced(old: str) -> ReplacedLocation:
    theirs = (ReplacedObject(key=f"{location(old).key}f", size_bytes=1, etag="e"),) if old.startswith("dt=") else ()
    return ReplacedLocation(location=str(location(old)), delete_after=NOW + RETENTION, objects=theirs)


@cache
def _record(version: int, slot: Slot) -> SlotRecord:
    return SlotRecord(
        entry=entry_of(version, slot),
        outcome=slot.outcome,
        age_seconds=TIMEOUT_SECONDS + 1 if slot.timed_out else 0.0,
        recorded_by=slot.recorded_by,
        outcome_age_seconds=2 * RETENTION.total_seconds() if slot.old else 0.0,
        superseded=frozenset((values,) for values in slot.superseded),
    )


class Budget(NamedTuple):
    """What may still go wrong. A crash needs none: see :mod:`tests.protocol.explorer`."""

    timeouts: int = 2  # claims that are over while others are at work
    refusals: int = 0  # the metastore refuses a call, and changes nothing
    lost: int = 0  # it applies a call, and the answer is lost
    late: int = 0  # the answer is lost, and the call is applied later or never
    unrecorded: int = 0  # the store cannot record an outcome
    days: int = 0  # a retention passes
    other_tool: int = 0  # another tool drops or moves a partition
    misreported: int = 0  # the metastore applies a call, and answers that it refuses
    late_store: int = 0  # the store applies a request, and it, or its first sending, once more later
    damaged: int = 0  # the outcome of an entry is lost
    lost_entries: int = 0  # an entry is lost, and its outcome is there
    inserts: int = 0  # another tool adds a row to where a partition is
    resets: int = 0  # somebody deletes the log while nobody is at work


class Insert(NamedTuple):
    """A row that another tool has added."""

    values: str
    place: str
    row: str
    seen_by: frozenset[str]  # appends that are yet to list the location


class World(NamedTuple):
    """What all actors share."""

    log: Log
    metastore: Metastore
    data: frozenset[str]  # locations that still have their rows
    stale: frozenset[str] = frozenset()  # writes whose sign of life is older than a retention
    late: tuple[Call, ...] = ()
    touched: frozenset[str] = frozenset()  # partitions that another tool changed
    rows: tuple[tuple[str, tuple[str, ...]], ...] = ()  # what lies at a location besides, or instead of, its own rows
    awake: frozenset[str] = frozenset()  # writes that give signs of life, or are staged for longer than a day
    staged: frozenset[str] = frozenset()  # writes whose registration says so
    late_store: tuple[Any, ...] = ()  # requests that the store may yet apply once more
    inserts: tuple[Insert, ...] = ()


def apply(call: Call, metastore: Metastore) -> tuple[str, Metastore]:
    """Carry out a metastore call: all of it or nothing; returns its answer and the metastore after it."""
    kind, places, *condition = call
    now = list(metastore)
    if kind == "add" and any(now[INDEX[values]] is not None for values, _ in places):
        return "exists", metastore
    if kind != "add" and any(now[INDEX[values]] is None for values, _ in places):
        return "missing", metastore
    for values, code in places:
        if condition and tag_of(now[INDEX[values]]) != condition[1]:
            return CHANGED, metastore
        now[INDEX[values]] = f"{code}~{condition[0]}" if condition else code
    return "ok", (now[0], now[1])


def rows_of(world: World, code: str) -> tuple[str, ...]:
    """What lies at a location, each row as often as it is there."""
    if code not in world.data:
        return ()
    return dict(world.rows).get(code, (code,))


def with_rows(world: World, code: str, rows: Iterable[str]) -> World:
    """Put exactly these rows at a location."""
    kept = tuple(sorted(set(rows)))
    others = [one for one in world.rows if one[0] != code]
    if not kept:
        return world._replace(data=world.data - {code}, rows=tuple(others))
    if kept != (code,):
        others.append((code, kept))
    return world._replace(data=world.data | {code}, rows=tuple(sorted(others)))


def without(data: frozenset[str], code: str) -> frozenset[str]:
    """Return what is left after a location was deleted with all below it."""
    return frozenset(one for one in data if one != code and not one.startswith(f"{code}/"))


def start(metastore: Metastore, slots: Iterable[Slot], data: Iterable[str] = (), late: Iterable[Call] = ()) -> World:
    """Make a first state; rows that the metastore shows exist."""
    shown = (found for found in map(rows_at, metastore) if found)
    slots = tuple(slots)
    young = frozenset(
        number for number, slot in enumerate(slots, 1) if slot.operation is Operation.RECOVER and not slot.old
    )
    return World(Log.of(slots, Marks(young)), metastore, frozenset((*data, *shown)), late=tuple(sorted(late)))
