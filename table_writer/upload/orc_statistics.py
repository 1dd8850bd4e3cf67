"""Statistics of ORC columns: of a timestamp, from those of its seconds; of a file, from those of its stripes.

What a file's footer says is also what the driver learns of its columns, where it is exact.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any, Final, NamedTuple

import pyarrow as pa

from table_writer.model.column_statistics import Bound, ColumnStatistics
from table_writer.model.upload_spec import OrcOptions
from table_writer.upload.file_format import MOST_COLUMNS, MakeBound, make_bound
from table_writer.upload.orc_values import FIRST_GREGORIAN_DAY
from table_writer.upload.orc_wire import Fixed64, Message, decode, encode, packed, signed, unpacked, zigzag

__all__ = ["by_name", "merged", "of_rows", "of_timestamp"]

VALUES, INTEGER, DOUBLE, STRING, BUCKET, DECIMAL, DATE, BINARY, TIMESTAMP, NULLS, BYTES, COLLECTION = range(1, 13)
LOWEST, HIGHEST = 1, 2  # fields of the kinds below that have bounds, but for timestamps
LARGEST_TEXT_BYTES: Final = 1024  # Java's: bounds that are longer are left out
FIRST_AFTER_SURROGATES: Final = "\ue000"  # from here on, UTF-16 and UTF-8 differ in which text is the smaller
MOST_HOURS: Final = 26  # by which the wall clock of one place was ever off another's


def of_rows(statistics: bytes) -> bytes:
    """Return statistics without bounds that would fill the footer or mislead a reader."""
    return encode(
        (kind, fit) for kind, value in decode(statistics) if (fit := FIT.get(kind, _as_it_is)(value)) is not None
    )


def _as_it_is(value: int | bytes) -> int | bytes:
    return value


def _fit_texts(value: Any) -> bytes | None:
    """Nothing where a bound is long, or where Java, which compares UTF-16, orders it otherwise than Spark does."""
    texts = [bytes(text).decode(errors="replace") for number, text in decode(value) if number in {1, 2}]
    is_fit = len(value) <= LARGEST_TEXT_BYTES and max("".join(texts), default="") < FIRST_AFTER_SURROGATES
    return value if is_fit else None


def _fit_doubles(value: Any) -> bytes | None:
    """Nothing where there is NaN; a bound that is zero includes both zeros, of which Java calls -0.0 the smaller."""
    bounds = {number: _double(bound) for number, bound in decode(value)}
    if any(math.isnan(bound) for bound in bounds.values()):
        return None
    zeros = {1: -0.0, 2: 0.0}
    return encode((number, _as_double(bound or zeros.get(number, bound))) for number, bound in bounds.items())


FIT: Final[dict[int, Callable[[Any], int | bytes | None]]] = {STRING: _fit_texts, DOUBLE: _fit_doubles}


def of_timestamp(seconds: bytes, options: OrcOptions) -> bytes:
    """Return bounds of timestamps, given the statistics of their seconds: never too narrow.

    They are of the wall clock, which can be anything near; only filters use them.
    """
    slack = 1 if options.is_utc else MOST_HOURS * 3600
    fields = {1: (3, -slack), 2: (4, slack)}  # no sum
    kept: Message = []
    for kind, value in decode(seconds):
        if kind == INTEGER:
            bounds = [(*fields[number], _number(bound)) for number, bound in decode(bytes(value)) if number in fields]
            limits = ((field, zigzag((bound + options.epoch_seconds + off) * 1000)) for field, off, bound in bounds)
            kept.append((TIMESTAMP, encode(limits)))
        else:
            kept.append((kind, value))
    return encode(kept)


def merged(parts: Sequence[bytes]) -> bytes:
    """Return the statistics of one column in all stripes together."""
    decoded: list[dict[int, Any]] = [dict(decode(part)) for part in parts]
    with_values = [part for part in decoded if part.get(VALUES)]
    answer: Message = [(VALUES, sum(part.get(VALUES, 0) for part in decoded))]
    for kind, fields in FIELDS.items():
        if with_values and all(kind in part for part in with_values):
            answer.append((kind, encode(_merged_fields([dict(decode(part[kind])) for part in with_values], fields))))
    return encode([*answer, (NULLS, max((part.get(NULLS, 0) for part in decoded), default=0))])


def _merged_fields(parts: Sequence[dict[int, Any]], fields: Mapping[int, _Field]) -> Message:
    """Merge what all parts have; a sum that leaves 64 bits is left out, as Java does."""
    found = [
        (number, field.write(field.merge([field.read(part[number]) for part in parts])))
        for number, field in fields.items()
        if all(number in part for part in parts)
    ]
    return [(number, value) for number, value in found if not isinstance(value, int) or value < 1 << 64]


def _number(value: Any) -> int:
    return signed(int(value))


def _counts(value: Any) -> list[int]:
    return unpacked(bytes(value))


def _double(value: Any) -> float:
    number: float = struct.unpack("<d", value)[0]
    return number


def _as_double(number: float) -> Fixed64:
    return Fixed64(struct.pack("<d", number))


def _decimal(value: Any) -> Decimal:
    return Decimal(bytes(value).decode())


class _Field(NamedTuple):
    """How a field of some kind of statistics is read, merged and written."""

    read: Callable[[Any], Any]
    merge: Callable[[list[Any]], Any]
    write: Callable[[Any], int | bytes]


LOW, HIGH, TOTAL = (_Field(_number, merge, zigzag) for merge in (min, max, sum))
FIELDS: Final[dict[int, dict[int, _Field]]] = {
    INTEGER: {1: LOW, 2: HIGH, 3: TOTAL},
    DOUBLE: {
        1: _Field(_double, min, _as_double),
        2: _Field(_double, max, _as_double),
        3: _Field(_double, sum, _as_double),
    },
    STRING: {1: _Field(bytes, min, bytes), 2: _Field(bytes, max, bytes), 3: TOTAL},
    BUCKET: {1: _Field(_counts, lambda parts: map(sum, zip(*parts, strict=True)), packed)},
    DECIMAL: {
        number: _Field(_decimal, merge, lambda bound: format(bound, "f").encode())
        for number, merge in ((1, min), (2, max))
    },
    DATE: {1: LOW, 2: HIGH},
    BINARY: {1: TOTAL},
    TIMESTAMP: {3: LOW, 4: HIGH},
    COLLECTION: {1: _Field(int, min, int), 2: _Field(int, max, int), 3: _Field(int, sum, int)},
}


def by_name(
    schema: Any, places: Sequence[int], statistics: Sequence[bytes], row_count: int
) -> dict[str, ColumnStatistics]:
    """Return what a file says of its columns that are not nested, where it is exact.

    Parameters
    ----------
    schema
        Of the rows as Spark sends them.
    places
        Where in ``statistics`` each of these columns is; what is inside of nested ones lies between.
    statistics
        Of all columns of the file.
    row_count
        Of the file.
    """
    plain = ((field, place) for field, place in zip(schema, places, strict=True) if not pa.types.is_nested(field.type))
    return {
        field.name: _exact(dict(decode(statistics[place])), field.type, row_count)
        for field, place in islice(plain, MOST_COLUMNS)
    }


def _exact(statistics: Mapping[int, Any], kind: Any, row_count: int) -> ColumnStatistics:
    bounds: dict[int, Bound | None] = {}
    for number, make in ((number, EXACT[number](kind)) for number in EXACT.keys() & statistics.keys()):
        found = ((place, bound) for place, bound in decode(statistics[number]) if place in {LOWEST, HIGHEST})
        bounds = {place: make(FIELDS[number][place].read(bound)) for place, bound in found}
    return ColumnStatistics(
        null_count=row_count - int(statistics.get(VALUES, 0)), low=bounds.get(LOWEST), high=bounds.get(HIGHEST)
    )


def _date_of_today_s_calendar(days: int) -> Bound | None:
    """Return a date; before 1582 the file counts in the old calendar."""
    return make_bound(pa.date32())(days) if days >= FIRST_GREGORIAN_DAY else None


EXACT: Final[dict[int, Callable[[Any], MakeBound]]] = {  # not TIMESTAMP, whose bounds are widened
    INTEGER: make_bound,
    STRING: make_bound,
    DATE: lambda _: _date_of_today_s_calendar,
    DECIMAL: lambda _: Decimal,
}
