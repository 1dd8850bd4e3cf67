"""The specification that an executor needs to upload its share of a write."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from table_writer.errors import InvalidInputError
from table_writer.model.message import FILE_NAME_PREFIX, is_file_name_prefix
from table_writer.model.table import PartitionValues
from table_writer.model.units import MIB

PROTECTING: Final = ("parquet.encryption.", "parquet.crypto.")  # how settings of encryption begin
MIN_PART_BYTES: Final = 5 * MIB  # S3: every part but the last
MAX_PART_BYTES: Final = 5 * 1024 * MIB  # S3

FILE_NAME_INFIXES: Final = {
    "none": "",
    "uncompressed": "",
    "snappy": ".snappy",
    "gzip": ".gz",
    "brotli": ".br",
    "zstd": ".zstd",
    "lz4": ".lz4raw",  # Arrow writes LZ4_RAW; the framing that Hadoop calls LZ4 has no writer outside Java
    "lz4_raw": ".lz4raw",
    "lz4raw": ".lz4raw",
}
"""Codecs by Spark's name, with what Spark puts into a file's name for them."""

TIMESTAMP_TYPES: Final = ("INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS")


@dataclass(frozen=True, kw_only=True, slots=True)
class PerColumn:
    """An option that is on or off for each column of a file, by its path in Parquet: ``tags.list.element``."""

    usual: bool = True
    others: tuple[tuple[str, bool], ...] = ()

    def of(self, path: str) -> bool:
        """Return whether the option is on for a column."""
        return dict(self.others).get(path, self.usual)


@dataclass(frozen=True, kw_only=True, slots=True)
class ParquetOptions:
    """The options of Parquet files; each but their names is one of Spark's."""

    compression: str = "snappy"
    """``spark.sql.parquet.compression.codec``; ``lz4`` is written as ``lz4_raw``, which Spark, DuckDB, Arrow read."""
    compression_level: int | None = None  # None takes Spark's: 3 for zstd, the codec's own for the others
    timestamp_type: str = "INT96"
    """``spark.sql.parquet.outputTimestampType``, for TIMESTAMP; TIMESTAMP_NTZ is always INT64 micros, as in Spark. Two
    cases differ from Spark, both readable by everything that reads Spark's files: with ``INT96``, a table that has
    TIMESTAMP_NTZ columns too gets micros for both (Arrow knows INT96 for all timestamps of a file or for none); with
    ``TIMESTAMP_MILLIS``, a timestamp inside an array, map or struct is written as micros."""
    spark_schema_json: str = field(default="", repr=False)
    """Spark's schema of the data columns (``StructType.json()``), for the footer. Empty: not written."""
    spark_version: str = ""  # for the footer: readers take its absence for dates in the old calendar
    legacy_format: bool = False
    """``spark.sql.parquet.writeLegacyFormat``: decimals as FIXED_LEN_BYTE_ARRAY, for Hive and Impala. Arrays and maps
    keep the standard layout, which both read."""
    dictionaries: PerColumn = PerColumn()  # ``parquet.enable.dictionary``; where it is on, those that pay are kept
    statistics: PerColumn = PerColumn()  # ``parquet.column.statistics.enabled``
    page_bytes: int = MIB  # ``parquet.page.size``, at most 1 MiB: the memory of a task depends on it
    dictionary_bytes: int = MIB  # ``parquet.dictionary.page.size``, at most 1 MiB, too
    page_version: str = "1.0"  # ``parquet.writer.version``
    page_checksums: bool = True  # ``parquet.page.write-checksum.enabled``
    row_group_rows: int = MIB  # ``parquet.block.row.count.limit``, at most 1,048,576
    field_ids: bool = True  # ``spark.sql.parquet.fieldId.write.enabled``
    file_name_prefix: str = FILE_NAME_PREFIX

    def __post_init__(self) -> None:
        if self.compression.lower() not in FILE_NAME_INFIXES:
            raise InvalidInputError(
                f"Parquet codec {self.compression!r} cannot be written; choose one of {', '.join(FILE_NAME_INFIXES)}"
            )
        if not is_file_name_prefix(self.file_name_prefix):
            raise InvalidInputError(f"file_name_prefix {self.file_name_prefix!r} cannot begin the names of files")
        if self.timestamp_type not in TIMESTAMP_TYPES:
            raise InvalidInputError(f"timestamp_type {self.timestamp_type!r} is none of {', '.join(TIMESTAMP_TYPES)}")

    @property
    def file_name_suffix(self) -> str:
        """Return the end of a file's name: ``.zstd.parquet``."""
        return f"{FILE_NAME_INFIXES[self.compression.lower()]}.parquet"


class BatchLimits(NamedTuple):
    """The rows that Spark sends a task at once."""

    row_count: int = 0  # in one Arrow batch, without weighing them; 0: Spark's own limits hold
    max_row_bytes: int = 0  # a wider row ends such a job, which is run again with batches that are weighed; 0: no limit


