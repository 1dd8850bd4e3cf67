"""The facts of one look at a table, as text and plain values; :mod:`.table_page` draws them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from table_writer.errors import counted
from table_writer.model.partition_facts import PartitionNow
from table_writer.model.table import small_files_in_all
from table_writer.reports.checks import verdict
from table_writer.reports.health_reports import OK, Finding, worst_health
from table_writer.reports.history_reports import HISTORY_COLUMNS, VersionSummary
from table_writer.reports.layout import size
from table_writer.reports.report import NOTES, Report
from table_writer.reports.vacuum_reports import VacuumReport


@dataclass(frozen=True, kw_only=True, slots=True)
class Generations:
    """The versions that have changed one partition, oldest first: pairs of a version and what it did.

    That is ``added``, ``replaced``, ``appended``, ``compacted``, ``dropped``, or ``in doubt``.
    """

    name: str
    changes: tuple[tuple[int, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftByAge:
    """The locations that readers left in one span of days ago and that are not deleted, by the log.

    ``younger_than_days`` is ``None`` where there is no bound. ``due_bytes`` are those that a vacuum would delete now.
    """

    older_than_days: int
    younger_than_days: int | None
    locations: int
    bytes: int
    due_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckRuns:
    """The runs of one check over the versions, and its last message.

    ``outcomes`` are pairs of a version and ``"passed"``, ``"failed (warn)"`` or ``"failed (error)"``, oldest first.
    """

    name: str
    message: str
    outcomes: tuple[tuple[int, str], ...]

    @property
    def failed_count(self) -> int:
        """Return how many runs failed."""
        return sum(outcome != "passed" for _, outcome in self.outcomes)


@dataclass(frozen=True, kw_only=True, slots=True)
class AtWork:
    """A write that is running, or staged and not expired."""

    write_id: str
    state: str  # running, staged
    age_seconds: float  # since its last sign of life, or since it was staged
    user: str
    host: str


@dataclass(frozen=True, kw_only=True, repr=False)
class TableFacts(
    Report,
    rows="versions",
    columns=HISTORY_COLUMNS,
    lines=NOTES,
    derived=("health", "checks", "partition_count", "rows", "files", "bytes", "healthy"),
    keys={
        "troubles": "health message advice",
        "partitions": "name location version age_seconds rows files bytes has_small_files state",
    },
):
    """The facts that one look at a table shows.

    Parameters
    ----------
    made_at
        When it was looked at.
    location
        The table's root.
    version, age_seconds
        The newest version, and how long ago it was claimed; 0 and ``None`` if nothing was ever written.
    troubles
        What the doctor finds damaged, behind, in doubt, and what other tools have done; the worst first. ``health`` is
        the worst of them: ``"ok"``, ``"in doubt"``, ``"behind"`` or ``"failed"`` (the log is damaged, or a vacuum would
        be refused).
    versions
        The newest ones, newest first, as in the history; ``older_count`` are in the log and were not read. ``checks``
        are the runs of each check over them.
    partitions
        All, by name, with those that are missing. Their sums are ``rows``, ``files`` and ``bytes``, as far as the log
        knows; ``partition_count`` are in the metastore.
    generations
        Of the partitions that ``generation_versions`` have changed, those that were changed last, by name; all together
        they changed ``changed_count``.
    left
        What readers have left, by age.
    vacuum
        What a vacuum would do now; ``None`` if it would be refused.
    at_work
        Writes that are running or staged.

    Examples
    --------
    >>> from datetime import UTC
    >>> print(TableFacts(table="mart.orders", made_at=datetime(2026, 1, 2, tzinfo=UTC), location="s3://lake/orders/"))
    mart.orders: nothing written yet
    """

    made_at: datetime
    location: str
    version: int = 0
    age_seconds: float | None = None
    troubles: tuple[Finding, ...] = ()
    versions: tuple[VersionSummary, ...] = ()
    older_count: int = 0
    partitions: tuple[PartitionNow, ...] = ()
    generation_versions: tuple[int, ...] = ()
    generations: tuple[Generations, ...] = ()
    changed_count: int = 0
    left: tuple[LeftByAge, ...] = ()
    vacuum: VacuumReport | None = None
    at_work: tuple[AtWork, ...] = ()
    notes: tuple[str, ...] = ()
    damaged: Mapping[int, str] = field(default_factory=dict)  # versions whose entries cannot be read, and why

    @property
    def health(self) -> str:
        """Return the worst that was found."""
        return worst_health(self.troubles)

    @property
    def checks(self) -> tuple[CheckRuns, ...]:
        """Return the runs of each check; those that failed last time first."""
        outcomes: dict[str, list[tuple[int, str]]] = {}
        messages: dict[str, str] = {}
        for version in reversed(self.versions):
            for check in version.checks:
                outcomes.setdefault(check.name, []).append((version.version, verdict(check)))
                messages[check.name] = check.message
        all_runs = (
            CheckRuns(name=name, message=messages[name], outcomes=tuple(runs)) for name, runs in outcomes.items()
        )
        return tuple(
            sorted(all_runs, key=lambda check: (check.outcomes[-1][1] == "passed", -check.failed_count, check.name))
        )

    @property
    def healthy(self) -> bool:
        """Return whether nothing is in doubt, behind or failed."""
        return self.health == OK

    @property
    def partition_count(self) -> int:
        """Return how many partitions the metastore has."""
        return sum(partition.location is not None for partition in self.partitions)

    @property
    def rows(self) -> int:
        """Return the rows of all partitions whose rows the log knows."""
        return sum(partition.rows or 0 for partition in self.partitions)

    @property
    def files(self) -> int:
        """Return the files of all partitions whose files the log knows."""
        return sum(partition.files or 0 for partition in self.partitions)

    @property
    def bytes(self) -> int:
        """Return the bytes of all partitions whose bytes the log knows."""
        return sum(partition.bytes or 0 for partition in self.partitions)

    @property
    def small_files(self) -> str:
        """Say how many small files there are: by partitions that have many of them, else in all."""
        partitions = [partition for partition in self.partitions if partition.location is not None]
        many = sum(partition.has_small_files for partition in partitions)
        known = [(found.files, found.bytes) for found in partitions if found.files is not None]
        count, size_bytes, _ = small_files_in_all((files, bytes_ or 0) for files, bytes_ in known)
        if many or not count:
            return f"{many:,} with many small files"
        return f"{count:,} small files in all, {size(size_bytes / count)} each"

    def _headline(self) -> str:
        if not self.version:
            return ": nothing written yet"
        free = f"; a vacuum would free {size(self.vacuum.bytes_freed)}" if self.vacuum else ""
        return (
            f" version {self.version}: {self.health}, {counted(self.partition_count, 'partition')},"
            f" {counted(self.rows, 'row')} in {counted(self.files, 'file')}, {size(self.bytes)}{free}"
        )

    def _lines(self) -> Iterator[str]:
        for trouble in self.troubles:
            sign = "" if trouble.health == OK else "PROBLEM: "
            yield f"{sign}{trouble.message}{f': {trouble.advice}' if trouble.advice else ''}"
        if self.older_count:
            yield f"{counted(self.older_count, 'older version')} not read"
