"""Appends in place: files that come to where readers look already, and all that has to tell them apart later."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from table_writer.errors import ConflictError, InvalidInputError, MetastoreError, OutcomeUnknownError, StorageError
from table_writer.model.entry import LogEntry, Outcome
from table_writer.model.location import Location
from table_writer.model.table import PartitionChange
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.deadline import Deadline
from table_writer.protocol.log.slots import Slots
from table_writer.protocol.operations import publisher
from table_writer.protocol.table import open_table
from table_writer.protocol.table.past import Past
from table_writer.storage.object_store import visible_files
from tests.publish.world import REFUSED, DeathError, Fault, World, body_of, plain, written

ONE = {"d1": frozenset({1})}
TWO = {"d1": frozenset({2})}
THREE = {"d1": frozenset({3})}
NEW = {"d9": frozenset({9})}


def append(world: World, rows: dict[str, frozenset[int]], *, in_place: bool = True) -> None:
    world.write(rows, plan=world.plan(WriteMode.APPEND, in_place=in_place))


def copies(world: World) -> int:
    return world.store.request_counts().get("CopyObject", 0)


def test_it_adds_its_files_where_readers_look_and_copies_nothing_else(world: World) -> None:
    world.written_by_another_tool("d2", frozenset({5}))
    world.write(ONE)
    append(world, TWO)
    before = {value: one.location for value, one in world.partitions().items()}
    append(world, {"d1": frozenset({3}), "d2": frozenset({6}), **NEW})
    assert world.rows() == {"d1": frozenset({1, 2, 3}), "d2": frozenset({5, 6}), **NEW}
    assert {value: world.partitions()[value].location for value in before} == before
    assert copies(world) == 3


def test_a_partition_counts_what_it_held_and_what_came(world: World) -> None:
    world.written_by_another_tool("d2", frozenset({5}))
    world.write({"d1": frozenset({1, 2})})
    append(world, {"d1": frozenset({3}), "d2": frozenset({6})})
    parameters = world.partitions()["d1"].parameters
    assert (parameters["numRows"], parameters["numFiles"]) == ("3", "2")
    assert parameters["totalSize"] == str(len("[1, 2]") + len("[3]"))
    assert parameters["spark.sql.statistics.numRows"] == "3"
    assert "numRows" not in world.partitions()["d2"].parameters


def test_its_entry_names_each_file() -> None:
    world = written(ONE)
    append(world, TWO)
    stored = body_of(world.store, world.layout.entry_key(2))
    fields = json.loads(plain(stored))
    (partition,) = fields["body"]["partitions"]
    assert partition["old_location"] == partition["new_location"] != partition["source"]
    assert [one["size"] for one in partition["added"]] == [3]
    assert LogEntry.from_json(stored, root=world.layout.root, version=2).partitions[0].rows == 1
    first = body_of(world.store, world.layout.entry_key(1))
    assert '"added"' not in plain(first).decode()


def test_an_overwrite_that_was_planned_before_one_conflicts() -> None:
    world = written(ONE)
    plan = world.plan()
    append(world, TWO)
    with pytest.raises(ConflictError):
        world.write(THREE, plan=plan)
    assert world.rows() == {"d1": frozenset({1, 2})}


def test_after_an_overwrite_it_goes_where_readers_look_then() -> None:
    world = written(ONE)
    late = world.plan(WriteMode.APPEND, in_place=True)
    world.write(TWO)
    world.write(THREE, plan=late)
    assert world.rows() == {"d1": frozenset({2, 3})}


@pytest.mark.parametrize("number", [1, 2])
def test_who_comes_next_finishes_what_a_dead_one_has_begun(number: int) -> None:
    world = written({**ONE, **NEW})
    with world.inject(Fault("store", "copy", number, "before", DeathError)), pytest.raises(DeathError):
        append(world, {**TWO, "d9": frozenset({8})})
    world.wait_out_claims()
    append(world, THREE)
    assert world.rows() == {"d1": frozenset({1, 2, 3}), "d9": frozenset({8, 9})}
    assert world.partitions()["d1"].parameters["numRows"] == "3"


def test_files_are_counted_once_by_recoveries_that_are_at_it_at_once_and_by_those_that_recover_them() -> None:
    world = written(ONE)
    world.fails(Fault("store", "copy", 1, "before", DeathError), lambda: append(world, TWO))
    world.wait_out_claims()

    def another_comes_first(call: str, phase: str) -> None:
        """The claim has been won, and lasts no more; the other one dies before it has added a file."""
        if (call, phase) == ("get_partitions", "before") and world.history().newest == 3:
            world.metastore.on_call = None
            world.wait_out_claims()
            world.fails(Fault("store", "copy", 1, "before", DeathError), lambda: world.keeper.recover("mart.orders"))
            world.wait_out_claims()

    world.metastore.on_call = another_comes_first
    world.keeper.recover("mart.orders")
    assert world.rows() == {"d1": frozenset({1, 2})}
    assert world.partitions()["d1"].parameters["numFiles"] == "2"
    append(world, THREE)
    assert world.partitions()["d1"].parameters["numFiles"] == "3"


def test_figures_of_another_location_are_not_counted() -> None:
    world = written({"d1": frozenset({1, 2})})
    before = world.partitions()["d1"]
    world.write(ONE)
    world.fails(Fault("store", "copy", 1, "before", DeathError), lambda: append(world, TWO))
    world.wait_out_claims()
    moved = PartitionChange(partition=before, location=before.location, set_parameters={})
    world.metastore.alter_partitions(world.table, [moved])  # as a late call of the first version would
    world.keeper.recover("mart.orders")
    assert world.rows() == {"d1": frozenset({1, 2})}
    assert "numFiles" not in world.partitions()["d1"].parameters
    append(world, THREE, in_place=False)
    assert world.rows() == {"d1": frozenset({1, 2, 3})}


def test_what_the_metastore_refuses_nobody_has_seen() -> None:
    world = written(ONE)
    world.fails(REFUSED, lambda: append(world, TWO), MetastoreError)
    assert world.rows() == ONE
    assert world.history().records[-1].outcome is Outcome.ABANDONED
    world.vacuum()
    assert world.rows() == ONE
    assert world.leftovers() == []


def test_a_copy_that_fails_leaves_it_in_doubt_and_recover_brings_it_all() -> None:
    world = written(ONE)
    world.fails(Fault("store", "copy", 1, "before", Exception), lambda: append(world, TWO), OutcomeUnknownError)
    world.vacuum()  # which must not take the source
    world.recover_later()
    assert world.rows() == {"d1": frozenset({1, 2})}


def test_no_copy_leaves_after_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    world, now = World(), [0.0]
    world.write(ONE)
    plan = world.plan(WriteMode.APPEND, in_place=True)
    monkeypatch.setattr(open_table, "Deadline", partial(Deadline, clock=lambda: now[0]))

    def paused(call: str, phase: str) -> None:
        now[0] += 10_000 * ((call, phase) == ("alter_partitions", "after"))

    world.metastore.on_call = paused
    with pytest.raises(OutcomeUnknownError, match="not enough to add 1 file, not all are there"):
        world.write(TWO, plan=plan)
    assert copies(world) == 0
    world.metastore.on_call = None
    world.recover_later()
    assert world.rows() == {"d1": frozenset({1, 2})}


def test_a_rollback_takes_only_later_files_out() -> None:
    world = written(ONE)
    append(world, TWO)
    append(world, THREE)
    world.keeper.rollback("mart.orders", version=2)
    assert world.rows() == {"d1": frozenset({1, 2})}
    world.keeper.rollback("mart.orders", version=3)
    assert world.rows() == {"d1": frozenset({1, 2, 3})}
    append(world, {"d1": frozenset({4})})
    world.keeper.rollback("mart.orders", version=1)
    assert world.rows() == ONE
    world.keeper.rollback("mart.orders", version=3)
    assert world.rows() == {"d1": frozenset({1, 2, 3})}


def test_a_rollback_to_one_that_was_recovered_keeps_its_rows() -> None:
    world = written(ONE)
    world.fails(Fault("store", "copy", 1, "before", DeathError), lambda: append(world, TWO))
    world.wait_out_claims()
    append(world, THREE)
    assert world.rows() == {"d1": frozenset({1, 2, 3})}
    world.keeper.rollback("mart.orders", version=2)
    assert world.rows() == {"d1": frozenset({1, 2})}
    world.keeper.rollback("mart.orders", version=1)
    assert world.rows() == ONE


def test_a_rollback_to_before_takes_it_out_of_other_tools_rows(world: World) -> None:
    world.written_by_another_tool("d2", frozenset({5}))
    append(world, {"d2": frozenset({6})})
    report = world.keeper.rollback("mart.orders", version=0)
    assert world.rows() == {"d2": frozenset({5})}
    assert "1 file" in " ".join(report.notes)


def test_a_rollback_of_a_rollback_finds_files_that_readers_have_left() -> None:
    world = written(ONE)
    append(world, TWO)
    world.write({"d1": frozenset({9})})
    world.keeper.rollback("mart.orders", version=1)
    assert world.rows() == ONE
    world.keeper.rollback("mart.orders", version=2)
    assert world.rows() == {"d1": frozenset({1, 2})}


def test_restore_and_vacuum_and_a_copying_append_follow() -> None:
    world = written(ONE)
    append(world, TWO)
    append(world, THREE, in_place=False)
    append(world, {"d1": frozenset({4})})
    world.vacuum()
    assert world.leftovers() == []
    world.lose_metastore()
    world.keeper.adopt("mart.orders")
    assert world.rows() == {"d1": frozenset({1, 2, 3, 4})}


def test_partitions_that_share_a_location_are_refused_since_their_files_may_have_one_name(world: World) -> None:
    world.store.put("mart/orders/shared/part-0.json", b"[5]")
    for value in ("d1", "d2"):
        world.pointed_by_another_tool(value, "s3a://lake/mart/orders/shared/")
    with pytest.raises(InvalidInputError, match="shares s3a://lake/mart/orders/shared/ with another partition"):
        append(world, {**ONE, "d2": frozenset({2})})
    assert not world.history().records
    with pytest.raises(InvalidInputError, match="with another partition, dt=d2"):
        append(world, ONE)


def test_a_partition_stored_differently_is_refused(world: World) -> None:
    world.metastore.put_partition(world.name, world.pointed_by_another_tool("d1", "s3a://other/mart/orders/dt=d1/"))
    with pytest.raises(InvalidInputError, match="another bucket"):
        append(world, ONE)
    assert not world.history().records


def past_rows(world: World, version: int) -> dict[str, frozenset[int]]:
    """Read a version as Spark is told to: the files of each location but those that are left out."""
    found: dict[str, frozenset[int]] = {}
    for one in Past(world.services(), version=version).partitions():
        prefix = Location.parse(one.location).key
        listed = visible_files(world.store, prefix)
        files = [info for info in listed if info.key.removeprefix(prefix) not in one.without]
        if one.files is not None:
            assert (len(files), sum(info.size_bytes for info in files)) == (one.files, one.bytes)
        bodies = [world.store.get(info.key) for info in files]
        found["".join(one.values)] = frozenset(row for body in bodies if body for row in json.loads(body.body))
    return found


def test_each_older_version_has_its_own_files(world: World) -> None:
    world.written_by_another_tool("d2", frozenset({5}))
    world.write(ONE)
    append(world, {**TWO, "d2": frozenset({6})})
    append(world, THREE)
    expected = {1: frozenset({1}), 2: frozenset({1, 2}), 3: frozenset({1, 2, 3})}
    assert {version: past_rows(world, version)["d1"] for version in expected} == expected
    world.keeper.rollback("mart.orders", version=2)
    append(world, {"d1": frozenset({4})})
    world.compact("d1")
    assert {version: past_rows(world, version)["d1"] for version in expected} == expected
    assert past_rows(world, 4)["d1"] == frozenset({1, 2})
    assert past_rows(world, 5)["d1"] == past_rows(world, 6)["d1"] == frozenset({1, 2, 4})
    assert past_rows(world, 2)["d2"] == frozenset({5, 6})
    assert past_rows(world, 1)["d2"] == frozenset({5})


def test_differences_are_those_of_rows() -> None:
    world = written({**ONE, **NEW})
    append(world, TWO)
    world.compact("d1")
    world.keeper.rollback("mart.orders", version=1)

    def changes(first: int, last: int) -> list[tuple[str, str, int | None, int | None]]:
        found = world.keeper.changes("mart.orders", first, last).partitions
        return [(one.name, one.change, one.rows_before, one.rows_after) for one in found]

    assert changes(1, 2) == [("dt=d1", "appended", 1, 2)]
    assert changes(1, 3) == [("dt=d1", "appended", 1, 2)]
    assert changes(2, 3) == []
    assert changes(1, 4) == []
    assert changes(3, 4) == [("dt=d1", "replaced", 2, 1)]
    versions = world.keeper.history("mart.orders").versions
    assert [(one.appended_count, one.compacted_count, one.bytes) for one in versions[1:3]] == [(0, 1, 6), (1, 0, 3)]
    assert [one.table_bytes for one in reversed(versions)] == [6, 9, 9, 6]


def rows_changed(world: World, first: int, last: int) -> list[tuple[str, int | None, int | None]]:
    found = world.keeper.changes("mart.orders", first, last).partitions
    return [(one.change, one.rows_before, one.rows_after) for one in found]


def test_what_is_put_back_where_it_was_is_no_difference() -> None:
    world = written(ONE)
    append(world, TWO)
    world.metastore.drop_partition(world.table, ("d1",))
    world.keeper.restore("mart.orders")
    assert world.rows() == {"d1": frozenset({1, 2})}
    assert rows_changed(world, 1, 3) == [("replaced", 1, 2)]
    assert rows_changed(world, 2, 3) == []


def test_one_that_was_refused_stands_in_nobodys_way() -> None:
    world = written(ONE)
    world.fails(REFUSED, lambda: append(world, TWO), MetastoreError)
    append(world, THREE)
    world.lose_metastore()
    world.keeper.adopt("mart.orders")
    assert world.rows() == {"d1": frozenset({1, 3})}
    before = copies(world)
    world.write(NEW)
    world.write({"d1": frozenset({9})})
    world.keeper.rollback("mart.orders", version=world.history().newest - 1)
    assert world.rows() == {"d1": frozenset({1, 3}), **NEW}
    assert copies(world) == before, "nobody has added anything since"


def test_figures_of_a_log_that_was_begun_anew_are_counted_on(world: World) -> None:
    for row in range(4):
        world.write(ONE) if not row else append(world, {"d1": frozenset({10 + row})})
    world.store.delete([found.key for found in world.store.list(world.layout.log_prefix)])
    world.store.delete([world.layout.owner_key, world.layout.checkpoint_key])
    world.keeper.adopt(str(world.name), accept_loss=True)
    append(world, TWO)
    assert world.partitions()["d1"].parameters["numFiles"] == "5"


def test_a_file_that_nobody_has_written_is_refused_before_the_claim() -> None:
    world = written(ONE)
    plan = world.plan(WriteMode.APPEND, in_place=True)
    stray = f"{plan.data_location.key}dt=d1/part-7-late.json"
    with pytest.raises(StorageError, match="1 file more"):
        world.write(TWO, plan=plan, before_publish=lambda: world.store.put(stray, b"[9]"))
    assert world.rows() == ONE
    assert world.leftovers() == []


@contextmanager
def before_the_claim_of_a_rollback(act: Callable[[], object]) -> Iterator[None]:
    claim = Slots.claim

    def claimed(slots: Slots, entry: LogEntry) -> bool:
        if entry.rollback_to is not None:
            act()
        return claim(slots, entry)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Slots, "claim", claimed)
        yield


def test_a_rollback_that_loses_its_slot_copies_once() -> None:
    world = written(ONE)
    append(world, TWO)
    busy = [{f"d{number}": frozenset({number})} for number in range(3, 6)]
    before = copies(world)
    with before_the_claim_of_a_rollback(lambda: world.write(busy.pop()) if busy else None):
        world.keeper.rollback("mart.orders", version=1, partitions=["dt=d1"])
    assert world.rows()["d1"] == frozenset({1})
    assert copies(world) - before == 1


def test_a_rollback_that_loses_its_slot_to_one_of_a_partition_that_was_right_is_decided_again() -> None:
    world = written({"d1": frozenset({1}), "d2": frozenset({2})})
    world.write({"d2": frozenset({20})})
    appends = [{"d1": frozenset({5})}]
    with (
        before_the_claim_of_a_rollback(lambda: append(world, appends.pop()) if appends else None),
        pytest.raises(ConflictError, match="Look at the history and decide again"),
    ):
        world.keeper.rollback("mart.orders", version=1)
    assert world.rows() == {"d1": frozenset({1, 5}), "d2": frozenset({20})}
    world.keeper.rollback("mart.orders", version=1)
    assert world.rows() == {"d1": frozenset({1}), "d2": frozenset({2})}


def at_a_placeholder(world: World, value: str, rows: frozenset[int]) -> str:
    """A partition that a refused publish has added, and to which another tool has written since."""
    location = str(world.layout.placeholder("20240101T000000-0123456789abcdef", (value,)))
    world.pointed_by_another_tool(value, location)
    world.store.put(f"{Location.parse(location).key}part-0.json", json.dumps(sorted(rows)).encode())
    return location


def test_a_placeholder_with_another_tools_rows_moves_beside_partitions_that_stay() -> None:
    world = written(ONE)
    at_a_placeholder(world, "d2", frozenset({5}))
    append(world, {**TWO, "d2": frozenset({6})})
    assert world.rows() == {"d1": frozenset({1, 2}), "d2": frozenset({5, 6})}
    (d1, d2) = sorted(world.history().records[-1].entry.partitions, key=lambda one: one.values)
    assert (len(d1.added), len(d2.added), d2.files) == (1, 0, 2)
    world.vacuum()
    assert world.rows() == {"d1": frozenset({1, 2}), "d2": frozenset({5, 6})}
    assert world.leftovers() == []


@pytest.mark.parametrize("files_change", [False, True])
def test_one_that_has_copied_from_a_placeholder_stays_where_others_have_put_the_partition_since(
    files_change: bool,
) -> None:
    world = World()
    location = at_a_placeholder(world, "d1", frozenset({5}))
    moves = [lambda: world.write(THREE)]
    if files_change:  # the copies of the first round are no more those of what is there: another directory takes them
        key = f"{Location.parse(location).key}part-0.json"
        moves.insert(0, lambda: world.store.put(key, b"[7]"))
    bring = publisher.CarryOver.bring

    def moved_after_it(self: publisher.CarryOver, missing: Any) -> None:
        bring(self, missing)
        if moves:
            moves.pop(0)()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publisher.CarryOver, "bring", moved_after_it)
        append(world, TWO)
    assert world.rows() == {"d1": frozenset({2, 3})}
    assert world.partitions()["d1"].parameters["numRows"] == "2"
    world.vacuum()
    assert world.rows() == {"d1": frozenset({2, 3})}
    assert world.leftovers() == []


@pytest.mark.parametrize("place", ["mart/orders/dt=d1/", "mart/orders/", "mart/"])
def test_a_partition_whose_location_another_one_reads_too_is_refused_though_the_write_does_not_name_that(
    place: str,
) -> None:
    world = World()
    world.written_by_another_tool("d1", frozenset({5}))
    world.pointed_by_another_tool("latest", f"s3a://lake/{place}")
    with pytest.raises(InvalidInputError, match=r"shares s3a://lake/mart/orders/dt=d1/ with another .*dt=latest"):
        append(world, TWO)
    assert not world.history().records
    append(world, TWO, in_place=False)
    assert world.partitions()["latest"].location == f"s3a://lake/{place}"
    append(world, THREE)  # what is below our own directory nobody sees from around it
    assert world.rows()["d1"] == frozenset({2, 3, 5})


def test_readers_of_a_hidden_directory_see_what_lies_below_it_and_those_around_do_not(world: World) -> None:
    world.written_by_another_tool("d1", frozenset({5}))
    world.pointed_by_another_tool("d1", f"{world.root}_kept/d1/")
    world.pointed_by_another_tool("around", world.root)
    append(world, TWO)
    world.pointed_by_another_tool("latest", f"{world.root}_kept/")
    with pytest.raises(InvalidInputError, match=r"with another .*dt=latest"):
        append(world, THREE)


def test_a_location_of_ours_that_another_tool_has_given_another_partition_too_is_refused() -> None:
    world = written(ONE)
    world.pointed_by_another_tool("latest", world.partitions()["d1"].location)
    with pytest.raises(InvalidInputError, match="with another partition, dt=latest"):
        append(world, TWO)
    assert world.rows() == {**ONE, "latest": frozenset({1})}
