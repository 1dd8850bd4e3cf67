"""What is counted of a file's columns for optimizers is what its rows say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from table_writer.jobs.upload.task import upload_rows
from table_writer.model.column_figures import ColumnFigures, as_text, from_text, merged_figures
from table_writer.model.message import CommitMessage
from table_writer.model.upload_spec import ParquetOptions, UploadSpec
from tests.upload.conftest import RecordingStore

FORMATS = {
    "int96": ParquetOptions(timestamp_type="INT96"),
    "millis": ParquetOptions(timestamp_type="TIMESTAMP_MILLIS"),
    "legacy": ParquetOptions(legacy_format=True),
}
MOMENTS = pa.timestamp("us", "UTC")
MOMENT = datetime(2024, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
MICROS = 1_704_164_645_678_901
PRICES = [Decimal("1.20"), Decimal("-3.00"), None, Decimal("1.20")]
DAYS = [date(1969, 12, 31), date(1970, 1, 2)]
COLUMNS: dict[str, tuple[pa.Array, dict[str, Any]]] = {
    "whole": (pa.array([3, -1, None, 3], pa.int16()), {"low": -1, "high": 3, "distinct": 2}),
    "ratio": (pa.array([-0.0, 0.5, None, 0.5]), {"low": 0.0, "high": 0.5, "distinct": 2}),
    "price": (pa.array(PRICES, pa.decimal128(38, 2)), {"low": "-3.00", "high": "1.20", "distinct": 2}),
    "day": (pa.array([*DAYS, None, DAYS[1]]), {"low": -1, "high": 1, "distinct": 2}),
    "ok": (pa.array([True, False, None, True]), {"true_values": 2, "distinct": 2}),
    "name": (pa.array(["ü", "long", None, "ü"]), {"total_bytes": 8, "longest_bytes": 4, "distinct": 2}),
    "raw": (pa.array([b"\xff", b"", None, b"\xff"]), {"total_bytes": 2, "longest_bytes": 1, "distinct": 2}),
}  # fmt: skip
UNKNOWN = {
    "NaN": pa.array([1.0, math.nan]),
    "infinite": pa.array([1.0, math.inf]),
    "infinite below": pa.array([-math.inf, 1.0]),
}


def figures_of(
    columns: dict[str, Any], options: ParquetOptions = FORMATS["int96"], *, tasks: int = 1, most: int = 1_000
) -> dict[str, ColumnFigures]:
    """Write rows of one partition, spread over tasks, and return what the driver knows of their columns."""
    spec = UploadSpec(
        write_id="w1",
        key_prefix="t/_table_writer/data/w1/",
        store=None,
        data_columns=tuple(columns),
        partition_columns=("p",),
        file_options=options,
        most_figures=most,
    )
    count = len(next(iter(columns.values())))
    batch = pa.RecordBatch.from_arrays([*columns.values(), pa.array(["a"] * count)], names=[*columns, "p"])
    each = -(-count // tasks)
    parts = []
    for task in range(tasks):
        sent = upload_rows([batch.slice(task * each, each)], spec, RecordingStore(), task_index=task, attempt_id=1)
        parts += [from_text(one.figures) for one in CommitMessage.from_bytes(sent).uploads]
    return merged_figures(parts)


@pytest.mark.parametrize("tasks", [1, 2, 4])
@pytest.mark.parametrize("form", FORMATS)
def test_figures_are_those_of_the_rows(form: str, tasks: int) -> None:
    found = figures_of({name: values for name, (values, _) in COLUMNS.items()}, FORMATS[form], tasks=tasks)
    for name, (_, expected) in COLUMNS.items():
        assert (found[name].nulls, found[name].values) == (1, 3), name
        assert {field: getattr(found[name], field) for field in expected} == expected, name


def test_a_timestamp_has_the_bounds_that_the_file_holds_also_where_its_footer_has_none() -> None:
    columns = {"at": pa.array([MOMENT, None], MOMENTS)}
    assert figures_of(columns)["at"].low == MICROS
    assert figures_of(columns, FORMATS["millis"])["at"].high == MICROS // 1000 * 1000


@pytest.mark.parametrize("name", UNKNOWN)
def test_bounds_are_unknown_where_floating_point_has_no_order_or_no_end(name: str) -> None:
    (one,) = figures_of({"x": UNKNOWN[name]}).values()
    assert None in {one.low, one.high}
    ((both),) = figures_of({"x": pa.concat_arrays([UNKNOWN[name], pa.array([1.0, 2.0])])}, tasks=2).values()
    assert None in {both.low, both.high}
    assert both.nulls == 0


def test_a_column_without_a_value_has_no_distinct_one() -> None:
    (one,) = figures_of({"x": pa.nulls(3, pa.int32())}, tasks=2).values()
    assert (one.nulls, one.values, one.low, one.distinct) == (3, 0, None, 0)


def test_nothing_is_counted_of_more_columns_than_allowed_nor_of_nested_ones() -> None:
    assert figures_of({"x": pa.array([1]), "y": pa.array([1])}, most=1) == {}
    assert figures_of({"x": pa.array([[1]])}) == {}


def test_distinct_values_are_exact_while_they_are_few_and_near_after_that() -> None:
    few = pa.array([f"status-{row % 5}" for row in range(40_000)])
    keys = pa.array(range(40_000), pa.int64())
    some = pa.array([f"customer-{row * 7919 % 3_000}" for row in range(40_000)])
    found = figures_of({"few": few, "keys": keys, "some": some}, tasks=4)
    assert found["few"].distinct == 5
    assert found["keys"].distinct == 40_000
    assert 2_500 < (found["some"].distinct or 0) < 15_000  # each file has nearly all: they are taken for its own


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=30), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_files_put_together_are_the_rows_put_together(values: Sequence[int | None], tasks: int) -> None:
    found = figures_of({"x": pa.array(values, pa.int64())}, tasks=tasks).get("x")
    there = [value for value in values if value is not None]
    assert found is not None
    assert (found.nulls, found.values) == (len(values) - len(there), len(there))
    assert (found.low, found.high) == ((min(there), max(there)) if there else (None, None))
    assert len(set(there)) <= (found.distinct or 0) <= len(there) or len(set(there)) <= 16
    assert from_text(as_text({"x": found})) == {"x": found}


@pytest.mark.parametrize(
    "damaged",
    [
        "[]", "{", "null", '{"x":null}', '{"x":["integer",-1,2]}', '{"x":["integer",0,2,5,1]}', '{"x":["what",0,2]}',
        '{"x":["integer",0,2,"a","b"]}', '{"x":["decimal",0,2,"NaN","1"]}', '{"x":["float",0,2,NaN,1]}',
        '{"x":["integer",0,2,1,2,null,null,null,3]}', '{"x":["integer",0,true]}', '{"x":["text",0,2,"a","b"]}',
        '{"x":["integer",0,1,1,1,null,null,null,1,"?"]}', '{"x":["integer",0,1,1,1,null,null,null,1,"QUFBQQ==",7]}',
    ],
)  # fmt: skip
def test_damaged_figures_are_none(damaged: str) -> None:
    assert from_text(damaged) == {}
