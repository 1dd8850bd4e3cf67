"""The reports on versions and partitions: what the log tells, and what rollback, restore and recover have done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from table_writer.errors import counted
from table_writer.model.check_result import CheckResult
from table_writer.model.partition_facts import CHANGES, PartitionFacts, PartitionNow
from table_writer.model.table import WHOLE_TABLE
from table_writer.model.words import Words
from table_writer.reports.checks import CheckResults, check_grids, checks_in_short
from table_writer.reports.layout import (
    FILES,
    NAME,
    ROWS,
    SIZE,
    Column,
    Columns,
    Figure,
    Grid,
    Place,
    State,
    details_line,
    request_line,
    size,
    tags_line,
    writer_name,
)
from table_writer.reports.report import NOTES, Report

LIVE: Final = "published"
TAKEN_BACK: Final = "rolled back"


@dataclass(frozen=True, kw_only=True)
class VersionSummary:
    """One entry of the log in one line.

    ``mode`` is that of a write, or the name of the call that changes rows: ``"merge"``, ``"delete_where"``; of all else
    what was done, as ``"compact"`` or ``"vacuum"``. ``words`` are ``where``, ``inserted``, ``updated``, ``deleted`` and
    ``tags``, which are attributes, too. ``where`` is the condition of the call, cut after 500 characters,
    and empty of a purge, which stores none. ``inserted``, ``updated`` and ``deleted`` count rows, ``None`` where nobody
    has: of an overwrite, and of a ``rewrite``.

    ``state`` is ``"published"``, ``"abandoned"`` or ``"in doubt"``; ``rows`` is ``None`` where other tools wrote them.
    ``writer`` says ``user``, ``host`` and ``application_id``, and ``changes`` how many partitions were ``added``,
    ``replaced``, ``appended``, ``compacted``, ``dropped``, and ``rolled back`` since: all of these are attributes, too,
    as ``user`` and ``added_count``. ``rolled_back_count`` is ``None`` in what ``show`` returns, which reads no other
    version. ``table_bytes`` is the size of the table after the version, of all partitions that the log has ever named;
    ``None`` if it does not know one of them, or older versions were not read.
    """

    version: int
    operation: str
    mode: str
    state: str
    created_at: datetime
    write_id: str
    writer: Mapping[str, str]
    settles: int | None
    changes: Mapping[str, int]
    rows: int | None
    files: int
    bytes: int
    table_bytes: int | None = None
    words: Words
    idempotency_key: str
    checks: tuple[CheckResult, ...] = ()

    where = property(lambda self: self.words.where)
    inserted = property(lambda self: self.words.inserted)
    updated = property(lambda self: self.words.updated)
    deleted = property(lambda self: self.words.deleted)
    tags = property(lambda self: self.words.tags)
    user = property(lambda self: self.writer.get("user", "?"))
    host = property(lambda self: self.writer.get("host", "?"))
    application_id = property(lambda self: self.writer.get("application_id", ""))
    added_count = property(lambda self: self.changes.get("added", 0))
    replaced_count = property(lambda self: self.changes.get("replaced", 0))
    appended_count = property(lambda self: self.changes.get("appended", 0))
    compacted_count = property(lambda self: self.changes.get("compacted", 0))
    dropped_count = property(lambda self: self.changes.get("dropped", 0))
    rolled_back_count = property(lambda self: self.changes.get(TAKEN_BACK))

    JSON_KEYS = (
        "version operation mode where inserted updated deleted state created_at write_id user host application_id"
        " settles added_count replaced_count appended_count compacted_count dropped_count rolled_back_count rows files"
        " bytes table_bytes tags idempotency_key checks"
    )

    @property
    def state_now(self) -> str:
        """Return the outcome, or that a rollback has taken the version back since."""
        if self.state != LIVE or not self.rolled_back_count:
            return self.state
        changed_count = sum(self.changes.get(change, 0) for change in CHANGES)
        return TAKEN_BACK if self.rolled_back_count >= changed_count else f"partly {TAKEN_BACK}"


def _changes(changes: Mapping[str, int]) -> str:
    return " ".join(f"{sign}{changes[change]}" for change, sign in CHANGES.items() if changes.get(change)) or "-"


def _operation(version: VersionSummary) -> str:
    return request_line(version) if version.settles is None else f"recover {version.settles}"


HISTORY_COLUMNS: Final[Columns] = (
    Column("version", "version", str),
    State("state", "state_now"),
    Column("when (UTC)", "created_at"),
    Column("what", spell=_operation),
    Column("who", spell=writer_name),
    Column("partitions", "changes", _changes),
    ROWS,
    SIZE,
    Figure("table size", "table_bytes", size),
    Column("checks", "checks", checks_in_short),
)


def known_columns(columns: Columns, versions: Sequence[VersionSummary]) -> Columns:
    """Return the columns of versions without that of the table's size where nobody knows it of any."""
    is_known = any(version.table_bytes is not None for version in versions)
    return columns if is_known else [column for column in columns if column.key != "table_bytes"]


CHANGED_PARTITIONS: Final[Columns] = (NAME, State("", "change"), ROWS, FILES, SIZE)
KEYS_OF_CHANGES: Final = {"partitions": "name change rows files bytes old_location new_location"}


