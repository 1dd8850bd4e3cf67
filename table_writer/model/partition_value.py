"""Spellings: find the texts of a partition column that are one value.

The metastore keeps partition values as text, and every tool spells them in its own way. Readers cast the text to the
column's type, so the texts that a cast turns into one value name one partition for them.

Source of the rules: Spark's ``CatalogTablePartition.toRow``, which casts as with ``spark.sql.ansi.enabled=false``: to
``UTF8String.toLong``, ``Decimal.fromString``, ``Double.parseDouble`` and ``SparkDateTimeUtils``. With ANSI fewer texts
are values, and a query that meets another one fails; none is another value.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import cache, partial
from math import copysign, inf, isinf, isnan, nextafter
from typing import Final
from zoneinfo import ZoneInfo

from table_writer.errors import InvalidInputError
from table_writer.model.table import NULL_PARTITION, PartitionValues
from table_writer.model.units import DAY_SECONDS, HOUR_SECONDS

BLANKS: Final = "".join(map(chr, range(0x21)))  # the characters that Java's String.trim removes
CONTROLS: Final = BLANKS + "\x7f"  # the characters that Spark's UTF8String.trimAll removes
BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
LONG_DIGITS: Final = 19
MAX_PRECISION: Final = 38
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
INTEGER: Final = re.compile(r"([+-]?)(?=.)([0-9]*)(?:\.[0-9]*)?")
DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?(\d*)|\.(\d+))(?:[eE]([+-]?0*\d{1,10}))?")
DOUBLE: Final = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
SPECIAL_DOUBLE: Final = re.compile(r"[+-]?NaN|[+-]?(?ai:inf|infinity)|(?ai:nan)")
HEX_DOUBLE: Final = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
TRUTH: Final = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), "true"),
    **dict.fromkeys(("f", "false", "n", "no", "0"), "false"),
}

DATE: Final = re.compile(r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
CLOCK: Final = r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9].*)?)?)?"
TIMESTAMP: Final = re.compile(
    rf"([+-]?[0-9]{{4,6}})(?:-([0-9]{{1,2}})(?:-([0-9]{{1,2}})(?:[ T]{CLOCK})?)?)?", re.DOTALL
)
TIME_OF_TODAY: Final = re.compile(rf"(?:T|(?=[0-9]+:)){CLOCK}", re.DOTALL)
EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
DAYS_OF_400_YEARS: Final = 146_097  # after so many the calendar repeats itself
FIRST_MOMENT: Final = datetime(1, 1, 1)  # noqa: DTZ001  # on the wall of any zone
MICROS: Final = 1_000_000
OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(?:([0-9])|([0-9]{2})(?:(:?)([0-9]{2})(?:\4([0-9]{2}))?)?)")
LARGEST_OFFSET: Final = 18 * HOUR_SECONDS
SHORT_ZONES: Final = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
"""Java's ``ZoneId.SHORT_IDS``."""

Read = Callable[[str], str | None]


def canonical(values: PartitionValues, types: Sequence[str], time_zone: str = "") -> PartitionValues:
    """Return texts that two partitions have in common exactly if readers see one value in them.

    What is no value of its type is null, as in Spark. Of integers, booleans, dates and timestamps the text is Spark's
    own spelling; of other types it may be one that nobody uses. ``-0.0`` and ``0.0`` are two, since Spark writes both.
    Types are spelled as Spark or Hive does: ``decimal(10,2)``; of an unknown one each text is a value. A timestamp
    without a zone is read in the session's; one with a zone raises ``InvalidInputError`` where that is not known
    (empty).

    Examples
    --------
    >>> canonical(("01", "2024-1-1", "TRUE", "01"), ["int", "date", "boolean", "string"])
    ('1', '2024-01-01', 'true', '01')
    >>> canonical(("1.0",), ["double"]) == canonical(("1e0",), ["double"])
    True
    """
    return tuple(_canonical(text, kind, time_zone) for text, kind in zip(values, types, strict=True))


def has_spellings(types: Iterable[str]) -> bool:
    """Return whether two texts of such columns can be one value; two different strings never are."""
    return any(_reader(kind, "") is not None for kind in types)


