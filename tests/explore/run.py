"""One schedule carried out: actors are greenlets of the real code, switched at calls of the doubles."""

from __future__ import annotations

import re
import secrets
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from functools import cache
from hashlib import sha256
from itertools import chain, count
from typing import Any, Final
from uuid import UUID

import greenlet

from table_writer.errors import InvalidInputError, StorageError
from table_writer.model.entry import LogEntry, Outcome
from table_writer.model.location import Location
from table_writer.model.write import written_ids
from table_writer.protocol.log import deadline
from table_writer.protocol.log.known_log import name_log
from table_writer.protocol.log.owner import found_log_id
from table_writer.protocol.loop import Claimant
from table_writer.testing import memory_store
from tests.fuzz.history import CHANGING, Event, Step
from tests.fuzz.oracle import Oracle
from tests.fuzz.puppet import strings_pulled
from tests.fuzz.simulation import DAY_SECONDS, Process, SimulatedWorld, Simulation
from tests.publish.world import plain

from .actors import ACTORS, ATOMIC, DAYS, OTHERS, Actor
from .promises import Promises
from .reporting import ReportingOperations
from .schedule import Deviation, Schedule
from .worlds import KINDS, ActorWorld, GlueAtOnce, WatchedWorld

PAUSES: Final = {"hour": 3_600.0, "later": DAYS * 86_400.0, "stand still": DAYS * 86_400.0}
"""How long an actor is paused before another goes on: longer than a claim lasts, and than anything does."""
PROBES: Final = "/_table_writer/probe-"  # what the doctor tries the store with, and takes away
POLL_SECONDS: Final = 100.0  # who waits for a claim looks less often than it wants to: fewer calls say the same
LATE_SECONDS: Final = 80_000.0  # a request that nobody sends on arrives within a day
OF_CHANGES: Final = frozenset({"answer lost", "misreported", "late", "late and death", "twice"})
"""What happens to no call that only reads: a schedule that is shortened may come to one."""
WORD: Final = b'"must_understand": {"a later word": "9.9"}, '
TIMES: Final = re.compile(rb"\d{4}-\d\d-\d\d[T ][\d:.]+(\+00:00|Z)?|\d{10}(\.\d+)?")
parsed: Final = cache(Location.parse)
_read: Final = cache(LogEntry.from_json)


def read(data: bytes, *, root: Location, version: int) -> LogEntry:
    """Read an entry once: with this and the above, both without effects, a third of the time goes."""
    return _read(data, root=root, version=version)


@dataclass(frozen=True)
class Point:
    """A call that an actor is about to make, or has just made."""

    actor: int
    number: int
    service: str
    call: str
    phase: str
    key: str
    is_fixed: bool = False  # it reads an entry or an outcome that is there: nobody changes one

    @property
    def changes(self) -> bool:
        return self.call in CHANGING or self.call in {"create_upload", "set_statistics", "drop_statistics"}

    def __str__(self) -> str:
        return f"{self.phase} {self.service}.{self.call} {self.key}".rstrip()


@dataclass
class Worker:
    """An actor on its way."""

    number: int
    actor: Actor
    world: SimulatedWorld
    greenlet: Any = None
    points: int = 0
    names: int = 0
    row_id: int = 0
    processes: list[Process] = field(default_factory=list)
    todo: deque[Deviation] = field(default_factory=deque)
    stands_since: float | None = None
    stood_still: float = 0.0
    looks: int = 0  # of a claimant, that are under way
    result: str = ""


@dataclass(frozen=True)
class Reached:
    """A point that was reached, and what could have happened there."""

    point: Point
    others: tuple[int, ...]
    is_request_late: bool


