"""The results of a write and of a compaction: what changed for readers, and what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from table_writer.errors import counted
from table_writer.model.check_result import CheckResult
from table_writer.model.table import WHOLE_TABLE, PartitionValues
from table_writer.reports.report import (
    Columns,
    Grid,
    Report,
    ReportOfPartitions,
    Summary,
    columns_of_partitions,
    size,
    summary_html,
    summary_text,
)

Action = Literal["added", "replaced", "appended", "emptied"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionResult:
    """One partition after a publish.

    Parameters
    ----------
    name, values
        Hive's name, ``dt=2024-01-01/country=de``; empty for an unpartitioned table, which is one partition of itself.
    location
        Where readers look now; empty when the partition was dropped.
    action
        ``"added"``: it did not exist. ``"replaced"``: its rows were replaced. ``"appended"``: it has more rows now.
        ``"emptied"``: the write replaced it and had no rows for it.
    rows, bytes, files
        Written by this write.
    copied_bytes, copied_files
        Existing files that an append brought along, inside the store.
    """

    name: str
    values: PartitionValues
    location: str
    action: Action
    rows: int
    bytes: int
    files: int
    copied_bytes: int = 0
    copied_files: int = 0


@dataclass(frozen=True, kw_only=True, repr=False)
class WriteResult(
    ReportOfPartitions[PartitionResult],
    rows="partitions",
    columns=columns_of_partitions("action"),
    derived=("rows", "bytes", "files", "copied_files", "copied_bytes"),
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
    """

    mode: str
    write_id: str
    version: int | None
    partitions: tuple[PartitionResult, ...] = ()
    repeated: bool = False
    seconds: Mapping[str, float] = field(default_factory=dict)
    storage_requests: Mapping[str, int] = field(default_factory=dict)
    metastore_calls: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    checks: tuple[CheckResult, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "checks", CheckResults(self.checks))

    @property
    def bytes(self) -> int:
        """Return the bytes of the files written."""
        return sum(partition.bytes for partition in self.partitions)

    @property
    def files(self) -> int:
        """Return the number of files written."""
        return sum(partition.files for partition in self.partitions)

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
        yield f"{counted(requests, 'storage request')}, {counted(calls, 'metastore call')}; {steps}"
        yield from (f"note: {note}" for note in self.notes)


class CheckResults(tuple[CheckResult, ...]):
    """The results of checks: a tuple that is shown as a table, in text and in notebooks, failed ones first.

    Examples
    --------
    >>> CheckResults([CheckResult(name="unique(id)", severity="error", passed=True, message="none of 2 rows repeats")])
    1 check passed
      checks:
      check       outcome  wrong rows  answered by  found
      unique(id)  passed            -  spark        none of 2 rows repeats
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return summary_text(self._summary())

    def _repr_html_(self) -> str:
        return summary_html(self._summary())

    def _summary(self) -> Summary:
        return Summary(headline=checks_in_short(self) if self else "no checks", grids=check_grids(self))


def verdict(result: CheckResult) -> str:
    """Say how one check ended; a failed one with its severity."""
    return "passed" if result.passed else f"failed ({result.severity})"


def checks_in_short(results: Sequence[CheckResult]) -> str:
    """Say in a few words how the checks of a write ended; ``-`` if there were none."""
    if not results:
        return "-"
    failed_results = [result for result in results if not result.passed]
    if not failed_results:
        return f"{counted(len(results), 'check')} passed"
    severities = ", ".join(sorted({result.severity for result in failed_results}))
    return f"{len(failed_results):,} of {len(results):,} failed ({severities})"


CHECKS: Final[Columns] = {
    "check": "name",
    "outcome": verdict,
    "wrong rows": lambda result: "-" if result.failed_rows is None else result.failed_rows,
    "answered by": "answered_by",
    "found": "message",  # last, so that a long message pushes nothing out of sight
}


def check_grids(results: Sequence[CheckResult]) -> tuple[Grid, ...]:
    """Return a table of the checks, failed ones first, and one of the example rows of each that has some."""
    # stable: otherwise in the order of the call
    results_in_order = sorted(results, key=lambda result: (result.passed, not result.stops))
    checks = Grid.of(CHECKS, results_in_order, title="checks")
    return (checks, *(_examples(result) for result in results_in_order if result.examples))


def _examples(result: CheckResult) -> Grid:
    columns = tuple(dict.fromkeys(column for row in result.examples for column in row))
    return Grid(
        title=f"{'what was said of' if result.failed_rows is None else 'rows that fail'} {result.name}",
        headings=columns,
        rows=tuple(tuple(row.get(column, "") for column in columns) for row in result.examples),
        figures=frozenset(),
        states=frozenset(),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactedPartition:
    """One partition that a compaction has changed, or would change.

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
    "partition": lambda partition: partition.name or WHOLE_TABLE,
    "rows": "rows",
    "files before": "files_before",
    "files after": "files_after",
    "size before": lambda partition: size(partition.bytes_before),
    "size after": lambda partition: size(partition.bytes_after) if partition.bytes_after else "-",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class CompactReport(
    Report,
    rows="partitions",
    columns=COMPACT_COLUMNS,
    lines={"left alone: {}: {}": "skipped", "note: {}": "notes"},
    derived=("files_before", "files_after"),
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
        """Return the number of files that the partitions had before."""
        return sum(partition.files_before for partition in self.partitions)

    @property
    def files_after(self) -> int:
        """Return the number of files that the partitions have afterwards."""
        return sum(partition.files_after for partition in self.partitions)

    def _headline(self) -> str:
        if not self.partitions:
            return ": nothing to compact" if self.version is None else f": version {self.version} changes nothing"
        compacted = f"{counted(len(self.partitions), 'partition')} in {counted(self.files_after, 'file')}"
        instead = f"instead of {self.files_before:,}"
        if self.dry_run:
            return f": would have {compacted} {instead}"
        rows = counted(sum(partition.rows or 0 for partition in self.partitions), "row")
        return f": version {self.version} has {compacted} {instead}, the same {rows}"
