"""The steps of a certification that take a table: writers are killed, what they leave is resolved, rows are erased."""

from __future__ import annotations

import hashlib
import io
import random
import secrets
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property, partial
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from table_writer.arrow.writer import ArrowWriter
from table_writer.config import TableWriterConfig
from table_writer.doctor.certify_actors import (
    APPENDED,
    OVERWRITTEN,
    Actor,
    Event,
    is_damage,
    read_once,
    reads,
    write_once,
    writes,
)
from table_writer.errors import InvalidInputError, TableWriterError, counted, few
from table_writer.jobs.certificate import erasure_report
from table_writer.mirrors import follow as mirrors
from table_writer.model.defaults import METASTORE_TIMEOUT_SECONDS
from table_writer.model.entry import Erasure
from table_writer.model.location import Location
from table_writer.model.table import TableName
from table_writer.progress import current
from table_writer.protocol.log.history import History
from table_writer.protocol.operations.correction import Correction
from table_writer.protocol.operations.recovery import Recovery
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.table.services import Services
from table_writer.protocol.vacuum.due import vacuum_ages
from table_writer.protocol.vacuum.remover import FoundLocation
from table_writer.protocol.vacuum.sweep import ChosenLocations, Vacuum
from table_writer.signals import ENDING, handled
from table_writer.storage.object_store import ObjectInfo, ObjectStore, many

METASTORE_SECONDS: Final = 5.0
MOST_MINUTES: Final = 60.0
HEARTBEAT_SECONDS: Final = 1.0  # so that a killed writer is known to be dead soon, also where nobody tells of processes
DOOMED_AT_ONCE: Final = 3
ERASED: Final = "erased"  # begins the texts of the rows that are erased
STOP_SECONDS: Final = 60.0  # how long a process may take to end its last call
LAST_READS: Final = 3
OURS: Final = "certification"  # the actor that this process is


@dataclass(frozen=True, kw_only=True)
class Extent:
    """How much is tried.

    No further race is begun after 40 % of the minutes, and no further writer after all of them.
    """

    races: int = 1_000
    kills: int = 50
    minutes: float = 15.0

    def __post_init__(self) -> None:
        if self.races < 1 or self.kills < 1:
            raise InvalidInputError(f"races={self.races}, kills={self.kills}: expected 1 or more")
        if not 0 < self.minutes <= MOST_MINUTES:
            raise InvalidInputError(f"minutes={self.minutes}: expected more than 0, and {MOST_MINUTES:.0f} at the most")


class BrokenError(Exception):
    """A promise was broken; the text says how."""


class UntriedError(Exception):
    """Something could not be tried, or not to its end; the text says why."""


def call_seconds(config: TableWriterConfig) -> float:
    """Return after how long a call to the metastore counts as lost: a dead writer's claim waits for twice as long."""
    is_chosen = config.metastore_timeout_seconds != METASTORE_TIMEOUT_SECONDS
    return config.metastore_timeout_seconds if is_chosen else METASTORE_SECONDS


