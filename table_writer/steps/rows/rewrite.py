"""One attempt to change rows: a snapshot, what the change makes of it, the files that stay, and the result."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property

from pyspark.sql import SparkSession

from table_writer.config import RowOptions
from table_writer.errors import ConflictError, InvalidInputError, counted, few
from table_writer.model.entry import Key
from table_writer.model.table import PartitionValues
from table_writer.model.write import WrittenFiles
from table_writer.model.write_mode import WriteMode
from table_writer.progress import Stopwatch
from table_writer.reports.rows_result import RowsResult
from table_writer.reports.write_result import WriteResult
from table_writer.steps.plan.planner import PlannedWrite, Planner
from table_writer.steps.publish.append import CopyFiles
from table_writer.steps.rows.change import ChangedRows, RowChange
from table_writer.steps.rows.hits import DIFFERS
from table_writer.steps.rows.kept import KeptFiles
from table_writer.steps.rows.snapshot import Snapshot
from table_writer.storage.object_store import SourceChangedError
from table_writer.table.open_table import OpenTable


@dataclass
class Rewrite:
    """One attempt of one call."""

    spark: SparkSession
    opened: OpenTable
    change: RowChange
    options: RowOptions
    _kept: KeptFiles = field(default_factory=KeptFiles, init=False)

    @cached_property
    def snapshot(self) -> Snapshot:
        """The table as it is read."""
        return Snapshot(self.spark, self.opened, self.options.where, self.change.selects_by)

    @cached_property
    def changed(self) -> ChangedRows:
        """What the change makes of the snapshot."""
        return self.change.of(self.snapshot)

    def plan(self) -> PlannedWrite | None:
        """Do step 1, based on the snapshot's version; ``None`` if there is nothing to change.

        Raises ``RepeatedError`` if the idempotency key was published before.
        """
        version = self.snapshot.version  # known before the log is read again, which has no older one then
        seen = self.opened.require_new_key(Key(self.options.idempotency_key))
        if not self.changed.may_write:
            return None
        is_partitioned = bool(self.opened.table.partition_columns)
        mode = WriteMode.OVERWRITE_PARTITIONS if is_partitioned else WriteMode.OVERWRITE_TABLE
        options = self.options.of_write(based_on=version)
        if options.distribution == "auto" and self.changed.is_by_key:
            options = replace(options, distribution="rebalance")
        planned = Planner(self.opened).plan(self.changed.rows, mode, options, seen)
        reads = (*planned.plan.reads, *self.changed.reads)
        plan = replace(planned.plan, watched=self.changed.watched, reads=reads)
        if is_partitioned:  # what the rows have no partition of is dropped
            plan = replace(plan, scope=frozenset(self.changed.replaced).intersection)
        return replace(planned, plan=plan)

    def with_kept_files(self, files: WrittenFiles, copy_files: CopyFiles) -> WrittenFiles:
        """Let the store copy the files that stay beside those that were written, and return all of them.

        Raises ``ConflictError`` if one was replaced meanwhile, and ``InvalidInputError`` if what was written is not
        what the change has counted.
        """
        plan = files.plan
        written = {plan.spelled(partition.values) for partition in files.partitions}
        touched = written | self.changed.replaced.keys()
        self._require_inside(files, written)
        counts = self.changed.inserted is not None
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
        return self._kept.beside(replace(files, plan=replace(plan, reads=reads)))

    def changes_anything(self, files: WrittenFiles) -> bool:
        """Return whether readers will see other rows; of those that may be new the files tell."""
        return bool(self.changed.replaced) or any(partition.rows for partition in files.partitions)

    def result(self, written: WriteResult) -> RowsResult:
        """Return the result of the write with what became of rows, and which files were written or copied."""
        held = self.snapshot.files_of(self.changed.replaced)
        replaced = [held[values][name] for values, names in self.changed.replaced.items() for name in names]
        partitions = tuple(map(self._kept.result_of, written.partitions))
        return self._counted(
            replace(
                self.of_write(written),
                partitions=partitions,
                replaced_files=len(replaced),
                replaced_bytes=sum(file.size_bytes for file in replaced),
            )
        )

    def of_write(self, written: WriteResult) -> RowsResult:
        """Return the result of a write under the name of this call; of rows nothing is known."""
        facts = {item.name: getattr(written, item.name) for item in fields(WriteResult)}
        return RowsResult(**facts | {"mode": self.change.name})

    def nothing(self, watch: Stopwatch) -> RowsResult:
        """Return the result of a call that found nothing to change."""
        nothing = RowsResult(
            table=str(self.opened.table.name),
            mode=self.change.name,
            write_id="",
            version=None,
            seconds=watch.seconds,
            storage_requests=watch.storage_requests(),
            metastore_calls=watch.metastore_calls(),
        )
        return self._counted(nothing)

    def _counted(self, result: RowsResult) -> RowsResult:
        changed = self.changed
        if changed.inserted is None:
            return result
        return replace(result, inserted=changed.inserted, updated=changed.updated, deleted=changed.deleted)

    def _require_counted(self, files: WrittenFiles) -> None:
        """Refuse files that do not hold as many rows as the change has counted."""
        changed, present = self.changed, self._kept.replaced_rows
        if changed.inserted is not None and files.row_count != present - changed.deleted + changed.inserted:
            raise InvalidInputError(
                f"{self.change.name} has found {counted(present, 'row')} in the files that it replaces,"
                f" {changed.deleted:,} to delete and {changed.inserted:,} to insert, and then"
                f" {counted(files.row_count, 'row')} came: {DIFFERS}",
                **files.plan.named,
            )

    def _require_inside(self, files: WrittenFiles, written: set[PartitionValues]) -> None:
        """Refuse rows of partitions in which nobody has looked for their keys."""
        allowed = self.changed.inside
        outside = written - allowed(written) if allowed else ()
        if outside:
            names = few(self.opened.partition_names(outside), most=3)
            raise InvalidInputError(
                f"{self.change.name} would insert rows into {counted(len(outside), 'partition')} of"
                f" {self.opened.table.name} that where={self.options.where!r} does not select: {names}. Nothing was"
                " published. Filter them out, or widen the predicate.",
                **files.plan.named,
            )
