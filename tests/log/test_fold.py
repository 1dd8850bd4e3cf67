"""A fold stands for the entries before it, as long as it can be believed; else all of them are read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest

from benchmarks.long_log import LongLog, measure
from table_writer.model.entry import Key
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log import table_log
from table_writer.protocol.log.fold import FOLD_FORMAT, fold_from_json, fold_to_json
from table_writer.protocol.log.history import History
from table_writer.protocol.log.table_log import TableLog
from table_writer.protocol.log.trimming import Trimming
from tests.publish.world import DIED, TABLE, DeathError, World, body_of

T = str(TABLE)
MONTHS = 90 * 86_400.0
WRITES = 8


@pytest.fixture(autouse=True)
def _folds_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_log, "FOLD_EVERY_VERSIONS", 3)


@pytest.fixture
def world() -> World:
    """A table of some versions, folded by a vacuum; then one version more."""
    world = World()
    for number in range(WRITES):
        values = f"d{number % 3}"
        world.write_once({values: frozenset({number})}, WriteMode.OVERWRITE_PARTITIONS, f"load/{values}/run-{number}")
    world.vacuum()
    assert folds(world), "the vacuum has folded the log"
    world.write({"d0": frozenset({99})})
    return world


def folds(world: World) -> list[str]:
    return [found.key for found in world.store.list(f"{world.layout.log_prefix}folded-")]


def recent(world: World) -> History:
    return world.services().log.read_recent()


def said(history: History) -> tuple[object, ...]:
    """What recover and vacuum go by, but for ages."""
    current = {values: (one.version, one.partition) for values, one in history.state.current_partitions.items()}
    left = {place: replace(one, age_seconds=0.0) for place, one in history.state.left_locations.items()}
    return (
        current,
        left,
        history.in_use(),
        history.state.current_contents(),
        history.newest,
        [*history.records.in_doubt],
    )


def test_what_is_folded_and_what_came_after_say_what_all_entries_say(world: World) -> None:
    found, whole = recent(world), world.history()
    assert found.fold is not None
    assert len(found.records) < len(whole.records)
    assert said(found) == said(whole)


def test_what_is_in_doubt_is_not_folded(world: World) -> None:
    with world.inject(DIED), suppress(DeathError):
        world.write({"d0": frozenset({100})})
    for number in range(4):
        world.write({"d1": frozenset({number})})
    world.vacuum()
    assert [one.entry.version for one in recent(world).records.publishes_in_doubt] == [WRITES + 3]


def test_files_of_an_append_in_place_that_was_done_again_count_once_though_it_is_folded(world: World) -> None:
    world.write({"d1": frozenset({50})})
    plan = world.plan(WriteMode.APPEND, in_place=True)
    with world.inject(DIED), suppress(DeathError):
        world.write({"d0": frozenset({100})}, plan=plan)
    world.recover_later()
    world.skipped_seconds += 3 * 86_400.0
    world.keeper.recover(T)
    world.vacuum()
    folded, whole = max(int(one[-20:]) for one in folds(world)), world.history()
    assert [one.entry.recovers == folded for one in whole.records[-2:]] == [True, False], "of the two only the first"
    assert said(recent(world)) == said(whole)


def test_ages_go_on_while_a_fold_lies_there(world: World) -> None:
    before = {place: one.age_seconds for place, one in recent(world).state.left_locations.items()}
    world.skipped_seconds += 1_000.0
    after = {place: one.age_seconds for place, one in recent(world).state.left_locations.items()}
    assert all(after[place] - before[place] == pytest.approx(1_000.0, abs=60) for place in before)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda body: body[:-20],
    "of another table": lambda body: body.replace(b'"log_id":"', b'"log_id":"f'),
    "with other content": lambda body: body.replace(b'"rows":1', b'"rows":7', 1),
    "of a later format": lambda body: body.replace(b'"format":%d' % FOLD_FORMAT, b'"format":%d' % (FOLD_FORMAT + 1), 1),
    "no JSON": lambda _: b"\x00" * 100,
    "without fields": lambda _: b'{"format":1}',
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_fold_is_passed_over(world: World, damage: Callable[[bytes], bytes]) -> None:
    for key in folds(world):
        stored = body_of(world.store, key)
        damaged = damage(stored)
        assert damaged != stored
        world.store.put(key, damaged)
    found = recent(world)
    assert found.fold is None
    assert said(found) == said(world.history())


def test_a_fold_that_was_passed_over_is_deleted_by_the_next_vacuum_that_folds(world: World) -> None:
    (damaged,) = folds(world)
    world.store.put(damaged, b"damaged")
    for number in range(4):
        world.write({"d1": frozenset({number})})
    world.vacuum()
    assert len(folds(world)) == 1
    assert folds(world) != [damaged]


def test_a_fold_of_another_log_is_passed_over(world: World) -> None:
    """As after a restore of the log's objects from a backup: the entry it ends with is another, or is not there."""
    (key,) = folds(world)
    stored = body_of(world.store, key)
    version = int(key[-20:])
    world.store.put(f"{world.layout.log_prefix}folded-{version + 1:020}", stored)
    found = recent(world).fold
    assert found is not None
    assert found.version == version, "the fold before counts"


