"""Checks that compare each row's value with given ones: in a range, one of some."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import DoubleType, FloatType

from table_writer.check.audit import Facts
from table_writer.check.check import METADATA, Check, Question
from table_writer.check.literals import Literal, highest, is_ordered, limits, literal, lowest
from table_writer.check.row_checks import RowQuestion
from table_writer.check.target import Target
from table_writer.check.wording import listed, shown
from table_writer.model.check_result import CheckResult

__all__ = ["AllowedValues", "InRange"]


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
