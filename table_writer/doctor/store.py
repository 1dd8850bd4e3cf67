"""Try a store before its first write, without a table and without a metastore: each trial is one finding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from table_writer.config import TableWriterConfig
from table_writer.doctor.findings import error, note, ok, warning, worst_first
from table_writer.model.location import Location
from table_writer.protocol.table.services import hadoop_without_spark
from table_writer.reports.health_reports import DoctorReport, Finding
from table_writer.storage.kinds import settings_for
from table_writer.storage.object_store import ObjectStore, open_store
from table_writer.storage.proof import TRIALS, Verdict, probe_below, try_store


def examine_store(location: str, config: TableWriterConfig) -> DoctorReport:
    """Try the store that the settings without Spark are for."""
    place = Location.parse(location)
    settings = settings_for(place, hadoop_without_spark(config), config.s3)
    return examine_opened(place, partial(open_store, settings))


def examine_opened(place: Location, open_one: Callable[[], ObjectStore]) -> DoctorReport:
    """Try a store below a location; see :meth:`table_writer.Maintenance.examine_store`."""
    probe = probe_below(place, open_one)
    findings = [_finding(verdict) for verdict in try_store(probe)]
    if probe.remaining_keys():
        remains = warning(
            f"what the trials have made was not all taken away: {probe.directory}",
            "delete it, and abort the uploads below it",
        )
        findings.append(replace(remains, check="clean-up"))
    return DoctorReport(table=str(place), findings=worst_first(findings))


def _finding(verdict: Verdict) -> Finding:
    trial, message = TRIALS[verdict.name], verdict.message
    findings = {
        "yes": ok(f"yes: {message}"),
        "not tried": note(message),
        "failed": error(message, "do what the message says, then run doctor again"),
        "no": (error if trial.is_fatal else warning)(f"no: {message}", trial.advice),
    }
    return replace(findings[verdict.answer], check=verdict.name)
