"""One thread, one clock and numbered names, so that a seed is a history: what the library takes from Python itself."""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, tzinfo
from itertools import count
from typing import Any

from table_writer.model import write
from table_writer.protocol.log import deadline, table_log


def _at_once(_: ThreadPoolExecutor, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
    done: Future[Any] = Future()
    try:
        done.set_result(call(*arguments, **named))
    except BaseException as error:  # noqa: BLE001  # as a pool's thread does
        done.set_exception(error)
    return done


class _NoHeartbeat(threading.Thread):
    """A heartbeat's thread that never beats: its process may be paused at any time anyway."""

    def start(self) -> None:
        """Do nothing."""

    def join(self, timeout: float | None = None) -> None:
        """Do nothing."""


class _OneSecond(datetime):
    """A clock for the names of writes, which tell them apart by their numbers alone: a run may last longer."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> _OneSecond:
        """Return always the same."""
        return cls(2024, 1, 1, tzinfo=tz)


@contextmanager
def pools_at_once() -> Iterator[None]:
    """Let thread pools do everything in the thread that submits it, in order."""
    submit = ThreadPoolExecutor.submit
    ThreadPoolExecutor.submit = _at_once  # type: ignore[method-assign]
    try:
        yield
    finally:
        ThreadPoolExecutor.submit = submit  # type: ignore[method-assign]


@contextmanager
def names_drawn() -> Iterator[None]:
    """Draw names from ``random``, which hypothesis seeds for each history: the same history has the same names."""
    with _replaced(
        (secrets, "token_hex", lambda size=8: random.randbytes(size).hex()), (write, "datetime", _OneSecond)
    ):
        yield


@contextmanager
def strings_pulled(seconds: Callable[[], float]) -> Iterator[None]:
    """Run everything in this thread, deadlines by ``seconds``, and number what would be random.

    These are Python's own functions and a constant, and only in here: the library has no seam for them, since nothing
    else would use one.
    """
    numbers = count(1)
    replaced: list[tuple[Any, str, Any]] = [
        (threading, "Thread", _NoHeartbeat),
        (secrets, "token_hex", lambda _=8: f"{next(numbers):016x}"),
        (time, "clock_gettime", lambda _: seconds()),
        (deadline, "wall_seconds", seconds),
        (write, "datetime", _OneSecond),
        (table_log, "FOLD_EVERY_VERSIONS", 2),  # histories are short
    ]
    with _replaced(*replaced), pools_at_once():
        yield


@contextmanager
def _replaced(*replaced: tuple[Any, str, Any]) -> Iterator[None]:
    kept = [getattr(owner, name) for owner, name, _ in replaced]
    for owner, name, double in replaced:
        setattr(owner, name, double)
    try:
        yield
    finally:
        for (owner, name, _), original in zip(replaced, kept, strict=True):
            setattr(owner, name, original)
