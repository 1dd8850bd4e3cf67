"""The order of step 1: look at the call, the table, the store and the log, and end in a plan."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import CharType, LongType, StringType, StructField, StructType

from table_writer.config import WriteOptions
from table_writer.errors import InvalidInputError, few
from table_writer.jobs.plan.distribution import batch_limits, laid_out
from table_writer.jobs.plan.file_options import engine_of, file_options
from table_writer.jobs.plan.fit import FittedRows, fit, require_spellable
from table_writer.jobs.plan.parquet_settings import FileSettings
from table_writer.jobs.plan.replace import replacing_schema
from table_writer.jobs.plan.table_planner import TablePlanner, require_mode
from table_writer.jobs.plan.types import partition_schema, table_schema
from table_writer.model.entry import Key
from table_writer.model.new_table import SchemaMode
from table_writer.model.partition_value import Spellings
from table_writer.model.table import NULL_PARTITION, PartitionValues, TableName
from table_writer.model.upload_spec import BatchLimits, UploadSpec
from table_writer.model.write import Scope, WritePlan, every_partition, new_write_id, no_partition
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.listing import Listing
from table_writer.protocol.table.open_table import OpenTable
from table_writer.spark import few_rows, open_gateway
from table_writer.spark.conditions import condition, is_settled
from table_writer.spark.few_rows import FewRows
from table_writer.spark.sql import SPARK_ERRORS, analyzed_now, fetched, frame_of, quoted, spark_reason
from table_writer.spark.types import cast_sql, exact_type, shown_type
from table_writer.spark.widths import fixed_row_bytes

NUMBER: Final = "__table_writer_number"
ALL_OF_IT: Final = "To replace all partitions call overwrite_table; to compact all, leave where out"


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedWrite:
    """A plan, and what its engine needs for it."""

    plan: WritePlan
    fitted: FittedRows
    rows: DataFrame  # fitted and laid out
    spec: UploadSpec | None  # None: Spark's own writer needs none
    few: FewRows | None = None  # the same rows, for the driver to upload if they are few; None: it must not
    existing: Collection[PartitionValues] = ()  # partitions that must not get a row

    @property
    def added_schema(self) -> str:
        """The columns that the table is to get, as Spark's JSON; empty if there are none."""
        return StructType(list(self.fitted.added)).json() if self.fitted.added else ""

    def with_plan(self, **changes: Any) -> PlannedWrite:
        """Return the same with a plan of which these fields are other ones."""
        return replace(self, plan=replace(self.plan, **changes))