@dataclass(frozen=True, kw_only=True, slots=True)
class UploadSpec:
    """The specification of a task's upload: picklable, complete and valid at construction, no secret in its ``repr``.

    Sizes and numbers are as :class:`~table_writer.TableWriterConfig` and :class:`~table_writer.WriteOptions` describe
    them. A file that nears S3's 10,000 parts is continued in another. A row group holds at most 1,048,576 rows; with a
    target size they are cut so that every file but the last of a partition is within a quarter of it, with data that
    encodes evenly.

    Notes
    -----
    **Memory** of one Python worker (one running task), beside what the interpreter, Arrow and boto3 take by
    themselves (about 175 MiB)::

        1.5 × buffer_bytes                                  rows, and their copies while room is made
        + 4 × chunk_bytes                                   rows that are being split by partition
        + max(2 × part_size_bytes, max_open_files × 5 MiB)  encoded bytes that are no part yet
        + upload_threads × part_size_bytes                  parts being sent
        + 128 MiB                                           what open files keep: footers, and each its last page

    ``chunk_bytes`` is 16 MiB, or what Spark sends in one Arrow batch where that is more: at most 64 MiB and a row
    (``spark.sql.execution.arrow.maxBytesPerBatch``). With the defaults that is 548 MiB for rows of ordinary width, 740
    MiB for the widest, whatever the sizes of tasks, partitions and files. ``benchmarks/memory.py`` measures it.

    So that the last line holds, fewer files are open where rows are wide, and a file whose footer has grown to its
    share is closed and continued in another one.
    """

    write_id: str  # in the name of every file and in every log line
    key_prefix: str  # ``<table root key>/_table_writer/data/<write_id>/``: every key starts with it
    store: object = field(repr=False)  # picklable settings of the store, for `table_writer.storage.open_store`
    data_columns: tuple[str, ...]
    partition_columns: tuple[str, ...]  # rows hold them, as texts, after the data columns; they do not go into files
    file_options: ParquetOptions
    part_size_bytes: int = 16 * MIB
    upload_threads: int = 4
    max_open_files: int = 20
    buffer_bytes: int = 128 * MIB
    row_group_bytes: int = 128 * MIB
    target_file_bytes: int | None = None
    batches: BatchLimits = field(default_factory=BatchLimits)
    most_figures: int = 0  # partitions x columns for which a task counts figures; a task with more counts none
    is_marked: bool = False  # the last column of rows, behind the partition columns, is the mark of each
    existing: Container[PartitionValues] = field(default=frozenset(), repr=False)
    """Partitions that must not get a row, with values as Spark spells them: the task that meets one fails."""

    def __post_init__(self) -> None:
        if not self.write_id or not self.key_prefix.endswith(f"{self.write_id}/"):
            raise InvalidInputError(f"key_prefix {self.key_prefix!r} must end in the write_id and a slash")
        if not self.data_columns:
            raise InvalidInputError("a table needs a column that is not a partition column")
        if not MIN_PART_BYTES <= self.part_size_bytes <= MAX_PART_BYTES:
            raise InvalidInputError(f"part_size_bytes must be between 5 MiB and 5 GiB (S3), not {self.part_size_bytes}")
        for name in ("upload_threads", "max_open_files", "buffer_bytes", "row_group_bytes"):
            if getattr(self, name) < 1:
                raise InvalidInputError(f"{name} must be 1 or more, not {getattr(self, name)}")
        if self.target_file_bytes is not None and self.target_file_bytes < MIB:
            raise InvalidInputError(f"target_file_bytes must be 1 MiB or more, not {self.target_file_bytes}")

    def memory_bytes(self, *, batch_bytes: int = 0) -> int:
        """Return the bound of the notes above, for Arrow batches of ``batch_bytes``; without the worker's base."""
        chunk_bytes = max(CHUNK_BYTES, batch_bytes)
        unsent_bytes = max(2 * self.part_size_bytes, self.max_open_files * MIN_PART_BYTES)
        sent_bytes = self.upload_threads * self.part_size_bytes
        return (
            self.buffer_bytes * 3 // 2 + 4 * chunk_bytes + unsent_bytes + sent_bytes + FOOTERS_BYTES + LAST_PAGES_BYTES
        )

    def open_files(self, column_count: int, value_bytes: float = 0) -> int:
        """Return how many files a task holds open, by their leaf columns and the average bytes of the widest.

        Examples
        --------
        >>> spec = UploadSpec(
        ...     write_id="w1", key_prefix="t/w1/", store=None, data_columns=("x",), partition_columns=("dt",),
        ...     file_options=ParquetOptions(),
        ... )
        >>> spec.open_files(100), spec.open_files(1_000), spec.open_files(10, value_bytes=1_000_000)
        (20, 2, 11)
        """
        by_pages = int(LAST_PAGES_BYTES / max(1, LAST_PAGE_SHARE * value_bytes))
        return max(1, min(self.max_open_files, OPEN_COLUMNS // max(1, column_count), by_pages))

    def max_footer_bytes(self, column_count: int) -> int:
        """Return what a file of so many columns may remember for its footer."""
        return FOOTERS_BYTES // self.open_files(column_count)


CHUNK_BYTES: Final = 16 * MIB
"""Rows are split by partition in chunks of this size: fewer, larger takes; still in a cache's reach."""

FOOTERS_BYTES: Final = 64 * MIB
"""The limit of what all open files of a task keep: some 1.5 KB for each column of each row group until their end."""

LAST_PAGES_BYTES: Final = 64 * MIB  # what all open files of a task may keep of the page that each has written last
LAST_PAGE_SHARE: Final = 6
"""How many times a page Arrow's writer keeps of it, measured: as values, encoded, compressed, with room to grow."""

OPEN_COLUMNS: Final = 2_000
"""Columns of all open files together: so each file has room for 20 row groups or more, which are not too small."""
