"""Which files hold the rows that a change is about, and how many: found by one Spark job."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer.errors import StorageError
from table_writer.model.location import Location
from table_writer.model.table import PartitionValues
from table_writer.spark import open_gateway
from table_writer.spark.sql import SPARK_ERRORS, spark_sentence
from table_writer.steps.rows.snapshot import Snapshot

FILE: Final = "__table_writer_file"
FileNames = Mapping[PartitionValues, Collection[str]]
"""By partition: names of files below its location."""


@dataclass(frozen=True, slots=True)
class Hits:
    """The rows that a change is about, counted by partition and file."""

    files: Mapping[PartitionValues, Mapping[str, int]]
    removed: int  # rows that the change takes away

    @property
    def rows(self) -> int:
        """Return the number of rows that the change is about."""
        return sum(count for files in self.files.values() for count in files.values())


def with_file(rows: DataFrame) -> DataFrame:
    """Add the path of the file that each row is read from; Spark knows it before any join."""
    return rows.withColumn(FILE, F.input_file_name())


def find_hits(snapshot: Snapshot, hits: DataFrame, is_removed: Column) -> Hits:
    """Count the rows of a frame that :func:`with_file` has begun, by their files; ``is_removed`` says which go."""
    by_file = hits.groupBy(FILE).agg(F.count(F.lit(1)).alias("rows"), F.count(F.when(is_removed, 1)).alias("removed"))
    found = collected(snapshot, by_file)
    return Hits(
        _by_partition(snapshot, {row[FILE]: row["rows"] for row in found}), sum(row["removed"] for row in found)
    )


def rows_by_file(snapshot: Snapshot, names: FileNames) -> dict[PartitionValues, dict[str, int]]:
    """Count all rows of some files; one without rows is left out. Reads no column, so of Parquet only footers."""
    if not any(names.values()):
        return {values: {} for values in names}
    counts = with_file(snapshot.rows(names).select()).groupBy(FILE).count()
    found = _by_partition(snapshot, {row[FILE]: row["count"] for row in collected(snapshot, counts)})
    return {values: found.get(values, {}) for values in names}


def collected(snapshot: Snapshot, rows: DataFrame) -> list[Any]:
    """Collect a small frame; Ctrl-C ends the job."""
    try:
        return open_gateway(snapshot.spark).run(f"rows of {snapshot.table.name}", rows.collect)
    except SPARK_ERRORS as error:
        name, reason = snapshot.table.name, spark_sentence(error)
        raise snapshot.refusal(
            f"the rows of {name} cannot be looked through: {reason} Nothing was published."
        ) from error


def _by_partition(snapshot: Snapshot, counts: Mapping[str, int]) -> dict[PartitionValues, dict[str, int]]:
    """Group files by their partitions, which their directories tell; Spark spells some paths as a URL."""
    places = snapshot.places
    found: dict[PartitionValues, dict[str, int]] = {}
    for path, count in counts.items():
        for spelled in (unquote(path), path):
            directory, _, name = spelled.rpartition("/")
            location = Location.parse_any(directory)
            values = places.get(location.place) if location else None
            if values is not None:
                found.setdefault(values, {})[name] = count
                break
        else:
            raise StorageError(
                f"Spark has read {path} for rows of {snapshot.table.name}, which no partition was to have."
                " Nothing was published. Run it again.",
                table=str(snapshot.table.name),
            )
    return found
