"""What a caller was told stays true: published, abandoned, discarded, published already. Over doubles."""

from __future__ import annotations

import pytest

from table_writer.errors import ConflictError
from table_writer.model.write import WriteMode
from tests.publish.world import DeathError, Fault, World

T = "mart.orders"
OLD = {"d1": frozenset({1}), "d2": frozenset({2})}
MORE = {"d1": frozenset({10}), "d2": frozenset({20})}
ALL = {"d1": frozenset({1, 10}), "d2": frozenset({2, 20})}
DIED = Fault("metastore", "alter_partitions", 1, "before", DeathError)


@pytest.fixture
def world() -> World:
    world = World()
    world.write(OLD)
    return world


@pytest.mark.parametrize("mode", WriteMode)
def test_a_write_that_a_recovery_may_publish_is_not_discarded(world: World, mode: WriteMode) -> None:
    rows = {"d1": frozenset({10})} if mode is not WriteMode.CREATE_PARTITIONS else {"d3": frozenset({30})}
    write_id = world.stage(rows, plan=world.plan(mode))
    died = (
        DIED
        if mode is not WriteMode.CREATE_PARTITIONS
        else Fault("metastore", "add_partitions", 1, "before", DeathError)
    )
    with world.inject(died), pytest.raises(DeathError):
        world.keeper.publish(T, write_id)
    with pytest.raises(ConflictError, match="is not discarded"):
        world.keeper.discard(T, write_id)
    world.wait_out_claims()
    world.keeper.recover(T)
    assert rows["d3" if mode is WriteMode.CREATE_PARTITIONS else "d1"] <= frozenset().union(*world.rows().values())
