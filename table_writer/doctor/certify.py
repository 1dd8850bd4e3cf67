"""Put the promise to the test on a person's own store and metastore: races, killed writers, readers, an erasure.

What the processes tell is a history, which :mod:`.checker` judges: it imports nothing of this library. The table and
all objects are below a name of their own, and are taken away at the end.
"""

from __future__ import annotations

import hashlib
import io
import json
import multiprocessing
import platform
import random
import secrets
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from table_writer.arrow.writer import ArrowWriter
from table_writer.config import TableWriterConfig
from table_writer.doctor import checker
from table_writer.doctor.certify_actors import APPENDED, OVERWRITTEN, Actor, Event, read_once, reads, write_once, writes
from table_writer.errors import InvalidInputError, TableWriterError, counted, few
from table_writer.jobs.certificate import erasure_report
from table_writer.mirrors import follow as mirrors
from table_writer.model.entry import Erasure
from table_writer.model.location import Location
from table_writer.model.table import Column, Table, TableName
from table_writer.model.table_kind import HIVE
from table_writer.progress import current
from table_writer.protocol.log.history import History
from table_writer.protocol.operations.correction import Correction
from table_writer.protocol.operations.recovery import Recovery
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.table.services import Services, hadoop_without_spark
from table_writer.protocol.vacuum.due import vacuum_ages
from table_writer.protocol.vacuum.remover import FoundLocation
from table_writer.protocol.vacuum.sweep import ChosenLocations, Vacuum
from table_writer.reports.certification_report import BROKEN, FAILED, HELD, NOT_TRIED, CertificationReport, Proof
from table_writer.reports.listeners import show_progress
from table_writer.signals import ENDING, handled
from table_writer.storage.kinds import kind_of, settings_for
from table_writer.storage.object_store import ObjectInfo, ObjectStore, many, open_store
from table_writer.storage.proof import Probe, RefutedError, probe_below, race, try_store
from table_writer.version import __version__

MOST_MINUTES: Final = 60.0
METASTORE_SECONDS: Final = 5.0  # how long a call may take: a dead writer's claim is waited for twice as long
DOOMED_AT_ONCE: Final = 3
RACES_AT_ONCE: Final = 4  # of 8 claims each
ERASED: Final = "erased"  # begins the texts of the rows that are erased
STOP_SECONDS: Final = 60.0  # how long a process may take to end its last call
LAST_READS: Final = 3
OURS: Final = "certification"  # the actor that this process is
OF_A_PROMISE: Final = {  # the event without which a promise was not tried; of others: a publish
    "what was refused is never seen": "refused",
    "what is resolved stays": "settled",
    "what is erased is gone": "gone",
}
STORES: Final = {"yes": HELD, "no": BROKEN, "failed": FAILED, "not tried": NOT_TRIED}
Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class Extent:
    """How much is tried. After ``minutes`` no further race, and no further writer, is begun."""

    races: int = 1_000
    kills: int = 50
    minutes: float = 15.0

    def __post_init__(self) -> None:
        if self.races < 1 or self.kills < 1:
            raise InvalidInputError(f"races={self.races}, kills={self.kills}: expected 1 or more")
        if not 0 < self.minutes <= MOST_MINUTES:
            raise InvalidInputError(f"minutes={self.minutes}: expected more than 0, and {MOST_MINUTES:.0f} at the most")


class _BrokenError(Exception):
    """A promise was broken; the text says how."""


class _NotTriedError(Exception):
    """Something could not be tried, or not to its end; the text says why."""


