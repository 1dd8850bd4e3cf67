"""Gateway to the storage: S3 and local files behind one protocol."""

from __future__ import annotations

from table_writer.storage.local import LocalStore
from table_writer.storage.object_store import ObjectStore
from table_writer.storage.s3 import S3Store
from table_writer.storage.settings import S3Settings, StoreSettings


def open_store(settings: StoreSettings) -> ObjectStore:
    """Open a store; for S3 this costs 100 to 200 ms, so keep one per process."""
    return S3Store(settings) if isinstance(settings, S3Settings) else LocalStore()
