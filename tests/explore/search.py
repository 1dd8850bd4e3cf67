"""Which schedules are carried out: all with few deviations, or so many of them, drawn from a seed.

A switch is tried only before or after a call that has something in common with what the other does: a switch before a
call that commutes with all of that is the same as one after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import permutations
from random import Random
from time import process_time
from typing import Final

from tests.fuzz.history import CHANGING

from .actors import ACTORS, ATOMIC
from .run import Point, Reached, carried_out
from .schedule import SWITCHES, Deviation, Schedule, What

ROOT: Final = "mart/orders/_table_writer/"
WEIGHTS: Final[dict[What, float]] = {
    "switch": 6,
    "later": 2,
    "stand still": 0.5,
    "arrive": 6,
    "death": 3,
    "error": 3,
    "answer lost": 2,
    "late": 3,
    "late and death": 2,
    "twice": 1,
}
"""How often each is drawn."""
BUSY: Final = 4
"""How much more often something happens at the log or in the metastore than elsewhere."""
Place = tuple[str, bool]
ANYWHERE: Final = frozenset({("metastore", True), ("data", True), ("log", False)})
"""What another tool may touch."""


@dataclass(frozen=True)
class Bound:
    """How far schedules depart from one after the other."""

    preemptions: int
    faults: int


BUDGETED: Final = Bound(2, 1)
SLOW: Final = Bound(3, 2)


def place_of(point: Point) -> Place:
    """Return what a call touches, and whether it changes it; data of writes is told apart by the write."""
    if point.service == "metastore":
        return "metastore", point.changes
    below = point.key.removeprefix(ROOT)
    if below == point.key:
        return "data", point.changes  # of other tools, or everything
    first, _, rest = below.partition("/")
    write_id = rest.partition("/")[0] if first == "data" else ""
    return f"{first}/{write_id}".rstrip("/"), point.changes


def have_in_common(place: Place, other: Place) -> bool:
    """Whether two calls do not commute."""
    (name, changes), (other_name, other_changes) = place, other
    is_same = f"{name}/".startswith(f"{other_name}/") or f"{other_name}/".startswith(f"{name}/")
    return is_same and (changes or other_changes)


@cache
def places_of(name: str) -> frozenset[Place]:
    """Return all that an actor touches when it is alone; and of entries of others, which it may resolve, all."""
    if ACTORS[name].operation in ATOMIC:
        return ANYWHERE
    steps = carried_out(Schedule((name,)), set()).steps
    return frozenset(place_of(one.point) for one in steps) | {("log", True), ("metastore", True)}


@dataclass
class Figures:
    """What an exploration has done."""

    schedules: int = 0
    seconds: float = 0.0
    ended: set[str] = field(default_factory=set)
    by_depth: Counter[tuple[int, int]] = field(default_factory=Counter)

    def __str__(self) -> str:
        depths = ", ".join(f"{p}+{f}: {number}" for (p, f), number in sorted(self.by_depth.items()))
        rate = self.schedules / self.seconds if self.seconds else 0
        return (
            f"{self.schedules} schedules, {len(self.ended)} distinct states at the end, {self.seconds:.1f} s,"
            f" {rate:.0f} a second (preemptions+faults: {depths})"
        )

    def add(self, other: Figures) -> None:
        self.schedules += other.schedules
        self.seconds += other.seconds
        self.ended |= other.ended
        self.by_depth += other.by_depth


@dataclass(frozen=True)
class Failure:
    """A schedule, and what was wrong."""

    schedule: Schedule
    wrong: str


class Exploration:
    """Explores what a few actors do to one table."""

    def __init__(self, actors: Sequence[str], bound: Bound, *, seed: int = 0) -> None:
        self._actors = tuple(actors)
        self._bound = bound
        self._random = Random(f"{seed} {actors}")
        self._steps: dict[Schedule, Sequence[Reached] | None] = {}
        self.figures = Figures()
        self.failures: list[Failure] = []

    def sample(self, schedules: int) -> None:
        """Carry out so many schedules: first those without deviations, then drawn ones, each a step from another."""
        begun = process_time()
        orders = [Schedule(one) for one in dict.fromkeys(permutations(self._actors))]
        if 3 * len(orders) > schedules:
            orders = self._random.sample(orders, max(1, schedules // 3))
        for one in orders:
            self._carried_out(one)
        tries = 0
        while self.figures.schedules < schedules and tries < 20 * schedules:
            tries += 1
            self._walk(self._random.choice(orders), schedules)
        self.figures.seconds += process_time() - begun

    def explore_all(self, most: int = 1_000_000) -> None:
        """Carry out every schedule within the bound."""
        begun = process_time()
        waiting = [Schedule(one) for one in dict.fromkeys(permutations(self._actors))]
        while waiting and self.figures.schedules < most:
            schedule = waiting.pop(0)
            steps = self._carried_out(schedule)
            if steps is not None:
                waiting += [schedule.with_deviation(one) for one, _ in self._extensions(schedule, steps)]
        self.figures.seconds += process_time() - begun

    def _walk(self, schedule: Schedule, most: int) -> None:
        depth = self._random.randint(1, self._bound.preemptions + self._bound.faults)
        for _ in range(depth):
            steps = self._carried_out(schedule)
            if steps is None or self.figures.schedules >= most:
                return
            extensions = list(self._extensions(schedule, steps))
            if not extensions:
                return
            kinds = sorted({one.what for one, _ in extensions})
            kind = self._random.choices(kinds, [WEIGHTS[one] for one in kinds])[0]
            chosen = [(one, weight) for one, weight in extensions if one.what == kind]
            (deviation,) = self._random.choices([one for one, _ in chosen], [weight for _, weight in chosen])
            schedule = schedule.with_deviation(deviation)
        self._carried_out(schedule)

    def _carried_out(self, schedule: Schedule) -> Sequence[Reached] | None:
        """Return the points of a schedule, ``None`` if something was wrong."""
        if schedule not in self._steps:
            run = carried_out(schedule, self.figures.ended)
            self.figures.schedules += 1
            self.figures.by_depth[schedule.preemptions, schedule.faults] += 1
            wrong = run.oracle.wrong
            if wrong:
                self.failures.append(Failure(schedule, wrong[0]))
            self._steps[schedule] = None if wrong else run.steps
        return self._steps[schedule]

    def _extensions(self, schedule: Schedule, steps: Sequence[Reached]) -> Iterator[tuple[Deviation, float]]:
        """Return what can happen after the last deviation, within the bound."""
        may_preempt = schedule.preemptions < self._bound.preemptions
        may_fail = schedule.faults < self._bound.faults
        begin = 0
        if schedule.deviations:
            last = schedule.deviations[-1]
            places = [(one.point.actor, one.point.number) for one in steps]
            begin = places.index((last.actor, last.point)) + 1 if (last.actor, last.point) in places else len(steps)
        for step in steps[begin:]:
            point, place = step.point, place_of(step.point)
            weight = BUSY if place[0] in {"log", "metastore"} else 1
            for what in self._possible(step, may_preempt=may_preempt, may_fail=may_fail):
                if what not in SWITCHES:
                    yield Deviation(point.actor, point.number, what), weight
                    continue
                for other in step.others:
                    if any(have_in_common(place, one) for one in places_of(schedule.actors[other])):
                        yield Deviation(point.actor, point.number, what, other), weight

    def _possible(self, step: Reached, *, may_preempt: bool, may_fail: bool) -> Iterator[What]:
        point = step.point
        if may_preempt:
            if step.others:
                yield "switch"
                yield "later"
                if may_fail:
                    yield "stand still"
            if step.is_request_late:
                yield "arrive"
        if may_fail and point.call in CHANGING:
            if point.phase == "after":
                yield "answer lost"
            else:
                yield from ("death", "error", "late", "late and death")
                if point.service == "store":
                    yield "twice"
