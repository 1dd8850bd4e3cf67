"""One S3 bucket behind the :class:`~table_writer.storage.object_store.ObjectStore` protocol."""

from __future__ import annotations

import base64
import hashlib
import re
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_plus

from botocore.exceptions import BotoCoreError, ClientError

from table_writer.errors import InvalidInputError, StorageError, counted
from table_writer.model.message import UploadedPart
from table_writer.storage.answers import age_seconds, field_of, unreadable
from table_writer.storage.object_store import (
    MAX_GET_BYTES,
    PAGE_KEYS,
    ObjectInfo,
    StoredObject,
    UploadInfo,
    every_page,
    gone_upload_message,
    key_of,
    nothing,
    replaced_message,
    require_directory,
    require_gettable,
    require_order,
    source_changed,
)
from table_writer.storage.remote import COPY_THREADS, MAY_BE_STORED, READ_ATTEMPTS, RemoteStore
from table_writer.storage.s3.causes import (
    UnreadableAnswerError,
    error_code,
    http_status,
    is_of_checksums,
    is_transient,
    sdk_errors_translated,
    storage_error,
)
from table_writer.storage.s3.client import make_client, write_arguments
from table_writer.storage.s3.settings import S3Settings

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef, ListObjectsV2OutputTypeDef, ObjectIdentifierTypeDef

    from table_writer.storage.s3.rules import S3Rules

GONE_OR_OTHER: Final = frozenset({"NoSuchKey", "404", "PreconditionFailed", "412"})


