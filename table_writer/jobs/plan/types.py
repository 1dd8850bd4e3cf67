"""The types that fit into others without loss: one decision for each pair of types without fields or elements.

A pair is done for the user (every value fits), checked on data (the type says that no digit is lost, the values must
say that none is too large) or refused. What a type alone cannot decide is a rule (``varchar(n)``, decimal digits, NOT
NULL): executors apply rules while rows are written, in the same pass, and the first bad row fails the job. Only then
are the bad rows counted, in one more job, so that the error can say how many there are and show one.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql import types as T  # noqa: N812  # as Spark documents it

from table_writer.errors import InvalidInputError, SchemaMismatchError
from table_writer.model.column_statistics import CHAR_VARCHAR
from table_writer.model.table import Table
from table_writer.model.table_kind import provider_of
from table_writer.spark.sql import SPARK_ERRORS, fetched, quoted
from table_writer.spark.types import LIMITED, rebuilt, shown_type, type_of_hive, type_sql

_logger = logging.getLogger(__name__)
Expression = Callable[[Column], Column]
"""The conversion of a value, wherever it is: in a column, a struct's field, an element of an array."""

NOT_NULL: Final = "NOT NULL"
ROW_TEXT: Final = "__table_writer_row"
LONGEST_EXAMPLE: Final = 80  # characters of a value shown in an error
MARKED: Final = re.compile(r"\[table_writer limit: (.*?) :table_writer limit\]", re.DOTALL)
"""Finds the message of our ``raise_error`` in the text of Spark's exception."""

INTEGER_DIGITS: Final[dict[type[T.DataType], int]] = {T.ByteType: 3, T.ShortType: 5, T.IntegerType: 10, T.LongType: 19}

WIDER: Final[dict[type[T.DataType], tuple[type[T.DataType], ...]]] = {
    T.ByteType: (T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType),
    T.ShortType: (T.IntegerType, T.LongType, T.FloatType, T.DoubleType),
    T.IntegerType: (T.LongType, T.DoubleType),
    T.FloatType: (T.DoubleType,),
    T.DateType: (T.TimestampType, T.TimestampNTZType),
}

