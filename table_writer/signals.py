"""What Ctrl-C and a scheduler's SIGTERM do to this process while something runs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

ENDING: Final = (signal.SIGINT, signal.SIGTERM)  # Ctrl-C; Kubernetes, systemd, Airflow, `timeout`
Handler = Callable[[int, FrameType | None], object] | signal.Handlers


@contextmanager
def handled(handler: Handler, *numbers: signal.Signals) -> Iterator[None]:
    """Let a handler take these signals within the block. Only the first thread gets any: in others nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, was in before.items():
            signal.signal(number, signal.SIG_DFL if was is None else was)  # None: not set by Python


def interrupt(_number: int, _frame: FrameType | None) -> None:
    """End what runs as Ctrl-C does."""
    raise KeyboardInterrupt
