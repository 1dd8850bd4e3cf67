"""Which values of one type of Arrow become values of another: what is done, what is checked, what is refused.

The decisions are those of :mod:`table_writer.jobs.plan.types`, for types that Spark does not have as well: of texts and
lists with other offsets, dictionaries, unsigned integers, times of other units. What would be guessed is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import partial
from typing import Any, Final, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from table_writer.errors import SchemaMismatchError
from table_writer.model.partition_value import java_zone

Convert = Callable[[Any], Any]
INSTANT: Final = pa.timestamp("us", tz="UTC")
LAST_KNOWN_YEAR: Final = 2037  # of pyarrow's rules of zones; it takes later years for years without summer time
LONGEST_EXAMPLE: Final = 80  # characters of a value shown in an error
WIDER: Final[Mapping[Any, Sequence[Any]]] = {
    pa.int8(): (pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
    pa.uint8(): (pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
    pa.int16(): (pa.int32(), pa.int64(), pa.float32(), pa.float64()),
    pa.uint16(): (pa.int32(), pa.int64(), pa.float32(), pa.float64()),
    pa.int32(): (pa.int64(), pa.float64()),
    pa.uint32(): (pa.int64(), pa.float64()),
    pa.float16(): (pa.float32(), pa.float64()),
    pa.float32(): (pa.float64(),),
}
DIGITS: Final[Mapping[Any, int]] = {
    pa.int8(): 3,
    pa.uint8(): 3,
    pa.int16(): 5,
    pa.uint16(): 5,
    pa.int32(): 10,
    pa.uint32(): 10,
    pa.int64(): 19,
    pa.uint64(): 20,
}
PLAIN: Final[Sequence[tuple[Callable[[Any], bool], Callable[[Any], Any]]]] = (
    (pa.types.is_large_string, lambda _: pa.string()),
    (pa.types.is_string_view, lambda _: pa.string()),
    (pa.types.is_large_binary, lambda _: pa.binary()),
    (pa.types.is_binary_view, lambda _: pa.binary()),
    (pa.types.is_fixed_size_binary, lambda _: pa.binary()),
    (pa.types.is_date64, lambda _: pa.date32()),
)
"""Other forms of a type, and the one that files have."""


@dataclass(frozen=True, slots=True)
class How:
    """What a caller has said of values."""

    time_zone: str = ""  # of times that have none
    fills: bool = False  # whether a field that rows lack is null


@dataclass(frozen=True, slots=True)
class Fit:
    """The way in which values of one type become values of another."""

    convert: Convert | None = None  # None: they are what they are to become
    problems: tuple[str, ...] = ()  # why they cannot; then the rest means nothing


def match(given: Any, wanted: Any, path: str, how: How) -> Fit:
    """Return how arrays of one type become arrays of another; ``path`` names the column."""
    plain = plain_type(given)
    if plain != given:
        inner = match(plain, wanted, path, how)
        return inner if inner.problems else Fit(_after(partial(_plain_values, plain), inner.convert))
    if given == wanted:
        return Fit()
    if pa.types.is_null(given):
        return Fit(lambda values: pa.nulls(len(values), wanted))
    for of_given, of_wanted, matcher in MATCHERS:
        if of_given(given) and of_wanted(wanted):
            return matcher(given, wanted, path, how)
    if wanted in WIDER.get(given, ()):
        return Fit(lambda values: values.cast(wanted))
    return _refused(given, wanted, path)


def limited(values: Any, path: str, limit: tuple[str, int]) -> Any:
    """Enforce ``varchar(n)`` or ``char(n)`` as Spark does: blanks past n are cut off, ``char`` is padded with them."""
    kind, length = limit
    too_long = pc.greater(pc.utf8_length(pc.utf8_rtrim(values, " ")), length)
    if pc.any(too_long).as_py():
        _break(path, f"{kind}({length})", "are longer", values.filter(too_long)[0].as_py())
    cut = pc.if_else(pc.greater(pc.utf8_length(values), length), pc.utf8_slice_codeunits(values, 0, length), values)
    return pc.utf8_rpad(cut, length, " ") if kind == "char" else cut


def require_values(values: Any, path: str) -> Any:
    """Refuse nulls."""
    if values.null_count:
        _break(path, "NOT NULL", "are null", None)
    return values


def plain_type(kind: Any) -> Any:
    """Return the type of the same values as files have them."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_decimal(kind) and kind.byte_width != 16 and kind.precision <= 38:
        return pa.decimal128(kind.precision, kind.scale)
    return next((plain(kind) for is_one, plain in PLAIN if is_one(kind)), kind)


def shown_kind(kind: Any) -> str:
    """Spell a type as pyarrow does, shortened."""
    return re.sub(r"(?<=.{80}).+", "…", str(kind), flags=re.DOTALL)


