"""What concurrent writers do to each other: nothing, unless they want the same partition."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest

from table_writer.config import TableWriterConfig
from table_writer.errors import ConflictError, LostResponseError, MetastoreError, OutcomeUnknownError
from table_writer.model.entry import Outcome
from table_writer.model.meaning import Operation
from table_writer.model.table import Column
from table_writer.model.table_read import ReadVersion
from table_writer.model.write import WritePlan
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.deadline import Deadline
from table_writer.protocol.log.records import LogEnd
from table_writer.protocol.operations.recovery import RecoveredEntry, Recovery
from table_writer.protocol.operations.switch import Switch
from tests.publish.world import DIED, REFUSED, ROOT, TABLE, DeathError, Fault, Rows, World, written

ONE = {"d1": frozenset({1})}
TWO = {"d1": frozenset({2})}
OTHER = {"d2": frozenset({3})}


def test_writers_of_different_partitions_never_conflict(world: World) -> None:
    plan = world.plan()
    world.write(ONE)
    published = world.write(OTHER, plan=plan)
    assert published.entry.version == 2
    assert published.entry.base_version == 0
    assert world.rows() == {**ONE, **OTHER}


def test_of_two_writers_of_one_partition_the_first_to_publish_wins(world: World) -> None:
    plan = world.plan()
    first = world.write(ONE)
    with pytest.raises(ConflictError, match=first.entry.write_id):
        world.write(TWO, plan=plan)
    assert world.rows() == ONE
    keys = [info.key for info in world.store.list("mart/orders/_table_writer/data/")]
    assert all(first.entry.write_id in key for key in keys), "the loser's files are gone"


def test_a_writer_that_loses_the_slot_to_another_partition_takes_the_next(world: World) -> None:
    barrier = threading.Barrier(8, timeout=60)

    def one(number: int) -> int:
        rows = {f"d{number}": frozenset({number})}
        return world.write(rows, before_publish=barrier.wait).entry.version

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(one, range(8))) == list(range(1, 9))
    assert world.rows() == {f"d{number}": frozenset({number}) for number in range(8)}


def test_of_many_racing_writers_of_one_partition_exactly_one_wins(world: World) -> None:
    barrier = threading.Barrier(8, timeout=60)

    def one(number: int) -> int | None:
        with suppress(ConflictError):
            world.write({"d1": frozenset({number})}, before_publish=barrier.wait)
            return number
        return None

    with ThreadPoolExecutor(8) as pool:
        (won,) = (number for number in pool.map(one, range(8)) if number is not None)
    assert world.rows() == {"d1": frozenset({won})}


def test_a_claim_of_a_dead_writer_is_waited_for_then_recovered(caplog: pytest.LogCaptureFixture) -> None:
    world = written(ONE)
    world.fails(DIED, lambda: world.write(TWO))
    assert world.rows() == ONE
    _, waits = resolved(world, 2)
    assert waits[:4] == [0.05, 0.1, 0.2, 0.4], "a claim is left alone until it has timed out"
    assert caplog.text.count("is being published by") == 1
    assert world.rows() == TWO
    log = world.services().log
    record = log.slots.read(3)
    assert record.entry.operation is Operation.RECOVER
    assert record.entry.recovers == 2
    assert log.slots.outcome(2) is Outcome.PUBLISHED


def resolved(world: World, version: int) -> tuple[RecoveredEntry, list[float]]:
    """Resolve an entry; returns how, and the waits for its claim, which let it time out."""
    services = world.services(TableWriterConfig(metastore_timeout_seconds=1))
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        world.skipped_seconds += 60

    return Recovery(replace(services, sleep=sleep)).resolve(version, world.table, end=LogEnd(version)), waits


@pytest.mark.parametrize("rows", [TWO, {**TWO, **OTHER}], ids=["replaces", "adds and replaces"])
def test_a_switch_of_a_dead_writer_that_readers_see_is_confirmed_without_a_wait(rows: Rows) -> None:
    world = written(ONE)
    world.fails(Fault("metastore", "alter_partitions", 1, "after", DeathError), lambda: world.write(rows))
    done, waits = resolved(world, 2)
    assert done == RecoveredEntry(version=2, outcome=Outcome.PUBLISHED)
    assert waits == []
    assert [record.outcome for record in world.history().records] == [Outcome.PUBLISHED] * 2
    assert world.rows() == rows
    world.write({"d1": frozenset({4})})
    assert world.rows() == {**rows, "d1": frozenset({4})}


def test_within_a_day_after_a_recovery_a_claim_is_waited_for_whatever_readers_see() -> None:
    world = written(ONE)
    world.fails(DIED, lambda: world.write(TWO))
    world.recover_later()
    world.fails(Fault("metastore", "alter_partitions", 1, "after", DeathError), lambda: world.write(ONE))
    _, waits = resolved(world, 4)
    assert waits
    assert world.rows() == ONE


def test_a_rollback_that_is_yet_to_drop_a_partition_is_waited_for() -> None:
    world = written(ONE)
    world.write(OTHER)
    world.fails(replace(DIED, phase="after"), lambda: world.keeper.rollback(str(world.name), version=1))
    _, waits = resolved(world, 3)
    assert waits
    assert world.partitions().keys() == ONE.keys()


def test_a_rollback_that_another_tools_call_looks_like_is_waited_for(world: World) -> None:
    world.written_by_another_tool("d1", frozenset({1}))
    there = world.partitions()["d1"].location
    world.write(TWO)
    world.fails(DIED, lambda: world.keeper.rollback(str(world.name), version=0))
    world.pointed_by_another_tool("d1", there)
    _, waits = resolved(world, 2)
    assert waits, "the rollback's own call may still come"


def test_a_claimant_without_an_answer_believes_the_log() -> None:
    world = written(ONE)

    def loses_the_answer() -> None:
        assert world.keeper.recover(str(world.name)).settled == {2: "published"}
        world.write({"d1": frozenset({4})})
        raise LostResponseError("lost")

    world.at_metastore("alter_partitions", "after", loses_the_answer)
    assert world.write(TWO).entry.version == 2
    assert world.rows() == {"d1": frozenset({4})}
    assert world.history().records.in_doubt == ()


def test_rows_that_a_recovery_published_after_the_plan_are_a_conflict() -> None:
    world = written(ONE)
    world.fails(DIED, lambda: world.write(TWO))
    plan = world.plan()
    assert plan.in_doubt == {2}
    world.wait_out_claims()
    with pytest.raises(ConflictError):
        world.write({"d1": frozenset({4})}, plan=plan)
    assert world.rows() == TWO
    world.write({"d1": frozenset({4})})
    assert world.rows() == {"d1": frozenset({4})}


def test_recovering_twice_changes_nothing_more(world: World) -> None:
    plan = world.plan()
    world.fails(Fault("store", "put_if_absent", 2, "before", DeathError), lambda: world.write(ONE, plan=plan))
    services = world.services()
    record = services.log.slots.read(1)
    Recovery(services).recover(record, world.table, end=LogEnd(1))
    before = world.located()
    Recovery(services).recover(record, world.table, end=LogEnd(2))
    assert (world.located(), services.log.slots.outcome(1)) == (before, Outcome.PUBLISHED)


def test_a_partition_dropped_before_the_switch_is_added_again() -> None:
    world = written({**ONE, **OTHER})
    drop = lambda: world.metastore.drop_partition(world.table, ("d1",))  # noqa: E731
    world.at_metastore("alter_partitions", "before", drop)
    world.write({"d1": frozenset({5}), "d2": frozenset({6})})
    assert world.rows() == {"d1": frozenset({5}), "d2": frozenset({6})}


def test_a_table_that_was_dropped_and_created_meanwhile_is_a_conflict(world: World) -> None:
    plan = world.plan()
    table = world.table
    world.metastore.drop_table(TABLE)
    world.metastore.create_table(replace(table, created_at_seconds=table.created_at_seconds + 5))
    with pytest.raises(ConflictError, match="dropped"):
        world.write(ONE, plan=plan)


def test_a_table_whose_columns_changed_meanwhile_is_a_conflict(world: World) -> None:
    plan = world.plan()
    world.metastore.create_table(replace(world.table, columns=(Column("id", "string"),)))
    with pytest.raises(ConflictError, match=r"mart\.orders was altered \(.* written, or staged; nothing was published"):
        world.write(ONE, plan=plan)


def switch_of(world: World) -> Switch:
    return Switch(
        world.metastore, world.store, world.layout, call_timeout_seconds=2, counts=lambda _entry, _parameters: False
    )


def test_an_unknown_outcome_of_another_write_is_no_unknown_outcome_of_ours(world: World) -> None:
    world.fails(Fault("metastore", "add_partitions", 1, "before", DeathError), lambda: world.write(ONE))
    world.wait_out_claims()
    lost = Fault("metastore", "add_partitions", 1, "before", OutcomeUnknownError)
    with world.inject(lost), pytest.raises(MetastoreError, match=r"Nothing of write .* was published"):
        world.write(TWO)


def test_a_recoverer_has_its_own_time_however_little_the_dead_writer_had(world: World) -> None:
    hasty = TableWriterConfig(metastore_timeout_seconds=1, publish_timeout_seconds=7)
    world.fails(Fault("metastore", "add_partitions", 1, "before", DeathError), lambda: world.write(ONE, config=hasty))
    world.wait_out_claims()
    world.write(OTHER)
    with pytest.raises(ConflictError):
        world.write(TWO, plan=replace(world.plan(), in_doubt=frozenset({1})))
    assert world.rows() == {**ONE, **OTHER}


def test_the_checkpoint_is_kept_up_with_so_that_the_log_is_not_listed_from_its_start(world: World) -> None:
    for number in range(120):
        world.write({f"d{number}": frozenset({number})})
    assert world.services().log.lister.read().listed_after >= 50


def test_a_checkpoint_that_is_ahead_of_what_a_write_has_seen_hides_nothing_from_it() -> None:
    world = written(ONE)
    late, later = world.plan(), world.plan()
    world.write(OTHER)
    world.write(OTHER)
    checkpoint = {"version": 3, "log_id": late.log_id}
    world.store.put(world.layout.checkpoint_key, json.dumps(checkpoint).encode())
    assert world.services().log.lister.read().listed_after == 3
    assert world.write(TWO, plan=late).entry.version == 4
    with pytest.raises(ConflictError, match=r"version 4, .* planned at version 1: dt=d1"):
        world.write(TWO, plan=later)


def test_a_write_that_lost_its_slot_and_gives_up_leaves_no_files(world: World) -> None:
    plan = world.plan()
    world.at_store("put_if_absent", "before", lambda: world.write(TWO), world.layout.entry_key(1))
    with pytest.raises(ConflictError):
        world.write(ONE, plan=plan)
    assert world.rows() == TWO
    assert list(world.store.list(world.layout.data(plan.write_id).key)) == []


def test_nothing_is_sent_after_the_claim_has_timed_out() -> None:
    world, now = written(ONE), [0.0]
    deadline = Deadline(100, clock=lambda: now[0])
    draft = world.write(TWO).entry
    here = world.partitions()["d1"]
    moved = replace(draft.partitions[0], old_location=here.location, new_location=f"{ROOT}late/")
    send = world.metastore.alter_partitions

    def slow(*arguments: object, before_send: Callable[[], None]) -> None:
        now[0] = 99  # another thread's call held the connection
        send(*arguments, before_send=before_send)  # type: ignore[arg-type]

    world.metastore.alter_partitions = slow  # type: ignore[method-assign, assignment]
    with pytest.raises(MetastoreError, match="not enough"):
        switch_of(world).apply(world.table, replace(draft, partitions=(moved,)), {("d1",): here}, deadline)
    assert world.rows() == TWO


def test_a_drop_that_waited_past_its_claim_is_not_sent() -> None:
    world = written(ONE)
    now = [0.0]
    deadline = Deadline(100, clock=lambda: now[0])
    draft = world.write(TWO).entry
    gone = replace(draft, partitions=(replace(draft.partitions[0], new_location=None),))
    send = world.metastore.drop_partition

    def slow(*arguments: object, **named: object) -> None:
        now[0] = 99
        send(*arguments, **named)  # type: ignore[arg-type]

    world.metastore.drop_partition = slow  # type: ignore[method-assign]
    (note,) = switch_of(world).apply(world.table, gone, {("d1",): world.partitions()["d1"]}, deadline)
    assert "1 partition without rows still to be dropped" in note
    assert (world.rows(), set(world.partitions())) == ({}, {"d1"})


def test_partitions_that_a_refused_mix_added_empty_stay_and_show_no_rows() -> None:
    world = written(ONE)
    world.fails(REFUSED, lambda: world.write({**TWO, **OTHER}), MetastoreError)
    assert world.rows() == ONE
    world.write({**TWO, **OTHER})
    assert world.rows() == {**TWO, **OTHER}


def overtaken(world: World) -> int:
    """A claims version 2 over d1, and is slow; B appends to d2, is told version 3, and reads; then A's switch comes."""
    world.write({**ONE, **OTHER})
    told: list[int] = []

    def append() -> None:
        told.append(world.write({"d2": frozenset({4})}, plan=world.plan(WriteMode.APPEND)).entry.version)

    world.at_metastore("alter_partitions", "before", append)
    assert world.write(TWO).entry.version == 2
    return told[0]


