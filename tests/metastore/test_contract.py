"""What both metastores promise: the double that tests use, and a real Hive metastore."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pyspark
import pytest
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.transport.TTransport import TBufferedTransport

from table_writer.errors import (
    ConflictError,
    InvalidInputError,
    MetastoreError,
    PartitionExistsError,
    PartitionMissingError,
)
from table_writer.metastore.hive import HiveMetastore
from table_writer.metastore.settings import MetastoreSettings
from table_writer.model.table import NULL_PARTITION, Column, Partition, PartitionChange, Table, TableName
from tests.metastore.conftest import FIGURES, INPUT_FORMAT, OUTPUT_FORMAT, SERDE, World, thrift_server

ALTER = "alter_partitions_with_environment_context"
ODD_VALUES = (
    *("ünïcödé 日本 😀", "a b", " leading", "trailing ", "a/b", "a=b", "a:b", "a%2Fb", "100%", "%", "%zz", "+", "a,b"),
    *('say "x"', "it's", "line\nbreak", "tab\t", "\r", "back\\slash", "{x}", "[y]", "a?b#c*d^e", "$&;|<>", "\x7f"),
    *(".", "..", NULL_PARTITION, "CASE", "case", "x" * 200),
)


def change(partition: Partition, to: str, *, removed: Iterable[str] = (), **parameters: str) -> PartitionChange:
    location = f"{partition.location.rstrip('/').rpartition('/')[0]}/{to}/"
    fields = {"set_parameters": parameters, "removed_parameters": frozenset(removed)}
    return PartitionChange(partition=partition, location=location, **fields)  # type: ignore[arg-type]


def test_a_table_is_described_in_full(world: World) -> None:
    table = world.table(("dt", "country"))
    location = f"{world.root}/{table.name.name}/"
    assert replace(table, created_at_seconds=0, parameters={}, native=None) == Table(
        name=table.name,
        kind="EXTERNAL_TABLE",
        location=location,
        columns=(Column("id", "bigint", "a key"), Column("tags", "array<struct<a:int,b:string>>")),
        partition_columns=(Column("dt", "string"), Column("country", "string")),
        input_format=INPUT_FORMAT,
        output_format=OUTPUT_FORMAT,
        serde=SERDE,
        serde_parameters={"serialization.format": "1", "path": location.rstrip("/")},
        bucket_columns=("id",),
    )
    assert table.parameters.items() >= {"EXTERNAL": "TRUE", "owner team": "ünïcode"}.items()
    assert table.created_at_seconds > 1_700_000_000
    assert table.native is not None


def test_a_table_that_does_not_exist_is_none(world: World) -> None:
    assert world.metastore.get_table(TableName("default", "nope")) is None
    assert world.metastore.get_table(TableName("nope", "nope")) is None
    assert list(world.metastore.get_tables("nope")) == []


def test_all_tables_of_a_database_are_returned_and_a_view_has_an_empty_location(world: World) -> None:
    tables = [world.table(), world.table(()), world.table((), kind="VIRTUAL_VIEW", location="")]
    assert (tables[2].kind, tables[2].location) == ("VIRTUAL_VIEW", "")
    found = {table.name: table for table in world.metastore.get_tables("default")}
    assert all(found[table.name] == table for table in tables)


def test_a_partition_is_read_as_it_was_added(world: World) -> None:
    table = world.table(("dt", "country"))
    world.metastore.add_partitions(table, [world.partition("2024-01-01", "de")])
    found = world.metastore.get_partitions(table, [("2024-01-01", "de"), ("2024-01-01", "fr")])
    assert list(found) == [("2024-01-01", "de")]
    partition = found["2024-01-01", "de"]
    assert partition.values == ("2024-01-01", "de")
    assert partition.location == f"{world.root}/a/"
    assert partition.parameters.items() >= FIGURES.items()
    assert partition.parameters.keys() == {*FIGURES, "transient_lastDdlTime"}
    assert partition.native is not None
    assert world.metastore.get_partition_names(table.name) == [("2024-01-01", "de")]


def test_add_adds_nothing_if_one_exists(world: World) -> None:
    table = world.table()
    world.metastore.add_partitions(table, [world.partition("2", at="old")])
    with pytest.raises(PartitionExistsError, match=str(table.name)):
        world.metastore.add_partitions(table, [world.partition(value, at="new") for value in "123"])
    assert world.locations(table) == {("2",): "old"}


def test_alter_changes_nothing_if_one_is_missing(world: World) -> None:
    table = world.table()
    world.metastore.add_partitions(table, [world.partition(value, at="old") for value in "123"])
    read = [world.read(table, value) for value in "123"]
    world.metastore.drop_partition(table, ("2",))
    with pytest.raises(PartitionMissingError, match=str(table.name)):
        world.metastore.alter_partitions(table, [change(partition, "new") for partition in read])
    assert world.locations(table) == {("1",): "old", ("3",): "old"}


def test_a_partition_just_added_is_altered_without_reading_it(world: World) -> None:
    table = world.table()
    added = world.partition("1", at="old", parameters={**FIGURES, "keep": "k"})
    world.metastore.add_partitions(table, [added])
    before = world.metastore.call_counts()
    world.metastore.alter_partitions(table, [change(added, "new", numFiles="8")])
    assert world.metastore.call_counts() == {**before, ALTER: 1}
    assert world.locations(table) == {("1",): "new"}
    assert world.read(table, "1").parameters.items() >= {**FIGURES, "keep": "k", "numFiles": "8"}.items()


def test_six_hundred_partitions_switch_in_one_call(world: World) -> None:
    table = world.table()
    values = [(str(number),) for number in range(600)]
    world.metastore.add_partitions(table, [world.partition(*one, at="old") for one in values])
    read = world.metastore.get_partitions(table, values)
    world.metastore.alter_partitions(table, [change(partition, "new") for partition in read.values()])
    counts = world.metastore.call_counts()
    assert (counts["add_partitions_req"], counts["get_partitions_by_names"], counts[ALTER]) == (1, 3, 1)
    assert world.locations(table) == dict.fromkeys(values, "new")


def test_alter_keeps_parameters_that_are_not_named_and_leaves_what_was_read_alone(world: World) -> None:
    table = world.table()
    given = {**FIGURES, "keep": "k", "replace": "r", "go": "g", "both": "b"}
    world.metastore.add_partitions(table, [world.partition("1", at="old", parameters=given)])
    read = world.read(table, "1")
    before = repr((read, read.native, table.native))
    named = {"numFiles": "8", "replace": "R", "come": "ünïcode", "both": "B"}
    removed = ("go", "absent", "both")  # what is removed and set is set
    world.metastore.alter_partitions(table, [change(read, "new", removed=removed, **named)])
    assert repr((read, read.native, table.native)) == before
    parameters = dict(world.read(table, "1").parameters)
    assert int(parameters.pop("transient_lastDdlTime")) > 1_700_000_000
    assert parameters == {**FIGURES, "keep": "k", **named}
    world.metastore.alter_partitions(table, [change(read, "newer")])
    assert world.locations(table) == {("1",): "newer"}


def test_odd_values_survive_every_call(world: World) -> None:
    table = world.table(("dt", "odd column"))
    values = [("1", value) for value in ODD_VALUES]
    world.metastore.add_partitions(table, [world.partition(*one, at="old") for one in values])
    assert sorted(world.metastore.get_partition_names(table.name)) == sorted(values)
    read = world.metastore.get_partitions(table, values)
    assert sorted(read) == sorted(values)
    world.metastore.alter_partitions(table, [change(partition, "new") for partition in read.values()])
    assert world.locations(table) == dict.fromkeys(values, "new")
    for one in values:
        world.metastore.drop_partition(table, one)
    assert list(world.metastore.get_partition_names(table.name)) == []


def test_dropping_a_missing_partition_is_no_error(world: World) -> None:
    table = world.table()
    world.metastore.add_partitions(table, [world.partition("1"), world.partition("2")])
    for values in (("1",), ("1",), ("never",)):
        world.metastore.drop_partition(table, values)
    assert world.metastore.get_partition_names(table.name) == [("2",)]


def changes(world: World, table: Table) -> dict[str, Callable[[Callable[[], None]], None]]:
    """Return one call of each kind that changes partition 1 of the table or adds partition 2."""
    metastore = world.metastore
    altered = change(world.read(table, "1"), "new")
    return {
        "add_partitions_req": lambda gate: metastore.add_partitions(table, [world.partition("2")], before_send=gate),
        ALTER: lambda gate: metastore.alter_partitions(table, [altered], before_send=gate),
        "drop_partition": lambda gate: metastore.drop_partition(table, ("1",), before_send=gate),
    }


@pytest.mark.parametrize("method", ["add_partitions_req", ALTER, "drop_partition"])
def test_a_change_asks_once_before_it_is_sent_and_not_at_all_if_refused(world: World, method: str) -> None:
    table = world.table()
    world.metastore.add_partitions(table, [world.partition("1", at="old")])
    act = changes(world, table)[method]
    before = world.metastore.call_counts()

    def refuse() -> None:
        raise ConflictError("too late")

    with pytest.raises(ConflictError, match="too late"):
        act(refuse)
    assert world.metastore.call_counts() == before
    assert world.locations(table) == {("1",): "old"}
    before = world.metastore.call_counts()
    asked: list[str] = []  # only this: a gate that uses the same metastore would wait for itself
    act(lambda: asked.append(method))
    assert asked == [method]
    assert world.metastore.call_counts()[method] == before.get(method, 0) + 1
    assert world.locations(table) != {("1",): "old"}


def test_all_partitions_are_read_by_their_names(world: World) -> None:
    table = world.table(("dt", "odd column"))
    assert world.metastore.get_all_partitions(table) == {}
    values = [(str(number % 3), value) for number, value in enumerate(ODD_VALUES)]
    values += [("9", str(number)) for number in range(260)]
    world.metastore.add_partitions(table, [world.partition(*one) for one in values])
    before = world.metastore.call_counts()
    found = world.metastore.get_all_partitions(table)
    after = world.metastore.call_counts()
    assert found == world.metastore.get_partitions(table, values)
    assert set(found) == set(values)
    assert after["get_partition_names"] - before["get_partition_names"] == 1
    assert after["get_partitions_by_names"] - before.get("get_partitions_by_names", 0) == 2


def test_a_partition_that_vanishes_while_all_are_read_is_absent(double: World) -> None:
    table, metastore = double.table(), double.metastore
    metastore.add_partitions(table, [double.partition(value) for value in "123"])

    def vanish(method: str, phase: str) -> None:
        if (method, phase) == ("get_partition_names", "after"):
            metastore.drop_partition(table, ("2",))

    metastore.on_call = vanish  # type: ignore[attr-defined]
    assert set(metastore.get_all_partitions(table)) == {("1",), ("3",)}


def test_partitions_of_a_table_that_is_gone_are_an_error(world: World) -> None:
    table = replace(world.table(), name=TableName("default", "gone"))
    for call in (
        lambda: world.metastore.get_all_partitions(table),
        lambda: world.metastore.get_partition_names(table.name),
        lambda: world.metastore.add_partitions(table, [world.partition("1")]),
    ):
        with pytest.raises(MetastoreError, match=r"default\.gone"):
            call()
    world.metastore.drop_partition(table, ("1",))


def test_values_are_tried_in_a_table_that_is_gone_afterwards(world: World) -> None:
    table = world.table()
    before = {one.name for one in world.metastore.get_tables("default")}
    world.metastore.try_values(table, table.location, ["ü b", "a", "A"])
    with pytest.raises(InvalidInputError, match="twice"):
        world.metastore.try_values(table, table.location, ["a", "a"])
    assert {one.name for one in world.metastore.get_tables("default")} == before
    assert list(world.metastore.get_partition_names(table.name)) == []


def test_a_closed_metastore_answers_again(world: World) -> None:
    table = world.table()
    for _ in range(2):
        world.metastore.close()
    assert world.metastore.get_table(table.name) == table


def test_the_version_is_told_by_reading(world: World, hive_version: str) -> None:
    """As far as it can be: Hive 3 answers as 2.3 does, and Spark 3.5 carries Hive 2.3.9."""
    by_calls = {"get_index_names": 1, "get_config_value": 1}
    told = {"2.3.10": ("2.3" if pyspark.__version__.startswith("3.5") else "2.3.10", by_calls)}
    told |= {"3.1.3": ("3", {"get_index_names": 1})}
    is_real = isinstance(world.metastore, HiveMetastore)
    version, more = told.get(hive_version, (hive_version, {})) if is_real else ("2.3.10", {})
    assert world.metastore.server_version() == version
    assert world.metastore.call_counts() == {"getVersion": 1, **more}


class Server:
    """A metastore that only tells its version, and that no longer knows some calls."""

    def __init__(self, version: str | None, *, has_indexes: bool, timeout: str | None = None) -> None:
        self._version = version
        self._timeout = timeout
        self.processor = ThriftHiveMetastore.Processor(self)
        if not has_indexes:
            del self.processor._processMap["get_index_names"]
        if version is None:
            del self.processor._processMap["getVersion"]

    def getVersion(self) -> str | None:  # noqa: N802 - Thrift's name
        return self._version

    def get_index_names(self, database: str, table: str, limit: int) -> list[str]:
        return []

    def get_config_value(self, name: str, default: str) -> str:
        if self._timeout is None:
            raise ttypes.ConfigValSecurityException("for security reasons")
        return self._timeout or default


@contextmanager
def connected(server: Server) -> Iterator[HiveMetastore]:
    with thrift_server(server.processor, TBufferedTransport) as bare:
        uris = (f"thrift://127.0.0.1:{bare.port}",)
        with HiveMetastore(MetastoreSettings(uris=uris)) as metastore:
            yield metastore


@pytest.mark.parametrize(
    ("server", "version"),
    [
        (Server("4.0.1", has_indexes=False), "4.0.1"),
        (Server("3.1.3000.7.2.18", has_indexes=False), "3.1.3000.7.2.18"),
        (Server("3.0", has_indexes=False), "3"),  # 3.0.0 to 3.1.3
        (Server("3.0", has_indexes=True, timeout="600s"), "2.3.10"),
        (Server("3.0", has_indexes=True, timeout=""), "2.3"),
        (Server("3.0", has_indexes=True), "2.3"),
        (Server(None, has_indexes=True), ""),
        (Server("", has_indexes=True), ""),
    ],
)
def test_servers_are_told_apart_by_what_they_know(server: Server, version: str) -> None:
    with connected(server) as metastore:
        assert metastore.server_version() == version


def test_requests_that_are_empty_or_make_no_sense_send_nothing(world: World) -> None:
    table = world.table()
    world.metastore.add_partitions(table, [world.partition("1")])
    read = world.read(table, "1")
    before = world.metastore.call_counts()
    add, alter, get = (getattr(world.metastore, f"{name}_partitions") for name in ("add", "alter", "get"))
    for call, argument, said in (
        (add, [world.partition("2"), world.partition("2")], "twice"),
        (alter, [change(read, "b"), change(read, "c")], "twice"),
        (add, [world.partition("2", "3")], "does not fit the partition columns"),
        (get, [()], "does not fit the partition columns"),
        (add, [world.partition("")], NULL_PARTITION),
    ):
        with pytest.raises(InvalidInputError, match=said):
            call(table, argument)
    add(table, [])
    alter(table, [])
    assert get(table, []) == {}
    assert world.metastore.call_counts() == before


def test_threads_share_one_metastore(world: World) -> None:
    table = world.table()
    world.metastore.add_partitions(table, [world.partition(str(number), at="old") for number in range(8)])

    def switch(number: int) -> str:
        for step in range(5):
            world.metastore.alter_partitions(table, [change(world.read(table, str(number)), f"{number}-{step}")])
        return world.read(table, str(number)).location

    with ThreadPoolExecutor(8) as pool:
        locations = list(pool.map(switch, range(8)))
    assert locations == [f"{world.root}/{number}-4/" for number in range(8)]
    assert world.metastore.call_counts()[ALTER] == 40


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        ("org.apache.hadoop.hive.metastore.DefaultMetaStoreFilterHookImpl", ""),
        ("org.apache.hadoop.hive.ql.security.authorization.plugin.metastore.HiveMetaStoreAuthorizer", "leaves out"),
        (None, ""),  # it does not say
    ],
)
def test_a_server_with_a_filter_may_hide_what_is_there(hook: str | None, said: str) -> None:
    name = TableName("mart", "orders")
    table = Table(name=name, kind="EXTERNAL_TABLE", location="s3a://a/b/", columns=(), partition_columns=())
    with connected(Server("4.0.1", has_indexes=False, timeout=hook)) as metastore:
        assert said in metastore.why_partial(table)
        assert bool(metastore.why_partial(table)) is bool(said)
