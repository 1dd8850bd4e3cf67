"""Checks that judge each row by itself: each is one condition that says which rows are wrong; values given by users."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from numbers import Integral, Real
from operator import or_
from typing import Any, Final

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql import types as T  # noqa: N812  # as Spark documents it

from table_writer.check.check import (
    METADATA,
    SPARK,
    Check,
    ColumnPath,
    CountIf,
    Facts,
    Question,
    QuestionOfAggregates,
    Target,
    enumeration,
    is_text,
    shortened_text,
    value_text,
)
from table_writer.errors import InvalidInputError, counted, printable
from table_writer.model.check_result import CheckResult
from table_writer.spark import open_gateway
from table_writer.spark.conditions import condition
from table_writer.spark.gateway import Analysis
from table_writer.spark.sql import balanced_tree, fetched, quoted
from table_writer.spark.types import cast_sql, shown_type

LOWEST, HIGHEST = ROUND_CEILING, ROUND_FLOOR
WIDE: Final = Context(prec=400)  # digits: more than a double of any size has
LONGEST_SHOWN: Final = 80  # characters of SQL or of a pattern in a message
WHOLE: Final = (r"\A(?:{})\z", "\\A(?:{}\n)\\z", r"\A(?:{}\E)\z")
"""Forms in which a pattern matches all of a value: as it is; ending in a comment; ending in an open quotation."""

OF_ONE: Final = {"have": "has", "break": "breaks"}  # the verbs that are said of rows, and how of a single one
WITHOUT_RANGE: Final = (T.ArrayType, T.BooleanType, T.MapType, T.StructType)

READ: Final[dict[type, Callable[[str], Any]]] = {
    int: Decimal,
    Decimal: Decimal,
    str: str,
    date: date.fromisoformat,
    datetime: datetime.fromisoformat,
}
"""Readers of a given value that is compared with a footer's; each reads it as Spark does, or not at all."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RowQuestion(Question):
    """Judges rows one by one."""

    verdict: str  # of wrong rows: ``have no order_id``; begins with a verb of OF_ONE
    condition: Callable[[], Column]  # a row is wrong; null passes; made where Spark is asked, and not before
    given: tuple[GivenValue, ...] = ()  # values of the condition that users gave

    def wrong(self, label: str) -> Column | None:  # noqa: ARG002
        return self.condition()

    def result_of(self, measured: Sequence[Any], facts: Facts) -> CheckResult:
        return self.of_count(int(measured[0]), facts, SPARK)

    def of_count(self, count: int, facts: Facts, by: str, details: str = "") -> CheckResult:
        """Judge by the number of wrong rows, however it was found out."""
        verb, _, rest = self.verdict.partition(" ")
        said = f"of {counted(facts.rows, 'row')} {OF_ONE[verb] if facts.rows == 1 else verb} {rest}{details}"
        return (
            self.check.failure(f"{count:,} {said}", count, by=by) if count else self.check.success(f"none {said}", by)
        )


def not_null(check: Check, target: Target, *, names: Sequence[str]) -> Question:
    columns = target.columns(names)
    return _NotNull(
        check=check,
        columns=columns,
        verdict=f"have no {' or no '.join(column.display_name for column in columns)}",
        condition=lambda: balanced_tree(or_, (column.value.isNull() for column in columns)),
    )


class _NotNull(RowQuestion):
    """Counts rows, and the nulls of each column too; footers and partitions tell of the nulls."""

    def result_without_read(self, facts: Facts) -> CheckResult | None:
        nulls = [facts.statistics(column).null_count for column in self.columns]
        counts = [count for count in nulls if count]
        if facts.rows and (None in nulls or len(counts) > 1):  # a row may miss several values: Spark counts rows
            return None
        return self.of_count(sum(counts), facts, METADATA, self._details(nulls))

    def measures(self, flag: Column, count_if: CountIf) -> Sequence[Column]:
        return [count_if(flag), *(count_if(column.value.isNull()) for column in self.columns)]

    def result_of(self, measured: Sequence[Any], facts: Facts) -> CheckResult:
        return self.of_count(int(measured[0]), facts, SPARK, self._details(measured[1:]))

    def _details(self, nulls: Sequence[int | None]) -> str:
        """Say which of several columns have nulls."""
        parts = [
            f"{column.display_name} in {count:,}" for column, count in zip(self.columns, nulls, strict=True) if count
        ]
        return f": {enumeration(parts, 20)}" if parts and len(nulls) > 1 else ""


