"""Rows on local disk, in buckets that hold different partitions."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa

from table_writer.errors import StorageError
from table_writer.upload.partitioning import in_chunks

__all__ = ["Spill"]

BUCKETS: Final = 32
PARTITION_ID: Final = "__table_writer_partition_id"
SPILL_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")


class Spill:
    """Rows that wait on local disk; leaving it removes every file, whatever happened.

    Parameters
    ----------
    level
        How often these rows were spilled before: each level spreads them differently.
    """

    def __init__(self, level: int) -> None:
        self._level = level
        self._undo = ExitStack()
        self._directory: Path | None = None
        self._writers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._undo.close()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was added."""
        return not self._writers

    def add(self, pieces: Iterable[tuple[int, list[Any]]]) -> None:
        """Write rows of partitions, given with their partition's number."""
        buckets: dict[int, list[Any]] = {}
        for partition_id, batches in pieces:
            bucket = partition_id // BUCKETS**self._level % BUCKETS
            numbered = (batch.append_column(PARTITION_ID, _repeat(partition_id, batch.num_rows)) for batch in batches)
            buckets.setdefault(bucket, []).extend(numbered)
        with _disk_errors():
            for bucket, batches in buckets.items():
                for batch in in_chunks(batches):
                    self._writer(bucket, batch.schema).write_batch(batch)

    def buckets(self) -> Iterator[Iterator[tuple[Any, Any]]]:
        """Iterate over the buckets; each is an iterator over partition numbers and rows, and gone once passed."""
        with _disk_errors():
            for bucket in sorted(self._writers):
                self._writers[bucket].close()
        for bucket in sorted(self._writers):
            yield self._read(bucket)
            self._path(bucket).unlink()

    def _read(self, bucket: int) -> Iterator[tuple[Any, Any]]:
        with _disk_errors(), pa.OSFile(str(self._path(bucket))) as file, pa.ipc.open_stream(file) as batches:
            for batch in batches:
                yield batch.column(batch.num_columns - 1), batch.select(list(range(batch.num_columns - 1)))

    def _writer(self, bucket: int, schema: Any) -> Any:
        if bucket not in self._writers:
            file = self._undo.enter_context(pa.OSFile(str(self._path(bucket)), "wb"))
            self._writers[bucket] = pa.ipc.new_stream(file, schema, options=SPILL_OPTIONS)
        return self._writers[bucket]

    def _path(self, bucket: int) -> Path:
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="table_writer-spill-", dir=_local_directory()))
            self._undo.callback(shutil.rmtree, self._directory, ignore_errors=True)
        return self._directory / f"{bucket}.arrow"


def _repeat(partition_id: int, row_count: int) -> Any:
    return pa.repeat(pa.scalar(partition_id, pa.int32()), row_count)


def _local_directory() -> str | None:
    """Return a directory for scratch files of this executor; ``None`` is Python's own choice."""
    directories = [entry for entry in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if entry]
    usable = [entry for entry in directories if os.access(entry, os.W_OK)]
    return usable[os.getpid() % len(usable)] if usable else None


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"the local disk that rows wait on failed: {error}; see SPARK_LOCAL_DIRS") from error