class S3Store(RemoteStore["S3Client"]):
    """One bucket. Safe to use from several threads; not picklable: send the settings instead.

    Opening costs 100 to 200 ms (botocore reads its models), so keep one per process. A forked process makes a client of
    its own at its first call. Raises ``InvalidInputError`` if there are no credentials, or botocore refuses the
    settings.
    """

    _settings: S3Settings

    def __init__(self, settings: S3Settings, *, sleep: Callable[[float], object] = time.sleep) -> None:
        self._bucket: dict[str, Any] = {"Bucket": settings.bucket}
        if settings.requester_pays:
            self._bucket["RequestPayer"] = "requester"
        self._write = write_arguments(settings)
        super().__init__(settings, sleep=sleep)

    @property
    def bucket(self) -> str:
        """The name of the bucket."""
        return self._settings.bucket

    def rules(self) -> S3Rules:
        """Return what tells of the bucket's own rules."""
        from table_writer.storage.s3.rules import S3Rules  # noqa: PLC0415 - executors have no use for it

        return S3Rules(self.client, self.bucket)

    def put(self, key: str, body: bytes) -> None:
        with self._errors(key):
            self.client.put_object(**self._bucket, Key=key, Body=body, **self._checksum(body), **self._write)

    def _put_new(self, key: str, body: bytes) -> StorageError | None:
        try:
            arguments = self._checksum(body) | self._write
            answer = self.client.put_object(**self._bucket, Key=key, Body=body, IfNoneMatch="*", **arguments)
        except (BotoCoreError, ClientError) as error:
            is_unknown = error_code(error) == "NotImplemented" or http_status(error) == 501
            if is_unknown and not is_of_checksums(error):
                raise InvalidInputError(
                    f"the S3 store at {self._settings.endpoint_url or 'AWS'} does not know conditional puts"
                    " (If-None-Match): two writers could not be kept apart. Use a store that does: AWS S3, MinIO,"
                    " Ceph from Squid on"
                ) from error
            failure = storage_error(error, self._settings.bucket, key)
            failure.__cause__ = error
            if http_status(error) not in MAY_BE_STORED:
                raise failure from error
            return failure
        if _is_of(answer, body):
            return None
        return unreadable(self._where(key), "its ETag and checksum are not those of what was sent")

    def get(self, key: str) -> StoredObject | None:
        for _ in self._attempts(READ_ATTEMPTS):
            try:
                answer = self.client.get_object(**self._bucket, Key=key)
            except (BotoCoreError, ClientError) as error:
                if error_code(error) in ("NoSuchKey", "404"):
                    return None
                raise storage_error(error, self._settings.bucket, key) from error
            where = self._where(key)
            require_gettable(where, answer.get("ContentLength", 0))
            _require_end(answer, where)
            try:
                body = _body_of(answer, MAX_GET_BYTES + 1 if "ContentLength" not in answer else None)
            except BotoCoreError as error:  # the connection broke in the middle; botocore retries only up to headers
                failure = storage_error(error, self._settings.bucket, key)
                failure.__cause__ = error
                continue
            require_gettable(where, len(body))
            info = _info(where, key, len(body), answer)
            date = answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")
            return StoredObject(info=info, body=body, age_seconds=age_seconds(date, info.modified_at, where))
        raise failure

    def read_range(self, source: ObjectInfo, start: int, size: int) -> bytes:
        size = min(size, source.size_bytes - start)
        if size <= 0:
            return b""
        wanted: dict[str, Any] = {"Range": f"bytes={start}-{start + size - 1}", "IfMatch": f'"{source.etag}"'}
        where = self._where(source.key)
        for _ in self._attempts(READ_ATTEMPTS):
            try:
                body = _body_of(self.client.get_object(**self._bucket, Key=source.key, **wanted))
            except ClientError as error:
                if error_code(error) in GONE_OR_OTHER:
                    raise source_changed(where) from error
                raise storage_error(error, self._settings.bucket, source.key) from error
            except BotoCoreError as error:  # the connection broke in the middle; botocore retries only up to headers
                failure = storage_error(error, self._settings.bucket, source.key)
                failure.__cause__ = error
                continue
            if len(body) != size:
                raise StorageError(f"{where} was asked for {size} bytes and answered {len(body)}. Retry")
            return body
        raise failure

    def head(self, key: str) -> ObjectInfo | None:
        try:
            answer = self.client.head_object(**self._bucket, Key=key)
        except (BotoCoreError, ClientError) as error:
            if error_code(error) in ("NoSuchKey", "404"):
                return None
            raise storage_error(error, self._settings.bucket, key) from error
        where = self._where(key)
        return _info(where, key, field_of(answer, "ContentLength", where), answer)

    def list_page(self, prefix: str, *, start_after: str = "") -> tuple[Sequence[ObjectInfo], bool]:
        """Return up to 1,000 objects below the prefix, and whether more follow.

        One request, except where a whole page holds nothing but marker keys: then the next one is fetched as well. A
        ``StorageError`` says that the store lists in another order than that of keys: the next page goes on after the
        last key of this one, and would leave others out.
        """
        place: dict[str, Any] = {"StartAfter": start_after}
        while True:
            with self._errors(prefix):
                answer = self.client.list_objects_v2(**self._bucket, Prefix=prefix, MaxKeys=PAGE_KEYS, **place)
            where = self._where(prefix)
            items = [(field_of(item, "Key", where), item) for item in answer.get("Contents", [])]
            require_order(where, start_after, [key for key, _ in items])
            page = [
                _info(where, key, field_of(item, "Size", where), item)
                for key, item in items
                if key.startswith(prefix) and not key.endswith("/")
            ]
            more = bool(answer.get("IsTruncated"))
            if page or not more:
                return page, more
            if items:
                start_after = items[-1][0]
                place = {"StartAfter": start_after}
            else:  # an empty page, of which others follow
                place = {"ContinuationToken": field_of(answer, "NextContinuationToken", where)}

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        return every_page(self.list_page, prefix, start_after)

    def list_files(self, directory: str) -> Sequence[str]:
        where = self._where(directory)
        keys = [field_of(item, "Key", where) for page in self._level(directory) for item in page.get("Contents", [])]
        return [key for key in keys if not key.endswith("/")]

    def list_directories(self, directory: str) -> Sequence[str]:
        prefixes = [item["Prefix"] for page in self._level(directory) for item in page.get("CommonPrefixes", [])]
        return sorted({path.removeprefix(directory)[:-1] for path in prefixes if path.startswith(directory)})

    def _level(self, directory: str) -> Iterator[ListObjectsV2OutputTypeDef]:
        """List what is directly in a directory: one request for 1,000 files and directories."""
        with self._errors(directory):
            yield from self.client.get_paginator("list_objects_v2").paginate(
                **self._bucket, Prefix=require_directory(directory), Delimiter="/"
            )

    def delete(self, objects: Sequence[str | ObjectInfo]) -> None:
        delete_objects(self.client, self._bucket, objects, pause=self._pause)

    def copy(self, source: ObjectInfo, key: str, *, before_send: Callable[[], object] = nothing) -> None:
        copy = _Copy(self.client, self._settings, self._bucket, source, key, before_send)
        if source.size_bytes <= self._settings.max_single_copy_bytes:
            copy.send_whole()
            return
        with ExitStack() as undo:
            upload_id = copy.create_upload()
            undo.callback(self._abort_quietly, key, upload_id)
            parts = copy.send_parts(upload_id)
            before_send()
            self.complete_upload(key, upload_id, parts)
            undo.pop_all()

    def create_upload(self, key: str) -> str:
        arguments = _algorithm(self._settings) | self._write
        with self._errors(key):
            answer = self.client.create_multipart_upload(**self._bucket, Key=key, **arguments)
        return str(field_of(answer, "UploadId", self._where(key)))

    def upload_part(self, key: str, upload_id: str, number: int, body: bytes | memoryview) -> UploadedPart:
        data = bytes(body)  # botocore takes no memoryview; of bytes this makes no copy
        checksum = self._checksum(data)
        try:
            answer = self.client.upload_part(
                **self._bucket, Key=key, UploadId=upload_id, PartNumber=number, Body=data, **checksum
            )
        except (BotoCoreError, ClientError) as error:
            if error_code(error) == "NoSuchUpload":
                raise StorageError(gone_upload_message(self._where(key))) from error
            raise storage_error(error, self._settings.bucket, key) from error
        return UploadedPart(
            number=number,
            etag=field_of(answer, "ETag", self._where(key)),
            size_bytes=len(data),
            checksum=checksum.get("ChecksumCRC32", ""),
        )

    def complete_upload(self, key: str, upload_id: str, parts: Sequence[UploadedPart]) -> None:
        try:
            self.client.complete_multipart_upload(
                **self._bucket, Key=key, UploadId=upload_id, MultipartUpload={"Parts": [*map(_completed_part, parts)]}
            )
        except (BotoCoreError, ClientError) as error:
            if error_code(error) != "NoSuchUpload":
                raise storage_error(error, self._settings.bucket, key) from error
            self._require_completed(key, parts, error)

    def abort_upload(self, key: str, upload_id: str) -> None:
        try:
            self.client.abort_multipart_upload(**self._bucket, Key=key, UploadId=upload_id)
        except (BotoCoreError, ClientError) as error:
            if error_code(error) != "NoSuchUpload":
                raise storage_error(error, self._settings.bucket, key) from error

    def _uploads(self, prefix: str) -> Iterator[UploadInfo]:
        markers: dict[str, Any] = {}
        while True:
            try:
                answer = self.client.list_multipart_uploads(
                    **self._bucket, Prefix=prefix, EncodingType="url", MaxUploads=PAGE_KEYS, **markers
                )
            except (BotoCoreError, ClientError) as error:
                if error_code(error) == "InvalidArgument" and markers.pop("UploadIdMarker", ""):
                    continue  # versitygw 1.8 pages by key alone; uploads of one key on two pages are seen next time
                raise storage_error(error, self._settings.bucket, prefix) from error
            decode = unquote_plus if answer.get("EncodingType") == "url" else str
            where = self._where(prefix)
            for item in answer.get("Uploads", []):
                key = decode(field_of(item, "Key", where))
                if key.startswith(prefix):  # what is listed here gets aborted: trust no store to filter
                    yield UploadInfo(
                        key=key,
                        upload_id=field_of(item, "UploadId", where),
                        initiated_at=field_of(item, "Initiated", where).astimezone(UTC),
                    )
            if not answer.get("IsTruncated"):
                return
            passed = markers
            markers = {
                "KeyMarker": decode(field_of(answer, "NextKeyMarker", where)),
                "UploadIdMarker": field_of(answer, "NextUploadIdMarker", where),
            }
            if markers == passed:
                raise unreadable(where, "its next page of uploads begins where this one did")

    def _open(self) -> S3Client:
        client = make_client(self._settings)
        client.meta.events.register("before-send.s3", self._count)
        return client

    def _errors(self, key: str) -> AbstractContextManager[None]:
        return sdk_errors_translated(self._settings.bucket, key)

    def _where(self, key: str) -> str:
        return f"s3://{self._settings.bucket}/{key}"

    def _checksum(self, body: bytes) -> dict[str, Any]:
        if self._settings.checksum is None:
            return {}
        return {"ChecksumCRC32": _crc32(body)}

    def _count(self, event_name: str, **_: object) -> None:
        self._counter.add(event_name.rpartition(".")[2])


