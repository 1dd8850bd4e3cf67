"""What each operation stores of itself in the log, and what readers of the metastore and of ``_SUCCESS`` find."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from table_writer.config import TableWriterConfig
from table_writer.errors import MetastoreError
from table_writer.jobs.staged_writes import StagedWrites
from table_writer.model.check_result import CheckResult
from table_writer.model.table import Partition
from table_writer.model.write_mode import WriteMode
from table_writer.protocol.log.registration import writer_identity
from table_writer.protocol.operations.success import success_json
from tests.publish.world import DIED, REFUSED, ROOT, TABLE, World, body_of

T = str(TABLE)
OLD = {"d1": frozenset({1, 2}), "d2": frozenset({3})}
NEW = {"d1": frozenset({10})}


def stored(world: World, version: int) -> dict[str, Any]:
    """Return a stored entry with ``<n>`` for the ``write_id`` of version n, schedules in seconds after it was made."""
    log, found = world.services().log, world.store.get(world.layout.entry_key(version))
    assert found is not None
    text = found.body.decode()
    for number in range(1, version + 1):
        text = text.replace(log.slots.read(number).entry.write_id, f"<{number}>")
    fields: dict[str, Any] = json.loads(text)
    fields |= fields.pop("body")
    made_at = datetime.fromisoformat(fields["created_at"])
    fields["replaced"] = {
        one["location"]: round((datetime.fromisoformat(one["delete_after"]) - made_at).total_seconds())
        for one in fields.get("replaced", ())
    }
    assert {"table": T, "version": version, "write_id": f"<{version}>"}.items() <= fields.items()
    assert fields["writer"] == writer_identity("app-1")
    return fields


def says(fields: dict[str, Any], **expected: object) -> None:
    """Compare the named fields, of the header or the body; ``None``: it is not stored."""
    assert {name: fields.get(name) for name in expected} == expected


def moved(value: str, old: int | None, new: int | None, figures: tuple[int | None, int, int | None, int]) -> object:
    """Return a partition as it is stored: rows, bytes, raw bytes and files are its figures."""
    where = {n: f"_table_writer/data/<{n}>/{f'dt={value}/' if value else ''}" for n in (old, new) if n is not None}
    return {
        "values": [value] if value else [],
        "old_location": where.get(old),  # type: ignore[arg-type]
        "new_location": where.get(new),  # type: ignore[arg-type]
        **dict(zip(("rows", "bytes", "raw_bytes", "files"), figures, strict=True)),
    }


TWO_ROWS, ONE_ROW, NO_ROWS = (2, 6, 0, 1), (1, 4, 0, 1), (0, 0, 0, 0)
DAYS = 3 * 86_400


def test_a_write_says_what_it_was_asked_for_and_what_it_replaces(world: World) -> None:
    world.write(OLD)
    plan = replace(world.plan(key="k"), tags={"job": "7"}, where="dt = 'd1'", schema="{}")
    world.write(NEW, plan=plan)
    first = stored(world, 1)
    says(first, operation="write", mode="overwrite_partitions", base_version=0, publish_timeout_seconds=300.0)
    says(first, partitions=[moved("d1", None, 1, TWO_ROWS), moved("d2", None, 1, (1, 3, 0, 1))], replaced={})
    second = stored(world, 2)
    says(
        second,
        operation="write",
        mode="overwrite_partitions",
        where="dt = 'd1'",
        tags={"job": "7"},
        base_version=1,
        schema="{}",
    )
    says(second, key={"text": "k"}, partitions=[moved("d1", 1, 2, ONE_ROW)])
    says(second, replaced={"_table_writer/data/<1>/dt=d1/": DAYS})


def test_a_write_says_which_checks_it_has_passed(world: World) -> None:
    passed = CheckResult(name="not_null(id)", severity="error", passed=True, message="2 rows")
    StagedWrites(world.services()).with_checks(world.stage(OLD), [passed])
    world.publish_staged()
    says(stored(world, 1), checks=[passed.to_json()])


def test_a_rollback_says_where_to_and_whose_rows(world: World) -> None:
    world.write(OLD)
    world.write({**NEW, "d3": frozenset({3})})
    world.keeper.rollback(T, version=1)
    fields = stored(world, 3)
    says(fields, operation="rollback", mode=None, rollback_to=1, base_version=2)
    says(fields, partitions=[moved("d1", 2, 1, TWO_ROWS), moved("d3", 2, None, NO_ROWS)], publish_timeout_seconds=300.0)
    says(fields, replaced={f"_table_writer/data/<2>/dt={value}/": DAYS for value in ("d1", "d3")})


def test_a_recovery_says_what_it_recovers_and_has_no_key(world: World) -> None:
    world.write(OLD)
    world.fails(DIED, lambda: world.write(NEW, plan=world.plan(key="k")))
    world.recover_later()
    fields = stored(world, 3)
    says(
        fields, operation="recover", mode="overwrite_partitions", recovers=2, repeats="write", base_version=2, key=None
    )
    says(fields, partitions=[moved("d1", 1, 2, ONE_ROW)], replaced={"_table_writer/data/<1>/dt=d1/": DAYS})
    world.fails(DIED, lambda: world.keeper.rollback(T, version=1))
    world.recover_later()
    says(stored(world, 5), operation="recover", mode=None, recovers=4, repeats="rollback", rollback_to=None)


def test_every_outcome_names_its_entry_and_who_has_recorded_it(world: World) -> None:
    """An outcome of another table that lies here by mistake is recognised by that."""
    world.write(OLD)
    world.fails(REFUSED, lambda: world.write(NEW), MetastoreError)
    world.fails(DIED, lambda: world.write(NEW))
    world.recover_later()
    entries = {version: world.services().log.slots.read(version).entry.write_id for version in (1, 2, 3, 4)}
    ends = {1: ("published", 1), 2: ("abandoned", 2), 3: ("published", 4), 4: ("published", 4)}
    for version, (outcome, by) in ends.items():
        found = body_of(world.store, world.layout.outcome_key(version))
        assert json.loads(found) == {
            "outcome": outcome,
            "version": version,
            "recorded_by": entries[by],
            "of": entries[version],
        }


def test_a_restore_and_a_vacuum_say_what_they_bring_back_and_delete(world: World) -> None:
    world.write(OLD)
    world.write(NEW)
    world.metastore.drop_partition(world.table, ("d2",))
    world.keeper.restore(T)
    says(stored(world, 3), operation="restore", mode=None, base_version=2, publish_timeout_seconds=300.0)
    says(stored(world, 3), partitions=[moved("d2", None, 1, (1, 3, 0, 1))], replaced={})
    world.vacuum()
    deleted = {"location": "_table_writer/data/<1>/dt=d1/", "replaced_by": 2, "kept": False}
    says(stored(world, 4), operation="vacuum", mode=None, base_version=3, partitions=None, deletes=[deleted])
    says(stored(world, 4), publish_timeout_seconds=3600.0)


def test_a_restored_unpartitioned_table_says_where_it_was(world: World) -> None:
    world.become_unpartitioned()
    world.write({"": frozenset({1})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    world.lose_metastore()
    world.metastore.create_table(replace(world.table, location=ROOT))
    world.keeper.restore(T)
    (one,) = stored(world, 2)["partitions"]
    assert one == {**moved("", None, 1, (1, 3, 0, 1)), "old_location": ""}  # type: ignore[dict-item]
    assert world.rows() == {"": frozenset({1})}


def test_an_append_counts_what_it_brings_along_where_that_is_known(world: World) -> None:
    world.write(OLD)
    world.write(NEW, plan=world.plan(WriteMode.APPEND))
    says(stored(world, 2), mode="append", partitions=[moved("d1", 1, 2, (3, 10, 0, 2))])
    world.written_by_another_tool("d2", frozenset({5}))
    world.write({"d2": frozenset({6})}, plan=world.plan(WriteMode.APPEND))
    (one,) = stored(world, 3)["partitions"]
    assert (one["rows"], one["bytes"], one["raw_bytes"], one["files"]) == (None, 6, None, 2)
    found = world.partitions()
    assert (found["d1"].parameters["numRows"], found["d2"].parameters.get("numRows")) == ("3", None)


def test_a_partition_of_other_tools_goes_back_with_the_figures_that_a_listing_shows(world: World) -> None:
    world.written_by_another_tool("d1", frozenset({1, 2}))
    world.write(NEW)
    world.keeper.rollback(T, version=0)
    (one,) = stored(world, 2)["partitions"]
    assert one.items() >= {"new_location": "dt=d1/", "rows": None, "bytes": 6, "raw_bytes": None, "files": 1}.items()


@pytest.mark.parametrize("adds", [True, False])
def test_the_metastore_says_exactly_what_is_there(world: World, adds: bool) -> None:
    wrong = {"COLUMN_STATS_ACCURATE": "{}", "spark.sql.statistics.colStats.id.max": "9", "numRows": "7", "mine": "x"}
    if not adds:
        placed = Partition(values=("d1",), location=f"{ROOT}dt=d1/", parameters=wrong)
        world.metastore.add_partitions(world.table, [placed])
    entry = world.write({"d1": frozenset({1, 2})}).entry
    found = dict(world.partitions()["d1"].parameters)
    assert found.pop("transient_lastDdlTime")
    assert found == {
        **({} if adds else {"mine": "x"}),
        "numFiles": "1",
        "numRows": "2",
        "totalSize": "6",
        "rawDataSize": "0",
        "spark.sql.statistics.numRows": "2",
        "spark.sql.statistics.totalSize": "6",
        "table_writer.log": f"{ROOT}_table_writer/log/id-{world.plan().log_id}",
        "table_writer.version": "1",
        "table_writer.write_id": entry.write_id,
    }


def test_figures_that_nobody_knows_are_removed_and_an_unpartitioned_table_keeps_its_root(world: World) -> None:
    world.become_unpartitioned()
    world.write({"": frozenset({1})}, plan=world.plan(WriteMode.OVERWRITE_TABLE))
    assert world.table.parameters["table_writer.root"] == ROOT
    assert world.table.parameters["numRows"] == "1"
    world.store.put(f"{world.table.location.removeprefix('s3a://lake/')}inserted.json", b"[5]")
    world.write({"": frozenset({6})}, plan=world.plan(WriteMode.APPEND))
    assert world.rows() == {"": frozenset({1, 5, 6})}
    unknown = {"numRows", "rawDataSize", "spark.sql.statistics.numRows"}
    assert unknown.isdisjoint(world.table.parameters)
    assert world.table.parameters["numFiles"] == "3"


def test_the_marker_of_a_write_is_hadoops_and_names_a_hundred_files(world: World) -> None:
    entry = world.write(OLD).entry
    asked = []

    def names() -> Iterator[str]:
        for number in range(200):
            asked.append(number)
            yield f"part-{number}"

    counters = {
        "committer_bytes_committed": 9,
        "committer_commits_completed": 2,
        "committer_jobs_completed": 1,
        "table_writer.rows": 3,
        "table_writer.partitions": 2,
        "object_put_request": 4,
        "table_writer.Other": 1,
    }
    requests, seconds = {"PutObject": 4, "Other": 1}, {"plan": 1.5}
    says = json.loads(success_json(entry, names(), world.layout.root, requests=requests, seconds=seconds))
    assert says == {
        "name": "org.apache.hadoop.fs.s3a.commit.files.SuccessData/1",
        "success": True,
        "timestamp": int(entry.created_at.timestamp() * 1000),
        "date": entry.created_at.isoformat(),
        "hostname": entry.writer["host"],
        "committer": "table_writer",
        "description": "overwrite_partitions of mart.orders, version 1",
        "jobId": entry.write_id,
        "jobIdSource": "table_writer.write_id",
        "metrics": {"files": 2, "bytes": 9, "rows": 3, "partitions": 2, **counters},
        "diagnostics": {
            "table_writer.version": "1",
            "table_writer.write_id": entry.write_id,
            "table_writer.root": ROOT,
            "table_writer.library_version": entry.writer["library_version"],
        },
        "filenames": [f"/part-{number}" for number in range(100)],
        "iostatistics": {
            "counters": {**counters, "table_writer.plan": 1},
            "gauges": {},
            "minimums": {"table_writer.plan.min": 1500},
            "maximums": {"table_writer.plan.max": 1500},
            "meanstatistics": {"table_writer.plan.mean": {"samples": 1, "sum": 1500}},
        },
    }
    assert len(asked) == 100
    unknown = replace(entry, writer={}, partitions=(replace(entry.partitions[0], rows=None), *entry.partitions[1:]))
    says = json.loads(success_json(unknown, [], world.layout.root))
    assert (says["hostname"], says["diagnostics"]["table_writer.library_version"]) == ("", "")
    assert says["metrics"]["rows"] == 1


def test_a_running_write_says_who_it_is(world: World) -> None:
    plan = world.plan(WriteMode.APPEND)
    seen: list[dict[str, Any]] = []

    def look() -> None:
        found = body_of(world.store, world.layout.registration_key(plan.write_id))
        seen.append(json.loads(found))

    world.write(OLD, plan=plan, before_publish=look, config=TableWriterConfig(heartbeat_seconds=50.0))
    assert seen == [
        {
            "format": 1,
            "table": T,
            "write_id": plan.write_id,
            "mode": "append",
            "base_version": 0,
            "created_at": plan.created_at.isoformat(),
            "renewed_every_seconds": 50.0,
            "writer": writer_identity("app-1"),
        }
    ]


@pytest.mark.parametrize("retention_hours", [1, 24 * 30])
def test_what_is_replaced_is_scheduled_for_as_long_as_the_settings_say(world: World, retention_hours: int) -> None:
    config = TableWriterConfig(retention=timedelta(hours=retention_hours))
    world.write(OLD)
    world.write(NEW, config=config)
    assert stored(world, 2)["replaced"] == {"_table_writer/data/<1>/dt=d1/": retention_hours * 3600}
