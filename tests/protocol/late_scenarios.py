"""What is explored of requests that come late, damage of the log, and rows that other tools add."""

from __future__ import annotations

from typing import Final

from table_writer.model.entry import Operation, Outcome
from table_writer.model.write import WriteMode

from .mode_scenarios import append, create
from .requests import Next
from .scenarios import (
    A_P,
    A_PQ,
    B_P,
    BOTH,
    I_P,
    J_P,
    OLD_ALTER,
    OLD_DROP,
    ONLY_P,
    RECOVER,
    TWICE,
    VACUUM,
    published,
    rollback,
    scenario,
    write,
)
from .staged_scenarios import DISCARD, P1, STAGE, STAGED, STAGING, appender, with_staged
from .state import Budget, Log, Marks, Slot, start
from .writes import Brought, Planned, Write

SECOND_ROUND: Final[Next] = (
    "publish",
    Planned(Write("A", ("p",), WriteMode.APPEND), 2, frozenset(), (Brought("p", "A/p", "I/p", ("I/p",)),)),
)
COPIED: Final = TWICE._replace(data=TWICE.data | {"A/p"}, rows=(("A/p", ("A/p", "I/p")),))
"""An append has copied what was in p; since then J has replaced it."""

X_GIVEN_UP: Final = Slot(
    Operation.WRITE, "X", (("p", "I/p", "X/p"),), 1, outcome=Outcome.ABANDONED, recorded_by="X", old=True
)
GIVEN_UP: Final = start(("I/p", None), [I_P, X_GIVEN_UP], data=["X/p"])
"""The metastore has refused X; its files are old enough for a vacuum."""

VACUUMED: Final = start(
    ("M/p", None),
    [
        I_P,
        J_P,
        published("M", ("p", "J/p", "M/p"), base=2, old=True),
        published("V4", operation=Operation.VACUUM, base=3, deletes=(("I/p", 2), ("J/p", 3))),
    ],
)
"""What I and J have written was replaced, and is deleted."""

HALF_REPLACED: Final = start(
    ("M/p", "J/q"),
    [
        published("I", ("p", None, "I/p"), ("q", None, "I/q"), old=True),
        published("J", ("p", "I/p", "J/p"), ("q", "I/q", "J/q"), base=1, old=True),
        published("M", ("p", "J/p", "M/p"), base=2),
    ],
    data=["I/p", "I/q", "J/p"],
)
"""Of what J has published one partition was replaced."""

REFUSED_TO_CORRECT: Final = start(
    ("M/p", "N/q"),
    [
        I_P,
        J_P,
        published("M", ("p", "J/p", "M/p"), base=2),
        Slot(
            Operation.RECOVER,
            "R4",
            (("p", "J/p", "M/p"),),
            3,
            recovers=3,
            is_putting_right=True,
            outcome=Outcome.ABANDONED,
            recorded_by="R4",
        ),
        published("N", ("q", None, "N/q"), base=4),
    ],
    data=["I/p", "J/p"],
)
"""Somebody wanted to put M right, and the metastore has refused."""

AT_PLACEHOLDER: Final = start(
    ("@D/p", "I/q"),
    [
        published("I", ("q", None, "I/q"), old=True),
        Slot(Operation.WRITE, "D", (("p", None, "D/p"), ("q", "I/q", "D/q")), 1, outcome=Outcome.ABANDONED),
    ],
    data=["D/p", "D/q"],
)
"""A publish has added p without rows, and was refused then."""

WRITTEN_ANEW: Final = with_staged(start(("B/p", None), [published("B", ("p", "I/p", "B/p"))], data=["I/p"]), "p")
BEGUN_AGAIN: Final = WRITTEN_ANEW._replace(log=Log.of(WRITTEN_ANEW.log.slots, Marks(log_id=2)))
"""X was staged; then somebody has deleted the log, and B was published in the new one."""

LATE_STORE: Final = (
    scenario(
        "late requests to the store: append, write",
        ONLY_P,
        Budget(timeouts=0, late_store=1),
        Budget(timeouts=1, late_store=2),
        A=append("A", "p"),
        B=B_P,
    ),
    scenario(
        "late requests to the store: append that has copied, rollback",
        COPIED,
        Budget(timeouts=0, late_store=1),
        Budget(timeouts=1, late=1, late_store=2),
        A=SECOND_ROUND,
        K=rollback(1),
    ),
    scenario(
        "late requests to the store: append, vacuum, a day",
        TWICE,
        Budget(timeouts=0, late_store=1, days=1),
        Budget(timeouts=1, late_store=2, days=1),
        A=append("A", "p"),
        vacuum=VACUUM,
    ),
    scenario(
        "late requests to the store: publisher of an append, write",
        STAGED,
        Budget(timeouts=0, late_store=1),
        Budget(timeouts=1, late=1, late_store=2),
        P1=appender("P1"),
        B=B_P,
    ),
    scenario(
        "late requests to the store: publisher of an append, discard, write",
        STAGED,
        Budget(timeouts=0, late_store=1),
        Budget(timeouts=1, refusals=1, late_store=1),
        P1=appender("P1"),
        D=DISCARD,
        B=B_P,
    ),
    scenario(
        "late requests to the store: staging, vacuum, a day",
        STAGING,
        Budget(late_store=1, days=1),
        Budget(late_store=2, days=1),
        X=STAGE,
        P1=appender("P1"),
        vacuum=VACUUM,
    ),
)

