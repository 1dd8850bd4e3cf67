"""What the demo counts as a fault."""

from __future__ import annotations

import pytest

from demo.reader import Observation, judge

BEFORE = {5: (10, 55), 6: (20, 66), 7: (30, 77)}
AFTER = {5: (10, 55), 6: (18, 67), 7: (30, 78)}


@pytest.mark.parametrize(
    ("content", "counted"),
    [
        (BEFORE, "before"),
        (AFTER, "after"),
        ({**BEFORE, 6: AFTER[6]}, "with_some_switched"),
        ({5: BEFORE[5], 6: BEFORE[6]}, "with_rows_missing"),
        ({}, "with_rows_missing"),
        ({**BEFORE, 6: (17, 60)}, "with_rows_missing"),
        ({**BEFORE, 6: (38, 133)}, "with_half_switched"),
        ({**AFTER, 7: (30, 5)}, "with_half_switched"),
        ({**BEFORE, 5: (11, 56)}, "with_half_switched"),
    ],
)
def test_every_content_is_counted_as_what_it_is(content: dict[int, tuple[int, int]], counted: str) -> None:
    tally = judge([Observation(content=content)], BEFORE, AFTER, overwrites=1)
    names = ("before", "after", "with_some_switched", "with_rows_missing", "with_half_switched", "failed")
    assert [name for name in names if getattr(tally, name)] == [counted]
    assert tally.broken == (counted in {"with_rows_missing", "with_half_switched"})


def test_failed_queries_are_faults() -> None:
    tally = judge([Observation(content=BEFORE), Observation(content={}, error="gone")], BEFORE, AFTER, overwrites=1)
    assert (tally.queries, tally.failed, tally.broken, tally.first_error) == (2, 1, 1, "gone")
