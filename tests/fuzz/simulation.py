"""Carries a history out: operations inside calls of operations, in one thread, with time that only histories move."""

from __future__ import annotations

import json
import re
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random

from table_writer.config import TableWriterConfig
from table_writer.errors import (
    InvalidInputError,
    LostResponseError,
    MetastoreError,
    OutcomeUnknownError,
    PartlyPublishedError,
    StorageError,
    TableWriterError,
)
from table_writer.jobs.results import end_publish
from table_writer.model.hive_columns import hive_columns
from table_writer.model.location import Location
from table_writer.model.meaning import Operation
from table_writer.model.table import PastPartition, Table, TableName
from table_writer.model.write import WritePlan, WrittenFiles
from table_writer.progress import Stopwatch
from table_writer.protocol.operations.publisher import PublishResult
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.table.past import Past, files_of
from table_writer.protocol.table.services import Services
from table_writer.testing.late import Late
from tests.publish.world import DeathError, World, value_of

from .history import CHANGING, WITHOUT_CALLS, Event, Step
from .operations import Operations
from .oracle import Oracle
from .puppet import strings_pulled

WHOLE = ""
"""The one partition that an unpartitioned table is."""
START = 1_700_000_000.0
WRITE_ID = re.compile(r"[0-9]{8}T[0-9]{6}-0*")  # to their numbers: a trace says the same every time
CALL_SECONDS = 0.1
MOST_CALLS = 4_000  # of one operation before it counts as endless: an ordinary one makes fewer than a hundred
LATEST_SECONDS = 86_000.0  # LATE_CALL_SECONDS: a request that is under way for longer is never applied
DAY_SECONDS = 86_400.0
ANSWER_SECONDS = 120.0  # metastore_timeout_seconds: then its client gives a call up


class SimulatedWorld(World):
    """A world whose services are opened once: what belongs to a process is in those of a table."""

    @cached_property
    def _services(self) -> Services:
        return super().all_services()

    def all_services(self, config: TableWriterConfig | None = None) -> Services:
        return super().all_services(config) if config else self._services

    def after_publish(self, services: OpenTable, files: WrittenFiles, published: PublishResult) -> None:
        if services.mirrors:
            end_publish(services, files, published, Stopwatch(self.metastore))

    def _files(self, plan: WritePlan, ids: frozenset[int]) -> Iterable[tuple[int, frozenset[int]]]:
        return enumerate(frozenset({one}) for one in sorted(ids)) if plan.in_place else super()._files(plan, ids)


class EndlessError(BaseException):
    """An operation that makes calls without end."""


@dataclass
class Process:
    """One operation on its way: a process of its own."""

    step: Step
    calls: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    call_count: int = 0
    is_dead: bool = False
    claim: int = 0  # the slot it has tried to take last
    claimed_at: float = 0.0
    claims: list[int] = field(default_factory=list)  # slots it has taken
    slot_is_free: bool = False
    is_overdue: bool = False  # the call it waits for takes longer than it waits


@dataclass(order=True)
class Pending:
    """A request that its service has still to apply."""

    due: float
    number: int
    service: str = field(compare=False)
    name: str = field(compare=False)
    claim: int = field(compare=False)
    key: str = field(compare=False)
    apply: Callable[[], object] = field(compare=False, default=int)


