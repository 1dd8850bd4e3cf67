"""What is explored of appends in place with late calls, damage, other tools, and several publishers."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from .in_place_worlds import (
    ADDED,
    BACK_TO_I,
    DIED_COPYING,
    LATE_IN_PLACE,
    REFUSED,
    REPLACED,
    RESTORE,
    in_place,
    publisher_in_place,
)
from .mode_scenarios import append
from .scenarios import (
    B_P,
    BOTH,
    DROP_P,
    FULL,
    I_P,
    J_P,
    MOVE_P,
    OLD_ADD,
    OLD_ALTER,
    OLD_DROP,
    ONLY_P,
    RECOVER,
    TWICE,
    VACUUM,
    rollback,
    scenario,
)
from .staged_scenarios import DISCARD, EXPIRING_PQ, STAGED, STAGED_PQ
from .state import Budget, start
from .writes import Write

TWICE_OLD: Final = start(("J/p", None), [I_P, J_P], data=["I/p"])
A_P: Final = in_place("A", "p")
A_PQ: Final = in_place("A", "pq")
B_IN: Final = in_place("B", "p")
SLOW: Final = Budget(timeouts=1, late=1)

FAULTS: Final = (
    scenario(
        "in place, an old alter pending: append, recover", OLD_ALTER, Budget(timeouts=1), FULL, A=A_PQ, recover=RECOVER
    ),
    scenario(
        "in place, an old drop pending: append, recover", OLD_DROP, Budget(timeouts=1), FULL, A=A_PQ, recover=RECOVER
    ),
    scenario(
        "in place, an old add pending: append, recover", OLD_ADD, Budget(timeouts=1), FULL, A=A_PQ, recover=RECOVER
    ),
    scenario(
        "in place, an old alter of an append in place pending: append, rollback",
        LATE_IN_PLACE,
        Budget(timeouts=0, late=1, days=1),
        SLOW,
        A=A_P,
        K=rollback(2),
    ),
    scenario(
        "in place, an old alter pending: 2 appends, a day",
        OLD_ALTER,
        Budget(timeouts=0),
        Budget(timeouts=1, days=2),
        A=A_P,
        C=in_place("C", "q"),
    ),
    scenario(
        "in place, late requests to the store: append, rollback",
        ONLY_P,
        Budget(timeouts=1, late_store=2),
        Budget(timeouts=1, late=1, late_store=2),
        A=in_place("A", "p", 2),
        K=rollback(1),
    ),
    scenario(
        "in place, late requests to the store: append, write, vacuum, a day",
        ONLY_P,
        Budget(timeouts=0, late_store=1),
        Budget(timeouts=0, late_store=1, days=1),
        A=A_P,
        B=B_P,
        vacuum=VACUUM,
    ),
    scenario(
        "in place, late requests to the store: append, append that copies",
        ONLY_P,
        Budget(timeouts=1, late_store=1),
        Budget(timeouts=1, late=1, late_store=2),
        A=A_P,
        B=append("B", "p"),
    ),
    scenario(
        "in place, late requests to the store: rollback, append, vacuum, a day",
        ADDED,
        Budget(timeouts=0, late_store=1),
        Budget(timeouts=0, late_store=1, days=1),
        K=rollback(1),
        B=B_IN,
        vacuum=VACUUM,
    ),
    scenario(
        "in place, an outcome is lost: append, recover",
        ADDED,
        Budget(timeouts=1, damaged=1),
        Budget(timeouts=1, late=1, damaged=1),
        A=A_P,
        recover=RECOVER,
    ),
    scenario(
        "in place, an outcome is lost: append, write",
        TWICE,
        Budget(timeouts=0, damaged=1),
        Budget(timeouts=1, damaged=1),
        A=A_P,
        B=B_P,
    ),
    scenario(
        "in place, an outcome is lost, files are gone: recover, vacuum, a day",
        REPLACED,
        Budget(timeouts=1, damaged=1, days=1),
        Budget(timeouts=1, damaged=2, days=1),
        recover=RECOVER,
        vacuum=VACUUM,
    ),
    scenario(
        "in place, an outcome is lost, files are gone: write, vacuum, a day",
        REPLACED,
        Budget(timeouts=0, damaged=1, days=1),
        Budget(timeouts=1, damaged=1, days=1),
        A=("write", Write("A", ("p",))),
        vacuum=VACUUM,
    ),
    scenario(
        "in place, an outcome is lost, files are about to go: recover, vacuum",
        REFUSED,
        Budget(timeouts=2, damaged=1),
        Budget(timeouts=2, damaged=1, days=1),
        recover=RECOVER,
        vacuum=VACUUM,
    ),
    scenario(
        "in place, an outcome is lost: append, rollback",
        REFUSED,
        Budget(timeouts=0, damaged=1),
        Budget(timeouts=1, damaged=1),
        A=A_P,
        K=rollback(1),
    ),
    replace(
        scenario(
            "in place, another tool: append, recover",
            ONLY_P,
            Budget(1, 1, 1, 1, other_tool=1),
            A=in_place("A", "pq", 2),
            recover=RECOVER,
        ),
        other_tool=(DROP_P, MOVE_P),
    ),
    replace(
        scenario(
            "in place, another tool drops it: append, restore",
            ADDED,
            Budget(timeouts=1, late=1, other_tool=1),
            A=in_place("A", "p", 2),
            restore=RESTORE,
        ),
        other_tool=(DROP_P,),
    ),
    replace(
        scenario(
            "in place, another tool drops it: rollback, restore",
            DIED_COPYING,
            Budget(timeouts=0, other_tool=1),
            Budget(timeouts=1, late=1, other_tool=1),
            K=rollback(1),
            restore=RESTORE,
        ),
        other_tool=(DROP_P,),
    ),
    replace(
        scenario(
            "in place, another tool drops it: restore, vacuum, a day",
            DIED_COPYING,
            Budget(timeouts=1, other_tool=1, days=1),
            restore=RESTORE,
            vacuum=VACUUM,
        ),
        other_tool=(DROP_P,),
    ),
    replace(
        scenario(
            "in place, another tool points back: append, vacuum",
            TWICE_OLD,
            Budget(timeouts=0, other_tool=1),
            Budget(timeouts=1, other_tool=1),
            A=A_P,
            vacuum=VACUUM,
        ),
        other_tool=(BACK_TO_I,),
    ),
    scenario(
        "in place, another tool inserts: append, recover",
        ONLY_P,
        Budget(timeouts=1, inserts=1),
        A=A_PQ,
        recover=RECOVER,
    ),
    scenario(
        "in place, another tool inserts: rollback that drops p and q, append",
        BOTH,
        Budget(timeouts=0, inserts=1),
        Budget(timeouts=1, inserts=1),
        K=rollback(0, "pq"),
        A=A_P,
    ),
    scenario(
        "in place, another tool inserts: rollback, append",
        ADDED,
        Budget(timeouts=0, inserts=1),
        Budget(timeouts=1, inserts=1),
        K=rollback(1),
        A=A_P,
    ),
)

STAGED_IN_PLACE: Final = (
    scenario(
        "in place, staged: 2 publishers",
        STAGED_PQ,
        FULL,
        P1=publisher_in_place("P1", "pq"),
        P2=publisher_in_place("P2", "pq"),
    ),
    scenario(
        "in place, staged: 2 publishers, write",
        STAGED,
        Budget(timeouts=0),
        Budget(timeouts=1, late=1),
        P1=publisher_in_place("P1"),
        P2=publisher_in_place("P2"),
        B=B_P,
    ),
    scenario(
        "in place, staged: 2 publishers, discard, late requests to the store",
        STAGED,
        Budget(timeouts=1, refusals=1, late_store=1),
        P1=publisher_in_place("P1"),
        P2=publisher_in_place("P2"),
        D=DISCARD,
    ),
    scenario(
        "in place, staged: publisher, vacuum, recover, it expires",
        EXPIRING_PQ,
        Budget(timeouts=1, days=1),
        Budget(timeouts=1, late=1, days=1),
        P1=publisher_in_place("P1", "pq"),
        vacuum=VACUUM,
        recover=RECOVER,
    ),
    replace(
        scenario(
            "in place, staged: 2 publishers, another tool",
            STAGED,
            Budget(timeouts=0, other_tool=1),
            Budget(timeouts=1, other_tool=1),
            P1=publisher_in_place("P1"),
            P2=publisher_in_place("P2"),
            recover=RECOVER,
        ),
        other_tool=(DROP_P, MOVE_P),
    ),
)
