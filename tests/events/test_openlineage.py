"""Lineage: what is sent of each event, read by OpenLineage's own client."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import RunEvent
from openlineage.client.serde import Serde
from openlineage.client.transport.file import FileConfig, FileTransport

from table_writer.config import TableWriterConfig
from table_writer.errors import InvalidInputError, LostResponseError, OutcomeUnknownError, TableWriterError
from table_writer.events import EventError, EventPartition, Source, TableEvent
from table_writer.integrations.openlineage import OpenLineageListener, place_name, table_name
from table_writer.model.check_result import CheckResult
from table_writer.model.table import Column
from tests.events.lineage import read_by_client, require_as_published
from tests.publish.world import TABLE, DeathError, Fault, World

T = str(TABLE)
NEW = {"d1": frozenset({10}), "d3": frozenset({30})}
LOST = Fault("metastore", "alter_partitions", 1, "before", LostResponseError)
DIED = Fault("metastore", "alter_partitions", 1, "before", DeathError)
RUN = "3f5e83fa-3480-44ff-99c5-ff943904e5e8"
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
FULL = TableEvent(
    operation="write",
    outcome="published",
    table=T,
    mode="overwrite_partitions",
    started_at=NOON,
    ended_at=NOON + timedelta(seconds=3),
    version=3,
    write_id="20240101T120000-0000000000000001",
    metastore="thrift://metastore:9083",
    location="s3a://lake/mart/orders/",
    columns=(
        Column("id", "bigint", "of the order"),
        Column("lines", "array<struct<article:string,prices:map<string,decimal(9,2)>>>"),
    ),
    partition_columns=(Column("dt", "string"),),
    partitions=(EventPartition(name="dt=1", action="replaced", rows=7, files=2, bytes=900),),
    checks=(
        CheckResult(name="not_null(ID)", severity="warn", passed=False, message="2 of 7 rows", failed_rows=2),
        CheckResult(name="total", severity="error", passed=True, message="as it should be"),
    ),
    tags={"team": "shop"},
    sources=(Source("mart.raw", "s3a://lake/mart/raw/"), Source("", "s3a://drop/in"), Source("db.t", "", "ice")),
)
FAILED = replace(
    FULL,
    outcome="failed",
    version=None,
    partitions=(),
    error=EventError(code="storage", type="StorageError", message="it"),
)


def sent_of(event: TableEvent, **options: Any) -> list[dict[str, Any]]:
    listener = OpenLineageListener(namespace="shop", **options)
    return [json.loads(Serde.to_json(one)) for one in listener.run_events(event)]


@pytest.fixture
def sent(tmp_path: Path) -> Callable[[], list[dict[str, Any]]]:
    """Return what the client has written so far."""
    path = tmp_path / "lineage.jsonl"
    return lambda: [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a table with one version, whose lineage goes to a file."""
    transport = FileTransport(FileConfig(log_file_path=str(tmp_path / "lineage.jsonl"), append=True))
    listener = OpenLineageListener(OpenLineageClient(transport=transport), namespace="shop")
    world = World(config=TableWriterConfig(listeners=[listener]))
    world.write({"d1": frozenset({1, 2}), "d2": frozenset({3})})
    return world


def every_operation(world: World) -> None:
    """Do whatever can be done to a table without Spark, and what can go wrong."""
    keeper = world.keeper
    write_id = world.stage(NEW)
    keeper.publish(T, write_id)
    keeper.publish(T, write_id)
    keeper.rollback(T, version=1)
    keeper.rollback(T, version=1)
    keeper.discard(T, world.stage(NEW))
    with suppress(TableWriterError):
        keeper.rollback(T, version=99)
    lost = world.stage(NEW)
    with world.inject(LOST, keep_call=True), suppress(OutcomeUnknownError):
        keeper.publish(T, lost)
    world.wait_out_claims()
    keeper.recover(T)
    world.vacuum()
    world.lose_metastore()
    keeper.restore(T)


def test_the_client_reads_what_is_sent_of_each_operation(
    world: World, sent: Callable[[], list[dict[str, Any]]]
) -> None:
    every_operation(world)
    found = sent()
    assert {one["eventType"] for one in found} == {"START", "COMPLETE", "ABORT", "FAIL", "RUNNING"}
    for one in found:
        assert read_by_client(one).job.namespace == "shop"
    assert not [one for one in found if "vacuum" in one["job"]["name"]]  # no row has changed


