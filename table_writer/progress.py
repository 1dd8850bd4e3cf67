"""The progress of a write: its counts, and the protocol by which listeners are told of them.

Steps say what they do and count; nobody but a thread of the write's own looks at the counts, twice a second and not
before the first second is over. So a step costs nothing, a short write shows nothing, and a listener that fails or
hangs does so beside the write.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from table_writer.errors import printable
from table_writer.events.event import StepTime
from table_writer.model.process import PerProcess, this_process

if TYPE_CHECKING:
    from table_writer.metastore.protocol import Metastore
    from table_writer.storage.object_store import ObjectStore

logger = logging.getLogger("table_writer")
PROGRESS_CHOICES: Final = ("auto", "bar", "log", "off")
QUIET_SECONDS: Final = 1.0  # a shorter write shows nothing
TICK_SECONDS: Final = 0.5
LAST_TICK_SECONDS: Final = 2.0  # how long the end of a write waits for a listener that is at work
State = Literal["running", "done", "failed"]
UploadedBy = Literal["", "driver", "executors"]
Ask = Callable[[], tuple[int, int, str]]  # returns the number of units done, their total, and their name


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """The progress of one write at one moment.

    Parameters
    ----------
    table, mode
        What was called.
    write_id
        Empty while the write is planned.
    step
        ``"plan"``, ``"upload"``, ``"complete"``, ``"check"`` or ``"publish"``; of a call on many tables ``"vacuum"``,
        ``"recover"`` or ``"look"``.
    done, total, unit
        Of the step: Spark tasks, uploads or copies, or tables; ``total`` is ``None`` for a step that counts nothing.
    seconds
        Since the call.
    state
        ``"running"``, or how it ended: ``"done"``, ``"failed"``.

    Examples
    --------
    >>> print(Progress(table="mart.orders", mode="append", step="upload", done=90, total=200, unit="tasks", seconds=12))
    mart.orders: upload, 90 of 200 tasks, 12 s
    """

    table: str
    mode: str
    write_id: str = ""
    step: str = "plan"
    done: int = 0
    total: int | None = None
    unit: str = ""
    seconds: float = 0.0
    state: State = "running"

    @property
    def activity(self) -> str:
        """Return what is done now, or how the write ended."""
        return {"running": self.step, "done": "done", "failed": f"failed in {self.step}"}[self.state]

    def __str__(self) -> str:
        counted = bool(self.total) and self.state == "running"
        count = f", {self.done:,} of {self.total:,} {self.unit}" if counted else ""
        return f"{printable(self.table)}: {self.activity}{count}, {self.seconds:.0f} s"


class ProgressListener(Protocol):
    """A function that is told how far a write is: twice a second after the first one, and once at the end.

    Calls come from a thread of the write; the last one, whose ``state`` is not ``"running"``, from the caller's. Writes
    of less than a second are not told of. What a listener raises is logged once, and it is told no more of that write.
    """

    def __call__(self, progress: Progress, /) -> None:
        """Take the progress."""


class WriteProgress:
    """The counts of one write, and the thread that tells a listener of them; the id may become known later.

    Without a listener there is no thread.
    """

    def __init__(
        self, listener: ProgressListener | None, *, table: str = "", mode: str = "", write_id: str = ""
    ) -> None:
        self._listener = listener
        self._has_told = False
        self._progress = Progress(table=table, mode=mode, write_id=write_id)
        self._ask: Ask | None = None
        self._started_seconds = time.monotonic()
        self._lock = PerProcess(threading.Lock)
        self._process = this_process()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="table_writer-progress", daemon=True)

    @property
    def snapshot(self) -> Progress:
        """Return how far the write is now."""
        with self._lock.get():
            return replace(self._progress, seconds=time.monotonic() - self._started_seconds)

    def start(self) -> None:
        """Start the thread that tells the listener, if there is one."""
        if self._listener is not None:
            self._thread.start()

    def end(self, state: State) -> None:
        """Tell how the write ended, if the listener was told before. Then no thread runs, unless the listener hangs.

        A forked child that leaves the write has no such thread, and shows nothing: its parent goes on with both.
        """
        if self._process is not this_process():
            return
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(LAST_TICK_SECONDS)
        self._set(state=state)
        if self._thread.is_alive():
            logger.warning("write_id=%s: who shows its progress does not return", self._progress.write_id)
        elif self._has_told:
            self._tell()

    def name(self, write_id: str) -> None:
        """Set the ``write_id``, once it is known."""
        self._set(write_id=write_id)

    def begin(self, step: str) -> None:
        """Begin a step."""
        self._set(step=step, done=0, total=None, unit="")

    def count(self, unit: str, total: int) -> None:
        """Set the number of units that this step has to do."""
        self._set(done=0, total=total, unit=unit)

    def advance(self) -> None:
        """Count one more unit as done; several threads may call this at once."""
        with self._lock.get():
            self._progress = replace(self._progress, done=self._progress.done + 1)

    @contextmanager
    def asking(self, ask: Ask) -> Iterator[None]:
        """Within this block, ask for the counts, on the thread that tells the listener.

        So the thread that waits for the work only waits, and Ctrl-C never interrupts a question.
        """
        self._ask = ask
        try:
            yield
        finally:
            self._ask = None

    def _set(self, **changes: Any) -> None:
        with self._lock.get():
            self._progress = replace(self._progress, **changes)

    def _run(self) -> None:
        seconds = QUIET_SECONDS
        while not self._end.wait(seconds):
            self._look()
            self._tell()
            seconds = TICK_SECONDS

    def _look(self) -> None:
        ask = self._ask
        if ask is None:
            return
        try:
            done, total, unit = ask()
        except Exception:  # a write does not fail because its progress cannot be counted
            logger.warning("write_id=%s: its tasks cannot be counted", self._progress.write_id, exc_info=True)
            self._ask = None
            return
        with self._lock.get():
            if self._ask is ask:  # otherwise the answer is about a step that is over
                self._progress = replace(self._progress, done=done, total=total, unit=unit)

    def _tell(self) -> None:
        if self._listener is None:
            return
        self._has_told = True
        try:
            self._listener(self.snapshot)
        except Exception:  # a write does not fail because its listener does
            logger.warning("write_id=%s: its progress is not shown any more", self._progress.write_id, exc_info=True)
            self._listener = None


NOBODY: Final = WriteProgress(None)  # its counts are never shown
_current: ContextVar[WriteProgress] = ContextVar("table_writer_progress", default=NOBODY)


def current() -> WriteProgress:
    """Return the progress of the write that this thread carries out; without one, a progress that nobody sees."""
    return _current.get()


@contextmanager
def report_progress(progress: WriteProgress) -> Iterator[None]:
    """Make ``progress`` the current one of this thread within the block, and end it with the block."""
    token = _current.set(progress)
    progress.start()
    try:
        yield
    except BaseException:  # Ctrl-C as well
        progress.end("failed")
        raise
    else:
        progress.end("done")
    finally:
        _current.reset(token)


class Stopwatch:
    """A stopwatch with counts of requests and calls; other writes of the session at the same time are counted too."""

    def __init__(self, metastore: Metastore) -> None:
        self._metastore = metastore
        self._calls_before = Counter(metastore.call_counts())
        self._request_counts: Callable[[], Mapping[str, int]] = dict
        self._requests_before: Counter[str] = Counter()
        self._executor_requests: Counter[str] = Counter()
        self.seconds: dict[str, float] = {}
        self.steps: list[StepTime] = []
        self.uploaded_by: UploadedBy = ""

    def follow(self, store: ObjectStore) -> None:
        """Count the driver's requests to this store from now on."""
        self._request_counts = store.request_counts
        self._requests_before = Counter(store.request_counts())

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time one step, and show it as the current one."""
        current().begin(name)
        started_at, start = datetime.now(UTC), time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds
            self.steps.append(StepTime(name=name, started_at=started_at, seconds=seconds))

    def add_requests(self, counts: Mapping[str, int]) -> None:
        """Add what executors sent, by kind."""
        self._executor_requests.update(counts)

    def storage_requests(self) -> Mapping[str, int]:
        """Return the requests sent so far, by kind, of driver and executors together."""
        return dict(Counter(self._request_counts()) - self._requests_before + self._executor_requests)

    def metastore_calls(self) -> Mapping[str, int]:
        """Return the calls sent so far, by Thrift method."""
        return dict(Counter(self._metastore.call_counts()) - self._calls_before)
