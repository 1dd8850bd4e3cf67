"""Which version wrote the rows that readers see in a partition: whatever has happened to it since."""

from __future__ import annotations

from dataclasses import replace

import pytest

from table_writer.errors import InvalidInputError, MetastoreError
from table_writer.model.location import Location
from table_writer.model.partition_facts import PartitionNow
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log import table_log
from tests.publish.world import DIED, REFUSED, TABLE, DeathError, Fault, World, written

T = str(TABLE)
LOST = Fault("metastore", "alter_partitions", 1, "after", DeathError)


@pytest.fixture
def world() -> World:
    world = World()
    world.write({"d1": frozenset({1}), "d2": frozenset({2, 3})})
    return world


def seen(world: World, name: str = "dt=d1") -> PartitionNow:
    (one,) = world.keeper.partitions(T, [name]).partitions
    return one


def told(world: World, name: str = "dt=d1") -> tuple[str, int | None, int | None]:
    one = seen(world, name)
    return one.state, one.version, one.rows


def test_a_partition_that_is_published_again_has_a_new_version_under_its_old_name(world: World) -> None:
    assert told(world) == ("published", 1, 1)
    world.write({"d1": frozenset({10, 11, 12})})
    one = seen(world)
    record = world.history().records[-1]
    assert (one.version, one.rows, one.write_id) == (2, 3, record.entry.write_id)
    assert one.published_at == record.entry.created_at
    assert told(world, "dt=d2") == ("published", 1, 2)


def test_all_partitions_are_told_in_the_order_of_their_values(world: World) -> None:
    world.written_by_another_tool("d0", frozenset({7}))
    report = world.keeper.partitions(T)
    assert [(one.name, one.state) for one in report.partitions] == [
        ("dt=d0", "not known"),
        ("dt=d1", "published"),
        ("dt=d2", "published"),
    ]
    assert "another tool has written it" in report.to_text()


def test_an_append_is_newer_than_what_it_adds_to(world: World) -> None:
    world.write({"d1": frozenset({4, 5})}, plan=world.plan(WriteMode.APPEND))
    assert told(world) == ("published", 2, 3)
    world.write({"d1": frozenset({6})}, plan=world.plan(WriteMode.APPEND, in_place=True))
    assert told(world) == ("published", 3, 4)


def test_a_rollback_shows_rows_of_an_earlier_version(world: World) -> None:
    world.write({"d1": frozenset({10, 11})})
    world.keeper.rollback(T, version=1)
    assert told(world) == ("published", 1, 1)
    world.keeper.rollback(T, version=2)
    assert told(world) == ("published", 2, 2)
    world.keeper.rollback(T, version=0)
    assert told(world) == ("missing", None, None)
    assert "version 5 has dropped it" in seen(world).note


def test_a_compaction_changes_no_rows(world: World) -> None:
    world.write({"d1": frozenset({4})}, plan=world.plan(WriteMode.APPEND))
    world.compact("d1")
    assert world.history().newest == 3
    assert told(world) == ("published", 2, 2)
    world.write({"d1": frozenset({5, 6, 7})}, plan=replace(world.plan(), where="dt = 'd1'"))
    world.compact("d1")
    assert told(world) == ("published", 4, 3)


@pytest.mark.parametrize("fault", [DIED, LOST], ids=["not-applied", "applied"])
def test_rows_of_a_publish_in_doubt_count_when_it_is_resolved(world: World, fault: Fault) -> None:
    plan = world.plan()
    world.fails(fault, lambda: world.write({"d1": frozenset({10, 11})}, plan=plan))
    now = told(world)
    if fault is LOST:
        assert seen(world).note == "version 2 is being published, or was left in doubt: `recover` resolves it"
    assert now == (("published", 1, 1) if fault is DIED else ("in doubt", None, None))
    world.recover_later()
    one = seen(world)
    assert (one.state, one.rows, one.write_id) == ("published", 2, plan.write_id)


def test_a_rollback_that_a_recovery_has_carried_out_shows_the_earlier_rows(world: World) -> None:
    world.write({"d1": frozenset({10, 11})})
    world.fails(DIED, lambda: world.keeper.rollback(T, version=1))
    world.recover_later()
    assert world.rows()["d1"] == frozenset({1})
    assert told(world) == ("published", 1, 1)


def test_where_a_rollbacks_recovery_dies_between_its_records_the_rows_are_those_of_their_writer(world: World) -> None:
    world.write({"d1": frozenset({10, 11})})
    world.fails(DIED, lambda: world.keeper.rollback(T, version=1))
    world.wait_out_claims()
    world.fails(Fault("store", "put_if_absent", 4, "before", DeathError), lambda: world.keeper.recover(T))
    history = world.history()
    assert [record.entry.version for record in history.records.publishes_in_doubt] == [3], (
        "its recovery is on record already"
    )
    assert world.rows()["d1"] == frozenset({1})
    assert told(world) == ("published", 1, 1)


