"""One in ten cells of the crash matrix, for ``make mutants``: all of them would run for nearly every mutant."""

from __future__ import annotations

from functools import cache
from zlib import crc32

import pytest

from tests.maintenance import test_every_fault as matrix
from tests.maintenance.operations import Operation
from tests.publish.world import Fault


@cache  # once, before any mutant is at work
def some_cells() -> list[tuple[Operation, Fault]]:
    return [
        (operation, fault)
        for operation, fault in matrix.every_fault()
        if fault.kind is not KeyboardInterrupt and crc32(f"{operation}-{fault}".encode()) % 10 == 0
    ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize(("operation", "fault"), some_cells(), ids=str)


def test_a_fault_leaves_all_old_or_all_new_rows(operation: Operation, fault: Fault) -> None:
    matrix.test_rows_are_all_old_or_all_new_and_recover_rerun_and_vacuum_leave_nothing(operation, fault)
