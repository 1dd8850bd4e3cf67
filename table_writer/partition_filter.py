"""Rows of some partitions, as Spark finds them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import StructField

from table_writer.model.column_statistics import CHAR_VARCHAR
from table_writer.model.partition_name import NULL_PARTITION
from table_writer.model.table import PartitionValues
from table_writer.sql_text import quoted

__all__ = ["in_partitions"]


def in_partitions(fields: Sequence[StructField], partitions: Collection[PartitionValues]) -> Column:
    """Return whether a row is of one of some partitions; Spark lists no directory of the others.

    One set to look up: a chain of ORs overflows Spark's stack at some thousand partitions.

    Parameters
    ----------
    fields
        The partition columns; none of an unpartitioned table.
    partitions
        One or more.
    """
    if not fields:
        return F.lit(True)

    def comparable(column: Column, field: StructField) -> Column:  # char(n) is read with blanks, and may lie without
        return F.rtrim(column) if str(field.metadata.get(CHAR_VARCHAR)).startswith("char(") else column

    def value(text: str, field: StructField) -> Column:
        return comparable(F.lit(None if text == NULL_PARTITION else text).cast(field.dataType), field)

    def struct(values: Sequence[Column]) -> Column:  # nulls inside of structs are equal
        return F.struct(*(one.alias(f"_{position}") for position, one in enumerate(values)))

    rows = [struct([value(text, field) for text, field in zip(values, fields, strict=True)]) for values in partitions]
    return struct([comparable(F.col(quoted(field.name)), field) for field in fields]).isin(rows)
