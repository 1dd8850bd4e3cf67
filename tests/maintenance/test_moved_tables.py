"""Tables that other tools have renamed or moved: no write builds on a place that holds none of their rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from table_writer.errors import InvalidInputError, MetastoreError, StorageError, TableWriterError
from table_writer.model.entry import LogEntry, ReplacedObject
from table_writer.model.location import Location
from table_writer.model.table import ROOT_PARAMETER, Column, Partition, TableName
from table_writer.model.write import TableLayout
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.owner import refuse_left_log, require_in_place
from table_writer.protocol.operations.entry import is_same_file
from table_writer.storage.object_store import ObjectInfo
from tests.publish.world import ROOT, TABLE, DeathError, Fault, World

RENAMED = TableName("mart", "renamed")
NEW_ROOT = "s3a://lake/mart/renamed/"
OURS, THEIRS = frozenset({2, 3}), frozenset({1})
SPARK = {"spark.sql.sources.provider": "parquet", "spark.sql.partitionProvider": "catalog"}


def published() -> World:
    """Make an unpartitioned table with a row of others that was replaced, and two acknowledged writes."""
    world = World()
    world.become_unpartitioned()
    world.metastore.create_table(replace(world.table, parameters=SPARK, serde_parameters={"path": ROOT}))
    world.written_by_another_tool("", THEIRS)
    world.write({"": frozenset({2})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    append(world, 3)
    assert world.rows() == {"": OURS}
    return world


def append(world: World, number: int) -> None:
    world.write({"": frozenset({number})}, plan=world.plan(WriteMode.APPEND))


def altered(world: World, location: str, *, hives: str = "", name: TableName = TABLE, drop: bool = True) -> None:
    """Do what other tools' ``ALTER TABLE`` does in the metastore."""
    before = world.table
    if drop:
        world.metastore.drop_table(world.name)
    serde_parameters = dict.fromkeys(before.serde_parameters, location)
    moved = replace(before, name=name, location=location, serde_parameters=serde_parameters, hive_location=hives)
    world.metastore.create_table(moved)
    world.name = name


def moved_directory(world: World, keep: bool = False) -> None:
    """Rename a directory as S3A does: copy, then delete."""
    for found in list(world.store.list("mart/orders/")):
        stored = world.store.get(found.key)
        assert stored is not None
        world.store.put(found.key.replace("mart/orders/", "mart/renamed/"), stored.body)
        world.store.delete([] if keep else [found.key])
    world.root = NEW_ROOT


def renamed_by_spark(world: World) -> None:
    altered(world, NEW_ROOT, hives=world.table.location, name=RENAMED)


def renamed_by_spark_after_a_rollback(world: World) -> None:
    world.keeper.rollback(str(TABLE), version=0)
    altered(world, NEW_ROOT, name=RENAMED)
    moved_directory(world)


def renamed_by_hive_after_a_rollback(world: World) -> None:
    world.keeper.rollback(str(TABLE), version=0)
    altered(world, ROOT, hives=NEW_ROOT, name=RENAMED)
    moved_directory(world)


def set_location(world: World) -> None:
    altered(world, "s3a://lake/elsewhere/")


def set_location_around_the_root(world: World) -> None:
    altered(world, "s3a://lake/", drop=False)


def set_location_by_hive(world: World) -> None:
    altered(world, world.table.location, hives="s3a://lake/elsewhere/")


def moved_by_copying_all(world: World) -> None:
    moved_directory(world, keep=True)
    altered(world, NEW_ROOT)


