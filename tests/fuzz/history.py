"""Histories: what is done to a table, what happens inside of what, drawn from a seed; and how one is shortened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

MOST_STEPS = 9
DEEPEST = 2  # an operation in a call of an operation in a call of an operation

OPERATIONS = {
    "append": 7,
    "append_in_place": 7,
    "compact": 5,
    "overwrite": 5,
    "overwrite_table": 1,
    "overwrite_where": 2,
    "create": 2,
    "append_once": 2,
    "append_in_place_once": 2,
    "overwrite_once": 1,
    "stage": 5,
    "publish": 6,
    "discard": 3,
    "recover": 5,
    "rollback": 4,
    "restore": 1,
    "adopt": 0.5,
    "vacuum": 4,
    "vacuum_all": 1,
    "abort_uploads": 1,
    "insert": 3,
    "move": 2,
    "drop": 1,
    "point_back": 1,
    "reset_log": 0.5,
    "rename": 0.5,
    "wait": 5,
}
WITHOUT_CALLS = {"insert", "move", "drop", "point_back", "reset_log", "wait"}
CALLS = {
    ("metastore", "get_partitions"): 4,
    ("metastore", "add_partitions"): 5,
    ("metastore", "alter_partitions"): 8,
    ("metastore", "drop_partition"): 4,
    ("store", "put"): 3,
    ("store", "put_if_absent"): 6,
    ("store", "get"): 2,
    ("store", "list_page"): 3,
    ("store", "delete"): 3,
    ("store", "copy"): 5,
    ("store", "complete_upload"): 2,
}
"""How often something happens at a call; at all others once."""
CHANGING = {"add_partitions", "alter_partitions", "drop_partition", "put", "put_if_absent", "delete", "copy"} | {
    "complete_upload",
    "abort_upload",
}
HAPPENINGS = {"nest": 8, "late": 5, "late and death": 2, "error": 4, "death": 2, "ctrl-c": 1, "pause": 2, "twice": 2}
DELAYS = (0.3, 1.0, 3.0, 30.0, 400.0, 4_000.0, 40_000.0, 80_000.0)  # at most a day: LATE_CALL_SECONDS
WAITS = (10.0, 400.0, 4_000.0, 50_000.0, 90_000.0, 300_000.0, 1_500_000.0)


@dataclass(frozen=True)
class Event:
    """What happens at one call of an operation: the n-th of its kind."""

    service: str
    call: str
    number: int
    phase: str
    what: str
    seconds: float = 0.0
    step: Step | None = None

    def __str__(self) -> str:
        return f"{self.what} {self.phase} {self.service}.{self.call} {self.number}"


@dataclass(frozen=True)
class Step:
    """One operation; its own seed draws its arguments, so that they stay when other steps go."""

    operation: str
    seed: int
    events: tuple[Event, ...] = ()


@dataclass(frozen=True)
class History:
    """What is done, one after the other, to a table of so many partitions; of none: it is its own only one."""

    steps: tuple[Step, ...]
    partitions: int = 3


Calls = Mapping[str, Mapping[tuple[str, str], int]]
"""How many calls of each kind an operation makes when nothing happens."""


def drawn(seed: int, calls: Calls) -> History:
    """Return the history of a seed."""
    return _Draw(Random(seed), calls).history()


class _Draw:
    """Draws a history out of a few operations and a few things that happen: each seed has its own choice of them."""

    def __init__(self, random: Random, calls: Calls) -> None:
        self._random = random
        self._calls = calls
        self._operations = self._some(OPERATIONS, random.choice((4, 7, len(OPERATIONS))))
        self._happenings = self._some(HAPPENINGS, random.choice((2, 4, len(HAPPENINGS)))) | {"nest": 5.0}

    def history(self) -> History:
        random = self._random
        partitions = random.choice((1, 2, 2, 3, 4))
        count = random.randint(2, MOST_STEPS)
        steps = [self._seeded("overwrite"), *(self._step(0) for _ in range(count))]
        if random.random() < 0.5:
            shape = random.choice(
                (self._beside_a_stage, self._beside_an_append, self._refused, self._unanswered, self._half_copied)
            )
            at = random.randint(1, len(steps))
            steps[at:at] = shape()
        return History(tuple(steps), partitions)

    def _seeded(self, operation: str, *events: Event) -> Step:
        return Step(operation, self._random.getrandbits(32), events)

    def _once(self, service: str, call: str, most: int, what: str, operation: str = "") -> Event:
        """Return an event before one of the first calls of a kind."""
        number, seconds = self._random.randint(1, most), self._random.choice(DELAYS)
        return Event(service, call, number, "before", what, seconds, self._seeded(operation) if operation else None)

    def _beside_a_stage(self) -> list[Step]:
        """A request of a stage, of a discard or of a publish is applied again later."""
        call = self._random.choice(("put", "put_if_absent", "delete", "complete_upload"))
        publish = self._seeded("publish", self._once("store", "delete", 3, "twice"))
        return [self._seeded("stage", self._once("store", call, 3, "twice")), self._seeded("wait"), publish]

    def _beside_an_append(self) -> list[Step]:
        """Others publish between the rounds of an append, and what it copies or deletes is applied again later."""
        others = ("overwrite", "append", "rollback", "publish", "vacuum")
        events = [self._once("store", "list_page", 9, "nest", self._random.choice(others)) for _ in range(2)]
        again = self._once("store", self._random.choice(("delete", "copy")), 2, "twice")
        append = self._random.choice(("append", "append_in_place", "publish"))
        return [self._seeded("overwrite"), self._seeded(append, *events, again)]

    def _half_copied(self) -> list[Step]:
        """An append in place does not come to the end of its copies, or not in time, and others go on."""
        what = self._random.choice(("late", "late and death", "twice", "death", "error", "pause"))
        held = self._once("store", "copy", 4, what)
        if what == "pause":
            held = replace(held, seconds=self._random.choice(WAITS))
        others = ("overwrite", "append", "append_in_place", "rollback", "publish", "vacuum", "recover", "wait")
        events = [held, *(self._once("store", "copy", 4, "nest", self._random.choice(others)) for _ in range(2))]
        append = self._random.choice(("append_in_place", "append_in_place", "append_in_place_once"))
        after = [self._seeded(self._random.choice(("wait", *others))) for _ in range(4)]
        return [self._seeded(append, *events), *after]

    def _refused(self) -> list[Step]:
        """Other tools find what a refused write has left."""
        refused = self._seeded("overwrite", self._once("metastore", "alter_partitions", 1, "error"))
        return [refused, self._seeded("insert"), self._seeded(self._random.choice(("append", "create", "rollback")))]

    def _unanswered(self) -> list[Step]:
        """A change is applied when others have resolved it and gone on."""
        call = self._random.choice(("add_partitions", "alter_partitions", "drop_partition"))
        written = self._random.choice(
            ("append", "append_in_place", "overwrite_table", "rollback", "restore", "publish", "create")
        )
        what = self._random.choice(("late", "late and death"))
        after = [self._seeded(self._random.choice(("recover", "append", "overwrite", "rollback"))) for _ in range(3)]
        return [self._seeded(written, self._once("metastore", call, 1, what)), *after]

    def _some(self, weights: Mapping[str, float], count: int) -> dict[str, float]:
        chosen = self._random.sample(sorted(weights), count)
        return {one: weights[one] for one in chosen}

    def _step(self, depth: int) -> Step:
        operation = _chosen(self._random, self._operations)
        seed = self._random.getrandbits(32)
        if operation in WITHOUT_CALLS:
            return Step(operation, seed)
        events = [self._event(operation, depth) for _ in range(self._random.randint(0, (3, 2, 1)[depth]))]
        return Step(operation, seed, tuple(events))

    def _event(self, operation: str, depth: int) -> Event:
        random, made = self._random, self._calls[operation]
        service, call = _chosen(random, {one: CALLS.get(one, 1) for one in made})
        number = random.randint(1, made[service, call] + 1)
        phase = random.choice(("before", "after"))
        what = _chosen(random, self._happenings)
        if what in {"late", "late and death", "twice"}:
            phase = "before"
            if call not in CHANGING or (what == "twice" and service == "metastore"):
                what = "nest"
        if what == "nest" and depth >= DEEPEST:
            what = "error"
        seconds = random.choice(WAITS if what == "pause" else DELAYS)
        step = self._step(depth + 1) if what == "nest" else None
        return Event(service, call, number, phase, what, seconds, step)


def _chosen(random: Random, weights: Mapping[Any, float]) -> Any:
    return random.choices(list(weights), list(weights.values()))[0]


def shortened(history: History, fails: Callable[[History], bool], tries: int = 300) -> History:
    """Leave out of a history what it fails without."""
    again = True
    while again:
        again = False
        for steps in _without_one(history.steps):
            tries -= 1
            if tries < 0:
                return history
            if fails(shorter := replace(history, steps=steps)):
                history, again = shorter, True
                break
    return history


def _without_one(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    for index in range(len(steps)):
        yield steps[:index] + steps[index + 1 :]
    for index, step in enumerate(steps):
        for less in _with_less(step):
            yield (*steps[:index], less, *steps[index + 1 :])


def _with_less(step: Step) -> Iterator[Step]:
    events = step.events
    for index, event in enumerate(events):
        yield replace(step, events=events[:index] + events[index + 1 :])
        for less in _with_less(event.step) if event.step else ():
            yield replace(step, events=(*events[:index], replace(event, step=less), *events[index + 1 :]))
