"""What is told of each operation, over doubles: after it has taken effect, once, and never more than is true."""

from __future__ import annotations

import pickle
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from table_writer.config import TableWriterConfig
from table_writer.errors import CheckFailedError, LostResponseError, MetastoreError, OutcomeUnknownError
from table_writer.events import TableEvent
from table_writer.jobs.announcing import announced
from table_writer.jobs.running_write import RunningWrite
from table_writer.jobs.staged_writes import StagedWrites
from table_writer.model.check_result import CheckResult
from table_writer.model.staged_write import StagedRecord
from table_writer.model.write import WrittenFiles
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.operations.recovery import Recovery
from tests.publish.world import ROOT, TABLE, DeathError, Fault, World

T = str(TABLE)
NEW = {"d1": frozenset({10}), "d3": frozenset({30})}
REFUSED = Fault("metastore", "alter_partitions", 1, "before", Exception)
LOST = Fault("metastore", "alter_partitions", 1, "before", LostResponseError)
DIED = Fault("metastore", "alter_partitions", 1, "before", DeathError)


def in_words(events: list[TableEvent]) -> list[tuple[str, str, int | None]]:
    return [(one.operation, one.outcome, one.version) for one in events]


def test_a_rollback_is_told_with_what_it_has_put_back(world: World, told: list[TableEvent]) -> None:
    world.write(NEW)
    report = world.keeper.rollback(T, version=1)
    (event,) = told
    entry = world.history().records[-1].entry
    assert (event.operation, event.outcome, event.mode) == ("rollback", "published", "rollback")
    assert (event.version, event.write_id, event.of_version) == (report.version, entry.write_id, 1)
    assert [(one.name, one.action, one.rows) for one in event.partitions] == [
        ("dt=d1", "replaced", 2),
        ("dt=d3", "dropped", 0),
    ]
    assert (event.location, event.metastore) == (ROOT, "thrift://metastore:9083")
    assert ([one.name for one in event.columns], [one.name for one in event.partition_columns]) == (["id"], ["dt"])
    assert [step.name for step in event.steps] == ["publish"]
    assert event.started_at <= event.steps[0].started_at <= event.ended_at
    assert event.storage_requests
    assert event.metastore_calls["alter_partitions_with_environment_context"] == 1
    assert event.user == entry.writer["user"]


def test_a_restore_is_told_with_what_it_has_added(world: World, told: list[TableEvent]) -> None:
    world.lose_metastore()
    report = world.keeper.restore(T)
    assert in_words(told) == [("restore", "published", report.version)]
    assert [(one.name, one.rows) for one in told[0].partitions] == [("dt=d1", 2), ("dt=d2", 1)]
    assert told[0].write_id == world.history().records[-1].entry.write_id


def test_a_vacuum_is_told_with_what_it_has_deleted(world: World, told: list[TableEvent]) -> None:
    world.write(NEW)
    report = world.vacuum()
    world.vacuum()
    assert in_words(told) == [("vacuum", "vacuumed", report.version), ("vacuum", "nothing", None)]
    assert (told[0].deleted_files, told[0].deleted_bytes) == (1, report.bytes_freed)
    assert told[0].deleted_bytes > 0


def test_of_many_tables_each_is_told_of_by_itself(world: World, told: list[TableEvent]) -> None:
    world.write(NEW)
    world.keeper.vacuum_many(database="mart", older_than=timedelta(0), force=True)
    ((event),) = told
    assert (event.operation, event.outcome, event.table, event.location) == ("vacuum", "vacuumed", T, ROOT)


def test_a_dry_run_is_not_told(world: World, told: list[TableEvent]) -> None:
    world.write(NEW)
    write_id = world.stage(NEW)
    keeper = world.keeper
    keeper.rollback(T, version=1, dry_run=True)
    keeper.vacuum(T, dry_run=True)
    keeper.recover(T, dry_run=True)
    keeper.restore(T, dry_run=True)
    keeper.publish(T, write_id, dry_run=True)
    keeper.discard(T, write_id, dry_run=True)
    keeper.uploads(T)
    assert told == []


