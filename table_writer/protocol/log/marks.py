"""Marks: small objects whose names say facts, so that every listing shows them; they sort after all entries.

Folds, last words, and marks of recoveries that were released have a body. This file reads and puts them; what follows
from one says whoever asks.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from table_writer.model.entry import MAX_TIMEOUT_SECONDS, LogEntry
from table_writer.model.units import DAY_SECONDS
from table_writer.model.write import TableLayout
from table_writer.storage.object_store import ObjectInfo, ObjectStore

LATE_CALL_SECONDS: Final = DAY_SECONDS  # no metastore applies a call a day after it was sent
MIRROR: Final = re.compile(r"([a-z]+)([0-9]{20})")
CLOSING: Final = re.compile(r"([a-z]+)([0-9]{20})([0-9a-f]+)")
MARK: Final = re.compile(
    r"(closed|dropped|folded|id|last-word|lost|mirrored|opened|recovered|reopened|rolled-back|trimmed)-([0-9a-zA-Z]+)"
)
OF_ONE_ENTRY: Final = ("last-word", "opened", "rolled-back")  # marks that go with their entry, which may be yet to come
RELEASED: Final = b"released"  # the body of a recovery's mark once nothing of it is under way


@dataclass(frozen=True, slots=True, order=True)
class Closing:
    """The mark by which one write closes the log. It counts once that write has claimed the slot that it names."""

    version: int  # of the entry that it is about to claim
    kind: str  # the format in which the table goes on
    write_id: str  # only its random part

    @classmethod
    def of(cls, entry: LogEntry, kind: str) -> Closing:
        """Return the mark of an entry."""
        return cls(entry.version, kind, entry.write_id.rpartition("-")[2])

    @classmethod
    def parse(cls, text: str) -> Closing | None:
        """Read the name of a mark, ``None`` if it is none."""
        found = CLOSING.fullmatch(text)
        return cls(int(found[2]), found[1], found[3]) if found else None

    def __str__(self) -> str:
        return f"{self.kind}{self.version:020d}{self.write_id}"

    def is_of(self, entry: LogEntry | None) -> bool:
        """Return whether its write has claimed this entry."""
        return entry is not None and self == Closing.of(entry, self.kind)


@dataclass(frozen=True, slots=True)
class MirrorMarks:
    """What marks say of the mirrors of one kind that a table has had, one after another.

    Versions of a mirror that are numbers go on where those of the one before have ended: so a request of that one that
    comes late hits nothing of this one. Others are counted as mirrors.
    """

    began_at: int = -1  # the number with which the newest one has begun; -1: there never was one
    dropped_to: int = 0  # all numbers before are of mirrors that were dropped

    @property
    def is_there(self) -> bool:
        """Whether the newest mirror was not dropped."""
        return self.began_at >= self.dropped_to

    @property
    def number(self) -> int:
        """The number with which the mirror has begun, or will: what was there before is another one's."""
        return self.began_at if self.is_there else self.next_number

    @property
    def next_number(self) -> int:
        """The number with which a next mirror begins."""
        return max(self.began_at + 1, self.dropped_to)


