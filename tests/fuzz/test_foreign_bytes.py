"""Foreign bytes: a few seeds at each push, each hour of a night other ones."""

from __future__ import annotations

import random
import time

import pytest

from .foreign_bytes import ATTACKS, attacked, damaged, run

SECONDS_OF_A_NIGHT = 600


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ATTACKS)
def test_a_call_ends_with_an_answer_or_with_an_error_of_this_library(name: str, seed: int) -> None:
    assert attacked(name, seed) == ""


FOUND = [("an Iceberg mirror", 100_001), ("S3", 100_032), ("a Delta mirror", 100_089), ("an Iceberg mirror", 100_194)]


@pytest.mark.parametrize(("name", "seed"), FOUND)
def test_what_an_hour_has_found_is_found_no_more(name: str, seed: int) -> None:
    assert attacked(name, seed) == ""


@pytest.mark.slow
def test_new_seeds_find_nothing() -> None:
    counts, faults = run(SECONDS_OF_A_NIGHT, int(time.time()))
    assert not faults, "\n".join(faults.values())
    assert min(counts.values()) > 20  # beside other processes


def test_damage_is_done_and_repeats_with_its_seed() -> None:
    honest = b'{"version": 12, "name": "mart.orders", "parts": [1, 2, 3]}'
    found = [damaged(honest, random.Random(seed), [b"other"]) for seed in range(200)]
    assert found == [damaged(honest, random.Random(seed), [b"other"]) for seed in range(200)]
    assert sum(data != honest for data in found) > 150