def _plain_values(kind: Any, values: Any) -> Any:
    if pa.types.is_dictionary(values.type):
        found = values.dictionary if values.dictionary.type == kind else _plain_values(kind, values.dictionary)
        return found.take(values.indices)
    return _compact(values).cast(kind)  # of large texts the offsets of a slice would not fit


def _after(first: Convert, second: Convert | None) -> Convert:
    return first if second is None else lambda values: second(first(values))


def _refused(given: Any, wanted: Any, path: str, advice: str = "cast it") -> Fit:
    return Fit(
        problems=(f"column {path} is {shown_kind(given)} in the rows and {shown_kind(wanted)} in the table; {advice}",)
    )


def _break(path: str, rule: str, verdict: str, example: Any) -> NoReturn:
    text = str(example)
    shown = "" if example is None else f", for example {text[:LONGEST_EXAMPLE]!r}"
    raise SchemaMismatchError(
        f"rows do not fit the table, nothing was published: column {path} is {rule}, and one row or more"
        f" {verdict}{shown}. Correct or filter these rows, or change the column's type."
    )


def _match_struct(given: Any, wanted: Any, path: str, how: How) -> Fit:
    by_name = {field.name.lower(): position for position, field in enumerate(given)}
    wanted_names = {field.name.lower() for field in wanted}
    extra = [field.name for field in given if field.name.lower() not in wanted_names]
    lacking = [field.name for field in wanted if field.name.lower() not in by_name]
    problems = [f"column {path} has fields that the table's does not have: {', '.join(extra)}"] if extra else []
    problems += [f"column {path} lacks fields: {', '.join(lacking)}"] if lacking and not how.fills else []
    problems += [f"column {path} has fields of one name"] if len(by_name) < len(given) else []
    found = [
        None
        if field.name.lower() not in by_name
        else (
            by_name[field.name.lower()],
            match(given[by_name[field.name.lower()]].type, field.type, f"{path}.{field.name}", how),
        )
        for field in wanted
    ]
    problems += [problem for pair in found if pair for problem in pair[1].problems]

    def convert(values: Any) -> Any:
        children = values.flatten()
        columns = [
            pa.nulls(len(values), field.type) if pair is None else _converted(pair[1].convert, children[pair[0]])
            for pair, field in zip(found, wanted, strict=True)
        ]
        return pa.StructArray.from_arrays(columns, fields=list(wanted), mask=values.is_null())

    return Fit(convert, tuple(problems))


def _match_list(given: Any, wanted: Any, path: str, how: How) -> Fit:
    inner = match(given.value_type, wanted.value_type, f"{path}.element", how)

    def convert(values: Any) -> Any:
        elements = _compact(pc.list_flatten(values))  # those of lists that are null are none
        offsets = _offsets(pc.list_value_length(values))
        return pa.ListArray.from_arrays(
            offsets, _converted(inner.convert, elements), type=wanted, mask=values.is_null()
        )

    return Fit(convert, inner.problems)


def _match_map(given: Any, wanted: Any, path: str, how: How) -> Fit:
    keys = match(given.key_type, wanted.key_type, f"{path}.key", how)
    items = match(given.item_type, wanted.item_type, f"{path}.value", how)

    def convert(values: Any) -> Any:
        whole = _compact(values)
        lists = [
            pa.ListArray.from_arrays(whole.offsets, part, mask=whole.is_null()) for part in (whole.keys, whole.items)
        ]
        inner = [_compact(pc.list_flatten(part)) for part in lists]  # of maps that are null there is none
        columns = _converted(keys.convert, inner[0]), _converted(items.convert, inner[1])
        offsets = _offsets(pc.list_value_length(lists[0]))
        return pa.MapArray.from_arrays(offsets, *columns, type=wanted, mask=whole.is_null())

    return Fit(convert, (*keys.problems, *items.problems))


def _offsets(lengths: Any) -> Any:
    """Return where lists of these lengths begin and end; one that is null has none."""
    ends = pc.cumulative_sum(pc.fill_null(lengths.cast(pa.int32()), 0))
    return pa.concat_arrays([pa.array([0], pa.int32()), ends])


def _converted(convert: Convert | None, values: Any) -> Any:
    return values if convert is None else convert(values)


def _compact(values: Any) -> Any:
    """Return the same values in an array that begins where its buffers do, as lists of new elements need it."""
    return pa.concat_arrays([values, values.slice(0, 0)])


def _match_decimal(given: Any, wanted: Any, path: str, _: How) -> Fit:
    scale = given.scale if pa.types.is_decimal(given) else 0
    if scale > wanted.scale:
        return _refused(given, wanted, path, "it has more digits after the point: round it")
    room = wanted.precision - wanted.scale

    def convert(values: Any) -> Any:
        try:
            return values.cast(pa.decimal256(76, wanted.scale)).cast(wanted)
        except pa.ArrowInvalid:
            bound = Decimal(10) ** room
            example = next((value for value in values.to_pylist() if value is not None and abs(value) >= bound), None)
            _break(path, str(wanted), f"have more than {room} digits before the point", example)

    return Fit(convert)


