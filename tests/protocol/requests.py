"""What actors ask of the store and the metastore: one request is one step, between two of them anything can happen.

An actor is a program of short phases. A phase is a generator that yields requests and returns the next phase with all
that it has to remember. Two actors that remember the same are the same object, which keeps the state space small.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, NamedTuple

from table_writer.model.entry import Outcome

from .state import Call, Slot

OK: Final = "ok"
REFUSED: Final = "refused"
LOST: Final = "lost"  # the answer; nobody knows about the call
MISSING: Final = "missing"
TOO_LATE: Final = "too late"  # the claim has timed out: nothing was sent
FAILED: Final = "failed"  # the store did not record the outcome


class ReadLog(NamedTuple):
    """All entries with their outcomes."""


class ReadMetastore(NamedTuple):
    partitions: tuple[str, ...]


class ListStale(NamedTuple):
    """Directories below ``data/`` whose writes have given no sign of life for a retention; writes that are staged."""


class HasData(NamedTuple):
    codes: tuple[str, ...]


class ListFiles(NamedTuple):
    """The rows that lie at each location."""

    codes: tuple[str, ...]


class Copy(NamedTuple):
    """Let the store copy files; their sources may be gone by now."""

    copies: tuple[tuple[str, str, tuple[str, ...]], ...]  # to, from, rows
    in_time_of: int = 0  # only while this claim has not timed out


class Upload(NamedTuple):
    codes: tuple[str, ...]
    files: tuple[tuple[str, tuple[str, ...]], ...] = ()  # where there are several at a location


class Claim(NamedTuple):
    version: int
    slot: Slot


class ReadRegistration(NamedTuple):
    """Whether a write is staged."""

    write_id: str


class RemoveRegistration(NamedTuple):
    write_id: str


class PutRegistration(NamedTuple):
    """Say that a write is running, or that it is staged."""

    write_id: str
    key: str
    is_staged: bool


class Verify(NamedTuple):
    """Forget these recoveries: somebody has looked, after their day, whether a call came late."""

    versions: frozenset[int]


class RecordOutcome(NamedTuple):
    version: int
    outcome: Outcome
    write_id: str
    in_time_of: int = 0  # only while this claim has not timed out
    superseded: tuple[str, ...] = ()


class Rebuild(NamedTuple):
    """Record an outcome that was lost; the mark says that calls of the entry may have come late."""

    version: int
    outcome: Outcome
    write_id: str
    superseded: tuple[str, ...] = ()


class Send(NamedTuple):
    call: Call
    in_time_of: int = 0  # 0: whenever


class Delete(NamedTuple):
    """Delete all that lies below these locations, or only some rows of one."""

    codes: tuple[str, ...]
    rows: tuple[str, ...] = ()


class Done(NamedTuple):
    report: str


Request = (
    ReadLog
    | ReadMetastore
    | ListStale
    | HasData
    | ListFiles
    | Copy
    | Upload
    | Claim
    | RecordOutcome
    | Rebuild
    | Send
    | Delete
    | ReadRegistration
    | RemoveRegistration
    | PutRegistration
    | Verify
    | Done
)
Next = tuple[Any, ...]  # a phase's name and its arguments
Phase = Generator[Request, Any, Next]


class Actor:
    """One actor at one point of its program, with what it remembers."""

    __slots__ = ("after", "key", "report", "request")

    def __init__(self, key: tuple[str, Next, tuple[object, ...]], request: Request) -> None:
        self.key = key
        self.request = request
        self.report = request.report if isinstance(request, Done) else ""
        self.after: dict[object, Actor] = {}


class Machine:
    """Runs programs step by step, each step only once."""

    def __init__(self, program: Any) -> None:
        self.program = program
        self._actors: dict[object, Actor] = {}

    def at(self, name: str, phase: Next) -> Actor:
        """Return the actor at the start of a phase."""
        return self._resolve(name, phase, ())

    def answer(self, actor: Actor, response: object) -> Actor:
        """Return the actor after it got the response to its request."""
        found = actor.after.get(response)
        if found is None:
            name, phase, responses = actor.key
            found = actor.after[response] = self._resolve(name, phase, (*responses, response))
        return found

    def _resolve(self, name: str, phase: Next, responses: tuple[object, ...]) -> Actor:
        while True:
            if phase[0] == "end":
                return self._known((name, phase, ()), Done(phase[1]))
            running: Phase = getattr(self.program, phase[0])(*phase[1:])
            try:
                request = next(running)
                for response in responses:
                    request = running.send(response)
            except StopIteration as stop:
                phase, responses = stop.value, ()
            else:
                running.close()
                return self._known((name, phase, responses), request)

    def _known(self, key: tuple[str, Next, tuple[object, ...]], request: Request) -> Actor:
        found = self._actors.get(key)
        if found is None:
            found = self._actors[key] = Actor(key, request)
        return found
