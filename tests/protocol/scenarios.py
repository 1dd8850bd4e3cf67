"""What is explored: two or three actors, a first state, and what may go wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from table_writer.model.entry import Operation, Outcome

from .explorer import Scenario
from .requests import Next
from .state import Budget, Call, Change, Slot, World, start
from .writes import Rollback, Write

RECOVER: Final[Next] = ("recover",)
VACUUM: Final[Next] = ("vacuum", "V")
DROP_P: Final[Call] = ("drop", (("p", None),))
MOVE_P: Final[Call] = ("alter", (("p", "x:p"),))


def published(
    write_id: str, *changes: Change, operation: Operation = Operation.WRITE, old: bool = False, **more: object
) -> Slot:
    """Make an entry that was published before the exploration begins."""
    known = {"outcome": Outcome.PUBLISHED, "recorded_by": write_id, "old": old, **more}
    return Slot(operation, write_id, changes, **known)  # type: ignore[arg-type]


def write(write_id: str, partitions: str) -> Next:
    return "write", Write(write_id, tuple(partitions))


def rollback(version: int, partitions: str = "p") -> Next:
    return "rollback", Rollback("K", version, tuple(partitions))


I_P: Final = published("I", ("p", None, "I/p"), old=True)
I_PQ: Final = published("I", ("p", None, "I/p"), ("q", None, "I/q"), old=True)
J_P: Final = published("J", ("p", "I/p", "J/p"), base=1, old=True)
J_PQ: Final = published("J", ("p", "I/p", "J/p"), ("q", "I/q", "J/q"), base=1, old=True)

ONLY_P: Final = start(("I/p", None), [I_P])
BOTH: Final = start(("I/p", "I/q"), [I_PQ])
TWICE: Final = start(("J/p", None), [I_P, J_P], data=["I/p"])
TWICE_BOTH: Final = start(("J/p", "J/q"), [I_PQ, J_PQ], data=["I/p", "I/q"])
THEIRS: Final = start(("dt=p", None), [])

OLD_ALTER: Final = start(
    ("M/p", None),
    [
        I_P,
        J_P._replace(recorded_by="R3", old=False),
        published("R3", ("p", "I/p", "J/p"), operation=Operation.RECOVER, base=2, recovers=2),
        published("M", ("p", "J/p", "M/p"), base=3),
    ],
    data=["I/p", "J/p"],
    late=[("alter", (("p", "J/p"),))],
)
"""The alter of J was never answered; J was recovered, M has replaced it, and J's alter is still pending."""

OLD_DROP: Final = start(
    ("D/p", None),
    [
        I_P,
        published("L", ("p", "I/p", None), operation=Operation.ROLLBACK, base=1, recorded_by="R3", rollback_to=0),
        published("R3", ("p", "I/p", None), operation=Operation.RECOVER, base=2, recovers=2),
        published("D", ("p", None, "D/p"), base=3),
    ],
    data=["I/p"],
    late=[DROP_P],
)
"""The drop of a rollback was never answered; D has added the partition since, and the drop is still pending."""

OLD_ADD: Final = start(
    ("I/p", None),
    [
        I_P,
        published("J", ("q", None, "J/q"), base=1, recorded_by="R3"),
        published("R3", ("q", None, "J/q"), operation=Operation.RECOVER, base=2, recovers=2),
        published("L", ("q", "J/q", None), operation=Operation.ROLLBACK, base=3, rollback_to=1),
    ],
    data=["J/q"],
    late=[("add", (("q", "J/q"),))],
)
"""The add of J was never answered; J was recovered, a rollback has dropped its partition, and the add is pending."""

GROWN: Final = start(
    ("J/p", "J/q"), [I_P, published("J", ("p", "I/p", "J/p"), ("q", None, "J/q"), base=1, old=True)], data=["I/p"]
)
"""J has replaced p and added q: a rollback moves one and drops the other."""

HALF_DONE: Final = start(
    ("J/p", "J/q"),
    [*GROWN.log.slots, Slot(Operation.WRITE, "A", (("p", "J/p", "A/p"), ("q", "J/q", "A/q")), 2, timed_out=True)],
    data=["I/p", "A/p", "A/q"],
    late=[("alter", (("p", "A/p"), ("q", "A/q")))],
)
"""A has died, and its alter is pending."""

DIED: Final = start(
    ("I/p", None), [I_P, Slot(Operation.WRITE, "X", (("p", "I/p", "X/p"),), 1, timed_out=True)], data=["X/p"]
)
"""X claimed, and died before its alter."""


