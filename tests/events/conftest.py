from __future__ import annotations

import pytest

from table_writer.config import TableWriterConfig
from table_writer.events import TableEvent
from tests.publish.world import World


@pytest.fixture
def told() -> list[TableEvent]:
    """Return what a listener of the world was told, oldest first."""
    return []


@pytest.fixture
def world(told: list[TableEvent]) -> World:
    """Return a table with one version, whose every call is told of."""
    world = World(config=TableWriterConfig(listeners=[told.append]))
    world.write({"d1": frozenset({1, 2}), "d2": frozenset({3})})
    return world
