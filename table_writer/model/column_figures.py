"""Figures of a partition's columns, for optimizers, as text that travels from a task to the log."""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, Final, Literal, get_args

Kind = Literal["integer", "float", "decimal", "date", "timestamp", "boolean", "text", "binary"]
"""The kinds of columns. Bounds of a date are days, those of a timestamp microseconds, both since 1970 in UTC."""

KINDS: Final = get_args(Kind)
STEPPED: Final = ("integer", "date", "timestamp")  # so many values at the most lie between two bounds
MOST_MEMBERS: Final = 16  # distinct values of which each is known: 4 bytes each
MEMBER_BYTES: Final = 4
KEY_LIKE: Final = 0.1  # of all values distinct: then more rows bring more values, as in PostgreSQL's ANALYZE
MAX_NUMBER: Final = 2**63 - 1  # of a bigint


@dataclass(frozen=True, slots=True)
class ColumnFigures:
    """One column in some files. Counts and bounds are exact, or not given; ``distinct`` is an estimate.

    Parameters
    ----------
    kind
        What it holds.
    nulls, values
        Rows without and with a value.
    low, high
        Smallest and largest value. A decimal is text. ``None`` if unknown: also where a floating-point column has NaN,
        or an infinite value.
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
    >>> one = ColumnFigures("integer", nulls=0, values=3, low=1, high=3, distinct=3, members=members_of([1, 2, 3]))
    >>> other = ColumnFigures("integer", nulls=2, values=2, low=3, high=9, distinct=2, members=members_of([3, 9]))
    >>> both = one.plus(other)
    >>> both.nulls, both.low, both.high, both.distinct
    (2, 1, 9, 4)
    """

    kind: Kind
    nulls: int
    values: int
    low: int | float | str | None = None
    high: int | float | str | None = None
    true_values: int | None = None
    total_bytes: int | None = None
    longest_bytes: int | None = None
    distinct: int | None = None
    members: frozenset[bytes] | None = None

    @property
    def rows(self) -> int:
        """Return the number of rows, nulls included."""
        return self.nulls + self.values

    def plus(self, other: ColumnFigures) -> ColumnFigures:
        """Return the figures of both files together."""
        if not other.values or not self.values:
            with_values = self if self.values else other
            return replace(with_values, nulls=self.nulls + other.nulls)
        members = None if self.members is None or other.members is None else self.members | other.members
        merged = ColumnFigures(
            kind=self.kind,
            nulls=self.nulls + other.nulls,
            values=self.values + other.values,
            low=_bound(min, self, self.low, other.low),
            high=_bound(max, self, self.high, other.high),
            true_values=_sum_if_known(self.true_values, other.true_values),
            total_bytes=_sum_if_known(self.total_bytes, other.total_bytes),
            longest_bytes=None
            if self.longest_bytes is None or other.longest_bytes is None
            else max(self.longest_bytes, other.longest_bytes),
            distinct=self._distinct_with(other) if members is None else len(members),
            members=members if members is not None and len(members) <= MOST_MEMBERS else None,
        )
        return replace(merged, distinct=merged.bounded(merged.distinct))

    def _distinct_with(self, other: ColumnFigures) -> int | None:
        """Estimate the distinct values of both files: each has its own in key-like columns, both the same in others."""
        if self.distinct is None or other.distinct is None:
            return None
        is_key_like = all(
            figures.distinct is not None and figures.distinct >= KEY_LIKE * figures.values for figures in (self, other)
        )
        return self.distinct + other.distinct if is_key_like else max(self.distinct, other.distinct)

    def bounded(self, distinct: int | None) -> int | None:
        """Return a number of distinct values, limited to what the other figures allow."""
        if self.true_values is not None:
            return (self.true_values > 0) + (self.true_values < self.values)
        if distinct is None:
            return None
        most_distinct = self.values
        if self.kind in STEPPED and isinstance(self.low, int) and isinstance(self.high, int):
            most_distinct = min(most_distinct, self.high - self.low + 1)
        if self.low is not None and self.low == self.high:
            most_distinct = min(most_distinct, 1)
        return max(min(distinct, most_distinct), 1 if self.values else 0)

    def is_possible(self) -> bool:
        """Return whether a file can have such figures; those that are read may come from a damaged log."""
        counts = (self.nulls, self.values, self.true_values, self.total_bytes, self.longest_bytes, self.distinct)
        if self.kind not in KINDS or any(count is not None and not _is_count(count) for count in counts):
            return False
        try:
            low, high = (None if bound is None else _comparable(self.kind, bound) for bound in (self.low, self.high))
        except (InvalidOperation, TypeError, ValueError):
            return False
        in_order = low is None or high is None or low <= high
        within = all((count or 0) <= self.values for count in (self.true_values, self.distinct))
        return in_order and within