MOVES = [
    renamed_by_spark,
    renamed_by_spark_after_a_rollback,
    renamed_by_hive_after_a_rollback,
    set_location,
    set_location_by_hive,
]
CALLS: dict[str, Callable[[World], object]] = {
    "write": lambda world: world.services().require_owner(),
    "planner": lambda world: require_in_place(world.store, world.services().layout, world.table),
    "history": lambda world: world.keeper.history(str(world.name)),
    "vacuum": lambda world: world.vacuum(),
    "recover": lambda world: world.keeper.recover(str(world.name)),
    "rollback": lambda world: world.keeper.rollback(str(world.name), version=1),
    "restore": lambda world: world.keeper.restore(str(world.name)),
    "uploads": lambda world: world.keeper.uploads(str(world.name)),
    "publish": lambda world: world.keeper.publish(str(world.name), "w1"),
    "discard": lambda world: world.keeper.discard(str(world.name), "w1"),
}


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.__name__)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_every_call_on_a_moved_table_is_refused_and_names_adopt(
    move: Callable[[World], None], call: Callable[[World], object]
) -> None:
    world = published()
    move(world)
    before = {found.key for found in world.store.list("")}
    with pytest.raises(InvalidInputError, match="table-writer adopt"):
        call(world)
    assert {found.key for found in world.store.list("")} == before


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.__name__)
def test_an_adopted_table_has_its_rows_and_keeps_them(move: Callable[[World], None]) -> None:
    world = published()
    move(world)
    rows = THEIRS if "rollback" in move.__name__ else OURS
    world.keeper.adopt(str(world.name))
    assert world.rows() == {"": rows}
    assert (world.table.root, world.table.hive_location) == (world.root, "")
    append(world, 4)
    world.vacuum()
    assert world.rows() == {"": rows | {4}}
    assert world.leftovers() == []
    versions = [one.version for one in world.keeper.history(str(world.name)).versions]
    assert versions == sorted(versions, reverse=True), "one log, before and after"
    assert versions[-1] == 1


@pytest.mark.parametrize("move", [renamed_by_spark_after_a_rollback, renamed_by_hive_after_a_rollback])
def test_a_log_that_moved_with_its_directory_still_rolls_back_to_all_rows(move: Callable[[World], None]) -> None:
    world = published()
    move(world)
    world.keeper.adopt(str(world.name))
    for version, rows in ((1, frozenset({2})), (2, OURS), (0, THEIRS)):
        world.keeper.rollback(str(world.name), version=version)
        assert world.rows() == {"": rows}


def test_rows_that_others_have_added_where_a_rollback_had_put_the_table_come_along_with_its_directory() -> None:
    world = published()
    world.keeper.rollback(str(TABLE), version=0)
    world.store.put("mart/orders/part-1.json", b"[77]")
    altered(world, ROOT, hives=NEW_ROOT, name=RENAMED)
    moved_directory(world)
    world.keeper.adopt(str(RENAMED))
    assert world.rows() == {"": THEIRS | {77}}


def test_rows_that_others_wrote_after_the_rename_are_neither_hidden_nor_built_on() -> None:
    world = published()
    renamed_by_spark(world)
    world.store.put("mart/renamed/part-0.json", b"[77]")
    with pytest.raises(InvalidInputError, match=r"files in .*/renamed/ that are not those .*UNSET TBLPROPERTIES"):
        world.keeper.adopt(str(RENAMED))
    with pytest.raises(InvalidInputError, match="adopt"):
        world.vacuum()
    assert world.rows() == {"": frozenset({77})}


@pytest.mark.parametrize("call", ["adopt", "restore"])
def test_another_file_under_the_name_of_one_that_was_replaced_is_not_hidden(call: str) -> None:
    world = published()
    altered(world, ROOT)
    world.lose_metastore()
    world.written_by_another_tool("", frozenset({7}))  # the same name and size, as Hive's 000000_0
    assert world.rows() == {"": frozenset({7})}
    with suppress(InvalidInputError):
        getattr(world.keeper, call)(str(TABLE))
    assert world.rows() == {"": frozenset({7})}


def test_what_a_refused_write_was_about_to_replace_is_not_hidden() -> None:
    world = published()
    altered(world, ROOT)
    world.written_by_another_tool("", frozenset({7}))
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", Exception)), pytest.raises(MetastoreError):
        append(world, 8)
    with suppress(InvalidInputError):
        world.keeper.adopt(str(TABLE), accept_loss=True)
    assert world.rows() == {"": frozenset({7})}


def test_without_its_root_a_moved_table_begins_a_new_log_and_leaves_the_old_files() -> None:
    world = published()
    set_location(world)
    world.store.put("elsewhere/part-0.json", b"[77]")
    parameters = {name: value for name, value in world.table.parameters.items() if name != ROOT_PARAMETER}
    world.metastore.create_table(replace(world.table, parameters=parameters))
    before = {found.key for found in world.store.list("mart/orders/")}
    world.root = "s3a://lake/elsewhere/"
    append(world, 4)
    world.vacuum()
    assert world.rows() == {"": frozenset({77, 4})}
    assert {found.key for found in world.store.list("mart/orders/")} == before


