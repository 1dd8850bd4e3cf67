"""How checks spell what they show."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from table_writer.check.check import check_name, enumeration
from table_writer.check.run import failure_text
from table_writer.check.writes import function_name
from table_writer.model.check_result import CheckResult


def test_the_first_of_many_are_listed() -> None:
    assert enumeration("abcdefg") == "a, b, c, d, e and 2 more"
    assert enumeration("abc") == "a, b, c"


def test_a_check_is_named_as_it_was_called() -> None:
    assert check_name("in_range", "amount", min=0, max=None) == "in_range(amount, min=0)"


@pytest.mark.parametrize(("function", "name"), [(len, "len"), (partial(print, 1), "print"), (lambda _: True, "lambda")])
def test_a_function_keeps_its_name(function: Any, name: str) -> None:
    assert function_name(function) == name


def test_a_failure_shows_its_rows_aligned_below_it() -> None:
    wrong = CheckResult(
        name="not_null(id)",
        severity="error",
        passed=False,
        message="1 of 2 rows have no id",
        failed_rows=1,
        examples=({"id": "null", "note": "a"},),
    )
    assert failure_text([wrong], "mart.orders", "w1").splitlines() == [
        "1 of 1 check of write w1 failed; nothing was published to mart.orders:",
        "  not_null(id): 1 of 2 rows have no id",
        "      id    note",
        "      null  a",
        'Correct the data and write again. A check of severity="warn" lets a write pass.',
    ]
