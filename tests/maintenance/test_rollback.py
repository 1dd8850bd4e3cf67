"""Rolling back: one call, a new version, and a refusal with the reason where rows could not be had back."""

from __future__ import annotations

import pytest

from table_writer.errors import ConflictError, InvalidInputError, MetastoreError, OutcomeUnknownError
from table_writer.model.location import Location
from table_writer.model.table import Partition
from table_writer.model.write_mode import WriteMode
from tests.publish.world import ROOT, TABLE, DeathError, Fault, World, insert, move, without_answer

T = str(TABLE)
FIRST = {"d1": frozenset({1}), "d2": frozenset({2})}
SECOND = {"d1": frozenset({10}), "d3": frozenset({30})}


@pytest.fixture
def world() -> World:
    world = World()
    world.write(FIRST)
    world.write(SECOND)
    return world


def test_all_partitions_go_back_in_one_call_and_new_ones_are_dropped(world: World) -> None:
    calls = world.metastore.call_counts().get("alter_partitions_with_environment_context", 0)
    report = world.keeper.rollback(T, version=1)
    assert world.rows() == FIRST
    assert set(world.partitions()) == {"d1", "d2"}
    assert report.version == 3
    assert {p.name: p.change for p in report.partitions} == {"dt=d1": "replaced", "dt=d3": "dropped"}
    assert world.metastore.call_counts()["alter_partitions_with_environment_context"] == calls + 1


def test_a_rollback_can_be_rolled_back(world: World) -> None:
    world.keeper.rollback(T, version=1)
    world.keeper.rollback(T, version=2)
    assert world.rows() == {**FIRST, **SECOND}
    world.keeper.rollback(T, version=3)
    assert world.rows() == FIRST


def test_version_0_is_the_state_before_the_first_write(world: World) -> None:
    world.keeper.rollback(T, version=0)
    assert world.rows() == {}
    assert world.partitions() == {}


def test_rows_of_other_tools_come_back_too() -> None:
    world = World()
    theirs = world.written_by_another_tool("d1", frozenset({7}))
    world.write({"d1": frozenset({1})})
    report = world.keeper.rollback(T, version=0)
    assert world.rows() == {"d1": frozenset({7})}
    assert world.partitions()["d1"].location == theirs.location
    assert report.partitions[0].rows is None
    assert "numRows" not in world.partitions()["d1"].parameters


def test_a_write_id_names_its_version(world: World) -> None:
    write_id = world.services().log.slots.read(1).entry.write_id
    assert world.keeper.rollback(T, write_id=write_id).to_version == 1
    assert world.rows() == FIRST
    with pytest.raises(InvalidInputError, match="there is no entry of it"):
        world.keeper.rollback(T, write_id="20200101T000000-none")


REFUSED = Fault("metastore", "alter_partitions", 1, "before", Exception)
DIED = Fault("metastore", "alter_partitions", 1, "before", DeathError)


def test_a_write_that_was_refused_once_and_published_then_is_found_where_it_was_published(world: World) -> None:
    world.stage({"d1": frozenset({5})})
    with world.inject(REFUSED), pytest.raises(MetastoreError):
        world.publish_staged()
    with pytest.raises(InvalidInputError, match="readers have never seen it: version 3 of the log was abandoned"):
        world.keeper.rollback(T, write_id=world.staged_ids[0])
    world.publish_staged()
    world.write({"d1": frozenset({6})})
    report = world.keeper.rollback(T, write_id=world.staged_ids[0])
    assert (report.to_version, world.rows()["d1"]) == (4, frozenset({5}))


def test_a_write_that_a_recovery_has_published_is_found(world: World) -> None:
    plan = world.plan()
    with world.inject(DIED), pytest.raises(DeathError):
        world.write({"d1": frozenset({5})}, plan=plan)
    with pytest.raises(InvalidInputError, match="version 3 is in doubt: run `table-writer recover"):
        world.keeper.rollback(T, write_id=plan.write_id)
    world.wait_out_claims()
    world.keeper.recover(T)
    world.write({"d1": frozenset({6})})
    world.keeper.rollback(T, write_id=plan.write_id)
    assert world.rows()["d1"] == frozenset({5})


