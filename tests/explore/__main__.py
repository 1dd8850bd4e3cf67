"""Explore by hand: ``python -m tests.explore --actors "append, rollback" --schedules 1000``."""

from __future__ import annotations

import argparse
import logging
import sys
from contextlib import ExitStack

from .every_mutation import EVERY_MUTATION
from .run import begin_of
from .scenarios import PAIRS, TRIPLES
from .schedule import Schedule
from .search import Bound, Exploration, Figures
from .story import shortest, told, wrong_with
from .worlds import KINDS

logging.disable(logging.CRITICAL)
options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--repeat", help="carry one schedule out, and tell it")
options.add_argument("--actors", help="explore these, with commas between them; else all pairs and triples")
options.add_argument("--schedules", type=int, default=100, help="of each pair or triple")
options.add_argument("--preemptions", type=int, default=2)
options.add_argument("--faults", type=int, default=1)
options.add_argument("--seed", type=int, default=0)
options.add_argument("--all", action="store_true", help="every schedule within the bound, not drawn ones")
options.add_argument("--most", type=int, default=1_000_000, help="stop after so many pairs or triples that fail")
options.add_argument("--only", choices=("pairs", "triples"))
options.add_argument("--kind", choices=tuple(KINDS), help="of tables of this kind only: see worlds.py")
options.add_argument("--part", default="0/1", help="the n-th of so many parts of them")
options.add_argument("--broken", help="with the rule broken whose name begins so: see mutations.py")
chosen = options.parse_args()
broken = ExitStack()
for one in EVERY_MUTATION if chosen.broken else ():
    if one.rule.startswith(chosen.broken):
        begin_of(Schedule(one.actors, kind=one.kind))
        broken.enter_context(one.applied())
        chosen.actors = chosen.actors or (str(Schedule(one.actors, kind=one.kind)) if one.actors else None)
        chosen.repeat = chosen.repeat or (one.schedule if not chosen.actors else None)

if chosen.repeat:
    schedule = Schedule.parse(chosen.repeat)
    print(told(schedule))
    sys.exit(bool(wrong_with(schedule)))

scenarios = [Schedule.parse(chosen.actors)] if chosen.actors else []
if not scenarios:
    groups = [*([PAIRS] if chosen.only != "triples" else ()), *([TRIPLES] if chosen.only != "pairs" else ())]
    scenarios = [
        Schedule(actors, kind=kind)
        for group in groups
        for kind in KINDS
        if chosen.kind in {None, kind}
        for actors in group[kind]
    ]
    part, parts = map(int, chosen.part.split("/"))
    scenarios = scenarios[part::parts]
figures, failed = Figures(), 0
for scenario in scenarios:
    bound = Bound(chosen.preemptions, chosen.faults)
    exploration = Exploration(scenario.actors, bound, kind=scenario.kind, seed=chosen.seed)
    if chosen.all:
        exploration.explore_all(chosen.schedules if chosen.schedules != 100 else 1_000_000)
    else:
        exploration.sample(chosen.schedules)
    figures.add(exploration.figures)
    if exploration.failures:
        failed += 1
        print(f"## {scenario}: {len(exploration.failures)} of {exploration.figures.schedules} fail", flush=True)
        least = min(exploration.failures, key=lambda one: len(one.schedule.deviations))
        print(f"{told(shortest(least.schedule))}\n", flush=True)
        if failed >= chosen.most:
            break
print(f"{len(scenarios)} pairs and triples: {figures}; {failed} fail")
sys.exit(failed > 0)
