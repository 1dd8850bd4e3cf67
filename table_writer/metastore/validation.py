"""What no metastore should be asked: refused here, since servers answer it with silence or with riddles."""

from __future__ import annotations

from collections.abc import Sequence

from table_writer.errors import InvalidInputError
from table_writer.model.partition_name import NULL_PARTITION
from table_writer.model.table import Partition, PartitionChange, PartitionValues, Table

__all__ = ["validate_additions", "validate_changes", "validate_values"]


def validate_values(table: Table, values: Sequence[PartitionValues]) -> None:
    """Refuse values that do not fit the table's partition columns."""
    for one in values:
        if len(one) != len(table.partition_columns):
            names = ", ".join(column.name for column in table.partition_columns) or "none"
            raise InvalidInputError(f"{one} does not fit the partition columns of {table.name}: {names}")


def validate_additions(table: Table, partitions: Sequence[Partition]) -> None:
    """Refuse also duplicates and values that the metastore would spell in another way."""
    values = [partition.values for partition in partitions]
    validate_values(table, values)
    _refuse_duplicates(table, values)
    if not all(map(all, values)):
        raise InvalidInputError(f"an empty partition value for {table.name}: Hive spells it {NULL_PARTITION}")


def validate_changes(table: Table, changes: Sequence[PartitionChange]) -> None:
    """Refuse duplicates: of two changes to one partition a server applies either."""
    _refuse_duplicates(table, [change.partition.values for change in changes])


def _refuse_duplicates(table: Table, values: Sequence[PartitionValues]) -> None:
    seen: set[PartitionValues] = set()
    for one in values:
        if one in seen:
            raise InvalidInputError(f"partition {one} of {table.name} appears twice in one call")
        seen.add(one)
