"""Who meets whom: all pairs, and the triples of those that resolve each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import combinations_with_replacement, product
from typing import Final

from .actors import MIRRORED, NEWER, OF_A_ROLE, OTHERS, OURS

REPLACE: Final = "replace columns"
LATE_COLUMNS: Final = ("old replacement comes", "old alter comes to other columns")
Scenarios = tuple[tuple[str, ...], ...]
ROOT: Final = (
    "append",
    "append in place",
    "append once",
    "overwrite",
    "overwrite nothing",
    "replace columns",
    "append to other columns",
    "compact",
    "stage",
    "publish",
    "publish in place",
    "discard",
    "rollback",
    "rollback to the beginning",
    "vacuum",
    "recover",
)
"""What is done to an unpartitioned table."""
BATCHES: Final = (
    "append",
    "append in place",
    "append d2 d3",
    "overwrite",
    "overwrite table",
    "create",
    "compact",
    "publish",
    "rollback",
    "restore",
    "vacuum",
    "recover",
)
"""What switches several partitions, and what meets it."""
CORE: Final = frozenset(
    {
        "append",
        "append d2 d3",
        "append in place",
        "create",
        "drop",
        "move",
        "overwrite",
        "overwrite nothing",
        "overwrite table",
        "publish in place",
        "recover",
        "replace columns",
        "rollback",
        "vacuum",
    }
)
"""Who meets in the budgeted run there."""


WITH_MIRRORS: Final = (
    "append",
    "append in place",
    "overwrite",
    "compact",
    "publish",
    "rollback",
    "restore",
    "vacuum",
    "recover",
    "purge",
)
"""Who is followed by a mirror, or brings it up."""


ROLES: Final = ("append", "overwrite", "append d2 d3", "recover", "vacuum", "move")
"""Whom those meet to whom Glue does not show all, or not as it is now."""


def pairs(ours: Collection[str], others: Collection[str]) -> Scenarios:
    """Return all pairs; other tools among themselves are nothing of ours."""
    all_pairs = combinations_with_replacement((*ours, *others), 2)
    return tuple(pair for pair in all_pairs if pair[0] in ours)


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
        "stage rows",
        "publish overwrite",
        "publish create",
        "publish rows",
        "rollback far",
        "restore in doubt",
        "vacuum what is to be erased",
        "purge all",
        "vacuum after a purge",
        "look",
        "set back far",
    }
)
"""Operations with other arguments: the budgeted run leaves them to the slow one."""
PAIRS: Final[Mapping[str, Scenarios]] = {
    "": pairs(OURS, OTHERS),
    "root": pairs(ROOT, ("insert", "insert overwrite", "move", "point back")),
    "uncompared root": pairs([one for one in ROOT if one in CORE], ("insert", "move", "old alter comes"))
    + tuple(product(LATE_COLUMNS, ("append", "overwrite", "recover", REPLACE))),
    "batches": pairs(BATCHES, ("insert", "move", "drop", "old alter comes")) + tuple(product(OF_A_ROLE, ROLES)),
    "mirrored": pairs(MIRRORED, (*WITH_MIRRORS, "insert", "move", "drop", "set back")),
}
BUDGETED_PAIRS: Final[Mapping[str, Scenarios]] = {
    "": tuple(pair for pair in PAIRS[""] if not VARIANTS & {*pair}),
    "root": tuple(pair for pair in PAIRS["root"] if CORE.issuperset(pair)),
    "batches": tuple(pair for pair in PAIRS["batches"] if CORE.issuperset(pair))
    + tuple(product(OF_A_ROLE, ("append", "overwrite"))),
    "mirrored": tuple(pair for pair in PAIRS["mirrored"] if not {"check mirror", "set back"} & {*pair}),
}

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
PAUSED: Final[Mapping[str, tuple[str, ...]]] = {
    "root": ("append", "append in place", "overwrite", "overwrite nothing", "publish in place", "rollback", REPLACE),
    "uncompared root": (
        "append",
        "append in place",
        "overwrite",
        "overwrite nothing",
        "rollback to the beginning",
        REPLACE,
    ),
    "batches": ("append", "append in place", "overwrite", "overwrite table", "create", "publish", "rollback"),
}
"""The same of tables of other kinds."""
BUILT: Final[Mapping[str, tuple[str, ...]]] = {
    "root": ("append", "append in place", "overwrite", "rollback", "move", "vacuum", REPLACE),
    "uncompared root": ("append", "overwrite nothing", "rollback", "insert", REPLACE),
    "batches": ("append", "append d2 d3", "rollback", "move", "vacuum"),
}
AGAIN: Final = ("append once", "append in place once", "overwrite once", "batch", "publish")
ERASING: Final = (
    *(
        ("purge", one, last)
        for one in ("rollback", "append", "recover", "publish", "move")
        for last in ("vacuum", "certificate")
    ),
    *(("vacuum after a purge", one, "certificate") for one in ("rollback", "append", "compact", "publish rows")),
    *(("append", one, "certificate") for one in ("purge", "refused vacuum")),
)
"""An erasure, who brings back what it names, or deletes it, and who asks for its certificate."""
OTHERWISE: Final = (
    *((one, "set back", "recover") for one in ("append", "append in place", "rollback", "vacuum")),
    *(("set back", "recover", one) for one in ("append", "move", "set back")),
    *((one, "static overwrite", "adopt") for one in ("append once", "publish", "vacuum", "stage")),
    *(("drop", "append by another configuration", one) for one in ("append", "restore")),
    *((one, "recover", "refused vacuum") for one in ("append", "rollback")),
    *(("discard", "refused vacuum", one) for one in ("vacuum", "recover")),
)
"""What befalls a table from outside, and who puts it right."""
HANDED: Final = (
    *(
        (one, "handover", last)
        for one in ("append", "append in place", "rollback", "compact")
        for last in ("recover", "take back")
    ),
    *(("handover", "take back", one) for one in ("append", "vacuum", "recover")),
    *((one, "drop mirror", last) for one in ("mirror", "repair mirror") for last in ("append", "vacuum")),
    *(("append", "recover", one) for one in ("mirror", "repair mirror", "handover")),
)
"""Who writes while a table is handed over, or its mirror goes."""
BESIDE: Final = tuple(
    product(NEWER, ("append", "append in place", "overwrite", "rollback", "recover", "vacuum", "compact", "restore"))
)
"""A newer library beside that of today."""
TRIPLES: Final[Mapping[str, Scenarios]] = {
    "": tuple(
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
                *ERASING,
                *OTHERWISE,
                *BESIDE,
            )
        )
    ),
    **{kind: tuple((one, "recover", other) for one, other in product(PAUSED[kind], BUILT[kind])) for kind in PAUSED},
    "mirrored": HANDED,
}
"""A write that dies, who resolves it, and who builds on that; few pairs that are worth as much."""
