"""What footers say of columns is what their rows say: nothing else, and in doubt nothing."""

from __future__ import annotations

import string
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from table_writer.jobs.upload.parquet import MOST_COLUMNS, ParquetFile
from table_writer.jobs.upload.task import upload_rows
from table_writer.model.column_statistics import ColumnStatistics, MergedStatistics
from table_writer.model.message import CommitMessage
from table_writer.model.upload_spec import ParquetOptions, UploadSpec
from tests.upload.conftest import RecordingStore

FORMATS = {
    "int96": ParquetOptions(timestamp_type="INT96"),
    "micros": ParquetOptions(timestamp_type="TIMESTAMP_MICROS"),
    "millis": ParquetOptions(timestamp_type="TIMESTAMP_MILLIS"),
    "legacy": ParquetOptions(legacy_format=True),
}
MOMENTS = pa.timestamp("us", "UTC")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def statistics_of(
    columns: dict[str, Any], options: Any, *, tasks: int = 1, partitions: Sequence[str] = ("a",), **changes: Any
) -> dict[str, ColumnStatistics]:
    """Write rows, spread over tasks and partitions, and return what the driver knows of their columns."""
    spec = UploadSpec(
        write_id="w1",
        key_prefix="t/_table_writer/data/w1/",
        store=None,
        data_columns=tuple(columns),
        partition_columns=("p",),
        file_options=options,
        **changes,
    )
    count = len(next(iter(columns.values())))
    values = pa.array([partitions[row % len(partitions)] for row in range(count)], pa.string())
    batch = pa.RecordBatch.from_arrays([*columns.values(), values], names=[*columns, "p"])
    each = -(-count // tasks) or 1
    merged = MergedStatistics()
    for task in range(tasks):
        sent = upload_rows([batch.slice(task * each, each)], spec, RecordingStore(), task_index=task, attempt_id=1)
        message = CommitMessage.from_bytes(sent)
        merged.add(message.statistics, message.row_count)
    return merged.columns


def of_values(values: Sequence[Any]) -> ColumnStatistics:
    there = [value for value in values if value is not None]
    return ColumnStatistics(
        null_count=len(values) - len(there), low=min(there, default=None), high=max(there, default=None)
    )


def counted(values: Sequence[Any]) -> ColumnStatistics:
    return ColumnStatistics(null_count=sum(value is None for value in values))


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    bound = 10**precision - 1
    return st.integers(-bound, bound).map(lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)))


KINDS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "byte": (pa.int8(), st.integers(-128, 127)),
    "short": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "text": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
    "large text": (pa.large_string(), st.text(string.ascii_letters, max_size=300)),
    "date": (pa.date32(), st.dates()),
    "moment": (MOMENTS, st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 30)).map(lambda at: at.replace(tzinfo=UTC))),  # noqa: DTZ001
    "local": (pa.timestamp("us"), st.datetimes()),
    **{
        f"decimal {precision} {scale}": (pa.decimal128(precision, scale), decimals(precision, scale))
        for precision, scale in ((4, 2), (9, 0), (10, 2), (18, 18), (19, 3), (38, 10), (38, 38))
    },
}
COUNTED = {
    "boolean": (pa.bool_(), st.booleans()),
    "double": (pa.float64(), st.floats()),
    "float": (pa.float32(), st.floats(width=32)),
    "binary": (pa.binary(), st.binary(max_size=5)),
}


def floor_millis(moment: datetime | None) -> datetime | None:
    return None if moment is None else EPOCH + (moment - EPOCH) // timedelta(milliseconds=1) * timedelta(milliseconds=1)


def assert_true(found: ColumnStatistics, values: Sequence[Any]) -> None:
    """Exact, or not said."""
    expected = of_values(values)
    assert found.null_count == expected.null_count
    assert found.low in {None, expected.low}
    assert found.high in {None, expected.high}


def is_said(name: str, form: str, values: Sequence[Any]) -> bool:
    """Whether this format knows the bounds of such values."""
    there = [value for value in values if value is not None]
    if "text" in name:
        longest = max((len(value.encode()) for value in there), default=0)
        return longest <= 256
    return name != "moment" or form in {"micros", "millis"}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_bounds_are_those_of_the_rows(name: str, form: str, data: st.DataObject) -> None:
    kind, strategy = KINDS[name]
    values = data.draw(st.lists(st.one_of(st.none(), strategy), min_size=1, max_size=12))
    tasks, partitions = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([("a",), ("a", "b", "c")]))
    found = statistics_of({"x": pa.array(values, kind)}, FORMATS[form], tasks=tasks, partitions=partitions)["x"]
    kept = [floor_millis(value) for value in values] if (name, form) == ("moment", "millis") else values
    assert_true(found, kept)
    if is_said(name, form, values):
        assert found == of_values(kept)
        assert {type(found.low), type(found.high)} == {type(of_values(kept).low)}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", COUNTED)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_of_types_without_an_order_of_sparks_only_nulls_are_counted(name: str, form: str, data: st.DataObject) -> None:
    kind, strategy = COUNTED[name]
    values = data.draw(st.lists(st.one_of(st.none(), strategy), min_size=1, max_size=9))
    assert statistics_of({"x": pa.array(values, kind)}, FORMATS[form])["x"] == counted(values)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", KINDS | COUNTED)
