"""What an entry means to others: the facts that everybody asks for, in place of which operation it is.

One value an operation. So a new operation is a value here, and whoever meets its entries knows what to do with them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Final


class Operation(enum.Enum):
    """The operation of an entry, as it is stored."""

    WRITE = "write"  # points partitions at new rows
    COMPACT = "compact"  # points partitions at the same rows in fewer files
    RECOVER = "recover"  # carries out another entry, whose writer is gone or which a late call has undone
    UNDO = "undo"  # undoes the late call of an entry that was abandoned
    ROLLBACK = "rollback"  # points partitions at rows they had before
    RESTORE = "restore"  # adds partitions that the metastore has lost
    VACUUM = "vacuum"  # deletes locations; no partition changes
    DISCARD = "discard"  # deletes one staged write, because somebody asked
    ERASE = "erase"  # names what may hold deleted rows: the next vacuum deletes it
    HANDOVER = "handover"  # deletes nothing: claims that were under way lose to it
    TAKE_BACK = "take back"  # the same, before the log is open again


@dataclass(frozen=True, kw_only=True, slots=True)
class Meaning:
    """What an entry means to others, whatever it is called."""

    changes_partitions: bool = True
    """Readers may look elsewhere once it is carried out. Else it deletes, and no entry may point to what it names."""
    has_own_files: bool = False
    """It points readers at files of its own write."""
    brings_rows: bool = False
    """It is the write of its rows: its idempotency key counts."""
    keeps_all_rows: bool = False
    """Readers see the same rows after it as before: it is no conflict."""
    repeats: bool = False
    """It does again what an earlier entry says, or undoes a late call of it: it alters what is there by then."""
    needs_last_word: bool = False
    """It may end what it repeats, which takes the last word on that, if that is in doubt."""
    returns_partitions: bool = False
    """Where an older entry has put a partition to the same place, it has the rows of that entry."""
    has_older_columns: bool = False
    """Its columns are those of an older version, and are no news of what that had."""
    may_claim_when_closed: bool = False
    """It may be claimed in a log that a handover has closed: no rows come by it that nobody has claimed before."""
    erases: bool = False
    """Nobody may ever read again what it names. It stays in doubt on purpose, until a vacuum carries it out."""
    may_end_other_vacuums: bool = False
    """Whoever carries it out has read what other vacuums in doubt name, and records those of which nothing is left.

    A discard reads no older entries than may name its write.
    """
    gave_up: str = ""
    """What became of a write whose files it deletes, for a message."""

    @property
    def shows_a_write(self) -> bool:
        """Return whether readers see a write's own files by it, for the first time or again."""
        return self.has_own_files or self.repeats


WRITTEN: Final = Meaning(has_own_files=True, brings_rows=True)
COMPACTED: Final = Meaning(has_own_files=True, keeps_all_rows=True)
RECOVERED: Final = Meaning(repeats=True, needs_last_word=True, returns_partitions=True, may_claim_when_closed=True)
UNDONE: Final = Meaning(repeats=True, returns_partitions=True, may_claim_when_closed=True)
"""There is no outcome to decide, so nobody has a last word."""
ROLLED_BACK: Final = Meaning(has_older_columns=True)
RESTORED: Final = Meaning(returns_partitions=True, has_older_columns=True, may_claim_when_closed=True)
VACUUMED: Final = Meaning(
    changes_partitions=False, may_end_other_vacuums=True, gave_up="gave no sign of life for too long, or had expired"
)
DISCARDED: Final = Meaning(changes_partitions=False, gave_up="was discarded")
ERASED: Final = replace(VACUUMED, erases=True)
CLOSED: Final = replace(VACUUMED, may_claim_when_closed=True)
"""A handover, or the way back: nothing is deleted, but whoever was about to claim its slot has lost it."""

OF_OPERATION: Final = {
    Operation.WRITE: WRITTEN,
    Operation.COMPACT: COMPACTED,
    Operation.RECOVER: RECOVERED,
    Operation.UNDO: UNDONE,
    Operation.ROLLBACK: ROLLED_BACK,
    Operation.RESTORE: RESTORED,
    Operation.VACUUM: VACUUMED,
    Operation.DISCARD: DISCARDED,
    Operation.ERASE: ERASED,
    Operation.HANDOVER: CLOSED,
    Operation.TAKE_BACK: CLOSED,
}
