"""Which types fit into which without loss: one decision for each pair of types without fields or elements.

A pair is done for the user (every value fits), checked on data (the type says that no digit is lost, the values must
say that none is too large) or refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql import types as T  # noqa: N812  # as Spark documents it
from pyspark.sql.types import _parse_datatype_string

from table_writer.model.column_statistics import CHAR_VARCHAR
from table_writer.model.table import Table
from table_writer.plan.file_options import provider_of
from table_writer.plan.limits import Expression, Rule, enforced
from table_writer.spark.sql import rebuilt

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
STORABLE: Final = (*NUMBERS, *TIMES, T.BooleanType, T.BinaryType, T.StringType, T.CharType, T.VarcharType)
HAS_TEXT: Final = (*NUMBERS, *TIMES, T.BooleanType, T.StringType, T.DayTimeIntervalType, T.YearMonthIntervalType)
LIMITED: Final = (T.CharType, T.VarcharType)
LARGEST_PLAIN_SCALE: Final = 6  # java.math.BigDecimal: smaller numbers are spelled with an exponent


@dataclass(frozen=True, kw_only=True)
class Match:
    """How values of one type become values of another.

    ``convert`` is ``None`` where values pass untouched; it enforces the ``rules``. ``problems`` say why it cannot be
    done; then the rest means nothing. ``filled`` are paths of fields that become null because they are missing.
    """

    convert: Expression | None = None
    rules: tuple[Rule, ...] = ()
    problems: tuple[str, ...] = ()
    filled: tuple[str, ...] = ()


def unstorable(kind: T.DataType, path: str) -> tuple[str, ...]:
    """Name every place in a type that no table of ours can hold."""
    if isinstance(kind, T.StructType):
        return tuple(problem for field in kind for problem in unstorable(field.dataType, f"{path}.{field.name}"))
    if isinstance(kind, T.ArrayType):
        return unstorable(kind.elementType, f"{path}.element")
    if isinstance(kind, T.MapType):
        return unstorable(kind.keyType, f"{path}.key") + unstorable(kind.valueType, f"{path}.value")
    if isinstance(kind, T.NullType):
        return (f"column {path} has no type (void): cast it, for example F.lit(None).cast('string')",)
    if not isinstance(kind, STORABLE):
        return (f"column {path} has type {kind.simpleString()}, which is not supported",)
    return ()


def match_values(given: T.DataType, wanted: T.DataType, path: str) -> Match:
    """Match two types that are not both structs, arrays or maps."""
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
    return Match(convert=lambda column: column.cast(wanted)) if widens else _refused(given, wanted, path)


def _refused(given: T.DataType, wanted: T.DataType, path: str, advice: str = "") -> Match:
    pair = f"column {path} is {given.simpleString()} in the DataFrame and {wanted.simpleString()} in the table"
    return Match(problems=(pair + advice,))


def _decimal(given: T.DataType, wanted: T.DecimalType, path: str) -> Match:
    scale = given.scale if isinstance(given, T.DecimalType) else 0
    if not isinstance(given, T.DecimalType) and type(given) not in INTEGER_DIGITS:
        return _refused(given, wanted, path)
    if scale > wanted.scale:
        name = wanted.simpleString()
        advice = f", which has fewer digits after the point: round it, F.round({path!r}, {wanted.scale}).cast({name!r})"
        return _refused(given, wanted, path, advice)
    digits = given.precision - scale if isinstance(given, T.DecimalType) else INTEGER_DIGITS[type(given)]
    room = wanted.precision - wanted.scale
    if digits <= room:
        return Match(convert=lambda column: column.cast(wanted))
    # In the given type's own kind: comparing a BIGINT with a decimal would turn every value into one.
    bound = Decimal("1" + "0" * room) if isinstance(given, T.DecimalType) else 10**room
    rule = Rule(
        column=path,
        rule=wanted.simpleString(),
        verdict=f"have more than {room} digits before the point",
        offender=lambda column: F.when((column >= bound) | (column <= -bound), _text(column, given)),
    )
    return Match(convert=enforced(rule, lambda column: column.cast(wanted)), rules=(rule,))


def _limited_text(given: T.DataType, wanted: T.CharType | T.VarcharType, path: str) -> Match:
    """Enforce the length as Spark's INSERT does: blanks at the end may go, ``char(n)`` is padded with them."""
    length = wanted.length

    def offender(column: SparkColumn) -> SparkColumn:
        text = _text(column, given)
        return F.when((F.length(text) > length) & (F.length(F.rtrim(text)) > length), text)

    def accepted(column: SparkColumn) -> SparkColumn:
        text = _text(column, given)
        return F.rpad(text, length, " ") if isinstance(wanted, T.CharType) else F.substring(text, 1, length)

    rule = Rule(column=path, rule=wanted.simpleString(), verdict="are longer", offender=offender)
    return Match(convert=enforced(rule, accepted), rules=(rule,))


