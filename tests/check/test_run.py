"""Lists of checks, users' own functions, failures inside Spark, and the error that shows all of it."""

from __future__ import annotations

import functools
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pytest
from chispa import assert_df_equality
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType

from table_writer.check import expression, function_check, in_range, not_null, only_partitions, row_count, unique
from table_writer.check.run import as_checks, failure_text, require_passed, run_checks
from table_writer.errors import CheckFailedError, InvalidInputError
from table_writer.model.check_result import CheckResult

from .conftest import World

Staged = Callable[..., World]


def says(answer: Any) -> Callable[[DataFrame], Any]:
    return lambda _: answer


def raises(error: Exception) -> Callable[[DataFrame], Any]:
    def function(_: DataFrame) -> None:
        raise error

    return function


class Rule:
    def __call__(self, df: DataFrame) -> bool:
        return df.count() == 2


def test_callables_get_names_of_their_own() -> None:
    checks = as_checks([says(1), says(2), functools.partial(says, 3), Rule(), raises, not_null("id"), Rule().__call__])
    names = [check.name for check in checks]
    assert names == ["lambda", "lambda 2", "says", "Rule", "raises", "not_null(id)", "__call__"]


@pytest.mark.parametrize(
    "given",
    [[5], ["not_null"], [None], "id", {"a": 1}, [not_null], [unique("a"), unique("a")]],
    ids=["a number", "a text", "none", "one text", "a dict", "no call", "the same twice"],
)
def test_what_is_no_list_of_checks_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInputError):
        as_checks(given)


def test_long_names_stay_short_and_different() -> None:
    one, other = (expression(f"{'x' * 500} > {number}").name for number in (1, 2))
    assert len(one) == len(other) == 120
    assert one != other


OTHER = "the function returned {}; a check returns True, False or None, or raises an error"


def test_functions_answer_in_their_own_way(staged: Staged) -> None:
    world = staged([(1,), (2,)], "id INT")
    expected: dict[Callable[..., Any], tuple[bool, str]] = {
        says(None): (True, "the function found nothing wrong"),
        says(True): (True, "the function found nothing wrong"),
        says(False): (False, "the function returned False"),
        says(0): (False, OTHER.format("int")),
        lambda df: df: (False, OTHER.format("DataFrame")),
        Rule(): (True, "the function found nothing wrong"),
        raises(AssertionError("two orders are wrong")): (False, "two orders are wrong"),
        raises(AssertionError()): (False, "AssertionError"),
        raises(KeyError("x")): (False, "KeyError: 'x'"),
    }
    results = world.run(*expected)
    assert [(one.passed, one.message) for one in results] == list(expected.values())
    assert {one.answered_by for one in results} == {"function"}
    assert world.asked["frames"] == 1


def test_rows_in_the_text_of_an_error_are_shown_and_never_stored(staged: Staged, spark: SparkSession) -> None:
    def same(df: DataFrame) -> None:
        assert_df_equality(df, spark.createDataFrame([(1, "other")], "id INT, note STRING"), ignore_nullable=True)

    result = staged([(1, "secret")], "id INT, note STRING").one(function_check(same, severity="warn"))
    assert (result.passed, result.stops, result.name) == (False, False, "same")
    assert "secret" in str(result.examples)
    assert "\x1b" not in str(result.examples)
    assert "secret" not in str(result.to_json())


def test_an_error_in_one_check_is_the_failure_of_that_check(staged: Staged, spark: SparkSession) -> None:
    def is_odd(number):  # no hints, from which PySpark would infer another kind
        if number == 2:
            raise ValueError("two is odd")
        return number % 2 == 1

    spark.udf.register("is_odd", is_odd, "boolean")
    world = staged([(1, "1"), (2, "a")], "id INT, note STRING")
    results = world.run(
        not_null("id"),
        expression("CAST(note AS INT) > 0"),
        expression("is_odd(id)"),
        expression("1 / (id - 1) > 0"),
        expression("note RLIKE concat('(', note)"),
        in_range("id", max=1),
    )
    assert [one.passed for one in results] == [True, False, False, False, False, False]
    assert results[1].message == "could not be judged: [CAST_INVALID_INPUT]"
    assert results[1].examples[0]["error"].startswith("[CAST_INVALID_INPUT] The value 'a' of the type")
    assert results[2].message == "could not be judged: ValueError"
    assert results[2].examples[0]["error"] == "ValueError: two is odd"
    assert "DIVIDE_BY_ZERO" in results[3].message
    assert "Unclosed group" in results[4].examples[0]["error"]
    assert (results[5].failed_rows, [one["id"] for one in results[5].examples]) == (1, ["2"])


def test_a_value_in_an_error_of_spark_is_shown_and_never_stored(staged: Staged, spark: SparkSession) -> None:
    def loud(text):
        raise ValueError(f"cannot read\nsecret-{text}")

    spark.udf.register("loud", loud, "boolean")
    world = staged([("secret-7",)], "note STRING")
    checks = (
        expression("CAST(note AS INT) > 0", severity="warn"),
        expression("loud(note)", severity="warn"),
        function_check(lambda df: df.selectExpr("CAST(note AS INT)").collect(), name="reads", severity="warn"),
    )
    results = world.run(*checks)
    assert not any(one.passed for one in results)
    assert "secret-7" not in str([one.to_json() for one in results])
    text = failure_text(results, "mart.orders", "w1")
    assert text.count("The value 'secret-7' of the type") == 2
    assert "ValueError: cannot read" in text


