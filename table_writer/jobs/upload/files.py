"""The rows and files of one task: what waits in memory or on disk, what becomes a row group, and of which file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from table_writer.errors import StorageError, counted
from table_writer.jobs.upload.parquet import ParquetFile, footer_bytes, leaf_count, widest_bytes
from table_writer.jobs.upload.partitioning import PartitionIds, Spill, rows_by_partition
from table_writer.jobs.upload.parts import PartSink, Uploads
from table_writer.model.column_statistics import ColumnStatistics, MergedStatistics
from table_writer.model.message import PendingUpload, names_of_task
from table_writer.model.upload_spec import UploadSpec

SLICE_BYTES: Final = 1024  # what a slice of a batch takes by itself, beside the rows it shares
SLICE_COLUMN_BYTES: Final = 256
LEAST_ROWS: Final = 64  # split at a time, where slices of many columns would take more than the buffer
FIRST_PIECE_SHARE: Final = 0.25  # of the target, before encoding: shows how large rows become
NEARLY: Final = 0.9  # of the target: what is missing is not worth a row group


def names_of_attempt(spec: UploadSpec, task_index: int, attempt_id: int) -> str:
    """Return how the names of a task attempt's files begin, and of no other's.

    S3 keeps two uploads of one key apart; Azure does not, and there a late attempt would discard what another has sent.
    """
    return f"{names_of_task(spec.write_id, task_index, spec.file_options.file_name_prefix)}{attempt_id}-"


def file_name(spec: UploadSpec, names: str, number: int) -> str:
    """Return ``part-00003-<write_id>-17-0.zstd.parquet``; ``number`` counts an attempt's files of one partition."""
    return f"{names}{number}{spec.file_options.file_name_suffix}"


class FinishedFile(NamedTuple):
    """A file whose last byte was written; its parts may still be on their way."""

    sink: PartSink
    partition_id: int
    row_count: int
    raw_size_bytes: int
    figures: str


class Files:
    """Opens files and keeps what the commit message will say of those that are finished.

    ``names`` is how the names of all of them begin: :func:`names_of_attempt`.
    """

    def __init__(self, spec: UploadSpec, names: str, uploads: Uploads, ids: PartitionIds) -> None:
        self._spec = spec
        self._names = names
        self._uploads = uploads
        self._ids = ids
        self._finished: list[FinishedFile] = []
        self._statistics = MergedStatistics()
        self._counted: set[int] = set()  # partitions of which figures were counted, or would have been

    def counts_figures(self, partition_id: int) -> bool:
        """Return whether figures for optimizers are counted of a new file: not once there are too many partitions."""
        self._counted.add(partition_id)
        return len(self._counted) * len(self._spec.data_columns) <= self._spec.most_figures

    def open(self, partition_id: int, number: int) -> PartSink:
        name = file_name(self._spec, self._names, number)
        return self._uploads.open(f"{self._spec.key_prefix}{self._ids.directory(partition_id)}{name}")

    def add_finished_file(self, file: FinishedFile, statistics: Mapping[str, ColumnStatistics]) -> None:
        """Take note of a file that got its last byte, and of what it says of its columns."""
        self._finished.append(file)
        self._statistics.add(statistics, file.row_count)

    @property
    def statistics(self) -> dict[str, ColumnStatistics]:
        return self._statistics.columns

    def pending_uploads(self) -> tuple[PendingUpload, ...]:
        are_too_many = len(self._counted) * len(self._spec.data_columns) > self._spec.most_figures
        return tuple(
            PendingUpload(
                key=file.sink.key,
                parts=tuple(part.result() for part in file.sink.parts),
                upload_id=file.sink.upload_id,
                size_bytes=file.sink.size_bytes,
                row_count=file.row_count,
                partition_values=self._ids.values(file.partition_id),
                raw_size_bytes=file.raw_size_bytes,
                figures="" if are_too_many else file.figures,
            )
            for file in self._finished
        )


class PartitionFile:
    """The rows of one partition, in one file, or in several: of about ``target_file_bytes``, or as limits demand.

    Those are S3's 10,000 parts, what the footers of open files may take of memory, and rows that suddenly are wide.
    """

    def __init__(self, partition_id: int, files: Files, spec: UploadSpec) -> None:
        self._partition_id = partition_id
        self._files = files
        self._spec = spec
        self._number = 0
        self._row_count = 0
        self._footer_bytes = 0
        self._sink: PartSink | None = None
        self._encoder: ParquetFile | None = None
        self._target_bytes = spec.target_file_bytes
        self._row_bytes = 0.0  # encoded, as last seen; 0 before that

    def write(self, rows: Any) -> None:
        """Encode a table, as a row group or, where files have a target size, as several."""
        while rows.num_rows:
            encoder, sink = self._open_file(rows)
            count = self._fitting_row_count(rows, sink.size_bytes)
            before_bytes = sink.size_bytes
            piece = rows.slice(0, count)
            encoder.write(piece)
            self._row_count += count
            self._footer_bytes += footer_bytes(piece, self._spec.file_options.row_group_rows)
            self._row_bytes = (sink.size_bytes - before_bytes) / count
            rows = rows.slice(count)  # of one row or more: this ends
            if self._target_bytes is not None and sink.size_bytes >= self._target_bytes * NEARLY:
                self.close()

    def close(self) -> None:
        if self._sink is None or self._encoder is None:
            return
        row_count, raw_size_bytes = self._encoder.close()
        if row_count != self._row_count:
            raise StorageError(
                f"{self._sink.key} got {counted(self._row_count, 'row')} and holds {row_count}; run the write again"
            )
        self._sink.finish()
        file = FinishedFile(self._sink, self._partition_id, row_count, raw_size_bytes, self._encoder.figures())
        self._files.add_finished_file(file, self._encoder.statistics())
        self._sink, self._encoder, self._row_count, self._footer_bytes = None, None, 0, 0

    def _fitting_row_count(self, rows: Any, size_bytes: int) -> int:
        """Return how many of the rows a file of this size gets in one piece; all of them where there is no target."""
        if self._target_bytes is None:
            return int(rows.num_rows)
        missing_bytes = max(0, self._target_bytes - size_bytes)
        fitting = (
            missing_bytes / self._row_bytes
            if self._row_bytes
            else missing_bytes * FIRST_PIECE_SHARE / max(1, rows.nbytes) * rows.num_rows
        )
        return min(int(rows.num_rows), max(1, round(fitting)))

    def _open_file(self, rows: Any) -> tuple[ParquetFile, PartSink]:
        if self._sink is None or self._encoder is None or self._is_full(rows):
            self.close()
            self._sink = self._files.open(self._partition_id, self._number)
            counts_figures = self._files.counts_figures(self._partition_id)
            options = self._spec.file_options
            self._encoder = ParquetFile(self._sink, rows, options, counts_figures=counts_figures)
            self._number += 1
        return self._encoder, self._sink

    def _is_full(self, rows: Any) -> bool:
        """Return whether these rows belong in another file than the open one."""
        assert self._sink is not None and self._encoder is not None  # noqa: PT018, S101 - the caller has looked
        max_footer_bytes = self._spec.max_footer_bytes(leaf_count(rows.schema))
        return self._sink.is_nearly_full or self._footer_bytes >= max_footer_bytes or not self._encoder.takes(rows)


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
