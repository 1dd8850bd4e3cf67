"""A change of rows whose process dies: what others have done since is not lost, and nothing is carried out twice."""

from __future__ import annotations

import pytest

from table_writer.model.write_mode import WriteMode
from tests.publish.conftest import world
from tests.publish.world import DIED, World, insert

from .test_on_doubles import based_on_newest, publish_beside, snapshot_of

__all__ = ["world"]


def dies(world: World) -> None:
    """Claim a change of d1 to 10 beside what is there, and die before its switch."""
    snapshot, plan = snapshot_of(world), based_on_newest(world)
    world.fails(DIED, lambda: publish_beside(world, snapshot, plan, {"d1": frozenset({10})}))


@pytest.mark.parametrize("before", ["ours", "grown", "theirs"])
@pytest.mark.parametrize("inserts", [True, False], ids=["with an INSERT since", "with nothing since"])
def test_what_another_tool_has_inserted_since_stays_and_else_it_is_carried_out(
    before: str, inserts: bool, world: World
) -> None:
    if before == "theirs":
        world.written_by_another_tool("d1", frozenset({1}))
    else:
        world.write({"d1": frozenset({1})})
    if before == "grown":
        world.write({"d1": frozenset({2})}, plan=world.plan(WriteMode.APPEND, in_place=True))
    rows = world.rows()["d1"]
    dies(world)
    if inserts:
        insert(world, "d1", 99)
    world.recover_later()
    assert world.rows() == {"d1": rows | ({99} if inserts else {10})}


def test_a_write_of_what_its_query_has_read_of_the_table_is_not_carried_out_over_other_rows(world: World) -> None:
    """Not only calls that change rows by key: any overwrite that says what its rows are based on."""
    world.write({"d1": frozenset({1})})
    plan = based_on_newest(world)
    world.fails(DIED, lambda: world.write({"d1": frozenset({10})}, plan=plan))
    insert(world, "d1", 99)
    world.recover_later()
    assert world.rows() == {"d1": frozenset({1, 99})}


def test_a_snapshot_has_what_was_published_after_an_entry_in_doubt(world: World) -> None:
    world.write({"d1": frozenset({1}), "d2": frozenset({2})})
    world.fails(DIED, lambda: world.write({"d1": frozenset({10})}))
    world.write({"d2": frozenset({20}), "d9": frozenset({90})})
    world.wait_out_claims()
    snapshot = snapshot_of(world)
    files = snapshot.files_of(snapshot.selected)
    places = {values: snapshot.open([values])[values].past.location for values in files}
    assert places == {(name,): partition.location for name, partition in world.partitions().items()}
    assert set(places) == {("d1",), ("d2",), ("d9",)}