@dataclass(frozen=True, slots=True)
class Spellings:
    """Partitions by their values, as the metastore spells them."""

    types: tuple[str, ...] = ()  # as of :func:`canonical`
    time_zone: str = ""
    # the metastore's spellings, by what :func:`canonical` makes of them
    names: Mapping[PartitionValues, tuple[PartitionValues, ...]] = field(default_factory=dict)
    table: str = ""  # for messages

    @classmethod
    def of(
        cls, existing: Iterable[PartitionValues], types: Sequence[str], time_zone: str = "", *, table: str = ""
    ) -> Spellings:
        """Group the partitions of a table by their values."""
        names: dict[PartitionValues, tuple[PartitionValues, ...]] = {}
        for values in existing:
            key = canonical(values, types, time_zone)
            names[key] = (*names.get(key, ()), values)
        return cls(tuple(types), time_zone, names, table)

    def __contains__(self, values: object) -> bool:
        """Return whether there is a partition of these values, however it is spelled."""
        return isinstance(values, tuple) and bool(self.spellings_of(values))

    def spellings_of(self, values: PartitionValues) -> tuple[PartitionValues, ...]:
        """Return every spelling that the metastore has of these values."""
        return self.names.get(canonical(values, self.types, self.time_zone), ()) if self.names else ()

    def get(self, values: PartitionValues, default: PartitionValues) -> PartitionValues:
        """Return the metastore's spelling of these values; ``InvalidInputError`` if it has several."""
        spellings = self.spellings_of(values)
        self._require_one(spellings)
        return spellings[0] if spellings else default

    def require_clear(self) -> None:
        """Refuse two partitions of one value.

        Those of null pass, since all texts that are no value are null: :meth:`get` refuses them where it matters.
        """
        for key, spellings in self.names.items():
            if NULL_PARTITION not in key:
                self._require_one(spellings)

    def unusual(self) -> Spellings:
        """Leave out the partitions that Spark spells as the metastore does."""
        return replace(self, names={key: spellings for key, spellings in self.names.items() if spellings != (key,)})

    def _require_one(self, spellings: Sequence[PartitionValues]) -> None:
        if len(spellings) > 1:
            raise InvalidInputError(
                f"the metastore has one partition of {self.table} twice, as {spellings[0]} and {spellings[1]}: drop"
                " one of them, since readers see the rows of both",
                table=self.table,
            )


def _canonical(text: str, kind: str, time_zone: str) -> str:
    if text in {NULL_PARTITION, ""}:
        return NULL_PARTITION
    read = _reader(kind, time_zone)
    canonical_text = text if read is None else read(text)
    return NULL_PARTITION if canonical_text is None else canonical_text


@cache
def _reader(kind: str, time_zone: str) -> Read | None:
    """Return how the texts of a type are read, ``None`` where each is a value of its own."""
    name, *sizes = re.findall(r"\w+", kind.lower()) or [""]
    numbers = [int(size) for size in sizes if size.isdecimal()]
    readers: dict[str, Read] = {
        **{integral: partial(_integer, limit=2 ** (bits - 1)) for integral, bits in BITS.items()},
        "decimal": partial(_decimal, precision=(numbers or [10])[0], scale=numbers[1] if numbers[1:] else 0),
        "float": partial(_floating, is_single=True),
        "double": partial(_floating, is_single=False),
        "boolean": lambda text: TRUTH.get(text.strip(CONTROLS).lower()),
        "date": _date,
        "timestamp": partial(_timestamp, time_zone=time_zone),
        "timestamp_ntz": _local_timestamp,
        "char": lambda text: text.ljust((numbers or [0])[0]),
    }
    return readers.get(name)


def _integer(text: str, *, limit: int) -> str | None:
    match = INTEGER.fullmatch(text.strip(CONTROLS))
    if match is None or len(match[2].lstrip("0")) > LONG_DIGITS:
        return None
    value = int(f"{match[1]}0{match[2].lstrip('0')}")  # a fraction is cut off; of ".5" nothing is left
    return str(value) if -limit <= value < limit else None


