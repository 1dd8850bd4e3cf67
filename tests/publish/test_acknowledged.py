"""What a caller was told stays true: published, abandoned, discarded, published already. Over doubles."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count

import pytest

from table_writer.errors import ConflictError, MetastoreError, OutcomeUnknownError, PartlyPublishedError, StorageError
from table_writer.model.entry import Outcome
from table_writer.model.location import Location
from table_writer.model.table import NULL_PARTITION, Column, Partition, PartitionChange
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log import deadline
from table_writer.protocol.operations.parameters import NO_FILES
from table_writer.storage.object_store import visible_files
from tests.cells import first_fast
from tests.publish.world import DIED, REFUSED, DeathError, Fault, World, fail, insert, move, without_answer, written

T = "mart.orders"
OLD = {"d1": frozenset({1}), "d2": frozenset({2})}
MORE = {"d1": frozenset({10}), "d2": frozenset({20})}
ALL = {"d1": frozenset({1, 10}), "d2": frozenset({2, 20})}
PHASES = ("before", "after")


@pytest.fixture
def world() -> World:
    world = World()
    world.write(OLD)
    return world


@pytest.mark.parametrize("mode", WriteMode)
def test_a_write_that_a_recovery_may_publish_is_not_discarded(world: World, mode: WriteMode) -> None:
    creates = mode.facts.only_creates
    value, ids = ("d3", frozenset({30})) if creates else ("d1", frozenset({10}))
    write_id = world.stage({value: ids}, plan=world.plan(mode))
    died = replace(DIED, call="add_partitions") if creates else DIED
    world.fails(died, lambda: world.keeper.publish(T, write_id))
    with pytest.raises(ConflictError, match="is not discarded"):
        world.keeper.discard(T, write_id)
    world.recover_later()
    assert ids <= world.rows()[value]


def test_a_writer_whose_machine_was_paused_for_days_sends_nothing_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hypervisor stops the boot clock as well: the wall clock alone shows it, and the store's tells how long."""
    days, wall = 3 * 86_400.0, [0.0]
    monkeypatch.setattr(deadline, "wall_seconds", lambda: wall[0])

    def pause() -> None:
        wall[0] += days
        world.skipped_seconds += days
        world.keeper.recover(T)  # of the others who were awake
        world.write({"d1": frozenset({100})})

    world.at_store("put_if_absent", "after", pause, "2.json")
    world.write(MORE)  # which the others have published in its place
    assert world.rows() == {"d1": frozenset({100}), "d2": frozenset({20})}


