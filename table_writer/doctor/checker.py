"""Judges a history of writes and reads of one table: was every promise kept? It imports nothing of this library.

A history is a file of JSON lines. Each line is an event with its time ``t``, in seconds of one clock:

``begin``      a write begins: ``write`` is its name, ``kind`` is ``overwrite`` or ``append``, and ``rows`` says how
               many rows it has for each partition; a row's text is the write's name, a slash and a number
``published``  the writer was told that its ``write`` is published
``refused``    the writer was told that nothing of its ``write`` is published, or ever will be
``unknown``    the writer was told that nobody knows; ``killed``: its process was ended; ``fault``: it failed by itself
``read``       a reader who began at ``began`` has read ``rows``: texts by partition; or it has met an ``error``, and
               ``missing`` says that a file was not there to which it was pointed
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Event = Mapping[str, Any]
Check = Callable[["History"], Iterator[str]]
SHOWN = 5
EVENTS = {"begin", "published", "refused", "killed", "unknown", "fault", "read", "settled", "gone"}


@dataclass(frozen=True)
class Write:
    """A write. A partition of it is done for sure once its writer is told so, or a read has ended that has seen it."""

    name: str
    kind: str
    rows: Mapping[str, int]
    began: float
    outcome: str
    done: Mapping[str, float]  # by partition; where it has none, nobody knows whether, or when

    def texts(self, partition: str) -> set[str]:
        """Return the rows that it has for a partition."""
        return {f"{self.name}/{number}" for number in range(self.rows.get(partition, 0))}

    def is_done(self, partition: str, before: float) -> bool:
        """Return whether a partition was surely done before a moment."""
        return self.done.get(partition, math.inf) < before

    def may_replace(self, other: Write, partition: str) -> bool:
        """Return whether it is an overwrite that may have come after another write."""
        return self.kind == "overwrite" and self is not other and not self.is_done(partition, other.began)


def writer_of(row: str) -> str:
    """Return the write that a row is of."""
    return str(row).rpartition("/")[0]


class History:
    """The writes and the reads of a history."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = sorted(events, key=lambda event: float(event["t"]))
        if unknown := {event["event"] for event in self.events} - EVENTS:
            raise ValueError(f"no events of a history: {', '.join(sorted(unknown))}")
        self.reads = [event for event in self.events if event["event"] == "read" and not event.get("error")]
        self.settled = min((event["t"] for event in self.events if event["event"] == "settled"), default=math.inf)
        seen: dict[
            str, dict[str, float]
        ] = {}  # by write: when the first read had ended that has seen a partition of it
        for read in self.reads:
            for partition, row in ((partition, row) for partition, rows in read["rows"].items() for row in rows):
                seen.setdefault(writer_of(row), {}).setdefault(partition, read["t"])
        ends = {event["write"]: event for event in self.events if event["event"] in ("published", "refused")}
        self.writes: dict[str, Write] = {}
        for event in (event for event in self.events if event["event"] == "begin"):
            end = ends.get(event["write"], {"event": "unknown", "t": math.inf})
            told = end["t"] if end["event"] == "published" else math.inf
            rows = {partition: count for partition, count in event["rows"].items() if count}
            first = seen.get(event["write"], {})
            done = {partition: min(told, first.get(partition, math.inf)) for partition in rows}
            self.writes[event["write"]] = Write(event["write"], event["kind"], rows, event["t"], end["event"], done)
        written = {partition for write in self.writes.values() for partition in write.rows}
        self.names = sorted(written.union(*(read["rows"] for read in self.reads)))

    def of(self, partition: str) -> list[tuple[Event, Counter[str], list[Write]]]:
        """Return the reads of a partition, by their ends: the rows of each, and the writes that they are of."""
        found = []
        for read in self.reads:
            rows = Counter(map(str, read["rows"].get(partition, ())))
            names = sorted({writer_of(row) for row in rows})
            found.append((read, rows, [self.writes[name] for name in names if name in self.writes]))
        return found

    def partitions(self) -> Iterator[tuple[str, str, Event, Counter[str], list[Write]]]:
        """Yield the same of all partitions, each with its name, and a text that says which of which read it is."""
        for partition in self.names:
            for read, rows, writes in self.of(partition):
                yield partition, where(partition, read), read, rows, writes


def where(partition: str, read: Event) -> str:
    """Say which partition of which read is meant."""
    return f"partition {partition}, read from {read['began']:.3f} to {read['t']:.3f}"


def base_of(writes: Iterable[Write]) -> str:
    """Return the overwrite whose rows a partition was read with; empty if there is none."""
    return next((write.name for write in writes if write.kind == "overwrite"), "")


def whole(history: History) -> Iterator[str]:
    """Of each write a reader sees all rows of a partition or none, and each once; nobody's rows are made up."""
    for partition, place, read, rows, writes in history.partitions():
        for name in sorted({writer_of(row) for row in rows}):
            write = next((write for write in writes if write.name == name), None)
            if write is None or write.began > read["t"]:
                yield f"{place}: rows of {name}, which had not begun"
            elif {row for row in rows if writer_of(row) == name} != write.texts(partition):
                yield f"{place}: other rows of {name} than its {write.rows.get(partition, 0)}"
        yield from (f"{place}: {row} is there {count} times" for row, count in rows.items() if count > 1)


