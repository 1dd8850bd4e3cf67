"""The result of a call that changes rows: a write, and what became of rows and files."""

from __future__ import annotations

from dataclasses import dataclass

from table_writer.errors import counted
from table_writer.reports.layout import size
from table_writer.reports.write_result import WriteResult


@dataclass(frozen=True, kw_only=True, repr=False)
class RowsResult(WriteResult):
    """A change of rows that took effect, or that had nothing to do.

    ``rows``, ``files`` and ``bytes`` are what was written: with the changed rows all others of their files.

    Parameters
    ----------
    inserted, updated, deleted
        How many rows, exactly; ``None`` of a ``rewrite``, whose function does what it likes.
    replaced_files, replaced_bytes
        The files whose rows were written anew; ``copied_files`` stayed as they were, in partitions that changed.
    predicate_salt
        Of a purge: what its certificate hashes before the predicate. Keep it with the certificate, if it is to be shown
        later which rows were meant: it is stored nowhere.

    Examples
    --------
    >>> counts = {"inserted": 2, "updated": 1, "deleted": 0}
    >>> RowsResult(table="mart.orders", mode="merge", write_id="W", version=8, **counts).to_text().splitlines()[0]
    'mart.orders version 8 inserted 2, updated 1, deleted 0 rows: 0 files instead of 0, 0 B written (merge)'
    """

    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    replaced_files: int = 0
    replaced_bytes: int = 0
    predicate_salt: str = ""

    def _headline(self) -> str:
        if self.version is None or self.repeated:
            return super()._headline()
        if self.inserted is None:
            what = f"rewrote {counted(len(self.partitions), 'partition')}"
        else:
            what = f"inserted {self.inserted:,}, updated {self.updated:,}, deleted {self.deleted:,} rows"
        copies = f", {counted(self.copied_files, 'file')} with {size(self.copied_bytes)} copied"
        volume = f"{counted(self.files, 'file')} instead of {self.replaced_files:,}, {size(self.bytes)} written"
        return f" version {self.version} {what}: {volume}{copies if self.copied_files else ''} ({self.mode})"
