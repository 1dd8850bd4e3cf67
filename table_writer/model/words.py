"""What a log entry says for people: which call it was, with which condition, and how many rows that changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

LONGEST_CONDITION: Final = 500  # characters: each entry stores one, and a generated one may name a thousand keys


class Words(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the caller of a write has said of it, and what became of rows.

    ``None`` is the count of rows that nobody has counted.
    """

    call: str = ""  # the method that changes rows: merge, delete_where; empty where the mode says it
    where: str = ""  # the condition of the call, in short; of a purge none is stored, since it may name a person
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    tags: Mapping[str, str] = {}

    @property
    def counts(self) -> dict[str, int]:
        """Return the counts that are known, by what became of so many rows."""
        counts = {"inserted": self.inserted, "updated": self.updated, "deleted": self.deleted}
        return {what: count for what, count in counts.items() if count is not None}


NO_WORDS: Final = Words()


def in_short(condition: str) -> str:
    r"""Return a condition as it is stored: in one line, and cut where it is long.

    Examples
    --------
    >>> in_short("customer = 17\n  AND paid"), len(in_short("x" * 9_000))
    ('customer = 17 AND paid', 500)
    """
    line = " ".join(condition.split()).encode(errors="replace").decode()
    return line if len(line) <= LONGEST_CONDITION else f"{line[: LONGEST_CONDITION - 1]}…"