def old_or_new(history: History) -> Iterator[str]:
    """A partition holds the rows of one overwrite, and of appends that came to them; never a mixture."""
    for partition, place, _, _, writes in history.partitions():
        overwrites = [write for write in writes if write.kind == "overwrite"]
        if len(overwrites) > 1:
            yield f"{place}: rows of {' and of '.join(write.name for write in overwrites)} at once"
        for write in writes:
            for other in overwrites:
                if other is write or not write.is_done(partition, other.began):
                    continue
                yield f"{place}: rows of {write.name}, which {other.name} had replaced"


def none_lost(history: History) -> Iterator[str]:
    """What was done before a read began is in it, unless an overwrite that may have come later replaced it."""
    for partition, place, read, _, writes in history.partitions():
        for write in history.writes.values():
            is_due = write.is_done(partition, read["began"]) and write not in writes
            if is_due and not any(other.may_replace(write, partition) for other in writes):
                yield f"{place}: no rows of {write.name}, which was done by {write.done[partition]:.3f}"


def never_back(history: History) -> Iterator[str]:
    """What a reader has seen replaced, or added, no later reader sees undone."""
    for partition in history.names:
        first_end: dict[str, float] = {}  # of a read of each base
        left_end: dict[str, float] = {}  # of a read that has seen another base, after that one had ended
        base_with: dict[
            str, tuple[str, float]
        ] = {}  # by append: the base on which it was first seen, and that read's end
        for read, _, writes in history.of(partition):
            place, base = where(partition, read), base_of(writes)
            if read["began"] > left_end.get(base, math.inf):
                yield f"{place}: {base or 'no overwrite'} again, after another one"
            for other in (other for other, ended in first_end.items() if other != base and read["began"] > ended):
                left_end.setdefault(other, read["t"])
            first_end.setdefault(base, read["t"])
            appended = {write.name for write in writes if write.kind == "append"}
            for name in appended:
                if base_with.setdefault(name, (base, read["t"]))[0] != base:
                    yield f"{place}: {name} beside {base or 'no overwrite'}, and beside another one before"
            for name, (first_base, ended) in base_with.items():
                if name not in appended and first_base == base and read["began"] > ended:
                    yield f"{place}: {name} is gone, and nothing has replaced it"


def refused_is_never_seen(history: History) -> Iterator[str]:
    """Nobody sees a row of a write whose caller was told that nothing of it is published."""
    for _, place, _, _, writes in history.partitions():
        yield from (
            f"{place}: rows of {write.name}, which was refused" for write in writes if write.outcome == "refused"
        )


def readable(history: History) -> Iterator[str]:
    """No file that a reader was pointed to is missing."""
    for event in history.events:
        if event["event"] == "read" and event.get("missing"):
            yield f"read from {event['began']:.3f} to {event['t']:.3f}: {event['error']}"


def resolved_stays(history: History) -> Iterator[str]:
    """Once all is resolved, readers see the same for ever, and a write in all its partitions where none replaced it."""
    last = [read for read in history.reads if read["began"] >= history.settled]
    for read in last[1:]:
        for partition in history.names:
            if Counter(last[0]["rows"].get(partition, ())) != Counter(read["rows"].get(partition, ())):
                yield f"partition {partition}, read from {read['began']:.3f}: other rows than when all was resolved"
    content = {partition: history.of(partition)[-1][2] for partition in history.names} if last else {}
    bases = {partition: history.writes.get(base_of(writes)) for partition, writes in content.items()}
    for write in (write for write in history.writes.values() if any(write in writes for writes in content.values())):
        under = [base for partition, base in bases.items() if base is write and partition in write.rows]
        for partition in (partition for partition in write.rows if write not in content[partition]):
            base = bases[partition]
            was_before = base is not None and any(bases[name] is write for name in base.rows) and bool(under)
            if base is None or was_before or not base.may_replace(write, partition):
                yield f"partition {partition}: nothing of {write.name}, which is in others, when all was resolved"


def erased_is_gone(history: History) -> Iterator[str]:
    """No object holds what was erased, once its certificate is complete."""
    for event in (event for event in history.events if event["event"] == "gone"):
        yield from (f"{key} holds {event['mark']}" for key in event["found"])


CHECKS: Mapping[str, Check] = {
    "each write is seen whole": whole,
    "readers see old rows or new rows": old_or_new,
    "no published row is lost": none_lost,
    "no reader goes back": never_back,
    "what was refused is never seen": refused_is_never_seen,
    "no live file is deleted": readable,
    "what is resolved stays": resolved_stays,
    "what is erased is gone": erased_is_gone,
}


def judge(events: Iterable[Event]) -> tuple[History, dict[str, list[str]]]:
    """Return the history, and for each promise what breaks it."""
    history = History(events)
    return history, {promise: list(check(history)) for promise, check in CHECKS.items()}


def main(paths: Sequence[str]) -> int:
    """Judge files, print what was found; return 1 if a promise was broken, and 2 if there is nothing to judge."""
    code = 0
    for path in paths:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        history, judgements = judge(json.loads(line) for line in lines if line.strip())
        counts = Counter(event["event"] for event in history.events)
        sys.stdout.write(f"{path}: {', '.join(f'{count} {kind}' for kind, count in counts.items())}\n")
        for promise, broken in judgements.items():
            shown = "".join(f"          {text}\n" for text in broken[:SHOWN])
            sys.stdout.write(f"  {'BROKEN' if broken else 'held':8}{promise}\n{shown}")
        code = max(code, 1 if any(judgements.values()) else 0 if history.writes and history.reads else 2)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
