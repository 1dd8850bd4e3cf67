"""Checks of rows: which rows are wrong, how many, and what of it costs a query."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from table_writer.check import allowed_values, expression, in_range, matches, not_null, unique
from table_writer.check.check import Check
from table_writer.errors import InvalidInputError
from table_writer.model.column_statistics import ColumnStatistics

from .conftest import World

Staged = Callable[..., World]

ORDERS = "id INT, amount DOUBLE, country STRING, dt STRING"
ROWS = [
    (1, 9.5, "de", "2024-01-01"),
    (2, None, "fr", "2024-01-01"),
    (2, -1.0, "xx", "2024-01-02"),
    (None, math.nan, None, "2024-01-02"),
]


WRONG: list[tuple[Check, set[Any]]] = [
    (not_null("id"), {None}),
    (not_null("id", "amount"), {None, 2}),
    (not_null("ID", "DT"), {None}),
    (unique("id"), {2}),
    (unique("id", "country"), set()),
    (unique("dt"), {1, 2, None}),
    (in_range("amount", min=0), {2, None}),
    (in_range("amount", max=100), {None}),
    (in_range("amount", min=float("-inf"), max=10**400), {None}),
    (in_range("id", min=2), {1}),
    (in_range("id", min=1.5), {1}),
    (in_range("id", max=Decimal("1.9")), {2}),
    (in_range("id", min=-(2**31), max=2**31 - 1), set()),
    (in_range("dt", max="2024-01-01"), {2, None}),
    (in_range("country", min="e"), {1}),
    (allowed_values("country", ["de", "fr"]), {2}),
    (allowed_values("id", {1, 7, None}), {2}),
    (allowed_values("amount", (9.5, -1)), {None}),
    (matches("country", "d.|f.|"), {2}),
    (matches("country", "d|de|."), {2}),
    (matches("dt", "2024"), {1, 2, None}),
    (expression("id = 1"), {2}),
    (expression("amount < 10 OR country IS NOT NULL"), {None}),
    (expression("dt = '2024-01-01'"), {2, None}),
]


def test_wrong_rows_are_counted_and_shown(staged: Staged) -> None:
    world = staged(ROWS, ORDERS, partition_by=["dt"])
    results = world.run(*(check for check, _ in WRONG))
    for result, (_, ids) in zip(results, WRONG, strict=True):
        assert {example["id"] for example in result.examples} == {"null" if one is None else str(one) for one in ids}
        assert (result.passed, result.failed_rows) == (not ids, len(result.examples) or None), result
        assert all(set(example) == {"id", "amount", "country", "dt"} for example in result.examples)
    counts = {result.name: result.failed_rows for result in results}
    assert (counts["unique(id)"], counts["unique(dt)"], counts["not_null(id, amount)"]) == (2, 4, 2)


def test_all_checks_of_a_call_are_one_query_and_the_examples_of_all_that_failed_one_more(staged: Staged) -> None:
    world = staged(ROWS, ORDERS)
    good = [
        in_range("id", min=0),
        expression("sum(id) > 1"),
        matches("dt", ".*"),
        unique("id", "amount"),
        unique("dt", "country"),
    ]
    assert all(result.passed for result in world.run(*good))
    assert (world.queries, world.asked["frames"]) == (1, 1)
    bad = [not_null("id"), unique("id"), unique("dt"), allowed_values("country", ["de"]), expression("id > 1")]
    results = world.run(*good, *bad)
    assert [result.passed for result in results] == [True] * 5 + [False] * 5
    assert all(result.examples for result in results if not result.passed)
    assert world.queries == 2


def test_a_failure_shows_five_rows_with_the_checks_own_columns_first(staged: Staged) -> None:
    world = staged([(number, "x" * number, None) for number in range(100)], "id INT, note STRING, dt STRING")
    result = world.one(expression("note < '' AND dt IS NULL"))
    assert result.failed_rows == 100
    assert [list(example) for example in result.examples] == [["note", "dt", "id"]] * 5


def test_two_keys_that_are_there_twice_are_shown_with_both_their_rows(staged: Staged) -> None:
    rows = [(1, 0, "a"), (2, 0, "b"), (2, 0, "c"), (3, 0, "d"), (3, 0, "e"), (None, 0, "f"), (None, 0, "g")]
    result = staged(rows, "id INT, one INT, note STRING").one(unique("id", "one"))
    assert (result.failed_rows, result.message) == (
        4,
        "4 of 7 rows share their id, one with another (2 different keys)",
    )
    assert {example["note"] for example in result.examples} == {"b", "c", "d", "e"}


def test_keys_are_equal_as_spark_has_it(staged: Staged) -> None:
    rows = [(0.0,), (-0.0,), (math.nan,), (math.nan,), (1.0,)]
    result = staged(rows, "key DOUBLE").one(unique("key"))
    assert result.failed_rows == len(result.examples) == 4


def test_checks_of_partition_columns_read_no_file(staged: Staged) -> None:
    rows = [(1, date(2024, 1, 1), 1, "de", 1.5), (2, date(2024, 1, 2), 2, None, 2.5), (3, None, 2, "fr", 3.5)]
    names = ["dt", "hour", "country", "x"]
    world = staged(rows, "id INT, dt DATE, hour INT, country STRING, x DOUBLE", partition_by=names)
    [without] = world.run(not_null("hour", "x"))
    assert (without.passed, without.answered_by, world.jobs) == (True, "metadata", 0)
    results = world.run(
        in_range("dt", min=date(2024, 1, 1), max="2024-01-02"),
        in_range("x", min=1, max=4),
        allowed_values("country", ["de", "fr"]),
        allowed_values("hour", [1, 2]),
        matches("country", ".."),
        unique("dt", "country"),
        expression("dt > '2023-01-01' AND x < 4"),
    )
    assert all(result.passed for result in results)
    assert (world.queries, world.asked["frames"]) == (1, 0)


@pytest.mark.parametrize(
    "check",
    [not_null("dt"), in_range("dt", min="2024-01-02"), allowed_values("dt", ["2024-01-01"]), matches("dt", ".*1")],
    ids=lambda check: check.name,
)
def test_a_failure_that_partitions_tell_costs_one_query_for_its_rows(staged: Staged, check: Check) -> None:
    rows = [(1, "2024-01-01"), (2, "2024-01-03"), (3, None)]
    world = staged(rows, "id INT, dt STRING", partition_by=["dt"])
    result = world.one(check)
    assert (result.passed, result.failed_rows, len(result.examples)) == (False, 1, 1)
    assert world.queries <= 2
    assert world.asked["frames"] == 1


STATISTICS = {
    "id": ColumnStatistics(null_count=0, low=1, high=9),
    "amount": ColumnStatistics(null_count=0),
    "day": ColumnStatistics(null_count=1, low=date(2024, 1, 1), high=date(2024, 1, 31)),
    "at": ColumnStatistics(null_count=0, low=datetime(2024, 1, 1, tzinfo=UTC), high=datetime(2024, 1, 2, tzinfo=UTC)),
    "price": ColumnStatistics(null_count=0, low=Decimal("0.01"), high=Decimal("9.99")),
    "name": ColumnStatistics(null_count=0, low="a", high="zz"),
    "nothing": ColumnStatistics(null_count=2),
}
KINDS = "id INT, amount DOUBLE, day DATE, at TIMESTAMP, price DECIMAL(10,2), name STRING, nothing INT"


def test_what_footers_answer_costs_no_job(staged: Staged, spark: SparkSession) -> None:
    world = staged(spark.createDataFrame([], KINDS), statistics=STATISTICS, counts={(): 2})
    results = world.run(
        not_null("id", "amount", "at"),
        in_range("id", min=1, max=9),
        in_range("ID", max=9.5),
        in_range("day", min="2024-01-01", max=date(2024, 1, 31)),
        in_range("at", min=datetime(2024, 1, 1, tzinfo=UTC), max="2024-01-02T01:00:00+01:00"),
        in_range("price", min=0.01, max=10),
        in_range("name", min="a", max="zz"),
        in_range("nothing", min=5),
    )
    assert [(result.passed, result.answered_by) for result in results] == [(True, "metadata")] * 8
    assert (world.jobs, world.asked["frames"]) == (0, 0)


def test_nulls_that_footers_count_are_not_counted_again(staged: Staged) -> None:
    rows = [(1, None), (None, 1)]
    world = staged(rows, "id INT, x INT", statistics={"id": ColumnStatistics(null_count=1)})
    result = world.one(not_null("id"))
    assert (result.failed_rows, world.queries, len(result.examples)) == (1, 1, 1)
    assert world.one(not_null("id", "x")).failed_rows == 2


def test_what_footers_say_is_wrong_is_counted(staged: Staged) -> None:
    world = staged([(1,), (50,)], "id INT", statistics={"id": ColumnStatistics(null_count=0, low=1, high=50)})
    assert world.one(in_range("id", max=9)).failed_rows == 1


def test_without_rows_every_check_of_rows_passes_and_asks_nothing(staged: Staged) -> None:
    world = staged([], ORDERS)
    checks = [not_null("id"), unique("id"), in_range("id", min=0), matches("dt", "x"), allowed_values("id", [1])]
    assert all(result.passed for result in world.run(*checks, expression("id > 0")))
    assert world.jobs == 0
    assert not world.one(expression("count(*) > 0")).passed


HOSTILE = StructType(
    [
        StructField("a.b", LongType()),
        StructField("a", StructType([StructField("b", LongType()), StructField("c.d`é", LongType())])),
        StructField("we`ird \n<b>'\";--", StringType()),
        StructField("Straße", StringType()),
        StructField("price", DecimalType(38, 18)),
        StructField("raw", BinaryType()),
        StructField("tags", ArrayType(StringType())),
        StructField("props", MapType(StringType(), DoubleType())),
    ]
)
LARGE = "x" * 1_000_000
HOSTILE_ROWS = [
    (1, (10, 1), LARGE, "\x00\x1b[31m", Decimal("9" * 20), b"\xff\x00", ["a", None], {"k": math.nan}),
    (2, (20, None), "'; DROP TABLE x; --", "\u202e", Decimal("-0." + "0" * 17 + "1"), None, None, None),
    (2, None, None, "<script>", None, b"", [], {}),
]


def test_hostile_names_and_values_break_nothing(staged: Staged) -> None:
    world = staged(HOSTILE_ROWS, HOSTILE)
    name = "we`ird \n<b>'\";--"
    largest = Decimal("9" * 20 + "." + "9" * 18)
    expected = {
        unique("a.b"): 2,
        unique("A.B", name="again"): 2,
        not_null("`a`.`b`"): 1,
        not_null("a.`c.d``é`"): 2,
        not_null("`a.b`"): None,
        allowed_values(name, ["'; DROP TABLE x; --"]): 1,
        matches(name, "x{1000000}"): 1,
        matches("Straße", r"[\x00-\x20\[31m]+"): 2,
        in_range("price", max=largest): None,
        in_range("price", min=Decimal("-1e-30")): 1,
        in_range("price", min=0): 1,
        in_range("raw", min=b"\x01"): 1,
        allowed_values("raw", [b"\xff\x00", b""]): None,
        not_null("tags", "props"): 1,
        unique("tags"): None,
        expression(f"`{name.replace('`', '``')}` IS NOT NULL"): 1,
    }
    results = world.run(*expected)
    assert {one.name: one.failed_rows for one in results} == {one.name: count for one, count in expected.items()}
    assert world.queries == 2
    shown = [value for result in results for example in result.examples for value in example.values()]
    assert max(map(len, shown)) == 256
    assert {"0xFF00", "{k -> NaN}", "[a, null]", "\x00\x1b[31m"} <= set(shown)


TYPED: list[tuple[str, Any, dict[str, Any], bool]] = [
    ("TIMESTAMP", datetime(2024, 1, 1, 12, tzinfo=UTC), {"max": datetime(2024, 1, 1, 12, tzinfo=UTC)}, True),
    ("TIMESTAMP", datetime(2024, 1, 1, 12, tzinfo=UTC), {"max": datetime(2024, 1, 1, 12)}, True),  # noqa: DTZ001
    ("TIMESTAMP", datetime(2024, 1, 1, 12, tzinfo=UTC), {"max": "2024-01-01T13:59:59+02:00"}, False),
    ("TIMESTAMP", datetime(2024, 1, 1, 12, tzinfo=UTC), {"max": date(2024, 1, 1)}, False),
    ("TIMESTAMP", datetime(1, 1, 1, tzinfo=UTC), {"min": "0001-01-01", "max": "9999-12-31 23:59:59.999999"}, True),
    ("TIMESTAMP_NTZ", datetime(2024, 1, 1, 12), {"min": "2024-01-01 12:00"}, True),  # noqa: DTZ001
    ("TIMESTAMP_NTZ", datetime(2024, 1, 1, 12), {"min": datetime(2024, 1, 1, 12, 0, 0, 1)}, False),  # noqa: DTZ001
    ("DATE", date(2024, 1, 1), {"min": datetime(2024, 1, 1)}, True),  # noqa: DTZ001
    ("DATE", date(2024, 1, 1), {"min": datetime(2024, 1, 1, 1)}, False),  # noqa: DTZ001
    ("DATE", date(2024, 1, 1), {"max": datetime(2024, 1, 1, 1)}, True),  # noqa: DTZ001
    ("FLOAT", 0.1, {"min": 0.1, "max": 0.1}, True),
    ("DOUBLE", -0.0, {"min": 0, "max": 0}, True),
    ("DOUBLE", math.inf, {"max": 10**300}, False),
    ("BIGINT", 2**53 + 1, {"max": 2**53}, False),
    ("DECIMAL(38,0)", Decimal("9" * 38), {"max": Decimal("9" * 38)}, True),
    ("DECIMAL(38,0)", Decimal("9" * 38), {"max": Decimal("9" * 37 + "8")}, False),
    ("DECIMAL(5,2)", Decimal("0.10"), {"min": 0.1, "max": 0.1}, True),
    ("STRING", "\U0001f600", {"min": "\uffff"}, True),
    ("STRING", "a\nb", {"max": "a\n"}, False),
]


def test_bounds_are_compared_as_values_of_the_columns_type(staged: Staged) -> None:
    ddl = ", ".join(f"c{at} {kind}" for at, (kind, *_) in enumerate(TYPED))
    world = staged([tuple(value for _, value, _, _ in TYPED)], ddl)
    checks = [in_range(f"c{at}", **bounds, name=str(at)) for at, (_, _, bounds, _) in enumerate(TYPED)]
    results = world.run(*checks)
    assert [result.passed for result in results] == [inside for *_, inside in TYPED], results


def test_char_columns_are_compared_without_their_blanks(staged: Staged, spark: SparkSession) -> None:
    kind = StructType([StructField("code", StringType(), metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(5)"})])
    frame = spark.createDataFrame([("ab   ",), ("cd   ",)], kind)
    world = staged(frame, counts={(): 2})
    assert world.one(allowed_values("code", ["ab", "cd "])).passed
    assert world.one(matches("code", "[a-d]+")).passed
    assert world.one(in_range("code", max="cd")).passed


@pytest.mark.parametrize("pattern", [r"(?x) a+ # as", r"\Qaa", "a+|b", "(?i)AA"])
def test_patterns_are_javas_and_the_whole_value_has_to_match(staged: Staged, pattern: str) -> None:
    assert staged([("aa",)], "x STRING").one(matches("x", pattern)).passed
    assert not staged([("aa\n",)], "x STRING").one(matches("x", pattern)).passed


@pytest.mark.parametrize(
    "check",
    [
        not_null("nope"),
        not_null("amount.nope"),
        unique("id", "missing"),
        unique("props"),
        in_range("id", min="5"),
        in_range("id", min=True),
        in_range("amount", min=math.nan),
        in_range("country", min=5),
        in_range("day", min="yesterday"),
        in_range("day", min=datetime(2024, 1, 1, tzinfo=UTC)),
        in_range("props", min=1),
        allowed_values("id", [1, 1.5]),
        in_range("id", min=2**40),
        allowed_values("id", [2**31]),
        allowed_values("flag", [1]),
        matches("id", ".*"),
        matches("country", "(("),
        expression("nope > 1"),
        expression("id"),
        expression("id > avg(id)"),
        expression("explode(array(true, false))"),
        expression("*"),
        expression("id > 1; DROP TABLE x"),
    ],
    ids=lambda check: check.name,
)
def test_checks_that_do_not_fit_the_columns_are_refused_by_name_without_a_job(staged: Staged, check: Check) -> None:
    schema = StructType(
        [
            StructField("id", IntegerType()),
            StructField("amount", DoubleType()),
            StructField("country", StringType()),
            StructField("props", MapType(StringType(), StringType())),
        ]
    )
    frame = (
        staged([], schema)
        .spark.createDataFrame([], schema)
        .withColumns({"day": F.lit("2024-01-01").cast("date"), "flag": F.lit(True)})
    )
    world = staged(frame, counts={(): 1})
    with world.counted(), pytest.raises(InvalidInputError) as raised:
        world.run(check)
    assert check.name in str(raised.value) or "mart.orders" in str(raised.value)
    assert world.jobs == 0


def test_case_counts_where_the_session_says_so(staged: Staged, spark: SparkSession) -> None:
    world = staged(ROWS, ORDERS)
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(InvalidInputError, match="has no column 'ID'"):
            world.run(not_null("ID"))
        assert not world.one(not_null("id")).passed
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_a_window_looks_at_all_rows_also_over_partition_columns(staged: Staged) -> None:
    world = staged([(1, "a"), (2, "a"), (3, "b")], "id INT, dt STRING", partition_by=["dt"])
    alone, first = world.run(
        expression("count(*) OVER (PARTITION BY dt) = 1"), expression("row_number() OVER (ORDER BY dt) = 1")
    )
    assert (alone.failed_rows, [one["id"] for one in alone.examples]) == (2, ["1", "2"])
    assert first.failed_rows == 2


def test_sentences_agree_with_the_number_of_rows(staged: Staged) -> None:
    checks = (not_null("id"), in_range("id", max=1), expression("id < 2"), expression("id > 5"))
    one, several = (staged(rows, "id INT").run(*checks) for rows in ([(1,)], [(1,), (9,)]))
    assert [found.message for found in one] == [
        "none of 1 row has no id",
        "none of 1 row has id above 1",
        "none of 1 row breaks id < 2",
        "1 of 1 row breaks id > 5",
    ]
    assert [found.message for found in several] == [
        "none of 2 rows have no id",
        "1 of 2 rows have id above 1",
        "1 of 2 rows break id < 2",
        "1 of 2 rows break id > 5",
    ]


def test_expressions_with_an_aggregate_are_judged_once(staged: Staged) -> None:
    expected = {
        "sum(id) > 4": True,
        "sum(id) > 5": False,
        "count(DISTINCT dt) = 2 AND max(amount) IS NOT NULL": True,
        "sum(CASE WHEN id > 9 THEN id END) > 0": True,
        "count(*) = 4": True,
        "max(id) OVER () = 2": True,
        "id IN (SELECT 1)": False,
        "rand() < id + 2": True,
    }
    world = staged(ROWS, ORDERS, partition_by=["dt"])
    results = world.run(*map(expression, expected))
    assert [(one.passed, one.answered_by) for one in results] == [(passed, "spark") for passed in expected.values()]
    assert [one.failed_rows for one in results] == [None] * 6 + [2, None]


def test_a_condition_that_spells_a_column_in_its_own_way_is_about_that_column(staged: Staged) -> None:
    result = staged([(1, "a"), (7, "a")], "id INT, dt STRING", partition_by=["dt"]).one(
        expression("ID < 5 OR dt = 'b'")
    )
    assert result.failed_rows == 1