@dataclass(frozen=True, kw_only=True, repr=False)
class HistoryReport(Report, rows="versions", columns=HISTORY_COLUMNS, lines=NOTES):
    """The versions of a table, newest first."""

    versions: tuple[VersionSummary, ...] = ()
    notes: tuple[str, ...] = ()

    def _columns(self) -> Columns:
        return known_columns(self.COLUMNS, self.versions)

    def _headline(self) -> str:
        return f": {counted(len(self.versions), 'version')}"

    def _lines(self) -> Iterator[str]:
        return (f"version {version.version}: {tags_line(version.tags)}" for version in self.versions if version.tags)


@dataclass(frozen=True, kw_only=True, repr=False)
class VersionReport(
    Report,
    rows="partitions",
    columns=(*CHANGED_PARTITIONS, Place("location", "location", lambda location: location or "(dropped)")),
    lines={"deletes {}": "deletes"},
    keys=KEYS_OF_CHANGES,
):
    """One version, partition by partition."""

    summary: VersionSummary
    partitions: tuple[PartitionFacts, ...] = ()
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
        yield from details_line(version)
        yield f"write_id {version.write_id}, {version.created_at:%Y-%m-%d %H:%M:%S} UTC"
        yield f"by {writer_name(version)} {version.application_id}"
        yield from (f"{name}={value}" for name, value in version.tags.items())
        if version.idempotency_key:
            yield f"idempotency key {version.idempotency_key}"


@dataclass(frozen=True, kw_only=True, repr=False)
class ChangesReport(
    Report,
    rows="partitions",
    columns=(
        Column("partition", "name"),
        State("", "change"),
        Figure("rows before", "rows_before"),
        Figure("rows after", "rows_after"),
    ),
    keys={"partitions": "name change rows_before rows_after"},
):
    """The partitions that differ between two versions; one that did not exist has 0 rows."""

    from_version: int
    to_version: int
    partitions: tuple[PartitionFacts, ...] = ()

    def _headline(self) -> str:
        kinds = [partition.change for partition in self.partitions]
        counts = [f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)]
        return f" from version {self.from_version} to {self.to_version}: {', '.join(counts) or 'no partition changed'}"


@dataclass(frozen=True, kw_only=True, repr=False)
class PartitionsReport(
    Report,
    rows="partitions",
    columns=(
        Column("partition", "name"),
        State("state", "state"),
        Column("version", spell=lambda partition: "-" if partition.version is None else str(partition.version)),
        Column("published (UTC)", spell=lambda partition: partition.published_at or "-"),
        ROWS,
        Column("note", "note"),
    ),
    keys={"partitions": "name state version write_id published_at rows note"},
):
    """Partitions of a table as readers see them now, with the versions that wrote their rows."""

    partitions: tuple[PartitionNow, ...] = ()

    def _headline(self) -> str:
        return f": {counted(len(self.partitions), 'partition')}"


@dataclass(frozen=True, kw_only=True, repr=False)
class RecoverReport(
    Report,
    rows="_outcomes",
    columns=(Column("version", spell=lambda pair: str(pair[0])), State("outcome", spell=lambda pair: pair[1])),
    lines={
        "left alone, moved by another tool: {}": "superseded",
        "vacuum version {} finished": "finished_vacuums",
        "vacuum version {} has died: run a vacuum": "unfinished_vacuums",
        "not in the metastore, dropped by another tool: {}": "missing",
    },
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
    def _outcomes(self) -> list[tuple[int, str]]:
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


class _ReportOfOldRows(Report, rows="partitions", columns=CHANGED_PARTITIONS, keys=KEYS_OF_CHANGES):
    """A report on partitions that show old rows again."""

    partitions: tuple[PartitionFacts, ...]
    version: int | None

    def event_facts(self) -> dict[str, Any]:
        """Return the facts for the event, in which an unpartitioned table has no name for its one partition."""
        facts = super().event_facts()
        shown = self.partitions if self.version is not None else ()
        partitions = tuple(
            replace(partition, name="") if partition.name == WHOLE_TABLE else partition for partition in shown
        )
        return {**facts, "partitions": partitions}


@dataclass(frozen=True, kw_only=True, repr=False)
class RollbackReport(_ReportOfOldRows, lines=NOTES):
    """The partitions that a rollback has put back, or would put back; ``version`` is that of its own entry."""

    to_version: int
    version: int | None
    partitions: tuple[PartitionFacts, ...] = ()
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    def event_facts(self) -> dict[str, Any]:
        """Return the facts for the event."""
        return {**super().event_facts(), "of_version": self.to_version}

    def _headline(self) -> str:
        if not self.partitions:
            return f": already as it was at version {self.to_version}, nothing to do"
        verb = "would be put back" if self.dry_run else "put back"
        own_version = f" (as version {self.version})" if self.version else ""
        return f": {counted(len(self.partitions), 'partition')} {verb} to version {self.to_version}{own_version}"


@dataclass(frozen=True, kw_only=True, repr=False)
class RestoreReport(_ReportOfOldRows, lines={"NOT ADDED {}: {}": "not_there", **NOTES}):
    """Partitions that were added to the metastore from the log, or would be."""

    version: int | None = None
    partitions: tuple[PartitionFacts, ...] = ()
    not_there: Mapping[str, str] = field(default_factory=dict)
    present_count: int = 0
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    def event_facts(self) -> dict[str, Any]:
        """Return the facts for the event."""
        missing_notes = (f"not added {name}: {reason}" for name, reason in self.not_there.items())
        return {**super().event_facts(), "notes": (*self.notes, *missing_notes)}

    def _headline(self) -> str:
        verb = "would be added" if self.dry_run else "added"
        return f": {counted(len(self.partitions), 'partition')} {verb}, {self.present_count} there already"
