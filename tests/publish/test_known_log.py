"""The metastore knows which log has published what: a log that is gone, a second one, or one that was set back."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial

import pytest

from table_writer.config import TableWriterConfig
from table_writer.doctor.examination import examine
from table_writer.errors import ConflictError, InvalidInputError, TableWriterError
from table_writer.maintenance import Maintenance
from table_writer.metastore.hive_objects import DDL_TIME
from table_writer.model.entry import Key
from table_writer.model.table import LOG_PARAMETER, VERSION_PARAMETER, Column, Partition, TableName
from table_writer.model.write import TableLayout, WritePlan
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.known_log import name_log
from table_writer.protocol.log.owner import take_root
from table_writer.protocol.table.open_table import RepeatedError
from tests.publish.world import ROOT, TABLE, DeathError, Fault, World, move, written

T = str(TABLE)
APPEND = WriteMode.APPEND
OLD = {"d1": frozenset({1}), "d2": frozenset({2})}
GONE = r"is not the one that the metastore knows: .* gone .*`table-writer adopt mart\.orders --accept-loss`"
OTHER = TableWriterConfig(directory_name=".writes")


def rows(*ids: int) -> frozenset[int]:
    return frozenset(ids)


def static_overwrite(world: World, keeps: tuple[str, ...] = ("", "d1", "d2")) -> None:
    """What Spark's INSERT OVERWRITE without PARTITION does: all below the root goes, and partitions stay.

    Their rows are written anew where they are; those without rows are dropped.
    """
    bodies = {}
    for value, partition in world.partitions().items():
        key = f"{partition.location.removeprefix('s3a://lake/')}spark.json"
        bodies[key] = f"[{100 + len(bodies)}]".encode()
        if value not in keeps:
            world.dropped_by_another_tool(value)
    world.store.delete([info.key for info in world.store.list(world.layout.root.key)])
    for key, body in bodies.items():
        world.store.put(key, body)


def whole() -> World:
    world = World()
    world.become_unpartitioned()
    world.write({"": rows(1)}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    return world


def finding(world: World) -> tuple[str, str]:
    (found,) = [one for one in examine(world.services()) if one.check == "log of the metastore"]
    return found.status, found.message


CALLS: dict[str, Callable[[World], object]] = {
    "history": lambda world: world.keeper.history(T),
    "recover": lambda world: world.keeper.recover(T),
    "rollback": lambda world: world.keeper.rollback(T, version=1),
    "restore": lambda world: world.keeper.restore(T),
    "vacuum": lambda world: world.vacuum(),
    "adopt": lambda world: world.keeper.adopt(T),
    "partitions": lambda world: world.keeper.partitions(T),
    "require_owner": lambda world: world.services().require_owner(),
    "an append with a key": lambda world: world.services().require_new_key(Key("load 1")),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("make", [lambda: written(OLD), whole], ids=["partitioned", "unpartitioned"])
def test_no_call_takes_a_log_that_was_deleted_for_one_that_never_was(
    make: Callable[[], World], call: Callable[[World], object]
) -> None:
    world = make()
    if world.table.partition_columns:
        static_overwrite(world)
    else:
        world.store.delete([info.key for info in world.store.list(world.layout.root.key)])
    before = world.partitions(), {info.key for info in world.store.list("")}
    with pytest.raises(InvalidInputError, match=GONE):
        call(world)
    assert (world.partitions(), {info.key for info in world.store.list("")}) == before
    assert finding(world)[0] == "error"


@pytest.mark.parametrize("mode", [APPEND, WriteMode.OVERWRITE_PARTITIONS, WriteMode.OVERWRITE_TABLE])
def test_a_write_that_has_begun_a_new_log_publishes_over_nothing_of_the_old_one(mode: WriteMode) -> None:
    world = written(OLD)
    static_overwrite(world)
    plan = world.plan(mode)  # as a write that does not ask the metastore would
    with pytest.raises(InvalidInputError, match=GONE):
        world.write({"d1": rows(7)}, plan=plan)
    assert world.rows() == {"d1": rows(100), "d2": rows(101)}


def test_a_key_that_was_published_is_not_free_because_its_log_is_gone() -> None:
    world = World()
    plan = world.plan(APPEND, key="load 1")
    world.write(OLD, plan=plan)
    with pytest.raises(RepeatedError):
        world.services().require_new_key(plan.key)
    static_overwrite(world)
    with pytest.raises(InvalidInputError, match=GONE):
        world.services().require_new_key(plan.key)


@pytest.mark.parametrize("make", [lambda: written(OLD), whole], ids=["partitioned", "unpartitioned"])
def test_a_person_goes_on_without_a_log_that_is_gone(make: Callable[[], World]) -> None:
    world = make()
    static_overwrite(world)
    before = world.rows()
    world.keeper.adopt(T, accept_loss=True)
    value, added = ("d1", "d1") if world.table.partition_columns else ("", "")
    world.write({value: rows(7)}, plan=world.plan(APPEND))
    world.write({value: rows(8)}, plan=world.plan(APPEND))
    assert world.rows() == before | {added: before[added] | rows(7, 8)}
    assert finding(world)[0] == "ok"
    world.keeper.adopt(T)
    assert [one.version for one in world.keeper.history(T).versions] == [2, 1]
    world.keeper.rollback(T, version=1)
    world.vacuum()
    assert world.rows() == before | {added: before[added] | rows(7)}
    world.store.delete([info.key for info in world.store.list(world.layout.root.key)])
    with pytest.raises(InvalidInputError, match=GONE):
        world.keeper.history(T)
    world.keeper.adopt(T, accept_loss=True)
    assert world.keeper.history(T).versions == ()


def test_partitions_without_parameters_in_our_directory_show_as_well_that_a_log_is_gone() -> None:
    world = written(OLD)
    location = world.partitions()["d1"].location
    static_overwrite(world, keeps=())
    world.pointed_by_another_tool("d1", location)
    with pytest.raises(InvalidInputError, match=GONE):
        world.keeper.history(T)
    world.keeper.adopt(T, accept_loss=True)
    world.write({"d1": rows(7)}, plan=world.plan(APPEND))
    assert world.rows() == {"d1": rows(7, 100)}


def test_only_the_loss_of_owner_json_is_none_of_the_log() -> None:
    world = written(OLD)
    log_id = world.plan().log_id
    world.store.delete([world.layout.owner_key])
    assert len(world.keeper.history(T).versions) == 1
    world.write({"d1": rows(7)}, plan=world.plan(APPEND))
    assert (world.plan().log_id, world.rows()["d1"]) == (log_id, rows(1, 7))


def other_plan(world: World, mode: WriteMode = APPEND) -> WritePlan:
    """A plan of a writer that keeps its log under another name."""
    opened = world.services(OTHER)

    log_id = take_root(world.store, opened.layout, opened.owner)
    opened.log.expect(log_id)
    state = opened.listing_to_build_on(log_id)
    return replace(
        world.plan(mode),
        layout=opened.layout,
        log_id=log_id,
        base_version=state.newest,
        in_doubt=state.in_doubt,
        checkpoint=state.listed_after,
    )


@pytest.mark.parametrize("mode", [APPEND, WriteMode.OVERWRITE_PARTITIONS, WriteMode.OVERWRITE_TABLE])
def test_a_second_log_under_another_name_publishes_over_nothing_of_the_first(mode: WriteMode) -> None:
    world = written(OLD)
    with pytest.raises(InvalidInputError, match=r"by the metastore .* has two.*directory_name"):
        world.services(OTHER).require_owner()
    with pytest.raises(InvalidInputError, match=r"by the metastore .* has two.*directory_name"):
        world.write({"d1": rows(7)}, plan=other_plan(world, mode), config=OTHER)
    assert world.rows() == OLD
    world.write({"d9": rows(9)}, plan=other_plan(world, APPEND), config=OTHER)  # where nobody of the first was
    with pytest.raises(InvalidInputError, match=r"by the metastore .* has two.*directory_name"):
        world.write({"d9": rows(7)}, plan=world.plan(mode))
    assert finding(world)[0] == "error"


def test_the_second_log_goes_on_alone_where_a_person_says_so() -> None:
    world = written(OLD)

    Maintenance(services=world.all_services(OTHER)).adopt(T, accept_loss=True)
    world.write({"d1": rows(7)}, plan=other_plan(world), config=OTHER)
    assert world.rows()["d1"] == rows(1, 7)
    with pytest.raises(InvalidInputError, match="has two"):
        world.write({"d1": rows(8)}, plan=world.plan(APPEND))


# A log that was set back


def set_back(world: World, version: int) -> None:
    """Bring the log back to an earlier state, as from a backup of the bucket."""
    keys = [info.key for info in world.store.list(world.layout.log_prefix)]
    names = ((key, key.removeprefix(world.layout.log_prefix).partition(".")[0]) for key in keys)
    world.store.delete([key for key, name in names if name.isdecimal() and int(name) > version])


@pytest.mark.parametrize("mode", [APPEND, WriteMode.OVERWRITE_PARTITIONS])
def test_a_log_that_was_set_back_is_not_gone_on_with(mode: WriteMode) -> None:
    world = written(OLD)
    for row in (10, 11, 12):
        world.write({"d1": rows(row)}, plan=world.plan(APPEND))
    set_back(world, 2)
    with pytest.raises(InvalidInputError, match=r"version 4 has published .* newest entry .* is 2: .*set back"):
        world.write({"d1": rows(7)}, plan=world.plan(mode))
    assert finding(world)[0] == "error"
    world.keeper.adopt(T, accept_loss=True)
    assert finding(world)[0] == "ok"
    world.write({"d1": rows(7)}, plan=world.plan(APPEND))
    assert world.rows()["d1"] == rows(1, 10, 11, 12, 7)
    assert [one.version for one in world.keeper.history(T).versions] == [3, 2, 1]
    world.keeper.recover(T)
    world.vacuum()
    assert world.rows()["d1"] == rows(1, 10, 11, 12, 7)
    for row in (8, 9):
        world.write({"d1": rows(row)}, plan=world.plan(APPEND))
    set_back(world, 3)
    with pytest.raises(InvalidInputError, match="was set back"):
        world.write({"d1": rows(7)}, plan=world.plan(mode))


def test_what_is_published_while_a_write_looks_is_no_log_that_was_set_back() -> None:
    world = written(OLD)
    world.at_metastore("get_partitions", "before", lambda: world.write({"d1": rows(5)}, plan=world.plan(APPEND)))
    world.write({"d1": rows(6)}, plan=world.plan(APPEND))
    assert world.rows()["d1"] == rows(1, 5, 6)


# Tables that were moved, renamed or copied


def test_a_table_that_was_copied_with_its_partitions_parameters_has_a_log_of_its_own() -> None:
    world = written(OLD)
    clone = replace(world.table, name=TableName("mart", "clone"), location="s3a://lake/mart/clone/")
    world.metastore.create_table(clone)
    for value, partition in world.partitions().items():
        location = f"s3a://lake/mart/clone/dt={value}/"
        world.store.put(f"mart/clone/dt={value}/a.json", f"[{value[1:]}]".encode())
        copied = Partition(values=(value,), location=location, parameters=partition.parameters)
        world.metastore.add_partitions(clone, [copied])
    other = copy(world)
    other.name, other.root = clone.name, clone.location
    other.services().require_owner()
    other.write({"d1": rows(7)}, plan=other.plan(APPEND))
    other.write({"d1": rows(8)}, plan=other.plan(APPEND))
    assert other.rows() == {"d1": rows(1, 7, 8), "d2": rows(2)}
    assert world.rows() == OLD
    assert LOG_PARAMETER in other.partitions()["d2"].parameters


def test_a_table_that_has_moved_with_its_log_is_the_same_one() -> None:
    """All is copied to another place, the table is made there, and restored."""
    world = written(OLD)
    for info in list(world.store.list(world.layout.root.key)):
        stored = world.store.get(info.key)
        assert stored is not None
        world.store.put(info.key.replace("mart/orders/", "mart/moved/", 1), stored.body)
    table = world.table
    world.metastore.drop_table(TABLE)
    world.metastore.create_table(
        replace(table, location="s3a://lake/mart/moved/", created_at_seconds=table.created_at_seconds + 60)
    )
    moved = copy(world)
    moved.root = "s3a://lake/mart/moved/"
    moved.keeper.restore(T)
    moved.write({"d1": rows(7)}, plan=moved.plan(APPEND))
    assert moved.rows() == {"d1": rows(1, 7), "d2": rows(2)}
    assert finding(moved)[0] == "ok"


def test_a_table_that_nobody_has_written_is_none_that_has_lost_its_log() -> None:
    world = World()
    assert world.keeper.history(T).versions == ()
    world.written_by_another_tool("d1", rows(1))
    assert (world.keeper.history(T).versions, finding(world)[0]) == ((), "ok")
    world.write({"d1": rows(2)}, plan=world.plan(APPEND))
    assert world.rows() == {"d1": rows(1, 2)}


def test_partitions_of_other_tools_and_names_without_parameters_are_in_no_way() -> None:
    world = written(OLD)
    move(world, "d2", "elsewhere", 5)
    world.written_by_another_tool("d3", rows(3))
    world.write({"d2": rows(6), "d3": rows(7)}, plan=world.plan(APPEND))
    assert world.rows() == {"d1": rows(1), "d2": rows(5, 6), "d3": rows(3, 7)}


def test_every_publish_names_its_log() -> None:
    world = written(OLD)
    mark = f"{ROOT}_table_writer/log/id-{world.plan().log_id}"
    world.write({"d1": rows(7), "d3": rows(3)})
    world.keeper.rollback(T, version=1)
    world.dropped_by_another_tool("d2")
    world.keeper.restore(T)
    assert {one.parameters[LOG_PARAMETER] for one in world.partitions().values()} == {mark}
    assert world.store.head(TableLayout(world.layout.root).log_prefix + mark.rpartition("/")[2]) is not None


# A metastore that was set back


def backup(world: World) -> dict[tuple[str, ...], Partition]:
    return dict(world.metastore._partitions[world.name])


@pytest.mark.parametrize("versions", [1, 10, 17, 40])
@pytest.mark.parametrize("vacuumed", [False, True])
def test_nothing_is_built_on_a_metastore_that_was_set_back_however_far(versions: int, vacuumed: bool) -> None:
    world = written(OLD)
    old = backup(world)
    for row in range(versions):
        world.write({"d1": rows(100 + row)}, plan=world.plan(APPEND))
    if vacuumed:
        world.vacuum()
    before = world.rows()
    world.metastore._partitions[TABLE] = dict(old)
    with pytest.raises(ConflictError, match=r"table-writer (recover|restore)"):
        world.write({"d1": rows(7)}, plan=world.plan(APPEND))
    world.keeper.restore(T)
    world.write({"d1": rows(7)}, plan=world.plan(APPEND))
    assert world.rows() == {**before, "d1": before["d1"] | rows(7)}


@pytest.mark.parametrize("mode", [APPEND, WriteMode.CREATE_PARTITIONS])
@pytest.mark.parametrize("versions", [1, 30])
def test_a_partition_that_came_after_the_backup_is_not_made_anew_over_its_rows(versions: int, mode: WriteMode) -> None:
    world = written(OLD)
    old = backup(world)
    world.write({"d9": rows(90)})
    for row in range(versions):
        world.write({"d1": rows(100 + row)}, plan=world.plan(APPEND))
    before = world.rows()
    world.metastore._partitions[TABLE] = dict(old)
    with pytest.raises(ConflictError, match=r"dt=d1 at .* has published since: .*set back.*table-writer restore"):
        world.write({"d9": rows(7)}, plan=world.plan(mode))
    world.keeper.restore(T)
    assert world.rows() == before


def test_a_partition_that_another_tool_has_dropped_is_made_anew_as_ever() -> None:
    world = written(OLD)
    for row in range(20):
        world.write({"d1": rows(100 + row)}, plan=world.plan(APPEND))
    for value in ("d2", "d1"):
        world.dropped_by_another_tool(value)
        world.write({value: rows(7)}, plan=world.plan(APPEND))
        assert world.rows()[value] == rows(7)


def test_what_another_tool_has_moved_says_nothing_of_the_rest() -> None:
    world = written(OLD)
    for row in range(20):
        world.write({"d1": rows(100 + row)}, plan=world.plan(APPEND))
    move(world, "d1", "elsewhere", 5)
    for value in ("d2", "d8"):
        world.write({value: rows(7)}, plan=world.plan(APPEND))
    assert world.rows() == {"d1": rows(5), "d2": rows(2, 7), "d8": rows(7)}
    for value in ("d8", "d2"):
        move(world, value, "elsewhere", 5)
    world.dropped_by_another_tool("d2")
    world.write({"d2": rows(9)}, plan=world.plan(APPEND))
    assert world.rows() == {"d1": rows(5), "d2": rows(9), "d8": rows(5)}


def test_others_may_publish_while_an_old_partition_is_looked_at() -> None:
    world = written(OLD)
    for row in range(20):
        world.write({"d1": rows(100 + row)}, plan=world.plan(APPEND))
    world.at_metastore("get_partitions", "before", lambda: world.write({"d1": rows(5)}))
    world.write({"d2": rows(7)}, plan=world.plan(APPEND))
    assert world.rows() == {"d1": rows(5), "d2": rows(2, 7)}


@pytest.mark.parametrize(("value", "asked"), [("d1", 3), ("d2", 4), ("d9", 3)])
def test_an_append_asks_once_where_the_log_says_nothing_new_of_its_partitions(value: str, asked: int) -> None:
    """It looks before its copies, after them, and with their files listed; of a new partition twice."""
    world = written(OLD)
    for row in range(20):
        world.write({"d1": rows(100 + row)})
    with world.recording() as calls:
        world.write({value: rows(7)}, plan=world.plan(APPEND))
    assert calls.count(("metastore", "get_partitions")) == asked


def set_metastore_back(world: World, old: dict[tuple[str, ...], Partition]) -> None:
    world.metastore._partitions[world.name] = dict(old)


def refuses(world: World, value: str, mode: WriteMode = APPEND, match: str = "set back") -> None:
    before = world.rows()
    with pytest.raises(ConflictError, match=match):
        world.write({value: rows(7)}, plan=world.plan(mode))
    assert world.rows() == before


@pytest.mark.parametrize("value", ["d1", "d2", "d9"])
def test_a_plain_overwrite_does_not_hide_that_a_metastore_was_set_back(value: str) -> None:
    world = written(OLD)
    old = backup(world)
    for row in range(40):
        world.write({"d1": rows(100 + row)}, plan=world.plan(APPEND))
    before = world.rows()
    set_metastore_back(world, old)
    refuses(world, value, WriteMode.OVERWRITE_PARTITIONS)
    refuses(world, "d1")
    world.keeper.recover(T)
    assert world.rows() == before
    world.write({value: rows(7)})
    assert world.rows() == {**before, value: rows(7)}


def grown(world: World) -> None:
    world.write({"d1": rows(50)}, plan=world.plan(APPEND, in_place=True))


def put_back(world: World) -> None:
    world.write({"d1": rows(50)}, plan=world.plan(APPEND))
    world.keeper.rollback(T, version=21)


@pytest.mark.parametrize("newest", [grown, put_back])
@pytest.mark.parametrize("value", ["d2", "d9"])
def test_a_newest_version_that_moved_nothing_tells_of_a_metastore_that_was_set_back(
    newest: Callable[[World], None], value: str
) -> None:
    world = written(OLD)
    old = backup(world)
    for row in range(20):
        world.write({"d2": rows(100 + row)}, plan=world.plan(APPEND))
    newest(world)
    set_metastore_back(world, old)
    refuses(world, value)


@pytest.mark.parametrize("versions", [1, 20])
def test_a_backup_with_partitions_of_other_tools_is_one_as_well(versions: int) -> None:
    world = World()
    world.written_by_another_tool("d1", rows(1))
    world.write({"d2": rows(2)})
    old = backup(world)
    for row in range(versions):
        world.write({"d1": rows(11 + row)}, plan=world.plan(APPEND))
    world.write({"d2": rows(12)}, plan=world.plan(APPEND))
    set_metastore_back(world, old)
    refuses(world, "d1")


@pytest.mark.parametrize("versions", [1, 3])
def test_an_unpartitioned_table_that_is_back_at_the_rows_of_before_its_first_write_was_set_back(versions: int) -> None:
    world = World()
    world.become_unpartitioned()
    world.store.put("mart/orders/a.json", b"[1]")
    old = world.metastore._tables[TABLE]
    for row in range(versions):
        world.write({"": rows(100 + row)}, plan=world.plan(APPEND))
    world.metastore._tables[TABLE] = old
    refuses(world, "", match="where version .* of the log has left them")
    world.store.put("mart/orders/b.json", b"[2]")
    world.write({"": rows(7)}, plan=world.plan(APPEND))
    assert world.rows() == {"": rows(1, 2, 7)}, "another tool has written there since"


def test_a_metastore_that_was_set_back_past_an_adoption_is_noticed() -> None:
    world = written(OLD)
    for row in (10, 11, 12):
        world.write({"d1": rows(row)}, plan=world.plan(APPEND))
    set_back(world, 2)
    old = backup(world)
    world.keeper.adopt(T, accept_loss=True)
    world.write({"d1": rows(20)}, plan=world.plan(APPEND))
    world.write({"d2": rows(22)}, plan=world.plan(APPEND))
    world.write({"d3": rows(23)}, plan=world.plan(APPEND))
    for value in ("d1", "d2"):
        set_metastore_back(world, old)
        refuses(world, value)


def test_a_version_that_was_copied_from_another_table_says_nothing_of_this_log() -> None:
    world = World()
    foreign = {LOG_PARAMETER: "s3a://lake/mart/old/_table_writer/log/id-aaaaaaaaaaaaaaaa", VERSION_PARAMETER: "400"}
    for value, ids in OLD.items():
        found = world.written_by_another_tool(value, ids)
        world.metastore.put_partition(TABLE, replace(found, parameters={**found.parameters, **foreign}))
    world.write({"d2": rows(9)}, plan=world.plan(APPEND))
    old = backup(world)
    for row in range(20):
        world.write({"d1": rows(100 + row)}, plan=world.plan(APPEND))
    world.write({"d2": rows(10)}, plan=world.plan(APPEND))
    set_metastore_back(world, old)
    refuses(world, "d1")


@pytest.mark.parametrize("phase", ["died", "running"])
@pytest.mark.parametrize("versions", [0, 20])
def test_a_publish_in_flight_is_no_metastore_that_was_set_back(phase: str, versions: int) -> None:
    world = written(OLD)
    for row in range(versions):
        world.write({"d1": rows(100 + row)})
    world.dropped_by_another_tool("d2")
    if phase == "died":
        switched = Fault("metastore", "alter_partitions", 1, "after", DeathError)
        world.fails(switched, lambda: world.write({"d1": rows(10)}))
        world.write({"d2": rows(7)}, plan=world.plan(APPEND))
    else:
        append = partial(world.write, {"d2": rows(7)})
        world.at_metastore("alter_partitions", "after", lambda: append(plan=world.plan(APPEND)))
        world.write({"d1": rows(10)})
    assert world.rows() == {"d1": rows(10), "d2": rows(7)}


def test_a_key_is_not_free_because_its_version_was_given_again() -> None:
    world = written(OLD)
    world.write_once({"d1": rows(10)}, APPEND, "load 1")
    set_back(world, 1)
    world.write({"d2": rows(20)}, plan=world.plan(APPEND))
    with pytest.raises(InvalidInputError, match=r"version 2 has published .* another write has that version now"):
        world.write_once({"d1": rows(10)}, APPEND, "load 1")
    with pytest.raises(InvalidInputError, match="another write has that version now"):
        world.keeper.rollback(T, version=1)
    assert finding(world)[0] == "error"
    world.keeper.adopt(T, accept_loss=True)
    assert finding(world)[0] == "ok"
    world.write({"d1": rows(11)}, plan=world.plan(APPEND))
    assert world.rows() == {"d1": rows(1, 10, 11), "d2": rows(2, 20)}


def test_a_log_that_was_handed_the_table_back_is_not_the_one_that_the_other_goes_on_without() -> None:
    world = World()
    world.metastore.version = "3.1.3"
    world.written_by_another_tool("d1", rows(1))
    other = Maintenance(services=world.all_services(OTHER))
    world.write({"d1": rows(50)}, plan=other_plan(world), config=OTHER)
    world.keeper.adopt(T, accept_loss=True)
    world.write({"d1": rows(60)}, plan=world.plan(APPEND, in_place=True))
    with pytest.raises(InvalidInputError, match="has two"):
        other.rollback(T, version=0)
    other.adopt(T, accept_loss=True)
    world.write({"d1": rows(51)}, plan=other_plan(world), config=OTHER)
    late = other_plan(world, WriteMode.OVERWRITE_PARTITIONS)
    world.keeper.adopt(T, accept_loss=True)
    for row in (61, 62):
        world.write({"d1": rows(row)}, plan=world.plan(APPEND))
    with pytest.raises(InvalidInputError, match="has two"):
        world.write({"d1": rows(99)}, plan=late, config=OTHER)
    assert world.rows() == {"d1": rows(1, 50, 51, 60, 61, 62)}


def test_the_marks_alone_tell_which_id_a_log_has_after_an_adoption() -> None:
    world = written(OLD)
    for row in (10, 11, 12):
        world.write({"d1": rows(row)}, plan=world.plan(APPEND))
    earlier = world.store.get(world.layout.owner_key)
    assert earlier is not None
    staged = world.plan(WriteMode.OVERWRITE_PARTITIONS)
    set_back(world, 2)
    world.keeper.adopt(T, accept_loss=True)
    log_id = world.plan().log_id
    with pytest.raises(ConflictError, match="has adopted the table"):
        world.write({"d2": rows(99)}, plan=staged)
    world.store.delete([world.layout.owner_key])
    world.write({"d1": rows(20)}, plan=world.plan(APPEND))
    world.store.put(world.layout.owner_key, earlier.body)
    with pytest.raises(TableWriterError, match=r"earlier owner\.json was put back"):
        world.keeper.history(T)
    world.keeper.adopt(T)
    world.write({"d1": rows(21)}, plan=world.plan(APPEND))
    assert (world.plan().log_id, world.rows()["d1"]) == (log_id, rows(1, 10, 11, 12, 20, 21))


def test_the_doctor_believes_a_table_into_which_others_write_meanwhile() -> None:
    world = written(OLD)
    world.at_metastore("get_all_partitions", "before", lambda: world.write({"d1": rows(5)}))
    world.at_metastore("get_partitions", "before", lambda: world.write({"d1": rows(6)}))
    assert finding(world)[0] == "ok"


def test_the_newest_publish_is_found_with_one_request_for_each_vacuum_after_it() -> None:
    world = written(OLD)
    for number in range(20):
        world.store.put(f"{world.layout.all_data.key}20200101T000000-{number:016x}/dt=d1/part-0.json", b"[1]")
        world.skipped_seconds += 100_000
        world.vacuum()
    costs: list[list[int]] = []
    for value in ("d9", "d8"):
        plan = world.plan(WriteMode.OVERWRITE_PARTITIONS)
        with world.recording() as calls:
            world.write({value: rows(9)}, plan=plan)
        costs.append([calls.count(call) for call in (("store", "get"), ("metastore", "get_partitions"))])
    (gets, looks), (few_gets, few_looks) = costs
    assert (gets - few_gets, looks - few_looks) == (20, 0)


# What a partitioned table says itself


def named(world: World) -> World:
    """A table that says which log it has, as its first write leaves it, and whose partitions are all gone since."""
    world.write(OLD)
    name_log(world.metastore, world.table, world.layout, world.plan().log_id)
    for value in OLD:
        world.dropped_by_another_tool(value)
    return world


def test_a_table_without_a_partition_of_ours_still_says_that_it_had_a_log() -> None:
    world = named(World())
    world.services().require_owner()
    static_overwrite(world)
    world.written_by_another_tool("d5", rows(5))
    with pytest.raises(InvalidInputError, match=GONE):
        world.services().require_new_key(Key("load 1"))
    assert finding(world)[0] == "error"
    assert [(one.table, one.health) for one in world.keeper.tables().tables] == [(T, "failed")]
    world.keeper.adopt(T, accept_loss=True)
    world.write({"d5": rows(7)}, plan=world.plan(APPEND))
    assert world.rows() == {"d5": rows(5, 7)}
    assert world.table.parameters[LOG_PARAMETER].endswith(world.plan().log_id), "the next plan asks nobody about it"


def test_a_second_directory_name_is_refused_at_once() -> None:
    with pytest.raises(InvalidInputError, match=r"has two.*directory_name"):
        named(World()).services(OTHER).require_owner()


@pytest.mark.parametrize("version", ["2.3", "3.1.3", ""])
def test_a_table_is_told_nothing_where_a_server_does_not_compare(version: str) -> None:
    world = World()
    world.metastore.version = version
    assert LOG_PARAMETER not in named(world).table.parameters


@pytest.mark.parametrize("is_kept", [True, False])
def test_another_tools_change_of_the_table_is_not_lost_and_stops_no_write(is_kept: bool) -> None:
    """Some tools keep the time that a server would compare."""
    world = written(OLD)
    read = world.table
    time = read.parameters[DDL_TIME] if is_kept else "9999999999"
    parameters = {**read.parameters, "owner": "finance", DDL_TIME: time}
    now = replace(read, columns=(*read.columns, Column("note", "string")), parameters=parameters)
    world.metastore.create_table(now)
    name_log(world.metastore, read, world.layout, world.plan().log_id)
    assert (world.table.columns, world.table.parameters["owner"]) == (now.columns, "finance")
    assert LOG_PARAMETER in world.table.parameters


def test_a_table_that_is_changed_while_it_is_told_its_log_stays_so() -> None:
    world = written(OLD)
    read = world.table
    now = replace(read, parameters={**read.parameters, "owner": "finance", DDL_TIME: "9999999999"})
    world.at_metastore("alter_partitions", "before", lambda: world.metastore.create_table(now))
    name_log(world.metastore, read, world.layout, world.plan().log_id)
    assert world.table.parameters == now.parameters


def test_a_table_is_told_nothing_where_there_is_nothing_to_compare() -> None:
    world = written(OLD)
    world.metastore._tables[TABLE] = replace(world.table, parameters={})
    name_log(world.metastore, world.table, world.layout, world.plan().log_id)
    assert LOG_PARAMETER not in world.table.parameters
