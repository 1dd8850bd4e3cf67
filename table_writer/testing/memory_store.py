"""An object store in memory that behaves as S3 does, with a hook to make any call fail."""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal

from table_writer.errors import StorageError
from table_writer.model.message import UploadedPart
from table_writer.model.process import PerProcess
from table_writer.storage.object_store import (
    PAGE_KEYS,
    ObjectInfo,
    RequestCounter,
    StoredObject,
    UploadInfo,
    every_page,
    gone_upload_message,
    key_of,
    nothing,
    replaced_message,
    require_directory,
    require_gettable,
    source_changed,
)
from table_writer.testing.late import may_come_late

Phase = Literal["before", "after"]
MIN_PART_BYTES: Final = 5 * 1024 * 1024  # S3: every part but the last
REQUESTS: Final = {
    "put": "PutObject",
    "put_if_absent": "PutObject",
    "get": "GetObject",
    "read_range": "GetObject",
    "head": "HeadObject",
    "list_page": "ListObjectsV2",
    "list_files": "ListObjectsV2",
    "list_directories": "ListObjectsV2",
    "delete": "DeleteObjects",
    "copy": "CopyObject",
    "create_upload": "CreateMultipartUpload",
    "upload_part": "UploadPart",
    "complete_upload": "CompleteMultipartUpload",
    "abort_upload": "AbortMultipartUpload",
    "list_uploads": "ListMultipartUploads",
}


@dataclass(slots=True)
class _Upload:
    key: str
    initiated_at: datetime
    parts: dict[int, tuple[UploadedPart, bytes]] = field(default_factory=dict)


