"""One Parquet file being encoded, so that readers cannot tell it from Spark's own."""

from __future__ import annotations

from typing import Any, Final

import pyarrow.parquet as pq

from table_writer.model.upload_spec import ParquetOptions
from table_writer.upload.file_format import Sink
from table_writer.upload.parquet_dictionary import MAX_DICTIONARY_BYTES, columns_that_repeat
from table_writer.upload.parquet_types import file_schema, with_schema, writes_int96
from table_writer.upload.widths import widest_bytes

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
            use_deprecated_int96_timestamps=writes_int96(self._schema, options),
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

    def close(self) -> tuple[int, int]:
        """Write the footer; returns what the file says it holds: rows, and bytes before compression."""
        footer = {"org.apache.spark.version": self._options.spark_version}
        footer["org.apache.spark.sql.parquet.row.metadata"] = self._options.spark_schema_json
        self._writer.add_key_value_metadata({key: value for key, value in footer.items() if value})
        self._writer.close()
        metadata = self._metadata[0]
        raw_size_bytes = sum(
            metadata.row_group(position).total_byte_size for position in range(metadata.num_row_groups)
        )
        return metadata.num_rows, raw_size_bytes
