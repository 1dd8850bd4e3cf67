"""Staged writes from the command line: listed, shown, published and discarded by their ``write_id``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from table_writer.jobs.staged_writes import StagedWrites
from table_writer.model.check_result import CheckResult
from table_writer.model.write_mode import WriteMode
from tests.cli.shell import TABLE, Shell
from tests.publish.world import World

FIRST = {"d1": frozenset({1}), "d2": frozenset({2})}
SECOND = {"d1": frozenset({10}), "d3": frozenset({30})}


@pytest.fixture
def world() -> World:
    world = World()
    world.write(FIRST)
    return world


def test_nothing_staged_is_said(shell: Shell) -> None:
    ran = shell.run("staged", TABLE)
    assert (ran.code, ran.out) == (0, f"{TABLE}: nothing is staged\n")
    assert shell.run("staged", TABLE, "--json").json["staged"] == []


def test_staged_lists_and_shows_and_changes_nothing(world: World, shell: Shell) -> None:
    older, newer = world.stage(SECOND), world.stage(SECOND, plan=world.plan(WriteMode.APPEND))
    listed = shell.run("staged", TABLE, "--json").json["staged"]
    assert {one["write_id"]: one["mode"] for one in listed} == {older: "overwrite_partitions", newer: "append"}
    assert all(
        (one["rows"], one["files"], one["partitions_count"], one["is_expired"]) == (2, 2, 2, False) for one in listed
    )
    assert older in shell.run("staged", TABLE).out
    shown = shell.run("staged", TABLE, older, "--json").json
    assert {one["name"]: one["rows"] for one in shown["partitions"]} == {"dt=d1": 1, "dt=d3": 1}
    assert world.rows() == FIRST


def test_publish_switches_all_partitions_and_leaves_nothing_staged(world: World, shell: Shell) -> None:
    write_id = world.stage(SECOND)
    looked = shell.run("publish", TABLE, write_id, "--dry-run")
    assert looked.code == 0
    assert "nothing was published" in looked.out
    assert world.rows() == FIRST
    ran = shell.run("publish", TABLE, write_id, "--json")
    assert (ran.code, ran.json["version"], ran.json["rows"], ran.json["write_id"]) == (0, 2, 2, write_id)
    assert {one["name"]: one["action"] for one in ran.json["partitions"]} == {"dt=d1": "replaced", "dt=d3": "added"}
    assert world.rows() == {**FIRST, **SECOND}
    assert shell.run("staged", TABLE, "--json").json["staged"] == []
    assert world.leftovers() == [key for key in world.leftovers() if "/data/" in key], "only what was replaced"


def test_a_second_publish_says_as_which_version_it_was_published(world: World, shell: Shell) -> None:
    write_id = world.stage(SECOND)
    shell.run("publish", TABLE, write_id)
    again = shell.run("publish", TABLE, write_id)
    assert again.code == 0, "a job that is retried has nothing to do"
    assert "published before as version 2, nothing changed" in again.out
    assert shell.run("publish", TABLE, write_id, "--json").json["repeated"] is True
    assert shell.run("discard", TABLE, write_id).code == 2
    assert world.rows() == {**FIRST, **SECOND}


def test_a_publish_that_comes_second_is_a_conflict_and_the_write_stays_staged(world: World, shell: Shell) -> None:
    write_id = world.stage(SECOND)
    world.write({"d1": frozenset({99})})
    for words in (("--dry-run",), ()):
        ran = shell.run("publish", TABLE, write_id, *words)
        assert ran.code == 3
        assert "dt=d1" in ran.err
    assert [one["write_id"] for one in shell.run("staged", TABLE, "--json").json["staged"]] == [write_id]
    assert world.rows() == {**FIRST, "d1": frozenset({99})}


def test_discard_deletes_files_and_registration_and_keeps_the_rows(world: World, shell: Shell) -> None:
    write_id = world.stage(SECOND)
    looked = shell.run("discard", TABLE, write_id, "--dry-run", "--json").json
    assert sum(len(one["keys"]) for one in looked["deleted"]) == 2
    assert shell.run("staged", TABLE, "--json").json["staged"] != []
    ran = shell.run("discard", TABLE, write_id, "--json")
    assert (ran.code, ran.json["deleted"]) == (0, looked["deleted"])
    assert world.rows() == FIRST
    assert world.leftovers() == []
    assert "was discarded" in shell.run("publish", TABLE, write_id).err


def test_a_check_that_has_failed_stands_in_the_way(world: World, shell: Shell) -> None:
    write_id = world.stage(SECOND)
    staged_writes = StagedWrites(world.services())
    failed = CheckResult(name="not_null(id)", severity="error", passed=False, message="1 of 2 rows has no id")
    staged_writes.with_checks(write_id, [failed])
    for words in (("--dry-run",), ()):
        ran = shell.run("publish", TABLE, write_id, *words)
        assert ran.code == 2
        assert "not_null(id)" in ran.err
    assert world.rows() == FIRST
    staged_writes.with_checks(write_id, [replace(failed, severity="warn")])
    assert shell.run("publish", TABLE, write_id).code == 0
    assert [one.severity for one in world.services().log.slots.read(2).entry.checks] == ["warn"]
    assert "not_null(id)" in shell.run("show", TABLE, "2").out


@pytest.mark.parametrize("command", ["publish", "discard"])
@pytest.mark.parametrize("write_id", ["20240101T000000-0000000000000000", "../log/1", "", "a b"])
def test_a_write_that_is_not_staged_is_a_wrong_call(shell: Shell, command: str, write_id: str) -> None:
    ran = shell.run(command, TABLE, write_id)
    assert ran.code == 2
    assert "staged" in ran.err


def test_one_that_is_still_being_written_is_neither_published_nor_discarded(world: World, shell: Shell) -> None:
    plan = world.plan()
    seen = []

    def look() -> None:
        seen.extend(shell.run(command, TABLE, plan.write_id) for command in ("publish", "discard"))

    world.write(SECOND, plan=plan, before_publish=look)
    assert [(one.code, "still being written" in one.err) for one in seen] == [(2, True), (2, True)]
    assert world.rows() == {**FIRST, **SECOND}


def test_a_vacuum_deletes_what_has_expired_and_nothing_else(world: World, shell: Shell) -> None:
    forgotten = world.stage(SECOND, expires_after_seconds=3_600.0)
    wanted = world.stage({"d2": frozenset({20})}, expires_after_seconds=90_000.0)
    world.skipped_seconds += 3_700
    states = {one["write_id"]: one["is_expired"] for one in shell.run("staged", TABLE, "--json").json["staged"]}
    assert states == {forgotten: True, wanted: False}
    shell.run("vacuum", TABLE, "--older-than", "0", "--force")
    assert shell.run("publish", TABLE, forgotten).code == 2
    assert shell.run("publish", TABLE, wanted).code == 0
    assert world.rows() == {**FIRST, "d2": frozenset({20})}


def test_what_was_changed_after_it_was_staged_is_not_published(world: World, shell: Shell) -> None:
    write_id = world.stage(SECOND)
    data = world.layout.data(write_id).key
    stray = f"{data}dt=d1/part-99999-{write_id}-0.json"
    world.store.put(stray, b"[77]")
    assert stray in shell.run("publish", TABLE, write_id).err
    world.store.delete([stray, next(info.key for info in world.store.list(f"{data}dt=d3/"))])
    assert "not as it was written" in shell.run("publish", TABLE, write_id).err
    assert world.rows() == FIRST


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"staged": {"expires_after_seconds": 5}}'])
def test_a_staged_record_that_cannot_be_read_is_an_error_that_says_so(
    world: World, shell: Shell, damage: bytes
) -> None:
    write_id = world.stage(SECOND)
    world.store.put(world.layout.staged_key(write_id), damage)
    ran = shell.run("publish", TABLE, write_id)
    assert ran.code == 2
    assert write_id in ran.err
    assert world.rows() == FIRST
