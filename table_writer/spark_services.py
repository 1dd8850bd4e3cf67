"""Services for the tables of a Spark session: its own settings say where metastore and store are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyspark.sql import SparkSession

from table_writer.config import TableWriterConfig
from table_writer.metastore.hive import HiveMetastore
from table_writer.metastore.protocol import Metastore
from table_writer.metastore.settings import MetastoreSettings
from table_writer.model.table import TableName
from table_writer.plan.planner import Planner
from table_writer.plan.session import read_session
from table_writer.plan.table_check import require_writable
from table_writer.services import Services, TableServices
from table_writer.storage import ObjectStore, StoreSettings, open_store

__all__ = ["SessionServices"]


class SessionServices:
    """Opens services for the tables of one Spark session.

    Parameters
    ----------
    spark, config
        The session, and what the user says beside its settings.
    open_metastore, open_object_store
        Replaced by doubles in tests.
    """

    def __init__(
        self,
        spark: SparkSession,
        config: TableWriterConfig,
        *,
        open_metastore: Callable[[MetastoreSettings], Metastore] = HiveMetastore,
        open_object_store: Callable[[StoreSettings], ObjectStore] = open_store,
    ) -> None:
        self._spark = spark
        session = read_session(spark, config.hadoop)
        self.services = Services(session, config, open_metastore=open_metastore, open_object_store=open_object_store)

    @property
    def metastore(self) -> Metastore:
        """The session's metastore."""
        return self.services.metastore

    def table_name(self, text: str) -> TableName:
        """Read a table name as the session would."""
        return TableName.parse(text, default_database=self._spark.catalog.currentDatabase())

    def open_table(self, text: str, *, engine: str = "arrow") -> TableServices:
        """Look a table up that is to be written by an engine, and open its store.

        Raises
        ------
        InvalidInputError
            The table does not exist or cannot be written, its properties or its store are not understood.
        MetastoreError, StorageError
            One of the two cannot be reached.
        """
        services = self.services.open_table(self.table_name(text), partial(require_writable, engine=engine))
        services.require_properties()
        return services

    @staticmethod
    def planner(services: TableServices) -> Planner:
        """Step 1, the only one that needs the services and Spark at once."""
        return Planner(
            services.table,
            services.layout,
            services.store,
            services.store_settings,
            services.log,
            services.metastore,
            session=services.session,
            config=services.config,
        )
