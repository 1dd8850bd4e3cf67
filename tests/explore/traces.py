"""Recorded traces: the calls of store and metastore that each schedule of the budget makes, before and after a change.

They show whether a change of the code has changed what it does: record at the commit before, compare at the one after::

    PYTHONHASHSEED=0 python -m tests.explore.traces record FILE [--times 3]
    PYTHONHASHSEED=0 python -m tests.explore.traces compare FILE [--show 5]

A deviation stands at the n-th point of its actor, and one read more moves all that come after it. So a trace also keeps
at *which* call each deviation stood, the how-manieth of its name: where numbers no longer fit, the schedule is carried
out with that call's new number. Bodies are not kept, nor what a call of the metastore names: that shows in where
partitions are in the end, how entries ended, and which rows are there. What is found:

================= ====================================================================================================
``same``          every call is as it was, in the same order
``reads differ``  all that changes something is as it was, in the same order among all actors; reads came or went
``changes``       something else is put, deleted, moved or answered: to be read one by one
``lost``          a deviation stands at a call that is not made any more: the schedule is none
================= ====================================================================================================

Ids of writes are numbered in the order in which they appear, since one name drawn more would change all after it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from difflib import unified_diff
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

from .run import Point, Run, carried_out
from .scenarios import BUDGETED_PAIRS, TRIPLES
from .schedule import Deviation, Schedule
from .search import BUDGETED, Exploration
from .worlds import KINDS

WRITE_IDS: Final = re.compile(r"(?<!\d)\d{16}(?!\d)")
FOUND: Final = ("same", "reads differ", "changes", "lost")


class Anchor(NamedTuple):
    """The call at which a deviation stands: its name, and the how-manieth of that name it is, from 0."""

    call: str
    number: int


@dataclass(frozen=True)
class Trace:
    """What one schedule has led to."""

    schedule: str
    anchors: tuple[Anchor, ...]
    calls: tuple[str, ...]
    changes: tuple[str, ...]  # those of them that change something
    went: tuple[str, ...]
    """What each actor was answered; then where partitions are, how entries ended, and which rows are there."""

    @classmethod
    def of(cls, run: Run) -> Trace:
        """Take the trace of a run that has ended."""
        calls = named(step.point for step in run.steps)
        changes = tuple(call for call, step in zip(calls, run.steps, strict=True) if step.point.changes)
        anchors = [anchor_of(run, calls, one) for one in run.schedule.deviations]
        went = tuple(WRITE_IDS.sub("w", text) for text in (*(worker.result for worker in run.workers), run.went))
        return cls(str(run.schedule), tuple(one for one in anchors if one), calls, changes, went)

    @classmethod
    def parse(cls, line: str) -> Trace:
        """Read what :meth:`as_line` has written."""
        stored = json.loads(line)
        anchors = tuple(Anchor(*one) for one in stored["anchors"])
        return cls(stored["schedule"], anchors, *(tuple(stored[name]) for name in ("calls", "changes", "went")))

    def as_line(self) -> str:
        """Write the trace."""
        return json.dumps(asdict(self))


def named(points: Iterable[Point]) -> tuple[str, ...]:
    """Return points as text, with the ids of writes numbered as they appear."""
    numbers: dict[str, str] = {}

    def short(found: re.Match[str]) -> str:
        return numbers.setdefault(found[0], f"w{len(numbers) + 1}")

    return tuple(WRITE_IDS.sub(short, f"{point.actor} {point}") for point in points)


def anchor_of(run: Run, calls: Sequence[str], deviation: Deviation) -> Anchor | None:
    """Return the call at which a deviation stood; none if its actor never came there."""
    at = (deviation.actor, deviation.point)
    for place, step in enumerate(run.steps):
        if (step.point.actor, step.point.number) == at:
            return Anchor(calls[place], calls[:place].count(calls[place]))
    return None


def point_of(run: Run, anchor: Anchor) -> int | None:
    """Return which point of its actor a call is now; none if it is not made."""
    calls = named(step.point for step in run.steps)
    places = [place for place, call in enumerate(calls) if call == anchor.call]
    return run.steps[places[anchor.number]].point.number if anchor.number < len(places) else None


def traces_of(scenario: tuple[str, tuple[str, ...], int]) -> list[str]:
    """Explore one pair or triple, and return the traces of all schedules of which each deviation was reached."""
    kind, actors, schedules = scenario
    found: list[Trace] = []
    exploration = Exploration(actors, BUDGETED, kind=kind, noted=lambda run: found.append(Trace.of(run)))
    exploration.sample(schedules)
    whole = (one for one in found if len(one.anchors) == len(Schedule.parse(one.schedule).deviations))
    return [one.as_line() for one in whole]


def budget(times: int = 1) -> Iterator[tuple[str, tuple[str, ...], int]]:
    """Yield the pairs and triples of the budgeted run, and who sets statistics, with how many schedules each has."""
    yield from (
        ("", ("overwrite with figures", other), 4 * times) for other in ("append", "recover", "vacuum", "rollback")
    )
    for (by_kind, schedules), kind in product(((BUDGETED_PAIRS, 2), (TRIPLES, 4)), KINDS):
        yield from ((kind, actors, schedules * times) for actors in by_kind.get(kind, ()))


class Difference(NamedTuple):
    """What has become of a trace."""

    found: str  # one of FOUND
    text: str = ""  # what a person reads


def compared(before: Trace) -> Difference:
    """Carry the schedule of a trace out, and say what is different."""
    schedule = Schedule.parse(before.schedule)
    run = carried_out(schedule, set())
    after = Trace.of(run)
    if (after.calls, after.went) == (before.calls, before.went):
        return Difference("same")
    if after.anchors != before.anchors:
        anchored = _at_anchors(schedule, before.anchors)
        if anchored is None:
            return Difference("lost", f"{schedule}\n{before.anchors}")
        after = Trace.of(carried_out(anchored, set()))
    if (after.changes, after.went) == (before.changes, before.went):
        return Difference("reads differ", _diff(before.calls, after.calls))
    kept = (*before.changes, *before.went), (*after.changes, *after.went)
    return Difference("changes", f"{after.schedule} (was {before.schedule})\n{_diff(*kept)}")


def _at_anchors(schedule: Schedule, anchors: Sequence[Anchor]) -> Schedule | None:
    """Return the schedule with each deviation at the call where it stood, the first one first."""
    moved = replace(schedule, deviations=())
    for deviation, anchor in zip(schedule.deviations, anchors, strict=True):
        point = point_of(carried_out(moved, set()), anchor)
        if point is None:
            return None
        moved = moved.with_deviation(replace(deviation, point=point))
    return moved


def _diff(before: Sequence[str], after: Sequence[str]) -> str:
    return "\n".join(unified_diff(before, after, "before", "after", lineterm="", n=2))


def _compared(lines: Sequence[str]) -> list[tuple[str, str]]:
    return [(one.found, one.text) for one in map(compared, map(Trace.parse, lines))]


def record(file: Path, scenarios: Sequence[tuple[str, tuple[str, ...], int]]) -> int:
    """Write the traces of pairs and triples; returns how many."""
    with ProcessPoolExecutor() as processes, gzip.open(file, "wt") as out:
        count = 0
        for lines in processes.map(traces_of, scenarios, chunksize=8):
            out.writelines(f"{line}\n" for line in lines)
            count += len(lines)
    return count


def compare(file: Path, show: int) -> Mapping[str, int]:
    """Compare what was recorded with what the code does now, and print the first differences of each kind."""
    with gzip.open(file, "rt") as stored:
        lines = stored.read().splitlines()
    counts: Counter[str] = Counter()
    chunks = [lines[begin : begin + 20] for begin in range(0, len(lines), 20)]
    with ProcessPoolExecutor() as processes:
        for found, text in (one for chunk in processes.map(_compared, chunks) for one in chunk):
            counts[found] += 1
            if text and counts[found] <= show:
                print(f"## {found}: {text}\n", flush=True)
    return counts


def main() -> None:
    """Record, or compare."""
    parser = argparse.ArgumentParser(prog="python -m tests.explore.traces", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--times", type=int, default=1, help="so many times the budget's schedules are recorded")
    parser.add_argument("--show", type=int, default=5, help="differences of each kind that are printed")
    chosen = parser.parse_args()
    if sys.flags.hash_randomization:
        parser.error("set PYTHONHASHSEED=0: the order of sets is the order of some calls")
    logging.disable(logging.CRITICAL)
    if chosen.what == "record":
        print(f"{record(chosen.file, [*budget(chosen.times)])} traces")
        return
    counts = compare(chosen.file, chosen.show)
    print(", ".join(f"{found}: {counts[found]}" for found in FOUND))
    sys.exit(bool(counts["changes"] or counts["lost"]))


if __name__ == "__main__":
    main()
