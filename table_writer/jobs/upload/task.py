"""One task of step 2, on an executor: it turns Arrow batches into pending uploads and one commit message."""

from __future__ import annotations

import gc
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from table_writer.errors import InvalidInputError
from table_writer.jobs.upload.arrays import one_binary
from table_writer.jobs.upload.files import Files, file_name, names_of_attempt, write_rows
from table_writer.jobs.upload.partitioning import PartitionIds, in_chunks
from table_writer.jobs.upload.parts import Uploads
from table_writer.model.message import CommitMessage, RowMark
from table_writer.model.upload_spec import UploadSpec
from table_writer.storage.object_store import ObjectStore
from table_writer.storage.worker import worker_store

MESSAGE_COLUMN: Final = "message"
LARGEST_FILE_NUMBER: Final = 99_999  # for the length of keys


def map_function(spec: UploadSpec) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function for ``DataFrame.mapInArrow``: yields one row, the task's commit message."""

    def upload(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext  # noqa: PLC0415 - rows may come without Spark

        context = TaskContext.get()
        assert context is not None  # noqa: S101 - Spark runs this
        pa.set_cpu_count(1)  # Spark runs a task per core
        store = worker_store(spec.store)
        keep_modules()
        task_index, attempt_id = context.partitionId(), context.taskAttemptId()
        message = upload_rows(batches, spec, store, task_index=task_index, attempt_id=attempt_id)
        yield pa.RecordBatch.from_arrays([one_binary(message)], names=[MESSAGE_COLUMN])

    return upload


@cache
def keep_modules() -> None:
    """Hide what is loaded by now from Python's garbage collector, once in a process.

    Spark lets it look through everything after each task of a worker that it keeps: 70 to 80 ms for the modules of this
    library's requirements, in which the next task waits. Nothing of them is ever garbage. What tasks make is looked
    through as before, and there is no garbage to be kept: Spark's last look was just before this task.
    """
    gc.freeze()


def upload_rows(
    batches: Iterable[Any], spec: UploadSpec, store: ObjectStore, *, task_index: int, attempt_id: int
) -> bytes:
    """Upload all rows of one task attempt, completing nothing; returns the commit message.

    An attempt that fails aborts its own uploads; one that is killed leaves them to the driver. Raises ``StorageError``
    if the store or the local disk failed, ``InvalidInputError`` if a partition value makes a key that S3 does not take
    or a column has a type that the format does not, ``PartitionExistsError`` for a row of one of ``spec.existing``.
    """
    sent_before = dict(store.request_counts())
    names = names_of_attempt(spec, task_index, attempt_id)
    longest_name = file_name(spec, names, LARGEST_FILE_NUMBER)
    ids = PartitionIds(spec.partition_columns, rest_of_key=f"{spec.key_prefix}{longest_name}", existing=spec.existing)
    with Uploads(spec, store) as uploads:
        files = Files(spec, names, uploads, ids)
        numbered = _NumberedRows(batches, spec, ids)
        row_count = write_rows(numbered, files, spec)
        pending = files.pending_uploads()
        sent = {kind: count - sent_before.get(kind, 0) for kind, count in store.request_counts().items()}
        message = CommitMessage(
            write_id=spec.write_id,
            task_index=task_index,
            attempt_id=attempt_id,
            row_count=row_count,
            uploads=pending,
            requests=tuple(sorted((kind, count) for kind, count in sent.items() if count)),
            row_bytes=numbered.row_bytes,
            statistics=files.statistics,
            marks=numbered.marks,
        ).to_bytes()
        uploads.hand_over()
    return message


class _NumberedRows:
    """The data columns of rows with the number of each row's partition, as many at a time as are worth splitting.

    Remembers how wide the widest rows were, and how many had which mark.
    """

    def __init__(self, batches: Iterable[Any], spec: UploadSpec, ids: PartitionIds) -> None:
        self._batches = batches
        self._spec = spec
        self._ids = ids
        self.row_bytes = 0
        self.marks: Counter[RowMark] = Counter()

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        spec, data_count = self._spec, len(self._spec.data_columns)
        batches = map(self._unmarked, self._batches) if spec.is_marked else self._batches
        for chunk in in_chunks(batches):
            self.row_bytes = max(self.row_bytes, math.ceil(chunk.nbytes / chunk.num_rows))
            if chunk.num_columns != data_count + len(spec.partition_columns):
                raise InvalidInputError(f"rows have {chunk.num_columns} columns, not the data and partition columns")
            rows = pa.RecordBatch.from_arrays(chunk.columns[:data_count], names=list(spec.data_columns))
            yield self._ids.of(chunk.columns[data_count:], chunk.num_rows), rows

    def _unmarked(self, batch: Any) -> Any:
        """Count the marks of rows, which are the last column, and leave them out, and the rows that are to go."""
        *columns, marks = batch.columns
        found = pc.value_counts(marks)
        self.marks.update({RowMark(item["values"].as_py()): item["counts"].as_py() for item in found})
        rows = pa.RecordBatch.from_arrays(columns, names=batch.schema.names[:-1])
        return rows.filter(pc.not_equal(marks, RowMark.DELETED)) if RowMark.DELETED in self.marks else rows
