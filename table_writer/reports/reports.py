"""The reports that the maintenance calls return: facts for programs, a summary for people, JSON for both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from table_writer.errors import counted
from table_writer.model.check_result import CheckResult
from table_writer.model.location import Location
from table_writer.reports.report import (
    FAILURES,
    NOTES,
    Columns,
    Grid,
    Report,
    columns_of_partitions,
    size,
    size_of,
    tags_line,
    writer_name,
)
from table_writer.reports.write_result import CheckResults, check_grids, checks_in_short
from table_writer.storage.object_store import ObjectInfo


@dataclass(frozen=True, kw_only=True)
class VersionSummary:
    """One entry of the log in one line.

    ``state`` is ``"published"``, ``"abandoned"`` or ``"in doubt"``; ``rows`` is ``None`` where other tools wrote them.
    ``rolled_back_count`` is how many of its partitions a rollback has taken back; ``None`` in what ``show`` returns,
    which reads no other version. ``table_bytes`` is the size of the table after the version, of all partitions that the
    log has ever named; ``None`` if it does not know one of them, or older versions were not read.
    """

    version: int
    operation: str
    mode: str
    state: str
    created_at: datetime
    write_id: str
    user: str
    host: str
    application_id: str
    settles: int | None
    added_count: int
    replaced_count: int
    appended_count: int = 0
    compacted_count: int = 0
    dropped_count: int
    rolled_back_count: int | None = None
    rows: int | None
    files: int
    bytes: int
    table_bytes: int | None = None
    tags: Mapping[str, str]
    idempotency_key: str
    checks: tuple[CheckResult, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PartitionDetail:
    """One partition of an entry: what it changes, from where to where."""

    name: str
    change: str  # added, replaced, appended, compacted, dropped
    rows: int | None
    files: int
    bytes: int
    old_location: str | None
    new_location: str | None


@dataclass(frozen=True, kw_only=True)
class ChangedPartition:
    """One partition that differs between two versions; rows are ``None`` if other tools wrote them, 0 without it."""

    name: str
    change: str  # added, replaced, appended, dropped
    rows_before: int | None
    rows_after: int | None


@dataclass(frozen=True, kw_only=True)
class PartitionState:
    """One partition as readers find it now.

    Parameters
    ----------
    state
        ``"published"``: rows that a version of the log wrote. ``"missing"``: no such partition. ``"in doubt"``: a
        publish is going on, or was left in doubt. ``"not known"``: another tool has written or moved it.
    version, write_id, published_at
        Of the newest write whose rows are there, and when it claimed its version, by its own clock: a rollback brings
        those of an earlier one back, and a compaction changes none. ``None`` if not known.
    rows
        ``None`` if not known.
    note
        Why it is so, for a person.
    """

    name: str
    state: str
    version: int | None = None
    write_id: str | None = None
    published_at: datetime | None = None
    rows: int | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class DeletedPath:
    """A location that a vacuum deletes, with every object in it."""

    location: str
    reason: str
    bytes: int
    keys: tuple[str, ...]

    @classmethod
    def of(cls, location: Location, reason: str, objects: Sequence[ObjectInfo]) -> DeletedPath:
        """Describe what was found there."""
        return cls(
            location=str(location),
            reason=reason,
            bytes=sum(found.size_bytes for found in objects),
            keys=tuple(found.key for found in objects),
        )


@dataclass(frozen=True, kw_only=True)
class UploadDetail:
    """A pending upload below a table's root, and its owner.

    ``owner`` is ``"running"``, ``"dead"``, ``"young"`` (no registration, and not old enough to tell), ``"settled"``
    (left by a late attempt), ``"in doubt"`` or ``"another tool"``.
    """

    key: str
    upload_id: str
    write_id: str | None
    owner: str
    age_seconds: float


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one check of the doctor.

    ``status`` is ``"ok"``, ``"note"``, ``"warning"`` or ``"error"``.
    """

    check: str
    status: str
    message: str
    advice: str = ""


@dataclass(frozen=True, kw_only=True)
class KeptPath:
    """A location that a vacuum keeps, and the reason."""

    location: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class AbortedUpload:
    """A pending upload that was given up."""

    key: str
    upload_id: str


LIVE: Final = "published"
TAKEN_BACK: Final = "rolled back"


def _changes(version: VersionSummary) -> str:
    counts = {
        "+": version.added_count,
        "~": version.replaced_count,
        ">": version.appended_count,
        "=": version.compacted_count,
        "-": version.dropped_count,
    }
    return " ".join(f"{sign}{count}" for sign, count in counts.items() if count) or "-"


def _state(version: VersionSummary) -> str:
    """Return the state of a version: its outcome, or that a rollback has taken it back since."""
    if version.state != LIVE or not version.rolled_back_count:
        return version.state
    changed_count = (
        version.added_count
        + version.replaced_count
        + version.appended_count
        + version.compacted_count
        + version.dropped_count
    )
    return TAKEN_BACK if version.rolled_back_count >= changed_count else f"partly {TAKEN_BACK}"


