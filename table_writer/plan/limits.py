"""Rules that a type alone cannot decide: ``varchar(n)``, decimal digits, NOT NULL.

Executors apply them while rows are written, in the same pass: the first bad row fails the job. Only then are the bad
rows counted, in one more job, so that the error can say how many there are and show one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import AtomicType, BinaryType, DataType

from table_writer.errors import SchemaMismatchError
from table_writer.spark.sql import SPARK_ERRORS, quoted

_logger = logging.getLogger(__name__)
Expression = Callable[[Column], Column]
"""What to make of a value, wherever it is: in a column, a struct's field, an element of an array."""

NOT_NULL: Final = "NOT NULL"
LONGEST_EXAMPLE: Final = 80  # characters of a value shown in an error
MARKED: Final = re.compile(r"\[table_writer limit: (.*?) :table_writer limit\]", re.DOTALL)
"""How the message of our ``raise_error`` is found in the text of Spark's exception."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule on the values of one place in a type, as seen from some outer place.

    ``column`` is the path of the place, such as ``info.code`` or ``tags.element``. ``rule`` is as the table declares
    it, such as ``varchar(3)``. ``verdict`` is what is said of rows that break it. ``offender`` gives the text of the
    first value in there that breaks the rule; null where none does.
    """

    column: str
    rule: str
    verdict: str
    offender: Expression


@dataclass(frozen=True, kw_only=True, eq=False)
class Limit:
    """A rule on the rows of one DataFrame: which rows break it, and the text that shows one that does."""

    rule: Rule
    violates: Column
    example: Column


def enforced(rule: Rule, accepted: Expression) -> Expression:
    """Return what to make of a value: what is accepted, or an error of the task that :func:`violation` knows."""

    def checked(value: Column) -> Column:
        bad = rule.offender(value)
        begin = f"[table_writer limit: column {rule.column} is {rule.rule}, and one row or more {rule.verdict}"
        text = F.concat(F.lit(f"{begin}, for example "), _shown(bad), F.lit(" :table_writer limit]"))
        return F.when(bad.isNull(), accepted(value)).otherwise(F.raise_error(text))

    return checked


def in_struct(rule: Rule, field: str) -> Rule:
    """Return the rule as seen from the struct around its field; a struct that is null breaks nothing."""
    return replace(rule, offender=lambda column: F.when(column.isNotNull(), rule.offender(column.getField(field))))


def in_array(rule: Rule, elements: Expression = lambda column: column) -> Rule:
    """Return the rule as seen from the array around its elements, or from a map, whose keys or values are one."""

    def offender(column: Column) -> Column:
        bad = F.transform(elements(column), lambda item: rule.offender(item))  # noqa: PLW0108  # Spark counts parameters
        return F.get(F.filter(bad, lambda item: item.isNotNull()), F.lit(0))

    return replace(rule, offender=offender)


def limits_of(rules: Sequence[Rule], column: Column, df: DataFrame) -> tuple[Limit, ...]:
    """Return the rules of one column as limits; a null is shown by the row around it."""
    return tuple(
        Limit(
            rule=rule,
            violates=rule.offender(column).isNotNull(),
            example=_row_text(df) if rule.rule == NOT_NULL else rule.offender(column),
        )
        for rule in rules
    )


def violation(error: Exception, df: DataFrame, limits: Sequence[Limit], table: str) -> SchemaMismatchError | None:
    """Return the error that counts the rows breaking a limit, or None where a job failed for another reason.

    Runs one aggregation over the DataFrame that the user gave. If that finds nothing, because the input gives other
    rows the second time, or fails, the error tells of the one row that was met first.
    """
    found = MARKED.search(str(error))
    if found is None:
        return None
    counted: list[str] = []
    try:
        counted = _counted(df, limits)
    except SPARK_ERRORS as failure:
        _logger.warning("could not count the rows that do not fit table %s: %s", table, failure)
    return SchemaMismatchError(
        f"rows do not fit table {table}, nothing was published: {'; '.join(counted or [found[1]])}."
        " Correct or filter these rows, or change the column's type.",
        table=table,
    )


def _counted(df: DataFrame, limits: Sequence[Limit]) -> list[str]:
    aggregates = [F.count(F.lit(1))]
    for limit in limits:
        aggregates += [F.count(F.when(limit.violates, F.lit(1))), F.min(F.when(limit.violates, _shown(limit.example)))]
    named = [aggregate.alias(f"_{position}") for position, aggregate in enumerate(aggregates)]
    row_count, *found = tuple(df.agg(*named).collect()[0])
    return [
        f"column {rule.column} is {rule.rule}, and {bad} of {row_count} rows {rule.verdict}, for example {example}"
        for rule, bad, example in zip((one.rule for one in limits), found[::2], found[1::2], strict=True)
        if bad
    ]


def _shown(text: Column) -> Column:
    """Quote a text, shortened on the executor."""
    cut = F.concat(F.substring(text, 1, LONGEST_EXAMPLE - 1), F.lit("…"))
    return F.concat(F.lit("'"), F.when(F.length(text) > LONGEST_EXAMPLE, cut).otherwise(text), F.lit("'"))


def _row_text(df: DataFrame) -> Column:
    """Spell the atomic columns of a row that are not null: ``id=7, name=x``."""
    parts = [
        F.concat(F.lit(f"{field.name}="), df[quoted(field.name)].cast("string"))
        for field in df.schema
        if _is_short(field.dataType)
    ]
    return F.concat_ws(", ", *parts)


def _is_short(kind: DataType) -> bool:
    return isinstance(kind, AtomicType) and not isinstance(kind, BinaryType)
