"""The clock of this machine that nobody sets."""

from __future__ import annotations

import time

__all__ = ["boot_seconds"]


def boot_seconds() -> float:
    """Return seconds on a clock that goes on while the machine is suspended, where the system has one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