@pytest.mark.needs("openlineage")
def test_what_is_sent_is_as_the_published_schemas_say(
    world: World, sent: Callable[[], list[dict[str, Any]]], pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", f"airflow/daily.orders/{RUN}")
    monkeypatch.setenv("OPENLINEAGE_ROOT_PARENT_ID", f"airflow/daily/{RUN}")
    every_operation(world)
    for one in (*sent(), *sent_of(FULL), *sent_of(FAILED), *sent_of(replace(FULL, mode="append", checks=()))):
        require_as_published(one, pytestconfig.getoption("--openlineage-spec"))


def test_a_run_begins_and_completes_with_its_true_times_and_the_output_of_the_write() -> None:
    started, completed = map(read_by_client, sent_of(FULL))
    assert (started.eventTime, completed.eventTime) == (NOON.isoformat(), (NOON + timedelta(seconds=3)).isoformat())
    assert started.run.runId == completed.run.runId
    assert (completed.job.namespace, completed.job.name) == ("shop", "mart.orders.overwrite_partitions")
    assert not started.outputs
    (output,) = completed.outputs or ()
    assert (output.namespace, output.name) == ("hive://metastore:9083", "mart.orders")
    facets: Any = output.facets
    assert facets["version"].datasetVersion == "3"
    assert facets["lifecycleStateChange"].lifecycleStateChange.value == "OVERWRITE"
    assert [(one.namespace, one.name) for one in facets["symlinks"].identifiers] == [("s3://lake", "mart/orders")]
    statistics: Any = (output.outputFacets or {})["outputStatistics"]
    assert (statistics.rowCount, statistics.fileCount, statistics.size) == (7, 2, 900)


def test_the_schema_has_nested_fields_and_comments() -> None:
    *_, completed = map(read_by_client, sent_of(FULL))
    facets: Any = (completed.outputs or [])[0].facets
    identity, lines, day = facets["schema"].fields
    assert (identity.name, identity.type, identity.description) == ("id", "bigint", "of the order")
    assert (lines.type, [one.name for one in lines.fields]) == ("array", ["_element"])
    article, prices = lines.fields[0].fields
    assert (article.name, article.type) == ("article", "string")
    assert [(one.name, one.type) for one in prices.fields] == [("key", "string"), ("value", "decimal(9,2)")]
    assert day.name == "dt"


def test_checks_are_assertions_with_the_columns_that_they_are_about() -> None:
    for event in (FULL, FAILED):  # those that stopped the write, too
        *_, ended = map(read_by_client, sent_of(event))
        facets: Any = (ended.outputs or [])[0].facets
        found = [
            (one.name, one.assertion, one.column, one.success, one.severity)
            for one in facets["dataQualityAssertions"].assertions
        ]
        assert found == [("not_null(ID)", "not_null", "id", False, "warn"), ("total", "total", None, True, "error")]


def test_sources_are_inputs_by_the_same_names() -> None:
    *_, completed = map(read_by_client, sent_of(FULL))
    assert [(one.namespace, one.name) for one in completed.inputs or ()] == [
        ("hive://metastore:9083", "mart.raw"),
        ("s3://drop", "in"),
        ("ice", "db.t"),
    ]


def test_a_failed_write_says_why_and_has_no_output_of_rows() -> None:
    started, failed = map(read_by_client, sent_of(FAILED))
    facets: Any = failed.run.facets
    assert (failed.eventType.value if failed.eventType else "", facets["errorMessage"].message) == ("FAIL", "it")
    assert "errorMessage" not in (started.run.facets or {})
    assert [one.outputFacets for one in failed.outputs or ()] == [{}]


def test_an_append_overwrites_nothing() -> None:
    *_, completed = map(read_by_client, sent_of(replace(FULL, mode="append")))
    assert "lifecycleStateChange" not in ((completed.outputs or [])[0].facets or {})


def test_one_write_is_one_run_in_every_process(world: World, sent: Callable[[], list[dict[str, Any]]]) -> None:
    write_id = world.stage(NEW)
    staged = replace(FULL, operation="stage", outcome="staged", write_id=write_id)
    with world.inject(LOST, keep_call=True), suppress(OutcomeUnknownError):
        world.keeper.publish(T, write_id)
    world.wait_out_claims()
    world.keeper.recover(T)
    runs = [one["run"]["runId"] for one in (*sent_of(staged), *sent())]
    assert len(runs) == 6
    assert len(set(runs)) == 1
    assert [one["eventType"] for one in sent()] == ["START", "RUNNING", "START", "COMPLETE"]
    assert {one["job"]["name"] for one in (*sent_of(staged), *sent())} == {"mart.orders.overwrite_partitions"}


def test_a_discard_by_any_process_ends_the_run_that_staging_began(
    world: World, sent: Callable[[], list[dict[str, Any]]]
) -> None:
    write_id = world.stage(NEW)
    world.keeper.discard(T, write_id)
    staged = sent_of(replace(FULL, operation="stage", outcome="staged", write_id=write_id))
    assert [one["eventType"] for one in sent()] == ["START", "ABORT"]
    assert len({(one["run"]["runId"], one["job"]["name"]) for one in (*staged, *sent())}) == 1


def test_calls_that_wrote_nothing_are_runs_of_their_own() -> None:
    nothing, repeated = replace(FULL, outcome="nothing", write_id=""), replace(FULL, outcome="repeated")
    runs = [sent_of(one)[0]["run"]["runId"] for one in (FULL, nothing, nothing, repeated, repeated)]
    assert len(set(runs)) == 5


@pytest.mark.parametrize(
    ("operation", "outcome", "state"),
    [
        ("write", "published", "COMPLETE"),
        ("write", "failed", "FAIL"),
        ("write", "unknown", "RUNNING"),
        ("stage", "staged", "RUNNING"),
        ("publish", "failed", "OTHER"),
        ("discard", "discarded", "ABORT"),
        ("recover", "abandoned", "ABORT"),
        ("rollback", "nothing", "COMPLETE"),
    ],
)
def test_a_run_is_over_only_when_nobody_can_change_that(operation: Any, outcome: Any, state: str) -> None:
    assert [one["eventType"] for one in sent_of(replace(FULL, operation=operation, outcome=outcome))] == [
        "START",
        state,
    ]


def test_the_parent_run_is_that_of_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", f"http://air/flow/daily.orders/{RUN}")
    monkeypatch.setenv("OPENLINEAGE_ROOT_PARENT_ID", f"airflow/daily/{RUN}")
    for one in map(read_by_client, sent_of(FULL)):
        parent: Any = (one.run.facets or {})["parent"]
        assert (parent.job.namespace, parent.job.name, parent.run.runId) == ("http://air/flow", "daily.orders", RUN)
        assert (parent.root.job.namespace, parent.root.job.name) == ("airflow", "daily")


@pytest.mark.parametrize("text", ["", "airflow/daily.orders/no-uuid", f"daily/{RUN}", "{{ macros.never_rendered }}"])
def test_a_parent_that_is_none_costs_no_lineage(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", text)
    assert ["parent" in one["run"]["facets"] for one in sent_of(FULL)] == [False, False]


def test_the_job_can_be_named_by_the_caller_and_its_namespace_by_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "night")
    listener = OpenLineageListener(job=lambda event: f"load.{event.table}")
    jobs = {(one.job.namespace, one.job.name) for one in listener.run_events(FULL)}
    assert jobs == {("night", "load.mart.orders")}


def test_without_a_client_it_is_the_one_that_the_environment_describes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lineage.jsonl"
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(path))
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__APPEND", "true")
    OpenLineageListener()(FULL)
    events: list[RunEvent] = [read_by_client(json.loads(line)) for line in path.read_text().splitlines()]
    assert [one.eventType.value for one in events if one.eventType] == ["START", "COMPLETE"]