def certify(
    location: str,
    config: TableWriterConfig,
    services: Services | None,
    *,
    database: str,
    extent: Extent,
    history: str = "",
) -> CertificationReport:
    """Try everything below a location; see :meth:`table_writer.Maintenance.certify`.

    The config has all settings of the store. Without services, and so without a metastore, the store alone is tried.
    """
    is_a_child = multiprocessing.parent_process() is not None
    if is_a_child or getattr(multiprocessing.current_process(), "_inheriting", False):  # it imports the main module
        raise InvalidInputError('certify starts processes: call it below `if __name__ == "__main__":`')
    if history:
        _require_new(Path(history))
    place = Location.parse(location.rstrip("/") + "/")
    own_name = f"table_writer_certify_{secrets.token_hex(8)}"
    began_at = datetime.now(UTC)
    settings = settings_for(place, hadoop_without_spark(config), config.s3)
    with show_progress(config.progress, table=str(place), mode="certify"):
        run = _Run(place.child(own_name), partial(open_store, settings), extent)
        run.contract()
        run.races()
        told: list[Event] = []
        metastore = ""
        if services is not None:
            metastore = " is Hive ".join(filter(None, (services.metastore.uri, services.metastore.server_version())))
            told = run.table(TableName(database, own_name), services)
        else:
            run.proofs += [Proof(promise=text, state=NOT_TRIED, message="no metastore") for text in checker.CHECKS]
    if history:
        Path(history).write_text("".join(f"{json.dumps(event)}\n" for event in told), encoding="utf-8")
    return CertificationReport(
        table=str(place),
        store=" at ".join(filter(None, (kind_of(place).name, getattr(settings, "endpoint_url", "")))),
        metastore=metastore,
        version=__version__,
        machine=f"Python {platform.python_version()}, {platform.platform(terse=True)}",
        began_at=began_at,
        ended_at=datetime.now(UTC),
        proofs=tuple(run.proofs),
        history=history,
        notes=tuple(run.notes),
    )


def _require_new(path: Path) -> None:
    """Make the file of the history; refuse one that is there, or that cannot be written."""
    try:
        path.open("x").close()
    except OSError as error:
        raise InvalidInputError(f"history={str(path)!r}: {error.strerror}; name a new file") from error


