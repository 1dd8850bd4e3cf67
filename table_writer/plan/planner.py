"""The order of step 1: look at the call, the table, the store and the log, and end in a plan."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import DataFrame
from pyspark.sql.types import IntegralType, StructType

from table_writer.config import SessionSettings, TableWriterConfig
from table_writer.errors import InvalidInputError
from table_writer.log.owner import Owner, claim_root, refuse_nested_roots
from table_writer.log.table_log import TableLog
from table_writer.metastore.protocol import Metastore
from table_writer.model.table import PartitionValues, Table
from table_writer.model.upload_spec import ParquetOptions, UploadSpec
from table_writer.model.write import TableLayout, WriteMode, WritePlan, new_write_id
from table_writer.plan.fit import fit
from table_writer.plan.table_schema import table_schema
from table_writer.storage import ObjectStore, StoreSettings, part_bytes

__all__ = ["Planned", "Planner"]

MIB = 1024 * 1024
LARGEST_PART_BYTES = 16 * MIB  # more memory per task for no speed that could be measured


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """A plan, and what the executors need for it."""

    plan: WritePlan
    rows: DataFrame
    spec: UploadSpec


class Planner:
    """Plans writes to one table.

    Parameters
    ----------
    table
        As the metastore described it, already found writable.
    layout, store, store_settings, log, metastore
        Services of the table.
    session, config
        What the Spark session and the user say.
    """

    def __init__(  # noqa: PLR0913  # one parameter per service: they are what a test replaces
        self,
        table: Table,
        layout: TableLayout,
        store: ObjectStore,
        store_settings: StoreSettings,
        log: TableLog,
        metastore: Metastore,
        *,
        session: SessionSettings,
        config: TableWriterConfig,
    ) -> None:
        self._table = table
        self._layout = layout
        self._store = store
        self._store_settings = store_settings
        self._log = log
        self._metastore = metastore
        self._session = session
        self._config = config

    def plan(self, df: DataFrame, mode: WriteMode) -> Planned:
        """Fix everything that a write needs; every bad call fails here, before a byte of data is written.

        Raises
        ------
        InvalidInputError
            The call, the table, the store or the session cannot be used; the message says what to change.
        SchemaMismatchError
            The DataFrame does not fit the table.
        """
        if not isinstance(df, DataFrame):
            raise InvalidInputError(
                f"expected a Spark DataFrame, got a {type(df).__name__}: spark.createDataFrame(...) makes one",
                table=str(self._table.name),
            )
        if df.isStreaming:
            raise InvalidInputError(
                "a streaming DataFrame cannot be written in one call: write each batch with"
                " df.writeStream.foreachBatch(lambda batch, _:"
                " writer.overwrite_partitions(batch, table, if_empty='ignore'))",
                table=str(self._table.name),
            )
        schema = table_schema(self._table)
        partition_names = [column.name for column in self._table.partition_columns]
        rows = fit(df, schema, str(self._table.name), partition_names)
        data_schema = StructType(schema.fields[: -len(partition_names)])
        write_id = new_write_id()
        spec = self._spec(write_id, data_schema, rows)
        spellings = self._spellings(StructType(schema.fields[-len(partition_names) :]))
        notes = self._own_root()
        state = self._log.read_state()
        plan = WritePlan(
            write_id=write_id,
            mode=mode,
            table=self._table,
            layout=self._layout,
            schema=data_schema.json(),
            base_version=state.newest,
            hint=state.listed_after,
            in_doubt=state.in_doubt,
            created_at=datetime.now(UTC),
            notes=notes,
            spellings=spellings,
        )
        return Planned(plan=plan, rows=rows, spec=spec)

    def _own_root(self) -> tuple[str, ...]:
        """Settle whose files these are; at the first write, also that no other table's are in the way."""
        notes: list[str] = []

        def first_write() -> None:
            tables = self._metastore.get_tables(self._table.name.database)
            refuse_nested_roots(self._store, self._layout, self._table, tables)
            notes.extend(_stray_files(self._store, self._layout))

        claim_root(self._store, self._layout, Owner.of(self._table, self._metastore.uri), first_write=first_write)
        return tuple(notes)

    def _spellings(self, partition_schema: StructType) -> dict[PartitionValues, PartitionValues]:
        """Map Spark's spelling of integers to the metastore's, where another tool wrote ``01`` for 1."""
        integral = [isinstance(field.dataType, IntegralType) for field in partition_schema]
        if not any(integral):
            return {}
        spelled: dict[PartitionValues, PartitionValues] = {}
        for values in self._metastore.get_partition_names(self._table.name):
            usual = tuple(
                _usual_integer(value) if is_integral else value
                for value, is_integral in zip(values, integral, strict=True)
            )
            if usual in spelled:
                raise InvalidInputError(
                    f"the metastore has one partition of {self._table.name} twice, as {values} and {spelled[usual]}:"
                    " drop one of them, since readers see the rows of both",
                    table=str(self._table.name),
                )
            spelled[usual] = values
        return {usual: values for usual, values in spelled.items() if usual != values}

    def _spec(self, write_id: str, data_schema: StructType, rows: DataFrame) -> UploadSpec:
        configured = self._config.part_size_bytes or part_bytes(self._layout.root, self._session.hadoop)
        conf = rows.sparkSession.conf
        partition_count = len(self._table.partition_columns)
        return UploadSpec(
            write_id=write_id,
            key_prefix=self._layout.data(write_id).key,
            store=self._store_settings,
            data_columns=tuple(rows.columns[:-partition_count]),
            partition_columns=tuple(column.name for column in self._table.partition_columns),
            parquet=ParquetOptions(
                compression=_codec(self._table, conf.get("spark.sql.parquet.compression.codec", "snappy") or "snappy"),
                timestamp_type=conf.get("spark.sql.parquet.outputTimestampType", "INT96") or "INT96",
                spark_schema_json=data_schema.json(),
                spark_version=self._session.spark_version,
                legacy_format=(conf.get("spark.sql.parquet.writeLegacyFormat", "false") or "").lower() == "true",
            ),
            part_size_bytes=self._config.part_size_bytes or min(configured or LARGEST_PART_BYTES, LARGEST_PART_BYTES),
            upload_threads=self._config.upload_threads,
            max_open_files=self._config.max_open_files,
            buffer_bytes=self._config.buffer_bytes,
            row_group_bytes=self._config.row_group_bytes or self._block_size_bytes(),
        )

    def _block_size_bytes(self) -> int:
        text = self._session.hadoop.get("parquet.block.size", str(128 * MIB))
        if not text.isdecimal():
            raise InvalidInputError(f"parquet.block.size={text!r} is not a number of bytes")
        return int(text)


def _stray_files(store: ObjectStore, layout: TableLayout) -> list[str]:
    """Report files that belong to no partition; markers such as ``_SUCCESS`` are no data."""
    names = [key.rpartition("/")[2] for key in store.list_files(layout.root.key)]
    data = [name for name in names if not name.startswith(("_", "."))]
    if not data:
        return []
    shown = ", ".join(data[:3]) + (", …" if len(data) > 3 else "")
    return [f"{len(data)} file(s) lie directly in {layout.root}: {shown}. No partition reads them; they stay."]


def _usual_integer(value: str) -> str:
    return str(int(value)) if re.fullmatch("[+-]?[0-9]+", value) else value


def _codec(table: Table, session_codec: str) -> str:
    """Return the codec Spark would use: the table's option, then its property, then the session's setting."""
    named = {key.lower(): value for key, value in {**table.parameters, **table.serde_parameters}.items()}
    return (named.get("compression") or named.get("parquet.compression") or session_codec).lower()
