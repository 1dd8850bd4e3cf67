"""The newest value is not too old."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import zip_longest
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import DateType, StructField, StructType, TimestampNTZType, TimestampType, _parse_datatype_string

from table_writer.check.check import FUNCTION, METADATA, SPARK, Check, CountIf, Facts, Question
from table_writer.check.columns import Target, counted, declared_type, listed, row_count_text, shortened, shown
from table_writer.check.query import error_in_data
from table_writer.errors import printable
from table_writer.model.check_result import CheckResult
from table_writer.spark.sql import spark_reason

__all__ = ["Fresh", "FunctionCheck", "HasSchema", "RowCount", "RowCountChange", "function_name"]


COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")

LONGEST_MESSAGE: Final = 300

LONGEST_TEXT: Final = 4_000  # characters of an error that are shown, but not stored


def now_utc() -> datetime:
    """Return the time on the driver's clock."""
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class Fresh(Check):
    """The newest value of a column is not older than it may be."""

    column: str
    within: timedelta
    clock: Callable[[], datetime] = now_utc

    def bind(self, target: Target) -> Question:
        """Find the column."""
        place = target.place(self.column)
        if not isinstance(place.kind, (DateType, TimestampType, TimestampNTZType)):
            raise self.wrong(
                f"{place.shown} is {place.kind.simpleString()}, neither a date nor a timestamp; for a text write"
                f" expression(\"max(to_date({place.shown})) >= current_date() - INTERVAL '1' DAY\")"
            )
        return _Age(check=self, places=(place,), within=self.within, now=self.clock())


@dataclass(frozen=True, kw_only=True)
class _Age(Question):
    within: timedelta
    now: datetime

    @property
    def oldest(self) -> datetime:
        """The oldest moment that will do."""
        try:
            return self.now - self.within
        except OverflowError:  # longer than there have been years
            return datetime.min.replace(tzinfo=UTC)

    @property
    def longest(self) -> str:
        """How old it may be, for people: ``1 day``, not ``1 day, 0:00:00``."""
        return str(self.within).removesuffix(", 0:00:00")

    @property
    def is_local(self) -> bool:
        return False  # what partitions tell was taken from them before

    def known(self, facts: Facts) -> CheckResult | None:
        [place] = self.places
        if place.is_partition and not place.is_nested:
            values = facts.values(place)
            days = [value for value, _ in values or () if isinstance(value, date)]
            if values is not None:
                return self._of_moment(max(days, default=None), facts, METADATA)
        found = facts.statistics(place)
        if facts.rows in (0, found.null_count):
            return self._of_moment(None, facts, METADATA)
        if isinstance(found.high, date):
            return self._of_moment(found.high, facts, METADATA)
        return None

    def _of_moment(self, newest: date | None, facts: Facts, by: str) -> CheckResult:
        """Judge by the newest value; a date is all of its day in UTC, a time without a zone is in UTC."""
        if newest is None:
            return self._judged(newest="", is_fresh=False, facts=facts, by=by)
        if not isinstance(newest, datetime):
            return self._judged(newest=newest.isoformat(), is_fresh=newest >= self.oldest.date(), facts=facts, by=by)
        moment = newest if newest.tzinfo is not None else newest.replace(tzinfo=UTC)
        return self._judged(
            newest=f"{moment:%Y-%m-%d %H:%M:%S} UTC", is_fresh=moment >= self.oldest, facts=facts, by=by
        )

    def _judged(self, *, newest: str, is_fresh: bool, facts: Facts, by: str) -> CheckResult:
        name = self.places[0].shown
        if not newest:
            return self.failed(f"no {name} in {row_count_text(facts.rows)}", by=by)
        asked = f"at {self.now:%Y-%m-%d %H:%M:%S} UTC"
        if is_fresh:
            return self.passed(f"the newest {name} is {newest}, {asked}", by)
        return self.failed(f"the newest {name} is {newest}, older than {self.longest} {asked}", by=by)

    def measures(self, flag: Column, count_if: CountIf) -> Sequence[Column]:  # noqa: ARG002
        """Compare in Spark: its years go further than Python's."""
        [place] = self.places
        newest, oldest = F.max(place.column), self.oldest
        if isinstance(place.kind, DateType):
            return [newest.cast("string"), newest >= F.lit(oldest.date().isoformat()).cast("date")]
        if isinstance(place.kind, TimestampNTZType):
            moment = F.lit(oldest.replace(tzinfo=None).isoformat(" ")).cast("timestamp_ntz")
            return [F.concat(newest.cast("string"), F.lit(" UTC")), newest >= moment]
        text = F.to_utc_timestamp(newest, F.current_timezone()).cast("string")
        return [F.concat(text, F.lit(" UTC")), newest >= F.lit(oldest.isoformat(" ")).cast("timestamp")]

    def judged(self, measured: Sequence[Any], facts: Facts) -> CheckResult:
        return self._judged(newest=measured[0] or "", is_fresh=bool(measured[1]), facts=facts, by=SPARK)


@dataclass(frozen=True, kw_only=True)
class RowCount(Check):
    """There are as many rows as there should be."""

    low: int | None
    high: int | None

    def bind(self, target: Target) -> Question:  # noqa: ARG002  # no column
        """Nothing to find."""
        return _Rows(check=self, low=self.low, high=self.high)


@dataclass(frozen=True, kw_only=True)
class _Rows(Question):
    low: int | None
    high: int | None

    def known(self, facts: Facts) -> CheckResult:
        found = row_count_text(facts.rows)
        if self.low is not None and facts.rows < self.low:
            return self.failed(f"{found}, fewer than {self.low:,}", by=METADATA)
        if self.high is not None and facts.rows > self.high:
            return self.failed(f"{found}, more than {self.high:,}", by=METADATA)
        return self.passed(found, METADATA)


