"""Services for the tables of a Spark session, whose settings name metastore and store."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import StructField, StructType

from table_writer.check.check import Audit
from table_writer.config import SessionSettings, TableWriterConfig
from table_writer.errors import InvalidInputError
from table_writer.jobs.plan.file_options import file_options, is_arrows, require_writable
from table_writer.jobs.plan.parquet_settings import FileSettings
from table_writer.jobs.plan.types import partition_schema
from table_writer.jobs.replaced import replaced_partitions, replaced_rows
from table_writer.metastore.protocol import Metastore
from table_writer.metastore.settings import GlueSettings
from table_writer.model.new_table import NewTable
from table_writer.model.table import NULL_PARTITION, SPARK_CATALOG, Table, TableName
from table_writer.model.table_kind import PROVIDER_PARAMETER
from table_writer.model.write import WrittenFiles
from table_writer.protocol.log.owner import refuse_nested_roots
from table_writer.protocol.table.open_table import OpenTable
from table_writer.protocol.table.root_markers import refuse_marked_root
from table_writer.protocol.table.services import AnySettings, Services, open_metastore
from table_writer.spark import open_gateway
from table_writer.spark.sql import SPARK_ERRORS, in_partitions, quoted, without_query_log
from table_writer.storage.kinds import KINDS, SECRETS
from table_writer.storage.object_store import ObjectStore, StoreSettings, open_store


class SessionServices(Services):
    """The services for the tables of one Spark session; tests give doubles for the two functions."""

    def __init__(
        self,
        spark: SparkSession,
        config: TableWriterConfig,
        *,
        open_metastore: Callable[[AnySettings], Metastore] = open_metastore,
        open_object_store: Callable[[StoreSettings], ObjectStore] = open_store,
    ) -> None:
        self._spark = spark
        session = open_gateway(spark).settings({**config.hadoop, **config.metastore_setting})
        _require_metastore(session, config)
        super().__init__(session, config, open_metastore=open_metastore, open_object_store=open_object_store)

    def table_name(self, text: str) -> TableName:
        """Read a table's name; only one without a database asks Spark, which waits long for a metastore."""
        if "." in text:
            return TableName.parse(text)
        catalog = self._spark.catalog.currentCatalog()
        if catalog != SPARK_CATALOG:
            raise InvalidInputError(
                f"{text!r} would be a table of catalog {catalog!r}, which this session uses (USE), and this library"
                f" writes tables of {SPARK_CATALOG}: name the database too, as in 'mart.orders'"
            )
        return TableName.parse(text, default_database=self._spark.catalog.currentDatabase())

    def require_new(self, name: TableName, new: NewTable) -> None:
        """Refuse a table that Spark would make, and that no write would take: its place, its properties, its codec.

        A place where a table was before is taken as it is: a table is made over it to get its rows back.
        """
        draft = Table(
            name=name,
            kind="EXTERNAL_TABLE" if new.location else "MANAGED_TABLE",
            location=new.location or self._database_location(name.database),
            columns=(),
            partition_columns=(),
            parameters={**new.table_properties, PROVIDER_PARAMETER: new.provider},
            serde_parameters=new.table_options,
        )
        if not draft.location:
            return
        try:
            opened = self.open_known_table(require_writable(draft, name, self.metastore.uri))
            opened.require_properties()
            if is_arrows(draft):
                # the session's codec is not checked: it may be another tomorrow
                file_options(draft, lambda _, default: default, FileSettings(draft, {}), "", "")
            # this fails now if the bucket does not exist or refuses us
            if new.location and opened.store.get(opened.layout.owner_key) is None:
                table_names = (
                    table_name
                    for database in self.metastore.get_databases()
                    for table_name in self.metastore.get_tables(database)
                )
                refuse_nested_roots(opened.store, opened.layout, draft, table_names)
                refuse_marked_root(opened.store, opened.layout.root, draft)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"table {name} was not made, since no write could use it: {error.message}", table=str(name)
            ) from error

    def _database_location(self, database: str) -> str:
        """Return the location where Spark makes tables of a database; empty if there is no such database."""
        try:
            with without_query_log():
                return str(self._spark.catalog.getDatabase(f"{SPARK_CATALOG}.{quoted(database)}").locationUri)
        except SPARK_ERRORS:
            return ""

    def open_to_write(self, text: str) -> OpenTable:
        """Look up a table that is to be written, and open its store.

        An ``InvalidInputError`` says that it does not exist or cannot be written, or that its properties or its store
        are not understood.
        """
        self._renew_keys()
        opened = self.open_table(self.table_name(text), require_writable)
        opened.require_properties()
        return opened

    def _renew_keys(self) -> None:
        """Take the keys of stores that were set in the session since the last call: a long-lived session renews them.

        Executors get them with the next job; a store is opened anew for them.
        """
        hadoop = self.session.hadoop
        names = {*filter(SECRETS.fullmatch, hadoop), *(name for kind in KINDS for name in kind.keys)}
        current_values = open_gateway(self._spark).hadoop_values(names - self.config.hadoop.keys())
        if any(hadoop.get(name) != value for name, value in current_values.items()):
            self.session = replace(self.session, hadoop={**hadoop, **current_values})


