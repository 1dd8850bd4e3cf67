"""Encoded bytes on their way to the store: parts, the threads that send them, and the undo of it all."""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import IO, Any, Final, Self

from table_writer.errors import TableWriterError
from table_writer.jobs.upload.partitioning import disk_errors, local_directory
from table_writer.model.message import UploadedPart
from table_writer.model.upload_spec import MIN_PART_BYTES, UploadSpec
from table_writer.storage.object_store import ObjectStore

_logger = logging.getLogger(__name__)
MAX_PARTS: Final = 10_000  # S3: parts in one upload
SPARE_PARTS: Final = 1_000  # of those, kept for the row group and footer that end a file


class PartSink:
    """A file that Arrow writes to; sends what is written as parts of one pending upload, all but the last alike.

    Some stores complete no upload whose parts differ in length. The upload is created on a sending thread, when the
    first part is there: a small file costs the encoder no wait.
    """

    closed = False  # Arrow asks

    def __init__(self, key: str, uploads: Uploads) -> None:
        self.key = key
        self.held_bytes = 0  # in memory, of the part that fills
        self.size_bytes = 0
        self.upload_id = ""
        self.parts: list[Future[UploadedPart]] = []
        self._uploads = uploads
        self._held: list[bytes] = []
        self._scratch: IO[bytes] | None = None
        self._scratch_bytes = 0  # on local disk, of the part that fills; they come before those in memory
        self._creating = threading.Lock()

    def write(self, data: Any) -> int:
        """Take encoded bytes; blocks while too many are being sent."""
        size_bytes = len(data)
        rest = memoryview(data)
        while rest and not self._uploads.ended:  # Arrow ends a file that was given up when it is collected as garbage
            piece = bytes(rest[: self._uploads.part_size_bytes - self._scratch_bytes - self.held_bytes])
            rest = rest[len(piece) :]
            self._held.append(piece)
            self.held_bytes += len(piece)
            self.size_bytes += len(piece)
            self._uploads.take_bytes(self, len(piece))
        return size_bytes

    def flush(self) -> None:
        """Nothing to do: parts go out as they fill."""

    def close(self) -> None:
        """Nothing to do: :meth:`finish` sends what is left."""

    @property
    def is_full(self) -> bool:
        """Return whether the part that fills has its length."""
        return self.held_bytes + self._scratch_bytes == self._uploads.part_size_bytes

    @property
    def is_nearly_full(self) -> bool:
        """Return whether the next row group belongs in another file."""
        return len(self.parts) >= MAX_PARTS - SPARE_PARTS

    def send(self) -> None:
        """Send what there is as the next part."""
        self._uploads.release_bytes(self.held_bytes)
        stored = self._read_back()
        body = b"".join([stored, *self._held] if stored else self._held)  # of a single piece this makes no copy
        self._held.clear()
        self.held_bytes = 0
        self.parts.append(self._uploads.send(self, len(self.parts) + 1, body))

    def move_to_disk(self) -> None:
        """Make room in memory: a part that is sent early would be shorter than the others."""
        with disk_errors():
            if self._scratch is None:
                self._scratch = tempfile.TemporaryFile(prefix="table_writer-part-", dir=local_directory())  # noqa: SIM115
            self._scratch.writelines(self._held)
        self._uploads.release_bytes(self.held_bytes)
        self._scratch_bytes += self.held_bytes
        self._held.clear()
        self.held_bytes = 0

    def _read_back(self) -> bytes:
        """Take what waits on local disk, and empty the file."""
        if not self._scratch or not self._scratch_bytes:
            return b""
        with disk_errors():
            self._scratch.seek(0)
            stored = self._scratch.read()
            self._scratch.seek(0)
            self._scratch.truncate()
        self._scratch_bytes = 0
        return stored

    def finish(self) -> None:
        """Send what is left as the last part."""
        if self.held_bytes or self._scratch_bytes:
            self.send()
        self._uploads.forget_sink(self)

    def remove_scratch(self) -> None:
        """Delete the scratch file."""
        if self._scratch is not None:
            self._scratch.close()

    def id_of_upload(self, create: Callable[[str], str]) -> str:
        """Return the upload's id; the first thread that asks creates the upload."""
        with self._creating:
            if not self.upload_id:
                self.upload_id = create(self.key)
            return self.upload_id


