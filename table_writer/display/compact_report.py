"""What ``compact`` returns: which partitions have fewer files now, and why others do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from table_writer.display.report import Columns, Report, size
from table_writer.errors import counted
from table_writer.model.table import WHOLE_TABLE, PartitionValues


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactedPartition:
    """What a compaction did to one partition, or would do.

    Parameters
    ----------
    name, values
        Hive's name and its values; both empty for an unpartitioned table.
    rows
        That were written anew; ``None`` in a dry run.
    files_before, files_after
        Of the whole partition; of a dry run the second is an estimate.
    bytes_before, bytes_after
        Of the files that were written anew, before and after; ``bytes_after`` is 0 in a dry run.
    """

    name: str
    values: PartitionValues
    rows: int | None
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int = 0


COMPACT_COLUMNS: Final[Columns] = {
    "partition": lambda one: one.name or WHOLE_TABLE,
    "rows": "rows",
    "files before": "files_before",
    "files after": "files_after",
    "size before": lambda one: size(one.bytes_before),
    "size after": lambda one: size(one.bytes_after) if one.bytes_after else "-",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class CompactReport(
    Report,
    rows="partitions",
    columns=COMPACT_COLUMNS,
    lines={"left alone: {}: {}": "skipped", "note: {}": "notes"},
    derived=("files_before", "files_after"),
):
    """What a compaction did: the same rows in fewer files.

    Parameters
    ----------
    version
        In the table's log; ``None`` if nothing was published.
    write_id
        Whose files readers look at now; empty in a dry run.
    partitions
        Those with fewer files, in the order of their values.
    skipped
        By name of partition, why one that has small files was left as it is.
    checksum
        Sum of a hash of each row, before and after, which were compared; empty in a dry run.
    seconds, storage_requests, metastore_calls
        What the call took on the driver and in its tasks.

    Examples
    --------
    >>> one = CompactedPartition(
    ...     name="dt=1", values=("1",), rows=9, files_before=40, files_after=1, bytes_before=9000, bytes_after=4000
    ... )
    >>> CompactReport(table="mart.orders", version=8, write_id="W", partitions=(one,)).to_text().splitlines()[0]
    'mart.orders: version 8 has 1 partition in 1 file instead of 40, the same 9 rows'
    """

    version: int | None
    write_id: str = ""
    partitions: tuple[CompactedPartition, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    checksum: str = ""
    notes: tuple[str, ...] = ()
    dry_run: bool = False
    seconds: Mapping[str, float] = field(default_factory=dict)
    storage_requests: Mapping[str, int] = field(default_factory=dict)
    metastore_calls: Mapping[str, int] = field(default_factory=dict)

    @property
    def files_before(self) -> int:
        """Of all partitions together."""
        return sum(one.files_before for one in self.partitions)

    @property
    def files_after(self) -> int:
        """Of all partitions together."""
        return sum(one.files_after for one in self.partitions)

    def _headline(self) -> str:
        if not self.partitions:
            return ": nothing to compact" if self.version is None else f": version {self.version} changes nothing"
        what = f"{counted(len(self.partitions), 'partition')} in {counted(self.files_after, 'file')}"
        instead = f"instead of {self.files_before:,}"
        if self.dry_run:
            return f": would have {what} {instead}"
        rows = counted(sum(one.rows or 0 for one in self.partitions), "row")
        return f": version {self.version} has {what} {instead}, the same {rows}"
