"""Staged writes over doubles: what happens between staging and publishing, by whom and in which order."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from table_writer.errors import (
    CheckFailedError,
    ConflictError,
    InvalidInputError,
    LostResponseError,
    MetastoreError,
    OutcomeUnknownError,
    StorageError,
)
from table_writer.jobs.staged_writes import StagedWrites
from table_writer.model.check_result import CheckResult
from table_writer.model.entry import Outcome
from table_writer.model.partition_value import Spellings
from table_writer.model.table import Column
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.registration import read_registration
from table_writer.protocol.operations.entry import there_under_other_names
from table_writer.reports.write_result import WriteResult
from tests.publish.world import DIED, REFUSED, DeathError, Fault, World, body_of, plain

T = "mart.orders"
OLD = {"d1": frozenset({1}), "d2": frozenset({2})}
NEW = {"d1": frozenset({10}), "d3": frozenset({30})}
FAILED = CheckResult(name="not_null(id)", severity="error", passed=False, message="1 of 2 rows has no id")


@pytest.fixture
def world() -> World:
    world = World()
    world.write(OLD)
    return world


def files(world: World, write_id: str) -> list[str]:
    return [info.key for info in world.store.list(world.layout.data(write_id).key)]


def result_of(world: World, write_id: str, *, dry_run: bool = False) -> WriteResult:
    """Publish a staged write, which was published before; a dry run says so, too."""
    result = world.keeper.publish(T, write_id, dry_run=dry_run)
    assert isinstance(result, WriteResult)
    return result


def test_a_lost_answer_at_staging_deletes_nothing_since_others_may_publish_it(world: World) -> None:
    plan = world.plan()

    def publish_and_fail(call: str, phase: str, key: object) -> None:
        if (call, phase) == ("put", "after") and str(key).endswith(".json") and "list_uploads" in seen:
            world.store.on_call = None
            world.keeper.publish(T, plan.write_id)
            raise StorageError("the answer is lost")
        seen.append(call)

    seen: list[str] = []
    world.store.on_call = publish_and_fail
    with pytest.raises(StorageError, match="is staged is not known"):
        world.stage(NEW, plan=plan)
    assert world.rows() == {**OLD, **NEW}


@pytest.mark.parametrize("vacuumed", [False, True])
def test_a_publish_that_was_refused_can_be_tried_again(world: World, vacuumed: bool) -> None:
    write_id = world.stage(NEW)
    world.fails(REFUSED, lambda: world.keeper.publish(T, write_id), MetastoreError)
    assert world.rows() == OLD
    if vacuumed:
        world.vacuum()
    world.keeper.publish(T, write_id)
    assert world.rows() == {**OLD, **NEW}
    outcomes = [record.outcome for record in world.history().records]
    assert outcomes == [Outcome.PUBLISHED, Outcome.ABANDONED, Outcome.PUBLISHED]


def test_a_discard_after_a_refusal_keeps_publishers_away_and_files_for_their_retention(world: World) -> None:
    write_id = world.stage(NEW)
    record = StagedWrites(world.services()).find(write_id).record
    world.fails(REFUSED, lambda: world.keeper.publish(T, write_id), MetastoreError)
    world.keeper.discard(T, write_id, dry_run=True)
    assert [one.write_id for one in world.keeper.staged(T).staged] == [write_id]
    world.keeper.discard(T, write_id)
    assert world.keeper.staged(T).staged == ()
    with pytest.raises(ConflictError, match="was discarded"):
        StagedWrites(world.services())._publish(record, None)
    assert len(files(world, write_id)) == 2
    world.vacuum()
    assert files(world, write_id) == []
    assert world.rows() == OLD


def test_whoever_cannot_resolve_the_same_writes_entry_does_not_know_either(world: World) -> None:
    write_id = world.stage(NEW)
    world.fails(DIED, lambda: world.keeper.publish(T, write_id))
    world.wait_out_claims()
    world.fails(REFUSED, lambda: world.keeper.publish(T, write_id), OutcomeUnknownError)
    world.recover_later()
    assert world.rows() == {**OLD, **NEW}


def test_a_write_that_a_recovery_has_published_is_not_published_again_though_its_entry_was_trimmed(
    world: World,
) -> None:
    write_id = world.stage({"d1": frozenset({10})}, plan=world.plan(WriteMode.APPEND))
    with world.inject(DIED), pytest.raises(DeathError):
        world.keeper.publish(T, write_id)
    world.wait_out_claims()
    world.keeper.recover(T)
    world.services().log.trim([2])
    for _ in range(2):
        result = result_of(world, write_id)
        assert (result.repeated, result.version, result.write_id) == (True, 3, write_id)
        assert result.notes == (f"write {write_id} was published already, by {publisher_of(world, 3)}",)
        assert world.rows() == {"d1": frozenset({1, 10}), "d2": frozenset({2})}


def publisher_of(world: World, version: int) -> str:
    writer = world.services().log.slots.read(version).entry.writer
    return f"{writer['user']}@{writer['host']}"


def test_nobody_is_told_that_rows_were_published_which_a_rollback_has_taken_back(world: World) -> None:
    write_id = world.stage(NEW)
    world.keeper.publish(T, write_id)
    world.keeper.rollback(T, version=1, partitions=["dt=d1"])
    again = result_of(world, write_id)
    assert again.repeated, "d3 is still of this write"
    world.keeper.rollback(T, version=1)
    with pytest.raises(InvalidInputError, match="published as version 2, and was rolled back since"):
        world.keeper.publish(T, write_id)
    assert world.rows() == OLD


def test_the_same_where_the_publisher_died_before_it_removed_the_registration(world: World) -> None:
    write_id = world.stage(NEW)
    world.fails(Fault("store", "put_if_absent", 2, "after", DeathError), lambda: world.keeper.publish(T, write_id))
    looked = result_of(world, write_id, dry_run=True)
    assert (looked.repeated, looked.version) == (True, 2)
    world.keeper.rollback(T, version=1)
    for dry_run in (True, False, False):
        with pytest.raises(InvalidInputError, match="rolled back since"):
            world.keeper.publish(T, write_id, dry_run=dry_run)
    assert world.rows() == OLD


def test_a_write_of_nothing_to_a_table_without_partitions_is_published_once(world: World) -> None:
    world.write({}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    write_id = world.stage({}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    for repeated in (False, True):
        result = result_of(world, write_id)
        assert (result.repeated, result.version) == (repeated, 3)


@pytest.mark.parametrize("mode", [WriteMode.OVERWRITE_PARTITIONS, WriteMode.APPEND])
def test_what_readers_see_is_published_at_once_though_its_publisher_died(world: World, mode: WriteMode) -> None:
    write_id = world.stage(NEW, plan=world.plan(mode))
    world.fails(replace(DIED, phase="after"), lambda: world.keeper.publish(T, write_id))
    seen = world.rows()
    StagedWrites(world.services()).with_checks(write_id, [FAILED])
    again = result_of(world, write_id)
    assert (again.repeated, again.version) == (True, 2)
    assert list(world.store.list(world.layout.all_staged.key)) == []
    assert world.rows() == seen
    assert world.history().records.in_doubt == ()


def test_publishing_again_resolves_what_the_log_could_not_record(world: World) -> None:
    write_id = world.stage(NEW)
    with world.inject(Fault("store", "put_if_absent", 2, "before", Exception)):
        first = world.keeper.publish(T, write_id)
    assert isinstance(first, WriteResult)
    assert any("could not record it" in note for note in first.notes)
    again = result_of(world, write_id)
    assert (again.repeated, again.version) == (True, 2)
    assert world.history().records.in_doubt == ()


def test_copies_are_not_deleted_where_the_metastore_looks_whatever_the_log_says(world: World) -> None:
    write_id = world.stage({"d1": frozenset({10})}, plan=world.plan(WriteMode.APPEND))
    unanswered = Fault("metastore", "alter_partitions", 1, "before", LostResponseError)
    with world.inject(unanswered, keep_call=True), pytest.raises(OutcomeUnknownError):
        world.keeper.publish(T, write_id)
    world.pointed_by_another_tool("d1", "s3a://lake/elsewhere/dt=d1/")
    world.recover_later()
    world.apply_kept_call()
    log = world.services().log
    log.marks.forget_recoveries(log.lister.read().unverified)  # else the late call is undone
    before = world.rows()
    with pytest.raises(ConflictError, match=r"readers of mart\.orders .* `table-writer recover mart\.orders`"):
        world.keeper.publish(T, write_id)
    assert world.rows() == before


@pytest.mark.parametrize("give_up", ["discard", "vacuum"])
def test_a_write_without_rows_that_was_given_up_empties_no_table(world: World, give_up: str) -> None:
    write_id = world.stage({}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    record = StagedWrites(world.services()).find(write_id).record
    if give_up == "discard":
        world.keeper.discard(T, write_id)
    else:
        world.wait_out_claims()
        world.vacuum()
    with pytest.raises(ConflictError):
        StagedWrites(world.services())._publish(record, None)
    assert world.rows() == OLD


def test_a_time_that_needs_a_zone_hides_no_other_spelling_of_one_that_needs_none() -> None:
    world = World()
    table = replace(world.table, partition_columns=(Column("dt", "timestamp"),))
    world.metastore.create_table(table)
    for theirs in ("2024-01-01 00:00:00Z", "2024-1-1"):
        world.written_by_another_tool(theirs, frozenset({1}))
    wanted = ("2024-01-01 00:00:00",)
    found = there_under_other_names(world.metastore, table, [wanted])
    assert found == {wanted: "the metastore has it as dt=2024-1-1: readers would see both"}


def test_a_staged_write_remembers_how_the_metastore_spells_its_partitions() -> None:
    world = World()
    world.written_by_another_tool("2024-01-01 00:00:00Z", frozenset({1}))
    spellings = Spellings.of([("2024-01-01 00:00:00Z",)], ["timestamp"], "Europe/Berlin")
    write_id = world.stage({"2024-01-01 01:00:00": frozenset({10})}, plan=replace(world.plan(), spellings=spellings))
    world.keeper.publish(T, write_id)
    assert world.rows() == {"2024-01-01 00:00:00Z": frozenset({10})}


def test_a_table_of_another_format_by_now_is_a_conflict(world: World) -> None:
    write_id = world.stage(NEW)
    table, found = world.table, world.metastore.get_all_partitions(world.table)
    world.metastore.drop_table(world.name)
    world.metastore.create_table(replace(table, serde="org.apache.hadoop.hive.ql.io.orc.OrcSerde"))
    world.metastore.add_partitions(world.table, list(found.values()))
    with pytest.raises(ConflictError, match="format"):
        world.keeper.publish(T, write_id)
    assert world.rows() == OLD


def test_two_checks_at_the_same_moment_lose_nothing(world: World) -> None:
    write_id = world.stage(NEW)
    one, other = StagedWrites(world.services()), StagedWrites(world.services())
    passed = replace(FAILED, name="unique(id)", passed=True)

    world.at_store("put", "before", lambda: other.with_checks(write_id, [FAILED]))
    one.with_checks(write_id, [passed])
    assert {check.name for check in one.find(write_id).record.files.checks} == {"not_null(id)", "unique(id)"}
    with pytest.raises(CheckFailedError):
        world.keeper.publish(T, write_id)


def test_a_second_result_takes_the_firsts_place_and_what_is_damaged_stops_the_publish(world: World) -> None:
    write_id = world.stage(NEW)
    staged_writes = StagedWrites(world.services())
    staged_writes.with_checks(write_id, [FAILED])
    world.skipped_seconds += 2
    found = staged_writes.with_checks(write_id, [replace(FAILED, passed=True)])
    assert [check.passed for check in found.record.files.checks] == [True]
    world.store.put(f"{world.layout.all_staged.key}{write_id}.checks-20990101T000000000000-{'0' * 16}", b"{")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        world.keeper.publish(T, write_id)
    world.keeper.discard(T, write_id)
    assert world.leftovers() == []


def test_a_dry_run_says_that_the_key_was_published_meanwhile(world: World) -> None:
    write_id = world.stage(NEW, plan=world.plan(key="once"))
    world.write({"d9": frozenset({9})}, plan=world.plan(key="once"))
    looked = world.keeper.publish(T, write_id, dry_run=True)
    assert "once" in looked.to_text()
    assert read_registration(world.store, world.layout, write_id) is not None


def test_one_damaged_registration_hides_no_other_and_can_be_discarded(world: World) -> None:
    damaged, sound = world.stage(NEW), world.stage({"d2": frozenset({20})})
    key = world.layout.staged_key(damaged)
    stored = body_of(world.store, key)
    world.store.put(key, stored.replace(b'"partitions"', b'"portions"'))
    report = world.keeper.staged(T)
    assert [one.write_id for one in report.staged] == [sound]
    assert list(report.unreadable) == [damaged]
    assert damaged in report.to_text()
    world.keeper.discard(T, damaged)
    assert files(world, damaged) == []
    assert world.keeper.staged(T).unreadable == {}


@pytest.mark.parametrize("damaged", ['"one"', "null", "-1"])
def test_what_does_not_say_at_which_version_it_was_planned_can_be_discarded(world: World, damaged: str) -> None:
    write_id = world.stage(NEW)
    key = world.layout.staged_key(write_id)
    stored = body_of(world.store, key)
    record = json.loads(plain(stored))
    record["staged"]["base_version"] = json.loads(damaged)
    world.store.put(key, json.dumps(record).encode())
    world.keeper.discard(T, write_id)
    assert (files(world, write_id), world.rows()) == ([], OLD)
    assert read_registration(world.store, world.layout, write_id) is None


def test_a_name_that_was_discarded_is_never_used_again(world: World) -> None:
    plan = replace(world.plan(), write_id="run-42", named_by_caller=True)
    world.stage(NEW, plan=plan)
    world.keeper.discard(T, "run-42")
    with pytest.raises(InvalidInputError, match="was used before"):
        world.write(NEW, plan=replace(world.plan(), write_id="run-42", named_by_caller=True))


@pytest.mark.parametrize("call", ["discard", "staged"])
def test_discarding_and_listing_read_only_what_came_after_the_oldest_plan(world: World, call: str) -> None:
    for number in range(20):
        world.write({"d7": frozenset({number})})
    write_id = world.stage(NEW)
    with world.recording() as calls:
        if call == "discard":
            world.keeper.discard(T, write_id)
        else:
            assert [one.write_id for one in world.keeper.staged(T).staged] == [write_id]
    assert sum(call == "get" for _, call in calls) < 15