@dataclass
class _Run:
    """One certification: what it has proven so far."""

    root: Location
    open_store: Callable[[], ObjectStore]
    extent: Extent
    proofs: list[Proof] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._deadline = time.monotonic() + 60 * self.extent.minutes

    @property
    def _is_over(self) -> bool:
        return time.monotonic() >= self._deadline

    def _prove(self, promise: str, trial: Callable[[], str]) -> None:
        """Try a promise: the trial returns what it has tried."""
        current().begin(promise)
        began, state = time.monotonic(), HELD
        try:
            message = trial()
        except (_BrokenError, RefutedError) as broken:
            state, message = BROKEN, str(broken)
        except pa.ArrowInvalid as corrupt:
            state, message = BROKEN, f"a file that was written cannot be read: {corrupt}"
        except (TableWriterError, OSError, _NotTriedError) as failure:
            state, message = FAILED, f"cannot be tried to its end: {failure}"
        seconds = time.monotonic() - began
        self.proofs.append(Proof(promise=promise, state=state, message=message, seconds=seconds))

    def contract(self) -> None:
        """Make every trial of the store."""
        current().begin("the store's contract")
        began = time.monotonic()
        probe = probe_below(self.root, self.open_store)
        verdicts = try_store(probe)
        each = (time.monotonic() - began) / len(verdicts)
        self.proofs += [
            Proof(promise=f"store: {verdict.name}", state=STORES[verdict.answer], message=verdict.message, seconds=each)
            for verdict in verdicts
        ]

    def races(self) -> None:
        """Let many claims race: of each race one wins."""
        probe = probe_below(self.root, self.open_store)
        count = self.extent.races

        def tried() -> str:
            current().count("races", count)
            done = sum(many(partial(self._race, probe), range(count), threads=RACES_AT_ONCE))
            if done < count:
                self.notes.append(f"the time was over after {done:,} of {count:,} races")
            if not done:
                raise _NotTriedError("the time was over before the first race")
            return f"{done:,} races of 8 claims each: one wins, and its bytes are there"

        try:
            self._prove("of racing claims one wins", tried)
        finally:
            probe.leave()

    def _race(self, probe: Probe, number: int) -> int:
        if self._is_over:
            return 0
        race(probe, f"race-{number}")
        current().advance()
        return 1

    def table(self, name: TableName, services: Services) -> list[Event]:
        """Let writers and readers meet at a table, and return what they have told."""
        events: list[Event] = []
        table = Table(
            name=name,
            kind="EXTERNAL_TABLE",
            location=str(self.root.child("table")),
            columns=(Column("id", "string"),),
            partition_columns=(Column("part", "string"),),
            input_format=f"{HIVE}parquet.MapredParquetInputFormat",
            output_format=f"{HIVE}parquet.MapredParquetOutputFormat",
            serde=f"{HIVE}parquet.serde.ParquetHiveSerDe",
        )
        try:
            self._prove("a table is made", lambda: _made(table, services))
            if self.proofs[-1].state == HELD:
                self._meet(name, _config_of(services), events)
                self._judge(events)
        finally:
            with handled(signal.SIG_IGN, *ENDING):  # a second Ctrl-C waits until all is taken away
                self._prove("nothing is left behind", lambda: self._cleaned(name, services))
        return events

    def _meet(self, name: TableName, config: TableWriterConfig, events: list[Event]) -> None:
        """Let readers loop while writers are killed; then resolve what is in doubt, erase, and vacuum."""
        table = str(name)
        ours = Services.without_spark(None, config)
        tell = partial(_told, events, OURS)
        with ArrowWriter(services=ours) as writer:
            opened = ours.open_table(name)

            def vacuumed() -> str:
                tell({"event": "settled"})
                read_once(config, table, tell)
                done = _vacuumed(opened)
                for _ in range(LAST_READS):
                    read_once(config, table, tell)
                return done

            steps = {
                "first rows are written": lambda: _first_rows(writer, table, tell),
                "writers are killed while others read": lambda: self._killed(config, table, events),
                "what is in doubt is resolved": lambda: _resolved(opened),
                "rows are replaced, and the old ones are to be erased": lambda: _replaced(writer, opened, tell),
                "a vacuum deletes what nobody reads": vacuumed,
                "an erasure is certified": lambda: _erased(opened, tell),
            }
            for promise, step in steps.items():
                self._prove(promise, step)
                if self.proofs[-1].state != HELD:
                    break  # the next one would be about something else

    def _killed(self, config: TableWriterConfig, table: str, events: list[Event]) -> str:
        """Kill writers at random moments, until enough are, or the time is over."""
        chance, wanted = random.Random(table), self.extent.kills  # noqa: S311  # a schedule, no secret
        current().count("killed writers", wanted)
        killed = 0
        with _acting(config, table, events) as start:
            steady = start(writes, "steady")
            readers = [start(reads, f"reader-{number}") for number in range(2)]
            if not all(actor.wait_for_event() for actor in (steady, *readers)):
                raise InvalidInputError(f"a writer or a reader did not begin: {_faults(events)}")
            while killed < wanted and not self._is_over:
                count = min(DOOMED_AT_ONCE, wanted - killed)
                doomed = [start(writes, f"doomed-{killed + number}") for number in range(count)]
                for actor in doomed:
                    actor.wait_for_event()
                    time.sleep(chance.uniform(0, _usual_seconds(events)))
                    actor.kill()
                    killed += 1
                    current().advance()
            _wait_for_publishes(events)
        faults = _faults(events)
        if faults:
            raise _BrokenError(f"a process has failed by a fault of this library: {faults}")
        in_doubt = sum(event["event"] == "killed" for event in events)
        if not in_doubt:
            raise _NotTriedError("no writer was killed in the middle of a write")
        _require_published(events)
        failed_reads = [event["error"] for event in events if event["event"] == "read" and event["error"]]
        if failed_reads:
            self.notes.append(f"{counted(len(failed_reads), 'read')} failed, the first with {failed_reads[0]}")
        if killed < wanted:
            self.notes.append(f"the time was over after {killed:,} of {wanted:,} killed writers")
        counts = {kind: sum(event["event"] == kind for event in events) for kind in ("begin", "published", "read")}
        return (
            f"{killed} writers killed, {in_doubt} of them in the middle of a write; {counts['begin']:,} writes begun,"
            f" {counts['published']:,} published, {counts['read']:,} reads"
        )

    def _judge(self, events: Sequence[Event]) -> None:
        """Let the checker judge the history."""
        history, judgements = checker.judge(events)
        kinds = {event["event"] for event in events}
        seen = f"{len(history.writes):,} writes, {len(history.reads):,} reads"
        for promise, broken in judgements.items():
            missing = OF_A_PROMISE.get(promise, "published") not in kinds or len(history.reads) < LAST_READS
            state = BROKEN if broken else NOT_TRIED if missing else HELD
            message = f"{counted(len(broken), 'time')}: {few(broken, most=2)}" if broken else seen
            self.proofs.append(Proof(promise=promise, state=state, message=message))

    def _cleaned(self, name: TableName, services: Services) -> str:
        """Drop the table, and delete what is below the root, whichever of the two fails."""
        left: list[str] = []
        try:
            services.metastore.remove_table(name)
        except TableWriterError as failure:
            left.append(f"table {name}, which cannot be dropped: {failure}")
        store = self.open_store()
        uploads = list(store.list_uploads(self.root.key))
        for upload in uploads:
            store.abort_upload(upload.key, upload.upload_id)
        found = list(store.list(self.root.key))
        store.delete(found)
        self._delete_markers(store, [info.key for info in found])
        if any(store.list(self.root.key)):
            left.append(f"objects below {self.root}")
        if left:
            raise _BrokenError(f"left behind, so delete it: {'; '.join(left)}")
        return f"{counted(len(found), 'object')} and {counted(len(uploads), 'upload')} were taken away"

    def _delete_markers(self, store: ObjectStore, keys: Sequence[str]) -> None:
        """Delete the marks of directories, which a metastore makes and no listing of ours shows, from below."""
        directories = {self.root.key, self.root.child("table").key}
        for key in keys:
            names = key.removeprefix(self.root.key).split("/")[:-1]
            directories |= {f"{self.root.key}{'/'.join(names[:count])}/" for count in range(1, len(names) + 1)}
        for directory in sorted(directories, key=len, reverse=True):
            with suppress(TableWriterError):  # it stays as an empty name
                store.delete([directory])