@dataclass(frozen=True, kw_only=True)
class RowCountChange(Check):
    """There are about as many rows as they replace."""

    low: float | None
    high: float | None

    def bind(self, target: Target) -> Question:  # noqa: ARG002  # no column
        """Nothing to find."""
        return _Change(check=self, low=self.low, high=self.high)


@dataclass(frozen=True, kw_only=True)
class _Change(Question):
    low: float | None
    high: float | None

    def known(self, facts: Facts) -> CheckResult:
        before = facts.replaced_rows
        replacing = f"{row_count_text(facts.rows)} {'replaces' if facts.rows == 1 else 'replace'}"
        if before == 0:
            return self.passed(f"{replacing} no rows", METADATA)
        ratio = facts.rows / before
        found = f"{replacing} {before:,}, {ratio:.4g} times as many"
        if self.low is not None and facts.rows < self.low * before:
            return self.failed(f"{found}; at least {self.low:g} times are wanted", by=METADATA)
        if self.high is not None and facts.rows > self.high * before:
            return self.failed(f"{found}; at most {self.high:g} times are wanted", by=METADATA)
        return self.passed(found, METADATA)


@dataclass(frozen=True, kw_only=True)
class HasSchema(Check):
    """Names, types and order of the columns."""

    expected: StructType | str

    def bind(self, target: Target) -> Question:  # noqa: ARG002  # no column
        """Read the DDL."""
        try:
            expected = _parse_datatype_string(self.expected) if isinstance(self.expected, str) else self.expected
        except PySparkException as error:
            raise self.wrong(f"{shown(self.expected)} is no schema in DDL: {spark_reason(error)}") from error
        if not isinstance(expected, StructType):
            raise self.wrong(f"{shown(self.expected)} is a type, not a schema: write 'name type, name type'")
        return _Schema(check=self, expected=expected)


@dataclass(frozen=True, kw_only=True)
class _Schema(Question):
    expected: StructType

    def known(self, facts: Facts) -> CheckResult:
        target = facts.target
        pairs = zip_longest(self.expected, target.schema)
        differences = [text for position, pair in enumerate(pairs, 1) if (text := _difference(target, position, *pair))]
        if differences:
            return self.failed(f"the schema is another: {listed(differences, 10)}", by=METADATA)
        return self.passed(f"{counted(len(self.expected), 'column')}, as expected", METADATA)


def _difference(target: Target, position: int, expected: StructField | None, found: StructField | None) -> str:
    if expected is None or found is None:
        missing = "missing" if found is None else "not expected"
        return f"column {position} ({_spelled(expected or found)}) is {missing}"
    types = (declared_type(expected), declared_type(found))
    is_same = types[0] == types[1] or (not target.is_case_sensitive and types[0].lower() == types[1].lower())
    if target.same(expected.name, found.name) and is_same:
        return ""
    return f"column {position} is {_spelled(found)}, not {_spelled(expected)}"


def _spelled(field: StructField | None) -> str:
    return "" if field is None else printable(f"{field.name} {declared_type(field)}")


def function_name(function: Callable[..., Any]) -> str:
    """Return what a callable is called; a lambda has no name of its own.

    Examples
    --------
    >>> function_name(len), function_name(partial(print, 1)), function_name(lambda df: True)
    ('len', 'print', 'lambda')
    """
    while isinstance(function, partial):
        function = function.func
    name = str(getattr(function, "__name__", type(function).__name__))
    return "lambda" if name == "<lambda>" else name


@dataclass(frozen=True, kw_only=True)
class FunctionCheck(Check):
    """Calls a function with the staged rows."""

    function: Callable[[DataFrame], Any]

    def bind(self, target: Target) -> Question:  # noqa: ARG002  # it finds its columns itself
        """Nothing to find."""
        return _Call(check=self, function=self.function)


@dataclass(frozen=True, kw_only=True)
class _Call(Question):
    function: Callable[[DataFrame], Any]

    def known(self, facts: Facts) -> CheckResult:
        frame = facts.frame  # a failure to open it is none of the function's
        try:
            found = self.function(frame)
        except Exception as error:  # noqa: BLE001  # whatever it raises is its answer
            return self._raised(error)
        if found is None or _is_truth(found, value=True):
            return self.passed("the function found nothing wrong", FUNCTION)
        if _is_truth(found, value=False):
            return self.failed("the function returned False", by=FUNCTION)
        return self.failed(
            f"the function returned {type(found).__name__}; a check returns True, False or None, or raises an error",
            by=FUNCTION,
        )

    def _raised(self, error: Exception) -> CheckResult:
        """Say the first line; the whole text may show rows, so it is an example, which is never stored."""
        text = COLOURS.sub("", _said_by(error)).strip()
        lines = [line.strip() for line in text.splitlines() if re.search(r"\w", line)]
        kind = type(error).__name__
        of_data = error_in_data(error)  # Spark's sentences hold values of rows
        first = of_data.kind if of_data else shortened(lines[0], LONGEST_MESSAGE) if lines else ""
        examples = [{kind: shortened(text, LONGEST_TEXT)}] if text not in {first, ""} else []
        prefix = "" if isinstance(error, AssertionError) and first else kind
        said = ": ".join(filter(None, (prefix, first)))
        return self.failed(printable(said), by=FUNCTION, examples=examples)


def _said_by(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # one that cannot even say what it is
        return ""


def _is_truth(found: object, *, value: bool) -> bool:
    """Whether a function said yes, or no; numpy's booleans are none of Python's."""
    is_numpy = type(found).__module__ == "numpy" and type(found).__name__ in {"bool", "bool_"}
    return (isinstance(found, bool) or is_numpy) and bool(found) is value
