"""Steps 1 to 5 in their order, wherever the rows come from: published at the end, or staged.

A source says which rows there are and what its call returns; who keeps the order says how rows become files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from table_writer.errors import InvalidInputError
from table_writer.jobs.complete import Completer
from table_writer.jobs.results import end_publish
from table_writer.jobs.running_write import RunningWrite
from table_writer.model.entry import LogEntry
from table_writer.model.staged_write import RecordedScope, StagedRecord
from table_writer.model.write import Scope, WritePlan, WrittenFiles
from table_writer.progress import Stopwatch
from table_writer.protocol.operations.append import CopyFiles
from table_writer.protocol.operations.publisher import GaveWayError, Publisher, PublishResult
from table_writer.protocol.table.open_table import OpenTable, RepeatedError
from table_writer.reports.checks import CheckResults
from table_writer.reports.write_result import WriteResult

if TYPE_CHECKING:
    from table_writer.check import Check

Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)


class Planned(Protocol):
    """What step 1 ends in."""

    @property
    def plan(self) -> WritePlan:
        """Return the plan of the write."""

    @property
    def added_schema(self) -> str:
        """Return the columns that the table is to get, as Spark's JSON; empty if there are none."""


PlannedRows = TypeVar("PlannedRows", bound=Planned)
PlannedRows_co = TypeVar("PlannedRows_co", bound=Planned, covariant=True)


class Source(Protocol[PlannedRows_co]):
    """The rows of one attempt of a call."""

    @property
    def checks(self) -> Sequence[Check]:
        """What is checked of the files before they are published, or staged."""

    def plan(self) -> tuple[OpenTable, PlannedRows_co] | None:
        """Do step 1: open the table, and fix all that the write needs; ``None`` if there is nothing to do.

        Raises ``RepeatedError`` if the call's idempotency key was published before.
        """

    def examined(self, files: WrittenFiles, write: RunningWrite) -> WrittenFiles | None:
        """Look at the files that are complete, and add to them; ``None`` if readers would see no other rows."""


class ToPublish(Source[PlannedRows_co], Protocol[PlannedRows_co, Answer_co]):
    """Rows that are to be published, and what the call returns."""

    def nothing(self) -> Answer_co:
        """Return what a call returns that has published nothing."""

    def published(self, result: WriteResult, files: WrittenFiles, published: PublishResult) -> Answer_co:
        """Return what a call returns that has been published."""


class ToStage(Source[PlannedRows_co], Protocol[PlannedRows_co]):
    """Rows that are to be staged."""

    def nothing_to_stage(self) -> InvalidInputError:
        """Return the error of a call that has nothing to stage."""


@runtime_checkable
class Predicate(Protocol):
    """A scope that a predicate over the partition columns decides."""

    predicate: str

    def __call__(self, existing: Any) -> frozenset[Any]:
        """Return those of the partitions that it selects."""


