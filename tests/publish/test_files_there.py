"""Whether files are still what the log says, before readers are pointed at them again; and restores, which ask it."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest

from table_writer.errors import ConflictError, InvalidInputError, MetastoreError, OutcomeUnknownError
from table_writer.model.entry import Outcome
from table_writer.model.location import Location
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.operations import rollback
from table_writer.protocol.operations.entry import NotThereError, files_there
from tests.publish.world import DIED, ROOT, TABLE, DeathError, Fault, World

T = str(TABLE)
OLD = {"d1": frozenset({1, 2}), "d2": frozenset({3})}
NEW = {"d1": frozenset({10})}


@pytest.fixture
def world() -> World:
    world = World()
    world.write(OLD)
    return world


def there(world: World, location: str, value: str = "d1") -> tuple[int | None, int, int]:
    found = files_there(world.store, world.history(), (value,), Location.parse(location)).described
    assert found.values == (value,)
    return found.rows, found.bytes, found.files


def test_our_files_are_counted_and_measured_and_hidden_ones_are_not(world: World) -> None:
    location = world.partitions()["d1"].location
    key = Location.parse(location).key
    world.store.put(f"{key}_SUCCESS", b"")
    assert there(world, location) == (2, 6, 1)
    world.store.put(f"{key}part-9.json", b"")
    with pytest.raises(NotThereError, match="holds 2 files with 6 bytes instead of 1 file with 6 bytes"):
        there(world, location)
    world.store.delete([info.key for info in world.store.list(key)])
    with pytest.raises(NotThereError, match=r"its files at .* are gone"):
        there(world, location)
    world.store.put(f"{key}part-0.json", b"[1, 22]")
    with pytest.raises(NotThereError, match="holds 1 file with 7 bytes"):
        there(world, location)


def test_a_location_of_ours_that_no_entry_names_is_not_trusted(world: World) -> None:
    world.store.put(f"{world.layout.data('stray').key}dt=d1/a", b"x")
    with pytest.raises(NotThereError, match="has no list of the files"):
        there(world, f"{world.layout.data('stray')}dt=d1/")
    with pytest.raises(NotThereError, match="has no list of the files"):
        there(world, world.partitions()["d1"].location, "d2")


def test_where_no_file_ever_lies_there_is_nothing_to_compare(world: World) -> None:
    assert there(world, str(world.layout.placeholder("w"))) == (0, 0, 0)


@pytest.mark.parametrize("change", ["none", "more", "fewer", "other bytes", "another size"])
def test_other_tools_files_must_be_exactly_the_listed_ones(change: str) -> None:
    world = World()
    world.written_by_another_tool("d1", frozenset({1}))
    world.store.put("mart/orders/dt=d1/part-1.json", b"[2]")
    world.write(NEW)
    changed = {
        "more": lambda: world.store.put("mart/orders/dt=d1/part-2.json", b""),
        "fewer": lambda: world.store.delete(["mart/orders/dt=d1/part-1.json"]),
        "other bytes": lambda: world.store.put("mart/orders/dt=d1/part-1.json", b"[3]"),
        "another size": lambda: world.store.put("mart/orders/dt=d1/part-1.json", b"[2] "),
        "none": int,
    }
    changed[change]()
    if change == "none":
        assert there(world, f"{ROOT}dt=d1/") == (None, 6, 2)
    else:
        with pytest.raises(NotThereError, match="instead of the 2 files that were replaced"):
            there(world, f"{ROOT}dt=d1/")


@pytest.mark.parametrize(("count", "more"), [(5, ""), (6, "; and 1 more."), (7, "; and 2 more.")])
def test_a_rollback_names_five_of_those_that_cannot_go_back_and_counts_the_rest(
    world: World, count: int, more: str
) -> None:
    values = [f"d{number}" for number in range(3, 3 + count)]
    world.write({value: frozenset({1}) for value in values})
    for value in values:
        world.written_by_another_tool(value, frozenset({99}))
    with pytest.raises(InvalidInputError, match=f"{count} of {count} partitions .* cannot be put back: ") as refused:
        world.keeper.rollback(T, version=1)
    assert more in str(refused.value)
    assert ("more." in str(refused.value)) is bool(more)
    assert sum(f"dt={value} " in str(refused.value) for value in values) == 5


def appended_where_another_tool_writes(world: World) -> str:
    """Append rows to another tool's files; returns where they lie."""
    world.written_by_another_tool("d5", frozenset({5}))
    world.write({"d5": frozenset({6})}, plan=world.plan(WriteMode.APPEND, in_place=True))
    return Location.parse(world.partitions()["d5"].location).key


def test_a_rollback_to_the_newest_version_says_which_rows_of_ours_are_gone_from_another_tools_place(
    world: World,
) -> None:
    key = appended_where_another_tool_writes(world)
    assert world.keeper.rollback(T, version=2).partitions == ()
    world.store.delete([info.key for info in world.store.list(key)])
    with pytest.raises(InvalidInputError, match=r"dt=d5: files that were appended at .*/dt=d5/ are gone: 1\."):
        world.keeper.rollback(T, version=2)


def test_rows_that_only_another_tool_had_there_are_its_own(world: World) -> None:
    world.written_by_another_tool("d5", frozenset({5}))
    world.write(NEW)
    world.store.delete([info.key for info in world.store.list(Location.parse(world.partitions()["d5"].location).key)])
    assert world.keeper.rollback(T, version=2).partitions == ()


def test_a_rollback_that_looks_below_its_own_directory_alone_is_noticed(world: World) -> None:
    key = appended_where_another_tool_writes(world)
    world.store.delete([info.key for info in world.store.list(key)])
    with mock.patch.object(rollback, "_has_grown_there", return_value=False):  # the mutation
        assert world.keeper.rollback(T, version=2).partitions == ()


