"""What others do between two calls of a publish: each test stops one publish at one call, and lets others act there."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest

from table_writer.errors import (
    ConflictError,
    LostResponseError,
    MetastoreError,
    OutcomeUnknownError,
    PartitionMissingError,
    PartlyPublishedError,
    StorageError,
)
from table_writer.model.entry import Outcome
from table_writer.model.location import Location
from table_writer.model.write_mode import WriteMode
from table_writer.testing.late import Late
from tests.publish.world import DIED, DeathError, Fault, World, fail, insert

T = "mart.orders"
ONE = {"d1": frozenset({1})}
TWO = {"d1": frozenset({2}), "d2": frozenset({20})}


@pytest.fixture
def world() -> World:
    world = World()
    world.write({**ONE, "d2": frozenset({10})})
    return world


def test_a_move_by_another_tool_while_its_files_are_listed_is_seen_before_the_claim() -> None:
    world = World()
    world.written_by_another_tool("d1", frozenset({1}))
    moved = "s3a://lake/mart/orders/moved/"
    world.store.put("mart/orders/moved/part-0.json", b"[7]")

    def move_during_the_listing() -> None:
        world.at_store("list_page", "after", lambda: world.pointed_by_another_tool("d1", moved), "mart/orders/")

    entry = world.write({"d1": frozenset({2})}, before_publish=move_during_the_listing).entry
    assert [one.location for one in entry.replaced] == [moved]
    world.keeper.rollback(T, version=0)
    assert world.rows() == {"d1": frozenset({7})}


@pytest.mark.parametrize("moment", [f"last-word-{2:020}", f"{2:020}.done"])
def test_a_refused_claimant_and_a_recovery_at_that_moment_agree(world: World, moment: str) -> None:
    """Whoever has the last word on the entry decides: of the two requests of the claimant the first one takes it."""

    before, is_first = world.rows(), moment.startswith("last-word")
    world.at_metastore("alter_partitions", "before", lambda: fail(MetastoreError("refused")))
    world.at_store("put_if_absent", "before", world.recover_later, moment)
    with pytest.raises(OutcomeUnknownError if is_first else MetastoreError):
        world.write(TWO)
    assert world.services().log.slots.outcome(2) is (Outcome.PUBLISHED if is_first else Outcome.ABANDONED)
    assert world.rows() == (TWO if is_first else before)


def test_a_claimant_is_not_told_that_all_was_published_where_others_have_published_a_part(world: World) -> None:
    def recover_a_part() -> None:
        world.wait_out_claims()
        world.written_by_another_tool("d2", frozenset({99}))
        world.keeper.recover(T)
        raise LostResponseError("lost")

    world.at_metastore("alter_partitions", "before", recover_a_part)
    with pytest.raises(PartlyPublishedError, match="dt=d2"):
        world.write(TWO)
    assert world.rows() == {"d1": frozenset({2}), "d2": frozenset({99})}
    assert world.history().records[1].superseded == {("d2",)}


def test_an_error_after_a_switch_of_which_another_tool_has_moved_a_part_is_no_refusal(world: World) -> None:
    def move_one_and_fail() -> None:
        world.written_by_another_tool("d2", frozenset({99}))
        raise MetastoreError("an error after the commit")

    world.at_metastore("alter_partitions", "after", move_one_and_fail)
    with pytest.raises(OutcomeUnknownError):
        world.write(TWO)
    assert world.services().log.slots.outcome(2) is not Outcome.ABANDONED
    assert world.rows() == {"d1": frozenset({2}), "d2": frozenset({99})}


def test_a_partition_that_another_tool_fills_before_it_is_dropped_stays(world: World) -> None:
    world.at_metastore(
        "alter_partitions", "after", lambda: world.written_by_another_tool("d1", frozenset({99})) and None
    )
    world.keeper.rollback(T, version=0)
    assert world.rows() == {"d1": frozenset({99})}


def test_a_partition_into_which_another_tool_inserts_before_it_is_dropped_stays(world: World) -> None:
    world.at_metastore("alter_partitions", "after", lambda: insert(world, "d1", 99))
    world.keeper.rollback(T, version=0)
    assert world.rows() == {"d1": frozenset({99})}


def test_a_recovery_that_drops_partitions_leaves_one_into_which_another_tool_has_inserted(world: World) -> None:
    with world.inject(Fault("metastore", "drop_partition", 1, "before", DeathError)), suppress(DeathError):
        world.keeper.rollback(T, version=0)
    insert(world, "d1", 99)
    world.recover_later()
    assert world.rows() == {"d1": frozenset({99})}
    assert world.partitions().keys() == {"d1"}


def test_nothing_is_added_where_a_vacuum_is_deleting(world: World) -> None:
    """Another tool has pointed readers back at its own place, once the vacuum had looked for the last time."""
    old = world.written_by_another_tool("d1", frozenset({7})).location
    world.write(TWO)
    plan = world.plan(WriteMode.APPEND, in_place=True)

    def meanwhile(call: str, phase: str, key: str) -> None:
        if (
            (call, phase) == ("list_page", "before")
            and key == Location.parse(old).key
            and world.history().records.in_doubt
        ):
            world.store.on_call = None
            world.pointed_by_another_tool("d1", old)
            with pytest.raises(ConflictError, match="would add files to a location that version 3 of the log deletes"):
                world.write({"d1": frozenset({10})}, plan=plan)

    world.store.on_call = meanwhile
    world.vacuum()
    assert world.store.on_call is None


def test_what_is_in_doubt_at_the_plan_and_trimmed_before_the_publish_is_a_conflict(world: World) -> None:
    """Its entry is gone, so nobody can tell that the write never saw its rows."""
    world.fails(Fault("store", "put_if_absent", 2, "before", DeathError), lambda: world.write({"d1": frozenset({2})}))
    plan = world.plan()
    assert (plan.base_version, plan.in_doubt) == (2, {2})
    assert world.keeper.recover(T).settled == {2: "published"}
    world.write({"d9": frozenset({9})})
    world.services().log.trim([2])
    with pytest.raises(ConflictError, match="trimmed"):
        world.write({"d1": frozenset({3})}, plan=plan)
    assert world.rows()["d1"] == frozenset({2})


@pytest.mark.parametrize("mode", [WriteMode.OVERWRITE_PARTITIONS, WriteMode.APPEND])
def test_a_staged_file_of_another_size_by_now_is_not_published(world: World, mode: WriteMode) -> None:
    before = world.rows()
    write_id = world.stage(TWO, plan=world.plan(mode))
    key = next(info.key for info in world.store.list(world.layout.data(write_id).key))
    world.store.put(key, b"[2, 3, 4, 5, 6]")
    with pytest.raises(StorageError, match="is not as it was written"):
        world.publish_staged()
    assert world.rows() == before


def heartbeats(write_id: str) -> list[str]:
    return [thread.name for thread in threading.enumerate() if write_id in thread.name]


@pytest.mark.parametrize("ends", ["published", "staged", "failed"])
def test_no_heartbeat_outlives_its_write(world: World, ends: str) -> None:
    """One that did would say for ever that the write is running."""
    plan = world.plan()
    if ends == "staged":
        world.stage(TWO, plan=plan)
    elif ends == "published":
        world.write(TWO, plan=plan)
    else:
        with pytest.raises(StorageError):
            world.write(TWO, plan=plan, before_publish=lambda: fail(StorageError("no")))
    assert heartbeats(plan.write_id) == []


def test_a_sign_of_life_that_comes_after_the_staging_does_not_unstage_the_write(world: World) -> None:
    """The store may apply a request late: the record of a staged write lies where no heartbeat puts anything."""
    plan, late = world.plan(), []

    def keep(call: str, phase: str, key: str) -> None:
        if (call, phase, key) == ("put", "after", world.layout.registration_key(plan.write_id)):
            late.append(key)

    world.store.on_call = keep
    write_id = world.stage(TWO, plan=plan)
    world.store.on_call = None
    (key,) = set(late)
    world.store.put(key, b"{}")
    assert [one.write_id for one in world.keeper.staged(T).staged] == [write_id]
    world.publish_staged()
    assert world.rows() == TWO


@pytest.mark.parametrize(("times", "switched"), [(1, True), (2, True), (3, False)])
def test_a_partition_that_vanishes_again_and_again_is_added_again_three_times_at_most(
    world: World, times: int, switched: bool
) -> None:
    before = world.rows()
    left = [times]

    def drop_before_the_alter(call: str, phase: str) -> None:
        if (call, phase) == ("alter_partitions", "before") and left[0]:
            left[0] -= 1
            world.metastore.drop_partition(world.table, ("d2",))

    world.metastore.on_call = drop_before_the_alter
    if switched:
        assert world.write(TWO).notes == ()
        assert world.rows() == TWO
    else:
        with pytest.raises(PartitionMissingError, match="vanish as fast as they are added"):
            world.write(TWO)
        assert world.rows() == {"d1": before["d1"]}
        assert world.services().log.slots.outcome(2) is Outcome.ABANDONED


def test_a_refusal_that_cannot_be_looked_behind_is_an_unknown_outcome(world: World) -> None:
    def refuse_and_go_away() -> None:
        world.at_metastore("get_partitions", "before", lambda: fail(MetastoreError("gone")))
        raise MetastoreError("refused")

    world.at_metastore("alter_partitions", "before", refuse_and_go_away)
    with pytest.raises(OutcomeUnknownError):
        world.write(TWO)
    assert world.services().log.slots.outcome(2) is None


@pytest.mark.parametrize("phase", ["before", "after"])
@pytest.mark.parametrize("lost", [True, False], ids=["lost answer", "error"])
def test_what_an_error_of_the_switch_means_is_told_by_the_partitions(world: World, phase: str, lost: bool) -> None:
    before = world.rows()
    error = LostResponseError("lost") if lost else MetastoreError("refused")
    world.at_metastore("alter_partitions", phase, lambda: fail(error))
    if phase == "after":
        assert world.write(TWO).notes == ()
        assert world.rows() == TWO
        assert world.services().log.slots.outcome(2) is Outcome.PUBLISHED
        return
    with pytest.raises(OutcomeUnknownError if lost else MetastoreError) as raised:
        world.write(TWO)
    assert isinstance(raised.value, OutcomeUnknownError) is lost
    assert world.rows() == before
    assert world.services().log.slots.outcome(2) is (None if lost else Outcome.ABANDONED)


def test_a_log_that_cannot_be_asked_after_a_refusal_leaves_the_refusal_as_it_is(world: World) -> None:
    def refuse() -> None:
        world.at_store("get", "before", lambda: fail(StorageError("no")), f"{2:020}.json")
        raise MetastoreError("refused")

    world.at_metastore("alter_partitions", "before", refuse)
    with pytest.raises(MetastoreError, match="refused"):
        world.write(TWO)
    assert world.services().log.slots.outcome(2) is Outcome.ABANDONED


@pytest.mark.parametrize("request_", [f"last-word-{2:020}", f"{2:020}.done"])
def test_a_refused_write_that_cannot_be_given_up_stays_in_doubt(world: World, request_: str) -> None:
    before = world.rows()
    world.at_metastore("alter_partitions", "before", lambda: fail(MetastoreError("refused")))
    world.at_store("put_if_absent", "before", lambda: fail(StorageError("no")), request_)
    with pytest.raises(OutcomeUnknownError):
        world.write(TWO)
    assert world.services().log.slots.outcome(2) is None
    world.recover_later()
    assert world.rows() == (TWO if request_.startswith("last-word") else before)


@pytest.mark.parametrize("phase", ["before", "after"])
def test_a_claim_whose_answer_is_lost_is_an_unknown_outcome_and_its_files_stay(world: World, phase: str) -> None:
    plan = world.plan()
    world.at_store("put_if_absent", phase, lambda: fail(StorageError("lost")), f"{2:020}.json")
    with pytest.raises(OutcomeUnknownError):
        world.write(TWO, plan=plan)
    assert len(list(world.store.list(plan.data_location.key))) == 2
    world.recover_later()
    assert world.rows() == (TWO if phase == "after" else {**ONE, "d2": frozenset({10})})


def test_an_append_undoes_no_rollback_that_has_just_switched(world: World) -> None:
    world.write({"d1": frozenset({2})})
    world.fails(DIED, lambda: world.write({"d1": frozenset({3})}))
    world.recover_later()  # so that appends look for late calls

    def put_outcome(_: float = 0.0) -> None:
        while world.store.pending:
            world.store.pending.pop()()

    def roll_back() -> None:
        """Between the append's looks at log and metastore; its outcome comes while others wait, or go on."""
        world.at_store("put_if_absent", "before", lambda: fail(Late(StorageError("slow"))), f"{5:020d}.done")
        assert world.keeper.rollback(T, version=2).version == 5
        world.at_metastore("alter_partitions", "before", put_outcome)

    world.sleep = put_outcome
    append = world.plan(WriteMode.APPEND)
    meanwhile = lambda: world.at_metastore("get_table", "before", roll_back)  # noqa: E731
    world.write({"d1": frozenset({4})}, plan=append, before_publish=meanwhile)
    assert world.rows() == {"d1": frozenset({2, 4}), "d2": frozenset({10})}
