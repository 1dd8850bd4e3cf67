"""Batches that come late, lose their answers or meet others halfway: nobody's acknowledged rows are lost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from table_writer.errors import (
    ConflictError,
    LostResponseError,
    MetastoreError,
    OutcomeUnknownError,
    PartitionExistsError,
    PartlyPublishedError,
    TableWriterError,
)
from table_writer.model.entry import Outcome
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log import deadline
from table_writer.testing.late import Late
from tests.doubles.glue import GlueDouble, RefusedError, StoredTable
from tests.glue.world import GlueWorld
from tests.maintenance.operations import unpartitioned
from tests.publish.world import DeathError, Fault

OLD = {"d1": frozenset({1}), "d2": frozenset({2}), "d3": frozenset({3})}
NEW = {"d1": frozenset({10}), "d2": frozenset({20}), "d3": frozenset({30})}
NO_ANSWER = ReadTimeoutError(endpoint_url="glue")


@pytest.fixture
def world() -> GlueWorld:
    world = GlueWorld()
    world.write(OLD)
    return world


def at_call(number: int, call: str, act: Callable[[], object], *, phase: str = "before") -> Callable[[str, str], None]:
    """Return a hook that does something at the n-th call of its kind."""
    seen = iter(range(1, 1_000))

    def hook(name: str, when: str) -> None:
        if (name, when) == (call, phase) and next(seen) == number:
            act()

    return hook


def late(world: GlueWorld, number: int, call: str = "alter_partitions") -> None:
    """Let the server keep a call; the client gets no answer."""

    def keep() -> None:
        raise Late(NO_ANSWER)

    world.metastore.on_call = at_call(number, call, keep)


def recover(world: GlueWorld) -> None:
    world.wait_out_claims()
    world.keeper.recover(str(world.name))


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_batch_that_comes_after_a_recovery_and_a_write_loses_no_row_of_an_append(
    world: GlueWorld, number: int
) -> None:
    late(world, number)
    with pytest.raises(OutcomeUnknownError):
        world.write(NEW)
    world.metastore.on_call = None
    recover(world)
    assert world.rows() == NEW
    value = f"d{number}"
    world.write({value: frozenset({100})})
    world.metastore.server.pending.pop()()
    assert world.rows()[value] == NEW[value], "readers are set back, until somebody looks"
    world.write({value: frozenset({1000})}, plan=world.plan(WriteMode.APPEND))
    assert world.rows() == {**NEW, value: frozenset({100, 1000})}


def test_a_batch_that_is_applied_twice_and_late_is_put_right(world: GlueWorld) -> None:
    late(world, 2)
    with pytest.raises(OutcomeUnknownError):
        world.write(NEW)
    world.metastore.on_call = None
    (again,) = world.metastore.server.pending
    recover(world)
    world.write({"d2": frozenset({200})})
    for _ in range(2):
        again()
        world.keeper.recover(str(world.name))
        assert world.rows() == {**NEW, "d2": frozenset({200})}


def test_what_is_seen_after_a_lost_answer_is_not_taken_for_the_end(world: GlueWorld) -> None:
    """Glue applies a call and says that it was refused for load; it is sent again, and that one comes late."""
    update, lies = world.metastore.server.BatchUpdatePartition, iter(["ThrottlingException"])

    def lying(**named: Any) -> dict[str, Any]:
        answer = update(**named)
        for code in lies:
            raise RefusedError(code)
        return answer

    world.metastore.server.BatchUpdatePartition = lying  # type: ignore[method-assign]
    late(world, 2)
    with pytest.raises(OutcomeUnknownError):
        world.write({"d1": frozenset({10})})
    world.metastore.on_call = None
    assert world.rows()["d1"] == {10}, "all is where it shall be"
    recover(world)
    world.write({"d1": frozenset({100})})
    world.metastore.server.pending.pop()()
    world.write({"d1": frozenset({1000})}, plan=world.plan(WriteMode.APPEND))
    assert world.rows()["d1"] == {100, 1000}


def test_a_vacuum_between_a_half_switch_and_its_late_rest_deletes_nothing_that_readers_see(world: GlueWorld) -> None:
    late(world, 2)
    with pytest.raises(OutcomeUnknownError):
        world.write(NEW)
    world.metastore.on_call = None
    half = {**OLD, "d1": NEW["d1"]}
    assert world.rows() == half
    world.vacuum()
    assert world.rows() == half
    world.metastore.server.pending.pop()()
    assert world.rows() == {**half, "d2": NEW["d2"]}
    world.vacuum()
    recover(world)
    assert world.rows() == NEW


def test_the_next_writer_rolls_the_rest_forward_before_it_publishes(world: GlueWorld) -> None:
    with world.inject(Fault("metastore", "alter_partitions", 2, "before", DeathError)), pytest.raises(DeathError):
        world.write(NEW)
    world.wait_out_claims()
    plan = world.plan(WriteMode.APPEND)
    world.write({"d3": frozenset({300})}, plan=plan)
    assert world.rows() == {**NEW, "d3": NEW["d3"] | {300}}


def test_an_overwrite_planned_while_another_was_half_switched_does_not_lose_it(world: GlueWorld) -> None:
    with world.inject(Fault("metastore", "alter_partitions", 2, "before", DeathError)), pytest.raises(DeathError):
        world.write(NEW)
    world.wait_out_claims()
    with pytest.raises(ConflictError):
        world.write({"d1": frozenset({99})})
    assert world.rows() == NEW


def test_nobody_confirms_what_is_seen_while_its_claim_lasts(world: GlueWorld) -> None:
    """Its writer may be about to send again what was refused for load, though the refusal was none."""
    with world.inject(Fault("metastore", "alter_partitions", 3, "after", DeathError)), pytest.raises(DeathError):
        world.write(NEW)
    assert world.rows() == NEW
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        world.skipped_seconds += 200

    world.sleep = wait
    world.keeper.recover(str(world.name))
    assert waited, "recover waits for the claim"
    assert world.history().records.in_doubt == ()


def test_a_partition_that_another_tool_drops_between_two_batches_stays_dropped(world: GlueWorld) -> None:
    def drop() -> None:
        with world.metastore.unwatched():
            world.metastore.drop_partition(world.table, ("d2",))

    world.metastore.on_call = at_call(1, "alter_partitions", drop, phase="after")
    with pytest.raises(OutcomeUnknownError, match=r"dt=d2 of mart\.orders does not exist"):
        world.write(NEW)
    recover(world)
    assert world.rows() == {"d1": NEW["d1"], "d3": NEW["d3"]}


def test_a_partition_that_another_tool_moves_between_crash_and_recover_is_left_alone(world: GlueWorld) -> None:
    with world.inject(Fault("metastore", "alter_partitions", 2, "before", DeathError)), pytest.raises(DeathError):
        world.write(NEW)
    world.written_by_another_tool("d2", frozenset({222}))
    recover(world)
    assert world.rows() == {**NEW, "d2": frozenset({222})}


def test_a_refusal_of_some_leaves_the_write_in_doubt_and_recover_finishes_it(world: GlueWorld) -> None:
    refused = iter(["AccessDeniedException"])
    world.metastore.server.refuse_entry = lambda values: next(refused, None) if values == ("d2",) else None
    with pytest.raises(OutcomeUnknownError, match=r"1 of 3 partitions of mart\.orders are changed.*AccessDenied"):
        world.write(NEW)
    assert world.rows() == {**OLD, "d1": NEW["d1"]}
    recover(world)
    assert world.rows() == NEW


def test_a_refusal_that_lasts_keeps_the_write_in_doubt_and_nobody_is_told_otherwise(world: GlueWorld) -> None:
    world.metastore.server.refuse_entry = lambda values: "AccessDeniedException" if values == ("d2",) else None
    with pytest.raises(OutcomeUnknownError):
        world.write(NEW)
    world.wait_out_claims()
    for _ in range(2):
        with pytest.raises(TableWriterError, match="AccessDenied"):
            world.keeper.recover(str(world.name))
        world.wait_out_claims()
    world.metastore.server.refuse_entry = lambda _: None
    recover(world)
    assert world.rows() == NEW
    assert world.history().records.in_doubt == ()


def test_throttling_halfway_is_waited_out(world: GlueWorld) -> None:
    refused = iter(["ThrottlingException"] * 4)
    world.metastore.server.refuse_entry = lambda values: next(refused, None) if values == ("d2",) else None
    world.write(NEW)
    assert world.rows() == NEW
    assert len(world.metastore.waited) == 4


def test_create_partitions_never_reports_what_another_created(world: GlueWorld) -> None:
    def others() -> None:
        with world.metastore.unwatched():
            world.written_by_another_tool("d8", frozenset({888}))

    world.metastore.on_call = at_call(1, "add_partitions", others)
    plan = world.plan(WriteMode.CREATE_PARTITIONS)
    with pytest.raises(PartitionExistsError):
        world.write({"d8": frozenset({8}), "d9": frozenset({9})}, plan=plan)
    world.metastore.on_call = None
    assert world.rows() == {**OLD, "d8": frozenset({888})}
    assert not world.history().records.publishes_in_doubt


def test_create_partitions_settles_each_partition(world: GlueWorld) -> None:
    def others() -> None:
        with world.metastore.unwatched():
            world.written_by_another_tool("d9", frozenset({999}))

    world.metastore.on_call = at_call(1, "add_partitions", others, phase="after")
    plan = world.plan(WriteMode.CREATE_PARTITIONS)
    with pytest.raises(OutcomeUnknownError, match="1 of 2 partitions"):
        world.write({"d8": frozenset({8}), "d9": frozenset({9})}, plan=plan)
    world.metastore.on_call = None
    recover(world)
    assert world.rows() == {**OLD, "d8": frozenset({8}), "d9": frozenset({999})}
    newest = world.history().records[-2]
    assert newest.outcome is Outcome.PUBLISHED
    assert newest.superseded == {("d9",)}


def test_a_rollback_that_dies_halfway_is_finished(world: GlueWorld) -> None:
    world.write(NEW)
    with world.inject(Fault("metastore", "alter_partitions", 2, "after", DeathError)), pytest.raises(DeathError):
        world.keeper.rollback(str(world.name), version=1)
    assert world.rows() == {**OLD, "d3": NEW["d3"]}
    recover(world)
    assert world.rows() == OLD


def test_history_and_a_reader_of_a_version_see_the_entry_while_it_is_half_switched(world: GlueWorld) -> None:
    with world.inject(Fault("metastore", "alter_partitions", 2, "before", DeathError)), pytest.raises(DeathError):
        world.write(NEW)
    newest, oldest = world.keeper.history(str(world.name)).versions
    assert (newest.state, oldest.state) == ("in doubt", "published")
    world.keeper.vacuum(str(world.name), older_than=timedelta(0), force=True)
    recover(world)
    assert world.rows() == NEW


def test_more_new_partitions_than_one_answer_holds_are_written() -> None:
    world = GlueWorld(metastore=GlueDouble())
    world.write({f"d{number:04}": frozenset({number}) for number in range(501)})
    assert len(world.rows()) == 501


def test_a_switch_that_no_claim_is_long_enough_for_is_finished_by_recoveries(
    world: GlueWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write({f"d{number}": frozenset({number}) for number in range(6)})
    clock = [0.0]
    monkeypatch.setattr(deadline.Deadline.__init__, "__defaults__", (lambda: clock[0],))

    def slow(call: str, phase: str) -> None:
        clock[0] += 50 * ((call, phase) == ("alter_partitions", "after"))

    world.metastore.on_call = slow
    new = {f"d{number}": frozenset({number + 100}) for number in range(6)}
    with pytest.raises(OutcomeUnknownError):
        world.write(new)
    for _ in range(3):
        world.wait_out_claims()
        with suppress(OutcomeUnknownError):
            world.keeper.recover(str(world.name))
    world.metastore.on_call = None
    assert {values: world.rows()[values] for values in new} == new
    assert world.history().records[-1].outcome is Outcome.PUBLISHED


def test_a_half_switched_write_is_never_given_up_whatever_another_tool_puts_in_its_place(world: GlueWorld) -> None:
    kept: list[dict[str, Any]] = []
    stored = world.metastore.server.tables[world.name].partitions

    def drop() -> None:
        kept.append(stored.pop(("d2",)))

    def add_where_nothing_can_lie() -> None:
        stored["d2",] = {**kept[0], "StorageDescriptor": {**kept[0]["StorageDescriptor"], "Location": "/warehouse/d2"}}

    at = iter([None, None, drop, add_where_nothing_can_lie])

    def hook(call: str, _: str) -> None:
        act = next(at, None) if call == "alter_partitions" else None
        if act:
            act()

    world.metastore.on_call = hook
    with pytest.raises(OutcomeUnknownError):
        world.write(NEW)
    world.metastore.on_call = None
    assert world.history().records[-1].outcome is None


def test_a_refusal_after_a_request_was_sent_again_is_not_believed(world: GlueWorld) -> None:
    server = world.metastore.server
    update, get, old = (
        server.BatchUpdatePartition,
        server.BatchGetPartition,
        deepcopy(server.tables[world.name].partitions),
    )
    answers = iter(["ThrottlingException", "AccessDeniedException"])

    def lying(**named: Any) -> dict[str, Any]:
        code = next(answers)
        if code == "ThrottlingException":
            update(**named)
        raise RefusedError(code)

    def stale(**named: Any) -> dict[str, Any]:
        table = server.tables[world.name]
        now, table.partitions = table.partitions, old
        try:
            return get(**named)
        finally:
            table.partitions = now

    server.BatchUpdatePartition = lying  # type: ignore[method-assign]
    server.on_call = lambda operation, _: setattr(server, "BatchGetPartition", stale) if "Update" in operation else None
    with pytest.raises(OutcomeUnknownError):
        world.write({"d1": frozenset({10})})
    assert world.history().records[-1].outcome is None


def test_a_table_that_is_made_anew_before_the_first_batch_gets_nothing(world: GlueWorld) -> None:
    server = world.metastore.server

    def made_anew() -> None:
        known = server.tables[world.name]
        server.tables[world.name] = StoredTable(deepcopy(known.fields), known.created_at + 1)

    world.metastore.on_call = at_call(1, "alter_partitions", made_anew)
    with pytest.raises(TableWriterError, match="made again"):
        world.write(NEW)
    world.metastore.on_call = None
    assert server.tables[world.name].partitions == {}


@pytest.mark.parametrize("is_staged", [False, True])
def test_partitions_that_another_tool_has_created_are_no_success_of_the_same_call_again(
    world: GlueWorld, is_staged: bool
) -> None:
    def others() -> None:
        with world.metastore.unwatched():
            world.written_by_another_tool("d9", frozenset({999}))

    rows = {"d8": frozenset({8}), "d9": frozenset({9})}
    world.metastore.on_call = at_call(1, "add_partitions", others, phase="after")
    plan = world.plan(WriteMode.CREATE_PARTITIONS, key="" if is_staged else "k")
    if is_staged:
        world.stage(rows, plan=plan)
    with pytest.raises(OutcomeUnknownError):
        world.publish_staged() if is_staged else world.write(rows, plan=plan)
    world.metastore.on_call = None
    world.wait_out_claims()
    with pytest.raises(PartlyPublishedError, match=r"but for 1 partition: .*d9"):
        if is_staged:
            world.keeper.publish(str(world.name), world.staged_ids[-1])
        else:
            world.write(rows, plan=world.plan(WriteMode.CREATE_PARTITIONS, key="k"))
    assert world.rows()["d9"] == {999}


@pytest.fixture
def flat() -> GlueWorld:
    world = GlueWorld()
    unpartitioned({"": frozenset({3})})(world)
    return world


def overwrite(world: GlueWorld, *ids: int) -> None:
    world.write({"": frozenset(ids)}, plan=world.plan(WriteMode.OVERWRITE_TABLE))


def test_an_update_whose_answer_is_lost_is_recognised_as_our_own(flat: GlueWorld) -> None:
    def lose() -> None:
        raise NO_ANSWER

    flat.metastore.on_call = at_call(1, "alter_partitions", lose, phase="after")
    overwrite(flat, 40)
    assert flat.rows() == {"": frozenset({40})}


def test_an_update_that_comes_late_is_refused_by_glue(flat: GlueWorld) -> None:
    late(flat, 1)
    with pytest.raises(OutcomeUnknownError):
        overwrite(flat, 40)
    flat.metastore.on_call = None
    recover(flat)
    overwrite(flat, 50)
    with pytest.raises(RefusedError, match="ConcurrentModification"):
        flat.metastore.server.pending.pop()()
    assert flat.rows() == {"": frozenset({50})}


def test_another_tools_change_of_an_unpartitioned_table_in_the_last_moment_wins(flat: GlueWorld) -> None:
    def change() -> None:
        flat.metastore.server.tables[flat.name].version += 1

    flat.metastore.on_call = at_call(1, "alter_partitions", change)
    with pytest.raises(MetastoreError, match="somebody else changed table") as caught:
        overwrite(flat, 40)
    assert not isinstance(caught.value, LostResponseError)
    assert flat.rows() == {"": frozenset({3})}
