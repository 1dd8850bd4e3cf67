"""A mirror follows its table version by version; one that has failed is brought up by the next write."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Final
from unittest import mock

import pytest

from table_writer.config import TableWriterConfig
from table_writer.errors import InvalidInputError, OutcomeUnknownError, StorageError
from table_writer.events.event import TableEvent
from table_writer.mirrors import fitting
from table_writer.mirrors.follow import follow
from table_writer.model.table import MIRRORS_PROPERTY, Column
from table_writer.model.write_mode import WriteMode
from tests.maintenance.operations import ADDED, APPENDED, MIXED, OLD, REPLACED, WHOLE, replace_columns
from tests.publish.world import DeathError, Fault, Rows, body_of, fail, insert, move, without_answer

from .world import PREFIX, MirroredWorld, actions_of

TABLE: Final = "mart.orders"
D1: Final = {"d1": frozenset({7})}


@pytest.fixture
def world() -> MirroredWorld:
    return MirroredWorld()


def append(world: MirroredWorld, rows: Rows = D1, *, in_place: bool = False) -> None:
    world.write(rows, plan=world.plan(WriteMode.APPEND, in_place=in_place))


def overwrite(world: MirroredWorld, rows: Rows) -> None:
    world.write(rows, plan=world.plan(WriteMode.OVERWRITE_TABLE))


CALLS: Final[dict[str, Callable[[MirroredWorld], object]]] = {
    "overwrite of partitions": lambda world: world.write(MIXED),
    "append": append,
    "append in place": lambda world: append(world, APPENDED, in_place=True),
    "append after one in place": lambda world: (append(world, in_place=True), append(world, ADDED)),
    "overwrite of the table": lambda world: overwrite(world, {"d9": frozenset({9})}),
    "compaction": lambda world: (append(world), world.compact("d1")),
    "rollback": lambda world: (world.write(MIXED), world.keeper.rollback(TABLE, version=1)),
    "rollback to nothing": lambda world: world.keeper.rollback(TABLE, version=0),
    "rollback after an append in place": lambda world: (
        append(world, in_place=True),
        world.keeper.rollback(TABLE, version=1),
    ),
    "publish of a staged write": lambda world: (world.stage(MIXED), world.publish_staged()),
    "restore": lambda world: (world.lose_metastore(), world.keeper.restore(TABLE)),
    "vacuum": lambda world: (world.write(REPLACED), world.vacuum()),
}


@pytest.mark.parametrize("remembers", [True, False], ids=["one process", "a process each"])
@pytest.mark.parametrize("call", CALLS)
def test_the_mirror_has_the_rows_of_the_table_after_each_call(world: MirroredWorld, call: str, remembers: bool) -> None:
    world.remembers = remembers
    world.write(OLD)
    CALLS[call](world)
    assert world.mirrored_rows() == world.rows()
    assert world.notes() == ()
    assert world.keeper.mirror(TABLE, as_="delta", check=True).state == "in step"


def test_what_goes_is_told_with_its_partition_and_its_size(world: MirroredWorld) -> None:
    world.write(OLD)
    added = {action["path"]: action for action in actions_of(world, "add")}
    world.write({"d1": frozenset({9})})
    (removed,) = actions_of(world, "remove")
    assert removed["extendedFileMetadata"] is True
    assert removed["dataChange"] is True
    told = added[removed["path"]]
    assert [removed[name] for name in ("partitionValues", "size")] == [{"dt": "d1"}, told["size"]]


def test_an_unpartitioned_table_is_mirrored_with_the_columns_that_it_gets(world: MirroredWorld) -> None:
    world.become_unpartitioned()
    overwrite(world, {"": frozenset({1})})
    replace_columns(world)
    schemas = [json.loads(found["schemaString"]) for found in actions_of(world, "metaData")]
    assert [[field["name"] for field in schema["fields"]] for schema in schemas] == [["id"], ["other"]]
    assert world.mirrored_rows() == world.rows() == WHOLE


def test_a_column_that_is_added_later_is_one_of_a_mirror_that_begins_before() -> None:
    world = MirroredWorld(config=TableWriterConfig())
    world.become_unpartitioned()
    overwrite(world, {"": frozenset({1})})
    replace_columns(world)
    world.metastore.create_table(replace(world.table, columns=(*world.table.columns, Column("more", "int"))))
    world.keeper.mirror(TABLE, as_="delta")
    fields = json.loads(actions_of(world, "metaData")[-1]["schemaString"])["fields"]
    assert [field["name"] for field in fields] == ["other", "more"]


def test_a_column_that_is_added_is_a_column_of_the_mirror(world: MirroredWorld) -> None:
    world.write(OLD)
    world.metastore.create_table(replace(world.table, columns=(*world.table.columns, Column("more", "char(3)"))))
    world.write(MIXED)
    fields = json.loads(actions_of(world, "metaData")[-1]["schemaString"])["fields"]
    assert [(field["name"], field["type"]) for field in fields] == [
        ("id", "long"),
        ("more", "string"),
        ("dt", "string"),
    ]
    assert fields[1]["metadata"] == {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}


def test_each_version_is_one_of_the_mirror_also_where_that_begins_later() -> None:
    world = MirroredWorld(config=TableWriterConfig())
    seen = []
    for rows in (OLD, MIXED, {"d2": frozenset({20})}):
        world.write(rows)
        seen.append(world.rows())
    append(world, in_place=True)
    seen.append(world.rows())
    report = world.keeper.mirror(TABLE, as_="delta")
    assert (report.state, report.version, report.mirror_version) == ("in step", 4, 3)
    assert [world.mirrored_rows(number) for number in range(4)] == seen


def test_a_mirror_begins_after_what_a_vacuum_has_deleted() -> None:
    world = MirroredWorld(config=TableWriterConfig())
    for rows in (OLD, REPLACED):
        world.write(rows)
    world.vacuum()
    world.write(MIXED)
    world.keeper.mirror(TABLE, as_="delta")
    assert [world.mirrored_rows(number) for number in range(2)] == [REPLACED, {**REPLACED, **MIXED}]


@pytest.mark.parametrize("moved", [True, False])
def test_a_mirror_does_not_begin_where_a_partition_may_have_been_elsewhere(moved: bool) -> None:
    world = MirroredWorld(config=TableWriterConfig())
    world.write(OLD)
    world.write({"d2": frozenset({20})})
    world.skipped_seconds += 8 * 86_400
    if moved:
        move(world, "d1", "elsewhere", 77)
    world.write({"d1": frozenset({10})})
    assert world.keeper.vacuum(TABLE).objects_deleted == 1  # what version 2 has replaced: there the mirror may begin
    world.keeper.mirror(TABLE, as_="delta")
    assert [found["version"] for found in actions_of(world, "txn")] == ([3] if moved else [2, 3])
    assert world.mirrored_rows() == world.rows()


def test_versions_that_were_missed_are_taken_up_one_by_one(world: MirroredWorld) -> None:
    world.write(OLD)
    world.config = TableWriterConfig()
    world.write(MIXED)
    world.write({"d2": frozenset({20})})
    append(world, in_place=True)
    world.config = TableWriterConfig(mirrors=["delta"])
    world.write(ADDED)
    assert len(world.commits()) == 5
    assert world.mirrored_rows(2) == {"d1": MIXED["d1"], "d2": frozenset({20}), "d9": MIXED["d9"]}
    assert world.mirrored_rows() == world.rows()


def test_versions_whose_files_are_gone_are_passed_over(world: MirroredWorld) -> None:
    world.write(OLD)
    world.follows = False
    gone = world.write(REPLACED)
    world.write(OLD)
    for info in list(world.store.list(world.layout.data(gone.entry.write_id).key)):
        world.store.delete([info.key])
    follow(world.services(), None)
    assert [found["version"] for found in actions_of(world, "txn")] == [1, 3]
    assert world.mirrored_rows() == world.rows() == OLD


def test_the_table_property_wins_over_the_config() -> None:
    world = MirroredWorld(config=TableWriterConfig())
    table = world.table
    world.metastore.create_table(replace(table, parameters={**table.parameters, MIRRORS_PROPERTY: " Delta, delta"}))
    world.write(OLD)
    assert world.mirrored_rows() == OLD
    with pytest.raises(InvalidInputError, match="names its delta mirror, and writers would go on"):
        world.keeper.mirror("mart.orders", as_="delta", drop=True)
    world.metastore.create_table(replace(world.table, parameters={**table.parameters, MIRRORS_PROPERTY: ""}))
    world.keeper.mirror("mart.orders", as_="delta", drop=True)
    world.config = TableWriterConfig(mirrors=["delta"])
    world.write(MIXED)
    assert world.commits() == []
    with pytest.raises(InvalidInputError, match="mirrors names 'hudi'"):
        TableWriterConfig(mirrors=["hudi"])


def test_a_publish_of_the_same_process_costs_one_request_and_every_tenth_a_second(world: MirroredWorld) -> None:
    plain = MirroredWorld(config=TableWriterConfig())
    costs = []
    for number in range(32):
        rows = {"d1": frozenset({number})}
        for one in (world, plain):
            one.write(rows)
        costs.append(Counter(requests_of_last(world)) - Counter(requests_of_last(plain)))
    more = [sum(cost.values()) for cost in costs[1:]]
    assert set(more) == {1, 2}
    assert max(more) == 2
    assert sum(more) <= 1.3 * len(more)


def requests_of_last(world: MirroredWorld) -> dict[str, int]:
    """Return the requests of the newest commit, by kind."""
    return world.costs[-1]


def test_without_mirrors_nothing_is_asked_for_one() -> None:
    world = MirroredWorld(config=TableWriterConfig())
    asked = []
    world.write(OLD)
    world.store.on_call = lambda call, phase, key: asked.append(key)
    world.write(MIXED)
    append(world)
    assert not [key for key in asked if "_delta_log" in key]


def test_a_new_process_reads_no_more_than_the_newest_checkpoint_and_what_came_after(world: MirroredWorld) -> None:
    for number in range(60):
        world.write({"d1": frozenset({number})})
    world.remembers = False
    asked: Counter[str] = Counter()
    world.store.on_call = lambda call, phase, key: asked.update([call] if phase == "before" and PREFIX in key else [])
    world.write({"d1": frozenset({100})})
    assert asked["get"] <= 2 + 10
    assert asked["list_page"] == 1
    assert world.mirrored_rows() == world.rows()


def test_a_failure_is_a_note_and_an_event_and_the_next_write_mends_it(world: MirroredWorld) -> None:
    events: list[TableEvent] = []
    world.config = TableWriterConfig(mirrors=["delta"], listeners=[events.append])
    world.write(OLD)
    world.store.on_call = only_of_mirror(world, "put_if_absent", StorageError("no room"))
    world.write(MIXED)
    world.store.on_call = None
    [note] = world.notes()
    assert note.startswith("the delta mirror does not have version 2 yet: no room.")
    assert "table-writer mirror mart.orders --as delta" in note
    assert world.rows() == {**OLD, **MIXED}
    assert world.keeper.mirror(TABLE, as_="delta", check=True).state == "behind"
    world.write(ADDED)
    assert world.mirrored_rows() == world.rows()
    assert [found["version"] for found in actions_of(world, "txn")] == [1, 2, 3]


def only_of_mirror(world: MirroredWorld, call: str, error: Exception) -> Callable[[str, str, str], object]:
    def called(name: str, phase: str, key: str) -> None:
        if (name, phase) == (call, "before") and PREFIX in key:
            raise error

    return called


def test_what_nobody_expects_of_a_mirror_is_a_note_too(world: MirroredWorld) -> None:
    world.write(OLD)
    world.store.on_call = only_of_mirror(world, "put_if_absent", RuntimeError("odd"))
    world.write(MIXED)
    assert "RuntimeError: odd" in world.notes()[0]


def test_a_version_that_was_in_doubt_is_taken_up_once_it_is_published(world: MirroredWorld) -> None:
    world.write(OLD)
    unanswered = Fault("metastore", "alter_partitions", 1, "after", DeathError)
    with world.inject(unanswered), pytest.raises(DeathError):
        world.write({"d1": frozenset({100})})
    world.write({"d2": frozenset({200})})  # beside it
    assert world.mirrored_rows() == {"d1": OLD["d1"], "d2": frozenset({200})}
    world.wait_out_claims()
    world.keeper.recover(TABLE)
    assert world.mirrored_rows() == world.rows() == {"d1": frozenset({100}), "d2": frozenset({200})}


def test_rows_that_a_late_call_brings_back_do_not_come_to_the_mirror(world: MirroredWorld) -> None:
    world.write(OLD)
    late = without_answer(world, lambda: world.write(REPLACED))
    world.wait_out_claims()
    world.keeper.recover(TABLE)
    world.write({"d1": frozenset({100})})
    late()
    world.keeper.recover(TABLE)
    assert world.mirrored_rows() == world.rows()


def test_of_processes_that_mirror_at_once_each_builds_on_the_other(world: MirroredWorld) -> None:
    other = MirroredWorld(store=world.store, metastore=world.metastore)
    world.write(OLD)
    other.write(MIXED)

    def meanwhile() -> None:
        other.write({"d2": frozenset({22})})

    world.store.on_call = once_at_mirror(world, meanwhile)
    world.write({"d9": frozenset({90})})
    assert world.mirrored_rows() == world.rows()
    numbers = [int(key[-25:-5]) for key in world.commits()]
    assert numbers == list(range(len(numbers)))
    other.write({"d1": frozenset({1000})})
    assert world.mirrored_rows() == world.rows()


def once_at_mirror(world: MirroredWorld, act: Callable[[], object]) -> Callable[[str, str, str], object]:
    def called(name: str, phase: str, key: str) -> None:
        if (name, phase) == ("put_if_absent", "before") and PREFIX in key:
            world.store.on_call = None
            act()

    return called


def test_many_writers_at_once_leave_one_log_with_all_of_their_rows(world: MirroredWorld) -> None:
    world.write(OLD)
    writers = [MirroredWorld(store=world.store, metastore=world.metastore) for _ in range(4)]

    def write(number: int) -> None:
        for round_number in range(8):
            writers[number].write({f"of {number}": frozenset({100 * number + round_number})})

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    world.write(ADDED)
    assert world.mirrored_rows() == world.rows()
    assert [int(key[-25:-5]) for key in world.commits()] == list(range(len(world.commits())))
    held = [found["version"] for found in actions_of(world, "txn")]
    assert held == sorted(held)


def test_partitions_of_other_tools_are_listed_and_noted(world: MirroredWorld) -> None:
    world.written_by_another_tool("x", frozenset({70}))
    world.write(OLD)
    assert world.mirrored_rows() == {**OLD, "x": frozenset({70})} == world.rows()
    assert "1 partition that other tools write: dt=x" in world.notes()[0]
    insert(world, "x", 71)
    assert world.keeper.mirror(TABLE, as_="delta", check=True).state == "differs"
    report = world.keeper.mirror(TABLE, as_="delta", repair=True)
    assert (report.state, world.mirrored_rows()) == ("in step", world.rows())


def test_repair_follows_what_other_tools_have_moved_dropped_or_added_to(world: MirroredWorld) -> None:
    world.write({**OLD, **ADDED})
    move(world, "d1", "elsewhere", 500)
    world.dropped_by_another_tool("d2")
    insert(world, "d8", 501)
    report = world.keeper.mirror(TABLE, as_="delta", check=True)
    assert Counter(one.state for one in report.differences) == {"missing": 2, "surplus": 2}
    world.keeper.mirror(TABLE, as_="delta", repair=True)
    assert world.mirrored_rows() == world.rows()
    world.write({"d1": frozenset({1})})
    assert world.mirrored_rows() == world.rows()


def test_a_partition_in_another_bucket_is_refused_in_words(world: MirroredWorld) -> None:
    world.write(OLD)
    world.pointed_by_another_tool("x", "s3a://other/orders/x/")
    with pytest.raises(InvalidInputError, match="in another bucket, at s3a://other/orders/x/"):
        world.keeper.mirror(TABLE, as_="delta", repair=True)


def test_a_table_of_another_format_is_refused_in_words(world: MirroredWorld) -> None:
    world.metastore.create_table(replace(world.table, serde="org.apache.hadoop.hive.ql.io.orc.OrcSerde"))
    world.write(OLD)
    assert "mart.orders is not stored as Parquet" in world.notes()[0]
    assert world.commits() == []


def test_a_table_without_a_version_has_no_mirror(world: MirroredWorld) -> None:
    world.plan()
    with pytest.raises(InvalidInputError, match="has no version yet"):
        world.keeper.mirror(TABLE, as_="delta")


def test_a_publish_that_is_refused_changes_no_mirror(world: MirroredWorld) -> None:
    world.write(OLD)
    with suppress(OutcomeUnknownError, StorageError, Exception):
        world.write(MIXED, before_publish=lambda: fail(StorageError("no")))
    assert len(world.commits()) == 1
    assert world.mirrored_rows() == OLD


STREAMED: Final[dict[str, tuple[Callable[[MirroredWorld], object], set[tuple[str, bool]]]]] = {
    "append by copy": (append, {("remove", False), ("add: among others", False), ("add: written", True)}),
    "append in place": (
        lambda world: append(world, APPENDED, in_place=True),
        {("add: among others", True), ("add: written", True)},
    ),
    "append to a new partition": (lambda world: append(world, {"d8": frozenset({8})}), {("add: written", True)}),
    "overwrite": (lambda world: world.write(D1), {("remove", True), ("add: written", True)}),
    "compaction": (lambda world: world.compact("d1"), {("remove", False), ("add: written", False)}),
    "append to another tool's rows": (
        lambda world: (insert(world, "d1", {70}), append(world)),
        {("remove", False), ("add: among others", False), ("add: among others", True), ("add: written", True)},
    ),
    "rollback": (
        lambda world: (world.write(MIXED), world.keeper.rollback(TABLE, version=1)),
        {("remove", True), ("add: written", True)},
    ),
}


@pytest.mark.parametrize("remembers", [True, False], ids=["one process", "a process each"])
@pytest.mark.parametrize("call", STREAMED)
def test_what_is_carried_over_or_compacted_is_no_change_of_data_to_a_stream(call: str, remembers: bool) -> None:
    world = MirroredWorld(remembers=remembers)
    world.write(OLD)
    append(world)
    operation, wanted = STREAMED[call]
    operation(world)
    told: set[tuple[str, bool]] = set()
    for action in map(json.loads, body_of(world.store, world.commits()[-1]).splitlines()):
        if "remove" in action:
            told.add(("remove", action["remove"]["dataChange"]))
        elif "add" in action:
            directory, _, name = action["add"]["path"].rpartition("/")
            own = directory.removeprefix("_table_writer/data/").partition("/")[0] in name
            told.add((f"add: {'written' if own else 'among others'}", action["add"]["dataChange"]))
    assert told == wanted


def test_a_write_of_this_library_reads_no_footer_of_its_own_files(world: MirroredWorld) -> None:
    world.write(OLD)
    with mock.patch.object(fitting, "read_footer", side_effect=AssertionError("a footer was read")) as read:
        world.write(MIXED)
        append(world)
        append(world, APPENDED, in_place=True)
        append(world, ADDED)
        world.compact("d1")
        world.memory.clear()  # another process
        world.write(MIXED)
    assert read.call_count == 0
    assert world.mirrored_rows() == world.rows()