class Planner(TablePlanner):
    """Plans writes to one table that was found writable; ``of_rows``: for a call that changes rows."""

    def __init__(self, opened: OpenTable, *, of_rows: bool = False) -> None:
        super().__init__(opened)
        self._of_rows = of_rows
        self._mark = ""
        self._file_settings: FileSettings | None = None

    def marking(self, mark: str) -> Planner:
        """Return the same planner for rows of which a column is the mark of each; files do not get it."""
        planner = copy(self)
        planner._mark = mark  # noqa: SLF001  # its own copy
        return planner

    def plan(
        self, df: DataFrame, mode: WriteMode, options: WriteOptions, seen: Listing | None = None, *, stream: str = ""
    ) -> PlannedWrite:
        """Fix everything that a write needs; every bad call fails here, before a byte of data is written.

        ``seen`` is the log as an earlier look found it, which the plan is to build on; ``stream`` is whose batch it is.
        Raises ``InvalidInputError`` if the call, the table, the store or the session cannot be used, and
        ``SchemaMismatchError`` if the DataFrame does not fit.
        """
        require_mode(mode, options, self._table.name, partitioned=bool(self._table.partition_columns))
        with ThreadPoolExecutor(1, thread_name_prefix="table_writer-plan") as beside:
            reading = beside.submit(self._read_log, seen)  # four requests, while Spark analyzes
            fitted = self.fit(df, options)
            data_schema = self._data_schema(fitted)
            scope = self.scope(df, mode, options)
            existing = self.existing_of(scope, mode, options)
            write_id = options.write_uuid or new_write_id()
            spelled = self.spellings(df, existing)
            rows, spec = self.prepare(fitted, options, write_id, spelled if mode.facts.only_creates else frozenset())
        notes, log_id, listing = self._own_root(reading.result, seen)
        notes += self._note_on_renames() if spec is None else self.file_settings(df.sparkSession).notes()
        seen_bytes = self._seen_row_bytes(rows, data_schema, listing) if spec else 0
        spec = spec and replace(spec, batches=self._batches(rows, seen_bytes), is_marked=bool(self._mark))
        based_on = self._base_of(rows, mode, options, listing)
        spark = open_gateway(rows.sparkSession)
        now, reads = spark.reads(fitted.rows, self._opened, listed=not mode.facts.keeps_rows, strict=not self._of_rows)
        rows = rows if now is fitted.rows else laid_out(now, self._table, options)
        few = self._few(now, options, seen_bytes) if spec and options.engine == "auto" else None
        refused = existing if mode.facts.only_creates else ()
        plan = self.write_plan(
            write_id,
            mode,
            options,
            (log_id, listing),
            schema=data_schema.json(),
            replaced_schema=self._replaced_schema(data_schema, options),
            based_on=based_on,
            reads=reads,
            scope=scope,
            key=Key(options.idempotency_key, stream),
            notes=notes,
            spellings=spelled.unusual(),
        )
        return PlannedWrite(plan=plan, fitted=fitted, rows=rows, spec=spec, few=few, existing=refused)

    def _base_of(self, rows: DataFrame, mode: WriteMode, options: WriteOptions, listing: Listing) -> int | None:
        """Return the version that rows are based on, as the call says it, or their own plan."""
        spark = open_gateway(rows.sparkSession)
        is_told = mode.facts.keeps_rows or spark.shows_reads
        carried = None if is_told else spark.version_read(rows, self._table)
        return self.base(carried if options.based_on is None else options.based_on, listing)

    def _seen_row_bytes(self, rows: DataFrame, data_schema: StructType, listing: Listing) -> int:
        """Return how wide the rows of the last write were, where that tells something of these."""
        is_fixed = fixed_row_bytes(rows.schema) is not None
        return 0 if is_fixed else self._opened.log.seen_row_bytes(listing, data_schema.json())

    def _batches(self, rows: DataFrame, seen_bytes: int) -> BatchLimits:
        """Return how many rows executors take at a time."""
        if open_gateway(rows.sparkSession).runs_other_python(rows):
            return BatchLimits()
        return batch_limits(rows.schema, seen_bytes)

    def _few(self, rows: DataFrame, options: WriteOptions, seen_bytes: int) -> FewRows:
        """Return the rows for the driver: in one task, which needs no distribution."""
        in_order = partial(laid_out, table=self._table, options=replace(options, distribution="none"))
        return FewRows(
            table=str(self._table.name),
            rows=rows,
            ordered=in_order if options.sort_by else None,
            max_bytes=few_rows.MOST_BYTES,
            seen_row_bytes=seen_bytes,
        )

    def prepare(
        self,
        fitted: FittedRows,
        options: WriteOptions,
        write_id: str,
        existing: Container[PartitionValues] = frozenset(),
    ) -> tuple[DataFrame, UploadSpec | None]:
        """Return what the engine is given: rows in their layout and, for Arrow, all that an executor needs to know."""
        settings = self.file_settings(fitted.rows.sparkSession)
        engine = engine_of(self._table, options, settings)
        lacking = open_gateway(fitted.rows.sparkSession).lacks_writer if engine == "spark" else ""
        if lacking:
            asked = f"{few(settings.protection, most=3)} asks for encryption. " if settings.protection else ""
            raise InvalidInputError(f"{self._table.name}: {asked}{lacking}", table=str(self._table.name))
        if engine == "spark":
            self._require_no_renames()
        require_spellable(fitted.rows.sparkSession, self._table, fitted.added)
        rows = laid_out(fitted.told_by_spark if engine == "spark" else fitted.rows, self._table, options)
        data_schema = self._data_schema(fitted)
        spec = self._spec(write_id, data_schema, rows, options, existing) if engine == "arrow" else None
        return rows, spec

    def file_settings(self, spark: SparkSession) -> FileSettings:
        """Return what table and session say of files, as the session is when it is asked first."""
        if self._file_settings is None:
            session = open_gateway(spark).file_settings()
            self._file_settings = FileSettings(self._table, session, self._opened.config.hadoop)
        return self._file_settings

    def fit(self, df: DataFrame, options: WriteOptions) -> FittedRows:
        require_batch(df, self._table.name)
        partition_names = [column.name for column in self._table.partition_columns]
        mode = SchemaMode.FIXED if self._of_rows and options.schema == "strict" else SchemaMode(options.schema)
        replaces = mode is SchemaMode.REPLACE
        schema = replacing_schema(df, self._table, self._metastore) if replaces else table_schema(self._table)
        beside = [self._mark] if self._mark else []
        return fit(df, schema, str(self._table.name), partition_names, mode=mode, beside=beside)

    def _replaced_schema(self, data_schema: StructType, options: WriteOptions) -> str:
        """Return the columns that the table has now if the write gives it others in their place."""
        now = table_schema(self._table)
        return now.json() if options.schema == "replace" and now != data_schema else ""

    def scope(self, df: DataFrame, mode: WriteMode, options: WriteOptions) -> Scope:
        """Return which partitions the write replaces beside those that it has rows for."""
        if mode.facts.replaces_table:
            return every_partition
        if not options.where:
            return no_partition
        return Where(df.sparkSession, options.where, partition_schema(self._table), str(self._table.name))

    def spellings(self, df: DataFrame, existing: Iterable[PartitionValues]) -> Spellings:
        """Sort partitions that exist by their values, in the session's time zone: see :meth:`spelled`."""
        return self.spelled(existing, df.sparkSession.conf.get("spark.sql.session.timeZone") or "")

    def _partition_types(self) -> tuple[str, ...]:
        return tuple(shown_type(exact_type(field)) for field in partition_schema(self._table))

    def _spec(
        self,
        write_id: str,
        data_schema: StructType,
        rows: DataFrame,
        options: WriteOptions,
        existing: Container[PartitionValues],
    ) -> UploadSpec:
        conf, settings = rows.sparkSession.conf, self.file_settings(rows.sparkSession)
        version = self._opened.session.spark_version
        encoding = file_options(
            self._table, lambda name, default: conf.get(name, default) or default, settings, data_schema.json(), version
        )
        return self.upload_spec(write_id, data_schema.names, encoding, settings, options, existing)

    def _require_no_renames(self) -> None:
        """Refuse a write whose files S3 would copy, where the config says so: it may be large."""
        renames = self._opened.renames
        if not renames.why or self._opened.config.renames != "error":
            return
        raise InvalidInputError(
            f"Spark's writer would rename the files of a write of {self._table.name}: {renames.why}. Nothing was"
            f" written. To avoid it, {renames.advice}; or allow it, TableWriterConfig(renames='note').",
            table=str(self._table.name),
        )

    def _note_on_renames(self) -> tuple[str, ...]:
        """Say what it costs where Spark's own writer renames its files: nobody sees it otherwise."""
        renames = self._opened.renames
        if not renames.why or not renames.is_certain:
            return ()
        return (f"Spark's writer renamed the files of this write: {renames.why}. To avoid it, {renames.advice}.",)

    def _data_schema(self, fitted: FittedRows) -> StructType:
        """Return the columns of files: partition columns, which come last, are not in them."""
        return StructType(fitted.schema.fields[: len(fitted.schema) - len(self._table.partition_columns)])


