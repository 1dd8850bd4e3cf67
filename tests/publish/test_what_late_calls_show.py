"""What a late call shows is nothing to build on, to roll back to or to read, and no vacuum forgets it. Over doubles."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from table_writer.errors import ConflictError, InvalidInputError, MetastoreError, OutcomeUnknownError, TableWriterError
from table_writer.model.location import Location
from table_writer.model.table_read import ReadOf, TableRead
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.table.past import Past, files_of
from table_writer.storage.table_files import listed_files
from tests.publish.world import DeathError, Fault, World, body_of, insert, move, without_answer, written

T = "mart.orders"
APPEND, WHOLE = WriteMode.APPEND, WriteMode.OVERWRITE_TABLE


def rows(*ids: int) -> frozenset[int]:
    return frozenset(ids)


def lost_and_recovered(
    world: World, operation: Callable[[], object], call: str = "alter_partitions"
) -> Callable[[], object]:
    """Do something whose first such call has no answer, and recover it; returns what applies the call."""
    come = without_answer(world, operation, call)
    world.recover_later()
    return come


def append_beside_an_insert(world: World, value: str, row: int, inserted: int, key: str = "") -> None:
    """An append; once it has ended, another tool inserts into the partition."""
    try:
        world.write({value: rows(row)}, plan=world.plan(APPEND, key=key))
    finally:
        insert(world, value, inserted)


def append_of_a_new_partition_is_given_up(world: World, value: str = "d3") -> Callable[[], None]:
    """An append of row 10, which only another tool has written before: no answer, an INSERT there, abandoned."""
    if value:
        world.write({"d1": rows(1)})
        move(world, value, "elsewhere", 50)
    else:
        world.written_by_another_tool(value, rows(50))
    late = lost_and_recovered(world, lambda: append_beside_an_insert(world, value, 10, 51, "k"))
    assert world.services().log.slots.outcome(2 if value else 1).value == "abandoned"  # type: ignore[union-attr]
    return late


def read(world: World, version: int) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    opened = world.services()
    for partition in Past(opened, version=version).partitions():
        for path in files_of(opened, partition, "it"):
            directory, _, name = path.rpartition("/")
            stored = body_of(world.store, f"{Location.parse(f'{directory}/').key}{name}")
            found.setdefault(partition.values[0], set()).update(json.loads(stored))
    return found


def from_itself(world: World) -> TableRead:
    """What a query that reads the table finds now."""
    places = [Location.parse(partition.location) for partition in world.partitions().values()]
    files = {place.place: listed_files(world.store, world.layout, place) for place in places}
    return TableRead(of=ReadOf.TABLE, files=files, covers=frozenset)


@pytest.mark.parametrize("value", ["d3", ""], ids=["partitioned", "unpartitioned"])
@pytest.mark.parametrize("again", [False, True])
def test_no_vacuum_forgets_the_late_call_of_an_append_to_what_was_never_published(value: str, again: bool) -> None:
    world = World()
    if not value:
        world.become_unpartitioned()
    append_of_a_new_partition_is_given_up(world, value)()
    world.wait_seconds = 3 * 86_400
    world.wait_out_claims()
    world.vacuum()
    if again:
        world.write_once({value: rows(10)}, APPEND, "k")
    world.keeper.recover(T)
    assert world.rows()[value] == (rows(50, 51, 10) if again else rows(50, 51))


def test_a_dry_run_names_the_late_call_of_an_append_to_what_was_never_published(world: World) -> None:
    append_of_a_new_partition_is_given_up(world)()
    assert world.keeper.recover(T, dry_run=True).put_right == ("dt=d3",)


@pytest.mark.parametrize("corrected", [False, True])
def test_what_was_abandoned_is_neither_rolled_back_to_nor_read(world: World, corrected: bool) -> None:
    late = append_of_a_new_partition_is_given_up(world)
    world.write({"d1": rows(2)})
    assert world.history().newest == 4
    late()
    if corrected:
        world.keeper.recover(T)
    else:
        world.write({"d3": rows(60)})
    with suppress(TableWriterError):
        assert read(world, 4)["d3"] == {50, 51}
    with suppress(TableWriterError):
        world.keeper.rollback(T, version=4)
    assert 10 not in world.rows()["d3"]


def test_nobody_rolls_back_to_where_readers_may_not_have_been() -> None:
    world = written({"d1": rows(1), "d2": rows(2)})
    move(world, "d1", "elsewhere", 77)
    world.write({"d2": rows(3)})
    world.write({"d1": rows(4)})
    with pytest.raises(InvalidInputError, match="dt=d1: another tool or a late call has moved it, and whether after"):
        world.keeper.rollback(T, version=2)
    world.keeper.rollback(T, version=1)
    assert world.rows() == {"d1": rows(1), "d2": rows(2)}


def test_a_write_from_where_another_tool_had_a_partition_is_refused_once_it_is_elsewhere(world: World) -> None:
    world.written_by_another_tool("d1", rows(1))
    move(world, "d1", "x", 50)
    seen = from_itself(world)
    world.pointed_by_another_tool("d1", f"{world.root}y/d1/")
    with pytest.raises(ConflictError, match="were computed from"):
        world.write({"d1": rows(51)}, plan=replace(world.plan(), reads=(seen,)))


@pytest.mark.parametrize("how", ["theirs", "drop", "empty", "given up"])
def test_a_write_that_is_computed_from_the_table_is_not_built_on_what_a_late_call_shows(world: World, how: str) -> None:
    if how == "theirs":
        world.write({"d2": rows(2)})
        world.written_by_another_tool("d1", rows(50))
        world.write({"d1": rows(1)})
        late = lost_and_recovered(world, lambda: world.keeper.rollback(T, version=1))
    else:
        world.write({"d1": rows(1), "d2": rows(2)})
    if how in {"drop", "empty"}:
        called = "drop_partition" if how == "drop" else "alter_partitions"
        late = lost_and_recovered(world, lambda: world.write({"d2": rows(20)}, plan=world.plan(WHOLE)), called)
    if how == "given up":
        late = lost_and_recovered(world, lambda: append_beside_an_insert(world, "d1", 10, 60))
    else:
        world.write({"d1": rows(60)})
    late()
    seen = world.rows().get("d1", rows())
    with suppress(ConflictError):
        world.write({"d1": seen | {7}}, plan=replace(world.plan(), reads=(from_itself(world),)))
    world.keeper.recover(T)
    assert 60 in world.rows()["d1"]
    assert 10 not in world.rows()["d1"]


def test_a_refusal_is_believed_where_another_tool_has_only_spelled_a_location_otherwise() -> None:
    world = written({"d1": rows(1)})

    def refuse() -> None:
        stored = world.metastore._partitions[world.name]
        stored["d1",] = replace(stored["d1",], location=stored["d1",].location.replace("s3a://", "s3://"))
        raise MetastoreError("refused")

    world.at_metastore("alter_partitions", "before", refuse)
    with pytest.raises(MetastoreError, match="refused"):
        world.write({"d1": rows(2)})
    assert world.rows() == {"d1": rows(1)}


@pytest.mark.parametrize("how", ["back", "drop", "theirs"])
def test_a_refusal_is_not_believed_where_an_older_call_has_come_since(how: str) -> None:
    world, saw = World(), []
    world.write({"d1": rows(1), "d2": rows(2)})
    if how == "back":
        late = lost_and_recovered(world, lambda: world.write({"d2": rows(20)}))
    elif how == "drop":
        late = lost_and_recovered(
            world, lambda: world.write({"d1": rows(10)}, plan=world.plan(WHOLE)), "drop_partition"
        )
        world.write({"d2": rows(20)})
    else:
        move(world, "d2", "elsewhere", 50)
        lost_and_recovered(world, lambda: append_beside_an_insert(world, "d2", 20, 51))()
        late = lost_and_recovered(world, lambda: world.keeper.recover(T))  # the correction's
        world.write({"d2": rows(21)})

    def misreport() -> None:
        saw.append(world.rows()["d2"])
        late()
        raise MetastoreError("a deadlock, says the server, after its commit")

    world.at_metastore("alter_partitions", "after", misreport)
    with pytest.raises(OutcomeUnknownError):
        world.write({"d2": rows(3)})
    assert saw == [rows(3)]


def test_files_of_after_a_version_in_doubt_had_switched_are_no_part_of_the_version_before(world: World) -> None:
    world.written_by_another_tool("d9", rows(5))
    world.write({"d1": rows(1)})
    for value in ("d1", "d2"):  # readers see both, whose outcomes are not recorded
        world.skipped_seconds += 100
        with world.inject(Fault("store", "put_if_absent", 2, "before", DeathError)), suppress(DeathError):
            world.write({value: rows(2)})
    world.skipped_seconds += 100
    insert(world, "d9", 7)
    world.wait_out_claims()
    with pytest.raises(ConflictError):
        world.write({"d1": rows(4)})  # resolves the first of them alone
    assert [record.entry.version for record in world.history().records.publishes_in_doubt] == [3]
    with pytest.raises(InvalidInputError, match="another tool has written there"):
        read(world, 2)
