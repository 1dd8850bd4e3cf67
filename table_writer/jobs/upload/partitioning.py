"""The partitions of rows: a number for each partition's values, and rows grouped by number."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from table_writer.errors import InvalidInputError, PartitionExistsError, SchemaMismatchError, StorageError
from table_writer.jobs.upload.arrays import whole_numbers
from table_writer.model.table import NULL_PARTITION, PartitionValues, partition_name
from table_writer.model.upload_spec import CHUNK_BYTES

CHUNK_ROWS: Final = 200_000
EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
MAX_KEY_BYTES: Final = 1024  # S3: a key in UTF-8
BUCKETS: Final = 32
PARTITION_ID: Final = "__table_writer_partition_id"
SPILL_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")


class PartitionIds:
    """Numbers the partitions that one task sees, from 0, in the order in which they turn up.

    ``rest_of_key`` is what a key has beside the partition's directory; partitions in ``existing`` must not get a row.
    """

    def __init__(
        self, columns: Sequence[str], *, rest_of_key: str = "", existing: Container[PartitionValues] = frozenset()
    ) -> None:
        self._columns = tuple(columns)
        self._existing = existing
        self._rest_of_key = rest_of_key
        self._ids: dict[PartitionValues, int] = {}
        self._values: list[PartitionValues] = []

    def __len__(self) -> int:
        return len(self._values)

    def values(self, partition_id: int) -> PartitionValues:
        return self._values[partition_id]

    def directory(self, partition_id: int) -> str:
        """Return ``dt=2024-01-01/``, empty for an unpartitioned table."""
        name = partition_name(self._columns, self._values[partition_id])
        return f"{name}/" if name else ""

    def of(self, columns: Sequence[Any], row_count: int) -> Any:
        """Return the partition of every row, an Arrow array of int32, given the partition columns.

        They are strings as Spark formats them, or integers and dates, whose text is the same everywhere.
        """
        codes = None  # of each row, into found; None while all rows agree
        found: list[PartitionValues] = [()]
        for name, column in zip(self._columns, columns, strict=True):
            encoded = pc.dictionary_encode(column, null_encoding="encode")
            values = _texts(encoded.dictionary, name)
            if len(values) == 1:
                found = [(*known, values[0]) for known in found]
            elif codes is None:
                found = [(*found[0], value) for value in values]
                codes = encoded.indices
            else:
                width = whole_numbers([len(values)])[0].cast(pa.int64())
                pairs = pc.add(pc.multiply(codes.cast(pa.int64()), width), encoded.indices)
                encoded = pc.dictionary_encode(pairs)  # as few numbers as there are, or more columns would overflow
                found = [
                    (*found[pair // len(values)], values[pair % len(values)]) for pair in encoded.dictionary.to_pylist()
                ]
                codes = encoded.indices
        ids = whole_numbers([self._id_of(values) for values in found])
        return pa.repeat(ids[0], row_count) if codes is None else ids.take(codes)

    def _id_of(self, values: PartitionValues) -> int:
        known = self._ids.get(values)
        if known is not None:
            return known
        name = partition_name(self._columns, values)
        if values in self._existing:
            raise PartitionExistsError(
                f"partition {name} exists; create_partitions changes nothing then: use append or overwrite_partitions"
            )
        key_bytes = len(f"{self._rest_of_key}{name}/".encode())
        if key_bytes > MAX_KEY_BYTES:
            raise InvalidInputError(
                f"the key of a file in partition {name[:200]!r} would have {key_bytes} bytes; "
                f"S3 allows {MAX_KEY_BYTES}. Shorten the partition value or the table's location"
            )
        self._ids[values] = len(self._values)
        self._values.append(values)
        return self._ids[values]


def _texts(values: Any, column: str) -> list[str]:
    """Spell partition values as Spark does; null and the empty string are Hive's null partition."""
    if pa.types.is_date32(values.type):
        days = values.cast(pa.int32()).to_pylist()
        return [NULL_PARTITION if day is None else _date_text(day) for day in days]
    try:
        return [NULL_PARTITION if value is None or value == "" else str(value) for value in values.to_pylist()]
    except UnicodeDecodeError as error:
        raise SchemaMismatchError(
            f"rows do not fit the table, nothing was published: column {column} is a partition's text, and one row or"
            " more are no UTF-8, which no name of a partition tells (store such values as a column of the files), for"
            f" example 0x{error.object.hex().upper()}. Correct or filter these rows"
        ) from error


