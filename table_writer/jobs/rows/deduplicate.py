"""Of the rows of one key, the first in an order stays: late and double deliveries go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer.errors import InvalidInputError
from table_writer.jobs.plan.distribution import SORT_ITEM, USUAL_NULLS
from table_writer.jobs.plan.planner import NUMBER
from table_writer.jobs.plan.types import table_schema
from table_writer.jobs.rows.change import ChangedRows
from table_writer.jobs.rows.expressions import Expression, blank, value_of
from table_writer.jobs.rows.hits import COUNT, find_hits, with_file
from table_writer.jobs.rows.keys import Keys
from table_writer.jobs.rows.snapshot import Snapshot
from table_writer.model.write import no_partition
from table_writer.spark.sql import balanced_tree, quoted

KEY = "__table_writer_key_"  # the columns of the key


@dataclass(frozen=True, slots=True)
class Deduplicated:
    """Rows of the selected partitions, of which those with one key become one."""

    on: Sequence[str]
    keep: Sequence[Expression]
    name: ClassVar[str] = "deduplicate"
    selects_by: ClassVar[str] = "where"
    condition: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if not self.keep:
            raise InvalidInputError("keep=[]: expected an order, such as ['updated_at DESC']; its first row stays")

    def of(self, snapshot: Snapshot) -> ChangedRows:
        """Find the files with rows of keys that others have too: all rows of such a key are in them.

        So which of two rows that the order takes for equal stays may differ from the search, and the number does not.
        """
        keys, order = Keys.of(self.on, snapshot.table), self._order(snapshot)
        names = keys.names(KEY)
        has_key = balanced_tree(Column.__and__, [F.col(name).isNotNull() for name in names])
        same_key = Window.partitionBy(*names)
        rows = keys.added_to(with_file(snapshot.scan(snapshot.selected)), KEY).where(has_key)
        counted = rows.withColumns(
            {COUNT: F.count(F.lit(1)).over(same_key), NUMBER: F.row_number().over(same_key.orderBy(*names))}
        )
        hits = find_hits(snapshot, counted.where(F.col(COUNT) > 1), is_removed=F.col(NUMBER) > 1)
        touched = keys.added_to(snapshot.rows(hits.files, by_spark=True), KEY)
        numbered = touched.withColumn(NUMBER, F.row_number().over(same_key.orderBy(*order)))
        return ChangedRows(
            rows=numbered.where(~has_key | (F.col(NUMBER) == 1)).select(
                *map(quoted, table_schema(snapshot.table).names)
            ),
            replaced=hits.files,
            deleted=hits.removed,
            is_by_key=True,
            watched=no_partition if keys.tell_partition else snapshot.scope,
        )

    def _order(self, snapshot: Snapshot) -> list[Column]:
        frame = blank(snapshot.spark, table_schema(snapshot.table))
        return [self._ordered(frame, expression) for expression in self.keep]

    def _ordered(self, frame: DataFrame, expression: Expression) -> Column:
        """Return an expression as it is to be ordered by; a text as in SQL: ``n DESC NULLS LAST``."""
        if isinstance(expression, Column):
            return expression
        found = SORT_ITEM.fullmatch(expression.strip())
        asked = found.groupdict() if found else {"name": expression}
        direction = (asked.get("order") or "asc").lower()
        nulls = (asked.get("nulls") or USUAL_NULLS[direction]).lower()
        column: Column = getattr(value_of(frame, asked["name"], "keep"), f"{direction}_nulls_{nulls}")()
        return column