def test_a_log_that_was_put_back_to_before_its_fold_is_read_as_it_is(world: World) -> None:
    (key,) = folds(world)
    gone = [found.key for found in world.store.list(world.layout.log_prefix) if key[-20:] <= found.key[-25:-5] < ":"]
    world.store.delete(gone)
    found = world.services().log.read_recent(allow_lost=True)
    assert found.fold is None
    assert found.newest < int(key[-20:])


def test_a_fold_that_goes_while_it_is_read_is_missed_by_nobody(world: World) -> None:
    listed = world.services().log.list_recent
    world.store.on_call = lambda call, phase, key: (
        world.store.delete(folds(world)) if (call, phase) == ("get", "before") and "folded-" in key else None
    )
    state, fold = listed()
    assert fold is None
    assert state.listed_after == 0


def test_a_key_before_the_fold_is_known(world: World) -> None:
    log = world.services().log
    found = log.find_key(Key("load/d0/run-0"))
    assert found is not None
    assert (found.entry.version, log.find_key(Key("load/d0/run-1000"))) == (1, None)


def test_nothing_is_folded_while_a_call_may_come_late(world: World) -> None:
    before = folds(world)
    log = world.services().log
    log.marks.remember_recovery(log.lister.read().newest)
    for number in range(5):
        world.write({"d1": frozenset({number})})
    world.vacuum()
    assert folds(world) == before


def test_no_fold_is_believed_that_holds_an_outcome_which_was_rebuilt_since(world: World) -> None:
    world.services().log.marks.remember_recovery(2)
    assert recent(world).fold is None


def test_a_recovery_that_begins_while_a_vacuum_reads_keeps_it_from_folding(world: World) -> None:
    for number in range(5):
        world.write({"d1": frozenset({number})})
    log = world.services().log
    history = log.read_recent()
    log.marks.remember_recovery(history.newest + 1)
    assert log.save_fold(history, log.read_oldest(history, 0.0)) is None


def test_a_vacuum_trims_what_is_folded_and_says_the_same_as_before(world: World) -> None:
    world.skipped_seconds += MONTHS
    whole = world.history()
    expected = Trimming(whole).versions(MONTHS / 2)
    assert expected
    (key,) = folds(world)
    present = world.services().log.lister.read(listed_after=0).versions
    world.keeper.vacuum(T, older_than=timedelta(days=400))
    trimmed = present - world.services().log.lister.read(listed_after=0).versions
    assert expected - {int(key[-20:])} <= trimmed <= expected
    assert said(recent(world))[0] == said(whole)[0]
    assert not world.services().log.lister.read(listed_after=0).lost


def test_the_doctor_compares_a_fold_with_the_entries(world: World) -> None:
    (key,) = folds(world)

    def found() -> bool:
        report = world.keeper.doctor(T)
        return any(key in one.message for one in report.findings)

    assert not found()
    stored = body_of(world.store, key)
    fold = fold_from_json(stored, layout=world.layout, older_seconds=0.0)
    lies = replace(fold, current_partitions={})
    world.store.put(key, fold_to_json(lies))
    assert found()


def test_folds_before_the_last_two_are_deleted(world: World) -> None:
    for _ in range(4):
        for number in range(4):
            world.write({"d1": frozenset({number})})
        world.vacuum()
    assert len(folds(world)) == 2


def test_a_metastore_that_was_set_back_is_corrected_though_the_log_is_folded(world: World) -> None:
    """Only entries before the fold know the place that a partition is back at."""
    rows = world.rows()
    older = world.services().log.slots.read(2).entry.partitions[0]
    assert older.new_location is not None
    world.pointed_by_another_tool(older.values[0], older.new_location)
    assert world.rows() != rows
    world.keeper.recover(T)
    assert world.rows() == rows


@pytest.mark.slow
def test_no_operation_asks_for_more_where_the_log_is_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_log, "FOLD_EVERY_VERSIONS", 100)
    short, long = (measure(entries, 40, 0) for entries in (2_000, 4_000))  # the newest entry of both is a vacuum
    assert {one.operation: one.requests for one in short} == {one.operation: one.requests for one in long}


def test_the_first_vacuum_of_a_log_that_nobody_has_folded_lets_plans_list_a_page() -> None:
    log = LongLog(400, 10)
    log.world.keeper.vacuum("mart_customer_orders.orders_enriched")
    opened = log.opened()
    assert TableLog(opened.store, opened.layout).lister.read().listed_after >= 398
