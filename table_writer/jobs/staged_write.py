"""A staged write as an object for callers: look at it, check it, publish it or discard it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Self

from pyspark.sql import DataFrame

from table_writer.check.run import as_checks, require_passed
from table_writer.checked import checked
from table_writer.errors import InvalidInputError, TableWriterError
from table_writer.jobs.run import Steps
from table_writer.jobs.session_services import staged_frame
from table_writer.jobs.staged_writes import StagedWrites
from table_writer.model.column_statistics import ColumnStatistics
from table_writer.model.location import Location
from table_writer.model.partition_facts import PartitionFacts
from table_writer.model.staged_write import FoundStaged, StagedRecord
from table_writer.model.table import name_in
from table_writer.progress import Stopwatch
from table_writer.protocol.table.open_table import OpenTable
from table_writer.reports.checks import CheckResults
from table_writer.reports.staged_report import StagedDetail, staged_detail, staged_partitions
from table_writer.reports.write_result import WriteResult

logger = logging.getLogger(__name__)
NOT_STAGED: Final = "was published or discarded: nothing is staged any more"


@dataclass(frozen=True, kw_only=True, slots=True)
class StagedFile:
    """One file of a staged write.

    Parameters
    ----------
    location
        Its full URI.
    partition
        Hive's name of its partition; empty for an unpartitioned table.
    bytes
        Its size.
    """

    location: str
    partition: str
    bytes: int


@checked
class StagedWrite:
    """Files of a write that no table points at yet, in a ``with`` block or for longer than a process.

    =========================  ===============================================================
    then                       the write
    =========================  ===============================================================
    :meth:`publish`            is what readers see, all partitions in one metastore call
    :meth:`discard`            is gone, and nobody can publish it any more
    end of the ``with`` block  is discarded, unless it was published
    nothing                    stays until it expires; then a vacuum deletes it
    =========================  ===============================================================

    Any process can publish or discard it by its ``write_id``: ``TableWriter.staged_write``, ``Maintenance.publish``,
    ``table-writer publish``. Whoever publishes meets the same rules as any write: if somebody else has published one
    of its partitions since the write was planned, that is a ``ConflictError``, and the write stays staged.

    Made by :meth:`TableWriter.stage` and :meth:`TableWriter.staged_write`.

    Examples
    --------
    >>> from table_writer.check import not_null
    >>> with TableWriter(spark).stage(df, "mart.orders") as staged:
    ...     assert staged.dataframe().where("id < 0").isEmpty()
    ...     results = staged.check(not_null("id"))
    ...     result = staged.publish()
    >>> result.rows, [check.passed for check in result.checks]
    (2, [True])
    """

    def __init__(self, steps: Steps, opened: OpenTable, staged: FoundStaged) -> None:
        self._steps = steps
        self._opened = opened
        self._staged_writes = StagedWrites(opened)
        self._staged = staged
        self._is_over = False

    @property
    def write_id(self) -> str:
        """Return the ``write_id``, which every file name holds."""
        return self._record.plan.write_id

    @property
    def table(self) -> str:
        """Return the table as ``database.table``."""
        return str(self._record.plan.table.name)

    @property
    def mode(self) -> str:
        """Return the mode of the write, or the name of the call that changes rows."""
        return self._record.called

    @property
    def created_at(self) -> datetime:
        """Return when the write was planned."""
        return self._record.plan.created_at

    @property
    def expires_at(self) -> datetime:
        """Return when a vacuum may delete the write, by the store's clock."""
        return self._staged.expires_at

    @property
    def rows(self) -> int:
        """Return the number of rows in all files."""
        return self._record.files.row_count

    @property
    def partitions(self) -> tuple[PartitionFacts, ...]:
        """Return the partitions with rows, files and bytes, in the order of their values."""
        return staged_partitions(self._record)

    @property
    def files(self) -> tuple[StagedFile, ...]:
        """Return the files with their sizes; this lists the store, one request for 1,000 files."""
        plan = self._record.plan
        sizes = {file.key: file.size_bytes for file in self._opened.store.list(plan.data_location.key)}
        root = plan.layout.root
        return tuple(
            StagedFile(
                location=str(Location(root.scheme, root.bucket, key)).removesuffix("/"),
                partition=name_in(plan.table, partition.values),
                bytes=sizes[key],
            )
            for partition in self._record.files.partitions
            for key in partition.keys
            if key in sizes
        )

    @property
    def statistics(self) -> Mapping[str, ColumnStatistics]:
        """Return the column statistics from the footers of the files; nothing is known of a column that is missing."""
        return self._record.files.statistics

    @property
    def checks(self) -> CheckResults:
        """Return the newest result of each check, without example rows."""
        return CheckResults(self._record.files.checks)

    def dataframe(self) -> DataFrame:
        """Return the staged rows as the table's readers would see them: its columns and types, and nothing else.

        For an append these are the new rows alone.
        """
        self._require_open()
        return staged_frame(self._steps.spark, self._opened, self._record.files)

    def check(self, *checks: object) -> CheckResults:
        """Run data-quality checks on the staged files, and keep the results with them.

        Parameters
        ----------
        *checks
            Checks of :mod:`table_writer.check`, or callables that take the staged DataFrame. One with the name of an
            earlier one takes its result's place.

        Returns
        -------
        CheckResults
            A tuple of each ``CheckResult``, in the order of the checks; it shows as a table.

        Raises
        ------
        CheckFailedError
            One of severity ``"error"`` failed. The write cannot be published until that check passes.
        InvalidInputError
            One of them is no check, or does not fit the columns.
        """
        self._require_open()
        with self._steps.show_progress(self.table, self.mode, self.write_id):
            watch = Stopwatch(self._opened.metastore)
            results = self._steps.check(self._record.files, self._opened, as_checks(checks), watch)
        self._staged = self._staged_writes.with_checks(self.write_id, results)
        require_passed(results, self.table, self.write_id)
        return results

    def publish(self) -> WriteResult:
        """Publish the write: all its partitions in one metastore call, as :meth:`Maintenance.publish` does.

        The columns that it adds to the table are added first. Unless the outcome is unknown, it stays staged after an
        error.
        """
        self._require_open()
        result = self._steps.publish(self._record, self._opened)
        self._is_over = True
        return result

    def discard(self) -> None:
        """Delete the write, so that nobody can publish it. A second call, or one after a publish, does nothing.

        Raises
        ------
        ConflictError
            Another process has published it, or is about to.
        """
        if self._is_over:
            return
        self._steps.discard(self._record, self._opened)
        self._is_over = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.discard()
        except TableWriterError as failure:
            if kind is None:
                raise
            logger.warning("write_id=%s was not discarded: %s", self.write_id, failure)

    def __repr__(self) -> str:
        return self._detail().to_text()

    def _repr_html_(self) -> str:
        return self._detail()._repr_html_()

    def _detail(self) -> StagedDetail:
        return staged_detail(self._staged, notes=(NOT_STAGED,) if self._is_over else ())

    @property
    def _record(self) -> StagedRecord:
        return self._staged.record

    def _require_open(self) -> None:
        if self._is_over:
            raise InvalidInputError(
                f"write {self.write_id} of {self.table} {NOT_STAGED}", table=self.table, write_id=self.write_id
            )