def based_on(world: World, version: int, mode: WriteMode = WriteMode.OVERWRITE_PARTITIONS) -> WritePlan:
    return replace(world.plan(mode), based_on=version, base_version=int(version))


@pytest.mark.parametrize("mode", [WriteMode.OVERWRITE_PARTITIONS, WriteMode.APPEND])
def test_rows_based_on_a_result_have_not_seen_what_had_claimed_before_it_and_came_after(
    world: World, mode: WriteMode
) -> None:
    version = overtaken(world)
    with pytest.raises(ConflictError, match=r"version 2.*after version 3, on which its rows are based"):
        world.write({"d1": frozenset({101})}, plan=based_on(world, version, mode))
    world.write({"d2": frozenset({104})}, plan=based_on(world, version))  # of another partition
    assert world.rows() == {**TWO, "d2": frozenset({104})}


def compacted(world: World) -> int:
    return world.compact("d2").entry.version


def vacuumed(world: World) -> int:
    dead = f"{world.layout.all_data.key}20200101T000000-{5:016x}/dt=d1/part-0.json"
    world.store.put(dead, b"[1]")
    world.vacuum()
    return world.services().log.lister.read(listed_after=0).newest


def abandoned(world: World) -> int:
    with world.inject(REFUSED), pytest.raises(MetastoreError):
        world.write({"d2": frozenset({5})}, plan=world.plan(WriteMode.APPEND))
    return world.services().log.lister.read(listed_after=0).newest


