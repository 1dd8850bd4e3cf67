"""The store as the protocol needs it: a handful of calls that S3, a file system and the in-memory double share."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from typing import ClassVar, Final, Protocol, TypeVar

from table_writer.errors import InvalidInputError, StorageError, counted, needs_extra
from table_writer.model.message import UploadedPart
from table_writer.model.process import PerProcess
from table_writer.model.units import MIB

MAX_GET_BYTES: Final = 256 * MIB  # nothing that is read in one piece is longer
PAGE_KEYS: Final = 1_000  # S3: keys in one page of a listing, and in one batch delete
THREADS: Final = 16  # that send small requests and wait for the store
UNFINISHED: Final = "._COPYING_"  # what `hdfs dfs -put` has not finished yet
PAST_OWN_KEYS: Final = "~"  # the last printable character of ASCII: all that this library writes sorts before it

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def nothing() -> None:
    """Stand for what has to happen before a request is sent: nothing."""


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


class SourceChangedError(StorageError, code="source_changed"):
    """An object that was to be copied is gone, or no longer the one that was listed; no copy was made."""


class UnorderedListingError(StorageError, code="unordered_listing"):
    """A store lists in another order than that of keys; a listing of several pages would leave files out."""


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

        A response that was lost and retried is decided by reading back: a body equal to ours counts as ours, so callers
        put something of their own into it. After a ``StorageError`` it is open whether the object was stored. Raises
        ``InvalidInputError`` if the store does not know conditional puts.
        """

    def get(self, key: str) -> StoredObject | None:
        """Return an object of up to 256 MiB, ``None`` when there is none; a longer one is an error."""

    def read_range(self, source: ObjectInfo, start: int, size: int) -> bytes:
        """Return ``size`` bytes from ``start`` on, or fewer at the end, of exactly the object that ``source`` shows.

        By its ETag, or else ``SourceChangedError``: a reader never gets bytes of two objects.
        """

    def head(self, key: str) -> ObjectInfo | None:
        """Return an object as a listing would show it, ``None`` when there is none."""

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

        Names have no slash and are in the order of UTF-8 bytes. A directory without objects may be listed: one with
        nothing but marker keys, and on a file system an empty one.
        """

    def delete(self, objects: Sequence[str | ObjectInfo]) -> None:
        """Delete objects, in batches; a missing one is no error; a refused one is raised when the others are gone.

        Of one that was listed exactly that goes, by its ETag, however late the request comes, as far as the store
        knows conditional deletes; another object that has taken its key is refused. A key means whatever is there.
        """

    def copy(self, source: ObjectInfo, key: str, *, before_send: Callable[[], object] = nothing) -> None:
        """Make an object with the bytes of another one of this store; no byte passes through the client.

        The bytes are those of exactly the object that ``source`` shows, by its ETag and size; else
        ``SourceChangedError``. The new object exists whole or not at all, and replaces what is there: repeating the
        call is safe. ``before_send`` is called before each request that changes something, of which a large object
        takes many, and may raise: then none follows but those that give up what was begun.
        """

    def create_upload(self, key: str) -> str:
        """Start a multipart upload; returns its id. Nothing exists under the key."""

    def upload_part(self, key: str, upload_id: str, number: int, body: bytes | memoryview) -> UploadedPart:
        """Send part ``number`` (from 1) of a pending upload."""

    def complete_upload(self, key: str, upload_id: str, parts: Sequence[UploadedPart]) -> None:
        """Make the object exist. Repeating it after a lost answer succeeds when the object is there with this size.

        Raises ``StorageError`` also when the upload is gone; the message then names the usual causes.
        """

    def abort_upload(self, key: str, upload_id: str) -> None:
        """Give up one pending upload; one that is not there any more is no error."""

    def list_uploads(self, prefix: str) -> Iterator[UploadInfo]:
        """Iterate over pending uploads below the prefix; without a ``/`` at its end it could match other writers'."""


class StoreSettings:
    """What opens a store, in this process or in another: frozen, hashable, picklable, without secrets in ``repr``.

    The module ``store`` beside that of a settings' class has the function ``opened``, which takes them.
    """

    __slots__ = ()
    EXTRA: ClassVar[tuple[str, str]] = ("", "")
    """The extra that brings the libraries of only this store, and what needs them."""


def open_store(settings: StoreSettings) -> ObjectStore:
    """Open a store; keep it, since that takes 100 to 300 ms.

    Raises ``MissingExtraError`` where a library is missing that only this kind of store needs.
    """
    extra, what = settings.EXTRA
    package = type(settings).__module__.rpartition(".")[0]
    with needs_extra(extra, what) if extra else nullcontext():
        module = import_module(f"{package}.store")
    store: ObjectStore = module.opened(settings)
    return store


def key_of(item: str | ObjectInfo) -> str:
    """Return the key of what is to be deleted."""
    return item if isinstance(item, str) else item.key


