"""How checks spell what they show."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from table_writer.check.check import check_name, listed
from table_writer.check.writes import function_name


def test_the_first_of_many_are_listed() -> None:
    assert listed("abcdefg") == "a, b, c, d, e and 2 more"
    assert listed("abc") == "a, b, c"


def test_a_check_is_named_as_it_was_called() -> None:
    assert check_name("in_range", "amount", min=0, max=None) == "in_range(amount, min=0)"


@pytest.mark.parametrize(("function", "name"), [(len, "len"), (partial(print, 1), "print"), (lambda _: True, "lambda")])
def test_a_function_keeps_its_name(function: Any, name: str) -> None:
    assert function_name(function) == name
