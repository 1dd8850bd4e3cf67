"""The report on what this library keeps of a table, for those who want to stop using it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from table_writer.errors import counted, few
from table_writer.reports.layout import SIZE, Column, Figure, State, size
from table_writer.reports.report import Report

STAYS: Final = "stays"
VACUUM: Final = "vacuum"
DELETE: Final = "delete at last"
LOOK: Final = "not ours"


@dataclass(frozen=True, kw_only=True)
class Holding:
    """What this library keeps of a table in one place.

    Parameters
    ----------
    what
        For a person.
    location
        Where it lies; the common directory of all that is of this kind.
    fate
        ``"stays"``: readers need it; ``"not ours"``: another tool has put it there; ``"vacuum"``: a vacuum deletes it;
        ``"delete at last"``: nothing but this library needs it.
    objects, bytes
        How much it is.
    """

    what: str
    location: str
    fate: str
    objects: int
    bytes: int


@dataclass(frozen=True, kw_only=True, repr=False)
class LeaveReport(
    Report,
    rows="holdings",
    columns=(
        State("fate", "fate"),
        Column("what", "what"),
        Figure("objects", "objects"),
        SIZE,
        Column("where", "location"),
    ),
    derived=("is_ready",),
):
    """What this library keeps of a table, and what becomes of it when nobody uses the library any more.

    Parameters
    ----------
    holdings
        By what becomes of them: what readers need is first.
    partitions
        How many partitions point into this library's directory.
    placeholders
        How many of these point to a placeholder: they are empty, or another tool has written there. An empty one has
        no object; its location has to stay all the same.
    staged
        Staged writes: ``discard`` them first, or ``publish``.
    elsewhere
        How many point to where another tool has put their files.
    pending_uploads
        Uploads that nobody has completed: they are paid for until a vacuum aborts them.
    in_doubt
        Versions that ``recover`` has to resolve first.
    recovered
        Versions that a recovery has repeated: the metastore may still apply their own calls, up to two days later.
    properties
        Table properties of this library, which other tools ignore.
    """

    holdings: tuple[Holding, ...] = ()
    partitions: int = 0
    placeholders: int = 0
    staged: int = 0
    elsewhere: int = 0
    pending_uploads: int = 0
    in_doubt: tuple[int, ...] = ()
    recovered: tuple[int, ...] = ()
    properties: tuple[str, ...] = ()

    @property
    def is_ready(self) -> bool:
        """Return whether nothing is in doubt, no late call may come, and all is gone that a vacuum deletes for sure."""
        return not (self.recovered or self._is_unsettled)

    @property
    def _is_unsettled(self) -> bool:
        is_at_work = self.in_doubt or self.pending_uploads or self.staged
        return bool(is_at_work) or any(holding.fate == VACUUM for holding in self.holdings)

    def _bytes(self, fate: str) -> str:
        return size(sum(holding.bytes for holding in self.holdings if holding.fate == fate))

    def _headline(self) -> str:
        return f": {self._bytes(STAYS)} stay where readers find them, {self._bytes(DELETE)} can be deleted at last"

    def _lines(self) -> Iterator[str]:
        if self.in_doubt:
            yield f"version {few(self.in_doubt)} is in doubt: run `table-writer recover {self.table}` first"
        if self.staged:
            yield f"{counted(self.staged, 'staged write')}: `table-writer staged {self.table}` names them; discard them"
        if self._is_unsettled:
            rest = f"`table-writer vacuum {self.table} --older-than 0 --force`"
            yield f"when no write and no query is running: {rest} deletes what is listed as vacuum"
        if self.recovered:
            yield (
                f"version {few(self.recovered)} was recovered: its own call may still come, for two days. Keep the log"
                " and the files until then"
            )
        if self.partitions:
            yield (
                f"{counted(self.partitions, 'partition')} point into the directory of this library, where every engine"
                " reads them: leave them there, or copy the rows with INSERT OVERWRITE into another table"
            )
        if self.properties:
            yield f"other tools ignore the table properties {few(self.properties, most=10)}"
