"""A sensor waits for rows by name and version: here, rescheduled, or in the triggerer, and hands no secret on."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from airflow.sdk.module_loading import import_string
from airflow.sdk.serde import deserialize, serialize
from airflow.triggers.base import TriggerEvent

from table_writer.integrations.airflow import PartitionSensor, PartitionTrigger
from table_writer.integrations.airflow.sensor import NEWEST_VERSIONS
from table_writer.maintenance import Maintenance
from table_writer.model.write_mode import WriteMode
from tests.real.real_world import RealWorld

NewWorld = Callable[[], RealWorld]


@pytest.fixture
def world(new_world: NewWorld) -> RealWorld:
    world = new_world()
    world.write({"d1": frozenset({1, 2})})
    return world


def poked(world: RealWorld, lake: str, **arguments: Any) -> dict[str, Any] | None:
    sensor = PartitionSensor(
        task_id="rows", table=str(world.name), conn_id=lake, **{"partitions": "dt=d1", **arguments}
    )
    value: dict[str, Any] | None = sensor.poke({}).xcom_value
    return value


def test_a_partition_that_is_published_again_is_waited_for_by_its_version(world: RealWorld, lake: str) -> None:
    found = poked(world, lake)
    assert found is not None
    assert found["version"] == 1
    assert poked(world, lake, after_version=str(found["version"])) is None  # its name is there
    world.write({"d1": frozenset({7, 8, 9})})
    again = poked(world, lake, after_version="1")
    assert again == json.loads(json.dumps(again))
    assert again is not None
    (day,) = again["partitions"]
    assert (again["version"], day["name"], day["version"], day["rows"]) == (2, "dt=d1", 2, 3)


def test_all_partitions_must_have_new_rows(world: RealWorld, lake: str) -> None:
    both = ["dt=d1", "dt=d2"]
    assert poked(world, lake, partitions=both) is None
    world.write({"d2": frozenset({3})})
    found = poked(world, lake, partitions=both)
    assert found is not None
    assert [one["version"] for one in found["partitions"]] == [1, 2]
    assert poked(world, lake, partitions=both, after_version=1) is None


def test_rows_must_be_as_young_and_as_many_as_is_asked(world: RealWorld, lake: str) -> None:
    now = datetime.now(UTC)
    assert poked(world, lake, since=now + timedelta(hours=1)) is None
    assert poked(world, lake, since=(now - timedelta(hours=1)).replace(tzinfo=None).isoformat()) is not None
    assert poked(world, lake, min_rows="3") is None
    world.write({"d1": frozenset({3})}, plan=world.plan(WriteMode.APPEND))
    assert poked(world, lake, min_rows="3") is not None


def test_rows_that_a_rollback_has_taken_back_are_waited_for_again(world: RealWorld, lake: str) -> None:
    world.write({"d1": frozenset({7})})
    world.keeper.rollback(str(world.name), version=1)
    assert poked(world, lake, after_version=1) is None
    world.keeper.rollback(str(world.name), version=0)
    assert poked(world, lake) is None  # dropped


def test_rows_of_a_staged_write_are_there_when_somebody_has_published_it(world: RealWorld, lake: str) -> None:
    write_id = world.stage({"d1": frozenset({5})})
    assert poked(world, lake, write_id=write_id) is None
    world.publish_staged()
    found = poked(world, lake, write_id=write_id)
    assert found is not None
    assert found["partitions"][0]["write_id"] == write_id
    world.write({"d1": frozenset({6})})
    found = poked(world, lake, write_id=write_id)  # newer ones have replaced them
    assert found is not None
    assert found["version"] == 3
    for number in range(NEWEST_VERSIONS):
        world.write({"d2": frozenset({number})})
    found = poked(world, lake, write_id=write_id)  # and it is none of the newest versions any more
    assert found is not None
    assert found["version"] == 3
    world.keeper.rollback(str(world.name), version=1)
    assert poked(world, lake, write_id=write_id) is None


def test_it_says_that_it_cannot_know_of_when_rows_of_other_tools_are(
    world: RealWorld, lake: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "table_writer")
    world.written_by_another_tool("d1", frozenset({4}))
    assert poked(world, lake) is None
    assert "dt=d1 is not known: readers look elsewhere than where version 1 has put it" in caplog.text


def test_an_unpartitioned_table_needs_no_name_and_a_partitioned_one_does(
    world: RealWorld, new_world: NewWorld, lake: str
) -> None:
    with pytest.raises(AirflowFailException, match="say which partitions to wait for"):
        poked(world, lake, partitions=None)
    whole = new_world()
    whole.become_unpartitioned()
    assert poked(whole, lake, partitions=None) is None
    whole.write({"": frozenset({1})})
    assert poked(whole, lake, partitions=None) is not None


@pytest.mark.parametrize(
    "empty", [{"since": ""}, {"write_id": ""}, {"write_id": "None"}, {"partitions": []}, {"min_rows": "x"}], ids=str
)
def test_a_template_that_found_nothing_does_not_wait_for_less(
    world: RealWorld, lake: str, empty: dict[str, Any]
) -> None:
    with pytest.raises(AirflowFailException, match=min(empty)):
        poked(world, lake, **empty)


def deferred(world: RealWorld, lake: str, **arguments: Any) -> tuple[PartitionSensor, TaskDeferred]:
    sensor = PartitionSensor(
        task_id="rows",
        table=str(world.name),
        partitions=["dt=d1"],
        conn_id=lake,
        deferrable=True,
        poke_interval=0.2,
        timeout=timedelta(minutes=5),
        **arguments,
    )
    with pytest.raises(TaskDeferred) as raised:
        sensor.execute({})
    return sensor, raised.value


def stored(trigger: PartitionTrigger) -> PartitionTrigger:
    """Return the trigger that another process makes of what is in Airflow's database."""
    path, made_of = trigger.serialize()
    again = deserialize(json.loads(json.dumps(serialize(made_of))))
    trigger = import_string(path)(**again)
    assert isinstance(trigger, PartitionTrigger)
    return trigger


