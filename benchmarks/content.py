"""What a table holds, so little of it that two applications can compare it: by partition, a count and a checksum."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark documents it
from pyspark.sql.types import MapType

from benchmarks.cases import Case

Content = dict[str, tuple[int, int]]
WHOLE = "all"


def full_content(rows: DataFrame, case: Case) -> Content:
    """Return the count of each partition's rows, and a checksum over all their columns."""
    hashed = [F.map_entries(f.name) if isinstance(f.dataType, MapType) else F.col(f"`{f.name}`") for f in rows.schema]
    return _by_partition(rows, case, F.shiftright(F.xxhash64(*hashed), 32))  # or the sum would overflow


def marked_content(rows: DataFrame, case: Case) -> Content:
    """Return the count of each partition's rows, and the sum of their markers, which tells their generation."""
    return _by_partition(rows, case, F.col(case.marker).cast("bigint"))


def _by_partition(rows: DataFrame, case: Case, checked: Column) -> Content:
    name = F.concat_ws("/", *(F.col(column).cast("string") for column in case.partition_by))
    partition = (name if case.partition_by else F.lit(WHOLE)).alias("partition")
    counted = rows.groupBy(partition).agg(F.count("*").alias("row_count"), F.sum(checked).alias("checksum"))
    return {row["partition"]: (row["row_count"], row["checksum"]) for row in counted.collect()}
