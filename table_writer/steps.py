"""The order of steps 1 to 5: the only file that knows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from table_writer.create_table import create_table
from table_writer.display.write_result import WriteResult
from table_writer.errors import ConflictError, StorageError
from table_writer.model.write import StagedFiles, WriteMode
from table_writer.open_write import OpenWrite
from table_writer.options import WriteOptions
from table_writer.plan.evolve import add_columns
from table_writer.plan.limits import violation
from table_writer.plan.planner import Planned, require_batch, require_mode
from table_writer.plan.where import require_inside
from table_writer.publish.publisher import Published, RepeatedKeyError
from table_writer.publish.success import success_json
from table_writer.refresh import refresh_session
from table_writer.results import nothing_written, repeated_result, write_result
from table_writer.services import TableServices
from table_writer.spark_services import SessionServices
from table_writer.stopwatch import Stopwatch
from table_writer.upload.completing import ExecutorCompletions
from table_writer.upload.copying import ExecutorCopies
from table_writer.upload.job import Uploader
from table_writer.upload.on_executors import Executors
from table_writer.upload.spark_engine import SparkEngine

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
        self._spark_engine = SparkEngine(spark)

    def write(
        self, df: DataFrame, table: str, mode: WriteMode, options: WriteOptions, *, is_batch: bool = False
    ) -> WriteResult:
        """Do steps 1 to 5: readers switch in the last line of the ``with`` block, or never.

        ``is_batch`` says that idempotency keys come in order.
        """
        watch = Stopwatch(self._services.metastore)
        with watch.step("plan"):
            services = self._open(df, table, mode, options)
            watch.follow(services.store)
            earlier = services.published_with_key(options.idempotency_key, in_order=is_batch)
            if earlier is not None:
                return repeated_result(earlier, watch)
            planned = self._services.planner(services).plan(df, mode, options)
            earlier = services.published_with_key(options.idempotency_key, in_order=is_batch)
            if earlier is not None:  # meanwhile; what comes after the plan's base version is seen before the claim
                return repeated_result(earlier, watch)
        try:
            with OpenWrite(services, planned.plan) as write:
                staged = self._stage(planned, services, write, watch)
                if staged.row_count == 0 and options.if_empty != "replace":
                    return nothing_written(planned.plan, options.if_empty, watch)
                with watch.step("publish"):
                    staged = self._with_new_columns(staged, planned, services)
                    executors = self._executors(services, planned.plan.write_id, watch)
                    copy_files = ExecutorCopies(executors, services.completer().copy)
                    published = services.publisher(copy_files).publish(staged, write.claiming)
        except RepeatedKeyError as repeated:
            return repeated_result(repeated.entry, watch)
        notes = (
            *planned.plan.notes,
            *published.notes,
            *_marked(services, staged, published),
            *refresh_session(self._spark, services.table, planned.plan.write_id),
            *self._refresh_stream(df, services, planned.plan.write_id),
        )
        return write_result(staged, published, notes, watch)

    def _refresh_stream(self, df: DataFrame, services: TableServices, write_id: str) -> tuple[str, ...]:
        """A streaming query runs in a session of its own, which remembers where tables were."""
        session = df.sparkSession
        return () if session is self._spark else refresh_session(session, services.table, write_id)

    def _open(self, df: DataFrame, table: str, mode: WriteMode, options: WriteOptions) -> TableServices:
        """Open the table; make it first where the call says what it shall be like."""
        name, new = self._services.table_name(table), options.if_missing
        if new is not None and self._services.metastore.get_table(name) is None:
            require_batch(df, name)
            require_mode(mode, options, name, partitioned=bool(new.partition_by))
            create_table(self._spark, df, name, new, if_not_exists=True)
        return self._services.open_table(table, engine=options.engine)

    def _stage(self, planned: Planned, services: TableServices, write: OpenWrite, watch: Stopwatch) -> StagedFiles:
        """Steps 2 and 3: files of all rows, that no table points at."""
        plan = planned.plan
        if planned.spec is None:
            with watch.step("upload"), _explained(planned):
                staged = self._spark_engine.write(planned.rows, planned.fitted.schema, plan, services.store)
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

    def _with_new_columns(self, staged: StagedFiles, planned: Planned, services: TableServices) -> StagedFiles:
        """Add the columns that the table does not have, just before the first row of them can be read."""
        if not planned.fitted.added:
            return staged
        before = planned.plan.table
        table = add_columns(self._spark, services.metastore, before, planned.fitted.added)
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
                write_id=planned.plan.write_id,
            )
        return replace(staged, plan=replace(planned.plan, table=table))

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


def _marked(services: TableServices, staged: StagedFiles, published: Published) -> tuple[str, ...]:
    """Write ``_SUCCESS`` where it is wanted. A failure is a note in the result, for readers have switched already."""
    if not services.marks_success():
        return ()
    names = (key for partition in staged.partitions for key in partition.keys)
    try:
        services.store.put(services.layout.success_key, success_json(published.entry, names, services.layout.root))
    except StorageError as error:
        return (f"_SUCCESS was not written: {error.message}",)
    return ()
