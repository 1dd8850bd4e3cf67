"""What is wrong with a table: the findings about it, and the doctor's report on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from table_writer.errors import counted
from table_writer.reports.layout import Column, State
from table_writer.reports.report import Report

OK: Final = "ok"
IN_DOUBT: Final = "in doubt"
BEHIND: Final = "behind"
FAILED: Final = "failed"
HEALTHS: Final = (FAILED, BEHIND, IN_DOUBT, OK)  # the worst first


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
