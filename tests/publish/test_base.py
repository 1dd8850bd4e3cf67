"""What an append may build on, and what an overwrite may leave out, where a metastore's answer and the log differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from table_writer.errors import ConflictError, InvalidInputError, MetastoreError, PartitionExistsError
from table_writer.model.table import Partition, PartitionValues, TableName
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.operations.parameters import NO_FILES
from table_writer.testing.memory_metastore import MemoryMetastore
from tests.publish.world import REFUSED, ROOT, TABLE, World, written

pytestmark = pytest.mark.usefixtures("in_one_thread")
HIDDEN: frozenset[PartitionValues] = frozenset({("d2",)})


class Filtered(MemoryMetastore):
    """A Hive metastore whose filter leaves partitions out, by name and by value; changes are not filtered."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden: frozenset[PartitionValues] = frozenset()

    def _listed(self, name: TableName) -> dict[PartitionValues, Partition]:
        return {values: one for values, one in super()._listed(name).items() if values not in self.hidden}


def filtered() -> tuple[World, Filtered]:
    metastore = Filtered()
    world = World(metastore=metastore)
    world.write({"d1": frozenset({1}), "d2": frozenset({2})})
    return world, metastore


@pytest.mark.parametrize("in_place", [True, False])
def test_a_place_of_ours_to_which_a_partition_was_put_back_is_no_base(*, in_place: bool) -> None:
    world = written({"d1": frozenset({1})})
    before = world.partitions()["d1"]
    world.write({"d1": frozenset({2})})
    world.metastore.put_partition(TABLE, before)
    with pytest.raises(ConflictError, match=r"where version 2 of the log has left them.*recover mart\.orders"):
        world.write({"d1": frozenset({3})}, plan=world.plan(WriteMode.APPEND, in_place=in_place))
    world.keeper.recover(str(TABLE))
    world.write({"d1": frozenset({3})}, plan=world.plan(WriteMode.APPEND, in_place=in_place))
    assert world.rows() == {"d1": frozenset({2, 3})}


def test_a_place_of_other_tools_to_which_one_has_put_a_partition_back_is_a_base(world: World) -> None:
    """No answer of Hive is older than what it has answered before."""
    before = world.written_by_another_tool("d1", frozenset({1}))
    world.write({"d1": frozenset({2})})
    world.metastore.put_partition(TABLE, before)
    world.write({"d1": frozenset({3})}, plan=world.plan(WriteMode.APPEND))
    assert world.rows() == {"d1": frozenset({1, 3})}


@pytest.mark.parametrize("in_place", [True, False])
def test_a_place_that_a_refused_append_has_found_is_a_base(*, in_place: bool) -> None:
    world = written({"d1": frozenset({1})})
    world.written_by_another_tool("d1", frozenset({2}))
    refused = REFUSED
    with world.inject(refused), pytest.raises(MetastoreError, match="injected"):
        world.write({"d1": frozenset({3})}, plan=world.plan(WriteMode.APPEND, in_place=in_place))
    world.write({"d1": frozenset({4})}, plan=world.plan(WriteMode.APPEND, in_place=in_place))
    assert world.rows() == {"d1": frozenset({2, 4})}


@pytest.mark.parametrize("older", [1, 20])
def test_a_partition_that_a_filter_hides_is_not_left_with_its_rows(older: int) -> None:
    world, metastore = filtered()
    for _ in range(older):
        world.write({"d1": frozenset({1})})
    metastore.hidden, metastore.partial = HIDDEN, "a filter"  # of a long log only where one is known of
    with pytest.raises(ConflictError, match=r"does not show dt=d2 .*: a filter"):
        world.write({"d1": frozenset({9})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    with pytest.raises(PartitionExistsError):
        world.write({"d2": frozenset({9})}, plan=world.plan(WriteMode.APPEND))
    metastore.hidden = frozenset()
    assert world.rows() == {"d1": frozenset({1}), "d2": frozenset({2})}


def test_what_a_filter_may_hide_and_another_tool_has_dropped_is_dropped() -> None:
    world, metastore = filtered()
    world.dropped_by_another_tool("d2")
    metastore.partial = "a filter"
    world.write({"d1": frozenset({9})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    assert (world.rows(), set(world.partitions())) == ({"d1": frozenset({9})}, {"d1"})
    assert world.services().log.lister.read().in_doubt == frozenset()


@pytest.mark.parametrize("in_place", [True, False])
def test_where_a_publish_has_added_a_partition_before_it_moved_it_to_its_rows_is_no_base(*, in_place: bool) -> None:
    world = written({"d1": frozenset({1})})
    published = world.write({"d1": frozenset({2}), "d2": frozenset({5})}).entry
    empty = str(world.layout.placeholder(published.write_id, ("d2",)))
    world.metastore.put_partition(TABLE, Partition(values=("d2",), location=empty, parameters=NO_FILES))
    with pytest.raises(ConflictError, match=r"where version 2 of the log has left them"):
        world.write({"d2": frozenset({6})}, plan=world.plan(WriteMode.APPEND, in_place=in_place))


def test_a_vacuum_keeps_where_a_partition_was_that_a_filter_hides() -> None:
    world, metastore = filtered()
    before = world.partitions()["d2"]
    world.write({"d2": frozenset({3})})
    metastore.put_partition(TABLE, before)
    metastore.hidden, metastore.partial = HIDDEN, "a filter"
    world.vacuum()
    metastore.hidden = frozenset()
    assert world.rows()["d2"] == frozenset({2})


def test_columns_that_are_not_shown_any_more_stop_every_write() -> None:
    world, metastore = filtered()
    metastore.create_table(replace(world.table, columns=world.table.columns[:-1]))
    with pytest.raises(InvalidInputError, match="does not show 1 column"):
        world.plan()


def test_an_answer_about_another_table_is_refused_whoever_gives_it() -> None:
    world, metastore = filtered()
    other = replace(world.table, name=TableName("sales", "orders"), location=ROOT)
    metastore._tables[TABLE] = other  # as a link would be followed
    with pytest.raises(InvalidInputError, match=r"asked for mart\.orders, and answered sales\.orders"):
        world.keeper.restore(str(TABLE))