def _body_of(answer: Any, most_bytes: int | None = None) -> bytes:
    """Read the body of an answer; a length that no body has is an answer that cannot be read."""
    try:
        return bytes(answer["Body"].read(most_bytes))
    except OverflowError as error:
        raise UnreadableAnswerError(operation="GetObject", reason=f"its length: {error}") from error


def _require_end(answer: Mapping[str, Any], where: str) -> None:
    """Refuse an answer that does not say where it ends: it ends as well where the connection was cut."""
    is_chunked = "chunked" in answer["ResponseMetadata"]["HTTPHeaders"].get("transfer-encoding", "")
    if "ContentLength" not in answer and not is_chunked:
        raise unreadable(where, "it has neither a Content-Length nor chunks: whether it is whole cannot be told")


def _is_of(answer: Mapping[str, Any], body: bytes) -> bool:
    """Return whether the answer to a put is that to this one: no portal's, and none that came twice.

    An ETag is no digest of the bytes where they are encrypted; then, and without checksums, the object is read.
    """
    checksum, etag = answer.get("ChecksumCRC32"), str(answer.get("ETag", "")).strip('"')
    if etag and checksum:
        return bool(checksum == _crc32(body))
    return etag == hashlib.md5(body, usedforsecurity=False).hexdigest()


