"""Lists of filters choose the partitions that Spark's own comparisons choose.

What is expected is what Spark 4.3 has answered; ``make test-readers`` asks it again.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from table_writer.errors import InvalidInputError
from table_writer.model.table import NULL_PARTITION, Table
from table_writer.read.types import arrow_schema
from table_writer.read.where import conditions_by_partition

from .test_dataset import NAME, PARQUET, columns_of

NAN = math.nan
DOUBLES = ("double", ["NaN", "-0.0", "0.0", "1.5", "Infinity", NULL_PARTITION])
DECIMALS = ("decimal(5,2)", ["1.50", "1.51", "-2.00", NULL_PARTITION])
CHARS = ("char(4)", ["ab", "abcd", NULL_PARTITION])
DATES = ("date", ["0001-01-01", "1582-10-04", "2024-01-02", NULL_PARTITION])
INTEGERS = ("bigint", ["6", "7", "9007199254740993", NULL_PARTITION])
TEXTS = ("string", ["A", "a", "a/b=ü%", "\U0001f600", NULL_PARTITION])


def kept(kind: str, names: list[str], where: Any) -> list[int]:
    """Return the numbers of the partitions that are chosen."""
    partitioned_by = columns_of(f"p {kind}")
    table = Table(
        name=NAME,
        kind="EXTERNAL_TABLE",
        location="s3a://lake/orders/",
        columns=columns_of("id bigint"),
        partition_columns=partitioned_by,
        serde=PARQUET,
    )
    fields = list(arrow_schema(table))[1:]
    return [
        names.index(values[0]) for values in conditions_by_partition(table, fields, [(name,) for name in names], where)
    ]


AS_SPARK: list[tuple[tuple[str, list[str]], str, Any, list[int]]] = [
    (DOUBLES, "=", NAN, [0]),
    (DOUBLES, "!=", NAN, [1, 2, 3, 4]),
    (DOUBLES, "<", NAN, [1, 2, 3, 4]),
    (DOUBLES, ">=", "NaN", [0]),
    (DOUBLES, ">", 1, [0, 3, 4]),
    (DOUBLES, ">", math.inf, [0]),
    (DOUBLES, "<=", 0, [1, 2]),
    (DOUBLES, "in", [NAN, 0.0], [0, 1, 2]),
    (DOUBLES, "not in", [0.0, 1.5], [0, 4]),
    (DOUBLES, "in", [1.5, None], [3]),
    (DOUBLES, "not in", [1.5, None], []),
    (DOUBLES, "=", None, []),
    (DOUBLES, "!=", None, []),
    (DECIMALS, "=", 1.5, [0]),
    (DECIMALS, "<", 2, [0, 1, 2]),
    (DECIMALS, ">", "1.505", [1]),
    (DECIMALS, "=", "1.505", []),
    (DECIMALS, "not in", [Decimal("1.5"), 1.51], [2]),
    (INTEGERS, ">", 6.5, [1, 2]),
    (INTEGERS, "=", 9007199254740992.0, [2]),
    (INTEGERS, "<", np.int64(7), [0]),
    (INTEGERS, "not in", pa.array([6, 7]), [2]),
    (CHARS, "=", "ab", [0]),
    (CHARS, "=", "ab    ", [0]),
    (CHARS, ">", "", [0, 1]),
    (CHARS, "in", ["ab", "abcd "], [0, 1]),
    (DATES, "<", "1582-10-05", [0, 1]),
    (DATES, ">", datetime(1582, 10, 4), [2]),  # noqa: DTZ001
    (DATES, "=", date(1, 1, 1), [0]),
    (TEXTS, "=", "a", [1]),
    (TEXTS, ">", "a", [2, 3]),
    (TEXTS, ">", "\uffff", [3]),
    (TEXTS, "not in", ["a/b=ü%"], [0, 1, 3]),
    (("boolean", ["true", "false", NULL_PARTITION]), "!=", True, [1]),
    (("timestamp", ["1500-01-01 00:00:00", "2024-01-02 03:04:05.5"]), ">=", date(2024, 1, 2), [1]),
    (("binary", ["ab", "a"]), "=", "ab", [0]),
]


@pytest.mark.parametrize(("partitions", "operator", "value", "expected"), AS_SPARK, ids=str)
def test_a_filter_chooses_the_partitions_that_spark_chooses(
    partitions: tuple[str, list[str]], operator: str, value: Any, expected: list[int]
) -> None:
    assert kept(*partitions, [("p", operator, value)]) == expected
    assert kept(*partitions, [("P", operator, value)]) == expected, "names of columns have no case"


def test_a_list_of_no_values_holds_nothing() -> None:
    assert kept(*DOUBLES, [("p", "in", [])]) == []
    assert kept(*DOUBLES, [("p", "not in", ())]) == [0, 1, 2, 3, 4, 5]


def test_an_expression_is_pyarrows_own() -> None:
    assert kept(*DOUBLES, ds.field("p") > 1) == [3, 4]
    assert kept(*DOUBLES, ds.field("p").is_nan() | (ds.field("p") > 1)) == [0, 3, 4]
    assert kept(*DOUBLES, ~ds.field("p").isin([1.5])) == [0, 1, 2, 4, 5]


REFUSED: list[tuple[tuple[str, list[str]], Any, str]] = [
    (DOUBLES, ("p", "=", True), "not compared"),
    (INTEGERS, ("p", "=", "many"), "no value of p"),
    (INTEGERS, ("p", "=", "6_0"), "no value of p"),
    (INTEGERS, ("p", "=", 2**70), "too large"),
    (DECIMALS, ("p", "=", "12345678"), "no value of p"),
    (TEXTS, ("p", "=", NULL_PARTITION), "is_null"),
    (TEXTS, ("p", "in", "abc"), "list of values"),
    (TEXTS, ["p", "=", "a"], "no tuple"),
    (DATES, ("p", "=", datetime(2024, 1, 2, tzinfo=UTC)), "time zone"),
    (DATES, ("id", "=", 1), "no partition column"),
    (DATES, ("p", "like", "2024%"), "none of the operators"),
]


@pytest.mark.parametrize(("partitions", "filter_", "message"), REFUSED, ids=str)
def test_what_cannot_be_compared_is_refused_whatever_partitions_there_are(
    partitions: tuple[str, list[str]], filter_: Any, message: str
) -> None:
    kind, names = partitions
    for there in (names, []):
        with pytest.raises(InvalidInputError, match=message) as caught:
            kept(kind, there, [filter_])
        assert "mart.orders" in str(caught.value)