def test_the_name_of_a_rollback_or_a_vacuum_is_no_write_to_go_back_to(world: World) -> None:
    world.keeper.rollback(T, version=1)
    world.vacuum()
    for version, kind in ((3, "rollback"), (4, "vacuum")):
        write_id = world.services().log.slots.read(version).entry.write_id
        with pytest.raises(InvalidInputError, match=f"it is no write but the {kind} that is version {version}"):
            world.keeper.rollback(T, write_id=write_id)


def test_only_the_named_partitions_change(world: World) -> None:
    world.keeper.rollback(T, version=1, partitions=["dt=d1"])
    assert world.rows() == {**FIRST, "d3": frozenset({30})}


def test_a_dry_run_changes_nothing_and_says_the_same(world: World) -> None:
    before = world.partitions(), {info.key for info in world.store.list("")}
    planned = world.keeper.rollback(T, version=1, dry_run=True)
    assert (world.partitions(), {info.key for info in world.store.list("")}) == before
    done = world.keeper.rollback(T, version=1)
    assert planned.partitions == done.partitions
    assert planned.version is None


def test_a_second_rollback_to_the_same_version_has_nothing_to_do(world: World) -> None:
    world.keeper.rollback(T, version=1)
    report = world.keeper.rollback(T, version=1)
    assert report.version is None
    assert report.partitions == ()
    assert "nothing to do" in repr(report)


def test_vacuumed_rows_cannot_come_back(world: World) -> None:
    world.vacuum()
    with pytest.raises(InvalidInputError, match=r"dt=d1: its files at .* were vacuumed"):
        world.keeper.rollback(T, version=1)
    assert world.rows() == {**FIRST, **SECOND}
    world.keeper.rollback(T, version=1, partitions=["dt=d3"])
    assert world.rows() == {"d1": frozenset({10}), "d2": frozenset({2})}


def test_files_that_are_gone_or_changed_are_noticed(world: World) -> None:
    old = world.services().log.slots.read(1).entry.partitions[0].new_location
    key = next(info.key for info in world.store.list(str(old).removeprefix("s3a://lake/")))
    world.store.put(key, b"[1, 2, 3, 4, 5]")
    with pytest.raises(InvalidInputError, match=r"holds 1 file with 15 bytes instead of"):
        world.keeper.rollback(T, version=1)
    world.store.delete([key])
    with pytest.raises(InvalidInputError, match="are gone"):
        world.keeper.rollback(T, version=1)


def test_other_tools_files_must_be_the_ones_that_were_replaced() -> None:
    world = World()
    world.written_by_another_tool("d1", frozenset({7}))
    world.write({"d1": frozenset({1})})
    world.store.put("mart/orders/dt=d1/another.json", b"[8]")
    with pytest.raises(InvalidInputError, match="instead of the 1 file that was replaced"):
        world.keeper.rollback(T, version=0)


def test_what_another_tool_has_moved_is_not_overwritten(world: World) -> None:
    world.written_by_another_tool("d1", frozenset({99}))
    with pytest.raises(InvalidInputError, match="where another tool"):
        world.keeper.rollback(T, version=1)
    assert world.rows()["d1"] == frozenset({99})


