"""What is explored of publishes that alter their partitions twice, and the rule for it, broken."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from .batch_scenarios import A_WAY
from .explorer import Scenario
from .keeping import Protocol
from .mode_scenarios import append
from .mutation import Mutation
from .requests import Next
from .scenarios import A_P, A_PQ, B_P, BOTH, DROP_P, HALF_DONE, MOVE_P, ONLY_P, RECOVER, rollback, scenario, write
from .state import Budget, Slot, World
from .telling import Telling


def telling(title: str, begin: World, budget: Budget, larger: Budget | None = None, **actors: Next) -> Scenario:
    return replace(scenario(f"statistics: {title}", begin, budget, larger, **actors), tells=True)


TELLING_SCENARIOS: Final = (
    telling("write, recover", ONLY_P, Budget(timeouts=1, late=1), A_WAY, A=A_PQ, recover=RECOVER),
    telling("2 writes", BOTH, Budget(timeouts=1), Budget(1, late=1), A=A_PQ, B=write("B", "pq")),
    telling("write, append", ONLY_P, Budget(timeouts=1), A_WAY, A=A_P, C=append("C", "p")),
    telling("write, rollback", BOTH, Budget(timeouts=0, lost=1), A_WAY, A=A_P, K=rollback(1, "pq")),
    telling("a write died halfway: recover, write", HALF_DONE, Budget(timeouts=1), A_WAY, recover=RECOVER, B=B_P),
    replace(
        telling("write, recover, another tool", BOTH, Budget(timeouts=0, other_tool=1), A=A_PQ, recover=RECOVER),
        other_tool=(DROP_P, MOVE_P),
    ),
)


class ConfirmsBeforeTheSecondAlter(Telling):
    def is_confirmable(self, slot: Slot) -> bool:
        return Protocol().is_confirmable(slot)


TELLING_MUTATIONS: Final = (
    Mutation(
        "statistics: nothing is confirmed before the second alter",
        ConfirmsBeforeTheSecondAlter,
        telling("2 writes of p, recover", ONLY_P, Budget(timeouts=0), A=A_P, B=B_P, recover=RECOVER),
        "which no entry in doubt wants",
    ),
)
