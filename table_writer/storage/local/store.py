"""The file system behind the :class:`~table_writer.storage.object_store.ObjectStore` protocol.

A pending upload of ``DIR/NAME`` lies at ``DIR/.uploads/<upload_id>/NAME/``: on the same file system, so that
completing is a rename, and under a name that starts with a dot, which Spark and Hive do not read.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

from table_writer.errors import InvalidInputError, StorageError
from table_writer.model.message import UploadedPart
from table_writer.model.process import boot_seconds
from table_writer.model.units import MIB
from table_writer.storage.local.settings import LocalSettings
from table_writer.storage.object_store import (
    PAGE_KEYS,
    ObjectInfo,
    RequestCounter,
    StoredObject,
    UploadInfo,
    every_page,
    gone_upload_message,
    key_of,
    nothing,
    replaced_message,
    require_directory,
    require_gettable,
    source_changed,
)

UPLOADS: Final = ".uploads"
UPLOAD_ID: Final = re.compile("[0-9a-f]{32}")
DIRECTORY_ATTEMPTS: Final = 100
NO_FILE: Final = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
Fill = Callable[[BinaryIO], object]
Install = Callable[[Path, Path], None]
RANGE_BYTES: Final = 1024 * MIB  # Linux copies at most 2 GiB a call
CHUNK_BYTES: Final = MIB
CopyRange = Callable[[int, int, int, int, int], int]
READ_AGAIN_SECONDS: Final = 60.0
READ_ONLY: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
COPY_RANGE: Final[CopyRange] = getattr(os, "copy_file_range", lambda *_: 0)  # not every system has the call


def copy_contents(source: BinaryIO, target: BinaryIO, *, copy_range: CopyRange = COPY_RANGE) -> None:
    """Copy all bytes of an open file into an empty one.

    The kernel copies, and where the file system can share blocks (XFS, Btrfs, NFS 4.2) it takes neither time nor space.
    What it does not copy is read and written here: other systems, other devices, old kernels that stop early.
    """
    copied = 0
    with suppress(OSError):  # not possible between these two; an error of the disk comes again when the rest is copied
        while count := copy_range(source.fileno(), target.fileno(), RANGE_BYTES, copied, copied):
            copied += count
    source.seek(copied)
    target.seek(copied)
    shutil.copyfileobj(source, target, CHUNK_BYTES)


class LocalStore:
    """The file system with the semantics of a bucket. Keys are absolute paths without the leading slash.

    Directories come and go with what is in them. Hadoop's ``.NAME.crc`` files go with their object, since a stale one
    makes Hadoop refuse the file. ``clock`` is the one that sets the times of files, in seconds since the epoch: by
    default each file system is asked for its own, since a shared one's is another machine's.
    """

    def __init__(self, *, clock: Callable[[], float] | None = None, copy_range: CopyRange = COPY_RANGE) -> None:
        self._clock = clock
        self._clocks = FileSystemClock()
        self._copy_range = copy_range
        self._counter = RequestCounter()

    def __repr__(self) -> str:
        return "LocalStore()"

    def request_counts(self) -> Mapping[str, int]:
        return self._counter.counts()

    def put(self, key: str, body: bytes) -> None:
        """Store an object, replacing what is there; readers see the old or the new one."""
        with self._call("PutObject", key) as path:
            self._install(path, lambda file: file.write(body), os.replace)

    def put_if_absent(self, key: str, body: bytes) -> bool:
        """Store an object unless the key exists: a hard link decides, so the winner's bytes appear at once."""
        with self._call("PutObject", key) as path:
            try:
                self._install(path, lambda file: file.write(body), os.link)
            except FileExistsError:
                return path.read_bytes() == body
            return True

    def get(self, key: str) -> StoredObject | None:
        with self._call("GetObject", key) as path:
            try:
                with path.open("rb") as file:
                    status = os.fstat(file.fileno())
                    require_gettable(str(path), status.st_size)
                    body = file.read()
            except NO_FILE:
                return None
            now = self._clock() if self._clock else self._clocks.seconds(status.st_dev, lambda: _time_at(path))
            age_seconds = max(0.0, now - status.st_mtime)
            return StoredObject(info=_info(key, status), body=body, age_seconds=age_seconds)

    def read_range(self, source: ObjectInfo, start: int, size: int) -> bytes:
        with self._call("GetObject", source.key), _open_unchanged(source) as file:
            file.seek(start)
            body = file.read(size)
            _require_unchanged(file, source)  # somebody may have written into it meanwhile
            return body

    def head(self, key: str) -> ObjectInfo | None:
        with self._call("HeadObject", key) as path:
            return _head(key, path)

    def list_page(self, prefix: str, *, start_after: str = "") -> tuple[Sequence[ObjectInfo], bool]:
        directory = prefix.rpartition("/")[0]
        with self._call("ListObjectsV2", directory):
            found = list(islice(_walk(f"/{directory}", prefix, start_after), PAGE_KEYS + 1))
        return found[:PAGE_KEYS], len(found) > PAGE_KEYS

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        return every_page(self.list_page, prefix, start_after)

    def list_files(self, directory: str) -> Sequence[str]:
        with self._call("ListObjectsV2", require_directory(directory)[:-1]) as path:
            return sorted(entry.path[1:] for entry in _entries(path) if entry.is_file() and not _is_crc(entry.name))

    def list_directories(self, directory: str) -> Sequence[str]:
        with self._call("ListObjectsV2", require_directory(directory)[:-1]) as path:
            found = (entry.name for entry in _entries(path) if entry.is_dir(follow_symlinks=False))
            return sorted(name for name in found if name != UPLOADS)

    def delete(self, objects: Sequence[str | ObjectInfo]) -> None:
        """Delete objects, and directories of table_writer and of partitions that are empty then."""
        refused: list[StorageError] = []
        for item in objects:
            key = key_of(item)
            try:
                with self._call("DeleteObject", key) as path:
                    _require_listed(item, path)
                    for file in (path, _crc_of(path)):
                        with suppress(*NO_FILE):
                            file.unlink()
                    _remove_empty(path.parent)
            except StorageError as error:
                refused.append(error)
        if refused:
            raise refused[0]

    def copy(self, source: ObjectInfo, key: str, *, before_send: Callable[[], object] = nothing) -> None:
        """Make an object with the bytes of another one; the kernel copies, and shares blocks where it can.

        Never a hard link: tools that overwrite a file in place (Hadoop's local file system, pandas) would change the
        copy with it, and the copy would be as old as its source, where ages decide what a vacuum deletes.
        """
        with self._call("CopyObject", key) as path, _open_unchanged(source) as file:

            def fill(target: BinaryIO) -> None:
                copy_contents(file, target, copy_range=self._copy_range)
                _require_unchanged(file, source)  # somebody may have written into it meanwhile
                before_send()

            self._install(path, fill, os.replace)

    def create_upload(self, key: str) -> str:
        with self._call("CreateMultipartUpload", key) as path:
            return _make_upload(path)

    def upload_part(self, key: str, upload_id: str, number: int, body: bytes | memoryview) -> UploadedPart:
        with self._call("UploadPart", key) as path:
            directory = _upload_directory(path, upload_id)
            try:
                part = directory / f"{number:05d}"
                _write(directory / f"arriving-{uuid.uuid4().hex}", lambda file: file.write(body), part, os.replace)
                status = part.stat()
            except FileNotFoundError as error:
                raise StorageError(gone_upload_message(f"file:///{key}")) from error
            return UploadedPart(number=number, etag=_etag(status), size_bytes=len(body))

    def complete_upload(self, key: str, upload_id: str, parts: Sequence[UploadedPart]) -> None:
        """Make the object exist, by a rename; an upload that is gone counts as completed if the object is there."""
        with self._call("CompleteMultipartUpload", key) as path:
            directory = _upload_directory(path, upload_id)
            files = [directory / f"{part.number:05d}" for part in parts]
            try:
                if not parts or any(_etag(file.stat()) != part.etag for file, part in zip(files, parts, strict=True)):
                    raise StorageError(f"the parts of file:///{key} are not those that were uploaded")
                _complete(directory, files, path)
            except FileNotFoundError as error:
                present = _head(key, path)
                if present is None or present.size_bytes != sum(part.size_bytes for part in parts):
                    raise StorageError(gone_upload_message(f"file:///{key}")) from error
            _remove_upload(path, upload_id)

    def abort_upload(self, key: str, upload_id: str) -> None:
        with self._call("AbortMultipartUpload", key) as path:
            _remove_upload(path, upload_id)

    def list_uploads(self, prefix: str) -> Iterator[UploadInfo]:
        """Iterate over pending uploads below the prefix, which must end in ``/``.

        A put that was killed half-way shows as an upload as well, and is aborted as one.
        """
        require_directory(prefix)
        with self._call("ListMultipartUploads", prefix.rstrip("/")) as path:
            return iter(sorted(_uploads(path), key=lambda upload: (upload.key, upload.upload_id)))

    def _install(self, path: Path, fill: Fill, install: Install) -> None:
        upload_id = _make_upload(path)
        try:
            _write(_upload_directory(path, upload_id) / "00001", fill, path, install)
        finally:
            _remove_upload(path, upload_id)

    @contextmanager
    def _call(self, kind: str, key: str) -> Iterator[Path]:
        """Count a call, check its key and turn what the file system raises into :class:`StorageError`."""
        self._counter.add(kind)
        path = _path(key)
        try:
            yield path
        except PermissionError as error:
            raise StorageError(f"access denied: {kind} on file:///{key}: {error}; check the owner and mode") from error
        except OSError as error:
            raise StorageError(f"{kind} on file:///{key} failed: {error}") from error


