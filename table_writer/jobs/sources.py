"""Where the rows of a write come from, and what its call returns: a DataFrame, a compaction, a change of rows.

``run.py`` has the order of a write once, with one of two ends: it is published, or staged. A source says what differs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession

from table_writer.check import Check
from table_writer.check.run import require_valid
from table_writer.config import CompactOptions, RowOptions, WriteOptions
from table_writer.errors import InvalidInputError
from table_writer.jobs.announcing import Announcement
from table_writer.jobs.calls import Call
from table_writer.jobs.compaction import Compaction
from table_writer.jobs.complete import Completer
from table_writer.jobs.plan.planner import PlannedWrite, Planner, require_batch
from table_writer.jobs.plan.table_planner import refuse_immutable, require_mode
from table_writer.jobs.results import nothing_written
from table_writer.jobs.rows.change import RowCall
from table_writer.jobs.rows.rewrite import Rewrite
from table_writer.jobs.rows.turns import Turn
from table_writer.jobs.running_write import MadeTable, RunningWrite, readers_unharmed
from table_writer.jobs.session_services import SessionServices, staged_frame
from table_writer.model.entry import Key
from table_writer.model.table import Column, PartitionValues
from table_writer.model.write import WrittenFiles
from table_writer.model.write_mode import WriteMode
from table_writer.progress import Stopwatch
from table_writer.protocol.operations.append import CopyFiles
from table_writer.protocol.operations.publisher import PublishResult
from table_writer.protocol.table.open_table import OpenTable
from table_writer.reports.rows_result import RowsResult
from table_writer.reports.write_result import CompactReport, WriteResult
from table_writer.spark import open_gateway
from table_writer.spark.create_table import create_table
from table_writer.spark.executors import Executors

Answer_co = TypeVar("Answer_co", covariant=True)


@dataclass(frozen=True, kw_only=True)
class Calling:
    """One call on one table: the session and the services that it has, and what is told of it."""

    spark: SparkSession
    services: SessionServices
    announcement: Announcement
    table: str

    @property
    def watch(self) -> Stopwatch:
        """The call's stopwatch, which counts its requests too."""
        return self.announcement.watch

    def follow(self, opened: OpenTable, options: WriteOptions | RowOptions) -> None:
        """Tell of the table that was opened, and of what the call is known by."""
        self.announcement.follow(opened, tags=options.tags, idempotency_key=options.idempotency_key)


class FrameSource:
    """The rows of a DataFrame."""

    def __init__(self, calling: Calling, df: DataFrame, call: Call, made: MadeTable) -> None:
        self._calling = calling
        self._df = df
        self._call = call
        self._made = made
        self.checks = call.checks
        self.columns: Sequence[Column] = ()
        """Of the table that was written, with those that the call has added; empty where nothing was published."""
        self._planned: PlannedWrite

    def plan(self) -> tuple[OpenTable, PlannedWrite]:
        call = self._call
        with readers_unharmed(self._calling.table):
            opened = self._open_or_make()
            self._calling.follow(opened, call.options)
            refuse_immutable(opened.table, call.mode)
            state = opened.require_new_key(Key(call.options.idempotency_key, call.stream), call.query_ids)
            planned = Planner(opened).plan(self._df, call.mode, call.options, state, stream=call.stream)
            name = str(opened.table.name)
            require_valid(call.checks, self._calling.spark, planned.fitted.schema, name, opened.table.partition_columns)
            self._calling.announcement.concerns(opened, write_id=planned.plan.write_id)
        self._planned = planned
        return opened, planned

    def _open_or_make(self) -> OpenTable:
        """Open the table; make it first if it does not exist and the call describes it."""
        name, new_table = self._calling.services.table_name(self._calling.table), self._call.options.if_missing
        if new_table is not None and self._calling.services.metastore.get_table(name) is None:
            require_batch(self._df, name)
            require_mode(self._call.mode, self._call.options, name, partitioned=bool(new_table.partition_by))
            self._calling.services.require_new(name, new_table)
            with self._made.making(name):
                create_table(self._calling.spark, self._df, name, new_table, if_not_exists=True)
        return self._calling.services.open_to_write(self._calling.table)

    def examined(self, files: WrittenFiles, _: object) -> WrittenFiles | None:
        return files if files.row_count or self._call.options.if_empty == "replace" else None

    def nothing(self) -> WriteResult:
        return nothing_written(self._planned.plan, self._call.options.if_empty, self._calling.watch, self._made.notes)

    def nothing_to_stage(self) -> InvalidInputError:
        plan = self._planned.plan
        return InvalidInputError(
            f"the DataFrame has no rows, so publishing it would change no partition of {plan.table.name}: nothing was"
            " staged. overwrite_table, and overwrite_partitions with where, can be staged with if_empty='replace'.",
            table=str(plan.table.name),
            write_id=plan.write_id,
        )

    def published(self, result: WriteResult, files: WrittenFiles, *_: object) -> WriteResult:
        self.columns = files.plan.columns
        return result