class Run(Simulation):
    """Carries one schedule out over a table that ``begin`` has prepared."""

    atomic = ATOMIC
    partition_type = "string"  # one spelling each: plans need no look at all names

    def __init__(self, schedule: Schedule, begin: Begin | None = None, *, is_told: bool = False) -> None:
        self.is_told = is_told
        self._workers: list[Worker] = []
        self._hub = greenlet.getcurrent()
        self._hub_processes: list[Process] = []
        self._hub_actor = Actor("")
        self.names = self._hub_id = 0
        self.schedule, self.kind = schedule, KINDS[schedule.kind]
        super().__init__()
        self.partitions = list(self.kind.partitions)
        self._operations = ReportingOperations(self)
        self.promises = Promises(self)
        self.metastores: dict[int, Any] = {}
        """What the metastore held when a version was the newest, and all was at rest."""
        self.steps: list[Reached] = []
        self.begun_at = 0
        self.went = ""
        self._has_ended = self._reads_older = False
        self._said_rows: dict[str, list[int]] = {}
        self._running: Worker | None = None
        self._preempted: list[int] = []
        self._waiting = list(range(len(schedule.actors)))
        if isinstance(self._base.metastore, GlueAtOnce):
            self._base.metastore.server.role = self._role
        if begin is not None:
            begin.set_up(self)
        for number, name in enumerate(schedule.actors):
            world = ActorWorld(
                store=self._base.store,
                metastore=self._base.metastore,
                sleep=self._sleep,
                config=self.kind.config,
                counts_figures=ACTORS[name].counts_figures,
            )
            self._workers.append(Worker(number, ACTORS[name], world, row_id=1_000 * (number + 1)))

    # Who is at work

    @property
    def worker(self) -> Worker | None:
        """Return whose greenlet runs; none for what is done before and after."""
        return getattr(greenlet.getcurrent(), "worker", None)

    @property
    def actor(self) -> Actor:
        """Return whose arguments count."""
        return self.worker.actor if self.worker else self._hub_actor

    @property
    def world(self) -> SimulatedWorld:
        return self.worker.world if self.worker else self._base

    @world.setter
    def world(self, base: WatchedWorld) -> None:
        self._base = base

    @property
    def base(self) -> WatchedWorld:
        """Return the world past all processes, as the oracle looks at it."""
        return self._base

    @property
    def processes(self) -> list[Process]:
        return self.worker.processes if self.worker else self._hub_processes

    @processes.setter
    def processes(self, processes: list[Process]) -> None:
        pass

    @property
    def next_id(self) -> int:
        """Return the newest row of whoever is at work: each has numbers of its own, however others are scheduled."""
        return self.worker.row_id if self.worker else self._hub_id

    @next_id.setter
    def next_id(self, row_id: int) -> None:
        if worker := self.worker:
            worker.row_id = row_id
        else:
            self._hub_id = row_id

    def _role(self) -> str:
        """Return what Glue shows to whoever asks; the oracle sees all, past the hooks."""
        return self.worker.actor.answers if self.worker and self._base.metastore.on_call else ""

    @property
    def workers(self) -> Sequence[Worker]:
        """Return all actors of the schedule."""
        return self._workers

    @property
    def at_work(self) -> Sequence[Worker]:
        """Return those who have begun and not ended, dead ones left out."""
        return [worker for worker in self._workers if worker.processes]

    @property
    def calls_of_others(self) -> int:
        """Return how many calls all others have made."""
        return sum(worker.points for worker in self._workers if worker is not self.worker)

    @property
    def have_other_tools_changed(self) -> bool:
        """Whether other tools are among those who work on the table, or have before: no mirror follows them."""
        names = {name for actor in self.schedule.actors for name in (actor, *ACTORS[actor].before)}
        return not names.isdisjoint(OTHERS)

    @property
    def are_others_at_work(self) -> bool:
        """Whether anybody of ours has begun and not ended, dead ones left out."""
        return bool(self.at_work)

    @property
    def is_busy(self) -> bool:
        return self.are_others_at_work or bool(self.pending)

    def _sleep(self, seconds: float) -> None:
        self.advance(max(seconds, POLL_SECONDS))

    def tell(self, text: str) -> None:
        worker = self.worker
        super().tell(f"[{worker.number} {self.schedule.actors[worker.number]}] {text}" if worker else text)

    # Running

    def make_world(self) -> WatchedWorld:
        return self.kind.make_world(self.advance)

    @contextmanager
    def strings(self) -> Iterator[None]:
        """Give each actor names and a clock of its own: both are the same however others are scheduled."""
        numbers = count(1)
        with strings_pulled(self._clock):
            replaced: list[tuple[Any, str, Any]] = [
                (secrets, "token_hex", self._name),
                (deadline, "wall_seconds", lambda: self.now),  # it goes on where an actor's own clock stands still
                (memory_store.uuid, "uuid4", lambda: UUID(int=next(numbers))),
                (Location, "parse", parsed),
                (LogEntry, "from_json", staticmethod(self._read_entry)),
                (LogEntry, "to_json", self._storing(LogEntry.to_json)),
                *((one, "look", self._watched(vars(one)["look"])) for one in _claimants() if "look" in vars(one)),
            ]
            kept = [vars(owner)[name] for owner, name, _ in replaced]
            for owner, name, double in replaced:
                setattr(owner, name, double)
            try:
                yield
            finally:
                for (owner, name, _), original in zip(replaced, kept, strict=True):
                    setattr(owner, name, original)

    def _read_entry(self, data: bytes, *, root: Location, version: int) -> LogEntry:
        """Read an entry, as the library does that is at work; who looks from outside knows all words."""
        is_known = self.worker is None or self.worker.actor.is_newer or self._base.store.on_call is None
        return read(data.replace(WORD, b"") if is_known else data, root=root, version=version)

    def _storing(self, to_json: Callable[..., bytes]) -> Callable[..., bytes]:
        """Return how an entry is stored by the library that is at work."""

        def stored(entry: LogEntry, root: Location) -> bytes:
            is_newer = self.worker is not None and self.worker.actor.is_newer
            return to_json(entry, root).replace(b"{", b"{" + WORD, 1) if is_newer else to_json(entry, root)

        return stored

    def _watched(self, look: Callable[..., Any]) -> Callable[..., Any]:
        """Return a claimant's look that knows whose it is."""

        def watched(*arguments: Any) -> Any:
            worker = self.worker
            if worker is None:
                return look(*arguments)
            worker.looks += 1
            try:
                return look(*arguments)
            finally:
                worker.looks -= 1

        return watched

    def _clock(self) -> float:
        return self.now - (self.worker.stood_still if self.worker else 0.0)

    def _name(self, _: int = 8) -> str:
        worker = self.worker
        if worker is None:
            self.names += 1
            return f"{self.names:016d}"
        worker.names += 1
        return f"{(worker.number + 1) * 1_000 + worker.names:016d}"

    def act(self, name: str) -> None:
        """Do one actor's work whole, before the schedule."""
        self._hub_actor = ACTORS[name]
        self.do(Step(self._hub_actor.operation, 0))
        self._look(at_rest=True)

    def name_log(self) -> None:
        """Let the table say which log it has, as its first write does."""
        with self.unhooked():
            layout = self._base.layout
            name_log(self._base.metastore, self._base.table, layout, found_log_id(self._base.store, layout))

    def go(self) -> None:
        """Carry the schedule out, until all its actors have ended."""
        self.begun_at = len(self.trace)
        with self.strings(), self._hooked():
            while (worker := self._next()) is not None:
                point = worker.greenlet.switch(self._reply(worker))
                self._say_rows()
                if worker.greenlet.dead:
                    self._running = None
                    self._note_sights()
                else:
                    self._reached(worker, point)
                if self.oracle.wrong:
                    return
            self._look(at_rest=not self.pending)

    def end(self) -> None:
        """Let everything late arrive, recover, and clean up weeks later: nothing is left behind."""
        with self.strings(), self._hooked():
            self._running = None
            self._has_ended = True
            self.advance(2 * DAY_SECONDS)
            if not self.kind.is_whole:  # where others have written into the root, nothing is adopted
                with self.unhooked():
                    self.world.keeper.adopt(self.table, accept_loss=True)
            last, later = ("append_all", "recover"), ""
            if self.root in self.oracle.locations().values():  # a vacuum comes before readers leave it
                last, later = ("", "recover"), "append_all"
            if self._builds_first or self._was_set_back:
                last = last[::-1]
            with self.unhooked():
                is_closed = bool(self._base.services().log.lister.read(allow_lost=True).closings)
            self._do_all("take_back" if is_closed else "", *last, *("days_pass",) * 5, "vacuum")
            if self.oracle.wrong:
                return
            with self.unhooked():
                self.promises.require_gone()
                if self._base.config.mirrors and not self.have_other_tools_changed:
                    self.promises.end_drop()
                    self.promises.require_in_step("the mirror was followed by all who have changed the table")
            if self.oracle.stale:
                self.oracle.blame(f"{self.oracle.stale} are still behind after recover")
            with self.unhooked():
                if left := self._left_behind() if not self.oracle.planned_before else ():
                    self.oracle.blame(f"left behind after recover, weeks and a vacuum: {left}")
            self._do_all(later)

    def _do_all(self, *operations: str) -> None:
        for operation in filter(None, operations):
            if self.oracle.wrong:
                return
            unclear = frozenset(self.oracle.unclear)
            self.do(Step(operation, 0), must_succeed=True)
            self._reads_older = operation == ("vacuum" if self._builds_first else "recover")
            if operation in {"recover", "vacuum"}:
                self._look(at_rest=True, decided=unclear if operation == "recover" else ())

    def _left_behind(self) -> list[str]:
        live = {*self.oracle.locations().values()} - {self.root}
        spared = (*live, f"{self.root}_table_writer/probe-")  # of an examination that was killed: a few bytes
        return [one.removeprefix(self.root) for one in self.world.leftovers() if not one.startswith(spared)]

    @property
    def _was_set_back(self) -> bool:
        """Whether nothing is built on what is there before a recovery, as errors say."""
        return any(worker.actor.operation == "set_back" for worker in self._workers)

    @property
    def _builds_first(self) -> bool:
        return len(self.steps) % 2 == 0

    def _next(self) -> Worker | None:
        """Choose who goes on: as the schedule says, else the same, else whoever was preempted last, else the next."""
        worker = self._running
        while worker is not None and worker.todo and not worker.todo[0].stops:
            deviation = worker.todo.popleft()
            if deviation.what == "arrive":
                if self.pending:
                    self._arrive(min(self.pending))
            elif deviation.to in self._preempted or deviation.to in self._waiting:
                self.tell_of(worker, f"is paused; {self.schedule.actors[deviation.to]} goes on")
                worker.stands_since = self.now if deviation.what == "stand still" else None
                self._preempted.append(worker.number)
                self.advance(PAUSES.get(deviation.what, 0))
                worker = self._take(deviation.to)
        if worker is None and (self._preempted or self._waiting):
            worker = self._take(self._preempted[-1] if self._preempted else self._waiting[0])
        self._running = worker
        return worker

    def tell_of(self, worker: Worker, text: str) -> None:
        """Say what happens to an actor."""
        self.tell(f"[{worker.number} {self.schedule.actors[worker.number]}] {text}")

    def do(self, step: Step, *, must_succeed: bool = False) -> bool:
        before = len(self.trace)
        ended = super().do(step, must_succeed=must_succeed)
        if worker := self.worker:
            said = [line.partition("= ")[2] for line in self.trace[before:] if "= " in line]
            worker.result = said[-1][:25] if said else ""
        return ended

    def _take(self, number: int) -> Worker:
        for numbers in (self._preempted, self._waiting):
            if number in numbers:
                numbers.remove(number)
        worker = self._workers[number]
        if worker.greenlet is None:
            worker.greenlet = greenlet.greenlet(lambda _: self.do(Step(worker.actor.operation, 0)))
            worker.greenlet.worker = worker
        if worker.stands_since is not None:
            worker.stood_still += self.now - worker.stands_since
            worker.stands_since = None
        return worker

    def _reached(self, worker: Worker, point: Point) -> None:
        others = tuple(sorted({*self._preempted, *self._waiting}))
        self.steps.append(Reached(point, others, bool(self.pending)))
        found = [
            one
            for one in self.schedule.deviations
            if (one.actor, one.point) == (point.actor, point.number)
            and (point.call in CHANGING or one.what not in OF_CHANGES)
        ]
        worker.todo = deque(sorted(found, key=lambda one: one.stops))

    def _reply(self, worker: Worker) -> Event | None:
        """Return what is to happen to the actor at its call."""
        if not worker.todo:
            return None
        what = worker.todo.popleft().what
        worker.todo.clear()
        return Event("", "", 0, "", "error" if what == "answer lost" else what, LATE_SECONDS)

    def _meet(self, process: Process, service: str, call: str, phase: str, key: str) -> None:
        worker = self.worker
        if worker is None or (phase == "after" and call not in CHANGING):
            return
        worker.points += 1
        if call in CHANGING and worker.actor.operation == "look" and PROBES not in key:
            self.oracle.blame(f"a call that only looks makes the call {call} {key}")
        if call in CHANGING and worker.looks:
            self.oracle.blame(f"a look makes the call {call} {key}")
        self._require_understood(worker, call, key)
        if (call, phase) == (worker.actor.refused, "before"):
            raise StorageError(f"{call} is refused")
        is_fixed = call in {"get", "head"} and "/log/0" in key and key in self._base.store._objects
        point = Point(worker.number, worker.points, service, call, phase, key, is_fixed)
        event = self._hub.switch(point)
        if event is not None:
            self._happen(process, replace(event, service=service, call=call, phase=phase), key)

    def _require_understood(self, worker: Worker, call: str, key: str) -> None:
        """Nobody ends an entry, or goes on from it, who does not know a word of it."""
        entry, _, ending = key.rpartition(".")
        body = self._base.store._objects.get(f"{entry}.json", (b"", None))[0]
        if call == "put_if_absent" and ending == "done" and WORD in plain(body) and not worker.actor.is_newer:
            self.oracle.blame(f"{key} is put by a library that does not know a word of the entry")

    def _happen(self, process: Process, event: Event, key: str) -> None:
        if event.what == "misreported":
            self.tell(f"* {event.what} {event.phase} {event.service}.{event.call}")
            raise self._base.misreport()
        super()._happen(process, event, key)

    def require_unpublished(self, write_id: str) -> None:
        """A caller was told that nothing of a staged write was published: nothing of it is, nor may it be."""
        with self.unhooked():
            layout = self._base.layout
            kept = [one for one in self._base.history().records if one.outcome is not Outcome.ABANDONED]
            named = [one.entry.version for one in kept if write_id in written_ids(layout, one.entry)]
            if named:
                self.oracle.blame(f"nothing of {write_id} is said to be published, and version {named} is there")

    def _require_staged(self) -> None:
        """What waits is listed, and its files are there."""
        super()._require_staged()
        for write_id in self.waiting:
            record = self._base.layout.staged_key(write_id)
            if record in self._base.store._objects and self.waiting[write_id] > self.now:
                prefix = self._base.layout.data(write_id).key
                if not any(key.startswith(prefix) for key in self._base.store._objects):
                    self.oracle.blame(f"{write_id} is staged, and its files are gone")

    def read_anew(self) -> None:
        """Take the log as it is now, whatever its size says."""
        self._base._read = None

    def _remember(self) -> None:
        super()._remember()
        self.metastores[self.oracle.newest()] = self._base.taken()

    def _took_effect(self, process: Process, service: str, call: str, key: str) -> None:
        super()._took_effect(process, service, call, key)
        if service == "metastore" and call in CHANGING:
            self.promises.require_closed(process.claim)

    # What readers see

    def _note_sights(self) -> None:
        """Note what readers see once an actor has ended, if that is what the newest version says."""
        with self.unhooked():
            if self.are_others_at_work:
                self._open.add(self.oracle.newest())
            else:
                self._remember()

    def _read_older_versions(self) -> None:
        if self._has_ended and self._reads_older:
            super()._read_older_versions()

    def _say_rows(self) -> None:
        if not self.is_told:
            return
        with self.unhooked():
            now = {value: sorted(self.oracle.rows_at(where)) for value, where in self.oracle.locations().items()}
        if now != self._said_rows:
            self._said_rows = now
            self.tell(f"readers see {now}")

    def compare_with_sights(self, version: int, files: Mapping[str, Collection[str]]) -> None:
        """Take what a reader of an older version was given: rows that readers saw at that version."""
        if version not in self._sights or version in self._open or self.oracle.wild or self.oracle.soft:
            return
        self._require_as_seen(version, files)

    def outline(self) -> str:
        """Return what became of everything, in few words: one that is new is worth following."""
        places = [(v, write_id_of(location)) for v, location in sorted(self._base.located().items())]
        with self.unhooked():
            records = [
                (one.entry.version, one.entry.operation, one.outcome, one.recorded_by, sorted(one.superseded))
                for one in self._base.history().records[-5:]
            ]
        results = [one.result for one in self._workers]
        rows = sorted((value, len(ids)) for value, ids in self.oracle.expected.items())
        return repr((places, records, results, rows, len(self.pending)))

    def state(self) -> str:
        """Return a digest of all there is, without times: two runs that end in one state go on alike."""
        store = self._base.store
        objects = sorted((key, TIMES.sub(b"", plain(body))) for key, (body, _) in store._objects.items())
        uploads = sorted(one.key for one in store._uploads.values())
        partitions = sorted(self._base.located().items())
        pending = [one.name for one in self.pending]
        oracle = self.oracle
        promised = (sorted(oracle.expected.items()), sorted(oracle.refused.items()))
        open_ends = (sorted(oracle.wild), sorted(oracle.soft))
        told = (sorted(oracle.told), sorted(oracle.withdrawn), sorted(oracle.stale), self._builds_first)
        return sha256(repr((objects, uploads, partitions, pending, promised, open_ends, told)).encode()).hexdigest()


