"""The text of a failure: every check that failed, with counts and rows, for a terminal or a log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from table_writer.check.wording import printable, shortened
from table_writer.model.check_result import CheckResult

__all__ = ["failure_text"]

LONGEST_VALUE: Final = 32
LONGEST_LINE: Final = 120
LONGEST_SENTENCE: Final = 500
BORDER: Final = "  "


def failure_text(results: Sequence[CheckResult], table: str, write_id: str) -> str:
    """Say which checks failed, and show some of the rows.

    Examples
    --------
    >>> wrong = CheckResult(name="not_null(id)", severity="error", passed=False, message="1 of 2 rows have no id",
    ...                     failed_rows=1, examples=({"id": "null", "note": "a"},))
    >>> print(failure_text([wrong], "mart.orders", "w1"))
    1 of 1 checks of write w1 failed; nothing was published to mart.orders:
      not_null(id): 1 of 2 rows have no id
          id    note
          null  a
    Correct the data and write again. A check of severity="warn" lets a write pass.
    """
    failed = sorted((one for one in results if not one.passed), key=lambda one: not one.stops)
    lines = [line for one in failed for line in _lines(one)]
    return "\n".join(
        [
            f"{len(failed)} of {len(results)} checks of write {write_id} failed; nothing was published to {table}:",
            *lines,
            'Correct the data and write again. A check of severity="warn" lets a write pass.',
        ]
    )


def _lines(result: CheckResult) -> Iterator[str]:
    warning = "" if result.stops else " (warning)"
    yield f"{BORDER}{printable(result.name)}{warning}: {printable(shortened(result.message, LONGEST_SENTENCE))}"
    if result.failed_rows is None:  # not about rows: texts of errors
        texts = (text for example in result.examples for text in example.values())
        yield from (f"{BORDER * 3}{printable(line)}" for text in texts for line in text.splitlines())
        return
    several = {frozenset(example) for example in result.examples}
    for names in sorted(several, key=sorted):
        rows = [example for example in result.examples if frozenset(example) == names]
        yield from (f"{BORDER * 3}{line}" for line in _table(rows))


def _table(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Align rows of the same columns; those that a line has no room for are counted."""
    names = list(rows[0])
    cells = [[_cell(name) for name in names], *([_cell(row[name]) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    fitting = max(1, sum(sum(widths[: at + 1]) + 2 * at <= LONGEST_LINE for at in range(len(widths))))
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line[:fitting], widths, strict=False)).rstrip()
        for line in cells
    ]
    hidden = len(names) - fitting
    return [*lines, f"… and {hidden:,} more columns"] if hidden else lines


def _cell(text: str) -> str:
    return shortened(printable(shortened(text, LONGEST_VALUE)), LONGEST_VALUE)
