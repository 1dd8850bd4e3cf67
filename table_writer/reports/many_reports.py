"""The reports on many tables: how each of them is, and what a call has done to each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final, Generic, TypeVar

from table_writer.errors import TableWriterError, counted, few, printable
from table_writer.reports.erasure_report import ErasureReport
from table_writer.reports.health_reports import FAILED, HEALTHS, OK
from table_writer.reports.layout import Column, Figure, Grid, State, size
from table_writer.reports.report import REPORT_FORMAT, Report

OneReport = TypeVar("OneReport", bound=Any)
FIELDS_OF_IDLE_TABLES: Final = frozenset(
    {"table", "dry_run", "kept", "missing"}
)  # a report on an idle table has them, too
NAMED: Final = 100  # tables of a line
NOT_BEGUN: Final = "interrupted before its turn"
OUTCOMES: Final = (FAILED, "done", "nothing to do")
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


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A table that this library has not written: whether it could, by what the metastore says of it.

    Parameters
    ----------
    writer
        Which writer its files would have: ``"Arrow"``, or ``"Spark"`` for other formats, of which Spark refuses some:
        ``plan`` says so. Empty if it cannot be written.
    in_the_way
        Why it cannot, and what would do; empty if nothing is. ``doctor`` says the rest, before the first write.
    """

    table: str
    writer: str = ""
    in_the_way: str = ""

    @property
    def can_be_written(self) -> bool:
        """Return whether nothing is in the way."""
        return not self.in_the_way


def _can_be_written(candidate: Candidate) -> str:
    return {"Arrow": "can be written", "Spark": "if Spark can"}.get(candidate.writer, "no")


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
    candidates
        These tables, where they were asked for, each with what is in the way of a write.
    """

    tables: tuple[TableStatus, ...] = ()
    others_count: int = 0
    candidates: tuple[Candidate, ...] = ()

    @property
    def healthy(self) -> bool:
        """Return whether no table is in doubt, behind or failed."""
        return all(status.health == OK for status in self.tables)

    @property
    def _worst_first(self) -> list[TableStatus]:
        return sorted(self.tables, key=lambda status: HEALTHS.index(status.health))

    def _headline(self) -> str:
        free = size(sum(status.free_bytes or 0 for status in self.tables))
        return f": {_counted_tables([status.health for status in self.tables], HEALTHS)}; a vacuum would free {free}"

    def _lines(self) -> Iterator[str]:
        for status in self._worst_first:
            if status.error is not None:
                yield f"FAILED: {_with_table(status.table, status.error['message'])}"
            elif status.health != OK:
                yield f"{status.table}: `table-writer recover {status.table}` resolves what is {status.health}"
        yield from () if self.candidates else _passed_over(self.others_count)

    def _grids(self) -> tuple[Grid, ...]:
        columns = (
            Column("table", "table"),
            State("", spell=_can_be_written),
            Column("by", "writer"),
            Column("what is in the way", "in_the_way"),
        )
        title = "not written by this library"
        return (Grid(columns, self.candidates, title),) if self.candidates else ()


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
        return sorted(self.results, key=lambda result: OUTCOMES.index(result.outcome))

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
        return f": {_counted_tables([result.outcome for result in self.results], sorted(OUTCOMES))}"

    def _lines(self) -> Iterator[str]:
        yield from self._lines_of_tables()
        yield from _passed_over(self.others_count)

    def _lines_of_tables(self) -> Iterator[str]:
        for result in self._worst_first:
            if result.error is not None:
                yield f"FAILED: {_with_table(result.table, error_facts(result.error)['message'])}"
            elif result.report is not None:
                for line in result.report._summary().lines:  # noqa: SLF001  # a report, too
                    failure = line.removeprefix("FAILED: ")
                    if not line.startswith("kept "):
                        yield f"{'' if failure == line else 'FAILED: '}{result.table}: {failure}"


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A table that a call had nothing to do with, and why; ``may_hold``: it may have rows that were looked for."""

    why: str
    may_hold: bool = False


