"""Checks that judge each row by itself: not null, of a pattern."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column

from table_writer.check.audit import Facts
from table_writer.check.check import METADATA, SPARK, Check, CountIf, Question
from table_writer.check.target import Place, Target, is_text
from table_writer.check.wording import listed, printable, row_count_text, shortened, shown
from table_writer.model.check_result import CheckResult
from table_writer.model.partition_name import NULL_PARTITION

__all__ = ["Matches", "NotNull", "RowQuestion"]

LONGEST_PATTERN: Final = 80  # characters of it in a message
WHOLE: Final = (r"\A(?:{})\z", "\\A(?:{}\n)\\z", r"\A(?:{}\E)\z")
"""How a pattern is made to match all of a value: as it is; if it ends in a comment; if it ends in an open quotation."""

OF_ONE: Final = {"have": "has", "break": "breaks"}
"""The verbs that are said of rows, and how of a single one."""


@dataclass(frozen=True, kw_only=True)
class RowQuestion(Question):
    """Judges rows one by one.

    Parameters
    ----------
    verdict
        What is said of wrong rows: ``have no order_id``. Begins with a verb of :data:`OF_ONE`.
    """

    verdict: str

    def of_count(self, count: int, rows: int, by: str) -> CheckResult:
        """Judge by the number of wrong rows."""
        verb, _, rest = self.verdict.partition(" ")
        said = f"of {row_count_text(rows)} {OF_ONE[verb] if rows == 1 else verb} {rest}"
        if count == 0:
            return self.passed(f"none {said}", by)
        return self.failed(f"{count:,} {said}", count, by=by)

    def judged(self, measured: Sequence[Any], facts: Facts) -> CheckResult:
        """Judge by the number of wrong rows."""
        return self.of_count(int(measured[0]), facts.rows, SPARK)


@dataclass(frozen=True, kw_only=True)
class NotNull(Check):
    """No value is null."""

    columns: tuple[str, ...]

    def bind(self, target: Target) -> Question:
        """Find the columns."""
        places = tuple(target.place(column) for column in self.columns)
        return _NotNull(check=self, places=places, verdict=f"have no {' or no '.join(one.shown for one in places)}")


class _NotNull(RowQuestion):
    def known(self, facts: Facts) -> CheckResult | None:
        counts = [self._known_nulls(place, facts) for place in self.places]
        if any(count is None for count in counts):
            return None
        each = [count for count in counts if count is not None]
        total = next(filter(None, each), 0)  # a row may miss several values: then it takes Spark to count rows
        return self._of_nulls(total, each, facts.rows, METADATA) if sum(map(bool, each)) < 2 else None

    @staticmethod
    def _known_nulls(place: Place, facts: Facts) -> int | None:
        if facts.rows == 0:
            return 0
        if place.is_partition and not place.is_nested:
            return sum(rows for text, rows in facts.texts(place) if text == NULL_PARTITION)
        return facts.statistics(place).null_count

    def failing(self, label: str) -> Column | None:  # noqa: ARG002
        return reduce(or_, (place.column.isNull() for place in self.places))

    def measures(self, flag: Column, count_if: CountIf) -> Sequence[Column]:
        return [count_if(flag), *(count_if(place.column.isNull()) for place in self.places)]

    def judged(self, measured: Sequence[Any], facts: Facts) -> CheckResult:
        total, *each = (int(count) for count in measured)
        return self._of_nulls(total, each, facts.rows, SPARK)

    def _of_nulls(self, total: int, each: Sequence[int], rows: int, by: str) -> CheckResult:
        """Judge by the number of rows without some value, and by that of each column."""
        found = self.of_count(total, rows, by)
        if total == 0 or len(each) == 1:
            return found
        parts = [f"{place.shown} in {count:,}" for place, count in zip(self.places, each, strict=True) if count]
        return self.failed(f"{found.message}: {listed(parts, 20)}", total, by=by)


@dataclass(frozen=True, kw_only=True)
class Matches(Check):
    """All of each value matches a regular expression."""

    column: str
    pattern: str

    def bind(self, target: Target) -> Question:
        """Let Java compile the pattern."""
        place = target.place(self.column)
        if not is_text(place.kind):
            raise self.wrong(f"{place.shown} is {place.kind.simpleString()}, and a pattern is for text")
        java: Any = target.spark._jvm  # noqa: SLF001  # PySpark has no public way to Java's patterns
        pattern = _whole(self.pattern, java)
        if pattern is None:
            raise self.wrong(f"{shown(self.pattern)} is no regular expression of Java")
        verdict = f"have {place.shown} that does not match {printable(shortened(self.pattern, LONGEST_PATTERN))}"
        return _Matching(check=self, places=(place,), verdict=verdict, pattern=pattern)


def _whole(pattern: str, java: Any) -> str | None:
    def compiles(text: str) -> bool:
        try:
            java.java.util.regex.Pattern.compile(text)
        except (PySparkException, Py4JError):  # PySpark knows some of Java's
            return False
        return True

    wrapped = (form.format(pattern) for form in WHOLE)
    return next((text for text in wrapped if compiles(text)), None) if compiles(pattern) else None


@dataclass(frozen=True, kw_only=True)
class _Matching(RowQuestion):
    pattern: str

    def failing(self, label: str) -> Column | None:  # noqa: ARG002
        return ~self.places[0].column.rlike(self.pattern)
