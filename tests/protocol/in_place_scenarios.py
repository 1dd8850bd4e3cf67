"""What is explored of appends in place: with every other operation, and with every fault."""

from __future__ import annotations

from typing import Final

from .in_place_faults import A_P, A_PQ, B_IN, FAULTS, SLOW, STAGED_IN_PLACE
from .in_place_worlds import (
    ADDED,
    ADDED_WITH_KEY,
    AWAY,
    DIED_COPYING,
    HALF_MOVED,
    REPLACED,
    THEIRS_ADDED,
    in_place,
    rollback_by,
)
from .mode_scenarios import COMPARING, COMPARING_TWICE, NOTHING, PLAIN, PLAIN_TWICE, append, create, table
from .scenarios import B_P, BOTH, FULL, ONLY_P, RECOVER, THEIRS, TWICE, VACUUM, rollback, scenario
from .state import Budget

WRITES: Final = (
    scenario("in place: append, recover", ONLY_P, FULL, A=in_place("A", "pq", 2), recover=RECOVER),
    scenario(
        "in place: append, 2 recovers",
        ONLY_P,
        Budget(timeouts=1),
        FULL,
        A=in_place("A", "p", 2),
        recover=RECOVER,
        again=RECOVER,
    ),
    scenario("in place: 2 appends, recover", ONLY_P, Budget(timeouts=0), SLOW, A=A_P, B=B_IN, recover=RECOVER),
    scenario("in place: 2 appends", TWICE, Budget(1, 1, 1, 1), FULL, A=in_place("A", "p", 2), B=in_place("B", "p", 2)),
    scenario(
        "in place: 3 appends", ONLY_P, Budget(timeouts=0), Budget(timeouts=1), A=A_P, B=B_IN, C=in_place("C", "p")
    ),
    scenario("in place: append, write, recover", ONLY_P, Budget(timeouts=0), SLOW, A=A_PQ, B=B_P, recover=RECOVER),
    scenario("in place: append, write", ONLY_P, SLOW, FULL, A=in_place("A", "pq", 2), B=B_P),
    scenario(
        "in place: append, append that copies, recover",
        ONLY_P,
        Budget(timeouts=0),
        Budget(timeouts=1),
        A=A_PQ,
        B=append("B", "p"),
        recover=RECOVER,
    ),
    scenario("in place: append, append that copies", ONLY_P, SLOW, FULL, A=in_place("A", "p", 2), B=append("B", "p")),
    scenario("in place: append, creation", NOTHING, SLOW, FULL, A=A_PQ, B=create("B", "p")),
    scenario("in place: append, overwrite of the table", BOTH, SLOW, FULL, A=table("A", "p"), B=in_place("B", "q")),
    scenario(
        "in place: append, overwrite of the table, rollback",
        BOTH,
        Budget(timeouts=0),
        Budget(timeouts=1),
        A=table("A", "p"),
        B=in_place("B", "pq"),
        K=rollback(1, "pq"),
    ),
    scenario(
        "in place: one key twice",
        ONLY_P,
        Budget(timeouts=0),
        Budget(timeouts=1),
        A=in_place("A", "p", key="k"),
        B=in_place("B", "p", key="k"),
        K=rollback(1),
    ),
    scenario(
        "in place: a key, 2 rollbacks",
        ADDED_WITH_KEY,
        Budget(timeouts=0),
        Budget(timeouts=1),
        A=in_place("A", "p", key="k"),
        K=rollback(1),
        L=rollback_by("L", 2),
    ),
    scenario("in place: a key, rollback", ADDED_WITH_KEY, SLOW, FULL, A=in_place("A", "p", key="k"), K=rollback(1)),
    *(
        scenario(f"in place, unpartitioned{how}: {title}", begin, budget, larger, **actors)
        for how, first, twice in (("", PLAIN, PLAIN_TWICE), (", compared", COMPARING, COMPARING_TWICE))
        for title, begin, budget, larger, actors in (
            (
                "append, overwrite",
                first,
                SLOW,
                FULL,
                {"A": in_place("A", "p", whole=True), "B": table("B", "p", whole=True)},
            ),
            (
                "append, vacuum, recover",
                twice,
                Budget(timeouts=1),
                Budget(timeouts=1, late=1),
                {"A": in_place("A", "p", 2, whole=True), "vacuum": VACUUM, "recover": RECOVER},
            ),
            (
                "append, rollback, vacuum",
                twice,
                Budget(timeouts=0),
                Budget(timeouts=1, days=1),
                {"A": in_place("A", "p", whole=True), "K": rollback(0), "vacuum": VACUUM},
            ),
        )
    ),
)

