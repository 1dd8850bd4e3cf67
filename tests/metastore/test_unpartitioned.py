"""A table without partition columns is its own single partition: the double, and a real Hive metastore."""

from __future__ import annotations

import copy
import re
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore import ttypes

from table_writer.errors import ConflictError, InvalidInputError, LostResponseError, MetastoreError
from table_writer.metastore.connection import Connection
from table_writer.metastore.hive import HiveMetastore
from table_writer.metastore.settings import MetastoreSettings
from table_writer.model.table import Column, Partition, PartitionChange, Table, TableName
from table_writer.testing import Lakehouse
from tests.metastore.conftest import World

ALTER_TABLE = "alter_table_with_environment_context"
USING_PARQUET = {"EXTERNAL": "TRUE", "spark.sql.sources.provider": "parquet"}
DDL_TIME = "transient_lastDdlTime"


def whole(world: World, table: Table) -> Partition:
    return world.metastore.get_partitions(table, [()])[()]


def moved(partition: Partition, to: str, *, removed: Iterable[str] = (), **parameters: str) -> PartitionChange:
    named = {name.replace("__", "."): value for name, value in parameters.items()}
    fields = {"set_parameters": named, "removed_parameters": frozenset(removed)}
    return PartitionChange(partition=partition, location=to, **fields)  # type: ignore[arg-type]


def move(world: World, table: Table, to: str, **parameters: str) -> Table:
    """Move a table to a directory of the world and read it."""
    change = moved(whole(world, table), f"{world.root}/{to}/", **parameters)
    world.metastore.alter_partitions(table, [change])
    return read(world, table)


def read(world: World, table: Table) -> Table:
    found = world.metastore.get_table(table.name)
    assert found is not None
    return found


def without_time(parameters: Mapping[str, str]) -> dict[str, str]:
    """Leave out what the server adds when it makes a table."""
    return {name: value for name, value in parameters.items() if name not in {DDL_TIME, "numFiles", "totalSize"}}


def test_a_table_is_its_only_partition(world: World) -> None:
    table = world.table(())
    assert world.metastore.get_partition_names(table.name) == [()]
    found = world.metastore.get_all_partitions(table)
    assert found == world.metastore.get_partitions(table, [()])
    assert list(found) == [()]
    assert found[()] == Partition(values=(), location=table.location, parameters=table.parameters)
    assert found[()].native is not None


def test_reading_and_moving_it_cost_one_call_each(world: World) -> None:
    partitioned, table = world.table(), world.table(())

    def sent(call: Callable[[], object]) -> dict[str, int]:
        before = world.metastore.call_counts()
        call()
        return {
            name: count - before.get(name, 0)
            for name, count in world.metastore.call_counts().items()
            if count != before.get(name)
        }

    assert sent(lambda: world.metastore.get_partitions(table, [()])) == {"get_table_req": 1}
    assert sent(lambda: world.metastore.get_all_partitions(table)) == {"get_table_req": 1}
    change = moved(whole(world, table), f"{world.root}/new/")
    assert sent(lambda: world.metastore.alter_partitions(table, [change])) == {ALTER_TABLE: 1}
    assert read(world, table).location == whole(world, table).location == f"{world.root}/new/"
    world.metastore.add_partitions(partitioned, [world.partition("1")])
    world.metastore.get_partition_names(partitioned.name)  # the first time it looks whether the table is one
    assert sent(lambda: world.metastore.get_partition_names(partitioned.name)) == {"get_partition_names": 1}


@pytest.mark.parametrize("name", ["path", "PATH", ""])
@pytest.mark.parametrize("parameters", [{"EXTERNAL": "TRUE"}, USING_PARQUET], ids=["hive", "using-parquet"])
def test_the_serde_parameter_path_moves_along(world: World, name: str, parameters: dict[str, str]) -> None:
    options = {"serialization.format": "1", "compression": "zstd"}
    old, new = ({name: f"{world.root}/{to}"} if name else {} for to in ("old", "new"))
    table = world.table((), location=f"{world.root}/old/", serde_parameters=options | old, parameters=parameters)
    after = move(world, table, "new")
    assert after.location == f"{world.root}/new/"
    assert after.serde_parameters == options | new


