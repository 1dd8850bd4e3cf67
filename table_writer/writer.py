"""The public writer: the write modes, and what each of them promises."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, NoReturn, Unpack

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from table_writer.checked import checked
from table_writer.config import (
    CompactKeywords,
    CompactOptions,
    NewTableKeywords,
    RowKeywords,
    RowOptions,
    SelectedRowKeywords,
    StatementKeywords,
    TableWriterConfig,
    WriteKeywords,
    WriteOptions,
)
from table_writer.errors import InvalidInputError, refuse_namesake
from table_writer.jobs.batches import TravellingBatchWriter, batch_writer, write_one
from table_writer.jobs.calls import Call, CallKeywords, call_of, require_rows
from table_writer.jobs.preview import Preview, plan_of_rows
from table_writer.jobs.rows.change import RewrittenRows, RowCall, RowChange
from table_writer.jobs.rows.deduplicate import Deduplicated
from table_writer.jobs.rows.difference import row_changes
from table_writer.jobs.rows.merge import SEARCH_ABOVE_BYTES, Matched, Merge, MergeKeywords, Missing
from table_writer.jobs.rows.rewrite import Rewrite
from table_writer.jobs.rows.statement import change_of, write_of
from table_writer.jobs.rows.where import DeletedWhere, UpdatedWhere
from table_writer.jobs.run import Steps
from table_writer.jobs.session_services import SessionServices
from table_writer.jobs.staged_write import StagedWrite
from table_writer.jobs.staged_writes import StagedWrites
from table_writer.maintenance import Maintenance, meant_by
from table_writer.model.new_table import NewTable
from table_writer.model.staged_write import LONGEST_EXPIRY_SECONDS, FoundStaged
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.table.past import Past
from table_writer.reports.erasure_report import ErasureReport
from table_writer.reports.health_reports import DoctorReport
from table_writer.reports.history_reports import ChangesReport, RecoverReport
from table_writer.reports.many_reports import ErasuresReport
from table_writer.reports.plan_report import PlanReport, RowsPlan
from table_writer.reports.rows_result import RowsResult
from table_writer.reports.staged_report import StagedReport
from table_writer.reports.write_result import CompactReport, WriteResult
from table_writer.spark import is_connect, open_gateway
from table_writer.spark.create_table import create_table
from table_writer.spark.sql import version_name
from table_writer.spark.statement import Insertion


@checked
class TableWriter:
    """Writes DataFrames into Hive tables so that readers see all old rows or all new rows.

    Parameters
    ----------
    spark
        A Spark session with Hive support, classic or of Spark Connect (Spark 4.1 or newer). Metastore, S3 endpoint and
        credentials come from its settings; what a Connect session hides comes from this process's environment.
        Names in a call, such as temporary views, are looked up in the session of the call's DataFrame; without one in
        that of the streaming batch on this thread, else in this one.
    config
        Settings that differ from the session's settings and this library's defaults.
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
        self, spark: SparkSession, *, config: TableWriterConfig | None = None, services: SessionServices | None = None
    ) -> None:
        refuse_namesake()
        self._spark = spark
        self._services = services or SessionServices(spark, config or TableWriterConfig())
        self._steps = Steps(spark, self._services)

    if not TYPE_CHECKING:  # else every name would pass for one of this class

        def __getattr__(self, name: str) -> NoReturn:
            if hasattr(Maintenance, name):
                text = f": {name} needs no Spark: call it by writer.maintenance.{name}(…)"
            else:
                modes = [mode.value for mode in WriteMode]
                own, kept = (
                    [attribute for attribute in vars(owner) if not attribute.startswith("_") and attribute not in modes]
                    for owner in (TableWriter, Maintenance)
                )
                question = meant_by(name, [*own, WriteMode.APPEND.value]) or "."
                text = (
                    f"{question} It writes by {WriteMode.described()}. Its other calls are {', '.join(own)};"
                    f" writer.maintenance has {', '.join(kept)}"
                )
            raise AttributeError(f"TableWriter has no {name}{text}", name=name, obj=None)  # Python suggests nothing

    def overwrite_partitions(self, df: DataFrame, table: str, **options: Unpack[WriteKeywords]) -> WriteResult:
        """Replace exactly the partitions that the DataFrame has rows for, or that ``where`` selects.

        ==============================  =============================  ======================================
        partition                       without ``where``              with ``where``
        ==============================  =============================  ======================================
        is in the DataFrame             holds the DataFrame's rows     the same; an error if not selected
        is not in the DataFrame         is untouched                   is dropped if selected, else untouched
        ==============================  =============================  ======================================

        All partitions switch in one metastore transaction. Replaced data stays for the retention, so queries that run
        go on. A DataFrame that reads the table it overwrites works.

        Parameters
        ----------
        df
            Columns are matched by name, in any order; types may be narrower than the table's where nothing is lost.
        table
            ``database.table``, partitioned.
        **options
            See :class:`~table_writer.WriteOptions`.

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
        return self._write(df, table, WriteMode.OVERWRITE_PARTITIONS, options)

    def append(self, df: DataFrame, table: str, **options: Unpack[WriteKeywords]) -> WriteResult:
        """Add rows; old and new rows of a partition appear together.

        ==============================  =============================================
        partition                       after the call
        ==============================  =============================================
        is in the DataFrame             holds the rows it had, and the DataFrame's
        is not in the DataFrame         is untouched
        ==============================  =============================================

        The files that a partition has are copied inside the store, so that readers go from one location to the other
        in the same one metastore call. Appends to one partition at the same time don't conflict: the second is built
        on what the first has published. An append to large partitions costs a copy of them: see ``max_copied_bytes``.

        ``carry="in_place"`` adds the new files to the location that readers look at instead. Then nothing that is there
        is copied, and the call costs what its own rows cost; but its files appear one by one within the publish. Of one
        partition they are one file, which appears whole, as long as ``distribution`` and ``target_file_bytes`` are the
        usual ones. A call that dies between two files leaves some of them to be seen; whoever writes or recovers next
        adds the others. New partitions appear at once, as ever.

        Parameters
        ----------
        df, **options
            As for :meth:`overwrite_partitions`.
        table
            ``database.table``, partitioned or not.

        Raises
        ------
        InvalidInputError
            Also when a partition is stored differently from the table, or more than ``max_copied_bytes`` would have
            to be copied.
        SchemaMismatchError, ConflictError, StorageError, MetastoreError, OutcomeUnknownError
            As for :meth:`overwrite_partitions`.

        Examples
        --------
        >>> result = TableWriter(spark).append(df, "mart.orders")
        >>> [partition.name for partition in result.appended]
        ['dt=2024-01-01']
        """
        return self._write(df, table, WriteMode.APPEND, options)

    def compact(self, table: str, *, dry_run: bool = False, **options: Unpack[CompactKeywords]) -> CompactReport:
        """Write the rows of small files anew, in fewer files; the rows of each partition stay the same.

        All partitions switch in one metastore call, as in every write. The rows that were written are read back, and
        compared by their number and by a checksum with those that were read. An append in between comes along, in place
        or not; a partition whose files others have replaced meanwhile is left as it is. No other write conflicts with a
        compaction.

        Parameters
        ----------
        table
            ``database.table``, partitioned or not.
        dry_run
            Only say which partitions would be compacted.
        **options
            :class:`~table_writer.config.CompactOptions`.

        Returns
        -------
        CompactReport
            Files, bytes and rows of each partition, and what was left alone.

        Raises
        ------
        CheckFailedError
            The rows that were written are not those that were read; nothing was published.
        InvalidInputError, ConflictError, StorageError, MetastoreError, OutcomeUnknownError
            As for :meth:`overwrite_partitions`.

        Examples
        --------
        >>> TableWriter(spark).compact("mart.orders", where="dt < '2024-02-01'").partitions
        ()
        """
        return self._steps.compact(table, CompactOptions(**options), dry_run=dry_run)

    def create_partitions(self, df: DataFrame, table: str, **options: Unpack[WriteKeywords]) -> WriteResult:
        """Add partitions; if one of them exists, change nothing.

        ==============================  =============================================
        partition                       after the call
        ==============================  =============================================
        is in the DataFrame             holds the DataFrame's rows; it did not exist
        is not in the DataFrame         is untouched
        ==============================  =============================================

        The first row of a partition that exists ends the call. One that another tool adds meanwhile is found by the
        metastore itself when the partitions are added, all in one call or none.

        Parameters
        ----------
        df, table, **options
            As for :meth:`overwrite_partitions`.

        Raises
        ------
        PartitionExistsError
            Names the partition; nothing was published.
        InvalidInputError, SchemaMismatchError, ConflictError, StorageError, MetastoreError, OutcomeUnknownError
            As for :meth:`overwrite_partitions`.

        Examples
        --------
        >>> from table_writer import PartitionExistsError
        >>> try:
        ...     TableWriter(spark).create_partitions(df, "mart.orders")
        ... except PartitionExistsError as error:
        ...     print(error.code)
        partition_exists
        """
        return self._write(df, table, WriteMode.CREATE_PARTITIONS, options)

    def overwrite_table(self, df: DataFrame, table: str, **options: Unpack[WriteKeywords]) -> WriteResult:
        """Replace the whole table.

        ==============================  =============================================
        partition                       after the call
        ==============================  =============================================
        is in the DataFrame             holds exactly the DataFrame's rows
        is not in the DataFrame         is dropped
        ==============================  =============================================

        An unpartitioned table holds exactly the DataFrame's rows; its location moves with each call, and the table
        property ``table_writer.root`` keeps where it began.

        Parameters
        ----------
        df, **options
            As for :meth:`overwrite_partitions`. Without rows the call is an error, unless ``if_empty="replace"`` says
            that the table shall be emptied.
        table
            ``database.table``, partitioned or not.

        Raises
        ------
        ConflictError
            Somebody else published anything in this table since the call began; nothing was published.
        InvalidInputError, SchemaMismatchError, StorageError, MetastoreError, OutcomeUnknownError
            As for :meth:`overwrite_partitions`.

        Examples
        --------
        >>> TableWriter(spark).overwrite_table(df, "mart.orders").rows
        2
        """
        return self._write(df, table, WriteMode.OVERWRITE_TABLE, options)

    def rewrite(
        self, table: str, change: Callable[[DataFrame], DataFrame], **options: Unpack[SelectedRowKeywords]
    ) -> RowsResult:
        """Replace partitions by what a function makes of their rows, as they are after one version.

        =======================================  ==================================================
        partition                                after the call
        =======================================  ==================================================
        is selected                              holds exactly the rows that the function returned
        is selected, and no row is of it         is dropped
        is not selected, and rows moved to it    holds these beside those that it had
        is not selected otherwise                is untouched
        =======================================  ==================================================

        The function may be asked again, where ``retries`` allows it, and its DataFrame is computed once each time.

        Parameters
        ----------
        table
            ``database.table``; an unpartitioned one is rewritten as a whole.
        change
            Takes the rows of the selected partitions, and returns rows with the table's columns.
        **options
            See :class:`~table_writer.RowOptions`.

        Returns
        -------
        RowsResult
            What a write tells, and which files were replaced and copied.

        Raises
        ------
        ConflictError
            Somebody has published one of these partitions since they were read, or another tool has changed their
            files; nothing was published. With ``retries`` it has happened so often.
        InvalidInputError
            Also when a selected partition holds files that came after its version, or in directories of their own.
        SchemaMismatchError, CheckFailedError, StorageError, MetastoreError, OutcomeUnknownError
            As for :meth:`overwrite_partitions`.

        Examples
        --------
        >>> writer = TableWriter(spark)
        >>> writer.overwrite_table(df, "mart.orders").rows
        2
        >>> writer.rewrite("mart.orders", lambda rows: rows.where("id > 1"), where="dt = '2024-01-01'").rows
        1
        """
        return self._change(RewrittenRows(change), table, options)

    def merge(
        self,
        updates: DataFrame,
        table: str,
        *,
        on: Sequence[str],
        matched: Matched = "update",
        missing: Missing = "insert",
        set: Mapping[str, str | Column] | None = None,  # noqa: A002  # as SQL calls it
        **options: Unpack[MergeKeywords],
    ) -> RowsResult:
        """Change the rows of a table that updates name by key, and insert those whose key no row has.

        ===========  ======================================================================================
        option       of which rows it says what to do
        ===========  ======================================================================================
        ``matched``  rows with a key of ``updates``, all of them: ``"update"``, ``"delete"`` or ``"ignore"``
        ``missing``  updates whose key no row has: ``"insert"`` or ``"ignore"``
        ===========  ======================================================================================

        Only files that hold a row of the keys are written anew; the store copies the others of their partitions. Where
        these are small, all of their rows are: that takes one look at them instead of two. If ``on`` has the partition
        columns, no other partitions are looked at; else the key columns of all that ``where`` selects are read.

        Parameters
        ----------
        updates
            Each key once, if ``newest_by`` is not given, and without nulls. They are computed once, and their rows stay
            on the executors meanwhile.
        table
            ``database.table``.
        on
            The columns of the key.
        matched, missing
            What becomes of both kinds of updates.
        set
            By column of the table: its new value, over both sides, as in ``{"n": "target.n + updates.n"}``; other
            columns stay. Without it all columns are taken from ``updates``.
        delete
            A predicate over the columns of ``updates``, as in ``"op = 'D'"``: an update that it is true of deletes its
            row, and is never inserted. Its columns are passed over where the table has none of that name.
        newest_by
            A column of the table that grows with each change of a row, for feeds whose rows come late, twice or out of
            order. Of the updates of one key only that with the largest value counts, and only for rows whose own value
            is smaller; null is the smallest, and of equal updates any one counts. What is deleted would be forgotten,
            and a late update would insert it again: with deletes it needs ``deleted_flag``.
        deleted_flag
            A ``BOOLEAN`` column of the table. What ``delete`` says is marked there, and stays as a row: with its key,
            and with whatever else its update has. Readers ask for ``WHERE gone IS NOT TRUE``.
        schema
            ``"evolve"`` adds columns to the table that only ``updates`` has, but for those of ``delete``. A column that
            ``updates`` lacks stays as it is in rows that are there, and gets its default, or null, in new ones.
        search_above_bytes
            The partitions of the keys are rewritten whole if their files are not larger together, by default than
            32 MiB. 0: files are always searched first, as for ``plan``, ``stage``, and for formats of Spark's writer.
        **options
            See :class:`~table_writer.RowOptions`.

        Returns
        -------
        RowsResult
            How many rows were inserted, updated and deleted, exactly, and what a write tells.

        Raises
        ------
        InvalidInputError
            Also for a key that is twice in ``updates`` or has a null, for columns that do not exist, and for rows to
            insert outside of ``where``.
        ConflictError, SchemaMismatchError, CheckFailedError, StorageError, MetastoreError, OutcomeUnknownError
            As for :meth:`rewrite`.

        Examples
        --------
        >>> writer = TableWriter(spark)
        >>> writer.overwrite_table(df, "mart.orders").rows
        2
        >>> updates = df.withColumn("id", df.id * 2)
        >>> result = writer.merge(updates, "mart.orders", on=["dt", "id"], retries=3)
        >>> result.inserted, result.updated, result.deleted
        (1, 1, 0)
        """
        change = Merge(
            updates=updates,
            on=on,
            matched=matched,
            missing=missing,
            set=set,
            delete=options.pop("delete", None),
            deleted_flag=options.pop("deleted_flag", ""),
            newest_by=options.pop("newest_by", ""),
            schema=options.pop("schema", "strict"),
            search_above_bytes=options.pop("search_above_bytes", SEARCH_ABOVE_BYTES),
        )
        return self._change(change, table, options, updates)

    def delete_where(
        self, table: str, predicate: str | Column, *, purge: bool = False, **options: Unpack[RowKeywords]
    ) -> RowsResult:
        """Delete the rows that a predicate is true of; a partition that has no others is dropped.

        Only files that hold such a row are written anew; the store copies the others of their partitions. Replaced
        files stay for the retention: the rows can be read as of older versions until a vacuum.

        With ``purge`` nobody reads older versions of these partitions any more, or rolls back to them, and the next
        vacuum deletes their files, whatever the retention: also what other partitions have left that holds such a row.
        A query that runs meanwhile may fail, and a write of rows that were read there conflicts. If others have brought
        such rows back by then, they are deleted again. :meth:`Maintenance.erasure` certifies what is gone, and what is
        not; the result's ``predicate_salt`` shows later which rows it is about.

        Parameters
        ----------
        table
            ``database.table``.
        predicate
            In SQL, or a Column; it may have subqueries, which see their tables as they are. A time is written out.
        purge
            Erase the rows: for those that must not be kept.
        **options
            See :class:`~table_writer.RowOptions`.

        Raises
        ------
        InvalidInputError
            Also for a predicate that is not deterministic, as with ``now()``, or asks other rows (``OVER``).
        ConflictError, CheckFailedError, StorageError, MetastoreError, OutcomeUnknownError
            As for :meth:`rewrite`. Of a purge a ``ConflictError`` may also say that others bring such rows back each
            time: the rows were deleted, and are not to be erased yet.

        Examples
        --------
        >>> writer = TableWriter(spark)
        >>> writer.overwrite_table(df, "mart.orders").rows
        2
        >>> writer.delete_where("mart.orders", "id = 1", purge=True).deleted
        1
        >>> _ = writer.maintenance.vacuum("mart.orders")
        >>> writer.maintenance.erasure("mart.orders").is_complete
        True
        """
        if purge:
            return self._steps.of_call().erase(table, DeletedWhere(predicate), RowOptions(**options))
        return self._change(DeletedWhere(predicate), table, options)

    def erase_many(
        self,
        where: str,
        tables: Collection[str] | None = None,
        *,
        database: str | Collection[str] | None = None,
        salt: str = "",
        dry_run: bool = False,
    ) -> ErasuresReport[ErasureReport | RowsPlan]:
        """Erase the same rows from many tables: :meth:`Maintenance.erase_many` with this session."""
        return self.maintenance.erase_many(
            where, tables, spark=self._spark, database=database, salt=salt, dry_run=dry_run
        )

    def update_where(
        self,
        table: str,
        set: Mapping[str, str | Column],  # noqa: A002  # as SQL calls it
        where: str | Column,
        **options: Unpack[RowKeywords],
    ) -> RowsResult:
        """Give the rows that a predicate is true of other values. A partition column is set too: its row moves.

        Parameters
        ----------
        table
            ``database.table``.
        set
            By column: its new value, in SQL or as a Column, over the row as it was.
        where, **options
            As ``predicate`` and the options of :meth:`delete_where`.

        Raises
        ------
        SchemaMismatchError
            A value has a type that the column does not take without loss: cast it.
        InvalidInputError, ConflictError, CheckFailedError, StorageError, MetastoreError, OutcomeUnknownError
            As for :meth:`delete_where`.

        Examples
        --------
        >>> writer = TableWriter(spark)
        >>> writer.overwrite_table(df, "mart.orders").rows
        2
        >>> writer.update_where("mart.orders", {"id": "id + 10"}, where="id = 1").updated
        1
        """
        return self._change(UpdatedWhere(set, where), table, options)

    def deduplicate(
        self, table: str, *, on: Sequence[str], keep: Sequence[str | Column], **options: Unpack[SelectedRowKeywords]
    ) -> RowsResult:
        """Keep one row of each key: the first in an order. Rows with a null in their key all stay.

        Parameters
        ----------
        table
            ``database.table``.
        on
            The columns of the key; rows of one key may be in several partitions.
        keep
            The order, as in ``["updated_at DESC", "id"]``, or Columns. Of rows that it takes for equal any one stays.
        **options
            See :class:`~table_writer.RowOptions`.

        Raises
        ------
        InvalidInputError, ConflictError, CheckFailedError, StorageError, MetastoreError, OutcomeUnknownError
            As for :meth:`rewrite`.

        Examples
        --------
        >>> writer = TableWriter(spark)
        >>> _ = writer.overwrite_table(df, "mart.orders")
        >>> _ = writer.append(df, "mart.orders")
        >>> writer.deduplicate("mart.orders", on=["id"], keep=["dt DESC"]).deleted
        2
        """
        return self._change(Deduplicated(on, keep), table, options)

    def sql(self, statement: str, **options: Unpack[StatementKeywords]) -> RowsResult | WriteResult:
        """Do what a statement of SQL says: exactly that, by the call that it stands for, or nothing.

        ==================================================  ==================================================
        statement                                           call
        ==================================================  ==================================================
        ``DELETE FROM t [WHERE …]``                         :meth:`delete_where`
        ``UPDATE t SET … [WHERE …]``                        :meth:`update_where`
        ``MERGE INTO t USING … ON … WHEN … THEN …``         :meth:`merge`
        ``INSERT INTO t …``                                 :meth:`append`
        ``INSERT OVERWRITE t …``, all partitions dynamic    :meth:`overwrite_partitions`
        ``INSERT OVERWRITE t PARTITION (dt='…') …``         the same, with ``where``: also with no rows
        ``INSERT OVERWRITE t …``, unpartitioned             :meth:`overwrite_table`
        ==================================================  ==================================================

        Spark's own parser reads it, and its analyzer gives the rows of an ``INSERT`` the table's columns and types.
        ``ON`` compares columns of both sides, joined by ``AND``. Of several ``WHEN`` the first counts whose condition
        holds. ``WHEN NOT MATCHED BY SOURCE`` needs a condition, or ``where``, if the table is partitioned.

        Parameters
        ----------
        statement
            One statement, in a classic session; its table by name, also as ``spark_catalog.database.table``.
        **options
            Those of the call. ``where`` is for ``MERGE INTO`` alone: which partitions to look at.

        Raises
        ------
        InvalidInputError
            Also for each other statement and clause, by name, and for what Spark's parser does not understand. A
            statement that would harm a table, such as ``TRUNCATE``, is answered by the call that makes a version.
        ConflictError, SchemaMismatchError, CheckFailedError, StorageError, MetastoreError, OutcomeUnknownError
            As for the call.

        Examples
        --------
        >>> writer = TableWriter(spark)
        >>> writer.overwrite_table(df, "mart.orders").rows
        2
        >>> writer.sql("DELETE FROM mart.orders AS o WHERE o.id = 1", retries=3).deleted
        1
        """
        steps = self._steps.of_call()
        parsed = open_gateway(steps.spark).statements().parsed(statement)
        name = parsed.target.table
        table = self._services.open_to_write(name).table
        if isinstance(parsed, Insertion):
            df, mode, keywords = write_of(parsed, table, steps.spark, options)
            return self._write(df, name, mode, keywords)
        change = change_of(parsed, table, steps.spark, options)
        row_options = RowOptions(**options)  # type: ignore[misc]  # which refuses those of writes by name
        return steps.change_rows(name, RowCall(change=change, options=row_options))

    def create_table(
        self,
        schema: DataFrame | StructType,
        table: str,
        *,
        if_not_exists: bool = False,
        **new: Unpack[NewTableKeywords],
    ) -> None:
        """Make a table, exactly as Spark's own ``CREATE TABLE`` would.

        Parameters
        ----------
        schema
            Columns with types and comments; of a DataFrame only its schema is taken, and every column may be null.
        table
            ``database.table``.
        if_not_exists
            Leave a table alone that exists, whatever it is like.
        **new
            See :class:`~table_writer.NewTable`: ``partition_by``, ``location``, ``format``, ``compression``,
            ``comment``, ``properties``.

        Raises
        ------
        InvalidInputError
            The table exists, cannot be made like this, or no write would take it: a store or a property that is not
            supported, a place that contains another table's. Nothing was made.

        Examples
        --------
        >>> TableWriter(spark).create_table(df, "mart.returns", partition_by=["dt"])
        >>> spark.table("mart.returns").count()
        0
        """
        name, described = self._services.table_name(table), NewTable(**new)
        if self._services.metastore.get_table(name) is None:
            self._services.require_new(name, described)
        create_table(self._spark, schema, name, described, if_not_exists=if_not_exists)

    def plan(
        self,
        df: DataFrame | None,
        table: str,
        mode: str = WriteMode.OVERWRITE_PARTITIONS.value,
        **options: Unpack[CallKeywords],
    ) -> PlanReport:
        """Say what a write would do, and do nothing.

        Computes the DataFrame's partitions, which runs the query once. Nothing is written, not even the registration.
        Of a change of rows it runs the searches, and computes the rows that would be written.

        Parameters
        ----------
        df
            As for the write; the updates of a ``merge``, and ``None`` for other changes of rows.
        mode
            The name of the method: ``"overwrite_partitions"``, ``"append"``, ``"create_partitions"``,
            ``"overwrite_table"``, ``"rewrite"``, ``"merge"``, ``"delete_where"``, ``"update_where"`` or
            ``"deduplicate"``.
        table, **options
            As for the method: options of a write, or what :class:`~table_writer.RowOptions` and the method describe.

        Returns
        -------
        PlanReport
            Partitions with what would happen to each, how the schema fits, and what would make the call fail. Of a
            change of rows a :class:`~table_writer.RowsPlan`, which counts them.

        Raises
        ------
        InvalidInputError, StorageError, MetastoreError
            The call cannot be looked at.

        Examples
        --------
        >>> [(one.name, one.action) for one in TableWriter(spark).plan(df, "mart.orders").partitions]
        [('dt=2024-01-01', 'replace')]
        >>> _ = TableWriter(spark).overwrite_table(df, "mart.orders")
        >>> TableWriter(spark).plan(None, "mart.orders", "delete_where", predicate="id = 1").deleted
        1
        """
        call = call_of(mode, options, df)
        require_rows(call, mode, df)
        steps = self._steps.of_call(df)
        with steps.show_progress(table, mode):
            opened = self._services.open_to_write(table)
            if isinstance(call, RowCall):
                return plan_of_rows(Rewrite(steps.spark, opened, call, counts_first=True))
            assert df is not None  # noqa: S101 - it was required
            return Preview(opened, df, call.mode, call.options).report()

    def stage(
        self,
        df: DataFrame | None,
        table: str,
        mode: str = WriteMode.OVERWRITE_PARTITIONS.value,
        *,
        expires_in: timedelta = timedelta(days=1),
        **options: Unpack[CallKeywords],
    ) -> StagedWrite:
        """Write the files where no reader looks, and leave it to you, or to others, to publish or discard them.

        ======================================  ==========================================
        used as                                 without :meth:`StagedWrite.publish`
        ======================================  ==========================================
        ``with writer.stage(...) as staged:``   is discarded at the end of the block
        ``staged = writer.stage(...)``          stays until it is discarded, or expires
        ======================================  ==========================================

        Parameters
        ----------
        df, table, mode
            As for :meth:`plan`.
        expires_in
            How long it stays if nobody publishes or discards it; at most a year. After that a vacuum deletes it.
        **options
            As for :meth:`plan`. With ``checks`` that fail nothing is staged. A table that ``if_missing`` describes is
            made now, though nothing is published yet. ``retries`` are of the staging: a change of rows is refused at
            its publish once somebody else has published what it has read, or another tool has changed the files.

        Returns
        -------
        StagedWrite
            The files, with their statistics; another process finds it by its ``write_id``.

        Raises
        ------
        CheckFailedError
            A check failed; nothing is left.
        InvalidInputError
            Also when the DataFrame has no rows, nothing would change, or the idempotency key was published before.
        SchemaMismatchError, StorageError, MetastoreError
            As for the write.

        Examples
        --------
        >>> with TableWriter(spark).stage(df, "mart.orders") as staged:
        ...     print(staged.rows, staged.dataframe().where("id < 0").count())
        2 0
        """
        if not 0 < expires_in.total_seconds() <= LONGEST_EXPIRY_SECONDS:
            raise InvalidInputError(f"expires_in={expires_in!r}: expected a timedelta, of a year at most")
        call = call_of(mode, options, df)
        require_rows(call, mode, df)
        steps = self._steps.of_call(df)
        if isinstance(call, RowCall):
            opened, record = steps.stage_rows(table, call, expires_in=expires_in)
        else:
            assert df is not None  # noqa: S101 - it was required
            opened, record = steps.stage(df, table, call, expires_in=expires_in)
        staged = FoundStaged(record, put_at=datetime.now(UTC), age_seconds=0.0)
        return StagedWrite(steps, opened, staged)

    def staged_write(self, table: str, write_id: str) -> StagedWrite:
        """Return a write that was staged before, by any process.

        Raises
        ------
        InvalidInputError
            No write of this ``write_id`` is staged any more, or not yet; the message says which.

        Examples
        --------
        >>> staged = TableWriter(spark).stage(df, "mart.orders")
        >>> TableWriter(spark).staged_write("mart.orders", staged.write_id).publish().rows
        2
        """
        services = self._services.open_to_write(table)
        services.require_owner()
        return StagedWrite(self._steps.of_call(), services, StagedWrites(services).find(write_id))

    def for_each_batch(
        self, table: str, mode: str, query_name: str, **options: Unpack[CallKeywords]
    ) -> Callable[[DataFrame, int], None]:
        """Return what Structured Streaming calls with each batch: ``stream.writeStream.foreachBatch(...)``.

        Each batch is one write, with ``<query_name>/<batch id>`` as its idempotency key: a batch that a restarted query
        runs again, although it was published, is recognised and does nothing. An empty batch writes nothing. Over Spark
        Connect the writes run beside the server, whose Python needs this library's requirements; S3's keys go there.

        Parameters
        ----------
        table
            ``database.table``.
        mode
            The name of the method that writes each batch, usually ``"append"``, or ``"merge"`` for a change feed.
        query_name
            Stays the same over restarts, and belongs to one checkpoint: batch ids start again at 0 with a new one.
        **options
            As for the method, without ``idempotency_key`` and ``write_uuid``.

        Raises
        ------
        InvalidInputError
            A value cannot be used.

        Examples
        --------
        >>> write_batch = TableWriter(spark).for_each_batch("mart.orders", mode="append", query_name="orders")
        >>> write_batch(df, 0)
        """
        write_here = batch_writer(partial(write_one, self._steps), table, mode, query_name, options)
        if not is_connect(self._spark):
            return write_here
        return TravellingBatchWriter(
            write_here=write_here, services=self._services, call=(table, mode, query_name, options)
        )

    def read(
        self,
        table: str,
        *,
        version: int | None = None,
        as_of: datetime | None = None,
        write_id: str | None = None,
        partitions: Collection[str] | None = None,
    ) -> DataFrame:
        """Return the rows that readers saw after a version, with the columns that the table has today.

        By default that is the newest version, before which nothing is in doubt; :meth:`version_of` tells its number.
        A write of rows that were computed from them ends in a ``ConflictError`` if one of its partitions has been
        published since that version, unless ``based_on`` says that it is meant. If ``schema="replace"`` has changed the
        columns of an unpartitioned table since, the rows have those of then.

        Filters on partition columns choose partitions before any file is listed. Files are listed for each query, and
        compared with the log: while a vacuum deletes some, a query ends with an error, never with fewer rows. Replaced
        files stay for the table property ``table_writer.retention``. Files of partitions that only other tools have
        written must be as old as the version; what such tools have dropped since is not among the rows.

        Parameters
        ----------
        version, as_of, write_id
            One of them at most: the number in the history, 0 for the state before the first; a time with a zone, which
            means the newest version of that time or before, by the times that the history shows, and in whole seconds,
            as it shows them, the end of its second; or the write.
        partitions
            Names such as ``"dt=2024-01-01"``; by default all.

        Raises
        ------
        InvalidInputError
            What readers saw then is not known, or its files are gone; the message says why, and of which versions no
            vacuum has deleted files.

        Examples
        --------
        >>> version = TableWriter(spark).overwrite_table(df, "mart.orders").version
        >>> TableWriter(spark).read("mart.orders", version=version).count()
        2
        """
        opened = self._services.open_table(self._services.table_name(table))
        opened.require_owner()
        past = Past(opened, version=version, as_of=as_of, write_id=write_id)
        past_partitions = past.partitions(partitions)
        rows = open_gateway(self._spark).past_rows(opened, past.subject, past_partitions, whole=partitions is None)
        return rows.alias(version_name(str(opened.table.name), past.version))

    def read_changes(self, table: str, from_version: int, to_version: int, *, key: Sequence[str] = ()) -> DataFrame:
        """Return the rows that differ between two versions, with the columns that the table has today.

        ===============  ===============================================================================
        without ``key``  whole rows, each as often as it is there more, or less, after the newer version
        with a ``key``   rows of a key that one version has alone; if both have it and another column
                         differs, the row before and the row after, also where it has changed partitions
        ===============  ===============================================================================

        The last column, ``_change_type``, is ``insert``, ``delete``, ``update_before`` or ``update_after``. Values are
        compared as ``EXCEPT ALL`` does: nulls are equal, NaN is NaN, and -0.0 is 0.0; maps in any order of their keys.

        Only partitions that :meth:`changes` lists are read. So a compaction changes no row, nor does a rollback to rows
        that were there; what other tools have changed without the log is not looked for. Files are looked up as by
        :meth:`read`, and :meth:`version_of` tells the newer version: as ``based_on`` it lets a write bring older rows
        back into this table.

        Parameters
        ----------
        table
            ``database.table``.
        from_version, to_version
            Numbers in the history; 0 is the state before the first.
        key
            Columns that tell rows apart. Rows with a null in them are compared as a whole. The job that computes the
            rows fails with the words of an ``InvalidInputError`` if a key is twice in the partitions that differ.

        Raises
        ------
        InvalidInputError
            As for :meth:`read`; or the first version is the newer, a column of the key does not exist or is no single
            value, a column is called ``_change_type``, or has values of Spark's variant, which cannot be compared.

        Examples
        --------
        >>> writer = TableWriter(spark)
        >>> before = writer.overwrite_table(df, "mart.orders").version
        >>> after = writer.update_where("mart.orders", {"id": "id + 10"}, where="id = 1").version
        >>> sorted(map(tuple, writer.read_changes("mart.orders", before, after).collect()))
        [(1, '2024-01-01', 'delete'), (11, '2024-01-01', 'insert')]
        """
        opened = self._services.open_table(self._services.table_name(table))
        return row_changes(self._spark, opened, from_version, to_version, key)

    def version_of(self, rows: DataFrame, table: str) -> int:
        """Return the version of a table that rows were read at, for ``based_on``; the oldest of several.

        Parameters
        ----------
        rows
            What :meth:`read` returned, or any DataFrame that was made of it.
        table
            ``database.table``.

        Raises
        ------
        InvalidInputError
            The DataFrame's query has no rows of :meth:`read` of this table.

        Examples
        --------
        >>> writer = TableWriter(spark)
        >>> version = writer.overwrite_table(df, "mart.orders").version
        >>> writer.version_of(writer.read("mart.orders").where("id > 0"), "mart.orders") == version
        True
        """
        opened = self._services.open_table(self._services.table_name(table))
        version = open_gateway(self._spark).version_read(rows, opened.table)
        if version is None:
            raise InvalidInputError(
                f"the DataFrame has no rows that read({str(opened.table.name)!r}) returned: their version is not known",
                table=str(opened.table.name),
            )
        return version

    def changes(self, table: str, from_version: int, to_version: int) -> ChangesReport:
        """List the partitions that two versions differ in: :meth:`Maintenance.changes` with the session's settings."""
        return self.maintenance.changes(str(self._services.table_name(table)), from_version, to_version)

    @property
    def maintenance(self) -> Maintenance:
        """Return the calls that need no Spark, with the session's settings: history, rollback, vacuum and others."""
        return Maintenance(services=self._services)

    def staged(self, table: str) -> StagedReport:
        """List the staged writes of a table: :meth:`Maintenance.staged` with the session's settings."""
        return self.maintenance.staged(str(self._services.table_name(table)))

    def recover(self, table: str) -> RecoverReport:
        """Resolve every publish that was left in doubt: :meth:`Maintenance.recover` with the session's settings."""
        return self.maintenance.recover(str(self._services.table_name(table)))

    def doctor(self, table: str, *, scratch_table: bool = False) -> DoctorReport:
        """Examine a table and what it depends on: :meth:`Maintenance.doctor` with this session's settings."""
        spark_conf = open_gateway(self._spark).spark_conf()
        name = str(self._services.table_name(table))
        return self.maintenance.doctor(name, spark_conf=spark_conf, scratch_table=scratch_table)

    def adopt(self, table: str, *, accept_loss: bool = False) -> None:
        """Declare that the files below a table's root are its own: :meth:`Maintenance.adopt`; a write says when."""
        self.maintenance.adopt(str(self._services.table_name(table)), accept_loss=accept_loss)

    def _change(
        self, change: RowChange, table: str, keywords: RowKeywords, rows: DataFrame | None = None
    ) -> RowsResult:
        return self._steps.of_call(rows).change_rows(table, RowCall(change=change, options=RowOptions(**keywords)))

    def _write(self, df: DataFrame, table: str, mode: WriteMode, keywords: WriteKeywords) -> WriteResult:
        return self._steps.of_call(df).write(df, table, Call(mode=mode, options=WriteOptions(**keywords)))
