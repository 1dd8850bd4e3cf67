"""The order of steps 1 to 5: the only file that knows it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from table_writer.check import Check
from table_writer.check.run import as_checks, require_passed, require_valid, run_checks
from table_writer.complete import Completer
from table_writer.config import CompactOptions, WriteOptions
from table_writer.display.listeners import showing
from table_writer.display.staged_report import discard_report
from table_writer.display.write_result import CheckResults, CompactReport, WriteResult
from table_writer.errors import ConflictError, InvalidInputError
from table_writer.events.event import EventOperation
from table_writer.log.open_table import OpenTable, RepeatedError
from table_writer.model.entry import Key, LogEntry
from table_writer.model.staged_write import RecordedScope, StagedRecord
from table_writer.model.write import WriteMode, WritePlan, WrittenFiles
from table_writer.plan.fit import add_columns
from table_writer.plan.planner import (
    PlannedWrite,
    Planner,
    Where,
    refuse_immutable,
    require_batch,
    require_inside,
    require_mode,
)
from table_writer.plan.types import partition_schema, violation
from table_writer.progress import Stopwatch
from table_writer.publish.append import CopyFiles
from table_writer.publish.publisher import GaveWayError, Publisher
from table_writer.spark import open_gateway
from table_writer.spark.create_table import create_table
from table_writer.spark.executors import Executors, refuse_replaced
from table_writer.spark.sql import SPARK_ERRORS, without_query_log
from table_writer.upload.job import refuse_existing, run_upload, write_by_spark
from table_writer.write.announcing import Announcement, announced, facts_of_plan
from table_writer.write.compaction import Compaction
from table_writer.write.results import finished, nothing_written, repeated_result
from table_writer.write.running_write import MadeTable, RunningWrite, unharmed
from table_writer.write.session_services import SessionServices, audit_of, staged_frame
from table_writer.write.staged_writes import BySpark, StagedWrites


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """What a caller asked for: what the write does to the table, and how."""

    mode: WriteMode
    options: WriteOptions
    stream: str = ""  # whose batch it is
    query_ids: frozenset[str] = frozenset()  # the streaming queries that a batch may be of; none if nobody knows
    checks: tuple[Check, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "checks", as_checks(self.options.checks))


class Steps:
    """Carries write calls out."""

    def __init__(self, spark: SparkSession, services: SessionServices) -> None:
        self._spark = spark
        self._services = services

    def write(self, df: DataFrame, table: str, call: Call) -> WriteResult:
        """Do steps 1 to 5. Readers switch in the last line of the inner ``with`` block, or never."""
        announcing = self._announced("write", df, table, call)
        with announcing as told, self.watched(table, call.mode.value), MadeTable() as made:
            watch = told.watch
            try:
                with watch.step("plan"):
                    opened, planned = self._plan(df, table, call, told, made)  # 1
                with RunningWrite(opened, planned.plan) as write:
                    files = self._write_files(planned, opened, write, watch)  # 2 and 3
                    if files.row_count == 0 and call.options.if_empty != "replace":
                        return told.done(nothing_written(planned.plan, call.options.if_empty, watch, made.notes))
                    results = self.check(files, opened, call.checks, watch)  # 4
                    require_passed(results, str(opened.table.name), planned.plan.write_id)
                    with watch.step("publish"):
                        files = self._with_new_columns(files.with_checks(results), planned.fitted.added, opened)
                        publisher = Publisher(opened, self._copy_files(opened, planned.plan.write_id, watch))
                        with self._forgetting(opened, planned):
                            published = publisher.publish(files, write.claiming)  # 5
            except RepeatedError as repeated:
                return told.done(repeated_result(repeated.entry, watch))
            result = finished(opened, files, published, watch, partial(self._refresh, opened, df.sparkSession))
            return told.done(replace(result, checks=results), columns=files.plan.table.columns)

    def stage(self, df: DataFrame, table: str, call: Call, *, expires_in: timedelta) -> tuple[OpenTable, StagedRecord]:
        """Do steps 1 to 4, and leave the files to be published or discarded by any process.

        ``InvalidInputError`` also says that there is nothing to stage: no rows, or a key that was published before.
        """
        announcing = self._announced("stage", df, table, call)
        with announcing as told, self.watched(table, call.mode.value), MadeTable() as made:
            watch = told.watch
            try:
                with watch.step("plan"):
                    opened, planned = self._plan(df, table, call, told, made)  # 1
            except RepeatedError as repeated:
                raise _published_before(repeated.entry) from None
            with RunningWrite(opened, planned.plan) as write:
                files = self._write_files(planned, opened, write, watch)  # 2 and 3
                if files.row_count == 0 and call.options.if_empty != "replace":
                    raise _nothing_to_stage(planned.plan)
                results = self.check(files, opened, call.checks, watch)  # 4
                require_passed(results, str(opened.table.name), planned.plan.write_id)
                with self._forgetting(opened, planned):
                    Publisher(opened, self._copy_files(opened, planned.plan.write_id, watch)).require_as_read(files)
                record = StagedRecord(
                    files=_recorded(files.with_checks(results), opened),
                    expires_after_seconds=expires_in.total_seconds(),
                    added_schema=StructType(list(planned.fitted.added)).json() if planned.fitted.added else "",
                    writer=opened.identity,
                )
                write.stage(record)
            return opened, told.done(record)

    def compact(self, table: str, options: CompactOptions, *, dry_run: bool) -> CompactReport:
        """Write the rows of small files anew, in fewer, and point readers at them: steps 1 to 5 with rows of the table.

        Raises ``CheckFailedError`` if the rows that were written are not those that were read; nothing is published.
        """
        announcing = announced(self._services, "compact", table, dry_run=dry_run)
        with announcing as told, self.watched(table, "compact"):
            watch = told.watch
            with watch.step("plan"):
                opened = self._services.open_to_write(table)
                told.opened(opened, tags=options.tags)
                opened.require_owner()
                compaction = Compaction(self._spark, opened, options)
                if dry_run or not compaction.chosen:
                    return told.done(replace(compaction.report(watch), dry_run=dry_run))
                df, layout = compaction.rows()
                planned = Planner(opened).plan(df, WriteMode.APPEND, layout)
                plan = replace(planned.plan, compacted=compaction.compacted, max_copied_bytes=None)
                planned = replace(planned, plan=plan, rows=compaction.watched(planned.rows))
                told.about(opened, write_id=plan.write_id)
            with RunningWrite(opened, plan) as write:
                files = self._write_files(planned, opened, write, watch)
                with watch.step("check"):
                    compaction.require_same(staged_frame(self._spark, opened, files), files)
                if not files.partitions:
                    write.discard()
                    return told.done(compaction.report(watch))
                with watch.step("publish"):
                    publisher = Publisher(opened, self._copy_files(opened, plan.write_id, watch))
                    try:
                        published = publisher.publish(files, write.claiming)
                    except GaveWayError:
                        write.discard()
                        return told.done(compaction.report(watch, given_up=compaction.compacted))
            result = finished(opened, files, published, watch, partial(self._refresh, opened, self._spark))
            return told.done(compaction.report(watch, result, published.given_up))

    def publish(self, record: StagedRecord, opened: OpenTable) -> WriteResult:
        """Do step 5 for a staged write, as it is stored now."""
        plan = record.plan
        name, mode = str(plan.table.name), plan.mode.value
        announcing = announced(self._services, "publish", name, mode)
        with announcing as told, self.watched(name, mode, plan.write_id):
            told.opened(opened, write_id=plan.write_id)
            by_spark = BySpark(
                prepare=partial(self._prepare, opened),
                copy_files=self._copy_files(opened, plan.write_id, told.watch),
                refresh=partial(self._refresh, opened, self._spark),
            )
            return StagedWrites(opened).publish(plan.write_id, told, by_spark)

    def discard(self, record: StagedRecord, opened: OpenTable) -> None:
        """Delete a staged write; that another process has done so is no error, that it was published is one."""
        write_id, staged_writes = record.plan.write_id, StagedWrites(opened)
        with announced(self._services, "discard", str(opened.table.name), record.plan.mode.value) as told:
            told.opened(opened, **facts_of_plan(record.plan))
            try:
                done = staged_writes.discard(write_id)
            except InvalidInputError:
                staged_writes.require_discarded(write_id)
            else:
                told.done(discard_report(opened.table, opened.layout, write_id, done, dry_run=False))

    def check(self, files: WrittenFiles, opened: OpenTable, checks: Sequence[Check], watch: Stopwatch) -> CheckResults:
        """Do step 4: judge exactly the files that would be published; :func:`require_passed` raises for what failed."""
        if not checks:
            return CheckResults()
        with watch.step("check"):
            audit = audit_of(self._spark, opened, self._with_scope(files, opened))
            require_valid(checks, self._spark, audit.schema, audit.table, audit.partition_columns)
            return CheckResults(run_checks(checks, audit))

    @contextmanager
    def watched(self, table: str, mode: str, write_id: str = "") -> Iterator[None]:
        """Show how far a call is, where it takes longer than a second, and errors of queries once: as they are raised.

        PySpark would log each of them before.
        """
        open_gateway(self._spark)  # which refuses a session that was stopped
        refuse_replaced()
        spark_has_bar = self._spark.conf.get("spark.ui.showConsoleProgress", "false") == "true"
        choice = self._services.config.progress
        shown = showing(choice, table=table, mode=mode, write_id=write_id, spark_has_bar=spark_has_bar)
        with shown, without_query_log():
            yield

    def _announced(
        self, operation: EventOperation, df: DataFrame, table: str, call: Call
    ) -> AbstractContextManager[Announcement]:
        """Tell listeners how a call has ended, and what its rows are read from."""
        sources = partial(open_gateway(self._spark).sources, df)
        return announced(self._services, operation, table, call.mode.value, sources=sources)

    def _plan(
        self, df: DataFrame, table: str, call: Call, told: Announcement, made: MadeTable
    ) -> tuple[OpenTable, PlannedWrite]:
        """Do step 1: open the table, and fix everything that the write needs; ``RepeatedError`` if its key is known."""
        with unharmed(table):
            opened = self._open(df, table, call, made)
            told.opened(opened, tags=call.options.tags, idempotency_key=call.options.idempotency_key)
            refuse_immutable(opened.table, call.mode)
            seen = opened.require_new_key(Key(call.options.idempotency_key, call.stream), call.query_ids)
            planned = Planner(opened).plan(df, call.mode, call.options, seen, stream=call.stream)
            name = str(opened.table.name)
            require_valid(call.checks, self._spark, planned.fitted.schema, name, opened.table.partition_columns)
            told.about(opened, write_id=planned.plan.write_id)
            return opened, planned

    def _open(self, df: DataFrame, table: str, call: Call, made: MadeTable) -> OpenTable:
        """Open the table; make it first where the call describes a new one."""
        name, new = self._services.table_name(table), call.options.if_missing
        if new is not None and self._services.metastore.get_table(name) is None:
            require_batch(df, name)
            require_mode(call.mode, call.options, name, partitioned=bool(new.partition_by))
            self._services.require_new(name, new)
            with made.making(name):
                create_table(self._spark, df, name, new, if_not_exists=True)
        return self._services.open_to_write(table)

    def _write_files(
        self, planned: PlannedWrite, opened: OpenTable, write: RunningWrite, watch: Stopwatch
    ) -> WrittenFiles:
        """Do steps 2 and 3: files of all rows, that no table points at."""
        plan = planned.plan
        if planned.spec is None:
            with watch.step("upload"), _explained(planned):
                rows = refuse_existing(planned.rows, planned.existing, partition_schema(opened.table))
                staged = write_by_spark(rows, planned.fitted.schema, plan, opened)
            require_inside(staged)
            return staged
        with watch.step("upload"), _explained(planned):
            messages = run_upload(planned.rows, planned.spec)
        for message in messages:
            watch.add_requests(dict(message.requests))
        staged = WrittenFiles.from_messages(plan, messages)
        require_inside(staged)
        with watch.step("complete"):
            write.complete(messages, self._executors(opened, plan.write_id, watch).complete)
        return staged

    def _prepare(self, opened: OpenTable, record: StagedRecord) -> WrittenFiles:
        """Do what a staged write needs of Spark before it is claimed: its predicate, and columns that it adds."""
        added = StructType.fromJson(json.loads(record.added_schema)).fields if record.added_schema else ()
        files = self._with_scope(record.files, opened)
        if added:  # a column that was added stays, so what would stop the publish is looked for first
            StagedWrites(opened).examine(replace(record, files=files), with_spark=True)
        return self._with_new_columns(files, added, opened)

    def _refresh(self, opened: OpenTable, session: SparkSession, write_id: str) -> tuple[str, ...]:
        """Let this session look again, and a streaming query's, which remembers by itself where tables were."""
        sessions = (self._spark,) if session is self._spark else (self._spark, session)
        return tuple(note for one in sessions for note in open_gateway(one).refresh(opened.table, write_id))

    @contextmanager
    def _forgetting(self, opened: OpenTable, planned: PlannedWrite) -> Iterator[None]:
        """After a conflict let the session forget what it remembers of a table that the query reads: it may be old."""
        try:
            yield
        except ConflictError:
            if planned.plan.reads:
                self._refresh(opened, planned.rows.sparkSession, planned.plan.write_id)
            raise

    def _copy_files(self, opened: OpenTable, write_id: str, watch: Stopwatch) -> CopyFiles:
        return partial(self._executors(opened, write_id, watch).copy, few=Completer.of(opened).copy)

    def _with_scope(self, staged: WrittenFiles, opened: OpenTable) -> WrittenFiles:
        """Let Spark evaluate the predicate of a staged write again, for partitions that have appeared since."""
        plan = staged.plan
        if not isinstance(plan.scope, RecordedScope):
            return staged
        scope = Where(self._spark, plan.where, partition_schema(opened.table), str(plan.table.name))
        return replace(staged, plan=replace(plan, scope=scope))

    def _with_new_columns(self, staged: WrittenFiles, added: Sequence[StructField], opened: OpenTable) -> WrittenFiles:
        """Add the columns that the table does not have, just before the first row of them can be read."""
        if not added:
            return staged
        before = staged.plan.table
        table = add_columns(self._spark, opened.metastore, before, added)
        same = (table.created_at_seconds, table.root, table.partition_columns) == (
            before.created_at_seconds,
            before.root,
            before.partition_columns,
        )
        if not same or not set(before.columns) <= set(table.columns):
            raise ConflictError(
                f"{table.name} was altered, or dropped and made again, while it was being written; nothing was"
                " published. Run it again.",
                table=str(table.name),
                write_id=staged.plan.write_id,
            )
        return replace(staged, plan=replace(staged.plan, table=table))

    def _executors(self, opened: OpenTable, write_id: str, watch: Stopwatch) -> Executors:
        return Executors(open_gateway(self._spark), opened.store_settings, write_id, watch.add_requests)


