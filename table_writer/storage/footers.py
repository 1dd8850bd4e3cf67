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
OLD_CALENDAR: Final = frozenset({b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"})
NEW_CALENDAR_SINCE: Final = b"3.1.0"  # of Spark, which compares as text: older ones say nothing of it


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says of itself."""

    row_count: int
    schema: Any  # in Arrow's types
    is_ours: bool  # by its encoder and its notes: dates and times are of today's calendar


def count_rows(store: ObjectStore, key: str) -> int | None:
    """Return the number of rows of an object as it is now; ``None`` if there is none that tells."""
    file = store.head(key)
    footer = None if file is None else read_footer(store, file)
    return None if footer is None else footer.row_count


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
        return Footer(int(found.num_rows), found.schema.to_arrow_schema(), _is_ours(found))
    except (pa.ArrowException, OSError):  # Spark's reader, which decides what can be read, says what is wrong
        return None


def _is_ours(found: Any) -> bool:
    """Return whether this library may have written a file; a copy by PyArrow of a file of Spark's says so, too."""
    notes = found.metadata or {}
    is_of_today = notes.get(WRITTEN_FOR, b"") >= NEW_CALENDAR_SINCE and OLD_CALENDAR.isdisjoint(notes)
    return bool(found.created_by.startswith(OUR_ENCODER) and is_of_today)