SEEN_LATE: Final = (
    scenario(
        "an old alter pending: 2 appends, a day",
        OLD_ALTER,
        Budget(timeouts=0, days=1),
        Budget(timeouts=1, days=2),
        A=append("A", "p"),
        C=append("C", "q"),
    ),
    scenario(
        "an old alter pending: append, recover, a day",
        OLD_ALTER,
        Budget(timeouts=1, days=1),
        Budget(timeouts=1, late=1, days=1),
        A=append("A", "pq"),
        recover=RECOVER,
    ),
    scenario(
        "an old drop pending: append, creation, a day",
        OLD_DROP,
        Budget(timeouts=0, days=1),
        Budget(timeouts=1, late=1, days=1),
        A=append("A", "p"),
        C=create("C", "q"),
    ),
    scenario(
        "an append without an answer: 2 appends, a day",
        ONLY_P,
        Budget(timeouts=1, late=1, days=1),
        A=append("A", "p"),
        B=append("B", "p"),
    ),
)

DAMAGED: Final = (
    scenario(
        "an outcome is lost: write, recover",
        TWICE,
        Budget(damaged=1),
        Budget(late=1, damaged=2),
        A=A_PQ,
        recover=RECOVER,
    ),
    scenario(
        "an outcome is lost: append, write",
        TWICE,
        Budget(timeouts=1, damaged=1),
        Budget(timeouts=1, late=1, damaged=1),
        A=append("A", "p"),
        B=B_P,
    ),
    scenario(
        "an outcome is lost, one partition was replaced: append, recover",
        HALF_REPLACED,
        Budget(timeouts=1, damaged=1),
        Budget(timeouts=1, late=1, damaged=2),
        A=append("A", "pq"),
        recover=RECOVER,
    ),
    scenario(
        "an outcome is lost: rollback, write",
        TWICE,
        Budget(timeouts=1, damaged=1),
        Budget(timeouts=1, late=1, damaged=2),
        K=rollback(1),
        B=write("B", "p"),
    ),
    scenario(
        "an outcome is lost, files are gone: append, recover, vacuum",
        VACUUMED,
        Budget(timeouts=0, damaged=1),
        Budget(timeouts=0, damaged=1, days=1),
        A=append("A", "p"),
        recover=RECOVER,
        vacuum=VACUUM,
    ),
    scenario(
        "an outcome is lost, files are about to go: recover, vacuum",
        GIVEN_UP,
        Budget(timeouts=2, damaged=1),
        Budget(timeouts=2, damaged=1, days=1),
        recover=RECOVER,
        vacuum=VACUUM,
    ),
    scenario(
        "an outcome is lost, an old alter pending: append",
        OLD_ALTER,
        Budget(timeouts=1, damaged=1),
        Budget(timeouts=1, late=1, damaged=1, days=1),
        A=append("A", "p"),
    ),
    scenario(
        "an outcome is lost, a recovery was refused: append, recover",
        REFUSED_TO_CORRECT,
        Budget(timeouts=1, damaged=1),
        A=append("A", "q"),
        recover=RECOVER,
    ),
    scenario(
        "an outcome is lost: publisher, write",
        STAGED,
        Budget(timeouts=1, refusals=1, damaged=1),
        Budget(timeouts=1, late=1, damaged=1),
        P1=P1,
        B=B_P,
    ),
    scenario(
        "an entry is lost: append, write, recover",
        GIVEN_UP,
        Budget(timeouts=0, lost_entries=1),
        Budget(timeouts=1, lost_entries=2),
        A=append("A", "p"),
        B=B_P,
        recover=RECOVER,
    ),
)

INSERTED: Final = (
    scenario(
        "another tool inserts: append, recover",
        AT_PLACEHOLDER,
        Budget(timeouts=0, inserts=1),
        Budget(timeouts=1, refusals=1, late=1, inserts=2),
        A=append("A", "pq"),
        recover=RECOVER,
    ),
    scenario(
        "another tool inserts: rollback that drops p and q, append",
        BOTH,
        Budget(timeouts=1, inserts=1),
        Budget(timeouts=1, late=1, inserts=1),
        K=rollback(0, "pq"),
        A=append("A", "p"),
    ),
    scenario(
        "another tool inserts: rollback that drops p, recover",
        ONLY_P,
        Budget(timeouts=1, lost=1, inserts=1),
        Budget(timeouts=2, lost=1, late=1, inserts=2),
        K=rollback(0),
        recover=RECOVER,
    ),
    scenario(
        "another tool inserts: creation, append",
        AT_PLACEHOLDER,
        Budget(timeouts=0, inserts=1),
        Budget(timeouts=1, refusals=1, inserts=1),
        C=create("C", "p"),
        A=append("A", "p"),
    ),
    scenario(
        "another tool inserts: publisher of a staged append, write",
        STAGED,
        Budget(timeouts=0, inserts=1),
        Budget(timeouts=1, late=1, inserts=1),
        P1=appender("P1"),
        B=B_P,
    ),
)

RESET: Final = (
    scenario(
        "the log is deleted: publisher, write", STAGED, Budget(timeouts=1, resets=1), Budget(resets=2), P1=P1, B=B_P
    ),
    scenario(
        "the log is deleted: publisher of an append, write, discard",
        STAGED,
        Budget(timeouts=0, resets=1),
        Budget(timeouts=1, resets=1),
        P1=appender("P1"),
        B=A_P,
        D=DISCARD,
    ),
)

LATE_SCENARIOS: Final = (*LATE_STORE, *SEEN_LATE, *DAMAGED, *INSERTED, *RESET)
"""Those with a larger budget are explored again with it, in the slow tests."""
