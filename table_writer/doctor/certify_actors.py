"""The processes of a certification: writers, who may be killed at any moment, and readers. They tell what they do."""

from __future__ import annotations

import multiprocessing
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any, Final

import pyarrow as pa

from table_writer.arrow.writer import ArrowWriter
from table_writer.config import TableWriterConfig
from table_writer.errors import (
    DamagedError,
    LostResponseError,
    OutcomeUnknownError,
    PartlyPublishedError,
    TableWriterError,
)
from table_writer.read.dataset import read_arrow
from table_writer.signals import handled
from table_writer.storage.object_store import SourceChangedError, UnorderedListingError

OVERWRITTEN: Final = ("o0", "o1", "o2", "o3")  # partitions
APPENDED: Final = "a"  # a partition that nobody overwrites
ROWS: Final = 3  # of a write in a partition
BACK_OFF_SECONDS: Final = 0.5  # after a call that has failed
UNKNOWN: Final = (OutcomeUnknownError, LostResponseError, PartlyPublishedError)  # it may be published, or in part
START_SECONDS: Final = 60.0  # of a process
Event = dict[str, Any]
Tell = Callable[[Event], None]


def rows_of(write: str, partitions: Mapping[str, int]) -> pa.Table:
    """Return the rows of a write, which have its name in them."""
    pairs = [(f"{write}/{number}", partition) for partition, count in partitions.items() for number in range(count)]
    return pa.table({"id": [text for text, _ in pairs], "part": [partition for _, partition in pairs]})


def is_damage(failure: BaseException) -> bool:
    """Return whether what was stored is not there, or is not what was written; else a service has not answered."""
    if isinstance(failure, OSError) and failure.errno is None:  # pyarrow's, of a file that is none
        return not isinstance(failure, ConnectionError | TimeoutError)
    found = DamagedError | SourceChangedError | UnorderedListingError | FileNotFoundError | pa.ArrowException
    return isinstance(failure, found)


def write_once(
    writer: ArrowWriter, table: str, tell: Tell, write: str, kind: str, partitions: Sequence[str]
) -> TableWriterError | None:
    """Make one write, and tell how it began and ended; returns the error with which it was not published."""
    counts = dict.fromkeys(partitions, ROWS)
    tell({"event": "begin", "write": write, "kind": kind, "rows": counts})
    call = writer.overwrite_partitions if kind == "overwrite" else writer.append
    try:
        call(rows_of(write, counts), table)
    except TableWriterError as error:  # but for some of them, each promises that nothing is published
        outcome = "unknown" if isinstance(error, UNKNOWN) else "refused"
        why = f"{type(error).__name__}: {error.message}"
        tell({"event": outcome, "write": write, "error": why, "damaged": is_damage(error)})
        return error
    tell({"event": "published", "write": write})
    return None


def read_once(config: TableWriterConfig, table: str, tell: Tell) -> Exception | None:
    """Read the table, and tell what was found; returns the error with which it could not be read."""
    began, rows = time.monotonic(), dict[str, list[str]]()
    try:
        for row in read_arrow(table, config=config).to_table().to_pylist():
            rows.setdefault(row["part"], []).append(str(row["id"]))
    except (TableWriterError, OSError, pa.ArrowException) as failure:
        why = f"{type(failure).__name__}: {failure}"
        tell({"event": "read", "began": began, "rows": {}, "error": why, "damaged": is_damage(failure)})
        return failure
    tell({"event": "read", "began": began, "rows": rows, "error": ""})
    return None


def writes(config: TableWriterConfig, table: str, name: str, told: Connection) -> None:
    """Write until somebody says stop, or kills this process."""
    with _telling(name, told) as tell, ArrowWriter(config=config) as writer:
        chance = random.Random(name)  # noqa: S311  # a schedule, no secret
        number = 0
        while not told.poll():
            number += 1
            appends = chance.random() < 0.4
            others = chance.sample(OVERWRITTEN, 1 if appends else 2)
            chosen = (APPENDED, *others) if appends else tuple(others)
            kind = "append" if appends else "overwrite"
            if write_once(writer, table, tell, f"{name}-{number}", kind, chosen) is not None:
                time.sleep(BACK_OFF_SECONDS)


def reads(config: TableWriterConfig, table: str, name: str, told: Connection) -> None:
    """Read until somebody says stop."""
    with _telling(name, told) as tell:
        while not told.poll():
            if read_once(config, table, tell) is not None:
                time.sleep(BACK_OFF_SECONDS)


@contextmanager
def _telling(name: str, told: Connection) -> Iterator[Tell]:
    """Yield what tells the certification of an event; a fault of this process is told as its last one."""

    def tell(event: Event) -> None:
        told.send({**event, "t": time.monotonic(), "actor": name})

    try:
        yield tell
    except Exception as fault:  # noqa: BLE001  # whatever it is, somebody has to know
        of_ours = not isinstance(fault, TableWriterError | OSError)
        tell({"event": "fault", "error": f"{type(fault).__name__}: {fault}", "of_ours": of_ours})


class Actor:
    """A process that tells what it does, once it is started; its events come to a list that all actors share."""

    def __init__(
        self,
        work: Callable[[TableWriterConfig, str, str, Connection], None],
        config: TableWriterConfig,
        table: str,
        name: str,
        events: list[Event],
    ) -> None:
        self.name = name
        self._events = events
        spawning = multiprocessing.get_context("spawn")
        self._told, self._theirs = spawning.Pipe()
        self._process = spawning.Process(target=work, args=(config, table, name, self._theirs), daemon=True)
        self._begun = threading.Semaphore(0)  # released by each event
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._has_ended = False

    def start(self) -> None:
        """Start the process. Ctrl-C is for the certification, which ends its processes itself: they inherit that."""
        with handled(signal.SIG_IGN, signal.SIGINT):
            self._process.start()
        self._theirs.close()
        self._listening.start()

    def wait_for_event(self) -> bool:
        """Wait for the next event; ``False`` if there is none, because the process has ended or hangs."""
        return self._begun.acquire(timeout=START_SECONDS) and self._process.is_alive()

    def kill(self) -> None:
        """End the process at once, as the kernel does, and note which write it has not ended."""
        if self._has_ended:
            return
        if self._process.pid is not None:
            self._process.kill()
            self._process.join()
        if self._listening.ident is not None:
            self._listening.join()
        self._has_ended = True
        for connection in (self._told, self._theirs):
            connection.close()
        self._process.close()
        own = [event for event in self._events if event["actor"] == self.name and "write" in event]
        if own and own[-1]["event"] == "begin":
            self._events.append(
                {"event": "killed", "write": own[-1]["write"], "t": time.monotonic(), "actor": self.name}
            )

    def ask_to_stop(self) -> None:
        """Ask the process to end once it has done what it is doing."""
        with suppress(OSError):  # it has ended
            self._told.send("stop")

    def stop(self, seconds: float) -> None:
        """Let the process end what it does; one that does not is killed."""
        if not self._has_ended and self._process.pid is not None:
            self._process.join(seconds)
        self.kill()

    def _listen(self) -> None:
        while True:
            try:
                event = self._told.recv()
            except (EOFError, OSError):
                self._begun.release()
                return
            self._events.append(event)
            self._begun.release()
