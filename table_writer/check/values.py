"""Values that users give to checks: spelled for Spark, which makes them values of the column's type."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from numbers import Integral, Real
from typing import Any, Final

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    NumericType,
    TimestampNTZType,
    TimestampType,
)

from table_writer.check.columns import ColumnPath, is_text, shown
from table_writer.errors import InvalidInputError

LOWEST, HIGHEST = ROUND_CEILING, ROUND_FLOOR
WIDE: Final = Context(prec=400)  # digits: more than a double of any size has


@dataclass(frozen=True, kw_only=True)
class GivenValue:
    """A value that the values of a column are compared with."""

    given: object  # by the user
    text: str  # as Spark's cast reads it
    column: ColumnPath

    @property
    def kind(self) -> DataType:
        """The type it is cast to: a time within a day is no date, but can be compared with one."""
        return TimestampNTZType() if isinstance(self.column.kind, DateType) else self.column.kind

    @property
    def literal(self) -> Column:
        """The value in a query; a literal, never text of SQL."""
        return F.unhex(F.lit(self.text)) if isinstance(self.kind, BinaryType) else F.lit(self.text).cast(self.kind)


def given_value(given: object, column: ColumnPath, rounding: str = "") -> GivenValue:
    """Return a value that the column's type has: the given one, or that next to it, in the range that it bounds."""
    texts = {_spelled(given, column, one) for one in ([rounding] if rounding else [LOWEST, HIGHEST])}
    text = texts.pop()
    if text is None or texts:
        raise unfit(given, column)
    return GivenValue(given=given, text=text, column=column)


def unreadable(values: Iterable[GivenValue], spark: SparkSession) -> list[GivenValue]:
    """Return the values that Spark cannot cast to their types: one query over no table, without a job."""
    by_kind: dict[str, list[GivenValue]] = {}
    for one in values:
        if isinstance(one.kind, (NumericType, TimestampType, TimestampNTZType)):
            by_kind.setdefault(one.kind.simpleString(), []).append(one)
    if not by_kind:
        return []
    kinds = {f"v{number}": kind for number, kind in enumerate(by_kind)}
    texts = (F.lit(json.dumps([one.text for one in by_kind[kind]])).alias(name) for name, kind in kinds.items())
    nulls = (
        f"transform(from_json({name}, 'array<string>'), text -> try_cast(text AS {kind}) IS NULL) AS {name}"
        for name, kind in kinds.items()
    )
    [row] = spark.sql("SELECT * FROM VALUES (1)").select(*texts).selectExpr(*nulls).collect()
    return [
        one for name, kind in kinds.items() for one, is_null in zip(by_kind[kind], row[name], strict=True) if is_null
    ]


def unfit(given: object, column: ColumnPath) -> InvalidInputError:
    """Return the error of a value that is none of the column's type."""
    hint = "; NaN is in no range" if given != given else ""  # noqa: PLR0124  # which only NaN is
    return InvalidInputError(
        f"{shown(given)} ({type(given).__name__}) cannot be compared with column {column.shown}, which is"
        f" {column.kind.simpleString()}: give a value of that type{hint}"
    )


def _spelled(given: object, column: ColumnPath, rounding: str) -> str | None:
    """Return a value as Spark's cast reads it; ``None`` if it is of another kind than the column."""
    kind = column.kind
    if is_text(kind):
        return (given.rstrip(" ") if column.is_char else given) if isinstance(given, str) else None
    if isinstance(kind, BinaryType):
        return bytes(given).hex() if isinstance(given, (bytes, bytearray)) else None
    if isinstance(kind, BooleanType):
        return str(given).lower() if isinstance(given, bool) else None
    if isinstance(kind, (DateType, TimestampType, TimestampNTZType)):
        has_zone = isinstance(given, datetime) and given.tzinfo is not None
        text = given.isoformat() if isinstance(given, date) else given
        return text if isinstance(text, str) and (isinstance(kind, TimestampType) or not has_zone) else None
    is_number = isinstance(given, (Decimal, Real)) and not isinstance(given, bool)
    return _number(given, kind, rounding) if is_number and isinstance(kind, NumericType) else None


def _number(given: Any, kind: DataType, rounding: str) -> str | None:
    """Spell a number of any kind, a float as it is written (0.1 is a tenth), rounded to the digits of the type."""
    if isinstance(given, Integral):
        number = Decimal(int(given))
    else:
        number = given if isinstance(given, Decimal) else Decimal(repr(float(given)))
    if number.is_nan():
        return None
    if isinstance(kind, (FloatType, DoubleType)):
        return str(float(number))
    digits = kind.scale if isinstance(kind, DecimalType) else 0
    try:
        return format(number.quantize(Decimal(1).scaleb(-digits), rounding, WIDE), "f")
    except InvalidOperation:  # infinite, or of more digits than any type has
        return None
