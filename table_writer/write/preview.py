"""What a write would do: steps 1 and 5 looked at, and nothing written."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import DateType, StructType

from table_writer.check.run import as_checks, require_valid
from table_writer.config import WriteOptions
from table_writer.display.plan_report import PlannedAction, PlannedPartition, PlanReport, SchemaVerdict
from table_writer.display.report import size
from table_writer.errors import InvalidInputError, SchemaMismatchError, counted, few
from table_writer.log.files import existing_values, files_read_at, why_not_copied
from table_writer.log.open_table import OpenTable, RepeatedError
from table_writer.log.rules import Standing, standing
from table_writer.model.entry import EntryPartition, Key, Operation
from table_writer.model.location import Location
from table_writer.model.table import NULL_PARTITION, Partition, PartitionValues, name_in, shown_name
from table_writer.model.write import WriteMode, new_write_id
from table_writer.plan.fit import FittedRows
from table_writer.plan.planner import Planner, require_mode
from table_writer.plan.types import partition_schema, violation
from table_writer.spark.sql import SPARK_ERRORS, quoted

USUAL_DATE: Final = re.compile(r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}")
"""As Spark spells the dates that Arrow's engine can spell: of the years 1 to 9999."""


class Preview:
    """Looks at what a write would do; a mode that does not fit, or bad SQL, is an error at once."""

    def __init__(self, opened: OpenTable, df: DataFrame, mode: WriteMode, options: WriteOptions) -> None:
        require_mode(mode, options, opened.table.name, partitioned=bool(opened.table.partition_columns))
        self._opened = opened
        self._df = df
        self._mode = mode
        self._options = options
        self._planner = Planner(opened)
        self._scope = self._planner.scope(df, mode, options)

    def report(self) -> PlanReport:
        """Run the query once, for its partitions, and compare them with the table's."""
        opened, df = self._opened, self._df
        opened.require_owner()
        state = opened.log.read_state()
        notes, refused = ((), ()) if state.ids or state.newest else self._first_write()
        notes += tuple(f"version {one} is in doubt: a write that meets it resolves it first" for one in state.in_doubt)
        based_on = self._planner.base(self._options.based_on, state)
        base_version = state.newest if based_on is None else based_on
        empty = PlanReport(table=str(opened.table.name), mode=self._mode.value, base_version=base_version, notes=notes)
        try:
            opened.require_new_key(Key(self._options.idempotency_key))
        except RepeatedError as repeated:
            earlier = repeated.entry
            note = f"idempotency_key={earlier.idempotency_key!r} was published as version {earlier.version}"
            return replace(empty, notes=(*notes, f"{note}: the call would do nothing"))
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
            return replace(empty, schema=SchemaVerdict(problems=(error.message,)))
        counts, now = self._looked_up(df, rows)
        held = {values: self._sizes(one) for values, one in now.items()} if self._mode is WriteMode.APPEND else {}
        planned = self._partitions(counts, now, held)
        return replace(
            empty,
            notes=(*notes, *self._other_way(held)),
            partitions=planned,
            schema=_verdict(df.schema, fitted),
            problems=(
                *(*refused, *self._problems(planned)),
                *self._published_since(based_on, [partition.values for partition in planned if partition.rows]),
                *self._uncopied(now),
                *(self._unspelled(rows) if spec is not None else ()),
            ),
        )

    def _first_write(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what the first write to a table would note, and what it would be refused for."""
        try:
            return self._planner.first_write(), ()
        except InvalidInputError as error:
            return (), (error.message,)

    def _rows_by_partition(self, df: DataFrame, fitted: FittedRows) -> dict[PartitionValues, int]:
        count = len(self._opened.table.partition_columns)
        names = fitted.rows.columns[len(fitted.rows.columns) - count :]  # as the DataFrame spells them
        columns = [F.col(quoted(name)).cast("string").alias(name) for name in names]
        try:
            rows: Sequence[Row] = fitted.rows.groupBy(*columns).agg(F.count(F.lit(1))).collect()
        except SPARK_ERRORS as error:
            explanation = violation(error, df, fitted.limits, str(self._opened.table.name))
            if explanation is None:
                raise
            raise explanation from error
        found: dict[PartitionValues, int] = {}
        for row in rows:
            values = tuple(value or NULL_PARTITION for value in row[:count])
            found[values] = found.get(values, 0) + row[count]  # null and empty text are one partition
        return {values: number for values, number in sorted(found.items()) if number}

    def _unspelled(self, rows: Mapping[PartitionValues, int]) -> tuple[str, ...]:
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

    def _looked_up(
        self, df: DataFrame, rows: Mapping[PartitionValues, int]
    ) -> tuple[Mapping[PartitionValues, int], Mapping[PartitionValues, Partition]]:
        """Return rows by partition as the metastore spells it, and all partitions that exist and would change."""
        table, metastore = self._opened.table, self._opened.metastore
        existing = metastore.get_partition_names(table.name)
        spelled = self._planner.spellings(df, existing)
        counts = {spelled.get(values, values): count for values, count in rows.items()}
        beyond = self._scope(existing) - counts.keys()
        now = metastore.get_partitions(table, sorted({*counts, *beyond}))
        there = existing_values(self._opened.store, self._opened.layout, now)
        return counts, {values: one for values, one in now.items() if values in there}

    def _other_way(self, held: Mapping[PartitionValues, Sequence[int]]) -> Iterator[str]:
        """Say what the other way of an append would cost."""
        files, found = sum(map(len, held.values())), f"{size(sum(map(sum, held.values())))}"
        if files and self._options.carry == "in_place":
            yield f"carry='copy' would copy {counted(files, 'file')} ({found}), and show all rows at once"
        elif files:
            yield (
                f"carry='in_place' would copy none of these {counted(files, 'file')} ({found}); new files appear one by"
                " one then"
            )

    def _partitions(
        self,
        counts: Mapping[PartitionValues, int],
        now: Mapping[PartitionValues, Partition],
        held: Mapping[PartitionValues, Sequence[int]],
    ) -> tuple[PlannedPartition, ...]:
        data = self._opened.layout.data(new_write_id())
        planned = []
        for values in sorted({*counts, *now}):
            name, rows, before = name_in(self._opened.table, values), counts.get(values, 0), now.get(values)
            stays = before is not None and self._in_place(before)
            copied = () if stays else held.get(values, ())
            planned.append(
                PlannedPartition(
                    name=name,
                    values=values,
                    action=self._action(rows, before),
                    location=str(before.location if before and stays else data.child(name)) if rows else "",
                    rows=rows,
                    replaced_location=before.location if before and not stays else None,
                    copied_files=len(copied),
                    copied_bytes=sum(copied),
                )
            )
        return tuple(planned)

    def _in_place(self, now: Partition) -> bool:
        """Whether files are added where the partition is."""
        is_append = self._mode is WriteMode.APPEND and self._options.carry == "in_place"
        return is_append and not self._opened.layout.is_placeholder(Location.parse(now.location))

    def _action(self, rows: int, now: Partition | None) -> PlannedAction:
        if not rows:
            return "empty"
        if now is None:
            return "add"
        return "append" if self._mode is WriteMode.APPEND else "replace"

    def _sizes(self, partition: Partition) -> list[int]:
        """Return the sizes of the files that an append brings along; of none where it would be refused."""
        if why_not_copied(self._opened.layout, partition):
            return []
        found = files_read_at(self._opened.store, self._opened.layout, Location.parse(partition.location))
        return [one.size_bytes for one in found]

    def _uncopied(self, now: Mapping[PartitionValues, Partition]) -> Iterator[str]:
        """Name the partitions that an append would be refused for."""
        for values, partition in sorted(now.items()) if self._mode is WriteMode.APPEND else ():
            if why := why_not_copied(self._opened.layout, partition):
                yield (
                    f"{shown_name(self._opened.table, values)} {why}: its files cannot be put beside new ones; replace"
                    " it with overwrite_partitions"
                )

    def _published_since(self, based_on: int | None, values: Collection[PartitionValues]) -> Iterator[str]:
        """Name the versions after that which the rows are based on, with which the write would conflict."""
        if based_on is None:
            return
        log = self._opened.log
        draft = self._opened.next_entry(
            based_on,
            Operation.WRITE,
            self._mode.value,
            partitions=tuple(EntryPartition.without_rows(named, None) for named in values),
        )
        for record in log.read_history(log.read_state(listed_after=based_on)).records:
            if standing(record, draft, (), scope=self._scope) is Standing.CONFLICT:
                yield f"version {record.entry.version} has published partitions of it after based_on={based_on}"

    def _problems(self, planned: tuple[PlannedPartition, ...]) -> Iterator[str]:
        existing = [one.name for one in planned if one.replaced_location is not None]
        if self._mode is WriteMode.CREATE_PARTITIONS and existing:
            yield f"{counted(len(existing), 'partition')} already there: {few(existing, most=3)}"
        copied, limit = sum(one.copied_bytes for one in planned), self._options.max_copied_bytes
        if limit is not None and copied > limit:
            yield (
                f"{size(copied)} would have to be copied, above max_copied_bytes={limit}: partition more finely, or use"
                " overwrite_partitions"
            )
        selected = self._scope([one.values for one in planned])
        outside = [one.name for one in planned if self._options.where and one.values not in selected]
        if outside:
            yield (
                f"the DataFrame has rows in {counted(len(outside), 'partition')} that"
                f" where={self._options.where!r} does not select: {few(outside, most=3)}"
            )
        if self._options.if_empty == "error" and not any(one.rows for one in planned):
            yield "the DataFrame has no rows, and if_empty='error'"


def _verdict(given: StructType, fitted: FittedRows) -> SchemaVerdict:
    types = {field.name.lower(): field.dataType.simpleString() for field in given}
    wanted = {field.name: field.dataType.simpleString() for field in fitted.schema}
    pairs = ((name, types.get(name.lower(), kind), kind) for name, kind in wanted.items())
    return SchemaVerdict(
        added_columns=tuple(f"{field.name}: {field.dataType.simpleString()}" for field in fitted.added),
        filled_columns=fitted.filled,
        default_columns=fitted.defaults,
        converted_columns=tuple(f"{name}: {was} -> {kind}" for name, was, kind in pairs if was != kind),
    )
