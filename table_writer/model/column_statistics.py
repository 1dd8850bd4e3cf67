"""Statistics of columns: what checks ask of a write, and what optimizers ask of a partition.

A task reads them from the footers of its files and counts the rest while it encodes them. They travel as JSON in a
staged write (:meth:`ColumnStatistics.to_json`), and as one short text in an entry (:func:`as_text`).
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple, TypeVar, cast

from table_writer.errors import InvalidInputError

Kind = Literal["integer", "float", "decimal", "date", "timestamp", "boolean", "text", "binary"]
Bound = int | float | str | date | datetime | Decimal
Moment = TypeVar("Moment", date, datetime)

STEPPED: Final = ("integer", "date", "timestamp")  # so many values at the most lie between two bounds
MOST_MEMBERS: Final = 16  # distinct values of which each is known: 4 bytes each
MEMBER_BYTES: Final = 4
KEY_LIKE: Final = 0.1  # of all values distinct: then more rows bring more values, as in PostgreSQL's ANALYZE
LONGEST_TEXT_BYTES: Final = 256  # of a bound: a longer one is left out, so that messages and registrations stay small
MAX_INTEGER: Final = 2**63 - 1  # of a bigint
MAX_DIGITS: Final = 38  # of Spark's decimals, before and after the point together
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
TEXTS: Final = ("null_count", "type", "low", "high")  # the fields of a column as JSON
PLAIN_ORDER: Final = ("byte", "short", "integer", "long", "decimal", "date", "timestamp", "timestamp_ntz", "string")
COLLATIONS: Final = "__COLLATIONS"  # Spark's metadata key: text is ordered by other rules than by its bytes
CURRENT_DEFAULT: Final = "CURRENT_DEFAULT"  # Spark's metadata key: the default of a column that a write lacks, as SQL
EXISTS_DEFAULT: Final = "EXISTS_DEFAULT"  # the same: what it reads of a column that a file lacks, as a literal of SQL
CHAR_VARCHAR: Final = "__CHAR_VARCHAR_TYPE_STRING"  # Spark's metadata key: the type is string, its limit is kept here


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnStatistics:
    """One column in some files. All is exact, or not given; only ``distinct`` is an estimate.

    A report of a staged write shows the first three fields; the others are counted for optimizers.

    Parameters
    ----------
    null_count
        Rows without a value; ``None`` where a footer does not tell.
    low, high
        Smallest and largest value that is not null; ``None`` where nobody knows, or there is no value, and in a
        floating-point column that has NaN or an infinite value. A ``timestamp`` is an aware datetime in UTC, a
        ``timestamp_ntz`` one without a zone.
    kind
        What the column holds.
    values
        Rows with a value.
    true_values
        Of a boolean.
    total_bytes, longest_bytes
        Lengths of texts and binary values as they are stored, in UTF-8.
    distinct
        Different values, without null.
    members
        Hashes of these, while they are few: then counts of several files can be put together exactly.

    Examples
    --------
    >>> paid_on = ColumnStatistics(null_count=2, low=date(2024, 1, 1), high=date(2024, 1, 31))
    >>> paid_on.to_json()
    {'null_count': 2, 'type': 'date', 'low': '2024-01-01', 'high': '2024-01-31'}
    >>> ColumnStatistics.from_json(paid_on.to_json()) == paid_on
    True
    """

    null_count: int | None = None
    low: Bound | None = None
    high: Bound | None = None
    kind: Kind | None = field(default=None, repr=False)
    values: int | None = field(default=None, repr=False)
    true_values: int | None = field(default=None, repr=False)
    total_bytes: int | None = field(default=None, repr=False)
    longest_bytes: int | None = field(default=None, repr=False)
    distinct: int | None = field(default=None, repr=False)
    members: frozenset[bytes] | None = field(default=None, repr=False)

    def validate(self) -> None:
        """Raise ``InvalidInputError`` for statistics that no file can have.

        That is a wrong count, a bound that is too long or no value of Spark's, bounds of two types, or a low bound
        above the high one.
        """
        bounds = self.bounds()
        counts = (self.null_count, self.values, self.true_values, self.total_bytes, self.longest_bytes, self.distinct)
        are_counts = all(count is None or (type(count) is int and 0 <= count <= MAX_INTEGER) for count in counts)
        within = are_counts and all((count or 0) <= (self.values or 0) for count in (self.true_values, self.distinct))
        types = {_type(bound) for bound in bounds.values()}
        fit = all(_type(bound) in TYPES and TYPES[_type(bound)].fits(bound) for bound in bounds.values())
        is_kind = self.kind in TYPES_BY_KIND
        if not is_kind or not within or len(types) > 1 or not fit or not types <= TYPES_BY_KIND[self.kind]:
            raise InvalidInputError(f"not the statistics of a column: {self!r}")
        if len(bounds) > 1 and cast("Any", self.low) > self.high:
            raise InvalidInputError(f"statistics of a column whose lowest value is above its highest: {self!r}")

    def to_json(self) -> dict[str, Any]:
        """Return null count and bounds as plain values; what is not known is left out."""
        self.validate()
        bounds = self.bounds()
        count = {} if self.null_count is None else {"null_count": self.null_count}
        typed = dict.fromkeys(["type"] if bounds else [], next(map(_type, bounds.values()), ""))
        return count | typed | {name: TYPES[_type(bound)].write(bound) for name, bound in bounds.items()}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> ColumnStatistics:
        """Read what :meth:`to_json` returned; ``InvalidInputError`` for anything else."""
        cause: Exception | None = None
        try:
            statistics = cls.of_texts(*(stored.get(name) for name in TEXTS))
            if statistics.to_json() == stored:
                return statistics
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            cause = error
        raise InvalidInputError(f"not the statistics of a column: {str(stored)[:200]}") from cause

    @classmethod
    def of_texts(
        cls, null_count: Any, type_name: Any, low: Any, high: Any, *, row_count: int | None = None
    ) -> ColumnStatistics:
        """Read the four values that :meth:`to_json` returns, ``None`` for one that it leaves out; checks nothing."""
        low, high = (None if text is None else TYPES[type_name].read(text) for text in (low, high))
        return cls(null_count=null_count, low=low, high=high, values=values_of(row_count, null_count))

    def has_rows(self, row_count: int | None) -> bool:
        """Return whether these are of so many rows, with and without a value."""
        return (self.null_count or 0) + (self.values or 0) == row_count

    def plus(self, other: ColumnStatistics) -> ColumnStatistics:
        """Return the statistics of the files of both; those whose rows are all null add no bound.

        Examples
        --------
        >>> one = ColumnStatistics(null_count=0, values=3, low=1, high=3)
        >>> one.plus(ColumnStatistics(null_count=2, values=2, low=3, high=9))
        ColumnStatistics(null_count=2, low=1, high=9)
        """
        null_count = _if_known(sum, self.null_count, other.null_count)
        if 0 in (self.values, other.values):
            return replace(other if self.values == 0 else self, null_count=null_count)
        merged = ColumnStatistics(
            null_count=null_count,
            low=_if_known(min, self.low, other.low),
            high=_if_known(max, self.high, other.high),
            kind=self.kind,
            values=_if_known(sum, self.values, other.values),
        )
        return merged if self.kind is None else self._add_counts(merged, other)

    def _add_counts(self, merged: ColumnStatistics, other: ColumnStatistics) -> ColumnStatistics:
        """Return the statistics of both with what is counted for optimizers."""
        members = None if self.members is None or other.members is None else self.members | other.members
        counted = replace(
            merged,
            true_values=_if_known(sum, self.true_values, other.true_values),
            total_bytes=_if_known(sum, self.total_bytes, other.total_bytes),
            longest_bytes=_if_known(max, self.longest_bytes, other.longest_bytes),
            members=members if members is not None and len(members) <= MOST_MEMBERS else None,
        )
        distinct = self._distinct_with(other) if members is None else len(members)
        return replace(counted, distinct=counted.bounded(distinct))

    def _distinct_with(self, other: ColumnStatistics) -> int | None:
        """Estimate the distinct values of both: each has its own in key-like columns, both the same in others."""
        is_key_like = all(
            column.distinct is not None and column.distinct >= KEY_LIKE * (column.values or 0)
            for column in (self, other)
        )
        distinct: int | None = _if_known(sum if is_key_like else max, self.distinct, other.distinct)
        return distinct

    def bounded(self, distinct: int | None) -> int | None:
        """Return a number of distinct values, limited to what the other fields allow."""
        values = self.values or 0
        if self.true_values is not None:
            return (self.true_values > 0) + (self.true_values < values)
        if distinct is None:
            return None
        most_distinct = values
        if self.kind in STEPPED and self.low is not None and self.high is not None:
            most_distinct = min(most_distinct, int(as_number(self.high) - as_number(self.low)) + 1)
        if self.low is not None and self.low == self.high:
            most_distinct = min(most_distinct, 1)
        return max(min(distinct, most_distinct), 1 if values else 0)

    def bounds(self) -> dict[str, Bound]:
        """Return the bounds that are known, by name."""
        named = {"low": self.low, "high": self.high}
        return {name: bound for name, bound in named.items() if bound is not None}


class MergedStatistics:
    """The statistics of parts, added up: row groups of a file, files of a task or a partition, tasks of a write.

    A column that one part lacks, or has as another kind, is not known of the whole. Parts without rows are not added.

    Examples
    --------
    >>> merged = MergedStatistics()
    >>> merged.add({"id": ColumnStatistics(null_count=0, values=20, low=1, high=9)})
    >>> merged.add({"id": ColumnStatistics(null_count=5, values=0)})  # no row has an id
    >>> merged.columns
    {'id': ColumnStatistics(null_count=5, low=1, high=9)}
    >>> merged.add({})
    >>> merged.columns
    {}
    """

    def __init__(self, *parts: Mapping[str, ColumnStatistics]) -> None:
        self._columns: dict[str, ColumnStatistics] | None = None
        for part in parts:
            self.add(part)

    @property
    def columns(self) -> dict[str, ColumnStatistics]:
        """Return the statistics of all parts together, by column."""
        return dict(self._columns or {})

    def add(self, part: Mapping[str, ColumnStatistics]) -> None:
        """Take another part."""
        if self._columns is None:
            self._columns = dict(part)
            return
        self._columns = {
            name: column.plus(part[name])
            for name, column in self._columns.items()
            if name in part and part[name].kind == column.kind
        }


def members_of(values: Collection[object]) -> frozenset[bytes] | None:
    """Return a hash of each value, alike in every process; ``None`` where they are too many to be kept."""
    if len(values) > MOST_MEMBERS:
        return None
    return frozenset(zlib.crc32(repr(value).encode(errors="replace")).to_bytes(MEMBER_BYTES, "big") for value in values)


def as_text(columns: Mapping[str, ColumnStatistics]) -> str:
    """Return statistics with a kind as one short text; empty for none.

    A date is stored as days, a time as microseconds since 1970 in UTC, a decimal as text.

    Examples
    --------
    >>> as_text({"id": ColumnStatistics(kind="integer", null_count=0, values=2, low=1, high=2)})
    '{"id":["integer",0,2,1,2]}'
    """
    stored = {name: _stored_fields(column) for name, column in columns.items()}
    return json.dumps(stored, ensure_ascii=False, separators=(",", ":")) if stored else ""


def from_text(text: str) -> dict[str, ColumnStatistics]:
    """Read what :func:`as_text` returned; a column whose statistics are damaged or impossible has none.

    Examples
    --------
    >>> from_text('{"id":["integer",0,2,1,2],"other":["integer",-5,2]}').keys(), from_text("{")
    (dict_keys(['id']), {})
    """
    try:
        stored = json.loads(text) if text else {}
        columns = {str(name): _column_of_fields(fields) for name, fields in stored.items()}
    except (AttributeError, TypeError, ValueError, RecursionError):
        return {}
    return {name: column for name, column in columns.items() if column is not None}


FIELDS: Final = (
    *("kind", "null_count", "values", "low", "high"),
    *("true_values", "total_bytes", "longest_bytes", "distinct", "members"),
)
"""The fields of a column in the order in which they stand in a text."""


def _stored_fields(column: ColumnStatistics) -> list[Any]:
    bounds = {name: as_number(bound) for name, bound in column.bounds().items()}
    if column.kind == "decimal":
        bounds = {name: format(bound, "f") for name, bound in bounds.items()}
    fields: list[Any] = [bounds.get(name, getattr(column, name)) for name in FIELDS]
    if column.members is not None:
        fields[-1] = base64.b64encode(b"".join(sorted(column.members))).decode()
    while fields[-1] is None:
        fields.pop()
    return fields


def _column_of_fields(stored: Any) -> ColumnStatistics | None:
    try:
        fields: dict[str, Any] = dict(zip(FIELDS, stored, strict=False))
        if len(stored) > len(FIELDS) or fields["kind"] is None or None in (fields["null_count"], fields["values"]):
            return None
        for name in ("low", "high"):
            if fields.get(name) is not None:
                fields[name] = _stored_bound(fields["kind"], fields[name])
        if fields.get("members") is not None:
            hashes = base64.b64decode(fields["members"], validate=True)
            starts = range(0, len(hashes), MEMBER_BYTES)
            fields["members"] = frozenset(hashes[start : start + MEMBER_BYTES] for start in starts)
        column = ColumnStatistics(**fields)
        column.validate()
    except (ArithmeticError, LookupError, TypeError, ValueError, binascii.Error):  # a refusal is a ValueError too
        return None
    return column


def _stored_bound(kind: str, bound: Any) -> Bound | None:
    if isinstance(bound, str) != (kind == "decimal") or isinstance(bound, bool):
        raise TypeError(bound)
    if kind == "decimal":
        return Decimal(bound)
    if kind == "float":
        return float(bound)
    if kind == "date":
        return moment_at(EPOCH.date(), timedelta(days=1), _whole(bound))
    return moment_at(EPOCH, timedelta(microseconds=1), _whole(bound)) if kind == "timestamp" else _whole(bound)


def _whole(number: Any) -> int:
    if not isinstance(number, int) or abs(number) > MAX_INTEGER + 1:
        raise TypeError(number)
    return number


def moment_at(epoch: Moment, unit: timedelta, count: int) -> Moment | None:
    """Return the date or time so many units after another; ``None`` before the year 1 or after 9999."""
    try:
        return epoch + count * unit
    except OverflowError:
        return None


def as_number(bound: Any) -> Any:
    """Return a date as days, a time as microseconds since 1970 in UTC; any other value as it is.

    Examples
    --------
    >>> as_number(date(1970, 1, 3)), as_number(datetime(1970, 1, 1, 0, 0, 1)), as_number("a")
    (2, 1000000, 'a')
    """
    if isinstance(bound, datetime):
        return (bound.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
    return (bound - EPOCH.date()).days if isinstance(bound, date) else bound


def values_of(row_count: int | None, null_count: int | None) -> int | None:
    """Return how many of some rows have a value; ``None`` if it is not known how many have none."""
    return None if row_count is None or null_count is None else row_count - null_count


def _if_known(combine: Callable[[Any], Any], value: Any, other: Any) -> Any:
    """Combine two values; ``None`` if either is unknown."""
    return None if value is None or other is None else combine((value, other))


def _type(bound: Bound) -> str:
    """Return the name of a bound's type; a datetime has one for each of Spark's two."""
    if isinstance(bound, datetime):
        return "timestamp_ntz" if bound.tzinfo is None else "timestamp"
    return NAMES.get(type(bound), "")


def _is_short(text: str) -> bool:
    try:
        return len(text.encode()) <= LONGEST_TEXT_BYTES
    except UnicodeEncodeError:  # half of a surrogate pair
        return False


def _is_spark_decimal(number: Decimal) -> bool:
    _, digits, exponent = number.as_tuple()
    return isinstance(exponent, int) and -MAX_DIGITS <= exponent <= 0 and len(digits) <= MAX_DIGITS


class _Type(NamedTuple):
    """The form of bounds of one type in JSON; ``fits`` tells whether Spark has such a value and it is short enough."""

    write: Callable[[Any], str]
    read: Callable[[str], Bound]
    fits: Callable[[Any], bool] = lambda _: True


NAMES: Final[dict[type, str]] = {int: "int", float: "float", str: "text", date: "date", Decimal: "decimal"}
TYPES: Final = {
    "int": _Type(str, int, lambda number: -MAX_INTEGER - 1 <= number <= MAX_INTEGER),
    "float": _Type(repr, float, math.isfinite),
    "text": _Type(str, str, _is_short),
    "date": _Type(date.isoformat, date.fromisoformat),
    "timestamp": _Type(datetime.isoformat, datetime.fromisoformat, lambda time: time.utcoffset() == timedelta(0)),
    "timestamp_ntz": _Type(datetime.isoformat, datetime.fromisoformat),
    "decimal": _Type(lambda number: format(number, "f"), Decimal, _is_spark_decimal),
}
TYPES_BY_KIND: Final[Mapping[Kind | None, frozenset[str]]] = {
    None: frozenset(TYPES) - {"float"},  # a footer's bounds of floating point leave NaN out
    "integer": frozenset({"int"}),
    "float": frozenset({"float"}),
    "decimal": frozenset({"decimal"}),
    "date": frozenset({"date"}),
    "timestamp": frozenset({"timestamp", "timestamp_ntz"}),
    **dict.fromkeys(("boolean", "text", "binary"), frozenset()),
}


def as_spark_orders(statistics: Mapping[str, ColumnStatistics], schema: str) -> dict[str, ColumnStatistics]:
    """Return what a staged write keeps: null counts, and bounds.

    There are bounds only where Spark reads and orders values as their files hold them. So there are none of
    ``char(n)``, which Spark pads, of text with a collation, and of intervals and other types that files hold as
    numbers. The schema is Spark's JSON, empty where nobody has looked.

    Examples
    --------
    >>> schema = '{"fields": [{"name": "id", "type": "long"}, {"name": "took", "type": "interval day"}]}'
    >>> one = ColumnStatistics(null_count=0, low=1, high=2)
    >>> as_spark_orders({"id": one, "took": one}, schema)["took"]
    ColumnStatistics(null_count=0, low=None, high=None)
    """
    fields = json.loads(schema or "{}").get("fields", [])
    ordered_names = {field["name"] for field in fields if _is_in_plain_order(field)}
    return {
        name: ColumnStatistics(null_count=column.null_count, low=column.low, high=column.high)
        if name in ordered_names
        else ColumnStatistics(null_count=column.null_count)
        for name, column in statistics.items()
    }


def _is_in_plain_order(field: Mapping[str, Any]) -> bool:
    metadata = field.get("metadata", {})
    declared = str(metadata.get(CHAR_VARCHAR, ""))
    kind = str(field["type"]).partition("(")[0]
    return kind in PLAIN_ORDER and COLLATIONS not in metadata and not declared.startswith("char")