class CompactionSource:
    """The rows of small files of the table itself."""

    checks: Sequence[Check] = ()

    def __init__(self, calling: Calling, options: CompactOptions, *, dry_run: bool) -> None:
        self._calling = calling
        self._options = options
        self._dry_run = dry_run
        self._given_up: Collection[PartitionValues] = ()
        self._opened: OpenTable
        self._compaction: Compaction

    def plan(self) -> tuple[OpenTable, PlannedWrite] | None:
        opened = self._opened = self._calling.services.open_to_write(self._calling.table)
        self._calling.announcement.follow(opened, tags=self._options.tags)
        opened.require_owner()
        compaction = self._compaction = Compaction(self._calling.spark, opened, self._options)
        if self._dry_run or not compaction.selection:
            return None
        df, layout = compaction.rows()
        planned = Planner(opened).plan(df, WriteMode.APPEND, layout)
        plan = replace(planned.plan, compacted=compaction.replaced_files, max_copied_bytes=None)
        self._calling.announcement.concerns(opened, write_id=plan.write_id)
        return opened, replace(planned, plan=plan, rows=compaction.with_fingerprint(planned.rows), few=None)

    def examined(self, files: WrittenFiles, write: RunningWrite) -> WrittenFiles | None:
        """Compare the rows with those that were read: ``CheckFailedError`` if they are others."""
        with self._calling.watch.step("check"):
            self._compaction.require_same(staged_frame(self._calling.spark, self._opened, files), files)
        if not files.partitions:
            write.discard()
            return None
        self._given_up = self._compaction.replaced_files  # if nothing is published from here on
        return files

    def nothing(self) -> CompactReport:
        return replace(self._compaction.report(self._calling.watch, given_up=self._given_up), dry_run=self._dry_run)

    def published(self, result: WriteResult, files: WrittenFiles, published: PublishResult) -> CompactReport:  # noqa: ARG002
        return self._compaction.report(self._calling.watch, result, published.given_up)


class ChangeSource:
    """Rows of the table itself with a change, as they were after one version."""

    def __init__(self, calling: Calling, call: RowCall, turn: Turn, *, staged: bool) -> None:
        self._calling = calling
        self._call = call
        self._turn = turn
        self._is_staged = staged  # who publishes it is told the counts, so they are counted first
        self.checks = call.checks
        self._rewrite: Rewrite

    def plan(self) -> tuple[OpenTable, PlannedWrite] | None:
        call = self._call
        with readers_unharmed(self._calling.table):
            opened = self._calling.services.open_to_write(self._calling.table)
            if self._turn.begin(opened):
                opened = self._calling.services.open_to_write(self._calling.table)
            self._calling.follow(opened, call.options)
            rewrite = self._rewrite = Rewrite(self._calling.spark, opened, call, self._is_staged)
            planned = rewrite.plan()
        if planned is None:
            return None
        self._calling.announcement.concerns(opened, write_id=planned.plan.write_id)
        if self._is_staged:
            planned = planned.with_plan(notes=(*planned.plan.notes, *rewrite.notes()))
        return opened, planned

    def examined(self, files: WrittenFiles, write: RunningWrite) -> WrittenFiles | None:
        """Add the files that stay; nothing is left of the write if readers would see no other rows."""
        rewrite = self._rewrite
        with self._calling.watch.step("complete"):
            copying = copy_files(self._calling.spark, rewrite.opened, files.plan.write_id, self._calling.watch)
            files = rewrite.with_kept_files(files, copying)
        if rewrite.changes_anything(files):
            return replace(files, words=rewrite.words)
        write.discard()
        return None

    def nothing(self) -> RowsResult:
        return self._rewrite.nothing(self._calling.watch)

    def nothing_to_stage(self) -> InvalidInputError:
        return self._rewrite.nothing_to_stage()

    def published(self, result: WriteResult, *_: object) -> RowsResult:
        return self._rewrite.result(result)


def executors_of(spark: SparkSession, opened: OpenTable, write_id: str, watch: Stopwatch) -> Executors:
    """Return what lets executors complete and copy files of one write."""
    return Executors(open_gateway(spark), opened.store_settings, write_id, watch.add_requests)


def copy_files(spark: SparkSession, opened: OpenTable, write_id: str, watch: Stopwatch) -> CopyFiles:
    """Return what copies files: executors where there are many."""
    return partial(executors_of(spark, opened, write_id, watch).copy, few=Completer.of(opened).copy)
