"""Checks that judge each row by itself: each is one condition that says which rows are wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from operator import or_
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import ArrayType, BooleanType, DoubleType, FloatType, MapType, StructType

from table_writer.check.check import METADATA, SPARK, Check, CountIf, Facts, Question, QuestionOfAggregates
from table_writer.check.columns import ColumnPath, Target, is_text, listed, shortened, shown
from table_writer.check.values import HIGHEST, LOWEST, GivenValue, given_value
from table_writer.errors import counted, printable
from table_writer.model.check_result import CheckResult
from table_writer.spark import open_gateway
from table_writer.spark.gateway import Analyzed
from table_writer.spark.sql import SPARK_ERRORS, quoted, spark_reason

LONGEST_SHOWN: Final = 80  # characters of SQL or of a pattern in a message
WHOLE: Final = (r"\A(?:{})\z", "\\A(?:{}\n)\\z", r"\A(?:{}\E)\z")
"""How a pattern is made to match all of a value: as it is; if it ends in a comment; if it ends in an open quotation."""

OF_ONE: Final = {"have": "has", "break": "breaks"}  # the verbs that are said of rows, and how of a single one
WITHOUT_RANGE: Final = (ArrayType, BooleanType, MapType, StructType)

READ: Final[dict[type, Callable[[str], Any]]] = {
    int: Decimal,
    Decimal: Decimal,
    str: str,
    date: date.fromisoformat,
    datetime: datetime.fromisoformat,
}
"""How a given value is read that is compared with a footer's; each reads it as Spark does, or not at all."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RowQuestion(Question):
    """Judges rows one by one."""

    verdict: str  # of wrong rows: ``have no order_id``; begins with a verb of OF_ONE
    condition: Column  # a row is wrong; null passes
    given: tuple[GivenValue, ...] = ()  # values of the condition that users gave

    def wrong(self, label: str) -> Column | None:  # noqa: ARG002
        """Return the condition."""
        return self.condition

    def judged(self, measured: Sequence[Any], facts: Facts) -> CheckResult:
        """Judge by the number of wrong rows."""
        return self.of_count(int(measured[0]), facts, SPARK)

    def of_count(self, count: int, facts: Facts, by: str, details: str = "") -> CheckResult:
        """Judge by the number of wrong rows, however it was found out."""
        verb, _, rest = self.verdict.partition(" ")
        said = f"of {counted(facts.rows, 'row')} {OF_ONE[verb] if facts.rows == 1 else verb} {rest}{details}"
        return self.check.failed(f"{count:,} {said}", count, by=by) if count else self.check.passed(f"none {said}", by)


def not_null(check: Check, target: Target, *, names: Sequence[str]) -> Question:
    """No value is null."""
    columns = target.columns(names)
    return _NotNull(
        check=check,
        columns=columns,
        verdict=f"have no {' or no '.join(one.shown for one in columns)}",
        condition=reduce(or_, (one.value.isNull() for one in columns)),
    )


class _NotNull(RowQuestion):
    """Counts rows, and the nulls of each column too; footers and partitions tell of the nulls."""

    def known(self, facts: Facts) -> CheckResult | None:
        nulls = [facts.statistics(column).null_count for column in self.columns]
        counts = [count for count in nulls if count]
        if facts.rows and (None in nulls or len(counts) > 1):  # a row may miss several values: Spark counts rows
            return None
        return self.of_count(sum(counts), facts, METADATA, self._details(nulls))

    def measures(self, flag: Column, count_if: CountIf) -> Sequence[Column]:
        return [count_if(flag), *(count_if(column.value.isNull()) for column in self.columns)]

    def judged(self, measured: Sequence[Any], facts: Facts) -> CheckResult:
        return self.of_count(int(measured[0]), facts, SPARK, self._details(measured[1:]))

    def _details(self, nulls: Sequence[int | None]) -> str:
        """Say which of several columns have nulls."""
        parts = [f"{one.shown} in {count:,}" for one, count in zip(self.columns, nulls, strict=True) if count]
        return f": {listed(parts, 20)}" if parts and len(nulls) > 1 else ""