def require_batch(df: DataFrame, table: TableName) -> None:
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


class Where:
    """Selects partitions by a SQL predicate over the partition columns; is a ``Scope``.

    Values are compared as the types of the partition columns, as in a query of the table. One that is no value of its
    type is null there, and null is not selected. Raises ``InvalidInputError`` if Spark cannot evaluate it over the
    partition columns, or if its answer, or a subquery's, could differ from one call to the next.
    """

    def __init__(self, spark: SparkSession, predicate: str, schema: StructType, table: str) -> None:
        self._spark = spark
        self.predicate = predicate
        self._schema = schema
        self._table = table
        self._known: dict[PartitionValues, bool] = {}
        columns = ", ".join(schema.names)
        if not columns:
            raise InvalidInputError(f"{table} is not partitioned: where={predicate!r} selects nothing", table=table)
        none = f"where={predicate!r} is no predicate over the partition columns ({columns}) of {table}"
        frame = spark.createDataFrame([], schema)
        try:
            asked = condition(frame, predicate)
            analyzed_now(frame.where(predicate).select(F.lit(1)))  # a filter alone may be taken for its frame
        except InvalidInputError as error:
            raise InvalidInputError(f"{none}: {error.message}", table=table) from error
        except SPARK_ERRORS as error:
            raise InvalidInputError(f"{none}: {spark_reason(error)}", table=table) from error
        if asked.has_subquery:
            raise InvalidInputError(
                f"where={predicate!r} has a subquery, whose rows may change while {table} is being written: run it"
                " first, and write its values out",
                table=table,
            )
        if not asked.is_deterministic:
            raise InvalidInputError(
                f"where={predicate!r} selects other partitions each time it is asked: write the value out", table=table
            )
        if is_settled(frame, predicate):
            raise InvalidInputError(f"{none}: it answers alike whatever their values are. {ALL_OF_IT}", table=table)

    def __call__(self, existing: Collection[PartitionValues]) -> frozenset[PartitionValues]:
        """Return those of the partitions that the predicate selects.

        Raises ``InvalidInputError`` if it cannot be evaluated for one: ``dt > 20240101`` where a ``dt`` is
        ``backfill``.
        """
        unknown = sorted(set(existing) - self._known.keys())
        if unknown:
            chosen = self._selected(unknown)
            self._known.update((values, number in chosen) for number, values in enumerate(unknown))
        return frozenset(values for values in existing if self._known[values])

    def _selected(self, partitions: Sequence[PartitionValues]) -> frozenset[int]:
        """Return the positions of the partitions that the predicate selects."""
        try:
            frame = partition_frame(self._spark, self._schema, partitions)
            rows = fetched(frame.where(self.predicate).select(NUMBER))
        except SPARK_ERRORS as error:
            raise InvalidInputError(
                f"where={self.predicate!r} cannot be evaluated for the partitions of {self._table}:"
                f" {spark_reason(error)} Nothing was published. Compare the columns with values of their own types, or"
                " use try_cast.",
                table=self._table,
            ) from error
        return frozenset(row[NUMBER] for row in rows)