def test_an_error_that_cannot_say_what_it_is_is_a_failure_too(staged: Staged) -> None:
    class Mute(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise RuntimeError

    def mute(df: DataFrame) -> None:
        raise Mute

    def loud(df: DataFrame) -> None:
        raise ValueError("\x1b[2J\u202e")

    found = staged([(1,)], "id INT").run(mute, loud)
    assert [one.message for one in found] == ["Mute", r"ValueError: \x1b[2J\u202e"]


def test_a_storage_failure_is_not_the_datas(staged: Staged, spark: SparkSession, tmp_path: Path) -> None:
    files = tmp_path / "files"
    spark.range(3).coalesce(1).write.parquet(files.as_uri())
    frame = spark.read.parquet(files.as_uri())
    for file in files.glob("*.parquet"):
        file.unlink()
    world = staged(frame, counts={(): 3})
    with pytest.raises((PySparkException, Py4JError), match="FAILED_READ_FILE"):
        run_checks([in_range("id", min=0), expression("id > 0")], world.audit)


def result(name: str, **more: Any) -> CheckResult:
    return CheckResult(**{"name": name, "severity": "error", "passed": False, "message": "wrong"} | more)


def test_the_error_shows_every_failed_check_and_keeps_all_results() -> None:
    rows = ({"id": "null", "note": "a\nb\x1b[31m\u202e", "long": "x" * 1000}, {"id": "22", "note": "", "long": ""})
    results = (
        result("row_count(min=1)", passed=True, message="5 rows"),
        result("old", severity="warn", message="too old"),
        result("not_null(id)", message="2 of 5 rows have no id", failed_rows=2, examples=rows),
        result("wide", failed_rows=1, examples=({f"column_{at:03}": "1" for at in range(100)},)),
    )
    with pytest.raises(CheckFailedError) as raised:
        require_passed(results, "mart.orders", "w1")
    text = str(raised.value)
    lines = text.splitlines()
    assert lines[0] == "3 of 4 checks of write w1 failed; nothing was published to mart.orders:"
    assert lines[1] == "  not_null(id): 2 of 5 rows have no id"
    assert lines[2].split() == ["id", "note", "long"]
    assert lines[3].split() == ["null", r"a\nb\x1b[31m\u202e", f"{'x' * 31}…"]
    assert [line.index(word) for line, word in zip(lines[2:4], ("note", "a"), strict=True)] == [12, 12]
    assert all(line.isprintable() and len(line) < 140 for line in lines)
    assert "  old (warning): too old" in text
    assert "more columns" in text
    again = pickle.loads(pickle.dumps(raised.value))  # noqa: S301  # our own
    assert (str(again), again.results, again.table, again.code) == (text, results, "mart.orders", "check_failed")


def test_warnings_let_a_write_pass() -> None:
    require_passed((result("old", severity="warn"), result("good", passed=True)), "mart.orders", "w1")


def test_a_sentence_of_a_megabyte_is_cut() -> None:
    assert len(failure_text([result("x", message="y" * 10**6)], "t", "w")) < 1_000


def test_no_checks_ask_nothing(staged: Staged) -> None:
    world = staged([(1,)], "id INT")
    assert world.run() == ()
    assert world.run(row_count(min=1))[0].passed
    assert world.jobs == 0


def test_a_pandera_model_is_a_check(staged: Staged) -> None:
    model = pa.DataFrameSchema({"id": pa.Column(IntegerType(), pa.Check.greater_than(0))})

    def fits(df: DataFrame) -> None:
        errors = model.validate(df).pandera.errors
        assert not errors, json.dumps(errors, default=str)

    assert staged([(1,)], "id INT").one(fits).passed
    result = staged([(0,)], "id INT").one(fits)
    assert not result.passed
    assert "greater_than(0)" in result.message + str(result.examples)
    forgotten = staged([(0,)], "id INT").one(function_check(model.validate, name="forgotten"))
    assert forgotten.message.startswith("the function returned DataFrame")


def test_rows_are_left_out_where_none_may_be_shown_and_counts_stay(staged: Staged) -> None:
    checks = [
        not_null("note"),
        unique("id"),
        only_partitions(["day=1"]),
        expression("CAST(note AS INT) > 0"),
        expression("note <> 'secret'"),
    ]
    rows = [(1, "secret", "1"), (1, None, "1"), (2, "3", "secret")]
    results = [
        run_checks(as_checks(checks), staged(rows, "id INT, note STRING, day STRING", ["day"], examples=most).audit)
        for most in (5, 0)
    ]
    assert "secret" in str([result.examples for result in results[0]])
    assert [result.examples for result in results[1]] == [()] * len(checks)
    assert [(one.name, one.passed, one.failed_rows, one.message) for one in results[0]] == [
        (one.name, one.passed, one.failed_rows, one.message) for one in results[1]
    ]
    assert [one.failed_rows for one in results[1]] == [1, 2, 1, None, 1]


def test_as_many_rows_are_shown_as_asked_for(staged: Staged) -> None:
    world = staged([(None, 1)] * 9, "id INT, n INT", examples=7)
    [result] = run_checks(as_checks([not_null("id")]), world.audit)
    assert (len(result.examples), result.failed_rows) == (7, 9)
