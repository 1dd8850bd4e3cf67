"""One container in Azure behind the :class:`~table_writer.storage.object_store.ObjectStore` protocol.

All goes through the Blob service, also in accounts with a hierarchical namespace.

A pending upload is a set of uncommitted blocks of the blob with its key: no reader sees them, and Put Block List
makes of them an object. A block's name holds the upload's id, the part's number and the MD5 of its bytes: completing
takes exactly the bytes that its parts name, whatever came later or twice. Azure keeps one such set for each key, so
two uploads of one key are not apart: completing or aborting one discards the blocks of the other. Keys of this library
name the attempt that wrote them, so nobody shares one.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from itertools import chain, islice
from types import SimpleNamespace
from typing import Any, Final

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ResourceModifiedError, ResourceNotFoundError
from azure.storage.blob import BlobBlock, BlobClient, BlobPrefix, BlobProperties, ContainerClient, ContentSettings

from table_writer.errors import InvalidInputError, StorageError
from table_writer.model.message import UploadedPart
from table_writer.storage.answers import age_seconds, field_of
from table_writer.storage.azure.causes import error_code, http_status, sdk_errors_translated, storage_error
from table_writer.storage.azure.client import SourceLogin, make_client
from table_writer.storage.azure.settings import AzureSettings
from table_writer.storage.object_store import (
    PAGE_KEYS,
    ObjectInfo,
    StoredObject,
    UploadInfo,
    delete_each,
    key_of,
    many,
    nothing,
    replaced_message,
    require_directory,
    require_gettable,
    source_changed,
)
from table_writer.storage.remote import COPY_THREADS, MAY_BE_STORED, READ_ATTEMPTS, RemoteStore

DIRECTORY: Final = "hdi_isfolder"  # metadata of what stands for a directory, in either kind of account
ABORTED: Final = "table_writer_aborted"  # metadata of an object that is there for a moment, to discard blocks
MAX_KEY_CHARACTERS: Final = 1024
MAX_SEGMENTS: Final = 254
LISTED_KEYS: Final = 5_000  # Azure: in one page of a listing
UPLOAD_ID: Final = re.compile("[0-9a-f]{32}")
BLOCK: Final = re.compile(r"([0-9a-f]{32})-\d{5}-[0-9a-f]{24}")
UNCOMMITTED: Final[Any] = SimpleNamespace(
    value="uncommitted"
)  # the SDK compares with this, and its own constants differ
NO_BLOCKS: Final = ("InvalidBlockList", "BlobNotFound", "InvalidBlockId", "InvalidBlobOrBlock")
"""Azure's error codes for blocks that are committed by now, or were given up."""