@dataclass(frozen=True, kw_only=True, repr=False)
class ErasuresReport(ManyReport[OneReport], derived=("is_complete", "found_nothing")):
    """The certificate of one erasure in many tables; of a dry run, what each delete would do.

    Parameters
    ----------
    results
        By name of the table: its ``ErasureReport``, of a dry run its ``RowsPlan``, or its error.
    passed_over
        Tables that hold no such rows as they have no such columns, by name with the reason.
    not_looked_through
        Tables that may hold such rows, and that nobody has looked through, by name with the reason. While there is any,
        the certificate is not complete.
    predicate_salt
        What the certificates hash before the predicate. Keep it with them, if it is to be shown later which rows were
        meant: it is stored nowhere. Empty of a dry run, and where certificates were only looked up.
    dry_run
        Nothing was erased.
    """

    passed_over: Mapping[str, str] = field(default_factory=dict)
    not_looked_through: Mapping[str, str] = field(default_factory=dict)
    predicate_salt: str = ""
    dry_run: bool = False

    @property
    def _certificates(self) -> list[ErasureReport]:
        return [result.report for result in self.results if isinstance(result.report, ErasureReport)]

    @property
    def found_nothing(self) -> bool:
        """Return whether no table of those that were looked through, one at least, had such a row.

        A dry run does not look through older versions, so it cannot tell.
        """
        certificates = self._certificates
        is_known = bool(certificates) and not (self.dry_run or self.failed or self.not_looked_through)
        return is_known and all(certificate.found_nothing for certificate in certificates)

    @property
    def is_complete(self) -> bool:
        """Return whether there were such rows, and nothing is known to hold one any more in any of the tables."""
        certificates = self._certificates
        all_complete = all(certificate.is_complete or certificate.found_nothing for certificate in certificates)
        is_open = self.failed or self.not_looked_through or self.found_nothing
        return bool(certificates) and not is_open and all_complete

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: what ``--json`` prints."""
        own = ("passed_over", "not_looked_through", "predicate_salt", "dry_run", *self.DERIVED)
        return {**super().to_dict(), **{name: getattr(self, name) for name in own}}

    def _headline(self) -> str:
        if self.dry_run:
            return f": dry run, nothing was erased; {_counted_tables([result.outcome for result in self.results], ())}"
        state = "complete" if self.is_complete else "nothing found" if self.found_nothing else "NOT COMPLETE"
        failed = f", {len(self.failed):,} failed" if self.failed else ""
        if not self.results:
            return ": NOT COMPLETE, no table was looked through"
        return f": {counted(len(self._certificates), 'certificate')}, {state}{failed}"

    def _lines(self) -> Iterator[str]:
        """Begin with what keeps it from being complete. What single values stay, each certificate says by itself."""
        for result in self.failed:
            yield f"FAILED: {_with_table(result.table, error_facts(result.error)['message'])}" if result.error else ""
        yield from (f"NOT LOOKED THROUGH: {text}" for text in _by_reason(self.not_looked_through))
        for certificate in self._certificates:
            yield from (f"{certificate.table}: NOT ERASED: {remark}" for remark in certificate.remarks)
        due = [certificate.table for certificate in self._certificates if certificate.due]
        if due:
            vacuum = f"`table-writer vacuum {' '.join(due)}`"
            yield f"run {vacuum}: until then the objects are there, though no call reads them"
            by_hash = defaultdict[str, list[str]](list)
            for certificate in self._certificates:
                by_hash[certificate.predicate_sha256].append(certificate.table)
            for digest, names in by_hash.items():
                command = f"`table-writer erasure {' '.join(names)} --predicate-sha256 {digest}`"
                yield f"then {command} certifies that they are gone"
        yield from _passed_over(self.others_count)
        empty = [certificate.table for certificate in self._certificates if certificate.found_nothing]
        if empty:
            yield f"nothing found in {few(empty, most=NAMED)}"
        yield from (f"passed over: {text}" for text in _by_reason(self.passed_over))
        if self.predicate_salt:
            yield f"predicate's salt, which is stored nowhere: {self.predicate_salt}"
        if self.dry_run:
            yield "older versions are not looked through by a dry run"


def _by_reason(reasons: Mapping[str, str]) -> Iterator[str]:
    """Yield each reason with the tables that it is the reason of."""
    for why in dict.fromkeys(reasons.values()):
        yield f"{few([name for name, reason in reasons.items() if reason == why], most=NAMED)}: {why}"


def erasures_report(
    label: str, results: Sequence[TableResult[Any]], others_count: int, *, salt: str = "", dry_run: bool = False
) -> ErasuresReport[Any]:
    """Return the report of an erasure in many tables."""
    passed = {result.table: result.report for result in results if isinstance(result.report, PassedOver)}
    return ErasuresReport(
        table=label,
        results=tuple(result for result in results if result.table not in passed),
        others_count=others_count,
        passed_over={name: table.why for name, table in passed.items() if not table.may_hold},
        not_looked_through={name: table.why for name, table in passed.items() if table.may_hold},
        predicate_salt=salt,
        dry_run=dry_run,
    )


def many_report(label: str, results: Sequence[TableResult[Any]], others_count: int) -> ManyReport[Any]:
    """Return the report of a call on many tables."""
    return ManyReport(table=label, results=tuple(results), others_count=others_count)


def tables_report(
    label: str, results: Sequence[TableResult[Any]], others_count: int, *, others: Sequence[Candidate] = ()
) -> TablesReport:
    """Return the report on the state of tables; a table that could not be looked at is ``"failed"``."""
    candidates = [result.report for result in results if isinstance(result.report, Candidate)]
    looked_at = [result for result in results if not isinstance(result.report, Candidate)]
    return TablesReport(
        table=label,
        tables=tuple(map(_status, looked_at)),
        others_count=others_count + len(candidates),
        candidates=tuple(sorted((*candidates, *others), key=lambda candidate: candidate.table)),
    )


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


def _counted_tables(words: Sequence[str], order: Sequence[str]) -> str:
    """Count tables, and how many of them each word is said of."""
    counts = ", ".join(f"{words.count(word)} {word}" for word in order if word in words)
    return f"{counted(len(words), 'table')}{f' ({counts})' if counts else ''}"


def _passed_over(others_count: int) -> tuple[str, ...]:
    """Return the line that counts the tables that were passed over; none if there are none."""
    line = f"passed over: {counted(others_count, 'table')} that this library has not written"
    return (line,) if others_count else ()


def _with_table(table: str, message: str) -> str:
    """Return a message that names its table."""
    return message if table in message else f"{table}: {printable(message)}"
