"""Keys: the columns that tell a table's rows apart, updates that name each key once, and the partitions of keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import ArrayType, CharType, MapType, StringType, StructField, StructType

from table_writer.errors import InvalidInputError, counted
from table_writer.jobs.plan.planner import NUMBER, partition_frame
from table_writer.jobs.plan.types import partition_schema
from table_writer.jobs.rows.expressions import table_column
from table_writer.jobs.rows.hits import COUNT, collected
from table_writer.jobs.rows.snapshot import Snapshot
from table_writer.model.table import NULL_PARTITION, PartitionValues, Table
from table_writer.spark.sql import balanced_tree, grouped, quoted, text_of
from table_writer.spark.types import exact_type

OF_PARTITION: Final = "__table_writer_partition_"


@dataclass(frozen=True, slots=True)
class Keys:
    """The columns of a key, as the table has them."""

    fields: tuple[StructField, ...]
    table: Table

    @classmethod
    def of(cls, on: Sequence[str], table: Table, parameter: str = "on") -> Keys:
        """Read the names of the columns; refuse those that the table lacks, or that cannot be compared."""
        fields = tuple(table_column(table, name, parameter) for name in on)
        repeated = [name for name, count in Counter(field.name for field in fields).items() if count > 1]
        nested = [field.name for field in fields if isinstance(field.dataType, ArrayType | MapType | StructType)]
        if not fields or repeated or nested:
            why = (
                f"{repeated[0]} stands there twice"
                if repeated
                else f"{nested[0]} is no single value"
                if nested
                else "it names no column"
            )
            raise InvalidInputError(
                f"{parameter}={list(on)!r}: {why}; expected the columns that tell rows apart", table=str(table.name)
            )
        return cls(fields, table)

    @property
    def partition_fields(self) -> tuple[StructField, ...]:
        """Return the columns of the key by which the table is partitioned."""
        names = {column.name for column in self.table.partition_columns}
        return tuple(field for field in self.fields if field.name in names)

    @property
    def tell_partition(self) -> bool:
        """Return whether all rows of a key are in one partition."""
        return len(self.partition_fields) == len(self.table.partition_columns)

    def names(self, prefix: str) -> list[str]:
        """Return the names of the columns that :meth:`added_to` adds."""
        return [f"{prefix}{position}" for position in range(len(self.fields))]

    def added_to(self, rows: DataFrame, prefix: str) -> DataFrame:
        """Add the key's values in the form in which both sides of a comparison have them, null where there is none."""
        columns = [
            self._comparable(field).alias(name) for field, name in zip(self.fields, self.names(prefix), strict=True)
        ]
        return rows.select("*", *columns)

    def _comparable(self, field: StructField) -> Column:
        value = F.col(quoted(field.name)).cast(field.dataType)
        if isinstance(exact_type(field), CharType):  # which lies without blanks, and is read with them
            value = F.rtrim(value)
        if field in self.partition_fields and isinstance(field.dataType, StringType):  # whose empty text is null
            value = F.when(~value.isin("", NULL_PARTITION), value)
        return value


def same_keys(left: Sequence[str], right: Sequence[str]) -> Column:
    """Return whether a row of both sides has one key."""
    return balanced_tree(Column.__and__, [F.col(name) == F.col(other) for name, other in zip(left, right, strict=True)])


@dataclass(frozen=True, slots=True)
class NamedKeys:
    """What updates name: so many keys, whose rows may be in some of the selected partitions."""

    count: int
    partitions: frozenset[PartitionValues]


def require_each_once(snapshot: Snapshot, keys: Keys, updates: DataFrame, prefix: str) -> NamedKeys:
    """Return which keys the updates name; refuse them if one is there twice, or has a null. Runs one job.

    Values of keys stay in Spark, which tells each from every other: Python has no years before 1 and after 9999, and no
    time of its own for the hour that comes twice. The driver gets numbers, and a text for the error.
    """
    names, selected = keys.names(prefix), sorted(snapshot.selected)
    is_null = balanced_tree(Column.__or__, [F.col(name).isNull() for name in names])
    by_key = grouped(updates, {name: F.col(name) for name in names}, F.count(F.lit(1)).alias(COUNT))
    counts = (
        F.sum(COUNT).alias("rows"),
        F.sum(F.when(is_null, F.col(COUNT))).alias("nulls"),
        F.max(F.when(~is_null, F.struct(COUNT, *names))).alias("most"),
    )
    numbered, alike = _with_partitions(snapshot, keys, by_key, selected)
    most = F.col("most")
    shown = (
        F.concat(F.lit(f"{field.name}="), text_of(most.getField(name), field.dataType))
        for field, name in zip(keys.fields, names, strict=True)
    )
    counted_keys = grouped(numbered, {NUMBER: F.col(NUMBER)}, *counts)
    found = collected(
        snapshot,
        counted_keys.select(
            NUMBER, "rows", "nulls", most.getField(COUNT).alias("most"), F.concat_ws(", ", *shown).alias("key")
        ),
    )
    _require_each_once(snapshot, keys, found)
    partitions = (selected[position] for row in found for position in alike.get(row[NUMBER], ()))
    return NamedKeys(sum(row["rows"] for row in found), frozenset(partitions))


def _with_partitions(
    snapshot: Snapshot, keys: Keys, by_key: DataFrame, partitions: Sequence[PartitionValues]
) -> tuple[DataFrame, dict[int | None, list[int]]]:
    """Add a number to each key, and return the positions of the partitions in which its rows may be.

    They are several if one value is spelled in two ways; all for each key that says nothing of partitions.
    """
    own = Keys(keys.partition_fields, keys.table)
    if not own.fields or not partitions:
        return by_key.withColumn(NUMBER, F.lit(None).cast("bigint")), {None: list(range(len(partitions)))}
    names, schema = own.names(OF_PARTITION), partition_schema(snapshot.table)

    def frame(chosen: Sequence[PartitionValues]) -> DataFrame:
        return own.added_to(partition_frame(snapshot.spark, schema, chosen), OF_PARTITION).select(NUMBER, *names)

    by_value = frame(partitions).coalesce(1).groupBy(*names)  # which then needs no shuffle
    of_value = by_value.agg(F.sort_array(F.collect_list(NUMBER)).alias(NUMBER)).select(NUMBER)
    alike: dict[int | None, list[int]] = dict(enumerate(row[NUMBER] for row in collected(snapshot, of_value)))
    different = frame([partitions[positions[0]] for positions in alike.values()])
    of_keys = [name for name, field in zip(by_key.columns, keys.fields, strict=False) if field in own.fields]
    return by_key.join(F.broadcast(different), same_keys(of_keys, names), "left"), alike


def _require_each_once(snapshot: Snapshot, keys: Keys, found: Sequence[Row]) -> None:
    columns = ", ".join(field.name for field in keys.fields)
    null_count = sum(row["nulls"] or 0 for row in found)
    if null_count:
        raise InvalidInputError(
            f"updates: {counted(null_count, 'row')} of {sum(row['rows'] for row in found):,} have a null in their key"
            f" ({columns}), which names no row. Nothing was published. Filter them out.",
            table=str(snapshot.table.name),
        )
    repeated = max((row for row in found if row["most"]), key=itemgetter("most"), default=None)
    if repeated and repeated["most"] > 1:
        raise InvalidInputError(
            f"updates: {repeated['key']} is there {repeated['most']:,} times, and which row counts is not said. Nothing"
            " was published. Keep one row of each key first, for example the newest.",
            table=str(snapshot.table.name),
        )
