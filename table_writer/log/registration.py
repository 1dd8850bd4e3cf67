"""The sign that a write is running: an object that its writer renews, so that nobody takes it for dead."""

from __future__ import annotations

import getpass
import json
import logging
import os
import socket
import threading
from types import TracebackType
from typing import Final, Self

from table_writer.errors import StorageError
from table_writer.model.write import WritePlan
from table_writer.storage.object_store import ObjectStore
from table_writer.version import __version__

__all__ = ["Registration", "writer_identity"]

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS: Final = 60.0


def writer_identity(application_id: str) -> dict[str, str]:
    """Say who writes, for people who read the log. Holds no credential."""
    return {
        "host": socket.gethostname(),
        "pid": str(os.getpid()),
        "user": _user(),
        "application_id": application_id,
        "library_version": __version__,
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container that runs under a number without a name
        return str(os.getuid())


class Registration:
    """Registers a write on entering, renews it from a thread, removes it on leaving.

    The heartbeat is the object's LastModified: no two hosts' clocks are ever compared.
    """

    def __init__(self, store: ObjectStore, plan: WritePlan, identity: dict[str, str]) -> None:
        self._store = store
        self._key = plan.layout.registration_key(plan.write_id)
        self._write_id = plan.write_id
        self._body = json.dumps(
            {
                "format": 1,
                "table": str(plan.table.name),
                "write_id": plan.write_id,
                "mode": plan.mode.value,
                "base_version": plan.base_version,
                "created_at": plan.created_at.isoformat(),
                "state": "running",
                "writer": identity,
            }
        ).encode()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._renew, name=f"heartbeat-{plan.write_id}", daemon=True)

    def __enter__(self) -> Self:
        self._store.put(self._key, self._body)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()
        try:
            self._store.delete([self._key])
        except StorageError as failure:
            logger.warning("write_id=%s its registration %s was not removed: %s", self._write_id, self._key, failure)

    def _renew(self) -> None:
        while not self._stopped.wait(HEARTBEAT_SECONDS):
            try:
                self._store.put(self._key, self._body)
            except StorageError as error:
                logger.warning("write_id=%s heartbeat failed, trying again: %s", self._write_id, error)