class Simulation:
    """A table of so many partitions, or of none, and all who work on it."""

    atomic: Collection[str] = WITHOUT_CALLS
    """Operations in whose calls nothing happens."""
    partition_type = "char(9)"
    """Of the partition column: one value of it has several spellings."""

    def __init__(self, partitions: int = 3) -> None:
        self.partitions = [f"d{number + 1}" for number in range(partitions)] or [WHOLE]
        self.now = START
        self.world = self.make_world()
        if not partitions:
            self.world.become_unpartitioned()
        columns = tuple(replace(one, type=self.partition_type) for one in self.world.table.partition_columns)
        table = replace(self.world.table, created_at_seconds=int(START), partition_columns=columns)
        self.world.metastore.create_table(table)
        self.world.store.clock = lambda: self.now
        self.trace: list[str] = []
        self.oracle = Oracle(self.world, self.tell)
        self.processes: list[Process] = []
        self.kept: dict[str, list[Pending]] = {"store": [], "metastore": []}
        self.pending: list[Pending] = []
        self.staged: list[str] = []
        self.waiting: dict[str, float] = {}
        """Staged writes that nobody has touched since, and when they expire."""
        self.next_id = 0
        self.calls: Counter[tuple[str, str]] = Counter()
        """Of the last operation that makes any."""
        self.table = str(self.world.name)
        self._applying = False
        self._sights: dict[int, list[dict[str, list[int]]]] = {}  # what readers saw at rest, by the newest version
        self._open: set[int] = set()  # versions of which that was not decided then, or lay at a name alone
        self._operations = Operations(self)

    def make_world(self) -> SimulatedWorld:
        """Return the world that everybody works on."""
        return SimulatedWorld(sleep=self.advance)

    def tell(self, text: str) -> None:
        """Add a line to the trace."""
        day, second = divmod(self.now - START, DAY_SECONDS)
        text = WRITE_ID.sub("w", text)
        self.trace.append(f"{day:3.0f}d {second:8.1f}s {'    ' * len(self.processes)}{text}")

    @property
    def is_busy(self) -> bool:
        """Whether anybody of ours is at work, or a request of theirs under way."""
        return bool(self.processes or self.pending)

    def forget_log(self) -> None:
        """Take in that the log was deleted."""
        self.oracle.forget_log()
        self._sights.clear()
        self._open.clear()

    def rename(self) -> None:
        """Give the table another name, as ALTER TABLE ... RENAME TO does with one that is external."""
        world, metastore = self.world, self.world.metastore
        old, new = world.name, TableName("mart", "orders" if world.name.name != "orders" else "orders_2")
        metastore._tables[new] = replace(metastore._tables.pop(old), name=new)
        for kept in (metastore._partitions, metastore._statistics):
            if old in kept:
                kept[new] = kept.pop(old)  # type: ignore[assignment]
        world.name, self.table = new, str(new)
        self.tell(f"the table is named {new}")

    # Running

    def run(self, steps: Sequence[Step], *, ends: bool = True) -> list[str]:
        """Carry a history out and end it; returns what was wrong."""
        with strings_pulled(lambda: self.now), self._hooked():
            for step in steps:
                unclear = frozenset(self.oracle.unclear)
                ended = self.do(step)
                self._look(at_rest=True, decided=unclear if ended and step.operation == "recover" else ())
                if self.oracle.wrong:
                    return self.oracle.wrong
            if ends:
                self._end(recovers_first=steps[0].seed % 2 == 0 if steps else True)
        return self.oracle.wrong

    def _end(self, *, recovers_first: bool) -> None:
        """Let everything late arrive, look weeks later, recover, build on all of it, and clean up."""
        self.advance(20 * DAY_SECONDS)
        try:
            with self.unhooked():
                self.world.keeper.adopt(self.table, accept_loss=True)  # who died over it has left that to do
        except InvalidInputError as error:
            if self.partitions != [WHOLE] or "others have written since" not in error.message:
                raise
            return  # an unpartitioned table is its root's, where others are by now: nothing is adopted
        for operation in (
            ("recover", "append all", "recover", "vacuum", "append all")
            if recovers_first
            else ("append all", "recover", "vacuum", "recover", "append all")
        ):
            unclear = frozenset(self.oracle.unclear)
            self.do(Step(operation, 1), must_succeed=True)
            self._look(at_rest=True, decided=unclear if operation == "recover" else ())
            self.advance(4 * DAY_SECONDS)
            if operation == "recover" and self.oracle.stale:
                self.oracle.blame(f"{self.oracle.stale} are still behind after recover")
            if self.oracle.wrong:
                return

    def do(self, step: Step, *, must_succeed: bool = False) -> bool:
        """Carry one operation out, as a process of its own; returns whether it came to its end."""
        operation = getattr(self._operations, step.operation.replace(" ", "_"))
        if step.operation in self.atomic:
            self.advance(CALL_SECONDS)  # else what it writes is as old as what was done before it
            with self.unhooked():
                operation(Random(step.seed))
            self._look()
            return True
        self.tell(step.operation)
        process, ended = Process(step), False
        self.processes.append(process)
        try:
            said = operation(Random(step.seed)) or ""
            ended = True
        except (TableWriterError, KeyboardInterrupt, DeathError) as error:
            said = f"{type(error).__name__}: {str(error)[:150]}"
            self._refused(process, error)
            if must_succeed and not self._may_be_refused(str(error)):
                self.oracle.blame(f"{step.operation} in peace: {said}")
        except EndlessError:
            said = "no end"
            self.oracle.blame(f"{step.operation} makes {MOST_CALLS} calls and does not end")
        except Exception as error:  # noqa: BLE001  # none of this library's: whoever calls it cannot know what to do
            said = f"{type(error).__name__}: {error}"
            self.oracle.blame(f"{step.operation} raised {said}, at {traceback.extract_tb(error.__traceback__)[-1]}")
        finally:
            self.processes.pop()
        self.calls = Counter({(one[0], one[1]): process.calls[one] for one in process.calls if one[2] == "before"})
        self.tell(f"  = {said}")
        self._look()
        return ended

    def _may_be_refused(self, said: str) -> bool:
        """Whether another tool's doing stands in the way, until somebody decides what is to become of it."""
        took = "another tool has written to" in said  # where a late call had taken rows away
        points_back = "has left them" in said and f"{self.world.layout.own}" in said
        return took or (points_back and bool(self.oracle.once_wild))

    def _refused(self, process: Process, error: BaseException) -> None:
        """Take the error at its word: nothing was published. An adoption has two steps, and promises nothing."""
        if not isinstance(error, TableWriterError) or isinstance(error, OutcomeUnknownError | PartlyPublishedError):
            return
        if process.step.operation == "adopt":
            return
        for version in process.claims:
            entry = self.oracle.entry(version)
            if entry is not None and entry.operation in {Operation.WRITE, Operation.ROLLBACK, Operation.RESTORE}:
                self.oracle.nothing_published(version, f"its caller was told {type(error).__name__}")

    def _look(self, *, at_rest: bool = False, decided: Collection[str] = ()) -> None:
        self._collect()
        with self.unhooked():
            self.oracle.check()
            if at_rest:
                self._require_staged()
                self.oracle.require_whole()
            is_open = self.oracle.wild or self.oracle.soft
            if at_rest and not is_open:
                self._read_older_versions()
            if at_rest:
                self._remember()
            if at_rest and is_open and not self.pending and not self.world.history().records.publishes_in_doubt:
                self.oracle.calm_down(decided)

    def _read_older_versions(self) -> None:
        """What is read of an older version is what readers saw when it was the newest, or an error."""
        opened = self.world.services()
        for version in sorted(self._sights.keys() - self._open):
            try:
                past = {value_of(one.values): one for one in Past(opened, version=version).partitions()}
                files = {value: files_of(opened, one, "it") for value, one in past.items()}
            except InvalidInputError:  # deleted, or not known
                continue
            self._require_as_seen(version, files)
            self._require_columns_then(opened.table, past, files)

    def _require_as_seen(self, version: int, files: Mapping[str, Collection[str]]) -> None:
        """Compare what is read of an older version with the rows that readers saw at that version."""
        unknown = self._gone_unseen(version)
        for value in sorted(set(self.partitions) - self.oracle.once_wild - unknown):
            keys = (Location.parse(f"{uri}/").key[:-1] for uri in files.get(value, ()))
            rows = sorted(row for key in keys for row in json.loads(self.world.store._objects[key][0]))
            seen = [sorted(one.get(value, [])) for one in self._sights[version]]
            if rows not in seen:
                self.oracle.blame(f"rows of {value} in version {version}: {rows} are read, {seen} were seen")

    def _require_columns_then(
        self, table: Table, past: Mapping[str, PastPartition], files: Mapping[str, Collection[str]]
    ) -> None:
        """What is read of an older version is read with the columns that it had."""
        for value, one in past.items():
            keys = (Location.parse(f"{uri}/").key[:-1] for uri in files[value])
            rows = [row for key in keys for row in json.loads(self.world.store._objects[key][0])]
            self.oracle.require_columns(rows, hive_columns(one.schema) if one.schema else table.columns)

    def _gone_unseen(self, version: int) -> set[str]:
        """Return which other tools had dropped before the log saw them: only the metastore knew of them."""
        first = {value: (0, location) for value, location in self.oracle.locations().items()}
        for record in reversed(self.world.history().records.published):
            for named in record.entry.partitions:
                first[value_of(named.values)] = (record.entry.version, named.old_location or "")
        since = {value for value, (at, found_at) in first.items() if at <= version or found_at}
        return set(self.partitions) - since

    def _remember(self) -> None:
        """Note what readers see, and whether that is what the newest version says."""
        newest, root = self.oracle.newest(), self.world.layout.all_placeholders.key
        now = self.oracle.locations()
        rows = {value: self.oracle.rows_at(where) for value, where in now.items()}
        at_names = any(rows[value] for value, where in now.items() if where.startswith(root))
        open_ends = (
            self.pending or self.oracle.stale or self.oracle.unclear or self.world.history().records.publishes_in_doubt
        )
        if open_ends or at_names:
            self._open.add(newest)
        if newest and rows not in self._sights.setdefault(newest, []):
            self._sights[newest].append(rows)

    def _require_staged(self) -> None:
        """What was staged, and not touched since, is listed until it expires."""
        waiting = {write_id for write_id, until in self.waiting.items() if until > self.now}
        try:
            here = {one.write_id for one in self.world.keeper.staged(self.table).staged} if waiting else set()
        except InvalidInputError:  # the table was made again, and its files are not adopted yet
            return
        for write_id in sorted(waiting - here):
            self.oracle.blame(f"{write_id} was staged, and is not there any more")

    # Time

    def advance(self, seconds: float) -> None:
        """Let time pass, and what is pending arrive in it."""
        self._collect()
        end = self.now + seconds
        while self.pending and min(self.pending).due <= end and not self._applying:
            one = min(self.pending)
            self.now = max(self.now, one.due)
            self._arrive(one)
        self.now = max(self.now, end)

    def _arrive(self, one: Pending) -> None:
        self.pending.remove(one)
        self._applying = True
        is_applied = False
        try:
            one.apply()
            is_applied = True
            self.tell(f"~ the late {one.name} is applied")
        except TableWriterError as error:
            self.tell(f"~ the late {one.name} is refused: {str(error)[:100]}")
        finally:
            self._applying = False
        with self.unhooked():
            if one.service == "metastore":
                self.oracle.observe(one.claim, late=True)
            elif is_applied and one.name.startswith("store.copy"):
                self.oracle.copied(one.key, one.claim)
            self.oracle.check()

    def _collect(self) -> None:
        """Take over what the doubles have kept."""
        for service, double in (("store", self.world.store), ("metastore", self.world.metastore)):
            while double.pending:
                self.pending.append(replace(self.kept[service].pop(0), apply=double.pending.pop(0)))

    # Calls

    @contextmanager
    def _hooked(self) -> Iterator[None]:
        self.world.store.on_call = lambda call, phase, key: self._called("store", call, phase, key)
        self.world.metastore.on_call = lambda call, phase: self._called("metastore", call, phase, "")
        try:
            yield
        finally:
            self.world.store.on_call = self.world.metastore.on_call = None

    @contextmanager
    def unhooked(self) -> Iterator[None]:
        store, metastore = self.world.store, self.world.metastore
        hooks, store.on_call, metastore.on_call = (store.on_call, metastore.on_call), None, None
        try:
            yield
        finally:
            store.on_call, metastore.on_call = hooks

    def _called(self, service: str, call: str, phase: str, key: str) -> None:
        process = self.processes[-1]
        if process.is_dead:
            raise DeathError
        process.call_count += 1
        if process.call_count > MOST_CALLS:
            raise EndlessError
        if phase == "before":
            self.advance(CALL_SECONDS)
            self._require_in_time(process, call, key)
        else:
            self._took_effect(process, service, call, key)
        started = self.now
        process.calls[service, call, phase] += 1
        self._meet(process, service, call, phase, key)
        if phase == "before":
            self._begins(process, service, call, key, self.now - started)

    def _meet(self, process: Process, service: str, call: str, phase: str, key: str) -> None:
        """Let happen what the history has for this call."""
        for event in process.step.events:
            if (event.service, event.call, event.phase) == (service, call, phase) and process.calls[
                service, call, phase
            ] == event.number:
                self._happen(process, event, key)

    def _require_in_time(self, process: Process, call: str, key: str) -> None:
        """What is added to a location once others may have gone on can come when it was left long ago."""
        seconds = self.now - process.claimed_at - self.world.config.publish_timeout_seconds
        if call == "copy" and seconds > 1 and self.oracle.adds(key, process.claim):
            self.oracle.blame(f"version {process.claim} adds {key.removeprefix(self.root)} {seconds:.0f} s too late")

    def _begins(self, process: Process, service: str, call: str, key: str, under_way_seconds: float) -> None:
        """A request that was under way while others were at work is late, too."""
        if call in CHANGING and under_way_seconds > LATEST_SECONDS:
            raise StorageError("it has expired") if service == "store" else LostResponseError("it was never applied")
        process.is_overdue = service == "metastore" and under_way_seconds > ANSWER_SECONDS
        if call == "put_if_absent" and (version := self._slot(key)):
            process.claim, process.claimed_at = version, self.now - under_way_seconds
            process.slot_is_free = key not in self.world.store._objects

    def _took_effect(self, process: Process, service: str, call: str, key: str) -> None:
        if service == "metastore" and call in CHANGING:
            with self.unhooked():
                self.oracle.observe(process.claim, late=process.is_overdue)
                self.oracle.check()
            if process.is_overdue:
                raise LostResponseError("the answer came too late")
        if service == "store" and call == "copy":
            with self.unhooked():
                self.oracle.copied(key, process.claim)
                self.oracle.check()
        if call == "put_if_absent" and self._slot(key) and process.slot_is_free:
            process.claims.append(self._slot(key))

    def _slot(self, key: str) -> int:
        name = key.removeprefix(self.world.layout.log_prefix)
        return int(name.removesuffix(".json")) if name != key and name.endswith(".json") else 0

    def _happen(self, process: Process, event: Event, key: str) -> None:
        self.tell(f"* {event.what} {event.phase} {event.service}.{event.call} {key.removeprefix(self.root)}")
        if event.what == "nest" and event.step:
            self.do(event.step)
        elif event.what == "pause":
            self.advance(event.seconds)
        elif event.what == "death":
            process.is_dead = True
            raise DeathError
        elif event.what == "ctrl-c":
            raise KeyboardInterrupt
        elif event.what == "error":
            raise self._error(event)
        else:
            self._keep(process, event, key)

    def _keep(self, process: Process, event: Event, key: str) -> None:
        name = f"{event.service}.{event.call} {key.removeprefix(self.root)}"
        due, number = self.now + event.seconds, len(self.trace)
        self.kept[event.service].append(Pending(due, number, event.service, name, process.claim, key))
        if event.what == "twice":
            raise Late
        process.is_dead = event.what == "late and death"
        raise Late(DeathError() if process.is_dead else self._error(event, sent=True))

    def _error(self, event: Event, *, sent: bool = False) -> TableWriterError:
        if event.service == "store":
            return StorageError("injected")
        lost = event.call in CHANGING and (sent or event.phase == "after")
        return LostResponseError("injected") if lost else MetastoreError("injected")

    @property
    def root(self) -> str:
        return self.world.layout.root.key