class Order(ABC, Generic[PlannedRows]):
    """The order of a write; what is left open is what takes a session, or does without."""

    def _publish(self, source: ToPublish[PlannedRows, Answer], watch: Stopwatch) -> Answer:
        """Do steps 1 to 5; ``RepeatedError`` if the call's idempotency key was published before."""
        with watch.step("plan"):
            found = source.plan()  # 1
        if found is None:
            return source.nothing()
        opened, planned = found
        with RunningWrite(opened, planned.plan) as write:
            files, results = self._checked_files(source, planned, opened, write, watch)  # 2 to 4
            if files is None:
                return source.nothing()
            with watch.step("publish"), self._reading(opened, planned):
                files = self._with_new_columns(files, planned, opened)
                publisher = Publisher(opened, self._copy_files(opened, planned.plan.write_id, watch))
                try:
                    published = publisher.publish(files, write.claiming)  # 5
                except GaveWayError:
                    write.discard()
                    return source.nothing()
        result = end_publish(opened, files, published, watch, partial(self._refresh, opened))
        return source.published(replace(result, checks=results), files, published)

    def _stage(
        self, source: ToStage[PlannedRows], watch: Stopwatch, expires_in: timedelta
    ) -> tuple[OpenTable, StagedRecord]:
        """Do steps 1 to 4, and record them, so that any process may do step 5."""
        try:
            with watch.step("plan"):
                found = source.plan()  # 1
        except RepeatedError as repeated:
            raise _published_before(repeated.entry) from None
        if found is None:
            raise source.nothing_to_stage()
        opened, planned = found
        with RunningWrite(opened, planned.plan) as write:
            files, _ = self._checked_files(source, planned, opened, write, watch)  # 2 to 4
            if files is None:
                raise source.nothing_to_stage()
            with self._reading(opened, planned):
                reads = Publisher(opened, Completer.of(opened).copy).as_read(files)
            record = StagedRecord(
                files=_as_recorded(files.with_plan(reads=reads), opened),
                expires_after_seconds=expires_in.total_seconds(),
                added_schema=planned.added_schema,
                writer=opened.identity,
            )
            write.stage(record)
            return opened, record

    def _checked_files(
        self,
        source: Source[PlannedRows],
        planned: PlannedRows,
        opened: OpenTable,
        write: RunningWrite,
        watch: Stopwatch,
    ) -> tuple[WrittenFiles | None, CheckResults]:
        """Do steps 2 to 4; ``None`` if readers would see no other rows."""
        files = source.examined(self._write_files(planned, opened, write, watch), write)  # 2 and 3
        if files is None:
            return None, CheckResults()
        results = self.check(files, opened, source.checks, watch)  # 4
        if results:
            from table_writer.check.run import require_passed  # noqa: PLC0415 - checks take PySpark, a write may do without

            require_passed(results, str(opened.table.name), planned.plan.write_id)
        return files.with_checks(results), results

    @abstractmethod
    def _write_files(
        self, planned: PlannedRows, opened: OpenTable, write: RunningWrite, watch: Stopwatch
    ) -> WrittenFiles:
        """Do steps 2 and 3: write files of all rows, which no table points at."""

    @abstractmethod
    def check(self, files: WrittenFiles, opened: OpenTable, checks: Sequence[Check], watch: Stopwatch) -> CheckResults:
        """Do step 4: check exactly the files that would be published; :func:`require_passed` raises for failures."""

    def _copy_files(self, opened: OpenTable, write_id: str, watch: Stopwatch) -> CopyFiles:  # noqa: ARG002
        """Return what copies files."""
        return Completer.of(opened).copy

    def _with_new_columns(self, files: WrittenFiles, planned: PlannedRows, opened: OpenTable) -> WrittenFiles:  # noqa: ARG002
        """Add the columns that the table does not have, just before the first row of them can be read."""
        return files

    def _refresh(self, opened: OpenTable, write_id: str) -> tuple[str, ...]:  # noqa: ARG002
        """Let whoever knows the table read it anew; returns what could not be done."""
        return ()

    def _reading(self, opened: OpenTable, planned: PlannedRows) -> AbstractContextManager[None]:  # noqa: ARG002
        """Enter around the look at what others have published meanwhile."""
        return nullcontext()


def _published_before(entry: LogEntry) -> InvalidInputError:
    return InvalidInputError(
        f"idempotency key {entry.idempotency_key!r} was published by write {entry.write_id}, as version"
        f" {entry.version}: there is nothing to stage",
        table=entry.table,
    )


def _as_recorded(files: WrittenFiles, opened: OpenTable) -> WrittenFiles:
    """Record the partitions that predicates select: the process that publishes may have no Spark."""
    plan = files.plan
    if not any(isinstance(scope, Predicate) for scope in (plan.scope, plan.watched)):
        return files
    existing = frozenset(opened.metastore.get_partition_names(plan.table.name))
    existing |= {partition.values for partition in files.partitions}

    def recorded(scope: Scope) -> Scope:
        if not isinstance(scope, Predicate):
            return scope
        return RecordedScope(existing, scope(existing), scope.predicate, str(plan.table.name), plan.write_id)

    return files.with_plan(scope=recorded(plan.scope), watched=recorded(plan.watched))