def test_columns_change_in_the_call_that_moves_it(world: World) -> None:
    table = world.table((), columns=(Column("id", "bigint", "a key"), Column("gone", "string")), bucket_columns=())
    other = (Column("other", "bigint"), Column("tags", "string", "ünïcode"), Column("more", "array<struct<a:int>>"))
    change = moved(whole(world, table), f"{world.root}/new/", table_writer__columns_by="w1")
    world.metastore.alter_partitions(table, [replace(change, columns=other)])
    after = read(world, table)
    assert (after.columns, after.location, after.columns_by) == (other, f"{world.root}/new/", "w1")
    assert whole(world, table).location == after.location  # who knows the old columns is not told that some are hidden


def test_a_server_says_whether_types_may_change(world: World) -> None:
    table = world.table((), columns=(Column("id", "bigint"),), bucket_columns=())
    change = replace(moved(whole(world, table), f"{world.root}/new/"), columns=(Column("id", "array<int>"),))
    if world.metastore.why_types_stay():
        with pytest.raises(MetastoreError, match="incompatible"):
            world.metastore.alter_partitions(table, [change])
        change = replace(change, columns=table.columns)
    else:
        world.metastore.alter_partitions(table, [change])
    assert read(world, table).columns == change.columns


def test_a_table_behind_a_placeholder_moves_by_its_path(world: World) -> None:
    placeholder = f"{world.root}/orders-__PLACEHOLDER__"
    options = {"path": f"{world.root}/old"}
    table = world.table((), location=placeholder, serde_parameters=options, parameters=USING_PARQUET)
    assert table.location == whole(world, table).location == f"{world.root}/old/"
    after = move(world, table, "new")
    assert after.location == f"{world.root}/new/"
    assert after.serde_parameters == {"path": f"{world.root}/new"}
    native: Any = after.native
    assert not isinstance(world.metastore, HiveMetastore) or native.sd.location == placeholder


def test_only_parameters_that_are_named_change(world: World) -> None:
    given = {"EXTERNAL": "TRUE", "keep": "ünïcode", "replace": "r", "go": "g", "table_writer.write_id": "0"}
    table, removed = world.table((), parameters=given), ("go", "absent", "table_writer.write_id")
    partition = whole(world, table)
    before = repr((table, table.native, partition, partition.native))
    change = moved(partition, f"{world.root}/new/", removed=removed, replace="R", come="日本")
    world.metastore.alter_partitions(table, [change])
    assert repr((table, table.native, partition, partition.native)) == before, "what was read is left alone"
    after = read(world, table)
    wanted = {"EXTERNAL": "TRUE", "keep": "ünïcode", "replace": "R", "come": "日本"}
    assert without_time(after.parameters) == wanted
    assert int(after.parameters[DDL_TIME]) > int(table.parameters.get(DDL_TIME, "0"))
    assert replace(after, location="", parameters={}, serde_parameters={}) == replace(
        table, location="", parameters={}, serde_parameters={}
    )


def test_the_root_stays_when_the_table_moves(world: World) -> None:
    table = world.table(())
    after = move(world, table, "a", table_writer__root=table.location)
    assert (after.root, after.location) == (table.location, f"{world.root}/a/")
    assert move(world, after, "b").root == table.location


def test_only_an_unpartitioned_table_has_a_root_of_its_own() -> None:
    here, name = "s3://mart/orders/", TableName("mart", "orders")
    table = Table(name=name, kind="EXTERNAL_TABLE", location="s3://mart/orders", columns=(), partition_columns=())
    kept = {"table_writer.root": "s3://mart/elsewhere"}
    assert table.root == replace(table, parameters={"table_writer.root": ""}).root == here
    assert replace(table, parameters=kept).root == "s3://mart/elsewhere/"
    assert replace(table, parameters=kept, partition_columns=(Column("dt", "string"),)).root == here
    assert replace(table, location="").root == ""


