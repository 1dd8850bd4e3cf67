"""Breadth first through every interleaving of every step, with every fault the budget allows.

A crash needs no step of its own. A crashed actor is one that does nothing any more, and every schedule in which an
actor does nothing any more is among those explored. So any number of actors may die, at any point; what the survivors
find is checked in every state, as if all had died there (:mod:`tests.protocol.invariants`). A claim may time out at any
moment, whether its claimant lives or not.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from table_writer.model.entry import Operation

from .answers import a_day_later, answer_to_read, change, claim, record_outcome, send
from .batches import Batches
from .invariants import Checks
from .keeping import Keeping, Protocol
from .requests import (
    FAILED,
    LOST,
    OK,
    REFUSED,
    TOO_LATE,
    Actor,
    Claim,
    Copy,
    Delete,
    Done,
    HasData,
    ListFiles,
    ListStale,
    Machine,
    Next,
    PutRegistration,
    ReadLog,
    ReadMetastore,
    ReadRegistration,
    Rebuild,
    RecordOutcome,
    RemoveRegistration,
    Send,
    Upload,
    Verify,
)
from .state import PARTITIONS, Budget, Call, Insert, Log, Marks, World, apply, place_of, rows_of, with_rows
from .telling import Telling
from .writes import Planned, Write


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What is explored."""

    title: str
    start: World
    actors: Mapping[str, Next]
    budget: Budget = field(default_factory=Budget)
    larger: Budget | None = None  # for the slow tests
    other_tool: tuple[Call, ...] = ()  # what another tool may do
    steps_are_checked: bool = True  # False: only states, to see where a wrong step ends
    in_batches: bool = False  # a switch is several calls
    tells: bool = False  # of statistics: a publish alters its partitions once more


class State(NamedTuple):
    """The world, the actors, and what may still go wrong."""

    world: World
    actors: tuple[Actor, ...]
    budget: Budget


LATE_REQUESTS = (Copy, Delete, PutRegistration)
Label = tuple[str, object, str]  # who, request or call, what came of it
Step = tuple[Label, State]


@dataclass(frozen=True)
class Explored:
    """What an exploration found."""

    title: str
    states: int
    transitions: int
    seconds: float
    reports: frozenset[tuple[str, str]]  # what each actor told its user, in one state or another
    problem: str = ""
    trace: tuple[tuple[Label, World], ...] = ()
    complete: bool = True


def protocol_of(scenario: Scenario) -> Keeping:
    """Return the rules that a scenario goes by."""
    return Batches() if scenario.in_batches else Telling() if scenario.tells else Protocol()


