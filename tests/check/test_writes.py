"""Checks of a whole write: judged by what is known of it, without a job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from table_writer.check import expected_partitions, fresh, has_schema, only_partitions, row_count, row_count_change
from table_writer.check.check import Check
from table_writer.errors import InvalidInputError
from table_writer.model.column_statistics import ColumnStatistics

from .conftest import World

Staged = Callable[..., World]

VISITS = "id INT, dt DATE, hour INT, country STRING"
ROWS = [
    (1, date(2024, 1, 1), 1, "de"),
    (2, date(2024, 1, 1), 1, "de"),
    (3, date(2024, 1, 2), 2, None),
    (4, date(2024, 1, 2), 2, "a/b=c"),
]


@pytest.fixture(scope="module")
def visits(staged: Staged) -> World:
    return staged(ROWS, VISITS, partition_by=["dt", "hour", "country"], replaced_rows=8)


@pytest.mark.parametrize(
    ("check", "passed", "said"),
    [
        (row_count(min=4), True, "4 rows"),
        (row_count(max=3), False, "4 rows, more than 3"),
        (row_count(min=5, max=9), False, "4 rows, fewer than 5"),
        (row_count_change(min_ratio=0.5), True, "4 rows replace 8, 0.5 times as many"),
        (row_count_change(min_ratio=0.51), False, "at least 0.51"),
        (row_count_change(max_ratio=0.2), False, "at most 0.2"),
        (expected_partitions(["dt=2024-01-01/hour=1/country=de"]), True, "1 of 1 expected partitions have rows"),
        (expected_partitions(["country=de/hour=01/DT=2024-01-01"]), True, "1 of 1 expected partitions have rows"),
        (expected_partitions("dt=2024-01-02"), True, "1 of 1 expected partitions have rows"),
        (
            expected_partitions([{"dt": date(2024, 1, 2), "hour": 2, "country": None}]),
            True,
            "1 of 1 expected partitions have rows",
        ),
        (
            expected_partitions(["dt=2024-01-02/hour=2/country=__HIVE_DEFAULT_PARTITION__"]),
            True,
            "1 of 1 expected partitions have rows",
        ),
        (
            expected_partitions(["country=a%2Fb%3Dc", {"country": "a/b=c"}]),
            True,
            "2 of 2 expected partitions have rows",
        ),
        (
            expected_partitions([{"dt": "2024-01-03"}, {"hour": 1}]),
            False,
            "1 of 2 expected partitions have no rows: dt=",
        ),
        (only_partitions(["dt=2024-01-01", {"dt": "2024-01-02"}]), True, "none of 3 partitions is unexpected"),
        (
            only_partitions(["dt=2024-01-01"]),
            False,
            "2 rows in 2 unexpected partitions: dt=2024-01-02/hour=2/country=_",
        ),
        (has_schema(VISITS), True, "4 columns, as expected"),
        (has_schema("ID int, DT date, hour int, country string"), True, "4 columns, as expected"),
        (has_schema("id INT NOT NULL, dt DATE NOT NULL, hour INT, country STRING"), True, "4 columns, as expected"),
        (has_schema("id BIGINT, dt DATE, hour INT, country STRING"), False, "column 1 is id int, not id bigint"),
        (has_schema("id INT, hour INT, dt DATE, country STRING"), False, "column 2 is dt date, not hour int"),
        (has_schema("id INT, dt DATE, hour INT"), False, "column 4 (country string) is not expected"),
        (has_schema(VISITS + ", more STRING"), False, "column 5 (more string) is missing"),
    ],
    ids=lambda value: value.name if isinstance(value, Check) else "",
)
def test_checks_of_a_write_cost_no_job(visits: World, check: Check, passed: bool, said: str) -> None:
    frames = visits.asked["frames"]
    result = visits.one(check)
    assert (result.passed, result.answered_by) == (passed, "metadata")
    assert said in result.message
    assert (visits.jobs, visits.asked["frames"]) == (0, frames)


def test_replaced_rows_are_counted_once_and_only_if_a_check_wants_them(staged: Staged) -> None:
    world = staged([(1,)], "id INT", replaced_rows=0)
    world.run(row_count(min=1))
    assert world.asked["replaced rows"] == 0
    first, second = world.run(row_count_change(min_ratio=0.9), row_count_change(max_ratio=1.5))
    assert (first.passed, second.passed, world.asked["replaced rows"]) == (True, True, 1)
    assert first.message == "1 row replaces no rows"


def test_unexpected_partitions_are_the_examples(visits: World) -> None:
    result = visits.one(only_partitions(["dt=2024-01-01"]))
    assert [dict(example) for example in result.examples] == [
        {"dt": "2024-01-02", "hour": "2", "country": "null"},
        {"dt": "2024-01-02", "hour": "2", "country": "a/b=c"},
    ]


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("dt >= '2024-01-01'", None),
        ("dt = DATE'2024-01-01' OR country LIKE '%/b%'", 1),
        ("hour < 2", 2),
        ("country <> 'fr'", 1),
    ],
)
def test_a_predicate_says_which_partitions_may_have_rows(visits: World, where: str, rows: int | None) -> None:
    frames = visits.asked["frames"]
    result = visits.one(only_partitions(where=where))
    assert (result.passed, result.failed_rows) == (rows is None, rows)
    explaining = 2  # does the predicate tell partitions apart? Spark's optimizer says it, without a job
    assert (visits.queries - explaining, visits.asked["frames"]) == (1, frames)


@pytest.mark.parametrize(
    "check",
    [
        expected_partitions(["dt"]),
        expected_partitions(["nope=1"]),
        expected_partitions(["id=1"]),
        expected_partitions([{}]),
        only_partitions(["dt=2024-01-01/dt=2024-01-02"]),
        only_partitions(where="id > 1"),
        only_partitions(where="count(*) > 1"),
        only_partitions(where="rand() > 1"),
        only_partitions(where="count(*) OVER (PARTITION BY dt) = 1"),
        only_partitions(where="dt IN (SELECT current_date())"),
        only_partitions(where="hour"),
        has_schema("id NOPE"),
        has_schema("ARRAY<INT>"),
        fresh("country", timedelta(days=1)),
        fresh("hour", timedelta(days=1)),
    ],
    ids=lambda check: check.name,
)
def test_checks_that_do_not_fit_the_table_are_refused_by_name(visits: World, check: Check) -> None:
    with pytest.raises(InvalidInputError, match=r"mart\.orders|check "):
        visits.run(check)


def test_a_date_may_be_given_as_its_midnight(staged: Staged) -> None:
    world = staged([(1, date(2024, 1, 1))], "id INT, dt DATE", partition_by=["dt"])
    assert world.one(expected_partitions([{"dt": datetime(2024, 1, 1)}])).passed  # noqa: DTZ001  # as pandas has dates
    assert not world.one(expected_partitions([{"dt": datetime(2024, 1, 1, 1)}])).passed  # noqa: DTZ001
    found = world.one(only_partitions(["dt=2024-01-02"]))
    assert found.message == "1 row in 1 unexpected partition: dt=2024-01-01"


def test_an_unpartitioned_table_has_no_partitions_to_expect(staged: Staged) -> None:
    with pytest.raises(InvalidInputError, match="is not partitioned"):
        staged([(1,)], "id INT").run(expected_partitions(["id=1"]))


@pytest.mark.parametrize(
    "make",
    [
        row_count,
        lambda: row_count(min=-1),
        lambda: row_count(min=5, max=4),
        lambda: row_count(min=True),
        lambda: row_count(min=1.5),
        row_count_change,
        lambda: row_count_change(min_ratio=float("nan")),
        lambda: fresh("dt", within=timedelta(days=-1)),
        lambda: fresh("dt", within=1),
        lambda: expected_partitions([]),
        lambda: expected_partitions(5),
        only_partitions,
        lambda: only_partitions(["dt=1"], where="dt = 1"),
        lambda: has_schema(""),
        lambda: has_schema(5),
        lambda: row_count(min=1, severity="fatal"),
        lambda: row_count(min=1, name=5),
    ],
)
def test_calls_that_make_no_sense_fail_at_once(make: Callable[[], Check]) -> None:
    with pytest.raises(InvalidInputError):
        make()


NOW = datetime(2024, 1, 10, 12, tzinfo=UTC)
AGES: list[tuple[str, Any, timedelta, bool]] = [
    ("DATE", date(2024, 1, 9), timedelta(days=1), True),
    ("DATE", date(2024, 1, 8), timedelta(days=1), False),
    ("DATE", date(2024, 1, 10), timedelta(), True),
    ("DATE", None, timedelta(days=1), False),
    ("TIMESTAMP", datetime(2024, 1, 10, 6, tzinfo=UTC), timedelta(hours=6), True),
    ("TIMESTAMP", datetime(2024, 1, 10, 5, 59, 59, tzinfo=UTC), timedelta(hours=6), False),
    ("TIMESTAMP_NTZ", datetime(2024, 1, 10, 6), timedelta(hours=6), True),  # noqa: DTZ001
    ("TIMESTAMP_NTZ", datetime(2024, 1, 10, 5), timedelta(hours=6), False),  # noqa: DTZ001
    ("TIMESTAMP", datetime(1, 1, 1, tzinfo=UTC), timedelta.max, True),
]


def ages() -> list[Check]:
    checks = [fresh(f"c{at}", within, name=str(at)) for at, (_, _, within, _) in enumerate(AGES)]
    return [replace(check, rule=partial(check.rule, clock=lambda: NOW)) for check in checks]


def test_the_newest_value_is_not_older_than_it_may_be(staged: Staged) -> None:
    ddl = ", ".join(f"c{at} {kind}" for at, (kind, *_) in enumerate(AGES))
    world = staged([tuple(value for _, value, _, _ in AGES), (None,) * len(AGES)], ddl)
    results = world.run(*ages())
    assert [result.passed for result in results] == [passed for *_, passed in AGES], results
    assert results[4].message == "the newest c4 is 2024-01-10 06:00:00 UTC, at 2024-01-10 12:00:00 UTC"
    assert results[3].message == "no c3 in 2 rows"


def test_footers_and_partitions_tell_the_newest_value(staged: Staged, spark: SparkSession) -> None:
    ddl = ", ".join(f"c{at} {kind}" for at, (kind, *_) in enumerate(AGES))
    statistics = {
        f"c{at}": ColumnStatistics(null_count=2 if value is None else 1, low=value, high=value)
        for at, (_, value, *_) in enumerate(AGES)
    }
    world = staged(spark.createDataFrame([], ddl), statistics=statistics, counts={(): 2})
    results = world.run(*ages())
    assert [(one.passed, one.answered_by) for one in results] == [(passed, "metadata") for *_, passed in AGES]
    assert world.jobs == 0
    world = staged([(1, date(2024, 1, 1))], "id INT, dt DATE", partition_by=["dt"])
    assert not world.one(fresh("dt", timedelta(days=1))).passed
    assert (world.queries, world.asked["frames"]) == (1, 0)


def test_nothing_is_fresh_without_rows(staged: Staged) -> None:
    result = staged([], "at TIMESTAMP").one(fresh("at", timedelta(days=1)))
    assert (result.passed, result.message) == (False, "no at in 0 rows")


def test_a_schema_may_be_nested_and_its_char_columns_are_told_from_strings(spark: SparkSession, staged: Staged) -> None:
    code = StructField("code", StringType(), metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(5)"})
    kind = StructType([code, *spark.createDataFrame([], "info STRUCT<a: INT, b: ARRAY<STRING>>").schema])
    world = staged(spark.createDataFrame([], kind), counts={(): 1})
    assert world.one(has_schema("code CHAR(5), info STRUCT<A: INT NOT NULL, b: ARRAY<STRING>>")).passed
    assert world.one(has_schema(kind)).passed
    assert not world.one(has_schema("code STRING, info STRUCT<a: INT, b: ARRAY<STRING>>")).passed
