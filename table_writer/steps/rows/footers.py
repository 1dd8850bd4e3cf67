"""The footers of Parquet files: how many rows each file has, and which columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from table_writer.storage.object_store import ObjectInfo, ObjectStore

MOST_FOOTERS: Final = 2000  # more are read sooner by executors
PARQUET: Final = b"PAR1"  # ends a file whose footer is plain
TAIL_BYTES: Final = 1 << 16  # mostly longer than the footer
OUR_ENCODER, WRITTEN_FOR = "parquet-cpp-arrow", b"org.apache.spark.version"  # which both are in what we write


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says of itself."""

    row_count: int
    schema: Any  # in Arrow's types
    is_ours: bool  # by its encoder and its notes: dates and times are of today's calendar


def read_footer(store: ObjectStore, file: ObjectInfo) -> Footer | None:
    """Return the footer of a file of Parquet; ``None`` of a file in another format, or encrypted.

    Raises ``SourceChangedError`` if it is not the file that was listed.
    """
    size = min(TAIL_BYTES, file.size_bytes)
    tail = store.read_range(file, file.size_bytes - size, size)
    if not tail.endswith(PARQUET):
        return None
    footer_size = int.from_bytes(tail[-8:-4], "little") + 8
    if footer_size > file.size_bytes:
        return None
    if footer_size > size:
        tail = store.read_range(file, file.size_bytes - footer_size, footer_size)
    try:
        found = pq.read_metadata(pa.BufferReader(tail))
        is_ours = found.created_by.startswith(OUR_ENCODER) and WRITTEN_FOR in (found.metadata or {})
        return Footer(int(found.num_rows), found.schema.to_arrow_schema(), is_ours)
    except (pa.ArrowException, OSError):  # Spark's reader, which decides what can be read, says what is wrong
        return None
