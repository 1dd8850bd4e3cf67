"""Put the promise to the test on a person's own store and metastore: races, killed writers, readers, an erasure.

What the processes tell is a history, which :mod:`.checker` judges: it imports nothing of this library. The table and
all objects are below a name of their own, and are taken away at the end.
"""

from __future__ import annotations

import json
import logging
import math
import multiprocessing
import platform
import secrets
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa

from table_writer.config import TableWriterConfig
from table_writer.doctor import checker
from table_writer.doctor.certify_actors import Event
from table_writer.doctor.certify_steps import BrokenError, Extent, Meeting, UntriedError, call_seconds
from table_writer.errors import InvalidInputError, TableWriterError, counted, few
from table_writer.model.location import Location
from table_writer.model.table import Column, Table, TableName
from table_writer.model.table_kind import as_parquet
from table_writer.progress import current
from table_writer.protocol.table.services import Services, hadoop_without_spark
from table_writer.reports.certification_report import BROKEN, FAILED, HELD, NOT_TRIED, CertificationReport, Proof
from table_writer.reports.listeners import show_progress
from table_writer.signals import ENDING, handled
from table_writer.storage.kinds import kind_of, settings_for
from table_writer.storage.object_store import ObjectStore, many, open_store
from table_writer.storage.proof import Probe, RefutedError, probe_below, race, try_store
from table_writer.version import __version__

logger = logging.getLogger(__name__)

SHARE_OF_RACES: Final = 0.4  # of the minutes, with the contract: the rest is for writers
RACES_AT_ONCE: Final = 4  # of 8 claims each
STORES: Final = {"yes": HELD, "no": BROKEN, "failed": FAILED, "not tried": NOT_TRIED}
Answer = TypeVar("Answer")


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
    if services is not None and services.has_doubles:
        raise InvalidInputError("certify starts processes, and none of them reaches what is in the memory of this one")
    place = Location.parse(location.rstrip("/") + "/")
    own_name = f"table_writer_certify_{secrets.token_hex(8)}"
    settings = settings_for(place, hadoop_without_spark(config), config.s3)
    run = _Run(place.child(f"_{own_name}"), partial(open_store, settings), extent)
    if history:
        _require_new(Path(history))
    began_at = datetime.now(UTC)
    try:
        with show_progress(config.progress, table=str(place), mode="certify"):
            run.all(TableName(database, own_name), services)
    finally:  # also what was told before a Ctrl-C
        if history and run.events:
            _save(Path(history), run)
        elif history:
            Path(history).unlink()
    return CertificationReport(
        table=str(place),
        store=" at ".join(filter(None, (kind_of(place).name, getattr(settings, "endpoint_url", "")))),
        metastore=run.metastore,
        version=__version__,
        machine=f"Python {platform.python_version()}, {platform.platform(terse=True)}",
        began_at=began_at,
        ended_at=datetime.now(UTC),
        proofs=tuple(run.proofs),
        history=history if run.events else "",
        notes=tuple(run.notes),
    )


