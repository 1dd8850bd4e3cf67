"""Statistics as they are stored, and added up."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_writer.errors import InvalidInputError
from table_writer.model.column_statistics import LONGEST_TEXT_BYTES, ColumnStatistics, MergedStatistics, as_spark_orders

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=LONGEST_TEXT_BYTES // 4)
BOUNDS: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-(2**63), 2**63 - 1),
    "text": TEXT,
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "timestamp_ntz": st.datetimes(),
    "decimal": st.tuples(st.integers(-(10**37), 10**37), st.integers(0, 38)).map(
        lambda pair: Decimal((int(pair[0] < 0), tuple(map(int, str(abs(pair[0])))), -pair[1]))
    ),
}
COUNTS = st.one_of(st.none(), st.integers(0, 2**63 - 1))


@st.composite
def statistics(draw: st.DrawFn, kind: str) -> ColumnStatistics:
    low, high = sorted([draw(BOUNDS[kind]), draw(BOUNDS[kind])])
    return ColumnStatistics(
        null_count=draw(COUNTS), low=draw(st.sampled_from([low, None])), high=draw(st.sampled_from([high, None]))
    )


@pytest.mark.parametrize("kind", BOUNDS)
@given(data=st.data())
def test_what_is_stored_is_read_back_as_it_was(kind: str, data: st.DataObject) -> None:
    given_statistics = data.draw(statistics(kind))
    stored = json.loads(json.dumps(given_statistics.to_json()))
    found = ColumnStatistics.from_json(stored)
    assert found == given_statistics
    assert list(map(type, (found.low, found.high))) == list(map(type, (given_statistics.low, given_statistics.high)))


def test_nothing_known_is_stored_as_nothing() -> None:
    assert ColumnStatistics().to_json() == {}
    assert ColumnStatistics.from_json({}) == ColumnStatistics()


HOSTILE: list[Any] = [
    None,
    [],
    "null_count",
    {"null_count": -1},
    {"null_count": True},
    {"null_count": 1.0},
    {"null_count": "1"},
    {"null_count": 2**63},
    {"null_count": 0, "more": 1},
    {"null_count": None},
    {"type": "int"},
    {"low": "1"},
    {"type": "float", "low": "1.5"},
    {"type": ["int"], "low": "1"},
    {"type": "int", "low": 1},
    {"type": "int", "low": " 1"},
    {"type": "int", "low": "1_0"},
    {"type": "int", "low": "\u0661"},
    {"type": "int", "low": "9" * 5000},
    {"type": "int", "low": str(2**63)},
    {"type": "int", "low": "2", "high": "1"},
    {"type": "text", "low": "\ud800"},
    {"type": "text", "low": "x" * (LONGEST_TEXT_BYTES + 1)},
    {"type": "text", "low": "ä" * LONGEST_TEXT_BYTES},
    {"type": "date", "low": "20240101"},
    {"type": "date", "low": "2024-02-30"},
    {"type": "timestamp", "low": "2024-01-01T00:00:00"},
    {"type": "timestamp", "low": "2024-01-01T00:00:00+01:00"},
    {"type": "timestamp_ntz", "low": "2024-01-01T00:00:00+00:00"},
    {"type": "decimal", "low": "NaN"},
    {"type": "decimal", "low": "Infinity"},
    {"type": "decimal", "low": "sNaN"},
    {"type": "decimal", "low": "1E+999999"},
    {"type": "decimal", "low": "1E-999999"},
    {"type": "decimal", "low": "9" * 39},
]


@pytest.mark.parametrize("stored", HOSTILE, ids=lambda stored: str(stored)[:40])
def test_what_was_never_stored_is_refused(stored: Any) -> None:
    with pytest.raises(InvalidInputError, match="not the statistics of a column"):
        ColumnStatistics.from_json(stored)


@pytest.mark.parametrize(
    "wrong",
    [
        ColumnStatistics(null_count=-1),
        ColumnStatistics(low=True),
        ColumnStatistics(low=0.5),  # type: ignore[arg-type]
        ColumnStatistics(low=1, high="a"),
        ColumnStatistics(low=date(2024, 1, 1), high=datetime.fromisoformat("2024-01-02")),
        ColumnStatistics(low=datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=1)))),
        ColumnStatistics(low="b", high="a"),
        ColumnStatistics(high="x" * 257),
    ],
    ids=str,
)
def test_what_no_footer_can_say_is_never_stored(wrong: ColumnStatistics) -> None:
    with pytest.raises(InvalidInputError, match="statistics of a column"):
        wrong.to_json()


def merged(*parts: tuple[ColumnStatistics | None, int]) -> ColumnStatistics | None:
    both = MergedStatistics()
    for one, row_count in parts:
        both.add({"x": one} if one else {}, row_count)
    return both.columns.get("x")


KNOWN = ColumnStatistics(null_count=1, low=3, high=7)
ALL_NULL = ColumnStatistics(null_count=5)
NOT_TOLD = ColumnStatistics(null_count=2)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([], None),
        ([(None, 0)], None),
        ([(KNOWN, 9)], KNOWN),
        ([(KNOWN, 9), (None, 0)], KNOWN),
        (
            [(KNOWN, 9), (ColumnStatistics(null_count=0, low=1, high=5), 4)],
            ColumnStatistics(null_count=1, low=1, high=7),
        ),
        ([(KNOWN, 9), (None, 1)], None),
        ([(None, 1), (KNOWN, 9)], None),
        ([(None, 1), (KNOWN, 9), (KNOWN, 9)], None),
        ([(KNOWN, 9), (ALL_NULL, 5)], ColumnStatistics(null_count=6, low=3, high=7)),
        ([(ALL_NULL, 5), (KNOWN, 9)], ColumnStatistics(null_count=6, low=3, high=7)),
        ([(ALL_NULL, 5), (ALL_NULL, 5)], ColumnStatistics(null_count=10)),
        ([(KNOWN, 9), (NOT_TOLD, 5)], ColumnStatistics(null_count=3)),
        ([(NOT_TOLD, 5), (KNOWN, 9), (ALL_NULL, 5)], ColumnStatistics(null_count=8)),
        ([(KNOWN, 9), (ColumnStatistics(low=1, high=5), 4)], ColumnStatistics(low=1, high=7)),
        ([(KNOWN, 9), (ColumnStatistics(null_count=0, low=1), 4)], ColumnStatistics(null_count=1, low=1)),
    ],
)
def test_what_one_part_does_not_know_the_whole_does_not(parts: Any, expected: ColumnStatistics | None) -> None:
    assert merged(*parts) == expected


@given(st.lists(st.lists(st.one_of(st.none(), st.integers(-9, 9)), max_size=4), min_size=1, max_size=5), st.data())
def test_merging_says_what_all_rows_together_say(parts: list[list[int | None]], data: st.DataObject) -> None:
    def of(rows: list[int | None]) -> ColumnStatistics:
        values = [row for row in rows if row is not None]
        return ColumnStatistics(
            null_count=len(rows) - len(values), low=min(values, default=None), high=max(values, default=None)
        )

    rows = [row for part in parts for row in part]
    assert merged(*((of(part), len(part)) for part in parts)) == (of(rows) if rows else None)


ONE = ColumnStatistics(null_count=1, low="a", high="b")
COUNT_ONLY = ColumnStatistics(null_count=1)


@pytest.mark.parametrize(
    ("field", "kept"),
    [
        ({"type": "string", "metadata": {}}, True),
        ({"type": "string"}, True),
        ({"type": "string", "metadata": {"__CHAR_VARCHAR_TYPE_STRING": "varchar(5)"}}, True),
        ({"type": "string", "metadata": {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}}, False),
        ({"type": "char(5)", "metadata": {}}, False),
        ({"type": "string", "metadata": {"__COLLATIONS": {"x": "icu.UNICODE_CI"}}}, False),
        ({"type": "string collate UNICODE", "metadata": {}}, False),
        ({"type": "decimal(10,2)", "metadata": {"comment": "paid"}}, True),
        ({"type": "interval year", "metadata": {}}, False),
        ({"type": {"type": "struct", "fields": []}, "metadata": {}}, False),
        *(
            ({"type": kind}, True)
            for kind in ("byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz")
        ),
    ],
)
def test_bounds_are_kept_where_spark_orders_as_files_do(field: dict[str, Any], kept: bool) -> None:
    schema = json.dumps({"type": "struct", "fields": [{"name": "other", "type": "long"}, {"name": "x", **field}]})
    assert as_spark_orders({"x": ONE}, schema) == {"x": ONE if kept else COUNT_ONLY}


@pytest.mark.parametrize("schema", ["", '{"type":"struct","fields":[]}'])
def test_a_column_that_the_schema_does_not_name_has_no_bounds(schema: str) -> None:
    assert as_spark_orders({"x": ONE}, schema) == {"x": COUNT_ONLY}
