"""The files of one task: their keys, and the one or more that each partition gets."""

from __future__ import annotations

from typing import Any, NamedTuple

from table_writer.errors import StorageError
from table_writer.model.message import PendingUpload
from table_writer.model.upload_spec import UploadSpec
from table_writer.upload.parquet import ParquetFile
from table_writer.upload.partitioning import PartitionIds
from table_writer.upload.parts import PartSink, Uploads

__all__ = ["Files", "PartitionFile", "file_name"]


def file_name(spec: UploadSpec, task_index: int, number: int) -> str:
    """Return ``part-00003-<write_id>-0.zstd.parquet``; ``number`` counts a task's files of one partition."""
    return f"part-{task_index:05d}-{spec.write_id}-{number}{spec.parquet.file_name_infix}.parquet"


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

    def open(self, partition_id: int, number: int) -> PartSink:
        """Return where the bytes of a partition's file go."""
        name = file_name(self._spec, self._task_index, number)
        return self._uploads.open(f"{self._spec.key_prefix}{self._ids.directory(partition_id)}{name}")

    def finished(self, file: FinishedFile) -> None:
        """Take note of a file that got its last byte."""
        self._finished.append(file)

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


class PartitionFile:
    """The rows of one partition, in one file, or in several where one would have more parts than S3 takes."""

    def __init__(self, partition_id: int, files: Files, spec: UploadSpec) -> None:
        self._partition_id = partition_id
        self._files = files
        self._spec = spec
        self._number = 0
        self._row_count = 0
        self._sink: PartSink | None = None
        self._parquet: ParquetFile | None = None

    def write(self, rows: Any) -> None:
        """Encode a table as a row group."""
        if self._sink is None or self._parquet is None or self._sink.is_nearly_full:
            self.close()
            self._sink = self._files.open(self._partition_id, self._number)
            self._parquet = ParquetFile(self._sink, rows, self._spec.parquet)
            self._number += 1
        self._parquet.write(rows)
        self._row_count += rows.num_rows

    def close(self) -> None:
        """End the file."""
        if self._sink is None or self._parquet is None:
            return
        row_count, raw_size_bytes = self._parquet.close()
        if row_count != self._row_count:
            raise StorageError(
                f"{self._sink.key} got {self._row_count} rows and holds {row_count}; run the write again"
            )
        self._sink.finish()
        self._files.finished(FinishedFile(self._sink, self._partition_id, row_count, raw_size_bytes))
        self._sink, self._parquet, self._row_count = None, None, 0
