"""What a dry run shows: the same facts as text, as HTML and as JSON; names stay names."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from table_writer.model.partition_facts import PartitionFacts
from table_writer.reports.plan_report import PlanReport, SchemaVerdict

ROOT = "s3a://lake/orders/"
MARKUP = "<script>alert('x')</script>&\"><img src=x onerror=1>"
ADDED = PartitionFacts(name="dt=d1", values=("d1",), action="add", location=f"{ROOT}n/dt=d1/", rows=1000)
REPLACED = PartitionFacts(
    name="dt=d2", values=("d2",), action="replace", location=f"{ROOT}n/dt=d2/", rows=2, old_location=f"{ROOT}dt=d2/"
)
APPENDED = PartitionFacts(
    name="dt=d3",
    values=("d3",),
    action="append",
    location=f"{ROOT}n/dt=d3/",
    rows=30,
    old_location=f"{ROOT}dt=d3/",
    copied_files=4,
    copied_bytes=5 * 1024**2,
)
EMPTIED = PartitionFacts(
    name="dt=d4", values=("d4",), action="empty", location="", rows=0, old_location=f"{ROOT}dt=d4/"
)
REPORT = PlanReport(
    table="mart.orders",
    mode="overwrite_table",
    base_version=7,
    partitions=(ADDED, REPLACED, APPENDED, EMPTIED),
    schema=SchemaVerdict(
        added_columns=("discount: int",), filled_columns=("note",), converted_columns=("amount: int -> bigint",)
    ),
    notes=("one note",),
)


def test_partitions_are_sorted_into_what_would_become_of_them() -> None:
    assert (REPORT.added, REPORT.replaced, REPORT.appended, REPORT.emptied) == (
        (ADDED,),
        (REPLACED,),
        (APPENDED,),
        (EMPTIED,),
    )
    assert (REPORT.rows, REPORT.copied_files, REPORT.copied_bytes) == (1032, 4, 5 * 1024**2)


def test_the_text_says_what_would_be_done_where_and_to_the_columns() -> None:
    lines = [" ".join(line.split()) for line in repr(REPORT).splitlines()]
    changes = "add 1, replace 1, append to 1, empty 1 partition, 1,032 rows, 4 files (5.0 MiB) copied"
    assert lines == [
        f"mart.orders: overwrite_table on version 7 would {changes}",
        "partition rows copied files copied new location",
        "dt=d1 add 1,000 - - dt=d1/",
        "dt=d2 replace 2 - - dt=d2/",
        "dt=d3 append 30 4 5.0 MiB dt=d3/",
        "dt=d4 empty 0 - - (dropped)",
        "new location: below s3a://lake/orders/n/",
        "would add column discount: int",
        "would fill column note with nulls",
        "would convert column amount: int -> bigint",
        "note: one note",
    ]


@pytest.mark.parametrize(
    "failing",
    [replace(REPORT, problems=("dt=d1 exists",)), replace(REPORT, schema=SchemaVerdict(problems=("dt=d1 exists",)))],
    ids=["call", "schema"],
)
def test_a_call_that_would_fail_says_so_first_and_why(failing: PlanReport) -> None:
    lines = repr(failing).splitlines()
    assert not failing.ok
    assert "would FAIL" in lines[0]
    assert "  PROBLEM: dt=d1 exists" in lines
    assert failing.to_dict()["ok"] is False


def test_nothing_to_do_is_said() -> None:
    nothing = PlanReport(table="mart.orders", mode="append", base_version=0)
    assert repr(nothing) == "mart.orders: append on version 0 would change nothing"
    assert nothing.ok


def test_an_unpartitioned_table_is_one_row() -> None:
    whole = replace(REPLACED, name="", values=())
    assert "(whole table)  replace" in repr(replace(REPORT, partitions=(whole,)))


def test_programs_read_plain_values() -> None:
    plain = json.loads(REPORT.to_json())
    assert plain == REPORT.to_dict()
    assert plain["format"] == 1
    assert plain["ok"] is True
    assert plain["partitions"][1] == {
        "name": "dt=d2",
        "values": ["d2"],
        "action": "replace",
        "location": "s3a://lake/orders/n/dt=d2/",
        "rows": 2,
        "replaced_location": "s3a://lake/orders/dt=d2/",
        "copied_files": 0,
        "copied_bytes": 0,
    }
    assert plain["schema"] == {
        "fits": True,
        "problems": [],
        "added_columns": ["discount: int"],
        "filled_columns": ["note"],
        "default_columns": [],
        "converted_columns": ["amount: int -> bigint"],
    }
    assert {key: plain[key] for key in ("rows", "copied_files", "copied_bytes")} == {
        "rows": 1032,
        "copied_files": 4,
        "copied_bytes": 5 * 1024**2,
    }


def test_hostile_names_are_shown_and_do_nothing() -> None:
    hostile = PlanReport(
        table=MARKUP,
        mode="append",
        base_version=1,
        partitions=(replace(ADDED, name=f"dt={MARKUP}\x1b[2J\n\u202e", location=MARKUP),),
        schema=SchemaVerdict(
            problems=(MARKUP,), added_columns=(MARKUP,), filled_columns=(MARKUP,), converted_columns=(MARKUP,)
        ),
        notes=(MARKUP,),
        problems=(MARKUP,),
    )
    html = hostile._repr_html_()
    assert "<script" not in html
    assert "<img" not in html
    assert html.count("&lt;script&gt;") == 9
    for shown in (html, hostile.to_text()):
        assert not any(character in shown for character in "\x1b\u202e")
    assert json.loads(hostile.to_json())["partitions"][0]["name"] == f"dt={MARKUP}\x1b[2J\n\u202e"


def test_all_rows_are_shown_on_request_and_the_first_ones_otherwise() -> None:
    many = replace(REPORT, partitions=tuple(replace(ADDED, name=f"dt={day}") for day in range(100)))
    assert "… and 88 more" in repr(many)
    assert "dt=99" in many.to_text(all_rows=True)
    assert "dt=99" not in many._repr_html_()


def test_a_line_is_as_long_as_what_it_alone_says() -> None:
    """Locations of a write share a directory of some hundred letters, which is told once."""
    root = f"s3a://lake/{'warehouse/' * 9}orders/_table_writer/data/20260504T103005-9c1e5f7a2b3d4e6f/"
    partitions = tuple(replace(ADDED, name=f"dt={day}", location=f"{root}dt={day}/") for day in range(3))
    lines = repr(replace(REPORT, partitions=partitions)).splitlines()
    assert [line.split()[-1] for line in lines[2:5]] == ["dt=0/", "dt=1/", "dt=2/"]
    assert f"  new location: below {root}" in lines
    assert sum(len(line) > 100 for line in lines) == 1
    one = repr(replace(REPORT, partitions=partitions[:1])).splitlines()
    assert (one[2].split()[-1], f"  new location: below {root}" in one) == ("dt=0/", True)
    apart = (partitions[0], replace(partitions[1], location="gs://other/dt=1/"))
    assert [line.split()[-1] for line in repr(replace(REPORT, partitions=apart)).splitlines()[2:4]] == [
        f"{root}dt=0/",
        "gs://other/dt=1/",
    ]
    assert replace(REPORT, partitions=partitions).to_dict()["partitions"][0]["location"] == f"{root}dt=0/"