class AzureStore(RemoteStore[ContainerClient]):
    """One container. Safe to use from several threads; not picklable: send the settings instead.

    Opening costs some 10 ms, and 300 ms for the first one of a process, which imports the SDK. A forked process makes
    a client of its own at its first call. Raises ``InvalidInputError`` if the SDK refuses the settings.
    """

    _settings: AzureSettings

    def put(self, key: str, body: bytes) -> None:
        with self._errors(key):
            self._blob(key).upload_blob(body, overwrite=True, validate_content=True)

    def _put_new(self, key: str, body: bytes) -> StorageError | None:
        try:
            self._blob(key).upload_blob(body, overwrite=False, validate_content=True)  # If-None-Match: *
        except AzureError as error:
            status = http_status(error)
            failure = storage_error(error, self._where(key))
            failure.__cause__ = error
            if status not in MAY_BE_STORED:
                raise failure from error
            return failure
        return None

    def get(self, key: str) -> StoredObject | None:
        blob = self._blob(key, new=False)
        for _ in self._attempts(READ_ATTEMPTS):
            dates: list[str] = []
            try:
                answer = blob.download_blob(
                    raw_response_hook=lambda response, dates=dates: dates.append(_date_of(response))
                )
                require_gettable(self._where(key), answer.size)
                body = answer.readall()
            except ResourceNotFoundError as error:
                if error_code(error) != "BlobNotFound":
                    raise storage_error(error, self._where(key)) from error
                return None
            except AzureError as error:
                failure = storage_error(error, self._where(key))
                failure.__cause__ = error
                if not isinstance(error, ResourceModifiedError):  # replaced between two of its pieces
                    raise failure from error
                continue
            if _is_no_object(answer.properties):
                return None
            info = _info(key, answer.properties)
            age = age_seconds(dates[0] if dates else "", info.modified_at, self._where(key))
            return StoredObject(info=info, body=body, age_seconds=age)
        raise failure

    def read_range(self, source: ObjectInfo, start: int, size: int) -> bytes:
        size = min(size, source.size_bytes - start)
        if size <= 0:
            return b""
        blob, where = self._blob(source.key, new=False), self._where(source.key)
        try:
            body = bytes(blob.download_blob(start, size, **_only_if(source, "")).readall())
        except (ResourceNotFoundError, ResourceModifiedError) as error:
            raise source_changed(where) from error
        except AzureError as error:
            raise storage_error(error, where) from error
        if len(body) != size:
            raise StorageError(f"{where} was asked for {size} bytes and answered {len(body)}. Retry")
        return body

    def head(self, key: str) -> ObjectInfo | None:
        properties = self._properties(key)
        return None if properties is None or _is_no_object(properties) else _info(key, properties)

    def list_page(self, prefix: str, *, start_after: str = "") -> tuple[Sequence[ObjectInfo], bool]:
        """Return up to 1,000 objects below the prefix, and whether more follow.

        Azure lists from a key on only in versions of its service that no emulator has, and does not say in which order
        an account with a hierarchical namespace lists. So one request shows up to 5,000 objects. Where there are more,
        directories are listed one by one, in the order of their names, from that of ``start_after`` on.
        """
        page = list(islice(self._after(prefix, start_after.encode()), PAGE_KEYS + 1))
        return page[:PAGE_KEYS], len(page) > PAGE_KEYS

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Iterate over all objects below the prefix, in the order in which Azure lists them."""
        pages = (self._objects(page) for page in self._pages(prefix, ["metadata"]))
        return (info for info in chain.from_iterable(pages) if info.key.encode() > start_after.encode())

    def list_files(self, directory: str) -> Sequence[str]:
        return [info.key for info in self._level(require_directory(directory)) if not isinstance(info, str)]

    def list_directories(self, directory: str) -> Sequence[str]:
        names = [name for name in self._level(require_directory(directory)) if isinstance(name, str)]
        return sorted((name.removeprefix(directory)[:-1] for name in names), key=str.encode)

    def delete(self, objects: Sequence[str | ObjectInfo]) -> None:
        delete_each(self._delete, objects)

    def copy(self, source: ObjectInfo, key: str, *, before_send: Callable[[], object] = nothing) -> None:
        if source.size_bytes > self._settings.max_single_copy_bytes:
            self._copy_in_parts(source, key, before_send)
            return
        before_send()
        address, login = SourceLogin(self._settings, self.client).of(source.key)
        try:
            answer = self._blob(key).start_copy_from_url(
                address, requires_sync=True, **_only_if(source, "source_"), **login
            )
        except AzureError as error:
            raise self._copy_error(error, source, key) from error
        if answer.get("copy_status") != "success":
            raise StorageError(f"{self._where(key)} was not copied: its state is {answer.get('copy_status')!r}. Retry")

    def create_upload(self, key: str) -> str:
        """Return a new id, which begins with the time; nothing is sent, and there is nothing to abort before a part."""
        self._blob(key)
        return f"{int(time.time() * 1000):012x}{secrets.token_hex(10)}"

    def upload_part(self, key: str, upload_id: str, number: int, body: bytes | memoryview) -> UploadedPart:
        """Send part ``number`` (from 1) of a pending upload.

        Azure keeps no list of uploads: a part of an aborted one is taken, completes nothing, and expires in a week.
        """
        data = bytes(body)
        digest = hashlib.md5(data, usedforsecurity=False).digest()
        name = _block_name(upload_id, number, digest[:12].hex())
        with self._errors(key):
            checked = {"Content-MD5": base64.b64encode(digest).decode()}
            self._blob(key).stage_block(name, data, len(data), headers=checked)
        return UploadedPart(number=number, etag=name, size_bytes=len(data))

    def complete_upload(self, key: str, upload_id: str, parts: Sequence[UploadedPart]) -> None:
        """Make the object exist; a second time, or late, the blocks are no uncommitted ones, and nothing changes."""
        if not parts or any(not part.etag.startswith(f"{upload_id}-") for part in parts):
            raise StorageError(f"the parts of {self._where(key)} are not those of upload {upload_id}: none, or others'")
        try:
            self._blob(key).commit_block_list([_block(part.etag) for part in parts], validate_content=True)
        except AzureError as error:
            if error_code(error) not in NO_BLOCKS:
                raise storage_error(error, self._where(key)) from error
            self._require_completed(key, parts, error)

    def abort_upload(self, key: str, upload_id: str) -> None:  # noqa: ARG002 - Azure keeps one set of blocks for a key
        """Give up the pending uploads of a key: from then on nothing completes them.

        Azure discards blocks only when an object takes their place. So an empty object is put where there is none, and
        deleted at once; listings of this library leave it out meanwhile, and name it as a pending upload after a crash.
        """
        blob = self._blob(key)
        try:
            mark = blob.commit_block_list([], metadata={ABORTED: "1"}, match_condition=MatchConditions.IfMissing)
            etag = str(mark["etag"])
        except AzureError as error:
            if http_status(error) not in (409, 412):
                raise storage_error(error, self._where(key)) from error
            present = self._properties(key)  # an object, or what a lost answer or a crash has left of an abort
            if present is None or ABORTED not in present.metadata:
                return
            etag = str(present.etag)
        try:
            blob.delete_blob(etag=etag, match_condition=MatchConditions.IfNotModified)
        except (ResourceNotFoundError, ResourceModifiedError):
            return  # deleted by another, or completed by the parts that came after it
        except AzureError as error:
            raise storage_error(error, self._where(key)) from error

    def _uploads(self, prefix: str) -> Iterator[UploadInfo]:
        """Iterate over pending uploads below the prefix: a listing of all objects, and a request for each pending one.

        They are told apart by their size of 0 and by their blocks; Azure gives them no time, so it is that of their id,
        by the clock of the machine that began them.
        """
        for page in self._pages(prefix, ["metadata", "uncommittedblobs"]):
            candidates = [blob for blob in page if not blob.size and DIRECTORY not in (blob.metadata or {})]
            yield from chain.from_iterable(many(self._uploads_of, candidates))

    def _uploads_of(self, blob: BlobProperties) -> Sequence[UploadInfo]:
        """Return the pending uploads of one key; blocks of another tool are one upload, begun just now."""
        if ABORTED in (blob.metadata or {}):
            return [UploadInfo(key=blob.name, upload_id=ABORTED, initiated_at=blob.last_modified.astimezone(UTC))]
        try:
            _, uncommitted = self._blob(blob.name, new=False).get_block_list("all")
        except ResourceNotFoundError:  # done or gone meanwhile
            return []
        except AzureError as error:
            raise storage_error(error, self._where(blob.name)) from error
        ids = {match[1] if (match := BLOCK.fullmatch(block.id or "")) else "" for block in uncommitted}
        return [
            UploadInfo(key=blob.name, upload_id=upload_id, initiated_at=_begun_at(upload_id))
            for upload_id in sorted(ids)
        ]

    def _after(self, prefix: str, start_after: bytes) -> Iterator[ObjectInfo]:
        """Yield what follows a key below a prefix, in the order of bytes, whatever Azure's is."""
        pages = self._pages(prefix, ["metadata"])
        page = next(pages, ())
        if len(page) < LISTED_KEYS and next(pages, None) is None:  # a page may be short, and others follow
            yield from (info for info in self._objects(page) if info.key.encode() > start_after)
            return
        for item in sorted(self._level(prefix), key=_name):
            if not isinstance(item, str):
                yield from [item] if _name(item) > start_after else []
            elif _name(item) > start_after or start_after.startswith(_name(item)):
                yield from self._after(item, start_after)

    def _objects(self, page: Iterable[BlobProperties]) -> Sequence[ObjectInfo]:
        objects = (_info(blob.name, blob) for blob in page if not _is_no_object(blob) and not blob.name.endswith("/"))
        return sorted(objects, key=_name)

    def _pages(self, prefix: str, include: Sequence[str]) -> Iterator[Sequence[BlobProperties]]:
        listed = self.client.list_blobs(prefix, include=list(include), results_per_page=LISTED_KEYS)
        pages = listed.by_page()
        while True:
            with self._errors(prefix):
                page = next(pages, None)
                found = [] if page is None else [blob for blob in page if blob.name.startswith(prefix)]
            if page is None:
                return
            yield found

    def _level(self, prefix: str) -> Sequence[ObjectInfo | str]:
        """Return the level below a prefix, up to the next ``/``: objects, and directories as text that ends in it."""
        with self._errors(prefix):
            items = list(self.client.walk_blobs(name_starts_with=prefix, include=["metadata"], delimiter="/"))
        within = [item for item in items if item.name.startswith(prefix)]
        return [
            item.name if isinstance(item, BlobPrefix) else _info(item.name, item)
            for item in within
            if isinstance(item, BlobPrefix) or not (_is_no_object(item) or item.name.endswith("/"))
        ]

    def _delete(self, item: str | ObjectInfo) -> tuple[str, str] | None:
        """Delete one object; return it with the reason if it is refused."""
        key = key_of(item)
        condition = {} if isinstance(item, str) or not item.etag else _only_if(item, "")
        try:
            self._blob(key, new=False).delete_blob(**condition)
        except ResourceModifiedError:  # what is gone answers so, too
            return None if self.head(key) is None else (key, replaced_message(self._where(key)))
        except ResourceNotFoundError as error:
            if error_code(error) != "BlobNotFound":
                return key, str(storage_error(error, self._where(key)))
        except AzureError as error:
            return key, str(storage_error(error, self._where(key)))
        return None

    def _copy_in_parts(self, source: ObjectInfo, key: str, before_send: Callable[[], object]) -> None:
        """Copy a large object block by block, if it is still as listed; user metadata and content settings are kept."""
        found = self._properties(source.key)
        if found is None or _info(source.key, found) != source:
            raise source_changed(self._where(source.key))
        blob, upload_id, step = self._blob(key), self.create_upload(key), self._settings.copy_part_bytes
        logins = SourceLogin(self._settings, self.client)

        def copy_block(number: int, first: int) -> str:
            name = _block_name(upload_id, number, source.etag.encode().hex()[-24:].zfill(24))
            address, login = logins.of(source.key)
            size = min(step, source.size_bytes - first)
            before_send()
            blob.stage_block_from_url(name, address, first, size, headers=_if_match(source), **login)
            return name

        starts = range(0, source.size_bytes, step)
        pool = ThreadPoolExecutor(COPY_THREADS, thread_name_prefix="copy")
        try:
            try:
                names = list(pool.map(copy_block, range(1, len(starts) + 1), starts))
            finally:
                pool.shutdown(cancel_futures=True)  # waits: a block that arrives after the abort would stay for a week
            settings = ContentSettings(
                content_type=found.content_settings.content_type,
                content_encoding=found.content_settings.content_encoding,
            )
            blocks = [_block(name) for name in names]
            before_send()
            blob.commit_block_list(blocks, metadata=dict(found.metadata or {}), content_settings=settings)
        except StorageError:  # it was too late to send more
            self._abort_quietly(key, upload_id)
            raise
        except AzureError as error:
            present = self.head(key) if error_code(error) in NO_BLOCKS else None
            if present is not None and present.size_bytes == source.size_bytes:
                return  # this was the answer to a repeat of our own request
            self._abort_quietly(key, upload_id)
            raise self._copy_error(error, source, key) from error

    def _copy_error(self, error: AzureError, source: ObjectInfo, key: str) -> StorageError:
        if http_status(error) in (404, 412) and error_code(error) != "ContainerNotFound":
            return source_changed(self._where(source.key))
        return storage_error(error, f"{self._where(key)}, a copy of {self._where(source.key)}")

    def _properties(self, key: str) -> BlobProperties | None:
        try:
            return self._blob(key, new=False).get_blob_properties()
        except ResourceNotFoundError as error:
            if error_code(error) in ("BlobNotFound", "ResourceNotFound", ""):  # a HEAD has no body
                return None
            raise storage_error(error, self._where(key)) from error
        except AzureError as error:
            raise storage_error(error, self._where(key)) from error

    def _blob(self, key: str, *, new: bool = True) -> BlobClient:
        """Return the client of one key; refuse a new one that Azure or its readers do not take."""
        segments = key.split("/")
        if new and (len(key) > MAX_KEY_CHARACTERS or len(segments) > MAX_SEGMENTS):
            raise InvalidInputError(f"{self._where(key)} is too long: Azure takes 1,024 characters and 254 directories")
        if new and any(segment.endswith(".") for segment in segments):
            raise InvalidInputError(
                f"{self._where(key)}: in Azure no directory or file may have a name that ends in a dot; write other"
                " partition values"
            )
        if new and "\\" in key:
            raise InvalidInputError(f"{self._where(key)}: Azure can take a backslash for a slash; use another name")
        return self.client.get_blob_client(key)

    def _open(self) -> ContainerClient:
        return make_client(self._settings, self._counter.add)

    def _errors(self, key: str) -> AbstractContextManager[None]:
        return sdk_errors_translated(self._where(key))

    def _where(self, key: str) -> str:
        return f"abfss://{self._settings.container}@{self._settings.account}/{key}"


