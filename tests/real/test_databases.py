"""A metastore on the databases of production: what one of them loses is noticed, and its end undoes no write by half.

For `make test-databases`. The gateway's contract runs there too, by ``--metastore-database``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hmsclient.genthrift.hive_metastore import ttypes

from table_writer.errors import MetastoreError
from table_writer.metastore.hive_objects import new_partition
from table_writer.model.table import Partition
from table_writer.model.write_mode import WriteMode
from table_writer.testing import MetastoreServer, S3Server
from table_writer.testing.jars import s3a_jars
from table_writer.testing.processes import ServerProcess
from table_writer.testing.pytest_plugin import chosen_option
from tests.maintenance.operations import OPERATIONS
from tests.metastore.conftest import metastore_on
from tests.metastore.databases import DATABASES, Database, MariaDb
from tests.real.conftest import address_of, worlds
from tests.real.real_world import RealWorld
from tests.real.test_metastore_killed import kill_around_the_switch, kill_in_the_middle_of_a_switch

pytestmark = pytest.mark.needs("databases")
ODD = "ünïcödé 日本"
LOST = "ünïcödé ??"
OLD = {"d1": frozenset({1})}
(MIXED,) = (operation for operation in OPERATIONS if operation.name == "write that mixes, of our partitions")


class Servers(NamedTuple):
    database: Database
    metastore: MetastoreServer
    new_world: Callable[[], RealWorld]


def start(database: Database, s3_server: S3Server, request: pytest.FixtureRequest) -> Iterator[Servers]:
    hive, settings = chosen_option(request.config, "hive"), s3_server.hadoop_settings()
    with metastore_on(database, hive=hive, settings=settings, jars=s3a_jars()) as metastore:
        for new_world in worlds(address_of(s3_server, metastore)):
            yield Servers(database, metastore, new_world)


@pytest.fixture(scope="module", params=DATABASES)
def servers(request: pytest.FixtureRequest, s3_server: S3Server) -> Iterator[Servers]:
    yield from start(DATABASES[request.param](), s3_server, request)


@pytest.fixture(scope="module")
def latin1(request: pytest.FixtureRequest, s3_server: S3Server) -> Iterator[Servers]:
    """Return servers whose database is MariaDB with Hive's own schema."""
    yield from start(MariaDb(utf8=()), s3_server, request)


@pytest.mark.parametrize("killed", ["database", "metastore"])
def test_a_killed_server_leaves_all_old_or_all_new_rows(servers: Servers, killed: str) -> None:
    server: ServerProcess = getattr(servers, killed)
    is_back_at_once = killed == "database"  # a metastore waits for it, half a minute a call
    kill_around_the_switch(server, MIXED, "during", servers.new_world(), is_back_at_once=is_back_at_once)


@pytest.mark.parametrize("killed", ["database", "metastore"])
def test_a_switch_of_many_partitions_is_all_or_nothing(servers: Servers, killed: str, tmp_path: Path) -> None:
    kill_in_the_middle_of_a_switch(getattr(servers, killed), servers.new_world(), tmp_path.as_uri())


def test_odd_characters_are_written_and_read(servers: Servers) -> None:
    world = servers.new_world()
    for ids in ({1}, {2}):
        world.write({ODD: frozenset(ids), "d 1 ": frozenset(ids)})
        assert world.rows() == {ODD: frozenset(ids), "d 1 ": frozenset(ids)}
    assert world.vacuum().failures == ()
    assert world.rows() == {ODD: frozenset({2}), "d 1 ": frozenset({2})}


def names(world: RealWorld) -> list[str]:
    return ["".join(values) for values in world.metastore.get_partition_names(world.name)]


@pytest.mark.parametrize(
    "rows", [{ODD: frozenset({2})}, {"d1": frozenset({3}), "d2": frozenset({3}), ODD: frozenset({3})}]
)
def test_a_value_that_is_not_kept_changes_nothing(latin1: Servers, rows: dict[str, frozenset[int]]) -> None:
    world = latin1.new_world()
    world.write(OLD)
    with pytest.raises(MetastoreError, match=r"does not keep 'dt=ünïcödé 日本'.*character set.*nothing was changed"):
        world.write(rows)
    assert names(world) == ["d1"]
    assert world.rows() == OLD
    assert world.history().records.in_doubt == ()
    assert world.vacuum().failures == ()
    assert world.leftovers() == []
    world.write({"d1": frozenset({4}), "ü": frozenset({4})})
    assert world.rows() == {"d1": frozenset({4}), "ü": frozenset({4})}, "latin1 keeps these"


