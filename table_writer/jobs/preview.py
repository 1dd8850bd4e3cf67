"""Find out what a write would do: the checks of steps 1 and 5, with nothing written."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import DateType, StructType

from table_writer.check.run import as_checks, require_valid
from table_writer.config import WriteOptions
from table_writer.errors import InvalidInputError, SchemaMismatchError, counted, few
from table_writer.jobs.plan.fit import FittedRows
from table_writer.jobs.plan.planner import Planner, require_mode
from table_writer.jobs.plan.types import partition_schema, violation
from table_writer.jobs.rows.kept import files_that_stay
from table_writer.jobs.rows.rewrite import Rewrite
from table_writer.model.entry import EntryPartition, Key
from table_writer.model.location import Location
from table_writer.model.meaning import Operation
from table_writer.model.partition_facts import PartitionFacts
from table_writer.model.table import NULL_PARTITION, Partition, PartitionValues, name_in, shown_name
from table_writer.model.write import new_write_id
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.records import LogEnd
from table_writer.protocol.log.rules import Standing, standing
from table_writer.protocol.table.open_table import OpenTable, RepeatedError
from table_writer.reports.layout import size
from table_writer.reports.plan_report import PlanReport, RowsPlan, SchemaVerdict
from table_writer.spark.sql import SPARK_ERRORS, fetched, grouped, quoted
from table_writer.spark.types import shown_type
from table_writer.storage.table_files import existing_values, files_of_each, why_not_copied

USUAL_DATE: Final = re.compile(r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}")
"""Dates of the years 1 to 9999, as Spark spells them: those that Arrow's engine can write."""


