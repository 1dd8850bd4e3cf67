"""One history as a person reads it."""

from __future__ import annotations

from .history import Step, shortened
from .simulation import Simulation


def failure_of(steps: tuple[Step, ...]) -> str | None:
    """Run a history; return what was done and what was wrong, ``None`` if nothing was."""
    simulation = Simulation()
    wrong = simulation.run(steps)
    return "\n".join([*simulation.trace, f"WRONG: {wrong[0]}"]) if wrong else None


def shortest(steps: tuple[Step, ...]) -> str:
    """Return the trace of a failing history with all left out that it fails without."""
    return failure_of(shortened(steps, lambda shorter: failure_of(shorter) is not None)) or "it does not fail"
