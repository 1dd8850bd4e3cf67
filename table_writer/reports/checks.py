"""The results of checks, as reports on writes and versions show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from table_writer.errors import counted
from table_writer.model.check_result import CheckResult
from table_writer.reports.html import summary_html
from table_writer.reports.layout import Column, Columns, Figure, Grid, State, Summary


class CheckResults(tuple[CheckResult, ...]):
    """The results of checks: a tuple that is shown as a table, in text and in notebooks, failed ones first.

    Examples
    --------
    >>> CheckResults([CheckResult(name="unique(id)", severity="error", passed=True, message="none of 2 rows repeats")])
    1 check passed
      checks:
      check       outcome  wrong rows  answered by  found
      unique(id)  passed            -  spark        none of 2 rows repeats
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return self._summary().text()

    def _repr_html_(self) -> str:
        return summary_html(self._summary())

    def _summary(self) -> Summary:
        return Summary(headline=checks_in_short(self) if self else "no checks", grids=check_grids(self))


def verdict(result: CheckResult) -> str:
    """Say how one check ended; a failed one with its severity."""
    return "passed" if result.passed else f"failed ({result.severity})"


def checks_in_short(results: Sequence[CheckResult]) -> str:
    """Say in a few words how the checks of a write ended; ``-`` if there were none."""
    if not results:
        return "-"
    failed_results = [result for result in results if not result.passed]
    if not failed_results:
        return f"{counted(len(results), 'check')} passed"
    severities = ", ".join(sorted({result.severity for result in failed_results}))
    return f"{len(failed_results):,} of {len(results):,} failed ({severities})"


CHECKS: Final[Columns] = (
    Column("check", "name"),
    State("outcome", spell=verdict),
    Figure("wrong rows", spell=lambda result: "-" if result.failed_rows is None else result.failed_rows),
    Column("answered by", "answered_by"),
    Column("found", "message"),  # last, so that a long message pushes nothing out of sight
)


def check_grids(results: Sequence[CheckResult]) -> tuple[Grid, ...]:
    """Return a table of the checks, failed ones first, and one of the example rows of each that has some."""
    # stable: otherwise in the order of the call
    results_in_order = sorted(results, key=lambda result: (result.passed, not result.stops))
    examples = (_examples(result) for result in results_in_order if result.examples)
    return (Grid(CHECKS, results_in_order, "checks"), *examples)


def _examples(result: CheckResult) -> Grid:
    names = dict.fromkeys(name for row in result.examples for name in row)
    title = f"{'what was said of' if result.failed_rows is None else 'rows that fail'} {result.name}"
    return Grid([Column(name, spell=partial(_example, name)) for name in names], result.examples, title)


def _example(name: str, row: Mapping[str, str]) -> str:
    return row.get(name, "")
