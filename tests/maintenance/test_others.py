"""Other tools' files below a root are deleted only if they are no other table's, in whatever database."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from table_writer.errors import InvalidInputError, MetastoreError, StorageError
from table_writer.model.entry import ReplacedObject
from table_writer.model.location import Location
from table_writer.model.table import Column, Partition, Table, TableName
from table_writer.model.write import TableLayout
from table_writer.protocol.log.owner import Owner, other_tables, places_of, refuse_nested_roots, take_root
from table_writer.protocol.vacuum.due import may_go
from tests.publish.world import ROOT, TABLE, Fault, World

T = str(TABLE)
OLD = frozenset({1})
NEW = {"d1": frozenset({10})}
INNER = f"{ROOT}dt=d1/inner/"
INNER_FILE = "mart/orders/dt=d1/inner/part-0.json"
SPARK = {"spark.sql.sources.provider": "parquet"}


def table(location: str, **described: object) -> Table:
    partition_columns = (Column("dt", "string"),)
    found: dict[str, object] = {"name": TableName("legacy", "inner"), "kind": "EXTERNAL_TABLE", **described}
    return Table(location=location, columns=(), **{"partition_columns": partition_columns, **found})  # type: ignore[arg-type]


def replaced_by_ours(*keys: str) -> World:
    """Make a table whose partition d1 was other tools' and was overwritten; beside its file lie others."""
    world = World()
    world.written_by_another_tool("d1", OLD)
    for key in keys:
        world.store.put(key, b"[77]")
    world.write(NEW)
    return world


def stays(world: World, *keys: str) -> bool:
    """Vacuum, dry first; say whether all of the keys are still there."""
    dry = world.keeper.vacuum(T, older_than=timedelta(0), force=True, dry_run=True)
    done = world.vacuum()
    assert [one.location for one in dry.deleted] == [one.location for one in done.deleted]
    assert dry.kept == done.kept
    assert done.failures == ()
    return all(world.store.head(key) for key in keys)


NAMED_BY = {
    "its location": table(INNER),
    "a location spelled otherwise": table(INNER.replace("s3a:", "s3n:").replace("orders/", "orders//")),
    "its own root, while its location is elsewhere": table(
        "s3a://elsewhere/inner/", partition_columns=(), parameters={"table_writer.root": INNER}
    ),
    "Spark's path, while Hive's location is elsewhere": table(
        "s3a://elsewhere/inner/", parameters=SPARK, serde_parameters={"path": INNER}
    ),
    "Hive's location, while Spark's path is elsewhere": table(
        INNER, parameters=SPARK, serde_parameters={"path": "s3a://elsewhere/inner/"}
    ),
    "the partition's own directory": table(f"{ROOT}dt=d1/"),
    "the same root": table(ROOT),
    "a directory around the root": table("s3a://lake/mart/"),
}


@pytest.mark.parametrize("inner", NAMED_BY.values(), ids=NAMED_BY.keys())
def test_a_vacuum_deletes_no_file_below_what_a_table_of_another_database_names(inner: Table) -> None:
    world = replaced_by_ours(INNER_FILE)
    world.metastore.create_table(inner)
    assert stays(world, INNER_FILE, "mart/orders/dt=d1/part-0.json")
    (kept,) = world.vacuum().kept
    assert "table legacy.inner" in kept.reason
    world.metastore.drop_table(inner.name)
    assert not stays(world, INNER_FILE), "it was kept for the other table only, and is not forgotten"


@pytest.mark.parametrize(
    "harmless",
    [table(f"{ROOT}dt=d10/"), table(""), table(INNER, kind="VIRTUAL_VIEW"), table("s3a://other/mart/orders/")],
    ids=["a sibling that begins alike", "no location", "a view", "another bucket"],
)
def test_a_table_that_lies_elsewhere_keeps_nothing(harmless: Table) -> None:
    world = replaced_by_ours(INNER_FILE)
    world.metastore.create_table(harmless)
    assert not stays(world, INNER_FILE)
    assert world.rows() == NEW


@pytest.mark.parametrize("root", [INNER, f"{ROOT}dt=d1/"])
def test_a_root_that_only_another_metastore_knows_protects_what_lies_below_it(root: str) -> None:
    world = replaced_by_ours(INNER_FILE)
    inner = TableLayout(Location.parse(root))
    take_root(world.store, inner, Owner(database="x", name="y", created_at_seconds=1, metastore="thrift://other"))
    assert stays(world, INNER_FILE, "mart/orders/dt=d1/part-0.json")
    assert f"whose root is {root}" in world.vacuum().kept[0].reason