def _decimal(text: str, *, precision: int, scale: int) -> str | None:
    match = DECIMAL.fullmatch(text.strip(BLANKS))
    if match is None or abs(len(match[1] or match[2] or "") - int(match[3] or 0)) > INT_MAX:
        return None
    value = Decimal(text.strip(BLANKS))
    if value and value.adjusted() >= MAX_PRECISION:
        return None
    try:
        rounded = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, Context(prec=2 * MAX_PRECISION + 2))
    except InvalidOperation:
        return None
    if rounded.adjusted() >= precision - scale:
        return None
    return f"decimal {rounded or abs(rounded):f}"  # Spark's own spelling depends on its settings


def _floating(text: str, *, is_single: bool) -> str | None:
    stripped = text.strip(BLANKS)
    if SPECIAL_DOUBLE.fullmatch(stripped):
        value = float(stripped)
    elif match := DOUBLE.fullmatch(stripped):
        value = _single(match[1]) if is_single else float(match[1])
    elif match := HEX_DOUBLE.fullmatch(stripped):
        value = _from_hex(match[1], is_single=is_single)
    else:
        return None
    return "double NaN" if isnan(value) else f"double {value.hex()}"  # how Java spells it depends on its version


def _from_hex(text: str, *, is_single: bool) -> float:
    try:
        value = float.fromhex(text)
    except OverflowError:
        return copysign(inf, -1 if text.startswith("-") else 1)
    return _rounded(value) if is_single else value


def _single(text: str) -> float:
    """Round a number to a float in one step: a double in between may lie just between two floats."""
    value = float(text)
    if isinf(value) or not value:
        return value
    below, above = _rounded(nextafter(value, -inf)), _rounded(nextafter(value, inf))
    exact = Decimal(text)
    if below == above or exact == Decimal(value):
        return _rounded(value)
    return above if exact > Decimal(value) else below


def _rounded(value: float) -> float:
    try:
        rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return copysign(inf, value)
    return rounded


def _date(text: str) -> str | None:
    match = DATE.fullmatch(text.strip(CONTROLS))
    day = _ordinal(*match.groups()) if match else None
    if day is None or not -INT_MAX - 1 <= day - EPOCH_ORDINAL <= INT_MAX:
        return None
    return _date_text(day)


def _ordinal(year: str, month: str | None, day: str | None) -> int | None:
    """Return the number of a day, in any year, as ``date.toordinal`` counts them."""
    cycles, rest = divmod(int(year) - 1, 400)
    try:
        return date(rest + 1, int(month or 1), int(day or 1)).toordinal() + cycles * DAYS_OF_400_YEARS
    except ValueError:
        return None


def _date_text(ordinal: int) -> str:
    cycles, rest = divmod(ordinal - 1, DAYS_OF_400_YEARS)
    day = date.fromordinal(rest + 1)
    year = day.year + cycles * 400
    sign = "-" if year < 0 else "+" if year > 9999 else ""  # of more than four digits
    return f"{sign}{abs(year):04d}-{day:%m-%d}"


def _timestamp(text: str, *, time_zone: str) -> str | None:
    """Read an instant; its text is the session's local time, or UTC where another instant has the same local time."""
    match = TIME_OF_TODAY.fullmatch(text.rstrip(CONTROLS) if text.startswith("T") else text.strip(CONTROLS))
    if match:
        clock = _clock(*match.groups())
        is_one = clock is not None and (not clock[1] or java_zone(clock[1]) is not None)
        return f"today {clock}" if is_one else None
    local = _local(text)
    if local is None:
        return None
    micros, zone_text = local
    session = java_zone(time_zone) if time_zone else None
    zone = java_zone(zone_text) if zone_text else session
    if zone_text and zone is None:
        return None
    if zone_text and session is None:
        raise InvalidInputError(
            f"the partition value {text!r} has a time zone; which partition it is depends on the session's, and"
            f" {f'Python does not know {time_zone!r}' if time_zone else 'that is not known here'}"
        )
    if zone is None or session is None:
        return _moment_text(micros) if _is_long(micros) else None
    instant = micros - _offset(zone, micros, is_local=True)
    if not _is_long(instant):
        return None
    local_micros = instant + _offset(session, instant, is_local=False)
    # not when clocks have been set back
    is_first = local_micros - _offset(session, local_micros, is_local=True) == instant
    return _moment_text(local_micros) if is_first else f"{_moment_text(instant)}Z"


