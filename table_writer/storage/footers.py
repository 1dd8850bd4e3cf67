"""The footers of Parquet files: how many rows each file has, and which columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
FIELD_ID: Final = b"PARQUET:field_id"
ELEMENT, KEY, VALUE = "element", "key", "value"  # what all call them, whatever a file does
Names = Mapping[str, "Names"]
"""The names of columns, each with the names inside it: fields of structs, and what arrays and maps hold."""
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says of itself."""

    row_count: int
    schema: Any  # in Arrow's types
    is_ours: bool  # by its encoder and its notes: dates and times are of today's calendar

    @property
    def has_ids(self) -> bool:
        """Return whether a column, or anything inside one, has a number: readers that know numbers go by it alone."""
        return any(FIELD_ID in (field.metadata or {}) for field in _fields_below(self.schema))


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


def names_of(fields: Iterable[Any]) -> Names:
    """Return the names of Arrow's fields, and of those inside them."""
    return {field.name: names_of(_inner_fields(field.type)) for field in fields}


def other_spellings(wanted: Names, there: Names, above: Path = ()) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Yield the paths of columns and fields that are there in another case, or twice, with the names that they have.

    Spark and Hive do not look at the case of names.

    Examples
    --------
    >>> list(other_spellings({"userId": {"City": {}}}, {"userId": {"city": {}}, "dt": {}}))
    [(('userId', 'City'), ('city',))]
    """
    for name, inner in wanted.items():
        found = tuple(other for other in there if other.lower() == name.lower())
        if found not in {(), (name,)}:
            yield (*above, name), found
        for other in found:
            yield from other_spellings(inner, there[other], (*above, name))


def paths_of(names: Names, above: Path = ()) -> Iterator[Path]:
    """Yield names as they are, each below those around it in lower case."""
    for name, inner in names.items():
        yield (*above, name)
        yield from paths_of(inner, (*above, name.lower()))


def _fields_below(fields: Iterable[Any]) -> Iterator[Any]:
    for field in fields:
        yield field
        yield from _fields_below(_inner_fields(field.type))


def _inner_fields(kind: Any) -> list[Any]:
    """Return the fields of a struct, or what an array or a map holds."""
    if pa.types.is_struct(kind):
        return list(kind)
    if pa.types.is_map(kind):
        return [kind.key_field.with_name(KEY), kind.item_field.with_name(VALUE)]
    return [kind.value_field.with_name(ELEMENT)] if pa.types.is_nested(kind) and hasattr(kind, "value_field") else []


def _is_ours(found: Any) -> bool:
    """Return whether this library may have written a file; a copy by PyArrow of a file of Spark's says so, too."""
    notes = found.metadata or {}
    is_of_today = notes.get(WRITTEN_FOR, b"") >= NEW_CALENDAR_SINCE and OLD_CALENDAR.isdisjoint(notes)
    return bool(found.created_by.startswith(OUR_ENCODER) and is_of_today)
