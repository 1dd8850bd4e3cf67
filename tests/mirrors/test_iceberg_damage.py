"""An Iceberg mirror that was damaged, dropped, or written by another tool is recognised, and mended by what follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import pytest
from pyiceberg.manifest import read_manifest_list
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)

from table_writer.errors import InvalidInputError
from table_writer.mirrors.follow import TableMirror
from table_writer.mirrors.iceberg.catalog import OwnCatalog
from table_writer.mirrors.iceberg.files import MetadataFiles, StoreFiles
from table_writer.model.table import Table
from tests.maintenance.operations import ADDED, OLD
from tests.publish.world import ROOT, body_of

from .iceberg_world import HOME, MIRROR, IcebergWorld, rows_of_json
from .world import drop_elsewhere

TABLE: Final = "mart.orders"
ROOT_KEY: Final = ROOT.removeprefix("s3a://lake/")
NOTE: Final = f"{HOME}table_writer.json"


@pytest.fixture(autouse=True)
def _rows_of_json() -> Iterator[None]:
    with rows_of_json():
        yield


def mirrored(writes: int = 4) -> IcebergWorld:
    world = IcebergWorld()
    world.write(OLD)
    for number in range(1, writes):
        world.write({"d1": frozenset({number})})
    world.memory.clear()
    return world


def files(world: IcebergWorld) -> StoreFiles:
    return StoreFiles(world.store, world.layout.root)


def newest(world: IcebergWorld, kind: str) -> list[str]:
    """Return the keys of the files that the newest snapshot is made of."""
    if kind == "metadata":
        return [files(world).key_of(world.metadata_location)]
    manifest_list = world.snapshots()[-1].manifest_list
    if kind == "list":
        return [files(world).key_of(manifest_list)]
    manifests = read_manifest_list(files(world).new_input(manifest_list))
    return [files(world).key_of(manifest.manifest_path) for manifest in manifests]


def gone(kind: str) -> Callable[[IcebergWorld], object]:
    return lambda world: world.store.delete(newest(world, kind))


def cut(kind: str, size: int = 90) -> Callable[[IcebergWorld], object]:
    def act(world: IcebergWorld) -> None:
        for key in newest(world, kind):
            world.store.put(key, body_of(world.store, key)[:size])

    return act


def foreign(make: Callable[[IcebergWorld], tuple[TableUpdate, ...]]) -> Callable[[IcebergWorld], object]:
    """Return another tool's commit."""

    def act(world: IcebergWorld) -> None:
        catalog = OwnCatalog(world.metastore, MIRROR, MetadataFiles(files(world), f"{HOME}metadata/"))
        assert catalog.commit(world.metadata_location, world.read_by_pyiceberg().metadata, make(world))

    return act


def foreign_snapshot(world: IcebergWorld) -> tuple[TableUpdate, ...]:
    """Another tool shows the rows of an earlier version again."""
    first, last = world.snapshots()[0], world.snapshots()[-1]
    changed = {
        "snapshot_id": 77,
        "parent_snapshot_id": last.snapshot_id,
        "sequence_number": (last.sequence_number or 0) + 1,
        "timestamp_ms": last.timestamp_ms,
        "summary": Summary(Operation.OVERWRITE),
    }
    return (AddSnapshotUpdate(snapshot=first.model_copy(update=changed)), to_main(77))


def to_main(snapshot_id: int) -> TableUpdate:
    return SetSnapshotRefUpdate.model_validate({"ref-name": "main", "type": "branch", "snapshot-id": snapshot_id})


