"""Restore, history, show, adopt: the log says what was, and can bring it back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from table_writer.errors import InvalidInputError
from table_writer.model.table import Column
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.owner import Owner
from tests.publish.world import TABLE, DeathError, Fault, World

T = str(TABLE)
ONE = {"d1": frozenset({1}), "d2": frozenset({2})}
TWO = {"d1": frozenset({10, 11})}


@pytest.fixture
def world() -> World:
    world = World()
    world.write(ONE)
    world.write(TWO)
    return world


def lose_metastore(world: World) -> None:
    table = world.table
    world.metastore.drop_table(TABLE)
    world.metastore.create_table(replace(table, created_at_seconds=table.created_at_seconds + 3600))


def test_a_lost_metastore_gets_all_partitions_back_in_one_call(world: World) -> None:
    before = world.partitions()
    lose_metastore(world)
    with pytest.raises(InvalidInputError, match="adopt"):
        world.keeper.history(T)
    dry = world.keeper.restore(T, dry_run=True)
    assert world.partitions() == {}
    calls = world.metastore.call_counts()["add_partitions_req"]
    done = world.keeper.restore(T)
    assert done.partitions == dry.partitions
    assert world.metastore.call_counts()["add_partitions_req"] == calls + 1
    assert world.rows() == {**ONE, **TWO}
    assert {v: p.location for v, p in world.partitions().items()} == {v: p.location for v, p in before.items()}
    assert world.partitions()["d1"].parameters["numRows"] == "2"
    assert world.keeper.history(T).versions[0].operation == "restore"
    world.write({"d3": frozenset({3})})
    again = world.keeper.restore(T)
    assert (again.partitions, again.present_count) == ((), 3)


def test_a_partition_whose_files_are_gone_is_named_and_left_out(world: World) -> None:
    location = world.partitions()["d2"].location
    for info in list(world.store.list(location.removeprefix("s3a://lake/"))):
        world.store.delete([info.key])
    lose_metastore(world)
    report = world.keeper.restore(T)
    assert list(report.not_there) == ["dt=d2"]
    assert "are gone" in report.not_there["dt=d2"]
    assert world.rows() == TWO


def test_only_the_named_partitions_come_back(world: World) -> None:
    world.metastore.drop_partition(world.table, ("d1",))
    world.metastore.drop_partition(world.table, ("d2",))
    world.keeper.restore(T, partitions=["dt=d2"])
    assert world.rows() == {"d2": frozenset({2})}
    with pytest.raises(InvalidInputError, match="not in the log"):
        world.keeper.restore(T, partitions=["dt=d9"])


def test_what_was_rolled_back_is_not_restored(world: World) -> None:
    world.write({"d3": frozenset({3})})
    world.keeper.rollback(T, version=2)
    lose_metastore(world)
    world.keeper.restore(T)
    assert world.rows() == {**ONE, **TWO}


def test_files_of_another_table_are_not_restored_into_this_one(world: World) -> None:
    owner = Owner(database="mart", name="invoices", created_at_seconds=1, metastore="")
    world.store.put(world.layout.owner_key, owner.to_json())
    with pytest.raises(InvalidInputError, match=r"belongs to mart\.invoices"):
        world.keeper.restore(T)
    world.keeper.adopt(T)
    assert world.keeper.restore(T).present_count == 2


def test_history_says_who_when_what_and_how_it_ended(world: World) -> None:
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
        world.write({"d2": frozenset({22})})
    report = world.keeper.history(T)
    assert [(v.version, v.state, v.rows) for v in report.versions] == [
        (3, "in doubt", 1),
        (2, "published", 2),
        (1, "published", 2),
    ]
    assert (report.versions[1].replaced_count, report.versions[2].added_count) == (1, 2)
    assert report.versions[0].user
    assert [v.version for v in world.keeper.history(T, limit=1).versions] == [3]
    assert json.loads(report.to_json())["versions"][1]["rows"] == 2
    assert "in doubt" in repr(report)
    assert "<table>" in report._repr_html_()
    with pytest.raises(InvalidInputError, match="limit"):
        world.keeper.history(T, limit=0)


def test_show_goes_partition_by_partition(world: World) -> None:
    report = world.keeper.show(T, 2)
    assert [(p.name, p.change, p.rows) for p in report.partitions] == [("dt=d1", "replaced", 2)]
    world.vacuum()
    assert len(world.keeper.show(T, 3).deletes) == 1
    with pytest.raises(InvalidInputError, match="has no version 99: its newest is 3"):
        world.keeper.show(T, 99)


def test_a_table_that_was_never_written_has_an_empty_history() -> None:
    world = World()
    assert world.keeper.history(T).versions == ()
    assert world.keeper.recover(T).settled == {}
    assert world.vacuum().deleted == ()
    assert world.keeper.restore(T).partitions == ()


@pytest.mark.parametrize("name", ["mart.nothing", "no such", "a.b.c.d", "mart.orders; DROP", "../x", ""])
def test_a_table_that_is_not_there_is_a_clear_error(world: World, name: str) -> None:
    with pytest.raises(InvalidInputError, match=r"no table|not a table name"):
        world.keeper.history(name)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda body: body[: len(body) // 2], "cannot be read"),
        (lambda body: b"", "cannot be read"),
        (lambda body: b"[]", "cannot be read"),
        (lambda body: body.replace(b'"format": 1', b'"format": 99'), "upgrade table_writer"),
        (lambda body: body.replace(b'"version": 2', b'"version": 7'), "moved or copied"),
        (lambda body: body.replace(b'"rows": 2', b'"rows": -2'), "negative"),
        (lambda body: body.replace(b"_table_writer/data", b"../../other/data"), "leaves the table root"),
    ],
)
def test_a_damaged_or_hostile_entry_is_an_error_that_changes_nothing(world: World, change, match: str) -> None:
    key = world.layout.entry_key(2)
    stored = world.store.get(key)
    assert stored is not None
    world.store.put(key, change(stored.body))
    before = {info.key: info.etag for info in world.store.list("")}, world.rows()
    for call in (
        lambda: world.keeper.history(T),
        lambda: world.keeper.rollback(T, version=1),
        lambda: world.keeper.vacuum(T),
        lambda: world.keeper.recover(T),
    ):
        with pytest.raises(InvalidInputError, match=match):
            call()
    assert ({info.key: info.etag for info in world.store.list("")}, world.rows()) == before


def test_a_wrong_call_of_restore_adopts_nothing(world: World) -> None:
    lose_metastore(world)
    before = world.store.get(world.layout.owner_key)
    with pytest.raises(InvalidInputError, match="not a partition"):
        world.keeper.restore(T, partitions=["hour=1"])
    after = world.store.get(world.layout.owner_key)
    assert before is not None
    assert after is not None
    assert before.body == after.body


def test_a_partition_that_is_there_in_another_spelling_is_not_added_beside_it() -> None:
    world = World()
    table = replace(world.table, partition_columns=(Column("dt", "int"),))
    world.metastore.drop_table(TABLE)
    world.metastore.create_table(table)
    world.write({"1": frozenset({1}), "2": frozenset({2})})
    world.metastore.drop_partition(world.table, ("1",))
    world.written_by_another_tool("01", frozenset({5}))
    report = world.keeper.restore(T)
    assert report.not_there == {"dt=1": "the metastore has it as dt=01: readers would see both"}
    world.metastore.drop_partition(world.table, ("01",))
    world.keeper.restore(T)
    version = world.history().newest
    world.write({"3": frozenset({3})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    world.written_by_another_tool("02", frozenset({6}))
    with pytest.raises(InvalidInputError, match="dt=2: the metastore has it as dt=02: readers would see both"):
        world.keeper.rollback(T, version=version)
    world.keeper.rollback(T, version=version, partitions=["dt=1"])
    assert world.rows() == {"1": frozenset({1}), "3": frozenset({3}), "02": frozenset({6})}
