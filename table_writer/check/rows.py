"""Checks that judge each row by itself: not null, of a pattern."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import DoubleType, FloatType, FractionalType

from table_writer.check.check import METADATA, SPARK, Check, CountIf, Facts, Question
from table_writer.check.columns import Place, Target, is_text, listed, row_count_text, shortened, shown
from table_writer.check.values import Literal, highest, is_ordered, limits, literal, lowest
from table_writer.errors import printable
from table_writer.model.check_result import CheckResult
from table_writer.model.table import NULL_PARTITION
from table_writer.spark.sql import spark_reason

__all__ = ["AllowedValues", "InRange", "KeyQuestion", "Matches", "NotNull", "RowQuestion", "Unique"]


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


@dataclass(frozen=True, kw_only=True)
class InRange(Check):
    """Values are between two others, both of which are allowed."""

    column: str
    low: object
    high: object

    def bind(self, target: Target) -> Question:
        """Make both bounds values of the column's type."""
        place = target.place(self.column)
        if not is_ordered(place.kind):
            raise self.wrong(
                f"{place.shown} is {place.kind.simpleString()}, which has no range; use expression(), or name a field"
            )
        low = None if self.low is None else lowest(self.low, place, target.time_zone)
        high = None if self.high is None else highest(self.high, place, target.time_zone)
        sides = {"below": self.low, "above": self.high}
        given = [f"{word} {shown(value)}" for word, value in sides.items() if value is not None]
        verdict = f"have {place.shown} {' or '.join(given)}"
        return _InRange(check=self, places=(place,), verdict=verdict, low=low, high=high)


@dataclass(frozen=True, kw_only=True)
class _InRange(RowQuestion):
    low: Literal | None
    high: Literal | None

    def known(self, facts: Facts) -> CheckResult | None:
        [place] = self.places
        values = facts.values(place) if place.is_partition and not place.is_nested else None
        if values is not None:
            outside = [rows for value, rows in values if value is not None and not self._holds(value)]
            return self.of_count(sum(outside), facts.rows, METADATA) if None not in self._values else None
        found = facts.statistics(place)
        is_inside = found.low is not None and found.high is not None and self._holds(found.low, found.high)
        all_null = facts.rows == found.null_count
        return self.of_count(0, facts.rows, METADATA) if facts.rows == 0 or all_null or is_inside else None

    @property
    def _values(self) -> list[Any]:
        return [one.value for one in (self.low, self.high) if one is not None]

    def _holds(self, *values: Any) -> bool:
        """Whether values are inside for certain."""
        try:
            above = self.low is None or (self.low.value is not None and self.low.value <= min(values))
            return above and (self.high is None or (self.high.value is not None and max(values) <= self.high.value))
        except TypeError:  # of a type that is not the column's
            return False

    def failing(self, label: str) -> Column | None:  # noqa: ARG002
        [place] = self.places
        value, wrong = place.column, F.lit(False)
        if self.low is not None:
            wrong = wrong | _compared(self.low, value, value < self.low.column, wrong_if=1)
        if self.high is not None:
            wrong = wrong | _compared(self.high, value, value > self.high.column, wrong_if=-1)
        return wrong | F.isnan(value) if isinstance(place.kind, (FloatType, DoubleType)) else wrong


def _compared(bound: Literal, value: Column, is_wrong: Column, *, wrong_if: int) -> Column:
    """Return whether a value is wrong; a bound beyond every value of its type makes all of them wrong, or none."""
    exact = limits(bound.kind)
    beyond = 0 if exact is None else int(bound.value > exact[1]) - int(bound.value < exact[0])
    return is_wrong if beyond == 0 else value.isNotNull() & F.lit(beyond == wrong_if)


@dataclass(frozen=True, kw_only=True)
class AllowedValues(Check):
    """Each value is one of some."""

    column: str
    values: tuple[object, ...]

    def bind(self, target: Target) -> Question:
        """Make the values such of the column's type."""
        place = target.place(self.column)
        allowed = tuple(literal(value, place, target.time_zone) for value in self.values)
        verdict = f"have another {place.shown} than {listed(map(shown, self.values))}"
        return _Allowed(check=self, places=(place,), verdict=verdict, allowed=allowed)