@dataclass
class Meeting:
    """Writers and readers that meet at one table."""

    name: TableName
    services: Services
    extent: Extent
    deadline: float  # of time.monotonic: no further writer is begun
    events: list[Event] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._undo = ExitStack()

    def close(self) -> None:
        """Close the connection of this process."""
        self._undo.close()

    @cached_property
    def config(self) -> TableWriterConfig:
        """The settings of the processes, which have no session, and tell nobody but this one."""
        config = self.services.config
        timeout = call_seconds(config)
        return replace(
            config,
            hadoop={**self.services.session.hadoop, **config.hadoop},
            metastore_timeout_seconds=timeout,
            publish_timeout_seconds=2 * timeout + 5,
            heartbeat_seconds=HEARTBEAT_SECONDS,
            progress="off",
            listeners=(),
            report_directory=None,
            mirrors=(),
        )

    @cached_property
    def _writer(self) -> ArrowWriter:
        return self._undo.enter_context(ArrowWriter(services=self._ours))

    @cached_property
    def _ours(self) -> Services:
        return Services.without_spark(None, self.config)

    @cached_property
    def _opened(self) -> OpenTable:
        return self._ours.open_table(self.name)

    def steps(self) -> dict[str, Callable[[], str]]:
        """Return what is tried, in turn; each builds on those before it."""
        steps = {
            "first rows are written": self._first_rows,
            "writers are killed while others read": self._killed,
            "what is in doubt is resolved": self._resolved,
            "rows are replaced, and the old ones are to be erased": self._replaced,
            "a vacuum deletes what nobody reads": self._vacuumed,
            "an erasure deletes what it names": self._erased,
        }
        return {promise: partial(_refuting, step) for promise, step in steps.items()}

    def _tell(self, event: Event) -> None:
        self.events.append({**event, "t": time.monotonic(), "actor": OURS})

    def _read(self) -> None:
        """Read once; it is an error if that fails."""
        failure = read_once(self.config, str(self.name), self._tell)
        if failure is not None:
            raise failure

    def _publish(self, write: str, *partitions: str) -> None:
        """Make one write; it is an error if it is not published."""
        failure = write_once(self._writer, str(self.name), self._tell, write, "overwrite", partitions)
        if failure is not None:
            raise failure

    def _first_rows(self) -> str:
        self._publish("first", *OVERWRITTEN, APPENDED)
        return f"{len(OVERWRITTEN) + 1} partitions in one switch"

    def _killed(self) -> str:
        """Kill writers at random moments, until enough are, or the time is over."""
        chance = random.Random(str(self.name))  # noqa: S311  # a schedule, no secret
        current().count("killed writers", self.extent.kills)
        killed = 0
        with self._acting() as start:
            steady = start(writes, "steady")
            readers = [start(reads, f"reader-{number}") for number in range(2)]
            if not all(actor.wait_for_event() for actor in (steady, *readers)):
                raise UntriedError(f"a writer or a reader did not begin: {self._faults()}")
            while killed < self.extent.kills and time.monotonic() < self.deadline:
                count = min(DOOMED_AT_ONCE, self.extent.kills - killed)
                doomed = [start(writes, f"doomed-{killed + number}") for number in range(count)]
                for actor in doomed:
                    actor.wait_for_event()
                    time.sleep(chance.uniform(0, self._usual_seconds()))
                    actor.kill()
                    killed += 1
                    current().advance()
            self._wait_for_publishes()
        return self._tally(killed)

    def _tally(self, killed: int) -> str:
        """Say what has happened; an error if the processes could not do what they were to do."""
        events = self.events
        if faults := self._faults(of_ours=True):
            raise BrokenError(f"a process has failed by a fault of this library: {faults}")
        if faults := self._faults():
            raise UntriedError(f"a process could not go on: {faults}")
        good_reads = sum(event["event"] == "read" and not event["error"] for event in events)
        if damaged := [event["error"] for event in events if event.get("damaged")]:
            raise BrokenError(f"{counted(len(damaged), 'call')} did not find what was stored: {few(damaged, most=1)}")
        if not good_reads:
            raise UntriedError(f"no read has succeeded; {few(self._errors(), most=1)}")
        in_doubt = sum(event["event"] == "killed" for event in events)
        if not in_doubt:
            raise UntriedError("no writer was killed in the middle of a write")
        if lacking := self._lacking():
            raise UntriedError(f"no {' and no '.join(lacking)} was published; {few(self._errors(), most=1)}")
        failed_reads = [event["error"] for event in events if event["event"] == "read" and event["error"]]
        if failed_reads:
            self.notes.append(f"{counted(len(failed_reads), 'read')} failed, the first with {failed_reads[0]}")
        if killed < self.extent.kills:
            self.notes.append(f"the time was over after {killed:,} of {self.extent.kills:,} killed writers")
        counts = {kind: sum(event["event"] == kind for event in events) for kind in ("begin", "published")}
        return (
            f"{killed} writers killed, {in_doubt} of them in the middle of a write; {counts['begin']:,} writes begun,"
            f" {counts['published']:,} published, {good_reads:,} reads"
        )

    @contextmanager
    def _acting(self) -> Iterator[Callable[[Callable[..., None], str], Actor]]:
        """Yield what starts an actor; at the end none is left."""
        actors: list[Actor] = []

        def start(work: Callable[..., None], name: str) -> Actor:
            actors.append(Actor(work, self.config, str(self.name), name, self.events))
            actors[-1].start()
            return actors[-1]

        seconds = STOP_SECONDS
        try:
            yield start
        except BaseException:  # Ctrl-C as well: nobody waits for their last calls
            seconds = 0
            raise
        finally:
            try:
                for actor in actors:
                    actor.ask_to_stop()
                for actor in actors:
                    actor.stop(seconds)
            finally:
                with handled(signal.SIG_IGN, *ENDING):  # whatever is left would write while all is taken away
                    for actor in actors:
                        actor.kill()

    def _errors(self) -> list[str]:
        return [event["error"] for event in self.events if event.get("error")]

    def _faults(self, *, of_ours: bool = False) -> str:
        faults = [event for event in list(self.events) if event["event"] == "fault"]
        return "; ".join(event["error"] for event in faults if event["of_ours"] or not of_ours)

    def _usual_seconds(self) -> float:
        """Return how long a write takes, by those that have ended: a kill may hit any moment of it."""
        told = list(self.events)
        began = {event["write"]: event["t"] for event in told if event["event"] == "begin"}
        ended = [event for event in told if event["event"] == "published"]
        return statistics.median([event["t"] - began[event["write"]] for event in ended]) if ended else 1.0

    def _wait_for_publishes(self) -> None:
        """Wait until the writer that nobody kills has published one of each kind, or has had the time for it."""
        ends = time.monotonic() + STOP_SECONDS
        while self._lacking() and time.monotonic() < ends:
            time.sleep(0.2)

    def _lacking(self) -> list[str]:
        """Return the kinds of writes of which none was published, but by this process."""
        told = list(self.events)
        kinds = {event["write"]: event["kind"] for event in told if event["event"] == "begin"}
        published = {
            kinds[event["write"]] for event in told if event["event"] == "published" and event["actor"] != OURS
        }
        return sorted({"overwrite", "append"} - published)

    def _resolved(self) -> str:
        """Resolve all that is in doubt; claims of dead writers are waited for until their time is over."""
        opened = self._opened
        Correction(opened).resolve_all(opened.table)
        left = opened.log.read_history().records.in_doubt
        versions = [record.entry.version for record in left if not record.entry.meaning.erases]
        if versions:
            raise BrokenError(f"version {few(versions)} is in doubt still")
        return f"{counted(opened.log.lister.read().newest, 'version')}, none in doubt"

    def _replaced(self) -> str:
        """Write rows with the text that is to go, replace them, and name for the next vacuum what holds them."""
        opened = self._opened
        for write in (ERASED, "clean"):
            self._publish(write, OVERWRITTEN[0])
        salt = secrets.token_hex(16)
        digest = hashlib.sha256(f"{salt}id LIKE '{ERASED}%'".encode()).hexdigest()

        def choose(_: History, found: Sequence[FoundLocation]) -> ChosenLocations:
            return tuple(location for location in found if _holders(opened.store, location.objects)), ()

        def end_doubts(history: History) -> bool:
            return Recovery(opened).end_doubts(history, opened.table) is not None

        erasure = Erasure(predicate_sha256=digest, deleted_rows=3, write_id="")
        entry = Vacuum(opened, mirrors).erase(erasure, choose, end_doubts)
        count = len(entry.erasure.keys) if entry.erasure else 0
        if not count:
            raise BrokenError("the rows that were replaced are in no object that readers have left")
        return f"{counted(count, 'object')} to be erased"

    def _vacuumed(self) -> str:
        """Delete whatever no reader needs, whatever its age: readers see the same before and after."""
        self._tell({"event": "settled"})
        self._read()
        opened = self._opened
        ages = vacuum_ages(opened, timedelta(0), force=True)
        done = Vacuum(opened, mirrors).run(ages, dry_run=False)
        if done.failures:
            raise UntriedError(f"cannot delete {few(done.failures)}")
        again = Vacuum(opened, mirrors).run(ages, dry_run=True)
        uploads = list(opened.store.list_uploads(opened.layout.root.key))
        if again.locations or uploads:
            left = f"{counted(len(again.locations), 'location')} and {counted(len(uploads), 'pending upload')}"
            raise BrokenError(f"a vacuum has left {left}")
        live = [Location.parse(found.location) for found in opened.metastore.get_all_partitions(opened.table).values()]
        stale = [
            info.key
            for info in opened.store.list(opened.layout.all_data.key)
            if not any(info.key.startswith(location.key) for location in live)
        ]
        if stale:
            raise BrokenError(
                f"no partition points to {counted(len(stale), 'object')} that a vacuum has deleted, or did not find:"
                f" {few(stale, most=2)}"
            )
        for _ in range(LAST_READS):
            self._read()
        return f"{counted(len(done.locations), 'location')} deleted, and no upload is pending"

    def _erased(self) -> str:
        """Look through every object for what was erased, and compare the certificate."""
        opened = self._opened
        found = _holders(opened.store, list(opened.store.list(opened.layout.root.key)))
        self._tell({"event": "gone", "mark": ERASED, "found": found})
        certificate = erasure_report(opened)
        if certificate.due:
            raise BrokenError(f"{counted(certificate.due, 'object')} of {len(certificate.objects)} are there still")
        of_the_bucket = [remark for remark in certificate.remarks if remark.startswith("versioning")]
        if len(of_the_bucket) < len(certificate.remarks):
            raise BrokenError(f"NOT ERASED: {few(certificate.remarks)}")
        return "; ".join([f"gone: {counted(len(certificate.objects), 'object')}", *of_the_bucket])


def _refuting(step: Callable[[], str]) -> str:
    """Take a step; what was stored and is not there, or is not what was written, has broken it."""
    try:
        return step()
    except (TableWriterError, OSError, pa.ArrowException) as failure:
        if is_damage(failure):
            raise BrokenError(f"what was stored is not what is found: {failure}") from failure
        raise


def _holders(store: ObjectStore, objects: Sequence[ObjectInfo]) -> list[str]:
    """Return the keys of the objects that hold the text that is to go."""
    return [key for key in many(lambda info: info.key if _holds(store, info.key) else "", objects) if key]


def _holds(store: ObjectStore, key: str) -> bool:
    stored = store.get(key)
    if stored is None:
        return False
    if not key.endswith(".parquet"):
        return f"{ERASED}/".encode() in stored.body
    values = pq.read_table(io.BytesIO(stored.body), columns=["id"]).column("id").to_pylist()
    return any(value.startswith(f"{ERASED}/") for value in values)