def _claimants(owner: type = Claimant) -> Iterator[type]:
    yield owner
    yield from chain.from_iterable(map(_claimants, owner.__subclasses__()))


class Begin:
    """What a schedule finds, prepared once and copied for each run."""

    def __init__(self, kind: str, *before: str) -> None:
        run = Run(Schedule((), kind=kind))
        with run.strings(), run._hooked():
            for number, name in enumerate((*run.kind.first, *before)):
                run.act(name)
                if number == 0:
                    run.name_log()
        if run.oracle.wrong:
            raise AssertionError(run.trace)
        self._run = run

    def set_up(self, run: Run) -> None:
        """Give a run this state as its own."""
        old = self._run
        run.now, run.next_id, run.names = old.now, old.next_id, old.names
        run.staged, run.waiting = list(old.staged), dict(old.waiting)
        run._sights, run._open = deepcopy(old._sights), set(old._open)
        run.metastores = dict(old.metastores)
        run.promises.wanted = dict(old.promises.wanted)
        store = run._base.store
        store._objects, store._uploads = dict(old._base.store._objects), deepcopy(old._base.store._uploads)
        run._base.give(old._base.taken())
        for one in fields(Oracle):
            if one.name not in {"world", "tell"}:
                setattr(run.oracle, one.name, copied(getattr(old.oracle, one.name)))