def test_a_directory_that_nobody_may_look_into_may_be_another_tables_root() -> None:
    world = replaced_by_ours(INNER_FILE)

    def denied(call: str, _phase: str, key: str) -> None:
        if call == "head" and key.startswith("mart/orders/dt=d1/inner/"):
            raise StorageError("AccessDenied")

    world.store.on_call = denied
    (kept,) = world.vacuum().kept
    assert kept.reason == f"files there may be those of another table, whose root may be {INNER}: AccessDenied"
    world.store.on_call = None
    assert world.store.head(INNER_FILE)


@pytest.mark.parametrize("name", ["owner.json", "log/00000000000000000001.json", "data/w/part-0"])
def test_a_vacuum_never_reaches_into_the_directory_of_an_inner_root(name: str) -> None:
    key = f"mart/orders/dt=d1/inner/_table_writer/{name}"
    world = replaced_by_ours(key)
    (left,) = world.history().state.left_locations.values()
    assert [found.key for found in left.objects] == ["mart/orders/dt=d1/part-0.json"]
    assert stays(world, key)
    forged = ReplacedObject(key=key, size_bytes=4, etag="")
    assert not may_go(world.history(), left.location, forged), "whatever an entry says"


def test_a_table_made_between_claim_and_deletion_with_this_library_is_spared() -> None:
    world = replaced_by_ours(INNER_FILE)
    inner = TableLayout(Location.parse(INNER))

    def make_it(call: str, phase: str, key: str) -> None:
        if (call, phase) == ("put_if_absent", "after") and "/log/" in key:
            world.store.on_call = None
            world.store.put(inner.owner_key, b"{}")

    world.store.on_call = make_it
    assert [one.reason for one in world.vacuum().kept] == [
        f"files there may be those of another table, whose root is {INNER}"
    ]
    assert world.store.head(INNER_FILE)


def test_a_vacuum_that_died_is_finished_without_another_tables_files() -> None:
    world = replaced_by_ours(INNER_FILE)
    with world.inject(Fault("store", "delete", 1, "before", SystemExit)), pytest.raises(SystemExit):
        world.vacuum()
    world.metastore.create_table(table(INNER))
    world.wait_out_claims()
    world.keeper.recover(T)
    assert world.store.head(INNER_FILE)


@pytest.mark.parametrize("call", ["get_databases", "get_tables"])
def test_what_the_metastore_does_not_tell_is_not_taken_for_nobodys(call: str) -> None:
    world = replaced_by_ours(INNER_FILE)
    world.write({"d1": frozenset({11})})
    with world.inject(Fault("metastore", call, 1, "before", Exception)):
        report = world.vacuum()
    assert world.store.head(INNER_FILE)
    assert len(report.deleted) == 1, "the files of this library go"
    assert "is not known" in report.kept[0].reason


def test_an_answer_without_the_table_itself_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = replaced_by_ours(INNER_FILE)
    monkeypatch.setattr(world.metastore, "get_tables", lambda _: [])
    assert stays(world, INNER_FILE)
    with pytest.raises(MetastoreError, match=r"does not list mart\.orders"):
        list(other_tables(world.metastore, world.table))


def test_tables_are_listed_once_a_vacuum_and_only_for_files_of_other_tools() -> None:
    world = World()
    world.write(NEW)
    world.write(NEW)
    world.vacuum()
    assert "get_all_databases" not in world.metastore.call_counts()
    world = replaced_by_ours()
    for number in range(3):
        world.metastore.create_table(table(f"s3a://lake/far/{number}", name=TableName(f"db{number}", "t")))
    world.vacuum()
    calls = world.metastore.call_counts()
    assert (calls["get_all_databases"], calls["get_all_tables"]) == (1, 4)
    assert not world.store.head("mart/orders/dt=d1/part-0.json")


@pytest.mark.parametrize("inner", NAMED_BY.values(), ids=NAMED_BY.keys())
def test_the_first_write_refuses_a_root_that_meets_a_table_of_another_database(inner: Table) -> None:
    world = World()
    world.metastore.create_table(inner)
    with pytest.raises(InvalidInputError, match=r"legacy\.inner.*contain each other"):
        refuse_nested_roots(world.store, world.layout, world.table, other_tables(world.metastore, world.table))


def test_a_location_that_is_none_hides_no_other_one_of_the_table() -> None:
    found = places_of(table("not a location", hive_location=INNER))
    assert [str(one) for one in found] == [INNER]


def partition_of_a_table_elsewhere(world: World) -> None:
    far = world.metastore.create_table(table("s3a://lake/far/"))
    world.metastore.put_partition(far.name, Partition(values=("d1",), location=INNER))


def nothing_else(world: World) -> None:
    del world


@pytest.mark.parametrize("prepare", [partition_of_a_table_elsewhere, nothing_else])
def test_only_a_partition_pointed_here_by_hand_is_not_seen_as_the_limits_say(prepare: Callable[[World], None]) -> None:
    world = replaced_by_ours(INNER_FILE)
    prepare(world)
    assert not stays(world, INNER_FILE)
