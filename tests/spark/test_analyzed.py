"""What Spark says of an expression: the same through the JVM and over Spark Connect."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from table_writer.spark import open_gateway

SCHEMA = "id BIGINT, note STRING, `a.b``c` STRING, info STRUCT<code: STRING>, p INT"
ALL = {"id", "note", "a.b`c", "info", "p"}
REPEATABLE = {
    "id > 3": {"id"},
    "ID * p > 3": {"id", "p"},
    "`a.b``c` = 'id'": {"a.b`c"},
    "info.code IS NULL AND note LIKE '%p%'": {"info", "note"},
    "size(filter(array(1, p), x -> x > id)) = 0": {"id", "p"},
    "note > string(current_date())": {"note"},
    "1 = 1": set(),
}
OTHERS = {
    "rand() < 0.5": "is_deterministic",
    "note = uuid()": "is_deterministic",
    "id IN (SELECT 1)": "has_subquery",
    "EXISTS (SELECT 1)": "has_subquery",
    "id = (SELECT max(x) FROM VALUES (1) AS t(x))": "has_subquery",
    "row_number() OVER (ORDER BY id) = 1": "has_window",
    "max(id) > 3": "is_aggregate",
    "count(*) > 0": "is_aggregate",
    "explode(array(true))": "makes_rows",
    "note > string(current_date())": "asks_clock",
    "note > 'x' AND now() > TIMESTAMP '2024-01-01'": "asks_clock",
    "CAST(note AS DATE) < CAST('today' AS DATE)": "asks_clock",
    "CAST(note AS DATE) < DATE 'today'": "asks_clock",
}


@pytest.mark.connect
@pytest.mark.parametrize("sql", REPEATABLE)
def test_a_condition_names_columns_and_judges_a_row_by_itself(spark: SparkSession, sql: str) -> None:
    found = open_gateway(spark).analysis(spark.createDataFrame([], SCHEMA), sql)
    assert [kind.simpleString() for kind in found.kinds] == ["boolean"]
    assert {name.lower() for name in found.names} == REPEATABLE[sql]
    assert found.is_repeatable
    assert not found.is_aggregate
    assert not found.makes_rows


@pytest.mark.connect
@pytest.mark.parametrize("sql", ["xxhash64(*) % 2 = 0", "xxhash64(p, *) = 0 AS named"])
def test_a_star_names_all_columns(spark: SparkSession, sql: str) -> None:
    assert open_gateway(spark).analysis(spark.createDataFrame([], SCHEMA), sql).names == ALL


@pytest.mark.connect
@pytest.mark.parametrize("sql", OTHERS)
def test_what_asks_more_than_a_row_is_told_apart(spark: SparkSession, sql: str) -> None:
    found = open_gateway(spark).analysis(spark.createDataFrame([], SCHEMA), sql)
    flags = ("has_subquery", "has_window", "is_aggregate", "makes_rows", "asks_clock", "has_foreign_code")
    expected = OTHERS[sql]
    assert [flag for flag in flags if getattr(found, flag)] == ([expected] if expected in flags else [])
    if expected == "is_deterministic":
        assert not found.is_deterministic
    if expected in {"is_deterministic", "has_subquery", "has_window"}:
        assert not found.is_repeatable


@pytest.mark.connect
def test_a_column_is_analyzed_as_a_text_is(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], SCHEMA)
    analysis = open_gateway(spark).analysis
    in_python = F.udf(lambda number: number > 1, "boolean")
    assert analysis(frame, in_python(F.col("id"))).has_foreign_code
    assert not analysis(frame, F.rand() < F.lit(0.5)).is_deterministic
    assert analysis(frame, F.col("id") > F.lit(3)) == analysis(frame, "id > 3")


@pytest.mark.connect
@pytest.mark.parametrize("sql", ["id >", "nothing > 3", "id + info"])
def test_what_is_no_expression_over_the_columns_raises(spark: SparkSession, sql: str) -> None:
    with pytest.raises(PySparkException):
        open_gateway(spark).analysis(spark.createDataFrame([], SCHEMA), sql)


@pytest.mark.connect
def test_patterns_are_those_of_java(spark: SparkSession) -> None:
    is_pattern = open_gateway(spark).is_pattern
    assert [is_pattern(text) for text in (r"(?<year>\d+)-\p{L}+", "(", "a{2", r"\E")] == [True, False, False, False]