@pytest.mark.parametrize("move", [set_location_around_the_root, moved_by_copying_all])
def test_a_table_at_a_copy_of_its_rows_is_refused_and_loses_none(move: Callable[[World], None]) -> None:
    world = published()
    move(world)
    with pytest.raises(InvalidInputError, match="adopt"):
        world.vacuum()
    with suppress(InvalidInputError):
        world.keeper.adopt(str(world.name))
        assert world.rows() == {"": OURS}
    assert world.store.head("mart/orders/_table_writer/owner.json")


def test_a_table_whose_rows_are_gone_is_not_adopted() -> None:
    world = published()
    location = world.table.location
    renamed_by_spark(world)
    world.store.delete([found.key for found in world.store.list(Location.parse(location).key)])
    with pytest.raises(InvalidInputError, match="0 with 0 are left"):
        world.keeper.adopt(str(RENAMED))


@pytest.mark.parametrize(
    ("bodies", "left"), [([b"[2, 3, 45]"], "1 with 10 are left"), ([b"[2]", b"[]"], "2 with 5 are left")]
)
def test_a_table_that_has_lost_a_file_or_a_byte_is_not_adopted(bodies: list[bytes], left: str) -> None:
    world = published()
    key = Location.parse(world.table.location).key
    renamed_by_spark(world)
    world.store.delete([found.key for found in world.store.list(key)])
    for number, body in enumerate(bodies):
        world.store.put(f"{key}part-{number}.json", body)
    with pytest.raises(InvalidInputError, match=rf"of 2 files with 6 bytes at .* {left}"):
        world.keeper.adopt(str(RENAMED))


def test_rows_that_others_have_added_to_those_of_a_table_are_adopted_with_them() -> None:
    world = published()
    world.store.put(f"{Location.parse(world.table.location).key}others.json", b"[77]")
    renamed_by_spark(world)
    world.keeper.adopt(str(RENAMED))
    assert world.rows() == {"": OURS | {77}}


@pytest.mark.parametrize("phase", ["before", "after"])
@pytest.mark.parametrize("kind", [Exception, DeathError])
@pytest.mark.parametrize("call", ["get_partitions", "alter_partitions"])
@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.__name__)
def test_an_adopt_that_failed_anywhere_is_called_again(
    move: Callable[[World], None], call: str, kind: type[BaseException], phase: str
) -> None:
    world = published()
    move(world)
    rows = THEIRS if "rollback" in move.__name__ else OURS
    with (
        world.inject(Fault("metastore", call, 1, phase, kind)),
        pytest.raises((MetastoreError, StorageError, DeathError)),
    ):
        world.keeper.adopt(str(world.name))
    world.keeper.adopt(str(world.name))
    append(world, 4)
    world.vacuum()
    assert world.rows() == {"": rows | {4}}


def partitioned() -> World:
    world = World()
    world.written_by_another_tool("d1", THEIRS)
    world.write({"d1": frozenset({10}), "d2": frozenset({20})})
    return world


def with_partitions_at(world: World, partitions: dict[str, Partition]) -> None:
    for partition in partitions.values():
        location = partition.location.replace(ROOT, world.root)
        world.metastore.put_partition(world.name, replace(partition, location=location))


def test_a_renamed_directory_of_a_partitioned_table_still_rolls_back_to_other_tools_files() -> None:
    world = partitioned()
    partitions = world.partitions()
    moved_directory(world)
    altered(world, NEW_ROOT, name=RENAMED)
    with_partitions_at(world, partitions)
    world.keeper.adopt(str(RENAMED))
    world.keeper.rollback(str(RENAMED), version=0, partitions=["dt=d1"])
    assert world.rows() == {"d1": THEIRS, "d2": frozenset({20})}
    world.keeper.rollback(str(RENAMED), version=1)
    world.vacuum()
    assert not world.store.head("mart/renamed/dt=d1/part-0.json"), "it goes with its retention, as before the rename"
    assert world.rows() == {"d1": frozenset({10}), "d2": frozenset({20})}