def test_the_publish_of_a_staged_write_is_told_and_a_second_one_has_nothing_to_do(
    world: World, told: list[TableEvent]
) -> None:
    write_id = world.stage(NEW, plan=replace(world.plan(WriteMode.APPEND, key="monday"), tags={"team": "shop"}))
    result = world.keeper.publish(T, write_id)
    world.keeper.publish(T, write_id)
    assert in_words(told) == [("publish", "published", 2), ("publish", "repeated", 2)]
    event = told[0]
    assert (event.mode, event.write_id, event.idempotency_key) == ("append", write_id, "monday")
    assert event.tags == {"team": "shop"}
    assert (event.rows, event.files, event.bytes) == (result.rows, result.files, result.bytes)
    assert [(one.name, one.action) for one in event.partitions] == [("dt=d1", "appended"), ("dt=d3", "added")]
    assert [one.name for one in event.columns] == ["id"]
    assert event.sources is None  # nobody has a DataFrame here


def test_a_discard_is_told(world: World, told: list[TableEvent]) -> None:
    write_id = world.stage(NEW)
    world.keeper.discard(T, write_id)
    assert [(one.operation, one.outcome, one.mode, one.write_id, one.deleted_files) for one in told] == [
        ("discard", "discarded", "overwrite_partitions", write_id, 2)
    ]


def test_what_was_refused_is_told_as_failed(world: World, told: list[TableEvent]) -> None:
    write_id = world.stage(NEW)
    with world.inject(REFUSED), pytest.raises(MetastoreError):
        world.keeper.publish(T, write_id)
    (event,) = told
    assert (event.outcome, event.version, event.write_id) == ("failed", None, write_id)
    assert event.error is not None
    assert (event.error.code, event.error.type) == ("metastore", "MetastoreError")
    assert "injected" in event.error.message


def test_a_failed_check_is_told_with_its_result_and_without_rows(world: World, told: list[TableEvent]) -> None:
    plan = world.plan()
    found = CheckResult(
        name="not_null(id)", severity="error", passed=False, message="1 of 2", examples=({"id": "hush-hush"},)
    )
    with RunningWrite(world.services(), plan) as write:
        messages = (world._upload(plan, NEW),)
        write.complete(messages)
        files = WrittenFiles.from_messages(plan, messages)
        write.stage(StagedRecord(files=files, expires_after_seconds=5_000.0))
    StagedWrites(world.services()).with_checks(plan.write_id, [found])
    with pytest.raises(CheckFailedError):
        world.keeper.publish(T, plan.write_id)
    (event,) = told
    assert (event.outcome, [one.name for one in event.checks]) == ("failed", ["not_null(id)"])
    assert "hush-hush" not in repr(event)


def test_an_unknown_outcome_claims_no_success_and_its_recovery_tells_the_rest(
    world: World, told: list[TableEvent]
) -> None:
    write_id = world.stage(NEW)
    with world.inject(LOST, keep_call=True), pytest.raises(OutcomeUnknownError):
        world.keeper.publish(T, write_id)
    assert [(one.outcome, one.write_id, one.partitions) for one in told] == [("unknown", write_id, ())]
    world.wait_out_claims()
    world.keeper.recover(T)
    assert [(one.operation, one.outcome, one.of_version, one.of_write_id) for one in told[1:]] == [
        ("recover", "published", 2, write_id)
    ]
    assert [(one.name, one.action, one.rows) for one in told[1].partitions] == [
        ("dt=d1", "replaced", 1),
        ("dt=d3", "added", 1),
    ]
    world.keeper.recover(T)
    assert len(told) == 2  # nothing was in doubt any more


def test_an_error_that_nobody_knows_during_a_publish_is_no_failure(world: World, told: list[TableEvent]) -> None:
    write_id = world.stage(NEW)
    surprise = Fault("metastore", "alter_partitions", 1, "after", RuntimeError)
    with world.inject(surprise), pytest.raises(RuntimeError):
        world.keeper.publish(T, write_id)
    (event,) = told
    assert event.outcome == "unknown"
    assert event.error is not None
    assert (event.error.code, event.error.type, event.error.message) == ("other", "RuntimeError", "")


def test_an_error_that_nobody_knows_during_a_recovery_is_no_failure(world: World, told: list[TableEvent]) -> None:
    with world.inject(DIED), pytest.raises(DeathError):
        world.write(NEW)
    world.wait_out_claims()
    surprise = Fault("metastore", "alter_partitions", 1, "after", RuntimeError)
    with world.inject(surprise), pytest.raises(RuntimeError):
        world.keeper.recover(T)
    assert in_words(told) == [("recover", "unknown", None)]


