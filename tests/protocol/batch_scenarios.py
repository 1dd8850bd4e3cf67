"""What is explored of a switch that is several calls, and its rules, each broken alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from .batches import Batches
from .explorer import Scenario
from .keeping import Protocol
from .mode_scenarios import append, create, table
from .mutation import Mutation
from .requests import LOST, Next, Send
from .scenarios import (
    A_P,
    A_PQ,
    B_P,
    BOTH,
    DROP_P,
    GROWN,
    HALF_DONE,
    MOVE_P,
    ONLY_P,
    RECOVER,
    TWICE_BOTH,
    VACUUM,
    rollback,
    scenario,
    write,
)
from .state import Budget, Call, Slot, World


def batched(title: str, begin: World, budget: Budget, larger: Budget | None = None, **actors: Next) -> Scenario:
    return replace(scenario(f"batches: {title}", begin, budget, larger, **actors), in_batches=True)


A_WAY: Final = Budget(refusals=2, lost=1)

BATCH_SCENARIOS: Final = (
    batched("write, recover", BOTH, Budget(refusals=2, lost=1, late=1), A=A_PQ, recover=RECOVER),
    batched("write that adds and replaces, recover", ONLY_P, Budget(refusals=2, late=1), A=A_PQ, recover=RECOVER),
    batched("creation, recover", ONLY_P, A_WAY, A=create("A", "q"), recover=RECOVER),
    batched(
        "2 writes",
        BOTH,
        Budget(timeouts=1, misreported=1),
        Budget(refusals=1, lost=1, late=1),
        A=A_PQ,
        B=write("B", "pq"),
    ),
    batched("write, append", BOTH, Budget(timeouts=1, late=1), A_WAY, A=A_PQ, C=append("C", "p")),
    batched("overwrite of the table, write", BOTH, Budget(timeouts=1, lost=1), A_WAY, A=table("A", "p"), B=B_P),
    batched("a write died halfway: recover, write", HALF_DONE, Budget(timeouts=1), A_WAY, recover=RECOVER, B=B_P),
    batched("rollback, recover", GROWN, Budget(refusals=2, late=1), A_WAY, K=rollback(1, "pq"), recover=RECOVER),
    batched("write, vacuum", TWICE_BOTH, Budget(lost=1, days=1), A_WAY._replace(days=1), A=A_PQ, vacuum=VACUUM),
    replace(
        batched("write, append, another tool", BOTH, Budget(0, late=1, other_tool=1), A=A_PQ, C=append("C", "p")),
        other_tool=(DROP_P, MOVE_P),
    ),
    replace(
        batched("write, recover, another tool", BOTH, Budget(refusals=1, other_tool=1), A=A_PQ, recover=RECOVER),
        other_tool=(DROP_P, MOVE_P),
    ),
)


class ConfirmsBatches(Batches):
    def is_confirmable(self, slot: Slot) -> bool:
        return Protocol().is_confirmable(slot)


class SendsUnansweredAgain(Batches):
    """As botocore does by itself."""

    def is_sent_again(self, answer: str) -> bool:
        return answer == LOST


class GivesUpHalf(Batches):
    """What was refused in part counts as refused."""

    def call_failed(self, job: Any, answer: str) -> Any:
        phase = yield from super().call_failed(job, answer)
        return ("give_up", job) if phase == job.unknown and answer == LOST else phase


class LooksAtTheClockOnce(Batches):
    def send_batch(self, job: Any, call: Call, number: int) -> Send:
        return Send(call, 0) if number else super().send_batch(job, call, number)


class BelievesWhatItSees(Batches):
    def believes_what_it_sees(self) -> bool:
        return True


HALF_REFUSED: Final = batched("write, refused halfway", BOTH, Budget(timeouts=0, refusals=2), A=A_PQ, recover=RECOVER)

BATCH_MUTATIONS: Final = (
    Mutation(
        "batches: nothing is confirmed while a claim lasts",
        ConfirmsBatches,
        batched("2 writes of p, recover", ONLY_P, Budget(timeouts=0, misreported=1), A=A_P, B=B_P, recover=RECOVER),
        "which no entry in doubt wants",
    ),
    Mutation(
        "batches: a call without an answer is not sent again",
        SendsUnansweredAgain,
        batched("2 writes of p, append", ONLY_P, Budget(timeouts=0, late=1), A=A_P, B=B_P, C=append("C", "p")),
        "rows are wrong",
    ),
    Mutation(
        "batches: what is seen after a lost answer proves nothing",
        BelievesWhatItSees,
        batched(
            "2 writes of p, append, a refusal that is none",
            ONLY_P,
            Budget(timeouts=0, late=1, misreported=1),
            A=A_P,
            B=B_P,
            C=append("C", "p"),
        ),
        "rows are wrong",
    ),
    Mutation("batches: what is refused in part is in doubt", GivesUpHalf, HALF_REFUSED, "readers see its rows"),
    Mutation(
        "batches: each call is in time",
        LooksAtTheClockOnce,
        batched("2 writes, recover", BOTH, Budget(timeouts=1), A=A_PQ, B=write("B", "pq"), recover=RECOVER),
        "which no entry in doubt wants",
    ),
)
