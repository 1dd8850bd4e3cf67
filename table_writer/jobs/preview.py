"""Find out what a write would do: the checks of steps 1 and 5, with nothing written."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import DateType, StructType

from table_writer.check.run import as_checks, require_valid
from table_writer.config import WriteOptions
from table_writer.errors import InvalidInputError, SchemaMismatchError, few
from table_writer.jobs.look_ahead import USUAL_DATE, LookAhead
from table_writer.jobs.plan.fit import FittedRows
from table_writer.jobs.plan.planner import Planner
from table_writer.jobs.plan.table_planner import require_mode
from table_writer.jobs.plan.types import partition_schema, violation
from table_writer.jobs.rows.kept import files_that_stay
from table_writer.jobs.rows.rewrite import Rewrite
from table_writer.model.entry import Key
from table_writer.model.partition_value import Spellings
from table_writer.model.table import NULL_PARTITION, Partition, PartitionValues
from table_writer.model.write import new_write_id
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.table.open_table import OpenTable, RepeatedError
from table_writer.reports.plan_report import PlanReport, RowsPlan, SchemaVerdict
from table_writer.spark.sql import SPARK_ERRORS, fetched, grouped, quoted
from table_writer.spark.types import shown_type


class Preview(LookAhead):
    """A look at what a write would do; a mode that does not fit, or bad SQL, is an error at once.

    ``rewrite`` is the change of rows that the write carries out.
    """

    def __init__(
        self, opened: OpenTable, df: DataFrame, mode: WriteMode, options: WriteOptions, rewrite: Rewrite | None = None
    ) -> None:
        require_mode(mode, options, opened.table.name, partitioned=bool(opened.table.partition_columns))
        self._df = df
        self._planner = Planner(opened, of_rows=rewrite is not None)
        self._rewrite = rewrite
        super().__init__(opened, mode, options, rewrite.scope if rewrite else self._planner.scope(df, mode, options))

    def report(self) -> PlanReport:
        """Run the query once, for its partitions, and compare them with the table's."""
        opened, df = self._opened, self._df
        opened.require_owner()
        state = opened.log.lister.read()
        notes, refusals = ((), ()) if state.ids or state.newest else self._first_write()
        notes += tuple(
            f"version {version} is in doubt: a write that meets it resolves it first" for version in state.in_doubt
        )
        based_on = self._planner.base(self._options.based_on, state)
        base_version = state.newest if based_on is None else int(based_on)
        empty_report = PlanReport(
            table=str(opened.table.name), mode=self._mode.value, base_version=base_version, notes=notes
        )
        try:
            opened.require_new_key(Key(self._options.idempotency_key))
        except RepeatedError as repeated:
            entry = repeated.entry
            note = f"idempotency_key={entry.idempotency_key!r} was published as version {entry.version}"
            return replace(empty_report, notes=(*notes, f"{note}: the call would do nothing"))
        try:
            fitted = self._planner.fit(df, self._options)
            _, spec = self._planner.prepare(fitted, self._options, new_write_id())
            if spec is not None:
                notes += self._planner.file_settings(df.sparkSession).notes()
            table = opened.table
            checks = as_checks(self._options.checks)
            require_valid(checks, df.sparkSession, fitted.schema, str(table.name), table.partition_columns)
            rows = self._rows_by_partition(df, fitted)
        except SchemaMismatchError as error:
            return replace(empty_report, schema=SchemaVerdict(problems=(error.message,)))
        counts, partitions_now = self._rows_and_partitions(rows)
        carried_sizes = self._carried_sizes(counts, partitions_now)
        planned = self._partitions(counts, partitions_now, carried_sizes)
        return replace(
            empty_report,
            notes=(*notes, *(self._other_carry(carried_sizes) if self._rewrite is None else ())),
            partitions=planned,
            schema=_verdict(df.schema, fitted),
            problems=(
                *(*refusals, *self._problems(planned)),
                *self._conflicts_since(based_on, [partition.values for partition in planned if partition.rows]),
                *self._uncopied_partitions(partitions_now),
                *(self._unwritable_dates(rows) if spec is not None else ()),
            ),
        )

    def _carried_sizes(
        self, counts: Mapping[PartitionValues, int], partitions_now: Mapping[PartitionValues, Partition]
    ) -> Mapping[PartitionValues, Sequence[int]]:
        """Return the sizes of existing files that come beside the new ones."""
        if self._rewrite is not None:
            self._rewrite.require_inside(counts)
            kept = files_that_stay(self._rewrite.snapshot, self._rewrite.changed.replaced, partitions_now)
            return {values: [file.size_bytes for file in files.values()] for values, files in kept.items()}
        if not self._mode.facts.keeps_rows:
            return {}
        return self._sizes(partitions_now)

    def _first_write(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the notes of the first write to a table, and the reasons to refuse it."""
        try:
            return self._planner.first_write(), ()
        except InvalidInputError as error:
            return (), (error.message,)

    def _rows_by_partition(self, df: DataFrame, fitted: FittedRows) -> dict[PartitionValues, int]:
        count = len(self._opened.table.partition_columns)
        names = fitted.rows.columns[len(fitted.rows.columns) - count :]  # as the DataFrame spells them
        columns = {name: F.col(quoted(name)).cast("string") for name in names}
        try:
            rows = fetched(grouped(fitted.told_by_spark, columns, F.count(F.lit(1))))
        except SPARK_ERRORS as error:
            explanation = violation(error, df, fitted.limits, str(self._opened.table.name))
            if explanation is None:
                raise
            raise explanation from error
        counts: dict[PartitionValues, int] = {}
        for row in rows:
            values = tuple(value or NULL_PARTITION for value in row[:count])
            counts[values] = counts.get(values, 0) + row[count]  # null and empty text are one partition
        return {values: number for values, number in sorted(counts.items()) if number}

    def _spellings(self, names: Collection[PartitionValues]) -> Spellings:
        return self._planner.spellings(self._df, names)

    def _unwritable_dates(self, rows: Mapping[PartitionValues, int]) -> tuple[str, ...]:
        """Name dates in partition columns that only Spark's own writer can spell."""
        kinds = [field.dataType for field in partition_schema(self._opened.table)]
        odd = sorted(
            {
                value
                for values in rows
                for value, kind in zip(values, kinds, strict=True)
                if isinstance(kind, DateType) and value != NULL_PARTITION and not USUAL_DATE.fullmatch(value)
            }
        )
        if not odd:
            return ()
        return (f"partition dates outside the years 1 to 9999 cannot be written: {few(odd, most=3)}",)


def plan_of_rows(rewrite: Rewrite) -> RowsPlan:
    """Say what a change of rows would do: this finds the rows, and computes those that take their place.

    What would make the change fail is raised, or among the problems.
    """
    table, mode = str(rewrite.opened.table.name), rewrite.mode.value
    report = PlanReport(table=table, mode=mode, base_version=rewrite.snapshot.version)
    if rewrite.changed.may_write:
        options = replace(rewrite.write_options(rewrite.snapshot.version), if_empty="ignore", max_copied_bytes=None)
        report = Preview(rewrite.opened, rewrite.changed.rows, rewrite.mode, options, rewrite).report()
    facts = {item.name: getattr(report, item.name) for item in fields(PlanReport)}
    return RowsPlan(**facts | {"mode": rewrite.change.name}, **rewrite.facts)


def _verdict(schema: StructType, fitted: FittedRows) -> SchemaVerdict:
    types = {field.name.lower(): shown_type(field.dataType) for field in schema}
    table_types = {field.name: shown_type(field.dataType) for field in fitted.schema}
    pairs = ((name, types.get(name.lower(), kind), kind) for name, kind in table_types.items())
    return SchemaVerdict(
        added_columns=tuple(f"{field.name}: {shown_type(field.dataType)}" for field in fitted.added),
        filled_columns=fitted.filled,
        default_columns=fitted.defaults,
        converted_columns=tuple(f"{name}: {was} -> {kind}" for name, was, kind in pairs if was != kind),
    )
