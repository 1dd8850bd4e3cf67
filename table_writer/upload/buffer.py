"""Rows of one task on their way into files: what waits in memory, what becomes a row group, what goes to disk."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from table_writer.model.upload_spec import UploadSpec
from table_writer.upload.file_format import leaf_count, widest_bytes
from table_writer.upload.files import Files, PartitionFile
from table_writer.upload.partitioning import Spill, rows_by_partition

__all__ = ["write_rows"]

SLICE_BYTES: Final = 1024  # what a slice of a batch takes by itself, beside the rows it shares
SLICE_COLUMN_BYTES: Final = 256
LEAST_ROWS: Final = 64  # split at a time, where slices of many columns would take more than the buffer


def write_rows(numbered: Iterable[tuple[Any, Any]], files: Files, spec: UploadSpec, *, level: int = 0) -> int:
    """Write rows, given as pairs of partition numbers and record batches, to one file per partition.

    Returns how many rows there were. Partitions that wait on disk are written afterwards, one bucket at a time, by the
    same rules; each level divides their number by the number of buckets, so it ends.
    """
    row_count = 0
    with Spill(level) as spill:
        buffer = RowBuffer(files, spec, spill)
        for ids, rows in numbered:
            row_count += rows.num_rows
            buffer.add(ids, rows)
        buffer.finish()
        for bucket in spill.buckets():
            write_rows(bucket, files, spec, level=level + 1)
    return row_count


class RowBuffer:
    """Holds rows until a row group of their partition is worth writing, ``buffer_bytes`` at the most.

    A file is opened only when its first row group is written: a task whose rows fit into the buffer writes its files
    one after another, however many there are. When the buffer is full, the largest row groups are written; with more
    partitions than files may be open, those that are small and have no file yet go to disk.
    """

    def __init__(self, files: Files, spec: UploadSpec, spill: Spill) -> None:
        self._files = files
        self._spec = spec
        self._spill = spill
        self._pieces: dict[int, list[Any]] = {}
        self._sizes: dict[int, int] = {}
        self._held_bytes = 0  # with rows that were written but share memory with some that were not
        self._open: dict[int, PartitionFile] = {}
        self._max_open_files = spec.max_open_files
        self._on_disk: set[int] = set()

    def add(self, ids: Any, rows: Any) -> None:
        """Take rows, with the partition of each."""
        self._max_open_files = self._spec.open_files(leaf_count(rows.schema), widest_bytes(rows))
        row_bytes = rows.nbytes / rows.num_rows
        slice_bytes = SLICE_BYTES + SLICE_COLUMN_BYTES * rows.num_columns
        at_once = max(LEAST_ROWS, self._spec.buffer_bytes // slice_bytes)
        if rows.num_rows > at_once and len(pc.unique(ids)) > at_once:
            for start in range(0, rows.num_rows, at_once):
                self.add(ids.slice(start, at_once), rows.slice(start, at_once))
            return
        for partition_id, piece in rows_by_partition(ids, rows):
            size_bytes = int(piece.num_rows * row_bytes) + slice_bytes
            self._pieces.setdefault(partition_id, []).append(piece)
            self._sizes[partition_id] = self._sizes.get(partition_id, 0) + size_bytes
            self._held_bytes += size_bytes
        if self._held_bytes > self._spec.buffer_bytes:
            self._make_room()
        for partition_id in [entry for entry, size in self._sizes.items() if size >= self._spec.row_group_bytes]:
            if len(self._open) < self._max_open_files or partition_id in self._open:
                self._write_row_group(partition_id)

    def finish(self) -> None:
        """Write what is left and close all files; open ones first, since they hold memory."""
        self._spill.add([(entry, self._take(entry)) for entry in list(self._pieces) if entry in self._on_disk])
        for partition_id in [*self._open, *(entry for entry in self._pieces if entry not in self._open)]:
            if partition_id in self._pieces:
                self._write_row_group(partition_id)
            self._open.pop(partition_id).close()

    def _make_room(self) -> None:
        """Bring what is held down to half of the buffer."""
        if self._on_disk or len(self._open.keys() | self._pieces.keys()) > self._max_open_files:
            self._spill_small()
        live_bytes = sum(self._sizes.values())
        for partition_id, size_bytes in sorted(self._sizes.items(), key=lambda entry: -entry[1]):
            if live_bytes <= self._spec.buffer_bytes // 2:
                break
            self._write_row_group(partition_id)
            live_bytes -= size_bytes
        for partition_id, pieces in self._pieces.items():
            self._pieces[partition_id] = [pa.concat_batches(pieces)]  # a copy that shares memory with nothing
        self._held_bytes = live_bytes

    def _spill_small(self) -> None:
        """Send rows to disk, except those of open files, and of partitions large enough to be opened next."""
        free = self._max_open_files - len(self._open)
        large_bytes = self._spec.buffer_bytes // (2 * self._max_open_files)
        waiting = sorted(self._pieces.keys() - self._open.keys(), key=lambda entry: -self._sizes[entry])
        large = [entry for entry in waiting if self._sizes[entry] >= large_bytes and entry not in self._on_disk][:free]
        small = [entry for entry in waiting if entry not in large]
        self._on_disk.update(small)
        self._spill.add([(entry, self._take(entry)) for entry in small])

    def _write_row_group(self, partition_id: int) -> None:
        if partition_id not in self._open:
            self._open[partition_id] = PartitionFile(partition_id, self._files, self._spec)
        self._open[partition_id].write(pa.Table.from_batches(self._take(partition_id)))

    def _take(self, partition_id: int) -> list[Any]:
        pieces = self._pieces.pop(partition_id)
        del self._sizes[partition_id]
        if not self._pieces:
            self._held_bytes = 0
        return pieces
