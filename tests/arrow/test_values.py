"""Values of every form that Arrow has become the same values of the table's type; what would change is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from table_writer.arrow.values import How, limited, match
from table_writer.errors import SchemaMismatchError

BERLIN: Final = How("Europe/Berlin")
TEXTS: Final = st.one_of(st.none(), st.sampled_from(["", "a", "ü😀", " b "]))
WHOLE: Final = st.one_of(st.none(), st.integers(-100, 100))


def converted(values: Any, wanted: Any, how: How = How()) -> Any:  # noqa: B008  # frozen
    found = match(values.type, wanted, "c", how)
    assert found.problems == (), found.problems
    result = values if found.convert is None else found.convert(values)
    assert result.type == wanted
    result.validate(full=True)
    return result.to_pylist()


FORMS: Final[dict[str, tuple[Any, Any, st.SearchStrategy[Any]]]] = {
    "large text": (pa.large_string(), pa.string(), TEXTS),
    "text view": (pa.string_view(), pa.string(), TEXTS),
    "fixed binary": (pa.binary(2), pa.binary(), st.one_of(st.none(), st.binary(min_size=2, max_size=2))),
    "whole number": (pa.int8(), pa.int64(), WHOLE),
    "unsigned": (pa.uint16(), pa.int32(), st.one_of(st.none(), st.integers(0, 2**16 - 1))),
    "whole number to decimal": (pa.int64(), pa.decimal128(9, 2), WHOLE),
    "number to text": (pa.int16(), pa.string(), WHOLE),
    "nothing": (pa.null(), pa.int32(), st.none()),
}
LISTS: Final = {
    "list": pa.list_,
    "large list": pa.large_list,
    "list view": pa.list_view,
    "large list view": pa.large_list_view,
    "fixed list": lambda kind: pa.list_(kind, 2),
}


def as_wanted(value: Any, wanted: Any) -> Any:
    if value is None:
        return None
    return str(value) if pa.types.is_string(wanted) else Decimal(value) if pa.types.is_decimal(wanted) else value


@pytest.mark.parametrize("name", FORMS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_each_form_has_the_same_values_alone_in_lists_maps_and_structs(name: str, data: st.DataObject) -> None:
    given_type, wanted, one = FORMS[name]
    values = data.draw(st.lists(one, max_size=6))
    begin = data.draw(st.integers(0, len(values)))
    expected = [as_wanted(value, wanted) for value in values][begin:]
    assert converted(pa.array(values, given_type).slice(begin), wanted) == expected
    for make in LISTS.values():
        size = st.lists(one, min_size=2, max_size=2) if make is LISTS["fixed list"] else st.lists(one, max_size=3)
        lists = data.draw(st.lists(st.one_of(st.none(), size), max_size=5))
        array = pa.array(lists, make(given_type)).slice(len(lists) // 2)
        found = converted(array, pa.list_(wanted))
        assert found == [
            None if inner is None else [as_wanted(value, wanted) for value in inner]
            for inner in lists[len(lists) // 2 :]
        ]
    pairs = st.lists(st.tuples(st.integers(0, 9), one), max_size=3)
    maps = data.draw(st.lists(st.one_of(st.none(), pairs), max_size=5))
    array = pa.array(maps, pa.map_(pa.int8(), given_type)).slice(len(maps) // 2)
    assert converted(array, pa.map_(pa.int32(), wanted)) == [
        None if inner is None else [(key, as_wanted(value, wanted)) for key, value in inner]
        for inner in maps[len(maps) // 2 :]
    ]
    rows = data.draw(st.lists(st.one_of(st.none(), st.fixed_dictionaries({"x": one, "Y": WHOLE})), max_size=5))
    array = pa.array(rows, pa.struct([("x", given_type), ("Y", pa.int8())])).slice(len(rows) // 2)
    assert converted(array, pa.struct([("y", pa.int32()), ("X", wanted)])) == [
        None if row is None else {"y": row["Y"], "X": as_wanted(row["x"], wanted)} for row in rows[len(rows) // 2 :]
    ]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.none(), st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))), max_size=8))  # noqa: DTZ001
def test_times_of_a_zone_are_what_its_clocks_show_in_any_year(moments: list[datetime | None]) -> None:
    zone = ZoneInfo("Europe/Berlin")
    instants = [None if one is None else one.replace(tzinfo=zone).astimezone(UTC) for one in moments]
    is_shown = [
        one is None or at is None or at.astimezone(zone).replace(tzinfo=None) == one
        for one, at in zip(moments, instants, strict=True)
    ]
    array = pa.array(moments, pa.timestamp("us"))
    if all(is_shown):
        assert converted(array, pa.timestamp("us", tz="UTC"), BERLIN) == instants
    else:
        with pytest.raises(SchemaMismatchError, match="clocks there never show"):
            converted(array, pa.timestamp("us", tz="UTC"), BERLIN)


@pytest.mark.parametrize("zone", ["UTC", "Z", "+02:00", "GMT+2", "IST", "UTC-03:30"])
def test_every_zone_that_the_writer_takes_is_understood(zone: str) -> None:
    array = pa.array([datetime(2050, 7, 1, 12)], pa.timestamp("us"))  # noqa: DTZ001
    [found] = converted(array, pa.timestamp("us", tz="UTC"), How(zone))
    hours = {"UTC": 0, "Z": 0, "+02:00": 2, "GMT+2": 2, "IST": 5.5, "UTC-03:30": -3.5}[zone]
    assert found == datetime(2050, 7, 1, 12, tzinfo=UTC) - timedelta(hours=hours)


def test_dictionaries_of_any_text_are_looked_up() -> None:
    words = pa.array(["a", None, "b", "a"])
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        array = pa.DictionaryArray.from_arrays(pa.array([1, None, 0, 2]), words.cast(kind))
        assert converted(array, pa.string()) == [None, None, "a", "b"]


def test_what_lies_below_a_null_is_no_value() -> None:
    hidden = pa.ListArray.from_arrays(pa.array([0, 1, 2]), pa.array([99_999, 5]), mask=pa.array([True, False]))
    assert converted(hidden, pa.list_(pa.decimal128(3, 0))) == [None, [Decimal(5)]]


BROKEN: Final[dict[str, tuple[Any, Any, str]]] = {
    "too large": (pa.array([1, 1000]), pa.decimal128(3, 0), "have more than 3 digits .* '1000'"),
    "nanoseconds": (pa.array([1], pa.timestamp("ns")), pa.timestamp("us"), "do not fit into microseconds"),
    "a far date": (pa.array([3_000_000], pa.date32()), pa.string(), "outside the years 1 to 9999"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_rows_that_break_a_rule_are_refused_with_an_example(name: str) -> None:
    values, wanted, words = BROKEN[name]
    with pytest.raises(SchemaMismatchError, match=words):
        converted(values, wanted)


PAIRS: Final = [
    (pa.int64(), pa.int32()),
    (pa.int32(), pa.float32()),
    (pa.uint64(), pa.int64()),
    (pa.float64(), pa.decimal128(9, 2)),
    (pa.decimal128(9, 3), pa.decimal128(9, 2)),
    (pa.float64(), pa.string()),
    (pa.timestamp("us"), pa.date32()),
    (pa.timestamp("us"), pa.timestamp("us", tz="UTC")),
    (pa.timestamp("us", tz="UTC"), pa.timestamp("us")),
    (pa.binary(), pa.string()),
    (pa.string(), pa.int32()),
    (pa.duration("us"), pa.int64()),
    (pa.list_(pa.int64()), pa.list_(pa.int32())),
    (pa.struct([("a", pa.int32())]), pa.struct([("b", pa.int32())])),
]


@pytest.mark.parametrize(("given_type", "wanted"), PAIRS, ids=str)
def test_pairs_that_would_lose_something_are_refused_with_both_types(given_type: Any, wanted: Any) -> None:
    assert match(given_type, wanted, "c", How()).problems


def test_lengths_are_counted_in_characters() -> None:
    assert limited(pa.array(["😀😀", "ab  ", None]), "c", ("varchar", 2)).to_pylist() == ["😀😀", "ab", None]
    assert limited(pa.array(["ü", "ab"]), "c", ("char", 3)).to_pylist() == ["ü  ", "ab "]
    with pytest.raises(SchemaMismatchError, match=r"varchar\(2\), and one row or more are longer, for example 'abc'"):
        limited(pa.array(["abc"]), "c", ("varchar", 2))


def test_a_date_is_a_midnight_only_of_a_zone_that_is_said() -> None:
    assert converted(pa.array([date(2024, 7, 1)]), pa.timestamp("us", tz="UTC"), BERLIN) == [
        datetime(2024, 6, 30, 22, tzinfo=UTC)
    ]
    assert match(pa.date32(), pa.timestamp("us", tz="UTC"), "c", How()).problems
