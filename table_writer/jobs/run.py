"""Steps 1 to 5 in their order, for writes, staged writes, compactions and changes of rows."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from table_writer.check import Check
from table_writer.check.run import require_valid, run_checks
from table_writer.config import CompactOptions, RowOptions
from table_writer.errors import ConflictError, InvalidInputError
from table_writer.events.event import EventOperation
from table_writer.jobs.announcing import Announcement, announced, facts_of_staged
from table_writer.jobs.calls import Call
from table_writer.jobs.order import Order
from table_writer.jobs.plan.fit import add_columns
from table_writer.jobs.plan.planner import PlannedWrite, Where
from table_writer.jobs.plan.table_planner import require_inside
from table_writer.jobs.plan.types import partition_schema, violation
from table_writer.jobs.results import repeated_result
from table_writer.jobs.rows.change import RowCall
from table_writer.jobs.rows.erasure import Erasing, SeenAgainError, new_salt
from table_writer.jobs.rows.turns import Turn
from table_writer.jobs.rows.where import DeletedWhere
from table_writer.jobs.running_write import MadeTable, RunningWrite
from table_writer.jobs.session_services import SessionServices, audit_of
from table_writer.jobs.sources import Calling, ChangeSource, CompactionSource, FrameSource, copy_files, executors_of
from table_writer.jobs.staged_writes import BySpark, StagedWrites
from table_writer.jobs.upload.job import refuse_existing, run_upload, upload_few, write_by_spark
from table_writer.jobs.vacuum_results import discard_report
from table_writer.model.staged_write import RecordedScope, StagedRecord
from table_writer.model.write import Scope, WrittenFiles
from table_writer.progress import Stopwatch
from table_writer.protocol.operations.append import CopyFiles
from table_writer.protocol.operations.correction import Correction
from table_writer.protocol.table.open_table import OpenTable, RepeatedError
from table_writer.reports.checks import CheckResults
from table_writer.reports.listeners import show_progress
from table_writer.reports.rows_result import RowsResult
from table_writer.reports.staged_report import event_facts_of_staged
from table_writer.reports.write_result import CompactReport, WriteResult
from table_writer.spark import open_gateway
from table_writer.spark.comet import notes_on_old_dates
from table_writer.spark.executors import refuse_replaced
from table_writer.spark.sql import SPARK_ERRORS, without_query_log

logger = logging.getLogger(__name__)
Answer = TypeVar("Answer")
DELETES_AGAIN: Final = 5  # of one purge, while others bring the rows back


class Steps(Order[PlannedWrite]):
    """The write calls of one session, each as its steps in order."""

    def __init__(self, spark: SparkSession, services: SessionServices) -> None:
        self.spark = spark  # in which a call's names are looked up, and whose settings spell its values
        self._own = spark
        self._services = services

    def of_call(self, rows: DataFrame | None = None) -> Steps:
        """Return the steps of one call, in one session from its first step to its last.

        That is the session of the DataFrame that the call is given. Without one it is the session of the batch that a
        streaming query writes on this thread, else the writer's own.
        """
        session = rows.sparkSession if isinstance(rows, DataFrame) else open_gateway(self._own).session_of_batch()
        steps = copy(self)
        steps.spark = self._own if session is None else session
        return steps

    def write(self, df: DataFrame, table: str, call: Call) -> WriteResult:
        """Do steps 1 to 5. Readers switch in ``publisher.publish``; without an answer, a recovery may switch later."""
        announcing = self._announced("write", df, table, call)
        with announcing as announcement, self.show_progress(table, call.mode.value), MadeTable() as made_table:
            source = FrameSource(self._calling(announcement, table), df, call, made_table)
            try:
                result = self._publish(source, announcement.watch)
            except RepeatedError as repeated:
                return announcement.finished(repeated_result(repeated.entry, announcement.watch, announcement.opened))
            return announcement.finished(result, columns=source.columns)

    def stage(self, df: DataFrame, table: str, call: Call, *, expires_in: timedelta) -> tuple[OpenTable, StagedRecord]:
        """Do steps 1 to 4, and leave the files to be published or discarded by any process.

        ``InvalidInputError`` also says that there is nothing to stage: no rows, or a key that was published before.
        """
        announcing = self._announced("stage", df, table, call)
        with announcing as announcement, self.show_progress(table, call.mode.value), MadeTable() as made_table:
            source = FrameSource(self._calling(announcement, table), df, call, made_table)
            opened, record = self._stage(source, announcement.watch, expires_in)
            return opened, announcement.finished(record, **event_facts_of_staged(record))

    def compact(self, table: str, options: CompactOptions, *, dry_run: bool) -> CompactReport:
        """Write the rows of small files into fewer files: steps 1 to 5 with rows of the table itself.

        Raises ``CheckFailedError`` if the rows that were written are not those that were read; nothing is published.
        """
        announcing = announced(self._services, "compact", table, dry_run=dry_run)
        with announcing as announcement, self.show_progress(table, "compact"):
            source = CompactionSource(self._calling(announcement, table), options, dry_run=dry_run)
            return announcement.finished(self._publish(source, announcement.watch))

    def change_rows(self, table: str, call: RowCall) -> RowsResult:
        """Write what a change makes of the table's own rows; after a conflict again, with newer rows, if that is asked.

        Raises ``ConflictError`` once no retry is left; nothing was published.
        """
        with self._attempts("write", table, call) as (announcement, attempts):

            def attempt(turn: Turn) -> RowsResult:
                source = ChangeSource(self._calling(announcement, table), call, turn, staged=False)
                try:
                    return self._publish(source, announcement.watch)
                except RepeatedError as repeated:
                    return call.result_of(repeated_result(repeated.entry, announcement.watch, announcement.opened))

            return announcement.finished(attempts(attempt))

    def stage_rows(self, table: str, call: RowCall, *, expires_in: timedelta) -> tuple[OpenTable, StagedRecord]:
        """Do steps 1 to 4 of a change of rows, and leave the files to be published or discarded by any process.

        ``InvalidInputError`` also says that there is nothing to stage.
        """
        with self._attempts("stage", table, call) as (announcement, attempts):

            def attempt(turn: Turn) -> tuple[OpenTable, StagedRecord]:
                source = ChangeSource(self._calling(announcement, table), call, turn, staged=True)
                return self._stage(source, announcement.watch, expires_in)

            opened, record = attempts(attempt)
            return opened, announcement.finished(record, **event_facts_of_staged(record))

    def _calling(self, announcement: Announcement, table: str) -> Calling:
        return Calling(spark=self.spark, services=self._services, announcement=announcement, table=table)

    @contextmanager
    def _attempts(
        self, operation: EventOperation, table: str, call: RowCall
    ) -> Iterator[tuple[Announcement, Callable[[Callable[[Turn], Answer]], Answer]]]:
        """Tell listeners how a change of rows ended; what is entered calls one attempt after another."""
        turn = Turn()

        def answer(attempt: Callable[[Turn], Answer]) -> Answer:
            retries_left = call.options.retries
            while True:
                try:
                    return attempt(turn)
                except ConflictError as conflict:
                    if not retries_left:
                        raise
                    retries_left -= 1
                    turn.lost()
                    logger.info("%s of %s begins again: %s", call.change.name, table, conflict)

        announcing = announced(self._services, operation, table, call.change.name)
        with announcing as announcement, self.show_progress(table, call.change.name):
            announcement.is_secret = call.is_purge
            try:
                yield announcement, answer
            finally:
                turn.end()

    def erase(self, table: str, change: DeletedWhere, options: RowOptions, salt: str = "") -> RowsResult:
        """Delete rows, and name for the next vacuum what older versions hold of them.

        What others have published before that is named may have brought such rows back: then they are deleted again.
        Without a salt for the predicate's hash one is drawn.
        """
        opened, salt = self._services.open_to_write(table), salt or new_salt()
        since, deletes = opened.log.lister.read().newest, list[RowsResult]()
        while True:
            deletes.append(self.change_rows(table, RowCall(change=change, options=options, is_purge=True)))
            with self.show_progress(table, "erase"):
                opened = self._services.open_to_write(table)
                try:
                    return Erasing(self.spark, opened, change, since, salt).after(*deletes)
                except SeenAgainError:
                    if len(deletes) > options.retries + DELETES_AGAIN:
                        raise
                Correction(opened).resolve_all(opened.table)
            options = replace(options, idempotency_key="")  # by its key it has done its work already

    def publish(self, record: StagedRecord, opened: OpenTable) -> WriteResult:
        """Do step 5 for a staged write, with its record as it is stored now."""
        plan = record.plan
        name, mode = str(plan.table.name), record.called
        announcing = announced(self._services, "publish", name, mode)
        with announcing as announcement, self.show_progress(name, mode, plan.write_id):
            announcement.follow(opened, write_id=plan.write_id)
            by_spark = BySpark(
                prepare=partial(self._prepare, opened),
                copy_files=copy_files(self.spark, opened, plan.write_id, announcement.watch),
                refresh=partial(self._refresh, opened),
            )
            return StagedWrites(opened).publish(plan.write_id, announcement, by_spark)

    def discard(self, record: StagedRecord, opened: OpenTable) -> None:
        """Delete a staged write; it is an error if it was published, but not if another process has deleted it."""
        write_id, staged_writes = record.plan.write_id, StagedWrites(opened)
        with announced(self._services, "discard", str(opened.table.name), record.called) as announcement:
            announcement.follow(opened, **facts_of_staged(record))
            try:
                done = staged_writes.discard(write_id)
            except InvalidInputError:
                staged_writes.require_discarded(write_id)
            else:
                announcement.finished(discard_report(opened, write_id, done, dry_run=False))

    def check(self, files: WrittenFiles, opened: OpenTable, checks: Sequence[Check], watch: Stopwatch) -> CheckResults:
        if not checks:
            return CheckResults()
        with watch.step("check"):
            audit = audit_of(self.spark, opened, _with_scope(self.spark, files, opened))
            require_valid(checks, self.spark, audit.schema, audit.table, audit.partition_columns)
            return CheckResults(run_checks(checks, audit))

    @contextmanager
    def show_progress(self, table: str, mode: str, write_id: str = "") -> Iterator[None]:
        """Show how far a call is, if it takes over a second; PySpark logs no error that is raised anyway."""
        open_gateway(self.spark)  # this refuses a session that was stopped
        refuse_replaced()
        spark_has_bar = self.spark.conf.get("spark.ui.showConsoleProgress", "false") == "true"
        choice = self._services.config.progress
        progress_shown = show_progress(choice, table=table, mode=mode, write_id=write_id, spark_has_bar=spark_has_bar)
        with progress_shown, without_query_log():
            yield

    def _announced(
        self, operation: EventOperation, df: DataFrame, table: str, call: Call
    ) -> AbstractContextManager[Announcement]:
        """Tell listeners how the call ended, and what its rows are read from."""
        sources = partial(open_gateway(self.spark).sources, df)
        return announced(self._services, operation, table, call.mode.value, sources=sources)

    def _write_files(
        self, planned: PlannedWrite, opened: OpenTable, write: RunningWrite, watch: Stopwatch
    ) -> WrittenFiles:
        plan = planned.plan
        if planned.spec is None:
            with watch.step("upload"), _explain_failures(planned):
                rows = refuse_existing(planned.rows, planned.existing, partition_schema(opened.table))
                files = write_by_spark(rows, planned.fitted.schema, plan, opened)
            require_inside(files)
            return files
        with watch.step("upload"), _explain_failures(planned):
            messages = upload_few(planned.few, planned.spec, opened.store) if planned.few else None
            watch.uploaded_by = "executors" if messages is None else "driver"
            if messages is None:
                messages = run_upload(planned.rows, planned.spec)
                for message in messages:
                    watch.add_requests(dict(message.requests))
        files = WrittenFiles.from_messages(plan, messages, keeps_files=bool(opened.followed_mirrors))
        require_inside(files)
        notes = notes_on_old_dates(self.spark, (partition.figures for partition in files.partitions))
        files = files.with_plan(notes=(*plan.notes, *notes)) if notes else files
        with watch.step("complete"):
            write.complete(messages, executors_of(self.spark, opened, plan.write_id, watch).complete)
        return files

    def _prepare(self, opened: OpenTable, record: StagedRecord) -> WrittenFiles:
        """Do what a staged write needs of Spark before its claim: its predicate, and columns that it adds."""
        added = StructType.fromJson(json.loads(record.added_schema)).fields if record.added_schema else ()
        files = _with_scope(self.spark, record.files, opened)
        if added:  # an added column stays, so look first for what would stop the publish
            StagedWrites(opened).examine(replace(record, files=files), with_spark=True)
        return _with_new_columns(self.spark, files, added, opened)

    def _copy_files(self, opened: OpenTable, write_id: str, watch: Stopwatch) -> CopyFiles:
        return copy_files(self.spark, opened, write_id, watch)

    def _with_new_columns(self, files: WrittenFiles, planned: PlannedWrite, opened: OpenTable) -> WrittenFiles:
        return _with_new_columns(self.spark, files, planned.fitted.added, opened)

    def _refresh(self, opened: OpenTable, write_id: str) -> tuple[str, ...]:
        """Let the writer's session read the table anew, and the call's, which keeps locations of its own."""
        sessions = (self._own,) if self.spark is self._own else (self._own, self.spark)
        return tuple(note for session in sessions for note in open_gateway(session).refresh(opened.table, write_id))

    @contextmanager
    def _reading(self, opened: OpenTable, planned: PlannedWrite) -> Iterator[None]:
        """After a conflict let the session forget what it knows of a table that the query reads: it may be old."""
        try:
            yield
        except ConflictError:
            if planned.plan.reads:
                self._refresh(opened, planned.plan.write_id)
            raise


def _with_scope(spark: SparkSession, files: WrittenFiles, opened: OpenTable) -> WrittenFiles:
    """Let Spark evaluate the predicate of a staged write again, for partitions that have appeared since."""
    plan, kinds = files.plan, files.plan.spellings.types
    zone = plan.spellings.time_zone if "timestamp" in kinds else ""  # in which names of partitions are moments

    def asked_again(scope: Scope) -> Scope:
        if not isinstance(scope, RecordedScope) or not scope.where:
            return scope
        if zone and zone != spark.conf.get("spark.sql.session.timeZone"):
            return replace(scope, time_zone=zone)
        return Where(spark, scope.where, partition_schema(opened.table), str(plan.table.name))

    return files.with_plan(scope=asked_again(plan.scope), watched=asked_again(plan.watched))


def _with_new_columns(
    spark: SparkSession, files: WrittenFiles, added: Sequence[StructField], opened: OpenTable
) -> WrittenFiles:
    """Add the columns that the table does not have, just before the first row of them can be read."""
    if not added:
        return files
    planned_table = files.plan.table
    table = add_columns(spark, opened.metastore, planned_table, added)
    is_same = (table.created_at_seconds, table.root, table.partition_columns) == (
        planned_table.created_at_seconds,
        planned_table.root,
        planned_table.partition_columns,
    )
    if not is_same or not set(planned_table.columns) <= set(table.columns):
        raise ConflictError(
            f"{table.name} was altered, or dropped and made again, while it was being written; nothing was"
            " published. Run it again.",
            table=str(table.name),
            write_id=files.plan.write_id,
        )
    return files.with_plan(table=table)


@contextmanager
def _explain_failures(planned: PlannedWrite) -> Iterator[None]:
    """Turn a task's failure on a value that the table does not take into an error that counts such rows."""
    try:
        yield
    except SPARK_ERRORS as error:
        explanation = violation(error, planned.fitted.given, planned.fitted.limits, str(planned.plan.table.name))
        if explanation is None:
            raise
        explanation.write_id = planned.plan.write_id
        raise explanation from error