def _path(key: str) -> Path:
    segments = key.split("/")
    if key and (UPLOADS in segments or "\0" in key or any(segment in ("", ".", "..") for segment in segments)):
        raise InvalidInputError(f"{key!r} can't be a key on a file system: empty, '.', '..' or {UPLOADS} segment")
    return Path("/", key)


def _etag(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns:x}-{status.st_ino:x}-{status.st_size:x}"


def _info(key: str, status: os.stat_result) -> ObjectInfo:
    modified_at = datetime.fromtimestamp(status.st_mtime, tz=UTC)
    return ObjectInfo(key=key, size_bytes=status.st_size, etag=_etag(status), modified_at=modified_at)


def _head(key: str, path: Path) -> ObjectInfo | None:
    try:
        return _info(key, path.stat()) if path.is_file() else None
    except NO_FILE:
        return None


def _require_listed(item: str | ObjectInfo, path: Path) -> None:
    """Refuse to delete another file than the one that was listed."""
    if isinstance(item, ObjectInfo) and _head(item.key, path) not in (None, item):
        raise StorageError(replaced_message(f"file:///{item.key}"))


@contextmanager
def _open_unchanged(source: ObjectInfo) -> Iterator[BinaryIO]:
    """Open the file that ``source`` shows; once it is open, replacing or deleting it does not matter."""
    try:
        file = _path(source.key).open("rb")
    except NO_FILE as error:
        raise source_changed(f"file:///{source.key}") from error
    with file:
        _require_unchanged(file, source)
        yield file