PARTITIONS: Final = columns_of_partitions("change")

DELETED: Final[Columns] = {
    "location": "location",
    "why": "reason",
    "objects": lambda path: len(path.keys),
    "size": size_of,
}

HISTORY_COLUMNS: Final[Columns] = {
    "version": lambda version: str(version.version),
    "state": _state,
    "when (UTC)": "created_at",
    "what": lambda version: version.mode if version.settles is None else f"recover {version.settles}",
    "who": writer_name,
    "partitions": _changes,
    "rows": "rows",
    "size": size_of,
    "table size": lambda version: None if version.table_bytes is None else size(version.table_bytes),
    "checks": lambda version: checks_in_short(version.checks),
}


@dataclass(frozen=True, kw_only=True, repr=False)
class HistoryReport(Report, rows="versions", columns=HISTORY_COLUMNS, lines=NOTES):
    """The versions of a table, newest first."""

    versions: tuple[VersionSummary, ...] = ()
    notes: tuple[str, ...] = ()

    def _headline(self) -> str:
        return f": {counted(len(self.versions), 'version')}"

    def _lines(self) -> Iterator[str]:
        return (f"version {version.version}: {tags_line(version.tags)}" for version in self.versions if version.tags)


@dataclass(frozen=True, kw_only=True, repr=False)
class VersionReport(
    Report,
    rows="partitions",
    columns={**PARTITIONS, "location": lambda partition: partition.new_location or "(dropped)"},
):
    """One version, partition by partition."""

    summary: VersionSummary
    partitions: tuple[PartitionDetail, ...] = ()
    deletes: tuple[str, ...] = ()

    @property
    def checks(self) -> CheckResults:
        """Return the results of the version's checks, without example rows."""
        return CheckResults(self.summary.checks)

    def _headline(self) -> str:
        return f" version {self.summary.version}: {self.summary.mode}, {self.summary.state}"

    def _grids(self) -> tuple[Grid, ...]:
        return check_grids(self.checks)

    def _lines(self) -> Iterator[str]:
        version = self.summary
        yield f"write_id {version.write_id}, {version.created_at:%Y-%m-%d %H:%M:%S} UTC"
        yield f"by {writer_name(version)} {version.application_id}"
        yield from (f"{name}={value}" for name, value in version.tags.items())
        if version.idempotency_key:
            yield f"idempotency key {version.idempotency_key}"
        yield from (f"deletes {location}" for location in self.deletes)