def write_id_of(location: str) -> str:
    """Return whose files lie at a location."""
    _, _, rest = location.partition("/_table_writer/")
    return rest.split("/")[1][-5:] if rest else "elsewhere"


def copied(value: Any) -> Any:
    """Copy containers, and leave in them what does not change."""
    if isinstance(value, dict):
        return {key: copied(one) for key, one in value.items()}
    if isinstance(value, list | set):
        return type(value)(value)
    return value


def begin_of(schedule: Schedule) -> Begin:
    """Return what the actors of a schedule find done: what each needs in its order; last what other tools do alone."""
    needed = {ACTORS[name].before for name in schedule.actors}
    before = sorted(needed, key=lambda one: (bool(one) and one[0] in OTHERS, one))
    return _begun(schedule.kind, tuple(dict.fromkeys(chain.from_iterable(before))))


@cache
def _begun(kind: str, before: tuple[str, ...]) -> Begin:
    return Begin(kind, *before)


def carried_out(schedule: Schedule, ended: set[str] | None = None, *, is_told: bool = False) -> Run:
    """Carry a schedule out with all that comes after it, unless a run has ended in the same state before."""
    run = Run(schedule, begin_of(schedule), is_told=is_told)
    try:
        run.go()
        if not run.oracle.wrong:
            with run.strings():
                run.went = run.outline()
            state = run.state()
            if ended is None or state not in ended:
                run.end()
                if ended is not None:
                    ended.add(state)
    except InvalidInputError as error:  # what the oracle read of the log
        run.oracle.blame(f"the log cannot be read: {error.message}")
    return run