def _crc32(body: bytes) -> str:
    return base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


def _info(where: str, key: str, size_bytes: int, answer: Mapping[str, Any]) -> ObjectInfo:
    modified_at = field_of(answer, "LastModified", where).astimezone(UTC)
    etag = field_of(answer, "ETag", where).strip('"')
    return ObjectInfo(key=key, size_bytes=size_bytes, etag=etag, modified_at=modified_at)


def _completed_part(part: UploadedPart) -> CompletedPartTypeDef:
    completed: CompletedPartTypeDef = {"PartNumber": part.number, "ETag": part.etag}
    if part.checksum:
        completed["ChecksumCRC32"] = part.checksum
    return completed


DELETE_ATTEMPTS: Final = 5
CHANGED: Final = frozenset({"PreconditionFailed", "412"})
CONFLICTS: Final = frozenset({"ConditionalRequestConflict", "409"})  # with another request at the same key just then
UNKNOWN_CONDITIONS: Final = frozenset({"MalformedXML", "NotImplemented", "501"})  # of a store that knows no ETag there
GONE: Final = frozenset({"NoSuchKey", "404"})  # a HEAD and some stores say it without a body
NOT_IN_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, section 2.2


def delete_objects(
    client: S3Client, bucket: dict[str, Any], objects: Sequence[str | ObjectInfo], *, pause: Callable[[int], None]
) -> None:
    """Delete all of them; a refused one keeps no other from being deleted and is raised in the end.

    AWS and Ceph look at the ETag of each key of a batch; versitygw and moto pass over it.
    """
    etags = {key_of(item): item.etag if isinstance(item, ObjectInfo) else "" for item in objects}
    batched = [key for key in etags if not NOT_IN_XML.search(key)]
    refused: dict[str, str] = {}
    for start in range(0, len(batched), PAGE_KEYS):
        refused |= _delete_batch(client, bucket, {key: etags[key] for key in batched[start : start + PAGE_KEYS]}, pause)
    for key in (key for key in etags if NOT_IN_XML.search(key)):  # a batch is an XML document and can't name these
        condition: dict[str, Any] = {"IfMatch": f'"{etags[key]}"'} if etags[key] else {}
        try:
            client.delete_object(**bucket, Key=key, **condition)
        except (BotoCoreError, ClientError) as error:
            if error_code(error) in GONE and condition:
                continue
            if error_code(error) not in CHANGED:
                raise storage_error(error, bucket["Bucket"], key) from error
            refused[key] = "PreconditionFailed"
    if refused:
        key, reason = next(iter(refused.items()))
        hint = "; the credentials need s3:DeleteObject there" if reason.startswith("AccessDenied") else ""
        first = f"s3://{bucket['Bucket']}/{key}"
        why = replaced_message("it") if reason.startswith(tuple(CHANGED)) else f"{reason}{hint}"
        raise StorageError(
            f"{len(refused)} of {counted(len(objects), 'object')} could not be deleted, first {first}: {why}"
        )


