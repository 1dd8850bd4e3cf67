"""The calls of a writer that stop before step 5."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Unpack

from pyspark.sql import DataFrame

from table_writer.checked import checked
from table_writer.errors import InvalidInputError
from table_writer.model.staged_write import LONGEST_EXPIRY_SECONDS, FoundStaged
from table_writer.model.write import WriteMode
from table_writer.options import WriteKeywords, WriteOptions, write_mode
from table_writer.session_calls import SessionBound
from table_writer.staged import StagedWrite
from table_writer.staged_writes import StagedWrites

__all__ = ["StagingCalls"]


@checked
class StagingCalls(SessionBound):
    """Stages writes, and finds what was staged."""

    def stage(
        self,
        df: DataFrame,
        table: str,
        mode: str = WriteMode.OVERWRITE_PARTITIONS.value,
        *,
        expires_in: timedelta = timedelta(days=1),
        **options: Unpack[WriteKeywords],
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
        df, table
            As for the write.
        mode
            The name of the method, as for :meth:`plan`.
        expires_in
            How long it stays if nobody publishes or discards it; at most a year. After that a vacuum deletes it.
        **options
            As for the write. With ``checks`` that fail nothing is staged. A table that ``if_missing`` describes is made
            now, though nothing is published yet.

        Returns
        -------
        StagedWrite
            The files, with their statistics; another process finds it by its ``write_id``.

        Raises
        ------
        CheckFailedError
            A check failed; nothing is left.
        InvalidInputError
            Also when the DataFrame has no rows, or the idempotency key was published before.
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
        services, record = self._steps.stage(
            df, table, write_mode(mode), WriteOptions(**options), expires_in=expires_in
        )
        found = FoundStaged(record, put_at=datetime.now(UTC), age_seconds=0.0)
        return StagedWrite(self._spark, self._steps, services, found)

    def staged_write(self, table: str, write_id: str) -> StagedWrite:
        """Return a write that was staged before, by any process.

        Parameters
        ----------
        table
            ``database.table``.
        write_id
            As :meth:`staged` lists it.

        Raises
        ------
        InvalidInputError
            It is not staged any more, or not yet; the message says which.

        Examples
        --------
        >>> staged = TableWriter(spark).stage(df, "mart.orders")
        >>> TableWriter(spark).staged_write("mart.orders", staged.write_id).publish().rows
        2
        """
        services = self._services.open_table(table, engine="spark")
        services.require_owner()
        return StagedWrite(self._spark, self._steps, services, StagedWrites(services).find(write_id))
