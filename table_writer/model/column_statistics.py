"""Column statistics of a write, merged from the footers of its files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple, cast

from table_writer.errors import InvalidInputError

Bound = int | str | date | datetime | Decimal
"""A smallest or largest value. Floating point has none here: NaN is in no footer."""

LONGEST_TEXT_BYTES: Final = 256  # of a bound: a longer one is left out, so that messages and registrations stay small
MAX_INTEGER: Final = 2**63 - 1  # of a bigint
MAX_DIGITS: Final = 38  # of Spark's decimals, before and after the point together
TEXTS: Final = ("null_count", "type", "low", "high")  # the stored fields of a column
PLAIN_ORDER: Final = ("byte", "short", "integer", "long", "decimal", "date", "timestamp", "timestamp_ntz", "string")
COLLATIONS: Final = "__COLLATIONS"  # Spark's metadata key: text is ordered by other rules than by its bytes
CURRENT_DEFAULT: Final = "CURRENT_DEFAULT"  # Spark's metadata key: the default of a column that a write lacks, as SQL
EXISTS_DEFAULT: Final = "EXISTS_DEFAULT"  # the same: what it reads of a column that a file lacks, as a literal of SQL
CHAR_VARCHAR: Final = "__CHAR_VARCHAR_TYPE_STRING"  # Spark's metadata key: the type is string, its limit is kept here


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnStatistics:
    """One column in all files of a write; exact, or not said.

    Parameters
    ----------
    null_count
        Rows without a value; ``None`` where a footer does not tell.
    low, high
        Smallest and largest value that is not null; ``None`` where a footer does not tell, or there is no value.
        A ``timestamp`` is an aware datetime in UTC, a ``timestamp_ntz`` one without a zone.

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

    def validate(self) -> None:
        """Raise ``InvalidInputError`` for statistics that no footer can hold.

        That is a wrong count, a bound that is too long or no value of Spark's, bounds of two types, or a low bound
        above the high one.
        """
        nulls, bounds = self.null_count, self._bounds()
        is_count = nulls is None or (type(nulls) is int and 0 <= nulls <= MAX_INTEGER)
        kinds = {_kind(bound) for bound in bounds.values()}
        fit = all(_kind(bound) in KINDS and KINDS[_kind(bound)].fits(bound) for bound in bounds.values())
        if not is_count or len(kinds) > 1 or not fit:
            raise InvalidInputError(f"not the statistics of a column: {self!r}")
        if len(bounds) > 1 and cast("Any", self.low) > self.high:
            raise InvalidInputError(f"statistics of a column whose lowest value is above its highest: {self!r}")

    def to_json(self) -> dict[str, Any]:
        """Return plain values; what is not known is left out."""
        self.validate()
        bounds = self._bounds()
        count = {} if self.null_count is None else {"null_count": self.null_count}
        typed = dict.fromkeys(["type"] if bounds else [], next(map(_kind, bounds.values()), ""))
        return count | typed | {name: KINDS[_kind(bound)].write(bound) for name, bound in bounds.items()}

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
    def of_texts(cls, null_count: Any, kind: Any, low: Any, high: Any) -> ColumnStatistics:
        """Read the four values that :meth:`to_json` returns, ``None`` for one that it leaves out; checks nothing."""
        low, high = (None if text is None else KINDS[kind].read(text) for text in (low, high))
        return cls(null_count=null_count, low=low, high=high)

    def _bounds(self) -> dict[str, Bound]:
        named = {"low": self.low, "high": self.high}
        return {name: bound for name, bound in named.items() if bound is not None}


def _kind(bound: Bound) -> str:
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


class _Kind(NamedTuple):
    """The stored form of bounds of one type; ``fits`` tells whether Spark has such a value and it is short enough."""

    write: Callable[[Any], str]
    read: Callable[[str], Bound]
    fits: Callable[[Any], bool] = lambda _: True


NAMES: Final[dict[type, str]] = {int: "int", str: "text", date: "date", Decimal: "decimal"}
KINDS: Final = {
    "int": _Kind(str, int, lambda number: -MAX_INTEGER - 1 <= number <= MAX_INTEGER),
    "text": _Kind(str, str, _is_short),
    "date": _Kind(date.isoformat, date.fromisoformat),
    "timestamp": _Kind(datetime.isoformat, datetime.fromisoformat, lambda time: time.utcoffset() == timedelta(0)),
    "timestamp_ntz": _Kind(datetime.isoformat, datetime.fromisoformat),
    "decimal": _Kind(lambda number: format(number, "f"), Decimal, _is_spark_decimal),
}


class MergedStatistics:
    """The statistics of parts of a write, added up: row groups of a file, files of a task, tasks.

    A column that one part does not know is not known. Parts without rows have nothing to say.

    Examples
    --------
    >>> merged = MergedStatistics()
    >>> merged.add({"id": ColumnStatistics(null_count=0, low=1, high=9)}, row_count=20)
    >>> merged.add({"id": ColumnStatistics(null_count=5)}, row_count=5)  # no row has an id
    >>> merged.columns
    {'id': ColumnStatistics(null_count=5, low=1, high=9)}
    >>> merged.add({}, row_count=1)
    >>> merged.columns
    {}
    """

    def __init__(self) -> None:
        self._columns: dict[str, ColumnStatistics] = {}
        self._row_count = 0

    @property
    def columns(self) -> dict[str, ColumnStatistics]:
        """Return the statistics of all parts together, by column."""
        return dict(self._columns)

    def add(self, statistics: Mapping[str, ColumnStatistics], row_count: int) -> None:
        """Take another part, of so many rows."""
        if row_count and self._row_count:
            earlier = self._columns
            self._columns = {
                name: _merged(earlier[name], self._row_count, column, row_count)
                for name, column in statistics.items()
                if name in earlier
            }
        elif row_count:
            self._columns = dict(statistics)
        self._row_count += row_count


def _merged(column: ColumnStatistics, rows: int, other: ColumnStatistics, other_rows: int) -> ColumnStatistics:
    """Merge two parts, given with their rows; a part whose rows are all null adds no bound."""
    nulls, other_nulls = column.null_count, other.null_count
    null_count = None if nulls is None or other_nulls is None else nulls + other_nulls
    if nulls == rows:
        return ColumnStatistics(null_count=null_count, low=other.low, high=other.high)
    if other_nulls == other_rows:
        return ColumnStatistics(null_count=null_count, low=column.low, high=column.high)
    low = None if column.low is None or other.low is None else min(cast("Any", column.low), other.low)
    high = None if column.high is None or other.high is None else max(cast("Any", column.high), other.high)
    return ColumnStatistics(null_count=null_count, low=low, high=high)


def as_spark_orders(statistics: Mapping[str, ColumnStatistics], schema: str) -> dict[str, ColumnStatistics]:
    """Return statistics with bounds only where Spark reads and orders values as their files hold them.

    So there are none of ``char(n)``, which Spark pads, of text with a collation, and of intervals and other types that
    files hold as numbers. The schema is Spark's JSON, empty where nobody has looked.

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
        name: column if name in ordered_names else replace(column, low=None, high=None)
        for name, column in statistics.items()
    }


def _is_in_plain_order(field: Mapping[str, Any]) -> bool:
    metadata = field.get("metadata", {})
    declared = str(metadata.get(CHAR_VARCHAR, ""))
    kind = str(field["type"]).partition("(")[0]
    return kind in PLAIN_ORDER and COLLATIONS not in metadata and not declared.startswith("char")
