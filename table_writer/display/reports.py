"""What the maintenance calls return: facts for programs, a summary for people, JSON for both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from table_writer.display.render import Summary, size
from table_writer.display.report import (
    AbortedUpload,
    DeletedPath,
    Finding,
    KeptPath,
    PartitionDetail,
    Report,
    UploadDetail,
    VersionSummary,
    plot_versions,
)
from table_writer.display.write_result import check_grids, checks_in_short
from table_writer.model.check_result import CheckResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "AbortedUpload",
    "DeletedPath",
    "DoctorReport",
    "Finding",
    "HistoryReport",
    "KeptPath",
    "PartitionDetail",
    "RecoverReport",
    "Report",
    "RestoreReport",
    "RollbackReport",
    "UploadDetail",
    "UploadsReport",
    "VacuumReport",
    "VersionReport",
    "VersionSummary",
]


@dataclass(frozen=True, kw_only=True, repr=False)
class HistoryReport(Report):
    """The versions of a table, newest first."""

    versions: tuple[VersionSummary, ...] = ()

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the rows of each version over time, by what it did; what was abandoned or rolled back stands out.

        Parameters
        ----------
        axes
            Matplotlib's, to draw on; by default those of a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            What was drawn on.

        Raises
        ------
        InvalidInputError
            matplotlib is not installed: ``pip install 'table-writer[plot]'``.

        Examples
        --------
        >>> axes = HistoryReport(table="mart.orders").plot()
        >>> axes.get_title(loc="left")
        'mart.orders: no version yet'
        """
        return plot_versions(self.table, self.versions, axes)

    def _summary(self) -> Summary:
        return Summary(
            subject=self.table,
            headline=f"{self.table}: {len(self.versions)} version(s)",
            headings=("version", "state", "when (UTC)", "what", "who", "partitions", "rows", "size", "checks"),
            rows=tuple(
                (
                    str(one.version),
                    one.state,
                    f"{one.created_at:%Y-%m-%d %H:%M:%S}",
                    one.mode if one.settles is None else f"recover {one.settles}",
                    f"{one.user}@{one.host}",
                    _changes(one),
                    "?" if one.rows is None else f"{one.rows:,}",
                    size(one.bytes),
                    checks_in_short(one.checks),
                )
                for one in self.versions
            ),
            lines=tuple(
                f"version {one.version}: {', '.join(f'{name}={value}' for name, value in one.tags.items())}"
                for one in self.versions
                if one.tags
            ),
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class VersionReport(Report):
    """One version, partition by partition."""

    summary: VersionSummary
    partitions: tuple[PartitionDetail, ...] = ()
    deletes: tuple[str, ...] = ()

    @property
    def checks(self) -> tuple[CheckResult, ...]:
        """What its checks found, without example rows."""
        return self.summary.checks

    def _summary(self) -> Summary:
        one = self.summary
        return Summary(
            subject=self.table,
            headline=f"{self.table} version {one.version}: {one.mode}, {one.state}",
            headings=("partition", "", "rows", "files", "size", "location"),
            rows=tuple(
                (
                    p.name,
                    p.change,
                    "?" if p.rows is None else f"{p.rows:,}",
                    f"{p.files:,}",
                    size(p.bytes),
                    p.new_location or "(dropped)",
                )
                for p in self.partitions
            ),
            grids=check_grids(one.checks),
            lines=(
                f"write_id {one.write_id}, {one.created_at:%Y-%m-%d %H:%M:%S} UTC",
                f"by {one.user}@{one.host} {one.application_id}",
                *(f"{name}={value}" for name, value in one.tags.items()),
                *((f"idempotency key {one.idempotency_key}",) if one.idempotency_key else ()),
                *(f"deletes {location}" for location in self.deletes),
            ),
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class RecoverReport(Report):
    """What was in doubt, and how it ended.

    Parameters
    ----------
    settled
        Versions that were in doubt: ``"published"`` or ``"abandoned"``. In a dry run ``"in doubt"``.
    put_right
        Partitions that a late call had put back to older rows.
    superseded
        Partitions that another tool has moved since, or written to where a late call had taken them: left alone.
    missing
        Partitions that the log has published and the metastore does not have: dropped by another tool, or lost.
    finished_vacuums
        Versions of vacuums whose process had died, and which are finished now.
    unfinished_vacuums
        Those that could not be finished yet; in a dry run all of them.
    lost
        Versions whose entries are lost, and which the log goes on without; in a dry run those that it would.
    """

    settled: Mapping[int, str] = field(default_factory=dict)
    put_right: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    finished_vacuums: tuple[int, ...] = ()
    unfinished_vacuums: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    dry_run: bool = False

    def _summary(self) -> Summary:
        done = len(self.settled) + len(self.put_right) + len(self.finished_vacuums) + len(self.unfinished_vacuums)
        settled, right = ("to settle", "to put right") if self.dry_run else ("settled", "put right")
        return Summary(
            subject=self.table,
            headline=(
                f"{self.table}: {len(self.settled)} version(s) {settled}, {len(self.put_right)} partition(s) {right}"
                if done
                else f"{self.table}: nothing is in doubt"
            )
            + (
                f", {len(self.lost)} version(s) {'to give up as lost' if self.dry_run else 'given up as lost'}"
                if self.lost
                else ""
            ),
            headings=("version", "outcome"),
            rows=tuple((str(version), outcome) for version, outcome in sorted(self.settled.items())),
            lines=(
                *(f"version {version} is lost: the log goes on without it" for version in self.lost),
                *(f"{right}: {name}" for name in self.put_right),
                *(f"left alone, moved by another tool: {name}" for name in self.superseded),
                *(f"vacuum version {version} finished" for version in self.finished_vacuums),
                *(f"vacuum version {version} has died: run a vacuum" for version in self.unfinished_vacuums),
                *(f"not in the metastore, dropped by another tool: {name}" for name in self.missing),
            ),
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class RollbackReport(Report):
    """What a rollback has put back, or would put back; ``version`` is its own entry's."""

    to_version: int
    version: int | None
    partitions: tuple[PartitionDetail, ...] = ()
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    def _summary(self) -> Summary:
        what = "would be put back" if self.dry_run else "put back"
        count = len(self.partitions)
        return Summary(
            subject=self.table,
            headline=(
                f"{self.table}: {count} partition(s) {what} to version {self.to_version}"
                + (f" (as version {self.version})" if self.version else "")
                if count
                else f"{self.table}: already as it was at version {self.to_version}, nothing to do"
            ),
            headings=("partition", "", "rows", "files", "size"),
            rows=tuple(
                (p.name, p.change, "?" if p.rows is None else f"{p.rows:,}", f"{p.files:,}", size(p.bytes))
                for p in self.partitions
            ),
            lines=tuple(f"note: {note}" for note in self.notes),
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class VacuumReport(Report):
    """What a vacuum has deleted, or would delete.

    Parameters
    ----------
    version
        Of the vacuum's own entry; ``None`` in a dry run and when no location had to be deleted.
    deleted
        Locations with every key.
    aborted
        Pending uploads of dead writes and late attempts.
    removed_registrations
        Keys of registrations whose writers are dead, of records of staged writes that have expired, and of results of
        their checks.
    trimmed_versions
        Entries that nothing depends on any more.
    kept
        Locations that stay, with the reason.
    in_doubt
        Versions in doubt: what they name stays until ``recover`` has settled them.
    failures
        What could not be deleted; the next vacuum takes it over.
    """

    version: int | None = None
    deleted: tuple[DeletedPath, ...] = ()
    aborted: tuple[AbortedUpload, ...] = ()
    removed_registrations: tuple[str, ...] = ()
    trimmed_versions: tuple[int, ...] = ()
    kept: tuple[KeptPath, ...] = ()
    in_doubt: tuple[int, ...] = ()
    failures: tuple[str, ...] = ()
    dry_run: bool = False

    @property
    def bytes_freed(self) -> int:
        """Bytes of all deleted objects."""
        return sum(path.bytes for path in self.deleted)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ``bytes_freed`` included."""
        return {**super().to_dict(), "bytes_freed": self.bytes_freed}

    def _summary(self) -> Summary:
        objects = sum(len(path.keys) for path in self.deleted)
        verb = "would free" if self.dry_run else "freed"
        return Summary(
            subject=self.table,
            headline=(
                f"{self.table}: {verb} {size(self.bytes_freed)} in {objects:,} objects of {len(self.deleted)}"
                f" location(s); {len(self.aborted):,} upload(s) {'to abort' if self.dry_run else 'aborted'},"
                f" log entries {'to trim' if self.dry_run else 'trimmed'}: {len(self.trimmed_versions):,}"
            ),
            headings=("location", "why", "objects", "size"),
            rows=tuple((path.location, path.reason, f"{len(path.keys):,}", size(path.bytes)) for path in self.deleted),
            lines=(
                *(f"FAILED: {failure}" for failure in self.failures),
                *(f"version {version} is in doubt: run `table-writer recover`" for version in self.in_doubt),
                *(f"kept {one.location}: {one.reason}" for one in self.kept),
            ),
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class UploadsReport(Report):
    """Pending uploads below a table's root; they take space and are in no listing of objects.

    Parameters
    ----------
    uploads
        As they were found.
    aborted
        Of dead writes and late attempts.
    deleted
        Files of dead writes, which go with their uploads.
    failures
        What could not be aborted or deleted; call again.
    """

    uploads: tuple[UploadDetail, ...] = ()
    aborted: tuple[AbortedUpload, ...] = ()
    deleted: tuple[DeletedPath, ...] = ()
    failures: tuple[str, ...] = ()
    dry_run: bool = True

    def _summary(self) -> Summary:
        files = sum(len(path.keys) for path in self.deleted)
        aborted = (
            f"; {len(self.aborted):,} aborted, {files:,} file(s) of dead writes deleted" if not self.dry_run else ""
        )
        return Summary(
            subject=self.table,
            headline=f"{self.table}: {len(self.uploads):,} pending upload(s){aborted}",
            headings=("whose", "key", "write_id", "age"),
            rows=tuple(
                (one.owner, one.key, one.write_id or "-", f"{one.age_seconds / 3600:.1f} h") for one in self.uploads
            ),
            lines=tuple(f"FAILED: {failure}" for failure in self.failures),
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class RestoreReport(Report):
    """Partitions that were added to the metastore from the log, or would be."""

    version: int | None = None
    partitions: tuple[PartitionDetail, ...] = ()
    not_there: Mapping[str, str] = field(default_factory=dict)
    present_count: int = 0
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    def _summary(self) -> Summary:
        verb = "would be added" if self.dry_run else "added"
        return Summary(
            subject=self.table,
            headline=f"{self.table}: {len(self.partitions)} partition(s) {verb}, {self.present_count} there already",
            headings=("partition", "", "rows", "files", "size"),
            rows=tuple(
                (p.name, p.change, "?" if p.rows is None else f"{p.rows:,}", f"{p.files:,}", size(p.bytes))
                for p in self.partitions
            ),
            lines=(
                *(f"NOT ADDED {name}: {reason}" for name, reason in self.not_there.items()),
                *(f"note: {note}" for note in self.notes),
            ),
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class DoctorReport(Report):
    """What the doctor found, worst first; ``healthy`` if there is neither warning nor error."""

    findings: tuple[Finding, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether nothing has to be changed."""
        return all(finding.status in {"ok", "note"} for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ``healthy`` included."""
        return {**super().to_dict(), "healthy": self.healthy}

    def _summary(self) -> Summary:
        troubled = [finding for finding in self.findings if finding.status in {"warning", "error"}]
        return Summary(
            subject=self.table,
            headline=f"{self.table}: {len(self.findings)} checks, {len(troubled)} to look at",
            headings=("status", "finding"),  # two columns of words stand left; a third would stand right
            rows=tuple((finding.status, f"{finding.check}: {finding.message}") for finding in self.findings),
            lines=tuple(f"{finding.check}: {finding.advice}" for finding in self.findings if finding.advice),
        )


def _changes(one: VersionSummary) -> str:
    named = (("+", one.added_count), ("~", one.replaced_count), ("-", one.dropped_count))
    return " ".join(f"{sign}{count}" for sign, count in named if count) or "-"