def _text(column: SparkColumn, given: T.DataType) -> SparkColumn:
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
        hives = T.StructType([stored_field(one.name, _parsed(one.type), one.comment) for one in columns])
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
    return None if text is None else T.StructType.fromJson(json.loads(text))


def _plain(schema: T.StructType, partition_names: Sequence[str]) -> list[str]:
    """Describe columns for Spark's comparison: partition columns last; case and nullability don't count."""
    last = sorted(schema, key=lambda field: field.name.lower() in partition_names)
    return [f"{field.name} {field.dataType.simpleString()}".lower() for field in last]


def stored_field(name: str, kind: T.DataType, comment: str = "") -> T.StructField:
    """Return a column as Spark keeps it: ``char(n)`` and ``varchar(n)`` are strings, their limits metadata."""
    plain = plain_type(kind)
    metadata: dict[str, Any] = {"comment": comment} if comment else {}
    if plain != kind:
        metadata[CHAR_VARCHAR] = kind.simpleString()
    return T.StructField(name, plain, nullable=True, metadata=metadata)


def exact_type(field: T.StructField) -> T.DataType:
    """Return a column's type with ``char(n)`` and ``varchar(n)`` in their places."""
    declared = field.metadata.get(CHAR_VARCHAR)
    return field.dataType if declared is None else _with_limits(field.dataType, _parsed(declared))


def plain_type(kind: T.DataType) -> T.DataType:
    """Return a type with string in the place of ``char(n)`` and ``varchar(n)``."""
    plain: T.DataType = rebuilt(kind, lambda one: T.StringType() if isinstance(one, LIMITED) else one)
    return plain


def _with_limits(kind: T.DataType, declared: T.DataType) -> T.DataType:
    """Take limits from what was declared, which says nothing of nulls, and all else from the type."""
    if isinstance(kind, T.StructType) and isinstance(declared, T.StructType):
        return T.StructType(
            [
                T.StructField(field.name, _with_limits(field.dataType, other.dataType), field.nullable, field.metadata)
                for field, other in zip(kind, declared, strict=True)
            ]
        )
    if isinstance(kind, T.ArrayType) and isinstance(declared, T.ArrayType):
        return T.ArrayType(_with_limits(kind.elementType, declared.elementType), kind.containsNull)
    if isinstance(kind, T.MapType) and isinstance(declared, T.MapType):
        key, value = _with_limits(kind.keyType, declared.keyType), _with_limits(kind.valueType, declared.valueType)
        return T.MapType(key, value, kind.valueContainsNull)
    return declared if isinstance(declared, LIMITED) else kind


def _parsed(text: str) -> T.DataType:
    """Read a type in Hive's spelling, which does not quote the names of fields."""
    return _parse_datatype_string(re.sub(r"(struct<|,)([^,<:`]+)(?=:)", r"\1`\2`", text))
