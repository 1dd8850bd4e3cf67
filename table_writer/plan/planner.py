"""The order of step 1: look at the call, the table, the store and the log, and end in a plan."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from table_writer.config import WriteOptions
from table_writer.errors import InvalidInputError, counted
from table_writer.log.files import existing_values
from table_writer.log.open_table import OpenTable
from table_writer.log.owner import other_tables, refuse_left_log, refuse_nested_roots, require_in_place, take_root
from table_writer.log.table_log import LogState
from table_writer.model.new_table import SchemaMode
from table_writer.model.partition_value import Spellings, has_spellings
from table_writer.model.table import PartitionValues, TableName
from table_writer.model.upload_spec import UploadSpec
from table_writer.model.write import (
    Scope,
    TableLayout,
    WriteMode,
    WritePlan,
    every_partition,
    new_write_id,
    no_partition,
)
from table_writer.plan.distribution import batch_rows, fixed_row_bytes, laid_out
from table_writer.plan.evolve import require_spellable
from table_writer.plan.file_options import engine_of, file_options
from table_writer.plan.fit import Fitted, fit
from table_writer.plan.types import exact_type, partition_schema, table_schema
from table_writer.plan.where import Where
from table_writer.spark import open_gateway
from table_writer.storage.hadoop import part_bytes, why_renamed
from table_writer.storage.object_store import ObjectStore

MIB = 1024 * 1024
LARGEST_PART_BYTES = 16 * MIB  # more memory per task for no speed that could be measured
PARTITION_MODES = (WriteMode.OVERWRITE_PARTITIONS, WriteMode.CREATE_PARTITIONS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """A plan, and what its engine needs for it."""

    plan: WritePlan
    df: DataFrame  # as it was given
    fitted: Fitted
    rows: DataFrame  # fitted and laid out
    spec: UploadSpec | None  # None: Spark's own writer needs none
    existing: Collection[PartitionValues] = ()  # that must not get a row


class Planner:
    """Plans writes to one table that was found writable."""

    def __init__(self, opened: OpenTable) -> None:
        self._opened = opened
        self._table = opened.table
        self._layout = opened.layout
        self._store = opened.store
        self._log = opened.log
        self._metastore = opened.metastore

    def plan(self, df: DataFrame, mode: WriteMode, options: WriteOptions, seen: LogState | None = None) -> Planned:
        """Fix everything that a write needs; every bad call fails here, before a byte of data is written.

        ``seen`` is the log as an earlier look found it, which the plan is to build on. Raises ``InvalidInputError`` if
        the call, the table, the store or the session cannot be used, and ``SchemaMismatchError`` if the DataFrame does
        not fit.
        """
        require_mode(mode, options, self._table.name, partitioned=bool(self._table.partition_columns))
        fitted = self.fit(df, options)
        data_schema = self._data_schema(fitted)
        scope = self.scope(df, mode, options)
        existing = self._existing(mode, options)
        if options.where:  # a predicate that fails on a value fails now
            scope(existing)
        write_id = options.write_uuid or new_write_id()
        spelled = self.spelled(df, existing)
        refused = spelled if mode is WriteMode.CREATE_PARTITIONS else frozenset[PartitionValues]()
        rows, spec = self.prepare(fitted, options, write_id, refused)
        notes, log_id = self._own_root()
        notes += self._renames() if spec is None else ()
        state = self._opened.state_to_build_on(log_id, seen)
        if spec is not None:
            spec = replace(spec, batch_rows=self._batch_rows(rows, data_schema, state))
        plan = WritePlan(
            write_id=write_id,
            mode=mode,
            table=self._table,
            layout=self._layout,
            schema=data_schema.json(),
            base_version=state.newest,
            checkpoint=state.listed_after,
            in_doubt=state.in_doubt,
            created_at=datetime.now(UTC),
            log_id=log_id,
            named_by_caller=options.write_uuid != "",
            scope=scope,
            where=options.where,
            idempotency_key=options.idempotency_key,
            tags=dict(options.tags),
            max_copied_bytes=options.max_copied_bytes,
            notes=notes,
            spellings=spelled.unusual(),
        )
        refused_names = existing if mode is WriteMode.CREATE_PARTITIONS else ()
        return Planned(plan=plan, df=df, fitted=fitted, rows=rows, spec=spec, existing=refused_names)

    def _batch_rows(self, rows: DataFrame, data_schema: StructType, state: LogState) -> int:
        if open_gateway(rows.sparkSession).runs_other_python(rows):
            return 0
        is_fixed = fixed_row_bytes(rows.schema) is not None
        return batch_rows(rows.schema, 0 if is_fixed else self._log.seen_row_bytes(state, data_schema.json()))

    def prepare(
        self, fitted: Fitted, options: WriteOptions, write_id: str, existing: Container[PartitionValues] = frozenset()
    ) -> tuple[DataFrame, UploadSpec | None]:
        """Return what the engine is given: rows in their layout and, for Arrow, all that an executor needs to know."""
        engine = engine_of(self._table, options)
        require_spellable(fitted.rows.sparkSession, self._table, fitted.added)
        rows = laid_out(
            fitted.rows,
            partition_columns=[column.name for column in self._table.partition_columns],
            distribution=options.distribution,
            sort_by=options.sort_by,
        )
        data_schema = self._data_schema(fitted)
        spec = self._spec(write_id, data_schema, rows, options, existing) if engine == "arrow" else None
        return rows, spec

    def fit(self, df: DataFrame, options: WriteOptions) -> Fitted:
        """Match the DataFrame with the table's columns."""
        require_batch(df, self._table.name)
        partition_names = [column.name for column in self._table.partition_columns]
        return fit(
            df, table_schema(self._table), str(self._table.name), partition_names, mode=SchemaMode(options.schema)
        )

    def scope(self, df: DataFrame, mode: WriteMode, options: WriteOptions) -> Scope:
        """Return which partitions the write replaces beside those that it has rows for."""
        if mode is WriteMode.OVERWRITE_TABLE:
            return every_partition
        if not options.where:
            return no_partition
        return Where(df.sparkSession, options.where, partition_schema(self._table), str(self._table.name))

    def _own_root(self) -> tuple[tuple[str, ...], str]:
        """Find out whose files these are; at the first write, also that no other table's are in the way.

        Returns what a person should know, and the id of the log.
        """
        notes: list[str] = []

        def first_write() -> None:
            others = other_tables(self._metastore, self._table)
            refuse_nested_roots(self._store, self._layout, self._table, others)
            refuse_left_log(self._metastore, self._layout, self._table)
            notes.extend(_stray_files(self._store, self._layout) if self._table.partition_columns else ())

        require_in_place(self._store, self._layout, self._table)
        owner = self._opened.owner
        log_id = take_root(self._store, self._layout, owner, first_write=first_write)
        return tuple(notes), log_id

    def spelled(self, df: DataFrame, existing: Iterable[PartitionValues]) -> Spellings:
        """Sort partitions that exist by their values: another tool may have spelled one in its own way.

        Raises ``InvalidInputError`` if two partitions are one value, or if a value depends on a time zone that is not
        known.
        """
        time_zone = df.sparkSession.conf.get("spark.sql.session.timeZone") or ""
        try:
            spelled = Spellings.of(existing, self._partition_types(), time_zone, table=str(self._table.name))
            spelled.require_clear()
        except InvalidInputError as error:
            error.table = str(self._table.name)
            raise
        return spelled

    def _partition_types(self) -> tuple[str, ...]:
        return tuple(exact_type(field).simpleString() for field in partition_schema(self._table))

    def _existing(self, mode: WriteMode, options: WriteOptions) -> Sequence[PartitionValues]:
        """Read the partitions that exist, once, where it matters.

        It does for a predicate, for the mode that refuses them, and for types of which one value has several texts.
        """
        is_read = options.where or mode is WriteMode.CREATE_PARTITIONS or has_spellings(self._partition_types())
        names = self._metastore.get_partition_names(self._table.name) if is_read else ()
        if mode is not WriteMode.CREATE_PARTITIONS:
            return names
        found = self._metastore.get_partitions(self._table, names)
        return sorted(existing_values(self._store, self._layout, found))

    def _spec(
        self,
        write_id: str,
        data_schema: StructType,
        rows: DataFrame,
        options: WriteOptions,
        existing: Container[PartitionValues],
    ) -> UploadSpec:
        configured = self._opened.config.part_size_bytes or part_bytes(self._layout.root, self._opened.session.hadoop)
        conf = rows.sparkSession.conf
        return UploadSpec(
            write_id=write_id,
            key_prefix=self._layout.data(write_id).key,
            store=self._opened.store_settings,
            data_columns=tuple(data_schema.names),
            partition_columns=tuple(column.name for column in self._table.partition_columns),
            file_options=file_options(
                self._table,
                lambda name, default: conf.get(name, default) or default,
                data_schema.json(),
                self._opened.session.spark_version,
            ),
            part_size_bytes=self._opened.config.part_size_bytes
            or min(configured or LARGEST_PART_BYTES, LARGEST_PART_BYTES),
            upload_threads=self._opened.config.upload_threads,
            max_open_files=self._opened.config.max_open_files,
            buffer_bytes=self._opened.config.buffer_bytes,
            row_group_bytes=self._opened.config.row_group_bytes or self._block_size_bytes(),
            target_file_bytes=options.target_file_bytes,
            existing=existing,
        )

    def _renames(self) -> tuple[str, ...]:
        """Say what it costs where Spark's own writer renames its files: nobody sees it otherwise."""
        why, advice = why_renamed(self._layout.root, self._opened.session.hadoop, self._opened.session.missing_jar)
        return (f"Spark's writer renamed the files of this write: {why}. To avoid it, {advice}.",) if why else ()

    def _data_schema(self, fitted: Fitted) -> StructType:
        """Return the columns of files: partition columns, which come last, are not in them."""
        return StructType(fitted.schema.fields[: len(fitted.schema) - len(self._table.partition_columns)])

    def _block_size_bytes(self) -> int:
        text = self._opened.session.hadoop.get("parquet.block.size", str(128 * MIB))
        if not text.isdecimal():
            raise InvalidInputError(f"parquet.block.size={text!r} is not a number of bytes")
        return int(text)


