"""The public writer: the only file that knows the order of the six steps."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Literal, Self

from pyspark.sql import DataFrame, SparkSession

from table_writer.complete import Completer
from table_writer.config import TableWriterConfig
from table_writer.display.reports import DoctorReport, RecoverReport
from table_writer.display.write_result import PartitionResult, WriteResult
from table_writer.errors import InvalidInputError, StorageError
from table_writer.maintenance import Maintenance
from table_writer.model.entry import EntryPartition
from table_writer.model.message import CommitMessage
from table_writer.model.partition_name import name_in
from table_writer.model.write import StagedFiles, WriteMode, WritePlan
from table_writer.publish.publisher import Published
from table_writer.publish.success import success_json
from table_writer.refresh import refresh_session
from table_writer.services import TableServices
from table_writer.spark_services import SessionServices
from table_writer.stopwatch import Stopwatch
from table_writer.upload.job import Uploader

__all__ = ["TableWriter"]

logger = logging.getLogger(__name__)

IfEmpty = Literal["error", "ignore"]


class TableWriter:
    """Writes DataFrames into Hive tables so that readers see all old rows or all new rows.

    Parameters
    ----------
    spark
        A classic Spark session with Hive support. Metastore, S3 endpoint and credentials come from its settings.
    config
        What should be otherwise than the session's settings and this library's defaults say.
    services
        Opens the metastore and the stores; tests hand in doubles.

    Raises
    ------
    InvalidInputError
        The session has no Hive metastore that speaks Thrift, or a setting cannot be used.

    Examples
    --------
    >>> from table_writer import TableWriter
    >>> TableWriter(spark).overwrite_partitions(df, "mart.orders").rows
    2
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        config: TableWriterConfig | None = None,
        services: SessionServices | None = None,
    ) -> None:
        self._spark = spark
        self._services = services or SessionServices(spark, config or TableWriterConfig())
        self._uploader = Uploader()

    def overwrite_partitions(self, df: DataFrame, table: str, *, if_empty: IfEmpty = "error") -> WriteResult:
        """Replace exactly the partitions that the DataFrame has rows for.

        ==============================  =============================================
        partition                       after the call
        ==============================  =============================================
        is in the DataFrame             holds exactly the DataFrame's rows
        is not in the DataFrame         is untouched
        ==============================  =============================================

        All partitions switch in one metastore transaction. No file is deleted under a running query: replaced data
        stays for the retention. A DataFrame that reads the table it overwrites works.

        Parameters
        ----------
        df
            Columns are matched by name, in any order; types may be narrower than the table's where nothing is lost.
        table
            ``database.table``; a partitioned Parquet table.
        if_empty
            What to do when the DataFrame has no rows: ``"error"``, or ``"ignore"`` and change nothing.

        Returns
        -------
        WriteResult
            Version, partitions with rows, files and bytes, seconds per step, requests.

        Raises
        ------
        InvalidInputError, SchemaMismatchError
            The call cannot be carried out; nothing was written.
        ConflictError
            Somebody else published one of the partitions since the call began; nothing was published.
        StorageError, MetastoreError
            Storage or metastore failed; nothing is visible, and this write's files are gone again.
        OutcomeUnknownError
            The metastore's answer was lost, and whether readers switched cannot be seen; nothing is deleted.

        Examples
        --------
        >>> result = TableWriter(spark).overwrite_partitions(df, "mart.orders")
        >>> [partition.name for partition in result.replaced]
        ['dt=2024-01-01']
        """
        return self._write(df, table, WriteMode.OVERWRITE_PARTITIONS, if_empty)

    def recover(self, table: str) -> RecoverReport:
        """Settle every publish of a table that was left in doubt, and put right what the metastore applied late.

        The same as :meth:`Maintenance.recover`, with the session's settings.

        Parameters
        ----------
        table
            ``database.table``.

        Returns
        -------
        RecoverReport
            ``settled`` has the versions that were in doubt, with how they ended.

        Raises
        ------
        MetastoreError, StorageError, OutcomeUnknownError
            It could not be settled yet; call again.

        Examples
        --------
        >>> TableWriter(spark).recover("mart.orders").settled
        {}
        """
        return Maintenance(services=self._services.services).recover(str(self._services.table_name(table)))

    def doctor(self, table: str) -> DoctorReport:
        """Examine metastore, store, bucket, table and this session's settings; say what to change.

        The same as :meth:`Maintenance.doctor`, with the session's settings.

        Parameters
        ----------
        table
            ``database.table``.

        Examples
        --------
        >>> {finding.check: finding.status for finding in TableWriter(spark).doctor("mart.orders").findings}["owner"]
        'ok'
        """
        spark_conf = dict(self._spark.sparkContext.getConf().getAll())
        keeper = Maintenance(services=self._services.services)
        return keeper.doctor(str(self._services.table_name(table)), spark_conf=spark_conf)

    def adopt(self, table: str) -> None:
        """Declare that the files below a table's root are this table's, after it was renamed or created again.

        The log and all files stay. Needed only when a write says so.

        Parameters
        ----------
        table
            ``database.table``.
        """
        Maintenance(services=self._services.services).adopt(str(self._services.table_name(table)))

    def _write(self, df: DataFrame, table: str, mode: WriteMode, if_empty: IfEmpty) -> WriteResult:
        if if_empty not in ("error", "ignore"):
            raise InvalidInputError(f"if_empty={if_empty!r}: expected 'error' or 'ignore'")
        watch = Stopwatch(self._services.metastore)
        with watch.step("plan"):
            services = self._services.open_table(table)
            watch.follow(services.store)
            planned = self._services.planner(services).plan(df, mode)
        with _OpenWrite(services, planned.plan) as write:
            with watch.step("upload"):
                messages = self._uploader.upload(planned.rows, planned.spec)
                watch.add_requests(messages)
            with watch.step("complete"):
                staged = write.complete(messages)
            if staged.row_count == 0:
                return _nothing_written(planned.plan, if_empty, watch)
            with watch.step("publish"):
                published = services.publisher().publish(staged, write.claiming)
        notes = (
            *planned.plan.notes,
            *published.notes,
            *_marked(services, staged, published),
            *refresh_session(self._spark, services.table, planned.plan.write_id),
        )
        return _result(planned.plan, published, notes, watch)