def test_an_entry_names_files_below_its_root_wherever_that_is_and_no_others() -> None:
    world = partitioned()
    entry = world.history().records[0].entry
    body, elsewhere = entry.to_json(world.layout.root), Location.parse("s3://copy/mart/orders/mart/orders/")
    assert b"mart/orders" not in body
    (moved,) = LogEntry.from_json(body, root=elsewhere, version=1).replaced
    assert [one.key for one in moved.objects] == ["mart/orders/mart/orders/dt=d1/part-0.json"]
    with pytest.raises(InvalidInputError, match="is not below"):
        entry.to_json(elsewhere)


def test_a_partitioned_table_that_hive_renamed_is_refused_until_spark_looks_at_the_log_again() -> None:
    world = partitioned()
    partitions = world.partitions()
    world.metastore.create_table(replace(world.table, parameters=SPARK, serde_parameters={"path": ROOT}))
    altered(world, ROOT, hives=NEW_ROOT, name=RENAMED)
    moved_directory(world)
    with_partitions_at(world, partitions)
    for call in (world.services().require_owner, lambda: world.keeper.adopt(str(RENAMED))):
        with pytest.raises(InvalidInputError, match="SET LOCATION 's3a://lake/mart/renamed' in Spark"):
            call()
    altered(world, NEW_ROOT, name=RENAMED)
    with_partitions_at(world, partitions)
    world.keeper.adopt(str(RENAMED))
    world.write({"d2": frozenset({21})})
    assert world.rows() == {"d1": frozenset({10}), "d2": frozenset({21})}


def test_a_table_that_hive_renamed_before_its_first_publish_is_refused_while_spark_sees_no_rows() -> None:
    world = World()
    world.become_unpartitioned()
    world.metastore.create_table(replace(world.table, parameters=SPARK, serde_parameters={"path": ROOT}))
    altered(world, ROOT, hives=NEW_ROOT, name=RENAMED)
    world.services().require_owner()  # an empty table, or one of an old Spark, whose Hive location means nothing
    world.store.put("mart/renamed/part-0.json", b"[1]")
    for call in (world.services().require_owner, lambda: world.keeper.adopt(str(RENAMED))):
        with pytest.raises(InvalidInputError, match="SET LOCATION"):
            call()
    world.store.put("mart/orders/part-0.json", b"[1]")
    world.services().require_owner()


def test_a_log_is_not_begun_where_partitions_say_that_there_is_one_elsewhere() -> None:
    world = partitioned()
    layout = TableLayout(Location.parse("s3a://lake/elsewhere/"))
    with pytest.raises(InvalidInputError, match=r"LOCATION 's3a://lake/mart/orders' brings it back"):
        refuse_left_log(layout, world.table, world.partitions().values())
    refuse_left_log(world.layout, world.table, world.partitions().values())
    untouched = World()
    refuse_left_log(layout, untouched.table, untouched.partitions().values())


def made_again(world: World, name: TableName, seconds: int = 60) -> None:
    before = world.table
    world.metastore.drop_table(TABLE)
    world.metastore.create_table(replace(before, name=name, created_at_seconds=before.created_at_seconds + seconds))
    world.name = name


@pytest.mark.parametrize("name", [TABLE, RENAMED])
def test_a_table_created_again_without_partitions_has_them_once_it_is_adopted(name: TableName) -> None:
    world = partitioned()
    made_again(world, name)
    world.keeper.adopt(str(name))
    world.write({"d2": frozenset({21})}, plan=world.plan(WriteMode.APPEND))
    world.vacuum()
    assert world.rows() == {"d1": frozenset({10}), "d2": frozenset({20, 21})}


@pytest.mark.parametrize(
    ("name", "advice"),
    [(TABLE, r"Add them: `table-writer restore.*--accept-loss"), (RENAMED, r"--accept-loss.*table-writer restore")],
)
def test_a_table_created_again_in_the_same_second_may_be_a_renamed_one_whose_partitions_were_dropped(
    name: TableName, advice: str
) -> None:
    world = partitioned()
    made_again(world, name, seconds=0)
    with pytest.raises(InvalidInputError, match=rf"lacks 2 partitions .*{advice}"):
        world.keeper.adopt(str(name))
    world.keeper.adopt(str(name), accept_loss=True)
    world.keeper.restore(str(name))
    assert world.rows() == {"d1": frozenset({10}), "d2": frozenset({20})}


