"""One history as a person reads it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

from .history import OPERATIONS, WITHOUT_CALLS, Calls, History, Step, drawn, shortened
from .simulation import Simulation

BEFORE = {"adopt": ("drop",), "restore": ("drop",), "publish": ("stage", "stage"), "discard": ("stage",)}


@cache
def calls_made() -> Calls:
    """Return which calls each operation makes, so that something happens at calls that are made."""
    return {one: _calls_of(one) for one in OPERATIONS.keys() - WITHOUT_CALLS}


def _calls_of(operation: str) -> dict[tuple[str, str], int]:
    most: Counter[tuple[str, str]] = Counter()
    for seed in range(2):
        simulation = Simulation()
        before = ("overwrite", "append", "overwrite", "create", *BEFORE.get(operation, ()), "wait")
        simulation.run([*(Step(one, seed) for one in before), Step(operation, seed)], ends=False)
        most |= simulation.calls
    return dict(sorted(most.items()))


def history(seed: int, *, unpartitioned: bool = False) -> History:
    """Return the history of a seed, of a table with partitions, or of one without."""
    found = drawn(seed, calls_made())
    return replace(found, partitions=0) if unpartitioned else found


def told(history: History) -> tuple[list[str], list[str]]:
    """Run a history; return its trace and what was wrong."""
    simulation = Simulation(history.partitions)
    wrong = simulation.run(history.steps)
    return simulation.trace, wrong


def failure_of(history: History) -> str | None:
    """Run a history; return what was done and what was wrong, ``None`` if nothing was."""
    trace, wrong = told(history)
    return "\n".join([*trace, f"WRONG: {wrong[0]}"]) if wrong else None


def shortest(history: History) -> str:
    """Return the trace of a failing history with all left out that it fails without."""
    return failure_of(shortened(history, lambda shorter: failure_of(shorter) is not None)) or "it does not fail"
