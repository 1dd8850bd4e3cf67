"""First states of what is explored of appends in place."""

from __future__ import annotations

from typing import Any, Final

from table_writer.model.entry import Operation, Outcome
from table_writer.model.write import WriteMode

from .requests import Copy, Next
from .scenarios import I_P, I_PQ, published
from .staged_scenarios import with_staged
from .state import Added, Call, Log, Marks, Slot, World, start, with_rows
from .writes import Rollback, Write

BACK_TO_I: Final[Call] = ("alter", (("p", "I/p"),))
RESTORE: Final[Next] = ("restore", "S")


def in_place(write_id: str, partitions: str, files: int = 1, *, key: str = "", whole: bool = False) -> Next:
    return "write", Write(
        write_id, tuple(partitions), WriteMode.APPEND, key=key, in_place=files, is_of_whole_table=whole
    )


def publisher_in_place(by: str, partitions: str = "p", files: int = 1) -> Next:
    return "publish_staged", Write("X", tuple(partitions), WriteMode.APPEND, by=by, in_place=files), 1


def rollback_by(write_id: str, version: int) -> Next:
    return "rollback", Rollback(write_id, version, ("p",))


def added(write_id: str, base: int = 1, place: str = "I/p", **more: Any) -> Slot:
    """Make an entry that has added a file to where p is."""
    source = f"{write_id}/p"
    made = published(write_id, ("p", place, place), base=base, appends=True, unused=(source,))
    return made._replace(added=(Added("p", source, (source,)),), **more)


def holding(begin: World, **rows: tuple[str, ...]) -> World:
    """Return the world with these rows in p of writes."""
    for write_id, found in rows.items():
        begin = with_rows(begin, f"{write_id}/p", found)
    return begin


ADDED: Final = holding(start(("I/p", None), [I_P, added("J")], data=["J/p"]), I=("I/p", "J/p"))
"""J has added to what I has written."""

ADDED_OFTEN: Final = holding(
    start(("I/p", None), [I_P, added("J"), added("C", 2), added("D", 3)], data=["J/p", "C/p", "D/p"]),
    I=("C/p", "D/p", "I/p", "J/p"),
)

ADDED_WITH_KEY: Final = ADDED._replace(log=Log.of((I_P, added("J", key="k")), Marks()))

REPLACED: Final = holding(
    start(("M/p", None), [I_P, added("J"), published("M", ("p", "I/p", "M/p"), base=2)], data=["I/p", "J/p"]),
    I=("I/p", "J/p"),
)
"""The same, and M has replaced it since."""

THEIRS_ADDED: Final = with_rows(start(("dt=p", None), [added("J", 0, "dt=p")], data=["J/p"]), "dt=p", ("J/p", "dt=p"))
"""J has added to what other tools have written."""

X_CLAIMED: Final = Slot(
    Operation.WRITE,
    "X",
    (("p", "I/p", "I/p"),),
    1,
    appends=True,
    added=(Added("p", "X/p", ("X/p", "X/p+")),),
    unused=("X/p",),
    files=2,
)
DIED_COPYING: Final = holding(
    start(("I/p^X", None), [I_P, X_CLAIMED._replace(timed_out=True)], data=["X/p"]), X=("X/p", "X/p+"), I=("I/p", "X/p")
)
"""X has died between its two copies."""

REFUSED: Final = holding(
    start(("I/p", None), [I_P, X_CLAIMED._replace(outcome=Outcome.ABANDONED, recorded_by="X", old=True)], data=["X/p"]),
    X=("X/p", "X/p+"),
)
"""The metastore has refused X; its files are old enough for a vacuum."""

REFUSED_STAGED: Final = holding(
    with_staged(
        start(
            ("I/p", None), [I_P, X_CLAIMED._replace(outcome=Outcome.ABANDONED, recorded_by="X", old=True, by="dead")]
        ),
        "p",
        lasting=False,
    ),
    X=("X/p", "X/p+"),
)
"""The metastore has refused the staged write once; it has expired since."""

AWAY: Final = start(
    ("M/p", None),
    [
        I_P,
        X_CLAIMED._replace(outcome=Outcome.ABANDONED, recorded_by="R3"),
        Slot(
            Operation.RECOVER,
            "R3",
            (("p", "I/p", "I/p"),),
            2,
            recovers=2,
            added=X_CLAIMED.added,
            outcome=Outcome.ABANDONED,
            recorded_by="R3",
        ),
        published("M", ("p", "x:p", "M/p"), base=3),
    ],
    data=["I/p", "X/p"],
)._replace(late_store=(Copy((("I/p", "X/p", ("X/p",)),)),), rows=(("X/p", ("X/p", "X/p+")),))
"""Another tool had moved p when X was about to copy, so X was abandoned; a copy is pending. M has replaced p."""

HALF_AWAY: Final = with_rows(
    start(
        ("M/p", "I/q"),
        [
            I_PQ,
            X_CLAIMED._replace(
                changes=(("p", "I/p", "I/p"), ("q", "I/q", "I/q")),
                added=(Added("p", "X/p", ("X/p",)), Added("q", "X/q", ("X/q",))),
                unused=("X/p", "X/q"),
                files=1,
                outcome=Outcome.PUBLISHED,
                recorded_by="R3",
                superseded=("p",),
            ),
            published(
                "R3",
                ("p", "I/p", "I/p"),
                ("q", "I/q", "I/q"),
                operation=Operation.RECOVER,
                base=2,
                recovers=2,
                added=(Added("p", "X/p", ("X/p",)), Added("q", "X/q", ("X/q",))),
                superseded=("p",),
            ),
            published("M", ("p", "x:p", "M/p"), base=3),
        ],
        data=["I/p", "X/p", "X/q"],
    ),
    "I/p",
    ("I/p", "X/p"),
)
HALF_MOVED: Final = with_rows(HALF_AWAY, "I/q", ("I/q", "X/q"))
"""X has added to p and q; another tool had moved p before X's recovery."""

LATE_IN_PLACE: Final = holding(
    start(
        ("M/p", None),
        [
            I_P,
            added("J", recorded_by="R3"),
            published(
                "R3", ("p", "I/p", "I/p"), operation=Operation.RECOVER, base=2, recovers=2, added=added("J").added
            ),
            published("M", ("p", "I/p", "M/p"), base=3),
        ],
        data=["I/p", "J/p"],
        late=[("alter", (("p", "I/p^J"),))],
    ),
    I=("I/p", "J/p"),
)
"""The alter of J was never answered; J was recovered, M has replaced it, and J's alter is still pending."""
