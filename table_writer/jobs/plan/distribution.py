"""The distribution of rows over tasks, and their order: it decides the number of files, and how they are sorted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql import types as T  # noqa: N812 - as Spark documents it

from table_writer.config import WriteOptions
from table_writer.errors import InvalidInputError
from table_writer.model.table import Table
from table_writer.model.units import MIB
from table_writer.model.upload_spec import BatchLimits
from table_writer.spark.sql import analyzed_now, quoted
from table_writer.spark.types import all_types, shown_type
from table_writer.spark.widths import fixed_row_bytes, is_measurable

SORT_ITEM: Final = re.compile(
    r"(?P<name>.+?)(?:\s+(?P<order>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?", re.IGNORECASE
)

UNORDERED: Final = ("map", "variant")
USUAL_NULLS: Final = {"asc": "first", "desc": "last"}  # Spark's
BATCH_BYTES: Final = 64 * MIB  # Spark's own limit of a batch, kept here by the number of rows
SPARK_BATCH_ROWS: Final = 10_000
SEEN_ROWS: Final = 2_000  # where rows may become wider than those seen: no slower, and five times the room
LEAST_ROWS: Final = 1_000  # smaller batches cost more than the weighing
UNSEEN_ROWS: Final = 500  # of a first write: no slower than larger batches
WIDER_THAN_SEEN: Final = 32  # how many times as wide as the rows of an earlier write those of a batch may be


def laid_out(rows: DataFrame, table: Table, options: WriteOptions) -> DataFrame:
    """Return a write's rows spread over tasks, and in order within each, as the call asks for it."""
    names = [column.name for column in table.partition_columns]
    usual = "hash" if names and options.carry == "in_place" else "none"  # there each file appears by itself
    distribution = usual if options.distribution == "auto" else options.distribution
    return analyzed_now(lay_out(rows, partition_columns=names, distribution=distribution, sort_by=options.sort_by))


def lay_out(
    rows: DataFrame, *, partition_columns: Sequence[str], distribution: str, sort_by: Sequence[str]
) -> DataFrame:
    """Return the same rows, spread over tasks and ordered within each.

    ``distribution`` is ``"none"``: tasks stay as they are. ``"hash"``: all rows of a partition go to one task, which
    writes one file; an unpartitioned table's go evenly to ``spark.sql.shuffle.partitions`` tasks. ``"rebalance"``: rows
    of a partition go to as few tasks as ``spark.sql.adaptive.advisoryPartitionSizeInBytes`` allows, a large partition
    to several; needs ``spark.sql.adaptive.enabled``. Rows of each task are sorted by partition, then by ``sort_by``, as
    in SQL's ``ORDER BY``, but columns only: ``"amount asc nulls last"``; so are the rows of each file.
    """
    fields = {field.name.lower(): field for field in rows.schema}
    names = [quoted(fields[name.lower()].name) for name in partition_columns]
    by_partition = [F.col(name) for name in names]
    order = [_order(item, fields) for item in sort_by]
    if distribution == "hash":
        spread: list[Any] = list(by_partition) or [int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)]
        rows = rows.repartition(*spread)
    elif distribution == "rebalance":
        rows = _rebalanced(rows, names)
    return rows.sortWithinPartitions(*by_partition, *order) if order else rows


def _rebalanced(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Hint at a rebalance by columns, whose names PySpark 3.5 takes in SQL only."""
    session = rows.sparkSession
    if not names or int(session.version.split(".")[0]) >= 4:
        return rows.hint("rebalance", *names)
    columns = ", ".join(names).replace("{", "{{").replace("}", "}}")
    return session.sql(f"SELECT /*+ REBALANCE({columns}) */ * FROM {{rows}}", rows=rows)  # noqa: S608  # quoted names


def _order(item: str, fields: Mapping[str, T.StructField]) -> Column:
    """Return the sort order that a text asks for; a column whose name reads like an order is a column."""
    found = SORT_ITEM.fullmatch(item.strip())
    asked = found.groupdict() if found and _plain(item) not in fields else {"name": item}
    field = fields.get(_plain(asked["name"]))
    if field is None:
        known = ", ".join(field.name for field in fields.values())
        raise InvalidInputError(f"sort_by names {item!r}, which is no column of the table; it has {known}")
    if any(kind.typeName() in UNORDERED for kind in all_types(field.dataType)):
        raise InvalidInputError(
            f"sort_by names {item!r}, but values of type {shown_type(field.dataType)} have no order"
        )
    direction = (asked.get("order") or "asc").lower()
    nulls = (asked.get("nulls") or USUAL_NULLS[direction]).lower()
    column: Column = getattr(F.col(quoted(field.name)), f"{direction}_nulls_{nulls}")()
    return column


def _plain(name: str) -> str:
    stripped = name.strip().lower()
    return stripped[1:-1].replace("``", "`") if re.fullmatch("`.+`", stripped) else stripped


def batch_limits(schema: T.StructType, seen_row_bytes: int) -> BatchLimits:
    """Return how many rows stay below 64 MiB, and how wide none of them may be for that: 0 where they cannot be wider.

    Spark ends an Arrow batch at 10,000 rows or 64 MiB, and since 4.0 computes the size of what it has after each row:
    more than half of what the transfer to Python costs. Where rows cannot be that wide, their number does the same. No
    rows, 0, where weighing costs less. ``seen_row_bytes`` is the width at the widest place of an earlier write to the
    table, 0 where that is not known: then the job itself has to look at each row.
    """
    fixed = fixed_row_bytes(schema)
    if fixed is None and not seen_row_bytes:
        return BatchLimits(UNSEEN_ROWS, BATCH_BYTES // UNSEEN_ROWS) if is_measurable(schema) else BatchLimits()
    width, most = (seen_row_bytes * WIDER_THAN_SEEN, SEEN_ROWS) if fixed is None else (fixed, SPARK_BATCH_ROWS)
    rows = min(most, BATCH_BYTES // max(1, width))
    return BatchLimits(rows) if rows >= LEAST_ROWS else BatchLimits()