@dataclass(frozen=True, kw_only=True, repr=False)
class RecoverReport(
    Report, rows="_outcomes", columns={"version": lambda pair: str(pair[0]), "outcome": lambda pair: pair[1]}
):
    """The entries that were in doubt, and how each ended.

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

    @property
    def _outcomes(self) -> Iterable[tuple[int, str]]:
        return sorted(self.settled.items())

    def _headline(self) -> str:
        resolved, corrected, given_up = (
            ("to resolve", "to correct", "to give up as lost")
            if self.dry_run
            else ("resolved", "corrected", "given up as lost")
        )
        is_anything_done = self.settled or self.put_right or self.finished_vacuums or self.unfinished_vacuums
        versions, partitions = counted(len(self.settled), "version"), counted(len(self.put_right), "partition")
        counts = f"{versions} {resolved}, {partitions} {corrected}"
        lost_versions = f", {counted(len(self.lost), 'version')} {given_up}" if self.lost else ""
        return f": {counts if is_anything_done else 'nothing is in doubt'}{lost_versions}"

    def _lines(self) -> Iterator[str]:
        corrected = "to correct" if self.dry_run else "corrected"
        yield from (f"version {version} is lost: the log goes on without it" for version in self.lost)
        yield from (f"{corrected}: {name}" for name in self.put_right)
        yield from (f"left alone, moved by another tool: {name}" for name in self.superseded)
        yield from (f"vacuum version {version} finished" for version in self.finished_vacuums)
        yield from (f"vacuum version {version} has died: run a vacuum" for version in self.unfinished_vacuums)
        yield from (f"not in the metastore, dropped by another tool: {name}" for name in self.missing)


@dataclass(frozen=True, kw_only=True, repr=False)
class RollbackReport(Report, rows="partitions", columns=PARTITIONS, lines=NOTES):
    """The partitions that a rollback has put back, or would put back; ``version`` is that of its own entry."""

    to_version: int
    version: int | None
    partitions: tuple[PartitionDetail, ...] = ()
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    def _headline(self) -> str:
        if not self.partitions:
            return f": already as it was at version {self.to_version}, nothing to do"
        verb = "would be put back" if self.dry_run else "put back"
        own_version = f" (as version {self.version})" if self.version else ""
        return f": {counted(len(self.partitions), 'partition')} {verb} to version {self.to_version}{own_version}"


PRESENT_COLUMNS: Final[Columns] = {
    "partition": "name",
    "state": "state",
    "version": lambda partition: "-" if partition.version is None else str(partition.version),
    "published (UTC)": lambda partition: partition.published_at or "-",
    "rows": "rows",
    "note": "note",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class PartitionsReport(Report, rows="partitions", columns=PRESENT_COLUMNS):
    """Partitions of a table as readers see them now, with the versions that wrote their rows."""

    partitions: tuple[PartitionState, ...] = ()

    def _headline(self) -> str:
        return f": {counted(len(self.partitions), 'partition')}"


CHANGED_COLUMNS: Final[Columns] = {
    "partition": lambda partition: partition.name,
    "": "change",
    "rows before": "rows_before",
    "rows after": "rows_after",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class ChangesReport(Report, rows="partitions", columns=CHANGED_COLUMNS):
    """The partitions that differ between two versions."""

    from_version: int
    to_version: int
    partitions: tuple[ChangedPartition, ...] = ()

    def _headline(self) -> str:
        kinds = [partition.change for partition in self.partitions]
        counts = [f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)]
        return f" from version {self.from_version} to {self.to_version}: {', '.join(counts) or 'no partition changed'}"


@dataclass(frozen=True, kw_only=True, repr=False)
class VacuumReport(
    Report,
    rows="deleted",
    columns=DELETED,
    lines={
        **FAILURES,
        "version {} is in doubt: run `table-writer recover`": "in_doubt",
        "kept {0.location}: {0.reason}": "kept",
    },
    derived=("bytes_freed",),
):
    """The report on what a vacuum has deleted, or would delete.

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
        Versions in doubt: what they name stays until ``recover`` has resolved them.
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
        """Return the bytes of all deleted objects."""
        return sum(path.bytes for path in self.deleted)

    def _headline(self) -> str:
        free_verb, aborted, trimmed = (
            ("would free", "to abort", "to trim") if self.dry_run else ("freed", "aborted", "trimmed")
        )
        objects = counted(sum(len(path.keys) for path in self.deleted), "object")
        return (
            f": {free_verb} {size(self.bytes_freed)} in {objects} of {counted(len(self.deleted), 'location')};"
            f" {counted(len(self.aborted), 'upload')} {aborted}, log entries {trimmed}: {len(self.trimmed_versions):,}"
        )


UPLOADS_COLUMNS: Final[Columns] = {
    "whose": "owner",
    "key": "key",
    "write_id": lambda upload: upload.write_id or "-",
    "age": lambda upload: f"{upload.age_seconds / 3600:.1f} h",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class UploadsReport(Report, rows="uploads", columns=UPLOADS_COLUMNS, lines=FAILURES):
    """Pending uploads below a table's root: they take space, and no listing of objects shows them.

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

    def _headline(self) -> str:
        files = counted(sum(len(path.keys) for path in self.deleted), "file")
        changes = "" if self.dry_run else f"; {len(self.aborted):,} aborted, {files} of dead writes deleted"
        return f": {counted(len(self.uploads), 'pending upload')}{changes}"


@dataclass(frozen=True, kw_only=True, repr=False)
class RestoreReport(Report, rows="partitions", columns=PARTITIONS, lines={"NOT ADDED {}: {}": "not_there", **NOTES}):
    """Partitions that were added to the metastore from the log, or would be."""

    version: int | None = None
    partitions: tuple[PartitionDetail, ...] = ()
    not_there: Mapping[str, str] = field(default_factory=dict)
    present_count: int = 0
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    def _headline(self) -> str:
        verb = "would be added" if self.dry_run else "added"
        return f": {counted(len(self.partitions), 'partition')} {verb}, {self.present_count} there already"


DOCTOR_COLUMNS: Final[Columns] = {  # two columns of text are left-aligned; a third would be right-aligned
    "status": "status",
    "finding": lambda finding: f"{finding.check}: {finding.message}",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class DoctorReport(Report, rows="findings", columns=DOCTOR_COLUMNS, derived=("healthy",)):
    """The doctor's findings, worst first; the table is ``healthy`` if there is neither warning nor error.

    In a report on a store, ``table`` is the location below which the store was tried.
    """

    findings: tuple[Finding, ...] = ()

    @property
    def healthy(self) -> bool:
        """Return whether there is neither warning nor error."""
        return all(finding.status in {"ok", "note"} for finding in self.findings)

    def _headline(self) -> str:
        troubled = sum(finding.status in {"warning", "error"} for finding in self.findings)
        return f": {counted(len(self.findings), 'check')}, {troubled} to look at"

    def _lines(self) -> Iterator[str]:
        return (f"{finding.check}: {finding.advice}" for finding in self.findings if finding.advice)
