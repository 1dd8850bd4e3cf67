"""One bucket of Google Cloud Storage behind the :class:`~table_writer.storage.object_store.ObjectStore` protocol.

What identifies an object is its generation, a number that Google gives to each write: it stands where S3 has an ETag,
and reads, copies and deletes name it.

A pending upload is a set of objects below ``_table_writer_uploads/`` in the bucket's root, where no table is, named
``KEY/UPLOAD_ID/NUMBER-MD5``: whoever sends a part again sends the same bytes. Completing copies the only part to its
key, or one object that is composed of several, and names the generation that it takes. So what comes after an abort
finds nothing, whatever has come late or twice: a part or a composed object that is made again has another generation.
"""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

from table_writer.errors import InvalidInputError, StorageError
from table_writer.model.message import UploadedPart
from table_writer.storage.answers import age_seconds, field_of, time_in, unreadable
from table_writer.storage.gcs.bucket import ABSENT, GcsBucket, Piece, md5, text_of
from table_writer.storage.gcs.causes import RefusedError, storage_error
from table_writer.storage.gcs.client import TRANSIENT, Answer, GcsClient
from table_writer.storage.gcs.settings import GCS_UPLOADS, GcsSettings
from table_writer.storage.object_store import (
    ObjectInfo,
    StoredObject,
    UploadInfo,
    delete_each,
    every_page,
    gone_upload_message,
    key_of,
    many,
    nothing,
    replaced_message,
    require_directory,
    require_gettable,
    require_order,
    source_changed,
)
from table_writer.storage.remote import MAY_BE_STORED, RemoteStore

_logger = logging.getLogger(__name__)
MARK: Final = "table_writer_upload"  # metadata of an object: which parts of which upload it was made of
MAX_KEY_BYTES: Final = 1_024
MAX_NAME_BYTES: Final = 39  # of a part, or of an object that is composed
MAX_SOURCES: Final = 32  # of one compose
JOIN_ATTEMPTS: Final = 3
ABORT_ROUNDS: Final = 10
UPLOAD_ID: Final = re.compile("[0-9a-f]{32}")
PART: Final = re.compile(r"(.+)/([0-9a-f]{32})/(?:\d{5}|joined)-[0-9a-f]{32}", re.DOTALL)
ETAG: Final = re.compile(r"([0-9a-f]{32})-(\d+)")  # of a part: MD5 and generation
MD5_IN_HEADER: Final = re.compile(r"\bmd5=([A-Za-z0-9+/=]+)")


