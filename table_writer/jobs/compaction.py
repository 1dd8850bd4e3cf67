"""A compaction: choose the small files, read exactly these, and prove that the rows written are the same."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import ceil
from typing import Final

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import ArrayType, DataType, FractionalType, MapType, StringType, StructType

from table_writer.config import CompactOptions, Distribution, WriteOptions
from table_writer.errors import CheckFailedError, counted
from table_writer.jobs.plan.file_options import engine_of
from table_writer.jobs.plan.planner import Planner, Where
from table_writer.jobs.plan.types import partition_schema
from table_writer.model.entry import ReplacedLocation, ReplacedObject
from table_writer.model.location import Location
from table_writer.model.partition_facts import PartitionFacts
from table_writer.model.table import NULL_PARTITION, Partition, PartitionValues, PastPartition, name_in, shown_name
from table_writer.model.write import Scope, WrittenFiles, every_partition
from table_writer.progress import Stopwatch
from table_writer.protocol.table.open_table import OpenTable
from table_writer.reports.write_result import CompactReport, WriteResult
from table_writer.spark import open_gateway
from table_writer.spark.sql import fetched, quoted
from table_writer.spark.types import cast_sql
from table_writer.storage.object_store import ObjectInfo, many
from table_writer.storage.table_files import files_read_at, why_not_copied

NEAR_ENOUGH: Final = 0.75  # of the target size: a file of this size is not written again
GROUP: Final = "__table_writer_group"
DEEPEST: Final = 6  # nested types: Spark's analyzer gives up at some thirty, Connect's messages sooner
SEPARATOR: Final = "\x1f"


@dataclass(frozen=True, kw_only=True, slots=True)
class SmallFiles:
    """The small files of one partition, and how many files it has in all."""

    partition: Partition
    files: tuple[ObjectInfo, ...]
    file_count: int
    target_file_bytes: int

    @property
    def bytes(self) -> int:
        """Return the bytes of the small files."""
        return sum(file.size_bytes for file in self.files)

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the small files, below the location."""
        prefix = Location.parse(self.partition.location).key
        return frozenset(file.key.removeprefix(prefix) for file in self.files)

    @property
    def group_count(self) -> int:
        """Return how many files they are to become."""
        return max(1, ceil(self.bytes / self.target_file_bytes))

    def as_replaced(self) -> ReplacedLocation:
        """Return the small files in the form that the publish compares with the files that are there then."""
        objects = (ReplacedObject(key=file.key, size_bytes=file.size_bytes, etag=file.etag) for file in self.files)
        return ReplacedLocation(
            location=self.partition.location, delete_after=datetime.now(UTC), objects=tuple(objects)
        )