def _is_no_object(blob: BlobProperties) -> bool:
    """Tell a directory, or what an abort has put for a moment, from an object."""
    metadata = blob.metadata or {}
    return not blob.size and (metadata.get(DIRECTORY, "").lower() == "true" or ABORTED in metadata)


def _info(key: str, said: BlobProperties) -> ObjectInfo:
    answer = {"Content-Length": said.size, "ETag": said.etag, "Last-Modified": said.last_modified}
    size_bytes, etag, modified_at = (field_of(answer, name, key) for name in answer)
    return ObjectInfo(key=key, size_bytes=size_bytes, etag=etag.strip('"'), modified_at=modified_at.astimezone(UTC))


def _name(item: ObjectInfo | str) -> bytes:
    return (item if isinstance(item, str) else item.key).encode()


def _date_of(answer: Any) -> str:
    return str(answer.http_response.headers.get("Date", ""))


def _only_if(source: ObjectInfo, side: str) -> dict[str, Any]:
    return {f"{side}etag": f'"{source.etag}"', f"{side}match_condition": MatchConditions.IfNotModified}


def _if_match(source: ObjectInfo) -> dict[str, str]:
    return {"x-ms-source-if-match": f'"{source.etag}"'}  # the SDK has no argument for it here


def _block_name(upload_id: str, number: int, content: str) -> str:
    """Return a block's name, as long as all others: Azure wants that of the blocks of one blob."""
    if not UPLOAD_ID.fullmatch(upload_id):
        raise StorageError(f"{upload_id!r} is no upload of this library")
    return f"{upload_id}-{number:05d}-{content}"


def _block(name: str) -> BlobBlock:
    block = BlobBlock(name)
    block.state = UNCOMMITTED
    return block


def _begun_at(upload_id: str) -> datetime:
    """Return when an upload began, as its id says; now, where that is no id of ours, or of a clock that is ahead."""
    now = datetime.now(UTC)
    if not upload_id:
        return now
    return datetime.fromtimestamp(min(int(upload_id[:12], 16) / 1000, now.timestamp()), tz=UTC)


def opened(settings: AzureSettings) -> AzureStore:
    """Open a container."""
    return AzureStore(settings)