def test_rows_whose_newest_entry_is_a_write_are_told_without_the_entries_before_a_fold(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_log, "FOLD_EVERY_VERSIONS", 2)
    for number in range(4):
        world.write({"d1": frozenset({number}), "d2": frozenset({number})})
    world.vacuum()
    world.write({"d1": frozenset({7})})
    world.store.put(world.layout.entry_key(1), b"damaged")
    assert (told(world), told(world, "dt=d2")) == (("published", 7, 1), ("published", 5, 1))


def test_what_another_tool_has_written_moved_or_dropped_has_no_version(world: World) -> None:
    world.written_by_another_tool("d9", frozenset({7}))
    assert told(world, "dt=d9") == ("not known", None, None)
    assert "another tool has written it" in seen(world, "dt=d9").note
    world.written_by_another_tool("d1", frozenset({8}))
    assert told(world) == ("not known", None, None)
    assert "readers look elsewhere than where version 1 has put it" in seen(world).note
    assert "another tool or a late call has moved it; `recover` says which" in seen(world).note
    world.metastore.drop_partition(world.table, ("d2",))
    assert (told(world, "dt=d2")[0], seen(world, "dt=d2").note) == ("missing", "another tool has dropped it")
    assert seen(world, "dt=d3").note == "it was never written"


def test_a_name_that_a_refused_publish_has_left_is_missing_until_another_tool_writes_there(world: World) -> None:
    refused = REFUSED
    world.fails(refused, lambda: world.write({"d1": frozenset({10}), "d5": frozenset({11})}), MetastoreError)
    assert told(world, "dt=d5") == ("missing", None, None)
    world.store.put(f"{Location.parse(world.partitions()['d5'].location).key}other.json", b"[12]")
    assert told(world, "dt=d5") == ("not known", None, None)


def test_rows_of_another_tool_that_a_rollback_has_brought_back_have_no_version() -> None:
    world = World()
    world.written_by_another_tool("d1", frozenset({7}))
    world.write({"d1": frozenset({1})})
    world.keeper.rollback(T, version=0)
    assert told(world) == ("not known", None, None)
    assert "version 2 has put back the rows of another tool" in seen(world).note


def test_where_the_writing_entry_is_trimmed_the_rows_are_of_an_unknown_earlier_version() -> None:
    world = written({"d1": frozenset({1})})
    world.write({"d1": frozenset({2})}, plan=world.plan(WriteMode.APPEND))
    world.compact("d1")
    world.services().log.trim([2])
    one = seen(world)
    assert (one.state, one.version, one.rows) == ("published", None, 2)
    assert "older than version 3" in one.note


def test_rows_that_were_only_put_back_are_not_new_once_the_entry_that_wrote_them_is_trimmed() -> None:
    world = written({"d1": frozenset({1})})
    world.write({"d1": frozenset({2})}, plan=world.plan(WriteMode.APPEND, in_place=True))
    with world.inject(DIED), pytest.raises(DeathError):
        world.keeper.rollback(T, version=1)  # copies the rows of version 1 to a place of its own
    world.recover_later()
    assert told(world) == ("published", 1, 1)
    world.services().log.trim([3])
    assert told(world) == ("published", None, 1)
    assert "older than version 4" in seen(world).note


def test_a_restore_is_no_write_once_the_entry_that_wrote_the_rows_is_trimmed(world: World) -> None:
    world.metastore.drop_partition(world.table, ("d1",))
    world.keeper.restore(T)
    assert told(world) == ("published", 1, 1)
    world.write({"d2": frozenset({5})})
    world.services().log.trim([1])
    assert told(world) == ("published", None, 1)
    assert "older than version 2" in seen(world).note


def test_a_folded_log_says_the_same(world: World) -> None:
    world.write({"d1": frozenset({4})}, plan=world.plan(WriteMode.APPEND))
    for _ in range(110):
        world.write({"d2": frozenset({5})})
    before = world.keeper.partitions(T)
    world.vacuum()
    assert world.services().log.read_recent().fold is not None
    assert world.keeper.partitions(T) == before
    assert [one.version for one in before.partitions] == [2, 112]


def test_a_name_that_is_no_partition_of_the_table_is_refused(world: World) -> None:
    with pytest.raises(InvalidInputError, match="is not a partition of"):
        seen(world, "day=d1")


def test_an_unpartitioned_table_is_one_partition() -> None:
    world = World()
    world.become_unpartitioned()
    world.write({"": frozenset({1, 2})})
    (one,) = world.keeper.partitions(T).partitions
    assert (one.name, one.state, one.version, one.rows) == ("(whole table)", "published", 1, 2)


def test_rows_that_are_appended_in_place_to_those_of_another_tool_are_not_counted_as_all_of_them(world: World) -> None:
    world.written_by_another_tool("d9", frozenset({7, 8}))
    world.write({"d9": frozenset({9})}, plan=world.plan(WriteMode.APPEND, in_place=True))
    assert told(world, "dt=d9") == ("published", 2, None)
    size = sum(one.size_bytes for one in world.store.list("mart/orders/dt=d9/"))
    world.write({"d9": frozenset({10})})
    versions = {one.version: one for one in world.keeper.history(T).versions}
    assert versions[2].table_bytes == (versions[1].bytes or 0) + size, "as it was replaced"
