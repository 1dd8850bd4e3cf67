"""Which schedules are carried out: all with few deviations, or so many of them, drawn from a seed.

A switch is tried only before or after a call that has something in common with what the other does: a switch before a
call that commutes with all of that is the same as one after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import permutations
from random import Random
from time import process_time
from typing import Final

from table_writer.protocol.table.root_markers import DELTA_LOG
from tests.fuzz.history import CHANGING

from .actors import ACTORS, ATOMIC
from .run import Point, Reached, Run, carried_out
from .schedule import SWITCHES, Deviation, Schedule, What
from .worlds import KINDS

ROOT: Final = "mart/orders/_table_writer/"
MIRROR: Final = f"/{DELTA_LOG}/"
BUSY_PLACES: Final = frozenset({"log", "metastore", "mirror"})
WEIGHTS: Final[dict[What, float]] = {
    "switch": 6,
    "hour": 6,
    "later": 1,
    "stand still": 0.5,
    "arrive": 8,
    "death": 3,
    "error": 4,
    "answer lost": 2,
    "misreported": 1,
    "late": 3,
    "late and death": 2,
    "twice": 1,
}
"""How often each is drawn."""
BUSY: Final = 10
"""How much more often something happens at the log or in the metastore than elsewhere."""
Place = tuple[str, bool]
ANYWHERE: Final = frozenset({("metastore", True), ("table", True), ("data", True), ("log", False), ("mirror", False)})
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
    if point.call == "get_table":
        return "table", False
    if point.service == "metastore":
        return "metastore", point.changes
    below = point.key.removeprefix(ROOT)
    if below == point.key:  # of other tools, or everything
        return "mirror" if MIRROR in point.key else "data", point.changes
    first, _, rest = below.partition("/")
    write_id = rest.partition("/")[0] if first == "data" else ""
    return f"{first}/{write_id}".rstrip("/"), point.changes


def have_in_common(place: Place, other: Place) -> bool:
    """Whether two calls do not commute."""
    (name, changes), (other_name, other_changes) = place, other
    is_same = f"{name}/".startswith(f"{other_name}/") or f"{other_name}/".startswith(f"{name}/")
    return is_same and (changes or other_changes)


@cache
def places_of(name: str, kind: str) -> frozenset[Place]:
    """Return all that an actor touches when it is alone; and of entries of others, which it may resolve, all."""
    if ACTORS[name].operation in ATOMIC:
        return ANYWHERE
    steps = carried_out(Schedule((name,), kind=kind), set()).steps
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


@dataclass
class Node:
    """A schedule that was carried out, how it can depart further, and what did."""

    schedule: Schedule
    extensions: dict[Deviation, float]
    children: dict[Deviation, Node] = field(default_factory=dict)


class Exploration:
    """Explores what a few actors do to one table."""

    def __init__(
        self,
        actors: Sequence[str],
        bound: Bound,
        *,
        kind: str = "",
        seed: int = 0,
        noted: Callable[[Run], None] | None = None,
    ) -> None:
        self._actors = tuple(actors)
        self._kind = kind
        self._weights: dict[What, float] = WEIGHTS | {"misreported": KINDS[kind].misreports}
        self._bound = bound
        self._noted = noted  # gets each run that has ended
        self._random = Random(f"{seed} {kind}{actors}")
        self._outlines: set[tuple[str, str]] = set()
        self._is_whole = False
        self.figures = Figures()
        self.failures: list[Failure] = []

    def sample(self, schedules: int, *, stops: bool = False) -> None:
        """Carry out so many schedules: first those without deviations, then drawn ones, each a step from another.

        With ``stops`` none after the first that fails.
        """
        begun = process_time()
        orders = [Schedule(one, kind=self._kind) for one in dict.fromkeys(permutations(self._actors))]
        if 3 * len(orders) > schedules:
            orders = self._random.sample(orders, max(1, schedules // 3))
        roots = [node for node in map(self._carried_out, orders) if node]
        while self.figures.schedules < schedules and any(node.extensions for node in roots):
            if stops and self.failures:
                break
            self._walk(self._random.choice(roots))
        self.figures.seconds += process_time() - begun

    def explore_all(self, most: int = 1_000_000) -> None:
        """Carry out every schedule within the bound."""
        begun = process_time()
        self._is_whole = True
        orders = [Schedule(one, kind=self._kind) for one in dict.fromkeys(permutations(self._actors))]
        waiting = [self._carried_out(one) for one in orders]
        while waiting and self.figures.schedules < most:
            node = waiting.pop(0)
            if node:
                waiting += [self._carried_out(node.schedule.with_deviation(one)) for one in node.extensions]
        self.figures.seconds += process_time() - begun

    def _walk(self, node: Node) -> None:
        """Depart from a schedule more and more, as far as the bound goes."""
        while extension := self._drawn(node):
            child = node.children.get(extension) or self._carried_out(node.schedule.with_deviation(extension))
            if child is None:  # it has failed, or come to nothing new
                del node.extensions[extension]
                return
            node.children[extension] = child
            if not child.extensions:
                del node.extensions[extension]
                return
            node = child

    def _drawn(self, node: Node) -> Deviation | None:
        if not node.extensions:
            return None
        kinds = sorted({one.what for one in node.extensions})
        kind = self._random.choices(kinds, [self._weights[one] for one in kinds])[0]
        chosen = [one for one in node.extensions if one.what == kind]
        return self._random.choices(chosen, [node.extensions[one] for one in chosen])[0]

    def _carried_out(self, schedule: Schedule) -> Node | None:
        """Carry a schedule out; return it to depart from, unless it has failed, or come to nothing new."""
        run = carried_out(schedule, self.figures.ended)
        if self._noted:
            self._noted(run)
        self.figures.schedules += 1
        self.figures.by_depth[schedule.preemptions, schedule.faults] += 1
        if run.oracle.wrong:
            self.failures.append(Failure(schedule, run.oracle.wrong[0]))
            return None
        how = (run.went, self._last_of(schedule, run.steps))  # at other places all that counts is what came of it
        if how in self._outlines and not self._is_whole:
            return None
        self._outlines.add(how)
        return Node(schedule, dict(self._extensions(schedule, run.steps)))

    def _last_of(self, schedule: Schedule, steps: Sequence[Reached]) -> str:
        """Return of what kind the last deviation was."""
        if not schedule.deviations:
            return str(schedule)
        last = schedule.deviations[-1]
        at = next((one.point for one in steps if (one.point.actor, one.point.number) == (last.actor, last.point)), None)
        if at is None or place_of(at)[0] not in BUSY_PLACES:
            return ""
        return f"{last.what} {last.to} {at.actor, at.call, at.phase, place_of(at)[0]}"

    def _extensions(self, schedule: Schedule, steps: Sequence[Reached]) -> Iterator[tuple[Deviation, float]]:
        """Return what can happen after the last deviation, within the bound."""
        may_preempt = schedule.preemptions < self._bound.preemptions
        may_fail = schedule.faults < self._bound.faults
        begin = 0
        if schedule.deviations:
            last = schedule.deviations[-1]
            places = [(one.point.actor, one.point.number) for one in steps]
            begin = places.index((last.actor, last.point)) + 1 if (last.actor, last.point) in places else len(steps)
        trims = any(ACTORS[one].operation == "vacuum" for one in schedule.actors)
        claimants = {one.point.actor for one in steps[:begin] if _is_claim(one.point)}
        for step in steps[begin:]:
            point, place = step.point, place_of(step.point)
            if _is_claim(point):
                claimants.add(point.actor)
            if point.is_fixed and not trims:
                continue
            is_busy = place[0] in BUSY_PLACES
            for what in self._possible(step, may_preempt=may_preempt, may_fail=may_fail, is_busy=is_busy or trims):
                if what not in SWITCHES:
                    yield Deviation(point.actor, point.number, what), BUSY if is_busy else 1
                elif what == "switch" or point.actor in claimants or trims:
                    for other in step.others:
                        if any(have_in_common(place, one) for one in places_of(schedule.actors[other], schedule.kind)):
                            yield Deviation(point.actor, point.number, what, other), BUSY if is_busy else 1

    def _possible(self, step: Reached, *, may_preempt: bool, may_fail: bool, is_busy: bool) -> Iterator[What]:
        point = step.point
        if may_preempt:
            if step.others:
                yield "switch"
                yield "hour"
                yield "later"
                if may_fail:
                    yield "stand still"
            if step.is_request_late and is_busy:
                yield "arrive"
        if may_fail and point.call in CHANGING:
            if point.phase == "after":
                if is_busy:
                    yield "answer lost"
                if point.service == "metastore":
                    yield "misreported"
            else:
                yield from ("death", "error", "late", "late and death") if is_busy else ("death", "error")
                if point.service == "store" and is_busy:
                    yield "twice"


def _is_claim(point: Point) -> bool:
    return point.call == "put_if_absent" and point.phase == "before" and point.key.endswith(".json")