FIRST_SEEN = [
    pytest.param({}, id="never-published"),
    pytest.param({"table_writer.write_id": "0"}, id="published-before"),
]


@pytest.mark.parametrize("parameters", FIRST_SEEN)
@pytest.mark.parametrize("write_ids", [("1", "2"), ("0", "0")], ids=["others", "the same"])
def test_a_lost_update_is_refused(world: World, parameters: dict[str, str], write_ids: tuple[str, str]) -> None:
    table = world.table((), parameters={"EXTERNAL": "TRUE", **parameters})
    mine = theirs = whole(world, table)
    changes = [
        moved(partition, f"{world.root}/{to}/", table_writer__write_id=write_id)
        for partition, to, write_id in zip((theirs, mine), ("theirs", "mine"), write_ids, strict=True)
    ]
    world.metastore.alter_partitions(table, changes[:1])
    before = read(world, table)
    if not world.compares_and_sets:
        world.metastore.alter_partitions(table, changes[1:])
        assert read(world, table).location == f"{world.root}/mine/"
        return
    with pytest.raises(MetastoreError, match=f"(?s)changed table {table.name}.*nothing was changed, run it") as caught:
        world.metastore.alter_partitions(table, changes[1:])
    assert not isinstance(caught.value, LostResponseError)
    assert read(world, table) == before
    assert move(world, table, "mine", table_writer__write_id="2").location == f"{world.root}/mine/"


@pytest.mark.parametrize("parameters", FIRST_SEEN)
def test_of_four_racing_writers_one_wins_if_compared(world: World, parameters: dict[str, str], hive: World) -> None:
    table = world.table((), parameters={"EXTERNAL": "TRUE", **parameters})
    looks = threading.Barrier(4)

    def write(number: int) -> bool:
        is_real = isinstance(world.metastore, HiveMetastore)
        metastore = HiveMetastore(MetastoreSettings(uris=(hive.metastore.uri,))) if is_real else world.metastore
        partition = metastore.get_partitions(table, [()])[()]
        looks.wait()
        change = moved(partition, f"{world.root}/{number}/", table_writer__write_id=f"w{number}")
        try:
            metastore.alter_partitions(table, [change])
        except MetastoreError as error:
            assert "somebody else changed" in str(error)  # noqa: PT017 - all but one lose, and for this reason
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(write, range(4)))
    if world.compares_and_sets:
        assert sum(won) == 1
        assert read(world, table).location == f"{world.root}/{won.index(True)}/"
    else:
        assert all(won), "nobody is told that others were faster: only the log keeps writers apart"


def test_a_move_asks_once_before_it_is_sent_and_not_at_all_if_refused(world: World) -> None:
    table = world.table(())
    change = moved(whole(world, table), f"{world.root}/new/")
    before = world.metastore.call_counts()

    def refuse() -> None:
        raise ConflictError("too late")

    with pytest.raises(ConflictError, match="too late"):
        world.metastore.alter_partitions(table, [change], before_send=refuse)
    assert world.metastore.call_counts() == before
    assert read(world, table) == table
    asked: list[int] = []
    world.metastore.alter_partitions(table, [change], before_send=lambda: asked.append(1))
    assert asked == [1]
    assert read(world, table).location == f"{world.root}/new/"