def _local_timestamp(text: str) -> str | None:
    """Read a time of no zone, which may be given one that does not count."""
    local = _local(text)
    if local is None or (local[1] and java_zone(local[1]) is None):
        return None
    return _moment_text(local[0]) if _is_long(local[0]) else None


def _local(text: str) -> tuple[int, str] | None:
    """Return microseconds since 0001-01-01 in local time, and the zone as it is given."""
    match = TIMESTAMP.fullmatch(text.strip(CONTROLS))
    if match is None:
        return None
    year, month, day, *time_texts = match.groups()
    ordinal, clock = _ordinal(year, month, day), _clock(*time_texts)
    if ordinal is None or clock is None:
        return None
    micros = (ordinal - 1) * DAY_SECONDS * MICROS + clock[0]
    return micros, clock[1]


def _clock(
    hour: str | None, minute: str | None, second: str | None, fraction: str | None, zone: str | None
) -> tuple[int, str] | None:
    """Return the microseconds of a day, and the zone; what is below a microsecond is cut off."""
    hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
    if hours >= 24 or minutes >= 60 or seconds >= 60:  # a clock
        return None
    micros = (hours * 3600 + minutes * 60 + seconds) * MICROS + int((fraction or "")[:6].ljust(6, "0"))
    return micros, (zone or "").strip(BLANKS)


def _is_long(micros: int) -> bool:
    since_1970 = micros - (EPOCH_ORDINAL - 1) * DAY_SECONDS * MICROS
    return -LONG_MAX - 1 <= since_1970 <= LONG_MAX


def _moment_text(micros: int) -> str:
    days, rest = divmod(micros, DAY_SECONDS * MICROS)
    moment = FIRST_MOMENT + timedelta(microseconds=rest)
    fraction = f".{moment.microsecond:06d}".rstrip("0").rstrip(".")
    return f"{_date_text(days + 1)} {moment:%H:%M:%S}{fraction}"


def _offset(zone: tzinfo, micros: int, *, is_local: bool) -> int:
    """Return how many microseconds a zone is ahead of UTC at a moment, of any year; the first time if there are two."""
    days = micros // (DAY_SECONDS * MICROS)
    first_day, last_day = 2, 20 * DAYS_OF_400_YEARS  # no zone had rules before; those of later years repeat themselves
    within = first_day if days < first_day else min(days, last_day + days % DAYS_OF_400_YEARS)
    moment = FIRST_MOMENT + timedelta(days=within, microseconds=micros % (DAY_SECONDS * MICROS))
    offset = zone.utcoffset(moment) if is_local else moment.replace(tzinfo=UTC).astimezone(zone).utcoffset()
    return 0 if offset is None else offset // timedelta(microseconds=1)


@cache
def java_zone(name: str) -> tzinfo | None:
    """Find a zone as Spark does, ``None`` if there is none of this name."""
    padded = re.sub(r"([+-])([0-9]):", r"\g<1>0\2:", name.strip(BLANKS), count=1)
    padded = re.sub(r"([+-])([0-9]{2}):([0-9])$", r"\1\2:0\3", padded, count=1)
    padded = SHORT_ZONES.get(padded, padded)
    if padded in {"Z", "UTC", "GMT", "UT"}:
        return UTC
    if match := OFFSET.fullmatch(padded):
        hours, minutes, seconds = (int(part or 0) for part in (match[2] or match[3], match[5], match[6]))
        ahead = hours * 3600 + minutes * 60 + seconds
        is_one = ahead <= LARGEST_OFFSET and minutes < 60 and seconds < 60  # a clock
        return timezone(timedelta(seconds=-ahead if match[1] == "-" else ahead)) if is_one else None
    try:
        return ZoneInfo(padded)
    except (ValueError, KeyError, OSError):
        return None
