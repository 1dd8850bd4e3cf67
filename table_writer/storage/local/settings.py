"""Settings to open the file system: there are none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from table_writer.storage.local.store import LocalStore


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """The file system of the machine (or a mount that all machines of a cluster share)."""

    def open(self) -> LocalStore:
        """Open the file system."""
        from table_writer.storage.local.store import LocalStore  # noqa: PLC0415 - for tests and demos

        return LocalStore()