def without_snapshots(world: IcebergWorld) -> tuple[TableUpdate, ...]:
    ids = [found.snapshot_id for found in world.snapshots()]
    return (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": ids}),)


DAMAGES: Final[dict[str, tuple[str, Callable[[IcebergWorld], object]]]] = {
    "metadata is gone": ("damaged", gone("metadata")),
    "metadata is cut off": ("damaged", cut("metadata")),
    "list of manifests is gone": ("damaged", gone("list")),
    "list of manifests is cut off": ("damaged", cut("list")),
    "list of manifests is empty": ("damaged", cut("list", 0)),
    "manifests are gone": ("damaged", gone("manifest")),
    "manifests are cut off": ("damaged", cut("manifest", 2000)),
    "note is gone": ("absent", lambda world: world.store.delete([NOTE])),
    "note is cut off": ("in step", lambda world: world.store.put(NOTE, b'{"cat')),
    "all files are gone": ("absent", lambda world: world.store.delete([one.key for one in world.store.list(HOME)])),
    "table is dropped": ("absent", lambda world: world.metastore.drop_table(MIRROR)),
    "another tool writes": ("damaged", foreign(foreign_snapshot)),
    "another tool writes twice": (
        "damaged",
        lambda world: [
            foreign(foreign_snapshot)(world),
            foreign(lambda world: (to_main(world.snapshots()[1].snapshot_id), to_main(77)))(world),
        ],
    ),
    "another tool rolls back": ("behind", foreign(lambda world: (to_main(world.snapshots()[1].snapshot_id),))),
    "another tool expires all": ("damaged", foreign(without_snapshots)),
    "another tool may delete": ("damaged", foreign(lambda _: (SetPropertiesUpdate(updates={"gc.enabled": "true"}),))),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("by", ["repair", "write"])
def test_what_is_wrong_is_said_and_mended(damage: str, by: str) -> None:
    world = mirrored()
    state, act = DAMAGES[damage]
    act(world)
    assert world.keeper.mirror(TABLE, as_="iceberg", check=True).state == state
    if by == "repair":
        assert world.keeper.mirror(TABLE, as_="iceberg", repair=True).state == "in step"
    else:
        world.write(ADDED)
        assert world.notes() == ()
    assert world.mirrored_rows() == world.rows()
    assert world.keeper.mirror(TABLE, as_="iceberg", check=True).state == "in step"
    world.memory.clear()
    world.write({"d1": frozenset({1000})})
    assert world.mirrored_rows() == world.rows()
    assert world.read_by_pyiceberg().properties["gc.enabled"] == "false"
    assert world.vacuum().failures == ()
    assert world.named_files_are_there()


def foreign_table(world: IcebergWorld) -> Table:
    theirs = {"table_type": "ICEBERG", "metadata_location": "s3a://lake/theirs/metadata/1.metadata.json"}
    return Table(
        name=MIRROR,
        kind="EXTERNAL_TABLE",
        location="s3a://lake/theirs/",
        columns=world.table.columns,
        partition_columns=(),
        parameters=theirs,
    )


@pytest.mark.parametrize("kind", ["iceberg", "hive"])
def test_a_table_of_its_name_that_this_library_did_not_make_is_refused_and_stays(kind: str) -> None:
    world = IcebergWorld()
    theirs = foreign_table(world)
    parameters: dict[str, Any] = {} if kind == "hive" else dict(theirs.parameters)
    before = world.metastore.create_table(Table(**{**plain(theirs), "parameters": parameters}))
    world.write(OLD)
    [note] = world.notes()
    assert "mart.orders_iceberg is a table that this library did not make" in note
    with pytest.raises(InvalidInputError, match="did not make"):
        world.keeper.mirror(TABLE, as_="iceberg", repair=True)
    assert world.metastore.get_table(MIRROR) == before
    assert list(world.store.list(HOME)) == []
    world.write({"d1": frozenset({5})})
    assert world.vacuum().failures == ()
    assert world.leftovers() == []


def test_a_mirror_whose_name_another_table_has_taken_is_not_followed_and_not_dropped() -> None:
    world = mirrored()
    world.metastore.drop_table(MIRROR)
    before = world.metastore.create_table(foreign_table(world))
    world.write(ADDED)
    assert "did not make" in world.notes()[0]
    with pytest.raises(InvalidInputError, match="did not make"):
        world.keeper.mirror(TABLE, as_="iceberg", drop=True)
    assert world.metastore.get_table(MIRROR) == before


def plain(table: Table) -> dict[str, Any]:
    names = ("name", "kind", "location", "columns", "partition_columns")
    return {name: getattr(table, name) for name in names}


def test_drop_deletes_all_of_the_mirror_and_nothing_else() -> None:
    world = mirrored()
    before = {info.key for info in world.store.list(ROOT_KEY)}
    assert world.keeper.mirror(TABLE, as_="iceberg", drop=True).state == "dropped"
    gone = before - {info.key for info in world.store.list(ROOT_KEY)}
    assert gone == {key for key in before if key.startswith(HOME) or "/log/mirrored-" in key}
    assert world.metastore.get_table(MIRROR) is None
    assert world.keeper.mirror(TABLE, as_="iceberg", drop=True).files == 0
    world.write(ADDED)
    assert world.mirrored_rows() == world.rows()


def test_a_mirror_of_a_log_that_was_deleted_follows_the_new_one() -> None:
    world = mirrored()
    own = list(world.store.list(world.layout.log_prefix))
    world.store.delete([world.layout.owner_key, world.layout.checkpoint_key, *(info.key for info in own)])
    world.keeper.adopt(TABLE, accept_loss=True)
    world.write({"d2": frozenset({77})})
    assert world.mirrored_rows() == world.rows()
    assert world.keeper.mirror(TABLE, as_="iceberg", check=True).state == "in step"


def test_a_writer_that_remembers_a_mirror_that_was_dropped_begins_it_anew() -> None:
    world = mirrored()
    world.write(ADDED)
    drop_elsewhere(world, "iceberg")
    world.write({"d1": frozenset({71})})
    assert world.mirrored_rows() == world.rows()


def test_check_compares_what_manifests_say_of_files() -> None:
    world = mirrored(1)
    mirror = TableMirror(world.services(), "iceberg")
    held, whole = mirror.mirror.read(), mirror.changes.whole()
    assert held is not None
    assert held.differing(whole) == {}
    first, second = sorted(whole.partitions)
    [file] = whole.partitions[first]
    for partitions, state in (
        ({first: (replace(file, size_bytes=1),)}, "of another size"),
        ({first: (replace(file, rows=77),)}, "with another row count"),
        ({second: (file,)}, "in another partition"),
        ({first: (replace(file, rows=None),)}, None),
    ):
        found = held.differing(replace(whole, partitions=partitions))
        assert found == ({} if state is None else {file.key: state})


def test_a_mirror_whose_metadata_cannot_be_read_can_be_dropped() -> None:
    world = IcebergWorld()
    world.write(OLD)
    gone("metadata")(world)
    world.memory.clear()
    world.keeper.mirror("mart.orders", as_="iceberg", drop=True)
    assert world.metastore.get_table(MIRROR) is None
    assert list(world.store.list(HOME)) == []
