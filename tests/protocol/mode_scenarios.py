"""What is explored of the other write modes: appends, creations, whole tables, selected partitions, keys."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from table_writer.model.entry import Operation, Outcome
from table_writer.model.write import WriteMode

from .requests import Next
from .scenarios import (
    B_P,
    BOTH,
    DIED,
    DROP_P,
    FULL,
    I_P,
    I_PQ,
    MOVE_P,
    OLD_ADD,
    OLD_ALTER,
    OLD_DROP,
    ONLY_P,
    RECOVER,
    THEIRS,
    TWICE,
    VACUUM,
    published,
    rollback,
    scenario,
    write,
)
from .state import ROOT, Budget, Call, Slot, start
from .writes import Write


def append(write_id: str, partitions: str, key: str = "", *, whole: bool = False) -> Next:
    return "write", Write(write_id, tuple(partitions), WriteMode.APPEND, key=key, is_of_whole_table=whole)


def create(write_id: str, partitions: str) -> Next:
    return "write", Write(write_id, tuple(partitions), WriteMode.CREATE_PARTITIONS)


def table(write_id: str, partitions: str, *, whole: bool = False) -> Next:
    return "write", Write(write_id, tuple(partitions), WriteMode.OVERWRITE_TABLE, is_of_whole_table=whole)


def where(write_id: str, partitions: str, selected: str) -> Next:
    return "write", Write(write_id, tuple(partitions), where=tuple(selected))


def keyed(write_id: str, partitions: str, key: str = "k") -> Next:
    return "write", Write(write_id, tuple(partitions), key=key)


NOTHING: Final = start((None, None), [])
ADD_P: Final[Call] = ("add", (("p", "x:p"),))
SEPARATE: Final = start(("I/p", "J/q"), [I_P, published("J", ("q", None, "J/q"), base=1, old=True)])
PLAIN: Final = start((ROOT, None), [])
COMPARING: Final = start((f"{ROOT}~0", None), [])
"""An unpartitioned table; the server compares who changed it last before it changes it."""

OF_TABLE: Final = (published("I", ("p", ROOT, "I/p"), old=True), published("J", ("p", "I/p", "J/p"), base=1, old=True))
PLAIN_TWICE: Final = start(("J/p", None), OF_TABLE, data=["I/p", ROOT])
COMPARING_TWICE: Final = start(("J/p~J", None), OF_TABLE, data=["I/p", ROOT])

OLD_ALTER_COMPARED: Final = OLD_ALTER._replace(metastore=("M/p~M", None), late=(("alter", (("p", "J/p"),), "J", "I"),))

KEYED: Final = published("D", ("p", "I/p", "D/p"), base=1, key="k")
GIVEN_UP: Final = start(("I/p", None), [I_P, KEYED._replace(outcome=Outcome.ABANDONED)], data=["D/p"])
"""The write with the key was abandoned."""

IN_DOUBT: Final = start(
    ("I/p", None), [I_P, KEYED._replace(outcome=None, recorded_by="", timed_out=True)], data=["D/p"]
)
"""The process with the key has died before its alter; its successor comes."""

ROLLED_BACK: Final = start(
    ("I/p", None),
    [I_P, KEYED, published("L", ("p", "D/p", "I/p"), operation=Operation.ROLLBACK, base=2, rollback_to=1)],
    data=["D/p"],
)
"""What the key has written was rolled back."""

ROLLBACK_ROLLED_BACK: Final = start(
    ("D/p", None),
    [*ROLLED_BACK.log.slots, published("N", ("p", "I/p", "D/p"), operation=Operation.ROLLBACK, base=3, rollback_to=2)],
    data=["I/p"],
)
"""And that was rolled back itself: the rows are there again."""

DIED_ELSEWHERE: Final = start(
    ("I/p", "I/q"), [I_PQ, Slot(Operation.WRITE, "D", (("q", "I/q", "D/q"),), 1, key="k", timed_out=True)], data=["D/q"]
)
"""The process with the key has died before its alter of q; its successor has rows for p."""

MODES: Final = (
    scenario("append, recover", ONLY_P, FULL, A=append("A", "pq"), recover=RECOVER),
    scenario(
        "2 appends, recover",
        ONLY_P,
        Budget(timeouts=1),
        Budget(timeouts=1, late=1),
        A=append("A", "pq"),
        B=append("B", "p"),
        recover=RECOVER,
    ),
    scenario(
        "append, write, recover",
        ONLY_P,
        Budget(timeouts=1),
        Budget(timeouts=1, late=1),
        A=append("A", "pq"),
        B=B_P,
        recover=RECOVER,
    ),
    scenario(
        "append, rollback",
        TWICE,
        Budget(timeouts=1, late=1),
        Budget(lost=1, late=1),
        A=append("A", "pq"),
        K=rollback(1),
    ),
    scenario(
        "append that takes long, write, vacuum, a day",
        ONLY_P._replace(awake=frozenset("A")),
        Budget(timeouts=0, days=1),
        Budget(timeouts=1, days=1),
        A=append("A", "p"),
        B=B_P,
        vacuum=VACUUM,
    ),
    scenario(
        "append, vacuum, a day: rows of other tools",
        THEIRS,
        Budget(timeouts=1, late=1, days=1),
        Budget(late=1, days=1),
        A=append("A", "p"),
        vacuum=VACUUM,
        recover=RECOVER,
    ),
    scenario("a write died: append, recover", DIED, Budget(timeouts=1), FULL, A=append("A", "p"), recover=RECOVER),
    scenario(
        "an old alter pending: append, recover", OLD_ALTER, Budget(late=1), FULL, A=append("A", "pq"), recover=RECOVER
    ),
    scenario(
        "an old drop pending: append, recover", OLD_DROP, Budget(late=1), FULL, A=append("A", "pq"), recover=RECOVER
    ),
    scenario(
        "an old add pending: append, recover", OLD_ADD, Budget(late=1), FULL, A=append("A", "pq"), recover=RECOVER
    ),
    replace(
        scenario(
            "append, recover, another tool",
            ONLY_P,
            Budget(other_tool=1),
            Budget(1, 1, 1, 1, other_tool=1),
            A=append("A", "pq"),
            recover=RECOVER,
        ),
        other_tool=(DROP_P, MOVE_P),
    ),
    scenario("creation, recover", NOTHING, FULL, A=create("A", "pq"), recover=RECOVER),
    scenario(
        "2 creations, recover",
        NOTHING,
        Budget(timeouts=1, late=1),
        FULL,
        A=create("A", "pq"),
        B=create("B", "p"),
        recover=RECOVER,
    ),
    scenario(
        "creation, write, recover",
        NOTHING,
        Budget(timeouts=1, late=1),
        FULL,
        A=create("A", "pq"),
        B=B_P,
        recover=RECOVER,
    ),
    scenario(
        "an old add pending: creation, recover", OLD_ADD, Budget(late=1), FULL, A=create("A", "q"), recover=RECOVER
    ),
    replace(
        scenario(
            "creation, recover, another tool",
            NOTHING,
            Budget(timeouts=1, late=1, other_tool=1),
            A=create("A", "pq"),
            recover=RECOVER,
        ),
        other_tool=(ADD_P,),
    ),
    scenario("overwrite of the table, recover", BOTH, FULL, A=table("A", "p"), recover=RECOVER),
    scenario(
        "overwrite of the table, write of a new partition, recover",
        ONLY_P,
        Budget(timeouts=1, late=1),
        Budget(late=1),
        A=table("A", "p"),
        B=write("B", "q"),
        recover=RECOVER,
    ),
    scenario(
        "2 overwrites of the table, recover",
        BOTH,
        Budget(timeouts=1),
        Budget(timeouts=1, late=1),
        A=table("A", "p"),
        B=table("B", "q"),
        recover=RECOVER,
    ),
    scenario(
        "overwrite of the table, append, rollback",
        BOTH,
        Budget(timeouts=0),
        Budget(timeouts=1),
        A=table("A", "p"),
        B=append("B", "q"),
        K=rollback(1, "pq"),
    ),
    scenario("overwrite of the table with nothing, recover", BOTH, FULL, A=table("A", ""), recover=RECOVER),
    scenario(
        "overwrite of an empty table with nothing, recover",
        NOTHING,
        Budget(unrecorded=1),
        A=table("A", ""),
        recover=RECOVER,
    ),
    scenario(
        "overwrite where q with nothing, write, recover",
        BOTH,
        Budget(timeouts=1),
        Budget(late=1),
        A=where("A", "", "q"),
        B=write("B", "pq"),
        recover=RECOVER,
    ),
    *(
        scenario(f"unpartitioned{how}: {title}", begin, budget, larger, **actors)
        for how, first, twice in (("", PLAIN, PLAIN_TWICE), (", compared", COMPARING, COMPARING_TWICE))
        for title, begin, budget, larger, actors in (
            (
                "2 overwrites, recover",
                first,
                Budget(timeouts=1, late=1),
                FULL,
                {"A": table("A", "p", whole=True), "B": table("B", "p", whole=True), "recover": RECOVER},
            ),
            (
                "append, overwrite with nothing, recover",
                twice,
                Budget(timeouts=1, late=0 if how else 1),
                Budget(late=1),
                {"A": append("A", "p", whole=True), "B": table("B", "", whole=True), "recover": RECOVER},
            ),
            (
                "append, rollback, vacuum, a day",
                twice,
                Budget(timeouts=0, days=0 if how else 1),
                Budget(timeouts=1, days=1),  # nothing late: a day later it looks like another tool's move
                {"A": append("A", "p", whole=True), "K": rollback(0), "vacuum": VACUUM},
            ),
        )
    ),
    scenario(
        "unpartitioned, an old alter pending: append, recover",
        OLD_ALTER,
        Budget(late=1),
        A=append("A", "p", whole=True),
        recover=RECOVER,
    ),
    scenario(
        "unpartitioned, compared, an old alter pending: append, recover",
        OLD_ALTER_COMPARED,
        Budget(late=1),
        A=append("A", "p", whole=True),
        recover=RECOVER,
    ),
    scenario(
        "one key twice: 2 appends, recover",
        ONLY_P,
        Budget(timeouts=1),
        Budget(late=1),
        A=append("A", "p", "k"),
        B=append("B", "p", "k"),
        recover=RECOVER,
    ),
    scenario(
        "one key twice: writes of p and q, recover",
        ONLY_P,
        Budget(timeouts=1, late=1),
        Budget(refusals=1, late=1),
        A=keyed("A", "p"),
        B=keyed("B", "q"),
        recover=RECOVER,
    ),
    scenario(
        "one key twice: 2 appends, rollback",
        ONLY_P,
        Budget(timeouts=0),
        Budget(timeouts=1),
        A=append("A", "p", "k"),
        B=append("B", "p", "k"),
        K=rollback(1),
    ),
    scenario("a key that was given up: append", GIVEN_UP, Budget(late=1), FULL, A=append("A", "p", "k")),
    scenario(
        "a key that was rolled back: append, recover",
        ROLLED_BACK,
        Budget(late=1),
        FULL,
        A=append("A", "p", "k"),
        recover=RECOVER,
    ),
)
"""Those with a larger budget are explored again with it, in the slow tests."""

ONLY_REPEATED: Final = (
    scenario("a key in doubt: append, recover", IN_DOUBT, FULL, A=append("A", "p", "k"), recover=RECOVER),
    scenario("a key in doubt elsewhere: write, recover", DIED_ELSEWHERE, FULL, A=keyed("A", "p"), recover=RECOVER),
    scenario("a key that is back: append", ROLLBACK_ROLLED_BACK, FULL, A=append("A", "p", "k")),
)
"""Here nobody writes a second time."""
