"""Traces and metrics, read from OpenTelemetry's own SDK."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import REGISTRY, generate_latest

from table_writer.config import TableWriterConfig
from table_writer.errors import LostResponseError, OutcomeUnknownError
from table_writer.events import TableEvent
from table_writer.integrations.opentelemetry import OpenTelemetryListener
from tests.publish.world import TABLE, Fault, World

T = str(TABLE)
NEW = {"d1": frozenset({10}), "d3": frozenset({30})}
LOST = Fault("metastore", "alter_partitions", 1, "before", LostResponseError)
NAMES = {"write_id", "table_writer.write_id", "table_writer.version", "table_writer.partitions"}


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracing(spans: InMemorySpanExporter) -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return provider


@pytest.fixture
def reader() -> Iterator[InMemoryMetricReader]:
    reader = InMemoryMetricReader()
    yield reader
    reader.shutdown()


@pytest.fixture
def world(tracing: TracerProvider, reader: InMemoryMetricReader, told: list[TableEvent]) -> World:
    listener = OpenTelemetryListener(tracer_provider=tracing, meter_provider=MeterProvider([reader]))
    world = World(config=TableWriterConfig(listeners=[listener, told.append]))
    world.write({"d1": frozenset({1, 2}), "d2": frozenset({3})})
    return world


def points(reader: InMemoryMetricReader) -> dict[str, list[Any]]:
    data: Any = reader.get_metrics_data()
    found = [one for of in data.resource_metrics for scope in of.scope_metrics for one in scope.metrics]
    return {one.name: list(one.data.data_points) for one in found}


def test_a_call_is_a_span_and_its_steps_lie_below_it_at_their_true_times(
    world: World, tracing: TracerProvider, spans: InMemorySpanExporter, told: list[TableEvent]
) -> None:
    write_id = world.stage(NEW)
    with tracing.get_tracer("job").start_as_current_span("nightly"):
        world.keeper.publish(T, write_id)
    step, call, job = spans.get_finished_spans()
    assert (step.name, call.name, job.name) == ("publish", "overwrite_partitions mart.orders", "nightly")
    assert (step.parent, call.parent) == (call.context, job.context)
    assert job.start_time <= call.start_time <= step.start_time <= step.end_time <= call.end_time <= job.end_time
    assert call.start_time == int(told[0].started_at.timestamp() * 1e6) * 1000
    assert {
        name: (call.attributes or {})[name] for name in ("db.system.name", "db.namespace", "db.collection.name")
    } == {"db.system.name": "hive", "db.namespace": "mart", "db.collection.name": "orders"}
    assert (call.attributes or {})["table_writer.write_id"] == write_id
    assert (call.attributes or {})["table_writer.rows"] == 2
    assert call.status.is_unset


def test_what_failed_is_an_error_of_its_step(world: World, spans: InMemorySpanExporter) -> None:
    with suppress(ValueError):
        world.keeper.rollback(T, version=99)
    step, call = spans.get_finished_spans()
    assert not call.status.is_ok
    assert not step.status.is_ok
    assert "has no version 99" in str(call.status.description)
    assert (call.attributes or {})["error.type"] == "invalid_input"


def test_a_recovery_lasts_no_longer_than_it_takes(world: World, spans: InMemorySpanExporter) -> None:
    write_id = world.stage(NEW)
    with world.inject(LOST, keep_call=True), suppress(OutcomeUnknownError):
        world.keeper.publish(T, write_id)
    world.wait_out_claims()
    spans.clear()
    world.keeper.recover(T)
    (recovery,) = spans.get_finished_spans()
    assert recovery.start_time == recovery.end_time  # and not since its entry was made
    assert (recovery.attributes or {})["table_writer.of_write_id"] == write_id


def test_a_recovery_that_fails_lasts_as_long_as_its_call(
    world: World, spans: InMemorySpanExporter, reader: InMemoryMetricReader, told: list[TableEvent]
) -> None:
    with suppress(ValueError):
        world.keeper.recover("mart.returns")
    (call,) = spans.get_finished_spans()
    assert call.start_time == int(told[0].started_at.timestamp() * 1e6) * 1000
    assert [one.count for one in points(reader)["table_writer.operation.duration"]] == [1]


def test_metrics_count_what_was_done_and_never_name_a_write(world: World, reader: InMemoryMetricReader) -> None:
    for _ in range(2):
        world.keeper.publish(T, world.stage(NEW))
    report = world.vacuum()
    found = points(reader)
    (rows,), (files,), (size,) = (found[f"table_writer.written.{name}"] for name in ("rows", "files", "size"))
    assert (rows.value, files.value) == (4, 4)
    assert size.value > 0
    assert rows.attributes["db.operation.name"] == "overwrite_partitions"
    assert [one.value for one in found["table_writer.deleted.size"]] == [report.bytes_freed]
    assert {(one.attributes["table_writer.operation"], one.value) for one in found["table_writer.operations"]} == {
        ("publish", 2),
        ("vacuum", 1),
    }
    assert {one.count for one in found["table_writer.operation.duration"]} == {1, 2}
    steps = {one.attributes["table_writer.step"] for one in found["table_writer.step.duration"]}
    assert steps == {"publish", "vacuum"}
    calls = {one.attributes["table_writer.request"]: one.value for one in found["table_writer.metastore.calls"]}
    assert calls["get_table_req"] > 0
    assert found["table_writer.storage.requests"]
    for one in (point for points_of in found.values() for point in points_of):
        assert NAMES.isdisjoint(one.attributes)


def test_prometheus_shows_them_by_opentelemetrys_own_exporter(world: World) -> None:
    provider = MeterProvider([PrometheusMetricReader()])
    world.config = TableWriterConfig(listeners=[OpenTelemetryListener(meter_provider=provider)])
    world.keeper.publish(T, world.stage(NEW))
    lines = generate_latest(REGISTRY).decode().splitlines()
    provider.shutdown()
    mode = 'db_operation_name="overwrite_partitions"'
    (written,) = [line for line in lines if line.startswith("table_writer_written_rows_total{") and mode in line]
    assert 'db_collection_name="orders"' in written
    assert written.endswith(" 2.0")
    assert any(line.startswith("table_writer_operation_duration_seconds_bucket{") for line in lines)