@contextmanager
def _explained(planned: PlannedWrite) -> Iterator[None]:
    """Turn the failure of a task on a value that the table does not take into an error that counts such rows."""
    try:
        yield
    except SPARK_ERRORS as error:
        explanation = violation(error, planned.fitted.given, planned.fitted.limits, str(planned.plan.table.name))
        if explanation is None:
            raise
        explanation.write_id = planned.plan.write_id
        raise explanation from error


def _published_before(entry: LogEntry) -> InvalidInputError:
    return InvalidInputError(
        f"idempotency key {entry.idempotency_key!r} was published by write {entry.write_id}, as version"
        f" {entry.version}: there is nothing to stage",
        table=entry.table,
    )


def _nothing_to_stage(plan: WritePlan) -> InvalidInputError:
    return InvalidInputError(
        f"the DataFrame has no rows, so publishing it would change no partition of {plan.table.name}: nothing was"
        " staged. overwrite_table, and overwrite_partitions with where, can be staged with if_empty='replace'.",
        table=str(plan.table.name),
        write_id=plan.write_id,
    )


def _recorded(staged: WrittenFiles, opened: OpenTable) -> WrittenFiles:
    """Write down which partitions the predicate selects: who publishes may have no Spark."""
    plan = staged.plan
    if not plan.where:
        return staged
    known = frozenset(opened.metastore.get_partition_names(plan.table.name))
    known |= {one.values for one in staged.partitions}
    scope = RecordedScope(known, plan.scope(known), plan.where, str(plan.table.name), plan.write_id)
    return replace(staged, plan=replace(plan, scope=scope))
