"""Histories drawn from seeds: whatever happens inside of whatever, and however late, no acknowledged row is lost.

A failing seed is printed with the shortest history that still fails; ``python -m tests.fuzz --seed N`` shows it again.
That of a table without partitions: with ``--unpartitioned``.
"""

from __future__ import annotations

import pytest

from table_writer.protocol.log.fold import fold_from_json, fold_to_json
from table_writer.protocol.log.trimming import Trimming, counts_twice, foldable

from .report import failure_of, history, shortest, told
from .simulation import Simulation

SEEDS = 10  # of one test


def batches(first: int, last: int, *marks: pytest.MarkDecorator) -> list[object]:
    return [pytest.param(one, marks=marks, id=f"seeds-from-{one}") for one in range(first, last, SEEDS)]


def require_promises(first: int, *, unpartitioned: bool = False) -> None:
    for seed in range(first, first + SEEDS):
        drawn = history(seed, unpartitioned=unpartitioned)
        if failure_of(drawn) is not None:
            pytest.fail(f"seed {seed}, shortened:\n{shortest(drawn)}")


@pytest.mark.parametrize("first", [*batches(0, 80), *batches(80, 2_150, pytest.mark.slow)])
def test_readers_see_every_row_that_was_acknowledged_and_no_other(first: int) -> None:
    require_promises(first)


@pytest.mark.parametrize("first", [*batches(0, 20), *batches(20, 400, pytest.mark.slow)])
def test_readers_of_a_table_without_partitions_see_every_row_that_was_acknowledged(first: int) -> None:
    require_promises(first, unpartitioned=True)


@pytest.mark.parametrize("first", [*batches(0, 20), *batches(20, 200, pytest.mark.slow)])
def test_the_state_up_to_a_version_stored_and_what_came_after_it_come_to_the_state_of_all(first: int) -> None:
    for seed in range(first, first + SEEDS):
        drawn = history(seed)
        simulation = Simulation(drawn.partitions)
        simulation.run(drawn.steps, ends=False)
        whole = simulation.world.services().log.read_history(
            simulation.world.services().log.lister.read(listed_after=0, allow_lost=True)
        )
        for version in range(1, foldable(whole) + 1):
            stored = fold_to_json(Trimming(whole.up_to(version)).fold("log"))
            fold = fold_from_json(stored, layout=whole.layout, older_seconds=0.0)
            read_on = whole.but(records=[one for one in whole.records if one.entry.version > version], fold=fold)
            if version in whole.records.by_version and not counts_twice(read_on):
                assert read_on.state.facts() == whole.state.facts()
                assert read_on.in_use() == whole.in_use()


def test_a_seed_is_one_history() -> None:
    assert told(history(7)) == told(history(7))
