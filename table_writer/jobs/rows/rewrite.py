"""One attempt to change rows: a snapshot, what the change makes of it, the files that stay, and the result."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from pyspark.sql import SparkSession

from table_writer.config import WriteOptions
from table_writer.errors import ConflictError, InvalidInputError, counted, few
from table_writer.jobs.plan.file_options import engine_of
from table_writer.jobs.plan.planner import PlannedWrite, Planner
from table_writer.jobs.rows.change import ChangedRows, RowCall, RowChange
from table_writer.jobs.rows.hits import DIFFERS
from table_writer.jobs.rows.kept import KeptFiles
from table_writer.jobs.rows.snapshot import Snapshot
from table_writer.model.contents import Contents
from table_writer.model.message import RowMark
from table_writer.model.staged_write import RecordedScope
from table_writer.model.table import PartitionValues
from table_writer.model.table_read import ReadVersion
from table_writer.model.words import Words
from table_writer.model.write import Scope, WrittenFiles, every_partition
from table_writer.model.write_mode import WriteMode
from table_writer.progress import Stopwatch
from table_writer.protocol.operations.append import CopyFiles
from table_writer.protocol.table.open_table import OpenTable
from table_writer.reports.rows_result import RowsResult
from table_writer.reports.write_result import WriteResult
from table_writer.storage.object_store import SourceChangedError

CHANGES: Final = (RowMark.INSERTED, RowMark.UPDATED, RowMark.DELETED)


@dataclass
class Rewrite:
    """One attempt of one call."""

    spark: SparkSession
    opened: OpenTable
    call: RowCall
    counts_first: bool = False  # what becomes of rows is to be known before they are written
    _marks: Mapping[RowMark, int] = field(default_factory=dict, init=False)
    _kept: KeptFiles = field(default_factory=KeptFiles, init=False)

    @property
    def change(self) -> RowChange:
        """What is to become of rows."""
        return self.call.change

    @cached_property
    def snapshot(self) -> Snapshot:
        """The table as it is read."""
        options = self.call.options
        return Snapshot(self.spark, self.opened, options.where, self.change.selects_by, counts_marks=self._counts_marks)

    @cached_property
    def _planner(self) -> Planner:
        return Planner(self.opened, of_rows=True)

    @property
    def _counts_marks(self) -> bool:
        """Whether rows may carry marks: Spark's own writer counts none."""
        if self.counts_first:
            return False
        options, settings = self.call.options.of_write(based_on=0), self._planner.file_settings(self.spark)
        return engine_of(self.opened.table, options, settings) == "arrow"

    @cached_property
    def changed(self) -> ChangedRows:
        """What the change makes of the snapshot."""
        return self.change.of(self.snapshot)

    @property
    def mode(self) -> WriteMode:
        """The mode of the write that carries the change out."""
        return WriteMode.OVERWRITE_PARTITIONS if self.opened.table.partition_columns else WriteMode.OVERWRITE_TABLE

    @property
    def scope(self) -> Scope:
        """The partitions that are dropped if no row is of them."""
        is_partitioned = bool(self.opened.table.partition_columns)
        return RecordedScope(frozenset(), frozenset(self.changed.replaced)) if is_partitioned else every_partition

    def write_options(self, based_on: ReadVersion) -> WriteOptions:
        """Return the options of the write, whose rows are based on the snapshot's version."""
        options = replace(self.call.options.of_write(based_on=based_on), schema=self.changed.schema)
        is_left_to_us = options.distribution == "auto" and self.changed.is_by_key
        return replace(options, distribution="rebalance") if is_left_to_us else options

    @property
    def counts(self) -> Mapping[str, Any]:
        """How many rows are inserted, updated and deleted; empty where nobody counts them."""
        inserted, changed, marks = self.changed.inserted, self.changed, self._marks
        if changed.mark:
            return {mark.name.lower(): marks.get(mark, 0) for mark in CHANGES}
        counts = {"inserted": inserted or 0, "updated": changed.updated, "deleted": changed.deleted}
        return {} if inserted is None else counts

    @property
    def words(self) -> Words:
        """What the log says of the call."""
        return Words(call=self.change.name, where=self.call.condition, **self.counts)

    @property
    def facts(self) -> Mapping[str, Any]:
        """The counts, and the files whose rows are written anew, or are gone: what a result and a plan say."""
        held = self.snapshot.files_of(self.changed.replaced)
        replaced = Contents.of(held[values][name] for values, names in self.changed.replaced.items() for name in names)
        return {**self.counts, "replaced_files": replaced.files, "replaced_bytes": replaced.bytes}

    def plan(self) -> PlannedWrite | None:
        """Do step 1, based on the snapshot's version; ``None`` if there is nothing to change.

        Raises ``RepeatedError`` if the idempotency key was published before.
        """
        based_on = self.snapshot.version  # asked before the log is read again, which has no older one then
        seen = self.opened.require_new_key(self.call.key, self.call.query_ids)
        if not self.changed.may_write:
            return None
        planner = self._planner.marking(self.changed.mark)
        options = self.write_options(based_on)
        planned = planner.plan(self.changed.rows, self.mode, options, seen, stream=self.call.stream)
        reads = (*planned.plan.reads, *self.changed.reads)
        return planned.with_plan(watched=self.changed.watched, reads=reads, scope=self.scope)

    def with_kept_files(self, files: WrittenFiles, copy_files: CopyFiles) -> WrittenFiles:
        """Let the store copy the files that stay beside those that were written, and return all of them.

        Raises ``ConflictError`` if one was replaced meanwhile, and ``InvalidInputError`` if what was written is not
        what the change has counted.
        """
        plan = files.plan
        written = {plan.spelled(partition.values) for partition in files.partitions}
        touched = written | self.changed.replaced.keys()
        self.require_inside(written)
        counts = self.changed.inserted is not None
        self._marks = files.marks
        try:
            self._kept = KeptFiles.of(self.snapshot, self.changed.replaced, touched, counts=counts)
            self._require_counted(files)
            copy_files(self._kept.copies(files))
        except SourceChangedError as changed:
            raise ConflictError(
                f"write {plan.write_id} of {plan.table.name} could not read a file again whose rows it counts or keeps:"
                f" {changed.message} Nothing was published. Run it again.",
                **plan.named,
            ) from changed
        reads = (*plan.reads, self.snapshot.as_read(touched))
        return self._kept.beside(files.with_plan(reads=reads))

    def changes_anything(self, files: WrittenFiles) -> bool:
        """Return whether readers will see other rows; of those that may be new the files tell."""
        if self.changed.mark:
            return any(files.marks.get(mark) for mark in CHANGES)
        return bool(self.changed.replaced) or any(partition.rows for partition in files.partitions)

    def result(self, written: WriteResult) -> RowsResult:
        """Return the result of the write with what became of rows, and which files were written or copied."""
        return replace(
            self.call.result_of(written), partitions=tuple(map(self._kept.result_of, written.partitions)), **self.facts
        )

    def nothing_to_stage(self) -> InvalidInputError:
        """Return the error for a change that would change nothing."""
        name = str(self.opened.table.name)
        return InvalidInputError(f"{self.change.name} would change no row of {name}: nothing was staged", table=name)

    def notes(self) -> tuple[str, ...]:
        """Say what becomes of rows, for who publishes what is staged; nothing where nobody counts."""
        counts = ", ".join(f"{what} {count:,}" for what, count in self.counts.items())
        return (f"{self.change.name}: {counts} rows",) if counts else ()

    def nothing(self, watch: Stopwatch) -> RowsResult:
        """Return the result of a call that found nothing to change."""
        return RowsResult(
            table=str(self.opened.table.name),
            mode=self.change.name,
            write_id="",
            version=None,
            seconds=watch.seconds,
            storage_requests=watch.storage_requests(),
            metastore_calls=watch.metastore_calls(),
            **self.counts,
        )

    def _require_counted(self, files: WrittenFiles) -> None:
        """Refuse files that do not hold as many rows as the change has counted."""
        present, counts = self._kept.replaced_rows, self.counts
        if counts and files.row_count != present - counts["deleted"] + counts["inserted"]:
            raise InvalidInputError(
                f"{self.change.name} has found {counted(present, 'row')} in the files that it replaces,"
                f" {counts['deleted']:,} to delete and {counts['inserted']:,} to insert, and then"
                f" {counted(files.row_count, 'row')} came: {DIFFERS}",
                **files.plan.named,
            )

    def require_inside(self, written: Collection[PartitionValues]) -> None:
        """Refuse rows of partitions in which nobody has looked for their keys."""
        allowed = self.changed.inside
        outside = set(written) - allowed(written) if allowed else ()
        if outside:
            names = few(self.opened.partition_names(outside), most=3)
            raise InvalidInputError(
                f"{self.change.name} would insert rows into {counted(len(outside), 'partition')} of"
                f" {self.opened.table.name} that where={self.call.options.where!r} does not select: {names}. Nothing"
                " was published. Filter them out, or widen the predicate.",
                table=str(self.opened.table.name),
            )
