"""Counting requests by kind, from several threads."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping

from table_writer.per_process import PerProcess

__all__ = ["RequestCounter"]


class RequestCounter:
    """How many requests of each kind were sent; a forked process counts on from what there was.

    Examples
    --------
    >>> counter = RequestCounter()
    >>> counter.add("PutObject")
    >>> dict(counter.counts())
    {'PutObject': 1}
    """

    def __init__(self) -> None:
        self._lock = PerProcess(threading.Lock)
        self._counts: Counter[str] = Counter()

    def add(self, kind: str) -> None:
        """Count one more."""
        with self._lock.get():
            self._counts[kind] += 1

    def counts(self) -> Mapping[str, int]:
        """Return a copy of the counts so far."""
        with self._lock.get():
            return dict(self._counts)