class GcsStore(RemoteStore[GcsBucket]):
    """One bucket. Safe to use from several threads; not picklable: send the settings instead.

    Opening costs some 10 ms, and 200 ms for the first one of a process. A forked process makes a client of its own at
    its first call. Raises ``InvalidInputError`` if Google's library finds no login.
    """

    _settings: GcsSettings

    def put(self, key: str, body: bytes) -> None:
        self._require_possible(key)
        try:
            stored = self.client.insert("PutObject", key, body)
        except RefusedError as refused:
            raise storage_error(refused, self._where(key)) from refused
        if stored.get("md5Hash") != md5(body):
            raise unreadable(self._where(key), "it tells of other bytes")

    def _put_new(self, key: str, body: bytes) -> StorageError | None:
        self._require_possible(key)
        try:
            stored = self.client.insert("PutObject", key, body, ABSENT)
        except RefusedError as refused:
            failure = storage_error(refused, self._where(key))
            failure.__cause__ = refused
            if refused.status not in MAY_BE_STORED:
                raise failure from refused
            return failure
        except StorageError as page:
            return page
        is_ours = stored.get("name") == key and stored.get("md5Hash") == md5(body)
        return None if is_ours else unreadable(self._where(key), "it tells of another object")

    def get(self, key: str) -> StoredObject | None:
        where = self._where(key)
        try:
            answer = self.client.media(key, refuse_size=lambda size_bytes: require_gettable(where, size_bytes))
        except RefusedError as refused:
            if refused.is_missing:
                return None
            raise storage_error(refused, where) from refused
        _require_whole(answer)
        info = self._info_of_media(key, answer)
        age = age_seconds(answer.headers.get("Date", ""), info.modified_at, where)
        return StoredObject(info=info, body=answer.body, age_seconds=age)

    def read_range(self, source: ObjectInfo, start: int, size: int) -> bytes:
        size = min(size, source.size_bytes - start)
        if size <= 0:
            return b""
        where = self._where(source.key)
        headers = {"Range": f"bytes={start}-{start + size - 1}"}
        try:
            answer = self.client.media(source.key, {"generation": source.etag}, headers)
        except RefusedError as refused:
            if refused.is_missing:
                raise source_changed(where) from refused
            raise storage_error(refused, where) from refused
        if _generation_of_media(answer) != source.etag:
            raise source_changed(where)
        if len(answer.body) != size:
            raise StorageError(f"{where} was asked for {size} bytes and answered {len(answer.body)}. Retry")
        return answer.body

    def head(self, key: str) -> ObjectInfo | None:
        found = self.client.metadata(key)
        return None if found is None else _info(found, self._where(key))

    def list_page(self, prefix: str, *, start_after: str = "") -> tuple[Sequence[ObjectInfo], bool]:
        """Return up to 1,000 objects below the prefix in key order (bytes of UTF-8), and whether more follow.

        One request, except where a whole page holds nothing but marker keys: then the next one is fetched as well.
        """
        where = self._where(prefix)
        place = {"startOffset": start_after} if start_after else {}  # which takes that key in
        while True:
            document = self.client.listing("ListObjectsV2", prefix, place)
            listed = [_info(item, where) for item in document.get("items", []) if item.get("name") != start_after]
            require_order(where, start_after, [info.key for info in listed])
            page = [info for info in listed if info.key.startswith(prefix) and not info.key.endswith("/")]
            token = text_of(document, "nextPageToken")
            if page or not token:
                return page, bool(token)
            start_after, place = listed[-1].key if listed else start_after, {**place, "pageToken": token}

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        return every_page(self.list_page, prefix, start_after)

    def list_files(self, directory: str) -> Sequence[str]:
        keys = (text_of(item, "name") for document in self._level(directory) for item in document.get("items", []))
        return [key for key in keys if key.startswith(directory) and not key.endswith("/")]

    def list_directories(self, directory: str) -> Sequence[str]:
        found = {prefix for document in self._level(directory) for prefix in document.get("prefixes", [])}
        names = (prefix.removeprefix(directory)[:-1] for prefix in found if prefix.startswith(directory))
        return sorted(filter(None, names), key=str.encode)

    def delete(self, objects: Sequence[str | ObjectInfo]) -> None:
        delete_each(self._delete, objects)

    def copy(self, source: ObjectInfo, key: str, *, before_send: Callable[[], object] = nothing) -> None:
        self._require_possible(key)
        try:
            self.client.rewrite("CopyObject", Piece(source.key, source.etag), key, before_send=before_send)
        except RefusedError as refused:
            if refused.is_missing:
                raise source_changed(self._where(source.key)) from refused
            raise storage_error(refused, f"{self._where(key)}, a copy of {self._where(source.key)}") from refused

    def create_upload(self, key: str) -> str:
        """Return a new id, which begins with the time; nothing is sent, and there is nothing to abort before a part."""
        self._require_possible(key)
        upload_id = f"{int(time.time() * 1000):012x}{secrets.token_hex(10)}"
        self._prefix(key, upload_id)
        return upload_id

    def upload_part(self, key: str, upload_id: str, number: int, body: bytes | memoryview) -> UploadedPart:
        """Send part ``number`` (from 1) of a pending upload.

        Google keeps no list of uploads: a part of an aborted one is taken, and completes nothing. Where the part is
        there already, it was sent before, and its answer was lost.
        """
        if not UPLOAD_ID.fullmatch(upload_id):
            raise StorageError(f"{upload_id!r} is no upload of this library")
        digest = hashlib.md5(body, usedforsecurity=False).hexdigest()
        name, where = _part_name(number, digest), self._where(key)
        part_key = self._prefix(key, upload_id) + name
        try:
            stored = self.client.insert("UploadPart", part_key, body, ABSENT, {MARK: _mark(upload_id, [name])})
        except RefusedError as refused:
            present = self.client.metadata(part_key) if refused.status == 412 else None
            if present is None:
                raise storage_error(refused, where) from refused
            stored = present
        generation = str(field_of(stored, "generation", where))
        return UploadedPart(number=number, etag=f"{digest}-{generation}", size_bytes=len(body))

    def complete_upload(self, key: str, upload_id: str, parts: Sequence[UploadedPart]) -> None:
        """Make the object exist, and delete the parts; a second time, or late, there are none, and nothing changes.

        Refused where another object has the key.
        """
        pieces = [self._piece(key, upload_id, part) for part in parts]
        if not pieces:
            raise StorageError(f"{self._where(key)} is to be completed without parts")
        for _ in self._attempts(1 if len(pieces) == 1 else JOIN_ATTEMPTS):
            missing = self._try_to_complete(key, upload_id, pieces)
            if missing is None:
                return
        raise StorageError(gone_upload_message(self._where(key))) from missing

    def abort_upload(self, key: str, upload_id: str) -> None:
        """Give up a pending upload: from then on nothing completes it.

        Its objects are deleted until none is left: an object that a completion composes meanwhile goes with the next
        round, and none can be composed once the parts are gone. Their generations are named, else a bucket with
        versioning would keep them, and a late copy would find them.
        """
        prefix = self._prefix(key, upload_id)
        for _ in range(ABORT_ROUNDS):
            found = self._pieces_below(prefix)
            if not found:
                return
            delete_each(self._delete, found)
        raise StorageError(f"the upload {upload_id} of {self._where(key)} is being sent still: end what sends it")

    def _uploads(self, prefix: str) -> Iterator[UploadInfo]:
        """Iterate over pending uploads below the prefix, each with the time of the first object that is there of it."""
        where = self._where(prefix)
        items = self.client.items("ListMultipartUploads", f"{GCS_UPLOADS}{prefix}")
        matches = ((PART.fullmatch(text_of(item, "name").removeprefix(GCS_UPLOADS)), item) for item in items)
        parts = ((match[1], match[2], item) for match, item in matches if match)
        for (key, upload_id), group in groupby(parts, lambda part: part[:2]):
            begun = min(_moment(item, "timeCreated", where) for *_, item in group)
            if key.startswith(prefix):
                yield UploadInfo(key=key, upload_id=upload_id, initiated_at=begun)

    def _try_to_complete(self, key: str, upload_id: str, pieces: Sequence[Piece]) -> RefusedError | None:
        """Complete an upload; return what was missing, where something was."""
        prefix, mark = self._prefix(key, upload_id), _mark(upload_id, [piece.name for piece in pieces])
        source, remaining = pieces[0], pieces
        try:
            if len(pieces) > 1:
                source, remaining = self._joined(prefix, pieces, mark)
            self.client.rewrite("CompleteMultipartUpload", source, key, ABSENT)
        except RefusedError as refused:
            present = self.client.metadata(key)
            if present is None or dict(present.get("metadata") or {}).get(MARK) != mark:
                if present is not None and refused.status == 412:
                    raise StorageError(f"{self._where(key)} is there, and not of upload {upload_id}") from refused
                if not refused.is_missing and refused.status != 412:
                    raise storage_error(refused, self._where(key)) from refused
                return refused
            remaining = []  # it is done, by another or by ourselves, whose answer was lost
        self._forget(prefix, remaining)
        return None

    def _joined(self, prefix: str, pieces: Sequence[Piece], mark: str) -> tuple[Piece, Sequence[Piece]]:
        """Compose parts to one object, at most 32 at a time; return it, and all that is there then.

        Afterwards the very parts of the message must be there still: so none was deleted and sent again meanwhile,
        which Google refuses by their generations, and its emulator does not.
        """
        level = tuple(pieces)
        while len(level) > 1:
            groups = [level[start : start + MAX_SOURCES] for start in range(0, len(level), MAX_SOURCES)]
            level = tuple(many(lambda group: self._composed(prefix, group, mark), groups))
        found = self._pieces_below(prefix)
        if not set(found).issuperset(pieces):
            raise RefusedError(404, "notFound", "a part is gone, or was sent again after an abort")
        return level[0], found

    def _composed(self, prefix: str, pieces: Sequence[Piece], mark: str) -> Piece:
        """Compose at most 32 objects, at each attempt to another one, so that a late repeat changes none that is used.

        The emulator answers 500, which is worth a repeat, where Google answers 404; so each is looked for after that.
        """
        if len(pieces) == 1:
            return pieces[0]
        for _ in self._attempts(self._settings.requests.max_attempts):
            try:
                return self.client.compose(pieces, f"{prefix}joined-{secrets.token_hex(16)}", {MARK: mark})
            except RefusedError as refused:
                if refused.status and refused.status not in TRANSIENT:
                    raise
                failure = refused
            if not all(self.client.metadata(piece.key) for piece in pieces):
                raise RefusedError(404, "notFound", str(failure)) from failure
        raise failure

    def _forget(self, prefix: str, pieces: Sequence[Piece]) -> None:
        """Delete what is left of an upload that is completed; all that is listed, where nothing is given."""
        try:
            delete_each(self._delete, pieces or self._pieces_below(prefix))
        except StorageError as error:  # the object is there; vacuum finds what is left
            _logger.warning("the parts below %s were not deleted after their completion: %s", prefix, error)

    def _pieces_below(self, prefix: str) -> Sequence[Piece]:
        items = self.client.items("ListParts", prefix)
        return [Piece(text_of(item, "name"), text_of(item, "generation")) for item in items]

    def _piece(self, key: str, upload_id: str, part: UploadedPart) -> Piece:
        match = ETAG.fullmatch(part.etag)
        if match is None:
            raise StorageError(f"a part of {self._where(key)} is none of this store: {part.etag!r}")
        return Piece(self._prefix(key, upload_id) + _part_name(part.number, match[1]), match[2])

    def _delete(self, item: str | ObjectInfo | Piece) -> tuple[str, str] | None:
        """Delete one object; return it with the reason if it is refused."""
        if isinstance(item, Piece):
            key, generation = item.key, item.generation
        else:
            key, generation = key_of(item), "" if isinstance(item, str) else item.etag
        try:
            self.client.delete(key, generation)
        except RefusedError as refused:
            if not refused.is_missing:
                return key, str(storage_error(refused, self._where(key)))
            if isinstance(item, ObjectInfo) and self.head(key) is not None:
                return key, replaced_message(self._where(key))
        except StorageError as page:
            return key, str(page)
        return None

    def _info_of_media(self, key: str, answer: Answer) -> ObjectInfo:
        """Return what was read; ask since when it is there where the answer does not say: that of Google may not."""
        generation = _generation_of_media(answer)
        if "Last-Modified" in answer.headers:
            modified_at = _moment(answer.headers, "Last-Modified", answer.where)
            return ObjectInfo(key=key, size_bytes=len(answer.body), etag=generation, modified_at=modified_at)
        present = self.head(key)
        if present is None or present.etag != generation:
            raise StorageError(f"{answer.where} was replaced while it was read. Retry")
        return present

    def _level(self, directory: str) -> Iterator[dict[str, Any]]:
        """Iterate over the pages of one level, up to the next ``/``."""
        return self.client.listings("ListObjectsV2", require_directory(directory), {"delimiter": "/"})

    def _require_possible(self, key: str) -> None:
        """Refuse a new key that Google does not take, or that is among the parts of uploads."""
        where = self._where(key)
        if len(key.encode()) > MAX_KEY_BYTES:
            raise InvalidInputError(f"{where} is too long: Google takes {MAX_KEY_BYTES:,} bytes")
        if key.startswith(GCS_UPLOADS):
            raise InvalidInputError(f"{where}: {GCS_UPLOADS} is for files that are being sent; use another directory")
        if key in (".", "..") or key.startswith(".well-known/acme-challenge/") or re.search("[\r\n]", key):
            raise InvalidInputError(f"{where}: Google takes no such name, nor a line break in one; use another")

    def _prefix(self, key: str, upload_id: str) -> str:
        """Return what the names of an upload's objects begin with; refuse a key that leaves too little for the rest."""
        prefix = f"{GCS_UPLOADS}{key}/{upload_id}/"
        if len(prefix.encode()) + MAX_NAME_BYTES > MAX_KEY_BYTES:
            raise InvalidInputError(
                f"{self._where(key)} is too long: Google takes {MAX_KEY_BYTES:,} bytes, with {GCS_UPLOADS} before it"
            )
        return prefix

    def _open(self) -> GcsBucket:
        return GcsBucket(self._settings.bucket, GcsClient(self._settings, self._counter.add, self._sleep))

    def _where(self, key: str) -> str:
        return f"gs://{self._settings.bucket}/{key}"