def in_range(check: Check, target: Target, *, name: str, low: object, high: object) -> Question:
    """Values are between two others, both of which are allowed."""
    column = target.column(name)
    if isinstance(column.kind, WITHOUT_RANGE):
        raise check.refused(
            f"{column.shown} is {column.kind.simpleString()}, which has no range; use expression(), or name a field"
        )
    lowest = None if low is None else given_value(low, column, LOWEST)
    highest = None if high is None else given_value(high, column, HIGHEST)
    bounds = {"below": lowest, "above": highest}
    wrong = [column.value < lowest.literal] if lowest else []
    wrong += [column.value > highest.literal] if highest else []
    wrong += [F.isnan(column.value)] if isinstance(column.kind, (FloatType, DoubleType)) else []
    said = " or ".join(f"{word} {shown(bound.given)}" for word, bound in bounds.items() if bound)
    return _InRange(
        check=check,
        columns=(column,),
        verdict=f"have {column.shown} {said}",
        condition=reduce(or_, wrong),
        given=tuple(bound for bound in (lowest, highest) if bound),
        low=lowest,
        high=highest,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _InRange(RowQuestion):
    low: GivenValue | None
    high: GivenValue | None

    def known(self, facts: Facts) -> CheckResult | None:
        """Pass where footers say that all values are inside; whatever else they say, Spark counts rows."""
        found = facts.statistics(self.columns[0])
        is_inside = found.low is not None and found.high is not None and self._holds(found.low, found.high)
        is_known = is_inside or found.null_count == facts.rows
        return self.of_count(0, facts, METADATA) if is_known else super().known(facts)

    def _holds(self, lowest: Any, highest: Any) -> bool:
        """Whether values are inside for certain."""
        read = READ[type(lowest)]
        try:
            is_low_enough = self.low is None or read(self.low.text) <= lowest
            return is_low_enough and (self.high is None or highest <= read(self.high.text))
        except (TypeError, ValueError):  # a time without a zone, for one, is in that of the session
            return False


def allowed_values(check: Check, target: Target, *, name: str, values: Sequence[object]) -> Question:
    """Each value is one of some."""
    column = target.column(name)
    given = tuple(given_value(value, column) for value in values)
    return RowQuestion(
        check=check,
        columns=(column,),
        verdict=f"have another {column.shown} than {listed(map(shown, values))}",
        condition=~column.value.isin(*(one.literal for one in given)),
        given=given,
    )


def matches(check: Check, target: Target, *, name: str, pattern: str) -> Question:
    """All of each value matches a regular expression."""
    column = target.column(name)
    if not is_text(column.kind):
        raise check.refused(f"{column.shown} is {column.kind.simpleString()}, and a pattern is for text")
    is_pattern = open_gateway(target.spark).is_pattern
    wrapped = [form.format(pattern) for form in WHOLE] if is_pattern(pattern) else []
    whole = next(filter(is_pattern, wrapped), None)
    if whole is None:
        raise check.refused(f"{shown(pattern)} is no regular expression of Java")
    return RowQuestion(
        check=check,
        columns=(column,),
        verdict=f"have {column.shown} that does not match {printable(shortened(pattern, LONGEST_SHOWN))}",
        condition=~column.value.rlike(whole),
    )


def analyzed_condition(sql: str, target: Target, check: Check) -> tuple[tuple[ColumnPath, ...], Analyzed]:
    """Let Spark analyze a condition; return the columns that it names, and what else Spark says."""
    try:
        found = open_gateway(target.spark).analyzed(target.empty, sql)
    except SPARK_ERRORS as error:
        raise check.refused(
            f"{shown(sql)} is no condition over the columns of {target.table}: {spark_reason(error)}"
        ) from error
    if found.kinds != (BooleanType(),) or found.makes_rows:
        kinds = ", ".join(kind.simpleString() for kind in found.kinds[:3])
        several = ", of several rows" if found.makes_rows else ""
        raise check.refused(f"{shown(sql)} is no condition: it is {kinds}{several}, not boolean")
    columns = target.columns(quoted(name) for name in target.schema.names if name in found.names)
    return columns, found


def expression(check: Check, target: Target, *, sql: str) -> Question:
    """A condition is true for every row, or, with an aggregate function in it, for all of them together."""
    columns, found = analyzed_condition(sql, target, check)
    text = printable(shortened(sql, LONGEST_SHOWN))

    def judge(measured: Sequence[Any], facts: Facts) -> CheckResult:
        over = f"over {counted(facts.rows, 'row')}"
        if measured[0] is False:
            return check.failed(f"{text} is false {over}")
        return check.passed(f"{text} is {'true' if measured[0] else 'null'} {over}")

    if found.is_aggregate:
        return QuestionOfAggregates(check=check, columns=columns, aggregates=(F.expr(sql),), judge=judge)
    return RowQuestion(
        check=check, columns=columns, is_repeatable=found.is_repeatable, verdict=f"break {text}", condition=~F.expr(sql)
    )
