"""The report of an erasure in many tables says nothing that nobody has looked for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from table_writer.cli.arguments import ExitCode
from table_writer.cli.commands import BY_NAME, exit_code
from table_writer.reports.erasure_report import ErasedObject, ErasureReport
from table_writer.reports.many_reports import ErasuresReport, PassedOver, TableResult, erasures_report
from table_writer.testing import MemoryLakehouse

DUE = ErasureReport(
    table="mart.orders",
    write_id="w1",
    version=2,
    predicate_sha256="a" * 64,
    deleted_rows=1,
    requested_at=datetime(2024, 1, 2, tzinfo=UTC),
    requested_by="ann",
    objects=(ErasedObject(key="k", state="due"),),
)
NOTHING = replace(DUE, deleted_rows=0, objects=())


def report_of(*found: Any) -> ErasuresReport[Any]:
    return erasures_report(
        "mart.*", [TableResult(table=f"mart.t{at}", report=report) for at, report in enumerate(found)], 0
    )


def test_where_no_table_was_looked_through_nothing_is_said_to_be_found() -> None:
    lakehouse = MemoryLakehouse()
    lakehouse.create_table("mart.unwritten", {"id": "bigint"})
    unwritten = lakehouse.maintenance.erasure_many(database="mart")
    passed_over = report_of(PassedOver("it has none of the columns"))
    for report in (unwritten, passed_over):
        assert (report.found_nothing, report.is_complete) == (False, False)
        assert "no table was looked through" in report.to_text()
        assert exit_code(BY_NAME["erasure"], report) is ExitCode.LEFT
    nothing = report_of(NOTHING)
    assert (nothing.found_nothing, nothing.is_complete) == (True, False)
    assert "nothing found" in nothing.to_text()
    assert exit_code(BY_NAME["erasure"], nothing) is ExitCode.LEFT


def test_each_predicate_has_a_command_of_its_own() -> None:
    other = replace(DUE, table="mart.visits", predicate_sha256="b" * 64)
    text = report_of(DUE, other, replace(NOTHING, table="mart.returns")).to_text()
    assert f"`table-writer erasure mart.orders mart.returns --predicate-sha256 {'a' * 64}`" in text
    assert f"`table-writer erasure mart.visits --predicate-sha256 {'b' * 64}`" in text
