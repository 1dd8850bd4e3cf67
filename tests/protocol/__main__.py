"""``python -m tests.protocol [--large] [WORD...]``: explore what has the words in its title; print figures."""

from __future__ import annotations

import sys
from dataclasses import replace

from .batch_scenarios import BATCH_SCENARIOS
from .explorer import Explored, Explorer
from .in_place_scenarios import IN_PLACE_SCENARIOS
from .late_scenarios import LATE_SCENARIOS
from .mode_scenarios import MODES, ONLY_REPEATED
from .report import table, trace_text
from .scenarios import SCENARIOS
from .staged_scenarios import HANDED_OUT, STAGED_SCENARIOS
from .telling_scenarios import TELLING_SCENARIOS

STAGED = (*STAGED_SCENARIOS, *HANDED_OUT)


def main(arguments: list[str]) -> int:
    words = [argument for argument in arguments if argument != "--large"]
    chosen = [
        one
        for one in (
            *SCENARIOS,
            *MODES,
            *ONLY_REPEATED,
            *STAGED_SCENARIOS,
            *HANDED_OUT,
            *LATE_SCENARIOS,
            *TELLING_SCENARIOS,
            *BATCH_SCENARIOS,
            *IN_PLACE_SCENARIOS,
        )
        if all(word in one.title for word in words)
    ]
    if "--large" in arguments:
        chosen = [replace(one, budget=one.larger or one.budget) for one in chosen]
    found: list[Explored] = []
    for scenario in chosen:
        found.append(Explorer(scenario).run())
        print(f"{found[-1].states:>10,} {scenario.title}", file=sys.stderr, flush=True)
    print(table(found))
    for one in found:
        if one.problem:
            print(f"\n{trace_text(one)}")
    return int(any(one.problem for one in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
