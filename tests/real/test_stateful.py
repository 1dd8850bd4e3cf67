"""The random histories of the doubles, on real parts."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.maintenance.test_stateful import TableMachine
from tests.publish.world import FaultyWorld
from tests.real.real_world import RealWorld


@pytest.mark.slow
def test_random_histories_end_in_a_possible_state(new_world: Callable[[], RealWorld]) -> None:
    class RealMachine(TableMachine):
        def make_world(self) -> FaultyWorld:
            return new_world()

    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        RealMachine,
        settings=settings(
            max_examples=int(os.environ.get("TABLE_WRITER_REAL_HISTORIES", "15")),
            stateful_step_count=20,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
