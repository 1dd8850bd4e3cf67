"""The certificate of an erasure: which objects are gone that may have held deleted rows, and what is not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from table_writer.errors import counted
from table_writer.reports.layout import Column, Columns, State
from table_writer.reports.report import Report

OBJECTS: Final[Columns] = (Column("object", "key"), State("", "state"))


WHAT_STAYS: Final = {"NOT ERASED: {}": "remarks", "KEPT: {}": "later", "NOT KNOWN: {}": "unknown"}


@dataclass(frozen=True, kw_only=True)
class ErasedObject:
    """An object that may have held deleted rows: ``"deleted"``, or ``"due"`` until a vacuum deletes it."""

    key: str
    state: str


@dataclass(frozen=True, kw_only=True, repr=False)
class ErasureReport(
    Report, rows="objects", columns=OBJECTS, lines=WHAT_STAYS, derived=("is_complete", "due", "found_nothing")
):
    """The certificate of an erasure.

    Parameters
    ----------
    write_id
        Of the delete.
    version
        Of the erasure's entry in the log: what readers left before it is erased.
    predicate_sha256
        Of a salt, followed by the predicate's text, in hexadecimal digits. Whoever has both can show that they are the
        same; who has only this cannot find the predicate by trying. The salt is in the delete's result alone.
    deleted_rows
        Rows that the delete has taken from readers; ``None`` if it was repeated, and an earlier call had done it.
    requested_at, requested_by
        When, and by which user and host.
    vacuumed_at
        When the newest vacuum of these objects began; ``None`` before it, or if the log has it no more.
    objects
        Every object, by its key, deleted or still to be deleted.
    remarks
        What may hold whole rows, and is not erased by this: while there is any, the certificate is not complete.
    later
        What holds single values, such as bounds of columns and names of partitions, with when it goes.
    unknown
        What nobody can tell from here.
    """

    write_id: str
    version: int
    predicate_sha256: str
    deleted_rows: int | None
    requested_at: datetime
    requested_by: str
    vacuumed_at: datetime | None = None
    objects: tuple[ErasedObject, ...] = ()
    remarks: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def due(self) -> int:
        """Return how many objects are still to be deleted."""
        return sum(erased.state == "due" for erased in self.objects)

    @property
    def is_complete(self) -> bool:
        """Return whether there were such rows, and nothing is known to hold one any more."""
        return not (self.found_nothing or self.due or self.remarks)

    @property
    def found_nothing(self) -> bool:
        """Return whether no row was found, and nothing is left that could hold one: neither objects nor remarks."""
        return not (self.objects or self.deleted_rows or self.remarks)

    def _headline(self) -> str:
        gone = counted(len(self.objects) - self.due, "object")
        rows = "rows" if self.deleted_rows is None else counted(self.deleted_rows, "row")
        return f": {rows} erased by write {self.write_id}: {gone} deleted, {self.due:,} due"

    def _lines(self) -> Iterator[str]:
        requested_at = f"{self.requested_at:%Y-%m-%d %H:%M:%S} UTC"
        yield f"requested at {requested_at} by {self.requested_by}, in version {self.version}"
        if self.vacuumed_at is not None:
            yield f"vacuumed at {self.vacuumed_at:%Y-%m-%d %H:%M:%S} UTC"
        yield f"predicate's SHA-256: {self.predicate_sha256}"
        if self.found_nothing:
            yield "NOTHING FOUND: neither readers nor older versions had such a row; is the predicate right?"
        if self.due:
            yield f"run `table-writer vacuum {self.table}`: until then the objects are there, though no call reads them"
