"""Turns: of many calls that change the same rows, one that has lost an attempt to others goes first the next time.

Else it might lose them all: whoever publishes begins the next call before the loser knows. A turn only asks others to
wait, and nothing but their patience depends on it.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from table_writer.errors import StorageError
from table_writer.model.write import new_write_id
from table_writer.protocol.log.stored import small_json
from table_writer.protocol.table.open_table import OpenTable

logger = logging.getLogger(__name__)
LOOK_SECONDS: Final = 0.2  # between two looks whether others are done
LEAST_SECONDS: Final = 5.0  # for which others are asked to wait
MOST_SECONDS: Final = 600.0  # nobody waits longer for one turn, whatever it says
ATTEMPTS: Final = 2.0  # so many times as long as the lost attempt took may the next one take


@dataclass
class Turn:
    """The turn of one call, over all of its attempts."""

    _opened: OpenTable | None = None
    _key: str = ""  # of the object that asks others to wait; empty until an attempt was lost
    _begun: float = 0.0

    def begin(self, opened: OpenTable) -> bool:
        """Let those go first who have lost an attempt before this call did; returns whether there were any."""
        self._opened = opened
        has_waited = False
        while self._others_first(opened):
            has_waited = True
            opened.sleep(LOOK_SECONDS)
        self._begun = time.monotonic()
        return has_waited

    def lost(self) -> None:
        """Ask others to wait for the next attempt."""
        if self._opened is None:
            return
        turns = self._opened.layout.turns
        self._key = self._key or f"{turns.key}{new_write_id()}.json"
        patience = LEAST_SECONDS + ATTEMPTS * (time.monotonic() - self._begun)
        try:
            self._opened.store.put(self._key, json.dumps({"patience_seconds": patience}).encode())
        except StorageError as error:
            logger.warning("others are not asked to wait: %s", error)

    def end(self) -> None:
        """Ask nobody any more."""
        if self._opened is not None and self._key:
            self._remove(self._opened, self._key)

    def _others_first(self, opened: OpenTable) -> bool:
        return any(self._is_waited_for(opened, key) for key in self._earlier_keys(opened))

    def _earlier_keys(self, opened: OpenTable) -> Iterator[str]:
        keys = (found.key for found in opened.store.list(opened.layout.turns.key))
        return (key for key in keys if not self._key or key < self._key)

    def _is_waited_for(self, opened: OpenTable, key: str) -> bool:
        """Return whether a turn still stands; one that has asked for long enough is removed: its process is gone."""
        stored = opened.store.get(key)
        if stored is None:
            return False
        try:
            patience = min(float(small_json(stored.body)["patience_seconds"]), MOST_SECONDS)
        except (ValueError, KeyError, TypeError):  # damaged: nobody waits for it
            patience = 0.0
        if stored.age_seconds <= patience:
            return True
        self._remove(opened, key)
        return False

    def _remove(self, opened: OpenTable, key: str) -> None:
        try:
            opened.store.delete([key])
        except StorageError as error:
            logger.warning("%s stays, and others may wait for it: %s", key, error)
