"""Trimming the log: what a later reader of it still needs stays."""

from __future__ import annotations

from datetime import timedelta

import pytest

from table_writer.model.entry import Outcome
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.trimming import Trimming
from tests.publish.world import TABLE, DeathError, Fault, World, body_of, written

T = str(TABLE)
LONG = 400 * 86_400.0


def versions(world: World) -> frozenset[int]:
    return world.services().log.lister.read(listed_after=0).versions


def test_a_rollback_that_voids_a_key_stays_as_long_as_the_key() -> None:
    world = World()
    world.write_once({"d1": frozenset({1})}, WriteMode.APPEND, "orders/1", stream="orders")
    world.keeper.rollback(T, version=0)
    world.write({"d1": frozenset({2})})
    world.vacuum()
    world.skipped_seconds += LONG
    world.vacuum()
    assert {1, 2} <= versions(world)
    world.write_once({"d1": frozenset({1})}, WriteMode.APPEND, "orders/1", stream="orders")
    assert world.rows() == {"d1": frozenset({1, 2})}, "its rows were rolled back, so the same call writes them again"


@pytest.mark.parametrize("theirs", [True, False], ids=["other tools' files", "files of ours"])
def test_an_entry_stays_until_what_it_replaced_is_deleted(theirs: bool) -> None:
    world = World()
    if theirs:
        world.written_by_another_tool("d1", frozenset({1}))
    else:
        world.write({"d1": frozenset({1})})
    replacing = world.write({"d1": frozenset({2})}).entry.version
    world.write({"d1": frozenset({3})})
    world.skipped_seconds += LONG
    assert replacing not in Trimming(world.history()).versions(LONG / 2), "it alone says what may be deleted"
    world.keeper.vacuum(T, older_than=timedelta(days=1000))
    assert replacing in versions(world)
    world.vacuum()
    assert world.leftovers() == []
    assert [info.key for info in world.store.list(f"{world.layout.root.key}dt=")] == []
    world.skipped_seconds += LONG
    world.vacuum()
    assert replacing not in versions(world)


def test_the_outcome_of_an_entry_that_is_put_back_while_others_are_trimmed_stays() -> None:
    """A trim that died left the outcome of version 1: the next one deletes it, unless the entry is there again."""
    world = written({"d1": frozenset({1})})
    world.write({"d1": frozenset({2})})
    log, key = world.services().log, world.layout.entry_key(1)
    entry = body_of(world.store, key)
    dies = Fault("store", "delete", 2, "before", DeathError)
    world.fails(dies, lambda: log.trim([1]))
    assert world.store.head(world.layout.outcome_key(1)) is not None

    def put_back(call: str, phase: str, listed: str) -> None:
        if (call, phase, listed) == ("list_page", "after", world.layout.log_prefix):
            world.store.on_call = None
            world.store.put(key, entry)

    world.store.on_call = put_back
    log.trim([])
    assert log.slots.outcome(1) is Outcome.PUBLISHED
    world.store.delete([key])
    log.trim([])
    assert log.slots.outcome(1) is None


def test_the_outcome_of_a_lost_entry_is_kept_by_a_trim() -> None:
    """It tells how the entry ended once that is put back."""
    world = World()
    for number in range(4):
        world.write({"d1": frozenset({number})})
    world.store.delete([world.layout.entry_key(3)])
    log = world.services().log
    log.lister.accept_loss()
    log.trim([1])
    assert log.slots.outcome(3) is Outcome.PUBLISHED
    assert log.slots.outcome(1) is None


def test_only_the_newest_mark_of_a_trim_stays() -> None:
    """Each listing of the log reads the marks: their number must not grow with the number of vacuums."""
    world = World()
    for number in range(4):
        world.write({"d1": frozenset({number})})
        world.skipped_seconds += LONG
        world.vacuum()
    state = world.services().log.lister.read(listed_after=0)
    marks = [info.key for info in world.store.list(f"{world.layout.log_prefix}trimmed-")]
    assert marks == [f"{world.layout.log_prefix}trimmed-{state.trimmed:020}"]
    assert state.trimmed > 1


def test_the_mark_of_a_rollback_that_is_about_to_claim_is_kept_by_a_trim() -> None:
    world = World()
    for number in range(3):
        world.write({"d1": frozenset({number})})
    log = world.services().log
    log.marks.remember_rollback(4)
    log.trim([1])
    assert log.lister.read(listed_after=0).rolled_back == {4}
    log.marks.remember_rollback(1)
    log.trim([2])
    assert log.lister.read(listed_after=0).rolled_back == {4}
