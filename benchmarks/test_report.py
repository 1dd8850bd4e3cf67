"""Tables and picture tell what was measured, and fit."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.cases import CASES
from benchmarks.compare import contenders_of, parse
from benchmarks.contenders import CONTENDERS, PAIR
from benchmarks.outcome import CaseOutcome, Outcome, Report, Run
from benchmarks.page import tables
from benchmarks.report import as_text
from benchmarks.rounds import _tally
from demo.reader import Tally

PEAKS = {"jvm": 2**30, "driver": 100 * 2**20, "worker": 300 * 2**20}
WELL = Tally(
    overwrites=1,
    queries=12345,
    failed=0,
    with_rows_missing=0,
    with_half_switched=0,
    with_some_switched=0,
    before=6,
    after=6,
)


def outcome(name: str, seconds: float, **more: object) -> Outcome:
    contender = CONTENDERS[name]
    found = Outcome(name=name, title=contender.title, layout=contender.layout, ours=contender.ours, note=contender.note)
    calls = {"get_table": 2, "alter_partitions": 1}
    found.runs = [Run(seconds=each, peak_bytes=PEAKS, metastore_calls=calls) for each in (seconds + 1, seconds)]
    found.latency_seconds = {"20": 10 * seconds, "5": 5 * seconds}
    found.traffic = {"requests": {"PutObject": 240, "HeadObject": 5000}, "sent_bytes": 143e6, "copied_bytes": 286e6}
    found.files, found.stored_bytes, found.reader = 240, 142_900_000, WELL
    for field, value in more.items():
        setattr(found, field, value)
    return found


@pytest.fixture
def report() -> Report:
    case = CaseOutcome(name="orders", title="30 partitions", row_count=4_000_000, column_count=9, partition_count=30)
    case.scans = [1.5, 1.25]
    case.outcomes = [
        outcome("spark-v2", 12.0),
        outcome("s3a-partitioned", 10.0),
        outcome("s3a-magic", 1.0, error="wrong rows in 30 partition(s)", runs=[], traffic={}, reader=None),
        outcome("table-writer", 5.0),
        outcome("iceberg-hash", 8.0),
    ]
    versions = dict.fromkeys(("spark", "hive-table-writer", "delta", "iceberg", "java", "python"), "4.1.4")
    options = {"server": "versitygw", "runs": 2}
    return Report(machine={"cores": 2, "memory_gib": 24}, versions=versions, options=options, cases=[case])


def row_of(text: str, title: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(title))
    return line.removeprefix(title).split()


def test_no_line_is_wider_than_160_columns(report: Report) -> None:
    broken = Tally(**{name: 99 for name in Tally.__slots__ if name != "first_error"})
    report.cases[0].outcomes[0].reader = broken
    assert max(map(len, as_text(report).splitlines())) <= 160


def test_the_fastest_run_is_the_figure_and_peers_of_the_same_layout_are_the_measure(report: Report) -> None:
    text = as_text(report)
    assert row_of(text, CONTENDERS["table-writer"].title + " ")[:5] == ["5.00", "2.00", "2.40", "25.00", "50.00"]
    assert row_of(text, CONTENDERS["iceberg-hash"].title)[:3] == ["8.00", "1.00", "1.50"]
    assert row_of(text, "(making the rows)") == ["1.25"]


def test_requests_and_calls_are_shown_by_kind(report: Report) -> None:
    text = as_text(report)
    assert "head 5,000, put 240" in text
    assert "get_table 2, alter_partitions 1" in text


def test_a_contender_that_failed_is_a_row_with_its_error(report: Report) -> None:
    text = as_text(report)
    assert row_of(text, CONTENDERS["s3a-magic"].title) == ["FAILED,", "see", "below"]
    assert f"FAILED {CONTENDERS['s3a-magic'].title}: wrong rows in 30 partition(s)" in text
    assert report.failed
    report.cases[0].outcomes.pop(2)
    assert not report.failed


def test_all_runs_are_in_the_json(report: Report) -> None:
    stored = json.loads(json.dumps(report.as_json()))
    ours = stored["cases"][0]["outcomes"][3]
    assert [run["seconds"] for run in ours["runs"]] == [6.0, 5.0]
    assert ours["seconds"] == 5.0
    assert ours["reader"]["queries"] == 12345


def test_what_a_reader_saw_is_judged_by_partition() -> None:
    old, new = {"a": [2, 10], "b": [3, 20]}, {"a": [2, 12], "b": [3, 23]}
    seen = [
        {"content": old, "error": ""},
        {"content": {"a": [2, 12], "b": [3, 20]}, "error": ""},
        {"content": {"a": [2, 12], "b": [3, 21]}, "error": ""},
        {"content": {"a": [2, 12]}, "error": ""},
        {"content": {}, "error": "file not found"},
        {"content": new, "error": ""},
    ]
    tally = _tally(seen, old, new)
    assert (tally.before, tally.after, tally.with_some_switched) == (1, 1, 1)
    assert (tally.with_half_switched, tally.with_rows_missing, tally.failed) == (1, 1, 1)


def test_the_shapes_of_data_are_written_by_two_unless_more_are_asked_for() -> None:
    assert [one.name for one in contenders_of("strings", None)] == list(PAIR)
    usual = [name for name in CONTENDERS if name != "spark-v1"]
    assert [one.name for one in contenders_of("lineitem", None)] == usual
    assert [one.name for one in contenders_of("orders", None)] == [
        name
        for name in usual
        if name != "table-writer-comet"  # for which rows must come from files
    ]
    assert [one.name for one in contenders_of("orders", ["spark-v1"])] == ["spark-v1"]
    assert [one.name for one in contenders_of("unpartitioned", ["iceberg-hash", "delta"])] == ["delta"]


def test_a_wrong_name_names_the_right_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--cases", "orders,linetiem"])
    assert "linetiem: choose from orders, lineitem" in capsys.readouterr().err


def test_every_case_names_its_columns_in_the_tables_order() -> None:
    for case in CASES.values():
        last = case.columns.rpartition(", ")[2].split()[0]
        assert last == (*case.partition_by, "dt")[0]
        assert f"{case.marker} INT" in case.columns


def test_the_report_needs_no_library_that_draws() -> None:
    code = "import sys, benchmarks.report; sys.exit('matplotlib' in sys.modules)"  # others here draw, and import it
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[1], check=False)
    assert done.returncode == 0


def test_the_page_shows_the_figures_of_the_json(report: Report) -> None:
    shape = CaseOutcome(name="strings", title="long strings", row_count=100, column_count=5, partition_count=10)
    runs = [Run(seconds=2.0, core_seconds=4.0, peak_bytes=PEAKS, metastore_calls={})]
    shape.outcomes = [
        outcome("spark-v2", 3.0, traffic={}, reader=None, latency_seconds={}, runs=[replace(runs[0], seconds=3.0)]),
        outcome("table-writer", 2.0, traffic={}, reader=None, latency_seconds={}, runs=runs),
    ]
    report.cases.append(shape)
    report.options = {**report.options, "shape_runs": 1}
    for case in report.cases[:1]:
        for one in case.outcomes:
            one.runs = [replace(run, core_seconds=10 * run.seconds) for run in one.runs]
    lines = list(tables(json.loads(json.dumps(report.as_json()))))
    assert "| **table_writer** | 5.00 | 5,240 | 143.0 | 286.0 | 3 | 142.9 | 1,024 |" in lines
    assert "| **table_writer** | 50.00 | 2.4 |" in lines  # with 20 ms a request
    assert "| 30 partitions | 2.4 × | 2.4 × | 142.9 / 142.9 |" in lines
    assert "| long strings | 1.5 × | 1.0 × | 142.9 / 142.9 |" in lines
    assert not any("magic" in line for line in lines)  # it has failed
