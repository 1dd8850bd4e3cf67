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
from typing import Any, NamedTuple

from table_writer.model.entry import Operation

from .answers import a_day_later, answer_to_read, change_data, change_staged, claim, copy, over, send, settle
from .invariants import Checks
from .keeping import Protocol
from .requests import (
    FAILED,
    LOST,
    OK,
    REFUSED,
    TOO_LATE,
    Actor,
    Claim,
    Copy,
    CopyRows,
    Delete,
    DeleteRows,
    Done,
    GiveTurnBack,
    HasData,
    ListFiles,
    ListStale,
    ListTurns,
    Machine,
    Next,
    ReadLog,
    ReadMetastore,
    ReadRegistration,
    ReadTurn,
    RemoveRegistration,
    RemoveTurns,
    Send,
    Settle,
    TakeTurn,
    Upload,
)
from .state import Budget, Call, Log, World, apply


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


class State(NamedTuple):
    """The world, the actors, and what may still go wrong."""

    world: World
    actors: tuple[Actor, ...]
    budget: Budget


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


class Explorer:
    """Explores one scenario under one set of rules."""

    def __init__(self, scenario: Scenario, protocol: Protocol | None = None) -> None:
        Log.forget()
        self._scenario = scenario
        self._machine = Machine(protocol or Protocol())
        self._names = tuple(scenario.actors)
        self._finishes = ("finish",) in scenario.actors.values()  # others never wait for a vacuum
        self._checks = Checks(self._machine, self._names, scenario.actors, scenario.start)
        self._handlers: dict[type, Callable[[State, int, Any], Iterator[Step]]] = {
            ReadLog: self._read,
            ReadMetastore: self._read,
            ListStale: self._read,
            HasData: self._read,
            ListFiles: self._read,
            Copy: self._copy,
            Upload: self._change_data,
            Delete: self._change_data,
            Claim: self._claim,
            Settle: self._settle,
            Send: self._send,
            ReadRegistration: self._read,
            ListTurns: self._read,
            ReadTurn: self._read,
            RemoveRegistration: self._change_staged,
            TakeTurn: self._change_staged,
            GiveTurnBack: self._change_staged,
            RemoveTurns: self._change_staged,
            DeleteRows: self._change_staged,
            CopyRows: self._change_staged,
        }

    def run(
        self,
        *,
        limit: int = 20_000_000,
        goal: Callable[[World, Mapping[str, str]], str] | None = None,
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
        world = world._replace(log=Log.of(world.log.slots))
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

    def _change_data(self, state: State, number: int, request: Upload | Delete) -> Iterator[Step]:
        yield (self._names[number], request, ""), self._moved(state, number, OK, change_data(request, state.world))

    def _copy(self, state: State, number: int, request: Copy) -> Iterator[Step]:
        answer, world = copy(request, state.world)
        yield (self._names[number], request, answer), self._moved(state, number, answer, world)

    def _claim(self, state: State, number: int, request: Claim) -> Iterator[Step]:
        won, world = claim(request, state.world)
        came = TOO_LATE if won == TOO_LATE else "" if won else "lost to another"
        yield (self._names[number], request, came), self._moved(state, number, won, world)

    def _change_staged(self, state: State, number: int, request: Any) -> Iterator[Step]:
        answer, world = change_staged(request, state.world)
        yield (self._names[number], request, str(answer)), self._moved(state, number, answer, world)

    def _settle(self, state: State, number: int, request: Settle) -> Iterator[Step]:
        response, world = settle(request, state.world)
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

    def _environment(self, state: State) -> Iterator[Step]:
        world, actors, budget = state
        for number, call in enumerate(world.late):
            answer, metastore = apply(call, world.metastore)
            rest = (*world.late[:number], *world.late[number + 1 :])
            yield (
                ("the server", call, f"late: {answer}"),
                State(world._replace(metastore=metastore, late=rest), actors, budget),
            )
        if budget.timeouts:
            less = budget._replace(timeouts=budget.timeouts - 1)
            for version in world.log.in_doubt:
                slot = world.log.slots[version - 1]
                if not slot.timed_out and (self._finishes or slot.operation is not Operation.VACUUM):
                    later = world._replace(log=world.log.timed_out(version))
                    yield ("time", version, "the claim times out"), State(later, actors, less)
        yield from self._turns_over(state)
        if budget.days:
            yield ("time", 0, "a day passes"), State(a_day_later(world), actors, budget._replace(days=budget.days - 1))
        if budget.other_tool:
            less = budget._replace(other_tool=budget.other_tool - 1)
            for call in self._scenario.other_tool:
                answer, metastore = apply(call, world.metastore)
                if answer == OK:
                    touched = world.touched | {values for values, _ in call[1]}
                    yield (
                        ("another tool", call, ""),
                        State(world._replace(metastore=metastore, touched=touched), actors, less),
                    )

    def _turns_over(self, state: State) -> Iterator[Step]:
        world, actors, budget = state
        for turn in world.turns if budget.pauses else ():
            if turn.is_held:
                later = world._replace(turns=over(world.turns, turn.number))
                less = budget._replace(pauses=budget.pauses - 1)
                yield ("time", turn, "is over: its holder is taken for dead"), State(later, actors, less)

    def _trace(self, parents: Mapping[State, State | None], last: State) -> tuple[tuple[Label, World], ...]:
        found: list[tuple[Label, World]] = []
        state: State | None = last
        while state is not None and (before := parents[state]) is not None:
            found.append((next(label for label, after in self.steps(before) if after == state), state.world))
            state = before
        closing = [(label, world) for label, world in self._checks.closing]
        return (*reversed(found), *closing)
