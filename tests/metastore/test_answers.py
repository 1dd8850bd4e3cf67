"""No answer of a metastore is believed that says too little, or something else than was asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore import ttypes

from table_writer.errors import LostResponseError, MetastoreError, PartitionExistsError
from table_writer.metastore.connection import RefusedError
from table_writer.metastore.hive import HiveMetastore
from table_writer.metastore.hive_objects import (
    altered_partition,
    altered_table,
    partition_from,
    table_from,
    whole_table,
)
from table_writer.metastore.settings import MetastoreSettings
from table_writer.model.table import Column, Partition, PartitionChange, Table, TableName
from table_writer.model.write_mode import WriteMode
from tests.metastore.conftest import World, thrift_table
from tests.publish.world import ROOT, TABLE
from tests.publish.world import World as WriterWorld

NAME = TableName("mart", "orders")
LOGIN = "s3a://AKIAME:hush@lake/orders"


class AnyServer:
    """Stands for the connection: answers from Python, so that servers of every kind can be had."""

    uri = "thrift://any:9083"

    def __init__(self, table: Table | None, **answers: Callable[..., Any]) -> None:
        self.table = table
        self.answers = answers
        self.changes: list[str] = []

    def read(self, method: str, *arguments: Any, table: str) -> Any:
        if method == "get_table_req":
            if self.table is None:
                raise RefusedError("gone", table=table, reason=ttypes.NoSuchObjectException("gone"))
            native = thrift_table(self.table)
            native.createTime = self.table.created_at_seconds
            return ttypes.GetTableResult(native)
        return self.answers[method](*arguments)

    def change(self, method: str, *arguments: Any, table: str, before_send: Callable[[], None]) -> None:
        before_send()
        self.changes.append(method)


def native(*values: str) -> ttypes.Partition:
    storage = ttypes.StorageDescriptor(cols=[], location="file:/wh/a", serdeInfo=ttypes.SerDeInfo())
    return ttypes.Partition(values=list(values), sd=storage, parameters={})


def described(**changes: Any) -> Table:
    columns = (Column("dt", "string"),)
    base = Table(name=NAME, kind="EXTERNAL_TABLE", location="file:/wh", columns=(), partition_columns=columns)
    changed = replace(base, created_at_seconds=7, **changes)
    return replace(changed, native=thrift_table(changed))


def hive(table: Table | None, **answers: Callable[..., Any]) -> tuple[HiveMetastore, AnyServer]:
    metastore, server = HiveMetastore(MetastoreSettings(uris=("thrift://any:9083",))), AnyServer(table, **answers)
    metastore._connection = server  # type: ignore[assignment]
    return metastore, server


READS: dict[str, Callable[[Any, Table], object]] = {
    "names": lambda metastore, table: metastore.get_partition_names(table.name),
    "some": lambda metastore, table: metastore.get_partitions(table, [("1",)]),
    "all": lambda metastore, table: metastore.get_all_partitions(table),
}
EMPTY: dict[str, Callable[..., Any]] = {"get_partition_names": lambda *_: [], "get_partitions_by_names": lambda *_: []}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_an_empty_answer_of_a_gone_table_is_an_error(double: World, read: Callable[[Any, Table], object]) -> None:
    """As Hive 4 answers."""
    table = double.table()
    double.metastore.answers_for_missing_tables = "empty"  # type: ignore[attr-defined]
    double.metastore.drop_table(table.name)  # type: ignore[attr-defined]
    for metastore in (double.metastore, hive(None, **EMPTY)[0]):
        with pytest.raises(MetastoreError, match=r"there is no table default\.t"):
            read(metastore, table)


@pytest.mark.parametrize("read", [READS["some"], READS["all"]], ids=["some", "all"])
@pytest.mark.parametrize("columns", [("dt",), ()], ids=["partitioned", "whole"])
def test_an_answer_of_another_table_of_the_name_is_an_error(
    double: World, read: Callable[[Any, Table], object], columns: tuple[str, ...]
) -> None:
    table = double.table(columns)
    double.create(replace(table, created_at_seconds=table.created_at_seconds + 60))
    ask = read if columns else lambda metastore, asked: metastore.get_partitions(asked, [()])
    with pytest.raises(MetastoreError, match="dropped and made again"):
        ask(double.metastore, table)
    if columns:
        with pytest.raises(MetastoreError, match="dropped and made again"):
            read(hive(replace(described(), created_at_seconds=8), **EMPTY)[0], described())


def test_all_partitions_of_a_table_that_is_made_again_after_they_are_read_are_an_error(double: World) -> None:
    table = double.table()
    double.metastore.add_partitions(table, [double.partition("1")])

    def again(method: str, phase: str) -> None:
        if (method, phase) == ("get_partitions", "after"):
            double.create(replace(table, created_at_seconds=table.created_at_seconds + 60))

    double.metastore.on_call = again  # type: ignore[attr-defined]
    with pytest.raises(MetastoreError, match="dropped and made again"):
        double.metastore.get_all_partitions(table)


def test_what_is_listed_and_not_returned_is_an_error_unless_a_second_list_says_that_it_is_gone() -> None:
    lists: list[list[str]] = []
    answers: dict[str, Callable[..., Any]] = {
        "get_partition_names": lambda *_: lists.pop(0),
        "get_partitions_by_names": lambda *_: [native("1")],
        "get_all_tables": lambda *_: lists.pop(0),
        "get_table_objects_by_name_req": lambda *_: ttypes.GetTablesResult([thrift_table(described())]),
    }
    metastore, _ = hive(described(), **answers)
    lists += [["dt=1", "dt=2"], ["dt=1", "dt=2"]]
    with pytest.raises(MetastoreError, match=r"lists 1 partition of mart.orders that it does not return: 'dt=2'"):
        metastore.get_all_partitions(described())
    lists += [["dt=1", "dt=2"], ["dt=1"]]
    assert set(metastore.get_all_partitions(described())) == {("1",)}
    lists += [["orders", "other"], ["orders", "other"]]
    with pytest.raises(MetastoreError, match="first other"):
        list(metastore.get_tables("mart"))
    lists += [["orders", "other"], ["orders"]]
    assert [table.name for table in metastore.get_tables("mart")] == [NAME]


ODD = "ünïcödé 日本"
LOST = "ünïcödé ??"


@pytest.fixture
def latin1(double: World) -> World:
    """A double whose database keeps no other characters."""
    double.metastore.character_set = "latin1"  # type: ignore[attr-defined]
    return double


def put(world: World, table: Table, *partitions: Partition) -> None:
    """Put partitions there as another tool does, which reads nothing back."""
    for one in partitions:
        world.metastore.put_partition(table.name, one)  # type: ignore[attr-defined]


def fails_at(world: World, call: str) -> None:
    """Let a call of the double fail before it takes effect."""

    def fail(method: str, phase: str) -> None:
        if (method, phase) == (call, "before"):
            raise MetastoreError("injected")

    world.metastore.on_call = fail  # type: ignore[attr-defined]


def latin1_hive() -> tuple[HiveMetastore, AnyServer]:
    def by_names(_database: str, _table: str, names: list[str]) -> list[Any]:
        kept = [name.encode("latin1", "replace").decode("latin1").removeprefix("dt=") for name in names]
        return [native(value) for value in kept]

    return hive(described(), get_partitions_by_names=by_names)


def test_an_answer_with_other_values_is_an_error_that_names_both(latin1: World) -> None:
    table = latin1.table()
    put(latin1, table, latin1.partition(LOST))
    for metastore, asked in ((latin1.metastore, table), (latin1_hive()[0], described())):
        with pytest.raises(MetastoreError, match="character set") as caught:
            metastore.get_partitions(asked, [(ODD,)])
        assert f"asked for 'dt={ODD}'" in caught.value.message
        assert "answered 'dt=ünïcödé ??'" in caught.value.message.replace("%3F", "?")


def test_a_location_that_has_lost_its_values_is_an_error(double: World) -> None:
    table, metastore = double.table(), double.metastore
    put(double, table, double.partition("ü"), Partition(values=(ODD,), location=f"{double.root}/t/dt={LOST}/"))
    assert set(metastore.get_partitions(table, [("ü",)])) == {("ü",)}
    for read in (metastore.get_all_partitions, lambda asked: metastore.get_partitions(asked, [(ODD,)])):
        with pytest.raises(MetastoreError, match=rf"location of 'dt={ODD}' of default.*with \? in it.*character set"):
            read(table)


@pytest.mark.parametrize("read", [READS["names"], READS["all"]], ids=["names", "all"])
def test_a_listed_name_with_a_lost_character_is_an_error(latin1: World, read: Callable[[Any, Table], object]) -> None:
    table = latin1.table()
    latin1.metastore.add_partitions(table, [latin1.partition("a?b")])
    assert latin1.metastore.get_partition_names(table.name) == [("a?b",)]
    put(latin1, table, latin1.partition(ODD))
    listed = {"get_partition_names": lambda *_: ["dt=a%3Fb", f"dt={LOST}"]}
    for metastore, asked in ((latin1.metastore, table), (hive(described(), **listed)[0], described())):
        with pytest.raises(MetastoreError, match=r"lists 1 partition of .* first '.*ünïcödé \?\?': the character set"):
            read(metastore, asked)


def test_an_overwrite_of_the_table_does_not_leave_a_lost_partition_to_readers() -> None:
    world = WriterWorld()
    world.write({"d1": frozenset({1})})
    world.metastore.character_set = "latin1"
    world.metastore.put_partition(TABLE, Partition(values=(ODD,), location=f"{ROOT}dt={ODD}/"))
    with pytest.raises(MetastoreError, match="character set"):
        world.write({"d1": frozenset({2})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    assert world.history().records.in_doubt == ()
    world.write({"d1": frozenset({3})})
    assert world.history().newest == 2, "partitions that are not lost can be written"


def test_the_partition_that_a_value_is_stored_as_is_neither_dropped_nor_added_to(latin1: World) -> None:
    """As every Hive refuses it."""
    table = latin1.table()
    put(latin1, table, latin1.partition(LOST), latin1.partition("??"))
    with pytest.raises(MetastoreError, match="Expecting"):
        latin1.metastore.drop_partition(table, (ODD,))
    with pytest.raises(PartitionExistsError):
        latin1.metastore.add_partitions(table, [latin1.partition("日本")])
    assert latin1.metastore.get_partition_names(table.name) == [("??",), (LOST,)]


def test_values_that_are_not_kept_are_dropped_again_and_refused(latin1: World) -> None:
    table = latin1.table()
    latin1.metastore.add_partitions(table, [latin1.partition("ü")])
    with pytest.raises(MetastoreError, match=r"does not keep.*nothing was changed"):
        latin1.metastore.add_partitions(table, [latin1.partition(ODD), latin1.partition("1")])
    assert latin1.metastore.get_partition_names(table.name) == [("ü",)]
    metastore, server = latin1_hive()
    with pytest.raises(MetastoreError, match=r"does not keep.*nothing was changed"):
        metastore.add_partitions(described(), [Partition(values=(ODD,), location="file:/wh/x")])
    assert server.changes == ["add_partitions_req", "drop_partitions_req"]


def test_what_was_added_and_cannot_be_read_back_is_unknown_and_plain_values_are_not(latin1: World) -> None:
    table = latin1.table()
    latin1.metastore.add_partitions(table, [latin1.partition("1")])
    assert latin1.metastore.call_counts().get("get_partitions_by_names", 0) == 0
    fails_at(latin1, "get_partitions")
    with pytest.raises(LostResponseError, match="could not be read back: injected"):
        latin1.metastore.add_partitions(table, [latin1.partition(ODD)])
    fails_at(latin1, "drop_partitions")
    with pytest.raises(MetastoreError, match=r"could not be dropped again \(injected\)"):
        latin1.metastore.add_partitions(table, [latin1.partition("日本")])


def test_a_write_of_a_value_that_is_not_kept_is_refused_and_nothing_is_visible() -> None:
    world = WriterWorld()
    world.write({"d1": frozenset({1})})
    world.metastore.character_set = "latin1"
    for rows in ({ODD: frozenset({2})}, {"d1": frozenset({3}), ODD: frozenset({3})}):
        with pytest.raises(MetastoreError, match="character set"):
            world.write(rows)
        assert world.rows() == {"d1": frozenset({1})}
    assert world.history().records.in_doubt == ()
    world.write({"d1": frozenset({4})})
    assert world.rows() == {"d1": frozenset({4})}


@pytest.mark.parametrize("moment", ["names", "partitions"])
@pytest.mark.parametrize("again", [False, True], ids=["dropped", "made again"])
def test_a_vacuum_takes_nothing_for_unused_when_the_table_goes_while_it_looks(moment: str, *, again: bool) -> None:
    """Hive 4 says that a table that is gone has no partitions, and all its files would seem to be nobody's."""
    world = WriterWorld()
    world.metastore.answers_for_missing_tables = "empty"
    world.write({"d1": frozenset({1})})
    world.write({"d1": frozenset({2})})
    table, before = world.table, {info.key for info in world.store.list("")}
    call = {"names": "get_partition_names", "partitions": "get_partitions"}[moment]
    live = {key for key in before if world.partitions()["d1"].location.split("/", 3)[3] in key}
    assert live

    def go(method: str, phase: str) -> None:
        if (method, phase) == (call, "before"):
            world.metastore.on_call = None
            world.metastore.drop_table(TABLE)
            if again:
                world.metastore.create_table(replace(table, created_at_seconds=table.created_at_seconds + 60))

    world.metastore.on_call = go
    with pytest.raises(MetastoreError):
        world.keeper.vacuum(str(TABLE), older_than=timedelta(0), force=True)
    assert {info.key for info in world.store.list("")} >= live


def test_logins_in_locations_are_not_described_and_are_written_back_as_read() -> None:
    thrift = thrift_table(
        described(location=LOGIN, serde_parameters={"path": LOGIN}, parameters={"copied.from": LOGIN})
    )
    table = table_from(thrift)
    assert "hush" not in repr(table)
    assert table.location == "s3a://lake/orders/"
    theirs = native("1")
    theirs.sd.location, theirs.parameters = f"{LOGIN}/dt=1", {"copied.from": LOGIN, "numRows": "1"}
    partition = partition_from(theirs, table)
    assert "hush" not in repr(partition)
    change = PartitionChange(partition=partition, location="s3a://lake/new/", set_parameters={"numRows": "2"})
    assert altered_partition(table, change).parameters == {"copied.from": LOGIN, "numRows": "2"}
    assert altered_partition(table, change).sd.serdeInfo.parameters == {"path": LOGIN}
    whole = replace(change, partition=whole_table(table))
    assert altered_table(whole).parameters.items() >= {"copied.from": LOGIN}.items()
    assert theirs.sd.location == f"{LOGIN}/dt=1"
