"""The store as the protocol needs it: a handful of calls that S3, a file system and the in-memory double share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final, Protocol

from table_writer.errors import InvalidInputError, StorageError
from table_writer.model.message import UploadedPart

__all__ = ["ObjectInfo", "ObjectStore", "SourceChangedError", "StoredObject", "UploadInfo"]

MAX_GET_BYTES: Final = 256 * 2**20  # nothing that is read in one piece is longer
PAGE_KEYS: Final = 1_000  # S3: keys in one page of a listing, and in one batch delete


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectInfo:
    """An object as a listing shows it."""

    key: str
    size_bytes: int
    etag: str
    modified_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredObject:
    """An object with its bytes; ``age_seconds`` is the store's clock minus its own LastModified."""

    info: ObjectInfo
    body: bytes
    age_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class UploadInfo:
    """A pending upload as a listing shows it."""

    key: str
    upload_id: str
    initiated_at: datetime


class SourceChangedError(StorageError):
    """An object that was to be copied is gone, or no longer the one that was listed; no copy was made."""

    code: ClassVar[str] = "source_changed"


class ObjectStore(Protocol):
    """One bucket (or one file system). Keys have no leading slash. Safe to use from several threads.

    Every method raises :class:`~table_writer.errors.StorageError` when the store fails, and never anything of the
    underlying client. Transient failures are retried inside; all calls are safe to repeat.
    """

    def request_counts(self) -> Mapping[str, int]:
        """Return how many requests were sent so far, by kind, retries included."""

    def put(self, key: str, body: bytes) -> None:
        """Store an object, replacing what is there."""

    def put_if_absent(self, key: str, body: bytes) -> bool:
        """Store an object unless the key exists: exactly one of several racing callers gets ``True``.

        A response that was lost and retried is settled by reading back: a body equal to ours counts as ours, so
        callers put something of their own into it. After a ``StorageError`` it is open whether the object was stored.

        Raises
        ------
        InvalidInputError
            The store does not know conditional puts.
        """

    def get(self, key: str) -> StoredObject | None:
        """Return an object of up to 256 MiB, ``None`` when there is none; a longer one is an error."""

    def head(self, key: str) -> ObjectInfo | None:
        """Return what a listing would show of one key, ``None`` when there is none."""

    def list_page(self, prefix: str, *, start_after: str = "") -> tuple[Sequence[ObjectInfo], bool]:
        """Return up to 1,000 objects below the prefix in key order (bytes of UTF-8), and whether more follow.

        Sends one request. Marker keys that end in ``/`` are left out; a page is never empty when more follow.
        """

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Iterate over all objects below the prefix, page by page, lazily."""

    def list_files(self, directory: str) -> Sequence[str]:
        """Return the keys directly in a directory, which must end in ``/``; what lies deeper costs nothing."""

    def list_directories(self, directory: str) -> Sequence[str]:
        """Return the names of the directories directly in a directory, which must end in ``/``.

        Names have no slash and are in the order of UTF-8 bytes. A directory may be listed that holds no object: one
        with nothing but marker keys, and on a file system an empty one.
        """

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, in batches; a missing one is no error; a refused one is raised when the others are gone."""

    def copy(self, source: ObjectInfo, key: str) -> None:
        """Make an object with the bytes of another one of this store; no byte passes through the client.

        The bytes are those of exactly the object that ``source`` shows, by its ETag and size. The new object exists
        whole or not at all, and replaces what is there: repeating the call after a lost answer is safe.

        Raises
        ------
        SourceChangedError
            The source was replaced or deleted since ``source`` was listed.
        """

    def create_upload(self, key: str) -> str:
        """Start a multipart upload; returns its id. Nothing exists under the key."""

    def upload_part(self, key: str, upload_id: str, number: int, body: bytes | memoryview) -> UploadedPart:
        """Send part ``number`` (from 1) of a pending upload."""

    def complete_upload(self, key: str, upload_id: str, parts: Sequence[UploadedPart]) -> None:
        """Make the object exist. Repeating it after a lost answer succeeds when the object is there with this size.

        Raises
        ------
        StorageError
            Also when the upload is gone; the message then names the usual causes.
        """

    def abort_upload(self, key: str, upload_id: str) -> None:
        """Give up one pending upload; one that is not there any more is no error."""

    def list_uploads(self, prefix: str) -> Iterator[UploadInfo]:
        """Iterate over pending uploads below the prefix, which must end in ``/``.

        Raises
        ------
        InvalidInputError
            The prefix does not end in ``/``: it could match uploads of other writers.
        """


def require_gettable(where: str, size_bytes: int) -> None:
    """Refuse an object that nobody can have meant to be read in one piece, before its body is read."""
    if size_bytes > MAX_GET_BYTES:
        raise StorageError(f"{where} has {size_bytes:,} bytes: nothing this library keeps is that long; look at it")


def require_directory(prefix: str) -> str:
    """Return the prefix; refuse one that could match what other writers wrote."""
    if not prefix.endswith("/"):
        raise InvalidInputError(f"only a directory can be listed like this; {prefix!r} does not end in '/'")
    return prefix


def every_page(
    list_page: Callable[..., tuple[Sequence[ObjectInfo], bool]], prefix: str, start_after: str
) -> Iterator[ObjectInfo]:
    """Yield all objects of a listing that comes in pages."""
    more = True
    while more:
        page, more = list_page(prefix, start_after=start_after)
        yield from page
        if page:
            start_after = page[-1].key


def source_changed(where: str) -> SourceChangedError:
    """Say that an object to be copied is not the one that was listed."""
    return SourceChangedError(
        f"{where} was replaced or deleted since it was listed, so it was not copied: another tool writes there. "
        "List again, and copy what is there now"
    )


def gone_upload_message(where: str) -> str:
    """Say what usually makes a pending upload vanish."""
    return (
        f"the pending upload of {where} is gone, and the object is not there. Something aborted it: usually another "
        "tool's committer below this prefix (S3A with fs.s3a.committer.abort.pending.uploads=true), "
        "'hadoop s3guard uploads -abort', or a lifecycle rule AbortIncompleteMultipartUpload that is shorter than the "
        "write. Take it out of the way and write again"
    )