def _date_text(days: int) -> str:
    try:
        return date.fromordinal(days + EPOCH_ORDINAL).isoformat()
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"a partition's date lies {days} days from 1970; only the years 1 to 9999 can be written"
        ) from error


def rows_by_partition(ids: Any, rows: Any) -> Iterator[tuple[int, Any]]:
    """Split a record batch by the partition of its rows, which keep their order; slices share memory.

    Rows that lie together already are not copied.
    """
    runs = pc.run_end_encode(ids)
    if len(pc.unique(runs.values)) != len(runs.values):
        order = pc.sort_indices(ids)  # stable
        rows = rows.take(order)
        runs = pc.run_end_encode(ids.take(order))
    start = 0
    for partition_id, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield partition_id, rows.slice(start, end - start)
        start = end


def in_chunks(batches: Iterable[Any]) -> Iterator[Any]:
    """Join record batches until they are worth a pass of their own: ``CHUNK_BYTES`` or ``CHUNK_ROWS``."""
    waiting: list[Any] = []
    row_count = size_bytes = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        waiting.append(batch)
        row_count += batch.num_rows
        size_bytes += batch.nbytes
        if row_count >= CHUNK_ROWS or size_bytes >= CHUNK_BYTES:
            yield _join_batches(waiting)
            waiting, row_count, size_bytes = [], 0, 0
    if waiting:
        yield _join_batches(waiting)


def _join_batches(batches: list[Any]) -> Any:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


class Spill(ExitStack):
    """Rows that wait on local disk; leaving it removes every file, whatever happened.

    ``level`` says how often these rows were spilled before: each level spreads them differently.
    """

    def __init__(self, level: int) -> None:
        super().__init__()
        self._level = level
        self._directory: Path | None = None
        self._writers: dict[int, Any] = {}

    def add(self, pieces: Iterable[tuple[int, list[Any]]]) -> None:
        buckets: dict[int, list[Any]] = {}
        for partition_id, batches in pieces:
            bucket = partition_id // BUCKETS**self._level % BUCKETS
            (number,) = whole_numbers([partition_id])
            numbered = (batch.append_column(PARTITION_ID, pa.repeat(number, batch.num_rows)) for batch in batches)
            buckets.setdefault(bucket, []).extend(numbered)
        with disk_errors():
            for bucket, batches in buckets.items():
                for batch in in_chunks(batches):
                    self._writer(bucket, batch.schema).write_batch(batch)

    def buckets(self) -> Iterator[Iterator[tuple[Any, Any]]]:
        """Iterate over the buckets; each is an iterator over partition numbers and rows, and gone once passed."""
        with disk_errors():
            for bucket in sorted(self._writers):
                self._writers[bucket].close()
        for bucket in sorted(self._writers):
            yield self._read(bucket)
            self._path(bucket).unlink()

    def _read(self, bucket: int) -> Iterator[tuple[Any, Any]]:
        with disk_errors(), pa.OSFile(str(self._path(bucket))) as file, pa.ipc.open_stream(file) as batches:
            for batch in batches:
                yield batch.column(batch.num_columns - 1), batch.select(list(range(batch.num_columns - 1)))

    def _writer(self, bucket: int, schema: Any) -> Any:
        if bucket not in self._writers:
            file = self.enter_context(pa.OSFile(str(self._path(bucket)), "wb"))
            self._writers[bucket] = pa.ipc.new_stream(file, schema, options=SPILL_OPTIONS)
        return self._writers[bucket]

    def _path(self, bucket: int) -> Path:
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="table_writer-spill-", dir=local_directory()))
            self.callback(shutil.rmtree, self._directory, ignore_errors=True)
        return self._directory / f"{bucket}.arrow"


def local_directory() -> str | None:
    """Return a directory for scratch files of this executor; ``None`` is Python's own choice."""
    directories = [entry for entry in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if entry]
    usable = [entry for entry in directories if os.access(entry, os.W_OK)]
    return usable[os.getpid() % len(usable)] if usable else None


@contextmanager
def disk_errors() -> Iterator[None]:
    """Say whose disk failed."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"the local disk on which rows and files wait failed: {error}; see SPARK_LOCAL_DIRS"
        ) from error