FIELDS: Final = tuple(ColumnFigures.__dataclass_fields__)  # in the order in which they are stored


def members_of(values: Collection[object]) -> frozenset[bytes] | None:
    """Return a hash of each value, alike in every process; ``None`` where they are too many to be kept."""
    if len(values) > MOST_MEMBERS:
        return None
    return frozenset(zlib.crc32(repr(value).encode(errors="replace")).to_bytes(MEMBER_BYTES, "big") for value in values)


def merged_figures(parts: Collection[Mapping[str, ColumnFigures]]) -> dict[str, ColumnFigures]:
    """Return the figures of several files together, without columns that one of them lacks or has as another kind."""
    merged: dict[str, ColumnFigures] | None = None
    for part in parts:
        if merged is None:
            merged = dict(part)
            continue
        merged = {
            name: figures.plus(part[name])
            for name, figures in merged.items()
            if name in part and part[name].kind == figures.kind
        }
    return merged or {}


def as_text(columns: Mapping[str, ColumnFigures]) -> str:
    """Return the figures as one short text; empty for none.

    Examples
    --------
    >>> as_text({"id": ColumnFigures("integer", nulls=0, values=2, low=1, high=2)})
    '{"id":["integer",0,2,1,2]}'
    """
    stored = {name: _stored_fields(figures) for name, figures in columns.items()}
    return json.dumps(stored, ensure_ascii=False, separators=(",", ":")) if stored else ""


def from_text(text: str) -> dict[str, ColumnFigures]:
    """Read what :func:`as_text` returned; a column whose figures are damaged or impossible has none.

    Examples
    --------
    >>> from_text('{"id":["integer",0,2,1,2],"other":["integer",-5,2]}').keys(), from_text("{")
    (dict_keys(['id']), {})
    """
    try:
        stored = json.loads(text) if text else {}
        figures_by_name = {str(name): _figures(fields) for name, fields in stored.items()}
    except (AttributeError, TypeError, ValueError, RecursionError):
        return {}
    return {name: figures for name, figures in figures_by_name.items() if figures is not None and figures.is_possible()}


def _stored_fields(figures: ColumnFigures) -> list[Any]:
    fields: list[Any] = [getattr(figures, name) for name in FIELDS]
    if figures.members is not None:
        fields[-1] = base64.b64encode(b"".join(sorted(figures.members))).decode()
    while fields[-1] is None:
        fields.pop()
    return fields


def _figures(stored: Any) -> ColumnFigures | None:
    try:
        fields: dict[str, Any] = dict(zip(FIELDS, stored, strict=False))
        if len(stored) > len(FIELDS):
            return None
        if fields.get("members") is not None:
            hashes = base64.b64decode(fields["members"], validate=True)
            starts = range(0, len(hashes), MEMBER_BYTES)
            fields["members"] = frozenset(hashes[start : start + MEMBER_BYTES] for start in starts)
        return ColumnFigures(**fields)
    except (TypeError, ValueError, binascii.Error):
        return None


def _bound(choose: Any, of: ColumnFigures, bound: Any, other: Any) -> Any:
    """Return the smaller or the larger of two bounds; ``None`` if either is unknown."""
    if bound is None or other is None:
        return None
    return choose(bound, other, key=partial(_comparable, of.kind))


def _comparable(kind: str, bound: Any) -> Any:
    """Return a bound in a form that can be compared; ``TypeError`` or ``ValueError`` if it is not of the kind."""
    if kind == "decimal":
        number = Decimal(bound) if isinstance(bound, str) else None
        if number is None or not number.is_finite():
            raise ValueError(bound)
        return number
    is_of_kind = isinstance(bound, int | float) if kind == "float" else isinstance(bound, int) and kind in STEPPED
    if (
        isinstance(bound, bool)
        or not is_of_kind
        or not math.isfinite(bound)
        or (abs(bound) > MAX_NUMBER + 1 and kind != "float")
    ):
        raise TypeError(bound)
    return bound


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= MAX_NUMBER


def _sum_if_known(count: int | None, other: int | None) -> int | None:
    return None if count is None or other is None else count + other
