"""One ORC file being encoded, so that readers cannot tell it from Spark's own.

Arrow encodes each stripe, as a file of its own in memory; what a reader learns from the footers is written here: the
time zone, Spark's types, the calendar, Spark's version. ``docs/design/formats.md`` says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyarrow import orc

from table_writer.errors import StorageError
from table_writer.model.column_statistics import ColumnStatistics
from table_writer.model.upload_spec import OrcOptions
from table_writer.upload.file_format import Sink
from table_writer.upload.freed import release_freed_memory
from table_writer.upload.orc_statistics import by_name, merged
from table_writer.upload.orc_stripe import FILE_VERSION, WRITER_VERSION, Stripe, stripes
from table_writer.upload.orc_types import orc_columns
from table_writer.upload.orc_values import arrow_rows
from table_writer.upload.orc_wire import decode, encode, packed, stored, unpacked

__all__ = ["OrcFile"]

MIB: Final = 1024 * 1024
MAGIC: Final = b"ORC"
COMPRESSIONS: Final = {"uncompressed": 0, "zlib": 1, "snappy": 2, "lz4": 4, "zstd": 5}
BLOCK_BYTES: Final = 256 * 1024  # Java's
STRIDE_ROWS: Final = 10_000  # Java's: rows that one entry of an index is about
STRIPE_BYTES: Final = 32 * MIB  # of rows as Arrow; encoded, two such stripes are the most that memory holds
ONE_STRIPE_BYTES: Final = 1024 * MIB  # Arrow never ends a stripe by itself
DICTIONARY_SHARE: Final = 0.8  # orc.dictionary.key.threshold
OLD_CALENDAR: Final = 1
CPP_WRITER: Final = 1
SUBTYPES: Final = 2  # field of a type: the numbers of the columns inside


class OrcFile:
    """A file being written, one stripe or more per call of :meth:`write`; between calls it holds no rows."""

    def __init__(self, sink: Sink, first_rows: Any, options: OrcOptions) -> None:
        self._sink = sink
        self._options = options
        self._schema = first_rows.schema
        self._columns = orc_columns(self._schema)
        self._stripes: list[tuple[int, Stripe]] = []
        self._statistics: list[bytes] = []  # of each column, in the footer
        self._raw_size_bytes = 0
        self._size_bytes = sink.write(MAGIC)

    def takes(self, rows: Any) -> bool:
        """Whether these rows can go into the file: all can, since stripes are cut by their bytes."""
        return bool(rows.num_rows)

    def write(self, rows: Any) -> None:
        """Encode a table."""
        for piece in _in_stripes(rows):
            self._raw_size_bytes += piece.nbytes
            row_count = 0
            for stripe in stripes(self._encoded(piece), self._columns, self._options):
                self._add(stripe)
                row_count += stripe.row_count
            if row_count != piece.num_rows:
                raise StorageError(f"ORC stripes got {piece.num_rows} rows and hold {row_count}; run the write again")

    def close(self) -> tuple[int, int]:
        """Write the footer; returns what the stripes say they hold: rows, and the size of those before encoding."""
        row_count = sum(stripe.row_count for _, stripe in self._stripes)
        codec, content_bytes = self._options.codec, self._size_bytes
        metadata = encode(
            (1, encode((1, statistics) for statistics in stripe.statistics)) for _, stripe in self._stripes
        )
        stored_metadata = stored(metadata, codec, BLOCK_BYTES)
        by_column = [[stripe.statistics[number] for _, stripe in self._stripes] for number in range(len(self._columns))]
        self._statistics = [merged(statistics) for statistics in by_column]
        footer = stored(self._footer(row_count, content_bytes), codec, BLOCK_BYTES)
        postscript = encode(
            [
                (1, len(footer)),
                (2, COMPRESSIONS[codec]),
                (3, BLOCK_BYTES),
                (4, packed(FILE_VERSION)),
                (5, len(stored_metadata)),
                (6, WRITER_VERSION),
                (8000, MAGIC),
            ]
        )
        for piece in (stored_metadata, footer, postscript, bytes([len(postscript)])):
            self._sink.write(piece)
        return row_count, self._raw_size_bytes

    def statistics(self) -> dict[str, ColumnStatistics]:
        """Return what the footer says of columns."""
        places = unpacked(bytes(dict(decode(self._columns[0].type_message))[SUBTYPES]))
        row_count = sum(stripe.row_count for _, stripe in self._stripes)
        return by_name(self._schema, places, self._statistics, row_count)

    def _encoded(self, rows: Any) -> Any:
        file = pa.BufferOutputStream()
        with orc.ORCWriter(
            file,
            compression=self._options.codec,
            compression_block_size=BLOCK_BYTES,
            stripe_size=ONE_STRIPE_BYTES,
            row_index_stride=STRIDE_ROWS,
            dictionary_key_size_threshold=DICTIONARY_SHARE,
        ) as writer:
            writer.write(arrow_rows(rows, self._options))
        release_freed_memory()
        return file.getvalue()

    def _add(self, stripe: Stripe) -> None:
        start = self._size_bytes
        for piece in stripe.pieces:
            self._size_bytes += self._sink.write(piece)
        self._stripes.append((start, stripe._replace(pieces=[])))

    def _footer(self, row_count: int, content_bytes: int) -> bytes:
        version = encode([(1, b"org.apache.spark.version"), (2, self._options.spark_version.encode())])
        return encode(
            [
                (1, len(MAGIC)),
                (2, content_bytes),
                *((3, _information(start, stripe)) for start, stripe in self._stripes),
                *((4, column.type_message) for column in self._columns),
                *([(5, version)] if self._options.spark_version else []),
                (6, row_count),
                *((7, of_column) for of_column in self._statistics),
                (8, STRIDE_ROWS),
                (9, CPP_WRITER),
                (11, OLD_CALENDAR),
            ]
        )


def _information(start: int, stripe: Stripe) -> bytes:
    sizes = (start, stripe.index_bytes, stripe.data_bytes, stripe.footer_bytes, stripe.row_count)
    return encode(enumerate(sizes, 1))


def _in_stripes(rows: Any) -> Iterator[Any]:
    """Cut rows into equal pieces of at most ``STRIPE_BYTES``."""
    count = min(rows.num_rows, -(-rows.nbytes // STRIPE_BYTES)) or 1
    each = -(-rows.num_rows // count) or 1
    for start in range(0, rows.num_rows, each):
        yield rows.slice(start, each)