def test_an_error_about_another_write_does_not_give_the_event_its_name(world: World, told: list[TableEvent]) -> None:
    with pytest.raises(OutcomeUnknownError), announced(world.all_services(), "write", T, "append") as call:
        call.concerns(world.services(), write_id="OWN")
        raise OutcomeUnknownError("recovering what was in the way", table=T, write_id="OTHER")
    assert [(one.outcome, one.write_id) for one in told] == [("unknown", "OWN")]


def test_what_a_late_call_had_undone_is_told_as_published_whatever_has_become_of_it_since(
    world: World, told: list[TableEvent]
) -> None:
    world.write(NEW)
    published, recovery = world.history().records[-1].entry, Recovery(world.services())
    again = replace(published, version=3, write_id="W", recovers=2)
    with announced(world.all_services(), "recover", T):
        recovery._record_outcome(published, again, (), dict.fromkeys(again.partition_values))
    assert [(one.outcome, one.of_version, one.partitions) for one in told] == [("published", 2, ())]


def test_a_write_that_is_resolved_on_the_way_of_another_call_is_told_first(
    world: World, told: list[TableEvent]
) -> None:
    with world.inject(DIED), pytest.raises(DeathError):
        world.write(NEW)
    world.wait_out_claims()
    world.keeper.rollback(T, version=1)
    assert in_words(told) == [("recover", "published", 3), ("rollback", "published", 4)]
    assert told[0].mode == "overwrite_partitions"


def test_a_recovered_append_is_told_with_what_it_has_done_to_each_partition(
    world: World, told: list[TableEvent]
) -> None:
    with world.inject(DIED), pytest.raises(DeathError):
        world.write(NEW, plan=world.plan(WriteMode.APPEND))
    world.wait_out_claims()
    world.keeper.recover(T)
    (event,) = told
    here = {f"dt={value}": one.location for value, one in world.partitions().items()}
    assert [(one.name, one.action, one.location) for one in event.partitions] == [
        ("dt=d1", "appended", here["dt=d1"]),
        ("dt=d3", "added", here["dt=d3"]),
    ]


def test_a_write_whose_files_are_gone_is_told_as_abandoned(world: World, told: list[TableEvent]) -> None:
    with world.inject(DIED), pytest.raises(DeathError):
        world.write(NEW)
    dead = world.services().log.slots.read(2).entry
    for info in list(world.store.list(world.layout.data(dead.write_id).key)):
        world.store.delete([info.key])
    world.wait_out_claims()
    world.keeper.recover(T)
    assert [(one.operation, one.outcome, one.of_write_id, one.partitions) for one in told] == [
        ("recover", "abandoned", dead.write_id, ())
    ]


def test_a_refusal_that_its_writer_could_not_record_is_told_as_abandoned(world: World, told: list[TableEvent]) -> None:
    def die(call: str, phase: str, key: str) -> None:
        if (call, phase) == ("put_if_absent", "before") and key.endswith(".done"):
            raise DeathError

    with world.inject(REFUSED), pytest.raises(DeathError):
        refuse = world.store.on_call
        world.store.on_call = lambda call, phase, key: (refuse(call, phase, key), die(call, phase, key))
        world.write(NEW)
    world.wait_out_claims()
    world.keeper.recover(T)
    assert [(one.operation, one.outcome, one.of_version, one.partitions) for one in told] == [
        ("recover", "abandoned", 2, ())
    ]


def test_a_wrong_call_is_told_with_what_is_known_of_it(world: World, told: list[TableEvent]) -> None:
    for table, code in (("mart.returns", "invalid_input"), (T, "invalid_input")):
        with suppress(ValueError):
            world.keeper.rollback(table, version=9)
        assert told[-1].error is not None
        assert (told[-1].table, told[-1].outcome, told[-1].error.code) == (table, "failed", code)
    assert len(told) == 2


def test_an_event_travels_to_other_processes(world: World, told: list[TableEvent]) -> None:
    world.write(NEW)
    world.keeper.rollback(T, version=1)
    assert pickle.loads(pickle.dumps(told[0])) == told[0]  # noqa: S301  # of this test


def test_the_metastore_is_named_alike_whichever_address_answers_and_without_a_login(world: World) -> None:
    several = TableWriterConfig(metastore_uris=("thrift://me:hush@one:9083", "thrift://two:9083"))
    assert world.services(several).event_facts["metastore"] == "thrift://one:9083"
    glue = SimpleNamespace(uri="glue://eu-west-1/1234")
    assert replace(world.services(several), metastore=glue).event_facts["metastore"] == "glue://eu-west-1/1234"
