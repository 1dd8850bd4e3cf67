"""The result of a data-quality check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from table_writer.errors import InvalidInputError

ERROR: Final = "error"  # nothing is published
WARN: Final = "warn"  # the write is published all the same, with the failed check in its result
SEVERITIES: Final = (ERROR, WARN)
MAX_COUNT: Final = 2**63 - 1  # of a bigint
LONGEST_LINE: Final = 300  # characters of a message that is stored


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """One check of one write.

    Parameters
    ----------
    name
        As the check calls itself: ``not_null(order_id)``; unique in a write.
    severity
        ``"error"`` or ``"warn"``: what a failure means.
    passed
        Whether the rows are as the check wants them.
    message
        What was found, in one sentence: ``3 of 1,200 rows have no order_id``.
    failed_rows
        How many rows are wrong; ``None`` where the check is not about single rows.
    examples
        Some of those rows, values as text by column. Never stored: rows may hold what a log must not.
    answered_by
        ``"metadata"``: footers and commit messages, no file was read; ``"spark"``; ``"function"``: the user's own.

    Examples
    --------
    >>> found = CheckResult(name="not_null(id)", severity="warn", passed=False, message="1 of 2 rows has no id")
    >>> CheckResult.from_json(found.to_json()) == found, found.stops
    (True, False)
    """

    name: str
    severity: str
    passed: bool
    message: str
    failed_rows: int | None = None
    examples: tuple[Mapping[str, str], ...] = ()
    answered_by: str = "spark"

    @property
    def stops(self) -> bool:
        """Return whether the result forbids the publish."""
        return not self.passed and self.severity == ERROR

    def without_examples(self) -> CheckResult:
        """Return what may be stored: a line, since the text of a user's own function may be a table of rows."""
        return replace(self, name=stored_line(self.name), message=stored_line(self.message), examples=())

    def to_json(self) -> dict[str, Any]:
        """Return plain values for storage, without rows of the data."""
        return {
            "name": stored_line(self.name),
            "severity": self.severity,
            "passed": self.passed,
            "message": stored_line(self.message),
            "failed_rows": self.failed_rows,
            "answered_by": self.answered_by,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> CheckResult:
        """Read what was stored; ``InvalidInputError`` if it is no result of a check."""
        texts: dict[str, Any] = {name: stored.get(name) for name in ("name", "severity", "message", "answered_by")}
        passed, failed_rows = stored.get("passed"), stored.get("failed_rows")
        known = all(isinstance(text, str) for text in texts.values()) and texts["severity"] in SEVERITIES
        counted = failed_rows is None or (type(failed_rows) is int and 0 <= failed_rows <= MAX_COUNT)
        if not known or not isinstance(passed, bool) or not counted:
            raise InvalidInputError(f"not the result of a check: {dict(stored)!r}")
        return cls(passed=passed, failed_rows=failed_rows, **texts)


def stored_line(text: str) -> str:
    """Return the first line that says something, as far as it can be stored."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return first.encode(errors="replace").decode()[:LONGEST_LINE]
