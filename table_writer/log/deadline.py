"""The time a claimant has: after it, others may finish what it has claimed."""

from __future__ import annotations

from collections.abc import Callable

from table_writer.boot_clock import boot_seconds

__all__ = ["Deadline"]


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
