"""What the log tells of older versions: what a time means, where partitions were, what changed, what was undone."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from table_writer.errors import InvalidInputError, MetastoreError, StorageError
from table_writer.model.entry import DeletedLocation
from table_writer.model.location import Location
from table_writer.model.meaning import Operation
from table_writer.model.table import PastPartition
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.changes import writes_behind
from table_writer.protocol.log.history import History
from table_writer.protocol.log.versions import newest_known_version, oldest_whole_version, version_meant
from table_writer.protocol.table.past import Past, files_of
from tests.log.test_history import abandoned, history, in_doubt, in_place
from tests.log.test_rules import D1, LAYOUT, entry, published, rollback
from tests.log.test_rules import at as written_at
from tests.publish.world import TABLE, DeathError, Fault, World

T = str(TABLE)
OLD = {"d1": frozenset({1, 2}), "d2": frozenset({3})}


@pytest.fixture
def world() -> World:
    """Version 1: d1 and d2. 2: d1 appended to. 3: d2 replaced, d3 added."""
    world = World()
    world.write(OLD)
    world.write({"d1": frozenset({10})}, plan=world.plan(WriteMode.APPEND))
    world.write({"d2": frozenset({30}), "d3": frozenset({40, 41})})
    return world


def past(world: World, version: int, names: list[str] | None = None) -> dict[str, PastPartition]:
    opened = world.services()
    opened.require_owner()
    found = Past(opened, version=version).partitions(names)
    return {one.name: one for one in found}


def at(world: World, version: int) -> dict[str, str | None]:
    return {one.name: one.new_location for one in world.keeper.show(T, version).partitions}


def changes(world: World, first: int, last: int) -> dict[str, tuple[Any, ...]]:
    found = world.keeper.changes(T, first, last).partitions
    return {one.name: (one.change, one.rows_before, one.rows_after) for one in found}


def test_a_partition_is_where_the_newest_version_up_to_then_had_put_it(world: World) -> None:
    first, second, third = (at(world, version) for version in (1, 2, 3))
    assert past(world, 0) == {}
    assert {name: one.location for name, one in past(world, 1).items()} == first
    assert {name: one.location for name, one in past(world, 2).items()} == {**first, **second}
    assert {name: one.location for name, one in past(world, 3).items()} == {**first, **second, **third}
    assert [one.files for one in past(world, 2).values()] == [2, 1], "an append brings files along"


def test_what_changed_between_two_versions_is_told_with_rows_before_and_after(world: World) -> None:
    assert changes(world, 0, 1) == {"dt=d1": ("added", 0, 2), "dt=d2": ("added", 0, 1)}
    assert changes(world, 1, 2) == {"dt=d1": ("appended", 2, 3)}
    assert changes(world, 1, 3) == {"dt=d1": ("appended", 2, 3), "dt=d2": ("replaced", 1, 1), "dt=d3": ("added", 0, 2)}
    world.keeper.rollback(T, version=1)
    assert changes(world, 1, 4) == {}, "all is back"
    assert changes(world, 3, 4)["dt=d3"] == ("dropped", 2, 0)
    assert changes(world, 3, 4)["dt=d1"] == ("replaced", 3, 2), "a rollback of an append appends nothing"
    with pytest.raises(InvalidInputError, match="version 3 is newer than version 1"):
        world.keeper.changes(T, 3, 1)
    with pytest.raises(InvalidInputError, match="has no version 9"):
        world.keeper.changes(T, 1, 9)


def test_the_history_tells_appends_and_what_was_taken_back_and_how_large_the_table_was(world: World) -> None:
    def told() -> dict[int, tuple[Any, ...]]:
        found = world.keeper.history(T).versions
        return {
            one.version: (one.added_count, one.replaced_count, one.appended_count, one.rolled_back_count)
            for one in found
        }

    assert told() == {1: (2, 0, 0, 0), 2: (0, 0, 1, 0), 3: (1, 1, 0, 0)}
    sizes = {one.version: one.table_bytes for one in world.keeper.history(T).versions}
    world.write({"d3": frozenset({50})})
    sizes = {one.version: one.table_bytes for one in world.keeper.history(T).versions}
    for version in (1, 2, 3, 4):
        assert sizes[version] == sum(one.bytes or 0 for one in past(world, version).values())


def test_the_history_marks_what_a_rollback_has_taken_back(world: World) -> None:
    def marked() -> dict[int, int]:
        return {one.version: one.rolled_back_count for one in world.keeper.history(T).versions if one.rolled_back_count}

    world.keeper.rollback(T, version=1, partitions=["dt=d2"])
    assert marked() == {3: 1}
    assert "partly rolled back" in world.keeper.history(T).to_text()
    world.keeper.rollback(T, version=1)
    assert marked() == {2: 1, 3: 2}
    world.keeper.rollback(T, version=3)
    assert marked() == {4: 1, 5: 2}
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
        world.keeper.rollback(T, version=1, partitions=["dt=d1"])
    world.wait_out_claims()
    world.keeper.recover(T)
    assert marked() == {2: 1, 4: 1, 5: 2, 6: 1}, "a recovery has carried the rollback out"
    assert [one.rolled_back_count for one in world.keeper.history(T, limit=3).versions] == [0, 0, 1], "8, 7, 6"
    assert "table size" in world.keeper.history(T).to_text().splitlines()[1]


def test_an_unknown_size_of_other_tools_is_not_guessed() -> None:
    world = World()
    world.written_by_another_tool("d1", frozenset({1}))
    world.write({"d2": frozenset({2})})
    world.write({"d1": frozenset({3})})
    sizes = [one.table_bytes for one in world.keeper.history(T).versions]
    listed = sum(one.size_bytes for one in world.store.list("mart/orders/dt=d1/"))
    second = sum(one.bytes for one in world.keeper.show(T, 1).partitions)
    assert sizes[1] == second + listed, "listed when it was replaced"
    assert sizes[0] == second + sum(one.bytes for one in world.keeper.show(T, 2).partitions)


def test_a_time_means_the_newest_version_of_then_or_before(world: World) -> None:
    history = world.history()
    times = [record.entry.created_at for record in history.records]
    moment = timedelta(microseconds=1)
    assert [version_meant(history, world.table, as_of=one) for one in times] == [1, 2, 3]
    assert version_meant(history, world.table, as_of=times[2] - moment) == 2
    assert version_meant(history, world.table, as_of=datetime.now(UTC) + timedelta(days=1)) == 3
    assert version_meant(history, world.table, as_of=times[2].replace(microsecond=0)) == 3, "as the history shows it"
    with pytest.raises(InvalidInputError, match="its oldest is version 1"):
        version_meant(history, world.table, as_of=times[0] - timedelta(seconds=2))
    with pytest.raises(InvalidInputError, match="has no time zone"):
        version_meant(history, world.table, as_of=times[0].replace(tzinfo=None))
    with pytest.raises(InvalidInputError, match="one of the three"):
        version_meant(history, world.table, as_of=times[0], version=1)
    gap = history.but(records=[history.records[0], history.records[2]])
    with pytest.raises(InvalidInputError, match="trimmed by a vacuum, or lost"):
        version_meant(gap, world.table, as_of=times[0])
    report = world.keeper.rollback(T, as_of=times[1])
    assert (report.to_version, world.rows()["d2"]) == (2, frozenset({3}))


def test_what_another_tool_has_moved_is_known_only_of_the_version_that_had_put_it_there(world: World) -> None:
    world.pointed_by_another_tool("d1", "s3a://lake/elsewhere/")
    assert set(past(world, 2)) == {"dt=d1", "dt=d2"}, "version 2 itself has put it there"
    with pytest.raises(InvalidInputError, match=r"dt=d1: another tool .* whether after version 3 is not known"):
        past(world, 3)
    assert set(past(world, 3, ["dt=d2"])) == {"dt=d2"}
    world.write({"d1": frozenset({5})})
    with pytest.raises(InvalidInputError, match=r"dt=d1: another tool .* whether after version 3 is not known"):
        past(world, 3)


def test_a_vacuum_that_was_interrupted_may_have_deleted_what_it_names(world: World) -> None:
    world.skipped_seconds += 10 * 86_400
    with world.inject(Fault("store", "delete", 1, "before", StorageError)):
        assert world.vacuum().failures
    with pytest.raises(InvalidInputError, match=r"deleted by a vacuum.*Of version 3 and newer ones no vacuum") as error:
        past(world, 1)
    assert error.value.table == T
    assert set(past(world, 3)) == {"dt=d1", "dt=d2", "dt=d3"}


def test_a_version_in_doubt_is_not_read_and_a_newer_one_hides_nothing(world: World) -> None:
    with world.inject(Fault("metastore", "alter_partitions", 1, "after", DeathError)), pytest.raises(DeathError):
        world.write({"d2": frozenset({99})})
    assert past(world, 3)["dt=d2"].location == at(world, 3)["dt=d2"], "readers are elsewhere since version 4"
    with pytest.raises(InvalidInputError, match="version 4 is in doubt: run `table-writer recover"):
        past(world, 4)


def test_files_outside_the_root_that_were_replaced_are_in_no_list() -> None:
    world = World()
    world.pointed_by_another_tool("d1", "s3a://lake/elsewhere/d1/")
    world.store.put("elsewhere/d1/part-0.json", b"[1]")
    world.write({"d2": frozenset({2})})
    assert set(past(world, 1)) == {"dt=d1", "dt=d2"}, "where the metastore has it still"
    world.write({"d1": frozenset({3})})
    with pytest.raises(InvalidInputError, match=r"dt=d1: the log has no list of the files at s3a://lake/elsewhere"):
        past(world, 1)


def test_wherever_a_publish_dies_no_partition_of_an_older_version_is_missing() -> None:
    def made() -> World:
        world = World()
        world.written_by_another_tool("d2", frozenset({2}))
        world.write({"d1": frozenset({1})})
        return world

    def replaced(world: World) -> None:
        world.write({"d1": frozenset({5})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))

    def seen(world: World) -> list[dict[str, str]]:
        return [{name: one.location for name, one in past(world, version).items()} for version in (0, 1)]

    with (world := made()).recording() as calls:
        replaced(world)
    each = [(service, call, calls[: at + 1].count((service, call))) for at, (service, call) in enumerate(calls)]
    for service, call, number in each:
        world = made()
        before = seen(world)
        with world.inject(Fault(service, call, number, "after", DeathError)), suppress(DeathError):
            replaced(world)
        assert seen(world) == before, f"died after {service}.{call} {number}"


def test_a_time_after_a_claim_in_doubt_means_no_version(world: World) -> None:
    before = datetime.now(UTC)
    with world.inject(Fault("metastore", "alter_partitions", 1, "after", DeathError)), pytest.raises(DeathError):
        world.write({"d1": frozenset({99})})
    assert version_meant(world.history(), world.table, as_of=before) == 3
    with pytest.raises(InvalidInputError, match="version 4 is in doubt: run `table-writer recover"):
        world.keeper.rollback(T, as_of=datetime.now(UTC))
    world.wait_out_claims()
    world.keeper.recover(T)
    assert world.keeper.rollback(T, as_of=datetime.now(UTC), dry_run=True).partitions == ()


def test_a_time_between_a_claim_and_its_recovery_means_no_version(world: World) -> None:
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
        world.write({"d1": frozenset({99})})
    between = datetime.now(UTC)
    assert world.rows()["d1"] == {1, 2, 10}
    world.wait_out_claims()
    world.keeper.recover(T)
    assert world.rows()["d1"] == {99}
    history = world.history()
    with pytest.raises(InvalidInputError, match="version 4 was in doubt then, and was resolved later"):
        version_meant(history, world.table, as_of=between)
    assert (
        version_meant(history, world.table, as_of=history.records[3].entry.created_at - timedelta(microseconds=1)) == 3
    )
    assert version_meant(history, world.table, as_of=datetime.now(UTC)) == 5


def test_a_partition_that_is_described_differently_from_its_table_is_not_read_as_its_table(world: World) -> None:
    one = replace(world.partitions()["d1"], differs="has another SerDe parameter field.delim than the table")
    world.metastore.drop_partition(world.table, ("d1",))
    world.metastore.add_partitions(world.table, [one])
    with pytest.raises(InvalidInputError, match=r"dt=d1: it has another SerDe parameter field\.delim"):
        past(world, 1)
    assert set(past(world, 1, ["dt=d2"])) == {"dt=d2"}


def test_the_size_of_a_table_counts_partitions_that_came_later_from_then_on() -> None:
    world = World()
    for name in ("d1", "d2", "d2", "d3", "d3"):
        world.write({name: frozenset({1})})
    one = sum(one.bytes for one in world.keeper.show(T, 1).partitions)
    sizes = {one.version: one.table_bytes for one in world.keeper.history(T).versions}
    assert sizes == {1: one, 2: 2 * one, 3: 2 * one, 4: 3 * one, 5: 3 * one}


def test_changes_of_entries_that_were_trimmed_are_not_left_out() -> None:
    world = World()
    world.write({"d1": frozenset({1}), "d9": frozenset({9}), "d7": frozenset({7})})
    for name in ("d1", "d9", "d1"):
        world.write({name: frozenset({2})})
    for _ in range(4):
        world.skipped_seconds += 100 * 86_400
        world.vacuum()
    assert [one.entry.version for one in world.history().records][:3] == [1, 3, 4], "version 2 was trimmed"
    with pytest.raises(InvalidInputError, match=r"dt=d1 .* a vacuum has trimmed the entries"):
        world.keeper.changes(T, 1, 3)
    assert changes(world, 4, 4) == {}


def test_a_version_is_shown_and_the_newest_are_listed_where_an_older_entry_is_damaged(world: World) -> None:
    world.store.put(world.layout.entry_key(1), b"{}")
    assert world.keeper.show(T, 3).summary.rolled_back_count is None, "newer versions were not read"
    some = world.keeper.history(T, limit=2)
    assert [one.table_bytes for one in some.versions] == [None, None]
    assert "table size" not in some.to_text(), "a column of question marks tells nothing"
    assert some.notes == ("the table's size takes the whole log to tell: leave limit out",)


def test_what_vacuums_have_deleted_is_told_in_one_pass() -> None:
    world = World()
    for number in range(3):
        world.write({"d1": frozenset({number}), f"e{number}": frozenset({number})})
    assert oldest_whole_version(world.history()) is None
    world.vacuum()
    assert oldest_whole_version(world.history()) == 3
    world.pointed_by_another_tool("e0", "s3a://lake/elsewhere/")
    with pytest.raises(InvalidInputError) as error:
        past(world, 3)
    assert "no vacuum" not in str(error.value), "not what is wrong with version 3"
    records = world.history().records
    trimmed = world.history().but(records=[records[0], *records[2:]])
    assert oldest_whole_version(trimmed) == 3, "what an entry that is gone had replaced may be deleted"


def test_hidden_files_of_other_tools_are_not_expected_among_those_that_are_read() -> None:
    world = World()
    world.written_by_another_tool("d1", frozenset({1}))
    for name in ("_metadata", ".part-0.json.crc", "_temporary/part-1.json", "below/part-2.json"):
        world.store.put(f"mart/orders/dt=d1/{name}", b"hidden")
    world.write({"d1": frozenset({2})})
    one = past(world, 0)["dt=d1"]
    assert (one.files, one.bytes) == (1, len("[1]"))


def test_files_of_other_tools_may_be_as_young_as_a_vacuum_in_doubt_that_is_the_version() -> None:
    world = World()
    world.write({"d1": frozenset({1})})
    world.write({"d1": frozenset({2})})
    world.skipped_seconds += 10 * 86_400
    world.written_by_another_tool("d2", frozenset({3}))
    with world.inject(Fault("store", "delete", 1, "before", StorageError)):
        assert world.vacuum().failures
    until = [past(world, version)["dt=d2"].written_until for version in (2, 3)]
    assert until[0] is not None
    assert until[1] is not None
    assert until[1] - until[0] > timedelta(days=9), "by the claim of the vacuum"


def test_files_of_other_tools_that_came_before_an_outcome_was_recorded_are_of_a_newer_version() -> None:
    world = World()
    world.write({"d1": frozenset({1})})
    world.write({"d1": frozenset({2})})
    with world.inject(Fault("store", "delete", 1, "before", DeathError)), suppress(DeathError):
        world.vacuum()
    world.skipped_seconds += 10
    world.write({"d1": frozenset({3})})
    world.skipped_seconds += 10
    world.written_by_another_tool("d9", frozenset({9}))
    world.wait_out_claims()
    assert world.services().log.slots.outcome(3) is None
    world.vacuum()
    assert world.services().log.slots.outcome(3) is not None
    until = past(world, 3, ["dt=d9"])["dt=d9"].written_until
    assert until is not None
    assert until < datetime.now(UTC) + timedelta(seconds=15), "by the claim of the next version"


def test_rows_that_are_appended_where_only_a_name_was_are_added_in_history_and_diff() -> None:
    world = World()
    world.write({"d1": frozenset({1})})
    layout = world.layout
    world.pointed_by_another_tool("d2", str(layout.placeholder(world.history().records[0].entry.write_id, ("d2",))))
    world.write({"d1": frozenset({2}), "d2": frozenset({3})}, plan=world.plan(WriteMode.APPEND))
    assert changes(world, 1, 2) == {"dt=d1": ("appended", 1, 2), "dt=d2": ("added", 0, 1)}
    assert {one.name: one.change for one in world.keeper.show(T, 2).partitions} == {
        "dt=d1": "appended",
        "dt=d2": "added",
    }
    newest = world.keeper.history(T).versions[0]
    assert (newest.added_count, newest.appended_count) == (1, 1)


def test_the_first_append_to_an_unpartitioned_table_is_the_same_in_history_and_diff() -> None:
    world = World()
    world.become_unpartitioned()
    world.write({"": frozenset({1})}, plan=world.plan(WriteMode.APPEND))
    told = world.keeper.show(T, 1).partitions[0].change
    assert {told} == {one.change for one in world.keeper.changes(T, 0, 1).partitions}


@pytest.mark.parametrize("dropped_first", [False, True])
def test_rows_of_another_tool_at_a_name_that_a_refused_publish_has_left_are_not_passed_over(
    dropped_first: bool,
) -> None:
    world = World()
    world.write({"d1": frozenset({1}), **({"d2": frozenset({2})} if dropped_first else {})})
    world.write({"d1": frozenset({3})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", Exception)), pytest.raises(MetastoreError):
        world.write({"d1": frozenset({4}), "d2": frozenset({5})})
    world.store.put(f"{Location.parse(world.partitions()['d2'].location).key}other.json", b"[6]")
    world.write({"d1": frozenset({7})})
    assert world.rows() == {"d1": frozenset({7}), "d2": frozenset({6})}
    with pytest.raises(InvalidInputError, match=r"dt=d2: another tool"):
        past(world, 4)
    world.write({"d2": frozenset({8})})
    world.skipped_seconds += 10 * 86_400
    world.vacuum()
    with pytest.raises(InvalidInputError, match=r"dt=d2: (its files .* deleted by a vacuum|another tool)"):
        past(world, 4)


def read_files(world: World, one: PastPartition) -> set[str]:
    """Return the names of the files that are read of a partition of an older version."""
    paths = files_of(world.services(), one, "version 1")
    assert all(path.startswith(one.location) for path in paths)
    return {path.removeprefix(one.location) for path in paths}


def test_files_of_an_older_version_are_those_that_the_log_counts_and_no_others(world: World) -> None:
    one = past(world, 2)["dt=d1"]
    place = Location.parse(one.location).key
    names = read_files(world, one)
    assert len(names) == one.files == 2
    world.store.put(f"{place}below/part-9.json", b"[9]")
    world.store.put(f"{place}_hidden.json", b"[9]")
    assert read_files(world, one) == names, "its readers see no rows of these"
    assert read_files(world, replace(one, without=frozenset({"part-x.json"}))) == names
    world.store.put(f"{place}part-9.json", b"[9]")
    with pytest.raises(InvalidInputError, match=r"^version 1: dt=d1 does not hold the files .*history|retention"):
        read_files(world, one)
    assert read_files(world, replace(one, without=frozenset({"part-9.json"}))) == names
    assert read_files(world, replace(one, only=frozenset(names))) == names
    world.store.delete([f"{place}{min(names)}"])
    with pytest.raises(InvalidInputError, match="does not hold the files that readers found then"):
        read_files(world, replace(one, only=frozenset(names)))


def test_as_many_bytes_in_more_files_are_other_files(world: World) -> None:
    one = past(world, 1)["dt=d2"]
    world.store.put(f"{Location.parse(one.location).key}part-9.json", b"")
    with pytest.raises(InvalidInputError, match="does not hold the files"):
        read_files(world, one)


def test_of_other_tools_files_those_are_read_that_were_there_when_the_version_was_recorded() -> None:
    world = World()
    world.written_by_another_tool("d1", frozenset({1}))
    world.write({"d2": frozenset({2})})
    one = past(world, 1)["dt=d1"]
    assert (one.bytes, one.files) == (None, None)
    assert one.written_until is not None
    assert read_files(world, one) == {"part-0.json"}
    (written,) = files_of(world.services(), one, "it").values()
    assert read_files(world, replace(one, written_until=written)) == {"part-0.json"}
    with pytest.raises(InvalidInputError, match="does not hold the files"):
        read_files(world, replace(one, written_until=written - timedelta(microseconds=1)))
    assert read_files(world, replace(one, written_until=None)) == {"part-0.json"}
    world.store.delete(["mart/orders/dt=d1/part-0.json"])
    with pytest.raises(InvalidInputError, match="does not hold the files"):
        read_files(world, one)


def test_no_version_is_newest_where_nothing_was_published_and_what_is_in_doubt_hides_what_is_newer() -> None:
    assert newest_known_version(History(LAYOUT, [])) == newest_known_version(history(abandoned(entry(1, D1)))) == 0
    assert newest_known_version(history(entry(1, D1), entry(2, D1))) == 2
    assert newest_known_version(history(entry(1, D1), in_doubt(entry(2)), entry(3, D1))) == 1
    assert newest_known_version(history(in_doubt(entry(1)), entry(2, D1))) == 0


def sweep(version: int, *replaced_by: int | None, kept: bool = False) -> Any:
    deletes = tuple(
        DeletedLocation(location=written_at(f"w{number}"), replaced_by=by, kept=kept)
        for number, by in enumerate(replaced_by)
    )
    return entry(version, operation=Operation.VACUUM, deletes=deletes)


def test_files_are_kept_since_the_newest_version_whose_replaced_files_a_vacuum_deleted() -> None:
    log = [published(entry(1, D1)), published(entry(2, D1)), published(entry(3, D1))]
    for by, since in (((2,), 2), ((2, 3), 3), ((None,), None), ((None, 3, 2), 3)):
        assert oldest_whole_version(history(*log, sweep(4, *by))) == since
    assert oldest_whole_version(history(*log, in_doubt(sweep(4, 2)))) == 2, "it may have deleted them"
    assert oldest_whole_version(history(*log, abandoned(sweep(4, 2)))) is None
    assert oldest_whole_version(history(*log, sweep(4, 2, kept=True))) is None
    assert oldest_whole_version(history(*log, sweep(4, 3), sweep(5, 2))) == 3
    assert oldest_whole_version(history(*log[:2], sweep(4, 3))) is None, "no version is left since then"
    assert oldest_whole_version(history(log[0], log[2])) == 3, "what version 2 had replaced may be deleted"


def test_no_time_means_a_version_after_which_an_entry_is_gone(world: World) -> None:
    records = world.history().records
    newest = abandoned(replace(records[2].entry, version=4, write_id="w4"))
    whole = world.history().but(records=[*records[:2], abandoned(records[2].entry), newest])
    at_the_end = datetime.now(UTC)
    assert version_meant(whole, world.table, as_of=at_the_end) == 2
    gap = whole.but(records=[*records[:2], newest])
    with pytest.raises(InvalidInputError, match="entries between version 2 and 5 were trimmed"):
        version_meant(gap, world.table, as_of=at_the_end)


def test_a_partition_that_was_dropped_is_in_no_newer_version(world: World) -> None:
    world.keeper.rollback(T, version=1, partitions=["dt=d3"])
    world.write({"d1": frozenset({11})})
    assert set(past(world, 5)) == {"dt=d1", "dt=d2"}
    assert set(past(world, 3)) == {"dt=d1", "dt=d2", "dt=d3"}


def behind(*records: Any, version: int = 9) -> list[int]:
    return [record.entry.version for record, _ in writes_behind(history(*records), D1, version)]


def test_the_rows_of_a_partition_are_those_of_the_newest_write_and_of_what_was_added_to_it() -> None:
    first, second = entry(1, D1), entry(2, D1, old=written_at("w1"))
    assert behind(first, second) == [2]
    assert behind(first, second, version=1) == [1]
    assert behind(first, in_place(2, "a"), in_place(3, "b")) == [3, 2, 1]
    assert behind(first, in_place(2, "a"), in_place(3, "b"), version=2) == [2, 1]
    assert behind(first, abandoned(in_place(2, "a")), in_place(3, "b")) == [3, 1]
    assert behind() == behind(first, version=0) == []


def test_rows_that_were_put_back_moved_or_compacted_are_those_of_who_wrote_them() -> None:
    first, second = entry(1, D1), entry(2, D1, old=written_at("w1"))
    back = replace(rollback(3, 1, D1), partitions=first.partitions)
    assert behind(first, second, back) == [1]
    assert behind(first, second, back, version=2) == [2]
    compacted = entry(3, D1, old=written_at("w2"), operation=Operation.COMPACT)
    assert behind(first, second, compacted) == [2]
    assert behind(compacted) == []
    for put_back in ({"operation": Operation.RESTORE}, {"operation": Operation.RECOVER, "recovers": 2}):
        again = replace(entry(3, D1, **put_back), partitions=second.partitions)
        assert behind(first, second, again) == [2]
        assert behind(first, again) == [3], "the entry that came there first is gone"
        assert behind(again) == [3]