async def event_of(trigger: PartitionTrigger) -> TriggerEvent:
    async for event in trigger.run():
        return event
    raise AssertionError("it ended without an event")


def test_the_triggerer_waits_without_a_secret_and_holds_nobody_up(
    world: RealWorld, lake: str, connection: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sensor, defer = deferred(world, lake, after_version=1)
    assert defer.timeout == timedelta(minutes=5)
    trigger = stored(defer.trigger)
    for secret in connection["extra"]["conf"]["fs.s3a.secret.key"], connection["extra"]["conf"]["fs.s3a.access.key"]:
        assert secret not in repr(trigger.serialize())
    looks = 0
    partitions = Maintenance.partitions

    def slowly(*given: Any) -> Any:
        nonlocal looks
        looks += 1
        if looks == 3:
            world.write({"d1": frozenset({9})})
        time.sleep(0.3)
        return partitions(*given)

    monkeypatch.setattr(Maintenance, "partitions", slowly)

    async def beside_others() -> tuple[TriggerEvent, int]:
        waiting, ticks = asyncio.create_task(event_of(trigger)), 0
        while not waiting.done():
            await asyncio.sleep(0.01)
            ticks += 1
        return waiting.result(), ticks

    event, ticks = asyncio.run(beside_others())
    found = sensor.resume({}, json.loads(json.dumps(event.payload)))
    assert (found["version"], looks) == (2, 3)
    assert ticks > 30  # a look that blocked the loop would leave it some ticks between looks


def test_what_the_triggerer_meets_fails_the_task_as_it_would_here(
    world: RealWorld, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sensor, defer = deferred(world, lake, after_version=1)
    damaged = world.layout.entry_key(1)
    whole = world.store.get(damaged)
    assert whole is not None
    world.store.put(damaged, b"damaged")
    event = asyncio.run(event_of(stored(defer.trigger)))
    with pytest.raises(AirflowFailException, match="log entry 1"):
        sensor.resume({}, event.payload)
    world.store.put(damaged, whole.body)
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "generic", "host": "127.0.0.1", "port": 1}))
    event = asyncio.run(event_of(stored(defer.trigger)))
    with pytest.raises(AirflowException, match="can be tried again") as raised:
        sensor.resume({}, event.payload)
    assert not isinstance(raised.value, AirflowFailException)
