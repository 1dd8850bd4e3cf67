"""What a write without Spark would do: its rows are gone through once, for their partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from table_writer.arrow.fields import TableField
from table_writer.arrow.steps import ArrowCall, ArrowPlanner
from table_writer.errors import InvalidInputError, SchemaMismatchError, few
from table_writer.jobs.look_ahead import USUAL_DATE, LookAhead
from table_writer.model.entry import Key
from table_writer.model.partition_value import Spellings
from table_writer.model.table import NULL_PARTITION, PartitionValues
from table_writer.protocol.log.listing import Listing
from table_writer.protocol.table.open_table import OpenTable, RepeatedError
from table_writer.reports.plan_report import PlanReport, SchemaVerdict


def plan_report(opened: OpenTable, call: ArrowCall) -> PlanReport:
    """Return what a call would do; a mode or filters that do not fit are an error at once."""
    return _ArrowLook(opened, call).report()


class _ArrowLook(LookAhead):
    """A look at what a call would do."""

    def __init__(self, opened: OpenTable, call: ArrowCall) -> None:
        self._call = call
        self._planner = ArrowPlanner(opened, call)
        super().__init__(opened, call.mode, call.options, self._planner.scope())

    def report(self) -> PlanReport:
        """Go through the rows, and compare their partitions with the table's."""
        opened, options = self._opened, self._options
        opened.require_owner()
        state = opened.log.lister.read()
        notes, refusals = self._notes(state)
        based_on = self._planner.base(options.based_on, state)
        report = PlanReport(
            table=str(opened.table.name),
            mode=self._mode.value,
            base_version=state.newest if based_on is None else int(based_on),
            notes=notes,
        )
        try:
            opened.require_new_key(Key(options.idempotency_key))
        except RepeatedError as repeated:
            note = f"idempotency_key={options.idempotency_key!r} was published as version {repeated.entry.version}"
            return replace(report, notes=(*notes, f"{note}: the call would do nothing"))
        if self._call.checks:
            from table_writer.arrow.checks import require_answerable  # noqa: PLC0415 - checks take PySpark

            require_answerable(self._call.checks, opened)
        try:
            rows = self._planner.fitted()
            counts = _rows_by_partition(rows, self._planner.fields)
        except SchemaMismatchError as error:
            return replace(report, schema=SchemaVerdict(problems=(error.message,)))
        named, now = self._rows_and_partitions(counts)
        carried = self._sizes(now) if self._mode.facts.keeps_rows else {}
        planned = self._partitions(named, now, carried)
        return replace(
            report,
            notes=(*notes, *self._other_carry(carried)),
            partitions=planned,
            schema=SchemaVerdict(filled_columns=tuple(rows.filled), converted_columns=tuple(rows.converted)),
            problems=(
                *refusals,
                *self._problems(planned),
                *self._conflicts_since(based_on, [partition.values for partition in planned if partition.rows]),
                *self._uncopied_partitions(now),
                *self._unwritable_dates(counts),
            ),
        )

    def _notes(self, state: Listing) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what a person should know, and why a first write would be refused."""
        doubts = (f"version {number} is in doubt: a write that meets it resolves it first" for number in state.in_doubt)
        notes = (*self._planner.settings.notes(), *doubts)
        if state.ids or state.newest:
            return notes, ()
        try:
            return (*notes, *self._planner.first_write()), ()
        except InvalidInputError as error:
            return notes, (error.message,)

    def _unwritable_dates(self, counts: Iterable[PartitionValues]) -> Iterator[str]:
        """Name dates in partition columns that cannot be written."""
        kinds = [field.kind for field in self._planner.fields if field.is_partition]
        odd = {
            value
            for values in counts
            for value, kind in zip(values, kinds, strict=True)
            if pa.types.is_date32(kind) and value != NULL_PARTITION and not USUAL_DATE.fullmatch(value)
        }
        if odd:
            yield f"partition dates outside the years 1 to 9999 cannot be written: {few(sorted(odd), most=3)}"

    def _spellings(self, names: Collection[PartitionValues]) -> Spellings:
        return self._planner.spellings(names)


def _rows_by_partition(batches: Iterable[Any], fields: Sequence[TableField]) -> dict[PartitionValues, int]:
    positions = [position for position, field in enumerate(fields) if field.is_partition]
    counts = Counter[PartitionValues]()
    for batch in batches:
        texts = [batch.column(position).cast(pa.string()) for position in positions]
        if not texts:
            counts[()] += batch.num_rows
            continue
        names = [str(number) for number in range(len(texts))]
        grouped = pa.table(texts, names).group_by(names).aggregate([([], "count_all")]).to_pylist()
        for row in grouped:
            counts[tuple(row[name] or NULL_PARTITION for name in names)] += row["count_all"]
    return {values: count for values, count in sorted(counts.items()) if count}