def _require_unchanged(file: BinaryIO, source: ObjectInfo) -> None:
    status = os.fstat(file.fileno())
    if (_etag(status), status.st_size) != (source.etag, source.size_bytes):
        raise source_changed(f"file:///{source.key}")


def _entries(directory: Path | str) -> Sequence[os.DirEntry[str]]:
    """Return the entries of a directory; none if it is gone."""
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except NO_FILE:
        return ()


def _walk(directory: str, prefix: str, start_after: str) -> Iterator[ObjectInfo]:
    """Yield objects in key order; Python compares text by code points, which is the order of its UTF-8 bytes.

    Links to directories are not followed: what is listed may be deleted, and files behind a link may belong to anybody.
    """
    entries = _entries(directory)
    found = {entry.path[1:] + ("/" if entry.is_dir(follow_symlinks=False) else ""): entry for entry in entries}
    for key, entry in sorted(found.items()):
        if key.endswith("/"):
            wanted = key.startswith(prefix) or prefix.startswith(key)
            if wanted and entry.name != UPLOADS and (key > start_after or start_after.startswith(key)):
                yield from _walk(entry.path, prefix, start_after)
        elif key.startswith(prefix) and key > start_after and not _is_crc(entry.name):
            present = _head(key, Path(entry.path))
            if present is not None:
                yield present


