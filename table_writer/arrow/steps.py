"""Steps 1 to 4 for rows that come as Arrow batches; their order, and step 5, are those of every write."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from table_writer.arrow.fields import TableField, schema_json, table_fields
from table_writer.arrow.rows import FittedRows, reader_of
from table_writer.arrow.values import How
from table_writer.arrow.where import Filters
from table_writer.config import WriteOptions
from table_writer.errors import InvalidInputError, TableWriterError
from table_writer.jobs.announcing import Announcement, announced
from table_writer.jobs.order import Order
from table_writer.jobs.plan.file_options import engine_of, file_options, require_writable
from table_writer.jobs.plan.parquet_settings import FileSettings
from table_writer.jobs.plan.table_planner import TablePlanner, refuse_immutable, require_inside, require_mode
from table_writer.jobs.results import nothing_written, repeated_result
from table_writer.jobs.running_write import RunningWrite, readers_unharmed
from table_writer.jobs.upload.messages import check_messages
from table_writer.jobs.upload.task import upload_rows
from table_writer.model.entry import Key
from table_writer.model.partition_value import Spellings
from table_writer.model.staged_write import StagedRecord
from table_writer.model.table import PartitionValues, TableName
from table_writer.model.upload_spec import UploadSpec
from table_writer.model.write import Scope, WritePlan, WrittenFiles, every_partition, new_write_id, no_partition
from table_writer.model.write_mode import WriteMode
from table_writer.progress import Stopwatch, current
from table_writer.protocol.table.open_table import OpenTable, RepeatedError
from table_writer.protocol.table.services import Services
from table_writer.reports.checks import CheckResults
from table_writer.reports.listeners import show_progress
from table_writer.reports.staged_report import event_facts_of_staged
from table_writer.reports.write_result import WriteResult

if TYPE_CHECKING:
    from table_writer.check import Check

SPARK_WHOSE_FILES: Final = "4.0.0"  # where PySpark is not installed
UNZONED: Final = "UTC"  # in which texts of partitions are compared where nobody says a zone


@dataclass(frozen=True, kw_only=True, slots=True)
class ArrowCall:
    """What a caller has said of a write."""

    rows: object
    table: str
    mode: WriteMode
    options: WriteOptions  # whose ``where`` is the filters in SQL
    where: Any = None  # the filters, in groups
    time_zone: str = ""
    checks: tuple[Check, ...] = ()

    @property
    def how(self) -> How:
        """What is said of values."""
        return How(self.time_zone, fills=self.options.schema == "allow_missing")


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedArrow:
    """A plan, and the rows and all else that the upload needs for it."""

    plan: WritePlan
    rows: FittedRows
    spec: UploadSpec
    added_schema: str = ""  # no column is added without Spark, which keeps a schema of its own


class ArrowPlanner(TablePlanner):
    """Plans writes of Arrow batches to one table that was found writable."""

    def __init__(self, opened: OpenTable, call: ArrowCall) -> None:
        super().__init__(opened)
        self._call = call
        self.fields: Sequence[TableField] = table_fields(opened.table)
        self.settings = FileSettings(opened.table, {}, opened.config.hadoop)
        require_mode(call.mode, call.options, opened.table.name, partitioned=bool(opened.table.partition_columns))
        engine_of(opened.table, WriteOptions(engine="arrow"), self.settings)

    def fitted(self) -> FittedRows:
        """Return the rows in the table's shape; none is read yet."""
        return FittedRows(reader_of(self._call.rows), self.fields, str(self._table.name), self._call.how)

    def scope(self) -> Scope:
        """Return which partitions the write replaces beside those that it has rows for."""
        if self._call.mode.facts.replaces_table:
            return every_partition
        return no_partition if self._call.where is None else Filters(self._table, self._call.where)

    def spellings(self, existing: Collection[PartitionValues]) -> Spellings:
        """Sort partitions that exist by their values."""
        return self.spelled(existing, self._call.time_zone or UNZONED)

    def plan(self, seen: Any) -> PlannedArrow:
        """Fix everything that a write needs; a bad call fails here, before a byte of data is written."""
        call, options, table = self._call, self._call.options, self._table
        rows, scope = self.fitted(), self.scope()
        spelled = self.spellings(self.existing_of(scope, call.mode, options))
        write_id = options.write_uuid or new_write_id()
        refused = spelled if call.mode.facts.only_creates else frozenset[PartitionValues]()
        data_json = schema_json(self.fields)
        encoding = file_options(table, lambda _, default: default, self.settings, data_json, _spark_version())
        data_columns = [field.name for field in self.fields if not field.is_partition]
        spec = self.upload_spec(write_id, data_columns, encoding, self.settings, options, refused)
        notes, log_id, listing = self._own_root(partial(self._read_log, seen), seen)
        plan = self.write_plan(
            write_id,
            call.mode,
            options,
            (log_id, listing),
            schema=data_json,
            based_on=self.base(options.based_on, listing),
            scope=scope,
            key=Key(options.idempotency_key),
            notes=(*notes, *self.settings.notes()),
            spellings=spelled.unusual(),
        )
        return PlannedArrow(plan=plan, rows=rows, spec=spec)

    def _partition_types(self) -> tuple[str, ...]:
        return tuple(field.spelled_as for field in self.fields if field.is_partition)


