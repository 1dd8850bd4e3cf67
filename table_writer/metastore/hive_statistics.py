"""Column statistics as Hive's metastore keeps them, from and to figures of files. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from hmsclient.genthrift.hive_metastore import ttypes

from table_writer.model.column_figures import ColumnFigures
from table_writer.model.table import Table

Described = tuple[Any, ...]
"""Statistics of one column: the name of Hive's kind, then its fields in Hive's order."""

KINDS: Final = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), ("longStats", "integer")),
    **dict.fromkeys(("float", "double"), ("doubleStats", "float")),
    **dict.fromkeys(("string", "varchar", "char"), ("stringStats", "text")),
    "timestamp": ("longStats", "timestamp"),  # in seconds
    "date": ("dateStats", "date"),
    "decimal": ("decimalStats", "decimal"),
    "boolean": ("booleanStats", "boolean"),
    "binary": ("binaryStats", "binary"),
}
"""By the types of a table: where Hive keeps its statistics, and what a file's column must hold for that."""

DATA: Final = {
    "longStats": ttypes.LongColumnStatsData,
    "doubleStats": ttypes.DoubleColumnStatsData,
    "dateStats": ttypes.DateColumnStatsData,
    "decimalStats": ttypes.DecimalColumnStatsData,
    "stringStats": ttypes.StringColumnStatsData,
    "binaryStats": ttypes.BinaryColumnStatsData,
    "booleanStats": ttypes.BooleanColumnStatsData,
}
MICROS: Final = 1_000_000


def _read_what_newer_servers_send() -> None:
    """Read what hmsclient cannot: bit vectors, which are no text since Hive 3, and Hive 4's statistics of timestamps.

    On the wire the latter look as those of dates do.
    """
    fields = ttypes.ColumnStatisticsData.thrift_spec
    for _, _, _, nested, _ in fields[1:]:
        cls, held = nested
        nested[1] = cls.thrift_spec = tuple(
            (*one[:3], "BINARY", one[4]) if one is not None and one[2] == "bitVectors" else one for one in held
        )
    number, kind, _, nested, default = fields[-1]
    fields = (*fields, (number + 1, kind, "timestampStats", nested, default))
    ttypes.ColumnStatisticsData.thrift_spec = fields
    ttypes.ColumnStatisticsData.timestampStats = None
    ttypes.ColumnStatisticsObj.thrift_spec[3][3][1] = fields  # it holds the fields by themselves


_read_what_newer_servers_send()


def described(table: Table, figures: Mapping[str, ColumnFigures]) -> dict[str, Described]:
    """Return what a metastore is to know of the columns of some files, by the names of the table's columns.

    Left out are columns whose type in the table is another than in the files, those whose number of distinct values is
    not known, since Hive has no way to say so, and those whose bounds it wants and nobody knows.
    """
    known = {name.lower(): one for name, one in figures.items()}
    found: dict[str, Described] = {}
    for column in table.columns:
        one = known.get(column.name.lower())
        field, kind = KINDS.get(column.type.lower().partition("(")[0], ("", ""))
        if one is not None and one.kind == kind and (fields := _fields(field, one)) is not None:
            found[column.name.lower()] = (field, *fields)
    return found


def _fields(field: str, one: ColumnFigures) -> tuple[Any, ...] | None:
    if field == "booleanStats":
        trues = 0 if not one.values else one.true_values
        return None if trues is None else (trues, one.values - trues, one.nulls)
    if field in {"stringStats", "binaryStats"}:
        if one.values and (one.total_bytes is None or one.longest_bytes is None):
            return None
        average = (one.total_bytes or 0) / max(1, one.values)
        lengths = (one.longest_bytes or 0, average, one.nulls)
        counted = _distinct(one)
        return lengths if field == "binaryStats" else None if counted is None else (*lengths, counted)
    counted = _distinct(one)
    if counted is None or (one.values and (one.low is None or one.high is None)):
        return None  # while a server takes bounds for accurate, Hive would answer max() with null
    return (_bound(one, one.low, is_low=True), _bound(one, one.high, is_low=False), one.nulls, counted)


def _distinct(one: ColumnFigures) -> int | None:
    """Return a number of distinct values as Hive counts them: null is one."""
    return None if one.distinct is None else one.distinct + (one.nulls > 0 and one.values > 0)


def _bound(one: ColumnFigures, bound: Any, *, is_low: bool) -> Any:
    if bound is None:
        return None
    if one.kind == "timestamp":
        return int(bound) // MICROS if is_low else -(-int(bound) // MICROS)
    return Decimal(bound) if one.kind == "decimal" else float(bound) if one.kind == "float" else bound


def statistics_object(column: str, kind: str, one: Described) -> Any:
    """Return Thrift's object of one column."""
    field, *fields = one
    if field in {"dateStats", "decimalStats"}:
        make = ttypes.Date if field == "dateStats" else _thrift_decimal
        fields[:2] = [None if bound is None else make(bound) for bound in fields[:2]]
    data = ttypes.ColumnStatisticsData(**{field: DATA[field](*fields)})
    return ttypes.ColumnStatisticsObj(colName=column, colType=kind, statsData=data)


def described_object(native: Any) -> Described:
    """Describe Thrift's object of one column; of what is not understood here only that it is there.

    Hive 4 takes those of a timestamp as of a number, and gives them as what they are.
    """
    try:
        return _described_object(native)
    except (ArithmeticError, AttributeError, TypeError, ValueError):  # another tool's, or damaged: nobody's business
        return ("unknown",)


def _described_object(native: Any) -> Described:
    moments = native.statsData.timestampStats
    if moments is not None:
        bounds = (None if one is None else one.daysSinceEpoch for one in (moments.lowValue, moments.highValue))
        return ("longStats", *bounds, moments.numNulls, moments.numDVs)
    for field, cls in DATA.items():
        data = getattr(native.statsData, field)
        if data is not None:
            names = [spec[2] for spec in cls.thrift_spec if spec and spec[2] != "bitVectors"]
            fields = [getattr(data, name) for name in names]
            if field == "dateStats":
                fields[:2] = [None if bound is None else bound.daysSinceEpoch for bound in fields[:2]]
            if field == "decimalStats":
                fields[:2] = [None if bound is None else _decimal(bound) for bound in fields[:2]]
            return (field, *fields)
    return ("unknown",)


def _thrift_decimal(number: Decimal) -> Any:
    sign, digits, exponent = number.as_tuple()
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    length = (unscaled.bit_length() + 8) // 8
    return ttypes.Decimal(unscaled=unscaled.to_bytes(length, "big", signed=True), scale=-int(exponent))


def _decimal(native: Any) -> Decimal:
    unscaled = native.unscaled if isinstance(native.unscaled, bytes) else native.unscaled.encode("latin1")
    number = int.from_bytes(unscaled, "big", signed=True)
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -native.scale))
