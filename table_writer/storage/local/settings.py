"""Settings to open the file system: there are none."""

from __future__ import annotations

from dataclasses import dataclass

from table_writer.storage.object_store import StoreSettings


@dataclass(frozen=True, slots=True)
class LocalSettings(StoreSettings):
    """The file system of the machine (or a mount that all machines of a cluster share)."""
