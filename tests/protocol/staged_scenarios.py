"""What is explored of staged writes: several processes publish one, discard it, or let it expire."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from table_writer.model.entry import Operation, Outcome
from table_writer.model.write import WriteMode

from .requests import Next
from .scenarios import (
    B_P,
    DROP_P,
    FULL,
    I_P,
    MOVE_P,
    ONLY_P,
    RECOVER,
    TWICE,
    VACUUM,
    published,
    rollback,
    scenario,
    write,
)
from .state import Budget, Slot, World, start
from .writes import Write


def publisher(by: str, partitions: str, mode: WriteMode = WriteMode.OVERWRITE_PARTITIONS, base: int = 1) -> Next:
    """Make one of the processes that publish the staged write X."""
    return "publish_staged", Write("X", tuple(partitions), mode, by=by), base


def appender(by: str, partitions: str = "p") -> Next:
    return publisher(by, partitions, WriteMode.APPEND)


def with_staged(begin: World, partitions: str, *, lasting: bool = True) -> World:
    """Stage X; unless it lasts, it expires in a day."""
    data = begin.data | {f"X/{values}" for values in partitions}
    return begin._replace(data=data, staged=frozenset("X"), awake=frozenset("X" if lasting else ""))


STAGE: Final[Next] = ("stage", Write("X", ("p",)))
STAGING: Final = ONLY_P._replace(awake=frozenset("X"))
DISCARD: Final[Next] = ("discard_staged", "X")
STAGED: Final = with_staged(ONLY_P, "p")
STAGED_PQ: Final = with_staged(ONLY_P, "pq")
STAGED_TWICE: Final = with_staged(TWICE, "p")
EXPIRING: Final = with_staged(ONLY_P, "p", lasting=False)
EXPIRING_PQ: Final = with_staged(ONLY_P, "pq", lasting=False)

X_P: Final = Slot(Operation.WRITE, "X", (("p", "I/p", "X/p"),), 1, by="dead")
X_APPENDED: Final = X_P._replace(changes=(("p", "I/p", "dead_1/p"),), appends=True, unused=("X/p",))
COPIES: Final = (("dead_1/p", ("I/p", "X/p")),)

DIED: Final = with_staged(start(("I/p", None), [I_P, X_P._replace(timed_out=True)]), "p")
"""A publisher has claimed, and died."""

GIVEN_UP: Final = with_staged(
    start(("I/p", None), [I_P, X_P._replace(outcome=Outcome.ABANDONED, recorded_by="X")]), "p"
)
"""The metastore has refused once."""


def with_copies(begin: World) -> World:
    """Let somebody have copied for an append, who is dead."""
    staged = with_staged(begin, "p")
    return staged._replace(data=staged.data | {"dead_1/p"}, rows=COPIES)


APPEND_DIED: Final = with_copies(start(("I/p", None), [I_P, X_APPENDED._replace(timed_out=True)]))
"""A publisher of an append has claimed, and died."""

APPEND_GIVEN_UP: Final = with_copies(
    start(("I/p", None), [I_P, X_APPENDED._replace(outcome=Outcome.ABANDONED, recorded_by="X")])
)

TRIMMED: Final = (
    I_P,
    X_APPENDED._replace(outcome=Outcome.PUBLISHED, recorded_by="R3", old=True, trimmed=True),
    published(
        "R3",
        ("p", "I/p", "dead_1/p"),
        operation=Operation.RECOVER,
        base=2,
        recovers=2,
        recovered_write_id="X",
        old=True,
        unused=("X/p",),
    ),
)
APPENDED_AND_TRIMMED: Final = with_copies(start(("dead_1/p", None), TRIMMED, data=["I/p"]))
"""The publisher's outcome was unknown; recover has published it. Its own entry is trimmed, the registration left."""

REPLACED_AND_TRIMMED: Final = with_copies(
    start(("M/p", None), [*TRIMMED, published("M", ("p", "dead_1/p", "M/p"), base=3)], data=["I/p"])
)
"""The same, and M has replaced it since: a rollback may still go back to it."""

