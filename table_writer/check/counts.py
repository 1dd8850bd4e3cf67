"""How many rows there are; never costs a read of the files."""

from __future__ import annotations

from dataclasses import dataclass

from table_writer.check.audit import Facts
from table_writer.check.check import METADATA, Check, Question
from table_writer.check.target import Target
from table_writer.check.wording import row_count_text
from table_writer.model.check_result import CheckResult

__all__ = ["RowCount", "RowCountChange"]


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
