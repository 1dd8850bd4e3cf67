"""What a write took: seconds per step, storage requests and metastore calls; it tells the progress which step it is."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from table_writer.metastore.protocol import Metastore
from table_writer.progress import current
from table_writer.storage.object_store import ObjectStore

__all__ = ["Stopwatch"]


class Stopwatch:
    """Counts from the moment it is made.

    Parameters
    ----------
    metastore
        Counts all it ever sent; other writes of this session that run at the same time are counted along.
    """

    def __init__(self, metastore: Metastore) -> None:
        self._metastore = metastore
        self._calls_before = Counter(metastore.call_counts())
        self._request_counts: Callable[[], Mapping[str, int]] = dict
        self._requests_before: Counter[str] = Counter()
        self._executor_requests: Counter[str] = Counter()
        self.seconds: dict[str, float] = {}

    def follow(self, store: ObjectStore) -> None:
        """Count the driver's requests to this store from now on."""
        self._request_counts = store.request_counts
        self._requests_before = Counter(store.request_counts())

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time one step, and show that it is this one."""
        current().begin(name)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def add_requests(self, counts: Mapping[str, int]) -> None:
        """Add what executors sent, by kind."""
        self._executor_requests.update(counts)

    def storage_requests(self) -> Mapping[str, int]:
        """Requests sent so far, by kind, driver and executors together."""
        return dict(Counter(self._request_counts()) - self._requests_before + self._executor_requests)

    def metastore_calls(self) -> Mapping[str, int]:
        """Calls sent so far, by Thrift method."""
        return dict(Counter(self._metastore.call_counts()) - self._calls_before)