def test_a_column_without_values_has_a_count_and_no_bounds(name: str, form: str) -> None:
    kind, _ = (KINDS | COUNTED)[name]
    found = statistics_of({"x": pa.nulls(5, kind)}, FORMATS[form], tasks=2, partitions=("a", "b"))
    assert found == {"x": ColumnStatistics(null_count=5)}


@pytest.mark.parametrize("form", FORMATS)
def test_nested_columns_have_nothing_and_shift_nothing(form: str) -> None:
    columns = {
        "before": pa.array([1, 2, None]),
        "struct": pa.array([{"a": 100, "b": {"c": "x", "d": [1]}}] * 3),
        "between": pa.array(["k", "m", "l"]),
        "list": pa.array([[{"k": 5, "v": 6}], [], None]),
        "map": pa.array([[("a", 7)], [], None], pa.map_(pa.string(), pa.int64())),
        "after": pa.array([date(2024, 1, 2), None, date(2023, 1, 2)]),
    }
    assert statistics_of(columns, FORMATS[form]) == {
        name: of_values(columns[name].to_pylist()) for name in ("before", "between", "after")
    }


@pytest.mark.parametrize("form", ["micros", "int96"])
def test_very_wide_rows_tell_of_their_first_columns(form: str) -> None:
    columns: dict[str, Any] = {"struct": pa.array([{"a": 1, "b": 2}])}
    columns |= {f"c{number}": pa.array([EPOCH], MOMENTS) for number in range(MOST_COLUMNS + 5)}
    assert list(statistics_of(columns, FORMATS[form])) == [f"c{number}" for number in range(MOST_COLUMNS)]


@pytest.mark.parametrize("form", FORMATS)
def test_names_are_the_tables_whatever_is_in_them(form: str) -> None:
    names = ["a.b", "a", "ä ö", "`q", '"x"', "A"]
    columns = {name: pa.array([number]) for number, name in enumerate(names)}
    assert statistics_of(columns, FORMATS[form]) == {name: of_values([number]) for number, name in enumerate(names)}


@pytest.mark.parametrize("form", FORMATS)
def test_a_task_without_rows_has_no_statistics(form: str) -> None:
    assert statistics_of({"x": pa.array([], pa.int64())}, FORMATS[form]) == {}
    assert statistics_of({"x": pa.array([5])}, FORMATS[form], tasks=3) == {"x": of_values([5])}


def test_days_and_moments_that_python_does_not_know_are_not_said() -> None:
    days = [-4_000_000, 0, 9_000_000]
    micros = [day * 86_400_000_000 for day in days]
    found = statistics_of(
        {"date": pa.array(days, pa.int32()).cast(pa.date32()), "local": pa.array(micros).cast(pa.timestamp("us"))},
        FORMATS["micros"],
    )
    assert [one.high for one in found.values()] == [None, None]
    assert [one.null_count for one in found.values()] == [0, 0]


@pytest.mark.parametrize("values", [[b"a", b"\xff"], [b"\xff", b"\xfe"], [b"\xed\xa0\x80", b"b"]])
def test_text_that_is_none_is_no_bound(values: list[bytes]) -> None:
    found = statistics_of({"x": pa.array(values, pa.binary()).view(pa.string())}, FORMATS["micros"])["x"]
    assert found.null_count == 0
    assert found.low in {None, "a", "b"}
    assert found.high is None


@pytest.mark.parametrize(("length", "low", "high"), [(256, "m", "z" * 256), (257, "m", None), (5000, None, None)])
def test_long_text_is_no_bound(length: int, low: str | None, high: str | None) -> None:
    values = pa.array(["m", "z" * length, "n", None])
    assert statistics_of({"x": values}, FORMATS["micros"])["x"] == ColumnStatistics(null_count=1, low=low, high=high)


def test_a_bound_that_one_file_does_not_tell_is_not_told_of_the_write() -> None:
    found = statistics_of({"x": pa.array(["m", "z" * 257, "n"])}, FORMATS["micros"], tasks=3)["x"]
    assert found == ColumnStatistics(null_count=0)


def test_row_groups_files_and_spilled_partitions_are_all_in_it(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    values = [(row * 7919) % 10_007 - 5_000 if row % 11 else None for row in range(10_000)]
    columns = {"x": pa.array(values), "pad": pa.array([f"{row:0200d}" for row in range(10_000)])}
    partitions = [f"p{number}" for number in range(30)]
    small = {"buffer_bytes": 1 << 17, "max_open_files": 4, "row_group_bytes": 1 << 15, "target_file_bytes": 1 << 20}
    found = statistics_of(columns, FORMATS["micros"], tasks=2, partitions=partitions, **small)
    assert found == {name: of_values(column.to_pylist()) for name, column in columns.items()}
    assert statistics_of(columns, FORMATS["micros"], **small) == found


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_that_does_not_tell_makes_the_column_unknown(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import table_writer.jobs.upload.files as files_module

    begun: list[Any] = []

    def begin_watched(*given_arguments: Any, **options: Any) -> Any:
        file = ParquetFile(*given_arguments, **options)
        begun.append(file)
        if len(begun) == 2:
            monkeypatch.setattr(file, "statistics", lambda: {"y": ColumnStatistics()})
        return file

    monkeypatch.setattr(files_module, "ParquetFile", begin_watched)
    columns = {"x": pa.array([1, 2, 3]), "y": pa.array(["a", "b", None])}
    assert statistics_of(columns, FORMATS[form], partitions=("a", "b", "c")) == {"y": ColumnStatistics()}
