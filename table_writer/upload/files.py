"""The files of one task: their keys, and the one or more that each partition gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from table_writer.errors import StorageError
from table_writer.model.column_statistics import ColumnStatistics, MergedStatistics
from table_writer.model.message import PendingUpload, names_of_task
from table_writer.model.upload_spec import OrcOptions, ParquetOptions, UploadSpec
from table_writer.upload.file_format import EncodedFile, Sink, footer_bytes, leaf_count
from table_writer.upload.orc import OrcFile
from table_writer.upload.parquet import ParquetFile
from table_writer.upload.partitioning import PartitionIds
from table_writer.upload.parts import PartSink, Uploads

__all__ = ["Files", "PartitionFile", "file_name"]

FIRST_PIECE_SHARE: Final = 0.25  # of the target, before encoding: shows how large rows become
NEARLY: Final = 0.9  # of the target: what is missing is not worth a row group


def encoded_file(sink: Sink, first_rows: Any, options: ParquetOptions | OrcOptions) -> EncodedFile:
    """Begin a file in the format that its options are of: here is where formats are told apart."""
    if isinstance(options, OrcOptions):
        return OrcFile(sink, first_rows, options)
    return ParquetFile(sink, first_rows, options)


def file_name(spec: UploadSpec, task_index: int, number: int) -> str:
    """Return ``part-00003-<write_id>-0.zstd.parquet``; ``number`` counts a task's files of one partition."""
    return f"{names_of_task(spec.write_id, task_index)}{number}{spec.file_options.file_name_suffix}"


class FinishedFile(NamedTuple):
    """A file whose last byte was written; its parts may still be on their way."""

    sink: PartSink
    partition_id: int
    row_count: int
    raw_size_bytes: int


class Files:
    """Opens files and keeps what the commit message will say of those that are finished."""

    def __init__(self, spec: UploadSpec, task_index: int, uploads: Uploads, ids: PartitionIds) -> None:
        self._spec = spec
        self._task_index = task_index
        self._uploads = uploads
        self._ids = ids
        self._finished: list[FinishedFile] = []
        self._statistics = MergedStatistics()

    def open(self, partition_id: int, number: int) -> PartSink:
        """Return where the bytes of a partition's file go."""
        name = file_name(self._spec, self._task_index, number)
        return self._uploads.open(f"{self._spec.key_prefix}{self._ids.directory(partition_id)}{name}")

    def finished(self, file: FinishedFile, statistics: Mapping[str, ColumnStatistics]) -> None:
        """Take note of a file that got its last byte, and of what it says of its columns."""
        self._finished.append(file)
        self._statistics.add(statistics, file.row_count)

    @property
    def statistics(self) -> dict[str, ColumnStatistics]:
        """What all finished files say of their columns."""
        return self._statistics.columns

    def pending_uploads(self) -> tuple[PendingUpload, ...]:
        """Wait for all parts of all files."""
        return tuple(
            PendingUpload(
                key=file.sink.key,
                parts=tuple(part.result() for part in file.sink.parts),
                upload_id=file.sink.upload_id,
                size_bytes=file.sink.size_bytes,
                row_count=file.row_count,
                partition_values=self._ids.values(file.partition_id),
                raw_size_bytes=file.raw_size_bytes,
            )
            for file in self._finished
        )


class _Cut:
    """How many rows to encode next, so that files end near their target size; all of them where there is none."""

    def __init__(self, target_bytes: int | None) -> None:
        self._target_bytes = target_bytes
        self._row_bytes = 0.0  # encoded, as last seen; 0 before that

    def row_count(self, rows: Any, size_bytes: int) -> int:
        """Return how many of the rows a file of this size gets in one piece."""
        if self._target_bytes is None:
            return int(rows.num_rows)
        missing_bytes = max(0, self._target_bytes - size_bytes)
        fitting = (
            missing_bytes / self._row_bytes
            if self._row_bytes
            else missing_bytes * FIRST_PIECE_SHARE / max(1, rows.nbytes) * rows.num_rows
        )
        return min(int(rows.num_rows), max(1, round(fitting)))

    def learn(self, row_count: int, size_bytes: int) -> None:
        """Take note of how large rows were once encoded."""
        self._row_bytes = size_bytes / row_count

    def is_reached(self, size_bytes: int) -> bool:
        """Whether a file of this size ends here."""
        return self._target_bytes is not None and size_bytes >= self._target_bytes * NEARLY


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
        self._encoder: EncodedFile | None = None
        self._cut = _Cut(spec.target_file_bytes)

    def write(self, rows: Any) -> None:
        """Encode a table, as a row group or, where files have a target size, as several."""
        while rows.num_rows:
            encoder, sink = self._opened(rows)
            count = self._cut.row_count(rows, sink.size_bytes)
            before_bytes = sink.size_bytes
            piece = rows.slice(0, count)
            encoder.write(piece)
            self._row_count += count
            self._footer_bytes += footer_bytes(piece)
            self._cut.learn(count, sink.size_bytes - before_bytes)
            rows = rows.slice(count)  # of one row or more: this ends
            if self._cut.is_reached(sink.size_bytes):
                self.close()

    def close(self) -> None:
        """End the file."""
        if self._sink is None or self._encoder is None:
            return
        row_count, raw_size_bytes = self._encoder.close()
        if row_count != self._row_count:
            raise StorageError(
                f"{self._sink.key} got {self._row_count} rows and holds {row_count}; run the write again"
            )
        self._sink.finish()
        file = FinishedFile(self._sink, self._partition_id, row_count, raw_size_bytes)
        self._files.finished(file, self._encoder.statistics())
        self._sink, self._encoder, self._row_count, self._footer_bytes = None, None, 0, 0

    def _opened(self, rows: Any) -> tuple[EncodedFile, PartSink]:
        if self._sink is None or self._encoder is None or self._is_full(rows):
            self.close()
            self._sink = self._files.open(self._partition_id, self._number)
            self._encoder = encoded_file(self._sink, rows, self._spec.file_options)
            self._number += 1
        return self._encoder, self._sink

    def _is_full(self, rows: Any) -> bool:
        """Whether these rows belong into another file than the one that is open."""
        assert self._sink is not None and self._encoder is not None  # noqa: PT018, S101 - the caller has looked
        max_footer_bytes = self._spec.max_footer_bytes(leaf_count(rows.schema))
        return self._sink.is_nearly_full or self._footer_bytes >= max_footer_bytes or not self._encoder.takes(rows)
