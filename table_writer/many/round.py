"""One call on many tables: which they are, a few at a time, each by itself.

A worker has a connection to the metastore of its own, since calls on one connection take turns; stores are shared.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from table_writer.checked import nearest
from table_writer.errors import InvalidInputError, MetastoreError, counted
from table_writer.metastore.protocol import Metastore
from table_writer.model.location import Location
from table_writer.model.table import ROOT_PARAMETER, SPARK_CATALOG, Table, TableName, name_parts
from table_writer.model.table_kind import format_of_others
from table_writer.progress import current
from table_writer.protocol.table.services import Services
from table_writer.reports.listeners import show_progress
from table_writer.reports.many_reports import NOT_BEGUN, ManyInterruptedError, TableResult
from table_writer.reports.report import Report
from table_writer.storage.kinds import known_kind

logger = logging.getLogger(__name__)
MOST_WORKERS: Final = 64
STOP_LOOK_SECONDS: Final = 0.2  # between two looks whether those at work have ended
PATTERN: Final = frozenset("*?[]%")


@dataclass(frozen=True, slots=True)
class ChosenTable:
    """A table whose turn will come."""

    name: TableName
    found: Table | None = field(default=None, repr=False)  # as its database listed it; None: the caller has named it


@dataclass(frozen=True, slots=True)
class Choice:
    """The tables of a call."""

    label: str
    tables: tuple[ChosenTable, ...]
    failed: tuple[TableResult[Any], ...] = ()  # databases whose tables could not be listed
    others: tuple[Table, ...] = ()  # views, tables of other formats, and of stores that this library does not know


Visit = Callable[[Services, ChosenTable], Any]
"""Does its work on one table and returns the result; ``None``: this library has not written the table."""

Visited = tuple[str, TableResult[Any] | None]
"""The name of a table, and what became of it; ``None``: this library has not written it."""

Made = TypeVar("Made", bound=Report)
MakeReport = Callable[[str, Sequence[TableResult[Any]], int], Made]
"""Makes a report of what the tables are called together, what became of each, and how many were passed over."""


def choose(
    metastore: Metastore, tables: Collection[str] | None = None, database: str | Collection[str] | None = None
) -> Choice:
    """Return the tables that are named, or those of databases; without either those of all databases.

    Reading the tables of a database takes 1 call and 1 for every 100 of them, for all that is done to them.
    """
    if tables is not None and database is not None:
        raise InvalidInputError("tables and database exclude each other: name tables, or whole databases")
    if tables is not None:
        return _named_tables(tables)
    known = list(metastore.get_databases())
    wanted = known if database is None else _databases([database] if isinstance(database, str) else database, known)
    chosen: dict[TableName, ChosenTable] = {}
    failed: list[TableResult[Any]] = []
    others: list[Table] = []
    for schema in wanted:
        try:
            for table in metastore.get_tables(schema):
                if _may_be_ours(table):
                    chosen[table.name] = ChosenTable(table.name, table)
                else:
                    others.append(table)
        except MetastoreError as error:
            failed.append(TableResult(table=f"{schema}.*", error=error))
    label = "all tables" if database is None else ", ".join(f"{name}.*" for name in wanted)
    return Choice(label, tuple(chosen[name] for name in sorted(chosen)), tuple(failed), tuple(others))


def _named_tables(tables: Collection[str]) -> Choice:
    for text in tables:
        if PATTERN.intersection(text):
            raise InvalidInputError(
                f"{text!r} is a pattern, and tables are named one by one; database='mart' (--database mart) means all"
                " tables of that database"
            )
    names = sorted({TableName.parse(text) for text in tables})
    if not names:
        raise InvalidInputError("no table is named; leave tables out for all that this library has written")
    label = str(names[0]) if len(names) == 1 else counted(len(names), "table")
    return Choice(label, tuple(map(ChosenTable, names)))


def _databases(named: Iterable[str], known: Collection[str]) -> list[str]:
    """Return the databases as the metastore spells them, each once; ``InvalidInputError`` if one is not there."""
    spelled = {name.lower(): name for name in known}
    found: dict[str, None] = {}
    for text in named:
        *catalog, name = (part.lower() for part in name_parts(text) or [text])
        name = name if catalog in ([], [SPARK_CATALOG]) else text
        if name not in spelled:
            patterns = " Patterns are not read." if PATTERN.intersection(text) else ""
            raise InvalidInputError(
                f"there is no database {text!r}{nearest(name, spelled) or '.'}{patterns} Nothing was done"
            )
        found[spelled[name]] = None
    if not found:
        raise InvalidInputError("no database is named; leave database out for all of them")
    return list(found)


def _may_be_ours(table: Table) -> bool:
    """Return whether the metastore's words alone leave open that this library has written a table."""
    if not table.location or "VIEW" in table.kind or format_of_others(table):
        return False
    location = Location.parse_any(table.root)
    is_known = location is not None and known_kind(location) is not None
    return is_known or ROOT_PARAMETER in table.parameters


