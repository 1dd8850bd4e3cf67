"""Checks of the table's own files."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest

from table_writer.config import TableWriterConfig
from table_writer.errors import OutcomeUnknownError
from table_writer.protocol.log.owner import Owner
from table_writer.protocol.operations.recovery import Recovery
from tests.doctor.conftest import of_check, status_of
from tests.publish.world import DeathError, Fault, World

DAY = 86_400
LOST = Fault("metastore", "alter_partitions", 1, "before", DeathError)


def with_property(world: World, **properties: str) -> None:
    named = {f"table_writer.{name}": value for name, value in properties.items()}
    world.metastore.create_table(replace(world.table, parameters=named))


def test_files_of_another_table_are_found(world: World) -> None:
    assert status_of(world.services(), "owner") == "ok"
    stranger = replace(Owner.of(world.table, "thrift://elsewhere:9083"), name="orders_old")
    world.store.put(world.layout.owner_key, stranger.to_json())
    (finding,) = of_check(world.services(), "owner")
    assert finding.status == "error"
    assert "belong to mart.orders_old" in finding.message
    assert "table-writer adopt mart.orders" in finding.advice


def test_a_table_without_files_is_a_note() -> None:
    assert status_of(World().services(), "owner") == "note"


def test_entries_in_doubt_are_found_once_their_claim_is_over(world: World) -> None:
    assert status_of(world.services(), "log") == "ok"
    with world.inject(LOST), suppress(DeathError, OutcomeUnknownError):
        world.write({"1": frozenset({9})})
    assert status_of(world.services(), "log") == "note"  # its writer may still be at it
    world.wait_out_claims()
    (finding,) = of_check(world.services(), "log")
    assert finding.status == "warning"
    assert finding.advice == "table-writer recover mart.orders"
    Recovery(world.services()).resolved_history(world.table)
    assert status_of(world.services(), "log") == "ok"


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_checkpoint_that_is_ahead_of_the_log_harms_nobody(world: World, version: int) -> None:
    world.store.put(world.layout.checkpoint_key, json.dumps({"version": version}).encode())
    assert status_of(world.services(), "checkpoint") == "ok"


def test_a_checkpoint_far_behind_costs_every_plan(world: World) -> None:
    for _ in range(101):
        world.write({"1": frozenset({1})})
    assert status_of(world.services(), "checkpoint") == "ok"
    world.store.delete([world.layout.checkpoint_key])
    (finding,) = of_check(world.services(), "checkpoint")
    assert finding.status == "warning"
    assert "lists 102 entries" in finding.message


@pytest.mark.parametrize(
    ("properties", "said"),
    [({"retentions": "72"}, "did you mean table_writer.retention?"), ({"history_retention": "1e9"}, "100 years")],
)
def test_properties_that_are_not_understood_are_found(world: World, properties: dict[str, str], said: str) -> None:
    assert status_of(world.services(), "table properties") == "ok"
    with_property(world, **properties)
    (finding,) = of_check(world.services(), "table properties")
    assert finding.status == "error"
    assert said in finding.message


def test_a_retention_that_a_vacuum_refuses_is_a_warning(world: World) -> None:
    assert status_of(world.services(), "retention") == "ok"
    assert status_of(world.services(TableWriterConfig(retention=timedelta(hours=1))), "retention") == "warning"
    with_property(world, retention="12")
    (finding,) = of_check(world.services(), "retention")
    assert finding.status == "warning"
    assert (
        finding.advice
        == "ALTER TABLE `spark_catalog`.`mart`.`orders` SET TBLPROPERTIES ('table_writer.retention' = '72')"
    )
    with_property(world, retention="240")
    (finding,) = of_check(world.services(), "retention")
    assert finding.status == "ok"
    assert "240 h, by the table property" in finding.message


@pytest.mark.parametrize("property_hours", [None, "48"])
def test_data_that_no_vacuum_deletes_is_a_warning(world: World, property_hours: str | None) -> None:
    if property_hours:
        with_property(world, retention=property_hours)
    world.write({"1": frozenset({5})})
    (finding,) = of_check(world.services(), "data to vacuum")
    assert finding.status == "ok"
    assert "waiting: 1 location with at least 3 B, 0 of them" in finding.message
    world.skipped_seconds = 4 * DAY if property_hours is None else 3 * DAY
    (finding,) = of_check(world.services(), "data to vacuum")
    assert finding.status == "ok"
    assert "1 of them with 3 B to be deleted now" in finding.message
    world.skipped_seconds += 2 * DAY
    (finding,) = of_check(world.services(), "data to vacuum")
    assert finding.status == "warning"
    assert finding.advice == "schedule this daily: table-writer vacuum mart.orders"


def test_what_dead_writes_have_left_is_a_warning(world: World) -> None:
    # nothing after the death reaches the store: the registration and the files stay
    with world.inject(Fault("store", "put_if_absent", 1, "before", DeathError)), suppress(DeathError):
        world.write({"1": frozenset({5})})
    assert status_of(world.services(), "dead writes") == "ok"
    world.skipped_seconds = 4 * DAY
    (finding,) = of_check(world.services(), "dead writes")
    assert finding.status == "warning"
    assert finding.message.startswith("left by 1 dead write: files with 3 B")


def test_uploads_of_other_tools_are_a_note(world: World) -> None:
    world.store.create_upload("mart/orders/dt=1/part-0.parquet")
    found = {finding.status: finding for finding in of_check(world.services(), "dead writes")}
    assert found.keys() == {"ok", "note"}
    assert found["note"].message.startswith("this library leaves 1 pending upload of other tools")
