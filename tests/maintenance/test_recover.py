"""Recover: what is in doubt is resolved, what came late is corrected, what others did is left alone and named."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from table_writer.errors import ConflictError, InvalidInputError, LostResponseError, MetastoreError, OutcomeUnknownError
from table_writer.model.entry import MAX_TIMEOUT_SECONDS, Outcome
from table_writer.model.location import Location
from table_writer.model.meaning import Operation
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.marks import LATE_CALL_SECONDS
from table_writer.protocol.log.records import LogEnd
from table_writer.protocol.operations.recovery import RecoveredEntry, Recovery
from tests.publish.world import ROOT, TABLE, DeathError, Fault, World

T = str(TABLE)
ONE = {"d1": frozenset({1}), "d2": frozenset({2})}
TWO = {"d1": frozenset({10}), "d2": frozenset({20})}
THREE = {"d1": frozenset({100})}


def late_call(world: World, rows: dict[str, frozenset[int]]) -> Callable[[], object]:
    """Let a write's switch go unanswered and unapplied; returns the call that the server has still to apply."""
    call = "alter_partitions" if set(rows) <= set(world.partitions()) else "add_partitions"
    request = Fault("metastore", call, 1, "before", LostResponseError)
    with world.inject(request, keep_call=True), pytest.raises(OutcomeUnknownError, match="table-writer recover"):
        world.write(rows)
    return world.apply_kept_call


def test_nothing_in_doubt_is_nothing_to_do() -> None:
    world = World()
    world.write(ONE)
    report = world.keeper.recover(T)
    assert (report.settled, report.put_right, report.missing) == ({}, (), ())
    assert repr(report) == "mart.orders: nothing is in doubt"


def test_a_call_that_is_applied_after_newer_rows_is_corrected() -> None:
    world = World()
    world.write(ONE)
    apply = late_call(world, TWO)
    world.wait_out_claims()
    world.keeper.recover(T)
    world.write(THREE)
    assert world.rows() == {**TWO, **THREE}
    apply()  # hours later
    assert world.rows() == TWO, "what a late call can do: readers see older rows"
    report = world.keeper.recover(T)
    assert report.put_right == ("dt=d1",)
    assert world.rows() == {**TWO, **THREE}
    record = world.services().log.slots.read(world.services().log.lister.read().newest)
    assert (record.entry.operation, record.entry.recovers, record.entry.replaced) == (Operation.RECOVER, 4, ())
    assert world.keeper.recover(T).put_right == ()


def test_a_dry_run_names_what_is_wrong_and_changes_nothing() -> None:
    world = World()
    world.write(ONE)
    apply = late_call(world, TWO)
    world.wait_out_claims()
    dry = world.keeper.recover(T, dry_run=True)
    assert dry.settled == {2: "in doubt"}
    world.keeper.recover(T)
    world.write(THREE)
    apply()
    before = {info.key for info in world.store.list("")}, world.rows()
    assert world.keeper.recover(T, dry_run=True).put_right == ("dt=d1",)
    assert ({info.key for info in world.store.list("")}, world.rows()) == before


def test_vacuum_keeps_the_files_that_a_late_call_has_brought_back() -> None:
    world = World()
    world.write(ONE)
    apply = late_call(world, TWO)
    world.wait_out_claims()
    world.keeper.recover(T)
    world.write(THREE)
    apply()
    world.vacuum()
    assert world.rows() == TWO
    world.keeper.recover(T)
    assert world.rows() == {**TWO, **THREE}
    world.vacuum()
    assert world.rows() == {**TWO, **THREE}
    assert world.leftovers() == []


def test_a_drop_that_comes_late_is_corrected() -> None:
    world = World()
    world.write(ONE)
    world.write({"d3": frozenset({3})})
    drop = world.metastore.drop_partition
    kept: list[Callable[[], object]] = []

    def unanswered(table: object, values: object, *, before_send: object = None) -> None:
        kept.append(lambda: drop(table, values))  # type: ignore[arg-type]
        raise LostResponseError("no answer")

    world.metastore.drop_partition = unanswered  # type: ignore[method-assign, assignment]
    report = world.keeper.rollback(T, version=1)
    del world.metastore.drop_partition
    assert "still to be dropped" in report.notes[0]
    world.wait_out_claims()
    world.keeper.recover(T)
    world.write({"d3": frozenset({33})})
    kept[0]()
    assert "d3" not in world.rows(), "what a late drop can do"
    assert world.keeper.recover(T).put_right == ("dt=d3",)
    assert world.rows() == {**ONE, "d3": frozenset({33})}


