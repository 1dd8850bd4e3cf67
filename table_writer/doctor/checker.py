"""Judges a history of writes and reads of one table: was every promise kept? It imports nothing of this library.

A history is a file of JSON lines. Each line is an event with its time ``t``, in seconds of one clock:

``begin``      a write begins: ``write`` is its name, ``kind`` is ``overwrite`` or ``append``, and ``rows`` says how
               many rows it has for each partition; a row's text is the write's name, a slash and a number from 0 on
``published``  the writer was told that its ``write`` is published
``refused``    the writer was told that nothing of its ``write`` is published, or ever will be
``unknown``    the writer was told that nobody knows; ``killed``: its process was ended; ``fault``: it failed by itself
``read``       a reader who began at ``began`` has read ``rows``: texts by partition; or it has met an ``error``. It is
               ``damaged``, as a refused write may be, if what was stored is not there, or is not what was written
``settled``    every write has ended, and what was in doubt is resolved: nothing may change any more
``gone``       every object was looked through for the text ``mark``, and ``found`` names those that hold it

Run it: ``python checker.py history.jsonl``. It ends with 1 if a promise is broken, else 2 if there is nothing to judge.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

Event = Mapping[str, Any]
Check = Callable[["History"], Iterator[str]]
Rows = Mapping[str, list[str]]  # by the name of their write
EVENTS = {"begin", "published", "refused", "killed", "unknown", "fault", "read", "settled", "gone"}


@dataclass(frozen=True, eq=False)
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


def by_writer(rows: Iterable[str]) -> Rows:
    """Return rows by the name of the write that they are of."""
    found: dict[str, list[str]] = {}
    for row in sorted(map(str, rows)):
        found.setdefault(row.rpartition("/")[0], []).append(row)
    return found


class History:
    """The writes and the reads of a history."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = sorted(events, key=lambda event: float(event["t"]))
        if unknown := {event["event"] for event in self.events} - EVENTS:
            raise ValueError(f"no events of a history: {', '.join(sorted(unknown))}")
        self.reads = [event for event in self.events if event["event"] == "read" and not event.get("error")]
        self.settled = min((event["t"] for event in self.events if event["event"] == "settled"), default=math.inf)
        grouped = [(read, {name: by_writer(rows) for name, rows in read["rows"].items()}) for read in self.reads]
        seen: dict[str, dict[str, float]] = {}  # by write and partition: when the first read that has seen it had ended
        for read, by_partition in grouped:
            for partition, names in by_partition.items():
                for name in names:
                    seen.setdefault(name, {}).setdefault(partition, read["t"])
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
        self.views: list[View] = []  # by partition, and by the ends of the reads
        for partition, (read, by_partition) in itertools.product(self.names, grouped):
            place = f"partition {partition}, read from {read['began']:.3f} to {read['t']:.3f}"
            by_name = by_partition.get(partition, {})
            writes = [self.writes[name] for name in sorted(by_name) if name in self.writes]
            since = max(read["began"], *(write.began for write in writes), -math.inf)
            self.views.append(View(partition, place, read, since, by_name, writes))


class View(NamedTuple):
    """What a read has found in a partition."""

    partition: str
    place: str  # says which partition of which read it is
    read: Event
    since: float  # it shows the partition at a moment from here on: after it began, and after each write that it shows
    rows: Rows
    writes: list[Write]


def base_of(writes: Iterable[Write]) -> str:
    """Return the overwrite whose rows are among those that were read; empty if there is none."""
    return next((write.name for write in writes if write.kind == "overwrite"), "")


def whole(history: History) -> Iterator[str]:
    """Of each write a reader sees all rows of a partition or none, and each once; nobody's rows are made up."""
    for partition, place, read, _, by_name, _ in history.views:
        for name, rows in by_name.items():
            write = history.writes.get(name)
            if write is None or write.began > read["t"]:
                yield f"{place}: rows of {name}, which had not begun"
            elif set(rows) != write.texts(partition):
                yield f"{place}: other rows of {name} than its {write.rows.get(partition, 0)}"
            yield from (f"{place}: {row} is there {count} times" for row, count in Counter(rows).items() if count > 1)


def old_or_new(history: History) -> Iterator[str]:
    """A partition holds the rows of one overwrite, and of appends that came to them; never a mixture."""
    for partition, place, _, _, _, writes in history.views:
        overwrites = [write for write in writes if write.kind == "overwrite"]
        if len(overwrites) > 1:
            yield f"{place}: rows of {' and of '.join(write.name for write in overwrites)} at once"
        for write, other in itertools.product(writes, overwrites):
            if other is not write and write.is_done(partition, other.began):
                yield f"{place}: rows of {write.name}, which {other.name} had replaced"


def none_lost(history: History) -> Iterator[str]:
    """What was done before a read began is in it, unless an overwrite that may have come later replaced it."""
    writes_of = {name: [write for write in history.writes.values() if name in write.rows] for name in history.names}
    beside = {(view.partition, write.name, base_of(view.writes)) for view in history.views for write in view.writes}
    for partition, place, _, since, rows, writes in history.views:
        base = base_of(writes)
        for write in (write for write in writes_of[partition] if write.name not in rows):
            had_it = (partition, write.name, base) in beside  # the append has come to that base, not before it
            is_replaced = base and not had_it and history.writes[base].may_replace(write, partition)
            if write.is_done(partition, since) and not is_replaced:
                yield f"{place}: no rows of {write.name}, which was done by {write.done[partition]:.3f}"


