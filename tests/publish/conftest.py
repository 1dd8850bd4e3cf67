from __future__ import annotations

import pytest

from tests.publish.world import World


@pytest.fixture
def world() -> World:
    """Return an empty table over doubles."""
    return World()