def test_it_can_be_neither_added_nor_dropped(world: World) -> None:
    table = world.table(())
    before = world.metastore.call_counts()
    calls: list[Callable[[], object]] = [
        lambda: world.metastore.add_partitions(table, [world.partition()]),
        lambda: world.metastore.drop_partition(table, ()),
    ]
    for call in calls:
        with pytest.raises(InvalidInputError, match="neither be added nor dropped"):
            call()
    partition = whole(world, table)
    with pytest.raises(InvalidInputError, match="does not fit"):
        world.metastore.alter_partitions(table, [moved(replace(partition, values=("1",)), f"{world.root}/new/")])
    with pytest.raises(InvalidInputError, match="twice"):
        world.metastore.alter_partitions(table, [moved(partition, f"{world.root}/{to}/") for to in "ab"])
    with pytest.raises(InvalidInputError, match="was not read from this metastore"):
        world.metastore.alter_partitions(table, [moved(replace(partition, native=None), f"{world.root}/new/")])
    world.metastore.add_partitions(table, [])
    world.metastore.alter_partitions(table, [])
    assert world.metastore.get_partitions(table, []) == {}
    assert world.metastore.call_counts() == {**before, "get_table_req": before["get_table_req"] + 1}
    assert read(world, table) == table


def test_a_partitioned_table_has_no_partition_without_values_and_is_another_one(world: World) -> None:
    table = world.table()
    with pytest.raises(InvalidInputError, match="does not fit"):
        world.metastore.drop_partition(table, ())
    with pytest.raises(InvalidInputError, match="does not fit"):
        world.metastore.get_partitions(table, [()])
    with pytest.raises(MetastoreError, match="made again"):
        world.metastore.get_partitions(replace(table, partition_columns=()), [()])


def test_a_table_that_is_gone_is_not_taken_for_one_without_rows(world: World) -> None:
    table = world.table(())
    partition = whole(world, table)
    gone = replace(table, name=TableName("default", "gone"))
    native: Any = copy.copy(partition.native)
    if isinstance(native, ttypes.Table):
        native.tableName = "gone"
    elif isinstance(native, dict):
        native["Name"] = "gone"
    else:
        native = replace(native, name=gone.name)
    for read in (
        lambda: world.metastore.get_partitions(gone, [()]),
        lambda: world.metastore.get_all_partitions(gone),
        lambda: world.metastore.get_partition_names(gone.name),
    ):
        with pytest.raises(MetastoreError, match=r"default\.gone"):
            read()
    with pytest.raises(MetastoreError, match=r"default\.gone") as caught:
        world.metastore.alter_partitions(gone, [moved(replace(partition, native=native), f"{world.root}/new/")])
    assert not isinstance(caught.value, LostResponseError)


def test_fields_that_the_model_does_not_know_survive_a_move(hive: World, backdoor: Connection) -> None:
    table = hive.table(())
    foreign: Any = copy.deepcopy(table.native)
    foreign.owner, foreign.retention, foreign.lastAccessTime = "somebody else", 9, 7
    foreign.sd.parameters, foreign.sd.compressed = {"foreign": "sd"}, True
    foreign.sd.sortCols = [ttypes.Order("id", 1)]
    foreign.sd.serdeInfo.name = "a name"
    backdoor.change("alter_table", table.name.database, table.name.name, foreign, table=str(table.name))
    grant = ttypes.HiveObjectPrivilege(
        ttypes.HiveObjectRef(ttypes.HiveObjectType.TABLE, table.name.database, table.name.name, None, None),
        "reader",
        ttypes.PrincipalType.USER,
        ttypes.PrivilegeGrantInfo("select", 0, "me", ttypes.PrincipalType.USER, False),
    )
    backdoor.change("grant_privileges", ttypes.PrivilegeBag([grant]), table=str(table.name))

    def granted() -> Any:
        return backdoor.read("list_privileges", "reader", ttypes.PrincipalType.USER, grant.hiveObject, table="")

    grants, before = granted(), copy.deepcopy(read(hive, table).native)
    assert (before.owner, before.retention, before.sd.sortCols) == ("somebody else", 9, [ttypes.Order("id", 1)])
    assert len(grants) == 1
    after: Any = move(hive, table, "new", come="x").native
    before.sd.location = before.sd.serdeInfo.parameters["path"] = f"{hive.root}/new"
    before.parameters = {**before.parameters, "come": "x", DDL_TIME: after.parameters[DDL_TIME]}
    assert after == before
    assert granted() == grants