def test_a_partition_that_is_nowhere_cannot_go_back(world: World) -> None:
    world.write(NEW)
    world.write(NEW)
    world.metastore.drop_partition(world.table, ("d1",))
    with pytest.raises(InvalidInputError, match="dt=d1 is at no location"):
        world.keeper.rollback(T, version=2, partitions=["dt=d1"])


def test_an_unpartitioned_table_that_was_made_again_is_restored_over_the_rows_that_it_had_replaced() -> None:
    """What lies in its root was there before, and is not hidden from anybody by being replaced again."""
    world = World()
    world.become_unpartitioned()
    world.written_by_another_tool("", frozenset({1}))
    world.write({"": frozenset({2})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    world.lose_metastore()
    world.metastore.create_table(replace(world.table, location=ROOT))
    assert world.rows() == {"": frozenset({1})}
    dry = world.keeper.restore(T, dry_run=True)
    assert (dry.present_count, len(dry.partitions)) == (0, 1)
    assert world.keeper.restore(T).present_count == 0
    assert world.rows() == {"": frozenset({2})}
    assert world.keeper.restore(T).present_count == 1


def test_a_restore_that_loses_its_slot_looks_again(world: World) -> None:
    world.metastore.drop_partition(world.table, ("d2",))

    world.at_store("put_if_absent", "before", lambda: world.write({"d2": frozenset({30})}), ".json")
    report = world.keeper.restore(T)
    assert report.partitions == ()
    assert world.rows() == {**OLD, "d2": frozenset({30})}


@pytest.mark.parametrize("operation", ["rollback", "restore"])
def test_what_is_in_doubt_is_resolved_first_and_a_dry_run_only_says_so(world: World, operation: str) -> None:
    world.write(NEW)
    world.fails(DIED, lambda: world.write({"d2": frozenset({30})}))
    world.wait_out_claims()
    call = world.keeper.restore if operation == "restore" else world.keeper.rollback
    named = {} if operation == "restore" else {"version": 2}
    dry = call(T, dry_run=True, **named)
    assert any("version 3 is in doubt" in note for note in dry.notes)
    assert world.services().log.slots.outcome(3) is None
    assert any("version 3 was in doubt: published now" in note for note in call(T, **named).notes)


def test_a_partition_that_moves_between_two_tries_of_a_rollback_stops_it(world: World) -> None:
    world.write(NEW)

    world.at_store("put_if_absent", "before", lambda: world.write({"d1": frozenset({11})}), ".json")
    with pytest.raises(ConflictError, match="moved by somebody else"):
        world.keeper.rollback(T, version=1)
    assert world.rows()["d1"] == frozenset({11})


def test_a_rollback_whose_slot_another_partition_takes_takes_the_next(world: World) -> None:
    world.write(NEW)

    world.at_store("put_if_absent", "before", lambda: world.write({"d2": frozenset({30})}), ".json")
    assert world.keeper.rollback(T, version=1, partitions=["dt=d1"]).version == 4
    assert world.rows() == {"d1": OLD["d1"], "d2": frozenset({30})}


def test_a_recovery_that_cannot_see_the_table_gives_its_own_claim_up(world: World) -> None:
    world.fails(DIED, lambda: world.write(NEW))
    world.wait_out_claims()
    with (
        world.inject(Fault("metastore", "get_partitions", 1, "before", MetastoreError)),
        pytest.raises((MetastoreError, OutcomeUnknownError)),
    ):
        world.keeper.recover(T)
    assert world.rows() == OLD
    world.recover_later()
    assert world.rows() == {**OLD, **NEW}
    assert world.history().records.in_doubt == ()


def half_added(*values: str) -> World:
    """A table of d1 and d2, and an append in place that dies when its first file is where readers look."""
    world = World()
    world.write({"d1": frozenset({1}), "d2": frozenset({2})})
    plan = world.plan(WriteMode.APPEND, in_place=True)
    with world.inject(Fault("store", "copy", len(values), "after", DeathError)), pytest.raises(DeathError):
        world.write({value: frozenset({10}) for value in values}, plan=plan)
    return world


def moved_away(world: World) -> None:
    """Another tool moves d1, so that the append is given up there; a write replaces what the tool has put there."""
    world.written_by_another_tool("d1", frozenset({77}))
    world.recover_later()
    world.write({"d1": frozenset({50})})


def test_a_rollback_leaves_out_files_of_an_append_in_place_that_was_given_up() -> None:
    world = half_added("d1")
    moved_away(world)
    assert world.history().records[1].outcome is Outcome.ABANDONED
    world.keeper.rollback(T, version=1)
    assert world.rows()["d1"] == {1}


def test_a_rollback_leaves_out_files_of_an_append_in_place_that_was_given_up_in_this_partition() -> None:
    world = half_added("d1", "d2")
    moved_away(world)
    assert world.history().records[1].superseded == {("d1",)}
    world.keeper.rollback(T, version=1, partitions=["dt=d1"])
    assert world.rows() == {"d1": {1}, "d2": {2, 10}}


def test_a_restore_shows_no_files_of_an_append_in_place_that_was_given_up() -> None:
    world = half_added("d1")
    world.metastore.drop_partition(world.table, ("d1",))
    world.recover_later()
    report = world.keeper.restore(T)
    assert report.not_there == {}
    assert world.rows() == {"d1": {1}, "d2": {2}}
    assert "1 file with 3 bytes copied" in " ".join(report.notes)
    world.keeper.rollback(T, version=1)
    assert world.rows() == {"d1": {1}, "d2": {2}}
    assert world.vacuum().failures == ()
    assert world.leftovers() == []
