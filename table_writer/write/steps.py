"""The order of steps 1 to 5: the only file that knows it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import timedelta

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from table_writer.check import Check
from table_writer.check.run import as_checks, require_passed, require_valid, run_checks
from table_writer.config import WriteOptions
from table_writer.display.listeners import showing
from table_writer.display.write_result import WriteResult
from table_writer.errors import ConflictError, InvalidInputError
from table_writer.model.check_result import CheckResult
from table_writer.model.staged_write import RecordedScope, StagedRecord
from table_writer.model.write import StagedFiles, WriteMode, WritePlan
from table_writer.plan.evolve import add_columns
from table_writer.plan.limits import violation
from table_writer.plan.planner import Planned, require_batch, require_mode
from table_writer.plan.types import partition_schema
from table_writer.plan.where import Where, require_inside
from table_writer.progress import Stopwatch
from table_writer.publish.publisher import Published, RepeatedError
from table_writer.spark.create_table import create_table
from table_writer.spark.executors import ExecutorCompletions, ExecutorCopies, Executors
from table_writer.spark.session import refresh_session
from table_writer.upload.job import Uploader
from table_writer.upload.spark_engine import SparkEngine, refusing
from table_writer.write.results import mark_success, nothing_written, repeated_result, write_result
from table_writer.write.running_write import OpenWrite
from table_writer.write.services import TableServices
from table_writer.write.session_services import SessionServices, audit_of
from table_writer.write.staged_writes import StagedWrites

__all__ = ["Steps"]


class Steps:
    """Carries write calls out.

    Parameters
    ----------
    spark, services
        The session that writes, and what it has opened.
    """

    def __init__(self, spark: SparkSession, services: SessionServices) -> None:
        self._spark = spark
        self._services = services
        self._uploader = Uploader()
        self._spark_engine = SparkEngine(spark, services.services.session)

    def write(
        self, df: DataFrame, table: str, mode: WriteMode, options: WriteOptions, *, is_batch: bool = False
    ) -> WriteResult:
        """Do steps 1 to 5; ``is_batch`` says that idempotency keys come in order."""
        with self.watched(table, mode.value):
            return self._write(df, table, mode, options, is_batch=is_batch)

    def _write(
        self, df: DataFrame, table: str, mode: WriteMode, options: WriteOptions, *, is_batch: bool
    ) -> WriteResult:
        """Readers switch in the last line of the inner ``with`` block, or never."""
        watch = Stopwatch(self._services.metastore)
        checks = as_checks(options.checks)
        with watch.step("plan"):
            services = self._open(df, table, mode, options, watch)
            earlier = services.published_with_key(options.idempotency_key, in_order=is_batch)
            if earlier is not None:
                return repeated_result(earlier, watch)
            planned = self._plan(df, mode, options, services, checks)
            earlier = services.published_with_key(options.idempotency_key, in_order=is_batch)
            if earlier is not None:  # meanwhile; what comes after the plan's base version is seen before the claim
                return repeated_result(earlier, watch)
        try:
            with OpenWrite(services, planned.plan) as write:
                staged = self._complete(planned, services, write, watch)
                if staged.row_count == 0 and options.if_empty != "replace":
                    return nothing_written(planned.plan, options.if_empty, watch)
                results = self.check(staged, services, checks, watch)
                with watch.step("publish"):
                    staged = self._with_new_columns(staged.with_checks(results), planned.fitted.added, services)
                    executors = self._executors(services, staged.plan.write_id, watch)
                    copy_files = ExecutorCopies(executors, services.completer().copy)
                    published = services.publisher(copy_files).publish(staged, write.claiming)
        except RepeatedError as repeated:
            return repeated_result(repeated.entry, watch)
        notes = (
            *planned.plan.notes,
            *self.after_publish(staged, services, published),
            *self._refresh_stream(df, services, planned.plan.write_id),
        )
        return replace(write_result(staged, published, notes, watch), checks=results)

    def stage(
        self, df: DataFrame, table: str, mode: WriteMode, options: WriteOptions, *, expires_in: timedelta
    ) -> tuple[TableServices, StagedRecord]:
        """Do steps 1 to 4, and hand the files over to whoever publishes or discards them.

        Raises
        ------
        InvalidInputError
            Also when the DataFrame has no rows, or the idempotency key was published before: there is nothing to stage.
        """
        with self.watched(table, mode.value):
            return self._stage(df, table, mode, options, expires_in)

    def _stage(
        self, df: DataFrame, table: str, mode: WriteMode, options: WriteOptions, expires_in: timedelta
    ) -> tuple[TableServices, StagedRecord]:
        watch = Stopwatch(self._services.metastore)
        checks = as_checks(options.checks)
        with watch.step("plan"):
            services = self._open(df, table, mode, options, watch)
            planned = self._plan(df, mode, options, services, checks)
            earlier = services.published_with_key(options.idempotency_key)
            if earlier is not None:
                raise InvalidInputError(
                    f"idempotency key {options.idempotency_key!r} was published by write {earlier.write_id}, as version"
                    f" {earlier.version}: there is nothing to stage",
                    table=str(services.table.name),
                )
        with OpenWrite(services, planned.plan) as write:
            staged = self._complete(planned, services, write, watch)
            if staged.row_count == 0 and options.if_empty != "replace":
                raise _nothing_to_stage(planned.plan)
            results = self.check(staged, services, checks, watch)
            record = StagedRecord(
                files=_recorded(staged.with_checks(results), services),
                expires_after_seconds=expires_in.total_seconds(),
                added_schema=StructType(list(planned.fitted.added)).json() if planned.fitted.added else "",
                writer=services.identity,
            )
            write.stage(record)
        return services, record

    def check(
        self, staged: StagedFiles, services: TableServices, checks: Sequence[Check], watch: Stopwatch
    ) -> tuple[CheckResult, ...]:
        """Step 4: judge exactly the files that would be published.

        Raises
        ------
        CheckFailedError
            A check of severity ``"error"`` failed.
        """
        if not checks:
            return ()
        with watch.step("check"):
            audit = audit_of(self._spark, services, self._with_scope(staged, services))
            require_valid(checks, self._spark, audit.schema, audit.table, audit.partition_columns)
            results = run_checks(checks, audit)
        require_passed(results, audit.table, audit.write_id)
        return results

    def publish(self, record: StagedRecord, services: TableServices) -> WriteResult:
        """Step 5 for a staged write, as it is stored now."""
        with self.watched(str(record.plan.table.name), record.plan.mode.value, record.plan.write_id):
            return self._publish(record, services)

    def watched(self, table: str, mode: str, write_id: str = "") -> AbstractContextManager[None]:
        """Show how far a call is, where it takes longer than a second."""
        spark_draws = self._spark.sparkContext.getConf().get("spark.ui.showConsoleProgress") == "true"
        choice = self._services.services.config.progress
        return showing(choice, table=table, mode=mode, write_id=write_id, spark_draws=spark_draws)

    def _publish(self, record: StagedRecord, services: TableServices) -> WriteResult:
        watch = Stopwatch(self._services.metastore)
        watch.follow(services.store)
        added = StructType.fromJson(json.loads(record.added_schema)).fields if record.added_schema else ()
        staged_writes = StagedWrites(services)
        prepared: list[StagedFiles] = []

        def prepare(files: StagedFiles) -> StagedFiles:
            if added:  # a column that was added stays, so what would stop the publish is looked for first
                staged_writes.examine(replace(record, files=self._with_scope(files, services)), with_spark=True)
            prepared.append(self._with_new_columns(self._with_scope(files, services), added, services))
            return prepared[0]

        try:
            with watch.step("publish"):
                record = staged_writes.find_unpublished(record.plan.write_id).record
                executors = self._executors(services, record.plan.write_id, watch)
                copy_files = ExecutorCopies(executors, services.completer().copy)
                published = staged_writes.publish(record, prepare=prepare, copy_files=copy_files)
        except RepeatedError as repeated:
            return repeated_result(repeated.entry, watch, write_id=record.plan.write_id)
        notes = (*record.plan.notes, *self.after_publish(prepared[0], services, published))
        return replace(write_result(prepared[0], published, notes, watch), checks=record.files.checks)

    def after_publish(self, staged: StagedFiles, services: TableServices, published: Published) -> tuple[str, ...]:
        """Tell other tools and this session; what could not be done is for a person to know."""
        marked = mark_success(services, staged, published)
        return (*published.notes, *marked, *refresh_session(self._spark, services.table, staged.plan.write_id))

    def _refresh_stream(self, df: DataFrame, services: TableServices, write_id: str) -> tuple[str, ...]:
        """A streaming query runs in a session of its own, which remembers where tables were."""
        session = df.sparkSession
        return () if session is self._spark else refresh_session(session, services.table, write_id)

    def _open(
        self, df: DataFrame, table: str, mode: WriteMode, options: WriteOptions, watch: Stopwatch
    ) -> TableServices:
        """Open the table; make it first where the call says what it shall be like."""
        name, new = self._services.table_name(table), options.if_missing
        if new is not None and self._services.metastore.get_table(name) is None:
            require_batch(df, name)
            require_mode(mode, options, name, partitioned=bool(new.partition_by))
            create_table(self._spark, df, name, new, if_not_exists=True)
        services = self._services.open_table(table)
        watch.follow(services.store)
        return services

    def _plan(
        self, df: DataFrame, mode: WriteMode, options: WriteOptions, services: TableServices, checks: Sequence[Check]
    ) -> Planned:
        planned = self._services.planner(services).plan(df, mode, options)
        table = services.table
        require_valid(checks, self._spark, planned.fitted.schema, str(table.name), table.partition_columns)
        return planned

    def _complete(self, planned: Planned, services: TableServices, write: OpenWrite, watch: Stopwatch) -> StagedFiles:
        """Steps 2 and 3: files of all rows, that no table points at."""
        plan = planned.plan
        if planned.spec is None:
            with watch.step("upload"), _explained(planned):
                rows = refusing(planned.rows, planned.existing, partition_schema(services.table))
                staged = self._spark_engine.write(rows, planned.fitted.schema, plan, services.store)
            require_inside(staged)
            return staged
        with watch.step("upload"), _explained(planned):
            messages = self._uploader.upload(planned.rows, planned.spec)
        for message in messages:
            watch.add_requests(dict(message.requests))
        staged = StagedFiles.from_messages(plan, messages)
        require_inside(staged)
        with watch.step("complete"):
            write.complete(messages, ExecutorCompletions(self._executors(services, plan.write_id, watch)))
        return staged

    def _with_scope(self, staged: StagedFiles, services: TableServices) -> StagedFiles:
        """Let Spark evaluate the predicate of a staged write again, for partitions that have appeared since."""
        plan = staged.plan
        if not isinstance(plan.scope, RecordedScope):
            return staged
        scope = Where(self._spark, plan.where, partition_schema(services.table), str(plan.table.name))
        return replace(staged, plan=replace(plan, scope=scope))

    def _with_new_columns(
        self, staged: StagedFiles, added: Sequence[StructField], services: TableServices
    ) -> StagedFiles:
        """Add the columns that the table does not have, just before the first row of them can be read."""
        if not added:
            return staged
        before = staged.plan.table
        table = add_columns(self._spark, services.metastore, before, added)
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

    def _executors(self, services: TableServices, write_id: str, watch: Stopwatch) -> Executors:
        return Executors(self._spark.sparkContext, services.store_settings, write_id, watch.add_requests)


@contextmanager
def _explained(planned: Planned) -> Iterator[None]:
    """Turn the failure of a task on a value that the table does not take into an error that counts such rows."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        explanation = violation(error, planned.df, planned.fitted.limits, str(planned.plan.table.name))
        if explanation is None:
            raise
        explanation.write_id = planned.plan.write_id
        raise explanation from error


def _nothing_to_stage(plan: WritePlan) -> InvalidInputError:
    return InvalidInputError(
        f"the DataFrame has no rows, so publishing it would change no partition of {plan.table.name}: nothing was"
        " staged. overwrite_table, and overwrite_partitions with where, can be staged with if_empty='replace'.",
        table=str(plan.table.name),
        write_id=plan.write_id,
    )


def _recorded(staged: StagedFiles, services: TableServices) -> StagedFiles:
    """Write down which partitions the predicate selects: who publishes may have no Spark."""
    plan = staged.plan
    if not plan.where:
        return staged
    known = frozenset(services.metastore.get_partition_names(plan.table.name))
    known |= {one.values for one in staged.partitions}
    scope = RecordedScope(known, plan.scope(known), plan.where, str(plan.table.name), plan.write_id)
    return replace(staged, plan=replace(plan, scope=scope))
