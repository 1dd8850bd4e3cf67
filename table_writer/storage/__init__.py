"""Gateway to the storage: S3 and local files behind one protocol."""

from __future__ import annotations

from table_writer.storage.hadoop import S3Overrides, committer_threads, part_bytes, settings_for, why_renamed
from table_writer.storage.local import LocalStore
from table_writer.storage.object_store import (
    ObjectInfo,
    ObjectStore,
    SourceChangedError,
    StoredObject,
    UploadInfo,
    is_hidden,
    visible_files,
)
from table_writer.storage.s3 import S3Store
from table_writer.storage.settings import LocalSettings, S3Settings, StoreSettings

__all__ = [
    "LocalSettings",
    "ObjectInfo",
    "ObjectStore",
    "S3Overrides",
    "S3Settings",
    "SourceChangedError",
    "StoreSettings",
    "StoredObject",
    "UploadInfo",
    "committer_threads",
    "is_hidden",
    "open_store",
    "part_bytes",
    "settings_for",
    "visible_files",
    "why_renamed",
]


def open_store(settings: StoreSettings) -> ObjectStore:
    """Open a store; for S3 this costs 100 to 200 ms, so keep one per process."""
    return S3Store(settings) if isinstance(settings, S3Settings) else LocalStore()