def test_a_renamed_table_that_has_partitions_is_adopted_though_its_log_lacks_an_entry() -> None:
    world = partitioned()
    world.write({"d1": frozenset({11})})
    kept = world.partitions()
    world.store.delete([world.layout.entry_key(1)])
    made_again(world, RENAMED, seconds=0)
    for partition in kept.values():
        world.metastore.put_partition(RENAMED, partition)
    world.keeper.adopt(str(RENAMED))
    world.keeper.recover(str(RENAMED), accept_loss=True)
    assert world.rows() == {"d1": frozenset({11}), "d2": frozenset({20})}


@pytest.mark.parametrize("name", [TABLE, RENAMED])
def test_whether_missing_partitions_were_dropped_on_purpose_is_for_a_person_to_say(name: TableName) -> None:
    world = partitioned()
    kept = world.partitions()["d1"]
    made_again(world, name)
    world.metastore.put_partition(name, kept)
    with pytest.raises(InvalidInputError, match=r"the metastore lacks 1 partition .*: dt=d2\. .*--accept-loss"):
        world.keeper.adopt(str(name))
    with pytest.raises(InvalidInputError, match="adopt"):
        world.write({"d2": frozenset({21})}, plan=world.plan(WriteMode.APPEND))
    world.keeper.adopt(str(name), accept_loss=True)
    assert world.rows() == {"d1": frozenset({10})}
    world.keeper.restore(str(name))
    assert world.rows() == {"d1": frozenset({10}), "d2": frozenset({20})}


def test_a_table_created_again_that_cannot_have_all_its_partitions_back_is_not_adopted() -> None:
    world = partitioned()
    location = world.partitions()["d2"].location
    world.store.delete([found.key for found in world.store.list(Location.parse(location).key)])
    made_again(world, TABLE)
    with pytest.raises(InvalidInputError, match=r"the metastore lacks 1 partition .*: dt=d2\. .*--accept-loss"):
        world.keeper.adopt(str(TABLE))
    assert world.rows() == {"d1": frozenset({10})}
    with pytest.raises(InvalidInputError, match="adopt"):
        world.write({"d2": frozenset({21})}, plan=world.plan(WriteMode.APPEND))


@pytest.mark.parametrize(("count", "shown"), [(5, "dt=d5. A write"), (6, "dt=d5, …. A write")])
def test_of_many_missing_partitions_five_are_named(count: int, shown: str) -> None:
    world = World()
    world.write({f"d{number}": frozenset({number}) for number in range(count + 1)})
    kept = world.partitions()["d0"]
    made_again(world, TABLE)
    world.metastore.put_partition(TABLE, kept)
    with pytest.raises(InvalidInputError, match=rf"lacks {count} partitions .*: dt=d1, dt=d2, dt=d3, dt=d4, {shown}"):
        world.keeper.adopt(str(TABLE))


def test_an_unpartitioned_table_without_a_publish_is_adopted_where_it_is() -> None:
    world = World()
    world.become_unpartitioned()
    world.written_by_another_tool("", THEIRS)
    made_again(world, RENAMED)
    world.keeper.adopt(str(RENAMED))
    append(world, 4)
    assert world.rows() == {"": THEIRS | {4}}


def test_writes_are_refused_until_a_restore_has_brought_all_partitions_back() -> None:
    world = partitioned()
    made_again(world, TABLE)
    (note,) = world.keeper.restore(str(TABLE), partitions=["dt=d1"]).notes
    assert "1 partition of the log still missing, and writes are refused until all are back: dt=d2" in note
    with pytest.raises(InvalidInputError, match="restore"):
        world.write({"d2": frozenset({21})}, plan=world.plan(WriteMode.APPEND))
    assert world.keeper.restore(str(TABLE)).notes == ()
    world.write({"d2": frozenset({21})}, plan=world.plan(WriteMode.APPEND))
    assert world.rows() == {"d1": frozenset({10}), "d2": frozenset({20, 21})}


def test_a_table_created_again_whose_log_has_lost_an_entry_has_a_way_out() -> None:
    world = partitioned()
    world.write({"d3": frozenset({30})})
    world.write({"d3": frozenset({31})})
    made_again(world, TABLE)
    world.store.delete([world.layout.entry_key(world.history().newest - 1)])
    for call in (world.keeper.adopt, world.keeper.restore):
        with pytest.raises(InvalidInputError, match="recover TABLE --accept-loss"):
            call(str(TABLE))
    with pytest.raises(InvalidInputError, match="adopt"):
        world.keeper.recover(str(TABLE), accept_loss=True)
    assert list(world.keeper.restore(str(TABLE)).not_there) == ["dt=d1", "dt=d2"], (
        "the lost entry may have dropped them"
    )
    assert world.keeper.restore(str(TABLE), partitions=["dt=d1", "dt=d2"]).notes == ()
    world.write({"d4": frozenset({4})})
    assert world.rows() == {"d1": frozenset({10}), "d2": frozenset({20}), "d3": frozenset({31}), "d4": frozenset({4})}


