"""How many rows files of Parquet have: their footers tell."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from table_writer.storage.object_store import ObjectInfo, ObjectStore

PARQUET: Final = b"PAR1"  # ends a file whose footer is plain
TAIL_BYTES: Final = 1 << 16  # mostly longer than the footer


def count_rows(store: ObjectStore, key: str) -> int | None:
    """Return the number of rows of an object as it is now; ``None`` if there is none that tells."""
    file = store.head(key)
    return None if file is None else rows_in_footer(store, file)


def rows_in_footer(store: ObjectStore, file: ObjectInfo) -> int | None:
    """Return the number of rows that a file of Parquet tells; ``None`` of a file in another format, or encrypted."""
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
        return int(pq.read_metadata(pa.BufferReader(tail)).num_rows)
    except (pa.ArrowException, OSError):  # Spark's reader, which decides what can be read, says what is wrong
        return None