def _wait_for_publishes(events: Sequence[Event]) -> None:
    """Wait until the writer that nobody kills has published one of each kind, or has had the time for it."""
    ends = time.monotonic() + STOP_SECONDS
    while _lacking(events) and time.monotonic() < ends:
        time.sleep(0.2)


def _lacking(events: Sequence[Event]) -> list[str]:
    """Return the kinds of writes of which none was published, but by this process."""
    told = list(events)
    kinds = {event["write"]: event["kind"] for event in told if event["event"] == "begin"}
    published = {kinds[event["write"]] for event in told if event["event"] == "published" and event["actor"] != OURS}
    return sorted({"overwrite", "append"} - published)


def _require_published(events: Sequence[Event]) -> None:
    """Refuse to judge a history in which one kind of writes has never succeeded."""
    if lacking := _lacking(events):
        notes = [event["note"] for event in events if event.get("note")]
        raise _NotTriedError(f"no {' and no '.join(lacking)} was published; {few(notes, most=1)}")


def _made(table: Table, services: Services) -> str:
    if not services.metastore.add_table(table):
        raise InvalidInputError(f"there is a table {table.name} already")
    return f"{table.name}, an external table"


def _config_of(services: Services) -> TableWriterConfig:
    """Return the settings of the processes, which have no session, and tell nobody but this one."""
    timeout = min(METASTORE_SECONDS, services.config.metastore_timeout_seconds)
    return replace(
        services.config,
        hadoop={**services.session.hadoop, **services.config.hadoop},
        metastore_timeout_seconds=timeout,
        publish_timeout_seconds=2 * timeout + 5,
        progress="off",
        listeners=(),
        report_directory=None,
        mirrors=(),
    )


def _told(events: list[Event], actor: str, event: Event) -> None:
    events.append({**event, "t": time.monotonic(), "actor": actor})


@contextmanager
def _acting(
    config: TableWriterConfig, table: str, events: list[Event]
) -> Iterator[Callable[[Callable[..., None], str], Actor]]:
    """Yield what starts an actor; at the end none is left."""
    actors: list[Actor] = []

    def start(work: Callable[..., None], name: str) -> Actor:
        actors.append(Actor(work, config, table, name, events))
        return actors[-1]

    seconds = STOP_SECONDS
    try:
        yield start
    except BaseException:
        seconds = 0  # nobody waits for their last calls
        raise
    finally:
        for actor in actors:
            actor.stop(seconds)


