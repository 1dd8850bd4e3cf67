"""A table to examine, and short ways to ask for one check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from table_writer.config import SessionSettings
from table_writer.doctor.examination import examine
from table_writer.protocol.table.open_table import OpenTable
from table_writer.reports.health_reports import Finding
from tests.publish.world import World

Checked = Callable[..., list[Finding]]


@pytest.fixture
def world() -> World:
    world = World()
    world.write({"1": frozenset({1}), "2": frozenset({2})})
    return world


def with_hadoop(services: OpenTable, hadoop: Mapping[str, str], spark_version: str = "4.3.0") -> OpenTable:
    return replace(services, session=SessionSettings(hadoop=hadoop, spark_version=spark_version))


def of_check(services: OpenTable, check: str, spark_conf: Mapping[str, str] | None = None) -> list[Finding]:
    """Return what one check found, all others being run as well."""
    found = [finding for finding in examine(services, spark_conf) if finding.check == check]
    for finding in found:
        assert finding.status in {"ok", "note"} or finding.advice
    return found


def status_of(services: OpenTable, check: str, spark_conf: Mapping[str, str] | None = None) -> str:
    """Return the status of a check that found one thing."""
    (finding,) = of_check(services, check, spark_conf)
    return finding.status
