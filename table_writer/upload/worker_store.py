"""The store that a Python worker of an executor talks to: one for all tasks that it runs, whatever they do."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from table_writer.storage import open_store
from table_writer.storage.object_store import ObjectStore

__all__ = ["worker_store"]


@lru_cache(maxsize=4)
def worker_store(settings: Any) -> ObjectStore:
    """Open a store once in a process, which takes 100 to 200 ms."""
    return open_store(settings)