@pytest.mark.parametrize("claim", [compacted, vacuumed, abandoned])
def test_the_number_of_any_entry_says_what_had_not_ended_when_it_was_claimed(claim: Callable[[World], int]) -> None:
    world = World()
    world.write({**ONE, **OTHER})
    world.write({"d2": frozenset({4})}, plan=world.plan(WriteMode.APPEND))
    told: list[int] = []
    world.at_metastore("alter_partitions", "before", lambda: told.append(claim(world)))
    world.write({"d1": frozenset({10})}, plan=world.plan(WriteMode.APPEND))
    assert told == [4]
    with pytest.raises(ConflictError, match=r"version 3.*after version 4, on which its rows are based"):
        world.write({"d1": frozenset({101})}, plan=based_on(world, 4))
    assert world.rows()["d1"] == frozenset({1, 10})


def test_the_number_of_a_recovery_says_what_had_not_ended_when_that_was_claimed() -> None:
    world = World()
    world.write({**ONE, **OTHER})
    world.fails(DIED, lambda: world.write({"d2": frozenset({4})}, plan=world.plan(WriteMode.APPEND)))
    world.wait_out_claims()

    def meet() -> None:
        with world.inject(replace(REFUSED, number=2)), pytest.raises(MetastoreError):
            world.write({"d2": frozenset({5})}, plan=world.plan(WriteMode.APPEND))

    world.at_metastore("alter_partitions", "before", meet)
    world.write({"d1": frozenset({10})}, plan=world.plan(WriteMode.APPEND))
    (version,) = [one.version for one in world.keeper.history(str(TABLE)).versions if one.operation == "recover"]
    assert (version, world.rows()["d1"]) == (4, frozenset({1, 10}))
    with pytest.raises(ConflictError, match=r"version 3.*after version 4, on which its rows are based"):
        world.write({"d1": frozenset({101})}, plan=based_on(world, version))
    world.write({"d2": frozenset({104})}, plan=based_on(world, version))  # what it has recovered is in it


