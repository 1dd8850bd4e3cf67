"""The report of a call on many tables: what it has done to each, or the error that ended it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final, Generic, TypeVar

from table_writer.errors import counted
from table_writer.reports.health_reports import (
    FAILED,
    TablesReport,
    TableStatus,
    error_facts,
    message_with_table,
    passed_over_line,
)
from table_writer.reports.layout import Column, State
from table_writer.reports.report import REPORT_FORMAT, Report

OneReport = TypeVar("OneReport", bound=Any)
FIELDS_OF_IDLE_TABLES: Final = frozenset(
    {"table", "dry_run", "kept", "missing"}
)  # a report on an idle table has them, too
NOT_BEGUN: Final = "interrupted before its turn"


@dataclass(frozen=True, kw_only=True)
class TableResult(Generic[OneReport]):
    """The result of a call for one table: a report, or the error that ended it."""

    table: str
    report: OneReport | None = None
    error: BaseException | None = None

    @property
    def outcome(self) -> str:
        """Return how the call ended for this table: ``"done"``, ``"nothing to do"`` or ``"failed"``."""
        if self.error is not None:
            return FAILED
        return "done" if self._is_eventful else "nothing to do"

    @property
    def _is_eventful(self) -> bool:
        """Return whether the report says more than that nothing had to be done."""
        names = (field.name for field in fields(self.report)) if is_dataclass(self.report) else ()
        return any(getattr(self.report, name) for name in names if name not in FIELDS_OF_IDLE_TABLES)


def _result_text(result: TableResult[Any]) -> str:
    if result.error is not None or result.report is None:
        return "" if result.error is None else error_facts(result.error)["code"]
    headline = result.report.to_text().partition("\n")[0].removeprefix(f"{result.report.table}: ")
    return "-" if result.outcome == "nothing to do" else str(headline)


@dataclass(frozen=True, kw_only=True, repr=False)
class ManyReport(
    Report,
    Generic[OneReport],
    rows="_worst_first",
    columns=(Column("table", "table"), State("outcome", "outcome"), Column("what", spell=_result_text)),
):
    """The report of a call on many tables. A table that failed has kept no other from its turn.

    Parameters
    ----------
    results
        By name of the table: its report, as of the call on one table, or its error.
    others_count
        Tables and views that were passed over: this library has not written them.
    """

    results: tuple[TableResult[OneReport], ...] = ()
    others_count: int = 0

    @property
    def failed(self) -> tuple[TableResult[OneReport], ...]:
        """The tables that ended with an error."""
        return tuple(result for result in self.results if result.error is not None)

    @property
    def _worst_first(self) -> list[TableResult[OneReport]]:
        return sorted(self.results, key=lambda result: (FAILED, "done", "nothing to do").index(result.outcome))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: what ``--json`` prints."""
        return {
            "format": REPORT_FORMAT,
            "table": self.table,
            "results": [self._result_fields(result) for result in self.results],
            "others_count": self.others_count,
        }

    @staticmethod
    def _result_fields(result: TableResult[OneReport]) -> dict[str, Any]:
        return {
            "table": result.table,
            "error": None if result.error is None else error_facts(result.error),
            "report": None if result.report is None else result.report.to_dict(),
        }

    def _headline(self) -> str:
        outcomes = [result.outcome for result in self.results]
        counts = ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in dict.fromkeys(sorted(outcomes)))
        return f": {counted(len(self.results), 'table')}{f' ({counts})' if counts else ''}"

    def _lines(self) -> Iterator[str]:
        for result in self._worst_first:
            if result.error is not None:
                yield f"FAILED: {message_with_table(result.table, error_facts(result.error)['message'])}"
            elif result.report is not None:
                for line in result.report._summary().lines:  # noqa: SLF001  # a report, too
                    failure = line.removeprefix("FAILED: ")
                    if not line.startswith("kept "):
                        yield f"{'' if failure == line else 'FAILED: '}{result.table}: {failure}"
        yield from passed_over_line(self.others_count)


def many_report(label: str, results: Sequence[TableResult[Any]], others_count: int) -> ManyReport[Any]:
    """Return the report of a call on many tables."""
    return ManyReport(table=label, results=tuple(results), others_count=others_count)


def tables_report(label: str, results: Sequence[TableResult[Any]], others_count: int) -> TablesReport:
    """Return the report on the state of tables; a table that could not be looked at is ``"failed"``."""
    return TablesReport(table=label, tables=tuple(map(_status, results)), others_count=others_count)


def _status(result: TableResult[TableStatus]) -> TableStatus:
    if result.report is not None:
        return result.report
    facts = None if result.error is None else error_facts(result.error)
    return TableStatus(table=result.table, version=None, age_seconds=None, health=FAILED, error=facts)


class ManyInterruptedError(KeyboardInterrupt):
    """Ctrl-C ended a call on many tables; ``report`` says what was done until then."""

    def __init__(self, report: Report) -> None:
        super().__init__("interrupted: tables whose turn had not come are as they were")
        self.report = report