class Compaction:
    """One compaction of one table: its files are chosen when it is made."""

    def __init__(self, spark: SparkSession, opened: OpenTable, options: CompactOptions) -> None:
        self._spark = spark
        self._opened = opened
        self._options = options
        self._observation = Observation()
        self._checksum = ""
        self._skip_reasons: dict[PartitionValues, str] = {}
        self.selection = self._choose()

    @property
    def replaced_files(self) -> dict[PartitionValues, ReplacedLocation]:
        """Return the files of each partition that are written anew."""
        return {small_files.partition.values: small_files.as_replaced() for small_files in self.selection}

    def _choose(self) -> tuple[SmallFiles, ...]:
        """List the files of the selected partitions, but of none where the metastore says that it has few."""
        opened, min_files = self._opened, self._options.min_files
        partitions = opened.metastore.get_all_partitions(opened.table)
        selected = self._scope()(partitions.keys())
        candidates = [
            partition
            for values, partition in sorted(partitions.items())
            if values in selected and _may_have(partition, min_files)
        ]
        self._skip_reasons = {
            partition.values: reason for partition in candidates if (reason := why_not_copied(opened.layout, partition))
        }
        listed = many(
            self._small_files_of, [partition for partition in candidates if partition.values not in self._skip_reasons]
        )
        worthwhile = [
            small_files
            for small_files in listed
            if len(small_files.files) >= min_files and small_files.group_count < len(small_files.files)
        ]
        nested_values = {
            small_files.partition.values for small_files in worthwhile if any("/" in name for name in small_files.names)
        }
        self._skip_reasons |= dict.fromkeys(nested_values, "has files in directories of its own")
        return tuple(small_files for small_files in worthwhile if small_files.partition.values not in nested_values)

    def _scope(self) -> Scope:
        table, where = self._opened.table, self._options.where
        return Where(self._spark, where, partition_schema(table), str(table.name)) if where else every_partition

    def _small_files_of(self, partition: Partition) -> SmallFiles:
        target, location = self._options.target_file_bytes, Location.parse(partition.location)
        files = list(files_read_at(self._opened.store, self._opened.layout, location))
        small = tuple(file for file in files if file.size_bytes < target * NEAR_ENOUGH)
        return SmallFiles(partition=partition, files=small, file_count=len(files), target_file_bytes=target)

    def rows(self) -> tuple[DataFrame, WriteOptions]:
        """Return exactly the rows of the small files, and how they are to be written."""
        opened, options = self._opened, self._options
        partitions = [
            PastPartition(
                values=small_files.partition.values,
                name=shown_name(opened.table, small_files.partition.values),
                location=small_files.partition.location,
                files=len(small_files.files),
                bytes=small_files.bytes,
                only=small_files.names,
            )
            for small_files in self.selection
        ]
        subject = f"the small files of {opened.table.name} cannot be read any more"
        rows = open_gateway(self._spark).past_rows(opened, subject, partitions)
        distribution = options.distribution
        if distribution == "auto":
            rows, distribution = spread(opened, rows, self.selection)
        layout = WriteOptions(distribution=distribution, sort_by=options.sort_by, tags=options.tags)
        settings = Planner(opened).file_settings(self._spark)
        # Spark's own writer cannot end a file at a size
        is_ours = engine_of(opened.table, layout, settings) == "arrow"
        return rows, replace(layout, target_file_bytes=options.target_file_bytes) if is_ours else layout

    def with_fingerprint(self, rows: DataFrame) -> DataFrame:
        """Return the same rows; the job that writes them computes their fingerprint, too."""
        return rows.observe(self._observation, *fingerprint(rows, partition_schema(self._opened.table)))

    def require_same(self, written: DataFrame, files: WrittenFiles) -> None:
        """Compare the rows that were read with those that were written, which are read back."""
        read = self._observation.get
        (after,) = fetched(written.agg(*fingerprint(written, partition_schema(self._opened.table))))
        self._checksum = str(after["hashes"])
        if (read["rows"], read["hashes"]) != (after["rows"], after["hashes"]):
            raise CheckFailedError(
                f"a compaction of {self._opened.table.name} has read {counted(read['rows'], 'row')} with checksum"
                f" {read['hashes']}, and of what it has written {counted(after['rows'], 'row')} with checksum"
                f" {after['hashes']} are read back. Nothing was published: readers keep the files they have. Please"
                " report this, with the table's types and its file format.",
                table=str(self._opened.table.name),
                write_id=files.plan.write_id,
            )

    def report(
        self, watch: Stopwatch, result: WriteResult | None = None, given_up: Collection[PartitionValues] = ()
    ) -> CompactReport:
        """Return the report on what was done, or without a result on what would be."""
        skip_reasons = {**self._skip_reasons, **dict.fromkeys(given_up, "others have changed its files meanwhile")}
        results = {partition.values: partition for partition in result.partitions} if result else {}
        if self._checksum:  # it has run: a partition without a result, and not changed by others, had no rows
            empty_values = (
                {small_files.partition.values for small_files in self.selection} - results.keys() - skip_reasons.keys()
            )
            skip_reasons |= dict.fromkeys(empty_values, "its small files hold no rows")
        partitions = (
            self._partition(small_files, results.get(small_files.partition.values)) for small_files in self.selection
        )
        return CompactReport(
            table=str(self._opened.table.name),
            version=result.version if result else None,
            write_id=result.write_id if result else "",
            partitions=tuple(partition for partition in partitions if partition.values not in skip_reasons),
            skipped={shown_name(self._opened.table, values): reason for values, reason in sorted(skip_reasons.items())},
            checksum=self._checksum,
            notes=result.notes if result else (),
            seconds=watch.seconds,
            storage_requests=watch.storage_requests(),
            metastore_calls=watch.metastore_calls(),
        )

    def _partition(self, small: SmallFiles, result: PartitionFacts | None) -> PartitionFacts:
        staying_count = small.file_count - len(small.files)
        return PartitionFacts(
            name=name_in(self._opened.table, small.partition.values),
            values=small.partition.values,
            action="compacted",
            rows=result.rows if result else None,
            files_before=small.file_count,
            files=result.files + result.copied_files if result else staying_count + small.group_count,
            bytes_before=small.bytes,
            bytes=result.bytes if result else 0,
        )