NUMBERS: Final = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType, T.DecimalType)
TIMES: Final = (T.DateType, T.TimestampType, T.TimestampNTZType)
STORABLE: Final = (
    *NUMBERS,
    *TIMES,
    T.BooleanType,
    T.BinaryType,
    T.StringType,
    T.CharType,
    T.VarcharType,
    T.UserDefinedType,
)
HAS_TEXT: Final = (*NUMBERS, *TIMES, T.BooleanType, T.StringType, T.DayTimeIntervalType, T.YearMonthIntervalType)
LARGEST_PLAIN_SCALE: Final = 6  # java.math.BigDecimal: smaller numbers are spelled with an exponent


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule on the values of one place in a type, as seen from some outer place."""

    column: str  # the path of the place: info.code, tags.element
    rule: str  # as the table declares it: varchar(3)
    verdict: str  # on rows that break it
    offender: Expression  # the text of the first value in there that breaks the rule; null where none does


@dataclass(frozen=True, kw_only=True, eq=False)
class Limit:
    """A rule on the rows of one DataFrame: which rows break it, and the text that shows one that does."""

    rule: Rule
    violates: Column
    example: Column


def enforce(rule: Rule, accepted: Expression) -> Expression:
    """Return the expression of a value: the accepted one, or an error of the task that :func:`violation` knows."""

    def checked(value: Column) -> Column:
        bad = rule.offender(value)
        begin = f"[table_writer limit: column {rule.column} is {rule.rule}, and one row or more {rule.verdict}"
        text = F.concat(F.lit(f"{begin}, for example "), _quoted_text(bad), F.lit(" :table_writer limit]"))
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


def limits_of(rules: Sequence[Rule], column: Column) -> tuple[Limit, ...]:
    """Return the rules of one column as limits; a null is shown by the row around it."""
    return tuple(
        Limit(
            rule=rule,
            violates=rule.offender(column).isNotNull(),
            example=F.col(ROW_TEXT) if rule.rule == NOT_NULL else rule.offender(column),
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
        counted = _violation_texts(df, limits)
    except SPARK_ERRORS as failure:
        _logger.warning("could not count the rows that do not fit table %s: %s", table, failure)
    return SchemaMismatchError(
        f"rows do not fit table {table}, nothing was published: {'; '.join(counted or [found[1]])}."
        " Correct or filter these rows, or change the column's type.",
        table=table,
    )


def _violation_texts(df: DataFrame, limits: Sequence[Limit]) -> list[str]:
    aggregates = [F.count(F.lit(1))]
    for limit in limits:
        aggregates += [
            F.count(F.when(limit.violates, F.lit(1))),
            F.min(F.when(limit.violates, _quoted_text(limit.example))),
        ]
    named = [aggregate.alias(f"_{position}") for position, aggregate in enumerate(aggregates)]
    rows = df.withColumn(ROW_TEXT, _row_text(df))  # once, however many limits show it
    row_count, *found = tuple(fetched(rows.agg(*named))[0])
    return [
        f"column {rule.column} is {rule.rule}, and {bad} of {row_count} rows {rule.verdict}, for example {example}"
        for rule, bad, example in zip((limit.rule for limit in limits), found[::2], found[1::2], strict=True)
        if bad
    ]


def _quoted_text(text: Column) -> Column:
    """Quote a text, shortened on the executor."""
    cut = F.concat(F.substring(text, 1, LONGEST_EXAMPLE - 1), F.lit("…"))
    return F.concat(F.lit("'"), F.when(F.length(text) > LONGEST_EXAMPLE, cut).otherwise(text), F.lit("'"))


def _row_text(df: DataFrame) -> Column:
    """Spell the atomic columns of a row that are not null: ``id=7, name=x``."""
    parts = [
        F.concat(F.lit(f"{field.name}="), F.col(quoted(field.name)).cast("string"))
        for field in df.schema
        if isinstance(field.dataType, T.AtomicType) and not isinstance(field.dataType, T.BinaryType)
    ]
    return F.concat_ws(", ", *parts)


@dataclass(frozen=True, kw_only=True)
class Match:
    """The way in which values of one type become values of another."""

    convert: Expression | None = None  # enforces the rules; None: values pass untouched
    rules: tuple[Rule, ...] = ()
    problems: tuple[str, ...] = ()  # why it cannot be done; then the rest means nothing
    filled: tuple[str, ...] = ()  # paths of fields that become null because they are missing


def unstorable(kind: T.DataType, path: str) -> tuple[str, ...]:
    """Yield every place in a type that our tables cannot hold."""
    if isinstance(kind, T.StructType):
        return tuple(problem for field in kind for problem in unstorable(field.dataType, f"{path}.{field.name}"))
    if isinstance(kind, T.ArrayType):
        return unstorable(kind.elementType, f"{path}.element")
    if isinstance(kind, T.MapType):
        return unstorable(kind.keyType, f"{path}.key") + unstorable(kind.valueType, f"{path}.value")
    if isinstance(kind, T.NullType):
        return (f"column {path} has no type (void): cast it, for example F.lit(None).cast('string')",)
    if not isinstance(kind, STORABLE):
        return (f"column {path} has type {shown_type(kind)}, which is not supported",)
    return ()


def match_values(given: T.DataType, wanted: T.DataType, path: str) -> Match:
    if isinstance(given, T.NullType):
        return Match(convert=lambda column: column.cast(plain_type(wanted)))
    if isinstance(wanted, LIMITED) and isinstance(given, HAS_TEXT):
        return _limited_text(given, wanted, path)
    if given == wanted:
        return Match()
    if isinstance(wanted, T.DecimalType):
        return _decimal(given, wanted, path)
    if isinstance(wanted, T.StringType) and isinstance(given, HAS_TEXT):
        return Match(convert=lambda column: _text(column, given))
    widens = type(wanted) in WIDER.get(type(given), ())
    return Match(convert=lambda column: column.cast(wanted)) if widens else refused_pair(given, wanted, path)


def refused_pair(given: T.DataType, wanted: T.DataType, path: str, advice: str = "") -> Match:
    pair = f"column {path} is {shown_type(given)} in the DataFrame and {shown_type(wanted)} in the table"
    are_atomic = isinstance(given, T.AtomicType) and isinstance(wanted, T.AtomicType)  # no cast makes a list of a text
    return Match(problems=(pair + (advice or ("; cast it" if are_atomic else "")),))


def _decimal(given: T.DataType, wanted: T.DecimalType, path: str) -> Match:
    scale = given.scale if isinstance(given, T.DecimalType) else 0
    if not isinstance(given, T.DecimalType) and type(given) not in INTEGER_DIGITS:
        return refused_pair(given, wanted, path)
    if scale > wanted.scale:
        name = shown_type(wanted)
        advice = f", which has fewer digits after the point: round it, F.round({path!r}, {wanted.scale}).cast({name!r})"
        return refused_pair(given, wanted, path, advice)
    digits = given.precision - scale if isinstance(given, T.DecimalType) else INTEGER_DIGITS[type(given)]
    room = wanted.precision - wanted.scale
    if digits <= room:
        return Match(convert=lambda column: column.cast(wanted))
    # In the given type's own kind: comparing a BIGINT with a decimal would turn every value into one.
    bound = Decimal("1" + "0" * room) if isinstance(given, T.DecimalType) else 10**room
    rule = Rule(
        column=path,
        rule=shown_type(wanted),
        verdict=f"have more than {room} digits before the point",
        offender=lambda column: F.when((column >= bound) | (column <= -bound), _text(column, given)),
    )
    return Match(convert=enforce(rule, lambda column: column.cast(wanted)), rules=(rule,))


def _limited_text(given: T.DataType, wanted: T.CharType | T.VarcharType, path: str) -> Match:
    """Enforce the length as Spark's INSERT does: blanks at the end may go, ``char(n)`` is padded with them."""
    length = wanted.length

    def offender(column: Column) -> Column:
        text = _text(column, given)
        return F.when((F.length(text) > length) & (F.length(F.rtrim(text)) > length), text)

    def accepted(column: Column) -> Column:
        text = _text(column, given)
        return F.rpad(text, length, " ") if isinstance(wanted, T.CharType) else F.substring(text, 1, length)

    rule = Rule(column=path, rule=shown_type(wanted), verdict="are longer", offender=offender)
    return Match(convert=enforce(rule, accepted), rules=(rule,))


