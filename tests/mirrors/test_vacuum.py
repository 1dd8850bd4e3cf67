"""A vacuum lets mirrors follow before it deletes: what a mirror names is there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final
from unittest import mock

import pytest

from table_writer.config import TableWriterConfig
from table_writer.errors import StorageError
from table_writer.mirrors import follow as mirrors
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.vacuum.due import Ages
from table_writer.protocol.vacuum.sweep import Vacuum
from tests.maintenance.erasures import purge
from tests.maintenance.operations import ADDED, MIXED, OLD, REPLACED, erase
from tests.publish.world import DeathError, Fault

from .test_overtaken import at_call
from .world import PREFIX, MirroredWorld

TABLE: Final = "mart.orders"


def behind() -> MirroredWorld:
    """Return a world whose mirror names files that readers of the table have left."""
    world = MirroredWorld()
    world.write(OLD)
    world.follows = False
    world.write(REPLACED)
    world.follows = True
    return world


VACUUMS: Final[dict[str, Callable[[MirroredWorld], object]]] = {
    "vacuum": lambda world: world.vacuum(),
    "vacuum of many": lambda world: world.keeper.vacuum_many([TABLE], older_than=timedelta(0), force=True),
    "erasure": lambda world: (erase(world), world.keeper.vacuum(TABLE)),
}


@pytest.mark.parametrize("name", VACUUMS)
def test_the_mirror_is_brought_up_before_files_go_also_where_no_setting_names_it(name: str) -> None:
    world = behind()
    seen: list[bool] = []
    world.store.on_call = watched(world, seen)
    VACUUMS[name](world)
    world.store.on_call = None
    assert seen
    assert all(seen)
    assert world.mirrored_rows() == world.rows() == REPLACED
    assert world.leftovers() == []


def watched(world: MirroredWorld, seen: list[bool]) -> Callable[[str, str, str], object]:
    """Look, just after a data file has gone, whether the mirror names one that is not there."""

    def called(call: str, phase: str, key: str) -> None:
        if (call, phase) == ("delete", "after") and key.startswith(world.layout.all_data.key):
            hook, world.store.on_call = world.store.on_call, None
            seen.append(world.named_files_are_there())
            world.store.on_call = hook

    return called


def test_a_vacuum_that_does_not_let_the_mirror_follow_is_noticed() -> None:
    world = behind()
    seen: list[bool] = []
    world.store.on_call = watched(world, seen)
    with mock.patch.object(mirrors, "why_behind", return_value=""):  # the mutation
        world.vacuum()
    assert not all(seen)


def test_while_the_mirror_cannot_be_brought_up_nothing_is_deleted_and_the_report_says_why() -> None:
    world = behind()

    def called(call: str, phase: str, key: str) -> None:
        if (call, phase) == ("put_if_absent", "before") and PREFIX in key:
            raise StorageError("no room")

    world.store.on_call = called
    report = world.vacuum()
    world.store.on_call = None
    assert report.deleted == ()
    assert report.version is None
    [reason] = {kept.reason for kept in report.kept}
    assert reason.startswith("the delta mirror may name files there")
    assert "no room" in reason
    assert world.named_files_are_there()
    assert len(world.vacuum().deleted) == 2
    assert world.leftovers() == []


def test_a_vacuum_that_died_is_finished_only_once_the_mirror_has_followed() -> None:
    world = MirroredWorld()
    world.write(OLD)
    world.write(REPLACED)
    with world.inject(Fault("store", "delete", 1, "before", DeathError)), pytest.raises(DeathError):
        Vacuum(world.services(), mirrors).run(sweep_ages(), dry_run=False)
    world.keeper.mirror(TABLE, as_="delta", drop=True)
    world.write(MIXED)
    world.wait_out_claims()
    world.memory.clear()

    def called(call: str, phase: str, key: str) -> None:
        if (call, phase) == ("get", "before") and PREFIX in key:
            raise StorageError("not now")

    world.store.on_call = called
    assert Vacuum(world.services(), mirrors).finish() == ()
    world.store.on_call = None
    assert world.named_files_are_there()
    assert len(Vacuum(world.services(), mirrors).finish()) == 1
    assert world.mirrored_rows() == world.rows()


def sweep_ages() -> Ages:
    return Ages(replaced_seconds=0.0, usual_seconds=0.0, dead_write_seconds=0.0)


def test_commits_before_an_old_checkpoint_go_and_readers_go_on() -> None:
    world = MirroredWorld()
    world.write(OLD)
    for number in range(24):
        world.write({"d1": frozenset({number})})
    world.vacuum()
    assert len(world.commits()) == 25, "a month of them stays"
    world.skipped_seconds += 31 * 86_400
    world.write(ADDED)
    world.vacuum()
    names = [key.removeprefix(PREFIX)[:20].lstrip("0") for key in world.commits()]
    assert names == ["20", "21", "22", "23", "24", "25"]
    assert world.mirrored_rows() == world.rows()
    world.memory.clear()
    world.write({"d1": frozenset({500})})
    assert world.mirrored_rows() == world.rows()


def test_a_vacuum_that_may_not_delete_old_commits_says_so() -> None:
    world = MirroredWorld()
    for number in range(24):
        world.write({"d1": frozenset({number})})
    world.skipped_seconds += 31 * 86_400
    world.write(ADDED)

    def refuse(call: str, phase: str, key: str) -> None:
        if (call, phase) == ("delete", "before") and "_delta_log" in key:
            raise StorageError("AccessDenied")

    world.store.on_call = refuse
    (failure,) = world.vacuum().failures
    assert "the delta mirror was not tidied: not all of" in failure
    world.store.on_call = None
    assert world.vacuum().failures == ()


@pytest.mark.parametrize("config", [TableWriterConfig(mirrors=["delta"]), TableWriterConfig()])
def test_a_certificate_says_what_a_mirror_keeps_and_for_how_long(config: TableWriterConfig) -> None:
    world = MirroredWorld()
    world.write(OLD)
    purge(world, frozenset({3}))
    world.keeper.vacuum(TABLE)
    world.config = config
    certificate = world.keeper.erasure(TABLE)
    (told,) = [text for text in certificate.later if "_delta_log" in text]
    assert "has bounds of columns and values of partitions, of files that are gone, in commits and checkpoints" in told
    assert "720 hours old" in told
    assert certificate.is_complete


def test_a_table_without_a_mirror_costs_a_vacuum_four_requests_if_it_deletes() -> None:
    world = MirroredWorld(config=TableWriterConfig())
    world.write(OLD)
    asked: list[str] = []
    world.store.on_call = lambda call, phase, key: asked.append(call) if phase == "before" and "_delta" in key else None
    world.vacuum()
    assert asked == []
    world.write(REPLACED)
    world.vacuum()
    assert sorted(asked) == 2 * ["get"] + 2 * ["list_page"], "before it deletes, and after"


@pytest.mark.parametrize("number", range(1, 41))
def test_a_mirror_that_is_begun_during_a_vacuum_and_left_names_no_deleted_file_afterwards(number: int) -> None:
    world = MirroredWorld(config=TableWriterConfig())
    for rows in (OLD, REPLACED, MIXED):
        world.write(rows)
    other = MirroredWorld(store=world.store, metastore=world.metastore)
    other.remembers = False

    def begin() -> None:
        with other.inject(Fault("store", "put_if_absent", 1, "after", DeathError)), suppress(DeathError):
            other.keeper.mirror(TABLE, as_="delta")

    world.store.on_call = at_call(world, number, begin)
    assert world.vacuum().failures == ()
    world.store.on_call = None
    if world.commits():
        assert world.named_files_are_there()
        assert world.mirrored_rows() == world.rows()
    assert world.leftovers() == []


def test_a_vacuum_that_does_not_look_for_mirrors_after_it_has_deleted_is_noticed() -> None:
    before, noticed = mirrors.why_behind, False
    for number in range(1, 41):
        answers = iter((before, lambda *_: ""))
        with mock.patch.object(mirrors, "why_behind", side_effect=lambda *of, a=answers: next(a)(*of)):  # the mutation
            try:
                test_a_mirror_that_is_begun_during_a_vacuum_and_left_names_no_deleted_file_afterwards(number)
            except AssertionError:
                noticed = True
    assert noticed


def test_a_rollback_after_a_vacuum_and_an_append_are_followed() -> None:
    world = MirroredWorld()
    world.write(OLD)
    world.write(MIXED)
    world.write(REPLACED, plan=world.plan(WriteMode.APPEND))
    world.keeper.rollback(TABLE, version=2)
    assert world.mirrored_rows() == world.rows() == {**OLD, **MIXED}
    world.vacuum()
    assert world.named_files_are_there()
    assert world.mirrored_rows() == world.rows()


def test_a_mirror_of_a_log_that_is_gone_follows_before_its_files_go_as_those_of_dead_writes() -> None:
    world = MirroredWorld()
    world.write(OLD)
    log = list(world.store.list(world.layout.log_prefix))
    world.store.delete([world.layout.owner_key, world.layout.checkpoint_key, *(info.key for info in log)])
    for value in OLD:
        world.dropped_by_another_tool(value)
    world.config = TableWriterConfig()
    world.write({"d9": frozenset({9})})
    world.skipped_seconds += 40 * 86_400
    world.vacuum()
    assert world.named_files_are_there()
    assert world.mirrored_rows() == world.rows()
