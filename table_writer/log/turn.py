"""Whose turn it is to publish a staged append.

Its publisher copies files below the write's own prefix, and two at once would take each other's copies away.
All other modes publish without touching a file, and the order of claims alone decides between two publishers.
"""

from __future__ import annotations

import json
import logging
import re
from types import TracebackType
from typing import Final, Self

from table_writer.errors import ConflictError, StorageError
from table_writer.log.heartbeat import Heartbeat
from table_writer.log.registration import Registered
from table_writer.model.write import TableLayout, WritePlan
from table_writer.storage.object_store import ObjectStore

__all__ = ["Turn", "read_turns"]

logger = logging.getLogger(__name__)

NUMBERED: Final = re.compile(r"(?P<write_id>.+)\.turn-[0-9]{5}")


class Turn:
    """Takes the turn on entering, keeps it with a heartbeat, gives it back on leaving.

    The turns of a write are numbered. The next one is taken with a conditional put, and only once the one before it has
    been given back or its process is dead.

    Parameters
    ----------
    store, plan
        The staged write.
    identity
        Who publishes.
    heartbeat_seconds
        How often the turn is renewed; five missed and it is over.
    """

    def __init__(
        self, store: ObjectStore, plan: WritePlan, identity: dict[str, str], *, heartbeat_seconds: float
    ) -> None:
        self._store = store
        self._plan = plan
        self._heartbeat_seconds = heartbeat_seconds
        self._body = json.dumps({"format": 1, "renewed_every_seconds": heartbeat_seconds, "writer": identity}).encode()

    def __enter__(self) -> Self:
        prefix = self._plan.layout.turn_prefix(self._plan.write_id)
        earlier = read_turns(self._store, self._plan.layout, self._plan.write_id)
        if earlier and not self._is_over(earlier[-1]):
            raise self._taken()
        number = int(earlier[-1].rpartition("-")[2]) + 1 if earlier else 1
        self._keys = [*earlier, f"{prefix}{number:05d}"]
        if not self._store.put_if_absent(self._keys[-1], self._body):
            raise self._taken()
        self._heartbeat = Heartbeat(
            self._store,
            self._keys[-1],
            self._body,
            every_seconds=self._heartbeat_seconds,
            write_id=self._plan.write_id,
        )
        self._heartbeat.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._heartbeat.stop()
        try:
            self._store.delete(self._keys)
        except StorageError as failure:  # readers may have switched already; another process finds it dead
            logger.warning("write_id=%s its turn was not given back: %s", self._plan.write_id, failure)

    def _is_over(self, key: str) -> bool:
        stored = self._store.get(key)
        if stored is None:  # given back this moment
            return True
        return Registered.parse(self._plan.write_id, key, stored).is_dead(0.0)

    def _taken(self) -> ConflictError:
        return ConflictError(
            f"write {self._plan.write_id} of {self._plan.table.name} is being published by another process; nothing was"
            " published by this one. Wait for the other; if its process is gone, call again in some minutes.",
            table=str(self._plan.table.name),
            write_id=self._plan.write_id,
        )


def read_turns(store: ObjectStore, layout: TableLayout, write_id: str = "") -> list[str]:
    """List the keys of turns that were taken and not given back, in order; of one write, or of all."""
    start = layout.turn_prefix(write_id) if write_id else layout.registrations.key
    return [
        info.key for info in store.list(start) if NUMBERED.fullmatch(info.key.removeprefix(layout.registrations.key))
    ]
