"""What no metastore should be asked: refused here, since servers answer it with silence or with riddles."""

from __future__ import annotations

from collections.abc import Sequence

from table_writer.errors import InvalidInputError
from table_writer.model.partition_name import NULL_PARTITION
from table_writer.model.table import Partition, PartitionChange, PartitionValues, Table

__all__ = ["validate_additions", "validate_changes", "validate_drop", "validate_values"]


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
    _refuse_whole_table(table, values)
    _refuse_duplicates(table, values)
    if not all(map(all, values)):
        raise InvalidInputError(f"an empty partition value for {table.name}: Hive spells it {NULL_PARTITION}")


def validate_changes(table: Table, changes: Sequence[PartitionChange]) -> None:
    """Refuse what does not fit, and duplicates: of two changes to one partition a server applies either."""
    values = [change.partition.values for change in changes]
    validate_values(table, values)
    _refuse_duplicates(table, values)


def validate_drop(table: Table, values: PartitionValues) -> None:
    """Refuse values that do not fit, and dropping the one partition that an unpartitioned table is."""
    validate_values(table, [values])
    _refuse_whole_table(table, [values])


def _refuse_whole_table(table: Table, values: Sequence[PartitionValues]) -> None:
    if values and not table.partition_columns:
        raise InvalidInputError(
            f"{table.name} has no partition columns: it is its own only partition, which can neither be added nor"
            " dropped; alter it instead, to a location without files if it shall have no rows",
            table=str(table.name),
        )


def _refuse_duplicates(table: Table, values: Sequence[PartitionValues]) -> None:
    seen: set[PartitionValues] = set()
    for one in values:
        if one in seen:
            raise InvalidInputError(f"partition {one} of {table.name} appears twice in one call")
        seen.add(one)
