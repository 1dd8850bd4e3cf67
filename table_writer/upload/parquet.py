"""One Parquet file being encoded, so that readers cannot tell it from Spark's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, islice
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from table_writer.model.column_statistics import ColumnStatistics, MergedStatistics
from table_writer.model.upload_spec import ParquetOptions
from table_writer.upload.file_format import MOST_COLUMNS, MakeBound, Sink, make_bound
from table_writer.upload.parquet_dictionary import MAX_DICTIONARY_BYTES, columns_that_repeat
from table_writer.upload.parquet_types import file_schema, with_schema, writes_int96
from table_writer.upload.widths import leaf_count, widest_bytes

__all__ = ["ParquetFile"]

ARROW_CODECS: Final = {"uncompressed": "none", "lz4raw": "lz4", "lz4_raw": "lz4"}
SPARK_ZSTD_LEVEL: Final = 3  # parquet.compression.codec.zstd.level
MIB: Final = 1024 * 1024
PAGE_BYTES: Final = MIB  # Arrow's and Java's; Arrow looks how full a page is only after a batch of values
LARGEST_PAGE_BYTES: Final = 16 * MIB
BATCH_VALUES: Final = 1024  # Arrow's own: values between two looks


class ParquetFile:
    """A file being written, one row group per call of :meth:`write`.

    Whether a column gets a dictionary is decided by a sample of the first row group: Arrow keeps a dictionary that does
    not pay (files get 40 % larger), Java's writer drops it.
    """

    def __init__(self, sink: Sink, first_rows: Any, options: ParquetOptions) -> None:
        self._options = options
        self._schema = file_schema(first_rows.schema, options)
        self._metadata: list[Any] = []
        is_int96 = writes_int96(self._schema, options)
        self._columns = _plain_columns(self._schema)
        self._int96_nulls = {column.name: 0 for column in self._columns if is_int96 and column.is_timestamp}
        level = options.compression_level
        codec = options.compression.lower()
        if level is None and codec == "zstd":
            level = SPARK_ZSTD_LEVEL
        self._batch_values = max(1, min(BATCH_VALUES, int(PAGE_BYTES / max(1.0, widest_bytes(first_rows)))))
        self._writer = pq.ParquetWriter(
            sink,
            self._schema,
            compression=ARROW_CODECS.get(codec, codec),
            compression_level=level,
            use_dictionary=columns_that_repeat(first_rows),
            dictionary_pagesize_limit=MAX_DICTIONARY_BYTES,
            use_deprecated_int96_timestamps=is_int96,
            store_decimal_as_integer=not options.legacy_format,
            store_schema=False,  # an Arrow reader takes the types from Parquet, as it does from Spark's files
            write_page_index=True,
            write_batch_size=self._batch_values,
            metadata_collector=self._metadata,
        )

    def takes(self, rows: Any) -> bool:
        """Whether these rows can go into the file; its first ones may have been so narrow that pages would be huge."""
        return widest_bytes(rows) * self._batch_values <= LARGEST_PAGE_BYTES or self._batch_values == 1

    def write(self, rows: Any) -> None:
        """Encode a table as a row group; what it needs of memory is one of its columns."""
        self._writer.write_table(with_schema(rows, self._schema))
        for name in self._int96_nulls:
            self._int96_nulls[name] += rows.column(name).null_count

    def close(self) -> tuple[int, int]:
        """Write the footer; returns what the file says it holds: rows, and bytes before compression."""
        footer = {"org.apache.spark.version": self._options.spark_version}
        footer["org.apache.spark.sql.parquet.row.metadata"] = self._options.spark_schema_json
        self._writer.add_key_value_metadata({key: value for key, value in footer.items() if value})
        self._writer.close()
        raw_size_bytes = sum(group.total_byte_size for group in self._row_groups())
        return self._metadata[0].num_rows, raw_size_bytes

    def statistics(self) -> dict[str, ColumnStatistics]:
        """Return what the footer says of columns; it says nothing of INT96, whose nulls were counted on their way."""
        int96 = {name: ColumnStatistics(null_count=count) for name, count in self._int96_nulls.items()}
        return _said_by(self._row_groups(), self._columns) | int96

    def _row_groups(self) -> list[Any]:
        metadata = self._metadata[0]
        return [metadata.row_group(position) for position in range(metadata.num_row_groups)]


class _Column(NamedTuple):
    """A column that is not nested."""

    name: str
    leaf: int  # its number in a footer, where a nested column is as many as it has leaves
    make_bound: MakeBound
    is_timestamp: bool


@lru_cache(maxsize=8)  # a task's files have one schema
def _plain_columns(schema: Any) -> tuple[_Column, ...]:
    """Return the columns of a file that are not nested, the first ones of very many."""
    ends = accumulate(leaf_count((field,)) for field in schema)
    plain = (
        _Column(field.name, leaf, make_bound(field.type), pa.types.is_timestamp(field.type))
        for field, leaf in zip(schema, (0, *ends), strict=False)
        if not pa.types.is_nested(field.type)
    )
    return tuple(islice(plain, MOST_COLUMNS))


def _said_by(groups: Iterable[Any], columns: Sequence[_Column]) -> dict[str, ColumnStatistics]:
    """Return what row groups say of columns, taken together."""
    merged = MergedStatistics()
    for group in groups:
        chunks = ((column, group.column(column.leaf).statistics) for column in columns)
        known = {column.name: _statistics(said, column) for column, said in chunks if said is not None}
        merged.add(known, group.num_rows)
    return merged.columns


def _statistics(said: Any, column: _Column) -> ColumnStatistics:
    """Read one column of one row group; Arrow leaves out both bounds where one is long, and cuts none."""
    has_bounds = said.has_min_max
    return ColumnStatistics(
        null_count=said.null_count if said.has_null_count else None,
        low=column.make_bound(said.min_raw) if has_bounds else None,
        high=column.make_bound(said.max_raw) if has_bounds else None,
    )