def test_a_partition_that_another_tool_dropped_stays_dropped_and_is_named() -> None:
    world = World()
    world.write(ONE)
    world.metastore.drop_partition(world.table, ("d1",))
    report = world.keeper.recover(T)
    assert report.missing == ("dt=d1",)
    assert set(world.partitions()) == {"d2"}


def test_a_partition_that_another_tool_moved_stays_moved() -> None:
    world = World()
    world.write(ONE)
    world.written_by_another_tool("d1", frozenset({9}))
    assert world.keeper.recover(T).put_right == ()
    assert world.rows()["d1"] == frozenset({9})


def test_what_another_tool_moved_during_a_publish_is_superseded_and_named() -> None:
    world = World()
    world.write(ONE)
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
        world.write(TWO)
    world.written_by_another_tool("d2", frozenset({9}))
    world.wait_out_claims()
    report = world.keeper.recover(T)
    assert report.settled == {2: "published"}
    assert report.superseded == ("dt=d2",)
    assert world.rows() == {"d1": frozenset({10}), "d2": frozenset({9})}


def test_a_metastore_set_back_to_a_backup_is_corrected() -> None:
    world = World()
    world.write(ONE)
    backup = world.partitions()
    world.write(TWO)
    world.write(THREE)
    for value, partition in backup.items():
        world.pointed_by_another_tool(value, partition.location)
    assert world.keeper.recover(T).put_right == ("dt=d1", "dt=d2")
    assert world.rows() == {**TWO, **THREE}


def test_a_backup_that_is_many_versions_old_is_corrected_at_once() -> None:
    world = World()
    for number in range(25):
        world.write({f"d{number}": frozenset({number})})
    backup = world.partitions()
    for number in range(25):
        world.write({f"d{number}": frozenset({100 + number})})
    for value, partition in backup.items():
        world.pointed_by_another_tool(value, partition.location)
    assert len(world.keeper.recover(T).put_right) == 25
    assert world.rows() == {f"d{number}": frozenset({100 + number}) for number in range(25)}


@pytest.mark.parametrize("call", ["put_if_absent", "put", "list_page", "get", "delete"])
def test_trino_29428_a_failure_after_the_switch_deletes_no_live_rows(call: str) -> None:
    """Trino deleted new files when collecting statistics failed after the switch had taken effect."""
    world = World()
    world.write(ONE)
    plan = world.plan()
    switched: list[bool] = []

    def fail(operation: str, phase: str, _key: str) -> None:
        if switched and (operation, phase) == (call, "before"):
            raise OSError(f"{call} fails after the switch")

    def note(operation: str, phase: str) -> None:
        if (operation, phase) == ("alter_partitions", "after"):
            switched.append(True)

    world.metastore.on_call, world.store.on_call = note, fail
    with suppress(OSError):  # whatever the caller gets, the rows are what matters
        world.write(TWO, plan=plan)
    world.metastore.on_call = world.store.on_call = None
    assert switched
    assert world.rows() == TWO


def test_iceberg_11866_a_call_that_succeeded_and_is_sent_again_by_a_proxy_is_no_failure() -> None:
    """A client of a highly available metastore repeated a call whose answer was lost, and believed the refusal."""
    world = World()
    original = world.metastore.add_partitions

    def twice(*arguments: object, **named: object) -> None:
        original(*arguments, **named)  # type: ignore[arg-type]
        original(*arguments, **named)  # type: ignore[arg-type]  # refused: the partitions exist

    world.metastore.add_partitions = twice  # type: ignore[method-assign]
    published = world.write(ONE)
    assert published.entry.version == 1
    assert world.rows() == ONE
    assert not world.services().log.lister.read(listed_after=0).in_doubt


def test_iceberg_3717_a_call_applied_after_the_clients_timeout_loses_no_rows() -> None:
    """A client gave up, deleted its files, and then the server applied the call: the table pointed at nothing."""
    world = World()
    world.write(ONE)
    apply = late_call(world, TWO)
    assert world.rows() == ONE
    apply()
    assert world.rows() == TWO, "the files of an unknown outcome are kept"
    world.wait_out_claims()
    assert world.keeper.recover(T).settled == {2: "published"}
    assert world.rows() == TWO