class ArrowSource:
    """The rows of one call."""

    def __init__(self, services: Services, call: ArrowCall, announcement: Announcement) -> None:
        self._services = services
        self._call = call
        self._announcement = announcement
        self.checks = call.checks
        self._planned: PlannedArrow

    def plan(self) -> tuple[OpenTable, PlannedArrow]:
        """Do step 1."""
        call = self._call
        with readers_unharmed(call.table):
            opened = open_to_write(self._services, call.table)
            self._announcement.follow(opened, tags=call.options.tags, idempotency_key=call.options.idempotency_key)
            refuse_immutable(opened.table, call.mode)
            seen = opened.require_new_key(Key(call.options.idempotency_key), frozenset())
            self._planned = ArrowPlanner(opened, call).plan(seen)
            if call.checks:
                from table_writer.arrow.checks import require_answerable  # noqa: PLC0415 - checks take PySpark

                require_answerable(call.checks, opened)
            self._announcement.concerns(opened, write_id=self._planned.plan.write_id)
        return opened, self._planned

    def examined(self, files: WrittenFiles, _: object) -> WrittenFiles | None:
        """Return the files, ``None`` if there are no rows and nothing is to be replaced by none."""
        return files if files.row_count or self._call.options.if_empty == "replace" else None

    def nothing(self) -> WriteResult:
        """Return the result of a write without rows."""
        return nothing_written(self._planned.plan, self._call.options.if_empty, self._announcement.watch)

    def nothing_to_stage(self) -> InvalidInputError:
        """Return the error of a call that has nothing to stage."""
        plan = self._planned.plan
        return InvalidInputError(
            f"there are no rows, so publishing them would change no partition of {plan.table.name}: nothing was staged",
            table=str(plan.table.name),
            write_id=plan.write_id,
        )

    def published(self, result: WriteResult, *_: object) -> WriteResult:
        """Return what the call returns."""
        return result


class ArrowSteps(Order[PlannedArrow]):
    """The write calls without Spark."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def write(self, call: ArrowCall) -> WriteResult:
        """Do steps 1 to 5."""
        with announced(self._services, "write", call.table, call.mode.value) as announcement, self._progress(call):
            try:
                result = self._publish(ArrowSource(self._services, call, announcement), announcement.watch)
            except RepeatedError as repeated:
                result = repeated_result(repeated.entry, announcement.watch, announcement.opened)
            return announcement.finished(result)

    def stage(self, call: ArrowCall, expires_in: timedelta) -> tuple[OpenTable, StagedRecord]:
        """Do steps 1 to 4, and leave the files to be published or discarded by any process."""
        with announced(self._services, "stage", call.table, call.mode.value) as announcement, self._progress(call):
            source = ArrowSource(self._services, call, announcement)
            opened, record = self._stage(source, announcement.watch, expires_in)
            return opened, announcement.finished(record, **event_facts_of_staged(record))

    def check(self, files: WrittenFiles, opened: OpenTable, checks: Sequence[Check], watch: Stopwatch) -> CheckResults:
        """Do step 4, as far as footers answer."""
        if not checks:
            return CheckResults()
        from table_writer.arrow.checks import results_of  # noqa: PLC0415 - checks take PySpark, a write does without

        with watch.step("check"):
            return results_of(checks, files, opened)

    def _progress(self, call: ArrowCall) -> Any:
        return show_progress(self._services.config.progress, table=call.table, mode=call.mode.value)

    def _write_files(
        self, planned: PlannedArrow, opened: OpenTable, write: RunningWrite, watch: Stopwatch
    ) -> WrittenFiles:
        plan = planned.plan
        with watch.step("upload"):
            watch.uploaded_by = "driver"
            current().name(plan.write_id)
            try:
                message = upload_rows(planned.rows, planned.spec, opened.store, task_index=0, attempt_id=0)
            except TableWriterError as error:
                error.write_id, error.table = plan.write_id, str(plan.table.name)
                raise
            messages = check_messages([message], planned.spec)
        files = WrittenFiles.from_messages(plan, messages, keeps_files=bool(opened.followed_mirrors))
        require_inside(files)
        with watch.step("complete"):
            write.complete(messages)
        return files


def open_to_write(services: Services, table: str) -> OpenTable:
    """Look up a table that is to be written; ``InvalidInputError`` says why it cannot be."""
    opened = services.open_table(TableName.parse(table), require_writable)
    opened.require_properties()
    return opened


def _spark_version() -> str:
    """Return the version of Spark whose files these are like: without one, readers take dates for old ones."""
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return SPARK_WHOSE_FILES