def test_a_managed_table_moves_no_data_and_asks_no_file_system(hive: World, tmp_path: Path) -> None:
    """WebHDFS is a file system of Hadoop's whose every call is an HTTP request to a port that is ours here."""
    table = hive.table((), kind="MANAGED_TABLE", parameters={"numFiles": "7", "totalSize": "700"})
    file = tmp_path / table.name.name / "file"
    file.parent.mkdir(exist_ok=True)
    file.write_text("a row")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        store = f"webhdfs://127.0.0.1:{listener.getsockname()[1]}"
        for to in ("a", "b"):
            change = moved(whole(hive, table), f"{store}/{to}/", numFiles="8", table_writer__write_id=to)
            hive.metastore.alter_partitions(table, [change])
        with pytest.raises(BlockingIOError):
            listener.accept()
    after = read(hive, table)
    assert after.location == f"{store}/b/"
    assert (after.kind, after.parameters["numFiles"], after.parameters["totalSize"]) == (table.kind, "8", "700")
    assert file.read_text() == "a row"


def test_spark_reads_a_table_behind_a_placeholder_where_it_was_moved(
    lakehouse: Lakehouse, lakehouse_database: str
) -> None:
    """Those of other kinds: tests/end_to_end/test_unpartitioned.py."""
    spark, name = lakehouse.spark, TableName(lakehouse_database, "moving")
    elsewhere = f"{lakehouse.warehouse}/{lakehouse_database}_elsewhere"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, at TIMESTAMP_NTZ) USING parquet LOCATION '{elsewhere}/first'")
    spark.sql(f"INSERT INTO {name} (id) VALUES (1)")
    spark.table(str(name)).selectExpr("id + 1 AS id", "at").write.parquet(f"{elsewhere}/second")
    with HiveMetastore(MetastoreSettings(uris=(lakehouse.metastore_uri,))) as metastore:

        def shown() -> str:
            spark.sql(f"REFRESH TABLE {name}")
            return re.sub(
                r"'transient_lastDdlTime' = '\d+'", "", spark.sql(f"SHOW CREATE TABLE {name}").collect()[0][0]
            )

        def move(location: str) -> Any:
            metastore.alter_partitions(table, [moved(metastore.get_partitions(table, [()])[()], location)])
            return metastore.get_table(name)

        table: Any = metastore.get_table(name)
        before = shown()
        after = move(f"{elsewhere}/second/")
        assert shown() != before
        assert [row.id for row in spark.table(str(name)).collect()] == [2]
        assert (after.location, after.native.sd.location) == (f"{elsewhere}/second/", table.native.sd.location)
        move(table.location)
        assert shown() == before


def test_a_table_is_added_once_and_found_by_what_its_parameter_names(world: World) -> None:
    like = world.table(())
    named = {"table_type": "ICEBERG", "metadata_location": f"{world.root}/0.json"}
    added = replace(like, name=TableName(like.name.database, f"{like.name.name}_iceberg"), parameters=named)
    assert world.metastore.add_table(added)
    assert not world.metastore.add_table(replace(added, location=f"{world.root}/other/"))
    before = read(world, added)
    assert (before.columns, before.location, before.kind) == (like.columns, like.location, "EXTERNAL_TABLE")
    partition = Partition(values=(), location=before.location, parameters=before.parameters, native=before.native)
    changes = [moved(partition, before.location, metadata_location=f"{world.root}/{name}.json") for name in (1, 2)]
    world.metastore.alter_partitions(before, changes[:1])
    if world.compares_and_sets:  # the second goes by what the first has replaced
        with pytest.raises(MetastoreError, match="somebody else changed table"):
            world.metastore.alter_partitions(before, changes[1:])
    assert read(world, added).parameters["metadata_location"] == f"{world.root}/1.json"
    world.metastore.remove_table(added.name)
    world.metastore.remove_table(added.name)
    assert world.metastore.get_table(added.name) is None
