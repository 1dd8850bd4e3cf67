"""A thread that puts an object again and again: its LastModified shows that its process is alive."""

from __future__ import annotations

import logging
import threading

from table_writer.errors import StorageError
from table_writer.per_process import this_process
from table_writer.storage.object_store import ObjectStore

__all__ = ["Heartbeat"]

logger = logging.getLogger(__name__)


class Heartbeat:
    """Renews an object from :meth:`start` to :meth:`stop`; no two hosts' clocks are ever compared.

    Parameters
    ----------
    store, key, body
        What is put.
    every_seconds
        How often.
    write_id
        For log lines and the thread's name.
    """

    def __init__(self, store: ObjectStore, key: str, body: bytes, *, every_seconds: float, write_id: str) -> None:
        self._store = store
        self._key = key
        self._body = body
        self._every_seconds = every_seconds
        self._write_id = write_id
        self._process = this_process()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._renew, name=f"heartbeat-{write_id}", daemon=True)

    def start(self) -> None:
        """Begin; the object is there already."""
        self._thread.start()

    def stop(self) -> None:
        """End; afterwards nothing is put any more. More than once is as good; in a fork there is nothing to end."""
        if self.is_ours:
            self._stopped.set()
            self._thread.join()

    @property
    def is_ours(self) -> bool:
        """Whether this process made it: only then what it shows to be alive is this process's to end."""
        return self._process is this_process()

    def _renew(self) -> None:
        while not self._stopped.wait(self._every_seconds):
            try:
                self._store.put(self._key, self._body)
            except StorageError as error:
                logger.warning("write_id=%s heartbeat failed, trying again: %s", self._write_id, error)