def refused_after_a_drop(world: World) -> Partition:
    """Drop d1 and d2; a write of d2 is refused then, and leaves the name. Returns the partition at its placeholder."""
    world.write({"d3": frozenset({31})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", Exception)), pytest.raises(MetastoreError):
        world.write({"d2": frozenset({21}), "d3": frozenset({32})})
    assert set(world.partitions()) == {"d2", "d3"}
    return world.partitions()["d2"]


@pytest.mark.parametrize(("version", "rows"), [(0, {}), (1, FIRST), (3, {"d3": frozenset({31})})])
def test_a_name_that_a_refused_write_has_left_is_no_partition_in_the_way(
    world: World, version: int, rows: dict[str, frozenset[int]]
) -> None:
    refused_after_a_drop(world)
    world.keeper.rollback(T, version=version)
    assert world.rows() == rows
    if version < 3:
        assert set(world.partitions()) == set(rows)
    world.keeper.rollback(T, version=2)
    assert world.rows() == {**FIRST, **SECOND}


def test_such_a_name_is_no_state_to_go_back_to(world: World) -> None:
    refused_after_a_drop(world)
    world.write({"d2": frozenset({22})})
    world.keeper.rollback(T, version=3)
    assert world.rows() == {"d3": frozenset({31})}
    assert set(world.partitions()) == {"d3"}
    world.vacuum()
    assert world.leftovers() == [], "nothing keeps the files of the refused write"


def refused_beside_a_new_one(world: World) -> Partition:
    """Let a write that adds d9 be refused. Returns the partition at its placeholder, as no entry has published it."""
    with world.inject(REFUSED), pytest.raises(MetastoreError):
        world.write({"d1": frozenset({11}), "d9": frozenset({90})})
    return world.partitions()["d9"]


def test_a_partition_of_which_there_was_only_such_a_name_is_dropped(world: World) -> None:
    refused_beside_a_new_one(world)
    world.write({"d9": frozenset({91})})
    world.keeper.rollback(T, version=2)
    assert set(world.partitions()) == {"d1", "d2", "d3"}


def test_rows_of_another_tool_under_such_a_name_are_not_dropped_for_none(world: World) -> None:
    left = refused_beside_a_new_one(world)
    world.store.put(f"{Location.parse(left.location).key}another.json", b"[8]")
    world.write({"d9": frozenset({91})})
    with pytest.raises(InvalidInputError, match=f"dt=d9: another tool has written to {left.location}"):
        world.keeper.rollback(T, version=2)
    assert world.rows()["d9"] == frozenset({91})


def test_rows_of_another_tool_under_such_a_name_that_a_vacuum_has_deleted_cannot_come_back(world: World) -> None:
    left = refused_beside_a_new_one(world)
    world.store.put(f"{Location.parse(left.location).key}another.json", b"[8]")
    world.write({"d9": frozenset({91})})
    assert left.location in {one.location for one in world.vacuum().deleted}
    with pytest.raises(InvalidInputError, match="dt=d9"):
        world.keeper.rollback(T, version=1)
    assert world.rows()["d9"] == frozenset({91})


def test_rows_that_another_tool_has_written_under_such_a_name_are_in_the_way(world: World) -> None:
    left = refused_after_a_drop(world)
    world.store.put(f"{Location.parse(left.location).key}another.json", b"[8]")
    with pytest.raises(InvalidInputError, match=r"dt=d2 is at .*another tool"):
        world.keeper.rollback(T, version=1)
    assert world.rows()["d2"] == frozenset({8})


@pytest.mark.parametrize("version", [-1, 3, 100])
def test_a_version_that_is_not_there_is_refused(world: World, version: int) -> None:
    with pytest.raises(InvalidInputError, match="has no version"):
        world.keeper.rollback(T, version=version)


def test_an_abandoned_version_is_no_state_to_go_back_to(world: World) -> None:
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", Exception)), pytest.raises(MetastoreError):
        world.write({"d1": frozenset({11})})
    with pytest.raises(InvalidInputError, match=r"version 3 of mart\.orders was abandoned"):
        world.keeper.rollback(T, version=3)


@pytest.mark.parametrize(
    ("partitions", "match"),
    [
        (["dt=nope"], "not in the log"),
        (["hour=1"], "not a partition"),
        ("dt=d1", "expected a list of texts"),
        ([], "no partition"),
    ],
)
def test_wrong_partitions_are_refused(world: World, partitions: list[str], match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        world.keeper.rollback(T, version=1, partitions=partitions)


def test_version_and_write_id_exclude_each_other(world: World) -> None:
    with pytest.raises(InvalidInputError, match="one of the three"):
        world.keeper.rollback(T)
    with pytest.raises(InvalidInputError, match="one of the three"):
        world.keeper.rollback(T, version=1, write_id="x")


def test_a_write_planned_before_a_rollback_conflicts_with_it(world: World) -> None:
    plan = world.plan()
    world.keeper.rollback(T, version=1)
    with pytest.raises(ConflictError):
        world.write({"d1": frozenset({5})}, plan=plan)
    assert world.rows() == FIRST


def test_a_rollback_that_loses_the_slot_to_a_write_of_its_partition_changes_nothing(world: World) -> None:
    def write_meanwhile(call: str, phase: str, _key: str) -> None:
        if (call, phase) == ("put_if_absent", "before"):
            world.store.on_call = None
            world.write({"d1": frozenset({77})})

    world.store.on_call = write_meanwhile
    with pytest.raises(ConflictError, match="moved by somebody else"):
        world.keeper.rollback(T, version=1)
    assert world.rows()["d1"] == frozenset({77})


def test_a_rollback_that_loses_the_slot_to_a_vacuum_of_its_files_is_refused(world: World) -> None:
    def vacuum_meanwhile(call: str, phase: str, _key: str) -> None:
        if (call, phase) == ("put_if_absent", "before"):
            world.store.on_call = None
            world.vacuum()

    world.store.on_call = vacuum_meanwhile
    with pytest.raises(InvalidInputError, match="vacuumed"):
        world.keeper.rollback(T, version=1)
    assert world.rows() == {**FIRST, **SECOND}


def test_a_vacuum_that_loses_the_slot_to_a_rollback_keeps_its_files(world: World) -> None:
    def roll_back_meanwhile(call: str, phase: str, _key: str) -> None:
        if (call, phase) == ("put_if_absent", "before"):
            world.store.on_call = None
            world.keeper.rollback(T, version=1)

    world.store.on_call = roll_back_meanwhile
    world.vacuum()
    assert world.rows() == FIRST


def test_a_drop_whose_answer_is_lost_is_finished_by_recover(world: World) -> None:
    lost = Fault("metastore", "drop_partition", 1, "before", DeathError)
    with world.inject(lost), pytest.raises(DeathError):
        world.keeper.rollback(T, version=1)
    assert world.rows() == FIRST
    assert set(world.partitions()) == {"d1", "d2", "d3"}, "the name is still there, without rows"
    world.wait_out_claims()
    assert world.keeper.recover(T).settled == {3: "published"}
    assert set(world.partitions()) == {"d1", "d2"}


def test_a_refused_drop_is_a_note_and_recover_finishes_it(world: World) -> None:
    with world.inject(Fault("metastore", "drop_partition", 1, "before", Exception)):
        report = world.keeper.rollback(T, version=1)
    assert "still to be dropped" in report.notes[0]
    assert world.rows() == FIRST
    world.wait_out_claims()
    world.keeper.recover(T)
    assert set(world.partitions()) == {"d1", "d2"}


def test_an_unknown_outcome_is_resolved_by_recover(world: World) -> None:
    lost = Fault("metastore", "alter_partitions", 1, "after", Exception)
    with world.inject(lost):
        world.keeper.rollback(T, version=1)
    assert world.rows() == FIRST, "the answer was lost, the partitions show that it took effect"
    never = Fault("metastore", "alter_partitions", 1, "before", OutcomeUnknownError)
    with world.inject(never), pytest.raises(OutcomeUnknownError):
        world.keeper.rollback(T, version=2)
    world.wait_out_claims()
    world.keeper.recover(T)
    assert world.rows() == {**FIRST, **SECOND}


def test_a_rollback_waits_for_what_is_in_doubt(world: World) -> None:
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
        world.write({"d1": frozenset({11})})
    world.wait_out_claims()
    world.keeper.rollback(T, version=1)
    assert world.rows() == FIRST
    assert not world.services().log.lister.read(listed_after=0).in_doubt


def test_where_replaced_data_lies_outside_the_root_it_cannot_be_checked(world: World) -> None:
    world.store.put("elsewhere/dt=d9/a.json", b"[9]")
    world.pointed_by_another_tool("d9", "s3a://lake/elsewhere/dt=d9/")
    world.write({"d9": frozenset({90})})
    with pytest.raises(InvalidInputError, match="vacuumed, or were never"):
        world.keeper.rollback(T, version=2)
    assert ROOT in world.partitions()["d9"].location


def test_a_move_while_files_are_listed_is_noticed(world: World) -> None:
    def move(call: str, phase: str, key: str) -> None:
        if (call, phase) == ("list_page", "after") and "/data/" in key:
            world.store.on_call = None
            world.written_by_another_tool("d1", frozenset({99}))

    world.store.on_call = move
    with pytest.raises(ConflictError, match="moved by somebody else"):
        world.keeper.rollback(T, version=1)
    assert world.rows()["d1"] == frozenset({99})


def test_what_a_rollback_resolves_first_is_told(world: World) -> None:
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
        world.write({"d1": frozenset({11})})
    world.wait_out_claims()
    assert "version 3 is in doubt" in world.keeper.rollback(T, version=1, dry_run=True).notes[0]
    assert world.keeper.rollback(T, version=1).notes == ("version 3 was in doubt: published now",)


def emptied(world: World, value: str) -> None:
    """What a TRUNCATE of Spark's does: the files go, and the partition stays where it is."""
    place = Location.parse(world.partitions()[value].location).key
    world.store.delete([info.key for info in world.store.list(place)])


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("version", [1, 2])
def test_nothing_is_said_to_be_as_it_was_whose_files_are_gone(world: World, version: int, dry_run: bool) -> None:
    """Version 2 is the newest; in version 1 another partition was as it is now."""
    world.keeper.rollback(T, version=version)
    emptied(world, "d2")
    with pytest.raises(InvalidInputError, match=r"dt=d2: its files at .* are gone"):
        world.keeper.rollback(T, version=version, dry_run=dry_run)
    with pytest.raises(InvalidInputError, match=r"dt=d2: its files at .* are gone"):
        world.keeper.rollback(T, version=version, partitions=["dt=d2"], dry_run=dry_run)
    assert "nothing to do" in repr(world.keeper.rollback(T, version=version, partitions=["dt=d1"]))


def test_a_partition_that_is_back_where_it_was_without_its_files_is_named_beside_others(world: World) -> None:
    world.keeper.rollback(T, version=1)
    world.write({"d3": frozenset({31})})
    emptied(world, "d1")
    with pytest.raises(InvalidInputError, match=r"1 of 2 partitions .* dt=d1: its files at .* are gone"):
        world.keeper.rollback(T, version=1)
    assert world.keeper.rollback(T, version=1, partitions=["dt=d3"]).version == 5


def test_rows_that_another_tool_has_inserted_beside_those_of_a_version_stay(world: World) -> None:
    insert(world, "d1", 77)
    assert "nothing to do" in repr(world.keeper.rollback(T, version=2))


def test_nothing_is_said_to_be_as_it_was_where_another_tool_has_replaced_rows_or_moved_or_dropped(world: World) -> None:
    emptied(world, "d1")
    for row in (770, 78):
        insert(world, "d1", row)
        with pytest.raises(InvalidInputError, match=r"dt=d1: .* holds"):
            world.keeper.rollback(T, version=2)
    move(world, "d1", "elsewhere", 8)
    with pytest.raises(InvalidInputError, match="where another tool or a late call has put it"):
        world.keeper.rollback(T, version=2)
    world.dropped_by_another_tool("d1")
    with pytest.raises(InvalidInputError, match="dt=d1 is at no location"):
        world.keeper.rollback(T, version=2)
    assert "nothing to do" in repr(world.keeper.rollback(T, version=2, partitions=["dt=d2"]))


def test_what_other_tools_write_where_they_look_themselves_is_in_no_way() -> None:
    world = World()
    world.written_by_another_tool("d1", frozenset({1}))
    world.write({"d1": frozenset({2}), "d2": frozenset({3})})
    world.keeper.rollback(T, version=0, partitions=["dt=d1"])
    insert(world, "d1", 4)
    assert "nothing to do" in repr(world.keeper.rollback(T, version=2))


def test_an_unpartitioned_table_without_its_files_is_not_as_it_was() -> None:
    world = World()
    world.become_unpartitioned()
    version = world.write({"": frozenset({1})}, plan=world.plan(WriteMode.OVERWRITE_TABLE)).entry.version
    assert "nothing to do" in repr(world.keeper.rollback(T, version=version))
    emptied(world, "")
    with pytest.raises(InvalidInputError, match=r"its files at .* are gone"):
        world.keeper.rollback(T, version=version)


def test_a_version_between_a_write_and_its_recovery_is_one_to_go_back_to(world: World) -> None:
    """Two calls came late, each to where its own entry wanted it: nobody else was there."""
    late = without_answer(world, lambda: world.write({"d9": frozenset({90})}), "add_partitions")
    assert late()
    other = world.write({"d1": frozenset({11})}).entry.version
    world.recover_later()
    at_other = world.rows()
    world.write({"d1": frozenset({12})})
    for _ in range(2):
        world.keeper.rollback(T, version=other)
        assert world.rows() == at_other


def test_once_the_entry_that_was_recovered_is_trimmed_its_partition_is_not_taken_for_none(world: World) -> None:
    late = without_answer(world, lambda: world.write({"d9": frozenset({90})}), "add_partitions")
    assert late()
    lost = world.history().newest
    other = world.write({"d1": frozenset({11})}).entry.version
    world.recover_later()
    world.write({"d1": frozenset({12})})
    world.store.put(world.services().log.marks.key("trimmed", lost), b"")
    world.store.delete([world.layout.entry_key(lost), world.layout.outcome_key(lost)])
    with pytest.raises(InvalidInputError, match="dt=d9: the log has no list of the files"):
        world.keeper.rollback(T, version=other)
