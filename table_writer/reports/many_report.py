"""The reports on many tables: the state of each table, and what a call has done to each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final, Generic, TypeVar

from table_writer.errors import TableWriterError, counted, few, printable
from table_writer.reports.report import REPORT_FORMAT, Columns, Report, size

OneReport = TypeVar("OneReport", bound=Any)
OK: Final = "ok"
IN_DOUBT: Final = "in doubt"
BEHIND: Final = "behind"
FAILED: Final = "failed"
FIELDS_OF_IDLE_TABLES: Final = frozenset(
    {"table", "dry_run", "kept", "missing"}
)  # a report on an idle table has them, too
INTERRUPTED: Final = "interrupted; what it was about to change, `table-writer recover` finishes or resolves"
NOT_BEGUN: Final = "interrupted before its turn"


def error_facts(error: BaseException) -> dict[str, str]:
    """Return the code, the message and the write of one table's error."""
    if isinstance(error, TableWriterError):
        return {"code": error.code, "message": error.message, "write_id": error.write_id}
    if isinstance(error, KeyboardInterrupt):
        return {"code": "interrupted", "message": str(error) or INTERRUPTED, "write_id": ""}
    message = f"unexpected {type(error).__name__}: {error}. This is a bug, and whether something changed is not known"
    return {"code": "internal", "message": message, "write_id": ""}


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


TABLES_COLUMNS: Final[Columns] = {
    "table": "table",
    "health": "health",
    "version": lambda status: None if status.version is None else str(status.version),
    "age": _age,
    "in doubt": _versions,
    "vacuum frees": lambda status: None if status.free_bytes is None else size(status.free_bytes),
}


@dataclass(frozen=True, kw_only=True, repr=False)
class TablesReport(Report, rows="_worst_first", columns=TABLES_COLUMNS):
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
        return sorted(self.tables, key=lambda status: (FAILED, BEHIND, IN_DOUBT, OK).index(status.health))

    def _headline(self) -> str:
        healths = [status.health for status in self.tables]
        counts = ", ".join(
            f"{healths.count(health)} {health}" for health in (FAILED, BEHIND, IN_DOUBT, OK) if health in healths
        )
        free = size(sum(status.free_bytes or 0 for status in self.tables))
        tables = counted(len(self.tables), "table")
        return f": {tables}{f' ({counts})' if counts else ''}; a vacuum would free {free}"

    def _lines(self) -> Iterator[str]:
        for status in self._worst_first:
            if status.error is not None:
                yield f"FAILED: {_message_with_table(status.table, status.error['message'])}"
            elif status.health != OK:
                yield f"{status.table}: `table-writer recover {status.table}` resolves what is {status.health}"
        if self.others_count:
            yield f"passed over: {counted(self.others_count, 'table')} that this library has not written"


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


RESULT_COLUMNS: Final[Columns] = {"table": "table", "outcome": "outcome", "what": _result_text}


@dataclass(frozen=True, kw_only=True, repr=False)
class ManyReport(Report, Generic[OneReport], rows="_worst_first", columns=RESULT_COLUMNS):
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
                yield f"FAILED: {_message_with_table(result.table, error_facts(result.error)['message'])}"
            elif result.report is not None:
                for line in result.report._lines():  # noqa: SLF001  # a report, too
                    failure = line.removeprefix("FAILED: ")
                    if not line.startswith("kept "):
                        yield f"{'' if failure == line else 'FAILED: '}{result.table}: {failure}"
        if self.others_count:
            yield f"passed over: {counted(self.others_count, 'table')} that this library has not written"


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


def _message_with_table(table: str, message: str) -> str:
    """Return a message that names its table."""
    return message if table in message else f"{table}: {printable(message)}"
