"""Mirrors are brought to the newest version: after a publish, when somebody asks, and before a vacuum deletes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from table_writer.config import MIRROR_KINDS
from table_writer.errors import InvalidInputError, StorageError, TableWriterError
from table_writer.events.event import EventError, TableEvent
from table_writer.events.listeners import note_resolution
from table_writer.mirrors.changes import MustBeWholeError, OvertakenError, TableChanges
from table_writer.mirrors.delta import DeltaMirror
from table_writer.mirrors.fitting import require_fit
from table_writer.mirrors.iceberg import iceberg_mirror
from table_writer.mirrors.mirror import Held, Mirror, MirrorChange, NotOursError
from table_writer.model.check_result import stored_line
from table_writer.model.entry import LogEntry
from table_writer.model.location import Location
from table_writer.model.units import HOUR_SECONDS
from table_writer.model.write import WrittenFiles
from table_writer.protocol.log.marks import MirrorMarks
from table_writer.protocol.table.open_table import OpenTable

logger = logging.getLogger(__name__)
MOST_REMEMBERED: Final = 200_000  # files, some 200 MB: of a larger mirror each publish reads what it holds
SECONDS_BETWEEN_LOOKS: Final = 60.0  # at a mirror that a process remembers: somebody may have dropped it
MAKING_SECONDS: Final = float(
    HOUR_SECONDS
)  # so long a mirror that its mark names may be missing: all files are listed first
ATTEMPTS: Final = 10  # while other processes write to the same mirror
KINDS: Final[Mapping[str, Callable[[OpenTable], Mirror]]] = {"delta": DeltaMirror, "iceberg": iceberg_mirror}


class TableMirror:
    """One mirror of one table, and what this process remembers of it."""

    def __init__(self, opened: OpenTable, kind: str, *, hands_over: bool = False) -> None:
        self._opened = opened
        self._log = opened.log
        self._hands_over = hands_over
        self.kind = kind
        self.mirror = KINDS[kind](opened)
        self.changes = TableChanges(opened, self.mirror)
        self._key = (f"mirror {kind}", opened.layout.root.place)
        self._looked_at = time.monotonic()
        self.notes: tuple[str, ...] = ()

    def bring_up(self, known: Held | None = None, *, anew: bool = False) -> Held:
        """Bring the mirror to the newest version, or make it; ``anew`` compares it with all that is there.

        What other processes put there first counts: this one goes on from it. ``known`` was just read: what a process
        remembers may be deleted by now, by a vacuum or with the whole mirror.
        """
        for attempt in range(ATTEMPTS):
            held = (None if anew or attempt else known) or self._read()
            written = self._write_all(held, self._missing(held, anew=anew))
            if written is not None and held is None:  # to make it took time, in which others did not see it
                written = self._write_all(written, self._missing(written, anew=False))
            if written is not None:
                return written
        raise StorageError(f"other processes have written to the mirror {ATTEMPTS} times meanwhile")

    def take_up(self, files: WrittenFiles, entry: LogEntry) -> None:
        """Put a publish of this process on top of the version before, if the mirror is known to hold that."""
        held, seen = self._recalled()
        known = None
        if held is None or not self._is_there(held):
            held = known = self._read()
            seen = held.version if held is not None and not held.damage and held.log_id == files.plan.log_id else 0
        is_next = held is not None and seen == entry.version - 1 and not (held.in_doubt or held.is_dropped)
        if held is not None and is_next and held.log_id == files.plan.log_id:
            self.changes.seen = entry.version
            if self._write_all(held, self._of_publish(files, entry)) is not None:
                return
            known = None
        self.keep_up(known)

    def keep_up(self, known: Held | None = None) -> None:
        """Bring it to the newest version; one that others have made, and that is gone, is not made again."""
        held = known or self._read()
        if held is not None or self.kind in self._opened.mirrors:
            self.bring_up(held)
            return
        marks = self._marks
        age_seconds = self._log.marks.age_of_mirror("mirrored", self.kind, marks.began_at)
        if age_seconds is not None and age_seconds < MAKING_SECONDS:
            raise StorageError("it is not there: another process is making it, or somebody has deleted it")
        logger.warning("the %s mirror of %s is gone: no write follows it any more", self.kind, self._opened.table.name)
        self._forget()
        self._log.marks.forget_mirror(self.kind, marks.next_number, marks)

    @property
    def _marks(self) -> MirrorMarks:
        return self._log.lister.mirror(self.kind)

    def _of_publish(self, files: WrittenFiles, entry: LogEntry) -> Iterator[MirrorChange]:
        yield self.changes.of_publish(files, entry)

    def _is_there(self, held: Held) -> bool:
        """Look once a minute whether the mirror was dropped: the next commit would lie in an empty log."""
        if time.monotonic() - self._looked_at < SECONDS_BETWEEN_LOOKS:
            return True
        self._looked_at = time.monotonic()
        return self.mirror.is_there(held)

    def _read(self) -> Held | None:
        self._looked_at = time.monotonic()
        return self.mirror.read()

    def drop(self) -> int:
        """Delete the mirror, if it is ours.

        A version of its own says so first, and is refused if a handover was faster; one that comes later begins anew.
        """
        self._forget()
        for _ in range(ATTEMPTS):
            self._log.lister.read(allow_lost=True)
            marks, numbered = self._marks, self.mirror.numbers_versions
            held = self.mirror.read()
            self._require_mirror(held)
            require_open(self._opened)
            if self._marks != marks:
                continue  # what was read may be of the one before, or after
            retired = held if held is None or held.is_dropped else self.mirror.retire(held)
            if held is not None and retired is None:
                continue
            require_open(self._opened)  # a handover that has its claim by now has the mirror, too
            if retired is not None or marks.is_there:
                newest = retired.own_version if retired is not None and numbered else -1
                self._log.marks.forget_mirror(self.kind, max(newest + 1, marks.next_number), marks)
            return self.mirror.drop(retired)
        raise StorageError(f"other processes have written to the mirror {ATTEMPTS} times meanwhile")

    def _missing(self, held: Held | None, *, anew: bool) -> Iterable[MirrorChange]:
        """Yield what the mirror does not hold: version by version where that can be told, the rest as a whole."""
        is_followed = held is not None and not held.damage and not anew
        try:
            if held is None:
                yield from self.changes.from_the_oldest()
            elif is_followed:
                yield from self.changes.since(held)
                return
        except MustBeWholeError as why:
            logger.info("the %s mirror of %s is written as a whole: %s", self.kind, self._opened.table.name, why)
        yield self.changes.whole()

    def _write_all(self, held: Held | None, changes: Iterable[MirrorChange]) -> Held | None:
        """Write changes one after another; ``None`` if another process was faster, or the mirror is not there."""
        self._forget()
        self._require_mirror(held)
        if held is not None and held.is_dropped:
            again = f"`table-writer mirror {self._opened.table.name} --as {self.kind} --drop` ends that"
            raise StorageError(f"it is being dropped, or a drop has died: {again}")
        begins, looks_again = held is None or not self._marks.is_there, held is not None and bool(held.damage)
        try:
            for told in changes:
                if not self._hands_over:
                    self._opened.log.slots.require_open(str(self._opened.table.name))
                is_told = (
                    held is None or told.is_whole or not (_lacks_files_before(held, told) or held.respells(told.table))
                )
                change = told if is_told else self.changes.whole()
                require_fit(self._opened, self.kind, change)
                if begins:
                    self._begin(held)
                    begins, looks_again = False, True
                held = self.mirror.write(held, change)
                if held is None:
                    return None
                self.notes += change.notes
                if not is_told:
                    break
        except OvertakenError:
            return None
        if looks_again and not self._is_marked():
            return None  # a drop, which has not seen this one, has ended it
        if held is not None and held.file_count <= MOST_REMEMBERED:
            self._opened.memory[self._key] = (held, self.changes.seen, self._looked_at, self._marks.dropped_to)
        return held

    def _begin(self, held: Held | None) -> None:
        """Note in the log that there is a mirror, or that a new one begins."""
        if not self._is_marked() or held is None:
            self._log.marks.remember_mirror(self.kind, self._marks.next_number, self._marks)
            self._log.lister.read(allow_lost=True)

    def _is_marked(self) -> bool:
        """Look whether the log says that there is a mirror."""
        self._log.lister.read(allow_lost=True)
        return self._marks.is_there

    def _require_mirror(self, held: Held | None) -> None:
        """Refuse what is no mirror any more: others write to it."""
        if held is not None and held.handed_over:
            table = str(self._opened.table.name)
            raise InvalidInputError(
                f"the {self.kind} mirror of {table} was handed over by version {held.handed_over}: others write to it",
                table=table,
            )

    def _recalled(self) -> tuple[Held | None, int]:
        """Return what this process has seen in the mirror last, and up to which version of the log it has looked."""
        recalled: tuple[Held | None, int, float, int] = self._opened.memory.get(self._key, (None, 0, 0.0, 0))
        held, seen, self._looked_at, dropped_to = recalled
        return (held, seen) if dropped_to == self._marks.dropped_to else (None, 0)

    def _forget(self) -> None:
        self._opened.memory.pop(self._key, None)


def require_open(opened: OpenTable) -> None:
    """Refuse a table that was handed over: its mirrors stay, of either kind."""
    opened.log.lister.read(allow_lost=True)
    opened.log.slots.require_open(str(opened.table.name))


def _lacks_files_before(held: Held, change: MirrorChange) -> bool:
    """Return whether a change adds files to a partition that a mirror does not hold, or holds elsewhere."""
    grown = [files for values, files in change.added.items() if values not in change.partitions]
    directories = {key.rpartition("/")[0] for key in held.keys} if grown else set()
    return any(directories.isdisjoint(file.key.rpartition("/")[0] for file in files) for files in grown)


def follow_publish(opened: OpenTable, files: WrittenFiles, entry: LogEntry) -> tuple[str, ...]:
    """Let all mirrors of a table take up a publish; returns notes on what failed. Readers have switched already."""
    return _follow(opened, entry.version, lambda mirror: mirror.take_up(files, entry))


def follow(opened: OpenTable, version: int | None) -> tuple[str, ...]:
    """Bring all mirrors of a table to the newest version after a call that changed it; returns notes on failures."""
    return _follow(opened, version, lambda mirror: mirror.keep_up())


def tidy(opened: OpenTable, older_than_seconds: float) -> tuple[str, ...]:
    """Let the mirrors of a table delete what no reader needs any more; returns what failed."""
    failures = []
    for kind in opened.followed_mirrors:
        try:
            KINDS[kind](opened).tidy(older_than_seconds)
        except TableWriterError as error:
            failures.append(f"the {kind} mirror was not tidied: {error.message}")
    return tuple(failures)


def why_behind(opened: OpenTable, leaving: Collection[Location]) -> str:
    """Bring every mirror that there is to the newest version, and say why one is not there; empty if all are.

    Files that readers of a table have left may be those that a mirror names, until it is. No earlier version of a
    mirror that can forget names files in ``leaving`` afterwards.
    """
    for kind in MIRROR_KINDS:
        mirror = TableMirror(opened, kind)
        try:
            held = mirror.mirror.read()
            if held is not None and not held.is_dropped:
                mirror.bring_up(held)
                mirror.mirror.release(leaving)
        except NotOursError as foreign:
            logger.info("not looked after by a vacuum: %s", foreign)
        except TableWriterError as error:
            return f"the {kind} mirror may name files there, and was not brought to the newest version: {error.message}"
    return ""


def _follow(opened: OpenTable, version: int | None, bring_up: Callable[[TableMirror], object]) -> tuple[str, ...]:
    notes: list[str] = []
    try:
        kinds = opened.followed_mirrors
    except TableWriterError as error:  # a call that has listed no log yet; readers have switched already
        kinds = opened.mirrors
        notes.append(f"which mirrors others have made is not known, and they were not brought up: {error.message}")
    for kind in () if opened.log.slots.closed_for else kinds:
        started_at = datetime.now(UTC)
        try:
            mirror = TableMirror(opened, kind)
            bring_up(mirror)
            notes += mirror.notes
        except Exception as error:  # readers have switched: whatever is wrong with a mirror fails no publish
            logger.warning("the %s mirror of %s was not brought up", kind, opened.table.name, exc_info=True)
            message = error.message if isinstance(error, TableWriterError) else f"{type(error).__name__}: {error}"
            until = "Once that is changed, the next" if isinstance(error, InvalidInputError) else "The next"
            notes.append(
                f"the {kind} mirror does not have version {version or 'of this call'} yet: {message.rstrip('.')}."
                f" {until} write brings it up, or `table-writer mirror {opened.table.name} --as {kind}`"
            )
            note_resolution(partial(_event, opened, kind, version, error, started_at))
    return tuple(notes)


def _event(opened: OpenTable, kind: str, version: int | None, error: Exception, started_at: datetime) -> TableEvent:
    """Return the event of a mirror that has not taken up a version."""
    own_error = error if isinstance(error, TableWriterError) else None
    facts: dict[str, Any] = opened.event_facts
    return TableEvent(
        operation="mirror",
        outcome="failed",
        mode=kind,
        started_at=started_at,
        ended_at=datetime.now(UTC),
        version=version,
        error=EventError(
            code=own_error.code if own_error else "other",
            type=type(error).__name__,
            message=stored_line(own_error.message) if own_error else "",
        ),
        **facts,
    )
