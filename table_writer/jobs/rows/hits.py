"""Which files hold the rows that a change is about, and how many: found by one Spark job."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import LongType, StringType, StructField, StructType

from table_writer.errors import StorageError
from table_writer.jobs.rows.snapshot import FILE, Snapshot
from table_writer.model.location import Location, Place
from table_writer.model.table import PartitionValues, Table
from table_writer.spark import open_gateway
from table_writer.spark.sql import SPARK_ERRORS, fetched, frame_of, grouped, spark_sentence
from table_writer.storage.footers import MOST_FOOTERS

DIFFERS: Final = (
    "what it was given differs each time it is computed. Nothing was published. Write it to a table first, and call"
    " again with that."
)
COUNT, EXPECTED = "__table_writer_count", "__table_writer_expected"
Rows = TypeVar("Rows")
FileNames = Mapping[PartitionValues, Collection[str]]
"""By partition: names of files below its location."""


@dataclass(frozen=True, slots=True)
class Hits:
    """The rows that a change is about, counted by partition and file.

    A file may have none of them, and only rows with a key that the change names.
    """

    files: Mapping[PartitionValues, Mapping[str, int]]
    removed: int  # rows that the change takes away
    keys: int  # that the rows have: rows that are the first of one
    by_path: Mapping[str, int]  # the same files, as Spark spells them

    @property
    def rows(self) -> int:
        """Return the number of rows that the change is about."""
        return sum(count for files in self.files.values() for count in files.values())

    @property
    def changed_files(self) -> FileNames:
        """Return the files that hold such rows."""
        changed = {values: [name for name, count in files.items() if count] for values, files in self.files.items()}
        return {values: names for values, names in changed.items() if names}


def with_file(rows: DataFrame) -> DataFrame:
    """Return rows with the path of each one's file, which the relation may have told.

    Else the task is asked, which knows what it reads now, and code in Python reads ahead: a filter keeps what comes
    later behind. Partitions are not left out by that any more.
    """
    if FILE in rows.columns:
        return rows
    return rows.withColumn(FILE, F.input_file_name()).where(F.col(FILE) != "")


def find_hits(
    snapshot: Snapshot,
    hits: DataFrame,
    is_removed: Column,
    is_first: Column | None = None,
    is_hit: Column | None = None,
) -> Hits:
    """Count the rows of a frame that :func:`with_file` has begun, by their files.

    ``is_removed`` says which go, ``is_first`` which stand for a key, and ``is_hit`` which are to change, if not all.
    """
    nobody = F.lit(False)
    counted = {
        "rows": ~nobody if is_hit is None else is_hit,
        "removed": is_removed,
        "keys": nobody if is_first is None else is_first,
    }
    counts = (F.count_if(column).alias(name) for name, column in counted.items())
    found = collected(snapshot, grouped(hits, {FILE: F.col(FILE)}, *counts))
    by_path = {row[FILE]: row["rows"] for row in found}
    removed, keys = (sum(row[name] for row in found) for name in ("removed", "keys"))
    return Hits(_by_partition(snapshot, by_path), removed, keys, by_path)


def held_to(hits: Hits, rows: DataFrame, hit: str) -> DataFrame:
    """Return rows whose job fails if another number of a file's rows are hits than was found; ``hit`` says which are.

    A task has all rows of a file and counts them itself, so none that is run again counts twice.
    """
    columns = StructType([StructField(FILE, StringType()), StructField(EXPECTED, LongType())])
    expected = frame_of(rows.sparkSession, list(hits.by_path.items()), columns)
    of_file = F.count_if(F.col(hit)).over(Window.partitionBy(FILE))
    said = F.raise_error(F.lit(f"\ntable_writer.errors.InvalidInputError: {DIFFERS}\n")).cast("boolean")
    counted = rows.withColumn(COUNT, of_file).join(F.broadcast(expected), FILE, "left")
    return counted.where(F.when(F.col(COUNT) == F.col(EXPECTED), F.lit(True)).otherwise(said))


def rows_by_file(snapshot: Snapshot, names: FileNames) -> dict[PartitionValues, dict[str, int]]:
    """Count all rows of some files, which a footer of Parquet tells; a job counts those of other or very many files.

    Raises ``SourceChangedError`` if one is not the file that was listed.
    """
    files = snapshot.files_of([values for values, file_names in names.items() if file_names])
    chosen = [(values, name) for values in files for name in names[values]]
    found: dict[PartitionValues, dict[str, int]] = {values: {} for values in names}
    footers = snapshot.footers_of(chosen) if len(chosen) <= MOST_FOOTERS else [None]
    if None in footers:
        rows = with_file(snapshot.rows(names, with_file=True))
        by_file = collected(snapshot, grouped(rows, {FILE: F.col(FILE)}, F.count(F.lit(1)).alias(COUNT)))
        return found | _by_partition(snapshot, {row[FILE]: row[COUNT] for row in by_file})
    for (values, name), footer in zip(chosen, footers, strict=True):
        found[values][name] = footer.row_count if footer else 0
    return found


def collected(snapshot: Snapshot, rows: DataFrame) -> list[Any]:
    """Collect a small frame; Ctrl-C ends the job."""
    return _looked_through(snapshot, partial(fetched, rows))


def computed_now(snapshot: Snapshot, rows: DataFrame) -> DataFrame:
    """Return rows as they are computed now, for several jobs; they stay on the executors."""
    return _looked_through(snapshot, rows.localCheckpoint)


def _looked_through(snapshot: Snapshot, job: Callable[[], Rows]) -> Rows:
    try:
        return open_gateway(snapshot.spark).run(f"rows of {snapshot.table.name}", job)
    except SPARK_ERRORS as error:
        name, reason = snapshot.table.name, spark_sentence(error)
        snapshot.require_unchanged(error)
        raise snapshot.refusal(
            f"the rows of {name} cannot be looked through: {reason} Nothing was published."
        ) from error


def _by_partition(snapshot: Snapshot, counts: Mapping[str, int]) -> dict[PartitionValues, dict[str, int]]:
    """Group files by their partitions, which their directories tell."""
    places = snapshot.places
    found: dict[PartitionValues, dict[str, int]] = {}
    for path, count in counts.items():
        place, name = place_and_name(path, places, snapshot.table)
        found.setdefault(places[place], {})[name] = count
    return found


def place_and_name(path: str, places: Collection[Place], table: Table) -> tuple[Place, str]:
    """Return in which of the places a file lies that Spark has read, and its name; some paths it spells as a URL."""
    for spelled in (unquote(path), path):
        directory, _, name = spelled.rpartition("/")
        location = Location.parse_any(directory)
        if location is not None and location.place in places:
            return location.place, name
    raise StorageError(
        f"Spark has read {path} for rows of {table.name}, which no partition was to have. Nothing was published. Run it"
        " again.",
        table=str(table.name),
    )
