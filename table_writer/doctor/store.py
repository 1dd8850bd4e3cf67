"""Try a store before its first write, without a table and without a metastore: each trial is one finding."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from table_writer.config import TableWriterConfig
from table_writer.doctor.subject import WORST_FIRST
from table_writer.model.location import Location
from table_writer.reports.health_reports import DoctorReport, Finding
from table_writer.storage import open_store
from table_writer.storage.hadoop import settings_for
from table_writer.storage.object_store import ObjectStore
from table_writer.storage.proof import TRIALS, Verdict, probe_below, try_store
from table_writer.table.services import hadoop_without_spark


def examine_store(location: str, config: TableWriterConfig) -> DoctorReport:
    """Try the store that the settings without Spark are for."""
    place = Location.parse(location)
    settings = settings_for(place, hadoop_without_spark(config), config.s3)
    return examine_opened(place, partial(open_store, settings))


def examine_opened(place: Location, open_one: Callable[[], ObjectStore]) -> DoctorReport:
    """Try a store below a location; see :meth:`table_writer.Maintenance.examine_store`."""
    probe = probe_below(place, open_one)
    findings = [_finding(verdict) for verdict in try_store(probe)]
    left = probe.remaining_keys()
    if left:
        findings.append(
            Finding(
                check="clean-up",
                status="warning",
                message=f"what the trials have made was not all taken away: {probe.directory}",
                advice="delete it, and abort the uploads below it",
            )
        )
    return DoctorReport(
        table=str(place), findings=tuple(sorted(findings, key=lambda finding: WORST_FIRST.index(finding.status)))
    )


def _finding(verdict: Verdict) -> Finding:
    trial = TRIALS[verdict.name]
    if verdict.answer == "yes":
        return Finding(check=verdict.name, status="ok", message=f"yes: {verdict.message}")
    if verdict.answer == "not tried":
        return Finding(check=verdict.name, status="note", message=verdict.message)
    if verdict.answer == "failed":
        advice = "do what the message says, then run doctor again"
        return Finding(check=verdict.name, status="error", message=verdict.message, advice=advice)
    status = "error" if trial.is_fatal else "warning"
    return Finding(check=verdict.name, status=status, message=f"no: {verdict.message}", advice=trial.advice)