AFTERWARDS: Final = (
    scenario(
        "in place: append, rollback",
        ONLY_P,
        Budget(timeouts=1),
        Budget(1, 1, 1, 1),
        A=in_place("A", "p", 2),
        K=rollback(1),
        recover=RECOVER,
    ),
    scenario(
        "in place, added: append, rollback, recover",
        ADDED,
        Budget(timeouts=0),
        SLOW,
        A=A_P,
        K=rollback(1),
        recover=RECOVER,
    ),
    scenario(
        "in place, added: 2 rollbacks, append",
        ADDED,
        Budget(timeouts=0),
        Budget(timeouts=1),
        A=A_P,
        K=rollback(1),
        L=rollback_by("L", 2),
    ),
    scenario(
        "in place, replaced: 2 rollbacks, append",
        REPLACED,
        Budget(timeouts=0),
        Budget(timeouts=1),
        A=A_P,
        K=rollback(1),
        L=rollback_by("L", 2),
    ),
    scenario(
        "in place, added: rollback, vacuum, recover, 2 days",
        ADDED,
        Budget(timeouts=0, days=2),
        Budget(timeouts=1, refusals=1, late=1, days=2),
        K=rollback(1),
        vacuum=VACUUM,
        recover=RECOVER,
    ),
    scenario(
        "in place, replaced: rollback, vacuum, a day",
        REPLACED,
        Budget(1, 1, 1, 1, days=1),
        Budget(timeouts=1, late=1, days=2),
        K=rollback(1),
        vacuum=VACUUM,
    ),
    scenario(
        "in place: append, vacuum, a day",
        ADDED,
        Budget(1, 1, 1, 1, days=1),
        Budget(timeouts=1, late=1, days=2),
        A=in_place("A", "p", 2),
        vacuum=VACUUM,
    ),
    scenario(
        "in place: append, write, vacuum, a day",
        ONLY_P,
        Budget(timeouts=0),
        Budget(timeouts=1, days=1),
        A=A_P,
        B=B_P,
        vacuum=VACUUM,
    ),
    scenario(
        "in place, rows of other tools: append, write, rollback",
        THEIRS,
        Budget(timeouts=0),
        SLOW,
        A=A_P,
        B=B_P,
        K=rollback(0),
    ),
    scenario(
        "in place, added to rows of other tools: rollback, vacuum, a day",
        THEIRS_ADDED,
        Budget(timeouts=1, late=1, days=1),
        K=rollback(0),
        vacuum=VACUUM,
    ),
    scenario("in place, died copying: write, recover", DIED_COPYING, SLOW, FULL, B=B_P, recover=RECOVER),
    scenario(
        "in place, died copying: append, rollback",
        DIED_COPYING,
        Budget(timeouts=0),
        Budget(1, 1, 1, 1),
        A=A_P,
        K=rollback(1),
    ),
    scenario(
        "in place, died copying: vacuum, recover, a day",
        DIED_COPYING,
        Budget(1, 1, 1, 1, days=1),
        vacuum=VACUUM,
        recover=RECOVER,
    ),
    scenario(
        "in place, another tool had moved one of two: rollback, append",
        HALF_MOVED,
        Budget(timeouts=1),
        FULL,
        A=A_P,
        K=rollback(2),
    ),
    scenario(
        "in place, another tool had moved it: 2 rollbacks",
        AWAY,
        Budget(timeouts=1),
        K=rollback(1),
        L=rollback_by("L", 4),
    ),
)

IN_PLACE_SCENARIOS: Final = (*WRITES, *AFTERWARDS, *FAULTS, *STAGED_IN_PLACE)
"""Those with a larger budget are explored again with it, in the slow tests."""
