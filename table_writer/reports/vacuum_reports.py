"""The reports on what is deleted: by a vacuum, with the uploads of dead writes, and with a staged write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from table_writer.errors import counted
from table_writer.model.contents import Contents
from table_writer.model.location import Location
from table_writer.reports.layout import SIZE, Column, Columns, Figure, Place, State, size
from table_writer.reports.report import FAILURES, Report
from table_writer.storage.object_store import ObjectInfo


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
            bytes=Contents.of(objects).bytes,
            keys=tuple(found.key for found in objects),
        )

    @property
    def objects(self) -> int:
        """Return how many objects there are."""
        return len(self.keys)


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


DELETED: Final[Columns] = (Place("location", "location"), Column("why", "reason"), Figure("objects", "objects"), SIZE)
WORK_OF_VACUUMS: Final = ("deleted", "aborted", "removed_registrations", "trimmed_versions")


@dataclass(frozen=True, kw_only=True, repr=False)
class _ReportOfDeletions(Report):
    """A report on locations that are deleted, with every object in them."""

    deleted: tuple[DeletedPath, ...] = ()
    failures: tuple[str, ...] = ()
    dry_run: bool = False

    @property
    def bytes_freed(self) -> int:
        """Return the bytes of all deleted objects."""
        return sum(path.bytes for path in self.deleted)

    @property
    def objects_deleted(self) -> int:
        """Return how many objects are deleted."""
        return sum(path.objects for path in self.deleted)

    def event_facts(self) -> dict[str, Any]:
        """Return the facts for the event."""
        return {
            "outcome": "vacuumed" if any(getattr(self, name, ()) for name in WORK_OF_VACUUMS) else "nothing",
            **{name: getattr(self, name) for name in ("version", "write_id") if hasattr(self, name)},
            "deleted_files": self.objects_deleted,
            "deleted_bytes": self.bytes_freed,
            "notes": self.failures,
        }


@dataclass(frozen=True, kw_only=True, repr=False)
class VacuumReport(
    _ReportOfDeletions,
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
    aborted: tuple[AbortedUpload, ...] = ()
    removed_registrations: tuple[str, ...] = ()
    trimmed_versions: tuple[int, ...] = ()
    kept: tuple[KeptPath, ...] = ()
    in_doubt: tuple[int, ...] = ()

    def _headline(self) -> str:
        free_verb, aborted, trimmed = (
            ("would free", "to abort", "to trim") if self.dry_run else ("freed", "aborted", "trimmed")
        )
        objects = counted(self.objects_deleted, "object")
        return (
            f": {free_verb} {size(self.bytes_freed)} in {objects} of {counted(len(self.deleted), 'location')};"
            f" {counted(len(self.aborted), 'upload')} {aborted}, log entries {trimmed}: {len(self.trimmed_versions):,}"
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class UploadsReport(
    _ReportOfDeletions,
    rows="uploads",
    columns=(
        State("whose", "owner"),
        Column("key", "key"),
        Column("write_id", spell=lambda upload: upload.write_id or "-"),
        Figure("age", "age_seconds", lambda seconds: f"{seconds / 3600:.1f} h"),
    ),
    lines=FAILURES,
):
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
    dry_run: bool = True

    def _headline(self) -> str:
        files = counted(self.objects_deleted, "file")
        changes = "" if self.dry_run else f"; {len(self.aborted):,} aborted, {files} of dead writes deleted"
        return f": {counted(len(self.uploads), 'pending upload')}{changes}"


@dataclass(frozen=True, kw_only=True, repr=False)
class DiscardReport(_ReportOfDeletions, rows="deleted", columns=DELETED, lines=FAILURES):
    """The report on what a discard has deleted, or would delete.

    Parameters
    ----------
    write_id
        Which write.
    version
        Of the entry by which it was given up; ``None`` in a dry run.
    aborted
        How many of its uploads were still pending.
    deleted
        Its files.
    failures
        What could not be deleted; vacuum takes it over.
    """

    write_id: str
    version: int | None = None
    aborted: int = 0

    def event_facts(self) -> dict[str, Any]:
        """Return the facts for the event."""
        return {**super().event_facts(), "outcome": "discarded"}

    def _headline(self) -> str:
        verb = "would be discarded" if self.dry_run else "discarded"
        files, uploads = counted(self.objects_deleted, "file"), counted(self.aborted, "pending upload")
        return f": write {self.write_id} {verb}: {files} ({size(self.bytes_freed)}), {uploads}"

    def _declared_lines(self) -> Iterator[str]:
        yield from super()._declared_lines()
        if self.version is not None:
            yield f"given up by version {self.version} of the log"