def _text(column: Column, given: T.DataType) -> Column:
    """Spell a value as INSERT does, whatever ``spark.sql.ansi.enabled`` says: decimals without an exponent."""
    text = column.cast("string")
    if not isinstance(given, T.DecimalType) or given.scale <= LARGEST_PLAIN_SCALE:
        return text
    digits = F.lpad(F.regexp_replace(text, r"^-|\.|E.*", ""), given.scale, "0")
    sign = F.when(text.startswith("-"), "-0.").otherwise("0.")
    return F.when(text.contains("E"), F.concat(sign, digits)).otherwise(text)


def table_schema(table: Table) -> T.StructType:
    """Return data columns followed by partition columns, with Spark's types, case, order and metadata."""
    stored = _stored_schema(table)
    partition_names = [column.name.lower() for column in table.partition_columns]
    if stored is None or provider_of(table) == "hive":
        columns = (*table.columns, *table.partition_columns)
        types = _parsed_types([column.type for column in columns])
        hives = T.StructType(
            [stored_field(column.name, of, column.comment) for column, of in zip(columns, types, strict=True)]
        )
        if stored is None or _plain(stored, partition_names) != _plain(hives, partition_names):
            return hives
    data = [field for field in stored if field.name.lower() not in partition_names]
    by_name = {field.name.lower(): field for field in stored}
    return T.StructType(data + [by_name[name] for name in partition_names])


def partition_schema(table: Table) -> T.StructType:
    """Return the partition columns of :func:`table_schema`: its last ones."""
    schema = table_schema(table)
    return T.StructType(schema.fields[len(schema) - len(table.partition_columns) :])


def _stored_schema(table: Table) -> T.StructType | None:
    parameters = table.parameters
    text = parameters.get("spark.sql.sources.schema")
    if text is None and "spark.sql.sources.schema.numParts" in parameters:
        count = int(parameters["spark.sql.sources.schema.numParts"])
        text = "".join(parameters[f"spark.sql.sources.schema.part.{index}"] for index in range(count))
    try:
        return None if text is None else T.StructType.fromJson(json.loads(text))
    except (ImportError, AttributeError, KeyError) as error:
        raise InvalidInputError(
            f"table {table.name} has a column of a user-defined type whose Python class is not to be had here"
            f" ({type(error).__name__}: {error}). Nothing was written. Install or import what defines it; a type of"
            " Scala alone cannot be written from Python.",
            table=str(table.name),
        ) from error


def _plain(schema: T.StructType, partition_names: Sequence[str]) -> list[str]:
    """Describe columns for Spark's comparison: partition columns last; case and nullability don't count."""
    last = sorted(schema, key=lambda field: field.name.lower() in partition_names)
    return [f"{field.name} {shown_type(field.dataType)}".lower() for field in last]


def stored_field(name: str, kind: T.DataType, comment: str = "") -> T.StructField:
    """Return a column as Spark keeps it: ``char(n)`` and ``varchar(n)`` are strings, their limits metadata."""
    plain = plain_type(kind)
    metadata: dict[str, Any] = {"comment": comment} if comment else {}
    if plain != kind:
        metadata[CHAR_VARCHAR] = type_sql(kind)
    return T.StructField(name, plain, nullable=True, metadata=metadata)


def plain_type(kind: T.DataType) -> T.DataType:
    plain: T.DataType = rebuilt(kind, lambda inner: T.StringType() if isinstance(inner, LIMITED) else inner)
    return plain


def _parsed_types(texts: Sequence[str]) -> list[T.DataType]:
    """Read types in Hive's spelling, in one call of Java: each takes 2 ms, and a table may have hundreds."""
    whole = type_of_hive(f"struct<{','.join(f'c{number}:{text}' for number, text in enumerate(texts))}>")
    return [field.dataType for field in cast("T.StructType", whole)]
