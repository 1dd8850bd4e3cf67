"""Registrations: who is alive, who is dead, and what is left of what cannot be read."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from table_writer.errors import InvalidInputError
from table_writer.model.check_result import CheckResult
from table_writer.model.staged_write import LONGEST_EXPIRY_SECONDS
from table_writer.protocol.log.registration import (
    FoundRegistration,
    Registration,
    check_keys,
    put_check_results,
    read_check_results,
    read_registration,
    write_id_of_check,
    writer_identity,
)
from table_writer.testing.memory_store import MemoryStore
from tests.publish.world import DeathError, Fault, World, body_of, plain

DAY = 86_400.0


@pytest.fixture
def world() -> World:
    return World()


def left_by_a_dead_writer(world: World, change: Callable[[dict[str, Any]], object] = dict) -> FoundRegistration:
    """Return the registration of a writer that died at once, changed as another machine would have written it."""
    plan = world.plan()
    with world.inject(Fault("store", "create_upload", 1, "before", DeathError)), pytest.raises(DeathError):
        world.write({"d1": frozenset({1})}, plan=plan)
    key = world.layout.registration_key(plan.write_id)
    stored = body_of(world.store, key)
    fields = json.loads(stored)
    change(fields)
    world.store.put(key, json.dumps(fields).encode())
    return found(world, plan.write_id)


def found(world: World, write_id: str) -> FoundRegistration:
    registered = read_registration(world.store, world.layout, write_id)
    assert registered is not None
    return registered


def of_a_gone_process(fields: dict[str, Any]) -> None:
    fields["writer"]["process"] = f"{fields['writer']['process'].rpartition('/')[0]}/1"  # another start of this PID


def test_a_writer_whose_process_is_gone_is_dead_once_it_is_old_enough_and_not_before(world: World) -> None:
    registered = left_by_a_dead_writer(world, of_a_gone_process)
    assert not registered.is_dead(10.0)
    assert registered.is_dead(0.0)
    world.skipped_seconds += 11
    assert found(world, registered.write_id).is_dead(10.0), "though it has missed no heartbeat"


def test_a_writer_whose_process_lives_is_dead_only_after_five_missed_heartbeats(world: World) -> None:
    registered = left_by_a_dead_writer(world)
    world.skipped_seconds += 299
    assert not found(world, registered.write_id).is_dead(0.0)
    world.skipped_seconds += 2
    assert found(world, registered.write_id).is_dead(0.0)
    assert not found(world, registered.write_id).is_dead(400.0), "it is not old enough"


@pytest.mark.parametrize(
    "change",
    [
        lambda writer: writer.update(process="another-boot/pid:[1]/1/1"),
        lambda writer: writer.update(process=f"{writer['process'].split('/')[0]}/pid:[1]/1/1"),
        lambda writer: writer.update(process=""),
        lambda writer: writer.pop("process"),
        lambda writer: writer.update(process=writer["process"] + "0", pid="x"),
        lambda writer: [writer.update(process=writer["process"] + "0"), writer.pop("pid")],
    ],
    ids=["another machine", "another container", "not Linux", "unknown", "no number", "no PID"],
)
def test_of_a_process_elsewhere_nobody_says_that_it_is_gone(
    world: World, change: Callable[[dict[str, Any]], object]
) -> None:
    registered = left_by_a_dead_writer(world, lambda fields: change(fields["writer"]))
    world.skipped_seconds += 20
    assert not found(world, registered.write_id).is_dead(10.0)


@pytest.mark.parametrize(
    ("every", "counts"),
    [*((one, one) for one in (0.5, 1, 3600.0)), *((none, 3600.0) for none in (0, -1, 3601.0, "60", None, True))],
)
def test_a_writer_says_how_often_it_gives_a_sign_and_what_no_writer_says_counts_as_the_longest(
    world: World, every: object, counts: float
) -> None:
    registered = left_by_a_dead_writer(world, lambda fields: fields.update(renewed_every_seconds=every))
    assert registered.renewed_every_seconds == counts


def test_what_is_registered_names_table_and_write_for_people(world: World) -> None:
    registered = left_by_a_dead_writer(world)
    staged = world.stage({"größe": frozenset({1})})
    for key, write_id in ((registered.key, registered.write_id), (world.layout.staged_key(staged), staged)):
        stored = body_of(world.store, key)
        fields = json.loads(plain(stored))
        assert (fields["format"], fields["table"], fields["write_id"]) == (1, str(world.name), write_id)
    assert "größe".encode() in plain(stored)


def test_a_staged_record_of_another_write_is_none_and_a_registration_without_one_is_not_staged(world: World) -> None:
    staged = world.stage({"d1": frozenset({1})}, expires_after_seconds=100.0)
    stored = body_of(world.store, world.layout.staged_key(staged))
    assert found(world, staged).expires_after_seconds == 100.0
    world.store.put(world.layout.staged_key("other"), stored)
    other = found(world, "other")
    assert (dict(other.staged), other.is_staged, other.expires_after_seconds) == ({}, True, LONGEST_EXPIRY_SECONDS)
    world.store.put(world.layout.registration_key("other2"), stored)
    assert not found(world, "other2").is_staged


def test_results_of_checks_are_read_oldest_first_and_belong_to_one_write(world: World) -> None:
    for write_id, names in (("w1", ("a", "b")), ("w1", ("c",)), ("w1.more", ("d",))):
        results = [CheckResult(name=name, severity="warn", passed=True, message="größer") for name in names]
        put_check_results(world.store, world.layout, write_id, results)
        world.skipped_seconds += 1
    keys = check_keys(world.store, world.layout, "w1")
    assert [each.name for each in read_check_results(world.store, keys[::-1])] == ["a", "b", "c"]
    assert {each.message for each in read_check_results(world.store, keys)} == {"größer"}
    assert len(check_keys(world.store, world.layout)) == 3
    assert {write_id_of_check(world.layout, key) for key in keys} == {"w1"}
    assert write_id_of_check(world.layout, world.layout.staged_key("w1")) is None
    world.store.put(keys[0], b"[{]")
    with pytest.raises(InvalidInputError, match=f"checks at {keys[0]} cannot be read"):
        read_check_results(world.store, keys)
    world.store.delete(keys[:1])
    assert [each.name for each in read_check_results(world.store, keys)] == ["c"], "a file that is gone says nothing"


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"[" * 100_000, b'{"writer": 5, "renewed_every_seconds": {}}'])
def test_what_cannot_be_read_is_a_writer_that_may_live_for_five_hours(world: World, body: bytes) -> None:
    registered = left_by_a_dead_writer(world)
    world.store.put(registered.key, body)
    world.skipped_seconds += 5 * 3600 - 1
    unreadable = found(world, registered.write_id)
    assert (unreadable.writer, unreadable.is_staged, unreadable.is_dead(0.0)) == ({}, False, False)
    world.skipped_seconds += 2
    assert found(world, registered.write_id).is_dead(0.0)


def test_a_staged_write_is_dead_once_it_has_expired_whatever_age_is_asked_for(world: World) -> None:
    write_id = world.stage({"d1": frozenset({1})}, expires_after_seconds=100.0)
    world.skipped_seconds += 99
    assert not found(world, write_id).is_dead(0.0)
    world.skipped_seconds += 2
    assert found(world, write_id).is_dead(1_000.0)


def test_who_writes_is_said_in_full() -> None:
    identity = writer_identity("app-7")
    assert set(identity) == {"host", "pid", "process", "user", "application_id", "library_version"}
    assert identity["pid"] == str(os.getpid())
    assert identity["application_id"] == "app-7"
    assert all(identity.values())
    assert identity["process"].count("/") == 3
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert identity["process"].startswith(f"{boot}/"), "else a process of another machine could be taken for one here"


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr("getpass.getuser", nameless)
    assert writer_identity("")["user"] == str(os.getuid())


def test_its_own_object_is_put_again_by_a_thread_that_no_process_waits_for() -> None:
    store, again, put = MemoryStore(), threading.Event(), list[str]()

    def called(call: str, phase: str, key: str) -> None:
        if (call, phase) == ("put", "after"):
            put.append(key)
            if len(put) > 1:
                again.set()

    plan = World().plan()
    key = plan.layout.registration_key(plan.write_id)
    store.on_call = called
    with Registration(store, plan, {"host": "here"}, heartbeat_seconds=0.001):
        (thread,) = (one for one in threading.enumerate() if one.name == f"heartbeat-{plan.write_id}")
        first = store.get(key)
        assert again.wait(60)
        stored = store.get(key)
    assert set(put) == {key}
    assert thread.daemon
    assert not thread.is_alive()
    assert stored is not None
    assert first is not None
    assert stored.body == first.body
    assert store.get(key) is None