def _part_name(number: int, digest: str) -> str:
    return f"{number:05d}-{digest}"


def _mark(upload_id: str, names: Sequence[str]) -> str:
    """Return what tells of an object which parts of which upload it was made of."""
    return f"{upload_id}-{hashlib.md5(' '.join(names).encode(), usedforsecurity=False).hexdigest()}"


def _moment(answer: Mapping[str, Any], name: str, where: str) -> datetime:
    """Return a time in whole seconds, which is what an answer to a read has."""
    moment = time_in(str(field_of(answer, name, where)))
    if moment is None:
        raise unreadable(where, f"it has no {name} that can be read")
    return moment.astimezone(UTC).replace(microsecond=0)


def _info(item: Mapping[str, Any], where: str) -> ObjectInfo:
    key, size, generation = (str(field_of(item, name, where)) for name in ("name", "size", "generation"))
    if not size.isdecimal():
        raise unreadable(where, f"the size of {key} is no number")
    return ObjectInfo(key=key, size_bytes=int(size), etag=generation, modified_at=_moment(item, "updated", where))


def _generation_of_media(answer: Answer) -> str:
    return str(field_of(answer.headers, "X-Goog-Generation", answer.where))


def _require_whole(answer: Answer) -> None:
    """Refuse bytes that are fewer, or others, than those of the object."""
    stored = answer.headers.get("X-Goog-Stored-Content-Length", str(len(answer.body)))
    digest = MD5_IN_HEADER.search(answer.headers.get("X-Goog-Hash", ""))  # what was composed has none
    if stored != str(len(answer.body)) or (digest is not None and digest[1] != md5(answer.body)):
        raise unreadable(answer.where, "it has other bytes than the object")


def opened(settings: GcsSettings) -> GcsStore:
    """Open a bucket."""
    return GcsStore(settings)