def _delete_batch(
    client: S3Client, bucket: dict[str, Any], etags: Mapping[str, str], pause: Callable[[int], None]
) -> dict[str, str]:
    """Delete one batch; return the keys that were refused, with the reason."""
    refused: dict[str, str] = {}
    unfinished = dict.fromkeys(etags, "")
    for attempt in range(DELETE_ATTEMPTS):
        pause(attempt)
        try:
            objects = [_to_delete(key, etags[key]) for key in unfinished]
            answer = client.delete_objects(**bucket, Delete={"Objects": objects, "Quiet": True})
        except (BotoCoreError, ClientError) as error:
            if error_code(error) in UNKNOWN_CONDITIONS and any(etags.values()):  # all objects are there still
                return _delete_batch(client, bucket, dict.fromkeys(etags, ""), pause)
            raise storage_error(error, bucket["Bucket"], next(iter(unfinished))) from error
        unfinished = {}
        for item in answer.get("Errors", []):
            code = item.get("Code", "")
            if code != "NoSuchKey":
                key = item.get("Key", "")  # some stores name none
                is_unfinished = key and (is_transient(code) or code in CONFLICTS)
                (unfinished if is_unfinished else refused)[key] = f"{code}: {item.get('Message', '')}"
        if not unfinished:
            break
    return refused | unfinished


def _to_delete(key: str, etag: str) -> ObjectIdentifierTypeDef:
    return {"Key": key, "ETag": f'"{etag}"'} if etag else {"Key": key}


MAX_PARTS: Final = 10_000  # S3: parts in one upload


