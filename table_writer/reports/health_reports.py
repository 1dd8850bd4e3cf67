"""The reports on what is wrong: the doctor's findings about one table, and how each of many tables is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from table_writer.errors import TableWriterError, counted, few, printable
from table_writer.reports.layout import Column, Figure, State, size
from table_writer.reports.report import Report

OK: Final = "ok"
IN_DOUBT: Final = "in doubt"
BEHIND: Final = "behind"
FAILED: Final = "failed"
HEALTHS: Final = (FAILED, BEHIND, IN_DOUBT, OK)  # the worst first
INTERRUPTED: Final = "interrupted; what it was about to change, `table-writer recover` finishes or resolves"


def error_facts(error: BaseException) -> dict[str, str]:
    """Return the code, the message and the write of one table's error."""
    if isinstance(error, TableWriterError):
        return {"code": error.code, "message": error.message, "write_id": error.write_id}
    if isinstance(error, KeyboardInterrupt):
        return {"code": "interrupted", "message": str(error) or INTERRUPTED, "write_id": ""}
    message = f"unexpected {type(error).__name__}: {error}. This is a bug, and whether something changed is not known"
    return {"code": "internal", "message": message, "write_id": ""}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one check of the doctor, some of which a table's page and the list of all tables show, too.

    Parameters
    ----------
    check
        Its name; empty on a page.
    status
        ``"ok"``, ``"note"``, ``"warning"`` or ``"error"``.
    message, advice
        What was found, and the next thing to do; empty if there is nothing.
    health
        What it makes of the table: ``"failed"``, ``"behind"`` or ``"in doubt"``; ``"ok"`` of what is only worth
        knowing, or does not show in the log and the metastore alone.
    """

    check: str
    status: str
    message: str
    advice: str = ""
    health: str = OK


def worst_health(findings: Iterable[Finding]) -> str:
    """Return what findings make of a table."""
    return min((finding.health for finding in findings), key=HEALTHS.index, default=OK)


@dataclass(frozen=True, kw_only=True, repr=False)
class DoctorReport(
    Report,
    rows="findings",
    columns=(State("status", "status"), Column("finding", spell=lambda finding: f"{finding.check}: {finding.message}")),
    derived=("healthy",),
    keys={"findings": "check status message advice"},
):
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


@dataclass(frozen=True, kw_only=True)
class TableStatus:
    """The state of one table.

    Parameters
    ----------
    version
        The newest; 0 if nothing was ever claimed, ``None`` if it is not known.
    age_seconds
        Since that version was claimed, by the store's clock; ``None`` if it is not known.
    in_doubt
        Versions in doubt: publishes that were not recorded as ended, and vacuums whose process died.
    behind
        Partitions that a late call, or a restored metastore, has put back to older rows.
    free_bytes
        What a vacuum would delete now; ``None`` if it is not known.
    health
        ``"ok"``, ``"in doubt"``, ``"behind"`` or ``"failed"``.
    error
        Why it could not be looked at: ``code``, ``message`` and ``write_id``; ``None`` if it could.
    """

    table: str
    version: int | None
    age_seconds: float | None
    in_doubt: tuple[int, ...] = ()
    behind: tuple[str, ...] = ()
    free_bytes: int | None = None
    health: str = OK
    error: Mapping[str, str] | None = None


def _age(status: TableStatus) -> object:
    if status.age_seconds is None:
        return None if status.version is None else "-"
    hours = status.age_seconds / 3600
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.0f} d"


def _versions(status: TableStatus) -> str:
    return few(status.in_doubt, most=3) or ("?" if status.health == FAILED else "-")


@dataclass(frozen=True, kw_only=True, repr=False)
class TablesReport(
    Report,
    rows="_worst_first",
    columns=(
        Column("table", "table"),
        State("health", "health"),
        Column("version", "version", str),
        Figure("age", spell=_age),
        Column("in doubt", spell=_versions),
        Figure("vacuum frees", "free_bytes", size),
    ),
):
    """The tables that this library has written, by name. The shown table begins with those that need a look.

    Parameters
    ----------
    tables
        Each with its state.
    others_count
        Tables and views that were passed over: this library has not written them.
    """

    tables: tuple[TableStatus, ...] = ()
    others_count: int = 0

    @property
    def healthy(self) -> bool:
        """Return whether no table is in doubt, behind or failed."""
        return all(status.health == OK for status in self.tables)

    @property
    def _worst_first(self) -> list[TableStatus]:
        return sorted(self.tables, key=lambda status: HEALTHS.index(status.health))

    def _headline(self) -> str:
        healths = [status.health for status in self.tables]
        counts = ", ".join(f"{healths.count(health)} {health}" for health in HEALTHS if health in healths)
        free = size(sum(status.free_bytes or 0 for status in self.tables))
        tables = counted(len(self.tables), "table")
        return f": {tables}{f' ({counts})' if counts else ''}; a vacuum would free {free}"

    def _lines(self) -> Iterator[str]:
        for status in self._worst_first:
            if status.error is not None:
                yield f"FAILED: {message_with_table(status.table, status.error['message'])}"
            elif status.health != OK:
                yield f"{status.table}: `table-writer recover {status.table}` resolves what is {status.health}"
        yield from passed_over_line(self.others_count)


def passed_over_line(others_count: int) -> tuple[str, ...]:
    """Return the line that counts the tables which a call on many tables has passed over; none if it has not."""
    line = f"passed over: {counted(others_count, 'table')} that this library has not written"
    return (line,) if others_count else ()


def message_with_table(table: str, message: str) -> str:
    """Return a message that names its table."""
    return message if table in message else f"{table}: {printable(message)}"
