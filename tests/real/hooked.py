"""Real services with a hook around each call, as the doubles have it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from table_writer.metastore.protocol import Metastore
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

    def __getattr__(self, name: str) -> Any:
        """Return a call with the hook around it, which hears of the first argument's key, or of the prefix."""
        if name.startswith("_"):  # what copy and pickle look for
            raise AttributeError(name)

        def call(*arguments: Any, **named: Any) -> Any:
            return self._hooked(name, key_of(arguments[0]), *arguments, **named)

        return call

    def _hooked(self, name: str, key: str, *arguments: Any, **named: Any) -> Any:
        if self.on_call:
            self.on_call(name, "before", key)
        answer = getattr(self.real, name)(*arguments, **named)
        if self.on_call:
            self.on_call(name, "after", key)
        return answer

    def request_counts(self) -> Mapping[str, int]:
        return self.real.request_counts()

    def get(self, key: str) -> StoredObject | None:
        found = self._hooked("get", key, key)
        return replace(found, age_seconds=found.age_seconds + self.skipped_seconds) if found else None

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        return every_page(self.list_page, prefix, start_after)

    def delete(self, objects: Sequence[str | ObjectInfo]) -> None:
        if objects:
            self._hooked("delete", key_of(objects[0]), objects)

    def copy(self, source: ObjectInfo, key: str, *, before_send: Callable[[], object] = nothing) -> None:
        before_send()
        self._hooked("copy", key, source, key)

    def list_uploads(self, prefix: str) -> Iterator[UploadInfo]:
        return iter(tuple(self._hooked("list_uploads", prefix, prefix)))


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
