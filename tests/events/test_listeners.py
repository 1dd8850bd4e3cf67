"""Listeners that do what they should not: the call keeps its result, and others are told."""

from __future__ import annotations

import json
import logging
import pickle
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import FrozenInstanceError, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from table_writer.config import SessionSettings, TableWriterConfig
from table_writer.errors import InvalidInputError
from table_writer.events import EventListener, JsonListener, TableEvent, listeners
from table_writer.events.listeners import listeners_named
from table_writer.jobs.announcing import announced
from table_writer.jobs.batches import TravellingBatchWriter
from table_writer.metastore.protocol import Metastore
from table_writer.model import process
from table_writer.reports.vacuum_reports import DiscardReport
from tests.publish.world import TABLE, World

T = str(TABLE)


class Twice:
    """A listener that is a class of somebody's own, and counts the ones that were made."""

    made: ClassVar[list[Twice]] = []

    def __init__(self) -> None:
        self.made.append(self)

    def __call__(self, event: TableEvent) -> None:
        """Do nothing."""


NOT_CALLABLE = SimpleNamespace(made=1)


def two_versions(*told: EventListener) -> World:
    world = World()
    world.write({"d1": frozenset({1})})
    world.write({"d1": frozenset({2})})
    world.config = TableWriterConfig(listeners=told)
    return world


class TimeIsUpError(BaseException):
    """What a scheduler's signal handler raises, so that nobody takes it for an error."""


@pytest.mark.parametrize("kind", [ValueError, MemoryError])
def test_what_a_listener_raises_changes_nothing_and_keeps_nobody_else_from_being_told(
    kind: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(event: TableEvent) -> None:
        raise kind("out of order")

    told: list[TableEvent] = []
    world = two_versions(fail, told.append)
    assert world.keeper.rollback(T, version=1).version == 3
    assert [one.outcome for one in told] == ["published"]
    assert "failed; nothing else is affected" in caplog.text
    assert "out of order" in caplog.text


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, TimeIsUpError])
def test_what_ends_the_process_while_a_listener_is_at_work_ends_the_call_and_says_what_had_become_of_it(
    kind: type[BaseException],
) -> None:
    def interrupted(event: TableEvent) -> None:
        raise kind

    world = two_versions(interrupted)
    with pytest.raises(kind) as stopped:
        world.keeper.rollback(T, version=1)
    assert "rollback of mart.orders: published, version 3" in stopped.value.__notes__[0]
    assert world.rows() == {"d1": frozenset({1})}


def test_a_listener_that_fails_is_not_asked_for_its_name(caplog: pytest.LogCaptureFixture) -> None:
    class Proxy:
        is_gone = False

        def __getattr__(self, name: str) -> Any:
            if self.is_gone:
                raise ConnectionError("nobody answers")
            raise AttributeError(name)

        def __call__(self, event: TableEvent) -> None:
            self.is_gone = True
            raise ConnectionError("nobody answers")

    assert two_versions(Proxy()).keeper.rollback(T, version=1).version == 3
    assert "Proxy failed; nothing else is affected" in caplog.text


def test_no_listener_sees_what_another_has_done_to_its_event() -> None:
    def spoil(event: TableEvent) -> None:
        cast("dict[str, int]", event.metastore_calls).clear()
        with suppress(FrozenInstanceError):
            event.outcome = "failed"  # type: ignore[misc]

    told: list[TableEvent] = []
    two_versions(spoil, told.append, spoil).keeper.rollback(T, version=1)
    assert told[0].outcome == "published"
    assert told[0].metastore_calls


def test_a_listener_that_changes_the_table_is_not_told_of_that_and_others_are() -> None:
    calls: list[int | None] = []

    def put_back(event: TableEvent) -> None:
        calls.append(event.version)
        world.keeper.rollback(T, version=2)

    told: list[TableEvent] = []
    world = two_versions(put_back, told.append)
    world.keeper.rollback(T, version=1)
    assert calls == [3]
    assert [one.version for one in told] == [4, 3]  # the inner call was over first
    assert world.rows() == {"d1": frozenset({2})}


def test_a_method_is_the_same_listener_in_every_config() -> None:
    class Keeper:
        calls = 0

        def put_back(self, event: TableEvent) -> None:
            self.calls += 1
            world.config = TableWriterConfig(listeners=[self.put_back])  # another object, the same method
            world.keeper.rollback(T, version=2)

    keeper = Keeper()
    world = two_versions(keeper.put_back)
    world.keeper.rollback(T, version=1)
    assert keeper.calls == 1


def test_a_listener_that_the_caller_waits_for_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listeners, "SLOW_SECONDS", -1.0)
    two_versions(JsonListener()).keeper.rollback(T, version=1)
    assert "listener table_writer.events.listeners.JsonListener took 0 s" in caplog.text


def test_an_event_that_cannot_be_made_fails_no_call(caplog: pytest.LogCaptureFixture) -> None:
    class WithoutAddress:
        @property
        def uri(self) -> str:
            raise RuntimeError("no address")

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

    told: list[TableEvent] = []
    world = two_versions(told.append)
    real, services = world.metastore, world.all_services()
    services.metastore = cast("Metastore", WithoutAddress())
    with announced(services, "vacuum", T) as call:
        call.follow(replace(world.services(), metastore=services.metastore))
        call.finished(SimpleNamespace())
    assert told == []
    assert "its event could not be made" in caplog.text


