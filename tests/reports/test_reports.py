"""What the reports on staged writes and on checks say, as text and as plain values."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from table_writer.model.check_result import CheckResult
from table_writer.model.words import Words
from table_writer.reports.checks import CheckResults, checks_in_short, verdict
from table_writer.reports.history_reports import HistoryReport, VersionSummary
from table_writer.reports.html import summary_html, tone
from table_writer.reports.layout import Column, Grid, Summary, size
from table_writer.reports.staged_report import StagedDetail, StagedReport
from table_writer.reports.vacuum_reports import DiscardReport

from .gallery import usual

SHOWN = usual()
PASSED = CheckResult(name="a", severity="error", passed=True, message="fine")
WARNED = CheckResult(name="b", severity="warn", passed=False, message="hm")
FAILED = CheckResult(name="c", severity="error", passed=False, message="no")


def written_by(version: VersionSummary, writer: dict[str, str]) -> VersionSummary:
    return replace(version, writer=writer)


def lines(shown: Any) -> list[str]:
    return [" ".join(line.split()) for line in repr(shown).splitlines()]


@pytest.mark.parametrize(
    ("results", "short"),
    [
        ((), "-"),
        ((PASSED,), "1 check passed"),
        ((PASSED,) * 3, "3 checks passed"),
        ((PASSED, WARNED, PASSED), "1 of 3 failed (warn)"),
        ((FAILED, WARNED), "2 of 2 failed (error, warn)"),
    ],
)
def test_checks_are_told_in_short(results: tuple[CheckResult, ...], short: str) -> None:
    assert checks_in_short(results) == short
    version = replace(SHOWN["history"].versions[0], checks=results, words=Words())
    assert lines(HistoryReport(table="t", versions=(version,)))[-1].endswith(short)


def test_a_result_shows_its_checks_failed_ones_first_and_example_rows() -> None:
    shown = lines(SHOWN["result"])
    start = shown.index("checks:")
    assert shown[start + 1 : start + 5] == [
        "check outcome wrong rows answered by found",
        "not_null(nightly load) failed (error) 3 spark 3 of 4,817,244 rows have no nightly load",
        "in_range(amount) failed (warn) 120,004 spark 120,004 of 4,817,244 rows lie outside of 0 … 10,000",
        "row_count(at_least=1) passed - metadata 4,817,244 rows",
    ]
    assert shown[start + 5 : start + 9] == [
        "rows that fail not_null(nightly load):",
        "nightly load amount",
        "null 12.50",
        "null nightly load",
    ]


def test_results_of_checks_are_a_tuple_that_shows_as_a_table() -> None:
    found = SHOWN["result"].checks
    assert isinstance(found, tuple)
    assert copy.copy(found) == tuple(found)
    assert lines(found)[:3] == [f"{checks_in_short(found)}", "checks:", "check outcome wrong rows answered by found"]
    assert "rows that fail not_null(nightly load):" in lines(found)
    assert "<table>" in found._repr_html_()
    assert repr(CheckResults()) == "no checks"


def test_a_version_shows_its_checks_without_rows() -> None:
    assert len(SHOWN["version"].checks) == 3
    assert "checks:" in lines(SHOWN["version"])
    assert not any("rows that fail" in line for line in lines(SHOWN["version"]))


def test_staged_writes_are_listed_with_when_they_expire() -> None:
    report: StagedReport = SHOWN["staged"]
    shown = lines(report)
    assert shown[0] == "mart.orders: 2 staged writes"
    assert shown[2].endswith("4 4,817,244 1.0 GiB 2 of 3 failed (error, warn)")
    assert " staged overwrite_partitions 2026-05-04 10:30:05 2026-05-05 10:30:05 nightly load@worker-3" in shown[2]
    assert " expired " in shown[3]
    assert lines(StagedReport(table="t")) == ["t: nothing is staged"]


def test_a_staged_write_shows_partitions_checks_and_columns() -> None:
    report: StagedDetail = SHOWN["staged detail"]
    shown = lines(report)
    assert shown[0] == "mart.orders: overwrite_partitions staged, 4,817,244 rows in 48 files, 1.0 GiB, 4 partitions"
    start = shown.index("columns:")
    assert shown[start + 1 : start + 5] == [
        "column nulls smallest largest",
        "nightly load 3 nightly load nightly load",
        "amount 0 0.50 99999.99",
        "day ? 2026-05-01 ?",
    ]
    plain = report.to_dict()
    assert json.loads(report.to_json()) == plain
    assert plain["statistics"]["amount"] == {"null_count": 0, "low": "0.50", "high": "99999.99"}
    assert plain["statistics"]["day"]["low"] == "2026-05-01"
    assert [one["passed"] for one in plain["summary"]["checks"]] == [True, False, False]
    assert plain["summary"]["expires_at"] == "2026-05-05T10:30:05+00:00"


def test_what_was_discarded_is_counted_and_failures_come_first() -> None:
    report: DiscardReport = SHOWN["discard"]
    shown = lines(report)
    write_id = "20260504T103005Z-9c1e5f7a2b3d4e6f"
    assert shown[0] == f"mart.orders: write {write_id} discarded: 3 files (2.0 GiB), 2 pending uploads"
    assert shown[-2:] == ["FAILED: nightly load", "given up by version 9 of the log"]
    assert "would be discarded" in repr(replace(report, dry_run=True))


def test_one_long_cell_does_not_push_the_other_rows_apart() -> None:
    versions = SHOWN["history"].versions
    shown = repr(HistoryReport(table="t", versions=(versions[0], written_by(versions[1], {"user": "x" * 500}))))
    assert len(shown.splitlines()[2]) < 250


def test_wide_characters_are_aligned_by_the_columns_they_take() -> None:
    versions = SHOWN["history"].versions[1:3]
    writers = [{"user": "日本語"}, {"user": "abcdef"}]
    told = HistoryReport(table="t", versions=tuple(map(written_by, versions, writers)))
    first, second = repr(told).splitlines()[2:4]
    assert first.index("+3") + 3 == second.index("+3")


def test_cells_are_spelled_for_people() -> None:
    columns = (Column("value", "real"), Column("twice", spell=lambda number: 2 * number))
    assert Grid(columns, [1, 1200]).rows == (("1", "2"), ("1,200", "2,400"))
    assert [size(512), size(1536), size(3 * 1024**3)] == ["512 B", "1.5 KiB", "3.0 GiB"]


def test_words_that_say_how_something_ended_have_a_tone() -> None:
    assert [tone("published"), tone("in doubt"), tone("running")] == ["good", "doubt", "plain"]
    assert verdict(CheckResult(name="fresh", severity="warn", passed=False, message="too old")) == "failed (warn)"


def test_words_of_others_are_escaped_in_html() -> None:
    shown = summary_html(Summary(headline="<b>: nothing", subject="<b>"))
    assert shown.endswith('<p class="tw-head"><bdi>&lt;b&gt;</bdi>: nothing</p></div>')