def test_an_unpartitioned_table_created_again_at_its_root_has_its_rows_once_it_is_adopted() -> None:
    world = published()
    made_again(world, RENAMED)
    world.metastore.create_table(replace(world.table, location=ROOT, parameters={}, serde_parameters={}))
    assert world.rows() == {"": THEIRS}, "what was replaced long ago"
    world.keeper.adopt(str(RENAMED))
    append(world, 4)
    world.vacuum()
    assert world.rows() == {"": OURS | {4}}


def test_the_files_of_a_table_that_exists_are_not_adopted_by_another() -> None:
    world = partitioned()
    world.metastore.create_table(replace(world.table, name=RENAMED, created_at_seconds=7))
    with pytest.raises(InvalidInputError, match=r"belongs to mart\.orders, which exists"):
        world.keeper.adopt(str(RENAMED))
    world.services().require_owner()


def test_files_that_some_readers_would_not_see_are_not_adopted() -> None:
    world = partitioned()
    moved_directory(world)
    altered(world, NEW_ROOT, name=RENAMED)
    world.store.put("mart/renamed/_delta_log/00000000000000000000.json", b"{}")
    with pytest.raises(InvalidInputError, match="would not see its rows"):
        world.keeper.adopt(str(RENAMED))


def test_a_table_of_which_the_metastore_hides_columns_is_not_adopted() -> None:
    world = partitioned()
    world.metastore.create_table(replace(world.table, columns=(*world.table.columns, Column("secret", "string"))))
    world.write({"d1": frozenset({11})})
    world.metastore.create_table(replace(world.table, columns=world.table.columns[:1]))
    with pytest.raises(InvalidInputError, match="does not show 1 column"):
        world.keeper.adopt(str(TABLE))
    world.keeper.adopt(str(TABLE), accept_loss=True)


@pytest.mark.parametrize("make", [published, partitioned])
def test_a_copy_of_all_files_is_adopted_beside_the_table_that_it_was_made_of(make: Callable[[], World]) -> None:
    world = make()
    rows = world.rows()
    moved_directory(world, keep=True)
    copy = replace(world.table, name=RENAMED, location=NEW_ROOT, parameters={}, serde_parameters={})
    world.metastore.create_table(replace(copy, created_at_seconds=7))
    world.name = RENAMED
    world.keeper.adopt(str(RENAMED))
    world.vacuum()
    assert world.rows() == rows
    world.name = TABLE
    assert world.rows() == rows


WHOLE, PARTS = "d41d8cd98f00b204e9800998ecf8427e", "d41d8cd98f00b204e9800998ecf8427e-2"


@pytest.mark.parametrize(
    ("listed", "found", "same"),
    [
        (WHOLE, WHOLE, True),
        (PARTS, WHOLE, True),  # S3 copies up to 5 GB as one part
        (WHOLE, WHOLE.replace("d", "e"), False),
        (WHOLE, PARTS, False),
        (PARTS, PARTS.replace("d4", "e4"), False),
        ("17f-2a-7", "17f-2b-7", False),  # of a file system: time, inode, size, which a rename keeps
    ],
)
def test_only_a_copy_that_made_one_part_of_many_has_another_etag(listed: str, found: str, same: bool) -> None:
    at = World().store._now()
    for size, expected in ((7, same), (8, False)):
        info = ObjectInfo(key="k", size_bytes=size, etag=found, modified_at=at)
        assert is_same_file(info, ReplacedObject(key="k", size_bytes=7, etag=listed)) is expected


def test_the_doctor_says_that_a_table_was_moved() -> None:
    world = published()
    set_location(world)
    findings = {one.check: one for one in world.keeper.doctor(str(TABLE)).findings}
    assert findings["location"].status == "error"
    assert "adopt" in findings["location"].advice
    with pytest.raises(TableWriterError):
        world.services().require_owner()
