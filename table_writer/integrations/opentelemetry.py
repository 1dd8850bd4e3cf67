"""The listener that makes traces and metrics, through OpenTelemetry's API; the SDK and the exporters are yours.

Needs ``pip install 'hive-table-writer[opentelemetry]'``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from table_writer.errors import needs_extra
from table_writer.events.event import TableEvent
from table_writer.events.listeners import in_short
from table_writer.version import __version__

with needs_extra("opentelemetry", "OpenTelemetryListener"):
    from opentelemetry import metrics, trace
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, Status, StatusCode, TracerProvider

SCOPE: Final = "table_writer"
WRITES: Final = frozenset(
    {"write", "publish", "compact"}
)  # operations whose rows count as written; a recovery may repeat one
BOUNDARIES_SECONDS: Final = (0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200)
Attributes = dict[str, str | int | float | bool]


class OpenTelemetryListener:
    """Makes a span of each call, one of each of its steps below it, and counts what was done.

    Spans have the times at which the steps ran, and are made when the call is over: below the span that is current
    where the call was made, but Spark's and boto3's own spans are not below them. Metrics have table, mode, operation
    and outcome as attributes, never the write: each table is some dozens of time series.

    ===================================  ====  ===============================================================
    metric                               unit  counts
    ===================================  ====  ===============================================================
    ``table_writer.operations``                calls that are over, and entries that were recovered
    ``table_writer.operation.duration``  s     a histogram of calls
    ``table_writer.step.duration``       s     the same of steps, with ``table_writer.step``
    ``table_writer.written.rows``              rows that this process has published, ``.files``, ``.size`` too
    ``table_writer.deleted.size``        By    what vacuums and discards have deleted
    ``table_writer.storage.requests``          by ``table_writer.request``, executors included
    ``table_writer.metastore.calls``           by ``table_writer.request``
    ===================================  ====  ===============================================================

    Parameters
    ----------
    tracer_provider, meter_provider
        By default the global ones, which may be set later.

    Raises
    ------
    InvalidInputError
        On import: the API is not installed.

    Examples
    --------
    >>> OpenTelemetryListener()
    OpenTelemetryListener()
    """

    def __init__(
        self, *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
    ) -> None:
        self._tracer = trace.get_tracer(SCOPE, __version__, tracer_provider)
        meter = metrics.get_meter(SCOPE, __version__, meter_provider)
        self._operations = meter.create_counter("table_writer.operations", "{operation}", "Calls that are over")
        self._seconds = meter.create_histogram(
            "table_writer.operation.duration",
            "s",
            "How long a call took",
            explicit_bucket_boundaries_advisory=BOUNDARIES_SECONDS,
        )
        self._step_seconds = meter.create_histogram(
            "table_writer.step.duration",
            "s",
            "How long a step took",
            explicit_bucket_boundaries_advisory=BOUNDARIES_SECONDS,
        )
        self._rows = meter.create_counter("table_writer.written.rows", "{row}", "Rows published")
        self._files = meter.create_counter("table_writer.written.files", "{file}", "Files published")
        self._size = meter.create_counter("table_writer.written.size", "By", "Bytes of the files published")
        self._deleted_size = meter.create_counter("table_writer.deleted.size", "By", "Bytes of the files deleted")
        self._requests = meter.create_counter("table_writer.storage.requests", "{request}", "Requests to the store")
        self._calls = meter.create_counter("table_writer.metastore.calls", "{call}", "Calls of the metastore")

    def __repr__(self) -> str:
        return "OpenTelemetryListener()"

    def __call__(self, event: TableEvent, /) -> None:
        """Make the spans and count."""
        attributes = _attributes(event)
        self._trace(event, attributes)
        self._count(event, {**attributes, "table_writer.outcome": event.outcome})

    def _trace(self, event: TableEvent, attributes: Attributes) -> None:
        # otherwise the span would begin with the entry
        started_at = event.ended_at if _is_of_entry(event) else event.started_at
        span = self._tracer.start_span(
            f"{event.mode} {event.table}",
            start_time=_nanoseconds(started_at),
            attributes={**attributes, **_facts(event)},
        )
        below = trace.set_span_in_context(span)
        for step in event.steps:
            child = self._tracer.start_span(step.name, context=below, start_time=_nanoseconds(step.started_at))
            if event.error is not None and step is event.steps[-1]:
                _mark(child, event)
            child.end(_nanoseconds(step.ended_at))
        if event.error is not None:
            _mark(span, event)
        span.end(_nanoseconds(event.ended_at))

    def _count(self, event: TableEvent, attributes: Attributes) -> None:
        self._operations.add(1, attributes)
        if not _is_of_entry(event):
            self._seconds.record(event.seconds, attributes)
        for step in event.steps:
            self._step_seconds.record(step.seconds, {**attributes, "table_writer.step": step.name})
        if event.operation in WRITES and event.outcome == "published":
            self._rows.add(event.rows or 0, attributes)
            self._files.add(event.files, attributes)
            self._size.add(event.bytes, attributes)
        if event.deleted_bytes:
            self._deleted_size.add(event.deleted_bytes, attributes)
        for counter, counts in ((self._requests, event.storage_requests), (self._calls, event.metastore_calls)):
            for kind, count in counts.items():
                counter.add(count, {**attributes, "table_writer.request": kind})


def _is_of_entry(event: TableEvent) -> bool:
    """Return whether the event is of an entry that was resolved; a recovery that failed is a call like any other."""
    return event.operation == "recover" and event.of_version is not None


def _attributes(event: TableEvent) -> Attributes:
    """Return the attributes of spans and of metrics, with names of the semantic conventions where there are any."""
    database, _, name = event.table.rpartition(".")
    attributes: Attributes = {
        "db.system.name": "hive",
        "db.collection.name": name,
        "db.operation.name": event.mode,
        "table_writer.operation": event.operation,
    }
    if database:
        attributes["db.namespace"] = database
    if event.error is not None:
        attributes["error.type"] = event.error.code
    return attributes


def _facts(event: TableEvent) -> Attributes:
    """Return the attributes of spans alone: their values differ from call to call."""
    facts: Mapping[str, str | int | None] = {
        "table_writer.outcome": event.outcome,
        "table_writer.write_id": event.write_id or None,
        "table_writer.version": event.version,
        "table_writer.of_version": event.of_version,
        "table_writer.of_write_id": event.of_write_id or None,
        "table_writer.partitions": len(event.partitions),
        "table_writer.rows": event.rows,
        "table_writer.files": event.files,
        "table_writer.size": event.bytes,
        "table_writer.deleted.size": event.deleted_bytes,
        "table_writer.failed_checks": sum(not check.passed for check in event.checks),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _mark(span: Span, event: TableEvent) -> None:
    message = event.error.message if event.error is not None else ""
    span.set_status(Status(StatusCode.ERROR, message or in_short(event)))


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1_000