def partition_frame(spark: SparkSession, schema: StructType, partitions: Sequence[PartitionValues]) -> DataFrame:
    """Return the values of partitions as queries of the table have them, each row with its position as ``NUMBER``."""
    names = schema.names
    rows = [
        (number, *(None if value == NULL_PARTITION else value for value in values))
        for number, values in enumerate(partitions)
    ]
    texts = StructType([StructField(NUMBER, LongType()), *(StructField(name, StringType()) for name in names)])
    return frame_of(spark, rows, texts).select(NUMBER, *(typed_partition_value(spark, field) for field in schema))


def typed_partition_value(spark: SparkSession, field: StructField) -> Column:
    """Return a value as queries of the table have it; by the metadata Spark knows ``char(n)`` in comparisons."""

    def is_on(setting: str) -> bool:
        return str(spark.conf.get(f"spark.sql.{setting}")).lower() == "true"

    cast = "try_cast" if is_on("ansi.enabled") else "cast"  # which takes 1.0 for an INT, and fails on nothing
    value = F.expr(cast_sql(quoted(field.name), field.dataType, cast))
    kind = exact_type(field)
    as_char = not is_on("legacy.charVarcharAsString")
    if isinstance(kind, CharType) and as_char and is_on("readSideCharPadding"):
        value = F.rpad(value, F.greatest(F.lit(kind.length), F.char_length(value)), F.lit(" "))
    return value.alias(field.name, metadata=field.metadata)