def _require_metastore(session: SessionSettings, config: TableWriterConfig) -> None:
    """Refuse a session that hides where its metastore is, and name the setting that says it."""
    uris = (session.hadoop.get("hive.metastore.uris", ""),) if session.hadoop.get("hive.metastore.uris") else ()
    if session.unseen and not uris and config.metastore != "glue" and not GlueSettings.are_meant(session.hadoop, uris):
        raise InvalidInputError(
            f"this session does not show where its metastore is: {session.unseen}. Give the address,"
            " TableWriterConfig(metastore_uris=['thrift://host:9083']), or start the server with"
            " spark.hadoop.hive.metastore.uris"
        )


def audit_of(spark: SparkSession, opened: OpenTable, files: WrittenFiles) -> Audit:
    """Return what checks may look at; nothing is read before a check asks for it."""
    return Audit(
        spark=spark,
        table=str(opened.table.name),
        write_id=files.plan.write_id,
        schema=_schema(opened, files),
        partition_columns=opened.table.partition_columns,
        partitions=files.partitions,
        statistics=files.statistics,
        dataframe=partial(staged_frame, spark, opened, files),
        replaced_rows=partial(_replaced_rows, spark, opened, files),
        replaced_partitions=partial(replaced_partitions, opened, files),
        examples=opened.config.check_examples,
    )


def staged_frame(spark: SparkSession, opened: OpenTable, staged: WrittenFiles) -> DataFrame:
    """Read exactly the staged files, with the columns and types that the table's readers will see."""
    schema = _schema(opened, staged)
    if not staged.partitions:
        return spark.createDataFrame([], schema)
    plan = replace(staged.plan, table=opened.table)  # format and SerDe are not recorded with a staged write
    source = open_gateway(spark).files(plan, schema).read([partition.values for partition in staged.partitions])
    count = len(schema) - len(opened.table.partition_columns)

    def typed_column(position: int, stored: StructField, field: StructField) -> Column | str:
        """Return a column with the table's type; partition values are text, in which Hive's reader knows no null."""
        is_same = (stored.name, stored.dataType, stored.metadata) == (field.name, field.dataType, field.metadata)
        if is_same and position < count:  # so are almost all columns, and there may be thousands
            return quoted(stored.name)
        column = F.col(quoted(stored.name))
        value = column if position < count else F.when(column != NULL_PARTITION, column)
        return value.cast(field.dataType).alias(field.name, metadata=field.metadata)

    return source.select(*map(typed_column, range(len(schema)), source.schema, schema))


def _schema(opened: OpenTable, files: WrittenFiles) -> StructType:
    """Return the columns of the files, with those that the table is yet to get, and the partition columns."""
    data = StructType.fromJson(json.loads(files.plan.schema))
    return StructType([*data, *partition_schema(opened.table)])


def _replaced_rows(spark: SparkSession, opened: OpenTable, files: WrittenFiles) -> int:
    """Count the rows that readers would see no more: only what the metastore has no count of is read."""
    known_count, unknown_values = replaced_rows(opened, files)
    if not unknown_values:
        return known_count
    rows = spark.table(opened.table.name.sql)
    return known_count + rows.where(in_partitions(partition_schema(opened.table).fields, unknown_values)).count()
