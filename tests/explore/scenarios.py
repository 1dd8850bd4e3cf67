"""Who meets whom: all pairs, and the triples of those that resolve each other."""

from __future__ import annotations

from itertools import combinations_with_replacement, product
from typing import Final

from .actors import OTHERS, OURS

PAIRS: Final = tuple(
    (one, other)
    for one, other in combinations_with_replacement(OURS | OTHERS, 2)
    if one in OURS  # other tools among themselves are nothing of ours
)

VARIANTS: Final = frozenset(
    {
        "overwrite with figures",
        "overwrite nothing",
        "append once d3",
        "insert d2",
        "insert d3",
        "move d3",
        "begin again",
        "append after a recovery",
        "append d1",
        "append in place d1",
        "append d2 d3",
        "append in place d2 d3",
        "overwrite d2 d3",
        "append in place once",
        "overwrite once",
        "batch in place",
        "later batch",
        "stage in place",
        "stage overwrite",
        "stage create",
        "publish overwrite",
        "publish create",
        "rollback far",
    }
)
"""Operations with other arguments: the budgeted run leaves them to the slow one."""
BUDGETED_PAIRS: Final = tuple(pair for pair in PAIRS if not VARIANTS & {*pair})

DYING: Final = (
    "append",
    "append in place",
    "append once",
    "append in place once",
    "overwrite table",
    "overwrite once",
    "create",
    "compact",
    "batch",
    "batch in place",
    "publish",
    "publish in place",
    "rollback",
    "restore",
    "overwrite where",
)
"""Entries that others may find in doubt."""
BUILDING: Final = ("append", "rollback", "move", "insert", "vacuum")
LATE: Final = ("old alter comes", "old drop comes")
OVERTAKEN: Final = ("append", "append in place", "overwrite", "create d2", "publish", "compact", "vacuum")
"""Who meets a call that comes late, of an entry that others have recovered and published over.

Not a rollback: it wants partitions just where such a call takes them, and nobody can tell whose doing it was.
"""
AGAIN: Final = ("append once", "append in place once", "overwrite once", "batch", "publish")
TRIPLES: Final = tuple(
    dict.fromkeys(
        (
            *((one, "recover", other) for one, other in product(DYING, BUILDING)),
            *product(LATE, OVERTAKEN, ("append", "recover")),
            *((one, "recover", one) for one in DYING),
            *((one, "move", "recover") for one in ("append d1", "append in place d1")),
            *((one, "append", "rollback") for one in DYING if one != "append"),
            *((one, "recover", "discard") for one in ("publish", "publish in place", "stage")),
            *((one, "discard", "append") for one in ("publish", "publish in place")),
            *((one, "move", one) for one in AGAIN),
            *(("append after a recovery", one) for one in ("rollback far", "overwrite", "publish", "recover")),
            ("append once after a rollback", "rollback"),
            ("batch", "append once", "batch"),
            ("batch", "later batch", "batch"),
            ("append once", "batch", "append once"),
        )
    )
)
"""A write that dies, who resolves it, and who builds on that; few pairs that are worth as much."""
