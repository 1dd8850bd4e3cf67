"""``ArrowWriter``: the writes of ``TableWriter`` without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal, Self, TypedDict, Unpack

from table_writer.arrow.plan import plan_report
from table_writer.arrow.steps import ArrowCall, ArrowSteps, open_to_write
from table_writer.arrow.where import filters_of, sql_of
from table_writer.checked import checked
from table_writer.config import Carry, EmptyAction, TableWriterConfig, WriteOptions, write_mode
from table_writer.errors import InvalidInputError, refuse_namesake
from table_writer.jobs.staged_writes import StagedWrites
from table_writer.model.partition_value import java_zone
from table_writer.model.staged_write import LONGEST_EXPIRY_SECONDS
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.table.services import Services
from table_writer.reports.plan_report import PlanReport
from table_writer.reports.staged_report import StagedDetail, staged_detail
from table_writer.reports.write_result import WriteResult

ArrowSchema = Literal["strict", "allow_missing"]


class ArrowKeywords(TypedDict, total=False):
    """The keywords of writes without Spark; :class:`~table_writer.WriteOptions` says what they mean."""

    schema: ArrowSchema
    target_file_bytes: int | None
    if_empty: EmptyAction
    carry: Carry
    max_copied_bytes: int | None
    based_on: int | None
    idempotency_key: str
    tags: Mapping[str, str]
    write_uuid: str
    checks: Sequence[object]


@checked
class ArrowWriter:
    """Writes Hive tables without Spark: from a notebook, a scheduler's task, or a function in the cloud.

    The promise is that of :class:`~table_writer.TableWriter`, and so are the log, conflicts, recovery, mirrors and
    events: both kinds of writers may write one table at the same time. Rows are whatever has Arrow's C stream: tables
    and readers of pyarrow, DataFrames of pandas and Polars, relations of DuckDB. They are read once, batch by batch,
    and are never all in memory.

    The table must exist and be stored as Parquet. ``sort_by``, ``distribution``, new columns and the making of tables
    take Spark.

    Parameters
    ----------
    metastore_uri
        As for :class:`~table_writer.Maintenance`.
    config
        As for :class:`~table_writer.Maintenance`.
    time_zone
        In which times without a zone are meant where the table has ``TIMESTAMP``, and in which such partitions are
        named; empty: such rows are refused.
    services
        Opens the metastore and the stores; tests hand in doubles.

    Raises
    ------
    InvalidInputError
        No metastore is named, or a setting or the time zone is not known.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = pa.table({"id": pa.array([1, 2], "int32"), "dt": ["2024-01-01", "2024-01-02"]})
    >>> writer = ArrowWriter(metastore_uri, config=TableWriterConfig(hadoop=hadoop_settings))
    >>> writer.overwrite_partitions(rows, "mart.orders").rows
    2
    """

    def __init__(
        self,
        metastore_uri: str | None = None,
        *,
        config: TableWriterConfig | None = None,
        time_zone: str = "",
        services: Services | None = None,
    ) -> None:
        refuse_namesake()
        if time_zone and java_zone(time_zone) is None:
            raise InvalidInputError(f"time_zone={time_zone!r}: there is no such zone")
        self._time_zone = time_zone
        self._services = services or Services.without_spark(metastore_uri, config or TableWriterConfig())
        self._steps = ArrowSteps(self._services)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection to the metastore; a later call opens a new one."""
        self._services.metastore.close()

    def overwrite_partitions(
        self, rows: object, table: str, *, where: object = None, **options: Unpack[ArrowKeywords]
    ) -> WriteResult:
        """Replace the partitions that the rows are of, and with ``where`` all partitions that it chooses.

        Parameters
        ----------
        rows
            What has Arrow's C stream: columns by name, in any order.
        table
            ``database.table``.
        where
            Filters over partition columns as :func:`~table_writer.read_arrow` takes them, as in
            ``[("dt", ">=", "2024-01-01")]``. Chosen partitions without rows are dropped.
        **options
            See :class:`~table_writer.WriteOptions`.

        Raises
        ------
        InvalidInputError, SchemaMismatchError, ConflictError, CheckFailedError, StorageError, MetastoreError
        OutcomeUnknownError
            As for :meth:`TableWriter.overwrite_partitions`.
        """
        return self._steps.write(self._call(rows, table, WriteMode.OVERWRITE_PARTITIONS, options, where))

    def append(self, rows: object, table: str, **options: Unpack[ArrowKeywords]) -> WriteResult:
        """Add rows to a table, as :meth:`TableWriter.append` does.

        Parameters
        ----------
        rows, table, **options
            As for :meth:`overwrite_partitions`.
        """
        return self._steps.write(self._call(rows, table, WriteMode.APPEND, options))

    def create_partitions(self, rows: object, table: str, **options: Unpack[ArrowKeywords]) -> WriteResult:
        """Add partitions, and change nothing if one of them exists, as :meth:`TableWriter.create_partitions` does.

        Parameters
        ----------
        rows, table, **options
            As for :meth:`overwrite_partitions`.
        """
        return self._steps.write(self._call(rows, table, WriteMode.CREATE_PARTITIONS, options))

    def overwrite_table(self, rows: object, table: str, **options: Unpack[ArrowKeywords]) -> WriteResult:
        """Replace all rows of a table, as :meth:`TableWriter.overwrite_table` does.

        Parameters
        ----------
        rows, table, **options
            As for :meth:`overwrite_partitions`.
        """
        return self._steps.write(self._call(rows, table, WriteMode.OVERWRITE_TABLE, options))

    def stage(
        self,
        rows: object,
        table: str,
        mode: str = WriteMode.OVERWRITE_PARTITIONS.value,
        *,
        where: object = None,
        expires_in: timedelta = timedelta(days=1),
        **options: Unpack[ArrowKeywords],
    ) -> StagedDetail:
        """Write the files, and leave them to be published or discarded by any process.

        Parameters
        ----------
        rows, table, where, **options
            As for :meth:`overwrite_partitions`.
        mode
            The name of the method that would write.
        expires_in
            After how long a vacuum may delete the files.

        Returns
        -------
        StagedDetail
            What is staged. ``Maintenance.publish(table, write_id)`` publishes it, also
            ``TableWriter(spark).staged_write(table, write_id)``, which shows its rows.
        """
        if not 0 < expires_in.total_seconds() <= LONGEST_EXPIRY_SECONDS:
            raise InvalidInputError(f"expires_in={expires_in!r}: expected a timedelta, of a year at most")
        call = self._call(rows, table, write_mode(mode), options, where)
        opened, record = self._steps.stage(call, expires_in)
        return staged_detail(StagedWrites(opened).find(record.plan.write_id))

    def plan(
        self,
        rows: object,
        table: str,
        mode: str = WriteMode.OVERWRITE_PARTITIONS.value,
        *,
        where: object = None,
        **options: Unpack[ArrowKeywords],
    ) -> PlanReport:
        """Say what a write would do, and do nothing. The rows are gone through once, for their partitions.

        Parameters
        ----------
        rows, table, mode, where, **options
            As for :meth:`stage`.
        """
        call = self._call(rows, table, write_mode(mode), options, where)
        return plan_report(open_to_write(self._services, table), call)

    def _call(
        self, rows: object, table: str, mode: WriteMode, options: ArrowKeywords, where: object = None
    ) -> ArrowCall:
        filters = None if where is None else filters_of(where)
        given = WriteOptions(**options, where="" if filters is None else sql_of(filters))
        checks = _as_checks(given.checks)
        return ArrowCall(
            rows=rows,
            table=table,
            mode=mode,
            options=replace(given, checks=()),
            where=filters,
            time_zone=self._time_zone,
            checks=checks,
        )


def _as_checks(given: Sequence[object]) -> tuple[Any, ...]:
    if not given:
        return ()
    try:
        from table_writer.check.run import as_checks  # noqa: PLC0415 - checks take PySpark, a write does without
    except ImportError as error:
        raise InvalidInputError(f"checks take PySpark, which is not installed here: {error}") from error
    return as_checks(given)
