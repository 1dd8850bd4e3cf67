"""Rows as Spark sends them, in the shape in which Arrow's writer encodes what Spark's own would.

Arrow's writer cannot write Spark's timestamps: fractions before 1970 come out negative, which makes Java's readers
fail, and it knows no time zone but GMT. So a timestamp goes through it as two columns, whole seconds and a fraction,
whose streams become those of one ORC timestamp afterwards (``orc_stripe``). Dates and timestamps before 15 October
1582 are counted in the old calendar, as Spark's and Hive's readers expect of every ORC file.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from table_writer.errors import InvalidInputError
from table_writer.model.upload_spec import OrcOptions

__all__ = ["arrow_rows"]

MICROS: Final = 1_000_000
MICROS_PER_DAY: Final = 86_400 * MICROS
MICROS_PER_MILLI: Final = 1_000
FIRST_CLEAR_MICROS: Final = -2_208_988_800 * MICROS  # 1900: before it, Java's two notions of a time zone differ
FRACTION_TYPE: Final = pa.timestamp("us")
SPLIT_FIELDS: Final = [pa.field("seconds", pa.int64()), pa.field("fraction", FRACTION_TYPE)]

FIRST_GREGORIAN_DAY: Final = -141_427  # 1582-10-15
OLD_CALENDAR_STARTS: Final = -719_162  # year 1: two days are taken off
SMALL: Final = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}

LEAP_DAYS: Final = (  # from which day on one day more is added: centuries that only the old calendar gives a leap day
    (-682944, -646420, -609896, -536847, -500323, -463799, -390750, -354226, -317702, -244653, -208129, -171605)
)
DAYS_LEFT_OUT: Final = range(-141_436, FIRST_GREGORIAN_DAY + 1)  # 6 to 15 October 1582: all become the 15th
OLD_CALENDAR_CHANGES: Final = (*((day, 1) for day in LEAP_DAYS), *((day, -1) for day in DAYS_LEFT_OUT))
"""As in Spark's ``RebaseDateTime.rebaseGregorianToJulianDays``."""


def arrow_rows(rows: Any, options: OrcOptions) -> Any:
    """Return the rows for Arrow's writer; values that need no change are not copied.

    Raises
    ------
    InvalidInputError
        A date or timestamp cannot be written exactly.
    """
    columns = [
        pa.chunked_array([_converted(_compact(chunk), name, options) for chunk in column.chunks])
        for name, column in zip(rows.column_names, rows.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, names=[f"c{position}" for position in range(len(columns))])


def _compact(values: Any) -> Any:
    """Return nested values without what lies around a slice of them: Arrow's writer forgets where a slice begins."""
    return pa.concat_arrays([values]) if pa.types.is_nested(values.type) else values


def _converted(values: Any, name: str, options: OrcOptions, absent: Any = None) -> Any:
    """Return one column; ``absent`` says where the struct that it is a field of is null."""
    kind, types = values.type, pa.types
    if types.is_nested(kind):
        return _nested(values, name, options)
    if types.is_timestamp(kind):
        return _micros(values) if kind.tz is None else _split(values, name, options, absent)
    if types.is_date32(kind):
        return _old_dates(values, name)
    return values.cast(SMALL.get(kind, kind))


def _nested(values: Any, name: str, options: OrcOptions) -> Any:
    kind, types = values.type, pa.types
    if types.is_struct(kind):
        # Arrow's writer goes wrong where a field is not null and its struct is.
        absent = values.is_null()
        inside = [_converted(field, name, options, absent) for field in values.flatten()]
        return pa.StructArray.from_arrays(inside, names=[f"c{place}" for place in range(len(inside))], mask=absent)
    if types.is_map(kind):
        keys, items = (_converted(part, name, options) for part in (values.keys, values.items))
        fields = [pa.field("key", keys.type, nullable=False), pa.field("value", items.type)]
        return _with_children(pa.map_(*fields), values, pa.StructArray.from_arrays([keys, items], fields=fields))
    lists = values.cast(pa.list_(kind.value_type)) if types.is_large_list(kind) else values
    entries = _converted(lists.values, name, options)
    return _with_children(pa.list_(entries.type), lists, entries)


def _with_children(kind: Any, values: Any, inside: Any) -> Any:
    """Return a list or map with other entries: where each begins, and which are null, stays as it is."""
    return pa.Array.from_buffers(kind, len(values), values.buffers()[:2], offset=values.offset, children=[inside])


def _micros(values: Any) -> Any:
    return values.cast(pa.timestamp("us")).view(pa.int64())


def _old_dates(values: Any, name: str) -> Any:
    days = values.view(pa.int32())
    earliest = pc.min(days).as_py()
    if earliest is None or earliest >= FIRST_GREGORIAN_DAY:
        return values
    return _in_old_calendar(days, earliest, name).cast(pa.int32()).view(pa.date32())


def _split(values: Any, name: str, options: OrcOptions, absent: Any) -> Any:
    """Return the seconds that Java's writer would store, and the fraction."""
    moments = values.cast(pa.timestamp("us", tz="UTC")).view(pa.int64())
    earliest = pc.min(moments).as_py() or 0
    if earliest < FIRST_CLEAR_MICROS and not options.is_utc:
        raise InvalidInputError(
            f"column {name!r} has a timestamp before 1900, which cannot be written to ORC exactly in the time zone"
            f' {options.time_zone} of this Java: start it with -Duser.timezone=UTC, or write with engine="spark"'
        )
    if earliest < FIRST_GREGORIAN_DAY * MICROS_PER_DAY:
        days, time_of_day = _divided(moments, MICROS_PER_DAY)
        days = _in_old_calendar(days, earliest // MICROS_PER_DAY, name)
        moments = pc.add(pc.multiply(days, MICROS_PER_DAY), time_of_day)
    seconds, fraction = _divided(moments, MICROS)
    # Java rounds the second towards 1970 where milliseconds follow, and its readers undo just that.
    rounded = pc.and_(pc.less(seconds, 0), pc.greater_equal(fraction, MICROS_PER_MILLI)).cast(pa.int64())
    seconds = pc.subtract(pc.add(seconds, rounded), options.epoch_seconds)
    return pa.StructArray.from_arrays([seconds, fraction.view(FRACTION_TYPE)], fields=SPLIT_FIELDS, mask=absent)


def _divided(numbers: Any, divisor: int) -> tuple[Any, Any]:
    """Return quotients, rounded down, and remainders."""
    quotients = pc.divide(numbers, divisor)  # rounds towards 0
    remainders = pc.subtract(numbers, pc.multiply(quotients, divisor))
    below = pc.less(remainders, 0).cast(pa.int64())
    return pc.subtract(quotients, below), pc.add(remainders, pc.multiply(below, divisor))


def _in_old_calendar(days: Any, earliest: int, name: str) -> Any:
    if earliest < OLD_CALENDAR_STARTS:
        raise InvalidInputError(
            f'column {name!r} has a date before the year 1, which cannot be written to ORC: write with engine="spark"'
        )
    changed = pc.subtract(days.cast(pa.int64()), 2)
    for day, change in OLD_CALENDAR_CHANGES:
        changed = pc.add(changed, pc.multiply(pc.greater_equal(days, day).cast(pa.int64()), change))
    return changed
