"""The I/O manager: which table an asset is, what a run replaces of it, and what a downstream asset reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from dagster import ConfigurableIOManager, Failure, InputContext, MetadataValue, OutputContext, TableColumn, TableSchema
from pydantic import ConfigDict, Field
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql.functions import expr
from pyspark.sql.types import DataType, StructType

from table_writer.errors import InvalidInputError, TableWriterError
from table_writer.integrations.dagster.partitions import expressions_of, partition_columns, predicate
from table_writer.integrations.declared import OF_MERGE, OF_WRITE, declared_checks, kind_of, require_known, session
from table_writer.integrations.retries import meets_it_again
from table_writer.model.new_table import NewTable
from table_writer.model.table import TableName
from table_writer.reports.write_result import WriteResult
from table_writer.spark.types import shown_type
from table_writer.writer import TableWriter

OPTIONS: Final = "table_writer"  # in the metadata of an asset
MODES: Final = ("overwrite", "append", "merge")
OWN_OPTIONS: Final = {"mode", "partition_by", "format", "compression", "location", "comment", "properties"}


class HiveIOManager(ConfigurableIOManager):
    """Stores Spark DataFrames as Hive tables: readers see all old rows of a materialization's partitions, or all new.

    The last part of an asset's key is its table. The database is ``schema`` of the asset's metadata, else of this
    manager, else the part of the key before the table, else ``default``. An op's output is named by ``table`` and
    ``schema`` of its metadata. The first materialization makes the table.

    ==============================  ==============================  ============================================
    asset                           a materialization               an input
    ==============================  ==============================  ============================================
    not partitioned                 replaces the table              has all rows
    partitioned                     replaces the run's partitions,  has the rows of the partitions that the
                                    those without rows go; a row    partition mapping says
                                    outside of them is an error
    ==============================  ==============================  ============================================

    Metadata of an asset:

    ``partition_expr``
        The column of the table by which partitions are told apart, as of Dagster's own managers, or an expression over
        partition columns; of multi-partitions one for each dimension, by name. Dates and timestamps are compared with
        the time window of the keys, as are texts in the format of the keys.
    ``table_writer``
        ``mode``: ``"overwrite"``, ``"append"`` (not of a partitioned asset) or ``"merge"``; the options of that call,
        see :class:`~table_writer.WriteOptions` and ``TableWriter.merge``; and ``partition_by``, ``format``,
        ``compression``, ``location``, ``comment``, ``properties`` of a new table. An item of ``checks`` is one of
        :mod:`table_writer.check` by name, ``{"not_null": "id"}``, or the path of a check, of a function that takes the
        rows, or of a list of them.
    ``columns``
        Of an input: the columns to load.

    Errors that a retry would meet again are a ``Failure`` that no retry policy tries again: a wrong call, a schema that
    does not fit, a failed check, an unknown outcome. Conflicts, and failures of storage and metastore, are tried again.

    Parameters
    ----------
    schema
        The database of assets that name none.
    spark_config
        Settings of the Spark session, if none runs yet.

    Examples
    --------
    >>> manager = HiveIOManager(schema="mart")
    """

    model_config = ConfigDict(extra="forbid")  # a misspelled name is no default

    schema_: str | None = Field(default=None, alias="schema", description="The database of assets that name none.")
    spark_config: dict[str, str] = Field(default={}, description="Settings of the Spark session, if none runs yet.")

    def handle_output(self, context: OutputContext, obj: DataFrame) -> None:
        """Publish an asset's rows, and tell Dagster what was published."""
        with _failing_for_good():
            if not isinstance(obj, DataFrame):
                raise InvalidInputError(
                    f"{context.name} returned a {kind_of(obj)}: expected a Spark DataFrame. An asset that stores"
                    " its rows itself is annotated with -> None"
                )
            table = self._table_of(context, context.definition_metadata)
            result = _publish(context, obj, table)
        _describe(context, obj, table, result)

    def load_input(self, context: InputContext) -> DataFrame:
        """Return the rows of the partitions that the input is of."""
        wanted = context.dagster_type.typing_type
        if wanted is not Any and isinstance(wanted, type) and not issubclass(DataFrame, wanted):
            raise InvalidInputError(
                f"input {context.name} is a {wanted.__name__}: rows are loaded as a Spark DataFrame"
            )
        metadata = (context.upstream_output.definition_metadata if context.upstream_output else None) or {}
        table = self._table_of(context, metadata)
        spark = session(self.spark_config)
        if context.has_asset_partitions and not context.asset_partition_keys:
            exists = spark.catalog.tableExists(table.sql)
            return spark.table(table.sql).where("false") if exists else spark.createDataFrame([], StructType([]))
        rows = spark.table(table.sql)
        if context.has_asset_partitions:
            rows = rows.where(_selected(context, metadata, rows))
        columns = (context.definition_metadata or {}).get("columns")
        return rows.select(*columns) if columns else rows

    def _table_of(self, context: OutputContext | InputContext, metadata: Mapping[str, Any]) -> TableName:
        path = list(context.asset_key.path) if context.has_asset_key else [metadata.get("table") or context.name]
        database = metadata.get("schema") or self.schema_ or (path[-2] if len(path) > 1 else "default")
        return TableName.parse(f"{database}.{path[-1]}")


