"""Copies inside one bucket: S3 reads and writes, the client only asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from table_writer.errors import StorageError
from table_writer.model.message import UploadedPart
from table_writer.storage.object_store import ObjectInfo, gone_upload_message, source_changed
from table_writer.storage.s3_client import write_arguments
from table_writer.storage.s3_errors import error_code, http_status, storage_error

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from table_writer.storage.settings import S3Settings

__all__ = ["BucketCopier", "part_ranges"]

MAX_PARTS: Final = 10_000  # S3: parts in one upload
COPY_THREADS: Final = 4  # of one file; several files are copied at a time as well
CHANGED: Final = frozenset({"PreconditionFailed", "412"})
GONE: Final = frozenset({"NoSuchKey", "404"})  # a HEAD and some stores say it without a body


class BucketCopier:
    """Copies objects of one bucket, whole or in parts. Safe to use from several threads.

    A copy is made as this store makes every object: encryption, ACL and storage class are those of the settings, not
    the source's. User metadata and the content encoding are kept: tools that encrypt on their side keep the key
    there. Tags are not: they steer lifecycle rules and access, and reading them takes a permission of its own.

    A whole copy gets a checksum of its own: moto carries that of a source's parts over, which no reader can verify.
    A copy in parts asks for none: versitygw 1.8 gives each part the checksum of the whole source. It would guard bytes
    between a client and S3, and none travel.
    """

    def __init__(self, client: S3Client, settings: S3Settings, bucket: dict[str, Any]) -> None:
        self._client = client
        self._settings = settings
        self._bucket = bucket
        self._write = write_arguments(settings)
        self._checksum: dict[str, Any] = {"ChecksumAlgorithm": settings.checksum} if settings.checksum else {}

    def copy_whole(self, source: ObjectInfo, key: str) -> None:
        """Copy an object with one request."""
        with self._errors(source, key):
            self._client.copy_object(
                **self._bucket,
                **self._source(source),
                Key=key,
                TaggingDirective="REPLACE",
                **self._checksum,
                **self._write,
            )

    def create_upload(self, source: ObjectInfo, key: str) -> str:
        """Start a multipart upload with the metadata of the source, if it is still as listed; returns its id."""
        with self._errors(source, key):
            found = self._client.head_object(**self._bucket, Key=source.key)
            if (found["ETag"].strip('"'), found["ContentLength"]) != (source.etag, source.size_bytes):
                raise source_changed(self._where(source.key))
            kept: dict[str, Any] = {
                name: found[name] for name in ("Metadata", "ContentEncoding", "ContentType") if found.get(name)
            }
            return self._client.create_multipart_upload(**self._bucket, Key=key, **kept, **self._write)["UploadId"]

    def copy_parts(self, source: ObjectInfo, key: str, upload_id: str) -> Sequence[UploadedPart]:
        """Copy an object into a pending upload; when this returns or raises, no request of it is under way."""

        def copy_part(number: int, first: int, last: int) -> UploadedPart:
            with self._errors(source, key):
                answer = self._client.upload_part_copy(
                    **self._bucket,
                    **self._source(source),
                    Key=key,
                    UploadId=upload_id,
                    PartNumber=number,
                    CopySourceRange=f"bytes={first}-{last}",
                )
            return UploadedPart(number=number, etag=answer["CopyPartResult"]["ETag"], size_bytes=last - first + 1)

        ranges = part_ranges(source.size_bytes, self._settings.copy_part_bytes)
        pool = ThreadPoolExecutor(COPY_THREADS, thread_name_prefix="copy")
        try:
            return list(pool.map(copy_part, range(1, len(ranges) + 1), *zip(*ranges, strict=True)))
        finally:
            pool.shutdown(cancel_futures=True)  # waits: a part that arrives after the abort would stay, and be paid for

    def _source(self, source: ObjectInfo) -> dict[str, Any]:
        place = {"Bucket": self._bucket["Bucket"], "Key": source.key}  # as a mapping, so that botocore encodes the key
        return {"CopySource": place, "CopySourceIfMatch": f'"{source.etag}"'}

    @contextmanager
    def _errors(self, source: ObjectInfo, key: str) -> Iterator[None]:
        try:
            yield
        except (BotoCoreError, ClientError) as error:
            raise self._error(error, source, key) from error

    def _error(self, error: BotoCoreError | ClientError, source: ObjectInfo, key: str) -> StorageError:
        if error_code(error) in CHANGED | GONE or http_status(error) == 412:
            return source_changed(self._where(source.key))
        if error_code(error) == "NoSuchUpload":
            return StorageError(gone_upload_message(self._where(key)))
        return storage_error(error, self._settings.bucket, f"{key}, a copy of {self._where(source.key)}")

    def _where(self, key: str) -> str:
        return f"s3://{self._settings.bucket}/{key}"


def part_ranges(size_bytes: int, part_bytes: int) -> Sequence[tuple[int, int]]:
    """Return first and last byte of each part; parts get larger where there would be more than S3 allows.

    Examples
    --------
    >>> part_ranges(25, 10)
    [(0, 9), (10, 19), (20, 24)]
    """
    step = max(part_bytes, -(-size_bytes // MAX_PARTS))
    return [(first, min(first + step, size_bytes) - 1) for first in range(0, size_bytes, step)]
