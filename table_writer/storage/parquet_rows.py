"""The rows of small Parquet files, which a task fetches whole and several at once. Executors import this file."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from table_writer.errors import ConflictError
from table_writer.model.table import NULL_PARTITION, PartitionValues
from table_writer.storage.object_store import THREADS, ObjectInfo, SourceChangedError
from table_writer.storage.worker import worker_store

AHEAD: Final = 2 * THREADS  # files that are asked for before their turn
BATCH_ROWS: Final = 4096  # as Spark's reader: the rows of a small file may be wide, if they are alike
FilesOfTask = Sequence[tuple[ObjectInfo, PartitionValues]]


def row_reader(
    store_settings: Any, schema: pa.Schema, partition_count: int
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return the function for ``DataFrame.mapInArrow``: it yields the rows of the files that its rows have packed.

    Behind the columns of ``schema`` come partition values, as text. A file that is not what was listed is an error.
    """
    names = [str(number) for number in range(len(schema) + partition_count)]  # Spark counts, and no two may be alike

    def read(batches: Iterable[Any]) -> Iterator[Any]:
        pa.set_cpu_count(1)  # Spark runs a task per core
        store = worker_store(store_settings)
        shares = (share.as_py() for batch in batches for share in batch.column(0))
        files = (file for share in shares for file in pickle.loads(share))  # noqa: S301 - packed by the driver
        with ThreadPoolExecutor(THREADS, thread_name_prefix="table_writer-read") as pool:
            for (_, values), body in _fetched(pool, store.read_range, files):
                reader = pq.ParquetFile(pa.BufferReader(body), coerce_int96_timestamp_unit="us")
                for rows in reader.iter_batches(BATCH_ROWS, columns=schema.names, use_threads=False):
                    texts = [pa.repeat(_text(value), rows.num_rows) for value in values]
                    columns = [rows.column(field.name).cast(field.type) for field in schema]
                    yield pa.RecordBatch.from_arrays([*columns, *texts], names=names)

    return read


def _fetched(
    pool: ThreadPoolExecutor, read_range: Callable[[ObjectInfo, int, int], bytes], files: Iterable[Any]
) -> Iterator[tuple[Any, bytes]]:
    """Yield files with their bytes, in their order; a few are on their way meanwhile."""
    waiting: deque[tuple[Any, Future[bytes]]] = deque()
    try:
        for file in files:
            info = file[0]
            waiting.append((file, pool.submit(partial(read_range, info, 0, info.size_bytes))))
            if len(waiting) > AHEAD:
                first, body = waiting.popleft()
                yield first, body.result()
        for first, body in waiting:
            yield first, body.result()
    except SourceChangedError as changed:
        raise ConflictError(f"{changed.message} Its rows were to be changed. Nothing was published.") from None


def _text(value: str) -> Any:
    return pa.scalar(None if value == NULL_PARTITION else value, pa.string())