SLEPT: Final = start(
    ("M/p", None),
    [
        I_P,
        published("X", ("p", "I/p", "X/p"), base=1, recorded_by="R3", timed_out=True),
        published("R3", ("p", "I/p", "X/p"), operation=Operation.RECOVER, base=2, recovers=2),
        published("M", ("p", "X/p", "M/p"), base=3),
    ],
    data=["I/p", "X/p"],
)
"""X claimed and fell asleep before its alter; it was recovered, and M has replaced it."""

VACUUM_DIED: Final = start(
    ("M/p", None),
    [
        I_P,
        J_P,
        published("M", ("p", "J/p", "M/p"), base=2),
        Slot(Operation.VACUUM, "V4", (), 3, deletes=(("I/p", 2),), timed_out=True),
    ],
    data=["I/p", "J/p"],
)
"""A vacuum claimed the deletion of I's rows, and died before it deleted them."""

READERS_CAME_BACK: Final = start(
    ("J/p", None),
    [
        I_P,
        published("J", ("p", "I/p", "J/p"), base=1, recorded_by="R3"),
        published("R3", ("p", "I/p", "J/p"), operation=Operation.RECOVER, base=2, recovers=2),
        published("M", ("p", "J/p", "M/p"), base=3),
        Slot(Operation.VACUUM, "V5", (), 4, deletes=(("J/p", 4),), timed_out=True),
    ],
    data=["I/p", "M/p"],
)
"""A vacuum claimed the deletion of J's rows, and died; then a late alter of J has brought readers back to them."""

A_P: Final = write("A", "p")
A_PQ: Final = write("A", "pq")
B_P: Final = write("B", "p")
FULL: Final = Budget(refusals=1, lost=1, late=1)


def scenario(title: str, begin: World, budget: Budget, larger: Budget | None = None, **actors: Next) -> Scenario:
    named = {name.replace("_", " "): phase for name, phase in actors.items()}
    return Scenario(title=title, start=begin, actors=named, budget=budget, larger=larger)


