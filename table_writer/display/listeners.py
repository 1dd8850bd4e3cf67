"""The listeners of a write's progress: a bar, lines of a log, none, or the user's own."""

from __future__ import annotations

import importlib.util
import logging
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

from table_writer.errors import printable
from table_writer.model.process import PerProcess, this_process
from table_writer.progress import Progress, ProgressListener, WriteProgress, reported

__all__ = ["BarListener", "LogListener", "listener", "showing"]

LOG_SECONDS: Final = 30.0  # between two lines

logger = logging.getLogger("table_writer")

COUNTED: Final = "{desc} {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} {unit} [{elapsed}]"
UNCOUNTED: Final = {False: "{desc} [{elapsed}]", True: "{desc} {bar} [{elapsed}]"}  # a widget without its gauge moves

FIRST_PROCESS: Final = this_process()
_drawing: Final = PerProcess(threading.RLock)


@contextmanager
def showing(
    choice: str | ProgressListener, *, table: str, mode: str, write_id: str = "", spark_draws: bool = False
) -> Iterator[None]:
    """Show how far a write is, from its second second to the end of the block.

    Parameters
    ----------
    choice
        Of the config.
    table, mode, write_id
        Of the write; its id may become known later.
    spark_draws
        Spark's own progress bar is on, in the same terminal.
    """
    told = listener(choice, spark_draws=spark_draws)
    with reported(WriteProgress(told, table=table, mode=mode, write_id=write_id)):
        yield


def listener(choice: str | ProgressListener, *, spark_draws: bool = False) -> ProgressListener | None:
    """Return the listener of one write; ``None`` for none.

    Examples
    --------
    >>> listener("off") is None, listener(print) is print
    (True, True)
    """
    if not isinstance(choice, str):
        return choice
    notebook, terminal = _in_notebook(), _is_terminal(sys.stderr)
    makers: dict[str, Callable[[], ProgressListener | None]] = {
        "bar": lambda: BarListener(widget=notebook, spark_draws=spark_draws and terminal and not notebook),
        "log": LogListener,
        "off": lambda: None,
    }
    automatic = "bar" if notebook or terminal else "log"
    return makers[automatic if choice == "auto" else choice]()


class LogListener:
    """Tells a log: at most every 30 seconds, and how it ended."""

    def __init__(self, seconds: float = LOG_SECONDS) -> None:
        self._seconds = seconds
        self._next = 0.0

    def __call__(self, progress: Progress, /) -> None:
        """Write a line, if it is time."""
        now = time.monotonic()
        if progress.state == "running" and now < self._next:
            return
        self._next = now + self._seconds
        logger.info("write_id=%s %s", progress.write_id or "(not planned yet)", progress)


class BarListener:
    """Draws one bar, by tqdm: a line of a terminal, or a widget of a notebook that has ipywidgets.

    Parameters
    ----------
    widget
        Whether this is a notebook.
    spark_draws
        Spark draws the tasks of its jobs in the same line: it has the line while there are some.
    stream
        The terminal; by default standard error as it is when the bar is first drawn.
    """

    def __init__(self, *, widget: bool = False, spark_draws: bool = False, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._widget = widget and importlib.util.find_spec("ipywidgets") is not None
        self._spark_draws = spark_draws
        self._bars: PerProcess[list[Any]] = PerProcess(list, let_go=_leave_to_parent)

    @property
    def _bar(self) -> Any:
        """The bar that this process draws; ``None`` as long as it has drawn none."""
        return next(iter(self._bars.get()), None)

    def __call__(self, progress: Progress, /) -> None:
        """Draw it, or its last picture."""
        try:
            if self._spark_draws and progress.unit == "tasks" and progress.state == "running":
                self._wipe()
            else:
                self._draw(progress)
        except BaseException:  # Ctrl-C too; raised again
            if self._bar is not None:
                self._bar.disable = True  # else it would draw once more when it is deleted
            raise

    def _wipe(self) -> None:
        if self._bar is not None:
            with self._bar.get_lock():
                self._bar.clear(nolock=True)

    def _draw(self, progress: Progress) -> None:
        running = progress.state == "running"
        total = (progress.total if running else 1) or None
        done = progress.done if running else int(progress.state == "done")
        if self._bar is None:
            # tqdm draws nothing in a terminal that says it has no size; delay: it would draw before it has a name
            shape = {} if self._widget else {"ncols": 80, "nrows": 20}
            new = _bar_class(widget=self._widget)(total=total, file=self._stream, delay=1e-9, **shape)
            new.start_t -= progress.seconds
            self._bars.get().append(new)
        bar = self._bar
        bar.total, bar.n, bar.unit = total, min(done, total or 0), progress.unit
        bar.bar_format = COUNTED if running and total else UNCOUNTED[self._widget]
        bar.set_description_str(f"{printable(progress.table)}: {progress.activity}", refresh=False)
        if self._widget:
            bar.container.children[1].max = total or 1
        else:
            bar.ncols = shutil.get_terminal_size().columns
        with bar.get_lock():  # its own refresh() would keep the lock of all bars if the terminal failed
            bar.display()
        if not running:
            bar.close()


def _bar_class(*, widget: bool) -> type[Any]:
    """Return tqdm's bar without its watcher, a thread that would stay."""
    if widget:
        from tqdm.notebook import tqdm_notebook as base  # noqa: PLC0415 - warns where there are no ipywidgets
    else:
        from tqdm.std import tqdm as base  # noqa: PLC0415 - most writes are too short to be seen
    # the lock of all bars may be held for ever in a fork
    lock = {} if this_process() is FIRST_PROCESS else {"_lock": _drawing.get()}
    return type("Bar", (base,), {"monitor_interval": 0, **lock})


def _leave_to_parent(bars: list[Any]) -> None:
    """Keep a forked child from drawing its parent's bar once more when it is deleted."""
    for bar in bars:
        bar.disable = True


def _in_notebook() -> bool:
    """Whether output goes to a notebook; asks IPython only where it runs already."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def _is_terminal(stream: Any) -> bool:
    """Whether somebody looks at it; a stream that is closed, or none at all, nobody does."""
    try:
        return bool(stream is not None and stream.isatty())
    except ValueError:
        return False
