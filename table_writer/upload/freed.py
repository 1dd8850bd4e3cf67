"""Memory that C++ has freed and its allocator keeps."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache

__all__ = ["release_freed_memory"]


def release_freed_memory() -> None:
    """Give freed memory back to the system, where C's library can: glibc's keeps it otherwise.

    Arrow's ORC writer takes a megabyte for each column of a stripe from there, not from Arrow's own pool.
    """
    _trim()(0)


@lru_cache(maxsize=1)
def _trim() -> Callable[[int], object]:
    trim: Callable[[int], object] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim or (lambda _: None)  # musl, macOS
