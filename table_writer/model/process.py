"""Keep connections and clients to one process: a process forked from it starts with none, and opens its own.

A connection that two processes share gives each the other's answers; a lock that another thread held at the moment of
a fork is never given back in the child. So whatever is opened or locked and outlives a call is held by a
:class:`PerProcess`, and whatever a process has begun, and only it may end, remembers :func:`this_process`.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Final, Generic, NoReturn, TypeVar

T = TypeVar("T")


class PerProcess(Generic[T]):
    """A holder of one value per process, made on first use. Several threads may use it; it is never copied or pickled.

    In a forked child the parent's value is let go at once, before any other code of the child runs. ``let_go`` may
    close what the child has copies of; it must neither wait for a lock nor send anything. The value itself is kept from
    then on, unused: its destructor could.

    Examples
    --------
    >>> numbers = iter((1, 2))
    >>> holder = PerProcess(lambda: next(numbers))
    >>> holder.get(), holder.get()
    (1, 1)
    """

    def __init__(self, make: Callable[[], T], *, let_go: Callable[[T], object] | None = None) -> None:
        self._make = make
        self._let_go = let_go
        self._values: tuple[T, ...] = ()
        self._lock = threading.Lock()
        _holders.add(self)

    def get(self) -> T:
        """Return this process's value."""
        if not self._values:
            with self._lock:
                if not self._values:
                    self._values = (self._make(),)
        return self._values[0]

    def own_values(self) -> tuple[T, ...]:
        """Return this process's value if there is one yet, in a tuple of one."""
        return self._values

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "what a process has opened (connections, clients, locks) can be neither pickled nor copied: hand over the"
            " settings, and let the other process open its own"
        )

    def _start_anew(self) -> None:
        """Forget, in a forked child, what the parent had."""
        inherited, self._values = self._values, ()
        self._lock = threading.Lock()
        _inherited.extend(inherited)
        if self._let_go is not None:
            for value in inherited:
                self._let_go(value)


_holders: Final[weakref.WeakSet[PerProcess[Any]]] = weakref.WeakSet()
_inherited: Final[list[object]] = []
_process_marker: Final[list[object]] = [object()]  # stands for this process; a fork has another one


def this_process() -> object:
    """Return an object that is the same all through this process, and another one in a fork of it."""
    return _process_marker[0]


def _after_fork() -> None:
    """Run in a forked child, which has one thread now, before its own code goes on."""
    _process_marker[0] = object()
    for holder in list(_holders):
        holder._start_anew()  # noqa: SLF001 - of this module


os.register_at_fork(after_in_child=_after_fork)


def boot_seconds() -> float:
    """Return seconds on a clock that goes on while the machine is suspended, where the system has one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def wall_seconds() -> float:
    """Return seconds on the clock that people set: it goes on while a hypervisor has paused the machine."""
    return time.time()
