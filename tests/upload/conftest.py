from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from table_writer.errors import StorageError
from table_writer.jobs.upload.task import upload_rows
from table_writer.model.message import CommitMessage, UploadedPart
from table_writer.model.upload_spec import ParquetOptions, UploadSpec

MIB = 1024 * 1024


class RecordingStore:
    """A store in memory that can be told to fail, and knows the most it was ever sent at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.uploads: dict[str, str] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.aborted: list[str] = []
        self.counts: Counter[str] = Counter()
        self.fail: Callable[[str, int], bool] = lambda operation, nth: False

    def _request(self, operation: str) -> None:
        with self.lock:
            self.counts[operation] += 1
            fails = self.fail(operation, self.counts[operation])
        if fails:
            raise StorageError(f"{operation} failed as told")

    def request_counts(self) -> dict[str, int]:
        return dict(self.counts)

    def create_upload(self, key: str) -> str:
        self._request("create_upload")
        with self.lock:
            upload_id = f"upload-{len(self.uploads)}"
            self.uploads[upload_id] = key
            self.parts[upload_id] = {}
        return upload_id

    def upload_part(self, key: str, upload_id: str, number: int, body: bytes) -> UploadedPart:
        self._request("upload_part")
        assert self.uploads[upload_id] == key
        assert upload_id not in self.aborted
        self.parts[upload_id][number] = bytes(body)
        return UploadedPart(number=number, etag=f"etag-{number}", size_bytes=len(body))

    def abort_upload(self, key: str, upload_id: str) -> None:
        self._request("abort_upload")
        assert self.uploads[upload_id] == key
        self.aborted.append(upload_id)

    def body(self, upload_id: str) -> bytes:
        return b"".join(body for _, body in sorted(self.parts[upload_id].items()))

    def files(self, message: CommitMessage) -> dict[str, Any]:
        """The tables that completing the message's uploads would make, by key."""
        return {
            upload.key: pq.read_table(pa.BufferReader(self.body(upload.upload_id)), partitioning=None)
            for upload in message.uploads
        }


@pytest.fixture
def store() -> RecordingStore:
    return RecordingStore()


@pytest.fixture
def spec() -> Callable[..., UploadSpec]:
    def make(**changes: Any) -> UploadSpec:
        fields: dict[str, Any] = {
            "write_id": "w1",
            "key_prefix": "mart/orders/_table_writer/data/w1/",
            "store": None,
            "data_columns": ("id", "name"),
            "partition_columns": ("dt",),
            "file_options": ParquetOptions(compression="zstd"),
        }
        return UploadSpec(**(fields | changes))

    return make


@pytest.fixture
def upload(store: RecordingStore) -> Callable[..., CommitMessage]:
    def run(batches: Iterator[Any] | Sequence[Any], spec: UploadSpec, *, task_index: int = 3) -> CommitMessage:
        return CommitMessage.from_bytes(upload_rows(batches, spec, store, task_index=task_index, attempt_id=17))

    return run