@pytest.mark.parametrize(
    ("location", "place"),
    [
        ("s3n://lake/a/b/", ("s3://lake", "a/b")),
        ("s3://lake", ("s3://lake", "/")),
        ("s3a://AKIA:hu/sh@lake/a", ("s3://lake", "a")),
        ("abfs://c@acc.dfs.core.windows.net/a/b", ("abfss://c@acc.dfs.core.windows.net", "a/b")),
        ("gs://lake/a/b/", ("gs://lake", "a/b")),
        ("wasbs://c@acc.blob.core.windows.net/a", ("wasbs://c@acc.blob.core.windows.net", "a")),
        ("hdfs://name:8020/a", ("hdfs://name:8020", "/a")),
        ("file:///a/b", ("file", "/a/b")),
        ("no location", None),
    ],
)
def test_places_are_named_by_openlineages_rules(location: str, place: tuple[str, str] | None) -> None:
    assert place_name(location) == place


def test_tables_of_glue_are_named_by_region_and_account() -> None:
    assert table_name("glue://eu-west-1/1234", "mart.orders") == ("arn:aws:glue:eu-west-1:1234", "table/mart/orders")


@pytest.mark.parametrize(
    ("package", "module"),
    [
        ("openlineage.client", "table_writer.integrations.openlineage"),
        ("opentelemetry.trace", "table_writer.integrations.opentelemetry"),
    ],
)
def test_what_is_not_installed_is_named_with_how_to_install_it(
    package: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    extra = module.rpartition(".")[2]
    with pytest.raises(InvalidInputError, match=rf"pip install 'hive-table-writer\[{extra}\]'"):
        importlib.import_module(module)
