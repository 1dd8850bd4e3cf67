"""Which cells of a matrix the fast run holds."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def first_fast(cells: Iterable[object], count: int = 1) -> list[object]:
    """Leave all but the first cells to the slow run: they go the same way with another word in it."""
    return [pytest.param(one, marks=[] if index < count else [pytest.mark.slow]) for index, one in enumerate(cells)]