def test_recovers_and_writers_at_once_lose_nothing() -> None:
    world = World()
    world.write(ONE)
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
        world.write(TWO)
    world.wait_out_claims()
    wrote: list[int] = []

    def write(number: int) -> None:
        try:
            world.write({"d1": frozenset({number})})
            wrote.append(number)
        except ConflictError:
            pass  # somebody else was first

    threads = [threading.Thread(target=world.keeper.recover, args=(T,), daemon=True) for _ in range(3)]
    threads += [threading.Thread(target=write, args=(number,), daemon=True) for number in range(1000, 1004)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = world.rows()
    assert rows["d2"] == frozenset({20})
    assert rows["d1"] in [frozenset({number}) for number in wrote] or (not wrote and rows["d1"] == frozenset({10}))
    assert world.keeper.recover(T).settled == {}


def test_another_tools_files_of_a_superseded_partition_are_never_scheduled() -> None:
    world = World()
    world.written_by_another_tool("d1", frozenset({7}))
    world.written_by_another_tool("d2", frozenset({8}))
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
        world.write(TWO)
    world.store.put("mart/orders/moved/part-0.json", b"[9]")
    world.pointed_by_another_tool("d1", f"{ROOT}moved/")
    world.wait_out_claims()
    assert world.keeper.recover(T).superseded == ("dt=d1",)
    world.skipped_seconds += 10 * 86_400
    world.keeper.vacuum(T)
    assert world.store.head("mart/orders/dt=d1/part-0.json") is not None, "this library never replaced it"
    assert world.store.head("mart/orders/dt=d2/part-0.json") is None
    assert world.rows() == {"d1": frozenset({9}), "d2": frozenset({20})}
    assert not any("[10]" in _text(world, info.key) for info in world.store.list(world.layout.all_data.key))


def _text(world: World, key: str) -> str:
    stored = world.store.get(key)
    return stored.body.decode() if stored else ""


def test_what_a_recovered_entry_replaces_stays_for_its_whole_retention() -> None:
    world = World()
    world.write(ONE)
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
        world.write(TWO)
    key = world.layout.entry_key(2)
    stored = world.store.get(key)
    assert stored is not None
    body = json.loads(stored.body)
    week = timedelta(days=7)
    for values in (body, *body["body"]["replaced"]):
        name = "created_at" if values is body else "delete_after"
        values[name] = (datetime.fromisoformat(values[name]) - week).isoformat()
    world.store.put(key, json.dumps(body).encode())  # as if it had been claimed a week ago
    world.wait_out_claims()
    world.keeper.recover(T)
    left = world.history().state.left_locations.values()
    assert {round(one.retention_seconds or 0) for one in left} == {3 * 86_400}


def test_a_location_that_is_none_is_another_tools() -> None:
    world = World()
    world.write(ONE)
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
        world.write(TWO)
    world.metastore.put_partition(TABLE, replace(world.partitions()["d1"], location="/user/hive/d1"))
    world.wait_out_claims()
    assert world.keeper.recover(T).superseded == ("dt=d1",)
    assert world.partitions()["d2"].parameters["table_writer.version"] == "3"
    with pytest.raises(InvalidInputError, match=r"location of partition \('d1',\)"):
        world.vacuum()


def test_a_drop_that_somebody_made_on_purpose_is_not_undone_for_ever() -> None:
    world = World()
    world.write(ONE)
    world.write({"d3": frozenset({3})})
    with world.inject(Fault("metastore", "drop_partition", 1, "before", Exception)):
        world.keeper.rollback(T, version=1)
    world.wait_out_claims()
    world.keeper.recover(T)
    world.write({"d3": frozenset({33})})
    world.skipped_seconds += 2 * 86_400 + 1
    world.metastore.drop_partition(world.table, ("d3",))
    assert world.keeper.recover(T).put_right == ("dt=d3",), "nobody has looked since: the call may have come late"
    world.skipped_seconds += 2 * 86_400 + 1
    world.keeper.recover(T)
    world.metastore.drop_partition(world.table, ("d3",))
    report = world.keeper.recover(T)
    assert (report.put_right, report.missing) == ((), ("dt=d3",))


def test_put_right_names_only_what_was_corrected() -> None:
    world = World()
    world.write(ONE)
    apply = late_call(world, TWO)
    world.wait_out_claims()
    world.keeper.recover(T)
    world.write(THREE)
    apply()

    def take(call: str, phase: str, _key: str) -> None:
        if (call, phase) == ("put_if_absent", "before"):
            world.store.on_call = None
            world.written_by_another_tool("d1", frozenset({9}))

    world.store.on_call = take
    report = world.keeper.recover(T)
    assert (report.put_right, report.superseded) == ((), ("dt=d1",))
    assert world.rows()["d1"] == frozenset({9})


def test_ctrl_c_inside_the_claim_says_what_to_do() -> None:
    world = World()
    plan = world.plan()
    after = Fault("store", "put_if_absent", 1, "after", KeyboardInterrupt)
    with world.inject(after), pytest.raises(KeyboardInterrupt) as stopped:
        world.write(ONE, plan=plan)
    assert "table-writer recover mart.orders" in stopped.value.__notes__[0]


def test_a_dead_vacuum_deletes_nothing_that_readers_have_left_since() -> None:
    world = World()
    world.write(ONE)
    apply = late_call(world, TWO)
    world.wait_out_claims()
    world.keeper.recover(T)
    world.write(THREE)
    with world.inject(Fault("store", "delete", 1, "before", DeathError)), pytest.raises(DeathError):
        world.vacuum()
    world.wait_out_claims()
    apply()
    assert world.rows() == TWO
    report = world.keeper.recover(T)
    assert report.put_right == ("dt=d1",)
    late = next(p.new_location for p in world.services().log.slots.read(2).entry.partitions if p.values == ("d1",))
    assert list(world.store.list(str(late).removeprefix("s3a://lake/"))), "queries that run now may read it"


def written_where_a_late_call_took_it(*, drop: Callable[[World], object]) -> World:
    """Let a call add d3 late, at a placeholder, when ``drop`` has dropped it; and another tool write there."""
    world = World()
    world.write(ONE)
    apply = late_call(world, {**THREE, "d3": frozenset({3})})
    world.wait_out_claims()
    world.keeper.recover(T)
    drop(world)
    assert "d3" not in world.partitions()
    apply()
    location = Location.parse(world.partitions()["d3"].location)
    assert world.layout.is_placeholder(location)
    world.store.put(f"{location.key}another.json", b"[8]")
    return world


def test_rows_of_another_tool_where_a_late_call_took_a_partition_are_named_and_nothing_builds_on_them() -> None:
    world = written_where_a_late_call_took_it(drop=lambda world: world.metastore.drop_partition(world.table, ("d3",)))
    assert world.keeper.recover(T).superseded == ("dt=d3",)
    with pytest.raises(ConflictError, match="to which a call that came late had taken them"):
        world.write({"d3": frozenset({9})}, plan=world.plan(WriteMode.APPEND))
    assert world.rows()["d3"] == frozenset({8})


def test_what_another_tool_moves_while_a_late_call_of_an_abandoned_write_is_undone_stays_there() -> None:
    world = World()
    world.write(ONE)
    apply = late_call(world, THREE)
    world.written_by_another_tool("d1", frozenset({5}))
    world.wait_out_claims()
    assert world.keeper.recover(T).settled == {2: "abandoned"}
    apply()
    assert world.rows()["d1"] == frozenset({100})

    def move(call: str, phase: str, key: str) -> None:
        if (call, phase) == ("put_if_absent", "after") and key.endswith(".json"):
            world.store.on_call = None
            world.store.put("mart/orders/elsewhere/part-0.json", b"[6]")
            world.pointed_by_another_tool("d1", f"{ROOT}elsewhere/")

    world.store.on_call = move
    world.keeper.recover(T)
    assert world.store.on_call is None, "the tool came between the claim and the look after it"
    assert world.rows()["d1"] == frozenset({6})


def test_of_a_partition_that_was_dropped_such_rows_take_nothings_place() -> None:
    world = written_where_a_late_call_took_it(drop=lambda world: world.keeper.rollback(T, version=1))
    report = world.keeper.recover(T)
    assert (report.put_right, report.superseded) == ((), ())
    world.write({"d3": frozenset({9})}, plan=world.plan(WriteMode.APPEND))
    assert world.rows()["d3"] == frozenset({8, 9})


def test_another_tool_that_returns_to_its_own_old_place_is_left_alone() -> None:
    world = World()
    world.written_by_another_tool("d1", frozenset({1}))
    world.write({"d1": frozenset({2})})
    world.keeper.rollback(T, version=0)
    world.write({"d1": frozenset({3})})
    world.written_by_another_tool("d1", frozenset({4}))
    assert world.keeper.recover(T).put_right == ()
    assert world.rows()["d1"] == frozenset({4})


def test_a_late_rollback_to_other_tools_rows_is_corrected() -> None:
    world = World()
    world.written_by_another_tool("d1", frozenset({1}))
    world.write({"d1": frozenset({2})})
    unanswered = Fault("metastore", "alter_partitions", 1, "before", LostResponseError)
    with world.inject(unanswered, keep_call=True), pytest.raises(OutcomeUnknownError):
        world.keeper.rollback(T, version=0)
    world.wait_out_claims()
    world.keeper.recover(T)
    world.write({"d1": frozenset({3})})
    world.apply_kept_call()
    assert world.rows()["d1"] == frozenset({1})
    assert world.keeper.recover(T).put_right == ("dt=d1",)
    assert world.rows()["d1"] == frozenset({3})


def replaced_since(world: World) -> None:
    world.write(TWO)
    world.write(THREE)


def there_still(world: World) -> None:
    world.write(TWO)
    world.write({"d2": frozenset({200})})
    world.written_by_another_tool("d2", frozenset({9}))


def deleted_since(world: World) -> None:
    """A vacuum has deleted what readers had left: of the entry itself nothing but the log is there."""
    world.write(TWO)
    world.write({**THREE, "d2": frozenset({200})})
    world.vacuum()


def given_up(world: World) -> None:
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", Exception)), pytest.raises(MetastoreError):
        world.write(TWO)
    world.write(THREE)


def done_again(world: World) -> None:
    late_call(world, TWO)
    world.wait_out_claims()
    world.keeper.recover(T)
    world.write(THREE)


def done_again_in_part(world: World) -> None:
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
        world.write(TWO)
    world.written_by_another_tool("d2", frozenset({9}))
    world.wait_out_claims()
    world.keeper.recover(T)
    world.write(THREE)


@pytest.mark.parametrize("past", [replaced_since, there_still, deleted_since, given_up, done_again, done_again_in_part])
def test_an_outcome_that_is_lost_is_found_again_and_nothing_is_switched(past: Callable[[World], None]) -> None:
    world = World()
    world.write(ONE)
    past(world)
    world.wait_out_claims()
    key = world.layout.outcome_key(2)
    before, seen, newest = world.store.get(key), world.partitions(), world.history().newest
    assert before is not None
    outcome = json.loads(before.body)["outcome"]
    world.store.delete([key])
    assert world.keeper.recover(T, dry_run=True).settled == {2: "in doubt"}
    report = world.keeper.recover(T)
    assert (report.settled, report.put_right) == ({2: outcome}, ())
    again = world.store.get(key)
    assert again is not None
    assert json.loads(again.body) == json.loads(before.body)
    assert (world.partitions(), world.history().newest) == (seen, newest)
    log = world.services().log
    is_marked = 2 in log.lister.read(listed_after=0).unverified
    assert is_marked is not bool(log.marks.last_word(2)), (
        "its claimant may have died in a call, if nobody has the last word"
    )


def test_a_write_goes_on_over_an_entry_that_has_lost_its_outcome() -> None:
    world = World()
    world.write(ONE)
    replaced_since(world)
    world.store.delete([world.layout.outcome_key(2)])
    world.wait_out_claims()
    assert world.write({"d2": frozenset({200})}, plan=world.plan(WriteMode.APPEND)).entry.version == 4
    assert world.rows() == {**THREE, "d2": frozenset({20, 200})}
    assert world.services().log.slots.outcome(2) is Outcome.PUBLISHED


@pytest.mark.parametrize("lost", ["all files", "one file is shorter"])
def test_a_write_whose_files_are_gone_is_given_up_and_readers_keep_what_they_see(lost: str) -> None:
    world = World()
    world.write(ONE)
    with world.inject(Fault("metastore", "alter_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
        plan = world.plan()
        world.write(TWO, plan=plan)
    for found in list(world.store.list(world.layout.data(plan.write_id).key)):
        if lost == "all files":
            world.store.delete([found.key])
        elif "dt=d1" in found.key:
            world.store.put(found.key, b"[1")
    world.wait_out_claims()
    services = world.services()
    done = Recovery(services).recover(services.log.slots.read(2), world.table, end=LogEnd(2))
    here = {(value,): one.location for value, one in world.partitions().items()}
    assert done == RecoveredEntry(version=2, outcome=Outcome.ABANDONED, superseded=here)
    assert world.rows() == ONE
    assert world.history().records.in_doubt == ()


def test_fewer_files_than_were_written_are_switched_to_where_another_tool_has_put_its_own() -> None:
    world = World()
    with world.inject(Fault("metastore", "add_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
        plan = world.plan()
        world.write({"d1": frozenset({10, 11})}, plan=plan)
    (written,) = world.store.list(world.layout.data(plan.write_id).key)
    world.store.delete([written.key])
    world.store.put(f"{written.key.rpartition('/')[0]}/part-0.json", b"[7]")
    world.wait_out_claims()
    assert world.keeper.recover(T).settled == {1: "published"}
    assert world.rows() == {"d1": frozenset({7})}


def test_once_no_call_can_come_any_more_an_append_puts_all_partitions_right() -> None:
    world = World()
    world.write(ONE)
    apply = late_call(world, TWO)
    world.wait_out_claims()
    world.keeper.recover(T)
    world.write(THREE)
    apply()
    world.skipped_seconds += 2 * 86_400 + 1
    world.write({"d2": frozenset({200})}, plan=world.plan(WriteMode.APPEND))
    assert world.rows() == {**THREE, "d2": frozenset({20, 200})}, "d1 as well, to which it did not append"
    world.skipped_seconds += 2 * 86_400 + 1
    world.write({"d2": frozenset({201})}, plan=world.plan(WriteMode.APPEND))
    assert world.rows() == {**THREE, "d2": frozenset({20, 200, 201})}
    assert world.services().log.lister.read(listed_after=0).unverified == frozenset()


@pytest.mark.parametrize("looking", ["recover", "vacuum"])
def test_a_look_before_the_last_call_could_come_is_not_the_last_look(looking: str) -> None:
    world = World()
    world.write(ONE)
    apply = late_call(world, TWO)
    world.wait_out_claims()
    world.keeper.recover(T)
    world.write(THREE)

    def it_stops_for_days(call: str, phase: str) -> None:
        if phase == "after" and call in {"get_partitions", "get_all_partitions"}:
            world.metastore.on_call = None
            apply()
            world.skipped_seconds += MAX_TIMEOUT_SECONDS + LATE_CALL_SECONDS

    world.metastore.on_call = it_stops_for_days
    world.keeper.recover(T) if looking == "recover" else world.vacuum()
    world.write({"d1": frozenset({5})}, plan=world.plan(WriteMode.APPEND))
    assert world.rows()["d1"] == THREE["d1"] | {5}


def test_of_several_in_doubt_every_one_is_resolved_and_named() -> None:
    world = World()
    world.write(ONE)
    for value in ONE:
        with world.inject(Fault("metastore", "alter_partitions", 1, "before", DeathError)), pytest.raises(DeathError):
            world.write({value: TWO[value]})
    world.wait_out_claims()
    report = world.keeper.rollback(T, version=1)
    assert report.notes[:2] == ("version 2 was in doubt: published now", "version 3 was in doubt: published now")
    assert world.rows() == ONE


@pytest.mark.parametrize("times", [18, 20])
def test_partitions_that_another_tool_takes_back_again_and_again_are_corrected_twenty_times_at_most(times: int) -> None:
    world = World()
    world.write(ONE)
    backup = world.partitions()["d1"].location
    world.write(TWO)
    world.pointed_by_another_tool("d1", backup)
    left = [backup] * times

    def take_back(call: str, phase: str) -> None:
        if (call, phase) == ("alter_partitions", "after") and left:
            world.pointed_by_another_tool("d1", left.pop())

    world.metastore.on_call = take_back
    if times == 20:
        with pytest.raises(MetastoreError, match="were corrected 20 times, and are elsewhere again"):
            world.keeper.recover(T)
    else:
        assert world.keeper.recover(T).put_right == ("dt=d1",)
        assert world.rows() == TWO
