"""The listeners of a write's progress: a bar, lines of a log, none, or the user's own."""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import sys
import threading
import time
from contextlib import AbstractContextManager
from typing import Any, Final, TextIO

from table_writer.errors import InvalidInputError, printable
from table_writer.model.process import PerProcess, this_process
from table_writer.progress import PROGRESS_CHOICES, Progress, ProgressListener, WriteProgress, report_progress

logger = logging.getLogger("table_writer")
LOG_SECONDS: Final = 30.0  # between two lines
COUNTED: Final = "{desc} {percentage:3.0f}%|{bar}| {unit} [{elapsed}]"
UNCOUNTED: Final = {False: "{desc} [{elapsed}]", True: "{desc} {bar} [{elapsed}]"}  # a widget without its gauge moves
PROGRESS_VARIABLE: Final = "TABLE_WRITER_PROGRESS"  # of the environment, for programs that set no progress themselves
CLEAR_LINE: Final = "\r\x1b[K"
FIRST_PROCESS: Final = this_process()
_drawing: Final = PerProcess(threading.RLock)


def show_progress(
    choice: str | ProgressListener, *, table: str, mode: str, write_id: str = "", spark_has_bar: bool = False
) -> AbstractContextManager[None]:
    """Show how far a write is, from one second after its begin to the end of the block; its id may come later.

    Spark's own bar would be drawn in the same line of a terminal.
    """
    progress_listener = listener(choice, spark_has_bar=spark_has_bar)
    return report_progress(WriteProgress(progress_listener, table=table, mode=mode, write_id=write_id))


def listener(choice: str | ProgressListener, *, spark_has_bar: bool = False) -> ProgressListener | None:
    """Return the listener of one write; ``None`` for none."""
    if not isinstance(choice, str):
        return choice
    choice = os.environ.get(PROGRESS_VARIABLE) or choice if choice == "auto" else choice
    if choice not in PROGRESS_CHOICES:
        raise InvalidInputError(f"{PROGRESS_VARIABLE}={choice!r}: expected one of {', '.join(PROGRESS_CHOICES)}")
    notebook = _in_notebook()
    if choice == "auto":
        choice = "bar" if notebook or (_is_terminal(sys.stderr) and not spark_has_bar) else "log"
    if choice == "bar":
        return BarListener(widget=notebook)
    return LogListener() if choice == "log" else None


class LogListener:
    """Logs each step of a write, every 30 seconds of a long step, and how the write ended.

    In a program that has configured no logging it writes to standard error instead.
    """

    def __init__(self, seconds: float = LOG_SECONDS) -> None:
        self._seconds = seconds
        self._next = 0.0
        self._step = ""

    def __call__(self, progress: Progress, /) -> None:
        now = time.monotonic()
        if progress.state == "running" and progress.step == self._step and now < self._next:
            return
        self._next, self._step = now + self._seconds, progress.step
        if logger.hasHandlers():
            logger.info("%s%s", f"write_id={progress.write_id} " if progress.write_id else "", progress)
        elif sys.stderr is not None:
            start = CLEAR_LINE if _is_terminal(sys.stderr) else ""  # Spark's bar may be there
            sys.stderr.write(f"{start}{progress}\n")
            sys.stderr.flush()


class BarListener:
    """Draws one bar with tqdm: a line of a terminal, or a widget in a notebook that has ipywidgets.

    Without a stream the bar goes to what standard error is when it is first drawn.
    """

    def __init__(self, *, widget: bool = False, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._widget = widget and importlib.util.find_spec("ipywidgets") is not None
        self._bar: PerProcess[Any] = PerProcess(self._new_bar, let_go=_leave_alone)

    def __call__(self, progress: Progress, /) -> None:
        try:
            self._draw(progress)
        except BaseException:  # Ctrl-C too; raised again
            for bar in self._bar.own_values():
                _leave_alone(bar)
            raise

    def _new_bar(self) -> Any:
        # tqdm draws nothing in a terminal without a size; without the delay it would draw before it has a name
        shape = {} if self._widget else {"ncols": 80, "nrows": 20}
        return _bar_class(widget=self._widget)(total=1, file=self._stream, delay=1e-9, **shape)

    def _draw(self, progress: Progress) -> None:
        running = progress.state == "running"
        total = progress.total if running else 0
        bar = self._bar.get()
        if total:
            bar.n, bar.bar_format = min(1.0, progress.done / total), COUNTED
            bar.unit = f"{progress.done}/{total} {progress.unit}"
        else:
            bar.n, bar.bar_format = int(progress.state == "done"), UNCOUNTED[self._widget]
        bar.start_t = time.time() - progress.seconds
        bar.set_description_str(f"{printable(progress.table)}: {progress.activity}", refresh=False)
        if not self._widget:
            bar.ncols = shutil.get_terminal_size().columns
        with bar.get_lock():  # refresh() would keep the lock of all bars if the terminal failed
            bar.display()
        if not running:
            bar.close()


def _bar_class(*, widget: bool) -> type[Any]:
    """Return tqdm's bar without its watcher, a thread that would stay."""
    if widget:
        from tqdm.notebook import tqdm_notebook as base  # noqa: PLC0415 - warns where there are no ipywidgets
    else:
        from tqdm.std import tqdm as base  # noqa: PLC0415 - most writes are too short to be seen
    # in a fork the lock of all bars may be held for ever
    lock = {} if this_process() is FIRST_PROCESS else {"_lock": _drawing.get()}
    return type("Bar", (base,), {"monitor_interval": 0, **lock})


def _leave_alone(bar: Any) -> None:
    """Keep a bar from being drawn once more when it is deleted: after an error, or in a forked child."""
    bar.disable = True


def _in_notebook() -> bool:
    """Return whether output goes to a notebook; IPython is asked only where it runs already."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def _is_terminal(stream: Any) -> bool:
    """Return whether a stream is a terminal; one that is closed, or ``None``, is not."""
    try:
        return bool(stream is not None and stream.isatty())
    except ValueError:
        return False