def _may_have(partition: Partition, min_files: int) -> bool:
    """Return whether a partition may have so many files, by the figures of its last writer."""
    count = partition.parameters.get("numFiles", "")
    return not count.isdecimal() or int(count) == 0 or int(count) >= min_files


def spread(opened: OpenTable, rows: DataFrame, selection: Sequence[SmallFiles]) -> tuple[DataFrame, Distribution]:
    """Bring together the rows that go to one file: those of a partition, or of a group of its files if it is large."""
    names = [column.name for column in opened.table.partition_columns]
    group_counts = {
        small_files.partition.values: small_files.group_count
        for small_files in selection
        if small_files.group_count > 1
    }
    if names and not group_counts:
        return rows, "hash"
    if not names:
        return rows.repartition(max(group_counts.values(), default=1)), "none"
    texts = [F.coalesce(F.col(quoted(name)).cast("string"), F.lit(NULL_PARTITION)) for name in names]
    counts = {SEPARATOR.join(values): count for values, count in group_counts.items()}
    # one literal for any number of partitions
    counts_column = F.from_json(F.lit(json.dumps(counts)), "map<string,int>")
    count = F.coalesce(counts_column[F.concat_ws(SEPARATOR, *texts)], F.lit(1))
    grouped_rows = rows.withColumn(GROUP, F.pmod(F.xxhash64(F.input_file_name()), count))
    return grouped_rows.repartition(*(F.col(quoted(name)) for name in names), F.col(GROUP)).drop(GROUP), "none"


def fingerprint(rows: DataFrame, partition_columns: StructType) -> tuple[Column, Column]:
    """Return two aggregates, the number of rows and a sum of hashes: the same for the same rows in any order.

    The partition columns come last. They are text in some frames: what counts is the value of the column's type.
    """
    count = len(rows.columns) - len(partition_columns)
    data_hashes = [_hash_of(F.col(quoted(field.name)), field.dataType) for field in rows.schema.fields[:count]]
    names = zip(rows.columns[count:], partition_columns, strict=True)
    partition_hashes = [_hash_of(_as_text(name, field.dataType), StringType()) for name, field in names]
    return (
        F.count(F.lit(1)).alias("rows"),
        F.sum(F.xxhash64(*data_hashes, *partition_hashes).cast("decimal(38,0)")).alias("hashes"),
    )


def _as_text(name: str, kind: DataType) -> Column:
    """Spell a partition value in one way: null, the empty text and Hive's name for null are one."""
    typed = F.expr(cast_sql(quoted(name), kind, "try_cast"))
    text = (typed + F.lit(0.0) if isinstance(kind, FractionalType) else typed).cast("string")  # -0.0 is 0.0
    return F.when((text != NULL_PARTITION) & (text != ""), text)


def _hash_of(column: Column, kind: DataType, depth: int = 0) -> Column:
    """Hash a value with its nulls and maps, which Spark's own hash leaves out or refuses; deep values as text."""
    if depth > DEEPEST:
        parts = [column.cast("string")]
    elif isinstance(kind, StructType):
        parts = [_hash_of(column.getField(field.name), field.dataType, depth + 1) for field in kind]
    elif isinstance(kind, ArrayType):
        element = kind.elementType
        parts = [F.transform(column, lambda item: _hash_of(item, element, depth + 1)), F.size(column)]
    elif isinstance(kind, MapType):
        of_key, of_value = kind.keyType, kind.valueType
        entries = F.transform(
            F.map_entries(column),
            lambda pair: F.xxhash64(
                _hash_of(pair.getField("key"), of_key, depth + 1), _hash_of(pair.getField("value"), of_value, depth + 1)
            ),
        )
        parts = [F.sort_array(entries), F.size(column)]
    else:
        parts = [column if kind.typeName() != "variant" else column.cast("string")]
    return F.xxhash64(*parts, column.isNull())