def _is_crc(name: str) -> bool:
    return name.startswith(".") and name.endswith(".crc")


def _crc_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


def _remove_empty(directory: Path) -> None:
    """Remove a directory and those above it while they are empty, but none that may be a table's or a warehouse's."""
    while directory.name == UPLOADS or "=" in directory.name or any(part.startswith("_") for part in directory.parts):
        try:
            directory.rmdir()
        except OSError:  # not empty, or gone
            return
        directory = directory.parent


def _upload_directory(path: Path, upload_id: str) -> Path:
    if not UPLOAD_ID.fullmatch(upload_id):
        raise InvalidInputError(f"{upload_id!r} is not an upload id of this store")
    return path.parent / UPLOADS / upload_id / path.name


def _make_upload(path: Path) -> str:
    upload_id = uuid.uuid4().hex
    for attempt in range(DIRECTORY_ATTEMPTS):
        try:
            _upload_directory(path, upload_id).mkdir(parents=True, exist_ok=True)
            break
        except (FileNotFoundError, FileExistsError):  # another thread removed a directory that was empty just then
            if attempt + 1 == DIRECTORY_ATTEMPTS:
                raise
    return upload_id


def _time_at(path: Path) -> float:
    """Return the time that the file system gives a directory which is made there now."""
    upload_id = _make_upload(path)
    try:
        return _upload_directory(path, upload_id).stat().st_mtime
    finally:
        _remove_upload(path, upload_id)


def _remove_upload(path: Path, upload_id: str) -> None:
    directory = _upload_directory(path, upload_id).parent
    shutil.rmtree(directory, ignore_errors=True)
    _remove_empty(directory.parent)


def _uploads(directory: Path) -> Iterator[UploadInfo]:
    for pending in directory.rglob(UPLOADS):
        for named in pending.glob("*/*"):
            try:
                started = datetime.fromtimestamp(named.parent.stat().st_mtime, tz=UTC)
            except FileNotFoundError:  # aborted or completed since
                continue
            key = str(pending.parent / named.name)[1:]
            yield UploadInfo(key=key, upload_id=named.parent.name, initiated_at=started)


def _write(temporary: Path, fill: Fill, path: Path, install: Install) -> None:
    with temporary.open("xb") as file:
        fill(file)
        _sync(file)
    _expose(temporary, path, install)


def _complete(directory: Path, files: Sequence[Path], path: Path) -> None:
    whole = files[0]
    if len(files) > 1:
        whole = directory / f"whole-{uuid.uuid4().hex}"
        with whole.open("xb") as target:
            for file in files:
                with file.open("rb") as source:
                    shutil.copyfileobj(source, target, CHUNK_BYTES)
            _sync(target)
    _expose(whole, path, os.replace)


def _expose(temporary: Path, path: Path, install: Install) -> None:
    if install is os.replace:
        with suppress(*NO_FILE):
            _crc_of(path).unlink()
    install(temporary, path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)  # a rename that is not in the directory yet would not survive a power failure
    finally:
        os.close(directory)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


class FileSystemClock:
    """Tells the time of file systems, which on a shared one is another machine's.

    Each is asked once a minute; in between this machine's clock that nobody sets is added. The answer is never too
    late, so nothing that a file is compared with seems older than it is. Where nothing may be written, this machine's
    clock has to do: whoever may not write claims and deletes nothing.
    """

    def __init__(self) -> None:
        self._read: dict[int, tuple[float, float]] = {}

    def seconds(self, device: int, make: Callable[[], float]) -> float:
        """Return the seconds since the epoch on a device; ``make`` makes something there and returns its time."""
        made_at, read_at = self._read.get(device, (0.0, -READ_AGAIN_SECONDS))
        if boot_seconds() - read_at >= READ_AGAIN_SECONDS:
            try:
                made_at = make()
            except OSError as error:
                if error.errno not in READ_ONLY:
                    raise
                return time.time()
            read_at = boot_seconds()
            self._read[device] = made_at, read_at
        return made_at + boot_seconds() - read_at


def opened(_: LocalSettings) -> LocalStore:
    """Open the file system."""
    return LocalStore()