GONE: Final = start(
    ("M/p", None),
    [
        I_P,
        X_P._replace(outcome=Outcome.PUBLISHED, recorded_by="X", old=True),
        published("M", ("p", "X/p", "M/p"), base=2, old=True),
        published("V4", operation=Operation.VACUUM, base=3, deletes=(("I/p", 2), ("X/p", 3))),
    ],
)._replace(staged=frozenset("X"), awake=frozenset("X"))
"""Its publisher died before it removed the registration; since then it was replaced, and vacuumed."""

P1: Final = publisher("P1", "p")
P2: Final = publisher("P2", "p")
P1_PQ: Final = publisher("P1", "pq")
P2_PQ: Final = publisher("P2", "pq")
ANY: Final = WriteMode.OVERWRITE_TABLE

STAGED_SCENARIOS: Final = (
    scenario("staged: 2 publishers", STAGED_PQ, FULL, P1=P1_PQ, P2=P2_PQ),
    scenario(
        "staged: 2 publishers, recover",
        STAGED_PQ,
        Budget(timeouts=1),
        Budget(1, 1, 1, 1),
        P1=P1_PQ,
        P2=P2_PQ,
        recover=RECOVER,
    ),
    scenario(
        "staged: 2 publishers, a write", STAGED_PQ, Budget(timeouts=1), Budget(1, 1, 1, 1), P1=P1_PQ, P2=P2_PQ, B=B_P
    ),
    scenario(
        "staged: publisher, rollback, recover",
        STAGED_TWICE,
        Budget(timeouts=1, late=1),
        FULL,
        P1=publisher("P1", "p", base=2),
        K=rollback(1),
        recover=RECOVER,
    ),
    scenario("staged, a publisher died: 2 publishers", DIED, Budget(1, 1, 1, 1), Budget(2, 1, 1, 1, 1), P1=P1, P2=P2),
    scenario(
        "staged, a publisher died: publisher, recover, discard",
        DIED,
        Budget(timeouts=1),
        FULL,
        P1=P1,
        recover=RECOVER,
        D=DISCARD,
    ),
    replace(
        scenario(
            "staged, a publisher died: publisher, discard, another tool",
            DIED,
            Budget(timeouts=1, late=1, other_tool=1),
            Budget(1, 1, 1, 1, other_tool=1),
            P1=P1,
            D=DISCARD,
        ),
        other_tool=(DROP_P, MOVE_P),
    ),
    scenario(
        "staged, refused before: publisher, discard, vacuum, a day",
        GIVEN_UP,
        Budget(timeouts=1, refusals=1, days=1),
        Budget(timeouts=1, refusals=1, late=1, days=1),
        P1=P1,
        D=DISCARD,
        vacuum=VACUUM,
    ),
    scenario("staged: publisher, discard", STAGED_PQ, FULL, P1=P1_PQ, D=DISCARD),
    scenario(
        "staged: publisher, discard, recover",
        STAGED,
        Budget(refusals=1, late=1),
        FULL,
        P1=P1,
        D=DISCARD,
        recover=RECOVER,
    ),
    scenario("staged: 2 publishers, discard", STAGED, Budget(timeouts=1, refusals=1), FULL, P1=P1, P2=P2, D=DISCARD),
    scenario("staged: publisher, 2 discards, finish", STAGED, Budget(), P1=P1, D=DISCARD, finish=("finish",)),
    scenario(
        "staged: publisher, vacuum, recover, it expires",
        EXPIRING_PQ,
        Budget(timeouts=1, days=1),
        FULL._replace(days=1),
        P1=P1_PQ,
        vacuum=VACUUM,
        recover=RECOVER,
    ),
    scenario(
        "staged: publisher, write, vacuum, it expires",
        EXPIRING,
        Budget(timeouts=0, days=1),
        Budget(timeouts=1, late=1, days=1),
        P1=P1,
        B=write("B", "pq"),
        vacuum=VACUUM,
    ),
    scenario(
        "staged: publisher, rollback, vacuum, it expires",
        with_staged(TWICE, "p", lasting=False),
        Budget(timeouts=0, days=1),
        Budget(timeouts=1, late=1, days=1),
        P1=publisher("P1", "p", base=2),
        K=rollback(1),
        vacuum=VACUUM,
    ),
    scenario(
        "staged: 2 publishers of the whole table, a write",
        STAGED,
        Budget(timeouts=1),
        Budget(timeouts=1, late=1),
        P1=publisher("P1", "p", ANY),
        P2=publisher("P2", "p", ANY),
        B=write("B", "q"),
    ),
    scenario(
        "staged: 2 publishers of a creation",
        with_staged(start((None, None), []), "pq"),
        FULL,
        P1=publisher("P1", "pq", WriteMode.CREATE_PARTITIONS, base=0),
        P2=publisher("P2", "pq", WriteMode.CREATE_PARTITIONS, base=0),
    ),
    scenario("staged, published, replaced and vacuumed: publisher", GONE, Budget(late=1), P1=P1, D=DISCARD),
    scenario(
        "staged append: 2 publishers",
        STAGED_PQ,
        Budget(1, 1, 0, 1),
        FULL,
        P1=appender("P1", "pq"),
        P2=appender("P2", "pq"),
    ),
    scenario(
        "staged append: 3 publishers",
        STAGED,
        Budget(timeouts=0),
        Budget(timeouts=1, refusals=1),
        P1=appender("P1"),
        P2=appender("P2"),
        P3=appender("P3"),
    ),
    scenario(
        "staged append: 2 publishers, write",
        STAGED,
        Budget(timeouts=0),
        Budget(timeouts=1, late=1),
        P1=appender("P1"),
        P2=appender("P2"),
        B=B_P,
    ),
    scenario(
        "staged append: publisher, rollback, recover",
        STAGED_TWICE,
        Budget(timeouts=1),
        Budget(timeouts=1, late=1),
        P1=(*appender("P1")[:2], 2),
        K=rollback(1),
        recover=RECOVER,
    ),
    scenario(
        "staged append: 2 publishers, discard",
        STAGED,
        Budget(timeouts=0, refusals=1),
        Budget(timeouts=1, refusals=1, late=1),
        P1=appender("P1"),
        P2=appender("P2"),
        D=DISCARD,
    ),
    scenario(
        "staged append: publisher, write, vacuum, it expires",
        EXPIRING,
        Budget(timeouts=0, days=1),
        Budget(timeouts=1, days=1),
        P1=appender("P1"),
        B=B_P,
        vacuum=VACUUM,
    ),
    scenario(
        "staged append, a publisher died: 2 publishers, recover",
        APPEND_DIED,
        Budget(timeouts=0),
        Budget(timeouts=1, late=1),
        P1=appender("P1"),
        P2=appender("P2"),
        recover=RECOVER,
    ),
    replace(
        scenario(
            "staged append, a publisher died: publisher, write, another tool",
            APPEND_DIED,
            Budget(timeouts=0, other_tool=1),
            Budget(timeouts=1, other_tool=1),
            P1=appender("P1"),
            B=B_P,
        ),
        other_tool=(DROP_P, MOVE_P),
    ),
    scenario(
        "staged append, refused before: publisher, rollback, discard",
        APPEND_GIVEN_UP,
        Budget(timeouts=0, refusals=1),
        Budget(timeouts=1, refusals=1),
        P1=appender("P1"),
        K=rollback(0),
        D=DISCARD,
    ),
)

HANDED_OUT: Final = (
    scenario(
        "staged append, published and trimmed: publisher",
        APPENDED_AND_TRIMMED,
        Budget(late=1),
        P1=appender("P1"),
        D=DISCARD,
    ),
    scenario(
        "staged append, published, replaced and trimmed: discard",
        REPLACED_AND_TRIMMED,
        Budget(late=1),
        P1=appender("P1"),
        D=DISCARD,
    ),
)
"""Here nobody publishes or discards."""
