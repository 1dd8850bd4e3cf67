"""Histories drawn from seeds: whatever happens inside of whatever, and however late, no acknowledged row is lost.

A failing seed is printed with the shortest history that still fails; ``python -m tests.fuzz --seed N`` shows it again.
"""

from __future__ import annotations

import pytest

from .report import failure_of, history, shortest, told

SEEDS = 10  # of one test


def batches(first: int, last: int, *marks: pytest.MarkDecorator) -> list[object]:
    return [pytest.param(one, marks=marks, id=f"seeds-from-{one}") for one in range(first, last, SEEDS)]


@pytest.mark.parametrize("first", [*batches(0, 80), *batches(80, 2_150, pytest.mark.slow)])
def test_readers_see_every_row_that_was_acknowledged_and_no_other(first: int) -> None:
    for seed in range(first, first + SEEDS):
        if failure_of(history(seed)) is not None:
            pytest.fail(f"seed {seed}, shortened:\n{shortest(history(seed))}")


def test_a_seed_is_one_history() -> None:
    assert told(history(7)) == told(history(7))