def _save(path: Path, run: _Run) -> None:
    """Write the history; a full disk is no reason to lose the report."""
    try:
        path.write_text("".join(f"{json.dumps(event)}\n" for event in run.events), encoding="utf-8")
    except OSError as error:
        run.notes.append(f"the history could not be written: {error}")


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
    metastore: str = ""
    proofs: list[Proof] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._began = time.monotonic()

    def all(self, name: TableName, services: Services | None) -> None:
        """Prove what can be proven; at the end nothing is left, also after Ctrl-C."""
        met, why = services, "no metastore"
        if services is not None and not self._prove("the metastore answers", partial(self._answer, name, services)):
            met, why = None, "the metastore does not answer"
        try:
            self._contract()
            self._races()
            if met is not None and self._prove("a table is made", partial(self._made, name, met)):
                self._meet(Meeting(name, met, self.extent, self._ends(1.0), self.events, self.notes))
                self._judge(call_seconds(met.config))
            else:
                why = why if met is None else "there is no table"
                self.proofs += [Proof(promise=text, state=NOT_TRIED, message=why) for text in checker.CHECKS]
        finally:
            with handled(signal.SIG_IGN, *ENDING):  # a second Ctrl-C waits until all is taken away
                is_clean = self._prove("nothing is left behind", partial(self._cleaned, name, met))
            if not is_clean:
                logger.warning("%s", self.proofs[-1].message)  # after a Ctrl-C nobody gets the report

    def _ends(self, share: float) -> float:
        return self._began + share * 60 * self.extent.minutes

    def _prove(self, promise: str, trial: Callable[[], str]) -> bool:
        """Try a promise: the trial returns what it has tried. Return whether it held."""
        current().begin(promise)
        began, state = time.monotonic(), HELD
        try:
            message = trial()
        except (BrokenError, RefutedError) as broken:
            state, message = BROKEN, str(broken)
        except (TableWriterError, OSError, pa.ArrowException, UntriedError) as failure:
            state, message = FAILED, f"cannot be tried to its end: {failure}"
        seconds = time.monotonic() - began
        self.proofs.append(Proof(promise=promise, state=state, message=message, seconds=seconds))
        return state == HELD

    def _answer(self, name: TableName, services: Services) -> str:
        self.metastore = services.metastore.uri
        services.metastore.get_table(name)
        if version := services.metastore.server_version():
            self.metastore += f" is Hive {version}"
        return self.metastore

    def _contract(self) -> None:
        """Make every trial of the store."""
        current().begin("the store's contract")
        self.proofs += [
            Proof(promise=f"store: {verdict.name}", state=STORES[verdict.answer], message=verdict.message)
            for verdict in try_store(probe_below(self.root, self.open_store))
        ]

    def _races(self) -> None:
        """Let many claims race: of each race one wins."""
        probe = probe_below(self.root, self.open_store)
        count, ends = self.extent.races, self._ends(SHARE_OF_RACES)

        def tried() -> str:
            current().count("races", count)
            done = sum(many(lambda number: _raced(probe, number, ends), range(count), threads=RACES_AT_ONCE))
            if done < count:
                self.notes.append(f"the time was over after {done:,} of {count:,} races")
            if not done:
                raise UntriedError("the time was over before the first race")
            return f"{done:,} races of 8 claims each: one wins, and its bytes are there"

        try:
            self._prove("of racing claims one wins", tried)
        finally:
            probe.leave()

    def _made(self, name: TableName, services: Services) -> str:
        table = Table(
            name=name,
            kind="EXTERNAL_TABLE",
            location=str(self.root.child("table")),
            columns=(Column("id", "string"),),
            partition_columns=(Column("part", "string"),),
        )
        if not services.metastore.add_table(as_parquet(table)):
            raise UntriedError(f"there is a table {name} already")
        return f"{name}, an external table"

    def _meet(self, meeting: Meeting) -> None:
        """Take the steps in turn; the first one that does not hold is the last, since the next would be about it."""
        try:
            all(self._prove(promise, step) for promise, step in meeting.steps().items())
        finally:
            meeting.close()

    def _judge(self, seconds: float) -> None:
        """Let the checker judge the history; a call counted as lost after so many seconds."""
        history, judgements = checker.judge(self.events)
        seen = f"{len(history.writes):,} writes, {len(history.reads):,} reads"
        if split := split_reads(history):
            self.notes.append(
                f"{counted(len(split), 'read')} saw a write in some of its partitions, and not yet in others"
                f" ({few(split, most=1)}): the metastore's database lets them, or the metastore has switched in steps"
            )
        if any(broken for _, broken in judgements.values()):
            self.notes.append(
                f"a call to the metastore counted as lost after {seconds:g} seconds: if one may have stalled longer,"
                " run it again with a metastore_timeout_seconds (--metastore-timeout) of more than that; 120 means 5"
            )
        for promise, (state, broken) in judgements.items():
            message = f"{counted(len(broken), 'time')}: {few(broken, most=2)}" if broken else seen
            self.proofs.append(Proof(promise=promise, state=state, message=message))

    def _cleaned(self, name: TableName, services: Services | None) -> str:
        """Drop the table, abort the uploads and delete the objects, whichever of these fails."""
        refused: list[str] = []

        def attempt(what: str, do: Callable[[], Answer], otherwise: Answer) -> Answer:
            try:
                return do()
            except TableWriterError as failure:
                refused.append(f"{what}: {failure}")
                return otherwise

        kept = None
        if services is not None:
            metastore = services.metastore
            attempt(f"table {name} cannot be dropped", lambda: metastore.remove_table(name), None)
            kept = attempt(f"table {name} cannot be looked for", lambda: metastore.get_table(name), None)
        uploads = attempt(f"uploads below {self.root} cannot be aborted", self._abort, 0)
        objects = attempt(f"objects below {self.root} cannot be deleted", self._delete, 0)
        if refused:
            raise UntriedError(f"something is left behind, so delete it: {'; '.join(refused)}")
        if kept is not None:
            raise BrokenError(f"the metastore says that table {name} is dropped, and has it still: drop it")
        kinds = {"objects": self._store.list(self.root.key), "uploads": self._store.list_uploads(self.root.key)}
        if left := [kind for kind, found in kinds.items() if any(found)]:
            raise BrokenError(
                f"the store says that all are gone, and lists {' and '.join(left)} below {self.root}: delete them"
            )
        return f"{counted(objects, 'object')} and {counted(uploads, 'upload')} were taken away"

    @cached_property
    def _store(self) -> ObjectStore:
        return self.open_store()

    def _abort(self) -> int:
        uploads = list(self._store.list_uploads(self.root.key))
        for upload in uploads:
            self._store.abort_upload(upload.key, upload.upload_id)
        return len(uploads)

    def _delete(self) -> int:
        """Delete objects, and the marks of directories, which a metastore makes and no listing of ours shows."""
        found = list(self._store.list(self.root.key))
        self._store.delete(found)
        directories = {self.root.key, self.root.child("table").key}
        for info in found:
            names = info.key.removeprefix(self.root.key).split("/")[:-1]
            directories |= {f"{self.root.key}{'/'.join(names[:count])}/" for count in range(1, len(names) + 1)}
        for directory in sorted(directories, key=len, reverse=True):  # from below
            with suppress(TableWriterError):  # it stays as an empty name
                self._store.delete([directory])
        return len(found)


def split_reads(history: checker.History) -> list[str]:
    """Name the reads that surely saw half of a write: a later read has found it where they did not."""
    shown = {(view.read["t"], view.partition, write.name) for view in history.views for write in view.writes}
    last_seen: dict[tuple[str, str], float] = {}  # by partition and write: when the last read began that shows it
    for view in history.views:
        last_seen |= {(view.partition, write.name): view.read["began"] for write in view.writes}
    split = {
        view.read["t"]: f"{write.name} in {view.partition} and not in {partition}"
        for view in history.views
        for write in view.writes
        for partition in write.rows
        if (view.read["t"], partition, write.name) not in shown
        and last_seen.get((partition, write.name), -math.inf) > view.read["t"]
    }
    return [split[at] for at in sorted(split)]


def _raced(probe: Probe, number: int, ends: float) -> int:
    if time.monotonic() >= ends:
        return 0
    race(probe, f"race-{number}")
    current().advance()
    return 1
