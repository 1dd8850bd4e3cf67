"""Judges a history of writes and reads of one table: was every promise kept? It imports nothing of this library.

A history is a file of JSON lines. Each line is an event with its time ``t``, in seconds of one clock:

``begin``      a write begins: ``write`` is its name, ``kind`` is ``overwrite`` or ``append``, and ``rows`` says how
               many rows it has for each partition; a row's text is the write's name, a slash and a number
``published``  the writer was told that its ``write`` is published
``refused``    the writer was told that nothing of its ``write`` is published, or ever will be
``killed``     the process of this ``write`` was ended: its outcome is not known
``read``       a reader who began at ``began`` has read ``rows``: texts by partition; or it has met an ``error``
``settled``    every write has ended, and what was in doubt is resolved: nothing may change any more
``gone``       every object was looked through for the text ``mark``, and ``found`` names those that hold it

Run it on files: ``python checker.py history.jsonl``. It ends with 1 if a promise was broken.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

Event = Mapping[str, Any]
Check = Callable[["History"], Iterator[str]]
SHOWN = 5


@dataclass(frozen=True)
class Write:
    """A write: when it began, and when and how it ended. Of one that was killed nobody knows the end."""

    name: str
    kind: str
    rows: Mapping[str, int]
    began: float
    ended: float = math.inf
    outcome: str = "unknown"

    def texts(self, partition: str) -> set[str]:
        """Return the rows that it has for a partition."""
        return {f"{self.name}/{number}" for number in range(self.rows.get(partition, 0))}

    def is_over_before(self, moment: float) -> bool:
        """Return whether it is known to be published before a moment."""
        return self.outcome == "published" and self.ended <= moment


class History:
    """The writes and the reads of a history."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = sorted(events, key=lambda event: event["t"])
        ends = {event["write"]: event for event in self.events if event["event"] in ("published", "refused", "killed")}
        self.writes: dict[str, Write] = {}
        for event in self.events:
            if event["event"] == "begin":
                write = Write(name=event["write"], kind=event["kind"], rows=event["rows"], began=event["t"])
                end = ends.get(event["write"], {"event": "killed"})
                is_known = end["event"] != "killed"
                self.writes[write.name] = replace(write, ended=end["t"], outcome=end["event"]) if is_known else write
        self.reads = [event for event in self.events if event["event"] == "read" and not event.get("error")]
        self.settled = min((event["t"] for event in self.events if event["event"] == "settled"), default=math.inf)

    def count(self, kind: str) -> int:
        """Count the events of a kind."""
        return sum(event["event"] == kind for event in self.events)

    def partitions(self) -> Iterator[tuple[Event, str, Counter[str], set[str]]]:
        """Yield each partition of each read: its rows, and the writes that they are of."""
        every = sorted({partition for write in self.writes.values() for partition in write.rows})
        for read in self.reads:
            for partition in every:
                rows = Counter(read["rows"].get(partition, ()))
                yield read, partition, rows, {row.rpartition("/")[0] for row in rows}


def where(read: Event, partition: str) -> str:
    """Say which partition of which read is meant."""
    return f"partition {partition}, read from {read['began']:.3f} to {read['t']:.3f}"


def whole(history: History) -> Iterator[str]:
    """Of each write a reader sees all rows of a partition or none, and each once; nobody's rows are made up."""
    for read, partition, rows, names in history.partitions():
        for name in sorted(names):
            write = history.writes.get(name)
            seen = {row for row in rows if row.rpartition("/")[0] == name}
            if write is None or write.began > read["t"]:
                yield f"{where(read, partition)}: rows of {name}, which had not begun"
            elif seen != write.texts(partition):
                yield f"{where(read, partition)}: {len(seen)} of {write.rows.get(partition, 0)} rows of {name}"
        twice = sorted(row for row, count in rows.items() if count > 1)
        if twice:
            yield f"{where(read, partition)}: {twice[0]} is there {rows[twice[0]]} times"


def old_or_new(history: History) -> Iterator[str]:
    """A partition holds the rows of one overwrite, and of appends that came to them; never a mixture."""
    for read, partition, _, names in history.partitions():
        writes = [history.writes[name] for name in names if name in history.writes]
        overwrites = [write for write in writes if write.kind == "overwrite"]
        if len(overwrites) > 1:
            both = " and of ".join(sorted(write.name for write in overwrites))
            yield f"{where(read, partition)}: rows of {both} at once"
        for write in writes:
            replaced_by = [other for other in overwrites if other is not write and write.is_over_before(other.began)]
            if replaced_by:
                yield f"{where(read, partition)}: rows of {write.name}, which {replaced_by[0].name} had replaced"