class Marks:
    """The marks of one log."""

    def __init__(self, store: ObjectStore, layout: TableLayout) -> None:
        self._store = store
        self._layout = layout

    def key(self, kind: str, value: int | str) -> str:
        """Return the key of a mark."""
        return f"{self._layout.log_prefix}{kind}-{value if isinstance(value, str) else f'{value:020d}'}"

    def close(self, closing: Closing) -> None:
        """Note, before a claim, that the table goes on in another format once the claim stands."""
        self._store.put(self.key("closed", str(closing)), b"")

    def withdraw(self, closing: Closing) -> None:
        """Take back such a note of a claim that was lost."""
        self._store.delete([self.key("closed", str(closing))])

    def reopen(self, version: int, closings: Iterable[Closing]) -> None:
        """Note that the log is open again: no handover before this version counts, however late its mark arrives."""
        self._store.put(self.key("reopened", version), b"")
        for closing in closings:
            self._store.delete([self.key("opened", closing.version), self.key("closed", str(closing))])

    def open_to_others(self, version: int) -> None:
        """Note, before a mirror is opened, that others may write there: they may replace what says so in it."""
        self._store.put(self.key("opened", version), b"")

    def keep_from_others(self, version: int) -> None:
        """Take that back: the mirror was not opened."""
        self._store.delete([self.key("opened", version)])

    def numbers(self, keys: Iterable[str]) -> defaultdict[str, frozenset[int]]:
        """Return the versions that marks name, by what they say of them."""
        numbers: defaultdict[str, frozenset[int]] = defaultdict(frozenset)
        for kind, number in self._named(keys):
            numbers[kind] |= {int(number)} if number.isdecimal() else frozenset()
        return numbers

    def _named(self, keys: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield what each mark says, and of what."""
        names = (key.removeprefix(self._layout.log_prefix) for key in keys)
        yield from ((mark[1], mark[2]) for name in names if (mark := MARK.fullmatch(name)))

    def closings(self, keys: Iterable[str]) -> frozenset[Closing]:
        """Return the handovers that marks name."""
        found = (Closing.parse(value) for kind, value in self._named(keys) if kind == "closed")
        return frozenset(closing for closing in found if closing)

    def mirrors(self, keys: Iterable[str]) -> dict[str, MirrorMarks]:
        """Return what marks say of mirrors, by their kinds."""
        numbers: dict[str, dict[str, list[int]]] = {"mirrored": {}, "dropped": {}}
        for said, value in self._named(keys):
            if said in numbers and (told := MIRROR.fullmatch(value)):
                numbers[said].setdefault(told[1], []).append(int(told[2]))
        began, dropped = numbers["mirrored"], numbers["dropped"]
        return {
            kind: MirrorMarks(max(began.get(kind, [-1])), max(dropped.get(kind, [0])))
            for kind in began.keys() | dropped.keys()
        }

    def remember_mirror(self, kind: str, number: int, before: MirrorMarks) -> None:
        """Note, before its first version is written, that a mirror begins: whoever changes the table brings it up."""
        self._store.put(self.key("mirrored", _mirror(kind, number)), b"")
        if 0 <= before.began_at < number:
            self._store.delete([self.key("mirrored", _mirror(kind, before.began_at))])

    def forget_mirror(self, kind: str, to: int, before: MirrorMarks) -> None:
        """Note that the mirror with all numbers before this one was dropped; earlier marks say nothing more."""
        self._store.put(self.key("dropped", _mirror(kind, to)), b"")
        earlier = (("mirrored", before.began_at), ("dropped", before.dropped_to))
        self._store.delete([self.key(said, _mirror(kind, number)) for said, number in earlier if 0 <= number < to])

    def age_of_mirror(self, said: str, kind: str, number: int) -> float | None:
        """Return how old such a mark is by the store's clock; ``None`` if it is not there."""
        stored = self._store.get(self.key(said, _mirror(kind, number)))
        return None if stored is None else stored.age_seconds

    def list(self) -> Iterator[ObjectInfo]:
        """List all marks, and no entry."""
        return self._store.list(self._layout.log_prefix, start_after=f"{self._layout.log_prefix}:")  # after all numbers

    def listed(self, kind: str) -> frozenset[int]:
        """Return the versions that marks of one kind name now."""
        return self.numbers(mark.key for mark in self.list())[kind]

    def take_last_word(self, version: int, write_id: str) -> str:
        """Return whose word on an entry in doubt is the last one: this writer's, unless another has taken it before.

        Its claimant takes it before it says that the metastore has refused; a recovery before it switches, in the name
        of its own entry. So of the two at most one acts, however late a request of the other arrives.
        """
        key = self.key("last-word", version)
        return write_id if self._store.put_if_absent(key, write_id.encode()) else self.last_word(version)

    def last_word(self, version: int) -> str:
        """Return the ``write_id`` that has taken the last word on an entry; empty if none has."""
        stored = self._store.get(self.key("last-word", version))
        return "" if stored is None else stored.body.decode(errors="replace")

    def remember_recovery(self, version: int) -> None:
        """Note that calls of this entry, or from before it, may come late: a recovery does so before its claim."""
        self._store.put(self.key("recovered", version), b"")

    def release_recovery(self, version: int) -> None:
        """Note that a recovery has nothing under way: the metastore has refused, and another may go on at once."""
        self._store.put(self.key("recovered", version), RELEASED)

    def is_released(self, version: int) -> bool:
        """Return whether a recovery has nothing under way, and will not go on."""
        stored = self._store.get(self.key("recovered", version))
        return stored is not None and stored.body == RELEASED

    def forget_recoveries(self, versions: Iterable[int]) -> None:
        """Note that all partitions are where they should be, and that no call of before these recoveries can come."""
        self._store.delete([self.key("recovered", version) for version in sorted(versions)])

    def past_calls(self, versions: Collection[int]) -> frozenset[int]:
        """Return the recoveries of before which no call can come any more; mostly the newest mark tells of all."""
        ordered = sorted(versions)
        if not ordered or not self.may_calls_come(ordered[-1]):
            return frozenset(ordered)
        return frozenset(takewhile(lambda version: not self.may_calls_come(version), ordered[:-1]))

    def may_calls_come(self, version: int) -> bool:
        """Return whether calls from before a recovery may still come, or its own, to which its claim gives a day."""
        stored = self._store.get(self.key("recovered", version))
        return stored is not None and stored.age_seconds < MAX_TIMEOUT_SECONDS + LATE_CALL_SECONDS

    def remember_rollback(self, version: int) -> None:
        """Note, before a rollback is claimed, that batches of streams may come again; if that fails, there is none."""
        self._store.put(self.key("rolled-back", version), b"")


def _mirror(kind: str, number: int) -> str:
    """Return what ``MIRROR`` reads."""
    return f"{kind}{number:020d}"