@contextmanager
def _failing_for_good() -> Iterator[None]:
    try:
        yield
    except TableWriterError as error:
        if meets_it_again(error):
            raise Failure(str(error), metadata={"error": error.code}, allow_retries=False) from error
        raise


def _publish(context: OutputContext, rows: DataFrame, table: TableName) -> WriteResult:
    """Make the call that the asset's metadata asks for."""
    options = dict((context.definition_metadata or {}).get(OPTIONS) or {})
    mode = options.pop("mode", MODES[0])
    if mode not in MODES:
        raise InvalidInputError(f"mode={mode!r} in the metadata {OPTIONS}: expected one of {', '.join(MODES)}")
    known = OF_MERGE | {"on"} if mode == "merge" else OF_WRITE
    require_known(options, known | OWN_OPTIONS, f"metadata {OPTIONS!r}")
    new_table = {name: options.pop(name) for name in OWN_OPTIONS & set(options)}
    if "checks" in options:
        options["checks"] = declared_checks(options["checks"])
    options = {"tags": {"dagster_run_id": context.run_id}, **options}
    spark = rows.sparkSession
    if context.has_asset_partitions:
        exists = spark.catalog.tableExists(table.sql)
        options["where"] = _selected(
            context, context.definition_metadata or {}, spark.table(table.sql) if exists else rows
        )
        if not exists and "partition_by" not in new_table:
            new_table["partition_by"] = _new_partitions(context, table)
    writer = TableWriter(spark)
    if mode == "merge":
        writer.create_table(rows, str(table), if_not_exists=True, **new_table)
        return writer.merge(rows, str(table), **options)
    options["if_missing"] = NewTable(**new_table)
    if mode == "append":
        if context.has_asset_partitions:
            raise InvalidInputError(f"mode='append' of {table}: a second run of a partition would add its rows again")
        key = f"dagster/{context.run_id}/{context.step_key}/{context.name}"  # a retry after a success does nothing
        return writer.append(rows, str(table), **{"if_empty": "ignore", "idempotency_key": key, **options})
    options.setdefault("if_empty", "replace")
    return (writer.overwrite_partitions if context.has_asset_partitions else writer.overwrite_table)(
        rows, str(table), **options
    )


def _expressions(context: OutputContext | InputContext, metadata: Mapping[str, Any]) -> dict[str, str]:
    asset = context.asset_key.to_user_string()
    return expressions_of(asset, metadata.get("partition_expr"), context.asset_partitions_def)


def _new_partitions(context: OutputContext, table: TableName) -> list[str]:
    """Return the columns that a new table is partitioned by."""
    expressions = _expressions(context, context.definition_metadata or {})
    columns = partition_columns(expressions)
    if columns is None:
        raise InvalidInputError(
            f"{table} is to be made, and partition_expr {list(expressions.values())} is no column: say by which columns"
            f' it is partitioned, in metadata={{"{OPTIONS}": {{"partition_by": […]}}}}'
        )
    return columns


def _selected(context: OutputContext | InputContext, metadata: Mapping[str, Any], rows: DataFrame) -> str:
    """Return the predicate of the context's partition keys."""

    def type_of(expression: str) -> DataType:
        try:
            return rows.select(expr(expression)).schema[0].dataType
        except AnalysisException as error:
            raise InvalidInputError(f"partition_expr {expression!r} does not fit the rows: {error}") from error

    expressions = _expressions(context, metadata)
    return predicate(context.asset_partition_keys, context.asset_partitions_def, expressions, type_of)


def _describe(context: OutputContext, rows: DataFrame, table: TableName, result: WriteResult) -> None:
    """Attach to the materialization what was published."""
    columns = [TableColumn(name=field.name, type=shown_type(field.dataType)) for field in rows.schema.fields]
    locations = {partition.location for partition in result.partitions if partition.location}
    facts: dict[str, Any] = {
        "dagster/table_name": str(table),
        "dagster/column_schema": MetadataValue.table_schema(TableSchema(columns=columns)),
        "rows": result.rows,
        "files": result.files,
        "bytes": result.bytes,
        "write_id": result.write_id,
        "report": MetadataValue.md(f"```\n{result.to_text()}\n```"),
        **({"version": result.version} if result.version is not None else {}),
        **({"dagster/uri": locations.pop()} if len(locations) == 1 else {}),
    }
    if not context.has_asset_partitions:
        facts |= {"dagster/row_count": result.rows} if result.mode == "overwrite_table" else {}
    elif len(context.asset_partition_keys) == 1:
        facts["dagster/partition_row_count"] = result.rows
    said = set(context.output_metadata or {})
    context.add_output_metadata({name: value for name, value in facts.items() if name not in said})