def test_a_wall_clock_that_somebody_sets_stops_no_write(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    wall = [0.0]
    monkeypatch.setattr(deadline, "wall_seconds", lambda: wall[0])

    def set_clock() -> None:
        wall[0] = 86_400.0

    world.at_metastore("get_partitions", "after", set_clock)
    world.write(MORE)
    assert world.rows() == MORE


def test_rows_of_a_partition_that_another_tool_had_moved_were_not_published_already(world: World) -> None:
    """The entry is on record as published: of the other partition. The rows of this one are nowhere."""
    plan = world.plan(WriteMode.APPEND, key="nightly")
    world.fails(DIED, lambda: world.write(MORE, plan=plan))
    world.pointed_by_another_tool("d1", f"{world.root}elsewhere/")
    assert world.recover_later().superseded == ("dt=d1",)
    with pytest.raises(PartlyPublishedError, match=r"version 2 .* but for 1 partition: dt=d1\."):
        world.services().require_new_key(plan.key)
    with pytest.raises(PartlyPublishedError):
        world.write(MORE, plan=plan)
    world.keeper.rollback(T, version=1)
    assert world.services().require_new_key(plan.key) is not None, "the way out that the message names"


def test_a_staged_write_some_of_whose_partitions_were_moved_was_not_published_already(world: World) -> None:
    write_id = world.stage(MORE)
    world.fails(DIED, lambda: world.keeper.publish(T, write_id))
    world.pointed_by_another_tool("d1", f"{world.root}elsewhere/")
    world.wait_out_claims()
    for _ in range(2):
        with pytest.raises(PartlyPublishedError, match="dt=d1"):
            world.keeper.publish(T, write_id)


def late_put(world: World, fragment: str) -> Callable[[], None]:
    """Lose the answer of the first put of a key with this in its name; returns what applies the request later."""
    kept: list[tuple[str, bytes]] = []
    put = world.store.put_if_absent

    def lost(key: str, body: bytes) -> bool:
        if fragment in key and not kept:
            kept.append((key, body))
            raise StorageError("no answer")
        return put(key, body)

    world.store.put_if_absent = lost  # type: ignore[method-assign]
    return lambda: [put(*request) for request in kept] and None


@pytest.mark.parametrize("request_", ["last-word", ".done"])
@pytest.mark.parametrize("moment", ["alter_partitions", "get_partitions"])
@pytest.mark.parametrize("phase", ["before", "after"])
def test_a_refusal_that_is_recorded_late_does_not_undo_what_a_recovery_says(
    world: World, request_: str, moment: str, phase: str
) -> None:
    come = late_put(world, request_)
    with world.inject(REFUSED), pytest.raises(OutcomeUnknownError):
        world.write(MORE, plan=world.plan(WriteMode.APPEND, key="nightly"))
    world.wait_out_claims()

    world.at_metastore(moment, phase, come)
    said = world.keeper.recover(T).settled[2]
    assert said == ("published" if world.rows() == ALL else "abandoned")
    world.write_once(MORE, WriteMode.APPEND, "nightly")
    assert world.rows() == ALL


@pytest.mark.parametrize("fails", [False, True])
def test_a_claimant_that_was_paused_is_told_what_a_recovery_has_recorded(world: World, *, fails: bool) -> None:
    """Its switch took effect; before it could record that, another tool took both partitions, and a recovery came."""

    def take_over() -> None:
        for value in OLD:
            world.pointed_by_another_tool(value, f"{world.root}elsewhere/{value}/")
        assert world.recover_later().settled == {2: "abandoned"}
        if fails:
            raise StorageError("no answer")

    world.at_store("put_if_absent", "before", take_over, "2.done")
    with pytest.raises(ConflictError, match="on record as abandoned"):
        world.write(MORE)


def test_a_partition_whose_parameters_say_that_it_had_switched_is_not_superseded(world: World) -> None:
    plan = world.plan(key="nightly")
    world.fails(Fault("metastore", "alter_partitions", 1, "after", DeathError), lambda: world.write(MORE, plan=plan))
    present = world.partitions()["d1"]
    elsewhere = PartitionChange(partition=present, location=f"{world.root}elsewhere/", set_parameters={})
    world.metastore.alter_partitions(world.table, [elsewhere], before_send=int)  # SET LOCATION: parameters stay
    report = world.recover_later()
    assert (report.settled, report.superseded) == ({2: "published"}, ())
    assert world.services().log.find_key(plan.key) is not None
    assert world.partitions()["d1"].location == f"{world.root}elsewhere/"


@pytest.mark.parametrize("change", ["insert", "delete", "replace", "replace with as many bytes"])
def test_an_append_that_died_is_given_up_where_another_tool_has_changed_what_it_had_copied(
    world: World, change: str
) -> None:
    with world.inject(DIED), pytest.raises(DeathError):
        world.write(MORE, plan=world.plan(WriteMode.APPEND))
    place = Location.parse(world.partitions()["d1"].location).key
    (held,) = visible_files(world.store, place)
    if change == "insert":
        insert(world, "d1", 77)
    elif change == "delete":
        world.store.delete([held.key])
    else:  # Hive and its like use a name again
        world.skipped_seconds += 10
        world.store.put(held.key, b"[77, 78]" if change == "replace" else b"[7]")
    seen = world.rows()
    assert world.recover_later().settled == {2: "abandoned"}
    assert world.rows() == seen
    world.vacuum()
    assert world.rows() == seen


def test_an_append_without_its_outcome_stays_published_though_an_older_call_comes_late(world: World) -> None:
    """A recovery compares its copies with where they were made, not with where the older call has taken readers."""
    with world.inject(DIED, keep_call=True), pytest.raises(DeathError):
        world.write({"d1": frozenset({5})}, plan=world.plan(WriteMode.APPEND))
    world.recover_later()
    world.write(OLD)
    unrecorded = Fault("store", "put_if_absent", 2, "before", Exception)
    with world.inject(unrecorded):
        published = world.write(MORE, plan=world.plan(WriteMode.APPEND))
    assert "the log could not record it" in published.notes[0]
    world.apply_kept_call()
    assert world.rows()["d1"] == frozenset({1, 5})
    world.recover_later()
    assert world.rows() == ALL


def test_a_recovery_that_the_metastore_refuses_lets_the_next_one_go_on_at_once(world: World) -> None:
    world.fails(DIED, lambda: world.write(MORE, plan=world.plan(WriteMode.APPEND)))
    world.wait_out_claims()
    for _ in range(3):
        world.fails(REFUSED, lambda: world.keeper.recover(T), MetastoreError)
    world.keeper.recover(T)
    assert world.rows() == ALL
    assert {record.outcome for record in world.history().records} == {Outcome.PUBLISHED}
    world.write(OLD)


def died_append() -> World:
    world = written(OLD)
    world.fails(DIED, lambda: world.write(MORE, plan=world.plan(WriteMode.APPEND)))
    return world


@pytest.mark.parametrize("deaths", first_fast([1, 3]))
def test_recoveries_that_die_at_any_request_leave_the_next_one_to_say_the_same(deaths: int) -> None:
    for number in count(1):
        world = died_append()
        have_died = []
        for _ in range(deaths):
            world.wait_out_claims()
            have_died.append(dies_at(world, number))
        world.recover_later()
        assert world.rows() == ALL, number
        assert world.history().records.publishes_in_doubt == ()
        assert world.services().log.slots.outcome(2) is Outcome.PUBLISHED
        if not any(have_died):
            assert number > 50
            return


@pytest.mark.parametrize("phase", ["before", "after"])
@pytest.mark.parametrize("number", range(1, 5))
def test_a_late_call_is_corrected_wherever_those_die_who_correct_it(number: int, phase: str) -> None:
    world = written(OLD)
    world.compact("d1", "d2")
    published = world.located()
    come = without_answer(world, lambda: world.compact("d1", "d2"))
    world.recover_later()
    assert come()
    world.fails(DIED, lambda: world.keeper.recover(T))
    world.wait_out_claims()
    world.fails(Fault("store", "put_if_absent", number, phase, DeathError), lambda: world.keeper.recover(T))
    world.recover_later()
    assert (world.rows(), world.located()) == (OLD, published)


def dies_at(world: World, number: int) -> bool:
    """Let a recovery die at its n-th request, unless it has fewer."""
    left = number

    def die(*_: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise DeathError

    world.store.on_call = world.metastore.on_call = die
    with suppress(DeathError):
        world.keeper.recover(T)
    world.store.on_call = world.metastore.on_call = None
    return left <= 0


def test_copies_that_others_took_the_place_of_are_deleted_though_the_write_was_refused(world: World) -> None:
    write_id = world.stage(MORE, plan=world.plan(WriteMode.APPEND))
    world.at_store("copy", "after", lambda: move(world, "d1", "elsewhere", 77))
    world.at_metastore("alter_partitions", "before", lambda: fail(MetastoreError("refused")))
    with pytest.raises(MetastoreError):
        world.keeper.publish(T, write_id)
    world.keeper.discard(T, write_id)
    world.wait_out_claims()
    world.vacuum()
    assert world.leftovers() == []
    assert world.rows() == {"d1": frozenset({77}), "d2": frozenset({2})}


def test_a_recovery_without_the_last_word_is_not_carried_out_later(world: World) -> None:
    plan = world.plan(WriteMode.APPEND, key="nightly")
    world.fails(DIED, lambda: world.write(MORE, plan=plan))
    world.wait_out_claims()
    old = world.partitions()["d1"].location
    with world.inject(Fault("store", "put_if_absent", 2, "before", DeathError)), pytest.raises(DeathError):
        world.keeper.recover(T)  # its entry is there, and no last word
    world.pointed_by_another_tool("d1", f"{world.root}elsewhere/")
    world.fails(Fault("store", "put_if_absent", 4, "after", DeathError), lambda: world.keeper.recover(T))
    with pytest.raises(PartlyPublishedError, match="dt=d1"):
        world.services().require_new_key(plan.key)
    world.pointed_by_another_tool("d1", old)
    world.wait_out_claims()
    world.write({"d1": frozenset({11})}, plan=world.plan(WriteMode.APPEND))
    assert world.rows()["d1"] == frozenset({1, 11})


@pytest.mark.parametrize("moved", [("d1",), ("d1", "d2")])
@pytest.mark.parametrize("is_older", [True, False], ids=["of an older version", "of this one"])
def test_a_recover_entry_that_has_lost_its_outcome_ends_as_its_original(
    world: World, moved: tuple[str, ...], is_older: bool
) -> None:
    """An older version recorded the original's outcome first, and could die before that of its own entry."""
    with world.inject(DIED), pytest.raises(DeathError):
        world.write(MORE, plan=world.plan(key="nightly"))
    world.wait_out_claims()
    before = {value: world.partitions()[value].location for value in moved}
    for value in moved:
        world.pointed_by_another_tool(value, f"{world.root}elsewhere/{value}/")
    world.keeper.recover(T)
    world.store.delete([world.layout.outcome_key(3)])
    if is_older:
        world.store.delete([f"{world.layout.log_prefix}last-word-{2:020d}"])
    for value, location in before.items():
        world.pointed_by_another_tool(value, location)
    world.wait_out_claims()
    world.keeper.recover(T)
    assert world.rows() == (OLD if len(moved) == 2 else {"d1": OLD["d1"], "d2": MORE["d2"]})
    assert world.history().records.publishes_in_doubt == ()


def test_however_many_recoveries_were_refused_the_next_one_ends_them_all(world: World) -> None:
    """As a scheduler leaves them that tries again all through a day: 200 links, and some requests for each."""
    world.fails(DIED, lambda: world.write(MORE, plan=world.plan(WriteMode.APPEND)))
    world.wait_out_claims()
    world.fails(REFUSED, lambda: world.keeper.recover(T), MetastoreError)
    log = world.services().log
    log.lister.read()
    entry = log.slots.read(3).entry
    for version in range(4, 204):
        entry = replace(entry, version=version, write_id=f"w{version}", base_version=version - 1, recovers=version - 1)
        assert log.slots.claim(entry)
        log.marks.remember_recovery(version)
        assert log.marks.take_last_word(version - 1, entry.write_id) == entry.write_id
        log.marks.release_recovery(version)
    before = world.store.request_counts()["GetObject"]
    world.keeper.recover(T)
    assert world.store.request_counts()["GetObject"] - before < 20 * 200
    assert world.rows() == ALL
    assert world.history().records.publishes_in_doubt == ()


def test_a_recovery_of_a_lost_entry_that_was_abandoned_is_not_carried_out(world: World) -> None:
    def recover_and_die() -> None:
        world.wait_out_claims()
        before_its_word = Fault("store", "put_if_absent", 2, "before", DeathError)
        world.fails(before_its_word, lambda: world.keeper.recover(T))

    world.at_store("put_if_absent", "before", recover_and_die, f"last-word-{2:020}")
    world.at_metastore("alter_partitions", "before", lambda: fail(MetastoreError("no")))
    with pytest.raises(MetastoreError):
        world.write(MORE, plan=world.plan(WriteMode.APPEND))
    world.store.delete([world.layout.entry_key(2)])
    world.wait_out_claims()
    world.keeper.recover(T, accept_loss=True)
    assert world.rows() == OLD


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("theirs", [False, True])
def test_the_late_call_of_an_append_that_was_given_up_is_undone(again: bool, theirs: bool) -> None:
    world = World()
    if theirs:
        world.written_by_another_tool("d1", frozenset({1}))
    else:
        world.write({"d1": frozenset({1})})
    append = partial(world.write, {"d1": frozenset({10})}, plan=world.plan(WriteMode.APPEND, key="k"))
    come = without_answer(world, append)
    insert(world, "d1", 99)
    assert list(world.recover_later().settled.values()) == ["abandoned"]
    assert come()
    if again:
        world.write_once({"d1": frozenset({11})}, WriteMode.APPEND, "k")
    world.keeper.recover(T)
    assert world.rows()["d1"] == (frozenset({1, 99, 11}) if again else frozenset({1, 99}))
    world.vacuum()
    assert world.rows()["d1"] >= {1, 99}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_late_calls_of_two_appends_that_were_given_up_are_undone(world: World, order: tuple[int, int]) -> None:
    calls = []
    for row in (98, 99):
        calls.append(without_answer(world, lambda: world.write(MORE, plan=world.plan(WriteMode.APPEND))))
        insert(world, "d1", row)
        insert(world, "d2", row + 100)
        world.recover_later()
    for number in order:
        calls[number]()
        world.write({"d1": frozenset({11 + number})}, plan=world.plan(WriteMode.APPEND))
        world.keeper.recover(T)
    assert world.rows() == {"d1": frozenset({1, 98, 99, 11, 12}), "d2": frozenset({2, 198, 199})}


@pytest.mark.parametrize("moved", [("d1",), ("d1", "d2")])
def test_a_late_call_over_what_another_tool_has_moved_is_undone(world: World, moved: tuple[str, ...]) -> None:
    write_id = world.stage(MORE, plan=world.plan(key="k"))
    come = without_answer(world, lambda: world.keeper.publish(T, write_id))
    for value in moved:
        move(world, value, "elsewhere", 77)
    world.recover_later()
    assert come()
    world.keeper.recover(T)
    assert world.rows() == {"d1": frozenset({77}), "d2": frozenset({77}) if len(moved) == 2 else MORE["d2"]}
    assert (world.history().records.publication(write_id) is None) is (len(moved) == 2)


def test_the_late_call_of_the_older_of_two_given_up_goes_back_to_where_the_newer_one_was_found(world: World) -> None:
    calls = []
    for name, row in (("x", 50), ("y", 60)):
        move(world, "d1", name, row)
        append = partial(world.write, {"d1": frozenset({row + 9})}, plan=world.plan(WriteMode.APPEND))
        calls.append(without_answer(world, append))
        insert(world, "d1", row + 1)
        world.recover_later()
    for come in calls:
        come()
        world.keeper.recover(T)
        assert world.rows()["d1"] == frozenset({60, 61})


def test_the_late_call_of_what_was_published_goes_back_to_where_a_newer_given_up_one_was_found(world: World) -> None:
    come = without_answer(world, lambda: world.write(MORE))
    world.recover_later()
    world.write(OLD)
    newest = without_answer(world, lambda: world.write(MORE))
    move(world, "d1", "x", 77)
    move(world, "d2", "x", 78)
    assert world.recover_later().settled == {5: "abandoned"}
    for late in (come, newest):
        late()
        world.keeper.recover(T)
        assert world.rows() == {"d1": frozenset({77}), "d2": frozenset({78})}


def test_a_recovery_that_gives_up_beside_a_late_rollback_has_not_found_what_that_shows() -> None:
    world = World()
    world.written_by_another_tool("d1", frozenset({50}))
    world.write({"d1": frozenset({1})})
    come = without_answer(world, lambda: world.keeper.rollback(T, version=0))
    world.recover_later()
    world.write({"d1": frozenset({60})})
    without_answer(world, lambda: world.write({"d1": frozenset({10})}, plan=world.plan(WriteMode.APPEND)))
    insert(world, "d1", 61)
    come()
    assert world.recover_later().settled[5] == "abandoned"
    assert world.rows()["d1"] == frozenset({60, 61})


@pytest.mark.parametrize("end", ["recover", "append"])
@pytest.mark.parametrize("call", ["alter_partitions", "drop_partition"])
def test_what_is_emptied_late_though_another_tool_had_moved_it_comes_back(world: World, end: str, call: str) -> None:
    whole = partial(world.write, {"d1": frozenset({10})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    come = without_answer(world, whole, call)
    move(world, "d2", "x", 77)
    world.recover_later()
    come()
    if end == "append":
        world.write({"d2": frozenset({20})}, plan=world.plan(WriteMode.APPEND))
    else:
        world.keeper.recover(T)
    assert world.rows() == {"d1": frozenset({10}), "d2": frozenset({77, 20} if end == "append" else {77})}


def test_a_given_up_rollback_that_empties_late_or_goes_back_to_files_of_other_tools_is_undone() -> None:
    world = World()
    world.written_by_another_tool("d1", frozenset({50}))
    world.write(OLD)
    come = without_answer(world, lambda: world.keeper.rollback(T, version=0))
    for value in OLD:
        move(world, value, "x", 77)
    assert world.recover_later().settled == {2: "abandoned"}
    come()
    assert world.rows() == {"d1": frozenset({50})}
    world.keeper.recover(T)
    assert world.rows() == dict.fromkeys(OLD, frozenset({77}))


def test_a_given_up_append_in_place_whose_alter_comes_late_is_undone(world: World) -> None:
    in_place = partial(world.write, MORE, plan=world.plan(WriteMode.APPEND, in_place=True))
    come = without_answer(world, in_place)
    for value in MORE:
        move(world, value, "x", 77)
    assert world.recover_later().settled == {2: "abandoned"}
    come()
    assert world.rows() == OLD
    world.keeper.recover(T)
    assert world.rows() == dict.fromkeys(MORE, frozenset({77}))


SPELLINGS = [
    ("int", "1", "01"),
    ("date", "2024-01-01", "2024-1-1"),
    ("char(3)", "a", "a "),
    ("int", NULL_PARTITION, "x"),
]


@pytest.mark.parametrize(("kind", "value", "spelled"), SPELLINGS)
def test_a_given_up_add_that_comes_late_is_dropped_beside_another_spelling(kind: str, value: str, spelled: str) -> None:
    world = World()
    world.metastore.create_table(replace(world.table, partition_columns=(Column("dt", kind),)))
    come = without_answer(world, lambda: world.write({value: frozenset({2})}), "add_partitions")
    theirs = Partition(values=(spelled,), location=f"{world.root}theirs/", parameters=NO_FILES)
    world.metastore.add_partitions(world.table, [theirs])
    assert world.recover_later().settled == {1: "abandoned"}
    come()
    assert len(world.metastore.get_partition_names(world.name)) == 2
    world.keeper.recover(T)
    assert set(world.metastore.get_partition_names(world.name)) == {(spelled,)}
    world.keeper.recover(T)
    assert set(world.metastore.get_partition_names(world.name)) == {(spelled,)}


@pytest.mark.parametrize("died", [None, *(Fault("metastore", "alter_partitions", 1, at, DeathError) for at in PHASES)])
def test_a_given_up_add_that_comes_after_another_tools_drop_brings_nothing_back(
    world: World, died: Fault | None
) -> None:
    create = partial(world.write, {"d3": frozenset({30})}, plan=world.plan(WriteMode.CREATE_PARTITIONS))
    come = without_answer(world, create, "add_partitions")
    move(world, "d3", "x", 77)
    assert world.recover_later().settled == {2: "abandoned"}
    world.dropped_by_another_tool("d3")
    come()
    if died is not None:
        with world.inject(died), pytest.raises(DeathError):
            world.keeper.recover(T)
    world.recover_later()
    assert world.rows() == OLD
    world.write({"d3": frozenset({31})}, plan=world.plan(WriteMode.CREATE_PARTITIONS))
    assert world.rows() == OLD | {"d3": frozenset({31})}


def test_a_late_call_is_no_other_tool_to_the_recovery_of_what_never_published_the_partition(world: World) -> None:
    move(world, "d3", "x", 50)
    append = partial(world.write, {"d3": frozenset({30})}, plan=world.plan(WriteMode.APPEND))
    come = without_answer(world, append)
    insert(world, "d3", 51)
    assert world.recover_later().settled == {2: "abandoned"}
    world.fails(DIED, lambda: world.write({"d3": frozenset({60})}))
    come()
    assert world.recover_later().settled == {4: "published"}
    assert world.rows()["d3"] == frozenset({60})


@pytest.mark.parametrize("moved", [False, True])
def test_another_tool_is_believed_again_once_no_call_can_come(world: World, moved: bool) -> None:
    whole = partial(world.write, {"d1": frozenset({10})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    without_answer(world, whole)
    move(world, "d2", "x", 77)
    world.recover_later()
    world.wait_seconds = 3 * 86_400
    world.recover_later()
    world.dropped_by_another_tool("d2")
    if moved:
        move(world, "d2", "y", 78)
    world.keeper.recover(T)
    assert world.rows() == {"d1": frozenset({10})} | ({"d2": frozenset({78})} if moved else {})


def test_nobody_publishes_over_what_undoes_a_late_call_before_that_has_ended(world: World) -> None:
    come = without_answer(world, lambda: world.write({"d1": frozenset({10})}))
    world.written_by_another_tool("d1", frozenset({77}))
    assert world.recover_later().settled == {2: "abandoned"}
    assert come()

    def meanwhile() -> None:
        world.sleep = lambda _: fail(InterruptedError())
        with pytest.raises(InterruptedError):
            world.write({"d1": frozenset({20})})

    world.at_metastore("alter_partitions", "before", meanwhile)
    world.keeper.recover(T)
    assert world.rows()["d1"] == frozenset({77})


@pytest.mark.parametrize("clock", ["wall", "both"])
def test_what_was_looked_at_before_a_pause_is_looked_at_again(
    world: World, monkeypatch: pytest.MonkeyPatch, clock: str
) -> None:
    """A hypervisor stops one clock and a suspended machine none; its claim is young in either case."""
    passed, now = [0.0], time.clock_gettime
    monkeypatch.setattr(deadline, "wall_seconds", lambda: passed[0])
    if clock == "both":
        monkeypatch.setattr("time.clock_gettime", lambda which: now(which) + passed[0])

    def pause() -> None:
        passed[0] += 3 * 86_400
        world.skipped_seconds += 3 * 86_400
        insert(world, "d1", 99)

    world.at_store("put_if_absent", "before", pause, "2.json")
    world.write(MORE, plan=world.plan(WriteMode.APPEND))
    assert world.rows() == {**ALL, "d1": frozenset({1, 10, 99})}


@pytest.mark.parametrize("moved", [("d1",), ("d1", "d2")])
def test_a_write_is_not_told_what_became_of_another(world: World, moved: tuple[str, ...]) -> None:
    world.fails(DIED, lambda: world.write(MORE))
    world.wait_out_claims()

    def overtake() -> None:
        for value in moved:
            world.written_by_another_tool(value, frozenset({77}))
        world.recover_later()
        raise MetastoreError("300 s were not enough to publish")

    world.at_metastore("alter_partitions", "before", overtake)
    world.write({"d1": frozenset({5}), "d2": frozenset({6})}, plan=world.plan(WriteMode.APPEND))
    assert world.rows() == {"d1": frozenset({77, 5}), "d2": frozenset({77, 6}) if len(moved) == 2 else MORE["d2"] | {6}}


def test_the_history_says_which_partitions_were_published(world: World) -> None:
    world.fails(DIED, lambda: world.write(MORE))
    world.written_by_another_tool("d2", frozenset({77}))
    world.recover_later()
    assert [one.name for one in world.keeper.show(T, 2).partitions] == ["dt=d1"]
    assert {one.version: one.rows for one in world.keeper.history(T).versions} == {3: 1, 2: 1, 1: 2}