def test_ctrl_c_after_everything_is_done_does_not_undo_what_is_told() -> None:
    told: list[TableEvent] = []
    world = two_versions(told.append)
    with pytest.raises(KeyboardInterrupt), announced(world.all_services(), "discard", T) as call:
        call.finished(DiscardReport(table=T, write_id="W", version=3))
        raise KeyboardInterrupt
    assert [(one.outcome, one.error) for one in told] == [("discarded", None)]


def test_a_forked_child_tells_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[TableEvent] = []
    world = two_versions(told.append)
    with pytest.raises(SystemExit), announced(world.all_services(), "rollback", T):
        monkeypatch.setattr(process, "_process_marker", [object()])  # what a fork does first
        raise SystemExit
    assert told == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda: (print for _ in range(1)), "listeners: expected a list, each item a function, got a generator"),
        (lambda: print, "listeners: expected a list, each item a function"),
        (lambda: ["table_writer.events"], r"listeners\[0\]: expected a function, got a str"),
        (lambda: [print, None], r"listeners\[1\]: expected a function, got a NoneType"),
        (lambda: [JsonListener], r"listeners\[0\] is the class JsonListener: make one of it, JsonListener\(\)"),
    ],
)
def test_what_cannot_be_told_is_refused_when_it_is_given(given: Callable[[], Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        TableWriterConfig(listeners=given())


def test_a_coroutine_function_is_refused_since_nobody_would_await_it() -> None:
    async def later(event: TableEvent) -> None:
        """Do it some other time."""

    class Later:
        async def __call__(self, event: TableEvent) -> None:
            """Do it some other time."""

    for one in (later, Later()):
        with pytest.raises(InvalidInputError, match="nobody would await"):
            TableWriterConfig(listeners=[one])  # type: ignore[list-item]


def test_configs_with_the_same_listeners_are_equal_and_show_nothing_of_them(caplog: pytest.LogCaptureFixture) -> None:
    one, other = TableWriterConfig(listeners=[print]), TableWriterConfig(listeners=(print,))
    assert one == other
    with_a_key = partial(json.loads, parse_int="hush-hush")  # a listener that fails
    two_versions(with_a_key).keeper.rollback(T, version=1)  # type: ignore[arg-type]
    assert "listener functools.partial failed" in caplog.text
    assert "hush-hush" not in caplog.text
    assert "hush-hush" not in repr(TableWriterConfig(listeners=[with_a_key]))  # type: ignore[list-item]
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301  # of this test


def test_listeners_are_named_by_module_and_object_and_a_class_is_made() -> None:
    Twice.made.clear()
    found = listeners_named(f"{__name__}:Twice, builtins:print,", where="LISTENERS")
    assert found == (Twice.made[0], print)
    assert listeners_named("", where="LISTENERS") == ()


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("builtins", "expected module:object"),
        ("no_such_module:thing", "ModuleNotFoundError"),
        ("builtins:no_such_thing", "AttributeError"),
        ("sys:path", "which is no function: list"),
        ("builtins:memoryview", "TypeError"),
    ],
)
def test_a_listener_that_cannot_be_had_is_named(named: str, words: str) -> None:
    with pytest.raises(InvalidInputError, match=f"LISTENERS names .*{words}"):
        listeners_named(named, where="LISTENERS")


def test_json_is_one_object_a_line_whatever_is_in_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = two_versions(JsonListener("etl.tables"))
    world.keeper.rollback(T, version=1)
    with suppress(InvalidInputError):
        world.keeper.rollback('mart.or"ders\n\u2028', version=1)
    records = [one for one in caplog.records if one.name == "etl.tables"]
    lines = [one.getMessage() for one in records]
    assert [one.levelname for one in records] == ["INFO", "ERROR"]
    assert [len(line.splitlines()) for line in lines] == [1, 1]
    found = [json.loads(line) for line in lines]
    assert [one["outcome"] for one in found] == ["published", "failed"]
    assert found[0] == records[0].table_event  # type: ignore[attr-defined]
    sums = {"format", "partition_count", "rows", "files", "bytes", "seconds"}
    assert found[0].keys() == found[1].keys() == sums | set(TableEvent.__dataclass_fields__)


def test_a_line_does_not_grow_with_the_partitions_and_says_how_many_there_are(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = two_versions(JsonListener("etl.tables", most_partitions=2))
    world.write({f"d{number}": frozenset({number}) for number in range(5)})
    world.keeper.rollback(T, version=1)
    (line,) = [one.getMessage() for one in caplog.records if one.name == "etl.tables"]
    assert (len(json.loads(line)["partitions"]), json.loads(line)["partition_count"]) == (2, 5)


def test_listeners_do_not_travel_to_a_connect_server(caplog: pytest.LogCaptureFixture) -> None:
    cannot_travel = threading.Lock()

    def told(event: TableEvent) -> None:
        cannot_travel.acquire()

    config = TableWriterConfig(listeners=[told])
    services = SimpleNamespace(config=config, session=SessionSettings(hadoop={}))
    call: Any = ("mart.orders", "append", "orders", {})
    batch = TravellingBatchWriter(write_here=lambda *_: None, services=cast("Any", services), call=call)
    _, (_, state) = batch.__reduce__()
    assert pickle.loads(state)[0].listeners == ()  # noqa: S301  # of this test
    assert "listeners stay in this process" in caplog.text