@dataclass(frozen=True, slots=True)
class Round:
    """One visit to each of the chosen tables, ``workers`` of them at a time."""

    services: Services
    choice: Choice
    workers: int

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= MOST_WORKERS:
            raise InvalidInputError(f"workers={self.workers}: expected 1 to {MOST_WORKERS}")

    def run(self, what: str, visit: Visit, report: MakeReport[Made]) -> Made:
        """Visit each table once; an error of one is its result, and ends no other.

        Raises ``ManyInterruptedError`` after Ctrl-C: no further table is begun, and those at work are waited for,
        unless it comes again.
        """
        todo: SimpleQueue[ChosenTable] = SimpleQueue()
        done: SimpleQueue[Visited] = SimpleQueue()
        results: dict[str, TableResult[Any] | None] = {}
        for chosen_table in self.choice.tables:
            todo.put(chosen_table)
        stopped = threading.Event()
        threads = [
            threading.Thread(target=_work, args=(self.services.beside(), todo, done, visit, stopped), daemon=True)
            for _ in range(min(self.workers, todo.qsize()))
        ]
        with show_progress(self.services.config.progress, table=self.choice.label, mode=what):
            current().begin(what)
            current().count("tables", todo.qsize())
            try:
                for thread in threads:
                    thread.start()
                while len(results) < len(self.choice.tables):
                    label, result = _next(done)
                    results[label] = result
                    current().advance()
                    error = None if result is None else result.error
                    if error is not None and not isinstance(error, Exception):
                        raise error  # Ctrl-C, wherever it was met
            except KeyboardInterrupt:
                stopped.set()
                logger.warning("interrupted: no further table is begun, and those at work are waited for")
                for thread in threads:
                    while thread.is_alive():
                        thread.join(STOP_LOOK_SECONDS)
                while not done.empty():
                    results.update([done.get()])
                raise ManyInterruptedError(self._report(results, report)) from None
            finally:
                stopped.set()
        return self._report(results, report)

    def _report(self, results: Mapping[str, TableResult[Any] | None], report: MakeReport[Made]) -> Made:
        """Return the report, by name of the table; those whose turn has not come are among the errors."""
        names = [str(chosen_table.name) for chosen_table in self.choice.tables]
        not_begun = (TableResult[Any](table=name, error=KeyboardInterrupt(NOT_BEGUN)) for name in names)
        found = [results.get(result.table, result) for result in not_begun]
        ours = [result for result in found if result is not None]
        return report(self.choice.label, (*self.choice.failed, *ours), len(self.choice.others) + len(found) - len(ours))


def _next(done: SimpleQueue[Visited]) -> Visited:
    """Wait for a result; a signal that comes just before the wait does not end it: it is seen at the next look."""
    while True:
        with suppress(Empty):
            return done.get(timeout=STOP_LOOK_SECONDS)


def _work(
    services: Services,
    todo: SimpleQueue[ChosenTable],
    done: SimpleQueue[Visited],
    visit: Visit,
    stopped: threading.Event,
) -> None:
    """Visit one table after the other, until none is left."""
    try:
        while not stopped.is_set():
            try:
                chosen_table = todo.get_nowait()
            except Empty:
                break
            result: TableResult[Any] | None
            try:
                found = visit(services, chosen_table)
                result = None if found is None else TableResult(table=str(chosen_table.name), report=found)
            except BaseException as error:  # noqa: BLE001  # it is the table's result; the caller raises Ctrl-C
                result = TableResult(table=str(chosen_table.name), error=error)
                if not isinstance(error, Exception):
                    stopped.set()
            done.put((str(chosen_table.name), result))
    finally:
        services.metastore.close()