@dataclass(frozen=True, slots=True)
class _Copy:
    """The copy of one object, whole or in parts.

    A copy is made as this store makes every object: encryption, ACL and storage class are those of the settings, not
    the source's. User metadata and the content encoding are kept: tools that encrypt on their side keep the key
    there. Tags are not: they steer lifecycle rules and access, and reading them takes a permission of its own.

    A whole copy gets a checksum of its own: moto carries that of a source's parts over, which no reader can verify.
    A copy in parts asks for none: versitygw 1.8 gives each part the checksum of the whole source. It would guard bytes
    between a client and S3, and none travel.
    """

    client: S3Client
    settings: S3Settings
    bucket: dict[str, Any]
    source: ObjectInfo
    key: str
    before_send: Callable[[], object]

    def send_whole(self) -> None:
        """Copy the object with one request."""
        self.before_send()
        arguments = self._arguments | _algorithm(self.settings) | write_arguments(self.settings)
        with self._errors():
            self.client.copy_object(**arguments, TaggingDirective="REPLACE")

    def create_upload(self) -> str:
        """Start a multipart upload with the metadata of the source, if it is still as listed; returns its id."""
        with self._errors():
            found = self.client.head_object(**self.bucket, Key=self.source.key)
            if (found.get("ETag", "").strip('"'), found.get("ContentLength")) != (
                self.source.etag,
                self.source.size_bytes,
            ):
                raise source_changed(self._where(self.source.key))
            kept: dict[str, Any] = {
                name: found[name] for name in ("Metadata", "ContentEncoding", "ContentType") if found.get(name)
            }
            kept |= write_arguments(self.settings)
            self.before_send()
            answer = self.client.create_multipart_upload(**self.bucket, Key=self.key, **kept)
        return str(field_of(answer, "UploadId", self._where(self.key)))

    def send_parts(self, upload_id: str) -> Sequence[UploadedPart]:
        """Copy the object into a pending upload; when this returns or raises, no request of it is under way."""

        def copy_part(number: int, first: int, last: int) -> UploadedPart:
            place: dict[str, Any] = {
                "UploadId": upload_id,
                "PartNumber": number,
                "CopySourceRange": f"bytes={first}-{last}",
            }
            self.before_send()
            with self._errors():
                answer = self.client.upload_part_copy(**self._arguments, **place)
            etag = field_of(answer.get("CopyPartResult", {}), "ETag", self._where(self.key))
            return UploadedPart(number=number, etag=etag, size_bytes=last - first + 1)

        ranges = part_ranges(self.source.size_bytes, self.settings.copy_part_bytes)
        pool = ThreadPoolExecutor(COPY_THREADS, thread_name_prefix="copy")
        try:
            return list(pool.map(copy_part, range(1, len(ranges) + 1), *zip(*ranges, strict=True)))
        finally:
            pool.shutdown(cancel_futures=True)  # waits: a part that arrives after the abort would stay, and be paid for

    @property
    def _arguments(self) -> dict[str, Any]:
        place = {"Bucket": self.bucket["Bucket"], "Key": self.source.key}  # a mapping, so that botocore encodes the key
        return {**self.bucket, "Key": self.key, "CopySource": place, "CopySourceIfMatch": f'"{self.source.etag}"'}

    @contextmanager
    def _errors(self) -> Iterator[None]:
        source = self._where(self.source.key)
        try:
            yield
        except (BotoCoreError, ClientError) as error:
            if error_code(error) in CHANGED | GONE or http_status(error) == 412:
                raise source_changed(source) from error
            if error_code(error) == "NoSuchUpload":
                raise StorageError(gone_upload_message(self._where(self.key))) from error
            raise storage_error(error, self.settings.bucket, f"{self.key}, a copy of {source}") from error

    def _where(self, key: str) -> str:
        return f"s3://{self.settings.bucket}/{key}"


def _algorithm(settings: S3Settings) -> dict[str, Any]:
    return {"ChecksumAlgorithm": settings.checksum} if settings.checksum else {}


def part_ranges(size_bytes: int, part_bytes: int) -> Sequence[tuple[int, int]]:
    """Return first and last byte of each part; parts get larger where there would be more than S3 allows.

    Examples
    --------
    >>> part_ranges(25, 10)
    [(0, 9), (10, 19), (20, 24)]
    """
    step = max(part_bytes, -(-size_bytes // MAX_PARTS))
    return [(first, min(first + step, size_bytes) - 1) for first in range(0, size_bytes, step)]


def opened(settings: S3Settings) -> S3Store:
    """Open a bucket."""
    return S3Store(settings)
