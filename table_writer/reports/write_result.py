"""The results of a write and of a compaction: what changed for readers, and what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from table_writer.errors import counted
from table_writer.model.check_result import CheckResult
from table_writer.model.partition_facts import PartitionFacts
from table_writer.progress import UploadedBy
from table_writer.reports.checks import CheckResults, check_grids
from table_writer.reports.layout import ACTION, FILES, NAME, ROWS, SIZE, Column, Grid, size, size_or_dash
from table_writer.reports.report import NOTES, Report, ReportOfPartitions

PartitionResult = PartitionFacts
"""Its public name, in results of writes."""


@dataclass(frozen=True, kw_only=True, repr=False)
class WriteResult(
    ReportOfPartitions,
    columns=(NAME, ACTION, ROWS, FILES, SIZE),
    lines=NOTES,
    derived=("rows", "bytes", "files", "copied_files", "copied_bytes"),
    keys={"partitions": "name values location action rows bytes files copied_bytes copied_files"},
):
    """A write that took effect, or that had nothing to do.

    Parameters
    ----------
    table, mode, write_id
        What was called, and the tag in every file name.
    version
        Number of the entry in the table's log; ``None`` if there was nothing to write.
    partitions
        What readers see now, in the order of the values.
    repeated
        The call's idempotency key was published before, as ``version``: this call did nothing.
    seconds
        Per step: plan, upload, complete, publish.
    storage_requests, metastore_calls
        Sent by this write, by kind, executors included.
    notes
        What a person should know: what was left alone, what a best-effort step could not do.
    checks
        What the checks of this write found.
    uploaded_by
        ``"driver"`` where rows were few enough for that, or ``"executors"``; empty where this call uploaded nothing, or
        Spark's own writer did.
    """

    mode: str
    write_id: str
    version: int | None
    partitions: tuple[PartitionFacts, ...] = ()
    repeated: bool = False
    seconds: Mapping[str, float] = field(default_factory=dict)
    storage_requests: Mapping[str, int] = field(default_factory=dict)
    metastore_calls: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    uploaded_by: UploadedBy = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "checks", CheckResults(self.checks))

    @property
    def bytes(self) -> int:
        """Return the bytes of the files written."""
        return self._sum("bytes")

    @property
    def files(self) -> int:
        """Return the number of files written."""
        return self._sum("files")

    def event_facts(self) -> dict[str, Any]:
        """Return the facts for the event: what is emptied is dropped where readers find no location any more."""
        partitions = (
            partition if partition.location else replace(partition, action="dropped") for partition in self.partitions
        )
        checks = tuple(result.without_examples() for result in self.checks)
        repeated = {"outcome": "repeated"} if self.repeated else {}
        return {**super().event_facts(), "partitions": tuple(partitions), "checks": checks, **repeated}

    def _headline(self) -> str:
        if self.version is None:
            return f": nothing to write, nothing changed ({self.mode})"
        if self.repeated:
            return f": published before as version {self.version}, nothing changed ({self.mode})"
        partitions_by_action = ((self.appended, "appended"), (self.emptied, "emptied"))
        other_changes = "".join(
            f", {len(partitions)} {action}" for partitions, action in partitions_by_action if partitions
        )
        copies = f", {counted(self.copied_files, 'file')} with {size(self.copied_bytes)} copied"
        copied_text = copies if self.copied_files else ""
        volume = f"{counted(self.rows, 'row')} in {counted(self.files, 'file')}, {size(self.bytes)}{copied_text}"
        return (
            f" version {self.version}: {counted(len(self.added), 'partition')} added, {len(self.replaced)} replaced"
            f"{other_changes}, {volume} ({self.mode})"
        )

    def _grids(self) -> tuple[Grid, ...]:
        return check_grids(self.checks)

    def _lines(self) -> Iterator[str]:
        requests, calls = sum(self.storage_requests.values()), sum(self.metastore_calls.values())
        steps = ", ".join(f"{step} {seconds:.2f} s" for step, seconds in self.seconds.items())
        yield f"write_id {self.write_id}"
        by = f", uploaded by the {self.uploaded_by}" if self.uploaded_by else ""
        yield f"{counted(requests, 'storage request')}, {counted(calls, 'metastore call')}; {steps}{by}"


@dataclass(frozen=True, kw_only=True, repr=False)
class CompactReport(
    Report,
    rows="partitions",
    columns=(
        NAME,
        ROWS,
        Column("files before", "files_before"),
        Column("files after", "files_after"),
        Column("size before", "bytes_before", size),
        Column("size after", "bytes_after", size_or_dash),
    ),
    lines={"left alone: {}: {}": "skipped", **NOTES},
    derived=("files_before", "files_after"),
    keys={"partitions": "name values rows files_before files_after bytes_before bytes_after"},
):
    """The result of a compaction: the same rows in fewer files.

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
    >>> compacted = PartitionFacts(name="dt=1", rows=9, files_before=40, files=1, bytes_before=9000, bytes=4000)
    >>> CompactReport(table="mart.orders", version=8, write_id="W", partitions=(compacted,)).to_text().splitlines()[0]
    'mart.orders: version 8 has 1 partition in 1 file instead of 40, the same 9 rows'
    """

    version: int | None
    write_id: str = ""
    partitions: tuple[PartitionFacts, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    checksum: str = ""
    notes: tuple[str, ...] = ()
    dry_run: bool = False
    seconds: Mapping[str, float] = field(default_factory=dict)
    storage_requests: Mapping[str, int] = field(default_factory=dict)
    metastore_calls: Mapping[str, int] = field(default_factory=dict)

    @property
    def files_before(self) -> int:
        """Return the number of files that the partitions had before."""
        return sum(partition.files_before or 0 for partition in self.partitions)

    @property
    def files_after(self) -> int:
        """Return the number of files that the partitions have afterwards."""
        return sum(partition.files for partition in self.partitions)

    def _headline(self) -> str:
        if not self.partitions:
            return ": nothing to compact" if self.version is None else f": version {self.version} changes nothing"
        compacted = f"{counted(len(self.partitions), 'partition')} in {counted(self.files_after, 'file')}"
        instead = f"instead of {self.files_before:,}"
        if self.dry_run:
            return f": would have {compacted} {instead}"
        rows = counted(sum(partition.rows or 0 for partition in self.partitions), "row")
        return f": version {self.version} has {compacted} {instead}, the same {rows}"
