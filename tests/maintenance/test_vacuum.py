"""Vacuum: what nobody needs goes, and nothing else, however often and from wherever it is run."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from table_writer.config import TableWriterConfig
from table_writer.errors import ConflictError, InvalidInputError, MetastoreError, StorageError
from table_writer.mirrors import follow as mirrors
from table_writer.model.check_result import CheckResult
from table_writer.model.entry import MAX_TIMEOUT_SECONDS, Outcome
from table_writer.protocol.log.marks import LATE_CALL_SECONDS
from table_writer.protocol.log.registration import put_check_results
from table_writer.protocol.vacuum.due import Ages
from table_writer.protocol.vacuum.remover import LOOK_SECONDS
from table_writer.protocol.vacuum.sweep import Vacuum
from tests.publish.world import TABLE, DeathError, Fault, World

T = str(TABLE)
ONE = {"d1": frozenset({1}), "d2": frozenset({2})}
TWO = {"d1": frozenset({10})}
DAY = timedelta(days=1)


@pytest.fixture
def world() -> World:
    world = World()
    world.write(ONE)
    world.write(TWO)
    return world


def everything(world: World) -> set[str]:
    return {info.key for info in world.store.list("")} | {u.upload_id for u in world.store.list_uploads("mart/")}


def data(world: World) -> set[str]:
    return {info.key for info in world.store.list("mart/orders/_table_writer/data/")}


def test_replaced_rows_stay_for_the_retention_and_then_go(world: World) -> None:
    before = data(world)
    kept = world.keeper.vacuum(T)
    assert data(world) == before
    assert "its retention lasts 72.0 more hours" in kept.kept[0].reason
    world.skipped_seconds += 4 * 86_400
    report = world.keeper.vacuum(T)
    assert len(report.deleted) == 1
    assert "replaced by version 2" in report.deleted[0].reason
    assert before - data(world) == set(report.deleted[0].keys)
    assert report.bytes_freed == 3
    assert world.rows() == {**ONE, **TWO}
    assert world.services().log.slots.outcome(3) is Outcome.PUBLISHED


def test_a_second_vacuum_finds_nothing(world: World) -> None:
    world.vacuum()
    before = everything(world)
    assert world.vacuum().deleted == ()
    assert everything(world) == before


def test_a_dry_run_lists_exactly_what_the_real_run_deletes(world: World) -> None:
    dead_writer(world)
    world.wait_out_claims()
    before = everything(world)
    planned = world.keeper.vacuum(T, older_than=timedelta(0), dry_run=True, force=True)
    assert everything(world) == before
    done = world.vacuum()
    assert planned.deleted == done.deleted
    assert planned.aborted == done.aborted
    assert planned.removed_registrations == done.removed_registrations
    gone = before - everything(world)
    named = {key for path in planned.deleted for key in path.keys} | {one.upload_id for one in planned.aborted}
    assert gone == named | set(planned.removed_registrations)


def test_a_dry_run_names_the_record_of_a_staged_write_that_has_expired(world: World) -> None:
    write_id = world.stage({"d1": frozenset({7})})
    found = CheckResult(name="row_count(min=1)", severity="warn", passed=True, message="1 row")
    put_check_results(world.store, world.layout, write_id, [found])
    world.wait_out_claims()
    before = everything(world)
    planned = world.keeper.vacuum(T, older_than=timedelta(0), dry_run=True, force=True)
    assert world.layout.staged_key(write_id) in planned.removed_registrations
    world.vacuum()
    named = {key for path in planned.deleted for key in path.keys} | set(planned.removed_registrations)
    assert before - everything(world) == named


@pytest.mark.parametrize("age", [timedelta(hours=23), timedelta(0)])
def test_an_age_under_a_day_must_be_forced(world: World, age: timedelta) -> None:
    with pytest.raises(InvalidInputError, match="force"):
        world.keeper.vacuum(T, older_than=age)
    world.keeper.vacuum(T, older_than=age, force=True)
    with pytest.raises(InvalidInputError, match="not negative"):
        world.keeper.vacuum(T, older_than=-age - DAY, force=True)


def test_the_table_property_wins_over_the_schedule_and_over_a_lower_age(world: World) -> None:
    world.metastore.create_table(replace(world.table, parameters={"table_writer.retention": "240"}))
    world.skipped_seconds += 4 * 86_400
    assert world.keeper.vacuum(T).deleted == ()
    with pytest.raises(InvalidInputError, match="10 days"):
        world.keeper.vacuum(T, older_than=5 * DAY)
    world.skipped_seconds += 7 * 86_400
    assert len(world.keeper.vacuum(T).deleted) == 1


def test_a_recovered_entry_starts_its_retention_when_it_has_ended() -> None:
    world = World()
    world.write(ONE)
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
        world.write(TWO)
    world.skipped_seconds += 10 * 86_400
    world.keeper.recover(T)
    assert world.keeper.vacuum(T).deleted == (), "queries may have read the old rows until a moment ago"
    world.skipped_seconds += 4 * 86_400
    assert len(world.keeper.vacuum(T).deleted) == 1
    assert world.rows() == {**ONE, **TWO}


def test_nothing_is_deleted_while_an_outcome_is_unknown(world: World) -> None:
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
        world.write({"d2": frozenset({20})})
    world.skipped_seconds += 10 * 86_400
    report = world.keeper.vacuum(T)
    assert report.in_doubt == (3,)
    world.keeper.recover(T)
    assert world.rows() == {"d1": frozenset({10}), "d2": frozenset({20})}


def test_files_of_an_abandoned_entry_go_after_the_retention(world: World) -> None:
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", Exception)), pytest.raises(MetastoreError):
        world.write({"d1": frozenset({11, 12})})
    world.keeper.vacuum(T)
    assert any("[11, 12]" in _text(world, key) for key in data(world))
    world.skipped_seconds += 4 * 86_400
    world.keeper.vacuum(T)
    assert not any("[11, 12]" in _text(world, key) for key in data(world))
    assert world.rows() == {**ONE, **TWO}


def _text(world: World, key: str) -> str:
    stored = world.store.get(key)
    return stored.body.decode() if stored else ""


def test_a_location_that_the_metastore_points_at_stays_whatever_the_log_says(world: World) -> None:
    old = world.services().log.slots.read(1).entry.partitions[0].new_location
    world.pointed_by_another_tool("d7", str(old).replace("s3a://", "s3://").replace("/orders/", "//orders/./"))
    report = world.vacuum()
    assert report.deleted == ()
    assert "readers may look there" in report.kept[0].reason
    assert world.rows()["d7"] == frozenset({1})


def test_a_location_that_is_pointed_at_between_look_and_delete_stays(world: World) -> None:
    old = str(world.services().log.slots.read(1).entry.partitions[0].new_location)

    def point_meanwhile(call: str, phase: str, _key: str) -> None:
        if (call, phase) == ("put_if_absent", "before"):
            world.store.on_call = None
            world.pointed_by_another_tool("d7", old)

    world.store.on_call = point_meanwhile
    report = world.vacuum()
    assert world.rows()["d7"] == frozenset({1})
    assert "a moment ago" in report.kept[-1].reason
    world.metastore.drop_partition(world.table, ("d7",))
    world.vacuum()
    assert world.leftovers() == []


def test_other_tools_files_go_one_by_one_if_unchanged() -> None:
    world = World()
    world.written_by_another_tool("d1", frozenset({7}))
    world.store.put("mart/orders/dt=d1/changed.json", b"[8]")
    world.write({"d1": frozenset({1})})
    world.store.put("mart/orders/dt=d1/changed.json", b"[8, 9]")
    world.store.put("mart/orders/dt=d1/newer.json", b"[10]")
    world.store.put("mart/orders_v2/dt=d1/part-0.json", b"[11]")
    world.vacuum()
    assert world.store.head("mart/orders/dt=d1/part-0.json") is None
    assert world.store.head("mart/orders/dt=d1/changed.json") is not None
    assert world.store.head("mart/orders/dt=d1/newer.json") is not None
    assert world.store.head("mart/orders_v2/dt=d1/part-0.json") is not None


def test_other_tools_files_stay_together_while_readers_look_at_one_of_them() -> None:
    world = World()
    world.written_by_another_tool("d1", frozenset({7}))
    world.store.put("mart/orders/dt=d1/deeper/part-0.json", b"[8]")
    world.write({"d1": frozenset({1})})
    world.pointed_by_another_tool("d5", "s3n://lake/mart/orders/dt=d1/deeper")
    assert "readers may look there" in world.vacuum().kept[0].reason
    assert world.rows()["d5"] == frozenset({8})
    world.metastore.drop_partition(world.table, ("d5",))
    world.vacuum()
    assert list(world.store.list("mart/orders/dt=d1/")) == []


def test_replaced_data_outside_the_root_is_never_touched() -> None:
    world = World()
    world.store.put("elsewhere/dt=d1/a.json", b"[7]")
    world.pointed_by_another_tool("d1", "s3a://lake/elsewhere/dt=d1/")
    world.write({"d1": frozenset({1})})
    world.vacuum()
    assert world.store.head("elsewhere/dt=d1/a.json") is not None


@pytest.mark.parametrize("location", ["", "../", "_table_writer/", "_table_writer/log/", "_table_writer/data/"])
def test_a_hostile_entry_cannot_make_a_vacuum_delete_more(world: World, location: str) -> None:
    key = world.layout.entry_key(2)
    stored = world.store.get(key)
    assert stored is not None
    entry = json.loads(stored.body)
    entry["body"]["replaced"] = [{**entry["body"]["replaced"][0], "location": location}]
    world.store.put(key, json.dumps(entry).encode())
    before = everything(world)
    if ".." in location:
        with pytest.raises(InvalidInputError, match="leaves the table root"):
            world.vacuum()
    else:
        report = world.vacuum()
        assert {path.location for path in report.deleted} <= {
            str(partition.new_location) for partition in world.services().log.slots.read(1).entry.partitions
        }
    assert {key for key in before if "/log/" in key or "/owner" in key} <= everything(world)
    assert world.rows() == {**ONE, **TWO}


def dead_writer(world: World, *, registered: bool = True) -> str:
    """A writer that dies with one upload pending and one completed."""
    plan = world.plan()
    call = Fault("store", "complete_upload", 2, "before", DeathError)
    with world.inject(call), pytest.raises(DeathError):
        world.write({"d1": frozenset({5}), "d2": frozenset({6})}, plan=plan)
    if not registered:
        world.store.delete([world.layout.registration_key(plan.write_id)])
    return plan.write_id


@pytest.mark.parametrize("registered", [True, False])
def test_a_dead_write_goes_after_a_day_with_all_its_traces(world: World, registered: bool) -> None:
    write_id = dead_writer(world, registered=registered)
    assert world.keeper.vacuum(T, older_than=DAY).deleted == ()
    world.skipped_seconds += 86_400 * 1.1
    report = world.keeper.vacuum(T, older_than=DAY)
    assert any(write_id in path.location for path in report.deleted)
    assert not any(write_id in key for key in everything(world) if "/log/" not in key)
    assert list(world.store.list_uploads("mart/")) == []
    assert world.rows() == {**ONE, **TWO}


@pytest.mark.parametrize("refused", ["abort_upload", "delete"])
def test_a_dead_write_of_which_something_stays_is_registered_until_all_is_gone(
    world: World, refused: str, caplog: pytest.LogCaptureFixture
) -> None:
    write_id = dead_writer(world)
    world.wait_out_claims()
    directory = world.layout.data(write_id).key

    def refuse(call: str, phase: str, key: str) -> None:
        if (call, phase) == (refused, "before") and key.startswith(directory):
            raise StorageError("AccessDenied")

    world.store.on_call = refuse
    assert world.vacuum().failures == ("AccessDenied",)
    world.store.on_call = None
    assert world.store.head(world.layout.registration_key(write_id))
    vacuum = world.services().log.slots.read(3)
    assert vacuum.outcome is None
    if refused == "delete":
        assert f"write_id={vacuum.entry.write_id}: not all deleted: AccessDenied" in caplog.text
    assert world.vacuum().failures == ()
    assert world.leftovers() == []


def test_writes_that_stay_keep_no_dead_one_from_going(world: World) -> None:
    dead = dead_writer(world)
    world.skipped_seconds += 86_400 * 1.1
    staying = [f"{world.layout.data(name).key}dt=d7/part-0.json" for name in ("0-read", "0-running", "0-young")]
    for key in staying:
        world.store.put(key, b"[7]")
    world.pointed_by_another_tool("d7", f"{world.layout.data('0-read')}dt=d7/")
    world.store.put(world.layout.registration_key("0-running"), b"{}")
    deleted = world.keeper.vacuum(T, older_than=DAY).deleted
    given_up = [one.location for one in deleted if one.reason.startswith("dead write")]
    assert given_up == [str(world.layout.data(dead))]
    assert set(staying) <= data(world)


def test_what_a_discard_deletes_says_why(world: World) -> None:
    write_id = world.stage({"d3": frozenset({3})})
    (gone,) = world.keeper.discard(T, write_id).deleted
    assert (gone.location, gone.reason) == (str(world.layout.data(write_id)), "discarded")


def test_a_vacuum_takes_note_that_no_call_came_late_once_none_can_come_and_nothing_before_is_in_doubt(
    world: World,
) -> None:
    def unverified_after_a_vacuum() -> frozenset[int]:
        world.vacuum()
        return world.services().log.lister.read(listed_after=0).unverified

    world.services().log.marks.remember_recovery(2)
    assert unverified_after_a_vacuum() == {2}
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
        world.write({"d2": frozenset({20})})
    newest = world.services().log.lister.read().newest
    world.services().log.marks.remember_recovery(newest + 1)
    assert unverified_after_a_vacuum() == {2, newest + 1}
    world.skipped_seconds += MAX_TIMEOUT_SECONDS + LATE_CALL_SECONDS
    assert unverified_after_a_vacuum() == {newest + 1}
    (doubtful,) = world.history().records.publishes_in_doubt
    written_by = doubtful.entry.write_id
    world.services().log.slots.record_outcome(
        doubtful.entry.version, Outcome.ABANDONED, write_id=written_by, of=written_by
    )
    assert unverified_after_a_vacuum() == frozenset()


def test_a_running_write_is_left_alone_even_by_force(world: World) -> None:
    def vacuum() -> None:
        assert world.vacuum().aborted == ()

    world.write({"d3": frozenset({3})}, before_publish=vacuum)
    assert world.rows()["d3"] == frozenset({3})


def test_a_paused_writer_that_was_given_up_publishes_nothing(world: World) -> None:
    def pause() -> None:
        world.skipped_seconds += 2 * 86_400  # no heartbeat meanwhile
        assert world.keeper.vacuum(T, older_than=DAY).removed_registrations

    with pytest.raises(ConflictError, match="deletes its files"):
        world.write({"d3": frozenset({3})}, before_publish=pause)
    assert world.rows() == {**ONE, **TWO}


def test_a_writer_that_claims_first_is_not_given_up(world: World) -> None:
    plan = world.plan()

    def claim_meanwhile(call: str, phase: str, key: str) -> None:
        if (call, phase) == ("put_if_absent", "before") and "/log/" in key:
            world.store.on_call = None
            world.write({"d3": frozenset({3})}, plan=plan)

    registration = world.layout.registration_key(plan.write_id)
    world.store.put(registration, b'{"renewed_every_seconds": 1}')
    world.store.put(f"{plan.data_location.key}dt=d3/part-00000-{plan.write_id}-1.json", b"[33]")
    world.wait_out_claims()
    world.store.on_call = claim_meanwhile
    world.vacuum()
    assert frozenset({3}) <= world.rows()["d3"]


def test_uploads_that_late_attempts_leave_after_the_publish_are_aborted(world: World) -> None:
    write_id = world.services().log.slots.read(2).entry.write_id
    upload = world.store.create_upload(f"{world.layout.data(write_id).key}dt=d1/late.json")
    listed = world.keeper.uploads(T)
    assert [(one.owner, one.upload_id) for one in listed.uploads] == [("settled", upload)]
    assert world.keeper.vacuum(T).aborted[0].upload_id == upload
    assert world.keeper.uploads(T).uploads == ()


def test_a_straggler_of_a_write_that_was_given_up_is_swept_at_once(world: World) -> None:
    write_id = dead_writer(world)
    world.wait_out_claims()
    world.vacuum()
    world.store.create_upload(f"{world.layout.data(write_id).key}dt=d1/late.json")
    report = world.keeper.vacuum(T)
    assert "given up in version 3" in report.deleted[0].reason
    assert list(world.store.list_uploads("mart/")) == []


def test_uploads_of_other_tools_are_listed_and_never_aborted(world: World) -> None:
    world.store.create_upload("mart/orders/dt=d1/spark.parquet")
    world.store.create_upload("mart/orders_v2/dt=d1/next-door.parquet")
    world.wait_out_claims()
    with pytest.raises(InvalidInputError, match="force"):
        world.keeper.uploads(T, abort=True, older_than=timedelta(0))
    report = world.keeper.uploads(T, abort=True, older_than=timedelta(0), force=True)
    assert [one.owner for one in report.uploads] == ["another tool"]
    assert len(list(world.store.list_uploads("mart/"))) == 2


def test_uploads_aborts_dead_writes_and_keeps_replaced_rows(world: World) -> None:
    dead_writer(world)
    world.wait_out_claims()
    before = data(world)
    report = world.keeper.uploads(T, abort=True, older_than=timedelta(0), force=True)
    assert len(report.aborted) == 1
    assert len(report.deleted[0].keys) == 1
    assert {one.owner for one in report.uploads} == {"dead"}
    assert len(before - data(world)) == 1, "the dead write's one object; replaced rows stay"


def test_an_interrupted_vacuum_is_finished_by_the_next_one(world: World) -> None:
    with world.inject(Fault("store", "delete", 1, "before", DeathError)), pytest.raises(DeathError):
        world.vacuum()
    assert world.services().log.lister.read(listed_after=0).in_doubt == {3}
    world.write({"d1": frozenset({100})})  # nobody waits for a vacuum
    world.vacuum()
    assert not world.services().log.lister.read(listed_after=0).in_doubt
    assert world.leftovers() == []


def test_recover_finishes_an_interrupted_vacuum(world: World) -> None:
    dead_writer(world)
    world.wait_out_claims()
    with world.inject(Fault("store", "delete", 1, "before", DeathError)), pytest.raises(DeathError):
        world.vacuum()
    assert world.keeper.recover(T).finished_vacuums == (), "it may still be at work"
    world.wait_out_claims()
    assert world.keeper.recover(T).finished_vacuums == (3,)
    assert world.leftovers() == []
    assert not world.services().log.lister.read(listed_after=0).in_doubt


def test_what_cannot_be_deleted_is_reported_and_taken_over(world: World) -> None:
    def refuse(call: str, phase: str, key: str) -> None:
        if (call, phase) == ("delete", "before"):
            raise StorageError(f"AccessDenied: {key}")

    world.store.on_call = refuse
    report = world.vacuum()
    world.store.on_call = None
    assert "AccessDenied" in report.failures[0]
    assert world.vacuum().failures == ()
    assert world.leftovers() == []


def test_many_vacuums_rollbacks_and_writers_at_once_end_in_one_state() -> None:
    world = World()
    world.write({f"d{number}": frozenset({number}) for number in range(6)})
    world.write({f"d{number}": frozenset({number + 10}) for number in range(6)})
    errors: list[BaseException] = []

    def run(action: object) -> None:
        try:
            action()  # type: ignore[operator]
        except (ConflictError, InvalidInputError):
            pass  # an answer: somebody else was first
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    actions = [
        world.vacuum,
        world.vacuum,
        lambda: world.keeper.rollback(T, version=1, partitions=["dt=d0", "dt=d1"]),
        lambda: world.write({"d2": frozenset({200})}),
        lambda: world.write({"d9": frozenset({9})}),
        lambda: world.keeper.recover(T),
    ]
    threads = [threading.Thread(target=run, args=(action,), daemon=True) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    rows = world.rows()
    assert rows["d9"] == frozenset({9})
    assert rows["d2"] == frozenset({200})
    assert {rows["d0"] - frozenset({0, 10}), rows["d1"] - frozenset({1, 11})} == {frozenset()}
    assert rows["d0"]
    assert rows["d1"]
    world.vacuum()
    assert world.leftovers() == []


def test_entries_are_trimmed_past_their_retention_and_never_what_is_needed() -> None:
    world = World()
    for number in range(5):
        world.write({"d1": frozenset({number})})
    world.write({"d2": frozenset({7})})
    plan = world.plan()
    world.write({"d1": frozenset({6})})
    world.vacuum()
    assert world.services().log.lister.read(listed_after=0).versions == set(range(1, 9))
    world.skipped_seconds += 31 * 86_400
    report = world.keeper.vacuum(T)
    assert report.trimmed_versions == (1, 2, 3, 4, 5)
    assert world.services().log.lister.read(listed_after=0).versions == {6, 7, 8}
    assert world.rows() == {"d1": frozenset({6}), "d2": frozenset({7})}
    with pytest.raises(ConflictError, match="trimmed"):
        world.write({"d3": frozenset({3})}, plan=replace(plan, base_version=2))
    world.write({"d1": frozenset({8})})
    with pytest.raises(InvalidInputError, match="has no version 3"):
        world.keeper.rollback(T, version=3)
    world.keeper.rollback(T, version=7)
    assert world.rows()["d1"] == frozenset({6})


def test_a_trim_that_is_interrupted_leaves_no_entry_in_doubt() -> None:
    world = World()
    for number in range(4):
        world.write({"d1": frozenset({number})})
    world.vacuum()
    world.skipped_seconds += 31 * 86_400
    with world.inject(Fault("store", "delete", 2, "after", DeathError)), pytest.raises(DeathError):
        world.keeper.vacuum(T)
    assert not world.services().log.lister.read(listed_after=0).in_doubt
    world.keeper.vacuum(T)
    keys = {found.key for found in world.store.list(world.layout.log_prefix)}
    assert {key.replace(".done", ".json") for key in keys if key.endswith(".done")} <= keys
    world.write({"d1": frozenset({9})})
    assert world.rows() == {"d1": frozenset({9})}


def test_live_rows_survive_a_vacuum_of_a_table_whose_log_was_deleted(world: World) -> None:
    world.store.delete([info.key for info in world.store.list(world.layout.log_prefix)])
    world.store.delete([world.layout.owner_key])
    world.skipped_seconds += 30 * 86_400
    world.write({"d3": frozenset({3})})
    world.vacuum()
    assert world.rows() == {**ONE, **TWO, "d3": frozenset({3})}


def test_a_checkpoint_of_a_log_that_was_deleted_is_none(world: World) -> None:
    for number in range(60):
        world.write({"d9": frozenset({number})})
    assert world.services().log.lister.read().listed_after > 0
    log = [info.key for info in world.store.list(world.layout.log_prefix)]
    world.store.delete([*log, world.layout.owner_key])
    assert world.write({"d3": frozenset({3})}).entry.version == 1
    world.vacuum()
    assert world.rows()["d1"] == frozenset({10})


def test_a_state_that_only_trimmed_entries_knew_is_refused() -> None:
    world = World()
    world.write({"d1": frozenset({1})})
    world.write({"d2": frozenset({2})})
    world.write({"d1": frozenset({3})})
    world.skipped_seconds += 40 * 86_400
    world.written_by_another_tool("d1", frozenset({9}))
    world.write({"d1": frozenset({4})})
    world.skipped_seconds += 2 * 86_400
    assert 3 in world.keeper.vacuum(T, older_than=DAY).trimmed_versions or world.keeper.vacuum(T).trimmed_versions
    with pytest.raises(InvalidInputError, match="trimmed the entries"):
        world.keeper.rollback(T, version=2)
    assert world.rows()["d1"] == frozenset({4})


def test_an_old_partition_can_go_back_over_a_trimmed_log() -> None:
    world = World()
    world.write({"d1": frozenset({1})})
    for number in range(5):
        world.write({"d2": frozenset({number})})
    world.vacuum()
    world.skipped_seconds += 40 * 86_400
    assert world.keeper.vacuum(T).trimmed_versions
    world.write({"d1": frozenset({10})})
    newest = world.services().log.lister.read().newest
    world.keeper.rollback(T, version=newest - 1)
    assert world.rows()["d1"] == frozenset({1})


def test_a_schedule_under_a_day_waits_for_the_day_unless_forced() -> None:
    world = World()
    world.config = TableWriterConfig(retention=timedelta(0))
    world.write(ONE)
    world.write(TWO)
    world.skipped_seconds += 3600
    assert world.keeper.vacuum(T).deleted == ()
    assert len(world.keeper.vacuum(T, force=True).deleted) == 1


def test_listing_uploads_needs_no_force_whatever_the_retention(world: World) -> None:
    world.metastore.create_table(replace(world.table, parameters={"table_writer.retention": "168"}))
    assert world.keeper.uploads(T).uploads == ()
    assert world.keeper.uploads(T, abort=True).aborted == ()


def test_the_directory_of_an_abandoned_write_stays_while_a_part_of_it_stays(world: World) -> None:
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", Exception)), pytest.raises(MetastoreError):
        world.write({"d1": frozenset({11})})
    abandoned = str(world.services().log.slots.read(3).entry.partitions[0].new_location)
    world.skipped_seconds += 10 * 86_400
    world.pointed_by_another_tool("d1", abandoned)
    world.write({"d1": frozenset({12})})
    report = world.keeper.vacuum(T)
    assert abandoned in {one.location for one in report.kept}
    assert list(world.store.list(abandoned.removeprefix("s3a://lake/")))


def test_a_rollback_does_not_race_a_vacuum_that_may_still_be_deleting() -> None:
    world = World()
    world.write({"d1": frozenset({1})})
    world.write({"d1": frozenset({2})})
    first = str(world.services().log.slots.read(1).entry.partitions[0].new_location)
    with world.inject(Fault("store", "delete", 1, "before", DeathError)), pytest.raises(DeathError):
        world.vacuum()
    world.pointed_by_another_tool("d1", first)
    world.write({"d1": frozenset({4})})
    with pytest.raises(InvalidInputError, match="vacuumed"):
        world.keeper.rollback(T, version=1)


def test_a_vacuum_that_fails_every_day_leaves_one_entry(world: World) -> None:
    def refuse(call: str, phase: str, _key: str) -> None:
        if (call, phase) == ("delete", "before"):
            raise StorageError("AccessDenied")

    world.skipped_seconds += 5 * 86_400
    for _ in range(5):
        world.store.on_call = refuse
        assert world.keeper.vacuum(T).failures
        world.store.on_call = None
        world.skipped_seconds += 86_400
    assert world.services().log.lister.read(listed_after=0).in_doubt == {3}
    assert world.keeper.recover(T, dry_run=True).unfinished_vacuums == (3,)
    assert world.keeper.vacuum(T).failures == ()
    assert not world.services().log.lister.read(listed_after=0).in_doubt
    assert world.leftovers() == []


def test_a_vacuum_looks_again_before_each_group_of_locations() -> None:
    world = World()
    for number in range(70):
        world.written_by_another_tool(f"d{number:02d}", frozenset({number}))
    world.write({f"d{number:02d}": frozenset({number + 100}) for number in range(70)})

    def come_back(call: str, phase: str, key: str) -> None:
        if (call, phase) == ("delete", "after") and "/dt=" in key:
            world.store.on_call = None
            world.pointed_by_another_tool("d69", "s3a://lake/mart/orders/dt=d69/")

    world.store.on_call = come_back
    report = world.vacuum()
    assert world.rows()["d69"] == frozenset({69})
    assert "a moment ago" in report.kept[-1].reason


def test_a_vacuum_looks_again_once_its_look_is_old_however_many_partitions_there_are() -> None:
    world, seconds = World(), [0.0]
    values = [f"d{number:04d}" for number in range(64 * 20)]
    for value in values:
        world.written_by_another_tool(value, frozenset({1}))
    world.write({value: frozenset({2}) for value in values})

    def be_slow(call: str, phase: str, key: str) -> None:
        if (call, phase) == ("delete", "after") and "/dt=" in key:
            world.store.on_call = None
            seconds[0] += LOOK_SECONDS + 1
            world.pointed_by_another_tool(values[-1], f"s3a://lake/mart/orders/dt={values[-1]}/")
            world.pointed_by_another_tool(values[70], f"s3a://lake/mart/orders/dt={values[70]}/")

    vacuum = Vacuum(world.services(), mirrors, clock=lambda: seconds[0])
    world.store.on_call = be_slow
    report = vacuum.run(Ages(replaced_seconds=0, usual_seconds=0, dead_write_seconds=0), dry_run=False)
    assert {world.rows()[value] for value in (values[70], values[-1])} == {frozenset({1})}
    assert len(report.locations) == len(values) - 2


def test_a_dry_run_of_giving_up_dead_writes_names_their_files_too(world: World) -> None:
    dead_writer(world)
    world.wait_out_claims()
    dry = world.keeper.uploads(T, abort=True, older_than=timedelta(0), force=True, dry_run=True)
    done = world.keeper.uploads(T, abort=True, older_than=timedelta(0), force=True)
    assert (dry.aborted, dry.deleted) == (done.aborted, done.deleted)
    assert done.deleted[0].keys


def test_nothing_is_deleted_after_the_vacuums_own_time(world: World) -> None:
    dead_writer(world)
    world.wait_out_claims()
    seconds = [0.0]

    def fall_asleep(call: str, phase: str, key: str) -> None:
        if (call, phase) == ("put_if_absent", "after") and "/log/" in key:
            seconds[0] = 4_000

    vacuum = Vacuum(world.services(), mirrors, clock=lambda: seconds[0])
    before = data(world) | {u.upload_id for u in world.store.list_uploads("mart/")}
    world.store.on_call = fall_asleep
    ages = Ages(replaced_seconds=0, usual_seconds=0, dead_write_seconds=0)
    report = vacuum.run(ages, dry_run=False)
    world.store.on_call = None
    assert ["time of this vacuum's claim is over" in failure for failure in report.failures] == [True]
    assert (report.locations, report.dead_writes) == ((), ())
    assert data(world) | {u.upload_id for u in world.store.list_uploads("mart/")} == before
    world.vacuum()
    assert world.leftovers() == []


def test_a_vacuum_that_takes_over_another_deletes_nothing_after_its_own_time(world: World) -> None:
    with world.inject(Fault("store", "delete", 1, "before", DeathError)), pytest.raises(DeathError):
        world.vacuum()
    world.wait_out_claims()
    seconds = iter([0.0, *[4_000.0] * 50])
    vacuum = Vacuum(world.services(), mirrors, clock=lambda: next(seconds))
    before = data(world)
    report = vacuum.run(Ages(replaced_seconds=0, usual_seconds=0, dead_write_seconds=0), dry_run=False)
    assert report.version == 3, "it carries out the entry that is there"
    assert "time of this vacuum's claim is over" in report.failures[0]
    assert data(world) == before


def test_it_does_not_take_the_slot_of_a_lost_entry_whose_outcome_is_there_still() -> None:
    world = World()
    for row in range(3):
        world.write({"d1": frozenset({row})})
    world.store.delete([world.layout.entry_key(3)])
    world.keeper.recover(T, accept_loss=True)
    assert world.vacuum().version == 4
    assert [one.version for one in world.keeper.history(T).versions] == [4, 2, 1]
    assert world.write({"d1": frozenset({9})}).entry.version == 5