def test_no_vacuum_and_no_write_believes_what_another_tool_has_lost(latin1: Servers) -> None:
    world = latin1.new_world()
    world.write(OLD)
    world.write({"d1": frozenset({2})})
    put_by_another_tool(world, ODD)
    ((status, message),) = characters(world, scratch_table=False)
    assert (status, LOST in message, "character set" in message) == ("error", True, True)
    before = {info.key for info in world.store.list("")}
    replace_all = world.plan(WriteMode.OVERWRITE_TABLE)
    calls: list[Callable[[], object]] = [world.vacuum, lambda: world.write({ODD: frozenset({3})})]
    for call in (*calls, lambda: world.write({"d1": frozenset({3})}, plan=replace_all)):
        with pytest.raises(MetastoreError, match="character set"):
            call()
    assert {info.key for info in world.store.list("")} >= before
    world.metastore.real._drop_added(world.table, int, [(ODD,)])  # else DROP TABLE would never end
    assert world.rows() == {"d1": frozenset({2})}


@pytest.mark.parametrize(("first", "second"), [("a", "a "), ("a ", "a"), ("b", "b  ")])
def test_values_that_differ_in_trailing_spaces_are_kept_apart(latin1: Servers, first: str, second: str) -> None:
    world = latin1.new_world()
    world.write({first: frozenset({1})})
    with pytest.raises(MetastoreError, match="collation"):
        world.write({second: frozenset({2})})
    assert world.rows() == {first: frozenset({1})}
    both = latin1.new_world()
    with pytest.raises(MetastoreError, match="refused add_partitions_req"):
        both.write({first: frozenset({1}), second: frozenset({2})})
    assert (both.rows(), both.history().records.in_doubt) == ({}, ())
    rows = {first: frozenset({1}), first.upper(): frozenset({2})}
    both.write(rows)
    assert both.rows() == rows, "Hive's own collation is binary"


def test_a_collation_that_ignores_case_is_noticed(request: pytest.FixtureRequest, s3_server: S3Server) -> None:
    database = MariaDb()
    for servers in start(database, s3_server, request):
        assert isinstance(database, MariaDb)
        database.alter(["PARTITIONS.PART_NAME varchar(767) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"])
        for first, second in (("a", "A"), ("A", "a"), ("u", "ü")):
            world = servers.new_world()
            world.write({first: frozenset({1})})
            with pytest.raises(MetastoreError, match="collation"):
                world.write({second: frozenset({2})})
            with pytest.raises(MetastoreError, match="Expecting a partition"):
                world.metastore.drop_partition(world.table, (second,))
            assert world.rows() == {first: frozenset({1})}


def test_a_database_that_loses_locations_is_noticed(request: pytest.FixtureRequest, s3_server: S3Server) -> None:
    database = MariaDb(utf8=("PARTITIONS.PART_NAME", "PARTITION_KEY_VALS.PART_KEY_VAL"))
    for servers in start(database, s3_server, request):
        world = servers.new_world()
        world.write(OLD)
        with pytest.raises(MetastoreError, match="does not keep 'dt=ünïcödé 日本'"):
            world.write({ODD: frozenset({2})})
        assert (names(world), world.rows()) == (["d1"], OLD)
        put_by_another_tool(world, ODD)
        with pytest.raises(MetastoreError, match=r"location of 'dt=ünïcödé 日本'.*with \? in it"):
            world.write({ODD: frozenset({3})})
        with pytest.raises(MetastoreError, match=r"location of 'dt=ünïcödé 日本'.*with \? in it"):
            world.vacuum()


def characters(world: RealWorld, *, scratch_table: bool) -> list[tuple[str, str]]:
    report = world.keeper.doctor(str(world.name), scratch_table=scratch_table)
    return [(one.status, one.message) for one in report.findings if one.check == "metastore characters"]


def test_the_doctor_tries_characters_in_a_table_of_its_own(servers: Servers, latin1: Servers) -> None:
    for known, expected in ((servers, "ok"), (latin1, "error")):
        world = known.new_world()
        world.write(OLD)
        assert [status for status, _ in characters(world, scratch_table=False)] == ["ok"]
        objects = {info.key for info in world.store.list("")}
        found = characters(world, scratch_table=True)
        assert [status for status, text in found if "ünïcödé 日本 😀" in text] == [expected], found
        is_padded = isinstance(known.database, MariaDb)
        assert [status for status, text in found if "only in trailing spaces" in text] == ["note"] * is_padded
        assert len(found) == 1 + is_padded
        tables = [table.name.name for table in world.metastore.get_tables(world.name.database)]
        assert not [name for name in tables if "scratch" in name]
        assert {info.key for info in world.store.list("")} == objects
        assert names(world) == ["d1"]


def put_by_another_tool(world: RealWorld, value: str) -> None:
    """Add a partition as Hive does, which reads nothing back."""
    location = f"{world.root}dt={value}/"
    added = Partition(values=(value,), location=location, parameters={"numFiles": "0", "totalSize": "0"})
    request = ttypes.AddPartitionsRequest(
        world.name.database, world.name.name, [new_partition(world.table, added)], ifNotExists=False, needResult=False
    )
    world.change("add_partitions_req", request)
