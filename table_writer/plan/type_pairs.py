"""Which type's values are values of another: one decision for each pair of types without fields or elements.

A pair is done for the user (every value fits), checked on data (the type says that no digit is lost, the values must
say that none is too large) or refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
    YearMonthIntervalType,
)

from table_writer.plan.limits import Expression, Rule, enforced
from table_writer.plan.table_schema import plain_type

__all__ = ["Match", "match_values", "unstorable"]

INTEGER_DIGITS: Final[dict[type[DataType], int]] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
WIDER: Final[dict[type[DataType], tuple[type[DataType], ...]]] = {
    ByteType: (ShortType, IntegerType, LongType, FloatType, DoubleType),
    ShortType: (IntegerType, LongType, FloatType, DoubleType),
    IntegerType: (LongType, DoubleType),
    FloatType: (DoubleType,),
    DateType: (TimestampType, TimestampNTZType),
}
STORABLE: Final = (
    *(BinaryType, BooleanType, ByteType, DateType, DecimalType, DoubleType, FloatType, IntegerType, LongType),
    *(ShortType, StringType, CharType, VarcharType, TimestampNTZType, TimestampType),
)
HAS_TEXT: Final = (
    *(BooleanType, ByteType, DateType, DecimalType, DoubleType, FloatType, IntegerType, LongType, ShortType),
    *(StringType, TimestampNTZType, TimestampType, DayTimeIntervalType, YearMonthIntervalType),
)
LARGEST_PLAIN_SCALE: Final = 6  # java.math.BigDecimal: smaller numbers are spelled with an exponent


@dataclass(frozen=True, kw_only=True)
class Match:
    """How values of one type become values of another.

    Parameters
    ----------
    convert
        What to make of a value; None where it is passed through untouched.
    rules
        What the data must keep to; ``convert`` enforces it.
    problems
        Why it cannot be done; the rest means nothing then.
    filled
        Paths of fields that become null because they are missing.
    """

    convert: Expression | None = None
    rules: tuple[Rule, ...] = ()
    problems: tuple[str, ...] = ()
    filled: tuple[str, ...] = ()


def unstorable(kind: DataType, path: str) -> tuple[str, ...]:
    """Name every place in a type that no table of ours can hold."""
    if isinstance(kind, StructType):
        return tuple(problem for field in kind for problem in unstorable(field.dataType, f"{path}.{field.name}"))
    if isinstance(kind, ArrayType):
        return unstorable(kind.elementType, f"{path}.element")
    if isinstance(kind, MapType):
        return unstorable(kind.keyType, f"{path}.key") + unstorable(kind.valueType, f"{path}.value")
    if isinstance(kind, NullType):
        return (f"column {path} has no type (void): cast it, for example F.lit(None).cast('string')",)
    if not isinstance(kind, STORABLE):
        return (f"column {path} has type {kind.simpleString()}, which is not supported",)
    return ()


def match_values(given: DataType, wanted: DataType, path: str) -> Match:
    """Match two types that are not both structs, arrays or maps."""
    if isinstance(given, NullType):
        return Match(convert=lambda column: column.cast(plain_type(wanted)))
    if isinstance(wanted, (CharType, VarcharType)) and isinstance(given, HAS_TEXT):
        return _limited_text(given, wanted, path)
    if given == wanted:
        return Match()
    if isinstance(wanted, DecimalType):
        return _decimal(given, wanted, path)
    if isinstance(wanted, StringType) and isinstance(given, HAS_TEXT):
        return Match(convert=lambda column: _text(column, given))
    widens = type(wanted) in WIDER.get(type(given), ())
    return Match(convert=lambda column: column.cast(wanted)) if widens else _refused(given, wanted, path)


def _refused(given: DataType, wanted: DataType, path: str, advice: str = "") -> Match:
    pair = f"column {path} is {given.simpleString()} in the DataFrame and {wanted.simpleString()} in the table"
    return Match(problems=(pair + advice,))


def _decimal(given: DataType, wanted: DecimalType, path: str) -> Match:
    scale = given.scale if isinstance(given, DecimalType) else 0
    if not isinstance(given, DecimalType) and type(given) not in INTEGER_DIGITS:
        return _refused(given, wanted, path)
    if scale > wanted.scale:
        name = wanted.simpleString()
        advice = f", which has fewer digits after the point: round it, F.round({path!r}, {wanted.scale}).cast({name!r})"
        return _refused(given, wanted, path, advice)
    digits = given.precision - scale if isinstance(given, DecimalType) else INTEGER_DIGITS[type(given)]
    room = wanted.precision - wanted.scale
    if digits <= room:
        return Match(convert=lambda column: column.cast(wanted))
    # In the given type's own kind: comparing a BIGINT with a decimal would turn every value into one.
    bound = Decimal("1" + "0" * room) if isinstance(given, DecimalType) else 10**room
    rule = Rule(
        column=path,
        rule=wanted.simpleString(),
        verdict=f"have more than {room} digits before the point",
        offender=lambda column: F.when((column >= bound) | (column <= -bound), _text(column, given)),
    )
    return Match(convert=enforced(rule, lambda column: column.cast(wanted)), rules=(rule,))


def _limited_text(given: DataType, wanted: CharType | VarcharType, path: str) -> Match:
    """Enforce the length as Spark's INSERT does: blanks at the end may go, ``char(n)`` is padded with them."""
    length = wanted.length

    def offender(column: Column) -> Column:
        text = _text(column, given)
        return F.when((F.length(text) > length) & (F.length(F.rtrim(text)) > length), text)

    def accepted(column: Column) -> Column:
        text = _text(column, given)
        return F.rpad(text, length, " ") if isinstance(wanted, CharType) else F.substring(text, 1, length)

    rule = Rule(column=path, rule=wanted.simpleString(), verdict="are longer", offender=offender)
    return Match(convert=enforced(rule, accepted), rules=(rule,))


def _text(column: Column, given: DataType) -> Column:
    """Spell a value as INSERT does, whatever ``spark.sql.ansi.enabled`` says: decimals without an exponent."""
    text = column.cast("string")
    if not isinstance(given, DecimalType) or given.scale <= LARGEST_PLAIN_SCALE:
        return text
    digits = F.lpad(F.regexp_replace(text, r"^-|\.|E.*", ""), given.scale, "0")
    sign = F.when(text.startswith("-"), "-0.").otherwise("0.")
    return F.when(text.contains("E"), F.concat(sign, digits)).otherwise(text)
