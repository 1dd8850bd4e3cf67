"""The time a claimant has: after it, others may finish what it has claimed."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Deadline", "boot_seconds"]


def boot_seconds() -> float:
    """Return seconds on a clock that goes on while the machine is suspended, where the system has one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Deadline:
    """The time a claimant has. It starts before the claim is sent, so it ends before anybody else thinks it does.

    Parameters
    ----------
    seconds
        Time from now.
    clock
        Seconds that only grow; a double in tests.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = boot_seconds) -> None:
        self._clock = clock
        self._end = clock() + seconds

    def allows(self, seconds: float) -> bool:
        """Whether something that takes this long still ends in time."""
        return self._clock() + seconds <= self._end
