"""Where a partition goes back to after a late call, beside other tools that move it to and fro. Over doubles."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from table_writer.errors import ConflictError, InvalidInputError, MetastoreError, StorageError
from table_writer.model.location import Location
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.table.past import Past
from tests.publish.test_what_late_calls_show import APPEND, WHOLE, T, lost_and_recovered, read, rows
from tests.publish.world import DIED, DeathError, Fault, World, insert, move, without_answer, written


def days(world: World, number: float) -> None:
    """So many days go by, and recover runs as it is scheduled: no call can come late any more."""
    world.skipped_seconds += number * 86_400
    world.keeper.recover(T)


def at_home(world: World, how: str) -> str:
    """Row 2 of d1 is where the newest published entry has it, which an older one names too."""
    world.write({"d1": rows(2)})
    if how == "rolled back":
        world.write({"d1": rows(1)})
        world.keeper.rollback(T, version=1)
    else:
        lost_and_recovered(world, lambda: world.write({"d1": rows(2)}))
    return world.partitions()["d1"].location


@pytest.mark.parametrize("later", [0, 3], ids=["at once", "days later"])
@pytest.mark.parametrize("how", ["recovered", "rolled back"])
@pytest.mark.parametrize("found", ["x", None])
def test_a_partition_that_another_tool_puts_back_to_where_the_newest_version_has_it_stays(
    later: int, how: str, found: str | None
) -> None:
    world = World()
    home = at_home(world, how)
    if later:
        days(world, later)
    without_answer(world, lambda: world.write({"d1": rows(3)}))
    if found:
        move(world, "d1", found, 50)
    else:
        world.dropped_by_another_tool("d1")
    world.recover_later()
    if later:
        days(world, later)
    world.pointed_by_another_tool("d1", home)
    world.store.delete(["mart/orders/x/d1/f.json"])
    world.keeper.recover(T)
    assert world.rows() == {"d1": rows(2)}
    insert(world, "d1", 60)
    world.write({"d1": rows(4)}, plan=world.plan(APPEND))
    assert world.rows() == {"d1": rows(2, 60, 4)}


def test_a_metastore_that_was_set_back_is_put_right_to_the_newest_version_once_no_call_comes_late() -> None:
    world = written({"d1": rows(1)})
    first = world.partitions()["d1"].location
    world.write({"d1": rows(2)})
    without_answer(world, lambda: world.write({"d1": rows(3)}))
    move(world, "d1", "x", 50)
    world.recover_later()
    days(world, 10)
    world.pointed_by_another_tool("d1", first)
    world.keeper.recover(T)
    assert world.rows() == {"d1": rows(2)}


def test_a_vacuum_deletes_nothing_where_a_partition_belongs_while_a_late_call_shows_another_place() -> None:
    world = written({"d1": rows(1)})
    theirs = move(world, "d1", "x", 50)
    world.write({"d1": rows(2)})
    days(world, 3.5)
    come = without_answer(world, lambda: world.write({"d1": rows(4)}))
    world.pointed_by_another_tool("d1", theirs)
    world.recover_later()
    come()
    world.keeper.vacuum(T)
    world.keeper.recover(T)
    assert world.rows() == {"d1": rows(50)}


def shown_late(world: World, *, drops: bool) -> int:
    """Let the call of a partly published write come, of d3, which a tool had moved; returns the version before that."""
    world.write({"d1": rows(1)})
    move(world, "d3", "x", 50)
    written = {"d1": rows(10)} if drops else {"d1": rows(10), "d3": rows(30)}
    come = without_answer(
        world, partial(world.write, written, plan=world.plan(WHOLE if drops else WriteMode.OVERWRITE_PARTITIONS))
    )
    move(world, "d3", "y", 60)
    world.recover_later()
    world.write({"d1": rows(11)})
    version = world.history().newest
    come()
    return version


@pytest.mark.parametrize("drops", [False, True])
def test_what_the_late_call_of_a_partly_published_write_has_shown_is_in_no_version(world: World, drops: bool) -> None:
    """Its outcome says that d3 was found at y; a correction shows that it was there before its late call."""
    version = shown_late(world, drops=drops)
    world.keeper.recover(T)
    assert read(world, version) == {"d1": {11}, "d3": {60}}
    world.write({"d1": rows(12), "d3": rows(70)})
    world.keeper.rollback(T, version=version)
    assert world.rows() == {"d1": rows(11), "d3": rows(60)}


@pytest.mark.parametrize("drops", [False, True])
def test_a_version_is_refused_where_a_write_has_found_a_partition_where_a_late_call_had_it(drops: bool) -> None:
    world = World()
    version = shown_late(world, drops=drops)
    world.write({"d3": rows(70)})
    with pytest.raises(InvalidInputError, match="cannot be put back"):
        world.keeper.rollback(T, version=version)
    with suppress(InvalidInputError):
        assert read(world, version)["d3"] == {60}


@pytest.mark.parametrize("back", ["late call", "tool"])
def test_a_version_has_a_partition_where_a_recovery_found_it_or_is_refused(back: str) -> None:
    world = written({"d1": rows(1), "d2": rows(2)})
    home = world.partitions()["d1"].location
    append = partial(world.write, {"d1": rows(10)}, plan=world.plan(APPEND, in_place=True))
    come = without_answer(world, append)
    move(world, "d1", "x", 77)
    world.recover_later()
    world.write({"d2": rows(3)})
    version = world.history().newest
    if back == "late call":
        come()
        world.keeper.recover(T)
        assert read(world, version) == {"d1": {77}, "d2": {3}}
    else:
        days(world, 3)
        world.pointed_by_another_tool("d1", home)
        world.write({"d1": rows(5)})
        with pytest.raises(InvalidInputError, match="is not known"):
            world.keeper.rollback(T, version=version)


@pytest.mark.parametrize("of", ["given up", "published"])
def test_the_late_call_of_a_correction_goes_back_to_where_another_tool_has_moved_the_partition(of: str) -> None:
    world = written({"d1": rows(1)})
    come = without_answer(world, lambda: world.write({"d1": rows(10)}))
    if of == "given up":
        move(world, "d1", "x", 11)
    world.recover_later()
    if of == "published":
        world.write({"d1": rows(12)})
    come()
    correction = without_answer(world, lambda: world.keeper.recover(T))
    move(world, "d1", "z", 90)
    world.recover_later()
    correction()
    world.keeper.recover(T)
    assert world.rows() == {"d1": rows(90)}


def test_the_late_call_of_a_correction_of_which_the_metastore_has_not_answered_again_leaves_it_in_doubt() -> None:
    world = written({"d1": rows(1)})
    come = without_answer(world, lambda: world.write({"d1": rows(10)}))
    move(world, "d1", "x", 11)
    world.recover_later()
    come()
    without_answer(world, lambda: world.keeper.recover(T))
    world.wait_out_claims()
    refused = Fault("metastore", "get_partitions", 1, "before", MetastoreError)
    world.fails(refused, lambda: world.keeper.recover(T), MetastoreError)
    world.recover_later()
    assert world.rows() == {"d1": rows(11)}


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("chosen", [None, "d1", "d2"])
def test_a_rollback_does_not_say_that_all_is_as_it_was_while_readers_see_a_late_call(
    moved: bool, chosen: str | None
) -> None:
    world = World()
    world.write({"d1": rows(1), "d2": rows(2)})
    come = without_answer(world, lambda: world.write({"d1": rows(10)}, plan=world.plan(APPEND)))
    if moved:
        move(world, "d1", "x", 51)
    else:
        insert(world, "d1", 51)
    world.recover_later()
    come()
    roll_back = partial(world.keeper.rollback, T, version=1, partitions=[f"dt={chosen}"] if chosen else None)
    if chosen == "d2":
        assert roll_back().version is None
    else:
        with pytest.raises(InvalidInputError, match="another tool or a late call"):
            roll_back()
    world.recover_later()
    assert (roll_back().version is None) is (not moved or chosen == "d2"), "from where another tool has it: on purpose"


@pytest.mark.parametrize("mode", [APPEND, WriteMode.OVERWRITE_PARTITIONS])
def test_a_write_over_a_name_at_which_another_tool_has_inserted_is_recovered_as_a_whole(mode: WriteMode) -> None:
    world = written({"d1": rows(1), "d3": rows(3)})

    def inserted() -> None:
        insert(world, "d3", 60)
        raise MetastoreError("try later")

    world.at_metastore("drop_partition", "before", inserted)
    world.write({"d1": rows(10)}, plan=world.plan(WHOLE))
    world.recover_later()
    assert world.rows() == {"d1": rows(10), "d3": rows(60)}
    without_answer(world, lambda: world.write({"d1": rows(62), "d3": rows(61)}, plan=world.plan(mode)))
    world.recover_later()
    kept = {"d1": rows(10), "d3": rows(60)} if mode is APPEND else {"d1": rows(), "d3": rows()}
    assert world.rows() == {"d1": kept["d1"] | {62}, "d3": kept["d3"] | {61}}


def test_a_partition_that_another_tool_has_pointed_at_the_files_of_another_one_goes_back_there() -> None:
    world = written({"d1": rows(1), "d2": rows(2)})
    come = without_answer(world, lambda: world.write({"d1": rows(10)}))
    world.pointed_by_another_tool("d1", world.partitions()["d2"].location)
    world.recover_later()
    come()
    world.keeper.recover(T)
    assert world.rows() == {"d1": rows(2), "d2": rows(2)}


def test_a_rollback_of_other_partitions_is_possible_after_a_late_call_was_corrected() -> None:
    world = written({"d1": rows(1)})
    world.write({"d1": rows(2)})
    move(world, "d3", "x", 50)
    come = without_answer(world, lambda: world.write({"d3": rows(10)}, plan=world.plan(APPEND)))
    insert(world, "d3", 51)
    world.recover_later()
    come()
    world.keeper.recover(T)
    world.keeper.rollback(T, version=1)
    assert world.rows() == {"d1": rows(1), "d3": rows(50, 51)}


def with_d3_added_late() -> World:
    """Return a world in which a late call has added a partition that no version has."""
    world = written({"d1": rows(1)})
    create = partial(world.write, {"d3": rows(30)}, plan=world.plan(WriteMode.CREATE_PARTITIONS))
    come = without_answer(world, create, "add_partitions")
    move(world, "d3", "x", 77)
    world.recover_later()
    world.dropped_by_another_tool("d3")
    come()
    return world


def test_create_partitions_goes_on_after_it_has_dropped_what_came_late() -> None:
    world = with_d3_added_late()
    world.write({"d3": rows(31)}, plan=world.plan(WriteMode.CREATE_PARTITIONS))
    assert world.rows() == {"d1": rows(1), "d3": rows(31)}


def test_a_text_that_is_no_location_is_where_another_tool_has_a_partition() -> None:
    world = written({"d1": rows(1), "d2": rows(2)})
    without_answer(world, lambda: world.write({"d1": rows(10)}))
    world.pointed_by_another_tool("d1", "nowhere in particular")
    world.recover_later()
    world.write({"d2": rows(3)})
    world.pointed_by_another_tool("d1", f"{world.root}y/")
    world.write({"d1": rows(4)})
    with pytest.raises(InvalidInputError, match="is not known"):
        world.keeper.rollback(T, version=4)
    world.keeper.rollback(T, version=1)
    assert world.rows() == {"d1": rows(1), "d2": rows(2)}


@pytest.mark.parametrize("how", ["no answer", "killed"])
@pytest.mark.parametrize("second", ["drop", "emptying", "rollback"])
@pytest.mark.parametrize("end", ["recover", "append", "create"])
def test_a_second_late_call_is_no_other_tool_to_the_end_of_a_correction(how: str, second: str, end: str) -> None:
    world = written({"d1": rows(1)} if second == "rollback" else {"d1": rows(1), "d2": rows(2)})
    if second == "rollback":
        move(world, "d2", "x", 50)
        world.write({"d2": rows(3)})
        operation = partial(world.keeper.rollback, T, version=1)
    else:
        operation = partial(world.write, {"d1": rows(3)}, plan=world.plan(WHOLE))
    late = without_answer(world, operation, "drop_partition" if second == "drop" else "alter_partitions")
    world.recover_later()
    world.write({"d2": rows(4)})
    alter = without_answer(world, lambda: world.write({"d2": rows(5)}))
    world.recover_later()
    world.write({"d2": rows(7)})
    alter()
    if how == "no answer":
        without_answer(world, lambda: world.keeper.recover(T))
    else:
        world.fails(DIED, lambda: world.keeper.recover(T))
    late()
    world.wait_out_claims()
    if end == "append":
        world.write({"d2": rows(8)}, plan=world.plan(APPEND))
    elif end == "create":
        with pytest.raises(ConflictError):
            world.write({"d2": rows(8)}, plan=world.plan(WriteMode.CREATE_PARTITIONS))
    world.recover_later()
    assert world.rows().get("d2") == (rows(7, 8) if end == "append" else rows(7))


@pytest.mark.parametrize("partly", [False, True])
@pytest.mark.parametrize("before", ["x", "nowhere"])
def test_a_rollback_to_before_a_write_that_was_given_up_is_refused_where_its_claim_has_found_it_elsewhere(
    before: str, partly: bool
) -> None:
    world = World()
    world.write({"d1": rows(1)})
    if before == "x":
        move(world, "d3", "x", 50)
    call = "alter_partitions" if before == "x" or partly else "add_partitions"
    without_answer(world, lambda: world.write({"d3": rows(10)} | ({"d1": rows(11)} if partly else {})), call)
    move(world, "d3", "y", 60)
    world.recover_later()
    world.write({"d3": rows(70)})
    with pytest.raises(InvalidInputError, match="dt=d3: another tool or a late call has moved it"):
        world.keeper.rollback(T, version=1)


def set_location(world: World, value: str, name: str, *ids: int) -> None:
    """ALTER ... SET LOCATION of another tool: the parameters stay."""
    before = world.partitions()[value]
    place = move(world, value, name, *ids)
    if value:
        world.dropped_by_another_tool(value)
        world.metastore.add_partitions(world.table, [replace(before, location=place)])


@pytest.mark.parametrize("value", ["d1", ""], ids=["partitioned", "unpartitioned"])
def test_the_version_of_a_recovery_shows_where_it_has_found_what_had_switched_before(world: World, value: str) -> None:
    if not value:
        world.become_unpartitioned()
    world.write({value: rows(1)})
    without_answer(world, lambda: world.write({value: rows(2)}))()
    set_location(world, value, "y", 60)
    world.recover_later()
    (past,) = Past(world.services(), version=3).partitions()
    assert Location.parse(past.location).same_place(Location.parse(f"{world.root}y/{value}/"))
    world.write({value: rows(70)})
    world.keeper.rollback(T, version=3)
    assert world.rows() == {value: rows(60)}


@pytest.mark.parametrize("end", ["recover", "append"])
def test_a_late_call_goes_back_to_where_a_recovery_found_what_had_switched_before(end: str) -> None:
    world = written({"d1": rows(1)})
    come = without_answer(world, lambda: world.write({"d1": rows(9)}))
    world.recover_later()
    without_answer(world, lambda: world.write({"d1": rows(2)}))()
    set_location(world, "d1", "y", 60)
    world.recover_later()
    come()
    if end == "append":
        world.write({"d1": rows(3)}, plan=world.plan(APPEND))
    world.keeper.recover(T)
    assert world.rows() == {"d1": rows(60, 3) if end == "append" else rows(60)}


def test_a_late_drop_of_what_the_newest_version_has_dropped_is_undone_where_a_recovery_found_it_since() -> None:
    world = written({"d1": rows(1), "d2": rows(2)})
    late = without_answer(world, lambda: world.write({"d1": rows(9)}, plan=world.plan(WHOLE)), "drop_partition")
    world.recover_later()
    without_answer(world, lambda: world.write({"d2": rows(10)}), "add_partitions")
    move(world, "d2", "x", 50)
    world.recover_later()
    late()
    world.keeper.recover(T)
    assert world.rows() == {"d1": rows(9), "d2": rows(50)}


def test_a_rollback_does_not_say_that_all_is_as_it_was_where_a_metastore_was_set_back() -> None:
    world = written({"d1": rows(1)})
    first = world.partitions()["d1"].location
    world.write({"d1": rows(2)})
    world.pointed_by_another_tool("d1", first)
    with pytest.raises(InvalidInputError, match="another tool or a late call"):
        world.keeper.rollback(T, version=2)


def test_an_append_is_given_up_for_an_insert_also_where_a_late_drop_has_come_before_its_recovery() -> None:
    world = written({"d1": rows(1), "d2": rows(2)})
    drop = without_answer(world, lambda: world.write({"d1": rows(3)}, plan=world.plan(WHOLE)), "drop_partition")
    world.recover_later()
    world.write({"d2": rows(4)})
    without_answer(world, lambda: world.write({"d2": rows(5)}, plan=world.plan(APPEND)))
    insert(world, "d2", 6)
    drop()
    world.recover_later()
    assert world.rows() == {"d1": rows(3), "d2": rows(4, 6)}


def test_a_rollback_names_a_partition_that_a_late_call_has_added_and_no_version_has() -> None:
    world = with_d3_added_late()
    with pytest.raises(InvalidInputError, match=r"dt=d3 is at .* has put it after version 1"):
        world.keeper.rollback(T, version=1)


def test_an_append_that_has_made_a_partition_is_finished_though_an_older_late_call_has_taken_it() -> None:
    world = written({"d1": rows(1)})
    come = without_answer(world, lambda: world.write({"d1": rows(2)}))
    world.dropped_by_another_tool("d1")
    world.recover_later()
    with world.inject(Fault("metastore", "add_partitions", 1, "after", DeathError)), suppress(DeathError):
        world.write({"d1": rows(3)}, plan=world.plan(APPEND))
    assert world.rows() == {"d1": rows(3)}
    come()
    world.recover_later()
    assert world.rows() == {"d1": rows(3)}


def test_a_late_drop_of_what_a_late_call_had_added_gives_up_no_write_that_was_told_as_published() -> None:
    world = written({"d1": rows(1)})
    late_append = without_answer(world, lambda: world.write({"d1": rows(2), "d3": rows(3)}, plan=world.plan(APPEND)))
    insert(world, "d1", 77)
    world.recover_later()
    late_append()
    dies = Fault("metastore", "alter_partitions", 2, "before", DeathError)
    with world.inject(dies, keep_call=True), pytest.raises(DeathError):
        world.keeper.recover(T)
    late_correction = world.kept_call
    world.wait_out_claims()
    switched: list[bool] = []

    def unrecorded(call: str, phase: str, _: str) -> None:
        if switched and call.startswith("put") and phase == "before":
            raise StorageError("no answer")

    world.store.on_call = unrecorded
    world.metastore.on_call = lambda *now: switched.append(True) if now == ("alter_partitions", "after") else None
    told = world.write({"d3": rows(9)}).entry.version
    world.store.on_call = world.metastore.on_call = None
    late_correction()
    world.wait_out_claims()
    assert world.keeper.recover(T).settled[told] == "published"
    assert world.rows()["d3"] == rows(9)


def test_a_partition_that_a_late_call_has_added_and_no_version_has_is_told_everywhere() -> None:
    world = with_d3_added_late()
    [status] = world.keeper.tables().tables
    assert (status.behind, status.health) == (("dt=d3",), "behind")
    placement = next(one for one in world.keeper.doctor(T).findings if one.check == "partition locations")
    assert placement.status == "error"
    assert "dt=d3" in placement.message
    [_, told] = world.keeper.partitions(T).partitions
    assert told.note == "a late call of a write that was given up; `recover` undoes it"