@dataclass(frozen=True, kw_only=True)
class _Allowed(RowQuestion):
    allowed: tuple[Literal, ...]

    def known(self, facts: Facts) -> CheckResult | None:
        [place] = self.places
        values = facts.values(place) if place.is_partition and not place.is_nested else None
        if values is None or facts.rows == 0:
            return super().known(facts)
        known = {one.value for one in self.allowed}
        wrong = sum(rows for value, rows in values if value is not None and value not in known)
        return self.of_count(wrong, facts.rows, METADATA)

    def failing(self, label: str) -> Column | None:  # noqa: ARG002
        return ~self.places[0].column.isin(*(one.column for one in self.allowed))


@dataclass(frozen=True, kw_only=True)
class Unique(Check):
    """No two rows have the same values in some columns."""

    columns: tuple[str, ...]

    def bind(self, target: Target) -> Question:
        """Find the columns."""
        places = tuple(target.place(column) for column in self.columns)
        try:
            target.empty.where(reduce(and_, (place.column == place.column for place in places)))
        except PySparkException as error:  # a map, for one
            raise self.wrong(f"rows cannot be told apart by these columns: {spark_reason(error)}") from error
        return KeyQuestion(check=self, places=places)


class KeyQuestion(Question):
    """Asks how many keys there are; rows with a null in theirs do not count, as in SQL's UNIQUE."""

    @property
    def key(self) -> str:
        """The columns for people."""
        return ", ".join(place.shown for place in self.places)

    @property
    def keys(self) -> tuple[Column, ...]:
        """What no two rows may have in common."""
        return tuple(place.column for place in self.places)

    @property
    def has_key(self) -> Column:
        """Whether a row counts."""
        return reduce(and_, (key.isNotNull() for key in self.keys))

    def known(self, facts: Facts) -> CheckResult | None:
        """Partitions tell of keys that are made of partition columns alone."""
        if facts.rows < 2:
            return self.passed(f"no {self.key} is there twice in {row_count_text(facts.rows)}", METADATA)
        if not all(place.is_partition and not isinstance(place.kind, FractionalType) for place in self.places):
            return None
        texts = [facts.texts(place) for place in self.places]
        counts: Counter[tuple[str, ...]] = Counter()
        for one in zip(*texts, strict=True):
            counts[tuple(text for text, _ in one)] += one[0][1]
        repeated = [rows for key, rows in counts.items() if rows > 1 and NULL_PARTITION not in key]
        return self.of_counts(sum(repeated), len(repeated), facts.rows, METADATA)

    def measures(self, flag: Column, count_if: CountIf) -> Sequence[Column]:  # noqa: ARG002
        """Count rows that have a key, and keys."""
        return [count_if(self.has_key), F.count_distinct(*self.keys)]

    def judged(self, measured: Sequence[Any], facts: Facts) -> CheckResult:
        """Judge before it is known which keys are there twice."""
        rows, keys = map(int, measured)
        if rows == keys:
            return self.of_counts(0, 0, facts.rows, "spark")
        repeating = rows - keys
        text = f"{repeating:,} of {row_count_text(facts.rows)} repeat the {self.key} of another"
        return self.failed(text, repeating)

    def of_counts(self, repeated_rows: int, repeated_keys: int, rows: int, by: str) -> CheckResult:
        """Judge by how many keys there are more than once, in how many rows."""
        if repeated_rows == 0:
            return self.passed(f"no {self.key} is there twice in {row_count_text(rows)}", by)
        return self.failed(
            f"{repeated_rows:,} of {row_count_text(rows)} share their {self.key} with another"
            f" ({repeated_keys:,} different key{'s' if repeated_keys > 1 else ''})",
            repeated_rows,
            by=by,
        )
