"""An Iceberg mirror follows its table snapshot by snapshot; one that has failed is brought up by the next write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

import pytest
from pyiceberg.manifest import DataFileContent
from pyiceberg.table.snapshots import Operation

from table_writer.config import TableWriterConfig
from table_writer.errors import InvalidInputError, StorageError
from table_writer.model.table import Column
from table_writer.model.write_mode import WriteMode
from tests.maintenance.operations import ADDED, MIXED, OLD, REPLACED, WHOLE, replace_columns
from tests.publish.world import DeathError, Fault, insert, move

from .iceberg_world import HOME, MIRROR, IcebergWorld, rows_of_json
from .test_follow import CALLS, append, overwrite
from .world import MirroredWorld

TABLE: Final = "mart.orders"


@pytest.fixture(autouse=True)
def _rows_of_json() -> Iterator[None]:
    with rows_of_json():
        yield


@pytest.fixture
def world() -> IcebergWorld:
    return IcebergWorld()


@pytest.mark.parametrize("remembers", [True, False], ids=["one process", "a process each"])
@pytest.mark.parametrize("call", CALLS)
def test_the_mirror_has_the_rows_of_the_table_after_each_call(world: IcebergWorld, call: str, remembers: bool) -> None:
    world.remembers = remembers
    world.write(OLD)
    CALLS[call](world)
    assert world.mirrored_rows() == world.rows()
    assert world.notes() == ()
    assert world.keeper.mirror(TABLE, as_="iceberg", check=True).state == "in step"
    assert world.named_files_are_there()


def test_an_unpartitioned_table_is_mirrored_with_the_columns_that_it_gets(world: IcebergWorld) -> None:
    world.become_unpartitioned()
    overwrite(world, {"": frozenset({1})})
    replace_columns(world)
    schemas = world.read_by_pyiceberg().metadata.schemas
    assert [[(field.field_id, field.name) for field in schema.fields] for schema in schemas] == [
        [(1, "id")],
        [(2, "other")],
    ]
    assert world.mirrored_rows() == world.rows() == WHOLE
    overwrite(world, {"": frozenset({1})})


def test_a_column_that_is_added_is_a_column_of_the_mirror_and_names_keep_their_ids(world: IcebergWorld) -> None:
    world.write(OLD)
    world.metastore.create_table(replace(world.table, columns=(*world.table.columns, Column("more", "char(3)"))))
    world.write(MIXED)
    found = world.read_by_pyiceberg()
    assert [(field.field_id, field.name, str(field.field_type)) for field in found.schema().fields] == [
        (1, "id", "long"),
        (3, "more", "string"),
        (2, "dt", "string"),
    ]
    assert found.name_mapping() is not None
    assert [column.name for column in world.metastore.get_table(MIRROR).columns] == ["id", "more", "dt"]


def test_each_version_is_a_snapshot_also_where_the_mirror_begins_later() -> None:
    world = IcebergWorld(config=TableWriterConfig())
    seen = []
    for rows in (OLD, MIXED, {"d2": frozenset({20})}):
        world.write(rows)
        seen.append(world.rows())
    append(world, in_place=True)
    seen.append(world.rows())
    report = world.keeper.mirror(TABLE, as_="iceberg")
    assert (report.state, report.version) == ("in step", 4)
    assert report.mirror_version == world.snapshots()[-1].snapshot_id
    assert [world.mirrored_rows(number) for number in range(4)] == seen
    assert world.versions() == [1, 2, 3, 4]


def test_versions_that_were_missed_are_taken_up_one_by_one(world: IcebergWorld) -> None:
    world.write(OLD)
    world.config = TableWriterConfig()
    world.write(MIXED)
    append(world, in_place=True)
    world.config = TableWriterConfig(mirrors=["iceberg"])
    world.write(ADDED)
    assert world.versions() == [1, 2, 3, 4]
    assert world.mirrored_rows() == world.rows()


def test_each_snapshot_says_what_it_has_done_and_that_nobody_else_may_delete(world: IcebergWorld) -> None:
    world.write(OLD)
    append(world, in_place=True)
    world.write(MIXED)
    append(world)
    world.compact("d1")
    said = [snapshot.summary for snapshot in world.snapshots()]
    assert [one.operation for one in said if one] == [
        Operation.APPEND,
        Operation.APPEND,
        Operation.OVERWRITE,
        Operation.OVERWRITE,
        Operation.REPLACE,
    ]
    entries = world.read_by_pyiceberg().inspect.entries().to_pylist()
    assert {entry["data_file"]["content"] for entry in entries} == {DataFileContent.DATA}
    described = world.metastore.get_table(MIRROR)
    assert described is not None
    assert described.output_format == "org.apache.hadoop.mapred.FileOutputFormat"
    assert world.read_by_pyiceberg().metadata.format_version == 2
    kept = ("EXTERNAL", "external.table.purge", "gc.enabled")
    assert [described.parameters[name] for name in kept] == ["TRUE", "false", "false"]


def test_both_mirrors_follow_one_table() -> None:
    world = IcebergWorld(config=TableWriterConfig(mirrors=["delta", "iceberg"]))
    world.write(OLD)
    world.write(MIXED)
    assert world.mirrored_rows() == MirroredWorld.mirrored_rows(world) == world.rows()


def test_a_publish_of_the_same_process_costs_at_most_five_requests(world: IcebergWorld) -> None:
    plain = MirroredWorld(config=TableWriterConfig())
    more = []
    for number in range(130):  # manifests are merged meanwhile
        rows = {f"d{number}": frozenset({number}), "d0": frozenset({1000 + number})}
        before = [dict(one.metastore.call_counts()) for one in (world, plain)]
        for one in (world, plain):
            one.write(rows)
        calls = [
            sum(one.metastore.call_counts().values()) - sum(then.values())
            for one, then in zip((world, plain), before, strict=True)
        ]
        more.append(sum(world.costs[-1].values()) - sum(plain.costs[-1].values()) + calls[0] - calls[1])
    assert max(more[1:]) <= 5
    assert world.mirrored_rows() == world.rows()


def test_a_failure_is_a_note_and_the_next_write_mends_it(world: IcebergWorld) -> None:
    world.write(OLD)

    def called(name: str, phase: str, key: str) -> None:
        if (name, phase) == ("put", "before") and HOME in key:
            raise StorageError("no room")

    world.store.on_call = called
    world.write(MIXED)
    world.store.on_call = None
    [note] = world.notes()
    assert note.startswith("the iceberg mirror does not have version 2 yet: no room.")
    assert world.keeper.mirror(TABLE, as_="iceberg", check=True).state == "behind"
    world.write(ADDED)
    assert world.mirrored_rows() == world.rows()
    assert world.versions() == [1, 2, 3]


def test_a_version_that_was_in_doubt_is_taken_up_once_it_is_published(world: IcebergWorld) -> None:
    world.write(OLD)
    unanswered = Fault("metastore", "alter_partitions", 1, "after", DeathError)
    with world.inject(unanswered), pytest.raises(DeathError):
        world.write({"d1": frozenset({100})})
    world.memory.clear()
    world.write({"d2": frozenset({200})})  # beside it
    assert world.mirrored_rows() == {"d1": OLD["d1"], "d2": frozenset({200})}
    world.wait_out_claims()
    world.keeper.recover(TABLE)
    assert world.mirrored_rows() == world.rows() == {"d1": frozenset({100}), "d2": frozenset({200})}


def at_the_swap(world: IcebergWorld, act: Callable[[], object]) -> Callable[[str, str], object]:
    """Let another process act just before the catalog names other metadata."""
    seen: list[int] = []

    def called(name: str, phase: str) -> None:
        if (name, phase) == ("alter_partitions", "before"):
            seen.append(1)
            if len(seen) == 2:  # the first is the switch of the table
                world.metastore.on_call = None
                act()

    return called


@pytest.mark.parametrize("compares", [True, False], ids=["compares", "Hive 3"])
def test_of_processes_that_mirror_at_once_each_builds_on_the_other(world: IcebergWorld, compares: bool) -> None:
    other = IcebergWorld(store=world.store, metastore=world.metastore)
    world.write(OLD)
    other.write(MIXED)
    world.metastore.compares = compares
    world.metastore.on_call = at_the_swap(world, lambda: other.write({"d2": frozenset({22})}))
    world.write({"d9": frozenset({90})})
    other.write({"d1": frozenset({1000})})
    world.write({"d3": frozenset({3000})})
    assert world.mirrored_rows() == world.rows()
    assert world.named_files_are_there()


def test_many_writers_at_once_leave_one_mirror_with_all_of_their_rows(world: IcebergWorld) -> None:
    world.write(OLD)
    writers = [IcebergWorld(store=world.store, metastore=world.metastore) for _ in range(3)]

    def write(number: int) -> None:
        for round_number in range(4):
            writers[number].write({f"of {number}": frozenset({100 * number + round_number})})

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(write, range(3)))
    world.write(ADDED)
    assert world.mirrored_rows() == world.rows()
    assert world.versions() == sorted(world.versions())


def test_partitions_of_other_tools_are_listed_and_noted(world: IcebergWorld) -> None:
    world.written_by_another_tool("x", frozenset({70}))
    world.write(OLD)
    assert world.mirrored_rows() == {**OLD, "x": frozenset({70})} == world.rows()
    assert "1 partition that other tools write: dt=x" in world.notes()[0]
    insert(world, "x", 71)
    assert world.keeper.mirror(TABLE, as_="iceberg", check=True).state == "differs"
    assert world.keeper.mirror(TABLE, as_="iceberg", repair=True).state == "in step"
    assert world.mirrored_rows() == world.rows()


def test_a_vacuum_expires_the_snapshots_that_name_what_it_deletes(world: IcebergWorld) -> None:
    world.write(OLD)
    world.write(REPLACED)
    world.write(ADDED)
    world.write({"d9": frozenset({99})})
    deleted_too_early: list[str] = []

    def called(call: str, phase: str, key: str) -> None:
        if (call, phase) == ("delete", "after") and key.startswith(world.layout.all_data.key):
            hook, world.store.on_call = world.store.on_call, None
            deleted_too_early.extend([] if world.named_files_are_there() else [key])
            world.store.on_call = hook

    world.store.on_call = called
    assert world.vacuum().failures == ()
    world.store.on_call = None
    assert deleted_too_early == []
    assert world.versions() == [2, 4]
    assert world.named_files_are_there()
    assert world.mirrored_rows() == world.rows()
    assert world.leftovers() == []
    world.keeper.rollback(TABLE, version=4)
    assert world.mirrored_rows() == world.rows()


def test_metadata_that_nothing_needs_goes_with_a_vacuum(world: IcebergWorld) -> None:
    for number in range(40):
        world.write({"d1": frozenset({number})})
    world.vacuum()
    before = len(world.store.list_files(f"{HOME}metadata/"))
    world.skipped_seconds += 31 * 86_400
    world.write(ADDED)
    world.vacuum()
    after = len(world.store.list_files(f"{HOME}metadata/"))
    assert after < before / 2
    assert world.mirrored_rows() == world.rows()


def test_without_pyiceberg_a_vacuum_deletes_nothing_that_a_mirror_may_name(
    world: IcebergWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write(OLD)
    world.write(REPLACED)
    monkeypatch.setitem(__import__("sys").modules, "table_writer.mirrors.iceberg.table", None)
    report = world.vacuum()
    assert report.deleted == ()
    assert "pip install 'hive-table-writer[iceberg]'" in report.kept[0].reason
    with pytest.raises(InvalidInputError, match=r"hive-table-writer\[iceberg\]"):
        world.keeper.mirror(TABLE, as_="iceberg", repair=True)


def test_an_append_in_place_to_a_partition_that_another_tool_has_moved_takes_all_of_it(world: IcebergWorld) -> None:
    world.write(OLD)
    move(world, "d1", "elsewhere", 500)
    world.write({"d1": frozenset({71})}, plan=world.plan(WriteMode.APPEND, in_place=True))
    assert world.notes() == ()
    assert world.mirrored_rows() == world.rows() == {"d1": frozenset({500, 71}), "d2": OLD["d2"]}
