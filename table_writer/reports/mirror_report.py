"""What a mirror of a table holds, and how that differs from the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from table_writer.errors import counted
from table_writer.reports.layout import Column, Columns, State
from table_writer.reports.report import NOTES, Report

DIFFERENCES: Final[Columns] = (Column("file", "key"), State("", "state"))


@dataclass(frozen=True, kw_only=True)
class MirrorDifference:
    """A file that is ``"missing"`` in the mirror, or ``"surplus"``: named by it, and read by no reader of the table.

    Or it is named ``"in another partition"``, ``"of another size"`` or ``"with another row count"``. Or the state says
    why readers of the mirror would not find in it what readers of the table do: ``"spells column userId as userid"``.
    """

    key: str
    state: str


@dataclass(frozen=True, kw_only=True, repr=False)
class MirrorReport(Report, rows="differences", columns=DIFFERENCES, lines=NOTES, derived=("healthy",)):
    """A mirror of a table.

    Parameters
    ----------
    kind
        ``"delta"`` or ``"iceberg"``.
    state
        ``"in step"``; ``"behind"``: it does not have the newest version; ``"differs"``; ``"damaged"``; ``"absent"``;
        ``"dropped"``; ``"handed over"``: it is a table of its own; ``"taken back"``: it is a mirror again.
    version
        The version of the table that it holds; ``None`` if there is none.
    mirror_version
        The number that readers of the mirror know it by: Delta's version, Iceberg's snapshot.
    files
        How many its readers read; of a drop, how many objects were deleted.
    damage
        Why its log cannot be followed as it is.
    differences
        The files in which the two differ.
    """

    kind: str
    state: str
    version: int | None = None
    mirror_version: int | None = None
    files: int = 0
    damage: str = ""
    differences: tuple[MirrorDifference, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def healthy(self) -> bool:
        """Return whether nothing is left to do."""
        return self.state in {"in step", "dropped", "handed over", "taken back"}

    def _headline(self) -> str:
        if self.state == "dropped":
            return f": {self.kind} mirror dropped, {counted(self.files, 'object')} deleted"
        if self.version is None:
            return f": {self.kind} mirror {self.state}"
        holds = f"holds version {self.version} as {self.mirror_version}, {counted(self.files, 'file')}"
        return f": {self.kind} mirror {self.state}, {holds}"

    def _lines(self) -> Iterator[str]:
        if self.damage:
            yield self.damage
        if not self.healthy:
            yield f"run `table-writer mirror {self.table} --as {self.kind} --repair`"
