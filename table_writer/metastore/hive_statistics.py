"""Column statistics as Hive's metastore keeps them, from and to figures of files. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from hmsclient.genthrift.hive_metastore import ttypes

from table_writer.model.column_figures import ColumnFigures
from table_writer.model.table import Table

ColumnDescription = tuple[Any, ...]
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
            (*spec[:3], "BINARY", spec[4]) if spec is not None and spec[2] == "bitVectors" else spec for spec in held
        )
    number, kind, _, nested, default = fields[-1]
    fields = (*fields, (number + 1, kind, "timestampStats", nested, default))
    ttypes.ColumnStatisticsData.thrift_spec = fields
    ttypes.ColumnStatisticsData.timestampStats = None
    ttypes.ColumnStatisticsObj.thrift_spec[3][3][1] = fields  # it holds the fields by themselves


_read_what_newer_servers_send()


def column_descriptions(table: Table, figures: Mapping[str, ColumnFigures]) -> dict[str, ColumnDescription]:
    """Return the statistics that a metastore is to keep of some files, by the names of the table's columns.

    Left out are columns whose type in the table is another than in the files, those whose number of distinct values is
    not known, since Hive has no way to say so, and those whose bounds it wants and nobody knows.
    """
    known = {name.lower(): column_figures for name, column_figures in figures.items()}
    found: dict[str, ColumnDescription] = {}
    for column in table.columns:
        column_figures = known.get(column.name.lower())
        field, kind = KINDS.get(column.type.lower().partition("(")[0], ("", ""))
        if (
            column_figures is not None
            and column_figures.kind == kind
            and (fields := _fields(field, column_figures)) is not None
        ):
            found[column.name.lower()] = (field, *fields)
    return found


def _fields(field: str, figures: ColumnFigures) -> tuple[Any, ...] | None:
    if field == "booleanStats":
        trues = 0 if not figures.values else figures.true_values
        return None if trues is None else (trues, figures.values - trues, figures.nulls)
    if field in {"stringStats", "binaryStats"}:
        if figures.values and (figures.total_bytes is None or figures.longest_bytes is None):
            return None
        average = (figures.total_bytes or 0) / max(1, figures.values)
        lengths = (figures.longest_bytes or 0, average, figures.nulls)
        counted = _distinct(figures)
        return lengths if field == "binaryStats" else None if counted is None else (*lengths, counted)
    counted = _distinct(figures)
    if counted is None or (figures.values and (figures.low is None or figures.high is None)):
        return None  # while a server takes bounds for accurate, Hive would answer max() with null
    return (
        _bound(figures, figures.low, is_low=True),
        _bound(figures, figures.high, is_low=False),
        figures.nulls,
        counted,
    )


def _distinct(figures: ColumnFigures) -> int | None:
    """Return a number of distinct values as Hive counts them: null is one."""
    return None if figures.distinct is None else figures.distinct + (figures.nulls > 0 and figures.values > 0)


def _bound(figures: ColumnFigures, bound: Any, *, is_low: bool) -> Any:
    if bound is None:
        return None
    if figures.kind == "timestamp":
        return int(bound) // MICROS if is_low else -(-int(bound) // MICROS)
    return Decimal(bound) if figures.kind == "decimal" else float(bound) if figures.kind == "float" else bound


def statistics_object(column: str, kind: str, description: ColumnDescription) -> Any:
    """Return Thrift's object of one column."""
    field, *fields = description
    if field in {"dateStats", "decimalStats"}:
        make = ttypes.Date if field == "dateStats" else _thrift_decimal
        fields[:2] = [None if bound is None else make(bound) for bound in fields[:2]]
    data = ttypes.ColumnStatisticsData(**{field: DATA[field](*fields)})
    return ttypes.ColumnStatisticsObj(colName=column, colType=kind, statsData=data)


def column_description(native: Any) -> ColumnDescription:
    """Describe Thrift's object of one column; of what is not understood here only that it is there.

    Hive 4 takes those of a timestamp as of a number, and gives them as what they are.
    """
    try:
        return _described_object(native)
    except (ArithmeticError, AttributeError, TypeError, ValueError):  # another tool's, or damaged: nobody's business
        return ("unknown",)


def _described_object(native: Any) -> ColumnDescription:
    moments = native.statsData.timestampStats
    if moments is not None:
        bounds = (None if moment is None else moment.daysSinceEpoch for moment in (moments.lowValue, moments.highValue))
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
