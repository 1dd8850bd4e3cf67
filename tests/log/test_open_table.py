"""What a plan builds on: the log as it was before its idempotency key was looked for."""

from __future__ import annotations

import pytest

from table_writer.errors import ConflictError, InvalidInputError
from table_writer.model.entry import Key
from table_writer.model.table import TableName
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.owner import take_root
from table_writer.protocol.table.open_table import RepeatedError
from tests.publish.world import World

ONE = {"d1": frozenset({1})}
TWO = {"d2": frozenset({2})}


def written() -> World:
    world = World()
    world.write_once(ONE, WriteMode.APPEND, "load/1")
    return world


def test_a_call_without_a_key_builds_on_the_log_as_it_is_at_the_end_of_its_plan() -> None:
    world = written()
    opened = world.services()
    assert opened.require_new_key(Key("")) is None
    world.write(TWO)
    assert opened.listing_to_build_on(world.plan().log_id).newest == 2


def test_a_call_with_a_key_builds_on_the_log_as_it_was_before_the_look() -> None:
    """So an entry with the key that comes between the look and the claim is one that the plan has not seen."""
    world = written()
    opened = world.services()
    seen = opened.require_new_key(Key("load/2"))
    assert seen is not None
    assert (seen.newest, seen.listed_after) == (1, 0), "where no checkpoint is stored, none is assumed"
    world.write_once(TWO, WriteMode.APPEND, "load/2")
    assert opened.listing_to_build_on(world.plan().log_id, seen).newest == 1
    with pytest.raises(RepeatedError):
        opened.require_new_key(Key("load/2"))


def test_a_table_that_is_not_there_is_told_with_the_metastore_that_was_asked() -> None:
    with pytest.raises(InvalidInputError, match=r"no table mart\.none in the metastore at memory://metastore$"):
        World().all_services().open_table(TableName("mart", "none"))


def test_the_first_write_of_a_table_builds_on_no_entry() -> None:
    world = World()
    opened = world.services()
    seen = opened.require_new_key(Key("load/1"))
    log_id = take_root(world.store, world.layout, opened.owner)
    assert opened.listing_to_build_on(log_id, seen).newest == 0


def test_a_log_that_is_deleted_between_the_look_and_the_plan_is_a_conflict() -> None:
    world = written()
    opened = world.services()
    seen = opened.require_new_key(Key("load/2"))
    world.store.delete([found.key for found in world.store.list(world.layout.own.key)])
    world.write_once(TWO, WriteMode.APPEND, "load/2")
    log_id = take_root(world.store, world.layout, opened.owner)
    with pytest.raises(ConflictError, match="begun again"):
        opened.listing_to_build_on(log_id, seen)
