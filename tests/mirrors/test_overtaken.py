"""What others do while a mirror is read or written: it has the rows of one version, and no others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

import pytest

from table_writer.errors import InvalidInputError
from table_writer.mirrors.changes import MOST_VERSIONS
from table_writer.mirrors.follow import follow
from table_writer.model.write_mode import WriteMode
from tests.maintenance.operations import ADDED, MIXED, OLD, REPLACED
from tests.publish.world import ROOT, DeathError, Fault, move

from .test_damage import readable_from_pointer
from .world import MirroredWorld

TABLE: Final = "mart.orders"
BOTH: Final = {"d1": frozenset({71}), "d2": frozenset({72})}


def beside(world: MirroredWorld, *, follows: bool = True) -> MirroredWorld:
    """Return another process with the same table."""
    return MirroredWorld(store=world.store, metastore=world.metastore, config=world.config, follows=follows)


def die_after_half(world: MirroredWorld) -> None:
    """Begin an append in place of which one file of two comes to where readers look."""
    with world.inject(Fault("store", "copy", 2, "before", DeathError)), suppress(DeathError):
        world.write(BOTH, plan=world.plan(WriteMode.APPEND, in_place=True))


def at_call(world: MirroredWorld, number: int, act: Callable[[], object]) -> Callable[[str, str, str], object]:
    calls = iter(range(1, 1_000))

    def called(_call: str, phase: str, _key: str) -> None:
        if phase == "before" and next(calls) == number:
            hook, world.store.on_call = world.store.on_call, None
            act()
            world.store.on_call = hook

    return called


MIRRORINGS: Final[dict[str, Callable[[MirroredWorld], object]]] = {
    "repair": lambda world: world.keeper.mirror(TABLE, as_="delta", repair=True),
    "version by version": lambda world: follow(world.services(), None),
    "from the oldest": lambda world: world.keeper.mirror(TABLE, as_="delta"),
}


@pytest.mark.parametrize("number", range(1, 13))
@pytest.mark.parametrize("mirroring", MIRRORINGS)
def test_files_that_come_in_place_meanwhile_are_not_of_the_version_that_is_taken_up(
    mirroring: str, number: int
) -> None:
    world = MirroredWorld()
    other = beside(world, follows=False)
    (other if mirroring == "from the oldest" else world).write(OLD)
    other.write(REPLACED)
    world.store.on_call = at_call(world, number, lambda: die_after_half(other))
    MIRRORINGS[mirroring](world)
    world.store.on_call = None
    assert world.mirrored_rows() == REPLACED
    world.wait_out_claims()
    world.keeper.recover(TABLE)
    assert world.mirrored_rows() == world.rows()


@pytest.mark.parametrize("call", ["add_partitions", "alter_partitions"])
def test_a_repair_does_not_show_what_a_publish_in_doubt_has_switched(call: str) -> None:
    world = MirroredWorld()
    world.write(OLD)
    with world.inject(Fault("metastore", call, 1, "after", DeathError)), pytest.raises(DeathError):
        world.write(MIXED)
    world.keeper.mirror(TABLE, as_="delta", repair=True)
    assert world.mirrored_rows() == OLD
    world.wait_out_claims()
    world.keeper.recover(TABLE)
    assert world.mirrored_rows() == world.rows()


def test_an_append_in_place_to_a_partition_that_another_tool_has_moved_takes_all_of_it() -> None:
    world = MirroredWorld()
    world.write(OLD)
    move(world, "d1", "elsewhere", 500)
    world.write({"d1": frozenset({71})}, plan=world.plan(WriteMode.APPEND, in_place=True))
    assert world.mirrored_rows() == world.rows() == {"d1": frozenset({500, 71}), "d2": OLD["d2"]}


def test_an_append_in_place_to_a_partition_that_another_tool_has_made_since_takes_all_of_it() -> None:
    world = MirroredWorld()
    world.write(OLD)
    world.written_by_another_tool("x", frozenset({70}))
    world.write({"x": frozenset({71})}, plan=world.plan(WriteMode.APPEND, in_place=True))
    assert world.mirrored_rows() == world.rows() == {**OLD, "x": frozenset({70, 71})}


def test_two_partitions_at_one_place_are_refused_in_words() -> None:
    world = MirroredWorld()
    world.write(OLD)
    world.pointed_by_another_tool("x", world.partitions()["d1"].location)
    with pytest.raises(InvalidInputError, match=r"dt=d1 and dt=x of mart\.orders are both at"):
        world.keeper.mirror(TABLE, as_="delta", repair=True)


def test_a_process_that_was_idle_while_a_vacuum_has_deleted_commits_goes_on_from_the_newest() -> None:
    world = MirroredWorld()
    other = beside(world)
    world.write(OLD)
    for number in range(24):
        other.write({"d1": frozenset({100 + number})})
    world.skipped_seconds = other.skipped_seconds = 31 * 86_400
    other.vacuum()
    world.write(ADDED)
    assert world.mirrored_rows() == world.rows()
    assert readable_from_pointer(world)


def test_a_process_that_remembers_the_mirror_of_an_earlier_table_begins_a_new_one() -> None:
    world = MirroredWorld()
    for number in range(3):
        world.write({"d1": frozenset({number})})
    table = world.table
    world.metastore.drop_table(world.name)
    world.store.delete([info.key for info in world.store.list(ROOT.removeprefix("s3a://lake/"))])
    world.metastore.create_table(replace(table, parameters={}))
    world.write(OLD)
    assert world.mirrored_rows() == world.rows() == OLD
    assert len(world.commits()) == 1


def test_a_write_does_not_wait_for_thousands_of_versions() -> None:
    world = MirroredWorld()
    world.write(OLD)
    other = beside(world, follows=False)
    for number in range(MOST_VERSIONS + 1):
        other.write({"d1": frozenset({number})})
    world.write(ADDED)
    assert len(world.commits()) == 2
    assert world.mirrored_rows() == world.rows()


def test_an_append_that_begins_again_is_shown_where_it_ends_and_a_vacuum_deletes_no_file_of_it() -> None:
    world = MirroredWorld()
    world.write(OLD)
    other = beside(world)
    plan = world.plan(WriteMode.APPEND)
    world.memory.clear()  # a job of its own
    world.at_store("copy", "after", lambda: other.write(ADDED, plan=other.plan(WriteMode.OVERWRITE_TABLE)))
    world.write({"d1": frozenset({71})}, plan=plan)
    assert world.rows() == {**ADDED, "d1": frozenset({71})}
    world.wait_out_claims()
    world.vacuum()
    assert world.named_files_are_there()
    assert world.mirrored_rows() == world.rows()