def many(do: Callable[[Item], Answer], items: Iterable[Item], threads: int = THREADS) -> list[Answer]:
    """Do something with each item, several at once, and return the answers in their order.

    The first error is raised once what has begun has ended. A single item needs no thread.
    """
    todo = list(items)
    if len(todo) < 2:
        return [do(item) for item in todo]
    with ThreadPoolExecutor(min(threads, len(todo)), thread_name_prefix="table_writer") as pool:
        return list(pool.map(do, todo))


def delete_each(delete: Callable[[Item], tuple[str, str] | None], objects: Sequence[Item]) -> None:
    """Delete objects by a request each; ``delete`` returns one that is refused with the reason, and all are tried."""
    refused = dict(filter(None, many(delete, objects)))
    if refused:
        raise StorageError(
            f"{len(refused)} of {counted(len(objects), 'object')} could not be deleted, first:"
            f" {next(iter(refused.values()))}"
        )


def require_gettable(where: str, size_bytes: int) -> None:
    """Refuse an object that nobody can have meant to be read in one piece, before its body is read."""
    if size_bytes > MAX_GET_BYTES:
        raise StorageError(f"{where} has {size_bytes:,} bytes: nothing this library keeps is that long; look at it")


def require_directory(prefix: str) -> str:
    """Return the prefix; refuse one that could match what other writers wrote."""
    if not prefix.endswith("/"):
        raise InvalidInputError(f"only a directory can be listed like this; {prefix!r} does not end in '/'")
    return prefix


def require_order(where: str, start_after: str, keys: Sequence[str]) -> None:
    """Refuse a page that is not in the order of keys, or does not begin after the one it was to begin after."""
    last = start_after.encode()
    for key in keys:
        encoded = key.encode()
        if encoded <= last:
            raise UnorderedListingError(
                f"the store lists {where} in an order of its own: {key!r} came after {last.decode()!r}. Pages go on"
                " after their last key, so files would be left out. Use a store that lists in the order of UTF-8 bytes"
                " and honours StartAfter, as S3 does (not S3 Express, nor Storj). `table-writer doctor --store` tries a"
                " store"
            )
        last = encoded


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
        f"{where} was replaced or deleted since it was listed: another tool writes there, or a vacuum has deleted it. "
        "List again, and take what is there now"
    )


def gone_upload_message(where: str) -> str:
    """Say what usually makes a pending upload vanish."""
    return (
        f"the pending upload of {where} is gone, and the object is not there. Something aborted it: usually another "
        "tool's committer below this prefix (S3A with fs.s3a.committer.abort.pending.uploads=true), "
        "'hadoop s3guard uploads -abort', or a lifecycle rule AbortIncompleteMultipartUpload that is shorter than the "
        "write. Take it out of the way and write again"
    )


def replaced_message(where: str) -> str:
    """Say why an object was not deleted."""
    return f"{where} is another object than the one that was listed: another tool has written there. It stays"


class RequestCounter:
    """Numbers of requests that were sent, by kind; a forked process counts on from what there was."""

    def __init__(self) -> None:
        self._lock = PerProcess(threading.Lock)
        self._counts: Counter[str] = Counter()

    def add(self, kind: str) -> None:
        """Count one more."""
        with self._lock.get():
            self._counts[kind] += 1

    def counts(self) -> Mapping[str, int]:
        """Return a copy of the counts so far."""
        with self._lock.get():
            return dict(self._counts)


def is_hidden(name: str) -> bool:
    """Tell whether Spark passes over a file or directory of this name when it reads a table.

    Spark's rule, of ``HadoopFSUtils.shouldFilterOutPathName`` and ``PartitioningAwareFileIndex.isDataPath`` together:
    Parquet's ``_metadata`` is listed, but never read for rows. Hive hides every ``_`` and ``.``; the one difference is
    a partition column whose name starts with ``_``.

    Examples
    --------
    >>> [is_hidden(name) for name in ("_SUCCESS", ".part-0.crc", "part-0._COPYING_", "_dt=2024-01-01", "part-0")]
    [True, True, True, False, False]
    """
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith(UNFINISHED)


def is_read(key: str, location_key: str) -> bool:
    """Return whether readers of a directory read an object below it: no name from there on is hidden."""
    return not any(map(is_hidden, key.removeprefix(location_key).split("/")))


def visible_files(store: ObjectStore, location_key: str, *, beside: str = "") -> Iterator[ObjectInfo]:
    """Iterate over the objects below a directory that its readers read, in key order, each once.

    An object is left out when its name, or that of a directory between it and ``location_key``, is hidden
    (:func:`is_hidden`). What lies above, such as ``_table_writer/`` for locations of this library, does not matter.
    ``beside`` is a directory to jump over, with one request at most: that of this library below a table's root, which
    may hold very many objects.
    """
    require_directory(location_key)
    return _visible(store, location_key, require_directory(beside) if beside else "")


def _visible(store: ObjectStore, location_key: str, beside: str) -> Iterator[ObjectInfo]:
    start_after, more = "", True
    while more:
        page, more = store.list_page(location_key, start_after=start_after)
        for info in page:
            start_after = info.key
            if beside and info.key.startswith(beside):
                start_after = max(info.key, f"{beside}{PAST_OWN_KEYS}")
            elif is_read(info.key, location_key):
                yield info
