"""The sign that a write is running: an object that its writer renews, so that nobody takes it for dead."""

from __future__ import annotations

import getpass
import json
import logging
import os
import re
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from table_writer.errors import InvalidInputError, StorageError
from table_writer.model.entry import WRITE_ID
from table_writer.model.write import TableLayout, WritePlan
from table_writer.storage.object_store import ObjectStore
from table_writer.version import __version__

__all__ = ["Registered", "Registration", "read_registrations", "used_before", "writer_identity"]

logger = logging.getLogger(__name__)

MISSED_HEARTBEATS: Final = 5  # so many in a row and the writer is taken for dead, if it is old enough as well
PID: Final = re.compile("[0-9]{1,10}")  # Linux: at most 4,194,304
LONGEST_HEARTBEAT_SECONDS: Final = 3600.0  # what a registration may claim, and what one that cannot be read gets


def writer_identity(application_id: str) -> dict[str, str]:
    """Say who writes, for people who read the log. Holds no credential."""
    return {
        "host": socket.gethostname(),
        "pid": str(os.getpid()),
        "process": _process(os.getpid()),
        "user": _user(),
        "application_id": application_id,
        "library_version": __version__,
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container that runs under a number without a name
        return str(os.getuid())


def _process(pid: int) -> str:
    """Name a process so that no other ever has the name: boot, PID namespace, PID, start; empty where not Linux."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = Path("/proc/self/ns/pid").readlink()
        started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]  # proc(5): field 22, starttime
    except (OSError, IndexError):
        return ""
    return f"{boot}/{namespace}/{pid}/{started}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Registered:
    """A registration as another process finds it."""

    write_id: str
    key: str
    age_seconds: float  # since the last heartbeat, by the store's clock
    renewed_every_seconds: float
    writer: Mapping[str, str] = field(default_factory=dict)

    def is_dead(self, older_than_seconds: float) -> bool:
        """Whether nothing will come of the write any more.

        It has missed several heartbeats and is older than asked for; or its process ran on this very machine and is
        gone.
        """
        silent = self.age_seconds > max(older_than_seconds, MISSED_HEARTBEATS * self.renewed_every_seconds)
        return silent or (self.age_seconds >= older_than_seconds and self._process_is_gone())

    def _process_is_gone(self) -> bool:
        here, there = _process(os.getpid()), self.writer.get("process", "")
        pid = self.writer.get("pid", "")
        same_place = here and there.rsplit("/", 2)[0] == here.rsplit("/", 2)[0]
        return bool(same_place and PID.fullmatch(pid) and _process(int(pid)) != there)


def read_registrations(store: ObjectStore, layout: TableLayout) -> dict[str, Registered]:
    """Read the signs of all writes that are running, staged or dead, by ``write_id``."""
    found: dict[str, Registered] = {}
    for info in store.list(layout.registrations.key):
        write_id, suffix, rest = info.key.removeprefix(layout.registrations.key).partition(".json")
        ours = suffix and not rest and WRITE_ID.fullmatch(write_id)
        stored = store.get(info.key) if ours else None
        if stored is not None:
            body = _fields(stored.body)
            found[write_id] = Registered(
                write_id=write_id,
                key=info.key,
                age_seconds=stored.age_seconds,
                renewed_every_seconds=_heartbeat(body.get("renewed_every_seconds")),
                writer={str(name): str(value) for name, value in _dict(body.get("writer")).items()},
            )
    return found


def _fields(body: bytes) -> dict[str, Any]:
    try:
        return _dict(json.loads(body))
    except (ValueError, RecursionError):  # half written by hand: its age still tells when it was put
        return {}


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _heartbeat(value: object) -> float:
    known = isinstance(value, int | float) and 0 < value <= LONGEST_HEARTBEAT_SECONDS
    return float(value) if known and isinstance(value, int | float) else LONGEST_HEARTBEAT_SECONDS


def used_before(write_id: str, table: str) -> InvalidInputError:
    """Say that a ``write_id`` given by the caller is not a new one."""
    return InvalidInputError(
        f"write_uuid={write_id!r} was used before for {table}: a write_id is never used again. Give a new one for each"
        " run, retries too; an idempotency_key is what recognises a repeated call. Nothing was written.",
        table=table,
        write_id=write_id,
    )


class Registration:
    """Registers a write on entering, renews it from a thread, removes it on leaving.

    The heartbeat is the object's LastModified: no two hosts' clocks are ever compared.
    """

    def __init__(
        self, store: ObjectStore, plan: WritePlan, identity: dict[str, str], *, heartbeat_seconds: float
    ) -> None:
        self._store = store
        self._heartbeat_seconds = heartbeat_seconds
        self._key = plan.layout.registration_key(plan.write_id)
        self._write_id = plan.write_id
        self._table = str(plan.table.name)
        self._named_by_caller = plan.named_by_caller
        self._body = json.dumps(
            {
                "format": 1,
                "table": str(plan.table.name),
                "write_id": plan.write_id,
                "mode": plan.mode.value,
                "base_version": plan.base_version,
                "created_at": plan.created_at.isoformat(),
                "state": "running",
                "renewed_every_seconds": heartbeat_seconds,
                "writer": identity,
            }
        ).encode()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._renew, name=f"heartbeat-{plan.write_id}", daemon=True)

    def __enter__(self) -> Self:
        if not self._named_by_caller:
            self._store.put(self._key, self._body)
        elif not self._store.put_if_absent(self._key, self._body):  # two processes may be given one name
            raise used_before(self._write_id, self._table)
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
        while not self._stopped.wait(self._heartbeat_seconds):
            try:
                self._store.put(self._key, self._body)
            except StorageError as error:
                logger.warning("write_id=%s heartbeat failed, trying again: %s", self._write_id, error)
