"""The time of a claimant, by clocks that a suspended or paused machine does not stop for long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from table_writer.model.process import boot_seconds, wall_seconds

LEAP_SECONDS: Final = 10.0
CLOCKS_AGREE_SECONDS: Final = 1.0  # two clocks of one machine differ less as long as nobody pauses it or sets one


class Deadline:
    """The time a claimant has. It starts before the claim is sent, so it ends before anybody else thinks it does.

    Its clock goes on while the machine is suspended, but not while a hypervisor has paused it: then only the wall clock
    has moved. Where the two disagree, ``claim_age`` decides: how old the claim is by the store's clock, by which
    everybody else judges it. Where nobody knows that, the longer time counts.
    """

    def __init__(
        self,
        seconds: float,
        clock: Callable[[], float] = boot_seconds,
        *,
        claim_age: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._seconds, self._clock, self._claim_age = seconds, clock, claim_age
        self._began, self._began_on_wall = clock(), wall_seconds()
        self._ahead = self._missed = 0.0  # how far the wall clock was ahead when last asked; what the clock had missed

    def allows(self, seconds: float) -> bool:
        """Return whether something that takes this long still ends in time."""
        passed = self._clock() - self._began
        ahead = wall_seconds() - self._began_on_wall - passed
        if abs(ahead - self._ahead) > CLOCKS_AGREE_SECONDS:
            age = self._claim_age()
            self._ahead, self._missed = ahead, max(0.0, ahead if age is None else age - passed)
        return passed + self._missed + seconds <= self._seconds

    def is_over(self) -> bool:
        """Return whether the time has passed."""
        return not self.allows(0.0)

    def has_leapt(self) -> bool:
        """Return whether the machine was paused since this began, or somebody has set its clock: two clocks tell."""
        return abs(wall_seconds() - self._began_on_wall - (self._clock() - self._began)) > LEAP_SECONDS