class Preview:
    """A look at what a write would do; a mode that does not fit, or bad SQL, is an error at once.

    ``rewrite`` is the change of rows that the write carries out.
    """

    def __init__(
        self, opened: OpenTable, df: DataFrame, mode: WriteMode, options: WriteOptions, rewrite: Rewrite | None = None
    ) -> None:
        require_mode(mode, options, opened.table.name, partitioned=bool(opened.table.partition_columns))
        self._opened = opened
        self._df = df
        self._mode = mode
        self._options = options
        self._planner = Planner(opened, of_rows=rewrite is not None)
        self._rewrite = rewrite
        self._scope = rewrite.scope if rewrite else self._planner.scope(df, mode, options)

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
        counts, partitions_now = self._rows_and_partitions(df, rows)
        carried_sizes = self._carried_sizes(counts, partitions_now)
        planned = self._partitions(counts, partitions_now, carried_sizes)
        return replace(
            empty_report,
            notes=(*notes, *self._other_carry(carried_sizes)),
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

    def _rows_and_partitions(
        self, df: DataFrame, rows: Mapping[PartitionValues, int]
    ) -> tuple[Mapping[PartitionValues, int], Mapping[PartitionValues, Partition]]:
        """Return the row counts, by the metastore's spelling, and the existing partitions that would change."""
        table, metastore = self._opened.table, self._opened.metastore
        names = metastore.get_partition_names(table.name)
        spellings = self._planner.spellings(df, names)
        counts = {spellings.get(values, values): count for values, count in rows.items()}
        other_values = self._scope(names) - counts.keys()
        partitions_now = metastore.get_partitions(table, sorted({*counts, *other_values}))
        existing_now = existing_values(self._opened.store, self._opened.layout, partitions_now)
        return counts, {values: partition for values, partition in partitions_now.items() if values in existing_now}

    def _other_carry(self, carried_sizes: Mapping[PartitionValues, Sequence[int]]) -> Iterator[str]:
        """Say what an append would cost with the other ``carry``."""
        files, total = sum(map(len, carried_sizes.values())), f"{size(sum(map(sum, carried_sizes.values())))}"
        if self._rewrite is not None:
            return
        if files and self._options.carry == "in_place":
            yield f"carry='copy' would copy {counted(files, 'file')} ({total}), and show all rows at once"
        elif files:
            yield (
                f"carry='in_place' would copy none of these {counted(files, 'file')} ({total}); new files appear one by"
                " one then"
            )

    def _partitions(
        self,
        counts: Mapping[PartitionValues, int],
        partitions_now: Mapping[PartitionValues, Partition],
        carried_sizes: Mapping[PartitionValues, Sequence[int]],
    ) -> tuple[PartitionFacts, ...]:
        data = self._opened.layout.data(new_write_id())
        planned = []
        for values in sorted({*counts, *partitions_now}):
            name, rows, partition_now = (
                name_in(self._opened.table, values),
                counts.get(values, 0),
                partitions_now.get(values),
            )
            is_in_place = partition_now is not None and self._is_in_place(partition_now)
            copied_sizes = () if is_in_place else carried_sizes.get(values, ())
            planned.append(
                PartitionFacts(
                    name=name,
                    values=values,
                    action=self._action(rows or len(copied_sizes), partition_now),
                    location=str(partition_now.location if partition_now and is_in_place else data.child(name))
                    if rows or copied_sizes
                    else "",
                    rows=rows,
                    old_location=partition_now.location if partition_now and not is_in_place else None,
                    copied_files=len(copied_sizes),
                    copied_bytes=sum(copied_sizes),
                )
            )
        return tuple(planned)

    def _is_in_place(self, partition: Partition) -> bool:
        """Return whether files are added at the location that the partition has."""
        is_append = self._mode.facts.keeps_rows and self._options.carry == "in_place"
        return is_append and not self._opened.layout.is_placeholder(Location.parse(partition.location))

    def _action(self, holds: int, partition: Partition | None) -> str:
        if not holds:
            return "empty"
        if partition is None:
            return "add"
        return "append" if self._mode.facts.keeps_rows else "replace"

    def _sizes(self, partitions_now: Mapping[PartitionValues, Partition]) -> dict[PartitionValues, list[int]]:
        """Return the sizes of the files that an append copies; none where the append would be refused."""
        layout = self._opened.layout
        places = {
            values: Location.parse(partition.location)
            for values, partition in partitions_now.items()
            if not why_not_copied(layout, partition)
        }
        files = files_of_each(self._opened.store, layout, places.values())
        return {values: [file.size_bytes for file in files[place]] for values, place in places.items()}

    def _uncopied_partitions(self, partitions_now: Mapping[PartitionValues, Partition]) -> Iterator[str]:
        """Name the partitions for which an append would be refused."""
        for values, partition in sorted(partitions_now.items()) if self._mode.facts.keeps_rows else ():
            if reason := why_not_copied(self._opened.layout, partition):
                yield (
                    f"{shown_name(self._opened.table, values)} {reason}: its files cannot be put beside new ones;"
                    f" replace it with {self._opened.table.overwrite_call}"
                )

    def _conflicts_since(self, based_on: int | None, values: Collection[PartitionValues]) -> Iterator[str]:
        """Name the versions after ``based_on`` that the write would conflict with."""
        if based_on is None:
            return
        log = self._opened.log
        draft = self._opened.next_entry(
            LogEnd(based_on),
            Operation.WRITE,
            mode=self._mode,
            partitions=tuple(EntryPartition.without_rows(named_values, None) for named_values in values),
        )
        unseen = log.unseen_at(based_on)
        listing = log.lister.read(listed_after=min({based_on, *(v - 1 for v in unseen)}))
        if not unseen <= listing.versions:
            yield f"what happened since based_on={based_on} cannot be told: entries of then were trimmed, or are lost"
        for record in log.read_history(listing).records:
            if standing(record, draft, unseen, scope=self._scope) is Standing.CONFLICT:
                yield f"version {record.entry.version} has published partitions of it after based_on={based_on}"

    def _problems(self, planned: tuple[PartitionFacts, ...]) -> Iterator[str]:
        existing_names = [partition.name for partition in planned if partition.replaced_location is not None]
        if self._mode.facts.only_creates and existing_names:
            yield f"{counted(len(existing_names), 'partition')} already there: {few(existing_names, most=3)}"
        copied_bytes, limit = sum(partition.copied_bytes for partition in planned), self._options.max_copied_bytes
        if limit is not None and copied_bytes > limit:
            yield (
                f"{size(copied_bytes)} would have to be copied, above max_copied_bytes={limit}: partition more finely,"
                f" or use {self._opened.table.overwrite_call}"
            )
        selected = self._scope([partition.values for partition in planned])
        outside_names = [
            partition.name for partition in planned if self._options.where and partition.values not in selected
        ]
        if outside_names:
            yield (
                f"the DataFrame has rows in {counted(len(outside_names), 'partition')} that"
                f" where={self._options.where!r} does not select: {few(outside_names, most=3)}"
            )
        if self._options.if_empty == "error" and not any(partition.rows for partition in planned):
            yield "the DataFrame has no rows, and if_empty='error'"


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
