from __future__ import annotations

from collections.abc import Iterator

import pytest

from table_writer.testing import Lakehouse

from .trino import MINUTES_OF_CACHE, TrinoServer


@pytest.fixture(scope="session")
def trino(lakehouse: Lakehouse) -> Iterator[TrinoServer]:
    """A running Trino over the lakehouse, with its caches at their defaults."""
    with TrinoServer(lakehouse) as server:
        yield server


@pytest.fixture(scope="module")
def caching_trino(lakehouse: Lakehouse) -> Iterator[TrinoServer]:
    """One that remembers what metastore and store said for five minutes."""
    with TrinoServer(lakehouse, MINUTES_OF_CACHE) as server:
        yield server
