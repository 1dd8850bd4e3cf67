"""What a write returns: what changed for readers, and what it took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from table_writer.display.render import Summary, size, summary_html, summary_text
from table_writer.model.table import PartitionValues

__all__ = ["PartitionResult", "WriteResult"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionResult:
    """One partition after a publish.

    ``name`` is Hive's, ``dt=2024-01-01/country=de``; ``replaced`` says whether readers saw other rows before.
    """

    name: str
    values: PartitionValues
    location: str
    replaced: bool
    rows: int
    bytes: int
    files: int


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteResult:
    """A write that took effect, or that had nothing to write (then ``version`` is ``None``).

    Parameters
    ----------
    table, mode, write_id
        What was called, and the tag in every file name.
    version
        Number of the entry in the table's log.
    partitions
        What readers see now, in the order of the values.
    seconds
        Per step: plan, upload, complete, publish.
    storage_requests, metastore_calls
        Sent by this write, by kind, executors included.
    notes
        What a person should know: what was left alone, what a best-effort step could not do.
    """

    table: str
    mode: str
    write_id: str
    version: int | None
    partitions: tuple[PartitionResult, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    storage_requests: Mapping[str, int] = field(default_factory=dict)
    metastore_calls: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def added(self) -> tuple[PartitionResult, ...]:
        """Partitions that did not exist before."""
        return tuple(partition for partition in self.partitions if not partition.replaced)

    @property
    def replaced(self) -> tuple[PartitionResult, ...]:
        """Partitions whose rows are others now."""
        return tuple(partition for partition in self.partitions if partition.replaced)

    @property
    def rows(self) -> int:
        """Rows written."""
        return sum(partition.rows for partition in self.partitions)

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(partition.bytes for partition in self.partitions)

    @property
    def files(self) -> int:
        """Files written."""
        return sum(partition.files for partition in self.partitions)

    def __repr__(self) -> str:
        return summary_text(self._summary)

    def _repr_html_(self) -> str:
        return summary_html(self._summary)

    @property
    def _summary(self) -> Summary:
        return Summary(
            headline=self._headline,
            headings=("partition", "", "rows", "files", "size"),
            rows=tuple(
                (p.name, "replaced" if p.replaced else "added", f"{p.rows:,}", f"{p.files:,}", size(p.bytes))
                for p in self.partitions
            ),
            lines=(f"write_id {self.write_id}", self._effort, *(f"note: {note}" for note in self.notes)),
        )

    @property
    def _headline(self) -> str:
        if self.version is None:
            return f"{self.table}: nothing to write, nothing changed ({self.mode})"
        return (
            f"{self.table} version {self.version}: {len(self.added)} partition(s) added, {len(self.replaced)} replaced,"
            f" {self.rows:,} rows in {self.files:,} files, {size(self.bytes)} ({self.mode})"
        )

    @property
    def _effort(self) -> str:
        steps = ", ".join(f"{step} {seconds:.2f} s" for step, seconds in self.seconds.items())
        requests, calls = sum(self.storage_requests.values()), sum(self.metastore_calls.values())
        return f"{requests:,} storage requests, {calls:,} metastore calls; {steps}"
