"""Which task gets which rows, and in which order: what decides how many files there are and how rows lie in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import ArrayType, DataType, StructType

from table_writer.errors import InvalidInputError
from table_writer.sql_text import quoted

__all__ = ["laid_out"]

SORT_ITEM: Final = re.compile(
    r"(?P<name>.+?)(?:\s+(?P<order>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?", re.IGNORECASE
)
ORDERS: Final = {
    ("asc", "first"): "asc_nulls_first",
    ("asc", "last"): "asc_nulls_last",
    ("desc", "first"): "desc_nulls_first",
    ("desc", "last"): "desc_nulls_last",
}
UNORDERED: Final = ("map", "variant")
USUAL_NULLS: Final = {"asc": "first", "desc": "last"}  # Spark's


def laid_out(
    rows: DataFrame, *, partition_columns: Sequence[str], distribution: str, sort_by: Sequence[str]
) -> DataFrame:
    """Return the same rows, spread over tasks and ordered within each.

    Parameters
    ----------
    rows
        The columns of the table.
    partition_columns
        Of the table; empty if it has none.
    distribution
        ``"none"``: tasks stay as they are. ``"hash"``: all rows of a partition go to one task, which writes one file;
        an unpartitioned table's go evenly to ``spark.sql.shuffle.partitions`` tasks. ``"rebalance"``: rows of a
        partition go to as few tasks as ``spark.sql.adaptive.advisoryPartitionSizeInBytes`` allows, a large partition
        to several; needs ``spark.sql.adaptive.enabled``.
    sort_by
        As in SQL's ``ORDER BY``, but columns only: ``"amount"``, ``"amount desc"``, ``"amount asc nulls last"``. Rows
        of each task are sorted by partition, then by these; so are the rows of each file.

    Raises
    ------
    InvalidInputError
        Names the columns in ``sort_by`` that the table does not have or that have no order.
    """
    names = _Names(rows)
    by_partition = [F.col(names.quoted(name)) for name in partition_columns]
    order = [names.order(item) for item in sort_by]
    if distribution == "hash":
        spread: list[Any] = list(by_partition) or [int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)]
        rows = rows.repartition(*spread)
    elif distribution == "rebalance":
        rows = rows.hint("rebalance", *(names.quoted(name) for name in partition_columns))
    return rows.sortWithinPartitions(*by_partition, *order) if order else rows


class _Names:
    """Finds columns by name, whatever its case."""

    def __init__(self, rows: DataFrame) -> None:
        self._fields = {field.name.lower(): field for field in rows.schema}

    def quoted(self, name: str) -> str:
        """Return the column's own name in backquotes."""
        return quoted(self._fields[name.lower()].name)

    def order(self, item: str) -> Column:
        """Return the sort order that a text asks for; a column whose name reads like an order is a column."""
        found = SORT_ITEM.fullmatch(item.strip())
        asked = found.groupdict() if found and self._plain(item) not in self._fields else {"name": item}
        name = self._plain(asked["name"])
        if name not in self._fields:
            known = ", ".join(field.name for field in self._fields.values())
            raise InvalidInputError(f"sort_by names {item!r}, which is no column of the table; it has {known}")
        if not _has_order(self._fields[name].dataType):
            raise InvalidInputError(
                f"sort_by names {item!r}, but values of type {self._fields[name].dataType.simpleString()} have no order"
            )
        direction = (asked.get("order") or "asc").lower()
        nulls = (asked.get("nulls") or USUAL_NULLS[direction]).lower()
        column: Column = getattr(F.col(self.quoted(name)), ORDERS[direction, nulls])()
        return column

    def _plain(self, name: str) -> str:
        stripped = name.strip().lower()
        return stripped[1:-1].replace("``", "`") if re.fullmatch("`.+`", stripped) else stripped


def _has_order(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return all(_has_order(field.dataType) for field in kind)
    if isinstance(kind, ArrayType):
        return _has_order(kind.elementType)
    return kind.typeName() not in UNORDERED