def in_range(check: Check, target: Target, *, name: str, low: object, high: object) -> Question:
    column = target.column(name)
    if isinstance(column.kind, WITHOUT_RANGE):
        raise check.misfit(
            f"{column.display_name} is {shown_type(column.kind)}, which has no range; use expression(), or name a field"
        )
    lowest = None if low is None else given_value(low, column, LOWEST)
    highest = None if high is None else given_value(high, column, HIGHEST)
    bounds = {"below": lowest, "above": highest}

    def wrong() -> Column:
        outside = [column.value < lowest.literal] if lowest else []
        outside += [column.value > highest.literal] if highest else []
        outside += [F.isnan(column.value)] if isinstance(column.kind, (T.FloatType, T.DoubleType)) else []
        return balanced_tree(or_, outside)

    said = " or ".join(f"{word} {value_text(bound.given)}" for word, bound in bounds.items() if bound)
    return _InRange(
        check=check,
        columns=(column,),
        verdict=f"have {column.display_name} {said}",
        condition=wrong,
        given=tuple(bound for bound in (lowest, highest) if bound),
        low=lowest,
        high=highest,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _InRange(RowQuestion):
    low: GivenValue | None
    high: GivenValue | None

    def result_without_read(self, facts: Facts) -> CheckResult | None:
        """Pass where footers say that all values are inside; whatever else they say, Spark counts rows."""
        found = facts.statistics(self.columns[0])
        is_inside = found.low is not None and found.high is not None and self._holds(found.low, found.high)
        is_known = is_inside or found.null_count == facts.rows
        return self.of_count(0, facts, METADATA) if is_known else super().result_without_read(facts)

    def _holds(self, lowest: Any, highest: Any) -> bool:
        """Return whether values are inside for certain."""
        read = READ[type(lowest)]
        try:
            is_low_enough = self.low is None or read(self.low.text) <= lowest
            return is_low_enough and (self.high is None or highest <= read(self.high.text))
        except (TypeError, ValueError):  # a time without a zone, for one, is in that of the session
            return False


def allowed_values(check: Check, target: Target, *, name: str, values: Sequence[object]) -> Question:
    column = target.column(name)
    given = tuple(given_value(value, column) for value in values)
    return RowQuestion(
        check=check,
        columns=(column,),
        verdict=f"have another {column.display_name} than {enumeration(map(value_text, values))}",
        condition=lambda: ~column.value.isin(*(value.literal for value in given)),
        given=given,
    )


def matches(check: Check, target: Target, *, name: str, pattern: str) -> Question:
    column = target.column(name)
    if not is_text(column.kind):
        raise check.misfit(f"{column.display_name} is {shown_type(column.kind)}, and a pattern is for text")
    is_pattern = open_gateway(target.spark).is_pattern
    wrapped = [form.format(pattern) for form in WHOLE] if is_pattern(pattern) else []
    whole = next(filter(is_pattern, wrapped), None)
    if whole is None:
        raise check.misfit(f"{value_text(pattern)} is no regular expression of Java")
    return RowQuestion(
        check=check,
        columns=(column,),
        verdict=f"have {column.display_name} that does not match {printable(shortened_text(pattern, LONGEST_SHOWN))}",
        condition=lambda: ~column.value.rlike(whole),
    )


def analyzed_condition(sql: str, target: Target, check: Check) -> tuple[tuple[ColumnPath, ...], Analysis]:
    """Let Spark analyze a condition; return the columns that it names, and what else Spark says."""
    try:
        found = condition(target.empty, sql)
    except InvalidInputError as error:
        raise check.misfit(
            f"{value_text(sql)} is no condition over the columns of {target.table}: {error.message}"
        ) from error
    if not found.names and not (found.is_aggregate or found.has_window or found.has_subquery):
        raise check.misfit(f"{value_text(sql)} names no column of {target.table}, so it is the same for every row")
    spelled = set(map(target.name_key, found.names))
    named = (name for name in target.schema.names if target.name_key(name) in spelled)
    columns = target.columns(map(quoted, named))  # Spark's plan may spell a name as the condition does
    return columns, found


def expression(check: Check, target: Target, *, sql: str) -> Question:
    """A condition is true for every row, or, with an aggregate function in it, for all of them together."""
    columns, found = analyzed_condition(sql, target, check)
    text = printable(shortened_text(sql, LONGEST_SHOWN))

    def judge(measured: Sequence[Any], facts: Facts) -> CheckResult:
        over = f"over {counted(facts.rows, 'row')}"
        if measured[0] is False:
            return check.failure(f"{text} is false {over}")
        return check.success(f"{text} is {'true' if measured[0] else 'null'} {over}")

    if found.is_aggregate:
        return QuestionOfAggregates(check=check, columns=columns, aggregates=(F.expr(sql),), judge=judge)
    return RowQuestion(
        check=check,
        columns=columns,
        is_repeatable=found.is_repeatable,
        verdict=f"break {text}",
        condition=lambda: ~F.expr(sql),
    )


@dataclass(frozen=True, kw_only=True)
class GivenValue:
    """A value that the values of a column are compared with."""

    given: object  # by the user
    text: str  # as Spark's cast reads it
    column: ColumnPath

    @property
    def kind(self) -> T.DataType:
        """The type it is cast to: a time within a day is no date, but can be compared with one."""
        return T.TimestampNTZType() if isinstance(self.column.kind, T.DateType) else self.column.kind

    @property
    def literal(self) -> Column:
        """The value in a query; a literal, never text of SQL."""
        return F.unhex(F.lit(self.text)) if isinstance(self.kind, T.BinaryType) else F.lit(self.text).cast(self.kind)


def given_value(given: object, column: ColumnPath, rounding: str = "") -> GivenValue:
    """Return a value that the column's type has: the given one, or that next to it, in the range that it bounds."""
    texts = {_text_for_cast(given, column, bound) for bound in ([rounding] if rounding else [LOWEST, HIGHEST])}
    text = texts.pop()
    if text is None or texts:
        raise unfit(given, column)
    return GivenValue(given=given, text=text, column=column)


def unreadable(values: Iterable[GivenValue], spark: SparkSession) -> list[GivenValue]:
    """Return the values that Spark cannot cast to their types: one query over no table, without a job."""
    by_kind: dict[T.DataType, list[GivenValue]] = {}
    for value in values:
        if isinstance(value.kind, (T.NumericType, T.TimestampType, T.TimestampNTZType)):
            by_kind.setdefault(value.kind, []).append(value)
    if not by_kind:
        return []
    kinds = {f"v{number}": kind for number, kind in enumerate(by_kind)}
    texts = (F.lit(json.dumps([value.text for value in by_kind[kind]])).alias(name) for name, kind in kinds.items())
    nulls = (
        F.expr(f"transform(from_json({name}, 'array<string>'), text -> {cast_sql('text', kind, 'try_cast')} IS NULL)")
        for name, kind in kinds.items()
    )
    [row] = fetched(spark.sql("SELECT * FROM VALUES (1)").select(*texts).select(*nulls))
    return [
        value
        for kind, are_null in zip(kinds.values(), row, strict=True)
        for value, is_null in zip(by_kind[kind], are_null, strict=True)
        if is_null
    ]


def unfit(given: object, column: ColumnPath) -> InvalidInputError:
    """Return the error of a value that is none of the column's type."""
    hint = "; NaN is in no range" if given != given else ""  # noqa: PLR0124  # which only NaN is
    return InvalidInputError(
        f"{value_text(given)} ({type(given).__name__}) cannot be compared with column {column.display_name}, which is"
        f" {shown_type(column.kind)}: give a value of that type{hint}"
    )


def _text_for_cast(given: object, column: ColumnPath, rounding: str) -> str | None:
    """Return a value as Spark's cast reads it; ``None`` if it is of another kind than the column."""
    kind = column.kind
    if is_text(kind):
        return (given.rstrip(" ") if column.is_char else given) if isinstance(given, str) else None
    if isinstance(kind, T.BinaryType):
        return bytes(given).hex() if isinstance(given, (bytes, bytearray)) else None
    if isinstance(kind, T.BooleanType):
        return str(given).lower() if isinstance(given, bool) else None
    if isinstance(kind, (T.DateType, T.TimestampType, T.TimestampNTZType)):
        has_zone = isinstance(given, datetime) and given.tzinfo is not None
        text = given.isoformat() if isinstance(given, date) else given
        return text if isinstance(text, str) and (isinstance(kind, T.TimestampType) or not has_zone) else None
    is_number = isinstance(given, (Decimal, Real)) and not isinstance(given, bool)
    return _number(given, kind, rounding) if is_number and isinstance(kind, T.NumericType) else None


def _number(given: Any, kind: T.DataType, rounding: str) -> str | None:
    """Spell a number of any kind, a float as it is written (0.1 is a tenth), rounded to the digits of the type."""
    if isinstance(given, Integral):
        number = Decimal(int(given))
    else:
        number = given if isinstance(given, Decimal) else Decimal(repr(float(given)))
    if number.is_nan():
        return None
    if isinstance(kind, (T.FloatType, T.DoubleType)):
        return str(float(number))
    digits = kind.scale if isinstance(kind, T.DecimalType) else 0
    try:
        return format(number.quantize(Decimal(1).scaleb(-digits), rounding, WIDE), "f")
    except InvalidOperation:  # infinite, or of more digits than any type has
        return None
