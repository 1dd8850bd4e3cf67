"""What a write would do: steps 1 and 5 looked at, and nothing written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import StructType

from table_writer.display.plan_report import PlannedAction, PlannedPartition, PlanReport, SchemaVerdict
from table_writer.display.render import size
from table_writer.errors import SchemaMismatchError
from table_writer.log.files import files_read_at
from table_writer.log.owner import Owner, require_owner
from table_writer.model.location import Location
from table_writer.model.partition_name import NULL_PARTITION, name_in
from table_writer.model.table import Partition, PartitionValues
from table_writer.model.write import Scope, WriteMode, new_write_id
from table_writer.options import WriteOptions
from table_writer.plan.fit import Fitted
from table_writer.plan.planner import Planner
from table_writer.services import TableServices

__all__ = ["Preview"]


@dataclass(frozen=True, kw_only=True)
class Preview:
    """Looks at what a write would do.

    Parameters
    ----------
    services, planner
        Of the table.
    mode, options, scope
        Of the call.
    """

    services: TableServices
    planner: Planner
    mode: WriteMode
    options: WriteOptions
    scope: Scope

    def report(self, df: DataFrame) -> PlanReport:
        """Run the query once, for its partitions, and compare them with the table's."""
        services = self.services
        require_owner(services.store, services.layout, Owner.of(services.table, services.metastore.uri))
        state = services.log.read_state()
        doubt = tuple(f"version {one} is in doubt: a write that meets it settles it first" for one in state.in_doubt)
        try:
            fitted = self.planner.fit(df, self.options)
        except SchemaMismatchError as error:
            return PlanReport(
                table=str(services.table.name),
                mode=self.mode.value,
                base_version=state.newest,
                schema=SchemaVerdict(problems=(error.message,)),
                notes=doubt,
            )
        rows = self._rows_by_partition(fitted)
        planned = self._partitions(rows)
        return PlanReport(
            table=str(services.table.name),
            mode=self.mode.value,
            base_version=state.newest,
            partitions=planned,
            schema=_verdict(df.schema, fitted),
            notes=doubt,
            problems=self._problems(planned),
        )

    def _rows_by_partition(self, fitted: Fitted) -> dict[PartitionValues, int]:
        names = [column.name for column in self.services.table.partition_columns]
        columns = [fitted.rows[f"`{name}`"] for name in names]
        counted = fitted.rows.groupBy(*columns).agg(F.count(F.lit(1)).alias("rows")).collect()
        found: dict[PartitionValues, int] = {}
        for row in counted:
            values = tuple(NULL_PARTITION if value in (None, "") else str(value) for value in row[: len(names)])
            found[values] = found.get(values, 0) + row[len(names)]  # null and empty text are one partition
        return {values: count for values, count in sorted(found.items()) if count}

    def _partitions(self, rows: Mapping[PartitionValues, int]) -> tuple[PlannedPartition, ...]:
        table, metastore = self.services.table, self.services.metastore
        spelled = self.planner.spelled(self.mode)
        counts = {spelled.get(values, values): count for values, count in rows.items()}
        beyond = self.scope(metastore.get_partition_names(table.name)) - counts.keys()
        now = metastore.get_partitions(table, sorted({*counts, *beyond}))
        data = self.services.layout.data(new_write_id())
        return tuple(
            self._planned(values, counts.get(values, 0), now.get(values), data)
            for values in sorted({*counts, *(beyond & now.keys())})
        )

    def _planned(self, values: PartitionValues, rows: int, now: Partition | None, data: Location) -> PlannedPartition:
        name = name_in(self.services.table, values)
        copied = self._sizes(now) if now is not None and self.mode is WriteMode.APPEND else []
        return PlannedPartition(
            name=name,
            values=values,
            action=self._action(rows, now),
            location=str(data.child(name)) if rows else "",
            rows=rows,
            replaced_location=now.location if now else None,
            copied_files=len(copied),
            copied_bytes=sum(copied),
        )

    def _action(self, rows: int, now: Partition | None) -> PlannedAction:
        if not rows:
            return "empty"
        if now is None:
            return "add"
        return "append" if self.mode is WriteMode.APPEND else "replace"

    def _sizes(self, partition: Partition) -> list[int]:
        """Return the sizes of the files that an append brings along."""
        found = files_read_at(self.services.store, self.services.layout, Location.parse(partition.location))
        return [one.size_bytes for one in found]

    def _problems(self, planned: tuple[PlannedPartition, ...]) -> tuple[str, ...]:
        existing = [one.name for one in planned if one.replaced_location is not None]
        copied = sum(one.copied_bytes for one in planned)
        limit = self.options.max_copied_bytes
        selected = self.scope([one.values for one in planned])
        outside = [one.name for one in planned if self.options.where and one.values not in selected]
        found = (
            (
                self.mode is WriteMode.CREATE_PARTITIONS and bool(existing),
                f"{len(existing)} partition(s) exist already: {', '.join(existing[:3])}",
            ),
            (
                limit is not None and copied > limit,
                (
                    f"{size(copied)} would have to be copied, above max_copied_bytes={limit}: partition more finely, or"
                    " use overwrite_partitions"
                ),
            ),
            (
                bool(outside),
                (
                    f"the DataFrame has rows in {len(outside)} partition(s) that where={self.options.where!r} does not"
                    f" select: {', '.join(outside[:3])}"
                ),
            ),
            (
                self.options.if_empty == "error" and not any(one.rows for one in planned),
                "the DataFrame has no rows, and if_empty='error'",
            ),
        )
        return tuple(text for is_so, text in found if is_so)


def _verdict(given: StructType, fitted: Fitted) -> SchemaVerdict:
    types = {field.name.lower(): field.dataType for field in given}
    return SchemaVerdict(
        added_columns=tuple(f"{field.name}: {field.dataType.simpleString()}" for field in fitted.added),
        filled_columns=fitted.filled,
        converted_columns=tuple(
            f"{field.name}: {types[field.name.lower()].simpleString()} -> {field.dataType.simpleString()}"
            for field in fitted.schema
            if field.name.lower() in types and types[field.name.lower()].simpleString() != field.dataType.simpleString()
        ),
    )
