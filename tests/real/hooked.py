"""Real services with a hook around each call, as the doubles have it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from table_writer.metastore.protocol import Metastore
from table_writer.model.message import UploadedPart
from table_writer.storage.object_store import (
    ObjectInfo,
    ObjectStore,
    StoredObject,
    UploadInfo,
    every_page,
    key_of,
    nothing,
)


@dataclass
class HookedStore:
    """A store that lets its age be told wrong: claims time out without waiting for them."""

    real: ObjectStore
    on_call: Callable[[str, str, str], object] | None = None
    skipped_seconds: float = 0.0

    def _do(self, call: str, key: str, *arguments: Any) -> Any:
        if self.on_call:
            self.on_call(call, "before", key)
        answer = getattr(self.real, call)(*arguments)
        if self.on_call:
            self.on_call(call, "after", key)
        return answer

    def request_counts(self) -> Mapping[str, int]:
        return self.real.request_counts()

    def put(self, key: str, body: bytes) -> None:
        self._do("put", key, key, body)

    def put_if_absent(self, key: str, body: bytes) -> bool:
        return bool(self._do("put_if_absent", key, key, body))

    def get(self, key: str) -> StoredObject | None:
        found = self._do("get", key, key)
        return replace(found, age_seconds=found.age_seconds + self.skipped_seconds) if found else None

    def read_range(self, source: ObjectInfo, start: int, size: int) -> bytes:
        return bytes(self._do("read_range", source.key, source, start, size))

    def head(self, key: str) -> ObjectInfo | None:
        return self._do("head", key, key)  # type: ignore[no-any-return]

    def list_page(self, prefix: str, *, start_after: str = "") -> tuple[Sequence[ObjectInfo], bool]:
        if self.on_call:
            self.on_call("list_page", "before", prefix)
        page = self.real.list_page(prefix, start_after=start_after)
        if self.on_call:
            self.on_call("list_page", "after", prefix)
        return page

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        return every_page(self.list_page, prefix, start_after)

    def list_files(self, directory: str) -> Sequence[str]:
        return self._do("list_files", directory, directory)  # type: ignore[no-any-return]

    def list_directories(self, directory: str) -> Sequence[str]:
        return self._do("list_directories", directory, directory)  # type: ignore[no-any-return]

    def delete(self, objects: Sequence[str | ObjectInfo]) -> None:
        if objects:
            self._do("delete", key_of(objects[0]), objects)

    def copy(self, source: ObjectInfo, key: str, *, before_send: Callable[[], object] = nothing) -> None:
        before_send()
        self._do("copy", key, source, key)

    def create_upload(self, key: str) -> str:
        return str(self._do("create_upload", key, key))

    def upload_part(self, key: str, upload_id: str, number: int, body: bytes | memoryview) -> UploadedPart:
        return self._do("upload_part", key, key, upload_id, number, body)  # type: ignore[no-any-return]

    def complete_upload(self, key: str, upload_id: str, parts: Sequence[UploadedPart]) -> None:
        self._do("complete_upload", key, key, upload_id, parts)

    def abort_upload(self, key: str, upload_id: str) -> None:
        self._do("abort_upload", key, key, upload_id)

    def list_uploads(self, prefix: str) -> Iterator[UploadInfo]:
        return iter(tuple(self._do("list_uploads", prefix, prefix)))


CALLS = (
    "get_table",
    "get_databases",
    "get_tables",
    "get_partition_names",
    "get_partitions",
    "get_all_partitions",
    "add_partitions",
    "alter_partitions",
    "drop_partition",
)


class HookedMetastore:
    """A metastore with the hook; what it does not know goes to the real one."""

    def __init__(self, real: Metastore) -> None:
        self.real = real
        self.on_call: Callable[[str, str], object] | None = None

    def __getattr__(self, name: str) -> Any:
        if name not in CALLS:
            return getattr(self.real, name)

        def call(*arguments: Any, **named: Any) -> Any:
            if self.on_call:
                self.on_call(name, "before")
            answer = getattr(self.real, name)(*arguments, **named)
            if self.on_call:
                self.on_call(name, "after")
            return answer

        return call
