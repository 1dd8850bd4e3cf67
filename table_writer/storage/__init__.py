"""Gateway to the storage: S3, Azure, GCS and local files behind one protocol."""

from __future__ import annotations

from table_writer.errors import needs_extra
from table_writer.storage.object_store import ObjectStore
from table_writer.storage.settings import AzureSettings, GcsSettings, S3Settings, StoreSettings


def open_store(settings: StoreSettings) -> ObjectStore:
    """Open a store; for S3 this costs 100 to 200 ms, for Azure 300 ms, so keep one per process.

    Raises ``MissingExtraError`` where a library is missing that only one store needs.
    """
    if isinstance(settings, AzureSettings):
        with needs_extra("azure", "an abfss:// location, on this machine and where executors run,"):
            from table_writer.storage.azure import AzureStore  # noqa: PLC0415 - an optional extra
        return AzureStore(settings)
    if isinstance(settings, GcsSettings):
        with needs_extra("gcs", "a gs:// location, on this machine and where executors run,"):
            from table_writer.storage.gcs import GcsStore  # noqa: PLC0415 - an optional extra
        return GcsStore(settings)
    if isinstance(settings, S3Settings):
        from table_writer.storage.s3 import S3Store  # noqa: PLC0415 - boto3 takes longer to load than all else

        return S3Store(settings)
    from table_writer.storage.local import LocalStore  # noqa: PLC0415 - for tests and demos

    return LocalStore()