def require_batch(df: DataFrame, table: TableName) -> None:
    """Refuse what is no batch DataFrame."""
    if not isinstance(df, DataFrame):
        raise InvalidInputError(
            f"expected a Spark DataFrame, got a {type(df).__name__}: spark.createDataFrame(...) makes one",
            table=str(table),
        )
    if df.isStreaming:
        raise InvalidInputError(
            "a streaming DataFrame cannot be written in one call: write each batch with"
            f" df.writeStream.foreachBatch(writer.for_each_batch({str(table)!r}, mode='append', query_name=...))",
            table=str(table),
        )


def require_mode(mode: WriteMode, options: WriteOptions, table: TableName, *, partitioned: bool) -> None:
    """Refuse a mode that the table has no use for, and options that the mode has none for."""
    options.require_fit(mode)
    if not partitioned and mode in PARTITION_MODES:
        raise InvalidInputError(
            f"{table} is not partitioned, so {mode.value} has nothing to tell apart: use overwrite_table or append."
            " Nothing was written.",
            table=str(table),
        )


def _stray_files(store: ObjectStore, layout: TableLayout) -> list[str]:
    """Report files that belong to no partition; markers such as ``_SUCCESS`` are no data."""
    names = [key.rpartition("/")[2] for key in store.list_files(layout.root.key)]
    data = [name for name in names if not name.startswith(("_", "."))]
    if not data:
        return []
    shown = ", ".join(data[:3]) + (", …" if len(data) > 3 else "")
    return [f"{counted(len(data), 'file')} directly in {layout.root}: {shown}. No partition reads them; they stay."]
