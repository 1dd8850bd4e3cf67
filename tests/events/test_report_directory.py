"""Reports of calls that change rows: one file each, in the order of time, and no failure of theirs is the call's."""

from __future__ import annotations

import json

import pytest

from table_writer.config import TableWriterConfig
from table_writer.errors import InvalidInputError, StorageError
from table_writer.events import TableEvent
from tests.publish.world import DIED, TABLE, DeathError, World, fail

T = str(TABLE)
REPORTS = "s3a://logs/table_writer/reports"


@pytest.fixture
def reported(world: World, told: list[TableEvent]) -> World:
    """Return the table of this suite, whose calls are also reported; reports are put into the same double."""
    world.config = TableWriterConfig(listeners=[told.append], report_directory=REPORTS)
    return world


def names(world: World) -> list[str]:
    return [info.key.removeprefix("table_writer/reports/") for info in world.store.list("table_writer/reports/")]


def test_names_sort_by_time_and_files_hold_what_listeners_are_told(reported: World, told: list[TableEvent]) -> None:
    told.clear()
    reported.stage({"d1": frozenset({5})})
    reported.publish_staged()
    with pytest.raises(InvalidInputError):
        reported.keeper.rollback(T, version=9)
    reported.keeper.rollback(T, version=1)
    found = names(reported)
    assert [name.split("-")[1] for name in found] == [event.operation for event in told]
    assert [event.outcome for event in told] == ["published", "failed", "published"]
    bodies = [reported.store.get(f"table_writer/reports/{name}") for name in found]
    assert [json.loads(body.body) for body in bodies if body] == [event.to_dict() for event in told]


def test_calls_that_change_no_rows_and_dry_runs_are_not_reported(reported: World) -> None:
    reported.vacuum()
    reported.keeper.rollback(T, version=0, dry_run=True)
    reported.keeper.history(T)
    assert names(reported) == []


def test_a_write_that_another_call_has_recovered_is_reported(reported: World) -> None:
    with reported.inject(DIED), pytest.raises(DeathError):
        reported.write({"d1": frozenset({7})})
    reported.wait_out_claims()
    reported.keeper.recover(T)
    assert [name.split("-")[1] for name in names(reported)] == ["recover"]


def test_a_report_that_fails_is_logged_and_changes_nothing(reported: World, caplog: pytest.LogCaptureFixture) -> None:
    reported.stage({"d1": frozenset({5})})
    reported.store.on_call = lambda call, phase, key: (
        fail(StorageError("full")) if (call, phase) == ("put", "before") and "/reports/" in key else None
    )
    reported.publish_staged()
    reported.store.on_call = None
    assert reported.rows()["d1"] == {5}
    assert f"no report in {REPORTS}/: full" in caplog.text


@pytest.mark.parametrize("text", ["reports", "/var/reports", "hdfs://name/reports", "https://host/reports"])
def test_a_place_that_no_store_has_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"report_directory|full location"):
        TableWriterConfig(report_directory=text)
    assert TableWriterConfig(report_directory="s3a://ME:hush@logs/r").report_directory == "s3a://logs/r/"
