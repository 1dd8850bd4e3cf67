"""The parts of the reports: one version, one partition, one location, one upload, one finding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from table_writer.model.check_result import CheckResult

__all__ = [
    "AbortedUpload",
    "DeletedPath",
    "Finding",
    "KeptPath",
    "PartitionDetail",
    "UploadDetail",
    "VersionSummary",
]


@dataclass(frozen=True, kw_only=True)
class VersionSummary:
    """One entry of the log in one line.

    ``state`` is ``"published"``, ``"abandoned"`` or ``"in doubt"``; ``rows`` is ``None`` where other tools wrote them.
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
    dropped_count: int
    rows: int | None
    files: int
    bytes: int
    tags: Mapping[str, str]
    idempotency_key: str
    checks: tuple[CheckResult, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PartitionDetail:
    """One partition of an entry: what it changes, from where to where."""

    name: str
    change: str  # added, replaced, dropped
    rows: int | None
    files: int
    bytes: int
    old_location: str | None
    new_location: str | None


@dataclass(frozen=True, kw_only=True)
class DeletedPath:
    """A location that a vacuum deletes, with every object in it."""

    location: str
    reason: str
    bytes: int
    keys: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class UploadDetail:
    """A pending upload below a table's root, and whose it is.

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
    """One thing the doctor looked at.

    ``status`` is ``"ok"``, ``"note"``, ``"warning"`` or ``"error"``.
    """

    check: str
    status: str
    message: str
    advice: str = ""


@dataclass(frozen=True, kw_only=True)
class KeptPath:
    """A location that a vacuum leaves alone, and why."""

    location: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class AbortedUpload:
    """A pending upload that was given up."""

    key: str
    upload_id: str
