"""A table that has got other columns gets those of then back: also what was added to them, though no row had it yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from table_writer.model.table import Column
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.table.past import Past
from tests.publish.world import World, schema_of

ADDED = Column("c", "string")


def overwrite(world: World, row: int, columns: list[Column] | None = None) -> None:
    plan = world.plan(WriteMode.OVERWRITE_TABLE)
    if columns:
        plan = replace(plan, schema=schema_of(columns), replaced_schema=plan.schema)
    world.write({"": frozenset({row})}, plan=plan)


def add_column(world: World) -> None:
    world.metastore.create_table(replace(world.table, columns=(*world.table.columns, ADDED)))


def evolve(world: World) -> None:
    add_column(world)
    overwrite(world, 2)


@pytest.mark.parametrize("alter", [evolve, add_column], ids=["by a write", "by another tool"])
@pytest.mark.parametrize("later_writes", [0, 1])
def test_a_rollback_over_a_replacement_brings_back_an_added_column(
    world: World, alter: Callable[[World], None], later_writes: int
) -> None:
    world.become_unpartitioned()
    overwrite(world, 1)
    alter(world)
    before = world.table.columns
    overwrite(world, 3, [Column("x", "bigint")])
    for row in range(later_writes):
        overwrite(world, 4 + row)
    for version in (1, world.history().newest - later_writes - 1):
        world.keeper.rollback(str(world.name), version=version)
        assert world.table.columns == before
    assert Past(world.services(), version=1).partitions()[0].schema == ""
    overwrite(world, 9)
    assert world.rows() == {"": frozenset({9})}
