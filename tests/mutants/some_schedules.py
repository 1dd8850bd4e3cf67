"""A few histories of the fuzzer and schedules of the explorer, for ``make mutants``: all would take too long."""

from __future__ import annotations

import pytest

from tests.explore.scenarios import TRIPLES
from tests.explore.search import BUDGETED, Exploration
from tests.fuzz.report import failure_of, history


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_readers_see_every_row_that_was_acknowledged_and_no_other(first: int) -> None:
    assert not [seed for seed in range(first, first + 20) if failure_of(history(seed)) is not None]


@pytest.mark.parametrize("part", range(4))
def test_promises_hold_whoever_meets_whom(part: int) -> None:
    for actors in TRIPLES[""][part::4]:
        exploration = Exploration(actors, BUDGETED)
        exploration.sample(2)
        assert exploration.failures == []
