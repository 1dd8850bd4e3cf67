"""Values that users give to checks, as values of a column's type: exact, or refused."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    FractionalType,
    IntegerType,
    IntegralType,
    LongType,
    ShortType,
    TimestampNTZType,
    TimestampType,
)

from table_writer.check.columns import Place, is_text, shown
from table_writer.errors import InvalidInputError

__all__ = ["Literal", "highest", "is_ordered", "literal", "lowest"]

BITS: Final[dict[type[DataType], int]] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
WIDE: Final = Context(prec=400)  # digits: more than a double of any size has
TIMES: Final = (DateType, TimestampType, TimestampNTZType)


@dataclass(frozen=True, slots=True)
class Literal:
    """A value for comparisons with a column.

    Parameters
    ----------
    value
        As Python compares it; ``None`` where it cannot, because the session's time zone is unknown to it.
    text
        As Spark reads it, cast to the column's type.
    kind
        That type.
    """

    value: Any
    text: str
    kind: DataType

    @property
    def column(self) -> Column:
        """The value in a query; a literal, never text of SQL."""
        return F.unhex(F.lit(self.text)) if isinstance(self.kind, BinaryType) else F.lit(self.text).cast(self.kind)


def is_ordered(kind: DataType) -> bool:
    """Whether a range of values of a type can be given."""
    return is_text(kind) or isinstance(kind, (IntegralType, FractionalType, BinaryType, *TIMES))


def lowest(value: object, place: Place, time_zone: str) -> Literal:
    """Return the lowest value of the column's type that is not below the given one."""
    return _literal(value, place, time_zone, ROUND_CEILING)


def highest(value: object, place: Place, time_zone: str) -> Literal:
    """Return the highest value of the column's type that is not above the given one."""
    return _literal(value, place, time_zone, ROUND_FLOOR)


def literal(value: object, place: Place, time_zone: str) -> Literal:
    """Return a value of the column's type.

    Raises
    ------
    InvalidInputError
        It is none.
    """
    low, high = lowest(value, place, time_zone), highest(value, place, time_zone)
    if low != high or not _fits(low):
        raise _refused(value, place)
    return low


def _literal(value: object, place: Place, time_zone: str, rounding: str) -> Literal:
    kind = place.kind
    if is_text(kind) and isinstance(value, str):
        text = value.rstrip(" ") if place.is_char else value
        return Literal(text, text, kind)
    if isinstance(kind, BinaryType) and isinstance(value, (bytes, bytearray)):
        return Literal(bytes(value), bytes(value).hex(), kind)
    if isinstance(kind, BooleanType) and isinstance(value, bool):
        return Literal(value, str(value).lower(), kind)
    if isinstance(kind, TIMES):
        try:
            return _moment(value, place, time_zone, rounding)
        except OverflowError as error:  # a day after the year 9999, or the last hours of it in UTC
            raise _refused(value, place) from error
    if isinstance(kind, (IntegralType, FractionalType)):
        return _number(value, place, rounding)
    raise _refused(value, place)


def limits(kind: DataType) -> tuple[Decimal, Decimal, int] | None:
    """Return the smallest and largest value of an exact type of numbers, and its digits after the point."""
    if isinstance(kind, DecimalType):
        largest = Decimal(10**kind.precision - 1).scaleb(-kind.scale, WIDE)
        return WIDE.minus(largest), largest, kind.scale
    bits = BITS.get(type(kind))
    return (Decimal(-(2 ** (bits - 1))), Decimal(2 ** (bits - 1) - 1), 0) if bits else None


def _number(value: object, place: Place, rounding: str) -> Literal:
    number = _plain(value)
    if number is None or number.is_nan():
        raise _refused(value, place)
    kind, exact = place.kind, limits(place.kind)
    if exact is None:
        return Literal(float(number), repr(float(number)).replace("inf", "Infinity"), kind)
    smallest, largest, scale = exact
    if not smallest <= number <= largest:
        return Literal(number, "0", kind)  # no value of the column is beyond it: never compared in Spark
    rounded = number.quantize(Decimal(1).scaleb(-scale), rounding=rounding, context=WIDE)
    return Literal(rounded, format(rounded, "f"), kind)


def _plain(value: object) -> Decimal | None:
    """Return a number of any kind, a float as it is written: 0.1 is a tenth."""
    if isinstance(value, Decimal):
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    return Decimal(int(value)) if isinstance(value, numbers.Integral) else Decimal(repr(float(value)))


def _fits(found: Literal) -> bool:
    exact = limits(found.kind)
    return exact is None or exact[0] <= found.value <= exact[1]


def _moment(value: object, place: Place, time_zone: str, rounding: str) -> Literal:
    """Read a date or a time; text as ISO 8601. A date is its midnight, a time without a zone is in the session's."""
    given = _from_text(value, place)
    if isinstance(place.kind, DateType):
        if isinstance(given, datetime):
            if given.tzinfo is not None:
                raise _refused(value, place)
            late = rounding == ROUND_CEILING and given.time() > time()
            given = given.date() + timedelta(days=1 if late else 0)
        return Literal(given, given.isoformat(), place.kind)
    if not isinstance(given, datetime):
        given = datetime.combine(given, time())
    is_local = isinstance(place.kind, TimestampNTZType)
    if is_local and given.tzinfo is not None:
        raise _refused(value, place)
    text = given.isoformat(" ") if given.tzinfo is None else given.astimezone(UTC).isoformat(" ")
    return Literal(given if is_local else _instant(given, time_zone), text, place.kind)


def _from_text(value: object, place: Place) -> date | datetime:
    if not isinstance(value, str):
        if isinstance(value, date):
            return value
        raise _refused(value, place)
    for read in (date.fromisoformat, datetime.fromisoformat):
        try:
            return read(value)
        except ValueError:
            continue
    raise _refused(value, place)


def _instant(given: datetime, time_zone: str) -> datetime | None:
    if given.tzinfo is not None:
        return given
    try:
        return given.replace(tzinfo=ZoneInfo(time_zone))
    except (ZoneInfoNotFoundError, ValueError):
        return None


def _refused(value: object, place: Place) -> InvalidInputError:
    is_nan = isinstance(value, numbers.Real) and math.isnan(value)
    hint = "; NaN is in no range" if is_nan else ""
    return InvalidInputError(
        f"{shown(value)} ({type(value).__name__}) cannot be compared with column {place.shown}, which is"
        f" {place.kind.simpleString()}: give a value of that type{hint}"
    )
