"""The objects that say that a write is running or staged, and what checks of a staged one have found.

A running write is an object that its process renews. A staged one is a record, put once, that says when it expires; the
results of its checks are objects beside it, each put once: two processes that check at the same moment lose nothing.
"""

from __future__ import annotations

import getpass
import json
import logging
import os
import re
import secrets
import socket
import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from table_writer.errors import DamagedError, InvalidInputError, StorageError
from table_writer.model.check_result import CheckResult
from table_writer.model.entry import WRITE_ID
from table_writer.model.location import Location
from table_writer.model.process import this_process
from table_writer.model.staged_write import LONGEST_EXPIRY_SECONDS, StagedRecord
from table_writer.model.units import HOUR_SECONDS
from table_writer.model.write import TableLayout, WritePlan
from table_writer.protocol.log.stored import Allowance, TooMuchError, packed
from table_writer.storage.object_store import ObjectStore, StoredObject

logger = logging.getLogger(__name__)
MISSED_HEARTBEATS: Final = 5  # after so many in a row a writer counts as dead, if it is old enough
PID: Final = re.compile("[0-9]{1,10}")  # Linux: at most 4,194,304
CHECK: Final = re.compile(r"(?P<write_id>.+)\.checks-[0-9]{8}T[0-9]{12}-[0-9a-f]{16}")
LONGEST_HEARTBEAT_SECONDS: Final = float(
    HOUR_SECONDS
)  # the most that a registration may claim; an unreadable one gets it


def writer_identity(application_id: str) -> dict[str, str]:
    """Say who writes, for people who read the log. Holds no credential."""
    from table_writer.version import __version__  # noqa: PLC0415 - who reads a log alone does not need it

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
class FoundRegistration:
    """A registration as another process finds it."""

    write_id: str
    key: str
    age_seconds: float  # since the last heartbeat, or since it was staged, by the store's clock
    renewed_every_seconds: float
    writer: Mapping[str, str] = field(default_factory=dict)
    put_at: datetime | None = None  # by the store's clock
    expires_after_seconds: float | None = None  # None: it is running
    base_version: int = 0  # at which the write was planned; 0 where that cannot be read
    staged: Mapping[str, Any] = field(default_factory=dict, repr=False)  # as stored; see ``record``

    @classmethod
    def parse(cls, write_id: str, stored: StoredObject, allowance: Allowance, *, is_staged: bool) -> FoundRegistration:
        """Read what is registered of a write. Of what cannot be read the age is known, and the longest times count.

        Raises ``InvalidInputError`` if it does not fit into what the reading that it belongs to may take.
        """
        body = _fields(stored.info.key, stored.body, allowance)
        staged = _dict(body.get("staged")) if is_staged and body.get("write_id") == write_id else {}
        expires_after_seconds = _seconds(staged.get("expires_after_seconds"), LONGEST_EXPIRY_SECONDS)
        return cls(
            write_id=write_id,
            key=stored.info.key,
            age_seconds=stored.age_seconds,
            renewed_every_seconds=_seconds(body.get("renewed_every_seconds"), LONGEST_HEARTBEAT_SECONDS),
            writer={str(name): str(value) for name, value in _dict(body.get("writer")).items()},
            put_at=stored.info.modified_at,
            expires_after_seconds=expires_after_seconds if is_staged else None,
            base_version=_version((staged if is_staged else body).get("base_version")),
            staged=staged,
        )

    @property
    def is_staged(self) -> bool:
        """Return whether the write waits to be published or discarded, and no process has to be alive for it."""
        return self.expires_after_seconds is not None

    def record(self, layout: TableLayout) -> StagedRecord:
        """Read what was staged; ``InvalidInputError`` if it cannot be read."""
        return StagedRecord.from_fields(self.staged, layout=layout, write_id=self.write_id)

    def is_dead(self, older_than_seconds: float) -> bool:
        """Return whether nothing will come of the write any more.

        A running one is dead if it has missed several heartbeats and is older than asked for, or if its process ran on
        this very machine and is gone. A staged write is dead once it has expired, whoever staged it.
        """
        if self.expires_after_seconds is not None:
            return self.age_seconds > self.expires_after_seconds
        silent = self.age_seconds > max(older_than_seconds, MISSED_HEARTBEATS * self.renewed_every_seconds)
        return silent or (self.age_seconds >= older_than_seconds and self._process_is_gone())

    def _process_is_gone(self) -> bool:
        here, there = _process(os.getpid()), self.writer.get("process", "")
        pid = self.writer.get("pid", "")
        same_place = here and there.rsplit("/", 2)[0] == here.rsplit("/", 2)[0]
        return bool(same_place and PID.fullmatch(pid) and _process(int(pid)) != there)


def read_registrations(store: ObjectStore, layout: TableLayout) -> dict[str, FoundRegistration]:
    """Read the registrations of all writes that are running, staged or dead, by ``write_id``.

    Running ones are listed first: a write that is staged meanwhile is found in one of the two lists.
    """
    ids = (*_ids_below(store, layout.registrations), *_ids_below(store, layout.all_staged))
    allowance = Allowance()
    found = (read_registration(store, layout, write_id, allowance) for write_id in dict.fromkeys(ids))
    return {registration.write_id: registration for registration in found if registration is not None}


def read_registration(
    store: ObjectStore, layout: TableLayout, write_id: str, allowance: Allowance | None = None
) -> FoundRegistration | None:
    """Read the registration of one write, ``None`` if there is none; once it is staged, nothing else counts."""
    for key, is_staged in ((layout.staged_key(write_id), True), (layout.registration_key(write_id), False)):
        stored = store.get(key)
        if stored is not None:
            return FoundRegistration.parse(write_id, stored, allowance or Allowance(), is_staged=is_staged)
    return None


