"""A mirror is dropped while others write, hand it over, or make it again; and who follows one that others have made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final
from unittest import mock

import pytest

from table_writer.config import TableWriterConfig
from table_writer.errors import ConflictError, InvalidInputError, StorageError, TableWriterError
from table_writer.mirrors.delta import DeltaMirror
from table_writer.mirrors.delta.snapshot import Snapshot
from table_writer.mirrors.follow import KINDS
from table_writer.protocol.log.marks import MirrorMarks
from tests.maintenance.operations import ADDED, MIXED, OLD, REPLACED, dead_publisher
from tests.publish.world import DeathError, Fault

from .iceberg_world import MIRROR, rows_of_json
from .test_handover import (
    TABLE,
    WORLDS,
    agree,
    at_each_call,
    closing_marks,
    died_at_its_claim,
    hand_over,
    interrupt,
    is_opened_to_others,
    kind,
    mirrored,
    take_back,
)
from .world import MirroredWorld, drop_elsewhere

__all__ = ["kind"]
pytestmark = pytest.mark.usefixtures("in_one_thread")


@pytest.fixture(autouse=True)
def _rows_of_json() -> Iterator[None]:
    with rows_of_json():
        yield


def drop(world: MirroredWorld, kind: str) -> object:
    return world.keeper.mirror(TABLE, as_=kind, drop=True)


def meetings(kind: str) -> Iterator[MirroredWorld]:
    """Yield worlds in which a drop and a handover have met."""
    yield from at_each_call(lambda: mirrored(kind), lambda w: drop(w, kind), lambda w: hand_over(w, kind))
    yield from at_each_call(lambda: mirrored(kind), lambda w: hand_over(w, kind), lambda w: drop(w, kind))


def is_whole(world: MirroredWorld, kind: str) -> bool:
    """Return whether a table that was handed over is there with all rows, as its engines read it."""
    if not world.services().log.lister.read().closings:
        return not is_opened_to_others(world, kind)
    with suppress(TableWriterError):  # one that was interrupted
        hand_over(world, kind)
    return is_opened_to_others(world, kind) and world.mirrored_rows() == world.rows() == {**OLD, **MIXED}


def test_a_drop_that_meets_a_handover_deletes_nothing_of_the_table_that_others_write_to(kind: str) -> None:
    assert all(is_whole(world, kind) and agree(world, kind) for world in meetings(kind))


@pytest.mark.parametrize("kind", ["delta"])
def test_a_drop_that_looks_and_then_deletes_is_noticed(kind: str) -> None:
    def unconditional(_: DeltaMirror, held: Snapshot) -> Snapshot:
        return held

    with mock.patch.object(DeltaMirror, "retire", unconditional):
        seen = [is_whole_or_damaged(world, kind) for world in meetings(kind)]
    assert not all(seen)


def is_whole_or_damaged(world: MirroredWorld, kind: str) -> bool:
    with suppress(AssertionError):
        return is_whole(world, kind)
    return False


def deletes_of(world: MirroredWorld, act: Callable[[], object]) -> list[str]:
    """Return the keys that a call deletes."""
    deleted: list[str] = []
    original = type(world.store).delete

    def delete(store: Any, keys: list[str]) -> Any:
        deleted.extend(keys)
        return original(store, keys)

    with mock.patch.object(type(world.store), "delete", delete):
        act()
    return deleted


def test_deletes_of_a_drop_that_come_late_take_nothing_of_the_next_mirror(kind: str) -> None:
    world = mirrored(kind)
    late = deletes_of(world, lambda: drop_elsewhere(world, kind))
    world.write(REPLACED)
    world.write(ADDED)
    world.store.delete(late)
    world.memory.clear()
    assert world.keeper.mirror(TABLE, as_=kind, check=True).state == "in step"
    world.write({"d1": frozenset({71})})
    assert world.mirrored_rows() == world.rows()


def test_a_mirror_that_begins_with_old_numbers_again_is_noticed() -> None:
    world = mirrored("delta")
    late = deletes_of(world, lambda: drop_elsewhere(world, "delta"))
    with mock.patch.object(DeltaMirror, "_first", 0):  # the mutation
        world.write(REPLACED)
        world.store.delete(late)
        world.memory.clear()
        assert world.keeper.mirror(TABLE, as_="delta", check=True).state != "in step"


@pytest.mark.parametrize("error", [StorageError, DeathError])
@pytest.mark.parametrize("phase", ["before", "after"])
def test_a_drop_that_fails_anywhere_is_repeated(kind: str, phase: str, error: type[BaseException]) -> None:
    with (world := mirrored(kind)).recording() as calls:
        drop(world, kind)
    for place, call in enumerate(calls):
        world = mirrored(kind)
        fault = Fault(*call, calls[: place + 1].count(call), phase, error)  # type: ignore[arg-type]
        with world.inject(fault), suppress(TableWriterError, DeathError):
            drop(world, kind)
        world.config = TableWriterConfig()
        world.memory.clear()
        world.write(REPLACED)
        if (held := KINDS[kind](world.services()).read()) is not None and not held.is_dropped:
            assert world.mirrored_rows() == world.rows()
        assert world.vacuum().failures == ()
        drop(world, kind)
        assert world.keeper.mirror(TABLE, as_=kind, check=True).state == "absent"
        world.write(ADDED)
        assert world.keeper.mirror(TABLE, as_=kind, check=True).state == "absent", "nobody makes it again"
        world.keeper.mirror(TABLE, as_=kind)
        assert world.mirrored_rows() == world.rows(), call


def moved_and_recovered(world: MirroredWorld) -> None:
    dead_publisher(world)
    world.keeper.recover(TABLE)


def lost_and_restored(world: MirroredWorld) -> None:
    world.follows = False
    world.write(REPLACED)
    world.follows = True
    world.lose_metastore()
    world.keeper.restore(TABLE)


CHANGES: Final[dict[str, Callable[[MirroredWorld], object]]] = {
    "write": lambda world: world.write(REPLACED),
    "append in place": lambda world: world.write(ADDED),
    "compaction": lambda world: world.compact(),
    "rollback": lambda world: world.keeper.rollback(TABLE, version=1),
    "recover": moved_and_recovered,
    "restore": lost_and_restored,
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_mirror_that_only_others_have_in_their_settings_is_followed(kind: str, name: str) -> None:
    world = WORLDS[kind](config=TableWriterConfig())
    world.write(OLD)
    world.keeper.mirror(TABLE, as_=kind)
    world.memory.clear()
    CHANGES[name](world)
    assert world.mirrored_rows() == world.rows()
    assert world.keeper.mirror(TABLE, as_=kind, check=True).state == "in step"


@pytest.mark.parametrize("name", ["write", "rollback"])
def test_a_change_that_looks_at_its_own_settings_alone_is_noticed(name: str) -> None:
    world = WORLDS["delta"](config=TableWriterConfig())
    world.write(OLD)
    world.write(MIXED)
    world.keeper.mirror(TABLE, as_="delta")
    with mock.patch.object(MirrorMarks, "is_there", False):  # the mutation
        CHANGES[name](world)
    assert world.mirrored_rows() != world.rows()


def test_what_says_that_there_is_a_mirror_costs_a_write_no_request(kind: str) -> None:
    world = mirrored(kind)
    world.write(REPLACED)
    world.write(REPLACED)
    known = world.costs[-1]
    world.config = TableWriterConfig()
    world.write(REPLACED)
    assert world.costs[-1] == known


def test_one_that_a_person_has_deleted_is_not_made_again_by_who_does_not_want_it(kind: str) -> None:
    world = mirrored(kind)
    world.config = TableWriterConfig()
    world.memory.clear()
    world.store.delete([info.key for name in ("_delta_log/", "_iceberg/") for info in listed(world, name)])
    world.write(ADDED)
    assert "another process is making it, or somebody has deleted it" in world.notes()[-1]
    world.skipped_seconds += 2 * 3600
    world.write(REPLACED)
    assert world.keeper.mirror(TABLE, as_=kind, check=True).state == "absent"
    assert [key for key in world.store.list_files(world.layout.log_prefix) if "mirrored" in key] == []


def listed(world: MirroredWorld, name: str) -> list[Any]:
    return list(world.store.list(f"{world.layout.root.key}{name}"))


@pytest.mark.parametrize("version", ["2.3", "3.1.3", ""])
def test_where_the_metastore_compares_nothing_iceberg_gets_no_table(version: str) -> None:
    world = mirrored("iceberg")
    world.metastore.version = version
    with pytest.raises(InvalidInputError, match=r"neither handed over nor taken back.*compares nothing.*Hive 2\.3\.10"):
        hand_over(world, "iceberg")
    assert not world.services().log.lister.read().closings
    world.metastore.version = "2.3.10"
    hand_over(world, "iceberg")
    world.metastore.version = version
    with pytest.raises(InvalidInputError, match="compares nothing"):
        take_back(world)
    assert is_opened_to_others(world, "iceberg")
    delta = mirrored("delta")
    delta.metastore.version = version
    hand_over(delta, "delta")
    take_back(delta)


def slow_at(world: MirroredWorld, place: int, act: Callable[[MirroredWorld], object]) -> MirroredWorld:
    """Return the world after a drop that another process has overtaken at one of its calls."""
    interrupt(world, place, act)
    with suppress(TableWriterError):
        drop(world, "iceberg")
    world.store.on_call = world.metastore.on_call = None
    return world


def test_a_slow_drop_leaves_the_mirror_that_was_made_after_another_drop_or_drops_it_whole() -> None:
    def again(world: MirroredWorld) -> None:
        drop(world, "iceberg")
        world.keeper.mirror(TABLE, as_="iceberg")

    with (world := mirrored("iceberg")).recording() as calls:
        drop(world, "iceberg")
    states = set()
    for place, call in enumerate(calls):
        if call == ("metastore", "remove_table"):  # by the name alone
            continue
        world = slow_at(mirrored("iceberg"), place, again)
        world.config = TableWriterConfig()
        state = world.keeper.mirror(TABLE, as_="iceberg", check=True).state
        is_there = world.metastore.get_table(MIRROR) is not None
        assert (state, is_there) in {("in step", True), ("absent", False)}, call
        states.add(state)
        world.write(REPLACED)
        assert not is_there or world.mirrored_rows() == world.rows(), call
    assert states == {"in step", "absent"}


def test_for_a_day_after_a_drop_no_table_is_handed_over_to_iceberg() -> None:
    world = mirrored("iceberg")
    drop(world, "iceberg")
    with pytest.raises(ConflictError, match=r"was dropped less than a day ago.*Nothing was changed\. Call again a day"):
        hand_over(world, "iceberg")
    assert not world.services().log.lister.read().closings
    world.skipped_seconds += 25 * 3600
    hand_over(world, "iceberg")
    assert is_opened_to_others(world, "iceberg")
    delta = mirrored("delta")
    drop(delta, "delta")
    hand_over(delta, "delta")


def test_a_write_that_comes_while_others_make_the_mirror_is_in_it(kind: str) -> None:
    def fresh() -> MirroredWorld:
        world = WORLDS[kind](config=TableWriterConfig())
        world.write(OLD)
        world.write(MIXED)
        return world

    for world in at_each_call(fresh, lambda w: w.keeper.mirror(TABLE, as_=kind), lambda w: w.write(REPLACED)):
        world.memory.clear()
        world.write(ADDED)
        assert world.mirrored_rows() == world.rows()


def test_a_mirror_that_is_made_while_others_drop_it_is_followed_or_gone(kind: str) -> None:
    make = lambda w: w.keeper.mirror(TABLE, as_=kind)  # noqa: E731
    worlds = [
        *at_each_call(lambda: mirrored(kind), make, lambda w: drop(w, kind)),
        *at_each_call(lambda: mirrored(kind), lambda w: drop(w, kind), make),
    ]
    states = set()
    for world in worlds:
        world.config = TableWriterConfig()
        world.memory.clear()
        world.write(REPLACED)
        states.add(state := world.keeper.mirror(TABLE, as_=kind, check=True).state)
        assert state == "absent" or world.mirrored_rows() == world.rows()
    assert states == {"absent", "in step"}


def test_a_handover_whose_entry_is_lost_stays_one(kind: str) -> None:
    world = mirrored(kind)
    hand_over(world, kind)
    (closing,) = world.services().log.lister.read().closings
    world.store.delete([world.layout.entry_key(closing.version)])
    world.keeper.recover(TABLE, accept_loss=True)
    with pytest.raises(InvalidInputError, match="was handed over"):
        world.write(REPLACED)
    take_back(world)
    world.write(REPLACED)
    assert world.mirrored_rows() == world.rows()


def test_what_a_drop_has_left_is_told_by_the_certificate_and_goes_with_a_second_drop() -> None:
    world = mirrored("delta")
    world.at_store("delete", "before", dies, key="")
    for _ in range(2):  # the first delete is of a mark
        with suppress(DeathError):
            drop(world, "delta")
    world.store.on_call = None
    assert world.keeper.mirror(TABLE, as_="delta", check=True).state == "absent"
    drop(world, "delta")
    assert listed(world, "_delta_log/") == []


def dies() -> None:
    raise DeathError


def test_a_pointer_of_a_dropped_log_that_comes_late_is_none() -> None:
    world = mirrored("delta")
    pointer = f"{world.layout.root.key}_delta_log/_last_checkpoint"
    drop(world, "delta")
    world.store.put(pointer, b'{"version": 1, "size": 3}')
    assert world.keeper.mirror(TABLE, as_="delta", check=True).state == "absent"
    world.keeper.mirror(TABLE, as_="delta")
    world.store.put(pointer, b'{"version": 1, "size": 3}')
    assert world.keeper.mirror(TABLE, as_="delta", check=True).state == "in step"


def test_a_drop_that_died_is_ended_by_a_process_that_knows_of_no_other_catalog() -> None:
    world = mirrored("iceberg")
    world.at_metastore("remove_table", "before", dies)
    with suppress(DeathError):
        drop(world, "iceberg")
    world.write(REPLACED)
    assert "--drop` ends that" in world.notes()[-1]
    drop(world, "iceberg")
    assert world.metastore.get_table(MIRROR) is None
    assert listed(world, "_iceberg/") == []


def test_marks_of_handovers_that_died_go_with_a_vacuum(kind: str) -> None:
    world = mirrored(kind)
    for _ in range(3):
        died_at_its_claim(world, kind)
        world.write(REPLACED)
    assert len(closing_marks(world)) == 3
    world.skipped_seconds += 40 * 86_400
    assert world.vacuum().failures == ()
    assert closing_marks(world) == []
