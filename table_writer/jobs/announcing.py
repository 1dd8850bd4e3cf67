"""Announcements: gather facts about a call while it runs, and tell listeners once it is over, however it ended."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from table_writer.errors import CheckFailedError, OutcomeUnknownError, TableWriterError
from table_writer.events.event import EventError, EventOperation, Source, TableEvent
from table_writer.events.listeners import EventListener, MakeEvent, collect_resolutions, tell
from table_writer.model.check_result import CheckResult, stored_line
from table_writer.model.entry import WRITE_ID
from table_writer.model.location import Location
from table_writer.model.process import this_process
from table_writer.model.staged_write import StagedRecord
from table_writer.progress import Stopwatch
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.table.services import Services
from table_writer.reports.report import Report

logger = logging.getLogger(__name__)
Answer = TypeVar("Answer")
AskSources = Callable[[], tuple[Source, ...] | None]


class Announcement:
    """The facts that are known so far of one call, and its stopwatch."""

    def __init__(
        self, services: Services, operation: EventOperation, table: str, mode: str, sources: AskSources | None = None
    ) -> None:
        self.watch = Stopwatch(services.metastore)
        self._operation = operation
        self._called = {"table": table, "mode": mode}
        self._facts: dict[str, Any] = {}
        self._started_at = datetime.now(UTC)
        self._sources = sources
        self._opened: OpenTable | None = None
        self._report: object = None
        self.is_secret = False  # what an error says may name a person

    def follow(self, opened: OpenTable, **facts: Any) -> None:
        """Name the table that was just opened; requests to its store count from now on."""
        self.watch.follow(opened.store)
        self.concerns(opened, **facts)

    def concerns(self, opened: OpenTable, **facts: Any) -> None:
        """Name the table, with more facts by the names of the event's fields."""
        self._opened = opened
        self._facts |= facts

    @property
    def opened(self) -> OpenTable | None:
        """Return the table, if it was opened."""
        return self._opened

    def finished(self, report: Answer, **facts: Any) -> Answer:
        """Take what the call returns, with the facts that its report does not know, and return it."""
        self._report = report
        self._facts |= facts
        return report

    def success_event(self) -> TableEvent | None:
        """Return the event of a call that has returned; ``None`` if there is nothing to tell."""
        if self._report is None:
            return None
        report_facts = self._report.event_facts() if isinstance(self._report, Report) else {}
        return self._event(**(self._known_facts() | report_facts | {"sources": self._read_sources()}))

    def failure_event(self, error: BaseException) -> TableEvent | None:
        """Return the event of a call that has raised; one that was finished before that has succeeded."""
        if self._report is not None:
            return self.success_event()
        own_error = error if isinstance(error, TableWriterError) else None
        publishes = self._operation == "recover" or any(step.name == "publish" for step in self.watch.steps)
        is_unknown = isinstance(error, OutcomeUnknownError) if own_error else publishes
        known_facts = self._known_facts()
        write_id = known_facts.get("write_id") or (own_error.write_id if own_error else "")
        names = {"table": own_error.table, "write_id": write_id} if own_error else {}
        code = own_error.code if own_error else "interrupted" if isinstance(error, KeyboardInterrupt) else "other"
        facts: dict[str, Any] = {
            "outcome": "unknown" if is_unknown else "failed",
            "error": EventError(
                code=code,
                type=type(error).__name__,
                message=stored_line(own_error.message) if own_error and not self.is_secret else "",
            ),
            "sources": self._read_sources() if isinstance(error, Exception) else None,
        }
        if isinstance(error, CheckFailedError):
            results = (result for result in error.results if isinstance(result, CheckResult))
            facts["checks"] = tuple(result.without_examples() for result in results)
        return self._event(**(known_facts | {name: text for name, text in names.items() if text} | facts))

    def _known_facts(self) -> dict[str, Any]:
        return {**self._called, **(self._opened.event_facts if self._opened else {}), **self._facts}

    def _event(self, **facts: Any) -> TableEvent:
        return TableEvent(
            operation=self._operation,
            started_at=self._started_at,
            ended_at=datetime.now(UTC),
            steps=tuple(self.watch.steps),
            storage_requests=self.watch.storage_requests(),
            metastore_calls=self.watch.metastore_calls(),
            **facts,
        )

    def _read_sources(self) -> tuple[Source, ...] | None:
        try:
            return self._sources() if self._sources else None
        except Exception:  # Spark may raise anything, and the call is over
            logger.warning("what the rows of %s are read from cannot be told", self._called["table"], exc_info=True)
            return None


@contextmanager
def announced(
    services: Services,
    operation: EventOperation,
    table: str,
    mode: str = "",
    *,
    sources: AskSources | None = None,
    dry_run: bool = False,
) -> Iterator[Announcement]:
    """Tell listeners of the call within the block once it is over, and before it of the entries that it has resolved.

    ``sources`` is asked, once the call is over, what its rows are read from. A dry run makes no event,
    nor does a forked child.
    """
    announcement, process = Announcement(services, operation, table, mode or operation, sources), this_process()
    reports = (partial(put_report, services),) if services.config.report_directory else ()
    listeners = (*services.config.listeners, *reports)
    if dry_run or not listeners:
        yield announcement
        return
    with collect_resolutions() as resolutions:
        try:
            yield announcement
        except BaseException as error:
            if process is this_process():
                _tell(listeners, [*resolutions, partial(announcement.failure_event, error)])
            raise
    if process is this_process():
        _tell(listeners, [*resolutions, announcement.success_event])


def put_report(services: Services, event: TableEvent) -> None:
    """Put the event of a call that changes rows into the directory of reports; names sort by the time of its end.

    A failure is logged: the call is over.
    """
    if event.operation in {"vacuum", "discard"}:
        return
    directory = Location.parse(services.config.report_directory or "")
    named = event.write_id if WRITE_ID.fullmatch(event.write_id) else f"{secrets.token_hex(8)}"
    key = f"{directory.key}{event.ended_at:%Y%m%dT%H%M%S.%fZ}-{event.operation}-{named}.json"
    body = json.dumps(event.to_dict(), indent=2, ensure_ascii=False).encode()
    try:
        services.store_of(directory).put(key, body)
    except TableWriterError as error:
        logger.warning("write_id=%s no report in %s: %s", event.write_id, directory, error)


def facts_of_staged(record: StagedRecord) -> dict[str, Any]:
    """Return the facts of a staged write, by the names of the event's fields."""
    plan = record.plan
    return {"mode": record.called, "write_id": plan.write_id, "tags": plan.tags, "idempotency_key": plan.key.text}


def _tell(listeners: Sequence[EventListener], makers: Iterable[MakeEvent]) -> None:
    """Make each event and tell listeners of it; an event that cannot be made fails no call."""
    for make in makers:
        try:
            event = make()
        except Exception:  # the call has taken effect, whatever is wrong with its event
            logger.exception("listeners are not told of a call that is over: its event could not be made")
            continue
        if event is not None:
            tell(listeners, event)
