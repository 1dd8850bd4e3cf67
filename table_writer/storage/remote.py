"""What S3 and Azure share: a client for each process, claims of a key, and reads that are tried again."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from table_writer.errors import StorageError
from table_writer.model.message import UploadedPart
from table_writer.model.process import PerProcess
from table_writer.storage.object_store import (
    ObjectInfo,
    RequestCounter,
    StoredObject,
    UploadInfo,
    gone_upload_message,
    require_directory,
)

_logger = logging.getLogger(__name__)
CLAIM_ATTEMPTS: Final = 5
READ_ATTEMPTS: Final = 4
PAUSE_SECONDS: Final = 0.2  # doubled with each attempt
MAY_BE_STORED: Final = frozenset({0, 408, 409, 412, 500, 502, 503, 504})  # a put with such an answer (0: none) may be
COPY_THREADS: Final = 4  # of one file; several files are copied at a time as well

Client = TypeVar("Client")


class RemoteStore(ABC, Generic[Client]):
    """A bucket or container behind a client of its SDK. Safe to use from several threads; not picklable.

    A forked process makes a client of its own at its first call.
    """

    def __init__(self, settings: Any, *, sleep: Callable[[float], object] = time.sleep) -> None:
        self._settings = settings
        self._sleep = sleep
        self._counter = RequestCounter()
        self._clients = PerProcess(self._open)
        self._clients.get()  # what is wrong with the settings is said here

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._settings!r})"

    @property
    def client(self) -> Client:
        """The SDK's client; nothing outside ``table_writer.storage`` uses it."""
        return self._clients.get()

    def request_counts(self) -> Mapping[str, int]:
        return self._counter.counts()

    def put_if_absent(self, key: str, body: bytes) -> bool:
        for _ in self._attempts(CLAIM_ATTEMPTS):
            unknown = self._put_new(key, body)
            if unknown is None:
                return True
            failure = unknown
            present = self.get(key)
            if present is not None:
                return present.body == body
        raise failure

    def list_uploads(self, prefix: str) -> Iterator[UploadInfo]:
        """Iterate over pending uploads below the prefix; refuse one that could match other writers'."""
        require_directory(prefix)
        return self._uploads(prefix)

    @abstractmethod
    def get(self, key: str) -> StoredObject | None: ...

    @abstractmethod
    def head(self, key: str) -> ObjectInfo | None: ...

    @abstractmethod
    def abort_upload(self, key: str, upload_id: str) -> None: ...

    @abstractmethod
    def _open(self) -> Client: ...

    @abstractmethod
    def _put_new(self, key: str, body: bytes) -> StorageError | None:
        """Store an object unless the key exists; return the failure after which it may be stored, raise any other."""

    @abstractmethod
    def _uploads(self, prefix: str) -> Iterator[UploadInfo]: ...

    @abstractmethod
    def _where(self, key: str) -> str: ...

    def _attempts(self, count: int) -> Iterator[int]:
        """Yield the numbers of attempts, from 0 on, with a pause before each but the first."""
        for attempt in range(count):
            self._pause(attempt)
            yield attempt

    def _pause(self, attempt: int) -> None:
        if attempt:
            self._sleep(PAUSE_SECONDS * 2 ** (attempt - 1))

    def _require_completed(self, key: str, parts: Sequence[UploadedPart], cause: Exception) -> None:
        """Raise unless the object of an upload that is gone is there: this may answer a repeat of our own request."""
        present = self.head(key)
        if present is None or present.size_bytes != sum(part.size_bytes for part in parts):
            raise StorageError(gone_upload_message(self._where(key))) from cause

    def _abort_quietly(self, key: str, upload_id: str) -> None:
        try:
            self.abort_upload(key, upload_id)
        except StorageError as error:  # whoever gives up the write aborts it again, by the write's prefix
            _logger.warning("the copy to %s failed, and its upload was not aborted: %s", key, error)
