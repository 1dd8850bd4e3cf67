"""Encoded bytes on their way to the store: parts, the threads that send them, and the undo of it all."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final, Self

from table_writer.errors import TableWriterError
from table_writer.model.message import UploadedPart
from table_writer.model.upload_spec import MIN_PART_BYTES, UploadSpec
from table_writer.storage.object_store import ObjectStore

_logger = logging.getLogger(__name__)
MAX_PARTS: Final = 10_000  # S3: parts in one upload
SPARE_PARTS: Final = 1_000  # of those, kept for the row group and footer that end a file


class PartSink:
    """A file that Arrow writes to; sends what is written as parts of one pending upload.

    The upload is created on a sending thread, when the first part is there: a small file costs the encoder no wait.
    """

    closed = False  # Arrow asks

    def __init__(self, key: str, uploads: Uploads) -> None:
        self.key = key
        self.unsent_bytes = 0
        self.size_bytes = 0
        self.upload_id = ""
        self.parts: list[Future[UploadedPart]] = []
        self._uploads = uploads
        self._unsent: list[bytes] = []
        self._creating = threading.Lock()

    def write(self, data: bytes) -> int:
        """Take encoded bytes; blocks while too many are being sent."""
        if self._uploads.ended:
            return len(data)  # Arrow ends a file that was given up when it is collected as garbage
        self._unsent.append(data)
        self.unsent_bytes += len(data)
        self.size_bytes += len(data)
        self._uploads.took(self, len(data))
        return len(data)

    def flush(self) -> None:
        """Nothing to do: parts go out as they fill."""

    def close(self) -> None:
        """Nothing to do: :meth:`finish` sends what is left."""

    @property
    def is_nearly_full(self) -> bool:
        """Whether the next row group belongs into another file."""
        return len(self.parts) >= MAX_PARTS - SPARE_PARTS

    def send(self) -> None:
        body = self._unsent[0] if len(self._unsent) == 1 else b"".join(self._unsent)
        number = len(self.parts) + 1
        self._unsent.clear()
        self.unsent_bytes = 0
        self.parts.append(self._uploads.send(self, number, body))

    def finish(self) -> None:
        if self._unsent:
            self.send()
        self._uploads.closed(self)

    def created(self, create: Callable[[str], str]) -> str:
        """Return the upload's id; the first thread that asks creates the upload."""
        with self._creating:
            if not self.upload_id:
                self.upload_id = create(self.key)
            return self.upload_id


class Uploads:
    """All uploads of one task attempt. Leaving it by an error, or without :meth:`hand_over`, aborts every one of them.

    Bounded: at most ``max(part_size_bytes, max_open_files × 5 MiB)`` wait to become a part, at most
    ``upload_threads × part_size_bytes`` are being sent.
    """

    def __init__(self, spec: UploadSpec, store: ObjectStore) -> None:
        self._spec = spec
        self._store = store
        self._undo = ExitStack()
        self._pool = ThreadPoolExecutor(spec.upload_threads, thread_name_prefix="table_writer-upload")
        self._unsent_bytes = 0
        self._max_unsent_bytes = max(spec.part_size_bytes, spec.max_open_files * MIN_PART_BYTES)
        self._filling: set[PartSink] = set()
        self._in_flight = _Budget(spec.upload_threads * spec.part_size_bytes)
        self._error: BaseException | None = None
        self.ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.ended = True
        self._pool.shutdown(wait=True, cancel_futures=kind is not None)  # no upload is created after this line
        self._undo.close()

    def open(self, key: str) -> PartSink:
        """Return a sink whose bytes become the object ``key`` once somebody completes it."""
        sink = PartSink(key, self)
        self._filling.add(sink)
        return sink

    def took(self, sink: PartSink, size_bytes: int) -> None:
        """Send a part if this sink has one, or if too much waits in all sinks together."""
        self._unsent_bytes += size_bytes
        if sink.unsent_bytes >= self._spec.part_size_bytes:
            sink.send()
        elif self._unsent_bytes > self._max_unsent_bytes:
            fullest = max(self._filling, key=lambda filling: filling.unsent_bytes)
            if fullest.unsent_bytes >= MIN_PART_BYTES:
                fullest.send()

    def send(self, sink: PartSink, number: int, body: bytes) -> Future[UploadedPart]:
        """Send one part on a thread; blocks while too many bytes are being sent."""
        self._unsent_bytes -= len(body)
        self._in_flight.take(len(body))
        if self._error is not None:
            raise self._error
        return self._pool.submit(self._send, sink, number, body)

    def closed(self, sink: PartSink) -> None:
        self._filling.discard(sink)

    def hand_over(self) -> None:
        """Keep the uploads: from here the commit message owns them."""
        self._undo.pop_all()

    def _send(self, sink: PartSink, number: int, body: bytes) -> UploadedPart:
        try:
            return self._store.upload_part(sink.key, sink.created(self._create), number, body)
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