def never_back(history: History) -> Iterator[str]:
    """What a reader has seen replaced, or added, no later reader sees undone."""
    for partition, views in itertools.groupby(history.views, key=lambda view: view.partition):
        overwrites = [write for write in history.writes.values() if write.kind == "overwrite"]
        done_at = {"": -math.inf, **{write.name: write.done.get(partition, math.inf) for write in overwrites}}
        left_end: dict[str, float] = {}  # of the first read without a base that was done before: it was replaced
        base_with: dict[str, tuple[str, float]] = {}  # by append: the base that it was first seen on, and when
        for _, place, read, since, _, writes in views:
            base = base_of(writes)
            if since > left_end.get(base, math.inf):
                yield f"{place}: {base or 'no overwrite'} again, after another one"
            for other in (other for other, done in done_at.items() if other != base and since > done):
                left_end.setdefault(other, read["t"])
            appended = {write.name for write in writes if write.kind == "append"}
            for name in appended:
                if base_with.setdefault(name, (base, read["t"]))[0] != base:
                    yield f"{place}: {name} beside {base or 'no overwrite'}, and beside another one before"
            for name, (first_base, ended) in base_with.items():
                if name not in appended and first_base == base and since > ended:
                    yield f"{place}: {name} is gone, and nothing has replaced it"


def refused_is_never_seen(history: History) -> Iterator[str]:
    """Nobody sees a row of a write whose caller was told that nothing of it is published."""
    for _, place, _, _, _, writes in history.views:
        yield from (f"{place}: {write.name}, which was refused" for write in writes if write.outcome == "refused")


def readable(history: History) -> Iterator[str]:
    """Whatever a reader or a writer is pointed to is there, as it was written."""
    yield from (f"at {event['t']:.3f}: {event['error']}" for event in history.events if event.get("damaged"))


def resolved_stays(history: History) -> Iterator[str]:
    """Once all is resolved, readers see the same for ever, and a write in all its partitions where none replaced it."""
    last = [view for view in history.views if view.read["began"] >= history.settled]
    first = {view.partition: view.rows for view in reversed(last)}
    yield from (f"{view.place}: other rows than at first" for view in last if view.rows != first[view.partition])
    content = {view.partition: view.writes for view in last}  # of the last read
    bases = {partition: history.writes.get(base_of(writes)) for partition, writes in content.items()}
    for write in {write.name: write for writes in content.values() for write in writes}.values():
        for partition in (partition for partition in write.rows if write not in content[partition]):
            base = bases[partition]
            was_before = base is not None and any(bases[name] is write for name in base.rows)
            if base is None or was_before or not base.may_replace(write, partition):
                yield f"partition {partition}: nothing of {write.name}, which is in others, when all was resolved"


def erased_is_gone(history: History) -> Iterator[str]:
    """No object holds what was erased, once its certificate is complete."""
    yield from (f"{key} holds {e['mark']}" for e in history.events if e["event"] == "gone" for key in e["found"])


CHECKS: Mapping[str, tuple[Check, tuple[str, int, int]]] = {  # each with what it needs: events, and reads after them
    "each write is seen whole": (whole, ("published", 1, 3)),
    "readers see old rows or new rows": (old_or_new, ("published", 2, 3)),
    "no published row is lost": (none_lost, ("published", 1, 3)),
    "no reader goes back": (never_back, ("published", 2, 3)),
    "what was refused is never seen": (refused_is_never_seen, ("refused", 1, 3)),
    "nothing live is deleted or damaged": (readable, ("published", 1, 3)),
    "what is resolved stays": (resolved_stays, ("settled", 1, 3)),
    "what is erased is gone": (erased_is_gone, ("gone", 1, 0)),
}


def judge(events: Iterable[Event]) -> tuple[History, dict[str, tuple[str, list[str]]]]:
    """Return the history, and of each promise whether it held, was broken or not tried, with what has broken it."""
    history, found = History(events), {}
    for promise, (check, (kind, count, reads)) in CHECKS.items():
        broken, times = list(check(history)), [event["t"] for event in history.events if event["event"] == kind]
        is_tried = len(times) >= count and sum(read["began"] >= times[count - 1] for read in history.reads) >= reads
        found[promise] = "broken" if broken else "held" if is_tried else "not tried", broken
    return history, found


def main(paths: Sequence[str]) -> int:
    """Judge files, print what was found; return 1 if a promise was broken, else 2 if there was nothing to judge."""
    states = set[str]() if paths else {"no history"}
    for path in paths:
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
            history, found = judge(json.loads(line) for line in lines if line.strip())
        except (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            print(f"{path} is no history: {error!r}")
            states |= {"no history"}
            continue
        counts = Counter(event["event"] for event in history.events)
        print(f"{path}: {', '.join(f'{count} {kind}' for kind, count in counts.items())}")
        for promise, (state, broken) in found.items():
            print(f"  {state.upper() if broken else state:11}{promise}", *broken[:5], sep="\n             ")
        states |= {state for state, _ in found.values()} - {"not tried"} or {"no history"}
    return 1 if "broken" in states else 2 if "no history" in states else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
