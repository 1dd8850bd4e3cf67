"""A user's own function as a check."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame

from table_writer.check.audit import Facts
from table_writer.check.check import FUNCTION, Check, Question
from table_writer.check.spark_errors import error_in_data
from table_writer.check.target import Target
from table_writer.check.wording import printable, shortened
from table_writer.model.check_result import CheckResult

__all__ = ["FunctionCheck", "function_name"]

COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
LONGEST_MESSAGE: Final = 300
LONGEST_TEXT: Final = 4_000  # characters of an error that are shown, but not stored


def function_name(function: Callable[..., Any]) -> str:
    """Return what a callable is called; a lambda has no name of its own.

    Examples
    --------
    >>> function_name(len), function_name(partial(print, 1)), function_name(lambda df: True)
    ('len', 'print', 'lambda')
    """
    while isinstance(function, partial):
        function = function.func
    name = str(getattr(function, "__name__", type(function).__name__))
    return "lambda" if name == "<lambda>" else name


@dataclass(frozen=True, kw_only=True)
class FunctionCheck(Check):
    """Calls a function with the staged rows."""

    function: Callable[[DataFrame], Any]

    def bind(self, target: Target) -> Question:  # noqa: ARG002  # it finds its columns itself
        """Nothing to find."""
        return _Call(check=self, function=self.function)


@dataclass(frozen=True, kw_only=True)
class _Call(Question):
    function: Callable[[DataFrame], Any]

    def known(self, facts: Facts) -> CheckResult:
        frame = facts.frame  # a failure to open it is none of the function's
        try:
            found = self.function(frame)
        except Exception as error:  # noqa: BLE001  # whatever it raises is its answer
            return self._raised(error)
        if found is None or _is_truth(found, value=True):
            return self.passed("the function found nothing wrong", FUNCTION)
        if _is_truth(found, value=False):
            return self.failed("the function returned False", by=FUNCTION)
        return self.failed(
            f"the function returned {type(found).__name__}; a check returns True, False or None, or raises an error",
            by=FUNCTION,
        )

    def _raised(self, error: Exception) -> CheckResult:
        """Say the first line; the whole text may show rows, so it is an example, which is never stored."""
        text = COLOURS.sub("", _said_by(error)).strip()
        lines = [line.strip() for line in text.splitlines() if re.search(r"\w", line)]
        kind = type(error).__name__
        of_data = error_in_data(error)  # Spark's sentences hold values of rows
        first = of_data.kind if of_data else shortened(lines[0], LONGEST_MESSAGE) if lines else ""
        examples = [{kind: shortened(text, LONGEST_TEXT)}] if text not in {first, ""} else []
        prefix = "" if isinstance(error, AssertionError) and first else kind
        said = ": ".join(filter(None, (prefix, first)))
        return self.failed(printable(said), by=FUNCTION, examples=examples)


def _said_by(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # one that cannot even say what it is
        return ""


def _is_truth(found: object, *, value: bool) -> bool:
    """Whether a function said yes, or no; numpy's booleans are none of Python's."""
    is_numpy = type(found).__module__ == "numpy" and type(found).__name__ in {"bool", "bool_"}
    return (isinstance(found, bool) or is_numpy) and bool(found) is value