SCENARIOS: Final = (
    scenario("write, recover", ONLY_P, FULL, A=A_PQ, recover=RECOVER),
    scenario("write, 2 recovers", ONLY_P, Budget(late=1), FULL, A=A_PQ, recover=RECOVER, again=RECOVER),
    scenario("2 writes, recover", ONLY_P, Budget(timeouts=1), Budget(1, 1, 1, 1), A=A_PQ, B=B_P, recover=RECOVER),
    scenario(
        "write, recover, a refusal that is none",
        ONLY_P,
        Budget(refusals=1, late=1, misreported=1),
        Budget(refusals=1, lost=1, late=1, unrecorded=1, misreported=1),
        A=A_PQ,
        recover=RECOVER,
    ),
    scenario(
        "2 writes of p and q, recover",
        ONLY_P,
        Budget(timeouts=1, late=1),
        Budget(1, 1, 1, 1),
        A=A_PQ,
        B=write("B", "pq"),
        recover=RECOVER,
    ),
    scenario("3 writes", ONLY_P, Budget(timeouts=0), Budget(timeouts=1, late=1), A=A_PQ, B=B_P, C=write("C", "q")),
    scenario(
        "2 writes, an outcome is not recorded",
        ONLY_P,
        Budget(timeouts=1, unrecorded=1),
        Budget(late=1, unrecorded=1),
        A=A_PQ,
        B=B_P,
        recover=RECOVER,
    ),
    replace(
        scenario(
            "write, recover, another tool",
            ONLY_P,
            Budget(other_tool=1),
            Budget(1, 1, 1, 1, other_tool=1),
            A=A_PQ,
            recover=RECOVER,
        ),
        other_tool=(DROP_P, MOVE_P),
    ),
    replace(
        scenario(
            "rollback, vacuum, another tool",
            TWICE_BOTH,
            Budget(other_tool=1, days=1),
            Budget(late=1, other_tool=1, days=1),
            K=rollback(1, "pq"),
            vacuum=VACUUM,
            recover=RECOVER,
        ),
        other_tool=(DROP_P, MOVE_P),
    ),
    scenario(
        "rollback that drops, write, recover",
        ONLY_P,
        Budget(timeouts=1),
        Budget(1, 1, 1, 1),
        K=rollback(0),
        A=A_PQ,
        recover=RECOVER,
    ),
    scenario(
        "rollback that moves p and drops q, write, recover",
        GROWN,
        Budget(timeouts=1, late=1),
        Budget(1, 1, 1, 1),
        K=rollback(1, "pq"),
        B=write("B", "q"),
        recover=RECOVER,
    ),
    scenario(
        "rollback, write, recover",
        TWICE,
        Budget(timeouts=1, late=1),
        Budget(refusals=1, late=1),
        K=rollback(1),
        A=A_PQ,
        recover=RECOVER,
    ),
    scenario(
        "rollback, vacuum, recover",
        TWICE_BOTH,
        Budget(refusals=1, late=1, days=1),
        K=rollback(1, "pq"),
        vacuum=VACUUM,
        recover=RECOVER,
    ),
    scenario(
        "a vacuum died: rollback, finish, vacuum",
        VACUUM_DIED,
        Budget(days=1),
        Budget(late=1, days=1),
        K=rollback(2),
        finish=("finish",),
        vacuum=VACUUM,
    ),
    scenario(
        "write, vacuum, recover, a day",
        TWICE,
        Budget(timeouts=1, days=1),
        Budget(refusals=1, late=1, days=1),
        A=A_PQ,
        vacuum=VACUUM,
        recover=RECOVER,
    ),
    scenario(
        "2 writes, vacuum, a day",
        ONLY_P,
        Budget(timeouts=1, days=1),
        Budget(late=1, days=1),
        A=A_PQ,
        B=B_P,
        vacuum=VACUUM,
    ),
    scenario(
        "rollback that moves p and drops q, write, vacuum, a day",
        GROWN,
        Budget(timeouts=0, days=1),
        Budget(timeouts=1, late=1, days=1),
        K=rollback(1, "pq"),
        A=A_PQ,
        vacuum=VACUUM,
    ),
    scenario(
        "write, 2 vacuums, a day",
        TWICE,
        Budget(timeouts=0, days=1),
        Budget(late=1, days=1),
        A=A_P,
        vacuum=VACUUM,
        vacuum_2=("vacuum", "U"),
    ),
    scenario(
        "an old alter pending: vacuum, recover, a day",
        OLD_ALTER,
        Budget(refusals=1, lost=1, late=1, days=1),
        vacuum=VACUUM,
        recover=RECOVER,
    ),
    scenario(
        "an old alter pending: write, recover", OLD_ALTER, Budget(refusals=1, unrecorded=1), A=A_P, recover=RECOVER
    ),
    scenario(
        "an old alter pending: write of p and q, recover",
        OLD_ALTER,
        Budget(refusals=1, late=1),
        A=A_PQ,
        recover=RECOVER,
    ),
    scenario(
        "an old drop pending: write of p and q, recover",
        OLD_DROP,
        Budget(refusals=1, unrecorded=1),
        A=A_PQ,
        recover=RECOVER,
    ),
    scenario(
        "an old add pending: write of p and q, recover",
        OLD_ADD,
        Budget(refusals=1, late=1),
        Budget(1, 1, 1, 1, 1),
        A=A_PQ,
        recover=RECOVER,
    ),
    scenario(
        "an old alter pending: rollback, recover", OLD_ALTER, Budget(late=1), FULL, K=rollback(0), recover=RECOVER
    ),
    scenario("an old drop pending: rollback, recover", OLD_DROP, Budget(late=1), FULL, K=rollback(1), recover=RECOVER),
    scenario(
        "a refusal that is none, an old alter pending: write of p and q, recover",
        OLD_ALTER,
        Budget(misreported=1, unrecorded=1),
        A=A_PQ,
        recover=RECOVER,
    ),
    replace(
        scenario(
            "a refusal that is none: write of p and q, recover, another tool",
            ONLY_P,
            Budget(misreported=1, late=1, other_tool=1),
            A=A_PQ,
            recover=RECOVER,
        ),
        other_tool=(DROP_P, MOVE_P),
    ),
    scenario(
        "rows of other tools: write, rollback, vacuum, a day",
        THEIRS,
        Budget(late=1, days=1),
        A=A_P,
        K=rollback(0),
        vacuum=VACUUM,
    ),
    scenario(
        "half done, a late call in between: rollback that moves p and drops q, recover",
        HALF_DONE,
        Budget(timeouts=1),
        Budget(late=1),
        K=rollback(1, "pq"),
        recover=RECOVER,
    ),
    scenario(
        "a vacuum died, readers came back: write, rollback, finish",
        READERS_CAME_BACK,
        Budget(),
        Budget(late=1),
        B=B_P,
        K=rollback(3),
        finish=("finish",),
    ),
)
"""Those with a larger budget are explored again with it, in the slow tests."""
