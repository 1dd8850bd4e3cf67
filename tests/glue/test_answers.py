"""Answers of AWS Glue that are filtered, redirected or old: what they lack is refused, with the reason, and kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

import pytest

from table_writer.config import TableWriterConfig
from table_writer.errors import ConflictError, InvalidInputError, MetastoreError, OutcomeUnknownError, TableWriterError
from table_writer.model.location import Location
from table_writer.model.table import Column, Table, TableName
from table_writer.model.table_read import ReadOf, TableRead
from table_writer.model.write import WritePlan
from table_writer.model.write_mode import WriteMode
from table_writer.storage.object_store import visible_files
from tests.doubles.glue import GlueDouble
from tests.glue.world import GlueWorld
from tests.maintenance.operations import erase
from tests.publish.world import ROOT, TABLE, DeathError, Fault, TableWorld, World

pytestmark = pytest.mark.usefixtures("in_one_thread")
T: Final = str(TABLE)
LINK: Final = TableName("shared", "orders")


def written(*, partitioned: bool = True) -> GlueWorld:
    world = GlueWorld(sleep=lambda _: None)
    if not partitioned:
        world.become_unpartitioned()
    world.write({"d1": frozenset({1}), "d2": frozenset({2})} if partitioned else {"": frozenset({1})})
    return world


def append(world: TableWorld, *, in_place: bool = False, value: str = "d1") -> None:
    world.write({value: frozenset({9})}, plan=world.plan(WriteMode.APPEND, in_place=in_place))


def overwrite_table(world: TableWorld) -> None:
    world.write({"d1": frozenset({9})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))


OPERATIONS: Final[dict[str, Callable[[GlueWorld], object]]] = {
    "append": append,
    "append in place": lambda world: append(world, in_place=True),
    "overwrite": lambda world: world.write({"d1": frozenset({9})}),
    "overwrite_table": overwrite_table,
    "compact": lambda world: world.compact("d1"),
    "recover": lambda world: world.keeper.recover(T),
    "rollback": lambda world: world.keeper.rollback(T, version=1),
    "restore": lambda world: world.keeper.restore(T),
    "adopt": lambda world: world.keeper.adopt(T),
}
every_operation = pytest.mark.parametrize("run", OPERATIONS.values(), ids=OPERATIONS)


@every_operation
@pytest.mark.parametrize("partitioned", [True, False])
def test_columns_that_a_role_does_not_see_stay_everybodys(
    run: Callable[[GlueWorld], object], *, partitioned: bool
) -> None:
    world = written(partitioned=partitioned)
    world.write({"d1": frozenset({3})} if partitioned else {"": frozenset({3})})
    server, before = world.metastore.server, str(world.metastore.server.tables)
    server.answers.hidden_columns = frozenset({"id"})
    with pytest.raises(InvalidInputError, match="does not show 1 column"):
        run(world)
    assert str(server.tables) == before


def test_a_column_that_is_hidden_between_two_reads_is_not_written_back_as_gone() -> None:
    world = written(partitioned=False)
    plan = world.plan(WriteMode.OVERWRITE_PARTITIONS)
    reads = iter(range(100))

    def hide(operation: str, phase: str) -> None:
        if operation == "get_table" and phase == "before" and next(reads) == 2:
            world.metastore.server.answers.hidden_columns = frozenset({"id"})

    world.metastore.on_call = hide
    with pytest.raises(TableWriterError):
        world.write({"": frozenset({9})}, plan=plan)
    columns = world.metastore.server.tables[TABLE].fields["StorageDescriptor"]["Columns"]
    assert [one["Name"] for one in columns] == [one.name for one in world_columns()]


def world_columns() -> tuple[Column, ...]:
    return written(partitioned=False).table.columns


def test_columns_dropped_on_purpose_are_said_to_be() -> None:
    world = written()
    world.metastore.server.answers.hidden_columns = frozenset({"id"})
    world.keeper.adopt(T, accept_loss=True)
    world.write({"d1": frozenset({9})})
    assert world.rows()["d1"] == frozenset({9})


def test_a_table_of_lake_formation_is_written_first_by_a_role_that_is_said_to_see_all() -> None:
    glue = GlueDouble()
    glue.server.answers.is_registered = True
    world = GlueWorld(metastore=glue)
    with pytest.raises(InvalidInputError, match=r"Lake Formation.*sees_everything"):
        world.services().require_all_columns()
    world.services(TableWriterConfig(sees_everything=True)).require_all_columns()
    spark = {**world.table.parameters, "spark.sql.sources.schema": "{}"}
    glue.create_table(replace(world.table, parameters=spark))
    world.services().require_all_columns()  # Spark's own list is not shown where some are hidden


@pytest.mark.parametrize("keeps_names", [True, False])
@every_operation
def test_a_link_is_no_table_of_its_own(run: Callable[[GlueWorld], object], *, keeps_names: bool) -> None:
    world = written()
    before = str(world.metastore.server.tables)
    answers = world.metastore.server.answers
    answers.links, answers.keeps_link_names = {TABLE: ("999999999999", LINK)}, keeps_names
    world.metastore.server.tables[LINK] = world.metastore.server.tables[TABLE]
    with pytest.raises(InvalidInputError, match=r"shared\.orders.*link"):
        run(world)
    del world.metastore.server.tables[LINK]
    assert str(world.metastore.server.tables) == before


def test_a_table_of_another_catalog_is_not_taken_for_one_of_this() -> None:
    glue = GlueDouble(catalog_id="123456789012")
    world = GlueWorld(metastore=glue)
    world.write({"d1": frozenset({1})})
    glue.server.answers.links = {TABLE: ("999999999999", TABLE)}
    with pytest.raises(InvalidInputError, match="catalog 999999999999"):
        world.write({"d1": frozenset({2})})


@pytest.mark.slow
def test_overwriting_a_table_leaves_no_hidden_partition_with_its_rows() -> None:
    world = written()
    world.metastore.server.answers.hidden_partitions = frozenset({("d2",)})
    with pytest.raises(ConflictError, match="does not show dt=d2"):
        overwrite_table(world)
    world.metastore.server.answers.hidden_partitions = frozenset()
    assert world.rows() == {"d1": frozenset({1}), "d2": frozenset({2})}
    overwrite_table(world)
    assert world.rows() == {"d1": frozenset({9})}


def test_a_partition_that_another_tool_has_dropped_is_proven_gone_once() -> None:
    world = written()
    world.metastore.drop_partition(world.table, ("d2",))
    overwrite_table(world)
    before = world.metastore.call_counts()
    overwrite_table(world)
    assert world.metastore.call_counts().get("BatchCreatePartition") == before["BatchCreatePartition"]
    assert world.partitions().keys() == {"d1"}


def test_a_partition_that_was_gone_at_one_look_is_proven_gone_at_the_next() -> None:
    world = GlueWorld(sleep=lambda _: None)
    world.write({"d1": frozenset({1}), "d2": frozenset({2})})
    world.write({"d1": frozenset({3})})
    world.metastore.drop_partition(world.table, ("d2",))

    def another_role_adds_it() -> None:
        erase(world)  # takes the slot
        world.dropped_by_another_tool("d2")
        world.written_by_another_tool("d2", frozenset({77}))
        world.metastore.server.answers.hidden_partitions = frozenset({("d2",)})

    world.at_store("put_if_absent", "before", another_role_adds_it, ".json")
    with pytest.raises(ConflictError, match="does not show dt=d2"):
        overwrite_table(world)


@pytest.mark.parametrize("mode", [WriteMode.APPEND, WriteMode.CREATE_PARTITIONS, WriteMode.OVERWRITE_PARTITIONS])
def test_a_hidden_partition_is_not_written_as_a_new_one(mode: WriteMode) -> None:
    world = written()
    world.metastore.server.answers.hidden_partitions = frozenset({("d2",)})
    with pytest.raises(TableWriterError):
        world.write({"d2": frozenset({9})}, plan=world.plan(mode))
    world.metastore.server.answers.hidden_partitions = frozenset()
    assert world.rows()["d2"] == frozenset({2})


@pytest.mark.parametrize("mode", [WriteMode.APPEND, WriteMode.CREATE_PARTITIONS])
@pytest.mark.parametrize("in_place", [False, True])
def test_a_recovery_does_not_write_a_hidden_partition_as_a_new_one(mode: WriteMode, *, in_place: bool) -> None:
    world = written()
    world.metastore.server.answers.hidden_partitions = frozenset({("d2",)})
    plan = world.plan(mode, in_place=in_place and mode is WriteMode.APPEND)
    with world.inject(Fault("metastore", "add_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
        world.write({"d2": frozenset({9})}, plan=plan)
    world.metastore.server.answers.hidden_partitions = frozenset()
    world.wait_out_claims()
    assert list(world.keeper.recover(T).settled.values())[-1] == "abandoned"
    assert world.rows() == {"d1": frozenset({1}), "d2": frozenset({2})}


def dies_at_an_addition(world: GlueWorld, number: int, plan: WritePlan, *values: str) -> None:
    """Write to partitions of which d2 is hidden, and die before one of those that it adds."""
    world.metastore.server.answers.hidden_partitions = frozenset({("d2",)})
    fault = Fault("metastore", "add_partitions", number, "before", DeathError)
    with world.inject(fault), pytest.raises(DeathError):
        world.write({value: frozenset({9}) for value in values}, plan=plan)
    world.metastore.server.answers.hidden_partitions = frozenset()
    world.wait_out_claims()


def test_a_hidden_partition_that_a_recovery_had_written_once_is_guarded_as_well() -> None:
    world = GlueWorld(sleep=lambda _: None)
    fault = Fault("metastore", "add_partitions", 1, "before", DeathError)
    with world.inject(fault), pytest.raises(DeathError):
        world.write({"d1": frozenset({1}), "d2": frozenset({2})})
    assert dict(world.recover_later().settled) == {1: "published"}
    world.skipped_seconds += 100 * 86_400
    dies_at_an_addition(world, 1, world.plan(WriteMode.APPEND), "d2")
    assert list(world.keeper.recover(T).settled.values())[-1] == "abandoned"
    assert world.rows() == {"d1": frozenset({1}), "d2": frozenset({2})}


def test_rows_made_of_those_that_were_shown_are_not_recovered_over_a_hidden_partition() -> None:
    world = written()
    place = Location.parse(world.partitions()["d1"].location)
    files = {
        file.key.removeprefix(place.key): (file.size_bytes, None) for file in visible_files(world.store, place.key)
    }
    seen = {place.place: files}
    read = TableRead(of=ReadOf.TABLE, files=seen, covers=frozenset)
    dies_at_an_addition(world, 1, replace(world.plan(), reads=(read,)), "d2")
    assert list(world.keeper.recover(T).settled.values())[-1] == "abandoned"
    assert world.rows() == {"d1": frozenset({1}), "d2": frozenset({2})}


def test_a_rollback_puts_back_a_partition_that_was_hidden_from_a_write_given_up() -> None:
    world = GlueWorld(sleep=lambda _: None)
    world.write({"d2": frozenset({2})})
    dies_at_an_addition(world, 2, world.plan(WriteMode.APPEND), "d1", "d2")
    world.keeper.recover(T)
    assert world.rows() == {"d1": frozenset({9}), "d2": frozenset({2})}
    before = world.history().newest
    world.write({"d2": frozenset({66})})
    world.keeper.rollback(T, version=before)
    assert world.rows() == {"d1": frozenset({9}), "d2": frozenset({2})}


@pytest.mark.parametrize(("kind", "call"), [(GlueWorld, 2), (World, 1)])
def test_an_append_is_recovered_over_its_own_placeholder_of_what_was_dropped(kind: type[World], call: int) -> None:
    world = kind(sleep=lambda _: None)
    world.write({"d1": frozenset({1}), "d2": frozenset({2})})
    world.write({"d1": frozenset({1})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    fault = Fault("metastore", "alter_partitions", call, "before", DeathError)
    with world.inject(fault), pytest.raises(DeathError):
        world.write({"d1": frozenset({8}), "d2": frozenset({9})}, plan=world.plan(WriteMode.APPEND))
    assert dict(world.recover_later().settled) == {3: "published"}
    assert world.rows() == {"d1": frozenset({1, 8}), "d2": frozenset({9})}


def test_a_recovery_does_not_take_a_hidden_partition_for_dropped() -> None:
    world = written()
    with world.inject(Fault("metastore", "alter_partitions", 1, "after", DeathError)), pytest.raises(DeathError):
        world.write({"d2": frozenset({9})})
    world.wait_out_claims()
    world.metastore.server.answers.hidden_partitions = frozenset({("d2",)})
    with pytest.raises(ConflictError, match="does not show dt=d2"):
        world.keeper.recover(T)
    world.metastore.server.answers.hidden_partitions = frozenset()
    world.wait_out_claims()
    report = world.keeper.recover(T)
    assert list(report.settled.values())[-1] == "published"
    assert world.rows()["d2"] == frozenset({9})


def test_a_vacuum_keeps_where_a_hidden_partition_ever_was() -> None:
    world = written()
    first = world.partitions()["d2"]
    world.write({"d2": frozenset({3})})
    world.metastore.put_partition(TABLE, first)  # by hand
    world.metastore.server.answers.hidden_partitions = frozenset({("d2",)})
    world.vacuum()
    world.metastore.server.answers.hidden_partitions = frozenset()
    assert world.rows()["d2"] == frozenset({2})


@pytest.mark.parametrize("sees_everything", [True, False])
def test_a_vacuum_deletes_other_tools_files_only_for_a_role_that_sees_all_tables(*, sees_everything: bool) -> None:
    world = GlueWorld(config=TableWriterConfig(sees_everything=sees_everything))
    world.written_by_another_tool("d1", frozenset({1}))
    world.write({"d1": frozenset({2})})
    reader = Table(
        name=TableName("hidden", "copy"),
        kind="EXTERNAL_TABLE",
        location=f"{ROOT}dt=d1/",
        columns=(),
        partition_columns=(),
    )
    if not sees_everything:
        world.metastore.create_table(reader)
        world.metastore.server.answers.hidden_tables = frozenset({reader.name})
    report = world.vacuum()
    there = [one.key for one in world.store.list("mart/orders/dt=d1/")]
    assert bool(there) is not sees_everything
    assert sees_everything or "sees_everything" in str(report)


def test_files_of_a_table_that_a_role_does_not_see_are_not_adopted() -> None:
    world = written()
    other = replace(world.table, name=TableName("mart", "orders2"), created_at_seconds=5)
    world.metastore.create_table(other)
    world.metastore.server.answers.hidden_tables = frozenset({TABLE})
    with pytest.raises(InvalidInputError, match="does not show"):
        world.keeper.adopt("mart.orders2")


BASES: Final[dict[str, Callable[[GlueWorld], object]]] = {
    "append": append,
    "append in place": lambda world: append(world, in_place=True),
    "compact": lambda world: world.compact("d1"),
    "create": lambda world: world.write({"d1": frozenset({9})}, plan=world.plan(WriteMode.CREATE_PARTITIONS)),
}


@pytest.mark.parametrize("age", [1, 2, 3, 100])
@pytest.mark.parametrize("which", ["first", "partitions", "all"])
@pytest.mark.parametrize("of_others", [True, False])
@pytest.mark.parametrize("run", BASES.values(), ids=BASES)
def test_rows_that_an_old_answer_does_not_show_stay(
    run: Callable[[GlueWorld], object], age: int, which: str, *, of_others: bool
) -> None:
    world = GlueWorld(sleep=lambda _: None)
    if of_others:
        world.written_by_another_tool("d1", frozenset({1}))
    answers = world.metastore.server.answers
    answers.keeps_past = True
    answers.past.append(dict(world.metastore.server.tables))
    world.write({"d1": frozenset({2})})
    world.write({"d1": frozenset({3})})
    old_answers = iter(range(1_000))

    def how_old(operation: str) -> int:
        if not operation.startswith(("BatchGet", "GetPartitions")) and which != "all":
            return 0
        return age if which != "first" or next(old_answers) == 0 else 0

    answers.age = how_old
    with suppress(TableWriterError, KeyError):  # the test's own look at what it compacts
        run(world)
    answers.age = lambda _: 0
    world.wait_out_claims()
    with suppress(MetastoreError):
        world.keeper.recover(T)
    assert world.rows()["d1"] >= frozenset({3}), "acknowledged"


def test_a_call_without_an_answer_is_in_doubt_though_all_of_it_is_seen() -> None:
    """An earlier call of the same write may have done what is seen, and this one may yet come."""
    world = written()
    fault = Fault("metastore", "alter_partitions", 1, "after", Exception)
    with world.inject(fault), pytest.raises(OutcomeUnknownError):
        world.write({"d1": frozenset({8})})
    assert world.rows()["d1"] == frozenset({8})
    assert world.history().records.in_doubt
    assert "published" in dict(world.recover_later().settled).values()
