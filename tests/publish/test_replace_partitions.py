"""A mode that replaces what is there, and nothing else."""

from __future__ import annotations

import pytest

from table_writer.errors import InvalidInputError
from table_writer.model.write_mode import WriteMode
from tests.publish.world import written


def test_a_partition_that_exists_is_replaced_and_one_that_does_not_is_refused() -> None:
    world = written({"d1": frozenset({1}), "d2": frozenset({2})})
    world.write({"d1": frozenset({3})}, plan=world.plan(WriteMode.REPLACE_PARTITIONS))
    assert world.rows() == {"d1": frozenset({3}), "d2": frozenset({2})}
    with pytest.raises(InvalidInputError, match=r"would replace what is not there, 1 partition .*dt=d3"):
        world.write({"d1": frozenset({4}), "d3": frozenset({5})}, plan=world.plan(WriteMode.REPLACE_PARTITIONS))
    assert world.rows() == {"d1": frozenset({3}), "d2": frozenset({2})}