class Explorer:
    """Explores one scenario under one set of rules."""

    def __init__(self, scenario: Scenario, protocol: Keeping | None = None) -> None:
        Log.forget()
        self._scenario = scenario
        self._protocol = protocol or protocol_of(scenario)
        self._machine = Machine(self._protocol)
        self._names = tuple(scenario.actors)
        self._finishes = ("finish",) in scenario.actors.values()  # others never wait for a vacuum
        self._checks = Checks(self._machine, scenario.actors, scenario.start, in_batches=scenario.in_batches)
        self._handlers: dict[type, Callable[[State, int, Any], Iterator[Step]]] = {
            ReadLog: self._read_log,
            Claim: self._claim,
            RecordOutcome: self._record_outcome,
            Send: self._send,
            **dict.fromkeys((ReadMetastore, ListStale, HasData, ListFiles, ReadRegistration), self._read),
            **dict.fromkeys((Copy, Upload, Delete, RemoveRegistration, PutRegistration, Verify, Rebuild), self._change),
        }

    def run(
        self, *, limit: int = 20_000_000, goal: Callable[[World, Mapping[str, str]], str] | None = None
    ) -> Explored:
        """Explore until a rule is broken, a goal is reached, or nothing is left.

        Parameters
        ----------
        limit
            States after which to stop.
        goal
            Says in words what it has found in a state it looks for, else nothing.
        """
        began = time.monotonic()
        start = self._start()
        parents: dict[State, State | None] = {start: None}
        reports: set[tuple[str, str]] = set()
        transitions = 0
        level = [start]
        problem = self._checks.state(start.world, self._reports(start))
        last = start
        gc.disable()  # millions of tuples, none of them in a cycle
        try:
            while level and not problem and len(parents) < limit:
                following: list[State] = []
                for state in level:
                    for _, after in self.steps(state):
                        transitions += 1
                        if after in parents:
                            continue
                        parents[after] = state
                        following.append(after)
                        told = self._reports(after)
                        problem = self._checked(state.world, after.world, told)
                        if told != self._reports(state):
                            reports.update((n, t) for n, t in zip(self._names, told, strict=True) if t)
                        if goal and not problem:
                            problem = goal(after.world, dict(zip(self._names, told, strict=True)))
                        if problem:
                            last = after
                            break
                    if problem:
                        break
                level = following
        finally:
            gc.enable()
        return Explored(
            title=self._scenario.title,
            states=len(parents),
            transitions=transitions,
            seconds=time.monotonic() - began,
            reports=frozenset(reports),
            problem=problem,
            trace=self._trace(parents, last) if problem else (),
            complete=not level or bool(problem),
        )

    def steps(self, state: State) -> Iterator[Step]:
        """Every step that can be next."""
        for number, actor in enumerate(state.actors):
            if type(actor.request) is not Done:
                yield from self._handlers[type(actor.request)](state, number, actor.request)
        yield from self._environment(state)

    def _checked(self, before: World, after: World, told: tuple[str, ...]) -> str:
        step = self._checks.step(before, after) if self._scenario.steps_are_checked else ""
        return step or self._checks.state(after, told)

    def _start(self) -> State:
        world = self._scenario.start
        world = world._replace(log=Log.of(world.log.slots, world.log.marks))
        actors = tuple(self._machine.at(name, phase) for name, phase in self._scenario.actors.items())
        return State(world, actors, self._scenario.budget)

    def _reports(self, state: State) -> tuple[str, ...]:
        return tuple([actor.report for actor in state.actors])

    def _moved(self, state: State, number: int, response: object, world: World, budget: Budget | None = None) -> State:
        actors = state.actors
        moved = self._machine.answer(actors[number], response)
        return State(world, (*actors[:number], moved, *actors[number + 1 :]), budget or state.budget)

    def _read(self, state: State, number: int, request: Any) -> Iterator[Step]:
        response = answer_to_read(request, state.world)
        yield (self._names[number], request, ""), self._moved(state, number, response, state.world)

    def _read_log(self, state: State, number: int, request: ReadLog) -> Iterator[Step]:
        log, name = state.world.log, self._names[number]
        if not log.has_lost_entries:
            yield from self._read(state, number, request)
            return
        seen = self._protocol.newest_entries(log)
        if seen is not None:
            yield (name, request, ""), self._moved(state, number, seen, state.world)
            return
        actors = state.actors
        stopped = self._machine.at(name, ("end", "entries are lost"))
        actors = (*actors[:number], stopped, *actors[number + 1 :])
        yield (name, request, "an entry is lost"), State(state.world, actors, state.budget)

    def _change(self, state: State, number: int, request: Any) -> Iterator[Step]:
        name, world, budget = self._names[number], state.world, state.budget
        answer, after = change(request, world)
        yield (name, request, answer), self._moved(state, number, answer, after)
        if budget.late_store and answer != TOO_LATE and isinstance(request, LATE_REQUESTS):
            less = budget._replace(late_store=budget.late_store - 1)
            request = request._replace(in_time_of=0) if isinstance(request, Copy) else request
            again = after._replace(late_store=(*after.late_store, request))
            yield (name, request, f"{answer}, and sent twice"), self._moved(state, number, answer, again, less)
            pending = world._replace(late_store=(*world.late_store, request))
            yield (name, request, "no answer; still pending"), self._moved(state, number, LOST, pending, less)

    def _claim(self, state: State, number: int, request: Claim) -> Iterator[Step]:
        won, world = claim(request, state.world)
        yield ((self._names[number], request, "" if won else "lost to another"), self._moved(state, number, won, world))

    def _record_outcome(self, state: State, number: int, request: RecordOutcome) -> Iterator[Step]:
        response, world = record_outcome(request, state.world)
        yield (self._names[number], request, str(response)), self._moved(state, number, response, world)
        if state.budget.unrecorded and response is not TOO_LATE:
            less = state.budget._replace(unrecorded=state.budget.unrecorded - 1)
            yield (self._names[number], request, FAILED), self._moved(state, number, FAILED, state.world, less)

    def _send(self, state: State, number: int, request: Send) -> Iterator[Step]:
        name, world, budget = self._names[number], state.world, state.budget
        answer, after = send(request, world)
        yield (name, request, answer), self._moved(state, number, answer, after)
        if answer == TOO_LATE:
            return
        if budget.refusals:
            less = budget._replace(refusals=budget.refusals - 1)
            yield (name, request, REFUSED), self._moved(state, number, REFUSED, world, less)
        if budget.misreported and answer == OK:
            less = budget._replace(misreported=budget.misreported - 1)
            yield (
                (name, request, f"{answer}, but reported as refused"),
                self._moved(state, number, REFUSED, after, less),
            )
        if budget.lost:
            less = budget._replace(lost=budget.lost - 1)
            yield (name, request, f"{answer}, but the answer is lost"), self._moved(state, number, LOST, after, less)
        if budget.late:
            less = budget._replace(late=budget.late - 1)
            pending = world._replace(late=tuple(sorted((*world.late, request.call), key=repr)))
            yield (name, request, "no answer; still pending"), self._moved(state, number, LOST, pending, less)

    def _late(self, state: State) -> Iterator[Step]:
        """A request whose answer nobody waits for any more is carried out."""
        world, actors, budget = state
        for number, call in enumerate(world.late):
            answer, metastore = apply(call, world.metastore)
            rest = (*world.late[:number], *world.late[number + 1 :])
            yield (
                ("the server", call, f"late: {answer}"),
                State(world._replace(metastore=metastore, late=rest), actors, budget),
            )
        for number, request in enumerate(world.late_store):
            answer, later = change(request, world)
            rest = (*world.late_store[:number], *world.late_store[number + 1 :])
            yield (("the store", request, f"late: {answer}"), State(later._replace(late_store=rest), actors, budget))

    def _environment(self, state: State) -> Iterator[Step]:
        world, actors, budget = state
        if world.late or world.late_store:
            yield from self._late(state)
        if budget.timeouts:
            less = budget._replace(timeouts=budget.timeouts - 1)
            for version in world.log.in_doubt:
                slot = world.log.slots[version - 1]
                if not slot.timed_out and (self._finishes or slot.operation is not Operation.VACUUM):
                    later = world._replace(log=world.log.timed_out(version))
                    yield ("time", version, "the claim times out"), State(later, actors, less)
        if budget.days:
            yield ("time", 0, "a day passes"), State(a_day_later(world), actors, budget._replace(days=budget.days - 1))
        if budget.other_tool:
            yield from self._moved_by_others(state)
        if budget.inserts:
            yield from self._inserted(state)
        if budget.damaged or budget.lost_entries or budget.resets:
            yield from self._damaged(state)

    def _moved_by_others(self, state: State) -> Iterator[Step]:
        world, actors, budget = state
        less = budget._replace(other_tool=budget.other_tool - 1)
        for call in self._scenario.other_tool:
            answer, metastore = apply(call, world.metastore)
            if answer == OK:
                touched = world.touched | {values for values, _ in call[1]}
                touched |= {f"{values} back" for values, code in call[1] if code and not code.startswith("x:")}
                later = world._replace(metastore=metastore, touched=touched)
                yield ("another tool", call, ""), State(later, actors, less)

    def _inserted(self, state: State) -> Iterator[Step]:
        """Another tool adds a row to where a partition is."""
        world, actors, budget = state
        for values, code in zip(PARTITIONS, world.metastore, strict=True):
            if code is None:
                continue
            place, row = place_of(code) or "", f"o/{values}"
            will_look = frozenset(filter(None, map(will_list, actors)))
            will_look |= {"drop"} - {"drop" for one in actors if is_dropping(one) or world.late}
            later = with_rows(world, place, {*rows_of(world, place), row})
            later = later._replace(inserts=(*world.inserts, Insert(values, place, row, will_look)))
            less = budget._replace(inserts=budget.inserts - 1)
            yield ("another tool", values, f"inserts a row at {place}"), State(later, actors, less)

    def _damaged(self, state: State) -> Iterator[Step]:
        """Objects of the log are lost, or somebody deletes it while nobody is at work."""
        world, actors, budget = state
        ended = [version for version, slot in enumerate(world.log.slots, 1) if slot.outcome and not slot.gone]
        for version in ended if budget.damaged else ():
            later = world._replace(log=world.log.damaged(version))
            yield (
                ("damage", version, "its outcome is lost"),
                State(later, actors, budget._replace(damaged=budget.damaged - 1)),
            )
        idle = all(one.report or one.key[1:] == (self._scenario.actors[one.key[0]], ()) for one in actors)
        for version in ended if budget.lost_entries and idle else ():
            later = world._replace(log=world.log.without_entry(version))
            yield (
                ("damage", version, "the entry is lost"),
                State(later, actors, budget._replace(lost_entries=budget.lost_entries - 1)),
            )
        if budget.resets and idle:
            empty = Log.of((), Marks(log_id=world.log.marks.log_id + 1))
            later = world._replace(log=empty)
            yield ("somebody", 0, "deletes the log"), State(later, actors, budget._replace(resets=budget.resets - 1))

    def _trace(self, parents: Mapping[State, State | None], last: State) -> tuple[tuple[Label, World], ...]:
        found: list[tuple[Label, World]] = []
        state: State | None = last
        while state is not None and (before := parents[state]) is not None:
            found.append((next(label for label, after in self.steps(before) if after == state), state.world))
            state = before
        closing = [(label, world) for label, world in self._checks.closing]
        return (*reversed(found), *closing)


def will_list(actor: Actor) -> str:
    """Name the append that is yet to list what it brings along."""
    _, (phase, *arguments), responses = actor.key
    first = arguments[0] if arguments else None
    write = first.write if isinstance(first, Planned) else first
    if not isinstance(write, Write) or not write.appends:
        return ""
    is_before = phase in BEFORE_LISTING or (phase == "bring" and not responses)
    return write.write_id if is_before else ""


BEFORE_LISTING: Final = frozenset({"write", "look_for_key", "upload", "publish", "look", "verify", "copy"})


def is_dropping(actor: Actor) -> bool:
    """Whether an actor has looked at placeholders, and is about to drop them, or to point their partitions elsewhere.

    Neither call has a condition.
    """
    phase, answers = actor.key[1][0], actor.key[2]
    return phase in {"switch", "alter"} or (phase in {"roll_forward", "drop"} and bool(answers))
