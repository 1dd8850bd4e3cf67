"""A directory with a lock file behind the :class:`~table_writer.storage.object_store.ObjectStore` protocol."""

from __future__ import annotations

import fcntl
import pickle
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from table_writer.errors import InvalidInputError, StorageError
from table_writer.model.message import UploadedPart
from table_writer.storage.locked.settings import LockedSettings
from table_writer.storage.object_store import (
    PAGE_KEYS,
    ObjectInfo,
    RequestCounter,
    StoredObject,
    UploadInfo,
    delete_each,
    every_page,
    gone_upload_message,
    key_of,
    nothing,
    replaced_message,
    require_directory,
    require_gettable,
    source_changed,
)


@dataclass
class Index:
    """What is there; bodies are files by the names of ETags."""

    objects: dict[str, ObjectInfo] = field(default_factory=dict)
    uploads: dict[tuple[str, str], tuple[datetime, dict[int, UploadedPart]]] = field(default_factory=dict)


class LockedStore:
    """Whoever calls holds the lock until the call is done."""

    def __init__(self, settings: LockedSettings) -> None:
        self._directory = Path(settings.directory)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._counter = RequestCounter()

    @contextmanager
    def _locked(self, kind: str) -> Iterator[Index]:
        self._counter.add(kind)
        path = self._directory / "index"
        with (self._directory / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = path.read_bytes() if path.exists() else b""
            index = pickle.loads(found) if found else Index()  # noqa: S301 - its own
            yield index
            made = pickle.dumps(index)
            if made != found:
                path.with_suffix(".new").write_bytes(made)
                path.with_suffix(".new").replace(path)

    def _body(self, etag: str) -> Path:
        return self._directory / etag

    def _store(self, index: Index, key: str, body: bytes) -> None:
        etag = uuid.uuid4().hex
        self._body(etag).write_bytes(body)
        now = datetime.now(UTC)
        index.objects[key] = ObjectInfo(key=key, size_bytes=len(body), etag=etag, modified_at=now)

    def request_counts(self) -> Mapping[str, int]:
        return self._counter.counts()

    def put(self, key: str, body: bytes) -> None:
        with self._locked("PutObject") as index:
            self._store(index, key, body)

    def put_if_absent(self, key: str, body: bytes) -> bool:
        with self._locked("PutObject") as index:
            if key in index.objects:
                return self._body(index.objects[key].etag).read_bytes() == body
            self._store(index, key, body)
            return True

    def get(self, key: str) -> StoredObject | None:
        with self._locked("GetObject") as index:
            info = index.objects.get(key)
            if info is None:
                return None
            require_gettable(key, info.size_bytes)
            age_seconds = (datetime.now(UTC) - info.modified_at).total_seconds()
            return StoredObject(info=info, body=self._body(info.etag).read_bytes(), age_seconds=age_seconds)

    def read_range(self, source: ObjectInfo, start: int, size: int) -> bytes:
        with self._locked("GetObject") as index:
            if index.objects.get(source.key) != source:
                raise source_changed(source.key)
            return self._body(source.etag).read_bytes()[start : start + size]

    def head(self, key: str) -> ObjectInfo | None:
        with self._locked("HeadObject") as index:
            return index.objects.get(key)

    def list_page(self, prefix: str, *, start_after: str = "") -> tuple[Sequence[ObjectInfo], bool]:
        with self._locked("ListObjectsV2") as index:
            keys = (key for key in sorted(index.objects) if key.startswith(prefix) and key > start_after)
            found = [index.objects[key] for key in islice(keys, PAGE_KEYS + 1)]
        return found[:PAGE_KEYS], len(found) > PAGE_KEYS

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        return every_page(self.list_page, prefix, start_after)

    def _below(self, directory: str) -> Sequence[str]:
        require_directory(directory)
        with self._locked("ListObjectsV2") as index:
            return [key.removeprefix(directory) for key in index.objects if key.startswith(directory)]

    def list_files(self, directory: str) -> Sequence[str]:
        return sorted(f"{directory}{name}" for name in self._below(directory) if "/" not in name)

    def list_directories(self, directory: str) -> Sequence[str]:
        return sorted({name.partition("/")[0] for name in self._below(directory) if "/" in name})

    def delete(self, objects: Sequence[str | ObjectInfo]) -> None:
        def delete_one(item: str | ObjectInfo) -> tuple[str, str] | None:
            with self._locked("DeleteObject") as index:
                if isinstance(item, ObjectInfo) and index.objects.get(item.key, item) != item:
                    return item.key, replaced_message(item.key)
                gone = index.objects.pop(key_of(item), None)
                if gone:
                    self._body(gone.etag).unlink()
                return None

        delete_each(delete_one, objects)

    def copy(self, source: ObjectInfo, key: str, *, before_send: Callable[[], object] = nothing) -> None:
        with self._locked("CopyObject") as index:
            if index.objects.get(source.key) != source:
                raise source_changed(source.key)
            before_send()
            self._store(index, key, self._body(source.etag).read_bytes())

    def create_upload(self, key: str) -> str:
        with self._locked("CreateMultipartUpload") as index:
            upload_id = uuid.uuid4().hex
            index.uploads[key, upload_id] = (datetime.now(UTC), {})
            return upload_id

    def upload_part(self, key: str, upload_id: str, number: int, body: bytes | memoryview) -> UploadedPart:
        with self._locked("UploadPart") as index:
            if (key, upload_id) not in index.uploads:
                raise StorageError(gone_upload_message(key))
            part = UploadedPart(number=number, etag=uuid.uuid4().hex, size_bytes=len(body))
            self._body(part.etag).write_bytes(body)
            index.uploads[key, upload_id][1][number] = part
            return part

    def complete_upload(self, key: str, upload_id: str, parts: Sequence[UploadedPart]) -> None:
        with self._locked("CompleteMultipartUpload") as index:
            if (key, upload_id) not in index.uploads:
                present = index.objects.get(key)
                if present is None or present.size_bytes != sum(part.size_bytes for part in parts):
                    raise StorageError(gone_upload_message(key))
                return
            sent = index.uploads[key, upload_id][1]
            if not parts or any(sent.get(part.number) != part for part in parts):
                raise StorageError(f"the parts of {key} are not those that were uploaded")
            self._store(index, key, b"".join(self._body(part.etag).read_bytes() for part in parts))
            del index.uploads[key, upload_id]

    def abort_upload(self, key: str, upload_id: str) -> None:
        if len(upload_id) != len(uuid.uuid4().hex):
            raise InvalidInputError(f"{upload_id!r} is not an upload id of this store")
        with self._locked("AbortMultipartUpload") as index:
            index.uploads.pop((key, upload_id), None)

    def list_uploads(self, prefix: str) -> Iterator[UploadInfo]:
        require_directory(prefix)
        with self._locked("ListMultipartUploads") as index:
            pending = sorted(index.uploads.items())
        return iter(
            UploadInfo(key=key, upload_id=upload_id, initiated_at=begun)
            for (key, upload_id), (begun, _) in pending
            if key.startswith(prefix)
        )