def put_staged(store: ObjectStore, record: StagedRecord) -> None:
    """Register a write as staged; from now on any process may publish or discard it."""
    plan = record.plan
    body = {
        "format": 1,
        "table": str(plan.table.name),
        "write_id": plan.write_id,
        "writer": dict(record.writer),
        "staged": record.to_fields(),
    }
    store.put(plan.layout.staged_key(plan.write_id), packed(json.dumps(body, ensure_ascii=False).encode()))


def write_id_of_check(layout: TableLayout, key: str) -> str | None:
    """Return the write whose check results are at a key, ``None`` if the key is none of such."""
    found = CHECK.fullmatch(key.removeprefix(layout.all_staged.key))
    return found and found["write_id"]


def check_keys(store: ObjectStore, layout: TableLayout, write_id: str = "") -> list[str]:
    """List the keys of results of checks, of one write or of all."""
    found = [info.key for info in store.list(f"{layout.all_staged.key}{write_id}")]
    return [key for key in found if (of := write_id_of_check(layout, key)) and of == (write_id or of)]


def put_check_results(store: ObjectStore, layout: TableLayout, write_id: str, results: Iterable[CheckResult]) -> None:
    """Keep what checks have found, without rows of the data."""
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{secrets.token_hex(8)}"
    body = json.dumps([result.to_json() for result in results], ensure_ascii=False).encode()
    store.put(f"{layout.all_staged.key}{write_id}.checks-{name}", body)


def read_check_results(store: ObjectStore, keys: Collection[str]) -> tuple[CheckResult, ...]:
    """Read what checks have found, oldest first by the store's clock.

    Raises ``InvalidInputError`` if one of the objects cannot be read: it may say that the rows are wrong.
    """
    stored = sorted(
        (found for found in map(store.get, keys) if found is not None),
        key=lambda found: (found.info.modified_at, found.info.key),
    )
    results: list[CheckResult] = []
    allowance = Allowance()
    for found in stored:
        try:
            results += map(CheckResult.from_json, allowance.parsed(found.body, json.loads))
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise DamagedError(
                f"the results of checks at {found.info.key} cannot be read: {error}. Put the object back from an older"
                " version; or delete it, and run the checks again"
            ) from error
    return tuple(results)


def _ids_below(store: ObjectStore, directory: Location) -> list[str]:
    names = (info.key.removeprefix(directory.key) for info in store.list(directory.key))
    ids = (write_id for write_id, suffix, rest in (name.partition(".json") for name in names) if suffix and not rest)
    return [write_id for write_id in ids if WRITE_ID.fullmatch(write_id)]


def _fields(key: str, body: bytes, allowance: Allowance) -> dict[str, Any]:
    try:
        return _dict(allowance.parsed(body, msgspec.json.decode))
    except TooMuchError as error:
        raise InvalidInputError(f"registration {key} cannot be read beside the others: {error}") from error
    except (ValueError, RecursionError):  # half written by hand: its age still tells when it was put
        return {}


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _seconds(value: object, longest: float) -> float:
    """Read a time; what is no time, or too long for one, counts as the longest."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= longest
    return float(value) if known and isinstance(value, int | float) else longest


def _version(value: object) -> int:
    """Read a version; what is none counts as the first."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def id_was_used_error(write_id: str, table: str) -> InvalidInputError:
    """Return the error for a ``write_id`` of the caller that was used before."""
    return InvalidInputError(
        f"write_uuid={write_id!r} was used before for {table}: a write_id is never used again. Give a new one for each"
        " run, retries too; an idempotency_key is what recognises a repeated call. Nothing was written.",
        table=table,
        write_id=write_id,
    )


class Registration:
    """Registers a write as running on entering, renews that from a thread, and removes it on leaving.

    No two hosts' clocks are ever compared.
    """

    def __init__(
        self, store: ObjectStore, plan: WritePlan, identity: dict[str, str], *, heartbeat_seconds: float
    ) -> None:
        self._store = store
        self._plan = plan
        self._key = plan.layout.registration_key(plan.write_id)
        self._body = json.dumps(
            {
                "format": 1,
                "table": str(plan.table.name),
                "write_id": plan.write_id,
                "mode": plan.mode.value,
                "base_version": plan.base_version,
                "created_at": plan.created_at.isoformat(),
                "renewed_every_seconds": heartbeat_seconds,
                "writer": identity,
            }
        ).encode()
        self._heartbeat_seconds = heartbeat_seconds
        self._process = this_process()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._renew, name=f"heartbeat-{plan.write_id}", daemon=True)

    def __enter__(self) -> Self:
        self._store.put(self._key, self._body)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is this_process():  # a forked child that leaves the block ends nothing
            self._stopped.set()
            self._thread.join()
            remove_registration(self._store, [self._key], self._plan.write_id)

    def _renew(self) -> None:
        while not self._stopped.wait(self._heartbeat_seconds):
            try:
                self._store.put(self._key, self._body)
            except StorageError as error:
                logger.warning("write_id=%s heartbeat failed, trying again: %s", self._plan.write_id, error)


def remove_registration(store: ObjectStore, keys: Collection[str], write_id: str) -> None:
    """Delete the registration of a finished write; if that fails, a vacuum does it."""
    try:
        store.delete(list(keys))
    except StorageError as failure:
        logger.warning("write_id=%s what is registered of it was not removed: %s", write_id, failure)