@pytest.mark.parametrize("is_staged", [False, True])
def test_a_number_whose_entry_was_trimmed_is_refused(is_staged: bool) -> None:
    world = World()
    hours = {"table_writer.history_retention": "24", "table_writer.retention": "24"}
    world.metastore.create_table(replace(world.table, parameters={**world.table.parameters, **hours}))
    plan = based_on(world, overtaken(world))
    world.write({"d2": frozenset({200})})
    if is_staged:
        world.stage({"d1": frozenset({101})}, plan=plan, expires_after_seconds=20 * 86_400.0)
    world.skipped_seconds += 3 * 86_400
    for _ in range(2):
        world.keeper.vacuum(str(TABLE))
    assert world.services().log.slots.find_entry(3) is None
    with pytest.raises(ConflictError, match=r"was trimmed.*past version 3.*on which its rows are based"):
        world.publish_staged() if is_staged else world.write({"d1": frozenset({101})}, plan=based_on(world, 3))
    assert world.rows()["d1"] == TWO["d1"]


def test_a_staged_write_that_is_based_on_a_result_conflicts_as_well(world: World) -> None:
    write_id = world.stage({"d1": frozenset({101})}, plan=based_on(world, overtaken(world)))
    with pytest.raises(ConflictError, match="after version 3"):
        world.keeper.publish(str(TABLE), write_id)


@pytest.mark.parametrize("is_staged", [False, True])
def test_rows_that_were_read_at_a_version_have_seen_all_up_to_it(world: World, is_staged: bool) -> None:
    plan = based_on(world, ReadVersion(overtaken(world)))
    if is_staged:
        world.stage({"d1": frozenset({102})}, plan=plan)
        world.publish_staged()
    else:
        world.write({"d1": frozenset({102})}, plan=plan)
    assert world.rows()["d1"] == {102}


def test_a_result_of_a_time_at_which_nothing_was_in_doubt_conflicts_with_nothing_before_it(world: World) -> None:
    world.write({**ONE, **OTHER})
    world.write(TWO)
    version = world.write({"d2": frozenset({4})}, plan=world.plan(WriteMode.APPEND)).entry.version
    world.vacuum()
    world.write({"d1": frozenset({102})}, plan=based_on(world, version))
    assert world.rows()["d1"] == {102}
