"""Settings to open a directory with a lock file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from table_writer.storage.locked.store import LockedStore


@dataclass(frozen=True, slots=True)
class LockedSettings:
    """Where the directory is."""

    directory: str

    def open(self) -> LockedStore:
        """Open the store."""
        from table_writer.storage.locked.store import LockedStore  # noqa: PLC0415 - as other stores

        return LockedStore(self)
