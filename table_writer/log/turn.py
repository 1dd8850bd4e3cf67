"""Whose turn it is to publish a staged append.

Its publisher copies files below the write's own prefix, and two at once would take each other's copies away.
All other modes publish without touching a file, and the order of claims alone decides between two publishers.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, Self

from table_writer.errors import ConflictError, StorageError
from table_writer.log.deadline import boot_seconds
from table_writer.log.heartbeat import Heartbeat
from table_writer.log.registration import MISSED_HEARTBEATS, Registered
from table_writer.log.signs import read_signs, sign_prefix, write_id_of_sign
from table_writer.log.stored import small_json
from table_writer.model.write import TableLayout, WritePlan
from table_writer.storage.object_store import ObjectStore, StoredObject

__all__ = ["Turn", "held_ids"]

logger = logging.getLogger(__name__)

GIVEN_BACK: Final = "given_back"
HELD_HEARTBEATS: Final = MISSED_HEARTBEATS - 1  # its holder stops that much earlier than others take it for dead


class Turn:
    """Takes the turn on entering, keeps it with a heartbeat, gives it back on leaving.

    The turns of a write are numbered, and a number is never used again while the write is staged: so what a process
    that was paused does to its own turn does nothing to another's. The next one is taken with a conditional put, and
    only once the one before it has been given back or its process is dead.

    A holder stops by itself before others take it for dead: it calls :meth:`require` before each change.

    Parameters
    ----------
    store, plan
        The staged write.
    identity
        Who publishes.
    heartbeat_seconds
        How often the turn is renewed; five missed and it is over.
    clock
        Seconds that only grow; a double in tests.
    """

    def __init__(
        self,
        store: ObjectStore,
        plan: WritePlan,
        identity: dict[str, str],
        *,
        heartbeat_seconds: float,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        self._store = store
        self._plan = plan
        self._heartbeat_seconds = heartbeat_seconds
        self._clock = clock
        self._fields = {
            "format": 1,
            "renewed_every_seconds": heartbeat_seconds,
            "writer": identity,
            "token": secrets.token_hex(8),  # a put is taken for ours by its bytes: those of another thread differ
        }

    def __enter__(self) -> Self:
        layout, write_id = self._plan.layout, self._plan.write_id
        self._earlier = read_signs(self._store, layout, write_id, "turn")
        if self._earlier:
            newest = self._store.get(self._earlier[-1])
            if newest is None or not is_over(write_id, newest):  # None: it was published or discarded this moment
                raise self._taken()
        number = int(self._earlier[-1].rpartition("-")[2]) + 1 if self._earlier else 1
        self._key = f"{sign_prefix(layout, write_id, 'turn')}{number:05d}"
        body = json.dumps(self._fields).encode()
        self._heartbeat = Heartbeat(
            self._store, self._key, body, every_seconds=self._heartbeat_seconds, write_id=write_id
        )
        if not self._store.put_if_absent(self._key, body):
            raise self._taken()
        self._heartbeat.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._heartbeat.stop()
        try:
            self._store.put(self._key, json.dumps({**self._fields, GIVEN_BACK: True}).encode())
            self._store.delete(self._earlier)
        except StorageError as failure:  # readers may have switched already; another process finds it dead
            logger.warning("write_id=%s its turn was not given back: %s", self._plan.write_id, failure)

    def require(self) -> None:
        """Refuse to go on once others may have taken this process for dead.

        Raises
        ------
        ConflictError
            Its heartbeat has failed, or the process was paused, for too long.
        """
        if self._clock() - self._heartbeat.renewed_at > HELD_HEARTBEATS * self._heartbeat_seconds:
            raise ConflictError(
                f"this process gave no sign of life for too long while it was publishing write {self._plan.write_id} of"
                f" {self._plan.table.name}, and another may have taken over; nothing was published by this one. Look"
                f" with `table-writer staged {self._plan.table.name}`, and publish again.",
                table=str(self._plan.table.name),
                write_id=self._plan.write_id,
            )

    def _taken(self) -> ConflictError:
        return ConflictError(
            f"write {self._plan.write_id} of {self._plan.table.name} is being published by another process; nothing was"
            " published by this one. Wait for the other; if its process is gone, call again in some minutes.",
            table=str(self._plan.table.name),
            write_id=self._plan.write_id,
        )


def is_over(write_id: str, turn: StoredObject) -> bool:
    """Whether the holder of a turn has given it back, or is dead."""
    try:
        fields = small_json(turn.body)
    except (ValueError, RecursionError):
        fields = None
    given_back = isinstance(fields, dict) and fields.get(GIVEN_BACK) is True
    return given_back or Registered.parse(write_id, turn.info.key, turn).is_dead(0.0)


def held_ids(store: ObjectStore, layout: TableLayout, signs: Iterable[str]) -> frozenset[str]:
    """Return the writes that a living process publishes at this moment, given the signs that were found."""
    newest = {write_id_of_sign(layout, key) or "": key for key in sorted(signs) if ".turn-" in key}
    stored = {write_id: store.get(key) for write_id, key in newest.items()}
    return frozenset(
        write_id for write_id, found in stored.items() if found is not None and not is_over(write_id, found)
    )
