"""How many rows Spark may send unweighed."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_type

from table_writer.jobs.plan.distribution import BATCH_BYTES, WIDER_THAN_SEEN, batch_limits
from table_writer.spark.widths import FIXED_WIDTHS, fixed_row_bytes

STRING = T.StructType().add("name", "string")


def batch_rows(schema, seen_row_bytes):
    return batch_limits(schema, seen_row_bytes)[0]


@pytest.mark.parametrize("kind", [T.StringType(), T.BinaryType(), T.ArrayType(T.LongType()), T.VariantType()], ids=str)
def test_until_a_write_has_shown_how_wide_rows_are_the_job_looks_or_spark_weighs(kind):
    schema = T.StructType().add("id", "long").add("x", kind)
    nested = T.StructType().add("s", T.StructType().add("t", schema))
    for rows in (schema, nested):
        assert fixed_row_bytes(rows) is None
        row_count, max_row_bytes = batch_limits(rows, 0)
        assert (row_count, row_count * max_row_bytes > BATCH_BYTES * 0.99) == (
            (0, False) if kind == T.VariantType() else (500, True)
        )
        assert row_count * max_row_bytes <= BATCH_BYTES
        assert batch_limits(rows, 50) == (2_000, 0)


def test_rows_of_fixed_width_count_a_byte_for_null_at_every_depth() -> None:
    assert fixed_row_bytes(T.StructType().add("id", "long").add("place", T.StructType().add("lat", "double"))) == 19


@pytest.mark.parametrize("seen_row_bytes", [1, 100, 209, 210, 1_000, 2_000, 2_097])
def test_a_batch_stays_small_though_its_rows_are_many_times_as_wide_as_those_seen(seen_row_bytes):
    rows = batch_rows(STRING, seen_row_bytes)
    assert 1_000 <= rows <= 2_000
    assert rows * seen_row_bytes * WIDER_THAN_SEEN <= BATCH_BYTES


def test_the_number_of_rows_follows_the_width_that_was_seen() -> None:
    assert [batch_rows(STRING, seen) for seen in (100, 1_000, 10_000)] == [2_000, 2_000, 0]


@pytest.mark.parametrize("seen_row_bytes", [2_098, 10_000, 10_000_000])
def test_wide_rows_are_weighed(seen_row_bytes):
    assert batch_rows(STRING, seen_row_bytes) == 0


@pytest.mark.parametrize("column_count", [1, 300, 1_000, 5_000])
def test_rows_of_fixed_width_need_no_earlier_write(column_count):
    schema = T.StructType([T.StructField(f"n{n}", T.DecimalType(38, 2)) for n in range(column_count)])
    rows = batch_rows(schema, 0)
    assert rows * column_count * 16 <= BATCH_BYTES
    assert (rows == 0) == (column_count == 5_000)


@pytest.mark.parametrize(
    "kind", [kind for kind in FIXED_WIDTHS if kind not in (T.NullType, T.YearMonthIntervalType, T.TimestampType)]
)  # two that Spark does not send to Python, and one that is as TimestampNTZType but needs a time zone
def test_every_type_counts_at_least_what_arrow_takes_for_it(kind):
    schema = T.StructType().add("x", kind())
    assert (fixed_row_bytes(schema) or 0) * 8 > to_arrow_type(kind()).bit_width