class MemoryStore:
    """An :class:`~table_writer.storage.ObjectStore` in memory, with S3's answers for what is not there.

    Parameters
    ----------
    clock
        Seconds since the epoch. Set it to a function of your own to let objects age.
    page_keys
        Objects in one page of a listing; S3's 1,000 make pages rare in small tests.

    Attributes
    ----------
    on_call
        Called with the operation (the method's name), ``"before"`` or ``"after"`` it takes effect, and its key or
        prefix; for ``delete`` once per key. Raising in ``"before"`` is a failure, in ``"after"`` a lost response;
        a :class:`~table_writer.testing.late.Late` in ``"before"`` keeps a call that changes something.
    pending
        The calls that were kept. Calling one applies it, without the hook.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time, page_keys: int = PAGE_KEYS) -> None:
        self.clock = clock
        self._page_keys = page_keys
        self.max_single_copy_bytes = 5 * 1024**3
        """Larger objects are copied in parts, by an upload; can be set."""
        self.deletes_conditionally = True
        """Whether it looks at the ETag of what is to be deleted, which not every store does; can be set."""
        self.on_call: Callable[[str, Phase, str], object] | None = None
        self._lock = PerProcess(threading.RLock)
        self.pending: list[Callable[[], object]] = []
        self._counter = RequestCounter()
        self._objects: dict[str, tuple[bytes, ObjectInfo]] = {}
        self._uploads: dict[str, _Upload] = {}

    def request_counts(self) -> Mapping[str, int]:
        return self._counter.counts()

    @may_come_late
    def put(self, key: str, body: bytes) -> None:
        with self._call("put", key):
            self._store(key, body)

    @may_come_late
    def put_if_absent(self, key: str, body: bytes) -> bool:
        with self._call("put_if_absent", key):
            if key not in self._objects:
                self._store(key, body)
            return self._objects[key][0] == body

    def get(self, key: str) -> StoredObject | None:
        with self._call("get", key):
            if key not in self._objects:
                return None
            body, info = self._objects[key]
            require_gettable(key, len(body))
            return StoredObject(info=info, body=body, age_seconds=max(0.0, self.clock() - info.modified_at.timestamp()))

    def read_range(self, source: ObjectInfo, start: int, size: int) -> bytes:
        with self._call("read_range", source.key):
            body, info = self._objects.get(source.key, (b"", None))
            if info is None or info.etag != source.etag:
                raise source_changed(source.key)
            return body[start : start + size]

    def head(self, key: str) -> ObjectInfo | None:
        with self._call("head", key):
            return self._objects[key][1] if key in self._objects else None

    def list_page(self, prefix: str, *, start_after: str = "") -> tuple[Sequence[ObjectInfo], bool]:
        with self._call("list_page", prefix):
            keys = sorted(key for key in self._objects if key.startswith(prefix) and key > start_after)
            found = [self._objects[key][1] for key in keys if not key.endswith("/")]
            return found[: self._page_keys], len(found) > self._page_keys

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        return every_page(self.list_page, prefix, start_after)

    def list_files(self, directory: str) -> Sequence[str]:
        with self._call("list_files", require_directory(directory)):
            below = sorted(key for key in self._objects if key.startswith(directory) and not key.endswith("/"))
            return [key for key in below if "/" not in key.removeprefix(directory)]

    def list_directories(self, directory: str) -> Sequence[str]:
        with self._call("list_directories", require_directory(directory)):
            below = (key.removeprefix(directory) for key in self._objects if key.startswith(directory))
            return sorted({key.partition("/")[0] for key in below if "/" in key})

    @may_come_late
    def delete(self, objects: Sequence[str | ObjectInfo]) -> None:
        replaced: list[str] = []
        for item in objects:
            key = key_of(item)
            with self._call("delete", key):
                _, info = self._objects.get(key, (b"", None))
                if info is None or isinstance(item, str) or info.etag == item.etag or not self.deletes_conditionally:
                    self._objects.pop(key, None)
                else:
                    replaced.append(key)
        if replaced:
            raise StorageError(replaced_message(replaced[0]))

    @may_come_late
    def copy(self, source: ObjectInfo, key: str, *, before_send: Callable[[], object] = nothing) -> None:
        if source.size_bytes > self.max_single_copy_bytes:
            self._copy_in_parts(source, key, before_send)
            return
        before_send()
        with self._call("copy", key):
            self._store(key, self._body_of(source))

    def _copy_in_parts(self, source: ObjectInfo, key: str, before_send: Callable[[], object]) -> None:
        """Copy in two parts; on an error the upload is aborted, as long as the process lives."""
        before_send()
        upload_id, parts = self.create_upload(key), []
        try:
            for number, size in enumerate((MIN_PART_BYTES, None), 1):
                before_send()
                first = (number - 1) * MIN_PART_BYTES
                parts.append(self.upload_part(key, upload_id, number, self._body_of(source)[first:][:size]))
            before_send()
            self.complete_upload(key, upload_id, [part for part in parts if part.size_bytes])
        except Exception:
            self.abort_upload(key, upload_id)
            raise

    def _body_of(self, source: ObjectInfo) -> bytes:
        body, info = self._objects.get(source.key, (b"", None))
        if info is None or (info.etag, info.size_bytes) != (source.etag, source.size_bytes):
            raise source_changed(source.key)
        return body

    def create_upload(self, key: str) -> str:
        with self._call("create_upload", key):
            upload_id = uuid.uuid4().hex
            self._uploads[upload_id] = _Upload(key, self._now())
            return upload_id

    def upload_part(self, key: str, upload_id: str, number: int, body: bytes | memoryview) -> UploadedPart:
        with self._call("upload_part", key):
            data = bytes(body)
            part = UploadedPart(number=number, etag=_etag(data), size_bytes=len(data))
            self._pending(key, upload_id).parts[number] = (part, data)
            return part

    @may_come_late
    def complete_upload(self, key: str, upload_id: str, parts: Sequence[UploadedPart]) -> None:
        with self._call("complete_upload", key):
            size_bytes = sum(part.size_bytes for part in parts)
            present = self._objects.get(key)
            if upload_id not in self._uploads and present is not None and present[1].size_bytes == size_bytes:
                return
            held = self._pending(key, upload_id).parts
            if not parts or any(part.number not in held or held[part.number][0] != part for part in parts):
                raise StorageError(f"InvalidPart: the parts of {key} are not those that were uploaded")
            if any(part.size_bytes < MIN_PART_BYTES for part in parts[:-1]):
                raise StorageError(f"EntityTooSmall: a part of {key} other than the last is under 5 MiB")
            if len({part.size_bytes for part in parts[:-1]}) > 1 or parts[-1].size_bytes > parts[0].size_bytes:
                raise StorageError(f"InvalidPart: the parts of {key} differ in length, which Cloudflare R2 refuses")
            self._store(key, b"".join(held[part.number][1] for part in parts))
            del self._uploads[upload_id]

    @may_come_late
    def abort_upload(self, key: str, upload_id: str) -> None:
        with self._call("abort_upload", key):
            if upload_id in self._uploads and self._uploads[upload_id].key == key:
                del self._uploads[upload_id]

    def list_uploads(self, prefix: str) -> Iterator[UploadInfo]:
        require_directory(prefix)
        with self._call("list_uploads", prefix):
            found = [
                UploadInfo(key=upload.key, upload_id=upload_id, initiated_at=upload.initiated_at)
                for upload_id, upload in self._uploads.items()
                if upload.key.startswith(prefix)
            ]
        return iter(sorted(found, key=lambda upload: (upload.key, upload.upload_id)))

    @contextmanager
    def _call(self, operation: str, key: str) -> Iterator[None]:
        """Count a call, run the hook around it and let it take effect all at once."""
        self._counter.add(REQUESTS[operation])
        if self.on_call:
            self.on_call(operation, "before", key)
        with self._lock.get():
            yield
        if self.on_call:
            self.on_call(operation, "after", key)

    def _store(self, key: str, body: bytes) -> None:
        info = ObjectInfo(key=key, size_bytes=len(body), etag=_etag(body), modified_at=self._now())
        self._objects[key] = (bytes(body), info)

    def _pending(self, key: str, upload_id: str) -> _Upload:
        upload = self._uploads.get(upload_id)
        if upload is None or upload.key != key:
            raise StorageError(gone_upload_message(key))
        return upload

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock(), tz=UTC)


def _etag(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()