class _OpenWrite:
    """A registered write. Leaving it before a claim was sent discards its files; afterwards the log owns them."""

    def __init__(self, services: TableServices, plan: WritePlan) -> None:
        self._completer: Completer = services.completer()
        self._plan = plan
        self._exit = ExitStack()
        self._registration = services.registration(plan)
        self._claim_sent = False

    def __enter__(self) -> Self:
        self._exit.enter_context(self._registration)
        self._exit.push(self._discard)
        return self

    def __exit__(self, *raised: object) -> None:
        self._exit.__exit__(*raised)  # type: ignore[arg-type]  # handed through as it came

    def complete(self, messages: tuple[CommitMessage, ...]) -> StagedFiles:
        """Step 3: every file that a message names becomes an object; every other upload of this write is aborted."""
        prefix = self._plan.data_location.key
        self._completer.complete(self._plan.write_id, prefix, messages)
        self._completer.abort_leftovers(prefix, messages)
        return StagedFiles(plan=self._plan, messages=messages)

    @contextmanager
    def claiming(self) -> Iterator[Callable[[], None]]:
        """From here on the files may belong to a log entry, and are not ours to delete."""
        self._claim_sent = True
        yield self._claim_lost

    def _claim_lost(self) -> None:
        self._claim_sent = False

    def _discard(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not self._claim_sent:
            logger.info("write_id=%s failed before its claim; discarding its files", self._plan.write_id)
            self._completer.discard(self._plan.data_location.key)


def _nothing_written(plan: WritePlan, if_empty: IfEmpty, watch: Stopwatch) -> WriteResult:
    if if_empty == "error":
        raise InvalidInputError(
            f"the DataFrame has no rows, so no partition of {plan.table.name} would change; nothing was written."
            " If that may happen, call with if_empty='ignore'.",
            table=str(plan.table.name),
            write_id=plan.write_id,
        )
    return WriteResult(
        table=str(plan.table.name),
        mode=plan.mode.value,
        write_id=plan.write_id,
        version=None,
        seconds=watch.seconds,
        storage_requests=watch.storage_requests(),
        metastore_calls=watch.metastore_calls(),
    )


def _marked(services: TableServices, staged: StagedFiles, published: Published) -> tuple[str, ...]:
    """Write ``_SUCCESS`` where it is wanted. A failure is a note in the result, for readers have switched already."""
    if not services.marks_success():
        return ()
    names = [upload.key for uploads in staged.by_partition().values() for upload in uploads]
    try:
        services.store.put(services.layout.success_key, success_json(published.entry, names, services.layout.root))
    except StorageError as error:
        return (f"_SUCCESS was not written: {error.message}",)
    return ()


def _result(plan: WritePlan, published: Published, notes: tuple[str, ...], watch: Stopwatch) -> WriteResult:
    def described(partition: EntryPartition) -> PartitionResult:
        return PartitionResult(
            name=name_in(plan.table, partition.values),
            values=partition.values,
            location=partition.new_location or "",
            replaced=partition.old_location is not None,
            rows=partition.rows or 0,
            bytes=partition.bytes,
            files=partition.files,
        )

    return WriteResult(
        table=str(plan.table.name),
        mode=plan.mode.value,
        write_id=plan.write_id,
        version=published.entry.version,
        partitions=tuple(map(described, published.entry.partitions)),
        seconds=watch.seconds,
        storage_requests=watch.storage_requests(),
        metastore_calls=watch.metastore_calls(),
        notes=notes,
    )