def none_lost(history: History) -> Iterator[str]:
    """What was published before a read began is in it, unless an overwrite that may have come later replaced it."""
    for read, partition, _, names in history.partitions():
        seen = [history.writes[name] for name in names if name in history.writes]
        for write in history.writes.values():
            is_due = partition in write.rows and write.is_over_before(read["began"]) and write.name not in names
            later = (other for other in seen if other.kind == "overwrite" and other.ended > write.began)
            if is_due and not any(later):
                yield f"{where(read, partition)}: no rows of {write.name}, which was published at {write.ended:.3f}"


def never_back(history: History) -> Iterator[str]:
    """One reader after the other sees newer rows or the same: what has replaced rows is not undone."""
    for partition in sorted({partition for write in history.writes.values() for partition in write.rows}):
        reads = [(read, {row.rpartition("/")[0] for row in read["rows"].get(partition, ())}) for read in history.reads]
        reads.sort(key=lambda pair: pair[0]["t"])
        newest_began = ""  # of the overwrites that are over, that which began last
        for read, names in reads:
            for name in names & history.writes.keys():
                write, newest = history.writes[name], history.writes.get(newest_began)
                if write.kind != "overwrite":
                    continue
                if newest is not None and write.is_over_before(newest.began) and newest.ended < read["began"]:
                    yield f"{where(read, partition)}: {write.name} again, after {newest.name}"
                if newest is None or write.began > newest.began:
                    newest_began = name


def refused_is_never_seen(history: History) -> Iterator[str]:
    """Nobody sees a row of a write whose caller was told that nothing of it is published."""
    for read, partition, _, names in history.partitions():
        for name in sorted(names):
            if history.writes.get(name, Write("", "", {}, 0)).outcome == "refused":
                yield f"{where(read, partition)}: rows of {name}, which was refused"


def readable(history: History) -> Iterator[str]:
    """Every read succeeds: no file that a reader was pointed to is missing."""
    for event in history.events:
        if event["event"] == "read" and event.get("error"):
            yield f"read from {event['began']:.3f} to {event['t']:.3f}: {event['error']}"


def settled_stays(history: History) -> Iterator[str]:
    """Once everything is resolved, all readers see the same, whatever a vacuum deletes."""
    last = [read for read in history.reads if read["began"] >= history.settled]
    for read in last[1:]:
        for partition in sorted({*last[0]["rows"], *read["rows"]}):
            if Counter(last[0]["rows"].get(partition, ())) != Counter(read["rows"].get(partition, ())):
                yield f"{where(read, partition)}: other rows than at {last[0]['t']:.3f}, when all was resolved"


def erased_is_gone(history: History) -> Iterator[str]:
    """No object holds what was erased, once its certificate is complete."""
    for event in history.events:
        if event["event"] == "gone":
            yield from (f"{key} holds {event['mark']}" for key in event["found"])


CHECKS: Mapping[str, Check] = {
    "each write is seen whole": whole,
    "readers see old rows or new rows": old_or_new,
    "no published row is lost": none_lost,
    "no reader goes back": never_back,
    "what was refused is never seen": refused_is_never_seen,
    "no live file is deleted": readable,
    "what is resolved stays": settled_stays,
    "what is erased is gone": erased_is_gone,
}


@dataclass(frozen=True)
class Judgement:
    """What the history says of one promise."""

    promise: str
    broken: Sequence[str]


def judge(events: Iterable[Event]) -> tuple[History, list[Judgement]]:
    """Return the history, and the judgement of each promise."""
    history = History(events)
    return history, [Judgement(promise, list(check(history))) for promise, check in CHECKS.items()]


def events_of(path: Path) -> list[Event]:
    """Read a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def say(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")


def main(paths: Sequence[str]) -> int:
    """Judge files, print what was found, and return 1 if a promise was broken."""
    is_broken = False
    for path in paths:
        history, judgements = judge(events_of(Path(path)))
        kinds = ("begin", "published", "refused", "killed", "read")
        say(f"{path}: " + ", ".join(f"{history.count(kind)} {kind}" for kind in kinds))
        for judgement in judgements:
            say(f"  {'BROKEN' if judgement.broken else 'held':8}{judgement.promise}")
            for text in judgement.broken[:SHOWN]:
                say(f"          {text}")
            is_broken |= bool(judgement.broken)
    return int(is_broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
