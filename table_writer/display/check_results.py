"""Results of data-quality checks as the reports show them."""

from __future__ import annotations

from collections.abc import Sequence

from table_writer.display.render import Grid
from table_writer.model.check_result import CheckResult

__all__ = ["check_grids", "checks_in_short", "verdict"]


def verdict(result: CheckResult) -> str:
    """Say how one check ended, and of which severity it is if it failed.

    Examples
    --------
    >>> verdict(CheckResult(name="fresh", severity="warn", passed=False, message="too old"))
    'failed (warn)'
    """
    return "passed" if result.passed else f"failed ({result.severity})"


def checks_in_short(results: Sequence[CheckResult]) -> str:
    """Say in some words how all checks of a write ended; ``-`` where there were none.

    Examples
    --------
    >>> good = CheckResult(name="unique(id)", severity="error", passed=True, message="4 ids")
    >>> old = CheckResult(name="fresh", severity="warn", passed=False, message="too old")
    >>> checks_in_short([]), checks_in_short([good]), checks_in_short([good, old])
    ('-', '1 check passed', '1 of 2 failed (warn)')
    """
    if not results:
        return "-"
    failed = [result for result in results if not result.passed]
    if not failed:
        return f"{len(results):,} check{'s' if len(results) > 1 else ''} passed"
    severities = ", ".join(sorted({result.severity for result in failed}))
    return f"{len(failed):,} of {len(results):,} failed ({severities})"


def check_grids(results: Sequence[CheckResult]) -> tuple[Grid, ...]:
    """Return a table of the checks, failed ones first, and one of the example rows of each that has some."""
    ordered = sorted(results, key=lambda result: (result.passed, not result.stops))  # stable: else in their order
    checks = Grid(
        title="checks",
        headings=("check", "outcome", "wrong rows", "found", "answered by"),
        rows=tuple(
            (
                result.name,
                verdict(result),
                "-" if result.failed_rows is None else f"{result.failed_rows:,}",
                result.message,
                result.answered_by,
            )
            for result in ordered
        ),
    )
    return (checks, *(_examples(result) for result in ordered if result.examples))


def _examples(result: CheckResult) -> Grid:
    columns = tuple(dict.fromkeys(column for row in result.examples for column in row))
    return Grid(
        title=f"{'what was said of' if result.failed_rows is None else 'rows that fail'} {result.name}",
        headings=columns,
        rows=tuple(tuple(row.get(column, "") for column in columns) for row in result.examples),
        figures=frozenset(),
        states=frozenset(),
    )
