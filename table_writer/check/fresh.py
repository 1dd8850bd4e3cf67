"""The newest value is not too old."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows
from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

from table_writer.check.audit import Facts
from table_writer.check.check import METADATA, SPARK, Check, CountIf, Question
from table_writer.check.target import Target
from table_writer.check.wording import row_count_text
from table_writer.model.check_result import CheckResult

__all__ = ["Fresh"]


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