def _match_text(given: Any, wanted: Any, path: str, _: How) -> Fit:
    """Spell values as Spark does; of other types it depends on Java's version, or on a session."""
    if pa.types.is_decimal(given):
        return Fit(texts_of_decimals)
    if pa.types.is_date32(given):
        return Fit(partial(_texts_of_dates, path))
    if pa.types.is_integer(given) or pa.types.is_boolean(given):
        return Fit(lambda values: values.cast(wanted))
    return _refused(given, wanted, path, "how it is spelled, only Spark knows: make it text first")


def texts_of_decimals(values: Any) -> Any:
    """Spell decimals without an exponent."""
    return pa.array([None if value is None else f"{value:f}" for value in values.to_pylist()], pa.string())


def _texts_of_dates(path: str, values: Any) -> Any:
    years = pc.min_max(pc.year(values)).as_py()
    if years["min"] is not None and not 0 < years["min"] <= years["max"] < 10_000:
        _break(path, "a text", "are dates outside the years 1 to 9999, which only Spark spells", None)
    return values.cast(pa.string())


def _match_moment(given: Any, wanted: Any, path: str, how: How) -> Fit:
    if wanted.tz is not None and (pa.types.is_date32(given) or given.tz is None):
        if not how.time_zone:
            return _refused(
                given,
                wanted,
                path,
                "in which time zone its values are meant is not said: give it one, or all rows by"
                " ArrowWriter(time_zone='UTC')",
            )
        return Fit(partial(_in_zone, path, how.time_zone))
    if pa.types.is_timestamp(given) and (given.tz is None) != (wanted.tz is None):
        return _refused(given, wanted, path, "a time zone would be guessed")
    return Fit(partial(_in_micros, path, wanted))


def _in_zone(path: str, zone: str, values: Any) -> Any:
    local = _in_micros(path, pa.timestamp("us"), values)
    known = java_zone(zone)
    if known is None:
        raise TypeError(f"{zone!r} was to be a zone")
    if isinstance(known, timezone):  # whose clocks are never set
        ahead = int((known.utcoffset(None) or timedelta()) / timedelta(microseconds=1))
        return pc.subtract(local.cast(pa.int64()), ahead).cast(INSTANT)
    is_late = pc.fill_null(pc.greater(pc.year(local), LAST_KNOWN_YEAR), False)
    try:
        near = pc.assume_timezone(pc.if_else(is_late, None, local), str(known), ambiguous="earliest")  # as Spark does
    except (pa.ArrowInvalid, ValueError) as error:
        _break(path, f"in {zone}", "are times that clocks there never show", str(error))
    if not pc.any(is_late).as_py():
        return near.cast(INSTANT)
    late = pc.dictionary_encode(pc.if_else(is_late, local, None))
    found = [_instant(path, known, moment) for moment in late.dictionary.to_pylist()]
    return pc.coalesce(near.cast(INSTANT), pa.array(found, INSTANT).take(late.indices))


def _instant(path: str, zone: tzinfo, moment: datetime) -> datetime:
    instant = moment.replace(tzinfo=zone).astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None) != moment:
        _break(path, f"in {zone}", "are times that clocks there never show", moment)
    return instant


def _in_micros(path: str, wanted: Any, values: Any) -> Any:
    try:
        return values.cast(wanted)
    except pa.ArrowInvalid as error:
        raise SchemaMismatchError(
            f"rows do not fit the table, nothing was published: column {path} has times that do not fit into"
            f" microseconds: {error}. Round them first"
        ) from error


def _is_exact(kind: Any) -> bool:
    return bool(pa.types.is_decimal(kind)) or kind in DIGITS


def _is_list(kind: Any) -> bool:
    types = pa.types
    tests = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view)
    return any(is_one(kind) for is_one in tests)


def _is_time(kind: Any) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date32(kind))


def _has_text(kind: Any) -> bool:
    tests = (_is_exact, _is_time, pa.types.is_floating, pa.types.is_boolean)
    return any(is_one(kind) for is_one in tests)


Match = tuple[Callable[[Any], bool], Callable[[Any], bool], Callable[[Any, Any, str, How], Fit]]
MATCHERS: Final[Sequence[Match]] = (
    (pa.types.is_struct, pa.types.is_struct, _match_struct),
    (pa.types.is_map, pa.types.is_map, _match_map),
    (_is_list, pa.types.is_list, _match_list),
    (_is_exact, pa.types.is_decimal, _match_decimal),
    (_has_text, pa.types.is_string, _match_text),
    (_is_time, pa.types.is_timestamp, _match_moment),
)
"""Of pairs of types that are not refused as such, who decides."""