class Uploads:
    """All uploads of one task attempt. Leaving it by an error, or without :meth:`hand_over`, aborts every one of them.

    Bounded: at most ``max(part_size_bytes, max_open_files × 5 MiB)`` wait in memory to become a part, the rest of them
    on local disk; at most ``upload_threads × part_size_bytes`` are being sent.
    """

    def __init__(self, spec: UploadSpec, store: ObjectStore) -> None:
        self._spec = spec
        self._store = store
        self._undo = ExitStack()
        self._pool = ThreadPoolExecutor(spec.upload_threads, thread_name_prefix="table_writer-upload")
        self._held_bytes = 0
        self._max_held_bytes = max(spec.part_size_bytes, spec.max_open_files * MIN_PART_BYTES)
        self._filling: set[PartSink] = set()
        self._in_flight = _Budget(spec.upload_threads * spec.part_size_bytes)
        self._error: BaseException | None = None
        self.ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.ended = True
        self._pool.shutdown(wait=True, cancel_futures=kind is not None)  # no upload is created after this line
        for sink in tuple(self._filling):
            self.forget_sink(sink)
        self._undo.close()

    @property
    def part_size_bytes(self) -> int:
        """The length of every part but the last of a file."""
        return self._spec.part_size_bytes

    def open(self, key: str) -> PartSink:
        """Return a sink whose bytes become the object ``key`` once somebody completes it."""
        sink = PartSink(key, self)
        self._filling.add(sink)
        return sink

    def take_bytes(self, sink: PartSink, size_bytes: int) -> None:
        """Send a part if this sink has one; move what waits to disk if that is too much in all sinks together."""
        self._held_bytes += size_bytes
        if sink.is_full:
            sink.send()
        elif self._held_bytes > self._max_held_bytes:
            max(self._filling, key=lambda filling: filling.held_bytes).move_to_disk()

    def release_bytes(self, size_bytes: int) -> None:
        """Take note of bytes that wait in memory no more."""
        self._held_bytes -= size_bytes

    def send(self, sink: PartSink, number: int, body: bytes) -> Future[UploadedPart]:
        """Send one part on a thread; blocks while too many bytes are being sent."""
        self._in_flight.take(len(body))
        if self._error is not None:
            raise self._error
        return self._pool.submit(self._send, sink, number, body)

    def forget_sink(self, sink: PartSink) -> None:
        """Forget a file that has all its parts, or is given up."""
        sink.remove_scratch()
        self._filling.discard(sink)

    def hand_over(self) -> None:
        """Keep the uploads: from here the commit message owns them."""
        self._undo.pop_all()

    def _send(self, sink: PartSink, number: int, body: bytes) -> UploadedPart:
        try:
            return self._store.upload_part(sink.key, sink.id_of_upload(self._create), number, body)
        except BaseException as error:
            self._error = self._error or error
            raise
        finally:
            self._in_flight.give_back(len(body))

    def _create(self, key: str) -> str:
        upload_id = self._store.create_upload(key)
        self._undo.callback(self._abort_quietly, key, upload_id)
        return upload_id

    def _abort_quietly(self, key: str, upload_id: str) -> None:
        try:
            self._store.abort_upload(key, upload_id)
        except TableWriterError as error:  # the driver aborts it again, by the prefix of the write
            _logger.warning("upload of %s was not aborted, write_id=%s: %s", key, self._spec.write_id, error)


class _Budget:
    """Bytes that may be under way at a time; one part always may."""

    def __init__(self, size_bytes: int) -> None:
        self._free_bytes = self._size_bytes = size_bytes
        self._changed = threading.Condition()

    def take(self, size_bytes: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._free_bytes >= min(size_bytes, self._size_bytes))
            self._free_bytes -= size_bytes

    def give_back(self, size_bytes: int) -> None:
        with self._changed:
            self._free_bytes += size_bytes
            self._changed.notify_all()
