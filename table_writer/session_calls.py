"""What a writer is made of, and its calls that need no Spark: those of ``Maintenance``, with the session's settings."""

from __future__ import annotations

from pyspark.sql import SparkSession

from table_writer.checked import checked
from table_writer.config import TableWriterConfig
from table_writer.display.reports import DoctorReport, RecoverReport
from table_writer.display.staged_report import StagedReport
from table_writer.maintenance import Maintenance
from table_writer.spark_services import SessionServices
from table_writer.steps import Steps

__all__ = ["MaintenanceCalls", "SessionBound"]


@checked
class SessionBound:
    """A Spark session, and the services that its settings lead to."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        config: TableWriterConfig | None = None,
        services: SessionServices | None = None,
    ) -> None:
        self._spark = spark
        self._services = services or SessionServices(spark, config or TableWriterConfig())
        self._steps = Steps(spark, self._services)


@checked
class MaintenanceCalls(SessionBound):
    """Calls on the tables of a session that write no rows."""

    @property
    def _keeper(self) -> Maintenance:
        return Maintenance(services=self._services.services)

    def staged(self, table: str) -> StagedReport:
        """List the writes of a table that are staged.

        The same as :meth:`Maintenance.staged`, with the session's settings.

        Parameters
        ----------
        table
            ``database.table``.

        Examples
        --------
        >>> TableWriter(spark).staged("mart.orders")
        mart.orders: nothing is staged
        """
        return self._keeper.staged(str(self._services.table_name(table)))

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
        return self._keeper.recover(str(self._services.table_name(table)))

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
        return self._keeper.doctor(str(self._services.table_name(table)), spark_conf=spark_conf)

    def adopt(self, table: str, *, accept_loss: bool = False) -> None:
        """Declare that the files below a table's root are this table's, after it was renamed or created again.

        The log and all files stay. Needed only when a write says so.

        Parameters
        ----------
        table
            ``database.table``.
        accept_loss
            As for :meth:`Maintenance.adopt`.
        """
        self._keeper.adopt(str(self._services.table_name(table)), accept_loss=accept_loss)