def _faults(events: Sequence[Event]) -> str:
    return "; ".join(event["note"] for event in list(events) if event["event"] == "fault")


def _usual_seconds(events: Sequence[Event]) -> float:
    """Return how long a write takes, by those that have ended: a kill may hit any moment of it."""
    began = {event["write"]: event["t"] for event in list(events) if event["event"] == "begin"}
    ended = [event for event in list(events) if event["event"] == "published"]
    return statistics.median([event["t"] - began[event["write"]] for event in ended]) if ended else 1.0


def _published(writer: ArrowWriter, table: str, tell: Callable[[Event], None], write: str, *partitions: str) -> None:
    """Make one write; it is an error if it is not published."""
    note = write_once(writer, table, tell, write, "overwrite", partitions)
    if note:
        raise _NotTriedError(f"write {write!r} was not published: {note}")


def _first_rows(writer: ArrowWriter, table: str, tell: Callable[[Event], None]) -> str:
    _published(writer, table, tell, "first", *OVERWRITTEN, APPENDED)
    return f"{len(OVERWRITTEN) + 1} partitions in one switch"


def _resolved(opened: OpenTable) -> str:
    """Resolve all that is in doubt; claims of dead writers are waited for until their time is over."""
    Correction(opened).resolve_all(opened.table)
    left = opened.log.read_history().records.in_doubt
    versions = [record.entry.version for record in left if not record.entry.meaning.erases]
    if versions:
        raise _BrokenError(f"version {few(versions)} is in doubt still")
    return f"{counted(opened.log.lister.read().newest, 'version')}, none in doubt"


def _replaced(writer: ArrowWriter, opened: OpenTable, tell: Callable[[Event], None]) -> str:
    """Write rows with the text that is to go, replace them, and name for the next vacuum what holds them."""
    name = str(opened.table.name)
    for write in (ERASED, "clean"):
        _published(writer, name, tell, write, OVERWRITTEN[0])
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
        raise _BrokenError("the rows that were replaced are in no object that readers have left")
    return f"{counted(count, 'object')} to be erased"


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


def _vacuumed(opened: OpenTable) -> str:
    """Delete whatever no reader needs, whatever its age: nobody reads now."""
    ages = vacuum_ages(opened, timedelta(0), force=True)
    done = Vacuum(opened, mirrors).run(ages, dry_run=False)
    if done.failures:
        raise _BrokenError(f"cannot delete {few(done.failures)}")
    again = Vacuum(opened, mirrors).run(ages, dry_run=True)
    uploads = list(opened.store.list_uploads(opened.layout.root.key))
    if again.locations or uploads:
        left = f"{counted(len(again.locations), 'location')} and {counted(len(uploads), 'pending upload')}"
        raise _BrokenError(f"a vacuum has left {left}")
    live = [Location.parse(found.location) for found in opened.metastore.get_all_partitions(opened.table).values()]
    stale = [
        info.key
        for info in opened.store.list(opened.layout.all_data.key)
        if not any(info.key.startswith(location.key) for location in live)
    ]
    if stale:
        raise _BrokenError(
            f"the store says that {counted(len(stale), 'object')} are deleted, and lists {few(stale, most=2)}"
        )
    return f"{counted(len(done.locations), 'location')} deleted, and no upload is pending"


def _erased(opened: OpenTable, tell: Callable[[Event], None]) -> str:
    """Look through every object for what was erased, and compare the certificate."""
    tell(
        {
            "event": "gone",
            "mark": ERASED,
            "found": _holders(opened.store, list(opened.store.list(opened.layout.root.key))),
        }
    )
    certificate = erasure_report(opened)
    if certificate.due:
        raise _BrokenError(f"{counted(certificate.due, 'object')} of {len(certificate.objects)} are there still")
    of_the_bucket = [remark for remark in certificate.remarks if remark.startswith("versioning")]
    if len(of_the_bucket) < len(certificate.remarks):
        raise _BrokenError(f"NOT ERASED: {few(certificate.remarks)}")
    return "; ".join([f"gone: {counted(len(certificate.objects), 'object')}", *of_the_bucket])
